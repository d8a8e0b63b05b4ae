r"""Binary vectors, each column with a probability for each label.

Pr(x_t | y) = Π_d p_yd^x_td (1 − p_yd)^(1 − x_td)
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.scores.emissions import dirichlet
from tagloom.scores.emissions.base import Float64, Gamma
from tagloom.scores.emissions.numeric import Bool, Numeric
from tagloom.scores.emissions.poisson import CountStats, collect_sums
from tagloom.storage import File


class Bernoulli(Numeric):
    r"""Binary vectors: each column is 1 with a probability that depends on the label.

        Pr(x_t | y) = Π_d p_yd^x_td (1 − p_yd)^(1 − x_td)

    Missing values, NaN, are left out of the product, which marginalises them exactly. The prior is
    a Beta distribution, ∝ p^(α − 1) (1 − p)^(β − 1); its density is part of the objective, and the
    update is

        p_yd = (α − 1 + Σ_t γ[t, y] x_td) / (α + β − 2 + Σ_t γ[t, y])

    Parameters
    ----------
    alpha, beta : float, default 1.0
        Parameters of the prior, at least 1; 1 and 1 are flat.
    floor : float, default 1e-9
        Probabilities are between ``floor`` and 1 − ``floor``, so that a value a label has not seen
        is improbable instead of impossible.

    Attributes
    ----------
    log_ones_, log_zeros_ : ndarray, shape (Y, D)
        log p and log (1 − p), or their means after `mean_field`.

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> X = [np.array([[1, 0], [1, 0], [0, 1]]), np.array([[0, 1], [1, 1]])]
    >>> y = [["a", "a", "b"], ["b", "a"]]
    >>> hmm = tl.HMM(emissions=tl.emissions.Bernoulli(alpha=2, beta=2)).fit(X, y)
    >>> hmm.emission_.probs_
    array([[0.8 , 0.4 ],
           [0.25, 0.75]])
    >>> hmm.predict([np.array([[1, np.nan], [np.nan, 1]])])
    [['a', 'b']]
    """

    by_column = "log_ones_"
    learned = ("log_ones_", "log_zeros_")
    values = "0 or 1"

    log_ones_: Float64
    log_zeros_: Float64

    def __init__(self, *, alpha: float = 1.0, beta: float = 1.0, floor: float = 1e-9) -> None:
        self.alpha = alpha
        self.beta = beta
        self.floor = floor

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        checks.number(self.alpha, "alpha", least=1)
        checks.number(self.beta, "beta", least=1)
        checks.number(self.floor, "floor", above=0, most=0.5)

    def _fits(self, x: Float64) -> Bool:
        return np.asarray((x == 0) | (x == 1))

    @property
    def probs_(self) -> Float64:
        """p, the probability of 1 [Y, D]."""
        self.check_learned("probs_")
        return 1 / (1 + np.exp(self.log_zeros_ - self.log_ones_))

    # ---- scoring ---------------------------------------------------------------------------

    def log_probs(self, X: Any) -> Float64:
        """Sum log Pr(x_td | y) over the observed columns [T, Y]."""
        data = self._encode_same(X, "log_probs")
        out = data.filled @ (self.log_ones_ - self.log_zeros_).T
        if data.observed is None:
            out += self.log_zeros_.sum(axis=1)
        else:
            out += data.observed @ self.log_zeros_.T
        return np.asarray(out)

    # ---- learning --------------------------------------------------------------------------

    def collect(self, X: Any, gamma: Gamma, weight: Float64 | None = None) -> CountStats:
        """Count the ones of each label; see `Emission.collect`."""
        return collect_sums(self, X, gamma, weight)

    def update(self, stats: CountStats) -> Self:
        """Return the maximum of likelihood times prior; see the class."""
        ones = self.alpha - 1 + stats.sums
        total = self.alpha + self.beta - 2 + stats.n
        has = total > 1e-10
        count, sums = stats.totals
        overall = np.where(count > 0, sums / np.maximum(count, 1e-10), 0.5)
        old = self.probs_ if self.is_fitted else overall
        probs = np.where(has, ones / np.where(has, total, 1), old)
        probs = np.clip(probs, self.floor, 1 - self.floor)
        return self.replace(log_ones_=np.log(probs), log_zeros_=np.log1p(-probs), _divergence=None)

    def log_prior(self) -> float:
        """Return Σ (α − 1) log p + (β − 1) log (1 − p); after `mean_field`, −KL(q ‖ prior)."""
        self.check_learned("log_prior")
        if self._divergence is not None:
            return -self._divergence
        ones, zeros = self.log_ones_.sum(), self.log_zeros_.sum()
        return float((self.alpha - 1) * ones + (self.beta - 1) * zeros)

    def draw_posterior(self, stats: CountStats, rng: np.random.Generator) -> Self:
        """Draw probabilities from the posterior, Beta(α + ones, β + zeros)."""
        logs = dirichlet.draw(self._posterior(stats), rng).reshape(2, *stats.n.shape)
        return self._with_logs(logs)

    def mean_field(self, stats: CountStats) -> Self:
        """Return the update of variational Bayes; see `Emission.mean_field`."""
        posterior = self._posterior(stats)  # [2, Y · D]
        prior = np.repeat([[self.alpha], [self.beta]], posterior.shape[1], axis=1)
        logs = dirichlet.mean_log(posterior).reshape(2, *stats.n.shape)
        divergence = dirichlet.divergence_between(posterior, prior)
        return self._with_logs(logs).replace(_divergence=divergence)

    def _posterior(self, stats: CountStats) -> Float64:
        """Return the parameters of the posteriors, of ones and of zeros [2, Y · D]."""
        zeros = np.maximum(stats.n - stats.sums, 0)
        return np.stack([(stats.sums + self.alpha).ravel(), (zeros + self.beta).ravel()])

    def _with_logs(self, logs: Float64) -> Self:
        ones, zeros = np.maximum(logs, -700.0)
        return self.replace(log_ones_=ones, log_zeros_=zeros, _divergence=None)

    # ---- looking inside --------------------------------------------------------------------

    def generate(
        self, y: npt.NDArray[np.integer[Any]], rng: np.random.Generator
    ) -> npt.NDArray[np.int64]:
        """Draw zeros and ones for each label [T, D]."""
        probs = self.probs_[np.asarray(y)]
        return (rng.random(probs.shape) < probs).astype(np.int64)

    @property
    def n_parameters(self) -> int:
        """Y · D probabilities."""
        self.check_learned("n_parameters")
        return self.log_ones_.size

    def order_key(self) -> Float64:
        """Return the probabilities of 1, by which states are sorted: first column first."""
        return self.probs_

    def from_file(self, file: File) -> Self:
        """Return the emission with the parameters of a file, which are checked."""
        ones = self._read_array(file, "log_ones_", 2)
        zeros = self._read_array(file, "log_zeros_", 2)
        if len(ones) != len(self.labels) or ones.shape != zeros.shape or not ones.shape[1]:
            raise self._file_error("log_ones_", f"{len(self.labels)} rows", str(ones.shape))
        if (np.exp(ones) + np.exp(zeros) > 1 + 1e-6).any():
            raise self._file_error("log_ones_", "log-probabilities", "a sum above 1")
        return self.replace(
            log_ones_=ones, log_zeros_=zeros, _divergence=self._read_divergence(file)
        )
