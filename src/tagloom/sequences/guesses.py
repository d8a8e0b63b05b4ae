"""Which format a file has, from its name and its first lines; never silently.

Every guess comes with its reason. Where two formats would fit, or none, the error says what to
pass.
"""

from __future__ import annotations

import json

from tagloom.errors import FormatError
from tagloom.sequences.files import split_suffix
from tagloom.storage import is_model

FORMATS = {
    "conll": "CoNLL columns",
    "conllu": "CoNLL-U",
    "slash": "word/TAG lines",
    "text": "plain text",
    "jsonl": "JSONL with tokens and labels",
    "jsonl-spans": "JSONL with text and spans",
}
SUFFIXES = {
    ".conllu": "conllu",
    ".conllup": "conllu",
    ".conll": "conll",
    ".tsv": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".bio": "conll",
    ".col": "conll",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


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
        What the guess rests on.

    Raises
    ------
    FormatError
        If more than one format fits, or none.
    """
    suffix = split_suffix(path)[0]
    named = SUFFIXES.get(suffix)
    rows = [line.strip(" \t\r") for line in lines if line.strip() and not line.startswith("# ")]
    if named == "conllu" or (not rows and named):
        return named, f"by the name {suffix}"
    if not rows:
        return "conll", "the file is empty"
    is_text = not any("\0" in line for line in lines)
    if not is_text and is_model(path):
        raise FormatError("this is a model, not a corpus. Read it with tagloom.load(path).", path)
    if rows[0].startswith("{"):
        return _guess_object(path, rows[0])
    if named == "jsonl":
        raise FormatError(
            f"the name says JSONL, but the file starts with {rows[0][:40]!r}. {_pass()}", path, 1
        )
    if any(line.startswith("# global.columns") for line in lines[:1]):
        return "conllu", "by its # global.columns"
    fields = rows[0].split("\t")
    if len(fields) == 10 and fields[0].split("-")[0].split(".")[0].isdigit():
        return "conllu", "by its ten columns that start with an ID"
    if named:
        return named, f"by the name {suffix}"
    if len(fields) > 1:
        return "conll", "by its tabs"
    items = [row.split() for row in rows[:100]]
    is_slash = all("/" in item[1:-1] for row in items for item in row)
    widths = {len(row) for row in items}
    is_columns = len(widths) == 1 and len(items[0]) > 1
    if is_slash and not is_columns and max(widths) > 1:
        return "slash", "every item has a slash"
    if is_columns and not is_slash and len(items) > 1:
        return "conll", f"every row has {len(items[0])} columns"
    if not is_text:
        raise FormatError(
            "there are NUL bytes in it: this is not a text file, or it is UTF-16. "
            'Then pass encoding="utf-16".',
            path,
        )
    if suffix == ".csv":
        raise FormatError(
            'columns kept apart by commas are read with format="conll" and sep=","; expected no '
            "quoted fields, and a blank line after each sentence.",
            path,
        )
    raise FormatError(f"cannot tell the format: the first row is {rows[0][:60]!r}. {_pass()}", path)


def _guess_object(path: str, row: str) -> tuple[str, str]:
    try:
        first = json.loads(row)
    except ValueError:
        return "jsonl", "by its first brace"  # the reader says what is wrong, and where
    has_tokens = any(isinstance(first.get(key), list) for key in ("tokens", "words"))
    has_text = isinstance(first.get("text"), str)
    if has_tokens and has_text and "spans" in first:
        raise FormatError(
            "cannot tell the format: the first object has tokens, but text and spans too. "
            'Pass format="jsonl" or format="jsonl-spans".',
            path,
        )
    if has_text and not has_tokens:
        return "jsonl-spans", "its objects have text, and no tokens"
    return "jsonl", "its objects have tokens" if has_tokens else "by its first brace"


def _pass() -> str:
    return "Pass format=, one of " + ", ".join(map(repr, FORMATS)) + "."
