"""Maximum entropy Markov models: token classifiers that see the previous label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import ParameterError
from tagloom.features import FeatureExtractor
from tagloom.models.capabilities import Capability
from tagloom.models.layouts import Layout
from tagloom.models.linear import LinearFitted
from tagloom.models.local import LocalTagger
from tagloom.parameters import choice, flag, number
from tagloom.records import replace
from tagloom.scores import LinearScores, Rows, Scored
from tagloom.scores.parts import Part, Parts
from tagloom.trellis import StateSpace, Trellis
from tagloom.trellis.machine import ALL_THREADS

if TYPE_CHECKING:
    from tagloom.models.reading import Known, TrainingData
    from tagloom.models.resident import LiveScores, Resident
    from tagloom.models.resident import Part as TrainingPart

Float64 = npt.NDArray[np.float64]

# Sparse rows, one per token: their offsets or lengths, ids, and values (None if all are 1).
Sparse: TypeAlias = tuple[
    npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32] | None
]


class LocalFitted(LinearFitted):
    """The fitted state of a model that is normalised per position."""

    @cached_property
    def normaliser(self) -> _native.LocalNormaliser:
        """The native object that turns scores into log probabilities."""
        return make_normaliser(self.source)


class MEMM(LocalTagger):
    r"""A maximum entropy Markov model: local classifiers in a chain, decoded by Viterbi.

    Each label depends on the features of its token and on the previous label, for which training
    uses the gold label::

        s_t(y_prev, y)    = emit[t, y] + trans[y_prev, y] + edge[t, y_prev, y]
        Pr(y_t = y | y_prev, x) = exp(s_t(y_prev, y)) / Σ_y' exp(s_t(y_prev, y'))
        Pr(y | x)         = Π_t Pr(y_t | y_{t-1}, x)

        loss="log"         Σ_t −log Pr(y_t | y_{t-1}, x) + l2·‖θ‖²
        loss="perceptron"  θ ← θ + φ(x, t, y_{t-1}, y_t) − φ(x, t, y_{t-1}, ŷ)
        loss="hinge"       ½‖θ‖² + C·Σ_t max_ŷ [1{ŷ ≠ y_t} + s_t(y_{t-1}, ŷ) − s_t(y_{t-1}, y_t)]

    Edge templates combine the previous label with the input, as in McCallum, Freitag and Pereira
    (2000), whose model has no other features. The best labels are those with the largest Pr(y | x),
    the score of a path in the trellis is its logarithm, and marginals follow from the local
    distributions. This holds for every loss. Raw scores decode worse, since local learners never
    compare them across previous labels (loss="hinge" on the development data of EWT: 94.87 instead
    of 95.03).

    Each position is normalised separately. A label that leaves the next one little choice therefore
    passes on its probability, whatever the input is. This is the label bias of Lafferty, McCallum
    and Pereira (2001), which a `CRF` does not have.

    Attributes
    ----------
    labels_, scores_, scheme_, history_, training_
        As for `CRF`; stop weights are 0.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
    >>> y = [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]]
    >>> tagger = tl.MEMM(features=["word", "edge(word)"]).fit(X, y)
    >>> tagger.predict([["they", "can", "swim"], ["fish", "fish"]])
    [['N', 'V', 'V'], ['N', 'V']]

    Scores are log probabilities, so the probabilities of all paths sum to one:

    >>> trellis = tagger.trellis([["fish", "fish"]])[0]
    >>> round(abs(trellis.log_partition()), 5)
    0.0
    """

    # The next label is learned from each gold label, so all of them must be known.
    capabilities = LocalTagger.capabilities - {Capability.OPEN_LABELS}

    loss: str = choice(
        default="log",
        details='Only "log" is trained to give probabilities. Those of the other losses are the '
        "softmax of their scores, whose scale is arbitrary.",
    )
    C: float = number(default=0.3)
    constrain_training: bool = flag(
        default=False,
        help="Whether the local distributions leave out transitions that constraints forbid.",
        details="The labels that may come next then share all probability, in training and in "
        "tagging. Otherwise the allowed paths of a sentence share it, in tagging only.",
    )

    _state_type = LocalFitted

    def _read(
        self, X: Any, y: Any, sample_weight: Any, start: Known | None, *, in_parts: bool = False
    ) -> TrainingData:
        data = super()._read(X, y, sample_weight, start, in_parts=in_parts)
        if data.states is not None and data.states.kind != "labels":
            raise ParameterError(
                parameter="constraints",
                expected="constraints on pairs of adjacent labels, with constrain_training",
                found=f"{data.states!r}, which looks further back",
                hint="Leave constrain_training out.",
            )
        return data

    def _make_objective(
        self, data: TrainingData, *, pattern_only: bool = False
    ) -> tuple[_native.LinearObjective, Layout]:
        """Make the objective of tokens as separate sentences, with the previous label an attribute.

        Attributes are numbered so that the weights are in the order of `Layout`: node attributes;
        (edge attribute, y_prev); y_prev, whose rows are the transitions; the start of a sentence;
        and the stop, which no token has.
        """
        x, gold, Y = data.encoded, data.gold.numbers, len(data.names)
        E = 0 if x.edge_indptr is None else data.edge_index.size
        transitions_at = data.index.size + E * Y
        before = _labels_before(data)
        indptr, ids, values = _token_attributes(data, before, transitions_at)
        takes_all = self._takes_all(transitions_at * Y)
        objective = _native.LinearObjective(
            np.arange(len(gold) + 1),
            _native.Attributes(
                indptr, ids, transitions_at + Y + 2, values, _required_pairs(data, transitions_at)
            ),
            _token_labels(data, before),
            weight=None if data.weight is None else np.repeat(data.weight, np.diff(x.offsets)),
            all_combinations=takes_all,
            boundaries=False,
            float32=self._learns_in_float32,
            threads=self.n_threads or ALL_THREADS,
            pattern_only=pattern_only,
        )
        layout, start = _LocalLayout.of_tokens(data, objective), data.start
        free = objective.mask()
        transitions = free[layout.transitions_at :]
        transitions[:] = False  # the stop too, and the objective's own, which single tokens lack
        if data.extractor.transitions:
            transitions[: Y * Y + Y] = takes_all
            transitions[before * Y + gold] = True
            if start is not None:
                free |= start.layout.carry(start.theta != 0, layout)
        objective.set_mask(free)
        return objective, layout

    # A resident model has three node sections: node attributes; (edge attribute, y_prev); y_prev,
    # with the start of a sentence as the last.
    _n_node_sections = 3

    def _part(self, data: TrainingData) -> TrainingPart:
        from tagloom.models.resident import Part as TrainingPart

        x, Y, before = data.encoded, len(data.names), _labels_before(data)
        A, E = data.index.size, data.edge_index.size
        attributes = _token_attributes(
            data, before, A + E * Y, with_previous=data.extractor.transitions
        )
        indptr, ids, values = attributes
        return TrainingPart(
            np.arange(len(before) + 1),
            _native.Attributes(indptr, ids, A + E * Y + Y + 1, values),
            [A, E * Y, Y + 1, 0],
            _token_labels(data, before),
            weight=None if data.weight is None else np.repeat(data.weight, np.diff(x.offsets)),
            boundaries=False,
            renumber=_renumber,
        )

    def _free_transitions(self, extractor: FeatureExtractor, takes_all: bool) -> str:
        return "none"  # they are attributes here

    def _start_weights(
        self, resident: Resident, scores: LinearScores, scale: float, steps: int, takes_all: bool
    ) -> None:
        Y, edges = len(scores.labels), scores.edge_rows
        E = 0 if edges is None else edges.n_attributes
        resident.grow([scores.index.size, E * Y, Y + 1, 0], takes_all)
        resident.start_rows(0, scores.rows, scale)
        if edges is not None:
            pairs = edges.attributes * Y + edges.cols // Y
            lengths = np.bincount(pairs, minlength=E * Y)
            ptr = np.concatenate([[0], np.cumsum(lengths)])
            resident.start_rows(1, Rows(ptr, edges.cols % Y, edges.weights), scale)
        trans = np.vstack([scores.trans, scores.start]).astype(np.float32)
        rows = Rows(np.arange(Y + 2) * Y, np.tile(np.arange(Y), Y + 1), trans.ravel())
        resident.start_rows(2, rows, scale)
        resident.start_tail(np.zeros(Y * Y), steps, None, False, "none")

    def _live_scores(self, resident: Resident, data: TrainingData) -> LiveScores:
        previous = resident.rows(2).astype(np.float64)  # [Y + 1, Y]
        return replace(
            super()._live_scores(resident, data),
            trans=previous[:-1],
            start=previous[-1],
            by_label=True,
        )

    def _normalised(self, scores: LinearScores | LiveScores, scored: Scored) -> Scored:
        r"""Turn scores into log probabilities.

        That of a path is Σ_t s_t(y_{t-1}, y_t) − log Σ_y exp(s_t(y_{t-1}, y)). The second term
        depends only on position t − 1 and its label, so it is subtracted from ``emit`` there.
        """
        normaliser, threads = make_normaliser(scores), self.n_threads or ALL_THREADS
        emit = normaliser.normalise(scored.emit, scored.offsets, scored.edge, threads)
        return scored._replace(emit=emit)

    def score_parts(self, sentence: Any, trellis: Trellis) -> Parts:
        """Name the terms of the scores and the normaliser, for `explain`."""
        scored = self.scores_.score([sentence], 1)
        normaliser = self._normalised(self.scores_, scored).emit - scored.emit.astype(np.float64)
        raw = self.scores_.parts(sentence)

        def of_transition(t: int, y_prev: int | None, y: int) -> Iterator[Part]:
            yield from raw(t, y_prev, y)
            yield Part("normaliser", float(normaliser[t, y]))

        return of_transition


@dataclass(frozen=True)
class _LocalLayout(Layout):
    """The layout of a linear model, followed by Y·Y transitions that single tokens never use."""

    @classmethod
    def of_tokens(cls, data: TrainingData, objective: _native.LinearObjective) -> _LocalLayout:
        """Return the layout of an objective of tokens; see `MEMM._make_objective`."""
        Y, A = len(data.names), data.index.size
        ptr, cols, _ = objective.rows()
        transitions_at = len(ptr) - 1 - (Y + 2)
        edge_ptr = ptr[A : transitions_at + 1]  # [E·Y + 1]
        labels_before = np.repeat(np.arange(transitions_at - A) % Y, np.diff(edge_ptr))
        return cls(
            tuple(data.names),
            ptr[: A + 1],
            cols[: ptr[A]],
            edge_ptr[::Y] - edge_ptr[0],
            (labels_before * Y + cols[ptr[A] : ptr[transitions_at]]).astype(np.uint16),
            True,
        )

    @property
    def n_weights(self) -> int:
        """The length of θ."""
        return super().n_weights + len(self.labels) ** 2


def make_normaliser(scores: LinearScores | LiveScores) -> _native.LocalNormaliser:
    """Make the native object that turns scores into log probabilities; −inf is forbidden."""
    trans, start = scores.trans, scores.start
    if scores.states is not None:
        may_follow, may_begin = _allowed(scores.states)
        trans = np.where(may_follow, trans, -np.inf)
        start = np.where(may_begin, start, -np.inf)
    return _native.LocalNormaliser(trans, start)


def _allowed(states: StateSpace) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return the allowed transitions [Y, Y] and the allowed first labels [Y]."""
    return states.transitions_allowed, np.asarray(states.initial, dtype=np.bool_)


def _labels_before(data: TrainingData) -> npt.NDArray[np.int32]:
    """Return the label before each token [T]; Y at the start of a sentence."""
    gold = data.gold.numbers
    before = np.empty_like(gold)
    before[1:] = gold[:-1]
    before[data.encoded.offsets[:-1]] = len(data.names)
    return before


def _token_labels(data: TrainingData, before: npt.NDArray[np.int32]) -> _native.Labels:
    """Return the labels of tokens, with those that may follow the label before."""
    sets = allowed = None
    if data.states is not None:
        may_follow, may_begin = _allowed(data.states)
        sets = np.vstack([may_follow, may_begin]).view(np.uint8)  # [Y + 1, Y] after y_prev
        allowed = -1 - before  # set k is −1 − k
    return _native.Labels(data.gold.numbers, len(data.names), sets, allowed)


def _renumber(place: npt.NDArray[np.int64], Y: int, sizes: list[int]) -> list[Any]:
    """Renumber the attributes that contain a label; see `tagloom.models.resident.Part`."""
    before = np.full(Y, -1)  # the old number of each label
    before[place] = np.arange(len(place))
    E = sizes[1] // len(place)
    pairs = np.arange(E)[:, None] * len(place) + before[None, :]
    pairs[:, before < 0] = -1
    return [None, pairs.ravel(), np.append(before, len(place)), None]


def _token_attributes(
    data: TrainingData,
    before: npt.NDArray[np.int32],
    transitions_at: int,
    *,
    with_previous: bool = True,
) -> Sparse:
    """Join the attributes of each token with its previous label and its edge attributes.

    Parameters
    ----------
    data : TrainingData
    before : ndarray, shape (T,)
        The label before each token; Y at the start of a sentence.
    transitions_at : int
        The attribute for the previous label 0.
    with_previous : bool
        Whether the previous label is an attribute.
    """
    x, A, Y = data.encoded, data.index.size, len(data.names)
    parts: list[Sparse] = [(np.diff(x.indptr), x.ids, x.values)]
    if with_previous:
        one_each = np.ones(len(before), np.int64)
        parts.append((one_each, (transitions_at + before).astype(np.int32), None))
    if x.edge_indptr is not None and x.edge_ids is not None:
        n_edges = np.diff(x.edge_indptr)
        inner = np.repeat(before < Y, n_edges)  # an edge needs a previous label
        pairs = A + x.edge_ids[inner] * Y + np.repeat(before, n_edges)[inner]
        values = None if x.edge_values is None else x.edge_values[inner]
        parts.append((np.where(before < Y, n_edges, 0), pairs.astype(np.int32), values))
    return _side_by_side(parts)


def _required_pairs(
    data: TrainingData, transitions_at: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint16]]:
    """List the attributes and labels that get a weight even if they were not seen together.

    These are all transitions, whose rows are full in `Layout`, and the weights of a warm start.
    """
    A, Y = data.index.size, len(data.names)
    attributes = [np.repeat(np.arange(transitions_at, transitions_at + Y + 2), Y)]
    columns = [np.tile(np.arange(Y), Y + 2)]
    if data.start is not None:
        nodes, edges = data.start.layout.pairs(data.names)
        attributes.append(nodes[0])
        columns.append(nodes[1])
        if edges is not None:
            attributes.append(A + edges[0] * Y + edges[1] // Y)
            columns.append(edges[1] % Y)
    return np.concatenate(attributes).astype(np.int32), np.concatenate(columns).astype(np.uint16)


def _side_by_side(parts: list[Sparse]) -> Sparse:
    """Join sparse matrices of row lengths, ids and values, row by row.

    Returns
    -------
    indptr, ids, values
    """
    indptr = np.concatenate([[0], np.cumsum(sum(lengths for lengths, _, _ in parts))])
    ids = np.empty(indptr[-1], dtype=np.int32)
    values = None
    if any(part_values is not None for _, _, part_values in parts):
        values = np.ones(indptr[-1], dtype=np.float32)
    free = indptr[:-1].copy()  # [T] the next free place of each row
    for lengths, part_ids, part_values in parts:
        begins = np.cumsum(lengths) - lengths  # [T] where each row begins in the part
        places = np.repeat(free - begins, lengths) + np.arange(len(part_ids))
        ids[places] = part_ids
        if values is not None and part_values is not None:
            values[places] = part_values
        free += lengths
    return indptr.astype(np.int64), ids, values
