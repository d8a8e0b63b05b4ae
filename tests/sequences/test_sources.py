"""Corpora in many files, in passes and parts."""

import gzip

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError, ParameterError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "b.txt").write_text("fish/N swim/V\nthey/N\n")
    (tmp_path / "a.txt").write_text("they/N can/V fish/V\n")
    (tmp_path / "deep").mkdir()
    with gzip.open(tmp_path / "deep" / "c.txt.gz", "wt") as file:
        file.write("can/V they/N swim/V\n")
    return tmp_path


def test_every_pass_reads_the_files_in_order(folder):
    corpus = tl.files(folder / "*.txt", "slash")
    expected = [["they", "can", "fish"], ["fish", "swim"], ["they"]]
    assert [s.tokens for s in corpus] == expected
    assert [s.tokens for s in corpus] == expected
    both = tl.files([folder / "b.txt", f"{folder}/**/*.gz"], "slash")
    assert [s.tokens[0] for s in both] == ["fish", "they", "can"]
    assert [p.rsplit("/", 1)[1] for p in both.paths] == ["b.txt", "c.txt.gz"]
    assert repr(corpus).startswith("<Files: 2 files: ")


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 100])
def test_parts_are_all_sentences_in_order(folder, tokens):
    corpus = tl.files(folder / "*.txt", "slash")
    parts = list(corpus.parts(tokens))
    assert [s.tokens for part in parts for s in part] == [s.tokens for s in corpus]
    assert all(parts)
    for part in parts[:-1]:
        assert sum(map(len, part)) >= tokens > sum(map(len, part[:-1]))


def test_learning_in_parts_equals_learning_from_lists(folder):
    corpus = tl.files(folder / "*.txt", "slash")
    streamed, whole = tl.CRF("words"), tl.CRF("words")
    sentences = list(corpus)
    for _ in range(3):
        for part in corpus.parts(tokens=3):
            streamed.partial_fit(part)
        whole.partial_fit(sentences[:1]).partial_fit(sentences[1:])
    X = [["they", "can", "swim"]]
    np.testing.assert_array_equal(streamed.trellis(X).emit, whole.trellis(X).emit)
    assert streamed.predict([["they", "swim"]]) == [["N", "V"]]


def test_parts_are_read_when_they_are_needed(folder):
    bad = folder / "bad.conll"
    bad.write_text("they\tN\nfish\tV\n\n" * 40_000 + "they\tN\nfish\n\n")
    parts = tl.files(bad, "conll").parts(tokens=100)
    assert sum(map(len, next(parts))) == 100  # the error lies far behind
    with raises(FormatError, where="bad.conll:120002", found="fish"):
        list(parts)


def test_invalid_files(folder):
    with raises(ParameterError, parameter="paths", found="nothing-here"):
        tl.files(folder / "nothing-here*")
    for paths in (None, 3, b"a.txt", []):
        with pytest.raises(ParameterError) as caught:
            tl.files(paths)
        assert caught.value.parameter == "paths"
    with raises(ParameterError, parameter="tokens", found="0"):
        list(tl.files(folder / "a.txt").parts(tokens=0))
    (folder / "c.conll").write_text("they\tN\nfish\n\n")
    with raises(FormatError, where="c.conll", found="fish"):
        list(tl.files(folder / "c.conll", "conll"))
