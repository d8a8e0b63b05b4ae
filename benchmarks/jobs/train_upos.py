"""Train a CRF with UPOS labels by L-BFGS, with the same features, penalty, objective and number of
iterations. The paths to the minimum differ slightly, so the losses are close but not equal.
"""

from harness import Found, Goal, Job
from harness.training import STEP, WHOLE, contestants


def difference(found: Found) -> float:
    """Return our loss relative to theirs: the excess in percent."""
    ours, theirs = (found.value(name, "loss") for name in ("tagloom", "python-crfsuite"))
    return 100 * (ours / theirs - 1)


JOB = Job(
    "train a CRF, UPOS",
    contestants("upos"),
    [
        Goal(
            "times as fast as python-crfsuite",
            lambda found: found.times("python-crfsuite", WHOLE),
            at_least=6,
        ),
        Goal(
            "times as fast per iteration",
            lambda found: found.times("python-crfsuite", STEP),
            at_least=7,
        ),
        Goal(
            "two threads over one, by the clock, median of turns",
            lambda found: found.ratio_of_turns(
                WHOLE, ("tagloom", None), ("tagloom, 2 threads", None)
            ),
            at_least=1.6,
        ),
        Goal("loss above that of python-crfsuite", difference, at_most=0.5, unit="%"),
    ],
)
