r"""Counts with a Poisson distribution for each label and column.

Pr(x_t | y) = Π_d exp(−λ_yd) λ_yd^x_td / x_td!
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ParameterError
from tagloom.scores.emissions.base import Float64, Gamma
from tagloom.scores.emissions.dirichlet import digamma
from tagloom.scores.emissions.numeric import (
    Bool,
    Numbers,
    Numeric,
    check_vector,
    log_factorials,
    spread_over,
)
from tagloom.storage import File

_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


class CountStats(NamedTuple):
    """Sums of the observed values of each label and column."""

    n: Float64  # [Y, D] Σ γ
    sums: Float64  # [Y, D] Σ γ x
    totals: Float64  # [2, D] count and sum over all labels


class Poisson(Numeric):
    r"""Counts with a Poisson distribution for each label and column.

        Pr(x_t | y) = Π_d exp(−λ_yd) λ_yd^x_td / x_td!

    Missing values, NaN, are left out of the product, which marginalises them exactly. The prior is
    a gamma distribution with shape a and rate b, ∝ λ^(a − 1) exp(−b λ); its density is part of the
    objective, and the update is

        λ_yd = (a − 1 + Σ_t γ[t, y] x_td) / (b + Σ_t γ[t, y])

    Parameters
    ----------
    prior_shape : float or list of float, optional
        a, at least 1; 1 by default.
    prior_rate : float or list of float, optional
        b, at least 0; 0 by default.
    floor : float, default 1e-9
        Smallest rate, in units of the mean of the column. It lets a label that has seen only zeros
        emit other counts.

    Attributes
    ----------
    rates_ : ndarray, shape (Y, D)
        λ, or its mean after `mean_field`.
    log_rates_ : ndarray, shape (Y, D)
        log λ, or its mean after `mean_field`.

    Notes
    -----
    If no prior is given, `draw_posterior` and `mean_field`, which need a proper one, use shape 1
    and the mean of the column.

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> X = [np.array([0, 1, 0, 7, 9]), np.array([8, 6, 1])]
    >>> y = [["quiet", "quiet", "quiet", "busy", "busy"], ["busy", "busy", "quiet"]]
    >>> hmm = tl.HMM(emissions=tl.emissions.Poisson()).fit(X, y)
    >>> hmm.emission_.rates_
    array([[7.5],
           [0.5]])
    >>> hmm.predict([np.array([0, 2, 6])])
    [['quiet', 'quiet', 'busy']]
    """

    by_column = "rates_"
    learned = ("rates_", "log_rates_")
    values = "counts (0, 1, 2, …)"

    rates_: Float64
    log_rates_: Float64
    _floor: Float64 | None = None  # [D] fixed at the first update

    def __init__(
        self, *, prior_shape: Any = None, prior_rate: Any = None, floor: float = 1e-9
    ) -> None:
        self.prior_shape = prior_shape
        self.prior_rate = prior_rate
        self.floor = floor

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        check_vector(self.prior_shape, "prior_shape", least=1)
        check_vector(self.prior_rate, "prior_rate", least=0)
        checks.number(self.floor, "floor", above=0)

    def _fits(self, x: Float64) -> Bool:
        return np.asarray((x >= 0) & (x == np.floor(x)))

    def _prior(self, D: int) -> tuple[Float64, Float64]:
        """Return shape and rate of each column [D]; flat by default."""
        shape = 1.0 if self.prior_shape is None else self.prior_shape
        rate = 0.0 if self.prior_rate is None else self.prior_rate
        return spread_over(shape, D, "prior_shape"), spread_over(rate, D, "prior_rate")

    def _proper_prior(self, stats: CountStats) -> tuple[Float64, Float64]:
        shape, rate = self._prior(stats.sums.shape[1])
        if self.prior_shape is None and self.prior_rate is None:
            rate = 1 / _column_means(stats)
        return shape, rate

    # ---- scoring ---------------------------------------------------------------------------

    def log_probs(self, X: Any) -> Float64:
        """Sum log Pr(x_td | y) over the observed columns [T, Y]."""
        data = self._encode_same(X, "log_probs")
        out = data.filled @ self.log_rates_.T
        if data.observed is None:
            out -= self.rates_.sum(axis=1)
        else:
            out -= data.observed @ self.rates_.T
        out -= _coefficients(data)[:, None]
        return np.asarray(out)

    # ---- learning --------------------------------------------------------------------------

    def collect(self, X: Any, gamma: Gamma, weight: Float64 | None = None) -> CountStats:
        """Sum the counts of each label; see `Emission.collect`."""
        return collect_sums(self, X, gamma, weight)

    def update(self, stats: CountStats) -> Self:
        """Return the maximum of likelihood times prior; see the class."""
        shape, rate = self._prior(stats.sums.shape[1])
        floor = self._floor
        if floor is None:
            floor = self.floor * _column_means(stats)
        weight = stats.n + rate
        has = weight > 1e-10
        old = self.rates_ if self.is_fitted else _column_means(stats)
        rates = (shape - 1 + stats.sums) / np.where(has, weight, 1)
        rates = np.where(has, np.maximum(rates, floor), old)
        return self.replace(rates_=rates, log_rates_=np.log(rates), _floor=floor, _divergence=None)

    def log_prior(self) -> float:
        """Return Σ (a − 1) log λ − b λ; after `mean_field`, −KL(q ‖ prior)."""
        self.check_learned("log_prior")
        if self._divergence is not None:
            return -self._divergence
        shape, rate = self._prior(self.rates_.shape[1])
        return float(((shape - 1) * self.log_rates_ - rate * self.rates_).sum())

    def draw_posterior(self, stats: CountStats, rng: np.random.Generator) -> Self:
        """Draw rates from the posterior, Gamma(a + Σ γ x, b + Σ γ)."""
        a, b = self._posterior(stats, "draw_posterior")
        # As for Dirichlet draws, in logarithms: a gamma variable of a small shape underflows.
        logs = np.log(rng.standard_gamma(a + 1)) + np.log1p(-rng.random(a.shape)) / a - np.log(b)
        logs = np.maximum(logs, -700.0)
        return self.replace(rates_=np.exp(logs), log_rates_=logs, _divergence=None)

    def mean_field(self, stats: CountStats) -> Self:
        """Return the update of variational Bayes; see `Emission.mean_field`."""
        a, b = self._posterior(stats, "mean_field")
        shape, rate = self._proper_prior(stats)
        logs = digamma(a) - np.log(b)
        divergence = (
            (a - shape) * digamma(a)
            - _log_gamma(a)
            + _log_gamma(shape)
            + shape * (np.log(b) - np.log(rate))
            + a * (rate - b) / b
        )
        return self.replace(rates_=a / b, log_rates_=logs, _divergence=float(divergence.sum()))

    def _posterior(self, stats: CountStats, member: str) -> tuple[Float64, Float64]:
        shape, rate = self._proper_prior(stats)
        if not (rate > 0).all():
            raise self._improper(member)
        return stats.sums + shape, stats.n + rate

    def _improper(self, member: str) -> ParameterError:
        return self.unsupported(
            member, "its prior cannot be normalised", "Pass prior_rate above 0, or neither prior."
        )

    # ---- looking inside --------------------------------------------------------------------

    def generate(
        self, y: npt.NDArray[np.integer[Any]], rng: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Draw counts for each label [T, D]."""
        self.check_learned("generate")
        return rng.poisson(self.rates_[np.asarray(y)])

    @property
    def n_parameters(self) -> int:
        """Y · D rates."""
        self.check_learned("n_parameters")
        return self.rates_.size

    def order_key(self) -> Float64:
        """Return the rates, by which states are sorted: first column first."""
        self.check_learned("order_key")
        return self.rates_

    def from_file(self, file: File) -> Self:
        """Return the emission with the parameters of a file, which are checked."""
        rates = self._read_array(file, "rates_", 2, above=0)
        logs = self._read_array(file, "log_rates_", 2)
        if len(rates) != len(self.labels) or rates.shape != logs.shape or not rates.shape[1]:
            raise self._file_error("rates_", f"{len(self.labels)} rows", str(rates.shape))
        if (logs > np.log(rates) + 1e-6).any():  # E log λ ≤ log E λ
            raise self._file_error("log_rates_", "logarithms of the rates", "larger numbers")
        return self.replace(rates_=rates, log_rates_=logs, _divergence=self._read_divergence(file))


def collect_sums(emission: Numeric, X: Any, gamma: Gamma, weight: Float64 | None) -> CountStats:
    """Sum the observed values of each label and column."""
    data, gamma, _ = emission._weigh(X, gamma, weight)
    sums = gamma.T @ data.filled
    if data.observed is None:
        n = np.repeat(gamma.sum(axis=0)[:, None], data.x.shape[1], axis=1)
    else:
        n = gamma.T @ data.observed
    return CountStats(n, sums, _totals(data, weight))


def _totals(data: Numbers, weight: Float64 | None) -> Float64:
    """Count and sum the observed values of each column [2, D]."""
    if weight is None:
        return np.stack([data.counts, data.filled.sum(axis=0)])
    has = np.ones_like(data.x) if data.observed is None else data.observed
    return np.stack([weight @ has, weight @ data.filled])


def _column_means(stats: CountStats) -> Float64:
    """Return the mean of each column, 1 if all its values are 0 or missing [D]."""
    count, total = stats.totals
    return np.where(total > 0, total / np.maximum(count, 1e-10), 1.0)


def _coefficients(data: Numbers) -> Float64:
    """Return Σ_d log x_td! of the observed values [T], kept with the data."""
    kept = data.__dict__.get("_log_factorials")
    if kept is None:
        kept = data.__dict__["_log_factorials"] = log_factorials(data.filled).sum(axis=1)
    return np.asarray(kept)
