"""Cut text by rules: at blanks, then each piece between blanks by the table of patterns.

Pieces repeat, as words do, so their cuts are kept in a table. The rest is arrays, so that a token
takes a fraction of a microsecond.
"""

from __future__ import annotations

import re
from _thread import allocate_lock
from collections.abc import Iterable

import numpy as np

from tagloom.text.cuts import (
    NONE,
    Bools,
    Cuts,
    Int64,
    code_points,
    count_lines,
    pieces,
    sentence_offsets,
)
from tagloom.text.patterns import (
    ABBREVIATIONS,
    FUSED,
    HYPHENS,
    PATTERNS,
    TITLES,
    abbreviation_pattern,
)

_MANY = 1 << 16  # pieces in a table; another one is begun then
_LONG = 256  # characters of a piece that is cut by a pattern that takes linear time
_SIMPLE = re.compile(r"\w+|[^\w\s]")
_URL = re.compile(r"(?i:https?|ftp)://\S+")

# What a piece means for the sentence, as bits.
_ENDS = 1  # ends in a full stop or the like
_ENDS_LOUDLY = 2  # in ! or ?
_MAY_END = 4  # in an abbreviation that may also end a sentence
_OPENS = 8  # begins with a capital, a digit or a letter without case
_LOWER = 16  # begins with a small letter

_PLAIN_MARKS = '.,;:!?)"”'
_CLOSING = "\"'’”»)]}*>"
_OPENING = "\"'‘“«([{*<¿¡-_"
_STOPS = ".…。．।۔։።"
_LOUD = "!?！？؟"


class _Table(dict[str, int]):
    """The pieces that were met, numbered, and what is known of each of them.

    Threads may share it: entries never change, and a larger array replaces a full one.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lock = allocate_lock()
        self.n_pieces = self._n_sizes = 0
        self._first = np.empty(1024, np.int64)  # where the lengths of a piece begin
        self._n_tokens = np.empty(1024, np.int64)
        self._bits = np.empty(1024, np.int64)
        self._sizes = np.empty(1024, np.int64)  # lengths of tokens, one piece after another

    def __missing__(self, piece: str) -> int:
        lengths, bits = self._rules.cut_piece(piece)
        with self._lock:
            number, first = self.n_pieces, self._n_sizes
            if number == len(self._bits):
                self._first, self._n_tokens, self._bits = map(
                    _doubled, (self._first, self._n_tokens, self._bits)
                )
            while first + len(lengths) > len(self._sizes):
                self._sizes = _doubled(self._sizes)
            self._first[number], self._n_tokens[number] = first, len(lengths)
            self._bits[number] = bits
            self._sizes[first : first + len(lengths)] = lengths
            self.n_pieces, self._n_sizes = number + 1, first + len(lengths)
        if len(piece) <= _LONG:
            self[piece] = number
        return number

    def look_up(self, words: list[str]) -> tuple[Int64, Int64, Int64]:
        """Return tokens and bits of each piece [P], and the lengths of all their tokens [T]."""
        numbers = np.fromiter(map(self.__getitem__, words), np.int64, len(words))  # [P]
        counts = self._n_tokens[numbers]
        # The places of the lengths: those of a piece follow that of its first.
        places = np.repeat(self._first[numbers] - np.cumsum(counts) + counts, counts)
        places += np.arange(len(places))
        return counts, self._bits[numbers], self._sizes[places]


def _doubled(array: Int64) -> Int64:
    return np.concatenate([array, np.empty_like(array)])


class Rules:
    """Tokens and sentences by rules.

    Parameters
    ----------
    abbreviations : iterable of str
        Further abbreviations, with or without their full stop.
    hyphens : {"split", "keep"}
        Whether ``well-known`` is three tokens or one.
    contractions : bool
        Whether ``don't`` and ``cannot`` are two tokens.
    patterns : iterable of str
        Regular expressions of tokens that stay whole; they are tried before `PATTERNS`.

    Examples
    --------
    >>> from tagloom.text import Rules
    >>> text = "Dr. Lee didn't pay $3.50."
    >>> [text[start:end] for start, end in Rules().cut(text).spans()]
    ['Dr.', 'Lee', 'did', "n't", 'pay', '$', '3.50', '.']
    """

    def __init__(
        self,
        *,
        abbreviations: Iterable[str] = (),
        hyphens: str = "split",
        contractions: bool = True,
        patterns: Iterable[str] = (),
    ) -> None:
        further = [word.removesuffix(".") for word in abbreviations]
        known = [*TITLES, *ABBREVIATIONS, *further]
        variable = {
            "hyphenated": HYPHENS[hyphens],
            "abbreviation": abbreviation_pattern(known),
        }
        regexes = [f"(?:{regex})" for regex in patterns]
        self._has_more_patterns = bool(regexes)
        for pattern in PATTERNS:
            if contractions or not pattern.is_contraction:
                regexes.append(f"(?:{variable.get(pattern.name, pattern.regex)})")
        self._token = re.compile("|".join(regexes))
        self._fused = FUSED if contractions else {}
        self._abbreviations = frozenset(f"{word}." for word in known)
        self._titles = frozenset(f"{title}." for title in TITLES)
        self._table = _Table(self)

    def cut(self, text: str) -> Cuts:
        """Find the tokens and sentences of a text."""
        words = text.split()
        if not words:
            return NONE
        if self._table.n_pieces > _MANY:
            self._table = _Table(self)
        n_tokens, bits, sizes = self._table.look_up(words)
        codes = code_points(text)
        begins, ends = pieces(codes)  # [P]
        # Tokens lie side by side, apart from the blanks before their piece.
        token_ends = np.cumsum(sizes)
        blanks = begins - np.concatenate([[0], np.cumsum(ends - begins)[:-1]])
        token_ends += np.repeat(blanks, n_tokens)
        is_last = _sentence_ends(bits, count_lines(codes, begins, ends))
        return Cuts(token_ends - sizes, token_ends, sentence_offsets(is_last, n_tokens))

    def cut_piece(self, piece: str) -> tuple[list[int], int]:
        """Return the lengths of the tokens of a piece without blanks, and its bits."""
        lengths = self._cut_plain(piece)
        if lengths is None:
            if len(piece) <= _LONG:
                tokens = [match[0] for match in self._token.finditer(piece)]
            else:
                tokens = [piece] if _URL.fullmatch(piece) else _SIMPLE.findall(piece)
            lengths = [len(token) for token in tokens if token]
        if self._fused:
            lengths = self._cut_fused(piece, lengths)
        return lengths, self._bits(piece, lengths)

    def _cut_plain(self, piece: str) -> list[int] | None:
        """Cut a word with at most one mark after it, as most pieces are; the patterns agree."""
        if self._has_more_patterns:
            return None
        if piece.isalpha():
            return [len(piece)]
        if piece[-1] not in _PLAIN_MARKS or not piece[:-1].isalpha():
            return None
        is_short = piece[-1] == "." and (len(piece) == 2 or piece in self._abbreviations)
        return None if is_short else [len(piece) - 1, 1]

    def _cut_fused(self, piece: str, lengths: list[int]) -> list[int]:
        """Cut words such as cannot."""
        result, begin = [], 0
        for length in lengths:
            cut = 0 if length > 8 else self._fused.get(piece[begin : begin + length].lower(), 0)
            result += [cut, length - cut] if cut else [length]
            begin += length
        return result

    def _bits(self, piece: str, lengths: list[int]) -> int:
        """Return what a piece means for the sentence."""
        begin = piece[0] if piece[0].isalnum() else piece.lstrip(_OPENING)[:1]
        bits = _LOWER if begin.islower() else _OPENS if begin.isalnum() else 0
        if piece[-1].isalnum():
            return bits
        inner = piece.rstrip(_CLOSING)
        if not inner or inner[-1] not in _STOPS:
            return bits | _ENDS_LOUDLY if inner and inner[-1] in _LOUD else bits
        end = len(piece)
        for length in reversed(lengths):  # the token with the full stop
            end -= length
            if end < len(inner):
                break
        token = piece[end : len(inner)]
        if len(token) == 1 or not token[0].isalnum():
            return bits | _ENDS
        is_initial = len(token) == 2
        return bits if is_initial or token in self._titles else bits | _MAY_END


def _sentence_ends(bits: Int64, n_lines: Int64) -> Bools:
    """Return after which pieces a sentence ends; the last one always ends one."""
    now, after = bits[:-1], bits[1:]
    opens = (after & _OPENS) > 0
    is_last = np.ones(len(bits), np.bool_)
    is_last[:-1] = ((now & (_ENDS | _MAY_END)) > 0) & opens
    is_last[:-1] |= ((now & _ENDS_LOUDLY) > 0) & (opens | ((after & _LOWER) > 0))
    is_last[:-1] |= n_lines > 1
    return is_last
