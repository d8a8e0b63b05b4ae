"""The elements of a JSON array, one after another, so that a file of any size can be streamed.

A file of annotations is often one array on one line. Each element is parsed as soon as its bytes
have arrived; ``objects.py`` interprets it.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tagloom import checks
from tagloom.errors import FormatError
from tagloom.sequences.files import SAMPLE, Input, bad_byte_error, check_size

_BLANKS = re.compile(r"[ \t\r\n]*")
_NEAR_END = 16  # characters: an error this close to the end of the text may be a cut-off element
_START = re.compile(r'\[\s*(?:[\[{]\s*"|\])')

HEAD, SEPARATOR, TAIL = b"[\n", b",\n", b"\n]\n"  # of a new array


class Element(NamedTuple):
    """One element of an array."""

    value: Any
    raw: bytes
    line: int  # where it begins, counted from 1
    before: bytes  # the bytes between the element before it and this one


def is_array_start(text: str) -> bool:
    """Return whether a text begins like an array of objects or of arrays."""
    return _START.match(text.lstrip()) is not None


def first_value(text: str) -> Any:
    """Return the first element of an array; None if the text does not contain it whole."""
    at = _BLANKS.match(text, text.find("[") + 1)
    try:
        return json.JSONDecoder().raw_decode(text, at.end() if at else 0)[0]
    except (ValueError, RecursionError):  # cut off, or malformed: `elements` reports the place
        return None


def first_element(file: Input) -> Any:
    """Return the first element of a file's array without consuming it; None if it has none."""
    size = 1
    while True:
        data, is_all = file.peek(size)
        value = first_value(data.decode("utf-8", "replace"))
        if value is not None or is_all or len(data) > 64 * SAMPLE:
            return value
        size = 2 * len(data) + 1


class Elements:
    """Iterates over the elements of a file, in lists, as they arrive.

    Attributes
    ----------
    head, tail : bytes
        The bytes before the first element and after the last one, once they are read.
    """

    def __init__(self, file: Input) -> None:
        self.head = self.tail = b""
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text, self._at = "", 0  # text that has arrived; everything before at is parsed
        self._line, self._offset = 1, file.start  # of the text's first character
        self._column = 0  # characters of its line before it
        self._is_all = False

    def __iter__(self) -> Iterator[list[Element]]:
        decoder = json.JSONDecoder()
        self._skip_blanks()
        if not self._text:
            return
        self._take("[", "an array of sentences")
        batch: list[Element] = []
        start, is_first = 0, True
        while True:
            self._skip_blanks()
            if self._peek() == "]":
                self._at += 1
                self.tail = self._rest_of_file(start)
                if is_first:
                    self.head, self.tail = self.tail, b""
                yield batch
                return
            if not is_first:
                self._take(",", "a comma or ] after an element")
                self._skip_blanks()
            begin = self._at
            value, end = self._decode(decoder, batch)
            before = self._text[start:begin].encode("utf-8")
            if is_first:
                self.head, is_first = before, False
            line = self._line + self._text.count("\n", 0, begin)
            batch.append(Element(value, self._text[begin:end].encode("utf-8"), line, before))
            self._at = end
            if len(self._text) - end < SAMPLE // 2 or len(batch) >= 256:
                self._drop(end)
                yield batch
                batch = []
            start = self._at

    def _drop(self, end: int) -> None:
        """Drop the parsed text."""
        line_end = self._text.rfind("\n", 0, end)
        self._column = self._column + end if line_end < 0 else end - line_end - 1
        self._line += self._text.count("\n", 0, end)
        self._offset += len(self._text[:end].encode("utf-8"))
        self._text, self._at = self._text[end:], 0

    def _decode(self, decoder: json.JSONDecoder, batch: list[Element]) -> tuple[Any, int]:
        while True:
            try:
                return decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.pos >= len(self._text) - _NEAR_END
                if (is_cut or error.msg.startswith("Unterminated")) and self._more():
                    continue
                raise self._fault(error.pos, "valid JSON", error.msg) from None
            except (ValueError, RecursionError) as error:
                raise self._fault(self._at, "valid JSON", str(error)) from None

    def _more(self) -> bool:
        """Read on, at least as much as has arrived, so that long elements take linear time."""
        size = len(self._text) - self._at
        line = self._line + self._text.count("\n", 0, self._at)
        check_size(size, self._file.name, line, "a bracket")
        data = b""
        while not self._is_all and len(data) <= size:
            part = self._file.read()
            self._is_all = not part
            data += part
        try:
            text = self._decoder.decode(data, self._is_all)
        except UnicodeDecodeError as error:
            line = self._line + self._text.count("\n") + data[: error.start].count(b"\n")
            offset = self._offset + len(self._text.encode("utf-8")) + error.start
            raise bad_byte_error(error.object[error.start], self._file.name, line, offset) from None
        self._text += text
        return bool(data)

    def _skip_blanks(self) -> None:
        while True:
            match = _BLANKS.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or not self._more():
                return

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, mark: str, expected: str) -> None:
        if self._peek() != mark:
            raise self._fault(self._at, expected, "")
        self._at += 1

    def _rest_of_file(self, start: int) -> bytes:
        """Return the bytes from ``start`` to the end, which must be blank after the bracket."""
        self._skip_blanks()
        if self._peek():
            raise self._fault(self._at, "nothing after the array", "")
        return self._text[start:].encode("utf-8")

    def _fault(self, at: int, expected: str, why: str) -> FormatError:
        before = self._text[:at]
        line_end = before.rfind("\n")
        column = self._column + at + 1 if line_end < 0 else at - line_end
        rest = self._text[at : at + 200].split("\n")[0]
        shown = checks.show(rest, 40) if rest else "the end of the file"
        more = f" ({why})" if why else ""
        return FormatError(
            path=self._file.name,
            line=self._line + before.count("\n"),
            expected=expected,
            found=f"{shown} at column {column}{more}",
        )
