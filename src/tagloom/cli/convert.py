"""``tagloom convert``: convert from one format or label scheme to another."""

from __future__ import annotations

import click

from tagloom.cli.mistakes import named
from tagloom.cli.reading import as_column, as_names, as_sep
from tagloom.cli.running import on_close
from tagloom.sequences import FORMATS, Corpus, stream, write

# The options for parameters of `read` and of `write` whose names differ.
_READ = {"format": "from_"}
_WRITTEN = {"format": "to"} | {
    name: f"to_{name}" for name in ("label", "columns", "sep", "unknown", "encoding")
}
_formats = click.Choice(list(FORMATS))


@click.command(
    epilog="""\b
Examples:
  tagloom convert train.conllu train.jsonl --label upos
  tagloom convert ner.conll ner-bioes.conll --scheme-to bioes
  tagloom convert train.conllu - --to conll --to-columns token,xpos,label
"""
)
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option("--from", "from_", type=_formats, help="Format of IN; guessed by default.")
@click.option("--label", help="Column or key of the labels, such as upos or upos+feats.")
@click.option("--token", help="Column or key of the tokens.")
@click.option("--columns", help="Names of IN's columns, such as form,pos,chunk.")
@click.option(
    "--header/--no-header", default=None, help="Whether IN's first row names its columns."
)
@click.option("--sep", help=r"Column separator of IN; \t for a tab.")
@click.option("--sentence", help="Column of IN, a table, that names the sentence.")
@click.option(
    "--label-names",
    help="Names of numbered labels in IN: O,B-PER,I-PER or a file such as dataset_info.json.",
)
@click.option("--unknown", help="Value that means an unknown label in IN.")
@click.option("--encoding", default="utf-8", show_default=True, help="Encoding of IN.")
@click.option("--to", type=_formats, help="Format of OUT; by default from its name, or as IN.")
@click.option("--to-label", help="Column or key for the labels in OUT.")
@click.option("--to-columns", help="Columns to write, such as token,xpos,label.")
@click.option("--to-sep", help=r"Column separator of OUT; \t for a tab.")
@click.option("--to-unknown", help="Value to write for an unknown label.")
@click.option("--to-encoding", default="utf-8", show_default=True, help="Encoding of OUT.")
@click.option("--scheme-from", help="Label scheme of IN; detected by default.")
@click.option("--scheme-to", help="Label scheme of OUT, such as bio, bioes, bmes or ioe2.")
@click.option("--repair", is_flag=True, help="Read illegal labels as conlleval does.")
@click.option("--quiet", "-q", is_flag=True, help="Do not print what was guessed.")
def command(
    source: str,
    target: str,
    from_: str | None,
    label: str | None,
    token: str | None,
    columns: str | None,
    header: bool | None,
    sep: str | None,
    sentence: str | None,
    label_names: str | None,
    unknown: str | None,
    encoding: str,
    to: str | None,
    to_label: str | None,
    to_columns: str | None,
    to_sep: str | None,
    to_unknown: str | None,
    to_encoding: str,
    scheme_from: str | None,
    scheme_to: str | None,
    repair: bool,
    quiet: bool,
) -> None:
    """Convert IN to OUT; - is stdin or stdout, and .gz, .xz and .zst are compressed.

    Everything that both formats can hold is kept; within one format the file is reproduced byte for
    byte. Formats are converted in constant memory; a new label scheme needs the whole corpus.
    """
    if (scheme_from or repair) and not scheme_to:
        raise click.UsageError("--scheme-from and --repair need --scheme-to.")
    with named(_READ):
        sentences = stream(
            source,
            from_,
            label=as_column(label),
            token=as_column(token),
            columns=columns.split(",") if columns else None,
            header=header,
            sep=as_sep(sep),
            sentence=as_column(sentence),
            label_names=as_names(label_names),
            unknown=unknown,
            encoding=encoding,
        )
    on_close(sentences.close)  # also if the command fails
    if sentences.notice and not quiet:
        click.echo(sentences.notice, err=True)
    if scheme_to:
        with named(_READ):
            corpus = sentences.read()
        corpus = _convert_scheme(corpus, scheme_from, scheme_to, repair)
    with named(_READ), named(_WRITTEN, unless=sentences.path):
        write(
            corpus if scheme_to else sentences,
            target,
            to,
            label=to_label,
            columns=to_columns.split(",") if to_columns else None,
            sep=as_sep(to_sep),
            unknown=to_unknown,
            encoding=to_encoding,
        )
    for problem in sentences.problems:
        click.echo(problem, err=True)


def _convert_scheme(corpus: Corpus, source: str | None, target: str, repair: bool) -> Corpus:
    from tagloom.labels import convert, detect
    from tagloom.labels.validity import unknown_scheme

    if source is None:
        detection = detect(corpus)
        if len(detection.fits) != 1:
            raise unknown_scheme(detection, "scheme_from")
        source = detection.scheme
    with named({"source": "scheme_from", "target": "scheme_to"}):
        return corpus.with_labels(convert(corpus, source, target, repair=repair))
