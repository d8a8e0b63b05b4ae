"""What a language model counts: words, letters or bytes.

A unit turns what users pass as a sentence into tokens, each a str, and tokens back into text. In
ARPA files tokens are separated by blanks, so a unit also says how to write tokens that are blank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from tagloom import _native, checks
from tagloom.errors import FormatError, SentenceError

BATCH = 1 << 12  # sentences that go to the native core at once

_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_BYTE_OF = {token: byte for byte, token in enumerate(_BYTES)}
_CODE_POINT = re.compile(r"<U\+([0-9A-F]{4,6})>")


class Unit(NamedTuple):
    """One kind of token."""

    split: Callable[[Any, int | None], Sequence[Any]]  #: a sentence and its number -> its tokens
    join: Callable[[Sequence[str]], Any]  #: tokens -> a sentence
    to_arpa: Callable[[str], str]  #: a token -> the word that stands for it in an ARPA file
    from_arpa: Callable[[str], str]  #: and back


def _place(i: int | None) -> str | None:
    return None if i is None else checks.place(i)


def _words(sentence: Any, i: int | None) -> Sequence[Any]:
    if isinstance(sentence, str | bytes):
        raise SentenceError(
            where=_place(i),
            expected="a list of tokens",
            found=checks.show_type(sentence),
            hint="Split it first, for instance with text.split(); or count {unit}.",
            options={"unit": "letters"},
        )
    tokens = getattr(sentence, "tokens", sentence)
    if isinstance(tokens, list | tuple):
        return tokens
    if not isinstance(tokens, Iterable):
        raise SentenceError(
            where=_place(i), expected="a list of tokens", found=checks.show_type(sentence)
        )
    return list(tokens)


def _letters(sentence: Any, i: int | None) -> Sequence[Any]:
    return list(sentence) if isinstance(sentence, str) else _words(sentence, i)


def _bytes(sentence: Any, i: int | None) -> Sequence[Any]:
    if isinstance(sentence, str):
        try:
            sentence = sentence.encode()
        except UnicodeEncodeError:
            found = checks.show(ascii(sentence))
            raise SentenceError(
                where=_place(i), expected="text without lone surrogates", found=found
            ) from None
    if isinstance(sentence, bytes):
        return [_BYTES[byte] for byte in sentence]
    return _words(sentence, i)


def _plain_word(token: str) -> str:
    if not token or token.split() != [token]:
        raise FormatError(
            expected="tokens without blanks, since blanks separate the words of an ARPA file",
            found=checks.show(token),
            hint="Replace the blanks inside tokens before fit.",
        )
    return token


def _letter_to_arpa(token: str) -> str:
    if token == " ":
        return "<space>"
    return f"<U+{ord(token):04X}>" if len(token) == 1 and token.isspace() else _plain_word(token)


def _letter_from_arpa(word: str) -> str:
    if word == "<space>":
        return " "
    match = _CODE_POINT.fullmatch(word)
    return chr(int(match[1], 16)) if match and int(match[1], 16) < 0x110000 else word


#: By name, as in the parameter ``unit``.
UNITS = {
    "words": Unit(_words, list, _plain_word, str),
    "letters": Unit(_letters, "".join, _letter_to_arpa, _letter_from_arpa),
    "bytes": Unit(
        _bytes, lambda tokens: bytes(_BYTE_OF[token] for token in tokens), _plain_word, str
    ),
}


def batches(X: Any, unit: str) -> Iterator[list[Sequence[Any]]]:
    """Yield the sentences of X as lists of tokens, some thousands at a time.

    Parameters
    ----------
    X : Corpus, Stream, or iterable of sentences
    unit : {"words", "letters", "bytes"}

    Raises
    ------
    SentenceError
        If X or a sentence is not what it should be.
    """
    if isinstance(X, str | bytes) or not isinstance(X, Iterable):
        raise SentenceError(
            expected="a list of sentences",
            found=checks.show_type(X),
            hint="Pass a list of lists of tokens, or read a file: fit_files(path).",
        )
    if hasattr(X, "tokens") and not isinstance(X, Sequence):
        raise SentenceError(
            expected="a list of sentences", found=f"one {type(X).__name__}", hint="Pass [sentence]."
        )
    split, n = UNITS[unit].split, 0
    rows = iter(X)
    while batch := list(islice(rows, BATCH)):
        if unit != "words" or not _native.is_nested_list(batch):
            batch = [split(sentence, n + i) for i, sentence in enumerate(batch)]
        yield batch
        n += len(batch)
