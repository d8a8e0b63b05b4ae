"""Sentences and corpora, and the readers and writers of their files."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.sequences.corpora import Stream, read, stream, write
    from tagloom.sequences.guesses import FORMATS
    from tagloom.sequences.objects import word_offsets
    from tagloom.sequences.predicates import (
        Argument,
        Frame,
        FrameSentence,
        read_frames,
        write_frames,
    )
    from tagloom.sequences.raw import RawText, paragraphs, raw_text
    from tagloom.sequences.sentences import Corpus, Label, Sentence
    from tagloom.sequences.sources import Files
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "corpora": ["Stream", "read", "stream", "write"],
            "guesses": ["FORMATS"],
            "objects": ["word_offsets"],
            "predicates": ["Argument", "Frame", "FrameSentence", "read_frames", "write_frames"],
            "raw": ["RawText", "paragraphs", "raw_text"],
            "sentences": ["Corpus", "Label", "Sentence"],
            "sources": ["Files"],
        },
    )

__all__ = [
    "FORMATS",
    "Argument",
    "Corpus",
    "Files",
    "Frame",
    "FrameSentence",
    "Label",
    "RawText",
    "Sentence",
    "Stream",
    "paragraphs",
    "raw_text",
    "read",
    "read_frames",
    "stream",
    "word_offsets",
    "write",
    "write_frames",
]
