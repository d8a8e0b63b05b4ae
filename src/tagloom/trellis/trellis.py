"""The trellis: all label paths of a sequence, or of a batch of sequences, with their scores.

`Trellis` checks scores (`inputs`), passes them to the native layout that suits the state space
(`engine`) and returns results. Constraints are in `masks`, label paths as users write them in
`paths`, pictures in `draw`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import InfeasibleError, LabelError, ParameterError, ShapeError
from tagloom.renames import renamed_property, warn_renamed
from tagloom.trellis import engine, masks, paths
from tagloom.trellis.batches import (
    Batch,
    Candidates,
    check_shape,
    read_batch,
    read_candidates,
    stack_scores,
)
from tagloom.trellis.engine import Counts, Transitions
from tagloom.trellis.inputs import (
    cast_scores,
    check_buffer,
    check_names,
    uniform_numbers,
)
from tagloom.trellis.machine import ALL_THREADS
from tagloom.trellis.pruning import Pruning
from tagloom.trellis.space_checks import Label
from tagloom.trellis.states import StateSpace, check_space
from tagloom.trellis.structures import OnInfeasible, Ragged

Floats = npt.NDArray[np.floating[Any]]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
LabelSet = Label | Iterable[Label]


class Best(NamedTuple):
    """The best path and its score."""

    path: Int32  #: label ids [T], flat for a batch; −1 where a sequence has no path
    score: Any  #: float, or float64 [N] for a batch; −inf where every path is impossible


class NBest(NamedTuple):
    """The k ≤ n best paths of one sequence, the best first."""

    paths: Int32  #: label ids [k, T]
    scores: Float64  #: [k]
    probs: Float64  #: [k] probability of each path: exp(score − log_partition)


class Expectations(NamedTuple):
    """The log-partition of each sequence, and expected counts."""

    log_partition: Float64  #: [N]; −inf where there is no path
    counts: Counts  #: summed over the sequences


class Posterior(NamedTuple):
    """The most probable label at each position, by itself."""

    path: Int32  #: label ids [T], flat for a batch
    confidence: Floats  #: [T] its marginal probability


class Trellis(Ragged):
    r"""All label paths of a sequence, or of a batch of sequences, with their scores.

    The score of a transition into position t, from label y_prev to label y, is::

        s_t = emit[t, y] + edge[t, y_prev, y] + trans[y_prev, y] + Σ weights tied to it by states

    A path adds ``start[y]`` before its first label and ``stop[y]`` after its last. −inf forbids.
    An empty sequence has one empty path, with score 0. Implements `Structure`.

    Parameters
    ----------
    emit : array, shape (T, Y)
        Score of label y at position t. float32 is kept, all other types become float64; the other
        arrays get the type of emit. For a batch, the positions of all sequences in a row.
    trans : array, shape (Y, Y), optional
        Score of y_prev → y, from → to. Missing arrays are zero.
    start, stop : array, shape (Y,), optional
    edge : array, shape (T, Y, Y), optional
        Score of y_prev → y at position t. The row of a sequence's first position is not used.
    offsets : array of int, shape (N + 1,), optional
        Makes it a batch: sequence i is ``emit[offsets[i]:offsets[i + 1]]``.
    states : StateSpace, optional
        The allowed paths and the weights tied to their transitions; all paths by default.
    weights : array, shape (states.n_weights,), optional
        The tied weights; see `StateSpace.pack`.
    labels : sequence of str, optional
        Names of the labels; those of ``states`` by default.
    n_threads : int, optional
        For batches; all cores of the process by default.

    Raises
    ------
    ShapeError
        If the arrays do not fit each other.
    ScoreError
        If a score is NaN or +inf.
    ParameterError
        If ``states`` is not a StateSpace, or ``n_threads`` is not a positive int.

    Notes
    -----
    *Batches.* Results per position are flat for a batch and aligned with ``emit`` (`split` cuts
    them); results per sequence have shape (N,). Indexing and iterating give single trellises.

    *Infeasible sequences.* Methods with ``on_infeasible`` raise `InfeasibleError` if a sequence has
    no path. With "none" its labels are −1, its scores −inf, its probabilities and entropy 0.

    *Ties* go to the lowest label at the last position, then at each position before it.

    *Memory* beyond inputs and results, where states are labels or histories of order k: `viterbi`
    needs O(S·(1024 + T / 1024)), `log_partition` O(S + M) with S states and M transitions,
    `marginals` and methods built on them O(T·S). In other state spaces `viterbi` needs O(T·S) too.

    Examples
    --------
    The scores of "they can fish" (Eisenstein, Introduction to NLP, table 7.1):

    >>> import numpy as np
    >>> import tagloom as tl
    >>> trellis = tl.Trellis(
    ...     emit=[[-2, -10], [-3, -1], [-3, -3]],
    ...     trans=[[-3, -1], [-1, -3]],
    ...     start=[-1, -2],
    ...     stop=[-1, -1],
    ...     labels=["N", "V"],
    ... )
    >>> trellis.viterbi()
    Best(path=array([0, 1, 0], dtype=int32), score=-10.0)
    >>> round(trellis.log_partition(), 6)
    -9.854889
    >>> trellis.constrain(forced={2: "V"}).viterbi().path
    array([0, 1, 1], dtype=int32)
    """

    def __init__(
        self,
        emit: npt.ArrayLike,
        trans: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        stop: npt.ArrayLike | None = None,
        *,
        edge: npt.ArrayLike | None = None,
        offsets: npt.ArrayLike | None = None,
        states: StateSpace | None = None,
        weights: npt.ArrayLike | None = None,
        labels: Sequence[str] | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_threads = None if n_threads is None else checks.threads(n_threads)
        self._batch = batch = read_batch(emit, edge, offsets, self._threads)
        self.is_batch = offsets is not None
        self._transitions = _transitions(batch, trans, start, stop, states, weights, labels)

    @classmethod
    def stack(
        cls,
        emits: Sequence[npt.ArrayLike],
        trans: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        stop: npt.ArrayLike | None = None,
        *,
        edge: Sequence[npt.ArrayLike] | None = None,
        **options: Any,
    ) -> Trellis:
        """Build a batch from one array of scores per sequence.

        Parameters
        ----------
        emits : sequence of array, each of shape (T_i, Y)
        trans, start, stop : array, optional
            Shared by all sequences.
        edge : sequence of array, each of shape (T_i, Y, Y), optional
        **options
            As for `Trellis`.

        Examples
        --------
        >>> import numpy as np
        >>> batch = Trellis.stack([np.zeros((2, 3)), np.zeros((4, 3))])
        >>> len(batch), batch.lengths
        (2, array([2, 4]))
        """
        flat, flat_edge, offsets = stack_scores(emits, edge)
        return cls(flat, trans, start, stop, edge=flat_edge, offsets=offsets, **options)

    @classmethod
    def from_candidates(
        cls,
        scores: npt.ArrayLike,
        label_ids: npt.ArrayLike,
        indptr: npt.ArrayLike,
        trans: npt.ArrayLike,
        start: npt.ArrayLike | None = None,
        stop: npt.ArrayLike | None = None,
        *,
        offsets: npt.ArrayLike | None = None,
        states: StateSpace | None = None,
        weights: npt.ArrayLike | None = None,
        labels: Sequence[str] | None = None,
        n_threads: int | None = None,
    ) -> Trellis:
        """Build a trellis in which each position has a list of candidate labels.

        The result is the same as with ``emit`` of −inf for all other labels. Time and memory depend
        on the number of candidates and not on the number of labels, as long as states are the last
        one or two labels.

        Parameters
        ----------
        scores : array, shape (C,)
            Score of each candidate, as ``emit``.
        label_ids : array of int, shape (C,)
            Label of each candidate, in ascending order at each position.
        indptr : array of int, shape (T + 1,)
            Position t has the candidates ``indptr[t]`` to ``indptr[t + 1] - 1``.
        trans : array, shape (Y, Y)
        start, stop, offsets, states, weights, labels, n_threads
            As for `Trellis`.

        Examples
        --------
        Two words that can be "N" or "V", and between them one that can only be "D":

        >>> trellis = Trellis.from_candidates(
        ...     scores=[0.0, 1.0, 0.0, 2.0, 0.0],
        ...     label_ids=[1, 2, 0, 1, 2],
        ...     indptr=[0, 2, 3, 5],
        ...     trans=np.zeros((3, 3)),
        ...     labels=["D", "N", "V"],
        ... )
        >>> trellis.names(trellis.viterbi().path)
        ['V', 'D', 'N']
        >>> trellis.candidate_marginals().round(3)
        array([0.269, 0.731, 1.   , 0.881, 0.119])
        """
        shape = np.shape(trans)
        if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
            expected = "of shape (Y, Y) with at least one label"
            raise ShapeError(parameter="trans", expected=expected, found=str(shape))
        new = object.__new__(cls)
        new.n_threads = None if n_threads is None else checks.threads(n_threads)
        new._batch = read_candidates(scores, label_ids, indptr, shape[0], offsets, new._threads)
        new.is_batch = offsets is not None
        new._transitions = _transitions(new._batch, trans, start, stop, states, weights, labels)
        return new

    def with_scores(
        self,
        emit: npt.ArrayLike,
        *,
        edge: npt.ArrayLike | None = None,
        offsets: npt.ArrayLike | None = None,
    ) -> Trellis:
        """Return a trellis for other sequences with the transitions of this one.

        Faster than `Trellis` when one model scores many sequences: transitions and state space are
        checked and prepared once. ``emit`` is converted to the type of this trellis.

        Examples
        --------
        >>> model = Trellis(np.empty((0, 2)), trans=[[0.0, 1.0], [1.0, 0.0]])
        >>> model.with_scores([[0.5, 0.0], [0.0, 0.0]]).viterbi().path
        array([0, 1], dtype=int32)
        """
        batch = read_batch(emit, edge, offsets, self._threads, like=self._batch)
        return self._like(batch, is_batch=offsets is not None)

    def tempered(self, temperature: float) -> Trellis:
        """Return a trellis whose scores are divided by a temperature above 0.

        A temperature above 1 brings the probabilities of paths closer together, one below 1
        transitions them apart. The order of the paths stays the same.

        Examples
        --------
        >>> trellis = Trellis([[0.0, 2.0]])
        >>> trellis.marginals().round(3), trellis.tempered(2).marginals().round(3)
        (array([[0.119, 0.881]]), array([[0.269, 0.731]]))
        """
        factor = self.dtype.type(checks.number(temperature, "temperature", above=0))
        return self._map_scores(lambda scores: scores / factor)

    def astype(self, dtype: npt.DTypeLike) -> Trellis:
        """Return a trellis whose scores, and so whose marginals, are of type float32 or float64.

        Examples
        --------
        >>> Trellis(np.zeros((1, 2), dtype=np.float32)).astype(np.float64).marginals().dtype
        dtype('float64')
        """
        new = np.dtype(dtype)
        if new not in (np.float32, np.float64):
            raise ParameterError(parameter="dtype", expected="float32 or float64", found=str(new))
        return self._map_scores(lambda scores: cast_scores(scores, new, "scores"))

    def _map_scores(self, function: Callable[[Floats], Floats]) -> Trellis:
        return self._like(self._batch.map_scores(function), self._transitions.map_scores(function))

    def _like(
        self,
        batch: Batch | None = None,
        transitions: Transitions | None = None,
        is_batch: bool | None = None,
    ) -> Trellis:
        """Return a copy with some parts replaced by checked ones."""
        new = object.__new__(type(self))
        new.n_threads = self.n_threads
        new._batch = self._batch if batch is None else batch
        new._transitions = self._transitions if transitions is None else transitions
        new.is_batch = self.is_batch if is_batch is None else is_batch
        return new

    # ---- parts -----------------------------------------------------------------------------

    @property
    def emit(self) -> Floats:
        """Score of label y at position t [T, Y]."""
        return self._batch.emit

    @property
    def candidates(self) -> Candidates | None:
        """The labels listed for each position, with their scores; None where all labels are.

        A trellis from `from_candidates` has them, and one that `constrain` leaves few labels.
        """
        return self._batch.candidates

    @property
    def edge(self) -> Floats | None:
        """Score of y_prev → y at position t [T, Y, Y], or None."""
        return self._batch.edge

    @property
    def offsets(self) -> Int64:
        """Where each sequence begins and ends [N + 1]."""
        return self._batch.offsets

    @property
    def trans(self) -> Floats | None:
        """Score of y_prev → y [Y, Y], or None."""
        return self._transitions.trans

    @property
    def start(self) -> Floats | None:
        """Score of beginning with y [Y], or None."""
        return self._transitions.start

    @property
    def stop(self) -> Floats | None:
        """Score of ending with y [Y], or None."""
        return self._transitions.stop

    @property
    def weights(self) -> Floats | None:
        """The weights that the state space ties to its transitions [K], if there are any."""
        return self._transitions.weights

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Names of the labels, if they have names."""
        return self._transitions.labels

    @property
    def states(self) -> StateSpace:
        """The state space; first order unless another was given."""
        return self._transitions.states

    @property
    def label_transitions(self) -> tuple[Float64, Float64, Float64]:
        """Scores of transitions [Y, Y], start [Y] and stop [Y]; zeros for missing arrays.

        Only where states are labels; −inf for what the state space forbids.
        """
        return self._transitions.by_label

    moves = renamed_property("Trellis", "moves", "label_transitions")

    @property
    def dense_transitions(self) -> _native.Dense | None:
        """The scores of transitions as the dense kernels read them; None for other state spaces."""
        return self._transitions.dense

    @property
    def listed_transitions(
        self,
    ) -> tuple[_native.Dense, _native.TrigramScores | None] | tuple[None, None]:
        """The scores of transitions and of trigrams for candidates; None for other state spaces."""
        return self._transitions.listed or (None, None)

    @property
    def n_labels(self) -> int:
        """Y, the number of labels."""
        return self._batch.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the type of the scores and of the marginals."""
        return self._batch.dtype

    @property
    def _threads(self) -> int:
        return self.n_threads or ALL_THREADS

    def __getitem__(self, i: int | slice) -> Trellis:
        self._check_batch("cannot be indexed; only a batch can")
        n = len(self)
        if isinstance(i, slice):
            return self._like(self._batch.take(np.arange(n)[i])[0])
        try:
            i = operator.index(i)
        except TypeError:
            raise TypeError(f"a batch is indexed by an int or a slice; got {i!r}") from None
        if not -n <= i < n:
            raise IndexError(f"sequence {i} of a batch of {n}")
        return self._like(self._batch.one(i % n), is_batch=False)

    def __repr__(self) -> str:
        T = self._batch.shape[0]
        size = f"{len(self)} sequences, {T}" if self.is_batch else f"{T}"
        space = self._transitions.space
        of_space = "" if space is None else f", {space!r}"
        return f"<Trellis: {size} positions, {self.n_labels} labels, {self.dtype}{of_space}>"

    # ---- best paths ------------------------------------------------------------------------

    def viterbi(self, *, on_infeasible: OnInfeasible = "raise") -> Best:
        r"""Find the best path and its score.

        v[t, y] = max_{y_prev} v[t-1, y_prev] + s_t(y_prev, y), read off from the end. Short
        sequences of a batch are decoded in integers where rounding cannot change the path, all
        others in float64: the path is always that of float64 arithmetic.

        Returns
        -------
        Best
            ``path`` [T] of label ids, flat for a batch; ``score`` float, or [N].

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).viterbi()
        Best(path=array([1, 1], dtype=int32), score=3.0)
        """
        path, score = engine.viterbi(self._transitions, self._batch, self._threads)
        self._check_feasible(score, on_infeasible)
        return Best(path, self._per_sequence(score))

    def nbest(self, n: int, *, on_infeasible: OnInfeasible = "none") -> Any:
        """Find the n best paths, all different, the best first.

        They are in the order of the recursion's sums. The reported scores of paths that tie up to
        rounding may differ from that order in their last digits.

        Returns
        -------
        NBest, or a list of NBest for a batch
            ``paths`` [k, T], ``scores`` [k], ``probs`` [k]; k < n if there are fewer paths.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).nbest(2).paths
        array([[1, 1],
               [0, 1]], dtype=int32)
        """
        n = checks.count(n, "n", least=1)
        log_z = self._sums()
        self._check_feasible(log_z, on_infeasible)
        counts, flat, scores = engine.nbest(self._transitions, self._batch, self._threads, n)
        probs = np.exp(np.minimum(scores - np.repeat(log_z, counts), 0.0))
        results, path, label = [], 0, 0
        for k, T in zip(counts.tolist(), self.lengths.tolist(), strict=True):
            paths = flat[label : label + k * T].reshape(k, T)
            results.append(NBest(paths, scores[path : path + k], probs[path : path + k]))
            path, label = path + k, label + k * T
        return results if self.is_batch else results[0]

    def posterior_decode(self, *, on_infeasible: OnInfeasible = "raise") -> Posterior:
        """Choose at each position the label with the largest marginal probability.

        This maximises the expected number of correct labels, where `viterbi` maximises the
        probability that all are correct. The labels together need not form an allowed path.

        Returns
        -------
        Posterior
            ``path`` [T] and ``confidence`` [T]; flat for a batch.

        Examples
        --------
        >>> path, confidence = Trellis([[0.0, 1.0], [0.0, 2.0]]).posterior_decode()
        >>> path, confidence.round(3)
        (array([1, 1], dtype=int32), array([0.731, 0.881]))
        """
        marginals = self.marginals(on_infeasible=on_infeasible)
        path = marginals.argmax(axis=1).astype(np.int32)
        confidence = marginals.max(axis=1)
        path[confidence == 0] = -1
        return Posterior(path, confidence)

    # ---- sums over paths -------------------------------------------------------------------

    def log_partition(self) -> Any:
        """Return log Σ_paths exp(score): float, or float64 [N]; −inf only if all are impossible.

        Examples
        --------
        >>> round(Trellis([[0.0, 1.0], [0.0, 2.0]]).log_partition(), 6)
        3.44019
        """
        return self._per_sequence(self._sums())

    def _sums(self, **outputs: Any) -> Float64:
        """Return log_z [N] and fill the outputs; see `engine.sums`."""
        return engine.sums(self._transitions, self._batch, self._threads, **outputs)

    def forward(self, semiring: str = "log-plus") -> Float64:
        r"""Sum, for each position and state, the scores of all paths that end there.

        alpha[t, s] = emit[t, y] ⊗ ⊕_p alpha[t-1, p] ⊗ (score of p → s), alpha[0, s] = start + emit,
        in log space. ⊕ is log-sum-exp, or max for the semiring "max-plus" (the Viterbi variables).

        Returns
        -------
        ndarray of float64, shape (T, S)
            S states; the labels, in a first-order trellis. Flat for a batch.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).forward("max-plus")
        array([[0., 1.],
               [1., 3.]])
        """
        return self._state_scores(semiring, forwards=True)

    def backward(self, semiring: str = "log-plus") -> Float64:
        r"""Sum, for each position and state, the scores of all ways to continue from there.

        beta[t, s] = ⊕_r (score of s → r) ⊗ emit[t+1] ⊗ beta[t+1, r], beta[T-1, s] = stop, in log
        space. Forward plus backward, log-summed over the states, is the log-partition at every t.

        Returns
        -------
        ndarray of float64, shape (T, S)

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]], stop=[0.0, -1.0]).backward("max-plus")
        array([[ 1.,  1.],
               [ 0., -1.]])
        """
        return self._state_scores(semiring, forwards=False)

    def _state_scores(self, semiring: str, forwards: bool) -> Float64:
        checks.choice(semiring, "semiring", ("log-plus", "max-plus"))
        log_sum = semiring == "log-plus"
        return engine.state_scores(
            self._transitions, self._batch, self._threads, log_sum=log_sum, forwards=forwards
        )

    def marginals(
        self, *, on_infeasible: OnInfeasible = "raise", out: Floats | None = None
    ) -> Floats:
        """Return the probability of each label at each position.

        Parameters
        ----------
        on_infeasible : {"raise", "none"}
        out : ndarray, shape (T, Y), optional
            Array to write to. For a large batch, reusing memory saves a tenth of the time or more.

        Returns
        -------
        ndarray, shape (T, Y)
            Of the type of the scores, and flat for a batch; ``out`` itself if it was given.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).marginals().round(3)
        array([[0.269, 0.731],
               [0.119, 0.881]])
        """
        check_buffer(out, "out", self._batch.shape)
        is_direct = out is not None and self._may_write(out)
        marginals = (
            out if out is not None and is_direct else np.empty(self._batch.shape, self.dtype)
        )
        self._check_feasible(self._sums(marginals=marginals), on_infeasible)
        if out is None or is_direct:
            return marginals
        out[...] = marginals
        return out

    def _may_write(self, buffer: npt.NDArray[Any]) -> bool:
        """Whether the core may write results into a buffer while it reads the scores."""
        if buffer.dtype != self.dtype or not buffer.flags.c_contiguous:
            return False
        emit = self.emit if self.candidates is None else self.candidates.scores
        scores = (emit, self.edge, self.trans, self.start, self.stop, self.weights)
        return not any(array is not None and np.may_share_memory(buffer, array) for array in scores)

    def candidate_marginals(self, *, on_infeasible: OnInfeasible = "raise") -> Floats:
        """Return the probability of each candidate [C], aligned with ``candidates.scores``.

        Raises
        ------
        ParameterError
            If the trellis has no candidates; see `from_candidates`.

        Examples
        --------
        >>> trellis = Trellis.from_candidates([0.0, 2.0], [0, 2], [0, 2], np.zeros((3, 3)))
        >>> trellis.candidate_marginals().round(3)
        array([0.119, 0.881])
        """
        if self.candidates is None:
            raise ParameterError(
                where="candidate_marginals",
                expected="a trellis with candidates for each position",
                found="all labels at each position",
                hint="Use marginals(), or build the trellis by Trellis.from_candidates.",
            )
        marginals = np.empty_like(self.candidates.scores)
        self._check_feasible(self._sums(marginals=marginals), on_infeasible)
        return marginals

    def state_marginals(self, *, on_infeasible: OnInfeasible = "raise") -> Float64:
        """Return the probability of each state at each position [T, S]; flat for a batch.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).state_marginals().round(3)
        array([[0.269, 0.731],
               [0.119, 0.881]])
        """
        self._check_feasible(self._sums(), on_infeasible)
        both = self.forward() + self.backward()  # [T, S]
        top = both.max(axis=1, keepdims=True, initial=-np.inf)
        gamma: Float64 = np.exp(both - np.where(np.isneginf(top), 0.0, top))
        gamma /= np.maximum(gamma.sum(axis=1, keepdims=True), 1.0)
        return gamma

    def transition_probs(self) -> Float64:
        r"""Return the probability of each transition, given the state that it leaves.

        Given the scores, the states form a Markov chain with the transition probabilities ::

            a[t, m] = exp(s_t(m) + beta[t, dst] − beta[t-1, src])

        Returns
        -------
        ndarray of float64, shape (T, M)
            In the order of ``states.src`` and ``states.dst``; row t is for transitions into
            position t. 0 at a sequence's first position, and for transitions from a dead end.

        Examples
        --------
        >>> trellis = Trellis([[0.0, 1.0], [0.0, 2.0]], trans=[[0.0, 1.0], [0.0, 0.0]])
        >>> trellis.transition_probs()[1].round(3)  # 0 → 0, 1 → 0, 0 → 1, 1 → 1
        array([0.047, 0.119, 0.953, 0.881])
        """
        space = self.states
        y_src, y_dst = space.state_labels[space.src], space.state_labels[space.dst]  # [M]
        beta = self.backward()  # [T, S]
        log_a = self.emit[:, y_dst] + self._transitions.transition_scores  # [T, M]
        if self.edge is not None:
            log_a += self.edge[:, y_src, y_dst]
        log_a += beta[:, space.dst]
        before = beta[:-1, space.src]  # [T - 1, M]
        log_a[1:] -= np.where(np.isneginf(before), np.inf, before)
        log_a[self.offsets[:-1][self.lengths > 0]] = -np.inf
        probs: Float64 = np.exp(log_a)
        return probs

    def move_probs(self) -> Float64:
        """Old name of `transition_probs`."""
        warn_renamed("Trellis.move_probs", "transition_probs")
        return self.transition_probs()

    def pair_marginals(self, distance: int = 1, *, on_infeasible: OnInfeasible = "raise") -> Floats:
        """Return the probability of each pair of labels a fixed distance apart.

        Returns
        -------
        ndarray, shape (T, Y, Y)
            Row t is Pr(y_{t-distance}, y_t), aligned with ``edge``; the first ``distance`` rows of
            a sequence are 0.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).pair_marginals()[1].round(3)
        array([[0.032, 0.237],
               [0.087, 0.644]])
        """
        distance = checks.count(distance, "distance", least=1)
        pairs = np.zeros((*self._batch.shape, self.n_labels), dtype=self.dtype)
        log_z = self._sums(pairs=pairs) if distance == 1 else self._sums()
        if distance > 1:
            engine.distant_pairs(self._transitions, self._batch, self._threads, distance, pairs)
        self._check_feasible(log_z, on_infeasible)
        return pairs

    def expected_counts(
        self, *, on_infeasible: OnInfeasible = "raise", marginals: Floats | None = None
    ) -> Counts:
        """Return the expected number of each label, transition, start, stop and tied weight.

        These are the gradients of the log-partition with respect to a label's bias, ``trans``,
        ``start``, ``stop`` and ``weights``, summed over the sequences of a batch.

        Parameters
        ----------
        on_infeasible : {"raise", "none"}
        marginals : ndarray, shape (T, Y) or (C,), optional
            Array to write the marginals to, or those of the C candidates, in the same pass.

        Examples
        --------
        >>> counts = Trellis([[0.0, 1.0], [0.0, 2.0]]).expected_counts()
        >>> counts.labels.round(3), counts.start.round(3)
        (array([0.388, 1.612]), array([0.269, 0.731]))
        """
        expected = self.expectations(marginals=marginals)
        self._check_feasible(expected.log_partition, on_infeasible)
        return expected.counts

    def expectations(
        self, *, marginals: Floats | None = None, weight: Float64 | None = None
    ) -> Expectations:
        """Return the log-partition of each sequence and the expected counts, in one pass.

        Parameters
        ----------
        marginals : ndarray, shape (T, Y) or (C,), optional
            Array to write the marginals to, or those of the C candidates.
        weight : ndarray, shape (N,), optional
            The weight of each sequence in the counts; 1 by default.

        Returns
        -------
        Expectations
            ``log_partition`` [N], −inf for a sequence without a path, which has no counts; and
            ``counts``, as `expected_counts` returns them.

        Examples
        --------
        >>> trellis = Trellis([[0.0, 1.0], [0.0, 2.0]], offsets=[0, 1, 2])
        >>> log_z, counts = trellis.expectations(weight=np.array([1.0, 10.0]))
        >>> log_z.round(3), counts.labels.round(3)
        (array([1.313, 2.127]), array([1.461, 9.539]))
        """
        if marginals is not None:
            self._check_marginals_buffer(marginals)
        if weight is not None:
            weight = np.ascontiguousarray(weight, dtype=np.float64)
            check_buffer(weight, "weight", (len(self.offsets) - 1,))
        counts = self._transitions.no_counts()
        log_z = self._sums(counts=counts, marginals=marginals, weight=weight)
        counts.labels[...] = counts.start + counts.transitions.sum(axis=0)
        return Expectations(log_z, counts)

    def _check_marginals_buffer(self, buffer: Floats) -> None:
        is_flat = self.candidates is not None and np.ndim(buffer) == 1
        shape = self.candidates.scores.shape if self.candidates and is_flat else self._batch.shape
        check_buffer(buffer, "marginals", shape)
        if not self._may_write(buffer):
            raise ShapeError(
                parameter="marginals",
                expected=f"a C-contiguous array of {self.dtype} apart from the scores",
                found=f"an array of {buffer.dtype}",
            )

    def entropy(self, *, on_infeasible: OnInfeasible = "raise") -> Any:
        """Return the entropy −Σ_paths Pr(path) log Pr(path), in nats: float, or float64 [N].

        Examples
        --------
        >>> round(Trellis([[0.0, 1.0], [0.0, 2.0]]).entropy(), 6)
        0.947537
        """
        entropy, log_z = engine.entropy(self._transitions, self._batch, self._threads)
        self._check_feasible(log_z, on_infeasible)
        return self._per_sequence(entropy)

    def sample(
        self,
        n: int,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        *,
        on_infeasible: OnInfeasible = "raise",
    ) -> Int32:
        """Draw n paths of each sequence with exactly their probabilities.

        Forward sums, then backward draws, one uniform number per position. The numbers are taken
        sequence by sequence, so a generator that draws from one batch after another gives the same
        paths as from all in one batch, except where rounding decides.

        Parameters
        ----------
        n : int
        random_state : int, Generator, RandomState or None
            A seed gives the same paths for any number of threads.
        on_infeasible : {"raise", "none"}

        Returns
        -------
        ndarray of int32, shape (n, T)
            Flat along the second axis for a batch.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]]).sample(3, random_state=0)
        array([[1, 0],
               [1, 1],
               [0, 1]], dtype=int32)
        """
        n = checks.count(n, "n")
        uniform = uniform_numbers(random_state, self._batch.shape[0], n)
        paths, log_z = engine.sample(self._transitions, self._batch, self._threads, uniform)
        self._check_feasible(log_z, on_infeasible)
        return paths

    def is_feasible(self) -> Any:
        """Return whether any path is allowed; an array of bool [N] for a batch.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [-np.inf, -np.inf]]).is_feasible()
        False
        """
        return self._per_sequence(~np.isneginf(self._sums()))

    def _check_feasible(self, log_z: Float64, on_infeasible: OnInfeasible) -> None:
        """Raise InfeasibleError for the first sequence whose log_z, or best score, is −inf."""
        if on_infeasible != "raise":
            checks.choice(on_infeasible, "on_infeasible", ("raise", "none"))
        if on_infeasible == "none" or len(log_z) == 0:
            return
        i = int(log_z.argmin())  # the first of those without a path
        if log_z[i] > -math.inf:
            return
        t = engine.first_dead_position(self._transitions, self._batch, i)
        T = self.lengths[i]
        raise InfeasibleError(
            f"no path may stop after position {T - 1}, the last."
            if t == T
            else f"no allowed path reaches position {t}.",
            sequence=i,
            position=t,
            where=f"sequence {i}, position {t}" if self.is_batch else f"position {t}",
            hint="Relax the constraints, or pass on_infeasible='none'.",
        )

    def count_paths(self) -> Any:
        """Return the number of allowed paths: an exact int, or a list of them for a batch.

        Examples
        --------
        >>> Trellis(np.zeros((100, 2))).count_paths() == 2**100
        True
        """
        return self.reduce("counting")

    def reduce(self, semiring: Any) -> Any:
        """Sum over all paths the product of their transitions, in any semiring.

        Parameters
        ----------
        semiring : a semiring of `tagloom.semirings`, its name, or any object like one
            With ``zero``, ``one``, ``plus(a, b)``, ``times(a, b)`` and
            ``lift(score, t, y_prev, y)``. Native kernels answer for the common ones.

        Returns
        -------
        value, or a list of values for a batch

        Examples
        --------
        >>> import tagloom as tl
        >>> tl.Trellis([[0.0, 1.0], [0.0, 2.0]]).reduce(tl.semirings.COUNTING)
        4
        """
        from tagloom.trellis.semirings import reduce_trellis

        values = reduce_trellis(semiring, self)
        return values if self.is_batch else values[0]

    # ---- given paths -----------------------------------------------------------------------

    def path_score(self, path: Any) -> Any:
        """Return the score of a path: float, or float64 [N]; −inf if it is not allowed.

        Parameters
        ----------
        path : sequence of int or str, length T
            Label ids, names, or a mixture. For a batch: a flat array, or one path per sequence.

        Raises
        ------
        LabelError
            If a label does not exist; the error names its sequence and position.
        ShapeError
            If the length is wrong.

        Examples
        --------
        >>> Trellis([[0.0, 1.0], [0.0, 2.0]], labels=["N", "V"]).path_score(["N", "V"])
        2.0
        """
        return self._per_sequence(self._path_scores(path))

    def _path_scores(self, path: Any) -> Float64:
        return engine.path_scores(self._transitions, self._batch, paths.path_ids(self, path))

    def log_prob(self, path: Any) -> Any:
        """Return the log probability of a path: its `path_score` less the log-partition.

        −inf for a path that is not allowed, even if no path is.

        Examples
        --------
        >>> round(Trellis([[0.0, 1.0], [0.0, 2.0]]).log_prob([0, 1]), 6)
        -1.44019
        """
        return self._per_sequence(_log_ratio(self._path_scores(path), self._sums()))

    def log_prob_of(self, allowed: npt.ArrayLike | Mapping[Any, LabelSet]) -> Any:
        """Return the log probability that every label is one of those allowed at its position.

        This is the allowed paths' share of the partition function: the probability of a partial
        labelling, of a span, or of "not this label". ``allowed`` is as for `constrain`.

        Examples
        --------
        The probability that the second label is 1:

        >>> trellis = Trellis([[0.0, 1.0], [0.0, 2.0]])
        >>> round(math.exp(trellis.log_prob_of([[True, True], [False, True]])), 3)
        0.881
        """
        return self._per_sequence(_log_ratio(self.constrain(allowed)._sums(), self._sums()))

    def names(self, path: Any) -> Any:
        """Return the label names of a path [T], or of each path of a batch; None for −1.

        Examples
        --------
        >>> trellis = Trellis([[0.0, 1.0], [3.0, 2.0]], labels=["N", "V"])
        >>> trellis.names(trellis.viterbi().path)
        ['V', 'N']
        """
        return paths.path_names(self, path)

    # ---- constraints and pictures ----------------------------------------------------------

    def constrain(
        self,
        allowed: npt.ArrayLike | Mapping[Any, LabelSet] | None = None,
        *,
        forced: Mapping[Any, Label] | None = None,
        forbidden: Mapping[Any, LabelSet] | None = None,
        forbidden_transitions: npt.ArrayLike | Iterable[tuple[Label, Label]] | None = None,
        forbidden_moves: npt.ArrayLike | Iterable[tuple[Label, Label]] | None = None,
    ) -> Trellis:
        """Return a trellis with fewer paths; this one does not change.

        It never raises because no path is left: `is_feasible` reports that. Labels may be ids or
        names. In a batch a position is a pair (sequence, position), and a mask is flat.

        Parameters
        ----------
        allowed : array of bool, shape (T, Y), or mapping of position to label or labels
            The labels that stay allowed; all labels at positions missing from a mapping.
        forced : mapping of position to label
        forbidden : mapping of position to label or labels
        forbidden_transitions : array of bool, shape (Y, Y), or iterable of (from, to)
            Transitions that no path may contain, at any position.
        forbidden_moves
            Old name of ``forbidden_transitions``.

        Examples
        --------
        >>> trellis = Trellis([[0.0, 1.0], [0.0, 2.0]], labels=["N", "V"])
        >>> trellis.constrain(forced={0: "N"}, forbidden_transitions=[("N", "V")]).viterbi().path
        array([0, 0], dtype=int32)
        """
        if forbidden_moves is not None:
            warn_renamed("forbidden_moves", "forbidden_transitions")
            forbidden_transitions = forbidden_moves
        batch, transitions = self._batch, self._transitions
        minus_inf = self.dtype.type(-np.inf)
        mask = masks.allowed_labels(self, allowed, forced, forbidden)  # [T, Y]
        if not mask.all():
            batch = batch.restrict(mask, may_list=transitions.is_first_order)
        if forbidden_transitions is not None:
            banned = masks.forbidden_transitions(self, forbidden_transitions)  # [Y, Y]
            trans = np.zeros(banned.shape, self.dtype) if self.trans is None else self.trans
            transitions = transitions.replaced(trans=np.where(banned, minus_inf, trans))
        return self._like(batch, transitions)

    def prune(self, least: float, most: int | None = None) -> Trellis:
        """Return a trellis without the labels that are improbable by the scores of a position.

        Position t keeps the labels y with ::

            exp(emit[t, y] − max_y emit[t, y]) ≥ least

        and of these at most the ``most`` best. All results are exact over the paths that are left.
        A sequence whose transitions allow none of them keeps all labels. Where states are more than
        the last one or two labels, and with ``edge``, nothing is pruned.

        Parameters
        ----------
        least : float
            From 0, which keeps every label, to 1, which keeps the best.
        most : int, optional
            The largest number of labels at a position, by default any; of equal ones the first are
            kept.

        Examples
        --------
        >>> trellis = Trellis([[0.0, 1.0, -9.0], [0.0, 2.0, 0.0]])
        >>> trellis.prune(0.01).candidates.label_ids
        array([0, 1, 0, 1, 2], dtype=int32)
        >>> trellis.prune(0.01, most=2).candidates.label_ids
        array([0, 1, 0, 1], dtype=int32)
        """
        pruning = Pruning.checked(least, most)
        if self._transitions.listed is None or self.edge is not None:
            return self
        pruned = self._like(self._batch.prune(pruning))
        if not self._transitions.forbids:
            return pruned
        is_empty = np.isneginf(pruned._sums())  # [N]
        if not is_empty.any():
            return pruned
        candidates = pruned._batch.candidates
        assert candidates is not None
        allowed = np.zeros(self._batch.shape, dtype=np.bool_)
        allowed[candidates.positions, candidates.label_ids] = True
        allowed[np.repeat(is_empty, self.lengths)] = True
        return self._like(self._batch.restrict(allowed, may_list=True))

    def narrow(self) -> tuple[Trellis, Int32]:
        """Return a trellis over the labels that are candidates somewhere, and their ids.

        The same paths with the same scores, over few labels: what lists all states or transitions
        costs little then. Without candidates, and where states are more than the last labels, the
        trellis itself.

        Examples
        --------
        >>> trellis = Trellis.from_candidates([0.0, 1.0], [1, 4], [0, 1, 2], np.zeros((5, 5)))
        >>> few, label_ids = trellis.narrow()
        >>> few.n_labels, label_ids, label_ids[few.viterbi().path]
        (2, array([1, 4], dtype=int32), array([1, 4], dtype=int32))
        """
        candidates = self.candidates
        used = None if candidates is None else np.unique(candidates.label_ids)
        if candidates is None or used is None or len(used) == 0:
            return self, np.arange(self.n_labels, dtype=np.int32)
        transitions = self._transitions.over(used)
        if transitions is None or self.edge is not None:
            return self, np.arange(self.n_labels, dtype=np.int32)
        few = candidates._replace(
            label_ids=np.searchsorted(used, candidates.label_ids).astype(np.int32)
        )
        largest = self._batch.largest_emit
        return self._like(
            Batch.of_candidates(few, len(used), self.offsets, largest), transitions
        ), used

    def draw(
        self,
        show: Literal["scores", "marginals"] = "scores",
        *,
        tokens: Sequence[str] | None = None,
        format: Literal["text", "svg"] = "text",
        color: bool = False,
        min_prob: float = 0.0,
    ) -> str:
        """Draw a single trellis: positions from left to right, states below each other.

        The best path is marked; in SVG it is thick, and nodes are filled by probability. A notebook
        shows the SVG picture by itself.

        Parameters
        ----------
        show : {"scores", "marginals"}
            The number in each node: the score of the best path to it, or its probability.
        tokens : sequence of str, length T, optional
            Names of the positions; by default their numbers.
        format : {"text", "svg"}
        color : bool
            Whether text may use bold type and colours of a terminal.
        min_prob : float
            Omit states that are less probable than this at every position and not on the best path;
            with marginals also such transitions. The numbers stay those of the whole trellis.

        Examples
        --------
        >>> trellis = Trellis([[-2, -10], [-3, -1], [-3, -3]], [[-3, -1], [-1, -3]], [-1, -2],
        ...                   [-1, -1], labels=["N", "V"])
        >>> print(trellis.draw(tokens=["they", "can", "fish"]))
           start   they    can    fish    stop
        N   0 ══════[-3]═╗  -9  ╔══[-9]═══ -10
        V           -12  ╚═[-5]═╝  -11
        <BLANKLINE>
        best path (score -10): N V N
        """
        from tagloom.trellis.draw import draw_trellis

        return draw_trellis(self, show, tokens, format, color, min_prob)

    def _repr_svg_(self) -> str | None:
        if (
            self.is_batch or self._batch.shape[0] > 2000
        ):  # no picture in a notebook: its repr is shown
            return None
        return self.draw(format="svg")

    def _repr_html_(self) -> str | None:
        return self._repr_svg_()


def _transitions(
    batch: Batch,
    trans: npt.ArrayLike | None,
    start: npt.ArrayLike | None,
    stop: npt.ArrayLike | None,
    states: StateSpace | None,
    weights: npt.ArrayLike | None,
    labels: Sequence[str] | None,
) -> Transitions:
    """Check what the sequences of a batch share."""
    Y = batch.shape[1]
    if states is not None and check_space(states, "states").n_labels != Y:
        expected = f"a space over {Y} labels, as emit {batch.shape}"
        raise ShapeError(parameter="states", expected=expected, found=str(states.n_labels))
    return Transitions(
        Y,
        _label_names(labels, states, Y),
        check_shape(trans, "trans", "(Y, Y)", (Y, Y), batch),
        check_shape(start, "start", "(Y,)", (Y,), batch),
        check_shape(stop, "stop", "(Y,)", (Y,), batch),
        check_shape(weights, "weights", "(K,)", (states.n_weights if states else 0,), batch),
        states,
    )


def _label_names(
    labels: Sequence[str] | None, states: StateSpace | None, Y: int
) -> tuple[str, ...] | None:
    """Return the names of the labels: those given, which must be those of the states."""
    of_states = None if states is None else states.labels
    if labels is None:
        return of_states
    names = check_names(labels, Y)
    if of_states is not None and names != of_states:
        raise LabelError(
            parameter="labels",
            expected=f"those of states, {list(of_states)}",
            found=str(list(names)),
            hint="Omit labels, or build the state space with them.",
        )
    return names


def _log_ratio(part: Float64, whole: Float64) -> Float64:
    """Return log(part / whole) ≤ 0; −inf for a part of nothing, never NaN."""
    whole = np.where(np.isneginf(whole), 0.0, whole)
    return np.minimum(part - whole, 0.0)
