"""Learning in the background, after each correction, and the order in which to ask a person.

A thread makes a new tagger and replaces the old one when it is ready; requests are answered by the
old one meanwhile. A corpus that is learnt within `QUICK_FIT` seconds is learnt anew after each
correction. For a larger one, a copy of the tagger learns the corrected sentences alone
(``partial_fit``), which takes a few milliseconds and the time of the copy; everything is learnt
anew once a tenth of the sentences are corrected, on request, and before the model is saved.

`tagloom.studio.queues` then chooses the sentences to show a person.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tagloom.errors import TagloomError
from tagloom.models import CRF, Tagger
from tagloom.sequences import Corpus
from tagloom.sequences.sentences import Label
from tagloom.studio.projects import EditedCorpus
from tagloom.studio.queues import Doubts, Queue

QUICK_FIT = 0.3  # seconds of a training that is repeated after each correction
MOST_CORRECTED = 0.1  # share of the labelled sentences that partial_fit learns before all is learnt
PASSES = 3  # over corrected sentences
# A fitted model continues with a fifth of the step size: 100 sentences of EWT after 600, singly,
# then give what a fit to 700 gives (90.4 %); with the full step size the accuracy falls by a point.
STEP = 0.2
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
    corrected : frozenset of int
        Sentences that were corrected since the model learnt everything.
    doubts : Doubts
        Doubt of each token of the corpus.
    history : list of dict
        Iterations of the training: loss and seconds.
    """

    tagger: Tagger
    number: int
    seconds: float
    doubts: Doubts
    history: list[dict[str, Any]]
    corrected: frozenset[int] = frozenset()


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
        self._right = self._asked = 0.0  # labels predicted for random sentences, before learning
        self._wake, self._is_closed = threading.Event(), False
        self._changed = threading.Event()  # labels have changed since the training began
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._pending: set[int] = set()  # corrected sentences that nothing has learnt yet
        self._wants_all = False
        self._fit_seconds: float | None = None  # of the last training from scratch
        self._queue = Queue(edited)
        if tagger is not None:
            self.learned = Learned(tagger, 0, 0.0, self._queue.rank(tagger), [])
            self._note(self.learned)

    # ---- learning --------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="studio-training", daemon=True)
        self._thread.start()

    def request(self, sentences: Iterable[int] | None = None) -> None:
        """Ask for a training with the present labels.

        Parameters
        ----------
        sentences : iterable of int, optional
            Those whose labels have changed; without them, everything is learnt anew.
        """
        with self._lock:
            self._wants_all |= sentences is None
            self._pending.update(sentences or ())
        self._idle.clear()
        self._changed.set()
        self._wake.set()

    def wait(self, seconds: float = 60.0) -> bool:
        """Wait until all labels are learned; return False if it takes longer."""
        return self._idle.wait(seconds)

    def complete(self) -> Tagger | None:
        """Return a tagger that has learnt all labels from scratch; None if there is none yet."""
        self.wait()
        if self.learned is not None and self.learned.corrected:
            self.request()
            self.wait(3600)
        return None if self.learned is None else self.learned.tagger

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
                learned = self._learn()
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

    def _learn(self) -> Learned | None:
        with self._lock:
            pending, wants_all = self._pending, self._wants_all
            self._pending, self._wants_all = set(), False
        before = self.learned
        if before is not None and not wants_all:
            corrected = before.corrected | pending
            few = len(corrected) <= MOST_CORRECTED * len(self._edited.labels)
            is_slow = self._fit_seconds is None or self._fit_seconds > QUICK_FIT
            if few and is_slow and getattr(before.tagger, "takes_parts", False):
                return self._correct(before, pending, frozenset(corrected))
        return self._fit()

    def _correct(
        self, before: Learned, sentences: set[int], corrected: frozenset[int]
    ) -> Learned | None:
        """Let a copy of the tagger learn from some sentences."""
        began = time.perf_counter()
        X, y = self._labelled(sorted(sentences))
        if not X:
            return None
        tagger: Any = copy.copy(before.tagger)
        parameters = tagger.get_params(deep=False)
        if not before.corrected and "eta" in parameters:
            eta = parameters["eta"]
            tagger.set_params(eta=STEP * (0.5 if eta is None else eta))
        for _ in range(PASSES):
            tagger.partial_fit(X, y)
        doubts = self._queue.rank_again(before.doubts, tagger, sentences)
        seconds = time.perf_counter() - began
        return Learned(tagger, before.number + 1, seconds, doubts, before.history, corrected)

    def _fit(self) -> Learned | None:
        began = time.perf_counter()
        X, y = self._labelled(range(len(self._edited.labels)))
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
            last = self._fit_seconds
            if self._is_closed or (self._changed.is_set() and last is not None and done < last / 2):
                raise Cancelled

        tagger = type(self._template)(**self._template.get_params(deep=False))
        options = {"callback": watch} if "callback" in _options_of(tagger) else {}
        tagger.fit(X, y, **options)
        doubts = self._queue.rank(tagger)
        number = 1 if before is None else before.number + 1
        self._fit_seconds = time.perf_counter() - began
        return Learned(tagger, number, self._fit_seconds, doubts, history)

    def _labelled(self, sentences: Iterable[int]) -> tuple[list[Any], list[list[Label]]]:
        """Return the sentences to learn from: those with a label, or with all labels."""
        takes_open = self._template.takes_open_labels
        X: list[Any] = []
        y: list[list[Label]] = []
        for i in sentences:
            labels = self._edited.labels[i]
            known = [isinstance(label, str) for label in labels]
            if (any if takes_open else all)(known) and known:
                X.append(self._edited.corpus[i])
                y.append(list(labels))
        return X, y

    # ---- learning curve --------------------------------------------------------------------

    def observe(self, predicted: list[str], labels: list[Label], weight: float) -> None:
        """Count how many predictions a person left as they were, in a sentence drawn at random."""
        pairs = [(p, y) for p, y in zip(predicted, labels, strict=True) if isinstance(y, str)]
        self._asked += weight * len(pairs)
        self._right += weight * sum(p == y for p, y in pairs)

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
            By doubt with every fifth at random, at random, or in the order of the file.
        skip : int, optional
            A sentence that is shown already.

        Returns
        -------
        list of (int, bool)
            Index of each sentence, and whether it was drawn at random.
        """
        learned = self.learned
        return self._queue.choose(n, kind, skip, None if learned is None else learned.doubts)

    def n_done(self) -> int:
        """Return the number of sentences that the queue shows no more."""
        return self._queue.n_done()

    def weight_of(self, sentence: int, kind: str) -> float:
        """Return what a sentence that the queue drew at random counts for `observe`."""
        return self._queue.weight_of(sentence, kind)


def _options_of(tagger: Tagger) -> set[str]:
    import inspect

    return set(inspect.signature(tagger.fit).parameters)
