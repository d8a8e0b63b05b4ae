"""Linear taggers: feature and transition weights, summed in a trellis.

`CRF`, `StructuredPerceptron` and the others choose a loss and a learner. They share everything in
this file, from the layout of the weights to the model file. `reading` reads the training data;
`IterativeModel` runs the training loop.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tagloom import _native, evaluation, features, training
from tagloom.errors import ParameterError
from tagloom.features import Templates
from tagloom.models.capabilities import Capability
from tagloom.models.constraints import Constraints
from tagloom.models.data import label_number, read_dev, seen_transitions
from tagloom.models.fitted import Fitted, Learned
from tagloom.models.iterative import IterativeModel, training_record
from tagloom.models.shared import ConstraintParameters, LabelParameters
from tagloom.models.taggers import Tagger
from tagloom.parameters import attribute, choice, count, flag, number, parameter
from tagloom.scores import Decoder, LinearScores, Scored
from tagloom.scores.parts import Parts
from tagloom.storage import File
from tagloom.trellis import StateSpace, Trellis
from tagloom.trellis.machine import ALL_THREADS

if TYPE_CHECKING:
    from tagloom.models.compaction import Compaction
    from tagloom.models.layouts import Layout
    from tagloom.models.reading import TrainingData, WarmStart
    from tagloom.training import Optimiser, Outcome, Record

Float64 = npt.NDArray[np.float64]

# Most weights for which all combinations of attributes and labels are kept; more take gigabytes.
_MANY_WEIGHTS = 1 << 25


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
    online : WarmStart or None
        Where ``partial_fit`` continues.
    """

    scores: LinearScores = field(kw_only=True)
    constraints: Constraints = field(kw_only=True)
    training: dict[str, Any] = field(default_factory=dict, kw_only=True)
    history: list[Record] = field(default_factory=list, kw_only=True)
    compaction: Compaction | None = field(default=None, kw_only=True)
    online: WarmStart | None = field(default=None, kw_only=True)

    @cached_property
    def transitions(self) -> Trellis:
        """A trellis without tokens, whose transitions all batches share."""
        return _shared_transitions(self.scores, self.constraints)

    @cached_property
    def normaliser(self) -> _native.LocalNormaliser | None:
        """The native object that turns scores into log probabilities; None if not local."""
        return None

    @cached_property
    def decoder(self) -> Decoder | None:
        """The native decoder of ordinary sentences; None if a trellis is required."""
        transitions = self.transitions.dense_transitions
        if self.constraints.dictionary or transitions is None:
            return None
        return self.scores.decoder(transitions, self.normaliser)


class LinearTagger(
    ConstraintParameters, LabelParameters, IterativeModel["TrainingData", Float64], Tagger
):
    """A tagger that scores labels by feature weights and transitions by transition weights.

    Subclasses choose the learner, such as `CRF` and `StructuredPerceptron`.
    """

    capabilities = IterativeModel.capabilities | {
        Capability.FEATURES,
        Capability.OPEN_LABELS,
        Capability.WEIGHTS,
    }

    other_names: ClassVar[Mapping[str, str]] = {
        "c1": "l1",
        "c2": "l2",
        "min_freq": "min_count",
        "all_possible_states": 'combinations="all"',
        "all_possible_transitions": 'transitions="all"',
        "epsilon": "tolerance",
        "delta": "tolerance",
        "num_memories": "memory",
        "max_iter": "max_iterations",
        "n_iter": "max_iterations",
    }

    features: Any = parameter(
        default="auto",
        kw_only=False,
        type="str, list of str, extractor, callable or None",
        is_option=False,
        help="The features: a preset, templates, a function, or None.",
        details='The presets are "pos", "chunk", "ner" and "words". Templates and all other '
        "arguments of `tagloom.features.make` are accepted. None if the tokens are dicts or lists "
        'of features. "auto" chooses a preset by the data.',
    )
    min_count: int = count(
        default=1,
        least=1,
        help="Ignore attributes that occur less often in the training data.",
    )
    min_weight: float | None = number(
        default=None,
        least=0,
        help="Drop feature weights whose absolute value is below this threshold.",
        details="None are dropped by default.",
    )
    combinations: str = choice(
        default="auto",
        choices=("auto", "seen", "all"),
        help="The labels for which an attribute has weights: those it was seen with, or all.",
        details='"auto" is "seen" for lbfgs. For other learners it is "all", unless that exceeds '
        "33 million weights.",
    )
    transitions: str = choice(
        default="auto",
        choices=("auto", "seen", "all"),
        help="The label pairs that have a weight: those that were seen, or all.",
        details='"auto" follows ``combinations``. The first and last labels of sentences follow '
        "it, too.",
    )
    boundaries: bool = flag(
        default=True, help="Whether the first and the last label of a sentence have weights."
    )
    order: int = count(
        default=1,
        least=1,
        help="Number of preceding labels that each label depends on.",
        details="Label n-grams up to length ``order + 1`` get a weight.",
    )
    states: Any = choice(
        default="auto",
        choices=("auto", "seen", "all"),
        also=(StateSpace,),
        help="Label histories to distinguish when the order is above 1: seen ones, or all.",
        details='"auto" uses all unless that exceeds 100,000 transitions. A custom `StateSpace` '
        "is also accepted; its tied weights are learnt.",
    )
    constrain_training: bool = flag(
        default=False,
        help="Whether the constraints hold in training, too.",
        details="Forbidden labellings are then left out of Z(x), so no weights are needed to make "
        "them improbable.",
    )
    random_state: int = count(default=0, help="Seed of the order of sentences.")
    warm_start: bool = flag(
        default=False,
        is_option=False,
        help="Whether `fit` continues from the present weights.",
    )

    scores_ = Learned[LinearScores]()
    constraints_ = Learned[Constraints]()
    history_ = Learned["list[Record]"](record=True)
    training_ = Learned["dict[str, Any]"](record=True)
    compaction_ = Learned["Compaction"]()

    decodes_natively = True
    _fitted: LinearFitted = attribute(init=False)
    _state_type: ClassVar[type[LinearFitted]] = LinearFitted

    # ---- what a subclass chooses -----------------------------------------------------------

    @abstractmethod
    def _optimiser(
        self, data: TrainingData, objective: _native.LinearObjective, theta: Float64 | None
    ) -> Optimiser:
        """Make the learner; weights start from ``theta``, or from 0 if it is None."""

    @property
    @abstractmethod
    def is_online(self) -> bool:
        """Whether the learner is online: it updates the weights sentence by sentence."""

    def _least_weight(self) -> float:
        """Return the default of ``min_weight``."""
        return 0.0

    # ---- learning --------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Learn from more sentences in one epoch; for online learners.

        New words, labels and features are added; existing weights are kept.

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
                f"{self!r} learns from all sentences at once.",
                expected="an online learner for partial_fit",
                found=repr(self),
                hint="For partial_fit choose an online learner, such as {algorithm}; to continue "
                "from the present weights, {warm_start}.",
                options={"algorithm": "adagrad", "warm_start": True},
            )
        from tagloom.models.reading import WarmStart

        data = self._read(X, y, sample_weight, self._warm_start() if self.is_fitted else None)
        objective, theta = self._lay_out(data)
        learner = self._optimiser(data, objective, theta)
        start, layout = data.start, data.layout
        assert layout is not None
        if start is not None and start.state is not None:
            learner.restore(_carry_state(start.state, start.layout, learner, layout))
        outcome = training.fit_iteratively(learner, max_iterations=1)
        history = list(self.history_) if self.is_fitted else []
        self.finish(data, outcome, training_record(data, outcome, outcome.records[-1].seconds))
        next_start = WarmStart(
            data.extractor, data.index, data.edge_index, layout, outcome.weights, learner.state()
        )
        self._fitted = replace(
            self._fitted, history=[*history, *outcome.records], online=next_start
        )
        return self

    def _warm_start(self) -> WarmStart:
        """Return the weights and indexes from which training continues."""
        from tagloom.models.reading import WarmStart

        return self._fitted.online or WarmStart.from_scores(self.scores_)

    def read_data(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Turn labelled sentences into arrays."""
        start = self._warm_start() if self.warm_start and self.is_fitted else None
        return self._read(X, y, sample_weight, start)

    def _read(self, X: Any, y: Any, sample_weight: Any, start: WarmStart | None) -> TrainingData:
        from tagloom.models.reading import read

        return read(self, X, y, sample_weight, start)

    def make_learner(self, data: TrainingData) -> Optimiser:
        """Make the objective and its learner."""
        return self._optimiser(data, *self._lay_out(data))

    def _lay_out(self, data: TrainingData) -> tuple[_native.LinearObjective, Float64 | None]:
        """Make the objective; return it with the initial weights, None for zero.

        Only the objective keeps the attributes of tokens, so training frees their memory.
        """
        objective, data.layout = self._make_objective(data)
        data.drop_attributes()
        start = data.start
        return objective, None if start is None else start.layout.carry(start.theta, data.layout)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.states, StateSpace) and self.order != 1:
            raise ParameterError(
                parameter="order",
                expected="left out where states is a StateSpace",
                found=f"{self.order}",
                hint="To combine them: StateSpace.order(labels, k) & space.",
            )

    def _make_objective(self, data: TrainingData) -> tuple[_native.LinearObjective, Layout]:
        """Make the native objective and the layout of its weights."""
        from tagloom.models.layouts import Layout

        encoded, start = data.encoded, data.start
        extra_nodes, extra_edges = (None, None) if start is None else start.layout.pairs(data.names)
        nodes = _native.Attributes(
            encoded.indptr, encoded.ids, data.index.size, encoded.values, extra_nodes
        )
        edges = None
        if encoded.edge_indptr is not None and encoded.edge_ids is not None:
            edges = _native.Attributes(
                encoded.edge_indptr,
                encoded.edge_ids,
                data.edge_index.size,
                encoded.edge_values,
                extra_edges,
            )
        sets = data.sets.view(np.uint8)
        objective = _native.LinearObjective(
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
        layout = Layout.of_objective(tuple(data.names), objective, data.states)
        free = objective.mask()
        if start is not None:  # transitions that were seen before may not occur now
            free |= start.layout.carry(start.theta != 0, layout)
        if self.transitions != "auto":
            _choose_transitions(free[layout.transitions_at :], data, self)
        if not data.extractor.transitions:
            free[layout.transitions_at :] = False
        objective.set_mask(free)
        return objective, layout

    def _takes_all(self, n_weights: int) -> bool:
        """Whether attributes get weights for all labels, ``n_weights`` of them."""
        if self.combinations == "auto":
            return self.is_online and n_weights <= _MANY_WEIGHTS
        return self.combinations == "all"

    def score_dev(self, dev: Any, data: TrainingData) -> Callable[[Float64], float]:
        """Return the function from weights to the score on the development data.

        Span F1 if the labels are spans, otherwise token accuracy.
        """
        from tagloom.models.layouts import cut

        sentences, gold = read_dev(dev)
        encoded = data.extractor.encode(sentences, data.index, data.edge_index)
        number = {label: y for y, label in enumerate(data.names)}
        gold_path = np.array([number.get(label, -1) for path in gold for label in path], np.int32)
        threads = self.n_threads or ALL_THREADS

        def score(theta: Float64) -> float:
            scores = cut(theta, data)
            scored = self._normalised(scores, scores.score_encoded(encoded, threads))
            trellis = _shared_transitions(scores, data.constraints).with_scores(
                scored.emit, edge=scored.edge, offsets=scored.offsets
            )
            path = data.constraints.restrict(trellis, sentences).viterbi().path
            scheme = data.constraints.scheme
            if scheme is None:
                return float(np.mean(path == gold_path))
            predicted = _native.label_lists(path, encoded.offsets, data.names)
            return evaluation.evaluate(gold, predicted, scheme=scheme, spans=True, n_bootstrap=0).f1

        return score

    def finish(self, data: TrainingData, outcome: Outcome[Float64], record: dict[str, Any]) -> None:
        """Set the fitted state from the learned weights."""
        from tagloom.models.layouts import cut

        scores = cut(outcome.weights, data).without_zeros()
        least = self._least_weight() if self.min_weight is None else self.min_weight
        self._fitted = self._make_state(
            scores.keep(np.abs(scores.rows.weights) >= least) if least else scores,
            data.constraints,
            history=outcome.records,
            training=record,
            **self._extra_state(data),
        )

    def _extra_state(self, data: TrainingData) -> dict[str, Any]:
        """Fields of the fitted state that only some models have."""
        return {}

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

    def _normalised(self, scores: LinearScores, scored: Scored) -> Scored:
        """Normalise the scores of a batch, in local models; by default return them unchanged."""
        return scored

    @property
    def scheme_(self) -> str | None:
        """The scheme that constrains predictions."""
        return self.constraints_.scheme

    @property
    def reads_only_tokens(self) -> bool:
        """Whether the features are known to depend on the tokens alone."""
        extractor = self.scores_.extractor
        return isinstance(extractor, Templates) and extractor.reads_only_tokens

    @classmethod
    def _make_state(
        cls, scores: LinearScores, constraints: Constraints, **records: Any
    ) -> LinearFitted:
        """Make the state of a fitted model."""
        return cls._state_type(
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
        """Make a tagger from given scores.

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
        """The weights of transitions y_prev → y [Y, Y], in the order of ``labels_``."""
        self._check_fitted("transitions_")
        return self.scores_.trans

    @property
    def transition_features_(self) -> dict[tuple[str, str], float]:
        """The weights of transitions by name: (from, to) → weight, without zeros."""
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
            Maximum number.

        Returns
        -------
        list of FeatureWeight
            ``attribute``, ``label``, ``weight``; edge features have a label ``from → to``.
        """
        self._check_fitted("feature_weights")
        weights = self._node_weights(pattern, label, n)
        if self.scores_.edge_rows is not None and label is None:
            weights += self._edge_weights(pattern)
        if label is None:
            weights.sort(key=lambda w: (-abs(w.weight), w.attribute, w.label))
        else:
            weights.sort(key=lambda w: (-w.weight, w.attribute))
        return weights[:n]

    def _node_weights(
        self, pattern: str | None, label: str | None, n: int | None
    ) -> list[FeatureWeight]:
        """List weights of (attribute, label); at least the n strongest of them."""
        scores, names = self.scores_, self._label_list
        y = label_number(label, names)
        chosen = np.ones(len(scores.rows.cols), dtype=bool)
        if y is not None:
            chosen &= scores.rows.cols == y
        if n is not None and n > 0 and pattern is None:  # make names for the strongest only
            strengths = scores.rows.weights if y is not None else np.abs(scores.rows.weights)
            candidates = strengths[chosen & (scores.rows.weights != 0)]
            if len(candidates) > n:
                chosen &= strengths >= np.partition(candidates, -n)[-n]
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
            Keep as many weights as fit into this size.
        min_accuracy : float, optional
            Keep as few weights as reach this token accuracy on ``dev``.
        dev : Corpus, or (X, y), optional
            Labelled sentences on which accuracy is measured.

        Returns
        -------
        LinearTagger
            A new tagger; its ``compaction_`` has sizes and accuracy before and after. It is not
            calibrated, even if this one is: call `calibrate` afterwards.

        Raises
        ------
        ParameterError
            If neither limit is given, or the limits cannot be met.
        """
        from tagloom.models import compaction

        self._check_fitted("compact")
        if max_bytes is None and min_accuracy is None:
            raise ParameterError(
                where="compact", expected="max_bytes or min_accuracy", found="neither"
            )
        if min_accuracy is not None and dev is None:
            raise ParameterError(
                parameter="dev",
                expected="labelled sentences to measure min_accuracy on",
                found="None",
            )
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
        """Describe the tagger as plain data, ready for JSON.

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
        """Return the fitted state as a header of plain data and arrays."""
        params = self.get_params()
        # The resolved templates, constraints and states are stored below.
        for name in ("features", "constraints", "states"):
            if name in params and not _is_plain(params[name]):
                params.pop(name)
        header = {
            "params": params,
            "constraints": self.constraints_.to_dict(),
            "training": self.training_,
            "history": [record.to_row() for record in self.history_],
        }
        return self.scores_.to_file(self.n_threads or ALL_THREADS) | File(header)

    @classmethod
    def from_file(cls, file: File, *, features: Any = None) -> Self:
        """Make a tagger from the result of `to_file`; everything is checked."""
        scores = LinearScores.from_file(file, features)
        header = file.header
        params = dict(header["params"])
        constraints = Constraints.from_dict(scores.labels, header["constraints"])
        params.setdefault("features", scores.extractor)
        params.setdefault("constraints", constraints.spec)
        if "states" in cls.parameter_names():
            params.setdefault("states", scores.states)
        tagger = cls(**params)
        tagger._check_parameters()
        tagger._fitted = cls._make_state(
            scores,
            constraints,
            training=dict(header["training"]),
            history=[training.Record.from_row(row) for row in header["history"]],
        )
        return tagger


def _choose_transitions(
    free: npt.NDArray[np.bool_], data: TrainingData, tagger: LinearTagger
) -> None:
    """Set which weights of transitions [Y·Y], starts [Y] and stops [Y] are learned."""
    Y, n_ends = len(data.names), 2 * len(data.names) * tagger.boundaries
    if tagger.transitions == "all":
        free[: Y * Y + n_ends] = True
        return
    seen = seen_transitions(data.gold, data.encoded.offsets)
    free[: Y * Y + n_ends] &= np.concatenate([part.ravel() for part in seen])[: Y * Y + n_ends]


def _shared_transitions(scores: LinearScores, constraints: Constraints) -> Trellis:
    """Make a trellis without tokens, with the transitions of all batches; −inf is forbidden."""
    trans, start, stop, states = constraints.forbid(
        scores.trans, scores.start, scores.stop, scores.states
    )
    tied = scores.tied if states is not None and states.n_weights else None
    none = np.empty((0, len(scores.labels)), dtype=np.float32)
    return Trellis(none, trans, start, stop, states=states, weights=tied, labels=scores.labels)


def _carry_state(
    state: dict[str, npt.NDArray[Any]], old: Layout, optimiser: Optimiser, new: Layout
) -> dict[str, npt.NDArray[Any]]:
    """Return the state of a learner in the layout of a new one.

    New weights start as in the new learner, and so do weights that are masked in either of the two,
    which AdaGrad marks by an infinite sum of squares.
    """
    fresh, carried = optimiser.state(), dict(state)
    for name, array in state.items():
        if len(array) == old.n_weights:
            moved = old.carry(array, new, fresh[name])
            is_kept = np.isfinite(moved) & np.isfinite(fresh[name])
            carried[name] = np.where(is_kept, moved, fresh[name])
    return carried


def _is_plain(spec: Any) -> bool:
    return (
        spec is None
        or isinstance(spec, str)
        or (isinstance(spec, list | tuple) and all(isinstance(part, str) for part in spec))
    )
