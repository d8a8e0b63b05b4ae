r"""Concentrations of symmetric Dirichlet priors, drawn given counts: the α and β of the samplers.

With the probabilities integrated out, the counts n[r, c] of rows r with C_r outcomes have

    p(n | a) ∝ Π_r Γ(C_r · a) / Γ(C_r · a + n_r) · Π_c Γ(a + n[r, c]) / Γ(a)

The prior of a is the standard exponential distribution. Since p depends on the counts only through
their histogram, one evaluation takes microseconds, whatever the number of words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

# Coefficients B_2n / (2n (2n − 1)) of Stirling's series for log Γ.
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_SHIFT = 10
_FEW = 500  # numbers up to which a loop over math.lgamma is faster


@dataclass(frozen=True, eq=False)
class RowCounts:
    """Counts of several rows, as far as a symmetric prior depends on them.

    Attributes
    ----------
    outcomes : ndarray, shape (R,)
        C_r, the number of possible outcomes of each row.
    totals : ndarray, shape (R,)
        n_r, the number of draws from each row.
    values, times : ndarray, shape (H,)
        The positive counts that occur, and the number of cells that have each.
    """

    outcomes: Float64
    totals: Float64
    values: Float64
    times: Float64

    @classmethod
    def from_histogram(cls, outcomes: Any, totals: Any, histogram: Int64) -> RowCounts:
        """Make it from the number of cells with each count, 0 included."""
        values = np.flatnonzero(histogram[1:]) + 1
        return cls(
            np.asarray(outcomes, dtype=np.float64),
            np.asarray(totals, dtype=np.float64),
            values.astype(np.float64),
            histogram[values].astype(np.float64),
        )

    @classmethod
    def from_counts(cls, counts: Float64, outcomes: Any) -> RowCounts:
        """Make it from integer counts, one row per distribution."""
        histogram = np.bincount(counts.astype(np.int64).ravel(), minlength=1)
        return cls.from_histogram(outcomes, counts.sum(axis=1), histogram)

    def log_evidence(self, a: float) -> float:
        """Compute log p(n | a) for ordered draws."""
        prior = a * self.outcomes
        rows = log_gamma(prior) - log_gamma(prior + self.totals)
        cells = self.times * (log_gamma(self.values + a) - math.lgamma(a))
        return float(rows.sum() + cells.sum())


def draw_concentration(counts: list[RowCounts], a: float, rng: np.random.Generator) -> float:
    """Draw a given counts that share it, by one step of slice sampling from its present value.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom.learners.concentrations import RowCounts, draw_concentration
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.multinomial(1000, rng.dirichlet(np.full(50, 0.1), 200)).astype(float)
    >>> rows = RowCounts.from_counts(counts, np.full(200, 50))
    >>> a = 1.0
    >>> draws = [a := draw_concentration([rows], a, rng) for _ in range(50)]
    >>> bool(abs(np.mean(draws[10:]) - 0.1) < 0.01)
    True
    """

    def log_density(x: float) -> float:  # of x = log a
        value = math.exp(x)
        return sum(rows.log_evidence(value) for rows in counts) - value + x

    return math.exp(slice_step(log_density, math.log(a), rng))


def slice_step(
    log_density: Callable[[float], float], x: float, rng: np.random.Generator, width: float = 1.0
) -> float:
    """Draw from a density on the line by one step of slice sampling (Neal 2003, stepping out)."""
    level = log_density(x) + math.log1p(-rng.random())
    low = x - width * rng.random()
    high = low + width
    while log_density(low) > level:
        low -= width
    while log_density(high) > level:
        high += width
    while high - low > 1e-12:
        candidate = low + (high - low) * rng.random()
        if log_density(candidate) > level:
            return candidate
        if candidate < x:
            low = candidate
        else:
            high = candidate
    return x


def log_gamma(x: Float64) -> Float64:
    """Compute log Γ(x) for x > 0, to about 1e-14 of max(1, its size).

    log Γ(x) = log Γ(x + 10) − log(x (x + 1) … (x + 9)) shifts small x to where Stirling's series
    has an error below 1e-16.
    """
    x = np.asarray(x, dtype=np.float64)
    if x.size <= _FEW:
        logs = map(math.lgamma, x.ravel().tolist())
        return np.fromiter(logs, np.float64, x.size).reshape(x.shape)
    is_small = x < _SHIFT
    shifted = np.where(is_small, x + _SHIFT, x)
    product = np.ones_like(x)
    small = np.where(is_small, x, 1.0)
    for i in range(_SHIFT):
        product *= small + i
    inverse = 1 / shifted
    series = inverse * np.polynomial.polynomial.polyval(inverse**2, _SERIES)
    large = (shifted - 0.5) * np.log(shifted) - shifted + 0.5 * math.log(2 * math.pi) + series
    return np.asarray(large - np.where(is_small, np.log(product), 0.0))
