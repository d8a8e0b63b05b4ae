"""Data that comes with the package; nothing is downloaded."""

from tagloom.datasets.classics import RibRob, ScoreTables, Vowels, classic

__all__ = ["RibRob", "ScoreTables", "Vowels", "classic"]
