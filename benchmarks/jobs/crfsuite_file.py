"""Tag the test set with a model file of CRFsuite and features that are already lists of str.
tagloom predicts all sentences at once and one by one; python-crfsuite tags one by one.
"""

from pathlib import Path

from harness import Bench, Contestant, Goal, Job
from harness.features import sent2features
from harness.models import crfsuite_model, iterations, make_crf, open_crfsuite

LABELS, MARGINALS = "features to labels", "features to marginals"
ONE, LOAD = f"{LABELS}, one by one", "load the file"


def tagloom(bench: Bench) -> None:
    import tagloom as tl

    def make(path: Path) -> None:
        train = bench.train
        X = [sent2features(tokens) for tokens in train.tokens]
        crf = make_crf(iterations(bench)).set_params(features=None)
        tl.interop.to_crfsuite(crf.fit(X, train.labels("upos")), path)

    path, n = bench.artefact("tagloom-upos.crfsuite", make), bench.test.n_tokens
    tagger, X = tl.load(path), [sent2features(tokens) for tokens in bench.test.tokens]
    bench.time(LABELS, lambda: tagger.predict(X, n_threads=1), n, "tokens", least=0.5)
    bench.time(ONE, lambda: [tagger.predict([x], n_threads=1) for x in X], n, "tokens", least=0.5)
    bench.time(MARGINALS, lambda: tagger.predict_marginals(X, n_threads=1), n, "tokens", least=0.5)
    size = path.stat().st_size / 1e6
    bench.time(LOAD, lambda: tl.load(path), round(size, 1), "MB", least=0.5)


def crfsuite(bench: Bench) -> None:
    tagger, test = open_crfsuite(crfsuite_model(bench, "upos")), bench.test
    labels, X = tagger.labels(), [sent2features(tokens) for tokens in test.tokens]

    def compute(x: object, n: int) -> list[list[float]]:
        tagger.set(x)
        return [[tagger.marginal(y, t) for y in labels] for t in range(n)]

    bench.time(LABELS, lambda: [tagger.tag(x) for x in X], test.n_tokens, "tokens", least=0.5)
    bench.time(
        MARGINALS, lambda: [compute(x, len(x)) for x in X], test.n_tokens, "tokens", least=0.5
    )


JOB = Job(
    "a model file of CRFsuite",
    [
        Contestant("tagloom", tagloom),
        Contestant("python-crfsuite", crfsuite, needs="pycrfsuite"),
    ],
    [
        Goal(
            "times as fast as python-crfsuite, labels",
            lambda found: found.times("python-crfsuite", LABELS),
            at_least=10,
        ),
        Goal(
            "times as fast as python-crfsuite, marginals",
            lambda found: found.times("python-crfsuite", MARGINALS),
            at_least=10,
        ),
    ],
    after=["train_upos"],
)
