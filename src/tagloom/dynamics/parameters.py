"""The matrices of a linear Gaussian model, checked, and the native model made from them.

Every part is one array for all steps, or has one more axis in front, with an entry for each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import ParameterError, ShapeError

Floats = npt.NDArray[np.float64]

#: The parts of a model: its name, its shape in terms of n, m and k, and its letter.
SHAPES: Mapping[str, tuple[str, ...]] = {
    "transition": ("n", "n"),
    "transition_covariance": ("n", "n"),
    "transition_offset": ("n",),
    "transition_input": ("n", "k"),
    "observation": ("m", "n"),
    "observation_covariance": ("m", "m"),
    "observation_offset": ("m",),
    "observation_input": ("m", "k"),
    "initial_mean": ("n",),
    "initial_covariance": ("n", "n"),
}
#: Parts that may have an entry for each step.
VARYING = frozenset(name for name in SHAPES if not name.startswith("initial"))
COVARIANCES = ("transition_covariance", "observation_covariance", "initial_covariance")

# An eigenvalue this far below 0, relative to the largest, is rounding.
_ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class Parameters:
    """All parts of a model; see `LinearGaussian` for what they mean.

    Attributes
    ----------
    transition, transition_covariance, transition_offset, transition_input : ndarray
        A (n, n), Q (n, n), b (n,) and B (n, k), each also with an axis of steps in front.
    observation, observation_covariance, observation_offset, observation_input : ndarray
        C (m, n), R (m, m), d (m,) and D (m, k), likewise.
    initial_mean, initial_covariance : ndarray, shapes (n,) and (n, n)
    diffuse : ndarray of bool, shape (n,)
        States whose variance is infinite at first.

    Examples
    --------
    >>> import tagloom as tl
    >>> walk = tl.LinearGaussian(
    ...     transition=[[1]], transition_covariance=[[1]], observation=[[1]],
    ...     observation_covariance=[[2]], diffuse=True,
    ... )
    >>> walk.parameters_.observation_covariance, walk.parameters_.diffuse
    (array([[2.]]), array([ True]))
    """

    transition: Floats
    transition_covariance: Floats
    transition_offset: Floats
    transition_input: Floats
    observation: Floats
    observation_covariance: Floats
    observation_offset: Floats
    observation_input: Floats
    initial_mean: Floats
    initial_covariance: Floats
    diffuse: npt.NDArray[np.bool_]

    @property
    def n_states(self) -> int:
        """Number of states, n."""
        return len(self.initial_mean)

    @property
    def n_observed(self) -> int:
        """Number of observed components, m."""
        return int(self.observation.shape[-2])

    @property
    def n_inputs(self) -> int:
        """Number of inputs, k."""
        return int(self.transition_input.shape[-1])

    @property
    def sizes(self) -> dict[str, int | None]:
        """The numbers n, m and k by their letters."""
        return {"n": self.n_states, "m": self.n_observed, "k": self.n_inputs}

    def is_varying(self, name: str) -> bool:
        """Whether a part has an entry for each step."""
        return name in VARYING and getattr(self, name).ndim > len(SHAPES[name])

    def arrays(self) -> dict[str, Any]:
        """Return all parts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def system(self) -> _native.KalmanSystem:
        """The native model of parts that do not vary, and without inputs or a steady state."""
        return make_system(self, {}, None, 0.0)


def make_system(
    parameters: Parameters,
    arrays: Mapping[str, Floats],
    inputs: Floats | None,
    tolerance: float,
) -> _native.KalmanSystem:
    """Make the native model for a batch.

    Parameters
    ----------
    parameters : Parameters
    arrays : mapping of str to ndarray
        Parts with an entry for each step of the whole batch; the others are those of
        ``parameters``.
    inputs : ndarray, shape (steps, k), optional
    tolerance : float
        Of the steady state; 0 for none.
    """

    def part(name: str) -> Floats:
        array = arrays.get(name, getattr(parameters, name))
        is_varying = array.ndim > len(SHAPES[name])
        return np.ascontiguousarray(array if is_varying else array[None])

    def offset(name: str, matrix: str) -> Floats:
        level = part(name)
        if inputs is None or not inputs.shape[1]:
            return level
        weights = part(matrix)
        moved = (
            inputs @ weights[0].T if len(weights) == 1 else np.einsum("tik,tk->ti", weights, inputs)
        )
        return np.ascontiguousarray(level + moved)

    return _native.KalmanSystem(
        part("transition"),
        part("transition_covariance"),
        offset("transition_offset", "transition_input"),
        part("observation"),
        part("observation_covariance"),
        offset("observation_offset", "observation_input"),
        parameters.initial_mean,
        parameters.initial_covariance,
        parameters.diffuse,
        tolerance,
    )


# ---- checks ------------------------------------------------------------------------------------


def check_part(name: str, value: Any, sizes: Mapping[str, int | None]) -> Floats:
    """Return a part as a float64 array of the right shape, finite, a covariance positive.

    Parameters
    ----------
    name : str
    value : array_like
    sizes : mapping
        The numbers ``n``, ``m`` and ``k``, None where unknown.

    Raises
    ------
    ShapeError, ParameterError
    """
    shape = SHAPES[name]
    array = as_floats(value, name)
    core = array.shape[-len(shape) :]
    fits = array.ndim == len(shape) or (name in VARYING and array.ndim == len(shape) + 1)
    fits = fits and all(
        sizes[letter] is None or sizes[letter] == size
        for letter, size in zip(shape, core, strict=True)
    )
    if not fits or (array.ndim > len(shape) and not len(array)):
        letters = ", ".join(
            letter if sizes[letter] is None else f"{letter} = {sizes[letter]}" for letter in shape
        )
        steps = ", with an axis of steps in front if it varies" if name in VARYING else ""
        raise ShapeError(
            parameter=name,
            expected=f"an array of shape ({letters}{',' if len(shape) == 1 else ''}){steps}",
            found=f"shape {array.shape}",
        )
    if not np.isfinite(array).all():
        raise ParameterError(parameter=name, expected="finite numbers", found=_show_bad(array))
    return check_covariance(name, array) if name in COVARIANCES else array


def check_covariance(name: str, array: Floats) -> Floats:
    """Return a covariance, or one for each step, made exactly symmetric.

    Raises
    ------
    ParameterError
        If it is not symmetric or has a negative eigenvalue.
    """
    transposed = array.swapaxes(-1, -2)
    largest = np.abs(array).max(initial=0.0)
    if np.abs(array - transposed).max(initial=0.0) > _ROUNDING * largest:
        raise ParameterError(
            parameter=name,
            expected="a symmetric matrix",
            found=f"entries that differ by {np.abs(array - transposed).max():.3g}",
        )
    symmetric: Floats = np.ascontiguousarray((array + transposed) / 2)
    if symmetric.size:
        smallest = float(np.linalg.eigvalsh(symmetric).min())
        if smallest < -_ROUNDING * largest:
            raise ParameterError(
                parameter=name,
                expected="a positive semi-definite matrix",
                found=f"an eigenvalue of {smallest:.3g}",
            )
    return symmetric


def as_floats(value: Any, parameter: str) -> Floats:
    """Return an array_like of numbers as float64, contiguous; masked entries become NaN.

    Raises
    ------
    ParameterError
        If it does not consist of real numbers.
    """
    try:
        if isinstance(value, np.ma.MaskedArray):
            value = np.where(np.ma.getmaskarray(value), np.nan, np.ma.getdata(value))
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            array = np.asarray(value, dtype=np.float64)
        if array.dtype.kind == "b":
            raise TypeError
    except (TypeError, ValueError):
        raise ParameterError(
            parameter=parameter, expected="an array of real numbers", found=checks.show_type(value)
        ) from None
    return np.asarray(array, dtype=np.float64, order="C")


def check_diffuse(value: Any, n: int) -> npt.NDArray[np.bool_]:
    """Return which states start diffuse: all, none, or a mask."""
    if value is True or value is False:
        return np.full(n, value)
    mask = np.asarray(value)
    if mask.shape != (n,) or mask.dtype.kind != "b":
        raise ParameterError(
            parameter="diffuse",
            expected=f"True, False, or {checks.plural(n, 'bool')}",
            found=checks.show(value),
        )
    return mask.copy()


def _show_bad(array: Floats) -> str:
    where = np.argwhere(~np.isfinite(array))[0]
    return f"{array[tuple(where)]} at {tuple(int(i) for i in where)}"
