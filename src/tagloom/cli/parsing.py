"""Dependency parsers on the command line: ``train parser``, and ``tag`` and ``eval`` with one."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from tagloom import models, storage
from tagloom.checks import plural
from tagloom.cli.models import is_model
from tagloom.cli.options import model_options, read_values
from tagloom.cli.reading import Reading
from tagloom.cli.wording import size
from tagloom.errors import SentenceError
from tagloom.models import Capability
from tagloom.models.files import find_kind
from tagloom.models.parser_data import DEPREL
from tagloom.sequences import Corpus, read, stream, write

if TYPE_CHECKING:
    from tagloom.models import DependencyParser

NAME = "parser"
_EXAMPLES = """\b
Examples:
  tagloom train parser train.conllu --dev dev.conllu -o english.tagloom
  tagloom train parser train.conllu -o english.tagloom --loss svm --tags upos
  tagloom tag english.tagloom tagged.conllu > parsed.conllu
  tagloom eval english.tagloom test.conllu
"""


def find_parser(path: str) -> DependencyParser | None:
    """Return the model of a file if it predicts trees."""
    if not is_model(path) or not storage.is_model(path):
        return None
    cls: Any = find_kind(str(storage.read(path, verify=False)[0].get("model")))
    if cls is None or Capability.TREES not in getattr(cls, "capabilities", ()):
        return None
    parser: DependencyParser = cls.load(path)
    return parser


def read_trees(path: str, encoding: str = "utf-8") -> Corpus:
    """Read a CoNLL-U file with heads and labels."""
    corpus = read(path, format="conllu", label=DEPREL, encoding=encoding)
    if corpus.n_tokens == 0:
        raise SentenceError(where=corpus.path, expected="at least one sentence", found="none")
    return corpus


def train_command() -> click.Command:
    """Return the command ``train parser``."""
    command = click.Command(
        NAME,
        callback=_train,
        short_help="A dependency parser.",
        help="A dependency parser: the best tree over scores of arcs, then labels.\n\n"
        "TRAIN is a CoNLL-U file with heads and labels; - is stdin. Ctrl-C saves the best model "
        "so far.",
        epilog=_EXAMPLES,
        params=[
            click.Argument(["train_file"], metavar="TRAIN"),
            click.Option(
                ["-o", "--output"], metavar="MODEL", required=True, help="File to save to."
            ),
            click.Option(
                ["--dev"], metavar="FILE", help="Development data: keep the best iteration."
            ),
            click.Option(
                ["--checkpoint"],
                metavar="FILE",
                help="Save the run to FILE, or resume it from there.",
            ),
            click.Option(["--encoding"], default="utf-8", show_default=True, help="Of the files."),
            click.Option(["--json", "as_json"], is_flag=True, help="Print the summary as JSON."),
            click.Option(["--quiet", "-q"], is_flag=True, help="Print no progress or summary."),
        ],
    )
    command.params += model_options(models.DependencyParser)
    return command


def _train(
    *,
    train_file: str,
    output: str,
    dev: str | None,
    checkpoint: str | None,
    encoding: str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Read the files, train, save, and print a summary."""
    from tagloom.cli.train import check_writable

    parser = models.DependencyParser(**read_values(models.DependencyParser, options))
    for path in (output, checkpoint):
        if path is not None:
            check_writable(path)
    corpus = read_trees(train_file, encoding)
    dev_corpus = None if dev is None else read_trees(dev, encoding)
    parser.fit(corpus, dev=dev_corpus, progress=False if quiet else None, checkpoint=checkpoint)
    parser.save(output)
    summary = {"model": "DependencyParser", "path": output, "bytes": os.path.getsize(output)}
    summary |= {"labels": len(parser.labels_), **parser.training_}
    if as_json:
        click.echo(json.dumps(summary, ensure_ascii=False))
    elif not quiet:
        click.echo(_show(summary, has_labels=bool(len(parser.labels_))))
    if summary["stopped"] == "interrupted":
        click.get_current_context().exit(130)


def _show(summary: dict[str, Any], *, has_labels: bool) -> str:
    counts = [plural(summary[f"{noun}s"], noun) for noun in ("sentence", "token")]
    measure = "LAS" if has_labels else "UAS"
    dev = summary["dev"]
    rows = [
        ("trained on", ", ".join(counts)),
        ("labels", str(summary["labels"])),
        ("iterations", str(summary["iterations"])),
        ("dev", "" if dev is None else f"{measure} {dev:.4f}"),
        ("seconds", f"{summary['seconds']:.1f}"),
        ("saved in", f"{summary['path']}, {size(summary['bytes'])}"),
    ]
    return "\n".join(f"{name:12}{value}" for name, value in rows if value)


def tag(parser: DependencyParser, source: str, output: str, reading: Reading) -> None:
    """Write the sentences of a CoNLL-U file with predicted heads and labels."""
    sentences = stream(
        source, format="conllu", label=DEPREL, labelled=False, encoding=reading.encoding
    )
    write(sentences.through(parser.annotate), output, encoding=reading.encoding)


def evaluate(
    gold: str | DependencyParser,
    other: str,
    reading: Reading,
    n_bootstrap: int,
    random_state: int,
    as_json: bool,
) -> None:
    """Score a parser on gold trees, or predicted trees against gold trees."""
    from tagloom.cli.scoring import show
    from tagloom.evaluation import evaluate_trees

    if isinstance(gold, str):
        first, second = read_trees(gold, reading.encoding), read_trees(other, reading.encoding)
        files: list[Corpus | None] = [first, second]
        predicted: Any = second
    else:
        first = read_trees(other, reading.encoding)
        files, predicted = [first], gold.predict(first)
    result = evaluate_trees(first, predicted, n_bootstrap=n_bootstrap, random_state=random_state)
    show(result, files, as_json)
