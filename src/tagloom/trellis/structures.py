"""The interface that all structures share, `Structure`, and `Ragged`, the batching behind it.

A structure is a distribution over the analyses of a sequence. It scores parts, an analysis is a set
of parts, and the score of an analysis is the sum over its parts; probabilities are proportional to
exp(score). Taggers depend on the protocol, so a new structure needs no change to them.

    structure   parts                    analysis: one integer per position
    Trellis     (t, y_prev, y)           the label
    segments    (start, length, y)       the label where a segment begins, otherwise "inside"
    trees       (head, dependent)        the head
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from tagloom.errors import ShapeError

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
OnInfeasible = Literal["raise", "none"]
R = TypeVar("R", bound="Ragged")
S = TypeVar("S", bound="Structure")


@runtime_checkable
class Structure(Protocol):
    """A distribution over the analyses of one sequence, or of each sequence of a batch.

    An analysis is an array of int32 with one entry per position. A batch has N sequences with T
    positions in all. Results per position are flat, with the positions on their first axis; results
    per sequence have shape (N,), or are a plain number for a single sequence.

    ``on_infeasible`` decides about a sequence without any analysis: "raise" raises
    `InfeasibleError`, "none" returns −1 for its positions, score −inf and probability 0.
    """

    @property
    def offsets(self) -> Int64:
        """Where each sequence begins and ends, shape (N + 1,)."""

    def __len__(self) -> int:
        """Return N, the number of sequences of a batch."""

    def __getitem__(self: S, i: Any, /) -> S:
        """Return sequence ``i`` of a batch as a single structure, or a slice as a batch."""

    def split(self, flat: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Cut a result per position, shape (T, ...), into one view per sequence."""

    def viterbi(self, *, on_infeasible: OnInfeasible = "raise") -> tuple[Int32, Any]:
        """Return the best analysis, shape (T,), and its score, float or shape (N,)."""

    def nbest(self, n: int, *, on_infeasible: OnInfeasible = "none") -> Any:
        """Return (analyses [k, T], scores [k], probs [k]) with k ≤ n; a list of those for a batch.

        The best comes first, and all are different.
        """

    def sample(
        self, n: int, random_state: Any = None, *, on_infeasible: OnInfeasible = "raise"
    ) -> Int32:
        """Draw n analyses of each sequence with their probabilities, shape (n, T)."""

    def log_partition(self) -> Any:
        """Return log Σ exp(score) over all analyses: float or [N]; −inf if all are impossible."""

    def marginals(self, *, on_infeasible: OnInfeasible = "raise") -> npt.NDArray[Any]:
        """Return the probability of each part, shape (T, ...).

        The trailing axes identify a part at a position: (T, Y) for labels, (T, L, Y) for segments
        by length and label, (T, H) for heads.
        """

    def entropy(self, *, on_infeasible: OnInfeasible = "raise") -> Any:
        """Return the entropy of the distribution in nats: float or shape (N,)."""

    def constrain(self: S, allowed: npt.ArrayLike, /) -> S:
        """Return a structure with only the allowed parts: bool, of the shape of `marginals`."""

    def tempered(self: S, temperature: float, /) -> S:
        """Return a structure whose scores are divided by a temperature."""


class Ragged(ABC):
    """A batch of sequences in a row, or a single sequence: the base of structures.

    Attributes
    ----------
    is_batch : bool
        Whether it was built as a batch; if not, N is 1.
    """

    is_batch: bool

    @property
    @abstractmethod
    def offsets(self) -> Int64:
        """Where each sequence begins and ends, shape (N + 1,)."""

    @abstractmethod
    def __getitem__(self: R, i: Any, /) -> R:
        """Return one sequence of a batch, or a slice of the batch."""

    @property
    def lengths(self) -> Int64:
        """The number of positions of each sequence, shape (N,)."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        self._check_batch("has no len(); its number of positions is offsets[-1]")
        return len(self.offsets) - 1

    def __iter__(self: R) -> Iterator[R]:
        self._check_batch("cannot be iterated; only a batch can")
        return (self[i] for i in range(len(self)))

    def _check_batch(self, otherwise: str) -> None:
        if not self.is_batch:
            raise TypeError(f"A single {type(self).__name__} {otherwise}.")

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
        T = int(self.offsets[-1])
        if len(flat) != T:
            raise ShapeError(
                parameter="flat",
                expected=f"of length {T}, one row per position",
                found=str(len(flat)),
            )
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
