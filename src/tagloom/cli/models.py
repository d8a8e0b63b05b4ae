"""Model files, as all commands load them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tagloom import storage
from tagloom.errors import ModelFileError

if TYPE_CHECKING:
    from tagloom.models import Tagger


def is_model(path: str) -> bool:
    """Whether a file is a model, by its first bytes, or by its suffix if those are damaged."""
    from tagloom.models.files import is_foreign

    if path == "-":
        return False
    return storage.is_model(path) or os.path.splitext(path)[1] == ".tagloom" or is_foreign(path)


def load_model(
    path: str, *, verify: bool | None = None, source: str = "-", any_kind: bool = False
) -> Tagger:
    """Load a tagger; ``source`` is the file that it will label.

    With ``any_kind`` the model need not be a tagger.

    Raises
    ------
    ModelFileError
        If the file is not a model, or is damaged.
    click.UsageError
        If the two arguments were swapped.
    """
    from tagloom.models import Tagger, load

    if path.startswith(("http://", "https://")):
        raise ModelFileError(
            expected="the name of a model file",
            found=f"{path}, which is on a server",
            hint="Only tagloom tag calls servers.",
        )
    if is_model(source) and not is_model(path):
        import click  # here, for a quick start

        context = click.get_current_context(silent=True)
        command = "tagloom tag" if context is None else context.command_path
        raise click.UsageError(f"The model comes first: {command} {source} {path}.")
    if path == "-":
        raise ModelFileError(
            expected="the name of a model file, which is memory-mapped", found="-, which is stdin"
        )
    return load(path, verify=verify) if any_kind else Tagger.load(path, verify=verify)
