"""Corpora from Python objects: pairs as in NLTK, dicts as in Hugging Face, data frames of pandas.

`Corpus.from_pairs`, `from_dicts`, `from_frame` and `to_frame` are the public names. Only `to_frame`
imports pandas; a frame is any object with ``columns`` whose columns have ``tolist``, or a dict of
lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tagloom import checks
from tagloom.errors import FormatError, LabelError, SentenceError
from tagloom.notebooks import data_frame
from tagloom.sequences.column_guesses import (
    TOKEN_WORDS,
    find_column,
    label_column_name,
    token_name,
)
from tagloom.sequences.label_names import LabelNames, label_names_of
from tagloom.sequences.objects import (
    TOKEN_KEYS,
    label_name,
    label_number,
    row_keys,
    sentence_of_row,
)
from tagloom.sequences.sentences import Sentence
from tagloom.sequences.tables import is_document_name, is_sentence_name


def sentences_of_pairs(sentences: Iterable[Iterable[tuple[str, Any]]]) -> Iterator[Sentence]:
    """Yield a sentence for each list of (token, label)."""
    for i, pairs in enumerate(_as_list(sentences, "pairs")):
        tokens, labels = [], []
        for t, pair in enumerate(_as_list(pairs, "pairs")):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise SentenceError(
                    where=checks.place(i, t),
                    expected="a pair (token, label)",
                    found=checks.show(pair),
                    hint="Leave out what lies between: [(word, label) for word, tag, label in …]."
                    if isinstance(pair, tuple) and len(pair) == 3
                    else None,
                )
            tokens.append(pair[0])
            labels.append(pair[1])
        yield _placed(checks.place(i), tokens, labels, {})


def sentences_of_dicts(
    rows: Iterable[Mapping[str, Any]],
    token: str | None,
    label: str | None,
    label_names: LabelNames | None,
) -> Iterator[Sentence]:
    """Yield a sentence for each dict with tokens and labels."""
    if isinstance(rows, Mapping):
        raise SentenceError(
            expected="a list of dicts",
            found=f"a dict with the keys {checks.show([*rows])}",
            hint="Choose one of several data sets, as in rows['train']; columns are for "
            "Corpus.from_frame.",
        )
    features = getattr(rows, "features", None)  # a data set of Hugging Face has the names
    names: list[str] | None = None
    for i, row in enumerate(_as_list(rows, "dicts")):
        if not isinstance(row, Mapping):
            raise SentenceError(where=checks.place(i), expected="a dict", found=checks.show(row))
        try:
            if i == 0:
                token, label = row_keys(row, token, label)
                given = label_names if label_names is not None else (features or {}).get(label)
                names = None if given is None else label_names_of(given, label)
            yield sentence_of_row(row, str(token), str(label), names)
        except FormatError as error:
            error.where = checks.join(checks.place(i), error.where)
            raise


def sentences_of_frame(
    frame: Any,
    sentence: str | None,
    token: str | None,
    label: str | None,
    label_names: LabelNames | None = None,
    first: int = 0,
) -> Iterator[Sentence]:
    """Yield the sentences of a frame; errors count its rows from ``first``."""
    columns = _columns(frame)
    names = list(columns)
    given = [
        which if which is None else names[find_column(which, names, parameter)]
        for which, parameter in ((sentence, "sentence"), (token, "token"), (label, "label"))
    ]
    by, token, label = given
    by = by or next((name for name in names if is_sentence_name(name)), None)
    document = None if by is None else next(filter(is_document_name, names), None)
    others = [name for name in names if name not in (by, document)]
    words = token or token_name(others)
    if any(_has_lists(columns[name]) for name in ((by, words) if by and words else names)):
        dicts = (dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True))
        token, label = _list_columns(columns, words, token, label)
        yield from sentences_of_dicts(dicts, token, label, label_names)
        return
    if by is None:
        raise FormatError(
            parameter="sentence",
            expected=f"one of the columns {', '.join(names) or 'of the frame, which has none'}",
            found="None",
            hint="An index becomes a column by frame.reset_index().",
        )
    if words is None:
        raise FormatError(
            parameter="token",
            expected=f"a column of tokens beside {by!r}",
            found=", ".join(others) or "none",
        )
    token = words
    if label is None:
        label = label_column_name([name for name in others if name != token])
    numbered = None if label_names is None else label_names_of(label_names, label)
    starts = _starts(columns[by], by, first, columns.get(document or ""))
    for start, end in pairwise([*starts, len(columns[by])]):
        rows = {name: column[start:end] for name, column in columns.items()}
        _check_missing(rows, token, first + start)
        labels = None
        if label is not None:
            labels = [None if _is_missing(y) else y for y in rows[label]]
            if numbered is not None:
                labels = [_named(y, numbered, t) for t, y in enumerate(labels)]
        further = {
            name: [*map(str, rows[name])] for name in names if name not in (by, token, label)
        }
        yield _placed(f"sentence from row {first + start}", rows[token], labels, further)


def _list_columns(
    columns: dict[str, list[Any]], words: str | None, token: str | None, label: str | None
) -> tuple[str | None, str | None]:
    """Return the columns of tokens and labels of a frame with lists; None for those of dicts."""
    if token is None and words is not None and words.lower() in TOKEN_WORDS:
        token = words
    if label is None and not columns.keys() & {*TOKEN_KEYS.label}:
        lists = [name for name in columns if name != token and _has_lists(columns[name])]
        label = label_column_name(lists) if token is not None else None
    return token, label


def _columns(frame: Any) -> dict[str, list[Any]]:
    """Return the columns of a data frame, or of a dict of lists."""
    if isinstance(frame, Mapping):
        lists = {str(name): list(column) for name, column in frame.items()}
        sizes = {name: len(column) for name, column in lists.items()}
        if len({*sizes.values()}) > 1:
            raise FormatError(
                parameter="frame", expected="columns of equal length", found=checks.show(sizes)
            )
        return lists
    if not hasattr(frame, "columns"):
        raise SentenceError(
            parameter="frame", expected="a data frame", found=checks.show_type(frame)
        )
    names = [*map(str, frame.columns)]
    if len({*names}) < len(names):
        raise FormatError(
            parameter="frame", expected="columns with different names", found=", ".join(names)
        )
    series = [frame[name] for name in frame.columns]
    lists_of = (x.tolist() if hasattr(x, "tolist") else list(x) for x in series)
    return dict(zip(names, lists_of, strict=True))


def _starts(
    values: list[Any], name: str, first: int, documents: list[Any] | None = None
) -> list[int]:
    """Return the rows where sentences begin; a missing value continues the sentence before it.

    Sentences of several documents may have the same names.
    """
    starts: list[int] = []
    current, document = None, None
    for row, value in enumerate(values):
        if documents is not None and not _is_missing(documents[row]):
            if documents[row] != document:
                current = None
            document = documents[row]
        if _is_missing(value) or value == "":
            if not starts:
                raise FormatError(
                    where=f"row {first + row}",
                    expected=f"a value in column {name!r}",
                    found=repr(value),
                )
        elif value != current or not starts:
            starts.append(row)
            current = value
    return starts


def _named(label: Any, names: list[str], t: int) -> Any:
    """Return the name of a numbered label; pandas makes floats of numbers beside missing ones."""
    number = label_number(label)
    return label if number is None else label_name(number, names, t)


def _has_lists(column: Sequence[Any]) -> bool:
    """Whether the cells of a column are lists, so that each row is a sentence."""
    first = next((value for value in column if not _is_missing(value)), None)
    return isinstance(first, list | tuple | np.ndarray)


def _is_missing(value: Any) -> bool:
    """Whether a cell is None, NaN, or one of the missing values of pandas."""
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _check_missing(rows: dict[str, list[Any]], token: str, start: int) -> None:
    for row, value in enumerate(rows[token], start):
        if _is_missing(value):
            raise FormatError(
                where=f"row {row}",
                expected=f"a token in column {token!r}",
                found=repr(value),
                hint="pandas reads words such as NA and null as missing unless "
                "read_csv(..., keep_default_na=False).",
            )


def frame_of(sentences: Iterable[Sentence]) -> Any:
    """Return a data frame of pandas with one row per token."""
    rows: list[dict[str, Any]] = []
    for i, sentence in enumerate(sentences):
        further = {
            name: column
            for name, column in sentence.columns.items()
            if name not in ("sentence", "token", "label") and column != sentence.tokens
        }
        for t, token in enumerate(sentence.tokens):
            row: dict[str, Any] = {"sentence": i, "token": token}
            if sentence.labels is not None:
                row["label"] = sentence.labels[t]
            rows.append(row | {name: column[t] for name, column in further.items()})
    return data_frame(rows, None if rows else ["sentence", "token", "label"])


def _as_list(value: Any, what: str) -> Iterable[Any]:
    """Return a value that is iterable and not a str; raise otherwise."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise SentenceError(expected=f"a list of {what}", found=checks.show_type(value))
    return value


def _placed(place: str, tokens: Any, labels: Any, columns: dict[str, list[str]]) -> Sentence:
    try:
        return Sentence(tokens, labels, columns=columns)
    except (SentenceError, LabelError) as error:
        error.where = checks.join(place, error.where)
        raise
