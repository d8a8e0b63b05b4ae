"""Encoded features and gold labels in, weights out: knows arrays, and nothing of words."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.training.checkpoints import Checkpoint
    from tagloom.training.loops import Outcome, run
    from tagloom.training.optimisers import (
        LBFGS,
        SGD,
        AdaGrad,
        AveragedPerceptron,
        FrankWolfe,
        Optimiser,
        Problem,
        Step,
        Subgradient,
    )
    from tagloom.training.records import Listener, Record
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "checkpoints": ["Checkpoint"],
            "loops": ["Outcome", "run"],
            "optimisers": [
                "AdaGrad",
                "AveragedPerceptron",
                "FrankWolfe",
                "LBFGS",
                "Optimiser",
                "Problem",
                "SGD",
                "Step",
                "Subgradient",
            ],
            "records": ["Listener", "Record"],
        },
    )

__all__ = [
    "LBFGS",
    "SGD",
    "AdaGrad",
    "AveragedPerceptron",
    "Checkpoint",
    "FrankWolfe",
    "Listener",
    "Optimiser",
    "Outcome",
    "Problem",
    "Record",
    "Step",
    "Subgradient",
    "run",
]
