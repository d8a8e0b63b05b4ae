"""Score predicted labels against gold labels: counts, scores, intervals and significance tests.

``counts`` checks and counts, ``scores`` computes, ``tables`` prints; ``evaluations``,
``comparisons``, ``clusters``, ``calibration``, ``label_errors`` and ``scorers`` are the public
part.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.evaluation.calibration import Bin, Reliability, fit_temperature, reliability
    from tagloom.evaluation.clusters import ClusterEvaluation, evaluate_clusters
    from tagloom.evaluation.comparisons import Comparison, Disagreement, compare
    from tagloom.evaluation.counts import ReadingDifference
    from tagloom.evaluation.evaluations import Evaluation, evaluate
    from tagloom.evaluation.label_errors import SuspectLabel, find_label_errors
    from tagloom.evaluation.overlaps import OverlapEvaluation, OverlapScore, evaluate_overlaps
    from tagloom.evaluation.roles import RoleEvaluation, evaluate_roles
    from tagloom.evaluation.scorers import (
        Scorer,
        accuracy,
        sentence_accuracy,
        span_f1,
        span_precision,
        span_recall,
    )
    from tagloom.evaluation.scores import Score
    from tagloom.evaluation.trees import LabelScore, TreeEvaluation, evaluate_trees
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "calibration": ["Bin", "Reliability", "fit_temperature", "reliability"],
            "clusters": ["ClusterEvaluation", "evaluate_clusters"],
            "comparisons": ["Comparison", "Disagreement", "compare"],
            "counts": ["ReadingDifference"],
            "evaluations": ["Evaluation", "evaluate"],
            "label_errors": ["SuspectLabel", "find_label_errors"],
            "overlaps": ["OverlapEvaluation", "OverlapScore", "evaluate_overlaps"],
            "roles": ["RoleEvaluation", "evaluate_roles"],
            "scorers": [
                "Scorer",
                "accuracy",
                "sentence_accuracy",
                "span_f1",
                "span_precision",
                "span_recall",
            ],
            "scores": ["Score"],
            "trees": ["LabelScore", "TreeEvaluation", "evaluate_trees"],
        },
    )

__all__ = [
    "Bin",
    "ClusterEvaluation",
    "Comparison",
    "Disagreement",
    "Evaluation",
    "LabelScore",
    "OverlapEvaluation",
    "OverlapScore",
    "ReadingDifference",
    "Reliability",
    "RoleEvaluation",
    "Score",
    "Scorer",
    "SuspectLabel",
    "TreeEvaluation",
    "accuracy",
    "compare",
    "evaluate",
    "evaluate_clusters",
    "evaluate_overlaps",
    "evaluate_roles",
    "evaluate_trees",
    "find_label_errors",
    "fit_temperature",
    "reliability",
    "sentence_accuracy",
    "span_f1",
    "span_precision",
    "span_recall",
]
