"""Emissions of hidden Markov models, one file each.

`Emission` is the protocol. To add an emission, subclass it; `tagloom.HMM` needs nothing else.
Emissions of numbers are imported when they are first used.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily
from tagloom.scores.emissions.base import Emission, dense, known_kinds
from tagloom.scores.emissions.categorical import Categorical
from tagloom.scores.emissions.features import Features
from tagloom.scores.emissions.lexical import LexicalWords
from tagloom.scores.emissions.words import Words

if TYPE_CHECKING:
    from tagloom.scores.emissions.bernoulli import Bernoulli
    from tagloom.scores.emissions.gaussian import Gaussian
    from tagloom.scores.emissions.independent import Independent
    from tagloom.scores.emissions.log_linear import LogLinear
    from tagloom.scores.emissions.mixture import GaussianMixture
    from tagloom.scores.emissions.multinomial import Multinomial
    from tagloom.scores.emissions.poisson import Poisson
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "bernoulli": ["Bernoulli"],
            "gaussian": ["Gaussian"],
            "independent": ["Independent"],
            "log_linear": ["LogLinear"],
            "mixture": ["GaussianMixture"],
            "multinomial": ["Multinomial"],
            "poisson": ["Poisson"],
        },
    )

__all__ = [
    "Bernoulli",
    "Categorical",
    "Emission",
    "Features",
    "Gaussian",
    "GaussianMixture",
    "Independent",
    "LexicalWords",
    "LogLinear",
    "Multinomial",
    "Poisson",
    "Words",
    "dense",
    "known_kinds",
]
