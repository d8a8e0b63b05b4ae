"""Scorers: linear weights, word tables and emissions turn sentences into scores for a trellis."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.scores import emissions
    from tagloom.scores.decoders import Decoder
    from tagloom.scores.linear import LinearScores, Names, Rows, Scored
    from tagloom.scores.networks import NetworkScores, NetworkSpec
    from tagloom.scores.subtags import Subtags
    from tagloom.scores.vectors import Vectors, read_vectors
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "decoders": ["Decoder"],
            "emissions": [],
            "linear": ["LinearScores", "Names", "Rows", "Scored"],
            "networks": ["NetworkScores", "NetworkSpec"],
            "subtags": ["Subtags"],
            "vectors": ["Vectors", "read_vectors"],
        },
    )

__all__ = [
    "Decoder",
    "LinearScores",
    "Names",
    "NetworkScores",
    "NetworkSpec",
    "Rows",
    "Scored",
    "Subtags",
    "Vectors",
    "emissions",
    "read_vectors",
]
