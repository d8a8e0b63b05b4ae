"""Sequence labelling on one fast native trellis."""

from tagloom import datasets, errors, features, labels, trellis
from tagloom.evaluation import compare, evaluate
from tagloom.models import CRF, HMM, MostFrequentTag, StructuredPerceptron, Tagger, load
from tagloom.sequences import Corpus, Sentence, read, stream, write
from tagloom.trellis import StateSpace, Trellis, semirings

__version__ = "0.1.0"

__all__ = [
    "CRF",
    "HMM",
    "Corpus",
    "MostFrequentTag",
    "Sentence",
    "StateSpace",
    "StructuredPerceptron",
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
