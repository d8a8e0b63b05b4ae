"""``tagloom lm generate``: sentences drawn from a model."""

from __future__ import annotations

import click

from tagloom.cli.lm.texts import join, load, split, unit_option


@click.command(
    epilog="""\b
Examples:
  tagloom lm generate english.tagloom
  tagloom lm generate english.tagloom -n 5 --start "The market" --temperature 0.7
"""
)
@click.argument("model")
@click.option(
    "-n", "number", default=1, show_default=True, type=click.IntRange(0), help="How many sentences."
)
@click.option("--start", default="", help="How each sentence starts.")
@click.option(
    "--max-tokens",
    default=100,
    show_default=True,
    type=click.IntRange(0),
    help="End a sentence after this many tokens.",
)
@click.option(
    "--temperature", default=1.0, show_default=True, help="Below 1, probable words become more so."
)
@click.option("--random-state", type=click.IntRange(0), help="The same number, the same text.")
@unit_option
def generate(
    model: str,
    number: int,
    start: str,
    max_tokens: int,
    temperature: float,
    random_state: int | None,
    unit: str,
) -> None:
    """Write sentences drawn from MODEL."""
    import numpy as np

    lm = load(model, unit)
    rng = np.random.default_rng(random_state)
    for _ in range(number):
        text = lm.generate(
            split(start, lm), max_tokens=max_tokens, temperature=temperature, random_state=rng
        )
        click.echo(join(text))
