"""The bytes of a foreign model, their name in errors, and limits on what they may claim.

Every reader checks each number against the length of the file before it allocates or indexes.
"""

from __future__ import annotations

import os
from typing import Any, TypeAlias

from tagloom import checks
from tagloom.errors import ModelFileError

#: A path, the bytes of a file, or a file object opened for reading bytes.
Source: TypeAlias = Any

_AGAIN = "Copy the file again, or write it again with the tool that made it."
# Label pairs have a dense table of float64. A genuine model has far more bytes than labels, so this
# limit never applies to one; a forged file of a few MB could otherwise claim gigabytes.
_TABLE_LEAST, _TABLE_RATIO = 1 << 26, 64
_MOST_LABELS = 0xFFFF


def read_bytes(source: Source, where: str | None = None) -> tuple[bytes, str]:
    """Return the contents of a source, and its name in errors.

    Raises
    ------
    ModelFileError
        If it is neither a path, bytes nor a file opened in binary mode.
    OSError
        If the file cannot be read.
    """
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            return file.read(), where or str(os.fspath(source))
    where = where or str(getattr(source, "name", "<bytes>"))
    data = source.read() if hasattr(source, "read") else source
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), where
    raise ModelFileError(
        where=where,
        expected="the path of a model file, its bytes, or a file opened in binary mode",
        found=checks.show_type(data),
    )


def damaged(where: str, expected: str, found: str, hint: str = _AGAIN) -> ModelFileError:
    """Return the error for a file whose contents do not fit together."""
    return ModelFileError(where=where, expected=expected, found=found, hint=hint)


def check_labels(labels: list[str], where: str, n_bytes: int) -> tuple[str, ...]:
    """Return labels after checking that they are distinct, and that their table fits in memory.

    Raises
    ------
    ModelFileError
        If there are none, too many, or one is empty or occurs twice.
    """
    Y = len(labels)
    if not 0 < Y <= _MOST_LABELS:
        raise damaged(where, f"1 to {_MOST_LABELS:,} labels", f"{Y:,}")
    if max(_TABLE_LEAST, _TABLE_RATIO * n_bytes) < 8 * Y * Y:
        raise damaged(where, "fewer labels in a file of this size", f"{Y:,} labels")
    try:
        return tuple(checks.label_names(labels))
    except ValueError as error:
        raise damaged(where, "distinct labels that are not empty", str(error)) from error


def decode(data: bytes, where: str, encoding: str) -> str:
    """Decode text.

    Raises
    ------
    ModelFileError
        If it is in another encoding; the hint names the parameter.
    """
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ModelFileError(
            where=f"{where}, byte {error.start}",
            expected=f"text in {encoding}",
            found=checks.show(data[error.start : error.start + 8]),
            hint="Pass {encoding} of the reader in tagloom.interop.",
            options={"encoding": ...},
        ) from error
