"""Records of training: one per iteration, shown while it runs and kept in the model file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Record(NamedTuple):
    """The result of one iteration: a batch step, an epoch, an EM step, a sampling sweep.

    Attributes
    ----------
    iteration : int
        Counted from 1.
    loss : float
        The objective with its penalties; for online learners the mean loss during the epoch.
        Negated if the learner maximises its objective.
    grad_norm : float or None
    dev : float or None
        The score on the development data, if there are any.
    is_best : bool
        Whether these weights are the best so far; they are kept if training stops here.
    n_evaluations : int
        Number of passes over the data in this iteration.
    seconds : float
        Time since training began; a resumed run counts from its resumption.
    gap : float or None
        Upper bound on how far the loss is above the optimum, if the learner has one.
    measure : str
        Name of the objective: ``"loss"``, ``"log_likelihood"``, ``"elbo"``, ...
    rises : bool
        Whether the objective is maximised.
    """

    iteration: int
    loss: float
    grad_norm: float | None
    dev: float | None
    is_best: bool
    n_evaluations: int
    seconds: float
    gap: float | None = None
    measure: str = "loss"
    rises: bool = False

    @property
    def objective(self) -> float:
        """The objective under its own sign: ``-loss`` if it rises, otherwise ``loss``.

        Examples
        --------
        >>> record = Record(1, 120.5, None, None, True, 1, 0.1, None, "log_likelihood", True)
        >>> record.objective
        -120.5
        """
        return -self.loss if self.rises else self.loss

    def to_row(self) -> list[Any]:
        """Return the fields as plain data; the name of an ordinary loss is left out."""
        row = list(self)
        return row if self.rises or self.measure != "loss" else row[:8]

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Record:
        """Make a record from the result of `to_row`."""
        return cls(*row)


class Listener(Protocol):
    """A callable that handles records while training runs."""

    def __call__(self, record: Record) -> None:
        """Handle one record."""
