r"""The two halves of expectation maximisation for a chain and any emission.

The E-step computes, given a model, the expected number of each start, transition and stop, and the
probability γ[t, y] of each label of each token. The M-step of the chain divides expected counts by
their totals; that of the emission is `Emission.update`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom.errors import ParameterError, TrainingError
from tagloom.learners.base import (
    Allowed,
    CandidateLabels,
    ChainAndEmission,
    ChainPrior,
    Unlabelled,
)
from tagloom.scores.emissions import Emission
from tagloom.scores.emissions.base import Lookup
from tagloom.scores.markov import MarkovChain
from tagloom.scores.word_counts import add_rows
from tagloom.trellis import Trellis, engine
from tagloom.trellis.batches import Batch, Candidates, read_batch
from tagloom.trellis.machine import ALL_THREADS

Float64 = npt.NDArray[np.float64]

# Probabilities below this become 0: the likelihood is the same, and sums over paths stay fast.
_LEAST = 1e-90


# ---- the E-step --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Expectation:
    """Expected counts given a model.

    Attributes
    ----------
    log_likelihood : float
        Σ_i weight_i · log Pr(x_i), where the labels are restricted to the candidates.
    start : ndarray, shape (Y,)
    transitions : ndarray, shape (Y, Y)
    stop : ndarray, shape (Y,)
    stats : object
        The statistics of the emission, for `Emission.update`.
    """

    log_likelihood: float
    start: Float64
    transitions: Float64
    stop: Float64
    stats: Any

    @property
    def occupancy(self) -> Float64:
        """Expected number of tokens of each state [Y]."""
        return np.asarray(self.start + self.transitions.sum(axis=0))


class EStep:
    """The E-step of one problem. It reuses its memory from iteration to iteration.

    Parameters
    ----------
    problem : Unlabelled
    buffers : dict, optional
        Memory that several problems share, one after another.
    """

    def __init__(
        self, problem: Unlabelled, buffers: dict[str, npt.NDArray[Any]] | None = None
    ) -> None:
        self.problem = problem
        self._buffers = {} if buffers is None else buffers
        self._scores: Float64 | None = None  # [C] of candidates; a batch refers to them
        self._pairs: tuple[Any, Any] | None = None  # tokens [C], label_ids [C]
        self._cells: Cells | None = None
        self._batch: Batch | None = None  # of candidates
        if problem.candidates is not None:
            self._pairs = problem.candidates.tokens, problem.candidates.label_ids

    def __call__(self, chain: MarkovChain, emission: Emission) -> Expectation:
        """Compute the expected counts.

        Raises
        ------
        TrainingError
            If a sequence has probability 0.
        """
        lookup = None if self.problem.tied else emission.lookup(self.problem.data)
        if self.problem.candidates is not None:
            return self._listed(chain, emission, self.problem.candidates, lookup)
        return self._dense(chain, emission, lookup)

    def _buffer(self, name: str, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """Return memory that is reused: the pages of a new array take longer than its use."""
        size = math.prod(shape)
        if name not in self._buffers or len(self._buffers[name]) < size:
            self._buffers[name] = np.empty(size, dtype=dtype)
        return self._buffers[name][:size].reshape(shape)

    def _dense(self, chain: MarkovChain, emission: Emission, lookup: Lookup | None) -> Expectation:
        """All labels of each token."""
        problem = self.problem
        model = self._model(chain, problem.dtype)
        is_small = engine.applies_small_chain(model, len(problem.offsets) - 1, problem.dtype)
        if lookup is not None and not is_small:
            return self._shared(model, emission, lookup)
        if lookup is None and is_small:
            expected = self._quadratic(model, emission)
            if expected is not None:
                return expected
        shape = problem.n_tokens, len(problem.labels)
        if lookup is None:
            _, emit, edge = emission.scores(problem.data, problem.n_threads or 1)
            if edge is not None:
                raise emission.unsupported("scores", "its edges cannot be learned without labels")
            emit = emit.astype(problem.dtype, copy=False)
            batch = read_batch(emit, None, problem.offsets, self._threads)
        else:
            emit = self._buffer("emit", shape, problem.dtype)
            np.take(lookup.rows, lookup.ids, axis=0, out=emit, mode="clip")
            batch = Batch(emit, None, problem.offsets, 0.0)  # the bound is for best paths only
        gamma = self._buffer("gamma", shape, problem.dtype)
        log_z, counts = self._sum(model, batch, gamma)
        stats = self._collect(emission, self._wide(gamma), lookup)
        return Expectation(self._total(log_z), counts.start, counts.transitions, counts.stop, stats)

    def _quadratic(self, model: engine.Transitions, emission: Emission) -> Expectation | None:
        """All labels of tokens with quadratic scores; None if another kernel must answer."""
        problem, counts = self.problem, model.no_counts()
        quadratic = None if problem.tied else emission.quadratic(problem.data)
        if quadratic is None:
            return None
        found = engine.quadratic_sums(
            model, *quadratic, problem.offsets, self._threads, counts, problem.weight
        )
        if found is None:
            return None
        log_z, sums = found
        stats = emission.collect_sums(problem.data, sums, problem.token_weight)
        return Expectation(self._total(log_z), counts.start, counts.transitions, counts.stop, stats)

    def _shared(self, model: engine.Transitions, emission: Emission, lookup: Lookup) -> Expectation:
        """All labels of tokens that share rows of scores."""
        problem, counts = self.problem, model.no_counts()
        rows = lookup.rows.astype(problem.dtype, copy=False)
        log_z, row_counts = engine.shared_row_sums(
            model, rows, lookup.ids, problem.offsets, self._threads, counts, problem.weight
        )
        stats = emission.collect_rows(problem.data, row_counts)
        return Expectation(self._total(log_z), counts.start, counts.transitions, counts.stop, stats)

    @property
    def _threads(self) -> int:
        return self.problem.n_threads or ALL_THREADS

    def _model(self, chain: MarkovChain, dtype: npt.DTypeLike) -> engine.Transitions:
        parts = chain.transitions(self.problem.labels)[:3]
        trans, start, stop = (part.astype(dtype, copy=False) for part in parts)
        return engine.Transitions(len(start), None, trans, start, stop, None, None)

    def _sum(
        self, model: engine.Transitions, batch: Batch, marginals: npt.NDArray[Any]
    ) -> tuple[Float64, engine.Counts]:
        """Return log_z [N] and expected counts, and write the marginals."""
        counts, weight = model.no_counts(), self.problem.weight
        log_z = engine.sums(
            model, batch, self._threads, marginals=marginals, counts=counts, weight=weight
        )
        return log_z, counts

    def _wide(self, gamma: npt.NDArray[Any]) -> Float64:
        """Return marginals as float64."""
        if gamma.dtype == np.float64:
            return gamma
        wide = self._buffer("wide", gamma.shape, np.float64)
        np.copyto(wide, gamma)
        return wide

    def _collect(self, emission: Emission, gamma: Float64, lookup: Lookup | None) -> Any:
        problem = self.problem
        if lookup is not None:
            counts = add_rows(lookup.ids, gamma, problem.token_weight, *lookup.rows.shape)
            return emission.collect_rows(problem.data, counts)
        if problem.tied:
            gamma = share(gamma, problem.tied)
        return emission.collect(problem.data, gamma, problem.token_weight)

    def _listed(
        self,
        chain: MarkovChain,
        emission: Emission,
        candidates: CandidateLabels,
        lookup: Lookup | None,
    ) -> Expectation:
        """Few labels of each token."""
        assert self._pairs is not None
        if lookup is not None:
            return self._listed_cells(chain, emission, candidates, lookup)
        problem, n = self.problem, len(candidates.label_ids)
        if self._scores is None:
            self._scores = np.empty(n)
        self._scores[...] = emission.log_probs(problem.data)[self._pairs]
        if self._batch is None:  # checked once: only the scores in its memory change
            listed = Candidates(candidates.indptr, candidates.label_ids, self._scores)
            self._batch = Batch.of_candidates(listed, len(problem.labels), problem.offsets, 0.0)
        probs = self._buffer("probs", (n,), np.float64)
        log_z, counts = self._sum(self._model(chain, np.float64), self._batch, probs)
        gamma = np.zeros((problem.n_tokens, len(problem.labels)))
        gamma[self._pairs] = probs
        stats = self._collect(emission, gamma, None)
        return Expectation(self._total(log_z), counts.start, counts.transitions, counts.stop, stats)

    def _listed_cells(
        self, chain: MarkovChain, emission: Emission, candidates: CandidateLabels, lookup: Lookup
    ) -> Expectation:
        """Few labels of tokens that share rows of scores."""
        problem = self.problem
        if self._cells is None or self._cells.ids is not lookup.ids:
            self._cells = self._find_cells(candidates, lookup)
        places, cells = self._cells.places, self._cells.cells
        model = self._model(chain, np.float64)
        counts = model.no_counts()
        log_z, cell_counts = engine.cell_sums(
            model, cells, lookup.at(places), self._threads, counts, problem.weight
        )
        stats = emission.collect_rows(problem.data, cell_counts, places)
        return Expectation(self._total(log_z), counts.start, counts.transitions, counts.stop, stats)

    def _find_cells(self, candidates: CandidateLabels, lookup: Lookup) -> Cells:
        """Return the cells of the table of rows that candidates use."""
        assert self._pairs is not None
        tokens, label_ids = self._pairs
        flat = lookup.ids[tokens].astype(np.int64) * lookup.shape[1] + label_ids
        places, numbers = np.unique(flat, return_inverse=True)
        listed = engine.CellBatch(
            *candidates, numbers.astype(np.int32), places, self.problem.offsets, lookup.shape[1]
        )
        return Cells(lookup.ids, places, listed)

    def _total(self, log_z: Float64) -> float:
        """Sum the log-likelihoods of the sequences [N], and raise if one is −inf."""
        impossible = np.flatnonzero(np.isneginf(log_z))
        if len(impossible):
            raise TrainingError(
                f"sequence {impossible[0]} has probability 0 under the start values.",
                where=f"sequence {impossible[0]}",
                expected="a possible sequence of labels",
                found=f"none for {len(impossible)} of {len(log_z)} sequences",
                hint="Check {allowed}, {constraints} and the start values for zeros.",
                options={"allowed": ..., "constraints": ...},
            )
        weight = self.problem.weight
        return float(log_z.sum() if weight is None else weight @ log_z)


class Cells(NamedTuple):
    """The cells of a table of rows [R, Y] that candidates use, few enough for the cache."""

    ids: npt.NDArray[np.int32]  #: [T] the row of each token
    places: npt.NDArray[np.int64]  #: [K] the place of each cell in the flat table
    cells: engine.CellBatch


def share(gamma: Float64, tied: tuple[tuple[int, ...], ...]) -> Float64:
    """Average the columns of states that share an emission.

    Each state of a group then has the same statistics, and all of them together those of the group.
    """
    shared = gamma.copy()
    for group in tied:
        shared[:, group] = gamma[:, group].mean(axis=1, keepdims=True)
    return shared


# ---- the M-step of the chain -------------------------------------------------------------------


def update_chain(
    problem: Unlabelled, expected: Expectation, before: MarkovChain, prior: ChainPrior | None = None
) -> MarkovChain:
    """Return the chain that maximises expected likelihood times prior.

    A state that was never left keeps its transitions.

    Parameters
    ----------
    problem : Unlabelled
    expected : Expectation
    before : MarkovChain
        The present chain, whose parts in ``problem.fixed`` stay.
    prior : ChainPrior, optional
        Instead of that of the problem.
    """
    alpha = outcome_prior(problem, prior)
    old_start, old_outcomes = probs_of(before)
    start, outcomes = expected_outcomes(problem, expected)
    if "start" in problem.fixed:
        start = old_start
    else:
        start = _divide(start + alpha.start, problem.possible.start, old_start)
    if "transitions" in problem.fixed:
        outcomes = old_outcomes
    else:
        outcomes = _divide(outcomes + alpha.outcomes, possible_outcomes(problem), old_outcomes)
    return chain_of(start, outcomes, problem.has_stop)


@dataclass(frozen=True, eq=False)
class OutcomePrior:
    """Pseudo-counts α − 1 of the start [Y] and of what follows each label [Y, Y or Y + 1]."""

    start: Float64
    outcomes: Float64


def outcome_prior(problem: Unlabelled, prior: ChainPrior | None = None) -> OutcomePrior:
    """Return the pseudo-counts of a problem's prior.

    Raises
    ------
    ParameterError
        If a parameter is below 1, where the posterior has no mode.
    """
    start, outcomes = dirichlet_parameters(problem, prior)
    least = min(start.min(initial=1.0), outcomes.min(initial=1.0))
    if least < 1:
        raise ParameterError(
            parameter="prior",
            expected="at least 1 for expectation maximisation: the posterior has no mode below",
            found=f"{least}",
            hint="Variational Bayes and Gibbs sampling take it.",
        )
    return OutcomePrior(start - 1, outcomes - 1)


def dirichlet_parameters(
    problem: Unlabelled, prior: ChainPrior | None = None
) -> tuple[Float64, Float64]:
    """Return α of the start [Y] and of what follows each label [Y, Y or Y + 1]."""
    prior = prior or problem.prior
    Y = len(problem.labels)
    start = np.broadcast_to(np.asarray(prior.start, dtype=np.float64), (Y,))
    outcomes = np.broadcast_to(np.asarray(prior.transitions, dtype=np.float64), (Y, Y))
    if problem.has_stop:
        stop = np.broadcast_to(np.asarray(prior.stop, dtype=np.float64), (Y,))
        outcomes = np.concatenate([outcomes, stop[:, None]], axis=1)
    return np.array(start), np.array(outcomes)


def possible_outcomes(problem: Unlabelled) -> npt.NDArray[np.bool_]:
    """Return which labels, and the end, may follow each label [Y, Y or Y + 1]."""
    possible: Allowed = problem.possible
    if not problem.has_stop:
        return possible.transitions
    return np.concatenate([possible.transitions, possible.stop[:, None]], axis=1)


def expected_outcomes(problem: Unlabelled, expected: Expectation) -> tuple[Float64, Float64]:
    """Return the expected starts [Y] and what followed each label [Y, Y or Y + 1]."""
    if not problem.has_stop:
        return expected.start, expected.transitions
    return expected.start, np.concatenate([expected.transitions, expected.stop[:, None]], axis=1)


def probs_of(chain: MarkovChain) -> tuple[Float64, Float64]:
    """Return Pr(y_1) [Y] and the probabilities of what follows each label [Y, Y or Y + 1]."""
    outcomes = np.exp(chain.log_trans[0])
    if chain.log_stop is not None:
        outcomes = np.concatenate([outcomes, np.exp(chain.log_stop)[:, None]], axis=1)
    return np.exp(chain.log_start), outcomes


def chain_of(start: Float64, outcomes: Float64, has_stop: bool) -> MarkovChain:
    """Make a chain from the result of `probs_of`."""
    Y = len(start)
    return MarkovChain.from_probs(start, (outcomes[:, :Y],), outcomes[:, Y] if has_stop else None)


def _divide(masses: Float64, possible: npt.NDArray[np.bool_], before: Float64) -> Float64:
    """Divide masses by the sum of their row; a row without any keeps its probabilities."""
    masses = np.where(possible, masses, 0.0)
    totals = masses.sum(axis=-1, keepdims=True)
    probs = np.where(totals > 0, masses / np.where(totals > 0, totals, 1), before)
    probs[probs < _LEAST] = 0
    return probs


def chain_log_prior(problem: Unlabelled, chain: MarkovChain) -> float:
    """Return Σ (α − 1) · log Pr over all possible outcomes that are learned."""
    alpha = outcome_prior(problem)
    start, outcomes = probs_of(chain)
    parts = []
    if "start" not in problem.fixed:
        parts.append((alpha.start, start, problem.possible.start))
    if "transitions" not in problem.fixed:
        parts.append((alpha.outcomes, outcomes, possible_outcomes(problem)))
    total = 0.0
    for pseudo, probs, possible in parts:
        counts = possible & (pseudo > 0)
        total += float((pseudo[counts] * np.log(probs[counts])).sum())
    return total


# ---- the initial model -------------------------------------------------------------------------


def initial_model(problem: Unlabelled, rng: np.random.Generator) -> ChainAndEmission:
    """Return the start values, drawn at random where the problem has none.

    With candidates, the candidates of a token are about equally probable: the tag dictionary or the
    known labels then decide where learning leads, and the random part only breaks ties.
    """
    chain = problem.chain or random_chain(problem, rng)
    if problem.emission.is_fitted and problem.emission.learned:
        return chain, problem.emission
    if not problem.is_restricted:
        emission = problem.passes().initialise(problem.emission, rng)
        return chain, tie_emission(problem, chain, emission)
    return _model_of_candidates(problem, chain, rng)


def random_chain(problem: Unlabelled, rng: np.random.Generator) -> MarkovChain:
    """Draw a chain, half way between uniform and Dirichlet(1)."""
    possible = possible_outcomes(problem)
    start = _random_rows(problem.possible.start[None], rng)[0]
    return chain_of(start, _random_rows(possible, rng), problem.has_stop)


def _random_rows(possible: npt.NDArray[np.bool_], rng: np.random.Generator) -> Float64:
    masses = np.where(possible, 1.0 + rng.standard_exponential(possible.shape), 0.0)
    totals = masses.sum(axis=1, keepdims=True)
    return np.asarray(masses / np.where(totals > 0, totals, 1.0))


def _model_of_candidates(
    problem: Unlabelled, chain: MarkovChain, rng: np.random.Generator
) -> ChainAndEmission:
    """Estimate a model from nearly uniform scores of the candidates."""
    expected = problem.passes().guess(problem.emission, rng)
    if problem.chain is None:
        # One more of every outcome, so that none is impossible from the beginning.
        chain = update_chain(
            replace(problem, fixed=frozenset()), expected, chain, ChainPrior.symmetric(2.0)
        )
    return chain, problem.emission.update(expected.stats)


def guess_candidates(
    problem: Unlabelled, emission: Emission, rng: np.random.Generator
) -> Expectation:
    """Compute the expected counts for nearly uniform scores of the candidates.

    Draws a number for each candidate, in order, from ``rng.standard_normal``.
    """
    candidates = problem.candidates
    assert candidates is not None
    trans, start, stop, *_ = chain_of(*_uniform(problem), problem.has_stop).transitions(
        problem.labels
    )
    trellis = Trellis.from_candidates(
        0.1 * rng.standard_normal(len(candidates.label_ids)),
        candidates.label_ids,
        candidates.indptr,
        trans,
        start,
        stop,
        offsets=problem.offsets,
        n_threads=problem.n_threads,
    )
    probs = np.empty(len(candidates.label_ids))
    log_z, counts = trellis.expectations(marginals=probs, weight=problem.weight)
    EStep(problem)._total(log_z)  # raises if a sequence is impossible
    gamma = np.zeros((problem.n_tokens, len(problem.labels)))
    gamma[candidates.tokens, candidates.label_ids] = probs
    if problem.tied:
        gamma = share(gamma, problem.tied)
    stats = emission.collect(problem.data, gamma, problem.token_weight)
    return Expectation(0.0, counts.start, counts.transitions, counts.stop, stats)


def _uniform(problem: Unlabelled) -> tuple[Float64, Float64]:
    masses = problem.possible.start.astype(np.float64), possible_outcomes(problem).astype(float)
    start, outcomes = (m / np.maximum(m.sum(axis=-1, keepdims=True), 1) for m in masses)
    return start, outcomes


def tie_emission(problem: Unlabelled, chain: MarkovChain, emission: Emission) -> Emission:
    """Return an emission that is the same for tied states, after one E-step."""
    if not problem.tied:
        return emission
    return emission.update(problem.passes().expect(chain, emission).stats)
