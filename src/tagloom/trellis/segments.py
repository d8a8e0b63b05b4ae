"""Segments: all ways to cut a sequence into labelled pieces, with their scores.

`SegmentTrellis` implements `Structure`, as `Trellis` does for chains: it checks scores, calls the
native core, and returns results. Pictures are in `segment_drawings`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.checks import show as show_value
from tagloom.errors import InfeasibleError, LabelError, ParameterError, ShapeError
from tagloom.trellis.engine import Counts
from tagloom.trellis.inputs import (
    as_array,
    as_list,
    cast_scores,
    check_buffer,
    check_mask,
    check_names,
    check_offsets,
    check_scores,
    label_id,
    measure_scores,
    uniform_numbers,
)
from tagloom.trellis.machine import ALL_THREADS
from tagloom.trellis.structures import OnInfeasible, Ragged
from tagloom.trellis.trellis import Best, NBest

Floats = npt.NDArray[np.floating[Any]]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class Segment(NamedTuple):
    """A piece of a sequence with its label."""

    start: int  #: its first position
    end: int  #: the position after its last
    label: Any  #: name of its label; the id if labels have no names


class SegmentTrellis(Ragged):
    r"""All ways to cut a sequence into labelled segments, with their scores.

    A segmentation covers every position with exactly one segment. Its score is ::

        start[y_1] + Σ_k scores[t_k, l_k − 1, y_k] + Σ_k trans[y_{k−1}, y_k] + stop[y_K]

    over segments k of length l_k that begin at t_k with label y_k. −inf forbids. Results for
    segmentations are arrays with one int per position: the label id where a segment begins, and
    ``inside``, which is Y, at its other positions. All sums take O(T·L·Y + T·Y²). Implements
    `Structure`.

    Parameters
    ----------
    scores : array, shape (T, L, Y)
        Score of the segment of length l + 1 that begins at position t with label y; segments that
        do not fit into the sequence are not read. float32 is kept, all other types become float64.
        For a batch, the positions of all sequences in a row.
    trans : array, shape (Y, Y), optional
        Score of a segment y_prev followed by a segment y. Missing arrays are zero.
    start, stop : array, shape (Y,), optional
        Score of the first and of the last label.
    offsets : array of int, shape (N + 1,), optional
        Makes it a batch: sequence i is ``scores[offsets[i]:offsets[i + 1]]``.
    labels : sequence of str, optional
        Names of the labels.
    n_threads : int, optional
        For batches; all cores of the process by default.

    Raises
    ------
    ShapeError
        If the arrays do not fit each other.
    ScoreError
        If a score is NaN or +inf.

    Notes
    -----
    *Ties* go to the lowest last label, then to the shortest last segment, then the same before it.

    Examples
    --------
    Two positions; a segment of both scores more than its parts:

    >>> import numpy as np
    >>> import tagloom as tl
    >>> scores = np.array([[[1.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [0.0, 0.0]]])  # [T, L, Y]
    >>> trellis = tl.SegmentTrellis(scores, labels=["O", "NAME"])
    >>> trellis.viterbi()
    Best(path=array([1, 2], dtype=int32), score=3.0)
    >>> trellis.segments(trellis.viterbi().path)
    [Segment(start=0, end=2, label='NAME')]
    >>> round(float(trellis.marginals()[0, 1, 1]), 3)  # of that segment
    0.575
    """

    def __init__(
        self,
        scores: npt.ArrayLike,
        trans: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        stop: npt.ArrayLike | None = None,
        *,
        offsets: npt.ArrayLike | None = None,
        labels: Sequence[str] | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_threads = None if n_threads is None else checks.threads(n_threads)
        array, _ = measure_scores(scores, "scores", None, self._threads)
        if array.ndim != 3 or 0 in array.shape[1:]:
            expected = "of shape (T, L, Y) with at least one length and one label"
            raise ShapeError(parameter="scores", expected=expected, found=str(array.shape))
        T, _, Y = array.shape
        self.is_batch = offsets is not None
        self._scores = array
        self._offsets = np.array([0, T]) if offsets is None else _row_offsets(offsets, T)
        self._trans = _shared(trans, "trans", (Y, Y), array)
        self._start = _shared(start, "start", (Y,), array)
        self._stop = _shared(stop, "stop", (Y,), array)
        self.labels = None if labels is None else check_names(labels, Y)
        self._native = self._make_native()

    def _make_native(self) -> _native.Segments:
        shared = (_double(self._trans), _double(self._start), _double(self._stop))
        return _native.Segments(self._scores, self._offsets, *shared)

    @classmethod
    def stack(
        cls,
        scores: Sequence[npt.ArrayLike],
        trans: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        stop: npt.ArrayLike | None = None,
        **options: Any,
    ) -> SegmentTrellis:
        """Build a batch from one array of scores per sequence, each of shape (T_i, L, Y).

        Examples
        --------
        >>> import numpy as np
        >>> batch = SegmentTrellis.stack([np.zeros((2, 3, 2)), np.zeros((4, 3, 2))])
        >>> len(batch), batch.log_partition().round(3)
        (2, array([1.792, 3.951]))
        """
        arrays = [as_array(array, f"scores[{i}]") for i, array in enumerate(scores)]
        for i, array in enumerate(arrays):
            if array.ndim != 3 or array.shape[1:] != arrays[0].shape[1:]:
                expected = f"of shape (T, L, Y) with L and Y of scores[0] {arrays[0].shape}"
                raise ShapeError(
                    parameter=f"scores[{i}]", expected=expected, found=str(array.shape)
                )
        if not arrays:
            raise ShapeError(
                parameter="scores",
                expected="at least one array, which determines lengths and labels",
                found="none",
                hint="For an empty batch: SegmentTrellis(np.empty((0, L, Y)), ..., offsets=[0]).",
            )
        offsets = np.cumsum([0] + [len(array) for array in arrays])
        return cls(np.concatenate(arrays), trans, start, stop, offsets=offsets, **options)

    def _like(self, *, is_batch: bool | None = None, **parts: Any) -> SegmentTrellis:
        """Return a copy with some parts replaced by checked ones."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.__dict__.update({f"_{name}": part for name, part in parts.items()})
        if is_batch is not None:
            new.is_batch = is_batch
        new._native = new._make_native()
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        offsets = self._offsets if self.is_batch else None
        return _restore, (
            (self._scores, self._trans, self._start, self._stop),
            {"offsets": offsets, "labels": self.labels, "n_threads": self.n_threads},
        )

    # ---- parts -----------------------------------------------------------------------------

    @property
    def scores(self) -> Floats:
        """Score of the segment of length l + 1 from t with label y [T, L, Y]."""
        return self._scores

    @property
    def trans(self) -> Floats | None:
        """Score of y_prev followed by y [Y, Y], or None."""
        return self._trans

    @property
    def start(self) -> Floats | None:
        """Score of the first label [Y], or None."""
        return self._start

    @property
    def stop(self) -> Floats | None:
        """Score of the last label [Y], or None."""
        return self._stop

    @property
    def offsets(self) -> Int64:
        """Where each sequence begins and ends [N + 1]."""
        return self._offsets

    @property
    def n_labels(self) -> int:
        """Y, the number of labels."""
        return int(self._scores.shape[2])

    @property
    def max_length(self) -> int:
        """L, the length of the longest segment."""
        return int(self._scores.shape[1])

    @property
    def inside(self) -> int:
        """The int that marks the positions of a segment after its first: Y."""
        return self.n_labels

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the type of the scores and of the marginals."""
        return self._scores.dtype

    @property
    def _threads(self) -> int:
        return self.n_threads or ALL_THREADS

    def __getitem__(self, i: int | slice) -> SegmentTrellis:
        self._check_batch("cannot be indexed; only a batch can")
        n = len(self)
        if isinstance(i, slice):
            chosen = np.arange(n)[i]
            pieces = [np.arange(*self._offsets[j : j + 2]) for j in chosen]
            rows = np.concatenate([np.empty(0, dtype=np.int64), *pieces])
            offsets = np.concatenate([[0], np.cumsum(self.lengths[chosen])])
            return self._like(scores=self._scores[rows], offsets=offsets)
        try:
            i = operator.index(i)
        except TypeError:
            raise TypeError(f"a batch is indexed by an int or a slice; got {i!r}") from None
        if not -n <= i < n:
            raise IndexError(f"sequence {i} of a batch of {n}")
        lo, hi = self._offsets[i % n : i % n + 2].tolist()
        return self._like(
            scores=self._scores[lo:hi], offsets=np.array([0, hi - lo]), is_batch=False
        )

    def __repr__(self) -> str:
        T = len(self._scores)
        size = f"{len(self)} sequences, {T}" if self.is_batch else f"{T}"
        return (
            f"<SegmentTrellis: {size} positions, lengths up to {self.max_length}, "
            f"{self.n_labels} labels, {self.dtype}>"
        )

    # ---- best ------------------------------------------------------------------------------

    def viterbi(self, *, on_infeasible: OnInfeasible = "raise") -> Best:
        """Find the best segmentation and its score.

        Returns
        -------
        Best
            ``path`` [T], flat for a batch: label ids, and ``inside``; ``score`` float, or [N].

        Examples
        --------
        >>> SegmentTrellis([[[0.0, 1.0]], [[0.0, 2.0]]]).viterbi()
        Best(path=array([1, 1], dtype=int32), score=3.0)
        """
        path, score = np.empty(len(self._scores), dtype=np.int32), self._no_values()
        self._native.viterbi(self._threads, path, score)
        self._check_feasible(score, on_infeasible)
        return Best(path, self._per_sequence(score))

    def nbest(self, n: int, *, on_infeasible: OnInfeasible = "none") -> Any:
        """Find the n best segmentations, all different, the best first.

        Returns
        -------
        NBest, or a list of NBest for a batch
            ``paths`` [k, T], ``scores`` [k], ``probs`` [k]; k < n if there are fewer.

        Examples
        --------
        >>> SegmentTrellis([[[0.0], [1.0]], [[0.0], [0.0]]]).nbest(3).paths
        array([[0, 1],
               [0, 0]], dtype=int32)
        """
        n = checks.count(n, "n", least=1)
        log_z = self._sums()
        self._check_feasible(log_z, on_infeasible)
        results = [
            NBest(paths, scores, np.exp(np.minimum(scores - total, 0.0)))
            for (paths, scores), total in zip(
                self._native.nbest(self._threads, n), log_z.tolist(), strict=True
            )
        ]
        return results if self.is_batch else results[0]

    # ---- sums ------------------------------------------------------------------------------

    def log_partition(self) -> Any:
        """Return log Σ exp(score) over all segmentations: float, or float64 [N].

        Examples
        --------
        >>> round(SegmentTrellis([[[0.0], [1.0]], [[0.0], [0.0]]]).log_partition(), 6)
        1.313262
        """
        return self._per_sequence(self._sums())

    def _sums(self, **outputs: Any) -> Float64:
        log_z = self._no_values()
        self._native.sum(self._threads, log_z, **outputs)
        return log_z

    def _no_values(self) -> Float64:
        return np.zeros(len(self._offsets) - 1)

    def marginals(
        self, *, on_infeasible: OnInfeasible = "raise", out: Floats | None = None
    ) -> Floats:
        """Return the probability of each segment [T, L, Y]; 0 where it does not fit.

        Parameters
        ----------
        on_infeasible : {"raise", "none"}
        out : ndarray, shape (T, L, Y), optional
            Array to write to, of the type of the scores.

        Examples
        --------
        >>> SegmentTrellis([[[0.0], [1.0]], [[0.0], [0.0]]]).marginals().round(3)[..., 0]
        array([[0.269, 0.731],
               [0.269, 0.   ]])
        """
        check_buffer(out, "out", self._scores.shape)
        is_direct = out is not None and self._may_write(out)
        marginals = out if out is not None and is_direct else np.empty_like(self._scores)
        self._check_feasible(self._sums(marginals=marginals), on_infeasible)
        if out is None or is_direct:
            return marginals
        out[...] = marginals
        return out

    def _may_write(self, buffer: npt.NDArray[Any]) -> bool:
        return (
            buffer.dtype == self.dtype
            and buffer.flags.c_contiguous
            and not np.may_share_memory(buffer, self._scores)
        )

    def label_marginals(self, *, on_infeasible: OnInfeasible = "raise") -> Floats:
        """Return the probability that a segment with label y covers position t [T, Y].

        Examples
        --------
        >>> SegmentTrellis([[[0.0, 1.0]], [[0.0, 2.0]]]).label_marginals().round(3)
        array([[0.269, 0.731],
               [0.119, 0.881]])
        """
        return sum_covering(self.marginals(on_infeasible=on_infeasible))

    def expected_counts(self, *, on_infeasible: OnInfeasible = "raise") -> Counts:
        """Return the expected number of segments by label, of transitions, starts and stops.

        These are the gradients of the log-partition with respect to a bias of each label's
        segments, ``trans``, ``start`` and ``stop``, summed over the sequences of a batch.

        Examples
        --------
        >>> SegmentTrellis([[[0.0, 1.0]], [[0.0, 2.0]]]).expected_counts().labels.round(3)
        array([0.388, 1.612])
        """
        counts, log_z = self._counted()
        self._check_feasible(log_z, on_infeasible)
        return counts

    def _counted(self, **outputs: Any) -> tuple[Counts, Float64]:
        Y = self.n_labels
        trans, start, stop = np.zeros(Y * Y), np.zeros(Y), np.zeros(Y)
        log_z = self._sums(counts=_native.TransitionCounts(trans, start, stop), **outputs)
        by_label = start + trans.reshape(Y, Y).sum(axis=0)
        return Counts(by_label, trans.reshape(Y, Y), start, stop, np.zeros(0)), log_z

    def entropy(self, *, on_infeasible: OnInfeasible = "raise") -> Any:
        """Return the entropy of the distribution over segmentations, in nats: float, or [N].

        Examples
        --------
        >>> round(SegmentTrellis([[[0.0], [1.0]], [[0.0], [0.0]]]).entropy(), 6)
        0.582203
        """
        entropy, log_z = self._no_values(), self._no_values()
        self._native.entropy(self._threads, entropy, log_z)
        self._check_feasible(log_z, on_infeasible)
        return self._per_sequence(entropy)

    def sample(
        self, n: int, random_state: Any = None, *, on_infeasible: OnInfeasible = "raise"
    ) -> Int32:
        """Draw n segmentations of each sequence with exactly their probabilities [n, T].

        Parameters
        ----------
        n : int
        random_state : int, Generator, RandomState or None
            A seed gives the same segmentations for any number of threads.
        on_infeasible : {"raise", "none"}

        Examples
        --------
        >>> SegmentTrellis([[[0.0], [1.0]], [[0.0], [0.0]]]).sample(4, random_state=0)
        array([[0, 1],
               [0, 1],
               [0, 1],
               [0, 1]], dtype=int32)
        """
        n = checks.count(n, "n")
        T = len(self._scores)
        uniform = np.ascontiguousarray(uniform_numbers(random_state, T, n).T)  # [n, T]
        paths, log_z = np.empty((n, T), dtype=np.int32), self._no_values()
        self._native.sample(self._threads, uniform, paths, log_z)
        self._check_feasible(log_z, on_infeasible)
        return paths

    def is_feasible(self) -> Any:
        """Return whether any segmentation is allowed; an array of bool [N] for a batch.

        Examples
        --------
        >>> SegmentTrellis([[[0.0], [-np.inf]], [[-np.inf], [0.0]]]).is_feasible()
        False
        """
        return self._per_sequence(~np.isneginf(self._sums()))

    def _check_feasible(self, log_z: Float64, on_infeasible: OnInfeasible) -> None:
        """Raise InfeasibleError for the first sequence whose log_z, or best score, is −inf."""
        if on_infeasible != "raise":
            checks.choice(on_infeasible, "on_infeasible", ("raise", "none"))
        if on_infeasible == "none" or len(log_z) == 0:
            return
        i = int(log_z.argmin())
        if log_z[i] > -math.inf:
            return
        t, T = self._native.first_dead_position(i), self.lengths[i]
        raise InfeasibleError(
            f"no segmentation may stop after position {T - 1}, the last."
            if t == T
            else f"no allowed segment begins at position {t} and can be continued to the end.",
            sequence=i,
            position=t,
            where=f"sequence {i}, position {t}" if self.is_batch else f"position {t}",
            hint="Relax the constraints, or pass on_infeasible='none'.",
        )

    # ---- given segmentations ---------------------------------------------------------------

    def path_score(self, path: Any) -> Any:
        """Return the score of a segmentation: float, or float64 [N]; −inf if it is not allowed.

        Parameters
        ----------
        path : array of int, shape (T,), or segments
            As `viterbi` returns it, flat for a batch; or the segments (start, end, label), which
            must cover the sequence, one list per sequence of a batch.

        Raises
        ------
        LabelError, ShapeError
            If a label or a position does not exist.

        Examples
        --------
        >>> trellis = SegmentTrellis([[[0.0], [1.0]], [[0.0], [0.0]]], labels=["A"])
        >>> trellis.path_score([0, trellis.inside]), trellis.path_score([(0, 2, "A")])
        (1.0, 1.0)
        """
        return self._per_sequence(self._path_scores(path))

    def _path_scores(self, path: Any) -> Float64:
        scores = self._no_values()
        self._native.path_score(self.path_of(path), scores)
        return scores

    def log_prob(self, path: Any) -> Any:
        """Return the log probability of a segmentation, given as for `path_score`.

        Examples
        --------
        >>> trellis = SegmentTrellis([[[0.0], [1.0]], [[0.0], [0.0]]])
        >>> round(trellis.log_prob([0, 0]), 6)
        -1.313262
        """
        return self._per_sequence(_log_ratio(self._path_scores(path), self._sums()))

    def log_prob_of(self, allowed: Any) -> Any:
        """Return the log probability of a partial segmentation: float, or float64 [N].

        Parameters
        ----------
        allowed : array of bool, shape (T, L, Y), or segments
            The segments that may occur; or segments (start, end, label) that must occur, one list
            per sequence of a batch. A label None stands for any.

        Examples
        --------
        The probability that a segment covers the first two positions exactly:

        >>> trellis = SegmentTrellis(np.zeros((3, 2, 2)))
        >>> round(math.exp(trellis.log_prob_of([(0, 2, None)])), 3)
        0.25
        """
        part = self.constrain(allowed) if _is_mask(allowed) else self.constrain(forced=allowed)
        return self._per_sequence(_log_ratio(part._sums(), self._sums()))

    def segments(self, path: Any) -> list[Any]:
        """Return the segments of a segmentation, or of each of a batch.

        A sequence without a segmentation, −1 throughout, has no segments.

        Examples
        --------
        >>> SegmentTrellis(np.zeros((3, 2, 1))).segments([0, 1, 0])
        [Segment(start=0, end=2, label=0), Segment(start=2, end=3, label=0)]
        """
        ids = self._check_path(path)
        found = [
            self._segments_of(ids[lo:hi])
            for lo, hi in zip(self._offsets[:-1].tolist(), self._offsets[1:].tolist(), strict=True)
        ]
        return found if self.is_batch else found[0]

    def _segments_of(self, path: Int32) -> list[Segment]:
        if len(path) == 0 or path[0] == -1:
            return []
        begins = np.flatnonzero(path != self.inside)
        ends = np.append(begins[1:], len(path))
        names: Sequence[Any] = range(self.n_labels) if self.labels is None else self.labels
        return [
            Segment(begin, end, names[y])
            for begin, end, y in zip(
                begins.tolist(), ends.tolist(), path[begins].tolist(), strict=True
            )
        ]

    def path_of(self, segments: Any) -> Int32:
        """Return the array [T] of a segmentation; the inverse of `segments`.

        An array is checked and returned.

        Examples
        --------
        >>> SegmentTrellis(np.zeros((3, 2, 1))).path_of([(0, 2, 0), (2, 3, 0)])
        array([0, 1, 0], dtype=int32)
        """
        if isinstance(segments, np.ndarray) or _are_ints(segments):
            return self._check_path(segments)
        path = np.full(len(self._scores), self.inside, dtype=np.int32)
        for i, (begin, end), listed in self._listed(segments, "segments"):
            at = 0
            for lo, hi, y in listed:
                if lo != at or y is None:
                    raise ShapeError(
                        where=f"segments, {self._place(begin + at)}",
                        expected="labelled segments that cover the sequence in order",
                        found=show_value((lo, hi, y)),
                    )
                path[begin + lo] = y
                at = hi
            if at != end - begin:
                raise ShapeError(
                    where=f"segments, sequence {i}" if self.is_batch else "segments",
                    expected=f"segments that end at {end - begin}, the length of the sequence",
                    found=str(at),
                )
        return path

    def _check_path(self, path: Any) -> Int32:
        ids = as_array(path, "path")
        T, Y = len(self._scores), self.n_labels
        if ids.shape != (T,) or (ids.dtype.kind not in "iu" and T > 0):
            found = f"{ids.dtype} of shape {ids.shape}"
            raise ShapeError(parameter="path", expected=f"ints of shape ({T},)", found=found)
        wrong = np.flatnonzero((ids < -1) | (ids > Y))
        if len(wrong):
            t = int(wrong[0])
            raise LabelError(
                where=f"path, {self._place(t)}",
                expected=f"a label id from 0 to {Y - 1}, or {Y} inside a segment",
                found=str(ids[t]),
            )
        return ids.astype(np.int32)

    def _listed(
        self, segments: Any, name: str
    ) -> Iterable[tuple[int, tuple[int, int], list[tuple[int, int, int | None]]]]:
        """Yield each sequence, its positions, and its segments (start, end, label id or None)."""
        rows = as_list(segments, ordered=True)
        if rows is None or (self.is_batch and len(rows) != len(self)):
            expected = "segments (start, end, label)"
            if self.is_batch:
                expected = f"{len(self)} lists of {expected}, one per sequence"
            raise ShapeError(parameter=name, expected=expected, found=show_value(segments))
        for i, row in enumerate(rows if self.is_batch else [rows]):
            lo, hi = self._offsets[i : i + 2].tolist()
            where = f"{name}, sequence {i}" if self.is_batch else name
            yield i, (lo, hi), [self._read(one, hi - lo, where) for one in as_list(row) or []]

    def _read(self, segment: Any, T: int, where: str) -> tuple[int, int, int | None]:
        parts = as_list(segment, ordered=True)
        if parts is None or len(parts) != 3:
            raise ShapeError(
                where=where, expected="a segment (start, end, label)", found=show_value(segment)
            )
        begin, end, label = parts
        if not (isinstance(begin, int) and isinstance(end, int) and 0 <= begin < end <= T):
            expected = f"a segment with 0 <= start < end <= {T}"
            raise ShapeError(where=where, expected=expected, found=show_value(segment))
        y = None if label is None else label_id(label, self.n_labels, self.labels, where)
        return begin, end, y

    # ---- constraints and pictures ----------------------------------------------------------

    def constrain(
        self,
        allowed: npt.ArrayLike | None = None,
        *,
        forced: Any = None,
        forbidden: Any = None,
    ) -> SegmentTrellis:
        """Return a trellis with fewer segmentations; this one does not change.

        It never raises because none is left: `is_feasible` reports that.

        Parameters
        ----------
        allowed : array of bool, shape (T, L, Y), optional
            The segments that stay allowed.
        forced : segments, optional
            Segments (start, end, label) that every segmentation must contain; a label None stands
            for any. One list per sequence of a batch.
        forbidden : segments, optional
            Segments that no segmentation may contain.

        Examples
        --------
        >>> trellis = SegmentTrellis(np.zeros((3, 2, 1)))
        >>> trellis.constrain(forced=[(1, 3, 0)]).viterbi().path
        array([0, 0, 1], dtype=int32)
        """
        mask = np.ones(self._scores.shape, dtype=np.bool_)
        if allowed is not None:
            mask &= check_mask(allowed, "allowed", self._scores.shape)
        for name, segments in (("forced", forced), ("forbidden", forbidden)):
            if segments is None:
                continue
            for _, (lo, hi), listed in self._listed(segments, name):
                for begin, end, y in listed:
                    self._mask_segment(mask[lo:hi], begin, end, y, is_forced=name == "forced")
        return self._like(scores=np.where(mask, self._scores, self.dtype.type(-np.inf)))

    def _mask_segment(
        self, mask: Bool, begin: int, end: int, y: int | None, *, is_forced: bool
    ) -> None:
        """Remove the segments of one sequence [T, L, Y] that one segment excludes."""
        labels = slice(None) if y is None else y
        fits = end - begin <= self.max_length
        kept = mask[begin, end - begin - 1, labels].copy() if fits else None
        if is_forced:  # all segments that overlap it
            for t in range(max(0, begin - self.max_length + 1), end):
                mask[t, max(0, begin - t) :] = False
        if fits:
            mask[begin, end - begin - 1, labels] = kept if is_forced else False

    def tempered(self, temperature: float) -> SegmentTrellis:
        """Return a trellis whose scores are divided by a temperature above 0.

        Examples
        --------
        >>> SegmentTrellis([[[0.0, 2.0]]]).tempered(2).marginals().round(3)
        array([[[0.269, 0.731]]])
        """
        factor = self.dtype.type(checks.number(temperature, "temperature", above=0))
        return self._map_scores(lambda scores: scores / factor)

    def astype(self, dtype: npt.DTypeLike) -> SegmentTrellis:
        """Return a trellis whose scores, and so whose marginals, are of type float32 or float64.

        Examples
        --------
        >>> SegmentTrellis([[[0.0, 2.0]]]).astype(np.float32).marginals().dtype
        dtype('float32')
        """
        new = np.dtype(dtype)
        if new not in (np.float32, np.float64):
            raise ParameterError(parameter="dtype", expected="float32 or float64", found=str(new))
        return self._map_scores(lambda scores: cast_scores(scores, new, "scores"))

    def _map_scores(self, function: Any) -> SegmentTrellis:
        shared = {"trans": self._trans, "start": self._start, "stop": self._stop}
        return self._like(
            scores=function(self._scores),
            **{name: None if array is None else function(array) for name, array in shared.items()},
        )

    def draw(
        self,
        show: Literal["best", "marginals"] = "best",
        *,
        tokens: Sequence[str] | None = None,
        format: Literal["text", "svg"] = "text",
        min_prob: float = 0.05,
    ) -> str:
        """Draw the segments of a single trellis as brackets under its sequence.

        Parameters
        ----------
        show : {"best", "marginals"}
            The segments of the best segmentation; or all that have a probability of at least
            ``min_prob``, with their probabilities, the best segmentation first.
        tokens : sequence of str, length T, optional
            Names of the positions; by default their numbers.
        format : {"text", "svg"}
        min_prob : float

        Examples
        --------
        >>> scores = np.zeros((3, 2, 2))
        >>> scores[1, 1, 1] = 3.0
        >>> print(SegmentTrellis(scores, labels=["O", "LOC"]).draw(tokens=["in", "New", "York"]))
        in   New  York
        └O┘  └──LOC──┘
        """
        from tagloom.trellis.segment_drawings import draw_segments

        return draw_segments(self, show, tokens, format, min_prob)

    def _repr_svg_(self) -> str | None:
        if self.is_batch or len(self._scores) > 200:  # no picture: a notebook shows the repr
            return None
        return self.draw("marginals", format="svg")

    def _repr_html_(self) -> str | None:
        return self._repr_svg_()


def segment_log_partition_grad(
    offsets: npt.ArrayLike,
    scores: npt.ArrayLike,
    trans: npt.ArrayLike | None = None,
    start: npt.ArrayLike | None = None,
    stop: npt.ArrayLike | None = None,
    weight: npt.ArrayLike | None = None,
    *,
    grad_scores: Floats | None = None,
    grad_trans: Floats | None = None,
    grad_start: Floats | None = None,
    grad_stop: Floats | None = None,
    n_threads: int | None = None,
) -> Float64:
    r"""Compute log_z of each sequence, and write the gradient of Σ_i weight[i]·log_z[i].

    The gradient consists of expected counts: ∂/∂scores[t, l, y] = weight · Pr(segment), and so on;
    `log_partition_grad` is the same for chains.

    Parameters
    ----------
    offsets : array of int, shape (N + 1,)
    scores, trans, start, stop : array
        As for `SegmentTrellis`.
    weight : array, shape (N,), optional
        Weight of each sequence; 1 by default.
    grad_scores : ndarray, shape (T, L, Y), optional
    grad_trans : ndarray, shape (Y, Y), optional
    grad_start, grad_stop : ndarray, shape (Y,), optional
        Buffers to overwrite; gradients without a buffer are not computed.
    n_threads : int, optional

    Returns
    -------
    ndarray of float64, shape (N,)
        log_z; −inf for a sequence without a segmentation, which adds nothing.

    Examples
    --------
    >>> grad = np.empty((2, 2, 1))
    >>> log_z = segment_log_partition_grad([0, 2], np.zeros((2, 2, 1)), grad_scores=grad)
    >>> grad[..., 0]
    array([[0.5, 0.5],
           [0.5, 0. ]])
    """
    trellis = SegmentTrellis(scores, trans, start, stop, offsets=offsets, n_threads=n_threads)
    Y, N = trellis.n_labels, len(trellis)
    check_buffer(grad_scores, "grad_scores", trellis.scores.shape)
    shared = [
        (grad_trans, "grad_trans", (Y, Y)),
        (grad_start, "grad_start", (Y,)),
        (grad_stop, "grad_stop", (Y,)),
    ]
    for buffer, name, shape in shared:
        check_buffer(buffer, name, shape)
    weights = np.ones(N)
    if weight is not None:
        weights = np.asarray(check_scores(weight, "weight", np.float64), dtype=np.float64)
        if weights.shape != (N,) or np.isneginf(weights).any():
            raise ShapeError(
                parameter="weight", expected=f"{N} finite numbers", found=show_value(weight)
            )
    marginals = None if grad_scores is None else np.empty_like(trellis.scores)
    counts, log_z = trellis._counted(marginals=marginals, weight=weights)
    for (buffer, _, _), values in zip(
        shared, (counts.transitions, counts.start, counts.stop), strict=True
    ):
        if buffer is not None:
            buffer[...] = values
    if grad_scores is not None and marginals is not None:
        by_token = np.repeat(weights, trellis.lengths)[:, None, None]
        grad_scores[...] = marginals * by_token.astype(trellis.dtype)
    return log_z


def sum_covering(marginals: Floats) -> Floats:
    """Sum the probabilities of segments [T, L, Y] over those that cover each position [T, Y].

    A segment that begins at t and has length l covers t to t + l − 1. Segments of different
    sequences of a batch do not mix, as they end with their sequence.
    """
    L = marginals.shape[1]
    longer = np.cumsum(marginals[:, ::-1], axis=1)[:, ::-1]  # [T, L, Y] at least this long
    covering: Floats = longer[:, 0].copy()
    for k in range(1, min(L, len(marginals))):
        covering[k:] += longer[:-k, k]
    return covering


def _restore(arrays: tuple[Any, ...], options: dict[str, Any]) -> SegmentTrellis:
    return SegmentTrellis(*arrays, **options)


def _row_offsets(offsets: npt.ArrayLike, T: int) -> Int64:
    return check_offsets(offsets, T, rows="rows of scores")


def _shared(
    array: npt.ArrayLike | None, name: str, shape: tuple[int, ...], scores: Floats
) -> Floats | None:
    """Return scores of a shape, in the type of the segment scores; None for None."""
    if array is None:
        return None
    values, _ = measure_scores(array, name, scores.dtype, 1)
    if values.shape != shape:
        expected = f"of shape {shape} to match scores {scores.shape}"
        raise ShapeError(parameter=name, expected=expected, found=str(values.shape))
    return values


def _double(array: Floats | None) -> Float64 | None:
    return None if array is None else array.astype(np.float64)


def _log_ratio(part: Float64, whole: Float64) -> Float64:
    """Return log(part / whole) ≤ 0; −inf for a part of nothing, never NaN."""
    return np.minimum(part - np.where(np.isneginf(whole), 0.0, whole), 0.0)


def _is_mask(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.bool_


def _are_ints(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(
        isinstance(value, int | np.integer) for value in values
    )
