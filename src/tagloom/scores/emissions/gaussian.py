r"""Vectors with a normal distribution for each label.

    p(x_t | y) = N(x_t; μ_y, Σ_y)

`normals` has the mathematics, which `GaussianMixture` shares; this file has the parameters, the
protocol and the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ParameterError
from tagloom.scores.emissions import normals
from tagloom.scores.emissions.base import Float64, Gamma, Quadratic
from tagloom.scores.emissions.normals import Moments, Normals, NormalWishart, Prior
from tagloom.scores.emissions.numeric import Int64, Numeric, check_vector, spread_over
from tagloom.storage import File

# Rows with gaps have no closed form: iterations with known labels, and when they have converged.
_MOST_ROUNDS = 300
_CONVERGED = 1e-8


class NormalEmission(Numeric):
    """Base of emissions that are made of normal distributions: the prior, the floor, the checks."""

    covariance: str
    prior_mean: Any
    prior_mean_weight: float | None
    prior_scale: Any
    prior_weight: float | None
    floor: float

    _scale: Float64 | None = None  # [D] of the data, fixed at the first update

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        checks.choice(self.covariance, "covariance", normals.KINDS)
        checks.number(self.floor, "floor", above=0)
        check_vector(self.prior_mean, "prior_mean")
        for name in ("prior_mean_weight", "prior_weight"):
            if getattr(self, name) is not None:
                checks.number(getattr(self, name), name, least=0)
        check_vector(self.prior_scale, "prior_scale")
        if self.prior_scale is not None:
            self._check_scale(np.asarray(self.prior_scale, dtype=np.float64))

    def _check_scale(self, scale: Float64) -> None:
        is_matrix = scale.ndim == 2 and scale.shape[0] == scale.shape[1]
        if is_matrix and not normals.is_diagonal(self.covariance):
            is_valid = np.allclose(scale, scale.T) and np.linalg.eigvalsh(scale)[0] >= 0
        else:
            is_valid = scale.ndim < 2 and bool((scale >= 0).all())
        if not is_valid:
            raise ParameterError(
                parameter="prior_scale",
                expected="a variance, one for each column, or, for full and tied covariances, "
                "a positive semi-definite matrix",
                found=checks.show(self.prior_scale),
            )

    # ---- the prior -------------------------------------------------------------------------

    @property
    def _has_prior(self) -> bool:
        given = (self.prior_mean, self.prior_mean_weight, self.prior_scale, self.prior_weight)
        return any(value is not None for value in given)

    def _prior(self, mean: Float64) -> Prior:
        """Return the prior of the parameters, flat by default; ``mean`` [D] is that of the data."""
        D = len(mean)
        given = mean if self.prior_mean is None else spread_over(self.prior_mean, D, "prior_mean")
        scale = np.asarray(0.0 if self.prior_scale is None else self.prior_scale, dtype=np.float64)
        if scale.ndim < 2:
            scale = spread_over(scale, D, "prior_scale")
            scale = scale if normals.is_diagonal(self.covariance) else np.diag(scale)
        elif scale.shape != (D, D):
            raise ParameterError(
                parameter="prior_scale",
                expected=f"a matrix of shape ({D}, {D}) for the {D} columns",
                found=f"shape {scale.shape}",
            )
        return Prior(given, self.prior_mean_weight or 0.0, scale, self.prior_weight or 0.0)

    def _proper_prior(self, stats: Moments, groups: Int64) -> Prior:
        """Return the prior; if none was given, a weak one of the size of the data."""
        mean = stats.column_means()
        if self._has_prior:
            return self._prior(mean)
        variance, D = 0.1 * stats.column_scales() ** 2, len(mean)
        if normals.is_diagonal(self.covariance):
            return Prior(mean, 0.01, variance, 6.0)
        largest = int(np.bincount(groups).max(initial=1))
        return Prior(mean, 0.01, np.diag(variance), 2.0 * D + 3 + largest)

    def _improper(self, member: str) -> ParameterError:
        return self.unsupported(
            member,
            "its prior, with these data, cannot be normalised",
            "Raise prior_mean_weight, prior_scale and prior_weight, or leave all priors at None.",
        )

    # ---- learning --------------------------------------------------------------------------

    def _scale_of(self, moments: Moments) -> Float64:
        return moments.column_scales() if self._scale is None else self._scale

    def _maximise(
        self,
        moments: Moments,
        groups: Int64,
        previous: Normals | None,
        rounds: int = _MOST_ROUNDS,
    ) -> Normals:
        """Return the maximum of likelihood times prior.

        Rows with gaps are completed by their expectation under the previous parameters, which is
        one iteration of EM. Without previous parameters there are up to ``rounds`` of them.
        """
        prior = self._prior(moments.column_means())
        floor = self.floor * self._scale_of(moments) ** 2

        def best(complete: Moments, previous: Normals | None) -> Normals:
            return normals.maximise(complete, prior, floor, self.covariance, groups, previous)

        if not moments.has_gaps:
            return best(moments, previous)
        if previous is not None:
            return best(moments.expected(previous), previous)
        current = self._start_with_gaps(moments, floor, groups)
        for _ in range(rounds):
            new = best(moments.expected(current), current)
            unit = np.sqrt(floor / self.floor)
            change = np.abs((new.means - current.means) / unit).max(initial=0.0)
            differences = (new.covariances - current.covariances) / np.outer(unit, unit)
            change = max(change, np.abs(differences).max(initial=0.0))
            current = new
            if change < _CONVERGED:
                break
        return current

    def _start_with_gaps(self, moments: Moments, floor: Float64, groups: Int64) -> Normals:
        """Return independent columns, estimated from the observed values."""
        flat = Prior(moments.column_means(), 0.0, np.zeros(len(floor)), 0.0)
        K = len(groups)
        whole = Moments(
            moments.centre,
            np.repeat(moments.n[:, None], len(floor), axis=1),
            moments.first,
            np.diagonal(moments.second, axis1=1, axis2=2),
            moments.totals,
        )
        for data, gamma in moments.incomplete:
            has = np.zeros(len(data.x), dtype=bool)
            for pattern in data.patterns:
                if len(pattern.columns) < data.x.shape[1]:
                    has[pattern.rows] = True
            rows = type(data)(data.x[has], np.array([0, has.sum()]))
            part = Moments.of(rows, gamma[has], rows.totals(None), "diag")
            part = part.about(moments.centre)
            whole = Moments(
                moments.centre,
                whole.n + part.n,
                whole.first + part.first,
                whole.second + part.second,
                moments.totals,
            )
        each = np.arange(K)
        start = normals.maximise(whole, flat, floor, "diag", each, None)
        G, D = int(groups.max(initial=-1)) + 1, len(floor)
        cov = np.zeros((G, D, D))
        for group in range(G):
            cov[group] = np.diag(start.covariances[groups == group].mean(axis=0))
        return Normals(self.covariance, start.means, cov, groups, np.zeros((K, D)))

    def _draw(
        self, moments: Moments, groups: Int64, rng: np.random.Generator, previous: Normals | None
    ) -> Normals:
        """Draw means and covariances from their posterior; gaps are filled by draws first."""
        if moments.has_gaps:
            if previous is None:
                previous = self._maximise(moments, groups, None)
            moments = moments.imputed(previous, rng)
        prior = self._proper_prior(moments, groups)
        posterior = NormalWishart.given(moments, prior, self.covariance, groups)
        if not posterior.is_proper:
            raise self._improper("draw_posterior")
        return posterior.draw(rng)

    def _mean_field(
        self, moments: Moments, groups: Int64, previous: Normals | None
    ) -> tuple[Normals, float]:
        """Return the expected distributions, and the divergence of the posterior from the prior.

        Missing values of rows with others have a distribution of their own, given the observed
        values, the label and the expected parameters: that under which tokens were scored.
        """
        if moments.has_gaps:
            if previous is None:
                previous = self._maximise(moments, groups, None)
            moments = moments.expected(previous)
        given = self._proper_prior(moments, groups)
        prior = NormalWishart.given(None, given, self.covariance, groups)
        posterior = NormalWishart.given(moments, given, self.covariance, groups)
        if not prior.is_proper:
            raise self._improper("mean_field")
        return posterior.expected(), posterior.divergence(prior)

    # ---- files -----------------------------------------------------------------------------

    def _read_centre(self, file: File, D: int) -> Float64:
        centre = self._read_array(file, "centre_", 1)
        if len(centre) != D:
            raise self._file_error("centre_", f"{D} numbers", str(len(centre)))
        return centre

    def _check_covariances(self, cov: Float64, shape: tuple[int, ...]) -> None:
        """Raise if covariances of a file are not positive definite."""
        if cov.shape != shape:
            raise self._file_error("covariances_", f"shape {shape}", str(cov.shape))
        if normals.is_diagonal(self.covariance):
            if cov.size and cov.min() <= 0:
                raise self._file_error("covariances_", "positive variances", f"{cov.min():g}")
            return
        is_symmetric = np.allclose(cov, np.swapaxes(cov, -1, -2), rtol=1e-6, atol=0)
        if cov.size and not (is_symmetric and np.linalg.eigvalsh(cov).min() > 0):
            raise self._file_error(
                "covariances_", "symmetric positive definite matrices", "another matrix"
            )


class Gaussian(NormalEmission):
    r"""Vectors with a normal distribution for each label.

        p(x_t | y) = N(x_t; μ_y, Σ_y)

    A missing value is NaN. It is integrated out exactly: the others have their marginal
    distribution, and a token without any value has the density 1. Without priors and gaps, the
    update is

        μ_y = Σ_t γ[t, y] x_t / Σ_t γ[t, y]
        Σ_y = Σ_t γ[t, y] (x_t − μ_y)(x_t − μ_y)ᵀ / Σ_t γ[t, y]

    Full and tied covariances learn from rows with gaps by their conditional means and covariances
    given the observed values: one iteration of EM in each update, or, when labels are counted,
    until it has converged.

    The prior is conjugate: normal-inverse-Wishart or, for diagonal covariances,
    normal-inverse-gamma. It is written as pseudo-observations: with m = ``prior_mean``,
    κ = ``prior_mean_weight``, Ψ = ``prior_scale`` and c = ``prior_weight``,

        μ_y = (κ m + Σ γ x) / (κ + Σ γ)
        Σ_y = (Ψ + κ (μ_y − m)(μ_y − m)ᵀ + Σ γ (x − μ_y)(x − μ_y)ᵀ) / (c + Σ γ)

    The inverse-Wishart distribution has ν = c − D − 2 degrees of freedom. The objective of training
    contains the logarithm of this prior.

    Parameters
    ----------
    covariance : {"diag", "full", "spherical", "tied"}, default "diag"
        Diagonal matrices, full ones, multiples of the identity, or one full matrix for all labels.
    prior_mean : float or list of float, optional
        m; by default the mean of the data.
    prior_mean_weight : float, optional
        κ, at least 0; 0 by default.
    prior_scale : float, list of float, or matrix, optional
        Ψ; a number stands for that multiple of the identity, a list for a diagonal matrix. 0 by
        default.
    prior_weight : float, optional
        c, at least 0; 0 by default.
    floor : float, default 1e-6
        Smallest variance, in units of the variance of the column in the training data. It keeps
        densities finite when a label has fewer distinct tokens than columns, or a column is
        constant, and does not change between iterations.

    Attributes
    ----------
    means_ : ndarray, shape (Y, D)
    covariances_ : ndarray
        Shape (Y,) if spherical, (Y, D) if diag, (Y, D, D) if full, (D, D) if tied.

    Notes
    -----
    If none of the priors is given, `draw_posterior` and `mean_field`, which need a proper one, use
    a weak prior of the size of the data: κ = 0.01 at the mean, Ψ a tenth of the variances, and
    D + 2 degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> X = [np.array([[0.1, 0.0], [-0.2, np.nan], [4.8, 5.0]]), np.array([[5.1, 4.9], [0.3, 0.2]])]
    >>> y = [["low", "low", "high"], ["high", "low"]]
    >>> hmm = tl.HMM(emissions=tl.emissions.Gaussian("diag")).fit(X, y)
    >>> hmm.emission_.means_.round(3)
    array([[4.95 , 4.95 ],
           [0.067, 0.1  ]])
    >>> hmm.predict([np.array([[np.nan, 0.1], [5.0, np.nan]])])
    [['low', 'high']]
    """

    by_column = "means_"
    learned = ("means_", "covariances_", "shift_", "centre_")

    means_: Float64
    covariances_: Float64
    shift_: Float64
    centre_: Float64  # [D] the mean of the data, the default of the prior's

    def __init__(
        self,
        covariance: str = "diag",
        *,
        prior_mean: Any = None,
        prior_mean_weight: float | None = None,
        prior_scale: Any = None,
        prior_weight: float | None = None,
        floor: float = 1e-6,
    ) -> None:
        self.covariance = covariance
        self.prior_mean = prior_mean
        self.prior_mean_weight = prior_mean_weight
        self.prior_scale = prior_scale
        self.prior_weight = prior_weight
        self.floor = floor

    @classmethod
    def from_params(
        cls,
        labels: Sequence[str],
        means: npt.ArrayLike,
        covariances: npt.ArrayLike,
        covariance: str = "diag",
        **params: Any,
    ) -> Gaussian:
        """Make a fitted emission from means [Y, D] and covariances in the shape of their kind.

        Raises
        ------
        ModelFileError
            If shapes do not fit, or covariances are not positive definite.

        Examples
        --------
        >>> import tagloom as tl
        >>> given = tl.emissions.Gaussian.from_params(["a", "b"], [[0.0], [3.0]], [[1.0], [2.0]])
        >>> given.log_probs([[0.0]]).round(4)
        array([[-0.9189, -3.5155]])
        """
        bound = cls(covariance, **params).bind(labels)
        assert isinstance(bound, Gaussian)
        means = np.asarray(means, dtype=np.float64)
        arrays = {
            "emission_means_": means,
            "emission_covariances_": np.asarray(covariances, dtype=np.float64),
            "emission_shift_": np.zeros_like(means),
            "emission_centre_": means.mean(axis=0),
        }
        return bound.from_file(File({}, arrays))

    # ---- scoring ---------------------------------------------------------------------------

    def log_probs(self, X: Any) -> Float64:
        """Compute log N(x_t; μ_y, Σ_y) of the observed values [T, Y]."""
        return self._normals().log_densities(self._encode_same(X, "log_probs"))

    def token_scorer(self) -> Callable[[Any], Float64]:
        """Return a function from one vector to its log-densities [Y]; factors are computed once."""
        general, of_complete = super().token_scorer(), self._normals().density_of_one()
        D = self.means_.shape[1]

        def score(x: Any) -> Float64:
            vector = np.asarray(x)
            if vector.dtype.kind in "fiu" and vector.shape == (D,):
                scores = of_complete(vector)
                if np.isfinite(scores).all():
                    return scores
            return general(x)  # gaps, or an error that names what is wrong

        return score

    def _normals(self) -> Normals:
        self.check_learned("log_probs")
        cov = self.covariances_[None] if self.covariance == "tied" else self.covariances_
        return Normals(self.covariance, self.means_, cov, self._groups, self.shift_)

    @property
    def _groups(self) -> Int64:
        Y = len(self.labels)
        return np.zeros(Y, dtype=np.int64) if self.covariance == "tied" else np.arange(Y)

    # ---- learning --------------------------------------------------------------------------

    def collect(self, X: Any, gamma: Gamma, weight: Float64 | None = None) -> Moments:
        """Compute the moments of the tokens of each label; see `Emission.collect`."""
        data, gamma, totals = self._weigh(X, gamma, weight)
        return Moments.of(data, gamma, totals, self.covariance)

    def quadratic(self, X: Any) -> Quadratic | None:
        """Return the standardised numbers and their weights; None if values are missing."""
        data = self._encode_same(X, "log_probs")
        if data.observed is not None:
            return None
        weights = self._normals().weights(data)
        return None if weights is None else Quadratic(data.z, weights)

    def collect_sums(self, X: Any, sums: Float64, weight: Float64 | None = None) -> Moments:
        """Make the moments from sums of features [P, Y]; see `Emission.quadratic`."""
        data = self.encode(X)
        return Moments.from_sums(data, sums, data.totals(weight), self.covariance)

    def merge(self, a: Moments, b: Moments) -> Moments:
        """Sum the moments of different sequences."""
        return a.plus(b)

    def update(self, stats: Moments) -> Self:
        """Return the maximum of likelihood times prior; see the class."""
        previous = self._normals() if self.is_fitted else None
        return self._with(self._maximise(stats, self._groups, previous), stats)

    def draw_posterior(self, stats: Moments, rng: np.random.Generator) -> Self:
        """Draw means and covariances from the normal-inverse-Wishart posterior.

        Gaps in rows with full covariances are filled by draws given the current parameters, which
        makes it a step of a Gibbs sampler.
        """
        previous = self._normals() if self.is_fitted else None
        return self._with(self._draw(stats, self._groups, rng, previous), stats)

    def mean_field(self, stats: Moments) -> Self:
        """Return the update of variational Bayes; see `Emission.mean_field`.

        Raises
        ------
        ParameterError
            If the prior is improper.
        """
        previous = self._normals() if self.is_fitted else None
        expected, divergence = self._mean_field(stats, self._groups, previous)
        return self._with(expected, stats).replace(_divergence=divergence)

    def _with(self, fitted: Normals, stats: Moments) -> Self:
        cov = fitted.covariances[0] if self.covariance == "tied" else fitted.covariances
        return self.replace(
            means_=fitted.means,
            covariances_=cov,
            shift_=fitted.shift,
            _scale=self._scale_of(stats),
            centre_=stats.column_means(),
            _divergence=None,
        )

    def log_prior(self) -> float:
        """Return the log-density of the prior, up to a constant; after `mean_field`, −KL(q ‖ p)."""
        if self._divergence is not None:
            return -self._divergence
        fitted = self._normals()
        return normals.log_prior(fitted, self._prior(self.centre_))

    # ---- looking inside --------------------------------------------------------------------

    def generate(self, y: npt.NDArray[np.integer[Any]], rng: np.random.Generator) -> Float64:
        """Draw a vector for each label [T, D]."""
        return draw_vectors(self._normals(), np.asarray(y), rng)

    @property
    def n_parameters(self) -> int:
        """Y · D means, and the variances and covariances of the kind."""
        self.check_learned("n_parameters")
        return count_parameters(self._normals())

    def order_key(self) -> Float64:
        """Return the means, by which states are sorted: first column first."""
        self.check_learned("order_key")
        return self.means_

    def permute(self, order: Sequence[int]) -> Self:
        """Return the same emission with its states in another order."""
        at = np.asarray(order)
        cov = self.covariances_ if self.covariance == "tied" else self.covariances_[at]
        return self.replace(means_=self.means_[at], covariances_=cov, shift_=self.shift_[at])

    def from_file(self, file: File) -> Self:
        """Return the emission with the parameters of a file, which are checked."""
        Y = len(self.labels)
        means = self._read_array(file, "means_", 2)
        shift = self._read_array(file, "shift_", 2)
        D = means.shape[1]
        if means.shape[0] != Y or D == 0 or shift.shape != means.shape:
            raise self._file_error("means_", f"{Y} rows of means", str(means.shape))
        shapes: dict[str, tuple[int, ...]] = {
            "spherical": (Y,),
            "diag": (Y, D),
            "full": (Y, D, D),
            "tied": (D, D),
        }
        shape = shapes[self.covariance]
        cov = self._read_array(file, "covariances_", len(shape))
        self._check_covariances(cov, shape)
        return self.replace(
            means_=means,
            covariances_=cov,
            shift_=shift,
            centre_=self._read_centre(file, D),
            _divergence=self._read_divergence(file),
        )


def draw_vectors(
    fitted: Normals, k: npt.NDArray[np.integer[Any]], rng: np.random.Generator
) -> Float64:
    """Draw a vector from distribution k[t] for each t [T, D]."""
    noise = rng.standard_normal((len(k), fitted.means.shape[1]))
    if normals.is_diagonal(fitted.kind):
        return np.asarray(fitted.means[k] + noise * np.sqrt(fitted.variances()[k]))
    factor = np.linalg.cholesky(fitted.covariances)[fitted.groups]  # [K, D, D]
    return np.asarray(fitted.means[k] + (factor[k] @ noise[:, :, None])[:, :, 0])


def count_parameters(fitted: Normals) -> int:
    """Return the number of means, variances and covariances that are free."""
    D, cov = fitted.means.shape[1], fitted.covariances
    of_one = D * (D + 1) // 2 if cov.ndim == 3 else 1
    n_covariances = len(cov) * of_one if cov.ndim == 3 else cov.size
    return fitted.means.size + n_covariances
