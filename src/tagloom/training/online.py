"""Online learners: weights that change after every sentence.

AdaGrad and SGD on the loss of a CRF, the structured perceptron, and the structured SVM by its
subgradient or by Frank-Wolfe. The arithmetic is native, one call per epoch. This file checks
arguments, draws the order of sentences, and saves and restores the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import ParameterError, ScoreError, ShapeError
from tagloom.renames import renamed_parameter
from tagloom.training.lbfgs import as_weights, restore_native
from tagloom.training.learners import State, Step

LinearObjective = _native.LinearObjective
Float64 = npt.NDArray[np.float64]


class OnlineLearner:
    """Base of the online learners.

    Each epoch visits the sentences in an order drawn from (random_state, epoch), in one native
    call. Python code and Ctrl-C run between epochs. ``options`` are those of the native rule.
    """

    def __init__(
        self,
        objective: LinearObjective | None,
        rule: str,
        *,
        random_state: int,
        shuffle: bool,
        theta: npt.ArrayLike | None = None,
        cost: npt.ArrayLike | None = None,
        **options: Any,
    ) -> None:
        self.random_state = checks.count(random_state, "random_state")
        self.shuffle = bool(shuffle)
        self.rule, self.options = rule, dict(options)
        self._epochs = 0
        if objective is None:  # the settings of a learner whose corpus comes in parts
            return
        self._n_sentences = objective.n_sentences
        if rule in ("subgradient", "frank-wolfe"):
            options["cost"] = _costs(cost, objective)
        self._native = _native.Online(objective, rule, **options)
        if theta is not None:
            self._restart(theta=as_weights(theta, objective.n_weights))

    def _restart(self, **arrays: npt.NDArray[Any]) -> None:
        self._native.restore({**self._native.state(), **arrays})

    def step(self) -> Step:
        """Do one epoch."""
        loss, n_mistakes = self._epoch()
        mean = loss / max(self._n_sentences, 1)
        return Step(mean, converged=self._is_converged(n_mistakes))

    def _epoch(self) -> tuple[float, int]:
        """Visit every sentence once; return the sum of losses and the number of mistakes."""
        try:
            loss, n_mistakes = self._native.epoch(self.order(self._n_sentences, self._epochs))
        except OverflowError as error:
            raise overflow(error, self._epochs) from None
        self._epochs += 1
        return loss, n_mistakes

    def order(self, n: int, epoch: int) -> npt.NDArray[np.int64]:
        """Return the order in which an epoch visits n sentences.

        Parameters
        ----------
        n : int
        epoch : int
            The number of epochs before it.
        """
        order = np.arange(n, dtype=np.int64)
        if not self.shuffle:
            return order
        return np.random.default_rng([self.random_state, epoch]).permutation(order)

    def _is_converged(self, n_mistakes: int) -> bool:
        return False  # a running loss cannot signal convergence; the loop decides

    def theta(self) -> Float64:
        """Return the weights, averaged if ``average``."""
        return self._native.theta()

    def weights(self) -> Float64:
        """Return the weights, averaged if ``average``."""
        return self._native.theta()

    def take_weights(self) -> Float64:
        """Return the weights and release the rest; the learner cannot be used any more."""
        return self._native.take_theta()

    def state(self) -> State:
        """Return the weights, the per-weight state of the rule, and counters."""
        return dict(self._native.state())

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state` of a learner with the same objective and parameters."""
        restore_native(self._native, state)
        self._epochs = int(state["counters"][0])


def overflow(error: OverflowError, epoch: int) -> ScoreError:
    """Return the error for scores that overflow in an epoch, counted from 0."""
    return ScoreError(
        f"{error}.",
        where=f"epoch {epoch + 1}",
        expected="finite scores",
        found="NaN or infinite ones",
        hint="Attribute values far from 1 or a high learning rate cause this; scale the "
        "values or lower the rate.",
    )


class AdaGrad(OnlineLearner):
    r"""AdaGrad on the loss of a CRF: each weight has its own rate, which falls as it learns.

    For the gradient g of each token of a sentence, G ← G + g² and θ ← θ − eta·g/√G. At the start, G
    is `first_square`. The penalty l2·‖θ‖² is spread over the sentences and taken implicitly, so
    that it never overshoots.

    With a margin, the loss is the softmax-margin of Gimpel and Smith (2010), in which every wrong
    label scores more: log Σ_y' exp(score(y') + margin·Σ_t [y'_t ≠ y_t]) − score(y). Right labels
    then have to win by the margin, which generalises better from few sentences.

    Parameters
    ----------
    objective : LinearObjective
    l2 : float
        Penalty; the objective is that of `LBFGS`.
    eta : float
        Learning rate.
    average : bool
        Predict with the mean of the weights over all sentences after the first epoch.
    margin : float
        Score that is added to wrong labels.
    first_square : float
        Initial value of the sums of squared gradients. The first steps of a rare weight are
        proportional to its gradients; without it they would all have length eta. On the development
        data of EWT, 1 was better than 0.1 and 0.01 by 0.05 points, and better than 0 by 0.1.
    random_state : int
        Seed of the order of sentences.
    shuffle : bool
        False: visit the sentences in the given order.
    theta : ndarray, shape (n_weights,), optional
        Weights to start from.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom.training import Attributes, Labels
    >>> numbers = np.array([0, 1], np.int32)
    >>> nodes, labels = Attributes(np.array([0, 1, 2]), numbers, 2), Labels(numbers, 2)
    >>> objective = LinearObjective(np.array([0, 2]), nodes, labels,
    ...     all_combinations=True, boundaries=False, float32=False)
    >>> optimiser = AdaGrad(objective, l2=0.1)
    >>> losses = [optimiser.step().loss for _ in range(20)]
    >>> losses[-1] < 0.5 * losses[0]
    True
    """

    @renamed_parameter("AdaGrad", "problem", "objective")
    def __init__(
        self,
        objective: LinearObjective | None,
        *,
        l2: float = 0.0,
        eta: float = 0.4,
        average: bool = False,
        margin: float = 0.0,
        first_square: float = 1.0,
        random_state: int = 0,
        shuffle: bool = True,
        theta: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__(
            objective,
            "adagrad",
            l2=checks.number(l2, "l2", least=0),
            eta=checks.number(eta, "eta", least=0),
            average=bool(average),
            average_from=1,
            margin=checks.number(margin, "margin", least=0),
            first_square=checks.number(first_square, "first_square", above=0),
            random_state=random_state,
            shuffle=shuffle,
            theta=theta,
        )


class SGD(OnlineLearner):
    r"""Stochastic gradient descent on the loss of a CRF, one sentence at a time.

    θ ← θ − eta·g with eta = eta0 / (1 + decay·e), where e counts epochs and their fractions. The
    penalty l2·‖θ‖² is spread over the sentences and taken implicitly.

    Parameters
    ----------
    objective : LinearObjective
    l2 : float
        Penalty; the objective is that of `LBFGS`.
    eta0 : float
        Initial learning rate.
    decay : float
        Decay of the learning rate.
    average : bool
        Predict with the mean of the weights over all sentences after the first epoch.
    random_state : int
        Seed of the order of sentences.
    shuffle : bool
        False: visit the sentences in the given order.
    theta : ndarray, shape (n_weights,), optional
        Weights to start from.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom.training import Attributes, Labels
    >>> numbers = np.array([0, 1], np.int32)
    >>> nodes, labels = Attributes(np.array([0, 1, 2]), numbers, 2), Labels(numbers, 2)
    >>> objective = LinearObjective(np.array([0, 2]), nodes, labels,
    ...     all_combinations=True, boundaries=False, float32=False)
    >>> optimiser = SGD(objective, l2=0.1)
    >>> losses = [optimiser.step().loss for _ in range(20)]
    >>> losses[-1] < 0.7 * losses[0]
    True
    """

    @renamed_parameter("SGD", "problem", "objective")
    def __init__(
        self,
        objective: LinearObjective | None,
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
            objective,
            "sgd",
            l2=checks.number(l2, "l2", least=0),
            eta=checks.number(eta0, "eta0", least=0),
            decay=checks.number(decay, "decay", least=0),
            average=bool(average),
            average_from=1,
            random_state=random_state,
            shuffle=shuffle,
            theta=theta,
        )


class AveragedPerceptron(OnlineLearner):
    r"""The structured perceptron: where the best path is wrong, learn the difference.

    θ ← θ + weight_i·(Φ(x, y) − Φ(x, ŷ)) with ŷ the best path; no update where ŷ = y. Among equal
    paths, ŷ has the lowest label at the last position, then at the one before it, and so on.
    `Step.loss` is the mean of weight_i·(score(ŷ) − score(y)). The learner has converged after an
    epoch without a mistake.

    With a margin, every wrong label scores margin·u_t more while ŷ is decoded, so that learning
    continues until the right labels win by the margin. It is measured in updates: in first order,
    an update in which token t alone is wrong puts its right label ahead by ::

        u_t = 2·(‖φ_t‖² + ‖ψ_t‖² + ‖ψ_{t+1}‖² + 2)

    with the values φ_t of its attributes, ψ_t of its edge attributes, and 1 for each of the two
    transitions, to the token and from it; by less if some of their weights are masked.

    Parameters
    ----------
    objective : LinearObjective
    margin : float
        0 gives the textbook perceptron.
    average : bool
        Predict with the mean of the weights after each sentence so far, which generalises
        better than the last weights.
    random_state : int
        Seed of the order of sentences.
    shuffle : bool
        False: visit the sentences in the given order, as in textbooks.
    theta : ndarray, shape (n_weights,), optional
        Weights to start from.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom.training import Attributes, Labels
    >>> numbers = np.array([0, 1], np.int32)
    >>> nodes, labels = Attributes(np.array([0, 1, 2]), numbers, 2), Labels(numbers, 2)
    >>> objective = LinearObjective(np.array([0, 2]), nodes, labels,
    ...     all_combinations=True, boundaries=False, float32=False)
    >>> optimiser = AveragedPerceptron(objective, average=False)
    >>> while not optimiser.step().converged:
    ...     pass
    >>> optimiser.theta()  # of 0 and 1 with each attribute, then of 00, 01, 10, 11
    array([ 0.,  0., -1.,  1., -1.,  1.,  0.,  0.])
    """

    @renamed_parameter("AveragedPerceptron", "problem", "objective")
    def __init__(
        self,
        objective: LinearObjective | None,
        *,
        margin: float = 0.0,
        average: bool = True,
        random_state: int = 0,
        shuffle: bool = True,
        theta: npt.ArrayLike | None = None,
    ) -> None:
        self.margin = checks.number(margin, "margin", least=0)
        super().__init__(
            objective,
            "perceptron",
            average=bool(average),
            random_state=random_state,
            shuffle=shuffle,
            theta=theta,
            margin=self.margin,
        )

    def _is_converged(self, n_mistakes: int) -> bool:
        return n_mistakes == 0


class Subgradient(OnlineLearner):
    r"""Stochastic subgradient steps on the structured hinge loss, as in Pegasos.

    Minimises ½‖θ‖² + C·Σ_i weight_i·loss_i, where ::

        loss_i = max_y cost(y_i, y) + score(x_i, y) − score(x_i, y_i)

    and ŷ attains the maximum. Step k has the rate C·N/k, so that ::

        θ_k = (1 − 1/k)·θ_{k−1} + C·N/k·weight_i·(Φ(x_i, y_i) − Φ(x_i, ŷ))

    `Step.loss` is the mean of weight_i·loss_i during the epoch.

    Parameters
    ----------
    objective : LinearObjective
    C : float
        Weight of the losses relative to ½‖θ‖²; above 0.
    cost : ndarray, shape (Y, Y), optional
        Cost of predicting the label of the column where that of the row is right; by default 1
        for every wrong label (the Hamming cost).
    average : bool
        Predict with Σ_k k·θ_k / Σ_k k, which approaches the optimum much sooner.
    random_state : int
        Seed of the order of sentences.
    shuffle : bool
        False: visit the sentences in the given order.
    theta : ndarray, shape (n_weights,), optional
        Weights to start from; they count as those of one epoch.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom.training import Attributes, Labels
    >>> numbers = np.array([0, 1], np.int32)
    >>> nodes, labels = Attributes(np.array([0, 1, 2]), numbers, 2), Labels(numbers, 2)
    >>> objective = LinearObjective(np.array([0, 2]), nodes, labels,
    ...     all_combinations=True, boundaries=False, float32=False)
    >>> optimiser = Subgradient(objective, C=10.0)
    >>> losses = [optimiser.step().loss for _ in range(500)]
    >>> max(losses[-100:]) < 0.1 * losses[0]
    True
    """

    @renamed_parameter("Subgradient", "problem", "objective")
    def __init__(
        self,
        objective: LinearObjective | None,
        *,
        C: float = 1.0,
        cost: npt.ArrayLike | None = None,
        average: bool = True,
        random_state: int = 0,
        shuffle: bool = True,
        theta: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__(
            objective,
            "subgradient",
            average=bool(average),
            random_state=random_state,
            shuffle=shuffle,
            C=checks.number(C, "C", above=0),
            cost=cost,
        )
        if (
            theta is not None and objective is not None
        ):  # θ_k = C·N/k·(sum of the steps), and the sum is stored
            steps = max(objective.n_sentences, 1)
            start = as_weights(theta, objective.n_weights)
            self._restart(theta=start / C, counters=np.array([0, 0, steps]))


class FrankWolfe(OnlineLearner):
    r"""Block-coordinate Frank-Wolfe on the dual of the structured SVM, with its duality gap.

    Minimises the objective of `Subgradient`. Each sentence is a block of the dual, whose θ_i is
    C·weight_i times the difference between Φ(x_i, y_i) and the mean of Φ(x_i, y) over a mixture of
    paths; a step mixes in the path that attains the loss, by the amount that raises the dual most.
    It needs no learning rate. `Step.loss` is the objective after the epoch and `Step.gap` its
    distance from the dual, an upper bound on its distance from the optimum (Lacoste-Julien et al.
    2013).

    Parameters
    ----------
    objective : LinearObjective
    C : float
        Weight of the losses relative to ½‖θ‖²; above 0.
    cost : ndarray, shape (Y, Y), optional
        As for `Subgradient`.
    tolerance : float
        Converged when the gap is at most this fraction of the objective.
    random_state : int
        Seed of the order of sentences.
    shuffle : bool
        False: visit the sentences in the given order.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom.training import Attributes, Labels
    >>> numbers = np.array([0, 1], np.int32)
    >>> nodes, labels = Attributes(np.array([0, 1, 2]), numbers, 2), Labels(numbers, 2)
    >>> objective = LinearObjective(np.array([0, 2]), nodes, labels,
    ...     all_combinations=True, boundaries=False, float32=False)
    >>> optimiser = FrankWolfe(objective, C=10.0)
    >>> while not (step := optimiser.step()).converged:
    ...     pass
    >>> optimiser.theta().round(2)
    array([ 0.33, -0.33, -0.33,  0.33,  0.  ,  0.33, -0.33,  0.  ])
    >>> round(step.loss, 2), step.gap <= 0.001 * step.loss
    (0.33, True)
    """

    @renamed_parameter("FrankWolfe", "problem", "objective")
    def __init__(
        self,
        objective: LinearObjective | None,
        *,
        C: float = 1.0,
        cost: npt.ArrayLike | None = None,
        tolerance: float = 1e-3,
        random_state: int = 0,
        shuffle: bool = True,
    ) -> None:
        self.C = checks.number(C, "C", above=0)
        self.tolerance = checks.number(tolerance, "tolerance", least=0)
        super().__init__(
            objective,
            "frank-wolfe",
            random_state=random_state,
            shuffle=shuffle,
            C=self.C,
            cost=cost,
        )

    def step(self) -> Step:
        """Do one epoch, then measure objective and gap."""
        self._epoch()
        loss, cost = self._native.certify()
        theta = self._native.theta()
        square = float(theta @ theta)
        objective = square / 2 + self.C * loss
        gap = max(square + self.C * (loss - cost), 0.0)  # below 0 by rounding only
        converged = gap <= self.tolerance * objective
        return Step(objective, n_evaluations=2, converged=converged, gap=gap)


def _costs(cost: npt.ArrayLike | None, objective: LinearObjective) -> Float64:
    """Return the costs [Y · Y] of gold label × other label."""
    Y = objective.n_labels
    if cost is None:
        return (1.0 - np.eye(Y)).ravel()
    costs = np.ascontiguousarray(cost, dtype=np.float64)
    if costs.shape != (Y, Y):
        raise ShapeError(
            parameter="cost", expected=f"of shape (Y, Y) = ({Y}, {Y})", found=f"{costs.shape}"
        )
    if not np.isfinite(costs).all() or costs.min(initial=0.0) < 0 or costs.diagonal().any():
        raise ParameterError(
            parameter="cost",
            expected="finite, not negative, and 0 on the diagonal, where the label is right",
            found=checks.show(costs),
        )
    return costs.ravel()
