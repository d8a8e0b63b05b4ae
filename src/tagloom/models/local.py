"""Taggers that are trained token by token: the losses and learners that they share.

`TokenClassifier` and `MEMM` differ only in whether a token sees the previous label.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from tagloom import _native, checks, training
from tagloom.errors import ParameterError
from tagloom.models.capabilities import Capability
from tagloom.models.layouts import Layout
from tagloom.models.linear import LinearTagger
from tagloom.models.shared import BatchParameters
from tagloom.numeric import np
from tagloom.parameters import choice, count, flag, number

if TYPE_CHECKING:
    import numpy.typing as npt

    from tagloom.models.reading import TrainingData

    Float64 = npt.NDArray[np.float64]


# loss -> algorithms, the default first
ALGORITHMS = {
    "log": ("adagrad", "lbfgs"),
    "perceptron": ("perceptron",),
    "hinge": ("subgradient", "frank-wolfe"),
}


class LocalTagger(BatchParameters, LinearTagger):
    """A linear tagger whose learner treats every token as a separate sentence.

    Subclasses make the objective of those sentences.
    """

    capabilities = LinearTagger.capabilities | {Capability.PROBABILITIES}

    loss: str = choice(
        default="log",
        choices=tuple(ALGORITHMS),
        help="The loss function.",
        details='Only "log" is trained to give probabilities.',
    )
    algorithm: str = choice(
        default="auto",
        choices=("auto", *(name for names in ALGORITHMS.values() for name in names)),
        help="The learner of the weights.",
        details='"adagrad" or "lbfgs" for the log loss, "perceptron" for the perceptron loss, '
        '"subgradient" or "frank-wolfe" for the hinge loss. "auto" is the first of them.',
    )
    l2: float | None = number(
        default=None, least=0, help="Penalty of the log loss: 1 for lbfgs, otherwise 0."
    )
    C: float = number(
        default=1.0,
        above=0,
        help="Weight of the hinge loss relative to the size of the weights.",
    )
    eta: float = number(default=0.5, above=0, help="Learning rate of adagrad.")
    average: bool = flag(
        default=True, help="Whether online learners predict with the mean of their weights."
    )
    max_iterations: int | None = count(
        default=None,
        help="The largest number of iterations (lbfgs: 100) or epochs.",
        details="Epochs are 5 for adagrad, 10 for the perceptron, 15 for subgradient and 50 for "
        "frank-wolfe.",
    )
    patience: int | None = count(
        default=None,
        details="10 by default for lbfgs; the others count epochs, 3 by default.",
    )
    min_weight: float | None = number(
        default=None, details="0.02 by default for adagrad, otherwise 0."
    )

    order = 1  # the previous label is a feature here, not a state
    states = "auto"
    transitions = "auto"
    boundaries = True
    constrain_training = False

    def can(self, capability: Capability) -> bool:
        """Whether the model has a capability, given its loss and algorithm."""
        if capability is Capability.OPEN_LABELS and self._algorithm == "frank-wolfe":
            return False  # its loss would not be convex
        if capability is Capability.PROBABILITIES and self.loss != "log":
            return False
        return super().can(capability)

    @property
    def is_online(self) -> bool:
        """Whether the learner is online: it updates the weights token by token."""
        return self._algorithm != "lbfgs"

    @property
    def takes_parts(self) -> bool:
        """Whether the learner can take a corpus in parts."""
        return self._algorithm not in ("lbfgs", "frank-wolfe")

    @property
    def _part_algorithm(self) -> str:
        return ALGORITHMS[self.loss][0]

    @property
    def _algorithm(self) -> str:
        return ALGORITHMS[self.loss][0] if self.algorithm == "auto" else self.algorithm

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.algorithm not in ("auto", *ALGORITHMS[self.loss]):
            raise ParameterError(
                parameter="algorithm",
                expected=f"'auto' or, with the loss {self.loss!r}, one of "
                + ", ".join(map(repr, ALGORITHMS[self.loss])),
                found=checks.show(self.algorithm),
            )
        if self.warm_start and self._algorithm == "frank-wolfe":
            raise ParameterError(
                parameter="warm_start",
                expected="False with the algorithm 'frank-wolfe', which cannot continue from "
                "weights",
                found="True",
            )

    def _least_weight(self) -> float:
        return 0.02 if self._algorithm == "adagrad" else 0.0

    def default_limits(self) -> tuple[int, int]:
        """Return the largest number of iterations and the patience of the algorithm."""
        return {
            "adagrad": (5, 3),
            "lbfgs": (100, 10),
            "perceptron": (10, 3),
            "subgradient": (15, 3),
            "frank-wolfe": (50, 3),
        }[self._algorithm]

    @abstractmethod
    def _make_objective(
        self, data: TrainingData, *, pattern_only: bool = False
    ) -> tuple[_native.LinearObjective, Layout]:
        """Make the objective of the tokens as separate sentences."""

    @property
    def _can_mix(self) -> bool:
        return self.loss != "hinge"

    @property
    def _mixing_passes(self) -> int | None:
        return 2 if self.loss == "log" else None

    def _optimiser(
        self,
        data: TrainingData | None,
        objective: _native.LinearObjective | None,
        theta: Float64 | None,
    ) -> training.Optimiser:
        seed = self.random_state
        if self._algorithm == "lbfgs" and objective is not None:
            l2 = 1.0 if self.l2 is None else self.l2
            return self.make_lbfgs(objective, theta, l2=l2, n_threads=self.n_threads)
        if self._algorithm == "adagrad":
            return training.AdaGrad(
                objective,
                l2=self.l2 or 0.0,
                eta=self.eta,
                average=self.average,
                random_state=seed,
                theta=theta,
            )
        if self._algorithm == "perceptron":
            return training.AveragedPerceptron(
                objective, average=self.average, random_state=seed, theta=theta
            )
        if self._algorithm == "frank-wolfe":
            return training.FrankWolfe(objective, C=self.C, random_state=seed)
        return training.Subgradient(
            objective, C=self.C, average=self.average, random_state=seed, theta=theta
        )
