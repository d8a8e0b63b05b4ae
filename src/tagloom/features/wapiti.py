r"""Wapiti pattern files, read unchanged.

    u:%x[-1,0]/%X[0,0]       tied to the label: token before, "/", token in lower case
    b                        every pair of labels has a weight
    *:%m[0,0,"..?$"]         tied to the label and, once more, to (previous label, label)

====================  ==============================================================
``%x[off,col]``       the value of a column at an offset from the current token
``%t[off,col,"re"]``  ``true`` or ``false``: does the regular expression match it?
``%m[off,col,"re"]``  the part of it that the regular expression matches, or nothing
``%X``, ``%T``, ``%M``  the same in lower case
``%x[@n,col]``        the n-th token of the sentence, counted from 1; -1 is the last
``%x[*n,col]``        offset by the number that column n holds
====================  ==============================================================

Blanks are allowed between the parts of a command. The values before the first token are ``_x-1`` to
``_x-4`` and then ``_x-#``, after the last token ``_x+1`` and so on; a regular expression is applied
to these like to any token. A # starts a comment.

Wapiti works on bytes and ASCII character classes: ``.`` is one byte, and ``%X`` leaves É unchanged.
So does this reader unless ``unicode=True``, which works on characters.
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from tagloom import checks
from tagloom.errors import SentenceError, TemplateError
from tagloom.features.expressions import QUOTED, Atom, Factor, Template
from tagloom.features.functions import Function
from tagloom.features.templates import Templates
from tagloom.sequences.files import read_lines

# Wapiti reads the numbers with sscanf, which skips blanks before each of them.
_COMMAND = re.compile(r"%([xXtTmM])\[\s*([@*]?)\s*([+-]?\d+)\s*,\s*(\d+)\s*")
_TEXT = re.compile(r',\s*"((?:[^"\\]|\\.)*)"\s*')


class WapitiTemplates(Templates):
    r"""The patterns of a Wapiti file.

    Parameters
    ----------
    lines : iterable of str
        Lines of the file, with or without line ends.
    path : str, optional
        Name of the file, for messages.
    unicode : bool, optional
        Whether regular expressions and lower-casing work on characters instead of bytes.

    Raises
    ------
    TemplateError
        If a pattern is malformed.

    Examples
    --------
    >>> from tagloom.features import WapitiTemplates
    >>> patterns = WapitiTemplates(['u:%X[0,0]', r'u:cap=%t[0,0,"^\u"]', "b"])
    >>> patterns.extract(["Mome", "raths"])
    [{'u:mome': 1.0, 'u:cap=true': 1.0}, {'u:raths': 1.0, 'u:cap=false': 1.0}]
    """

    def __init__(
        self, lines: Iterable[str], path: str | None = None, *, unicode: bool = False
    ) -> None:
        kept = [line.rstrip("\n") for line in lines]
        records = []
        transitions = False
        for number, line in enumerate(kept, start=1):
            line = line.split("#")[0].rstrip()
            if not line:
                continue
            where = f"{path}:{number}" if path else f"line {number}"
            if line[0] not in "uUbB*":
                raise TemplateError(
                    where=where,
                    expected="a pattern that starts with u (one label), b (two labels) or * (both)",
                    found=checks.show(line, QUOTED),
                )
            literals, factors = _read_line(line, where, unicode)
            line = line[0].lower() + line[1:]
            literals = (line[0] + literals[0][1:], *literals[1:])
            if line[0] in "u*":
                records.append(Template(line, literals, factors))
            if line[0] in "b*":
                if factors:
                    records.append(Template(line, literals, factors, edge=True))
                else:
                    transitions = True  # the same for all tokens
        saved = {"kind": "wapiti", "lines": kept, "unicode": unicode}
        self._build(records, saved, _outside, transitions=transitions)

    def _derived(
        self, column: tuple[Any, ...], X: Any, tokens: Sequence[Sequence[str]]
    ) -> Sequence[Sequence[str]]:
        """Apply a command to the tokens that it points to."""
        _, how, number, atom = column
        targets = self._column(atom.column, X, tokens)
        if how == "*":
            shifts = [
                [_whole_number(text, i, t) for t, text in enumerate(values)]
                for i, values in enumerate(self._column(number, X, tokens))
            ]
        function: Function = lru_cache(maxsize=None)(self._function(atom))
        derived = []
        for i, values in enumerate(targets):
            T = len(values)
            if how == "@":
                places = [number + T if number < 0 else number - 1] * T
            elif how == "*":
                places = [t + shift for t, shift in enumerate(shifts[i])]
            else:
                places = [t + number for t in range(T)]
            read = [
                values[p] if 0 <= p < T else _outside(p if p < 0 else p - T + 1) for p in places
            ]
            derived.append([function(value) or "" for value in read])
        return derived

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WapitiTemplates:
        """Make templates from the result of `to_dict`.

        Parameters
        ----------
        data : mapping

        Returns
        -------
        WapitiTemplates
        """
        return cls(data["lines"], unicode=bool(data["unicode"]))


def read_wapiti(path: str | os.PathLike[str], *, unicode: bool = False) -> WapitiTemplates:
    r"""Read a Wapiti pattern file.

    Columns are numbered as in the file, as in Wapiti. In a Sentence made in Python, column 0 is the
    tokens and the others follow.

    Parameters
    ----------
    path : path
    unicode : bool, optional
        Whether regular expressions and lower-casing work on characters instead of bytes. Wapiti
        works on bytes.

    Returns
    -------
    WapitiTemplates

    Raises
    ------
    TemplateError
        If a pattern is malformed; the error names file, line and character.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tagloom.features import read_wapiti
    >>> path = pathlib.Path(tempfile.mkdtemp(), "pattern")
    >>> _ = path.write_text('u:suffix=%m[0,0,"..?$"]  # at most two\nb\n')
    >>> read_wapiti(path).extract(["in"])
    [{'u:suffix=in': 1.0}]
    """
    return WapitiTemplates(read_lines(path), os.fspath(path), unicode=unicode)


def _outside(distance: int) -> str:
    """Return the value at a distance before (< 0) or after the sentence."""
    sign = "-" if distance < 0 else "+"
    return f"_x{sign}{abs(distance) if abs(distance) < 5 else '#'}"


def _whole_number(text: str, i: int, t: int) -> int:
    match = re.match(r"\s*[+-]?\d+", text)
    if match is None:
        raise SentenceError(
            where=checks.place(i, t),
            expected="an integer, in a column that a Wapiti pattern reads offsets from",
            found=repr(text),
        )
    return int(match[0])


def _read_line(line: str, where: str, unicode: bool) -> tuple[tuple[str, ...], tuple[Factor, ...]]:
    literals, factors, place = [""], [], 0

    def fail(expected: str) -> TemplateError:
        return TemplateError(
            where=f"{where}, {checks.show(line, QUOTED)}, character {place + 1}",
            expected=expected,
            found=repr(line[place : place + 12]),
        )

    while place < len(line):
        if line[place] != "%":
            literals[-1] += line[place]
            place += 1
            continue
        head = _COMMAND.match(line, place)
        if head is None:
            raise fail('%x[off,col], %t[off,col,"regexp"] or %m[off,col,"regexp"]')
        command, how, number, column = head[1], head[2], int(head[3]), int(head[4])
        place = head.end()
        function = None
        if command in "tTmM":
            text = _TEXT.match(line, place)
            if text is None:
                raise fail("a regular expression in double quotes after a comma")
            try:
                function = _matcher(text[1], command, unicode)
            except ValueError as error:
                raise fail(f"a regular expression of Wapiti; {error}") from None
            place = text.end()
        elif command == "X":
            function = _lower(unicode)
        if not line.startswith("]", place):
            raise fail("']'")
        place += 1
        atom = Atom(column, (("call", function),) if function else ())
        if how or (command in "tTmM" and number):  # applies to values outside the sentence too
            atom, number = Atom(("wapiti", how, number, atom)), 0
        factors.append(Factor(atom, number))
        literals.append("")
    return tuple(literals), tuple(factors)


# ---- the regular expressions of Wapiti -------------------------------------------------------
#
# A pattern is a sequence of characters, each with an optional repetition: `x*` matches as few times
# as possible, `x?` once if possible. ^ and $ are anchors at the start and end of the pattern, and
# plain characters elsewhere. The first match is taken.


@cache
def _lower(unicode: bool) -> Function:
    if unicode:
        return str.lower
    return lambda text: text.translate(_ASCII_LOWER)


_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@cache
def _matcher(pattern: str, command: str, unicode: bool) -> Function:
    """Make the function of a %t or %m; ValueError if the pattern is malformed."""
    if not unicode:  # a character for each byte
        pattern = pattern.encode().decode("latin-1")
    anchored = pattern.startswith("^")
    parts = _read_regex(pattern[anchored:], _UNICODE if unicode else _ASCII)

    def function(text: str) -> str:
        units = text if unicode else text.encode().decode("latin-1")
        for start in range(1 if anchored else len(units) + 1):
            end = _match(parts, 0, units, start)
            if end >= 0:
                break
        if command in "tT":
            return "true" if end >= 0 else "false"
        matched = units[start:end] if end >= 0 else ""
        if not unicode:
            matched = matched.encode("latin-1").decode("utf-8", "backslashreplace")
        return _lower(unicode)(matched) or "" if command == "M" else matched

    return function


_Test = Callable[[str], bool]
_ASCII: dict[str, _Test] = {
    "a": lambda c: c in string.ascii_letters,
    "d": lambda c: c in string.digits,
    "l": lambda c: c in string.ascii_lowercase,
    "p": lambda c: c in string.punctuation,
    "s": lambda c: c in string.whitespace,
    "u": lambda c: c in string.ascii_uppercase,
    "w": lambda c: c in string.ascii_letters + string.digits,
}
_UNICODE: dict[str, _Test] = {
    "a": str.isalpha,
    "d": str.isdigit,
    "l": str.islower,
    "p": lambda c: c.isprintable() and not c.isalnum() and not c.isspace(),
    "s": str.isspace,
    "u": str.isupper,
    "w": str.isalnum,
}
_END = None  # instead of a test: the end of the text


def _read_regex(pattern: str, classes: Mapping[str, _Test]) -> list[tuple[_Test | None, str]]:
    """Split a pattern into tests of one character, each with its repetition: "", "?" or "*"."""
    parts: list[tuple[_Test | None, str]] = []
    for match in re.finditer(r"(?s)(\\.|.)([*?]?)", pattern):
        unit, repeat = match[1], match[2]
        if unit in "*?":
            raise ValueError(f"{unit!r} has nothing to repeat: write \\{unit} for the character")
        if unit == "$" and not repeat and match.end() == len(pattern):
            parts.append((_END, ""))
        else:
            parts.append((_test(unit, classes), repeat))
    return parts


def _test(unit: str, classes: Mapping[str, _Test]) -> _Test:
    if unit == ".":
        return lambda c: True
    name = unit[1:]
    if name in classes:
        return classes[name]
    if name.lower() in classes:
        within = classes[name.lower()]
        return lambda c: not within(c)
    return (unit[-1]).__eq__


def _match(parts: list[tuple[_Test | None, str]], i: int, text: str, at: int) -> int:
    """Match parts[i:] from a position on; return where the match ends, or -1."""
    while i < len(parts):
        test, repeat = parts[i]
        if test is _END:
            return at if at == len(text) else -1
        fits = at < len(text) and test(text[at])
        if repeat == "*":
            while True:
                end = _match(parts, i + 1, text, at)
                if end >= 0:
                    return end
                if at >= len(text) or not test(text[at]):
                    return -1
                at += 1
        if repeat == "?":
            if fits:
                end = _match(parts, i + 1, text, at + 1)
                if end >= 0:
                    return end
        elif fits:
            at += 1
        else:
            return -1
        i += 1
    return at
