"""Read a synthetic corpus of 17 labels from a file, train a CRF by L-BFGS for 5 iterations, and tag
it, on one thread. Times are per token, and the best iteration counts; memory is that of the
process, from the file to the model.
"""

import itertools
from pathlib import Path

from harness import Bench, Contestant, Found, Goal, Job
from harness.children import peak_memory
from harness.features import TEMPLATES
from harness.jobs import GROWTH

STEP, N_ITERATIONS = "one iteration", 5


def write(path: Path, n_tokens: int) -> None:
    import tagloom as tl

    corpus = tl.datasets.synthetic(n_tokens=n_tokens, n_labels=17, vocabulary=50_000)
    tl.write(corpus, path, "conll")


def tagloom(bench: Bench) -> None:
    n = int(bench.point or 0)
    path = bench.artefact(f"synthetic-{n}.conll", lambda path: write(path, n))
    import time

    import tagloom as tl

    tl.read(bench.artefact("tiny.conll", lambda path: write(path, 100)), "conll")  # for its imports
    before = peak_memory()
    corpus = bench.time("read", lambda: tl.read(path, "conll"), n, "token")
    turns: list[tuple[float, float]] = []
    tagger = tl.CRF(TEMPLATES, algorithm="lbfgs", max_iterations=N_ITERATIONS, n_threads=1)

    def clock(_: object) -> None:
        turns.append((time.process_time(), time.perf_counter()))

    bench.time("train, 5 iterations", lambda: tagger.fit(corpus, callback=clock), n, "token")
    steps = [[b - a for a, b in zip(*pair, strict=True)] for pair in itertools.pairwise(turns)]
    cpu, wall = map(min, zip(*steps, strict=True))
    bench.record(STEP, cpu, wall, n, "token")
    memory = peak_memory() - before
    bench.time("tag", lambda: tagger.predict(corpus, n_threads=1), n, "token")
    bench.value("memory of reading and training per token", f"{memory / n:,.0f} bytes")


def growth(found: Found) -> float:
    """Return the time per token in the largest corpus over that in one a tenth as large."""
    *_, before, last = found.points("tagloom")
    return found.cpu("tagloom", STEP, last) / found.cpu("tagloom", STEP, before)


JOB = Job(
    "corpus size",
    [Contestant("tagloom", tagloom)],
    [
        Goal(
            "iteration per token, largest corpus over one a tenth as large",
            growth,
            at_most=1.25,
        )
    ],
    points=[1e4, 1e5, 1e6, 1e7],
    quick_points=[1e4, 1e5],
    point="tokens",
    section=GROWTH,
)
