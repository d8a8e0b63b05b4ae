"""What users pass as observations and inputs, checked and put end to end.

One sequence is an array [T, m], or [T] for m = 1; several are a list of those. NaN marks a missing
component. Results come in the form of what was passed: one for an array, a list for a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.dynamics.parameters import (
    SHAPES,
    VARYING,
    Floats,
    as_floats,
    check_part,
)
from tagloom.errors import ParameterError, ShapeError

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Series:
    """Sequences of observations, end to end.

    Attributes
    ----------
    y : ndarray, shape (steps, m)
    offsets : ndarray of int64, shape (N + 1,)
        Sequence i is ``y[offsets[i] : offsets[i + 1]]``.
    inputs : ndarray, shape (steps, k), or None
    is_list : bool
        Whether the user passed a list.
    varying : mapping of str to ndarray
        Parts of the model with an entry for each step; see `add_varying`.
    """

    y: Floats
    offsets: npt.NDArray[np.int64]
    inputs: Floats | None
    is_list: bool
    varying: Mapping[str, Floats]

    @property
    def n_sequences(self) -> int:
        """Number of sequences, N."""
        return len(self.offsets) - 1

    @property
    def n_steps(self) -> int:
        """Number of steps of all sequences."""
        return len(self.y)

    @property
    def lengths(self) -> list[int]:
        """Number of steps of each sequence."""
        return [int(length) for length in np.diff(self.offsets)]

    @cached_property
    def native(self) -> _native.KalmanSequences:
        """The observations and their patterns of missing components, for the core."""
        return _native.KalmanSequences(self.y, self.offsets)

    @cached_property
    def digest(self) -> str:
        """Fingerprint of all numbers."""
        from hashlib import blake2b  # here, for a quick start

        parts = [self.y, self.offsets, *(self.varying[name] for name in sorted(self.varying))]
        hashed = blake2b(repr((self.y.shape, sorted(self.varying))).encode(), digest_size=8)
        for array in parts if self.inputs is None else [*parts, self.inputs]:
            hashed.update(np.ascontiguousarray(array).data)
        return hashed.hexdigest()

    @property
    def sizes(self) -> Mapping[str, int]:
        """Numbers of sequences, steps and observed numbers, for the training record."""
        observed = int(np.isfinite(self.y).sum())
        return {"sequences": self.n_sequences, "steps": self.n_steps, "observed": observed}

    def spans(self) -> list[slice]:
        """Return the slice of steps of each sequence."""
        return [slice(int(a), int(b)) for a, b in zip(self.offsets, self.offsets[1:], strict=False)]

    def answer(self, make: Callable[[int, slice], T]) -> Any:
        """Return ``make(i, slice)`` of the only sequence, or a list for a list."""
        answers = [make(i, span) for i, span in enumerate(self.spans())]
        return answers if self.is_list else answers[0]


def read_series(
    Y: Any, inputs: Any = None, *, sizes: Mapping[str, int | None], extra_steps: int = 0
) -> Series:
    """Check observations and inputs, and put the sequences end to end.

    Parameters
    ----------
    Y : array_like or list of array_like
    inputs : array_like or list of array_like, optional
    sizes : mapping
        The numbers ``m`` and ``k`` that they must have, None if any will do.
    extra_steps : int
        Steps to append to each sequence, with all components missing, for forecasts. Inputs must
        have entries for them.

    Raises
    ------
    ShapeError, ParameterError
    """
    is_list = is_several(Y)
    arrays = [
        _as_sequence(y, _place(i) if is_list else None) for i, y in enumerate(Y if is_list else [Y])
    ]
    if not arrays:
        raise ShapeError(parameter="Y", expected="at least one sequence", found="an empty list")
    m = arrays[0].shape[1] if sizes["m"] is None else sizes["m"]
    for i, y in enumerate(arrays):
        if y.shape[1] != m:
            raise ShapeError(
                where=_place(i) if is_list else None,
                expected=f"observations of shape (T, {m})",
                found=f"shape {y.shape}",
            )
    if extra_steps:
        missing = np.full((extra_steps, m), np.nan)
        arrays = [np.concatenate([y, missing]) for y in arrays]
    lengths = [len(y) for y in arrays]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return Series(joined, offsets, _read_inputs(inputs, is_list, lengths, sizes["k"]), is_list, {})


def add_varying(
    series: Series,
    varying: Mapping[str, Any] | None,
    parts: Mapping[str, Floats],
    sizes: Mapping[str, int | None],
    first_step: int = 0,
) -> Series:
    """Return a series with the parts that vary: those passed with it, and those of the model.

    Parameters
    ----------
    series : Series
    varying : mapping of str to array_like, or to list of those, optional
        Parts with an entry for each step of these sequences.
    parts : mapping of str to ndarray
        Those of the model.
    sizes : mapping
        The numbers ``n``, ``m`` and ``k``.
    first_step : int
        The step at which the sequences begin, for parts that vary in the model.

    Raises
    ------
    ShapeError, ParameterError
    """
    passed = _check_varying(varying)
    lengths = series.lengths
    joined = {}
    for name, value in passed.items():
        arrays = _per_sequence(value, series.is_list, lengths, name, len(SHAPES[name]), None)
        joined[name] = check_part(name, np.concatenate(arrays), sizes)
    for name in sorted(VARYING & set(parts) - set(passed)):
        array = parts[name]
        if array.ndim == len(SHAPES[name]):
            continue
        ends = [first_step + length for length in lengths]
        if len(array) < max(ends):
            raise ShapeError(
                parameter=name,
                expected=f"entries for {checks.plural(max(ends), 'step')}",
                found=f"{len(array)}",
                hint="Pass the entries for these steps as varying={...}.",
            )
        joined[name] = np.concatenate([array[first_step:end] for end in ends])
    return replace(series, varying=joined)


def _check_varying(varying: Any) -> Mapping[str, Any]:
    """Return a mapping whose keys are parts that may vary."""
    if varying is None:
        return {}
    is_mapping = isinstance(varying, Mapping)
    unknown = sorted(set(varying) - VARYING) if is_mapping else []
    if unknown or not is_mapping:
        raise ParameterError(
            parameter="varying",
            expected=f"a mapping of {', '.join(sorted(VARYING))} to arrays",
            found=f"an entry {unknown[0]!r}" if unknown else checks.show_type(varying),
        )
    return dict(varying)


def is_several(Y: Any) -> bool:
    """Whether Y is a list of sequences, rather than one.

    Examples
    --------
    >>> import numpy as np
    >>> is_several([np.zeros((3, 2)), np.zeros((5, 2))]), is_several([1.0, 2.0])
    (True, False)
    """
    return isinstance(Y, list | tuple) and all(getattr(y, "ndim", 0) or _has_rows(y) for y in Y)


def _has_rows(y: Any) -> bool:
    return isinstance(y, list | tuple) and bool(y) and isinstance(y[0], list | tuple)


def _place(i: int) -> str:
    return f"sequence {i}"


def _as_sequence(value: Any, where: str | None) -> Floats:
    """Return one sequence as [T, m]."""
    array = as_floats(value, "Y")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not array.shape[1]:
        hint = "Pass list(Y) for several sequences." if array.ndim == 3 else None
        raise ShapeError(
            where=where,
            expected="observations of shape (T, m), or (T,)",
            found=f"shape {array.shape}",
            hint=hint,
        )
    if np.isinf(array).any():
        t, i = np.argwhere(np.isinf(array))[0]
        raise ParameterError(
            where=where,
            parameter="Y",
            expected="finite numbers, or NaN where they are missing",
            found=f"{array[t, i]} at step {t}, component {i}",
        )
    return array


def _read_inputs(
    inputs: Any, is_list: bool, lengths: Sequence[int], k: int | None
) -> Floats | None:
    if inputs is None:
        if k:
            raise ParameterError(
                parameter="inputs",
                expected=f"an array of shape (T, {k}), as the model was fitted with",
                found="None",
            )
        return None
    arrays = _per_sequence(inputs, is_list, lengths, "inputs", 1, k)
    joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return joined


def _per_sequence(
    value: Any, is_list: bool, lengths: Sequence[int], name: str, ndim: int, width: int | None
) -> list[Floats]:
    """Return arrays [T, …], one for each sequence."""
    values = value if is_list else [value]
    if is_list and (not isinstance(value, list | tuple) or len(value) != len(lengths)):
        raise ShapeError(
            parameter=name,
            expected=f"a list of {checks.plural(len(lengths), 'array')}, one for each sequence",
            found=checks.show_type(value),
        )
    arrays = []
    for i, (each, length) in enumerate(zip(values, lengths, strict=True)):
        array = as_floats(each, name)
        if ndim == 1 and array.ndim == 1:
            array = array[:, None]
        if array.ndim != ndim + 1 or len(array) != length:
            raise ShapeError(
                where=_place(i) if is_list else None,
                parameter=name,
                expected=f"an array with {checks.plural(length, 'step')}",
                found=f"shape {array.shape}",
            )
        if width is not None and array.shape[1] != width:
            raise ShapeError(
                where=_place(i) if is_list else None,
                parameter=name,
                expected=f"an array of shape ({length}, {width})",
                found=f"shape {array.shape}",
            )
        if not np.isfinite(array).all():
            raise ParameterError(
                where=_place(i) if is_list else None,
                parameter=name,
                expected="finite numbers",
                found="NaN or an infinite number",
            )
        arrays.append(array)
    return arrays
