"""Sentences for a dependency parser: words and tags as numbers, heads and labels as arrays.

The parser hashes its features, so a string needs no number of its own: its checksum stands for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import LabelError, SentenceError
from tagloom.models.data import digest
from tagloom.sequences import Sentence
from tagloom.trellis.trees import has_cycle

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt32 = npt.NDArray[np.uint32]

HEAD, DEPREL = "head", "deprel"

# Classes of words whose number between head and dependent is a feature (core/tree_features.hpp),
# by the names of tags in Universal Dependencies and in the Penn Treebank.
_OTHER, _VERB, _PUNCTUATION, _CONJUNCTION = range(4)
_CLASSES = {
    "VERB": _VERB,
    "AUX": _VERB,
    "MD": _VERB,
    "PUNCT": _PUNCTUATION,
    ",": _PUNCTUATION,
    ".": _PUNCTUATION,
    ":": _PUNCTUATION,
    "CCONJ": _CONJUNCTION,
    "CC": _CONJUNCTION,
}


def check_sentences(X: Any) -> list[Sentence]:
    """Return the sentences, each a `Sentence`.

    Raises
    ------
    SentenceError
        If an element is not a `Sentence`: the parser reads columns.
    """
    sentences = list(checks.sentences(X))
    for i, sentence in enumerate(sentences):
        if not isinstance(sentence, Sentence):
            raise SentenceError(
                where=checks.place(i),
                expected="a Sentence with columns of tags",
                found=checks.show_type(sentence),
                hint="Read a CoNLL-U file with tl.read, or build Sentence(words, columns={...}).",
            )
    return sentences


class Atoms:
    """The numbers of words and tags; those of a string are computed once.

    Parameters
    ----------
    tags : sequence of str
        Names of up to two columns: fine tags, then coarse tags.
    """

    def __init__(self, tags: Sequence[str]) -> None:
        self.tags = list(tags)
        self._words: dict[str, tuple[int, int, int]] = {}
        self._tags: dict[str, int] = {}

    def read(self, sentences: Sequence[Sentence]) -> tuple[Int64, UInt32]:
        """Return offsets [N + 1] and atoms [T, 6] of sentences."""
        rows: list[tuple[int, ...]] = []
        offsets = [0]
        for i, sentence in enumerate(sentences):
            columns = [self._column(sentence, name, i) for name in self.tags]
            fine = columns[0] if columns else [""] * len(sentence.tokens)
            coarse = columns[1] if len(columns) > 1 else fine
            for word, tag, short in zip(sentence.tokens, fine, coarse, strict=True):
                lower, suffix, shape = self._words.get(word) or self._word(word)
                rows.append(
                    (
                        lower,
                        self._tag(tag),
                        self._tag(short),
                        suffix,
                        shape,
                        _CLASSES.get(short) or _CLASSES.get(tag) or _OTHER,
                    )
                )
            offsets.append(len(rows))
        atoms = np.array(rows, dtype=np.uint32).reshape(len(rows), 6)
        return np.array(offsets, dtype=np.int64), atoms

    def _column(self, sentence: Sentence, name: str, i: int) -> list[str]:
        values = sentence.columns.get(name)
        if values is None:
            raise SentenceError(
                where=checks.place(i),
                expected=f"a column {name!r}, which the parser reads",
                found=f"columns {', '.join(sentence.columns) or '(none)'}",
                hint="Tag the sentences first, or choose other columns with tags=.",
            )
        return values

    def _word(self, word: str) -> tuple[int, int, int]:
        lower = word.lower()
        shape = "".join(
            "A" if c.isupper() else "0" if c.isdigit() else "a" if c.isalpha() else "-"
            for c in word[:1] + word[-1:]
        )
        numbers = (
            string_number(lower),
            string_number("-" + lower[-3:]),
            string_number("shape " + shape),
        )
        self._words[word] = numbers
        return numbers

    def _tag(self, tag: str) -> int:
        number = self._tags.get(tag)
        if number is None:
            number = self._tags[tag] = string_number(tag)
        return number


def string_number(text: str) -> int:
    """Return a number for a string; 0 to 15 are not used."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) | 16


def read_tree(sentence: Sentence, i: int) -> tuple[list[int], list[str | None]]:
    """Return heads and labels of a sentence.

    Raises
    ------
    LabelError
        If a head is missing or not a number from 0 to T, or the arcs have a cycle.
    """
    columns = sentence.columns
    if HEAD not in columns:
        raise LabelError(
            where=checks.place(i),
            expected="a column 'head'",
            found=f"columns {', '.join(columns) or '(none)'}",
        )
    T = len(sentence.tokens)
    heads = []
    for t, text in enumerate(columns[HEAD]):
        head = checks.whole_number(str(text))
        if head is None or head > T or head == t + 1:
            raise LabelError(
                where=checks.place(i, t),
                expected=f"a head from 0 to {T}, not the word itself",
                found=checks.show(text),
            )
        heads.append(head)
    if has_cycle(heads):
        raise LabelError(
            where=checks.place(i), expected="heads that form a tree", found="heads with a cycle"
        )
    labels: Any = columns.get(DEPREL) or [None] * T
    return heads, [None if label == "_" else label for label in labels]


@dataclass(frozen=True, eq=False)
class TreeBank:
    """Training data of a parser.

    Attributes
    ----------
    offsets : ndarray of int64, shape (N + 1,)
    atoms : ndarray of uint32, shape (T, 6)
    heads : ndarray of int32, shape (T,)
    labels : ndarray of int32, shape (T,)
        −1 for a label that is not known.
    names : list of str
        Names of the labels.
    """

    offsets: Int64
    atoms: UInt32
    heads: Int32
    labels: Int32
    names: list[str]

    @classmethod
    def read(cls, X: Any, tags: Sequence[str], *, labelled: bool) -> TreeBank:
        """Read sentences with the columns ``head`` and ``deprel``."""
        sentences = check_sentences(X)
        offsets, atoms = Atoms(tags).read(sentences)
        trees = [read_tree(sentence, i) for i, sentence in enumerate(sentences)]
        if offsets[-1] == 0:
            raise SentenceError(parameter="X", expected="at least one word", found="none")
        labels = [label for _, row in trees for label in row]
        names = sorted({label for label in labels if label is not None}) if labelled else []
        place: dict[str | None, int] = {name: y for y, name in enumerate(names)}
        return cls(
            offsets,
            atoms,
            np.array([h for heads, _ in trees for h in heads], dtype=np.int32),
            np.array([place.get(label, -1) for label in labels], dtype=np.int32),
            names,
        )

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the data."""
        return digest(self.names, self.offsets, self.atoms, self.heads, self.labels)

    @property
    def sizes(self) -> dict[str, int]:
        """For the training record."""
        return {"sentences": len(self.offsets) - 1, "tokens": int(self.offsets[-1])}
