"""Language models: the probability of a sequence of words, letters or bytes."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.language.decoding import Candidate, Decoding, Reading
    from tagloom.language.mixtures import interpolate
    from tagloom.language.ngrams import NextWord, NGramModel, TokenScores
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "decoding": ["Candidate", "Decoding", "Reading"],
            "mixtures": ["interpolate"],
            "ngrams": ["NGramModel", "NextWord", "TokenScores"],
        },
    )

__all__ = [
    "Candidate",
    "Decoding",
    "NGramModel",
    "NextWord",
    "Reading",
    "TokenScores",
    "interpolate",
]
