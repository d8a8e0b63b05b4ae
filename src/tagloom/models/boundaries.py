"""Learnt boundaries: where tokens and sentences end, by two CRFs.

The first labels the characters of a paragraph, with each run of blanks as one character: ``E`` ends
a token, ``I`` does not, ``_`` is a blank between tokens. The second labels the tokens that result:
``E`` ends a sentence, ``I`` does not. Both read what the preset of the tokenizer finds, in the
column ``rule``, and learn where a corpus differs from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from tagloom import checks
from tagloom.errors import ModelFileError
from tagloom.features import Templates
from tagloom.models.crf import CRF
from tagloom.sequences import Corpus, Sentence
from tagloom.sequences.raw import RawText
from tagloom.storage import File
from tagloom.text.cuts import (
    NONE,
    Bools,
    Codes,
    Cuts,
    Cutter,
    Int64,
    code_points,
    count_lines,
    is_blank,
    pieces,
)

_SURROGATE = re.compile("[\ud800-\udfff]")
END, INSIDE, GAP = "E", "I", "_"
RULE_END, RULE_INSIDE, RULE_GAP = "e", "i", "-"  # the same, as the preset has it
SPACED, GLUED = "s", "g"  # whether a blank follows a token

# Chosen on the development parts of English and Estonian web treebanks.
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
    "col(rule)[-2..2]",
    "col(rule) & word",
    "col(rule) & word & word[1]",
    "col(rule) & word[-1] & word",
    "col(rule) & short_shape[-1] & short_shape & short_shape[1]",
    "col(rule)[-1] & col(rule) & col(rule)[1]",
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
    "col(rule)[-1..1]",
    "col(rule) & lower",
    "col(rule) & lower & short_shape[1]",
]
_COLUMNS = {"tokens": {"rule"}, "sentences": {"rule", "space"}}
_LABELS = {"tokens": {END, INSIDE, GAP}, "sentences": {END, INSIDE}}
# Sentences that are learnt from as one sequence, and the learning rate of AdaGrad: with 0.5, which
# suits tagging, F1 is a tenth to half a point lower.
_TOKEN_GROUP, _TOKEN_ETA = 8, 0.1
_SENTENCE_GROUP, _SENTENCE_ETA = 25, 0.2


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
    preset : Cutter
        What the column ``rule`` comes from.
    """

    tokens: CRF
    sentences: CRF
    has_spaces: bool
    preset: Cutter

    def cut(self, text: str) -> Cuts:
        """Find the tokens and sentences of a text."""
        text = _SURROGATE.sub("\ufffd", text)  # the native core takes valid Unicode only
        paragraphs = [*_paragraphs(text)]
        if not paragraphs:
            return NONE
        rules = _Rules.of(text, self.preset)
        starts, ends, n_tokens = self._tokens(rules, paragraphs)
        return Cuts(starts, ends, self._sentences(text, rules, starts, ends, n_tokens))

    def _tokens(self, rules: _Rules, paragraphs: list[str]) -> tuple[Int64, Int64, Int64]:
        """Return start and end of each token [T], and the tokens of each paragraph [P]."""
        codes = code_points("".join(paragraphs))  # [C]
        column = rules.column(codes)
        last = np.cumsum([len(paragraph) for paragraph in paragraphs])  # [P]
        rows = [
            Sentence([*paragraph], columns={"rule": column[end - len(paragraph) : end]})
            for paragraph, end in zip(paragraphs, last.tolist(), strict=True)
        ]
        label = code_points("".join(chain.from_iterable(self.tokens.predict(rows))))  # [C]
        solid = np.flatnonzero(codes != ord(" "))  # [S] characters that are not blank
        after = np.append(codes[1:] == ord(" "), False)  # [C] whether a blank follows
        if self.has_spaces:
            after &= np.append(label[1:] != ord(INSIDE), False)
        ends_here = ((label == ord(END)) | after)[solid]  # [S]
        last_solid = np.searchsorted(solid, last - 1)  # [P]
        ends_here[last_solid] = True
        ends = rules.places[ends_here] + 1
        starts = rules.places[np.append(True, ends_here[:-1])]
        return starts, ends, np.diff(np.cumsum(ends_here)[last_solid], prepend=0)

    def _sentences(
        self, text: str, rules: _Rules, starts: Int64, ends: Int64, n_tokens: Int64
    ) -> Int64:
        """Return the offsets of sentences [N + 1]."""
        tokens = _token_columns(text, rules, starts, ends)
        bounds = np.append(0, np.cumsum(n_tokens))
        rows = [_part(tokens, first, last) for first, last in pairwise(bounds.tolist())]
        labels = code_points("".join(chain.from_iterable(self.sentences.predict(rows))))
        is_last = labels == ord(END)
        is_last[bounds[1:] - 1] = True
        return np.append(0, np.flatnonzero(is_last) + 1)

    # ---- learning --------------------------------------------------------------------------

    @classmethod
    def learn(cls, texts: Iterable[RawText], preset: Cutter) -> Boundaries:
        """Learn from the texts of paragraphs and what a preset finds in them."""
        characters, tokens, has_spaces = [], [], False
        for text in texts:
            has_spaces |= any(" " in text.text[s:e] for row in text.offsets for s, e in row)
            for group in _groups(text, _TOKEN_GROUP):
                characters.append(_labelled_characters(group, _Rules.of(group.text, preset)))
            for group in _groups(text, _SENTENCE_GROUP):
                tokens.append(_labelled_tokens(group, _Rules.of(group.text, preset)))
        return cls(
            CRF(TOKEN_FEATURES, eta=_TOKEN_ETA).fit(Corpus(characters)),
            CRF(SENTENCE_FEATURES, eta=_SENTENCE_ETA).fit(Corpus(tokens)),
            has_spaces,
            preset,
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
    def from_file(cls, file: File, preset: Cutter) -> Boundaries:
        """Make boundaries from the result of `to_file`; everything is checked."""
        parts = {name: _load(file, name) for name in ("tokens", "sentences")}
        has_spaces = file.header["has_spaces"]
        if type(has_spaces) is not bool:
            raise ModelFileError(expected="has_spaces to be true or false", found=repr(has_spaces))
        return cls(parts["tokens"], parts["sentences"], has_spaces, preset)


def _load(file: File, name: str) -> CRF:
    """Load one of the models; it must have our labels, and read nothing but what we give it."""
    header = file.header[name]
    if header["model"] != "CRF" or header["kind"] != "tagger":
        raise ModelFileError(expected="a CRF for boundaries", found=repr(header["model"]))
    model = CRF._from_whole_file(file.part(f"{name}_", header), None)
    extractor = model.scores_.extractor
    labels = set(model.labels_.tolist())
    if not labels <= _LABELS[name]:
        raise ModelFileError(expected=f"labels of {name}", found=checks.show(sorted(labels)))
    if not isinstance(extractor, Templates) or not (
        set(extractor._further_columns()) <= _COLUMNS[name]
    ):
        raise ModelFileError(expected=f"templates for {name}", found=checks.show(extractor))
    return model


class _Rules(NamedTuple):
    """What a preset finds in a text, for each of its S characters that are not blank.

    Attributes
    ----------
    places : ndarray of int64, shape (S,)
    token_ends, sentence_ends : ndarray of bool, shape (S,)
    """

    places: Int64
    token_ends: Bools
    sentence_ends: Bools

    @classmethod
    def of(cls, text: str, preset: Cutter) -> _Rules:
        places = np.flatnonzero(~is_blank(code_points(text)))
        cuts = preset.cut(text)
        token_ends, sentence_ends = np.zeros((2, len(places)), np.bool_)
        last = np.searchsorted(places, cuts.ends - 1)  # [T]
        token_ends[last] = True
        sentence_ends[last[cuts.sentences[1:] - 1]] = True
        return cls(places, token_ends, sentence_ends)

    def column(self, codes: Codes) -> list[str]:
        """Return the column of a text with one blank for every run of them."""
        column = np.full(len(codes), ord(RULE_GAP), np.uint8)
        column[codes != ord(" ")] = np.where(self.token_ends, ord(RULE_END), ord(RULE_INSIDE))
        return [*column.tobytes().decode("ascii")]


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
            yield RawText(_SURROGATE.sub("\ufffd", text.text[begin:end]), moved)


def _labelled_characters(group: RawText, rules: _Rules) -> Sentence:
    """Return the characters of a text, runs of blanks as one, with their labels."""
    codes = code_points(group.text)
    blank = is_blank(codes)
    labels = np.where(blank, GAP, INSIDE)
    for start, end in chain.from_iterable(group.offsets):
        labels[start : end - 1] = INSIDE  # also blanks inside a token
        labels[end - 1] = END
    kept = ~(blank & np.append(False, blank[:-1]))
    characters = np.where(blank, ord(" "), codes)[kept]
    return Sentence(
        map(chr, characters.tolist()),
        labels[kept].tolist(),
        columns={"rule": rules.column(characters)},
    )


def _labelled_tokens(group: RawText, rules: _Rules) -> Sentence:
    """Return the tokens of a text with their labels."""
    starts, ends = np.array([*chain.from_iterable(group.offsets)], np.int64).T
    columns = _token_columns(group.text, rules, starts, ends)
    labels = chain.from_iterable([INSIDE] * (len(row) - 1) + [END] for row in group.offsets)
    return _part(columns, 0, len(starts)).with_labels(labels)


def _token_columns(text: str, rules: _Rules, starts: Int64, ends: Int64) -> list[list[str]]:
    """Return tokens, what follows each of them, and whether the preset ends a sentence there."""
    tokens = [text[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]
    spaces = np.where(np.append(starts[1:] > ends[:-1], True), SPACED, GLUED)
    ends_sentence = rules.sentence_ends[np.searchsorted(rules.places, ends - 1)]
    return [tokens, spaces.tolist(), np.where(ends_sentence, RULE_END, RULE_INSIDE).tolist()]


def _part(columns: list[list[str]], first: int, last: int) -> Sentence:
    tokens, spaces, rules = (column[first:last] for column in columns)
    return Sentence(tokens, columns={"space": spaces, "rule": rules})
