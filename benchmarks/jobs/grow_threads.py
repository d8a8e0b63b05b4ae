"""Train and use a UPOS tagger with one thread and with two, on two cores, by the clock."""

from harness import Bench, Contestant, Found, Goal, Job
from harness.jobs import GROWTH
from harness.models import make_crf

STEP, TAG, MARGINALS = "one iteration of L-BFGS", "tag", "marginals"


def tagloom(bench: Bench) -> None:
    import time

    import tagloom as tl  # noqa: F401

    n_threads, train = int(bench.point or 0), bench.train
    turns: list[tuple[float, float]] = []

    def clock(_: object) -> None:
        turns.append((time.process_time(), time.perf_counter()))

    tagger = make_crf(10, n_threads)
    bench.time("train, 10 iterations", lambda: tagger.fit(train.tokens, train.upos, callback=clock))
    cpu, wall = (last - first for first, last in zip(turns[0], turns[-1], strict=True))
    bench.record(STEP, cpu / (len(turns) - 1), wall / (len(turns) - 1))
    X = train.tokens
    bench.time(TAG, lambda: tagger.predict(X, n_threads=n_threads), least=0.5)
    bench.time(MARGINALS, lambda: tagger.predict_marginals(X, n_threads=n_threads), least=0.5)


def faster(found: Found, what: str) -> float:
    return found.wall("tagloom", what, 1) / found.wall("tagloom", what, 2)


JOB = Job(
    "threads",
    [Contestant("tagloom", tagloom, cores=2)],
    [Goal("two over one, an iteration", lambda found: faster(found, STEP), at_least=1.6)],
    points=[1, 2],
    quick_points=[1, 2],
    point="threads",
    section=GROWTH,
)
