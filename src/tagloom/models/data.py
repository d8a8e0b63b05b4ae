"""Read the X and y that users pass, once for all taggers; errors name the sentence."""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tagloom import _native, checks
from tagloom.errors import DataWarning, LabelError, ParameterError, SentenceError
from tagloom.numeric import np
from tagloom.sequences import Corpus, Sentence

if TYPE_CHECKING:
    import numpy.typing as npt

# T tokens with more than this many times √T different labels get a warning. Label sets reach at
# most 5.5 √T in texts of 100 words or more (Estonian tags with morphological features). Words and
# lemmas, which are an open set, reach 22 to 62 √T in the corpora that we measured.
_MOST_LABELS = 8

_COLUMN = "Is it the right column? Set {label} to choose another."


def token_names(sentence: Any) -> list[str]:
    """Return names for the tokens of a sentence: the word, or the position if it is not a str."""
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


def seen_transitions(
    gold: Gold, offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which label pairs [Y, Y], first labels [Y] and last labels [Y] occur.

    A token with several possible labels counts as having each of them.

    Examples
    --------
    >>> gold = Gold(["N", "V"], np.array([0, 1, 1], np.int32), np.ones((1, 2), np.bool_))
    >>> pairs, first, last = seen_transitions(gold, np.array([0, 2, 3]))
    >>> pairs.astype(int).tolist(), first.tolist(), last.tolist()
    ([[0, 1], [0, 0]], [True, True], [False, True])
    """
    Y = len(gold.names)
    pairs, first, last = np.zeros((Y, Y), np.bool_), np.zeros(Y, np.bool_), np.zeros(Y, np.bool_)
    full = offsets[:-1][np.diff(offsets) > 0]  # where sentences with tokens begin

    def members(number: int) -> Any:
        return [number] if number >= 0 else np.flatnonzero(gold.sets[-1 - number])

    is_inner = np.ones(len(gold.numbers), np.bool_)
    is_inner[full] = False
    inner = np.flatnonzero(is_inner)
    for a, b in np.unique(np.stack([gold.numbers[inner - 1], gold.numbers[inner]], axis=1), axis=0):
        pairs[np.ix_(members(a), members(b))] = True
    for number in np.unique(gold.numbers[full]):
        first[members(number)] = True
    for number in np.unique(gold.numbers[offsets[1:][np.diff(offsets) > 0] - 1]):
        last[members(number)] = True
    return pairs, first, last


class ReadLabels(NamedTuple):
    """The labels of N sentences as passed by the user, and as numbers in order of occurrence."""

    labellings: list[list[Any]]  # [N]
    number_of: dict[str, int]  # the number of each label
    numbers: npt.NDArray[np.int32] | None  # [T]; None if some labels are open


def gold_labels(sentences: Sequence[Any], X: Any, y: Any) -> list[list[str]]:
    """Return one list of labels per sentence, all of them known; see `read_labels`."""
    return read_labels(sentences, X, y).labellings


def read_dev(dev: Any) -> tuple[Sequence[Any], list[list[str]]]:
    """Return the sentences and gold labels of development data: a corpus, files or (X, y).

    Raises
    ------
    LabelError
        Without labels or without tokens.
    """
    X, y = dev if isinstance(dev, tuple) else (dev, None)
    from tagloom.sequences.sources import Files

    if isinstance(X, Files):
        X = list(X)
    sentences = checks.sentences(X)
    gold = gold_labels(sentences, X, y)
    if not any(gold):
        raise no_dev_labels()
    return sentences, gold


def no_dev_labels() -> LabelError:
    """Return the error for development data without tokens."""
    return LabelError(
        parameter="dev",
        expected="labelled sentences",
        found="no tokens",
        hint="Leave dev out, or pass labelled sentences.",
    )


def f1_of(counts: Any) -> float:
    """Return 2·matched / (gold + predicted), for counts of matched, gold and predicted items.

    The items are spans, or tokens; then it is the accuracy.
    """
    matched, gold, predicted = counts
    return float(2 * matched / max(gold + predicted, 1))


def label_number(label: str | None, names: Sequence[str]) -> int | None:
    """Return the number of a label; None for None.

    Raises
    ------
    LabelError
        If the label is unknown.
    """
    if label is None:
        return None
    if label not in names:
        raise LabelError(
            parameter="label", expected=f"one of {', '.join(names)}", found=repr(label)
        )
    return names.index(label)


def read_labels(
    sentences: Sequence[Any], X: Any, y: Any, *, may_be_open: bool = False
) -> ReadLabels:
    """Read the labels of each sentence, from y or from the sentences themselves.

    Parameters
    ----------
    sentences, X, y
        The sentences, and the arguments of the user.
    may_be_open : bool
        Whether a label may be None, unknown, or a set, one of several.

    Raises
    ------
    LabelError
        If labels are missing or invalid, or their number is wrong.
    """
    labellings = _labellings(sentences, X, y)
    number_of: dict[str, int] = {}
    numbered = _native.intern(labellings, number_of)
    if numbered is None:  # not lists of str
        number_of = {}
        labellings = [checks.label_list(row, checks.place(i)) for i, row in enumerate(labellings)]
        numbered = _native.intern(labellings, number_of)
    if len(labellings) != len(sentences):
        raise LabelError(
            parameter="y",
            expected=f"{checks.plural(len(sentences), 'list')} of labels, one per sentence",
            found=str(len(labellings)),
        )
    if numbered is None or not np.array_equal(np.diff(numbered[1]), _lengths(sentences)):
        _check_each(sentences, labellings, getattr(X, "path", None), may_be_open)
    if numbered is None:
        members = (y for labels in labellings for label in labels for y in _members(label))
        return ReadLabels(labellings, dict.fromkeys(members, 0), None)
    return ReadLabels(labellings, number_of, numbered[0])


def _check_each(
    sentences: Sequence[Any], labellings: list[list[Any]], path: str | None, may_be_open: bool
) -> None:
    """Raise for the first sentence with a wrong number of labels, or with an invalid label."""
    for i, (sentence, labels) in enumerate(zip(sentences, labellings, strict=True)):
        if len(labels) != len(sentence):
            raise LabelError(
                where=checks.place(i, path=path),
                expected=f"{checks.plural(len(sentence), 'label')}, one per token",
                found=str(len(labels)),
            )
        for t, label in enumerate(labels):
            checks.label(label, checks.place(i, t, path), may_be_open=may_be_open)


def _label_hint(sentence: Any) -> str:
    """Return where labels can come from, given a sentence that has none."""
    if isinstance(sentence, Mapping):
        return "For dicts with tokens and labels, fit on Corpus.from_dicts(rows)."
    first = next(iter(sentence), None)
    if isinstance(first, tuple) and len(first) == 2:
        return "For pairs of token and label, fit on Corpus.from_pairs(sentences)."
    return "Pass them as y, or a corpus read with tagloom.read(path, label=...)."


def _labellings(sentences: Sequence[Any], X: Any, y: Any) -> list[list[str]]:
    if y is None:
        if isinstance(X, Corpus):
            return X.labels  # type: ignore[return-value]  # read_labels checks them
        missing = next(
            (i for i, s in enumerate(sentences) if not isinstance(s, Sentence) or s.labels is None),
            None,
        )
        if missing is not None:
            raise LabelError(
                where=checks.place(missing),
                expected="labels",
                found="none",
                hint=_label_hint(sentences[missing]),
            )
        return [s.labels for s in sentences]
    if isinstance(y, str | bytes) or not isinstance(y, Iterable):
        raise LabelError(
            parameter="y", expected="a list of lists of labels", found=checks.show_type(y)
        )
    return y if isinstance(y, list) else list(y)


def number_labels(read: ReadLabels, labels: Sequence[str] | None) -> Gold:
    """Number the labels of all tokens: sorted by code point, or in the order given.

    Raises
    ------
    LabelError
        If there are none, if all tokens have the same label and `labels` is not given, or if a
        label is not among those given.
    """
    labellings, number_of, numbers = read
    order = sorted(number_of) if labels is None else checks.label_names(labels)
    _check_label_set(read, order, is_given=labels is not None)
    place = {label: y for y, label in enumerate(order)}
    if numbers is None:
        return _number_sets(labellings, order, place)
    all_labels = np.ones((1, len(order)), dtype=np.bool_)
    renumber = np.array([place[label] for label in number_of], dtype=np.int32)
    return Gold(order, renumber[numbers], all_labels)


def _check_label_set(read: ReadLabels, order: list[str], *, is_given: bool) -> None:
    """Raise if the labels do not fit the data; warn if they look like words.

    A list that the user gave may have one label: the wrong column is then not the reason.
    """
    labellings, number_of, numbers = read
    names = set(order)
    foreign = next((label for label in number_of if label not in names), None)
    if foreign is not None:
        has_label = (any(foreign in _members(y) for y in path) for path in labellings)
        raise LabelError(
            where=checks.place(next(i for i, has in enumerate(has_label) if has)),
            expected=f"one of the labels {checks.show(order, 200)}",
            found=repr(foreign),
            hint="Add it to {labels}, or leave {labels} out to use the labels of the data.",
            options={"labels": ...},
        )
    if not order:
        raise LabelError(
            f"All labels of all {len(labellings)} sentences are unknown (None).",
            expected="at least two different labels",
            found="none",
            hint=_COLUMN,
            options={"label": ...},
        )
    n_tokens = sum(map(len, labellings)) if numbers is None else len(numbers)
    if not is_given and len(order) > _MOST_LABELS * math.sqrt(n_tokens):
        warnings.warn(
            DataWarning(
                f"{n_tokens:,} tokens have {len(order):,} different labels, such as "
                f"{labellings[0][0]!r}: more like words than labels.",
                expected=f"fewer labels for {n_tokens:,} tokens",
                found=f"{len(order):,} different labels",
                hint=_COLUMN,
                options={"label": ...},
            ),
            stacklevel=caller_level(),
        )
    if not is_given and len(order) < 2:
        raise LabelError(
            f"Every token of all {len(labellings)} sentences has the label {order[0]!r}.",
            expected="at least two different labels",
            found=repr(order[0]),
            hint=_COLUMN,
            options={"label": ...},
        )


def _members(label: Any) -> Iterable[str]:
    return (label,) if type(label) is str else label or ()


def _number_sets(labellings: list[list[Any]], order: list[str], place: dict[str, int]) -> Gold:
    """Number labels of which some are open; see `Gold`."""
    sets: dict[frozenset[int], int] = {frozenset(range(len(order))): 0}
    numbers: list[int] = []
    for label in itertools.chain.from_iterable(labellings):
        if type(label) is str:
            numbers.append(place[label])
        elif label is None:
            numbers.append(-1)
        else:
            members = frozenset(place[y] for y in label)
            is_one = len(members) == 1
            numbers.append(min(members) if is_one else -1 - sets.setdefault(members, len(sets)))
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
            parameter="sample_weight",
            expected=f"{n} numbers of at least 0, one per sentence",
            found=found,
        )
    return weight


def check_not_empty(sentences: Sequence[Any], path: str | None) -> None:
    """Raise unless there are sentences and each has tokens.

    Raises
    ------
    SentenceError
        If X is empty, or a sentence is.
    """
    if len(sentences) == 0:
        raise SentenceError(where=path, expected="at least one sentence", found="none")
    empty = np.flatnonzero(_lengths(sentences) == 0)
    if len(empty):
        raise SentenceError(
            where=checks.place(int(empty[0]), path=path),
            expected="at least one token",
            found="none",
            hint="Leave empty sentences out of the training data.",
        )


def _lengths(sentences: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Count the tokens of each sentence [N]."""
    lengths = _native.list_lengths(sentences)
    if lengths is None:
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    return lengths


def caller_level() -> int:
    """Return the ``stacklevel`` by which a warning names the first line outside tagloom."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tagloom."):
        level, frame = level + 1, frame.f_back
    return level


def digest(names: Iterable[str], *arrays: npt.NDArray[Any] | None) -> str:
    """Return a fingerprint of training data: 16 hexadecimal digits."""

    def hashed(data: npt.NDArray[Any]) -> str:
        return f"{_native.hash_data(np.ascontiguousarray(data).reshape(-1).view(np.uint8)):016x}"

    described = [a if a is None else (a.dtype.str, a.shape, hashed(a)) for a in arrays]
    text = ascii(([str(name) for name in names], described))
    return hashed(np.frombuffer(text.encode(), np.uint8))
