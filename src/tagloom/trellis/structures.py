"""What all structures share: the protocol `Structure`, and `Ragged`, the batching behind it.

A structure is a distribution over the analyses of a sequence: label paths (`Trellis`), segments,
trees. It has scores for parts, and an analysis is the set of its parts; which parts there are is up
to the structure. Models and taggers depend on this protocol rather than on one structure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from tagloom.errors import ShapeError

Int64 = npt.NDArray[np.int64]
OnInfeasible = Literal["raise", "none"]
S = TypeVar("S", bound="Ragged")


class Ragged(ABC):
    """A batch of sequences one after another, or a single sequence.

    Results per position are flat: [T, ...] for all sequences in a row, which `split` cuts. Results
    per sequence have shape [N], or are a plain value for a single sequence.

    Attributes
    ----------
    offsets : ndarray of int64, shape (N + 1,)
        Sequence i has the positions ``offsets[i]`` to ``offsets[i + 1]``.
    is_batch : bool
        Whether it was built as a batch; if not, N is 1.
    """

    is_batch: bool

    @property
    @abstractmethod
    def offsets(self) -> Int64:
        """Where each sequence begins and ends [N + 1]."""

    @property
    def lengths(self) -> Int64:
        """The number of positions of each sequence [N]."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        self._check_batch("has no len(); its number of positions is trellis.emit.shape[0]")
        return len(self.offsets) - 1

    def __iter__(self: S) -> Iterator[S]:
        self._check_batch("cannot be iterated; only a batch can")
        return (self[i] for i in range(len(self)))

    @abstractmethod
    def __getitem__(self: S, i: Any) -> S:
        """Return one sequence, or a slice of the batch."""

    def _check_batch(self, otherwise: str) -> None:
        if not self.is_batch:
            raise TypeError(f"A single trellis {otherwise}.")

    def split(self, flat: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Cut a flat per-position result of a batch into one view per sequence.

        Examples
        --------
        >>> import numpy as np
        >>> import tagloom as tl
        >>> batch = tl.Trellis.stack([np.zeros((2, 3)), np.zeros((1, 3))])
        >>> batch.split(batch.viterbi().path)
        [array([0, 0], dtype=int32), array([0], dtype=int32)]
        """
        if len(flat) != self.offsets[-1]:
            raise ShapeError(f"Expected {self.offsets[-1]} rows, one a position; got {len(flat)}.")
        return np.split(flat, self.offsets[1:-1]) if len(self.offsets) > 1 else []

    def _per_sequence(self, values: npt.NDArray[Any]) -> Any:
        """Return results [N] of a batch, or the one value of a single sequence."""
        return values if self.is_batch else values.item(0)

    def _place(self, t: int) -> str:
        """Name a flat position as users count: by sequence, then position."""
        if not self.is_batch:
            return f"position {t}"
        i = int(np.searchsorted(self.offsets, t, side="right")) - 1
        return f"sequence {i}, position {t - self.offsets[i]}"
