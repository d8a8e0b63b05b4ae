"""The spaCy component, in a blank pipeline; no model of spaCy is needed."""

from pathlib import Path

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import ModelFileError, ParameterError

pytestmark = pytest.mark.peers

TEXTS = ["Storm warning for Cornwall .", "The Verden Group said on Monday that Keith Marlow left ."]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder, paths = tmp_path_factory.mktemp("models"), {}
    for label in ("entity", "upos", "xpos"):
        source = "upos" if label == "xpos" else label
        corpus = tl.datasets.load("english", "train", label=source)[:150]
        rename = str.lower if label == "xpos" else str  # tags of a language, not universal ones
        y = [[rename(name) for name in path] for path in corpus.labels]
        paths[label] = str(folder / f"{label}.tagloom")
        tl.CRF().fit(corpus.tokens, y).save(paths[label])
    return paths


@pytest.fixture
def nlp():
    spacy = pytest.importorskip("spacy")
    return spacy.blank("en")


def words(doc):
    return [token.text for token in doc]


def test_entities(nlp, models):
    nlp.add_pipe("tagloom", config={"model": models["entity"]})
    tagger = tl.load(models["entity"])
    for doc in nlp.pipe(TEXTS):
        spans = tl.labels.to_spans(tagger.predict([words(doc)])[0], tagger.scheme_)
        assert [(e.label_, e.start, e.end) for e in doc.ents] == [tuple(span) for span in spans]
    assert any(doc.ents for doc in nlp.pipe(TEXTS))


@pytest.mark.parametrize(("label", "attribute"), [("upos", "pos_"), ("xpos", "tag_")])
def test_tags(nlp, models, label, attribute):
    nlp.add_pipe("tagloom", config={"model": models[label]})
    doc = nlp(TEXTS[1])
    assert [getattr(t, attribute) for t in doc] == tl.load(models[label]).predict([words(doc)])[0]


def test_sentences_are_labelled_one_by_one(nlp, models):
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("tagloom", config={"model": models["upos"], "assign": "tag"})
    doc = nlp(" ".join(TEXTS))
    expected = tl.load(models["upos"]).predict([words(sentence) for sentence in doc.sents])
    assert len(expected) == 2
    assert [t.tag_ for t in doc] == [label for path in expected for label in path]


def test_batches_give_what_single_docs_give(nlp, models):
    nlp.add_pipe("tagloom", config={"model": models["upos"]})
    texts = TEXTS * 5 + [""]
    one_by_one = [[t.pos_ for t in nlp(text)] for text in texts]
    assert [[t.pos_ for t in doc] for doc in nlp.pipe(texts, batch_size=3)] == one_by_one


def test_a_saved_pipeline_contains_the_model(nlp, models, tmp_path):
    import spacy

    copy = tmp_path / "moved.tagloom"
    copy.write_bytes(Path(models["upos"]).read_bytes())
    nlp.add_pipe("tagloom", config={"model": str(copy)})
    expected = [t.pos_ for t in nlp(TEXTS[0])]
    nlp.to_disk(tmp_path / "pipeline")
    data = nlp.to_bytes()
    copy.unlink()
    assert [t.pos_ for t in spacy.load(tmp_path / "pipeline")(TEXTS[0])] == expected
    other = spacy.blank("en")
    other.add_pipe("tagloom", config={"model": str(copy)})
    with raises(ModelFileError, where="moved.tagloom"):
        other(TEXTS[0])
    assert [t.pos_ for t in other.from_bytes(data)(TEXTS[0])] == expected


def test_mistakes(nlp, models):
    for assign, label in (("ents", "upos"), ("pos", "xpos"), ("other", "upos")):
        with raises(ParameterError, parameter="assign"):
            nlp.add_pipe("tagloom", config={"model": models[label], "assign": assign})
