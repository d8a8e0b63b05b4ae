"""What a tagger learns from a whole corpus besides its weights, in a form that can be merged.

Labels, the scheme of spans, a tag dictionary, the label histories of higher orders: each depends on
all sentences. A `Summary` of one part of a corpus holds what is needed for them; the summaries of
all parts, merged, give the same as the whole corpus.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tagloom import checks, labels
from tagloom.errors import LabelError
from tagloom.labels.validity import detect_transitions
from tagloom.models.constraints import (
    SCHEMES,
    Constraints,
    TagDictionary,
    constraint_parts,
    is_auto,
    look_like_spans,
    misfit_warning,
    resolve_parts,
)
from tagloom.models.data import caller_level
from tagloom.trellis import StateSpace

#: A pair of adjacent labels; None before the first and after the last label of a sentence.
Transition = tuple[str | None, str | None]

_OPEN = "\0"  # stands for an open label; no label is this


@dataclass
class Summary:
    """A summary of labelled sentences.

    Attributes
    ----------
    sentences, tokens : int
    labels : dict of str to None
        The labels that occur, in the order of their first occurrence.
    transitions : Counter
        Of pairs of adjacent labels, if all labels look like spans; open labels are left out.
    has_open : bool
        Whether some labels are open.
    words : dict of str to Counter
        How often each word has each label, for a tag dictionary.
    grams : set of tuples of str
        Label n-grams of the longest length, and shorter whole sentences, for higher orders.
    """

    sentences: int = 0
    tokens: int = 0
    labels: dict[str, None] = field(default_factory=dict)
    transitions: Counter[Transition] = field(default_factory=Counter)
    has_open: bool = False
    words: dict[str, Counter[str]] = field(default_factory=dict)
    grams: set[tuple[str, ...]] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        sentences: Sequence[Any],
        labellings: Iterable[Sequence[Any]],
        names: Iterable[str],
        *,
        constraints: Any = None,
        order: int = 1,
    ) -> Summary:
        """Summarise labelled sentences.

        Parameters
        ----------
        sentences : sequence of sentences
        labellings : iterable of lists of labels
        names : iterable of str
            The labels that occur.
        constraints
            The argument ``constraints=`` of a tagger, by which the summary has transitions and
            words.
        order : int
            The length of label histories; above 1 the summary has n-grams.

        Examples
        --------
        >>> one = Summary.of([["a", "b"]], [["B-X", "I-X"]], ["B-X", "I-X"], constraints="auto")
        >>> two = Summary.of([["c"]], [["O"]], ["O"], constraints="auto")
        >>> both = one.merged(two)
        >>> both.sentences, list(both.labels), both.scheme("auto")
        (2, ['B-X', 'I-X', 'O'], 'bio')
        """
        labellings = list(labellings)
        summary = cls(len(sentences), sum(map(len, labellings)), dict.fromkeys(names))
        parts = constraint_parts(constraints)
        if is_auto(constraints) and look_like_spans(list(summary.labels)):
            summary._count_transitions(labellings)
        if any(isinstance(part, TagDictionary) for part in parts):
            TagDictionary.count(sentences, labellings, summary.words)
        if order > 1:
            summary._collect_grams(labellings, order + 1)
        return summary

    def _count_transitions(self, labellings: list[Sequence[Any]]) -> None:
        for row in labellings:
            known = [_OPEN if checks.is_open(label) else label for label in row]
            self.has_open |= _OPEN in known
            self.transitions.update(
                pair for pair in pairwise([None, *known, None]) if _OPEN not in pair
            )

    def _collect_grams(self, labellings: list[Sequence[Any]], n: int) -> None:
        for row in labellings:
            run: list[str] = []
            for label in [*row, None]:
                if not checks.is_open(label):
                    run.append(label)
                    continue
                for i in range(max(len(run) - n + 1, 1 if run else 0)):
                    self.grams.add(tuple(run[i : i + n]))
                run = []

    def merged(self, other: Summary) -> Summary:
        """Return the summary of this part and a later one together."""
        words = {word: Counter(counts) for word, counts in self.words.items()}
        for word, counts in other.words.items():
            words.setdefault(word, Counter()).update(counts)
        return Summary(
            self.sentences + other.sentences,
            self.tokens + other.tokens,
            self.labels | other.labels,
            self.transitions + other.transitions,
            self.has_open or other.has_open,
            words,
            self.grams | other.grams,
        )

    def add(self, other: Summary) -> None:
        """Add a later part in place, in time that depends on that part only."""
        self.sentences += other.sentences
        self.tokens += other.tokens
        self.labels |= other.labels
        self.transitions.update(other.transitions)
        self.has_open |= other.has_open
        for word, counts in other.words.items():
            self.words.setdefault(word, Counter()).update(counts)
        self.grams |= other.grams

    # ---- what follows from it --------------------------------------------------------------

    def scheme(self, spec: Any, *, warns: bool = True) -> str | None:
        """Detect the scheme whose illegal transitions "auto" forbids; None without "auto".

        Parameters
        ----------
        spec
            The argument ``constraints=`` of a tagger.
        warns : bool
            Whether to warn if labels look like spans and no scheme fits.
        """
        if not is_auto(spec) or not look_like_spans(list(self.labels)):
            return None
        if self.has_open:
            return next((scheme for scheme in SCHEMES if self._has_no_clash(scheme)), None)
        detection = detect_transitions(self.transitions)
        if not detection.fits:
            if warns:
                warnings.warn(misfit_warning(detection), stacklevel=caller_level())
            return None
        return next(scheme for scheme in SCHEMES if scheme in detection.fits)

    def _has_no_clash(self, scheme: str) -> bool:
        """Whether the scheme has all labels, and no pair of adjacent known labels violates it."""
        names = list(self.labels)
        try:
            legal = labels.legal_transitions(names, scheme)
        except LabelError:
            return False
        number = {label: y for y, label in enumerate(names)}
        for before, after in self.transitions:
            if before is not None and after is not None:
                is_legal = legal.transitions[number[before], number[after]]
            elif after is not None:
                is_legal = legal.start[number[after]]
            else:
                is_legal = before is None or legal.stop[number[before]]
            if not is_legal:
                return False
        return True

    def constraints(self, spec: Any, names: Sequence[str], *, warns: bool = True) -> Constraints:
        """Resolve the argument ``constraints=`` of a tagger over the labels ``names``."""
        return resolve_parts(
            spec,
            self.scheme(spec, warns=warns),
            tuple(names),
            lambda dictionary: dictionary.choose(names, self.words),
        )

    def state_space(self, names: Sequence[str], order: int) -> StateSpace:
        """Return the space of the label histories that occur, up to a length."""
        number = {label: y for y, label in enumerate(names)}
        grams = sorted([number[label] for label in gram] for gram in self.grams)
        return StateSpace.order(tuple(names), order, grams)
