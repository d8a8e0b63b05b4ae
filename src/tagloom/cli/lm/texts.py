"""Texts and models as the commands of ``tagloom lm`` read and write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from tagloom import storage
from tagloom.errors import FormatError, InfeasibleError, SentenceError
from tagloom.language import NGramModel
from tagloom.language.tables import END, SPECIAL, START
from tagloom.language.units import UNITS
from tagloom.sequences import stream
from tagloom.sequences.files import Input, split_suffix
from tagloom.sequences.guesses import SUFFIXES

Command = Callable[..., Any]

_SPECIAL = frozenset({SPECIAL[START], SPECIAL[END]})


def unit_option(command: Command) -> Command:
    """Add ``--unit``, which ARPA files do not contain."""
    return click.option(
        "--unit",
        type=click.Choice(list(UNITS)),
        default="words",
        show_default=True,
        help="What the tokens of an ARPA file are.",
    )(command)


def encoding_option(command: Command) -> Command:
    """Add ``--encoding``."""
    return click.option(
        "--encoding", default="utf-8", show_default=True, help="Encoding of the text."
    )(command)


def load(path: str, unit: str) -> NGramModel:
    """Read a model file, or an ARPA file."""
    if path != "-" and storage.is_model(path):
        return NGramModel.load(path)
    return NGramModel.from_arpa(path, unit=unit)


def format_of(path: str, given: str | None) -> str:
    """Return the format of a text: as given, by its name, or plain text."""
    return given or SUFFIXES.get(split_suffix(path)[0], "text")


class Line(NamedTuple):
    """A line of a text, without its end, and where it stands."""

    path: str
    number: int  # from 1
    text: str

    def tokens(self, lm: NGramModel) -> Sequence[str]:
        """Split the line into the tokens of a model; raise FormatError for ``<s>``."""
        tokens = split(self.text, lm)
        if lm.unit == "words" and not _SPECIAL.isdisjoint(tokens):
            token = next(token for token in tokens if token in _SPECIAL)
            raise FormatError(
                path=self.path,
                line=self.number,
                expected="tokens of the text",
                found=f"{token!r}, which the model adds itself",
                hint="Leave it out.",
            )
        return tokens

    @contextmanager
    def named(self) -> Iterator[None]:
        """Report errors about a sentence as errors about this line."""
        try:
            yield
        except (SentenceError, InfeasibleError) as error:
            raise FormatError(
                error.message,
                path=self.path,
                line=self.number,
                expected=error.expected,
                found=error.found,
                hint=error.hint,
            ) from error


def read_lines(source: str, encoding: str) -> Iterator[list[Line]]:
    """Yield the lines of a text in batches, as they arrive."""
    file = Input(source, encoding)
    try:
        for batch in file.lines():
            yield [Line(file.name, n, raw.decode("utf-8").rstrip("\r\n")) for n, raw in batch]
    finally:
        file.close()


def read_text(
    path: str, lm: NGramModel, encoding: str, format: str | None = None
) -> list[Sequence[str]]:
    """Read the sentences of a text in any format; blank lines are skipped."""
    kind = format_of(path, format)
    if kind != "text":
        return [sentence.tokens for sentence in stream(path, kind, encoding=encoding)]
    lines = (line for batch in read_lines(path, encoding) for line in batch)
    return [line.tokens(lm) for line in lines if line.text.strip()]


def split(text: str, lm: NGramModel) -> Sequence[str]:
    """Split a text into the tokens of a model."""
    return text.split() if lm.unit == "words" else UNITS[lm.unit].split(text, None)


def join(text: Any) -> str:
    """Return the tokens of a sentence as a line."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return text if isinstance(text, str) else " ".join(text)
