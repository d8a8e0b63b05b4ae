"""Counts of words with labels, and of word shapes and endings with labels.

Taggers that learn by counting use two tables: how often each word has each label, and how often
rare words of each shape and ending have it, which predicts the labels of unknown words. Turning
counts into probabilities is left to `emissions.Words` and `models.MostFrequentTag`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import LabelError, SentenceError
from tagloom.features import Templates
from tagloom.features.batches import read_tokens
from tagloom.features.templates import call_native
from tagloom.scores.linear import Names
from tagloom.scores.tables import Int32, Int64, WordTable, check_words

Float64 = npt.NDArray[np.float64]

# Most entries of the table of words and labels; more take 8 GB.
_MOST_COUNTS = 1 << 30


@dataclass(frozen=True, eq=False)
class WordTokens:
    """Sentences as numbers: the word of each token.

    Attributes
    ----------
    extractor : Templates
        The back-off attributes, see `tables.backoff_templates`.
    vocabulary : Vocabulary
        The W words, in the order in which they first occur.
    ids : ndarray of int32, shape (T,)
        The number of each token's word.
    offsets : ndarray of int64, shape (N + 1,)
    hashes : ndarray of uint64, shape (W,)
        A fingerprint of each word.
    tokens : list of list of str
        The sentences themselves.
    """

    extractor: Templates
    vocabulary: _native.Vocabulary
    ids: Int32
    offsets: Int64
    hashes: npt.NDArray[np.uint64]
    tokens: Sequence[Sequence[str]]

    @classmethod
    def read(cls, extractor: Templates, sentences: Any) -> WordTokens:
        """Number the words of sentences.

        Raises
        ------
        SentenceError
            If a token is not a str; names the token.
        FeatureError
            If a token is not valid Unicode.
        """
        tokens = read_tokens(sentences)
        try:
            vocabulary: _native.Vocabulary = call_native(extractor.vocabulary, tokens)
        except SentenceError:
            check_words(tokens)
            raise
        return cls(extractor, vocabulary, *vocabulary.read(), tokens)

    @property
    def fingerprint(self) -> tuple[npt.NDArray[Any], ...]:
        """Arrays that identify the sentences."""
        return self.hashes, self.ids

    @cached_property
    def words(self) -> list[str]:
        """The W words, in the order of their numbers."""
        _, first = np.unique(self.ids, return_index=True)  # [W] the first token of each word
        sentence = np.searchsorted(self.offsets, first, side="right") - 1
        at = first - self.offsets[sentence]
        return [str(self.tokens[i][t]) for i, t in zip(sentence.tolist(), at.tolist(), strict=True)]


@dataclass(frozen=True, eq=False)
class WordStats:
    """Sufficient statistics of words: how often each word has each label.

    Attributes
    ----------
    data : WordTokens
        The W words; the tokens themselves are not needed again.
    counts : ndarray, shape (W, Y)
        Plain or expected counts.
    times : ndarray of int64, shape (W,)
        How often each word occurs, without weights.
    """

    data: WordTokens
    counts: Float64
    times: Int64

    @classmethod
    def count(
        cls, data: WordTokens, gamma: npt.NDArray[Any], weight: Float64 | None, Y: int
    ) -> WordStats:
        """Count the words of some sentences.

        Parameters
        ----------
        data : WordTokens
        gamma : ndarray of int32, shape (T,), or ndarray of float, shape (T, Y)
            The label of each token, or the probability of each label.
        weight : ndarray, shape (T,), or None
            The weight of each token.
        Y : int
        """
        W = len(data.hashes)
        if W * Y > _MOST_COUNTS:
            raise LabelError(
                expected=f"at most {_MOST_COUNTS:,} pairs of a word and a label",
                found=f"{W:,} words and {Y:,} labels",
                hint="Join rare labels, or use a linear tagger such as TokenClassifier.",
            )
        counts = add_rows(data.ids, gamma, weight, W, Y)
        return cls(data, counts, np.bincount(data.ids, minlength=W))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the words and counts, without the tokens."""
        return WordStats._of, (self.data.extractor, self.data.words, self.counts, self.times)

    @classmethod
    def _of(
        cls, extractor: Templates, words: list[str], counts: Float64, times: Int64
    ) -> WordStats:
        return cls(WordTokens.read(extractor, [words]), counts, times)

    def merge(self, other: WordStats) -> WordStats:
        """Sum the statistics of different sentences, which may have different words."""
        if self.data is other.data:
            return WordStats(self.data, self.counts + other.counts, self.times + other.times)
        number = {word: w for w, word in enumerate(self.data.words)}
        place = [number.setdefault(word, len(number)) for word in other.data.words]
        counts = np.zeros((len(number), self.counts.shape[1]))
        times = np.zeros(len(number), dtype=np.int64)
        W = len(self.times)
        counts[:W], times[:W] = self.counts, self.times
        counts[place] += other.counts  # a word has one place
        times[place] += other.times
        return WordStats(WordTokens.read(self.data.extractor, [list(number)]), counts, times)


def add_rows(
    ids: Int32, gamma: npt.NDArray[Any], weight: Float64 | None, n: int, Y: int
) -> Float64:
    """Sum the labels, or the probabilities of labels, of all tokens with the same number.

    counts[i, y] = Σ_{t: ids[t] = i} weight[t] · gamma[t, y]

    Parameters
    ----------
    ids : ndarray of int32, shape (T,)
    gamma : ndarray of int32, shape (T,), or ndarray of float, shape (T, Y)
        Labels, which count as probabilities of 1.
    weight : ndarray, shape (T,), or None
    n, Y : int

    Returns
    -------
    ndarray, shape (n, Y)
    """
    if gamma.ndim == 1:
        each = np.arange(len(ids) + 1)  # the native counter takes one weight per sentence
        ends = each if weight is not None else each[[0, -1]]
        counted: Float64 = _native.count_words(ids, gamma, ends, weight, n, Y)
        return counted
    summed: Float64 = _native.add_rows(ids, gamma, weight, n)
    return summed


@dataclass
class WordCounts:
    """How often each known word, and each shape and ending, has each label.

    Attributes
    ----------
    labels : tuple of str
        The Y labels.
    extractor : Templates
        The back-off attributes, see `tables.backoff_templates`.
    index : Index
        The A attributes: S spellings of rare words, of which the bias is the first, then the V
        known words, then their variants.
    parent : ndarray of int32, shape (A,)
        The next shorter attribute in back-off; that of the bias is the bias.
    ends : ndarray of int64
        Where the spellings of each template end: shapes, endings of one letter, of two, ...
    spelling_counts : ndarray, shape (S, Y)
        How often rare words of each spelling have each label.
    words : ndarray of int32, shape (V,)
        The attributes of known words.
    word_counts : ndarray, shape (V, Y)
    totals : ndarray, shape (V, 1)
        How often each known word occurs.
    twin_counts : ndarray, shape (V, Y)
        How often each word has each label in other capitalisations.
    spelling : ndarray of int32, shape (V,)
        The longest spelling attribute of each word.
    variants : ndarray of int32, shape (M,)
        The attributes of known words in a capitalisation that was not seen.
    variant_counts : ndarray, shape (M, Y)
        The counts of those words.
    n_left_out : float
        Number of tokens whose word is below ``min_count``.
    n_once : float
        Number of tokens whose word occurs once.
    known_number : ndarray of int32, shape (W,)
        The number of each word of the vocabulary among the V known words, or −1.
    """

    labels: tuple[str, ...]
    extractor: Templates
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
    known_number: Int32

    @property
    def names(self) -> Names:
        """The attributes as people read them."""
        return Names(*self.index.names())

    def table(self, rows: npt.NDArray[Any]) -> WordTable:
        """Make the table that has a row of scores [A, Y] for each attribute."""
        return WordTable(
            self.labels, self.extractor, self.index, self.names, self.words, self.parent, rows
        )

    def scores(
        self, of_spellings: Float64, of_words: Float64, of_variants: Float64
    ) -> npt.NDArray[np.float32]:
        """Join the scores of all attributes [A, Y]."""
        rows = np.empty((self.index.size, len(self.labels)), dtype=np.float32)
        S, V = len(of_spellings), len(of_words)
        rows[:S], rows[S : S + V], rows[S + V :] = of_spellings, of_words, of_variants
        return rows

    def spelling_probs(self, strength: float) -> Float64:
        """Estimate the distribution of labels for each spelling [S, Y], from short to long.

        Pr(y | s) = (count(s, y) + strength · Pr(y | parent of s)) / (count(s) + strength)

        The parent of the bias is the uniform distribution.
        """
        S, Y = self.spelling_counts.shape
        probs = np.empty((S, Y))
        shorter = np.full((1, Y), 1 / Y)
        for first, end in itertools.pairwise([0, *self.ends.tolist()]):
            if first:
                shorter = probs[self.parent[first:end]]
            probs[first:end] = _interpolate(self.spelling_counts[first:end], shorter, strength)
        return probs

    def variant_probs(self, by_spelling: Float64, strength: float) -> Float64:
        """Estimate the distribution of labels for each variant [M, Y], as `spelling_probs` does."""
        return _interpolate(self.variant_counts, by_spelling[self.parent[self.variants]], strength)

    def twin_probs(self, by_spelling: Float64, strength: float) -> Float64:
        """Estimate the labels of each word from its case variants and spelling alone [V, Y]."""
        return _interpolate(self.twin_counts, by_spelling[self.spelling], strength)


def _interpolate(counts: Float64, prior: Float64, strength: float) -> Float64:
    """Interpolate relative frequencies with a prior that counts as `strength` occurrences."""
    mixed: Float64 = strength * prior
    mixed += counts
    mixed /= counts.sum(axis=1, keepdims=True) + strength
    return mixed


def count_words(
    stats: WordStats, labels: Sequence[str], *, min_count: int, rare: int, fold_case: bool
) -> WordCounts:
    """Count the labels of known words, and of spellings for unknown words.

    Parameters
    ----------
    stats : WordStats
    labels : sequence of str
        The Y labels.
    min_count : int
        Words that occur less often are treated as unknown.
    rare : int
        Words that occur at most this often represent unknown words; without such words, all do.
    fold_case : bool
        Whether to make variants in other capitalisations.
    """
    counts = stats.counts
    W = len(counts)
    totals = counts.sum(axis=1)  # [W]
    is_known, is_rare = known_and_rare(totals, stats.times, min_count, rare)
    cases, tree = spelling_tree(stats.data.vocabulary, counts, is_rare, is_known, fold_case)
    group_of, group_counts, variant_of = cases
    index, parent, ends, spelling_counts, attribute, spelling = tree
    is_known &= attribute[:W] >= 0  # false if two names share a fingerprint: p ≈ 1e-10
    is_variant = attribute[W:] >= 0
    kept = slice(None) if is_known.all() else is_known  # a slice avoids copies
    # If there are groups, every known word is in one.
    twin_counts = group_counts[group_of] if len(group_counts) else counts.copy()
    twin_counts -= counts
    return WordCounts(
        labels=tuple(labels),
        extractor=stats.data.extractor,
        index=index,
        parent=parent,
        ends=ends,
        spelling_counts=spelling_counts,
        words=attribute[:W][kept],
        word_counts=counts[kept],
        totals=totals[kept, None],
        twin_counts=twin_counts[kept],
        spelling=spelling[:W][kept],
        variants=attribute[W:][is_variant],
        variant_counts=group_counts[variant_of[is_variant]],
        n_left_out=float(totals[~is_known].sum()),
        n_once=float(totals[_near_integers(totals) <= 1].sum()),
        known_number=np.where(is_known, np.cumsum(is_known) - 1, -1).astype(np.int32),
    )


def known_and_rare(
    totals: Float64, times: Int64, min_count: int, rare: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which words are known, and which stand for unknown ones; see `count_words`.

    Parameters
    ----------
    totals : ndarray, shape (W,)
        Sum of the weights of each word.
    times : ndarray of int64, shape (W,)
        How often it occurs.
    min_count, rare : int
    """
    rounded = _near_integers(totals)
    # Weights below 1 do not make a word unknown.
    is_known = (np.maximum(times, rounded) >= min_count) & (totals > 0)
    is_rare = (rounded <= rare) & (totals > 0)
    return is_known, is_rare if is_rare.any() else totals > 0


class CaseGroups(NamedTuple):
    """Words that differ in capitals only."""

    group_of: Int32  # [W] the group of each word, or −1
    sums: Float64  # [groups, Y]
    variant_of: Int32  # [M] the group of each capitalisation that was not seen


class SpellingTree(NamedTuple):
    """The back-off attributes of W words and M variants."""

    attributes: _native.Index
    parent: Int32  # [A]
    ends: Int64
    counts: Float64  # [S, Y]
    attribute: Int32  # [W + M] the attribute of each word, or −1
    spelling: Int32  # [W + M] its longest spelling


def spelling_tree(
    vocabulary: _native.Vocabulary,
    counts: Float64,
    is_rare: npt.NDArray[np.bool_],
    is_known: npt.NDArray[np.bool_],
    fold_case: bool,
) -> tuple[CaseGroups, SpellingTree]:
    """Group words by case, and arrange them and their variants by their spelling.

    Parameters
    ----------
    vocabulary : Vocabulary
    counts : ndarray, shape (W, Y)
    is_rare, is_known : ndarray of bool, shape (W,)
    fold_case : bool
        Whether to make variants.
    """
    cases, tree = vocabulary.make_spelling_tree(
        counts, is_rare, is_known, is_known & fold_case, str.lower, _capitalise
    )
    return CaseGroups(*cases), SpellingTree(*tree)


def _near_integers(totals: Float64) -> Float64:
    """Round sums of probabilities that are integers but for rounding errors."""
    nearest = np.round(totals)
    return np.where(np.abs(totals - nearest) <= 1e-9 * nearest, nearest, totals)


def _capitalise(word: str) -> str:
    return word[:1].upper() + word[1:]
