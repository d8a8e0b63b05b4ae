"""The training loop, which runs any learner.

It handles development scores, early stopping, the best weights so far, Ctrl-C, checkpoints that
resume to the same bits, progress and records, for L-BFGS, online learners, EM, sampling and
networks. The loop never looks inside the weights; see `tagloom.training.learners`.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ParameterError, TrainingError
from tagloom.renames import warn_renamed
from tagloom.training.checkpoints import Checkpoint
from tagloom.training.learners import Learner, Optimiser, State, Step
from tagloom.training.progress import Lines, Speed, make_bar, show_record, shows_progress
from tagloom.training.records import Listener, Record

W = TypeVar("W")

# A run that stopped for one of these reasons is complete; resuming it does nothing.
_FINAL = ("converged", "early")


@dataclass
class Outcome(Generic[W]):
    """Result of a training run.

    Attributes
    ----------
    weights : W
        The best weights by development score if there is one, otherwise the last.
    records : list of Record
        One per iteration.
    stopped : str
        Why it stopped: ``"converged"``, ``"max_iterations"``, ``"early"`` (the development score
        stopped rising) or ``"interrupted"`` (Ctrl-C).
    best : int
        The iteration whose weights were kept; 0 if there was none.
    """

    weights: W
    records: list[Record] = field(default_factory=list)
    stopped: str = "max_iterations"
    best: int = 0

    @property
    def theta(self) -> W:
        """The weights; deprecated name."""
        warn_renamed("Outcome.theta", "weights")
        return self.weights

    def take_weights(self) -> W:
        """Return the weights and drop them here, so that their memory can be freed early."""
        weights = self.weights
        del self.weights
        return weights

    @property
    def best_record(self) -> Record | None:
        """The record of the iteration whose weights were kept."""
        return self.records[self.best - 1] if self.best else None

    def rank(self) -> tuple[float, float]:
        """Return a key to compare runs of one model; larger is better.

        The development score, where one is computed, counts first, then the loss.
        """
        record = self.best_record
        if record is None:
            return (-np.inf, -np.inf)
        return (-np.inf if record.dev is None else record.dev, -record.loss)


def fit_iteratively(
    learner: Learner[W],
    *,
    max_iterations: int,
    dev: Callable[[W], float] | None = None,
    patience: int | None = None,
    listeners: Sequence[Listener] = (),
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    identity: Mapping[str, Any] | None = None,
    progress: bool | None = False,
    verbose: bool = False,
    title: str = "Training",
    n_tokens: int | None = None,
    details: Callable[[], str] | None = None,
    drops_learner: bool = False,
) -> Outcome[W]:
    """Step until the learner has converged, the development score stalls, or the limit is reached.

    Ctrl-C ends training after the running step and keeps the best weights so far.

    Parameters
    ----------
    learner : Learner
    max_iterations : int
        Largest number of steps, those of a resumed run included.
    dev : callable, optional
        From weights to a score on development data; larger is better.
    patience : int, optional
        Stop after this many iterations without a better development score.
    listeners : sequence of callables
        Called with each `Record`.
    checkpoint : Checkpoint or path, optional
        File to which the run is saved at intervals. If the file exists, the run resumes from it and
        gives the same bits.
    identity : mapping, optional
        With a path: everything that the run depends on, such as parameters and a digest of the
        data. The checkpoint of another run is refused.
    progress : bool, optional
        Whether to show a progress bar on stderr; None: if stderr is a terminal, or in a notebook.
    verbose : bool
        Whether to print a line for each iteration on stderr. The logger "tagloom" gets the same
        lines at level INFO in any case.
    title : str
        Title of the progress bar and of these lines.
    n_tokens : int, optional
        Number of tokens of the training data, to show the speed.
    details : callable, optional
        Returns what else is shown after each iteration.
    drops_learner : bool
        Whether the learner is not used afterwards: it may then give away its memory.

    Returns
    -------
    Outcome

    Raises
    ------
    TrainingError
        If the loss is NaN or infinite.
    KeyboardInterrupt
        At the second Ctrl-C.

    Examples
    --------
    A learner with plain numbers as weights, which halves its distance from 1:

    >>> import numpy as np
    >>> from tagloom.training import Step, fit_iteratively
    >>> class Halving:
    ...     value = 0.0
    ...     def step(self):
    ...         self.value += (1 - self.value) / 2
    ...         return Step(1 - self.value, converged=self.value > 0.9)
    ...     def weights(self):
    ...         return {"value": self.value}
    ...     def state(self):
    ...         return {"value": np.array(self.value)}
    ...     def restore(self, state):
    ...         self.value = float(state["value"])
    >>> outcome = fit_iteratively(Halving(), max_iterations=10)
    >>> outcome.weights, outcome.stopped, len(outcome.records)
    ({'value': 0.9375}, 'converged', 4)
    """
    checks.count(max_iterations, "max_iterations", least=0)
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checks.path(checkpoint, "checkpoint"), identity or {})
    with ExitStack() as stack:
        if shows_progress(progress):
            bar = make_bar(title, max_iterations, Speed(n_tokens, details))
            stack.enter_context(bar)
            listeners = [*listeners, bar]
        if verbose:
            listeners = [*listeners, Lines(title, Speed(n_tokens, details))]
        listeners = [*listeners, partial(_log, title)]
        run = _Run(learner, dev, patience, listeners, checkpoint)
        return run.run(max_iterations, drops_learner)


def _log(title: str, record: Record) -> None:
    """Log a record; Python hides level INFO unless the program asks for it."""
    logger = logging.getLogger("tagloom")
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s %d  %s", title, record.iteration, show_record(record))


def run(
    optimiser: Optimiser,
    *,
    max_iterations: int,
    dev: Callable[[npt.NDArray[np.float64]], float] | None = None,
    patience: int | None = None,
    listeners: tuple[Listener, ...] = (),
    checkpoint: Checkpoint | None = None,
) -> Outcome[npt.NDArray[np.float64]]:
    """Run an optimiser; deprecated name of `fit_iteratively`."""
    warn_renamed("training.run", "fit_iteratively")
    return fit_iteratively(
        optimiser,
        max_iterations=max_iterations,
        dev=dev,
        patience=patience,
        listeners=listeners,
        checkpoint=checkpoint,
    )


@dataclass(frozen=True)
class Fitting(Generic[W]):
    """The settings of the training runs of one `fit`; learners are passed to `run`.

    A model makes one run, or several: one to select features and one to weight them, or one for
    each of several random starts.

    Attributes
    ----------
    max_iterations : int
    dev : callable, optional
        From weights to a development score.
    patience : int, optional
    callback : callable, optional
        Called with each `Record`.
    progress : bool, optional
    verbose : bool
    checkpoint : str, optional
        File name; several runs append a suffix each.
    identity : mapping
        Everything that a run depends on; a checkpoint must have the same.
    title : str
    n_tokens : int, optional
        Number of tokens of the training data, to show the speed.
    details : callable, optional
        Returns what else is shown after each iteration.
    """

    max_iterations: int
    dev: Callable[[W], float] | None = None
    patience: int | None = None
    callback: Listener | None = None
    progress: bool | None = False
    verbose: bool = False
    checkpoint: str | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    title: str = "Training"
    n_tokens: int | None = None
    details: Callable[[], str] | None = None

    def run(self, learner: Learner[W], *, title: str = "", suffix: str = "") -> Outcome[W]:
        """Run one learner to its end.

        Parameters
        ----------
        learner : Learner
        title : str
            Appended to the title of the progress bar.
        suffix : str
            Appended to the name of the checkpoint; distinct for each run of a model.
        """
        return fit_iteratively(
            learner,
            max_iterations=self.max_iterations,
            dev=self.dev,
            patience=self.patience,
            listeners=() if self.callback is None else (self.callback,),
            checkpoint=None if self.checkpoint is None else self.checkpoint + suffix,
            identity=self.identity,
            progress=self.progress,
            verbose=self.verbose,
            title=self.title + title,
            n_tokens=self.n_tokens,
            details=self.details,
            drops_learner=True,
        )

    def run_best(self, make: Callable[[int], Learner[W]], n: int) -> Outcome[W]:
        """Run learners from several starts and return the best outcome, by `Outcome.rank`.

        Ctrl-C ends the present run and skips the others; the outcome is then ``"interrupted"``.

        Parameters
        ----------
        make : callable
            Makes the learner of start 0 … n − 1.
        n : int
            Number of starts, at least 1.
        """
        outcomes: list[Outcome[W]] = []
        for i in range(checks.count(n, "n", least=1)):
            names = {} if n == 1 else {"title": f", start {i + 1} of {n}", "suffix": f".{i + 1}"}
            outcomes.append(self.run(make(i), **names))
            if outcomes[-1].stopped == "interrupted":
                break
        best = max(outcomes, key=Outcome.rank)  # the first among equals
        best.stopped = "interrupted" if outcomes[-1].stopped == "interrupted" else best.stopped
        return best


class _Run(Generic[W]):
    """One run of the loop."""

    def __init__(
        self,
        learner: Learner[W],
        dev: Callable[[W], float] | None,
        patience: int | None,
        listeners: Sequence[Listener],
        checkpoint: Checkpoint | None,
    ) -> None:
        self.learner = learner
        self.dev = dev
        self.patience = patience
        self.listeners = listeners
        self.checkpoint = checkpoint
        # Without development data the last weights count, which are read at the end.
        self.outcome = Outcome(cast(W, None) if dev is None else learner.weights())
        self.best_dev = -np.inf
        self.began = time.perf_counter()
        if checkpoint is not None:
            if dev is not None:
                pack(learner, self.outcome.weights)  # raise now rather than at the first save
            self._resume(checkpoint)

    def run(self, max_iterations: int, drops_learner: bool = False) -> Outcome[W]:
        outcome = self.outcome
        with _interrupts() as is_interrupted:
            while outcome.stopped not in _FINAL:
                if len(outcome.records) >= max_iterations:
                    outcome.stopped = "max_iterations"
                    break
                step = self.learner.step()
                record = self._judge(step)
                if step.converged:
                    outcome.stopped = "converged"
                elif self._has_stalled(record):
                    outcome.stopped = "early"
                elif is_interrupted():
                    outcome.stopped = "interrupted"
                    break
                if self.checkpoint is not None and self.checkpoint.is_due:
                    self._save(self.checkpoint)
            if self.dev is None:
                is_last = drops_learner and self.checkpoint is None
                take = getattr(self.learner, "take_weights", None) if is_last else None
                outcome.weights = self.learner.weights() if take is None else take()
            if self.checkpoint is not None:
                self._save(self.checkpoint)
        return outcome

    def _judge(self, step: Step) -> Record:
        """Score the new weights, keep them if they are the best, and record the step."""
        iteration = len(self.outcome.records) + 1
        if not np.isfinite(step.loss):
            raise TrainingError(
                f"the {step.measure.replace('_', ' ')} is {step.objective}.",
                where=f"iteration {iteration}",
                found=f"{step.objective}",
                expected="a finite number",
                hint="Scale real-valued inputs to about 1, or lower the learning rate.",
            )
        score, is_best = None, True
        if self.dev is not None:
            weights = self.learner.weights()
            score = float(self.dev(weights))
            is_best = score > self.best_dev
            if is_best:
                self.outcome.weights, self.best_dev = weights, score
        if is_best:
            self.outcome.best = iteration
        record = Record(
            iteration,
            float(step.loss),
            step.grad_norm,
            score,
            is_best,
            step.n_evaluations,
            time.perf_counter() - self.began,
            step.gap,
            step.measure,
            step.rises,
        )
        self.outcome.records.append(record)
        for listener in self.listeners:
            listener(record)
        return record

    def _has_stalled(self, record: Record) -> bool:
        if record.dev is None or not self.patience:
            return False
        return record.iteration - self.outcome.best >= self.patience

    # ---- checkpoints -----------------------------------------------------------------------

    def _save(self, checkpoint: Checkpoint) -> None:
        outcome = self.outcome
        header = {
            "records": [record.to_row() for record in outcome.records],
            "stopped": outcome.stopped,
            "best": outcome.best,
        }
        arrays = {f"learner.{name}": array for name, array in self.learner.state().items()}
        if self.dev is not None:  # otherwise the best weights are those of the learner
            packed = pack(self.learner, outcome.weights)
            arrays |= {f"best.{name}": array for name, array in packed.items()}
        checkpoint.save(header, arrays)

    def _resume(self, checkpoint: Checkpoint) -> None:
        saved = checkpoint.load()
        if saved is None:
            return
        header, arrays = saved
        self.learner.restore(_with_prefix(arrays, "learner."))
        records = [Record.from_row(row) for row in header["records"]]
        stopped = header["stopped"] if header["stopped"] in _FINAL else "max_iterations"
        best = _with_prefix(arrays, "best.")
        weights = unpack(self.learner, best) if best else self.outcome.weights
        self.outcome = Outcome(weights, records, stopped, header["best"])
        self.best_dev = max((r.dev for r in records if r.dev is not None), default=-np.inf)


def _with_prefix(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> State:
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}


def pack(learner: Learner[W], weights: W) -> State:
    """Turn the weights of a learner into arrays by name, for a file.

    A learner may define a method ``pack`` for this.

    Raises
    ------
    ParameterError
        If the weights are neither an array nor a dict of arrays, and the learner has no ``pack``.
    """
    if hasattr(learner, "pack"):
        return dict(learner.pack(weights))
    if isinstance(weights, np.ndarray):
        return {_ALONE: weights}
    if isinstance(weights, dict) and all(isinstance(w, np.ndarray) for w in weights.values()):
        return {f"named.{name}": array for name, array in weights.items()}
    raise ParameterError(
        parameter="checkpoint",
        expected="left out: this learner cannot store its weights",
        found=f"weights of type {type(weights).__name__}",
        hint="Give the learner methods pack(weights) and unpack(arrays).",
    )


def unpack(learner: Learner[W], arrays: State) -> W:
    """Turn the result of `pack` back into weights."""
    if hasattr(learner, "unpack"):
        return cast(W, learner.unpack(arrays))
    return cast(W, arrays[_ALONE] if _ALONE in arrays else _with_prefix(arrays, "named."))


# Name of weights that are a single array.
_ALONE = "weights"


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Delay the first Ctrl-C until the step is done; the second one raises at once."""
    pressed = False

    def press(signum: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    if threading.current_thread() is not threading.main_thread():  # no handlers allowed here
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
