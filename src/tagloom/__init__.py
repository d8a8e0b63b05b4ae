"""Sequence labelling on one fast native trellis."""

from tagloom import datasets, errors, labels
from tagloom.evaluation import compare, evaluate
from tagloom.sequences import Corpus, Sentence, read, stream, write

__version__ = "0.1.0"

__all__ = [
    "Corpus",
    "Sentence",
    "compare",
    "datasets",
    "errors",
    "evaluate",
    "labels",
    "read",
    "stream",
    "write",
]
