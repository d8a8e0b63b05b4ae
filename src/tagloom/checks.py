"""Checks of user input: sentences, labels, numbers, choices, threads. All of them are here.

A check returns the value in the form that the caller needs, or raises an error whose fields give
the place, the value found and the value expected. This module depends on no model and no file
format: a sentence with columns is any object with ``tokens``, a corpus a sequence of them with a
``path``.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tagloom import _native
from tagloom.errors import LabelError, ParameterError, SentenceError, TagloomError

T = TypeVar("T")

#: Number of cores that this process may use.
ALL_THREADS = (
    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
)

_DENSE = "Pass one array of shape (T, D) for each sentence"
_MOST = 1 << 63  # the native core counts in 64 bits

# ---- values ----------------------------------------------------------------------------------


def show(value: object, width: int = 60) -> str:
    """Return a value as errors show it: its repr on one line, shortened.

    Examples
    --------
    >>> show("They can fish")
    "'They can fish'"
    >>> show("x" * 100, width=5)
    "'xxxxx'…"
    """
    if isinstance(value, str | bytes):
        return repr(value[:width]) + ("…" if len(value) > width else "")
    if isinstance(value, int) and abs(value) >= _MOST:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = " ".join(repr(value).split())  # arrays have several lines
    except RecursionError:
        return f"a {type(value).__name__}, nested deeply"
    return text if len(text) <= width + 3 else text[:width] + "…"


def show_type(value: object) -> str:
    """Return a value and its type, as errors show them.

    Examples
    --------
    >>> show_type(3)
    '3, of type int'
    >>> show_type("They can fish")
    "the str 'They can fish'"
    """
    kind = type(value).__name__
    return (
        f"the {kind} {show(value)}"
        if isinstance(value, str | bytes)
        else ("None" if value is None else f"{show(value)}, of type {kind}")
    )


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> plural(1, "token"), plural(2000, "token")
    ('1 token', '2,000 tokens')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# ---- labels and their number -------------------------------------------------------------------

#: Most labels of a linear tagger: the native core stores their numbers in 16 bits.
MOST_LABELS = 65_535


def label_count(n: int) -> None:
    """Raise if there are more labels than weights can have.

    Raises
    ------
    LabelError

    Examples
    --------
    >>> label_count(70_000)
    Traceback (most recent call last):
    ...
    tagloom.errors.LabelError: expected at most 65,535 different labels, found 70,000. Is it the \
right column? Set label to choose another.
    """
    if n > MOST_LABELS:
        raise LabelError(
            expected=f"at most {MOST_LABELS:,} different labels",
            found=f"{n:,}",
            hint="Is it the right column? Set {label} to choose another.",
            options={"label": ...},
        )


# ---- numbers, choices, flags -------------------------------------------------------------------


def count(
    value: Any, parameter: str, *, least: int = 0, error: type[TagloomError] = ParameterError
) -> int:
    """Return an integer of at least ``least`` and below 2**63, which native code can hold.

    Raises
    ------
    ParameterError, or ``error``
        If the value is not an int, a bool, too small, or 2**63 or more.

    Examples
    --------
    >>> count(3, "n")
    3
    >>> count(0, "order", least=1)
    Traceback (most recent call last):
    ...
    tagloom.errors.ParameterError: order must be an integer of at least 1; got 0.
    """
    expected = f"an integer of at least {least}"
    if isinstance(value, bool):
        raise error(parameter=parameter, expected=expected, found=show(value))
    try:
        n = operator.index(value)
    except TypeError:
        raise error(parameter=parameter, expected=expected, found=show(value)) from None
    if n < least:
        raise error(parameter=parameter, expected=expected, found=show(n))
    if n >= _MOST:
        raise error(parameter=parameter, expected="an integer below 2**63", found=show(n))
    return n


def size(value: Any, parameter: str = "max_memory") -> int:
    """Return an amount of memory in bytes: an int, or a number with K, M, G or T, such as "2G".

    Raises
    ------
    ParameterError

    Examples
    --------
    >>> size("1.5K"), size(1000)
    (1536, 1000)
    """
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    text = value.strip().upper().removesuffix("B") if isinstance(value, str) else ""
    unit = units.get(text[-1:], 1)
    try:
        n = int(float(text[:-1] if unit > 1 else text) * unit) if text else value
        return count(n, parameter, least=1)
    except (ValueError, OverflowError):
        raise ParameterError(
            parameter=parameter,
            expected="a number of bytes, or one with K, M, G or T, such as '2G'",
            found=show(value),
        ) from None


def cluster(address: Any) -> str:
    """Return the address of a cluster.

    Raises
    ------
    ParameterError
        If it is not a non-empty str.
    """
    if not isinstance(address, str) or not address:
        raise ParameterError(
            parameter="cluster",
            expected='"auto" or the address of a Ray cluster, such as "ray://head:10001"',
            found=show(address),
        )
    return address


def number(
    value: Any,
    parameter: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
) -> float:
    """Return a finite number within bounds.

    Parameters
    ----------
    value : object
    parameter : str
        Name of the parameter, for the error.
    least, above, most : float, optional
        Bounds: value ≥ least, value > above, value ≤ most.

    Raises
    ------
    ParameterError
        If the value is not a finite real number, or out of bounds.

    Examples
    --------
    >>> number(1, "l2", least=0)
    1.0
    >>> number(float("nan"), "eta", above=0)
    Traceback (most recent call last):
    ...
    tagloom.errors.ParameterError: eta must be a finite number above 0; got nan.
    """
    fits = _is_real(value) and math.isfinite(value)
    fits = fits and (least is None or value >= least) and (above is None or value > above)
    if fits and (most is None or value <= most):
        return float(value)
    bounds = [
        f"{word} {bound:g}"
        for word, bound in (("of at least", least), ("above", above), ("of at most", most))
        if bound is not None
    ]
    expected = f"a finite number {' and '.join(bounds)}".rstrip()
    raise ParameterError(parameter=parameter, expected=expected, found=show(value))


def _is_real(value: Any) -> bool:
    if isinstance(value, int | float):
        return not isinstance(value, bool)
    from numbers import Real  # here, for a quick start

    return isinstance(value, Real)


def choice(value: T, parameter: str, choices: Iterable[Any]) -> T:
    """Return the value if it is one of the choices, compared by type and value.

    Examples
    --------
    >>> choice("seen", "states", ("auto", "seen", "all"))
    'seen'
    >>> choice("sen", "states", ("auto", "seen"))
    Traceback (most recent call last):
    ...
    tagloom.errors.ParameterError: states must be one of 'auto', 'seen'; got 'sen'.
    """
    listed = tuple(choices)
    if not any(type(value) is type(each) and value == each for each in listed):
        expected = f"one of {', '.join(map(repr, listed))}"
        raise ParameterError(parameter=parameter, expected=expected, found=show(value))
    return value


def flag(value: Any, parameter: str) -> bool:
    """Return the value if it is True or False, also as a NumPy bool.

    Examples
    --------
    >>> flag(True, "averaged")
    True
    """
    if type(value) is bool or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise ParameterError(parameter=parameter, expected="True or False", found=show(value))


def whole_number(text: str) -> int | None:
    """Return the number that a text of ASCII digits names, None for any other text.

    `str.isdigit` also accepts "²", and `int` refuses more than 4,300 digits.

    Examples
    --------
    >>> whole_number("12"), whole_number("-1"), whole_number("²"), whole_number("9" * 5000)
    (12, None, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def threads(n_threads: Any) -> int:
    """Return a number of threads; None means all cores that this process may use.

    Raises
    ------
    ParameterError
        If it is neither None nor an integer of at least 1.

    Examples
    --------
    >>> threads(2)
    2
    """
    if n_threads is None:
        return ALL_THREADS
    if type(n_threads) is int and 0 < n_threads < _MOST:
        return n_threads
    try:
        return count(n_threads, "n_threads", least=1)
    except ParameterError as error:
        error.hint = "Pass None for all cores."
        raise


def path(value: Any, parameter: str) -> str:
    """Return a file name, given as a str or a path object, as a str.

    Examples
    --------
    >>> from pathlib import PurePosixPath
    >>> path(PurePosixPath("runs/crf.ckpt"), "checkpoint")
    'runs/crf.ckpt'
    """
    if isinstance(value, str | os.PathLike):
        name = os.fspath(value)
        if isinstance(name, str):
            return name
    raise ParameterError(parameter=parameter, expected="a file name", found=show_type(value))


# ---- sentences -----------------------------------------------------------------------------------


def place(sentence: int, token: int | None = None, path: str | None = None) -> str:
    """Return a place as errors show it.

    Examples
    --------
    >>> place(214, 6, "train.conll")
    'train.conll: sentence 214, token 6'
    >>> place(3)
    'sentence 3'
    """
    where = f"sentence {sentence}" if token is None else f"sentence {sentence}, token {token}"
    return where if path is None else f"{path}: {where}"


def join(*places: str | None) -> str:
    """Join places from the outer to the inner one; None is left out.

    Examples
    --------
    >>> join("sentence 3", None, "token 2")
    'sentence 3, token 2'
    """
    return ", ".join(place for place in places if place is not None)


def is_corpus(X: Any) -> bool:
    """Whether X is a sequence of sentences with a path, such as `tagloom.Corpus`."""
    return isinstance(X, Sequence) and hasattr(X, "path") and hasattr(X, "tokens")


def sentences(X: Any) -> Sequence[Any]:
    """Return X as a sequence of sentences; their tokens are checked by the features.

    Raises
    ------
    SentenceError
        If X or one of its members is a str, a single sentence, or not iterable.

    Examples
    --------
    >>> sentences([["They", "can", "fish"]])
    [['They', 'can', 'fish']]
    >>> sentences(["They can fish"])
    Traceback (most recent call last):
    ...
    tagloom.errors.SentenceError: sentence 0: expected a list of tokens, found the str \
'They can fish'. Split it first, for instance with text.split(); a single sentence is [tokens].
    """
    if is_corpus(X):
        return X  # type: ignore[no-any-return]
    if isinstance(X, str | bytes):
        raise SentenceError(
            expected="a list of sentences",
            found=show_type(X),
            hint="Split it into tokens first: [text.split()]; or read a file: tagloom.read(path).",
        )
    if hasattr(X, "tokens") and not isinstance(X, Sequence):
        raise SentenceError(
            expected="a list of sentences", found=f"one {type(X).__name__}", hint="Pass [sentence]."
        )
    if not isinstance(X, Iterable):
        raise SentenceError(
            expected="a list of sentences",
            found=show_type(X),
            hint="Pass lists of tokens, or the result of tagloom.read(path).",
        )
    if hasattr(X, "tocsr"):
        raise SentenceError(
            expected="a list of sentences",
            found=f"a sparse matrix, of type {type(X).__name__}",
            hint=f"{_DENSE}, such as [matrix[begin:end].toarray(), ...], or dicts of features.",
        )
    members = X if isinstance(X, list | tuple) else list(X)
    if _native.is_nested_list(members):  # lists, the common case
        return members
    kinds = set(map(type, members))
    if len(kinds) == 1 and hasattr(next(iter(kinds)), "tokens"):  # each is a Sentence
        return members
    for i, sentence in enumerate(members):
        tokens_of(sentence, i)
    return members


def tokens_of(sentence: Any, i: int) -> Any:
    """Return the tokens of sentence ``i``: those of a `Sentence`, or the sequence itself.

    Raises
    ------
    SentenceError
        If the sentence is a str or has no length.

    Examples
    --------
    >>> tokens_of(["They", "fish"], 0)
    ['They', 'fish']
    """
    if isinstance(sentence, str | bytes):
        raise SentenceError(
            where=place(i),
            expected="a list of tokens",
            found=show_type(sentence),
            hint="Split it first, for instance with text.split(); a single sentence is [tokens].",
        )
    if not hasattr(sentence, "__len__"):
        raise SentenceError(where=place(i), expected="a list of tokens", found=show_type(sentence))
    if hasattr(sentence, "tocsr"):
        raise SentenceError(
            where=place(i),
            expected="a list of tokens",
            found=f"a sparse matrix, of type {type(sentence).__name__}",
            hint=f"{_DENSE}, such as matrix.toarray(), or dicts of features.",
        )
    return getattr(sentence, "tokens", sentence)


# ---- labels ------------------------------------------------------------------------------------


def is_open(label: Any) -> bool:
    """Whether a label is open: None (unknown) or a set (one of several).

    Examples
    --------
    >>> is_open(None), is_open({"NOUN", "VERB"}), is_open("NOUN")
    (True, True, False)
    """
    return label is None or isinstance(label, set | frozenset)


def label_list(labels: Any, where: str) -> list[Any]:
    """Return the labels of one sentence as a list; instances of subclasses of str become str.

    Raises
    ------
    LabelError
        If the labels are a str or not iterable.

    Examples
    --------
    >>> label_list(("PRON", None), "sentence 0")
    ['PRON', None]
    """
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise LabelError(where=where, expected="a list of labels", found=show_type(labels))
    return [str(y) if isinstance(y, str) else y for y in labels]


def label(value: Any, where: str, *, may_be_open: bool = False) -> Any:
    """Return a label: a str or, with ``may_be_open``, None (unknown) or a set (one of these).

    Raises
    ------
    LabelError
        If the value is not a label, or is open although the label must be known.

    Examples
    --------
    >>> label("NOUN", "sentence 0, token 1")
    'NOUN'
    """
    if isinstance(value, str):
        return str(value)
    if not is_open(value):
        raise LabelError(where=where, expected="a label, which is a str", found=show_type(value))
    if not may_be_open:
        found = "None (unknown)" if value is None else f"one of {show(sorted(map(str, value)))}"
        raise LabelError(
            where=where,
            expected="a known label",
            found=found,
            hint="Complete the labels of this sentence, or leave it out.",
        )
    if value is None or (value and all(isinstance(y, str) for y in value)):
        return value
    raise LabelError(where=where, expected="a non-empty set of str", found=show(value))


def label_names(labels: Any, parameter: str = "labels") -> list[str]:
    """Return a list of distinct label names.

    Raises
    ------
    LabelError
        If it is not a list of distinct str.

    Examples
    --------
    >>> label_names(("NOUN", "VERB"))
    ['NOUN', 'VERB']
    """
    is_list = isinstance(labels, Iterable) and not isinstance(labels, str | bytes | Mapping)
    names = list(labels) if is_list else []
    if not is_list or not all(isinstance(name, str) for name in names):
        raise LabelError(parameter=parameter, expected="a list of str", found=show(labels, 200))
    if len(set(names)) < len(names):
        repeated = next(name for y, name in enumerate(names) if name in names[:y])
        raise LabelError(
            parameter=parameter, expected="distinct labels", found=f"{repeated!r} twice"
        )
    return [str(name) for name in names]
