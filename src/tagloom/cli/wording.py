"""File sizes and lists, as the commands print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def size(n_bytes: int) -> str:
    """Format the size of a file.

    Examples
    --------
    >>> size(4_200_000), size(27_000)
    ('4.2 MB', '27 kB')
    """
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


def some(names: Sequence[Any], word: str = "and") -> str:
    """List names in a message: up to four, otherwise three and the number of others.

    Examples
    --------
    >>> some(["A", "B"]), some("ABCDE")
    ("'A' and 'B'", "'A', 'B', 'C' and 2 others")
    """
    if len(names) > 4:
        return ", ".join(map(repr, names[:3])) + f" {word} {len(names) - 3} others"
    *first, last = map(repr, names)
    return f"{', '.join(first)} {word} {last}" if first else last
