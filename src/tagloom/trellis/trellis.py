"""The trellis: scores in, every question about the paths through them answered.

One class, `Trellis`, for one sequence and for a ragged batch alike. It checks what it is given,
picks the layout that the native core should run, and asks it. Two layouts exist:

    dense      states are labels, or label histories of order k: kernels on scaled probabilities
    automaton  any state space: log space

Where scaled probabilities could lose precision the dense kernels say so, sequence by sequence, and
the automaton answers instead: results are exact whatever the scores.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import InfeasibleError, LabelError, ParameterError, ScoreError, ShapeError
from tagloom.trellis.machine import ALL_THREADS
from tagloom.trellis.states import (
    Label,
    StateSpace,
    as_array,
    as_list,
    check_count,
    check_space,
    row_sums,
)

Floats = npt.NDArray[np.floating[Any]]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Bool = npt.NDArray[np.bool_]
Positions = slice | npt.NDArray[np.int64]
OnInfeasible = Literal["raise", "none"]
LabelSet = Label | Iterable[Label]


class Best(NamedTuple):
    """The best path and its score."""

    path: Int32  #: label ids [T], flat for a batch; −1 where a sequence has no path
    score: Any  #: float, or float64 [N] for a batch; −inf where there is no path


class NBest(NamedTuple):
    """The k ≤ n best paths of one sequence, the best first."""

    paths: Int32  #: label ids [k, T]
    scores: Float64  #: [k]
    probs: Float64  #: [k] probability of each path: exp(score − log_partition)


class Posterior(NamedTuple):
    """The most probable label at each position, by itself."""

    path: Int32  #: label ids [T], flat for a batch
    confidence: Floats  #: [T] its marginal probability


class Counts(NamedTuple):
    """Expected numbers of events, summed over the sequences of a batch."""

    labels: Float64  #: [Y] positions with label y
    transitions: Float64  #: [Y, Y] neighbours y_prev, y
    start: Float64  #: [Y] sequences that begin with y
    stop: Float64  #: [Y] sequences that end with y
    weights: Float64  #: [K] uses of each weight that the state space ties to its moves


_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_ZEROS = np.zeros(2, dtype=np.int64)


V = TypeVar("V")


class _Kept(cached_property[V]):
    """A property that is worked out once, without the lock that Python before 3.12 takes for it.

    The lock takes half a microsecond: too much where a whole answer takes ten.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> _Kept[V]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> V: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[str(self.attrname)] = self.func(instance)  # found from now on
        return value


class Trellis:
    r"""All label paths of a sequence, or of a batch of sequences, with their scores.

    The score of a move into position t, from a state with label y_prev to one with label y, is::

        s_t = emit[t, y] + edge[t, y_prev, y] + trans[y_prev, y] + Σ weights tied to the move

    A path adds ``start[y]`` before its first label and ``stop[y]`` after its last. −inf forbids.
    An empty sequence has one empty path, with score 0.

    Parameters
    ----------
    emit : array, shape (T, Y)
        Score of label y at position t. float32 is kept, everything else becomes float64; the
        other arrays follow. For a batch, the positions of all sequences one after another.
    trans : array, shape (Y, Y), optional
        Score of y_prev → y, from → to. Missing arrays are zero.
    start, stop : array, shape (Y,), optional
    edge : array, shape (T, Y, Y), optional
        Score of y_prev → y that depends on the position; the row of a sequence's first position is
        not used.
    offsets : array of int, shape (N + 1,), optional
        Makes it a batch: sequence i is ``emit[offsets[i]:offsets[i + 1]]``.
    states : StateSpace, optional
        Which paths there are and which weights their moves are tied to; by default all.
    weights : array, shape (states.n_weights,), optional
        The tied weights, see `StateSpace.pack`.
    labels : sequence of str, optional
        Names of the labels, for drawings and messages, and so that paths and constraints can be
        given by name. By default those of ``states``.
    n_threads : int, optional
        For batches; by default all cores that the process may use.

    Raises
    ------
    ShapeError
        If the arrays do not fit each other.
    ScoreError
        If a score is NaN or +inf.
    ParameterError
        If ``states`` is no state space, or ``n_threads`` no number of threads.

    Notes
    -----
    Results of a batch: per-position results are flat and aligned with ``emit`` (`split` cuts them),
    per-sequence results have shape (N,). Indexing and iterating give single trellises.

    Ties go to the lowest label at the last position, then at each position before it.

    Memory beyond inputs and results, where states are labels or histories of order k: `viterbi`
    needs O(S·(1024 + T / 1024)), `log_partition` O(S + M) with M moves, `marginals` and what is
    built on them O(T·S). In any other state space `viterbi` needs O(T·S) too.

    Examples
    --------
    The scores of "they can fish" (Eisenstein, Introduction to NLP, table 7.1):

    >>> import numpy as np
    >>> import tagloom as tl
    >>> trellis = tl.Trellis(
    ...     emit=[[-2, -10], [-3, -1], [-3, -3]],
    ...     trans=[[-3, -1], [-1, -3]],
    ...     start=[-1, -2],
    ...     stop=[-1, -1],
    ...     labels=["N", "V"],
    ... )
    >>> trellis.viterbi()
    Best(path=array([0, 1, 0], dtype=int32), score=-10.0)
    >>> round(trellis.log_partition(), 6)
    -9.854889
    >>> trellis.constrain(forced={2: "V"}).viterbi().path
    array([0, 1, 1], dtype=int32)
    """

    def __init__(
        self,
        emit: npt.ArrayLike,
        trans: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        stop: npt.ArrayLike | None = None,
        *,
        edge: npt.ArrayLike | None = None,
        offsets: npt.ArrayLike | None = None,
        states: StateSpace | None = None,
        weights: npt.ArrayLike | None = None,
        labels: Sequence[str] | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_threads = (
            None if n_threads is None else check_count(n_threads, "n_threads", 1, ParameterError)
        )
        self.emit, self._largest_emit = measure_scores(emit, "emit", None, self._threads)
        if self.emit.ndim != 2 or self.emit.shape[1] == 0:
            raise ShapeError(
                f"emit must have shape (T, Y) with at least one label; got {self.emit.shape}."
            )
        tokens, Y = self.emit.shape
        dtype = self.emit.dtype
        self.trans = self._checked(trans, "trans", "(Y, Y)", (Y, Y), dtype)
        self.start = self._checked(start, "start", "(Y,)", (Y,), dtype)
        self.stop = self._checked(stop, "stop", "(Y,)", (Y,), dtype)
        self.edge = self._checked(edge, "edge", "(T, Y, Y)", (tokens, Y, Y), dtype)
        self.is_batch = offsets is not None
        self.offsets = _one_sequence(tokens) if offsets is None else _offsets(offsets, tokens)
        if states is not None and check_space(states, "states").n_labels != Y:
            raise ShapeError(
                f"states has {states.n_labels} labels, but emit {self.emit.shape} has {Y}."
            )
        self._states = states
        n_weights = 0 if states is None else states.n_weights
        self.weights = self._checked(weights, "weights", "(K,)", (n_weights,), dtype)
        if labels is None and states is not None:
            labels = states.labels
        self.labels = None if labels is None else _names(labels, Y)
        if states is not None and states.labels is not None and self.labels != states.labels:
            raise LabelError(
                f"labels {list(self.labels or ())} are not those of states, {list(states.labels)}. "
                "Leave labels out, or build the state space with these."
            )

    def _checked(
        self, array: npt.ArrayLike | None, name: str, form: str, shape: tuple[int, ...], dtype: Any
    ) -> Floats | None:
        if array is None:
            return None
        checked, _ = measure_scores(array, name, dtype, 1)
        if checked.shape != shape:
            raise ShapeError(
                f"{name} must have shape {form} = {shape} to match emit {self.emit.shape}; "
                f"got {checked.shape}."
            )
        return checked

    @classmethod
    def stack(
        cls,
        emits: Sequence[npt.ArrayLike],
        trans: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        stop: npt.ArrayLike | None = None,
        *,
        edge: Sequence[npt.ArrayLike] | None = None,
        **options: Any,
    ) -> Trellis:
        """Build a batch from one array of scores per sequence.

        Parameters
        ----------
        emits : sequence of array, each of shape (T_i, Y)
        trans, start, stop : array, optional
            Shared by all sequences.
        edge : sequence of array, each of shape (T_i, Y, Y), optional
        **options
            As for `Trellis`.

        Examples
        --------
        >>> import numpy as np
        >>> batch = Trellis.stack([np.zeros((2, 3)), np.zeros((4, 3))])
        >>> len(batch), batch.lengths
        (2, array([2, 4]))
        """
        arrays = [as_array(emit, f"emits[{i}]") for i, emit in enumerate(emits)]
        for i, array in enumerate(arrays):
            if array.ndim != 2 or array.shape[1:] != arrays[0].shape[1:]:
                raise ShapeError(
                    f"emits[{i}] must have shape (T, Y) with the Y of emits[0] "
                    f"{arrays[0].shape}; got {array.shape}."
                )
        if not arrays:
            raise ShapeError(
                "stack needs at least one sequence to know the labels. For an empty batch: "
                "Trellis(np.empty((0, Y)), ..., offsets=[0])."
            )
        offsets = np.cumsum([0] + [len(array) for array in arrays])
        flat_edge = None
        if edge is not None:
            edges = [as_array(one, f"edge[{i}]") for i, one in enumerate(edge)]
            if len(edges) != len(arrays):
                raise ShapeError(
                    f"edge must have an array for each of {len(arrays)} sequences; "
                    f"got {len(edges)}."
                )
            for i, (one, array) in enumerate(zip(edges, arrays, strict=True)):
                shape = (*array.shape, array.shape[1])
                if one.shape != shape:
                    raise ShapeError(
                        f"edge[{i}] must have shape (T, Y, Y) = {shape} to match emits[{i}] "
                        f"{array.shape}; got {one.shape}."
                    )
            flat_edge = np.concatenate(edges)
        return cls(
            np.concatenate(arrays), trans, start, stop, edge=flat_edge, offsets=offsets, **options
        )

    def with_scores(
        self,
        emit: npt.ArrayLike,
        *,
        edge: npt.ArrayLike | None = None,
        offsets: npt.ArrayLike | None = None,
    ) -> Trellis:
        """Make a trellis with the same moves for other sequences.

        The moves, labels and state space are shared: quicker than `Trellis` when one model scores
        many sequences.

        Parameters
        ----------
        emit : array, shape (T, Y)
            Converted to the type of this trellis.
        edge : array, shape (T, Y, Y), optional
        offsets : array of int, shape (N + 1,), optional
            Makes it a batch.

        Returns
        -------
        Trellis

        Raises
        ------
        ShapeError, ScoreError
            As for `Trellis`.

        Examples
        --------
        >>> model = Trellis(np.empty((0, 2)), trans=[[0.0, 1.0], [1.0, 0.0]])
        >>> model.with_scores([[0.5, 0.0], [0.0, 0.0]]).viterbi().path
        array([0, 1], dtype=int32)
        """
        scores, largest = measure_scores(emit, "emit", self.emit.dtype, self._threads)
        Y = self.emit.shape[1]
        if scores.ndim != 2 or scores.shape[1] != Y:
            raise ShapeError(f"emit must have shape (T, Y) with Y = {Y}; got {scores.shape}.")
        tokens = len(scores)
        new = self._like(
            emit=scores,
            _largest_emit=largest,
            edge=None,
            is_batch=offsets is not None,
            offsets=np.array([0, tokens], dtype=np.int64)
            if offsets is None
            else _offsets(offsets, tokens),
        )
        if edge is not None:
            new.edge = new._checked(edge, "edge", "(T, Y, Y)", (tokens, Y, Y), self.emit.dtype)
        return new

    def tempered(self, temperature: float) -> Trellis:
        """Return a trellis whose scores are divided by a temperature.

        The order of the paths stays; above 1 their probabilities draw together, below 1 apart.

        Parameters
        ----------
        temperature : float
            Above 0.

        Returns
        -------
        Trellis

        Raises
        ------
        ParameterError
            If it is not above 0.

        Examples
        --------
        >>> trellis = Trellis([[0.0, 2.0]])
        >>> trellis.marginals().round(3), trellis.tempered(2).marginals().round(3)
        (array([[0.119, 0.881]]), array([[0.269, 0.731]]))
        """
        if not 0 < temperature < math.inf:
            raise ParameterError(f"temperature must be a number above 0; got {temperature!r}.")
        factor = self.dtype.type(temperature)
        return self._map_scores(lambda scores: scores / factor)

    def astype(self, dtype: npt.DTypeLike) -> Trellis:
        """Return a trellis whose scores, and so whose marginals, are of another type.

        Parameters
        ----------
        dtype : float32 or float64

        Returns
        -------
        Trellis

        Examples
        --------
        >>> Trellis(np.zeros((1, 2), dtype=np.float32)).astype(np.float64).marginals().dtype
        dtype('float64')
        """
        if np.dtype(dtype) not in (_FLOAT32, _FLOAT64):
            raise ParameterError(f"dtype must be float32 or float64; got {np.dtype(dtype)}.")
        return self._map_scores(lambda scores: _cast(scores, np.dtype(dtype), "scores"))

    def _map_scores(self, function: Callable[[Floats], Floats]) -> Trellis:
        names = ("emit", "trans", "start", "stop", "edge", "weights")
        arrays = {name: getattr(self, name) for name in names}
        new: dict[str, Any] = {
            name: None if array is None else function(array) for name, array in arrays.items()
        }
        largest = np.array([self._largest_emit], dtype=self.dtype)
        return self._like(_largest_emit=float(function(largest)[0]), **new)

    # ---- what it is ------------------------------------------------------------------------

    @property
    def n_labels(self) -> int:
        """Y, the number of labels."""
        return int(self.emit.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the type of the scores and of the marginals."""
        return self.emit.dtype

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of positions of each sequence [N]."""
        return np.diff(self.offsets)

    @property
    def states(self) -> StateSpace:
        """The state space; first order unless another was given."""
        if self._states is None:
            self._states = StateSpace.first_order(self.labels or self.n_labels)
        return self._states

    def __len__(self) -> int:
        if not self.is_batch:
            raise TypeError(
                "A single trellis has no len(); its number of positions is trellis.emit.shape[0]."
            )
        return len(self.offsets) - 1

    def __getitem__(self, i: int | slice) -> Trellis:
        if not self.is_batch:
            raise TypeError("A single trellis cannot be indexed; only a batch can.")
        n = len(self)
        if isinstance(i, slice):
            return self._subset(np.arange(n)[i])[0]
        try:
            i = operator.index(i)
        except TypeError:
            raise TypeError(f"a batch is indexed by an int or a slice; got {i!r}") from None
        if not -n <= i < n:
            raise IndexError(f"sequence {i} of a batch of {n}")
        i %= n
        return self._slice(int(self.offsets[i]), int(self.offsets[i + 1]))

    def __iter__(self) -> Iterator[Trellis]:
        if not self.is_batch:
            raise TypeError("A single trellis cannot be iterated; only a batch can.")
        return (self[i] for i in range(len(self)))

    def __getstate__(self) -> dict[str, Any]:
        derived = {"_automaton", "_moves", "moves"}
        return {name: value for name, value in self.__dict__.items() if name not in derived}

    def __repr__(self) -> str:
        size = f"{len(self)} sequences, {len(self.emit)}" if self.is_batch else f"{len(self.emit)}"
        space = "" if self._states is None else f", {self._states!r}"
        return f"<Trellis: {size} positions, {self.n_labels} labels, {self.dtype}{space}>"

    def split(self, flat: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Cut a flat per-position result of a batch into one view per sequence.

        Examples
        --------
        >>> batch = Trellis.stack([np.zeros((2, 3)), np.zeros((1, 3))])
        >>> batch.split(batch.viterbi().path)
        [array([0, 0], dtype=int32), array([0], dtype=int32)]
        """
        if len(flat) != len(self.emit):
            raise ShapeError(f"Expected {len(self.emit)} rows, one a position; got {len(flat)}.")
        return np.split(flat, self.offsets[1:-1]) if len(self.offsets) > 1 else []

    def _slice(self, lo: int, hi: int) -> Trellis:
        return self._like(
            emit=self.emit[lo:hi],
            edge=None if self.edge is None else self.edge[lo:hi],
            offsets=_one_sequence(hi - lo),
            is_batch=False,
        )

    def _subset(self, sequences: npt.NDArray[np.int64]) -> tuple[Trellis, Positions]:
        """Return some sequences as a batch, and their positions in this one.

        Neighbours are not copied.
        """
        lengths = self.lengths[sequences]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        positions: Positions
        if len(sequences) == 0:
            positions = slice(0, 0)
        elif (np.diff(sequences) == 1).all():
            first, last = sequences[0], sequences[-1]
            positions = slice(int(self.offsets[first]), int(self.offsets[last + 1]))
        else:
            within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
            positions = np.repeat(self.offsets[sequences], lengths) + within
        subset = self._like(
            emit=self.emit[positions],
            edge=None if self.edge is None else self.edge[positions],
            offsets=offsets,
            is_batch=True,
        )
        return subset, positions

    def _like(self, **changes: Any) -> Trellis:
        """Return a copy with some attributes changed, which are known to be right."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        if "trans" in changes:  # what depends on the moves alone is kept otherwise
            other.__dict__.pop("_automaton", None)
            other.__dict__.pop("_moves", None)
            other.__dict__.pop("moves", None)
        other.__dict__.update(changes)
        return other

    # ---- what the native core is given -----------------------------------------------------

    def _dense(self) -> tuple[Float64, Float64, Float64] | None:
        """The moves for the dense kernels of sums, if they apply."""
        of_order = self._states is not None and self._states.kind == "order"
        return None if of_order and self.edge is not None else self._moves

    @_Kept
    def moves(self) -> tuple[Float64, Float64, Float64]:
        """Scores of moves [Y, Y], start [Y] and stop [Y], with zeros for what was not given.

        For states that are labels; −inf where the state space forbids something.
        """
        if self._moves is None or len(self._moves[0]) != 1:
            raise ShapeError(f"{self.states!r} has more states than labels, so no such arrays.")
        return self._moves[0][0, 0], self._moves[1], self._moves[2]

    @_Kept
    def _moves(self) -> tuple[Float64, Float64, Float64] | None:
        """Moves [k, Y^(k-1), Y, Y], start [Y] and stop [Y], if the space is that regular."""
        Y, space = self.emit.shape[1], self._states
        trans = np.zeros((Y, Y)) if self.trans is None else _widened(self.trans)
        start = np.zeros(Y) if self.start is None else _widened(self.start)
        stop = np.zeros(Y) if self.stop is None else _widened(self.stop)
        if space is None:
            return trans.reshape(1, 1, Y, Y), start, stop
        if space.kind == "labels":
            trans = np.where(space.moves_allowed, trans, -np.inf)
            start = np.where(space.initial, start, -np.inf)
            stop = np.where(space.final, stop, -np.inf)
            return trans.reshape(1, 1, Y, Y), start, stop
        if space.kind != "order" or space.history is None:
            return None
        k = space.history
        groups = {} if self.weights is None else space.unpack(self.weights)
        level = np.broadcast_to(trans, (Y,) * (k + 1))  # [h_1 .. h_k, y]
        levels = [level]
        for n in range(3, k + 2):  # the move into position n-2 has a history of n-1 labels
            level = level + groups.get(f"ngram{n}", np.zeros(()))
            levels.append(level)
        by_suffix = np.moveaxis(np.stack(levels), 1, k)  # [k, h_2 .. h_k, h_1, y]
        return np.ascontiguousarray(by_suffix).reshape(k, Y ** (k - 1), Y, Y), start, stop

    @_Kept
    def _automaton(self) -> _native.Automaton:
        """The moves one by one, with their scores, for log space."""
        Y, space = self.n_labels, self.states
        score = self._move_scores()
        start, stop = np.zeros(space.n_states), np.zeros(space.n_states)
        if self.start is not None:
            start += self.start[space.state_labels]
        if self.stop is not None:
            stop += self.stop[space.state_labels]
        if self.weights is not None:
            start += row_sums(self.weights, space.start_tie_indptr, space.start_tie_ids)
        start[~space.initial] = -np.inf
        stop[~space.final] = -np.inf
        return _native.Automaton(Y, space.state_labels, space.src, space.dst, score, start, stop)

    def _move_scores(self) -> Float64:
        """The score of each move of the state space [M], without emit and edge."""
        space = self.states
        score = np.zeros(space.n_moves)
        if self.trans is not None:
            score += self.trans[space.state_labels[space.src], space.state_labels[space.dst]]
        if self.weights is not None:
            score += row_sums(self.weights, space.tie_indptr, space.tie_ids)
        return score

    @property
    def _threads(self) -> int:
        return self.n_threads or ALL_THREADS

    def _answer(self, values: npt.NDArray[Any]) -> Any:
        """Return per-sequence results [N] of a batch, or the one result of a single trellis."""
        return values if self.is_batch else values.item(0)

    def _check_feasible(self, log_z: Float64, on_infeasible: OnInfeasible) -> None:
        """Raise InfeasibleError for the first sequence without a path, unless told not to."""
        if on_infeasible not in ("raise", "none"):
            raise ParameterError(f'on_infeasible must be "raise" or "none"; got {on_infeasible!r}.')
        if len(log_z) == 1 and log_z[0] > -math.inf:  # quick for one sequence
            return
        if on_infeasible == "none" or not np.isneginf(log_z).any():
            return
        i = int(np.flatnonzero(np.isneginf(log_z))[0])
        one = self[i] if self.is_batch else self
        t = one._automaton.first_dead_position(one.emit, one.edge)
        where = f"sequence {i}, " if self.is_batch else ""
        T = len(one.emit)
        what = (
            f"every position can be reached, but no path may stop after position {T - 1}"
            if t == T
            else f"no label is allowed at position {t} after what comes before"
        )
        raise InfeasibleError(
            f"{where}position {t}: {what}. Loosen the constraints, or pass on_infeasible='none'.",
            sequence=i,
            position=t,
        )

    # ---- best paths ------------------------------------------------------------------------

    def viterbi(self, *, on_infeasible: OnInfeasible = "raise") -> Best:
        r"""Find the best path.

        v[t, y] = max_{y_prev} v[t-1, y_prev] + s_t(y_prev, y), and the path is read off from the
        end. Short sequences of a batch are decoded in whole numbers where rounding cannot change
        the path, all others in float64; so the path is that of float64 arithmetic.

        Parameters
        ----------
        on_infeasible : {"raise", "none"}
            What to do with a sequence that has no path: raise, or give it the path −1, −1, ...
            and the score −inf.

        Returns
        -------
        Best
            ``path`` [T] of label ids, flat for a batch; ``score`` float, or [N].

        Raises
        ------
        InfeasibleError
            If a sequence has no path.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).viterbi()
        Best(path=array([1, 1], dtype=int32), score=3.0)
        """
        path = np.empty(len(self.emit), dtype=np.int32)
        score = np.empty(len(self.offsets) - 1)
        dense = self._moves
        if dense is not None:
            _native.dense_viterbi(
                self.emit,
                self.offsets,
                *dense,
                self.edge,
                self._threads,
                self._largest_emit,
                path,
                score,
            )
        else:
            self._automaton.viterbi(self.emit, self.edge, self.offsets, self._threads, path)
            self._automaton.path_score(self.emit, self.edge, self.offsets, path, score)
        self._check_feasible(score, on_infeasible)
        return Best(path, self._answer(score))

    def nbest(self, n: int, *, on_infeasible: OnInfeasible = "none") -> Any:
        """Find the n best paths, all different, the best first.

        They are in the order of the recursion's sums; where scores tie up to rounding, those
        reported may differ from that order in their last digits.

        Parameters
        ----------
        n : int
            At least 1. There may be fewer paths than n.
        on_infeasible : {"none", "raise"}
            Whether a sequence without a path has an empty list, or is an error.

        Returns
        -------
        NBest, or a list of NBest for a batch
            ``paths`` [k, T], ``scores`` [k], ``probs`` [k], k ≤ n.

        Examples
        --------
        >>> trellis = Trellis([[0.0, 1.0], [0.0, 2.0]])
        >>> trellis.nbest(2).paths
        array([[1, 1],
               [0, 1]], dtype=int32)
        """
        n = check_count(n, "n", 1, ParameterError)
        log_z = self._log_partition()
        self._check_feasible(log_z, on_infeasible)
        found = self._automaton.nbest(self.emit, self.edge, self.offsets, n, self._threads)
        results = [
            NBest(paths, scores, np.exp(np.minimum(scores - z, 0.0)))
            for (paths, scores), z in zip(found, log_z, strict=True)
        ]
        return results if self.is_batch else results[0]

    def posterior_decode(self, *, on_infeasible: OnInfeasible = "raise") -> Posterior:
        """Choose at each position the label with the largest marginal probability.

        This maximises the expected number of right labels, where `viterbi` maximises the
        probability that all are right. The labels together need not form an allowed path.

        Parameters
        ----------
        on_infeasible : {"raise", "none"}
            With "none", a sequence without a path gets the labels −1 and confidence 0.

        Returns
        -------
        Posterior
            ``path`` [T] and ``confidence`` [T]; flat for a batch.

        Examples
        --------
        >>> trellis = Trellis([[0.0, 1.0], [0.0, 2.0]])
        >>> path, confidence = trellis.posterior_decode()
        >>> path, confidence.round(3)
        (array([1, 1], dtype=int32), array([0.731, 0.881]))
        """
        marginals = self.marginals(on_infeasible=on_infeasible)
        path = marginals.argmax(axis=1).astype(np.int32)
        confidence = marginals.max(axis=1)
        path[confidence == 0] = -1
        return Posterior(path, confidence)

    # ---- sums over paths -------------------------------------------------------------------

    def log_partition(self) -> Any:
        """Return log Σ_paths exp(score): float64, −inf if and only if there is no path.

        Returns
        -------
        float, or ndarray of float64, shape (N,)

        Examples
        --------
        >>> round(Trellis([[0.0, 1.0], [0.0, 2.0]]).log_partition(), 6)
        3.44019
        """
        return self._answer(self._log_partition())

    def _log_partition(self) -> Float64:
        log_z, _ = self._sum()
        return log_z

    def _sum(
        self,
        *,
        marginals: Floats | None = None,
        pairs: Floats | None = None,
        counts: Counts | None = None,
        weight: Float64 | None = None,
    ) -> tuple[Float64, Counts | None]:
        """Return log_z [N] and fill or add to the arrays that are given.

        The dense kernels answer first; sequences that they are not sure of, and state spaces that
        they do not know, go to the automaton.
        """
        log_z = np.empty(len(self.offsets) - 1)
        dense = self._dense()
        if dense is None or (pairs is not None and dense[0].shape[0] > 1):
            self._automaton_sum(log_z, marginals, pairs, counts, weight)
            return log_z, counts
        ok = np.empty(len(log_z), dtype=np.bool_)
        wanted: dict[str, Any] = {"marginals": marginals, "pairs": pairs}
        if counts is not None:
            wanted |= {
                "transitions": np.zeros_like(dense[0]),
                "start_counts": counts.start,
                "stop_counts": counts.stop,
            }
        _native.dense_sum(
            self.emit, self.offsets, *dense, self.edge, self._threads, weight, log_z, ok, **wanted
        )
        if counts is not None:
            self._add_dense_counts(counts, wanted["transitions"])
        if not ok.all():
            rest = np.flatnonzero(~ok)
            subset, positions = self._subset(rest)
            sub_log_z = np.empty(len(rest))
            sub_marginals = None if marginals is None else np.empty_like(subset.emit)
            shape = (*subset.emit.shape, self.n_labels)
            sub_pairs = None if pairs is None else np.empty(shape, pairs.dtype)
            sub_weight = None if weight is None else weight[rest]
            subset._automaton_sum(sub_log_z, sub_marginals, sub_pairs, counts, sub_weight)
            log_z[rest] = sub_log_z
            if marginals is not None:
                marginals[positions] = sub_marginals
            if pairs is not None:
                pairs[positions] = sub_pairs
        return log_z, counts

    def _automaton_sum(
        self,
        log_z: Float64,
        marginals: Floats | None,
        pairs: Floats | None,
        counts: Counts | None,
        weight: Float64 | None,
    ) -> None:
        automaton, space = self._automaton, self.states
        if marginals is None and pairs is None and counts is None:
            automaton.log_partition(self.emit, self.edge, self.offsets, self._threads, log_z)
            return
        wanted: dict[str, Any] = {"marginals": marginals, "pairs": pairs}
        if counts is not None:
            wanted |= {
                "moves": np.zeros(space.n_moves),
                "start_counts": np.zeros(space.n_states),
                "stop_counts": np.zeros(space.n_states),
            }
        automaton.sum(self.emit, self.edge, self.offsets, self._threads, weight, log_z, **wanted)
        if counts is None:
            return
        moves, first, last = wanted["moves"], wanted["start_counts"], wanted["stop_counts"]
        label = space.state_labels
        np.add.at(counts.transitions, (label[space.src], label[space.dst]), moves)
        np.add.at(counts.start, label, first)
        np.add.at(counts.stop, label, last)
        np.add.at(counts.weights, space.tie_ids, np.repeat(moves, np.diff(space.tie_indptr)))
        np.add.at(
            counts.weights, space.start_tie_ids, np.repeat(first, np.diff(space.start_tie_indptr))
        )

    def _add_dense_counts(self, counts: Counts, moves: Float64) -> None:
        """Add expected moves [k, Y^(k-1), Y, Y] to the transitions and n-gram weights they use."""
        Y, k = self.n_labels, len(moves)
        if k == 1:
            counts.transitions[...] += moves[0, 0]
            return
        histories = moves.reshape((k,) + (Y,) * (k + 1))  # [k, h_2 .. h_k, h_1, y]
        histories = np.moveaxis(histories, k, 1)  # [k, h_1 .. h_k, y]
        counts.transitions[...] += histories.sum(axis=tuple(range(k)))
        groups = self.states.unpack(counts.weights)
        for n in range(3, k + 2):
            used = histories[n - 2 :].sum(axis=0)  # where the history has at least n-1 labels
            groups[f"ngram{n}"][...] += used.sum(axis=tuple(range(k + 1 - n)))

    def forward(self, semiring: str = "log-plus") -> Float64:
        r"""Sum, for each position and state, the scores of all paths that end there.

        alpha[t, s] = emit[t, y] ⊗ ⊕_p alpha[t-1, p] ⊗ (score of p → s), alpha[0, s] = start + emit.
        In log space.

        Parameters
        ----------
        semiring : {"log-plus", "max-plus"}
            Whether ⊕ is log-sum-exp or max (the Viterbi variables).

        Returns
        -------
        ndarray of float64, shape (T, S)
            S states; the labels, in a first-order trellis. Flat for a batch.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).forward("max-plus")
        array([[0., 1.],
               [1., 3.]])
        """
        return self._state_scores(semiring, forwards=True)

    def backward(self, semiring: str = "log-plus") -> Float64:
        r"""Sum, for each position and state, the scores of all ways to go on from there.

        beta[t, s] = ⊕_r (score of s → r) ⊗ emit[t+1] ⊗ beta[t+1, r], beta[T-1, s] = stop. In log
        space; forward plus backward, log-summed over the states, is the log-partition at every t.

        Parameters
        ----------
        semiring : {"log-plus", "max-plus"}

        Returns
        -------
        ndarray of float64, shape (T, S)

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]], stop=[0.0, -1.0]).backward("max-plus")
        array([[ 1.,  1.],
               [ 0., -1.]])
        """
        return self._state_scores(semiring, forwards=False)

    def _state_scores(self, semiring: str, forwards: bool) -> Float64:
        if semiring not in ("log-plus", "max-plus"):
            raise ParameterError(f'semiring must be "log-plus" or "max-plus"; got {semiring!r}.')
        out = np.empty((len(self.emit), self.states.n_states))
        self._automaton.scores(
            self.emit, self.edge, self.offsets, semiring == "log-plus", forwards, self._threads, out
        )
        return out

    def marginals(
        self, *, on_infeasible: OnInfeasible = "raise", out: Floats | None = None
    ) -> Floats:
        """Return the probability of each label at each position.

        Parameters
        ----------
        on_infeasible : {"raise", "none"}
            With "none", the rows of a sequence without a path are 0.
        out : ndarray, shape (T, Y), optional
            Where to write them, instead of into a new array. For a large batch, memory that is used
            again saves a tenth of the time and more: that of new memory goes into clearing it.

        Returns
        -------
        ndarray, shape (T, Y)
            Of the type of the scores, and flat for a batch; ``out`` itself if it was given.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).marginals().round(3)
        array([[0.269, 0.731],
               [0.119, 0.881]])
        """
        check_buffer(out, "out", self.emit.shape)
        direct = out is not None and core_may_write(out, self)
        marginals = out if out is not None and direct else np.empty_like(self.emit)
        log_z, _ = self._sum(marginals=marginals)  # writes every row
        self._check_feasible(log_z, on_infeasible)
        if out is None or direct:
            return marginals
        out[...] = marginals
        return out

    def state_marginals(self, *, on_infeasible: OnInfeasible = "raise") -> Float64:
        """Return the probability of each state at each position.

        Parameters
        ----------
        on_infeasible : {"raise", "none"}
            With "none", the rows of a sequence without a path are 0.

        Returns
        -------
        ndarray of float64, shape (T, S)
            Where states are labels, `marginals`; flat for a batch.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).state_marginals().round(3)
        array([[0.269, 0.731],
               [0.119, 0.881]])
        """
        self._check_feasible(self._log_partition(), on_infeasible)
        both = self.forward() + self.backward()  # [T, S]
        top = both.max(axis=1, keepdims=True, initial=-np.inf)
        gamma: Float64 = np.exp(both - np.where(np.isneginf(top), 0.0, top))
        gamma /= np.maximum(gamma.sum(axis=1, keepdims=True), 1.0)
        return gamma

    def move_probs(self) -> Float64:
        r"""Return the probability of each move, given the state that it comes from.

        Given the scores, the states are a Markov chain; these are its moves ::

            a[t, m] = exp(s_t(m) + beta[t, dst] − beta[t-1, src])

        Returns
        -------
        ndarray of float64, shape (T, M)
            In the order of ``states.src`` and ``states.dst``: row t is for moves into position t,
            and that of a sequence's first position is 0, as is a move from where no path goes on.

        Examples
        --------
        >>> trellis = Trellis([[0.0, 1.0], [0.0, 2.0]], trans=[[0.0, 1.0], [0.0, 0.0]])
        >>> trellis.move_probs()[1].round(3)  # 0 → 0, 1 → 0, 0 → 1, 1 → 1
        array([0.047, 0.119, 0.953, 0.881])
        """
        space = self.states
        y_src, y_dst = space.state_labels[space.src], space.state_labels[space.dst]  # [M]
        beta = self.backward()  # [T, S]
        log_a = self.emit[:, y_dst] + self._move_scores()  # [T, M]
        if self.edge is not None:
            log_a += self.edge[:, y_src, y_dst]
        log_a += beta[:, space.dst]
        before = beta[:-1, space.src]  # [T - 1, M]
        log_a[1:] -= np.where(np.isneginf(before), np.inf, before)
        log_a[self.offsets[:-1][self.lengths > 0]] = -np.inf
        probs: Float64 = np.exp(log_a)
        return probs

    def pair_marginals(self, distance: int = 1, *, on_infeasible: OnInfeasible = "raise") -> Floats:
        """Return the probability of each pair of labels a fixed distance apart.

        Parameters
        ----------
        distance : int
            1 for neighbours.
        on_infeasible : {"raise", "none"}

        Returns
        -------
        ndarray, shape (T, Y, Y)
            Row t is Pr(y_{t-distance}, y_t), aligned with ``edge``; the first ``distance`` rows of
            a sequence are 0.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).pair_marginals()[1].round(3)
        array([[0.032, 0.237],
               [0.087, 0.644]])
        """
        distance = check_count(distance, "distance", 1, ParameterError)
        Y = self.n_labels
        pairs = np.zeros((len(self.emit), Y, Y), dtype=self.dtype)
        if distance == 1:
            log_z, _ = self._sum(pairs=pairs)
        else:
            log_z = self._log_partition()
            self._automaton.distant_pairs(
                self.emit, self.edge, self.offsets, distance, self._threads, pairs
            )
        self._check_feasible(log_z, on_infeasible)
        return pairs

    def expected_counts(self, *, on_infeasible: OnInfeasible = "raise") -> Counts:
        """Return how often each label, transition and tied weight is to be expected.

        These are the gradients of the log-partition with respect to a label's bias, ``trans``,
        ``start``, ``stop`` and ``weights``; a batch is summed over its sequences.

        Returns
        -------
        Counts
            Arrays of float64.

        Examples
        --------
        >>> counts = Trellis([[0.0, 1.0], [0.0, 2.0]]).expected_counts()
        >>> counts.labels.round(3), counts.start.round(3)
        (array([0.388, 1.612]), array([0.269, 0.731]))
        """
        log_z, counts = self._sum(counts=self._no_counts())
        self._check_feasible(log_z, on_infeasible)
        assert counts is not None
        counts.labels[...] = counts.start + counts.transitions.sum(axis=0)
        return counts

    def _no_counts(self) -> Counts:
        Y, K = self.n_labels, 0 if self._states is None else self._states.n_weights
        return Counts(np.zeros(Y), np.zeros((Y, Y)), np.zeros(Y), np.zeros(Y), np.zeros(K))

    # ---- given paths -----------------------------------------------------------------------

    def path_score(self, path: Any) -> Any:
        """Return the score of a path, in float64; −inf if it is not allowed.

        Parameters
        ----------
        path : sequence of int or str, length T
            Label ids, names, or some of both. For a batch: a flat array, or one path a sequence.

        Returns
        -------
        float, or ndarray of float64, shape (N,)

        Raises
        ------
        LabelError
            If a label does not exist; the message names its sequence and position.
        ShapeError
            If the length is wrong.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]], labels=["N", "V"]).path_score(["N", "V"])
        2.0
        """
        return self._answer(self._path_score(path))

    def _path_score(self, path: Any) -> Float64:
        score = np.empty(len(self.offsets) - 1)
        ids = self._path_ids(path)
        self._automaton.path_score(self.emit, self.edge, self.offsets, ids, score)
        return score

    def log_prob(self, path: Any) -> Any:
        """Return the log probability of a path: its score less the log-partition.

        Parameters and errors as for `path_score`. −inf for a path that is not allowed, also where
        no path is.

        Examples
        --------
        >>> round(Trellis([[0.0, 1.0], [0.0, 2.0]]).log_prob([0, 1]), 6)
        -1.44019
        """
        return self._answer(_log_ratio(self._path_score(path), self._log_partition()))

    def log_prob_of(self, allowed: npt.ArrayLike | Mapping[Any, LabelSet]) -> Any:
        """Return the log probability that every label is one of those allowed at its position.

        The probability of any partial labelling, of a span, or of "not this label": the share of
        the partition function that the allowed paths have.

        Parameters
        ----------
        allowed : array of bool, shape (T, Y), or mapping of position to label or labels
            As for `constrain`.

        Returns
        -------
        float, or ndarray of float64, shape (N,)
            −inf if no path is allowed.

        Examples
        --------
        The probability that at least the second label is 1:

        >>> trellis = Trellis([[0.0, 1.0], [0.0, 2.0]])
        >>> round(math.exp(trellis.log_prob_of([[True, True], [False, True]])), 3)
        0.881
        """
        part = self.constrain(allowed)._log_partition()
        return self._answer(_log_ratio(part, self._log_partition()))

    def names(self, path: Any) -> Any:
        """Return the names of the labels of a path; of each path, for a batch.

        Parameters
        ----------
        path : sequence of int, length T
            As `viterbi` returns it: flat for a batch. −1, where there is no path, becomes None.

        Returns
        -------
        list of str, or a list of those for a batch

        Examples
        --------
        >>> trellis = Trellis([[0.0, 1.0], [3.0, 2.0]], labels=["N", "V"])
        >>> trellis.names(trellis.viterbi().path)
        ['V', 'N']
        """
        if self.labels is None:
            raise LabelError("This trellis has no label names. Pass labels= to Trellis.")
        ids = as_array(path, "path")
        if ids.shape != (len(self.emit),):
            raise ShapeError(f"path must have shape ({len(self.emit)},); got {ids.shape}.")
        whole = ids.dtype.kind in "iu" or len(ids) == 0
        if not whole or ((ids < -1) | (ids >= self.n_labels)).any():
            raise LabelError(f"path must have label ids from 0 to {self.n_labels - 1}, or -1.")
        lookup = [*self.labels, None]  # -1 is the last
        names = [lookup[y] for y in ids.tolist()]
        if not self.is_batch:
            return names
        return [names[lo:hi] for lo, hi in pairwise(self.offsets.tolist())]

    def _path_ids(self, path: Any) -> Int32:
        """Return label ids, flat, from ids or names, flat or one path per sequence."""
        flat = self._flat_path(path)
        if len(flat) != len(self.emit):
            raise ShapeError(
                f"path must have one label for each of {len(self.emit)} positions; got {len(flat)}."
            )
        if isinstance(flat, list) and not _are_ints(flat):
            ids = {name: y for y, name in enumerate(self.labels or ())}
            return np.array(
                [
                    ids[y]
                    if isinstance(y, str) and y in ids
                    else self._label_id(y, f"path, {self._place(t)}")
                    for t, y in enumerate(flat)
                ],
                dtype=np.int32,
            )
        array = np.asarray(flat)
        wrong = np.flatnonzero((array < 0) | (array >= self.n_labels))
        if len(wrong):
            t = int(wrong[0])
            self._label_id(flat[t], f"path, {self._place(t)}")
        return array.astype(np.int32)

    def _flat_path(self, path: Any) -> npt.NDArray[np.integer[Any]] | list[Any]:
        """Return the labels of a path, or of the paths of a batch in a row, still as given."""
        if hasattr(path, "__array__"):
            array: npt.NDArray[Any] = np.asarray(path)
            if array.ndim == 1 and array.dtype.kind in "iu":
                return array
            if array.ndim != 1 and not (self.is_batch and array.ndim == 2):
                raise ShapeError(
                    f"path must have one label for each of {len(self.emit)} positions; "
                    f"got shape {array.shape}."
                )
            path = array
        labels = as_list(path, ordered=True)
        if labels is None:
            raise ShapeError(f"A path is a sequence of labels; got {path!r:.60}.")
        if not self.is_batch or not labels or isinstance(labels[0], (int, np.integer, str)):
            return labels
        if len(labels) != len(self):
            raise ShapeError(f"Expected {len(self)} paths, one each; got {len(labels)}.")
        flat: list[Any] = []
        for i, (one, T) in enumerate(zip(labels, self.lengths.tolist(), strict=True)):
            row = as_list(one, ordered=True)
            if row is None or len(row) != T:
                found = f"{one!r:.60}" if row is None else len(row)
                raise ShapeError(f"The path of sequence {i} must have {T} labels; got {found}.")
            flat += row
        return flat

    def _place(self, t: int) -> str:
        """Say where a flat position is, as the user counts."""
        if not self.is_batch:
            return f"position {t}"
        i = int(np.searchsorted(self.offsets, t, side="right")) - 1
        return f"sequence {i}, position {t - self.offsets[i]}"

    def _label_id(self, label: Any, where: str) -> int:
        if isinstance(label, (int, np.integer)) and not isinstance(label, bool):
            if 0 <= label < self.n_labels:
                return int(label)
            raise LabelError(f"{where}: label {label} is not in 0 to {self.n_labels - 1}.")
        if self.labels is None:
            raise LabelError(
                f"{where}: {label!r:.60} is not a label id, and this trellis has no label names. "
                "Pass labels= to Trellis."
            )
        if not isinstance(label, str) or label not in self.labels:
            raise LabelError(
                f"{where}: unknown label {label!r:.60}; labels are {list(self.labels)}."
            )
        return self.labels.index(label)

    # ---- randomness ------------------------------------------------------------------------

    def sample(
        self,
        n: int,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        *,
        on_infeasible: OnInfeasible = "raise",
    ) -> Int32:
        """Draw paths with exactly their probabilities: forward sums, backward draws.

        Parameters
        ----------
        n : int
            How many paths of each sequence.
        random_state : int, Generator, RandomState or None
            A seed gives the same paths for any number of threads.
        on_infeasible : {"raise", "none"}
            With "none", the paths of a sequence that has none are −1, −1, ...

        Returns
        -------
        ndarray of int32, shape (n, T)
            Flat along the second axis for a batch.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).sample(3, random_state=0)
        array([[1, 1],
               [0, 0],
               [1, 1]], dtype=int32)
        """
        n = check_count(n, "n", 0, ParameterError)
        self._check_feasible(self._log_partition(), on_infeasible)
        size = (n, len(self.emit))
        if isinstance(random_state, np.random.RandomState):
            uniform = random_state.random_sample(size)
        else:
            try:
                rng = np.random.default_rng(random_state)
            except (TypeError, ValueError) as error:
                raise ParameterError(
                    "random_state must be None, a whole number of at least 0, or a generator of "
                    f"NumPy; got {random_state!r:.60}."
                ) from error
            uniform = rng.random(size)
        paths = np.full(size, -1, dtype=np.int32)
        self._automaton.sample(self.emit, self.edge, self.offsets, uniform, self._threads, paths)
        return paths

    def entropy(self, *, on_infeasible: OnInfeasible = "raise") -> Any:
        """Return −Σ_paths Pr(path) log Pr(path), in nats: how undecided the trellis is.

        Parameters
        ----------
        on_infeasible : {"raise", "none"}
            With "none", the entropy of a sequence without a path is 0.

        Returns
        -------
        float, or ndarray of float64, shape (N,)

        Examples
        --------
        >>> round(Trellis([[0.0, 1.0], [0.0, 2.0]]).entropy(), 6)
        0.947537
        """
        self._check_feasible(self._log_partition(), on_infeasible)
        entropy = np.empty(len(self.offsets) - 1)
        self._automaton.entropy(self.emit, self.edge, self.offsets, self._threads, entropy)
        return self._answer(entropy)

    # ---- any semiring ----------------------------------------------------------------------

    def is_feasible(self) -> Any:
        """Return whether any path is allowed; an array of bool for a batch.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [-np.inf, -np.inf]]).is_feasible()
        False
        """
        return self._answer(~np.isneginf(self._log_partition()))

    def count_paths(self) -> Any:
        """Return how many paths are allowed: an exact int, or a list of them for a batch.

        Examples
        --------
        >>> Trellis(np.zeros((100, 2))).count_paths() == 2**100
        True
        """
        return self.reduce("counting")

    def reduce(self, semiring: Any) -> Any:
        """Sum over all paths the product of their moves, in any semiring.

        Parameters
        ----------
        semiring : a semiring of `tagloom.semirings`, its name, or any object like one
            With ``zero``, ``one``, ``plus(a, b)``, ``times(a, b)`` and
            ``lift(score, t, y_prev, y)``. The native core answers for those it knows.

        Returns
        -------
        value, or a list of values for a batch

        Raises
        ------
        ParameterError
            If it is no semiring.

        Examples
        --------
        >>> import tagloom as tl
        >>> tl.Trellis([[0.0, 1.0], [0.0, 2.0]]).reduce(tl.semirings.COUNTING)
        4
        """
        from tagloom.trellis import semirings

        semiring = semirings.as_semiring(semiring)
        if semiring is semirings.LOG_PLUS:
            values = self._log_partition().tolist()
        elif semiring is semirings.BOOLEAN:
            values = (~np.isneginf(self._log_partition())).tolist()
        elif semiring is semirings.MAX_PLUS:
            values = self._best_scores()
        elif semiring is semirings.SUM_TIMES:
            values = [_exp(z) for z in self._log_partition().tolist()]
        elif semiring is semirings.MAX_TIMES:
            values = [_exp(score) for score in self._best_scores()]
        elif isinstance(semiring, semirings.KBest):
            results = self.nbest(semiring.k)
            values = [
                tuple(zip(best.scores.tolist(), map(tuple, best.paths.tolist()), strict=True))
                for best in (results if self.is_batch else [results])
            ]
        else:
            singles: Iterable[Trellis] = self if self.is_batch else [self]
            values = [self._reduce_one(one, semiring) for one in singles]
        return values if self.is_batch else values[0]

    def _best_scores(self) -> list[float]:
        scores: list[float] = np.atleast_1d(self.viterbi(on_infeasible="none").score).tolist()
        return scores

    @staticmethod
    def _reduce_one(one: Trellis, semiring: Any) -> Any:
        from tagloom.trellis.semirings import reduce_moves

        Y, space = one.n_labels, one.states
        return reduce_moves(
            semiring,
            space,
            one.emit.astype(np.float64),
            np.zeros((Y, Y)) if one.trans is None else one.trans.astype(np.float64),
            np.zeros(Y) if one.start is None else one.start.astype(np.float64),
            np.zeros(Y) if one.stop is None else one.stop.astype(np.float64),
            None if one.edge is None else one.edge.astype(np.float64),
            np.zeros(space.n_weights) if one.weights is None else one.weights.astype(np.float64),
        )

    # ---- constraints -----------------------------------------------------------------------

    def constrain(
        self,
        allowed: npt.ArrayLike | Mapping[Any, LabelSet] | None = None,
        *,
        forced: Mapping[Any, Label] | None = None,
        forbidden: Mapping[Any, LabelSet] | None = None,
        forbidden_moves: npt.ArrayLike | Iterable[tuple[Label, Label]] | None = None,
    ) -> Trellis:
        """Return a trellis with fewer paths; this one is left as it is.

        Never raises because nothing is left: `is_feasible` tells. Labels may be ids or names.

        Parameters
        ----------
        allowed : array of bool, shape (T, Y), or mapping of position to label or labels
            What remains allowed. A mapping leaves positions that it does not name free.
        forced : mapping of position to label
        forbidden : mapping of position to label or labels
        forbidden_moves : array of bool, shape (Y, Y), or iterable of (from, to)
            Moves between labels that no path may make, at any position.

        In a batch a position is a pair (sequence, position), and a mask is flat.

        Examples
        --------
        >>> trellis = Trellis([[0.0, 1.0], [0.0, 2.0]], labels=["N", "V"])
        >>> trellis.constrain(forced={0: "N"}, forbidden_moves=[("N", "V")]).viterbi().path
        array([0, 0], dtype=int32)
        """
        for name, value in (("forced", forced), ("forbidden", forbidden)):
            if value is not None and not isinstance(value, Mapping):
                raise ShapeError(
                    f"{name} must be a dict such as {{2: 'NOUN'}}, from position to label; "
                    f"got {value!r:.60}."
                )
        changes: dict[str, Any] = {}
        mask = np.ones(self.emit.shape, dtype=np.bool_)  # [T, Y]
        if isinstance(allowed, Mapping):
            for position, labels in allowed.items():
                t = self._position(position, "allowed")
                keep = np.zeros(self.n_labels, dtype=np.bool_)
                keep[self._label_ids(labels, f"allowed[{position!r}]")] = True
                mask[t] &= keep
        elif allowed is not None:
            mask &= _mask(allowed, "allowed", self.emit.shape)
        for position, label in (forced or {}).items():
            y = self._label_id(label, f"forced[{position!r}]")
            mask[self._position(position, "forced")] &= np.arange(self.n_labels) == y
        for position, labels in (forbidden or {}).items():
            t = self._position(position, "forbidden")
            mask[t, self._label_ids(labels, f"forbidden[{position!r}]")] = False
        if not mask.all():
            changes["emit"] = np.where(mask, self.emit, self.dtype.type(-np.inf))
        if forbidden_moves is not None:
            Y = self.n_labels
            moves: Any = forbidden_moves
            moves = moves if isinstance(moves, np.ndarray) else as_list(moves)
            if moves is None:
                raise ShapeError(
                    "forbidden_moves must be pairs (from, to), or an array of bool with shape "
                    f"{(Y, Y)}; got {forbidden_moves!r:.60}."
                )
            banned = np.zeros((Y, Y), dtype=np.bool_)
            rows_of_bools = (
                isinstance(moves, list)
                and moves
                and all(
                    isinstance(row, list) and all(isinstance(x, bool) for x in row) for row in moves
                )
            )
            if isinstance(moves, np.ndarray) or rows_of_bools:
                banned |= _mask(moves, "forbidden_moves", (Y, Y))
            else:
                for move in moves:
                    pair = as_list(move, ordered=True)
                    if pair is None or len(pair) != 2:
                        raise ShapeError(f"forbidden_moves: {move!r:.60} is not a pair (from, to).")
                    a, b = (self._label_id(label, "forbidden_moves") for label in pair)
                    banned[a, b] = True
            trans = np.zeros((Y, Y), dtype=self.dtype) if self.trans is None else self.trans
            changes["trans"] = np.where(banned, self.dtype.type(-np.inf), trans)
        return self._like(**changes)

    def _position(self, position: Any, name: str) -> int:
        """Return the flat position that a user's position, or (sequence, position), means."""
        pair = as_list(position, ordered=True) if self.is_batch else [0, position]
        if pair is None or len(pair) != 2:
            raise ShapeError(
                f"{name}: in a batch a position is (sequence, position); got {position!r:.60}."
            )
        i, t = pair
        if not isinstance(i, (int, np.integer)) or not 0 <= i < len(self.offsets) - 1:
            raise ShapeError(f"{name}: sequence {i!r:.60} is not in 0 to {len(self.offsets) - 2}.")
        T = int(self.offsets[i + 1] - self.offsets[i])
        if not isinstance(t, (int, np.integer)) or not 0 <= t < T:
            raise ShapeError(f"{name}: position {t!r:.60} is not in 0 to {T - 1}.")
        return int(self.offsets[i] + t)

    def _label_ids(self, labels: Any, where: str) -> list[int]:
        several = as_list(labels)
        return [self._label_id(y, where) for y in ([labels] if several is None else several)]

    # ---- pictures --------------------------------------------------------------------------

    def draw(
        self,
        show: Literal["scores", "marginals"] = "scores",
        *,
        tokens: Sequence[str] | None = None,
        format: Literal["text", "svg"] = "text",
        color: bool = False,
        min_prob: float = 0.0,
    ) -> str:
        """Draw a single trellis: positions from left to right, states below each other.

        Parameters
        ----------
        show : {"scores", "marginals"}
            The numbers in the nodes: the score of the best path to each, or its probability.
        tokens : sequence of str, length T, optional
            Names of the positions; by default their numbers.
        format : {"text", "svg"}
        color : bool
            Whether text may use a terminal's bold type and colours.
        min_prob : float
            Leave out states that are less probable than this at every position, unless the best
            path goes through them; and, where marginals are shown, moves that are. The numbers
            stay those of the whole trellis.

        Returns
        -------
        str
            The best path is marked; in SVG it is thick, and nodes are filled by probability.
            ``_repr_svg_`` shows the picture in a notebook.

        Examples
        --------
        >>> trellis = Trellis([[-2, -10], [-3, -1], [-3, -3]], [[-3, -1], [-1, -3]], [-1, -2],
        ...                   [-1, -1], labels=["N", "V"])
        >>> print(trellis.draw(tokens=["they", "can", "fish"]))
           start   they    can    fish    stop
        N   0 ══════[-3]═╗  -9  ╔══[-9]═══ -10
        V           -12  ╚═[-5]═╝  -11
        <BLANKLINE>
        best path (score -10): N V N
        """
        from tagloom.trellis.draw import TrellisView, draw_svg, draw_text

        if format not in ("text", "svg"):
            raise ParameterError(f'format must be "text" or "svg"; got {format!r}.')
        if show not in ("scores", "marginals"):
            raise ParameterError(f'show must be "scores" or "marginals"; got {show!r}.')
        if not 0 <= min_prob <= 1:
            raise ParameterError(f"min_prob must be a probability, 0 to 1; got {min_prob!r}.")
        if self.is_batch:
            raise ShapeError(f"Only a single trellis can be drawn; this is a batch of {len(self)}.")
        T, space = len(self.emit), self.states
        tokens = [str(t) for t in range(T)] if tokens is None else list(tokens)
        if len(tokens) != T:
            raise ShapeError(f"tokens must name the {T} positions; got {len(tokens)} names.")
        names = self.labels if self.labels and space.kind == "labels" else space.state_names
        best = self.viterbi(on_infeasible="none")
        feasible = best.score > -np.inf
        alpha, beta = self.forward(), self.backward()  # [T, S]
        with np.errstate(invalid="ignore"):
            gamma = np.exp(alpha + beta - (self.log_partition() if feasible else 0.0))
        path = space.state_path(best.path.tolist()) if feasible else None
        nodes = gamma if show == "marginals" else self.forward("max-plus")
        edges = self._edges_to_draw(show, alpha, beta) if format == "svg" and T <= 2000 else None
        if edges is not None and show == "marginals":
            edges = np.where(edges < min_prob, 0.0, edges)
        is_kept = gamma.max(axis=0, initial=0.0) >= min_prob  # [S]
        if path is not None:
            is_kept[path] = True
        kept = np.flatnonzero(is_kept)
        view = TrellisView(
            states=[names[s] for s in kept],
            tokens=tokens,
            nodes=nodes[:, kept],
            path=None if path is None else np.searchsorted(kept, path).tolist(),
            score=best.score,
            show=show,
            marginals=gamma[:, kept],
            edges=None if edges is None else edges[:, kept][:, :, kept],
            n_hidden=space.n_states - len(kept),
        )
        return draw_svg(view) if format == "svg" else draw_text(view, color=color)

    def _edges_to_draw(self, show: str, alpha: Float64, beta: Float64) -> Float64:
        """Return the score, or the probability, of every move between states [T, S, S].

        Row 0 is not used. A move that does not exist has score −inf and probability 0.
        """
        T, space = len(self.emit), self.states
        label = space.state_labels
        edges = np.full((T, space.n_states, space.n_states), -np.inf)
        edges[:, space.src, space.dst] = self._move_scores()
        if self.edge is not None:
            edges[:, space.src, space.dst] += self.edge[:, label[space.src], label[space.dst]]
        log_z = self.log_partition()
        if show == "scores" or log_z == -np.inf:
            return edges
        edges[1:] += alpha[:-1, :, None] + (self.emit[1:, label] + beta[1:])[:, None, :] - log_z
        probs: Float64 = np.exp(edges)
        return probs

    def _repr_svg_(self) -> str | None:
        if self.is_batch or len(self.emit) > 2000:  # no picture in a notebook: its repr is shown
            return None
        return self.draw(format="svg")


# ---- checks ----------------------------------------------------------------------------


def check_scores(array: npt.ArrayLike, name: str, dtype: Any = None) -> Floats:
    """Return a C-contiguous float array; NaN and +inf are errors that name the element."""
    return measure_scores(array, name, dtype, 1)[0]


def measure_scores(
    array: npt.ArrayLike, name: str, dtype: Any, n_threads: int
) -> tuple[Floats, float]:
    """Return the array as `check_scores` does, and the largest absolute value that is finite."""
    if type(array) is np.ndarray and array.dtype is dtype and array.flags.c_contiguous:
        scores: Floats = array  # the usual case, made quick: trans, start and stop of one sentence
    else:
        scores = _as_floats(array, name, dtype)
    bad, largest = _native.check_scores(scores, n_threads)
    if bad >= 0:
        at = ", ".join(str(i) for i in np.unravel_index(bad, scores.shape))
        raise ScoreError(
            f"{name}[{at}] is {scores.flat[bad]}; scores must be between -1e300 and 1e300, or -inf "
            "for forbidden."
        )
    return scores, largest


def _as_floats(array: npt.ArrayLike, name: str, dtype: Any) -> Floats:
    """Return a C-contiguous array of the type; if that is None, of float32 or float64."""
    try:
        given = np.asarray(array)
        scores = given if dtype is None or given.dtype == dtype else _cast(given, dtype, name)
    except (TypeError, ValueError) as error:
        if isinstance(error, ScoreError):
            raise
        raise ShapeError(f"{name} must be an array of numbers: {error}.") from None
    if scores.dtype is not _FLOAT64 and scores.dtype is not _FLOAT32:
        if scores.dtype.kind not in "fiub":
            raise ShapeError(f"{name} must be an array of numbers; got dtype {scores.dtype}.")
        scores = scores.astype(np.float32 if scores.dtype == np.float32 else np.float64)
    return scores if scores.flags.c_contiguous else np.ascontiguousarray(scores)


def check_buffer(buffer: Any, name: str, shape: tuple[int, ...]) -> None:
    """Raise ShapeError unless the buffer is None or an array of this shape that can be written."""
    if buffer is None:
        return
    if not isinstance(buffer, np.ndarray) or buffer.shape != shape:
        found = getattr(buffer, "shape", type(buffer).__name__)
        raise ShapeError(f"{name} must be an ndarray of shape {shape}; got {found}.")
    if buffer.dtype.kind != "f":
        raise ShapeError(f"{name} must be of a float type; got {buffer.dtype}.")
    if not buffer.flags.writeable:
        raise ShapeError(f"{name} must be writable; got a read-only array. Pass a copy.")


def core_may_write(buffer: npt.NDArray[Any], trellis: Trellis) -> bool:
    """Whether results may go straight into a buffer while scores are read."""
    if buffer.dtype != trellis.dtype or not buffer.flags.c_contiguous:
        return False
    scores = [trellis.emit, trellis.edge, trellis.trans, trellis.start, trellis.stop]
    scores.append(trellis.weights)
    return not any(array is not None and np.may_share_memory(buffer, array) for array in scores)


def _widened(scores: npt.NDArray[Any]) -> Float64:
    """Return scores as float64; without the question, astype takes half a microsecond for it."""
    return scores if scores.dtype is _FLOAT64 else scores.astype(_FLOAT64)


def _cast(given: npt.NDArray[Any], dtype: Any, name: str) -> npt.NDArray[Any]:
    """Return the array in another type; a number that the type cannot hold is an error."""
    with np.errstate(over="ignore"):
        scores = given.astype(dtype)
    if scores.dtype == np.float32 and given.dtype.kind == "f":
        lost = np.flatnonzero(np.isinf(scores) & np.isfinite(given))
        if len(lost):
            at = ", ".join(str(i) for i in np.unravel_index(lost[0], given.shape))
            raise ScoreError(
                f"{name}[{at}] is {given.flat[lost[0]]}, which float32, the type of emit, cannot "
                "hold. Pass emit as float64."
            )
    return scores


def _names(labels: Sequence[str], Y: int) -> tuple[str, ...]:
    if isinstance(labels, str):
        raise LabelError(f"labels must be a list of names; got the string {labels!r}.")
    if isinstance(labels, (set, frozenset)):
        raise LabelError("labels must be in order: a list of names; got a set.")
    names = tuple(labels)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise LabelError(f"labels must be names, each a str; got {wrong[0]!r}.")
    if len(names) != Y:
        raise ShapeError(f"labels must name the {Y} labels of emit; got {len(names)} names.")
    if len(set(names)) < Y:
        twice = next(name for name in names if names.count(name) > 1)
        raise LabelError(f"labels must differ; {twice!r} occurs twice.")
    return names


def _are_ints(labels: list[Any]) -> bool:
    """Whether all are ids; NumPy would turn the ids among names into text, and True into 1."""
    kinds = set(map(type, labels))
    return all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds)


def _one_sequence(tokens: int) -> npt.NDArray[np.int64]:
    offsets = _ZEROS.copy()  # half the time of making an array of a list
    offsets[1] = tokens
    return offsets


def _offsets(offsets: npt.ArrayLike, tokens: int) -> npt.NDArray[np.int64]:
    array = as_array(offsets, "offsets")
    if array.ndim != 1 or len(array) == 0 or array.dtype.kind not in "iu":
        raise ShapeError(
            f"offsets must be a list of N + 1 integers; got shape {array.shape}, {array.dtype}."
        )
    array = np.ascontiguousarray(array, dtype=np.int64)
    if array[0] != 0 or array[-1] != tokens:
        raise ShapeError(
            f"offsets must run from 0 to the {tokens} rows of emit; got {array[0]} to {array[-1]}."
        )
    falls = np.flatnonzero(np.diff(array) < 0)
    if len(falls):
        i = int(falls[0])
        raise ShapeError(
            f"offsets must not decrease; offsets[{i}:{i + 2}] is {array[i]}, {array[i + 1]}."
        )
    return array


def _mask(mask: npt.ArrayLike, name: str, shape: tuple[int, ...]) -> Bool:
    array = as_array(mask, name)
    if array.dtype != np.bool_ or array.shape != shape:
        raise ShapeError(
            f"{name} must be an array of bool with shape {shape}; got {array.dtype}, {array.shape}."
        )
    return array


def _log_ratio(part: Float64, whole: Float64) -> Float64:
    """Return log(part / whole) ≤ 0; −inf for a part of nothing, never NaN."""
    whole = np.where(np.isneginf(whole), 0.0, whole)
    return np.minimum(part - whole, 0.0)


def _exp(score: float) -> float:
    try:
        return math.exp(score)
    except OverflowError:
        raise ScoreError(
            f"exp({score}) is too large for a float. Use LOG_PLUS or MAX_PLUS instead."
        ) from None
