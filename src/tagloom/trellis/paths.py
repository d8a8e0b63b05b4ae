"""Label paths as users write them: ids or names, flat or one list per sequence, and back."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tagloom.checks import show
from tagloom.errors import LabelError, ShapeError
from tagloom.trellis.inputs import as_array, as_list, label_id

if TYPE_CHECKING:
    from tagloom.trellis.trellis import Trellis


def path_ids(trellis: Trellis, path: Any) -> npt.NDArray[np.int32]:
    """Return label ids [T], flat, from ids or names, flat or one path per sequence."""
    flat = _flat_path(trellis, path)
    T, Y, names = len(trellis.emit), trellis.n_labels, trellis.labels
    if len(flat) != T:
        raise _wrong_length(T, str(len(flat)))
    if isinstance(flat, list) and not _are_ints(flat):
        known = {name: y for y, name in enumerate(names or ())}
        ids = [
            known[y]
            if isinstance(y, str) and y in known
            else label_id(y, Y, names, f"path, {trellis._place(t)}")
            for t, y in enumerate(flat)
        ]
        return np.array(ids, dtype=np.int32)
    array = np.asarray(flat)
    wrong = np.flatnonzero((array < 0) | (array >= Y))
    if len(wrong):
        t = int(wrong[0])
        label_id(int(array[t]), Y, names, f"path, {trellis._place(t)}")  # raises
    return array.astype(np.int32)


def _flat_path(trellis: Trellis, path: Any) -> npt.NDArray[np.integer[Any]] | list[Any]:
    """Return the labels of a path, or of a batch's paths in a row, as they were given."""
    if hasattr(path, "__array__"):
        array: npt.NDArray[Any] = np.asarray(path)
        if array.ndim == 1 and array.dtype.kind in "iu":
            return array
        if array.ndim != 1 and not (trellis.is_batch and array.ndim == 2):
            raise _wrong_length(len(trellis.emit), f"shape {array.shape}")
        path = array
    labels = as_list(path, ordered=True)
    if labels is None:
        raise ShapeError(parameter="path", expected="a list of labels", found=show(path))
    if not trellis.is_batch or not labels or isinstance(labels[0], (int, np.integer, str)):
        return labels
    return _joined_paths(trellis, labels)


def _joined_paths(trellis: Trellis, paths: list[Any]) -> list[Any]:
    if len(paths) != len(trellis):
        expected = f"{len(trellis)} paths, one per sequence"
        raise ShapeError(parameter="path", expected=expected, found=str(len(paths)))
    flat: list[Any] = []
    for i, (path, T) in enumerate(zip(paths, trellis.lengths.tolist(), strict=True)):
        row = as_list(path, ordered=True)
        if row is None or len(row) != T:
            found = show(path) if row is None else str(len(row))
            raise ShapeError(where=f"path, sequence {i}", expected=f"{T} labels", found=found)
        flat += row
    return flat


def _wrong_length(T: int, found: str) -> ShapeError:
    return ShapeError(parameter="path", expected=f"{T} labels, one per position", found=found)


def _are_ints(labels: list[Any]) -> bool:
    """Whether all are ids; NumPy would turn the ids among names into text, and True into 1."""
    kinds = set(map(type, labels))
    return all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds)


def path_names(trellis: Trellis, path: Any) -> list[Any]:
    """Return the names of the labels of a path; one list per sequence for a batch."""
    T, Y = trellis.emit.shape
    if trellis.labels is None:
        raise LabelError("This trellis has no label names.", hint="Pass labels= to Trellis.")
    ids = as_array(path, "path")
    if ids.shape != (T,):
        raise ShapeError(parameter="path", expected=f"of shape ({T},)", found=str(ids.shape))
    are_whole = ids.dtype.kind in "iu" or T == 0
    if not are_whole or ((ids < -1) | (ids >= Y)).any():
        expected = f"label ids from 0 to {Y - 1}, or -1"
        raise LabelError(parameter="path", expected=expected, found=show(ids.tolist()))
    lookup = [*trellis.labels, None]  # -1 is the last
    names = [lookup[y] for y in ids.tolist()]
    if not trellis.is_batch:
        return names
    return [names[lo:hi] for lo, hi in pairwise(trellis.offsets.tolist())]
