"""Train CRFs by L-BFGS with the same objective: shared by train_upos and train_xpos."""

from __future__ import annotations

import time
from functools import partial

from harness.children import Bench
from harness.features import check_same
from harness.jobs import Contestant
from harness.models import iterations, make_crf, train_crfsuite

WHOLE, STEP = "lists of tokens to a model file", "one iteration"
WEIGHTS = "weights that are not zero"


def tagloom(bench: Bench, column: str, n_threads: int) -> None:
    import numpy as np

    import tagloom as tl  # noqa: F401  imported before the clock runs

    train = bench.train
    bench.value("attributes per token", check_same(train.tokens[:50]))
    tagger = make_crf(iterations(bench), n_threads)
    path = bench.folder / f"tagloom-{column}.model"
    turns: list[tuple[float, float]] = []  # after each iteration

    def fit() -> None:
        tagger.fit(
            train.tokens,
            train.labels(column),
            callback=lambda _: turns.append((time.process_time(), time.perf_counter())),
        ).save(path)

    bench.time(WHOLE, fit, 1)
    cpu, wall = (last - first for first, last in zip(turns[0], turns[-1], strict=True))
    bench.record(STEP, cpu / (len(turns) - 1), wall / (len(turns) - 1), 1, "iterations")
    bench.value("iterations", len(turns))
    bench.value("loss", tagger.history_[-1].loss)
    scores = tagger.scores_
    n_transitions = np.count_nonzero(scores.trans)  # no weights for the first and last label
    bench.value(WEIGHTS, int(np.count_nonzero(scores.rows.weights) + n_transitions))
    bench.value("model file bytes", path.stat().st_size)


def crfsuite(bench: Bench, column: str) -> None:
    import pycrfsuite  # noqa: F401

    train, n = bench.train, iterations(bench)
    path = bench.folder / f"crfsuite-{column}.model"
    trainer = bench.time(WHOLE, lambda: train_crfsuite(train, column, n, path), 1)
    log = trainer.logparser.iterations
    # It logs the CPU time of each iteration, not the wall time. The first iteration is left out on
    # both sides, because ours cannot be separated from the preparation before it.
    seconds = sum(float(record["time"]) for record in log[1:]) / (len(log) - 1)
    bench.record(STEP, seconds, None, 1, "iterations")
    bench.value("iterations", len(log))
    bench.value("loss", log[-1]["loss"])
    bench.value(WEIGHTS, log[-1]["active_features"])
    bench.value("model file bytes", path.stat().st_size)


def contestants(column: str) -> list[Contestant]:
    return [
        Contestant("tagloom", partial(tagloom, column=column, n_threads=1)),
        Contestant("tagloom, 2 threads", partial(tagloom, column=column, n_threads=2), cores=2),
        Contestant("python-crfsuite", partial(crfsuite, column=column), needs="pycrfsuite"),
    ]
