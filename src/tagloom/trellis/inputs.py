"""Arguments of a trellis, checked and converted: scores, offsets, label names, masks.

Every function returns an array or a plain value that the rest of the package uses without further
checks, or raises an error that names the argument and the element. State spaces and trellises share
these functions; batches, masks and paths have their own files.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.checks import show
from tagloom.errors import LabelError, ParameterError, ScoreError, ShapeError

Floats = npt.NDArray[np.floating[Any]]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


# ---- lists and arrays ---------------------------------------------------------------------------


def as_list(values: Any, *, ordered: bool = False) -> list[Any] | None:
    """Return the values as a list, or None if they are not a list of values (a str, a dict).

    A set counts as a list unless the order matters.
    """
    if isinstance(values, list):
        return values
    if isinstance(values, (str, bytes, Mapping)) or (ordered and isinstance(values, Set)):
        return None
    if isinstance(values, np.ndarray) and values.ndim:
        return list(values.tolist())  # Python numbers and strings
    try:
        return list(iter(values))
    except TypeError:
        return None


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Return the values as an array; rows of different lengths are an error."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ShapeError(
            parameter=name, expected="an array with rows of one length", found=show(values)
        ) from None


def check_mask(mask: Any, name: str, shape: tuple[int, ...]) -> Bool:
    """Return an array of bool of this shape."""
    array = as_array(mask, name)
    if array.dtype != np.bool_ or array.shape != shape:
        found = f"{array.dtype} of shape {array.shape}"
        raise ShapeError(parameter=name, expected=f"an array of bool of shape {shape}", found=found)
    return array


def check_buffer(buffer: Any, name: str, shape: tuple[int, ...]) -> None:
    """Raise ShapeError unless the buffer is None or a writable float array of this shape."""
    if buffer is None:
        return
    found = None
    if not isinstance(buffer, np.ndarray) or buffer.shape != shape:
        found = f"shape {buffer.shape}" if hasattr(buffer, "shape") else type(buffer).__name__
    elif buffer.dtype.kind != "f":
        found = str(buffer.dtype)
    elif not buffer.flags.writeable:
        found = "a read-only array"
    if found is not None:
        expected = f"a writable float array of shape {shape}"
        raise ShapeError(parameter=name, expected=expected, found=found)


# ---- scores -------------------------------------------------------------------------------------


def check_scores(array: npt.ArrayLike, name: str, dtype: Any = None) -> Floats:
    """Return a C-contiguous float array; NaN and +inf are errors that name the element."""
    return measure_scores(array, name, dtype, 1)[0]


def measure_scores(
    array: npt.ArrayLike, name: str, dtype: Any, n_threads: int
) -> tuple[Floats, float]:
    """Return the array as `check_scores` does, and its largest finite absolute value."""
    scores = _as_floats(array, name, dtype)
    bad, largest = _native.check_scores(scores, n_threads)
    if bad >= 0:
        raise ScoreError(
            where=_element(name, bad, scores),
            expected="a score between -1e300 and 1e300, or -inf for forbidden",
            found=str(scores.flat[bad]),
        )
    return scores, largest


def _as_floats(array: npt.ArrayLike, name: str, dtype: Any) -> Floats:
    """Return a C-contiguous array of the given type, or of float32 or float64 if it is None."""
    try:
        scores = np.asarray(array)
        if dtype is not None and scores.dtype != dtype:
            scores = cast_scores(scores, dtype, name)
    except (TypeError, ValueError) as error:
        if isinstance(error, ScoreError):
            raise
        raise ShapeError(
            parameter=name, expected="an array of numbers", found=show(array)
        ) from None
    if scores.dtype != _FLOAT64 and scores.dtype != _FLOAT32:
        if scores.dtype.kind not in "fiub":
            found = f"an array of {scores.dtype}"
            raise ShapeError(parameter=name, expected="an array of numbers", found=found)
        scores = scores.astype(np.float64)
    return scores if scores.flags.c_contiguous else np.ascontiguousarray(scores)


def cast_scores(scores: npt.NDArray[Any], dtype: Any, name: str) -> npt.NDArray[Any]:
    """Return the scores in another type; a number that the type cannot hold is an error."""
    with np.errstate(over="ignore"):
        cast = scores.astype(dtype)
    if cast.dtype == np.float32 and scores.dtype.kind == "f":
        lost = np.flatnonzero(np.isinf(cast) & np.isfinite(scores))
        if len(lost):
            raise ScoreError(
                where=_element(name, lost[0], scores),
                expected="a score that float32, the type of emit, can hold",
                found=str(scores.flat[lost[0]]),
                hint="Pass emit as float64.",
            )
    return cast


def _element(name: str, i: int, array: npt.NDArray[Any]) -> str:
    """Name element i of a flattened array: ``emit[3, 1]``."""
    return f"{name}[{', '.join(str(j) for j in np.unravel_index(i, array.shape))}]"


# ---- labels and sequences -----------------------------------------------------------------------


def check_names(labels: Any, Y: int) -> tuple[str, ...]:
    """Return the names of the Y labels of a trellis, all different."""
    names = as_list(labels, ordered=True)
    if names is None or not all(isinstance(name, str) for name in names):
        found = "a set" if isinstance(labels, Set) else show(labels)
        raise LabelError(parameter="labels", expected="a list of str", found=found)
    if len(names) != Y:
        expected = f"{Y} names, one per label of emit"
        raise ShapeError(parameter="labels", expected=expected, found=str(len(names)))
    check_distinct(names)
    return tuple(map(str, names))


def check_distinct(names: Sequence[str]) -> None:
    """Raise LabelError if a label is listed twice."""
    if len(set(names)) < len(names):
        twice = next(name for y, name in enumerate(names) if name in names[:y])
        raise LabelError(parameter="labels", expected="distinct labels", found=f"{twice!r} twice")


def label_id(
    label: Any, n_labels: int, names: Sequence[str] | None, where: str | None = None
) -> int:
    """Return the id of a label given by id or by name."""
    if isinstance(label, str):
        if names is not None and label in names:
            return names.index(label)
    elif not isinstance(label, bool):
        try:
            y = operator.index(label)
        except TypeError:
            y = -1
        if 0 <= y < n_labels:
            return y
    raise LabelError(
        where=where,
        expected=_some_labels(n_labels, names),
        found=show(label),
        hint="Pass labels= to use names." if names is None and isinstance(label, str) else None,
    )


def _some_labels(n_labels: int, names: Sequence[str] | None) -> str:
    ids = f"a label id from 0 to {n_labels - 1}"
    if names is None:
        return ids
    more = f", ... ({len(names)} in all)" if len(names) > 10 else ""
    return f"a label: {', '.join(map(repr, names[:10]))}{more}; or {ids}"


def check_offsets(
    offsets: npt.ArrayLike, T: int, name: str = "offsets", rows: str = "rows of emit"
) -> Int64:
    """Return offsets [N + 1] that rise from 0 to the number of rows T."""
    array = as_array(offsets, name)
    expected = f"N + 1 integers that rise from 0 to {T}, the {rows}"
    if array.ndim != 1 or len(array) == 0 or array.dtype.kind not in "iu":
        found = f"an array of {array.dtype}, shape {array.shape}"
        raise ShapeError(parameter=name, expected=expected, found=found)
    array = np.ascontiguousarray(array, dtype=np.int64)
    if array[0] != 0 or array[-1] != T:
        found = f"{array[0]} to {array[-1]}"
        raise ShapeError(parameter=name, expected=expected, found=found)
    falls = np.flatnonzero(np.diff(array) < 0)
    if len(falls):
        i = int(falls[0])
        found = f"{array[i]}, {array[i + 1]} at {name}[{i}:{i + 2}]"
        raise ShapeError(parameter=name, expected=expected, found=found)
    return array


# ---- randomness ---------------------------------------------------------------------------------


def random_generator(random_state: Any) -> np.random.Generator | np.random.RandomState:
    """Return a NumPy generator for a seed, a generator or None."""
    if isinstance(random_state, np.random.RandomState):
        return random_state
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            parameter="random_state",
            expected="None, an integer of at least 0, or a NumPy generator",
            found=show(random_state),
        ) from None


def uniform_numbers(random_state: Any, T: int, n: int) -> npt.NDArray[np.float64]:
    """Return random numbers [T, n] in [0, 1), from a seed or a NumPy generator."""
    generator = random_generator(random_state)
    try:
        return np.asarray(generator.random((T, n)))
    except (MemoryError, ValueError, OverflowError):  # ValueError: beyond NumPy's largest array
        raise ParameterError(
            parameter="n",
            expected=f"a number of samples of {T} labels each that fits into memory",
            found=show(n),
        ) from None
