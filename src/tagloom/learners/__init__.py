"""Learners of hidden Markov models: from sequences without labels to a chain and an emission.

One file each. `Algorithm` has the parameters of a learner; ``tagloom.HMM(algorithm=...)`` takes
one, or its name. To add an algorithm, subclass `Algorithm`; nothing else has to change.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.learners.base import (
        Algorithm,
        Allowed,
        CandidateLabels,
        ChainPrior,
        Unlabelled,
        known_algorithms,
    )
    from tagloom.learners.beam import Beam
    from tagloom.learners.decoding import GibbsDecoding, gibbs_decode
    from tagloom.learners.em import EM
    from tagloom.learners.gibbs import Gibbs
    from tagloom.learners.gradient import Gradient
    from tagloom.learners.spectral import Spectral
    from tagloom.learners.variational import VB
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "base": [
                "Algorithm",
                "Allowed",
                "CandidateLabels",
                "ChainPrior",
                "Unlabelled",
                "known_algorithms",
            ],
            "beam": ["Beam"],
            "decoding": ["GibbsDecoding", "gibbs_decode"],
            "em": ["EM"],
            "gradient": ["Gradient"],
            "gibbs": ["Gibbs"],
            "spectral": ["Spectral"],
            "variational": ["VB"],
        },
    )

__all__ = [
    "EM",
    "VB",
    "Algorithm",
    "Allowed",
    "Beam",
    "CandidateLabels",
    "ChainPrior",
    "Gibbs",
    "GibbsDecoding",
    "Gradient",
    "Spectral",
    "Unlabelled",
    "gibbs_decode",
    "known_algorithms",
]
