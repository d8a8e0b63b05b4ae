"""The loop around every optimiser: records, progress, early stopping, Ctrl-C and checkpoints.

An optimiser knows how to make one step; this file knows when to stop and what to keep. It emits
a `Record` per step and leaves printing to whoever listens.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.errors import TrainingError
from tagloom.training.checkpoints import Checkpoint
from tagloom.training.learners import Optimiser
from tagloom.training.records import Listener, Record

Float64 = npt.NDArray[np.float64]


@dataclass
class Outcome:
    """What is left of a run.

    Attributes
    ----------
    theta : ndarray
        The best weights: by the development score if there is one, otherwise the last.
    records : list of Record
    stopped : str
        Why it stopped: ``"converged"``, ``"max_iterations"``, ``"early"`` (the development score
        rose no more) or ``"interrupted"``.
    best : int
        The iteration whose weights were kept.
    """

    theta: Float64
    records: list[Record] = field(default_factory=list)
    stopped: str = "max_iterations"
    best: int = 0


def run(
    optimiser: Optimiser,
    *,
    max_iterations: int,
    dev: Callable[[Float64], float] | None = None,
    patience: int | None = None,
    listeners: tuple[Listener, ...] = (),
    checkpoint: Checkpoint | None = None,
) -> Outcome:
    """Step until the optimiser has converged, the development score stalls, or it is enough.

    Parameters
    ----------
    optimiser : Optimiser
    max_iterations : int
    dev : callable, optional
        From weights to a score on development data; larger is better.
    patience : int, optional
        Stop after this many iterations without a better development score.
    listeners : tuple of callables
        Called with each `Record`.
    checkpoint : Checkpoint, optional
        Where the run is saved from time to time, and resumed from if it is there already.

    Returns
    -------
    Outcome

    Raises
    ------
    TrainingError
        If the loss is not a number any more.
    KeyboardInterrupt
        At the second Ctrl-C, or at the first if there is nothing to keep yet.
    """
    outcome = Outcome(optimiser.theta())
    if checkpoint is not None:
        outcome = _resume(checkpoint, optimiser, outcome)
    best_dev = max((r.dev for r in outcome.records if r.dev is not None), default=-np.inf)
    began = time.perf_counter()
    with _interrupts() as interrupted:
        while outcome.stopped not in ("converged", "early"):
            iteration = len(outcome.records) + 1
            if iteration > max_iterations:
                outcome.stopped = "max_iterations"
                break
            step = optimiser.step()
            if not np.isfinite(step.loss):
                raise TrainingError(
                    f"iteration {iteration}: the loss is {step.loss}. Scale real-valued features "
                    "to about 1, or learn more slowly with a smaller eta."
                )
            score, is_best = None, True
            if dev is not None:
                theta = optimiser.theta()
                score = float(dev(theta))
                is_best = score > best_dev
                if is_best:
                    outcome.theta, best_dev = theta, score
            if is_best:
                outcome.best = iteration
            seconds = time.perf_counter() - began
            record = Record(
                iteration,
                step.loss,
                step.grad_norm,
                score,
                is_best,
                step.n_evaluations,
                seconds,
                step.gap,
            )
            outcome.records.append(record)
            for listener in listeners:
                listener(record)
            if step.converged:
                outcome.stopped = "converged"
            elif score is not None and patience and iteration - outcome.best >= patience:
                outcome.stopped = "early"
            elif interrupted():
                outcome.stopped = "interrupted"
            if checkpoint is not None and checkpoint.is_due:
                if dev is None:
                    outcome.theta = optimiser.theta()
                _save(checkpoint, optimiser, outcome)
            if outcome.stopped == "interrupted":
                break
        if dev is None:
            outcome.theta = optimiser.theta()
        if checkpoint is not None:
            _save(checkpoint, optimiser, outcome)
    return outcome


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Hold the first Ctrl-C back until the step is done; the second one acts at once."""
    pressed = False

    def press(signum: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    if threading.current_thread() is not threading.main_thread():  # Python allows no handlers here
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _save(checkpoint: Checkpoint, optimiser: Optimiser, outcome: Outcome) -> None:
    run = {
        "records": [list(record) for record in outcome.records],
        "stopped": outcome.stopped,
        "best": outcome.best,
    }
    arrays = {f"optimiser.{name}": array for name, array in optimiser.state().items()}
    checkpoint.save(run, {"best_theta": outcome.theta, **arrays})


def _resume(checkpoint: Checkpoint, optimiser: Optimiser, fresh: Outcome) -> Outcome:
    found = checkpoint.load()
    if found is None:
        return fresh
    run, arrays = found
    prefix = "optimiser."
    optimiser.restore({k.removeprefix(prefix): a for k, a in arrays.items() if prefix in k})
    records = [Record(*row) for row in run["records"]]
    # A run that was cut short goes on; one that ended by itself has nothing to add.
    stopped = run["stopped"] if run["stopped"] in ("converged", "early") else "max_iterations"
    return Outcome(np.array(arrays["best_theta"]), records, stopped, run["best"])
