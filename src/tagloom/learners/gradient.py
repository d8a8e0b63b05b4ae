r"""Direct maximisation of the likelihood by L-BFGS, for emissions with weights.

The probabilities of the chain are softmax functions of scores, those of the emission of its
weights. By Fisher's identity the gradient of the log-likelihood is that of the expected
log-likelihood at the present model, so that an E-step gives both (Salakhutdinov et al. 2003).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.errors import ParameterError
from tagloom.learners.base import Algorithm, ChainAndEmission, Unlabelled
from tagloom.learners.expectations import (
    chain_log_prior,
    chain_of,
    expected_outcomes,
    initial_model,
    outcome_prior,
    possible_outcomes,
    probs_of,
)
from tagloom.parameters import count, number
from tagloom.training.lbfgs import LBFGS
from tagloom.training.learners import Learner, State, Step

Float64 = npt.NDArray[np.float64]

_LEAST = 1e-9  # of an initial probability, whose score is its logarithm


class Gradient(Algorithm, name="gradient"):
    """L-BFGS on likelihood times prior, for `LogLinear` and `Categorical` emissions.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["the", "dog", "walked"], ["a", "cat", "talked"], ["the", "cat", "walked"]]
    >>> hmm = tl.HMM(n_states=2, emissions=tl.emissions.LogLinear(), algorithm="gradient").fit(X)
    >>> hmm.history_[-1].objective > hmm.history_[0].objective
    True
    """

    takes_shards = True

    max_iterations: int = count(
        default=200, least=1, help="The largest number of iterations.", kw_only=False
    )
    tolerance: float = number(
        default=1e-6,
        least=0,
        help="Converged when the objective rises by less than this part over 10 iterations.",
    )
    memory: int = count(
        default=6, least=1, help="Number of vector pairs that approximate the curvature."
    )

    def start(self, problem: Unlabelled, seed: int) -> Learner[ChainAndEmission]:
        """Make the learner."""
        if not hasattr(problem.emission, "to_vector"):
            raise problem.emission.unsupported(
                "to_vector", "it has no weights", "Use algorithm='em'."
            )
        if problem.tied:
            raise ParameterError(
                parameter="tied", expected="no tied states with 'gradient'", found="some"
            )
        return GradientAscent(problem, self, seed)


class GradientAscent:
    """The learner of `Gradient`.

    θ has the scores of the possible starts and outcomes, then the weights of the emission; parts
    that are fixed are left out.

    Parameters
    ----------
    problem : Unlabelled
    algorithm : Gradient
    seed : int
    """

    def __init__(self, problem: Unlabelled, algorithm: Gradient, seed: int) -> None:
        self.problem = problem
        self._expect = problem.passes().expect
        self._first = initial_model(problem, np.random.default_rng([seed, 0]))
        self._possible = problem.possible.start, possible_outcomes(problem)
        self._learns = {part: part not in problem.fixed for part in ("start", "transitions")}
        self._learns_emission = "emission" not in problem.fixed
        self._lbfgs = LBFGS(
            self._evaluate,
            l2=0.0,
            memory=algorithm.memory,
            epsilon=1e-9,
            period=10,
            delta=algorithm.tolerance,
            theta=self._to_vector(self._first),
        )

    def _to_vector(self, model: ChainAndEmission) -> Float64:
        chain, emission = model
        parts = [
            np.log(np.maximum(probs[possible], _LEAST))
            for probs, possible, learns in self._chain_parts(probs_of(chain))
            if learns
        ]
        weights: Any = emission
        if self._learns_emission:
            parts.append(weights.to_vector())
        return np.concatenate([*parts, np.empty(0)])

    def _chain_parts(self, values: tuple[Any, Any]) -> Any:
        return zip(values, self._possible, self._learns.values(), strict=True)

    def _to_model(self, theta: Float64) -> ChainAndEmission:
        chain, emission = self._first
        parts, first = [], 0
        for probs, possible, learns in self._chain_parts(probs_of(chain)):
            if learns:
                n = int(possible.sum())
                scores = np.full(possible.shape, -np.inf)
                scores[possible] = theta[first : first + n]
                probs, first = softmax(scores), first + n
            parts.append(probs)
        weights: Any = emission
        if self._learns_emission:
            emission = weights.with_vector(theta[first:])
        return chain_of(parts[0], parts[1], self.problem.has_stop), emission

    def _evaluate(self, theta: Float64) -> tuple[float, Float64]:
        """Return minus the objective and minus its gradient."""
        problem, model = self.problem, self._to_model(theta)
        chain, emission = model
        expected = self._expect(chain, emission)
        value = expected.log_likelihood + chain_log_prior(problem, chain)
        pseudo = outcome_prior(problem)
        counts = expected_outcomes(problem, expected)
        grads = []
        for each, prior, probs, (_, possible, learns) in zip(
            counts,
            (pseudo.start, pseudo.outcomes),
            probs_of(chain),
            self._chain_parts(counts),
            strict=True,
        ):
            if learns:
                masses = np.where(possible, each + prior, 0.0)
                grad = masses - masses.sum(axis=-1, keepdims=True) * probs
                grads.append(grad[possible])
        if self._learns_emission:
            weights: Any = emission
            value += emission.log_prior()
            grads.append(weights.gradient(expected.stats))
        return -value, -np.concatenate([*grads, np.empty(0)])

    # ---- for the loop ----------------------------------------------------------------------

    def step(self) -> Step:
        """Do one iteration of L-BFGS."""
        step = self._lbfgs.step()
        return step._replace(measure="log_posterior", rises=True)

    def weights(self) -> ChainAndEmission:
        """Return the present chain and emission."""
        return self._to_model(self._lbfgs.theta())

    def state(self) -> State:
        """Return the state of L-BFGS."""
        return self._lbfgs.state()

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state`."""
        self._lbfgs.restore(state)


def softmax(scores: Float64) -> Float64:
    """Return exp(scores) divided by the sum of each row; 0 for rows of −inf."""
    top = scores.max(axis=-1, keepdims=True)
    masses = np.exp(scores - np.where(np.isneginf(top), 0.0, top))
    return np.asarray(masses / np.maximum(masses.sum(axis=-1, keepdims=True), np.finfo(float).tiny))
