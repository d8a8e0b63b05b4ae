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
    digest,
    number_labels,
    read_labels,
)
from tagloom.scores.linear import Names
from tagloom.scores.tables import Int32, Int64, WordTable, chain, read_words

Float64 = npt.NDArray[np.float64]


@dataclass
class LabelledWords:
    """Labelled sentences as numbers, and how often each of their words has each label.

    Attributes
    ----------
    labels : list of str
        The Y labels.
    extractor : Templates
        The chain of `tables`.
    vocabulary : Vocabulary
        The W words.
    word_of : ndarray of int32, shape (T,)
        Which of them each token is.
    counts : ndarray, shape (W, Y)
    gold : ndarray of int32, shape (T,)
    offsets : ndarray of int64, shape (N + 1,)
    weight : ndarray, shape (N,), or None
        How much each sentence counts.
    sentences, rows
        The training data and their labels, as they came.
    digest : str
        A fingerprint of the data.
    """

    labels: list[str]
    extractor: Templates
    vocabulary: _native.Vocabulary
    word_of: Int32
    counts: Float64
    gold: Int32
    offsets: Int64
    weight: Float64 | None
    sentences: Sequence[Any]
    rows: list[list[str]]
    digest: str

    @property
    def token_weight(self) -> Float64 | None:
        """How much each token counts [T], if not 1."""
        return None if self.weight is None else np.repeat(self.weight, np.diff(self.offsets))

    def forget_sentences(self) -> None:
        """Give up the data as they came; the numbers stay."""
        self.sentences, self.rows = [], []


def read_labelled(
    X: Any, y: Any, sample_weight: Any, *, labels: Any, max_suffix: int
) -> LabelledWords:
    """Read labelled sentences and count their words.

    Parameters
    ----------
    X, y, sample_weight
        As for `Tagger.fit`.
    labels : sequence of str, optional
        The labels in their order; by default those of the data, sorted.
    max_suffix : int
        The longest ending of the chain.

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
    word_of, offsets, hashes = vocabulary.read()  # [T], [N + 1], [W]
    W, Y = len(hashes), len(names)
    return LabelledWords(
        labels=names,
        extractor=extractor,
        vocabulary=vocabulary,
        word_of=word_of,
        counts=_native.count_words(word_of, gold, offsets, weight, W, Y),
        gold=gold,
        offsets=offsets,
        weight=weight,
        sentences=sentences,
        rows=read.rows,
        digest=digest(names, hashes, word_of, offsets, gold, weight),
    )


@dataclass
class WordCounts:
    """How often each word, and each spelling, has each label.

    Attributes
    ----------
    read : LabelledWords
        What was counted: Y labels.
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
    totals : ndarray, shape (V, 1)
        How often each word occurs.
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
    word_of : ndarray of int32, shape (T,)
        Which of the V words each token is, or −1.
    """

    read: LabelledWords
    index: _native.Index
    parent: Int32
    ends: Int64
    spelling_counts: Float64
    words: Int32
    word_counts: Float64
    totals: Float64
    twin_counts: Float64
    spelling: Int32
    variants: Int32
    variant_counts: Float64
    n_left_out: float
    n_once: float
    word_of: Int32

    @property
    def names(self) -> Names:
        """The attributes as people read them."""
        return Names(*self.index.names())

    def table(self, rows: npt.NDArray[Any]) -> WordTable:
        """Make the table that has a row of scores [A, Y] for each attribute."""
        return WordTable(
            tuple(self.read.labels),
            self.read.extractor,
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
        rows = np.empty((self.index.size, len(self.read.labels)), dtype=np.float32)
        S, V = len(of_spellings), len(of_words)
        rows[:S], rows[S : S + V], rows[S + V :] = of_spellings, of_words, of_variants
        return rows

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
    mixed: Float64 = strength * before
    mixed += counts
    mixed /= counts.sum(axis=1, keepdims=True) + strength
    return mixed


def count_words(read: LabelledWords, *, min_count: int, rare: int, fold_case: bool) -> WordCounts:
    """Count what is known of words, and what their spellings tell of others.

    Parameters
    ----------
    read : LabelledWords
    min_count : int
        Words that occur less often are not known.
    rare : int
        Words that occur at most so often stand for words that were never seen; if there are none,
        all do.
    fold_case : bool
        Whether to look for variants.
    """
    vocabulary, counts = read.vocabulary, read.counts
    V = len(counts)
    totals = counts.sum(axis=1)  # [V]
    times = totals if read.weight is None else np.bincount(read.word_of, minlength=V)
    # A weight below 1 hides no word.
    is_known = (np.maximum(times, totals) >= min_count) & (totals > 0)
    is_rare = (totals <= rare) & (totals > 0)
    if not is_rare.any():
        is_rare = totals > 0

    # Words that differ in capitals only, then chains, which the variants of words have too.
    alike, chains = vocabulary.make_chains(
        counts, is_rare, is_known, is_known & fold_case, str.lower, _capitalise
    )
    group_of, group_counts, variant_of = alike
    index, parent, ends, spelling_counts, attribute, spelling = chains
    is_known &= attribute[:V] >= 0  # two names may share a fingerprint, at odds of 1 to 10^10
    is_variant = attribute[V:] >= 0
    known = slice(None) if is_known.all() else is_known  # the former takes no copies
    # What is known is in a group, if anything is.
    twin_counts = group_counts[group_of] if len(group_counts) else counts.copy()
    twin_counts -= counts
    return WordCounts(
        read=read,
        index=index,
        parent=parent,
        ends=ends,
        spelling_counts=spelling_counts,
        words=attribute[:V][known],
        word_counts=counts[known],
        totals=totals[known, None],
        twin_counts=twin_counts[known],
        spelling=spelling[:V][known],
        variants=attribute[V:][is_variant],
        variant_counts=group_counts[variant_of[is_variant]],
        n_left_out=float(totals[~is_known].sum()),
        n_once=float(totals[totals <= 1].sum()),
        word_of=_renumber(read.word_of, is_known),
    )


def _renumber(ids: Int32, kept: npt.NDArray[np.bool_]) -> Int32:
    """Number what is kept; −1 for the rest."""
    if kept.all():
        return ids
    return np.where(kept, np.cumsum(kept, dtype=np.int32) - np.int32(1), np.int32(-1))[ids]


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
    counts: Float64 = _native.count_ngrams(gold, offsets, weight, Y, k)
    return counts.reshape((Y + 1,) * (k + 1))
