"""spaCy's DocBin and documents, in and out."""

import pytest

import tagloom as tl
from commands import run
from raising import raises
from tagloom.errors import FormatError, SentenceError

pytestmark = pytest.mark.peers

TEXT = "Ann left.\n\nShe met  Bob Lee in Oslo."


def make_doc():
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    doc = nlp(TEXT)
    ents = [doc.char_span(*at) for at in [(0, 3, "PER"), (20, 27, "PER"), (31, 35, "LOC")]]
    doc.set_ents(ents)
    return doc


def test_a_docbin_is_read_and_written(tmp_path):
    from spacy.tokens import DocBin

    doc = make_doc()
    DocBin(docs=[doc, doc]).to_disk(tmp_path / "train.spacy")
    corpus = tl.read(tmp_path / "train.spacy")
    assert (corpus.format, corpus.label, len(corpus)) == ("docbin", "entities", 4)
    assert corpus.tokens[1] == ["She", "met", "Bob", "Lee", "in", "Oslo", "."]
    assert corpus.labels[1] == ["O", "O", "B-PER", "I-PER", "O", "B-LOC", "O"]
    assert corpus[1].text == TEXT
    tl.write(corpus, tmp_path / "again.spacy")
    again = list(DocBin().from_disk(tmp_path / "again.spacy").get_docs(doc.vocab))
    assert [d.text for d in again] == [TEXT, TEXT]
    assert [d.to_json()["ents"] for d in again] == [doc.to_json()["ents"]] * 2
    assert [s.text.strip() for s in again[0].sents] == [s.text.strip() for s in doc.sents]


def test_documents_of_a_pipeline():
    doc = make_doc()
    corpus = tl.Corpus.from_spacy([doc])
    (back,) = corpus.to_spacy(doc.vocab)
    assert [(e.text, e.label_) for e in back.ents] == [(e.text, e.label_) for e in doc.ents]
    tagged = tl.Corpus([["They", "fish"]], [["PRON", "VERB"]]).to_spacy(label="upos")
    assert [t.pos_ for t in tagged[0]] == ["PRON", "VERB"]
    assert tl.Corpus.from_spacy(tagged, label="upos").labels == [["PRON", "VERB"]]


def test_labels_that_do_not_fit(tmp_path):
    with raises(FormatError, where="sentence 0, token 0", found="'PRON'"):
        tl.Corpus([["They"]], [["PRON"]]).to_spacy()
    with raises(FormatError, parameter="label"):
        tl.Corpus([["They"]], [["PRON"]]).to_spacy(label="heads")
    with raises(FormatError, where="sentence 0", found="'XX'"):
        tl.Corpus([["They"]], [["XX"]]).to_spacy(label="upos")
    (tmp_path / "broken.spacy").write_bytes(b"no zlib")
    with raises(FormatError, expected="a DocBin of spaCy"):
        tl.read(tmp_path / "broken.spacy")


def test_check_reads_documents(tmp_path):
    tl.write(tl.Corpus([["Ann", "left"]], [["B-PER", "O"]]), tmp_path / "a.spacy")
    done = run(tmp_path, "check", "a.spacy", "--ignore", "rare")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "b.spacy").write_bytes(b"no documents")
    done = run(tmp_path, "check", "b.spacy")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "b.spacy: expected a DocBin of spaCy, found ValueError: " in done.stderr


def test_tags_go_where_spacy_has_them(tmp_path):
    corpus = tl.Corpus([["They", "fish"]], [["PRON", "VERB"]])
    tl.write(corpus, tmp_path / "train.conllu")
    tl.write(corpus.with_labels([["O", "O"]]), tmp_path / "a.spacy")
    options = ["--label", "upos", "--features", "words", "-o", "m", "-q"]
    assert run(tmp_path, "train", "crf", "train.conllu", *options).returncode == 0
    done = run(tmp_path, "tag", "m", "a.spacy", "-o", "b.spacy", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert tl.read(tmp_path / "b.spacy", label="upos").labels == corpus.labels


def test_sentences_without_tokens_and_other_objects(tmp_path):
    corpus = tl.Corpus([[], ["Ann", "left"]], [[], ["B-PER", "O"]])
    assert [doc.text for doc in corpus.to_spacy()] == ["", "Ann left"]
    tl.write(corpus, tmp_path / "a.spacy")
    assert tl.read(tmp_path / "a.spacy").labels == [["B-PER", "O"]]
    for other in (["Ann left"], make_doc()):
        with raises(SentenceError, expected="as in [doc]"):
            tl.Corpus.from_spacy(other)
