"""Sequence labelling on one fast native trellis."""

from tagloom import datasets, errors, features, labels, trellis
from tagloom.evaluation import compare, evaluate
from tagloom.models import CRF, StructuredPerceptron, StructuredSVM, Tagger, load
from tagloom.sequences import Corpus, Sentence, read, stream, write
from tagloom.trellis import StateSpace, Trellis, semirings

__version__ = "0.1.0"

__all__ = [
    "CRF",
    "Corpus",
    "Sentence",
    "StateSpace",
    "StructuredPerceptron",
    "StructuredSVM",
    "Tagger",
    "Trellis",
    "compare",
    "datasets",
    "errors",
    "evaluate",
    "features",
    "labels",
    "load",
    "read",
    "semirings",
    "stream",
    "trellis",
    "write",
]
