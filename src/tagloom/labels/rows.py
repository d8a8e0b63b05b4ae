"""What the label functions take: sentences in, lists of str out, each checked on the way.

A sentence is a list of labels or any object with ``.labels``. If the collection has a ``.path`` and
the sentence a ``.line_of(token)``, as a Corpus and its sentences do, messages name file and line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tagloom.errors import LabelError, ShapeError


def label_rows(
    sentences: Iterable[Any], what: str = "sentences", path: str | None = None
) -> Iterator[list[str]]:
    """Yield the labels of each sentence as a list of str.

    Raises
    ------
    ShapeError
        If something other than a collection of sentences is given.
    LabelError
        If a label is missing (None) or is a set of choices: spans need complete labels.
    """
    check_collection(sentences, what)
    path = getattr(sentences, "path", path)
    for number, sentence in enumerate(sentences):
        yield labels_of(sentence, number, path, what)


def check_collection(sentences: Any, what: str = "sentences") -> None:
    """Raise ShapeError unless it can be a collection of sentences."""
    if isinstance(sentences, str | bytes):
        raise ShapeError(f"{what} must be a list of sentences; got the string {sentences!r:.60}.")
    if not isinstance(sentences, Iterable):
        raise ShapeError(
            f"{what} must be a list of sentences, each a list of labels; got {sentences!r:.60}."
        )


def labels_of(
    sentence: Any, number: int = 0, path: str | None = None, what: str = "sentences"
) -> list[str]:
    """Return the labels of the sentence with that number; see :func:`label_rows`."""
    labels = getattr(sentence, "labels", sentence)
    if labels is None:
        raise LabelError(
            f"{place(sentence, number, path=path)}: the sentence has no labels. Read the file with "
            "label=<the column that holds them>."
        )
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise ShapeError(
            f"{what}[{number}] is {labels!r}; expected a list of labels. For one sentence, "
            f"pass a list with that one sentence."
        )
    row = labels if type(labels) is list else list(labels)
    if not set(map(type, row)) <= {str}:
        row = [_checked(label, place(sentence, number, t, path)) for t, label in enumerate(row)]
    return row


def _checked(label: object, where: str) -> str:
    if isinstance(label, str):
        return str(label)
    if label is None or isinstance(label, set | frozenset):
        found = "unknown (None)" if label is None else f"one of {sorted(map(str, label))}"
        raise LabelError(
            f"{where}: the label is {found}; a complete label is needed here. Complete the "
            "labels of such sentences, or leave them out."
        )
    raise LabelError(f"{where}: the label is {label!r}; expected a str.")


def place(sentence: object, number: int, token: int | None = None, path: str | None = None) -> str:
    """Say where a token is: ``train.conll:1482: sentence 214, token 6``, as far as known."""
    line = line_of(sentence, token or 0)
    file = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
    return f"{file}sentence {number}" + ("" if token is None else f", token {token}")


def line_of(sentence: Any, token: int) -> int | None:
    """Return the line of a token, or of the last one if there are fewer; None if unknown."""
    if not hasattr(sentence, "line_of") or len(sentence.labels or ()) == 0:
        return None
    line: int | None = sentence.line_of(min(token, len(sentence.labels) - 1))
    return line


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: ``1 token``, ``2,000 tokens``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
