"""Linear models in memory that learn sentence by sentence: what `partial_fit` continues from.

A `Resident` keeps the weights, the learner's state and the index of attributes in memory and lets
them grow. Learning from n sentences and scoring n sentences therefore cost O(n), whatever the size
of the model. `LiveScores` are its scores; they are copied into arrays when something needs arrays,
such as a model file.

A resident model belongs to one tagger. Copying the tagger copies it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.features import FeatureExtractor
from tagloom.models.data import digest
from tagloom.models.layouts import tie_names
from tagloom.models.summaries import Summary
from tagloom.scores import LinearScores, Names, Rows, Scored
from tagloom.trellis import StateSpace

if TYPE_CHECKING:
    from tagloom.models.reading import TrainingData, WarmStart

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


class Part(NamedTuple):
    """Sentences in the form in which a resident model learns from them.

    Attributes
    ----------
    offsets : ndarray, shape (N + 1,)
    nodes : Attributes
        Numbered from 0 in the first node section, then on in the next.
    sizes : list of int
        The number of attributes in each node section, and of edge attributes.
    labels : Labels
    edges : Attributes or None
    weight : ndarray, shape (N,), or None
    boundaries : bool
    space : Space or None
    renumber : callable, optional
        For attributes that contain a label: from the new numbers of the old labels, the number of
        labels and the sizes of the sections to the old number of each attribute, or −1, in each
        section; None for sections without such attributes.
    """

    offsets: Int64
    nodes: _native.Attributes
    sizes: list[int]
    labels: _native.Labels
    edges: _native.Attributes | None = None
    weight: Float64 | None = None
    boundaries: bool = True
    space: _native.Space | None = None
    renumber: Callable[[Int64, int, list[int]], list[Any]] | None = None


class Ends(NamedTuple):
    """The weights of transitions: of label pairs, first and last labels, and ties."""

    trans: Float64
    start: Float64
    stop: Float64
    tied: Float64


@dataclass(eq=False)
class Resident:
    """The weights of a linear model that stay in memory, and their meaning.

    Attributes
    ----------
    labels : list of str
    extractor : FeatureExtractor
    index, edge_index : Index
    native : _native.Resident
    rule, options : str, dict
        The rule of the learner and its options.
    summary : Summary
        Of all sentences so far.
    sizes : list of int
        The number of attributes in each section that have rows.
    settings : dict
        The parameters of the tagger at the last call.
    n_calls : int
    n_scored : int
        Tokens scored since the model last learnt.
    digest : str
        Of all sentences so far.
    lock : RLock
        Held while the model learns or is read, so that threads see the weights of one moment.
    """

    labels: list[str]
    extractor: FeatureExtractor
    index: _native.Index
    edge_index: _native.Index
    native: _native.Resident
    rule: str
    options: dict[str, Any]
    summary: Summary
    sizes: list[int]
    settings: dict[str, Any] = field(default_factory=dict)
    n_calls: int = 0
    n_scored: int = 0
    digest: str = ""
    lock: Any = field(default_factory=threading.RLock, repr=False)
    _layout: tuple[Any, ...] = ()  # of the tail: labels, whether it has boundaries, states
    _meanings: list[Any] = field(default_factory=list)  # of each weight of the tail

    @classmethod
    def begin(
        cls, data: TrainingData, rule: str, options: dict[str, Any], n_node_sections: int
    ) -> Resident:
        """Make a model without weights that is to learn from data."""
        assert data.summary is not None
        return cls(
            list(data.names),
            data.extractor,
            data.index,
            data.edge_index,
            _native.Resident(rule, len(data.names), n_node_sections, **options),
            rule,
            options,
            data.summary,
            [0] * (n_node_sections + 1),
        )

    @classmethod
    def of_start(
        cls, start: WarmStart, rule: str, options: dict[str, Any], n_node_sections: int
    ) -> Resident:
        """Make a model without weights over the attributes and labels of a trained one."""
        return cls(
            list(start.labels),
            start.extractor,
            start.index,
            start.edge_index,
            _native.Resident(rule, len(start.labels), n_node_sections, **options),
            rule,
            options,
            Summary(),
            [0] * (n_node_sections + 1),
        )

    def grow(self, sizes: list[int], all_combinations: bool) -> None:
        """Add attributes, up to the given number in each section."""
        self.native.grow(sizes, all_combinations)
        self.sizes = list(sizes)

    def start_rows(self, section: int, rows: Rows, scale: float) -> None:
        """Set weights of attributes."""
        attributes, columns = (a.astype(np.int32) for a in (rows.attributes, rows.cols))
        self.native.start_from(section, attributes, columns, scale * rows.weights.astype(float))

    def start_tail(
        self,
        weights: Float64,
        steps: int,
        states: StateSpace | None,
        boundaries: bool,
        transitions: str,
    ) -> None:
        """Set the weights of transitions, and how many sentences the model has learnt from."""
        if transitions == "none":
            weights = np.zeros_like(weights)
        self._lay_out_tail(states, boundaries, transitions, weights != 0)
        self.native.start_tail_from(weights, steps)

    def fork(self, options: dict[str, Any] | None = None) -> Resident:
        """Copy the model, so that the copy learns separately.

        Parameters
        ----------
        options : dict, optional
            Other options of the rule.
        """
        with self.lock:
            new = replace(self, lock=threading.RLock(), sizes=list(self.sizes))
            new.options = dict(self.options if options is None else options)
            new.native = self.native.fork(self.rule, **new.options)
            new.index, new.edge_index = _copy_index(self.index), _copy_index(self.edge_index)
            new.summary = self.summary.merged(Summary())
            return new

    # ---- learning --------------------------------------------------------------------------

    def learn(
        self,
        data: TrainingData,
        part: Part,
        *,
        order: Int64,
        all_combinations: bool,
        transitions: str,
    ) -> tuple[float, int]:
        """Learn from sentences in one pass.

        Parameters
        ----------
        data : TrainingData
        part : Part
        order : ndarray
            The order in which sentences are visited.
        all_combinations : bool
            Whether new attributes get weights for all labels, or only for those they occur with.
        transitions : {"all", "seen", "none"}
            Which transitions have weights.

        Returns
        -------
        loss : float
            The sum over sentences.
        n_mistakes : int

        Raises
        ------
        OverflowError
            If scores are no longer finite. The weights are then useless.
        """
        self._take_labels(data.names, part)
        self.grow(part.sizes, all_combinations)
        self._lay_out_tail(data.states, part.boundaries, transitions)
        cost = 1.0 - np.eye(len(data.names)) if data.cost is None else data.cost
        result = self.native.learn(
            part.offsets,
            part.nodes,
            part.labels,
            order,
            edges=part.edges,
            weight=part.weight,
            cost=cost.ravel() if self.rule == "subgradient" else None,
            boundaries=part.boundaries,
            space=part.space,
            frees_seen=transitions == "seen",
        )
        arrays = (*data.encoded, data.gold.numbers, data.sets, data.allowed, data.weight)
        self.digest = digest([*data.names, self.digest], *arrays)
        self.n_calls += 1
        self.n_scored = 0
        return result

    def _take_labels(self, names: Sequence[str], part: Part) -> None:
        if list(names) == self.labels:
            return
        place = {label: y for y, label in enumerate(names)}
        moved = np.array([place[label] for label in self.labels], dtype=np.int64)
        ids: list[Any] = [None] * len(part.sizes)
        if part.renumber is not None:
            ids = part.renumber(moved, len(names), self.sizes)
        self.native.set_labels(len(names), moved, ids)
        self.labels = list(names)

    def _lay_out_tail(
        self,
        states: StateSpace | None,
        boundaries: bool,
        transitions: str,
        also_free: npt.NDArray[np.bool_] | bool = False,
    ) -> None:
        """Give every weight of the tail its place; weights keep their values."""
        names, Y = tuple(self.labels), len(self.labels)
        layout = (names, boundaries, states)
        if self._layout == layout:
            return
        ends = [(end, y) for end in ("start", "stop") for y in names if boundaries]
        meanings = [(a, b) for a in names for b in names] + ends + list(tie_names(names, states))
        old = {meaning: j for j, meaning in enumerate(self._meanings)}
        free = np.full(len(meanings), transitions == "all")
        free[Y * Y + len(ends) :] = transitions != "none"  # the state space defines the ties
        free |= also_free
        came_from = np.array([old.get(meaning, -1) for meaning in meanings], dtype=np.int64)
        self.native.set_tail(came_from, free)
        self._meanings, self._layout = meanings, layout

    # ---- reading ---------------------------------------------------------------------------

    @property
    def is_copy_due(self) -> bool:
        """Whether so much has been scored that a copy in arrays would have been cheaper.

        A copy scores a token about 1 µs faster, and takes about 1 µs per attribute.
        """
        return self.n_scored > max(sum(self.sizes), 10_000)

    def rows(self, section: int) -> Float32:
        """Return the weights of a section [attributes, width]."""
        Y, is_edges = len(self.labels), section == len(self.sizes) - 1
        return self.native.rows(section).reshape(-1, Y * Y if is_edges else Y)

    def tail(self) -> Ends:
        """Return the weights of transitions, of which a model without ends has none."""
        Y, tail = len(self.labels), self.native.tail()
        _, boundaries, _ = self._layout
        ends = tail[Y * Y : Y * Y + 2 * Y] if boundaries else np.zeros(2 * Y)
        tied = tail[Y * Y + 2 * Y * boundaries :]
        return Ends(tail[: Y * Y].reshape(Y, Y), ends[:Y], ends[Y:], tied)


@dataclass(frozen=True, eq=False)
class LiveScores:
    """The scores of a resident model; they change when it learns.

    Attributes
    ----------
    labels, extractor, trans, start, stop, states, tied
        As those of `LinearScores`.
    resident : Resident
    least : float
        Weights of attributes below this absolute value count as zero.
    by_label : bool
        Whether edge attributes are numbered by previous label, in the second node section.
    """

    labels: tuple[str, ...]
    extractor: FeatureExtractor
    trans: Float64
    start: Float64
    stop: Float64
    states: StateSpace | None
    tied: Float64
    resident: Resident
    least: float = 0.0
    by_label: bool = False

    @property
    def has_edges(self) -> bool:
        """Whether there are edge attributes."""
        return self.resident.edge_index.size > 0

    def score(self, sentences: Sequence[Any], n_threads: int) -> Scored:
        """Score sentences under the present weights; the caller holds the lock."""
        model, Y = self.resident, len(self.labels)
        x = self.extractor.encode(sentences, model.index, model.edge_index)
        score, last = model.native.score, len(model.sizes) - 1
        model.n_scored += len(x.indptr) - 1
        emit = score(
            0, *_with_rows(x.indptr, x.ids, x.values, model.sizes[0]), 1, self.least, n_threads
        )
        edge = None
        if x.edge_indptr is not None and x.edge_ids is not None:
            section, group = (1, Y) if self.by_label else (last, 1)
            n = model.sizes[section] // group
            rows = _with_rows(x.edge_indptr, x.edge_ids, x.edge_values, n)
            edge = score(section, *rows, group, 0.0, n_threads).reshape(-1, Y, Y)
        return Scored(x.offsets, emit.reshape(-1, Y), edge)

    def to_scores(self) -> LinearScores:
        """Copy the present weights into arrays, without those that are zero or too small."""
        model, Y = self.resident, len(self.labels)
        with model.lock:
            edge_rows = model.rows(1 if self.by_label else len(model.sizes) - 1)
            edge_rows = edge_rows.reshape(-1, Y * Y)
            has_edges = len(edge_rows) > 0
            scores = LinearScores(
                labels=self.labels,
                extractor=self.extractor,
                index=model.index,
                rows=_full_rows(model.rows(0)),
                names=Names(*model.index.names()),
                trans=self.trans,
                start=self.start,
                stop=self.stop,
                edge_index=model.edge_index if has_edges else None,
                edge_rows=_full_rows(edge_rows) if has_edges else None,
                edge_names=Names(*model.edge_index.names()) if has_edges else None,
                states=self.states,
                tied=self.tied,
            ).without_zeros()
        if not self.least:
            return scores
        return scores.keep(np.abs(scores.rows.weights) >= self.least)


def _with_rows(
    indptr: Int64, ids: npt.NDArray[np.int32], values: Float32 | None, n: int
) -> tuple[Int64, npt.NDArray[np.int32], Float32 | None]:
    """Leave out attributes that have been read but not learnt from, as by a call that failed."""
    if len(ids) == 0 or ids.max() < n:
        return indptr, ids, values
    return keep_attributes(indptr, ids, values, ids < n)


def keep_attributes(
    indptr: Int64,
    ids: npt.NDArray[np.int32],
    values: Float32 | None,
    kept: npt.NDArray[np.bool_],
) -> tuple[Int64, npt.NDArray[np.int32], Float32 | None]:
    """Leave out attributes of tokens, in CSR form."""
    before = np.concatenate([[0], np.cumsum(kept)])
    return before[indptr], ids[kept], None if values is None else values[kept]


def _full_rows(weights: Float32) -> Rows:
    A, K = weights.shape
    cols = np.tile(np.arange(K, dtype=np.uint16), A)
    return Rows(np.arange(A + 1, dtype=np.int64) * K, cols, weights.ravel())


def _copy_index(index: _native.Index) -> _native.Index:
    return index.keep(np.ones(index.size, dtype=np.bool_))  # shares its table until it grows
