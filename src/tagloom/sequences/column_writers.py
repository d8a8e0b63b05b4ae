"""Write sentences as rows of columns.

A sentence that was read from a file with the same columns is written from its original bytes, in
which only the fields that the user changed are replaced. Any other sentence is written from
scratch. ``where`` names the sentence in messages.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from tagloom.errors import FormatError
from tagloom.sequences.faults import (
    check_lengths,
    check_not_empty,
    several_labels,
    unknown_label,
)
from tagloom.sequences.sentences import Label, Sentence

if TYPE_CHECKING:
    from tagloom.sequences.columns import ColumnLayout

#: The row that starts each document in CoNLL-2003.
NEW_DOCUMENT = "-DOCSTART-"


def render(layout: ColumnLayout, sentence: Sentence, where: str) -> bytes:
    """Write one sentence, from its original bytes if it was read with the same columns."""
    check_not_empty(sentence, layout.format, where)
    source = layout.source_of(sentence)
    if source is not None:
        raw = _relabel(layout, sentence, source)
        if raw is not None:
            return raw
    _check_columns(layout, sentence, where)
    if source is not None:
        raw = _edit(layout, sentence, source, where)
        if raw is not None:
            return raw
    return _lay_out(layout, sentence, where)


def _check_columns(layout: ColumnLayout, sentence: Sentence, where: str) -> None:
    check_lengths(sentence, where)
    n = len(sentence)
    for name, column in (sentence._columns or {}).items():
        if len(column) != n and name in layout.names:
            raise FormatError(
                where=where,
                expected=f"{n} values in column {name!r}, one per token",
                found=str(len(column)),
            )


# ---- from the original bytes -------------------------------------------------------------------


def _relabel(layout: ColumnLayout, sentence: Sentence, source: ColumnLayout) -> bytes | None:
    """Write a sentence in which at most the labels changed; None if anything else did."""
    n = len(source.names)
    if len(layout.names) > n + (layout.label == n) or layout.label_tail >= 0:
        return None
    if sentence._comments is not None and sentence._comments != source.comments(sentence._raw):
        return None
    columns, labels = sentence._columns, sentence.labels
    if labels is None and layout.label >= 0 and source.labelled:
        labels = [None] * len(sentence)
    return source.scanner.put(
        sentence._raw,
        sentence.tokens,
        None if columns is None else [columns.get(name, []) for name in source.names],
        labels,
        layout.label,
        layout.unknown,
    )


def _edit(
    layout: ColumnLayout, sentence: Sentence, source: ColumnLayout, where: str
) -> bytes | None:
    """Replace the changed fields in the original bytes; None if the number of tokens changed."""
    raw, n = sentence._raw, len(source.names)
    ((_, tokens, labels, _),) = source.scanner.scan(raw, True)[0]
    if len(tokens) != len(sentence):
        return None
    if sentence._comments is not None and sentence._comments != source.comments(raw):
        raw = _with_comments(source, raw, sentence._comments)
    before = source.scanner.columns(raw)  # [n][T]
    after = _edited_columns(layout, sentence, source, before, where)
    for t, token in enumerate(sentence.tokens):
        if token != tokens[t]:
            after[layout.token][t] = token
    _edit_labels(layout, sentence, source, labels, after, where)
    changed = [i for i, column in enumerate(after) if i >= n or column != before[i]]
    return _put_columns(layout, source, raw, tokens, {i: after[i] for i in changed}, where)


def _edited_columns(
    layout: ColumnLayout,
    sentence: Sentence,
    source: ColumnLayout,
    before: list[list[str]],
    where: str,
) -> list[list[str]]:
    """Return the user's columns, else those of the file; added columns come last."""
    given = sentence._columns or {}
    columns = [[*(given.get(name) or before[i])] for i, name in enumerate(source.names)]
    for i, name in enumerate(layout.names[len(columns) :], len(columns)):
        is_label = i == layout.label
        columns.append([""] * len(sentence) if is_label else _column(given, name, where))
    return columns


def _edit_labels(
    layout: ColumnLayout,
    sentence: Sentence,
    source: ColumnLayout,
    before: list[Label] | None,
    columns: list[list[str]],
    where: str,
) -> None:
    """Put the labels that differ from those in the file into their columns."""
    if layout.label < 0 or (sentence.labels is None and not source.labelled):
        return
    moved = (layout.label, layout.label_tail) != (source.label, source.label_tail)
    for t, label in enumerate(sentence.labels or [None] * len(sentence)):
        if moved or before is None or label != before[t]:
            for i, value in _label_fields(layout, label, f"{where}, token {t}"):
                columns[i][t] = value


def _put_columns(
    layout: ColumnLayout,
    source: ColumnLayout,
    raw: bytes,
    tokens: list[str],
    columns: dict[int, list[str]],
    where: str,
) -> bytes:
    """Write columns into the bytes of a sentence, one after another, new ones last."""
    n = len(source.names)
    for i, column in columns.items():
        for t, value in enumerate(column):
            _check_field(layout, value, f"{where}, token {t}")
        scanner = layout.scanner_of(i) if i > n else source.scanner
        edited = scanner.put(raw, tokens, None, [*column], i, layout.unknown)
        if edited is None:
            raise FormatError(
                "with its new words a row would be read as a comment.",
                where=where,
                hint="Write jsonl.",
            )
        raw = edited
        if i == layout.token:
            tokens = column
    return raw


def _with_comments(source: ColumnLayout, raw: bytes, comments: list[str]) -> bytes:
    """Put other comment lines before the rows of a sentence."""
    rows = {line for line, _, _ in source.scanner.rows(raw)}
    lines = raw.decode("utf-8").split("\n")
    end = "\r" if lines[0].endswith("\r") else ""
    kept = [
        text
        for line, text in enumerate(lines)
        if line in rows or not text.startswith(source.comment_starts)
    ]
    return "\n".join([comment + end for comment in comments] + kept).encode("utf-8")


# ---- from scratch ------------------------------------------------------------------------------


def _lay_out(layout: ColumnLayout, sentence: Sentence, where: str) -> bytes:
    """Write comments and rows of a sentence that was not read with these columns."""
    fields = _fields(layout, sentence, where)
    rows = list(zip(*fields, strict=True))
    for t, row in enumerate(rows):
        for value in row:
            _check_field(layout, value, f"{where}, token {t}")
    lines = [layout.sep.join(row) for row in rows]
    for t, line in enumerate(lines):
        _check_line(line, len(fields), f"{where}, token {t}")
    # Plain columns have no standard comment syntax: comments of other formats are dropped.
    source = sentence._layout
    keep = layout.format == "conllu" or source is None or source.format == layout.format
    comments = [c for c in sentence.comments if keep and c.startswith(layout.comment_starts)]
    if layout.format == "conllu":  # has a comment for new documents
        comments = ["# newdoc" if c.startswith(NEW_DOCUMENT) else c for c in comments]
    return "".join(f"{line}\n" for line in [*comments, *lines, ""]).encode("utf-8")


def _fields(layout: ColumnLayout, sentence: Sentence, where: str) -> list[list[str]]:
    """Return the values of every column of the layout, for a sentence from elsewhere."""
    n = len(sentence)
    fields: dict[int, list[str]] = {layout.token: sentence.tokens}
    if layout.id >= 0:
        fields[layout.id] = [str(t + 1) for t in range(n)]
    if layout.label >= 0:
        for t, label in enumerate(sentence.labels or [None] * n):
            for i, value in _label_fields(layout, label, f"{where}, token {t}"):
                fields.setdefault(i, []).append(value)
    # If the number of tokens has changed, the columns of the file no longer apply. They are parsed
    # on a copy, so that writing does not cache them in the sentence.
    columns = {name: column for name, column in copy(sentence).columns.items() if len(column) == n}
    for i, name in enumerate(layout.names):
        if i not in fields:
            is_blank = layout.format == "conllu" and name not in columns
            fields[i] = ["_"] * n if is_blank else _column(columns, name, where)
    return [fields[i] for i in range(len(layout.names))]


def _check_line(line: str, n_fields: int, where: str) -> None:
    if line.startswith(NEW_DOCUMENT):
        raise FormatError(
            "a row that starts with '-DOCSTART-' would be read as the mark of a new document.",
            where=where,
            found="'-DOCSTART-'",
            hint="Write jsonl.",
        )
    if n_fields == 1 and len(line.split()) > 1:
        raise FormatError(
            f"{line!r} alone in its row would be read as several columns.",
            where=where,
            found=repr(line),
            hint="Give labels, or write jsonl.",
        )


# ---- single fields -----------------------------------------------------------------------------


def _column(columns: dict[str, list[str]], name: str, where: str) -> list[str]:
    if name not in columns:
        names = ", ".join(["token", "label", *columns])
        raise FormatError(
            where=where,
            parameter="columns",
            expected=f"columns of the sentence: {names}",
            found=repr(name),
        )
    return columns[name]


def _label_fields(layout: ColumnLayout, label: Label, where: str) -> list[tuple[int, str]]:
    """Return column and value of each field that holds a label: one, or two for UPOS+FEATS."""
    if isinstance(label, frozenset):
        raise several_labels(label, layout.format, where)
    if label is None and layout.unknown is None:
        raise unknown_label(layout.format, where)
    if layout.label_tail < 0:
        return [(layout.label, layout.unknown or "" if label is None else label)]
    head, _, tail = ("_", "", "_") if label is None else label.partition("|")
    return [(layout.label, head), (layout.label_tail, tail or "_")]


def _check_field(layout: ColumnLayout, value: str, where: str) -> None:
    if not layout.can_hold(value) and (value or value != layout.unknown):
        has_blank = layout.sep == " " and " " in value
        raise FormatError(
            where=where,
            expected=f"a value for a column that ends at {layout.sep!r}",
            found=repr(value),
            hint="Try {sep}." if has_blank else "Write jsonl.",
            options={"sep": "\t"} if has_blank else None,
        )
