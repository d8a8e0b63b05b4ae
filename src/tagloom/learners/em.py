r"""Expectation maximisation (Baum-Welch): the nearest maximum of likelihood times prior.

Each iteration replaces the model by the maximiser of the expected log-likelihood plus log prior,
under the labels' distribution given the present model (Dempster et al. 1977; Rabiner 1989). The
objective never falls::

    objective = Σ_i weight_i · log Pr(x_i) + log Pr(chain) + log Pr(emission)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.errors import ParameterError
from tagloom.learners.base import (
    Algorithm,
    ChainAndEmission,
    Unlabelled,
    pack_model,
    unpack_model,
)
from tagloom.learners.expectations import (
    Expectation,
    chain_log_prior,
    initial_model,
    outcome_prior,
    update_chain,
)
from tagloom.parameters import count, flag, number
from tagloom.scores.emissions import Emission
from tagloom.training.learners import Learner, State, Step

Float64 = npt.NDArray[np.float64]


class EM(Algorithm, name="em"):
    """Expectation maximisation (Baum-Welch).

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["a", "a", "b", "b"], ["a", "b"], ["b", "b", "b", "a"]]
    >>> hmm = tl.HMM(n_states=2, algorithm=tl.learners.EM(max_iterations=20)).fit(X)
    >>> [record.objective for record in hmm.history_] == sorted(
    ...     record.objective for record in hmm.history_)
    True
    """

    takes_shards = True

    max_iterations: int = count(
        default=100, least=1, help="The largest number of iterations.", kw_only=False
    )
    tolerance: float = number(
        default=1e-6,
        least=0,
        help="Converged when the objective rises by less than this per token.",
    )
    reseed: bool = flag(
        default=True,
        help="Whether states with less than one expected token are re-seeded, once each.",
        details="They are moved to the tokens with the lowest likelihood. The training record "
        "lists the iterations; the objective may fall there, and the best model is kept.",
    )

    def start(self, problem: Unlabelled, seed: int) -> Learner[ChainAndEmission]:
        """Make the learner, with a random initial model where the problem has no start values."""
        outcome_prior(problem)  # raises if the posterior has no mode
        return ExpectationMaximiser(problem, self.tolerance, seed)


class ExpectationMaximiser:
    """The learner of `EM`: a step is an M-step, and the E-step at the new model.

    The objective of a step is thus that of the model which the step returns.

    Parameters
    ----------
    problem : Unlabelled
    tolerance : float
    seed : int
    """

    measure = "log_posterior"

    def __init__(self, problem: Unlabelled, tolerance: float, seed: int) -> None:
        self.problem, self.tolerance = problem, tolerance
        self._expect = problem.passes().expect
        self._model = initial_model(problem, np.random.default_rng([seed, 0]))
        self._expected: Expectation | None = None  # at the present model
        self._objective = -np.inf

    # ---- one iteration ---------------------------------------------------------------------

    def step(self) -> Step:
        """Do one M-step, then compute the expectations at the new model."""
        if self._expected is None:
            self._evaluate()
        assert self._expected is not None
        before = self._model, self._expected, self._objective
        self._model = self._maximise(self._expected)
        self._evaluate()
        rise = self._objective - before[2]
        if rise < 0 and not has_log_prior(self._model[1]):
            self._model, self._expected, self._objective = before  # smoothing has lowered it
        converged = rise <= self.tolerance * max(self.problem.n_tokens, 1)
        return Step.rising(self._objective, self.measure, converged=bool(converged))

    def _evaluate(self) -> None:
        """Compute the expectations and the objective of the present model."""
        self._expected = self._expect(*self._model)
        self._objective = self._expected.log_likelihood + self._log_prior()

    def _log_prior(self) -> float:
        chain, emission = self._model
        total = chain_log_prior(self.problem, chain)
        if "emission" not in self.problem.fixed and has_log_prior(emission):
            total += emission.log_prior()
        return total

    def _maximise(self, expected: Expectation) -> ChainAndEmission:
        chain, emission = self._model
        if "emission" not in self.problem.fixed:
            emission = emission.update(expected.stats)
        return update_chain(self.problem, expected, chain), emission

    # ---- for the loop ----------------------------------------------------------------------

    def weights(self) -> ChainAndEmission:
        """Return the present chain and emission."""
        return self._model

    def state(self) -> State:
        """Return the present model as arrays."""
        return pack_model(self._model)

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a model."""
        self.restart_from(unpack_model(state, self.problem.emission))

    # ---- for restarts ----------------------------------------------------------------------

    def occupancy(self) -> Float64:
        """Return the expected number of tokens of each state [Y], at the present model."""
        if self._expected is None:
            self._evaluate()
        assert self._expected is not None
        return self._expected.occupancy

    def restart_from(self, model: ChainAndEmission) -> None:
        """Continue from another model."""
        self._model, self._expected, self._objective = model, None, -np.inf


def has_log_prior(emission: Emission) -> bool:
    """Whether `Emission.update` maximises likelihood times a fixed prior.

    If not, as with the smoothing of `Words`, the objective is the likelihood alone. It may fall;
    learning then ends with the model before.
    """
    try:
        emission.log_prior()
    except ParameterError:
        return False
    return True
