"""Dependency trees: all trees over the words of a sentence, with the scores of their arcs.

`TreeScores` answers for trees what `Trellis` answers for label paths. The recursions are native:
Eisner's algorithm for projective trees, Chu-Liu-Edmonds and the matrix-tree theorem for all trees.
Pictures are in `tree_pictures`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import InfeasibleError, ParameterError, ShapeError
from tagloom.trellis import masks
from tagloom.trellis.inputs import (
    as_array,
    check_buffer,
    check_offsets,
    check_scores,
    random_generator,
)
from tagloom.trellis.machine import ALL_THREADS
from tagloom.trellis.structures import OnInfeasible, Ragged

Floats = npt.NDArray[np.floating[Any]]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class BestTree(NamedTuple):
    """The best tree and its score."""

    heads: Int32  #: [T], flat for a batch; 0 is the root, −1 where a sentence has no tree
    score: Any  #: float, or float64 [N] for a batch; −inf where no tree is allowed


class NBestTrees(NamedTuple):
    """The k ≤ n best trees of one sentence, the best first."""

    heads: Int32  #: [k, T]
    scores: Float64  #: [k]
    probs: Float64  #: [k] probability of each tree: exp(score − log_partition)


class TreeScores(Ragged):
    r"""All dependency trees over a sentence, or over each sentence of a batch, with their scores.

    A tree gives each word one head: another word, or the root; there are no cycles. Its score is
    the sum over its arcs, ``Σ_t arcs[t, head of t]``, plus the scores of adjacent siblings if they
    are given. Probabilities are proportional to exp(score). −inf forbids an arc. Heads are numbered
    as in CoNLL-U: 0 is the root, h from 1 to T is word h, which has row h − 1 in ``arcs``.
    Implements `Structure`.

    Parameters
    ----------
    arcs : array, shape (T, H)
        Score of head h for the word at position t, with H ≥ T + 1 columns. Columns beyond T, and
        a word as its own head, are not used. For a batch, the words of all sentences in a row, and
        H ≥ the length of the longest + 1. float32 is kept, all other types become float64.
    siblings : array, shape (T, H, H), optional
        ``siblings[t, h, s]`` is added for the word at position t with head h if s is the next
        dependent of h from the word towards h; s = h if there is none. Projective trees only.
    projective : bool, default True
        Allow only trees whose arcs can be drawn above the sentence without crossing each other.
    single_root : bool, default True
        Allow only trees in which one word has head 0.
    offsets : array of int, shape (N + 1,), optional
        Makes it a batch: sentence i is ``arcs[offsets[i]:offsets[i + 1]]``.
    n_threads : int, optional
        For batches; all cores of the process by default.

    Raises
    ------
    ShapeError
        If the arrays do not fit each other.
    ScoreError
        If a score is NaN or +inf.
    ParameterError
        If there are ``siblings`` but trees need not be projective.

    Notes
    -----
    *Time.* O(T³) for projective trees and for sums over all trees, O(T²) for the best of all trees.
    *Memory* is O(T²), but O(T³) for `marginals` of all trees. Arithmetic is in float64, and in log
    space wherever weights could underflow, so scores may have any range.

    *Batches.* Results per word are flat for a batch and aligned with ``arcs`` (`split` cuts them);
    results per sentence have shape (N,).

    *Infeasible sentences.* Methods with ``on_infeasible`` raise `InfeasibleError` if a sentence has
    no tree. With "none" its heads are −1, its scores −inf, its probabilities and entropy 0.

    *Ties* are resolved in the same way in every run and for any number of threads.

    Examples
    --------
    "they can fish", where the second word likes to be the root:

    >>> import numpy as np
    >>> import tagloom as tl
    >>> trees = tl.TreeScores([[0, 0, 2, 1], [3, 0, 0, 1], [1, 0, 2, 0]])
    >>> trees.viterbi()
    BestTree(heads=array([2, 0, 2], dtype=int32), score=7.0)
    >>> trees.marginals().round(2)
    array([[0.01, 0.  , 0.97, 0.02],
           [0.92, 0.01, 0.  , 0.07],
           [0.07, 0.  , 0.93, 0.  ]])
    >>> trees.constrain(forced={1: 3}).viterbi().heads
    array([2, 3, 0], dtype=int32)
    """

    def __init__(
        self,
        arcs: npt.ArrayLike,
        *,
        siblings: npt.ArrayLike | None = None,
        projective: bool = True,
        single_root: bool = True,
        offsets: npt.ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.n_threads = None if n_threads is None else checks.threads(n_threads)
        self.projective = checks.flag(projective, "projective")
        self.single_root = checks.flag(single_root, "single_root")
        self.is_batch = offsets is not None
        self.arcs: Floats = check_scores(arcs, "arcs")
        if self.arcs.ndim != 2:
            expected = "of shape (T, H), by word and head"
            raise ShapeError(parameter="arcs", expected=expected, found=str(self.arcs.shape))
        T, H = self.arcs.shape
        self._offsets: Int64 = (
            np.array([0, T]) if offsets is None else check_offsets(offsets, T, rows="rows of arcs")
        )
        longest = int(self.lengths.max(initial=0))
        if longest >= H:
            expected = f"of shape (T, H) with H ≥ {longest + 1}: the root and {longest} words"
            raise ShapeError(parameter="arcs", expected=expected, found=str(self.arcs.shape))
        self.siblings: Floats | None = self._check_siblings(siblings)

    def _check_siblings(self, siblings: npt.ArrayLike | None) -> Floats | None:
        if siblings is None:
            return None
        if not self.projective:
            raise ParameterError(
                parameter="siblings",
                expected="projective=True",
                found="projective=False",
                hint="The best of all trees with scores of siblings is NP-hard to find.",
            )
        scores = check_scores(siblings, "siblings", self.dtype)
        T, H = self.arcs.shape
        if scores.shape != (T, H, H):
            expected = f"of shape (T, H, H) = {(T, H, H)} to match arcs {self.arcs.shape}"
            raise ShapeError(parameter="siblings", expected=expected, found=str(scores.shape))
        return scores

    @classmethod
    def stack(cls, arcs: Sequence[npt.ArrayLike], **options: Any) -> TreeScores:
        """Build a batch from one array of scores per sentence.

        Parameters
        ----------
        arcs : sequence of array, each of shape (T_i, T_i + 1) or wider
        **options
            As for `TreeScores`, except ``siblings``.

        Examples
        --------
        >>> batch = TreeScores.stack([np.zeros((2, 3)), np.zeros((4, 5))])
        >>> np.exp(batch.log_partition()).round()  # the number of trees
        array([ 2., 30.])
        """
        arrays = [as_array(array, f"arcs[{i}]") for i, array in enumerate(arcs)]
        for i, array in enumerate(arrays):
            if array.ndim != 2 or array.shape[1] <= array.shape[0]:
                expected = "of shape (T, T + 1), by word and head"
                raise ShapeError(parameter=f"arcs[{i}]", expected=expected, found=str(array.shape))
        offsets = np.cumsum([0] + [len(array) for array in arrays])
        H = max([array.shape[1] for array in arrays], default=1)
        dtype = np.result_type(*arrays) if arrays else np.dtype(np.float64)
        flat = np.full((offsets[-1], H), -np.inf, dtype if dtype.kind == "f" else np.float64)
        for i, array in enumerate(arrays):
            flat[offsets[i] : offsets[i + 1], : array.shape[1]] = array
        return cls(flat, offsets=offsets, **options)

    # ---- parts -----------------------------------------------------------------------------

    @property
    def offsets(self) -> Int64:
        """Where each sentence begins and ends [N + 1]."""
        return self._offsets

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the type of the scores and of the marginals."""
        return self.arcs.dtype

    @property
    def n_labels(self) -> int:
        """H, the number of columns of ``arcs``: heads are the labels of words."""
        return int(self.arcs.shape[1])

    labels = None  # heads have numbers only

    def _like(
        self,
        arcs: Floats,
        siblings: Floats | None,
        offsets: Int64 | None = None,
        is_batch: bool | None = None,
    ) -> TreeScores:
        """Return a copy with other scores, which are checked already."""
        new = object.__new__(type(self))
        new.n_threads, new.projective = self.n_threads, self.projective
        new.single_root = self.single_root
        new.arcs, new.siblings = arcs, siblings
        new._offsets = self._offsets if offsets is None else offsets
        new.is_batch = self.is_batch if is_batch is None else is_batch
        return new

    def __getitem__(self, i: int | slice) -> TreeScores:
        self._check_batch("cannot be indexed; only a batch can")
        n = len(self)
        if isinstance(i, slice):
            return self._take(np.arange(n)[i])
        try:
            i = operator.index(i)
        except TypeError:
            raise TypeError(f"a batch is indexed by an int or a slice; got {i!r}") from None
        if not -n <= i < n:
            raise IndexError(f"sentence {i} of a batch of {n}")
        lo, hi = self._offsets[i % n], self._offsets[i % n + 1]
        H = hi - lo + 1
        arcs = np.ascontiguousarray(self.arcs[lo:hi, :H])
        siblings = self.siblings
        if siblings is not None:
            siblings = np.ascontiguousarray(siblings[lo:hi, :H, :H])
        return self._like(arcs, siblings, np.array([0, hi - lo]), is_batch=False)

    def _take(self, sentences: Int64) -> TreeScores:
        lengths = self.lengths[sentences]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        rows = np.repeat(self._offsets[sentences], lengths) + within
        siblings = None if self.siblings is None else self.siblings[rows]
        return self._like(self.arcs[rows], siblings, offsets)

    def __repr__(self) -> str:
        T = len(self.arcs)
        size = f"{len(self)} sentences, {T}" if self.is_batch else f"{T}"
        kind = "projective" if self.projective else "all"
        return f"<TreeScores: {size} words, {kind} trees, {self.dtype}>"

    # ---- best trees ------------------------------------------------------------------------

    def _native_batch(self) -> dict[str, Any]:
        siblings = None if self.siblings is None else self.siblings.astype(np.float64, copy=False)
        return {
            "arcs": np.ascontiguousarray(self.arcs, dtype=np.float64),
            "offsets": np.ascontiguousarray(self._offsets, dtype=np.int64),
            "siblings": siblings,
            "projective": self.projective,
            "single_root": self.single_root,
            "threads": self.n_threads or ALL_THREADS,
        }

    def viterbi(self, *, on_infeasible: OnInfeasible = "raise") -> BestTree:
        r"""Find the best tree and its score.

        Projective trees by Eisner's algorithm (1996), in O(T³)::

            incomplete[h, d] = arcs[d, h] + max_k complete[l, k] + complete[r, k + 1]
            complete[h, e]   = max_k incomplete[h, k] + complete[k, e]

        with l < r the two of h and d; all trees by the algorithm of Chu, Liu and Edmonds, in O(T²).

        Returns
        -------
        BestTree
            ``heads`` [T], flat for a batch; ``score`` float, or [N].

        Examples
        --------
        >>> TreeScores([[0.0, 0.0, 1.0], [0.0, 5.0, 0.0]]).viterbi()
        BestTree(heads=array([0, 1], dtype=int32), score=5.0)
        """
        heads, scores = _native.tree_best(**self._native_batch())
        self._check_feasible(scores, on_infeasible)
        return BestTree(heads, self._per_sequence(scores))

    def nbest(self, n: int, *, on_infeasible: OnInfeasible = "none") -> Any:
        """Find the n best trees, all different, the best first.

        Returns
        -------
        NBestTrees, or a list of NBestTrees for a batch
            ``heads`` [k, T], ``scores`` [k], ``probs`` [k]; k < n if there are fewer trees.

        Examples
        --------
        >>> TreeScores([[0.0, 0.0, 1.0], [0.0, 5.0, 0.0]]).nbest(2).heads
        array([[0, 1],
               [2, 0]], dtype=int32)
        """
        n = checks.count(n, "n", least=1)
        log_z = self._sums()
        self._check_feasible(log_z, on_infeasible)
        counts, flat, scores = _native.tree_nbest(**self._native_batch(), n=n)
        probs = np.exp(np.minimum(scores - np.repeat(log_z, counts), 0.0))
        results, tree, word = [], 0, 0
        for k, T in zip(counts.tolist(), self.lengths.tolist(), strict=True):
            heads = flat[word : word + k * T].reshape(k, T)
            results.append(NBestTrees(heads, scores[tree : tree + k], probs[tree : tree + k]))
            tree, word = tree + k, word + k * T
        return results if self.is_batch else results[0]

    # ---- sums over trees -------------------------------------------------------------------

    def _sums(
        self, marginals: Float64 | None = None, sibling_marginals: Float64 | None = None
    ) -> Float64:
        return _native.tree_sums(
            **self._native_batch(), marginals=marginals, sibling_marginals=sibling_marginals
        )

    def log_partition(self) -> Any:
        r"""Return log Σ_trees exp(score): float, or float64 [N]; −inf only if there is no tree.

        Projective trees by the inside recursion, `viterbi` with log-sum-exp for max; all trees by
        the matrix-tree theorem. Its determinant is computed by elimination without subtraction, in
        log space, so it is accurate for scores of any size.

        Examples
        --------
        >>> round(TreeScores([[0.0, 0.0, 1.0], [0.0, 5.0, 0.0]]).log_partition(), 6)
        5.01815
        """
        return self._per_sequence(self._sums())

    def marginals(self, *, on_infeasible: OnInfeasible = "raise") -> Floats:
        """Return the probability of each arc: the gradient of `log_partition`.

        Returns
        -------
        ndarray, shape (T, H)
            Of the type of the scores; row t sums to 1.

        Examples
        --------
        >>> TreeScores([[0.0, 0.0, 1.0], [0.0, 5.0, 0.0]]).marginals().round(3)
        array([[0.982, 0.   , 0.018],
               [0.018, 0.982, 0.   ]])
        """
        marginals = np.zeros(self.arcs.shape)  # [T, H]
        self._check_feasible(self._sums(marginals), on_infeasible)
        return marginals.astype(self.dtype, copy=False)

    def sibling_marginals(self, *, on_infeasible: OnInfeasible = "raise") -> Floats:
        """Return the probability of each pair of adjacent siblings [T, H, H]; see `siblings`.

        Examples
        --------
        >>> trees = TreeScores(np.zeros((2, 3)), siblings=np.zeros((2, 3, 3)))
        >>> trees.sibling_marginals()[1]  # the second word by head and sibling
        array([[0.5, 0. , 0. ],
               [0. , 0.5, 0. ],
               [0. , 0. , 0. ]])
        """
        if self.siblings is None:
            raise ParameterError(
                where="sibling_marginals",
                expected="scores of siblings",
                found="none",
                hint="Build the trees with TreeScores(arcs, siblings=...).",
            )
        pairs = np.zeros(self.siblings.shape)  # [T, H, H]
        self._check_feasible(self._sums(np.zeros(self.arcs.shape), pairs), on_infeasible)
        return pairs.astype(self.dtype, copy=False)

    def log_partition_grad(
        self,
        weight: npt.ArrayLike | None = None,
        *,
        grad_arcs: Floats | None = None,
        grad_siblings: Floats | None = None,
    ) -> Float64:
        """Compute log_z of each sentence, and write the gradient of Σ_i weight[i]·log_z[i].

        Parameters
        ----------
        weight : array, shape (N,), optional
            Weight of each sentence; 1 by default.
        grad_arcs : ndarray, shape (T, H), optional
        grad_siblings : ndarray, shape (T, H, H), optional
            Buffers to overwrite. A sentence without a tree adds nothing.

        Returns
        -------
        ndarray of float64, shape (N,)
            log_z.

        Examples
        --------
        >>> grad = np.empty((2, 3))
        >>> TreeScores(np.zeros((2, 3))).log_partition_grad(grad_arcs=grad).round(3), grad[0]
        (array([0.693]), array([0.5, 0. , 0.5]))
        """
        T, H = self.arcs.shape
        check_buffer(grad_arcs, "grad_arcs", (T, H))
        if self.siblings is None and grad_siblings is not None:
            expected = "None, since these trees have no scores of siblings"
            raise ShapeError(parameter="grad_siblings", expected=expected, found="an array")
        check_buffer(grad_siblings, "grad_siblings", (T, H, H))
        marginals = None if grad_arcs is None and grad_siblings is None else np.zeros((T, H))
        pairs = None if grad_siblings is None else np.zeros((T, H, H))
        log_z = self._sums(marginals, pairs)
        by_word = np.ones(T)
        if weight is not None:
            weights = check_scores(weight, "weight", np.float64)
            if weights.shape != log_z.shape:
                expected = f"of shape (N,) = {log_z.shape}"
                raise ShapeError(parameter="weight", expected=expected, found=str(weights.shape))
            by_word = np.repeat(weights, self.lengths)
        if grad_arcs is not None and marginals is not None:
            grad_arcs[...] = marginals * by_word[:, None]
        if grad_siblings is not None and pairs is not None:
            grad_siblings[...] = pairs * by_word[:, None, None]
        return log_z

    def entropy(self, *, on_infeasible: OnInfeasible = "raise") -> Any:
        """Return the entropy −Σ_trees Pr(tree) log Pr(tree), in nats: float, or float64 [N].

        It is log_partition − Σ probability · score over all arcs, and over pairs of siblings.

        Examples
        --------
        >>> round(TreeScores(np.zeros((4, 5))).entropy(), 6) == round(math.log(30), 6)
        True
        """
        marginals = np.zeros(self.arcs.shape)
        pairs = None if self.siblings is None else np.zeros(self.siblings.shape)
        log_z = self._sums(marginals, pairs)
        self._check_feasible(log_z, on_infeasible)
        by_word = _expected(marginals, self.arcs)
        if pairs is not None and self.siblings is not None:
            by_word += _expected(pairs, self.siblings)
        before = np.concatenate([[0.0], np.cumsum(by_word)])
        expected = before[self._offsets[1:]] - before[self._offsets[:-1]]
        entropy = np.where(np.isneginf(log_z), 0.0, np.maximum(log_z - expected, 0.0))
        return self._per_sequence(entropy)

    def sample(
        self,
        n: int,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        *,
        on_infeasible: OnInfeasible = "raise",
    ) -> Int32:
        """Draw n trees of each sentence with exactly their probabilities.

        Projective trees are drawn from the inside sums, all trees by Wilson's random walks (1996).

        Parameters
        ----------
        n : int
        random_state : int, Generator, RandomState or None
            A seed gives the same trees for any number of threads.
        on_infeasible : {"raise", "none"}

        Returns
        -------
        ndarray of int32, shape (n, T)
            Heads; flat along the second axis for a batch.

        Examples
        --------
        >>> TreeScores([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).sample(3, random_state=0)
        array([[0, 1],
               [2, 0],
               [2, 0]], dtype=int32)
        """
        n = checks.count(n, "n")
        generator = random_generator(random_state)
        # One number for each sentence, so that its trees do not depend on the rest of the batch.
        seeds = (generator.random(len(self._offsets) - 1) * 2.0**53).astype(np.uint64)
        heads, log_z = _native.tree_sample(**self._native_batch(), draws=n, seeds=seeds)
        self._check_feasible(log_z, on_infeasible)
        return heads

    def is_feasible(self) -> Any:
        """Return whether any tree is allowed; an array of bool [N] for a batch.

        Examples
        --------
        >>> TreeScores([[-np.inf, 0.0]]).is_feasible()
        False
        """
        return self._per_sequence(~np.isneginf(self._sums()))

    def _check_feasible(self, log_z: Float64, on_infeasible: OnInfeasible) -> None:
        """Raise InfeasibleError for the first sentence whose log_z, or best score, is −inf."""
        checks.choice(on_infeasible, "on_infeasible", ("raise", "none"))
        if on_infeasible == "none" or len(log_z) == 0:
            return
        i = int(log_z.argmin())
        if log_z[i] > -math.inf:
            return
        T, lo = int(self.lengths[i]), int(self._offsets[i])
        arcs = self.arcs[lo : lo + T, : T + 1].copy()
        arcs[np.arange(T), np.arange(1, T + 1)] = -np.inf
        without = np.flatnonzero(np.isneginf(arcs).all(axis=1))
        t = int(without[0]) if len(without) else T
        kind = "projective tree" if self.projective else "tree"
        raise InfeasibleError(
            f"no head is allowed for word {t + 1}."
            if t < T
            else f"no {kind} is allowed{' with one root' if self.single_root else ''}.",
            sequence=i,
            position=t,
            where=self._place(lo + t) if t < T else (f"sequence {i}" if self.is_batch else None),
            hint="Relax the constraints, or pass on_infeasible='none'.",
        )

    # ---- given trees -----------------------------------------------------------------------

    def path_score(self, heads: Any) -> Any:
        """Return the score of a tree: float, or float64 [N]; −inf if it is not allowed.

        Parameters
        ----------
        heads : sequence of int, length T
            The head of each word; flat for a batch.

        Raises
        ------
        ShapeError
            If the length is wrong, or a head is not a word of its sentence or 0.

        Examples
        --------
        >>> trees = TreeScores([[0.0, 0.0, 1.0], [0.0, 5.0, 0.0]])
        >>> trees.path_score([2, 0]), trees.path_score([2, 1])  # a cycle
        (1.0, -inf)
        """
        return self._per_sequence(self._path_scores(heads))

    def _path_scores(self, heads: Any) -> Float64:
        array = as_array(heads, "heads")
        T = len(self.arcs)
        if array.shape != (T,) or array.dtype.kind not in "iu":
            found = f"{array.dtype} of shape {array.shape}"
            raise ShapeError(parameter="heads", expected=f"integers of shape ({T},)", found=found)
        most = np.repeat(self.lengths, self.lengths)
        wrong = np.flatnonzero((array < 0) | (array > most))
        if len(wrong):
            t = int(wrong[0])
            expected = f"a head from 0, the root, to {most[t]}"
            raise ShapeError(where=self._place(t), expected=expected, found=str(array[t]))
        allowed = self.are_trees(array)
        safe = np.where(np.repeat(allowed, self.lengths), array, 0).astype(np.int32)
        scores = _native.tree_score(**self._native_batch(), heads=safe)
        return np.where(allowed, scores, -np.inf)

    def are_trees(self, heads: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return for each sentence whether heads [T] form a tree of the kind allowed here [N]."""
        flat = np.asarray(heads)
        parts = [part.tolist() for part in self.split(flat)]
        return np.array([self._is_tree(part) for part in parts], dtype=np.bool_)

    def _is_tree(self, heads: list[int]) -> bool:
        return (
            not has_cycle(heads)
            and not (self.single_root and heads and heads.count(0) != 1)
            and not (self.projective and crossing_arcs(heads))
        )

    def log_prob(self, heads: Any) -> Any:
        """Return the log probability of a tree: its `path_score` less the log-partition.

        Examples
        --------
        >>> round(TreeScores(np.zeros((2, 3))).log_prob([0, 1]), 6)
        -0.693147
        """
        return self._per_sequence(_log_ratio(self._path_scores(heads), self._sums()))

    def log_prob_of(self, allowed: npt.ArrayLike | Mapping[Any, Any]) -> Any:
        """Return the log probability that every arc is one of those allowed; see `constrain`.

        Examples
        --------
        The probability that the first word depends on the second:

        >>> trees = TreeScores([[0.0, 0.0, 1.0], [0.0, 5.0, 0.0]])
        >>> round(math.exp(trees.log_prob_of({0: 2})), 3)
        0.018
        """
        return self._per_sequence(_log_ratio(self.constrain(allowed)._sums(), self._sums()))

    # ---- constraints and pictures ----------------------------------------------------------

    def constrain(
        self,
        allowed: npt.ArrayLike | Mapping[Any, Any] | None = None,
        *,
        forced: Mapping[Any, int] | None = None,
        forbidden: Mapping[Any, Any] | None = None,
    ) -> TreeScores:
        """Return trees with fewer arcs; this object does not change.

        It never raises because no tree is left: `is_feasible` reports that. In a batch a position
        is a pair (sentence, position), and a mask is flat.

        Parameters
        ----------
        allowed : array of bool, shape (T, H), or mapping of position to head or heads
            The arcs that stay allowed; all heads at positions missing from a mapping.
        forced : mapping of position to head
        forbidden : mapping of position to head or heads

        Examples
        --------
        >>> trees = TreeScores([[0.0, 0.0, 1.0], [0.0, 5.0, 0.0]])
        >>> trees.constrain(forbidden={1: 1}).viterbi().heads
        array([2, 0], dtype=int32)
        """
        mask = masks.allowed_labels(self, allowed, forced, forbidden)
        arcs = np.where(mask, self.arcs, self.dtype.type(-np.inf))
        return self._like(arcs, self.siblings)

    def tempered(self, temperature: float) -> TreeScores:
        """Return trees whose scores are divided by a temperature above 0.

        Examples
        --------
        >>> TreeScores([[0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]).tempered(2).viterbi().score
        1.0
        """
        factor = self.dtype.type(checks.number(temperature, "temperature", above=0))
        siblings = None if self.siblings is None else self.siblings / factor
        return self._like(self.arcs / factor, siblings)

    def draw(
        self,
        heads: npt.ArrayLike | None = None,
        *,
        tokens: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        format: Literal["text", "svg"] = "text",
    ) -> str:
        """Draw the best tree of a single sentence, or another, as arcs above the words.

        Parameters
        ----------
        heads : sequence of int, length T, optional
            The tree to draw; the best by default.
        tokens : sequence of str, length T, optional
            The words; by default their numbers.
        labels : sequence of str, length T, optional
            Names of the arcs.
        format : {"text", "svg"}
            In SVG an arc is as strong as it is probable.

        Examples
        --------
        >>> trees = TreeScores([[0, 0, 2, 1], [3, 0, 0, 1], [1, 0, 2, 0]])
        >>> print(trees.draw(tokens=["they", "can", "fish"]))
        they ◄─┐
        can  ──┤  root
        fish ◄─┘
        """
        from tagloom.trellis.tree_pictures import draw_tree

        return draw_tree(self, heads, tokens, labels, format)

    def _repr_svg_(self) -> str | None:
        if self.is_batch or len(self.arcs) > 200 or not self.is_feasible():
            return None
        return self.draw(format="svg")

    def _repr_html_(self) -> str | None:
        return self._repr_svg_()


def has_cycle(heads: Sequence[int]) -> bool:
    """Return whether some word is its own ancestor.

    Examples
    --------
    >>> has_cycle([2, 0]), has_cycle([2, 1])
    (False, True)
    """
    reaches_root = [False] * len(heads)
    for t in range(len(heads)):
        seen, u = set(), t
        while u >= 0 and not reaches_root[u]:
            if u in seen:
                return True
            seen.add(u)
            u = heads[u] - 1
        for u in seen:
            reaches_root[u] = True
    return False


def crossing_arcs(heads: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of words (from 1) whose arcs cross, the root being left of all words.

    Examples
    --------
    >>> crossing_arcs([3, 4, 0, 3])
    [(1, 2), (2, 3)]
    """
    arcs = [(min(h, d), max(h, d)) for d, h in enumerate(heads, 1)]
    return [
        (i, j)
        for j, (a, b) in enumerate(arcs, 1)
        for i, (c, d) in enumerate(arcs[: j - 1], 1)
        if a < c < b < d or c < a < d < b
    ]


def _expected(probs: Float64, scores: Floats) -> Float64:
    """Return Σ probability · score of each word [T]; what is impossible counts nothing."""
    used = probs > 0
    products = np.zeros(probs.shape)
    np.multiply(probs, scores, out=products, where=used)
    by_word: Float64 = products.sum(axis=tuple(range(1, products.ndim)))
    return by_word


def _log_ratio(part: Float64, whole: Float64) -> Float64:
    """Return log(part / whole) ≤ 0; −inf for a part of nothing, never NaN."""
    return np.minimum(part - np.where(np.isneginf(whole), 0.0, whole), 0.0)
