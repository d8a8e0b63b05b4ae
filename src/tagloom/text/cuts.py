"""Where tokens and sentences begin and end: arrays of character offsets.

A preset, or a learnt tokenizer, turns a text into `Cuts`. They hold for any text: tokens are not
empty, are in order and do not overlap, and what lies between them is blank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint32]  # the characters of a text

# The blanks of `str.split`: the largest is U+3000.
_IS_BLANK = np.array([chr(code).isspace() for code in range(0x3001)] + [False])
_NEWLINE, _FORM_FEED, _PARAGRAPH = 0x0A, 0x0C, 0x2029


class Cuts(NamedTuple):
    """The tokens and sentences of a text.

    Attributes
    ----------
    starts, ends : ndarray of int64, shape (T,)
        Token t is ``text[starts[t]:ends[t]]``.
    sentences : ndarray of int64, shape (N + 1,)
        Sentence n has the tokens ``sentences[n]`` to ``sentences[n + 1] - 1``.
    """

    starts: Int64
    ends: Int64
    sentences: Int64

    def spans(self) -> list[tuple[int, int]]:
        """Return the start and end of every token."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def shifted(self, by: int) -> Cuts:
        """Return the cuts of a text that stands ``by`` characters further on in another one."""
        return Cuts(self.starts + by, self.ends + by, self.sentences)

    def without_last_sentence(self) -> Cuts:
        """Return the cuts without the last sentence."""
        n = self.sentences[-2]
        return Cuts(self.starts[:n], self.ends[:n], self.sentences[:-1])


class Cutter(Protocol):
    """Turns a text into cuts."""

    def cut(self, text: str) -> Cuts:
        """Find the tokens and sentences of a text."""


NONE = Cuts(np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(1, np.int64))


def code_points(text: str) -> Codes:
    """Return the characters of a text as numbers; half a surrogate pair is one, too."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def is_blank(codes: Codes) -> Bools:
    """Return which characters are blank, as `str.isspace` has it."""
    if codes.dtype == np.uint8:
        return np.take(_IS_BLANK, codes)
    return np.take(_IS_BLANK, codes, mode="clip")


def pieces(codes: Codes) -> tuple[Int64, Int64]:
    """Return where the pieces between blanks start and end."""
    padded = np.ones(len(codes) + 2, np.bool_)
    padded[1:-1] = is_blank(codes)
    edges = np.flatnonzero(padded[1:] != padded[:-1])  # start, end, start, ...
    return edges[::2], edges[1::2]


def count_lines(codes: Codes, starts: Int64, ends: Int64) -> Int64:
    """Return the number of line ends after each token but the last, before the next one.

    A form feed and a paragraph separator count as two: they end a paragraph.
    """
    places = np.flatnonzero((codes == _NEWLINE) | (codes == _FORM_FEED) | (codes == _PARAGRAPH))
    weights = np.where(codes[places] == _NEWLINE, 1, 2)
    before = np.concatenate([[0], np.cumsum(weights)])  # line ends before each of them
    result: Int64 = np.diff(before[np.searchsorted(places, starts)])
    return result


def sentence_offsets(is_last: Bools, n_tokens: Int64) -> Int64:
    """Return the offsets of sentences from the pieces that end one and the tokens of each piece."""
    is_last[-1:] = True
    return np.concatenate([[0], np.cumsum(n_tokens)[is_last]])


# ---- long texts --------------------------------------------------------------------------------

#: Characters that are cut at once; a longer sentence, or a longer token, is cut here.
BLOCK = 1 << 20


def blocks(text: str, cutter: Cutter, size: int = BLOCK) -> Iterator[Cuts]:
    """Cut a text block by block, so that memory does not grow with its length.

    A block ends at a blank. Its last sentence may go on, so it is cut again with the next block.

    Parameters
    ----------
    text : str
    cutter : Cutter
    size : int
        Characters of a block. A sentence or a token that is longer is cut.

    Examples
    --------
    >>> from tagloom.text import Rules, blocks
    >>> [len(cuts.starts) for cuts in blocks("One. Two. Three. " * 10, Rules(), size=50)]
    [14, 14, 14, 14, 4]
    """
    begin = 0
    while begin < len(text):
        end = min(begin + size, len(text))
        if end < len(text):
            end = _last_blank(text, begin, end)
        cuts = cutter.cut(text[begin:end] if begin or end < len(text) else text)
        next_begin = end
        if end < len(text) and len(cuts.sentences) > 2:
            next_begin = begin + int(cuts.starts[cuts.sentences[-2]])
            cuts = cuts.without_last_sentence()
        if len(cuts.starts):
            yield cuts.shifted(begin) if begin else cuts
        begin = next_begin


def _last_blank(text: str, begin: int, end: int) -> int:
    """Return the place after the last blank of a block; its end if it has none."""
    block = text[begin:end]
    before = len(block.rstrip())
    if before < len(block):
        return end
    rest = block.rsplit(None, 1)
    return end - len(rest[1]) if len(rest) == 2 else end


def gaps(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return the text before, between and after tokens: one more than there are tokens.

    Examples
    --------
    >>> from tagloom.text import gaps
    >>> gaps("They  can't.", [(0, 4), (6, 8), (8, 11), (11, 12)])
    ['', '  ', '', '', '']
    """
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]
