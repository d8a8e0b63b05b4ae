"""What taggers that learn by counting count: words with labels, spellings with labels, and n-grams.

Nothing here is a model yet; `hmm` and `baselines` turn these counts into probabilities.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import ParameterError
from tagloom.features import FeatureExtractor
from tagloom.models.data import (
    as_sentences,
    as_weights,
    check_not_empty,
    gold_labels,
    number_labels,
)
from tagloom.scores.linear import Names
from tagloom.scores.tables import Int32, Int64, WordTable, chain, find_types

Float64 = npt.NDArray[np.float64]


@dataclass
class WordCounts:
    """How often each word has each label.

    Attributes
    ----------
    labels : list of str
        The Y labels.
    extractor : FeatureExtractor
        The chain of `tables`.
    index : Index
        The A attributes of the chain: the bias, spellings of rare words, and known words.
    words : ndarray of int32, shape (V,)
        The attributes that are words.
    word_counts : ndarray, shape (V, Y)
    twin_counts : ndarray, shape (V, Y)
        How often the word has each label where it is written with other capitals.
    word_of : ndarray of int32, shape (T,)
        Which of the V words each token is, or −1.
    spelling : ndarray of int32, shape (V,)
        The last attribute of each word's chain before the word itself.
    parent : ndarray of int32, shape (A,)
        The attribute before each one in its chain; that of the bias is the bias.
    spelling_counts : ndarray, shape (A, Y)
        How often rare words of each spelling have each label; 0 for words.
    variants : ndarray of int32, shape (M,)
        Attributes that are known words with a capital or without, which were not seen so.
    variant_counts : ndarray, shape (M, Y)
        The counts of those words.
    n_left_out : float
        How many tokens are of words too rare to be known.
    n_once : float
        How many tokens are of words that occur once.
    sentences, rows
        The training data and their labels, as they came.
    gold : ndarray of int32, shape (T,)
    offsets : ndarray of int64, shape (N + 1,)
    weight : ndarray, shape (N,), or None
        How much each sentence counts.
    """

    labels: list[str]
    extractor: FeatureExtractor
    index: _native.Index
    words: Int32
    word_counts: Float64
    twin_counts: Float64
    word_of: Int32
    spelling: Int32
    parent: Int32
    spelling_counts: Float64
    variants: Int32
    variant_counts: Float64
    n_left_out: float
    n_once: float
    sentences: Sequence[Any]
    rows: list[list[str]]
    gold: Int32
    offsets: Int64
    weight: Float64 | None
    digest: str

    @property
    def names(self) -> Names:
        """The attributes as people read them."""
        return Names(*self.index.names())

    def table(self, rows: npt.NDArray[Any]) -> WordTable:
        """Make the table that has a row of scores [A, Y] for each attribute."""
        return WordTable(
            tuple(self.labels),
            self.extractor,
            self.index,
            self.names,
            self.words,
            self.parent,
            rows,
        )

    @property
    def token_weight(self) -> Float64 | None:
        """How much each token counts [T], if not 1."""
        return None if self.weight is None else np.repeat(self.weight, np.diff(self.offsets))

    def spelling_probs(self, strength: float) -> Float64:
        """Estimate the distribution of labels for each spelling [A, Y], from short to long.

        Pr(y | s) = (count(s, y) + strength · Pr(y | parent of s)) / (count(s) + strength)

        where the bias, at the beginning, leans on the uniform distribution.
        """
        A, Y = self.spelling_counts.shape
        totals = self.spelling_counts.sum(axis=1, keepdims=True)  # [A, 1]
        probs = np.full((A, Y), 1 / Y)
        depth = np.zeros(A, dtype=np.int32)  # steps to the bias
        at = self.parent.copy()
        while at.any():
            depth += at != 0
            at = self.parent[at]
        depth[1:] += 1
        for d in range(int(depth.max(initial=0)) + 1):
            level = depth == d
            before = probs[self.parent[level]]  # [·, Y]
            probs[level] = (self.spelling_counts[level] + strength * before) / (
                totals[level] + strength
            )
        return probs

    def variant_probs(self, by_spelling: Float64, strength: float) -> Float64:
        """Estimate the distribution of labels for each variant [M, Y], as `spelling_probs` does."""
        return _lean(self.variant_counts, by_spelling[self.parent[self.variants]], strength)

    def twin_probs(self, by_spelling: Float64, strength: float) -> Float64:
        """Estimate the labels of each word from what is like it, not from itself [V, Y]."""
        return _lean(self.twin_counts, by_spelling[self.spelling], strength)


def _lean(counts: Float64, before: Float64, strength: float) -> Float64:
    """Mix relative frequencies with a distribution that counts as `strength` occurrences."""
    totals = counts.sum(axis=1, keepdims=True)
    return np.asarray((counts + strength * before) / (totals + strength))


def count_words(
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    labels: Any,
    min_count: int,
    max_suffix: int,
    rare: int,
    fold_case: bool,
) -> WordCounts:
    """Read labelled sentences and count their words.

    Parameters
    ----------
    X, y, sample_weight
        As for `Tagger.fit`.
    labels : sequence of str, optional
        The labels in their order; by default those of the data, sorted.
    min_count : int
        Words that occur less often are not known.
    max_suffix : int
        The longest ending of the chain.
    rare : int
        Words that occur at most so often stand for words that were never seen; if there are none,
        all do.
    fold_case : bool
        Whether to look for variants.

    Raises
    ------
    SentenceError, LabelError, ParameterError
        If the data are wrong; the message names the sentence.
    """
    sentences = as_sentences(X)
    check_not_empty(sentences, getattr(X, "path", None))
    rows = gold_labels(sentences, X, y)
    names, gold = number_labels(rows, labels)
    Y = len(names)
    types = find_types(sentences)
    V = len(types.words)
    weight = check_weight(sample_weight, len(sentences))
    per_token = None if weight is None else np.repeat(weight, np.diff(types.offsets))
    pairs = np.bincount(types.ids * np.int64(Y) + gold, per_token, minlength=V * Y)
    word_counts = pairs.astype(np.float64).reshape(V, Y)
    totals = word_counts.sum(axis=1)  # [V]
    seen = np.maximum(np.bincount(types.ids, minlength=V), totals)  # a weight below 1 hides no word

    extractor = chain(max_suffix)
    index = _native.Index()
    is_known = (seen >= min_count) & (totals > 0)
    alike = _Alike.find(types.words, word_counts, is_known & fold_case)
    variants, variant_counts = alike.variants(types.words)
    encoded = extractor.encode([types.words + variants], index, grow=True)
    last = encoded.indptr[1:] - 1  # [V + M] where each word stands in its chain
    is_rare = (totals <= rare) & (totals > 0)
    if not is_rare.any():
        is_rare = totals > 0
    # Every attribute of the chain but the word itself counts what the rare words count.
    lengths = np.diff(encoded.indptr)
    is_word = np.zeros(len(encoded.ids), dtype=bool)
    is_word[last] = True
    type_of = np.repeat(np.arange(len(lengths)), lengths)  # [nnz]
    is_rare = np.concatenate([is_rare, np.zeros(len(variants), dtype=bool)])
    links = np.flatnonzero(~is_word & is_rare[type_of])
    spelling_counts = _sum_rows(encoded.ids[links], word_counts, type_of[links], index.size)
    parent = np.zeros(index.size, dtype=np.int32)
    inner = links[encoded.ids[links] != 0]
    parent[encoded.ids[inner]] = encoded.ids[inner - 1]

    kept = np.zeros(index.size, dtype=bool)
    kept[encoded.ids[links]] = True
    is_word_kept = np.concatenate([is_known, np.ones(len(variants), dtype=bool)])
    kept[encoded.ids[last[is_word_kept]]] = True
    kept[0] = True
    # The last kept attribute before the word: chains of rare words are kept whole.
    spelling_at = np.maximum.reduceat(
        np.where(~is_word & kept[encoded.ids], np.arange(len(encoded.ids)), 0),
        encoded.indptr[:-1],
    )
    parent[encoded.ids[last]] = encoded.ids[spelling_at]
    number = np.cumsum(kept, dtype=np.int32) - np.int32(1)  # [A before] the new number
    return WordCounts(
        labels=names,
        extractor=extractor,
        index=index.keep(kept),
        words=number[encoded.ids[last[:V][is_known]]],
        word_counts=word_counts[is_known],
        twin_counts=alike.twins(word_counts)[is_known],
        word_of=np.where(is_known, np.cumsum(is_known) - 1, -1).astype(np.int32)[types.ids],
        spelling=number[encoded.ids[spelling_at[:V][is_known]]],
        parent=number[parent[kept]],
        spelling_counts=spelling_counts[kept],
        variants=number[encoded.ids[last[V:]]],
        variant_counts=variant_counts,
        n_left_out=float(totals[~is_known].sum()),
        n_once=float(totals[totals <= 1].sum()),
        sentences=sentences,
        rows=rows,
        gold=gold,
        offsets=types.offsets,
        weight=weight,
        digest=_digest(names, index, types.ids, gold, weight),
    )


@dataclass
class _Alike:
    """Words that differ in capitals only, counted together.

    Attributes
    ----------
    group_of : ndarray of int32, shape (V,)
        The group of each word; −1 for words that are left alone.
    groups : list of str
        How each group is written without capitals.
    sums : ndarray, shape (groups, Y)
    """

    group_of: Int32
    groups: list[str]
    sums: Float64

    @classmethod
    def find(cls, words: list[str], counts: Float64, used: npt.NDArray[np.bool_]) -> _Alike:
        groups: dict[str, int] = {}
        chosen = np.flatnonzero(used)
        of = [groups.setdefault(words[i].lower(), len(groups)) for i in chosen]
        group_of = np.full(len(words), -1, dtype=np.int32)
        group_of[chosen] = of
        sums = _sum_rows(np.array(of, dtype=np.int32), counts, chosen, len(groups))
        return cls(group_of, list(groups), sums)

    def variants(self, words: list[str]) -> tuple[list[str], Float64]:
        """Write groups with a capital and without; give those that are new, with counts [M, Y]."""
        seen = set(words)
        found = {
            variant: group
            for group, lower in enumerate(self.groups)
            for variant in (lower, lower[:1].upper() + lower[1:])
            if variant not in seen
        }
        return list(found), self.sums[list(found.values())]

    def twins(self, counts: Float64) -> Float64:
        """Count the other words of each word's group [V, Y]."""
        if not self.groups:
            return np.zeros_like(counts)
        return np.where(self.group_of[:, None] >= 0, self.sums[self.group_of] - counts, 0.0)


def _sum_rows(ids: Int32, rows: Float64, of: npt.NDArray[np.intp], A: int) -> Float64:
    """Add up rows[of[i]] for each ids[i]; most entries of the rows are zero."""
    Y = rows.shape[1]
    at, y = np.nonzero(rows)  # [nnz] sorted by row
    first = np.searchsorted(at, np.arange(len(rows) + 1))
    n = (first[1:] - first[:-1])[of]  # entries for each i
    entries = np.repeat(first[of] - np.cumsum(n) + n, n) + np.arange(n.sum())
    cells = np.repeat(ids, n) * np.int64(Y) + y[entries]
    sums = np.bincount(cells, rows[at[entries], y[entries]], minlength=A * Y)
    return sums.astype(np.float64, copy=False).reshape(A, Y)


def check_weight(sample_weight: Any, n: int) -> Float64 | None:
    """Return the weights of sentences as an array.

    Raises
    ------
    ParameterError
        If they are not n numbers, none below 0, some above.
    """
    if sample_weight is None:
        return None
    weight = as_weights(sample_weight, n)
    if weight.sum() == 0:
        raise ParameterError("sample_weight is 0 for every sentence: there is nothing to count.")
    return weight


def _digest(names: list[str], index: _native.Index, *arrays: npt.NDArray[Any] | None) -> str:
    hash = hashlib.blake2b("\0".join(names).encode(), digest_size=16)
    for array in (index.keys(), *arrays):
        if array is not None:
            hash.update(np.ascontiguousarray(array).view(np.uint8).data)
    return hash.hexdigest()


def count_ngrams(gold: Int32, offsets: Int64, weight: Float64 | None, Y: int, k: int) -> Float64:
    """Count how often a label, or the end, follows each history of k labels.

    Parameters
    ----------
    gold : ndarray of int32, shape (T,)
    offsets : ndarray of int64, shape (N + 1,)
    weight : ndarray, shape (N,), or None
    Y, k : int

    Returns
    -------
    ndarray, shape (Y + 1,) * (k + 1)
        From the oldest label of the history to what follows. In a history Y means that the sentence
        had not begun; as what follows, that it ends.
    """
    lengths = np.diff(offsets)
    position = np.arange(len(gold)) - np.repeat(offsets[:-1], lengths)  # [T] in its sentence
    shape = (Y + 1,) * (k + 1)
    history = np.zeros(len(gold), dtype=np.int64)
    ends = np.zeros(len(lengths), dtype=np.int64)
    for j in range(k, 0, -1):  # the label j places before
        before = np.where(position >= j, np.roll(gold, j), Y)
        history = history * (Y + 1) + before
        at_end = np.where(lengths >= j, gold[np.maximum(offsets[1:] - j, 0)], Y)
        ends = ends * (Y + 1) + at_end
    cells = np.concatenate([history * (Y + 1) + gold, ends * (Y + 1) + Y])
    weights = None if weight is None else np.concatenate([np.repeat(weight, lengths), weight])
    counts = np.bincount(cells, weights, minlength=(Y + 1) ** (k + 1))
    return counts.astype(np.float64).reshape(shape)
