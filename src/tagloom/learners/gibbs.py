r"""Gibbs sampling: draws of the labels from their posterior, given the tokens alone.

Pointwise sampling integrates the parameters out and draws one label at a time given all others
(Goldwater and Griffiths 2007; the formula is in ``core/gibbs.hpp``). Blocked sampling draws
parameters given the labels, then all labels of a sequence at once given the parameters. Both have
the same posterior as their limit; pointwise sampling takes a tenth of the time per sweep.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import ParameterError
from tagloom.learners.base import Algorithm, ChainAndEmission, ChainPrior, Unlabelled
from tagloom.learners.concentrations import RowCounts, draw_concentration, log_gamma
from tagloom.learners.expectations import (
    chain_of,
    dirichlet_parameters,
    initial_model,
    possible_outcomes,
    probs_of,
)
from tagloom.parameters import count, flag, number
from tagloom.scores.emissions import Categorical, Emission
from tagloom.scores.markov import MarkovChain, count_ngrams
from tagloom.training.learners import Learner, State, Step
from tagloom.trellis import Trellis

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]

# Concentrations at which sampling begins, if they are not given.
_FIRST_ALPHA, _FIRST_BETA = 0.1, 0.01


class Gibbs(Algorithm, name="gibbs"):
    """Gibbs sampling of the labels.

    Each sweep draws every label once. The model to predict with is the mean of the parameters given
    the labels of the last sweep, which is one draw from the posterior. Means over many sweeps would
    mix states that exchange their roles; where labels have a meaning, as with a tag dictionary,
    they cannot, and ``average`` reduces the noise.

    Examples
    --------
    >>> import tagloom as tl
    >>> X = [["the", "dog", "barks"], ["the", "cat", "sleeps"], ["a", "dog", "sleeps"]] * 20
    >>> gibbs = tl.learners.Gibbs(sweeps=50, alpha=0.1, beta=0.1)
    >>> hmm = tl.HMM(n_states=3, algorithm=gibbs, random_state=0).fit(X)
    >>> len({tuple(labels) for labels in hmm.predict(X)})  # determiner, noun, verb
    1
    """

    sweeps: int = count(
        default=500,
        least=1,
        kw_only=False,
        help="Number of sweeps.",
        details="log Pr(tokens, labels) of 200,000 words still rises by 4,000, twice its deviation "
        "between seeds, from 300 to 500 sweeps.",
    )
    alpha: float | None = number(
        default=None,
        above=0,
        help="Parameter of the Dirichlet priors of starts, transitions and stops.",
        details="By default it is drawn from its posterior in each sweep, unless the model has "
        "another ``prior`` than its default.",
    )
    beta: float | None = number(
        default=None,
        above=0,
        help="Parameter of the Dirichlet prior of categorical emissions.",
        details="By default it is drawn from its posterior in each sweep. Other emissions have "
        "their own priors.",
    )
    blocked: bool | None = flag(
        default=None,
        help="Whether to draw the labels of a sequence at once, given drawn parameters.",
        details="By default only where pointwise sampling does not apply: for emissions other than "
        "`Categorical`, and for fixed or tied parameters.",
    )
    average: int = count(
        default=1,
        least=1,
        help="Number of last sweeps over which counts are averaged.",
        details="More than 1 if labels cannot exchange their roles.",
    )

    @property
    def n_steps(self) -> int:
        """Number of sweeps."""
        return self.sweeps

    def with_steps(self, n: int) -> Algorithm:
        """Return a copy that makes n sweeps."""
        return type(self)(**self.get_params() | {"sweeps": n})

    def start(self, problem: Unlabelled, seed: int) -> Learner[ChainAndEmission]:
        """Make the sampler. It begins with labels drawn from the start values, or at random.

        Raises
        ------
        ParameterError
            If sequences have weights, or ``blocked=False`` does not apply.
        """
        refuse_weights(problem)
        reason = _why_blocked(problem)
        if self.blocked is False and reason is not None:
            raise ParameterError(
                parameter="blocked", expected=f"True or None for {reason}", found="False"
            )
        if self.blocked or reason is not None:
            return BlockedSampler(self, problem, seed)
        return PointwiseSampler(self, problem, seed)


def refuse_weights(problem: Unlabelled) -> None:
    """Raise if a sequence has a weight other than 1: draws of labels cannot be weighted.

    Raises
    ------
    ParameterError
    """
    if problem.weight is not None and (problem.weight != 1).any():
        raise ParameterError(
            parameter="sample_weight",
            expected="no weights, or 1 for each sequence: samplers draw each label once",
            found=f"weights from {problem.weight.min():g} to {problem.weight.max():g}",
            hint='algorithm="em" takes weights.',
        )


def _why_blocked(problem: Unlabelled) -> str | None:
    """Say why pointwise sampling does not apply; None if it does."""
    if type(problem.emission) is not Categorical:
        return f"{type(problem.emission).__name__} emissions"
    if problem.fixed:
        return f"fixed={sorted(problem.fixed)}"
    return "tied emissions" if problem.tied else None


# ---- what both samplers share --------------------------------------------------------------------


class LabelSampler:
    """A chain of draws of the labels; subclasses make one sweep.

    Parameters
    ----------
    algorithm : Gibbs
    problem : Unlabelled
    seed : int
    """

    def __init__(self, algorithm: Gibbs, problem: Unlabelled, seed: int) -> None:
        self.algorithm, self.problem, self.seed = algorithm, problem, seed
        self.iteration = 0
        self.chain_counts = ChainCounts(problem, algorithm.alpha)
        self.beta = _FIRST_BETA if algorithm.beta is None else algorithm.beta
        self.labels = draw_first_labels(problem, np.random.default_rng([seed, 0]))
        self._visits: Float64 | None = None  # [T, Y] of the sweeps that are averaged
        self._transitions: Float64 | None = None  # [Y + 1, Y + 1] their sum

    @abstractmethod
    def _sweep(self, rng: np.random.Generator) -> float:
        """Draw concentrations and all labels; return the objective."""

    def step(self) -> Step:
        """Do one sweep."""
        self.iteration += 1
        objective = self._sweep(np.random.default_rng([self.seed, self.iteration]))
        if self.algorithm.average > 1 and self._remaining() < self.algorithm.average:
            self._add_to_average()
        return Step.rising(objective, "log_joint")

    def _remaining(self) -> int:
        """Number of sweeps that are still to come."""
        return self.algorithm.sweeps - self.iteration

    # ---- the model -------------------------------------------------------------------------

    def transitions(self) -> Float64:
        """Count the transitions of the present labels [Y + 1, Y + 1]."""
        Y = len(self.problem.labels)
        counts = count_ngrams(self.labels, self.problem.offsets, None, Y, 1)
        counts[Y, Y] = 0  # of empty sequences
        return counts

    def weights(self) -> ChainAndEmission:
        """Return the mean of the parameters, given the labels of the last sweep or sweeps."""
        problem = self.problem
        n = 1 if self._visits is None else self._visits[:1].sum() or 1.0
        transitions = self.transitions() if self._transitions is None else self._transitions / n
        chain = self.chain_counts.mean_chain(transitions)
        if "emission" in problem.fixed:
            return chain, problem.emission
        gamma: npt.NDArray[Any] = self.labels if self._visits is None else self._visits / n
        return chain, mean_emission(problem, gamma, self.beta)

    def _add_to_average(self) -> None:
        if self._visits is None or self._transitions is None:
            Y = len(self.problem.labels)
            self._visits = np.zeros((self.problem.n_tokens, Y))
            self._transitions = np.zeros((Y + 1, Y + 1))
        self._visits[np.arange(len(self.labels)), self.labels] += 1
        self._transitions += self.transitions()

    # ---- checkpoints -----------------------------------------------------------------------

    def state(self) -> State:
        """Return labels and concentrations."""
        state: State = {
            "labels": self.labels,
            "iteration": np.array(self.iteration),
            "concentrations": np.array([self.chain_counts.alpha, self.beta]),
        }
        if self._visits is not None and self._transitions is not None:
            state |= {"visits": self._visits, "transitions": self._transitions}
        return state

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state`."""
        self.labels = np.ascontiguousarray(state["labels"], dtype=np.int32)
        self.iteration = int(state["iteration"])
        self.chain_counts.alpha, self.beta = map(float, state["concentrations"])
        self._visits, self._transitions = state.get("visits"), state.get("transitions")


def draw_first_labels(problem: Unlabelled, rng: np.random.Generator) -> Int32:
    """Draw labels from the start values; without any, uniformly from those that are allowed.

    Starting with one label for all tokens of a symbol is no better by log Pr(words, labels): on
    English EWT after 300 sweeps it is lower by 3,000 with 17 states, about one standard error,
    and equal with 45 (means of five seeds).
    """
    if problem.chain is not None or (problem.emission.is_fitted and problem.emission.learned):
        chain, emission = initial_model(problem, rng)
        return draw_labels(problem, chain, emission, rng)[0]
    Y, possible = len(problem.labels), problem.possible
    if problem.candidates is None and problem.allowed is None:
        return rng.integers(0, Y, problem.n_tokens).astype(np.int32)
    outcomes = possible_outcomes(problem).astype(np.float64)
    chain = chain_of(possible.start.astype(np.float64), outcomes, problem.has_stop)
    labels: Int32 = _trellis(problem, chain, None).sample(1, rng)[0]
    return labels


def draw_by_symbol(problem: Unlabelled, Y: int, rng: np.random.Generator) -> Int32:
    """Draw one of Y labels for each symbol; for each token if the emission has no symbols."""
    if type(problem.emission) is not Categorical:
        return rng.integers(0, Y, problem.n_tokens).astype(np.int32)
    data = problem.data
    labels = rng.integers(0, Y, len(data.symbols) + 2).astype(np.int32)  # [V + 2]
    return np.asarray(labels[data.ids])


def draw_labels(
    problem: Unlabelled, chain: MarkovChain, emission: Emission, rng: np.random.Generator
) -> tuple[Int32, float]:
    """Draw all labels given parameters, and return them with log Pr(tokens | labels)."""
    trellis = _trellis(problem, chain, emission)
    labels = trellis.sample(1, rng)[0]
    if trellis.candidates is None:
        emitted = trellis.emit[np.arange(len(labels)), labels]
    else:
        emitted = _pair_scores(emission, problem.data, np.arange(len(labels)), labels)
    return labels, float(emitted.sum(dtype=np.float64))


def _trellis(problem: Unlabelled, chain: MarkovChain, emission: Emission | None) -> Trellis:
    """Score the allowed labels; without an emission, all tokens alike."""
    trans, start, stop, *_ = chain.transitions(problem.labels)
    options: Any = {"offsets": problem.offsets, "n_threads": problem.n_threads}
    emit: npt.NDArray[Any]
    if problem.candidates is None:
        if emission is None:
            emit = np.zeros((problem.n_tokens, len(problem.labels)))
        else:
            _, emit, edge = emission.scores(problem.data, problem.n_threads or 1)
            if edge is not None:
                raise emission.unsupported("scores", "its edges cannot be learned without labels")
        return Trellis(emit, trans, start, stop, **options)
    indptr, label_ids = problem.candidates
    scores: Any = np.zeros(len(label_ids))
    if emission is not None:
        scores = _pair_scores(emission, problem.data, problem.candidates.tokens, label_ids)
    return Trellis.from_candidates(scores, label_ids, indptr, trans, start, stop, **options)


def _pair_scores(
    emission: Emission, data: Any, tokens: npt.NDArray[np.int64], label_ids: Int32
) -> npt.NDArray[Any]:
    """Compute log Pr(x_t | y) of C pairs of a token and a label [C]."""
    lookup = emission.lookup(data)
    if lookup is None:
        return np.asarray(emission.log_probs(data)[tokens, label_ids])
    return np.asarray(lookup.rows[lookup.ids[tokens], label_ids])


def mean_emission(problem: Unlabelled, gamma: npt.NDArray[Any], beta: float) -> Emission:
    """Estimate the emission from labels [T] or their probabilities [T, Y].

    For `Categorical` the mean of the posterior, for others what `Emission.update` returns.
    """
    emission, representative = problem.emission, representatives(problem)
    if representative is not None:
        gamma = representative[gamma] if gamma.ndim == 1 else gamma @ _merging(representative)
    stats = emission.collect(problem.data, gamma)
    mean: Emission
    if isinstance(emission, Categorical):
        # The mean under Dirichlet(β) is the mode under Dirichlet(1 + β).
        mean = emission.replace(prior=1 + beta).update(stats).replace(prior=emission.prior)
    else:
        mean = emission.update(stats)
    return mean if representative is None else mean.permute(representative.tolist())


def representatives(problem: Unlabelled) -> Int32 | None:
    """Return for each state the first of those that share its emission [Y]; None if none do."""
    if not problem.tied:
        return None
    first = np.arange(len(problem.labels), dtype=np.int32)
    for group in problem.tied:
        first[list(group)] = min(group)
    return first


def _merging(representative: Int32) -> Float64:
    Y = len(representative)
    merge = np.zeros((Y, Y))
    merge[np.arange(Y), representative] = 1
    return merge


# ---- the chain given counts ----------------------------------------------------------------------


class ChainCounts:
    """The posterior of a chain given counts of transitions, and the concentration of its prior.

    Parameters
    ----------
    problem : Unlabelled
    alpha : float, optional
        None to draw it, unless the problem has a prior other than the default of `HMM`.

    Attributes
    ----------
    alpha : float
        NaN if the prior of the problem is used.
    """

    def __init__(self, problem: Unlabelled, alpha: float | None) -> None:
        self.problem = problem
        self.Y = len(problem.labels)
        is_given = alpha is None and not _is_default(problem.prior)
        self.learns_alpha = alpha is None and not is_given
        self.alpha = np.nan if is_given else _FIRST_ALPHA if alpha is None else alpha
        self.possible = problem.possible.start, possible_outcomes(problem)  # [Y], [Y, Y (+ 1)]

    def prior(self) -> tuple[Float64, Float64]:
        """Return Dirichlet parameters of start [Y] and outcomes [Y, Y or Y + 1]; 0: impossible."""
        given = None if np.isnan(self.alpha) else ChainPrior.symmetric(self.alpha)
        start, outcomes = dirichlet_parameters(self.problem, given)
        return np.where(self.possible[0], start, 0.0), np.where(self.possible[1], outcomes, 0.0)

    def split(self, transitions: Float64) -> tuple[Float64, Float64]:
        """Return counts [Y + 1, Y + 1] as those of start [Y] and outcomes [Y, Y or Y + 1]."""
        width = self.Y + self.problem.has_stop
        return transitions[self.Y, : self.Y], transitions[: self.Y, :width]

    def draw_alpha(self, transitions: Float64, rng: np.random.Generator) -> None:
        """Draw the concentration given counts, if it is learned."""
        if not self.learns_alpha:
            return
        rows = [
            RowCounts.from_counts(counts[possible.any(axis=1)], n[n > 0])
            for counts, possible in zip(
                map(np.atleast_2d, self.split(transitions)),
                map(np.atleast_2d, self.possible),
                strict=True,
            )
            for n in [possible.sum(axis=1)]
        ]
        self.alpha = draw_concentration(rows, self.alpha, rng)

    def log_evidence(self, transitions: Float64) -> float:
        """Compute log Pr(labels), with the chain integrated out."""
        total = 0.0
        for counts, prior in zip(self.split(transitions), self.prior(), strict=True):
            total += log_evidence(np.atleast_2d(counts), np.atleast_2d(prior))
        return total

    def mean_chain(self, transitions: Float64) -> MarkovChain:
        """Return the mean of the chain given counts; fixed parts keep their start values."""
        pairs = zip(self.split(transitions), self.prior(), strict=True)
        return self._with_fixed(*(_normalise(counts + prior) for counts, prior in pairs))

    def draw_chain(self, transitions: Float64, rng: np.random.Generator) -> MarkovChain:
        """Draw a chain given counts; fixed parts keep their start values."""
        start, outcomes = (
            draw_rows(np.atleast_2d(counts + prior), np.atleast_2d(possible), rng)
            for counts, prior, possible in zip(
                self.split(transitions), self.prior(), self.possible, strict=True
            )
        )
        return self._with_fixed(start[0], outcomes)

    def _with_fixed(self, start: Float64, outcomes: Float64) -> MarkovChain:
        fixed, chain = self.problem.fixed, self.problem.chain
        if chain is not None and fixed:
            old_start, old_outcomes = probs_of(chain)
            start = old_start if "start" in fixed else start
            outcomes = old_outcomes if "transitions" in fixed else outcomes
        return chain_of(start, outcomes, self.problem.has_stop)


def _is_default(prior: ChainPrior) -> bool:
    """Whether a prior is flat, or the default of `HMM`, which is meant for maximisation."""
    parts = (prior.start, prior.transitions, prior.stop)
    return all(isinstance(part, float) and part in (1.0, 1.01) for part in parts)


def _normalise(masses: Float64) -> Float64:
    total = masses.sum(axis=-1, keepdims=True)
    return np.asarray(masses / np.where(total > 0, total, 1))


def draw_rows(alpha: Float64, possible: npt.NDArray[np.bool_], rng: np.random.Generator) -> Float64:
    """Draw each row from its Dirichlet distribution; impossible outcomes get 0.

    A gamma variable of a small shape underflows; log G(a) = log G(a + 1) + log(U) / a does not.
    """
    shapes = np.where(possible, alpha, 1.0)
    logs = np.log(rng.standard_gamma(shapes + 1)) + np.log1p(-rng.random(shapes.shape)) / shapes
    logs = np.where(possible, logs, -np.inf)
    top = logs.max(axis=1, keepdims=True, initial=-np.inf)
    return _normalise(np.exp(logs - np.where(np.isneginf(top), 0.0, top)))


def log_evidence(counts: Float64, prior: Float64) -> float:
    """Compute the log-probability of ordered draws, with the rows integrated out.

    Σ_r log Γ(a_r) − log Γ(a_r + n_r) + Σ_c log Γ(a_rc + n_rc) − log Γ(a_rc)
    """
    seen = counts > 0  # the other cells contribute 0
    totals, priors = counts.sum(axis=1), prior.sum(axis=1)
    has_draws = totals > 0
    rows = log_gamma(priors[has_draws]) - log_gamma((priors + totals)[has_draws])
    cells = log_gamma((prior + counts)[seen]) - log_gamma(prior[seen])
    return float(rows.sum() + cells.sum())


# ---- pointwise -----------------------------------------------------------------------------------


class PointwiseSampler(LabelSampler):
    """Collapsed sampling of categorical emissions: one label at a time, without parameters."""

    def __init__(self, algorithm: Gibbs, problem: Unlabelled, seed: int) -> None:
        super().__init__(algorithm, problem, seed)
        self.symbols, self.n_cells = read_symbols(problem)
        is_given = self.symbols >= 0
        self._is_given = None if is_given.all() else is_given
        self._native = self._make()

    def _make(self) -> _native.Gibbs:
        problem = self.problem
        lists = (None, None) if problem.candidates is None else problem.candidates
        Y = len(problem.labels)
        return _native.Gibbs(Y, self.n_cells, problem.offsets, self.symbols, self.labels, *lists)

    def _sweep(self, rng: np.random.Generator) -> float:
        self.chain_counts.draw_alpha(self._native.transitions(), rng)
        if self.algorithm.beta is None:
            self.beta = draw_concentration([self._emissions()], self.beta, rng)
        start, outcomes = self.chain_counts.prior()
        Y = len(start)
        trans = np.ascontiguousarray(outcomes[:, :Y])
        stop = np.ascontiguousarray(outcomes[:, Y]) if self.problem.has_stop else None
        seed = int(rng.integers(2**63))
        self._native.sweep(start, trans, stop, self.beta, seed)
        self.labels = self._native.labels
        chain = self.chain_counts.log_evidence(self._native.transitions())
        return chain + self._emissions().log_evidence(self.beta)

    def _emissions(self) -> RowCounts:
        Y = len(self.problem.labels)
        labels = self.labels if self._is_given is None else self.labels[self._is_given]
        totals = np.bincount(labels, minlength=Y)
        histogram = self._native.emission_histogram()
        return RowCounts.from_histogram(np.full(Y, self.n_cells), totals, histogram)

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state`."""
        super().restore(state)
        self._native = self._make()


def read_symbols(problem: Unlabelled) -> tuple[Int32, int]:
    """Return the symbol of each token [T], −1 if missing, and the number of cells V + 1."""
    data = problem.data
    V = len(data.symbols)
    return np.where(data.ids > V, -1, data.ids).astype(np.int32), V + 1


# ---- blocked -------------------------------------------------------------------------------------


class BlockedSampler(LabelSampler):
    """Parameters given labels, then the labels of whole sequences given parameters."""

    def _sweep(self, rng: np.random.Generator) -> float:
        problem, transitions = self.problem, self.transitions()
        self.chain_counts.draw_alpha(transitions, rng)
        chain = self.chain_counts.draw_chain(transitions, rng)
        emission = problem.emission
        if "emission" not in problem.fixed:
            emission = self._draw_emission(rng)
        self.labels, emitted = draw_labels(problem, chain, emission, rng)
        parts = self.chain_counts.split(self.transitions())
        return emitted + sum(
            float((counts * np.log(np.where(counts > 0, probs, 1))).sum())
            for counts, probs in zip(parts, probs_of(chain), strict=True)
        )

    def _draw_emission(self, rng: np.random.Generator) -> Emission:
        problem, emission = self.problem, self.problem.emission
        representative = representatives(problem)
        labels = self.labels if representative is None else representative[self.labels]
        stats = emission.collect(problem.data, labels)
        if isinstance(emission, Categorical):
            if self.algorithm.beta is None:
                counts = stats.counts.T
                rows = RowCounts.from_counts(counts, np.full(len(counts), counts.shape[1]))
                self.beta = draw_concentration([rows], self.beta, rng)
            emission = emission.replace(prior=self.beta)
        drawn = emission.draw_posterior(stats, rng)
        return drawn if representative is None else drawn.permute(representative.tolist())
