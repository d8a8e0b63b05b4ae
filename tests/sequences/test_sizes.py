"""Speed, memory, and lines of a size that nobody means."""

import io
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

import tagloom as tl
from tagloom.errors import FormatError

SENTENCE = b"".join(
    b"%d\tword%d\tword\tNOUN\tNN\tNumber=Sing\t%d\tobj\t_\t_\n" % (i, i % 7, i - 1)
    for i in range(1, 17)
)


class Repeated(io.RawIOBase):
    """A file of any size that takes no room."""

    def __init__(self, part, n):
        self.part, self.left, self.rest = part, n, b""

    def readable(self):
        return True

    def readinto(self, buffer):
        while len(self.rest) < len(buffer) and self.left:
            self.rest += self.part
            self.left -= 1
        n = min(len(buffer), len(self.rest))
        buffer[:n], self.rest = self.rest[:n], self.rest[n:]
        return n


@pytest.mark.parametrize(
    ("part", "format"),
    [
        ((b"# c\n" + SENTENCE + b"\n") * 100, "conllu"),
        (b"word X\n\n" * 4000, "conll"),
        (b"a/X b/Y " * 20 + b"\n", "slash"),
        (b'{"tokens": ["a", "b"], "labels": ["X", "Y"]}\n' * 100, "jsonl"),
        (b'{"text": "a b", "spans": [[0, 1, "X"]]}\n' * 100, "jsonl-spans"),
    ],
)
def test_a_stream_needs_constant_memory(part, format):
    def peak(n):
        tracemalloc.reset_peak()
        total = sum(len(s) for s in tl.stream(Repeated(part, n), format))
        return total, tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    try:
        n = 300_000 // len(part)  # several chunks
        peak(n)  # what is made once
        few, small = peak(n)
        many, large = peak(3 * n)
    finally:
        tracemalloc.stop()
    assert many == 3 * few
    assert large < small + 500_000


def test_streaming_60_mb_grows_the_process_by_little():
    """The native part is not seen by tracemalloc, so ask the system."""
    pytest.importorskip("resource", reason="needs getrusage")
    program = """
import resource, sys, tagloom as tl
sys.path.insert(0, sys.argv[1])
from test_sizes import Repeated, SENTENCE
def peak(n):
    tl.write(tl.stream(Repeated(SENTENCE + b"\\n", n), "conllu"), "/dev/null", "conllu")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small = peak(10_000)
print(peak(100_000) - small)
"""
    tests = str(Path(__file__).parent)
    out = subprocess.run(
        [sys.executable, "-c", program, tests], capture_output=True, text=True, check=True
    )
    kilobytes = int(out.stdout) / (1024 if sys.platform == "darwin" else 1)
    assert kilobytes < 8_000


def test_200_000_tokens_are_read_well_under_a_second(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_bytes((SENTENCE + b"\n") * 12_800)
    start = time.process_time()
    corpus = tl.read(path)
    assert time.process_time() - start < 0.7
    assert corpus.n_tokens == 204_800


@pytest.mark.parametrize("format", ["conll", "slash", "jsonl"])
def test_a_line_of_100_mb_is_read(format):
    long = b"x" * 100_000_000
    data = {
        "conll": b"a X\n" + long + b" Y\n",
        "slash": b"a/X " + long + b"/Y\n",
        "jsonl": b'{"tokens": ["a", "' + long + b'"], "labels": ["X", "Y"]}\n',
    }[format]
    start = time.process_time()
    corpus = tl.read(io.BytesIO(data), format)
    assert [len(token) for token in corpus.tokens[0]] == [1, len(long)]
    assert time.process_time() - start < 20


def test_a_line_of_100_mb_that_does_not_fit_has_a_short_message():
    with pytest.raises(FormatError, match=r"^<file>:2: expected 2 columns") as caught:
        tl.read(io.BytesIO(b"a X\n" + b"x" * 100_000_000), "conll")
    assert len(str(caught.value)) < 250


DATA = os.environ.get("TAGLOOM_DATA")


@pytest.mark.skipif(not DATA, reason="set TAGLOOM_DATA to the folder of the corpora")
def test_real_corpora_survive_byte_for_byte():
    paths = [p for p in sorted(Path(str(DATA)).glob("*/*")) if p.suffix in (".conllu", ".tsv")]
    assert paths
    for path in paths:
        out = io.BytesIO()
        tl.write(tl.read(path), out)
        assert out.getvalue() == path.read_bytes(), path


@pytest.mark.skipif(not DATA, reason="set TAGLOOM_DATA to the folder of the corpora")
def test_english_ewt_has_the_tokens_it_should():
    corpus = tl.read(Path(str(DATA)) / "ud-english-ewt" / "train.conllu")
    assert (len(corpus), corpus.n_tokens) == (12_544, 204_577)
    assert len(corpus.label_counts()) == 17
