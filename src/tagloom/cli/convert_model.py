"""``tagloom convert-model``: convert model files of other tools, and back."""

from __future__ import annotations

import os

import click

from tagloom.cli.models import load_model
from tagloom.cli.wording import size
from tagloom.errors import ModelFileError


@click.command(
    "convert-model",
    epilog="""\b
Examples:
  tagloom convert-model pos.crfsuite converted.tagloom
  tagloom convert-model pos.wapiti converted.tagloom
  tagloom convert-model dicts.tagloom converted.crfsuite
""",
)
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--to",
    type=click.Choice(["tagloom", "crfsuite"]),
    help="Format of OUT; by default crfsuite if its name ends in .crfsuite, otherwise tagloom.",
)
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of IN's text.")
@click.option("--quiet", "-q", is_flag=True, help="Do not print what was converted.")
def command(source: str, target: str, to: str | None, encoding: str, quiet: bool) -> None:
    """Convert the model IN to OUT.

    IN is a model of tagloom, CRFsuite, CRF++ (the text of crf_learn -t) or Wapiti, recognised by
    its contents. OUT predicts the same labels with the same probabilities.
    """
    from tagloom.interop import read_foreign, to_crfsuite
    from tagloom.models.linear import LinearTagger

    tagger = read_foreign(source, encoding=encoding) if encoding != "utf-8" else load_model(source)
    if to is None:
        to = "crfsuite" if os.path.splitext(target)[1] == ".crfsuite" else "tagloom"
    if to == "tagloom":
        tagger.save(target)
    elif isinstance(tagger, LinearTagger):
        to_crfsuite(tagger, target)
    else:
        raise ModelFileError(
            where=source,
            expected="a linear tagger, such as a CRF, for the format of CRFsuite",
            found=f"a model of kind {tagger.kind}",
        )
    if not quiet:
        tool = tagger.describe()["training"].get("tool", "tagloom")
        click.echo(
            f"{tagger.kind} of {tool}, {len(tagger.labels_)} labels → {target}, "
            f"{size(os.path.getsize(target))}",
            err=True,
        )
