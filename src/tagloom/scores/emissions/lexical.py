r"""Words that depend on their label and on the next one.

``have`` before a participle differs from ``have`` before a noun. With y⁺ the next label, or ■::

    Pr(w | y, y⁺) ∝ Pr(w | y) · Pr(y⁺ | w, y) / Pr(y⁺ | y)

where Pr(y⁺ | w, y) is interpolated with Pr(y⁺ | y), as in the lexicalised models of Pla and Molina
(2004). This goes beyond the textbook hidden Markov model, so it is an option.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tagloom.scores.emissions.base import Emission, Float64, Gamma, check_gamma
from tagloom.scores.emissions.words import Words
from tagloom.scores.linear import Scored
from tagloom.scores.parts import Part, Parts
from tagloom.scores.smoothing import Smoothing
from tagloom.scores.tables import Int64, PairTable
from tagloom.scores.word_counts import WordCounts, WordStats, WordTokens
from tagloom.storage import File

# Pseudo-count of Pr(y⁺ | y) for each label seen after a word and its label; chosen on development
# data (UPOS and XPOS of EWT).
_AFTER_STRENGTH = 2.0


@dataclass(frozen=True, eq=False)
class PairStats:
    """Counts of words with their label and the next one.

    Attributes
    ----------
    words : WordStats
    keys : ndarray of int64, shape (R,)
        Ascending: ``w · Y + y`` for each word and label seen together.
    after : ndarray, shape (R, Y + 1)
        How often each label, or the end, follows them.
    pairs : ndarray, shape (Y + 1, Y + 1)
        Counts of label bigrams, as `tagloom.scores.markov.count_ngrams` returns them.
    """

    words: WordStats
    keys: Int64
    after: Float64
    pairs: Float64


class LexicalWords(Words):
    """Words that depend on their label and, if frequent, on the next one.

    ``Words(lexical=3)`` means ``LexicalWords(lexical=3)``. On the development data of EWT (UPOS,
    order 2) it raises accuracy from 92.8 to 94.1, at a quarter of the speed. It is counted from
    labels: marginal probabilities do not determine which labels are adjacent.

    Parameters
    ----------
    smoothing, unknown, max_suffix, rare, fold_case, min_count
        As for `Words`.
    lexical : int
        Words that occur at least this often depend on the next label.

    Attributes
    ----------
    table : WordTable
        log Pr(w | y), after `update`.
    pairs : PairTable
        log Pr(w | y, y⁺) − log Pr(w | y), after `update`.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["they", "have", "gone"], ["they", "have", "time"], ["we", "have", "gone"]]
    >>> y = [["N", "A", "V"], ["N", "V", "N"], ["N", "A", "V"]]
    >>> hmm = tl.HMM(emissions=tl.emissions.Words(lexical=2)).fit(X, y)
    >>> hmm.predict([["we", "have", "time"]])
    [['N', 'V', 'N']]
    """

    learned = ("table", "pairs")

    def __init__(
        self,
        *,
        lexical: int = 3,
        smoothing: float = 0.2,
        unknown: float | None = None,
        max_suffix: int = 5,
        rare: int = 10,
        fold_case: bool = True,
        min_count: int = 1,
    ) -> None:
        super().__init__(
            smoothing=smoothing,
            unknown=unknown,
            max_suffix=max_suffix,
            rare=rare,
            fold_case=fold_case,
            min_count=min_count,
            lexical=lexical,
        )

    pairs: PairTable
    _transitions: Smoothing = Smoothing()

    def bind(self, labels: Sequence[str], smoothing: Smoothing | None = None) -> Emission:
        """Return an emission of these labels; Pr(y⁺ | y) is estimated by ``smoothing``."""
        self.check()
        return self.replace(labels=tuple(labels), _transitions=smoothing or Smoothing())

    # ---- scoring ---------------------------------------------------------------------------

    @property
    def has_edges(self) -> bool:
        """Whether `scores` has an ``edge``: yes."""
        return True

    def scores_beside(self, others: npt.NDArray[Any] | None, X: Any) -> Scored:
        """Look up every token, alone and with the previous label."""
        offsets, places = self.locate(X)
        emit = np.take(self.table.rows, places, axis=0)
        if others is not None:
            emit += others
        last = offsets[1:][np.diff(offsets) > 0] - 1
        emit[last] += self.pairs.ends(places[last])
        return Scored(offsets, emit, self.pairs.edges(places))

    def parts(self, sequence: Any) -> Parts:
        """Name the attribute of each token, and the term of the previous token."""
        words, table, Y = super().parts(sequence), self.table, len(self.labels)
        _, places = self.locate([sequence])
        after = self.pairs.scores[self.pairs.rows_of(places)]  # [T, Y, Y + 1]

        def of_transition(t: int, y_prev: int | None, y: int) -> Iterator[Part]:
            yield from words(t, y_prev, y)
            if y_prev is not None:
                name = f"after {table.names[places[t - 1]]}"
                yield Part(name, float(after[t - 1, y_prev, y]), 2)
            if t + 1 == len(places):
                yield Part(f"end after {table.names[places[t]]}", float(after[t, y, Y]))

        return of_transition

    # ---- learning --------------------------------------------------------------------------

    def collect(self, X: Any, gamma: Gamma, weight: Float64 | None = None) -> PairStats:
        """Count the words with each label and with the next one.

        Raises
        ------
        ParameterError
            If gamma are probabilities; labels are required.
        """
        data, Y = self.encode(X), len(self.labels)
        labels = check_gamma(gamma, len(data.ids), Y)
        if labels.ndim != 1:
            raise self.unsupported(
                "collect",
                "marginal probabilities do not determine which labels are adjacent",
                "Pass labels, or use Words without lexical.",
            )
        words = WordStats.count(data, labels, weight, Y)
        return _count_pairs(words, data, labels, weight, Y)

    def merge(self, a: PairStats, b: PairStats) -> PairStats:
        """Sum the statistics of different sentences, which may have different words."""
        words, Y = a.words.merge(b.words), len(self.labels)
        number = {word: w for w, word in enumerate(words.data.words)}
        place = np.array([number[word] for word in b.words.data.words], dtype=np.int64)
        keys_of_b = place[b.keys // Y] * Y + b.keys % Y
        keys, row = np.unique(np.concatenate([a.keys, keys_of_b]), return_inverse=True)
        after = np.zeros((len(keys), Y + 1))
        np.add.at(after, row, np.concatenate([a.after, b.after]))
        return PairStats(words, keys, after, a.pairs + b.pairs)

    def update(self, stats: PairStats) -> Self:
        """Estimate Pr(w | y), and Pr(w | y, y⁺) of frequent words."""
        counted = self.count(stats.words)
        new = self.replace(table=self.tabulate(counted))
        return new.replace(pairs=new._estimate_pairs(stats, counted))

    def _estimate_pairs(self, stats: PairStats, counted: WordCounts) -> PairTable:
        """Estimate how much more likely a frequent word is before each label."""
        assert self.lexical is not None
        Y = len(self.labels)
        given_label = self._transitions.probs(stats.pairs)[:Y]  # [Y, outcomes] Pr(y⁺ | y)
        outcomes = given_label.shape[1]
        is_frequent = counted.word_counts.sum(axis=1) >= self.lexical  # [V]
        counts = stats.after[:, :outcomes]
        word, label = counted.known_number[stats.keys // Y], stats.keys % Y
        used = (word >= 0) & is_frequent[word] & (counts > 0).any(axis=1)
        counts, word, label = counts[used], word[used], label[used]  # [R, outcomes], [R], [R]
        strength = _AFTER_STRENGTH * (counts > 0).sum(axis=1, keepdims=True)
        prior = given_label[label]
        given_word = (counts + strength * prior) / (counts.sum(axis=1, keepdims=True) + strength)
        # Pr(y⁺ | w, y) / Pr(y⁺ | y); 1 where Pr(y⁺ | y) = 0, as the transition then forbids it.
        ratio = np.divide(given_word, prior, out=np.ones_like(prior), where=prior > 0)
        # Pr(w | y, y⁺) sums to one over the words; all other words have the ratio 1.
        word_probs = np.exp(self.table.rows[counted.words[word], label].astype(np.float64))
        total = np.ones((Y, outcomes))
        np.add.at(total, label, word_probs[:, None] * (ratio - 1))
        scores = np.log(np.concatenate([1 / total, ratio / total[label]]))  # [Y + R, outcomes]
        if outcomes == Y:  # without ■ the end has score 0
            scores = np.column_stack([scores, np.zeros(len(scores))])
        words = np.unique(word)
        rows = np.tile(np.arange(Y, dtype=np.int32), (len(words), 1))
        rows[np.searchsorted(words, word), label] = Y + np.arange(len(word))
        by_row = np.argsort(counted.words[words])
        return PairTable(
            counted.words[words][by_row].astype(np.int32), rows[by_row], scores.astype(np.float32)
        )

    def log_prior(self) -> float:
        """Raise: the estimate does not maximise a likelihood."""
        raise self.unsupported("log_prior", "its estimate does not maximise a likelihood")

    # ---- looking inside --------------------------------------------------------------------

    def generate(
        self,
        y: npt.NDArray[np.integer[Any]],
        rng: np.random.Generator,
        unknown: str = "<unknown>",
    ) -> list[str]:
        """Draw a word for each label, given the next one."""
        emit, words = self.word_probs(), [*self.table.known_words(), unknown]
        rows = self.pairs.rows_of(np.append(self.table.words, np.int32(0)))  # [V + 1, Y]
        drawn = []
        for label, after in zip(y, [*y[1:], len(self.labels)], strict=True):
            probs = emit[label] * np.exp(self.pairs.scores[rows[:, label], after])
            drawn.append(words[int(rng.choice(len(words), p=probs / probs.sum()))])
        return drawn

    @property
    def n_parameters(self) -> int:
        """Those of `Words`, and Y (or Y − 1 without ■) for each word and label seen together."""
        rows = len(self.pairs.scores) - len(self.labels)
        return super().n_parameters + rows * (len(self.labels) - (not self._transitions.stop))

    def permute(self, order: Sequence[int]) -> Self:
        """Raise: it is trained on labels, whose order is given."""
        raise self.unsupported("permute", "the order of its labels is given")

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return both tables; see docs/format.md."""
        return super().to_file() | self.pairs.to_file()

    def from_file(self, file: File) -> Self:
        """Return the emission with the tables of a file."""
        new = super().from_file(file)
        pairs = PairTable.from_file(file.arrays, new.table.index.size, len(self.labels))
        return new.replace(pairs=pairs)


def _count_pairs(
    words: WordStats,
    data: WordTokens,
    labels: npt.NDArray[np.int32],
    weight: Float64 | None,
    Y: int,
) -> PairStats:
    after = np.append(labels[1:], Y).astype(np.int64)  # [T] the label after each token
    after[data.offsets[1:] - 1] = Y
    keys, row = np.unique(data.ids * np.int64(Y) + labels, return_inverse=True)
    cells = np.bincount(row * (Y + 1) + after, weight, minlength=len(keys) * (Y + 1))
    first = data.offsets[:-1][np.diff(data.offsets) > 0]
    pairs = np.zeros((Y + 1, Y + 1))
    followed = np.bincount(labels * (Y + 1) + after, weight, minlength=Y * (Y + 1))
    pairs[:Y] = followed.reshape(Y, Y + 1)
    pairs[Y, :Y] = np.bincount(labels[first], None if weight is None else weight[first], Y)
    return PairStats(words, keys, cells.reshape(len(keys), Y + 1).astype(np.float64), pairs)
