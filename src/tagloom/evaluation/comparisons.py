"""Compare two systems on the same sentences, with a significance test."""

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
    evaluate_system,
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
        Index of the sentence.
    tokens : list of str, or None
        Its words, if known.
    gold, a, b : list of str
        Its gold labels and those of the two systems.
    correct_a, correct_b : int
        Number of labels that each system has right.

    Examples
    --------
    >>> print(compare([["A", "B"]], [["A", "A"]], [["A", "B"]]).disagreements[0])
    sentence 0: 1 right in a, 2 in b
      token 1: gold B, a A, b B
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
    """The result of :func:`compare`. It prints as tables.

    Attributes
    ----------
    a, b : Evaluation
        The evaluations of the two systems.
    p_values : dict of str to float
        For each score, the probability of a difference at least this large if the two systems
        were equally good: approximate randomisation over sentences, two-sided.
    p_value : float
        The p-value of F1 if spans were counted, else of accuracy.
    disagreements : list of Disagreement
        The sentences that the two label differently, in order.
    n_trials, random_state : int
        As passed to `compare`.

    Examples
    --------
    >>> result = compare([["A", "B"]] * 8, [["A", "A"]] * 8, [["A", "B"]] * 8)
    >>> sorted(result.p_values), result.p_value == result.p_values["accuracy"]
    (['accuracy', 'sentence_accuracy'], True)
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
        """Return everything as plain values, ready for JSON.

        Examples
        --------
        >>> sorted(compare([["A"]], [["A"]], [["B"]]).to_dict())[:4]
        ['a', 'b', 'disagreements', 'n_trials']
        """
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
            f"Labelled differently: {plural(count, 'sentence')}. a has more tokens right in "
            f"{better:,}, b in {worse:,}, both the same number in {count - better - worse:,}."
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

    Each trial swaps the two outputs for each sentence with probability 1/2. If the systems were
    equally good, a difference as large as the observed one would then be common. With k such
    trials, the p-value is (k + 1) / (n_trials + 1).

    Parameters
    ----------
    gold, a, b : list of lists of str, or Corpus
        Labels of the same sentences.
    strict, scheme, spans, train, tokens, n_bootstrap : optional
        As in :func:`evaluate`.
    n_trials : int, default=10000
        Number of trials.
    random_state : int, default=0
        Seed of the trials and of the bootstrap.

    Returns
    -------
    Comparison

    Raises
    ------
    ShapeError
        If the three differ in the number of sentences, or of labels in a sentence.
    LabelError
        If a label is None or a set.
    SchemeError
        If spans are requested and a label does not fit, or the scheme cannot be detected.
    ParameterError
        If ``n_trials``, ``n_bootstrap`` or ``random_state`` is out of range.

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
    is_known = known_words(aligned, train)
    first, second = (
        evaluate_system(aligned, system, protocol, is_known, n_bootstrap, random_state)
        for system in (1, 2)
    )
    sentence_of = np.repeat(np.arange(aligned.n_sentences), aligned.lengths)  # [T]
    differing = np.unique(sentence_of[aligned.ids[1] != aligned.ids[2]]).tolist()
    gold_labels, a_labels, b_labels = aligned.label_lists
    disagreements = [
        Disagreement(
            sentence=n,
            tokens=None if aligned.tokens is None else list(aligned.tokens[n]),
            gold=gold_labels[n],
            a=a_labels[n],
            b=b_labels[n],
            correct_a=int(first.sentence_counts[n, CORRECT]),
            correct_b=int(second.sentence_counts[n, CORRECT]),
        )
        for n in differing
    ]
    p_values = randomisation(first.sentence_counts, second.sentence_counts, n_trials, random_state)
    return Comparison(first, second, p_values, n_trials, random_state, disagreements)
