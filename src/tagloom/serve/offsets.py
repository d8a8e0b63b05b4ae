"""Places in a text in the units of other languages: UTF-16 code units and bytes of UTF-8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tagloom.text.cuts import code_points

UNITS: Final = ("codepoint", "utf16", "byte")


def converter(text: str, unit: str) -> Callable[[int], int]:
    """Return a function from places in characters to places in another unit.

    Parameters
    ----------
    text : str
        Without halves of surrogate pairs, which no encoding can represent.
    unit : {"codepoint", "utf16", "byte"}

    Examples
    --------
    >>> text = "🙂 é!"
    >>> [converter(text, unit)(2) for unit in UNITS]
    [2, 3, 5]
    """
    if unit == "codepoint" or text.isascii():
        return int
    codes = code_points(text)
    widths = 1 + (codes > 0xFFFF)
    if unit == "byte":
        widths = widths + (codes > 0x7F) + (codes > 0x7FF)
    places = np.concatenate([[0], np.cumsum(widths)]).tolist()
    at: Callable[[int], int] = places.__getitem__
    return at
