"""All taggers side by side on EWT, universal parts of speech, with their defaults.

    python benchmarks/family.py --data DIR [--out benchmarks/results] [--dev-only]

Defaults were chosen on development sets; the test set is read only here, at the end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import tagloom as tl

FAMILY = {
    "MostFrequentTag": tl.MostFrequentTag,
    "HMM, order 1": tl.HMM,
    "HMM, order 2": lambda: tl.HMM(order=2),
    "TokenClassifier": lambda: tl.TokenClassifier(n_threads=1),
    "MEMM": lambda: tl.MEMM(n_threads=1),
    "StructuredPerceptron": lambda: tl.StructuredPerceptron(n_threads=1),
    "StructuredSVM": lambda: tl.StructuredSVM(n_threads=1),
    "CRF": lambda: tl.CRF(n_threads=1),
    "CRF, order 2": lambda: tl.CRF(order=2, n_threads=1),
}


def measure(make, train, dev, test) -> dict:
    began = time.process_time()
    tagger = make().fit(train)
    seconds = time.process_time() - began
    scores = {"seconds": seconds, "dev": tagger.score(dev)}
    if test is not None:
        scores["test"] = tagger.score(test)
    tokens = [sentence.tokens for sentence in dev]
    best = min(timed(lambda: tagger.predict(tokens, n_threads=1)) for _ in range(3))
    return scores | {"tokens_per_second": dev.n_tokens / best}


def timed(work) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def show(results: dict[str, dict]) -> str:
    lines = ["| tagger | dev | test | fit, s | tag, M tokens/s |", "|---|---|---|---|---|"]
    for name, r in results.items():
        test = f"{100 * r['test']:.2f}" if "test" in r else ""
        speed = f"{r['tokens_per_second'] / 1e6:.2f}"
        lines.append(f"| {name} | {100 * r['dev']:.2f} | {test} | {r['seconds']:.1f} | {speed} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--out", type=Path, help="folder for family.md and family.json")
    parser.add_argument("--dev-only", action="store_true", help="do not read the test set")
    args = parser.parse_args()
    folder = args.data / "ud-english-ewt"
    if not folder.is_dir():
        sys.exit(
            f"{args.data} has no folder ud-english-ewt; pass --data the folder of the corpora."
        )
    names = ["train", "dev"] + ["test"] * (not args.dev_only)
    train, dev, *test = (tl.read(str(folder / f"{name}.conllu"), label="upos") for name in names)
    results = {}
    for name, make in FAMILY.items():
        results[name] = measure(make, train, dev, test[0] if test else None)
        print(name, results[name], file=sys.stderr, flush=True)
    print(show(results))
    if args.out:
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
        ).stdout.strip()
        how = "`python benchmarks/family.py --data DIR --out benchmarks/results`, commit "
        how += f"{commit}; accuracy in percent, CPU seconds, one thread, EWT with universal tags."
        text = f"# All taggers side by side\n\n{how}\n\n{show(results)}\n"
        (args.out / "family.md").write_text(text, encoding="utf-8")
        (args.out / "family.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
