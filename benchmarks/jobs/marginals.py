"""Compute the probability of every UPOS label at every token of the test set. "First call" is the
first call of a new process.
"""

from typing import Any

from harness import Bench, Contestant, Goal, Job
from harness.features import sent2features
from harness.models import crfsuite_model, open_crfsuite, our_model

MARGINALS, READY = "lists of tokens to marginals", "features ready"
FIRST = f"{MARGINALS}, first call"


def tagloom(bench: Bench) -> None:
    path = our_model(bench, "upos")
    import tagloom as tl

    tagger, test = tl.load(path), bench.test

    def compute_all() -> Any:
        return tagger.predict_marginals(test.tokens, n_threads=1)

    bench.time(FIRST, compute_all, test.n_tokens, "tokens")
    found = bench.time(MARGINALS, compute_all, test.n_tokens, "tokens", least=0.5)
    bench.value("sum of all", round(float(sum(rows.sum() for rows in found)), 1))


def crfsuite(bench: Bench) -> None:
    path = crfsuite_model(bench, "upos")
    import pycrfsuite

    tagger, test = open_crfsuite(path), bench.test
    labels = tagger.labels()

    def compute(x: object, n: int) -> list[list[float]]:
        tagger.set(x)
        return [[tagger.marginal(y, t) for y in labels] for t in range(n)]

    def compute_all() -> list[list[list[float]]]:
        return [compute(sent2features(tokens), len(tokens)) for tokens in test.tokens]

    bench.time(FIRST, compute_all, test.n_tokens, "tokens")
    found = bench.time(MARGINALS, compute_all, test.n_tokens, "tokens", least=0.5)
    bench.value("sum of all", round(sum(sum(map(sum, rows)) for rows in found), 1))
    ready = [(pycrfsuite.ItemSequence(sent2features(x)), len(x)) for x in test.tokens]
    bench.time(READY, lambda: [compute(*x) for x in ready], test.n_tokens, "tokens", least=0.5)


JOB = Job(
    "marginals, UPOS",
    [
        Contestant("tagloom", tagloom),
        Contestant("python-crfsuite", crfsuite, needs="pycrfsuite"),
    ],
    [
        Goal(
            "times as fast as python-crfsuite with features ready",
            lambda found: found.cpu("python-crfsuite", READY) / found.cpu("tagloom", MARGINALS),
            at_least=25,
        )
    ],
    after=["train_upos"],
)
