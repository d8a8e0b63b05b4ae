"""Recognise a column that holds the labels of training data, or a part of them.

A template that reads such a column copies the labels, and text to be tagged has none. Columns are
compared by their values, since labels may come from anywhere and columns may have any name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tagloom.schemes import split_label

_JOINS = "|"  # joins the columns of upos+feats
_NO_FEATS = "_"


def holds_labels(pairs: Iterable[tuple[Sequence[str], Sequence[Any]]]) -> bool:
    """Return whether a column holds the labels, or a part of them, in every sentence.

    Parameters
    ----------
    pairs : iterable of (list of str, list)
        The column and the labels of each sentence; labels other than str are unknown.

    Returns
    -------
    bool
        Whether all values equal their labels, the part of their labels before or after the first
        ``|``, or name the same types of spans in another scheme.

    Examples
    --------
    >>> holds_labels([(["NOUN", "VERB"], ["NOUN|Number=Sing", "VERB"])])
    True
    >>> holds_labels([(["B-PER", "I-PER"], ["B-PER", "E-PER"])])
    True
    >>> holds_labels([(["NN", "VB"], ["NOUN", "VERB"])])
    False
    """
    open_views = dict.fromkeys(_VIEWS, False)  # the views that still fit, and whether one is proven
    for column, labels in pairs:
        known = [(value, y) for value, y in zip(column, labels, strict=True) if isinstance(y, str)]
        for view in list(open_views):
            for value, label in known:
                fits = view(value, label)
                if fits is False:
                    del open_views[view]
                    break
                open_views[view] |= bool(fits)
        if not open_views:
            return False
    return any(open_views.values())


# A view compares a value with a label. True: equal. False: different. None: equal, but so would be
# a column that has nothing to do with the labels.


def _whole(value: str, label: str) -> bool | None:
    return value == label


def _before(value: str, label: str) -> bool | None:
    head, bar, _ = label.partition(_JOINS)
    return value == head and (bool(bar) or None)


def _after(value: str, label: str) -> bool | None:
    _, bar, tail = label.partition(_JOINS)
    return value == (tail if bar else _NO_FEATS) and (bool(bar) or None)


def _span_type(value: str, label: str) -> bool | None:
    theirs, ours = split_label(value), split_label(label)
    if theirs is None or ours is None:
        return value == label and None
    return theirs[1] == ours[1] and (bool(ours[1]) or None)


_VIEWS: tuple[Callable[[str, str], bool | None], ...] = (_whole, _before, _after, _span_type)
