"""Tag one sentence of 12 tokens per call with UPOS labels, as a service does."""

from harness import Bench, Contestant, Goal, Job
from harness.features import sent2features
from harness.models import crfsuite_model, open_crfsuite, our_model

CALL = "a call"
CALLS = 2_000


def sentence(bench: Bench) -> list[str]:
    return next(tokens for tokens in bench.test.tokens if len(tokens) == 12)


def tagloom(bench: Bench) -> None:
    path = our_model(bench, "upos")
    import tagloom as tl

    tagger, tokens = tl.load(path), sentence(bench)

    def call() -> None:
        for _ in range(CALLS):
            tagger.predict([tokens], n_threads=1)

    bench.time(CALL, call, 1, "calls", least=0.3, calls=CALLS)


def crfsuite(bench: Bench) -> None:
    path = crfsuite_model(bench, "upos")
    tagger, tokens = open_crfsuite(path), sentence(bench)

    def call() -> None:
        for _ in range(CALLS):
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
