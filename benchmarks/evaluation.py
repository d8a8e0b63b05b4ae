"""How fast is counting? tagloom.evaluate against seqeval's classification_report, in one run.

    python benchmarks/evaluation.py [--tokens 1000000]

Both get the same lists of lists of str and run on one thread; the figures are CPU seconds of this
process, the best of several runs, so that other jobs on the machine count little. The labels are
given twice: as the few string objects that a reader with a label table makes, and as a separate
object for every token, which is what splitting lines gives. Scores are compared before times are.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import seqeval.metrics
from seqeval.scheme import IOB2

import tagloom as tl

TYPES = ["PER", "LOC", "ORG", "MISC"]


def make_labels(n_tokens: int, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    """Make legal BIO labels with 15 % of tokens in spans, and a copy with 5 % mistakes."""
    random = np.random.default_rng(seed)
    gold: list[list[str]] = []
    left = n_tokens
    while left > 0:
        length = min(left, int(random.integers(5, 40)))
        row: list[str] = []
        while len(row) < length:
            if random.random() < 0.08:
                kind = TYPES[random.integers(len(TYPES))]
                row += ["B-" + kind] + ["I-" + kind] * int(random.integers(0, 4))
            else:
                row.append("O")
        gold.append(row[:length])
        left -= length
    names = ["O"] + [f"{letter}-{kind}" for letter in "BI" for kind in TYPES]
    predicted = [
        [names[random.integers(len(names))] if random.random() < 0.05 else y for y in row]
        for row in gold
    ]
    return gold, predicted


def apart(rows: list[list[str]]) -> list[list[str]]:
    """Give every token a string object of its own."""
    return [" ".join(row).split(" ") for row in rows]


def cpu_seconds(function, repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # seqeval warns of types without predictions
    gold, predicted = make_labels(arguments.tokens)
    fresh = apart(gold), apart(predicted)

    theirs = seqeval.metrics.classification_report(gold, predicted, output_dict=True)
    ours = tl.evaluate(gold, predicted)
    assert abs(theirs["micro avg"]["f1-score"] - ours.f1) < 1e-12
    assert abs(theirs["macro avg"]["f1-score"] - ours.macro.f1) < 1e-12

    report = seqeval.metrics.classification_report
    strict = {"mode": "strict", "scheme": IOB2}
    seconds = {
        "seqeval, default": cpu_seconds(lambda: report(gold, predicted), 2),
        "seqeval, strict": cpu_seconds(lambda: report(gold, predicted, **strict), 1),
    }
    cases = {
        "evaluate": lambda: tl.evaluate(gold, predicted),
        "evaluate, separate strings": lambda: tl.evaluate(*fresh),
        "evaluate, strict": lambda: tl.evaluate(gold, predicted, strict=True),
        "evaluate and print": lambda: str(tl.evaluate(gold, predicted, n_bootstrap=0)),
        "evaluate and print, 1000 resamples": lambda: str(tl.evaluate(gold, predicted)),
        "compare, 10000 trials": lambda: tl.compare(gold, predicted, gold),
    }
    seconds |= {name: cpu_seconds(case, arguments.repeats) for name, case in cases.items()}

    base = seconds["seqeval, default"]
    result = {
        "tokens": arguments.tokens,
        "sentences": len(gold),
        "machine": platform.processor() or platform.machine(),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "tagloom": tl.__version__,
        "cpu_seconds": seconds,
        "times_as_fast_as_seqeval_default": {k: base / v for k, v in seconds.items()},
    }
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{len(gold):,} sentences, {arguments.tokens:,} tokens, CPU seconds on one thread")
    for name, value in seconds.items():
        print(f"{name:36} {value:8.3f} s  {base / value:7.1f} x")


if __name__ == "__main__":
    main()
