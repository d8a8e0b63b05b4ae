"""``tagloom compare``: test whether two systems differ."""

from __future__ import annotations

from typing import Any

import click

from tagloom.cli.reading import Reading
from tagloom.cli.scoring import (
    label_with,
    read_gold,
    read_train,
    scoring_options,
    show,
)


@click.command(
    epilog="""\b
Examples:
  tagloom compare test.conllu pos.tagloom small.tagloom
  tagloom compare test.conllu tagged.conllu pos.tagloom --json
"""
)
@click.argument("gold")
@click.argument("a")
@click.argument("b")
@click.option("--n-trials", default=10_000, show_default=True, help="Trials of the paired test.")
@scoring_options
def command(
    gold: str,
    a: str,
    b: str,
    n_trials: int,
    strict: bool,
    scheme: str | None,
    spans: bool | None,
    train: str | None,
    n_bootstrap: int,
    random_state: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Test whether A and B, files or models, differ in quality on GOLD.

    The test is approximate randomisation over sentences; p is the probability of a difference at
    least this large between two equally good systems.
    """
    from tagloom.evaluation import compare

    reading = Reading.of(options)
    corpus, models = read_gold(gold, [a, b], reading)
    files = [
        corpus,
        *(
            label_with(models[path], corpus) if path in models else reading.read(path)
            for path in (a, b)
        ),
    ]
    words = read_train(train, reading)
    result = compare(
        *files,
        strict=strict,
        scheme=scheme,
        spans=spans,
        train=words,
        n_trials=n_trials,
        n_bootstrap=n_bootstrap,
        random_state=random_state,
    )
    show(result, [*files, words], as_json)
