"""Compaction: weak weights are dropped, the others stored in half the bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import storage
from tagloom.errors import ParameterError
from tagloom.scores import LinearScores


class Compaction(NamedTuple):
    """The size and accuracy of a model, before and after compaction.

    Attributes
    ----------
    n_weights, n_weights_before : int
    n_bytes, n_bytes_before : int
        Of the model's arrays in a file.
    accuracy, accuracy_before : float or None
        On the development data, if there were any.
    """

    n_weights: int
    n_weights_before: int
    n_bytes: int
    n_bytes_before: int
    accuracy: float | None
    accuracy_before: float | None

    def __str__(self) -> str:
        saved = f"{self.n_bytes_before:,} → {self.n_bytes:,} bytes, "
        saved += f"{self.n_weights_before:,} → {self.n_weights:,} weights"
        if self.accuracy is None or self.accuracy_before is None:
            return saved
        return f"{saved}, accuracy {self.accuracy_before:.4f} → {self.accuracy:.4f}"


def compact(
    scores: LinearScores,
    measure: Callable[[LinearScores], float] | None,
    max_bytes: int | None,
    min_accuracy: float | None,
) -> tuple[LinearScores, Compaction]:
    """Keep the largest weights: as many as fit, or as few as are accurate enough.

    Parameters
    ----------
    scores : LinearScores
    measure : callable, optional
        From scores to accuracy.
    max_bytes : int, optional
    min_accuracy : float, optional
        Needs ``measure``.

    Returns
    -------
    scores : LinearScores
    compaction : Compaction

    Raises
    ------
    ParameterError
        If no such model exists.
    """
    sizes = np.sort(np.abs(scores.rows.weights))[::-1]  # [W]
    W = len(sizes)

    def keep(k: int) -> LinearScores:
        """Keep the k largest weights, and those that tie with the last of them."""
        least = sizes[k - 1] if k else np.inf
        kept: npt.NDArray[np.bool_] = np.abs(scores.rows.weights) >= max(least, 1e-12)
        return scores.keep(kept).narrowed()

    if min_accuracy is not None:
        assert measure is not None
        n = _bisect(W, lambda k: measure(keep(k)) >= min_accuracy)
        if n > W:
            raise ParameterError(
                parameter="min_accuracy",
                expected=f"at most {measure(scores):.4f}, the accuracy of the whole model on dev",
                found=f"{min_accuracy}",
            )
        smaller = keep(n)
        if max_bytes is not None and _size(smaller) > max_bytes:
            raise ParameterError(
                parameter="max_bytes",
                expected=f"at least {_size(smaller):,} for an accuracy of {min_accuracy}",
                found=f"{max_bytes:,}",
                hint="Lower min_accuracy, or allow more bytes.",
            )
    else:
        assert max_bytes is not None
        n = _bisect(W, lambda k: _size(keep(W - k)) <= max_bytes)
        if n > W:
            raise ParameterError(
                parameter="max_bytes",
                expected=f"at least {_size(keep(0)):,}, the size of the model without features",
                found=f"{max_bytes:,}",
            )
        smaller = keep(W - n)
    report = Compaction(
        len(smaller.rows.weights),
        W,
        _size(smaller),
        _size(scores),
        None if measure is None else measure(smaller),
        None if measure is None else measure(scores),
    )
    return smaller, report


def _size(scores: LinearScores) -> int:
    file = scores.to_file()
    return len(storage.to_bytes(file.header, file.arrays))


def _bisect(n: int, holds: Callable[[int], bool]) -> int:
    """Find the least k in 0 .. n for which a condition holds, within 1 in 500; n + 1 if none."""
    if not holds(n):
        return n + 1
    low, high = -1, n  # holds at high, not at low
    while high - low > max(1, n // 500):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
