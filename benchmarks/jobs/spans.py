"""Score the spans of a million BIO labels with 5 % mistakes: precision, recall, F1 of every type.
Both get the same lists of lists of str, and their scores are compared. `separate strings` has a
different string object for every token, as after splitting lines.
"""

import random

from harness import Bench, Contestant, Goal, Job

REPORT, STRICT = "report", "strict report"
TYPES = ("PER", "LOC", "ORG", "MISC")
NAMES = ["O", *(f"{letter}-{kind}" for letter in "BI" for kind in TYPES)]
Rows = list[list[str]]
LEAST = 0.5  # seconds


def make_labels(n_tokens: int) -> tuple[Rows, Rows]:
    """Draw legal BIO labels with 15 % of tokens in spans, and a copy with 5 % mistakes."""
    draw = random.Random(0)
    gold: Rows = []
    while n_tokens > 0:
        length = min(n_tokens, draw.randrange(5, 40))
        row: list[str] = []
        while len(row) < length:
            if draw.random() < 0.08:
                kind = draw.choice(TYPES)
                row += ["B-" + kind] + ["I-" + kind] * draw.randrange(4)
            else:
                row.append("O")
        gold.append(row[:length])
        n_tokens -= length
    wrong = [[draw.choice(NAMES) if draw.random() < 0.05 else y for y in row] for row in gold]
    return gold, wrong


def n_tokens(bench: Bench) -> int:
    return 100_000 if bench.quick else 1_000_000


def tagloom(bench: Bench) -> None:
    import tagloom as tl

    n = n_tokens(bench)
    given = make_labels(n)
    apart = tuple([" ".join(row).split(" ") for row in rows] for rows in given)
    found = bench.time(REPORT, lambda: tl.evaluate(*given), n, "tokens", least=LEAST)
    bench.time(STRICT, lambda: tl.evaluate(*given, strict=True), n, "tokens", least=LEAST)
    bench.time("report, separate strings", lambda: tl.evaluate(*apart), n, "tokens", least=LEAST)
    bench.time("report, printed", lambda: str(tl.evaluate(*given, n_bootstrap=0)), n, "tokens")
    bench.time("report, printed, 1,000 resamples", lambda: str(tl.evaluate(*given)), n, "tokens")
    bench.time(
        "compare two taggers, 10,000 trials", lambda: tl.compare(*given, given[0]), n, "tokens"
    )
    bench.value("micro F1", found.f1)
    bench.value("macro F1", found.macro.f1)


def seqeval(bench: Bench) -> None:
    import warnings

    from seqeval.metrics import classification_report
    from seqeval.scheme import IOB2

    warnings.simplefilter("ignore")  # of types without predictions
    n = n_tokens(bench)
    given = make_labels(n)
    found = bench.time(
        REPORT, lambda: classification_report(*given, output_dict=True), n, "tokens", least=LEAST
    )
    strict = {"mode": "strict", "scheme": IOB2}
    bench.time(STRICT, lambda: classification_report(*given, **strict), n, "tokens", least=LEAST)
    bench.value("micro F1", float(found["micro avg"]["f1-score"]))
    bench.value("macro F1", float(found["macro avg"]["f1-score"]))


JOB = Job(
    "score spans",
    [Contestant("tagloom", tagloom), Contestant("seqeval", seqeval, needs="seqeval")],
    [
        Goal("times as fast as seqeval", lambda found: found.times("seqeval", REPORT), at_least=30),
        Goal(
            "difference of F1 from seqeval",
            lambda found: max(
                abs(found.value("tagloom", f1) - found.value("seqeval", f1))
                for f1 in ("micro F1", "macro F1")
            ),
            at_most=1e-12,
            unit="",
        ),
    ],
)
