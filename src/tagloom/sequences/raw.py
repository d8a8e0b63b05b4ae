"""The raw text of sentences: from their own text, or from ``# text`` and SpaceAfter in CoNLL-U.

A tokenizer learns from it where tokens and sentences end. A multiword token whose words do not join
to its form, such as French ``du`` (``de le``), is one token of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tagloom import checks
from tagloom.errors import SentenceError
from tagloom.sequences.sentences import Sentence

_NEW = ("# newdoc", "# newpar", "-DOCSTART-")
_TEXT = "# text = "


class RawText(NamedTuple):
    """The text of some sentences and the places of their tokens.

    Attributes
    ----------
    text : str
    offsets : list of list of (int, int)
        For each sentence, start and end of its tokens in the text.
    """

    text: str
    offsets: list[list[tuple[int, int]]]


class _Raw(NamedTuple):
    """The text of one sentence."""

    text: str
    offsets: list[tuple[int, int]]
    after: str  # between it and the next sentence
    is_first: bool  # of a paragraph


def raw_text(sentence: Sentence) -> tuple[str, list[tuple[int, int]]] | None:
    r"""Return the text of a sentence and the places of its tokens.

    Parameters
    ----------
    sentence : Sentence

    Returns
    -------
    (str, list of (int, int)) or None
        None if the sentence does not have its text: it is not from CoNLL-U, or has neither
        ``# text`` nor SpaceAfter.

    Examples
    --------
    >>> import io, tagloom as tl
    >>> from tagloom.sequences import raw_text
    >>> rows = "1\tHi\t_\tX\t_\t_\t_\t_\t_\tSpaceAfter=No\n2\t!\t_\tY\t_\t_\t_\t_\t_\t_\n\n"
    >>> raw_text(tl.read(io.StringIO(rows), "conllu")[0])
    ('Hi!', [(0, 2), (2, 3)])
    """
    if sentence.text is not None and sentence.offsets is not None:
        return sentence.text, sentence.offsets
    raw = _from_conllu(sentence)
    return None if raw is None else (raw.text, raw.offsets)


def paragraphs(sentences: Iterable[Sentence], path: str | None = None) -> Iterator[RawText]:
    """Join the texts of consecutive sentences.

    A paragraph ends before ``# newdoc`` and ``# newpar``, and where the text of the sentences is
    another object.

    Parameters
    ----------
    sentences : iterable of Sentence
    path : str, optional
        Their file, for errors.

    Raises
    ------
    SentenceError
        If a sentence does not have its text.

    Examples
    --------
    >>> import tagloom as tl
    >>> from tagloom.sequences import paragraphs
    >>> [(row.text, row.offsets) for row in paragraphs(tl.Tokenizer().split("Go. Why?"))]
    [('Go. Why?', [[(0, 2), (2, 3)], [(4, 7), (7, 8)]])]
    """
    parts: list[str] = []
    offsets: list[list[tuple[int, int]]] = []
    length, document = 0, None
    for i, sentence in enumerate(sentences):
        whole = sentence.text if sentence.offsets is not None else None
        raw = _of_document(sentence) if whole is not None else _from_conllu(sentence)
        if raw is None:
            raise SentenceError(
                where=checks.place(i, path=path),
                expected="a text, '# text' or SpaceAfter",
                found="tokens only",
                hint="Read CoNLL-U with its comments, or JSONL with text and tokens.",
            )
        if offsets and (raw.is_first or whole is not document):
            yield RawText("".join(parts).rstrip(), offsets)
            parts, offsets, length = [], [], 0
        if whole is not None:
            if whole is not document:
                parts = [whole]
            offsets.append(raw.offsets)
        else:
            parts += raw.text, raw.after
            offsets.append([(start + length, end + length) for start, end in raw.offsets])
            length += len(raw.text) + len(raw.after)
        document = whole
    if offsets:
        yield RawText("".join(parts).rstrip(), offsets)


def _of_document(sentence: Sentence) -> _Raw:
    assert sentence.text is not None
    assert sentence.offsets is not None
    return _Raw(sentence.text, sentence.offsets, "", False)


def _from_conllu(sentence: Sentence) -> _Raw | None:
    """Read rows with IDs, forms and MISC; None if nothing tells how tokens were spaced."""
    if sentence._layout is None or sentence._layout.format != "conllu":
        return None
    rows = [row.split("\t") for row in (sentence.source or "").splitlines() if row[:1] != "#"]
    comments = sentence.comments
    given = next((x[len(_TEXT) :] for x in comments if x.startswith(_TEXT)), None)
    units = _units([row for row in rows if len(row) > 9])
    if given is None and not any("SpaceAfter=" in misc for _, _, misc in units):
        return None
    text, places = _place(units, given)
    offsets = [place for unit, at in zip(units, places, strict=True) for place in _words(unit, at)]
    joined = bool(units) and "SpaceAfter=No" in units[-1][2].split("|")
    is_first = any(comment.startswith(_NEW) for comment in comments)
    return _Raw(text, offsets, "" if joined else " ", is_first)


_Unit = tuple[str, list[str], str]  # form, words of a multiword token, MISC


def _units(rows: list[list[str]]) -> list[_Unit]:
    """Return the tokens of the text: words, and multiword tokens with their words."""
    units: list[_Unit] = []
    last = 0  # word of the multiword token that was met last
    for row in rows:
        first, _, end = row[0].partition("-")
        if end:
            units.append((row[1], [], row[9]))
            last = int(end)
        elif "." not in first:
            if int(first) <= last:
                units[-1][1].append(row[1])
            else:
                units.append((row[1], [], row[9]))
    return units


def _place(units: list[_Unit], text: str | None) -> tuple[str, list[int]]:
    """Find the units in a text; without a text, or if it differs, make one by SpaceAfter."""
    places: list[int] = []
    if text is not None:
        end = 0
        for form, _, _ in units:
            start = text.find(form, end)
            if start < 0 or text[end:start].strip():
                break
            places.append(start)
            end = start + len(form)
        if len(places) == len(units):
            return text, places
    parts: list[str] = []
    places, end = [], 0
    for form, _, misc in units:
        gap = "" if "SpaceAfter=No" in misc.split("|") else " "
        places.append(end)
        parts += form, gap
        end += len(form) + len(gap)
    return "".join(parts).rstrip(" "), places


def _words(unit: _Unit, start: int) -> Iterator[tuple[int, int]]:
    """Yield the places of the words of a unit; one place if they do not join to its form."""
    form, words, _ = unit
    for word in words if "".join(words) == form else [form]:
        yield start, start + len(word)
        start += len(word)
