"""The same as `train_upos` with the 49 XPOS labels of English."""

from harness import Goal, Job
from harness.training import STEP, WHOLE, contestants

JOB = Job(
    "train a CRF, XPOS",
    contestants("xpos"),
    [
        Goal(
            "times as fast as python-crfsuite",
            lambda found: found.times("python-crfsuite", WHOLE),
            at_least=7,
        ),
        Goal(
            "times as fast per iteration",
            lambda found: found.times("python-crfsuite", STEP),
            at_least=7,
        ),
    ],
)
