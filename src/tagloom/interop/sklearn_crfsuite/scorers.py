"""The scorers of sklearn-crfsuite, for ``cross_val_score`` and searches of scikit-learn."""

from sklearn.metrics import make_scorer  # type: ignore[import-untyped]

from tagloom.interop.sklearn_crfsuite import metrics

__all__ = ["flat_accuracy", "sequence_accuracy"]

flat_accuracy = make_scorer(metrics.flat_accuracy_score)
sequence_accuracy = make_scorer(metrics.sequence_accuracy_score)
