"""Expectation maximisation for linear Gaussian models.

E step: the smoother gives the states as Gaussians. M step: each equation of the model is a
regression on them (`tagloom.dynamics.equations`). Coefficients are updated given the covariance
of the noise, then the covariance given the coefficients; each raises the expected log density, so
the objective, log p(y) plus the log priors, never falls.

Shumway and Stoffer (1982), An approach to time series smoothing and forecasting using the EM
algorithm.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.dynamics.equations import (
    OBSERVATION,
    TRANSITION,
    Equation,
    Equations,
    Expected,
    regress_observations,
    regress_states,
)
from tagloom.dynamics.inference import Posterior, Workspace, smooth_all, unresolved_error
from tagloom.dynamics.parameters import Floats, Parameters
from tagloom.dynamics.plans import Plan
from tagloom.dynamics.priors import Normal
from tagloom.dynamics.regressions import Regression, solve_coefficients, solve_covariance
from tagloom.dynamics.series import Series
from tagloom.training import Step


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
    data = Expected(parameters, series, posterior)
    new: dict[str, Any] = {}
    for equation, regress in ((TRANSITION, regress_states), (OBSERVATION, regress_observations)):
        if any(plan.free[name].any() for name in equation):
            new |= _solve(equation, data, plan, regress(data, plan))
    new |= _solve_initial(data, plan)
    return replace(parameters, **new)


def _solve(
    equation: Equation, data: Expected, plan: Plan, equations: Equations
) -> dict[str, Floats]:
    """Update the coefficients given the covariance, then the covariance given them."""
    names, regression = equations.design.names, equations.regression
    if not len(regression.targets):
        return {}
    parts = {name: getattr(data.parameters, name) for name in names}
    p = data.part(equation.covariance).shape[-1]
    W = np.concatenate(
        [*(part.reshape(p, -1) for part in parts.values()), np.zeros((p, 0))], axis=1
    )
    new: dict[str, Floats] = {}
    if names:
        W = _solve_columns(equation, data, plan, equations, W)
        start = 0
        for name, part in parts.items():
            end = start + part.size // p
            new[name] = np.ascontiguousarray(W[:, start:end]).reshape(part.shape)
            start = end
    if not data.varies(equation.covariance):
        new[equation.covariance] = _solve_noise(
            equation.covariance, data, plan, regression, W, len(regression.targets)
        )
    return new


def _solve_columns(
    equation: Equation, data: Expected, plan: Plan, equations: Equations, W: Floats
) -> Floats:
    """Update the coefficients of one equation, with their fixed entries and priors."""
    names, p = equations.design.names, len(W)
    free = [plan.free[name].reshape(p, -1) for name in names]
    means, precisions = [], []
    for name in names:
        mean, precision = _normal_prior(name, data.parameters, plan)
        means.append(mean.reshape(p, -1))
        precisions.append(precision.reshape(p, -1))
    return solve_coefficients(
        equations.regression,
        W,
        data.part(equation.covariance)[0],
        np.concatenate(free, axis=1),
        np.concatenate(means, axis=1),
        np.concatenate(precisions, axis=1),
        equations.weighted,
    )


def _normal_prior(name: str, parameters: Parameters, plan: Plan) -> tuple[Floats, Floats]:
    """Return means and precisions of the prior on a part; precisions of 0 without one."""
    prior, shape = plan.priors.get(name), getattr(parameters, name).shape
    if isinstance(prior, Normal):
        return prior.check(name, shape)
    return np.zeros(shape), np.zeros(shape)


def _solve_noise(
    name: str, data: Expected, plan: Plan, regression: Regression, W: Floats, count: int
) -> Floats:
    """Update a covariance given the coefficients."""
    value = getattr(data.parameters, name)
    return solve_covariance(
        value,
        regression.residual(W),
        count,
        plan.blocks(name, value),
        plan.wishart(name),
        name,
    )


def _solve_initial(data: Expected, plan: Plan) -> dict[str, Floats]:
    """Update the distribution of the first states; diffuse ones have none."""
    parameters, posterior = data.parameters, data.posterior
    count, n = len(data.firsts), parameters.n_states
    if not count:
        return {}
    targets, cov = posterior.means[data.firsts], posterior.covs[data.firsts].sum(axis=0)
    regression = Regression(targets, np.ones((count, 1)), cov, np.zeros((n, 1)), np.zeros((1, 1)))
    mean, precision = _normal_prior("initial_mean", parameters, plan)
    W = solve_coefficients(
        regression,
        parameters.initial_mean[:, None],
        parameters.initial_covariance,
        plan.free["initial_mean"][:, None],
        mean[:, None],
        precision[:, None],
    )
    noise = _solve_noise("initial_covariance", data, plan, regression, W, count)
    return {"initial_mean": W[:, 0].copy(), "initial_covariance": noise}
