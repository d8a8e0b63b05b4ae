"""Conditional random fields: linear scores, log loss over whole labellings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks, training
from tagloom.errors import ParameterError
from tagloom.models.linear import LinearTagger
from tagloom.models.reading import TrainingData

Float64 = npt.NDArray[np.float64]

ALGORITHMS = ("lbfgs", "adagrad", "sgd")


class CRF(LinearTagger):
    r"""A linear-chain conditional random field.

    The probability of labels y given a sentence x is ``exp(score(x, y)) / Z(x)``, and the weights θ
    minimise ::

        Σ_i weight_i · −log Pr(y_i | x_i; θ) + l1·‖θ‖₁ + l2·‖θ‖₂²

    Parameters
    ----------
    features : str, list of str, extractor, callable or None
        What to look at: the name of a preset ("pos", "chunk", "ner", "words"), templates, anything
        that `tagloom.features.make` takes, or None if the tokens are dicts or lists of features.
        "auto" chooses by the data.
    algorithm : {"adagrad", "lbfgs", "sgd"}
        How the weights are found. "adagrad" and "sgd" learn sentence by sentence and need few
        epochs; "lbfgs" goes over all of them until it reaches the optimum, with l1 > 0 by OWL-QN.
    l1 : float
        Penalty on the sum of absolute weights; makes most of them zero. Only with "lbfgs".
    l2 : float, optional
        Penalty on the sum of squared weights: 1 for lbfgs, otherwise 0, as few epochs are penalty
        enough.
    select : {None, "l1"}
        "l1": train with the l1 penalty first, keep the features that survive, and train these
        again with the l2 penalty.
    max_iterations : int, optional
        The largest number of iterations (lbfgs: 100) or epochs (adagrad: 5, sgd: 10).
    patience : int, optional
        With development data: stop after so many iterations (lbfgs: 10) or epochs (others: 3)
        without a better score.
    eta : float, optional
        Learning rate of adagrad (0.5) and sgd (0.1).
    average : bool
        Whether adagrad and sgd predict with the mean of their weights over all sentences after the
        first epoch, which is steadier on small corpora.
    min_count : int
        Ignore attributes that occur less often in the training data.
    min_weight : float, optional
        Forget weights of features that are smaller in absolute value: 0.02 for adagrad and sgd,
        whose many tiny weights decide nothing but make the model several times as large;
        otherwise 0.
    combinations : {"auto", "seen", "all"}
        Whether an attribute has weights for the labels that it was seen with, or for all labels;
        the same for moves. "auto": seen for lbfgs, otherwise all,
        unless that makes more than 33 million.
    boundaries : bool
        Whether the first and the last label of a sentence have weights of their own.
    order : int
        How many labels before it a label hangs on: n-grams of up to order + 1 labels have weights.
    states : {"auto", "seen", "all"} or StateSpace
        Which histories of labels are told apart for an order above 1: those seen in training, all
        of them, or, with "auto", all if that makes at most 100,000 moves. Or a state space of your
        own, whose tied weights are learnt.
    constraints : {"auto", None, "bio", "iob1", "io", "bioes", "bilou"} or other
        The scheme whose illegal moves are never predicted. "auto" finds it in the training labels,
        if all of them are legal. A `TagDictionary`, a `StateSpace`, or a list of such, is also
        possible.
    constrain_training : bool
        Whether the constraints hold while learning, too: what they forbid then has no part in
        Z(x), and costs no weight.
    labels : list of str, optional
        The labels in the order wanted; by default those of the data, sorted.
    random_state : int
        Seed of the order of sentences (adagrad, sgd).
    n_threads : int, optional
        All cores by default; the weights do not depend on it.
    warm_start : bool
        Whether `fit` goes on from the weights that are there already.

    Attributes
    ----------
    labels_ : ndarray of str
    scores_ : LinearScores
        The features and their weights.
    constraints_ : Constraints
        What constrains predictions; ``scheme_`` is its scheme.
    history_ : list of Record
        One for each iteration.
    training_ : dict
        Where the weights come from: sizes, digest of the data, losses, seconds.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
    >>> y = [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]]
    >>> tagger = tl.CRF(features="words").fit(X, y)
    >>> tagger.predict([["they", "can", "swim"], ["fish", "fish"]])
    [['N', 'V', 'V'], ['N', 'V']]
    """

    algorithm: str
    l1: float
    l2: float | None
    select: str | None
    eta: float | None
    average: bool
    random_state: int

    def __init__(
        self,
        features: Any = "auto",
        *,
        algorithm: str = "adagrad",
        l1: float = 0.0,
        l2: float | None = None,
        select: str | None = None,
        max_iterations: int | None = None,
        patience: int | None = None,
        eta: float | None = None,
        average: bool = True,
        min_count: int = 1,
        min_weight: float | None = None,
        combinations: str = "auto",
        boundaries: bool = True,
        order: int = 1,
        states: Any = "auto",
        constraints: Any = "auto",
        constrain_training: bool = False,
        labels: Sequence[str] | None = None,
        random_state: int = 0,
        n_threads: int | None = None,
        warm_start: bool = False,
    ) -> None:
        self.features = features
        self.algorithm = algorithm
        self.l1 = l1
        self.l2 = l2
        self.select = select
        self.max_iterations = max_iterations
        self.patience = patience
        self.eta = eta
        self.average = average
        self.min_count = min_count
        self.min_weight = min_weight
        self.combinations = combinations
        self.boundaries = boundaries
        self.order = order
        self.states = states
        self.constraints = constraints
        self.constrain_training = constrain_training
        self.labels = labels
        self.random_state = random_state
        self.n_threads = n_threads
        self.warm_start = warm_start

    @property
    def is_online(self) -> bool:
        """Whether it learns sentence by sentence."""
        return self.algorithm != "lbfgs"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.choice(self.algorithm, "algorithm", ALGORITHMS)
        checks.choice(self.select, "select", (None, "l1"))
        checks.number(self.l1, "l1", least=0)
        if self.l2 is not None:
            checks.number(self.l2, "l2", least=0)
        if self.eta is not None:
            checks.number(self.eta, "eta", above=0)
        if self.l1 > 0 and self.is_online:
            raise ParameterError(
                parameter="l1",
                expected=f"0 with the algorithm {self.algorithm!r}, which has no l1 penalty",
                found=f"{self.l1}",
                hint="Choose {algorithm}.",
                options={"algorithm": "lbfgs"},
            )
        if self.select == "l1" and (self.l1 == 0 or self.is_online):
            raise ParameterError(
                parameter="select",
                expected="None without an l1 penalty for the first pass, which needs 'lbfgs'",
                found="'l1'",
                hint="Choose {algorithm} and {l1}.",
                options={"algorithm": "lbfgs", "l1": 0.5},
            )

    def _least_weight(self) -> float:
        return 0.02 if self.is_online else 0.0

    def default_limits(self) -> tuple[int, int]:
        """Return the largest number of iterations and the patience of the algorithm."""
        return {"lbfgs": (100, 10), "adagrad": (5, 3), "sgd": (10, 3)}[self.algorithm]

    def _optimiser(
        self, data: TrainingData, problem: _native.Problem, theta: Float64 | None
    ) -> training.Optimiser:
        seed = self.random_state
        if self.algorithm == "adagrad":
            eta = 0.5 if self.eta is None else self.eta
            return training.AdaGrad(
                problem,
                l2=self.l2 or 0.0,
                eta=eta,
                average=self.average,
                random_state=seed,
                theta=theta,
            )
        if self.algorithm == "sgd":
            eta = 0.1 if self.eta is None else self.eta
            return training.SGD(
                problem,
                l2=self.l2 or 0.0,
                eta0=eta,
                average=self.average,
                random_state=seed,
                theta=theta,
            )
        l1 = 0.0 if self.select else self.l1
        l2 = 1.0 if self.l2 is None else self.l2
        return training.LBFGS(problem, l1=l1, l2=l2, n_threads=self.n_threads, theta=theta)

    def learn(
        self, data: TrainingData, fitting: training.Fitting[Float64]
    ) -> training.Outcome[Float64]:
        """Learn the weights; with ``select="l1"`` in two runs."""
        if self.select != "l1":
            return super().learn(data, fitting)
        problem, theta = self._lay_out(data)
        first = training.LBFGS(problem, l1=self.l1, l2=0.0, n_threads=self.n_threads, theta=theta)
        chosen = fitting.run(first, title=", choosing features", suffix=".l1").weights
        problem.set_mask(chosen != 0)
        return fitting.run(self._optimiser(data, problem, None))
