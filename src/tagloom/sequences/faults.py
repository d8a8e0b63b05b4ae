"""Errors that the readers and writers of several formats share."""

from __future__ import annotations

from tagloom.errors import FormatError
from tagloom.sequences.sentences import Sentence, show_label


def placed(error: FormatError, path: str, line: int) -> FormatError:
    """Add the file and line of a sentence to its error."""
    error.path, error.line, error.where = path, line, f"{path}:{line}"
    return error


def check_not_empty(sentence: Sentence, format: str, where: str) -> None:
    """Raise if a sentence has no tokens; used by formats that cannot hold that."""
    if not sentence.tokens:
        raise FormatError(
            where=where,
            expected=f"a token, as {format} cannot hold an empty sentence",
            found="none",
            hint="Leave the sentence out, or write jsonl.",
        )


def check_lengths(sentence: Sentence, where: str) -> None:
    """Raise if a sentence has labels, but not one per token."""
    n = len(sentence)
    if sentence.labels is not None and len(sentence.labels) != n:
        raise FormatError(
            where=where, expected=f"{n} labels, one per token", found=str(len(sentence.labels))
        )


def several_labels(label: frozenset[str], format: str, where: str) -> FormatError:
    """Return the error for a set of labels, in a format that holds one label per token."""
    return FormatError(
        where=where,
        expected=f"one label, as {format} cannot hold several",
        found=f"one of {show_label(label)}",
        hint="Choose one, or write jsonl.",
    )


def unknown_label(format: str, where: str) -> FormatError:
    """Return the error for an unknown label, in a format that has no value for it."""
    return FormatError(
        where=where,
        expected=f"a known label, as {format} has no value for unknown ones",
        found="None (unknown)",
        hint="Choose a value, such as {unknown}, or write jsonl.",
        options={"unknown": "_"},
    )
