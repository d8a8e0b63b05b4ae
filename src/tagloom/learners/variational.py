r"""Variational Bayes: a distribution over models instead of one model.

The posterior of the parameters and the labels is approximated by a product q(θ) · q(y), whose
factors are updated in turn (MacKay 1997; Beal 2003). q(θ) has a Dirichlet distribution for each row
of the chain, and the posterior of the emission; q(y) is the distribution of a trellis whose scores
are E_q[log Pr]. The bound on the evidence never falls::

    elbo = Σ_i log_z_i - KL(q(chain) ‖ prior) - KL(q(emission) ‖ prior)

Sparse priors, with parameters below 1, leave states and transitions without use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.learners.base import (
    Algorithm,
    ChainAndEmission,
    ChainPrior,
    Unlabelled,
    pack_model,
    unpack_model,
)
from tagloom.learners.expectations import (
    Expectation,
    chain_of,
    dirichlet_parameters,
    expected_outcomes,
    initial_model,
    possible_outcomes,
    probs_of,
)
from tagloom.parameters import count, number
from tagloom.scores.emissions.dirichlet import digamma
from tagloom.scores.markov import MarkovChain
from tagloom.training.learners import Learner, State, Step

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


class VB(Algorithm, name="vb"):
    """Variational Bayes, for emissions with a conjugate prior.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["a", "a", "b", "b"], ["a", "b"], ["b", "b", "b", "a"]]
    >>> hmm = tl.HMM(n_states=4, algorithm=tl.learners.VB(alpha=0.1, beta=0.1)).fit(X)
    >>> hmm.history_[0].measure, hmm.history_[-1].objective > hmm.history_[0].objective
    ('elbo', True)
    """

    takes_shards = True

    max_iterations: int = count(
        default=100, least=1, help="The largest number of iterations.", kw_only=False
    )
    tolerance: float = number(
        default=1e-6, least=0, help="Converged when the bound rises by less than this per token."
    )
    alpha: float | None = number(
        default=None,
        above=0,
        help="Dirichlet prior of start and transitions, by default ``prior`` of the model.",
    )
    beta: float | None = number(
        default=None, above=0, help="Dirichlet prior of the emission, by default its own."
    )

    def start(self, problem: Unlabelled, seed: int) -> Learner[ChainAndEmission]:
        """Make the learner."""
        if self.alpha is not None:
            problem = replace(problem, prior=ChainPrior.symmetric(self.alpha))
        if self.beta is not None:
            if not hasattr(problem.emission, "prior"):
                raise problem.emission.unsupported("prior", "its prior is not a Dirichlet", "")
            problem = replace(problem, emission=problem.emission.replace(prior=self.beta))
        return MeanField(problem, self.tolerance, seed)


@dataclass(frozen=True, eq=False)
class ChainPosterior:
    """Dirichlet distributions of the start [Y] and of what follows each label [Y, Y or Y + 1].

    Impossible outcomes have the parameter 0.
    """

    start: Float64
    outcomes: Float64

    def mean(self, before: tuple[Float64, Float64], has_stop: bool) -> MarkovChain:
        """Return the chain of the mean; rows without outcomes are those of ``before``."""
        start = _normalise(self.start[None], before[0][None])[0]
        return chain_of(start, _normalise(self.outcomes, before[1]), has_stop)

    def mean_log(self, has_stop: bool) -> MarkovChain:
        """Return the chain whose scores are E[log Pr]."""
        Y = len(self.start)
        rows = _mean_log(self.outcomes)
        return MarkovChain(
            _mean_log(self.start[None])[0],
            (np.ascontiguousarray(rows[:, :Y]),),
            np.ascontiguousarray(rows[:, Y]) if has_stop else None,
        )


class MeanField:
    """The learner of `VB`: a step updates q(θ), then q(y).

    Parameters
    ----------
    problem : Unlabelled
    tolerance : float
    seed : int
    """

    def __init__(self, problem: Unlabelled, tolerance: float, seed: int) -> None:
        self.problem, self.tolerance = problem, tolerance
        self._expect = problem.passes().expect
        self._model = _initial(problem, np.random.default_rng([seed, 0]))
        self._start = probs_of(self._model[0])
        self._posterior: ChainPosterior | None = None
        self._expected: Expectation | None = None  # at the present model
        self._bound = -np.inf

    def step(self) -> Step:
        """Update the distribution of the parameters, then that of the labels."""
        if self._expected is None:
            self._expected = self._expect(*self._model)
        self._update(self._expected)
        before = self._bound
        self._expected = self._expect(*self._model)
        self._bound = self._expected.log_likelihood - self._divergence()
        converged = self._bound - before <= self.tolerance * max(self.problem.n_tokens, 1)
        return Step.rising(self._bound, "elbo", converged=bool(converged))

    def _update(self, expected: Expectation) -> None:
        problem, (chain, emission) = self.problem, self._model
        alpha_start, alpha_outcomes = dirichlet_parameters(problem)
        start, outcomes = expected_outcomes(problem, expected)
        self._posterior = ChainPosterior(
            np.where(problem.possible.start, start + alpha_start, 0.0),
            np.where(possible_outcomes(problem), outcomes + alpha_outcomes, 0.0),
        )
        updated = self._posterior.mean_log(problem.has_stop)
        if "start" in problem.fixed:
            updated = replace(updated, log_start=chain.log_start)
        if "transitions" in problem.fixed:
            updated = replace(updated, log_trans=chain.log_trans, log_stop=chain.log_stop)
        if "emission" not in problem.fixed:
            emission = emission.mean_field(expected.stats)
        self._model = updated, emission

    def _divergence(self) -> float:
        """KL(q ‖ prior) of chain and emission, of those parts that are learned."""
        problem, posterior = self.problem, self._posterior
        assert posterior is not None
        alpha_start, alpha_outcomes = dirichlet_parameters(problem)
        total = 0.0
        if "start" not in problem.fixed:
            alpha = np.where(problem.possible.start, alpha_start, 0.0)
            total += _divergence(posterior.start[None], alpha[None])
        if "transitions" not in problem.fixed:
            alpha = np.where(possible_outcomes(problem), alpha_outcomes, 0.0)
            total += _divergence(posterior.outcomes, alpha)
        if "emission" not in problem.fixed:
            total -= self._model[1].log_prior()
        return total

    # ---- for the loop ----------------------------------------------------------------------

    def weights(self) -> ChainAndEmission:
        """Return the model of the means under q."""
        chain, emission = self._model
        if self._posterior is None:
            return chain, emission
        mean = self._posterior.mean(self._start, self.problem.has_stop)
        if "start" in self.problem.fixed:
            mean = replace(mean, log_start=chain.log_start)
        if "transitions" in self.problem.fixed:
            mean = replace(mean, log_trans=chain.log_trans, log_stop=chain.log_stop)
        return mean, emission.posterior_mean()

    def state(self) -> State:
        """Return the present distributions as arrays."""
        state = pack_model(self._model) | {"bound": np.array(self._bound)}
        if self._posterior is not None:
            state |= {"start": self._posterior.start, "outcomes": self._posterior.outcomes}
        return state

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state`."""
        self._model = unpack_model(state, self.problem.emission)
        self._bound, self._expected = float(state["bound"]), None
        if "start" in state:
            self._posterior = ChainPosterior(state["start"], state["outcomes"])


def _initial(problem: Unlabelled, rng: np.random.Generator) -> ChainAndEmission:
    """Return an initial model; its emission is estimated under a prior that has a mode."""
    prior = getattr(problem.emission, "prior", None)
    if not isinstance(prior, float | int) or prior >= 1:
        return initial_model(problem, rng)
    flat = replace(problem, emission=problem.emission.replace(prior=1.0))
    chain, emission = initial_model(flat, rng)
    return chain, emission.replace(prior=prior)


# ---- Dirichlet distributions in rows, where impossible outcomes have the parameter 0 -----------


def _normalise(masses: Float64, otherwise: Float64) -> Float64:
    totals = masses.sum(axis=1, keepdims=True)
    return np.where(totals > 0, masses / np.where(totals > 0, totals, 1), otherwise)


def _mean_log(alpha: Float64) -> Float64:
    """Compute E[log θ] = ψ(α_v) − ψ(Σ α) of each row; −inf for impossible outcomes."""
    totals = alpha.sum(axis=1, keepdims=True)
    is_possible = alpha > 0
    safe = digamma(np.where(is_possible, alpha, 1.0))
    return np.where(is_possible, safe - digamma(np.where(totals > 0, totals, 1.0)), -np.inf)


def _divergence(alpha: Float64, prior: Float64) -> float:
    """Compute KL(Dir(α) ‖ Dir(prior)), summed over the rows."""
    total = 0.0
    for row, row_prior in zip(alpha, prior, strict=True):
        possible = row_prior > 0
        if not possible.any():
            continue
        a, b = row[possible], row_prior[possible]
        log_theta = digamma(a) - digamma(np.asarray(a.sum()))
        total += math.lgamma(a.sum()) - _log_gamma(a).sum()
        total -= math.lgamma(b.sum()) - _log_gamma(b).sum()
        total += float(((a - b) * log_theta).sum())
    return float(total)
