"""What the label functions take: sentences in, lists of str out, each checked on the way.

A sentence is a list of labels or any object with ``.labels``. If the collection has a ``.path`` and
the sentence a ``.line_of(token)``, as a Corpus and its sentences do, messages name file and line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tagloom import checks
from tagloom.errors import ShapeError
from tagloom.sequences.sentences import no_labels


def label_rows(
    sentences: Iterable[Any], parameter: str = "sentences", path: str | None = None
) -> Iterator[list[str]]:
    """Yield the labels of each sentence as a list of str.

    Raises
    ------
    ShapeError
        If something other than a collection of sentences is given.
    LabelError
        If a label is missing (None) or is a set of choices: spans need complete labels.
    """
    check_collection(sentences, parameter)
    path = getattr(sentences, "path", path)
    for number, sentence in enumerate(sentences):
        yield labels_of(sentence, number, path, parameter)


def check_collection(sentences: Any, parameter: str = "sentences") -> None:
    """Raise ShapeError unless it can be a collection of sentences."""
    is_text = isinstance(sentences, str | bytes)
    if is_text or not isinstance(sentences, Iterable):
        raise ShapeError(
            parameter=parameter,
            expected="a list of sentences, each a list of labels",
            found=checks.show_type(sentences),
            hint="To use a file, read it first: tagloom.read(path)." if is_text else None,
        )


def labels_of(
    sentence: Any, number: int = 0, path: str | None = None, parameter: str = "sentences"
) -> list[str]:
    """Return the labels of the sentence with that number; see :func:`label_rows`."""
    labels = getattr(sentence, "labels", sentence)
    if labels is None:
        raise no_labels(place(sentence, number, path=path))
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise ShapeError(
            where=f"{parameter}[{number}]",
            expected="a list of labels",
            found=checks.show_type(labels),
            hint="For one sentence, pass a list with that one sentence.",
        )
    row = labels if type(labels) is list else list(labels)
    if not set(map(type, row)) <= {str}:
        row = [checks.label(y, place(sentence, number, t, path)) for t, y in enumerate(row)]
    return row


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
