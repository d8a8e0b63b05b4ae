"""What users pass as X and y, checked once for all taggers: errors name the sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import LabelError, SentenceError
from tagloom.sequences import Corpus, Sentence

_SENTENCES = {list, tuple, Sentence}  # what most sentences are


def as_sentences(X: Any) -> Sequence[Any]:
    """Return X as a sequence of sentences; what a sentence may be, the features decide.

    Raises
    ------
    SentenceError
        If X is a str, or one of its sentences is.
    """
    if isinstance(X, Corpus):
        return X
    if isinstance(X, str | bytes):
        raise SentenceError(
            f"expected a list of sentences, found the {type(X).__name__} {_cut(X)}. Split it into "
            "tokens first: [text.split()]; or read a file: tagloom.read(path)."
        )
    if isinstance(X, Sentence):
        raise SentenceError("expected a list of sentences, found one Sentence. Pass [sentence].")
    sentences = X if isinstance(X, list | tuple) else list(X)
    if set(map(type, sentences)) <= _SENTENCES:  # a fifth of the time of the loop
        return sentences
    for i, sentence in enumerate(sentences):
        if isinstance(sentence, str | bytes):
            raise SentenceError(
                f"sentence {i} is the {type(sentence).__name__} {_cut(sentence)}; a sentence is a "
                "list of tokens. Split it first, or pass [tokens] for a single sentence."
            )
    return sentences


def gold_labels(sentences: Sequence[Any], X: Any, y: Any) -> list[list[str]]:
    """Return one list of labels per sentence: those of y, or those that the sentences bring.

    Raises
    ------
    LabelError
        If there are none, their number is wrong, or one is unknown or one of several.
    """
    rows = _rows(sentences, X, y)
    path = getattr(X, "path", None)
    for i, (sentence, row) in enumerate(zip(sentences, rows, strict=True)):
        if len(row) != len(sentence):
            raise LabelError(
                f"{_place(path, i)} has {len(sentence)} tokens but {len(row)} labels; they must "
                "agree."
            )
        for t, label in enumerate(row):
            if type(label) is not str:
                _refuse(label, f"{_place(path, i)}, token {t}")
    return rows


def _rows(sentences: Sequence[Any], X: Any, y: Any) -> list[list[str]]:
    if y is None:
        if isinstance(X, Corpus):
            return X.labels  # type: ignore[return-value]  # gold_labels refuses what is no str
        missing = next(
            (i for i, s in enumerate(sentences) if not isinstance(s, Sentence) or s.labels is None),
            None,
        )
        if missing is not None:
            raise LabelError(
                f"sentence {missing} has no labels. Pass them as y, or a corpus read with "
                "tagloom.read(path, label=...)."
            )
        return [s.labels for s in sentences]
    if isinstance(y, str | bytes):
        raise LabelError(f"y must be a list of lists of labels; found the str {_cut(y)}.")
    rows = [_row(i, row) for i, row in enumerate(y)]
    if len(rows) != len(sentences):
        raise LabelError(f"{len(sentences)} sentences but {len(rows)} lists of labels in y.")
    return rows


def _row(i: int, row: Any) -> list[Any]:
    if isinstance(row, str | bytes):
        raise LabelError(
            f"sentence {i}: the labels are the str {_cut(row)}; expected a list of labels."
        )
    return row if type(row) is list else [y.item() if isinstance(y, np.str_) else y for y in row]


def _refuse(label: Any, where: str) -> None:
    if label is None or isinstance(label, set | frozenset):
        what = "unknown (None)" if label is None else "one of several"
        raise LabelError(f"{where}: the label is {what}; this learner needs every label.")
    raise LabelError(f"{where}: the label is {label!r}, a {type(label).__name__}; labels are str.")


def number_labels(
    rows: list[list[str]], labels: Sequence[str] | None
) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Number the labels of all tokens: sorted by code point, or in the order given.

    Returns
    -------
    labels : list of str
        The Y labels.
    gold : ndarray of int32, shape (T,)

    Raises
    ------
    LabelError
        If there are fewer than two, or one is not among those given.
    """
    table: dict[str, int] = {}
    numbered = _native.intern(rows, table)
    assert numbered is not None  # gold_labels has seen to it
    found = list(table)
    order = sorted(found) if labels is None else list(labels)
    if len(set(order)) != len(order) or not all(isinstance(label, str) for label in order):
        raise LabelError(f"labels must be different strings; got {order!r}.")
    place = {label: i for i, label in enumerate(order)}
    for label in found:
        if label not in place:
            i = next(i for i, row in enumerate(rows) if label in row)
            raise LabelError(
                f"sentence {i}: the label {label!r} is not among labels={order!r}. Add it, or "
                "leave labels out to take those of the data."
            )
    if len(order) < 2:
        raise LabelError(
            f"every token of all {len(rows)} sentences has the label {order[0]!r}: there is "
            "nothing to learn. Is it the right column? tagloom.read(path, label=...) chooses it."
        )
    renumber = np.array([place[label] for label in found], dtype=np.int32)
    return order, renumber[numbered[0]]


def check_not_empty(sentences: Sequence[Any], path: str | None) -> None:
    """Refuse to learn from nothing.

    Raises
    ------
    SentenceError
        If there are no sentences, or one has no tokens.
    """
    if len(sentences) == 0:
        where = f"{path}: " if path else ""
        raise SentenceError(f"{where}there are no sentences to learn from; expected at least one.")
    for i, sentence in enumerate(sentences):
        if len(sentence) == 0:
            raise SentenceError(
                f"{_place(path, i)} has no tokens. Leave empty sentences out of the training data."
            )


def _place(path: str | None, i: int) -> str:
    return f"{path}: sentence {i}" if path else f"sentence {i}"


def _cut(value: Any, width: int = 60) -> str:
    shown = repr(value[:width])
    return shown if len(value) <= width else shown + "…"
