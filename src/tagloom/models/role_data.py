"""Sentences with frames for the role labeller: words, trees, predicates and roles as numbers.

Features are hashed, so the checksum of a string stands for it, as in the parser.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import LabelError, SentenceError
from tagloom.labels.roles import is_core
from tagloom.models.data import digest
from tagloom.models.parser_data import string_number
from tagloom.sequences.predicates import Frame, FrameSentence

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Choices = tuple[npt.NDArray[np.uint64], Int64, Int32]  # contexts, indptr, roles of each

# Bits of the class of a word (core/role_features.hpp): punctuation, and relations by their names in
# Universal Dependencies. Other names are features all the same, but give fewer candidates.
_PUNCTUATION, _OPENS, _CLOSES, _QUOTES = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_BRACKETS = {
    **dict.fromkeys(("(", "[", "{", "``", "\u201c", "-lrb-", "-lsb-"), _OPENS),
    **dict.fromkeys((")", "]", "}", "''", "\u201d", "-rrb-", "-rsb-"), _CLOSES),
    **dict.fromkeys(('"', "'"), _QUOTES),
}
_RELATIONS = {
    **dict.fromkeys(("case", "mark"), 1 << 4),
    **dict.fromkeys(("conj", "cc"), 1 << 5),
    **dict.fromkeys(("acl", "advcl", "appos", "list", "parataxis"), 1 << 6),
    **dict.fromkeys(("nsubj", "csubj"), 1 << 7),
    **dict.fromkeys(("obj", "iobj"), 1 << 8),
    **dict.fromkeys(("xcomp", "ccomp"), 1 << 9),
    **dict.fromkeys(("aux", "cop"), 1 << 11),
}
_PASSIVE = 1 << 10
_MIN_LEMMA = 20  # frames of a lemma before its core roles are known


class Lemmas:
    """The lemma of a predicate: that of its form in the training data.

    Rolesets such as "come.03" contain it. For a form that is not known, up to three final letters
    are removed, and an e added, until a lemma is found; otherwise the form stands for it.

    Parameters
    ----------
    table : mapping of str to str
        Lemmas of lower-case forms.

    Examples
    --------
    >>> from tagloom.models.role_data import Lemmas
    >>> lemmas = Lemmas({"comes": "come", "go": "go"})
    >>> lemmas.of("Comes"), lemmas.of("going"), lemmas.of("coming"), lemmas.of("sit")
    ('come', 'go', 'come', 'sit')
    """

    def __init__(self, table: Mapping[str, str]) -> None:
        self.table = dict(table)
        self._known = set(self.table.values())

    @classmethod
    def learn(cls, sentences: Sequence[FrameSentence]) -> Lemmas:
        """Count the lemmas of the rolesets of each form."""
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            for frame in sentence.frames:
                if frame.roleset is not None:
                    form = sentence.tokens[frame.predicate].lower()
                    counts[form][frame.roleset.rpartition(".")[0] or frame.roleset] += 1
        best = {form: min(of, key=lambda x: (-of[x], x)) for form, of in counts.items()}
        return cls(dict(sorted(best.items())))

    def of(self, form: str) -> str:
        """Return the lemma of a form."""
        form = form.lower()
        lemma = self.table.get(form)
        if lemma is not None:
            return lemma
        for n in range(1, 4):
            for stem in (form[:-n], form[:-n] + "e"):
                if len(stem) > 1 and stem in self._known:
                    return stem
        return form


def encode(
    sentences: Sequence[FrameSentence], tags: Sequence[str], lemmas: Lemmas, *, rolesets: bool
) -> _native.RoleFrames:
    """Return sentences and predicates as the native code reads them."""
    numbers: dict[str, int] = {}

    def number(text: str) -> int:
        value = numbers.get(text)
        if value is None:
            value = numbers[text] = string_number(text)
        return value

    rows: list[tuple[int, ...]] = []
    offsets, heads = [0], []
    frames: list[tuple[int, int, int, int]] = []
    for i, sentence in enumerate(sentences):
        columns = [_column(sentence, name, i) for name in tags]
        fine = columns[0] if columns else [""] * len(sentence.tokens)
        coarse = columns[1] if len(columns) > 1 else fine
        for word, tag, short, relation in zip(
            sentence.tokens, fine, coarse, sentence.deprels, strict=True
        ):
            lower = word.lower()
            rows.append(
                (
                    number(lower),
                    number(tag),
                    number(short),
                    number(relation),
                    number("-" + lower[-3:]),
                    word_class(lower, short, relation),
                )
            )
        offsets.append(len(rows))
        heads += sentence.heads
        for frame in sentence.frames:
            lemma = number(lemmas.of(sentence.tokens[frame.predicate]))
            roleset = number(frame.roleset) if rolesets and frame.roleset is not None else 0
            frames.append((i, frame.predicate, lemma, roleset))
    table = np.array(frames, dtype=np.int64).reshape(len(frames), 4)
    return _native.RoleFrames(
        np.array(offsets, dtype=np.int64),
        np.array(rows, dtype=np.uint32).reshape(len(rows), 6),
        np.array(heads, dtype=np.int32),
        np.ascontiguousarray(table[:, 0]),
        np.ascontiguousarray(table[:, 1]),
        table[:, 2].astype(np.uint32),
        table[:, 3].astype(np.uint32),
    )


def word_class(lower: str, tag: str, relation: str) -> int:
    """Return the bits of the class of a word."""
    bits = _RELATIONS.get(relation.partition(":")[0], 0)
    if relation.endswith(":pass"):
        bits |= _PASSIVE
    if tag == "PUNCT" or relation == "punct":
        bits |= _PUNCTUATION | _BRACKETS.get(lower, 0)
    return bits


def _column(sentence: FrameSentence, name: str, i: int) -> list[str]:
    values = sentence.columns.get(name)
    if values is None:
        raise SentenceError(
            where=checks.place(i),
            expected=f"tags {name!r}, which the labeller reads",
            found=f"columns {', '.join(sentence.columns) or '(none)'}",
            hint="Tag the sentences first, or choose other columns with tags=.",
        )
    return values


@dataclass(frozen=True, eq=False)
class RoleData:
    """Training data of a role labeller.

    Attributes
    ----------
    frames : RoleFrames
        Sentences and predicates.
    indptr : ndarray of int64, shape (F + 1,)
    arguments : ndarray of int32, shape (A, 3)
        Start, end and role of the arguments ``indptr[f]`` to ``indptr[f + 1] − 1`` of frame f.
    names : list of str
        Names of the roles.
    lemmas : Lemmas
    legal : Choices
        The roles of each lemma that is frequent enough; others have all.
    n_sentences, n_tokens : int
    """

    frames: _native.RoleFrames
    indptr: Int64
    arguments: Int32
    names: list[str]
    lemmas: Lemmas
    legal: Choices
    n_sentences: int
    n_tokens: int

    @classmethod
    def read(
        cls, sentences: Sequence[FrameSentence], tags: Sequence[str], *, rolesets: bool, legal: bool
    ) -> RoleData:
        """Read sentences with frames."""
        frames = [(s, frame) for s in sentences for frame in s.frames]
        names = sorted({role for _, frame in frames for _, _, role in frame.arguments})
        if not names:
            raise LabelError(parameter="X", expected="frames with arguments", found="none")
        lemmas = Lemmas.learn(sentences)
        place = {name: y for y, name in enumerate(names)}
        rows = [
            (start, end, place[role]) for _, frame in frames for start, end, role in frame.arguments
        ]
        indptr = np.cumsum([0, *(len(frame.arguments) for _, frame in frames)], dtype=np.int64)
        return cls(
            encode(sentences, tags, lemmas, rolesets=rolesets),
            indptr,
            np.array(rows, dtype=np.int32).reshape(len(rows), 3),
            names,
            lemmas,
            legal_roles(frames, names, lemmas) if legal else empty_choices(),
            len(sentences),
            sum(len(s.tokens) for s in sentences),
        )

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the data."""
        start = self.frames.candidates()
        return digest(self.names, self.indptr, self.arguments, *start)

    @property
    def sizes(self) -> dict[str, int]:
        """For the training record."""
        counts = {"sentences": self.n_sentences, "tokens": self.n_tokens}
        return {**counts, "frames": len(self.indptr) - 1, "arguments": len(self.arguments)}


def empty_choices() -> Choices:
    """Return choices without a context: every role is free."""
    return np.empty(0, np.uint64), np.zeros(1, np.int64), np.empty(0, np.int32)


def legal_roles(
    frames: Sequence[tuple[FrameSentence, Frame]], names: Sequence[str], lemmas: Lemmas
) -> Choices:
    """Return, for each frequent lemma, the core roles seen with it and all adjuncts."""
    counts: Counter[str] = Counter()
    seen: defaultdict[str, set[str]] = defaultdict(set)
    for sentence, frame in frames:
        lemma = lemmas.of(sentence.tokens[frame.predicate])
        counts[lemma] += 1
        seen[lemma] |= {role for _, _, role in frame.arguments}
    rows = {}
    for lemma, n in counts.items():
        if n >= _MIN_LEMMA:
            rows[string_number(lemma)] = [
                y for y, role in enumerate(names) if role in seen[lemma] or not is_core(role)
            ]
    contexts = sorted(rows)
    indptr = np.cumsum([0, *(len(rows[c]) for c in contexts)], dtype=np.int64)
    roles = [y for c in contexts for y in rows[c]]
    return np.array(contexts, np.uint64), indptr, np.array(roles, np.int32)
