"""Tag one sentence per call with UPOS labels, as a service does: those of the test set that have 12
tokens, one after the other.
"""

from harness import Bench, Contestant, Goal, Job
from harness.features import sent2features
from harness.models import crfsuite_model, open_crfsuite, our_model

CALL = "a call"
CALLS = 2_000


def sentences(bench: Bench) -> list[list[str]]:
    """Return one sentence for each call."""
    found = [tokens for tokens in bench.test.tokens if len(tokens) == 12]
    return [found[i % len(found)] for i in range(CALLS)]


def tagloom(bench: Bench) -> None:
    path = our_model(bench, "upos")
    import tagloom as tl

    tagger, calls = tl.load(path), sentences(bench)

    def call() -> None:
        for tokens in calls:
            tagger.predict([tokens], n_threads=1)

    bench.time(CALL, call, 1, "calls", least=0.3, calls=CALLS)


def crfsuite(bench: Bench) -> None:
    path = crfsuite_model(bench, "upos")
    tagger, calls = open_crfsuite(path), sentences(bench)

    def call() -> None:
        for tokens in calls:
            tagger.tag(sent2features(tokens))

    bench.time(CALL, call, 1, "calls", least=0.3, calls=CALLS)


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
)
