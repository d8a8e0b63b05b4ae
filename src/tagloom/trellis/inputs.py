"""What users pass to a trellis, checked and converted: scores, offsets, label names, masks.

Every function returns an array or a plain value that the rest of the package uses without further
checks, or raises an error that names the argument and the element. State spaces and trellises share
these functions; masks and paths have files of their own.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import LabelError, ParameterError, ScoreError, ShapeError, TagloomError

Floats = npt.NDArray[np.floating[Any]]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


# ---- plain values -------------------------------------------------------------------------------


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
            f"{name} must be an array with rows of one length; got {values!r:.60}."
        ) from None


def check_count(
    value: Any, what: str, least: int = 1, error: type[TagloomError] = ShapeError
) -> int:
    """Return the value as an int, if it is one that the native core can count to."""
    try:
        n = operator.index(value)
    except TypeError:
        raise error(f"{what} must be an int; got {value!r:.60}.") from None
    if n < least:
        raise error(f"{what} must be at least {least}; got {n}.")
    if n >= 1 << 63:
        raise error(f"{what} must be less than 2**63; got a number of {n.bit_length()} bits.")
    return n


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
            f"{_element(name, bad, scores)} is {scores.flat[bad]}; scores must be between -1e300 "
            "and 1e300, or -inf for forbidden."
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
        raise ShapeError(f"{name} must be an array of numbers: {error}.") from None
    if scores.dtype != _FLOAT64 and scores.dtype != _FLOAT32:
        if scores.dtype.kind not in "fiub":
            raise ShapeError(f"{name} must be an array of numbers; got dtype {scores.dtype}.")
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
                f"{_element(name, lost[0], scores)} is {scores.flat[lost[0]]}, which float32, the "
                "type of emit, cannot hold. Pass emit as float64."
            )
    return cast


def _element(name: str, i: int, array: npt.NDArray[Any]) -> str:
    """Name element i of a flattened array: ``emit[3, 1]``."""
    return f"{name}[{', '.join(str(j) for j in np.unravel_index(i, array.shape))}]"


# ---- buffers for results ------------------------------------------------------------------------


def check_buffer(buffer: Any, name: str, shape: tuple[int, ...]) -> None:
    """Raise ShapeError unless the buffer is None or a writable float array of this shape."""
    if buffer is None:
        return
    if not isinstance(buffer, np.ndarray) or buffer.shape != shape:
        found = getattr(buffer, "shape", type(buffer).__name__)
        raise ShapeError(f"{name} must be an ndarray of shape {shape}; got {found}.")
    if buffer.dtype.kind != "f":
        raise ShapeError(f"{name} must be of a float type; got {buffer.dtype}.")
    if not buffer.flags.writeable:
        raise ShapeError(f"{name} must be writable; got a read-only array. Pass a copy.")


# ---- labels and sequences -----------------------------------------------------------------------


def check_names(labels: Any, Y: int) -> tuple[str, ...]:
    """Return the names of the Y labels, all different."""
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


def label_id(label: Any, n_labels: int, names: Sequence[str] | None, where: str) -> int:
    """Return the id of a label of a trellis, given by id or by name."""
    if isinstance(label, (int, np.integer)) and not isinstance(label, bool):
        if 0 <= label < n_labels:
            return int(label)
        raise LabelError(f"{where}: label {label} is not in 0 to {n_labels - 1}.")
    if names is None:
        raise LabelError(
            f"{where}: {label!r:.60} is not a label id, and this trellis has no label names. "
            "Pass labels= to Trellis."
        )
    if not isinstance(label, str) or label not in names:
        raise LabelError(f"{where}: unknown label {label!r:.60}; labels are {list(names)}.")
    return names.index(label)


def check_offsets(offsets: npt.ArrayLike, tokens: int) -> Int64:
    """Return offsets [N + 1] that rise from 0 to the number of tokens."""
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


def check_mask(mask: Any, name: str, shape: tuple[int, ...]) -> Bool:
    """Return an array of bool of this shape."""
    array = as_array(mask, name)
    if array.dtype != np.bool_ or array.shape != shape:
        raise ShapeError(
            f"{name} must be an array of bool with shape {shape}; got {array.dtype}, {array.shape}."
        )
    return array


def uniform_numbers(
    random_state: int | np.random.Generator | np.random.RandomState | None, shape: tuple[int, ...]
) -> npt.NDArray[np.float64]:
    """Return random numbers in [0, 1), from a seed or a NumPy generator."""
    if isinstance(random_state, np.random.RandomState):
        return random_state.random_sample(shape)
    try:
        generator = np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            "random_state must be None, a whole number of at least 0, or a generator of "
            f"NumPy; got {random_state!r:.60}."
        ) from error
    return generator.random(shape)
