"""What taggers that learn by counting count: words with labels, spellings with labels, and n-grams.

Nothing here is a model yet; `hmm` and `baselines` turn these counts into probabilities.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import ParameterError
from tagloom.features import Templates
from tagloom.models.data import (
    as_sentences,
    as_weights,
    check_not_empty,
    number_labels,
    read_labels,
)
from tagloom.scores.linear import Names
from tagloom.scores.tables import Int32, Int64, WordTable, chain, read_words

Float64 = npt.NDArray[np.float64]


@dataclass
class WordCounts:
    """How often each word has each label.

    Attributes
    ----------
    labels : list of str
        The Y labels.
    extractor : Templates
        The chain of `tables`.
    index : Index
        The A attributes of the chain: S spellings of rare words, of which the bias is the first,
        then the words that are known, then their variants.
    parent : ndarray of int32, shape (A,)
        The attribute before each one in its chain; that of the bias is the bias.
    ends : ndarray of int64
        Where the spellings of each template end: those that the shape begins, those that endings
        of one letter begin, and so on.
    spelling_counts : ndarray, shape (S, Y)
        How often rare words of each spelling have each label.
    words : ndarray of int32, shape (V,)
        The attributes that are words.
    word_counts : ndarray, shape (V, Y)
    twin_counts : ndarray, shape (V, Y)
        How often the word has each label where it is written with other capitals.
    spelling : ndarray of int32, shape (V,)
        The last attribute of each word's chain before the word itself.
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
    word_of : ndarray of int32, shape (T,)
        Which of the V words each token is, or −1.
    gold : ndarray of int32, shape (T,)
    offsets : ndarray of int64, shape (N + 1,)
    weight : ndarray, shape (N,), or None
        How much each sentence counts.
    """

    labels: list[str]
    extractor: Templates
    index: _native.Index
    parent: Int32
    ends: Int64
    spelling_counts: Float64
    words: Int32
    word_counts: Float64
    twin_counts: Float64
    spelling: Int32
    variants: Int32
    variant_counts: Float64
    n_left_out: float
    n_once: float
    sentences: Sequence[Any]
    rows: list[list[str]]
    word_of: Int32
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

    def scores(
        self, of_spellings: Float64, of_words: Float64, of_variants: Float64
    ) -> npt.NDArray[np.float32]:
        """Put the scores of all attributes together [A, Y]."""
        rows = np.empty((self.index.size, len(self.labels)), dtype=np.float32)
        rows[: len(of_spellings)] = of_spellings
        rows[self.words] = of_words
        rows[self.variants] = of_variants
        return rows

    @property
    def token_weight(self) -> Float64 | None:
        """How much each token counts [T], if not 1."""
        return None if self.weight is None else np.repeat(self.weight, np.diff(self.offsets))

    def spelling_probs(self, strength: float) -> Float64:
        """Estimate the distribution of labels for each spelling [S, Y], from short to long.

        Pr(y | s) = (count(s, y) + strength · Pr(y | parent of s)) / (count(s) + strength)

        where the bias, at the beginning, leans on the uniform distribution.
        """
        S, Y = self.spelling_counts.shape
        probs = np.empty((S, Y))
        before = np.full((1, Y), 1 / Y)
        for first, end in itertools.pairwise([0, *self.ends.tolist()]):
            if first:
                before = probs[self.parent[first:end]]
            probs[first:end] = _lean(self.spelling_counts[first:end], before, strength)
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
    read = read_labels(sentences, X, y)
    names, gold, _ = number_labels(read, labels)
    weight = check_weight(sample_weight, len(sentences))
    extractor = chain(max_suffix)
    vocabulary = read_words(extractor, sentences)
    word_of, offsets, hashes = vocabulary.read()  # [T], [N + 1], [V]
    V, Y = len(hashes), len(names)
    per_token = None if weight is None else np.repeat(weight, np.diff(offsets))
    pairs = np.bincount(word_of * np.int64(Y) + gold, per_token, minlength=V * Y)
    counts = pairs.astype(np.float64).reshape(V, Y)
    totals = counts.sum(axis=1)  # [V]
    seen = np.maximum(np.bincount(word_of, minlength=V), totals)  # a weight below 1 hides no word
    is_known = (seen >= min_count) & (totals > 0)
    is_rare = (totals <= rare) & (totals > 0)
    if not is_rare.any():
        is_rare = totals > 0

    # Words that differ in capitals only; their variants become words of the vocabulary, too.
    group_of, group_counts, variant_of = vocabulary.find_alike(
        counts, is_known & fold_case, str.lower, _capitalise
    )
    index, parent, ends, spelling_counts, attribute, spelling = vocabulary.make_chains(
        counts, is_rare, is_known
    )
    twin_counts = np.zeros_like(counts)
    has_group = group_of >= 0
    twin_counts[has_group] = group_counts[group_of[has_group]] - counts[has_group]
    return WordCounts(
        labels=names,
        extractor=extractor,
        index=index,
        parent=parent,
        ends=ends,
        spelling_counts=spelling_counts,
        words=attribute[:V][is_known],
        word_counts=counts[is_known],
        twin_counts=twin_counts[is_known],
        spelling=spelling[:V][is_known],
        variants=attribute[V:],
        variant_counts=group_counts[variant_of],
        n_left_out=float(totals[~is_known].sum()),
        n_once=float(totals[totals <= 1].sum()),
        sentences=sentences,
        rows=read.rows,
        word_of=np.where(is_known, np.cumsum(is_known) - 1, -1).astype(np.int32)[word_of],
        gold=gold,
        offsets=offsets,
        weight=weight,
        digest=_digest(names, hashes, word_of, gold, weight),
    )


def _capitalise(word: str) -> str:
    return word[:1].upper() + word[1:]


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


def _digest(names: list[str], *arrays: npt.NDArray[Any] | None) -> str:
    import hashlib  # here, for a quick start

    hash = hashlib.blake2b("\0".join(names).encode(), digest_size=16)
    for array in arrays:
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
