"""The automata behind the constructors of `StateSpace`, as functions from integers to arrays.

Each returns the `Fields` of a state space: label histories (order k), transitions between labels,
counting, and the product of two automata. Arguments have been checked by the caller. Transitions
may come in any order and integers in any type: `StateSpace` sorts and converts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tagloom.trellis.states import StateSpace

Array = npt.NDArray[Any]
Rows = tuple[Array, Array]  # ragged rows: indptr [n + 1] and the values of all rows
Names = tuple[str, ...] | None


@dataclass(frozen=True, eq=False, repr=False)
class Fields:
    """The data of a state space with S states, M transitions and K weights; see `StateSpace`."""

    n_labels: int
    labels: Names
    state_labels: Array  # [S]
    src: Array  # [M]
    dst: Array  # [M]
    initial: Array  # [S]
    final: Array  # [S]
    tie_indptr: Array  # [M + 1]
    tie_ids: Array
    start_tie_indptr: Array  # [S + 1]
    start_tie_ids: Array
    weight_groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ngrams: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    state_names: tuple[str, ...] = field(default_factory=tuple)
    history: int | None = None
    origin: str = "from_edges"


def of_labels(
    Y: int,
    names: Names,
    allowed: Array,
    initial: npt.ArrayLike = True,
    final: npt.ArrayLike = True,
    groups: Mapping[str, tuple[int, ...]] | None = None,
    ngrams: Mapping[str, tuple[tuple[int, ...], ...]] | None = None,
) -> Fields:
    """Return the automaton whose state y is label y, with the transitions ``allowed`` [Y, Y]."""
    src, dst = np.nonzero(allowed)
    return Fields(
        n_labels=Y,
        labels=names,
        state_labels=np.arange(Y),
        src=src,
        dst=dst,
        initial=np.broadcast_to(np.asarray(initial, dtype=np.bool_), Y),
        final=np.broadcast_to(np.asarray(final, dtype=np.bool_), Y),
        tie_indptr=np.zeros(len(src) + 1, dtype=np.int64),
        tie_ids=np.zeros(0, dtype=np.int32),
        start_tie_indptr=np.zeros(Y + 1, dtype=np.int64),
        start_tie_ids=np.zeros(0, dtype=np.int32),
        weight_groups=groups or {},
        ngrams=ngrams or {},
        state_names=names or (),
    )


# ---- label histories ------------------------------------------------------------------------
#
# The n-grams of each length n are a level. An n-gram is (its first n-1 labels, its last label),
# so level n is an array of keys  last * len(level n-1) + number of the first n-1 labels,  sorted:
# this numbers the n-grams by last label first, needs no power of Y, and never overflows.


def all_grams(Y: int, n_max: int) -> list[Array]:
    """Number all label n-grams, for n = 1 to n_max."""
    return [np.arange(Y**n) for n in range(1, n_max + 1)]


def seen_grams(flat: Array, starts: Array, Y: int, n_max: int) -> list[Array]:
    """Number the label n-grams that occur in paths; ``starts[i]`` is where i's path begins."""
    levels = [np.arange(Y)]
    before = np.arange(len(flat)) - starts  # how many labels stand before this one
    gram = flat  # number of the n-gram that ends at each position
    for n in range(2, n_max + 1):
        ends = np.flatnonzero(before >= n - 1)
        keys = flat[ends] * len(levels[-1]) + gram[ends - 1]
        level, numbers = np.unique(keys, return_inverse=True)
        levels.append(level)
        gram = np.full(len(flat), -1)
        gram[ends] = numbers
    return levels


def list_grams(levels: list[Array]) -> list[Array]:
    """List the labels of the n-grams of each level [m, n], in the order of their labels."""
    grams = np.arange(len(levels[0]))[:, None]  # in the order of their numbers
    lists = [grams]
    for level in levels[1:]:
        last, before = np.divmod(level, len(grams))
        grams = np.column_stack((grams[before], last))
        lists.append(grams[np.lexsort(grams.T[::-1])])
    return lists


def number_grams(Y: int, lists: list[Array]) -> list[Array]:
    """Number given n-grams [m, n] for n = 2, 3, ...; the inverse of `list_grams`.

    Raises
    ------
    ValueError
        If a label does not exist, an n-gram occurs twice, or lacks its first or last n−1 labels.
    """
    levels = [np.arange(Y)]

    def find(grams: Array) -> Array:
        numbers = grams[:, 0]
        for n in range(1, grams.shape[1]):
            keys = grams[:, n] * len(levels[n - 1]) + numbers
            if len(keys) and not np.isin(keys, levels[n]).all():
                raise ValueError("a label n-gram lacks a part of it")
            numbers = np.searchsorted(levels[n], keys)
        return numbers

    for grams in lists:
        if grams.size and not 0 <= int(grams.min()) <= int(grams.max()) < Y:
            raise ValueError("a label of an n-gram does not exist")
        find(grams[:, 1:])
        keys = np.unique(grams[:, -1] * len(levels[-1]) + find(grams[:, :-1]))
        if len(keys) < len(grams):
            raise ValueError("a label n-gram occurs twice")
        levels.append(keys)
    return levels


def order(Y: int, names: Names, k: int, levels: list[Array]) -> Fields:
    """Return the automaton of histories of 1 to k labels; ``levels`` number the kept n-grams.

    A transition reads label y after history h. Its target is the longest kept suffix of h·y of at
    most k labels, and its weights are the kept n-grams of 3 and more among the suffixes of h·y.
    Both follow from those of h without its oldest label, so levels are built from the shortest:

        target[h, y] = h·y                    if that is kept and has at most k labels
                       target[suffix(h), y]   otherwise
        ties[h, y]   = ties[suffix(h), y]  and the weight of h·y, if that is kept

    Groups of weights and `history` are those of the space that keeps all n-grams.
    """
    label_names = names or tuple(map(str, range(Y)))
    grams = np.arange(Y)[:, None]  # [U, n] the labels of each history of this level
    rank = np.arange(Y)  # [U] place of each history in order of its labels from the oldest
    suffix = np.zeros(Y, dtype=np.int64)  # [U] the history without its oldest label
    # Tables of the level below; at first of the empty history.
    child = target = np.arange(Y)[None]  # [U, Y] number of h·y, and state after it
    tie = np.full((1, Y, k - 1), -1)  # [U, Y, k-1] weights, -1 for none

    state_names: list[str] = []
    last_labels, targets, ties = [], [], []
    n_states = n_weights = 0
    for n in range(1, k + 1):
        U = len(grams)
        last, h = np.divmod(levels[n], U)  # the (n+1)-grams h·y that are kept
        by_labels = np.argsort(rank[h] * Y + last)
        rank = np.empty_like(by_labels)
        rank[by_labels] = np.arange(len(by_labels))
        n_states += U
        target, tie = target[suffix], tie[suffix]
        if n < k:
            target[h, last] = n_states + np.arange(len(h))
        if n > 1:
            tie[h, last, n - 2] = n_weights + rank
            n_weights += len(h)
        state_names += ["·".join([label_names[y] for y in gram]) for gram in grams.tolist()]
        last_labels.append(grams[:, -1])
        targets.append(target)
        ties.append(tie)

        grams = np.column_stack((grams[h], last))
        suffix = child[suffix[h], last]
        child = np.full((U, Y), -1)
        child[h, last] = np.arange(len(h))

    tied = np.concatenate(ties).reshape(n_states * Y, k - 1)
    return Fields(
        n_labels=Y,
        labels=names,
        state_labels=np.concatenate(last_labels),
        src=np.repeat(np.arange(n_states), Y),
        dst=np.concatenate(targets).ravel(),
        initial=np.arange(n_states) < Y,
        final=np.ones(n_states, dtype=np.bool_),
        tie_indptr=np.concatenate(([0], np.cumsum((tied >= 0).sum(axis=1)))),
        tie_ids=tied[tied >= 0],
        start_tie_indptr=np.zeros(n_states + 1, dtype=np.int64),
        start_tie_ids=np.zeros(0, dtype=np.int32),
        weight_groups={f"ngram{n}": (Y,) * n for n in range(3, k + 2)},
        state_names=tuple(state_names),
        history=k,
    )


# ---- counting -------------------------------------------------------------------------------


def counting(Y: int, names: Names, x: int, n: int, group: str, *, resets: bool) -> Fields:
    """Return the automaton of states (y, c): c labels x so far, or, if it resets, in a row."""
    states = [
        (y, c)
        for y in range(Y)
        for c in range(n + 1)
        if (c > 0 if y == x else c == 0 or not resets)
    ]
    number = np.full((Y, n + 1), -1)  # [Y, n+1] of state (y, c)
    for s, (y, c) in enumerate(states):
        number[y, c] = s
    S = len(states)
    src, y_next = np.divmod(np.arange(S * Y), Y)
    c_src = np.array([c for _, c in states])[src]
    c_dst = np.where(y_next == x, np.minimum(c_src + 1, n), 0 if resets else c_src)
    is_first = np.array([c == (y == x) for y, c in states])
    label_names = names or tuple(map(str, range(Y)))
    mark = "×" if resets else "#"
    return Fields(
        n_labels=Y,
        labels=names,
        state_labels=np.array([y for y, _ in states]),
        src=src,
        dst=number[y_next, c_dst],
        initial=is_first,
        final=np.ones(S, dtype=np.bool_),
        tie_indptr=np.arange(S * Y + 1),
        tie_ids=c_src * Y + y_next,
        start_tie_indptr=np.concatenate(([0], np.cumsum(is_first))),
        start_tie_ids=np.arange(Y),
        weight_groups={group: (n + 1, Y)},
        state_names=tuple(
            label_names[y] + (f"{mark}{c}" if y == x or not resets else "") for y, c in states
        ),
    )


# ---- the product of two automata ------------------------------------------------------------


def product(a: StateSpace, b: StateSpace, names: Names) -> Fields:
    """Return the pairs of states that a common path from start to end visits."""
    keys = _reachable_pairs(a, b)
    state_a, state_b = np.divmod(keys, b.n_states)
    next_a, next_b = a.next_state[state_a], b.next_state[state_b]  # [S, Y]
    src, y = np.nonzero((next_a >= 0) & (next_b >= 0))
    dst = np.searchsorted(keys, next_a[src, y].astype(np.int64) * b.n_states + next_b[src, y])
    final = a.final[state_a] & b.final[state_b]

    keep = _reaching(final, src, dst)
    kept_move = keep[src] & keep[dst]
    renumber = np.cumsum(keep) - 1
    src, dst, y = renumber[src[kept_move]], renumber[dst[kept_move]], y[kept_move]
    state_a, state_b, final = state_a[keep], state_b[keep], final[keep]

    groups, ngrams = _joined_groups(a, b)
    if not keep.any():  # no common path: the labels as states, none of them initial
        nothing = np.zeros((a.n_labels, a.n_labels), dtype=np.bool_)
        return of_labels(a.n_labels, names, nothing, False, False, groups, ngrams)

    transition_a = a.transition_table[state_a[src], y]
    transition_b = b.transition_table[state_b[src], y]
    after_a = np.int32(a.n_weights)  # where the weights of b begin
    ties = join_rows(
        take_rows(a.tie_indptr, a.tie_ids, transition_a),
        take_rows(b.tie_indptr, b.tie_ids + after_a, transition_b),
    )
    start_ties = join_rows(
        take_rows(a.start_tie_indptr, a.start_tie_ids, state_a),
        take_rows(b.start_tie_indptr, b.start_tie_ids + after_a, state_b),
    )
    return Fields(
        n_labels=a.n_labels,
        labels=names,
        state_labels=a.state_labels[state_a],
        src=src,
        dst=dst,
        initial=a.initial[state_a] & b.initial[state_b],
        final=final,
        tie_indptr=ties[0],
        tie_ids=ties[1],
        start_tie_indptr=start_ties[0],
        start_tie_ids=start_ties[1],
        weight_groups=groups,
        ngrams=ngrams,
        state_names=_pair_names(a, b, state_a, state_b),
    )


def _joined_groups(a: StateSpace, b: StateSpace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the weight groups and n-grams of both; a name that both have gets a number."""
    groups, ngrams = dict(a.weight_groups), dict(a.ngrams)
    for name, shape in b.weight_groups.items():
        unique, i = name, 2
        while unique in groups:
            unique, i = f"{name}_{i}", i + 1
        groups[unique] = shape
        if name in b.ngrams:
            ngrams[unique] = b.ngrams[name]
    return groups, ngrams


def _pair_names(a: StateSpace, b: StateSpace, state_a: Array, state_b: Array) -> tuple[str, ...]:
    """Name pairs of states; a state that is only a label adds nothing to the name."""
    names_a = [a.state_names[s] for s in state_a.tolist()]
    names_b = [b.state_names[s] for s in state_b.tolist()]
    if a.kind == "labels":
        return tuple(names_b)
    if b.kind == "labels":
        return tuple(names_a)
    return tuple(f"{one} & {two}" for one, two in zip(names_a, names_b, strict=True))


def _reachable_pairs(a: StateSpace, b: StateSpace) -> Array:
    """Return the pairs (s_a, s_b), as sorted numbers s_a * S_b + s_b, that a common path visits."""
    first_a, first_b = a.first_state.astype(np.int64), b.first_state
    new = np.unique((first_a * b.n_states + first_b)[(first_a >= 0) & (first_b >= 0)])
    pairs = new
    while len(new):
        state_a, state_b = np.divmod(new, b.n_states)
        next_a, next_b = a.next_state[state_a].astype(np.int64), b.next_state[state_b]
        reached = np.unique((next_a * b.n_states + next_b)[(next_a >= 0) & (next_b >= 0)])
        new = np.setdiff1d(reached, pairs, assume_unique=True)
        pairs = np.union1d(pairs, new)
    return pairs


def _reaching(final: Array, src: Array, dst: Array) -> Array:
    """Return which states can still reach a final one."""
    reaches = final.copy()
    while True:
        new = src[reaches[dst] & ~reaches[src]]
        if len(new) == 0:
            return reaches
        reaches[new] = True


# ---- ragged rows (indptr, ids) --------------------------------------------------------------


def take_rows(indptr: Array, ids: Array, rows: Array) -> Rows:
    """Return the given rows, in that order."""
    starts, lengths = indptr[rows], indptr[rows + 1] - indptr[rows]
    taken = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(lengths, out=taken[1:])
    return taken, ids[np.arange(taken[-1]) + np.repeat(starts - taken[:-1], lengths)]


def join_rows(one: Rows, two: Rows) -> Rows:
    """Append to each row of ``one`` the same row of ``two``."""
    row = np.concatenate([np.repeat(np.arange(len(p) - 1), np.diff(p)) for p, _ in (one, two)])
    return one[0] + two[0], np.concatenate((one[1], two[1]))[np.argsort(row, kind="stable")]
