"""Train `CRF` with its defaults on 3,000 tokens, and tag 2,000, with increasing numbers of labels,
on one thread. Every label has its own word, so that labels can be learned. "Order 2" adds weights
of label trigrams.
"""

import random

from harness import Bench, Contestant, Found, Goal, Job
from harness.features import TEMPLATES
from harness.jobs import GROWTH
from harness.models import accuracy

N_TRAIN, N_TEST = 3_000, 2_000


def draw(n_tokens: int, n_labels: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Draw sentences of 20 tokens; each word has a label, one in ten tokens has the next word."""
    rng = random.Random(seed)
    X: list[list[str]] = []
    y: list[list[str]] = []
    for _ in range(n_tokens // 20):
        labels = [rng.randrange(n_labels) for _ in range(20)]
        words = [(k + (rng.random() < 0.1)) % n_labels for k in labels]
        X.append([f"w{k:x}" for k in words])
        y.append([f"L{k}" for k in labels])
    return X, y


def most_learnable(found: Found) -> float:
    """Return the largest number of labels of which 3,000 tokens show nearly all."""
    return max(n for n in found.points("tagloom") if n <= 1_000)


def tagloom(bench: Bench, order: int = 1) -> None:
    import tagloom as tl

    n_labels = int(bench.point or 0)
    train, (X, y) = draw(N_TRAIN, n_labels, 0), draw(N_TEST, n_labels, 1)
    tagger = tl.CRF(TEMPLATES, order=order, n_threads=1)
    bench.time("train", lambda: tagger.fit(*train), N_TRAIN, "token")
    predicted = bench.time("tag", lambda: tagger.predict(X, n_threads=1), N_TEST, "token")
    bench.value("accuracy", accuracy(y, predicted))


JOB = Job(
    "number of labels",
    [
        Contestant("tagloom", tagloom),
        Contestant("tagloom, order 2", lambda bench: tagloom(bench, order=2)),
    ],
    [
        Goal(
            "accuracy with 1,000 labels",
            lambda found: 100 * found.value("tagloom", "accuracy", most_learnable(found)),
            at_least=75,
            unit="%",
        )
    ],
    points=[5, 17, 50, 200, 1000, 2000],
    quick_points=[5, 50, 200],
    point="labels",
    section=GROWTH,
)
