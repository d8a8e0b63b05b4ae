"""Features in, scores out: what a trellis needs to know about a sentence."""

from tagloom.scores.linear import Decoder, LinearScores, Names, Rows, Scored

__all__ = ["Decoder", "LinearScores", "Names", "Rows", "Scored"]
