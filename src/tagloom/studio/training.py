"""Learning in the background, after each correction, and the order in which to ask a person.

A thread fits a new tagger to the present labels and replaces the old one when it is ready; requests
are answered by the old one meanwhile. The queue is then sorted by mean token doubt,

    doubt(x) = mean_t (1 − max_y Pr(y_t = y | x)),

which reached 89 % on English parts of speech with 63 to 85 % of the tokens of a random order.
Every fifth sentence is drawn at random: on these, the accuracy of the predictions is an unbiased
estimate, which sentences chosen for their doubt cannot give.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.errors import TagloomError
from tagloom.models import CRF, Tagger
from tagloom.sequences import Corpus
from tagloom.sequences.sentences import Label
from tagloom.studio.projects import EditedCorpus

RANDOM_UNTIL = 30  # labelled sentences; a model of fewer does not know what it does not know
EVERY = 5  # every fifth sentence is random
MOST_LABELS = 1000  # more are a wrong column, and their transitions would fill the memory
logger = logging.getLogger("tagloom.studio")


class Cancelled(Exception):
    """Training is repeated with newer labels."""


@dataclass(frozen=True)
class Learned:
    """A tagger and what it says about the corpus; replaced as a whole.

    Attributes
    ----------
    tagger : Tagger
    number : int
        How often a tagger was trained.
    seconds : float
        Time of the training, with the ranking.
    doubt : ndarray, shape (N,)
        Mean token doubt of each sentence.
    history : list of dict
        Iterations of the training: loss and seconds.
    """

    tagger: Tagger
    number: int
    seconds: float
    doubt: npt.NDArray[np.float64]
    history: list[dict[str, Any]]


class Trainer:
    """Trains in a thread.

    Parameters
    ----------
    edited : EditedCorpus
    template : Tagger, optional
        Class and parameters of the taggers to train; a CRF by default.
    tagger : Tagger, optional
        A fitted tagger to begin with.
    test : Corpus, optional
        Held-out sentences for the learning curve.
    publish : callable
        Called with plain data when a training begins, ends or fails.
    """

    def __init__(
        self,
        edited: EditedCorpus,
        template: Tagger | None = None,
        tagger: Tagger | None = None,
        test: Corpus | None = None,
        publish: Callable[[dict[str, Any]], None] = lambda event: None,
    ) -> None:
        self._edited, self._test, self._publish = edited, test, publish
        self._template = CRF() if template is None else template
        self.learned: Learned | None = None
        self.failure: str | None = None
        self.curve: list[dict[str, Any]] = []
        self._right = self._asked = 0  # labels predicted for random sentences, before learning them
        self._wake, self._is_closed = threading.Event(), False
        self._changed = threading.Event()  # labels have changed since the training began
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        if tagger is not None:
            self.learned = Learned(tagger, 0, 0.0, _doubts(tagger, edited), [])
            self._note(self.learned)

    # ---- learning --------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="studio-training", daemon=True)
        self._thread.start()

    def request(self) -> None:
        """Ask for a training with the present labels."""
        self._idle.clear()
        self._changed.set()
        self._wake.set()

    def wait(self, seconds: float = 60.0) -> bool:
        """Wait until all labels are learned; return False if it takes longer."""
        return self._idle.wait(seconds)

    def close(self) -> None:
        """End the thread, and a training that runs."""
        self._is_closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            if self._is_closed:
                return
            self._wake.clear()
            self._changed.clear()
            self._publish({"kind": "training"})
            try:
                learned = self._fit()
            except Cancelled:
                continue
            except (TagloomError, MemoryError) as error:
                self.failure = str(error)
                self._publish({"kind": "failed", "message": self.failure})
            except Exception:  # a bug must not end the thread: the page would wait for ever
                logger.exception("training failed")
                self.failure = "training failed; the terminal has the details"
                self._publish({"kind": "failed", "message": self.failure})
            else:
                self.failure = None
                if learned is not None:
                    self.learned = learned
                    self._note(learned)
                    self._publish(
                        {"kind": "model", "number": learned.number, "seconds": learned.seconds}
                    )
            if not self._wake.is_set():
                self._idle.set()

    def _fit(self) -> Learned | None:
        began = time.perf_counter()
        X, y = self._labelled()
        if len(X) < 2:
            return None
        names = {label for row in y for label in row if isinstance(label, str)}
        if len(names) > MOST_LABELS:
            raise TagloomError(
                f"the corpus has {len(names):,} labels, too many to train on.",
                hint="Is it the right column? Choose one with {label}.",
                options={"label": ...},
            )
        before = self.learned
        history: list[dict[str, Any]] = []

        def watch(record: Any) -> None:
            history.append({"iteration": record.iteration, "loss": record.loss})
            done = time.perf_counter() - began
            # A training that is nearly complete is more useful than a new one.
            if self._is_closed or (
                self._changed.is_set() and before is not None and done < before.seconds / 2
            ):
                raise Cancelled

        tagger = type(self._template)(**self._template.get_params(deep=False))
        options = {"callback": watch} if "callback" in _options_of(tagger) else {}
        tagger.fit(X, y, **options)
        doubt = _doubts(tagger, self._edited)
        number = 1 if before is None else before.number + 1
        return Learned(tagger, number, time.perf_counter() - began, doubt, history)

    def _labelled(self) -> tuple[list[Any], list[list[Label]]]:
        """Return the sentences to learn from: those with a label, or with all labels."""
        takes_open = self._template.takes_open_labels
        X: list[Any] = []
        y: list[list[Label]] = []
        for sentence, labels in zip(self._edited.corpus, self._edited.labels, strict=True):
            known = [isinstance(label, str) for label in labels]
            if (any if takes_open else all)(known) and known:
                X.append(sentence)
                y.append(list(labels))
        return X, y

    # ---- learning curve --------------------------------------------------------------------

    def observe(self, predicted: list[str], labels: list[Label], was_random: bool) -> None:
        """Count how many predictions a person left as they were, in a random sentence."""
        if was_random:
            pairs = [(p, y) for p, y in zip(predicted, labels, strict=True) if isinstance(y, str)]
            self._asked += len(pairs)
            self._right += sum(p == y for p, y in pairs)

    def _note(self, learned: Learned) -> None:
        tokens = sum(isinstance(y, str) for row in self._edited.labels for y in row)
        point: dict[str, Any] = {"tokens": tokens}
        if self._test is not None:
            point["test"] = round(learned.tagger.score(self._test), 5)
        if self._asked:
            point["asked"] = round(self._right / self._asked, 5)
        self.curve.append(point)

    # ---- queue -----------------------------------------------------------------------------

    def queue(self, n: int, kind: str = "doubt", skip: int | None = None) -> list[tuple[int, bool]]:
        """Choose the next sentences to show a person.

        Parameters
        ----------
        n : int
        kind : {"doubt", "random", "file"}
            By mean token doubt with every fifth at random, at random, or in the order of the file.
        skip : int, optional
            A sentence that is shown already.

        Returns
        -------
        list of (int, bool)
            Index of each sentence, and whether it was drawn at random.
        """
        edited = self._edited
        is_open = [not row or any(y is None for y in row) for row in edited.labels]
        waiting = [
            i
            for i, row in enumerate(edited.labels)
            if row and i not in edited.accepted and i != skip and (is_open[i] or not any(is_open))
        ]
        if kind == "file":
            return [(i, False) for i in waiting[:n]]
        n_done = len(edited.labels) - sum(is_open) if any(is_open) else len(edited.accepted)
        rng = random.Random(f"{len(edited.labels)}/{n_done}")
        shuffled = rng.sample(waiting, min(len(waiting), n))
        learned = self.learned
        if kind == "random" or learned is None or (any(is_open) and n_done < RANDOM_UNTIL):
            return [(i, True) for i in shuffled]
        doubt = learned.doubt
        ranked = sorted(waiting, key=lambda i: (-doubt[i], i))[: 2 * n]
        result: list[tuple[int, bool]] = []
        taken: set[int] = set()
        while len(result) < n:
            is_random = (n_done + len(result)) % EVERY == EVERY - 1
            i = next((i for i in (shuffled if is_random else ranked) if i not in taken), None)
            if i is None:
                break
            result.append((i, is_random))
            taken.add(i)
        return result


def _doubts(tagger: Tagger, edited: EditedCorpus) -> npt.NDArray[np.float64]:
    """Compute the mean token doubt of each sentence."""
    lengths = np.array([len(row) for row in edited.labels], dtype=np.int64)
    result = np.zeros(len(lengths))
    places = np.flatnonzero(lengths)
    if not len(places):
        return result
    gamma = tagger.predict_marginals([edited.corpus[int(i)] for i in places])
    doubt = 1.0 - np.concatenate([g.max(axis=1) for g in gamma]).astype(np.float64)
    starts = np.concatenate([[0], np.cumsum(lengths[places])[:-1]])
    result[places] = np.add.reduceat(doubt, starts) / lengths[places]
    return result


def _options_of(tagger: Tagger) -> set[str]:
    import inspect

    return set(inspect.signature(tagger.fit).parameters)
