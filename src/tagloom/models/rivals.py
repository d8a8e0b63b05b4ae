"""The best path with another label at each position, for `explain`.

With s the states of the trellis, score(p → s) everything that a transition adds, and both
recursions in the max-plus semiring::

    α_t(s) = max_p α_{t-1}(p) + score_t(p → s)        β_t(p) = max_s score_{t+1}(p → s) + β_{t+1}(s)

The best path through s at t has the score α_t(s) + β_t(s). It is followed to both sides only until
it meets the best path of all, with which it continues. All rivals together thus cost two passes
over the sentence, plus the tokens in which they differ.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom.trellis import StateSpace, Trellis
from tagloom.trellis.states import row_sums

Float64 = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]


class Rival(NamedTuple):
    """Where a path differs from the best one."""

    start: int  #: the first position with another state
    states: list[int]  #: states from there to the last position with another state

    @property
    def end(self) -> int:
        """The first position after which both paths are the same."""
        return self.start + len(self.states)


class _Group:
    """Transitions grouped by their state at one end, to take the maximum over each group."""

    def __init__(self, ends: npt.NDArray[np.integer]) -> None:
        self.order: Index = np.argsort(ends, kind="stable")  # [M]
        self.states, self.starts = np.unique(ends[self.order], return_index=True)  # [≤ S]
        self.stops = np.append(self.starts[1:], len(ends))

    def maxima(self, scores: Float64, S: int) -> Float64:
        """Return the maximum of scores [M] over the transitions of each state [S]."""
        result = np.full(S, -np.inf)
        if len(self.states):
            result[self.states] = np.maximum.reduceat(scores[self.order], self.starts)
        return result

    def of(self, state: int) -> Index:
        """Return the numbers of the transitions of one state."""
        place = int(np.searchsorted(self.states, state))
        return self.order[self.starts[place] : self.stops[place]]


class Rivals:
    """The rivals of the best path of one sentence.

    Parameters
    ----------
    trellis : Trellis
        A single one.
    path : ndarray of int, shape (T,)
        Its best path.
    """

    def __init__(self, trellis: Trellis, path: npt.NDArray[np.integer]) -> None:
        self.trellis, self.path = trellis, path
        self.space: StateSpace = trellis.states
        self.states: list[int] = self.space.state_path(path.tolist()).tolist()
        space, Y = self.space, trellis.n_labels
        self.y_src, self.y_dst = (space.state_labels[end] for end in (space.src, space.dst))  # [M]
        trans = _scores(trellis.trans, (Y, Y))
        weights = _scores(trellis.weights, (space.n_weights,))
        ties = row_sums(weights, space.tie_indptr, space.tie_ids)
        self.fixed: Float64 = trans[self.y_src, self.y_dst] + ties  # [M]
        start, stop = (_scores(x, (Y,))[space.state_labels] for x in (trellis.start, trellis.stop))
        first = start + row_sums(weights, space.start_tie_indptr, space.start_tie_ids)
        first = first + trellis.emit[0, space.state_labels]
        self.first: Float64 = np.where(space.initial, first, -np.inf)  # [S]
        self.last: Float64 = np.where(space.final, stop, -np.inf)  # [S]
        self.into, self.out_of = _Group(space.dst), _Group(space.src)

    def find(self, t: int) -> Rival | None:
        """Return the best path with another label at t; None if no such path is possible."""
        totals = self.alpha[t] + self.beta[t]  # [S]
        totals[self.space.state_labels == self.path[t]] = -np.inf
        state = int(totals.argmax())
        if totals[state] == -math.inf:
            return None
        before, after = self._before(t, state), self._after(t, state)
        return Rival(t - len(before), [*before, state, *after])

    def margin(self, rival: Rival) -> float:
        """Return the score of the best path less that of a rival, from where they differ."""
        last = min(rival.end + 1, len(self.path))
        best = self.states[rival.start : last]
        other = [*rival.states, *self.states[rival.end : last]]
        ours, theirs = (self._terms(rival.start, states) for states in (best, other))
        return math.fsum([*ours, *(-term for term in theirs)])

    def _terms(self, start: int, states: list[int]) -> list[float]:
        """List the scores of a piece of a path, with the transition into it and the stop."""
        previous = self.states[start - 1] if start else None
        terms: list[float] = []
        for t, state in enumerate(states, start):
            if previous is None:
                terms.append(float(self.first[state]))
            else:
                arcs = self.into.of(state)
                terms.append(float(self._step(t, arcs[self.space.src[arcs] == previous])[0]))
            previous = state
        if start + len(states) == len(self.path):
            terms.append(float(self.last[states[-1]]))
        return terms

    def _before(self, t: int, state: int) -> list[int]:
        """Return the states before t, from the first that the best path does not have."""
        states: list[int] = []
        while t > 0:
            arcs = self.into.of(state)
            t -= 1
            came_from = self.space.src[arcs]
            state = int(came_from[(self.alpha[t, came_from] + self._step(t + 1, arcs)).argmax()])
            if state == self.states[t]:
                break
            states.append(state)
        return states[::-1]

    def _after(self, t: int, state: int) -> list[int]:
        """Return the states after t, to the last that the best path does not have."""
        states: list[int] = []
        while t + 1 < len(self.path):
            arcs = self.out_of.of(state)
            t += 1
            goes_to = self.space.dst[arcs]
            state = int(goes_to[(self.beta[t, goes_to] + self._step(t, arcs)).argmax()])
            if state == self.states[t]:
                break
            states.append(state)
        return states

    @cached_property
    def alpha(self) -> Float64:
        """Score of the best path from the start to each state [T, S]."""
        alpha = np.empty((len(self.path), len(self.first)))
        alpha[0] = self.first
        for t in range(1, len(alpha)):
            scores = alpha[t - 1, self.space.src] + self._step(t)
            alpha[t] = self.into.maxima(scores, alpha.shape[1])
        return alpha

    @cached_property
    def beta(self) -> Float64:
        """Score of the best path from each state to the end [T, S]."""
        beta = np.empty((len(self.path), len(self.last)))
        beta[-1] = self.last
        for t in range(len(beta) - 1, 0, -1):
            scores = beta[t, self.space.dst] + self._step(t)
            beta[t - 1] = self.out_of.maxima(scores, beta.shape[1])
        return beta

    def _step(self, t: int, arcs: Index | slice = slice(None)) -> Float64:
        """Score of the transitions into position t, with the token at t [M]."""
        y_src, y_dst = self.y_src[arcs], self.y_dst[arcs]
        scores: Float64 = self.fixed[arcs] + self.trellis.emit[t, y_dst]
        return scores if self.trellis.edge is None else scores + self.trellis.edge[t, y_src, y_dst]


def _scores(scores: npt.NDArray[np.floating] | None, shape: tuple[int, ...]) -> Float64:
    return np.zeros(shape) if scores is None else scores.astype(np.float64)
