"""Sizes of model files, with the accuracy on the test set, UPOS: the CRFs that were trained with
the l2 penalty, CRFsuite's with an l1 penalty (c1 = 1), and ours made compact.
"""

from pathlib import Path

from harness import Bench, Contestant, Found, Goal, Job
from harness.features import sent2features
from harness.models import (
    accuracy,
    crfsuite_model,
    iterations,
    make_trainer,
    open_crfsuite,
    our_model,
)

SIZE, ACCURACY, MOST = "model file bytes", "accuracy", 2_000_000
HEADROOM = 50_000  # of a file: its header and the names of its arrays


def tagloom(bench: Bench) -> None:
    path = our_model(bench, "upos")
    import tagloom as tl

    test = bench.test
    bench.value(SIZE, path.stat().st_size)
    bench.value(ACCURACY, accuracy(test.upos, tl.load(path).predict(test.tokens)))


def compact(bench: Bench) -> None:
    path = our_model(bench, "upos")
    import tagloom as tl

    test, small = bench.test, bench.folder / "compact.model"
    dev = (bench.dev.tokens, bench.dev.upos)
    tl.load(path).compact(max_bytes=MOST - HEADROOM, dev=dev).save(small)
    bench.value(SIZE, small.stat().st_size)
    bench.value(ACCURACY, accuracy(test.upos, tl.load(small).predict(test.tokens)))


def show_crfsuite(bench: Bench, path: Path) -> None:
    tagger, test = open_crfsuite(path), bench.test
    predicted = [tagger.tag(sent2features(tokens)) for tokens in test.tokens]
    bench.value(SIZE, path.stat().st_size)
    bench.value(ACCURACY, accuracy(test.upos, predicted))


def crfsuite(bench: Bench) -> None:
    show_crfsuite(bench, crfsuite_model(bench, "upos"))


def crfsuite_l1(bench: Bench) -> None:
    path, n = bench.folder / "crfsuite-l1.model", iterations(bench)
    parameters = {"c1": 1.0, "c2": 0.01, "max_iterations": n}
    make_trainer(bench.train, "upos", "lbfgs", **parameters).train(str(path))
    show_crfsuite(bench, path)


def lost(found: Found, ours: str) -> float:
    """Return by how many points our accuracy is below the peer's."""
    return 100 * (found.value("python-crfsuite", ACCURACY) - found.value(ours, ACCURACY))


JOB = Job(
    "model file",
    [
        Contestant("tagloom", tagloom),
        Contestant("tagloom, compact", compact),
        Contestant("python-crfsuite", crfsuite, needs="pycrfsuite"),
        Contestant("python-crfsuite, l1", crfsuite_l1, needs="pycrfsuite"),
    ],
    [
        Goal("size", lambda found: found.value("tagloom", SIZE), at_most=10e6, unit="bytes"),
        Goal(
            "accuracy below python-crfsuite",
            lambda found: lost(found, "tagloom"),
            at_most=0.1,
            unit="points",
        ),
        Goal(
            "size, compact",
            lambda found: found.value("tagloom, compact", SIZE),
            at_most=MOST,
            unit="bytes",
        ),
        Goal(
            "accuracy below python-crfsuite, compact",
            lambda found: lost(found, "tagloom, compact"),
            at_most=0.1,
            unit="points",
        ),
    ],
    after=["train_upos"],
    rounds=1,
)
