"""Templates over segments: what a segment model reads of a whole phrase.

    first(lower) & last(shape)   →  factors, each an anchor and a token template

A segment template is a conjunction of parts. ``first(f)`` and ``last(f)`` read a token template at
the first and at the last word, so ``first(lower[-1])`` is the word before the segment and
``last(lower[1])`` the word after it; ``each(f)`` gives an attribute for every inner word;
``phrase(f)`` joins the values of all words; ``length`` is the number of words; ``lexicon(name)``
is the type of the entry of a lexicon that equals the segment. `templates` has the token templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import TemplateError
from tagloom.features.expressions import parse
from tagloom.features.lexicons import Lexicon, PhraseCounts
from tagloom.features.templates import Templates, call_native

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

#: The anchors of a part, in the order of the native core.
ANCHORS = ("first", "last", "each", "phrase", "length")
#: Templates for names and phrases, beside those of tokens.
SEGMENT_PRESETS: dict[str, list[str]] = {
    "phrases": [
        "phrase(lower)",
        "phrase(short_shape)",
        "first(lower) & last(lower)",
        "first(lower[-1]) & last(lower[1])",
        "length",
    ],
}
_FOLDS = 10  # parts of the training data whose names a counted lexicon leaves out
_PART = re.compile(r"\s*(?P<anchor>\w+)\s*(?:\((?P<inner>.*)\))?\s*\Z", re.DOTALL)


class EncodedSegments(NamedTuple):
    """The attributes of segments in CSR form."""

    begin: Int64  #: [n] first token of each segment, counted over all sentences
    length: Int32  #: [n]
    indptr: Int64  #: [n + 1]
    ids: Int32  #: attributes of segment i are ids[indptr[i]:indptr[i + 1]]

    def without(self, is_left_out: npt.NDArray[np.bool_]) -> EncodedSegments:
        """Return the segments without some attributes, by id."""
        kept = ~is_left_out[self.ids]
        before = np.concatenate([[0], np.cumsum(kept)])  # kept ids before each place
        return self._replace(indptr=before[self.indptr], ids=self.ids[kept])

    def nonempty(self) -> EncodedSegments:
        """Return the segments that have an attribute."""
        counts = np.diff(self.indptr)
        kept = counts > 0
        indptr = np.concatenate([[0], np.cumsum(counts[kept])])
        return EncodedSegments(self.begin[kept], self.length[kept], indptr, self.ids)


class SegmentTemplates:
    """Features of segments.

    Parameters
    ----------
    templates : str or iterable of str
        A preset, "phrases", or expressions such as ``"first(lower) & last(lower)"``.
    lexicons : mapping of str to Lexicon, path or iterable, optional
        Lexicons for ``lexicon(name)``.
    **resources
        ``clusters`` and ``lists`` for token templates; see `Templates`.

    Raises
    ------
    TemplateError
        If a template is malformed, or names a lexicon that is missing.

    Examples
    --------
    >>> from tagloom.features import SegmentTemplates
    >>> templates = SegmentTemplates(
    ...     ["phrase(lower)", "length", "lexicon(cities)"], lexicons={"cities": ["New York"]}
    ... )
    >>> templates.extract(["in", "New", "York"], 1, 3)
    ['segment phrase(lower)=new_york', 'segment length=2', 'segment lexicon(cities)']
    """

    def __init__(
        self,
        templates: str | Iterable[str],
        *,
        lexicons: Mapping[str, Any] | None = None,
        **resources: Any,
    ) -> None:
        if isinstance(templates, str):
            if templates not in SEGMENT_PRESETS:
                raise TemplateError(
                    expected=f"a preset ({', '.join(SEGMENT_PRESETS)}) or a list of templates",
                    found=repr(templates),
                )
            templates = SEGMENT_PRESETS[templates]
        if not isinstance(templates, Iterable):
            raise TemplateError(
                expected="a list of segment templates such as ['phrase(lower)']",
                found=checks.show(templates),
            )
        self.templates = list(templates)
        self.lexicons = {
            name: x if isinstance(x, Lexicon) else Lexicon(x)
            for name, x in (lexicons or {}).items()
        }
        self._resources = resources
        self._lexicon_names: list[str] = []
        tokens: dict[str, int] = {}  # token template -> its number in the programme
        self._compiled: list[tuple[str, list[tuple[int, int]]]] = []
        for number, text in enumerate(self.templates):
            self._compile(text, number, tokens)
        self._tokens = Templates(list(tokens) or ["word"], **resources)

    def _compile(self, text: Any, number: int, tokens: dict[str, int]) -> None:
        where = f"segment template {number}, {text!r}"
        if not isinstance(text, str):
            raise TemplateError(where=where, expected="a str", found=checks.show(text))
        choices: list[list[tuple[str, int, int]]] = [[]]
        for part in _split(text):
            options = self._options(part, where, tokens)
            choices = [[*before, option] for before in choices for option in options]
        for choice in choices:
            alone = {"each": ANCHORS.index("each"), "lexicon": -1}
            for name, anchor in alone.items():
                if len(choice) > 1 and any(other == anchor for _, other, _ in choice):
                    raise TemplateError(
                        where=where, expected=f"{name}(...) alone", found="a conjunction with it"
                    )
            if choice[0][1] >= 0:
                name = "&".join(shown for shown, _, _ in choice)
                factors = [(anchor, of) for _, anchor, of in choice]
                self._compiled.append((f"segment {name}=", factors))

    def _options(self, part: str, where: str, tokens: dict[str, int]) -> list[tuple[str, int, int]]:
        """Read one part: (text, anchor, token template); a range gives several."""
        match = _PART.match(part)
        anchor, inner = (match["anchor"], match["inner"]) if match else ("", None)
        if anchor == "length" and inner is None:
            return [("length", ANCHORS.index("length"), 0)]
        if anchor == "lexicon" and inner:
            name = inner.strip()
            if name not in self.lexicons:
                raise TemplateError(
                    where=where,
                    expected=f"{name!r} among the lexicons",
                    found=", ".join(sorted(self.lexicons)) or "none",
                    hint=f"Pass lexicons={{{name!r}: ...}}.",
                )
            self._lexicon_names.append(name)
            return [(f"lexicon({name})", -1, 0)]
        if anchor not in ANCHORS or not inner:
            raise TemplateError(
                where=where,
                expected="first(...), last(...), each(...), phrase(...), length or lexicon(name)",
                found=repr(part.strip()),
            )
        records = parse(inner)
        if any(record.edge or record.number is not None for record in records):
            raise TemplateError(
                where=where, expected="templates without edge() and value()", found=repr(inner)
            )
        return [
            (
                f"{anchor}({record.text})",
                ANCHORS.index(anchor),
                tokens.setdefault(record.text, len(tokens)),
            )
            for record in records
        ]

    def __repr__(self) -> str:
        return f"SegmentTemplates({self.templates!r})"

    def encode(
        self,
        X: Sequence[Any],
        index: _native.Index,
        begin: Int64,
        length: Int32,
        *,
        grow: bool = False,
        n_threads: int = 1,
        own: Sequence[Sequence[tuple[int, int, str]]] | None = None,
    ) -> EncodedSegments:
        """Turn segments into attribute ids.

        Parameters
        ----------
        X : sequence of list of str, or of Sentence
        index : Index
        begin, length : ndarray, shape (n,)
            First token of each segment, counted over all sentences, in ascending order.
        grow : bool, optional
            Whether new attributes get an id.
        n_threads : int, optional
        own : sequence of list of (start, end, type), optional
            In training, the spans of each sentence. Counted lexicons leave out those of the fold of
            a sentence, a tenth of all in a row.
        """
        columns, numbers = self._tokens.columns(X)
        given_at, given = self._lexicon_matches(columns[0], begin, length, own)
        indptr, ids = call_native(
            _native.encode_segments,
            *(self._tokens._node, self._compiled, columns, numbers, index, grow),
            *(begin, length, given_at, given, n_threads),
        )
        return EncodedSegments(begin, length, indptr, ids)

    def _lexicon_matches(
        self,
        tokens: Sequence[Sequence[str]],
        begin: Int64,
        length: Int32,
        own: Sequence[Sequence[tuple[int, int, str]]] | None,
    ) -> tuple[Int64, list[str]]:
        """Find the segments that are entries: their numbers, and the names of the attributes."""
        if not self._lexicon_names:
            return np.empty(0, dtype=np.int64), []
        pairs: list[tuple[int, int, str]] = []  # first token, length, name
        offset, N = 0, len(tokens)
        left_out = {
            name: _count_folds(self.lexicons[name], tokens, own)
            for name in self._lexicon_names
            if own is not None and self.lexicons[name].is_counted
        }
        for i, sentence in enumerate(tokens):
            for name in self._lexicon_names:
                without = left_out[name][i * _FOLDS // N] if name in left_out else None
                for start, end, kind in self.lexicons[name].find(sentence, without):
                    shown = f"segment lexicon({name})" + (f"={kind}" if kind else "")
                    pairs.append((offset + start, end - start, shown))
            offset += len(sentence)
        keys = begin.astype(np.int64) * 4096 + length
        wanted = np.array([t * 4096 + n for t, n, _ in pairs], dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        at = np.searchsorted(keys[order], wanted)
        found = [
            (int(order[i]), shown)
            for i, key, (_, _, shown) in zip(at.tolist(), wanted.tolist(), pairs, strict=True)
            if i < len(keys) and keys[order[i]] == key
        ]
        found.sort()
        return np.array([i for i, _ in found], dtype=np.int64), [shown for _, shown in found]

    def extract(self, sentence: Any, start: int, end: int) -> list[str]:
        """Return the names of the attributes of one segment of a sentence."""
        index = _native.Index()
        place = np.array([start], dtype=np.int64), np.array([end - start], dtype=np.int32)
        ids = self.encode([sentence], index, *place, grow=True).ids
        blob, offsets = index.names()
        return [blob[offsets[i] : offsets[i + 1]].decode("utf-8") for i in ids]

    def to_dict(self) -> dict[str, Any]:
        """Return the templates as plain data, which `from_dict` reads."""
        saved = self._tokens.to_dict()
        return {
            "templates": self.templates,
            "lexicons": {name: x.to_dict() for name, x in self.lexicons.items()},
            "clusters": saved["clusters"],
            "lists": saved["lists"],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SegmentTemplates:
        """Make templates from the result of `to_dict`."""
        return cls(
            list(data["templates"]),
            lexicons={name: Lexicon.from_dict(x) for name, x in data["lexicons"].items()},
            clusters=data["clusters"],
            lists=data["lists"],
        )


def _count_folds(
    lexicon: Lexicon,
    tokens: Sequence[Sequence[str]],
    own: Sequence[Sequence[tuple[int, int, str]]],
) -> list[PhraseCounts]:
    """Count the phrases of the spans of each fold of neighbouring sentences."""
    phrases: list[list[tuple[str, str]]] = [[] for _ in range(_FOLDS)]
    for i, (words, spans) in enumerate(zip(tokens, own, strict=True)):
        of_fold = phrases[i * _FOLDS // len(tokens)]
        of_fold += [(" ".join(words[start:end]), kind) for start, end, kind in spans]
    return [lexicon.count(of_fold) for of_fold in phrases]


def _split(text: str) -> list[str]:
    """Split a template at the "&" outside parentheses and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote and text[i - 1] != "\\" else quote
        elif c in "\"'":
            quote = c
        elif c == "&" and depth == 0:
            parts.append(text[start:i])
            start = i + 1
        else:
            depth += (c == "(") - (c == ")")
    return [*parts, text[start:]]
