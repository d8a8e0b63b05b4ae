"""Gold and predicted labels to counts, scores, intervals and tests.

``counts`` checks and counts, ``scores`` computes, ``tables`` prints; ``evaluations``,
``comparisons`` and ``calibration`` are what users see.
"""

from tagloom.evaluation.calibration import Bin, Reliability, fit_temperature, reliability
from tagloom.evaluation.comparisons import Comparison, Disagreement, compare
from tagloom.evaluation.counts import ReadingDifference
from tagloom.evaluation.evaluations import Evaluation, evaluate
from tagloom.evaluation.scores import Score

__all__ = [
    "Bin",
    "Comparison",
    "Disagreement",
    "Evaluation",
    "ReadingDifference",
    "Reliability",
    "Score",
    "compare",
    "evaluate",
    "fit_temperature",
    "reliability",
]
