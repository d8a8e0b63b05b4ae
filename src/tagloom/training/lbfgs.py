"""L-BFGS and OWL-QN: minimise the loss of a corpus, or any function of an array.

The arithmetic is native. This file checks arguments, decides when a run has converged, and accepts
the loss in three forms: a native `LinearObjective`, a Python function, or ask and tell, where the
caller evaluates the points, for instance on a cluster. All three take the same steps, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import ParameterError, ShapeError, TrainingError
from tagloom.training.fitting import Outcome, fit_iteratively
from tagloom.training.learners import State, Step
from tagloom.training.objectives import RemoteObjective
from tagloom.training.records import Listener

Float64 = npt.NDArray[np.float64]
#: An objective of the user: from θ to the loss and its gradient.
Objective: TypeAlias = Callable[[Float64], tuple[float, npt.ArrayLike]]


class LBFGS:
    r"""L-BFGS, or OWL-QN where ``l1`` > 0.

    Minimises loss(θ) + l1·‖θ‖₁ + l2·‖θ‖². The loss of a `LinearObjective` is Σ_i weight_i·nll_i;
    its masked weights stay 0.

    Parameters
    ----------
    objective : LinearObjective, RemoteObjective, callable or None
        The loss: that of a corpus, or a function from θ to the loss and its gradient, an array
        like θ. A loss of infinity or NaN makes the line search take a shorter step. None: the
        caller evaluates the loss, see `ask` and `tell`.
    l1, l2 : float
        Penalties.
    memory : int
        Number of vector pairs that approximate the curvature.
    n_threads : int, optional
        All cores by default; the numbers do not depend on it.
    epsilon : float
        Converged when ‖gradient‖ ≤ epsilon · max(1, ‖θ‖).
    period, delta : int, float
        Converged when the loss fell by less than the fraction ``delta`` over ``period`` steps.
        ``period=0`` switches this test off.
    theta : ndarray, shape (n,), optional
        Weights to start from; for a `LinearObjective` 0 by default.

    Examples
    --------
    Two tokens with one attribute each, and two labels:

    >>> import numpy as np
    >>> from tagloom.training import Attributes, Labels, LBFGS, LinearObjective
    >>> numbers = np.array([0, 1], np.int32)
    >>> nodes, labels = Attributes(np.array([0, 1, 2]), numbers, 2), Labels(numbers, 2)
    >>> objective = LinearObjective(np.array([0, 2]), nodes, labels,
    ...     all_combinations=True, boundaries=False, float32=False)
    >>> optimiser = LBFGS(objective, l2=0.1)
    >>> while not optimiser.step().converged:
    ...     pass
    >>> optimiser.theta().round(2)
    array([ 0.54, -0.54, -0.54,  0.54, -0.38,  0.92, -0.16, -0.38])

    The same minimum with the loss evaluated by the caller:

    >>> optimiser = LBFGS(None, l2=0.1, theta=np.zeros(objective.n_weights))
    >>> grad, step = np.empty(objective.n_weights), None
    >>> while step is None or not step.converged:
    ...     loss = objective.evaluate(optimiser.ask(), grad, 1)
    ...     step = optimiser.tell(loss, grad)
    >>> optimiser.theta().round(2)
    array([ 0.54, -0.54, -0.54,  0.54, -0.38,  0.92, -0.16, -0.38])
    """

    def __init__(
        self,
        objective: _native.Objective | RemoteObjective | Objective | None,
        *,
        l1: float = 0.0,
        l2: float = 1.0,
        memory: int = 6,
        n_threads: int | None = None,
        epsilon: float = 1e-5,
        period: int = 10,
        delta: float = 1e-5,
        theta: npt.ArrayLike | None = None,
    ) -> None:
        self.epsilon = checks.number(epsilon, "epsilon", least=0)
        self.period = checks.count(period, "period")
        self.delta = checks.number(delta, "delta", least=0)
        self.n_threads = checks.threads(n_threads)
        self.objective = objective
        size, free, rounding = None, None, 1e-14
        if isinstance(objective, _native.Objective | RemoteObjective):
            size, free, rounding = objective.n_weights, objective.mask(), objective.rounding
        elif theta is None:
            raise ParameterError(
                parameter="theta",
                expected="an array to start from, unless the objective is a LinearObjective",
                found="None",
            )
        start = None if theta is None else as_weights(theta, size)
        self._native = _native.Lbfgs(
            len(start) if size is None and start is not None else size or 0,
            checks.number(l1, "l1", least=0),
            checks.number(l2, "l2", least=0),
            checks.count(memory, "memory"),
            free,
            rounding,
        )
        self._losses: list[float] = []  # of the last `period` steps
        if start is not None:
            self._native.start_from(start)

    def step(self) -> Step:
        """Do one iteration: a direction, and a line search along it."""
        if isinstance(self.objective, _native.Objective):
            self._native.step(self.objective, self.n_threads)
            return self._finish()
        if self.objective is None:
            raise TrainingError(
                "This LBFGS has no objective.",
                expected="an objective",
                found="None",
                hint="Call ask() and tell() instead of step().",
            )
        function = self.objective
        if isinstance(function, RemoteObjective):
            function = function.evaluate
        while (point := self.ask()) is not None:
            step = self.tell(*self._evaluate(function, point))
            if step is not None:
                return step
        return self._finish()

    def ask(self) -> Float64 | None:
        """Return the next point at which the loss and its gradient are needed.

        Repeated calls return the same point until `tell`. None means that no step along the
        gradient lowers the loss: the run has converged.
        """
        return self._native.ask(self.n_threads)

    def tell(self, loss: float, grad: npt.ArrayLike) -> Step | None:
        """Supply the loss and its gradient, without penalties, at the point of the last `ask`.

        Parameters
        ----------
        loss : float
        grad : ndarray, shape (n,)

        Returns
        -------
        Step or None
            A step when the iteration is complete; None while its line search continues.

        Raises
        ------
        TrainingError
            If it is called without a preceding `ask`.
        ShapeError
            If the gradient has the wrong shape.
        """
        n = self._native.size
        gradient = np.asarray(grad, dtype=np.float64)
        if gradient.shape != (n,):
            raise ShapeError(
                parameter="grad", expected=f"of shape ({n},) like theta", found=f"{gradient.shape}"
            )
        if not self._native.is_asked:
            raise TrainingError(
                where="tell", expected="ask() before it", found="no point", hint="Call ask() first."
            )
        gradient = np.ascontiguousarray(gradient)
        return self._finish() if self._native.tell(float(loss), gradient, self.n_threads) else None

    def _evaluate(self, objective: Objective, point: Float64) -> tuple[float, npt.ArrayLike]:
        value = objective(point)
        try:
            loss, grad = value
            return float(loss), grad
        except (TypeError, ValueError):
            raise ParameterError(
                parameter="objective",
                expected="a function that returns the loss and its gradient",
                found=f"one that returns {checks.show(value)}",
            ) from None

    def _finish(self) -> Step:
        """Return the completed iteration as a step, and decide whether it was the last."""
        loss, grad_norm, norm, n_evaluations, has_moved = self._native.iteration
        converged = not has_moved or grad_norm <= self.epsilon * max(1.0, norm)
        if self.period:
            if len(self._losses) == self.period:
                converged |= self._losses.pop(0) - loss < self.delta * abs(loss)
            self._losses.append(loss)
        return Step(loss, grad_norm, n_evaluations, converged)

    def theta(self) -> Float64:
        """Return the current point, in the coordinates of the objective."""
        return self._native.theta()

    def weights(self) -> Float64:
        """Return the current weights."""
        bundled = self.objective
        theta = self.theta()
        return bundled.expand(theta) if isinstance(bundled, _native.BundledObjective) else theta

    def state(self) -> State:
        """Return weights, gradient, history of pairs and of losses.

        Between `ask` and `tell` this is the state at the start of the iteration. A restored
        learner repeats the line search, with the same points.
        """
        return {**self._native.state(), "losses": np.array(self._losses)}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state` of a learner with the same objective and parameters."""
        restore_native(self._native, state)
        self._losses = [float(loss) for loss in state["losses"]]


def minimise(
    objective: Objective,
    theta: npt.ArrayLike,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    max_iterations: int = 1000,
    memory: int = 6,
    epsilon: float = 1e-6,
    period: int = 0,
    delta: float = 1e-5,
    callback: Listener | None = None,
    n_threads: int | None = None,
) -> Outcome[Float64]:
    r"""Minimise a differentiable function of an array by L-BFGS, or OWL-QN where ``l1`` > 0.

    Finds a local minimum of objective(θ) + l1·‖θ‖₁ + l2·‖θ‖². With ``l1`` most entries of the
    minimum are exactly 0.

    Parameters
    ----------
    objective : callable
        From θ, an array of float64, to its loss and gradient (loss, grad). Where the loss is
        infinite or NaN the line search takes a shorter step.
    theta : ndarray, shape (n,)
        The point to start from.
    l1, l2 : float
        Penalties.
    max_iterations : int
    memory, epsilon, period, delta, n_threads
        As for `LBFGS`.
    callback : callable, optional
        Called with a `Record` after each iteration.

    Returns
    -------
    Outcome
        ``weights`` is the minimum; ``stopped`` is ``"converged"`` if the test of ``epsilon`` was
        passed, or no step lowers the loss any more.

    Raises
    ------
    TrainingError
        If the loss is NaN or infinite at the start.
    ParameterError, ShapeError
        If the objective does not return a loss and a gradient of the shape of θ.

    Examples
    --------
    The logistic regression of three points, with l2 penalty:

    >>> import numpy as np
    >>> from tagloom.training import minimise
    >>> X, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 3.0]]), np.array([-1, -1, 1])
    >>> def loss(theta):
    ...     margin = y * (X @ theta)
    ...     return np.log1p(np.exp(-margin)).sum(), -(y / (1 + np.exp(margin))) @ X
    >>> outcome = minimise(loss, np.zeros(2), l2=0.1)
    >>> outcome.weights.round(3), outcome.stopped
    (array([-1.642,  1.038]), 'converged')

    A penalty on absolute values sets entries to 0: here θ = sign(c)·max(\|c\| − l1, 0).

    >>> c = np.array([3.0, -0.5, 1.0])
    >>> def distance(theta):
    ...     return ((theta - c) ** 2).sum() / 2, theta - c
    >>> minimise(distance, np.zeros(3), l1=0.75).weights
    array([2.25, 0.  , 0.25])
    """
    learner = LBFGS(
        objective,
        l1=l1,
        l2=l2,
        memory=memory,
        n_threads=n_threads,
        epsilon=epsilon,
        period=period,
        delta=delta,
        theta=theta,
    )
    listeners = () if callback is None else (callback,)
    return fit_iteratively(learner, max_iterations=max_iterations, listeners=listeners)


def restore_native(
    learner: _native.Lbfgs | _native.Online, state: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Restore the state of a native learner.

    Raises
    ------
    ParameterError
        If it is the state of a learner with another objective or other parameters.
    """
    try:
        learner.restore(dict(state))
    except ValueError as error:
        raise ParameterError(
            f"{error}.",
            parameter="state",
            expected="the state of a learner with the same objective and parameters",
            found="the state of another learner",
        ) from None


def as_weights(theta: npt.ArrayLike, size: int | None = None) -> Float64:
    """Return weights to start from as a float64 array.

    Raises
    ------
    ShapeError
        If the array does not have one dimension, or ``size`` entries.
    ParameterError
        If an entry is not finite.
    """
    weights = np.asarray(theta, dtype=np.float64)
    if weights.ndim != 1 or (size is not None and len(weights) != size):
        expected = "of one dimension" if size is None else f"of shape ({size},)"
        raise ShapeError(parameter="theta", expected=expected, found=f"shape {weights.shape}")
    if not np.isfinite(weights).all():
        at = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise ParameterError(
            parameter="theta", expected="finite", found=f"{weights[at]} at index {at}"
        )
    return np.ascontiguousarray(weights)
