"""One sentence per line: ``word/TAG word/TAG``, the tag after the last slash, or words alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tagloom import checks
from tagloom.errors import FormatError
from tagloom.records import Record, field
from tagloom.sequences.faults import (
    check_lengths,
    check_not_empty,
    placed,
    several_labels,
    unknown_label,
)
from tagloom.sequences.files import BOM, Input
from tagloom.sequences.sentences import Label, Sentence

_ITEM = re.compile(r"([^ \t\r\n]+)")


class SlashLayout(Record, frozen=False):
    """The separator of word and tag, and what to read and write.

    Parameters
    ----------
    sep : str
        Separator of word and tag; the last one in an item counts.
    unknown : str or None
        The tag that means an unknown label.
    format : str
        "slash", or "text" for words alone.
    labelled : bool
        Whether the tags are read, or only the words.
    extra : list of str
        Further columns to write, each after another ``sep``.
    head : bytes
        A byte order mark.
    """

    sep: str = "/"
    unknown: str | None = None
    format: str = "slash"
    labelled: bool = True
    extra: list[str] = field(default_factory=list)
    head: bytes = b""
    tail: bytes = b""  # the bytes after the last sentence, once it is read
    label_name: str | None = None

    def read(self, file: Input) -> Iterator[list[Sentence]]:
        """Yield the sentences of a file as they arrive; store the bytes after them in ``tail``."""
        before, n_before = b"", 0  # blank lines belong to the sentence after them
        for lines in file.lines():
            batch: list[Sentence] = []
            for line, raw in lines:
                if not raw.strip():
                    before, n_before = before + raw, n_before + 1
                    continue
                items = _ITEM.findall(raw.decode("utf-8"))
                try:
                    tokens, labels = (items, None) if self.format == "text" else self._split(items)
                except FormatError as error:
                    yield batch
                    raise placed(error, file.name, line) from None
                batch.append(
                    Sentence._from_file(tokens, labels, before + raw, line - n_before, self)
                )
                before, n_before = b"", 0
            yield batch
        self.tail = before

    def _split(self, items: list[str]) -> tuple[list[str], list[Label] | None]:
        tokens: list[str] = []
        labels: list[Label] = []
        for item in items:
            token, sep, label = item.rpartition(self.sep)
            if not (token and sep and (label or self.unknown == "")):
                raise FormatError(
                    expected=f"word{self.sep}TAG",
                    found=f"{checks.show(item)} as item {len(tokens) + 1}",
                    hint="If word and tag have another separator, pass {sep}.",
                    options={"sep": ...},
                )
            tokens.append(token)
            labels.append(None if label == self.unknown else label)
        return tokens, labels if self.labelled else None

    def columns(self, raw: bytes) -> dict[str, list[str]]:
        """Return an empty tuple: slash format has tokens and labels only."""
        return {}

    def comments(self, raw: bytes) -> list[str]:
        """Return no comments: the format has none."""
        return []

    def line_of(self, raw: bytes, token: int) -> int:
        """Return the line of ``raw`` that holds the sentence; the lines before it are blank."""
        return raw.rstrip().count(b"\n")

    def render(self, sentence: Sentence, where: str) -> bytes:
        """Write one sentence, from its original bytes if it was read with such a layout."""
        check_not_empty(sentence, "slash", where)
        check_lengths(sentence, where)
        labels = sentence.labels if sentence.labels is not None else [None] * len(sentence)
        if self.format == "text" and sentence.labels is not None:
            raise FormatError(
                where=where,
                expected="no labels, which plain text cannot hold",
                found="labels",
                hint="Pass {format}.",
                options={"format": "slash"},
            )
        items = [
            self._item(token, label, f"{where}, token {t}")
            for t, (token, label) in enumerate(zip(sentence.tokens, labels, strict=True))
        ]
        for name in self.extra:
            values = sentence.columns.get(name)
            if values is None or len(values) != len(items):
                raise FormatError(
                    where=where,
                    parameter="append",
                    expected="columns with one value per token",
                    found=repr(name),
                )
            items = [f"{item}{self.sep}{x}" for item, x in zip(items, values, strict=True)]
        if isinstance(sentence._layout, SlashLayout):
            comments = "".join(f"{line}\n" for line in sentence._comments or ())
            pieces = _ITEM.split(sentence._raw.decode("utf-8"))
            if len(pieces) == 2 * len(items) + 1:
                pieces[1::2] = items
                return (comments + "".join(pieces)).encode("utf-8")
        return f"{' '.join(items)}\n".encode()

    def _item(self, token: str, label: Label, where: str) -> str:
        if self.format == "text":
            if _ITEM.fullmatch(token):
                return token
            raise FormatError(
                where=where, expected="one word", found=repr(token), hint="Write jsonl."
            )
        if isinstance(label, frozenset):
            raise several_labels(label, "slash", where)
        if label is None:
            if self.unknown is None:
                raise unknown_label("slash", where)
            label = self.unknown
        item = f"{token}{self.sep}{label}"
        is_whole = token and label != "" and self.sep not in label and _ITEM.fullmatch(item)
        if not is_whole and not (label == self.unknown == "" and _ITEM.fullmatch(token)):
            raise FormatError(
                where=where,
                expected=f"a word and a label that fit word{self.sep}TAG",
                found=f"{token!r} with {label!r}",
                hint="Choose another {sep}, or write jsonl.",
                options={"sep": ...},
            )
        return item


def slash_layout(
    file: Input,
    format: str,
    *,
    sep: str | None = None,
    unknown: str | None = None,
    labelled: bool = True,
) -> tuple[SlashLayout, str]:
    """Return the layout of a word/TAG file, or of plain text."""
    if sep is not None and (not sep or _ITEM.fullmatch(sep) is None):
        raise FormatError(
            path=file.name,
            parameter="sep",
            expected="a separator of word and tag without blanks",
            found=repr(sep),
        )
    head = BOM if file.has_bom else b""
    return SlashLayout(sep or "/", unknown, format, labelled, head=head), ""
