"""Compression, encodings, stdin and stdout, and files that are cut short."""

import builtins
import gzip
import io
import lzma
import os
import stat
import sys

import pytest
import zstandard

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError, LabelError, MissingExtraError

DATA = "They\tPRON\nfish\tVERB\n\nÜber\tADP\n\n".encode()
COMPRESS = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_are_read_and_written(tmp_path, suffix):
    path = tmp_path / f"a.conll{suffix}"
    path.write_bytes(COMPRESS[suffix](DATA))
    corpus = tl.read(path)
    assert (corpus.format, corpus.tokens) == ("conll", [["They", "fish"], ["Über"]])
    again = tmp_path / f"b.conll{suffix}"
    tl.write(corpus, again)
    assert again.read_bytes()[:2] == path.read_bytes()[:2]  # compressed, not plain
    assert tl.read(again) == corpus
    # The name does not matter for reading.
    path = path.rename(tmp_path / "plain.conll")
    assert tl.read(path) == corpus


@pytest.mark.parametrize("suffix", COMPRESS)
def test_several_compressed_parts_are_read_as_one(tmp_path, suffix):
    path = tmp_path / f"a.conll{suffix}"
    path.write_bytes(COMPRESS[suffix](DATA) + COMPRESS[suffix](DATA))
    assert len(tl.read(path)) == 4


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("cut", [7, -3])
def test_a_compressed_file_that_is_cut_short_is_an_error(tmp_path, suffix, cut):
    path = tmp_path / f"a.conll{suffix}"
    path.write_bytes(COMPRESS[suffix](DATA * 1000)[:cut])
    with raises(FormatError, where="a.conll", hint="Fetch the file again"):
        tl.read(path)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_compressed_data_is_an_error(tmp_path, suffix):
    data = bytearray(COMPRESS[suffix](os.urandom(1000)))
    data[20:40] = bytes(20)
    path = tmp_path / f"a.conll{suffix}"
    path.write_bytes(data)
    with raises(FormatError, where="a.conll"):
        tl.read(path)


def test_without_zstandard_the_install_line_is_given(tmp_path, monkeypatch):
    path = tmp_path / "a.conll.zst"
    path.write_bytes(COMPRESS[".zst"](DATA))
    corpus = tl.read(path)
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "zstandard":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with raises(MissingExtraError, where="a.conll.zst", hint="pip install 'tagloom[zstd]'"):
        tl.read(path)
    with raises(MissingExtraError, where="a.conll.zst", hint="pip install 'tagloom[zstd]'"):
        tl.write(corpus, path)
    assert path.read_bytes() == COMPRESS[".zst"](DATA)  # the old file is left alone


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-32", "cp1252"])
def test_other_encodings_are_read_and_written(tmp_path, encoding):
    path, again = tmp_path / "a.conll", tmp_path / "b.conll"
    path.write_bytes(DATA.decode().encode(encoding))
    corpus = tl.read(path, encoding=encoding)
    assert corpus.tokens == [["They", "fish"], ["Über"]]
    tl.write(corpus, again, encoding=encoding)
    assert again.read_bytes() == path.read_bytes()


def test_encodings_that_do_not_fit_are_said(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(DATA.decode().encode("utf-16"))
    with raises(FormatError, found="mark of UTF-16", options="encoding") as caught:
        tl.read(path)
    assert caught.value.options == {"encoding": "utf-16"}
    path.write_bytes(DATA.decode().encode("utf-16-le"))
    with raises(FormatError, where="a.conll:1", found="byte 0x00 at offset 1", hint="utf-16"):
        tl.read(path)
    path.write_bytes(DATA)
    with raises(FormatError, where="a.conll", expected="text in ascii", options="encoding"):
        tl.read(path, encoding="ascii")
    with raises(FormatError, parameter="encoding", found="'klingon'"):
        tl.read(path, encoding="klingon")
    corpus = tl.read(path)
    with raises(FormatError, where="a.conll", expected="ascii", found="'Ü'"):
        tl.write(corpus, path, encoding="ascii")
    assert path.read_bytes() == DATA


@pytest.mark.parametrize("format", ["conll", "slash", "jsonl"])
def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path, format):
    path = tmp_path / "a"
    tl.write([tl.Sentence(["They"], ["PRON"])], path, format)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    corpus = tl.read(path, format)
    assert corpus.tokens == [["They"]]
    again = tmp_path / "b"
    tl.write(corpus, again, format)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("format", ["conll", "conllu", "slash", "jsonl"])
def test_a_word_that_starts_like_a_byte_order_mark(tmp_path, encoding, format):
    corpus = tl.Corpus([["\ufeffa"], ["\ufeffb"]], [["X"], ["Y"]])
    tl.write(corpus, tmp_path / "a", format, encoding=encoding)
    again = tl.read(tmp_path / "a", format, encoding=encoding)
    assert again.tokens == corpus.tokens
    tl.write(again, tmp_path / "b", encoding=encoding)
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_stdin_and_stdout(monkeypatch, capfdbinary):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(DATA))))
    corpus = tl.read("-")
    assert (corpus.path, corpus.format) == ("<stdin>", "conll")
    tl.write(corpus, "-")
    assert capfdbinary.readouterr().out == DATA


class Trickle(io.RawIOBase):
    """A pipe that gives few bytes at a time."""

    def __init__(self, data):
        self.data = data

    def readable(self):
        return True

    def readinto(self, buffer):
        n = min(len(buffer), 3, len(self.data))
        buffer[:n], self.data = self.data[:n], self.data[n:]
        return n


@pytest.mark.parametrize("pack", [bytes, *COMPRESS.values()])
def test_a_pipe_that_gives_few_bytes_at_a_time(pack):
    assert tl.read(Trickle(pack(DATA))).tokens == [["They", "fish"], ["Über"]]


def test_text_files_work_too():
    corpus = tl.read(io.StringIO(DATA.decode()))
    out = io.StringIO()
    tl.write(corpus, out)
    assert out.getvalue() == DATA.decode()


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(DATA)
    with raises(FormatError, where="sentence 1, token 0", found="one of {A,B}"):
        tl.write([tl.Sentence(["a"], ["X"]), tl.Sentence(["b"], [{"A", "B"}])], path)
    assert path.read_bytes() == DATA
    assert os.listdir(tmp_path) == ["a.conll"]


def test_a_set_of_labels_may_be_assigned_in_place():
    corpus = tl.read(io.BytesIO(DATA))
    corpus[0].labels[0] = {"B", "A"}
    out = io.BytesIO()
    tl.write(corpus, out, "jsonl")
    again = tl.read(io.BytesIO(out.getvalue()), "jsonl")
    assert again[0].labels[0] == {"A", "B"}
    assert [s.labels[1:] for s in again] == [s.labels[1:] for s in corpus]
    assert again[1].labels == corpus[1].labels
    for format in ("conll", "csv", "slash", "crfsuite"):
        with raises(FormatError, where="sentence 0, token 0", found="one of {A,B}"):
            tl.write(corpus, io.BytesIO(), format)
    for format in ("jsonl-spans", "spacy"):
        with raises(FormatError, where="token 0", found="one of {A,B}"):
            tl.write([corpus[0]], io.BytesIO(), format)


@pytest.mark.parametrize("format", ["conll", "csv", "slash", "crfsuite", "jsonl", "jsonl-spans"])
@pytest.mark.parametrize("value", [5, ["A", "B"], b"A", ("A",), set()])
def test_what_is_assigned_in_place_must_be_a_label(format, value):
    corpus = tl.read(io.BytesIO(DATA))
    corpus[1].labels[0] = value
    with raises(LabelError, where="sentence 1, token 0"):
        tl.write(corpus, io.BytesIO(), format)


def test_a_file_may_be_read_as_a_stream_and_written_at_once(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(DATA)
    path.chmod(0o640)
    tl.write(tl.stream(path), path)
    assert path.read_bytes() == DATA
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_symbolic_link_stays_one(tmp_path):
    path, link = tmp_path / "a.conll", tmp_path / "link.conll"
    link.symlink_to(path)
    tl.write([tl.Sentence(["a"], ["X"])], link)
    assert link.is_symlink()
    assert path.read_bytes() == b"a\tX\n\n"


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        tl.read(tmp_path / "none.conll")
    with pytest.raises(FileNotFoundError):
        tl.write([tl.Sentence(["a"], ["X"])], tmp_path / "none" / "a.conll")


def test_what_is_not_a_file():
    with raises(FormatError, parameter="path", found="3, of type int"):
        tl.read(3)


def test_a_stream_closes_its_file(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(DATA)
    with tl.stream(path) as sentences:
        assert next(sentences).tokens == ["They", "fish"]
    with pytest.raises(ValueError, match="closed"):
        list(sentences)
    assert repr(tl.stream(io.BytesIO(DATA), "conll")) == "Stream('<file>', format 'conll')"


class Reluctant(io.RawIOBase):
    """A raw file that takes three bytes at a time, as a pipe or a full disk may."""

    def __init__(self):
        self.data = b""

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data[:3])
        return min(len(data), 3)


def test_a_raw_file_that_takes_little_at_a_time_gets_everything():
    raw = Reluctant()
    tl.write(tl.read(io.StringIO("Fish NN\nswim VB\n")), raw, "conll")
    assert raw.data == b"Fish NN\nswim VB\n"


def test_two_writers_do_not_overwrite_each_other(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(b"They N\nfish V\n")
    first, second = tl.read(path, "conll"), tl.read(path, "conll")
    tl.write(first.with_labels([["A", "V"]]), path)
    with pytest.raises(tl.errors.FormatError) as caught:
        tl.write(second.with_labels([["N", "B"]]), path)
    assert caught.value.path == str(path)
    assert caught.value.found == "a file that was changed or removed since"
    assert path.read_bytes() == b"They A\nfish V\n"
    tl.write(first.with_labels([["B", "V"]]), path)  # one's own change does not count
    assert path.read_bytes() == b"They B\nfish V\n"
    tl.write(second, tmp_path / "b.conll")  # nor does a file that was not read
    assert sorted(os.listdir(tmp_path)) == ["a.conll", "b.conll"]
