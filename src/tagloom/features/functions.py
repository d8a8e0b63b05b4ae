"""The string functions that templates use, in Python.

The native extractor implements most of them itself and calls these functions only for regular
expressions, clusters, lists of affixes, and compositions such as ``suffix(3, lower)``, once per
distinct word. A function returns a str, or None for no value; a flag returns the empty string if
it holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tagloom.features.expressions import Atom, Step
from tagloom.features.lexicons import Clusters, Lexicon

Function = Callable[[str], str | None]


class Resources(NamedTuple):
    """The resources that templates may name."""

    lexicons: Mapping[str, Lexicon]
    clusters: Mapping[str, Clusters]
    lists: Mapping[str, Sequence[str]]  # of affixes


def native_kind(atom: Atom) -> tuple[str, object] | None:
    """Return the kind of native atom that computes the steps of an atom, or None."""
    if not atom.steps:
        return "value", None
    function, *arguments = atom.steps[-1]
    if len(atom.steps) == 2 and atom.steps[0] == ("lower",) and function in ("prefix", "suffix"):
        return f"lower_{function}", arguments[0]
    if len(atom.steps) > 1:
        return None
    if function in ("prefix", "suffix"):
        return str(function), arguments[0]
    if function in _PLAIN:
        return str(function), None
    return None


def function_of(atom: Atom, resources: Resources) -> Function:
    """Compose the steps of an atom into one function."""
    steps = [_function(step, resources) for step in atom.steps]
    if not steps:
        return str
    if len(steps) == 1:
        return steps[0]

    def composed(text: str) -> str | None:
        value: str | None = text
        for step in steps:
            if value is None:
                return None
            value = step(value)
        return value

    return composed


def _function(step: Step, resources: Resources) -> Function:
    name, *arguments = step
    if name in _PLAIN:
        return _PLAIN[str(name)]
    if name == "call":  # a ready function, such as a Wapiti command
        function: Function = arguments[0]  # type: ignore[assignment]
        return function
    if name == "cluster":
        which, length = arguments
        clusters = resources.clusters[str(which)]
        return lambda text: clusters.get(text, int(str(length)))
    if name in ("named_prefix", "named_suffix"):
        listed = resources.lists[str(arguments[0])]
        return _MAKERS[str(name).replace("named", "listed")](*listed)
    return _MAKERS[str(name)](*arguments)


# ---- functions with arguments ----------------------------------------------------------------


def prefix(n: int) -> Function:
    """The first n characters of a word of at least n characters."""
    return lambda text: text[:n] if len(text) >= n else None


def suffix(n: int) -> Function:
    """The last n characters of a word of at least n characters."""
    return lambda text: text[-n:] if len(text) >= n else None


def listed_prefix(*affixes: str) -> Function:
    """The longest listed prefix of a word, or the empty string."""
    longest = sorted(affixes, key=len, reverse=True)
    return lambda text: next((affix for affix in longest if text.startswith(affix)), "")


def listed_suffix(*affixes: str) -> Function:
    """The longest listed suffix of a word, or the empty string."""
    longest = sorted(affixes, key=len, reverse=True)
    return lambda text: next((affix for affix in longest if text.endswith(affix)), "")


def regex(pattern: str) -> Function:
    """The match of the first group of a regular expression; without groups, a flag."""
    compiled = re.compile(pattern)

    def search(text: str) -> str | None:
        match = compiled.search(text)
        if match is None:
            return None
        return match[1] if compiled.groups else ""

    return search


_MAKERS: dict[str, Callable[..., Function]] = {
    "prefix": prefix,
    "suffix": suffix,
    "listed_prefix": listed_prefix,
    "listed_suffix": listed_suffix,
    "regex": regex,
}


# ---- functions without -----------------------------------------------------------------------


def _class(character: str) -> str:
    if character.isupper() or character.istitle():
        return "X"
    if character.isalpha() or character.islower():
        return "x"
    return "d" if character.isdigit() else character


def shape(text: str) -> str:
    """X for a capital, x for another letter, d for a digit, other characters unchanged."""
    return "".join(map(_class, text))


def short_shape(text: str) -> str:
    """The shape with runs of the same character shortened to one."""
    return re.sub(r"(?s)(.)\1+", r"\1", shape(text))


# A year; day, month and year in any order between equal signs; or a day and a month with points.
_DATE = r"(?a:[12]\d{3}|\d\d?\.\d\d?\.|(?=.{4,10}\Z)(?:\d\d?|\d{4})([-/.])\d\d?\1(?:\d\d?|\d{4}))"


def _flag(holds: Callable[[str], Any]) -> Function:
    return lambda text: "" if holds(text) else None


def _is_mark(character: str) -> bool:
    import unicodedata  # here, for a quick start

    return unicodedata.category(character)[0] in "PS"


_PLAIN: dict[str, Function] = {
    "lower": str.lower,
    "shape": shape,
    "short_shape": short_shape,
    "length": lambda text: str(len(text)),
    "digit": _flag(lambda text: any(map(str.isdigit, text))),
    "digits": _flag(str.isdigit),
    "decimal": _flag(str.isdecimal),
    "numeric": _flag(str.isnumeric),
    "alpha": _flag(str.isalpha),
    "alnum": _flag(str.isalnum),
    "ascii": _flag(str.isascii),
    "upper": _flag(str.isupper),
    "lowercase": _flag(str.islower),
    "title": _flag(str.istitle),
    "punctuation": _flag(lambda text: text and all(map(_is_mark, text))),
    "hyphen": _flag(lambda text: re.search("[-\u2010\u2011]", text)),
    "date": _flag(lambda text: re.fullmatch(_DATE, text)),
}
# Not native, without arguments: whether a token is in a phrase of a lexicon.
_MAKERS["present"] = lambda: lambda text: text or None
