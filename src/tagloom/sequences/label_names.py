"""Names of labels that a file stores as numbers, as the data sets of Hugging Face do.

The names come as a list, as an object with ``names`` (a ``ClassLabel``), as a mapping of numbers
to names (``id2label``), or as a JSON file with one of these, such as ``dataset_info.json``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tagloom import checks
from tagloom.errors import FormatError

#: What ``label_names=`` takes: names, or a file or object that holds them.
LabelNames = Sequence[str] | Mapping[Any, Any] | str | os.PathLike[str]


def label_names_of(value: Any, key: str | None) -> list[str]:
    """Return the names of labels.

    Parameters
    ----------
    value : list of str, mapping, ClassLabel or path of a JSON file
    key : str or None
        Column of the labels, for a file that describes several columns.

    Raises
    ------
    FormatError
        If no names are found, or several columns have names and none is ``key``.

    Examples
    --------
    >>> label_names_of({"0": "O", "1": "B-PER"}, None)
    ['O', 'B-PER']
    >>> info = {"features": {"ner_tags": {"feature": {"names": ["O"], "_type": "ClassLabel"}}}}
    >>> label_names_of(info, "ner_tags")
    ['O']
    """
    where = None
    if isinstance(value, str | os.PathLike):
        where = os.fspath(value)
        value = _load(where)
    try:
        found = dict(_search(value, ""))
    except RecursionError:
        found = {}
    if len(found) > 1:
        found = {path: names for path, names in found.items() if key in path.split("/")}
    if len(found) != 1:
        raise FormatError(
            where=where,
            parameter="label_names",
            expected='a list of names, or an object with "names" or "id2label"'
            + (f" for {key!r}" if key else ""),
            found=checks.show(value),
        )
    (names,) = found.values()
    if len({*names}) < len(names):
        raise FormatError(
            where=where,
            parameter="label_names",
            expected="different names",
            found=checks.show(names),
        )
    return names


def _load(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except (ValueError, RecursionError) as error:
            raise FormatError(path=path, expected="JSON with names", found=str(error)) from None


def _search(value: Any, path: str) -> list[tuple[str, list[str]]]:
    """Find lists of names and the keys that lead to them."""
    names = _names(value)
    if names is not None:
        return [(path, names)]
    for attribute in ("names", "feature"):  # a ClassLabel, a Sequence of it
        inner = getattr(value, attribute, None)
        if inner is not None and not callable(inner):
            return _search(inner, path)
    if not isinstance(value, Mapping):
        return []
    return [hit for key, inner in value.items() for hit in _search(inner, f"{path}/{key}")]


def _names(value: Any) -> list[str] | None:
    if isinstance(value, list | tuple):
        is_names = value and all(isinstance(x, str) for x in value)
        return list(value) if is_names else None
    if isinstance(value, Mapping) and value:
        numbered = {checks.whole_number(str(key)): name for key, name in value.items()}
        if numbered.keys() == set(range(len(value))):
            return _names([numbered[i] for i in range(len(value))])
    return None
