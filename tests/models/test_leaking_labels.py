"""A template that reads the labels themselves is refused, however the column is named."""

import io

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import TemplateError
from tagloom.features import CRFppTemplates, WapitiTemplates

TEXT = "EU NNP B-ORG\nrejects VBZ O\n\nGerman JJ B-MISC\ncall NN O\n"


@pytest.fixture
def corpus():
    return tl.read(io.StringIO(TEXT), "conll", columns=["word", "pos", "ner"])


@pytest.mark.parametrize(
    "features",
    [
        ["word", "col(ner)"],
        ["word", "col(ner)[-1]"],
        ["word", "col(ner) & word"],
        ["word", "col(2)"],
        ["word", "edge(col(ner))"],
        CRFppTemplates(["U0:%x[0,0]", "U1:%x[-1,2]"]),
        CRFppTemplates(["U0:%x[0,0]/%x[0,2]"]),
        WapitiTemplates(["u:%x[0,0]", 'u:%m[0,2,"."]']),
    ],
)
@pytest.mark.parametrize("model", [tl.CRF, tl.StructuredPerceptron, tl.MEMM, tl.TokenClassifier])
def test_a_template_of_the_label_column_is_refused(model, features, corpus):
    with raises(TemplateError, found="column"):
        model(features).fit(corpus)


def test_the_message_names_the_template(corpus):
    with raises(TemplateError, found="column ner") as caught:
        tl.CRF(["word", "col(ner)"]).fit(corpus)
    assert "template 1, 'col(ner)', reads column ner" in str(caught.value)


def test_hmm_emissions_are_checked_too(corpus):
    with raises(TemplateError, found="column ner"):
        tl.HMM(emissions=["word", "col(ner)"]).fit(corpus)


def test_labels_given_apart_are_checked_too(corpus):
    with raises(TemplateError, found="column pos"):
        tl.CRF(["word", "col(pos)"]).fit(corpus, [s.columns["pos"] for s in corpus])


def conllu():
    rows = "1\tBirds\t_\tNOUN\tNNS\tNumber=Plur\t_\t_\t_\t_\n2\t!\t_\tPUNCT\t.\t_\t_\t_\t_\t_\n\n"
    return tl.read(io.StringIO(rows), "conllu", label="upos+feats")


@pytest.mark.parametrize("column", ["upos", "feats"])
def test_a_part_of_joined_labels_is_refused(column):
    with raises(TemplateError, found=f"column {column}"):
        tl.CRF(["word", f"col({column})"]).fit(conllu())


def test_a_column_without_values_is_not_a_part_of_labels():
    corpus = conllu()
    labels = [s.columns["upos"] for s in corpus]
    assert tl.CRF(["word", "col(lemma)"]).fit(corpus, labels).predict(corpus) == labels


def test_labels_in_another_scheme_are_refused(corpus):
    bioes = corpus.with_labels(tl.labels.convert(corpus, "bio", "bioes"))
    with raises(TemplateError, found="column ner"):
        tl.CRF(["word", "col(ner)"]).fit(bioes)


def test_unknown_labels_do_not_hide_the_column():
    text = TEXT.replace("rejects VBZ O", "rejects VBZ ?")
    corpus = tl.read(io.StringIO(text), columns=["word", "pos", "ner"], unknown="?")
    with raises(TemplateError, found="column ner"):
        tl.CRF(["word", "col(ner)"]).fit(corpus)


def test_other_columns_are_read_as_before(corpus):
    tagger = tl.CRF(["word", "col(pos)"]).fit(corpus)
    assert tagger.predict(corpus) == [["B-ORG", "O"], ["B-MISC", "O"]]
    chunks = [["X", "Y"], ["Y", "X"]]  # other labels: the column ner is a feature like others
    assert tl.CRF(["word", "col(ner)"]).fit(corpus, chunks).predict(corpus) == chunks


def test_a_file_without_a_column_is_told_which_and_why(corpus):
    tagger = tl.CRF(["word", "col(pos)"]).fit(corpus)
    with raises(
        TemplateError,
        where="sentence 0",
        expected="column pos, which template 1, 'col(pos)', reads",
    ):
        tagger.predict(tl.read(io.StringIO("EU\nrejects\n"), "conll"))
