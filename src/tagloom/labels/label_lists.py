"""Check the arguments of the label functions: turn sentences into lists of str.

A sentence is a list of labels or any object with ``.labels``. If the collection has a ``.path`` and
the sentence a ``.line_of(token)``, as a Corpus and its sentences do, messages name file and line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tagloom import checks
from tagloom.errors import ShapeError
from tagloom.sequences.sentences import no_labels


def check_labels(
    sentences: Iterable[Any], parameter: str = "sentences", path: str | None = None
) -> Iterator[list[str]]:
    """Yield the labels of each sentence as a list of str.

    Raises
    ------
    ShapeError
        If the argument is not a collection of sentences.
    LabelError
        If a label is open (None or a set): spans need complete labels.
    """
    check_collection(sentences, parameter)
    path = getattr(sentences, "path", path)
    for number, sentence in enumerate(sentences):
        yield labels_of(sentence, number, path, parameter)


def check_collection(sentences: Any, parameter: str = "sentences") -> None:
    """Raise ShapeError if the argument is a str or not iterable."""
    is_text = isinstance(sentences, str | bytes)
    if is_text or not isinstance(sentences, Iterable):
        raise ShapeError(
            parameter=parameter,
            expected="a list of sentences, each a list of labels",
            found=checks.show_type(sentences),
            hint="Read a file first: tagloom.read(path)." if is_text else None,
        )


def labels_of(
    sentence: Any, number: int = 0, path: str | None = None, parameter: str = "sentences"
) -> list[str]:
    """Return the labels of one sentence; see :func:`check_labels`."""
    labels = getattr(sentence, "labels", sentence)
    if labels is None:
        raise no_labels(place(sentence, number, path=path))
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise ShapeError(
            where=f"{parameter}[{number}]",
            expected="a list of labels",
            found=checks.show_type(labels),
            hint="To pass one sentence, put it in a list.",
        )
    names = labels if type(labels) is list else list(labels)
    if not set(map(type, names)) <= {str}:
        names = [checks.label(y, place(sentence, number, t, path)) for t, y in enumerate(names)]
    return names


def place(sentence: object, number: int, token: int | None = None, path: str | None = None) -> str:
    """Return the place of a token: ``train.conll:1482: sentence 214, token 6``."""
    line = line_of(sentence, token or 0)
    file = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
    return f"{file}sentence {number}" + ("" if token is None else f", token {token}")


def line_of(sentence: Any, token: int) -> int | None:
    """Return the line of a token, or of the last token if it is beyond it; None if unknown."""
    if not hasattr(sentence, "line_of") or len(sentence.labels or ()) == 0:
        return None
    line: int | None = sentence.line_of(min(token, len(sentence.labels) - 1))
    return line
