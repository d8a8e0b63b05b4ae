"""What commands share about model files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from tagloom import storage
from tagloom.errors import ModelFileError

if TYPE_CHECKING:
    from tagloom.models import Tagger


def is_model(path: str) -> bool:
    """Whether a file is a model: by its first bytes, or by its name if these are damaged."""
    if path == "-":
        return False
    return storage.is_model(path) or os.path.splitext(path)[1] == ".tagloom"


def load_model(path: str, *, verify: bool | None = None, source: str = "-") -> Tagger:
    """Read a tagger; ``source`` is what it is given to label.

    Raises
    ------
    ModelFileError
        If the file is something else, or damaged.
    click.UsageError
        If the two were exchanged.
    """
    from tagloom.models import Tagger

    if is_model(source) and not is_model(path):
        command = click.get_current_context().command_path
        raise click.UsageError(f"The model comes first: {command} {source} {path}.")
    if path == "-":
        raise ModelFileError(
            expected="the name of a model file, which is mapped", found="-, which is stdin"
        )
    return Tagger.load(path, verify=verify)
