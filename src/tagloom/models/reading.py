"""Reading training data for linear taggers: from labelled sentences to the arrays of a learner.

Sentences become attributes and labels become numbers; constraints are resolved and states chosen.
`TrainingData` holds the arrays together with their meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks, features
from tagloom.errors import LabelError, ParameterError
from tagloom.features import Encoded, FeatureExtractor, Templates
from tagloom.models import constraints
from tagloom.models.constraints import Constraints
from tagloom.models.data import (
    Gold,
    ReadLabels,
    as_weights,
    check_not_empty,
    digest,
    number_labels,
    read_labels,
)
from tagloom.scores import LinearScores, Names, Subtags
from tagloom.trellis import StateSpace, Trellis
from tagloom.trellis.machine import ALL_THREADS

if TYPE_CHECKING:
    from tagloom.models.layouts import Layout
    from tagloom.models.summaries import Summary
    from tagloom.trellis.pruning import Pruning

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

# With states="auto", a space of order k with more transitions is pruned to the histories seen.
_MANY_TRANSITIONS = 100_000

# Pairs of labels are numbered in 16 bits.
_MOST_EDGE_LABELS = 256


class Settings(Protocol):
    """The parameters of a tagger that reading depends on; see `CRF`."""

    features: Any
    labels: Sequence[str] | None
    constraints: Any
    constrain_training: bool
    order: int
    states: Any
    min_count: int
    n_threads: int | None

    @property
    def takes_open_labels(self) -> bool:
        """Whether training labels may be None, unknown, or sets, one of several."""


class Known(Protocol):
    """Labels and attributes that sentences may add to; a `WarmStart` or a resident model."""

    @property
    def labels(self) -> Sequence[str]:
        """The labels so far."""

    @property
    def extractor(self) -> FeatureExtractor:
        """The extractor of features."""

    @property
    def index(self) -> _native.Index:
        """The numbers of attributes."""

    @property
    def edge_index(self) -> _native.Index:
        """The numbers of edge attributes."""


@dataclass(eq=False)
class WarmStart:
    """The weights and indexes of a tagger, from which training continues.

    Attributes
    ----------
    extractor : FeatureExtractor
    index, edge_index : Index
        They grow with the attributes that are read next.
    layout : Layout
    theta : ndarray
        The weights.
    """

    extractor: FeatureExtractor
    index: _native.Index
    edge_index: _native.Index
    layout: Layout
    theta: Float64

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the layout."""
        return self.layout.labels

    @classmethod
    def from_scores(cls, scores: LinearScores) -> WarmStart:
        """Start from the weights of a fitted tagger."""
        from tagloom.models.layouts import Layout, join

        index = _growing(scores.index, scores.names)
        edge_index = _native.Index()
        if scores.edge_index is not None and scores.edge_names is not None:
            edge_index = _growing(scores.edge_index, scores.edge_names)
        layout = Layout.of_scores(scores)
        return cls(scores.extractor, index, edge_index, layout, join(scores))


@dataclass(eq=False)
class TrainingData:
    """A labelled corpus as arrays, and the meaning of the arrays.

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
        The states whose transitions have weights; None: the labels.
    constraints : Constraints
        The constraints on predictions.
    allowed : ndarray of int32, shape (T,), or None
        With constraints in training, the candidate labels of each token: an index into ``sets``.
    sets : ndarray of bool, shape (n, Y)
        Label sets: those of ``gold``, then those of ``allowed``.
    start : WarmStart or None
    layout : Layout or None
        The layout of θ, set once the objective exists.
    cost : ndarray of float64, shape (Y, Y), or None
        The cost of each mistake, for the SVM.
    mean_square : float
        Sum of the squared values of a token's attributes, on average: their number if all are 1.
    summary : Summary or None
        Of a corpus that comes in parts: of all parts so far.
    pruning : Pruning or None
        The rule of candidate labels; None: all labels are.
    subtags : Subtags or None
        The sub-tags of labels, whose weights they share.
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
    start: WarmStart | None = None
    layout: Layout | None = None
    cost: Float64 | None = None
    mean_square: float = 0.0
    summary: Summary | None = None
    pruning: Pruning | None = None
    subtags: Subtags | None = None

    @property
    def is_sharded(self) -> bool:
        """Whether the sentences are on the workers of an engine; see `ShardedData`."""
        return False

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers of sentences and tokens."""
        return {"sentences": len(self.encoded.offsets) - 1, "tokens": len(self.gold.numbers)}

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
        """Fingerprint of everything that the learned weights depend on."""
        arrays = (*self.encoded, self.gold.numbers, self.sets, self.allowed, self.weight)
        return digest(self.names, *arrays, self.index.keys(), self.edge_index.keys())

    def drop_attributes(self) -> None:
        """Free the attributes of tokens; the objective has its own copy."""
        _ = self.digest  # it needs them
        none = np.empty(0, dtype=np.int32)
        self.encoded = Encoded(self.encoded.offsets, none.astype(np.int64), none, None)


def read(
    settings: Settings,
    X: Any,
    y: Any,
    sample_weight: Any,
    start: Known | None,
    *,
    in_parts: bool = False,
) -> TrainingData:
    """Turn labelled sentences into arrays.

    Parameters
    ----------
    settings : Settings
    X, y, sample_weight
        The arguments of `fit`.
    start : WarmStart, Resident or None
        The labels and attributes that exist already.
    in_parts : bool
        Whether these sentences are a part of a corpus. What depends on the whole corpus then
        depends on all parts so far, and attributes below ``min_count`` stay in the index, where
        they are counted on.

    Raises
    ------
    SentenceError, LabelError
        If the data are wrong; the message names the sentence.
    """
    from tagloom.models.resident import Resident
    from tagloom.models.summaries import Summary

    sentences = checks.sentences(X)
    path = getattr(X, "path", None)
    check_not_empty(sentences, path)
    read = read_labels(sentences, X, y, may_be_open=settings.takes_open_labels)
    gold = number_labels(read, _label_names(settings, read, start))
    checks.label_count(len(gold.names))
    extractor, index, edge_index, encoded = _encode(
        settings, sentences, gold.names, start, in_parts=in_parts
    )
    if encoded.edge_indptr is not None:
        check_edges(len(gold.names))
    if isinstance(extractor, Templates):
        extractor.check_labels_unread(sentences, read.labellings)
    weight = None if sample_weight is None else as_weights(sample_weight, len(sentences))
    spec, labellings = settings.constraints, read.labellings
    summary = None
    if in_parts:
        order = settings.order if _takes_seen(settings, gold) else 1
        part = Summary.of(sentences, labellings, read.number_of, constraints=spec, order=order)
        summary = start.summary if isinstance(start, Resident) else Summary()
        summary.add(part)
        resolved = summary.constraints(spec, gold.names)
        states = choose_states(settings, gold, encoded.offsets, summary)
    else:
        scheme = constraints.choose_scheme(spec, gold, labellings, encoded.offsets)
        resolved = constraints.resolve(spec, scheme, gold, sentences, labellings)
        states = choose_states(settings, gold, encoded.offsets)
    sets, allowed = gold.sets, None
    if settings.constrain_training:
        sets, allowed = _training_sets(resolved, gold, sentences)
        space = resolved.everything
        if space is not None:
            states = space if states is None else states & space
        _check_paths(gold, states, encoded.offsets, path)
    return TrainingData(
        names=gold.names,
        extractor=extractor,
        index=index,
        edge_index=edge_index,
        encoded=encoded,
        gold=gold,
        weight=weight,
        states=states,
        constraints=resolved,
        allowed=allowed,
        sets=sets,
        start=start if isinstance(start, WarmStart) else None,
        summary=summary,
        mean_square=_mean_square(encoded),
    )


def _mean_square(encoded: Encoded) -> float:
    total = len(encoded.ids) if encoded.values is None else np.square(encoded.values).sum()
    return float(total) / max(len(encoded.indptr) - 1, 1)


def check_edges(Y: int) -> None:
    """Raise if there are too many labels for edge attributes, which have pairs of them."""
    if Y > _MOST_EDGE_LABELS:
        raise ParameterError(
            parameter="features",
            expected=f"no edge(...) templates with more than {_MOST_EDGE_LABELS} labels",
            found=f"edge templates, and {Y:,} labels",
            hint="Leave the edge templates out, or join rare labels.",
        )


def _label_names(settings: Settings, read: ReadLabels, start: Known | None) -> Sequence[str] | None:
    """Return the label set: as given, or the earlier labels together with those of the data."""
    if settings.labels is not None or start is None:
        return settings.labels
    return sorted({*start.labels, *read.number_of})


def _encode(
    settings: Settings,
    sentences: Sequence[Any],
    names: Sequence[str],
    start: Known | None,
    *,
    in_parts: bool,
) -> tuple[FeatureExtractor, _native.Index, _native.Index, Encoded]:
    """Number the attributes of all tokens; attributes of a warm start keep their numbers."""
    if start is None:
        extractor = features.make(default_features(settings.features, sentences, names))
        index, edge_index = _native.Index(), _native.Index()
    else:
        extractor, index, edge_index = start.extractor, start.index, start.edge_index
    n_before, n_edges_before = index.size, edge_index.size
    options: dict[str, Any] = {}
    if isinstance(extractor, Templates):  # others call Python for every token
        options["n_threads"] = settings.n_threads or ALL_THREADS
    encoded = extractor.encode(sentences, index, edge_index, grow=True, **options)
    if settings.min_count > 1 and in_parts:
        encoded = _without_rare_so_far(encoded, index, edge_index, settings.min_count)
    elif settings.min_count > 1:  # attributes of a warm start stay
        index = _without_rare(index, settings.min_count, n_before)
        edge_index = _without_rare(edge_index, settings.min_count, n_edges_before)
        encoded = extractor.encode(sentences, index, edge_index, **options)
    return extractor, index, edge_index, encoded


def default_features(spec: Any, sentences: Sequence[Any], names: Sequence[str]) -> Any:
    """Resolve features="auto": by the type of the tokens and by the kind of labels."""
    if not (isinstance(spec, str) and spec == "auto"):
        return spec
    first = sentences[0]
    if getattr(getattr(first, "_layout", None), "format", None) == "crfsuite":
        return "attributes"
    is_numeric = isinstance(first, np.ndarray) and first.dtype.kind not in "UO"
    if is_numeric or not isinstance(next(iter(first)), str):
        return None  # dicts, lists or numbers: the tokens already are features
    return "ner" if constraints.look_like_spans(names) else "pos"


def _growing(index: _native.Index, names: Names) -> _native.Index:
    """Copy an index, so that attributes can be added."""
    return _native.Index.from_keys(index.keys(), (names.blob, names.offsets))


def _without_rare(index: _native.Index, min_count: int, n_before: int) -> _native.Index:
    return index.keep((index.counts() >= min_count) | (np.arange(index.size) < n_before))


def _without_rare_so_far(
    encoded: Encoded, index: _native.Index, edge_index: _native.Index, min_count: int
) -> Encoded:
    """Leave out the attributes that have occurred less often in all parts so far."""
    from tagloom.models.resident import keep_attributes

    kept = index.counts_of(encoded.ids) >= min_count
    nodes = keep_attributes(encoded.indptr, encoded.ids, encoded.values, kept)
    if encoded.edge_indptr is None or encoded.edge_ids is None:
        return Encoded(encoded.offsets, *nodes)
    kept = edge_index.counts_of(encoded.edge_ids) >= min_count
    edges = keep_attributes(encoded.edge_indptr, encoded.edge_ids, encoded.edge_values, kept)
    return Encoded(encoded.offsets, *nodes, *edges)


def _takes_seen(settings: Settings, gold: Gold) -> bool:
    """Whether only the label histories that occur are states."""
    if isinstance(settings.states, StateSpace) or settings.order == 1:
        return False
    if settings.states == "auto":
        n_transitions: int = len(gold.names) ** (settings.order + 1)
        return n_transitions > _MANY_TRANSITIONS
    return bool(settings.states == "seen")


def choose_states(
    settings: Settings, gold: Gold, offsets: Int64, summary: Summary | None = None
) -> StateSpace | None:
    """Choose the states whose transitions have weights; None: the labels themselves."""
    names = tuple(gold.names)
    if isinstance(settings.states, StateSpace):
        return constraints.over(settings.states, names, "states")
    if settings.order == 1:
        return None
    if not _takes_seen(settings, gold):
        return StateSpace.order(names, settings.order)
    if summary is not None:
        return summary.state_space(names, settings.order)
    return StateSpace.order(names, settings.order, _labelled_runs(gold, offsets))


def _labelled_runs(gold: Gold, offsets: Int64) -> list[npt.NDArray[np.int32]]:
    """Return the runs of labels between open labels and the ends of sentences."""
    cuts = np.unique(np.concatenate([offsets, np.flatnonzero(gold.is_open)]))
    runs = np.split(gold.numbers, cuts)
    return [run[run >= 0] for run in runs if (run >= 0).any()]


def _training_sets(
    resolved: Constraints, gold: Gold, sentences: Sequence[Any]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int32] | None]:
    """Return the label sets for training, and the set of candidate labels of each token [T].

    The gold label of a token, or every option of an open one, is always a candidate.
    """
    words = resolved.word_sets(sentences)
    if words is None:
        return gold.sets, None
    numbers, sets = words
    pairs, which = np.unique(
        np.stack([numbers, gold.numbers]), axis=1, return_inverse=True
    )  # [2, n], [T]
    allowed = sets[pairs[0]] | _gold_sets(gold)[pairs[1]]
    set_ids = (-1 - len(gold.sets) - which.reshape(len(numbers))).astype(np.int32)
    return np.concatenate([gold.sets, allowed]), set_ids


def _gold_sets(gold: Gold) -> npt.NDArray[np.bool_]:
    """Return the label sets that gold numbers index: y is {y}, and −1 − k is set k."""
    return np.concatenate([np.eye(len(gold.names), dtype=np.bool_), gold.sets[::-1]])


def _check_paths(gold: Gold, states: StateSpace | None, offsets: Int64, path: str | None) -> None:
    """Raise LabelError for a sentence whose gold labels the constraints forbid."""
    if states is None:
        return
    emit = np.where(_gold_sets(gold)[gold.numbers], 0.0, -np.inf)  # [T, Y]
    is_infeasible = ~Trellis(emit, states=states, offsets=offsets).is_feasible()  # [N]
    if is_infeasible.any():
        raise LabelError(
            where=checks.place(int(np.flatnonzero(is_infeasible)[0]), path=path),
            expected="gold labels that the constraints allow",
            found="labels that they forbid",
            hint="Correct them, or leave constrain_training out: constraints then hold for "
            "predictions only.",
        )
