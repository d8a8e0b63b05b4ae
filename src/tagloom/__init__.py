"""Sequence labelling on one fast native trellis."""

from tagloom import errors, trellis
from tagloom.trellis import StateSpace, Trellis, semirings

__version__ = "0.1.0"

__all__ = ["StateSpace", "Trellis", "errors", "semirings", "trellis"]
