"""Features that the user computes, as dicts in the form of sklearn-crfsuite's tutorial. Tag the
test set in one call and sentence by sentence, and train by L-BFGS, with UPOS labels. The dicts are
ready before the clock starts. Both sides have the same attributes and the same objective. tagloom
imports its modules and NumPy when they are first used: the first training of the process includes
that, the next ones, of which the best counts, do not.
"""

from pathlib import Path
from typing import Any

from harness import Bench, Contestant, Goal, Job
from harness.models import L2, accuracy, iterations, open_crfsuite

BATCH, ONE, TRAIN, FIRST = "tag", "tag, one by one", "train", "train, first in the process"


def word2features(words: list[str], t: int) -> dict[str, Any]:
    word = words[t]
    features: dict[str, Any] = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
    }
    for offset, name in ((-1, "BOS"), (1, "EOS")):
        if not 0 <= t + offset < len(words):
            features[name] = True
            continue
        other = words[t + offset]
        features[f"{offset:+}:word.lower()"] = other.lower()
        features[f"{offset:+}:word.istitle()"] = other.istitle()
        features[f"{offset:+}:word.isupper()"] = other.isupper()
    return features


def sent2features(words: list[str]) -> list[dict[str, Any]]:
    return [word2features(words, t) for t in range(len(words))]


def tagloom(bench: Bench) -> None:
    import tagloom as tl

    train, test = bench.train, bench.test
    X, y = [sent2features(tokens) for tokens in train.tokens], train.labels("upos")
    crf = tl.CRF(
        None,
        algorithm="lbfgs",
        l2=L2,
        boundaries=False,
        constraints=None,
        max_iterations=iterations(bench),
        n_threads=1,
    )
    bench.time(FIRST, lambda: crf.fit(X, y), train.n_tokens, "tokens")
    tagger = bench.time(TRAIN, lambda: crf.fit(X, y), train.n_tokens, "tokens", least=0.5)
    new, n = [sent2features(tokens) for tokens in test.tokens], test.n_tokens
    labels = bench.time(BATCH, lambda: tagger.predict(new, n_threads=1), n, "tokens", least=0.5)
    bench.time(ONE, lambda: [tagger.predict([x], n_threads=1) for x in new], n, "tokens", least=0.5)
    bench.value("accuracy", accuracy(test.labels("upos"), labels))


def crfsuite(bench: Bench) -> None:
    import pycrfsuite

    train, test = bench.train, bench.test
    X, y = [sent2features(tokens) for tokens in train.tokens], train.labels("upos")
    path = Path(bench.folder / "items.crfsuite")

    def fit() -> None:
        trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
        never = {"epsilon": 1e-9, "delta": 1e-9}  # prevents early stopping
        trainer.set_params({"c1": 0, "c2": L2, "max_iterations": iterations(bench), **never})
        for features, labels in zip(X, y, strict=True):
            trainer.append(features, labels)
        trainer.train(str(path))

    bench.time(FIRST, fit, train.n_tokens, "tokens")
    bench.time(TRAIN, fit, train.n_tokens, "tokens", least=0.5)
    tagger = open_crfsuite(path)
    new, n = [sent2features(tokens) for tokens in test.tokens], test.n_tokens

    def tag() -> list[list[str]]:
        return [tagger.tag(x) for x in new]

    labels = bench.time(BATCH, tag, n, "tokens", least=0.5)
    bench.time(ONE, tag, n, "tokens", least=0.5)  # it has no other way
    bench.value("accuracy", accuracy(test.labels("upos"), labels))


JOB = Job(
    "dicts of features",
    [
        Contestant("tagloom", tagloom),
        Contestant("python-crfsuite", crfsuite, needs="pycrfsuite"),
    ],
    [
        Goal(
            f"times as fast as python-crfsuite, {what}",
            lambda found, what=what: found.times("python-crfsuite", what),
            at_least=least,
        )
        for what, least in ((BATCH, 10), (ONE, 5), (TRAIN, 8))
    ],
)
