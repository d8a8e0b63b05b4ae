r"""Vectors with a mixture of normal distributions for each label.

p(x_t | y) = Σ_m w_ym N(x_t; μ_ym, Σ_ym)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.scores.emissions import dirichlet, normals
from tagloom.scores.emissions.base import Float64, Gamma
from tagloom.scores.emissions.gaussian import NormalEmission, count_parameters, draw_vectors
from tagloom.scores.emissions.normals import Moments, Normals
from tagloom.scores.emissions.numeric import Int64, Numbers, find_clusters
from tagloom.storage import File

# EM of each label's mixture when labels are counted, which has no closed form.
_MOST_ROUNDS = 200
_CONVERGED = 1e-8


# The data, the probabilities of labels [T, Y], and the totals of the data [3, D].
Parts = tuple[tuple[Numbers, Float64, Float64], ...]


@dataclass(frozen=True, eq=False)
class MixtureStats:
    """Tokens and their labels, and the moments of the components of a fitted emission.

    Attributes
    ----------
    parts : tuple of (Numbers, ndarray of shape (T, Y), ndarray of shape (3, D))
        The data, the probabilities of labels, and the totals of the data.
    counts : ndarray, shape (Y, M), or None
        Expected number of tokens of each component, if the emission was fitted.
    moments : Moments or None
    """

    parts: Parts
    counts: Float64 | None
    moments: Moments | None


class GaussianMixture(NormalEmission):
    r"""Vectors with a mixture of M normal distributions for each label.

        p(x_t | y) = Σ_m w_ym N(x_t; μ_ym, Σ_ym)

    The update is that of `Gaussian`, with γ[t, y] · Pr(m | x_t, y) in place of γ[t, y], and

        w_ym = (α − 1 + Σ_t γ[t, y] Pr(m | x_t, y)) / Σ_m …

    When labels are counted, the mixture of each label is found by EM, which starts from clusters.
    Missing values are treated as by `Gaussian`.

    Parameters
    ----------
    n : int, default 2
        M, the number of components of each label.
    covariance : {"diag", "full", "spherical", "tied"}, default "diag"
        As for `Gaussian`; "tied" is one full matrix for all components of a label.
    weight_alpha : float, default 1.0
        α of the Dirichlet prior of the weights, at least 1; 1 is flat.
    prior_mean, prior_mean_weight, prior_scale, prior_weight, floor
        As for `Gaussian`, for each component.

    Attributes
    ----------
    log_weights_ : ndarray, shape (Y, M)
        log w, or E[log w] after `mean_field`.
    means_ : ndarray, shape (Y, M, D)
    covariances_ : ndarray
        Shape (Y, M) if spherical, (Y, M, D) if diag, (Y, M, D, D) if full, (Y, D, D) if tied.

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(np.tile([-4.0, 0.0, 4.0, 0.0], 50), 0.5)  # "far" has two modes
    >>> y = ["far", "near"] * 100
    >>> hmm = tl.HMM(emissions=tl.emissions.GaussianMixture(2)).fit([x], [y])
    >>> np.sort(hmm.emission_.means_[0, :, 0]).round(1)
    array([-4. ,  3.9])
    """

    by_column = "means_"
    learned = ("log_weights_", "means_", "covariances_", "shift_", "centre_")

    log_weights_: Float64
    means_: Float64
    covariances_: Float64
    shift_: Float64
    centre_: Float64  # [D] the mean of the data, the default of the prior's
    _seed: int = 0  # of the clusters from which labelled data start

    def __init__(
        self,
        n: int = 2,
        covariance: str = "diag",
        *,
        weight_alpha: float = 1.0,
        prior_mean: Any = None,
        prior_mean_weight: float | None = None,
        prior_scale: Any = None,
        prior_weight: float | None = None,
        floor: float = 1e-6,
    ) -> None:
        self.n = n
        self.covariance = covariance
        self.weight_alpha = weight_alpha
        self.prior_mean = prior_mean
        self.prior_mean_weight = prior_mean_weight
        self.prior_scale = prior_scale
        self.prior_weight = prior_weight
        self.floor = floor

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        checks.count(self.n, "n", least=1)
        checks.number(self.weight_alpha, "weight_alpha", least=1)
        super().check()

    @property
    def weights_(self) -> Float64:
        """The weights of the components [Y, M]."""
        probs = np.exp(self.log_weights_)
        return np.asarray(probs / probs.sum(axis=1, keepdims=True))

    # ---- scoring ---------------------------------------------------------------------------

    def log_probs(self, X: Any) -> Float64:
        """Compute log Σ_m w_ym N(x_t; μ_ym, Σ_ym) [T, Y]."""
        return _log_sum(self._component_scores(self._encode_same(X, "log_probs")))

    def _component_scores(self, data: Numbers) -> Float64:
        """Compute log w_ym + log N(x_t; μ_ym, Σ_ym) [T, Y, M]."""
        scores = self._normals().log_densities(data).reshape(len(data.x), *self.log_weights_.shape)
        scores += self.log_weights_
        return scores

    def _responsibilities(self, data: Numbers) -> Float64:
        """Compute Pr(m | x_t, y) [T, Y, M]."""
        scores = self._component_scores(data)
        return np.exp(scores - _log_sum(scores)[:, :, None])

    def _normals(self) -> Normals:
        self.check_learned("log_probs")
        Y, M, D = self.means_.shape
        cov = self.covariances_
        if self.covariance != "tied":
            cov = cov.reshape(Y * M, *cov.shape[2:])
        means, shift = self.means_.reshape(-1, D), self.shift_.reshape(-1, D)
        return Normals(self.covariance, means, cov, self._groups, shift)

    @property
    def _groups(self) -> Int64:
        """The group of each of the Y · M components whose covariances are equal."""
        components = np.arange(len(self.labels) * self.n)
        return components // self.n if self.covariance == "tied" else components

    # ---- learning --------------------------------------------------------------------------

    def collect(self, X: Any, gamma: Gamma, weight: Float64 | None = None) -> MixtureStats:
        """Compute the moments of each component; see `Emission.collect`.

        An emission that is not fitted has no components yet: `update` then finds them in the data.
        """
        part = self._weigh(X, gamma, weight)
        if not self.is_fitted:
            return MixtureStats((part,), None, None)
        return self._collect_parts((part,))

    def _collect_parts(self, parts: Parts) -> MixtureStats:
        return self._collect_scored(parts)[0]

    def _collect_scored(self, parts: Parts) -> tuple[MixtureStats, float]:
        """Compute the moments of the components, and Σ_t Σ_y γ[t, y] log p(x_t | y)."""
        counts, moments, likelihood = np.zeros((len(self.labels), self.n)), None, 0.0
        for data, gamma, totals in parts:
            scores = self._component_scores(data)
            sums = _log_sum(scores)
            likelihood += float((gamma * sums).sum())
            joint = np.exp(scores - sums[:, :, None]) * gamma[:, :, None]
            counts += joint.sum(axis=0)
            each = Moments.of(data, _flat(joint), totals, self.covariance)
            moments = each if moments is None else moments.plus(each)
        return MixtureStats(parts, counts, moments), likelihood

    def merge(self, a: MixtureStats, b: MixtureStats) -> MixtureStats:
        """Sum the statistics of different sequences."""
        if a.moments is None or b.moments is None or a.counts is None or b.counts is None:
            return MixtureStats(a.parts + b.parts, None, None)
        return MixtureStats(a.parts + b.parts, a.counts + b.counts, a.moments.plus(b.moments))

    def update(self, stats: MixtureStats) -> Self:
        """Return the maximum of likelihood times prior, given the components of the tokens."""
        if stats.moments is not None and self.is_fitted:
            return self._update(stats, self._normals())
        current = self._start(stats)
        before = -np.inf
        for _ in range(_MOST_ROUNDS):
            collected, likelihood = current._collect_scored(stats.parts)
            now = likelihood + current.log_prior()
            if now - before < _CONVERGED * abs(now):
                break
            before = now
            current = current._update(collected, current._normals())
        return current

    def _start(self, stats: MixtureStats) -> Self:
        """Return a start whose components are clusters of the tokens of each label."""
        rng, Y, M = np.random.default_rng(self._seed), len(self.labels), self.n
        counts, moments = np.zeros((Y, M)), None
        for data, gamma, totals in stats.parts:
            joint = np.empty((len(gamma), Y, M))
            joint[...] = 0.1 * rng.dirichlet(np.ones(M), (len(gamma), Y)).reshape(-1, Y, M)
            for y in range(Y):
                clusters = find_clusters(data.z, M, rng, gamma[:, y])
                joint[np.arange(len(gamma)), y, clusters] += 0.9
            joint *= gamma[:, :, None]
            counts += joint.sum(axis=0)
            each = Moments.of(data, _flat(joint), totals, self.covariance)
            moments = each if moments is None else moments.plus(each)
        return self._unfitted()._update(MixtureStats(stats.parts, counts, moments), None)

    def _update(self, stats: MixtureStats, previous: Normals | None) -> Self:
        assert stats.moments is not None
        assert stats.counts is not None
        fitted = self._maximise(stats.moments, self._groups, previous, rounds=1)
        mass = stats.counts + self.weight_alpha - 1
        total = mass.sum(axis=1, keepdims=True)
        uniform = np.full_like(mass, 1 / self.n)
        old = self.weights_ if previous is not None else uniform
        weights = np.where(total > 1e-10, mass / np.where(total > 1e-10, total, 1), old)
        with np.errstate(divide="ignore"):
            return self._with(fitted, np.maximum(np.log(weights), -700.0), stats.moments)

    def _with(self, fitted: Normals, log_weights: Float64, moments: Moments) -> Self:
        Y, M = log_weights.shape
        cov = fitted.covariances
        if self.covariance != "tied":
            cov = cov.reshape(Y, M, *cov.shape[1:])
        return self.replace(
            log_weights_=log_weights,
            means_=fitted.means.reshape(Y, M, -1),
            covariances_=cov,
            shift_=fitted.shift.reshape(Y, M, -1),
            _scale=self._scale_of(moments),
            centre_=moments.column_means(),
            _divergence=None,
        )

    def draw_posterior(self, stats: MixtureStats, rng: np.random.Generator) -> Self:
        """Draw the component of each token, then weights, means and covariances given these."""
        current = self if self.is_fitted else self.update(stats)
        counts, moments = np.zeros((len(self.labels), self.n)), None
        for data, gamma, totals in stats.parts:
            shares = current._responsibilities(data).cumsum(axis=2)
            uniform = rng.random(shares.shape[:2])[:, :, None] * shares[:, :, -1:]
            chosen = (shares < uniform).sum(axis=2)  # [T, Y]
            joint = (chosen[:, :, None] == np.arange(self.n)) * gamma[:, :, None]
            counts += joint.sum(axis=0)
            each = Moments.of(data, _flat(joint), totals, self.covariance)
            moments = each if moments is None else moments.plus(each)
        assert moments is not None
        fitted = self._draw(moments, self._groups, rng, current._normals())
        log_weights = dirichlet.draw((counts + self.weight_alpha).T, rng).T
        return self._with(fitted, log_weights, moments)

    def mean_field(self, stats: MixtureStats) -> Self:
        """Return the update of variational Bayes; see `Emission.mean_field`."""
        if stats.moments is None or stats.counts is None:
            stats = self.update(stats)._collect_parts(stats.parts)
        assert stats.moments is not None
        assert stats.counts is not None
        previous = self._normals() if self.is_fitted else None
        expected, divergence = self._mean_field(stats.moments, self._groups, previous)
        alpha = (stats.counts + self.weight_alpha).T  # [M, Y]
        divergence += dirichlet.divergence(alpha, self.weight_alpha)
        new = self._with(expected, dirichlet.mean_log(alpha).T, stats.moments)
        return new.replace(_divergence=divergence)

    def initialise(self, X: Any, rng: np.random.Generator) -> Self:
        """Return a start from clusters of tokens, and clusters of the tokens of each state."""
        seeded = self.replace(_seed=int(rng.integers(1 << 62)))
        return super(GaussianMixture, seeded).initialise(X, rng)

    def _unfitted(self) -> Self:
        return super()._unfitted().replace(_seed=self._seed)

    def log_prior(self) -> float:
        """Return the log-density of the priors up to a constant; after `mean_field`, −KL(q ‖ p)."""
        if self._divergence is not None:
            return -self._divergence
        fitted = self._normals()
        of_weights = (self.weight_alpha - 1) * float(self.log_weights_.sum())
        return of_weights + normals.log_prior(fitted, self._prior(self.centre_))

    # ---- looking inside --------------------------------------------------------------------

    def generate(self, y: npt.NDArray[np.integer[Any]], rng: np.random.Generator) -> Float64:
        """Draw a component and a vector for each label [T, D]."""
        y = np.asarray(y)
        shares = self.weights_.cumsum(axis=1)[y]
        m = (shares < rng.random((len(y), 1)) * shares[:, -1:]).sum(axis=1)
        return draw_vectors(self._normals(), y * self.n + m, rng)

    @property
    def n_parameters(self) -> int:
        """Means, variances and covariances of the components, and Y · (M − 1) weights."""
        self.check_learned("n_parameters")
        return count_parameters(self._normals()) + len(self.labels) * (self.n - 1)

    def order_key(self) -> Float64:
        """Return the mean of each label's mixture, by which states are sorted [Y, D]."""
        self.check_learned("order_key")
        return np.asarray((self.weights_[:, :, None] * self.means_).sum(axis=1))

    def permute(self, order: Sequence[int]) -> Self:
        """Return the same emission with its states in another order."""
        at = np.asarray(order)
        return self.replace(
            log_weights_=self.log_weights_[at],
            means_=self.means_[at],
            covariances_=self.covariances_[at],
            shift_=self.shift_[at],
        )

    def from_file(self, file: File) -> Self:
        """Return the emission with the parameters of a file, which are checked."""
        Y, M = len(self.labels), self.n
        means = self._read_array(file, "means_", 3)
        shift = self._read_array(file, "shift_", 3)
        log_weights = self._read_array(file, "log_weights_", 2)
        D = means.shape[2]
        if means.shape[:2] != (Y, M) or D == 0 or shift.shape != means.shape:
            raise self._file_error("means_", f"shape ({Y}, {M}, D)", str(means.shape))
        if log_weights.shape != (Y, M) or log_weights.max() > 1e-9:
            raise self._file_error("log_weights_", "log-probabilities", str(log_weights.shape))
        shapes: dict[str, tuple[int, ...]] = {
            "spherical": (Y, M),
            "diag": (Y, M, D),
            "full": (Y, M, D, D),
            "tied": (Y, D, D),
        }
        shape = shapes[self.covariance]
        cov = self._read_array(file, "covariances_", len(shape))
        self._check_covariances(cov, shape)
        return self.replace(
            log_weights_=log_weights,
            means_=means,
            covariances_=cov,
            shift_=shift,
            centre_=self._read_centre(file, D),
            _divergence=self._read_divergence(file),
        )


def _flat(joint: Float64) -> Float64:
    """Return [T, Y, M] as [T, Y · M]."""
    return joint.reshape(len(joint), joint.shape[1] * joint.shape[2])


def _log_sum(scores: Float64) -> Float64:
    """Compute log Σ exp over the last axis."""
    top = scores.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(scores - top).sum(axis=-1)))
