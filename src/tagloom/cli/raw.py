"""``tagloom tag --text``: raw text in, labelled sentences out.

A block of the text ends at a blank line, or after about a million characters; the last sentence of
a long block waits for the next one. So memory does not grow with the text.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from tagloom.cli.reading import Reading, training_of
from tagloom.cli.running import on_close
from tagloom.models import texts
from tagloom.sequences import Sentence, write
from tagloom.sequences.columns import CONLLU
from tagloom.sequences.corpora import Stream
from tagloom.sequences.files import Input, open_output, split_suffix
from tagloom.sequences.guesses import NOT_WRITTEN, SUFFIXES
from tagloom.sequences.slashes import SlashLayout
from tagloom.text import BLOCK

if TYPE_CHECKING:
    from tagloom.cli.tag import Tagging
    from tagloom.models import Tokenizer


def tag(tagging: Tagging, source: str, output: str, reading: Reading) -> None:
    """Split the text of a file, label its sentences and write them."""
    if reading.format not in (None, "text"):
        raise click.UsageError("--text reads raw text. Leave out --format.")
    file = Input(source, reading.encoding)
    on_close(file.close)
    tokenizer = tagging.tagger.tokenizer_
    suffix = split_suffix(output)[0]
    format = SUFFIXES.get(suffix, "" if suffix in NOT_WRITTEN else "slash")
    if format == "jsonl":
        _write_objects(tagging, _blocks(file, tokenizer), output)
        return
    tagging.check(format)
    tagging.format = format
    batches = ([*_annotated(block, format)] for _, block in _blocks(file, tokenizer) if block)
    sentences = Stream(file, SlashLayout(format="text"), None, batches)
    label = None
    if format == "conllu":
        trained = reading.label or training_of(tagging.tagger).get("label")
        label = trained if trained in CONLLU else "upos"
    added = tagging.added(format)
    write(sentences.through(tagging), output, format or None, label=label, append=added)


def _write_objects(
    tagging: Tagging, blocks: Iterator[tuple[int, list[Sentence]]], output: str
) -> None:
    """Write one object for each sentence, with places in the whole file."""
    with open_output(output, "utf-8") as out:
        for start, block in blocks:
            tagged = texts.tag(tagging.tagger, iter(block), tagging.marginals, tagging.n_threads)
            objects: Iterable[dict[str, Any]] = (sentence.to_dict(start) for sentence in tagged)
            if tagging.nbest is not None and block:
                added = ({"nbest": best} for best in tagging.nbest_objects(block))
                objects = map(operator.or_, objects, added)
            rows = (json.dumps(each, ensure_ascii=False) + "\n" for each in objects)
            out.write("".join(rows).encode("utf-8"))
            out.flush()


def _blocks(file: Input, tokenizer: Tokenizer) -> Iterator[tuple[int, list[Sentence]]]:
    """Yield the sentences of each block of a file, and where the block begins."""
    start, size = 0, 0  # of the block, in characters
    lines: list[str] = []
    for batch in file.lines():
        for _, raw in batch:
            line = raw.decode("utf-8")
            lines.append(line)
            size += len(line)
            if line.strip() and size < BLOCK:
                continue
            block = "".join(lines)
            sentences = tokenizer.split(block)
            done = len(block)
            if line.strip() and len(sentences) > 1:  # the last sentence may go on
                last = sentences.pop()
                assert last.offsets
                done = last.offsets[0][0]
            yield start, sentences
            start, lines, size = start + done, [block[done:]], len(block) - done
    yield start, tokenizer.split("".join(lines))


def _annotated(sentences: list[Sentence], format: str) -> Iterator[Sentence]:
    """Add the text, and which tokens no blank follows, to sentences for CoNLL-U."""
    for sentence in sentences:
        if format == "conllu" and sentence.offsets and sentence.text:
            text, first, last = sentence.text, sentence.offsets[0][0], sentence.offsets[-1][1]
            glued = [not text[end : end + 1].isspace() for _, end in sentence.offsets]
            glued[-1] = glued[-1] and last < len(text)
            misc = ["SpaceAfter=No" if is_glued else "_" for is_glued in glued]
            comment = f"# text = {' '.join(text[first:last].split())}"
            sentence = Sentence(sentence.tokens, columns={"misc": misc}, comments=[comment])
        yield sentence
