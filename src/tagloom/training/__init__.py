"""Encoded features and gold labels in, weights out: knows arrays, and nothing of words."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom._native import Attributes, Labels, Problem
    from tagloom.training.checkpoints import Checkpoint
    from tagloom.training.lbfgs import LBFGS
    from tagloom.training.learners import Learner, Optimiser, State, Step
    from tagloom.training.loops import Outcome, run
    from tagloom.training.online import SGD, AdaGrad, AveragedPerceptron, FrankWolfe, Subgradient
    from tagloom.training.records import Listener, Record
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "checkpoints": ["Checkpoint"],
            "lbfgs": ["LBFGS"],
            "learners": ["Learner", "Optimiser", "State", "Step"],
            "loops": ["Outcome", "run"],
            "online": ["AdaGrad", "AveragedPerceptron", "FrankWolfe", "SGD", "Subgradient"],
            "problems": ["Attributes", "Labels", "Problem"],
            "records": ["Listener", "Record"],
        },
    )

__all__ = [
    "LBFGS",
    "SGD",
    "AdaGrad",
    "Attributes",
    "AveragedPerceptron",
    "Checkpoint",
    "FrankWolfe",
    "Labels",
    "Learner",
    "Listener",
    "Optimiser",
    "Outcome",
    "Problem",
    "Record",
    "State",
    "Step",
    "Subgradient",
    "run",
]
