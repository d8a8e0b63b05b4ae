"""Gold and predicted labels to counts, scores, intervals and tests.

``counts`` checks and counts, ``scores`` computes, ``tables`` prints; ``evaluations`` and
``comparisons`` are what users see.
"""

from tagloom.evaluation.comparisons import Comparison, Disagreement, compare
from tagloom.evaluation.counts import ReadingDifference
from tagloom.evaluation.evaluations import Evaluation, evaluate
from tagloom.evaluation.scores import Score

__all__ = [
    "Comparison",
    "Disagreement",
    "Evaluation",
    "ReadingDifference",
    "Score",
    "compare",
    "evaluate",
]
