"""Score spans that overlap: the four measures of SemEval-2013, task 9.1.

A predicted span is compared with a gold span that it overlaps. *strict* requires boundaries and
type, *exact* the boundaries, *type* the type, and *partial* counts an overlap as half. See
Segura-Bedmar et al. (2013), "SemEval-2013 Task 9"; the counts are those of MUC-5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from tagloom.errors import ShapeError
from tagloom.labels.label_lists import check_labels
from tagloom.labels.spans import Span, to_spans
from tagloom.schemes import Scheme

MEASURES = ("strict", "exact", "partial", "type")


class OverlapScore(NamedTuple):
    """The counts of one measure, and the scores computed from them.

    Attributes
    ----------
    correct, incorrect, partial : int
        Predicted spans by how they match a gold span.
    missed, spurious : int
        Gold spans without a predicted one, and predicted spans without a gold one.

    Examples
    --------
    >>> score = OverlapScore(correct=2, incorrect=0, partial=1, missed=1, spurious=0)
    >>> round(score.precision, 3), score.recall, round(score.f1, 3)
    (0.833, 0.625, 0.714)
    """

    correct: int = 0
    incorrect: int = 0
    partial: int = 0
    missed: int = 0
    spurious: int = 0

    @property
    def predicted(self) -> int:
        """Number of predicted spans."""
        return self.correct + self.incorrect + self.partial + self.spurious

    @property
    def gold(self) -> int:
        """Number of gold spans."""
        return self.correct + self.incorrect + self.partial + self.missed

    @property
    def precision(self) -> float:
        """(correct + partial / 2) / predicted; 0 without predicted spans."""
        return (self.correct + self.partial / 2) / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """(correct + partial / 2) / gold; 0 without gold spans."""
        return (self.correct + self.partial / 2) / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True)
class OverlapEvaluation:
    """The result of :func:`evaluate_overlaps`. It prints as a table.

    Attributes
    ----------
    strict, exact, partial, type : OverlapScore
        Boundaries and type must be right; only the boundaries; only the boundaries, and other
        overlaps count half; only the type, where spans overlap.
    per_type : dict of str to OverlapEvaluation
        The same over the gold and predicted spans of each type.

    Examples
    --------
    >>> result = evaluate_overlaps([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]])
    >>> result.strict.f1, result.partial.f1, result.type.f1
    (0.0, 0.5, 1.0)
    """

    strict: OverlapScore
    exact: OverlapScore
    partial: OverlapScore
    type: OverlapScore
    per_type: dict[str, OverlapEvaluation]

    def to_dict(self) -> dict[str, Any]:
        """Return counts and scores as plain values, ready for JSON.

        Examples
        --------
        >>> evaluate_overlaps([["B-X"]], [["B-X"]]).to_dict()["exact"]["correct"]
        1
        """
        result: dict[str, Any] = {}
        for name in MEASURES:
            score: OverlapScore = getattr(self, name)
            scores = {"precision": score.precision, "recall": score.recall, "f1": score.f1}
            result[name] = score._asdict() | scores
        if self.per_type:
            result["per_type"] = {name: inner.to_dict() for name, inner in self.per_type.items()}
        return result

    def __str__(self) -> str:
        head = f"{'':8}" + "".join(f"{name:>11}" for name in (*OverlapScore._fields, "F1"))
        lines = [head]
        for name in MEASURES:
            score: OverlapScore = getattr(self, name)
            lines.append(f"{name:8}" + "".join(f"{n:>11,}" for n in score) + f"{score.f1:>11.4f}")
        return "\n".join(lines)


def evaluate_overlaps(
    gold: Iterable[Any], predicted: Iterable[Any], scheme: str | Scheme | None = None
) -> OverlapEvaluation:
    """Compare spans that overlap, by the four measures of SemEval-2013.

    Each predicted span, from left to right, takes a gold span that it overlaps and that no other
    one has taken: one that the measure counts as correct (for *type*, the one with the nearest
    boundaries), else the first.

    Parameters
    ----------
    gold, predicted : iterable of lists of str, or of sentences with ``.labels``
    scheme : str or Scheme, optional
        As for `tagloom.labels.to_spans`: by default, labels are read as conlleval reads them.

    Returns
    -------
    OverlapEvaluation

    Raises
    ------
    ShapeError
        If numbers of sentences or tokens differ.
    SchemeError
        If a label is not one of a span scheme.

    Examples
    --------
    >>> from tagloom.evaluation import evaluate_overlaps
    >>> gold = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> print(evaluate_overlaps(gold, [["B-PER", "O", "O", "B-ORG"]]))
                correct  incorrect    partial     missed   spurious         F1
    strict            0          2          0          0          0     0.0000
    exact             1          1          0          0          0     0.5000
    partial           1          0          1          0          0     0.7500
    type              1          1          0          0          0     0.5000
    """
    rows = list(check_labels(gold)), list(check_labels(predicted))
    if [len(row) for row in rows[0]] != [len(row) for row in rows[1]]:
        raise ShapeError(
            parameter="predicted",
            expected=f"as many labels as gold has, in {len(rows[0])} sentences",
            found=f"{len(rows[1])} sentences, or other lengths",
        )
    spans = [
        (to_spans(g, scheme), to_spans(p, scheme)) for g, p in zip(rows[0], rows[1], strict=True)
    ]
    types = sorted({span.type for pair in spans for side in pair for span in side})
    per_type = {
        name: _evaluate(
            [
                ([x for x in g if x.type == name], [x for x in p if x.type == name])
                for g, p in spans
            ],
            {},
        )
        for name in types
    }
    return _evaluate(spans, per_type)


_Pairs = Sequence[tuple[list[Span], list[Span]]]


def _evaluate(spans: _Pairs, per_type: dict[str, OverlapEvaluation]) -> OverlapEvaluation:
    scores = {name: OverlapScore(*_count(spans, name)) for name in MEASURES}
    return OverlapEvaluation(**scores, per_type=per_type)


def _is_exact(gold: Span, predicted: Span) -> bool:
    return gold[1:] == predicted[1:]


# measure -> whether a predicted span is correct, given a gold span that it overlaps
_IS_CORRECT: dict[str, Callable[[Span, Span], bool]] = {
    "strict": lambda gold, predicted: gold == predicted,
    "exact": _is_exact,
    "partial": _is_exact,
    "type": lambda gold, predicted: gold.type == predicted.type,
}


def _count(spans: _Pairs, measure: str) -> list[int]:
    """Return the counts of a measure, in the order of `OverlapScore`."""
    is_correct = _IS_CORRECT[measure]
    correct = wrong = missed = spurious = 0
    for gold, predicted in spans:
        free = list(gold)
        for span in predicted:
            touched = [x for x in free if x.start < span.end and span.start < x.end]
            right = [x for x in touched if is_correct(x, span)]
            if right:
                free.remove(min(right, key=partial(_distance, span)))
                correct += 1
            elif touched:
                free.remove(touched[0])
                wrong += 1
            else:
                spurious += 1
        missed += len(free)
    halves = (0, wrong) if measure == "partial" else (wrong, 0)
    return [correct, *halves, missed, spurious]


def _distance(a: Span, b: Span) -> int:
    return abs(a.start - b.start) + abs(a.end - b.end)
