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
        DependencyParser,
        Model,
        MostFrequentTag,
        NeuralTagger,
        RoleLabeller,
        SemiCRF,
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
    from tagloom.sequences.sources import files
    from tagloom.trellis import SegmentTrellis, StateSpace, TreeScores, Trellis, semirings
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
                "DependencyParser",
                "Model",
                "MostFrequentTag",
                "NeuralTagger",
                "RoleLabeller",
                "SemiCRF",
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
            "sequences.sources": ["files"],  # sequences.files is a module
            "text": [],
            "training": [],
            "trellis": ["SegmentTrellis", "StateSpace", "TreeScores", "Trellis", "semirings"],
        },
    )

__version__ = "0.2.0"

__all__ = [
    "CRF",
    "HMM",
    "MEMM",
    "Corpus",
    "DependencyParser",
    "LinearGaussian",
    "Model",
    "MostFrequentTag",
    "NGramModel",
    "NeuralTagger",
    "RoleLabeller",
    "SegmentTrellis",
    "SemiCRF",
    "Sentence",
    "StateSpace",
    "StructuredPerceptron",
    "StructuredSVM",
    "TagDictionary",
    "Tagger",
    "TokenClassifier",
    "Tokenizer",
    "TreeScores",
    "Trellis",
    "compare",
    "datasets",
    "dynamics",
    "emissions",
    "errors",
    "evaluate",
    "evaluate_clusters",
    "features",
    "files",
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
