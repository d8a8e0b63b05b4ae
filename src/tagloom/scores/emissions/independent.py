r"""Several emissions side by side, independent given the label.

Pr(x_t | y) = Π_i Pr_i(x_{t, columns i} | y)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ParameterError, SentenceError
from tagloom.scores.emissions.base import (
    Emission,
    Float64,
    Gamma,
    fingerprint_of,
    offsets_of,
)
from tagloom.scores.emissions.numeric import fill_masked
from tagloom.scores.linear import Scored
from tagloom.scores.smoothing import Smoothing
from tagloom.storage import File


@dataclass(frozen=True, eq=False)
class ColumnTokens:
    """Sequences as each part encodes its columns.

    Attributes
    ----------
    parts : list
    offsets : ndarray of int64, shape (N + 1,)
    """

    parts: list[Any]
    offsets: npt.NDArray[np.int64]

    @property
    def fingerprint(self) -> tuple[npt.NDArray[Any], ...]:
        """Arrays that identify the sequences."""
        return tuple(array for part in self.parts for array in fingerprint_of(part))


class Independent(Emission):
    r"""Several emissions, each of some columns, independent given the label.

        Pr(x_t | y) = Π_i Pr_i(x_{t, columns i} | y)

    Parameters
    ----------
    emissions : list of Emission
        The emissions, of any kinds.
    columns : list of (int or list of int), optional
        The columns of each; by default one column each, in order. A single column is passed to its
        emission as [T], several as [T, d].

    Attributes
    ----------
    emissions_ : tuple of Emission
        The emissions of the labels, fitted after `update`.

    Examples
    --------
    >>> import numpy as np
    >>> import tagloom as tl
    >>> em = tl.emissions
    >>> sensors = em.Independent([em.Gaussian(), em.Poisson()])  # a temperature, a number of alarms
    >>> X = [np.array([[20.5, 0], [21.0, 0], [35.0, 4], [np.nan, 6]])]
    >>> hmm = tl.HMM(emissions=sensors).fit(X, [["normal", "normal", "fault", "fault"]])
    >>> hmm.emission_.emissions_[1].rates_.round(3)
    array([[5.],
           [0.]])
    >>> hmm.predict([np.array([[20.9, 0], [np.nan, 3]])])
    [['normal', 'fault']]
    """

    learned = ("emissions_",)

    emissions_: tuple[Emission, ...]

    def __init__(
        self, emissions: Sequence[Emission], columns: Sequence[int | Sequence[int]] | None = None
    ) -> None:
        self.emissions = emissions
        self.columns = columns

    def check(self) -> None:
        """Raise if a parameter is out of range."""
        is_list = isinstance(self.emissions, Sequence) and not isinstance(self.emissions, str)
        if (
            not is_list
            or not self.emissions
            or not all(isinstance(e, Emission) for e in self.emissions)
        ):
            raise ParameterError(
                parameter="emissions",
                expected="a list of emissions",
                found=checks.show(self.emissions),
            )
        for part in self.emissions:
            part.check()
        if self.columns is None:
            return
        if len(self.columns) != len(self.emissions):
            raise ParameterError(
                parameter="columns",
                expected=f"columns for each of {checks.plural(len(self.emissions), 'emission')}",
                found=checks.show(self.columns),
            )
        for columns in self._columns:
            for column in [columns] if isinstance(columns, int) else columns:
                checks.count(column, "columns")

    @property
    def _columns(self) -> list[int | list[int]]:
        if self.columns is None:
            return list(range(len(self.emissions)))
        return [c if isinstance(c, int) else list(c) for c in self.columns]

    def bind(self, labels: Sequence[str], smoothing: Smoothing | None = None) -> Independent:
        """Return emissions of these labels that are not fitted."""
        bound = cast(Independent, super().bind(labels, smoothing))
        parts = tuple(part.bind(labels, smoothing) for part in self.emissions)
        if any(part.has_edges for part in parts):
            raise ParameterError(
                parameter="emissions",
                expected="emissions that depend on one label",
                found="one that depends on two",
            )
        return bound.replace(emissions_=parts)

    def encode(self, X: Any) -> ColumnTokens:
        """Read sequences once: a list of arrays [T, columns], which may contain objects.

        Raises
        ------
        SentenceError
            If a sequence has too few columns.
        """
        if isinstance(X, ColumnTokens):
            return X
        arrays = [_as_table(x, i) for i, x in enumerate(X)]
        needed = 1 + max(max(c) if isinstance(c, list) else c for c in self._columns)
        for i, array in enumerate(arrays):
            if len(array) and array.shape[1] < needed:
                raise SentenceError(
                    where=checks.place(i),
                    expected=f"at least {checks.plural(needed, 'column')}",
                    found=str(array.shape[1]),
                )
        parts = [
            part.encode([_take(array, columns) for array in arrays])
            for part, columns in zip(self.emissions_, self._columns, strict=True)
        ]
        return ColumnTokens(parts, offsets_of(arrays))

    # ---- scoring ---------------------------------------------------------------------------

    def log_probs(self, X: Any) -> npt.NDArray[Any]:
        """Sum log Pr_i(x_t | y) over the parts [T, Y]."""
        self.check_learned("log_probs")
        data = self.encode(X)
        pairs = zip(self.emissions_, data.parts, strict=True)
        return np.asarray(sum(part.log_probs(encoded) for part, encoded in pairs))

    def scores(self, X: Any, n_threads: int = 1) -> Scored:
        """Compute the scores of each token and label; see `Emission.scores`."""
        self.check_learned("log_probs")
        data = self.encode(X)
        return Scored(data.offsets, self.log_probs(data), None)

    # ---- learning --------------------------------------------------------------------------

    def collect(self, X: Any, gamma: Gamma, weight: Float64 | None = None) -> list[Any]:
        """Compute the statistics of each part; see `Emission.collect`."""
        pairs = zip(self.emissions_, self.encode(X).parts, strict=True)
        return [part.collect(encoded, gamma, weight) for part, encoded in pairs]

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        """Sum the statistics of different sequences."""
        return [part.merge(*pair) for part, *pair in zip(self.emissions_, a, b, strict=True)]

    def update(self, stats: list[Any]) -> Self:
        """Return the maximum of likelihood times prior of each part."""
        return self._each(lambda part, own: part.update(own), stats)

    def draw_posterior(self, stats: list[Any], rng: np.random.Generator) -> Self:
        """Draw each part from its posterior."""
        return self._each(lambda part, own: part.draw_posterior(own, rng), stats)

    def mean_field(self, stats: list[Any]) -> Self:
        """Return the update of variational Bayes of each part."""
        return self._each(lambda part, own: part.mean_field(own), stats)

    def initialise(self, X: Any, rng: np.random.Generator) -> Self:
        """Return a start in which all parts share the clusters of tokens that the first finds."""
        data, Y = self.encode(X), len(self.labels)
        starts = [
            part.initialise(encoded, rng)
            for part, encoded in zip(self.emissions_, data.parts, strict=True)
        ]
        choice = int(rng.integers(len(starts)))
        scores = np.asarray(starts[choice].log_probs(data.parts[choice]), dtype=np.float64)
        gamma = 0.1 * rng.dirichlet(np.ones(Y), len(scores)).reshape(-1, Y)
        gamma[np.arange(len(gamma)), scores.argmax(axis=1)] += 0.9
        return self.update(self.collect(data, gamma))

    def log_prior(self) -> float:
        """Return the sum over the parts."""
        return sum(part.log_prior() for part in self.emissions_)

    def _each(self, change: Callable[[Emission, Any], Emission], values: Sequence[Any]) -> Self:
        pairs = zip(self.emissions_, values, strict=True)
        return self.replace(emissions_=tuple(change(part, value) for part, value in pairs))

    @property
    def is_fitted(self) -> bool:
        """Whether all parts are fitted."""
        parts = getattr(self, "emissions_", ())
        return bool(parts) and all(part.is_fitted for part in parts)

    # ---- looking inside --------------------------------------------------------------------

    def generate(self, y: npt.NDArray[np.integer[Any]], rng: np.random.Generator) -> Any:
        """Draw each part's columns [T, columns]; columns of no part are 0."""
        self.check_learned("generate")
        width = 1 + max(max(c) if isinstance(c, list) else c for c in self._columns)
        drawn = [np.asarray(part.generate(y, rng)) for part in self.emissions_]
        is_number = all(values.dtype.kind in "biuf" for values in drawn)
        table = np.zeros((len(y), width), dtype=np.float64 if is_number else object)
        for columns, values in zip(self._columns, drawn, strict=True):
            at = columns if isinstance(columns, list) else [columns]
            table[:, at] = values.reshape(len(y), -1)
        return table

    @property
    def n_parameters(self) -> int:
        """The sum over the parts."""
        return sum(part.n_parameters for part in self.emissions_)

    def order_key(self) -> Float64:
        """Return the keys of the parts side by side."""
        Y = len(self.labels)
        return np.hstack([np.reshape(part.order_key(), (Y, -1)) for part in self.emissions_])

    def permute(self, order: Sequence[int]) -> Self:
        """Return the same emission with its states in another order."""
        return self.replace(emissions_=tuple(part.permute(order) for part in self.emissions_))

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return the state of each part, with numbered names."""
        self.check_learned("to_file")
        file = File({})
        for i, part in enumerate(self.emissions_):
            own = part.to_file()
            prefixed = File({f"part{i}": own.header}, own.arrays, own.unverified)
            file = file | prefixed.prefixed(f"part{i}_")
        return file

    def from_file(self, file: File) -> Self:
        """Return the emission with the states of a file, which each part checks."""
        parts = [
            part.from_file(file.part(f"part{i}_", file.header[f"part{i}"]))
            for i, part in enumerate(self.emissions_)
        ]
        return self.replace(emissions_=tuple(parts))


def _as_table(x: Any, i: int) -> npt.NDArray[Any]:
    """Return sequence ``i`` as an array [T, columns]."""
    array = np.asarray(fill_masked(x))
    if array.dtype.kind in "US":  # rows of mixed values: numbers must not become text
        array = np.array([list(row) for row in x], dtype=object)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise SentenceError(
            where=checks.place(i),
            expected="an array [T, columns]",
            found=f"an array of shape {array.shape}",
        )
    return array


def _take(table: npt.NDArray[Any], columns: int | list[int]) -> npt.NDArray[Any]:
    if len(table) == 0:
        return np.empty(0 if isinstance(columns, int) else (0, len(columns)))
    return np.asarray(table[:, columns])
