"""``tagloom lm score``: log-probabilities of sentences and tokens, perplexity."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import click

from tagloom.checks import plural
from tagloom.cli.lm.texts import encoding_option, load, read_lines, read_text, unit_option
from tagloom.language import NGramModel
from tagloom.language.tables import UNKNOWN


@click.command(
    epilog="""\b
Examples:
  tagloom lm score english.tagloom text.txt
  tagloom lm score english.tagloom text.txt --total --json
  echo "They can fish ." | tagloom lm score english.tagloom --tokens
"""
)
@click.argument("model")
@click.argument("source", metavar="[TEXT]", default="-")
@click.option("--tokens", "by_token", is_flag=True, help="Write a line for each token.")
@click.option("--total", is_flag=True, help="Write only the perplexity of the whole text.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, an object per line.")
@unit_option
@encoding_option
def score(
    model: str, source: str, by_token: bool, total: bool, as_json: bool, unit: str, encoding: str
) -> None:
    """Write the log-probability of each sentence of TEXT before it; - is stdin.

    Logarithms are natural. --tokens writes token, log-probability and length of the n-gram found.
    --total writes the perplexity with and without unknown words. In JSON, infinity is null.
    """
    lm = load(model, unit)
    if total:
        _score_total(lm, read_text(source, lm, encoding, "text"), as_json)
        return
    for batch in read_lines(source, encoding):
        rows = [line.tokens(lm) for line in batch]
        if by_token:
            for tokens in rows:
                _score_tokens(lm, tokens, as_json)
            continue
        for line, log_prob in zip(batch, lm.log_probs(rows).tolist(), strict=True):
            if as_json:
                _write_json({"log_prob": log_prob, "text": line.text})
            else:
                click.echo(f"{log_prob:.4f}\t{line.text}")


def _write_json(value: Any) -> None:
    """Write a line of JSON, in which infinity is null."""
    click.echo(json.dumps(_finite(value), ensure_ascii=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def _score_tokens(lm: NGramModel, tokens: Sequence[str], as_json: bool) -> None:
    scores = lm.score_tokens(tokens)
    rows = zip(
        scores.tokens,
        scores.log_probs.tolist(),
        scores.lengths.tolist(),
        scores.is_unknown.tolist(),
        strict=True,
    )
    if as_json:
        names = ("token", "log_prob", "ngram", "unknown")
        _write_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    for token, log_prob, n, is_unknown in rows:
        click.echo(f"{token}\t{log_prob:.4f}\t{n}" + "\tunknown" * is_unknown)
    click.echo()


def _score_total(lm: NGramModel, text: list[Sequence[str]], as_json: bool) -> None:
    perplexity, without = lm.perplexity(text), lm.perplexity(text, unknown=False)
    n_tokens = sum(map(len, text))
    ids, _ = lm.tables_.ids(text)
    n_unknown = int((ids <= UNKNOWN).sum())
    if as_json:
        totals = {
            "perplexity": perplexity,
            "perplexity_without_unknown": without,
            "sentences": len(text),
            "tokens": n_tokens,
            "unknown": n_unknown,
        }
        _write_json(totals)
        return
    click.echo(f"perplexity  {perplexity:.2f}")
    click.echo(f"            {without:.2f} without unknown words")
    counts = f"{plural(len(text), 'sentence')}, {plural(n_tokens, 'token')}"
    click.echo(f"text        {counts}, {n_unknown:,} unknown")
