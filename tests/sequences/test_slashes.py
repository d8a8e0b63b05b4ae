import io

import pytest

import tagloom as tl
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
    ("data", "message"),
    [
        (b"a/X\nb/Y c\n", r":2: expected word/TAG, found 'c' as item 2.*sep="),
        (b"a/X /Y\n", ":1: expected word/TAG, found '/Y'"),
        (b"a/X b/\n", ":1: expected word/TAG, found 'b/'"),
        (b"a/X\n\xfc/Y\n", r":2: byte 0xFC at offset 4 is not UTF-8"),
        (b"a/X\nb\0/Y\n", r":2: NUL byte at offset 5"),
    ],
)
def test_faults(data, message):
    with pytest.raises(FormatError, match=message):
        read(data)


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (tl.Sentence(["New York"], ["X"]), "sentence 0, token 0: 'New York' with 'X' cannot be"),
        (tl.Sentence(["a"], ["X/Y"]), "cannot be written as word/TAG"),
        (tl.Sentence(["a"], [""]), "cannot be written as word/TAG"),
        (tl.Sentence(["a"], [{"X", "Y"}]), "the label is one of {X,Y}"),
        (tl.Sentence(["a"]), "the label is unknown"),
        (tl.Sentence([]), "sentence 0 has no tokens"),
    ],
)
def test_what_slashes_cannot_hold(sentence, message):
    with pytest.raises(FormatError, match=message):
        written([sentence])
