"""Score sentences with n-gram models of order 3, one thread: the log-probability of every sentence
of the training text, which is the larger one. KenLM reads the ARPA file that tagloom writes, and
its Python module takes a str, which it splits; tagloom takes lists of tokens. nltk scores token by
token, the first 60 sentences of the test text.
"""

import math
from pathlib import Path
from typing import Any

from harness import Bench, Contestant, Goal, Job

SCORE = "log-probabilities of sentences"
TOKENS = "scores of every token"
ARPA = "lm-score.arpa"
LEAST = 1.0


def tokens(bench: Bench) -> list[list[str]]:
    return [[token.replace(" ", "_") for token in row] for row in bench.train.tokens]


def tagloom(bench: Bench) -> None:
    import tagloom as tl

    rows = tokens(bench)

    def write(path: Path) -> None:
        tl.NGramModel(3, n_threads=1).fit(rows).to_arpa(path)

    model = tl.NGramModel.from_arpa(bench.artefact(ARPA, write))
    model.n_threads = 1
    n = bench.train.n_tokens + len(rows)
    sums = bench.time(SCORE, lambda: model.log_probs(rows), n, "tokens", least=LEAST)
    bench.time(TOKENS, lambda: list(map(model.score_tokens, rows)), n, "tokens", least=LEAST)
    bench.value("log10 p per token", round(float(sums.sum()) / math.log(10) / n, 6))


def kenlm(bench: Bench) -> None:
    import kenlm as peer

    rows = tokens(bench)
    texts = [" ".join(row) for row in rows]
    model = peer.Model(str(bench.folder / ARPA))
    n = bench.train.n_tokens + len(rows)
    sums = bench.time(
        SCORE, lambda: [model.score(text) for text in texts], n, "tokens", least=LEAST
    )

    def every_token() -> list[Any]:
        return [list(model.full_scores(text)) for text in texts]

    bench.time(TOKENS, every_token, n, "tokens", least=LEAST)
    bench.value("log10 p per token", round(sum(sums) / n, 6))


def nltk(bench: Bench, kind: str) -> None:
    from nltk import lm
    from nltk.lm.preprocessing import pad_both_ends, padded_everygram_pipeline
    from nltk.util import ngrams

    arguments = (0.1, 3) if kind == "Lidstone" else (3,)
    model = getattr(lm, kind)(*arguments)
    model.fit(*padded_everygram_pipeline(3, bench.train.tokens))
    rows = bench.test.tokens[:60]
    n = sum(map(len, rows)) + len(rows)

    def score() -> list[float]:
        return [
            sum(
                model.logscore(token, context)
                for *context, token in ngrams(pad_both_ends(row, n=3), 3)
            )
            for row in rows
        ]

    bench.time(SCORE, score, n, "tokens")


JOB = Job(
    "Score text with n-gram models",
    [
        Contestant("tagloom", tagloom),
        Contestant("kenlm", kenlm, needs="kenlm"),
        Contestant("nltk", lambda bench: nltk(bench, "WittenBellInterpolated"), needs="nltk"),
        Contestant("nltk, Lidstone", lambda bench: nltk(bench, "Lidstone"), needs="nltk"),
    ],
    [
        Goal(
            "tokens per second",
            lambda found: 1 / found.cpu("tagloom", SCORE),
            at_least=3.5e6,
            unit="tokens/s",
        ),
        Goal("beside kenlm", lambda found: found.times("kenlm", SCORE), at_least=1),
        Goal("beside nltk, Witten-Bell", lambda found: found.times("nltk", SCORE), at_least=100),
    ],
)
