"""Train `CRF` with its defaults on parts of speech with morphological features, and tag the test
set, on one thread. The corpus is the Estonian web treebank, 774 labels, if the folder of corpora
has it, and otherwise the corpus of the run. "Without sub-tags" learns the labels as wholes, "order
2" adds weights of label trigrams.
"""

from pathlib import Path

from harness import Bench, Contestant, Goal, Job
from harness.corpora import find
from harness.models import accuracy

TRAIN, TAG, ACCURACY = "train", "tag", "accuracy"


def folder(bench: Bench) -> Path:
    data = find(None)
    estonian = None if data is None else data / "ud-estonian-ewt"
    return estonian if estonian is not None and estonian.exists() else bench.folder


def tagloom(bench: Bench, subtags: str | None = "auto", order: int = 1) -> None:
    import tagloom as tl

    paths = (folder(bench) / f"{part}.conllu" for part in ("train", "test"))
    train, test = (tl.read(path, label="upos+feats") for path in paths)
    tagger = tl.CRF(subtags=subtags, order=order, n_threads=1)
    n = sum(map(len, train.tokens))
    bench.time(TRAIN, lambda: tagger.fit(train.tokens, train.labels), n, "token")
    X, y = test.tokens, test.labels
    n = sum(map(len, X))
    predicted = bench.time(TAG, lambda: tagger.predict(X, n_threads=1), n, "token", least=1)
    bench.value(ACCURACY, accuracy(y, predicted))
    bench.value("labels", len(tagger.labels_))


JOB = Job(
    "many labels",
    [
        Contestant("tagloom", tagloom),
        Contestant("tagloom, order 2", lambda bench: tagloom(bench, order=2)),
        Contestant("tagloom, without sub-tags", lambda bench: tagloom(bench, None)),
    ],
    [
        Goal(
            "accuracy",
            lambda found: 100 * found.value("tagloom", ACCURACY),
            at_least=86.5,
            unit="%",
        ),
        Goal(
            "accuracy, order 2",
            lambda found: 100 * found.value("tagloom, order 2", ACCURACY),
            at_least=86.8,
            unit="%",
        ),
        Goal(
            "tagging",
            lambda found: 1 / found.cpu("tagloom", TAG),
            at_least=100_000,
            unit="tokens/s",
        ),
        Goal(
            "tagging, order 2",
            lambda found: 1 / found.cpu("tagloom, order 2", TAG),
            at_least=100_000,
            unit="tokens/s",
        ),
    ],
)
