"""Models that learn step by step: one `fit` for linear models, EM, sampling and networks.

A model reads its data, makes a learner and stores the learned weights. Development scores, early
stopping, Ctrl-C, checkpoints, progress and the training record are the same for all. The loop
itself is `tagloom.training.fit_iteratively`.
"""

from __future__ import annotations

import os
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from tagloom import checks, evaluation, training
from tagloom.errors import ParameterError
from tagloom.models.capabilities import Capability
from tagloom.models.data import caller_level, read_dev
from tagloom.models.files import Model
from tagloom.models.taggers import Tagger
from tagloom.parameters import count

if TYPE_CHECKING:
    from tagloom.training import Fitting, Learner, Listener, Outcome


class Data(Protocol):
    """Training data as a model reads them."""

    @property
    def digest(self) -> str:
        """Fingerprint of the data that the weights depend on; see `tagloom.models.data.digest`."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """For the training record, such as ``{"sentences": 200, "tokens": 3000}``."""


D = TypeVar("D", bound=Data)
W = TypeVar("W")


class IterativeModel(Model, Generic[D, W]):
    """Base of models that learn step by step.

    A subclass implements `read_data`, `make_learner` and `finish`; `score_dev` if it takes
    development data; `learn` if it needs several runs. `default_limits` has the defaults of
    ``max_iterations`` and ``patience``.
    """

    capabilities = frozenset({Capability.ITERATIONS})

    max_iterations: int | None = count(
        default=None, least=1, help="The largest number of iterations."
    )
    patience: int | None = count(
        default=None,
        least=1,
        help="With development data: stop after this many iterations without a better score.",
    )

    #: Parameters that do not change the numbers of a run that is resumed.
    _not_in_identity: ClassVar[frozenset[str]] = frozenset(
        {"max_iterations", "patience", "n_threads", "features", "labels", "warm_start"}
        | {"n_workers", "cluster", "max_memory"}
    )

    # ---- what a model implements -----------------------------------------------------------

    @abstractmethod
    def read_data(self, X: Any, y: Any, sample_weight: Any) -> D:
        """Check the arguments of `fit`, and return the data in the form that the learner needs."""

    @abstractmethod
    def make_learner(self, data: D) -> Learner[W]:
        """Make the learner with its initial weights; see `tagloom.training.Learner`."""

    @abstractmethod
    def finish(self, data: D, outcome: Outcome[W], record: dict[str, Any]) -> None:
        """Set the fitted state, in one assignment where there is more than one part.

        Parameters
        ----------
        data : object
        outcome : Outcome
            ``weights`` are the learned weights; ``records`` are for the attribute ``history_``.
        record : dict
            The training record, for the attribute ``training_``: sizes and digest of the data,
            losses, seconds.
        """

    def score_dev(self, dev: Any, data: D) -> Callable[[W], float]:
        """Return the function from weights to the score on development data; larger is better."""
        raise ParameterError(
            parameter="dev",
            expected=f"left out: {type(self).__name__} takes no development data",
            found=checks.show(dev),
        )

    def learn(self, data: D, fitting: Fitting[W]) -> Outcome[W]:
        """Learn the weights: one run, unless a model overrides this to make several.

        Examples of several are `Fitting.run_best` over random starts, and a first run that
        selects features for a second.
        """
        return fitting.run(self.make_learner(data))

    def limits(self) -> tuple[int, int]:
        """Return the largest number of iterations and the patience."""
        iterations, patience = self.default_limits()
        return (
            iterations if self.max_iterations is None else self.max_iterations,
            patience if self.patience is None else self.patience,
        )

    def limits_for(self, data: D) -> tuple[int, int]:
        """Return the same for training data, for models whose defaults depend on them."""
        return self.limits()

    def default_limits(self) -> tuple[int, int]:
        """Return the defaults of ``max_iterations`` and ``patience``."""
        return 100, 10

    # ---- what follows from it --------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        dev: Any = None,
        sample_weight: Any = None,
        callback: Listener | None = None,
        progress: bool | None = None,
        verbose: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from data.

        Ctrl-C ends training after the running iteration and keeps the best weights so far; a
        second Ctrl-C raises.

        Parameters
        ----------
        X : Corpus, or sequence of sentences
            Models of other data take a sequence of those.
        y : sequence of list of str, None or set, optional
            The labels, for models that learn from them; a `Corpus` contains them. Open labels are
            None, for unknown, or a set, for one of several: the tagger then learns that one of the
            remaining labellings is right.
        dev : Corpus, or (X, y), optional
            Development data: scored after each iteration (by a tagger with span F1 if the labels
            are spans, otherwise token accuracy). The best weights are kept, and training stops
            when the score has not risen for ``patience`` iterations.
        sample_weight : sequence of float, optional
            Weight of each sentence.
        callback : callable, optional
            Called with a `Record` after each iteration.
        progress : bool, optional
            Whether to show a progress bar on stderr; by default if that is a terminal, and in
            notebooks.
        verbose : bool, default False
            Whether to print a line for each iteration on stderr. The logger "tagloom" gets these
            lines at level INFO in any case.
        checkpoint : path, optional
            A file to which the run is saved every half a minute and when it ends. If it exists,
            training resumes from it and gives the same numbers.

        Returns
        -------
        self

        Raises
        ------
        SentenceError, LabelError
            If the data are wrong; the message names the sentence.
        """
        began = time.perf_counter()
        self._check_parameters()
        if checkpoint is not None:
            checkpoint = checks.path(checkpoint, "checkpoint")
        data = self.read_data(X, y, sample_weight)
        try:
            return self.fit_data(
                data,
                dev=dev,
                callback=callback,
                progress=progress,
                verbose=verbose,
                checkpoint=checkpoint,
                began=began,
            )
        finally:
            self.release(data)

    def fit_data(
        self,
        data: D,
        *,
        dev: Any = None,
        callback: Listener | None = None,
        progress: bool | None = None,
        verbose: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        began: float | None = None,
    ) -> Self:
        """Learn from data that are already read; for models whose `fit` has another signature.

        Parameters
        ----------
        data : object
            The result of `read_data`.
        dev, callback, progress, verbose, checkpoint
            As for `fit`.
        began : float, optional
            When `fit` was called, by `time.perf_counter`.

        Returns
        -------
        self
        """
        began = time.perf_counter() if began is None else began
        iterations, patience = self.limits_for(data)
        file = None if checkpoint is None else checks.path(checkpoint, "checkpoint")
        fitting = training.Fitting(
            max_iterations=iterations,
            dev=None if dev is None else self.score_dev(dev, data),
            patience=patience,
            callback=callback,
            progress=progress,
            verbose=verbose,
            checkpoint=file,
            identity={} if file is None else self.identity(data),
            title=self._title(data),
            n_tokens=data.sizes.get("tokens"),
            details=self._details(data),
        )
        outcome = self.learn(data, fitting)
        self.finish(data, outcome, training_record(data, outcome, time.perf_counter() - began))
        if outcome.stopped == "interrupted":
            warnings.warn(
                f"Interrupted: the weights of iteration {outcome.best} are kept.",
                stacklevel=caller_level(),
            )
        return self

    def release(self, data: D) -> None:
        """Free what the data occupy outside this process, at the end of `fit` or after an error."""

    def _title(self, data: D) -> str:
        """Return the title of the progress bar."""
        return type(self).__name__

    def _details(self, data: D) -> Callable[[], str] | None:
        """Return the function whose text the progress bar shows after each iteration."""
        return None

    def identity(self, data: D) -> dict[str, Any]:
        """Return the identity of a run: model, data and parameters.

        A checkpoint is resumed only if its identity is the same. Limits and threads are left out;
        they do not change the numbers.
        """
        params = {
            name: value if _is_plain(value) else repr(value)
            for name, value in self.get_params().items()
            if name not in self._not_in_identity
        }
        return {"model": type(self).__name__, "data": data.digest, **params}

    def _check_parameters(self) -> None:
        """Raise ParameterError for a parameter outside its range, or that does not fit others."""
        self.check_parameters()


class IterativeTagger(IterativeModel[D, W], Tagger):
    """Base of taggers that learn step by step: development data are scored by `predict`.

    A subclass implements the abstract methods of `IterativeModel` and `Tagger`: `read_data`,
    `make_learner`, `finish`, `score_sentences`, `to_file` and `from_file`.
    `tagloom.models.labelled.read_labelled` reads sentences and labels.
    """

    def score_dev(self, dev: Any, data: D) -> Callable[[W], float]:
        """Return the function from weights to the score of a copy with these weights.

        Span F1 if the tagger has a scheme, otherwise token accuracy.
        """
        sentences, gold = read_dev(dev)
        trial = self.__copy__()

        def score(weights: W) -> float:
            trial.finish(data, training.Outcome(weights), {})
            scheme = getattr(trial, "scheme_", None)
            if scheme is None:
                return trial.score(sentences, gold)
            predicted = trial.predict(sentences)
            return evaluation.evaluate(gold, predicted, scheme=scheme, spans=True, n_bootstrap=0).f1

        return score


def training_record(data: Data, outcome: Outcome[Any], seconds: float) -> dict[str, Any]:
    """Return the training record of a model file.

    Parameters
    ----------
    data : Data
    outcome : Outcome
    seconds : float
    """
    best = outcome.best_record
    record = {
        **data.sizes,
        "digest": data.digest,
        "iterations": len(outcome.records),
        "best_iteration": outcome.best,
        "stopped": outcome.stopped,
        "loss": best and best.loss,
        "dev": best and best.dev,
        "seconds": round(seconds, 3),
    }
    if best is not None and best.measure != "loss":
        record[best.measure] = best.objective
    return record


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
