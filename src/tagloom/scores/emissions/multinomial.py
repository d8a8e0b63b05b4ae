r"""Vectors of counts with a multinomial distribution for each label.

Pr(x_t | y) = n_t! / Π_v x_tv! · Π_v p_yv^x_tv,   n_t = Σ_v x_tv
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ParameterError, SentenceError
from tagloom.scores.emissions import dirichlet
from tagloom.scores.emissions.base import Float64, Gamma
from tagloom.scores.emissions.numeric import (
    Bool,
    Columns,
    Numbers,
    Numeric,
    log_factorials,
)
from tagloom.storage import File

_MOST_ROUNDS = 500
_CONVERGED = 1e-12


@dataclass(frozen=True, eq=False)
class MultinomialStats:
    """Counts of the categories with each label.

    Attributes
    ----------
    counts : ndarray, shape (Y, V)
        Σ γ x of the rows without gaps.
    totals : ndarray, shape (V,)
        The observed counts of all labels.
    incomplete : tuple of (Numbers, ndarray of shape (T, Y))
        Data with gaps and their γ.
    """

    counts: Float64
    totals: Float64
    incomplete: tuple[tuple[Numbers, Float64], ...] = ()


class Multinomial(Numeric):
    r"""Vectors of counts of V categories, such as words of a document or votes.

        Pr(x_t | y) = n_t! / Π_v x_tv! · Π_v p_yv^x_tv,   n_t = Σ_v x_tv

    The number of trials n_t is given, not modelled; it may differ from token to token. The
    likelihood contains the coefficient, as hmmlearn's does. The prior is a Dirichlet distribution
    ∝ Π_v p_yv^(α − 1); its density is part of the objective, and the update is

        p_yv = (α − 1 + Σ_t γ[t, y] x_tv) / Σ_v …

    Missing counts, NaN, are marginalised exactly. With ``n_trials`` their sum is known: they form
    one category whose probability is the sum of theirs. Otherwise the observed counts have a
    multinomial distribution given their own sum. The update completes such rows by their
    expectation.

    Parameters
    ----------
    alpha : float, default 1.0
        α, at least 1; 1 is flat.
    n_trials : int, optional
        n, if it is the same for all tokens. `generate` requires it.
    floor : float, default 1e-9
        Probabilities are at least ``floor`` / V, so that a category a label has not seen is
        improbable instead of impossible.

    Attributes
    ----------
    log_p_ : ndarray, shape (Y, V)
        log p, or its mean after `mean_field`.

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> X = [np.array([[3, 1, 0], [4, 0, 0], [0, 1, 3]])]
    >>> hmm = tl.HMM(emissions=tl.emissions.Multinomial()).fit(X, [["a", "a", "b"]])
    >>> hmm.emission_.probs_.round(3)
    array([[0.875, 0.125, 0.   ],
           [0.   , 0.25 , 0.75 ]])
    >>> hmm.predict([np.array([[1, 1, 0], [0, 0, 2]])])
    [['a', 'b']]
    """

    by_column = "log_p_"
    learned = ("log_p_",)
    values = "counts (0, 1, 2, …)"

    log_p_: Float64

    def __init__(
        self, *, alpha: float = 1.0, n_trials: int | None = None, floor: float = 1e-9
    ) -> None:
        self.alpha = alpha
        self.n_trials = n_trials
        self.floor = floor

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        checks.number(self.alpha, "alpha", least=1)
        checks.number(self.floor, "floor", above=0, most=1)
        if self.n_trials is not None:
            checks.count(self.n_trials, "n_trials")

    def _fits(self, x: Float64) -> Bool:
        return np.asarray((x >= 0) & (x == np.floor(x)))

    def _check_values(self, data: Numbers) -> None:
        super()._check_values(data)
        if self.n_trials is None:
            return
        sums = data.filled.sum(axis=1)
        wrong = sums != self.n_trials
        if data.observed is not None:
            has_gaps = ~data.observed.all(axis=1)
            wrong = np.where(has_gaps, sums > self.n_trials, wrong)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            i = int(np.searchsorted(data.offsets, row, side="right")) - 1
            raise SentenceError(
                where=checks.place(i, int(row - data.offsets[i])),
                expected=f"counts whose sum is n_trials={self.n_trials}",
                found=f"the sum {sums[row]:g}",
            )

    @property
    def probs_(self) -> Float64:
        """P [Y, V]."""
        self.check_learned("probs_")
        probs = np.exp(self.log_p_)
        return np.asarray(probs / probs.sum(axis=1, keepdims=True))

    # ---- scoring ---------------------------------------------------------------------------

    def log_probs(self, X: Any) -> Float64:
        """Compute log Pr(x_t | y), with the multinomial coefficient [T, Y]."""
        data = self._encode_same(X, "log_probs")
        out = data.filled @ self.log_p_.T
        out += self._coefficients(data)[:, None]
        if data.observed is not None:
            for pattern, missing in self._gaps(data):
                out[pattern.rows] += self._of_gaps(data, pattern, missing)
        return np.asarray(out)

    def _of_gaps(self, data: Numbers, pattern: Columns, missing: npt.NDArray[Any]) -> Float64:
        """Return the terms of the missing categories, or of the sum of the observed ones."""
        observed = data.filled[pattern.rows].sum(axis=1)
        if len(pattern.columns) == 0:
            return np.zeros((len(observed), len(self.log_p_)))
        if self.n_trials is None:  # given n_o: probabilities are renormalised
            total = np.logaddexp.reduce(self.log_p_[:, pattern.columns], axis=1)  # [Y]
            return np.asarray(-observed[:, None] * total)
        total = np.logaddexp.reduce(self.log_p_[:, missing], axis=1)
        return np.asarray((self.n_trials - observed)[:, None] * total)

    def _gaps(self, data: Numbers) -> Iterator[tuple[Columns, npt.NDArray[Any]]]:
        """Yield the sets of rows with gaps, and their missing columns."""
        every = np.arange(data.x.shape[1])
        for pattern in data.patterns:
            if len(pattern.columns) < len(every):
                yield pattern, np.setdiff1d(every, pattern.columns)

    def _coefficients(self, data: Numbers) -> Float64:
        """Return the log of the multinomial coefficient of each row [T], kept with the data."""
        kept = data.__dict__.get("_multinomial")
        if kept is None:
            n = data.filled.sum(axis=1)
            kept = log_factorials(n) - log_factorials(data.filled).sum(axis=1)
            if self.n_trials is not None and data.observed is not None:
                has_gaps = ~data.observed.all(axis=1)
                rest = np.where(has_gaps, self.n_trials - n, 0)
                whole = log_factorials(np.full(len(n), float(self.n_trials)))
                kept = np.where(
                    has_gaps,
                    whole - log_factorials(data.filled).sum(axis=1) - log_factorials(rest),
                    kept,
                )
            data.__dict__["_multinomial"] = kept
        return np.asarray(kept)

    # ---- learning --------------------------------------------------------------------------

    def collect(self, X: Any, gamma: Gamma, weight: Float64 | None = None) -> MultinomialStats:
        """Count the categories with each label; see `Emission.collect`."""
        data, gamma, _ = self._weigh(X, gamma, weight)
        totals = data.filled.sum(axis=0) if weight is None else weight @ data.filled
        if data.observed is None:
            return MultinomialStats(gamma.T @ data.filled, totals)
        complete = data.observed.all(axis=1)
        counts = gamma[complete].T @ data.filled[complete]
        return MultinomialStats(counts, totals, ((data, gamma),))

    def merge(self, a: MultinomialStats, b: MultinomialStats) -> MultinomialStats:
        """Sum the statistics of different sequences."""
        return MultinomialStats(
            a.counts + b.counts, a.totals + b.totals, a.incomplete + b.incomplete
        )

    def update(self, stats: MultinomialStats) -> Self:
        """Return the maximum of likelihood times prior.

        Rows with gaps are completed by their expectation, which is one iteration of EM; an emission
        that is not fitted iterates until it has converged.
        """
        if not self._has_gaps(stats):
            return self._maximise(stats.counts, stats.totals)
        if self.is_fitted:
            return self._maximise(self._expected(stats), stats.totals)
        current = self._maximise(stats.counts, stats.totals)
        for _ in range(_MOST_ROUNDS):
            new = current._maximise(current._expected(stats), stats.totals)
            change = np.abs(new.probs_ - current.probs_).max(initial=0.0)
            current = new
            if change < _CONVERGED:
                break
        return current

    def _has_gaps(self, stats: MultinomialStats) -> bool:
        return any(True for data, _ in stats.incomplete for _ in self._gaps(data))

    def _expected(self, stats: MultinomialStats) -> Float64:
        """Return the counts with those of the rows with gaps, completed by expectation [Y, V]."""
        counts, probs = stats.counts.copy(), self.probs_
        for data, gamma in stats.incomplete:
            for pattern, missing in self._gaps(data):
                x, g = data.filled[pattern.rows], gamma[pattern.rows]
                n = x.sum(axis=1)
                counts += g.T @ x
                of_missing = probs[:, missing].sum(axis=1)  # [Y]
                if self.n_trials is None:  # negative multinomial, with the prior 1 / n
                    base = np.maximum(1 - of_missing, 1e-300)
                    trials = (g.T @ n) / base
                else:
                    trials = (g.T @ (self.n_trials - n)) / np.maximum(of_missing, 1e-300)
                counts[:, missing] += trials[:, None] * probs[:, missing]
        return counts

    def _maximise(self, counts: Float64, totals: Float64) -> Self:
        mass = counts + self.alpha - 1
        total = mass.sum(axis=1, keepdims=True)
        has = total > 1e-10
        overall = totals / totals.sum() if totals.sum() > 0 else np.full(len(totals), 1.0)
        old = self.probs_ if self.is_fitted else overall / overall.sum()
        probs = np.where(has, mass / np.where(has, total, 1), old)
        probs = raise_to_floor(probs, self.floor / probs.shape[1])
        return self.replace(log_p_=np.log(probs), _divergence=None)

    def log_prior(self) -> float:
        """Return (α − 1) Σ log p; after `mean_field`, −KL(q ‖ prior)."""
        self.check_learned("log_prior")
        if self._divergence is not None:
            return -self._divergence
        return (self.alpha - 1) * float(self.log_p_.sum())

    def draw_posterior(self, stats: MultinomialStats, rng: np.random.Generator) -> Self:
        """Draw probabilities from the posterior, Dirichlet(α + counts)."""
        alpha = self._posterior(stats, "draw_posterior")
        logs = dirichlet.draw(alpha, rng).T
        return self.replace(log_p_=np.maximum(logs, -700.0), _divergence=None)

    def mean_field(self, stats: MultinomialStats) -> Self:
        """Return the update of variational Bayes; see `Emission.mean_field`."""
        alpha = self._posterior(stats, "mean_field")
        divergence = dirichlet.divergence(alpha, self.alpha)
        return self.replace(log_p_=dirichlet.mean_log(alpha).T, _divergence=divergence)

    def _posterior(self, stats: MultinomialStats, member: str) -> Float64:
        """Return the parameters of the posteriors [V, Y]."""
        if self._has_gaps(stats):
            raise self.unsupported(
                member,
                "rows with missing counts have no conjugate posterior",
                'Use algorithm="em".',
            )
        return (stats.counts + self.alpha).T

    # ---- looking inside --------------------------------------------------------------------

    def generate(
        self, y: npt.NDArray[np.integer[Any]], rng: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Draw counts of ``n_trials`` trials for each label [T, V]."""
        if self.n_trials is None:
            raise ParameterError(
                where="Multinomial.generate",
                parameter="n_trials",
                expected="the number of trials of a token",
                found="None",
            )
        return rng.multinomial(self.n_trials, self.probs_[np.asarray(y)])

    @property
    def n_parameters(self) -> int:
        """Y · (V − 1) probabilities."""
        self.check_learned("n_parameters")
        return len(self.labels) * (int(self.log_p_.shape[1]) - 1)

    def order_key(self) -> Float64:
        """Return the probabilities, by which states are sorted: first category first."""
        return self.probs_

    def from_file(self, file: File) -> Self:
        """Return the emission with the parameters of a file, which are checked."""
        logs = self._read_array(file, "log_p_", 2)
        if len(logs) != len(self.labels) or not logs.shape[1]:
            raise self._file_error("log_p_", f"{len(self.labels)} rows", str(logs.shape))
        if (np.logaddexp.reduce(logs, axis=1) > 1e-6).any():
            raise self._file_error("log_p_", "log-probabilities", "a sum above 1")
        return self.replace(log_p_=logs, _divergence=self._read_divergence(file))


def raise_to_floor(probs: Float64, floor: float) -> Float64:
    """Raise probabilities [Y, V] to a floor, and scale the others so that rows sum to 1.

    This is the maximum of Σ n_v log p_v among distributions with p_v ≥ floor, for p ∝ n.
    """
    low = probs < floor
    for _ in range(probs.shape[1]):
        rest = np.where(low, 0, probs).sum(axis=1, keepdims=True)
        factor = (1 - floor * low.sum(axis=1, keepdims=True)) / np.where(rest > 0, rest, 1)
        raised = np.where(low, floor, probs * factor)
        below = (raised < floor) & ~low
        if not below.any():
            return raised
        low = low | below
    return raised
