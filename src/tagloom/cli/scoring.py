"""What ``eval`` and ``compare`` share: options, and how they read, let models label, and print."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tagloom.cli.models import is_model, load_model
from tagloom.cli.reading import OPTIONS as READING
from tagloom.cli.reading import Reading
from tagloom.cli.wording import some
from tagloom.errors import LabelError, SentenceError
from tagloom.sequences.files import split_suffix
from tagloom.sequences.guesses import SUFFIXES

if TYPE_CHECKING:
    from tagloom.models import Tagger
    from tagloom.sequences import Corpus

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = [
    *READING,
    click.option("--strict", is_flag=True, help="Count only spans written as the scheme wants."),
    click.option("--scheme", help="bio, iob1, io, bioes or bilou; otherwise found in GOLD."),
    click.option("--spans/--no-spans", default=None, help="Score spans, or only tokens."),
    click.option("--train", metavar="FILE", help="Training file: score known and unknown words."),
    click.option("--n-bootstrap", default=1000, show_default=True, help="Resamples for intervals."),
    click.option("--random-state", default=0, show_default=True, help="Seed."),
    click.option("--json", "as_json", is_flag=True, help="Print everything as JSON."),
]


def scoring_options(command: Command) -> Command:
    """Add the options that both commands have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_gold(
    path: str, systems: Sequence[str], reading: Reading
) -> tuple[Corpus, dict[str, Tagger]]:
    """Read gold labels, as the models among the systems have learnt to read; and these models.

    Raises
    ------
    SentenceError
        If there is nothing to score.
    LabelError
        If a model has learnt none of the labels: the scores would be 0, and say nothing.
    """
    models = {system: load_model(system) for system in systems if is_model(system)}
    first = next(iter(models.values()), None)
    gold = reading.read(path) if first is None else reading.read_like(first, path)
    if gold.n_tokens == 0:
        raise SentenceError(where=gold.path, expected="at least one sentence", found="none")
    found = gold.label_counts()
    for system, tagger in models.items():
        if found and not set(found) & set(tagger.labels_.tolist()):
            raise LabelError(
                where=gold.path,
                expected=f"a label of {system}: {some(tagger.labels_.tolist())}",
                found=f"none of them, but {next(iter(found))!r}",
                hint="Is it the right column? Set {label} to choose another.",
                options={"label": ...},
            )
    return gold, models


def label_with(tagger: Tagger, gold: Corpus) -> Corpus:
    """Let a model label the sentences of a corpus."""
    predicted = gold.with_labels(tagger.predict(gold))
    predicted.notice = None
    return predicted


def read_train(path: str | None, reading: Reading) -> Corpus | None:
    """Read the training file, of which only the words matter.

    Its labels may be in another column. The options are for another format if its name says so.
    """
    if path is None:
        return None
    named = SUFFIXES.get(split_suffix(path)[0])
    if reading.format is not None and named not in (None, reading.format):
        return Reading(encoding=reading.encoding).read(path)
    return replace(reading, label=None).read(path)


def show(result: Any, files: Sequence[Corpus | None], as_json: bool) -> None:
    """Print a result for people or for machines, and on stderr what was guessed about the files.

    The guesses come last so that a mistake, which ends the command earlier, is one line.
    """
    for file in files:
        if file is not None and file.notice:
            click.echo(file.notice, err=True)
    click.echo(json.dumps(result.to_dict(), ensure_ascii=False) if as_json else str(result))
