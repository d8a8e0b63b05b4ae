r"""Several multivariate normal distributions: densities, moments, maxima and posteriors.

The parts of `Gaussian` and `GaussianMixture`. There are K distributions over D columns; their
covariances are stored as small as their kind allows::

    spherical  [K]           Σ_k = σ_k² I
    diag       [K, D]        Σ_k = diag(σ_k1², …, σ_kD²)
    full       [K, D, D]
    tied       [G, D, D]     one for each group of distributions; ``groups`` [K] numbers the group

The prior of all kinds is written as pseudo-observations::

    log p(μ, Σ) = −½ Σ_Σ {c log|Σ| + tr(Ψ Σ⁻¹)} − ½ κ Σ_k (μ_k − m)ᵀ Σ_k⁻¹ (μ_k − m) + constant

For full covariances it is the normal-inverse-Wishart distribution with ν = c − D − 2 degrees of
freedom, and for diagonal ones a normal-inverse-gamma distribution for each column, with ν = c − 3.
c = κ = 0, Ψ = 0 is the flat prior of maximum likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom.scores.emissions.base import Float64
from tagloom.scores.emissions.dirichlet import digamma
from tagloom.scores.emissions.numeric import Int64, Numbers, scale_of

KINDS = ("spherical", "diag", "full", "tied")

# Expected counts below this carry no information; a distribution then keeps its parameters.
_NOTHING = 1e-10
# Above this size of its terms, −½ zᵀAz + bᵀz + c loses digits, and (z − μ)ᵀA(z − μ) is computed.
_LARGEST_TERM = 1e7
# Features of at most this many numbers, 128 MB, are kept from iteration to iteration.
_MOST_KEPT = 1 << 24
_ROWS = 8192  # rows of features made at a time otherwise

_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


# Observed columns [o], and Σ γ [K], Σ γ x [K, o], Σ γ x xᵀ [K, o, o] of the rows that have them.
_GapMoments = tuple[Int64, Float64, Float64, Float64]


class Prior(NamedTuple):
    """The prior of means and covariances; see the head of this file."""

    mean: Float64  # [D] m
    mean_weight: float  # κ
    scale: Float64  # [D] the diagonal of Ψ; [D, D] for full and tied
    weight: float  # c

    @property
    def is_flat(self) -> bool:
        """Whether it is the constant density."""
        return self.mean_weight == 0 and self.weight == 0 and not self.scale.any()


# ---- features of tokens -------------------------------------------------------------------------


def is_diagonal(kind: str) -> bool:
    """Whether columns are independent given the label."""
    return kind in ("spherical", "diag")


def _products(z: Float64) -> Float64:
    """Return the features of the full form, z_i z_j for i ≤ j, z_i and 1 [T, P]."""
    i, j = np.triu_indices(z.shape[1])
    features = np.empty((len(z), len(i) + z.shape[1] + 1))
    np.multiply(z[:, i], z[:, j], out=features[:, : len(i)])
    features[:, len(i) : -1] = z
    features[:, -1] = 1
    return features


def _squares(z: Float64, observed: npt.NDArray[np.bool_] | None) -> Float64:
    """Return z_d², z_d and 1, or for each column whether it is observed [T, 2 D + 1 or 3 D]."""
    T, D = z.shape
    features = np.empty((T, 2 * D + 1 if observed is None else 3 * D))
    np.square(z, out=features[:, :D])
    features[:, D : 2 * D] = z
    features[:, 2 * D :] = 1 if observed is None else observed
    return features


class Features:
    """Features of the tokens in which log-densities are linear, computed once or block by block."""

    def __init__(self, data: Numbers, kind: str) -> None:
        self._data, self._is_diagonal = data, is_diagonal(kind)
        self._rows = None  # all
        if not self._is_diagonal and data.observed is not None:
            first = data.patterns[0]
            is_complete = len(first.columns) == data.x.shape[1]
            self._rows = first.rows if is_complete else np.empty(0, dtype=np.int64)
        self._n = len(data.x) if self._rows is None else len(self._rows)

    @property
    def rows(self) -> Int64 | None:
        """The rows that they describe, those without gaps if columns depend on each other."""
        return self._rows

    @cached_property
    def _kept(self) -> Float64 | None:
        D = self._data.x.shape[1]
        width = 3 * D if self._is_diagonal else D * (D + 3) // 2 + 1
        return self._make(slice(0, self._n)) if self._n * width <= _MOST_KEPT else None

    def _make(self, part: slice) -> Float64:
        data = self._data
        if self._is_diagonal:
            return _squares(data.z[part], None if data.observed is None else data.observed[part])
        return _products(data.z[part if self._rows is None else self._rows[part]])

    def blocks(self) -> Iterator[tuple[slice, Float64]]:
        """Yield ranges of rows with their features."""
        if self._kept is not None:
            yield slice(0, self._n), self._kept
            return
        for begin in range(0, self._n, _ROWS):
            part = slice(begin, min(begin + _ROWS, self._n))
            yield part, self._make(part)

    def times(self, weights: Float64) -> Float64:
        """Multiply by weights [P, K]: [rows, K]."""
        if self._kept is not None:
            return np.asarray(self._kept @ weights)
        out = np.empty((self._n, weights.shape[1]))
        for part, features in self.blocks():
            np.matmul(features, weights, out=out[part])
        return out

    def sums(self, gamma: Float64) -> Float64:
        """Sum the features, weighted by gamma [rows, K]: [P, K]."""
        if self._kept is not None:
            return np.asarray(self._kept.T @ gamma)
        return np.asarray(sum(f.T @ gamma[part] for part, f in self.blocks()))


def features_of(data: Numbers, kind: str) -> Features:
    """Return the features of the data for a kind of covariances, kept with the data."""
    name = "_squares" if is_diagonal(kind) else "_products"
    kept = data.__dict__.get(name)
    if kept is None:
        kept = data.__dict__[name] = Features(data, kind)
    assert isinstance(kept, Features)
    return kept


# ---- densities ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Normals:
    """K normal distributions.

    Attributes
    ----------
    kind : str
    means : ndarray, shape (K, D)
    covariances : ndarray
        In the shape of their kind.
    groups : ndarray of int, shape (K,)
        The group of each distribution; its number, except for tied covariances.
    shift : ndarray, shape (K, D)
        Added to the log-density of each observed column: 0, or, for the posterior of variational
        Bayes, E[log p(x)] less the log-density of the mean parameters.
    """

    kind: str
    means: Float64
    covariances: Float64
    groups: Int64
    shift: Float64

    def log_densities(self, data: Numbers) -> Float64:
        """Compute log N(x_t; μ_k, Σ_k) of the observed columns [T, K]; 0 if all are missing."""
        if is_diagonal(self.kind):
            return self._diagonal(data)
        out: Float64
        if data.observed is None:
            return self._of_columns(data, np.arange(data.x.shape[1]), None)
        out = np.zeros((len(data.x), len(self.means)))
        for pattern in data.patterns:
            if len(pattern.columns):
                out[pattern.rows] = self._of_columns(data, pattern.columns, pattern.rows)
        return out

    def density_of_one(self) -> Callable[[npt.NDArray[Any]], Float64]:
        """Return a function from a vector [D] without gaps to its log-densities [K]."""
        means, D = self.means, self.means.shape[1]
        constant = self.shift.sum(axis=1) - 0.5 * D * math.log(2 * math.pi)  # [K]
        if is_diagonal(self.kind):
            variances = self.variances()
            constant = constant - 0.5 * np.log(variances).sum(axis=1)
            half = -0.5 / variances

            def of_columns(x: npt.NDArray[Any]) -> Float64:
                return np.asarray(constant + (half * (x - means) ** 2).sum(axis=1))

            return of_columns
        factor = np.linalg.cholesky(self.covariances)  # [G, D, D]
        log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        constant = constant - log_det[self.groups]
        inverse = np.linalg.inv(factor)[self.groups]  # [K, D, D]

        def of_vector(x: npt.NDArray[Any]) -> Float64:
            white = (inverse @ (x - means)[:, :, None])[:, :, 0]
            return np.asarray(constant - 0.5 * (white * white).sum(axis=1))

        return of_vector

    def variances(self) -> Float64:
        """Return the variance of each column [K, D]."""
        K, D = self.means.shape
        if self.kind == "spherical":
            return np.broadcast_to(self.covariances[:, None], (K, D))
        if self.kind == "diag":
            return self.covariances
        return np.diagonal(self.covariances, axis1=1, axis2=2)[self.groups]

    def weights(self, data: Numbers) -> Float64 | None:
        """Return the weights [P, K] of the features of rows without gaps in their log-densities.

        None if terms are so large that their sum would lose digits.
        """
        if is_diagonal(self.kind):
            return self._diagonal_weights(data).weights
        return self._column_weights(data, np.arange(data.x.shape[1])).weights

    def _diagonal(self, data: Numbers) -> Float64:
        mu, precision, of_column, weights = self._diagonal_weights(data)
        if weights is None:
            return self._diagonal_differences(data, mu, precision, of_column)
        return features_of(data, self.kind).times(weights)

    def _diagonal_weights(self, data: Numbers) -> _DiagonalWeights:
        spread = data.spread
        mu = (self.means - data.centre) / spread  # [K, D]
        precision = spread**2 / self.variances()
        largest = 0.5 * precision * (data.reach + np.abs(mu)) ** 2
        of_column = 0.5 * np.log(precision / (2 * np.pi)) - np.log(spread) + self.shift  # [K, D]
        if largest.sum(axis=1).max(initial=0.0) > _LARGEST_TERM:
            return _DiagonalWeights(mu, precision, of_column, None)
        constant = of_column - 0.5 * precision * mu**2
        if data.observed is None:
            constant = constant.sum(axis=1, keepdims=True)
        weights = np.concatenate([-0.5 * precision, precision * mu, constant], axis=1)
        return _DiagonalWeights(mu, precision, of_column, np.ascontiguousarray(weights.T))

    def _diagonal_differences(
        self, data: Numbers, mu: Float64, precision: Float64, of_column: Float64
    ) -> Float64:
        out = np.empty((len(data.x), len(mu)))
        for k in range(len(mu)):
            terms = of_column[k] - 0.5 * precision[k] * (data.z - mu[k]) ** 2  # [T, D]
            out[:, k] = terms.sum(axis=1, where=True if data.observed is None else data.observed)
        return out

    def _of_columns(self, data: Numbers, columns: Int64, rows: Int64 | None) -> Float64:
        """Compute the marginal log-densities of some columns, in some rows [rows, K]."""
        mu, inverse, constant, weights = self._column_weights(data, columns)
        if rows is not None and len(columns) < data.x.shape[1]:
            z = data.z[rows[:, None], columns]
            if weights is not None:
                return np.asarray(_products(z) @ weights)
        elif weights is not None:
            return features_of(data, self.kind).times(weights)
        else:
            z = data.z if rows is None else data.z[rows]
        return _differences(z, mu, inverse, constant)

    def _column_weights(self, data: Numbers, columns: Int64) -> _ColumnWeights:
        spread = data.spread[columns]
        mu = ((self.means - data.centre) / data.spread)[:, columns]  # [K, d]
        cov = self.covariances[:, columns[:, None], columns] / np.outer(spread, spread)
        factor = np.linalg.cholesky(cov)  # [G, d, d]
        inverse = np.linalg.inv(factor)
        precision = (inverse.transpose(0, 2, 1) @ inverse)[self.groups]  # [K, d, d]
        log_det = 2 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)[self.groups]
        constant = -0.5 * (log_det + len(columns) * math.log(2 * math.pi)) - np.log(spread).sum()
        # The density of a row with gaps is an integral over all of its columns, shifts included.
        constant = constant + self.shift.sum(axis=1)  # [K]
        reach = data.reach[columns] + np.abs(mu)  # [K, d]
        largest = 0.5 * np.einsum("ki,kij,kj->k", reach, np.abs(precision), reach)
        if largest.max(initial=0.0) > _LARGEST_TERM:
            return _ColumnWeights(mu, inverse[self.groups], constant, None)
        linear = (precision @ mu[:, :, None])[:, :, 0]  # [K, d]
        whole = constant - 0.5 * (linear * mu).sum(axis=1)
        i, j = np.triu_indices(len(columns))
        quadratic = precision[:, i, j] * np.where(i == j, -0.5, -1.0)  # [K, pairs]
        weights = np.concatenate([quadratic, linear, whole[:, None]], axis=1).T
        return _ColumnWeights(mu, inverse[self.groups], constant, np.ascontiguousarray(weights))


class _DiagonalWeights(NamedTuple):
    """Log-densities of independent columns, two ways to compute them."""

    mu: Float64  # [K, D] standardised means
    precision: Float64  # [K, D]
    of_column: Float64  # [K, D] constants
    weights: Float64 | None  # [P, K] of the features; None if that would lose digits


class _ColumnWeights(NamedTuple):
    """Log-densities of columns that depend on each other, two ways to compute them."""

    mu: Float64  # [K, d] standardised means
    inverse: Float64  # [K, d, d] of the Cholesky factors
    constant: Float64  # [K]
    weights: Float64 | None  # [P, K] of the features; None if that would lose digits


def _differences(z: Float64, mu: Float64, inverse: Float64, constant: Float64) -> Float64:
    """Compute log-densities from whitened differences, which loses no digits [T, K]."""
    out = np.empty((len(z), len(mu)))
    for k in range(len(mu)):
        white = (z - mu[k]) @ inverse[k].T
        out[:, k] = constant[k] - 0.5 * np.square(white).sum(axis=1)
    return out


# ---- moments ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted moments of tokens about a point, for K distributions.

    Attributes
    ----------
    centre : ndarray, shape (D,)
        The point.
    n, first, second : ndarray
        Σ γ, Σ γ (x − centre) and Σ γ (x − centre)(x − centre)ᵀ. Where columns are independent: of
        the observed values, each [K, D]; otherwise of the rows without gaps, [K], [K, D] and
        [K, D, D].
    totals : ndarray, shape (3, D)
        Count, sum and sum of squares of the observed values of all tokens.
    incomplete : tuple of (Numbers, ndarray of shape (T, K))
        Data with gaps and their γ, if columns depend on each other.
    """

    centre: Float64
    n: Float64
    first: Float64
    second: Float64
    totals: Float64
    incomplete: tuple[tuple[Numbers, Float64], ...] = ()

    @classmethod
    def of(cls, data: Numbers, gamma: Float64, totals: Float64, kind: str) -> Moments:
        """Compute the moments of data with weights gamma [T, K]."""
        features = features_of(data, kind)
        sums = features.sums(gamma if features.rows is None else gamma[features.rows])
        incomplete = () if features.rows is None else ((data, gamma),)
        return cls.from_sums(data, sums, totals, kind, incomplete)

    @classmethod
    def from_sums(
        cls,
        data: Numbers,
        sums: Float64,
        totals: Float64,
        kind: str,
        incomplete: tuple[tuple[Numbers, Float64], ...] = (),
    ) -> Moments:
        """Make moments of weighted sums of the features [P, K]."""
        D, spread, sums = data.x.shape[1], data.spread, sums.T
        if is_diagonal(kind):
            second, first = sums[:, :D] * spread**2, sums[:, D : 2 * D] * spread
            n = np.broadcast_to(sums[:, 2 * D :], first.shape)
            return cls(data.centre, n, first, second, totals)
        i, j = np.triu_indices(D)
        second = np.empty((len(sums), D, D))
        second[:, i, j] = second[:, j, i] = sums[:, : len(i)]
        first = sums[:, len(i) : -1] * spread
        return cls(
            data.centre, sums[:, -1], first, second * np.outer(spread, spread), totals, incomplete
        )

    @property
    def is_diagonal(self) -> bool:
        """Whether the moments of columns are separate."""
        return self.second.ndim == 2

    def about(self, centre: Float64) -> Moments:
        """Return the same moments about another point."""
        delta = self.centre - centre
        n, first = self.n, self.first
        if self.is_diagonal:
            second = self.second + 2 * delta * first + n * delta**2
            moved = first + n * delta
        else:
            cross = first[:, :, None] * delta
            second = self.second + cross + cross.transpose(0, 2, 1)
            second = second + n[:, None, None] * np.outer(delta, delta)
            moved = first + n[:, None] * delta
        count, total, squares = self.totals
        totals = np.stack(
            [count, total + count * delta, squares + 2 * delta * total + count * delta**2]
        )
        return replace(self, centre=centre, first=moved, second=second, totals=totals)

    def plus(self, other: Moments) -> Moments:
        """Sum the moments of different tokens."""
        other = other.about(self.centre)
        return Moments(
            self.centre,
            self.n + other.n,
            self.first + other.first,
            self.second + other.second,
            self.totals + other.totals,
            self.incomplete + other.incomplete,
        )

    def column_means(self) -> Float64:
        """Return the mean of each column [D]."""
        count, total, _ = self.totals
        return np.asarray(self.centre + total / np.maximum(count, _NOTHING))

    def column_scales(self) -> Float64:
        """Return the standard deviation of each column, 1 if it is constant [D]."""
        count, total, squares = self.totals / np.maximum(self.totals[0], _NOTHING)
        return np.where(count > 0, scale_of(squares - total**2, self.column_means()), 1.0)

    @property
    def has_gaps(self) -> bool:
        """Whether some rows lack some columns that depend on the others."""
        return any(
            0 < len(pattern.columns) < data.x.shape[1]
            for data, _ in self.incomplete
            for pattern in data.patterns
        )

    # ---- rows with gaps --------------------------------------------------------------------

    def expected(self, normals: Normals) -> Moments:
        """Add the expected moments of the rows with gaps, given their observed columns.

        With o the observed and m the missing columns, the missing values have the mean
        μ_m + B (x_o − μ_o), B = Σ_mo Σ_oo⁻¹, and the covariance Σ_mm − B Σ_om. Rows without any
        observed value carry no information and are left out.
        """
        n, first, second = self.n.copy(), self.first.copy(), self.second.copy()
        means, cov = normals.means - self.centre, normals.covariances[normals.groups]
        for o, mass, s1, s2 in self._gap_moments():
            A, a, rest = _conditional(means, cov, o)
            known = (A @ s1[:, :, None])[:, :, 0]  # [K, D]
            cross = known[:, :, None] * a[:, None, :]
            n += mass
            first += mass[:, None] * a + known
            second += A @ s2 @ A.transpose(0, 2, 1) + cross + cross.transpose(0, 2, 1)
            second += mass[:, None, None] * (a[:, :, None] * a[:, None, :] + rest)
        return replace(self, n=n, first=first, second=second, incomplete=())

    def imputed(self, normals: Normals, rng: np.random.Generator) -> Moments:
        """Add the moments of the rows with gaps, their missing values drawn given the others."""
        n, first, second = self.n.copy(), self.first.copy(), self.second.copy()
        means, cov = normals.means - self.centre, normals.covariances[normals.groups]
        for data, gamma, o, rows in self._gaps():
            x = data.centred[rows[:, None], o] + (data.centre - self.centre)[o]
            A, a, rest = _conditional(means, cov, o)
            missing = np.setdiff1d(np.arange(means.shape[1]), o)
            factor = np.linalg.cholesky(rest[:, missing[:, None], missing])
            for k in range(len(n)):
                has = gamma[rows, k] > 0
                g = gamma[rows, k][has]
                drawn = x[has] @ A[k].T + a[k]
                noise = rng.standard_normal((len(g), len(missing)))
                drawn[:, missing] += noise @ factor[k].T
                n[k] += g.sum()
                first[k] += g @ drawn
                second[k] += (drawn * g[:, None]).T @ drawn
        return replace(self, n=n, first=first, second=second, incomplete=())

    def _gap_moments(self) -> Iterator[_GapMoments]:
        """Yield observed columns with Σ γ, Σ γ x_o, Σ γ x_o x_oᵀ of the rows that have just these.

        They are kept for the next round if they take less memory than the data.
        """
        if self._kept_gaps is not None:
            yield from self._kept_gaps
            return
        for data, gamma, o, rows in self._gaps():
            yield self._moments_of(data, gamma, o, rows)

    @cached_property
    def _kept_gaps(self) -> list[_GapMoments] | None:
        size = sum(len(o) ** 2 + 2 * len(o) for _, _, o, _ in self._gaps()) * len(self.n)
        if size > sum(data.x.size + gamma.size for data, gamma in self.incomplete):
            return None
        return [self._moments_of(*gap) for gap in self._gaps()]

    def _moments_of(self, data: Numbers, gamma: Float64, o: Int64, rows: Int64) -> _GapMoments:
        x = data.centred[rows[:, None], o] + (data.centre - self.centre)[o]  # [rows, o]
        g, d = gamma[rows], len(o)
        outer = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        return o, g.sum(axis=0), g.T @ x, (g.T @ outer).reshape(g.shape[1], d, d)

    def _gaps(self) -> Iterator[tuple[Numbers, Float64, Int64, Int64]]:
        for data, gamma in self.incomplete:
            for pattern in data.patterns:
                if 0 < len(pattern.columns) < data.x.shape[1]:
                    yield data, gamma, pattern.columns, pattern.rows


def _conditional(means: Float64, cov: Float64, o: Int64) -> tuple[Float64, Float64, Float64]:
    """Return A, a and C so that, given x_o, a row has the mean A x_o + a and the covariance C."""
    K, D = means.shape
    m = np.setdiff1d(np.arange(D), o)
    of_o = cov[:, o[:, None], o]
    across = cov[:, o[:, None], m]  # [K, o, m]
    B = np.linalg.solve(of_o, across).transpose(0, 2, 1)  # [K, m, o]
    A = np.zeros((K, D, len(o)))
    A[:, o, np.arange(len(o))] = 1
    A[:, m] = B
    a = np.zeros((K, D))
    a[:, m] = means[:, m] - (B @ means[:, o, None])[:, :, 0]
    C = np.zeros((K, D, D))
    rest = cov[:, m[:, None], m] - B @ across
    C[:, m[:, None], m] = 0.5 * (rest + rest.transpose(0, 2, 1))
    return A, a, C


# ---- maxima -------------------------------------------------------------------------------------


def maximise(
    moments: Moments,
    prior: Prior,
    floor: Float64,
    kind: str,
    groups: Int64,
    previous: Normals | None,
) -> Normals:
    """Return the distributions that maximise likelihood times prior, given complete moments.

    Parameters
    ----------
    moments : Moments
    prior : Prior
    floor : ndarray, shape (D,)
        Smallest variance of each column. A full covariance is clipped in the directions in which
        its variance, in units of the floor, is below 1, which is the maximum among all covariances
        above the floor.
    kind : str
    groups : ndarray of int, shape (K,)
    previous : Normals, optional
        Distributions without tokens and without a prior keep these parameters; by default they
        have the mean and variance of the data.
    """
    kappa, m = prior.mean_weight, prior.mean - moments.centre
    n = moments.n if moments.is_diagonal else moments.n[:, None]
    weight = n + kappa  # [K, D] or [K, 1]
    old_means, old_cov = _fallback(moments, kind, groups, previous)
    has = weight > _NOTHING
    means = (moments.first + kappa * m) / np.where(has, weight, 1)
    means = np.where(has, means, old_means - moments.centre)
    weight = np.where(has, weight, 0)
    if moments.is_diagonal:
        scatter = moments.second * has + kappa * m**2 - weight * means**2
        cov = _diagonal_covariances(kind, np.maximum(scatter, 0), n, prior, floor, old_cov)
    else:
        outer = means[:, :, None] * means[:, None, :]
        scatter = moments.second * has[:, :, None] + kappa * np.outer(m, m)
        scatter = scatter - weight[:, :, None] * outer
        cov = _full_covariances(scatter, moments.n, prior, floor, groups, old_cov)
    return Normals(kind, means + moments.centre, cov, groups, np.zeros_like(means))


def _fallback(
    moments: Moments, kind: str, groups: Int64, previous: Normals | None
) -> tuple[Float64, Float64]:
    """Return the previous means and covariances, or those of all data."""
    if previous is not None:
        return previous.means, previous.covariances
    K, D = moments.first.shape
    variance = moments.column_scales() ** 2
    means = np.broadcast_to(moments.column_means(), (K, D))
    if kind == "spherical":
        return means, np.full(K, variance.mean())
    if kind == "diag":
        return means, np.broadcast_to(variance, (K, D))
    G = int(groups.max(initial=-1)) + 1
    return means, np.broadcast_to(np.diag(variance), (G, D, D))


def _diagonal_covariances(
    kind: str, scatter: Float64, n: Float64, prior: Prior, floor: Float64, old: Float64
) -> Float64:
    sums, weight = prior.scale + scatter, prior.weight + n  # [K, D]
    if kind == "spherical":
        sums, weight, floor = sums.sum(axis=1), weight.sum(axis=1), floor.mean()
    has = weight > _NOTHING
    return np.where(has, np.maximum(sums / np.where(has, weight, 1), floor), old)


def _full_covariances(
    scatter: Float64, n: Float64, prior: Prior, floor: Float64, groups: Int64, old: Float64
) -> Float64:
    G = len(old)
    sums = np.zeros_like(old)
    np.add.at(sums, groups, scatter)
    weight = prior.weight + np.bincount(groups, n, minlength=G)  # [G]
    has = weight > _NOTHING
    cov = (prior.scale + sums) / np.where(has, weight, 1)[:, None, None]
    cov = np.where(has[:, None, None], cov, old)
    return clip_covariances(cov, floor)


def clip_covariances(cov: Float64, floor: Float64) -> Float64:
    """Raise variances, in all directions, to the floor; covariances above it are unchanged."""
    unit = np.sqrt(floor)
    cov = 0.5 * (cov + cov.transpose(0, 2, 1))
    scaled = cov / np.outer(unit, unit)
    values, vectors = np.linalg.eigh(scaled)
    low = values[:, 0] < 1
    if not low.any():
        return cov
    clipped = (vectors * np.maximum(values, 1)[:, None, :]) @ vectors.transpose(0, 2, 1)
    clipped = 0.5 * (clipped + clipped.transpose(0, 2, 1)) * np.outer(unit, unit)
    return np.where(low[:, None, None], clipped, cov)


def log_prior(normals: Normals, prior: Prior) -> float:
    """Compute the log-density of the prior, up to a constant; see the head of this file."""
    if prior.is_flat:
        return 0.0
    delta = normals.means - prior.mean  # [K, D]
    kappa, c = prior.mean_weight, prior.weight
    if is_diagonal(normals.kind):
        variance = normals.variances()
        terms = c * np.log(variance) + (prior.scale + kappa * delta**2) / variance
        return -0.5 * float(terms.sum())
    cov = normals.covariances
    log_det = np.linalg.slogdet(cov)[1]
    trace = np.trace(
        np.linalg.solve(cov, np.broadcast_to(prior.scale, cov.shape)), axis1=1, axis2=2
    )
    solved = np.linalg.solve(cov[normals.groups], delta[:, :, None])[:, :, 0]
    return -0.5 * float((c * log_det + trace).sum() + kappa * (solved * delta).sum())


# ---- posteriors ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NormalWishart:
    """The distribution of means and covariances given data, or the prior itself.

    Σ ~ inverse-Wishart(dof, scale), μ | Σ ~ N(mean, Σ / kappa). For diagonal covariances each
    column has one of its own, and for spherical ones Σ = σ² I with scale / σ² ~ χ²(dof).

    Attributes
    ----------
    mean : ndarray, shape (K, D)
    kappa : ndarray, shape (K, D)
    dof : ndarray
        [K, D] for diag, [K] for spherical and full, [G] for tied.
    scale : ndarray
        In the shape of the covariances.
    """

    kind: str
    groups: Int64
    mean: Float64
    kappa: Float64
    dof: Float64
    scale: Float64

    @classmethod
    def given(
        cls, moments: Moments | None, prior: Prior, kind: str, groups: Int64
    ) -> NormalWishart:
        """Compute the posterior given complete moments; without moments, the prior."""
        K, D = len(groups), len(prior.mean)
        kappa0, c = prior.mean_weight, prior.weight
        if moments is None:
            zeros = np.zeros((K, D))
            n, first, m = zeros if is_diagonal(kind) else zeros[:, 0], zeros, np.zeros(D)
            second = zeros if is_diagonal(kind) else np.zeros((K, D, D))
            centre = prior.mean
        else:
            centre = moments.centre
            n, first, second, m = moments.n, moments.first, moments.second, prior.mean - centre
        kappa = np.broadcast_to((n if is_diagonal(kind) else n[:, None]) + kappa0, (K, D))
        mean = (first + kappa0 * m) / np.where(kappa > 0, kappa, 1)
        if is_diagonal(kind):
            scale = prior.scale + np.maximum(second + kappa0 * m**2 - kappa * mean**2, 0)
            dof = c + n - 3
            if kind == "spherical":
                scale, dof = scale.sum(axis=1), (c + n - 1).sum(axis=1) - 2
            return cls(kind, groups, mean + centre, kappa, dof, scale)
        scatter = second + kappa0 * np.outer(m, m)
        scatter = scatter - kappa[:, :1, None] * mean[:, :, None] * mean[:, None, :]
        G = int(groups.max(initial=-1)) + 1
        scale = np.zeros((G, D, D)) + prior.scale
        np.add.at(scale, groups, scatter)
        dof = np.asarray(c + np.bincount(groups, n - 1, minlength=G) - D - 1, dtype=np.float64)
        return cls(kind, groups, mean + centre, kappa, dof, scale)

    @property
    def is_proper(self) -> bool:
        """Whether it can be normalised."""
        if not (self.kappa > 0).all():
            return False
        if is_diagonal(self.kind):
            return bool((self.dof > 0).all() and (self.scale > 0).all())
        is_definite = np.linalg.eigvalsh(self.scale)[:, 0] > 0
        return bool((self.dof > self.mean.shape[1] - 1).all() and is_definite.all())

    def draw(self, rng: np.random.Generator) -> Normals:
        """Draw means and covariances."""
        K, D = self.mean.shape
        noise_shape = (K, D)
        if is_diagonal(self.kind):
            cov = self.scale / (2 * rng.standard_gamma(self.dof / 2))
            deviation = np.sqrt(cov if self.kind == "diag" else cov[:, None])
            noise = deviation * rng.standard_normal(noise_shape)
        else:
            factor = self._draw_factors(rng)  # [G, D, D] of the covariances
            cov = factor @ factor.transpose(0, 2, 1)
            normal = rng.standard_normal(noise_shape)
            noise = (factor[self.groups] @ normal[:, :, None])[:, :, 0]
        means = self.mean + noise / np.sqrt(self.kappa)
        return Normals(self.kind, means, cov, self.groups, np.zeros((K, D)))

    def _draw_factors(self, rng: np.random.Generator) -> Float64:
        """Draw F with F Fᵀ ~ inverse-Wishart, by Bartlett's decomposition."""
        G, D = self.scale.shape[:2]
        triangle = np.tril(rng.standard_normal((G, D, D)), -1)
        freedom = self.dof[:, None] - np.arange(D)
        triangle[:, np.arange(D), np.arange(D)] = np.sqrt(2 * rng.standard_gamma(freedom / 2))
        # Λ = C⁻ᵀ T Tᵀ C⁻¹ with scale = C Cᵀ, so Σ = (C T⁻ᵀ)(C T⁻ᵀ)ᵀ.
        return np.asarray(
            np.linalg.cholesky(self.scale) @ np.linalg.inv(triangle).transpose(0, 2, 1)
        )

    def expected(self) -> Normals:
        """Return distributions whose log-density is E[log N(x; μ, Σ)] under this posterior."""
        D = self.mean.shape[1]
        dof, logs = self.dof, self._mean_logs()
        if is_diagonal(self.kind):
            cov = self.scale / dof
            per_column = 0.5 * (logs - np.log(dof))
            shift = (per_column if self.kind == "diag" else per_column[:, None]) - 0.5 / self.kappa
        else:
            cov = self.scale / dof[:, None, None]
            per_column = 0.5 * (logs / D - np.log(dof))
            shift = per_column[self.groups][:, None] - 0.5 / self.kappa
        return Normals(self.kind, self.mean, cov, self.groups, shift)

    def _mean_logs(self) -> Float64:
        """Return E log|Λ| + log|scale|: of one column, or of all for full and tied."""
        if is_diagonal(self.kind):
            return digamma(self.dof / 2) + math.log(2)
        D = self.mean.shape[1]
        halves = (self.dof[:, None] - np.arange(D)) / 2
        return np.asarray(digamma(halves).sum(axis=1) + D * math.log(2))

    def divergence(self, prior: NormalWishart) -> float:
        """Compute KL(self ‖ prior), summed over the distributions."""
        ratio = prior.kappa / self.kappa
        delta = self.mean - prior.mean
        # E of KL between the normal distributions of the means, given Σ
        spread = float((ratio - 1 - np.log(ratio)).sum())
        if is_diagonal(self.kind):
            precision = self.dof / self.scale
            of_columns = precision if self.kind == "diag" else precision[:, None]
            distance = float((prior.kappa * delta**2 * of_columns).sum())
            log_ratio = np.log(self.scale) - np.log(prior.scale)
            traces = self.dof * (1 - prior.scale / self.scale)
        else:
            inverse = np.linalg.inv(self.scale)
            precision = self.dof[:, None, None] * inverse
            of_means = (precision[self.groups] @ delta[:, :, None])[:, :, 0]
            distance = float((prior.kappa * delta * of_means).sum())
            log_ratio = np.linalg.slogdet(self.scale)[1] - np.linalg.slogdet(prior.scale)[1]
            D = delta.shape[1]
            traces = self.dof * (D - np.trace(prior.scale @ inverse, axis1=1, axis2=2))
        gammas = self._log_normaliser() - prior._log_normaliser()
        extra = 0.5 * (self.dof - prior.dof) * (self._mean_logs() - self._columns() * math.log(2))
        wishart = 0.5 * prior.dof * log_ratio - gammas + extra - 0.5 * traces
        return 0.5 * (spread + distance) + float(wishart.sum())

    def _columns(self) -> int:
        return 1 if is_diagonal(self.kind) else self.mean.shape[1]

    def _log_normaliser(self) -> Float64:
        """Return log Γ_D(dof / 2) up to a constant, that of a Wishart distribution."""
        if is_diagonal(self.kind):
            return np.asarray(_log_gamma(self.dof / 2))
        D = self.mean.shape[1]
        return np.asarray(_log_gamma((self.dof[:, None] - np.arange(D)) / 2).sum(axis=1))
