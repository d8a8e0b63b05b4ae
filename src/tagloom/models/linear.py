"""Linear taggers: feature and transition weights, summed in a trellis.

`CRF`, `StructuredPerceptron` and the others choose a loss and a learner. They share everything in
this file, from the layout of the weights to the model file. `reading` reads the training data;
`IterativeModel` runs the training loop.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tagloom import _native, evaluation, features, training, trellis
from tagloom.checks import ALL_THREADS
from tagloom.errors import ParameterError
from tagloom.features import Encoded, FeatureExtractor, Templates
from tagloom.models.capabilities import Capability
from tagloom.models.constraints import Constraints
from tagloom.models.data import f1_of, read_dev, seen_transitions
from tagloom.models.fitted import Fitted, Learned
from tagloom.models.iterative import IterativeModel
from tagloom.models.shared import ClusterParameters, ConstraintParameters, LabelParameters
from tagloom.models.taggers import Tagger
from tagloom.models.weights import FeatureWeights
from tagloom.notebooks import Rows
from tagloom.numeric import np
from tagloom.parameters import attribute, choice, count, flag, number, parameter
from tagloom.records import field, replace
from tagloom.scores import Decoder, LinearScores, Scored, Subtags
from tagloom.scores.parts import Parts
from tagloom.storage import File
from tagloom.trellis.pruning import Pruning

if TYPE_CHECKING:
    import numpy.typing as npt

    from tagloom.models.compaction import Compaction
    from tagloom.models.layouts import Layout
    from tagloom.models.reading import Known, TrainingData, WarmStart
    from tagloom.models.resident import LiveScores, Part, Resident
    from tagloom.models.sharded import ShardedData
    from tagloom.training import Optimiser, Outcome, Record
    from tagloom.training.online import OnlineLearner
    from tagloom.trellis import Structure, Trellis

    Float64 = npt.NDArray[np.float64]


# Most weights for which all combinations of attributes and labels are kept; more take gigabytes.
_MANY_WEIGHTS = 1 << 25

# Iterations over shards by default: two passes of an online learner, then L-BFGS. They take about
# 35 exchanges of weights.
_MIXED_ITERATIONS = 30


class LinearFitted(Fitted):
    """The state of a fitted linear tagger.

    Attributes
    ----------
    source : LinearScores or LiveScores
        The latter after ``partial_fit``: the weights change in place.
    constraints : Constraints
    training : dict
        The training record.
    history : list of Record
    compaction : Compaction or None
    pruning : Pruning or None
        The rule of candidate labels; see `Trellis.prune`. None: all labels are.
    """

    source: LinearScores | LiveScores = field(kw_only=True)
    constraints: Constraints = field(kw_only=True)
    training: dict[str, Any] = field(default_factory=dict, kw_only=True)
    history: list[Record] = field(default_factory=list, kw_only=True)
    compaction: Compaction | None = field(default=None, kw_only=True)
    pruning: Pruning | None = field(default=None, kw_only=True)

    @cached_property
    def scores(self) -> LinearScores:
        """The scores as arrays; copied from live ones at first use."""
        source = self.source
        return source if isinstance(source, LinearScores) else source.to_scores()

    @property
    def live(self) -> LiveScores | None:
        """The live scores, unless there is a copy of them, which is faster."""
        source = self.source
        return None if isinstance(source, LinearScores) or "scores" in self.__dict__ else source

    @property
    def is_plain(self) -> bool:
        """Whether states are labels, and all transitions between them are allowed."""
        constraints = self.constraints
        return self.source.states is None and not (constraints.scheme or constraints.states)

    @cached_property
    def transitions(self) -> Trellis:
        """A trellis without tokens, whose transitions all batches share."""
        return shared_transitions(self.source, self.constraints)

    @cached_property
    def normaliser(self) -> _native.LocalNormaliser | None:
        """The native object that turns scores into log probabilities; None if not local."""
        return None

    @property
    def decoder(self) -> Decoder | None:
        """The native decoder of ordinary sentences; None if a trellis is required."""
        return None if self.live is not None else self._decoder

    @cached_property
    def _decoder(self) -> Decoder | None:
        if self.constraints.dictionary:
            return None
        # Without a trellis, and so without NumPy, where it would not change the weights.
        transitions: _native.Dense | None
        trigrams = None
        if self.is_plain:
            transitions = self.scores.dense_transitions
        elif self.pruning is None:
            transitions = self.transitions.dense_transitions
        else:
            transitions, trigrams = self.transitions.listed_transitions
        if transitions is None:
            return None
        return self.scores.decoder(transitions, self.normaliser, self.pruning, trigrams)


class LinearTagger(
    FeatureWeights,
    ConstraintParameters,
    ClusterParameters,
    LabelParameters,
    IterativeModel["TrainingData", "Float64"],
    Tagger,
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
        "verbose": "an argument of fit()",
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
        also=("tagloom.trellis.StateSpace",),
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
        self,
        data: TrainingData | None,
        objective: _native.LinearObjective | None,
        theta: Float64 | None,
    ) -> Optimiser:
        """Make the learner; weights start from ``theta``, or from 0 if it is None.

        Without an objective, a learner whose corpus comes in parts.
        """

    @property
    @abstractmethod
    def is_online(self) -> bool:
        """Whether the learner is online: it updates the weights sentence by sentence."""

    @property
    def takes_parts(self) -> bool:
        """Whether the learner can take a corpus in parts."""
        return self.is_online

    @property
    def _part_algorithm(self) -> str:
        """An algorithm that can."""
        return "adagrad"

    #: Whether `fit` takes `tagloom.files`.
    takes_files: ClassVar[bool] = True

    def _least_weight(self) -> float:
        """Return the default of ``min_weight``."""
        return 0.0

    @property
    def _learns_in_float32(self) -> bool:
        """Whether scores and probabilities are float32 in training."""
        return True

    # ---- learning --------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Learn from more sentences in one epoch; for online learners.

        The cost depends on these sentences, not on the model or on earlier ones: the weights stay
        in memory and change in place. New words, labels and features are added; a new label costs
        time proportional to the model, and so does a penalty ``l2``. Penalties and C refer to all
        sentences so far. Predictions use the new weights at once, without a copy of the model.

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
        self._check_unpruned()
        if not self.takes_parts:
            raise ParameterError(
                f"{self!r} learns from all sentences at once.",
                expected="an online learner for partial_fit",
                found=repr(self),
                hint="For partial_fit choose an online learner, such as {algorithm}; to continue "
                "from the present weights, {warm_start}.",
                options={"algorithm": self._part_algorithm, "warm_start": True},
            )
        if not self._learns_in_float32:
            raise ParameterError(
                parameter="dtype",
                expected="'float32' for partial_fit, whose weights are float32",
                found="'float64'",
            )
        resident = self._resident()
        with nullcontext() if resident is None else resident.lock:
            return self._learn_more(resident, X, y, sample_weight)

    def _check_unpruned(self) -> None:
        """Raise if labels are pruned, with which a corpus cannot come in parts."""
        pruning = self._fitted.pruning if self.is_fitted else None
        if pruning is not None:
            raise ParameterError(
                parameter="prune",
                expected="None for partial_fit, which learns without pruning",
                found=f"{pruning.least}",
                hint="Train with {prune}.",
                options={"prune": None},
            )

    def _learn_more(self, resident: Resident | None, X: Any, y: Any, sample_weight: Any) -> Self:
        """Learn from more sentences; the caller holds the lock of the resident model."""
        from tagloom.models.resident import Resident
        from tagloom.training.online import OnlineLearner, overflow

        began = time.perf_counter()
        data = self._read(X, y, sample_weight, resident, in_parts=True)
        learner = self._optimiser(data, None, None)
        assert isinstance(learner, OnlineLearner)
        rule, options = learner.rule, learner.options
        if resident is None:
            resident = Resident.begin(data, rule, options, self._n_node_sections)
        elif resident.settings not in ({}, self._settings()):
            resident = resident.fork(options)
        resident.settings = self._settings()  # options that depend on data stay those of the first
        part = self._part(data)
        takes_all = self._takes_all(sum(part.sizes[:-1]) * len(data.names))
        n = len(part.offsets) - 1
        try:
            loss, _ = resident.learn(
                data,
                part,
                order=learner.order(n, resident.n_calls),
                all_combinations=takes_all,
                transitions=self._free_transitions(data.extractor, takes_all),
            )
        except OverflowError as error:
            self.__dict__.pop("_fitted", None)  # the weights are lost
            raise overflow(error, resident.n_calls) from None
        calls, seconds = resident.n_calls, time.perf_counter() - began
        record = training.Record(calls, loss / max(n, 1), None, None, True, 1, seconds)
        summary = {
            "sentences": resident.summary.sentences,
            "tokens": resident.summary.tokens,
            "digest": resident.digest,
            "iterations": calls,
            "best_iteration": calls,
            "stopped": "max_iterations",
            "loss": record.loss,
            "dev": None,
            "seconds": round(seconds, 3),
        }
        self._fitted = self._make_state(
            self._live_scores(resident, data),
            data.constraints,
            history=Rows([*(self.history_ if self.is_fitted else ()), record]),
            training=summary,
            **self._extra_state(data),
        )
        return self

    def _settings(self) -> dict[str, Any]:
        """Return the parameters that are plain numbers and strings."""
        return {k: v for k, v in self.get_params().items() if isinstance(v, int | float | str)}

    def _resident(self) -> Resident | None:
        """Return the resident model that learns next; None if there is none yet."""
        from tagloom.training.online import OnlineLearner

        if not self.is_fitted:
            return None
        source = self._fitted.source
        learner = self._optimiser(None, None, None)
        assert isinstance(learner, OnlineLearner)
        if not isinstance(source, LinearScores) and source.resident.rule == learner.rule:
            return source.resident
        return self._resident_of(self.scores_, learner)

    def _resident_of(self, scores: LinearScores, learner: OnlineLearner) -> Resident:
        """Make a resident model from the weights of a fitted one."""
        from tagloom.models.reading import WarmStart
        from tagloom.models.resident import Resident

        start = WarmStart.from_scores(scores)
        resident = Resident.of_start(start, learner.rule, learner.options, self._n_node_sections)
        # θ = C·(sum of steps) where each sentence was seen once; see training.Subgradient.
        scale = 1 / learner.options["C"] if learner.rule == "subgradient" else 1.0
        takes_all = self._takes_all(start.index.size * len(scores.labels))
        steps = int(self.training_.get("sentences", 0))
        self._start_weights(resident, scores, scale, steps, takes_all)
        return resident

    # Node sections of a resident model; see `tagloom.models.resident.Part`.
    _n_node_sections: ClassVar[int] = 1

    def _start_weights(
        self, resident: Resident, scores: LinearScores, scale: float, steps: int, takes_all: bool
    ) -> None:
        """Give a resident model the weights of a fitted one."""
        edges = scores.edge_rows
        resident.grow([scores.index.size, 0 if edges is None else edges.n_attributes], takes_all)
        resident.start_rows(0, scores.rows, scale)
        if edges is not None:
            resident.start_rows(1, edges, scale)
        ends = [scores.start, scores.stop] if self.boundaries else []
        tied = [] if scores.tied is None else [scores.tied]
        tail = np.concatenate([scores.trans.ravel(), *ends, *tied])
        transitions = self._free_transitions(scores.extractor, takes_all)
        resident.start_tail(scale * tail, steps, scores.states, self.boundaries, transitions)

    def _part(self, data: TrainingData) -> Part:
        """Return sentences in the form in which a resident model learns from them."""
        from tagloom.models.resident import Part

        nodes, edges, labels = self._arrays(data)
        return Part(
            data.encoded.offsets,
            nodes,
            [data.index.size, data.edge_index.size],
            labels,
            edges,
            data.weight,
            self.boundaries,
            None if data.states is None else data.states.native,
        )

    def _free_transitions(self, extractor: FeatureExtractor, takes_all: bool) -> str:
        """Return which transitions a resident model learns: all, those seen, or none."""
        if not extractor.transitions:
            return "none"
        if self.transitions != "auto":
            return self.transitions
        return "all" if takes_all else "seen"

    def _live_scores(self, resident: Resident, data: TrainingData) -> LiveScores:
        """Return the scores of a resident model."""
        from tagloom.models.resident import LiveScores

        return LiveScores(
            labels=tuple(data.names),
            extractor=data.extractor,
            states=data.states,
            resident=resident,
            least=self._least_weight() if self.min_weight is None else self.min_weight,
            **resident.tail()._asdict(),
        )

    def __copy__(self) -> Self:
        new = super().__copy__()
        source = self._fitted.source if self.is_fitted else None
        if source is not None and not isinstance(source, LinearScores):  # learns in place
            new._fitted = replace(
                self._fitted, source=replace(source, resident=source.resident.fork())
            )
        return new

    def _warm_start(self) -> WarmStart:
        """Return the weights and indexes from which training continues."""
        from tagloom.models.reading import WarmStart

        return WarmStart.from_scores(self.scores_)

    def read_data(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Turn labelled sentences into arrays; those of files stay on the workers."""
        from tagloom.sequences.sources import Files

        if isinstance(X, Files):
            self._check_whole()
            from tagloom.models.sharded import read_files

            return read_files(self, X, y, sample_weight)
        start = self._warm_start() if self.warm_start and self.is_fitted else None
        data = self._read(X, y, sample_weight, start)
        data.pruning, data.subtags = self._choose_pruning(data)
        return data

    def _check_whole(self) -> None:
        """Raise for a parameter that needs all sentences in one process."""

    def _choose_pruning(self, data: TrainingData) -> tuple[Pruning | None, Subtags | None]:
        """Return the rule of candidate labels and the sub-tags of labels, if any."""
        return None, None

    def _read(
        self, X: Any, y: Any, sample_weight: Any, start: Known | None, *, in_parts: bool = False
    ) -> TrainingData:
        from tagloom.models.reading import read

        return read(self, X, y, sample_weight, start, in_parts=in_parts)

    def make_learner(self, data: TrainingData) -> Optimiser:
        """Make the objective and its learner."""
        sharded = as_sharded(data)
        if sharded is not None:
            return sharded.make_learner(self)
        return self._optimiser(data, *self._lay_out(data))

    def _lay_out(self, data: TrainingData) -> tuple[_native.LinearObjective, Float64 | None]:
        """Make the objective; return it with the initial weights, None for zero.

        Only the objective keeps the attributes of tokens, so training frees their memory.
        """
        sharded = as_sharded(data)
        if sharded is not None:
            objective: Any = sharded.objective
            return objective, None
        objective, data.layout = self._make_objective(data)
        data.drop_attributes()
        start = data.start
        return objective, None if start is None else start.layout.carry(start.theta, data.layout)

    def release(self, data: TrainingData) -> None:
        """End the workers that have the sentences of files."""
        sharded = as_sharded(data)
        if sharded is not None:
            sharded.close()

    def _title(self, data: TrainingData) -> str:
        sharded, title = as_sharded(data), super()._title(data)
        return title if sharded is None else f"{title}, {sharded.describe()}"

    def _details(self, data: TrainingData) -> Callable[[], str] | None:
        sharded = as_sharded(data)
        return None if sharded is None or sharded.pieces is not None else sharded.show_exchanges

    def _costs(self, names: Sequence[str]) -> Float64 | None:
        """Return the cost of each mistake [Y, Y], for learners that have costs."""
        return None

    @property
    def _can_mix(self) -> bool:
        """Whether the weights of an online learner on several shards can be mixed."""
        return True

    @property
    def _mixing_passes(self) -> int | None:
        """Online passes over shards that are mixed before L-BFGS; None: all of them."""
        return None

    def limits_for(self, data: TrainingData) -> tuple[int, int]:
        """Return the limits; over shards an online learner is followed by L-BFGS."""
        iterations, patience = self.limits()
        sharded = as_sharded(data)
        mixes = sharded is not None and sharded.pieces is None and self.is_online
        if not mixes or self._mixing_passes is None:
            return iterations, patience
        return (
            _MIXED_ITERATIONS if self.max_iterations is None else iterations,
            10 if self.patience is None else patience,
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.order != 1 and isinstance(self.states, trellis.StateSpace):
            raise ParameterError(
                parameter="order",
                expected="left out where states is a StateSpace",
                found=f"{self.order}",
                hint="To combine them: StateSpace.order(labels, k) & space.",
            )

    def _make_objective(
        self, data: TrainingData, *, pattern_only: bool = False
    ) -> tuple[_native.LinearObjective, Layout]:
        """Make the native objective and the layout of its weights.

        Parameters
        ----------
        data : TrainingData
        pattern_only : bool
            Whether only the layout and the mask are needed.
        """
        from tagloom.models.layouts import Layout

        start, states = data.start, data.states
        trigrams = None if data.pruning is None or states is None else states.native_trigrams
        nodes, edges, labels = self._arrays(data)
        objective = _native.LinearObjective(
            data.encoded.offsets,
            nodes,
            labels,
            edges=edges,
            weight=data.weight,
            all_combinations=self._takes_all_labels(data),
            boundaries=self.boundaries,
            space=None if states is None or trigrams is not None else states.native,
            float32=self._learns_in_float32,
            batches_only=not self.is_online,
            prune=None if data.pruning is None else data.pruning.native,
            trigrams=trigrams,
            subtags=None if data.subtags is None else data.subtags.native,
            threads=self.n_threads or ALL_THREADS,
            pattern_only=pattern_only,
        )
        n_subtags = 0 if data.subtags is None else len(data.subtags)
        layout = Layout.of_objective(tuple(data.names), objective, data.states, n_subtags)
        free = objective.mask()
        if start is not None:  # transitions that were seen before may not occur now
            free |= start.layout.carry(start.theta != 0, layout)
        if self.transitions != "auto":
            _choose_transitions(free[layout.transitions_at :], data, self)
        if not data.extractor.transitions:
            free[layout.transitions_at :] = False
        objective.set_mask(free)
        return objective, layout

    @staticmethod
    def _arrays(
        data: TrainingData,
    ) -> tuple[_native.Attributes, _native.Attributes | None, _native.Labels]:
        """Return the attributes of nodes and of edges, and the labels."""
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
        labels = _native.Labels(data.gold.numbers, len(data.names), sets, data.allowed)
        return nodes, edges, labels

    def _takes_all(self, n_weights: int) -> bool:
        """Whether attributes get weights for all labels, ``n_weights`` of them."""
        if self.combinations == "auto":
            return self.is_online and n_weights <= _MANY_WEIGHTS
        return self.combinations == "all"

    def _takes_all_labels(self, data: TrainingData) -> bool:
        """Whether attributes get weights for all labels; sub-tags have them in any case."""
        if data.subtags is not None and self.combinations == "auto":
            return False
        return self._takes_all(data.index.size * len(data.names))

    def score_dev(self, dev: Any, data: TrainingData) -> Callable[[Float64], float]:
        """Return the function from weights to the score on the development data.

        Span F1 if the labels are spans, otherwise token accuracy.
        """
        from tagloom.sequences.sources import Files

        sharded = as_sharded(data)
        if sharded is not None and isinstance(dev, Files):
            return sharded.score_dev(dev)
        sentences, gold = read_dev(dev)
        encoded = data.extractor.encode(sentences, data.index, data.edge_index)
        return lambda theta: f1_of(self.count_dev(theta, data, sentences, encoded, gold))

    def count_dev(
        self,
        theta: Float64,
        data: TrainingData,
        sentences: Sequence[Any],
        encoded: Encoded,
        gold: list[list[str]],
    ) -> tuple[int, int, int]:
        """Tag development data; count matched, gold and predicted spans, or tokens.

        Parameters
        ----------
        theta : ndarray
        data : TrainingData
            With the layout of ``theta``.
        sentences : sequence of sentences
        encoded : Encoded
            Their attributes.
        gold : list of list of str
        """
        from tagloom.models.layouts import cut

        scores = cut(theta, data)
        threads = self.n_threads or ALL_THREADS
        scored = self._normalised(scores, scores.score_encoded(encoded, threads))
        trellis = shared_transitions(scores, data.constraints).with_scores(
            scored.emit, edge=scored.edge, offsets=scored.offsets
        )
        trellis = data.constraints.restrict(trellis, sentences)
        if data.pruning is not None:
            trellis = trellis.prune(*data.pruning)
        return count_path(trellis.viterbi().path, encoded.offsets, data, gold)

    def finish(self, data: TrainingData, outcome: Outcome[Float64], record: dict[str, Any]) -> None:
        """Set the fitted state from the learned weights."""
        from tagloom.models.layouts import cut

        scores = cut(outcome.take_weights(), data)
        least = self._least_weight() if self.min_weight is None else self.min_weight
        self._fitted = self._make_state(
            scores.without_zeros(least),
            data.constraints,
            history=Rows(outcome.records),
            training=record,
            pruning=data.pruning,
            **self._extra_state(data),
        )

    def _extra_state(self, data: TrainingData) -> dict[str, Any]:
        """Fields of the fitted state that only some models have."""
        return {}

    # ---- predicting ------------------------------------------------------------------------

    def score_sentences(self, sentences: Sequence[Any], n_threads: int | None) -> Trellis:
        """Score sentences; see `Tagger.score_sentences`."""
        threads = n_threads or self.n_threads
        while True:
            fitted = self._fitted
            live = fitted.live
            if live is None:
                scored = fitted.scores.score(sentences, threads or ALL_THREADS)
                break
            with live.resident.lock:
                if self._fitted is fitted:  # otherwise it has learnt since
                    scored = live.score(sentences, threads or ALL_THREADS)
                    break
        if live is not None and live.resident.is_copy_due:
            _ = fitted.scores
        scored = self._normalised(fitted.source, scored)
        batch = fitted.transitions.with_scores(
            scored.emit, edge=scored.edge, offsets=scored.offsets
        )
        batch.n_threads = threads
        return fitted.constraints.restrict(batch, sentences)

    def _pruned(self, scored: Structure) -> Structure:
        if self._fitted.pruning is None or not isinstance(scored, trellis.Trellis):
            return scored
        return scored.prune(*self._fitted.pruning)

    def _normalised(self, scores: LinearScores | LiveScores, scored: Scored) -> Scored:
        """Normalise the scores of a batch, in local models; by default return them unchanged."""
        return scored

    @property
    def scheme_(self) -> str | None:
        """The scheme that constrains predictions."""
        return self.constraints_.scheme

    @property
    def reads_only_tokens(self) -> bool:
        """Whether the features are known to depend on the tokens alone."""
        self._check_fitted("reads_only_tokens")
        extractor = self._fitted.source.extractor
        return isinstance(extractor, Templates) and extractor.reads_only_tokens

    @classmethod
    def _make_state(
        cls, scores: LinearScores | LiveScores, constraints: Constraints, **records: Any
    ) -> LinearFitted:
        """Make the state of a fitted model."""
        return cls._state_type(
            labels=scores.labels,
            source=scores,
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
        Y = len(self._label_list)
        if self._fitted.pruning is not None:
            return Y
        if self._fitted.is_plain or self._fitted.transitions.states.kind == "labels":
            return Y * Y if self._fitted.source.has_edges else Y
        return max(self._fitted.transitions.states.n_states, 1)

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
        new, measure = self.__copy__(), None
        if dev is not None:
            X, y = dev if isinstance(dev, tuple) else (dev, None)

            def measure(scores: LinearScores) -> float:
                new._fitted = replace(self._fitted, source=scores)
                return new.score(X, y)

        scores, report = compaction.compact(self.scores_, measure, max_bytes, min_accuracy)
        new._fitted = replace(
            self._fitted,
            source=scores,
            training={**self.training_, "compaction": report._asdict()},
            compaction=report,
            temperature=1.0,  # it was fitted to the scores of all weights
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
        extractor = self._fitted.source.extractor
        return extractor if isinstance(extractor, features.Function) else None

    def to_file(self) -> File:
        """Return the fitted state as a header of plain data and arrays."""
        params = self.get_params()
        # The resolved templates, constraints and states are stored below.
        for name in ("features", "constraints", "states"):
            if name in params and not _is_plain(params[name]):
                params.pop(name)
        for name in ClusterParameters.parameters:  # where it was trained is not part of a model
            params.pop(name, None)
        header: dict[str, Any] = {
            "params": params,
            "constraints": self.constraints_.to_dict(),
            "training": self.training_,
            "history": [record.to_row() for record in self.history_],
        }
        if self._fitted.pruning is not None:
            header |= self._fitted.pruning.to_dict()
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
            pruning=Pruning.from_dict(header),
            training=dict(header["training"]),
            history=Rows(training.Record.from_row(row) for row in header["history"]),
            **cls._extra_from_file(file),
        )
        return tagger

    @classmethod
    def _extra_from_file(cls, file: File) -> dict[str, Any]:
        """Read the fields of the fitted state that only some models have; see `_extra_state`."""
        return {}


def as_sharded(data: TrainingData) -> ShardedData | None:
    """Return data whose sentences are on the workers of an engine; None for other data."""
    if not data.is_sharded:
        return None
    from tagloom.models.sharded import ShardedData

    assert isinstance(data, ShardedData)
    return data


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


def shared_transitions(scores: LinearScores | LiveScores, constraints: Constraints) -> Trellis:
    """Make a trellis without tokens, with the transitions of all batches; −inf is forbidden."""
    trans, start, stop, states = constraints.forbid(
        scores.trans, scores.start, scores.stop, scores.states
    )
    tied = scores.tied if states is not None and states.n_weights else None
    none = np.empty((0, len(scores.labels)), dtype=np.float32)
    return trellis.Trellis(
        none, trans, start, stop, states=states, weights=tied, labels=scores.labels
    )


def count_path(
    path: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    data: TrainingData,
    gold: list[list[str]],
) -> tuple[int, int, int]:
    """Count matched, gold and predicted items: spans if the labels are spans, otherwise tokens."""
    predicted = _native.label_lists(path, offsets, data.names)
    scheme = data.constraints.scheme
    if scheme is not None:
        from tagloom.evaluation.scores import CORRECT_SPANS, GOLD_SPANS, PREDICTED_SPANS

        found = evaluation.evaluate(gold, predicted, scheme=scheme, spans=True, n_bootstrap=0)
        sums = found.sentence_counts.sum(axis=0)
        columns = CORRECT_SPANS, GOLD_SPANS, PREDICTED_SPANS
        matched, of_gold, of_predicted = (int(sums[column]) for column in columns)
        return matched, of_gold, of_predicted
    right = sum(sum(map(str.__eq__, *pair)) for pair in zip(gold, predicted, strict=True))
    return right, len(path), len(path)


def _is_plain(spec: Any) -> bool:
    return (
        spec is None
        or isinstance(spec, str)
        or (isinstance(spec, list | tuple) and all(isinstance(part, str) for part in spec))
    )
