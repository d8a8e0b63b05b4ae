r"""Single-site Gibbs sampling of the labels of a trellis: one label at a time, given the others.

    Pr(y_t | all other labels, x) ∝ exp(score of the path with y_t)

In a first-order chain only the two neighbours matter (Finkel, Grenager and Manning 2005)::

    log Pr(y_t | ...) = emit[t, y_t] + trans[y_{t-1}, y_t] + trans[y_t, y_{t+1}] + const

Forward-backward gives the same marginals exactly, and `Trellis.sample` independent draws; this
sampler shows how Gibbs sampling converges to them, and can be annealed towards the best path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.trellis.trellis import Trellis

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
RandomState = int | np.random.Generator | None


class SingleSite(NamedTuple):
    """Result of single-site Gibbs sampling."""

    path: Int32  #: [T] the most frequent label at each position; annealed, the last labels
    marginals: Float64  #: [T, Y] how often each label was drawn, as shares
    last: Int32  #: [T] the labels after the last sweep


def sample_single_sites(
    trellis: Trellis,
    *,
    sweeps: int = 500,
    burn_in: int = 50,
    annealed: bool = False,
    random_state: RandomState = None,
) -> SingleSite:
    """Draw one label at a time given all others, and count how often each label is drawn.

    The first labels are those of the best path.

    Parameters
    ----------
    trellis : Trellis
    sweeps : int, default 500
        Number of sweeps that are counted; each draws every label once.
    burn_in : int, default 50
        Number of sweeps before.
    annealed : bool, default False
        Whether the temperature falls linearly from 1 towards 0 during the counted sweeps. The path
        is then an approximation of the best one, and marginals lose their meaning.
    random_state : int, Generator or None

    Returns
    -------
    SingleSite

    Raises
    ------
    InfeasibleError
        If a sequence has no allowed path.

    Examples
    --------
    >>> import tagloom as tl
    >>> from tagloom.trellis.single_site import sample_single_sites
    >>> trellis = tl.Trellis([[0.0, 1.0], [0.5, 0.0], [0.0, 0.2]], trans=[[0.5, 0.0], [0.0, 0.5]])
    >>> sampled = sample_single_sites(trellis, sweeps=4000, random_state=0)
    >>> bool(abs(sampled.marginals - trellis.marginals()).max() < 0.03)
    True
    """
    checks.count(sweeps, "sweeps", least=1)
    checks.count(burn_in, "burn_in")
    rng = np.random.default_rng(random_state)
    sites = _Sites(trellis)
    path = np.array(trellis.viterbi().path, dtype=np.int32)
    T, Y = len(path), trellis.n_labels
    visits = np.zeros((T, Y))
    for sweep in range(burn_in + sweeps):
        counted = sweep - burn_in
        temperature = 1 - max(counted, 0) / sweeps if annealed else 1.0
        sites.sweep(path, rng, temperature)
        if counted >= 0:
            visits[np.arange(T), path] += 1
    marginals = visits / sweeps
    best = path.copy() if annealed else marginals.argmax(axis=1).astype(np.int32)
    return SingleSite(best, marginals, path)


class _Sites:
    """The scores of single labels given the others; position p of all sequences at a time."""

    def __init__(self, trellis: Trellis) -> None:
        self.trellis = trellis
        self.first, self.end = trellis.offsets[:-1], trellis.offsets[1:]  # [N]
        self.longest = int((self.end - self.first).max(initial=0))
        if trellis.states.kind == "labels":
            self.emit = trellis.emit.astype(np.float64)  # [T, Y]
            self.trans, self.start, self.stop = trellis.label_transitions

    def sweep(self, path: Int32, rng: np.random.Generator, temperature: float) -> None:
        """Draw every label of a path [T] once, in place."""
        for p in range(self.longest):
            at = self.first[self.first + p < self.end] + p  # [n] the tokens to draw
            scores = self._scores(path, p, at) / temperature  # [n, Y]
            # The largest of scores plus Gumbel noise is a draw proportional to exp(score).
            path[at] = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)

    def _scores(self, path: Int32, p: int, at: Int64) -> Float64:
        if self.trellis.states.kind == "labels":
            return self._first_order(path, p, at)
        return self._any_order(path, p, at)

    def _first_order(self, path: Int32, p: int, at: Int64) -> Float64:
        """Add up what depends on the label and its neighbours [n, Y]."""
        edge = self.trellis.edge
        scores = self.emit[at]
        if p == 0:
            scores = scores + self.start
        else:
            scores = scores + self.trans[path[at - 1]]
            if edge is not None:
                scores += edge[at, path[at - 1]]
        is_last = np.isin(at + 1, self.end)
        scores[is_last] += self.stop
        after = at[~is_last] + 1
        scores[~is_last] += self.trans[:, path[after]].T
        if edge is not None:
            scores[~is_last] += edge[after, :, path[after]]
        return np.asarray(scores)

    def _any_order(self, path: Int32, p: int, at: Int64) -> Float64:
        """Score the whole path with each label [n, Y]."""
        has_token = self.first + p < self.end
        changed, columns = path.copy(), []
        for y in range(self.trellis.n_labels):
            changed[at] = y
            columns.append(np.atleast_1d(self.trellis.path_score(changed))[has_token])
        return np.stack(columns, axis=1)
