"""Smoothing of label n-grams: from counts of what followed each history to probabilities.

Counts have one axis per label of the history, the oldest first, and a last axis for the outcome.
They may be expected counts, so nothing here requires integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ParameterError

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Smoothing:
    """How transition probabilities are estimated from counts.

    Parameters
    ----------
    method : {"witten-bell", "interpolation", "add-k"}
        With h a history, h' the same without its oldest label, and n(h) the number of different
        outcomes seen after h:

        - ``"add-k"``: (count(h, y) + k) / (count(h) + k · outcomes);
        - ``"witten-bell"``: (count(h, y) + n(h) · Pr(y | h')) / (count(h) + n(h));
        - ``"interpolation"``: Σ_j λ_j · count(h_j, y) / count(h_j) over the suffixes h_j of the
          history, with weights λ set by deleted interpolation (leave one out).
    k : float
        Pseudo-count of ``"add-k"``; 0 gives relative frequencies.
    stop : bool
        Whether the end of a sequence, ■, is an outcome.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom.scores.smoothing import Smoothing
    >>> counts = np.array([[1.0, 2.0, 1.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]])  # 2 labels
    >>> Smoothing("add-k", k=1.0, stop=False).probs(counts).round(3)
    array([[0.4, 0.6],
           [0.5, 0.5],
           [0.8, 0.2]])
    """

    method: str = "witten-bell"
    k: float = 1.0
    stop: bool = True

    def check(self, order: int) -> None:
        """Raise if a parameter is out of range.

        Raises
        ------
        ParameterError
            Names the parameter. Also raised if a model of this order needs smoothing but has none.
        """
        checks.choice(self.method, "smoothing", METHODS)
        checks.number(self.k, "k", least=0)
        checks.flag(self.stop, "stop")
        if order > 1 and self.method == "add-k" and self.k == 0:
            raise ParameterError(
                parameter="k",
                expected=f"above 0 at order {order}, where most histories are never seen",
                found="0",
                hint="Choose k above 0, or another smoothing.",
            )

    def probs(self, counts: Float64) -> Float64:
        """Estimate the probability of each outcome after each history.

        Parameters
        ----------
        counts : ndarray, shape (Y + 1,) * (k + 1)
            As `tagloom.scores.markov.count_ngrams` returns them. In a history Y means that the
            sequence had not begun; as an outcome, that it ends.

        Returns
        -------
        ndarray, shape (Y + 1,) * k + (outcomes,)
            With ``stop`` there are Y + 1 outcomes, otherwise Y.
        """
        Y = len(counts) - 1
        if not self.stop:
            return METHODS[self.method](counts[..., :Y], self.k)
        probs = METHODS[self.method](counts, self.k)
        begin = probs[(Y,) * (counts.ndim - 1)]
        begin[Y] = 0  # a sequence has at least one token
        begin /= begin.sum()
        return probs


def relative(counts: Float64, otherwise: Float64 | float) -> Float64:
    """Divide by the total of each history; a history never seen gets ``otherwise``."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1), otherwise)


def _add_k(counts: Float64, k: float) -> Float64:
    return relative(counts + k, 1 / counts.shape[-1])


def _witten_bell(counts: Float64, k: float) -> Float64:
    shorter: Float64 | float = 1 / counts.shape[-1]
    if counts.ndim > 1:
        shorter = _witten_bell(counts.sum(axis=0), k)
    different = (counts > 0).sum(axis=-1, keepdims=True)
    return relative(counts + different * shorter, shorter)


def _interpolate(counts: Float64, k: float) -> Float64:
    levels = [counts]
    while levels[0].ndim > 1:
        levels.insert(0, levels[0].sum(axis=0))  # from no history to the whole one
    outcomes = counts.shape[-1]
    predictions = [np.full(counts.shape, 1 / outcomes)]
    for level in levels:
        total = level.sum(axis=-1, keepdims=True)
        left_out = np.where(total > 1, np.maximum(level - 1, 0) / np.maximum(total - 1, 1), 0)
        predictions.append(np.broadcast_to(left_out, counts.shape))
    best = np.argmax(predictions, axis=0)  # ties go to the shorter history
    lambdas = np.bincount(best.ravel(), counts.ravel(), minlength=len(predictions)) + 1
    probs: Float64 = np.full(outcomes, 1 / outcomes)
    for j, level in enumerate(levels, start=1):
        share = lambdas[j] / lambdas[: j + 1].sum()
        probs = share * relative(level, probs) + (1 - share) * probs
    return probs


#: Each takes counts [history ..., outcome] and the k of add-k, and returns probabilities.
METHODS = {"witten-bell": _witten_bell, "interpolation": _interpolate, "add-k": _add_k}
