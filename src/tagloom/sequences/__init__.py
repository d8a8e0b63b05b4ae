"""Sentences, corpora of them, and the files that hold them."""

from tagloom.sequences.sentences import Corpus, Label, Sentence

__all__ = ["Corpus", "Label", "Sentence"]
