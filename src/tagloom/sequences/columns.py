"""Column files: one token a row, a blank line after each sentence. CoNLL and CoNLL-U.

The native scanner finds sentences, tokens and labels; this file decides which column is which,
turns a fault into a message, and writes. A sentence that was read is written from its own bytes,
so comments, multiword tokens, empty nodes, line ends and odd blanks all survive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from tagloom._native import ColumnScanner
from tagloom.errors import FormatError
from tagloom.sequences.files import BOM, CHUNK, Input, bad_byte_error, check_size, sample_lines
from tagloom.sequences.sentences import Label, Sentence, show_label

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
UNKNOWN = "_"  # an unknown label in CoNLL-U

COLUMN_LIMIT = 10_000  # a row of more is a text on one line

_FIELD = re.compile(r"([^ \t]+)")
_BLANK_LINE = re.compile(rb"^[ \t\r]*\n", re.MULTILINE)


@dataclass
class ColumnLayout:
    """Which columns a file has, and how they are kept apart.

    Parameters
    ----------
    format : str
        "conll" or "conllu".
    sep : str
        One character; a blank means any run of blanks and tabs.
    names : list of str
        One per column.
    token, label : int
        Column of the token and of the label; ``label`` is -1 if there is none.
    label_tail : int
        Column that is joined to the label by ``|``, for UPOS+FEATS; otherwise -1.
    id : int
        Column of the CoNLL-U ID; -1 for plain columns.
    comment : str or None
        What a comment starts with; "" for no comments; None to recognise "# " lines that stand
        before a sentence and do not have the right number of columns.
    unknown : str or None
        What stands for an unknown label.
    head : bytes
        A byte order mark, a header row: what stands before the first sentence.
    has_header : bool
        Whether ``head`` ends in a row that names the columns.
    labelled : bool
        Whether the labels are read; otherwise ``label`` is only where they would be written.
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
    tail: bytes = b""  # what follows the last sentence, once it is read
    first_row: str = ""  # where the number of columns was seen, for messages
    base: ColumnLayout | None = None  # the layout that this one is made from, if it extends that
    _scanners: dict[int, ColumnScanner] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def scanner(self) -> ColumnScanner:
        """The native scanner for this layout."""
        return self._scanner(len(self.names))

    def _scanner(self, n_columns: int) -> ColumnScanner:
        """The scanner for rows to which not all columns are added yet."""
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
        return {**self.__dict__, "_scanners": {}, "base": None}  # made again when needed

    @property
    def label_name(self) -> str | None:
        """Name of the label's column, as a user would give it."""
        if self.label < 0:
            return None
        name = self.names[self.label]
        return name if self.label_tail < 0 else f"{name}+{self.names[self.label_tail]}"

    def read(self, file: Input) -> Iterator[list[Sentence]]:
        """Yield the sentences of a file as they arrive; what follows them is kept in ``tail``."""
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
            From the tokens of some sentences to the values, str that can stand in a column.
        column : int
            The number of columns for a new one after the last.
        """
        scanner = self.scanner

        def scan(data: bytes, is_last: bool) -> Any:
            return scanner.relabel(data, is_last, function, column)

        return (data for data, _ in self._scan(file, scan))

    def _scan(self, file: Input, scan: Callable[[bytes, bool], Any]) -> Iterator[tuple[Any, int]]:
        """Scan a file piece by piece; yields what was found and the line where the piece begins."""
        parts, size, kept = [b""], CHUNK, 0  # kept: bytes in the parts
        line, offset = 1 + self.head.count(b"\n"), len(self.head)
        skip = len(self.head) - file.start
        while True:
            more = file.read(size)
            parts.append(more[skip:])
            kept += len(parts[-1])
            skip = 0
            # A sentence that arrives in many pieces is scanned when its end may be there.
            if more and not (b"\n" in more and _BLANK_LINE.search(more)):
                check_size(kept, file.name, line, "a blank line")
                continue
            data = b"".join(parts)
            found, consumed, n_lines, fault = scan(data, not more)
            yield found, line
            del found  # before the next ones are made
            if fault:
                raise self._error(data, fault, file.name, line, offset)
            parts = [data[consumed:]]
            if not more:
                self.tail = parts[0]
                return
            line, offset = line + n_lines, offset + consumed
            kept = len(parts[0])
            check_size(kept, file.name, line, "a blank line")
            # Many blank lines and no sentence: double, so that scanning them anew stays linear.
            size = max(CHUNK, kept)

    def can_hold(self, value: str) -> bool:
        """Whether a value can stand in a column."""
        bad = " \t\r\n" if self.sep == " " else self.sep + "\r\n"
        return value != "" and not any(c in value for c in bad)

    def _error(self, data: bytes, fault: Any, name: str, line: int, offset: int) -> FormatError:
        kind, fault_line, begin, end, detail = fault
        line += fault_line
        if kind == "bytes":
            return bad_byte_error(data[detail], name, line, offset + detail)
        row = data[begin:end].decode("utf-8")
        shown = repr(row if len(row) <= 60 else row[:60] + "…")
        if kind == "columns":
            n = len(self.names)
            if "\t" in row:
                other, n_others = r'sep="\t".', row.count("\t") + 1
            else:
                other, n_others = 'sep=" ".', len(_FIELD.findall(row))
            if n == n_others:
                hint = f"Wrong separator? Try {other}"
            else:
                hint = "Every row needs as many: columns= names them, sep= keeps them apart."
            if row.startswith("#"):
                hint = 'If this is a comment, pass comment="#".'
            elif self.format == "conllu":
                hint = 'CoNLL-U columns are kept apart by tabs. Plain columns? format="conll".'
            return FormatError(
                f"expected {n} column{'s' * (n != 1)}{self.first_row}, found {detail} in {shown}. "
                f"{hint}",
                name,
                line,
            )
        if kind == "comment":
            return FormatError(
                f"cannot tell whether {shown} is a comment or a token in "
                f"{len(self.names)} columns. "
                'Pass comment="#" if it is one, comment="" if the file has none.',
                name,
                line,
            )
        if kind == "id":
            return FormatError(
                f"expected an ID such as 3, 3-4 or 3.1 in column 1, found {shown}. "
                'If this is not CoNLL-U, pass format="conll".',
                name,
                line,
            )
        if kind == "token":
            return FormatError(
                f"the token is empty in {shown}. Remove or fill the row.", name, line
            )
        return FormatError(
            f'the label is empty in {shown}. If that means unknown, pass unknown="".', name, line
        )

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
            if line not in rows and text.startswith(self._comment_starts)
        ]

    @property
    def _comment_starts(self) -> tuple[str, ...]:
        return (self.comment or "#", "-DOCSTART-")

    def line_of(self, raw: bytes, token: int) -> int:
        """Say on which line of ``raw``, counted from 0, a token stands."""
        line: int = self.scanner.rows(raw)[token][0]
        return line

    # Writing. `where` names the sentence in messages.

    def render(self, sentence: Sentence, where: str) -> bytes:
        """Write one sentence: from its own bytes if it was read with such columns."""
        if not sentence.tokens:
            raise FormatError(
                f"{where} has no tokens, and {self.format} cannot hold that. "
                "Leave it out, or write jsonl."
            )
        own = sentence._layout
        if isinstance(own, ColumnLayout) and self._extends(own):
            raw = self._relabel(sentence, own)
            if raw is not None:
                return raw
            self._check_lengths(sentence, where)
            raw = self._edit(sentence, own, where)
            if raw is not None:
                return raw
        self._check_lengths(sentence, where)
        fields = self._fields(sentence, where)
        rows = [
            self.sep.join(self._checked(column[t], f"{where}, token {t}") for column in fields)
            for t in range(len(sentence))
        ]
        for t, row in enumerate(rows):
            if row.startswith("-DOCSTART-"):
                raise FormatError(
                    f"{where}, token {t}: a row that starts with '-DOCSTART-' would be read as the "
                    "mark of a new document. Write jsonl."
                )
            if len(fields) == 1 and len(row.split()) > 1:
                raise FormatError(
                    f"{where}, token {t}: {row!r} alone in its row would be read as several "
                    "columns. Give labels, or write jsonl."
                )
        # Plain columns have no comments that all programs know: those of other formats stay out.
        keep = self.format == "conllu" or own is None or own.format == self.format
        comments = [c for c in sentence.comments if keep and c.startswith(self._comment_starts)]
        return "".join(f"{line}\n" for line in [*comments, *rows, ""]).encode("utf-8")

    def _check_lengths(self, sentence: Sentence, where: str) -> None:
        n = len(sentence)
        if sentence.labels is not None and len(sentence.labels) != n:
            raise FormatError(
                f"{where}: {n} tokens but {len(sentence.labels)} labels; they must agree."
            )
        for name, column in (sentence._columns or {}).items():
            if len(column) != n and name in self.names:
                raise FormatError(
                    f"{where}: {n} tokens but {len(column)} values in column {name!r}; "
                    "they must agree."
                )

    def _extends(self, own: ColumnLayout) -> bool:
        """Whether this layout has the columns of the sentence's own one, and perhaps more."""
        return self.base is own or (
            self.format == own.format
            and self.sep == own.sep
            and self.token == own.token
            and self.names[: len(own.names)] == own.names
        )

    def _relabel(self, sentence: Sentence, own: ColumnLayout) -> bytes | None:
        """Write a sentence whose labels alone may have changed; None if it is another case."""
        n = len(own.names)
        if len(self.names) > n + (self.label == n) or self.label_tail >= 0:
            return None
        if sentence._comments is not None and sentence._comments != own.comments(sentence._raw):
            return None
        columns, labels = sentence._columns, sentence.labels
        if labels is None and self.label >= 0 and own.labelled:
            labels = [None] * len(sentence)
        return own._scanner(n).put(
            sentence._raw,
            sentence.tokens,
            None if columns is None else [columns.get(name, []) for name in own.names],
            labels,
            self.label,
            self.unknown,
        )

    def _edit(self, sentence: Sentence, own: ColumnLayout, where: str) -> bytes | None:
        """Change what the user changed in the sentence's bytes; None if it has other rows now."""
        raw, n = sentence._raw, len(own.names)
        ((_, tokens, labels, _),) = own.scanner.scan(raw, True)[0]
        if len(tokens) != len(sentence):
            return None
        if sentence._comments is not None and sentence._comments != own.comments(raw):
            raw = own._with_comments(raw, sentence._comments)
        before = own.scanner.columns(raw)  # [n][T]
        given = sentence._columns or {}
        after = [[*(given.get(name) or before[i])] for i, name in enumerate(own.names)]
        for i, name in enumerate(self.names[n:], n):
            after.append([""] * len(tokens) if i == self.label else _column(given, name, where))
        for t, token in enumerate(sentence.tokens):
            if token != tokens[t]:
                after[self.token][t] = token
        moved = (self.label, self.label_tail) != (own.label, own.label_tail)
        if self.label >= 0 and (sentence.labels is not None or own.labelled):
            now = sentence.labels or [None] * len(tokens)
            for t, label in enumerate(now):
                if moved or labels is None or label != labels[t]:
                    for i, value in self._label_fields(label, f"{where}, token {t}"):
                        after[i][t] = value
        words = tokens
        for i, column in enumerate(after):
            if i < n and column == before[i]:
                continue
            for t, value in enumerate(column):
                self._checked(value, f"{where}, token {t}")
            scanner = self._scanner(i) if i > n else own.scanner
            put = scanner.put(raw, words, None, [*column], i, self.unknown)
            if put is None:
                raise FormatError(
                    f"{where}: with its new words a row would be read as a comment. Write jsonl."
                )
            raw = put
            if i == self.token:
                words = column
        return raw

    def _with_comments(self, raw: bytes, comments: list[str]) -> bytes:
        rows = {line for line, _, _ in self.scanner.rows(raw)}
        lines = raw.decode("utf-8").split("\n")
        end = "\r" if lines[0].endswith("\r") else ""
        kept = [
            text
            for line, text in enumerate(lines)
            if line in rows or not text.startswith(self._comment_starts)
        ]
        return "\n".join([comment + end for comment in comments] + kept).encode("utf-8")

    def _fields(self, sentence: Sentence, where: str) -> list[list[str]]:
        """The values of every column of this layout, for a sentence that came from elsewhere."""
        n = len(sentence)
        labels = sentence.labels if sentence.labels is not None else [None] * n
        found: dict[int, list[str]] = {self.token: sentence.tokens}
        if self.id >= 0:
            found[self.id] = [str(t + 1) for t in range(n)]
        if self.label >= 0:
            for t, label in enumerate(labels):
                for i, value in self._label_fields(label, f"{where}, token {t}"):
                    found.setdefault(i, []).append(value)
        # Columns of a file whose rows are no longer the sentence's tokens are not its columns. A
        # copy is asked, so that writing does not make the sentence keep them.
        columns = {
            name: column for name, column in copy(sentence).columns.items() if len(column) == n
        }
        for i, name in enumerate(self.names):
            if i not in found and name not in columns and self.format == "conllu":
                found[i] = ["_"] * n
            elif i not in found:
                found[i] = _column(columns, name, where)
        return [found[i] for i in range(len(self.names))]

    def _label_fields(self, label: Label, where: str) -> list[tuple[int, str]]:
        if isinstance(label, frozenset):
            raise FormatError(
                f"{where}: the label is one of {show_label(label)}, and {self.format} holds one. "
                "Write jsonl, or choose."
            )
        if label is None and self.unknown is None:
            raise FormatError(
                f"{where}: the label is unknown, and {self.format} has no sign for that. "
                'Choose one, such as unknown="_", or write jsonl.'
            )
        if self.label_tail < 0:
            return [(self.label, self.unknown or "" if label is None else label)]
        head, _, tail = ("_", "", "_") if label is None else label.partition("|")
        return [(self.label, head), (self.label_tail, tail or "_")]

    def _checked(self, value: str, where: str) -> str:
        if not self.can_hold(value) and (value or value != self.unknown):
            hint = r'Try sep="\t".' if self.sep == " " and " " in value else "Write jsonl."
            raise FormatError(
                f"{where}: {value!r} cannot stand in a column that {self.sep!r} ends. {hint}"
            )
        return value


def _column(columns: dict[str, list[str]], name: str, where: str) -> list[str]:
    if name not in columns:
        known = ", ".join(["token", "label", *columns])
        raise FormatError(f"{where} has no column {name!r}. It has: {known}.")
    return columns[name]


def columns_layout(
    file: Input,
    format: str,
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
    """Find out which columns a file has; returns the layout and what was guessed."""
    lines = sample_lines(file)
    head = BOM if file.has_bom else b""
    notes = []
    if format == "conllu":
        names, sep = list(columns or CONLLU), sep or "\t"
        first = lines[0] if lines else ""
        if columns is None and (match := _GLOBAL_COLUMNS.match(first)):
            names, head = match[1].split(), head + file.peek(1)[0].split(b"\n", 1)[0] + b"\n"
            notes.append("columns named by # global.columns")
        layout = ColumnLayout(
            format, sep, names, 0, -1, id=0, comment="#", head=head, labelled=labelled
        )
        lower = [name.lower() for name in names]
        layout.id = lower.index("id") if "id" in lower else -1
        layout.token = find_column(token if token is not None else "form", names, file.name)
        if label is None and "upos" in lower:
            label = "upos"
            notes += ["labels from column 'upos'"] if labelled else []
        if label == "upos+feats":
            layout.label, layout.label_tail = (
                find_column(x, names, file.name) for x in label.split("+")
            )
        elif label is not None:
            layout.label = find_column(label, names, file.name)
        # An empty FEATS is a value: the word has no features.
        is_feats = layout.label >= 0 and lower[layout.label] == "feats"
        layout.unknown = unknown if unknown is not None else None if is_feats else UNKNOWN
        return layout, "; ".join(notes)

    skipped = ("# " if comment is None else comment) or "\0"  # a NUL starts no line
    first_line = next(
        (i for i, x in enumerate(lines) if x.strip() and not x.startswith(skipped)), 0
    )
    first = lines[first_line] if lines else ""
    if sep is None:
        # Blanks beside a tab would end up in the words, so both are then taken as blanks.
        is_tab = "\t" in first and " \t" not in first and "\t " not in first
        sep = "\t" if is_tab else " "
        notes.append("columns kept apart by " + ("tabs" if sep == "\t" else "blanks"))
    if len(sep) != 1 or not sep.isascii() or sep in "\r\n":
        raise FormatError(f'sep must be one ASCII character, such as "\\t" or " "; got {sep!r}.')
    layout = ColumnLayout(
        format, sep, [], 0, -1, comment=comment, unknown=unknown, head=head, labelled=labelled
    )
    fields = layout.split(first.rstrip("\r"))
    if len(fields) > COLUMN_LIMIT:
        raise FormatError(
            f"expected a token and its columns, found a row of {len(fields):,} columns. Is it one "
            'sentence a line? Pass format="text" or format="slash".',
            file.name,
            first_line + 1,
        )
    if columns is not None and not labelled and len(fields) == len(columns) - 1:
        # The file has all columns but that of the labels.
        place = find_column(-1 if label is None else label, columns, file.name)
        columns = [name for i, name in enumerate(columns) if i != place]
    if header is None and len(fields) > 1:
        header = fields == list(columns or ()) or (
            columns is None
            and all(x.lower() in _HEADER_WORDS for x in fields)
            and fields[0].lower() in _FORMS
        )
        notes += ["first row read as a header"] if header else []
    if not fields or not first.strip():  # nothing to read, so nothing to choose
        layout.names = list(columns or ["0"])
        return layout, ""
    if header:
        raw = b"\n".join(file.peek(1)[0].split(b"\n", first_line + 1)[: first_line + 1]) + b"\n"
        layout.head, layout.has_header = layout.head + raw, True
    layout.names = list(columns or (fields if header else map(str, range(len(fields)))))
    if len(set(layout.names)) < len(layout.names):
        raise FormatError(
            f"columns must have different names; got: {_some(layout.names)}.", file.name
        )
    layout.first_row = "" if columns else f" as on line {first_line + 1}"
    layout.token = find_column(token if token is not None else 0, layout.names, file.name)
    n = len(layout.names)
    if not labelled:
        layout.label = -1 if label is None else _find_column(label, layout.names)
    elif label is not None:
        layout.label = find_column(label, layout.names, file.name)
    elif n > 1:
        layout.label = n - 1 if layout.token != n - 1 else 0
        notes.append(f"labels from column {layout.names[layout.label]!r}")
    return layout, "; ".join(notes)


_GLOBAL_COLUMNS = re.compile(r"#\s*global\.columns\s*=\s*(.+)")
_FORMS = {"token", "tokens", "word", "words", "form"}
_HEADER_WORDS = _FORMS | {
    *("lemma", "pos", "upos", "xpos", "tag", "tags", "label", "labels", "ner", "chunk", "feats"),
    *("iob", "bio", "entity", "entities", "ner_tag", "pos_tag", "ner_tags", "pos_tags", "id"),
}


def find_column(which: str | int, names: Sequence[str], path: str | None) -> int:
    """Find a column by name, by name in another case, or by number."""
    found = _find_column(which, names)
    if found < 0:
        raise FormatError(f"there is no column {which!r}. The columns are: {_some(names)}.", path)
    return found


def _some(names: Sequence[str]) -> str:
    """Name columns in a message, which is one line however many there are."""
    more = f", … ({len(names):,} in all)" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more


def _find_column(which: str | int, names: Sequence[str]) -> int:
    if isinstance(which, int):
        return which % len(names) if -len(names) <= which < len(names) else -1
    if which in names:
        return list(names).index(which)
    lower = [name.lower() for name in names]
    return lower.index(which.lower()) if lower.count(which.lower()) == 1 else -1
