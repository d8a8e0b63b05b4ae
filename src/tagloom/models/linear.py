"""Linear taggers: templates, weights and a trellis; how the weights are learnt is a choice.

`CRF` and `StructuredPerceptron` are thin names for cells of one grid (loss × optimiser): they share
everything in this file, from reading the training data to the model file.
"""

from __future__ import annotations

import copy
import os
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks, evaluation, features, training
from tagloom.errors import LabelError, ParameterError
from tagloom.features import Encoded, FeatureExtractor, Templates
from tagloom.models import constraints
from tagloom.models.constraints import Constraints
from tagloom.models.data import (
    Gold,
    LabelRows,
    as_sentences,
    as_weights,
    check_not_empty,
    digest,
    gold_labels,
    number_labels,
    place_of,
    read_labels,
)
from tagloom.models.fitted import Fitted, Learned
from tagloom.models.taggers import Tagger
from tagloom.scores import Decoder, LinearScores, Names, Rows, Scored
from tagloom.scores.parts import Parts
from tagloom.storage import File
from tagloom.training.progress import Bar, is_wanted
from tagloom.trellis import StateSpace, Trellis
from tagloom.trellis.inputs import check_count
from tagloom.trellis.machine import ALL_THREADS

if TYPE_CHECKING:
    from tagloom.models.compaction import Compaction
    from tagloom.models.layouts import Layout
    from tagloom.training import Listener, Optimiser, Outcome, Record

Float64 = npt.NDArray[np.float64]

#: Runs an optimiser to its end: given the title of the progress bar and a suffix for checkpoints.
Run: TypeAlias = "Callable[[Optimiser, str, str], Outcome]"
#: From weights to the score on development data.
Score: TypeAlias = "Callable[[Float64], float]"

# With all combinations of attributes and labels beyond this many, learning takes gigabytes.
_MANY_WEIGHTS = 1 << 25

# A space of order k with more moves than this is pruned to what was seen unless asked otherwise.
_MANY_MOVES = 100_000


@dataclass
class TrainingData:
    """A labelled corpus as arrays, and what the arrays mean.

    Attributes
    ----------
    names : list of str
        The Y labels.
    extractor : FeatureExtractor
    index, edge_index : Index
        The number of each attribute.
    encoded : Encoded
    gold : Gold
    weight : ndarray of float64, shape (N,), or None
    states : StateSpace or None
        The states that have weights; None: the labels.
    constraints : Constraints
        What is forbidden when decoding.
    allowed : ndarray of int32, shape (T,), or None
        For learning under constraints, the set of ``sets`` whose labels each token may have.
    sets : ndarray of bool, shape (n, Y)
        Those of ``gold``, then those of ``allowed``.
    """

    names: list[str]
    extractor: FeatureExtractor
    index: _native.Index
    edge_index: _native.Index
    encoded: Encoded
    gold: Gold
    weight: Float64 | None
    states: StateSpace | None
    constraints: Constraints
    allowed: npt.NDArray[np.int32] | None
    sets: npt.NDArray[np.bool_]

    @cached_property
    def attributes(self) -> Names:
        """The names of the attributes."""
        return Names(*self.index.names())

    @cached_property
    def edge_attributes(self) -> Names:
        """The names of the edge attributes."""
        return Names(*self.edge_index.names())

    @cached_property
    def digest(self) -> str:
        """Fingerprint of everything that the learnt weights depend on."""
        arrays = (*self.encoded, self.gold.numbers, self.sets, self.allowed, self.weight)
        return digest(self.names, *arrays, self.index.keys(), self.edge_index.keys())

    def forget_attributes(self) -> None:
        """Give up the attributes of tokens, of which a problem has its own copy."""
        _ = self.digest  # of what was there
        none = np.empty(0, dtype=np.int32)
        self.encoded = Encoded(self.encoded.offsets, none.astype(np.int64), none, None)


@dataclass
class Known:
    """What a tagger has learnt so far, where learning goes on from.

    Attributes
    ----------
    index, edge_index : Index
        They grow with what is learnt next.
    layout : Layout
    theta : ndarray
        The weights.
    state : dict or None
        What the optimiser remembers besides.
    """

    index: _native.Index
    edge_index: _native.Index
    layout: Layout
    theta: Float64
    state: dict[str, npt.NDArray[Any]] | None


class LinearTagger(Tagger):
    """A tagger that scores labels by weighted features and moves by transition weights.

    Subclasses say which optimiser learns the weights; see `CRF` and `StructuredPerceptron` for the
    parameters that they share.
    """

    features: Any
    labels: Sequence[str] | None
    constraints: Any
    constrain_training: bool = False
    order: int = 1
    states: Any = "auto"
    min_count: int
    min_weight: float | None
    combinations: str
    boundaries: bool
    max_iterations: int | None
    patience: int | None
    n_threads: int | None
    warm_start: bool

    scores_ = Learned[LinearScores]()
    constraints_ = Learned[Constraints]()
    history_ = Learned["list[Record]"](record=True)
    training_ = Learned["dict[str, Any]"](record=True)
    compaction_ = Learned["Compaction"]()

    _fitted: LinearFitted

    # ---- what a cell of the grid decides ---------------------------------------------------

    @abstractmethod
    def _optimiser(self, problem: _native.Problem, theta: Float64 | None) -> Optimiser:
        """Make the optimiser that learns the weights, from given ones or from zero."""

    @property
    @abstractmethod
    def is_online(self) -> bool:
        """Whether it learns sentence by sentence."""

    @abstractmethod
    def _limits(self) -> tuple[int, int]:
        """Return the default max_iterations and patience of the optimiser in use."""

    def _least_weight(self) -> float:
        """Return the default of min_weight."""
        return 0.0

    @property
    def takes_open_labels(self) -> bool:
        """Whether training labels may be None, unknown, or sets, one of several."""
        return True

    # ---- learning --------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        dev: Any = None,
        sample_weight: Any = None,
        callback: Listener | None = None,
        progress: bool | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> LinearTagger:
        """Learn the weights from labelled sentences.

        Ctrl-C ends training after the running iteration and keeps the best weights so far; a
        second Ctrl-C raises.

        Parameters
        ----------
        X : Corpus, or sequence of sentences
        y : sequence of list of str, None or set, optional
            The labels; a `Corpus` brings its own. None is an unknown label, a set one of several:
            what is learnt then is that one of the labellings they leave is right.
        dev : Corpus, or (X, y), optional
            Development data: scored after each iteration (span F1 if the labels are spans, token
            accuracy otherwise); the best weights are kept, and training stops when the score has
            not risen for ``patience`` iterations.
        sample_weight : sequence of float, optional
            How much each sentence counts.
        callback : callable, optional
            Called with a `Record` after each iteration.
        progress : bool, optional
            Whether to show a progress bar on stderr; by default if that is a terminal.
        checkpoint : path, optional
            A file that the run is saved to every half a minute and when it ends. If it is there
            already, training resumes from it, to the same numbers.

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
        checkpoint = None if checkpoint is None else checks.path(checkpoint, "checkpoint")
        known = self._known() if self.warm_start and self.is_fitted else None
        data = self._read(X, y, sample_weight, known)
        layout, outcome = self._train(data, known, dev, callback, progress, checkpoint)
        record = self._record(data, outcome, time.perf_counter() - began)
        self._fitted = self._finish(data, layout, outcome, record)
        if outcome.stopped == "interrupted":
            warnings.warn(
                f"Interrupted: the weights of iteration {outcome.best} are kept.", stacklevel=2
            )
        return self

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> LinearTagger:
        """Learn from more sentences, once through; for learners that go sentence by sentence.

        New words, labels and features are taken in; everything learnt before stays.

        Parameters
        ----------
        X : Corpus, or sequence of sentences
        y : sequence of list of str, optional
        sample_weight : sequence of float, optional

        Returns
        -------
        self

        Raises
        ------
        ParameterError
            If the learner needs all sentences at once.
        """
        self._check_parameters()
        if not self.is_online:
            raise ParameterError(
                f"{self!r} learns from all sentences at once. For partial_fit choose "
                "algorithm='adagrad' or 'sgd'; to go on from present weights, warm_start=True."
            )
        known = self._known() if self.is_fitted else None
        data = self._read(X, y, sample_weight, known)
        problem = self._problem(data, known)
        layout = self._layout(data, problem)
        optimiser = self._optimiser(problem, None)
        if known is not None:
            optimiser = self._optimiser(problem, known.layout.carry(known.theta, layout))
            if known.state is not None:
                optimiser.restore(_carry_state(known.state, known.layout, optimiser, layout))
        outcome = training.run(optimiser, max_iterations=1)
        record = self._record(data, outcome, outcome.records[-1].seconds)
        self._fitted = replace(
            self._finish(data, layout, outcome, record),
            history=[*getattr(self, "history_", []), *outcome.records],
            online=Known(data.index, data.edge_index, layout, outcome.theta, optimiser.state()),
        )
        return self

    def _known(self) -> Known:
        """What was learnt so far, ready to grow."""
        from tagloom.models.layouts import Layout, join

        if self._fitted.online is not None:
            return self._fitted.online
        scores = self.scores_
        index = _growing(scores.index, scores.names)
        edge_index = _native.Index()
        if scores.edge_index is not None and scores.edge_names is not None:
            edge_index = _growing(scores.edge_index, scores.edge_names)
        return Known(index, edge_index, Layout.of_scores(scores), join(scores), None)

    def _train(
        self,
        data: TrainingData,
        known: Known | None,
        dev: Any,
        callback: Listener | None,
        progress: bool | None,
        checkpoint: str | os.PathLike[str] | None,
    ) -> tuple[Layout, Outcome]:
        """Learn the weights; all memory that only learning needs is free again afterwards."""
        problem = self._problem(data, known)
        data.forget_attributes()
        layout = self._layout(data, problem)
        start = None if known is None else known.layout.carry(known.theta, layout)
        score = None if dev is None else self._dev_score(dev, data, layout)

        def run_(optimiser: Optimiser, title: str, suffix: str) -> Outcome:
            file = None if checkpoint is None else os.fspath(checkpoint) + suffix
            return self._run(optimiser, title, data, score, callback, progress, file)

        return layout, self._learn(problem, start, run_)

    def _learn(self, problem: _native.Problem, theta: Float64 | None, run: Run) -> Outcome:
        """Learn the weights; a learner that needs several passes has its own way."""
        return run(self._optimiser(problem, theta), type(self).__name__, "")

    def _run(
        self,
        optimiser: Optimiser,
        title: str,
        data: TrainingData,
        dev: Score | None,
        callback: Listener | None,
        progress: bool | None,
        checkpoint: str | None,
    ) -> Outcome:
        iterations, patience = self._limits()
        if self.max_iterations is not None:
            iterations = self.max_iterations
        if self.patience is not None:
            patience = self.patience
        listeners: tuple[Listener, ...] = () if callback is None else (callback,)
        saved = None
        if checkpoint is not None:
            saved = training.Checkpoint(checkpoint, self._identity(data))
        with ExitStack() as stack:
            if is_wanted(progress):
                listeners = (*listeners, stack.enter_context(Bar(title, iterations)))
            return training.run(
                optimiser,
                max_iterations=iterations,
                dev=dev,
                patience=patience,
                listeners=listeners,
                checkpoint=saved,
            )

    def _identity(self, data: TrainingData) -> dict[str, Any]:
        """What a checkpoint must agree with to be resumed: not how long or how wide it runs."""
        free = {"max_iterations", "patience", "n_threads", "features", "labels", "warm_start"}
        params = {k: v for k, v in self.get_params().items() if k not in free}
        params |= {k: repr(params[k]) for k in ("constraints", "states") if k in params}
        return {"model": type(self).__name__, "data": data.digest, **params}

    def _check_parameters(self) -> None:
        check_choice("combinations", self.combinations, ("auto", "seen", "all"))
        check_at_least("min_count", self.min_count, 1, whole=True)
        if self.min_weight is not None:
            check_at_least("min_weight", self.min_weight, 0)
        for name in ("max_iterations", "patience", "n_threads"):
            if getattr(self, name) is not None:
                check_at_least(name, getattr(self, name), 1, whole=True)
        constraints.check(self.constraints)
        check_at_least("order", self.order, 1, whole=True)
        if not isinstance(self.states, StateSpace):
            if not isinstance(self.states, str) or self.states not in ("auto", "seen", "all"):
                raise ParameterError(
                    f"states must be 'auto', 'seen', 'all' or a StateSpace; got {self.states!r}."
                )
        elif self.order != 1:
            raise ParameterError(
                f"order={self.order} and a state space say the same thing twice; leave order out, "
                "or combine them: StateSpace.order(labels, k) & space."
            )

    def _read(self, X: Any, y: Any, sample_weight: Any, known: Known | None) -> TrainingData:
        """Turn labelled sentences into arrays."""
        sentences = as_sentences(X)
        path = getattr(X, "path", None)
        check_not_empty(sentences, path)
        read = read_labels(sentences, X, y, may_be_open=self.takes_open_labels)
        gold, rows = number_labels(read, self._label_names(read, known)), read.rows
        names = gold.names
        spec = _default_features(self.features, sentences, names)
        extractor = self.scores_.extractor if known is not None else features.make(spec)
        index = _native.Index() if known is None else known.index
        edge_index = _native.Index() if known is None else known.edge_index
        n_known, n_known_edges = index.size, edge_index.size
        options: dict[str, Any] = {}
        if isinstance(extractor, Templates):  # others ask Python about every token
            options["n_threads"] = self.n_threads or ALL_THREADS
        encoded = extractor.encode(sentences, index, edge_index, grow=True, **options)
        if self.min_count > 1:  # what is known already stays
            index = _without_rare(index, self.min_count, n_known)
            edge_index = _without_rare(edge_index, self.min_count, n_known_edges)
            encoded = extractor.encode(sentences, index, edge_index, **options)
        weight = None if sample_weight is None else as_weights(sample_weight, len(sentences))
        scheme = constraints.choose_scheme(
            self.constraints, gold, rows, encoded.offsets, stacklevel=3
        )
        found = constraints.resolve(self.constraints, scheme, gold, sentences, rows)
        states = self._find_states(gold, encoded.offsets)
        sets, allowed = gold.sets, None
        if self.constrain_training:
            sets, allowed = _training_sets(found, gold, sentences)
            forbidden = found.everything
            if forbidden is not None:
                states = forbidden if states is None else states & forbidden
            _check_paths(gold, sets, allowed, states, encoded.offsets, path)
        return TrainingData(
            names,
            extractor,
            index,
            edge_index,
            encoded,
            gold,
            weight,
            states,
            found,
            allowed,
            sets,
        )

    def _label_names(self, read: LabelRows, known: Known | None) -> Sequence[str] | None:
        """Which labels there are: those asked for, or those known together with those seen."""
        if self.labels is not None or known is None:
            return self.labels
        return sorted({*known.layout.labels, *number_labels(read, None).names})

    def _find_states(self, gold: Gold, offsets: npt.NDArray[np.int64]) -> StateSpace | None:
        """Choose the states whose moves have weights; None: the labels themselves."""
        names = tuple(gold.names)
        if isinstance(self.states, StateSpace):
            return constraints.over(self.states, names, "states")
        if self.order == 1:
            return None
        which = self.states
        if which == "auto":
            which = "all" if len(names) ** (self.order + 1) <= _MANY_MOVES else "seen"
        seen = _known_runs(gold, offsets) if which == "seen" else None
        return StateSpace.order(names, self.order, seen)

    def _problem(self, data: TrainingData, known: Known | None) -> _native.Problem:
        encoded = data.encoded
        known_nodes, known_edges = (None, None) if known is None else known.layout.known(data.names)
        nodes = _native.Attributes(
            encoded.indptr, encoded.ids, data.index.size, encoded.values, known_nodes
        )
        edges = None
        if encoded.edge_indptr is not None and encoded.edge_ids is not None:
            edges = _native.Attributes(
                encoded.edge_indptr,
                encoded.edge_ids,
                data.edge_index.size,
                encoded.edge_values,
                known_edges,
            )
        sets = data.sets.view(np.uint8)
        problem = _native.Problem(
            encoded.offsets,
            nodes,
            _native.Labels(data.gold.numbers, len(data.names), sets, data.allowed),
            edges=edges,
            weight=data.weight,
            all_combinations=self._takes_all(data.index.size * len(data.names)),
            boundaries=self.boundaries,
            space=None if data.states is None else data.states.native,
            threads=self.n_threads or ALL_THREADS,
        )
        layout = self._layout(data, problem)
        free = problem.mask()
        if known is not None:  # moves that were seen before may not occur now
            free |= known.layout.carry(known.theta != 0, layout)
        if not data.extractor.transitions:
            free[layout.moves_at :] = False
        problem.set_mask(free)
        return problem

    def _layout(self, data: TrainingData, problem: _native.Problem) -> Layout:
        """Say where each weight stands in the vector that the optimiser moves."""
        from tagloom.models.layouts import Layout

        return Layout.of_problem(tuple(data.names), problem, data.states)

    def _takes_all(self, n_weights: int) -> bool:
        """Whether attributes get weights for all labels, which would make so many."""
        if self.combinations == "auto":
            return self.is_online and n_weights <= _MANY_WEIGHTS
        return self.combinations == "all"

    def _dev_score(self, dev: Any, data: TrainingData, layout: Layout) -> Score:
        """Return the function from weights to the score on the development data."""
        X, y = dev if isinstance(dev, tuple) else (dev, None)
        sentences = as_sentences(X)
        rows = gold_labels(sentences, X, y)
        if not any(rows):
            raise LabelError("dev has no tokens; leave it out, or pass labelled sentences.")
        encoded = data.extractor.encode(sentences, data.index, data.edge_index)
        place = {label: i for i, label in enumerate(data.names)}
        gold = np.array([place.get(label, -1) for row in rows for label in row], dtype=np.int32)
        threads = self.n_threads or ALL_THREADS

        def score(theta: Float64) -> float:
            scores = _scores(theta, data, layout, compact=False)
            scored = self._normalised(scores, scores.score_encoded(encoded, threads))
            trellis = _moves(scores, data.constraints).with_scores(
                scored.emit, edge=scored.edge, offsets=scored.offsets
            )
            path = data.constraints.restrict(trellis, sentences).viterbi().path
            scheme = data.constraints.scheme
            if scheme is None:
                return float(np.mean(path == gold))
            predicted = _native.label_lists(path, encoded.offsets, data.names)
            return evaluation.evaluate(rows, predicted, scheme=scheme, spans=True, n_bootstrap=0).f1

        return score

    def _finish(
        self, data: TrainingData, layout: Layout, outcome: Outcome, record: dict[str, Any]
    ) -> LinearFitted:
        """Make the state of the fitted model."""
        scores = _scores(outcome.theta, data, layout, compact=True)
        least = self._least_weight() if self.min_weight is None else self.min_weight
        return self._make_state(
            scores.keep(np.abs(scores.rows.weights) >= least) if least else scores,
            data.constraints,
            history=outcome.records,
            training=record,
        )

    def _record(self, data: TrainingData, outcome: Outcome, seconds: float) -> dict[str, Any]:
        """What the model file says about where the weights come from."""
        best = outcome.records[outcome.best - 1] if outcome.best else None
        return {
            "sentences": len(data.encoded.offsets) - 1,
            "tokens": len(data.gold.numbers),
            "digest": data.digest,
            "iterations": len(outcome.records),
            "best_iteration": outcome.best,
            "stopped": outcome.stopped,
            "loss": best and best.loss,
            "dev": best and best.dev,
            "seconds": round(seconds, 3),
        }

    # ---- predicting ------------------------------------------------------------------------

    def score_sentences(self, sentences: Sequence[Any], n_threads: int | None) -> Trellis:
        """Score sentences; see `Tagger.score_sentences`."""
        fitted, threads = self._fitted, n_threads or self.n_threads
        scored = fitted.scores.score(sentences, threads or ALL_THREADS)
        scored = self._normalised(fitted.scores, scored)
        batch = fitted.transitions.with_scores(
            scored.emit, edge=scored.edge, offsets=scored.offsets
        )
        batch.n_threads = threads
        return fitted.constraints.restrict(batch, sentences)

    def _decoder(self) -> Decoder | None:
        return self._fitted.decoder

    def _normalised(self, scores: LinearScores, scored: Scored) -> Scored:
        """Change the scores of a batch before they go into a trellis; here they stay."""
        return scored

    @property
    def scheme_(self) -> str | None:
        """The scheme that constrains predictions."""
        return self.constraints_.scheme

    @property
    def reads_only_tokens(self) -> bool:
        """Whether it is known to look at nothing of a sentence but its tokens."""
        extractor = self.scores_.extractor
        return isinstance(extractor, Templates) and extractor.reads_only_tokens

    @classmethod
    def _make_state(
        cls, scores: LinearScores, constraints: Constraints, **records: Any
    ) -> LinearFitted:
        """Make the state of a fitted model."""
        return LinearFitted(
            labels=Fitted.label_array(scores.labels),
            scores=scores,
            constraints=constraints,
            **records,
        )

    @classmethod
    def from_scores(
        cls,
        scores: LinearScores,
        constraints: Constraints | None = None,
        *,
        training: dict[str, Any] | None = None,
        **params: Any,
    ) -> Self:
        """Make a tagger from scores that were found another way.

        Parameters
        ----------
        scores : LinearScores
        constraints : Constraints, optional
        training : dict, optional
            The training record.
        **params
            Parameters of the constructor.
        """
        tagger = cls(**params)
        if constraints is None:
            constraints = Constraints(scores.labels)
        tagger._fitted = cls._make_state(scores, constraints, training=dict(training or {}))
        return tagger

    def score_parts(self, sentence: Any, trellis: Trellis) -> Parts:
        """Name the terms of the scores, for `explain`."""
        return self.scores_.parts(sentence)

    def _scores_per_token(self) -> int:
        Y, states = len(self.labels_), self._fitted.transitions.states
        if states.kind == "labels":
            return Y if self.scores_.edge_rows is None else Y * Y
        return max(states.n_states, 1)

    # ---- looking inside --------------------------------------------------------------------

    @property
    def transitions_(self) -> Float64:
        """The weights of moves y_prev → y [Y, Y], in the order of ``labels_``."""
        self._check_fitted("transitions_")
        return self.scores_.trans

    @property
    def transition_features_(self) -> dict[tuple[str, str], float]:
        """The weights of moves by name: (from, to) → weight, without those that are zero."""
        names = self._label_list
        from_, to = np.nonzero(self.transitions_)
        weights = self.scores_.trans[from_, to].tolist()
        return {(names[i], names[j]): w for i, j, w in zip(from_, to, weights, strict=True)}

    @property
    def state_features_(self) -> dict[tuple[str, str], float]:
        """The weights of features by name: (attribute, label) → weight."""
        return {(w.attribute, w.label): w.weight for w in self.feature_weights()}

    def feature_weights(
        self, pattern: str | None = None, *, label: str | None = None, n: int | None = None
    ) -> list[FeatureWeight]:
        """List weights of features, the strongest first.

        Parameters
        ----------
        pattern : str, optional
            A shell pattern that the attribute must match, such as ``"suffix*"``.
        label : str, optional
            Only weights of this label; then the largest come first, the most negative last.
        n : int, optional
            At most so many.

        Returns
        -------
        list of FeatureWeight
            ``attribute``, ``label``, ``weight``; edge features have a label ``from → to``.
        """
        self._check_fitted("feature_weights")
        found = self._node_weights(pattern, label)
        if self.scores_.edge_rows is not None and label is None:
            found += self._edge_weights(pattern)
        if label is None:
            found.sort(key=lambda w: (-abs(w.weight), w.attribute, w.label))
        else:
            found.sort(key=lambda w: (-w.weight, w.attribute))
        return found[:n]

    def _node_weights(self, pattern: str | None, label: str | None) -> list[FeatureWeight]:
        scores, names = self.scores_, self._label_list
        if label is not None and label not in names:
            raise LabelError(f"no label {label!r}. There are: {', '.join(names)}.")
        chosen = np.ones(len(scores.rows.cols), dtype=bool)
        if label is not None:
            chosen &= scores.rows.cols == names.index(label)
        return [
            FeatureWeight(attribute, names[col], weight)
            for attribute, col, weight in scores.named(scores.rows, scores.names, chosen, pattern)
        ]

    def _edge_weights(self, pattern: str | None) -> list[FeatureWeight]:
        scores, names = self.scores_, self._label_list
        assert scores.edge_rows is not None
        assert scores.edge_names is not None
        everything = np.ones(len(scores.edge_rows.cols), dtype=bool)
        return [
            FeatureWeight(attribute, f"{names[col // len(names)]} → {names[col % len(names)]}", w)
            for attribute, col, w in scores.named(
                scores.edge_rows, scores.edge_names, everything, pattern
            )
        ]

    # ---- smaller ---------------------------------------------------------------------------

    def compact(
        self, *, max_bytes: int | None = None, min_accuracy: float | None = None, dev: Any = None
    ) -> LinearTagger:
        """Make a smaller copy: weak weights are dropped, the others stored in half the bytes.

        Parameters
        ----------
        max_bytes : int, optional
            Keep as many weights as fit into so many bytes.
        min_accuracy : float, optional
            Keep as few weights as reach this token accuracy on ``dev``.
        dev : Corpus, or (X, y), optional
            What to measure accuracy on.

        Returns
        -------
        LinearTagger
            A new tagger; its ``compaction_`` says what was saved and what it cost. It is not
            calibrated, even if this one is: call `calibrate` afterwards.

        Raises
        ------
        ParameterError
            If neither limit is given, or the limits cannot be met.
        """
        from tagloom.models import compaction

        self._check_fitted("compact")
        if max_bytes is None and min_accuracy is None:
            raise ParameterError("compact needs max_bytes= or min_accuracy=.")
        if min_accuracy is not None and dev is None:
            raise ParameterError("min_accuracy= needs dev=, the data to measure it on.")
        new, measure = copy.copy(self), None
        if dev is not None:
            X, y = dev if isinstance(dev, tuple) else (dev, None)

            def measure(scores: LinearScores) -> float:
                new._fitted = replace(self._fitted, scores=scores)
                return new.score(X, y)

        scores, report = compaction.compact(self.scores_, measure, max_bytes, min_accuracy)
        new._fitted = replace(
            self._fitted,
            scores=scores,
            training={**self.training_, "compaction": report._asdict()},
            compaction=report,
            temperature=1.0,  # it was fitted to the scores of all weights
            online=None,
        )
        return new

    # ---- files -----------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Return what the tagger is as plain data, ready for JSON.

        Returns
        -------
        dict
            As `Tagger.describe`, with ``features``, the templates if there are any, and the
            numbers of ``attributes`` and ``weights``.
        """
        return super().describe() | {
            "features": self.scores_.extractor.to_dict().get("templates"),
            "attributes": self.scores_.rows.n_attributes,
            "weights": self.scores_.n_weights,
        }

    def _feature_function(self) -> Any:
        extractor = self.scores_.extractor
        return extractor if isinstance(extractor, features.Function) else None

    def to_file(self) -> File:
        """Return what was learnt, as a header of plain data and arrays."""
        params = self.get_params()
        # The templates, constraints and states themselves are stored below.
        for name in ("features", "constraints", "states"):
            if name in params and not _is_plain(params[name]):
                params.pop(name)
        header = {
            "params": params,
            "constraints": self.constraints_.to_dict(),
            "training": self.training_,
            "history": [list(record) for record in self.history_],
        }
        return self.scores_.to_file(self.n_threads or ALL_THREADS) | File(header)

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a tagger from what `to_file` returned, checking everything."""
        scores = LinearScores.from_file(file, features)
        header = file.header
        params = dict(header["params"])
        found = Constraints.from_dict(scores.labels, header["constraints"])
        params.setdefault("features", scores.extractor)
        params.setdefault("constraints", found.spec)
        if "states" in cls._parameters():
            params.setdefault("states", scores.states)
        tagger = cls(**params)
        tagger._check_parameters()
        tagger._fitted = cls._make_state(
            scores,
            found,
            training=dict(header["training"]),
            history=[training.Record(*row) for row in header["history"]],
        )
        return tagger


class FeatureWeight(NamedTuple):
    """The weight of one feature."""

    attribute: str
    label: str
    weight: float


@dataclass(frozen=True, eq=False)
class LinearFitted(Fitted):
    """The state of a fitted linear tagger.

    Attributes
    ----------
    scores : LinearScores
    constraints : Constraints
    training : dict
        The training record.
    history : list of Record
    compaction : Compaction or None
    online : Known or None
        What ``partial_fit`` goes on from.
    """

    scores: LinearScores = field(kw_only=True)
    constraints: Constraints = field(kw_only=True)
    training: dict[str, Any] = field(default_factory=dict, kw_only=True)
    history: list[Record] = field(default_factory=list, kw_only=True)
    compaction: Compaction | None = field(default=None, kw_only=True)
    online: Known | None = field(default=None, kw_only=True)

    @cached_property
    def transitions(self) -> Trellis:
        """A trellis of no tokens, whose transitions all batches share."""
        return _moves(self.scores, self.constraints)

    @cached_property
    def decoder(self) -> Decoder | None:
        """The native decoder; None if only a trellis can answer."""
        if self.constraints.dictionary or self.transitions.states.kind != "labels":
            return None
        return self.scores.decoder(self.transitions.moves)


def _moves(scores: LinearScores, found: Constraints) -> Trellis:
    """Make a trellis of no tokens, whose moves all batches share; forbidden ones get −inf."""
    trans, start, stop, states = found.forbid(
        scores.trans, scores.start, scores.stop, scores.states
    )
    tied = scores.tied if states is not None and states.n_weights else None
    none = np.empty((0, len(scores.labels)), dtype=np.float32)
    return Trellis(none, trans, start, stop, states=states, weights=tied, labels=scores.labels)


def _known_runs(gold: Gold, offsets: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int32]]:
    """Cut the labels of sentences where they are open."""
    cuts = np.unique(np.concatenate([offsets, np.flatnonzero(gold.is_open)]))
    runs = np.split(gold.numbers, cuts)
    return [run[run >= 0] for run in runs if (run >= 0).any()]


def _training_sets(
    found: Constraints, gold: Gold, sentences: Sequence[Any]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int32] | None]:
    """The sets of labels that learning needs; for each token the one whose labels it may have.

    What a token's own label leaves is always allowed.
    """
    words = found.word_sets(sentences)
    if words is None:
        return gold.sets, None
    numbers, sets = words
    Y, T = len(gold.names), len(numbers)
    own = np.concatenate([np.eye(Y, dtype=np.bool_), gold.sets[::-1]])  # −1 − k is set k
    pairs, which = np.unique(
        np.stack([numbers, gold.numbers]), axis=1, return_inverse=True
    )  # [2, n], [T]
    allowed = sets[pairs[0]] | own[pairs[1]]
    found_sets = np.concatenate([gold.sets, allowed])
    return found_sets, (-1 - len(gold.sets) - which.reshape(T)).astype(np.int32)


def _check_paths(
    gold: Gold,
    sets: npt.NDArray[np.bool_],
    allowed: npt.NDArray[np.int32] | None,
    states: StateSpace | None,
    offsets: npt.NDArray[np.int64],
    path: str | None,
) -> None:
    """Raise LabelError for a sentence whose own labels the constraints forbid."""
    if states is None:
        return
    Y = len(gold.names)
    own = np.concatenate([np.eye(Y, dtype=np.bool_), gold.sets[::-1]])
    emit = np.where(own[gold.numbers], 0.0, -np.inf)  # [T, Y]
    dead = ~Trellis(emit, states=states, offsets=offsets).is_feasible()
    if dead.any():
        i = int(np.flatnonzero(dead)[0])
        raise LabelError(
            f"{place_of(path, i)}: the constraints forbid its own labels. Correct them, or leave "
            "constrain_training out: constraints then hold for predictions only."
        )


def _carry_state(
    state: dict[str, npt.NDArray[Any]], old: Layout, optimiser: Optimiser, new: Layout
) -> dict[str, npt.NDArray[Any]]:
    """Lay out what an optimiser remembers of each weight for a new one.

    Weights that are new begin as the new optimiser has them; so do those that were masked before or
    are now, which AdaGrad marks by an infinite sum of squares.
    """
    fresh, carried = optimiser.state(), dict(state)
    for name, array in state.items():
        if len(array) == old.n_weights:
            found = old.carry(array, new, fresh[name])
            is_kept = np.isfinite(found) & np.isfinite(fresh[name])
            carried[name] = np.where(is_kept, found, fresh[name])
    return carried


def _growing(index: _native.Index, names: Names) -> _native.Index:
    """Make a copy of an index that can take in new attributes."""
    return _native.Index.from_keys(index.keys(), (names.blob, names.offsets))


def _without_rare(index: _native.Index, min_count: int, n_known: int) -> _native.Index:
    return index.keep((index.counts() >= min_count) | (np.arange(index.size) < n_known))


def _scores(theta: Float64, data: TrainingData, layout: Layout, *, compact: bool) -> LinearScores:
    """Cut the weight vector into its parts; compact: without weights and attributes that are idle.

    theta = [node rows W][edge rows][trans Y·Y][start Y][stop Y][tied K]
    """
    Y = len(data.names)
    edge_cols = layout.edge_cols
    W, E = len(layout.cols), layout.moves_at
    K = 0 if data.states is None else data.states.n_weights
    weights = theta.astype(np.float32)
    moves = theta[E : E + Y * Y].reshape(Y, Y).copy()
    ends = theta[E + Y * Y :] if layout.boundaries else np.zeros(2 * Y)
    scores = LinearScores(
        labels=tuple(data.names),
        extractor=data.extractor,
        index=data.index,
        rows=Rows(layout.ptr, layout.cols, weights[:W]),
        trans=moves,
        start=ends[:Y].copy(),
        stop=ends[Y : 2 * Y].copy(),
        names=data.attributes,
        edge_index=data.edge_index if len(edge_cols) else None,
        edge_rows=Rows(layout.edge_ptr, edge_cols, weights[W:E]) if len(edge_cols) else None,
        edge_names=data.edge_attributes if len(edge_cols) else None,
        states=data.states,
        tied=theta[len(theta) - K :].copy(),
    )
    return scores.without_zeros() if compact else scores


def _default_features(spec: Any, sentences: Sequence[Any], names: Sequence[str]) -> Any:
    """Choose features where none were asked for: by what a token is, and by the kind of labels."""
    if not (isinstance(spec, str) and spec == "auto"):
        return spec
    first = sentences[0]
    if isinstance(first, np.ndarray) or not isinstance(next(iter(first)), str):
        return None  # dicts, lists or numbers: the tokens are their own features
    return "ner" if constraints.look_like_spans(names) else "pos"


def _is_plain(spec: Any) -> bool:
    return (
        spec is None
        or isinstance(spec, str)
        or (isinstance(spec, list | tuple) and all(isinstance(part, str) for part in spec))
    )


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise ParameterError unless a parameter has one of its values."""
    if value not in choices:
        raise ParameterError(
            f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}."
        )


def check_at_least(name: str, value: Any, least: float, *, whole: bool = False) -> None:
    """Raise ParameterError unless a parameter is a number, or a whole one, that is large enough."""
    kinds = (int, np.integer) if whole else (int, float, np.number)
    if isinstance(value, bool) or not isinstance(value, kinds) or not value >= least:
        what = "a whole number" if whole else "a number"
        raise ParameterError(f"{name} must be {what} of at least {least}; got {value!r}.")
    if whole:
        check_count(value, name, 0, ParameterError)


def check_above_0(name: str, value: Any) -> None:
    """Raise ParameterError unless a parameter is a number above 0."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (is_number and value > 0):
        raise ParameterError(f"{name} must be above 0; got {value!r}.")
