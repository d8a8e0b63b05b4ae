"""Scorers: linear weights, word tables and emissions turn sentences into scores for a trellis."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.scores import emissions
    from tagloom.scores.decoders import Decoder
    from tagloom.scores.linear import LinearScores, Names, Rows, Scored
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "decoders": ["Decoder"],
            "emissions": [],
            "linear": ["LinearScores", "Names", "Rows", "Scored"],
        },
    )

__all__ = ["Decoder", "LinearScores", "Names", "Rows", "Scored", "emissions"]
