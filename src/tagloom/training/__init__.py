"""Encoded features and gold labels in, weights out: knows arrays, and nothing of words."""

from tagloom.training.checkpoints import Checkpoint
from tagloom.training.loops import Listener, Outcome, Record, run
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
