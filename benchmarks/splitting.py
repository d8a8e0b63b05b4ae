"""F1 of tokens and sentences of the tokenizer, on treebanks with raw text.

    python benchmarks/splitting.py --data DIR [--treebanks ud-english-ewt] [--part test]

DIR has a folder for each treebank with train.conllu, dev.conllu and test.conllu. The preset "rules"
needs no training; the learnt tokenizer sees train.conllu only. The raw text is that of ``# text``
comments, documents apart, so that nothing but the words tells where sentences end. Choose settings
with --part dev.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

import tagloom as tl

TREEBANKS = ("ud-english-ewt", "ud-estonian-ewt")


def measure(folder: Path, part: str) -> list[str]:
    """Return one row of the table for each tokenizer."""
    gold = tl.read(folder / f"{part}.conllu")
    began = time.process_time()
    learnt = tl.Tokenizer().fit(tl.read(folder / "train.conllu"))
    seconds = time.process_time() - began
    size = len(learnt.to_bytes()) / 1e6
    rows = []
    for name, tokenizer, cost in (
        ("whitespace", tl.Tokenizer("whitespace"), ""),
        ("rules", tl.Tokenizer(), ""),
        ("learnt", learnt, f"{seconds:.0f} s, {size:.1f} MB"),
    ):
        scores = tokenizer.evaluate(gold)
        tokens, sentences = (f"{100 * score.f1:.2f}" for score in scores)
        rows.append(f"| {folder.name} {part} | {name} | {tokens} | {sentences} | {cost} |")
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="F1 of the tokenizer on treebanks.")
    parser.add_argument("--data", type=Path, default=os.environ.get("TAGLOOM_DATA"))
    parser.add_argument("--treebanks", nargs="+", default=TREEBANKS)
    parser.add_argument("--part", choices=("dev", "test"), default="test")
    options = parser.parse_args(arguments)
    if options.data is None:
        print("No treebanks: pass --data DIR or set TAGLOOM_DATA. Nothing was measured.")
        return
    print("| treebank | tokenizer | tokens | sentences | training |\n|---|---|---|---|---|")
    for name in options.treebanks:
        folder = Path(options.data) / name
        if not (folder / "train.conllu").exists():
            print(f"{name} was skipped: no {folder / 'train.conllu'}.")
            continue
        for row in measure(folder, options.part):
            print(row, flush=True)


if __name__ == "__main__":
    main()
