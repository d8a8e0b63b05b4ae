"""The template language: text in, plain records out.

    word[-1] & suffix(1..3)      →  three Template records, each a list of (Atom, offset)

A template is a conjunction of *factors*. A factor is an *atom*, a function of one token that gives
at most one string, at an offset from the current token. This module only parses; `templates`
computes the records on sentences. The files of other programs (`crfpp`, `wapiti`) become the same
records.

::

    template := "edge" "(" factors ")" | factors
    factors  := factor { "&" factor }
    factor   := call [ "[" number [ ".." number ] "]" ]
    call     := name [ "(" argument { "," argument } ")" ]
    argument := number [ ".." number ] | "text" | call
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple, NoReturn

from tagloom import checks
from tagloom.errors import TemplateError
from tagloom.records import Record

QUOTED = 200  # characters of a template that an error quotes
MOST_NUMBERS = 1000  # in a range, such as suffix(1..4)
MOST_TEMPLATES = 10_000  # of one expression
MOST_DIGITS = 9  # of a number, which the extractor keeps in 32 bits

#: A column: None for the tokens, a number or name for a further one, or one that Python derives
#: from others for the native extractor: ("lexicon", name, atom), and those of `wapiti`.
Column = int | str | tuple[object, ...] | None
#: A function and its arguments, such as ("suffix", 3); it maps a str to a str or None.
Step = tuple[object, ...]


class Atom(NamedTuple):
    """A function of one token: a column, and the functions applied to its value in turn."""

    column: Column
    steps: tuple[Step, ...] = ()


class Factor(NamedTuple):
    """An atom at an offset from the current token."""

    atom: Atom
    offset: int


class Template(NamedTuple):
    """A parsed template: literal text around the values of its factors.

    The name of an attribute is literals[0] + value 1 + literals[1] + ... + literals[n].
    """

    text: str  # as in attribute names
    literals: tuple[str, ...]  # [n + 1]
    factors: tuple[Factor, ...]  # [n]
    number: tuple[str | int, int] | None = None  # column and offset of the real value, if any
    edge: bool = False  # tied to (previous label, label) rather than to the label


#: Functions that are true or false of a word; the value for true is the empty string.
FLAGS = (
    *("digit", "digits", "decimal", "numeric", "alpha", "alnum", "ascii"),
    *("upper", "lowercase", "title", "punctuation", "hyphen", "date"),
)
#: Functions that give a value for every token. Beyond the ends of the sentence a
#: marker replaces it; the other functions have no value there.
WHOLE = ("lower", "shape", "short_shape", "cluster", "length", "call")
#: Every function, with examples of its use.
FUNCTIONS = {
    "word": "word",
    "lower": "lower",
    "prefix": 'prefix(3), prefix(1..4) or prefix("un", "re")',
    "suffix": 'suffix(3), suffix(1..4) or suffix("able", "ing")',
    "shape": "shape",
    "short_shape": "short_shape",
    "length": "length",
    **{flag: flag for flag in FLAGS},
    "regex": 'regex("^[0-9]+$")',
    "col": "col(pos)",
    "lexicon": "lexicon(cities)",
    "cluster": "cluster(brown) or cluster(brown, 4)",
    "value": "value(score)",
    "bias": "bias",
}


def parse(text: str, number: int | None = None) -> list[Template]:
    """Read one template; a range gives a template for each of its numbers.

    Parameters
    ----------
    text : str
        Such as ``"word[-1] & suffix(1..3)"``.
    number : int, optional
        Its place in a list, for messages.

    Returns
    -------
    list of Template

    Raises
    ------
    TemplateError
        If it is malformed; the error has the place and the expected text.

    Examples
    --------
    >>> from tagloom.features.expressions import parse
    >>> [template.text for template in parse("word[-1..1] & title")]
    ['word[-1]&title', 'word&title', 'word[1]&title']
    """
    return _Parser(text, number).template()


def quote(text: str) -> str:
    """Write a str so that the parser reads it back; backslashes stay as they are."""
    return '"' + re.sub(r'(?s)(\\.)|"', lambda m: m[1] or '\\"', text) + '"'


def name(text: str) -> str:
    """Write the name of a column or resource, in quotes only where it needs them."""
    return text if re.fullmatch(_NAME, text) else quote(text)


# ---- reading ---------------------------------------------------------------------------------

_OTHER_LANGUAGES = (
    "Templates of CRF++ and Wapiti are features.CRFppTemplates(lines) and WapitiTemplates(lines)."
)
_NAME = r"[^\W\d][\w:\-]*"
_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<name>{_NAME})
      | (?P<number>[+-]?\d+)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<mark>\.\.|[()\[\]&,])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)


class _Lexeme(Record):
    kind: str  # name, number, text, mark or end
    text: str
    place: int  # of its first character, counted from 0


class _Piece(Record):
    """A parsed call: its meaning and its text."""

    text: str
    atom: Atom | None = None  # None: `bias` or `value`
    number: str | int | None = None  # the column of `value`
    flag: bool = False  # has no value to show


class _Argument(Record):
    kind: str  # numbers, text, name or call
    value: object  # a list of int, a str, or a list of _Piece
    lexeme: _Lexeme


class _Parser:
    def __init__(self, text: str, number: int | None) -> None:
        self.text = text
        self.number = number
        self.lexemes = self._split()
        self.at = 0

    # -- words ---------------------------------------------------------------------------------

    def _split(self) -> list[_Lexeme]:
        lexemes: list[_Lexeme] = []
        place = 0
        while not lexemes or lexemes[-1].kind != "end":
            match = _TOKEN.match(self.text, place)
            if match is None:
                place += len(self.text[place:]) - len(self.text[place:].lstrip())
                character = self.text[place]
                if character in "\"'":
                    self.fail(place, "a text without its closing quote")
                self.fail(
                    place,
                    f"{character!r}, which is not part of the language",
                    advice=_OTHER_LANGUAGES if character == "%" else "",
                )
            kind = str(match.lastgroup)
            lexemes.append(_Lexeme(kind, match[kind], match.start(kind)))
            place = match.end()
        return lexemes

    def fail(self, place: int, found: str, expected: str = "", advice: str = "") -> NoReturn:
        which = "template" if self.number is None else f"template {self.number}"
        raise TemplateError(
            where=f"{which}, {checks.show(self.text, QUOTED)}, character {place + 1}",
            expected=expected or None,
            found=found,
            hint=advice or None,
        )

    def unexpected(self, expected: str, advice: str = "") -> NoReturn:
        lexeme = self.lexemes[self.at]
        found = "the end" if lexeme.kind == "end" else checks.show(lexeme.text, QUOTED)
        self.fail(lexeme.place, found, expected, advice)

    def next_is(self, *marks: str) -> bool:
        lexeme = self.lexemes[self.at]
        return lexeme.kind in ("mark", "end") and lexeme.text in marks

    def take(self, mark: str, expected: str, advice: str = "") -> None:
        if not self.next_is(mark):
            self.unexpected(expected, advice)
        self.at += 1

    # -- grammar -------------------------------------------------------------------------------

    def template(self) -> list[Template]:
        first = self.lexemes[0]
        edge = first.text == "edge" and self.lexemes[1].text == "("
        if edge:
            self.at = 2
        factors = [self.factor()]
        while self.next_is("&"):
            self.at += 1
            factors.append(self.factor())
        if edge:
            self.take(")", "'&' or ')'")
        if not self.next_is(""):
            self.unexpected("'&', '[' or the end" if not edge else "the end")
        n_templates = math.prod(map(len, factors))
        if n_templates > MOST_TEMPLATES:
            found = f"{n_templates:,} combinations of numbers in its ranges"
            self.fail(0, found, f"at most {MOST_TEMPLATES:,}")
        return [self.combine(choice, edge) for choice in product(*factors)]

    def factor(self) -> list[tuple[_Piece, int]]:
        """Read one factor; ranges give several."""
        pieces = self.call()
        offsets = [0]
        if self.next_is("["):
            opened = self.lexemes[self.at]
            self.at += 1
            offsets = self.numbers("an offset such as -1 or -2..2")
            self.take("]", "']'")
            if pieces[0].text == "bias":
                self.fail(opened.place, "an offset", advice="bias is the same everywhere.")
        return [(piece, offset) for offset in offsets for piece in pieces]

    def numbers(self, expected: str) -> list[int]:
        """Read ``3`` or ``1..4``."""
        ends = []
        for end in range(2):
            lexeme = self.lexemes[self.at]
            if lexeme.kind != "number":
                self.unexpected(expected if not end else "a number after '..'")
            if len(lexeme.text) > MOST_DIGITS:
                self.fail(lexeme.place, checks.show(lexeme.text), f"at most {MOST_DIGITS} digits")
            ends.append(int(lexeme.text))
            self.at += 1
            if not self.next_is(".."):
                break
            self.at += 1
        if ends[-1] < ends[0]:
            self.fail(lexeme.place, f"the range {ends[0]}..{ends[1]}", "the smaller number first")
        if ends[-1] - ends[0] >= MOST_NUMBERS:
            found = f"the range {ends[0]}..{ends[1]}"
            self.fail(lexeme.place, found, f"a range of at most {MOST_NUMBERS:,} numbers")
        return list(range(ends[0], ends[-1] + 1))

    def call(self) -> list[_Piece]:
        lexeme = self.lexemes[self.at]
        if lexeme.kind != "name":
            self.unexpected("a function such as word or suffix(3)")
        if lexeme.text not in FUNCTIONS:
            name = checks.show(lexeme.text, QUOTED)
            self.fail(lexeme.place, name, "a function", self.advice(lexeme))
        self.at += 1
        arguments = self.arguments() if self.next_is("(") else []
        return self.build(lexeme, arguments)

    def advice(self, lexeme: _Lexeme) -> str:
        if lexeme.text == "edge":
            return "edge(...) goes around a whole template."
        shifted = re.fullmatch(r"(\w+?)-(\d+)", lexeme.text)
        if shifted and shifted[1] in FUNCTIONS:
            return f"Did you mean '{shifted[1]}[-{shifted[2]}]'?"
        from difflib import get_close_matches  # here, for a quick start

        close = get_close_matches(lexeme.text.lower(), FUNCTIONS, 1)
        if close:
            return f"Did you mean {close[0]!r}?"
        return f"A column of the data is written col({lexeme.text})."

    def arguments(self) -> list[_Argument]:
        self.at += 1
        arguments = []
        while True:
            lexeme = self.lexemes[self.at]
            if lexeme.kind == "number":
                arguments.append(_Argument("numbers", self.numbers("a number"), lexeme))
            elif lexeme.kind == "text":
                self.at += 1
                mark = lexeme.text[0]
                inner = re.sub(rf"(?s)\\({mark})|(\\.)", r"\1\2", lexeme.text[1:-1])
                arguments.append(_Argument("text", inner, lexeme))
            elif lexeme.kind == "name" and self.lexemes[self.at + 1].text == "(":
                arguments.append(_Argument("call", self.call(), lexeme))
            elif lexeme.kind == "name":
                self.at += 1
                arguments.append(_Argument("name", lexeme.text, lexeme))
            else:
                self.unexpected("an argument")
            if not self.next_is(","):
                break
            self.at += 1
        self.take(")", "',' or ')'")
        return arguments

    # -- meaning -------------------------------------------------------------------------------

    def build(self, lexeme: _Lexeme, arguments: list[_Argument]) -> list[_Piece]:
        """Return the pieces that a function with these arguments computes."""
        function = lexeme.text
        if function in ("word", "bias"):
            self.no_more(lexeme, arguments)
            return [_Piece(function, Atom(None) if function == "word" else None, flag=False)]
        if function in ("col", "value"):
            column = self.column(lexeme, arguments)
            shown = name(column) if isinstance(column, str) else str(column)
            text = f"{function}({shown})"
            return [_Piece(text, Atom(column)) if function == "col" else _Piece(text, None, column)]
        if function in ("prefix", "suffix"):
            return self.affix(lexeme, arguments)
        if function == "regex":
            return self.regex(lexeme, arguments)
        if function in ("lexicon", "cluster"):
            return self.resource(lexeme, arguments)
        text, atom = self.inner(arguments[:1])
        self.no_more(lexeme, arguments[1:])
        text = f"{function}({text})" if arguments else function
        return [_Piece(text, _then(atom, (function,)), flag=function in FLAGS)]

    def no_more(self, lexeme: _Lexeme, arguments: list[_Argument]) -> None:
        if arguments:
            found = repr(arguments[0].lexeme.text)
            self.fail(arguments[0].lexeme.place, found, f"{FUNCTIONS[lexeme.text]} and no more")

    def inner(self, arguments: list[_Argument]) -> tuple[str, Atom]:
        """Return the atom that a function is applied to: the word, or its last argument."""
        if not arguments:
            return "", Atom(None)
        argument = arguments[0]
        if argument.kind == "call":
            pieces = argument.value
        elif argument.kind == "name" and argument.value in FUNCTIONS:
            pieces = self.build(argument.lexeme, [])
        else:
            advice = ""
            if argument.kind == "name":
                advice = f"A column of the data is written col({argument.value})."
            self.fail(
                argument.lexeme.place, repr(argument.lexeme.text), "lower or col(...)", advice
            )
        assert isinstance(pieces, list)
        if len(pieces) > 1 or pieces[0].atom is None:
            self.fail(argument.lexeme.place, repr(pieces[0].text), "one value, without a range")
        return pieces[0].text, pieces[0].atom

    def column(self, lexeme: _Lexeme, arguments: list[_Argument]) -> str | int:
        expected = f"the name or number of a column, as in {lexeme.text}(pos) or {lexeme.text}(1)"
        if not arguments:
            self.unexpected(f"({expected})")
        self.no_more(lexeme, arguments[1:])
        argument = arguments[0]
        if argument.kind in ("name", "text"):
            return str(argument.value)
        numbers = argument.value if isinstance(argument.value, list) else []
        if argument.kind == "numbers" and len(numbers) == 1 and numbers[0] >= 0:
            return int(numbers[0])
        self.fail(argument.lexeme.place, repr(argument.lexeme.text), expected)

    def affix(self, lexeme: _Lexeme, arguments: list[_Argument]) -> list[_Piece]:
        function = lexeme.text
        if not arguments:
            self.unexpected(f"'(', as in {FUNCTIONS[function]}")
        first = arguments[0]
        if first.kind == "numbers" and isinstance(first.value, list):
            if first.value[0] < 1:
                self.fail(first.lexeme.place, repr(first.lexeme.text), "a length of 1 or more")
            text, atom = self.inner(arguments[1:2])
            self.no_more(lexeme, arguments[2:])
            rest = f", {text}" if text else ""
            return [
                _Piece(f"{function}({n}{rest})", _then(atom, (function, n))) for n in first.value
            ]
        listed = [str(a.value) for a in arguments if a.kind == "text"]
        if listed and arguments[0].kind == "text":
            if not all(listed):
                self.fail(first.lexeme.place, "an empty text", "an affix")
            text, atom = self.inner(arguments[len(listed) : len(listed) + 1])
            self.no_more(lexeme, arguments[len(listed) + 1 :])
            shown = ", ".join(map(quote, listed)) + (f", {text}" if text else "")
            step = (f"listed_{function}", *listed)
            return [_Piece(f"{function}({shown})", _then(atom, step))]
        if first.kind == "name" and first.value not in FUNCTIONS:
            text, atom = self.inner(arguments[1:2])
            self.no_more(lexeme, arguments[2:])
            rest = f", {text}" if text else ""
            step = (f"named_{function}", str(first.value))
            return [_Piece(f"{function}({first.value}{rest})", _then(atom, step))]
        self.fail(first.lexeme.place, repr(first.lexeme.text), FUNCTIONS[function])

    def regex(self, lexeme: _Lexeme, arguments: list[_Argument]) -> list[_Piece]:
        if not arguments or arguments[0].kind != "text":
            place = arguments[0].lexeme.place if arguments else self.lexemes[self.at].place
            found = repr(arguments[0].lexeme.text) if arguments else "no argument"
            self.fail(place, found, f"a text in quotes, as in {FUNCTIONS['regex']}")
        pattern = str(arguments[0].value)
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            place = arguments[0].lexeme.place
            self.fail(place, f"a regular expression that Python cannot read ({error})")
        text, atom = self.inner(arguments[1:2])
        self.no_more(lexeme, arguments[2:])
        text = f"regex({quote(pattern)}{', ' + text if text else ''})"
        return [_Piece(text, _then(atom, ("regex", pattern)), flag=not groups)]

    def resource(self, lexeme: _Lexeme, arguments: list[_Argument]) -> list[_Piece]:
        function = lexeme.text
        if not arguments or arguments[0].kind not in ("name", "text"):
            place = arguments[0].lexeme.place if arguments else self.lexemes[self.at].place
            found = repr(arguments[0].lexeme.text) if arguments else "no argument"
            self.fail(place, found, f"a name, as in {FUNCTIONS[function]}")
        which, rest = str(arguments[0].value), arguments[1:]
        lengths: list[int] = [0]
        if function == "cluster" and rest and rest[0].kind == "numbers":
            assert isinstance(rest[0].value, list)
            lengths = rest[0].value
            if lengths[0] < 1:
                self.fail(rest[0].lexeme.place, repr(rest[0].lexeme.text), "1 bit or more")
            rest = rest[1:]
        text, atom = self.inner(rest[:1])
        self.no_more(lexeme, rest[1:])
        pieces = []
        for length in lengths:
            shown = ", ".join(filter(None, (name(which), str(length) if length else "", text)))
            if function == "lexicon":
                looked_up = Atom(("lexicon", which, atom), (("present",),))
            else:
                looked_up = _then(atom, ("cluster", which, length))
            pieces.append(_Piece(f"{function}({shown})", looked_up))
        return pieces

    def combine(self, choice: Sequence[tuple[_Piece, int]], edge: bool) -> Template:
        """Join factors into one template and name its attributes."""
        text = "&".join(p.text + (f"[{offset}]" if offset else "") for p, offset in choice)
        text = f"edge({text})" if edge else text
        numbers = [(p.number, offset) for p, offset in choice if p.number is not None]
        if len(numbers) > 1:
            self.fail(0, "two real values", "at most one value(...) in a template")
        atoms = [(p, offset) for p, offset in choice if p.atom is not None]
        shown = [i for i, (piece, _) in enumerate(atoms) if not piece.flag]
        bars = ["|" if i in shown[:-1] else "" for i in range(len(atoms))]
        return Template(
            text,
            (text + ("=" if shown else ""), *bars),
            tuple(Factor(piece.atom, offset) for piece, offset in atoms if piece.atom),
            numbers[0] if numbers else None,
            edge,
        )


def _then(atom: Atom, step: Step) -> Atom:
    return Atom(atom.column, (*atom.steps, step))
