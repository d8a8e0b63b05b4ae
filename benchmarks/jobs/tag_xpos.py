"""The same as `tag_upos` with the 49 XPOS labels of English."""

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
