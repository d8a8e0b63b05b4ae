"""The fitted state of an n-gram model: a trie of n-grams with their probabilities, and its words.

The arrays lie as in the native core (``ngrams.hpp`` draws them) and in the model file, from which
they are mapped. Everything here is read-only and safe to share between threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import ModelFileError, SentenceError
from tagloom.storage import File, pack_bytes, unpack_bytes
from tagloom.trellis.backoff import BackoffArcs, Slots

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

UNKNOWN, START, END = 0, 1, 2  # numbers of the words that every model has
SPECIAL = ("<unk>", "<s>", "</s>")

_TYPES = {
    "level": np.int64,
    "word": np.int32,
    "first": np.int32,
    "suffix": np.int32,
    "log_prob": np.float64,
    "backoff": np.float64,
}


class NGramTables:
    """N-grams, their probabilities and back-off weights, and the vocabulary.

    Parameters
    ----------
    arrays : dict of str to ndarray
        ``level`` [order + 2], ``word`` [M], ``first`` [H + 1], ``suffix`` [M], ``log_prob`` [M],
        ``backoff`` [H] for M n-grams, H of them shorter than the order.
    vocabulary : Index
        The V words; the first three are those of ``SPECIAL``.
    has_unknown : bool
        Whether ``<unk>`` has a probability.

    Raises
    ------
    ValueError
        If the arrays do not fit each other.
    """

    def __init__(
        self, arrays: dict[str, npt.NDArray[Any]], vocabulary: _native.Index, has_unknown: bool
    ) -> None:
        self.native = _native.NGrams(**arrays)
        self.arrays = arrays
        self.vocabulary = vocabulary
        self.has_unknown = has_unknown
        if vocabulary.size != self.n_words:
            raise ValueError(f"{vocabulary.size} words, but {self.n_words} 1-grams")

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.arrays["level"]) - 2

    @property
    def n_words(self) -> int:
        """V, the size of the vocabulary with ``<unk>``, ``<s>`` and ``</s>``."""
        return int(self.arrays["level"][2]) - 1

    @property
    def sizes(self) -> list[int]:
        """Number of n-grams of each length [order]; an impossible ``<unk>`` does not count."""
        sizes = np.diff(self.arrays["level"][1:]).tolist()
        sizes[0] -= not self.has_unknown
        return [int(size) for size in sizes]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words by number [V]."""
        names, offsets = self.vocabulary.names()
        return tuple(names[begin:end].decode() for begin, end in pairwise(offsets.tolist()))

    @cached_property
    def arcs(self) -> BackoffArcs:
        """The n-grams as an automaton, for decoding."""
        return BackoffArcs(self.arrays)

    @cached_property
    def slots(self) -> Slots:
        """Candidates: set 0 is any word but ``SPECIAL``, set 1 + w the word w alone."""
        V, first = self.n_words, len(SPECIAL)
        start = np.concatenate([[0], V - first + np.arange(V + 1)])
        labels = np.concatenate([np.arange(first, V), np.arange(V)])
        return Slots(V, start, labels, np.zeros(len(labels)))

    def ids(self, sentences: Sequence[Sequence[Any]], first: int = 0) -> tuple[Int32, Int64]:
        """Return the words of sentences as numbers [tokens], and offsets [N + 1].

        An unknown word is ``UNKNOWN``, or −1 if the vocabulary is closed.

        Raises
        ------
        SentenceError
            If something is not a str; sentences are counted from ``first``.
        """
        unknown = UNKNOWN if self.has_unknown else -1
        ids, offsets, place = _native.word_ids(self.vocabulary, sentences, unknown)
        if place is not None:
            raise bad_token(sentences, place, first)
        return ids, offsets

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return arrays for a model file, and what the header needs."""
        names, offsets = self.vocabulary.names()
        header = {"order": self.order, "has_unknown": self.has_unknown, "ngrams": self.sizes}
        arrays = {f"ngrams.{name}": array for name, array in self.arrays.items()}
        arrays["ngrams.vocabulary"] = pack_bytes(names, offsets)
        # The numbers are checked by every load, and none of them can do harm.
        return File(header, arrays, frozenset({"ngrams.log_prob", "ngrams.backoff"}))

    @classmethod
    def from_file(cls, file: File) -> Self:
        """Make tables from what `to_file` returned, checking everything.

        Raises
        ------
        ModelFileError, ValueError, KeyError
            If the file is damaged.
        """
        arrays = {}
        for name, dtype in _TYPES.items():
            array = file.arrays[f"ngrams.{name}"]
            if array.dtype != dtype or array.ndim != 1:
                raise ModelFileError(
                    where=f"array 'ngrams.{name}'",
                    expected=f"one dimension of {np.dtype(dtype)}",
                    found=f"{array.dtype} {array.shape}",
                )
            arrays[name] = array
        where = "array 'ngrams.vocabulary'"
        names, offsets = unpack_bytes(file.arrays["ngrams.vocabulary"], where=where)
        has_unknown = checks.flag(file.header["has_unknown"], "has_unknown")
        tables = cls(arrays, _native.make_vocabulary(names, offsets), has_unknown)
        if tables.words[: len(SPECIAL)] != SPECIAL:  # also decodes all of them
            raise ModelFileError(
                where=where,
                expected=f"the words {', '.join(SPECIAL)} first",
                found=checks.show(tables.words[: len(SPECIAL)]),
            )
        return tables


def bad_token(
    sentences: Sequence[Sequence[Any]], place: tuple[int, int], first: int
) -> SentenceError:
    """Return the error about a token that cannot be one."""
    i, t = place
    if t < 0:
        return SentenceError(
            where=checks.place(first + i),
            expected="a list of tokens",
            found=checks.show_type(sentences[i]),
        )
    token = sentences[i][t]
    if isinstance(token, str) and token in SPECIAL:
        return SentenceError(
            where=checks.place(first + i, t),
            expected="a token of the text",
            found=f"{token!r}, which the model adds itself",
            hint="Leave it out.",
        )
    is_str = isinstance(token, str)
    return SentenceError(
        where=checks.place(first + i, t),
        expected="text without lone surrogates" if is_str else "a str",
        found=ascii(token) if is_str else checks.show_type(token),
    )
