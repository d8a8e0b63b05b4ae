"""The two equations of a linear Gaussian model as regressions on smoothed states.

x_t is regressed on (x_{t−1}, u_t, 1) and y_t on (x_t, u_t, 1). This file lays out what is known and
what is learnt; `tagloom.dynamics.regressions` solves.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tagloom.dynamics.inference import Posterior
from tagloom.dynamics.parameters import SHAPES, Floats, Parameters
from tagloom.dynamics.plans import Plan
from tagloom.dynamics.regressions import Regression, Weighted, weigh
from tagloom.dynamics.series import Series

# The patterns of missing components that come first; see `_native.KalmanSequences`.
_ALL, _NOTHING = 0, 1


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


class Expected:
    """The smoothed states and the present parameters, as both regressions need them.

    Parameters
    ----------
    parameters : Parameters
    series : Series
    posterior : Posterior
        With sums, and with lag-one covariances if a part varies.
    """

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
        """Return a part with an axis of steps in front, of length 1 if it does not vary."""
        array: Floats = self.series.varying.get(name, getattr(self.parameters, name))
        return array if array.ndim > len(SHAPES[name]) else array[None]

    def varies(self, name: str) -> bool:
        """Whether a part has an entry for each step."""
        return name in self.series.varying

    def at(self, name: str, steps: Any) -> Floats:
        """Return the entries of a part for some steps; one for all of them if it does not vary."""
        array = self.part(name)
        return array[steps] if self.varies(name) else array

    def times(self, name: str, steps: Any, vectors: Floats) -> Floats:
        """Return the products of a matrix and a vector for some steps."""
        matrices = self.at(name, steps)
        matrices = np.broadcast_to(matrices, (len(vectors), *matrices.shape[1:]))
        products: Floats = np.einsum("tij,tj->ti", matrices, vectors)
        return products

    @property
    def inputs(self) -> Floats | None:
        """The inputs, if the model has any."""
        inputs = self.series.inputs
        return inputs if inputs is not None and inputs.shape[1] else None

    @cached_property
    def neighbours(self) -> tuple[Any, Any]:
        """The steps that have one before them, and those before them, as indices."""
        if len(self.firsts) == 1:  # slices make no copies
            return slice(1, None), slice(None, -1)
        later = np.delete(np.arange(self.series.n_steps), self.firsts)
        return later, later - 1

    @property
    def sum_covs(self) -> Floats:
        """Sums of smoothed covariances by pattern, shape (patterns, n, n)."""
        total = self.posterior.sum_covs
        assert total is not None
        return total

    @property
    def lags(self) -> Floats:
        """Lag-one covariances, shape (steps, n, n)."""
        lags = self.posterior.lags
        assert lags is not None
        return lags


class Design(NamedTuple):
    """The regressors of one equation: which parts are coefficients, and the rest of the target."""

    z: Floats  # [N, q]
    names: list[str]  # of the parts that are columns of W
    known: Floats | None  # [N, p] what the other parts contribute to the target, unless it is 0
    has_states: bool  # whether the first columns of z are states

    def subtract_known(self, targets: Floats) -> Floats:
        """Return what the columns of z must explain."""
        return targets if self.known is None else targets - self.known


class Equations(NamedTuple):
    """One equation, ready to be solved."""

    design: Design
    regression: Regression
    weighted: Weighted | None  # where the covariance of the noise varies


def _design(equation: Equation, data: Expected, plan: Plan, steps: Any, states: Floats) -> Design:
    """Lay out the regressors; parts that vary or are wholly fixed, but for A and C, are known."""
    columns, names, known = [], [], []
    has_states = not data.varies(equation.matrix)
    if has_states:
        columns.append(states)
        names.append(equation.matrix)
    else:
        known.append(data.times(equation.matrix, steps, states))
    if data.inputs is not None:
        if plan.free[equation.input].any():
            columns.append(data.inputs[steps])
            names.append(equation.input)
        else:
            known.append(data.times(equation.input, steps, data.inputs[steps]))
    if plan.free[equation.offset].any():
        columns.append(np.ones((len(states), 1)))
        names.append(equation.offset)
    elif data.part(equation.offset).any():
        known.append(data.at(equation.offset, steps))
    z = columns[0] if len(columns) == 1 else np.concatenate([*columns, states[:, :0]], axis=1)
    return Design(z, names, sum(known[1:], start=known[0]) if known else None, has_states)


def _padded(cov: Floats, rows: int, columns: int) -> Floats:
    """Return a covariance of states as the corner of a larger one, zeros for what is known."""
    out = np.zeros((*cov.shape[:-2], rows, columns))
    out[..., : cov.shape[-2], : cov.shape[-1]] = cov
    return out


def _inverses(covs: Any) -> Floats:
    """Return inverses of covariances; directions without noise have no weight."""
    return np.asarray(np.linalg.pinv(covs, hermitian=True), dtype=np.float64)


# ---- states --------------------------------------------------------------------------------------


def regress_states(data: Expected, plan: Plan) -> Equations:
    """Regress x_t on (x_{t−1}, u_t, 1), for all steps but the first of each sequence."""
    later, earlier = data.neighbours
    design = _design(TRANSITION, data, plan, later, data.posterior.means[earlier])
    targets = design.subtract_known(data.posterior.means[later])
    weighted = None
    if data.varies("transition_covariance"):
        weighted = _weigh_states(data, design, targets)
    return Equations(design, _state_regression(data, design, targets), weighted)


def _state_regression(data: Expected, design: Design, targets: Floats) -> Regression:
    """Return the regression with covariances of x_t and x_{t−1}, or of x_t − A x_{t−1}."""
    posterior, total = data.posterior, data.sum_covs.sum(axis=0)
    n, q = data.parameters.n_states, design.z.shape[1]
    V_later = total - posterior.covs[data.firsts].sum(axis=0)
    V_earlier = total - posterior.covs[data.lasts].sum(axis=0)
    if design.has_states:
        assert posterior.sum_lags is not None
        cross, z_cov = _padded(posterior.sum_lags, n, q), _padded(V_earlier, q, q)
        return Regression(targets, design.z, V_later, cross, z_cov)
    later, earlier = data.neighbours
    A = data.at("transition", later)
    cross = A @ data.lags[earlier].swapaxes(1, 2)
    cov = V_later - (cross + cross.swapaxes(1, 2)).sum(axis=0)
    cov += (A @ posterior.covs[earlier] @ A.swapaxes(1, 2)).sum(axis=0)
    return Regression(targets, design.z, cov, np.zeros((n, q)), np.zeros((q, q)))


def _weigh_states(data: Expected, design: Design, targets: Floats) -> Weighted:
    """Return the normal equations where Q varies."""
    later, earlier = data.neighbours
    (N, n), q = targets.shape, design.z.shape[1]
    cross_covs, z_covs = np.zeros((N, n, q)), np.zeros((N, q, q))
    if design.has_states:
        cross_covs = _padded(data.lags[earlier], n, q)
        z_covs = _padded(data.posterior.covs[earlier], q, q)
    weights = _inverses(data.at("transition_covariance", later))
    return weigh(weights, targets, design.z, cross_covs, z_covs)


# ---- observations --------------------------------------------------------------------------------


def regress_observations(data: Expected, plan: Plan) -> Equations:
    """Regress y_t on (x_t, u_t, 1), for all steps at which something is observed."""
    is_used = data.which != _NOTHING
    steps: Any = slice(None) if is_used.all() else np.flatnonzero(is_used)
    design = _design(OBSERVATION, data, plan, steps, data.posterior.means[steps])
    if data.varies("observation_covariance"):
        return _weigh_observations(data, design, steps)
    m, q = data.parameters.n_observed, design.z.shape[1]
    y, cov, cross = _complete(data, steps)
    cross_cov, z_cov = np.zeros((m, q)), np.zeros((q, q))
    if design.has_states:
        cross_cov = _padded(cross, m, q)
        z_cov = _padded(data.sum_covs.sum(axis=0) - data.sum_covs[_NOTHING], q, q)
    return Equations(
        design, Regression(design.subtract_known(y), design.z, cov, cross_cov, z_cov), None
    )


def _complete(data: Expected, steps: Any) -> tuple[Floats, Floats, Floats]:
    """Return y with means for its missing components, Σ Cov[target] and Σ Cov[target, x].

    Components that are missing beside others are random, too: given x_t and the observed ones they
    are ``y_u = G x_t + g + e`` with G = C_u − K C_o, K = R_uo R_oo⁻¹, Cov[e] = R_uu − K R_ou. The
    target is y, or y − C x where C varies.
    """
    m, n = data.parameters.n_observed, data.parameters.n_states
    y, which = data.series.y[steps], data.which[steps]
    cov, cross = np.zeros((m, m)), np.zeros((m, n))
    is_even = not data.varies("observation")
    if (which > _NOTHING).any():
        y = y.copy()
    for pattern, here in _by_pattern(which, len(data.observed)):
        at = here if isinstance(steps, slice) else steps[here]
        C = data.at("observation", at)
        G = np.zeros((len(C), m, n))
        if pattern != _ALL:
            y[here], G = _fill_missing(data, pattern, at, y[here], cov)
        V = data.sum_covs[pattern][None] if is_even else data.posterior.covs[at]
        if is_even:
            cross += (G @ V).sum(axis=0)
        else:
            G = G - C
        cov += (G @ V @ G.swapaxes(1, 2)).sum(axis=0)
    return y, cov, cross


def _by_pattern(which: Any, n_patterns: int) -> Iterator[tuple[int, Any]]:
    """Go through the patterns with observations, each with the indices of its steps."""
    if n_patterns == 2:  # all of them, or nothing
        yield _ALL, slice(None)
        return
    for pattern in range(n_patterns):
        here = np.flatnonzero(which == pattern)
        if pattern != _NOTHING and len(here):
            yield pattern, here


def _fill_missing(
    data: Expected, pattern: int, steps: Any, y: Floats, cov: Floats
) -> tuple[Floats, Floats]:
    """Return y with the means of its missing components, and G; add the noise of these to cov."""
    C, R = data.at("observation", steps), data.part("observation_covariance")[0]
    o, u = np.flatnonzero(data.observed[pattern]), np.flatnonzero(~data.observed[pattern])
    K = R[np.ix_(u, o)] @ np.linalg.pinv(R[np.ix_(o, o)], hermitian=True)
    G = np.zeros(C.shape)  # [steps or 1, m, n], 0 for observed components
    G[:, u] = C[:, u] - K @ C[:, o]
    predicted = _predict(data, steps)
    y = y.copy()
    y[:, u] = predicted[:, u] + (y[:, o] - predicted[:, o]) @ K.T
    cov[np.ix_(u, u)] += len(y) * (R[np.ix_(u, u)] - K @ R[np.ix_(o, u)])
    return y, G


def _predict(data: Expected, steps: Any) -> Floats:
    """Return C x + D u + d at some steps, with the present parameters."""
    out = data.times("observation", steps, data.posterior.means[steps])
    out += data.at("observation_offset", steps)
    if data.inputs is not None:
        out += data.times("observation_input", steps, data.inputs[steps])
    return out


def _weigh_observations(data: Expected, design: Design, steps: Any) -> Equations:
    """Return the normal equations where R varies: missing components have no weight."""
    q = design.z.shape[1]
    y, R = data.series.y[steps], data.at("observation_covariance", steps)
    N, m = y.shape
    is_observed = np.isfinite(y)
    both = is_observed[:, :, None] & is_observed[:, None, :]
    targets = np.where(is_observed, design.subtract_known(y), 0.0)
    z_covs = np.zeros((N, q, q))
    if design.has_states:
        z_covs = _padded(data.posterior.covs[steps], q, q)
    weights = _inverses(np.where(both, R, 0.0))
    weighted = weigh(weights, targets, design.z, np.zeros((N, m, q)), z_covs)
    nothing = Regression(targets, design.z, np.zeros((m, m)), np.zeros((m, q)), np.zeros((q, q)))
    return Equations(design, nothing, weighted)
