"""What commands share about model files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tagloom import storage
from tagloom.errors import ModelFileError

if TYPE_CHECKING:
    from tagloom.models import Tagger


def is_model(path: str) -> bool:
    """Whether a file is a model: by its first bytes, or by its name if these are damaged."""
    if path == "-":
        return False
    return storage.is_model(path) or os.path.splitext(path)[1] == ".tagloom"


def load_model(path: str, *, verify: bool = False) -> Tagger:
    """Read a tagger.

    Raises
    ------
    ModelFileError
        If the file is something else, or damaged.
    """
    from tagloom.models import load

    if path == "-":
        raise ModelFileError("a model cannot be read from stdin, as it is mapped. Give its name.")
    return load(path, verify=verify)
