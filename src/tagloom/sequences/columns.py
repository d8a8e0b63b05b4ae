"""Column files, CoNLL and CoNLL-U: one token per row, a blank line after each sentence.

`ColumnLayout` describes the columns of one file. The native scanner uses it to find sentences,
tokens and labels; this file feeds the scanner and turns faults into errors. The columns are chosen
in ``column_guesses.py`` and written in ``column_writers.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from tagloom import checks
from tagloom._native import ColumnScanner
from tagloom.errors import FormatError
from tagloom.records import Record
from tagloom.sequences import column_writers
from tagloom.sequences.files import CHUNK, Input, bad_byte_error, check_size
from tagloom.sequences.sentences import Sentence

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
UNKNOWN = "_"  # an unknown label in CoNLL-U

_FIELD = re.compile(r"([^ \t]+)")
_BLANK_LINE = re.compile(rb"^[ \t\r]*\n", re.MULTILINE)


class ColumnLayout(Record, frozen=False):
    """The columns of a file and their separator.

    Parameters
    ----------
    format : str
        "conll" or "conllu".
    sep : str
        One character; a blank means any run of blanks and tabs.
    names : list of str
        One per column.
    token, label : int
        Column of the token and of the label; ``label`` is -1 without labels.
    label_tail : int
        Column that is joined to the label by ``|``, for UPOS+FEATS; otherwise -1.
    id : int
        Column of the CoNLL-U ID; -1 for plain columns.
    comment : str or None
        Prefix of comment lines; "" for no comments. None recognises lines that start with "# ",
        stand before a sentence and do not have the right number of columns.
    unknown : str or None
        The value that means an unknown label.
    head : bytes
        The bytes before the first sentence: a byte order mark, a header row.
    has_header : bool
        Whether ``head`` ends in a row that names the columns.
    labelled : bool
        Whether labels are read; otherwise ``label`` is the column to write them to.
    """

    format: str
    sep: str
    names: list[str]
    token: int
    label: int
    label_tail: int = -1
    id: int = -1
    comment: str | None = None
    unknown: str | None = None
    head: bytes = b""
    has_header: bool = False
    labelled: bool = True
    tail: bytes = b""  # the bytes after the last sentence, once it is read
    first_row: str = ""  # the row that fixed the number of columns, for messages
    base: ColumnLayout | None = None  # the layout that this one extends, if any

    @cached_property
    def _scanners(self) -> dict[int, ColumnScanner]:
        return {}

    @property
    def scanner(self) -> ColumnScanner:
        """The native scanner for this layout."""
        return self.scanner_of(len(self.names))

    def scanner_of(self, n_columns: int) -> ColumnScanner:
        """Return the scanner for rows that have only the first ``n_columns`` columns yet."""
        if n_columns not in self._scanners:
            self._scanners[n_columns] = ColumnScanner(
                self.sep,
                n_columns,
                self.token,
                self.label if self.labelled else -1,
                self.label_tail,
                self.id,
                self.comment or "",
                self.comment is None,
                self.unknown,
            )
        return self._scanners[n_columns]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_scanners": {}, "base": None}  # recreated when needed

    @property
    def label_name(self) -> str | None:
        """Name of the label column, as a user would pass it."""
        if self.label < 0:
            return None
        name = self.names[self.label]
        return name if self.label_tail < 0 else f"{name}+{self.names[self.label_tail]}"

    def read(self, file: Input) -> Iterator[list[Sentence]]:
        """Yield the sentences of a file as they arrive; store the bytes after them in ``tail``."""
        make = Sentence._from_file
        for sentences, line in self._scan(file, self.scanner.scan):
            yield [make(x, y, raw, line + first, self) for raw, x, y, first in sentences]

    def relabel(
        self, file: Input, function: Callable[[list[list[str]]], list[list[str]]], column: int
    ) -> Iterator[bytes]:
        """Yield the bytes of a file as they arrive, with new values in one column.

        Parameters
        ----------
        file : Input
        function : callable
            Maps the tokens of some sentences to values, str that fit into a column.
        column : int
            Index of the column to write; the number of columns adds a new one.
        """
        scanner = self.scanner

        def scan(data: bytes, is_last: bool) -> Any:
            return scanner.relabel(data, is_last, function, column)

        return (data for data, _ in self._scan(file, scan))

    def _scan(self, file: Input, scan: Callable[[bytes, bool], Any]) -> Iterator[tuple[Any, int]]:
        """Scan a file piece by piece; yield each result and the line where its piece begins."""
        parts, size, kept = [b""], CHUNK, 0  # kept: bytes in the parts
        line, offset = 1 + self.head.count(b"\n"), len(self.head)
        skip = len(self.head) - file.start
        while True:
            more = file.read(size)
            parts.append(more[skip:])
            kept += len(parts[-1])
            skip = 0
            # A sentence that arrives in many pieces is scanned once its end may have arrived.
            if more and not (b"\n" in more and _BLANK_LINE.search(more)):
                check_size(kept, file.name, line, "a blank line")
                continue
            data = b"".join(parts)
            scanned, consumed, n_lines, fault = scan(data, not more)
            yield scanned, line
            del scanned  # free its memory before the next scan
            if fault:
                raise self._error(data, fault, file.name, line, offset)
            parts = [data[consumed:]]
            if not more:
                self.tail = parts[0]
                return
            line, offset = line + n_lines, offset + consumed
            kept = len(parts[0])
            check_size(kept, file.name, line, "a blank line")
            # Many blank lines and no sentence: double the size, so that rescanning stays linear.
            size = max(CHUNK, kept)

    def can_hold(self, value: str) -> bool:
        """Whether a value fits into a column."""
        bad = " \t\r\n" if self.sep == " " else self.sep + "\r\n"
        return value != "" and not any(c in value for c in bad)

    def _error(self, data: bytes, fault: Any, name: str, line: int, offset: int) -> FormatError:
        kind, fault_line, begin, end, detail = fault
        line += fault_line
        if kind == "bytes":
            return bad_byte_error(data[detail], name, line, offset + detail)
        row = data[begin:end].decode("utf-8")
        fault_fields: Callable[..., dict[str, Any]] = getattr(self, f"_{kind}_fault")
        return FormatError(path=name, line=line, **fault_fields(row, detail))

    # One method per kind of fault that the scanner reports; each returns fields of an error.

    def _columns_fault(self, row: str, n_found: int) -> dict[str, Any]:
        n = len(self.names)
        expected = f"{n} column{'s' * (n != 1)}{self.first_row}"
        fields = {"expected": expected, "found": f"{n_found} in {checks.show(row)}"}
        sep = "\t" if "\t" in row else " "
        n_other = row.count("\t") + 1 if sep == "\t" else len(_FIELD.findall(row))
        if row.startswith("#") or self.first_row.endswith("#,"):
            hint, options = "If this is a comment, pass {comment}.", {"comment": "#"}
        elif self.format == "conllu":
            hint = "CoNLL-U columns are separated by tabs. For plain columns, pass {format}."
            options = {"format": "conll"}
        elif n == n_other:
            hint, options = "Wrong separator? Try {sep}.", {"sep": sep}
        else:
            hint = "Every row needs the same columns: {columns} names them, {sep} separates them."
            return {**fields, "hint": hint, "options": {"columns": ..., "sep": ...}}
        return {**fields, "hint": hint, "options": options}

    def _comment_fault(self, row: str, _: int) -> dict[str, Any]:
        return {
            "expected": f"a token in {len(self.names)} columns or a comment",
            "found": f"{checks.show(row)}, which may be either",
            "hint": "Pass {comment} if it is a comment, or an empty one if the file has none.",
            "options": {"comment": "#"},
        }

    def _id_fault(self, row: str, _: int) -> dict[str, Any]:
        return {
            "expected": "an ID such as 3, 3-4 or 3.1 in column 1",
            "found": checks.show(row),
            "hint": "If this is not CoNLL-U, pass {format}.",
            "options": {"format": "conll"},
        }

    def _token_fault(self, row: str, _: int) -> dict[str, Any]:
        found = f"an empty one in {checks.show(row)}"
        return {"expected": "a token", "found": found, "hint": "Remove or fill the row."}

    def _label_fault(self, row: str, _: int) -> dict[str, Any]:
        return {
            "expected": "a label",
            "found": f"an empty one in {checks.show(row)}",
            "hint": "If that means unknown, pass {unknown}.",
            "options": {"unknown": ""},
        }

    def columns(self, raw: bytes) -> dict[str, list[str]]:
        """Split the bytes of one sentence into named columns."""
        return dict(zip(self.names, self.scanner.columns(raw), strict=True))

    def split(self, row: str) -> list[str]:
        """Split one row into its fields."""
        return _FIELD.findall(row) if self.sep == " " else row.split(self.sep)

    def comments(self, raw: bytes) -> list[str]:
        """Find the comment lines among the bytes of one sentence."""
        rows = {line for line, _, _ in self.scanner.rows(raw)}
        lines = raw.decode("utf-8").split("\n")
        return [
            text.rstrip("\r")
            for line, text in enumerate(lines)
            if line not in rows and text.startswith(self.comment_starts)
        ]

    @property
    def comment_starts(self) -> tuple[str, ...]:
        """Prefixes of comment lines and of the line that starts a new document."""
        return (self.comment or "#", column_writers.NEW_DOCUMENT)

    def line_of(self, raw: bytes, token: int) -> int:
        """Return the line of ``raw``, counted from 0, that contains a token."""
        line: int = self.scanner.rows(raw)[token][0]
        return line

    def render(self, sentence: Sentence, where: str) -> bytes:
        """Write one sentence; ``where`` names it in messages."""
        return column_writers.render(self, sentence, where)

    def source_of(self, sentence: Sentence) -> ColumnLayout | None:
        """Return the layout of the sentence's file if this layout starts with its columns."""
        source = sentence._layout
        if not isinstance(source, ColumnLayout):
            return None
        extends = self.base is source or (
            self.format == source.format
            and self.sep == source.sep
            and self.token == source.token
            and self.names[: len(source.names)] == source.names
        )
        return source if extends else None
