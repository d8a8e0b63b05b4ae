"""Constraints as masks: which labels are allowed where, and which transitions at all.

`Trellis.constrain` takes them in the forms that users write, mappings from positions to labels and
pairs of labels; these functions turn them into arrays of bool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tagloom.errors import ShapeError
from tagloom.trellis.inputs import as_list, check_mask, label_id

if TYPE_CHECKING:
    from tagloom.trellis.trellis import Trellis

Bool = npt.NDArray[np.bool_]


def allowed_labels(trellis: Trellis, allowed: Any, forced: Any, forbidden: Any) -> Bool:
    """Return whether label y is allowed at position t, as an array [T, Y]."""
    mask = np.ones(trellis.emit.shape, dtype=np.bool_)
    if isinstance(allowed, Mapping):
        for t, labels in _by_position(trellis, allowed, "allowed"):
            mask[t] &= _one_hot(trellis, labels)
    elif allowed is not None:
        mask &= check_mask(allowed, "allowed", trellis.emit.shape)
    for t, labels in _by_position(trellis, forced, "forced", single=True):
        mask[t] &= _one_hot(trellis, labels)
    for t, labels in _by_position(trellis, forbidden, "forbidden"):
        mask[t, labels] = False
    return mask


def _one_hot(trellis: Trellis, labels: list[int]) -> Bool:
    mask = np.zeros(trellis.n_labels, dtype=np.bool_)
    mask[labels] = True
    return mask


def _by_position(
    trellis: Trellis, mapping: Any, name: str, *, single: bool = False
) -> Iterable[tuple[int, list[int]]]:
    """Yield the flat position and the label ids of each entry of a mapping."""
    if mapping is None:
        return
    if not isinstance(mapping, Mapping):
        raise ShapeError(
            f"{name} must be a dict such as {{2: 'NOUN'}}, from position to label; "
            f"got {mapping!r:.60}."
        )
    for position, value in mapping.items():
        labels = None if single else as_list(value)
        where = f"{name}[{position!r}]"
        ids = [
            label_id(label, trellis.n_labels, trellis.labels, where)
            for label in ([value] if labels is None else labels)
        ]
        yield _flat_position(trellis, position, name), ids


def _flat_position(trellis: Trellis, position: Any, name: str) -> int:
    """Return the flat position for a position t, or for (sequence, position) in a batch."""
    pair = as_list(position, ordered=True) if trellis.is_batch else [0, position]
    if pair is None or len(pair) != 2:
        raise ShapeError(
            f"{name}: in a batch a position is (sequence, position); got {position!r:.60}."
        )
    i, t = pair
    n = len(trellis.offsets) - 1
    if not isinstance(i, (int, np.integer)) or not 0 <= i < n:
        raise ShapeError(f"{name}: sequence {i!r:.60} is not in 0 to {n - 1}.")
    T = int(trellis.offsets[i + 1] - trellis.offsets[i])
    if not isinstance(t, (int, np.integer)) or not 0 <= t < T:
        raise ShapeError(f"{name}: position {t!r:.60} is not in 0 to {T - 1}.")
    return int(trellis.offsets[i] + t)


def forbidden_transitions(trellis: Trellis, moves: Any) -> Bool:
    """Return whether y may not follow y_prev, as an array [Y, Y], from a mask or from pairs."""
    Y = trellis.n_labels
    pairs = moves if isinstance(moves, np.ndarray) else as_list(moves)
    if pairs is None:
        raise ShapeError(
            "forbidden_moves must be pairs (from, to), or an array of bool with shape "
            f"{(Y, Y)}; got {moves!r:.60}."
        )
    if isinstance(pairs, np.ndarray) or _are_rows_of_bools(pairs):
        return check_mask(pairs, "forbidden_moves", (Y, Y))
    forbidden = np.zeros((Y, Y), dtype=np.bool_)
    for pair in pairs:
        labels = as_list(pair, ordered=True)
        if labels is None or len(labels) != 2:
            raise ShapeError(f"forbidden_moves: {pair!r:.60} is not a pair (from, to).")
        y_prev, y = (label_id(x, Y, trellis.labels, "forbidden_moves") for x in labels)
        forbidden[y_prev, y] = True
    return forbidden


def _are_rows_of_bools(rows: list[Any]) -> bool:
    return bool(rows) and all(
        isinstance(row, list) and all(isinstance(x, bool) for x in row) for row in rows
    )
