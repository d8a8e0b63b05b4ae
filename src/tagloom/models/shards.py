"""A shard: some files of a corpus, from which a linear tagger learns together with other shards.

Training has three phases, each a call to all shards by an engine of `tagloom.cluster`:

1. `LinearShard.read` counts attributes and summarises labels; the results are merged in the order
   of the shards, so attributes get the numbers that one process would give them.
2. `LinearShard.lay_out` finds which attributes occur with which labels; merged, they are the layout
   of θ.
3. `LinearShard.prepare` lays out the sentences; `evaluate` and `learn` take θ and have no side
   effects.

A shard uses only the weights of its own attributes, and exchanges only these. This file runs on
workers; `sharded` is the other side.
"""

from __future__ import annotations

import pickle
import re
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native, features
from tagloom.errors import TagloomError
from tagloom.features import Encoded, FeatureExtractor, Templates
from tagloom.models.constraints import Constraints
from tagloom.models.data import (
    Gold,
    ReadLabels,
    check_not_empty,
    digest,
    number_labels,
    read_dev,
    read_labels,
)
from tagloom.models.layouts import Layout
from tagloom.models.reading import TrainingData, WarmStart, default_features
from tagloom.models.resident import keep_attributes
from tagloom.models.summaries import Summary
from tagloom.scores import Names
from tagloom.sequences.sources import Files
from tagloom.trellis import StateSpace

if TYPE_CHECKING:
    from tagloom.models.linear import LinearTagger
    from tagloom.training.online import OnlineLearner

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Tokens that are read at once: about 1 KB each as Python objects.
_PART = 100_000
# Tokens in one objective. Pieces do not depend on memory, so neither does any bit of the result.
_PIECE = 1_000_000
# Bytes of an objective: for each attribute of a token, and for each token.
_BYTES = 10, 40


class Facts(NamedTuple):
    """The result of `LinearShard.read`: what the merged shards need to know of one.

    Attributes
    ----------
    keys, counts : ndarray
        Fingerprint and number of occurrences of each attribute.
    edge_keys, edge_counts : ndarray
        The same of edge attributes.
    features : object
        What ``features="auto"`` was resolved to.
    extractor : FeatureExtractor or None
        None without sentences.
    summary : Summary
    squares : float
        Sum of the squared values of all attributes of all tokens.
    digest : str
    """

    keys: npt.NDArray[np.uint64]
    counts: Int64
    edge_keys: npt.NDArray[np.uint64]
    edge_counts: Int64
    features: Any
    extractor: FeatureExtractor | None
    summary: Summary
    squares: float
    digest: str


class Pattern(NamedTuple):
    """Which attributes occur with which columns: pairs of local number and column, without order.

    Attributes
    ----------
    nodes, edges : (attributes, columns)
        None if every attribute has every column.
    tail : ndarray of bool
        Which weights of transitions are free.
    """

    nodes: tuple[npt.NDArray[np.int32], npt.NDArray[np.uint16]] | None
    edges: tuple[npt.NDArray[np.int32], npt.NDArray[np.uint16]] | None
    tail: Bools


class Plan(NamedTuple):
    """What phase 2 needs of the whole corpus.

    Attributes
    ----------
    names : list of str
        The labels.
    takes_all : bool
        Whether every attribute has a weight for every label.
    extractor : FeatureExtractor
    states : StateSpace or None
    constraints : Constraints
    mean_square : float
        As in `TrainingData`.
    """

    names: list[str]
    extractor: FeatureExtractor
    takes_all: bool
    states: StateSpace | None
    constraints: Constraints
    mean_square: float


class Learnt(NamedTuple):
    """The result of `LinearShard.learn`: one pass of an online learner over one shard.

    Attributes
    ----------
    theta, squares : ndarray
        The weights of the shard, and the state of the rule for each, if it has one.
    mean : ndarray
        The mean of the weights during the pass; empty if it is not needed.
    loss : float
        The sum over sentences.
    """

    theta: Float64
    squares: Float64
    mean: Float64
    loss: float


@dataclass
class Piece:
    """Encoded sentences with their labels.

    Attributes
    ----------
    encoded : Encoded
    labels : list of ReadLabels
        Of each part that was read.
    """

    encoded: Encoded
    labels: list[ReadLabels]

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return len(self.encoded.indptr) - 1

    @property
    def n_bytes(self) -> int:
        """Estimated memory of the objective."""
        edges = self.encoded.edge_ids
        n = len(self.encoded.ids) + (0 if edges is None else len(edges))
        return _BYTES[0] * n + _BYTES[1] * self.n_tokens

    def load(self) -> Piece:
        """Return the piece; see `_Spilled.load`."""
        return self


class LinearShard:
    """Some files of a corpus, for a linear tagger.

    Parameters
    ----------
    tagger : LinearTagger
        Without weights; its parameters matter.
    source : Files
    max_bytes : float or None
        Memory for the objectives of this shard; those that need more are laid out in every pass.
    n_threads : int
    """

    def __init__(
        self, tagger: LinearTagger, source: Files, max_bytes: float | None, n_threads: int
    ) -> None:
        self.tagger = tagger.set_params(n_threads=n_threads)
        self.source = source
        self.max_bytes = np.inf if max_bytes is None else max_bytes
        self.n_threads = n_threads
        self.index, self.edge_index = _native.Index(), _native.Index()
        self.extractor: FeatureExtractor | None = None
        self.pieces: list[_Spilled | Piece] = []

    # ---- phase 1 ---------------------------------------------------------------------------

    def read(self, spec: Any) -> Facts:
        """Read the files and number the attributes of all tokens.

        Parameters
        ----------
        spec : object
            The value of ``features=``; "auto" is resolved by the labels of the first part.
        """
        self.index, self.edge_index = _native.Index(), _native.Index()
        self.extractor, self.pieces = None, []
        summary, squares, digests = Summary(), 0.0, []
        memory = 0.0
        parts: list[tuple[Encoded, ReadLabels]] = []

        def close() -> None:
            nonlocal memory
            piece = Piece(_join([encoded for encoded, _ in parts]), [read for _, read in parts])
            memory += piece.n_bytes
            self.pieces.append(piece if memory <= self.max_bytes else _Spilled.of(piece))
            parts.clear()

        n = 0
        for path, sentences in parts_of(self.source):
            with Located(path, sentences):
                encoded, read, part_summary, spec = self._read_part(path, sentences, spec)
            summary.add(part_summary)
            squares += _squares(encoded)
            numbers = read.numbers
            rows = [] if numbers is not None else [ascii(read.labellings)]
            digests.append(digest([*read.number_of, *rows], *encoded, numbers))
            if n and n + len(encoded.indptr) - 1 > _PIECE:
                close()
                n = 0
            parts.append((encoded, read))
            n += len(encoded.indptr) - 1
        if parts:
            close()
        return Facts(
            self.index.keys(),
            self.index.counts(),
            self.edge_index.keys(),
            self.edge_index.counts(),
            spec,
            self.extractor,
            summary,
            squares,
            digest(digests, self.index.keys(), self.edge_index.keys()),
        )

    def _read_part(
        self, path: str, sentences: list[Any], spec: Any
    ) -> tuple[Encoded, ReadLabels, Summary, Any]:
        tagger = self.tagger
        check_not_empty(sentences, None)
        read = read_labels(sentences, sentences, None, may_be_open=tagger.takes_open_labels)
        if tagger.labels is not None:
            number_labels(read, tagger.labels)  # raises at a label that is not among them
        if self.extractor is None:
            spec = default_features(spec, sentences, list(read.number_of))
            self.extractor = features.make(spec)
        extractor = self.extractor
        options = {"n_threads": self.n_threads} if isinstance(extractor, Templates) else {}
        encoded = extractor.encode(sentences, self.index, self.edge_index, grow=True, **options)
        if isinstance(extractor, Templates):
            extractor.check_labels_unread(sentences, read.labellings)
        order = tagger.order if tagger.states in ("auto", "seen") else 1
        summary = Summary.of(
            sentences,
            read.labellings,
            read.number_of,
            constraints=tagger.constraints,
            order=order,
        )
        if read.numbers is not None:  # the lists of labels are not needed any more
            read = read._replace(labellings=[])
        return encoded, read, summary, spec

    # ---- phase 2 ---------------------------------------------------------------------------

    def lay_out(self, kept: Bools | None, edge_kept: Bools | None, plan: Plan) -> Pattern:
        """Find which attributes occur with which labels.

        Parameters
        ----------
        kept, edge_kept : ndarray of bool or None
            Which attributes of this shard occur often enough in all shards; None for all.
        plan : Plan
        """
        self.plan = plan
        self.kept, self.edge_kept = kept, edge_kept
        if kept is not None:
            self.index = self.index.keep(kept)
        if edge_kept is not None:
            self.edge_index = self.edge_index.keep(edge_kept)
        self.tagger.set_params(combinations="all" if plan.takes_all else "seen")
        nodes: list[Any] = []
        edges: list[Any] = []
        tail: Bools | None = None
        for piece in self.pieces or [Piece(NO_SENTENCES, [])]:
            data = self._data(piece.load())
            objective, layout = self.tagger._make_objective(data, pattern_only=True)
            free = objective.mask()
            W, E = len(layout.cols), layout.transitions_at
            if not plan.takes_all:
                nodes.append(_pairs(layout.ptr, layout.cols, free[:W]))
                edges.append(_pairs(layout.edge_ptr, layout.edge_cols, free[W:E]))
            tail = free[E:] if tail is None else tail | free[E:]
        assert tail is not None
        if plan.takes_all:
            return Pattern(None, None, tail)
        return Pattern(_unique_pairs(nodes), _unique_pairs(edges), tail)

    def _data(self, piece: Piece, start: WarmStart | None = None) -> TrainingData:
        """Return a piece in the form that the tagger makes an objective of."""
        plan, encoded = self.plan, piece.encoded
        if self.kept is not None:
            encoded = _without(encoded, self.kept, is_edge=False)
        if self.edge_kept is not None:
            encoded = _without(encoded, self.edge_kept, is_edge=True)
        gold = _join_gold([number_labels(read, plan.names) for read in piece.labels], plan.names)
        return TrainingData(
            names=plan.names,
            extractor=plan.extractor,
            index=self.index,
            edge_index=self.edge_index,
            encoded=encoded,
            gold=gold,
            weight=None,
            states=plan.states,
            constraints=plan.constraints,
            allowed=None,
            sets=gold.sets,
            start=start,
            cost=self.tagger._costs(plan.names),
            mean_square=plan.mean_square,
        )

    # ---- phase 3 ---------------------------------------------------------------------------

    def prepare(self, layout: Layout, positions: Int64, free: Bools) -> None:
        """Lay out the sentences for learning.

        Parameters
        ----------
        layout : Layout
            Of the weights of this shard: those of its attributes, and of all transitions.
        positions : ndarray, shape (n,)
            The place of each of them in θ.
        free : ndarray of bool, shape (n,)
            Which of them are learned.
        """
        self.positions, self.free = positions, free
        self._buffers: tuple[Float64, Float64, Float64] | None = None
        self.start = None if self.plan.takes_all else Required.of(layout).as_start(self.plan)
        self.objectives: list[_native.LinearObjective | None] = []
        memory = 0.0
        for i, piece in enumerate(self.pieces):
            memory += piece.n_bytes
            if memory > self.max_bytes:
                self.objectives.append(None)
                continue
            self.objectives.append(self._make_objective(i))
            self.pieces[i] = _Spilled(piece.n_bytes)  # the objective has its own copy

    def _make_objective(self, i: int) -> _native.LinearObjective:
        objective, _ = self.tagger._make_objective(self._data(self.pieces[i].load(), self.start))
        objective.set_mask(self.free)
        return objective

    @property
    def n_pieces(self) -> int:
        """Number of pieces."""
        return len(self.objectives)

    def objective(self, i: int) -> _native.LinearObjective:
        """Return the objective of piece i; one that is on disk is laid out anew."""
        objective = self.objectives[i]
        return self._make_objective(i) if objective is None else objective

    def _all_objectives(self) -> Iterator[_native.LinearObjective]:
        return map(self.objective, range(self.n_pieces))

    def set_mask(self, free: Bools) -> None:
        """Choose the weights that are learned.

        Parameters
        ----------
        free : ndarray of bool
            For all of θ.
        """
        self.free = free[self.positions]
        for objective in self.objectives:
            if objective is not None:
                objective.set_mask(self.free)

    def evaluate(self, theta: Float64) -> tuple[float, Float64]:
        """Return the loss of the sentences and its gradient, for the weights of this shard.

        The gradient is valid until the next call.
        """
        if self._buffers is None:  # the pages of new arrays would take a fifth of the time
            n = len(self.positions)
            self._buffers = np.empty(n), np.empty(n), np.empty(n if self.n_pieces > 1 else 0)
        own, total, grad = self._buffers
        np.take(theta, self.positions, out=own, mode="clip")
        if not self.n_pieces:
            total[:] = 0
        loss = 0.0
        for i, objective in enumerate(self._all_objectives()):
            loss += objective.evaluate(own, grad if i else total, self.n_threads)
            if i:
                total += grad
        return loss, total

    def learn(self, theta: Float64, squares: Float64, epoch: int, with_mean: bool) -> Learnt:
        """Learn from the sentences in one pass of the tagger's online learner.

        Parameters
        ----------
        theta, squares : ndarray
            Weights and state of the rule to start from, for all of θ; no squares in the first pass.
        epoch : int
            The number of passes before this one.
        with_mean : bool
            Whether the mean of the weights during the pass is needed.
        """
        own = theta[self.positions]
        mean, n = np.zeros(len(own) if with_mean else 0), 0
        rule = np.where(self.free, squares[self.positions], np.inf) if len(squares) else squares
        loss, settings = 0.0, self._data(Piece(NO_SENTENCES, []))
        for objective in self._all_objectives():
            learner: Any = self.tagger._optimiser(settings, objective, None)
            loss += _learn(learner, own, rule, epoch)
            if with_mean:
                mean += objective.n_sentences * learner.theta()
                n += objective.n_sentences
            state = learner.state()
            own, rule = state["theta"], state["squares"]
        if with_mean:
            mean = mean / n if n else own
        return Learnt(own, rule, mean, loss)

    # ---- development data ------------------------------------------------------------------

    def read_dev(
        self,
        source: Files,
        keys: npt.NDArray[np.uint64],
        edge_keys: npt.NDArray[np.uint64],
        layout: Layout,
    ) -> int:
        """Read development data; return the number of tokens.

        Parameters
        ----------
        source : Files
        keys, edge_keys : ndarray
            The attributes of all shards.
        layout : Layout
            Of all of θ. The shard keeps only the rows of attributes that occur here.
        """
        index, edge_index = _native.Index.from_keys(keys), _native.Index.from_keys(edge_keys)
        parts: list[Encoded] = []
        self.dev_sentences: list[Any] = []
        self.dev_gold: list[list[str]] = []
        for path, sentences in parts_of(source):
            with Located(path, sentences):
                _, gold = read_dev(sentences)
            parts.append(self.plan.extractor.encode(sentences, index, edge_index))
            self.dev_sentences += sentences
            self.dev_gold += gold
        encoded = _join(parts or [NO_SENTENCES])
        ids, encoded = _with_used(encoded, is_edge=False)
        edge_ids, self.dev_encoded = _with_used(encoded, is_edge=True)
        self.dev_positions, own_layout = layout.rows_of(ids, edge_ids)
        self.dev_data = replace(
            self._data(Piece(NO_SENTENCES, [])),
            layout=own_layout,
            index=_native.Index.from_keys(keys[ids]),
            edge_index=_native.Index.from_keys(edge_keys[edge_ids]),
        )
        # Scores have names for explanations only; these attributes are known by their keys.
        self.dev_data.attributes = _no_names(len(ids))
        self.dev_data.edge_attributes = _no_names(len(edge_ids))
        return len(self.dev_encoded.indptr) - 1

    def count_dev(self, theta: Float64) -> tuple[int, int, int]:
        """Count matched, gold and predicted items of the development data; see `f1_of`."""
        own = theta[self.dev_positions]
        return self.tagger.count_dev(
            own, self.dev_data, self.dev_sentences, self.dev_encoded, self.dev_gold
        )

    # ---- the end ---------------------------------------------------------------------------

    def names(self, is_own: Bools, is_own_edge: Bools) -> tuple[tuple[bytes, Int64], ...]:
        """Return the names of some attributes and of some edge attributes."""
        return self.index.keep(is_own).names(), self.edge_index.keep(is_own_edge).names()


def _learn(learner: OnlineLearner, theta: Float64, squares: Float64, epoch: int) -> float:
    """Do one pass from given weights; return the sum of losses."""
    state = dict(learner.state())
    state["theta"] = theta
    if len(squares):
        state["squares"] = squares
    state["counters"] = np.array([epoch, 0, 0])
    learner.restore(state)
    loss, _ = learner._epoch()
    return loss


class _Spilled:
    """A piece in a file without a name, or one that is gone."""

    def __init__(self, n_bytes: int, file: Any = None) -> None:
        self.n_bytes, self._file = n_bytes, file
        if file is not None:
            weakref.finalize(self, file.close)

    @classmethod
    def of(cls, piece: Piece) -> _Spilled:
        """Write a piece to disk."""
        file = tempfile.TemporaryFile(prefix="tagloom-")  # noqa: SIM115 (closed with the piece)
        pickle.dump(piece, file, protocol=5)
        file.flush()
        return cls(piece.n_bytes, file)

    def load(self) -> Piece:
        """Read the piece."""
        self._file.seek(0)
        piece: Piece = pickle.load(self._file)
        return piece


def parts_of(source: Files) -> Iterator[tuple[str, list[Any]]]:
    """Yield the sentences of files in parts; a part never crosses the end of a file."""
    for path in source.paths:
        for part in source.of(path).parts(_PART):
            yield path, part


class Located:
    """Adds file and line to the errors about sentences of a file."""

    def __init__(self, path: str, sentences: Sequence[Any]) -> None:
        self._path, self._sentences = path, sentences

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, TagloomError):
            return
        place = re.match(r"sentence (\d+)(?:, token (\d+))?", error.where or "")
        if place is None:
            error.where = self._path if error.where is None else f"{self._path}: {error.where}"
            return
        sentence = self._sentences[int(place[1])]
        line = sentence.line if place[2] is None else sentence.line_of(int(place[2]))
        error.where = self._path if line is None else f"{self._path}:{line}"


class Required:
    """Attributes and columns that get a weight even if a shard has no token with both.

    It takes the place of the layout of a `WarmStart`, whose weights an objective keeps.

    Parameters
    ----------
    nodes, edges : (attributes, columns)
    """

    def __init__(self, nodes: Any, edges: Any) -> None:
        self.nodes, self.edges = nodes, edges

    @classmethod
    def of(cls, layout: Layout) -> Required:
        """Require all weights of a layout."""
        return cls(_listed(layout.ptr, layout.cols), _listed(layout.edge_ptr, layout.edge_cols))

    def as_start(self, plan: Plan) -> WarmStart:
        """Return it in the form that `LinearTagger._make_objective` takes."""
        layout: Any = self
        index = _native.Index()
        return WarmStart(plan.extractor, index, index, layout, np.empty(0))

    def pairs(self, labels: list[str]) -> tuple[Any, Any]:
        """Return the pairs of nodes and of edges; see `Layout.pairs`."""
        return self.nodes, self.edges if len(self.edges[0]) else None

    def carry(self, values: npt.NDArray[Any], new: Layout) -> npt.NDArray[Any]:
        """Return 0 for every weight; the mask comes from the merged shards."""
        return np.zeros(new.n_weights, values.dtype)


def _listed(ptr: Int64, cols: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """List the attribute and the column of each entry of rows."""
    attributes = np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr))
    return attributes, cols.astype(np.uint16)


def _pairs(
    ptr: Int64, cols: npt.NDArray[Any], free: Bools
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """List the attribute and the column of each free entry of rows."""
    attributes, columns = _listed(ptr, cols)
    return attributes[free], columns[free]


def _unique_pairs(parts: list[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Join lists of pairs; a pair that several have is listed once."""
    if len(parts) == 1:
        attributes, columns = parts[0]
        return attributes, columns
    attributes, columns = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    pairs = np.unique(attributes.astype(np.int64) << 16 | columns)
    return (pairs >> 16).astype(np.int32), (pairs & 0xFFFF).astype(np.uint16)


def _join(parts: list[Encoded]) -> Encoded:
    """Join encoded sentences, one part after another."""
    if len(parts) == 1:
        return parts[0]

    def chain(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        if all(array is None for array in arrays):
            return None
        if name.endswith(("offsets", "indptr")):
            ends = np.cumsum([0, *(array[-1] for array in arrays)])
            shifted = [array[1:] + end for array, end in zip(arrays, ends, strict=False)]
            return np.concatenate([[0], *shifted]).astype(np.int64)
        if name.endswith("values"):  # parts without values have 1
            ids = [getattr(part, name.replace("values", "ids")) for part in parts]
            arrays = [
                np.ones(len(own), np.float32) if array is None else array
                for array, own in zip(arrays, ids, strict=True)
            ]
        return np.concatenate(arrays)

    return Encoded(*(chain(name) for name in Encoded._fields))


def _join_gold(parts: list[Gold], names: list[str]) -> Gold:
    """Join the labels of parts, whose sets are numbered separately."""
    if len(parts) == 1:
        return parts[0]
    numbers, sets, n = [np.empty(0, np.int32)], [np.ones((1, len(names)), np.bool_)], 0
    for gold in parts:
        # Set 0 has all labels in every part; set k ≥ 1 of this part becomes set n + k.
        numbers.append(np.where(gold.numbers < -1, gold.numbers - n, gold.numbers))
        sets.append(gold.sets[1:])
        n += len(gold.sets) - 1
    return Gold(names, np.concatenate(numbers).astype(np.int32), np.concatenate(sets))


def _without(encoded: Encoded, kept: Bools, *, is_edge: bool) -> Encoded:
    """Leave out rare attributes and renumber the others."""
    prefix = "edge_" if is_edge else ""
    indptr, ids, values = (getattr(encoded, prefix + name) for name in ("indptr", "ids", "values"))
    if indptr is None:
        return encoded
    indptr, ids, values = keep_attributes(indptr, ids, values, kept[ids])
    numbers = (np.cumsum(kept) - 1).astype(np.int32)
    new: dict[str, Any] = {
        prefix + "indptr": indptr,
        prefix + "ids": numbers[ids],
        prefix + "values": values,
    }
    return encoded._replace(**new)


def _no_names(n: int) -> Names:
    return Names(b"", np.zeros(n + 1, np.int64))


def _with_used(encoded: Encoded, *, is_edge: bool) -> tuple[npt.NDArray[np.int32], Encoded]:
    """Return the attributes that occur, and the tokens with attributes numbered among these."""
    prefix = "edge_" if is_edge else ""
    ids = getattr(encoded, prefix + "ids")
    if ids is None:
        return np.empty(0, np.int32), encoded
    used, numbers = np.unique(ids, return_inverse=True)
    new: dict[str, Any] = {prefix + "ids": numbers.astype(np.int32)}
    return used.astype(np.int32), encoded._replace(**new)


def _squares(encoded: Encoded) -> float:
    if encoded.values is None:
        return float(len(encoded.ids))
    return float(np.square(encoded.values, dtype=np.float64).sum())


NO_SENTENCES = Encoded(np.zeros(1, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32), None)
