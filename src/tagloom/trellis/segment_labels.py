"""Segments as label paths: the face of a `SegmentTrellis` for taggers.

A tagger's analyses are token labels, such as B-X and I-X. `SegmentLabels` translates: best, n best
and sampled segmentations become label paths, marginals of segments become marginals of labels, and
a mask of labels becomes a mask of segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.errors import LabelError, ShapeError
from tagloom.trellis.inputs import as_array
from tagloom.trellis.masks import allowed_labels
from tagloom.trellis.segments import SegmentTrellis
from tagloom.trellis.structures import OnInfeasible, Ragged
from tagloom.trellis.trellis import Best, NBest

Floats = npt.NDArray[np.floating[Any]]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SegmentColumns:
    """The token labels that each segment label writes.

    Attributes
    ----------
    n_labels : int
        Number of token labels.
    columns : ndarray of int32, shape (S, 4)
        The label of a single token, and of the first, inner and last token of a longer segment; −1
        if no segment is that long.
    longest : ndarray of int32, shape (S,)
        The largest length.
    """

    n_labels: int
    columns: Int32
    longest: Int32

    @property
    def max_length(self) -> int:
        """The length of the longest segment."""
        return int(self.longest.max())


class SegmentLabels(Ragged):
    """A `SegmentTrellis` whose analyses are label paths. Implements `Structure`.

    Parameters
    ----------
    segments : SegmentTrellis
    columns : SegmentColumns
    labels : tuple of str
        Names of the token labels.
    """

    def __init__(
        self, segments: SegmentTrellis, columns: SegmentColumns, labels: tuple[str, ...]
    ) -> None:
        self.trellis, self.columns, self.labels = segments, columns, labels
        self.is_batch = segments.is_batch

    def _with(self, segments: SegmentTrellis) -> SegmentLabels:
        return SegmentLabels(segments, self.columns, self.labels)

    @property
    def offsets(self) -> Int64:
        """Where each sequence begins and ends [N + 1]."""
        return self.trellis.offsets

    @property
    def n_labels(self) -> int:
        """The number of token labels."""
        return self.columns.n_labels

    @property
    def emit(self) -> Floats:
        """The scores of segments [T, L, S]."""
        return self.trellis.scores

    @property
    def trans(self) -> Floats | None:
        """Score of a segment label followed by another [S, S]."""
        return self.trellis.trans

    def __getitem__(self, i: Any) -> SegmentLabels:
        return self._with(self.trellis[i])

    def __repr__(self) -> str:
        return f"<SegmentLabels of {self.trellis!r}>"

    def viterbi(self, *, on_infeasible: OnInfeasible = "raise") -> Best:
        """Find the best label path and its score."""
        best = self.trellis.viterbi(on_infeasible=on_infeasible)
        return Best(self.to_labels(best.path), best.score)

    def nbest(self, n: int, *, on_infeasible: OnInfeasible = "none") -> Any:
        """Find the n best label paths, the best first."""
        found = self.trellis.nbest(n, on_infeasible=on_infeasible)
        results = [
            NBest(
                np.array([self.to_labels(p) for p in one.paths], np.int32).reshape(one.paths.shape),
                one.scores,
                one.probs,
            )
            for one in (found if self.is_batch else [found])
        ]
        return results if self.is_batch else results[0]

    def sample(
        self, n: int, random_state: Any = None, *, on_infeasible: OnInfeasible = "raise"
    ) -> Int32:
        """Draw n label paths of each sequence [n, T]."""
        paths = self.trellis.sample(n, random_state, on_infeasible=on_infeasible)
        return np.array([self.to_labels(p) for p in paths], np.int32).reshape(paths.shape)

    def log_partition(self) -> Any:
        """Return log Σ exp(score) over all segmentations."""
        return self.trellis.log_partition()

    def entropy(self, *, on_infeasible: OnInfeasible = "raise") -> Any:
        """Return the entropy of the distribution in nats."""
        return self.trellis.entropy(on_infeasible=on_infeasible)

    def tempered(self, temperature: float) -> SegmentLabels:
        """Return a structure whose scores are divided by a temperature."""
        return self._with(self.trellis.tempered(temperature))

    def marginals(self, *, on_infeasible: OnInfeasible = "raise") -> Floats:
        """Return the probability of each label at each position [T, Y]."""
        of_segments = self.trellis.marginals(on_infeasible=on_infeasible)  # [T, L, S]
        T, L, S = of_segments.shape
        gamma = np.zeros((T, self.n_labels), dtype=of_segments.dtype)
        longer = np.cumsum(of_segments[:, ::-1], axis=1)[:, ::-1]  # [T, L, S] at least this long
        for y in range(S):
            single, first, inside, last = self.columns.columns[y].tolist()
            gamma[:, single] += of_segments[:, 0, y]
            if L > 1 and self.columns.longest[y] > 1:
                gamma[:, first] += longer[:, 1, y]
            for k in range(1, min(L, int(self.columns.longest[y]), T)):
                gamma[k:, last] += of_segments[: T - k, k, y]
                if k + 1 < min(L, int(self.columns.longest[y])):
                    gamma[k:, inside] += longer[: T - k, k + 1, y]
        return gamma

    def constrain(self, allowed: Any = None, **constraints: Any) -> SegmentLabels:
        """Return a structure with fewer label paths.

        Parameters
        ----------
        allowed : array of bool, shape (T, Y), or mapping of position to label or labels
            The labels that stay allowed.
        **constraints
            ``forced`` and ``forbidden``, as for `Trellis.constrain`.
        """
        mask = allowed_labels(
            self, allowed, constraints.get("forced"), constraints.get("forbidden")
        )  # [T, Y]
        T, L = len(mask), self.trellis.max_length
        keep = np.zeros((T, L, len(self.columns.columns)), dtype=np.bool_)
        for y, (single, first, inside, last) in enumerate(self.columns.columns.tolist()):
            keep[:, 0, y] = mask[:, single]
            so_far = mask[:, first]  # of the first l tokens of a longer segment
            for k in range(1, min(L, int(self.columns.longest[y]), T)):
                keep[: T - k, k, y] = so_far[: T - k] & mask[k:, last]
                so_far = np.append(so_far[: T - k] & mask[k:, inside], np.zeros(k, dtype=np.bool_))
        return self._with(self.trellis.constrain(keep))

    def path_score(self, path: Any) -> Any:
        """Return the score of a label path; −inf if it is no segmentation."""
        return self.trellis.path_score(self.to_segments(path))

    def to_labels(self, path: Int32) -> Int32:
        """Turn a segmentation [T] into label ids [T]; −1 stays."""
        T, S = len(path), len(self.columns.columns)
        begins = np.flatnonzero(path != S)
        ends = np.append(begins[1:], T)[: len(begins)]
        by_segment = path[begins]
        has_label = by_segment >= 0
        labels = np.full(T, -1, dtype=np.int32)
        which = np.repeat(by_segment, ends - begins)  # [T] segment label at each position
        is_labelled = which >= 0
        columns = self.columns.columns
        labels[is_labelled] = columns[which[is_labelled], 2]
        is_long = has_label & (ends - begins > 1)
        labels[begins[has_label]] = columns[by_segment[has_label], 0]
        labels[begins[is_long]] = columns[by_segment[is_long], 1]
        labels[ends[is_long] - 1] = columns[by_segment[is_long], 3]
        return labels

    def to_segments(self, path: Any) -> Int32:
        """Turn label ids or names [T], flat for a batch, into a segmentation [T].

        A position that continues no segment begins a new one, of its most likely reading; the
        result may be a path of score −inf.
        """
        ids = self._ids(path)
        S, columns = len(self.columns.columns), self.columns.columns
        begins = {int(first): y for y, (_, first, _, _) in enumerate(columns) if first >= 0}
        begins |= {int(single): y for y, (single, _, _, _) in enumerate(columns)}
        out = np.full(len(ids), -1, dtype=np.int32)
        starts = set(self.offsets[:-1].tolist())
        y = -1
        for t, label in enumerate(ids.tolist()):
            continues = y >= 0 and t not in starts and label in columns[y, 2:].tolist()
            if continues and label not in begins:
                out[t] = S
            else:
                y = begins.get(label, -1)
                out[t] = y
        return out

    def _ids(self, path: Any) -> Int32:
        flat = as_array(path, "path")
        if flat.dtype.kind in "UO":
            names = {name: y for y, name in enumerate(self.labels)}
            unknown = next((x for x in flat.tolist() if x not in names), None)
            if unknown is not None:
                raise LabelError(parameter="path", expected="labels", found=repr(unknown))
            flat = np.array([names[x] for x in flat.tolist()], dtype=np.int32)
        if flat.shape != (int(self.offsets[-1]),):
            expected = f"{self.offsets[-1]} labels"
            raise ShapeError(parameter="path", expected=expected, found=str(flat.shape))
        return flat.astype(np.int32)
