"""Check gold and predicted labels and count them in native code.

``align`` maps labels to integers once; tokens, spans and transitions are then counted on arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom import _native
from tagloom.checks import plural
from tagloom.errors import SchemeError, ShapeError
from tagloom.labels.label_lists import check_collection, check_labels, place
from tagloom.labels.spans import unreadable
from tagloom.labels.validity import Transition, is_legal
from tagloom.schemes import CONLLEVAL, Scheme, parse_label


@dataclass(frozen=True)
class Aligned:
    """Labels of the same N sentences, T tokens in all, from the gold standard and some systems.

    Attributes
    ----------
    names : sequence of str
        Names of the systems; the first is ``gold``.
    ids : list of ndarray, each of shape (T,)
        Index into ``labels`` for each token.
    offsets : ndarray, shape (N + 1,)
        Begin and end of each sentence.
    labels : list of str
        The Y labels that occur, in order of first occurrence.
    label_lists : list of list of list of str
        The labels of each system, as passed.
    tokens : list of sequences of str, or None
        The words, if they are known.
    sentences : dict of str to sequence
        The sentences of each system, as passed.
    paths : dict of str to str or None
        The file of each system's labels, if known.
    transitions : dict of int to dict
        Results of :func:`count_transitions` by system.
    """

    names: Sequence[str]
    ids: list[NDArray[np.int32]]
    offsets: NDArray[np.int64]
    labels: list[str]
    label_lists: list[list[list[str]]]
    tokens: list[Sequence[str]] | None
    sentences: Mapping[str, Sequence[Any]]
    paths: Mapping[str, str | None]
    transitions: dict[int, dict[Transition, int]] = field(default_factory=dict)

    @property
    def n_sentences(self) -> int:
        """N, the number of sentences."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each sentence, shape (N,)."""
        return np.diff(self.offsets)

    def where(self, name: str, token: int) -> str:
        """Return system, sentence and position of a token of the flat array."""
        sentence = int(np.searchsorted(self.offsets, token, side="right")) - 1
        t = token - int(self.offsets[sentence])
        given, path = self.sentences[name][sentence], self.paths[name]
        return place(given, sentence, t, path) if path else f"{name}: {place(given, sentence, t)}"


def align(
    systems: Mapping[str, Iterable[Any]], tokens: Iterable[Sequence[str]] | None = None
) -> Aligned:
    """Map the labels of several systems to integers; check that the sentences are the same.

    Raises
    ------
    ShapeError
        If the numbers of sentences, tokens or labels differ, or the words differ.
    LabelError
        If a label is open.
    """
    table: dict[str, int] = {}
    names = list(systems)
    sources = {name: _collect(system, name) for name, system in systems.items()}
    paths = {name: getattr(system, "path", None) for name, system in systems.items()}
    label_lists, ids, offsets = [], [], []
    for name, source in sources.items():
        given = [_labels(sentence) for sentence in source]
        numbered = _native.intern(given, table)
        if numbered is None:  # not all are lists of str: convert them, or raise a precise error
            given = list(check_labels(source, name, paths[name] or name))
            numbered = _native.intern(given, table)
            assert numbered is not None  # check_labels yields lists of str
        label_lists.append(given)
        ids.append(numbered[0])
        offsets.append(numbered[1])
        _check_lengths(names[0], offsets[0], name, offsets[-1], source, paths[name])
    words = _words(sources, tokens, offsets[0])
    return Aligned(names, ids, offsets[0], list(table), label_lists, words, sources, paths)


def _collect(system: Iterable[Any], name: str) -> Sequence[Any]:
    check_collection(system, name)
    return system if isinstance(system, Sequence) else list(system)


def _labels(sentence: Any) -> Any:
    return sentence if type(sentence) is list else getattr(sentence, "labels", sentence)


def _check_lengths(
    first: str,
    offsets: NDArray[np.int64],
    name: str,
    others: NDArray[np.int64],
    source: Sequence[Any],
    path: str | None,
) -> None:
    if len(offsets) != len(others):
        raise ShapeError(
            where=name,
            expected=f"{plural(len(offsets) - 1, 'sentence')}, as in {first}",
            found=f"{len(others) - 1:,}",
            hint="Both need the same sentences in the same order.",
        )
    wrong = np.flatnonzero(offsets != others)
    if len(wrong):
        n = int(wrong[0]) - 1
        lengths = [int(o[n + 1] - o[n]) for o in (offsets, others)]
        raise ShapeError(
            where=place(source[n], n, path=path or name),
            expected=f"{plural(lengths[0], 'label')}, as in {first}",
            found=str(lengths[1]),
            hint="Both need one label per token.",
        )


def _words(
    sources: Mapping[str, Sequence[Any]],
    tokens: Iterable[Sequence[str]] | None,
    offsets: NDArray[np.int64],
) -> list[Sequence[str]] | None:
    """Return the words of the sentences; all systems that have words must agree."""
    words_of: dict[str, list[Sequence[str]]] = {}
    if tokens is not None:
        words_of["tokens"] = list(tokens)
    for name, source in sources.items():
        if len(source) and all(hasattr(sentence, "tokens") for sentence in source):
            words_of[name] = [sentence.tokens for sentence in source]
    if not words_of:
        return None
    (first, words), *others = words_of.items()
    lengths = [len(sentence) for sentence in words]
    if lengths != np.diff(offsets).tolist():
        sizes = f"{plural(len(offsets) - 1, 'sentence')} and {plural(int(offsets[-1]), 'token')}"
        raise ShapeError(
            where=first,
            expected=f"{sizes}, as in the labels",
            found=f"{len(words):,} and {sum(lengths):,}",
            hint="Every token of every sentence needs one label.",
        )
    for name, system in others:
        for n, (a, b) in enumerate(zip(words, system, strict=True)):
            if a != b and list(a) != list(b):
                t = next(t for t in range(len(a)) if a[t] != b[t])
                raise ShapeError(
                    where=f"{name}: sentence {n}, token {t}",
                    expected=f"{a[t]!r}, as in {first}",
                    found=repr(b[t]),
                    hint="Both need the same text in the same order.",
                )
    return words


def count_transitions(aligned: Aligned, system: int) -> dict[Transition, int]:
    """Count the transitions of a system, once; None is the edge of a sentence."""
    if system not in aligned.transitions:
        aligned.transitions[system] = _count_transitions(aligned, system)
    return aligned.transitions[system]


def _count_transitions(aligned: Aligned, system: int) -> dict[Transition, int]:
    ids, offsets, Y = aligned.ids[system], aligned.offsets, len(aligned.labels)
    filled = np.flatnonzero(aligned.lengths)  # sentences that are not empty
    before = np.empty(len(ids), dtype=np.int64)  # [T] the previous label, Y at the start
    before[1:] = ids[:-1]
    before[offsets[filled]] = Y
    last = ids[offsets[filled + 1] - 1].astype(np.int64)
    keys = np.concatenate([before * (Y + 1) + ids, last * (Y + 1) + Y])
    if Y < 1000:
        counts = np.bincount(keys, minlength=(Y + 1) ** 2)
        used = np.flatnonzero(counts)
        counts = counts[used]
    else:
        used, counts = np.unique(keys, return_counts=True)
    names: list[str | None] = [*aligned.labels, None]
    return {
        (names[key // (Y + 1)], names[key % (Y + 1)]): n
        for key, n in zip(used.tolist(), counts.tolist(), strict=True)
    }


@dataclass(frozen=True)
class LabelTable:
    """Letters and types of the labels.

    Attributes
    ----------
    letter : ndarray of uint8, shape (Y,)
    type : ndarray of int32, shape (Y,)
        Index into ``types``; O has the empty type.
    types : list of str
    """

    letter: NDArray[np.uint8]
    type: NDArray[np.int32]
    types: list[str]


def is_span_label(label: str) -> bool:
    """Return whether a label is O or has the letter of some scheme."""
    return parse_label(label) is not None


def tabulate(aligned: Aligned, scheme: Scheme | None) -> LabelTable:
    """Split every label into letter and type.

    Raises
    ------
    SchemeError
        If a label has no letter, or one that is not in ``scheme``; with its first place.
    """
    types: dict[str, int] = {"": 0}
    letter, type = [], []
    for y, label in enumerate(aligned.labels):
        split = parse_label(label) if scheme is None else scheme.parse(label)
        if split is None:
            raise _foreign(aligned, y, scheme)
        letter.append(split[0])
        type.append(types.setdefault(split[1], len(types)))
    return LabelTable(np.array(letter, np.uint8), np.array(type, np.int32), list(types))


def _foreign(aligned: Aligned, y: int, scheme: Scheme | None) -> SchemeError:
    for name, ids in zip(aligned.names, aligned.ids, strict=True):
        positions = np.flatnonzero(ids == y)
        if len(positions):
            return unreadable(aligned.labels[y], aligned.where(name, int(positions[0])), scheme)
    raise AssertionError("every label occurs somewhere")


def count_spans(
    aligned: Aligned,
    table: LabelTable,
    systems: tuple[int, int],
    readings: tuple[Scheme, Scheme],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Count the spans of two systems, each in its reading, and the spans in both.

    Returns
    -------
    by_type : ndarray, shape (K, 3)
        Spans of the first system, of the second, and in both.
    by_sentence : ndarray, shape (N, 3)
    """
    (first, second), (a, b) = systems, readings
    by_type, by_sentence = _native.count_spans(
        aligned.ids[first],
        aligned.ids[second],
        aligned.offsets,
        table.letter,
        table.type,
        len(table.types),
        a.actions,
        a.closing,
        b.actions,
        b.closing,
    )
    return by_type, by_sentence


@dataclass(frozen=True)
class ReadingDifference:
    """The difference between conlleval's and a strict reading of one system's spans.

    Attributes
    ----------
    name : str
        Name of the system.
    scheme : str
        Scheme of the strict reading.
    only_conlleval, only_strict, both : int
        Numbers of spans.
    reasons : dict of str to int
        Kinds of illegal transitions and their counts, most common first.

    Examples
    --------
    >>> import tagloom as tl
    >>> result = tl.evaluate([["B-A", "O"]], [["I-A", "O"]], scheme="bio")
    >>> result.reading_differences[0].reasons
    {"'I-…' at the start of a sentence": 1}
    """

    name: str
    scheme: str
    only_conlleval: int
    only_strict: int
    both: int
    reasons: dict[str, int]

    def __str__(self) -> str:
        commonest = list(self.reasons.items())[:3]
        shown = [f"{plural(n, 'time')} {reason}" for reason, n in commonest]
        more = len(self.reasons) - len(shown)
        tail = f", and {plural(more, 'further kind')}" if more else ""
        return (
            f"The two readings differ in {self.name}. Counted by conlleval only: "
            f"{plural(self.only_conlleval, 'span')}; by strict {self.scheme} only: "
            f"{self.only_strict:,}; by both: {self.both:,}. Why: {', '.join(shown)}{tail}."
        )


def compare_readings(
    aligned: Aligned,
    table: LabelTable,
    system: int,
    scheme: Scheme,
    transitions: Mapping[Transition, int],
) -> ReadingDifference | None:
    """Count the spans in which conlleval and the strict reading differ; None if none."""
    illegal = {
        transition: n for transition, n in transitions.items() if not is_legal(*transition, scheme)
    }
    if not illegal:
        return None
    by_type, _ = count_spans(aligned, table, (system, system), (CONLLEVAL, scheme))
    lenient, strict, both = by_type.sum(axis=0).tolist()
    if lenient == strict == both:
        return None
    reasons: Counter[str] = Counter()
    for transition, n in illegal.items():
        reasons[_reason(*transition)] += n
    return ReadingDifference(
        name=aligned.names[system],
        scheme=scheme.name,
        only_conlleval=lenient - both,
        only_strict=strict - both,
        both=both,
        reasons=dict(reasons.most_common()),
    )


def _reason(previous: str | None, label: str | None) -> str:
    """Describe a transition by its letters and whether the types differ."""
    if label is None:
        return f"{_kind(previous)} at the end of a sentence"
    if previous is None:
        return f"{_kind(label)} at the start of a sentence"
    types = [(parse_label(y) or (0, y))[1] for y in (previous, label) if y != "O"]
    others = " of another type" if len(set(types)) > 1 else ""
    return f"{_kind(label)} after {_kind(previous)}{others}"


def _kind(label: str | None) -> str:
    """Return the letter of a label, with "…" for its type."""
    letter, hyphen, _ = (label or "").partition("-")
    return f"'{letter}-…'" if hyphen else f"'{letter}'"
