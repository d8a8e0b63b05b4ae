r"""Dirichlet distributions, one for each label: the prior and posterior of discrete emissions.

Arrays are [cells, Y]; each column holds the parameters, or the probabilities, of one distribution::

    p(θ) ∝ Π_v θ_v^(α_v - 1)
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

# Coefficients B_2n / 2n of the asymptotic series of the digamma function, from x^0 on.
_SERIES = (0, 1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)

_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


def draw(alpha: Float64, rng: np.random.Generator) -> Float64:
    """Draw log θ of each column [cells, Y].

    A gamma variable of a small shape underflows; log G(a) = log G(a + 1) + log(U) / a does not.
    """
    boosted = np.log(rng.standard_gamma(alpha + 1))
    logs = boosted + np.log1p(-rng.random(alpha.shape)) / alpha
    return np.asarray(logs - np.logaddexp.reduce(logs, axis=0))


def mean_log(alpha: Float64) -> Float64:
    """Compute E[log θ] = ψ(α_v) - ψ(Σ α) [cells, Y]."""
    return digamma(alpha) - digamma(alpha.sum(axis=0))


def divergence(alpha: Float64, prior: float) -> float:
    """Compute KL(Dir(α) ‖ Dir(prior, …, prior)), summed over the columns."""
    cells, total = len(alpha), alpha.sum(axis=0)  # [Y]
    normaliser = _log_gamma(total) - _log_gamma(alpha).sum(axis=0)
    of_prior = math.lgamma(cells * prior) - cells * math.lgamma(prior)
    return float((normaliser - of_prior + ((alpha - prior) * mean_log(alpha)).sum(axis=0)).sum())


def divergence_between(alpha: Float64, prior: Float64) -> float:
    """Compute KL(Dir(α) ‖ Dir(prior)) of distributions with any parameters, summed over columns."""
    normalisers = [_log_gamma(a.sum(axis=0)) - _log_gamma(a).sum(axis=0) for a in (alpha, prior)]
    terms = ((alpha - prior) * mean_log(alpha)).sum(axis=0)
    return float((normalisers[0] - normalisers[1] + terms).sum())


def digamma(x: Float64) -> Float64:
    """Compute ψ(x), the derivative of log Γ(x), for x > 0.

    ψ(x) = ψ(x + 1) - 1 / x shifts x to at least 10, where the asymptotic series has an error below
    1e-15 (Abramowitz and Stegun 6.3.18).
    """
    shifted, sums = np.array(x, dtype=np.float64), np.zeros(np.shape(x))
    for _ in range(10):
        is_small = shifted < 10
        sums -= np.where(is_small, 1 / shifted, 0)
        shifted += is_small
    y = 1 / shifted**2
    series = np.polynomial.polynomial.polyval(y, _SERIES)
    return np.asarray(sums + np.log(shifted) - 0.5 / shifted - series)
