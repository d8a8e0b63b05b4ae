r"""Spectral learning: parameters from the moments of one, two and three adjacent tokens.

Hsu, Kakade and Zhang (2012), "A spectral algorithm for learning hidden Markov models". With O[x, y]
= Pr(x | y), T[y', y] = Pr(y' | y) and π the distribution of the first label of a triple,

    P21   = Pr(x_2, x_1)      = O T diag(π) Oᵀ
    P31   = Pr(x_3, x_1)      = O T T diag(π) Oᵀ
    P3x1  = Pr(x_3, x, x_1)   = O T diag(O[x]) T diag(π) Oᵀ

Let U have the K largest left singular vectors of P21. Then, for any weights η,

    Σ_x η_x UᵀP3x1 (UᵀP31)⁺ = (UᵀOT) diag(Σ_x η_x O[x]) (UᵀOT)⁻¹

so that the eigenvectors of one such matrix make all UᵀP3x1 (UᵀP31)⁺ diagonal, with O[x] on the
diagonals. No search and no random start is involved, and the error falls as 1/√tokens; the
likelihood, however, is not maximised, which EM from here does.

Rows and columns of the moments are divided by the square roots of the frequencies of their symbols,
after which counts have about the same variance. The moments stay lists of the triples that occur: a
matrix with a row and a column for each symbol is never formed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ParameterError, TrainingError
from tagloom.learners.base import (
    Algorithm,
    ChainAndEmission,
    Unlabelled,
    choose_algorithm,
    pack_model,
    unpack_model,
)
from tagloom.parameters import count, number, parameter
from tagloom.scores.markov import MarkovChain
from tagloom.scores.word_counts import add_rows
from tagloom.training.learners import Learner, State, Step
from tagloom.trellis import Trellis

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]

# Triples that are multiplied at once: 65,536 rows of 45 floats are 24 MB.
_CHUNK = 1 << 16
# Smallest singular value, relative to the largest, that counts as different from 0.
_RANK_TOLERANCE = 1e-12


# ---- moments -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Moments:
    """Counts of symbols, pairs and triples of V symbols.

    Attributes
    ----------
    first, last, every : ndarray, shape (V,)
        How often each symbol begins a sequence, ends one, and occurs.
    pairs : ndarray of int32, shape (2, n2)
        Adjacent symbols, the earlier one first.
    pair_counts : ndarray, shape (n2,)
    triples : ndarray of int32, shape (3, n3)
    triple_counts : ndarray, shape (n3,)
    """

    first: Float64
    last: Float64
    every: Float64
    pairs: Int32
    pair_counts: Float64
    triples: Int32
    triple_counts: Float64

    @property
    def n_symbols(self) -> int:
        """V, the number of symbols."""
        return len(self.every)


def count_moments(
    ids: npt.NDArray[Any],
    offsets: npt.NDArray[np.int64],
    n_symbols: int,
    weight: Float64 | None = None,
) -> Moments:
    """Count the symbols, pairs and triples of sequences.

    Parameters
    ----------
    ids : ndarray of int, shape (T,)
        The symbol of each token, from 0 to V − 1; −1 if it is missing.
    offsets : ndarray of int64, shape (N + 1,)
    n_symbols : int
        V.
    weight : ndarray, shape (T,), optional
        The weight of each token, the same within a sequence.
    """
    ids = np.asarray(ids, dtype=np.int64)
    weight = np.ones(len(ids)) if weight is None else weight
    filled = np.flatnonzero(np.diff(offsets))  # sequences that are not empty

    def count_at(tokens: Any) -> Float64:
        tokens = tokens[ids[tokens] >= 0]
        counts = np.bincount(ids[tokens], weights=weight[tokens], minlength=n_symbols)
        return counts.astype(np.float64)  # without tokens they would be integers

    def count_runs(n: int) -> tuple[Int32, Float64]:
        """Count runs of n adjacent symbols."""
        is_begin = np.zeros(len(ids), dtype=bool)
        is_begin[: len(ids) - n + 1] = True
        for back in range(1, n):  # no run crosses the end of its sequence
            ends = offsets[filled + 1] - back
            is_begin[ends[ends >= 0]] = False
        begins = np.flatnonzero(is_begin)
        rows = np.stack([ids[begins + i] for i in range(n)])  # [n, runs]
        is_seen = (rows >= 0).all(axis=0)
        return merge_runs(rows[:, is_seen], weight[begins[is_seen]], n_symbols)

    return Moments(
        count_at(offsets[filled]),
        count_at(offsets[filled + 1] - 1),
        count_at(np.arange(len(ids))),
        *count_runs(2),
        *count_runs(3),
    )


def merge_runs(rows: npt.NDArray[Any], weight: Float64, n_symbols: int) -> tuple[Int32, Float64]:
    """Sum the weights of equal columns [n, runs]; return the different ones and the sums."""
    rows = rows.astype(np.int64)
    key = rows[0]
    for row in rows[1:]:  # after each row the keys are numbered anew, so that they stay small
        key = np.unique(key, return_inverse=True)[1] * np.int64(n_symbols) + row
    _, at, number = np.unique(key, return_index=True, return_inverse=True)
    sums = np.bincount(number, weights=weight, minlength=len(at)).astype(np.float64)
    return rows[:, at].astype(np.int32), sums


# ---- parameters from moments ---------------------------------------------------------------------


class Estimate(NamedTuple):
    """Parameters as recovered, before they are made probabilities; Y states, V symbols."""

    emissions: Float64  #: [V, Y] Pr(x | y)
    start: Float64  #: [Y] distribution of the first state
    transitions: Float64  #: [Y, Y] Pr(y | y_prev), given that the sequence goes on
    stop: Float64  #: [Y] Pr(■ | y)
    visits: Float64  #: [Y] distribution of the state of a token


def recover(
    moments: Moments,
    n_states: int,
    rng: np.random.Generator,
    n_draws: int = 10,
    min_count: float = 0,
) -> Estimate:
    """Compute the parameters of a hidden Markov model from its moments.

    From exact moments the result is exact, up to the order of the states. From counts the entries
    of the chain may be negative; see `project`.

    Parameters
    ----------
    moments : Moments
    n_states : int
        Y, at most the rank of the moments.
    rng : Generator
        Draws the weights η, and the start of the singular vectors.
    n_draws : int
        How many η are tried. The one with the most distinct eigenvalues is used.
    min_count : float
        Rarer symbols are merged where they are the first or third of a triple, which only has to
        tell the states apart; the emission of the second is estimated for each symbol. The counts
        of rare symbols are mostly noise.

    Raises
    ------
    TrainingError
        If there are no triples, or the moments have a lower rank than Y.
    """
    V, Y = moments.n_symbols, n_states
    if not moments.triple_counts.sum() > 0:
        raise TrainingError(
            where="spectral learning", expected="a sequence of at least 3 tokens", found="none"
        )
    views = _merge_rare(moments, min_count, Y)
    frequency = np.bincount(views, weights=moments.every)  # [W] of merged symbols
    scale = np.zeros(len(frequency))  # [W] 1 / √frequency
    np.divide(1, np.sqrt(frequency), out=scale, where=frequency > 0)
    (x1, x2, x3), middle = views[moments.triples], moments.triples[1]
    counts = moments.triple_counts
    left = _singular_vectors(views[moments.pairs], moments.pair_counts, scale, Y, rng)
    left *= scale[:, None]  # [W, Y]
    skipped = add_rows(x1, left[x3], counts, len(scale), Y) * scale[:, None]  # (UᵀP31)ᵀ
    right = np.linalg.pinv(skipped.T) * scale[:, None]  # [W, Y]
    # η of a draw is a direction in the space of the emissions, where the states differ most.
    eta = left @ rng.normal(size=(Y, n_draws))  # [W, draws]
    basis = _eigenvectors((x1, x3), eta[x2] * counts[:, None], left, right)
    by_state = left @ np.linalg.inv(basis).T, right @ basis  # [W, Y] each
    emissions = np.zeros((V, Y))
    for at in _chunks(len(x1)):
        diagonals = by_state[0][x3[at]] * by_state[1][x1[at]]  # [n, Y]
        emissions += add_rows(middle[at], diagonals, counts[at], V, Y)
    return _chain_from(moments, _normalise(emissions.T).T)


def _merge_rare(moments: Moments, min_count: float, n_states: int) -> Int32:
    """Number the symbols [V] such that rare ones share a number.

    If fewer than 2 Y are frequent, all keep a number each.
    """
    is_frequent = moments.every >= min_count
    n = int(is_frequent.sum())
    if n < 2 * n_states:
        return np.arange(moments.n_symbols, dtype=np.int32)
    return np.where(is_frequent, np.cumsum(is_frequent) - 1, n).astype(np.int32)


def _chain_from(moments: Moments, emissions: Float64) -> Estimate:
    """Solve for the chain, given O[x, y]; each moment is linear in it."""
    V, Y = emissions.shape
    inverse = np.linalg.pinv(emissions)  # [Y, V]
    x1, x2 = moments.pairs
    after = add_rows(x2, inverse.T[x1], moments.pair_counts, V, Y)  # [V, Y] (O⁺ P12)ᵀ
    pairs = (inverse @ after).T  # [Y, Y] number of transitions, from → to
    every, last = inverse @ moments.every, inverse @ moments.last
    with np.errstate(divide="ignore", invalid="ignore"):
        return Estimate(
            emissions,
            inverse @ (moments.first / moments.first.sum()),
            pairs / pairs.sum(axis=1, keepdims=True),
            last / every,
            every / every.sum(),
        )


def _singular_vectors(
    pairs: Int32, counts: Float64, scale: Float64, n: int, rng: np.random.Generator
) -> Float64:
    """Return the n largest left singular vectors of the scaled P21 [W, n], by random projections.

    Halko, Martinsson and Tropp (2011), with 10 further vectors and 4 power iterations.
    """
    V = len(scale)
    x1, x2 = pairs
    counts = counts * scale[x1] * scale[x2]
    size = min(n + 10, V)

    def times(matrix: Float64) -> Float64:  # P21 @ matrix
        return add_rows(x2, matrix[x1], counts, V, matrix.shape[1])

    def transposed_times(matrix: Float64) -> Float64:
        return add_rows(x1, matrix[x2], counts, V, matrix.shape[1])

    columns = np.linalg.qr(times(rng.normal(size=(V, size))))[0]
    for _ in range(4):
        columns = np.linalg.qr(times(np.linalg.qr(transposed_times(columns))[0]))[0]
    rotation, values, _ = np.linalg.svd(transposed_times(columns).T, full_matrices=False)
    rank = int((values > _RANK_TOLERANCE * values[0]).sum())
    if rank < n:
        raise TrainingError(
            f"the counts of adjacent tokens have rank {rank}, too low to distinguish {n} states.",
            where="spectral learning",
            expected=f"moments of at least rank {n}",
            found=f"rank {rank}",
            hint=f"Use at most {checks.plural(rank, 'state')}, or algorithm='em'.",
        )
    return np.asarray(columns @ rotation[:, :n])


def _eigenvectors(
    ends: tuple[Int32, Int32], weight: Float64, left: Float64, right: Float64
) -> Float64:
    """Return real vectors [Y, Y] that make the matrices of all symbols diagonal.

    Parameters
    ----------
    ends : (ndarray, ndarray), each of shape (n,)
        The first and the third symbol of each triple.
    weight : ndarray, shape (n, draws)
        The count of each triple times η of its second symbol.
    left, right : ndarray, shape (W, Y)
    """
    (x1, x3), Y = ends, left.shape[1]
    matrices = np.zeros((weight.shape[1], Y, Y))
    for at in _chunks(len(x1)):
        L, R = left[x3[at]], right[x1[at]]
        matrices += np.stack([(L * w[:, None]).T @ R for w in weight[at].T])
    candidates = [np.linalg.eig(matrix) for matrix in matrices]
    values, vectors = max(candidates, key=lambda pair: _separation(pair[0]))
    # A pair of conjugate vectors spans a real plane: its real and its imaginary part.
    return np.where(values.imag < 0, vectors.imag, vectors.real)


def _separation(values: npt.NDArray[Any]) -> tuple[int, float]:
    """Rank eigenvalues: first by how many are real, then by their smallest distance."""
    distances = np.abs(values[:, None] - values[None, :])
    np.fill_diagonal(distances, np.inf)
    largest = np.abs(values).max()
    gap = float(distances.min() / largest) if len(values) > 1 and largest > 0 else 0.0
    return -int((values.imag != 0).sum()), gap


def _chunks(n: int) -> list[slice]:
    return [slice(begin, begin + _CHUNK) for begin in range(0, n, _CHUNK)]


def project(estimate: Estimate) -> Estimate:
    """Make an estimate a model: negative numbers become 0, distributions sum to 1.

    A distribution without a positive entry becomes uniform.
    """
    start, visits = (_normalise(row[None, :])[0] for row in (estimate.start, estimate.visits))
    return Estimate(
        _normalise(estimate.emissions.T).T,
        start,
        _normalise(estimate.transitions),
        np.clip(np.nan_to_num(estimate.stop, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0),
        visits,
    )


def _normalise(rows: Float64) -> Float64:
    positive = np.clip(np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0), 0.0, None)
    total = positive.sum(axis=1, keepdims=True)
    uniform = np.full_like(positive, 1 / positive.shape[1])
    return np.asarray(np.divide(positive, total, out=uniform, where=total > 0))


# ---- observable operators ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Operators:
    """A hidden Markov model as observable operators: probabilities without parameters.

    Pr(x_1 … x_T) = b_infᵀ B[x_T] … B[x_1] b_1, where sequences begin as triples do. The numbers
    are exact for exact moments; from counts some may be negative.

    Attributes
    ----------
    first : ndarray, shape (Y,)
        b_1 = Uᵀ P1.
    final : ndarray, shape (Y,)
        b_inf = (P21ᵀ U)⁺ P1.
    by_symbol : ndarray, shape (V, Y, Y)
        B[x] = UᵀP3x1 (UᵀP21)⁺.
    """

    first: Float64
    final: Float64
    by_symbol: Float64

    @classmethod
    def from_moments(cls, moments: Moments, n_states: int, rng: np.random.Generator) -> Operators:
        """Compute the operators from the counts of triples; for small V."""
        V, Y = moments.n_symbols, n_states
        x1, x2, x3 = moments.triples
        counts = moments.triple_counts / moments.triple_counts.sum()
        left = _singular_vectors(moments.triples[:2], counts, np.ones(V), Y, rng)
        P1 = np.bincount(x1, weights=counts, minlength=V)
        projected = add_rows(x1, left[x2], counts, V, Y)  # (UᵀP21)ᵀ
        inverse = np.linalg.pinv(projected.T)  # [V, Y]
        products = np.einsum("ni,nj,n->nij", left[x3], inverse[x1], counts)
        by_symbol = add_rows(x2, products.reshape(len(x2), Y * Y), None, V, Y * Y)
        return cls(left.T @ P1, inverse.T @ P1, by_symbol.reshape(V, Y, Y))

    def prob(self, symbols: npt.ArrayLike) -> float:
        """Compute Pr(x_1 … x_T)."""
        state = self.first
        for x in np.asarray(symbols, dtype=np.intp):
            state = self.by_symbol[x] @ state
        return float(self.final @ state)


# ---- the algorithm -----------------------------------------------------------------------------


class Spectral(Algorithm, name="spectral"):
    r"""Spectral learning of words or other symbols (Hsu, Kakade and Zhang 2012).

    The parameters are computed from counts of adjacent pairs and triples of tokens: no iterations,
    no local optima, and with more data the error falls as 1/√tokens. It needs at least as many
    frequent, different symbols as states, and likes large data; on small data, EM reaches a higher
    likelihood. ``Spectral(then="em")`` starts EM from the estimate.

    Examples
    --------
    >>> import tagloom as tl
    >>> tl.learners.Spectral(then="em", n_draws=20)
    Spectral(then='em', n_draws=20)
    """

    then: Any = parameter(
        default=None,
        type="str or Algorithm",
        help="Algorithm that continues from the estimate, such as em.",
        details="Its steps are those of the training run. By default the estimate is the result.",
    )
    n_draws: int = count(
        default=10,
        least=1,
        help="Number of random projections of triples of which the best is used.",
    )
    min_count: int = count(
        default=50,
        help="Rarer symbols count as one where they only help to tell states apart.",
        details="Each symbol still has its own probabilities.",
    )
    smoothing: float = number(
        default=1.0,
        least=0,
        help="Pseudo-count by which probabilities are kept above 0.",
        details="It is spread over the outcomes of each distribution of the chain.",
    )

    @property
    def n_steps(self) -> int:
        """Number of steps: 1, or that of ``then``."""
        return 1 if self.then is None else choose_algorithm(self.then).n_steps

    def with_steps(self, n: int) -> Algorithm:
        """Return a copy whose ``then`` makes at most n steps."""
        if self.then is None:
            return self
        return type(self)(**self.get_params() | {"then": choose_algorithm(self.then).with_steps(n)})

    def start(self, problem: Unlabelled, seed: int) -> Learner[ChainAndEmission]:
        """Compute the estimate; return a learner that reports it or continues from it.

        Raises
        ------
        ParameterError
            If the tokens are not symbols, or the problem has conditions on states: the states of
            the estimate have no names and no order.
        TrainingError
            If the data have too few different symbols or triples.
        """
        model = self.estimate(problem, np.random.default_rng([seed, 0]))
        if self.then is None:
            return _SpectralLearner(problem, model)
        chain, emission = model
        following = choose_algorithm(self.then)
        return following.start(replace(problem, chain=chain, emission=emission), seed)

    def estimate(self, problem: Unlabelled, rng: np.random.Generator) -> ChainAndEmission:
        """Compute chain and emission from the moments of the data."""
        _check_unconditional(problem)
        ids = _symbols(problem)
        V, Y = int(ids.max(initial=-1)) + 1, len(problem.labels)
        moments = count_moments(ids, problem.offsets, V, problem.token_weight)
        found = project(recover(moments, Y, rng, self.n_draws, self.min_count))
        return self._chain(moments, found, problem.has_stop), _emission(problem, ids, found)

    def _chain(self, moments: Moments, estimate: Estimate, has_stop: bool) -> MarkovChain:
        """Return the chain of an estimate, with pseudo-counts."""
        Y = len(estimate.start)
        n_sequences, n_tokens = moments.first.sum(), moments.every.sum() * estimate.visits  # [Y]
        k = self.smoothing
        start = _smooth(estimate.start, n_sequences, k)
        trans = _smooth(estimate.transitions, n_tokens[:, None], k)
        stop = None
        if has_stop:
            stop = (estimate.stop * n_tokens + k / (Y + 1)) / np.maximum(n_tokens + k, 1e-300)
            trans = trans * (1 - stop)[:, None]
        return MarkovChain.from_probs(start, (trans,), stop)


def _smooth(probs: Float64, n: Any, k: float) -> Float64:
    """Add k pseudo-counts, spread over the outcomes, to n observations of each distribution."""
    smoothed = probs * n + k / probs.shape[-1]
    total = smoothed.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(smoothed, total, out=probs.copy(), where=total > 0))


def _emission(problem: Unlabelled, ids: Int32, estimate: Estimate) -> Any:
    """Update the emission by the states that the estimate gives each symbol.

    Pr(y | x) ∝ Pr(x | y) Pr(y); a symbol that no state emits has the distribution of the states.
    """
    by_symbol = estimate.emissions * estimate.visits  # [V, Y]
    is_lost = ~(by_symbol.sum(axis=1) > 0)
    by_symbol[is_lost] = estimate.visits
    by_symbol = np.vstack([by_symbol, estimate.visits])  # −1, a missing symbol, is the last row
    by_symbol = 0.999 * by_symbol / by_symbol.sum(axis=1, keepdims=True)
    by_symbol += 0.001 / len(problem.labels)  # no state without tokens
    gamma = by_symbol[ids]  # [T, Y]
    emission = problem.emission
    return emission.update(emission.collect(problem.data, gamma, problem.token_weight))


def _symbols(problem: Unlabelled) -> Int32:
    """Return the symbol of each token [T]; −1 if it is missing.

    Raises
    ------
    ParameterError
        If the tokens are not symbols.
    """
    ids = getattr(problem.data, "ids", None)
    if isinstance(ids, np.ndarray) and ids.shape == (problem.n_tokens,) and ids.dtype.kind in "iu":
        n = len(getattr(problem.data, "symbols", ())) or int(ids.max(initial=-1)) + 1
        return np.where(ids < n, ids, -1).astype(np.int32)  # numbers above are missing tokens
    raise ParameterError(
        parameter="algorithm",
        expected="an emission of words or other symbols for 'spectral'",
        found=type(problem.emission).__name__,
        hint="Use algorithm='em'.",
    )


def _check_unconditional(problem: Unlabelled) -> None:
    """Raise if the problem refers to particular states."""
    conditions = {
        "labels": problem.candidates is not None,
        "allowed": problem.allowed is not None,
        "fixed": bool(problem.fixed),
        "tied": bool(problem.tied),
    }
    for name, is_set in conditions.items():
        if is_set:
            raise ParameterError(
                f"algorithm='spectral' cannot be combined with {name}: its states have no names.",
                parameter="algorithm",
                expected=f"an algorithm that takes {name}, such as 'em'",
                found="'spectral'",
            )


class _SpectralLearner:
    """A learner that is done from the start: one step reports the likelihood of the estimate."""

    def __init__(self, problem: Unlabelled, model: ChainAndEmission) -> None:
        self._problem, self._model = problem, model

    def step(self) -> Step:
        value = log_likelihood(self._problem, self._model)
        return Step.rising(value, "log_likelihood", converged=True)

    def weights(self) -> ChainAndEmission:
        return self._model

    def state(self) -> State:
        return pack_model(self._model)

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self._model = unpack_model(state, self._problem.emission)


def log_likelihood(problem: Unlabelled, model: ChainAndEmission) -> float:
    """Compute log Pr(x) of all sequences of a problem, weighted."""
    chain, emission = model
    offsets, emit, edge = emission.scores(problem.data, checks.threads(problem.n_threads))
    trans, start, stop, states, weights = chain.transitions(problem.labels)
    trellis = Trellis(
        emit, trans, start, stop, states=states, weights=weights, edge=edge, offsets=offsets
    )
    trellis.n_threads = problem.n_threads
    sums = trellis.log_partition()  # [N]
    return float(sums.sum() if problem.weight is None else sums @ problem.weight)
