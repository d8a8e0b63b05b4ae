"""The scores of a ragged batch: the positions of all sequences in a row, and where each begins.

A single sequence is a batch of one. What all sequences share, the scores of transitions, is in
`engine.Transitions`. The scores of labels have two layouts: dense, a row of Y for each position, or
a list of candidate labels for each position. A batch has one of them and makes the dense layout
when an operation requires it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.checks import show
from tagloom.errors import LabelError, ShapeError
from tagloom.trellis.inputs import as_array, check_offsets, measure_scores
from tagloom.trellis.pruning import Pruning

Floats = npt.NDArray[np.floating[Any]]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Positions = slice | Int64

# A pair of neighbouring candidates takes as long as 24 pairs of labels in the dense kernels, a
# position as long as 7 pairs of candidates (measured with 17 and 49 labels). Short sequences stay
# dense: to list their candidates would take longer.
_DENSE_PAIRS, _PAIRS_PER_POSITION, _LEAST_PAIRS = 24, 7, 20_000


class Candidates(NamedTuple):
    """The labels that each position may have, with their scores: rows of different lengths.

    Position t has the labels ``label_ids[indptr[t]:indptr[t + 1]]``, in ascending order.
    """

    indptr: Int64  #: [T + 1]
    label_ids: Int32  #: [C]
    scores: Floats  #: [C]

    @property
    def positions(self) -> Int64:
        """The position of each candidate [C]."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def select(self, keep: Bool) -> Candidates:
        """Return the candidates for which ``keep`` [C] is true."""
        before = np.concatenate([[0], np.cumsum(keep)])  # [C + 1] candidates kept so far
        return Candidates(before[self.indptr], self.label_ids[keep], self.scores[keep])

    def take(self, positions: Positions) -> Candidates:
        """Return the candidates of some positions; those of a slice are not copied."""
        if isinstance(positions, slice):
            rows = self.indptr[positions.start : positions.stop + 1]
            lo, hi = int(rows[0]), int(rows[-1])
            return Candidates(rows - lo, self.label_ids[lo:hi], self.scores[lo:hi])
        lengths = np.diff(self.indptr)[positions]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
        which = np.repeat(self.indptr[positions], lengths) + within
        return Candidates(indptr, self.label_ids[which], self.scores[which])

    def dense(self, n_labels: int) -> Floats:
        """Return the scores of all labels [T, Y], −inf for those that are not candidates."""
        emit = np.full((len(self.indptr) - 1, n_labels), -np.inf, dtype=self.scores.dtype)
        emit[self.positions, self.label_ids] = self.scores
        return emit


class Batch:
    """Checked scores of N sequences with T positions in all. Immutable.

    Attributes
    ----------
    shape : tuple of int
        (T, Y).
    dtype : dtype
        float32 or float64.
    edge : ndarray, shape (T, Y, Y), or None
        The row of a sequence's first position is not used.
    offsets : ndarray of int64, shape (N + 1,)
    largest_emit : float
        No finite score in emit has a larger absolute value.
    candidates : Candidates or None
        The layout of few labels for each position; None for the dense layout.
    """

    __slots__ = (
        "_emit",
        "_native",
        "_native_candidates",
        "candidates",
        "dtype",
        "edge",
        "largest_emit",
        "offsets",
        "shape",
    )

    def __init__(
        self, emit: Floats, edge: Floats | None, offsets: Int64, largest_emit: float
    ) -> None:
        self.edge, self.offsets = edge, offsets
        self.largest_emit = largest_emit
        self.shape: tuple[int, int] = (len(emit), emit.shape[1])
        self.dtype: np.dtype[Any] = emit.dtype
        self.candidates: Candidates | None = None
        self._emit: Floats | None = emit
        self._native: _native.Batch | None = _native.Batch(emit, edge, offsets, largest_emit)
        self._native_candidates: _native.Candidates | None = None

    @classmethod
    def of_candidates(
        cls,
        candidates: Candidates,
        n_labels: int,
        offsets: Int64,
        largest_emit: float,
        edge: Floats | None = None,
    ) -> Batch:
        """Return a batch with the scores of candidates."""
        new = object.__new__(cls)
        new.edge, new.offsets, new.largest_emit = edge, offsets, largest_emit
        new.shape, new.dtype = (len(candidates.indptr) - 1, n_labels), candidates.scores.dtype
        new.candidates, new._emit, new._native = candidates, None, None
        new._native_candidates = _native.Candidates(*candidates, offsets, n_labels)
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        if self.candidates is None:
            return Batch, (self.emit, self.edge, self.offsets, self.largest_emit)
        parts = (self.candidates, self.shape[1], self.offsets, self.largest_emit, self.edge)
        return Batch.of_candidates, parts

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def emit(self) -> Floats:
        """The score of label y at position t [T, Y]."""
        if self._emit is None:
            assert self.candidates is not None
            self._emit = self.candidates.dense(self.shape[1])  # each thread would make the same
        return self._emit

    @property
    def native(self) -> _native.Batch:
        """The dense layout for the native core."""
        if self._native is None:
            self._native = _native.Batch(self.emit, self.edge, self.offsets, self.largest_emit)
        return self._native

    @property
    def native_candidates(self) -> _native.Candidates | None:
        """The layout of candidates for the native core, which has no scores of edges."""
        return None if self.edge is not None else self._native_candidates

    def one(self, i: int) -> Batch:
        """Return sequence i as a batch of one, not copied."""
        lo, hi = int(self.offsets[i]), int(self.offsets[i + 1])
        return self._part(slice(lo, hi), np.array([0, hi - lo]))

    def take(self, sequences: Int64) -> tuple[Batch, Positions]:
        """Return some sequences, and their positions in this batch. Neighbours are not copied."""
        offsets, positions = take_sequences(self.offsets, sequences)
        return self._part(positions, offsets), positions

    def _part(self, positions: Positions, offsets: Int64) -> Batch:
        edge = None if self.edge is None else self.edge[positions]
        if self.candidates is None:
            return Batch(self.emit[positions], edge, offsets, self.largest_emit)
        candidates = self.candidates.take(positions)
        return Batch.of_candidates(candidates, self.shape[1], offsets, self.largest_emit, edge)

    def restrict(self, allowed: Bool, *, may_list: bool) -> Batch:
        """Return a batch in which only some labels are allowed, given as an array [T, Y].

        ``may_list`` permits the layout of candidates, which is chosen if few labels are allowed.
        """
        Y = self.shape[1]
        if self.candidates is not None:
            candidates = self.candidates
            keep = allowed[candidates.positions, candidates.label_ids]
            few = candidates.select(keep)
            return Batch.of_candidates(few, Y, self.offsets, self.largest_emit, self.edge)
        if may_list and self.edge is None and allowed.size * Y >= _LEAST_PAIRS:
            n = np.count_nonzero(allowed, axis=1)  # [T]
            if _are_few(n, Y):
                flat = np.flatnonzero(allowed)
                label_ids = (flat % Y).astype(np.int32)
                indptr = np.concatenate([[0], np.cumsum(n)])
                few = Candidates(indptr, label_ids, self.emit.reshape(-1)[flat])
                return Batch.of_candidates(few, Y, self.offsets, self.largest_emit)
        emit = np.where(allowed, self.emit, self.dtype.type(-np.inf))
        return Batch(emit, self.edge, self.offsets, self.largest_emit)

    def prune(self, pruning: Pruning) -> Batch:
        """Return a batch in the layout of candidates; see `Trellis.prune`."""
        if self.candidates is None:
            arrays = _native.list_candidates(self.emit, pruning.native)
        else:
            arrays = _native.select_candidates(*self.candidates, pruning.native)
        listed = Candidates(*arrays)
        return Batch.of_candidates(listed, self.shape[1], self.offsets, self.largest_emit)

    def map_scores(self, function: Callable[[Floats], Floats]) -> Batch:
        """Return a batch with a function applied to all scores."""
        largest = float(function(np.array([self.largest_emit], dtype=self.dtype))[0])
        edge = None if self.edge is None else function(self.edge)
        if self.candidates is None:
            return Batch(function(self.emit), edge, self.offsets, largest)
        candidates = self.candidates._replace(scores=function(self.candidates.scores))
        return Batch.of_candidates(candidates, self.shape[1], self.offsets, largest, edge)


def take_sequences(offsets: Int64, sequences: Int64) -> tuple[Int64, Positions]:
    """Return the offsets of some sequences alone, and their positions; a slice for neighbours."""
    lengths = np.diff(offsets)[sequences]
    alone = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if len(sequences) == 0:
        return alone, slice(0, 0)
    if (np.diff(sequences) == 1).all():
        return alone, slice(int(offsets[sequences[0]]), int(offsets[sequences[-1] + 1]))
    within = np.arange(alone[-1]) - np.repeat(alone[:-1], lengths)
    return alone, np.repeat(offsets[sequences], lengths) + within


def _are_few(n: Int64, Y: int) -> bool:
    """Whether lists of n [T] candidates are faster than all Y labels with −inf."""
    pairs = int(n[:-1] @ n[1:])
    return _DENSE_PAIRS * (pairs + _PAIRS_PER_POSITION * len(n)) <= Y * Y * len(n)


def read_candidates(
    scores: npt.ArrayLike,
    label_ids: npt.ArrayLike,
    indptr: npt.ArrayLike,
    n_labels: int,
    offsets: npt.ArrayLike | None,
    n_threads: int,
) -> Batch:
    """Check candidates and their scores."""
    values, largest = measure_scores(scores, "scores", None, n_threads)
    ids = as_array(label_ids, "label_ids")
    if ids.dtype.kind not in "iu" or ids.ndim != 1 or values.shape != ids.shape:
        found = f"{ids.dtype} of shape {ids.shape}, with scores of shape {values.shape}"
        expected = "integers of shape (C,), as many as scores"
        raise ShapeError(parameter="label_ids", expected=expected, found=found)
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < n_labels:
        j = int(np.flatnonzero((ids < 0) | (ids >= n_labels))[0])
        expected = f"a label id from 0 to {n_labels - 1}"
        raise LabelError(where=f"label_ids[{j}]", expected=expected, found=str(ids[j]))
    ids = np.ascontiguousarray(ids, dtype=np.int32)
    rows = check_offsets(indptr, len(ids), "indptr", "candidates")
    j = _native.check_candidates(rows, ids, n_labels)
    if j >= 0:
        raise LabelError(
            where=f"label_ids[{j - 1}:{j + 1}]",
            expected="labels in ascending order at each position",
            found=f"{ids[j - 1]}, {ids[j]}",
        )
    T = len(rows) - 1
    starts = np.array([0, T]) if offsets is None else check_offsets(offsets, T)
    return Batch.of_candidates(Candidates(rows, ids, values), n_labels, starts, largest)


def read_batch(
    emit: npt.ArrayLike,
    edge: npt.ArrayLike | None,
    offsets: npt.ArrayLike | None,
    n_threads: int,
    like: Batch | None = None,
) -> Batch:
    """Check scores; ``like`` is a batch whose type and number of labels they must have."""
    dtype = None if like is None else like.dtype
    scores, largest = measure_scores(emit, "emit", dtype, n_threads)
    Y = None if like is None else like.shape[1]
    if scores.ndim != 2 or scores.shape[1] == 0 or Y not in (None, scores.shape[1]):
        labels = "at least one label" if Y is None else f"Y = {Y}"
        expected = f"of shape (T, Y) with {labels}"
        raise ShapeError(parameter="emit", expected=expected, found=str(scores.shape))
    T, Y = scores.shape
    starts = np.array([0, T]) if offsets is None else check_offsets(offsets, T)
    edge = check_shape(edge, "edge", "(T, Y, Y)", (T, Y, Y), scores)
    return Batch(scores, edge, starts, largest)


def check_shape(
    array: npt.ArrayLike | None, name: str, form: str, shape: tuple[int, ...], emit: Floats | Batch
) -> Floats | None:
    """Return scores of a shape, of form "(Y, Y)" say, and of the type of emit; None for None."""
    if array is None:
        return None
    scores, _ = measure_scores(array, name, emit.dtype, 1)
    if scores.shape != shape:
        match = f" to match emit {emit.shape}" if "Y" in form else ""
        expected = f"of shape {form} = {shape}{match}"
        raise ShapeError(parameter=name, expected=expected, found=str(scores.shape))
    return scores


def stack_scores(emits: Any, edges: Any = None) -> tuple[Floats, Floats | None, Int64]:
    """Concatenate the scores of sequences: emit [T, Y], edge [T, Y, Y] and offsets [N + 1]."""
    arrays = _array_list(emits, "emits")
    for i, array in enumerate(arrays):
        if array.ndim != 2 or array.shape[1:] != arrays[0].shape[1:]:
            expected = f"of shape (T, Y) with the Y of emits[0] {arrays[0].shape}"
            raise ShapeError(parameter=f"emits[{i}]", expected=expected, found=str(array.shape))
    if not arrays:
        raise ShapeError(
            parameter="emits",
            expected="at least one array, which determines the number of labels",
            found="none",
            hint="For an empty batch: Trellis(np.empty((0, Y)), ..., offsets=[0]).",
        )
    edge = None if edges is None else np.concatenate(_stacked_edges(edges, arrays))
    offsets = np.cumsum([0] + [len(array) for array in arrays])
    return np.concatenate(arrays), edge, offsets


def _stacked_edges(edges: Any, emits: list[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    arrays = _array_list(edges, "edge")
    if len(arrays) != len(emits):
        expected = f"{len(emits)} arrays, one per sequence"
        raise ShapeError(parameter="edge", expected=expected, found=str(len(arrays)))
    for i, (edge, emit) in enumerate(zip(arrays, emits, strict=True)):
        shape = (*emit.shape, emit.shape[1])
        if edge.shape != shape:
            expected = f"of shape (T, Y, Y) = {shape} to match emits[{i}] {emit.shape}"
            raise ShapeError(parameter=f"edge[{i}]", expected=expected, found=str(edge.shape))
    return arrays


def _array_list(arrays: Any, name: str) -> list[npt.NDArray[Any]]:
    if isinstance(arrays, str | bytes) or not isinstance(arrays, Iterable):
        expected = "a list of arrays, one per sequence"
        raise ShapeError(parameter=name, expected=expected, found=show(arrays))
    return [as_array(array, f"{name}[{i}]") for i, array in enumerate(arrays)]
