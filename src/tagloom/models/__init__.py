"""Models, one file each: a scorer, an objective and the interface of taggers."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.models.baselines import MostFrequentTag
    from tagloom.models.capabilities import Capability
    from tagloom.models.constraints import Constraints, TagDictionary
    from tagloom.models.crf import CRF
    from tagloom.models.explanations import Decision, Explanation, Reason
    from tagloom.models.files import Model, load
    from tagloom.models.filters import OnlineFilter
    from tagloom.models.graphs import draw_transitions
    from tagloom.models.hmm import HMM
    from tagloom.models.iterative import IterativeModel, IterativeTagger
    from tagloom.models.memm import MEMM
    from tagloom.models.neural import NeuralTagger
    from tagloom.models.parsers import DependencyParser, Parse
    from tagloom.models.perceptrons import StructuredPerceptron
    from tagloom.models.plots import plot_emissions, plot_history, plot_states
    from tagloom.models.roles import RoleLabeller
    from tagloom.models.selection import StateCount, StateSelection, select_states
    from tagloom.models.semicrf import SemiCRF
    from tagloom.models.svm import StructuredSVM
    from tagloom.models.taggers import Labelling, PredictedSpan, Tagger
    from tagloom.models.texts import TaggedSentence, TextSpan
    from tagloom.models.tokenizers import Score, Tokenizer, TokenizerScores
    from tagloom.models.tokens import TokenClassifier
    from tagloom.models.weights import FeatureWeight
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "baselines": ["MostFrequentTag"],
            "capabilities": ["Capability"],
            "constraints": ["Constraints", "TagDictionary"],
            "crf": ["CRF"],
            "explanations": ["Decision", "Explanation", "Reason"],
            "files": ["Model", "load"],
            "filters": ["OnlineFilter"],
            "graphs": ["draw_transitions"],
            "hmm": ["HMM"],
            "iterative": ["IterativeModel", "IterativeTagger"],
            "memm": ["MEMM"],
            "neural": ["NeuralTagger"],
            "parsers": ["DependencyParser", "Parse"],
            "perceptrons": ["StructuredPerceptron"],
            "plots": ["plot_emissions", "plot_history", "plot_states"],
            "roles": ["RoleLabeller"],
            "selection": ["StateCount", "StateSelection", "select_states"],
            "semicrf": ["SemiCRF"],
            "svm": ["StructuredSVM"],
            "taggers": ["Labelling", "PredictedSpan", "Tagger"],
            "texts": ["TaggedSentence", "TextSpan"],
            "tokenizers": ["Score", "Tokenizer", "TokenizerScores"],
            "tokens": ["TokenClassifier"],
            "weights": ["FeatureWeight"],
        },
    )

__all__ = [
    "CRF",
    "HMM",
    "MEMM",
    "Capability",
    "Constraints",
    "Decision",
    "DependencyParser",
    "Explanation",
    "FeatureWeight",
    "IterativeModel",
    "IterativeTagger",
    "Labelling",
    "Model",
    "MostFrequentTag",
    "NeuralTagger",
    "OnlineFilter",
    "Parse",
    "PredictedSpan",
    "Reason",
    "RoleLabeller",
    "Score",
    "SemiCRF",
    "StateCount",
    "StateSelection",
    "StructuredPerceptron",
    "StructuredSVM",
    "TagDictionary",
    "TaggedSentence",
    "Tagger",
    "TextSpan",
    "TokenClassifier",
    "Tokenizer",
    "TokenizerScores",
    "draw_transitions",
    "load",
    "plot_emissions",
    "plot_history",
    "plot_states",
    "select_states",
]
