"""Evaluate predicted labels: counts of tokens and spans, and the scores computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom import _native, checks
from tagloom.checks import plural
from tagloom.errors import SchemeError, ShapeError
from tagloom.evaluation.counts import (
    Aligned,
    LabelTable,
    ReadingDifference,
    align,
    compare_readings,
    count_spans,
    count_transitions,
    is_span_label,
    tabulate,
)
from tagloom.evaluation.scores import EXACT, Interval, Score, average, intervals, make_score
from tagloom.evaluation.tables import Cell, Table, html_page, page
from tagloom.labels.validity import detect_transitions, unknown_scheme
from tagloom.notebooks import data_frame
from tagloom.schemes import CONLLEVAL, Scheme, get_scheme


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The result of :func:`evaluate`. It prints as tables.

    Attributes
    ----------
    n_sentences, n_tokens : int
    accuracy : float
        Share of tokens whose label is right.
    sentence_accuracy : float
        Share of sentences whose labels are all right.
    n_known, n_unknown : int or None
        Numbers of tokens whose word occurs, or does not occur, in the training data; None without
        ``train``.
    accuracy_known, accuracy_unknown : float or None
        Accuracy on these tokens; None without ``train``, or without such tokens.
    labels : list of str
        The Y labels that occur, sorted by code point.
    confusion : ndarray of int64, shape (Y, Y)
        ``[gold, predicted]`` numbers of tokens.
    per_label : dict of str to Score
        Precision, recall and F1 of each label, over tokens.
    is_spans : bool
        Whether spans were counted. If not, labels are scored as classes of tokens.
    reading : str
        How spans were read: ``"conlleval"``, ``"strict bio"``, ... or ``"tokens"``.
    scheme : str or None
        The scheme that was passed, or else the only one that the gold labels fit.
    note : str
        A sentence on how labels were read and how the scheme was chosen.
    per_type : dict of str to Score
        Precision, recall and F1 of each type, over spans; without spans the same as ``per_label``.
    micro, macro, weighted : Score
        Over all spans; averaged over the types; averaged over the types with their numbers of gold
        spans as weights. Without spans the same over tokens and labels.
    precision, recall, f1 : float
        The fields of ``micro``. Without spans all three equal ``accuracy``, since each token has
        one gold and one predicted label; the average over labels is ``macro.f1``.
    reading_differences : list of ReadingDifference
        Differences between the spans of conlleval and of the strict reading of ``scheme``.
    intervals : dict of str to (float, float)
        95 % bootstrap intervals over sentences; computed on first access or printing.
    sentence_counts : ndarray of int32
        The counts per sentence from which the intervals are computed.

    Examples
    --------
    >>> result = evaluate([["A", "B", "B"]], [["A", "A", "B"]])
    >>> round(result.accuracy, 3), result.labels, result.confusion.tolist()
    (0.667, ['A', 'B'], [[1, 0], [1, 1]])
    """

    n_sentences: int
    n_tokens: int
    labels: list[str]
    confusion: NDArray[np.int64]
    reading: str
    scheme: str | None
    note: str
    reading_differences: list[ReadingDifference]
    n_known: int | None
    accuracy_known: float | None
    accuracy_unknown: float | None
    n_bootstrap: int
    random_state: int
    zero_division: float
    sentence_counts: NDArray[np.int32] = field(repr=False)
    span_counts: dict[str, tuple[int, int, int]] | None = field(repr=False)

    @property
    def is_spans(self) -> bool:
        """Whether spans were counted."""
        return self.span_counts is not None

    @property
    def n_unknown(self) -> int | None:
        """Number of tokens whose word does not occur in the training data."""
        return None if self.n_known is None else self.n_tokens - self.n_known

    @cached_property
    def accuracy(self) -> float:
        """Share of tokens whose label is right."""
        return int(np.trace(self.confusion)) / self.n_tokens if self.n_tokens else 0.0

    @cached_property
    def sentence_accuracy(self) -> float:
        """Share of sentences whose labels are all right."""
        exact = int(self.sentence_counts[:, EXACT].sum())
        return exact / self.n_sentences if self.n_sentences else 0.0

    @cached_property
    def per_label(self) -> dict[str, Score]:
        """Precision, recall and F1 of each label, over tokens."""
        gold, predicted = self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        counts = np.stack([gold, predicted, np.diag(self.confusion)], axis=1).tolist()  # [Y, 3]
        rows = zip(self.labels, counts, strict=True)
        return {label: self._score(*row) for label, row in rows}

    @cached_property
    def per_type(self) -> dict[str, Score]:
        """Precision, recall and F1 of each type of span, or of each label."""
        if self.span_counts is None:
            return self.per_label
        return {type: self._score(*counts) for type, counts in self.span_counts.items()}

    def _score(self, gold: int, predicted: int, correct: int) -> Score:
        return make_score(gold, predicted, correct, self.zero_division)

    @cached_property
    def micro(self) -> Score:
        """Precision, recall and F1 over all spans, or all tokens."""
        scores = self.per_type.values()
        return self._score(
            sum(score.gold for score in scores),
            sum(score.predicted for score in scores),
            sum(score.correct for score in scores),
        )

    @cached_property
    def macro(self) -> Score:
        """Precision, recall and F1 averaged over types, or labels."""
        return average(self.per_type.values(), self.zero_division)

    @cached_property
    def weighted(self) -> Score:
        """Precision, recall and F1 averaged over types, or labels, weighted by ``gold``."""
        return average(self.per_type.values(), self.zero_division, weighted=True)

    @property
    def precision(self) -> float:
        """Precision of ``micro``."""
        return self.micro.precision

    @property
    def recall(self) -> float:
        """Recall of ``micro``."""
        return self.micro.recall

    @property
    def f1(self) -> float:
        """F1 of ``micro``: over spans, or without spans the accuracy."""
        return self.micro.f1

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """95 % bootstrap intervals of accuracy, sentence accuracy, precision, recall and F1."""
        if not self.n_bootstrap or not self.n_sentences:
            return {}
        return intervals(self.sentence_counts, self.n_bootstrap, self.random_state)

    def summary(self) -> dict[str, float]:
        """Return the scores that have intervals, by name.

        Examples
        --------
        >>> evaluate([["A", "B"]], [["A", "A"]]).summary()
        {'accuracy': 0.5, 'sentence_accuracy': 0.0}
        """
        names = ["accuracy", "sentence_accuracy"]
        names += ["precision", "recall", "f1"] if self.is_spans else []
        return {name: getattr(self, name) for name in names}

    def confusions(self, n: int = 10) -> list[tuple[str, str, int]]:
        """List the most common mistakes.

        Parameters
        ----------
        n : int, default=10
            The largest number of entries.

        Returns
        -------
        list of (gold, predicted, tokens)

        Examples
        --------
        >>> evaluate([["A", "B", "B"]], [["A", "A", "B"]]).confusions()
        [('B', 'A', 1)]
        """
        wrong = self.confusion.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:n]
        pairs = [divmod(int(i), len(self.labels)) for i in order]
        return [(self.labels[g], self.labels[p], int(wrong[g, p])) for g, p in pairs if wrong[g, p]]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON.

        Examples
        --------
        >>> evaluate([["A", "B"]], [["A", "A"]]).to_dict()["confusion"]
        [[1, 0], [1, 0]]
        """
        return {
            "n_sentences": self.n_sentences,
            "n_tokens": self.n_tokens,
            "accuracy": self.accuracy,
            "n_known": self.n_known,
            "n_unknown": self.n_unknown,
            "accuracy_known": self.accuracy_known,
            "accuracy_unknown": self.accuracy_unknown,
            "sentence_accuracy": self.sentence_accuracy,
            "reading": self.reading,
            "scheme": self.scheme,
            "note": self.note,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
            "micro": self.micro._asdict(),
            "macro": self.macro._asdict(),
            "weighted": self.weighted._asdict(),
            "per_type": {type: score._asdict() for type, score in self.per_type.items()},
            "per_label": {label: score._asdict() for label, score in self.per_label.items()},
            "reading_differences": [
                vars(difference).copy() for difference in self.reading_differences
            ],
            "labels": self.labels,
            "confusion": self.confusion.tolist(),
        }

    def _parts(self) -> list[str | Table]:
        sizes = f"{plural(self.n_sentences, 'sentence')}, {plural(self.n_tokens, 'token')}."
        summary: list[list[Cell]] = []
        for name, value in self.summary().items():
            low, high = self.intervals.get(name, (None, None))
            summary.append([name.replace("_", " "), value, low, high])
            if name == "accuracy" and self.n_known is not None:
                known, unknown = f"known words ({self.n_known:,})", f"unknown ({self.n_unknown:,})"
                summary.append([f"  {known}", self.accuracy_known, None, None])
                summary.append([f"  {unknown}", self.accuracy_unknown, None, None])
        parts: list[str | Table] = [
            f"{sizes} {self.note}",
            Table(["", "score", "95 % from", "to"], summary),
        ]
        parts.append(self._scores_table())
        parts += map(str, self.reading_differences)
        if mistakes := self.confusions():
            parts.append(Table(["gold", "predicted", "tokens"], mistakes))
        return parts

    def _scores_table(self) -> Table:
        """Return the scores of each type or label, and their averages."""
        scores: list[tuple[str, Score]] = [
            (type or "(no type)", s) for type, s in self.per_type.items()
        ]
        scores += [("micro", self.micro)] if self.is_spans else []
        scores += [("macro", self.macro), ("weighted", self.weighted)]
        header = ["type" if self.is_spans else "label", *Score._fields]
        return Table(header, [[name, *score] for name, score in scores])

    def to_frame(self) -> Any:
        """Return the scores of each type or label as a data frame of pandas.

        Returns
        -------
        DataFrame
            One row for each type or label, then the averages; the columns are those of the
            printed table.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        table = self._scores_table()
        header = list(table.header)
        return data_frame([dict(zip(header, row, strict=True)) for row in table.rows], header)

    def __repr__(self) -> str:
        scores = ", ".join(f"{name}={value:.4f}" for name, value in self.summary().items())
        return f"Evaluation({self.reading}: {scores})"

    def __str__(self) -> str:
        return page(self._parts())

    def _repr_html_(self) -> str:
        return html_page(self._parts())


@dataclass(frozen=True)
class Protocol:
    """The choices about an evaluation, made once for all systems.

    Attributes
    ----------
    table : LabelTable or None
        Letters and types; None if spans are not counted.
    reading : Scheme or None
        The table by which spans are read.
    scheme : Scheme or None
        The strict reading with which conlleval's is compared.
    note : str
        The choices in words.
    is_strict : bool
    """

    table: LabelTable | None
    reading: Scheme | None
    scheme: Scheme | None
    note: str
    is_strict: bool


def choose(
    aligned: Aligned, strict: bool, scheme: str | Scheme | None, spans: bool | None
) -> Protocol:
    """Choose whether and how spans are read, and describe the choice in a note."""
    bare = [label for label in _gold_labels(aligned) if not is_span_label(label)]
    is_explicit = strict or scheme is not None
    if spans is None:
        spans = is_explicit or not bare
    if not spans:
        if is_explicit:
            raise SchemeError(
                parameter="scheme" if scheme is not None else "strict",
                expected="left out when spans are not scored",
                found=checks.show(scheme if scheme is not None else strict),
                hint="Do not pass {spans}.",
                options={"spans": False},
            )
        return _token_protocol(aligned, bare)
    chosen, origin = _span_scheme(aligned, strict, scheme)
    try:
        table = tabulate(aligned, chosen if is_explicit else None)
    except SchemeError as error:
        if is_explicit:
            raise
        error.hint = f"{error.hint} To score tokens only, pass {{spans}}."
        error.options["spans"] = False
        raise
    reading = chosen if strict and chosen is not None else CONLLEVAL
    how = f"strictly as {chosen}" if strict else "as conlleval reads them"
    return Protocol(table, reading, chosen, f"Spans are read {how}. {origin}", strict)


def _gold_labels(aligned: Aligned) -> list[str]:
    """Return the labels that occur among the gold labels."""
    counts = np.bincount(aligned.ids[0], minlength=len(aligned.labels)).tolist()  # [Y]
    return [label for label, n in zip(aligned.labels, counts, strict=True) if n]


def _token_protocol(aligned: Aligned, bare: list[str]) -> Protocol:
    """Score labels as classes of tokens; ``bare`` are those that no scheme can read."""
    note = "Labels are scored as classes of tokens; no spans are counted."
    prefixed = [y for y in _gold_labels(aligned) if "-" in y and is_span_label(y)]
    if bare and prefixed:
        note += f" ({prefixed[0]!r} looks like a span label, but {bare[0]!r} does not.)"
    return Protocol(None, None, None, note, False)


def _span_scheme(
    aligned: Aligned, strict: bool, scheme: str | Scheme | None
) -> tuple[Scheme | None, str]:
    """Return the scheme of the gold labels (None if several fit or none) and its origin."""
    if scheme is not None:
        given = get_scheme(scheme)
        return given, f"Scheme: {given}, as requested."
    detection = detect_transitions(count_transitions(aligned, 0))
    if len(detection.fits) == 1:
        only = get_scheme(detection.fits[0])
        return only, f"Scheme: {only}, the only one that the gold labels fit."
    if strict:
        raise unknown_scheme(detection)
    return None, f"Scheme: unknown. {detection}."


def evaluate_system(
    aligned: Aligned,
    system: int,
    protocol: Protocol,
    is_known: NDArray[np.bool_] | None,
    n_bootstrap: int,
    random_state: int,
    zero_division: float = 0.0,
) -> Evaluation:
    """Evaluate one system of an alignment against the gold labels.

    ``is_known``, shape (T,), is True for tokens whose word occurs in the training data.
    """
    gold, predicted = aligned.ids[0], aligned.ids[system]
    confusion, correct = _native.count_tokens(gold, predicted, aligned.offsets, len(aligned.labels))
    used = np.flatnonzero(confusion.any(axis=0) | confusion.any(axis=1)).tolist()
    used.sort(key=aligned.labels.__getitem__)
    N = aligned.n_sentences
    columns = [correct, aligned.lengths, correct == aligned.lengths, np.ones(N)]
    span_counts = None
    differences: list[ReadingDifference] = []
    if protocol.table is not None and protocol.reading is not None:
        readings = (protocol.reading, protocol.reading)
        by_type, by_sentence = count_spans(aligned, protocol.table, (0, system), readings)
        columns += list(by_sentence.T)
        counted = {
            type: (gold, predicted, correct)
            for type, (gold, predicted, correct) in zip(
                protocol.table.types, by_type.tolist(), strict=True
            )
            if gold or predicted
        }
        span_counts = dict(sorted(counted.items()))
        differences = _differences(aligned, system, protocol)
    n_known = accuracy_known = accuracy_unknown = None
    if is_known is not None:
        right = gold == predicted
        n_known = int(is_known.sum())
        accuracy_known = float(right[is_known].mean()) if n_known else None
        accuracy_unknown = float(right[~is_known].mean()) if n_known < len(is_known) else None
    scheme, strict = protocol.scheme, protocol.is_strict
    return Evaluation(
        n_sentences=N,
        n_tokens=len(gold),
        labels=[aligned.labels[y] for y in used],
        confusion=confusion[np.ix_(used, used)],
        reading=(f"strict {scheme}" if strict else "conlleval") if protocol.reading else "tokens",
        scheme=None if scheme is None else scheme.name,
        note=protocol.note,
        reading_differences=differences,
        n_known=n_known,
        accuracy_known=accuracy_known,
        accuracy_unknown=accuracy_unknown,
        n_bootstrap=n_bootstrap,
        random_state=random_state,
        zero_division=zero_division,
        sentence_counts=np.stack(columns, axis=1).astype(np.int32),
        span_counts=span_counts,
    )


def _differences(aligned: Aligned, system: int, protocol: Protocol) -> list[ReadingDifference]:
    """Compare the two readings of gold and predicted labels, if the scheme is known."""
    scheme, table = protocol.scheme, protocol.table
    if scheme is None or table is None:
        return []
    differences = [
        compare_readings(aligned, table, i, scheme, count_transitions(aligned, i))
        for i in (0, system)
    ]
    return [difference for difference in differences if difference is not None]


def training_words(train: Iterable[Any]) -> set[str]:
    """Collect the words of a training set: a collection of words, or of sentences.

    Examples
    --------
    >>> sorted(training_words([["They", "can"], ["can", "fish"]]))
    ['They', 'can', 'fish']
    """
    words: set[str] = set()
    for item in train:
        if isinstance(item, str):
            words.add(item)
        else:
            words.update(getattr(item, "tokens", item))
    return words


def known_words(aligned: Aligned, train: Iterable[Any] | None) -> NDArray[np.bool_] | None:
    """Return whether the word of each token occurs in the training data, shape (T,)."""
    if train is None:
        return None
    if aligned.tokens is None:
        raise ShapeError(
            parameter="tokens",
            expected="the words of the sentences, to compare them with train=",
            found="None",
            hint="Pass them as a list of lists of str, or pass gold as a Corpus.",
        )
    words = training_words(train)
    flat = (word in words for sentence in aligned.tokens for word in sentence)
    return np.fromiter(flat, dtype=np.bool_, count=int(aligned.offsets[-1]))


def evaluate(
    gold: Iterable[Any],
    predicted: Iterable[Any],
    *,
    strict: bool = False,
    scheme: str | Scheme | None = None,
    spans: bool | None = None,
    train: Iterable[Any] | None = None,
    tokens: Iterable[Sequence[str]] | None = None,
    n_bootstrap: int = 1000,
    random_state: int = 0,
    zero_division: float = 0.0,
) -> Evaluation:
    """Score predicted labels against gold labels.

    Parameters
    ----------
    gold, predicted : list of lists of str, or Corpus
        Labels of the same sentences; also any collection of objects with ``.labels``.
    strict : bool, default=False
        How labels are read as spans. False: as conlleval does, so that ``I-PER`` after ``O`` opens
        a span. True: a span counts only if it is legal in the scheme, as in the strict mode of
        seqeval, which differs on illegal IOB1. On legal labels both readings agree.
    scheme : str, optional
        ``bio``, ``iob1``, ``io``, ``bioes`` or ``bilou``. By default the only scheme that the gold
        labels fit; if several fit, or none, ``strict=True`` raises.
    spans : bool, optional
        Whether to count spans. By default they are counted if every gold label is ``O`` or has the
        letter of a scheme, such as ``B-PER``.
    train : collection of str, of lists of str, or Corpus, optional
        Training words or sentences, for the accuracy on known and unknown words.
    tokens : list of lists of str, optional
        The words, if ``gold`` does not have them.
    n_bootstrap : int, default=1000
        Number of bootstrap samples for the intervals; 0 for no intervals.
    random_state : int, default=0
        Seed of the bootstrap.
    zero_division : float, default=0.0
        Precision, recall and F1 where the denominator is 0, from 0 to 1. Intervals take 0.

    Returns
    -------
    Evaluation

    Raises
    ------
    ShapeError
        If gold and predicted differ in the number of sentences, or of labels in a sentence.
    LabelError
        If a label is None or a set: evaluation needs complete labels.
    SchemeError
        If spans are requested and a label does not fit, or the scheme cannot be detected.
    ParameterError
        If ``n_bootstrap`` or ``random_state`` is not an integer of at least 0.

    Examples
    --------
    >>> gold = [["B-PER", "I-PER", "O"], ["B-LOC", "O"]]
    >>> predicted = [["B-PER", "I-PER", "O"], ["O", "B-LOC"]]
    >>> result = evaluate(gold, predicted)
    >>> result.f1, result.accuracy, result.scheme
    (0.5, 0.6, 'bio')
    >>> result.per_type["PER"].recall
    1.0
    """
    checks.count(random_state, "random_state")
    checks.count(n_bootstrap, "n_bootstrap")
    checks.number(zero_division, "zero_division", least=0, most=1)
    aligned = align({"gold": gold, "predicted": predicted}, tokens)
    protocol = choose(aligned, strict, scheme, spans)
    is_known = known_words(aligned, train)
    return evaluate_system(
        aligned, 1, protocol, is_known, n_bootstrap, random_state, float(zero_division)
    )
