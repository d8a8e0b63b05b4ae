"""Learners that look at one token at a time: the losses and optimisers that they share.

`TokenClassifier` and `MEMM` differ in what a token knows of the label before it, and in nothing
else.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks, training
from tagloom.errors import ParameterError
from tagloom.models.layouts import Layout
from tagloom.models.linear import LinearTagger
from tagloom.models.reading import TrainingData

Float64 = npt.NDArray[np.float64]

# loss -> algorithms, the default first
ALGORITHMS = {
    "log": ("adagrad", "lbfgs"),
    "perceptron": ("perceptron",),
    "hinge": ("subgradient", "frank-wolfe"),
}


class LocalTagger(LinearTagger):
    """A linear tagger whose learner meets every token as a sentence of its own.

    Subclasses lay out the tokens as such sentences; see `TokenClassifier` for the parameters.
    """

    loss: str
    algorithm: str
    l2: float | None
    C: float
    eta: float
    average: bool
    random_state: int

    def __init__(
        self,
        features: Any = "auto",
        *,
        loss: str = "log",
        algorithm: str = "auto",
        l2: float | None = None,
        C: float = 1.0,
        eta: float = 0.5,
        average: bool = True,
        max_iterations: int | None = None,
        patience: int | None = None,
        min_count: int = 1,
        min_weight: float | None = None,
        combinations: str = "auto",
        constraints: Any = "auto",
        labels: Sequence[str] | None = None,
        random_state: int = 0,
        n_threads: int | None = None,
        warm_start: bool = False,
    ) -> None:
        self.features = features
        self.loss = loss
        self.algorithm = algorithm
        self.l2 = l2
        self.C = C
        self.eta = eta
        self.average = average
        self.max_iterations = max_iterations
        self.patience = patience
        self.min_count = min_count
        self.min_weight = min_weight
        self.combinations = combinations
        self.constraints = constraints
        self.labels = labels
        self.random_state = random_state
        self.n_threads = n_threads
        self.warm_start = warm_start

    @property
    def takes_open_labels(self) -> bool:
        """Whether training labels may be open: not with "frank-wolfe", whose loss is convex."""
        return self._algorithm != "frank-wolfe"

    @property
    def is_online(self) -> bool:
        """Whether it learns token by token."""
        return self._algorithm != "lbfgs"

    @property
    def _algorithm(self) -> str:
        return ALGORITHMS[self.loss][0] if self.algorithm == "auto" else self.algorithm

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Learn from more sentences, once through; see `LinearTagger.partial_fit`.

        Raises
        ------
        ParameterError
            With loss="hinge", whose objective is that of a whole corpus, or algorithm="lbfgs".
        """
        if self.loss == "hinge":
            raise ParameterError(
                "partial_fit does not work with loss='hinge', whose objective is over a corpus.",
                parameter="loss",
                expected="'perceptron' or 'log' for partial_fit",
                found="'hinge'",
                hint="Call fit() with all sentences, or choose another {loss}.",
                options={"loss": ...},
            )
        return super().partial_fit(X, y, sample_weight=sample_weight)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.choice(self.loss, "loss", ALGORITHMS)
        if self.algorithm not in ("auto", *ALGORITHMS[self.loss]):
            raise ParameterError(
                parameter="algorithm",
                expected=f"'auto' or, with the loss {self.loss!r}, one of "
                + ", ".join(map(repr, ALGORITHMS[self.loss])),
                found=checks.show(self.algorithm),
            )
        if self.l2 is not None:
            checks.number(self.l2, "l2", least=0)
        for name in ("C", "eta"):
            checks.number(getattr(self, name), name, above=0)
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
    def _problem(self, data: TrainingData) -> tuple[_native.Problem, Layout]:
        """Lay out the tokens, each a sentence of its own."""

    def _optimiser(
        self, data: TrainingData, problem: _native.Problem, theta: Float64 | None
    ) -> training.Optimiser:
        seed = self.random_state
        if self._algorithm == "lbfgs":
            l2 = 1.0 if self.l2 is None else self.l2
            return training.LBFGS(problem, l2=l2, n_threads=self.n_threads, theta=theta)
        if self._algorithm == "adagrad":
            return training.AdaGrad(
                problem,
                l2=self.l2 or 0.0,
                eta=self.eta,
                average=self.average,
                random_state=seed,
                theta=theta,
            )
        if self._algorithm == "perceptron":
            return training.AveragedPerceptron(
                problem, average=self.average, random_state=seed, theta=theta
            )
        if self._algorithm == "frank-wolfe":
            return training.FrankWolfe(problem, C=self.C, random_state=seed)
        return training.Subgradient(
            problem, C=self.C, average=self.average, random_state=seed, theta=theta
        )
