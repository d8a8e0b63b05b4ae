"""The common part of ``eval`` and ``compare``: options, reading, predicting and printing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tagloom.cli.models import is_model, load_model
from tagloom.cli.reading import OPTIONS as READING
from tagloom.cli.reading import Reading
from tagloom.cli.wording import some
from tagloom.errors import LabelError, SentenceError
from tagloom.records import replace
from tagloom.sequences.files import split_suffix
from tagloom.sequences.guesses import SUFFIXES

if TYPE_CHECKING:
    from tagloom.models import Tagger
    from tagloom.sequences import Corpus

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = [
    *(option.decorate for option in READING),
    click.option("--strict", is_flag=True, help="Count only spans that are legal in the scheme."),
    click.option(
        "--scheme", help="Scheme of the labels, such as bio; detected in GOLD by default."
    ),
    click.option("--spans/--no-spans", default=None, help="Score spans, or only tokens."),
    click.option("--train", metavar="FILE", help="Training file: score known and unknown words."),
    click.option("--n-bootstrap", default=1000, show_default=True, help="Samples for intervals."),
    click.option("--random-state", default=0, show_default=True, help="Seed of random draws."),
    click.option("--json", "as_json", is_flag=True, help="Print everything as JSON."),
]


def scoring_options(command: Command) -> Command:
    """Add the options of both commands."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_gold(
    path: str, systems: Sequence[str], reading: Reading, *, same_labels: bool = True
) -> tuple[Corpus, dict[str, Tagger]]:
    """Read gold labels like the first model's training data; also load the models.

    With ``same_labels`` each model must have one of the gold labels.

    Raises
    ------
    SentenceError
        If the file has no sentences.
    LabelError
        If a model has none of the gold labels, so that all scores would be 0.
    """
    models = {system: load_model(system) for system in systems if is_model(system)}
    first = next(iter(models.values()), None)
    gold = reading.read(path) if first is None else reading.read_like(first, path)
    if gold.n_tokens == 0:
        raise SentenceError(where=gold.path, expected="at least one sentence", found="none")
    gold_labels = gold.label_counts()
    for system, tagger in models.items():
        if same_labels and gold_labels and not set(gold_labels) & set(tagger.labels_.tolist()):
            raise LabelError(
                where=gold.path,
                expected=f"a label of {system}: {some(tagger.labels_.tolist())}",
                found=f"none of them, but {next(iter(gold_labels))!r}",
                hint="Is it the right column? Set {label} to choose another.",
                options={"label": ...},
            )
    return gold, models


def label_with(tagger: Tagger, gold: Corpus) -> Corpus:
    """Return a corpus with the labels that a model predicts."""
    predicted = gold.with_labels(tagger.predict(gold))
    predicted.notice = None
    return predicted


def read_train(path: str | None, reading: Reading) -> Corpus | None:
    """Read the training file, of which only the words are used.

    Its labels may be in another column. If its name implies another format, the reading options do
    not apply to it.
    """
    if path is None:
        return None
    named = SUFFIXES.get(split_suffix(path)[0])
    if named == "csv" and reading.format == "conll":  # columns separated by commas
        named = "conll"
    if reading.format is not None and named not in (None, reading.format):
        return Reading(encoding=reading.encoding).read(path)
    return replace(reading, label=None).read(path)


def show(result: Any, files: Sequence[Corpus | None], as_json: bool) -> None:
    """Print a result as text or JSON, and on stderr the guesses about the files.

    The guesses come last, so that an error, which ends the command earlier, is one line.
    """
    for file in files:
        if file is not None and file.notice:
            click.echo(file.notice, err=True)
    click.echo(json.dumps(result.to_dict(), ensure_ascii=False) if as_json else str(result))
