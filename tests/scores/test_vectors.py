"""Readers of word vectors: every usual file gives the same table."""

import gzip
import struct

import numpy as np
import pytest

from raising import raises
from tagloom.errors import FormatError, ModelFileError, ParameterError
from tagloom.scores.vectors import Vectors, read_vectors

WORDS = ["they", "can", "New_York", "été"]
MATRIX = np.array([[0.5, -1.0, 2.0], [0, 0.25, 8], [1, 1, 1], [-0.125, 3, 0]], np.float32)
TEXT = "".join(
    f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, MATRIX.tolist(), strict=True)
)
BINARY = b"4 3\n" + b"\n".join(
    word.encode() + b" " + row.astype("<f4").tobytes()
    for word, row in zip(WORDS, MATRIX, strict=True)
)


def files(folder):
    glove, word2vec, fasttext = TEXT.encode(), f"4 3\n{TEXT}".encode(), BINARY
    for name, data in {"a.txt": glove, "b.vec": word2vec, "c.bin": fasttext}.items():
        (folder / name).write_bytes(data)
        yield folder / name
    (folder / "d.gz").write_bytes(gzip.compress(glove))
    yield folder / "d.gz"
    Vectors(WORDS, MATRIX).save(folder / "e.vectors")
    yield folder / "e.vectors"


def test_all_files_give_the_same_vectors(tmp_path):
    for path in files(tmp_path):
        vectors = read_vectors(path)
        assert vectors.words == tuple(WORDS), path
        np.testing.assert_array_equal(vectors.table[1:], MATRIX)
        assert not vectors.table[0].any()


def test_binary_vectors_without_line_ends(tmp_path):
    (tmp_path / "x").write_bytes(BINARY.replace(b"\ncan", b"can").replace(b"\nNew", b"New"))
    np.testing.assert_array_equal(read_vectors(tmp_path / "x").table[1:], MATRIX)


def test_words_with_spaces_in_text(tmp_path):
    (tmp_path / "x").write_text("they 1 2\nNew York 3 4\n")
    assert read_vectors(tmp_path / "x").words == ("they", "New York")


def test_a_word_is_found_by_its_lower_case_form():
    vectors = Vectors(WORDS, MATRIX)
    assert vectors.rows(["They", "THEY", "they", "you", "new_york", "New_York"]) == [
        1, 1, 1, 0, 0, 3,
    ]  # fmt: skip


def test_rows_that_are_needed_and_the_rest():
    vectors = Vectors(WORDS, MATRIX)
    few = vectors.keep(["Can", "nothing"])
    assert few.words == ("can",)
    whole = few.merged(vectors)
    for word in WORDS:
        np.testing.assert_array_equal(whole[word], vectors[word])
    with raises(ParameterError, expected="size 3", found="size 1"):
        few.merged(Vectors(["a"], [[1.0]]))
    with raises(ParameterError, expected="at least one word of the training data"):
        vectors.keep(["nothing"])


def fasttext_model(words, matrix, bucket, least, most, *, version=12, is_quantised=False):
    """The bytes of a model of fastText: skip-grams without labels."""
    size = matrix.shape[1]
    settings = [size, 5, 5, 1, 5, 1, 2, 2, bucket, least, most, 100]
    entries = b"".join(word.encode() + b"\0" + struct.pack("<qb", 3, 0) for word in words)
    head = struct.pack("<ii12id", 793712314, version, *settings, 1e-4)
    head += struct.pack("<iiiqq", len(words), len(words), 0, 99, -1) + entries
    shape = struct.pack("<?qq", is_quantised, *matrix.shape)
    return head + shape + matrix.astype("<f4").tobytes() + b"the output matrix"


def test_binary_files_of_fasttext(tmp_path):
    words = ["</s>", "café", *(f"w{k}" for k in range(14))]
    matrix = np.random.default_rng(0).normal(size=(516, 3)).astype(np.float32)
    path = tmp_path / "x.bin"
    path.write_bytes(fasttext_model(words, matrix, 500, 1, 4))
    vectors = read_vectors(path)
    assert vectors.words == tuple(words)
    np.testing.assert_allclose(vectors["</s>"], matrix[0], rtol=1e-6)
    # The n-grams of "<café>" of 1 to 4 characters, as fasttext 0.9.3 numbers them.
    rows = [28, 263, 347, 474, 461, 177, 117, 236, 486, 378, 28, 117, 505, 213, 293, 297]
    np.testing.assert_allclose(vectors["café"], matrix[[1, *rows]].mean(axis=0), rtol=1e-5)
    path.write_bytes(fasttext_model(words, matrix[:16], 0, 0, 0))
    np.testing.assert_allclose(read_vectors(path).table[1:], matrix[:16], rtol=1e-6)


def test_damaged_files_of_fasttext(tmp_path):
    path, words, matrix = tmp_path / "x.bin", ["a", "b"], np.ones((12, 3), np.float32)
    data = fasttext_model(words, matrix, 10, 3, 6)
    for n in (8, 60, 100, len(data) - 40):
        path.write_bytes(data[:n])
        with raises(FormatError, expected="a model of fastText"):
            read_vectors(path)
    for options, found in (({"version": 3}, "version 3"), ({"is_quantised": True}, "quantised")):
        path.write_bytes(fasttext_model(words, matrix, 10, 3, 6, **options))
        with raises(FormatError, found=found):
            read_vectors(path)
    path.write_bytes(fasttext_model(words, matrix, 11, 3, 6))
    with raises(FormatError, found="a matrix of 12 x 3"):
        read_vectors(path)


def test_damaged_files(tmp_path):
    path = tmp_path / "x"
    path.write_text(TEXT + "they 0.5 0.5\n")
    with raises(FormatError, where=f"{path}:5", expected="a word and 3 numbers"):
        read_vectors(path)
    path.write_text(TEXT + "they 0.5 0.5 a\n")
    with raises(FormatError, where=f"{path}:5"):
        read_vectors(path)
    for n in (30, len(BINARY) - 1):
        path.write_bytes(BINARY[:n])
        with raises(FormatError, hint="cut off"):
            read_vectors(path)
    path.write_bytes(b"")
    with raises(FormatError, found="no words"):
        read_vectors(path)
    Vectors(WORDS, MATRIX).save(path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ModelFileError):
        read_vectors(path)


@pytest.mark.parametrize("bad", [{"a": [1.0], "b": [1.0, 2.0]}, {"a": [np.nan]}, {}, {"a": "x"}])
def test_bad_dicts(bad):
    with raises(ParameterError, parameter="vectors"):
        read_vectors(bad)
