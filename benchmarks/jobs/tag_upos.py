"""Tag the test set with UPOS labels. Both CRFs have the same features and the same objective. The
peer's features are computed in Python; it is also timed with precomputed features. "First call" is
the first call of a new process, when the tagger has not cached any word.
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
