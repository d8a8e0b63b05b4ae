"""Sequence labelling on one fast native trellis."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tagloom import datasets, errors, features, labels, trellis
    from tagloom.evaluation import compare, evaluate
    from tagloom.models import (
        CRF,
        HMM,
        MEMM,
        MostFrequentTag,
        StructuredPerceptron,
        StructuredSVM,
        TagDictionary,
        Tagger,
        TokenClassifier,
        load,
    )
    from tagloom.sequences import Corpus, Sentence, read, stream, write
    from tagloom.trellis import StateSpace, Trellis, semirings

__version__ = "0.1.0"

__all__ = [
    "CRF",
    "HMM",
    "MEMM",
    "Corpus",
    "MostFrequentTag",
    "Sentence",
    "StateSpace",
    "StructuredPerceptron",
    "StructuredSVM",
    "TagDictionary",
    "Tagger",
    "TokenClassifier",
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

# Where each name comes from. A module is imported when one of its names is first used, so that the
# command line, and a program that needs one part, start quickly.
_MODULES = {
    "CRF": "models",
    "MostFrequentTag": "models",
    "HMM": "models",
    "MEMM": "models",
    "StructuredSVM": "models",
    "Corpus": "sequences",
    "Sentence": "sequences",
    "StateSpace": "trellis",
    "StructuredPerceptron": "models",
    "TagDictionary": "models",
    "Tagger": "models",
    "TokenClassifier": "models",
    "Trellis": "trellis",
    "compare": "evaluation",
    "evaluate": "evaluation",
    "load": "models",
    "read": "sequences",
    "semirings": "trellis",
    "stream": "sequences",
    "write": "sequences",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        value = getattr(import_module(f"tagloom.{_MODULES[name]}"), name)
    elif name in __all__:
        value = import_module(f"tagloom.{name}")
    else:
        raise AttributeError(f"module 'tagloom' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
