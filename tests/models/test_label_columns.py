"""The wrong column as labels: words are noticed, labels of any kind are not."""

import os
import warnings
from pathlib import Path

import pytest

import tagloom as tl
from raising import warns
from tagloom.errors import DataWarning
from tagloom.models.data import number_labels, read_labels

DATA = os.environ.get("TAGLOOM_DATA")


def number(rows):
    return number_labels(read_labels(rows, rows, rows, may_be_open=True), None)


@pytest.mark.parametrize("model", [tl.HMM, tl.MostFrequentTag, tl.StructuredPerceptron, tl.MEMM])
def test_words_as_labels_are_noticed(model):
    sentences = list(tl.datasets.load("english", "train", label="upos"))[:20]
    X = [s.tokens for s in sentences]
    options = {"max_iterations": 1} if "max_iterations" in model().get_params() else {}
    with warns(DataWarning, expected="fewer labels", found="different labels"):
        model(**options).fit(X, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # No warning if the user lists all labels.
        model(**options, labels=sorted({w for x in X for w in x})).fit(X, X)


@pytest.mark.parametrize("label", ["upos", "chunk", "entity"])
def test_the_labels_of_every_part_of_the_corpus_are_not(label):
    labels = tl.datasets.load("english", "train", label=label).labels
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(10, len(labels), 10):
            number(labels[:n])


@pytest.mark.skipif(not DATA, reason="set TAGLOOM_DATA to the folder of the corpora")
def test_columns_of_real_corpora():
    paths = sorted(Path(str(DATA)).glob("*/*.conllu"))
    assert paths
    for path in paths:
        for label in ("upos", "xpos", "feats", "upos+feats", "deprel"):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                number(tl.read(path, label=label).labels)
        for label in ("form", "lemma"):
            with warns(DataWarning, expected="fewer labels", found="different labels"):
                number(tl.read(path, label=label).labels)
