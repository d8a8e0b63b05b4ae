"""What training tells of itself: one record per iteration. A model file keeps them."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Record(NamedTuple):
    """What one iteration (batch) or epoch (online) has reached.

    Attributes
    ----------
    iteration : int
        Counted from 1.
    loss : float
        The objective with its penalties; for online learners the mean loss while learning.
    grad_norm : float or None
    dev : float or None
        The score on the development data, if there are any.
    is_best : bool
        Whether these weights are the best so far, and would be kept if training stopped here.
    n_evaluations : int
        How often the objective was evaluated in this iteration.
    seconds : float
        Since training began, without what a resumed run spent before.
    gap : float or None
        How far at most the loss is above the optimum, where the optimiser knows.
    """

    iteration: int
    loss: float
    grad_norm: float | None
    dev: float | None
    is_best: bool
    n_evaluations: int
    seconds: float
    gap: float | None = None


class Listener(Protocol):
    """Something that shows records while training runs."""

    def __call__(self, record: Record) -> None:
        """Take notice of one record."""
