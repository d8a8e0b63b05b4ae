"""Attributes of template-based tools (CRF++, Wapiti): from their names to rows of weights.

CRF++ and Wapiti look attributes up by their whole name, ``U03:the/cat``. Our templates look them up
by parts, literals and values: ``U03:``, ``the``, ``/``, ``cat``. A name that can be split in
several ways, such as ``U03:1/2/3``, gets an entry for each of them, all with the same weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.features.expressions import Template
from tagloom.features.templates import Templates
from tagloom.interop.sources import damaged
from tagloom.records import replace
from tagloom.scores import LinearScores, Rows
from tagloom.scores.linear import Names

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

# Most entries of one name, and of all names on average: adjacent values can be split anywhere.
_MOST_SPLITS = 4096
_MOST_ON_AVERAGE = 16


@dataclass(frozen=True)
class Attributes:
    """The attributes of a foreign model and their places in its weight vector.

    Attributes
    ----------
    names : list of str
    is_edge : ndarray of bool, shape (A,)
        Whether an attribute has weights for pairs of labels, at start + y_prev·Y + y, rather than
        for single labels, at start + y.
    starts : ndarray of int64, shape (A,)
        Index of the first weight, ascending.
    """

    names: Sequence[str]
    is_edge: npt.NDArray[np.bool_]
    starts: Int64


def make_scores(
    labels: tuple[str, ...],
    templates: Templates,
    constants: set[str],
    attributes: Attributes,
    weights: tuple[Int64, Float64],
    where: str,
) -> LinearScores:
    """Make the scores of a model of templates.

    Parameters
    ----------
    labels : tuple of str
    templates : CRFppTemplates or WapitiTemplates
    constants : set of str
        Names of edge templates without values, such as ``B``: their weights are transitions.
    attributes : Attributes
    weights : tuple of ndarray
        Ascending indexes into the weight vector [W], and the weights there [W].
    where : str
        Name of the file in errors.

    Raises
    ------
    ModelFileError
        If the parts do not fit together.
    """
    Y, edge = len(labels), attributes.is_edge
    ptr, cols, values = _group(attributes, weights, Y, where)
    is_constant = edge & np.array([name in constants for name in attributes.names], bool)
    trans = np.zeros(Y * Y)  # [y_prev·Y + y]
    for a in np.flatnonzero(is_constant).tolist():
        row = slice(int(ptr[a]), int(ptr[a + 1]))
        trans[cols[row]] += values[row]
    grouped = ptr, cols, values
    node_records = [record for record in templates.records if not record.edge]
    index, rows, names = _look_up(node_records, attributes.names, ~edge, grouped, where)
    scores = LinearScores(
        labels=labels,
        extractor=templates,
        index=index,
        rows=rows,
        names=names,
        trans=trans.reshape(Y, Y),
        start=np.zeros(Y),
        stop=np.zeros(Y),
    )
    chosen = edge & ~is_constant
    if chosen.any():
        edge_records = [record for record in templates.records if record.edge]
        edge_index, edge_rows, edge_names = _look_up(
            edge_records, attributes.names, chosen, grouped, where, Y * Y
        )
        scores = replace(scores, edge_index=edge_index, edge_rows=edge_rows, edge_names=edge_names)
    return scores


def _group(
    attributes: Attributes, weights: tuple[Int64, Float64], Y: int, where: str
) -> tuple[Int64, Int64, Float64]:
    """Return the weights by attribute: the first of each [A + 1], columns [W], values [W]."""
    positions, values = weights
    if not (np.abs(values) <= np.finfo(np.float32).max).all():
        raise damaged(where, "weights that are finite float32", "one that is not")
    widths = np.where(attributes.is_edge, Y * Y, Y)
    if (np.diff(attributes.starts) < widths[:-1]).any():
        raise damaged(where, f"weights for {Y} labels of each attribute", "attributes that overlap")
    owners = np.searchsorted(attributes.starts, positions, side="right") - 1
    if len(owners) and (owners[0] < 0 or (np.diff(positions) <= 0).any()):
        raise damaged(where, "each weight once, of some attribute", "another")
    cols = positions - attributes.starts[owners]
    if (cols >= widths[owners]).any():
        raise damaged(where, "weights of attributes", "a weight that belongs to none")
    ptr = np.searchsorted(owners, np.arange(len(attributes.names) + 1)).astype(np.int64)
    return ptr, cols, values


def _look_up(
    records: Sequence[Template],
    names: Sequence[str],
    chosen: npt.NDArray[np.bool_],
    grouped: tuple[Int64, Int64, Float64],
    where: str,
    K: int = 1 << 16,
) -> tuple[_native.Index, Rows, Names]:
    """Number the chosen names by their parts, with their rows of weights over K outputs."""
    ptr, cols, values = grouped
    heads: dict[str, list[Template]] = {}
    for record in records:
        heads.setdefault(record.literals[0], []).append(record)
    lengths = sorted({len(head) for head in heads})
    index = _native.Index()
    owners: list[int] = []  # the name of each entry
    numbers = np.flatnonzero(chosen & (np.diff(ptr) > 0)).tolist()
    for a in numbers:
        name, fits = names[a], False
        for length in lengths:
            for record in heads.get(name[:length], ()):
                for parts in _splits(name[length:], record.literals, where):
                    fits = True
                    if index.add([record.literals[0], *parts]) == len(owners):
                        owners.append(a)
        if not fits:
            raise damaged(where, "attributes of the templates", checks.show(name))
        if len(owners) > _MOST_SPLITS + _MOST_ON_AVERAGE * len(numbers):
            raise _ambiguous(where, name)
    owned = np.array(owners, np.int64)
    counts = np.diff(ptr)[owned]
    new_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    gather = np.repeat(ptr[owned] - new_ptr[:-1], counts) + np.arange(new_ptr[-1])
    kind: npt.DTypeLike = np.uint16 if K <= 1 << 16 else np.uint32
    rows = Rows(new_ptr, cols[gather].astype(kind), values[gather].astype(np.float32))
    return index, rows, Names(*index.names())


def _splits(text: str, literals: tuple[str, ...], where: str) -> Iterator[list[str]]:
    """List the ways to read text as value, literal, value, literal, …; literals[0] is removed."""
    if len(literals) == 1:
        if not text:
            yield []
        return
    if len(literals) == 2:  # one value: one way
        if text.endswith(literals[1]):
            yield [text.removesuffix(literals[1]), literals[1]]
        return
    for n, parts in enumerate(_all_splits(text, literals)):
        if n == _MOST_SPLITS:
            raise _ambiguous(where, text)
        yield parts


def _all_splits(text: str, literals: tuple[str, ...]) -> Iterator[list[str]]:
    literal = literals[1]
    if len(literals) == 2:
        if text.endswith(literal):
            yield [text.removesuffix(literal), literal]
        return
    at = text.find(literal)
    while 0 <= at <= len(text):
        for rest in _all_splits(text[at + len(literal) :], literals[1:]):
            yield [text[:at], literal, *rest]
        at = text.find(literal, at + 1)


def _ambiguous(where: str, name: str) -> Any:
    return damaged(
        where,
        "attributes whose values are separated by other text",
        f"{checks.show(name)}, which can be split in too many ways",
        hint="Put a separator between the values of each template and train again.",
    )
