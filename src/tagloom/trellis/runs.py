r"""The probability of a run: labels that open, go on and end, at exactly these positions.

Given the scores, the states of a sequence are a Markov chain, whose moves into position t have the
probabilities

    a[t, m] = exp(score(m) + emit[t, y] + beta[t, dst] − beta[t-1, src])

A run from position s to position e (not included) is a condition on every two neighbours from s−1
to e: the first pair opens it, the pairs inside go on, the last pair does not. So its probability is
a product along the chain in which forbidden pairs are left out,

    v[s, j]   = Σ_{m into j that opens} Pr(state_{s-1} = src) · a[s, m]
    v[t, j]   = Σ_{m into j that goes on} v[t-1, src] · a[t, m]
    Pr(s, e)  = Σ_i v[e-1, i] · closes(i) · Σ_{m from i that does not go on} a[e, m]

in any state space. What opens and goes on is told by masks over labels: `labels` makes them.
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

# Probabilities of moves that are held at once.
_MOST_MOVES = 1 << 21


class RunRules(NamedTuple):
    """Which labels make a run.

    Attributes
    ----------
    kind : ndarray of int, shape (Y,)
        What kind of run a label belongs to, from 0; −1 if to none. A run is of one kind.
    first : ndarray of bool, shape (Y,)
        Whether a label opens a run at the beginning of a sequence.
    opens, continues : ndarray of bool, shape (Y, Y)
        Whether a label opens a run, or goes on with one, after another: [from, to].
    closes : ndarray of bool, shape (Y,)
        Whether a run may end with a label.
    """

    kind: npt.NDArray[np.int64]
    first: Bool
    opens: Bool
    continues: Bool
    closes: Bool


class Run(NamedTuple):
    """A run and its probability."""

    sequence: int
    start: int
    end: int  #: not included
    kind: int
    prob: float


def find_runs(trellis: Trellis, rules: RunRules, min_prob: float) -> list[Run]:
    """Find all runs that are at least so probable, however long.

    The probability that a run is open never rises as it grows, so the search ends by itself.

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
    found: list[Run] = []
    for first, part in _parts(trellis):
        chain = _Chain(part, rules)
        for last, begin, probs in chain.grow(np.arange(len(part.emit)), min_prob):
            which, kinds = np.nonzero(probs >= min_prob)
            sequence = chain.sequence[begin[which]]
            offset = part.offsets[sequence]
            places = [first + sequence, begin[which] - offset, last[which] + 1 - offset, kinds]
            values = [*(column.tolist() for column in places), probs[which, kinds].tolist()]
            found += [Run(*run) for run in zip(*values, strict=True)]
    return sorted(found)


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
        chain = _Chain(part, rules)
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
    most = max(_MOST_MOVES // max(trellis.states.n_moves, 1), 1)
    first = 0
    for i, end in enumerate(trellis.offsets[1:].tolist(), 1):
        if end - trellis.offsets[first] >= most or i == len(trellis):
            yield first, trellis[first:i]
            first = i


class _Chain:
    """The Markov chain of a batch, as far as runs need it; positions are flat.

    Attributes
    ----------
    sequence : ndarray of int, shape (T,)
        Which sequence a position belongs to.
    opened : ndarray, shape (T, S)
        Probability that a run opens at t, in state s.
    goes_on : ndarray, shape (T, C)
        Probability of each of the C moves that go on with a run, given where they come from.
    ended : ndarray, shape (T, S)
        Probability that a run whose last state is s at t ends there.
    """

    def __init__(self, trellis: Trellis, rules: RunRules) -> None:
        space = trellis.states
        T, S, label = len(trellis.emit), space.n_states, space.state_labels
        begins = trellis.offsets[:-1][trellis.lengths > 0]
        ends = trellis.offsets[1:][trellis.lengths > 0] - 1
        self.sequence = np.repeat(np.arange(len(trellis)), trellis.lengths)
        self.is_last = np.zeros(T, dtype=bool)
        self.is_last[ends] = True

        gamma, moves = trellis.state_marginals(), trellis.move_probs()  # [T, S], [T, M]
        y_src, y_dst = label[space.src], label[space.dst]  # [M]
        opens, goes_on = rules.opens[y_src, y_dst], rules.continues[y_src, y_dst]

        m = np.flatnonzero(opens)
        self.opened = np.zeros((T, S))
        if T:
            from_ = np.vstack([np.zeros((1, S)), gamma[:-1]])[:, space.src[m]]  # [T, opening]
            _add_columns(self.opened, from_ * moves[:, m], space.dst[m])
            self.opened[begins] = gamma[begins] * rules.first[label]

        m = np.flatnonzero(~goes_on)
        self.ended = np.zeros((T, S))
        _add_columns(self.ended[:-1], moves[1:, m], space.src[m])
        self.ended[ends] = 1.0
        self.ended *= rules.closes[label]

        m = np.flatnonzero(goes_on)
        self.goes_on, self.src, self.dst = moves[:, m], space.src[m], space.dst[m]
        n_kinds = int(rules.kind.max(initial=-1)) + 1
        self.of_kind = (rules.kind[label][:, None] == np.arange(n_kinds)).astype(
            np.float64
        )  # [S,K]

    def grow(self, rows: Int64, least: float) -> Iterator[tuple[Int64, Int64, Float64]]:
        """Let runs begin at some positions, and grow by one position at a time.

        Yields
        ------
        last : ndarray, shape (R,)
            The last position of each run.
        begin : ndarray, shape (R,)
            Where it began; those that cannot be as probable as ``least`` any more are left out.
        probs : ndarray, shape (R, K)
            The probability of such a run of each kind.
        """
        begin = last = rows
        v = self.opened[rows]  # [R, S]
        while True:
            mass = v @ self.of_kind  # [R, K] it is open: no longer run is more probable
            kept = (mass > 0).any(axis=1) & (mass >= least).any(axis=1)
            begin, last, v = begin[kept], last[kept], v[kept]
            if not len(begin):
                return
            yield last, begin, np.minimum((v * self.ended[last]) @ self.of_kind, 1.0)
            kept = ~self.is_last[last]
            begin, last, v = begin[kept], last[kept] + 1, v[kept]
            grown = np.zeros_like(v)
            _add_columns(grown, v[:, self.src] * self.goes_on[last], self.dst)
            v = grown


def _add_columns(out: Float64, values: Float64, columns: npt.NDArray[np.int32]) -> None:
    """Add values [R, M] to the columns [M] of out [R, S] that they belong to."""
    if not len(columns):
        return
    order = np.argsort(columns, kind="stable")
    found, first = np.unique(columns[order], return_index=True)
    out[:, found] += np.add.reduceat(values[:, order], first, axis=1)
