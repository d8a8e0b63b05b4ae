"""Learners: the interface between an algorithm that improves weights and the loop that runs it.

A learner makes one step at a time, and returns its weights and its state. Everything else
(development scores, early stopping, checkpoints, progress, Ctrl-C) is done by the loop in
`tagloom.training.fitting`, which never looks inside the weights. L-BFGS, the online learners, EM,
variational Bayes, Gibbs sampling and networks therefore run in the same loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

#: The state of a learner, from which training can continue: arrays by name.
State = dict[str, npt.NDArray[Any]]
#: The weights of a learner: an array, a dict of arrays, or any other snapshot.
W_co = TypeVar("W_co", covariant=True)


class Step(NamedTuple):
    """Result of one `Learner.step`.

    Attributes
    ----------
    loss : float
        The objective at the new weights, to be minimised. Batch learners: with penalties. Online
        learners: mean loss per sentence during the epoch, without penalties. Learners that maximise
        report minus their objective; see `rising`.
    grad_norm : float or None
        Length of the gradient (of the pseudo-gradient with L1), if the learner computes one.
    n_evaluations : int
        Number of passes over the data.
    converged : bool
        Whether the learner has converged, by its own test.
    gap : float or None
        Upper bound on how far the loss is above the optimum, if the learner has one.
    measure : str
        Name of the objective: ``"loss"``, ``"log_likelihood"``, ``"elbo"``, ...
    rises : bool
        Whether the objective is maximised, so that it is minus ``loss``.
    """

    loss: float
    grad_norm: float | None = None
    n_evaluations: int = 1
    converged: bool = False
    gap: float | None = None
    measure: str = "loss"
    rises: bool = False

    @property
    def objective(self) -> float:
        """The objective under its own sign: ``-loss`` if it rises, otherwise ``loss``."""
        return -self.loss if self.rises else self.loss

    @classmethod
    def rising(cls, value: float, measure: str, *, converged: bool = False) -> Step:
        """Report an objective that is maximised.

        Parameters
        ----------
        value : float
        measure : str
            Its name, such as ``"log_likelihood"``.
        converged : bool

        Examples
        --------
        >>> step = Step.rising(-120.5, "log_likelihood")
        >>> step.objective, step.loss
        (-120.5, 120.5)
        """
        return cls(-value, converged=converged, measure=measure, rises=True)


class Learner(Protocol[W_co]):
    """An algorithm that improves weights step by step; run by `fit_iteratively`.

    Draw random numbers from ``numpy.random.default_rng([seed, iteration])``: a resumed run then
    repeats them, with the iteration as the only state.

    A learner whose weights are neither an array nor a dict of arrays, and that is to be resumed
    with development data, also needs ``pack(weights) → dict of arrays`` and
    ``unpack(arrays) → weights``, by which the loop stores its best weights so far.
    """

    def step(self) -> Step:
        """Do one iteration: a batch step, an epoch, an EM step, a sampling sweep."""
        ...

    def weights(self) -> W_co:
        """Return a snapshot of the weights to predict with; later steps must not change it."""
        ...

    def state(self) -> State:
        """Return the state from which training can continue, as arrays by name."""
        ...

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state`; the steps that follow have the same bits."""
        ...


class Optimiser(Learner[npt.NDArray[np.float64]], Protocol):
    """A learner whose weights are one flat array."""

    def theta(self) -> npt.NDArray[np.float64]:
        """Return the weights to predict with, averaged where that applies."""
        ...
