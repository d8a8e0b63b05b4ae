"""Gold and predicted labels to counts, scores, intervals and tests.

``counts`` checks and counts, ``scores`` computes, ``tables`` prints; ``evaluations``,
``comparisons``, ``calibration`` and ``scorers`` are what users see.
"""

from tagloom.evaluation.calibration import Bin, Reliability, fit_temperature, reliability
from tagloom.evaluation.comparisons import Comparison, Disagreement, compare
from tagloom.evaluation.counts import ReadingDifference
from tagloom.evaluation.evaluations import Evaluation, evaluate
from tagloom.evaluation.scorers import (
    Scorer,
    accuracy,
    sentence_accuracy,
    span_f1,
    span_precision,
    span_recall,
)
from tagloom.evaluation.scores import Score

__all__ = [
    "Bin",
    "Comparison",
    "Disagreement",
    "Evaluation",
    "ReadingDifference",
    "Reliability",
    "Score",
    "Scorer",
    "accuracy",
    "compare",
    "evaluate",
    "fit_temperature",
    "reliability",
    "sentence_accuracy",
    "span_f1",
    "span_precision",
    "span_recall",
]
