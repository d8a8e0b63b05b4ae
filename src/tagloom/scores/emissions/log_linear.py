r"""Words whose probability depends on their features: a log-linear model for each label.

    Pr(v | y) = exp(Σ_f w[f, y]) / Σ_v' exp(Σ_f' w[f', y])        f, f' features of v, v'

Words of the same shape or ending share weights, so that rare words are learned from frequent ones
(Berg-Kirkpatrick et al. 2010, "Painless unsupervised learning with features").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks, features
from tagloom.errors import ModelFileError, SentenceError
from tagloom.scores.emissions.base import Float64
from tagloom.scores.emissions.categorical import (
    AnyStats,
    Categorical,
    Symbols,
    SymbolTokens,
    read_symbols,
)
from tagloom.scores.emissions.divided import Division, Outline
from tagloom.scores.emissions.features import find_templates
from tagloom.scores.linear import Scored
from tagloom.scores.tables import Int32
from tagloom.scores.word_counts import add_rows
from tagloom.storage import File

#: Word, shape and endings; the shape has capitals, digits and hyphens.
TEMPLATES = ("word", "short_shape", "suffix(1)", "suffix(2)", "suffix(3)")

_STEPS = 15  # of L-BFGS in one M-step; more would gain little, since the next E-step follows


@dataclass(frozen=True, eq=False)
class WordFeatures:
    """The features of V words.

    Attributes
    ----------
    words : tuple of str
    index : Index
        The F features.
    ids : list of ndarray of int32, each of shape (V,)
        For each template the feature of each word, or F if it has none.
    """

    words: Symbols
    index: _native.Index
    ids: list[Int32]

    @classmethod
    def read(cls, templates: Sequence[str], words: Symbols) -> WordFeatures:
        """Number the features of words, template by template."""
        index = _native.Index()
        ids = [_encode(template, words, index, grow=True) for template in templates]
        return cls(words, index, _without_gaps(ids, index.size))

    def of(self, templates: Sequence[str], words: Symbols) -> list[Int32]:
        """Return the features of other words, F for those that are not known."""
        ids = [_encode(template, words, self.index, grow=False) for template in templates]
        return _without_gaps(ids, self.index.size)


def _encode(template: str, words: Symbols, index: _native.Index, *, grow: bool) -> Int32:
    """Return the feature of each word [V], or −1."""
    encoded = features.make([template]).encode([list(words)], index, grow=grow)
    has = np.diff(encoded.indptr) > 0
    ids = np.full(len(words), -1, dtype=np.int32)
    ids[has] = encoded.ids[encoded.indptr[:-1][has]]
    return ids


def _without_gaps(ids: list[Int32], n: int) -> list[Int32]:
    return [np.where(of_words < 0, n, of_words).astype(np.int32) for of_words in ids]


class LogLinear(Categorical):
    r"""Words by their features, for learning without labels.

    Unknown words are scored by the features that they share with known ones; their scores are not
    part of the sum over words.

    Parameters
    ----------
    templates : list of str
        Features of a word; see docs/templates.md. By default the word itself, its shape, and its
        endings of up to three letters.
    penalty : float
        κ of the penalty κ · Σ w², the Gaussian prior of the weights.
    symbols : list of str, optional
        The words; by default those of the training data.

    Attributes
    ----------
    weights_ : ndarray, shape (F, Y)
    probs_ : ndarray, shape (Y, V + 1)
        Pr(v | y) of the V known words; the last column is 0.
    symbols_ : tuple of str
        The V words.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["the", "dog", "walked"], ["a", "cat", "talked"], ["the", "cat", "walked"]]
    >>> emission = tl.emissions.LogLinear()
    >>> hmm = tl.HMM(n_states=2, emissions=emission, algorithm="gradient", max_iterations=20)
    >>> hmm.fit(X).predict([["a", "dog", "balked"]]) == hmm.predict([["a", "dog", "walked"]])
    True
    """

    prior = 1.0  # no pseudo-counts: the penalty is the prior

    def __init__(
        self,
        templates: Sequence[str] = TEMPLATES,
        *,
        penalty: float = 1.0,
        symbols: Sequence[str] | None = None,
    ) -> None:
        self.templates = templates
        self.penalty = penalty
        self.symbols = symbols

    weights_: Float64
    _features: WordFeatures | None = None

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        find_templates(list(self.templates))
        checks.number(self.penalty, "penalty", least=0)
        self._given_symbols()

    # ---- scoring ---------------------------------------------------------------------------

    def scores(self, X: Any, n_threads: int = 1) -> Scored:
        """Look up every known word, and score others by their features."""
        self.check_learned("log_probs")
        if isinstance(X, SymbolTokens):
            return super().scores(X, n_threads)
        words, ids, offsets = read_symbols(X)
        _check_words(words)
        assert self._features is not None
        of_words = self._sum(self._features.of(list(self.templates), words)) - self._log_totals()
        return Scored(offsets, np.take(of_words, ids, axis=0), None)

    def log_probs(self, X: Any) -> Float64:
        """Look up log Pr(v | y) of every token [T, Y]."""
        return np.asarray(self.scores(X).emit, dtype=np.float64)

    def _sum(self, ids: list[Int32]) -> Float64:
        """Sum the weights of the features of words [V, Y]."""
        padded = np.vstack([self.weights_, np.zeros(self.weights_.shape[1])])
        total: Float64 = padded[ids[0]]
        for of_words in ids[1:]:
            total += padded[of_words]
        return total

    def _log_totals(self) -> Float64:
        """Log of the sum over the known words, of each label [Y]."""
        assert self._features is not None
        return np.asarray(np.logaddexp.reduce(self._sum(self._features.ids), axis=0))

    # ---- learning --------------------------------------------------------------------------

    def to_vector(self) -> Float64:
        """Return the weights as a vector [F · Y], for the algorithm "gradient"."""
        self.check_learned("to_vector")
        return self.weights_.ravel()

    def with_vector(self, theta: Float64) -> Self:
        """Return the emission with the weights of a vector."""
        return self._with_weights(theta.reshape(self.weights_.shape))

    def gradient(self, stats: AnyStats) -> Float64:
        """Return the gradient of Σ count(v, y) · log Pr(v | y) + `log_prior` [F · Y]."""
        return (self._gradient(stats) - 2 * self.penalty * self.weights_).ravel()

    def _gradient(self, stats: AnyStats) -> Float64:
        assert self._features is not None
        counts = stats.counts[:-1]
        residuals = counts - counts.sum(axis=0) * self.probs_[:, :-1].T  # [V, Y]
        F, Y = self.weights_.shape
        grad = np.zeros((F + 1, Y))
        for of_words in self._features.ids:
            first, end = int(of_words.min()), int(of_words.max()) + 1  # of this template, and F
            if end <= F:
                grad[first:end] += add_rows(
                    of_words - np.int32(first), residuals, None, end - first, Y
                )
            else:
                grad += add_rows(of_words, residuals, None, F + 1, Y)
        return grad[:-1]

    def update(self, stats: AnyStats) -> Self:
        """Improve the weights by some steps of L-BFGS; the objective never falls."""
        _check_words(stats.symbols)
        start = self if self.is_fitted else self._begin(stats.symbols, None)
        native = _native.Lbfgs(start.weights_.size, 0.0, float(self.penalty), 6, None, 1e-14)
        native.start_from(start.to_vector().copy())
        steps = 0
        while steps < _STEPS and (point := native.ask(1)) is not None:
            trial = start.with_vector(point)
            with np.errstate(divide="ignore"):
                logs = np.log(trial.probs_[:, :-1].T)
            counts = stats.counts[:-1]
            loss = -float((counts[counts > 0] * logs[counts > 0]).sum())
            steps += bool(native.tell(loss, -trial._gradient(stats).ravel(), 1))
        return start.with_vector(native.theta())

    def log_prior(self) -> float:
        """Return −κ · Σ w²."""
        self.check_learned("log_prior")
        return -self.penalty * float((self.weights_**2).sum())

    def initialise(self, X: Any, rng: np.random.Generator) -> Self:
        """Return a random initial emission: weights from a normal distribution of deviation 0.1."""
        data = self.encode(X)
        return self.initialise_counts(data.symbols, np.empty(0), rng)

    def initialise_counts(
        self, symbols: Symbols, times: npt.NDArray[Any], rng: np.random.Generator
    ) -> Self:
        """Return a random initial emission of these symbols."""
        _check_words(symbols)
        return self._begin(symbols, rng)

    def divide(self, outlines: Sequence[Outline]) -> Division:
        """Give each shard the probabilities of its own words, all of which must be known."""
        if self.is_fitted and not set(self.symbols_).issuperset(*(o.symbols for o in outlines)):
            raise self.unsupported("divide", "the files have words without weights")
        return super().divide(outlines)

    def _begin(self, words: Symbols, rng: np.random.Generator | None) -> Self:
        of_words = WordFeatures.read(list(self.templates), words)
        shape = of_words.index.size, len(self.labels)
        weights = np.zeros(shape) if rng is None else 0.1 * rng.standard_normal(shape)
        return self.replace(_features=of_words, symbols_=words)._with_weights(weights)

    def _with_weights(self, weights: Float64) -> Self:
        new = self.replace(weights_=weights)
        assert new._features is not None
        scores = new._sum(new._features.ids)  # [V, Y]
        scores -= scores.max(axis=0)
        np.exp(scores, out=scores)
        probs = np.zeros((len(scores) + 1, scores.shape[1]))
        np.divide(scores, scores.sum(axis=0), out=probs[:-1])
        return new.replace(probs_=probs.T)

    def draw_posterior(self, stats: Any, rng: np.random.Generator) -> Self:
        """Raise: the prior of the weights is not conjugate."""
        raise self.unsupported("draw_posterior", "the prior of its weights is not conjugate")

    def mean_field(self, stats: Any) -> Self:
        """Raise: the prior of the weights is not conjugate."""
        raise self.unsupported("mean_field", "the prior of its weights is not conjugate")

    # ---- looking inside --------------------------------------------------------------------

    @property
    def n_parameters(self) -> int:
        """Y · F, the number of weights."""
        self.check_learned("n_parameters")
        return int(self.weights_.size)

    def permute(self, order: Sequence[int]) -> Self:
        """Return the same emission with its states in another order."""
        return self._with_weights(np.ascontiguousarray(self.weights_[:, np.asarray(order)]))

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the weights, and the words, from which the features follow."""
        self.check_learned("to_file")
        return File({"symbols": list(self.symbols_)}, {"emission_weights_": self.weights_})

    def from_file(self, file: File) -> Self:
        """Return the emission with the state of a file."""
        words, weights = tuple(file.header["symbols"]), file.arrays["emission_weights_"]
        new = self._begin(words, None)
        if weights.shape != new.weights_.shape or not np.isfinite(weights).all():
            raise ModelFileError(
                where=self.kind,
                expected=f"finite weights of shape {new.weights_.shape}",
                found=f"an array of shape {weights.shape}",
            )
        return new._with_weights(np.array(weights, dtype=np.float64))


def _check_words(symbols: Symbols) -> None:
    """Raise if symbols are not words, which have features."""
    if symbols and not isinstance(symbols[0], str):
        raise SentenceError(
            expected="words, whose features LogLinear learns",
            found=checks.show_type(symbols[0]),
            hint="For codes use emissions=tl.emissions.Categorical().",
        )
