"""Checks of state spaces: the arguments of their constructors, and the contents of files.

The constructors of `StateSpace` check their arguments with these functions. The automata that they
build from checked arguments are right by construction and not checked again; arrays that come from
outside, given to ``StateSpace(...)`` itself or read from a file, go through `checked_fields`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.checks import show
from tagloom.errors import LabelError, ShapeError
from tagloom.trellis.inputs import as_array, as_list, check_distinct, label_id

if TYPE_CHECKING:
    from tagloom.trellis.automata import Fields

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
Label = int | str
Labels = int | Sequence[str]


# ---- labels -------------------------------------------------------------------------------------


def check_labels(labels: Any) -> tuple[int, tuple[str, ...] | None]:
    """Return the number of labels, and their names if they have names."""
    if isinstance(labels, str | bytes):
        expected = "a list of str, or the number of labels"
        raise LabelError(parameter="labels", expected=expected, found=show(labels))
    if not isinstance(labels, Iterable):
        return checks.count(labels, "labels", least=1, error=ShapeError), None
    names = tuple(labels)
    if not names:
        raise LabelError(parameter="labels", expected="at least one label", found="none")
    for y, name in enumerate(names):
        if not isinstance(name, str):
            raise LabelError(
                where=f"labels[{y}]",
                expected="a str",
                found=show(name),
                hint="If the labels have no names, pass their number.",
            )
    check_distinct(names)
    return len(names), tuple(map(str, names))


def check_paths(
    paths: Any, Y: int, names: tuple[str, ...] | None, parameter: str
) -> tuple[Int64, Int64]:
    """Return the label ids of all paths in a row, and for each where its path begins."""
    if not isinstance(paths, Iterable):
        raise LabelError(parameter=parameter, expected="a list of label paths", found=show(paths))
    ids: dict[Any, int] = {y: y for y in range(Y)}
    ids |= {name: y for y, name in enumerate(names or ())}
    flat: list[int] = []
    begins: list[int] = [0]
    for i, path in enumerate(paths):
        labels = as_list(path, ordered=True)
        if labels is None:
            where = f"{parameter}[{i}]"
            raise LabelError(where=where, expected="a list of labels", found=show(path))
        try:
            flat.extend([ids[label] for label in labels])
        except (KeyError, TypeError):
            for t, label in enumerate(labels):
                label_id(label, Y, names, f"{parameter}[{i}][{t}]")
            raise
        begins.append(len(flat))
    begin_of = np.repeat(np.array(begins[:-1], dtype=np.int64), np.diff(begins))
    return np.array(flat, dtype=np.int64), begin_of


def common_labels(
    one: tuple[int, tuple[str, ...] | None], two: tuple[int, tuple[str, ...] | None]
) -> tuple[str, ...] | None:
    """Return the label names of two spaces, (n_labels, labels) each, that are to be intersected."""
    (Y, names), (Y_other, others) = one, two
    if Y_other != Y:
        raise LabelError(
            parameter="other", expected=f"a space over the same {Y} labels", found=str(Y_other)
        )
    if names is None or others is None:
        return names or others
    for y, (name, other) in enumerate(zip(names, others, strict=True)):
        if name != other:
            raise LabelError(
                where=f"label {y} of other",
                expected=f"{name!r}, as in this space",
                found=repr(other),
                hint="Intersect spaces over the same labels in the same order.",
            )
    return names


# ---- states and transitions
# ---------------------------------------------------------------------------


def check_ids(values: Any, name: str, n: int, kind: str, n_dims: int = 1) -> Int32:
    """Return ids of states, labels or weights as int32, each from 0 to n - 1."""
    ids = as_array(values, name)
    if ids.ndim != n_dims or (ids.size and ids.dtype.kind not in "iu"):
        expected = f"an array of integers with {n_dims} dimension{'s' if n_dims > 1 else ''}"
        found = f"{ids.dtype} of shape {ids.shape}"
        raise ShapeError(parameter=name, expected=expected, found=found)
    outside = (ids < 0) | (ids >= n) if ids.size else np.zeros(0, dtype=np.bool_)
    if outside.any():
        i = int(np.argwhere(outside)[0][0])
        expected = f"{kind} from 0 to {n - 1}"
        raise ShapeError(where=f"{name}[{i}]", expected=expected, found=str(ids[i].tolist()))
    return ids.astype(np.int32)


def check_edges(edges: Any, n_states: int) -> Int32:
    """Return transitions as an array of (from state, to state) [M, 2]."""
    pairs = as_array(edges if isinstance(edges, np.ndarray) else as_list(edges), "edges")
    if pairs.size == 0:
        return np.zeros((0, 2), dtype=np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        expected = "a list of pairs (from state, to state)"
        raise ShapeError(parameter="edges", expected=expected, found=f"shape {pairs.shape}")
    return check_ids(pairs, "edges", n_states, "states", n_dims=2)


def as_flags(values: Any, name: str, S: int) -> Bool:
    """Return one bool per state, from bools or from state numbers."""
    array = as_array(values, name)
    if array.dtype != np.bool_:
        flags = np.zeros(S, dtype=np.bool_)
        flags[check_ids(array, name, S, "states")] = True
        return flags
    if array.shape != (S,):
        expected = f"state numbers, or one bool for each of {S} states"
        raise ShapeError(parameter=name, expected=expected, found=f"shape {array.shape}")
    return array.copy()


def as_rows(name: str, rows: Any, n: int, owner: str, n_weights: int) -> tuple[Int64, Int32]:
    """Return (indptr [n + 1], ids) of one list of weight ids per edge or state."""
    if rows is None:
        return np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int32)
    if len(rows) != n:
        expected = f"{checks.plural(n, 'list')} of weight ids, one per {owner}"
        raise ShapeError(parameter=name, expected=expected, found=str(len(rows)))
    for i, row in enumerate(rows):
        check_ids(list(row), f"{name}[{i}]", n_weights, "weights")
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=indptr[1:])
    return indptr, np.array(list(chain.from_iterable(rows)), dtype=np.int32)


def check_deterministic(fields: Fields, names: tuple[str, ...]) -> None:
    """Raise ShapeError if two transitions, or two starts, read one label from one state."""
    labels = fields.labels or tuple(map(str, range(fields.n_labels)))
    states, src, dst = fields.state_labels, fields.src, fields.dst
    starts = np.flatnonzero(fields.initial)
    twins = _first_twins(states[starts])
    if twins is not None:
        s, r = starts[list(twins)].tolist()
        raise ShapeError(
            parameter="initial",
            expected="at most one state per label",
            found=f"states {s} and {r}, both with label {labels[states[s]]!r}",
            hint="Merge them.",
        )
    twins = _first_twins(src.astype(np.int64) * (int(states.max()) + 1) + states[dst])
    if twins is not None:
        m, n = twins
        raise ShapeError(
            where=f"edges {m} and {n}",
            expected="at most one transition per label from each state",
            found=f"{src[m]} -> {dst[m]} and {src[n]} -> {dst[n]}, which both leave state "
            f"{names[src[m]]!r} with label {labels[states[dst[m]]]!r}",
            hint="Merge the states that they lead to, or make the automaton deterministic first.",
        )


def _first_twins(keys: npt.NDArray[Any]) -> tuple[int, int] | None:
    """Return the places of two equal keys, the earliest pair, or None."""
    by_key = np.argsort(keys, kind="stable")
    equal = np.flatnonzero(keys[by_key[1:]] == keys[by_key[:-1]])
    if len(equal) == 0:
        return None
    second = int(by_key[equal + 1].min())
    return int(np.flatnonzero(keys == keys[second])[0]), second


# ---- whole spaces -------------------------------------------------------------------------------


def checked_fields(space: Fields) -> dict[str, Any]:
    """Return the fields of a space whose arrays may be anything, checked and in their types."""
    Y, labels = check_labels(space.n_labels if space.labels is None else space.labels)
    if space.n_labels != Y:
        expected = f"{Y}, the number of label names"
        raise ShapeError(parameter="n_labels", expected=expected, found=show(space.n_labels))
    S = len(space.state_labels)
    if S == 0:
        raise ShapeError(parameter="state_labels", expected="at least one state", found="none")
    src, dst = check_ids(space.src, "src", S, "states"), check_ids(space.dst, "dst", S, "states")
    if len(src) != len(dst):
        expected = f"of length {len(src)}, as src"
        raise ShapeError(parameter="dst", expected=expected, found=str(len(dst)))
    groups = {
        str(name): tuple(
            checks.count(n, f"weight_groups[{name!r}]", error=ShapeError) for n in shape
        )
        for name, shape in space.weight_groups.items()
    }
    K = sum(math.prod(shape) for shape in groups.values())
    tie_indptr, tie_ids = _checked_rows("tie", space.tie_indptr, space.tie_ids, len(src), K)
    start_indptr, start_ids = _checked_rows(
        "start_tie", space.start_tie_indptr, space.start_tie_ids, S, K
    )
    if space.state_names and len(space.state_names) != S:
        expected = f"{checks.plural(S, 'name')}, one per state"
        found = str(len(space.state_names))
        raise ShapeError(parameter="state_names", expected=expected, found=found)
    return {
        "labels": labels,
        "state_labels": check_ids(space.state_labels, "state_labels", Y, "labels"),
        "src": src,
        "dst": dst,
        "initial": as_flags(space.initial, "initial", S),
        "final": as_flags(space.final, "final", S),
        "tie_indptr": tie_indptr,
        "tie_ids": tie_ids,
        "start_tie_indptr": start_indptr,
        "start_tie_ids": start_ids,
        "weight_groups": groups,
    }


def _checked_rows(
    name: str, indptr: npt.NDArray[Any], ids: npt.NDArray[Any], n: int, n_weights: int
) -> tuple[Int64, Int32]:
    indptr, ids = np.asarray(indptr), np.asarray(ids)
    if (
        indptr.shape != (n + 1,)
        or indptr.dtype.kind not in "iu"
        or indptr[0] != 0
        or indptr[-1] != len(ids)
        or (np.diff(indptr) < 0).any()
    ):
        raise ShapeError(
            parameter=f"{name}_indptr",
            expected=f"{n + 1} integers that rise from 0 to len({name}_ids) = {len(ids)}",
            found=show(indptr.tolist()),
        )
    return indptr.astype(np.int64), check_ids(ids, f"{name}_ids", n_weights, "weights")


def check_groups(
    groups: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, npt.NDArray[Any]]:
    """Return groups of weights as arrays, each of its shape."""
    arrays = {name: as_array(values, f"groups[{name!r}]") for name, values in groups.items()}
    for name, array in arrays.items():
        if name not in shapes:
            expected = f"groups of {list(shapes)}"
            raise ShapeError(parameter="groups", expected=expected, found=repr(name))
        if array.shape != shapes[name]:
            expected = f"of shape {shapes[name]}"
            raise ShapeError(
                parameter=f"groups[{name!r}]", expected=expected, found=str(array.shape)
            )
    return arrays
