"""The scores of a ragged batch: the positions of all sequences in a row, and where each begins.

A single sequence is a batch of one. What all sequences share, the scores of transitions, is in
`engine.Transitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.checks import show
from tagloom.errors import ShapeError
from tagloom.trellis.inputs import as_array, check_offsets, measure_scores

Floats = npt.NDArray[np.floating[Any]]
Int64 = npt.NDArray[np.int64]
Positions = slice | Int64


class Batch:
    """Checked scores of N sequences with T positions in all. Immutable.

    Attributes
    ----------
    emit : ndarray, shape (T, Y)
    edge : ndarray, shape (T, Y, Y), or None
        The row of a sequence's first position is not used.
    offsets : ndarray of int64, shape (N + 1,)
    largest_emit : float
        No finite score in emit has a larger absolute value.
    native : _native.Batch
        The same arrays for the native core.
    """

    __slots__ = ("edge", "emit", "largest_emit", "native", "offsets")

    def __init__(
        self, emit: Floats, edge: Floats | None, offsets: Int64, largest_emit: float
    ) -> None:
        self.emit, self.edge, self.offsets = emit, edge, offsets
        self.largest_emit = largest_emit
        self.native = _native.Batch(emit, edge, offsets, largest_emit)

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self.emit, self.edge, self.offsets, self.largest_emit)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def one(self, i: int) -> Batch:
        """Return sequence i as a batch of one, not copied."""
        lo, hi = int(self.offsets[i]), int(self.offsets[i + 1])
        edge = None if self.edge is None else self.edge[lo:hi]
        return Batch(self.emit[lo:hi], edge, np.array([0, hi - lo]), self.largest_emit)

    def take(self, sequences: Int64) -> tuple[Batch, Positions]:
        """Return some sequences, and their positions in this batch. Neighbours are not copied."""
        lengths = np.diff(self.offsets)[sequences]
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
        edge = None if self.edge is None else self.edge[positions]
        return Batch(self.emit[positions], edge, offsets, self.largest_emit), positions

    def with_emit(self, emit: Floats) -> Batch:
        """Return a batch with other scores of labels, no finite one larger than before."""
        return Batch(emit, self.edge, self.offsets, self.largest_emit)

    def map_scores(self, function: Callable[[Floats], Floats]) -> Batch:
        """Return a batch with a function applied to all scores."""
        largest = function(np.array([self.largest_emit], dtype=self.emit.dtype))
        edge = None if self.edge is None else function(self.edge)
        return Batch(function(self.emit), edge, self.offsets, float(largest[0]))


def read_batch(
    emit: npt.ArrayLike,
    edge: npt.ArrayLike | None,
    offsets: npt.ArrayLike | None,
    n_threads: int,
    like: Floats | None = None,
) -> Batch:
    """Check scores; ``like`` is an emit whose type and number of labels they must have."""
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
    array: npt.ArrayLike | None, name: str, form: str, shape: tuple[int, ...], emit: Floats
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
