"""brat: annotations that refer to a text in another file."""

import io
import json

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError

TEXT = "Ann Lee left. She saw Mr. Bo\nin Oslo. Why?\n"
ANN = "T1\tPER 0 7\tAnn Lee\nR1\tKnows Arg1:T1 Arg2:T2\nT2\tLOC 32 36\tOslo\n#1\tNote T1\tsure\n"


@pytest.fixture
def document(tmp_path):
    def put(annotations, text=TEXT):
        (tmp_path / "doc.txt").write_bytes(text.encode())
        (tmp_path / "doc.ann").write_bytes(annotations.encode())
        return tmp_path / "doc.ann"

    return put


def test_annotations_become_labels_of_sentences(document):
    corpus = tl.read(document(ANN))
    assert corpus.format == "brat"
    assert [s.tokens[0] for s in corpus] == ["Ann", "She", "Why"]
    assert corpus[0].labels == ["B-PER", "I-PER", "O", "O"]
    assert [s.tokens[s.labels.index("B-LOC")] for s in corpus if "B-LOC" in s.labels] == ["Oslo"]
    for sentence in corpus:
        assert [sentence.text[a:b] for a, b in sentence.offsets] == sentence.tokens


def test_no_sentence_ends_inside_an_annotation(document):
    corpus = tl.read(document("T1\tX 8 17\tleft. She\n"))
    assert corpus[0].tokens[:5] == ["Ann", "Lee", "left", ".", "She"]
    assert corpus[0].labels[2:5] == ["B-X", "I-X", "I-X"]


def test_another_tokenizer_and_conversion(document):
    corpus = tl.read(document(ANN), tokenize=str_pieces)
    assert corpus.tokens == [TEXT.split()]  # a function finds no sentences
    out = io.BytesIO()
    tl.write(tl.read(document(ANN)), out, "jsonl-spans")
    (written,) = map(json.loads, out.getvalue().splitlines())
    assert written["text"] == TEXT
    assert [TEXT[x["start"] : x["end"]] for x in written["spans"]] == ["Ann Lee", "Oslo"]
    with raises(FormatError, parameter="format", expected="can be written", found="'brat'"):
        tl.write(corpus, io.BytesIO(), "brat")


def str_pieces(text):
    begin = 0
    for word in text.split():
        begin = text.index(word, begin)
        yield begin, begin + len(word)
        begin += len(word)


@pytest.mark.parametrize(
    ("row", "expected", "found"),
    [
        ("T2\tPER 0 3;8 12\tAnn left", "one piece", "discontinuous"),
        ("T2\tPER 0 4\tBob", "characters 0 to 4", "'Bob'"),
        ("Ann B-PER", "an annotation such as", "'Ann B-PER'"),
    ],
)
def test_mistakes_have_their_line(document, row, expected, found):
    with raises(FormatError, where="doc.ann:5", expected=expected, found=found):
        tl.read(document(ANN + row + "\n"))


def test_the_text_must_stand_beside_it(document, tmp_path):
    path = document(ANN)
    (tmp_path / "doc.txt").unlink()
    with raises(FormatError, where="doc.ann", expected="doc.txt", found="none"):
        tl.read(path)
