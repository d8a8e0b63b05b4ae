"""Sequences of numbers, and the base of emissions that read them.

A sequence is an array [T, D] of D numbers for each token; an array [T] is [T, 1]. NaN, or a masked
entry, is a missing value: tokens may miss all of their values or some. `Numbers` is what every
numeric emission encodes sequences to. It also holds what is computed once for all iterations:
standardised values, the distinct sets of observed columns, the rows without gaps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ModelFileError, ParameterError, SentenceError, ShapeError
from tagloom.scores.emissions.base import Emission, Float64, Gamma, check_gamma, dense
from tagloom.scores.linear import Scored
from tagloom.storage import File

Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

_MOST_CLUSTERED = 10_000  # rows from which clusters are found; the others are only assigned
_LLOYD_STEPS = 10
_BLOCK = 16_384  # rows that are standardised at a time


class Columns:
    """A subset of the rows that have the same observed columns."""

    __slots__ = ("columns", "rows")

    def __init__(self, columns: Int64, rows: Int64) -> None:
        self.columns, self.rows = columns, rows


@dataclass(frozen=True, eq=False)
class Numbers:
    """N sequences of numbers with T tokens in total, one after another.

    Attributes
    ----------
    x : ndarray, shape (T, D)
        NaN where a value is missing.
    offsets : ndarray of int64, shape (N + 1,)
    """

    x: Float64
    offsets: Int64

    @classmethod
    def read(cls, X: Any) -> Numbers:
        """Read a list of arrays.

        Raises
        ------
        SentenceError
            If a sequence is not an array of numbers, has another number of columns than the first,
            or contains an infinite value; names the sequence.
        """
        if isinstance(X, cls):
            return X
        arrays = [_as_array(x, i) for i, x in enumerate(X)]
        D = _count_columns(arrays)
        arrays = [a.reshape(0, D) if len(a) == 0 else a for a in arrays]
        for i, array in enumerate(arrays):
            if array.shape[1] != D:
                raise SentenceError(
                    where=checks.place(i),
                    expected=f"{checks.plural(D, 'column')}, as in the sequences before",
                    found=str(array.shape[1]),
                )
        lengths = [len(array) for array in arrays]
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        data = cls(np.concatenate(arrays) if arrays else np.empty((0, D)), offsets)
        if not data._is_finite:
            for i, array in enumerate(arrays):
                _check_finite(array, i)
        return data

    @property
    def fingerprint(self) -> tuple[npt.NDArray[Any], ...]:
        """Arrays that identify the sequences."""
        return (self.x,)

    # ---- what is missing -------------------------------------------------------------------

    @cached_property
    def _is_finite(self) -> bool:
        """Whether all values are surely finite: then their sum is, unless it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.isfinite(self.x.sum()))

    @cached_property
    def observed(self) -> Bool | None:
        """Whether each value is observed [T, D]; None if all are."""
        if self._is_finite:
            return None
        observed = ~np.isnan(self.x)
        return None if observed.all() else observed

    @cached_property
    def patterns(self) -> list[Columns]:
        """The rows by the columns that they have; the complete rows first, if there are any."""
        T, D = self.x.shape
        if self.observed is None:
            return [Columns(np.arange(D), np.arange(T))]
        packed = np.packbits(self.observed, axis=1)
        distinct, which = np.unique(packed, axis=0, return_inverse=True)
        masks = np.unpackbits(distinct, axis=1, count=D).astype(bool)  # [patterns, D]
        rows = np.split(
            np.argsort(which.ravel(), kind="stable"),
            np.cumsum(np.bincount(which.ravel(), minlength=len(masks)))[:-1],
        )
        order = np.argsort(-masks.sum(axis=1), kind="stable")
        return [Columns(np.flatnonzero(masks[p]), np.asarray(rows[p])) for p in order]

    # ---- standardised ----------------------------------------------------------------------

    @cached_property
    def filled(self) -> Float64:
        """The values, 0 where they are missing [T, D]."""
        return self.x if self.observed is None else np.where(self.observed, self.x, 0.0)

    @cached_property
    def counts(self) -> Float64:
        """Number of observed values of each column [D]."""
        T, D = self.x.shape
        return np.full(D, float(T)) if self.observed is None else self.observed.sum(axis=0) * 1.0

    @cached_property
    def centre(self) -> Float64:
        """The mean of each column [D]; 0 where no value is observed."""
        return np.asarray(sum_columns(self.filled) / np.maximum(self.counts, 1))

    @cached_property
    def centred(self) -> Float64:
        """The values less the mean of their column, 0 where they are missing [T, D]."""
        centred = np.empty(self.filled.shape)
        for place, block in self._centred_blocks():
            centred[place] = block
        return centred

    def _centred_blocks(self) -> Iterator[tuple[slice, Float64]]:
        """Yield `centred` in blocks for the cache: new memory takes longer than its use."""
        filled, centre, T = self.filled, self.centre, len(self.x)
        for first in range(0, T, _BLOCK):
            place = slice(first, min(first + _BLOCK, T))
            block = combine_columns(np.subtract, filled[place], centre)
            if self.observed is not None:
                block[~self.observed[place]] = 0.0
            yield place, block

    @cached_property
    def spread(self) -> Float64:
        """The standard deviation of each column, 1 if it is constant [D]."""
        return scale_of(self._totals[2] / np.maximum(self.counts, 1), self.centre)

    @cached_property
    def z(self) -> Float64:
        """The values with mean 0 and variance 1, 0 where they are missing [T, D]."""
        z, spread = np.empty(self.filled.shape), self.spread
        for place, block in self._centred_blocks():
            combine_columns(np.divide, block, spread, out=z[place])
        return z

    @cached_property
    def reach(self) -> Float64:
        """The largest standardised value of each column [D]."""
        z, D = self.z, self.z.shape[1]
        rows, rest = _widen(z)
        largest = np.maximum(rows.max(axis=0, initial=0.0), -rows.min(axis=0, initial=0.0))
        largest = largest.reshape(-1, D).max(axis=0, initial=0.0)
        return np.asarray(np.maximum(largest, np.abs(rest).max(axis=0, initial=0.0)))

    def totals(self, weight: Float64 | None) -> Float64:
        """Count each column's observed values, and sum them and their squares about the centre.

        Returns
        -------
        ndarray, shape (3, D)
        """
        if weight is None:
            return self._totals
        has = np.ones_like(self.x) if self.observed is None else self.observed * 1.0
        return np.stack([weight @ has, weight @ self.centred, weight @ np.square(self.centred)])

    @cached_property
    def _totals(self) -> Float64:
        sums = np.zeros((2, self.x.shape[1]))
        for _, block in self._centred_blocks():
            rows, rest = _widen(block)
            sums[0] += sum_columns(block)
            sums[1] += np.einsum("ij,ij->j", rows, rows).reshape(-1, sums.shape[1]).sum(axis=0)
            sums[1] += np.square(rest).sum(axis=0)
        return np.vstack([self.counts, sums])


def sum_columns(x: Float64) -> Float64:
    """Sum each column [D]; for few columns several times as fast as ``x.sum(axis=0)``."""
    rows, rest = _widen(x)
    return np.asarray(rows.sum(axis=0).reshape(-1, x.shape[1]).sum(axis=0) + rest.sum(axis=0))


def combine_columns(
    operation: np.ufunc, x: Float64, values: Float64, out: Float64 | None = None
) -> Float64:
    """Compute ``operation(x, values)`` for one value per column [T, D]."""
    out = np.empty(x.shape) if out is None else out
    (rows, rest), (to_rows, to_rest) = _widen(x), _widen(out)
    operation(rows, np.tile(values, 16), out=to_rows)
    operation(rest, values, out=to_rest)
    return out


def _widen(x: Float64) -> tuple[Float64, Float64]:
    """View 16 rows [D] as one, which NumPy reduces several times as fast, and return the rest."""
    T, D = x.shape
    n = T - T % 16
    return x[:n].reshape(-1, 16 * D), x[n:]


def _check_finite(x: Float64, i: int) -> None:
    """Raise if sequence ``i`` contains an infinite value."""
    if np.isinf(x).any():
        t, d = np.argwhere(np.isinf(x))[0]
        raise SentenceError(
            where=checks.place(i, int(t)),
            expected="finite numbers, or NaN for a missing value",
            found=f"{x[t, d]} in column {d}",
        )


def scale_of(variance: Float64, centre: Float64) -> Float64:
    """Return standard deviations; of a constant column its size, or 1 if it is 0.

    The mean of equal numbers may differ from them in the last digit, so a deviation below 1e-12 of
    the mean counts as none.
    """
    deviation = np.sqrt(np.maximum(variance, 0))
    size = np.abs(centre)
    return np.where(deviation > 1e-12 * size, deviation, np.where(size > 0, size, 1.0))


def fill_masked(x: Any) -> Any:
    """Return a masked array as floats, NaN where it is masked; other values as they are."""
    if not isinstance(x, np.ma.MaskedArray):
        return x
    return np.where(np.ma.getmaskarray(x), np.nan, np.ma.getdata(x).astype(np.float64))


def _as_array(x: Any, i: int) -> Float64:
    """Return sequence ``i`` as floats [T, D]."""
    x = fill_masked(getattr(x, "tokens", x))
    try:
        given = np.asarray(x)
        array = (
            given.astype(np.float64, copy=False) if given.dtype.kind in "biuf" else _convert(given)
        )
    except (TypeError, ValueError):
        raise SentenceError(
            where=checks.place(i),
            expected="an array of numbers, [T] or [T, D]",
            found=checks.show_type(x),
        ) from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise SentenceError(
            where=checks.place(i),
            expected="an array of numbers, [T] or [T, D]",
            found=f"an array of shape {array.shape}",
        )
    return array


def _convert(given: npt.NDArray[Any]) -> Float64:
    """Return an array of objects as floats; None is missing, text is not a number."""
    if given.dtype.kind != "O":
        raise TypeError
    if any(isinstance(value, str | bytes) for value in given.flat):
        raise TypeError
    return np.array([np.nan if v is None else float(v) for v in given.flat]).reshape(given.shape)


def _count_columns(arrays: Sequence[Float64]) -> int:
    """Return the columns of the first sequence that has tokens; empty ones may have any number."""
    with_tokens = [array for array in arrays if len(array)]
    widths = [array.shape[1] for array in with_tokens or arrays]
    return widths[0] if widths else 1


# ---- the base of numeric emissions --------------------------------------------------------------


class Numeric(Emission):
    """Base of emissions of numbers: reading, starting values, checks of files.

    A subclass sets ``by_column`` and, if not every number is possible, ``values`` and `_fits`.
    """

    #: The learned array whose last axis has D entries.
    by_column: ClassVar[str]
    #: What the values have to be, for errors; None if any finite number will do.
    values: ClassVar[str | None] = None

    _divergence: float | None = None  # of the variational posterior from the prior

    def encode(self, X: Any) -> Numbers:
        """Read sequences once: a list of arrays [T, D] or [T], NaN where a value is missing.

        Raises
        ------
        SentenceError
            If a sequence is not such an array, or its values are out of range.
        """
        if isinstance(X, Numbers):
            return X
        data = Numbers.read(X)
        self._check_values(data)
        return data

    def _check_values(self, data: Numbers) -> None:
        if self.values is None:
            return
        wrong = ~self._fits(data.filled)
        if wrong.any():
            row, d = np.argwhere(wrong)[0]
            i = int(np.searchsorted(data.offsets, row, side="right")) - 1
            raise SentenceError(
                where=checks.place(i, int(row - data.offsets[i])),
                expected=f"{self.values}, or NaN for a missing value",
                found=f"{data.x[row, d]:g} in column {d}",
            )

    def _fits(self, x: Float64) -> Bool:
        """Whether each value has positive probability under some parameters [T, D]."""
        return np.ones(x.shape, dtype=bool)

    def _encode_same(self, X: Any, method: str) -> Numbers:
        """Encode sequences for a fitted emission, whose number of columns they must have."""
        self.check_learned(method)
        data = self.encode(X)
        D = getattr(self, self.by_column).shape[-1]
        if data.x.shape[1] != D and len(data.x):
            raise ShapeError(
                where=f"{type(self).__name__}.{method}",
                parameter="X",
                expected=f"{checks.plural(D, 'column')}, as in training",
                found=str(data.x.shape[1]),
            )
        return data

    def _weigh(
        self, X: Any, gamma: Gamma, weight: Float64 | None
    ) -> tuple[Numbers, Float64, Float64]:
        """Return the data, the probabilities of labels [T, Y], and the totals of the data."""
        data = self.encode(X)
        gamma = check_gamma(gamma, len(data.x), len(self.labels))
        return data, dense(gamma, len(self.labels), weight), data.totals(weight)

    def scores(self, X: Any, n_threads: int = 1) -> Scored:
        """Compute log Pr(x_t | y) of each token and label; see `Emission.scores`."""
        data = self._encode_same(X, "log_probs")
        return Scored(data.offsets, self.log_probs(data), None)

    def initialise(self, X: Any, rng: np.random.Generator) -> Self:
        """Return a start from clusters of tokens.

        Clusters are seeded like k-means++, on standardised columns. Each token has nine tenths of
        its probability in its cluster; the rest is random, so no two states are equal even with
        fewer tokens than states.
        """
        data, Y = self.encode(X), len(self.labels)
        clusters = find_clusters(data.z, Y, rng)
        gamma = 0.1 * rng.dirichlet(np.ones(Y), len(data.x)).reshape(-1, Y)
        gamma[np.arange(len(gamma)), clusters] += 0.9
        start = self._unfitted()
        return start.update(start.collect(data, gamma))

    def _unfitted(self) -> Self:
        """Return the same emission without learned state."""
        new = type(self)(**self.get_params())
        bound = new.bind(self.labels)
        assert isinstance(bound, type(self))
        return bound

    def to_file(self) -> File:
        """Return the learned arrays and, after `mean_field`, the divergence from the prior."""
        file = super().to_file()
        if self._divergence is None:
            return file
        return File({"divergence": self._divergence}, file.arrays, file.unverified)

    def _read_divergence(self, file: File) -> float | None:
        """Return the divergence that a file holds; None unless it is of variational Bayes."""
        value = file.header.get("divergence")
        if value is None or (isinstance(value, float) and math.isfinite(value)):
            return value
        raise self._file_error("divergence", "a finite number", checks.show(value))

    def _file_error(self, name: str, expected: str, found: str) -> ModelFileError:
        return ModelFileError(where=f"{self.kind}, {name}", expected=expected, found=found)

    def _read_array(
        self, file: File, name: str, ndim: int, *, above: float | None = None
    ) -> Float64:
        """Return a learned array of a file as finite float64, all above a bound."""
        array = np.asarray(file.arrays[f"emission_{name}"])
        if array.dtype.kind != "f" or array.ndim != ndim or not np.isfinite(array).all():
            raise self._file_error(
                name, f"finite numbers in {ndim} dimensions", f"{array.dtype} {array.shape}"
            )
        if above is not None and array.size and array.min() <= above:
            raise self._file_error(name, f"numbers above {above:g}", f"{array.min():g}")
        return array.astype(np.float64)


# ---- priors -------------------------------------------------------------------------------------


def check_vector(
    value: Any, parameter: str, *, least: float | None = None, above: float | None = None
) -> None:
    """Raise if a parameter is neither None, a number, nor a list of numbers.

    Raises
    ------
    ParameterError
    """
    if value is None:
        return
    items = np.asarray(value, dtype=object).ravel()
    for item in items:
        checks.number(item, parameter, least=least, above=above)


def spread_over(value: Any, D: int, parameter: str) -> Float64:
    """Return a number or a list of D numbers as an array [D].

    Raises
    ------
    ParameterError
        If it is a list of another length.
    """
    array = np.asarray(value, dtype=np.float64)
    if array.shape not in ((), (1,), (D,)):
        raise ParameterError(
            parameter=parameter,
            expected=f"a number, or {D} numbers for the {D} columns",
            found=f"an array of shape {array.shape}",
        )
    return np.broadcast_to(array, (D,)).copy()


# ---- clusters -----------------------------------------------------------------------------------


def find_clusters(
    z: Float64, n: int, rng: np.random.Generator, weight: Float64 | None = None
) -> npt.NDArray[np.intp]:
    """Cluster rows: seeds as in k-means++, then a few of Lloyd's iterations.

    Parameters
    ----------
    z : ndarray, shape (T, D)
        Standardised values.
    n : int
        Number of clusters; with fewer distinct rows some stay empty.
    rng : Generator
    weight : ndarray, shape (T,), optional
        Weights of the rows.

    Returns
    -------
    ndarray of int, shape (T,)
        The cluster of each row.
    """
    if len(z) == 0 or n == 1:
        return np.zeros(len(z), dtype=np.intp)
    weight = np.ones(len(z)) if weight is None else weight
    if weight.sum() <= 0:
        weight = np.ones(len(z))
    sample, weights = z, weight
    if len(z) > _MOST_CLUSTERED:
        rows = rng.choice(len(z), _MOST_CLUSTERED, replace=False)
        if weight[rows].sum() > 0:
            sample, weights = z[rows], weight[rows]
    centres = _seed_centres(sample, n, rng, weights)
    for _ in range(_LLOYD_STEPS):
        nearest = _distances(sample, centres).argmin(axis=1)
        mass = np.bincount(nearest, weights, minlength=n)  # [n]
        sums = np.stack(
            [np.bincount(nearest, weights * column, minlength=n) for column in sample.T], axis=1
        )
        moved = np.where(mass[:, None] > 0, sums / np.where(mass > 0, mass, 1)[:, None], centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return np.concatenate([_distances(part, centres).argmin(axis=1) for part in _chunks(z)])


def _seed_centres(z: Float64, n: int, rng: np.random.Generator, weight: Float64) -> Float64:
    """Draw centres from the rows, each with probability ∝ its squared distance to those before."""
    centres = z[[rng.choice(len(z), p=weight / weight.sum())]]
    nearest = _distances(z, centres)[:, 0]
    for _ in range(n - 1):
        mass = weight * nearest
        total = mass.sum()
        row = rng.choice(len(z), p=mass / total if total > 0 else weight / weight.sum())
        centres = np.concatenate([centres, z[[row]]])
        nearest = np.minimum(nearest, _distances(z, z[[row]])[:, 0])
    return centres


def _distances(z: Float64, centres: Float64) -> Float64:
    """Return squared distances [T, n]."""
    return np.asarray(np.square(z[:, None, :] - centres).sum(axis=2))


def _chunks(z: Float64, size: int = 16_384) -> Iterator[Float64]:
    for begin in range(0, len(z), size):
        yield z[begin : begin + size]


# ---- functions ----------------------------------------------------------------------------------


def log_factorials(x: Float64) -> Float64:
    """Compute log x! of non-negative integers, element by element."""
    distinct, which = np.unique(x, return_inverse=True)
    values = np.array([math.lgamma(value + 1) for value in distinct])
    return values[which].reshape(x.shape) if x.size else np.zeros(x.shape)
