r"""CRFsuite's data format: a row per token with its label and attributes, tabs between them.

    B-NP	w=They	pos=PRP	length:4
    B-VP	w=fish	pos=VBP	length:4

A blank line ends a sentence. ``name:2.5`` gives an attribute a value other than 1; ``\:`` and
``\\`` stand for a colon and a backslash in names. A token is its row without the label;
``features="attributes"`` reads the attributes in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tagloom import checks
from tagloom.errors import FormatError
from tagloom.sequences.faults import (
    check_lengths,
    check_not_empty,
    placed,
    several_labels,
    unknown_label,
)
from tagloom.sequences.files import BOM, Input
from tagloom.sequences.sentences import Label, Sentence

_ATTRIBUTE = re.compile(r"((?:[^:\\]|\\.)*)(?::(.*))?", re.DOTALL)
_OTHER = re.compile(r"__[BE]OS__|[^=:]+:[-+.\de]+")  # attributes that have no "="
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse_attributes(token: str) -> dict[str, float]:
    r"""Read the attributes of a token in CRFsuite's notation.

    Parameters
    ----------
    token : str
        Attributes with tabs between them, each a name or ``name:value``.

    Returns
    -------
    dict of str to float
        The values of a repeated attribute are added.

    Raises
    ------
    FormatError
        If a value is not a finite number.

    Examples
    --------
    >>> parse_attributes("w=They\tlength:4\ttime=9\\:30")
    {'w=They': 1.0, 'length': 4.0, 'time=9:30': 1.0}
    """
    values: dict[str, float] = {}
    for field in token.split("\t"):
        match = _ATTRIBUTE.fullmatch(field)
        name, value = (field, None) if match is None else match.groups()
        if "\\" in name:
            name = _ESCAPED.sub(r"\1", name)
        if name:
            values[name] = values.get(name, 0.0) + (1.0 if value is None else _number(value, field))
    return values


def _number(text: str, field: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if value - value != 0:
        raise FormatError(
            expected="a number after the colon of an attribute",
            found=checks.show(field),
            hint="A colon that is part of the name is written \\:.",
        )
    return value


def format_attributes(values: Mapping[str, float]) -> str:
    r"""Write attributes in CRFsuite's notation.

    Parameters
    ----------
    values : mapping of str to float

    Returns
    -------
    str

    Raises
    ------
    FormatError
        If a name contains a tab or a line end.

    Examples
    --------
    >>> format_attributes({"w=They": 1.0, "length": 4.0, "time=9:30": 1.0})
    'w=They\tlength:4\ttime=9\\:30'
    """
    fields = []
    for name, value in values.items():
        if re.search(r"[\t\r\n]", name):
            raise FormatError(
                expected="names of attributes without tabs and line ends", found=checks.show(name)
            )
        escaped = name.replace("\\", "\\\\").replace(":", "\\:")
        fields.append(escaped if value == 1 else f"{escaped}:{value:.9g}")
    return "\t".join(fields)


@dataclass
class AttributeLayout:
    """Rows of a label and attributes.

    Parameters
    ----------
    labelled : bool
        Whether the labels are read; the first field is the label in any case.
    """

    labelled: bool = True
    format: str = "crfsuite"
    head: bytes = b""
    tail: bytes = b""
    label_name: str | None = None

    def read(self, file: Input) -> Iterator[list[Sentence]]:
        """Yield the sentences of a file as they arrive."""
        tokens: list[str] = []
        labels: list[Label] = []
        raw, first = b"", 1
        for lines in file.lines():
            batch: list[Sentence] = []
            for line, row in lines:
                raw += row
                text = row.decode("utf-8").rstrip("\r\n")
                if text.strip():
                    label, _, token = text.partition("\t")
                    try:
                        self._check(label, token)
                    except FormatError as error:
                        yield batch
                        raise placed(error, file.name, line) from None
                    labels.append(label)
                    tokens.append(token)
                elif tokens:
                    batch.append(self._sentence(tokens, labels, raw, first))
                    tokens, labels, raw, first = [], [], b"", line + 1
            yield batch
        if tokens:
            yield [self._sentence(tokens, labels, raw, first)]
        else:
            self.tail = raw

    def _check(self, label: str, token: str) -> None:
        if not label or label == "@weight" or label.startswith("@weight:"):
            raise FormatError(
                expected="a label before the first tab",
                found=checks.show(label),
                hint="Weights of sentences are the argument sample_weight of fit."
                if label
                else None,
            )
        parse_attributes(token)

    def _sentence(self, tokens: list[str], labels: list[Label], raw: bytes, line: int) -> Sentence:
        return Sentence._from_file(tokens, labels if self.labelled else None, raw, line, self)

    def columns(self, raw: bytes) -> dict[str, list[str]]:
        """Return no columns: a row has a label and attributes only."""
        return {}

    def comments(self, raw: bytes) -> list[str]:
        """Return no comments: the format has none."""
        return []

    def line_of(self, raw: bytes, token: int) -> int:
        """Return the line of a token, counted from the first of ``raw``."""
        rows = [i for i, row in enumerate(raw.split(b"\n")) if row.strip()]
        return rows[token]

    def render(self, sentence: Sentence, where: str) -> bytes:
        """Write one sentence."""
        check_not_empty(sentence, "crfsuite", where)
        check_lengths(sentence, where)
        if sentence.labels is None:
            raise FormatError(
                where=where, expected="labels, the first field of every row", found="none"
            )
        rows = []
        for t, (token, label) in enumerate(zip(sentence.tokens, sentence.labels, strict=True)):
            at = f"{where}, token {t}"
            if isinstance(label, frozenset):
                raise several_labels(label, "crfsuite", at)
            if label is None:
                raise unknown_label("crfsuite", at)
            if not label or re.search(r"[\t\r\n]", label) or re.search(r"[\r\n]", token):
                raise FormatError(
                    where=at,
                    expected="a label without tabs, and attributes on one line",
                    found=f"{label!r} and {checks.show(token)}",
                )
            rows.append(f"{label}\t{token}\n" if token else f"{label}\n")
        return ("".join(rows) + "\n").encode()


def attribute_layout(
    file: Input, format: str, *, labelled: bool = True
) -> tuple[AttributeLayout, str]:
    """Return the layout of a file of CRFsuite."""
    return AttributeLayout(labelled, head=BOM if file.has_bom else b""), ""


def look_like_attributes(rows: list[str]) -> bool:
    """Whether rows are labels and attributes such as ``w[0]=They``, not columns."""
    fields = [row.split("\t") for row in rows[:50]]
    attributes = [field for row in fields for field in row[1:]]
    named = sum("=" in field[1:] for field in attributes)
    others = sum(_OTHER.fullmatch(field) is not None for field in attributes)
    return (
        len({len(row) for row in fields}) + (len(fields[0]) > 2) > 1
        and all(len(row) > 1 and "=" not in row[0] for row in fields)
        and named >= others
        and named + others >= 0.8 * len(attributes)
    )
