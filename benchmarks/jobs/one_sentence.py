"""Tag one sentence per call with UPOS labels, as a service does: the sentences of the test set with
12 tokens, one after the other. "First calls" are those of a new process, with every sentence once.
"""

from collections.abc import Callable, Sequence
from typing import Any

from harness import Bench, Contestant, Goal, Job
from harness.features import sent2features
from harness.models import crfsuite_model, open_crfsuite, our_model

FIRST, CALL = "a call, first calls", "a call"
CALLS = 2_000


def time_calls(bench: Bench, tag: Callable[[list[str]], Any]) -> None:
    """Time calls with sentences that are new to the tagger, then with the same sentences again."""
    sentences = [tokens for tokens in bench.test.tokens if len(tokens) == 12]
    once = [list(tokens) for tokens in dict.fromkeys(map(tuple, sentences))]
    again = [once[i % len(once)] for i in range(CALLS)]

    def call(given: Sequence[list[str]]) -> None:
        for tokens in given:
            tag(tokens)

    bench.time(FIRST, lambda: call(once), 1, "calls", calls=len(once))
    bench.time(CALL, lambda: call(again), 1, "calls", least=0.3, calls=CALLS)


def tagloom(bench: Bench) -> None:
    path = our_model(bench, "upos")
    import tagloom as tl

    tagger = tl.load(path)
    time_calls(bench, lambda tokens: tagger.predict([tokens], n_threads=1))


def crfsuite(bench: Bench) -> None:
    path = crfsuite_model(bench, "upos")
    tagger = open_crfsuite(path)
    time_calls(bench, lambda tokens: tagger.tag(sent2features(tokens)))


JOB = Job(
    "one sentence per call",
    [
        Contestant("tagloom", tagloom),
        Contestant("python-crfsuite", crfsuite, needs="pycrfsuite"),
    ],
    [
        Goal(
            "times as fast as python-crfsuite",
            lambda found: found.times("python-crfsuite", CALL),
            at_least=15,
        ),
        Goal("12 tokens", lambda found: found.cpu("tagloom", CALL), at_most=20e-6, unit="s"),
    ],
    after=["train_upos"],
    compares_memory=True,
)
