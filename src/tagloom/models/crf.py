"""Conditional random fields: linear scores, log loss over whole labellings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tagloom import _native, checks, training
from tagloom.errors import ParameterError
from tagloom.features import Templates
from tagloom.models.capabilities import Capability
from tagloom.models.linear import LinearTagger, as_sharded
from tagloom.models.shared import BatchParameters
from tagloom.numeric import np
from tagloom.parameters import choice, count, flag, number
from tagloom.records import replace
from tagloom.scores import Subtags
from tagloom.trellis.pruning import Pruning

if TYPE_CHECKING:
    import numpy.typing as npt

    from tagloom.models.reading import TrainingData

    Float64 = npt.NDArray[np.float64]


# With prune="auto": more labels are pruned, by this threshold and to so many. Accuracy of five
# folds of the Estonian web treebank's training part (774 labels): 87.60 with 0.01, 87.60 with
# 0.003, which is slower; other folds: 87.89 without a limit, 87.91 with 64, 87.95 with 32.
_MANY_LABELS = 100
_LEAST, _MOST = 0.01, 64


def _check_prune(value: Any) -> None:
    if value not in ("auto", None):
        checks.number(value, "prune", least=0, most=1)


def _check_subtags(value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ParameterError(
            parameter="subtags", expected="'auto', a separator or None", found=checks.show(value)
        )


class CRF(BatchParameters, LinearTagger):
    r"""A linear-chain conditional random field.

    The probability of labels y given a sentence x is ``exp(score(x, y)) / Z(x)``, and the weights θ
    minimise ::

        Σ_i weight_i · −log Pr(y_i | x_i; θ) + l1·‖θ‖₁ + l2·‖θ‖₂²

    Attributes
    ----------
    labels_ : ndarray of str
    scores_ : LinearScores
        The features and their weights.
    constraints_ : Constraints
        The constraints on predictions; ``scheme_`` is their scheme.
    history_ : list of Record
        One for each iteration.
    training_ : dict
        The training record: sizes and digest of the data, losses, seconds.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
    >>> y = [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]]
    >>> tagger = tl.CRF(features="words").fit(X, y)
    >>> tagger.predict([["they", "can", "swim"], ["fish", "fish"]])
    [['N', 'V', 'V'], ['N', 'V']]
    """

    capabilities = LinearTagger.capabilities | {Capability.PROBABILITIES}

    algorithm: str = choice(
        default="adagrad",
        choices=("adagrad", "lbfgs", "sgd"),
        help="The learner of the weights.",
        details='"adagrad" and "sgd" are online learners that need few epochs. "lbfgs" minimises '
        "the objective of the whole corpus to its optimum; with l1 > 0 it is OWL-QN.",
    )
    l1: float = number(
        default=0.0,
        least=0,
        help="Penalty on the sum of absolute weights, which makes most of them zero.",
        details='Only with "lbfgs".',
    )
    l2: float | None = number(
        default=None,
        least=0,
        help="Penalty on the sum of squared weights.",
        details="1 by default for lbfgs, otherwise 0, since few epochs regularise enough.",
    )
    select: str | None = choice(
        default=None,
        choices=(None, "l1"),
        help="Whether to choose features by the l1 penalty first.",
        details='"l1" trains with the l1 penalty, keeps the features whose weight is not 0, and '
        "trains these again with the l2 penalty.",
    )
    prune: float | str | None = choice(
        default="auto",
        choices=("auto", None),
        free=float,
        check=_check_prune,
        help="Keep only labels whose probability is at least this part of that of the best label.",
        details="By the features of the token alone, in training and in prediction; see "
        '`Trellis.prune`. The gold label is always kept in training. "auto" is 0.01, and at most '
        "64 labels, with more than 100 labels, where the learner is adagrad or sgd and the order "
        "1 or 2, and otherwise None: all labels are kept. The first epoch does not learn "
        "transitions, and the second no label trigrams.",
    )
    subtags: str | None = choice(
        default="auto",
        choices=("auto", None),
        free=str,
        check=_check_subtags,
        help="The separator of sub-tags, whose weights all labels with this sub-tag share.",
        details='"auto" finds "|" in labels such as ``NOUN|Case=Nom|Number=Sing``. Only with '
        "``prune``.",
    )
    max_iterations: int | None = count(
        default=None,
        help="The largest number of iterations (lbfgs: 100) or epochs (adagrad: 5, sgd: 10).",
        details="For dicts, lists and functions of features of up to 50,000 tokens, adagrad takes "
        "10 epochs.",
    )
    patience: int | None = count(
        default=None,
        details="10 by default for lbfgs; the others count epochs, 3 by default.",
    )
    eta: float | None = number(
        default=None,
        above=0,
        help="Learning rate of adagrad (0.5, with sub-tags 0.2) and sgd (0.1).",
        details="For dicts, lists and functions of features, adagrad uses 6 divided by the mean "
        "number of features per token, at least 0.1 and at most 1: with many features, each of "
        "them must move less.",
    )
    margin: float | None = number(
        default=None,
        least=0,
        help="Score by which right labels must win in training by adagrad (0).",
        details="It is added to the scores of wrong labels. The default is 2 for dicts, lists and "
        "functions of features of up to 50,000 tokens, where it is better by 0.1 to 0.3 points; 5 "
        "if there are more features than tokens. Probabilities are then too high, so the default "
        "also multiplies all weights by 0.6 after training; a margin of your own does not.",
    )
    average: bool = flag(
        default=True,
        help="Whether adagrad and sgd predict with the mean of their weights.",
        details="The mean is over all sentences after the first epoch, which is steadier on small "
        "corpora.",
    )
    min_weight: float | None = number(
        default=None,
        details="0.02 by default for adagrad and sgd, where many tiny weights inflate the model "
        "without changing its predictions, and 0 otherwise.",
    )

    @property
    def is_online(self) -> bool:
        """Whether the learner is online."""
        return self.algorithm != "lbfgs"

    def _check_parameters(self) -> None:
        super()._check_parameters()
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

    @property
    def takes_parts(self) -> bool:
        """Whether the learner can take a corpus in parts: an online one, without pruning."""
        return self.is_online and self.prune in (None, "auto")

    def _check_whole(self) -> None:
        if self.prune not in (None, "auto"):
            raise ParameterError(
                parameter="prune",
                expected="None or 'auto' for a corpus in files, which is learned without pruning",
                found=checks.show(self.prune),
            )

    def _choose_pruning(self, data: TrainingData) -> tuple[Pruning | None, Subtags | None]:
        Y = len(data.names)
        obstacle = self._pruning_obstacle(data)
        if self.prune is None or (self.prune == "auto" and (obstacle or Y <= _MANY_LABELS)):
            if self.subtags not in (None, "auto"):
                raise ParameterError(
                    parameter="subtags",
                    expected="None or 'auto' without pruning",
                    found=checks.show(self.subtags),
                    hint="Choose {prune}.",
                    options={"prune": _LEAST},
                )
            return None, None
        if obstacle:
            raise ParameterError(
                parameter="prune",
                expected=f"None or 'auto' with {obstacle}",
                found=checks.show(self.prune),
            )
        separator = self.subtags
        if separator == "auto":
            separator = Subtags.find_separator(data.names)
        subtags = None if separator is None else Subtags.split(data.names, separator)
        if data.start is not None and (subtags is not None or self.scores_.subtags is not None):
            raise ParameterError(
                parameter="warm_start",
                expected="False with sub-tags, whose weights cannot be continued",
                found="True",
                hint="Choose {subtags}.",
                options={"subtags": None},
            )
        if self.prune == "auto":
            return Pruning(_LEAST, _MOST), subtags
        return Pruning(float(self.prune)), subtags

    def _pruning_obstacle(self, data: TrainingData) -> str | None:
        """Return the part of the model with which labels cannot be pruned."""
        if not self.is_online:
            return f"the algorithm {self.algorithm!r}"
        if data.states is not None and data.states.native_trigrams is None:
            return "an order above 2, a state space, or constraints in training"
        return None if data.encoded.edge_indptr is None else "edge templates"

    def _least_weight(self) -> float:
        return 0.02 if self.is_online else 0.0

    def default_limits(self) -> tuple[int, int]:
        """Return the largest number of iterations and the patience of the algorithm."""
        return {"lbfgs": (100, 10), "adagrad": (5, 3), "sgd": (10, 3)}[self.algorithm]

    def limits_for(self, data: TrainingData) -> tuple[int, int]:
        """Return the largest number of iterations and the patience for given data."""
        iterations, patience = super().limits_for(data)
        if self.max_iterations is None and self.algorithm == "adagrad" and _is_small(data):
            iterations *= 4 if _is_sparse(data) else 2
        return iterations, patience

    def _optimiser(
        self,
        data: TrainingData | None,
        objective: _native.LinearObjective | None,
        theta: Float64 | None,
    ) -> training.Optimiser:
        seed = self.random_state
        if self.algorithm == "adagrad":
            eta, first_square = _default_rate(data) if self.eta is None else (self.eta, 1.0)
            return training.AdaGrad(
                objective,
                l2=self.l2 or 0.0,
                eta=eta,
                first_square=first_square,
                average=self.average,
                margin=_default_margin(data) if self.margin is None else self.margin,
                random_state=seed,
                theta=theta,
            )
        if self.algorithm == "sgd":
            eta = 0.1 if self.eta is None else self.eta
            return training.SGD(
                objective,
                l2=self.l2 or 0.0,
                eta0=eta,
                average=self.average,
                random_state=seed,
                theta=theta,
            )
        assert objective is not None
        return self.make_lbfgs(
            objective,
            theta,
            l1=0.0 if self.select else self.l1,
            l2=1.0 if self.l2 is None else self.l2,
            n_threads=self.n_threads,
        )

    @property
    def _mixing_passes(self) -> int:
        return 2

    def learn(
        self, data: TrainingData, fitting: training.Fitting[Float64]
    ) -> training.Outcome[Float64]:
        """Learn the weights; with ``select="l1"``, and from small data, in two runs."""
        if self.select != "l1":
            outcome = self._learn_twice(data, fitting) or super().learn(data, fitting)
            if self.algorithm == "adagrad" and self.margin is None and _is_small(data):
                outcome.weights = outcome.weights * _SHRINKING
            return outcome
        objective, theta = self._lay_out(data)
        first = training.LBFGS(objective, l1=self.l1, l2=0.0, n_threads=self.n_threads, theta=theta)
        chosen = fitting.run(first, title=", choosing features", suffix=".l1").weights
        objective.set_mask(chosen != 0)
        return fitting.run(self._optimiser(data, objective, None))

    def _learn_twice(
        self, data: TrainingData, fitting: training.Fitting[Float64]
    ) -> training.Outcome[Float64] | None:
        """Average the weights of AdaGrad and L-BFGS on small data; None for other data.

        Only with default parameters, and without development data or initial weights.
        """
        own = (self.max_iterations, self.patience, self.eta, self.l2, self.margin)
        is_default = self.algorithm == "adagrad" and all(value is None for value in own)
        if not is_default or not _is_sparse(data) or fitting.dev is not None or data.start:
            return None
        if as_sharded(data) is not None:
            return None
        objective, _ = self._lay_out(data)
        outcome = fitting.run(self._optimiser(data, objective, None))
        if outcome.stopped == "interrupted":
            return outcome
        smooth = self.make_lbfgs(objective, None, l1=_L1, l2=_L2, n_threads=self.n_threads)
        further = replace(fitting, max_iterations=100, patience=10)
        second = further.run(smooth, title=", L-BFGS", suffix=".lbfgs")
        outcome.weights = (outcome.weights + second.weights) / 2
        return outcome


# Penalties of L-BFGS, whose weights are averaged with those of AdaGrad on small data: those of
# CRFsuite's tutorial.
_L1, _L2 = 0.1, 0.01

# The margin that small data get makes weights, and so probabilities, too large. Times this factor
# the best labels stay and a token's mean negative log-likelihood, over the eight sets of
# benchmarks/small.py that were used to choose, is least: 0.375 -> 0.306.
_SHRINKING = 0.6


# Tokens of a corpus that is small, with features of the user's own.
_SMALL = 50_000


def _is_small(data: TrainingData | None) -> bool:
    """Whether few tokens have features that are not of our templates."""
    if data is None or isinstance(data.extractor, Templates):
        return False
    return data.sizes["tokens"] <= _SMALL


def _is_sparse(data: TrainingData) -> bool:
    """Whether data are small and most features rare: there are more of them than tokens."""
    return _is_small(data) and data.index.size > data.sizes["tokens"]


def _default_margin(data: TrainingData | None) -> float:
    """Return the margin of AdaGrad for these features, by benchmarks/small.py."""
    if data is not None and _is_sparse(data):
        return 5.0
    return 2.0 if _is_small(data) else 0.0


def _default_rate(data: TrainingData | None) -> tuple[float, float]:
    """Return the learning rate of AdaGrad for these features, and its first sum of squares.

    A step changes the score of a label by up to eta for each feature of the token. The presets have
    about 20 per token, and 0.5 is best for them on large corpora. Features of users differ more: 6
    to 30. Five-fold token accuracy with 0.5 -> this rule, beside the better of the perceptron and
    L-BFGS: Estonian UPOS (800 sentences) 83.15 -> 83.86 (84.40), EWT UPOS (800) 89.68 -> 90.26
    (90.51), chunks (500) 94.65 -> 94.71 (95.00), the English corpus 91.29 -> 91.41 (91.58),
    handwritten letters (700 words) 78.55 -> 79.22 (79.50), synthetic names 97.41 -> 97.41 (97.43).

    On small data with many features per token, most of them rare, AdaGrad gives rare ones too large
    steps. The first sum of squares grows with the number of features there, at the same first step.
    Five-fold: names of persons (probablepeople, 84 per token) 90.68 -> 91.15 (91.61), of companies
    (148) 96.77 -> 96.49 (96.73); three-fold: Estonian with all letter n-grams (300 sentences) 76.73
    -> 76.78 (75.94). It is only for data with more features than tokens: handwritten letters, whose
    pixels are all frequent, lose by it, 76.52 -> 74.87 (74.36).

    With sub-tags a token moves the weights of about six times as many features: 0.2 is better than
    0.5, 86.8 against 86.0 for Estonian morphology (one held-out fold).
    """
    factor = 1.0 if data is None or data.subtags is None else 0.4
    if data is None or isinstance(data.extractor, Templates):
        return 0.5 * factor, 1.0
    eta = 6 / max(data.mean_square, 1e-9)
    if _is_sparse(data):
        first_square = float(np.clip((data.mean_square / 15) ** 2, 1.0, 30.0))
        return float(np.clip(eta * np.sqrt(first_square), 0.1, 1.0)) * factor, first_square
    return float(np.clip(eta, 0.1, 1.0)) * factor, 1.0
