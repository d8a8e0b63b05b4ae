"""``tagloom lm restore``: gaps of a text filled with the most probable words."""

from __future__ import annotations

import json
from typing import Any

import click

from tagloom.cli.lm.texts import (
    Line,
    encoding_option,
    join,
    load,
    read_lines,
    split,
    unit_option,
)
from tagloom.language import Decoding, NGramModel


def _check_gap(_ctx: Any, _option: Any, gap: str) -> str:
    if not gap.strip():
        raise click.BadParameter("a gap must be at least one character that is not a space.")
    return gap


@click.command(
    epilog="""\b
Examples:
  echo "one of _ _ ." | tagloom lm restore english.tagloom
  echo "one of NOISE ." | tagloom lm restore english.tagloom --gap NOISE --nbest 3
  echo "one of _ ." | tagloom lm restore english.tagloom --marginals 5
"""
)
@click.argument("model")
@click.argument("source", metavar="[TEXT]", default="-")
@click.option(
    "--gap",
    default="_",
    show_default=True,
    callback=_check_gap,
    help="The token that stands for a gap.",
)
@click.option("--nbest", type=click.IntRange(1), metavar="N", help="The N most probable fillings.")
@click.option(
    "--marginals",
    type=click.IntRange(1),
    metavar="N",
    help="The N most probable words of each gap.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON, an object per line.")
@unit_option
@encoding_option
def restore(
    model: str,
    source: str,
    gap: str,
    nbest: int | None,
    marginals: int | None,
    as_json: bool,
    unit: str,
    encoding: str,
) -> None:
    """Fill the gaps of TEXT with the words that are most probable together; - is stdin.

    --nbest writes N lines for each sentence, each with its probability. --marginals writes a line
    for each gap, with the probability of each word over all words in the other gaps.
    """
    lm = load(model, unit)
    for batch in read_lines(source, encoding):
        for line in batch:
            tokens = _split_at_gaps(line, lm, gap)
            with line.named():
                result = _answers(lm.decode(tokens), tokens, nbest, marginals)
            if as_json:
                click.echo(json.dumps(result, ensure_ascii=False))
            else:
                _show(result)


def _answers(
    decoding: Decoding, tokens: list[str | None], nbest: int | None, marginals: int | None
) -> dict[str, Any]:
    """Return the best filling and, if required, others and the words of each gap."""
    result: dict[str, Any] = {"text": join(decoding.tokens)}
    if nbest is not None:
        result["nbest"] = [
            {"text": join(reading.tokens), "score": reading.score, "prob": reading.prob}
            for reading in decoding.nbest(nbest)
        ]
    if marginals is not None:
        words = decoding.marginals(marginals)
        result["gaps"] = [
            {"position": t, "words": [{"word": word, "prob": prob} for word, prob in words[t]]}
            for t, token in enumerate(tokens)
            if token is None
        ]
    return result


def _show(result: dict[str, Any]) -> None:
    if "nbest" not in result:
        click.echo(result["text"])
    for reading in result.get("nbest", ()):
        click.echo(f"{reading['prob']:.4f}\t{reading['text']}")
    for gap in result.get("gaps", ()):
        shown = "  ".join(f"{word['word']} {word['prob']:.4f}" for word in gap["words"])
        click.echo(f"  {gap['position']}: {shown}")


def _split_at_gaps(line: Line, lm: NGramModel, gap: str) -> list[str | None]:
    """Split a line into tokens and gaps; in letters and bytes a gap may be part of a word."""
    if lm.unit == "words":
        return [None if token == gap else token for token in line.tokens(lm)]
    first, *parts = line.text.split(gap)
    tokens: list[str | None] = [*split(first, lm)]
    for part in parts:
        tokens += [None, *split(part, lm)]
    return tokens
