"""The gain from a higher label order: handwritten letters and chunks with orders 1, 2 and 3.

    python benchmarks/orders.py --data DIR [--out DIR] [--task ocr|chunk] [--models NAME ...]

OCR letters (Kassel; Taskar et al. 2003): the features are 16 × 8 pixels. The ten folds are those of
the data: each is the training set once and the other nine are the test set, or, with ``--protocol
large``, the other way round. Chunks: GUM, trained on train, scored on dev by span F1.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from pathlib import Path

import numpy as np

import tagloom as tl

ORDERS = (1, 2, 3)


def read_letters(path: Path) -> tuple[list[np.ndarray], list[list[str]], np.ndarray]:
    """Read the pixels [T, 128], the letters and the fold of each word."""
    words: dict[str, tuple[int, list[list[float]], list[str]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            word = words.setdefault(row["word_id"], (int(row["fold"]), [], []))
            word[1].append([float(c) for c in row["pixels"]])
            word[2].append(row["letter"])
    folds, pixels, letters = zip(*words.values(), strict=True)
    return [np.array(p, dtype=np.float32) for p in pixels], list(letters), np.array(folds)


MODELS = ("CRF", "StructuredPerceptron")


def letters(data: Path, n_folds: int, protocol: str, names: list[str]) -> list[dict]:
    X, y, fold = read_letters(data / "ocr-letters" / "letters.tsv")
    models = {
        "CRF": lambda order: tl.CRF(None, order=order, algorithm="lbfgs", l2=1.0),
        "StructuredPerceptron": lambda order: tl.StructuredPerceptron(None, order=order),
    }
    results = []
    for name in names:
        make = models[name]
        for order in ORDERS:
            scores, seconds = [], 0.0
            for k in range(n_folds):
                inside = (fold == k) == (protocol == "small")
                train = np.flatnonzero(inside)
                test = np.flatnonzero(~inside)
                began = time.process_time()
                tagger = make(order).fit([X[i] for i in train], [y[i] for i in train])
                seconds += time.process_time() - began
                scores.append(tagger.score([X[i] for i in test], [y[i] for i in test]))
            states = tagger.scores_.states
            results.append(
                {
                    "task": f"OCR letters, {protocol}",
                    "model": name,
                    "order": order,
                    "states": "26 labels" if states is None else f"{states.n_states:,} states",
                    "score": float(np.mean(scores)),
                    "spread": float(np.std(scores)),
                    "folds": n_folds,
                    "seconds": seconds / n_folds,
                }
            )
            print(results[-1], file=sys.stderr, flush=True)
    return results


def chunks(data: Path, names: list[str]) -> list[dict]:
    folder = data / "gum-chunking"
    columns = ["token", "upos", "pos", "label"]
    train = tl.read(str(folder / "train.tsv"), columns=columns, label="label")
    dev = tl.read(str(folder / "dev.tsv"), columns=columns, label="label")
    results = []
    for name in names:
        kind = getattr(tl, name)
        for order in ORDERS[:2]:
            for features in ("chunk", "chunk-pos"):
                began = time.process_time()
                tagger = kind(features, order=order).fit(train)
                seconds = time.process_time() - began
                report = tl.evaluate(dev, tagger.predict(dev), spans=True, n_bootstrap=0)
                states = tagger.scores_.states
                results.append(
                    {
                        "task": f"GUM chunks, dev, features {features}",
                        "model": name,
                        "order": order,
                        "states": "21 labels" if states is None else f"{states.n_states:,} states",
                        "score": report.f1,
                        "seconds": seconds,
                    }
                )
                print(results[-1], file=sys.stderr, flush=True)
    return results


def show(results: list[dict]) -> str:
    lines = ["| task | model | order | states | score | s |", "|---|---|---|---|---|---|"]
    for r in results:
        spread = f" ± {100 * r['spread']:.2f}" if "spread" in r else ""
        score = f"{100 * r['score']:.2f}{spread}"
        lines.append(
            f"| {r['task']} | {r['model']} | {r['order']} | {r['states']} | {score} "
            f"| {r['seconds']:.1f} |"
        )
    return "\n".join(lines)


def with_former(results: list[dict], path: Path) -> list[dict]:
    """Return the former rows, replaced by new ones where measured again, and further new rows."""
    former = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    new = {(r["task"], r["model"], r["order"]): r for r in results}
    rows = [new.pop((r["task"], r["model"], r["order"]), r) for r in former]
    return rows + list(new.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--out", type=Path, help="folder for orders.md and orders.json")
    parser.add_argument("--task", choices=["ocr", "chunk"], help="only this one")
    parser.add_argument(
        "--models",
        nargs="+",
        choices=MODELS,
        default=list(MODELS),
        help="measure only these; the results of others are kept",
    )
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--protocol", choices=["small", "large"], default="small")
    args = parser.parse_args()
    needed = {"ocr": "ocr-letters", "chunk": "gum-chunking"}
    tasks = [args.task] if args.task else list(needed)
    missing = [needed[t] for t in tasks if not (args.data / needed[t]).is_dir()]
    if missing:
        sys.exit(f"{args.data} has no folder {missing[0]}; pass --data the folder of the corpora.")
    results = []
    if "ocr" in tasks:
        results += letters(args.data, args.folds, args.protocol, args.models)
    if "chunk" in tasks:
        results += chunks(args.data, args.models)
    print(show(results))
    if args.out:
        results = with_former(results, args.out / "orders.json")
        heading = "# The gain from a higher label order\n\n"
        how = "`python benchmarks/orders.py --data DIR --out benchmarks/results`; the score is "
        how += (
            "token accuracy for letters and span F1 for chunks, in percent; s is CPU time to fit."
        )
        text = f"{heading}{how}\n\n{show(results)}\n"
        (args.out / "orders.md").write_text(text, encoding="utf-8")
        (args.out / "orders.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
