"""Speed, memory, and lines of a size that nobody means."""

import gzip
import io
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError

SENTENCE = b"".join(
    b"%d\tword%d\tword\tNOUN\tNN\tNumber=Sing\t%d\tobj\t_\t_\n" % (i, i % 7, i - 1)
    for i in range(1, 17)
)


class Repeated(io.RawIOBase):
    """A file of any size that takes no room."""

    def __init__(self, part, n, before=b""):
        self.part, self.left, self.before, self.rest = part, n, before, before

    def readable(self):
        return True

    def readinto(self, buffer):
        while len(self.rest) < len(buffer) and self.left:
            self.rest += self.part
            self.left -= 1
        n = min(len(buffer), len(self.rest))
        buffer[:n], self.rest = self.rest[:n], self.rest[n:]
        return n


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "format"),
    [
        ((b"# c\n" + SENTENCE + b"\n") * 100, "conllu"),
        (b"word X\n\n" * 4000, "conll"),
        (b"a/X b/Y " * 20 + b"\n", "slash"),
        (b'{"tokens": ["a", "b"], "labels": ["X", "Y"]}\n' * 100, "jsonl"),
        (b'{"text": "' + b"a b " * 250 + b'", "spans": [[0, 1, "X"]]}\n', "jsonl-spans"),
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


@pytest.mark.slow
def test_streaming_60_mb_grows_the_process_by_little():
    """The native part is not seen by tracemalloc, so ask the system."""
    pytest.importorskip("resource", reason="needs getrusage")
    program = """
import resource, sys, tagloom as tl
sys.path[:0] = sys.argv[1:]
from test_sizes import Repeated, SENTENCE
def peak(n):
    tl.write(tl.stream(Repeated(SENTENCE + b"\\n", n), "conllu"), "/dev/null", "conllu")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small = peak(10_000)
print(peak(100_000) - small)
"""
    folders = [str(path) for path in Path(__file__).parents[:2]]
    out = subprocess.run(
        [sys.executable, "-c", program, *folders], capture_output=True, text=True, check=True
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_line_of_100_mb_that_does_not_fit_has_a_short_message():
    with raises(FormatError, where="<file>:2", expected="2 columns") as caught:
        tl.read(io.BytesIO(b"a X\n" + b"x" * 100_000_000), "conll")
    assert len(str(caught.value)) < 250


# What a file without ends looks like in each format: (format, before, repeated, what is missing).
ENDLESS = [
    ("conll", b"a X\n\n", b"x" * 50_000, 3, "a blank line"),  # one token
    ("conll", b"a X\n\n", b"b Y " * 10_000, 3, "a blank line"),  # one row
    ("conll", b"a X\n\n", b"b Y\n" * 10_000, 3, "a blank line"),  # one sentence
    ("conll", b"a X\n\n", b"\n" * 50_000, 3, "a blank line"),  # no sentence
    ("conll", b"# of 7 X\n", b"b Y " * 10_000, 2, "a line end"),  # the first row
    ("conllu", b"1\ta" + b"\t_" * 8 + b"\n\n", SENTENCE * 50, 3, "a blank line"),
    ("slash", b"a/X\n", b"b/Y " * 10_000, 2, "a line end"),
    ("text", b"a\n", b"b " * 10_000, 2, "a line end"),
    ("jsonl", b'{"tokens": ["a"]}\n', b'{"tokens": [' * 1_000, 2, "a line end"),
    ("jsonl-spans", b'{"text": "a"}\n', b'{"text": "' * 1_000, 2, "a line end"),
]


@pytest.mark.parametrize(("format", "before", "part", "line", "end"), ENDLESS)
def test_a_sentence_that_does_not_end_is_refused(format, before, part, line, end, monkeypatch):
    monkeypatch.setattr("tagloom.sequences.files.SENTENCE_LIMIT", 2_000_000)
    check_endless(Repeated(part, 10**12, before), format, line, end, 2, room=30_000_000)


BIG = os.environ.get("TAGLOOM_BIG")


@pytest.mark.skipif(not BIG, reason="set TAGLOOM_BIG=1 to read sentences of 1 GB; takes a minute")
@pytest.mark.parametrize(("format", "before", "part", "line", "end"), ENDLESS)
def test_a_sentence_of_1_gb_is_refused(format, before, part, line, end):
    file = Repeated(part, 10**9 // len(part), before)
    check_endless(file, format, line, end, 128, room=700_000_000)


def check_endless(file, format, line, end, megabytes, room):
    """What comes before is read, the rest is refused in one line and with bounded memory."""
    read = []
    tracemalloc.start()
    try:
        found = f"a sentence of more than {megabytes} MB"
        with raises(FormatError, where=f"<file>:{line}", expected=end, found=found):
            read.extend(tl.stream(file, format))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [s.tokens for s in read] == ([] if b"#" in file.before else [["a"]])
    assert peak < room


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tagloom.sequences.files.SENTENCE_LIMIT", 2_000_000)
    path = tmp_path / "bomb.conll.gz"
    path.write_bytes(gzip.compress(b"x" * 50_000_000))
    assert path.stat().st_size < 100_000
    with raises(FormatError, where="bomb.conll.gz:1", found="more than 2 MB"):
        tl.read(path)


@pytest.mark.parametrize("sep", [" ", "\t"])
def test_a_row_of_very_many_columns_is_taken_for_a_text_on_one_line(sep):
    row = sep.join(["word"] * 20_000).encode() + b"\n\n"
    with raises(FormatError, where="<file>:1", found="20,000 columns", options="format"):
        tl.read(io.BytesIO(row), "conll")
    assert len(tl.read(io.BytesIO(row), "text")[0]) == 20_000


def test_a_message_names_some_columns_not_all():
    row = "\t".join(f"c{i}" for i in range(9_000)).encode() + b"\n"
    with raises(FormatError, expected="c18, c19, … (9,000 in all)") as e:
        tl.read(io.BytesIO(row), "conll", header=True, label="c")
    assert len(str(e.value)) < 250


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
