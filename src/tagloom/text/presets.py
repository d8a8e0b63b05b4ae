"""The presets of a tokenizer by name."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import numpy as np

from tagloom.text.cuts import (
    NONE,
    Bools,
    Codes,
    Cuts,
    Cutter,
    code_points,
    count_lines,
    is_blank,
    pieces,
    sentence_offsets,
)
from tagloom.text.rules import Rules

_ENDS = np.array(sorted(map(ord, "。．！？｡!?…")), np.uint32)
_CLOSING = np.array(sorted(map(ord, "」』）〕】》〉”’\"')]")), np.uint32)
_JOINER = 0x200D


class Whitespace:
    r"""Tokens are what stands between blanks; sentences are lines.

    Examples
    --------
    >>> from tagloom.text import Whitespace
    >>> Whitespace().cut("Fish swim .\nThey can").spans()
    [(0, 4), (5, 9), (10, 11), (12, 16), (17, 20)]
    """

    def cut(self, text: str) -> Cuts:
        """Find the tokens and sentences of a text."""
        codes = code_points(text)
        starts, ends = pieces(codes)
        if not len(starts):
            return NONE
        is_last = np.append(count_lines(codes, starts, ends) > 0, True)
        return Cuts(starts, ends, sentence_offsets(is_last, np.ones(len(starts), np.int64)))


class Characters:
    """Tokens are characters, with the marks that combine with them; for Chinese and Japanese.

    A sentence ends at the end of a line, and after ``。``, ``！``, ``？`` and the like with the
    closing marks that follow.

    Examples
    --------
    >>> from tagloom.text import Characters
    >>> cuts = Characters().cut("你好。再见！")
    >>> len(cuts.starts), cuts.sentences
    (6, array([0, 3, 6]))
    """

    def cut(self, text: str) -> Cuts:
        """Find the tokens and sentences of a text."""
        codes = code_points(text)
        blank = is_blank(codes)
        joined = _joined(codes)  # to the character before
        begins = ~blank & ~(joined & np.append(False, ~blank[:-1]))
        starts = np.flatnonzero(begins)
        if not len(starts):
            return NONE
        edges = np.flatnonzero(begins | blank)
        following = np.append(edges[1:], len(codes))
        ends = following[begins[edges]]
        is_last = np.append(count_lines(codes, starts, ends) > 0, True)
        first = codes[starts]
        stops, closing = np.isin(first, _ENDS), np.isin(first, _CLOSING)
        is_last[:-1] |= _ends_run(stops, closing)[:-1]
        return Cuts(starts, ends, sentence_offsets(is_last, np.ones(len(starts), np.int64)))


def _joined(codes: Codes) -> Bools:
    """Return which characters combine with the one before: marks, and what follows a joiner."""
    distinct, which = np.unique(codes, return_inverse=True)
    combines = [c == _JOINER or unicodedata.category(chr(c))[0] == "M" for c in distinct.tolist()]
    joined: Bools = np.array(combines, np.bool_)[which.reshape(len(codes))]
    joined[1:] |= codes[:-1] == _JOINER
    return joined


def _ends_run(stops: Bools, closing: Bools) -> Bools:
    """Return the last token of each run of stops with the closing marks that follow it."""
    # A closing mark continues a run only directly after it: the last token that is not a closing
    # mark must be a stop.
    places = np.arange(len(stops))
    last_other = np.maximum.accumulate(np.where(closing, -1, places))
    in_run = stops[np.maximum(last_other, 0)] & (last_other >= 0)
    result: Bools = in_run & ~np.append(in_run[1:], False)
    return result


#: The presets by name.
PRESETS: dict[str, Callable[[], Cutter]] = {
    "rules": Rules,
    "whitespace": Whitespace,
    "characters": Characters,
}
