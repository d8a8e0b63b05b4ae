"""Emissions of hidden Markov models, one file each.

`Emission` is the protocol. To add an emission, subclass it; `tagloom.HMM` needs nothing else.
"""

from tagloom.scores.emissions.base import Emission, dense, known_kinds
from tagloom.scores.emissions.features import Features
from tagloom.scores.emissions.lexical import LexicalWords
from tagloom.scores.emissions.words import Words

__all__ = ["Emission", "Features", "LexicalWords", "Words", "dense", "known_kinds"]
