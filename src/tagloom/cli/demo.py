"""``tagloom demo``: the worked example, as a trellis in the terminal."""

from __future__ import annotations

import click


@click.command()
def command() -> None:
    """Show the worked example as a trellis."""
    click.echo("they can fish")
