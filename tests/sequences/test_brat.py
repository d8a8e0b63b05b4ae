"""brat: annotations that refer to a text in another file."""

import io
import json

import pytest

import tagloom as tl
from commands import run
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


def test_writing_annotations_keeps_text_and_spans(tmp_path):
    text = "Ann left.\n\nShe met  Bob Lee in Oslo."
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    rows = "T1\tPER 0 3\tAnn\nT2\tPER 20 27\tBob Lee\nT3\tLOC 31 35\tOslo\n"
    (tmp_path / "a.ann").write_text(rows, encoding="utf-8")
    corpus = tl.read(tmp_path / "a.ann")
    assert len(corpus) > 1
    tl.write(corpus, tmp_path / "b.ann")
    assert (tmp_path / "b.txt").read_text(encoding="utf-8") == text
    assert (tmp_path / "b.ann").read_text(encoding="utf-8") == rows


def test_writing_sentences_without_text(tmp_path):
    corpus = tl.Corpus([["Ann", "left"], ["Bob"]], [["B-PER", "O"], ["B-PER"]])
    tl.write(corpus, tmp_path / "c.ann")
    assert (tmp_path / "c.txt").read_text(encoding="utf-8") == "Ann left\nBob"
    (labels,) = tl.read(tmp_path / "c.ann").labels
    assert labels == ["B-PER", "O", "B-PER"]
    with raises(FormatError, parameter="path"):
        tl.write(corpus, "-", "brat")
    with raises(FormatError, where="sentence 0, token 0"):
        tl.write(tl.Corpus([["Ann"]], [["PER"]]), tmp_path / "d.ann")


def test_text_in_another_encoding(tmp_path):
    (tmp_path / "a.ann").write_text("T1\tPER 0 3\tZoë\n", encoding="latin-1")
    (tmp_path / "a.txt").write_bytes("Zoë left".encode("latin-1"))
    assert tl.read(tmp_path / "a.ann", encoding="latin-1").labels == [["B-PER", "O"]]
    done = run(tmp_path, "check", "a.ann", "--encoding", "latin-1", "--ignore", "rare")
    assert (done.returncode, done.stderr) == (0, "")
    with raises(FormatError, where="a.txt:1", expected="UTF-8", found="0xEB at offset 2"):
        tl.read(tmp_path / "a.ann")
    (tmp_path / "a.ann").write_text("T1\tPER 4 8\tleft\n")
    with raises(FormatError, where="a.txt:1", expected="text in ascii"):
        tl.read(tmp_path / "a.ann", encoding="ascii")
    done = run(tmp_path, "check", "a.ann")
    assert (done.returncode, done.stderr) == (1, "")
    assert "a.txt:1: expected text in UTF-8" in done.stdout


def test_check_reports_annotations_that_cut_tokens(tmp_path):
    (tmp_path / "a.ann").write_text("T1\tPER 0 1\tA\n")
    (tmp_path / "a.txt").write_text("Ann left")
    done = run(tmp_path, "check", "a.ann")
    assert (done.returncode, done.stderr) == (1, "")
    assert "a.ann: span 0:1 'PER' ('A') cuts" in done.stdout
