"""Sizes of model files, with the accuracy on the test set, UPOS: the CRFs trained with the l2
penalty, both with an l1 penalty (l1 = 1, l2 = 0.01, the same number of iterations), and ours after
`compact`.
"""

from pathlib import Path

from harness import Bench, Contestant, Found, Goal, Job
from harness.features import sent2features
from harness.models import (
    accuracy,
    crfsuite_model,
    iterations,
    make_crf,
    open_crfsuite,
    our_model,
    train_crfsuite,
)

SIZE, ACCURACY, MOST = "model file bytes", "accuracy", 2_000_000
HEADROOM = 50_000  # of a file: its header and the names of its arrays
L1 = {"l1": 1.0, "l2": 0.01}
PEER, OURS_L1, PEER_L1 = "python-crfsuite", "tagloom, l1", "python-crfsuite, l1"


def show(bench: Bench, path: Path) -> None:
    import tagloom as tl

    test = bench.test
    bench.value(SIZE, path.stat().st_size)
    bench.value(ACCURACY, accuracy(test.upos, tl.load(path).predict(test.tokens)))


def tagloom(bench: Bench) -> None:
    show(bench, our_model(bench, "upos"))


def l1(bench: Bench) -> None:
    path, train, n = bench.folder / "l1.model", bench.train, iterations(bench)
    make_crf(n, **L1).fit(train.tokens, train.upos).save(path)
    show(bench, path)


def compact(bench: Bench) -> None:
    path = our_model(bench, "upos")
    import tagloom as tl

    small, dev = bench.folder / "compact.model", (bench.dev.tokens, bench.dev.upos)
    tl.load(path).compact(max_bytes=MOST - HEADROOM, dev=dev).save(small)
    show(bench, small)


def show_crfsuite(bench: Bench, path: Path) -> None:
    tagger, test = open_crfsuite(path), bench.test
    predicted = [tagger.tag(sent2features(tokens)) for tokens in test.tokens]
    bench.value(SIZE, path.stat().st_size)
    bench.value(ACCURACY, accuracy(test.upos, predicted))


def crfsuite(bench: Bench) -> None:
    show_crfsuite(bench, crfsuite_model(bench, "upos"))


def crfsuite_l1(bench: Bench) -> None:
    path = bench.folder / "crfsuite-l1.model"
    train_crfsuite(bench.train, "upos", iterations(bench), path, **L1)
    show_crfsuite(bench, path)


def lost(found: Found, ours: str, peer: str = PEER) -> float:
    """Return the peer's accuracy minus ours, in points."""
    return 100 * (found.value(peer, ACCURACY) - found.value(ours, ACCURACY))


JOB = Job(
    "model file",
    [
        Contestant("tagloom", tagloom),
        Contestant("tagloom, compact", compact),
        Contestant(OURS_L1, l1),
        Contestant(PEER, crfsuite, needs="pycrfsuite"),
        Contestant(PEER_L1, crfsuite_l1, needs="pycrfsuite", beside=OURS_L1),
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
        Goal(
            "size over that of python-crfsuite, both l1",
            lambda found: found.value(OURS_L1, SIZE) / found.value(PEER_L1, SIZE),
            at_most=1,
        ),
        Goal(
            "accuracy below python-crfsuite, both l1",
            lambda found: lost(found, OURS_L1, PEER_L1),
            at_most=0.1,
            unit="points",
        ),
    ],
    after=["train_upos"],
    rounds=1,
)
