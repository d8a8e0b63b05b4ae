"""Semirings, and the one recursion that all of them share, in plain Python.

A trellis sums over paths the product of the transitions on a path; a semiring defines sum (⊕) and
product (⊗). Max and plus give the score of the best path, log-sum and plus the log-partition, or
and and whether any path exists. `reduce_transitions` is that recursion; the native kernels are fast
special cases of it. (Goodman 1999, "Semiring parsing"; for expectations Li and Eisner 2009,
section 3.2.)

A semiring is any object with ``zero``, ``one``, ``plus(a, b)``, ``times(a, b)`` and
``lift(score, t, y_prev, y)``, where ⊕ is associative and commutative with identity ``zero``, ⊗ is
associative with identity ``one``, ⊗ distributes over ⊕, and ``zero`` annihilates. ``lift`` turns
the score of one transition into a value: ``t`` is the position that it enters, ``y_prev`` and
``y`` are its labels; ``y_prev`` is None at the start, and ``y`` is None at the stop, where t = T.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.checks import show
from tagloom.errors import ParameterError, ScoreError
from tagloom.renames import renamed_function
from tagloom.trellis.states import StateSpace, row_sums

if TYPE_CHECKING:
    from tagloom.trellis.trellis import Trellis

V = TypeVar("V")
Array = npt.NDArray[Any]
Value = Callable[[int, int | None, int | None], float]

__all__ = [
    "BOOLEAN",
    "COUNTING",
    "LOG_PLUS",
    "MAX_PLUS",
    "MAX_TIMES",
    "SUM_TIMES",
    "Expectation",
    "KBest",
    "Semiring",
    "SemiringLike",
    "as_semiring",
    "by_name",
    "reduce_transitions",
]


class SemiringLike(Protocol[V]):
    """The attributes of a semiring that `reduce_transitions` uses."""

    @property
    def zero(self) -> V:
        """The value of no path: a ⊕ zero = a, a ⊗ zero = zero."""

    @property
    def one(self) -> V:
        """The value of the empty path: a ⊗ one = a."""

    @property
    def plus(self) -> Callable[[V, V], V]:
        """Return a ⊕ b: one path or the other."""

    @property
    def times(self) -> Callable[[V, V], V]:
        """Return a ⊗ b: one part of a path, then the next."""

    @property
    def lift(self) -> Callable[[float, int, int | None, int | None], V]:
        """The value of a transition, from its score, position and labels."""


@dataclass(frozen=True)
class Semiring(Generic[V]):
    """A semiring of two constants and three functions.

    Parameters
    ----------
    name : str
    zero, one : value
        Identities of ``plus`` and of ``times``.
    plus, times : callable (value, value) -> value
    lift : callable (score, t, y_prev, y) -> value

    Examples
    --------
    The lowest score of a single transition on a path:

    >>> import math
    >>> weakest = Semiring("max-min", -math.inf, math.inf, max, min, lambda score, *where: score)
    >>> weakest.times(-1.0, -3.0)
    -3.0
    """

    name: str
    zero: V
    one: V
    plus: Callable[[V, V], V]
    times: Callable[[V, V], V]
    lift: Callable[[float, int, int | None, int | None], V]

    def __repr__(self) -> str:
        return f"<semiring {self.name}>"


def _exp(score: float, t: int, y_prev: int | None, y: int | None) -> float:
    try:
        return math.exp(score)
    except OverflowError:
        raise _too_large(score, f"transition into position {t}") from None


def _too_large(score: float, where: str | None = None) -> ScoreError:
    return ScoreError(
        where=where,
        expected="exp(score) that fits into a float",
        found=f"exp({score})",
        hint="Use LOG_PLUS or MAX_PLUS, which stay in log space.",
    )


def _score(score: float, t: int, y_prev: int | None, y: int | None) -> float:
    return score


def _is_allowed(score: float, t: int, y_prev: int | None, y: int | None) -> bool:
    return True


def _one_move(score: float, t: int, y_prev: int | None, y: int | None) -> int:
    return 1


def _log_add(a: float, b: float) -> float:
    """Return log(exp a + exp b) without overflow."""
    if a < b:
        a, b = b, a
    return a if b == -math.inf else a + math.log1p(math.exp(b - a))


#: Probability of the best path, scores being log probabilities.
MAX_TIMES: Semiring[float] = Semiring("max-times", 0.0, 1.0, max, operator.mul, _exp)
#: Sum of the probabilities of all paths.
SUM_TIMES: Semiring[float] = Semiring("sum-times", 0.0, 1.0, operator.add, operator.mul, _exp)
#: Score of the best path (the tropical semiring).
MAX_PLUS: Semiring[float] = Semiring("max-plus", -math.inf, 0.0, max, operator.add, _score)
#: Log-partition.
LOG_PLUS: Semiring[float] = Semiring("log-plus", -math.inf, 0.0, _log_add, operator.add, _score)
#: Whether any path is allowed.
BOOLEAN: Semiring[bool] = Semiring("boolean", False, True, operator.or_, operator.and_, _is_allowed)
#: The exact number of allowed paths.
COUNTING: Semiring[int] = Semiring("counting", 0, 1, operator.add, operator.mul, _one_move)

_ATTRIBUTES = ("zero", "one", "plus", "times", "lift")
_BY_NAME = {s.name: s for s in (MAX_TIMES, SUM_TIMES, MAX_PLUS, LOG_PLUS, BOOLEAN, COUNTING)}
_SEMIRINGS = f"one of {', '.join(map(repr, _BY_NAME))}, or an object with {', '.join(_ATTRIBUTES)}"


def by_name(name: str) -> Semiring[Any]:
    """Return a built-in semiring by its name.

    Examples
    --------
    >>> by_name("max-plus")
    <semiring max-plus>
    """
    if name not in _BY_NAME:
        raise ParameterError(parameter="semiring", expected=_SEMIRINGS, found=show(name))
    return _BY_NAME[name]


def as_semiring(given: Any) -> Any:
    """Return a semiring given as an object or by name.

    Raises
    ------
    ParameterError
        If no built-in semiring has that name, or the object lacks an attribute of a semiring.

    Examples
    --------
    >>> as_semiring("counting") is COUNTING
    True
    """
    if isinstance(given, str):
        return by_name(given)
    missing = [name for name in _ATTRIBUTES if not hasattr(given, name)]
    if missing:
        found = f"{show(given)}, which lacks {', '.join(missing)}"
        raise ParameterError(parameter="semiring", expected=_SEMIRINGS, found=found)
    return given


ScoredPath = tuple[float, tuple[int, ...]]


@dataclass(frozen=True)
class KBest:
    """The k best paths: values are tuples of (score, labels), the best first.

    ⊕ merges two lists and ⊗ joins every pair, both cut to k. Of equal scores the path with the
    lower label at the last position comes first, then at the one before, and so on.

    Parameters
    ----------
    k : int
        At least 1.

    Examples
    --------
    >>> kbest = KBest(2)
    >>> a = kbest.plus(kbest.lift(-1.0, 0, None, 0), kbest.lift(-3.0, 0, None, 1))
    >>> kbest.times(a, kbest.lift(-2.0, 1, 0, 1))
    ((-3.0, (0, 1)), (-5.0, (1, 1)))
    """

    k: int

    zero = ()
    one = ((0.0, ()),)

    def __post_init__(self) -> None:
        checks.count(self.k, "k", least=1)

    @staticmethod
    def _rank(path: ScoredPath) -> tuple[float, tuple[int, ...]]:
        return -path[0], path[1][::-1]

    def plus(self, a: tuple[ScoredPath, ...], b: tuple[ScoredPath, ...]) -> tuple[ScoredPath, ...]:
        """Merge, and keep the k best."""
        return tuple(heapq.nsmallest(self.k, a + b, key=self._rank))

    def times(self, a: tuple[ScoredPath, ...], b: tuple[ScoredPath, ...]) -> tuple[ScoredPath, ...]:
        """Join each of ``a`` with each of ``b``, and keep the k best."""
        joined = [(p + q, path + rest) for p, path in a for q, rest in b]
        return tuple(heapq.nsmallest(self.k, joined, key=self._rank))

    def lift(
        self, score: float, t: int, y_prev: int | None, y: int | None
    ) -> tuple[ScoredPath, ...]:
        """Return the one path of one transition; the stop arc adds no label."""
        return ((score, () if y is None else (y,)),)


@dataclass(frozen=True)
class Expectation:
    """Log-partition, and the expected sum of ``value`` over the transitions of a path.

    Values are pairs (log p, mean): a sum of paths with total weight p whose mean value is
    ``mean``. Unlike the pair (p, p·mean) this neither overflows nor underflows::

        (a, x) ⊕ (b, y) = (log(e^a + e^b), (x e^a + y e^b) / (e^a + e^b))
        (a, x) ⊗ (b, y) = (a + b, x + y)

    Parameters
    ----------
    value : callable (t, y_prev, y) -> float, or "score"
        What to sum along a path; "score" means the scores themselves, so that the entropy of
        the paths is log p − mean.

    Examples
    --------
    The expected number of labels 1 in two positions that are independent coins:

    >>> ones = Expectation(lambda t, y_prev, y: float(y == 1))
    >>> coin = ones.plus(ones.lift(0.0, 0, None, 0), ones.lift(0.0, 0, None, 1))
    >>> log_z, mean = ones.times(coin, coin)
    >>> round(log_z, 6), mean
    (1.386294, 1.0)
    """

    value: Value | Literal["score"]

    zero = (-math.inf, 0.0)
    one = (0.0, 0.0)

    def __post_init__(self) -> None:
        if self.value != "score" and not callable(self.value):
            expected = "a function of (t, y_prev, y), or 'score'"
            raise ParameterError(parameter="value", expected=expected, found=show(self.value))

    def plus(self, a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        """Add the weights and average the means by weight."""
        if a[0] < b[0]:
            a, b = b, a
        if b[0] == -math.inf:
            return a
        ratio = math.exp(b[0] - a[0])
        share = ratio / (1.0 + ratio)  # of b in the sum, at most 1/2
        return a[0] + math.log1p(ratio), a[1] + share * (b[1] - a[1])

    def times(self, a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        """Add log weights and means."""
        log_p = a[0] + b[0]
        return self.zero if log_p == -math.inf else (log_p, a[1] + b[1])

    def lift(self, score: float, t: int, y_prev: int | None, y: int | None) -> tuple[float, float]:
        """Return the score of a transition with its value."""
        return score, score if self.value == "score" else float(self.value(t, y_prev, y))


def reduce_transitions(
    semiring: SemiringLike[V],
    states: StateSpace,
    emit: Array,
    trans: Array,
    start: Array,
    stop: Array,
    edge: Array | None,
    weights: Array,
) -> V:
    r"""Sum over all paths of one sequence the product of their transitions, in any semiring.

    With y the label of state s, y' that of p, and w the weights tied to a transition or start::

        v[0, s] = lift(start[y] + emit[0, y] + Σ w, 0, None, y)                     s initial
        v[t, s] = ⊕_{p → s} v[t-1, p] ⊗ lift(score of p → s, t, y', y)
          where the score is emit[t, y] + edge[t, y', y] + trans[y', y] + Σ w
        result  = ⊕_s v[T-1, s] ⊗ lift(stop[y], T, y, None)                         s final

    A transition whose score is −inf does not exist and is not lifted. Takes O(T·M) calls of the
    semiring; for the built-in semirings on long sequences use the native kernels.

    Parameters
    ----------
    semiring : Semiring, KBest, Expectation, or any object like them
    states : StateSpace
        With S states and M transitions.
    emit : ndarray, shape (T, Y)
    trans : ndarray, shape (Y, Y)
    start, stop : ndarray, shape (Y,)
    edge : ndarray, shape (T, Y, Y), or None
        Row 0 is not used.
    weights : ndarray, shape (states.n_weights,)

    Returns
    -------
    value
        ``semiring.one`` for an empty sequence, ``semiring.zero`` if every path is impossible.

    Examples
    --------
    >>> import numpy as np
    >>> zeros = np.zeros(2)
    >>> reduce_transitions(
    ...     COUNTING, StateSpace.first_order(2), np.zeros((3, 2)), np.zeros((2, 2)),
    ...     zeros, zeros, None, np.zeros(0),
    ... )
    8
    """
    T, y_of = len(emit), states.state_labels.tolist()
    if T == 0:
        return semiring.one
    y_src, y_dst = states.state_labels[states.src], states.state_labels[states.dst]  # [M]
    first = start[states.state_labels] + row_sums(  # [S] but for emit
        weights, states.start_tie_indptr, states.start_tie_ids
    )
    fixed = trans[y_src, y_dst] + row_sums(weights, states.tie_indptr, states.tie_ids)  # [M]
    transitions = list(zip(states.src.tolist(), states.dst.tolist(), strict=True))

    v: dict[int, V] = {}  # state -> value of all paths that end there, for reached states
    for s, score in _allowed(
        np.where(states.initial, first + emit[0, states.state_labels], -np.inf)
    ):
        v[s] = semiring.lift(score, 0, None, y_of[s])
    for t in range(1, T):
        scores = fixed + emit[t, y_dst]  # [M]
        if edge is not None:
            scores = scores + edge[t, y_src, y_dst]
        v_prev, v = v, {}
        for m, score in _allowed(scores):
            p, s = transitions[m]
            if p in v_prev:
                value = semiring.times(v_prev[p], semiring.lift(score, t, y_of[p], y_of[s]))
                v[s] = semiring.plus(v[s], value) if s in v else value
    total = semiring.zero
    for s, score in _allowed(np.where(states.final, stop[states.state_labels], -np.inf)):
        if s in v:
            value = semiring.times(v[s], semiring.lift(score, T, y_of[s], None))
            total = semiring.plus(total, value)
    return total


def _allowed(scores: Array) -> Iterator[tuple[int, float]]:
    """Yield (index, score) of the scores that are not −inf."""
    return ((i, score) for i, score in enumerate(scores.tolist()) if score > -math.inf)


def reduce_trellis(semiring: Any, trellis: Trellis) -> list[Any]:
    """Return the sum over paths of each sequence, by native kernels where they exist."""
    semiring = as_semiring(semiring)
    if semiring is LOG_PLUS:
        return _values(trellis.log_partition())
    if semiring is BOOLEAN:
        return _values(trellis.is_feasible())
    if semiring is MAX_PLUS:
        return _values(trellis.viterbi(on_infeasible="none").score)
    if semiring is SUM_TIMES:
        return [_exp_score(z) for z in reduce_trellis(LOG_PLUS, trellis)]
    if semiring is MAX_TIMES:
        return [_exp_score(score) for score in reduce_trellis(MAX_PLUS, trellis)]
    if isinstance(semiring, KBest):
        results = trellis.nbest(semiring.k)
        return [
            tuple(zip(best.scores.tolist(), map(tuple, best.paths.tolist()), strict=True))
            for best in (results if trellis.is_batch else [results])
        ]
    return [_reduce_one(semiring, one) for one in (trellis if trellis.is_batch else [trellis])]


def _reduce_one(semiring: Any, trellis: Trellis) -> Any:
    Y, space = trellis.n_labels, trellis.states

    def array(scores: Array | None, *shape: int) -> Array:
        return np.zeros(shape) if scores is None else scores.astype(np.float64)

    return reduce_transitions(
        semiring,
        space,
        trellis.emit.astype(np.float64),
        array(trellis.trans, Y, Y),
        array(trellis.start, Y),
        array(trellis.stop, Y),
        None if trellis.edge is None else trellis.edge.astype(np.float64),
        array(trellis.weights, space.n_weights),
    )


def _values(per_sequence: Any) -> list[Any]:
    return list(np.atleast_1d(per_sequence).tolist())


def _exp_score(score: float) -> float:
    try:
        return math.exp(score)
    except OverflowError:
        raise _too_large(score) from None


reduce_moves = renamed_function("reduce_moves", reduce_transitions)
