"""Detect the scheme of a corpus, report illegal labels, and build legal state spaces.

Two neighbouring labels decide legality, so each distinct transition of a corpus is checked once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tagloom import checks
from tagloom.checks import plural
from tagloom.errors import SchemeError
from tagloom.labels.label_lists import check_collection, check_labels, labels_of, line_of
from tagloom.schemes import (
    CODES,
    OUTSIDE,
    SCHEMES,
    Scheme,
    get_scheme,
    legal_transitions,
    parse_label,
    split_label,
)
from tagloom.trellis.states import StateSpace

Transition = tuple[str | None, str | None]  # previous and current label; None beyond an edge


@dataclass(frozen=True)
class Problem:
    """An illegal label, its place and the labels that are legal there.

    Attributes
    ----------
    sentence, token : int
        Indices from 0. ``token`` is the length of the sentence if it must not end there.
    previous, label : str or None
        The two labels that may not follow each other; None is the edge of the sentence.
    expected : str
        The labels that are legal in place of ``label``.
    scheme : str
    path, line : str, int or None
        File and line, if known.

    Examples
    --------
    >>> problem = validate([["O", "I-PER"]], "bio")[0]
    >>> problem.where, problem.clash
    ('sentence 0, token 1', "'I-PER' cannot follow 'O' in bio")
    """

    sentence: int
    token: int
    previous: str | None
    label: str | None
    expected: str
    scheme: str
    path: str | None = None
    line: int | None = None

    @property
    def where(self) -> str:
        """File, line, sentence and token, as far as known."""
        file = ":".join(str(part) for part in (self.path, self.line) if part is not None)
        return checks.place(self.sentence, self.token, file or None)

    @property
    def clash(self) -> str:
        """The violation in words: ``'I-PER' cannot follow 'O' in bio``."""
        return _clash(self.previous, self.label, self.scheme)

    def __str__(self) -> str:
        return f"{self.where}: {self.clash}; expected {self.expected}."


def _clash(previous: str | None, label: str | None, scheme: str) -> str:
    if label is None:
        return f"{previous!r} cannot end a sentence in {scheme}"
    if get_scheme(scheme).parse(label) is None:
        return f"{label!r} is not a label of {scheme}"
    if previous is None:
        return f"{label!r} cannot start a sentence in {scheme}"
    return f"{label!r} cannot follow {previous!r} in {scheme}"


@dataclass(frozen=True)
class ValidityReport(Sequence[Problem]):
    """The problems of a corpus, in order: a sequence of :class:`Problem` that prints as lines.

    Attributes
    ----------
    scheme : str
    problems : list of Problem
    sentences, tokens : int
        The numbers of sentences and tokens checked.

    Examples
    --------
    >>> report = validate([["O", "I-PER"]], "bio")
    >>> report.is_valid, len(report), report[0].label
    (False, 1, 'I-PER')
    """

    scheme: str
    problems: list[Problem]
    sentences: int
    tokens: int

    def __len__(self) -> int:
        return len(self.problems)

    def __getitem__(self, index: Any) -> Any:
        return self.problems[index]

    @property
    def is_valid(self) -> bool:
        """Whether every label is legal."""
        return not self.problems

    def __str__(self) -> str:
        size = f"{plural(self.sentences, 'sentence')}, {plural(self.tokens, 'token')}"
        if self.is_valid:
            return f"{size}: every label is legal in {self.scheme}."
        head = f"{size}: {plural(len(self.problems), 'illegal label')} in {self.scheme}."
        return "\n".join([head, *map(str, self.problems)])

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON.

        Examples
        --------
        >>> validate([["O", "I-PER"]], "bio").to_dict()["problems"][0]["expected"]
        "'O', 'B-…'"
        """
        return {
            "scheme": self.scheme,
            "sentences": self.sentences,
            "tokens": self.tokens,
            "problems": [vars(problem).copy() for problem in self.problems],
        }


@dataclass(frozen=True)
class Detection:
    """The schemes that a corpus fits, and why it does not fit the others.

    Attributes
    ----------
    fits : tuple of str
        Every scheme in which all labels are legal: often one, several if the labels are legal in
        each of them, none if every scheme forbids some.
    misfits : dict of str to str
        For each other scheme, the number of illegal transitions and an example.

    Examples
    --------
    >>> detection = detect([["B-PER", "I-PER", "O"]])
    >>> detection.scheme
    'bio'
    >>> detection.misfits["iob1"]
    "1 illegal, as 'B-PER' cannot start a sentence in iob1"
    """

    fits: tuple[str, ...]
    misfits: dict[str, str] = field(default_factory=dict)

    @property
    def scheme(self) -> str:
        """The only scheme that fits.

        Raises
        ------
        SchemeError
            If none fits or several do.
        """
        if len(self.fits) == 1:
            return self.fits[0]
        raise unknown_scheme(self)

    def __str__(self) -> str:
        if len(self.fits) > 1:
            return f"The labels fit {' and '.join(self.fits)} alike"
        if self.fits:
            return f"The labels fit {self.fits[0]} only"
        reasons = set(self.misfits.values())
        if len(reasons) == 1:
            return f"No scheme fits: {reasons.pop()}"
        return "No scheme fits: " + "; ".join(
            f"{name}: {why}" for name, why in self.misfits.items()
        )


def unknown_scheme(detection: Detection, parameter: str = "scheme") -> SchemeError:
    """Return the error for labels that fit several schemes, or none."""
    return SchemeError(
        f"{detection}.",
        expected="labels that fit one scheme",
        found=" and ".join(detection.fits) or "none",
        hint=f"Choose one with {{{parameter}}}.",
        options={parameter: ...},
    )


def detect(sentences: Iterable[Any]) -> Detection:
    """Find the schemes in which every label of a corpus is legal.

    Labels without a letter, such as part-of-speech tags, fit no scheme: ``io`` can read them as
    types, but only if it is chosen explicitly.

    Parameters
    ----------
    sentences : iterable of lists of str, or of sentences with ``.labels``

    Returns
    -------
    Detection
        All schemes that fit.

    Examples
    --------
    >>> detect([["B-PER", "I-PER", "O"], ["O", "B-LOC"]]).fits
    ('bio',)
    >>> print(detect([["I-PER", "I-PER", "O"]]))
    The labels fit iob1 and io alike
    """
    transitions: Counter[Transition] = Counter()
    for labels in check_labels(sentences):
        transitions.update(pairwise([None, *labels, None]))
    return detect_transitions(transitions)


def detect_transitions(transitions: Mapping[Transition, int]) -> Detection:
    """Find the schemes in which every transition is legal; see :func:`detect`."""
    bare = next((a for a, _ in transitions if a is not None and parse_label(a) is None), None)
    fits, misfits = [], {}
    splits = (split_label(a) for a, _ in transitions if a is not None and a != OUTSIDE)
    letters = {split[0] for split in splits if split is not None}
    for scheme in SCHEMES.values():
        if scheme.marks and letters.isdisjoint(scheme.marks):
            continue  # another scheme reads these labels alike
        illegal = {
            transition: n
            for transition, n in transitions.items()
            if not is_legal(*transition, scheme)
        }
        if bare is not None:
            misfits[scheme.name] = f"{bare!r} has no letter such as B-"
        elif illegal:
            count, example = sum(illegal.values()), next(iter(illegal))
            misfits[scheme.name] = f"{count:,} illegal, as {_clash(*example, scheme.name)}"
        elif scheme.name == "io" and letters - {"I"}:  # io could read PER-B as a type
            misfits[scheme.name] = f"{min(letters - {'I'})!r} is not a letter of io"
        else:
            fits.append(scheme.name)
    return Detection(tuple(fits), misfits)


def validate(sentences: Iterable[Any], scheme: str | Scheme) -> ValidityReport:
    """Report every label that is illegal in a scheme.

    Parameters
    ----------
    sentences : iterable of lists of str, or of sentences with ``.labels``
        If they come from a file, as in a Corpus, the report names file and line.
    scheme : str or Scheme

    Returns
    -------
    ValidityReport

    Examples
    --------
    >>> print(validate([["O", "I-PER"], ["B-LOC", "I-LOC"]], "bio"))
    2 sentences, 4 tokens: 1 illegal label in bio.
    sentence 0, token 1: 'I-PER' cannot follow 'O' in bio; expected 'O', 'B-…'.
    """
    table = get_scheme(scheme)
    check_collection(sentences)
    path = getattr(sentences, "path", None)
    legality: dict[Transition, bool] = {}
    problems: list[Problem] = []
    tokens = count = 0
    for number, sentence in enumerate(sentences):
        labels = labels_of(sentence, number, path)
        tokens += len(labels)
        problems += find_problems(labels, table, legality, sentence, number, path)
        count = number + 1
    return ValidityReport(table.name, problems, count, tokens)


def find_problems(
    labels: list[str],
    scheme: Scheme,
    legality: dict[Transition, bool],
    sentence: Any = None,
    number: int = 0,
    path: str | None = None,
) -> list[Problem]:
    """List the problems of one sentence; ``legality`` caches whether a transition is legal."""
    problems = []
    for t, transition in enumerate(pairwise([None, *labels, None])):
        legal = legality.get(transition)
        if legal is None:
            legal = legality[transition] = is_legal(*transition, scheme)
        if not legal:
            where = (path, line_of(sentence, t))
            problems.append(
                Problem(number, t, *transition, expect(transition[0], scheme), scheme.name, *where)
            )
    return problems


def is_legal(previous: str | None, label: str | None, scheme: str | Scheme) -> bool:
    """Return whether a label may follow another; None is the edge of the sentence.

    After a label outside the scheme every label of the scheme is legal, so that one foreign label
    is reported once, not twice.

    Examples
    --------
    >>> is_legal("B-PER", "I-PER", "bio"), is_legal("B-PER", "I-LOC", "bio")
    (True, False)
    >>> is_legal("B-PER", None, "bioes")
    False
    """
    table = get_scheme(scheme)
    current = (0, "") if label is None else table.parse(label)
    before = (0, "") if previous is None else table.parse(previous)
    if current is None or before is None:
        return current is not None
    return bool(table.legal[int(before[1] == current[1]), before[0], current[0]])


def expect(previous: str | None, scheme: str | Scheme) -> str:
    """List the labels that may follow one, for messages.

    Examples
    --------
    >>> expect("B-PER", "bioes")
    "'I-PER', 'E-PER'"
    """
    table = get_scheme(scheme)
    before, type = ((0, "") if previous is None else table.parse(previous)) or (0, "")
    options = []
    for current in range(len(CODES)):
        other, same = table.legal[:, before, current]
        if current == 0 and other:
            options.append("O")
        elif same and before and not other:
            options.append(table.join(current, type))
        elif other:
            options.append(table.join(current, "…"))
    return ", ".join(f"'{option}'" for option in options)


def state_space(labels: Sequence[str], scheme: str | Scheme) -> StateSpace:
    """Return the state space of the label sequences that are legal in a scheme.

    Parameters
    ----------
    labels : sequence of str
        The label set.
    scheme : str or Scheme
        A key of ``tagloom.labels.SCHEMES``, such as ``bio`` or ``bioes``.

    Raises
    ------
    SchemeError
        If a label does not belong to the scheme.

    Examples
    --------
    >>> space = state_space(["B-PER", "I-PER", "O"], "iob1")
    >>> space.accepts(["O", "I-PER", "B-PER"]), space.accepts(["O", "B-PER"])
    (True, False)
    """
    legal = legal_transitions(labels, scheme)
    return StateSpace.from_transitions(labels, legal.transitions, legal.start, legal.stop)
