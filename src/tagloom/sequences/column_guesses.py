"""Choose the columns of a file: as the caller names them, otherwise guessed from its first rows.

`conllu_layout` and `plain_layout` each return a `ColumnLayout` and a description of the guesses.
``columns.py`` reads and writes with the layout.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tagloom import checks
from tagloom.errors import FormatError
from tagloom.sequences.column_writers import NEW_DOCUMENT
from tagloom.sequences.columns import CONLLU, UNKNOWN, ColumnLayout
from tagloom.sequences.files import BOM, Input, sample_lines

COLUMN_LIMIT = 10_000  # a longer row is a whole text on one line

_GLOBAL_COLUMNS = re.compile(r"#\s*global\.columns\s*=\s*(.+)")
TOKEN_WORDS = {"token", "tokens", "word", "words", "form"}
HEADER_WORDS = TOKEN_WORDS | {
    *("lemma", "pos", "upos", "xpos", "tag", "tags", "label", "labels", "ner", "chunk", "feats"),
    *("iob", "bio", "entity", "entities", "ner_tag", "pos_tag", "ner_tags", "pos_tags", "id"),
}


# ---- CoNLL-U -----------------------------------------------------------------------------------


def conllu_layout(
    file: Input,
    format: str = "conllu",
    *,
    label: str | int | None = None,
    token: str | int | None = None,
    columns: Sequence[str] | None = None,
    sep: str | None = None,
    unknown: str | None = None,
    labelled: bool = True,
) -> tuple[ColumnLayout, str]:
    """Choose the columns of a CoNLL-U file: the standard ten unless the file names others."""
    names, head, notes = _conllu_names(file, columns)
    lower = [name.lower() for name in names]
    layout = ColumnLayout(
        format,
        sep or "\t",
        names,
        token=find_column("form" if token is None else token, names, "token", file.name),
        label=-1,
        id=lower.index("id") if "id" in lower else -1,
        comment="#",
        head=head,
        labelled=labelled,
    )
    if label is None and "upos" in lower:
        label = "upos"
        notes += ["labels from column 'upos'"] if labelled else []
    if label == "upos+feats":
        layout.label, layout.label_tail = (
            find_column(name, names, "label", file.name) for name in ("upos", "feats")
        )
    elif label is not None:
        layout.label = find_column(label, names, "label", file.name)
    # An empty FEATS is a value: the word has no features.
    is_feats = layout.label >= 0 and lower[layout.label] == "feats"
    layout.unknown = unknown if unknown is not None else None if is_feats else UNKNOWN
    return layout, "; ".join(notes)


def _conllu_names(file: Input, columns: Sequence[str] | None) -> tuple[list[str], bytes, list[str]]:
    """Return the names of the columns, the bytes before the first sentence, and the guesses."""
    head = BOM if file.has_bom else b""
    lines = sample_lines(file)
    match = _GLOBAL_COLUMNS.match(lines[0]) if lines and columns is None else None
    if match is None:
        return list(columns or CONLLU), head, []
    head += _first_lines(file, 1)
    return match[1].split(), head, ["columns named by # global.columns"]


# ---- plain columns -----------------------------------------------------------------------------


class _Row(NamedTuple):
    """The first row of a file that is neither blank nor a comment."""

    line: int  # counted from 1
    text: str


def plain_layout(
    file: Input,
    format: str = "conll",
    *,
    label: str | int | None = None,
    token: str | int | None = None,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    sep: str | None = None,
    comment: str | None = None,
    unknown: str | None = None,
    labelled: bool = True,
) -> tuple[ColumnLayout, str]:
    """Choose the columns of a plain column file, by its first row."""
    row = _first_row(file, comment)
    notes = []
    if sep is None:
        sep = _guess_sep(row)
        notes.append("columns separated by " + ("tabs" if sep == "\t" else "blanks"))
    _check_sep(sep)
    layout = ColumnLayout(
        format,
        sep,
        [],
        token=0,
        label=-1,
        comment=comment,
        unknown=unknown,
        head=BOM if file.has_bom else b"",
        labelled=labelled,
    )
    fields = layout.split(row.text)
    _check_width(fields, file.name, row)
    if columns is not None and not labelled and len(fields) == len(columns) - 1:
        columns = without_label(columns, label, file.name)
    if not row.text.strip():  # nothing to read, so nothing to choose
        layout.names = list(columns or ["0"])
        return layout, ""
    if header is None:
        header = _is_header(fields, columns)
        notes += ["first row read as a header"] if header else []
    if header:
        layout.head, layout.has_header = layout.head + _first_lines(file, row.line), True
    layout.names = list(columns or (fields if header else map(str, range(len(fields)))))
    check_names(layout.names, file.name)
    layout.first_row = "" if columns else f" as on line {row.line}"
    if row.text.startswith("#") and not columns:
        layout.first_row += ", which begins with #,"
    layout.token = find_column(0 if token is None else token, layout.names, "token", file.name)
    layout.label = _label_column(layout, label, file.name)
    if labelled and label is None and layout.label >= 0:
        notes.append(f"labels from column {layout.names[layout.label]!r}")
    return layout, "; ".join(notes)


def _first_row(file: Input, comment: str | None) -> _Row:
    """Find the first row with fields; an empty one if the file has none.

    A row that begins a document may have fewer columns than the others.
    """
    start = ("# " if comment is None else comment) or "\0"  # a NUL starts no line
    size = 1
    while True:
        lines = sample_lines(file, size)
        rows = [
            _Row(line, text.rstrip("\r"))
            for line, text in enumerate(lines, 1)
            if text.strip() and not text.startswith(start)
        ]
        data, is_all = file.peek(size)
        row = next((row for row in rows if not row.text.startswith(NEW_DOCUMENT)), None)
        if row is not None:
            return row
        if is_all or not rows:
            return rows[0] if rows else _Row(1, lines[0].rstrip("\r") if lines else "")
        size = len(data) + 1


def _guess_sep(row: _Row) -> str:
    # Blanks next to a tab would end up in the words, so both then separate columns.
    has_tab = "\t" in row.text and " \t" not in row.text and "\t " not in row.text
    return "\t" if has_tab else " "


def _is_header(fields: Sequence[str], columns: Sequence[str] | None) -> bool:
    """Whether a row is a header: it equals ``columns``, or has only words that headers use."""
    if len(fields) < 2:
        return False
    if columns is not None:
        return list(fields) == list(columns)
    lower = [field.lower() for field in fields]
    return lower[0] in TOKEN_WORDS and HEADER_WORDS.issuperset(lower)


def without_label(columns: Sequence[str], label: str | int | None, path: str) -> list[str]:
    """Return the column names of a file that lacks only the label column."""
    missing = find_column(-1 if label is None else label, columns, "label", path)
    return [name for i, name in enumerate(columns) if i != missing]


def _label_column(layout: ColumnLayout, label: str | int | None, path: str) -> int:
    """Return the label column: as given, else the last one without the tokens, else -1."""
    last = len(layout.names) - 1
    if label is not None:
        if layout.labelled:
            return find_column(label, layout.names, "label", path)
        return position(label, layout.names)
    if not layout.labelled or last == 0:
        return -1
    return last if layout.token != last else 0


def _first_lines(file: Input, n: int) -> bytes:
    """Return the bytes of the first n lines."""
    return b"\n".join(file.peek(1)[0].split(b"\n", n)[:n]) + b"\n"


def _check_sep(sep: str) -> None:
    if len(sep) != 1 or not sep.isascii() or sep in "\r\n":
        raise FormatError(
            parameter="sep", expected="one ASCII character, such as a tab", found=checks.show(sep)
        )


def _check_width(fields: Sequence[str], path: str, row: _Row) -> None:
    if len(fields) > COLUMN_LIMIT:
        raise FormatError(
            path=path,
            line=row.line,
            expected="a token and its columns",
            found=f"a row of {len(fields):,} columns",
            hint="Is each line a sentence? Pass {format}: text, or slash for word/TAG.",
            options={"format": ...},
        )


def check_names(names: Sequence[str], path: str) -> None:
    """Raise if two columns have one name."""
    if len(set(names)) < len(names):
        raise FormatError(
            path=path, parameter="columns", expected="different names", found=_some(names)
        )


# ---- guessing a column -------------------------------------------------------------------------


def token_name(names: Sequence[str]) -> str | None:
    """Return the column of tokens: one of the usual names, else the first that is not a label."""
    lower = [name.strip().lower() for name in names]
    for name, word in zip(names, lower, strict=True):
        if word in TOKEN_WORDS:
            return name
    return next(
        (name for name, word in zip(names, lower, strict=True) if word not in HEADER_WORDS), None
    )


def label_column_name(names: Sequence[str]) -> str | None:
    """Return the column of labels among those beside the tokens: ``label``, else the last."""
    named = (name for name in names if name.strip().lower() in ("label", "labels"))
    return next(named, names[-1] if names else None)


# ---- finding a column --------------------------------------------------------------------------


def find_column(
    which: str | int, names: Sequence[str], parameter: str, path: str | None = None
) -> int:
    """Find a column by name, by name in another case, or by number."""
    i = position(which, names)
    if i < 0:
        raise FormatError(
            path=path,
            parameter=parameter,
            expected=f"one of the columns {_some(names)}",
            found=checks.show(which),
        )
    return i


def position(which: str | int, names: Sequence[str]) -> int:
    """Return the position of a column, or -1 if it does not exist."""
    if isinstance(which, int):
        return which % len(names) if -len(names) <= which < len(names) else -1
    if which in names:
        return list(names).index(which)
    lower = [name.lower() for name in names]
    return lower.index(which.lower()) if lower.count(which.lower()) == 1 else -1


def _some(names: Sequence[str]) -> str:
    """List column names for a message, at most 20 of them."""
    more = f", … ({len(names):,} in all)" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more
