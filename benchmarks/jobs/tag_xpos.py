"""The same with XPOS labels, of which English has 49."""

from harness import Goal, Job
from harness.tagging import TAG, contestants

JOB = Job(
    "tag XPOS",
    contestants("xpos"),
    [
        Goal(
            "times as fast as python-crfsuite with Python features",
            lambda found: found.times("python-crfsuite", TAG),
            at_least=25,
        )
    ],
    after=["train_xpos"],
)
