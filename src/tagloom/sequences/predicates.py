"""Predicates with their arguments: JSON Lines with tokens, a dependency tree and frames.

One object per line::

    {"tokens": ["they", "fish"], "upos": ["PRON", "VERB"], "heads": [2, 0],
     "deprels": ["nsubj", "root"],
     "frames": [{"predicate": 1, "roleset": "fish.01", "arguments": [[0, 1, "ARG0"]]}]}

Heads count from 1, and 0 is the root; predicates and arguments count from 0, and the end of an
argument is not part of it. Other keys are kept and written back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tagloom import checks
from tagloom.errors import FormatError, LabelError, SentenceError
from tagloom.sequences.files import Input, Source, open_output


class Argument(NamedTuple):
    """An argument of a predicate: the words ``start`` to ``end - 1`` and their role.

    Examples
    --------
    >>> from tagloom.sequences import Argument
    >>> Argument(0, 2, "ARG0").role
    'ARG0'
    """

    start: int
    end: int
    role: str


@dataclass(frozen=True)
class Frame:
    """A predicate with its arguments.

    Attributes
    ----------
    predicate : int
        Position of the predicate, counted from 0.
    arguments : tuple of Argument
    roleset : str or None
        The sense of the predicate, such as "fish.01".
    extra : dict
        Other keys of the object.

    Examples
    --------
    >>> from tagloom.sequences import Argument, Frame
    >>> Frame(1, (Argument(0, 1, "ARG0"),), "fish.01").arguments[0].role
    'ARG0'
    """

    predicate: int
    arguments: tuple[Argument, ...] = ()
    roleset: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FrameSentence:
    """A sentence with its dependency tree and the frames of its predicates.

    Attributes
    ----------
    tokens : list of str
    heads : list of int
        The head of each word, counted from 1; 0 is the root.
    deprels : list of str
        The relation of each word to its head.
    columns : dict of str to list of str
        Tags, such as ``upos`` and ``xpos``.
    frames : tuple of Frame
    extra : dict
        Other keys of the object.

    Examples
    --------
    >>> from tagloom.sequences import Frame, FrameSentence
    >>> sentence = FrameSentence(
    ...     ["they", "fish"], [2, 0], ["nsubj", "root"], {"upos": ["PRON", "VERB"]}, (Frame(1),)
    ... )
    >>> sentence.tokens[sentence.frames[0].predicate]
    'fish'
    """

    tokens: list[str]
    heads: list[int]
    deprels: list[str]
    columns: dict[str, list[str]] = field(default_factory=dict)
    frames: tuple[Frame, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    def with_frames(self, frames: Iterable[Frame]) -> FrameSentence:
        """Return a copy with other frames."""
        return replace(self, frames=tuple(frames))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as a line of a file has it."""
        frames = [
            {
                "predicate": one.predicate,
                **({} if one.roleset is None else {"roleset": one.roleset}),
                "arguments": [list(argument) for argument in one.arguments],
                **one.extra,
            }
            for one in self.frames
        ]
        return {
            **self.extra,
            "tokens": self.tokens,
            **self.columns,
            "heads": self.heads,
            "deprels": self.deprels,
            "frames": frames,
        }

    @classmethod
    def of(cls, value: Any, where: str | None = None) -> FrameSentence:
        """Make a sentence from plain data.

        Raises
        ------
        SentenceError, LabelError
            If a part is missing, has another length, or does not fit the others.
        """
        if not isinstance(value, dict):
            raise SentenceError(
                where=where,
                expected="an object with tokens, heads, deprels and frames",
                found=checks.show_type(value),
            )
        rest = dict(value)
        tokens = _words(rest.pop("tokens", None), None, "tokens", where)
        heads = rest.pop("heads", None)
        deprels = _words(rest.pop("deprels", None), len(tokens), "deprels", where)
        frames = rest.pop("frames", [])
        if not isinstance(frames, list):
            raise LabelError(where=where, expected="a list of frames", found=checks.show(frames))
        columns = {
            name: _words(rest.pop(name), len(tokens), name, where)
            for name in list(rest)
            if name in _TAGS
        }
        sentence = cls(
            tokens,
            heads,
            deprels,
            columns,
            tuple(_frame(one, k, where) for k, one in enumerate(frames)),
            rest,
        )
        sentence.check(where)
        return sentence

    def check(self, where: str | None = None) -> None:
        """Raise if heads are not a tree, or a frame does not fit the sentence.

        Raises
        ------
        LabelError
        """
        T = len(self.tokens)
        check_heads(self.heads, T, where)
        for k, frame in enumerate(self.frames):
            place = checks.join(where, f"frame {k}")
            if not 0 <= frame.predicate < T:
                raise LabelError(
                    where=place,
                    expected=f"a predicate from 0 to {T - 1}",
                    found=str(frame.predicate),
                )
            for start, end, role in frame.arguments:
                if not 0 <= start < end <= T:
                    raise LabelError(
                        where=place,
                        expected=f"arguments with 0 <= start < end <= {T}, the number of words",
                        found=checks.show([start, end, role]),
                    )


#: Keys that hold a tag for each word.
_TAGS = ("upos", "xpos", "lemmas", "feats")


def _words(value: Any, T: int | None, name: str, where: str | None) -> list[str]:
    """Return a list of str, of a given length."""
    if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
        found = "nothing" if value is None else checks.show(value)
        raise SentenceError(where=where, expected=f"{name}, a list of strings", found=found)
    if T is not None and len(value) != T:
        expected = f"{checks.plural(T, 'string')} in {name}, one for each word"
        raise SentenceError(where=where, expected=expected, found=str(len(value)))
    return value


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _frame(value: Any, k: int, where: str | None) -> Frame:
    place = checks.join(where, f"frame {k}")
    if not isinstance(value, dict) or not _is_int(value.get("predicate")):
        raise LabelError(
            where=place,
            expected="a predicate, the position of a word",
            found=checks.show(value.get("predicate") if isinstance(value, dict) else value),
        )
    rest = dict(value)
    predicate, roleset = rest.pop("predicate"), rest.pop("roleset", None)
    if roleset is not None and not isinstance(roleset, str):
        raise LabelError(where=place, expected="a roleset, a string", found=checks.show(roleset))
    arguments = rest.pop("arguments", [])
    for one in arguments if isinstance(arguments, list) else [arguments]:
        is_argument = isinstance(one, list | tuple) and len(one) == 3
        if not is_argument or not (_is_int(one[0]) and _is_int(one[1]) and isinstance(one[2], str)):
            raise LabelError(
                where=place, expected="arguments [start, end, role]", found=checks.show(one)
            )
    return Frame(predicate, tuple(Argument(*one) for one in arguments), roleset, rest)


def check_heads(heads: Any, T: int, where: str | None) -> None:
    """Raise if heads are not T numbers from 0 to T without a cycle.

    Raises
    ------
    LabelError
    """
    if not isinstance(heads, list) or len(heads) != T:
        found = checks.show(heads) if not isinstance(heads, list) else str(len(heads))
        raise LabelError(where=where, expected=f"{T} heads, one for each word", found=found)
    for t, h in enumerate(heads):
        if not _is_int(h) or not 0 <= h <= T:
            raise LabelError(
                where=checks.join(where, f"token {t}"),
                expected=f"a head from 0 to {T}",
                found=checks.show(h),
            )
    is_done = [False] * (T + 1)
    is_done[0] = True
    for t in range(1, T + 1):
        path: list[int] = []
        while not is_done[t] and len(path) <= T:
            path.append(t)
            t = heads[t - 1]
        if not is_done[t]:
            raise LabelError(
                where=where, expected="heads that form a tree", found="heads with a cycle"
            )
        for word in path:
            is_done[word] = True


def check_frame_sentences(X: Any) -> list[FrameSentence]:
    """Return sentences with frames; plain data are converted.

    Raises
    ------
    SentenceError, LabelError
        If one of them is not valid; names it.
    """
    if isinstance(X, str | bytes | dict | FrameSentence) or not isinstance(X, Iterable):
        raise SentenceError(
            parameter="X",
            expected="a list of sentences with frames",
            found=checks.show_type(X),
            hint="Read a file with tagloom.sequences.read_frames.",
        )
    sentences = []
    for i, one in enumerate(X):
        if isinstance(one, FrameSentence):
            one.check(checks.place(i))
        else:
            one = FrameSentence.of(one, checks.place(i))
        sentences.append(one)
    return sentences


def read_frames(path: Source, *, encoding: str = "utf-8") -> list[FrameSentence]:
    """Read sentences with frames from a file of JSON Lines.

    Parameters
    ----------
    path : path, "-" for stdin, or an open file
    encoding : str, default "utf-8"

    Returns
    -------
    list of FrameSentence

    Raises
    ------
    FormatError
        If a line is not valid: a frame without a predicate, an argument outside the sentence, heads
        with a cycle. It names file and line.

    Examples
    --------
    >>> import io
    >>> from tagloom.sequences import read_frames
    >>> line = '{"tokens": ["go"], "heads": [0], "deprels": ["root"], "frames": [{"predicate": 0}]}'
    >>> read_frames(io.StringIO(line))[0].frames
    (Frame(predicate=0, arguments=(), roleset=None, extra={}),)
    """
    file = Input(path, encoding)
    sentences = []
    try:
        for lines in file.lines():
            for number, raw in lines:
                if raw.strip():
                    sentences.append(_read_line(raw, file.name, number))
    finally:
        file.close()
    return sentences


def _read_line(raw: bytes, path: str, line: int) -> FrameSentence:
    try:
        return FrameSentence.of(json.loads(raw))
    except (SentenceError, LabelError) as error:
        raise FormatError(
            path=path,
            line=line,
            expected=error.expected,
            found=error.found if error.where is None else f"{error.found} in {error.where}",
        ) from None
    except (ValueError, RecursionError) as error:  # not JSON, or a number of thousands of digits
        raise FormatError(
            path=path, line=line, expected="a JSON object", found=f"an error: {error}"
        ) from None


def write_frames(
    sentences: Sequence[FrameSentence], path: Source, *, encoding: str = "utf-8"
) -> None:
    """Write sentences with frames to a file of JSON Lines.

    Parameters
    ----------
    sentences : iterable of FrameSentence
    path : path, "-" for stdout, or an open file
    encoding : str, default "utf-8"

    Examples
    --------
    >>> import sys
    >>> from tagloom.sequences import FrameSentence, write_frames
    >>> write_frames([FrameSentence(["go"], [0], ["root"])], sys.stdout)
    {"tokens": ["go"], "heads": [0], "deprels": ["root"], "frames": []}
    """
    with open_output(path, encoding) as out:
        for sentence in sentences:
            out.write(json.dumps(sentence.to_dict(), ensure_ascii=False).encode() + b"\n")
