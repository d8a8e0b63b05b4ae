"""Features in, scores out: what a trellis needs to know about a sentence."""

from tagloom.scores.linear import LinearScores, Names, Rows, Scored

__all__ = ["LinearScores", "Names", "Rows", "Scored"]
