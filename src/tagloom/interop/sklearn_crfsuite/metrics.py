"""The metrics of sklearn-crfsuite: those of scikit-learn over the labels of all tokens.

`tagloom.evaluate` computes the same scores, and those of spans, without scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeAlias

__all__ = [
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "sequence_accuracy_score",
]

Labels: TypeAlias = Sequence[Sequence[Any]]


def _score(name: str, y_true: Labels, y_pred: Labels, **options: Any) -> Any:
    """Call a metric of scikit-learn with flat lists."""
    import sklearn.metrics  # type: ignore[import-untyped]

    flat = (list(chain.from_iterable(y)) for y in (y_true, y_pred))
    return getattr(sklearn.metrics, name)(*flat, **options)


def flat_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Return the part of tokens whose label is right."""
    return float(_score("accuracy_score", y_true, y_pred))


def flat_precision_score(y_true: Labels, y_pred: Labels, **options: Any) -> Any:
    """Return the precision; the options are those of scikit-learn's ``precision_score``."""
    return _score("precision_score", y_true, y_pred, **options)


def flat_recall_score(y_true: Labels, y_pred: Labels, **options: Any) -> Any:
    """Return the recall; the options are those of scikit-learn's ``recall_score``."""
    return _score("recall_score", y_true, y_pred, **options)


def flat_f1_score(y_true: Labels, y_pred: Labels, **options: Any) -> Any:
    """Return F1; the options are those of scikit-learn's ``f1_score``.

    Examples
    --------
    >>> from tagloom.interop.sklearn_crfsuite import metrics
    >>> gold, predicted = [["x", "z", "y"], ["x", "x"]], [["y", "z", "y"], ["x", "y"]]
    >>> round(float(metrics.flat_f1_score(gold, predicted, average="macro")), 4)
    0.6667
    """
    return _score("f1_score", y_true, y_pred, **options)


def flat_fbeta_score(y_true: Labels, y_pred: Labels, beta: float, **options: Any) -> Any:
    """Return F-beta; the options are those of scikit-learn's ``fbeta_score``."""
    return _score("fbeta_score", y_true, y_pred, beta=beta, **options)


def flat_classification_report(
    y_true: Labels, y_pred: Labels, labels: Sequence[Any] | None = None, **options: Any
) -> Any:
    """Return scikit-learn's report of all labels."""
    return _score("classification_report", y_true, y_pred, labels=labels, **options)


def sequence_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Return the part of sequences whose labels are all right; 0 for none."""
    right = sum(list(a) == list(b) for a, b in zip(y_true, y_pred, strict=True))
    return right / len(y_true) if len(y_true) else 0
