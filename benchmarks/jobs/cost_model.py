"""The constants of the cost model in docs/scale.md: what a token of training by L-BFGS costs in CPU
and in memory, and how attributes and weights grow with the corpus. EWT, UPOS, one thread.
"""

from math import log2
from typing import Any

from harness import Bench, Contestant, Job
from harness.children import peak_memory
from harness.jobs import GROWTH


def tagloom(bench: Bench) -> None:
    import numpy as np

    import tagloom as tl
    from tagloom import _native

    train, n = bench.train, bench.train.n_tokens
    sentences = [tl.Sentence(x, labels=y) for x, y in zip(train.tokens, train.upos, strict=True)]
    tagger = tl.CRF("pos", algorithm="lbfgs", n_threads=1)

    def attributes(part: list[Any]) -> Any:
        index = _native.Index()
        tl.features.make("pos").encode(part, index, grow=True, n_threads=1)
        return index

    whole = bench.time("number attributes", lambda: attributes(sentences), n, "token")
    half = attributes(sentences[::2])
    data = tagger.read_data(sentences, None, None)
    before = peak_memory()
    objective = bench.time("lay out", lambda: tagger._make_objective(data)[0], n, "token")
    bench.value("bytes per token, laid out", round((peak_memory() - before) / n))
    theta, grad = np.zeros(objective.n_weights), np.empty(objective.n_weights)
    bench.time("loss and gradient", lambda: objective.evaluate(theta, grad, 1), n, "token")
    counts = whole.counts()
    bench.value("attributes", len(counts))
    bench.value("weights per attribute", round(objective.n_weights / len(counts), 2))
    bench.value("attributes that occur five times or more, %", round(100 * (counts >= 5).mean()))
    bench.value("attributes grow as tokens to the power", round(log2(whole.size / half.size), 2))


JOB = Job("cost of a token in training", [Contestant("tagloom", tagloom)], section=GROWTH)
