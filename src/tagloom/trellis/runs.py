r"""The probability of a run: labels that open, continue and end at given positions.

Given the scores, the states of a sequence form a Markov chain. The probability of transition m into
position t, given its source, is

    a[t, m] = exp(score(m) + emit[t, y] + beta[t, dst] − beta[t-1, src])

A run from position s to position e (exclusive) is a condition on every two neighbours from s−1 to
e: the first pair opens it, the pairs inside continue it, the last pair does not. So its probability
is a product along the chain with only the pairs that fit,

    v[s, j]   = Σ_{m into j that opens} Pr(state_{s-1} = src) · a[s, m]
    v[t, j]   = Σ_{m into j that continues} v[t-1, src] · a[t, m]
    Pr(s, e)  = Σ_i v[e-1, i] · closes(i) · Σ_{m from i that does not continue} a[e, m]

in any state space. Masks over labels define what opens and continues; `labels.span_rules` builds
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom.trellis.trellis import Trellis

Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

# Transition probabilities in memory at once.
_MOST_PROBS = 1 << 21


class RunRules(NamedTuple):
    """Which labels make a run.

    Attributes
    ----------
    kind : ndarray of int, shape (Y,)
        The kind of run that a label belongs to, from 0; −1 for none. A run is of one kind.
    first : ndarray of bool, shape (Y,)
        Whether a label opens a run at the beginning of a sequence.
    opens, continues : ndarray of bool, shape (Y, Y)
        Whether a label opens a run, or continues one, after another label: [from, to].
    closes : ndarray of bool, shape (Y,)
        Whether a run may end with a label.
    """

    kind: npt.NDArray[np.int64]
    first: Bool
    opens: Bool
    continues: Bool
    closes: Bool

    @property
    def n_kinds(self) -> int:
        """The number of kinds."""
        return int(self.kind.max(initial=-1)) + 1

    def over(self, labels: npt.NDArray[np.integer]) -> RunRules:
        """Return the rules for some of the labels."""
        pairs = np.ix_(labels, labels)
        return RunRules(
            self.kind[labels],
            self.first[labels],
            self.opens[pairs],
            self.continues[pairs],
            self.closes[labels],
        )


class Run(NamedTuple):
    """A run and its probability."""

    sequence: int
    start: int
    end: int  #: exclusive
    kind: int
    prob: float


def find_runs(trellis: Trellis, rules: RunRules, min_prob: float) -> list[Run]:
    """Find all runs of any length with at least a given probability.

    The probability that a run is still open never rises as it grows, so the search ends.

    Parameters
    ----------
    trellis : Trellis
        A batch.
    rules : RunRules
    min_prob : float
        Above 0.

    Returns
    -------
    list of Run
        Sorted by sequence, start, end and kind.

    Raises
    ------
    InfeasibleError
        If a sequence has no path.
    """
    runs: list[Run] = []
    for first, part in _parts(trellis):
        chain = _Chain.over_candidates(part, rules)
        for last, begin, probs in chain.grow(np.arange(len(part.emit)), min_prob):
            which, kinds = np.nonzero(probs >= min_prob)
            sequence = chain.sequence[begin[which]]
            offset = part.offsets[sequence]
            places = [first + sequence, begin[which] - offset, last[which] + 1 - offset, kinds]
            values = [*(column.tolist() for column in places), probs[which, kinds].tolist()]
            runs += [Run(*run) for run in zip(*values, strict=True)]
    return sorted(runs)


def run_probs(
    trellis: Trellis, rules: RunRules, runs: list[list[tuple[int, int, int]]]
) -> list[list[float]]:
    """Compute the probabilities of given runs.

    Parameters
    ----------
    trellis : Trellis
        A batch.
    rules : RunRules
    runs : list of list of (start, end, kind)
        For each sequence.

    Returns
    -------
    list of list of float

    Raises
    ------
    InfeasibleError
        If a sequence has no path.
    """
    result: list[list[float]] = [[0.0] * len(row) for row in runs]
    for first, part in _parts(trellis):
        chain = _Chain.over_candidates(part, rules)
        wanted: dict[tuple[int, int], list[tuple[int, int, int]]] = {}  # (row, length) -> which
        for i, offset in enumerate(part.offsets[:-1].tolist()):
            for j, (start, end, kind) in enumerate(runs[first + i]):
                wanted.setdefault((offset + start, end - start), []).append((first + i, j, kind))
        rows = np.unique(np.array([row for row, _ in wanted], dtype=np.int64))
        longest = max((length for _, length in wanted), default=0)
        for length, (_, begin, probs) in enumerate(chain.grow(rows, 0.0), 1):
            for at, row in enumerate(begin.tolist()):
                for i, j, kind in wanted.get((row, length), ()):
                    result[i][j] = float(probs[at, kind])
            if length == longest:
                break
    return result


def _parts(trellis: Trellis) -> Iterator[tuple[int, Trellis]]:
    """Cut a batch into smaller ones, each with the number of its first sequence."""
    most = max(_MOST_PROBS // max(trellis.states.n_transitions, 1), 1)
    first = 0
    for i, end in enumerate(trellis.offsets[1:].tolist(), 1):
        if end - trellis.offsets[first] >= most or i == len(trellis):
            yield first, trellis[first:i]
            first = i


class _Chain:
    """The Markov chain of a batch, reduced to what runs need; positions are flat.

    Attributes
    ----------
    sequence : ndarray of int, shape (T,)
        The sequence of each position.
    opened : ndarray, shape (T, S)
        Probability that a run opens at t, in state s.
    continuing : ndarray, shape (T, C)
        Probability of each of the C transitions that continue a run, given their source.
    ended : ndarray, shape (T, S)
        Probability that a run whose last state is s at t ends there.
    """

    @classmethod
    def over_candidates(cls, trellis: Trellis, rules: RunRules) -> _Chain:
        """Return the chain over the labels that are candidates, if labels are listed."""
        few, labels = trellis.narrow()
        return cls(few, rules.over(labels), rules.n_kinds)

    def __init__(self, trellis: Trellis, rules: RunRules, n_kinds: int) -> None:
        space = trellis.states
        T, S, label = len(trellis.emit), space.n_states, space.state_labels
        begins = trellis.offsets[:-1][trellis.lengths > 0]
        ends = trellis.offsets[1:][trellis.lengths > 0] - 1
        self.sequence = np.repeat(np.arange(len(trellis)), trellis.lengths)
        self.is_last = np.zeros(T, dtype=bool)
        self.is_last[ends] = True

        gamma, transitions = trellis.state_marginals(), trellis.transition_probs()  # [T, S], [T, M]
        y_src, y_dst = label[space.src], label[space.dst]  # [M]
        opens, continues = rules.opens[y_src, y_dst], rules.continues[y_src, y_dst]

        m = np.flatnonzero(opens)
        self.opened = np.zeros((T, S))
        if T:
            from_ = np.vstack([np.zeros((1, S)), gamma[:-1]])[:, space.src[m]]  # [T, opening]
            _add_columns(self.opened, from_ * transitions[:, m], space.dst[m])
            self.opened[begins] = gamma[begins] * rules.first[label]

        m = np.flatnonzero(~continues)
        self.ended = np.zeros((T, S))
        _add_columns(self.ended[:-1], transitions[1:, m], space.src[m])
        self.ended[ends] = 1.0
        self.ended *= rules.closes[label]

        m = np.flatnonzero(continues)
        self.continuing, self.src, self.dst = transitions[:, m], space.src[m], space.dst[m]
        self.of_kind = (rules.kind[label][:, None] == np.arange(n_kinds)).astype(
            np.float64
        )  # [S,K]

    def grow(self, rows: Int64, least: float) -> Iterator[tuple[Int64, Int64, Float64]]:
        """Extend runs that begin at some positions by one position at a time.

        Yields
        ------
        last : ndarray, shape (R,)
            The last position of each run.
        begin : ndarray, shape (R,)
            Its first position. Runs that can no longer reach the probability ``least`` are dropped.
        probs : ndarray, shape (R, K)
            The probability of the run, for each kind.
        """
        begin = last = rows
        v = self.opened[rows]  # [R, S]
        while True:
            mass = v @ self.of_kind  # [R, K] probability that it is open: a bound for longer runs
            kept = (mass > 0).any(axis=1) & (mass >= least).any(axis=1)
            begin, last, v = begin[kept], last[kept], v[kept]
            if not len(begin):
                return
            yield last, begin, np.minimum((v * self.ended[last]) @ self.of_kind, 1.0)
            kept = ~self.is_last[last]
            begin, last, v = begin[kept], last[kept] + 1, v[kept]
            grown = np.zeros_like(v)
            _add_columns(grown, v[:, self.src] * self.continuing[last], self.dst)
            v = grown


def _add_columns(out: Float64, values: Float64, columns: npt.NDArray[np.int32]) -> None:
    """Add values [R, M] to the columns [M] of out [R, S] that they belong to."""
    if not len(columns):
        return
    order = np.argsort(columns, kind="stable")
    distinct, first = np.unique(columns[order], return_index=True)
    out[:, distinct] += np.add.reduceat(values[:, order], first, axis=1)
