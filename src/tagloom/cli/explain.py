"""``tagloom explain``: explain why each token gets its label."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tagloom.cli.models import load_model
from tagloom.cli.pages import document
from tagloom.cli.reading import Reading, reading_options
from tagloom.sequences.files import open_output

if TYPE_CHECKING:
    from tagloom.models import Explanation


@click.command(
    epilog="""\b
Examples:
  echo "They can fish ." | tagloom explain pos.tagloom --format text
  tagloom explain pos.tagloom text.conll --top 3
  tagloom explain pos.tagloom text.conll --html -o why.html
"""
)
@click.argument("model")
@click.argument("source", metavar="[INPUT]", default="-")
@click.option(
    "-o", "--output", default="-", metavar="FILE", help="File to write; stdout by default."
)
@click.option(
    "--top", default=8, show_default=True, type=click.IntRange(1), help="Reasons per token."
)
@click.option("--html", "as_html", is_flag=True, help="Write an HTML page.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per sentence.")
@reading_options
@click.option("--quiet", "-q", is_flag=True, help="Do not print what was guessed.")
def command(
    model: str,
    source: str,
    output: str,
    top: int,
    as_html: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Explain why MODEL gives the tokens of INPUT their labels; - is stdin.

    For each token: its label and probability, its label on the best path that labels it
    differently, and the features and transitions that decide between the two paths.
    """
    if as_html and as_json:
        raise click.UsageError("--html and --json exclude each other.")
    tagger = load_model(model, source=source)
    reading = Reading.of(options)
    sentences, notice = reading.stream_like(tagger, source)
    if notice and not quiet:
        click.echo(notice, err=True)
    explanations = (tagger.explain(s) for batch in sentences.batches() for s in batch)
    with open_output(output) as out:
        if as_html:
            body = "".join(_section(explanation, top) for explanation in explanations)
            out.write(document("Why these labels", body).encode())
            return
        for piece in _lines(explanations, top, as_json):
            out.write(piece.encode())
            out.flush()


def _lines(explanations: Iterator[Explanation], top: int, as_json: bool) -> Iterator[str]:
    """Yield each explanation as it is computed: as one line of JSON, or as tables."""
    for i, explanation in enumerate(explanations):
        if as_json:
            yield json.dumps(explanation.to_dict(), ensure_ascii=False) + "\n"
        else:
            yield ("\n\n" if i else "") + explanation.to_text(top) + "\n"


def _section(explanation: Explanation, top: int) -> str:
    from html import escape

    return f"<h2>{escape(' '.join(explanation.tokens))}</h2>\n{explanation.to_html(top)}\n"
