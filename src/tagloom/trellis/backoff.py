"""Paths through arcs that back off: n-gram automata with failure arcs, and candidates per position.

A `Trellis` over a vocabulary of 20,000 words would need a matrix of 400 million transitions. Here
the transitions are the arcs of a back-off model: explicit ones for its n-grams, and one failure arc
from each history to its suffix, taken only where no explicit arc exists. The cost of a step is
proportional to the number of arcs, not of pairs of labels; the results are those of the whole
matrix, in every semiring.

It is a layout of the trellis, native in core/backoff.hpp, which describes what the layouts share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import InfeasibleError, ScoreError, ShapeError
from tagloom.trellis.inputs import uniform_numbers
from tagloom.trellis.structures import OnInfeasible, Ragged
from tagloom.trellis.trellis import Best, NBest

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class BackoffArcs:
    r"""An n-gram model as an automaton: states are histories, labels are numbers.

    The score of label y in history h is::

        s(y | h) = log_prob[h y]                  if the model has the n-gram h y
                 = backoff[h] + s(y | suffix h)   otherwise

    Parameters
    ----------
    arrays : mapping of str to ndarray
        ``level``, ``word``, ``first``, ``suffix``, ``log_prob`` and ``backoff``, as an `NGramModel`
        has them and docs/format.md describes them.

    Raises
    ------
    ValueError
        If the arrays do not fit each other.

    Examples
    --------
    The state after label 3 is the history of that word alone, in a model of order 2:

    >>> import tagloom as tl
    >>> from tagloom.trellis import BackoffArcs
    >>> arcs = BackoffArcs(tl.NGramModel(2).fit([["a", "b"]]).tables_.arrays)
    >>> arcs.n_labels, arcs.state_after([3]) == arcs.state_after([4, 3])
    (5, True)
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.arrays = dict(arrays)
        self.ngrams = _native.NGrams(**self.arrays)
        self.native = _native.BackoffArcs(self.ngrams)

    @property
    def n_labels(self) -> int:
        """Y, the number of labels."""
        return int(self.arrays["level"][2]) - 1

    def state_after(self, labels: Sequence[int], *, starts: bool = True) -> int:
        """Return the state after labels, at the start of a sequence or in the middle of one."""
        return self.ngrams.history(np.asarray(labels, np.int32), starts)

    def divided_by(self, temperature: float) -> BackoffArcs:
        """Return arcs whose scores are divided by a temperature."""
        scaled = {name: self.arrays[name] / temperature for name in ("log_prob", "backoff")}
        return BackoffArcs(self.arrays | scaled)


class Slots:
    """Sets of candidate labels with scores, which positions refer to by number. Immutable.

    Parameters
    ----------
    n_labels : int
        Y.
    start : array of int, shape (K + 1,)
        Set k is ``start[k]`` to ``start[k + 1]`` − 1 of the arrays below.
    labels : array of int, shape (C,)
        Label ids, ascending within a set.
    scores : array, shape (C,)

    Raises
    ------
    ShapeError
        If the arrays do not fit each other, or labels are out of order or range.
    ScoreError
        If a score is NaN or +inf.

    Examples
    --------
    Two sets: labels 3 and 4, the second of which is less likely, and label 4 alone.

    >>> from tagloom.trellis import Slots
    >>> Slots.of(5, [([3, 4], [0.0, -1.0]), ([4], [0.0])]).sizes
    array([2, 1])
    """

    def __init__(
        self, n_labels: int, start: npt.ArrayLike, labels: npt.ArrayLike, scores: npt.ArrayLike
    ) -> None:
        self.n_labels = n_labels
        self.start: Int64 = np.ascontiguousarray(start, np.int64)
        self.labels: Int32 = np.ascontiguousarray(labels, np.int32)
        self.scores: Float64 = np.ascontiguousarray(scores, np.float64)
        wrong = np.flatnonzero(~(self.scores < np.inf))
        if len(wrong):
            raise ScoreError(
                where=f"scores[{wrong[0]}]",
                expected="a number, or -inf for forbidden",
                found=str(self.scores[wrong[0]]),
            )
        try:
            self.native = _native.Slots(n_labels, self.start, self.labels, self.scores)
        except ValueError as error:
            raise ShapeError(f"{error}.") from error

    @classmethod
    def of(cls, n_labels: int, sets: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]]) -> Slots:
        """Make slots from pairs (labels, scores), one for each set."""
        labels = [np.asarray(ids, np.int32).reshape(-1) for ids, _ in sets]
        scores = [np.asarray(values, np.float64).reshape(-1) for _, values in sets]
        return cls(
            n_labels,
            np.cumsum([0, *map(len, labels)]),
            np.concatenate([np.empty(0, np.int32), *labels]),
            np.concatenate([np.empty(0), *scores]),
        )

    @classmethod
    def from_emissions(
        cls, n_labels: int, emit: npt.ArrayLike, labels: npt.ArrayLike | None = None
    ) -> Slots:
        """Make a set for each position of a matrix of scores, as a `Trellis` has them.

        Parameters
        ----------
        n_labels : int
            Y, the number of labels of the arcs.
        emit : array, shape (T, L)
            Score of each label at each position.
        labels : array of int, shape (L,), optional
            Their ids, ascending; by default 0 to Y − 1.
        """
        scores = np.asarray(emit, np.float64)
        ids = np.arange(n_labels) if labels is None else np.asarray(labels)
        if scores.ndim != 2 or scores.shape[1] != len(ids):
            raise ShapeError(
                parameter="emit", expected=f"of shape (T, {len(ids)})", found=str(scores.shape)
            )
        T, L = scores.shape
        return cls(n_labels, np.arange(T + 1) * L, np.tile(ids, T), scores.reshape(-1))

    @property
    def sizes(self) -> Int64:
        """The number of candidates of each set, shape (K,)."""
        return np.diff(self.start)


class BackoffTrellis(Ragged):
    r"""All label paths through candidates at each position, scored by back-off arcs.

    The score of a path is Σ_t s(y_t | history) + the score of candidate y_t, and s(stop | history)
    at the end. It implements `Structure`, as `Trellis` does.

    Parameters
    ----------
    arcs : BackoffArcs
    slots : Slots
        Sets of candidates.
    slot : array of int, shape (T,)
        The set of each position; for a batch, of all sequences one after another.
    start : int
        The state before the first position; see `BackoffArcs.state_after`.
    stop : int, optional
        The label that ends every path and is not part of it.
    offsets : array of int, shape (N + 1,), optional
        Makes it a batch.
    n_threads : int, optional
        For batches; all cores by default.

    Raises
    ------
    ShapeError
        If the arrays do not fit each other.
    ScoreError
        If a score is NaN or +inf.

    Notes
    -----
    With A arcs and Y labels a step costs O(A + Y) where all labels are candidates, and O(1) to O(Y)
    between positions with few. Sums are taken by subtraction only where no digits are lost.

    Examples
    --------
    Letters a = 3, b = 4; the first position is open, the second is b:

    >>> import numpy as np
    >>> import tagloom as tl
    >>> from tagloom.trellis import BackoffArcs, BackoffTrellis, Slots
    >>> model = tl.NGramModel(2, unit="letters", smoothing="witten-bell").fit(["ab", "ab", "ba"])
    >>> arcs = BackoffArcs(model.tables_.arrays)
    >>> slots = Slots.of(arcs.n_labels, [([3, 4], [0, 0]), ([4], [0])])
    >>> trellis = BackoffTrellis(arcs, slots, [0, 1], start=arcs.state_after([]), stop=2)
    >>> trellis.viterbi().path
    array([3, 4], dtype=int32)
    >>> trellis.marginals()[0, 3:].round(2)
    array([0.87, 0.13])
    """

    def __init__(
        self,
        arcs: BackoffArcs,
        slots: Slots,
        slot: npt.ArrayLike,
        *,
        start: int,
        stop: int | None = None,
        offsets: npt.ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.arcs, self.slots, self.start, self.stop = arcs, slots, start, stop
        self.slot: Int32 = np.ascontiguousarray(slot, np.int32)
        self.is_batch = offsets is not None
        bounds = [0, len(self.slot)] if offsets is None else offsets
        self._offsets: Int64 = np.ascontiguousarray(bounds, np.int64)
        self.n_threads = n_threads
        self._threads = checks.threads(n_threads)
        try:
            self._batch = _native.BackoffBatch(
                arcs.native,
                slots.native,
                self.slot,
                self._offsets,
                start,
                -1 if stop is None else stop,
            )
        except ValueError as error:
            raise ShapeError(f"{error}.") from error

    @property
    def offsets(self) -> Int64:
        """Where each sequence begins and ends, shape (N + 1,)."""
        return self._offsets

    @property
    def n_labels(self) -> int:
        """Y, the number of labels."""
        return self.arcs.n_labels

    def __getitem__(self, i: int | slice) -> BackoffTrellis:
        self._check_batch("cannot be indexed; only a batch can")
        if isinstance(i, slice):
            which = range(len(self))[i]
            parts = [self.slot[self._offsets[k] : self._offsets[k + 1]] for k in which]
            offsets = np.cumsum([0, *map(len, parts)])
            return self._like(np.concatenate([self.slot[:0], *parts]), offsets)
        k = range(len(self))[i]
        return self._like(self.slot[self._offsets[k] : self._offsets[k + 1]], None)

    def _like(self, slot: Int32, offsets: npt.ArrayLike | None, **changes: Any) -> BackoffTrellis:
        return BackoffTrellis(
            changes.get("arcs", self.arcs),
            changes.get("slots", self.slots),
            slot,
            start=self.start,
            stop=self.stop,
            offsets=offsets,
            n_threads=self.n_threads,
        )

    # ---- answers ---------------------------------------------------------------------------

    def viterbi(self, *, on_infeasible: OnInfeasible = "raise") -> Best:
        """Find the best path; ties go to the lowest labels, compared from the end.

        Returns
        -------
        Best
            ``path`` [T] of label ids, flat for a batch; ``score`` float, or [N].
        """
        path, score = self._batch.viterbi(self._threads)
        self._check_feasible(score, on_infeasible)
        return Best(path, self._per_sequence(score))

    def nbest(self, n: int, *, on_infeasible: OnInfeasible = "none") -> Any:
        """Find the n best paths, all different, the best first.

        Returns
        -------
        NBest, or a list of NBest for a batch
            ``paths`` [k, T], ``scores`` [k], ``probs`` [k]; k < n if there are fewer paths.
        """
        n = checks.count(n, "n", least=1)
        log_z = self._batch.log_partition(self._threads)
        self._check_feasible(log_z, on_infeasible)
        results = []
        nbest = self._batch.nbest(n, self._threads)
        for (paths, scores), z, T in zip(nbest, log_z, self.lengths, strict=True):
            probs = np.exp(np.minimum(scores - z, 0.0))  # no path: no scores
            results.append(NBest(paths.reshape(len(scores), T), scores, probs))
        return results if self.is_batch else results[0]

    def sample(
        self, n: int, random_state: Any = None, *, on_infeasible: OnInfeasible = "raise"
    ) -> Int32:
        """Draw n paths of each sequence with their probabilities.

        Returns
        -------
        ndarray of int32, shape (n, T)
            −1 for a sequence without a path.
        """
        n = checks.count(n, "n")
        uniform = uniform_numbers(random_state, len(self.slot), n).T  # [n, T]
        self._check_feasible(self._batch.log_partition(self._threads), on_infeasible)
        paths = self._batch.sample(uniform.ravel(), n, self._threads)
        return paths.reshape(n, len(self.slot))

    def log_partition(self) -> Any:
        """Return log Σ exp(score) over all paths: float or [N]; −inf if all are impossible."""
        return self._per_sequence(self._batch.log_partition(self._threads))

    def candidate_marginals(self, *, on_infeasible: OnInfeasible = "raise") -> list[Float64]:
        """Return the probability of each candidate of each position.

        Returns
        -------
        list of ndarray, each of the size of its set of candidates
            One for each position; flat for a batch. `candidates` has the labels.
        """
        probs, log_z = self._batch.marginals(self._threads)
        self._check_feasible(log_z, on_infeasible)
        ends = np.cumsum(self.slots.sizes[self.slot])
        return np.split(probs, ends[:-1]) if len(ends) else []

    def candidates(self, t: int) -> tuple[Int32, Float64]:
        """Return the labels and scores of the candidates of position t."""
        k = self.slot[t]
        at = slice(self.slots.start[k], self.slots.start[k + 1])
        return self.slots.labels[at], self.slots.scores[at]

    def marginals(self, *, on_infeasible: OnInfeasible = "raise") -> Float64:
        """Return the probability of each label at each position, shape (T, Y).

        For a large vocabulary `candidate_marginals` needs less memory.
        """
        marginals = np.zeros((len(self.slot), self.n_labels))
        for t, probs in enumerate(self.candidate_marginals(on_infeasible=on_infeasible)):
            marginals[t, self.candidates(t)[0]] = probs
        return marginals

    def entropy(self, *, on_infeasible: OnInfeasible = "raise") -> Any:
        """Return the entropy of the distribution over paths, in nats: float, or shape (N,)."""
        entropy, log_z = self._batch.entropy(self._threads)
        self._check_feasible(log_z, on_infeasible)
        return self._per_sequence(entropy)

    def path_score(self, path: npt.ArrayLike) -> Any:
        """Return the score of a path [T], flat for a batch; −inf if it is not allowed."""
        ids = np.ascontiguousarray(path, np.int32)
        if ids.shape != self.slot.shape:
            raise ShapeError(
                parameter="path", expected=f"of shape {self.slot.shape}", found=str(ids.shape)
            )
        return self._per_sequence(self._batch.path_score(ids))

    def is_feasible(self) -> Any:
        """Whether there is a path: bool, or an array of bool with shape (N,)."""
        return self._per_sequence(self._batch.log_partition(self._threads) > -np.inf)

    def _check_feasible(self, scores: Float64, on_infeasible: OnInfeasible) -> None:
        checks.choice(on_infeasible, "on_infeasible", ("raise", "none"))
        if on_infeasible == "none" or (scores > -np.inf).all():
            return
        i = int(np.flatnonzero(~(scores > -np.inf))[0])
        t = self._batch.first_dead_position(i)
        where = f"Sequence {i}" if self.is_batch else "The sequence"
        raise InfeasibleError(f"{where} has no path: position {t} is out of reach.", i, t)

    # ---- other distributions ---------------------------------------------------------------

    def constrain(self, allowed: npt.ArrayLike) -> BackoffTrellis:
        """Return a trellis with only the allowed candidates.

        Parameters
        ----------
        allowed : array of bool, shape (T, Y)
        """
        mask = np.asarray(allowed)
        shape = (len(self.slot), self.n_labels)
        if mask.dtype != np.bool_ or mask.shape != shape:
            raise ShapeError(
                parameter="allowed",
                expected=f"an array of bool with shape {shape}",
                found=f"{mask.dtype} {mask.shape}",
            )
        sets = []
        for t in range(len(self.slot)):
            labels, scores = self.candidates(t)
            kept = mask[t, labels]
            sets.append((labels[kept], scores[kept]))
        slots = Slots.of(self.n_labels, sets)
        every = np.arange(len(self.slot), dtype=np.int32)
        return self._like(every, self._offsets if self.is_batch else None, slots=slots)

    def tempered(self, temperature: float) -> BackoffTrellis:
        """Return a trellis whose scores are divided by a temperature."""
        temperature = checks.number(temperature, "temperature", above=0)
        slots = self.slots
        scaled = Slots(slots.n_labels, slots.start, slots.labels, slots.scores / temperature)
        offsets = self._offsets if self.is_batch else None
        arcs = self.arcs.divided_by(temperature)
        return self._like(self.slot, offsets, arcs=arcs, slots=scaled)

    def __repr__(self) -> str:
        size = f"{len(self)} sequences, " if self.is_batch else ""
        return f"BackoffTrellis({size}{len(self.slot)} positions, {self.n_labels} labels)"
