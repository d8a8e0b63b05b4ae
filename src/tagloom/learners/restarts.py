"""What all algorithms share: several starts, dead states, the best model, the order of states.

A run is a learner in the loop of `tagloom.training`. This module makes one run for each start,
keeps the best by its objective, re-seeds states that no token uses, and sorts the states of the
result, so that the same data give the same state the same number.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tagloom.errors import ParameterError
from tagloom.learners.base import Algorithm, ChainAndEmission, Unlabelled, pack_model, unpack_model
from tagloom.learners.expectations import chain_of, possible_outcomes, probs_of
from tagloom.scores.markov import MarkovChain
from tagloom.training.fitting import Fitting, Outcome
from tagloom.training.learners import Learner, State, Step
from tagloom.trellis import Trellis

Float64 = npt.NDArray[np.float64]

# A state with fewer expected tokens is dead, if there are enough tokens for all states.
_LEAST_TOKENS = 1.0
_TOKENS_PER_STATE = 10


@dataclass(frozen=True, eq=False)
class Learned:
    """The result of learning from several starts.

    Attributes
    ----------
    chain, emission
        The best model.
    outcome : Outcome
        Of its run.
    objectives : list of float
        The final objective of each start.
    reseeded : list of (int, int)
        Iteration and state of each re-seeding in the best run.
    histories : list of list of float
        The objective after each iteration of each start.
    summary : dict
        What the learner of the best run adds to the training record, by its method ``summary``.
    """

    chain: MarkovChain
    emission: Any
    outcome: Outcome[ChainAndEmission]
    objectives: list[float]
    reseeded: list[tuple[int, int]] = field(default_factory=list)
    histories: list[list[float]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)


def learn(
    problem: Unlabelled,
    algorithm: Algorithm,
    fitting: Fitting[ChainAndEmission],
    *,
    restarts: int = 1,
    seed: int = 0,
) -> Learned:
    """Run an algorithm from several random starts and return the best model.

    Ctrl-C ends the present run and skips the others.

    Parameters
    ----------
    problem : Unlabelled
    algorithm : Algorithm
    fitting : Fitting
    restarts : int
        Number of starts, at least 1.
    seed : int
        Start i has the seed ``seed + i``, so more restarts repeat the earlier ones.
    """
    best: tuple[Outcome[ChainAndEmission], Watched] | None = None
    objectives: list[float] = []
    histories: list[list[float]] = []
    for i in range(restarts):
        learner = Watched(algorithm.start(problem, seed + i), problem, algorithm)
        names = {} if restarts == 1 else {"title": f", start {i + 1}", "suffix": f".{i + 1}"}
        outcome = fitting.run(learner, **names)
        objectives.append(learner.objective)
        histories.append([record.objective for record in outcome.records])
        if best is None or learner.objective > best[1].objective:
            best = outcome, learner
        if outcome.stopped == "interrupted":
            break
    assert best is not None
    outcome, learner = best
    chain, emission = outcome.weights
    summary: dict[str, Any] = getattr(learner.learner, "summary", dict)()
    return Learned(chain, emission, outcome, objectives, learner.reseeded, histories, summary)


# ---- dead states -------------------------------------------------------------------------------


class Reseedable(Protocol):
    """A learner whose dead states can be re-seeded."""

    def occupancy(self) -> Float64:
        """Return the expected number of tokens of each state [Y]."""
        ...

    def restart_from(self, model: ChainAndEmission) -> None:
        """Continue from another model."""
        ...


class Watched:
    """A learner whose best model is kept, and whose dead states are re-seeded once each.

    Parameters
    ----------
    learner : Learner
    problem : Unlabelled
    algorithm : Algorithm
        Its parameter ``reseed``, if it has one, tells whether to re-seed.
    """

    def __init__(
        self, learner: Learner[ChainAndEmission], problem: Unlabelled, algorithm: Algorithm
    ) -> None:
        self.learner, self.problem = learner, problem
        self.reseeded: list[tuple[int, int]] = []
        self._before: tuple[float, ChainAndEmission] | None = None  # best before re-seeding
        self._iteration = 0
        self._objective = -np.inf
        enough = problem.n_tokens >= _TOKENS_PER_STATE * len(problem.labels)
        free = not problem.fixed and not problem.tied and not problem.is_restricted
        self._may_reseed = (
            bool(getattr(algorithm, "reseed", False))
            and enough
            and free
            and hasattr(learner, "occupancy")
            and hasattr(learner, "restart_from")
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.learner, name)

    def step(self) -> Step:
        """Do one step; then re-seed dead states."""
        step = self.learner.step()
        self._iteration += 1
        self._objective = -step.loss
        dead = self._dead_states() if self._may_reseed else []
        if dead:
            self._keep_best()
            reseedable: Any = self.learner
            reseedable.restart_from(reseed(self.problem, self.learner.weights(), dead))
            self.reseeded += [(self._iteration, y) for y in dead]
            step = step._replace(converged=False)
        return step

    def _dead_states(self) -> list[int]:
        """List the states that died and have not been re-seeded yet."""
        reseedable: Any = self.learner
        known = {y for _, y in self.reseeded}
        dead = np.flatnonzero(reseedable.occupancy() < _LEAST_TOKENS).tolist()
        return [y for y in dead if y not in known]

    def _keep_best(self) -> None:
        if self._before is None or self._objective > self._before[0]:
            self._before = self._objective, self.learner.weights()

    @property
    def objective(self) -> float:
        """The objective of `weights`."""
        return self._objective if self._before is None else max(self._objective, self._before[0])

    def weights(self) -> ChainAndEmission:
        """Return the present model, or a better one from before a re-seeding."""
        if self._before is not None and self._before[0] > self._objective:
            return self._before[1]
        return self.learner.weights()

    def state(self) -> State:
        """Return the state of the learner, and of what was re-seeded."""
        state = dict(self.learner.state())
        state["watched.objective"] = np.array(self._objective)
        state["watched.reseeded"] = np.array(self.reseeded, dtype=np.int64).reshape(-1, 2)
        state["watched.iteration"] = np.array(self._iteration)
        if self._before is not None:
            state["watched.before"] = np.array(self._before[0])
            state |= {f"before.{k}": array for k, array in pack_model(self._before[1]).items()}
        return state

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state`."""
        own = {k: v for k, v in state.items() if k.startswith(("watched.", "before."))}
        self.learner.restore({k: v for k, v in state.items() if k not in own})
        self._objective = float(own["watched.objective"])
        self.reseeded = [(int(i), int(y)) for i, y in own["watched.reseeded"]]
        self._iteration = int(own["watched.iteration"])
        if "watched.before" in own:
            arrays = {k.removeprefix("before."): v for k, v in own.items()}
            model = unpack_model(arrays, self.problem.emission)
            self._before = float(own["watched.before"]), model


def reseed(problem: Unlabelled, model: ChainAndEmission, dead: Sequence[int]) -> ChainAndEmission:
    """Move dead states to the tokens that the model explains worst.

    Each dead state takes an equal share of the tokens with the lowest likelihood, a tenth of the
    tokens of an average state. Its transitions are uniform, and all other states reach it with the
    probability of an average state.

    Parameters
    ----------
    problem : Unlabelled
    model : (MarkovChain, Emission)
    dead : list of int
    """
    chain, emission = model
    n = max(problem.n_tokens // (_TOKENS_PER_STATE * len(problem.labels)), 1) * len(dead)
    emission = emission.update(problem.passes().reseed(emission, dead, n))
    return _with_fresh_rows(problem, chain, dead), emission


def _with_fresh_rows(problem: Unlabelled, chain: MarkovChain, dead: Sequence[int]) -> MarkovChain:
    """Return a chain in which dead states are reached and left with average probabilities."""
    start, outcomes = probs_of(chain)
    possible, Y = possible_outcomes(problem), len(start)
    start[dead] = np.where(problem.possible.start[dead], 1 / Y, 0)
    outcomes[:, dead] = np.where(possible[:, dead], 1 / outcomes.shape[1], 0)
    outcomes[dead] = possible[dead]
    start /= start.sum()
    totals = outcomes.sum(axis=1, keepdims=True)
    outcomes /= np.where(totals > 0, totals, 1)
    return chain_of(start, outcomes, problem.has_stop)


# ---- the order of states -----------------------------------------------------------------------


def stable_order(problem: Unlabelled, model: ChainAndEmission) -> list[int]:
    """Return the states in a stable order: by the key of the emission, or by frequency.

    Keys are compared from the first column to the last.
    """
    chain, emission = model
    try:
        key = np.asarray(emission.order_key(), dtype=np.float64)
    except ParameterError:
        key = -problem.passes().expect(chain, emission).occupancy
    columns = key.reshape(len(key), -1)
    return np.lexsort(columns.T[::-1]).tolist()  # type: ignore[no-any-return]


def match(problem: Unlabelled, model: ChainAndEmission, other: Any) -> list[int]:
    """Return the states in the order of another model's, by what both assign to the same tokens.

    Maximises Σ_i Σ_t Pr(state order[i] at t | model) · Pr(state i at t | other).

    Parameters
    ----------
    problem : Unlabelled
    model : (MarkovChain, Emission)
    other : object
        With ``chain`` and ``emission``, over as many states.
    """
    theirs = other.chain, other.emission
    if len(other.chain.log_start) != len(model[0].log_start):
        raise ParameterError(
            parameter="match_to",
            expected=f"a model with {len(model[0].log_start)} states",
            found=f"{len(other.chain.log_start)}",
        )
    from tagloom.evaluation.assignments import assign  # here, for a quick start

    gammas = [_posteriors(problem, *each) for each in (theirs, model)]
    return assign(gammas[0].T @ gammas[1]).tolist()  # type: ignore[no-any-return]


def _posteriors(problem: Unlabelled, chain: MarkovChain, emission: Any) -> Float64:
    """Compute the probability of each state at each token [T, Y]."""
    offsets, emit, _ = emission.scores(problem.data)
    trans, start, stop, *_ = chain.transitions(problem.labels)
    trellis = Trellis(emit.astype(np.float64), trans, start, stop, offsets=offsets)
    return np.asarray(trellis.marginals(on_infeasible="none"))


def permute(model: ChainAndEmission, order: Sequence[int]) -> ChainAndEmission:
    """Return the same model with its states in another order; state i is ``order[i]``."""
    chain, emission = model
    places = np.asarray(order)
    permuted = MarkovChain(
        chain.log_start[places],
        (np.ascontiguousarray(chain.log_trans[0][np.ix_(places, places)]),),
        None if chain.log_stop is None else chain.log_stop[places],
    )
    return permuted, emission.permute(order)


def warn_unused(states: Sequence[str], stacklevel: int) -> None:
    """Warn that states are not used by any token."""
    if states:
        warnings.warn(
            f"{len(states)} of the states are not used by any token: {', '.join(states)}. "
            "Fewer states, a prior above 1 or more restarts may help.",
            stacklevel=stacklevel,
        )
