"""The layout of the weight vector θ, and how weights are carried from one layout to another.

θ = [node rows W][edge rows][sub-tag rows A·S][trans Y·Y, from → to][start Y][stop Y][tied K]
    [pairs of sub-tags S·S]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.scores import LinearScores, Rows, Subtags
from tagloom.trellis import StateSpace

if TYPE_CHECKING:
    from tagloom.models.reading import TrainingData

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """The order of the weights of a linear model.

    Attributes
    ----------
    labels : tuple of str
    ptr, cols : ndarray
        The rows of node attributes, see `Rows`.
    edge_ptr, edge_cols : ndarray
    boundaries : bool
        Whether θ has start and stop weights.
    ties : tuple
        The meaning of each weight that the state space ties to its transitions.
    n_subtags : int
        S, the number of sub-tags.
    """

    labels: tuple[str, ...]
    ptr: Int64
    cols: npt.NDArray[Any]
    edge_ptr: Int64
    edge_cols: npt.NDArray[Any]
    boundaries: bool
    ties: tuple[Any, ...] = ()
    n_subtags: int = 0

    @classmethod
    def of_objective(
        cls,
        labels: tuple[str, ...],
        objective: _native.LinearObjective,
        states: StateSpace | None = None,
        n_subtags: int = 0,
    ) -> Layout:
        """Return the layout of an objective."""
        rows, edges = objective.rows()[:2], objective.edge_rows()[:2]
        ties = tie_names(labels, states)
        return cls(labels, *rows, *edges, objective.boundaries, ties, n_subtags)

    @classmethod
    def of_scores(cls, scores: LinearScores) -> Layout:
        """Return the layout in which scores keep their weights."""
        edges = scores.edge_rows or Rows(np.zeros(1, np.int64), np.empty(0, np.uint16), _NOTHING)
        return cls(
            scores.labels,
            scores.rows.ptr,
            scores.rows.cols,
            edges.ptr,
            edges.cols,
            True,
            tie_names(scores.labels, scores.states),
        )

    @property
    def n_weights(self) -> int:
        """The length of θ."""
        Y = len(self.labels)
        ends = 2 * Y * self.boundaries
        return self.transitions_at + Y * Y + ends + len(self.ties) + self.n_subtags**2

    @property
    def transitions_at(self) -> int:
        """Index of the first transition weight."""
        return self.subtags_at + (len(self.ptr) - 1) * self.n_subtags

    @property
    def subtags_at(self) -> int:
        """Index of the first weight of an attribute and a sub-tag."""
        return len(self.cols) + len(self.edge_cols)

    def pairs(self, labels: list[str]) -> tuple[Any, Any]:
        """List the pairs (attribute, column) of nodes and of edges, for other labels."""
        place, pairs = self._places(labels)
        node = _attributes(self.ptr).astype(np.int32), place[self.cols].astype(np.uint16)
        if not len(self.edge_cols):
            return node, None
        edge = _attributes(self.edge_ptr).astype(np.int32)
        return node, (edge, pairs[self.edge_cols].astype(np.uint16))

    def positions(self, new: Layout) -> Int64:
        """Return the index of each weight in a new layout, or −1 if it has none.

        The new layout must have all attributes, with the same numbers, and all labels, in any
        order.
        """
        Y = len(new.labels)
        place, pairs = self._places(list(new.labels))
        parts = [
            _find(self.ptr, place[self.cols], new.ptr, new.cols, Y),
            len(new.cols)
            + _find(self.edge_ptr, pairs[self.edge_cols], new.edge_ptr, new.edge_cols, Y * Y),
            new.transitions_at + pairs,
        ]
        if self.boundaries:
            first = new.transitions_at + Y * Y
            bounds = np.concatenate([first + place, first + Y + place])
            parts.append(bounds if new.boundaries else np.full_like(bounds, -1))
        numbers = {tie: k for k, tie in enumerate(new.ties, new.n_weights - len(new.ties))}
        parts.append(np.array([numbers.get(tie, -1) for tie in self.ties], dtype=np.int64))
        return np.concatenate(parts)

    def rows_of(
        self, ids: npt.NDArray[np.int32], edge_ids: npt.NDArray[np.int32]
    ) -> tuple[Int64, Layout]:
        """Return the places of the weights of some attributes and of all transitions.

        Parameters
        ----------
        ids, edge_ids : ndarray of int
            The attributes and edge attributes, in their new order.

        Returns
        -------
        positions : ndarray
            In θ.
        layout : Layout
            Of these weights, without the names of ties.
        """
        ptr, at = _rows_of(self.ptr, ids)
        edge_ptr, edge_at = _rows_of(self.edge_ptr, edge_ids)
        tail = np.arange(self.transitions_at, self.n_weights)
        layout = replace(
            self,
            ptr=ptr,
            cols=self.cols[at],
            edge_ptr=edge_ptr,
            edge_cols=self.edge_cols[edge_at],
            ties=(),
        )
        return np.concatenate([at, len(self.cols) + edge_at, tail]), layout

    def carry(
        self, values: npt.NDArray[Any], new: Layout, defaults: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]:
        """Return one value per weight in the order of a new layout.

        New weights get their value in ``defaults``, or 0.
        """
        carried = np.zeros(new.n_weights, values.dtype) if defaults is None else defaults.copy()
        positions = self.positions(new)
        kept = positions >= 0
        carried[positions[kept]] = values[: len(kept)][kept]
        return carried

    def _places(self, labels: list[str]) -> tuple[Int64, Int64]:
        """The new number of each label [Y], and of each pair of labels [Y·Y]."""
        place = np.array([labels.index(label) for label in self.labels], dtype=np.int64)
        return place, (place[:, None] * len(labels) + place[None, :]).ravel()


_NOTHING = np.empty(0, dtype=np.float32)


def tie_names(labels: tuple[str, ...], states: StateSpace | None) -> tuple[Any, ...]:
    """Return the meaning of each tied weight: an n-gram of labels, or a place in its group."""
    if states is None:
        return ()
    ties: list[Any] = []
    for group, shape in states.weight_groups.items():
        grams = states.ngrams.get(group)
        if grams is None and states.kind == "order":  # all of them
            grams = tuple(np.ndindex(shape))
        if grams is None:
            ties += [(group, place) for place in np.ndindex(shape)]
        else:
            ties += [(group, *(labels[y] for y in gram)) for gram in grams]
    return tuple(ties)


def _attributes(ptr: Int64) -> Int64:
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def _find(ptr: Int64, cols: Int64, new_ptr: Int64, new_cols: npt.NDArray[Any], K: int) -> Int64:
    """Find each (attribute, column) among the new rows, whose columns ascend in every row."""
    new_keys = _attributes(new_ptr) * K + new_cols
    indices: Int64 = np.searchsorted(new_keys, _attributes(ptr) * K + cols)
    return indices


def cut(theta: Float64, data: TrainingData) -> LinearScores:
    """Cut the vector of weights into the parts of scores; the inverse of `join`.

    Parameters
    ----------
    theta : ndarray, shape (n_weights,)
    data : TrainingData
        With the layout of ``theta``.
    """
    layout = data.layout
    assert layout is not None
    if data.subtags is not None:
        return _cut_subtags(theta, data, layout, data.subtags)
    Y = len(data.names)
    W, E = len(layout.cols), layout.transitions_at
    K = 0 if data.states is None else data.states.n_weights
    weights = theta.astype(np.float32)
    ends = theta[E + Y * Y :] if layout.boundaries else np.zeros(2 * Y)
    has_edges = len(layout.edge_cols) > 0
    return LinearScores(
        labels=tuple(data.names),
        extractor=data.extractor,
        index=data.index,
        rows=Rows(layout.ptr, layout.cols, weights[:W]),
        trans=theta[E : E + Y * Y].reshape(Y, Y).copy(),
        start=ends[:Y].copy(),
        stop=ends[Y : 2 * Y].copy(),
        names=data.attributes,
        edge_index=data.edge_index if has_edges else None,
        edge_rows=Rows(layout.edge_ptr, layout.edge_cols, weights[W:E]) if has_edges else None,
        edge_names=data.edge_attributes if has_edges else None,
        states=data.states,
        tied=theta[len(theta) - K :].copy(),
    )


def _cut_subtags(
    theta: Float64, data: TrainingData, layout: Layout, subtags: Subtags
) -> LinearScores:
    """The same for labels with sub-tags: one row for both, and one matrix of transitions."""
    Y, S, E = len(data.names), len(subtags), layout.transitions_at
    shared = theta[layout.subtags_at : E].astype(np.float32).reshape(-1, S)  # [A, S]
    used = shared != 0
    ends = theta[E + Y * Y :] if layout.boundaries else np.zeros(2 * Y)
    between = theta[len(theta) - S * S :].reshape(S, S)
    K = len(layout.ties)
    n_before = np.concatenate([[0], np.cumsum(np.count_nonzero(used, axis=1))])  # [A + 1]
    n_own = np.diff(layout.ptr)
    W = len(layout.cols) + int(n_before[-1])
    cols, weights = np.empty(W, np.uint16), np.empty(W, np.float32)
    of_label = np.arange(len(layout.cols)) + np.repeat(n_before[:-1], n_own)
    cols[of_label], weights[of_label] = layout.cols, theta[: len(layout.cols)]
    attribute, s = np.nonzero(used)
    of_subtag = np.arange(int(n_before[-1])) + layout.ptr[1:][attribute]
    cols[of_subtag], weights[of_subtag] = Y + s, shared[used]
    return LinearScores(
        labels=tuple(data.names),
        extractor=data.extractor,
        index=data.index,
        rows=Rows(layout.ptr + n_before, cols, weights),
        trans=theta[E : E + Y * Y].reshape(Y, Y) + subtags.fold(between),
        start=ends[:Y].copy(),
        stop=ends[Y : 2 * Y].copy(),
        names=data.attributes,
        states=data.states,
        tied=theta[len(theta) - S * S - K : len(theta) - S * S].copy(),
        subtags=subtags,
    )


def join(scores: LinearScores) -> Float64:
    """Put the weights of scores into one vector, in the order of `Layout.of_scores`."""
    edges = _NOTHING if scores.edge_rows is None else scores.edge_rows.weights
    parts: list[npt.NDArray[Any]]
    parts = [scores.rows.weights, edges, scores.trans.ravel(), scores.start, scores.stop]
    if scores.tied is not None:
        parts.append(scores.tied)
    return np.concatenate(parts).astype(np.float64)


def _rows_of(ptr: Int64, ids: npt.NDArray[np.int32]) -> tuple[Int64, Int64]:
    """Return where the rows of some attributes end, and the places of their entries."""
    lengths = np.diff(ptr)[ids] if len(ids) else np.empty(0, np.int64)
    ends = np.cumsum(lengths)
    begins = ptr[ids] if len(ids) else np.empty(0, np.int64)
    places = np.repeat(begins - (ends - lengths), lengths) + np.arange(ends[-1] if len(ids) else 0)
    return np.concatenate([[0], ends]).astype(np.int64), places.astype(np.int64)
