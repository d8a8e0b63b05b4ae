"""CSV and TSV: one token per row, fields that may be quoted, and a column that names the sentence.

The sentence column may be filled on every row or, as in Kaggle's NER set, only on the first row of
a sentence. Without such a column, a blank row ends a sentence. Quotes follow RFC 4180. A sentence
keeps the bytes of its rows, and a row that did not change is written as it was read.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from tagloom import checks
from tagloom.errors import FormatError
from tagloom.sequences.column_guesses import (
    HEADER_WORDS,
    TOKEN_WORDS,
    check_names,
    find_column,
    label_column_name,
    position,
    token_name,
    without_label,
)
from tagloom.sequences.faults import (
    check_lengths,
    check_not_empty,
    several_labels,
    unknown_label,
)
from tagloom.sequences.files import BOM, Input, check_size, sample_lines
from tagloom.sequences.sentences import Label, Sentence

_SEPARATORS = ",;\t|"
_SENTENCE_WORDS = {
    *("sentence", "sentenceid", "sentenceidx", "sentenceindex", "sentencenumber", "sentenceno"),
    *("sent", "sentid", "sentidx", "sentno"),
}
_DOCUMENT_WORDS = {"doc", "docid", "docno", "document", "documentid"}
_NO_LETTERS = re.compile(r"[^a-z]")


class _Row(NamedTuple):
    """One record of a file."""

    fields: list[str]  # empty for a blank line
    raw: bytes
    line: int  # where it begins, counted from 1

    @property
    def is_blank(self) -> bool:
        """Whether all fields are empty, as in a row that a spreadsheet leaves blank."""
        return not any(self.fields)


@dataclass
class SentenceIds:
    """The sentences written so far; shared by the layouts of one output file."""

    n: int = 0
    last: tuple[str, str] | None = None


@dataclass
class TableLayout:
    """The columns of a table.

    Parameters
    ----------
    sep : str
        Separator of fields.
    names : list of str
        Names of the columns.
    token, label, sentence : int
        Positions of these columns; -1 for a table without labels or without sentence column.
    document : int
        Column of the document within which sentences are named; -1 without one.
    is_quoted : bool
        Whether a field may stand in quotes.
    skips_blanks : bool
        Whether blanks after a separator are not part of a field.
    unknown : str or None
        The field that means an unknown label.
    labelled : bool
        Whether labels are read.
    head : bytes
        A byte order mark and the header row.
    base : TableLayout or None
        In writing, the layout of the file that this one extends by columns.
    """

    sep: str
    names: list[str]
    token: int = 0
    label: int = -1
    sentence: int = -1
    document: int = -1
    is_quoted: bool = True
    skips_blanks: bool = False
    unknown: str | None = None
    labelled: bool = True
    head: bytes = b""
    base: TableLayout | None = None
    ids: SentenceIds = field(default_factory=SentenceIds)
    has_header: bool = False
    format: str = "csv"
    tail: bytes = b""  # the bytes after the last sentence, once it is read

    @property
    def label_name(self) -> str | None:
        """Name of the label column."""
        return self.names[self.label] if self.label >= 0 else None

    # ---- reading -------------------------------------------------------------------------------

    def read(self, file: Input) -> Iterator[list[Sentence]]:
        """Yield the sentences of a file as they arrive; store the bytes after them in ``tail``."""
        lines = _Lines(file)
        rows: list[_Row] = []  # of the open sentence, with the blank rows before and in it
        n_tokens, current, size = 0, ("", ""), 0
        batch: list[Sentence] = []
        is_header = self.has_header
        try:
            for row in self._records(lines, file.name):
                if is_header and not row.is_blank:
                    is_header = False
                    continue
                if is_header:
                    continue
                ends, current = self._ends(row, current, n_tokens, file.name)
                if ends:
                    batch.append(self._sentence(rows))
                    rows, n_tokens, size = [], 0, 0
                if not row.is_blank:
                    self._check(row, file.name)
                    n_tokens += 1
                rows.append(row)
                size += len(row.raw)
                check_size(size, file.name, rows[0].line, self._end_name)
                if not lines.rest and batch:
                    yield batch
                    batch = []
        except FormatError:
            yield batch
            raise
        if n_tokens:
            last = max(i for i, row in enumerate(rows) if not row.is_blank) + 1
            batch.append(self._sentence(rows[:last]))
            rows = rows[last:]
        yield batch
        self.tail = b"".join(row.raw for row in rows)

    @property
    def _end_name(self) -> str:
        if self.sentence < 0:
            return "a blank row"
        return f"another value in column {self.names[self.sentence]!r}"

    def _ends(
        self, row: _Row, current: tuple[str, str], n_tokens: int, path: str
    ) -> tuple[bool, tuple[str, str]]:
        """Return whether a row ends the open sentence, and document and sentence after it."""
        if row.is_blank:
            return self.sentence < 0 and n_tokens > 0, current
        if self.sentence < 0 or max(self.sentence, self.document) >= len(row.fields):
            return False, current
        document, name = self._name(row.fields)
        following = (document or current[0], name or current[1])
        if not following[1]:
            raise FormatError(
                path=path,
                line=row.line,
                expected=f"a value in column {self.names[self.sentence]!r}, which names sentences",
                found=f"none in the first row, {_shown(row)}",
                hint="Name the column of the sentences with {sentence}.",
                options={"sentence": ...},
            )
        return following != current and n_tokens > 0, following

    def _name(self, fields: Sequence[str]) -> tuple[str, str]:
        """Return the document and the sentence of a row."""
        return fields[self.document] if self.document >= 0 else "", fields[self.sentence]

    def _records(self, lines: Iterable[str], path: str, line: int = 1) -> Iterator[_Row]:
        """Split lines into records; a quoted field may contain line ends."""
        taken: list[str] = []

        def pulled() -> Iterator[str]:
            for text in lines:
                taken.append(text)
                yield text

        reader = csv.reader(pulled(), **self._dialect())
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise self._quote_fault(path, line, taken[0], error) from None
            raw = "".join(taken).encode("utf-8")
            yield _Row(fields, raw, line)
            line += len(taken)
            taken.clear()

    def _dialect(self) -> dict[str, Any]:
        quoting = csv.QUOTE_MINIMAL if self.is_quoted else csv.QUOTE_NONE
        return {
            "delimiter": self.sep,
            "quoting": quoting,
            "strict": True,
            "skipinitialspace": self.skips_blanks,
        }

    def _quote_fault(self, path: str, line: int, text: str, error: csv.Error) -> FormatError:
        is_long = "field limit" in str(error)
        why = "a quote that is not closed" if is_long or "end of data" in str(error) else str(error)
        before = _cells(text.split('"', 1)[0], self.sep)
        column = max(len(before) - 1, 0)
        name = f" in column {self.names[column]!r}" if column < len(self.names) else ""
        return FormatError(
            path=path,
            line=line,
            expected='fields in closed quotes, with "" for a quote inside',
            found=f"{checks.show(text.rstrip(), 60)}{name} ({why})",
            hint="Without quoted fields, read it with {format} and {sep}.",
            options={"format": "conll", "sep": self.sep},
        )

    def _check(self, row: _Row, path: str) -> None:
        """Raise if a row lacks columns, its token or its label."""
        n = len(self.names)
        if len(row.fields) != n:
            named = f" ({', '.join(self.names[:20])})" if self.has_header else ""
            raise FormatError(
                path=path,
                line=row.line,
                expected=f"{checks.plural(n, 'column')}{named}",
                found=f"{len(row.fields)} in {_shown(row)}",
                hint='Wrong separator? Pass {sep}. A field that contains it needs quotes: "a, b".',
                options={"sep": ...},
            )
        wanted = [("a token", self.token)]
        if self.labelled and self.label >= 0 and self.unknown != "":
            wanted.append(("a label", self.label))
        for what, i in wanted:
            if not row.fields[i]:
                hint = "If that means unknown, pass {unknown}." if i == self.label else None
                raise FormatError(
                    path=path,
                    line=row.line,
                    expected=f"{what} in column {self.names[i]!r}",
                    found=f"an empty field in {_shown(row)}",
                    hint=hint or "Remove or fill the row.",
                    options={"unknown": ""} if hint else None,
                )

    def _sentence(self, rows: list[_Row]) -> Sentence:
        filled = [row.fields for row in rows if not row.is_blank]
        tokens = [fields[self.token] for fields in filled]
        labels = self._labels(filled)
        raw = b"".join(row.raw for row in rows)
        return Sentence._from_file(tokens, labels, raw, rows[0].line, self)

    def _labels(self, filled: list[list[str]]) -> list[Label] | None:
        if not self.labelled or self.label < 0:
            return None
        labels = [fields[self.label] for fields in filled]
        return [None if label == self.unknown else label for label in labels]

    def _rows(self, raw: bytes) -> list[_Row]:
        lines = io.StringIO(raw.decode("utf-8"), newline="")
        return list(self._records(lines, "", 0))

    def columns(self, raw: bytes) -> dict[str, list[str]]:
        """Split the bytes of one sentence into named columns."""
        rows = [row.fields for row in self._rows(raw) if not row.is_blank]
        return dict(zip(self.names, map(list, zip(*rows, strict=True)), strict=True))

    def comments(self, raw: bytes) -> list[str]:
        """Return no comments: the format has none."""
        return []

    def line_of(self, raw: bytes, token: int) -> int:
        """Return the line of ``raw``, counted from 0, that contains a token."""
        filled = [row.line for row in self._rows(raw) if not row.is_blank]
        return filled[token] if token < len(filled) else raw.count(b"\n")

    # ---- writing -------------------------------------------------------------------------------

    def render(self, sentence: Sentence, where: str) -> bytes:
        """Write one sentence; rows that did not change keep their bytes."""
        check_not_empty(sentence, self.format, where)
        check_lengths(sentence, where)
        _check_filled(sentence, where)
        self.ids.n += 1
        source = sentence._layout
        if self.base is not None and source is self.base:
            rows = self.base._rows(sentence._raw)
            filled = [row for row in rows if not row.is_blank]
            if len(filled) == len(sentence):
                self._check_id(filled[0].fields, where)
                return self._edit(sentence, rows, where)
        fields = self._new_fields(sentence, where)
        self._check_id(fields[0], where)
        rows_out = b"".join(self._line(row, b"\n") for row in fields)
        return rows_out if self.sentence >= 0 else rows_out + b"\n"

    def _check_id(self, fields: list[str], where: str) -> None:
        """Raise if a sentence has the name of the one before it: they would become one."""
        name = self._name(fields) if self.sentence >= 0 else None
        if name is not None and name == self.ids.last:
            raise FormatError(
                where=where,
                expected=f"another value in column {self.names[self.sentence]!r} than before it",
                found=checks.show(name[1]),
                hint="Number the sentences anew with {columns}.",
                options={"columns": ["token", "label"]},
            )
        self.ids.last = name

    def _edit(self, sentence: Sentence, rows: list[_Row], where: str) -> bytes:
        """Replace the fields that changed in the rows of the file."""
        base = self.base or self
        n = len(base.names)
        old = [row.fields for row in rows if not row.is_blank]
        old_labels = base._labels(old)
        given = sentence._columns or {}
        parts, t = [], -1
        for row in rows:
            if row.is_blank:
                parts.append(row.raw)
                continue
            t += 1
            fields = [
                given[name][t] if name in given else row.fields[i]
                for i, name in enumerate(base.names)
            ]
            fields += [
                "" if i == self.label else _value(sentence, name, t, where)
                for i, name in enumerate(self.names[n:], n)
            ]
            if fields[self.token] == row.fields[self.token]:
                fields[self.token] = sentence.tokens[t]
            if sentence.labels is not None and self.label >= 0:
                label = sentence.labels[t]
                if self.label >= n or old_labels is None or label != old_labels[t]:
                    fields[self.label] = self._label_field(label, f"{where}, token {t}")
            end = row.raw[len(row.raw.rstrip(b"\r\n")) :]
            same = fields == row.fields and self.sep == base.sep
            parts.append(row.raw if same else self._line(fields, end))
        return b"".join(parts)

    def _new_fields(self, sentence: Sentence, where: str) -> list[list[str]]:
        columns = []
        for i, name in enumerate(self.names):
            if i == self.sentence:
                columns.append([str(self.ids.n)] * len(sentence))
            elif i == self.token:
                columns.append(sentence.tokens)
            elif i == self.label:
                labels = sentence.labels or [None] * len(sentence)
                columns.append(
                    [self._label_field(y, f"{where}, token {t}") for t, y in enumerate(labels)]
                )
            else:
                columns.append([_value(sentence, name, t, where) for t in range(len(sentence))])
        return [list(row) for row in zip(*columns, strict=True)]

    def _label_field(self, label: Label, where: str) -> str:
        if isinstance(label, frozenset):
            raise several_labels(label, self.format, where)
        if label is None:
            if self.unknown is None:
                raise unknown_label(self.format, where)
            return self.unknown
        return label

    def _line(self, fields: Sequence[str], end: bytes) -> bytes:
        return row_bytes(fields, self.sep, self.is_quoted) + end


def row_bytes(fields: Sequence[str], sep: str, is_quoted: bool = True) -> bytes:
    """Write one row without its line end; a field is quoted where it must be."""
    if not is_quoted:
        bad = next((x for x in fields if sep in x or "\n" in x or "\r" in x), None)
        if bad is not None:
            raise FormatError(
                expected="fields without separators, as the file has no quotes", found=repr(bad)
            )
        return sep.join(fields).encode("utf-8")
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=sep, lineterminator="\r\n").writerow(fields)
    return out.getvalue()[:-2].encode("utf-8")  # quotes are chosen by the line end


class _Lines:
    """The lines of a file as text; ``rest`` are those that have arrived but were not taken."""

    def __init__(self, file: Input) -> None:
        self._batches = file.lines()
        self.rest: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while not self.rest:
            self.rest = [raw.decode("utf-8") for _, raw in reversed(next(self._batches))]
        return self.rest.pop()


def _check_filled(sentence: Sentence, where: str) -> None:
    """Raise for an empty token or label: the file could not be read."""
    for what, values in (("token", sentence.tokens), ("label", sentence.labels or ())):
        if "" in values:
            raise FormatError(
                where=f"{where}, token {list(values).index('')}",
                expected=f"a {what} that is not empty",
                found="''",
                hint="Write jsonl.",
            )


def _shown(row: _Row) -> str:
    return checks.show(row.raw.decode("utf-8").rstrip("\r\n"), 60)


def _value(sentence: Sentence, name: str, t: int, where: str) -> str:
    """Return a field of another column of a sentence."""
    column = sentence.columns.get(name)
    if column is None or len(column) != len(sentence):
        raise FormatError(
            where=where,
            parameter="columns",
            expected=f"columns of the sentence: {', '.join(sentence.columns) or 'none'}",
            found=repr(name),
        )
    return str(column[t])


# ---- choosing a layout -------------------------------------------------------------------------


def table_layout(
    file: Input,
    format: str = "csv",
    *,
    label: str | int | None = None,
    token: str | int | None = None,
    sentence: str | int | None = None,
    columns: Sequence[str] | None = None,
    header: bool | None = None,
    sep: str | None = None,
    unknown: str | None = None,
    labelled: bool = True,
) -> tuple[TableLayout, str]:
    """Choose the columns of a table, by its header or its first row."""
    lines = sample_lines(file)
    first = next((i for i, line in enumerate(lines) if line.strip(" \t\r,;")), None)
    head = BOM if file.has_bom else b""
    if first is None:  # nothing to read, so nothing to choose
        return TableLayout(sep or ",", list(columns or ["0"]), head=head), ""
    notes = []
    if sep is None:
        sep = guess_separator(lines[first])
        notes.append(f"columns separated by {_SEPARATOR_NAMES[sep]}")
    elif len(sep) != 1 or sep in '"\r\n':
        raise FormatError(parameter="sep", expected="one character", found=checks.show(sep))
    layout = TableLayout(sep, [], unknown=unknown, labelled=labelled, head=head)
    layout.is_quoted = sep != "\t" or _has_quotes(lines, sep)
    text = [f"{line}\n" for line in lines[first:]]
    row = next(layout._records(text, file.name, first + 1))
    if len(row.fields) > 1 and all(field[:1] == " " for field in row.fields[1:]):
        layout.skips_blanks = True  # written "a, b", which is not part of the format
        row = next(layout._records(text, file.name, first + 1))
    fields = row.fields
    if header is None:
        header = fields == list(columns) if columns else is_header(fields)
        notes += ["first row read as a header"] if header else []
    if header:
        layout.has_header = True
        layout.head += "".join(f"{line}\n" for line in lines[:first]).encode("utf-8") + row.raw
    if columns is not None and not labelled and len(fields) == len(columns) - 1:
        columns = without_label(columns, label, file.name)
    layout.names = [*(columns or (fields if header else map(str, range(len(fields)))))]
    check_names(layout.names, file.name)
    _choose_columns(layout, label, token, sentence, file.name)
    _check_one_token_per_row(layout, lines[first:], file.name, first + 1)
    if layout.sentence >= 0:
        notes.append(f"sentences by column {layout.names[layout.sentence]!r}")
    else:
        notes.append("sentences end at blank rows")
    if layout.label_name is not None and label is None:
        notes.append(f"labels from column {layout.label_name!r}")
    return layout, "; ".join(notes)


_SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def _choose_columns(
    layout: TableLayout,
    label: str | int | None,
    token: str | int | None,
    sentence: str | int | None,
    path: str,
) -> None:
    """Find the columns of sentences, tokens and labels: as given, else by name, else by place."""
    names = layout.names
    if sentence is not None:
        layout.sentence = find_column(sentence, names, "sentence", path)
    else:
        layout.sentence = next((i for i, x in enumerate(names) if is_sentence_name(x)), -1)
    if layout.sentence >= 0:
        documents = (i for i, x in enumerate(names) if is_document_name(x))
        layout.document = next((i for i in documents if i != layout.sentence), -1)
    others = [i for i in range(len(names)) if i not in (layout.sentence, layout.document)]
    if token is not None:
        layout.token = find_column(token, names, "token", path)
    else:
        word = token_name([names[i] for i in others])
        if word is None and others:
            raise FormatError(
                path=path,
                parameter="token",
                expected="a column of tokens, such as word",
                found=f"only the columns {', '.join(names)}",
            )
        layout.token = 0 if word is None else names.index(word)
    if label is not None:
        find = find_column(label, names, "label", path) if layout.labelled else None
        layout.label = position(label, names) if find is None else find
    elif layout.labelled:
        name = label_column_name([names[i] for i in others if i != layout.token])
        layout.label = -1 if name is None else names.index(name)


def _check_one_token_per_row(
    layout: TableLayout, lines: list[str], path: str, first: int, n_rows: int = 5
) -> None:
    """Raise if cells contain whole sentences with their labels, as lists or between blanks."""
    if layout.label < 0:
        return
    for number, line in enumerate(lines[:n_rows]):
        cells = _cells(line, layout.sep)
        if len(cells) <= max(layout.token, layout.label):
            continue
        pair = [cells[layout.token].strip(), cells[layout.label].strip()]
        are_lists = all(re.fullmatch(r"\[.*\]", cell) and len(cell) > 2 for cell in pair)
        n_words, n_labels = (len(cell.split()) for cell in pair)
        if are_lists or n_words == n_labels > 2:
            raise FormatError(
                path=path,
                line=first + number,
                expected="one token in each row",
                found=f"a whole sentence, {checks.show(pair[0], 40)}",
                hint="Save the lists as JSON Lines, or pass them to Corpus.from_dicts.",
            )


def _cells(row: str, sep: str) -> list[str]:
    """Split one line; a line that is not CSV has no cells."""
    try:
        return next(csv.reader([row], delimiter=sep), [])
    except csv.Error:
        return []


def guess_separator(row: str) -> str:
    """Return the separator that cuts a row into the most fields; a comma if none does."""
    return max(_SEPARATORS, key=lambda sep: len(_cells(row, sep)))


def _has_quotes(lines: list[str], sep: str) -> bool:
    """Return whether quotes enclose fields: more rows then have as many fields as the first.

    Tables of tokens that were written without quotes contain fields that are a single quote.
    """
    return _n_even_rows(lines, sep, csv.QUOTE_MINIMAL) >= _n_even_rows(lines, sep, csv.QUOTE_NONE)


def _n_even_rows(lines: list[str], sep: str, quoting: Literal[0, 3]) -> int:
    widths = []
    with contextlib.suppress(csv.Error):  # the reader reports it, if it reads that way
        text = (f"{line}\n" for line in lines)
        for row in csv.reader(text, delimiter=sep, quoting=quoting, strict=True):
            widths.append(len(row))
    return widths.count(widths[0]) if widths else 0


def is_sentence_name(name: str) -> bool:
    """Return whether a column of this name usually names the sentence, such as ``Sentence #``."""
    return _NO_LETTERS.sub("", name.lower()) in _SENTENCE_WORDS


def is_document_name(name: str) -> bool:
    """Return whether a column of this name usually names the document, such as ``doc_id``."""
    return _NO_LETTERS.sub("", name.lower()) in _DOCUMENT_WORDS


def is_header(fields: Sequence[str]) -> bool:
    """Return whether a row names columns: two of tokens, sentences and labels."""
    lower = [field.strip().lower() for field in fields]
    kinds = (
        any(word in TOKEN_WORDS for word in lower),
        any(map(is_sentence_name, lower)),
        any(word in HEADER_WORDS - TOKEN_WORDS for word in lower),
    )
    return sum(kinds) > 1


def is_table(row: str, sep: str, *, by_sentence: bool = True) -> bool:
    """Return whether a row is the header of a table, by default of one with a sentence column."""
    fields = _cells(row, sep)
    return is_header(fields) and (not by_sentence or any(map(is_sentence_name, fields)))


# ---- writing -----------------------------------------------------------------------------------


def table_target(sentence: Sentence, options: Mapping[str, Any], added: list[str]) -> TableLayout:
    """Choose the layout to write a sentence with: that of its file, or a new table."""
    source = sentence._layout
    ids = options["ids"]
    if isinstance(source, TableLayout) and "columns" not in options:
        layout = replace(
            source,
            base=source,
            ids=ids,
            sep=options.get("sep", source.sep),
            unknown=options.get("unknown", source.unknown),
        )
        if not added and source.label < 0 and sentence.labels is not None:
            added = ["label"]
        return _with_columns(layout, added)
    names = list(options.get("columns") or ["token", *["label"] * (sentence.labels is not None)])
    if "sentence" not in names:
        names.insert(0, "sentence")
    names += [name for name in added if name not in names]
    sep = options.get("sep", ",")
    return TableLayout(
        sep,
        names,
        token=names.index("token") if "token" in names else -1,
        label=names.index("label") if "label" in names else -1,
        sentence=names.index("sentence"),
        unknown=options.get("unknown"),
        head=row_bytes(names, sep) + b"\n",
        ids=ids,
        has_header=True,
    )


def _with_columns(layout: TableLayout, added: list[str]) -> TableLayout:
    """Add columns after the last one, also to the header."""
    for name in added:
        if name == "label":
            layout.label = len(layout.names)
            n = 2
            while name in layout.names:
                name, n = f"label{n}", n + 1
        elif name in layout.names:
            raise FormatError(
                parameter="append",
                expected="names of new columns",
                found=f"{name!r}, a column of the file",
            )
        layout.names = [*layout.names, name]
        if layout.has_header:
            row = layout.head.rstrip(b"\r\n")
            cell = row_bytes(["", name], layout.sep)
            layout.head = row + cell + layout.head[len(row) :]
    return layout
