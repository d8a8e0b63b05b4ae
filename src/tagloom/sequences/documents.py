"""Texts as documents: their tokens and sentences, and sentences joined to documents again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from tagloom.errors import FormatError
from tagloom.sequences.raw import raw_text
from tagloom.sequences.sentences import Sentence

if TYPE_CHECKING:
    from tagloom.text import Rules

#: A function from a text to the start and end of its tokens, or an object with a method ``split``
#: from a text to its sentences, as `tagloom.Tokenizer` has.
Tokenize: TypeAlias = Callable[[str], Iterable[tuple[int, int]]] | Any
Places: TypeAlias = list[tuple[int, int]]  # start and end of tokens


# ---- tokens of a text --------------------------------------------------------------------------


def tokens_of(text: str, value: Any, tokenize: Tokenize | None) -> tuple[Places, list[int]]:
    """Return the places of the tokens of a text, and where its sentences begin.

    The tokens are those that the object lists; otherwise those of the tokenizer.

    Raises
    ------
    FormatError
        If tokens overlap or exceed the text.
    """
    starts: list[int] = []
    listed = _listed_tokens(value)
    if tokenize is not None and hasattr(tokenize, "split"):
        sentences = [s for s in tokenize.split(text) if s.offsets]
        starts = [sentence.offsets[0][0] for sentence in sentences]
        offsets = [*chain.from_iterable(sentence.offsets for sentence in sentences)]
    elif tokenize is not None and listed is None:
        offsets = [(int(begin), int(end)) for begin, end in tokenize(text)]
    else:
        offsets = rule_offsets(text) if listed is None else []
    offsets = offsets if listed is None else listed
    last = 0
    for begin, end in offsets:
        if not last <= begin < end <= len(text):
            expected = f"tokens in order, within {len(text)} characters"
            raise FormatError(
                parameter=None if listed else "tokenize",
                expected=expected if listed else f"a function that returns {expected}",
                found=f"{begin}:{end} after {last}",
            )
        last = end
    return offsets, starts


@cache
def _rules() -> Rules:
    """Return the rules for the tokens of a text, unless the file or the user gives others."""
    from tagloom.text import Rules  # here, for a quick start: compiling them takes 15 ms

    return Rules()


def rule_offsets(text: str) -> Places:
    """Return the tokens of a text by the preset "rules"."""
    from tagloom.text import blocks  # here, for a quick start

    return [place for cuts in blocks(text, _rules()) for place in cuts.spans()]


def _listed_tokens(value: Any) -> Places | None:
    """Return the tokens that an object lists, as [start, end] or with these keys as in Prodigy."""
    listed = value.get("tokens") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        return None
    places: list[Any] = [
        [item.get("start"), item.get("end")] if isinstance(item, dict) else item for item in listed
    ]
    is_places = all(
        isinstance(place, list) and len(place) == 2 and all(type(x) is int for x in place)
        for place in places
    )
    return [(begin, end) for begin, end in places] if is_places else None


def text_of(sentence: Sentence) -> tuple[str, Places]:
    """Return the raw text of a sentence; without one, its tokens with blanks between them."""
    raw = raw_text(sentence)
    if raw is not None and [raw[0][b:e] for b, e in raw[1]] == sentence.tokens:
        return raw
    offsets, end = [], 0
    for token in sentence.tokens:
        offsets.append((end, end + len(token)))
        end += len(token) + 1
    return " ".join(sentence.tokens), offsets


# ---- sentences to documents --------------------------------------------------------------------


def documents(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Join consecutive sentences of the same text into one, as an object of a file holds it."""
    parts: list[Sentence] = []
    for sentence in sentences:
        if parts and not _continues(parts[-1], sentence):
            yield _join(parts)
            parts = []
        parts.append(sentence)
    if parts:
        yield _join(parts)


def _continues(before: Sentence, after: Sentence) -> bool:
    if after.text is None or after.text is not before.text:
        return False
    return bool(before.offsets and after.offsets and before.offsets[-1][1] <= after.offsets[0][0])


def _join(parts: list[Sentence]) -> Sentence:
    if len(parts) == 1:
        return parts[0]
    whole = copy(parts[0])
    whole.tokens = [*chain.from_iterable(parts)]
    whole.offsets = [*chain.from_iterable(part.offsets or () for part in parts)]
    if all(part.labels is not None for part in parts):
        whole.labels = [*chain.from_iterable(part.labels or () for part in parts)]
    names = dict.fromkeys(chain.from_iterable(part._columns or () for part in parts))
    joined = {name: [*chain(*((x._columns or {}).get(name, ()) for x in parts))] for name in names}
    whole._columns = joined if joined or whole._layout is None else None
    return whole
