"""Constraints as masks: which labels are allowed where, and which transitions at all.

`Trellis.constrain` takes them in the forms that users write, mappings from positions to labels and
pairs of labels; these functions turn them into arrays of bool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tagloom.checks import show
from tagloom.errors import ShapeError
from tagloom.trellis.inputs import as_list, check_mask, label_id

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]


class Labelled(Protocol):
    """A structure in which each position has one of Y labels: a trellis, or trees by heads."""

    @property
    def offsets(self) -> Int64:
        """Where each sequence begins and ends [N + 1]."""

    @property
    def is_batch(self) -> bool:
        """Whether positions are pairs."""

    @property
    def n_labels(self) -> int:
        """Y."""

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Names of the labels."""


def allowed_labels(trellis: Labelled, allowed: Any, forced: Any, forbidden: Any) -> Bool:
    """Return whether label y is allowed at position t, as an array [T, Y]."""
    shape = int(trellis.offsets[-1]), trellis.n_labels
    mask = np.ones(shape, dtype=np.bool_)
    if isinstance(allowed, Mapping):
        for t, labels in _by_position(trellis, allowed, "allowed"):
            mask[t] &= _one_hot(trellis, labels)
    elif allowed is not None:
        mask &= check_mask(allowed, "allowed", shape)
    for t, labels in _by_position(trellis, forced, "forced", single=True):
        mask[t] &= _one_hot(trellis, labels)
    for t, labels in _by_position(trellis, forbidden, "forbidden"):
        mask[t, labels] = False
    return mask


def _one_hot(trellis: Labelled, labels: list[int]) -> Bool:
    mask = np.zeros(trellis.n_labels, dtype=np.bool_)
    mask[labels] = True
    return mask


def _by_position(
    trellis: Labelled, mapping: Any, name: str, *, single: bool = False
) -> Iterable[tuple[int, list[int]]]:
    """Yield the flat position and the label ids of each entry of a mapping."""
    if mapping is None:
        return
    if not isinstance(mapping, Mapping):
        expected = "a dict from position to label, such as {2: 'NOUN'}"
        raise ShapeError(parameter=name, expected=expected, found=show(mapping))
    for position, value in mapping.items():
        labels = None if single else as_list(value)
        where = f"{name}[{position!r}]"
        ids = [
            label_id(label, trellis.n_labels, trellis.labels, where)
            for label in ([value] if labels is None else labels)
        ]
        yield _flat_position(trellis, position, name), ids


def _flat_position(trellis: Labelled, position: Any, name: str) -> int:
    """Return the flat position for a position t, or for (sequence, position) in a batch."""
    pair = as_list(position, ordered=True) if trellis.is_batch else [0, position]
    if pair is None or len(pair) != 2:
        expected = "a pair (sequence, position), since this is a batch"
        raise ShapeError(where=name, expected=expected, found=show(position))
    i, t = pair
    _check_index(i, len(trellis.offsets) - 1, name, "sequence")
    _check_index(t, int(trellis.offsets[i + 1] - trellis.offsets[i]), name, "position")
    return int(trellis.offsets[i] + t)


def _check_index(i: Any, n: int, name: str, kind: str) -> None:
    if not isinstance(i, (int, np.integer)) or not 0 <= i < n:
        raise ShapeError(where=name, expected=f"a {kind} from 0 to {n - 1}", found=show(i))


def forbidden_transitions(trellis: Labelled, transitions: Any) -> Bool:
    """Return whether y may not follow y_prev, as an array [Y, Y], from a mask or from pairs."""
    Y = trellis.n_labels
    pairs = transitions if isinstance(transitions, np.ndarray) else as_list(transitions)
    if pairs is None:
        expected = f"a list of pairs (from, to), or an array of bool of shape {(Y, Y)}"
        raise ShapeError(
            parameter="forbidden_transitions", expected=expected, found=show(transitions)
        )
    if isinstance(pairs, np.ndarray) or _are_rows_of_bools(pairs):
        return check_mask(pairs, "forbidden_transitions", (Y, Y))
    forbidden = np.zeros((Y, Y), dtype=np.bool_)
    for pair in pairs:
        labels = as_list(pair, ordered=True)
        if labels is None or len(labels) != 2:
            raise ShapeError(
                where="forbidden_transitions", expected="a pair (from, to)", found=show(pair)
            )
        y_prev, y = (label_id(x, Y, trellis.labels, "forbidden_transitions") for x in labels)
        forbidden[y_prev, y] = True
    return forbidden


def _are_rows_of_bools(rows: list[Any]) -> bool:
    return bool(rows) and all(
        isinstance(row, list) and all(isinstance(x, bool) for x in row) for row in rows
    )
