"""Taggers: which features, which scores, which objective."""

from tagloom.models.crf import CRF
from tagloom.models.linear import FeatureWeight
from tagloom.models.perceptrons import StructuredPerceptron
from tagloom.models.svm import StructuredSVM
from tagloom.models.taggers import Labelling, Tagger, load

__all__ = [
    "CRF",
    "FeatureWeight",
    "Labelling",
    "StructuredPerceptron",
    "StructuredSVM",
    "Tagger",
    "load",
]
