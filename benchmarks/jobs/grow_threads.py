"""Train and use a UPOS tagger with one thread and with two, on two cores, by wall time. The
iterations are the same with both; their median counts. One thread and two take turns, and the ratio
is the median over neighbouring turns.
"""

from itertools import pairwise
from statistics import median

from harness import Bench, Contestant, Found, Goal, Job
from harness.jobs import GROWTH
from harness.models import make_crf

STEP, TAG, MARGINALS = "one iteration of L-BFGS", "tag", "marginals"


def tagloom(bench: Bench) -> None:
    import time

    import tagloom as tl  # noqa: F401

    n_threads, train = int(bench.point or 0), bench.train
    cpu, wall = [], []

    def clock(_: object) -> None:
        cpu.append(time.process_time())
        wall.append(time.perf_counter())

    tagger = make_crf(30, n_threads)
    bench.time("train, 30 iterations", lambda: tagger.fit(train.tokens, train.upos, callback=clock))
    bench.record(STEP, *(median(b - a for a, b in pairwise(ends)) for ends in (cpu, wall)))
    X = train.tokens
    bench.time(TAG, lambda: tagger.predict(X, n_threads=n_threads), least=0.5)
    bench.time(MARGINALS, lambda: tagger.predict_marginals(X, n_threads=n_threads), least=0.5)


def faster(found: Found) -> float:
    return found.ratio_of_turns(STEP, ("tagloom", 1), ("tagloom", 2))


JOB = Job(
    "threads",
    [Contestant("tagloom", tagloom, cores=2)],
    [Goal("two over one, an iteration, median of turns", faster, at_least=1.6)],
    points=[1, 2],
    quick_points=[1, 2],
    point="threads",
    section=GROWTH,
)
