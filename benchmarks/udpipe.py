"""Train UDPipe 1 on a treebank, as the peer of the parser and of the tokenizer.

    python benchmarks/udpipe.py train parser|tagger|tokenizer TRAIN.conllu -o MODEL
    python benchmarks/udpipe.py parse INPUT.conllu PARSER [--tagger TAGGER] -o OUTPUT.conllu
    python benchmarks/udpipe.py split INPUT.txt TOKENIZER -o OUTPUT.conllu

All settings are UDPipe's defaults; the parts of a model are independent of each other, so each is
trained alone. Training of a parser on English EWT takes over an hour. The script needs nothing but
``ufal.udpipe``, so that an environment without tagloom runs it. Parsed files are scored by
`tagloom eval --trees`, split ones by benchmarks/splitting.py.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import ufal.udpipe as udpipe

PARTS = ("tokenizer", "tagger", "parser")


def read_sentences(path: Path) -> udpipe.Sentences:
    """Read a CoNLL-U file into UDPipe's own sentences."""
    reader = udpipe.InputFormat.newConlluInputFormat()
    reader.setText(path.read_text(encoding="utf-8"))
    error = udpipe.ProcessingError()
    sentences, sentence = udpipe.Sentences(), udpipe.Sentence()
    while reader.nextSentence(sentence, error):
        sentences.append(sentence)
        sentence = udpipe.Sentence()
    if error.occurred():
        raise SystemExit(f"{path}: {error.message}")
    return sentences


def train(part: str, path: Path, output: Path) -> None:
    """Train one part of a model by the defaults, and print the CPU time."""
    error = udpipe.ProcessingError()
    options = [udpipe.Trainer.DEFAULT if name == part else udpipe.Trainer.NONE for name in PARTS]
    began = time.process_time()
    model = udpipe.Trainer.train(
        "morphodita_parsito", read_sentences(path), udpipe.Sentences(), *options, error
    )
    if error.occurred():
        raise SystemExit(f"{path}: {error.message}")
    output.write_bytes(model)
    print(f"{part}: training {time.process_time() - began:.0f} s CPU", flush=True)


def run(models: Sequence[Path | None], source: str, text: str) -> tuple[str, float]:
    """Apply tokenizer, tagger and parser, each unless it is None; return CoNLL-U and CPU time."""
    seconds = 0.0
    for place, path in enumerate(models):
        if path is None:
            continue
        model = udpipe.Model.load(str(path))
        if model is None:
            raise SystemExit(f"{path} is not a model of UDPipe.")
        steps = [udpipe.Pipeline.DEFAULT if place == k else udpipe.Pipeline.NONE for k in (1, 2)]
        pipeline = udpipe.Pipeline(model, "tokenize" if place == 0 else source, *steps, "conllu")
        error = udpipe.ProcessingError()
        began = time.process_time()
        text = pipeline.process(text, error)
        seconds += time.process_time() - began
        if error.occurred():
            raise SystemExit(error.message)
        source = "conllu"
    return text, seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="UDPipe 1 as a peer.")
    parser.add_argument("work", choices=("train", "parse", "split"))
    parser.add_argument("words", nargs="+", metavar="ARGUMENT")
    parser.add_argument("--tagger", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    if len(options.words) != 2:
        parser.error("two arguments are expected; see the head of the script")
    if options.work == "train":
        part, path = options.words
        if part not in PARTS:
            parser.error(f"cannot train {part!r}; choose from {', '.join(PARTS)}")
        train(part, Path(path), options.output)
        return
    path, model = map(Path, options.words)
    models = (model, None, None) if options.work == "split" else (None, options.tagger, model)
    text, seconds = run(models, "conllu", path.read_text(encoding="utf-8"))
    options.output.write_text(text, encoding="utf-8")
    print(f"{options.work} {path}: {seconds:.1f} s CPU", flush=True)


if __name__ == "__main__":
    main()
