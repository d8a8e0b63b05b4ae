"""Train hidden Markov models by counting, and decode with them: UPOS. nltk has two: a first-order
HMM (here with Lidstone smoothing, since otherwise an unknown word makes a sentence impossible), and
TnT, of second order. Both decode slowly, so they tag only the first 100 sentences of the test set
(20 in a quick run); tagloom tags all, and its accuracy on those sentences is also reported. TnT is
compared with `tagloom, order 2`.

Training is timed from lists to the labels of the first sentence. nltk's HMM builds its tables of
probabilities when it first tags, so its `train` alone would be only part of the work; tagloom's
`fit` builds the finished model, which also has tables of shapes and endings for unknown words.
nltk's model does not handle unknown words. `tagloom, plain` is the closest to it: no spelling, no
capitals, transitions with the same smoothing.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from harness import Bench, Contestant, Goal, Job
from harness.corpora import Part
from harness.models import accuracy

TRAIN, DECODE = "train", "decode"
LEAST = 0.5  # seconds


def some(bench: Bench) -> Part:
    """Return the sentences that all contestants tag."""
    return bench.test.first(20 if bench.quick else 100)


def score(bench: Bench, part: Part, predicted: list[list[str]]) -> None:
    bench.value(f"accuracy on {len(part.tokens)} sentences", accuracy(part.upos, predicted))


def tagloom(bench: Bench, words: dict[str, Any] | None = None, **options: Any) -> None:
    import tagloom as tl

    train, test = bench.train, bench.test
    words = tl.emissions.Words(**words or {})
    tagger = tl.HMM(**options, emissions=words, n_threads=1)
    bench.time(
        TRAIN,
        lambda: tagger.fit(train.tokens, train.upos).predict(test.tokens[:1]),
        train.n_tokens,
        "tokens",
        least=LEAST,
    )
    predicted = bench.time(
        DECODE, lambda: tagger.predict(test.tokens), test.n_tokens, "tokens", least=LEAST
    )
    bench.value("accuracy", accuracy(test.upos, predicted))
    part = some(bench)
    score(bench, part, predicted[: len(part.tokens)])


def decode(bench: Bench, tag: Callable[[list[str]], list[tuple[str, str]]]) -> None:
    part = some(bench)
    found = bench.time(
        DECODE, lambda: list(map(tag, part.tokens)), part.n_tokens, "tokens", least=LEAST
    )
    score(bench, part, [[label for _, label in row] for row in found])


def nltk_hmm(bench: Bench) -> None:
    from nltk.probability import LidstoneProbDist
    from nltk.tag.hmm import HiddenMarkovModelTrainer

    def estimate(counts: Any, n_bins: int) -> LidstoneProbDist:
        return LidstoneProbDist(counts, 0.1, n_bins)

    def train() -> Any:
        return HiddenMarkovModelTrainer().train_supervised(pairs, estimator=estimate)

    pairs, n, first = bench.train.pairs("upos"), bench.train.n_tokens, bench.test.tokens[0]
    bench.time(TRAIN, lambda: train().tag(first), n, "tokens", least=LEAST)
    tagger = train()
    tagger.tag(first)  # builds its tables before decoding is timed
    decode(bench, tagger.tag)


def nltk_tnt(bench: Bench) -> None:
    from nltk.tag.tnt import TnT

    def train() -> TnT:
        tagger = TnT()
        tagger.train(pairs)
        return tagger

    pairs, n, first = bench.train.pairs("upos"), bench.train.n_tokens, bench.test.tokens[0]
    bench.time(TRAIN, lambda: train().tag(first), n, "tokens", least=LEAST)
    decode(bench, train().tag)


HMM, TNT, ORDER_2, PLAIN = "nltk, HMM", "nltk, TnT", "tagloom, order 2", "tagloom, plain"
NEAREST = {"smoothing": "add-k", "k": 0.1}
PLAIN_WORDS = {"max_suffix": 0, "fold_case": False}
JOB = Job(
    "hidden Markov models",
    [
        Contestant("tagloom", partial(tagloom, order=1)),
        Contestant(ORDER_2, partial(tagloom, order=2)),
        Contestant(PLAIN, partial(tagloom, words=PLAIN_WORDS, order=1, **NEAREST)),
        Contestant(HMM, nltk_hmm, needs="nltk"),
        Contestant(TNT, nltk_tnt, needs="nltk", beside=ORDER_2),
    ],
    [
        Goal("training beside nltk's HMM", lambda found: found.times(HMM, TRAIN), at_least=8),
        Goal(
            "training, plain, beside nltk's HMM",
            lambda found: found.times(HMM, TRAIN, PLAIN),
            at_least=20,
        ),
        Goal("decoding beside nltk's HMM", lambda found: found.times(HMM, DECODE), at_least=15),
        Goal(
            "training beside TnT, order 2",
            lambda found: found.times(TNT, TRAIN, ORDER_2),
            at_least=20,
        ),
        Goal(
            "decoding beside TnT, order 2",
            lambda found: found.times(TNT, DECODE, ORDER_2),
            at_least=15,
        ),
    ],
)
