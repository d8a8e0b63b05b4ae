"""The native objective of linear models under its public name, and objectives of other places."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from tagloom._native import Attributes, Labels, LinearObjective
from tagloom.renames import renamed_function

__all__ = ["Attributes", "Labels", "LinearObjective", "Problem", "RemoteObjective"]

Problem = renamed_function("training.Problem", LinearObjective)


class RemoteObjective(ABC):
    """An objective that is evaluated elsewhere, such as on the shards of a corpus.

    `LBFGS` minimises it like a `LinearObjective`.

    Attributes
    ----------
    n_weights : int
    rounding : float
        Relative differences of the loss below this are rounding errors.
    """

    n_weights: int
    rounding: float

    @abstractmethod
    def mask(self) -> npt.NDArray[np.bool_]:
        """Return which weights are free; the others stay zero."""

    @abstractmethod
    def evaluate(self, theta: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        """Return the loss and its gradient."""
