"""Tag the test set with CRFs that have the same features: shared by tag_upos and tag_xpos."""

from __future__ import annotations

from harness.children import Bench
from harness.features import check_same, sent2features
from harness.jobs import Contestant
from harness.models import accuracy, crfsuite_model, open_crfsuite, our_model

TAG, READY = "lists of tokens to lists of labels", "features ready"
FIRST = f"{TAG}, first call"
LEAST = 0.5  # minimum seconds of a turn


def contestants(column: str) -> list[Contestant]:
    def tagloom(bench: Bench) -> None:
        path = our_model(bench, column)
        import tagloom as tl

        tagger, test = tl.load(path), bench.test

        def tag() -> list[list[str]]:
            return tagger.predict(test.tokens, n_threads=1)

        bench.time(FIRST, tag, test.n_tokens, "tokens")  # before anything else is tagged
        predicted = bench.time(TAG, tag, test.n_tokens, "tokens", least=LEAST)
        bench.value("attributes per token", check_same(test.tokens[:50]))
        bench.value("accuracy", accuracy(test.labels(column), predicted))
        tokens = [*bench.train.tokens, *bench.dev.tokens, *test.tokens]
        n = sum(map(len, tokens))
        bench.time(
            "the same, the whole corpus",
            lambda: tagger.predict(tokens, n_threads=1),
            n,
            "tokens",
            least=LEAST,
        )

    def crfsuite(bench: Bench) -> None:
        path = crfsuite_model(bench, column)
        import pycrfsuite

        tagger, test = open_crfsuite(path), bench.test

        def tag() -> list[list[str]]:
            return [tagger.tag(sent2features(tokens)) for tokens in test.tokens]

        bench.time(FIRST, tag, test.n_tokens, "tokens")
        predicted = bench.time(TAG, tag, test.n_tokens, "tokens", least=LEAST)
        bench.value("accuracy", accuracy(test.labels(column), predicted))
        ready = [pycrfsuite.ItemSequence(sent2features(tokens)) for tokens in test.tokens]
        bench.time(
            READY, lambda: [tagger.tag(x) for x in ready], test.n_tokens, "tokens", least=LEAST
        )

    return [
        Contestant("tagloom", tagloom),
        Contestant("python-crfsuite", crfsuite, needs="pycrfsuite"),
    ]
