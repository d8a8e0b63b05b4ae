"""Data that comes with the package; nothing is downloaded."""

from tagloom.datasets.classics import RibRob, ScoreTables, Vowels, classic
from tagloom.datasets.generators import synthetic

__all__ = ["RibRob", "ScoreTables", "Vowels", "classic", "synthetic"]
