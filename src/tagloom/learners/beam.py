r"""Beam sampling of the infinite hidden Markov model: the data choose the number of states.

The transitions have a hierarchical Dirichlet process as prior (Teh et al. 2006), with a weight for
each of infinitely many states. Given a random threshold for each transition, only finitely many
states can be reached, and the labels of a sequence are drawn exactly (Van Gael et al. 2008). The
steps of a sweep are in ``core/beam.hpp``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import ParameterError
from tagloom.learners.base import Algorithm, ChainAndEmission, Unlabelled
from tagloom.learners.concentrations import RowCounts, draw_concentration
from tagloom.learners.gibbs import draw_by_symbol, mean_emission, read_symbols, refuse_weights
from tagloom.parameters import count, number
from tagloom.scores.emissions import Categorical, Emission
from tagloom.scores.markov import MarkovChain, count_ngrams
from tagloom.training.learners import Learner, State, Step

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]

# Where concentrations begin that are not given; the rate of their exponential priors.
_FIRST_ALPHA, _FIRST_GAMMA, _FIRST_BETA = 1.0, 1.0, 0.01
_RATE = 1.0


class Beam(Algorithm, name="beam"):
    """Beam sampling of the infinite hidden Markov model.

    ``HMM(n_states="infinite", algorithm="beam")`` has as many states as the last sweep used. The
    training record has the number of states of every sweep, whose later part is a sample of its
    posterior. Works with every emission that has a prior to draw from.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["the", "dog", "barks"], ["the", "cat", "sleeps"], ["a", "dog", "sleeps"]] * 20
    >>> beam = tl.learners.Beam(sweeps=60, beta=0.1)
    >>> hmm = tl.HMM(n_states="infinite", algorithm=beam, random_state=0).fit(X)
    >>> 3 <= len(hmm.labels_) < 20
    True
    """

    #: Whether ``n_states="infinite"`` is possible.
    finds_number_of_states = True

    sweeps: int = count(default=300, least=1, kw_only=False, help="Number of sweeps.")
    alpha: float | None = number(
        default=None,
        above=0,
        help="Concentration of the transitions out of a state around the weights of the states.",
        details="By default it is drawn from its posterior in each sweep.",
    )
    gamma: float | None = number(
        default=None,
        above=0,
        help="Concentration of the weights of the states: the larger, the more states.",
        details="By default it is drawn from its posterior in each sweep.",
    )
    beta: float | None = number(
        default=None,
        above=0,
        help="Parameter of the Dirichlet prior of categorical emissions.",
        details="By default it is drawn from its posterior in each sweep. Other emissions have "
        "their own priors.",
    )
    sticky: float = number(
        default=0.0,
        least=0,
        help="Pseudo-count of each state's transition to itself (Fox et al. 2011).",
        details="Above 0 it prefers states that last.",
    )
    initial_states: int = count(
        default=20, least=1, help="Number of states of the random labels at the beginning."
    )
    max_states: int = count(
        default=1000, least=1, help="No sweep makes new states beyond this number."
    )

    @property
    def n_steps(self) -> int:
        """Number of sweeps."""
        return self.sweeps

    def with_steps(self, n: int) -> Algorithm:
        """Return a copy that makes n sweeps."""
        return type(self)(**self.get_params() | {"sweeps": n})

    def start(self, problem: Unlabelled, seed: int) -> Learner[ChainAndEmission]:
        """Make the sampler; it begins with random labels.

        Raises
        ------
        ParameterError
            If the problem restricts states, which are not known beforehand, or has weights.
        """
        refuse_weights(problem)
        given = {
            "allowed": problem.allowed is not None,
            "constraints": problem.candidates is not None,
            "fixed": bool(problem.fixed),
            "tied": bool(problem.tied),
        }
        for name, is_given in given.items():
            if is_given:
                raise ParameterError(
                    parameter=name,
                    expected="left out: the states of an infinite model are not known beforehand",
                    found="given",
                    hint='algorithm="gibbs" takes it.',
                )
        return BeamSampler(self, problem, seed)


class BeamSampler:
    """The learner of `Beam`: a step is a sweep.

    Attributes
    ----------
    n_states : list of int
        The number of states after each sweep.
    """

    def __init__(self, algorithm: Beam, problem: Unlabelled, seed: int) -> None:
        self.algorithm, self.problem, self.seed = algorithm, problem, seed
        self.iteration = 0
        self.n_states: list[int] = []
        self.beta = _FIRST_BETA if algorithm.beta is None else algorithm.beta
        self._symbols: tuple[Int32, int] | None = None
        if type(problem.emission) is Categorical:
            self._symbols = read_symbols(problem)
        rng, K = np.random.default_rng([seed, 0]), algorithm.initial_states
        self._native = self._make(
            draw_by_symbol(problem, K, rng),
            np.full(K + 1, 1 / (K + 1)),
            _FIRST_ALPHA if algorithm.alpha is None else algorithm.alpha,
            _FIRST_GAMMA if algorithm.gamma is None else algorithm.gamma,
        )

    def _make(self, labels: Int32, sticks: Float64, alpha: float, gamma: float) -> _native.Beam:
        return _native.Beam(
            self.problem.offsets,
            labels,
            sticks,
            alpha,
            gamma,
            float(self.algorithm.sticky),
            _RATE if self.algorithm.alpha is None else None,
            _RATE if self.algorithm.gamma is None else None,
            self.problem.has_stop,
            self.algorithm.max_states,
        )

    # ---- a sweep ---------------------------------------------------------------------------

    def step(self) -> Step:
        """Do one sweep."""
        self.iteration += 1
        rng = np.random.default_rng([self.seed, self.iteration])
        seed, threads = int(rng.integers(2**63)), self.problem.n_threads or 1
        if self._symbols is None:
            objective = self._sweep_any(rng, seed, threads)
        else:
            if self.algorithm.beta is None:
                self.beta = self._draw_beta(*self._symbols, rng)
            objective = self._native.sweep(*self._symbols, self.beta, seed, threads)
        self.n_states.append(int(np.count_nonzero(np.bincount(self._native.labels))))
        return Step.rising(objective, "log_joint")

    def _draw_beta(self, symbols: Int32, n_cells: int, rng: np.random.Generator) -> float:
        labels, is_seen = self._native.labels, symbols >= 0
        if not is_seen.all():
            labels, symbols = labels[is_seen], symbols[is_seen]
        K = int(labels.max(initial=0)) + 1
        totals = np.bincount(labels, minlength=K)
        counts = np.bincount(symbols * np.int64(K) + labels, minlength=1)
        histogram = np.bincount(counts)
        used = np.count_nonzero(totals)
        rows = RowCounts.from_histogram(np.full(used, n_cells), totals[totals > 0], histogram)
        return draw_concentration([rows], self.beta, rng)

    def _sweep_any(self, rng: np.random.Generator, seed: int, threads: int) -> float:
        """One sweep with an emission of any kind."""
        self._native.draw_sticks(self._native.draw_tables(seed), seed)
        K = self._native.draw_rows(seed)
        emission, data = self._bind(K), self.problem.data
        drawn = emission.draw_posterior(emission.collect(data, self._native.labels), rng)
        log_probs = drawn.log_probs(data).astype(np.float64)  # [T, K]
        top = log_probs.max(axis=1, keepdims=True, initial=-np.inf)
        probs = np.exp(log_probs - top)
        rows = np.arange(len(probs), dtype=np.int32)
        return float(top.sum()) + self._native.draw_labels(probs, rows, seed, threads)

    def _bind(self, K: int) -> Emission:
        """Return the emission for K states, named by numbers."""
        return self.problem.emission.bind([str(k) for k in range(K)])

    # ---- the model -------------------------------------------------------------------------

    @property
    def labels(self) -> Int32:
        """The present labels [T]; numbers may be missing."""
        return self._native.labels

    def weights(self) -> ChainAndEmission:
        """Return the mean of the parameters over the used states, given the last labels."""
        used, numbers = np.unique(self._native.labels, return_inverse=True)
        labels, K = numbers.astype(np.int32), max(len(used), 1)
        problem = replace(self.problem, emission=self._bind(K))
        emission = mean_emission(problem, labels, self.beta)
        return self._mean_chain(labels, used, K), emission

    def _mean_chain(self, labels: Int32, used: npt.NDArray[Any], K: int) -> MarkovChain:
        counts = count_ngrams(labels, self.problem.offsets, None, K, 1)
        masses = counts[:, :K].copy()
        if len(used):
            masses += self._native.alpha * self._native.sticks[used]
        masses[np.arange(K), np.arange(K)] += self.algorithm.sticky
        probs = masses / masses.sum(axis=1, keepdims=True)
        if not self.problem.has_stop:
            return MarkovChain.from_probs(probs[K], (probs[:K],), None)
        visits = counts[:K].sum(axis=1)  # with the stop
        stop = (counts[:K, K] + 1) / (visits + 2)  # the mean under Beta(1, 1)
        return MarkovChain.from_probs(probs[K], (probs[:K] * (1 - stop[:, None]),), stop)

    def summary(self) -> dict[str, Any]:
        """Return the posterior of the number of states, from the second half of the sweeps."""
        late = self.n_states[len(self.n_states) // 2 :]
        values, times = np.unique(late, return_counts=True)
        shares = times / max(len(late), 1)
        return {
            "n_states": list(self.n_states),
            "n_states_posterior": dict(zip(map(str, values), shares.tolist(), strict=True)),
            "alpha": self._native.alpha,
            "gamma": self._native.gamma,
            "beta": self.beta,
        }

    # ---- checkpoints -----------------------------------------------------------------------

    def state(self) -> State:
        """Return labels, weights of the states and concentrations."""
        concentrations = [self._native.alpha, self._native.gamma, self.beta]
        return {
            "labels": self._native.labels,
            "sticks": self._native.sticks,
            "concentrations": np.array(concentrations),
            "n_states": np.array(self.n_states, dtype=np.int64),
        }

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state`."""
        alpha, gamma, self.beta = map(float, state["concentrations"])
        labels = np.ascontiguousarray(state["labels"], dtype=np.int32)
        self._native = self._make(labels, np.ascontiguousarray(state["sticks"]), alpha, gamma)
        self.n_states = state["n_states"].tolist()
        self.iteration = len(self.n_states)
