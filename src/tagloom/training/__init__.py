"""Objectives, learners and the training loop. This package handles arrays only, not words."""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom._native import Attributes, Labels, LinearObjective
    from tagloom.training.checkpoints import Checkpoint
    from tagloom.training.fitting import Fitting, Outcome, fit_iteratively, run
    from tagloom.training.lbfgs import LBFGS, minimise
    from tagloom.training.learners import Learner, Optimiser, State, Step
    from tagloom.training.objectives import Problem  # noqa: F401  # an old name
    from tagloom.training.online import SGD, AdaGrad, AveragedPerceptron, FrankWolfe, Subgradient
    from tagloom.training.records import Listener, Record
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "checkpoints": ["Checkpoint"],
            "fitting": ["Fitting", "Outcome", "fit_iteratively", "run"],
            "lbfgs": ["LBFGS", "minimise"],
            "learners": ["Learner", "Optimiser", "State", "Step"],
            "objectives": ["Attributes", "Labels", "LinearObjective", "Problem"],
            "online": ["AdaGrad", "AveragedPerceptron", "FrankWolfe", "SGD", "Subgradient"],
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
    "Fitting",
    "FrankWolfe",
    "Labels",
    "Learner",
    "LinearObjective",
    "Listener",
    "Optimiser",
    "Outcome",
    "Record",
    "State",
    "Step",
    "Subgradient",
    "fit_iteratively",
    "minimise",
    "run",
]
