"""How commands word sizes and lists in what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def size(n_bytes: int) -> str:
    """Write the size of a file: ``4.2 MB``, or ``27 kB`` for a small one."""
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


def some(names: Sequence[Any], word: str = "and") -> str:
    """Name labels in a message: all if they are few."""
    if len(names) > 4:
        return ", ".join(map(repr, names[:3])) + f" {word} {len(names) - 3} others"
    *first, last = map(repr, names)
    return f"{', '.join(first)} {word} {last}" if first else last
