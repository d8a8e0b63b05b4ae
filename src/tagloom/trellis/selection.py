"""Selection of labelled spans under constraints: the inference of semantic roles.

`select_spans` chooses, among candidates with scores, the spans of maximal total score such that
none overlap and declarative constraints hold. A constraint is a small automaton that reads the
labels of the chosen spans from left to right; the native core searches the product of positions and
states, of which it builds only what candidates reach.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.checks import show
from tagloom.errors import InfeasibleError, ParameterError, ShapeError
from tagloom.trellis.inputs import as_list, check_offsets, check_scores
from tagloom.trellis.machine import ALL_THREADS
from tagloom.trellis.structures import OnInfeasible

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Automaton = tuple[npt.NDArray[np.int32], Bool]  # next state [states, labels], is_final [states]


# ---- constraints ---------------------------------------------------------------------------------


class SpanConstraint(ABC):
    """A condition on the labels of the chosen spans, read from left to right.

    Examples
    --------
    >>> from tagloom.trellis import AtMostOnce
    >>> table, is_final = AtMostOnce("A0").automaton(["A0", "A1"])
    >>> table.tolist()  # the next state after A0 and after A1; −1 is forbidden
    [[1, 0], [-1, 1]]
    """

    @abstractmethod
    def automaton(self, labels: Sequence[str]) -> Automaton | None:
        """Return next states [states, labels], −1 for forbidden, and final states.

        None if the labels cannot break the constraint.
        """

    def accepts(self, labels: Sequence[str]) -> bool:
        """Whether labels, from left to right, satisfy the constraint.

        Examples
        --------
        >>> from tagloom.trellis import AtMostOnce
        >>> AtMostOnce("A0").accepts(["A0", "A1"]), AtMostOnce("A0").accepts(["A0", "A0"])
        (True, False)
        """
        names = sorted(set(labels))
        automaton = self.automaton(names)
        if automaton is None:
            return True
        table, is_final = automaton
        state = 0
        for label in labels:
            state = int(table[state, names.index(label)])
            if state < 0:
                return False
        return bool(is_final[state])


def _table(n_states: int, n_labels: int) -> npt.NDArray[np.int32]:
    """Return transitions that stay in each state."""
    return np.repeat(np.arange(n_states, dtype=np.int32)[:, None], n_labels, axis=1)


@dataclass(frozen=True)
class AtMostOnce(SpanConstraint):
    """At most one chosen span has this label.

    Examples
    --------
    >>> from tagloom.trellis import AtMostOnce, select_spans
    >>> select_spans([(0, 1, "A0"), (1, 2, "A0")], [1.0, 2.0], [AtMostOnce("A0")]).spans
    [(1, 2, 'A0')]
    """

    label: str

    def automaton(self, labels: Sequence[str]) -> Automaton | None:
        """Count up to one."""
        if self.label not in labels:
            return None
        table = _table(2, len(labels))
        table[:, labels.index(self.label)] = [1, -1]
        return table, np.array([True, True])


@dataclass(frozen=True)
class ExactlyOnce(SpanConstraint):
    """Exactly one chosen span has this label.

    Examples
    --------
    >>> from tagloom.trellis import ExactlyOnce, select_spans
    >>> select_spans([(0, 1, "A0"), (1, 2, "A0")], [-1.0, -2.0], [ExactlyOnce("A0")]).spans
    [(0, 1, 'A0')]
    """

    label: str

    def automaton(self, labels: Sequence[str]) -> Automaton | None:
        """Count up to one, and end there."""
        table = _table(2, len(labels))
        if self.label in labels:
            table[:, labels.index(self.label)] = [1, -1]
        return table, np.array([False, True])


@dataclass(frozen=True)
class OnlyIf(SpanConstraint):
    """A span may have the label only if a chosen span, before or after it, has the other one.

    Examples
    --------
    >>> from tagloom.trellis import OnlyIf, select_spans
    >>> select_spans([(0, 1, "R-A0"), (1, 2, "A0")], [1.0, -2.0], [OnlyIf("R-A0", "A0")]).spans
    []
    """

    label: str
    other: str

    def automaton(self, labels: Sequence[str]) -> Automaton | None:
        """Remember whether the label still waits for the other one."""
        if self.label not in labels:
            return None
        table = _table(3, len(labels))  # neither; waiting; the other one was seen
        table[:, labels.index(self.label)] = [1, 1, 2]
        if self.other in labels:
            table[:, labels.index(self.other)] = 2
        return table, np.array([True, False, True])


@dataclass(frozen=True)
class OnlyAfter(SpanConstraint):
    """A span may have the label only after a chosen span with the other one, as C-X after X.

    Examples
    --------
    >>> from tagloom.trellis import OnlyAfter, select_spans
    >>> select_spans([(0, 1, "C-A0"), (1, 2, "A0")], [1.0, 2.0], [OnlyAfter("C-A0", "A0")]).spans
    [(1, 2, 'A0')]
    """

    label: str
    other: str

    def automaton(self, labels: Sequence[str]) -> Automaton | None:
        """Forbid the label until the other one was seen."""
        if self.label not in labels:
            return None
        table = _table(2, len(labels))
        table[0, labels.index(self.label)] = -1
        if self.other in labels:
            table[:, labels.index(self.other)] = 1
        return table, np.array([True, True])


@dataclass(frozen=True)
class OnlyLabels(SpanConstraint):
    """Only these labels may be chosen, such as the roles that a predicate has.

    Examples
    --------
    >>> from tagloom.trellis import OnlyLabels, select_spans
    >>> spans = [(0, 1, "A0"), (1, 2, "A4")]
    >>> select_spans(spans, [1.0, 2.0], [OnlyLabels(frozenset({"A0"}))]).spans
    [(0, 1, 'A0')]
    """

    labels: frozenset[str]

    def automaton(self, labels: Sequence[str]) -> Automaton | None:
        """Forbid all other labels."""
        table = _table(1, len(labels))
        table[0, [label not in self.labels for label in labels]] = -1
        return (table, np.array([True])) if (table < 0).any() else None


# ---- selection -----------------------------------------------------------------------------------


class Selected(NamedTuple):
    """The chosen spans of one sequence."""

    spans: list[tuple[int, int, str]]  #: (start, end, label), from left to right
    indices: list[int]  #: their numbers among the candidates
    score: float  #: their total score
    prob: float  #: exp(score − log_partition)


class SpanSelection:
    r"""All selections of candidate spans that do not overlap and satisfy constraints.

    The score of a selection is the sum over its spans; the empty selection has score 0.
    Probabilities are proportional to exp(score).

    Parameters
    ----------
    candidates : sequence of (start, end, label)
        Labelled spans; the same span may be a candidate for several labels.
    scores : array, shape (C,)
        −inf forbids a candidate.
    constraints : iterable of SpanConstraint
        `AtMostOnce`, `ExactlyOnce`, `OnlyIf`, `OnlyAfter`, `OnlyLabels`, or others that return an
        automaton.
    offsets : array of int, shape (N + 1,), optional
        Makes it a batch: sequence i has the candidates ``offsets[i]`` to ``offsets[i + 1] − 1``.
    n_threads : int, optional

    Examples
    --------
    >>> from tagloom.trellis import AtMostOnce, SpanSelection
    >>> spans = [(0, 2, "A0"), (3, 5, "A0"), (3, 5, "A1"), (1, 4, "A1")]
    >>> selection = SpanSelection(spans, [2.0, 1.5, 1.0, 2.5], [AtMostOnce("A0")])
    >>> selection.best().spans
    [(0, 2, 'A0'), (3, 5, 'A1')]
    >>> [one.score for one in selection.nbest(3)]
    [3.0, 2.5, 2.0]
    >>> selection.marginals().round(3)
    array([0.574, 0.094, 0.476, 0.255])
    """

    def __init__(
        self,
        candidates: Sequence[tuple[int, int, str]],
        scores: npt.ArrayLike,
        constraints: Iterable[SpanConstraint] = (),
        *,
        offsets: npt.ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.candidates = [_read_candidate(one, i) for i, one in enumerate(candidates)]
        C = len(self.candidates)
        values = np.asarray(check_scores(scores, "scores", np.float64), dtype=np.float64)
        if values.shape != (C,):
            expected = f"of shape (C,) = ({C},), one per candidate"
            raise ShapeError(parameter="scores", expected=expected, found=str(values.shape))
        self.scores = values
        self.is_batch = offsets is not None
        self.offsets: Int64 = (
            np.array([0, C])
            if offsets is None
            else check_offsets(offsets, C, rows="number of candidates")
        )
        self.labels = tuple(sorted({label for _, _, label in self.candidates}))
        self._threads = checks.threads(n_threads) or ALL_THREADS
        number = {label: y for y, label in enumerate(self.labels)}
        automata = []
        for one in constraints:
            if not isinstance(one, SpanConstraint):
                raise ParameterError(
                    parameter="constraints",
                    expected="constraints such as AtMostOnce('A0')",
                    found=show(one),
                )
            automaton = one.automaton(self.labels)
            if automaton is not None:
                automata.append(automaton)
        columns = np.array(
            [(start, end, number[label]) for start, end, label in self.candidates], dtype=np.int32
        ).reshape(C, 3)
        self._native = _native.Selections(
            automata,
            len(self.labels),
            np.ascontiguousarray(columns[:, 0]),
            np.ascontiguousarray(columns[:, 1]),
            np.ascontiguousarray(columns[:, 2]),
            self.scores,
            self.offsets,
        )

    def best(self, *, on_infeasible: OnInfeasible = "raise") -> Any:
        """Return the best selection; a list of them for a batch.

        Raises
        ------
        InfeasibleError
            If no selection satisfies the constraints; with "none" it is then None.
        """
        checks.choice(on_infeasible, "on_infeasible", ("raise", "none"))
        found = self._ranked(1)
        for i, ranked in enumerate(found):
            if not ranked and on_infeasible == "raise":
                raise InfeasibleError(
                    "no selection of candidates satisfies the constraints.",
                    sequence=i,
                    position=0,
                    where=f"sequence {i}" if self.is_batch else None,
                    hint="Relax the constraints, or pass on_infeasible='none'.",
                )
        best = [ranked[0] if ranked else None for ranked in found]
        return best if self.is_batch else best[0]

    def nbest(self, n: int) -> Any:
        """Return up to n selections, the best first; a list of such lists for a batch."""
        found = self._ranked(checks.count(n, "n", least=1))
        return found if self.is_batch else found[0]

    def _ranked(self, n: int) -> list[list[Selected]]:
        log_z = self._sums()
        result = []
        for i, (chosen, scores) in enumerate(self._native.nbest(n, self._threads)):
            first = int(self.offsets[i])
            ranked = []
            for row, score in zip(chosen, scores.tolist(), strict=True):
                indices = sorted(
                    (np.flatnonzero(row) + first).tolist(), key=lambda c: self.candidates[c]
                )
                spans = [self.candidates[c] for c in indices]
                prob = float(np.exp(min(score - log_z[i], 0.0)))
                ranked.append(Selected(spans, indices, score, prob))
            result.append(ranked)
        return result

    def log_partition(self) -> Any:
        """Return log Σ exp(score) over all selections: float, or float64 [N]."""
        log_z = self._sums()
        return log_z if self.is_batch else float(log_z[0])

    def marginals(self) -> Float64:
        """Return the probability that each candidate is selected [C]; 0 if nothing can be."""
        marginals = np.zeros(len(self.candidates))
        self._sums(marginals)
        return marginals

    def _sums(self, marginals: Float64 | None = None) -> Float64:
        log_z = np.zeros(len(self.offsets) - 1)
        self._native.sum(log_z, marginals, self._threads)
        return log_z


def select_spans(
    candidates: Sequence[tuple[int, int, str]],
    scores: npt.ArrayLike,
    constraints: Iterable[SpanConstraint] = (),
) -> Selected:
    """Choose labelled spans of maximal total score that do not overlap and satisfy constraints.

    Parameters
    ----------
    candidates : sequence of (start, end, label)
    scores : array, shape (C,)
    constraints : iterable of SpanConstraint
        See `SpanSelection`, which also has n-best lists and probabilities.

    Raises
    ------
    InfeasibleError
        If no selection satisfies the constraints.

    Examples
    --------
    >>> from tagloom.trellis import OnlyAfter, select_spans
    >>> select_spans([(0, 1, "C-A1"), (2, 3, "A1")], [3.0, 1.0], [OnlyAfter("C-A1", "A1")]).spans
    [(2, 3, 'A1')]
    """
    selected: Selected = SpanSelection(candidates, scores, constraints).best()
    return selected


def _read_candidate(candidate: Any, i: int) -> tuple[int, int, str]:
    parts = as_list(candidate, ordered=True)
    if (
        parts is None
        or len(parts) != 3
        or not all(isinstance(x, int | np.integer) and not isinstance(x, bool) for x in parts[:2])
        or not isinstance(parts[2], str)
        or not 0 <= parts[0] < parts[1]
    ):
        raise ShapeError(
            where=f"candidates[{i}]",
            expected="(start, end, label) with 0 <= start < end",
            found=show(candidate),
        )
    return int(parts[0]), int(parts[1]), parts[2]
