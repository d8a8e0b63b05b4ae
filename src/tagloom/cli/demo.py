"""``tagloom demo``: the worked example in the terminal, and the corpus that is shipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tagloom.trellis import NBest

WORDS = ["they", "can", "fish"]
NEXT = """
  tagloom check FILES            what is wrong in corpora of your own
  tagloom convert IN OUT         other formats, other label schemes
  tagloom eval GOLD PREDICTED    scores with intervals
  python                         import tagloom as tl; help(tl.Trellis)"""


@click.command()
def command() -> None:
    """Show the worked example as a trellis, and check the shipped corpus."""
    show_trellis()
    show_corpus()
    click.echo("\n" + heading("What to type next") + NEXT)


def show_trellis() -> None:
    """Print what one trellis answers about three words."""
    import tagloom as tl

    tables = tl.datasets.classic("they-can-fish")
    trellis = tl.Trellis(
        tables.emit(WORDS), tables.trans, tables.start, tables.stop, labels=tables.labels
    )
    click.echo(heading("they can fish: is each word a noun (N) or a verb (V)?"))
    click.echo("In each node stands the score of the best path that ends there.\n")
    click.echo(trellis.draw(tokens=WORDS, color=has_colour()))

    click.echo("\n" + heading("The best four of its 8 paths: trellis.nbest(4)"))
    click.echo("  path    score  probability")
    show_paths(tables.labels, trellis.nbest(4))

    click.echo("\n" + heading("The probability of each label: trellis.marginals()"))
    click.echo(" " * 7 + "".join(f"{word:>8}" for word in WORDS))
    for label, row in zip(tables.labels, trellis.marginals().T, strict=True):
        click.echo(f"  {label:5}" + "".join(f"{prob:8.4f}" for prob in row))

    click.echo("\n" + heading("If fish must be a verb: trellis.constrain(forced={2: 'V'})"))
    show_paths(tables.labels, trellis.constrain(forced={2: "V"}).nbest(2))


def show_paths(labels: Sequence[str], best: NBest) -> None:
    """Print paths with their scores, and with bars as long as their probabilities."""
    for path, score, prob in zip(*best, strict=True):
        names = " ".join(labels[y] for y in path)
        click.echo(f"  {names}  {score:5.0f}  {prob:11.4f}  {'█' * round(24 * prob)}".rstrip())


def show_corpus() -> None:
    """Print what ``tagloom check`` sees in the English corpus."""
    import tagloom as tl
    from tagloom.cli.check import check_corpus, read_report

    click.echo("\n" + heading("The English corpus that comes along: tl.datasets.load('english')"))
    folder = Path(tl.datasets.__file__).parent / "english"
    for split in ("train", "dev", "test"):
        report, corpus = read_report(str(folder / f"{split}.conll"), "conll", "upos", "utf-8")
        report.problems += check_corpus(corpus, report, None, rare=0)
        found = f"{len(report.problems)} problems" if report.problems else "nothing wrong"
        click.echo(
            f"  {split:5}  {report.sentences:3} sentences  {report.tokens:5,} tokens  "
            f"{len(report.labels)} parts of speech  {found}"
        )


def heading(text: str) -> str:
    """Return a heading, bold in a terminal."""
    return click.style(text, bold=True) if has_colour() else text


def has_colour() -> bool:
    """Whether stdout is a terminal whose user has not asked for plain text."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
