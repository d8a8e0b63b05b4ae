"""Convert labels to spans and back, and from one scheme to another by way of spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tagloom import checks
from tagloom.errors import SchemeError, ShapeError
from tagloom.labels.label_lists import check_collection, labels_of, place
from tagloom.labels.validity import Problem, Transition, detect, find_problems
from tagloom.schemes import (
    CODES,
    CONLLEVAL,
    CONTINUE,
    FIND_SCHEME,
    OPEN,
    Scheme,
    get_scheme,
    parse_label,
)
from tagloom.trellis.runs import RunRules


class Span(NamedTuple):
    """A run of tokens with a type, from ``start`` up to but not including ``end``.

    Examples
    --------
    >>> Span("PER", 0, 2)
    Span(type='PER', start=0, end=2)
    """

    type: str
    start: int
    end: int


def to_spans(labels: Sequence[str], scheme: str | Scheme | None = None) -> list[Span]:
    """Read the spans of one sentence.

    Parameters
    ----------
    labels : sequence of str
        The labels of one sentence.
    scheme : str or Scheme, optional
        Without a scheme, labels are read as conlleval reads them: any letters are accepted, and
        illegal labels also form spans, so ``["O", "I-PER"]`` has one. With a scheme, a span counts
        only if it is legal: B I I ... in ``bio``, S or B I ... E in ``bioes``. On legal labels the
        two readings agree.

    Returns
    -------
    list of Span
        In order.

    Raises
    ------
    SchemeError
        If a label has no letter, or one that is not in the scheme.

    Examples
    --------
    >>> to_spans(["B-PER", "I-PER", "O", "I-LOC"])
    [Span(type='PER', start=0, end=2), Span(type='LOC', start=3, end=4)]
    >>> to_spans(["B-PER", "I-PER", "O", "I-LOC"], scheme="bio")
    [Span(type='PER', start=0, end=2)]
    """
    table = CONLLEVAL if scheme is None else get_scheme(scheme)
    names = labels_of(labels)
    action, closing = table.actions.tolist(), table.closing.tolist()
    spans: list[Span] = []
    start = None  # of the open span
    previous, previous_type = 0, ""
    for t, label in enumerate(names):
        split = parse_label(label) if scheme is None else table.parse(label)
        if split is None:
            raise unreadable(label, f"token {t}", None if scheme is None else table)
        code, type = split
        step = action[type == previous_type][previous][code]
        if start is not None and step != CONTINUE:
            if closing[previous]:
                spans.append(Span(previous_type, start, t))
            start = None
        if step == OPEN:
            start = t
        previous, previous_type = code, type
    if start is not None and closing[previous]:
        spans.append(Span(previous_type, start, len(names)))
    return spans


class SpanRules(NamedTuple):
    """The definition of a span, as masks over ``Y`` labels.

    Attributes
    ----------
    types : list of str
        The types of the labels.
    rules : RunRules
        A span is a run whose kind is the index of its type.

    Examples
    --------
    >>> span_rules(["O", "B-PER", "B-LOC"]).types
    ['PER', 'LOC']
    """

    types: list[str]
    rules: RunRules


def span_rules(labels: Sequence[str], scheme: str | Scheme | None = None) -> SpanRules:
    """Tabulate which pairs of labels open a span and continue one, and which labels end one.

    In every scheme, neighbouring labels decide whether tokens ``start`` to ``end`` are a span: the
    first token opens it, each further token continues it, the last token may end it, and the token
    after that does not continue it.

    Parameters
    ----------
    labels : sequence of str
        The label set, ``Y`` labels.
    scheme : str or Scheme, optional
        As for :func:`to_spans`; without a scheme, labels are read as conlleval reads them.

    Returns
    -------
    SpanRules

    Raises
    ------
    SchemeError
        If a label has no letter, or one that is not in the scheme.

    Examples
    --------
    >>> types, rules = span_rules(["O", "B-PER", "I-PER"], "bio")
    >>> types, rules.continues.astype(int).tolist()
    (['PER'], [[0, 0, 0], [0, 0, 1], [0, 0, 1]])
    """
    table = CONLLEVAL if scheme is None else get_scheme(scheme)
    types: dict[str, int] = {}
    letters, kinds = [], []
    for y, label in enumerate(labels):
        split = parse_label(label) if scheme is None else table.parse(label)
        if split is None:
            raise unreadable(label, f"labels[{y}]", None if scheme is None else table)
        letter, type = split
        letters.append(letter)
        kinds.append(types.setdefault(type, len(types)) if letter else -1)
    code, kind = np.array(letters, dtype=np.intp), np.array(kinds, dtype=np.int64)  # [Y]
    same = (kind[:, None] == kind[None, :]).astype(np.intp)  # [Y, Y]
    action = table.actions[same, code[:, None], code[None, :]]  # [Y, Y]
    rules = RunRules(
        kind=kind,
        first=table.actions[0, 0, code] == OPEN,
        opens=action == OPEN,
        continues=action == CONTINUE,
        closes=(table.closing[code] == 1) & (code > 0),
    )
    return SpanRules(list(types), rules)


def unreadable(label: str, where: str, scheme: Scheme | None) -> SchemeError:
    """Return the error for a label whose letter is not in the scheme, or in any scheme."""
    if scheme is None:
        return SchemeError(
            where=where,
            expected="'O' or a label such as 'B-PER'",
            found=repr(label),
            hint="If each label is a type, as in 'PER', pass {scheme}.",
            options={"scheme": "io"},
        )
    return SchemeError(
        where=where,
        expected=f"a label of {scheme.name}: {', '.join(scheme.forms)}",
        found=repr(label),
        hint=FIND_SCHEME,
    )


def from_spans(
    spans: Iterable[tuple[str, int, int]],
    length: int,
    scheme: str | Scheme,
    *,
    merge: bool = False,
) -> list[str]:
    """Write spans as the labels of one sentence.

    Parameters
    ----------
    spans : iterable of Span or (type, start, end)
        In any order, not overlapping.
    length : int
        Number of tokens of the sentence.
    scheme : str or Scheme
    merge : bool, default=False
        ``io`` cannot separate two adjacent spans of one type. True merges them, False raises.

    Returns
    -------
    list of str

    Raises
    ------
    ShapeError
        If a span is empty, exceeds the sentence or overlaps another.
    SchemeError
        If the scheme cannot express the spans.

    Examples
    --------
    >>> from_spans([("PER", 0, 2), ("LOC", 2, 3)], 4, "bioes")
    ['B-PER', 'E-PER', 'S-LOC', 'O']
    """
    table = get_scheme(scheme)
    labels = ["O"] * length
    before = Span("", 0, 0)
    ordered = sorted((Span(*span) for span in spans), key=lambda span: span.start)
    for span, following in zip(ordered, [*ordered[1:], before], strict=False):
        if not 0 <= span.start < span.end <= length:
            raise ShapeError(
                parameter="spans",
                expected=f"spans with 0 <= start < end <= {length}, the number of tokens",
                found=str(span),
            )
        if span.start < before.end:
            raise ShapeError(
                parameter="spans",
                expected="spans that do not overlap",
                found=f"{span} after {before}",
            )
        touches = before.end > 0 and before.end == span.start and before.type == span.type
        if touches and not table.beside and not merge:
            raise SchemeError(
                where=f"tokens {before.start} to {span.end - 1}",
                expected=f"spans that {table.name} can separate",
                found=f"two adjacent spans of type {span.type!r}",
                hint="Choose another scheme, or pass {merge} to merge them.",
                options={"merge": True},
            )
        is_followed = following.start == span.end and following.type == span.type
        first, middle, last, single = list(
            (table.before if is_followed else "")
            or (table.beside if touches else "")
            or table.writes
        )
        body = [middle] * (span.end - span.start - 2)
        letters = [single] if span.end - span.start == 1 else [first, *body, last]
        for t, letter in enumerate(letters, span.start):
            labels[t] = table.join(CODES.index(letter), span.type)
        before = span
    return labels


def convert(
    sentences: Iterable[Any],
    source: str | Scheme,
    target: str | Scheme,
    *,
    repair: bool = False,
    merge: bool = False,
) -> list[list[str]]:
    """Convert labels from one scheme to another.

    Parameters
    ----------
    sentences : iterable of lists of str, or of sentences with ``.labels``
    source, target : str or Scheme
    repair : bool, default=False
        Handling of labels that are illegal in ``source``: False raises at the first one, True
        reads them as conlleval does.
    merge : bool, default=False
        See :func:`from_spans`.

    Returns
    -------
    list of lists of str

    Raises
    ------
    SchemeError
        If labels are illegal in ``source``, or ``target`` cannot express their spans.

    Examples
    --------
    >>> convert([["I-PER", "I-PER", "B-PER", "O"]], "iob1", "bioes")
    [['B-PER', 'E-PER', 'S-PER', 'O']]
    """
    read, write = get_scheme(source, "source"), get_scheme(target, "target")
    check_collection(sentences)
    path = getattr(sentences, "path", None)
    legality: dict[Transition, bool] = {}
    full: dict[str, str] = {}  # labels with their letter: io may omit its I
    result = []
    for number, sentence in enumerate(sentences):
        labels = labels_of(sentence, number, path)
        problems = find_problems(labels, read, legality, sentence, number, path)
        if problems and not repair:
            raise _illegal(problems[0], detect([labels]).fits)
        for t, label in enumerate(labels):
            if label not in full:
                if (split := read.parse(label)) is None:
                    raise unreadable(label, place(sentence, number, t, path), read)
                full[label] = read.join(*split)
        try:
            spans = to_spans([full[label] for label in labels])
            result.append(from_spans(spans, len(labels), write, merge=merge))
        except SchemeError as error:
            error.where = checks.join(place(sentence, number, path=path), error.where)
            raise
    return result


def _illegal(problem: Problem, fits: Sequence[str]) -> SchemeError:
    """Return the error for a label that is illegal in its scheme; ``fits`` are other schemes."""
    repair = "Pass {repair} to read them as conlleval does."
    return SchemeError(
        f"{problem.clash}.",
        where=problem.where,
        expected=problem.expected,
        found=repr(problem.label),
        hint=f"If the labels are {fits[0]}, pass {{source}}. {repair}" if fits else repair,
        options={"repair": True} | ({"source": fits[0]} if fits else {}),
    )
