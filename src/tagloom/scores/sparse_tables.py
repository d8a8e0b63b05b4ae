"""A table of words for very many labels: counts of the labels that occur, not a row of all.

With 100,000 words and labels a dense table has 10^10 entries. Here an attribute a has the labels it
was seen with, and every probability follows from these counts along the back-off attributes:

    Pr(y | a) = (count(a, y) + strength · Pr(y | parent of a)) / (count(a) + strength)

where the parent of the bias is the uniform distribution.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.errors import ModelFileError
from tagloom.scores.linear import Names
from tagloom.scores.parts import Part, Parts
from tagloom.scores.tables import Int32, Int64, WordLookup, find_types
from tagloom.scores.word_counts import WordTokens, known_and_rare, spelling_tree
from tagloom.storage import File

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SparseWordTable(WordLookup):
    """Counts of labels for each known word, and for each known spelling.

    Attributes
    ----------
    keys : ndarray of int64, shape (K,)
        a·Y + y for each attribute and label that occur together, ascending.
    counts : ndarray of float64, shape (K,)
        How often they do.
    strength : float
        Number of occurrences that the distribution of the parent counts as.
    """

    keys: Int64
    counts: Float64
    strength: float

    @cached_property
    def _first(self) -> Int64:
        """Where the keys of each attribute begin [A + 1]."""
        Y = len(self.labels)
        return np.searchsorted(self.keys, np.arange(len(self.parent) + 1, dtype=np.int64) * Y)

    @cached_property
    def _totals(self) -> Float64:
        """How often each attribute occurs [A]."""
        sums = np.concatenate([[0.0], np.cumsum(self.counts)])
        return np.diff(sums[self._first])

    def probs(self, rows: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Float64:
        """Return Pr(label | attribute) for pairs [n], by back-off."""
        Y = len(self.labels)
        at = np.asarray(rows, dtype=np.int64)
        probs, share = np.zeros(len(at)), np.ones(len(at))
        is_open = np.ones(len(at), dtype=bool)
        while is_open.any():
            keys = at * Y + labels
            place = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
            found = self.keys[place] == keys
            below = self._totals[at] + self.strength
            probs += np.where(is_open & found, share * self.counts[place] / below, 0)
            share = np.where(is_open, share * self.strength / below, share)
            is_open &= at > 0
            at = self.parent[at].astype(np.int64)
        return probs + share / Y

    @cached_property
    def best(self) -> tuple[Int64, Float64]:
        """The most probable label of each attribute and its probability [A], [A].

        It is a label that was seen with the attribute, or the best one of its parent. Ties go to
        the first label; as in a dense table, scores are compared as float32.
        """
        A, Y = len(self.parent), len(self.labels)
        rows, labels = self.keys // Y, self.keys % Y
        seen = self._scores(rows, labels)
        order = np.lexsort((labels, -seen, rows))
        firsts = order[np.unique(rows[order], return_index=True)[1]]
        best, score = np.zeros(A, dtype=np.int64), np.full(A, -np.inf, dtype=np.float32)
        best[rows[firsts]], score[rows[firsts]] = labels[firsts], seen[firsts]
        depth = self._depths
        for level in range(int(depth.max(initial=0)) + 1):
            at = np.flatnonzero(depth == level)
            inherited = best[self.parent[at]] if level else np.zeros(len(at), dtype=np.int64)
            theirs = self._scores(at, inherited)
            wins = (theirs > score[at]) | ((theirs == score[at]) & (inherited < best[at]))
            best[at] = np.where(wins, inherited, best[at])
            score[at] = np.where(wins, theirs, score[at])
        return best, self.probs(np.arange(A), best)

    def _scores(self, rows: npt.NDArray[Any], labels: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        return np.log(self.probs(rows, labels)).astype(np.float32)

    @cached_property
    def _depths(self) -> Int64:
        """Number of attributes above each one [A]."""
        depth = np.zeros(len(self.parent), dtype=np.int64)
        at: npt.NDArray[Any] = np.arange(len(self.parent))
        while at.any():
            depth += at > 0
            at = self.parent[at]
        return depth

    def score(self, sentences: Any) -> tuple[Int64, npt.NDArray[np.float32]]:
        """Return the offsets [N + 1] and the log probability of every label [T, Y]."""
        offsets, places = self.locate(sentences)
        rows, at = np.unique(places, return_inverse=True)
        table = np.empty((len(rows), len(self.labels)), dtype=np.float32)
        for i, row in enumerate(rows.tolist()):
            table[i] = np.log(self._row(row))
        return offsets, table[at]

    def _row(self, attribute: int) -> Float64:
        """Return the distribution of labels given an attribute [Y]."""
        Y = len(self.labels)
        chain = [attribute]
        while chain[-1] > 0:
            chain.append(int(self.parent[chain[-1]]))
        row = np.full(Y, 1 / Y)
        for a in reversed(chain):
            part = slice(self._first[a], self._first[a + 1])
            row *= self.strength
            row[self.keys[part] - a * Y] += self.counts[part]
            row /= self._totals[a] + self.strength
        return row

    def parts(self, sentence: Any) -> Parts:
        """Name the scores of one sentence: one term per token."""
        types = find_types([sentence])
        rows = self.find(types.words)[types.ids]  # [T]

        def of_transition(t: int, y_prev: int | None, y: int) -> tuple[Part, ...]:
            (prob,) = self.probs(rows[t : t + 1], np.array([y]))
            return (Part(self.names[int(rows[t])], float(np.log(prob))),)

        return of_transition

    def strongest(
        self, pattern: str | None, y: int | None, n: int | None
    ) -> list[tuple[str, int, float]]:
        """List (word, label, score) of the pairs that occur, as `WordTable.strongest` does."""
        Y = len(self.labels)
        rows, labels = self.keys // Y, self.keys % Y
        fits = np.isin(rows, self.words) & ((labels == y) if y is not None else True)
        if pattern is not None:
            import fnmatch  # here, for a quick start

            match = re.compile(fnmatch.translate(pattern)).match
            matching = [a for a in self.words.tolist() if match(self.names[a])]
            fits &= np.isin(rows, matching)
        rows, labels = rows[fits], labels[fits]
        scores = np.log(self.probs(rows, labels))
        best = np.argsort(-scores, kind="stable")[:n]
        return [(self.names[int(rows[i])], int(labels[i]), float(scores[i])) for i in best]

    def to_file(self) -> File:
        """Return the table as a header of plain data and arrays."""
        arrays = {"label_keys": self.keys, "label_counts": self.counts}
        return super().to_file() | File({"strength": self.strength}, arrays)

    @classmethod
    def from_file(cls, file: File) -> SparseWordTable:
        """Make a table from the result of `to_file`, which is not trusted.

        Raises
        ------
        ModelFileError, ValueError, KeyError
            If its parts do not fit together.
        """
        known = WordLookup.from_file(file)
        keys, counts = file.arrays["label_keys"], file.arrays["label_counts"]
        strength = file.header["strength"]
        size = len(known.parent) * len(known.labels)
        is_sound = (
            keys.dtype == np.int64
            and counts.dtype == np.float64
            and keys.ndim == 1
            and keys.shape == counts.shape
            and len(keys) > 0
            and keys[0] >= 0
            and keys[-1] < size
            and bool((np.diff(keys) > 0).all())
            and bool(((counts >= 0) & (counts < np.inf)).all())
        )
        if not is_sound:
            raise ModelFileError(
                where="label_keys, label_counts",
                expected=f"ascending keys below {size} and their counts",
                found=f"{keys.dtype} {keys.shape}, {counts.dtype} {counts.shape}",
            )
        if type(strength) is not float or not 0 < strength < np.inf:
            raise ModelFileError(
                where="strength", expected="a positive number", found=repr(strength)
            )
        # A cycle of parents would never end.
        if known.parent[0] != 0 or (known.parent[1:] >= np.arange(1, len(known.parent))).any():
            raise ModelFileError(
                where="parent", expected="numbers of earlier attributes", found="a later one"
            )
        return cls(**vars(known), keys=keys, counts=counts, strength=strength)


class LookupDecoder:
    """Finds the best label of each token in a sparse table; see `Decoder`."""

    def __init__(self, table: SparseWordTable) -> None:
        self._table = table

    def decode_few(self, X: Any, n_threads: int) -> None:
        """Return None: there is no faster way for a few sentences."""
        return None

    def decode(self, sentences: Sequence[Any], n_threads: int) -> list[list[str]]:
        """Find the best labels."""
        return self._labels(*self._table.locate(sentences))

    def decode_with_probs(
        self, sentences: Sequence[Any], temperature: float, n_threads: int
    ) -> tuple[list[list[str]], list[list[float]]] | None:
        """Find the best labels and their probabilities; None at another temperature than 1."""
        if temperature != 1:
            return None
        offsets, places = self._table.locate(sentences)
        probs = self._table.best[1][places].tolist()
        return self._labels(offsets, places), _cut(probs, offsets)

    def marginals_of_few(self, X: Any) -> None:
        """Return None: all labels of a token are too many for an array."""
        return None

    def _labels(self, offsets: Int64, places: Int32) -> list[list[str]]:
        names = self._table.labels
        return _cut([names[y] for y in self._table.best[0][places].tolist()], offsets)


def _cut(values: list[Any], offsets: Int64) -> list[list[Any]]:
    ends = offsets.tolist()
    return [values[a:b] for a, b in pairwise(ends)]


def count_sparsely(
    data: WordTokens,
    gold: Int32,
    weight: Float64 | None,
    labels: Sequence[str],
    *,
    min_count: int,
    fold_case: bool,
    strength: float,
) -> SparseWordTable:
    """Count the labels of known words and of spellings, as `count_words` does.

    Parameters
    ----------
    data : WordTokens
    gold : ndarray of int32, shape (T,)
    weight : ndarray, shape (T,), or None
        The weight of each token.
    labels : sequence of str
    min_count, fold_case
        As in `count_words`; words that occur fewer times than ``min_count``, or once, are rare.
    strength : float
    """
    W, Y = len(data.hashes), len(labels)
    words, ys, counts = _add_up(data.ids, gold, weight, Y)
    totals: Float64 = np.bincount(words, counts, minlength=W).astype(np.float64)
    is_known, is_rare = known_and_rare(
        totals, np.bincount(data.ids, minlength=W), min_count, max(min_count - 1, 1)
    )
    cases, tree = spelling_tree(data.vocabulary, totals[:, None], is_rare, is_known, fold_case)
    of_word = tree.attribute[:W]  # [W] −1 if unknown
    parts = []  # attributes, labels and counts
    rare = is_rare[words]
    at: npt.NDArray[Any] = tree.spelling[words[rare]]
    y, n = ys[rare], counts[rare]
    while len(at):  # a rare word counts for all its spellings
        parts.append((at, y, n))
        longer = at > 0
        at, y, n = tree.parent[at[longer]], y[longer], n[longer]
    known = is_known[words] & (of_word[words] >= 0)
    parts.append((of_word[words[known]], ys[known], counts[known]))
    # A word in an unseen capitalisation has the counts of its group.
    variants = np.flatnonzero(tree.attribute[W:] >= 0)
    pairs, places = _members(cases.group_of[words], cases.variant_of[variants])
    parts.append((tree.attribute[W + variants[places]], ys[pairs], counts[pairs]))
    at, y, n = (np.concatenate(each) for each in zip(*parts, strict=True))
    rows, ys, counts = _add_up(at, y, n, Y)
    return SparseWordTable(
        tuple(labels),
        data.extractor,
        tree.attributes,
        Names(*tree.attributes.names()),
        of_word[is_known & (of_word >= 0)],
        tree.parent,
        keys=rows * Y + ys,
        counts=counts,
        strength=strength,
    )


def _members(
    groups: npt.NDArray[Any], wanted: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Find the entries of ``groups`` in each wanted group.

    Returns
    -------
    entries, places : ndarray
        Pairs with ``groups[entries] == wanted[places]``.
    """
    order = np.argsort(groups, kind="stable")
    first = np.searchsorted(groups[order], wanted)
    n = np.searchsorted(groups[order], wanted, side="right") - first
    places = np.repeat(np.arange(len(wanted)), n)
    within = np.arange(len(places)) - np.repeat(np.cumsum(n) - n, n)
    return order[np.repeat(first, n) + within], places


def _add_up(
    rows: npt.NDArray[Any], labels: npt.NDArray[Any], weight: Float64 | None, Y: int
) -> tuple[Int64, Int64, Float64]:
    """Sum the weights of equal pairs; return rows, labels and sums in order."""
    keys, inverse = np.unique(rows.astype(np.int64) * Y + labels, return_inverse=True)
    sums = np.bincount(inverse, weight, minlength=len(keys)).astype(np.float64)
    return keys // Y, keys % Y, sums
