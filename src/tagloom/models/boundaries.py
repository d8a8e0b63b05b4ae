"""Learnt boundaries: where tokens and sentences end, by two CRFs.

The first labels the characters of a paragraph, with each run of blanks as one character: ``E`` ends
a token, ``I`` does not, ``_`` is a blank between tokens. The second labels the tokens that result:
``E`` ends a sentence, ``I`` does not. Characters decide tokens in any language; sentences depend on
the words around their ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np

from tagloom.errors import ModelFileError
from tagloom.features import Templates
from tagloom.models.crf import CRF
from tagloom.sequences import Corpus, Sentence
from tagloom.sequences.raw import RawText
from tagloom.storage import File
from tagloom.text.cuts import NONE, Cuts, code_points, count_lines, is_blank, pieces

_SURROGATE = re.compile("[\ud800-\udfff]")
END, INSIDE, GAP = "E", "I", "_"
SPACED, GLUED = "s", "g"  # whether a blank follows a token

# Chosen on the development parts of English and Estonian web treebanks; docs/text.md has the gains.
TOKEN_FEATURES = [
    "bias",
    "word[-4..5]",
    "word[-1] & word",
    "word & word[1]",
    "word[1] & word[2]",
    "word[-1] & word & word[1]",
    "word & word[1] & word[2]",
    "word[-2] & word[-1] & word",
    "word[1] & word[2] & word[3]",
    "word[-1] & word & word[1] & word[2]",
    "word[-2] & word[-1] & word & word[1]",
    "word & word[1] & word[2] & word[3]",
    "word[-3] & word[-2] & word[-1] & word",
    "word[-2] & word[-1] & word & word[1] & word[2]",
    "word[-3] & word[-2] & word[-1] & word & word[1]",
    "word & word[1] & word[2] & word[3] & word[4]",
    "word[-4] & word[-3] & word[-2] & word[-1] & word & word[1]",
    "short_shape[-3..3]",
    "short_shape[-1] & short_shape & short_shape[1]",
    "short_shape[-2] & short_shape[-1] & short_shape & short_shape[1] & short_shape[2]",
    "word & short_shape[-1] & short_shape[1]",
    "word[1] & short_shape & short_shape[2]",
]
SENTENCE_FEATURES = [
    "bias",
    "word[-1..2]",
    "lower[-2..3]",
    "lower[-1] & lower",
    "lower & lower[1]",
    "lower[1] & lower[2]",
    "short_shape[-2..3]",
    "short_shape & short_shape[1]",
    "short_shape[-1] & short_shape & short_shape[1]",
    "short_shape & short_shape[1] & short_shape[2]",
    "lower & short_shape[1]",
    "lower & short_shape[-1] & short_shape[1]",
    "col(space)[-1..1]",
    "lower & col(space)",
    "lower & col(space) & short_shape[1]",
]


@dataclass(frozen=True, eq=False)
class Boundaries:
    """What a tokenizer has learnt.

    Attributes
    ----------
    tokens : CRF
        Labels characters.
    sentences : CRF
        Labels tokens.
    has_spaces : bool
        Whether tokens may contain blanks, as in Vietnamese.
    """

    tokens: CRF
    sentences: CRF
    has_spaces: bool

    def cut(self, text: str) -> Cuts:
        """Find the tokens and sentences of a text."""
        text = _SURROGATE.sub("\ufffd", text)  # the native core takes valid Unicode only
        paragraphs = [*_paragraphs(text)]
        if not paragraphs:
            return NONE
        starts, ends, n_tokens = self._tokens(text, paragraphs)
        return Cuts(starts, ends, self._sentences(text, starts, ends, n_tokens))

    def _tokens(self, text: str, paragraphs: list[str]) -> tuple[Any, Any, Any]:
        """Return start and end of each token [T], and the tokens of each paragraph [P]."""
        labels = self.tokens.predict([[*paragraph] for paragraph in paragraphs])
        codes = code_points("".join(paragraphs))  # [C]
        label = code_points("".join(chain.from_iterable(labels)))  # [C]
        solid = np.flatnonzero(codes != ord(" "))  # [S] places of characters that are not blank
        after = np.append(codes[1:] == ord(" "), False)  # [C] whether a blank follows
        if self.has_spaces:
            after &= np.append(label[1:] != ord(INSIDE), False)
        ends_here = ((label == ord(END)) | after)[solid]  # [S]
        last = np.cumsum([len(paragraph) for paragraph in paragraphs]) - 1  # [P] in codes
        last = np.searchsorted(solid, last)  # [P] in solid
        ends_here[last] = True
        places = np.flatnonzero(~is_blank(code_points(text)))  # [S] in the text
        ends = places[ends_here] + 1
        starts = places[np.append(True, ends_here[:-1])]
        return starts, ends, np.diff(np.cumsum(ends_here)[last], prepend=0)

    def _sentences(self, text: str, starts: Any, ends: Any, n_tokens: Any) -> Any:
        """Return the offsets of sentences [N + 1]."""
        tokens = [text[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]
        spaces = np.where(np.append(starts[1:] > ends[:-1], True), SPACED, GLUED).tolist()
        bounds = np.append(0, np.cumsum(n_tokens)).tolist()
        rows = [Sentence(tokens[a:b], columns={"space": spaces[a:b]}) for a, b in pairwise(bounds)]
        labels = code_points("".join(chain.from_iterable(self.sentences.predict(rows))))
        is_last = labels == ord(END)
        is_last[np.array(bounds[1:]) - 1] = True
        return np.append(0, np.flatnonzero(is_last) + 1)

    # ---- learning --------------------------------------------------------------------------

    @classmethod
    def learn(cls, texts: Iterable[RawText], **options: Any) -> Boundaries:
        """Learn from the texts of paragraphs."""
        characters, tokens, has_spaces = [], [], False
        for group in chain.from_iterable(_groups(text, 8) for text in texts):
            has_spaces |= any(" " in group.text[s:e] for row in group.offsets for s, e in row)
            characters.append(character_labels(group))
            tokens.append(token_labels(group))
        return cls(
            CRF(TOKEN_FEATURES, **options).fit(*zip(*characters, strict=True)),
            CRF(SENTENCE_FEATURES, **options).fit(Corpus(tokens)),
            has_spaces,
        )

    # ---- files -----------------------------------------------------------------------------

    def to_file(self) -> File:
        """Return both models as one header and arrays."""
        parts = {"tokens": self.tokens._whole_file(), "sentences": self.sentences._whole_file()}
        file = File({name: part.header for name, part in parts.items()})
        for name, part in parts.items():
            file |= File({}, part.arrays, part.unverified).prefixed(f"{name}_")
        return file | File({"has_spaces": self.has_spaces})

    @classmethod
    def from_file(cls, file: File) -> Boundaries:
        """Make boundaries from the result of `to_file`; everything is checked."""
        parts = {name: _load(file, name) for name in ("tokens", "sentences")}
        has_spaces = file.header["has_spaces"]
        if type(has_spaces) is not bool:
            raise ModelFileError(expected="has_spaces to be true or false", found=repr(has_spaces))
        return cls(parts["tokens"], parts["sentences"], has_spaces)


def _load(file: File, name: str) -> CRF:
    """Load one of the models; it must have our labels, and read nothing but what we give it."""
    header = file.header[name]
    if header["model"] != "CRF" or header["kind"] != "tagger":
        raise ModelFileError(expected="a CRF for boundaries", found=repr(header["model"]))
    model = CRF._from_whole_file(file.part(f"{name}_", header), None)
    allowed = {"tokens": {END, INSIDE, GAP}, "sentences": {END, INSIDE}}[name]
    extractor = model.scores_.extractor
    columns = {"tokens": set(), "sentences": {"space"}}[name]
    if not set(model.labels_.tolist()) <= allowed:
        raise ModelFileError(expected=f"labels among {sorted(allowed)}", found=str(model.labels_))
    if not isinstance(extractor, Templates) or not set(extractor._further_columns()) <= columns:
        raise ModelFileError(expected="templates over characters", found=repr(extractor))
    return model


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, with one blank for every run of them."""
    words = text.split()
    if not words:
        return
    codes = code_points(text)
    breaks = np.flatnonzero(count_lines(codes, *pieces(codes)) > 1) + 1
    bounds = [0, *breaks.tolist(), len(words)]
    for first, last in pairwise(bounds):
        yield " ".join(words[first:last])


def _groups(text: RawText, size: int) -> Iterator[RawText]:
    """Cut a paragraph into groups of sentences, each with its part of the text."""
    for first in range(0, len(text.offsets), size):
        rows = [row for row in text.offsets[first : first + size] if row]
        if rows:
            begin, end = rows[0][0][0], rows[-1][-1][1]
            moved = [[(s - begin, e - begin) for s, e in row] for row in rows]
            yield RawText(text.text[begin:end], moved)


def character_labels(group: RawText) -> tuple[list[str], list[str]]:
    """Return the characters of a text, runs of blanks as one, and their labels."""
    codes = code_points(group.text)
    blank = is_blank(codes)
    labels = np.where(blank, GAP, INSIDE)
    for start, end in chain.from_iterable(group.offsets):
        labels[start : end - 1] = INSIDE  # also blanks inside a token
        labels[end - 1] = END
    kept = ~(blank & np.append(False, blank[:-1]))
    characters = np.where(blank, ord(" "), codes)[kept].tolist()
    return [*map(chr, characters)], labels[kept].tolist()


def token_labels(group: RawText) -> Sentence:
    """Return the tokens of a text with labels, and whether a blank follows each of them."""
    flat = [*chain.from_iterable(group.offsets)]
    labels = [*chain.from_iterable([INSIDE] * (len(row) - 1) + [END] for row in group.offsets)]
    starts = [start for start, _ in flat[1:]] + [flat[-1][1] + 1]
    spaces = [SPACED if s > e else GLUED for s, (_, e) in zip(starts, flat, strict=True)]
    tokens = [group.text[start:end] for start, end in flat]
    return Sentence(tokens, labels, columns={"space": spaces})
