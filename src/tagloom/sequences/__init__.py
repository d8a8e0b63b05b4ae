"""Sentences, corpora of them, and the files that hold them."""

from tagloom.sequences.corpora import Stream, read, stream, write
from tagloom.sequences.guesses import FORMATS
from tagloom.sequences.objects import word_offsets
from tagloom.sequences.sentences import Corpus, Label, Sentence

__all__ = [
    "FORMATS",
    "Corpus",
    "Label",
    "Sentence",
    "Stream",
    "read",
    "stream",
    "word_offsets",
    "write",
]
