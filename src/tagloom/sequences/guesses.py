"""Guess the format of a file from its name and its first lines.

Every guess comes with its reason. If two formats fit, or none, the error names what to pass.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

from tagloom import checks
from tagloom.errors import FormatError
from tagloom.records import Record
from tagloom.sequences.files import (
    SAMPLE,
    Input,
    check_first_lines,
    sample_lines,
    split_suffix,
)
from tagloom.storage import is_model

FORMATS = {
    "conll": "CoNLL columns",
    "conllu": "CoNLL-U",
    "csv": "a table with quotes",
    "slash": "word/TAG lines",
    "text": "plain text",
    "jsonl": "JSONL with tokens and labels",
    "jsonl-spans": "JSONL with text and spans",
    "json": "a JSON array with tokens and labels",
    "json-spans": "a JSON array with text and spans",
    "spacy": "spaCy's pairs of text and entities",
    "label-studio": "tasks of Label Studio",
    "brat": "annotations of brat and their text",
    "crfsuite": "CRFsuite's labels and attributes",
    "docbin": "a DocBin of spaCy",
    "parquet": "a Parquet file",
    "arrow": "an Arrow table",
}
SUFFIXES = {
    ".conllu": "conllu",
    ".conllup": "conllu",
    ".conll": "conll",
    ".tsv": "conll",
    ".csv": "csv",
    ".iob": "conll",
    ".iob2": "conll",
    ".bio": "conll",
    ".col": "conll",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".ann": "brat",
    ".spacy": "docbin",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
#: Suffixes of formats that are not written; the content of such a file would contradict its name.
NOT_WRITTEN = (
    *(".xml", ".html", ".xlsx"),
    *(".pkl", ".npy", ".tagloom"),
)
#: Formats of objects whose values stand in one array; the others have one value per line.
ARRAYS = ("json", "json-spans", "spacy", "label-studio")
#: Formats that are not text. The others have lines.
BINARY = ("docbin", "parquet", "arrow")
# First bytes of tables. A stream of Arrow, as Hugging Face saves it, starts with a marker.
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}


def guess_binary(file: Input) -> tuple[str, str] | None:
    """Recognise a file that is not text, by its name or its first bytes; else return None.

    It waits for no more bytes than it needs: at a terminal, the first line must get an answer.
    """
    if split_suffix(file.name)[0] == ".spacy":
        return "docbin", "by the name .spacy"
    size = 1
    while True:
        data, is_all = file.peek(size)
        for magic, format in _MAGIC.items():
            if data.startswith(magic):
                return format, "by its first bytes"
        if is_all or not any(magic.startswith(data) for magic in _MAGIC):
            return None
        size = len(data) + 1


def guess_file(file: Input) -> tuple[str, str]:
    """Guess the format of an open file, as `guess_format` does, also if it is not text."""
    return guess_binary(file) or guess_text(file, sample_lines(file, SAMPLE))


def guess_text(file: Input, lines: list[str]) -> tuple[str, str]:
    """Guess the format of an open text file; bytes in another encoding are the first suspects."""
    try:
        return guess_format(file.name, lines)
    except FormatError:
        check_first_lines(file)
        raise


def guess_format(path: str, lines: list[str]) -> tuple[str, str]:
    """Guess a file's format.

    Parameters
    ----------
    path : str
        Name of the file.
    lines : list of str
        Its first lines.

    Returns
    -------
    format : str
        A key of ``FORMATS``.
    why : str
        The reason for the guess.

    Raises
    ------
    FormatError
        If more than one format fits, or none.
    """
    sample = _Sample(path, lines)
    for rule in _RULES:
        guess = rule(sample)
        if guess is not None:
            return guess
    raise _unknown_format(sample)


class _Sample(Record):
    """The basis of a guess: the name of a file and its first lines.

    ``rows`` are the lines that are neither blank nor comments; ``named`` is the format that the
    file's suffix implies, if any.
    """

    path: str
    lines: list[str]

    @cached_property
    def suffix(self) -> str:
        return split_suffix(self.path)[0]

    @cached_property
    def named(self) -> str | None:
        return SUFFIXES.get(self.suffix)

    @cached_property
    def rows(self) -> list[str]:
        kept = (line for line in self.lines if line.strip() and not line.startswith("# "))
        return [line.strip(" \t\r") for line in kept]

    @cached_property
    def is_text(self) -> bool:
        return not any("\0" in line for line in self.lines)


# Patterns are compiled when a format is guessed, for a quick start.
_FIELD = r"[^ \t]+"
_BRAT = r"T\d+\t\S+ \d+ \d+[;\t]"

_Guess: TypeAlias = tuple[str, str] | None  # the format and why; None if a rule does not apply


def _by_conllu_name_or_nothing(sample: _Sample) -> _Guess:
    """Use the name for CoNLL-U and for a file without rows."""
    if sample.named == "conllu" or (not sample.rows and sample.named):
        return sample.named, f"by the name {sample.suffix}"
    return None if sample.rows else ("conll", "the file is empty")


def _not_a_model(sample: _Sample) -> _Guess:
    if not sample.is_text and is_model(sample.path):
        raise FormatError(path=sample.path, expected="a file of sentences", found="a model")
    return None


def _by_brat(sample: _Sample) -> _Guess:
    """Recognise annotations of brat, whose tabs make them look like columns."""
    return ("brat", "by its first annotation") if re.match(_BRAT, sample.rows[0]) else None


def _by_attributes(sample: _Sample) -> _Guess:
    """Recognise a label and attributes such as ``w[0]=They`` in each row."""
    from tagloom.sequences.attribute_rows import look_like_attributes  # for a fast start

    is_theirs = sample.named is None and look_like_attributes(sample.rows)
    return ("crfsuite", "its rows are a label and attributes") if is_theirs else None


def _by_array(sample: _Sample) -> _Guess:
    """Use the first element of a JSON array."""
    from tagloom.sequences.arrays import first_value, is_array_start  # here, for a quick start

    text = "\n".join(sample.lines)
    if not is_array_start(text):
        _check_lines_of_arrays(sample)
        return None
    first = first_value(text)
    if isinstance(first, list) or (first is None and re.match(r"\s*\[\s*\[", text)):
        return "spacy", "its elements are pairs"
    keys = first if isinstance(first, dict) else re.findall(r'"(\w+)"\s*:', text)
    is_text = isinstance(first, dict) and isinstance(first.get("data"), str)
    if "data" in keys and not is_text and not {"tokens", "text"} & set(keys if first else ()):
        return "label-studio", "its objects have data"
    if ("text" in keys or is_text) and not _has_tokens(first, keys):
        return "json-spans", "its objects have text" + ", and no tokens" * ("tokens" not in keys)
    return "json", "by its first bracket"


def _check_lines_of_arrays(sample: _Sample) -> None:
    """Raise if each line is a pair of spaCy, which columns with blanks would otherwise fit."""
    try:
        first = json.loads(sample.rows[0]) if sample.rows[0].startswith('["') else None
    except (ValueError, RecursionError):
        return
    if isinstance(first, list):
        raise FormatError(
            path=sample.path,
            line=1,
            expected="one array of all pairs, or an object on each line",
            found=f"an array on a line, {checks.show(sample.rows[0], 40)}",
            hint="Join the lines to one array, as jq -s does.",
        )


def _by_object(sample: _Sample) -> _Guess:
    """Use the keys of the first JSON object."""
    first = sample.rows[0]
    if first.startswith("{"):
        return _guess_object(sample.path, first)
    if sample.named in ("jsonl", "json"):
        raise FormatError(
            path=sample.path,
            line=1,
            expected="a JSON object, because of the name",
            found=checks.show(first, 40),
            hint=PASS_FORMAT,
            options={"format": ...},
        )
    return None


def _by_conllu_rows(sample: _Sample) -> _Guess:
    if sample.lines[0].startswith("# global.columns"):
        return "conllu", "by its # global.columns"
    fields = sample.rows[0].split("\t")
    if len(fields) == 10 and fields[0].split("-")[0].split(".")[0].isdigit():
        return "conllu", "by its ten columns that start with an ID"
    return None


def _by_sentence_column(sample: _Sample) -> _Guess:
    """Accept a header with a sentence column, or with commas, which CoNLL columns do not have."""
    from tagloom.sequences.tables import is_table  # imported here for a fast start

    row = sample.rows[0]
    if any(is_table(row, sep) for sep in "\t,;|"):
        return "csv", "by the sentence column in its header"
    if any(is_table(row, sep, by_sentence=False) for sep in ",;|"):
        return "csv", "by the names in its first row"
    return None


def _by_name(sample: _Sample) -> _Guess:
    return (sample.named, f"by the name {sample.suffix}") if sample.named else None


def _by_tabs(sample: _Sample) -> _Guess:
    return ("conll", "by its tabs") if "\t" in sample.rows[0] else None


def _by_document_mark(sample: _Sample) -> _Guess:
    """Accept the row that begins a document of CoNLL-2003, also before sentences of one word."""
    from tagloom.sequences.column_writers import NEW_DOCUMENT  # imported here for a fast start

    is_mark = sample.rows[0].split()[0] == NEW_DOCUMENT
    return ("conll", f"by its {NEW_DOCUMENT}") if is_mark else None


def _by_blanks(sample: _Sample) -> _Guess:
    """Accept rows with equal numbers of columns, or items with a slash each, but not both."""
    # Other Unicode spaces, such as a no-break space, are part of a word, as in the readers.
    items = [re.findall(_FIELD, row) for row in sample.rows[:100]]
    is_slash = all("/" in item[1:-1] for row in items for item in row)
    widths = {len(row) for row in items}
    is_columns = len(widths) == 1 and len(items[0]) > 1
    # Lines that stand alone between blank lines are sentences, even of equally many words.
    is_row = [bool(line.strip()) and not line.startswith("# ") for line in sample.lines]
    are_alone = not any(a and b for a, b in pairwise(is_row))
    if is_slash and (are_alone or not is_columns) and max(widths) > 1:
        return "slash", "every item has a slash"
    if is_columns and not is_slash and not are_alone:
        return "conll", f"every row has {len(items[0])} columns"
    return None


# From the strongest evidence to the weakest; the first rule that applies decides.
_RULES: tuple[Callable[[_Sample], _Guess], ...] = (
    _by_conllu_name_or_nothing,
    _not_a_model,
    _by_brat,
    _by_array,
    _by_object,
    _by_conllu_rows,
    _by_sentence_column,
    _by_name,
    _by_attributes,
    _by_tabs,
    _by_document_mark,
    _by_blanks,
)


def _guess_object(path: str, row: str) -> tuple[str, str]:
    try:
        first = json.loads(row)
    except (ValueError, RecursionError):
        return "jsonl", "by its first brace"  # the reader reports the error with its place
    from tagloom.sequences.objects import SPAN_KEYS  # here, for a quick start

    has_text = any(isinstance(first.get(key), str) for key in SPAN_KEYS.text)
    if not has_text and isinstance(first.get("data"), dict):
        raise FormatError(
            path=path,
            expected="one array of all tasks, as Label Studio exports them",
            found="a task on a line",
            hint="Join the lines to one array, as jq -s does.",
        )
    has_tokens = any(
        isinstance(tokens := first.get(key), list) and not (has_text and _are_places(tokens))
        for key in ("tokens", "words")
    )
    if has_tokens and has_text and "spans" in first and "labels" not in first:
        raise FormatError(
            path=path,
            expected="tokens, or text and spans",
            found="both in the first object",
            hint="Pass {format}: jsonl for the tokens, jsonl-spans for the text.",
            options={"format": ...},
        )
    if has_text and not has_tokens:
        return "jsonl-spans", "its objects have text" + ", and no tokens" * ("tokens" not in first)
    return "jsonl", "its objects have tokens" if has_tokens else "by its first brace"


def _has_tokens(first: Any, keys: Iterable[str]) -> bool:
    """Return whether an object with a text also has tokens; it is None if it is cut off."""
    found = {"tokens", "words"}.intersection(keys)
    return any(not isinstance(first, dict) or not _are_places(first[key]) for key in found)


def _are_places(tokens: Any) -> bool:
    """Return whether tokens are given by their places in the text of an object."""
    return isinstance(tokens, list) and len(tokens) > 0 and not isinstance(tokens[0], str)


def _unknown_format(sample: _Sample) -> FormatError:
    """Return the error for a file to which no rule applies."""
    if sample.lines[0].startswith("PK\x03\x04"):
        return FormatError(
            path=sample.path,
            expected="a text file",
            found="a ZIP archive, as Excel and LibreOffice write them",
            hint="Save a spreadsheet as CSV, or extract the files of the archive.",
        )
    if not sample.is_text:
        return FormatError(
            path=sample.path,
            expected="a text file",
            found="NUL bytes",
            hint="If it is text in UTF-16, pass {encoding}.",
            options={"encoding": "utf-16"},
        )
    return _uneven_columns(sample) or FormatError(
        path=sample.path,
        expected="a known format",
        found=f"{checks.show(sample.rows[0])} in the first row",
        hint=PASS_FORMAT,
        options={"format": ...},
    )


def _uneven_columns(sample: _Sample) -> FormatError | None:
    """Return the error for columns if most rows have the same number of them, but not all."""
    widths = Counter(len(re.findall(_FIELD, row)) for row in sample.rows)
    width, n = widths.most_common(1)[0]
    if width == 1 or not len(sample.rows) / 2 < n < len(sample.rows):
        return None
    row = next(row for row in sample.rows if len(re.findall(_FIELD, row)) != width)
    return FormatError(
        path=sample.path,
        line=next(i for i, line in enumerate(sample.lines, 1) if line.strip(" \t\r") == row),
        expected=f"{width} columns, as in most rows",
        found=f"{checks.plural(len(re.findall(_FIELD, row)), 'column')}: {checks.show(row, 40)}",
        hint="Correct the row, or pass {format} if these are not columns.",
        options={"format": ...},
    )


PASS_FORMAT = f"Pass {{format}}: {', '.join(FORMATS)}."
