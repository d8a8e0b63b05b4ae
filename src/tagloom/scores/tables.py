"""Tables of scores by word: a row for each known word, and for unknown words by their spelling.

A token has back-off attributes, from the bias, which all tokens share, to the word itself:

    bias → short_shape → short_shape & suffix(1) → … → short_shape & suffix(n) → word

Each attribute in the index has a row of scores. A token gets the row of its last attribute in the
index: that of the word if it is known, otherwise of the longest known ending of its shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks, features, storage
from tagloom.errors import ModelFileError, SentenceError
from tagloom.features import FeatureExtractor, Templates
from tagloom.features.batches import read_tokens
from tagloom.scores.decoders import Decoder, WordDecoder
from tagloom.scores.linear import Names, PackedNames, log_scores
from tagloom.scores.parts import Part, Parts
from tagloom.storage import File

Floats = npt.NDArray[np.floating[Any]]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


def backoff_templates(max_suffix: int) -> Templates:
    """Return the templates of the back-off attributes, from the bias to the word.

    Parameters
    ----------
    max_suffix : int
        Length of the longest ending; 0 leaves out endings and shape.
    """
    endings = [f"short_shape & suffix({n})" for n in range(1, max_suffix + 1)]
    return Templates(["bias", *(["short_shape", *endings] if max_suffix else []), "word"])


class Types(NamedTuple):
    """The distinct words of some sentences."""

    words: list[str]  # [V]
    ids: Int32  # [T] the number of each token's word
    offsets: Int64  # [N + 1] tokens of sentence i are offsets[i]:offsets[i + 1]


def find_types(sentences: Any) -> Types:
    """Number the words of sentences in the order in which they first occur.

    Raises
    ------
    SentenceError
        If a token is not a str; names the token.
    """
    tokens = [row if type(row) is list else list(row) for row in read_tokens(sentences)]
    table: dict[str, int] = {}
    numbered = _native.intern(tokens, table)
    if numbered is None:  # a subclass of str, or not a str
        check_words(tokens)
        table = {}
        numbered = _native.intern([[str(token) for token in row] for row in tokens], table)
        assert numbered is not None
    return Types(list(table), *numbered)


def check_words(tokens: Sequence[Sequence[Any]]) -> None:
    """Raise if a token is not a str.

    Raises
    ------
    SentenceError
    """
    for i, row in enumerate(tokens):
        for t, token in enumerate(row):
            if not isinstance(token, str):
                raise SentenceError(
                    where=checks.place(i, t), expected="a str", found=checks.show_type(token)
                ) from None


@dataclass(frozen=True)
class WordLookup:
    """The known words and spellings, and the attribute of each token among them.

    Attributes
    ----------
    labels : tuple of str
        The Y labels.
    extractor : FeatureExtractor
        The templates of the back-off attributes.
    index : Index
        The number of each attribute.
    names : Names
        The attributes as people read them.
    words : ndarray of int32, shape (V,)
        The attributes that are words.
    parent : ndarray of int32, shape (A,)
        The next shorter attribute in back-off; that of the bias is the bias.
    """

    labels: tuple[str, ...]
    extractor: FeatureExtractor
    index: _native.Index
    names: Names
    words: Int32
    parent: Int32

    def locate(self, sentences: Any) -> tuple[Int64, Int32]:
        """Find the row of every token.

        Returns
        -------
        offsets : ndarray of int64, shape (N + 1,)
        places : ndarray of int32, shape (T,)
        """
        types = find_types(sentences)
        return types.offsets, self.find(types.words)[types.ids]

    def find(self, words: Sequence[str]) -> Int32:
        """Return the row of each word [V]."""
        encoded = self.extractor.encode([words], self.index)
        rows: Int32 = encoded.ids[encoded.indptr[1:] - 1]
        return rows

    def known_words(self) -> list[str]:
        """List the V words, in the order of `words`."""
        return [self.names[a].removeprefix("word=") for a in self.words]

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the table as a header of plain data and arrays."""
        names = self.names
        header = {"labels": list(self.labels), "features": self.extractor.to_dict()}
        arrays: dict[str, npt.NDArray[Any]] = {
            "keys": self.index.keys(),
            "names": names.packed
            if isinstance(names, PackedNames)
            else storage.pack_bytes(names.blob, names.offsets),
            "words": self.words,
            "parent": self.parent,
        }
        return File(header, arrays)

    @classmethod
    def from_file(cls, file: File) -> WordLookup:
        """Make a table from the result of `to_file`, which is not trusted.

        Raises
        ------
        ModelFileError, ValueError, KeyError
            If its parts do not fit together.
        """
        header, arrays = file.header, file.arrays
        labels = checks.label_names(header["labels"])
        index = _native.Index.from_keys(arrays["keys"])
        if not labels or index.size == 0:
            found = "no labels" if not labels else "no attributes"
            raise ModelFileError(expected="a table with labels and attributes", found=found)
        words = _places(arrays, "words", index.size)
        parent = _places(arrays, "parent", index.size)
        if len(parent) != index.size:
            raise ModelFileError(
                where="parent", expected=f"{index.size} numbers", found=str(len(parent))
            )
        extractor = features.from_dict(header["features"])
        names = PackedNames(file.stored("names"), index.size)
        table = WordLookup(tuple(labels), extractor, index, names, words, parent)
        encoded = extractor.encode([["a"]], index)
        if len(encoded.ids) == 0 or encoded.ids[0] != 0 or encoded.values is not None:
            raise ModelFileError(
                where="features", expected="back-off attributes from the bias", found="others"
            )
        return table


@dataclass(frozen=True)
class WordTable(WordLookup):
    """A row of scores for each known word, and for each known spelling.

    Attributes
    ----------
    rows : ndarray, shape (A, Y)
        The scores; row 0 is that of the bias.
    """

    rows: Floats

    def score(self, sentences: Any) -> tuple[Int64, Floats]:
        """Look up every token.

        Returns
        -------
        offsets : ndarray of int64, shape (N + 1,)
        emit : ndarray, shape (T, Y)
        """
        offsets, places = self.locate(sentences)
        return offsets, np.take(self.rows, places, axis=0)

    def decoder(self, transitions: _native.Dense) -> Decoder | None:
        """Make the native decoder from sentences to labels.

        Parameters
        ----------
        transitions : _native.Dense
            Scores of transitions, starts and stops; −inf if forbidden.

        Returns
        -------
        Decoder or None
            None if the scores are not float32, as those of a model given by probabilities.
        """
        A, Y = self.rows.shape
        if self.rows.dtype != np.float32 or not isinstance(self.extractor, Templates) or Y >> 16:
            return None
        scorer = self.extractor.scorer(
            self.index,
            np.arange(A + 1, dtype=np.int64) * Y,
            np.tile(np.arange(Y, dtype=np.uint16), A),
            np.ascontiguousarray(self.rows).reshape(-1),
            Y,
            takes_last=True,
        )
        return WordDecoder(self.extractor, scorer, transitions, self.labels)

    def parts(self, sentence: Any) -> Parts:
        """Name the scores of one sentence: one term per token, its row."""
        types = find_types([sentence])
        rows = self.find(types.words)[types.ids].tolist()  # [T]

        def of_transition(t: int, y_prev: int | None, y: int) -> tuple[Part, ...]:
            return (Part(self.names[rows[t]], float(self.rows[rows[t], y])),)

        return of_transition

    def permute(self, order: Sequence[int]) -> WordTable:
        """Return the table with its columns in another order; column i is ``order[i]``."""
        return replace(self, rows=self.rows[:, np.asarray(order)])

    def strongest(
        self, pattern: str | None, y: int | None, n: int | None
    ) -> list[tuple[str, int, float]]:
        """List (word, label, score) of the known words, the largest scores first.

        Parameters
        ----------
        pattern : str or None
            A shell pattern that the attribute, such as ``word=the``, must match.
        y : int or None
            Only this label.
        n : int or None
            Maximum number.
        """
        rows, words = self.rows[self.words], self.words
        if pattern is not None:
            import fnmatch  # here, for a quick start

            match = re.compile(fnmatch.translate(pattern)).match
            fits = np.array([match(self.names[a]) is not None for a in words], dtype=bool)
            rows, words = rows[fits], words[fits]
        if y is not None:
            rows = np.where(np.arange(len(self.labels)) == y, rows, -np.inf)
        best = np.argsort(-rows, axis=None, kind="stable")[:n]
        at, labels = np.unravel_index(best, rows.shape)
        return [
            (self.names[words[i]], label, float(rows[i, label]))
            for i, label in zip(at.tolist(), labels.tolist(), strict=True)
            if rows[i, label] > -np.inf
        ]

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the table as a header of plain data and arrays."""
        weights = {"emission_weights": self.rows}
        return super().to_file() | File({}, weights, frozenset(weights))

    @classmethod
    def from_file(cls, file: File) -> WordTable:
        """Make a table from the result of `to_file`, which is not trusted.

        Raises
        ------
        ModelFileError, ValueError, KeyError
            If its parts do not fit together.
        """
        known = WordLookup.from_file(file)
        shape = (known.index.size, len(known.labels))
        return cls(**vars(known), rows=log_scores(file.arrays, "emission_weights", shape))


@dataclass(frozen=True)
class PairTable:
    """How much more likely a word is before each label, or before the end of the sentence.

    Attributes
    ----------
    words : ndarray of int32, shape (C,)
        The rows of a `WordTable` whose words have separate scores; all others share the first Y
        rows of ``scores``.
    rows : ndarray of int32, shape (C, Y)
        The row of ``scores`` for each of these words and its label.
    scores : ndarray, shape (R, Y + 1)
        The scores of the next labels and, last, of the end.
    """

    words: Int32
    rows: Int32
    scores: Floats

    def edges(self, places: Int32) -> Floats:
        """Score every label at every token given the previous one [T, Y, Y]; row 0 is unused."""
        Y = self.scores.shape[1] - 1
        edge = np.empty((len(places), Y, Y), dtype=self.scores.dtype)
        np.take(self._after, self.rows_of(np.roll(places, 1)), axis=0, out=edge)
        return edge

    def ends(self, places: Int32) -> Floats:
        """Score the end of a sentence after tokens [·, Y]."""
        ends: Floats = self.scores[:, -1][self.rows_of(places)]
        return ends

    def rows_of(self, places: Int32) -> Int32:
        """Find the row for each token and its label [T, Y]."""
        Y = self.scores.shape[1] - 1
        if not len(self.words):
            return np.broadcast_to(np.arange(Y, dtype=np.int32), (len(places), Y))
        at = np.minimum(np.searchsorted(self.words, places), len(self.words) - 1)
        rows: Int32 = np.where(
            (self.words[at] == places)[:, None], self.rows[at], np.arange(Y, dtype=np.int32)
        )
        return rows

    @cached_property
    def _after(self) -> Floats:
        return np.ascontiguousarray(self.scores[:, :-1])

    def to_file(self) -> File:
        """Return the table as arrays."""
        arrays = {
            "pair_words": self.words,
            "pair_rows": self.rows.ravel(),
            "pair_weights": self.scores,
        }
        return File({}, arrays, frozenset({"pair_weights"}))

    @classmethod
    def from_file(cls, arrays: Mapping[str, npt.NDArray[Any]], A: int, Y: int) -> PairTable:
        """Make a table from the result of `to_file`, which is not trusted.

        Raises
        ------
        ModelFileError, KeyError
            If its parts do not fit together.
        """
        words = _places(arrays, "pair_words", A)
        R = len(arrays["pair_weights"])
        rows, scores = (
            _places(arrays, "pair_rows", R),
            log_scores(arrays, "pair_weights", (R, Y + 1)),
        )
        if R < Y or len(rows) != len(words) * Y or (np.diff(words) <= 0).any():
            raise ModelFileError(
                where="pair_words, pair_rows, pair_weights",
                expected=f"ascending words, {Y} rows for each, at least {Y} scores",
                found=f"{len(words)} words, {len(rows)} rows, {R} scores",
            )
        return cls(words, rows.reshape(len(words), Y), scores)


def _places(arrays: Mapping[str, npt.NDArray[Any]], name: str, n: int) -> Int32:
    array = arrays[name]
    if array.dtype != np.int32 or array.ndim != 1:
        raise ModelFileError(
            where=name, expected="a list of int32", found=f"{array.dtype} {array.shape}"
        )
    if array.size and not 0 <= array.min() <= array.max() < n:
        raise ModelFileError(where=name, expected=f"numbers below {n}", found=str(array.max()))
    return array
