"""Train an averaged perceptron with UPOS labels for 10 epochs, with the same features. CRFsuite's
is called `ap`, and sklearn-crfsuite wraps it; all of them write a model file. Then the time until
our perceptron and our CRF, trained by AdaGrad, reach the accuracy of `ap` on the development set;
it includes scoring that set after each epoch, and writing the file.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from harness import Bench, Contestant, Found, Goal, Job
from harness.features import TEMPLATES, check_same, sent2features
from harness.models import accuracy, make_trainer, open_crfsuite

TRAIN = "lists of tokens to a model file"
EYED = "lists of tokens to a model file, dev scored after each epoch"
TURNS = "CPU seconds and accuracy by epoch"
PEER, WATCHED, ADAGRAD = "python-crfsuite", "tagloom, with dev", "tagloom, AdaGrad"


def epochs(bench: Bench) -> int:
    return 2 if bench.quick else 10


def make_perceptron(n: int, **options: Any) -> Any:
    import tagloom as tl

    # Weights for seen combinations only, as in CRFsuite.
    return tl.StructuredPerceptron(
        TEMPLATES, max_iterations=n, combinations="seen", constraints=None, n_threads=1, **options
    )


def make_crf(n: int) -> Any:
    import tagloom as tl

    return tl.CRF(TEMPLATES, constraints=None, max_iterations=n, n_threads=1)


def tagloom(bench: Bench) -> None:
    train, dev, n = bench.train, bench.dev, epochs(bench)
    check_same(train.tokens[:50])
    tagger = make_perceptron(n, margin=0, boundaries=False)  # CRFsuite has neither
    path = bench.folder / "perceptron.model"
    bench.time(TRAIN, lambda: tagger.fit(train.tokens, train.upos).save(path))
    if len(tagger.history_) != n:
        raise AssertionError(f"{len(tagger.history_)} epochs, expected {n}")
    bench.value("accuracy on dev", accuracy(dev.upos, tagger.predict(dev.tokens)))


def watched(bench: Bench, make: Callable[[int], Any]) -> None:
    """Train with development data; record the time and accuracy after each epoch."""
    train, dev, tagger = bench.train, bench.dev, make(epochs(bench))
    turns: list[tuple[float, float]] = []  # CPU clock and accuracy: before, and after each epoch

    def fit() -> None:
        turns.append((time.process_time(), 0.0))
        tagger.fit(
            train.tokens,
            train.upos,
            dev=(dev.tokens, dev.upos),
            callback=lambda record: turns.append((time.process_time(), record.dev)),
        ).save(bench.folder / "watched.model")

    bench.time(EYED, fit)
    end = time.process_time() - turns[-1][0]  # after the last epoch: writing the file
    (begun, _), *turns = turns
    bench.value(TURNS, [(cpu - begun + end, score) for cpu, score in turns])
    bench.value("accuracy on dev", max(score for _, score in turns))


def crfsuite(bench: Bench) -> None:
    path, n = bench.folder / "crfsuite-ap.model", epochs(bench)

    def train() -> None:
        make_trainer(bench.train, "upos", "ap", max_iterations=n, epsilon=0.0).train(str(path))

    bench.train  # noqa: B018  read before the clock runs
    bench.time(TRAIN, train)
    tagger, dev = open_crfsuite(path), bench.dev
    predicted = [tagger.tag(sent2features(tokens)) for tokens in dev.tokens]
    bench.value("accuracy on dev", accuracy(dev.upos, predicted))


def sklearn_crfsuite(bench: Bench) -> None:
    from sklearn_crfsuite import CRF

    train, dev = bench.train, bench.dev
    tagger = CRF("ap", max_iterations=epochs(bench), epsilon=0.0)
    bench.time(TRAIN, lambda: tagger.fit(list(map(sent2features, train.tokens)), train.upos))
    predicted = tagger.predict([sent2features(tokens) for tokens in dev.tokens])
    bench.value("accuracy on dev", accuracy(dev.upos, [list(row) for row in predicted]))


def until_accurate(found: Found, name: str) -> float:
    """Return the peer's training time over ours to the same accuracy; 0 if it is not reached."""
    wanted = found.value(PEER, "accuracy on dev")
    for cpu, score in found.value(name, TURNS):
        if score >= wanted:
            return found.cpu(PEER, TRAIN) / cpu
    return 0.0


def shortest_way(found: Found) -> float:
    return max(until_accurate(found, name) for name in (WATCHED, ADAGRAD))


JOB = Job(
    "averaged perceptron",
    [
        Contestant("tagloom", tagloom),
        Contestant(WATCHED, partial(watched, make=partial(make_perceptron, margin=0))),
        Contestant(ADAGRAD, partial(watched, make=make_crf)),
        Contestant(PEER, crfsuite, needs="pycrfsuite"),
        Contestant("sklearn-crfsuite", sklearn_crfsuite, needs="sklearn_crfsuite"),
    ],
    [
        Goal(
            "times as fast as python-crfsuite",
            lambda found: found.times(PEER, TRAIN),
            at_least=5,
        ),
        Goal("times as fast to the accuracy of its ap", shortest_way, at_least=8),
    ],
)
