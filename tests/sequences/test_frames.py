"""Corpora from pairs, dicts and data frames, and back."""

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError, LabelError, SentenceError


def test_pairs():
    corpus = tl.Corpus.from_pairs([[("They", "PRP"), ["fish", None]], []])
    assert corpus.tokens == [["They", "fish"], []]
    assert corpus.labels == [["PRP", None], []]
    with raises(SentenceError, where="sentence 0, token 1", expected="(token, label)"):
        tl.Corpus.from_pairs([[("They", "PRP"), ("fish",)]])
    with raises(SentenceError, expected="(token, label)", hint="for word, tag, label in"):
        tl.Corpus.from_pairs([[("They", "PRP", "B-NP")]])  # as NLTK's iob_sents()
    with raises(LabelError, where="sentence 1, token 0"):
        tl.Corpus.from_pairs([[("a", "X")], [("b", 3)]])
    with raises(SentenceError, found="str"):
        tl.Corpus.from_pairs("text")


def test_dicts():
    rows = [{"id": 1, "words": ["a", "b"], "pos_tags": np.array([1, -100]), "lemma": ("A", "B")}]
    corpus = tl.Corpus.from_dicts(rows, label_names=["N", "V"])
    assert (corpus.tokens, corpus.labels) == ([["a", "b"]], [["V", None]])
    assert corpus[0].columns == {"lemma": ["A", "B"]}
    with raises(FormatError, where="sentence 0", hint="label_names"):
        tl.Corpus.from_dicts([{"tokens": ["a"], "ner_tags": [1]}])
    with raises(FormatError, where="sentence 1", expected="1 labels"):
        tl.Corpus.from_dicts(
            [{"tokens": ["a"], "tags": ["X"]}, {"tokens": ["a"], "tags": ["X", "Y"]}]
        )


def test_a_data_set_has_the_names_of_its_labels():
    class ClassLabel:
        names = ("O", "B-PER")

    class Sequence:
        feature = ClassLabel()

    class Dataset(list):
        features = {"tokens": None, "ner_tags": Sequence()}  # noqa: RUF012 a stand-in

    rows = Dataset([{"tokens": ["Ann"], "ner_tags": [1]}])
    assert tl.Corpus.from_dicts(rows).labels == [["B-PER"]]


TABLE = {
    "Sentence #": ["1", None, "2"],
    "Word": ["Ann", "left", "Oslo"],
    "POS": ["N", "V", "N"],
    "Tag": ["B-PER", None, "B-LOC"],
}


def test_columns_as_a_dict():
    corpus = tl.Corpus.from_frame(TABLE)
    assert corpus.tokens == [["Ann", "left"], ["Oslo"]]
    assert corpus.labels == [["B-PER", None], ["B-LOC"]]
    with raises(FormatError, where="row 1", expected="'Word'", found="nan"):
        tl.Corpus.from_frame(TABLE | {"Word": ["Ann", float("nan"), "Oslo"]})
    with raises(FormatError, where="row 0", expected="'Sentence #'"):
        tl.Corpus.from_frame(TABLE | {"Sentence #": [None, "1", "2"]})


def test_frames_with_a_row_per_sentence():
    frame = {"id": [7, 8], "tokens": [["Ann", "left"], ["Oslo"]], "ner_tags": [[1, 0], [-100]]}
    corpus = tl.Corpus.from_frame(frame, label_names=["O", "B-PER"])
    assert corpus.tokens == [["Ann", "left"], ["Oslo"]]
    assert corpus.labels == [["B-PER", "O"], [None]]
    other = {"sent": [["Ann"]], "tags": [["PER"]]}
    assert tl.Corpus.from_frame(other).labels == [["PER"]]
    with raises(FormatError, where="sentence 0", hint="label_names"):
        tl.Corpus.from_frame(frame)


def test_numbered_labels_of_a_frame():
    frame = TABLE | {"Tag": [1, None, 0]}
    corpus = tl.Corpus.from_frame(frame, label_names=["O", "B-PER"])
    assert corpus.labels == [["B-PER", None], ["O"]]
    with raises(FormatError, expected="0 to 1", found="2"):
        tl.Corpus.from_frame(TABLE | {"Tag": [1, None, 2]}, label_names=["O", "B-PER"])


def test_lists_beside_a_sentence_column():
    frame = {name: [column] for name, column in TABLE.items()} | {"Sentence #": ["1"]}
    corpus = tl.Corpus.from_frame(frame | {"Tag": [["B-PER", "O", "B-LOC"]]})
    assert corpus.labels == [["B-PER", "O", "B-LOC"]]
    assert corpus[0].columns == {"POS": ["N", "V", "N"]}


def test_a_column_named_label_has_the_labels():
    frame = {"sentence": [0, 0], "token": ["Ann", "left"], "label": ["PER", "O"], "POS": ["N", "V"]}
    assert tl.Corpus.from_frame(frame).labels == [["PER", "O"]]


@pytest.mark.parametrize(
    ("frame", "parameter", "found"),
    [
        ({"sentence": [1], "labels": ["O O"]}, "token", "labels"),
        ({"sentence": [1]}, "token", "none"),
        ({}, "sentence", "None"),
        ({"sentence": [1, 1], "word": ["Ann"]}, "frame", "'word': 1"),
    ],
)
def test_frames_without_the_columns_of_a_corpus(frame, parameter, found):
    with raises(FormatError, parameter=parameter, found=found):
        tl.Corpus.from_frame(frame)


def test_columns_by_number_and_without_rows():
    frame = {0: [1, 1], 1: ["Ann", "left"], 2: ["PER", "O"]}
    assert tl.Corpus.from_frame(frame, sentence=0, token=1, label=2).labels == [["PER", "O"]]
    assert len(tl.Corpus.from_frame({name: [] for name in TABLE})) == 0


def test_dicts_are_not_sentences_nor_corpora():
    with raises(SentenceError, where="sentence 0", found="dict", hint="from_dicts"):
        tl.Corpus([{"tokens": ["a"], "tags": ["X"]}])
    with raises(SentenceError, found="['train']", hint="rows['train']"):
        tl.Corpus.from_dicts({"train": [{"tokens": ["a"], "tags": ["X"]}]})
    with raises(FormatError, where="sentence 0", parameter="label", expected="tokens, tags"):
        tl.Corpus.from_dicts([{"tokens": ["a"], "tags": ["X"]}], label="ner")
    with raises(FormatError, expected="'tokens'", found="the keys are 'text', 'entities'"):
        tl.Corpus.from_dicts([{"text": "a b", "entities": []}])


def test_numbered_labels_of_any_number_type():
    rows = [{"tokens": ["a", "b"], "tags": [np.int64(1), 0.0]}]
    assert tl.Corpus.from_dicts(rows, label_names=["O", "X"]).labels == [["X", "O"]]


@pytest.mark.peers
def test_missing_values_and_names_of_pandas():
    import pandas

    words = pandas.array(["Ann", "left"], dtype="string")
    numbers = pandas.array([1, None], dtype="Int64")
    labels = pandas.array(["PER", None], dtype="string")
    frame = pandas.DataFrame({"sentence": numbers, "word": words, "tag": labels})
    assert tl.Corpus.from_frame(frame).labels == [["PER", None]]
    frame["word"] = labels
    with raises(FormatError, where="row 1", expected="'word'", found="<NA>"):
        tl.Corpus.from_frame(frame)
    frame.columns = ["sentence", "word", "word"]
    with raises(FormatError, parameter="frame", found="sentence, word, word"):
        tl.Corpus.from_frame(frame)
    with raises(FormatError, parameter="sentence", hint="reset_index"):
        tl.Corpus.from_frame(pandas.DataFrame(TABLE).set_index("Sentence #"))


@pytest.mark.peers
def test_frames_of_pandas():
    import pandas

    frame = pandas.DataFrame(TABLE)
    corpus = tl.Corpus.from_frame(frame)
    assert corpus.tokens == [["Ann", "left"], ["Oslo"]]
    assert corpus.labels == [["B-PER", None], ["B-LOC"]]
    assert corpus[0].columns == {"POS": ["N", "V"]}
    assert tl.Corpus.from_frame(frame, label="POS").labels == [["N", "V"], ["N"]]
    back = corpus.to_frame()
    assert back["sentence"].tolist() == [0, 0, 1]
    assert list(back.columns) == ["sentence", "token", "label", "POS"]
    assert tl.Corpus.from_frame(back) == corpus
    rows = pandas.DataFrame({"tokens": [["a"], ["b"]], "ner_tags": [np.array([0]), np.array([1])]})
    assert tl.Corpus.from_frame(rows, label_names=["X", "Y"]).labels == [["X"], ["Y"]]
    frame["Tag"] = [1, None, 0]  # a missing number makes the others floats
    assert tl.Corpus.from_frame(frame, label_names=["X", "Y"]).labels == [["Y", None], ["X"]]
    frame.loc[1, "Word"] = None
    with raises(FormatError, where="row 1", expected="'Word'", hint="keep_default_na"):
        tl.Corpus.from_frame(frame)
    with raises(FormatError, parameter="sentence", expected="Word, POS"):
        tl.Corpus.from_frame(frame[["Word", "POS"]])
