"""``tagloom studio``: the local page, on which to see, correct, retrain and find errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tagloom.checks import plural
from tagloom.cli.models import is_model
from tagloom.cli.reading import Reading, reading_options
from tagloom.errors import MissingExtraError, ModelFileError

if TYPE_CHECKING:
    from tagloom.models import Tagger


@click.command(
    epilog="""\b
Examples:
  tagloom studio
  tagloom studio pos.tagloom
  tagloom studio train.conllu --label upos --test dev.conllu
  tagloom studio pos.tagloom train.conllu --label upos --compare other.tagloom
"""
)
@click.argument("files", nargs=-1, metavar="[MODEL] [CORPUS]")
@click.option("--test", metavar="FILE", help="Held-out data: learning curve, errors, calibration.")
@click.option("--compare", metavar="MODEL", help="A second model, to see where they differ.")
@click.option("--read-only", is_flag=True, help="Refuse edits; write no file.")
@click.option(
    "--port",
    default=0,
    show_default="any free one",
    type=click.IntRange(0, 65535),
    help="Port; 0 takes any free one.",
)
@click.option("--no-browser", is_flag=True, help="Print the URL only.")
@reading_options
def command(
    files: tuple[str, ...],
    test: str | None,
    compare: str | None,
    read_only: bool,
    port: int,
    no_browser: bool,
    **options: Any,
) -> None:
    """Open MODEL and CORPUS on a local page: see the trellis, correct labels, retrain.

    Without MODEL, a CRF is trained on CORPUS. Without CORPUS, the included corpus is opened as a
    practice copy. Edits go to CORPUS.edits.jsonl at once, and into CORPUS when you save. The page
    is served to this machine only, to whoever has the URL.
    """
    try:
        from tagloom.studio.app import COOKIE, make_app
        from tagloom.web import Access, run
    except ImportError as error:
        if isinstance(error, MissingExtraError) or error.name not in ("uvicorn", "msgspec"):
            raise
        raise MissingExtraError(
            f"the page needs the package {error.name}.",
            hint="Install it with: pip install 'tagloom[studio]'",
        ) from None
    from tagloom.studio.sessions import Session

    model, corpus = _sort_files(files)
    reading = Reading.of(options)
    session = Session(
        None if model is None else _load(model),
        model,
        corpus,
        options={name: value for name, value in vars(reading).items() if value is not None},
        test=None if test is None else reading.read(test),
        other=None if compare is None else _load(compare),
        read_only=read_only,
    )
    edited = session.edited
    if edited.is_read_only and not read_only:
        click.echo(f"{corpus} is open in {edited.journal.owner}: read-only here.", err=True)
    if edited.n_unsaved:
        click.echo(f"{plural(edited.n_unsaved, 'unsaved edit')} of {corpus} restored.", err=True)
    access = Access(cookie=COOKIE)

    def announce(url: str) -> None:
        link = f"{url}/?token={access.token}"
        click.echo(link)
        if not no_browser:
            import webbrowser

            webbrowser.open(link)

    try:
        run(make_app(session, access), port=port, announce=announce)
    finally:
        session.close()


def _sort_files(files: tuple[str, ...]) -> tuple[str | None, str | None]:
    """Return model and corpus, in whatever order they were passed."""
    models = [path for path in files if is_model(path)]
    corpora = [path for path in files if path not in models]
    if len(models) > 1 or len(corpora) > 1:
        raise click.UsageError("Pass at most one model and one corpus; --compare takes a model.")
    return models[0] if models else None, corpora[0] if corpora else None


def _load(path: str) -> Tagger:
    """Load a private copy of a model: a mapped file that is overwritten would end the process."""
    from tagloom.models import Tagger

    with open(path, "rb") as file:
        data = file.read()
    try:
        return Tagger.load(data)
    except ModelFileError as error:
        error.where = path
        raise
