"""``tagloom lm train``: count, smooth, save."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from tagloom.checks import plural
from tagloom.cli.lm.texts import format_of, read_lines, read_text
from tagloom.cli.mistakes import named
from tagloom.cli.options import model_options
from tagloom.cli.train import check_writable
from tagloom.cli.wording import size
from tagloom.language import NGramModel
from tagloom.sequences import FORMATS, stream
from tagloom.sequences.files import split_suffix


def _read_counts(_ctx: Any, _option: Any, text: str | None) -> list[int] | int:
    if text is None:
        return 1
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of integers, such as 1,1,2.") from None


@click.command(
    epilog="""\b
Examples:
  tagloom lm train text.txt -o english.tagloom
  tagloom lm train text.txt --order 2 --smoothing witten-bell -o english.arpa.gz
  tagloom lm train train.conllu --dev dev.conllu --min-counts 1,1,2 -o english.tagloom
"""
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="Where to save. Names that end in .arpa or .arpa.gz make an ARPA file.",
)
@click.option(
    "--min-counts",
    metavar="N,N,...",
    callback=_read_counts,
    help="Occurrences that an n-gram of each length needs.",
)
@click.option("--vocabulary", metavar="FILE", help="The words to distinguish, one per line.")
@click.option(
    "--prune",
    type=float,
    metavar="T",
    help="Drop n-grams that change perplexity by a factor below 1 + T.",
)
@click.option("--dev", metavar="FILE", help="Report the perplexity of this text.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(FORMATS)),
    help="Format of the files; by their names, or text.",
)
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of the files.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing.")
def train(
    files: tuple[str, ...],
    output: str,
    min_counts: list[int] | int,
    vocabulary: str | None,
    prune: float | None,
    dev: str | None,
    format_: str | None,
    encoding: str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Count the n-grams of FILE..., smooth them, and save a model.

    Files are read piece by piece, and may be larger than memory; - is stdin.
    """
    check_writable(output)
    words = None if vocabulary is None else _read_words(vocabulary, encoding)
    model = NGramModel(min_counts=min_counts, vocabulary=words, **options)
    formats = {format_of(path, format_) for path in files}
    if formats == {"text"}:
        model.fit_files(*files, encoding=encoding)
    else:
        model.fit(
            sentence
            for path in files
            for sentence in stream(path, format_of(path, format_), encoding=encoding)
        )
    if prune is not None:
        with named({"threshold": "prune"}):
            model = model.prune(prune)
    if split_suffix(output)[0] == ".arpa":
        model.to_arpa(output)
    else:
        model.save(output)
    summary = {
        "order": model.order,
        "words": len(model.vocabulary_),
        "ngrams": model.ngram_counts_,
        "bytes": os.path.getsize(output) if os.path.isfile(output) else None,
        **model.training_,
    }
    if dev is not None:
        summary["perplexity"] = model.perplexity(read_text(dev, model, encoding, format_))
    if as_json:
        click.echo(json.dumps(summary))
    elif not quiet:
        _show(summary)


def _read_words(path: str, encoding: str) -> list[str]:
    lines = (line.text.strip() for batch in read_lines(path, encoding) for line in batch)
    return [line for line in lines if line]


def _show(summary: dict[str, Any]) -> None:
    rows = {
        "learnt from": f"{plural(summary['sentences'], 'sentence')}, "
        f"{plural(summary['tokens'], 'token')}",
        "words": f"{summary['words']:,}",
        "n-grams": ", ".join(f"{n:,}" for n in summary["ngrams"]),
        "time": f"{summary['seconds']} s",
    }
    if summary["bytes"] is not None:
        rows["file"] = size(summary["bytes"])
    if "perplexity" in summary:
        rows["perplexity"] = f"{summary['perplexity']:.2f}"
    for name, value in rows.items():
        click.echo(f"{name:12}{value}")


train.params += list(model_options(NGramModel))
