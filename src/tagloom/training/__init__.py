"""Encoded features and gold labels in, weights out: knows arrays, and nothing of words."""

from tagloom.training.checkpoints import Checkpoint
from tagloom.training.loops import Listener, Outcome, Record, run
from tagloom.training.optimisers import (
    LBFGS,
    SGD,
    AdaGrad,
    AveragedPerceptron,
    Optimiser,
    Problem,
    Step,
)

__all__ = [
    "LBFGS",
    "SGD",
    "AdaGrad",
    "AveragedPerceptron",
    "Checkpoint",
    "Listener",
    "Optimiser",
    "Outcome",
    "Problem",
    "Record",
    "Step",
    "run",
]
