"""`LinearGaussian` onwards in time: forecasts, single steps, sequences from the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, overload

import numpy as np

from tagloom import _native, checks
from tagloom.dynamics import inference
from tagloom.dynamics.parameters import (
    SHAPES,
    Floats,
    Parameters,
    as_floats,
    check_part,
    make_system,
)
from tagloom.dynamics.parts import Parts, Sequences, Varying
from tagloom.dynamics.results import Belief, Forecast, Generated
from tagloom.dynamics.series import Series
from tagloom.errors import ParameterError, ShapeError


class Forecasts(Parts):
    """The part of `LinearGaussian` that goes on in time."""

    @overload
    def forecast(
        self,
        Y: Sequences,
        n_steps: int,
        *,
        inputs: Any = None,
        varying: Varying = None,
    ) -> list[Forecast]: ...
    @overload
    def forecast(
        self,
        Y: Any,
        n_steps: int,
        *,
        inputs: Any = None,
        varying: Varying = None,
    ) -> Forecast: ...
    def forecast(
        self,
        Y: Any,
        n_steps: int,
        *,
        inputs: Any = None,
        varying: Varying = None,
    ) -> Forecast | list[Forecast]:
        """Predict the next observations.

        Parameters
        ----------
        Y : array_like, list of those, or Belief
            Past observations, or what `update` has made of them.
        n_steps : int
            Number of steps to predict.
        inputs : array_like, shape (T + n_steps, k), or list of those, optional
            Also for the steps to come; shape (n_steps, k) with a `Belief`.
        varying : mapping, optional
            Parts with an entry for each step, also for the steps to come.

        Returns
        -------
        Forecast
            For a list, a list.

        Examples
        --------
        >>> import tagloom as tl
        >>> walk = tl.LinearGaussian(
        ...     transition=[[1]], transition_covariance=[[1]], observation=[[1]],
        ...     observation_covariance=[[2]], initial_mean=[0], initial_covariance=[[2]],
        ... )
        >>> ahead = walk.forecast([3.0, 3.0], 3)
        >>> ahead.means[:, 0], ahead.covariances[:, 0, 0]
        (array([2.25, 2.25, 2.25]), array([4., 5., 6.]))
        """
        count = checks.count(n_steps, "n_steps", least=1)
        belief = Y if isinstance(Y, Belief) else None
        past = np.zeros((0, self.parameters_.n_observed)) if belief is not None else Y
        first_step = 0 if belief is None else belief.n_steps
        series = self._series(past, inputs, varying, first_step=first_step, extra_steps=count)
        parameters = self.parameters_
        if belief is not None:
            parameters = _after(belief, parameters, series)
        filtered = inference.filter_series(parameters, series, self._steady(), self._threads())

        def make(i: int, span: slice) -> Forecast:
            ahead = slice(span.stop - count, span.stop)
            means, covs = filtered[i].means[-count:], filtered[i].covariances[-count:]
            seen = inference.observed(parameters, means, covs, series, ahead, True)
            return Forecast(seen.means, seen.covariances, means, covs)

        answer: Forecast | list[Forecast] = series.answer(make)
        return answer

    def update(
        self,
        y: Any,
        belief: Belief | None = None,
        *,
        inputs: Any = None,
        varying: Varying = None,
    ) -> Belief:
        """Take in one observation: the filter, one step at a time.

        The model does not change; what is known goes from call to call in a `Belief`.

        Parameters
        ----------
        y : array_like, shape (m,), or float
            The observation, NaN for what is missing.
        belief : Belief, optional
            What the last call returned; None for the first observation.
        inputs : array_like, shape (k,), optional
        varying : mapping of str to array_like, optional
            Parts for this step alone, such as ``transition``, shape (n, n).

        Returns
        -------
        Belief

        Examples
        --------
        >>> import tagloom as tl
        >>> walk = tl.LinearGaussian(
        ...     transition=[[1]], transition_covariance=[[1]], observation=[[1]],
        ...     observation_covariance=[[2]], initial_mean=[0], initial_covariance=[[2]],
        ... )
        >>> belief = None
        >>> for y in [3.0, 3.0]:
        ...     belief = walk.update(y, belief)
        >>> belief.mean, belief.covariance, belief.n_steps
        (array([2.25]), array([[1.]]), 2)
        """
        n = self.parameters_.n_states
        if belief is not None and (not isinstance(belief, Belief) or np.shape(belief.mean) != (n,)):
            raise ParameterError(
                parameter="belief",
                expected=f"a Belief about {checks.plural(n, 'state')}",
                found=checks.show_type(belief),
            )
        observation = self._read_observation(y)
        number = 0 if belief is None else belief.n_steps
        system = self._system_at(number, observation, inputs, varying)
        if belief is None:
            mean, cov, density, start = system.update(observation)
            return Belief(mean, cov, density, 1, start)
        mean, cov, density, start = system.update(
            observation,
            np.ascontiguousarray(belief.mean, dtype=np.float64),
            np.ascontiguousarray(belief.covariance, dtype=np.float64),
            belief.start,
        )
        return Belief(mean, cov, density, belief.n_steps + 1, start)

    def _read_observation(self, y: Any) -> Floats:
        """Return one observation, shape (m,)."""
        m = self.parameters_.n_observed
        observation = as_floats(y, "y").reshape(-1)
        if observation.shape != (m,) or np.isinf(observation).any():
            raise ShapeError(
                parameter="y",
                expected=f"{checks.plural(m, 'number')}, NaN for what is missing",
                found=checks.show(y),
            )
        return observation

    def _system_at(
        self, number: int, observation: Floats, inputs: Any, varying: Varying
    ) -> _native.KalmanSystem:
        """Return the native model of one step."""
        parameters = self.parameters_
        if inputs is None and not varying and not parameters.n_inputs and not self._varies():
            return parameters.system
        series = self._series(
            observation[None],
            None if inputs is None else as_floats(inputs, "inputs").reshape(1, -1),
            {name: as_floats(value, name)[None] for name, value in (varying or {}).items()},
            first_step=number,
        )
        return make_system(parameters, series.varying, series.inputs, 0.0)

    def generate(
        self,
        n_steps: int,
        *,
        inputs: Any = None,
        varying: Varying = None,
        initial_state: Any = None,
        random_state: int | None = None,
    ) -> Generated:
        """Run the model: draw states and observations.

        Parameters
        ----------
        n_steps : int
        inputs : array_like, shape (n_steps, k), optional
        varying : mapping, optional
        initial_state : array_like, shape (n,), optional
            The first state, rather than a random one; needed if it is diffuse.
        random_state : int, optional
            Seed; by default that of the model.

        Returns
        -------
        Generated

        Examples
        --------
        >>> import tagloom as tl
        >>> walk = tl.LinearGaussian(
        ...     transition=[[1]], transition_covariance=[[1]], observation=[[1]],
        ...     observation_covariance=[[2]], diffuse=True,
        ... )
        >>> walk.generate(100, initial_state=[5.0]).observations.shape
        (100, 1)
        """
        parameters = self.parameters_
        count = checks.count(n_steps, "n_steps")
        n, m = parameters.n_states, parameters.n_observed
        state = None
        if initial_state is not None:
            state = check_part("initial_mean", initial_state, {"n": n, "m": m, "k": None})
        elif parameters.diffuse.any():
            raise ParameterError(
                parameter="initial_state",
                expected=f"{checks.plural(n, 'number')}, as the start is diffuse",
                found="None",
            )
        blank = np.full((count, m), np.nan)
        series = self._series(blank, inputs, varying)
        system = make_system(parameters, series.varying, series.inputs, 0.0)
        rng = self._rng(random_state)
        states, observations = np.empty((count, n)), np.empty((count, m))
        noise = rng.standard_normal((count, n)), rng.standard_normal((count, m))
        system.generate(state, *noise, states, observations)
        return Generated(states, observations)


def _after(belief: Belief, parameters: Parameters, series: Series) -> Parameters:
    """The model whose first step is the one after a belief."""
    if belief.start is not None or not np.isfinite(belief.covariance).all():
        raise ParameterError(
            parameter="Y",
            expected="a Belief with finite variances",
            found="one whose diffuse start is not resolved",
        )

    def part(name: str) -> Floats:
        array: Floats = series.varying.get(name, getattr(parameters, name))
        return array[0] if array.ndim > len(SHAPES[name]) else array

    A = part("transition")
    mean = A @ belief.mean + part("transition_offset")
    if series.inputs is not None:
        mean = mean + part("transition_input") @ series.inputs[0]
    cov = A @ belief.covariance @ A.T + part("transition_covariance")
    return replace(
        parameters,
        initial_mean=mean,
        initial_covariance=(cov + cov.T) / 2,
        diffuse=np.zeros(len(mean), dtype=bool),
    )
