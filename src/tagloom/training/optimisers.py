"""Optimisers: each turns a `Problem` into weights, one iteration or epoch at a time.

They share one protocol, `Optimiser`, so that the loop around them (progress, early stopping,
checkpoints) need not know which one runs. All arithmetic is native; what is here checks arguments,
decides when to stop, and keeps what a resumed run needs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import ParameterError, ScoreError, ShapeError
from tagloom.trellis.inputs import check_count

Problem = _native.Problem
State = dict[str, npt.NDArray[Any]]

# AdaGrad's sums of squared gradients begin here: the first steps of a rare weight are then in
# proportion to its gradients, not of length eta whatever they are. On EWT's dev set 1 was better
# than 0.1 and 0.01 by 0.05 points, than nothing by 0.1.
_FIRST_SQUARE = 1.0


class Step(NamedTuple):
    """What one `Optimiser.step` did.

    Attributes
    ----------
    loss : float
        Batch optimisers: the objective with penalties at the new weights. Online ones: the mean
        loss per sentence met during the epoch, without penalties.
    grad_norm : float
        Length of the gradient (with L1 of the pseudo-gradient); NaN for online optimisers.
    n_evaluations : int
        How often the loss of the whole corpus was worked out.
    converged : bool
        Further steps are not worth it.
    gap : float or None
        How far at most the loss is above the optimum, where the optimiser knows.
    """

    loss: float
    grad_norm: float
    n_evaluations: int
    converged: bool
    gap: float | None = None


class Optimiser(Protocol):
    """What the training loop asks of an optimiser."""

    def step(self) -> Step:
        """Do one iteration (batch) or epoch (online)."""
        ...

    def theta(self) -> npt.NDArray[np.float64]:
        """Return the weights to predict with, averaged where that applies."""
        ...

    def state(self) -> State:
        """Return all that is needed to continue, as arrays by name."""
        ...

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state`: the numbers that follow are the same to the last bit."""
        ...


class LBFGS:
    r"""L-BFGS, or OWL-QN where ``l1`` > 0, over the whole corpus.

    Minimises Σ_i weight_i·nll_i + l1·‖θ‖₁ + l2·‖θ‖², from θ = 0. Masked weights stay 0.

    Parameters
    ----------
    problem : Problem
    l1, l2 : float
        Penalties, from 0.
    memory : int
        Pairs of vectors that approximate the curvature.
    n_threads : int, optional
        All cores by default; the numbers do not depend on it.
    epsilon : float
        Converged when ‖gradient‖ ≤ epsilon · max(1, ‖θ‖).
    period, delta : int, float
        Converged when the loss fell by less than the part ``delta`` over ``period`` steps.
        ``period=0`` switches this test off.
    theta : ndarray, shape (n_weights,), optional
        Weights to start from.

    Examples
    --------
    Two tokens with one attribute each, and two labels:

    >>> import numpy as np
    >>> ids, gold = np.array([0, 1], np.int32), np.array([0, 1], np.int32)
    >>> problem = Problem(np.array([0, 2]), np.array([0, 1, 2]), ids, None, 2,
    ...     None, None, None, 0, gold, 2, all_combinations=True, boundaries=False,
    ...     weight=None, float32=False)
    >>> optimiser = LBFGS(problem, l2=0.1)
    >>> while not optimiser.step().converged:
    ...     pass
    >>> optimiser.theta().round(2)
    array([ 0.54, -0.54, -0.54,  0.54, -0.38,  0.92, -0.16, -0.38])
    """

    def __init__(
        self,
        problem: Problem,
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
        self.epsilon = _not_negative(epsilon, "epsilon")
        self.period = _count(period, "period", 0)
        self.delta = _not_negative(delta, "delta")
        self.n_threads = _threads(n_threads)
        self._native = _native.Lbfgs(
            problem,
            _not_negative(l1, "l1"),
            _not_negative(l2, "l2"),
            _count(memory, "memory", 0),
        )
        self._losses: list[float] = []  # of the last `period` steps
        if theta is not None:
            self._native.start_from(_weights(theta, problem))

    def step(self) -> Step:
        """Do one iteration: a direction, and a line search along it."""
        loss, grad_norm, norm, n_evaluations, moved = self._native.step(self.n_threads)
        converged = not moved or grad_norm <= self.epsilon * max(1.0, norm)
        if self.period:
            if len(self._losses) == self.period:
                converged |= self._losses.pop(0) - loss < self.delta * abs(loss)
            self._losses.append(loss)
        return Step(loss, grad_norm, n_evaluations, converged)

    def theta(self) -> npt.NDArray[np.float64]:
        """Return the current weights."""
        return self._native.theta()

    def state(self) -> State:
        """Return weights, gradient, history of pairs and of losses."""
        return {**self._native.state(), "losses": np.array(self._losses)}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state` of an optimiser with the same problem and parameters."""
        self._native.restore(dict(state))
        self._losses = [float(loss) for loss in state["losses"]]


class _Online:
    """What the optimisers have in common that learn from one sentence at a time.

    Each epoch goes through the sentences in an order drawn from (random_state, epoch), in one
    native call; Python runs, and Ctrl-C acts, between epochs.
    """

    def __init__(
        self,
        problem: Problem,
        rule: str,
        *,
        l2: float,
        eta: float,
        decay: float,
        average: bool,
        average_from: int,
        random_state: int,
        shuffle: bool,
        theta: npt.ArrayLike | None,
        C: float = 1.0,
        cost: npt.NDArray[np.float64] | None = None,
        margin: float = 0.0,
    ) -> None:
        self.random_state = _count(random_state, "random_state", 0)
        self.shuffle = bool(shuffle)
        self._n_sentences = problem.n_sentences
        self._native = _native.Online(
            problem,
            rule,
            l2,
            eta,
            decay,
            bool(average),
            average_from,
            _FIRST_SQUARE,
            C,
            cost,
            margin,
        )
        self._epochs = 0
        if theta is not None:
            self._native.restore({**self._native.state(), "theta": _weights(theta, problem)})

    def step(self) -> Step:
        """Do one epoch."""
        loss, n_mistakes = self._epoch()
        mean = loss / max(self._n_sentences, 1)
        return Step(mean, math.nan, 1, self._is_converged(n_mistakes))

    def _epoch(self) -> tuple[float, int]:
        """Go once through the sentences: sum of losses, number of mistakes."""
        n = self._n_sentences
        order = np.arange(n, dtype=np.int64)
        if self.shuffle:
            order = np.random.default_rng([self.random_state, self._epochs]).permutation(order)
        try:
            loss, n_mistakes = self._native.epoch(order)
        except OverflowError as error:
            raise ScoreError(
                f"epoch {self._epochs + 1}: {error}. Values of attributes that are far from 1, or"
                " a learning rate that is too high, do this; scale the values or lower the rate."
            ) from None
        self._epochs += 1
        return loss, n_mistakes

    def _is_converged(self, n_mistakes: int) -> bool:
        return False  # of a loss that is met while it moves nobody knows; the loop decides

    def theta(self) -> npt.NDArray[np.float64]:
        """Return the weights, averaged if ``average``."""
        return self._native.theta()

    def state(self) -> State:
        """Return weights, what comes with each of them, and counters."""
        return dict(self._native.state())

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state` of an optimiser with the same problem and parameters."""
        self._native.restore(dict(state))
        self._epochs = int(state["counters"][0])


class AdaGrad(_Online):
    r"""AdaGrad on the loss of a CRF: every weight has a rate of its own, which falls as it learns.

    For the gradient g of each token of a sentence, G ← G + g² and θ ← θ − eta·g/√G, with G = 1 at
    the start. The penalty l2·‖θ‖² is spread over the sentences and taken implicitly, so that it
    never overshoots.

    Parameters
    ----------
    problem : Problem
    l2 : float
        Penalty, from 0; the objective is that of `LBFGS`.
    eta : float
        Rate.
    average : bool
        Predict with the mean of the weights over all sentences after the first epoch.
    random_state : int
        Seed of the order of sentences.
    shuffle : bool
        False: in the order given.
    theta : ndarray, shape (n_weights,), optional
        Weights to start from.

    Examples
    --------
    >>> import numpy as np
    >>> ids, gold = np.array([0, 1], np.int32), np.array([0, 1], np.int32)
    >>> problem = Problem(np.array([0, 2]), np.array([0, 1, 2]), ids, None, 2,
    ...     None, None, None, 0, gold, 2, all_combinations=True, boundaries=False,
    ...     weight=None, float32=False)
    >>> optimiser = AdaGrad(problem, l2=0.1)
    >>> losses = [optimiser.step().loss for _ in range(20)]
    >>> losses[-1] < 0.5 * losses[0]
    True
    """

    def __init__(
        self,
        problem: Problem,
        *,
        l2: float = 0.0,
        eta: float = 0.4,
        average: bool = False,
        random_state: int = 0,
        shuffle: bool = True,
        theta: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__(
            problem,
            "adagrad",
            l2=_not_negative(l2, "l2"),
            eta=_not_negative(eta, "eta"),
            decay=0.0,
            average=average,
            average_from=1,
            random_state=random_state,
            shuffle=shuffle,
            theta=theta,
        )


class SGD(_Online):
    r"""Stochastic gradient descent on the loss of a CRF, one sentence at a time.

    θ ← θ − eta·g with eta = eta0 / (1 + decay·e), where e counts epochs, with their fractions. The
    penalty l2·‖θ‖² is spread over the sentences and taken implicitly.

    Parameters
    ----------
    problem : Problem
    l2 : float
        Penalty, from 0; the objective is that of `LBFGS`.
    eta0 : float
        Rate at the start.
    decay : float
        How fast the rate falls.
    average : bool
        Predict with the mean of the weights over all sentences after the first epoch.
    random_state : int
        Seed of the order of sentences.
    shuffle : bool
        False: in the order given.
    theta : ndarray, shape (n_weights,), optional
        Weights to start from.

    Examples
    --------
    >>> import numpy as np
    >>> ids, gold = np.array([0, 1], np.int32), np.array([0, 1], np.int32)
    >>> problem = Problem(np.array([0, 2]), np.array([0, 1, 2]), ids, None, 2,
    ...     None, None, None, 0, gold, 2, all_combinations=True, boundaries=False,
    ...     weight=None, float32=False)
    >>> optimiser = SGD(problem, l2=0.1)
    >>> losses = [optimiser.step().loss for _ in range(20)]
    >>> losses[-1] < 0.7 * losses[0]
    True
    """

    def __init__(
        self,
        problem: Problem,
        *,
        l2: float = 0.0,
        eta0: float = 0.1,
        decay: float = 0.1,
        average: bool = False,
        random_state: int = 0,
        shuffle: bool = True,
        theta: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__(
            problem,
            "sgd",
            l2=_not_negative(l2, "l2"),
            eta=_not_negative(eta0, "eta0"),
            decay=_not_negative(decay, "decay"),
            average=average,
            average_from=1,
            random_state=random_state,
            shuffle=shuffle,
            theta=theta,
        )


class AveragedPerceptron(_Online):
    r"""The structured perceptron: where the best path is wrong, learn the difference.

    θ ← θ + weight_i·(Φ(x, y) − Φ(x, ŷ)) with ŷ the best path, and nothing where ŷ = y. Among equal
    paths ŷ has the lowest label last, then before it, and so on. `Step.loss` is the mean of
    weight_i·(score(ŷ) − score(y)); converged is an epoch without a mistake.

    With a margin, ŷ is the best path when every wrong label is given margin·u_t more, so that
    learning goes on until the right labels win by it. It is measured in updates: in first order,
    one in which token t alone is wrong puts its right label ahead by ::

        u_t = 2·(‖φ_t‖² + ‖ψ_t‖² + ‖ψ_{t+1}‖² + 2)

    with the values φ_t of its attributes, ψ_t of its edge attributes, and 1 for either move, to the
    token and from it; by less if some of their weights are masked.

    Parameters
    ----------
    problem : Problem
    margin : float
        From 0, which is the perceptron of the textbooks.
    average : bool
        Predict with the mean of the weights after each sentence met so far, which generalises
        better than the last weights.
    random_state : int
        Seed of the order of sentences.
    shuffle : bool
        False: in the order given, as in textbooks.
    theta : ndarray, shape (n_weights,), optional
        Weights to start from.

    Examples
    --------
    >>> import numpy as np
    >>> ids, gold = np.array([0, 1], np.int32), np.array([0, 1], np.int32)
    >>> problem = Problem(np.array([0, 2]), np.array([0, 1, 2]), ids, None, 2,
    ...     None, None, None, 0, gold, 2, all_combinations=True, boundaries=False,
    ...     weight=None, float32=False)
    >>> optimiser = AveragedPerceptron(problem, average=False)
    >>> while not optimiser.step().converged:
    ...     pass
    >>> optimiser.theta()  # of 0 and 1 with each attribute, then of 00, 01, 10, 11
    array([ 0.,  0., -1.,  1., -1.,  1.,  0.,  0.])
    """

    def __init__(
        self,
        problem: Problem,
        *,
        margin: float = 0.0,
        average: bool = True,
        random_state: int = 0,
        shuffle: bool = True,
        theta: npt.ArrayLike | None = None,
    ) -> None:
        self.margin = _not_negative(margin, "margin")
        super().__init__(
            problem,
            "perceptron",
            l2=0.0,
            eta=0.0,
            decay=0.0,
            average=average,
            average_from=0,
            random_state=random_state,
            shuffle=shuffle,
            theta=theta,
            margin=self.margin,
        )

    def _is_converged(self, n_mistakes: int) -> bool:
        return n_mistakes == 0


class Subgradient(_Online):
    r"""Stochastic subgradient steps on the structured hinge loss, as Pegasos takes them.

    Minimises ½‖θ‖² + C·Σ_i weight_i·loss_i, where ::

        loss_i = max_y cost(y_i, y) + score(x_i, y) − score(x_i, y_i)

    and ŷ is where the maximum is. The k-th step has the rate C·N/k, so that ::

        θ_k = (1 − 1/k)·θ_{k−1} + C·N/k·weight_i·(Φ(x_i, y_i) − Φ(x_i, ŷ))

    `Step.loss` is the mean of weight_i·loss_i met during the epoch.

    Parameters
    ----------
    problem : Problem
    C : float
        How much the losses count beside ½‖θ‖²; above 0.
    cost : ndarray, shape (Y, Y), optional
        What it costs to take the label of the column for that of the row; 1 for every wrong label
        by default (the Hamming cost).
    average : bool
        Predict with Σ_k k·θ_k / Σ_k k, which comes near the optimum much sooner.
    random_state : int
        Seed of the order of sentences.
    shuffle : bool
        False: in the order given.
    theta : ndarray, shape (n_weights,), optional
        Weights to start from; they count as those of one epoch.

    Examples
    --------
    >>> import numpy as np
    >>> ids, gold = np.array([0, 1], np.int32), np.array([0, 1], np.int32)
    >>> problem = Problem(np.array([0, 2]), np.array([0, 1, 2]), ids, None, 2,
    ...     None, None, None, 0, gold, 2, all_combinations=True, boundaries=False,
    ...     weight=None, float32=False)
    >>> optimiser = Subgradient(problem, C=10.0)
    >>> losses = [optimiser.step().loss for _ in range(500)]
    >>> max(losses[-100:]) < 0.1 * losses[0]
    True
    """

    def __init__(
        self,
        problem: Problem,
        *,
        C: float = 1.0,
        cost: npt.ArrayLike | None = None,
        average: bool = True,
        random_state: int = 0,
        shuffle: bool = True,
        theta: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__(
            problem,
            "subgradient",
            l2=0.0,
            eta=0.0,
            decay=0.0,
            average=average,
            average_from=0,
            random_state=random_state,
            shuffle=shuffle,
            theta=None,
            C=_above_zero(C, "C"),
            cost=_costs(cost, problem),
        )
        if theta is not None:  # θ_k = C·N/k·(sum of the steps), and the sum is what is kept
            steps = max(problem.n_sentences, 1)
            start = {"theta": _weights(theta, problem) / C, "counters": np.array([0, 0, steps])}
            self._native.restore({**self._native.state(), **start})


class FrankWolfe(_Online):
    r"""Block-coordinate Frank-Wolfe on the dual of the structured SVM, which knows how far it is.

    Minimises what `Subgradient` does. Each sentence is a block of the dual, whose θ_i is C·weight_i
    times the difference between Φ(x_i, y_i) and the mean of Φ(x_i, y) over a mixture of paths; a
    step mixes in the path that has the loss, by as much as the dual rises most. There is no rate to
    choose. `Step.loss` is the objective after the epoch and `Step.gap` its distance from the dual,
    hence an upper bound on its distance from the optimum (Lacoste-Julien et al. 2013).

    Parameters
    ----------
    problem : Problem
    C : float
        How much the losses count beside ½‖θ‖²; above 0.
    cost : ndarray, shape (Y, Y), optional
        As for `Subgradient`.
    tolerance : float
        Converged when the gap is at most this part of the objective.
    random_state : int
        Seed of the order of sentences.
    shuffle : bool
        False: in the order given.

    Examples
    --------
    >>> import numpy as np
    >>> ids, gold = np.array([0, 1], np.int32), np.array([0, 1], np.int32)
    >>> problem = Problem(np.array([0, 2]), np.array([0, 1, 2]), ids, None, 2,
    ...     None, None, None, 0, gold, 2, all_combinations=True, boundaries=False,
    ...     weight=None, float32=False)
    >>> optimiser = FrankWolfe(problem, C=10.0)
    >>> while not (step := optimiser.step()).converged:
    ...     pass
    >>> optimiser.theta().round(2)
    array([ 0.33, -0.33, -0.33,  0.33,  0.  ,  0.33, -0.33,  0.  ])
    >>> round(step.loss, 2), step.gap <= 0.001 * step.loss
    (0.33, True)
    """

    def __init__(
        self,
        problem: Problem,
        *,
        C: float = 1.0,
        cost: npt.ArrayLike | None = None,
        tolerance: float = 1e-3,
        random_state: int = 0,
        shuffle: bool = True,
    ) -> None:
        self.C = _above_zero(C, "C")
        self.tolerance = _not_negative(tolerance, "tolerance")
        super().__init__(
            problem,
            "frank-wolfe",
            l2=0.0,
            eta=0.0,
            decay=0.0,
            average=False,
            average_from=0,
            random_state=random_state,
            shuffle=shuffle,
            theta=None,
            C=self.C,
            cost=_costs(cost, problem),
        )

    def step(self) -> Step:
        """Do one epoch, then measure objective and gap."""
        self._epoch()
        loss, cost = self._native.certify()
        theta = self._native.theta()
        square = float(theta @ theta)
        objective = square / 2 + self.C * loss
        gap = max(square + self.C * (loss - cost), 0.0)  # below 0 by rounding only
        return Step(objective, math.nan, 2, gap <= self.tolerance * objective, gap)


def _not_negative(value: float, name: str) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise ParameterError(f"{name} is {value!r}; expected a finite number from 0.")
    return float(value)


def _above_zero(value: float, name: str) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ParameterError(f"{name} is {value!r}; expected a finite number above 0.")
    return float(value)


def _costs(cost: npt.ArrayLike | None, problem: Problem) -> npt.NDArray[np.float64]:
    Y = problem.n_labels
    if cost is None:
        return (1.0 - np.eye(Y)).ravel()
    costs = np.ascontiguousarray(cost, dtype=np.float64)
    if costs.shape != (Y, Y):
        raise ShapeError(f"cost must have shape (Y, Y) = ({Y}, {Y}); got {costs.shape}.")
    if not np.isfinite(costs).all() or costs.min(initial=0.0) < 0 or costs.diagonal().any():
        raise ParameterError(
            "cost must be finite and not negative, and 0 where the label is right (the diagonal)."
        )
    return costs.ravel()


def _count(value: int, name: str, least: int) -> int:
    if not isinstance(value, int | np.integer) or value < least:
        raise ParameterError(f"{name} is {value!r}; expected an integer from {least}.")
    return check_count(value, name, least, ParameterError)


def _threads(n_threads: int | None) -> int:
    return os.cpu_count() or 1 if n_threads is None else _count(n_threads, "n_threads", 1)


def _weights(theta: npt.ArrayLike, problem: Problem) -> npt.NDArray[np.float64]:
    weights = np.ascontiguousarray(theta, dtype=np.float64)
    if weights.shape != (problem.n_weights,):
        raise ShapeError(f"theta must have shape ({problem.n_weights},); got {weights.shape}.")
    if not np.isfinite(weights).all():
        raise ParameterError("theta has an entry that is not a finite number.")
    return weights
