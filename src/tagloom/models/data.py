"""What users pass as X and y, checked once for all taggers: errors name the sentence."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native
from tagloom.errors import LabelError, ParameterError, SentenceError
from tagloom.sequences import Corpus, Sentence

# T tokens have fewer labels than this many times √T: at most 5.5 in any text of 100 words or more,
# for tags with morphological features of Estonian. Words and lemmas, of which there is no end, are
# 22 to 62 times √T in the corpora that we know.
_LABELS = 8


def as_sentences(X: Any) -> Sequence[Any]:
    """Return X as a sequence of sentences; what a sentence may be, the features decide.

    Raises
    ------
    SentenceError
        If X is a str or no sequence, or one of its sentences is.
    """
    if isinstance(X, Corpus):
        return X
    if isinstance(X, str | bytes):
        raise SentenceError(
            f"expected a list of sentences, found the {type(X).__name__} {_cut(X)}. Split it into "
            "tokens first: [text.split()]; or read a file: tagloom.read(path)."
        )
    if isinstance(X, Sentence):
        raise SentenceError("expected a list of sentences, found one Sentence. Pass [sentence].")
    if not isinstance(X, Iterable):
        raise SentenceError(
            f"expected a list of sentences, found {X!r:.60}, of type {type(X).__name__}. Pass "
            "lists of tokens, or what tagloom.read(path) returns."
        )
    sentences = X if isinstance(X, list | tuple) else list(X)
    # The common cases: no need to look at each.
    if _native.are_rows(sentences) or set(map(type, sentences)) == {Sentence}:
        return sentences
    for i, sentence in enumerate(sentences):
        if isinstance(sentence, str | bytes):
            raise SentenceError(
                f"sentence {i} is the {type(sentence).__name__} {_cut(sentence)}; a sentence is a "
                "list of tokens. Split it first, or pass [tokens] for a single sentence."
            )
        if not hasattr(sentence, "__len__"):
            raise SentenceError(
                f"sentence {i} is {sentence!r:.60}, of type {type(sentence).__name__}; a sentence "
                "is a list of tokens."
            )
    return sentences


def token_names(sentence: Any) -> list[str]:
    """Return what to call the tokens of a sentence: the words, or numbers where it has none."""
    tokens = sentence.tokens if isinstance(sentence, Sentence) else sentence
    return [str(token) if isinstance(token, str) else str(t) for t, token in enumerate(tokens)]


class Gold(NamedTuple):
    """The labels of T tokens as numbers."""

    names: list[str]  # the Y labels
    numbers: npt.NDArray[np.int32]  # [T] label, or −1 − k: any label of set k
    sets: npt.NDArray[np.bool_]  # [n, Y]; set 0 has all labels

    @property
    def is_open(self) -> npt.NDArray[np.bool_]:
        """Whether a token has more than one possible label [T]."""
        return self.numbers < 0


def is_open(label: Any) -> bool:
    """Whether a label is None, unknown, or a set, one of several."""
    return label is None or isinstance(label, set | frozenset)


class LabelRows(NamedTuple):
    """The labels of N sentences as they came, and their numbers in the order of occurrence."""

    rows: list[list[Any]]  # [N]
    found: dict[str, int]  # the number of each label
    numbers: npt.NDArray[np.int32] | None  # [T]; None if some labels are open


def gold_labels(sentences: Sequence[Any], X: Any, y: Any) -> list[list[str]]:
    """Return one list of labels per sentence, all of them known; see `read_labels`."""
    return read_labels(sentences, X, y).rows


def read_labels(
    sentences: Sequence[Any], X: Any, y: Any, *, may_be_open: bool = False
) -> LabelRows:
    """Read the labels of each sentence: those of y, or those that the sentences bring.

    Parameters
    ----------
    sentences, X, y
        The sentences, and what the user passed.
    may_be_open : bool
        Whether a label may be None, unknown, or a set, one of several.

    Raises
    ------
    LabelError
        If there are none, their number is wrong, or one is no label.
    """
    rows = _rows(sentences, X, y)
    found: dict[str, int] = {}
    numbered = _native.intern(rows, found)
    if numbered is None:  # rows of other types than list, or labels that are no str
        rows, found = [_row(i, row) for i, row in enumerate(rows)], {}
        numbered = _native.intern(rows, found)
    if len(rows) != len(sentences):
        raise LabelError(f"{len(sentences)} sentences but {len(rows)} lists of labels in y.")
    if numbered is None or not np.array_equal(np.diff(numbered[1]), _lengths(sentences)):
        _check_each(sentences, rows, getattr(X, "path", None), may_be_open)
    if numbered is None:
        members = (y for row in rows for label in row for y in _members(label))
        return LabelRows(rows, dict.fromkeys(members, 0), None)
    return LabelRows(rows, found, numbered[0])


def _check_each(
    sentences: Sequence[Any], rows: list[list[Any]], path: str | None, may_be_open: bool
) -> None:
    """Say which sentence has too few labels or too many, or which label is none."""
    for i, (sentence, row) in enumerate(zip(sentences, rows, strict=True)):
        if len(row) != len(sentence):
            raise LabelError(
                f"{place_of(path, i)} has {len(sentence)} tokens but {len(row)} labels; they must "
                "agree."
            )
        for t, label in enumerate(row):
            if type(label) is not str:
                _check_open(label, f"{place_of(path, i)}, token {t}", may_be_open)


def _rows(sentences: Sequence[Any], X: Any, y: Any) -> list[list[str]]:
    if y is None:
        if isinstance(X, Corpus):
            return X.labels  # type: ignore[return-value]  # gold_labels refuses what is no str
        missing = next(
            (i for i, s in enumerate(sentences) if not isinstance(s, Sentence) or s.labels is None),
            None,
        )
        if missing is not None:
            raise LabelError(
                f"sentence {missing} has no labels. Pass them as y, or a corpus read with "
                "tagloom.read(path, label=...)."
            )
        return [s.labels for s in sentences]
    if isinstance(y, str | bytes):
        raise LabelError(f"y must be a list of lists of labels; found the str {_cut(y)}.")
    if not isinstance(y, Iterable):
        raise LabelError(f"y must be a list of lists of labels; found {y!r:.60}.")
    return y if isinstance(y, list) else list(y)


def _row(i: int, row: Any) -> list[Any]:
    if isinstance(row, str | bytes):
        raise LabelError(
            f"sentence {i}: the labels are the str {_cut(row)}; expected a list of labels."
        )
    if not isinstance(row, Iterable):
        raise LabelError(f"sentence {i}: expected a list of labels, found {row!r:.60}.")
    return row if type(row) is list else [y.item() if isinstance(y, np.str_) else y for y in row]


def _check_open(label: Any, where: str, may_be_open: bool) -> None:
    if is_open(label):
        if not may_be_open:
            what = "unknown (None)" if label is None else "one of several"
            raise LabelError(f"{where}: the label is {what}; here every label must be known.")
        if label is None or (label and all(type(y) is str for y in label)):
            return
        raise LabelError(f"{where}: found {set(label)!r}; a set of labels has str in it, not none.")
    raise LabelError(
        f"{where}: the label is {label!r}, of type {type(label).__name__}; labels are str."
    )


def number_labels(read: LabelRows, labels: Sequence[str] | None) -> Gold:
    """Number the labels of all tokens: sorted by code point, or in the order given.

    Raises
    ------
    LabelError
        If there are fewer than two, or one is not among those given.
    """
    rows, found, numbers = read
    is_list = isinstance(labels, Iterable) and not isinstance(labels, str)
    order = sorted(found) if labels is None else list(labels) if is_list else []
    is_str = all(isinstance(label, str) for label in order)
    if not is_str or len(set(order)) != len(order) or not (labels is None or is_list):
        raise LabelError(f"labels must be a list of different strings; got {labels!r:.200}.")
    place = {label: i for i, label in enumerate(order)}
    for label in found:
        if label not in place:
            i = next(i for i, row in enumerate(rows) if any(label in _members(y) for y in row))
            raise LabelError(
                f"sentence {i}: the label {label!r} is not among labels={order!r}. Add it, or "
                "leave labels out to take those of the data."
            )
    if not order:
        raise LabelError(
            f"no token of all {len(rows)} sentences has a label: all are unknown (None). Is it the "
            "right column? tagloom.read(path, label=...) chooses it."
        )
    n_tokens = sum(map(len, rows)) if numbers is None else len(numbers)
    if labels is None and len(order) > _LABELS * math.sqrt(n_tokens):
        warnings.warn(
            f"{n_tokens:,} tokens have {len(order):,} different labels, such as {rows[0][0]!r}: "
            "more like words than labels. Is it the right column? tagloom.read(path, label=...) "
            "chooses it.",
            stacklevel=4,
        )
    if len(order) < 2:
        raise LabelError(
            f"every token of all {len(rows)} sentences has the label {order[0]!r}: there is "
            "nothing to learn. Is it the right column? tagloom.read(path, label=...) chooses it."
        )
    if numbers is None:
        return _number_sets(rows, order, place)
    everything = np.ones((1, len(order)), dtype=np.bool_)
    renumber = np.array([place[label] for label in found], dtype=np.int32)
    return Gold(order, renumber[numbers], everything)


def _members(label: Any) -> Iterable[str]:
    return (label,) if type(label) is str else label or ()


def _number_sets(rows: list[list[Any]], order: list[str], place: dict[str, int]) -> Gold:
    sets: dict[frozenset[int], int] = {frozenset(range(len(order))): 0}
    numbers: list[int] = []
    for row in rows:
        for label in row:
            if type(label) is str:
                numbers.append(place[label])
            elif label is None:
                numbers.append(-1)
            else:
                members = frozenset(place[y] for y in label)
                one = next(iter(members))
                numbers.append(
                    one if len(members) == 1 else -1 - sets.setdefault(members, len(sets))
                )
    table = np.zeros((len(sets), len(order)), dtype=np.bool_)
    for members, k in sets.items():
        table[k, list(members)] = True
    return Gold(order, np.array(numbers, dtype=np.int32), table)


def as_weights(sample_weight: Any, n: int) -> npt.NDArray[np.float64]:
    """Return the weights of n sentences as an array.

    Raises
    ------
    ParameterError
        If they are not n finite numbers, none below 0.
    """
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
        found = f"shape {weight.shape}"
    except (TypeError, ValueError):
        weight, found = np.empty(0), f"{sample_weight!r:.60}"
    if weight.shape != (n,) or not np.isfinite(weight).all() or weight.min(initial=0) < 0:
        raise ParameterError(
            f"sample_weight must be {n} numbers, one per sentence, none below 0; got {found}."
        )
    return weight


def check_not_empty(sentences: Sequence[Any], path: str | None) -> None:
    """Refuse to learn from nothing.

    Raises
    ------
    SentenceError
        If there are no sentences, or one has no tokens.
    """
    if len(sentences) == 0:
        where = f"{path}: " if path else ""
        raise SentenceError(f"{where}there are no sentences to learn from; expected at least one.")
    empty = np.flatnonzero(_lengths(sentences) == 0)
    if len(empty):
        raise SentenceError(
            f"{place_of(path, int(empty[0]))} has no tokens. Leave empty sentences out of the "
            "training data."
        )


def _lengths(sentences: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Count the tokens of each sentence [N]."""
    lengths = _native.row_lengths(sentences)
    if lengths is None:
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    return lengths


def place_of(path: str | None, i: int) -> str:
    """Say which sentence, and of which file."""
    return f"{path}: sentence {i}" if path else f"sentence {i}"


def _cut(value: Any, width: int = 60) -> str:
    shown = repr(value[:width])
    return shown if len(value) <= width else shown + "…"


def digest(names: Iterable[str], *arrays: npt.NDArray[Any] | None) -> str:
    """Return a fingerprint of what was learnt from: 16 hexadecimal digits."""

    def hashed(data: npt.NDArray[Any]) -> str:
        return f"{_native.hash_data(np.ascontiguousarray(data).reshape(-1).view(np.uint8)):016x}"

    described = [a if a is None else (a.dtype.str, a.shape, hashed(a)) for a in arrays]
    text = ascii(([str(name) for name in names], described))
    return hashed(np.frombuffer(text.encode(), np.uint8))
