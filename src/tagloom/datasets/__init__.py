"""Data sets of the package: worked examples, a generator, and a small English corpus.

``classic`` returns examples that textbooks work through by hand, ``synthetic`` generates a corpus
of any size from a seed, ``load`` reads the corpora that are shipped as files. Nothing is
downloaded.
"""

from tagloom.datasets.classics import RibRob, ScoreTables, Vowels, classic
from tagloom.datasets.generators import synthetic
from tagloom.datasets.shipped import Splits, load

__all__ = ["RibRob", "ScoreTables", "Splits", "Vowels", "classic", "load", "synthetic"]
