"""Gold and predicted labels in, counts out: the inputs are checked here and counted natively.

Labels become integers once (``align``); tokens, spans and transitions are then counted on arrays.
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
from tagloom.labels.rows import check_collection, label_rows, place
from tagloom.labels.spans import unreadable
from tagloom.labels.validity import Transition, is_legal
from tagloom.schemes import CONLLEVAL, Scheme, parse_label


@dataclass(frozen=True)
class Aligned:
    """Labels of the same N sentences from several hands, T tokens in all.

    Attributes
    ----------
    names : sequence of str
        Whose labels: ``gold`` first.
    ids : list of ndarray, each of shape (T,)
        Index into ``labels`` for each token.
    offsets : ndarray, shape (N + 1,)
        Where each sentence begins and ends.
    labels : list of str
        The Y labels that occur, in order of first occurrence.
    rows : list of list of list of str
        The labels as given.
    tokens : list of sequences of str, or None
        The words, if they are known.
    sentences : dict of str to sequence
        The sentences of each hand, as given.
    paths : dict of str to str or None
        The file of each hand's labels, if known.
    transitions : dict of int to dict
        What :func:`count_transitions` found, by hand.
    """

    names: Sequence[str]
    ids: list[NDArray[np.int32]]
    offsets: NDArray[np.int64]
    labels: list[str]
    rows: list[list[list[str]]]
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
        """Name hand, sentence and position of a token of the flat array."""
        sentence = int(np.searchsorted(self.offsets, token, side="right")) - 1
        t = token - int(self.offsets[sentence])
        given, path = self.sentences[name][sentence], self.paths[name]
        return place(given, sentence, t, path) if path else f"{name}: {place(given, sentence, t)}"


def align(
    hands: Mapping[str, Iterable[Any]], tokens: Iterable[Sequence[str]] | None = None
) -> Aligned:
    """Number the labels of several hands and make sure that they label the same sentences.

    Raises
    ------
    ShapeError
        If the numbers of sentences, tokens or labels differ, or the words do.
    LabelError
        If a label is missing or partial.
    """
    table: dict[str, int] = {}
    names = list(hands)
    sources = {name: _collect(hand, name) for name, hand in hands.items()}
    paths = {name: getattr(hand, "path", None) for name, hand in hands.items()}
    rows, ids, offsets = [], [], []
    for name, source in sources.items():
        given = [_labels(sentence) for sentence in source]
        numbered = _native.intern(given, table)
        if numbered is None:  # something is not a list of str: convert it, or say what is wrong
            given = list(label_rows(source, name, paths[name] or name))
            numbered = _native.intern(given, table)
            assert numbered is not None  # rows of label_rows are lists of str
        rows.append(given)
        ids.append(numbered[0])
        offsets.append(numbered[1])
        _check_lengths(names[0], offsets[0], name, offsets[-1], source, paths[name])
    words = _words(sources, tokens, offsets[0])
    return Aligned(names, ids, offsets[0], list(table), rows, words, sources, paths)


def _collect(hand: Iterable[Any], name: str) -> Sequence[Any]:
    check_collection(hand, name)
    return hand if isinstance(hand, Sequence) else list(hand)


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
    """Find the words of the sentences; all hands that know them must agree."""
    known: dict[str, list[Sequence[str]]] = {}
    if tokens is not None:
        known["tokens"] = list(tokens)
    for name, source in sources.items():
        if len(source) and all(hasattr(sentence, "tokens") for sentence in source):
            known[name] = [sentence.tokens for sentence in source]
    if not known:
        return None
    (first, words), *others = known.items()
    lengths = [len(sentence) for sentence in words]
    if lengths != np.diff(offsets).tolist():
        sizes = f"{plural(len(offsets) - 1, 'sentence')} and {plural(int(offsets[-1]), 'token')}"
        raise ShapeError(
            where=first,
            expected=f"{sizes}, as there are labels",
            found=f"{len(words):,} and {sum(lengths):,}",
            hint="Every token of every sentence needs one label.",
        )
    for name, hand in others:
        for n, (a, b) in enumerate(zip(words, hand, strict=True)):
            if a != b and list(a) != list(b):
                t = next(t for t in range(len(a)) if a[t] != b[t])
                raise ShapeError(
                    where=f"{name}: sentence {n}, token {t}",
                    expected=f"{a[t]!r}, as in {first}",
                    found=repr(b[t]),
                    hint="Both need the same text in the same order.",
                )
    return words


def count_transitions(aligned: Aligned, hand: int) -> dict[Transition, int]:
    """Count which label follows which, once; None stands for the edges of a sentence."""
    if hand not in aligned.transitions:
        aligned.transitions[hand] = _count_transitions(aligned, hand)
    return aligned.transitions[hand]


def _count_transitions(aligned: Aligned, hand: int) -> dict[Transition, int]:
    ids, offsets, Y = aligned.ids[hand], aligned.offsets, len(aligned.labels)
    filled = np.flatnonzero(aligned.lengths)  # sentences that have a first and a last token
    before = np.empty(len(ids), dtype=np.int64)  # [T] the label before, Y at the start
    before[1:] = ids[:-1]
    before[offsets[filled]] = Y
    last = ids[offsets[filled + 1] - 1].astype(np.int64)
    keys = np.concatenate([before * (Y + 1) + ids, last * (Y + 1) + Y])
    if Y < 1000:
        counts = np.bincount(keys, minlength=(Y + 1) ** 2)
        found = np.flatnonzero(counts)
        counts = counts[found]
    else:
        found, counts = np.unique(keys, return_counts=True)
    names: list[str | None] = [*aligned.labels, None]
    return {
        (names[key // (Y + 1)], names[key % (Y + 1)]): n
        for key, n in zip(found.tolist(), counts.tolist(), strict=True)
    }


@dataclass(frozen=True)
class LabelTable:
    """Letters and types of the labels.

    Attributes
    ----------
    letter : ndarray of uint8, shape (Y,)
    type : ndarray of int32, shape (Y,)
        Index into ``types``; that of O is the empty type.
    types : list of str
    """

    letter: NDArray[np.uint8]
    type: NDArray[np.int32]
    types: list[str]


def is_span_label(label: str) -> bool:
    """Tell whether a label is O or has the letter of some scheme."""
    return parse_label(label) is not None


def tabulate(aligned: Aligned, scheme: Scheme | None) -> LabelTable:
    """Split every label into letter and type.

    Raises
    ------
    SchemeError
        If a label has no letter, or one that ``scheme`` lacks; says where it first occurs.
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
        found = np.flatnonzero(ids == y)
        if len(found):
            return unreadable(aligned.labels[y], aligned.where(name, int(found[0])), scheme)
    raise AssertionError("every label occurs somewhere")


def count_spans(
    aligned: Aligned,
    table: LabelTable,
    hands: tuple[int, int],
    readings: tuple[Scheme, Scheme],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Count the spans of two hands, each in its reading, and those that are the same.

    Returns
    -------
    by_type : ndarray, shape (K, 3)
        Spans of the first hand, of the second, and in both.
    by_sentence : ndarray, shape (N, 3)
    """
    (first, second), (a, b) = hands, readings
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
    """How far conlleval and a strict reading disagree about one hand's spans, and why.

    Attributes
    ----------
    name : str
        Whose labels.
    scheme : str
        Of the strict reading.
    only_conlleval, only_strict, both : int
        Numbers of spans.
    reasons : dict of str to int
        The kinds of illegal transitions and how often each occurs, commonest first.
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
    hand: int,
    scheme: Scheme,
    transitions: Mapping[Transition, int],
) -> ReadingDifference | None:
    """Count the spans that conlleval and the strict reading do not share; None if none."""
    illegal = {
        transition: n for transition, n in transitions.items() if not is_legal(*transition, scheme)
    }
    if not illegal:
        return None
    by_type, _ = count_spans(aligned, table, (hand, hand), (CONLLEVAL, scheme))
    lenient, strict, both = by_type.sum(axis=0).tolist()
    if lenient == strict == both:
        return None
    reasons: Counter[str] = Counter()
    for transition, n in illegal.items():
        reasons[_reason(*transition)] += n
    return ReadingDifference(
        name=aligned.names[hand],
        scheme=scheme.name,
        only_conlleval=lenient - both,
        only_strict=strict - both,
        both=both,
        reasons=dict(reasons.most_common()),
    )


def _reason(previous: str | None, label: str | None) -> str:
    """Say what kind of transition it is: the letters, and whether the types are the same."""
    if label is None:
        return f"{_kind(previous)} at the end of a sentence"
    if previous is None:
        return f"{_kind(label)} at the start of a sentence"
    types = [(parse_label(y) or (0, y))[1] for y in (previous, label) if y != "O"]
    others = " of another type" if len(set(types)) > 1 else ""
    return f"{_kind(label)} after {_kind(previous)}{others}"


def _kind(label: str | None) -> str:
    """Show the letter of a label and hide its type."""
    letter, hyphen, _ = (label or "").partition("-")
    return f"'{letter}-…'" if hyphen else f"'{letter}'"
