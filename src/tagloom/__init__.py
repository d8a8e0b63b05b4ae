"""Sequence labelling on one fast native trellis."""

from tagloom import errors

__version__ = "0.1.0"

__all__ = ["errors"]
