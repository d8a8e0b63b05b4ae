import io

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError


def read(data, **options):
    return tl.read(io.BytesIO(data), "slash", **options)


def written(corpus, **options):
    out = io.BytesIO()
    tl.write(corpus, out, "slash", **options)
    return out.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"They/PRON can/AUX fish/VERB\n1/2/NUM //SYM\n",
        b"They/PRON  can/AUX\tfish/VERB \r\n\r\n 1/2/NUM //SYM",
        b"\n\nThey/PRON can/AUX fish/VERB\n1/2/NUM //SYM\n\n\n",
    ],
)
def test_the_last_slash_counts_and_the_line_survives(data):
    corpus = read(data)
    assert corpus.tokens == [["They", "can", "fish"], ["1/2", "/"]]
    assert corpus.labels == [["PRON", "AUX", "VERB"], ["NUM", "SYM"]]
    assert written(corpus) == data
    corpus[0].labels[1] = "VERB"
    assert written(corpus) == data.replace(b"AUX", b"VERB")


def test_lines_are_known():
    corpus = read(b"\n\na/X\n\nb/Y\n")
    assert [s.line_of(0) for s in corpus] == [3, 5]


def test_another_sign_may_join_word_and_tag():
    corpus = read(b"a/b_X c_Y\n", sep="_")
    assert (corpus.tokens, corpus.labels) == ([["a/b", "c"]], [["X", "Y"]])
    assert written(corpus) == b"a/b_X c_Y\n"
    assert written(corpus, sep="|") == b"a/b|X c|Y\n"


def test_unknown_labels():
    corpus = read(b"a/X b/?\n", unknown="?")
    assert corpus.labels == [["X", None]]
    assert written(corpus) == b"a/X b/?\n"


@pytest.mark.parametrize(
    ("data", "where", "expected", "found"),
    [
        (b"a/X\nb/Y c\n", ":2", "word/TAG", "'c' as item 2"),
        (b"a/X /Y\n", ":1", "word/TAG", "'/Y'"),
        (b"a/X b/\n", ":1", "word/TAG", "'b/'"),
        (b"a/X\n\xfc/Y\n", ":2", "UTF-8", "byte 0xFC at offset 4"),
        (b"a/X\nb\0/Y\n", ":2", "UTF-8", "byte 0x00 at offset 5"),
    ],
)
def test_faults(data, where, expected, found):
    with raises(FormatError, where=where, expected=expected, found=found):
        read(data)


@pytest.mark.parametrize(
    ("sentence", "where", "found"),
    [
        (tl.Sentence(["New York"], ["X"]), "sentence 0, token 0", "'New York' with 'X'"),
        (tl.Sentence(["a"], ["X/Y"]), "sentence 0, token 0", "'a' with 'X/Y'"),
        (tl.Sentence(["a"], [""]), "sentence 0, token 0", "'a' with ''"),
        (tl.Sentence(["a"], [{"X", "Y"}]), "sentence 0, token 0", "one of {X,Y}"),
        (tl.Sentence(["a"]), "sentence 0, token 0", "None (unknown)"),
        (tl.Sentence([]), "sentence 0", "none"),
    ],
)
def test_what_slashes_cannot_hold(sentence, where, found):
    with raises(FormatError, where=where, found=found):
        written([sentence])
