"""Calibration: of the predictions made with probability 0.8, 80 % should be right.

`reliability` compares confidence and accuracy; `fit_temperature` finds the temperature by which a
tagger rescales its scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.checks import plural
from tagloom.errors import ParameterError, ShapeError
from tagloom.evaluation.tables import Cell, Table, html_page, page

#: Range in which a temperature is searched.
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 1e6
_GOLDEN = (math.sqrt(5) - 1) / 2


class Bin(NamedTuple):
    """Predictions of about the same confidence.

    Attributes
    ----------
    low, high : float
        Confidences above ``low`` up to ``high``; the first bin includes 0.
    n : int
        Number of predictions.
    confidence, accuracy : float
        Mean probability of the predictions and the share that is right; 0 if the bin is empty.

    Examples
    --------
    >>> reliability([0.75, 1.0], [False, True], n_bins=1).bins
    (Bin(low=0.0, high=1.0, n=2, confidence=0.875, accuracy=0.5),)
    """

    low: float
    high: float
    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, repr=False)
class Reliability:
    """Agreement of confidence and accuracy, by bins. It prints as a table.

    Attributes
    ----------
    bins : tuple of Bin

    Examples
    --------
    >>> result = reliability([0.9, 0.9, 0.6, 0.6], [True, False, True, True])
    >>> round(result.confidence, 2), result.accuracy, round(result.ece, 2)
    (0.75, 0.75, 0.4)
    """

    bins: tuple[Bin, ...]

    @property
    def n(self) -> int:
        """The number of predictions."""
        return sum(bin.n for bin in self.bins)

    @property
    def confidence(self) -> float:
        """The mean probability of the predictions."""
        return self._mean(lambda bin: bin.confidence)

    @property
    def accuracy(self) -> float:
        """The share of the predictions that is right."""
        return self._mean(lambda bin: bin.accuracy)

    @property
    def ece(self) -> float:
        """The expected calibration error: ``Σ_b n_b / n · |accuracy_b − confidence_b|``."""
        return self._mean(lambda bin: abs(bin.accuracy - bin.confidence))

    def _mean(self, value: Callable[[Bin], float]) -> float:
        return math.fsum(bin.n * value(bin) for bin in self.bins) / self.n if self.n else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON.

        Examples
        --------
        >>> reliability([1.0, 1.0], [True, False]).to_dict()["ece"]
        0.5
        """
        return {
            "n": self.n,
            "ece": self.ece,
            "confidence": self.confidence,
            "accuracy": self.accuracy,
            "bins": [bin._asdict() for bin in self.bins],
        }

    def _parts(self) -> list[str | Table]:
        rows: list[list[Cell]] = []
        for low, high, n, confidence, accuracy in self.bins:
            means = [confidence, accuracy] if n else [None, None]
            rows.append([f"{low:.2f} to {high:.2f}", n, *means])
        return [
            f"{plural(self.n, 'prediction')}: confidence {self.confidence:.4f}, accuracy "
            f"{self.accuracy:.4f}, expected calibration error {self.ece:.4f}.",
            Table(["probability", "n", "confidence", "accuracy"], rows),
        ]

    def __repr__(self) -> str:
        return f"Reliability(n={self.n}, ece={self.ece:.4f})"

    def __str__(self) -> str:
        return page(self._parts())

    def _repr_html_(self) -> str:
        return html_page(self._parts())


def reliability(
    confidence: npt.ArrayLike, is_right: npt.ArrayLike, *, n_bins: int = 10
) -> Reliability:
    """Compare the probabilities of predictions with the share that is right.

    Parameters
    ----------
    confidence : array, shape (n,)
        Probability of each prediction.
    is_right : array of bool, shape (n,)
        Whether each prediction is right.
    n_bins : int, default 10
        Number of bins of equal width.

    Returns
    -------
    Reliability

    Raises
    ------
    ShapeError
        If the two arrays do not have the same length.
    ParameterError
        If a confidence is not between 0 and 1.

    Examples
    --------
    >>> result = reliability([0.9, 0.8, 0.9, 0.6], [True, True, False, True], n_bins=2)
    >>> print(result)
    4 predictions: confidence 0.8000, accuracy 0.7500, expected calibration error 0.0500.
    <BLANKLINE>
    probability   n  confidence  accuracy
    0.00 to 0.50  0
    0.50 to 1.00  4      0.8000    0.7500
    >>> round(result.ece, 3)
    0.05
    """
    n_bins = checks.count(n_bins, "n_bins", least=1)
    probs, right = np.asarray(confidence, dtype=np.float64), np.asarray(is_right)
    if probs.ndim != 1 or right.shape != probs.shape or (len(right) and right.dtype != np.bool_):
        raise ShapeError(
            parameter="is_right",
            expected=f"bools of the shape of confidence, {probs.shape}, in one dimension",
            found=f"shape {right.shape}, {right.dtype}",
        )
    wrong = np.flatnonzero(~((probs >= 0) & (probs <= 1 + 1e-6)))  # float32 may round up
    if len(wrong):
        raise ParameterError(
            parameter=f"confidence[{wrong[0]}]",
            expected="a probability from 0 to 1",
            found=str(probs[wrong[0]]),
        )
    which = np.clip(np.ceil(probs * n_bins) - 1, 0, n_bins - 1).astype(np.intp)  # [n]
    n = np.bincount(which, minlength=n_bins)
    filled = np.maximum(n, 1)
    means = np.bincount(which, weights=probs, minlength=n_bins) / filled
    shares = np.bincount(which, weights=right, minlength=n_bins) / filled
    columns = zip(n.tolist(), means.tolist(), shares.tolist(), strict=True)
    return Reliability(
        tuple(Bin(b / n_bins, (b + 1) / n_bins, *column) for b, column in enumerate(columns))
    )


def fit_temperature(loss: Callable[[float], float]) -> float:
    """Find the temperature with the smallest loss, between 0.01 and a million.

    The search starts at 1 and goes downhill in steps of a factor of 2. A golden-section search
    then narrows the interval to a relative width of 1e-4.

    Parameters
    ----------
    loss : callable
        Maps a temperature to a number; has a single minimum.

    Returns
    -------
    float
        1 if no temperature is better.

    Examples
    --------
    >>> import math
    >>> round(fit_temperature(lambda t: math.log(t / 3) ** 2), 3)
    3.0
    """
    low, high = math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE)

    def at(x: float) -> float:
        return loss(math.exp(x))

    here, best = 0.0, at(0.0)
    at_one = best
    step = math.log(2)
    if at(step) >= best:
        step = -step
    while low <= here + step <= high and (ahead := at(here + step)) < best:
        here, best = here + step, ahead
    a, b = max(here - abs(step), low), min(here + abs(step), high)
    c, d = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
    at_c, at_d = at(c), at(d)
    while b - a > 1e-4:
        if at_c <= at_d:
            b, d, at_d = d, c, at_c
            c = b - _GOLDEN * (b - a)
            at_c = at(c)
        else:
            a, c, at_c = c, d, at_d
            d = a + _GOLDEN * (b - a)
            at_d = at(d)
    middle = (a + b) / 2
    return math.exp(middle) if at(middle) < at_one else 1.0
