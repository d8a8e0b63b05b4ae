"""An emission and its statistics, divided among shards: parts of the sequences on several workers.

`Whole` suits every emission: each shard gets all of it, as a file. `OfSymbols` suits symbols: a
shard numbers its own symbols, and gets and returns only their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tagloom.scores.tables import Int64

if TYPE_CHECKING:
    from tagloom.scores.emissions.base import Emission

Parts = tuple[tuple[Any, ...], list[tuple[Any, ...]] | None]


class Division(Protocol):
    """How an emission is divided; the result of `Emission.divide`."""

    def initialise(self, emission: Emission, rng: np.random.Generator) -> Emission | None:
        """Return a random initial emission; None if the labels of tokens must be drawn."""

    def send(self, emission: Emission) -> Parts:
        """Return what all shards get, and what each one gets besides; one of them is empty."""

    def merge(self, emission: Emission, stats: Sequence[Any]) -> Any:
        """Merge the statistics of the shards in their order; None stands for no tokens."""


class Whole:
    """Every shard gets the whole emission."""

    def initialise(self, emission: Emission, rng: np.random.Generator) -> Emission | None:
        """Return None."""
        return None

    def send(self, emission: Emission) -> Parts:
        """Return the emission as a file."""
        return (emission.to_file(),), None

    def merge(self, emission: Emission, stats: Sequence[Any]) -> Any:
        """Merge as the emission does."""
        return reduce(emission.merge, [own for own in stats if own is not None])


class Outline(NamedTuple):
    """The symbols that occur in a shard, and how often; the last two are others and missing."""

    symbols: tuple[Any, ...]
    times: Int64  #: [V + 2]


class OfSymbols:
    """Every shard gets the probabilities of its own symbols.

    Parameters
    ----------
    outlines : sequence of Outline
    symbols : tuple of str or int, optional
        All symbols; by default those of the shards, in the order of their first occurrence.
    """

    def __init__(
        self, outlines: Sequence[Outline], symbols: tuple[Any, ...] | range | None = None
    ) -> None:
        number: dict[Any, int] = {}
        if symbols is not None:
            number = {symbol: v for v, symbol in enumerate(symbols)}
        else:
            for outline in outlines:
                for symbol in outline.symbols:
                    number.setdefault(symbol, len(number))
        self.symbols = tuple(number) if symbols is None else symbols
        V = len(self.symbols)
        #: The row of each row of a shard [V_s + 2], in a table [V + 2, Y].
        self.places = [
            np.array([*(number.get(x, V) for x in outline.symbols), V, V + 1], dtype=np.int64)
            for outline in outlines
        ]
        self.times = np.zeros(V + 2)
        for places, outline in zip(self.places, outlines, strict=True):
            np.add.at(self.times, places, outline.times)

    def initialise(self, emission: Any, rng: np.random.Generator) -> Emission | None:
        """Return the same random initial emission as one process."""
        start: Emission = emission.initialise_counts(self.symbols, self.times, rng)
        return start

    def send(self, emission: Any) -> Parts:
        """Return the rows of each shard."""
        number = emission.symbols_
        rows = emission.rows if number is self.symbols else self._rows(emission)
        return (), [(emission.part(rows[places]),) for places in self.places]

    def _rows(self, emission: Any) -> npt.NDArray[np.float64]:
        """Return the rows of an emission with other symbols."""
        V, number = len(emission.symbols_), {x: v for v, x in enumerate(emission.symbols_)}
        places = [number.get(symbol, V) for symbol in self.symbols]
        rows: npt.NDArray[np.float64] = emission.rows[[*places, V, V + 1]]
        return rows

    def merge(self, emission: Any, stats: Sequence[Any]) -> Any:
        """Add the counts of each shard to the rows of its symbols."""
        pairs = [
            (own, places[:-1])
            for own, places in zip(stats, self.places, strict=True)
            if own is not None
        ]
        return emission.merge_counts(self.symbols, pairs)
