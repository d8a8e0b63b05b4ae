"""The structured support vector machine: linear scores, and margins as large as the costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from tagloom import _native, checks, training
from tagloom.errors import ParameterError
from tagloom.models.capabilities import Capability
from tagloom.models.fitted import Learned
from tagloom.models.linear import LinearFitted, LinearTagger
from tagloom.numeric import np
from tagloom.parameters import attribute, choice, count, flag, number, parameter
from tagloom.records import field, replace
from tagloom.storage import File

if TYPE_CHECKING:
    import numpy.typing as npt

    from tagloom.models.reading import Known, TrainingData

    Float64 = npt.NDArray[np.float64]


ALGORITHMS = ("subgradient", "frank-wolfe")


class SVMFitted(LinearFitted):
    """The state of a fitted SVM: that of a linear tagger, and the costs [Y, Y]."""

    cost: Float64 | None = field(default=None, kw_only=True)


class StructuredSVM(LinearTagger):
    r"""A structured support vector machine.

    The right labels must outscore all others by a margin, the cost of those others. With
    cost(y, ŷ) = Σ_t cost(y_t, ŷ_t) the weights θ minimise ::

        ½‖θ‖² + C · Σ_i weight_i · max_ŷ [cost(y_i, ŷ) + score(x_i, ŷ) − score(x_i, y_i)]

    where Viterbi finds the maximum, with the costs added to the scores.

    Attributes
    ----------
    cost_ : ndarray of float64, shape (Y, Y)
        The cost of each mistake.
    labels_, scores_, scheme_, history_, training_
        As for `CRF`.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
    >>> y = [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]]
    >>> tagger = tl.StructuredSVM(features="words", algorithm="frank-wolfe", C=1.0).fit(X, y)
    >>> tagger.predict([["they", "can", "swim"]])
    [['N', 'V', 'V']]
    >>> tagger.history_[-1].gap < 0.001 * tagger.history_[-1].loss
    True

    Predicting N where V is right costs three times as much as the reverse:

    >>> def cost(gold, other):
    ...     return 0 if gold == other else 3 if gold == "V" else 1
    >>> tl.StructuredSVM(features="words", cost=cost).fit(X, y).cost_
    array([[0., 1.],
           [3., 0.]])
    """

    algorithm: str = choice(
        default="subgradient",
        choices=ALGORITHMS,
        help="The learner of the weights.",
        details='"subgradient" takes steps of a falling rate and averages the weights. '
        '"frank-wolfe" maximises the dual sentence by sentence. After each epoch it computes an '
        "upper bound on the distance from the optimum (``gap`` in ``history_``), and it stops when "
        "that is small.",
    )
    C: float = number(
        default=0.3, above=0, help="Weight of the losses relative to the size of the weights."
    )
    cost: Any = parameter(
        default="hamming",
        type='"hamming", array [Y, Y] or callable',
        is_option=False,
        help="The cost of a mistake.",
        details='"hamming": 1 for every wrong label. An array: the cost of predicting the label of '
        "the column where that of the row is right, in the order of ``labels_``. A function of the "
        "right label and the other one. Costs are not negative, and 0 for the right label.",
    )
    average: bool = flag(
        default=True,
        help="Whether subgradient predicts with the mean of its weights.",
        details="Those after step k have the weight k.",
    )
    tolerance: float = number(
        default=1e-3,
        least=0,
        help="Frank-wolfe stops when the gap is at most this part of the objective.",
    )
    shuffle: bool = flag(
        default=True, help="Whether each epoch takes the sentences in a new order."
    )
    max_iterations: int | None = count(
        default=None,
        help="The largest number of epochs, 15 for subgradient and 50 for frank-wolfe.",
    )
    patience: int | None = count(
        default=None,
        help="With development data: stop after this many epochs without a better score.",
        details="3 by default.",
    )
    warm_start: bool = flag(default=False, details='Only with "subgradient".')

    cost_ = Learned["Float64"]()

    _fitted: SVMFitted = attribute(init=False)
    _state_type = SVMFitted

    def can(self, capability: Capability) -> bool:
        """Whether the model has a capability; "frank-wolfe" does not take open labels."""
        if capability is Capability.OPEN_LABELS and self.algorithm == "frank-wolfe":
            return False  # its loss would not be convex
        return super().can(capability)

    @property
    def is_online(self) -> bool:
        """Whether the learner is online: always."""
        return True

    @property
    def takes_parts(self) -> bool:
        """Whether the learner can take a corpus in parts."""
        return self.algorithm != "frank-wolfe"

    _can_mix = False

    @property
    def _part_algorithm(self) -> str:
        return "subgradient"

    def default_limits(self) -> tuple[int, int]:
        """Return the largest number of epochs and the patience of the algorithm."""
        return (15, 3) if self.algorithm == "subgradient" else (50, 3)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.warm_start and self.algorithm == "frank-wolfe":
            raise ParameterError(
                parameter="warm_start",
                expected="False with the algorithm 'frank-wolfe', which continues from the paths "
                "of each sentence, not from weights",
                found="True",
                hint="Choose {algorithm}, or a {checkpoint}, which keeps the paths.",
                options={"algorithm": "subgradient", "checkpoint": ...},
            )

    def _read(
        self, X: Any, y: Any, sample_weight: Any, start: Known | None, *, in_parts: bool = False
    ) -> TrainingData:
        data = super()._read(X, y, sample_weight, start, in_parts=in_parts)
        data.cost = self._costs(data.names)
        return data

    def _costs(self, names: Sequence[str]) -> Float64:
        return cost_matrix(self.cost, names)

    def _optimiser(
        self,
        data: TrainingData | None,
        objective: _native.LinearObjective | None,
        theta: Float64 | None,
    ) -> training.Optimiser:
        cost = None if data is None else data.cost
        if self.algorithm == "frank-wolfe":
            return training.FrankWolfe(
                objective,
                C=self.C,
                cost=cost,
                tolerance=self.tolerance,
                shuffle=self.shuffle,
                random_state=self.random_state,
            )
        return training.Subgradient(
            objective,
            C=self.C,
            cost=cost,
            average=self.average,
            shuffle=self.shuffle,
            random_state=self.random_state,
            theta=theta,
        )

    # Arrays and functions are stored as the costs that they give.

    def identity(self, data: TrainingData) -> dict[str, Any]:
        """Return the identity of a run, which must equal that of the checkpoint to resume."""
        costs = None if data.cost is None else data.cost.tolist()
        return super().identity(data) | {"cost": costs}

    def _extra_state(self, data: TrainingData) -> dict[str, Any]:
        return {"cost": data.cost}

    def to_file(self) -> File:
        """Return the fitted state as a header of plain data and arrays."""
        file = super().to_file()
        if not isinstance(self.cost, str):
            file.header["params"]["cost"] = self.cost_.tolist()
        return file

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a tagger from the result of `to_file`; everything is checked."""
        tagger = super().from_file(file, features=features)
        costs = cost_matrix(tagger.cost, tagger.labels_.tolist())
        tagger._fitted = replace(tagger._fitted, cost=costs)
        return tagger


def cost_matrix(cost: Any, names: Sequence[str]) -> Float64:
    """Return the value of ``cost=`` as an array [Y, Y], right label × other label.

    Parameters
    ----------
    cost : "hamming", array or callable
        See `StructuredSVM`.
    names : sequence of str
        The Y labels.

    Returns
    -------
    ndarray of float64, shape (Y, Y)

    Raises
    ------
    ParameterError
        If a cost is negative or not finite, or that of a right label is not 0, or the shape is
        wrong.

    Examples
    --------
    >>> cost_matrix("hamming", ["N", "V"])
    array([[0., 1.],
           [1., 0.]])
    >>> cost_matrix(lambda gold, other: 2 * (gold != other), ["N", "V"])
    array([[0., 2.],
           [2., 0.]])
    """
    Y = len(names)
    if isinstance(cost, str):
        checks.choice(cost, "cost", ("hamming",))
        return 1.0 - np.eye(Y)
    if callable(cost):
        cost = [[cost(gold, other) for other in names] for gold in names]
    try:
        costs = np.array(cost, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            parameter="cost",
            expected=f"'hamming', an array of {Y} × {Y} numbers, or a function of the right label "
            "and another one that returns a number",
            found=checks.show(cost),
        ) from None
    if costs.shape != (Y, Y):
        raise ParameterError(
            parameter="cost",
            expected=f"of shape (Y, Y) = ({Y}, {Y}) for the labels {', '.join(names)}",
            found=f"shape {costs.shape}",
        )
    for i, gold in enumerate(names):
        for j, other in enumerate(names):
            value = costs[i, j]
            if not np.isfinite(value) or value < 0 or (i == j and value != 0):
                raise ParameterError(
                    parameter="cost",
                    expected="0 for the right label" if i == j else "finite and not negative",
                    found=f"{value:g} for {other!r} where {gold!r} is right",
                )
    return costs
