"""Tag the test set with UPOS labels. Both CRFs have the same features and the same objective; the
peer makes its features in Python, and is also timed with its features made beforehand. The first
call is that of a new process, before the tagger has met any word.
"""

from harness import Goal, Job
from harness.tagging import READY, TAG, contestants

JOB = Job(
    "tag UPOS",
    contestants("upos"),
    [
        Goal(
            "times as fast as python-crfsuite with Python features",
            lambda found: found.times("python-crfsuite", TAG),
            at_least=35,
        ),
        Goal(
            "times as fast as its tag() with features ready",
            lambda found: found.cpu("python-crfsuite", READY) / found.cpu("tagloom", TAG),
            at_least=15,
        ),
    ],
    after=["train_upos"],
)
