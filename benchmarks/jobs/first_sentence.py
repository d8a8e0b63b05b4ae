"""Start Python, load the UPOS model and tag one sentence. tagloom imports NumPy and python-crfsuite
does not, so the time of that import is measured and subtracted in the target.
"""

import sys

from harness import Bench, Contestant, Found, Goal, Job
from harness.features import sent2features
from harness.models import crfsuite_model, our_model

FIRST = "start, load, tag"
SENTENCE = ["They", "can", "fish", "here", "."]


def tagloom(bench: Bench) -> None:
    path = our_model(bench, "upos")
    code = f"import tagloom as tl; tl.load({str(path)!r}).predict([{SENTENCE}])"
    bench.command(FIRST, [sys.executable, "-c", code], times=5)


def crfsuite(bench: Bench) -> None:
    path = crfsuite_model(bench, "upos")
    code = (  # the features are written out: making them would import more
        "import pycrfsuite; tagger = pycrfsuite.Tagger(); "
        f"tagger.open({str(path)!r}); tagger.tag({sent2features(SENTENCE)})"
    )
    bench.command(FIRST, [sys.executable, "-c", code], times=5)


def numpy(bench: Bench) -> None:
    bench.command("start", [sys.executable, "-c", "pass"], times=5)
    bench.command("start, import", [sys.executable, "-c", "import numpy"], times=5)


def times_as_slow(found: Found) -> float:
    """Return our time without NumPy's import over the peer's."""
    imported = found.cpu("numpy", "start, import") - found.cpu("numpy", "start")
    return (found.cpu("tagloom", FIRST) - imported) / found.cpu("python-crfsuite", FIRST)


JOB = Job(
    "first sentence",
    [
        Contestant("tagloom", tagloom),
        Contestant("python-crfsuite", crfsuite, needs="pycrfsuite"),
        Contestant("numpy", numpy, beside=None),
    ],
    [Goal("time over that of python-crfsuite, NumPy's import aside", times_as_slow, at_most=1.5)],
    after=["train_upos"],
    compares_memory=True,
)
