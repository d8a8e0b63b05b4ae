"""Expectation maximisation for linear Gaussian models.

E step: the smoother gives the states as Gaussians. M step: each equation of the model is a
regression on them (`tagloom.dynamics.regressions`). Coefficients are updated given the covariance
of the noise, then the covariance given the coefficients; each raises the expected log density, so
the objective, log p(y) plus the log priors, never falls.

Shumway and Stoffer (1982), An approach to time series smoothing and forecasting using the EM
algorithm.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom.dynamics.inference import Posterior, Workspace, smooth_all, unresolved_error
from tagloom.dynamics.parameters import COVARIANCES, SHAPES, Floats, Parameters
from tagloom.dynamics.priors import InverseWishart, Normal, Prior
from tagloom.dynamics.regressions import (
    Mask,
    Regression,
    Weighted,
    free_blocks,
    solve_coefficients,
    solve_covariance,
    weigh,
)
from tagloom.dynamics.series import Series
from tagloom.training import Step


class Equation(NamedTuple):
    """The names of the parts of one equation."""

    matrix: str
    input: str
    offset: str
    covariance: str


TRANSITION = Equation(
    "transition", "transition_input", "transition_offset", "transition_covariance"
)
OBSERVATION = Equation(
    "observation", "observation_input", "observation_offset", "observation_covariance"
)


@dataclass(frozen=True, eq=False)
class Plan:
    """What is learnt, and under which priors.

    Attributes
    ----------
    free : mapping of str to ndarray of bool
        For each part, which entries are learnt.
    priors : mapping of str to Normal or InverseWishart
    tolerance : float
        The run has converged when the objective rises by less than this per observed number.
    """

    free: Mapping[str, Mask]
    priors: Mapping[str, Prior]
    tolerance: float

    def log_prior(self, parameters: Parameters) -> float:
        """Return the log density of the learnt entries under their priors."""
        total = 0.0
        for name, prior in self.priors.items():
            value, free = getattr(parameters, name), self.free[name]
            if isinstance(prior, InverseWishart):
                total += prior.log_density(name, value, free_blocks(name, value, free))
            else:
                total += prior.log_density(name, value, free)
        return total


class EM:
    """A learner for `tagloom.training.fit_iteratively`: one step is an M and an E step.

    Parameters
    ----------
    series : Series
    parameters : Parameters
        Where to start.
    plan : Plan
    steady : float
        Tolerance of the steady state, 0 for none.
    n_threads : int
    """

    def __init__(
        self, series: Series, parameters: Parameters, plan: Plan, steady: float, n_threads: int
    ) -> None:
        self.series = series
        self.parameters = parameters
        self.plan = plan
        self.steady = steady
        self.n_threads = n_threads
        self.n_observed = max(1, int(np.isfinite(series.y).sum()))
        self._workspace = Workspace(series.n_steps, parameters.n_states)
        self._posterior: Posterior | None = None
        self._objective = -np.inf

    def step(self) -> Step:
        """Maximise, then smooth with the new parameters, whose objective is reported."""
        if self._posterior is None:
            self._expect()
        before, objective = self.parameters, self._objective
        assert self._posterior is not None
        self.parameters = maximise(before, self.series, self._posterior, self.plan)
        self._expect()
        rise = self._objective - objective
        if rise < -1e-9 * (1 + abs(objective)):  # rounding, in a model that has become singular
            warnings.warn(
                f"EM stops: the objective fell from {objective:.10g} to {self._objective:.10g}, by "
                "rounding. A covariance is close to singular; a prior on it would help.",
                stacklevel=2,
            )
            self.parameters, self._objective = before, objective
            self._posterior = None
            rise = 0.0
        measure = "log_posterior" if self.plan.priors else "log_likelihood"
        return Step.rising(
            self._objective, measure, converged=rise <= self.plan.tolerance * self.n_observed
        )

    def weights(self) -> Parameters:
        """Return the present parameters, which later steps replace and never change."""
        return self.parameters

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the parameters as arrays."""
        return self.parameters.arrays()

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a state."""
        self.parameters = Parameters(**{name: np.array(a) for name, a in state.items()})
        self._posterior = None

    def _expect(self) -> None:
        posterior = smooth_all(
            self.parameters,
            self.series,
            self.steady,
            self.n_threads,
            lags=bool(self.series.varying),
            sums=True,
            workspace=self._workspace,
        )
        lengths = np.diff(self.series.offsets)
        unresolved = np.flatnonzero((posterior.n_diffuse == lengths) & (lengths > 0))
        if self.parameters.diffuse.any() and len(unresolved):
            raise unresolved_error(int(unresolved[0]))
        self._posterior = posterior
        self._objective = float(posterior.log_likelihoods.sum())
        self._objective += self.plan.log_prior(self.parameters)


def maximise(
    parameters: Parameters, series: Series, posterior: Posterior, plan: Plan
) -> Parameters:
    """Return the parameters of the next iteration.

    Parameters
    ----------
    parameters : Parameters
        The present ones, which gave the posterior.
    series : Series
    posterior : Posterior
        With sums, and with lag-one covariances if a part varies.
    plan : Plan
    """
    data = _Expected(parameters, series, posterior)
    new: dict[str, Any] = {}
    for equation, regress in ((TRANSITION, _transition), (OBSERVATION, _observation)):
        if any(plan.free[name].any() for name in equation):
            new |= _solve(equation, data, plan, regress(data, plan))
    new |= _initial(data, plan)
    return replace(parameters, **new)


class _Expected:
    """The smoothed states and the present parameters, as both regressions need them."""

    def __init__(self, parameters: Parameters, series: Series, posterior: Posterior) -> None:
        self.parameters = parameters
        self.series = series
        self.posterior = posterior
        lengths = np.diff(series.offsets)
        self.firsts = series.offsets[:-1][lengths > 0]
        self.lasts = series.offsets[1:][lengths > 0] - 1
        which, observed = series.native.patterns()
        self.which = which  # [steps]
        self.observed = observed.astype(bool)  # [patterns, m]

    def part(self, name: str) -> Floats:
        """A part with an axis of steps in front, of length 1 if it does not vary."""
        array: Floats = self.series.varying.get(name, getattr(self.parameters, name))
        return array if array.ndim > len(SHAPES[name]) else array[None]

    def varies(self, name: str) -> bool:
        return name in self.series.varying

    def at(self, name: str, steps: Any) -> Floats:
        """The entries of a part for some steps; one for all of them if it does not vary."""
        array = self.part(name)
        return array[steps] if self.varies(name) else array

    def sum_covs(self) -> Floats:
        total = self.posterior.sum_covs
        assert total is not None
        return total


class _Design(NamedTuple):
    """The regressors of one equation: which parts are coefficients, and the rest of the target."""

    z: Floats  # [N, q]
    names: list[str]  # of the parts that are columns of W
    known: Floats  # [N, p] what the other parts contribute to the target
    has_states: bool  # whether the first columns of z are states


def _design(equation: Equation, data: _Expected, plan: Plan, steps: Any, states: Floats) -> _Design:
    """Lay out the regressors; parts that vary or are wholly fixed, but for A and C, are known."""
    columns, names = [], []
    known = np.zeros((len(states), data.part(equation.covariance).shape[-1]))
    has_states = not data.varies(equation.matrix)
    if has_states:
        columns.append(states)
        names.append(equation.matrix)
    else:
        known += np.einsum("tij,tj->ti", data.at(equation.matrix, steps), states)
    inputs = data.series.inputs
    if inputs is not None and inputs.shape[1]:
        if plan.free[equation.input].any():
            columns.append(inputs[steps])
            names.append(equation.input)
        else:
            weights = np.broadcast_to(
                data.at(equation.input, steps), (len(states), *data.part(equation.input).shape[1:])
            )
            known += np.einsum("tij,tj->ti", weights, inputs[steps])
    if plan.free[equation.offset].any():
        columns.append(np.ones((len(states), 1)))
        names.append(equation.offset)
    else:
        known += data.at(equation.offset, steps)
    z = np.concatenate(columns, axis=1) if columns else np.zeros((len(states), 0))
    return _Design(z, names, known, has_states)


def _padded(cov: Floats, rows: int, columns: int) -> Floats:
    """A covariance of states as the corner of a larger one, zeros for what is known."""
    out = np.zeros((*cov.shape[:-2], rows, columns))
    out[..., : cov.shape[-2], : cov.shape[-1]] = cov
    return out


def _inverses(covs: Any) -> Floats:
    """Inverses of covariances; directions without noise have no weight."""
    return np.asarray(np.linalg.pinv(covs, hermitian=True), dtype=np.float64)


class _Equations(NamedTuple):
    design: _Design
    regression: Regression
    weighted: Weighted | None


def _transition(data: _Expected, plan: Plan) -> _Equations:
    """x_t on (x_{t−1}, u_t, 1), for all steps but the first of each sequence."""
    posterior, total = data.posterior, data.sum_covs().sum(axis=0)
    later = np.delete(np.arange(data.series.n_steps), data.firsts)
    earlier = later - 1
    if len(data.firsts) == 1:  # slices make no copies
        later, earlier = slice(1, None), slice(None, -1)  # type: ignore[assignment]
    design = _design(TRANSITION, data, plan, later, posterior.means[earlier])
    n, q = data.parameters.n_states, design.z.shape[1]
    targets = posterior.means[later] - design.known
    V_later = total - posterior.covs[data.firsts].sum(axis=0)
    V_earlier = total - posterior.covs[data.lasts].sum(axis=0)
    if design.has_states:
        assert posterior.sum_lags is not None
        regression = Regression(
            targets,
            design.z,
            V_later,
            _padded(posterior.sum_lags, n, q),
            _padded(V_earlier, q, q),
        )
    else:
        A, lags = data.at("transition", later), posterior.lags[earlier]  # type: ignore[index]
        cross = A @ lags.swapaxes(1, 2)
        cov = V_later - (cross + cross.swapaxes(1, 2)).sum(axis=0)
        cov += (A @ posterior.covs[earlier] @ A.swapaxes(1, 2)).sum(axis=0)
        regression = Regression(targets, design.z, cov, np.zeros((n, q)), np.zeros((q, q)))
    weighted = None
    if data.varies("transition_covariance"):
        weights = _inverses(data.at("transition_covariance", later))
        N = len(targets)
        cross_covs, z_covs = np.zeros((N, n, q)), np.zeros((N, q, q))
        if design.has_states:
            cross_covs = _padded(posterior.lags[earlier], n, q)  # type: ignore[index]
            z_covs = _padded(posterior.covs[earlier], q, q)
        weighted = weigh(weights, targets, design.z, cross_covs, z_covs)
    return _Equations(design, regression, weighted)


def _observation(data: _Expected, plan: Plan) -> _Equations:
    """y_t on (x_t, u_t, 1), for all steps at which something is observed.

    Components that are missing beside others are random, too: given x_t and the observed ones they
    are ``y_u = G x_t + g + e`` with G = C_u − K C_o, K = R_uo R_oo⁻¹, Cov[e] = R_uu − K R_ou.
    """
    posterior, sums = data.posterior, data.sum_covs()
    is_used = data.which != 1
    steps: Any = slice(None) if is_used.all() else np.flatnonzero(is_used)
    design = _design(OBSERVATION, data, plan, steps, posterior.means[steps])
    m, n, q = data.parameters.n_observed, data.parameters.n_states, design.z.shape[1]
    if data.varies("observation_covariance"):
        return _weighted_observation(data, design, steps)
    y = data.series.y[steps]
    cov, cross = np.zeros((m, m)), np.zeros((m, n))
    is_even = not data.varies("observation")
    which = data.which[steps]
    if (which > 1).any():
        y = y.copy()
    for pattern in range(len(data.observed)):
        here = np.flatnonzero(which == pattern) if len(data.observed) > 2 else slice(None)
        if pattern == 1 or (isinstance(here, np.ndarray) and not len(here)):
            continue
        at = here if isinstance(steps, slice) else steps[here]
        C = data.at("observation", at)
        G = np.zeros((len(C), m, n))
        if pattern > 1:
            y[here], G = _fill_missing(data, pattern, at, y[here], cov)
        V = sums[pattern][None] if is_even else posterior.covs[at]
        if is_even:
            cross += (G @ V).sum(axis=0)
        else:
            G = G - C  # the target is y - C x
        cov += (G @ V @ G.swapaxes(1, 2)).sum(axis=0)
    used = sums.sum(axis=0) - sums[1]
    z_cov = _padded(used, q, q) if is_even else np.zeros((q, q))
    cross_cov = _padded(cross, m, q) if is_even else np.zeros((m, q))
    regression = Regression(y - design.known, design.z, cov, cross_cov, z_cov)
    return _Equations(design, regression, None)


def _fill_missing(
    data: _Expected, pattern: int, steps: Any, y: Floats, cov: Floats
) -> tuple[Floats, Floats]:
    """Return y with the means of its missing components, and G; add the noise of these to cov."""
    C, R = data.at("observation", steps), data.part("observation_covariance")[0]
    o, u = np.flatnonzero(data.observed[pattern]), np.flatnonzero(~data.observed[pattern])
    K = R[np.ix_(u, o)] @ np.linalg.pinv(R[np.ix_(o, o)], hermitian=True)
    G = np.zeros(C.shape)  # [steps or 1, m, n], 0 for observed components
    G[:, u] = C[:, u] - K @ C[:, o]
    predicted = _predict(data, steps, data.posterior.means[steps])
    y = y.copy()
    y[:, u] = predicted[:, u] + (y[:, o] - predicted[:, o]) @ K.T
    cov[np.ix_(u, u)] += len(y) * (R[np.ix_(u, u)] - K @ R[np.ix_(o, u)])
    return y, G


def _predict(data: _Expected, steps: Any, states: Floats) -> Floats:
    """C x + D u + d at some steps, with the present parameters."""
    count = len(states)

    def times(name: str, vectors: Floats) -> Floats:
        matrices = data.at(name, steps)
        matrices = np.broadcast_to(matrices, (count, *matrices.shape[1:]))
        product: Floats = np.einsum("tij,tj->ti", matrices, vectors)
        return product

    out = times("observation", states) + data.at("observation_offset", steps)
    inputs = data.series.inputs
    if inputs is not None and inputs.shape[1]:
        out = out + times("observation_input", inputs[steps])
    return out


def _weighted_observation(data: _Expected, design: _Design, steps: Any) -> _Equations:
    """The noise differs from step to step: missing components have no weight."""
    posterior, q = data.posterior, design.z.shape[1]
    y, R = data.series.y[steps], data.at("observation_covariance", steps)
    is_observed = np.isfinite(y)
    both = is_observed[:, :, None] & is_observed[:, None, :]
    weights = _inverses(np.where(both, R, 0.0))
    targets = np.where(is_observed, y, 0.0) - np.where(is_observed, design.known, 0.0)
    N, m = y.shape
    z_covs = np.zeros((N, q, q))
    if design.has_states:
        z_covs = _padded(posterior.covs[steps], q, q)
    weighted = weigh(weights, targets, design.z, np.zeros((N, m, q)), z_covs)
    nothing = Regression(targets, design.z, np.zeros((m, m)), np.zeros((m, q)), np.zeros((q, q)))
    return _Equations(design, nothing, weighted)


def _solve(
    equation: Equation, data: _Expected, plan: Plan, equations: _Equations
) -> dict[str, Floats]:
    """Update the coefficients given the covariance, then the covariance given them."""
    names, regression = equations.design.names, equations.regression
    parameters = data.parameters
    p = len(data.part(equation.covariance)[0])
    columns = {name: getattr(parameters, name).reshape(p, -1) for name in names}
    new: dict[str, Floats] = {}
    W = np.concatenate([*columns.values(), np.zeros((p, 0))], axis=1)
    if not len(regression.targets):
        return new
    if names:
        W = _solve_columns(equation, data, plan, equations, W, columns)
        ends = np.cumsum([part.shape[1] for part in columns.values()])
        for name, end in zip(names, ends, strict=True):
            shape = getattr(parameters, name).shape
            part = W[:, end - columns[name].shape[1] : end]
            new[name] = np.ascontiguousarray(part).reshape(shape)
    if not data.varies(equation.covariance):
        value = getattr(parameters, equation.covariance)
        prior = plan.priors.get(equation.covariance)
        new[equation.covariance] = solve_covariance(
            value,
            regression.residual(W),
            len(regression.targets),
            free_blocks(equation.covariance, value, plan.free[equation.covariance]),
            prior if isinstance(prior, InverseWishart) else None,
            equation.covariance,
        )
    return new


def _solve_columns(
    equation: Equation,
    data: _Expected,
    plan: Plan,
    equations: _Equations,
    W: Floats,
    columns: Mapping[str, Floats],
) -> Floats:
    """Update the coefficients of one equation, with their fixed entries and priors."""
    free = [plan.free[name].reshape(part.shape) for name, part in columns.items()]
    means, precisions = np.zeros(W.shape), np.zeros(W.shape)
    has_prior, start = False, 0
    for name, part in columns.items():
        prior = plan.priors.get(name)
        if isinstance(prior, Normal):
            mean, precision = prior.check(name, getattr(data.parameters, name).shape)
            span = slice(start, start + part.shape[1])
            means[:, span] = mean.reshape(part.shape)
            precisions[:, span] = precision.reshape(part.shape)
            has_prior = True
        start += part.shape[1]
    return solve_coefficients(
        equations.regression,
        W,
        data.part(equation.covariance)[0],
        np.concatenate(free, axis=1),
        means if has_prior else None,
        precisions if has_prior else None,
        equations.weighted,
    )


def _initial(data: _Expected, plan: Plan) -> dict[str, Floats]:
    """The distribution of the first states; diffuse ones have none."""
    parameters, posterior = data.parameters, data.posterior
    count = len(data.firsts)
    if not count:
        return {}
    targets, covs = posterior.means[data.firsts], posterior.covs[data.firsts]
    n = parameters.n_states
    regression = Regression(
        targets, np.ones((count, 1)), covs.sum(axis=0), np.zeros((n, 1)), np.zeros((1, 1))
    )
    prior = plan.priors.get("initial_mean")
    mean, precision = None, None
    if isinstance(prior, Normal):
        mean, precision = (x[:, None] for x in prior.check("initial_mean", (n,)))
    W = solve_coefficients(
        regression,
        parameters.initial_mean[:, None],
        parameters.initial_covariance,
        plan.free["initial_mean"][:, None],
        mean,
        precision,
    )
    cov_prior = plan.priors.get("initial_covariance")
    name = COVARIANCES[2]
    cov = solve_covariance(
        parameters.initial_covariance,
        regression.residual(W),
        count,
        free_blocks(name, parameters.initial_covariance, plan.free[name]),
        cov_prior if isinstance(cov_prior, InverseWishart) else None,
        name,
    )
    return {"initial_mean": W[:, 0].copy(), "initial_covariance": cov}
