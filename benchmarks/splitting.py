"""F1 of tokens and sentences of the tokenizer, on treebanks with raw text.

    python benchmarks/splitting.py --data DIR [--treebanks ud-english-ewt] [--part test]
    python benchmarks/splitting.py --data DIR --treebanks ud-english-ewt --write-text TEXT
    python benchmarks/splitting.py --data DIR --treebanks ud-english-ewt --split OUTPUT.conllu

DIR has a folder for each treebank with train.conllu, dev.conllu and test.conllu. The preset "rules"
needs no training; the learnt tokenizer sees train.conllu only. The raw text is that of ``# text``
comments, documents apart, so that nothing but the words tells where sentences end. Choose settings
with --part dev.

--write-text writes that text, with blank lines between documents, for another tokenizer; --split
scores what it found, in CoNLL-U (benchmarks/udpipe.py split TEXT MODEL -o OUTPUT.conllu).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

import tagloom as tl
from tagloom.sequences import paragraphs

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


Spans = tuple[set[tuple[int, int]], set[tuple[int, int]]]  # of tokens, of sentences


def spans(corpus: tl.Corpus) -> tuple[str, Spans]:
    """Return the characters of a corpus without blanks, and its tokens and sentences in them."""
    texts: list[str] = []
    tokens: set[tuple[int, int]] = set()
    sentences: set[tuple[int, int]] = set()
    size = 0
    for paragraph in paragraphs(corpus):
        at = [size]  # at[i]: characters before i, without blanks
        for character in paragraph.text:
            at.append(at[-1] + (not character.isspace()))
        size = at[-1]
        texts.append("".join(paragraph.text.split()))
        for row in paragraph.offsets:
            tokens |= {(at[start], at[end]) for start, end in row}
            sentences |= {(at[row[0][0]], at[row[-1][1]])} if row else set()
    return "".join(texts), (tokens, sentences)


def compare(gold: tl.Corpus, found: tl.Corpus) -> list[float]:
    """Return the F1 of the tokens and of the sentences of another tokenizer."""
    (text, right), (same, theirs) = spans(gold), spans(found)
    if text != same:
        at = 0
        while text[at : at + 1] == same[at : at + 1]:
            at += 1
        raise SystemExit(f"The texts differ at {text[at : at + 40]!r} and {same[at : at + 40]!r}.")
    return [2 * len(a & b) / (len(a) + len(b)) for a, b in zip(right, theirs, strict=True)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="F1 of the tokenizer on treebanks.")
    parser.add_argument("--data", type=Path, default=os.environ.get("TAGLOOM_DATA"))
    parser.add_argument("--treebanks", nargs="+", default=TREEBANKS)
    parser.add_argument("--part", choices=("dev", "test"), default="test")
    parser.add_argument("--write-text", type=Path, metavar="FILE")
    parser.add_argument("--split", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if (options.write_text or options.split) and len(options.treebanks) != 1:
        parser.error("choose one of --treebanks")
    if options.data is None:
        print("No treebanks: pass --data DIR or set TAGLOOM_DATA. Nothing was measured.")
        return
    if options.write_text or options.split:
        gold = tl.read(Path(options.data) / options.treebanks[0] / f"{options.part}.conllu")
        if options.write_text:
            texts = [" ".join(paragraph.text.split()) for paragraph in paragraphs(gold)]
            options.write_text.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
        if options.split:
            tokens, sentences = compare(gold, tl.read(options.split, "conllu"))
            print(f"tokens {100 * tokens:.2f}, sentences {100 * sentences:.2f}")
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
