"""Sequence labelling on one fast native trellis."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom import (
        datasets,
        dynamics,
        errors,
        features,
        interop,
        labels,
        language,
        learners,
        training,
        trellis,
    )
    from tagloom.dynamics import LinearGaussian
    from tagloom.evaluation import compare, evaluate, evaluate_clusters
    from tagloom.language import NGramModel
    from tagloom.models import (
        CRF,
        HMM,
        MEMM,
        Model,
        MostFrequentTag,
        StructuredPerceptron,
        StructuredSVM,
        TagDictionary,
        Tagger,
        TokenClassifier,
        Tokenizer,
        load,
        select_states,
    )
    from tagloom.scores import emissions
    from tagloom.sequences import Corpus, Sentence, read, stream, write
    from tagloom.trellis import StateSpace, Trellis, semirings
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "datasets": [],
            "dynamics": ["LinearGaussian"],
            "errors": [],
            "evaluation": ["compare", "evaluate", "evaluate_clusters"],
            "features": [],
            "interop": [],
            "labels": [],
            "language": ["NGramModel"],
            "learners": [],
            "models": [
                "CRF",
                "HMM",
                "MEMM",
                "Model",
                "MostFrequentTag",
                "StructuredPerceptron",
                "StructuredSVM",
                "TagDictionary",
                "Tagger",
                "TokenClassifier",
                "Tokenizer",
                "load",
                "select_states",
            ],
            "scores": ["emissions"],
            "sequences": ["Corpus", "Sentence", "read", "stream", "write"],
            "text": [],
            "training": [],
            "trellis": ["StateSpace", "Trellis", "semirings"],
        },
    )

__version__ = "0.1.0"

__all__ = [
    "CRF",
    "HMM",
    "MEMM",
    "Corpus",
    "LinearGaussian",
    "Model",
    "MostFrequentTag",
    "NGramModel",
    "Sentence",
    "StateSpace",
    "StructuredPerceptron",
    "StructuredSVM",
    "TagDictionary",
    "Tagger",
    "TokenClassifier",
    "Tokenizer",
    "Trellis",
    "compare",
    "datasets",
    "dynamics",
    "emissions",
    "errors",
    "evaluate",
    "evaluate_clusters",
    "features",
    "interop",
    "labels",
    "language",
    "learners",
    "load",
    "read",
    "select_states",
    "semirings",
    "stream",
    "text",
    "training",
    "trellis",
    "write",
]
