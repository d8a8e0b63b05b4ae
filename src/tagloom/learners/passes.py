"""What learning computes from all sequences, in one pass over them.

Algorithms that only need these sums can learn from sequences on the shards of a cluster, too; see
`tagloom.models.hidden_shards`. `Unlabelled.passes` returns the passes of a problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tagloom.learners.expectations import EStep, Expectation, guess_candidates
from tagloom.scores.emissions import Emission
from tagloom.scores.markov import MarkovChain

if TYPE_CHECKING:
    from tagloom.learners.base import Unlabelled

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


class Passes(Protocol):
    """Sums over all sequences of a problem."""

    def expect(self, chain: MarkovChain, emission: Emission) -> Expectation:
        """Compute the expected counts under a model.

        Raises
        ------
        TrainingError
            If a sequence has probability 0.
        """

    def initialise(self, emission: Emission, rng: np.random.Generator) -> Emission:
        """Return a random initial emission."""

    def guess(self, emission: Emission, rng: np.random.Generator) -> Expectation:
        """Compute the expected counts for nearly uniform scores of the candidate labels."""

    def reseed(self, emission: Emission, dead: Sequence[int], n: int) -> Any:
        """Compute the statistics in which dead states take the n tokens that are explained worst.

        Each dead state takes an equal share of them. The other tokens belong to the other states by
        the scores of the emission.
        """


class LocalPasses:
    """Passes over sequences in this process.

    Parameters
    ----------
    problem : Unlabelled
    """

    def __init__(self, problem: Unlabelled) -> None:
        self.problem = problem
        self.expect = EStep(problem).__call__

    def initialise(self, emission: Emission, rng: np.random.Generator) -> Emission:
        """Return a random initial emission."""
        return emission.initialise(self.problem.data, rng)

    def guess(self, emission: Emission, rng: np.random.Generator) -> Expectation:
        """Compute the expected counts for nearly uniform scores of the candidate labels."""
        return guess_candidates(self.problem, emission, rng)

    def reseed(self, emission: Emission, dead: Sequence[int], n: int) -> Any:
        """Compute statistics in which dead states take the n tokens that are explained worst."""
        worst = np.argsort(explained(self.problem, emission, dead), kind="stable")[:n]
        states = np.asarray(dead)[np.arange(len(worst)) % len(dead)]
        return collect_reseeded(self.problem, emission, dead, worst, states)


def explained(problem: Unlabelled, emission: Emission, dead: Sequence[int]) -> Float64:
    """Return the largest log Pr(x_t | y) of each token [T], over the states that are not dead."""
    alive = [y for y in range(len(problem.labels)) if y not in dead]
    log_probs = emission.log_probs(problem.data).astype(np.float64)  # [T, Y]
    return np.asarray(log_probs[:, alive].max(axis=1))


def collect_reseeded(
    problem: Unlabelled, emission: Emission, dead: Sequence[int], tokens: Int64, states: Int64
) -> Any:
    """Collect statistics in which some tokens have given states; see `Passes.reseed`.

    Parameters
    ----------
    problem : Unlabelled
    emission : Emission
    dead : sequence of int
        The states that no other token has.
    tokens, states : ndarray of int, shape (n,)
    """
    log_probs = emission.log_probs(problem.data).astype(np.float64)  # [T, Y]
    gamma = np.zeros(log_probs.shape)
    top = log_probs.max(axis=1, keepdims=True)
    np.exp(log_probs - np.where(np.isneginf(top), 0, top), out=gamma)
    gamma[:, dead] = 0
    gamma /= np.maximum(gamma.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    gamma[tokens] = 0
    gamma[tokens, states] = 1
    return emission.collect(problem.data, gamma, problem.token_weight)
