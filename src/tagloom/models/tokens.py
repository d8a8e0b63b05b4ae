"""Token classifiers: each label on its own, whatever its neighbours are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import ParameterError
from tagloom.models.layouts import Layout
from tagloom.models.linear import (
    Known,
    LinearTagger,
    TrainingData,
    check_at_least,
    check_choice,
)
from tagloom.training import (
    LBFGS,
    AdaGrad,
    AveragedPerceptron,
    FrankWolfe,
    Optimiser,
    Subgradient,
)

Float64 = npt.NDArray[np.float64]

# loss -> algorithms, the default first
ALGORITHMS = {
    "log": ("adagrad", "lbfgs"),
    "perceptron": ("perceptron",),
    "hinge": ("subgradient", "frank-wolfe"),
}


class TokenClassifier(LinearTagger):
    r"""A linear classifier of tokens, without any dependence between labels.

    It sees the whole sentence through its features, but not the other labels: every token is a
    sentence of its own to the learner, and moves between labels have no weights. ::

        loss="log"         Σ_t −log Pr(y_t | x, t) + l2·‖θ‖²        logistic regression
        loss="perceptron"  θ ← θ + φ(x, t, y_t) − φ(x, t, ŷ)         averaged perceptron
        loss="hinge"       ½‖θ‖² + C·Σ_t max_ŷ [1{ŷ ≠ y_t} + θ·φ(x, t, ŷ) − θ·φ(x, t, y_t)]

    Parameters
    ----------
    features : str, list of str, extractor, callable or None
        As for `CRF`; templates of edges, which see the label before, are refused.
    loss : {"log", "perceptron", "hinge"}
        What is learnt from. Only "log" gives probabilities that mean something.
    algorithm : {"auto", "adagrad", "lbfgs", "perceptron", "subgradient", "frank-wolfe"}
        How the weights are found: "adagrad" or "lbfgs" for log, "perceptron", "subgradient" or
        "frank-wolfe" for hinge. "auto" takes the first of them.
    l2 : float, optional
        Penalty of the log loss: 1 for lbfgs, otherwise 0.
    C : float
        How much mistakes count beside the size of the weights; only with loss="hinge".
    eta : float
        Learning rate of adagrad.
    average : bool
        Whether learners that go token by token predict with the mean of their weights.
    max_iterations : int, optional
        The largest number of iterations (lbfgs: 100) or epochs (adagrad: 5, perceptron: 10,
        subgradient: 15, frank-wolfe: 50).
    patience : int, optional
        With development data: stop after so many iterations (lbfgs: 10) or epochs (3) without a
        better score.
    min_weight : float, optional
        Forget weights of features that are smaller in absolute value: 0.02 for adagrad, otherwise
        0.
    constraints : {"auto", None, "bio", "iob1", "io", "bioes", "bilou"} or other
        The scheme whose illegal moves are never predicted. "auto" finds it in the training labels,
        if all of them are legal; None lets every label go its own way. See `CRF` for others.
    min_count, combinations, labels, random_state, n_threads, warm_start
        As for `CRF`.

    Examples
    --------
    What ``can`` is hangs on its neighbours, not only on itself:

    >>> import tagloom as tl
    >>> X = [["they", "can", "fish"], ["can", "of", "fish"]]
    >>> y = [["N", "V", "V"], ["N", "P", "N"]]
    >>> tl.TokenClassifier(features=["word"]).fit(X, y).score(X, y) < 1
    True
    >>> tl.TokenClassifier(features=["word[-1..1]"]).fit(X, y).predict(X)
    [['N', 'V', 'V'], ['N', 'P', 'N']]
    """

    boundaries = False

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
        """Whether training labels may be open: not with "frank-wolfe", which needs a convex loss."""
        return self._algorithm != "frank-wolfe"

    @property
    def is_online(self) -> bool:
        """Whether it learns token by token."""
        return self._algorithm != "lbfgs"

    @property
    def _algorithm(self) -> str:
        return ALGORITHMS[self.loss][0] if self.algorithm == "auto" else self.algorithm

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> LinearTagger:
        """Learn from more sentences, once through; see `LinearTagger.partial_fit`.

        Raises
        ------
        ParameterError
            With loss="hinge", whose objective is that of a whole corpus, or algorithm="lbfgs".
        """
        if self.loss == "hinge":
            raise ParameterError(
                "loss='hinge' has no partial_fit: its objective is that of a whole corpus. Call "
                "fit() with all sentences, or take loss='perceptron' or 'log'."
            )
        return super().partial_fit(X, y, sample_weight=sample_weight)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("loss", self.loss, tuple(ALGORITHMS))
        if self.algorithm not in ("auto", *ALGORITHMS[self.loss]):
            raise ParameterError(
                f"algorithm={self.algorithm!r} does not learn from loss={self.loss!r}. Take 'auto' "
                f"or one of: {', '.join(ALGORITHMS[self.loss])}."
            )
        if self.l2 is not None:
            check_at_least("l2", self.l2, 0)
        for name in ("C", "eta"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} must be above 0; got {getattr(self, name)!r}.")
        if self.warm_start and self._algorithm == "frank-wolfe":
            raise ParameterError(
                "warm_start=True needs another algorithm than 'frank-wolfe', which does not go on "
                "from weights."
            )

    def _least_weight(self) -> float:
        return 0.02 if self._algorithm == "adagrad" else 0.0

    def _limits(self) -> tuple[int, int]:
        return {
            "adagrad": (5, 3),
            "lbfgs": (100, 10),
            "perceptron": (10, 3),
            "subgradient": (15, 3),
            "frank-wolfe": (50, 3),
        }[self._algorithm]

    def _problem(self, data: TrainingData, known: Known | None) -> _native.Problem:
        encoded = data.encoded
        if encoded.edge_indptr is not None:
            raise ParameterError(
                "TokenClassifier does not see the label before: edge(...) templates have nothing "
                "to say. Leave them out, or take CRF."
            )
        weight = data.weight
        if weight is not None:
            weight = np.repeat(weight, np.diff(encoded.offsets))
        alone = np.arange(len(data.gold.numbers) + 1, dtype=np.int64)  # each token is a sentence
        tokens = replace(data, encoded=encoded._replace(offsets=alone), weight=weight)
        problem = super()._problem(tokens, known)
        free = problem.mask()
        free[Layout.of_problem(tuple(data.names), problem).moves_at :] = False
        problem.set_mask(free)
        return problem

    def _optimiser(self, problem: _native.Problem, theta: Float64 | None) -> Optimiser:
        seed = self.random_state
        if self._algorithm == "lbfgs":
            l2 = 1.0 if self.l2 is None else self.l2
            return LBFGS(problem, l2=l2, n_threads=self.n_threads, theta=theta)
        if self._algorithm == "adagrad":
            return AdaGrad(
                problem,
                l2=self.l2 or 0.0,
                eta=self.eta,
                average=self.average,
                random_state=seed,
                theta=theta,
            )
        if self._algorithm == "perceptron":
            return AveragedPerceptron(problem, average=self.average, random_state=seed, theta=theta)
        if self._algorithm == "frank-wolfe":
            return FrankWolfe(problem, C=self.C, random_state=seed)
        return Subgradient(problem, C=self.C, average=self.average, random_state=seed, theta=theta)
