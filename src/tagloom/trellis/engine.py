"""Which native layout answers: `Transitions` has the layouts, the functions choose between them.

Three layouts exist:

    dense       states are labels, or label histories of order k: kernels on scaled probabilities
    candidates  states are labels, or the last two of them, few at each position
                (`batches.Candidates`)
    automaton   any state space: log space

The dense kernels mark each sequence for which scaled probabilities could lose precision, and the
automaton answers for those, so results are exact for all scores. The functions take checked
arrays, return arrays, and leave errors about infeasible sequences to the trellis.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import ShapeError
from tagloom.trellis.batches import Batch, Candidates, take_sequences
from tagloom.trellis.histories import HistorySpace
from tagloom.trellis.states import StateSpace, row_sums

Floats = npt.NDArray[np.floating[Any]]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class Counts(NamedTuple):
    """Expected numbers of events, summed over the sequences of a batch."""

    labels: Float64  #: [Y] positions with label y
    transitions: Float64  #: [Y, Y] neighbours y_prev, y
    start: Float64  #: [Y] sequences that begin with y
    stop: Float64  #: [Y] sequences that end with y
    weights: Float64  #: [K] uses of each weight that the state space ties to its transitions


class Transitions:
    """The scores that all sequences of a model share: transitions, starts, stops. Immutable.

    Attributes
    ----------
    n_labels : int
        Y.
    trans : ndarray, shape (Y, Y), or None
    start, stop : ndarray, shape (Y,), or None
    weights : ndarray, shape (K,), or None
    space : StateSpace or None
        None for the first-order space, which is built only when it is needed.
    labels : tuple of str, or None
        Names of the labels.
    """

    def __init__(
        self,
        n_labels: int,
        labels: tuple[str, ...] | None,
        trans: Floats | None,
        start: Floats | None,
        stop: Floats | None,
        weights: Floats | None,
        space: StateSpace | None,
    ) -> None:
        self.n_labels, self.labels = n_labels, labels
        self.trans, self.start, self.stop, self.weights = trans, start, stop, weights
        self.space = space
        self._dense: _native.Dense | None = None
        self._has_dense = False

    _PARTS = ("n_labels", "labels", "trans", "start", "stop", "weights", "space")

    def __reduce__(self) -> tuple[Any, ...]:  # without the native layouts
        return Transitions, tuple(getattr(self, name) for name in self._PARTS)

    def replaced(self, **changes: Any) -> Transitions:
        """Return a copy with some of the arrays changed."""
        return Transitions(**{name: getattr(self, name) for name in self._PARTS} | changes)

    def over(self, labels: Int32) -> Transitions | None:
        """Return those between some labels; None for state spaces of other kinds."""
        space, weights = self.space, self.weights
        if isinstance(space, HistorySpace):
            space, places = space.over(labels)
            weights = None if weights is None else weights[places]
        elif space is not None:
            return None
        return Transitions(
            len(labels),
            None if self.labels is None else tuple(self.labels[y] for y in labels.tolist()),
            None if self.trans is None else self.trans[np.ix_(labels, labels)],
            None if self.start is None else self.start[labels],
            None if self.stop is None else self.stop[labels],
            weights,
            space,
        )

    def map_scores(self, function: Callable[[Floats], Floats]) -> Transitions:
        """Return a copy with a function applied to all scores."""
        arrays = {name: getattr(self, name) for name in ("trans", "start", "stop", "weights")}
        return self.replaced(**{name: function(a) for name, a in arrays.items() if a is not None})

    @cached_property
    def states(self) -> StateSpace:
        """The state space."""
        return self.space or StateSpace.first_order(self.labels or self.n_labels)

    @property
    def dense(self) -> _native.Dense | None:
        """The dense layout; None if the state space is neither labels nor full histories."""
        if not self._has_dense:  # cached_property locks until Python 3.12: 1 of 15 µs per sentence
            self._dense, self._has_dense = self._make_dense(), True
        return self._dense

    def _make_dense(self) -> _native.Dense | None:
        Y, space = self.n_labels, self.space
        if space is None:
            return _native.Dense(Y, 1, self.trans, self.start, self.stop)
        if space.kind == "labels":
            return _native.Dense(Y, 1, *self.by_label)
        if space.kind == "order" and space.history is not None:
            transitions = self._transitions_by_history(space, space.history)
            return _native.Dense(Y, space.history, transitions, self.start, self.stop)
        return None

    @property
    def is_first_order(self) -> bool:
        """Whether states are labels, so that candidates can be listed for each position."""
        return self.space is None or self.space.kind == "labels"

    @property
    def listed(self) -> tuple[_native.Dense, _native.TrigramScores | None] | None:
        """The scores of transitions for candidates; None unless states are one or two labels."""
        if not self.is_first_order:
            return None if self.trigrams is None else (self.pairs, self.trigrams)
        assert self.dense is not None
        return self.dense, None

    @cached_property
    def trigrams(self) -> _native.TrigramScores | None:
        """The weights of label trigrams, if states are the last two labels; otherwise None."""
        native = None if self.space is None else self.space.native_trigrams
        return None if native is None else _native.TrigramScores(native, self.weights)

    @cached_property
    def pairs(self) -> _native.Dense:
        """The scores of labels and of their pairs, to which states may add others."""
        return _native.Dense(self.n_labels, 1, self.trans, self.start, self.stop)

    @cached_property
    def forbids(self) -> bool:
        """Whether a transition, start or stop may be forbidden."""
        if self.space is not None and self.trigrams is None:
            return True
        parts = (self.trans, self.start, self.stop, self.weights)
        return any(part is not None and bool(np.isneginf(part).any()) for part in parts)

    @cached_property
    def is_chain(self) -> bool:
        """Whether states are labels, and what follows a label has probabilities of at most 1."""
        if not self.is_first_order or self.weights is not None:
            return False
        trans, start, stop = self.by_label
        if max(scores.max(initial=-np.inf) for scores in (trans, start, stop)) > 1e-9:
            return False
        return bool(np.exp(trans).sum(axis=1).max(initial=0.0) <= 1 + 1e-9)

    @property
    def by_label(self) -> tuple[Float64, Float64, Float64]:
        """Scores of transitions [Y, Y], start [Y] and stop [Y]; −inf if forbidden.

        An error if states are more than labels.
        """
        Y, space = self.n_labels, self.space
        trans, start, stop = (
            np.zeros(shape) if array is None else array.astype(np.float64)
            for array, shape in ((self.trans, (Y, Y)), (self.start, Y), (self.stop, Y))
        )
        if space is None:
            return trans, start, stop
        if space.kind != "labels":
            raise ShapeError(
                where="transitions",
                expected="a state space whose states are labels",
                found=repr(space),
            )
        return (
            np.where(space.transitions_allowed, trans, -np.inf),
            np.where(space.initial, start, -np.inf),
            np.where(space.final, stop, -np.inf),
        )

    def _transitions_by_history(self, space: StateSpace, k: int) -> Float64:
        """Return the scores of transitions [k, Y^(k-1), Y, Y] of the space of order k."""
        Y = self.n_labels
        groups = {} if self.weights is None else space.unpack(self.weights)
        trans = np.zeros((Y, Y)) if self.trans is None else self.trans.astype(np.float64)
        level = np.broadcast_to(trans, (Y,) * (k + 1))  # [h_1 .. h_k, y]
        levels = [level]
        for n in range(3, k + 2):  # the transition into position n-2 has a history of n-1 labels
            level = level + groups.get(f"ngram{n}", np.zeros(()))
            levels.append(level)
        by_suffix = np.moveaxis(np.stack(levels), 1, k)  # [k, h_2 .. h_k, h_1, y]
        return np.ascontiguousarray(by_suffix).reshape(k, Y ** (k - 1), Y, Y)

    @cached_property
    def automaton(self) -> _native.Automaton:
        """The automaton layout: every transition of the state space with its score."""
        space = self.states
        start, stop = np.zeros(space.n_states), np.zeros(space.n_states)  # [S]
        if self.start is not None:
            start += self.start[space.state_labels]
        if self.stop is not None:
            stop += self.stop[space.state_labels]
        if self.weights is not None:
            start += row_sums(self.weights, space.start_tie_indptr, space.start_tie_ids)
        start[~space.initial] = -np.inf
        stop[~space.final] = -np.inf
        return _native.Automaton(space.native, self.transition_scores, start, stop)

    @property
    def transition_scores(self) -> Float64:
        """The score of each transition of the state space [M], without emit and edge."""
        space = self.states
        score = np.zeros(space.n_transitions)
        if self.trans is not None:
            score += self.trans[space.state_labels[space.src], space.state_labels[space.dst]]
        if self.weights is not None:
            score += row_sums(self.weights, space.tie_indptr, space.tie_ids)
        return score

    def no_counts(self) -> Counts:
        """Return counts of zero, for `sums` to add to."""
        Y, K = self.n_labels, 0 if self.space is None else self.space.n_weights
        return Counts(np.zeros(Y), np.zeros((Y, Y)), np.zeros(Y), np.zeros(Y), np.zeros(K))


# ---- candidates ---------------------------------------------------------------------------------

# More paths are left to the dense layout: it makes only those that are part of a result.
_MOST_LISTED_PATHS = 256

# Up to how many sequences the two passes of a small chain at once are faster than lanes, by the
# number of labels; measured for Gaussian emissions, 100,000 tokens.
_FEW_SEQUENCES = {6: 64, 7: 64, 8: 1 << 62}
_FEW_SEQUENCES_BY_DEFAULT = 8


class Listed(NamedTuple):
    """The layout of candidates: a batch and the transitions, for the native core."""

    candidates: _native.Candidates
    dense: _native.Dense
    trigrams: _native.TrigramScores | None  #: of order 2


def _listed(model: Transitions, batch: Batch) -> Listed | None:
    """Return the layout of candidates; None if another one must answer."""
    candidates = None if batch.candidates is None else batch.native_candidates
    if candidates is None or model.listed is None:
        return None
    return Listed(candidates, *model.listed)


# ---- best paths, draws, entropy -----------------------------------------------------------------


def viterbi(model: Transitions, batch: Batch, threads: int) -> tuple[Int32, Float64]:
    """Return the best paths, flat [T], and scores [N]; −1 and −inf if all are impossible."""
    path = np.empty(batch.shape[0], dtype=np.int32)
    score = np.empty(len(batch.offsets) - 1)
    listed = _listed(model, batch)
    if listed is not None:
        listed.candidates.viterbi(*listed[1:], threads, path, score)
    elif model.dense is not None:
        model.dense.viterbi(batch.native, threads, path, score)
    else:
        model.automaton.viterbi(batch.native, threads, path)
        model.automaton.path_score(batch.native, path, score)
    return path, score


def nbest(model: Transitions, batch: Batch, threads: int, n: int) -> tuple[Int64, Int32, Float64]:
    """Return the n best paths, or fewer, of all sequences in a row.

    Their number for each sequence [N], the labels of the paths of one sequence after another, flat,
    and the score of each path, flat.
    """
    listed = _listed(model, batch)
    if listed is not None and (listed.trigrams is not None or n <= _MOST_LISTED_PATHS):
        return listed.candidates.nbest(*listed[1:], threads, n)
    if model.dense is not None:
        return model.dense.nbest(batch.native, threads, n)
    lists = model.automaton.nbest(batch.native, threads, n)
    counts = np.array([len(scores) for _, scores in lists], dtype=np.int64)
    paths = [paths.ravel() for paths, _ in lists] or [np.empty(0, dtype=np.int32)]
    scores = [scores for _, scores in lists] or [np.empty(0)]
    return counts, np.concatenate(paths), np.concatenate(scores)


def sample(
    model: Transitions, batch: Batch, threads: int, uniform: Float64
) -> tuple[Int32, Float64]:
    """Return paths [n, T] drawn with uniform numbers [T, n], and log_z [N].

    The paths of a sequence without any are −1.
    """
    log_z = np.empty(len(batch.offsets) - 1)
    paths = np.full(uniform.shape[::-1], -1, dtype=np.int32)
    listed = _listed(model, batch)
    if listed is not None:
        listed.candidates.sample(*listed[1:], threads, uniform, paths, log_z)
        return paths, log_z
    ok = np.zeros(len(log_z), dtype=np.bool_)
    if model.dense is not None:
        model.dense.sample(batch.native, threads, uniform, paths, log_z, ok)
    if not ok.all():
        rest = np.flatnonzero(~ok)
        part, positions = batch.take(rest)
        log_z[rest] = _automaton_log_z(model, part, threads)
        drawn = np.full((len(paths), len(part.emit)), -1, dtype=np.int32)
        numbers = np.ascontiguousarray(uniform[positions].T)
        model.automaton.sample(part.native, threads, numbers, drawn)
        paths[:, positions] = drawn
    return paths, log_z


def entropy(model: Transitions, batch: Batch, threads: int) -> tuple[Float64, Float64]:
    """Return the entropy of the distribution over the paths of each sequence [N], and log_z [N].

    In nats; 0 for a sequence without a path.
    """
    log_z = np.empty(len(batch.offsets) - 1)
    out = np.empty_like(log_z)
    listed = _listed(model, batch)
    if listed is not None:
        listed.candidates.entropy(*listed[1:], threads, out, log_z)
        return out, log_z
    ok = np.zeros(len(log_z), dtype=np.bool_)
    if model.dense is not None:
        model.dense.entropy(batch.native, threads, out, log_z, ok)
    if not ok.all():
        rest = np.flatnonzero(~ok)
        part, _ = batch.take(rest)
        part_out = np.empty(len(rest))
        model.automaton.entropy(part.native, threads, part_out)
        log_z[rest], out[rest] = _automaton_log_z(model, part, threads), part_out
    return out, log_z


def _automaton_log_z(model: Transitions, batch: Batch, threads: int) -> Float64:
    log_z = np.empty(len(batch.offsets) - 1)
    model.automaton.log_partition(batch.native, threads, log_z)
    return log_z


# ---- sums over paths ----------------------------------------------------------------------------


def sums(
    model: Transitions,
    batch: Batch,
    threads: int,
    *,
    marginals: Floats | None = None,
    pairs: Floats | None = None,
    counts: Counts | None = None,
    weight: Float64 | None = None,
) -> Float64:
    """Return log_z [N]; write the marginals and pairs, and add to the counts, that are given.

    ``weight`` [N] multiplies the counts of each sequence. ``marginals`` are [T, Y], or [C] to
    receive those of candidates.
    """
    log_z = np.empty(len(batch.offsets) - 1)
    listed = _listed(model, batch)
    if listed is not None:
        _listed_sums(listed, threads, log_z, marginals, pairs, counts, weight)
        return log_z
    if marginals is not None and marginals.ndim == 1:
        assert batch.candidates is not None
        full = np.empty(batch.shape, dtype=batch.dtype)
        log_z = sums(
            model, batch, threads, marginals=full, pairs=pairs, counts=counts, weight=weight
        )
        marginals[...] = full[batch.candidates.positions, batch.candidates.label_ids]
        return log_z
    dense = model.dense
    if dense is None:
        _automaton_sums(model, batch, threads, log_z, marginals, pairs, counts, weight)
        return log_z
    wants_both = pairs is None and marginals is not None and counts is not None
    if wants_both and _sum_small_chain(model, batch, threads, log_z, marginals, counts, weight):
        return log_z
    ok = np.empty(len(log_z), dtype=np.bool_)
    if counts is None:
        dense.sum(batch.native, threads, log_z, ok, weight, marginals, pairs)
    else:
        transitions = np.zeros(dense.shape)
        into = _native.TransitionCounts(transitions.ravel(), counts.start, counts.stop)
        dense.sum(batch.native, threads, log_z, ok, weight, marginals, pairs, into)
        _add_dense_counts(model, counts, transitions)
    if not ok.all():
        _repeat_in_log_space(model, batch, threads, ~ok, log_z, marginals, pairs, counts, weight)
    return log_z


def shared_row_sums(
    model: Transitions,
    rows: Floats,
    ids: Int32,
    offsets: Int64,
    threads: int,
    counts: Counts,
    weight: Float64 | None = None,
) -> tuple[Float64, Float64]:
    """Sum over the paths of tokens that share rows of scores, such as words.

    The marginals of the tokens are added up row by row, a few sequences at a time, and never stored
    for the whole batch.

    Parameters
    ----------
    model : Transitions
        Dense: states are labels, or label histories.
    rows : ndarray, shape (R, Y)
        Scores of labels.
    ids : ndarray of int32, shape (T,)
        The row of each token.
    offsets : ndarray of int64, shape (N + 1,)
    threads : int
    counts : Counts
        The expectations are added to them.
    weight : ndarray, shape (N,), optional
        Multiplies the counts of each sequence.

    Returns
    -------
    tuple of ndarray
        log_z [N], and the expected number of labels of each row [R, Y].
    """
    dense = model.dense
    assert dense is not None
    log_z, ok = np.empty(len(offsets) - 1), np.empty(len(offsets) - 1, dtype=np.bool_)
    row_counts, transitions = np.zeros(rows.shape), np.zeros(dense.shape)
    into = _native.TransitionCounts(transitions.ravel(), counts.start, counts.stop)
    dense.sum_rows(rows, ids, offsets, threads, log_z, ok, weight, into, row_counts)
    _add_dense_counts(model, counts, transitions)
    if not ok.all():
        rest = np.flatnonzero(~ok)
        few, positions = take_sequences(offsets, rest)
        emit = rows[ids[positions]]
        marginals, part_log_z = np.empty_like(emit), np.empty(len(rest))
        part_weight = None if weight is None else weight[rest]
        part = Batch(emit, None, few, 0.0)
        _automaton_sums(model, part, threads, part_log_z, marginals, None, counts, part_weight)
        log_z[rest] = part_log_z
        if part_weight is not None:
            marginals = marginals * np.repeat(part_weight, np.diff(few))[:, None]
        np.add.at(row_counts, ids[positions], marginals)
    return log_z, row_counts


def applies_small_chain(model: Transitions, n_sequences: int, dtype: npt.DTypeLike) -> bool:
    """Whether few sequences with few labels are summed faster in both directions at once."""
    Y = model.n_labels
    return (
        2 <= Y <= _native.SMALL_CHAIN
        and 0 < n_sequences < _FEW_SEQUENCES.get(Y, _FEW_SEQUENCES_BY_DEFAULT)
        and dtype == np.float64
        and model.is_chain
    )


def _sum_small_chain(
    model: Transitions,
    batch: Batch,
    threads: int,
    log_z: Float64,
    marginals: Floats | None,
    counts: Counts | None,
    weight: Float64 | None,
) -> bool:
    """Sum over the paths of a few sequences with few labels, if transitions are probabilities.

    The passes in both directions then run at once: 7 instead of 22 ms for one sequence of 100,000
    tokens and 8 labels. False, and no results, if the kernel does not apply or cannot exclude that
    underflow cost precision.
    """
    assert marginals is not None
    assert counts is not None
    if batch.edge is not None or not applies_small_chain(model, len(log_z), batch.dtype):
        return False
    emit: Float64 = batch.emit.astype(np.float64, copy=False)
    gamma = cast(Float64, marginals)  # of the type of the scores
    few = model.no_counts()
    into = few.transitions, few.start, few.stop
    trans, start, stop = map(np.ascontiguousarray, model.by_label)
    if not _native.small_chain_expectations(
        emit, batch.offsets, trans, start, stop, weight, threads, log_z, gamma, *into
    ):
        return False
    _add_counts(counts, few)
    return True


def _add_counts(counts: Counts, more: Counts) -> None:
    for total, part in zip(counts, more, strict=True):
        total[...] += part


def quadratic_sums(
    model: Transitions,
    z: Float64,
    weights: Float64,
    offsets: Int64,
    threads: int,
    counts: Counts,
    weight: Float64 | None = None,
) -> tuple[Float64, Float64] | None:
    """Sum over the paths of tokens whose scores are quadratic functions of their numbers.

    Scores and marginals of the tokens are never stored for the whole batch; where it applies, that
    is twice as fast for normal densities.

    Parameters
    ----------
    model : Transitions
        One that `applies_small_chain` accepts.
    z : ndarray, shape (T, D)
    weights : ndarray, shape (P, Y)
        Of the features z_d² or z_i z_j, z_d and 1; see ``core/small_chain_kernels.hpp``.
    offsets : ndarray of int64, shape (N + 1,)
    threads : int
    counts : Counts
        The expectations are added to them.
    weight : ndarray, shape (N,), optional
        Multiplies the counts of each sequence.

    Returns
    -------
    tuple of ndarray, or None
        log_z [N], and the expected features [P, Y]. None, and no counts, if underflow may have
        cost precision.
    """
    log_z, sums = np.empty(len(offsets) - 1), np.zeros(weights.shape)
    few = model.no_counts()
    trans, start, stop = map(np.ascontiguousarray, model.by_label)
    into = few.transitions, few.start, few.stop
    if not _native.small_chain_moments(
        z, weights, offsets, trans, start, stop, weight, threads, log_z, sums, *into
    ):
        return None
    _add_counts(counts, few)
    return log_z, sums


class CellBatch:
    """Sequences whose candidate labels have scores in common: cells of a table [R, Y].

    Parameters
    ----------
    indptr : ndarray of int64, shape (T + 1,)
    label_ids : ndarray of int32, shape (C,)
    cells : ndarray of int32, shape (C,)
        The cell of each candidate, from 0 to K − 1.
    places : ndarray of int64, shape (K,)
        The place of each cell in the flat table, in order.
    offsets : ndarray of int64, shape (N + 1,)
    Y : int
    """

    def __init__(
        self, indptr: Int64, label_ids: Int32, cells: Int32, places: Int64, offsets: Int64, Y: int
    ) -> None:
        self.indptr, self.cells, self._places = indptr, cells, places
        self.offsets, self.shape = offsets, (len(places), Y)
        self.native = _native.CandidateCells(indptr, label_ids, cells, places, offsets, Y)

    def take(self, sequences: Int64, scores: Float64) -> tuple[Batch, Int32]:
        """Return some sequences as a batch of candidates, and the cells of these."""
        offsets, positions = take_sequences(self.offsets, sequences)
        no_scores = np.broadcast_to(0.0, self.cells.shape)
        indptr, cells, _ = Candidates(self.indptr, self.cells, no_scores).take(positions)
        label_ids = (self._places[cells] % self.shape[1]).astype(np.int32)
        listed = Candidates(indptr, label_ids, scores[cells])
        return Batch.of_candidates(listed, self.shape[1], offsets, 0.0), cells


def cell_sums(
    model: Transitions,
    batch: CellBatch,
    scores: Float64,
    threads: int,
    counts: Counts,
    weight: Float64 | None = None,
) -> tuple[Float64, Float64]:
    """Sum over the paths of candidates whose scores are cells of a table.

    Marginals are added up cell by cell and never stored for the whole batch. That takes half the
    time of `sums` for the tags of a dictionary.

    Parameters
    ----------
    model : Transitions
        Of order 1.
    batch : CellBatch
    scores : ndarray, shape (K,)
    threads : int
    counts : Counts
        The expectations are added to them.
    weight : ndarray, shape (N,), optional
        Multiplies the counts of each sequence.

    Returns
    -------
    tuple of ndarray
        log_z [N], and the expected number of tokens of each cell [K].
    """
    assert model.dense is not None
    N = len(batch.offsets) - 1
    log_z, ok, cell_counts = np.empty(N), np.empty(N, dtype=np.bool_), np.zeros(batch.shape[0])
    into = _native.TransitionCounts(counts.transitions.reshape(-1), counts.start, counts.stop)
    batch.native.expect(model.dense, scores, threads, weight, log_z, ok, cell_counts, into)
    if not ok.all():
        rest = np.flatnonzero(~ok)
        part, cells = batch.take(rest, scores)
        probs = np.empty(len(cells))
        part_weight = None if weight is None else weight[rest]
        log_z[rest] = sums(model, part, threads, marginals=probs, counts=counts, weight=part_weight)
        if part_weight is not None:
            assert part.candidates is not None
            lengths = np.diff(part.candidates.indptr)
            probs *= np.repeat(np.repeat(part_weight, np.diff(part.offsets)), lengths)
        cell_counts += np.bincount(cells, probs, minlength=len(cell_counts))
    return log_z, cell_counts


def _listed_sums(
    listed: Listed,
    threads: int,
    log_z: Float64,
    marginals: Floats | None,
    pairs: Floats | None,
    counts: Counts | None,
    weight: Float64 | None,
) -> None:
    for results in (marginals, pairs):
        if results is not None:
            results[...] = 0  # only candidates are written, of sequences that have a path
    into = None
    if counts is not None:
        transitions = counts.transitions.reshape(-1)  # a view
        into = _native.TransitionCounts(transitions, counts.start, counts.stop)
    of_candidates = marginals if marginals is not None and marginals.ndim == 1 else None
    of_labels = marginals if of_candidates is None else None
    of_trigrams = None if counts is None or listed.trigrams is None else counts.weights
    listed.candidates.sum(
        *listed[1:], threads, log_z, weight, of_candidates, of_labels, pairs, into, of_trigrams
    )


def _repeat_in_log_space(
    model: Transitions,
    batch: Batch,
    threads: int,
    which: npt.NDArray[np.bool_],
    log_z: Float64,
    marginals: Floats | None,
    pairs: Floats | None,
    counts: Counts | None,
    weight: Float64 | None,
) -> None:
    """Let the automaton answer for the sequences that the dense kernels left out."""
    rest = np.flatnonzero(which)
    part, positions = batch.take(rest)
    T, Y = part.emit.shape
    part_log_z = np.empty(len(rest))
    part_marginals = None if marginals is None else np.empty((T, Y), part.emit.dtype)
    part_pairs = None if pairs is None else np.empty((T, Y, Y), pairs.dtype)
    part_weight = None if weight is None else weight[rest]
    _automaton_sums(
        model, part, threads, part_log_z, part_marginals, part_pairs, counts, part_weight
    )
    log_z[rest] = part_log_z
    if marginals is not None:
        marginals[positions] = part_marginals
    if pairs is not None:
        pairs[positions] = part_pairs


def _automaton_sums(
    model: Transitions,
    batch: Batch,
    threads: int,
    log_z: Float64,
    marginals: Floats | None,
    pairs: Floats | None,
    counts: Counts | None,
    weight: Float64 | None,
) -> None:
    automaton, space = model.automaton, model.states
    if marginals is None and pairs is None and counts is None:
        automaton.log_partition(batch.native, threads, log_z)
        return
    if counts is None:
        automaton.sum(batch.native, threads, log_z, weight, marginals, pairs)
        return
    transitions = np.zeros(space.n_transitions)
    first, last = np.zeros(space.n_states), np.zeros(space.n_states)
    into = _native.TransitionCounts(transitions, first, last)
    automaton.sum(batch.native, threads, log_z, weight, marginals, pairs, into)
    _add_automaton_counts(space, counts, transitions, first, last)


def _add_automaton_counts(
    space: StateSpace, counts: Counts, transitions: Float64, first: Float64, last: Float64
) -> None:
    """Add expected transitions [M], first states [S] and last states [S] to the counts."""
    label = space.state_labels
    np.add.at(counts.transitions, (label[space.src], label[space.dst]), transitions)
    np.add.at(counts.start, label, first)
    np.add.at(counts.stop, label, last)
    np.add.at(counts.weights, space.tie_ids, np.repeat(transitions, np.diff(space.tie_indptr)))
    np.add.at(
        counts.weights, space.start_tie_ids, np.repeat(first, np.diff(space.start_tie_indptr))
    )


def _add_dense_counts(model: Transitions, counts: Counts, transitions: Float64) -> None:
    """Add expected counts [k, Y^(k-1), Y, Y] to the transitions and n-gram weights they use."""
    Y, k = model.n_labels, len(transitions)
    if k == 1:
        counts.transitions[...] += transitions[0, 0]
        return
    histories = transitions.reshape((k,) + (Y,) * (k + 1))  # [k, h_2 .. h_k, h_1, y]
    histories = np.moveaxis(histories, k, 1)  # [k, h_1 .. h_k, y]
    counts.transitions[...] += histories.sum(axis=tuple(range(k)))
    groups = model.states.unpack(counts.weights)
    for n in range(3, k + 2):
        used = histories[n - 2 :].sum(axis=0)  # where the history has at least n-1 labels
        groups[f"ngram{n}"][...] += used.sum(axis=tuple(range(k + 1 - n)))


def distant_pairs(
    model: Transitions, batch: Batch, threads: int, distance: int, pairs: Floats
) -> None:
    """Write the probabilities of label pairs ``distance`` apart into pairs [T, Y, Y]."""
    model.automaton.distant_pairs(batch.native, threads, distance, pairs)


def state_scores(
    model: Transitions, batch: Batch, threads: int, *, log_sum: bool, forwards: bool
) -> Float64:
    """Return forward or backward scores of states [T, S], in log space."""
    out = np.empty((batch.shape[0], model.states.n_states))
    model.automaton.scores(batch.native, threads, log_sum, forwards, out)
    return out


def path_scores(model: Transitions, batch: Batch, path: Int32) -> Float64:
    """Return the score [N] of each sequence's path [T]; −inf if it is not allowed."""
    score = np.empty(len(batch.offsets) - 1)
    listed = _listed(model, batch)
    if listed is not None and (path >= 0).all():
        listed.candidates.path_score(*listed[1:], path, score)
    else:
        model.automaton.path_score(batch.native, path, score)
    return score


def first_dead_position(model: Transitions, batch: Batch, i: int) -> int:
    """Return the first position that no path of sequence i reaches; T if none may stop."""
    return model.automaton.first_dead_position(batch.native, i)
