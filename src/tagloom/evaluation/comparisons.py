"""Whether one system is better than another, or only luckier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tagloom import checks
from tagloom.checks import plural
from tagloom.evaluation.counts import align
from tagloom.evaluation.evaluations import (
    Evaluation,
    choose,
    evaluate_hand,
    known_words,
)
from tagloom.evaluation.scores import CORRECT, randomisation
from tagloom.evaluation.tables import Cell, Table, html_page, page
from tagloom.schemes import Scheme


@dataclass(frozen=True)
class Disagreement:
    """A sentence that two systems label differently.

    Attributes
    ----------
    sentence : int
        Its index.
    tokens : list of str, or None
    gold, a, b : list of str
        Its labels.
    correct_a, correct_b : int
        How many of them are right.
    """

    sentence: int
    tokens: list[str] | None
    gold: list[str]
    a: list[str]
    b: list[str]
    correct_a: int
    correct_b: int

    def __str__(self) -> str:
        lines = [f"sentence {self.sentence}: {self.correct_a} right in a, {self.correct_b} in b"]
        for t, (gold, a, b) in enumerate(zip(self.gold, self.a, self.b, strict=True)):
            if a != b:
                word = "" if self.tokens is None else f" {self.tokens[t]!r}"
                lines.append(f"  token {t}{word}: gold {gold}, a {a}, b {b}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What :func:`compare` found. It prints as tables.

    Attributes
    ----------
    a, b : Evaluation
    p_values : dict of str to float
        For each score, the chance of a difference at least this large if the two systems were
        alike: approximate randomisation over sentences, two-sided.
    p_value : float
        That of F1 if spans were counted, else of accuracy.
    disagreements : list of Disagreement
        The sentences that the two label differently, in order.
    n_trials, random_state : int
    """

    a: Evaluation
    b: Evaluation
    p_values: dict[str, float]
    n_trials: int
    random_state: int
    disagreements: list[Disagreement] = field(repr=False)

    @property
    def p_value(self) -> float:
        """The p-value of F1 if spans were counted, else of accuracy."""
        return self.p_values["f1" if self.a.is_spans else "accuracy"]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return {
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "p_value": self.p_value,
            "p_values": dict(self.p_values),
            "n_trials": self.n_trials,
            "random_state": self.random_state,
            "disagreements": [vars(item).copy() for item in self.disagreements],
        }

    def _parts(self, shown: int = 5) -> list[str | Table]:
        a, b = self.a.summary(), self.b.summary()
        rows: list[list[Cell]] = [
            [name.replace("_", " "), a[name], b[name], f"{b[name] - a[name]:+.4f}", p]
            for name, p in self.p_values.items()
        ]
        better = sum(item.correct_a > item.correct_b for item in self.disagreements)
        worse = sum(item.correct_a < item.correct_b for item in self.disagreements)
        count = len(self.disagreements)
        parts: list[str | Table] = [
            f"{plural(self.a.n_sentences, 'sentence')}, {plural(self.a.n_tokens, 'token')}. "
            f"{self.a.note}",
            Table(["", "a", "b", "b - a", "p"], rows),
            f"p by approximate randomisation over sentences, {self.n_trials:,} trials.",
        ]
        for name, evaluation in (("a", self.a), ("b", self.b)):
            parts += [f"{name}: {d}" for d in evaluation.reading_differences if d.name != "gold"]
        parts += [str(d) for d in self.a.reading_differences if d.name == "gold"]
        parts.append(
            f"Labelled differently: {plural(count, 'sentence')}. More tokens are right in a in "
            f"{better:,}, in b in {worse:,}, as many in {count - better - worse:,}."
        )
        parts += map(str, self.disagreements[:shown])
        return [*parts, f"... and {count - shown:,} more."] if count > shown else parts

    def __repr__(self) -> str:
        return f"Comparison(a={self.a!r}, b={self.b!r}, p_value={self.p_value:.4f})"

    def __str__(self) -> str:
        return page(self._parts())

    def _repr_html_(self) -> str:
        return html_page(self._parts())


def compare(
    gold: Iterable[Any],
    a: Iterable[Any],
    b: Iterable[Any],
    *,
    strict: bool = False,
    scheme: str | Scheme | None = None,
    spans: bool | None = None,
    train: Iterable[Any] | None = None,
    tokens: Iterable[Sequence[str]] | None = None,
    n_trials: int = 10_000,
    n_bootstrap: int = 1000,
    random_state: int = 0,
) -> Comparison:
    """Test whether two systems differ, by approximate randomisation.

    In each trial the two outputs for each sentence change places with probability 1/2. If the
    systems were alike, a difference as large as the observed one would then be common; the p-value
    is the share of such trials, the observed one counted in: (k + 1) / (n_trials + 1).

    Parameters
    ----------
    gold, a, b : list of lists of str, or Corpus
        Labels of the same sentences.
    strict, scheme, spans, train, tokens, n_bootstrap : optional
        As in :func:`evaluate`.
    n_trials : int, default=10000
    random_state : int, default=0
        Seed of the trials and of the resampling.

    Returns
    -------
    Comparison

    Raises
    ------
    ShapeError
        If the three differ in the number of sentences or of labels in a sentence.
    LabelError
        If a label is None or a set.
    SchemeError
        If spans are asked for and a label does not fit, or the scheme is not known.
    ParameterError
        If a number of repetitions or the seed is not an integer from 0.

    Examples
    --------
    >>> gold = [["NOUN", "VERB"]] * 8
    >>> result = compare(gold, [["NOUN", "NOUN"]] * 8, gold)
    >>> result.a.accuracy, result.b.accuracy, result.p_value < 0.05
    (0.5, 1.0, True)
    >>> len(result.disagreements)
    8
    """
    checks.count(random_state, "random_state")
    checks.count(n_bootstrap, "n_bootstrap")
    checks.count(n_trials, "n_trials", least=1)
    aligned = align({"gold": gold, "a": a, "b": b}, tokens)
    protocol = choose(aligned, strict, scheme, spans)
    known = known_words(aligned, train)
    first, second = (
        evaluate_hand(aligned, hand, protocol, known, n_bootstrap, random_state) for hand in (1, 2)
    )
    sentence_of = np.repeat(np.arange(aligned.n_sentences), aligned.lengths)  # [T]
    differ = np.unique(sentence_of[aligned.ids[1] != aligned.ids[2]]).tolist()
    gold_rows, a_rows, b_rows = aligned.rows
    disagreements = [
        Disagreement(
            sentence=n,
            tokens=None if aligned.tokens is None else list(aligned.tokens[n]),
            gold=gold_rows[n],
            a=a_rows[n],
            b=b_rows[n],
            correct_a=int(first.sentence_counts[n, CORRECT]),
            correct_b=int(second.sentence_counts[n, CORRECT]),
        )
        for n in differ
    ]
    p_values = randomisation(first.sentence_counts, second.sentence_counts, n_trials, random_state)
    return Comparison(first, second, p_values, n_trials, random_state, disagreements)
