"""Too many labels, labels elsewhere, other input: errors of tagloom that state the remedy."""

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import LabelError, ParameterError, SentenceError
from tagloom.scores import word_counts

pytestmark = pytest.mark.filterwarnings("ignore::tagloom.errors.DataWarning")


def labelled(n):
    tokens = [f"w{i}" for i in range(n)]
    return [tokens[j : j + 10] for j in range(0, n, 10)], [
        [f"L{i}" for i in range(j, min(j + 10, n))] for j in range(0, n, 10)
    ]


@pytest.mark.parametrize("kind", [tl.CRF, tl.MEMM, tl.TokenClassifier, tl.StructuredPerceptron])
def test_more_labels_than_16_bits_can_number(kind):
    with raises(LabelError, expected="at most 65,535 different labels", found="65,536"):
        kind("words").fit(*labelled(65_536))


@pytest.mark.parametrize("kind", [tl.CRF, tl.MEMM])
def test_edge_templates_with_many_labels(kind):
    with raises(ParameterError, parameter="features", found="257 labels"):
        kind(["word", "edge(word)"]).fit(*labelled(257))


def test_an_hmm_states_its_limit():
    with raises(ParameterError, parameter="labels", expected="at most 4,471 labels", found="5,000"):
        tl.HMM().fit(*labelled(5_000))
    with raises(ParameterError, parameter="order", hint="Choose a lower order"):
        tl.HMM(order=2).fit(*labelled(300))


def test_a_table_of_words_states_its_limit(monkeypatch):
    X, y = labelled(100)
    monkeypatch.setattr(word_counts, "_MOST_COUNTS", 9_999)
    with raises(LabelError, expected="at most 9,999 pairs", found="100 words and 100 labels"):
        tl.HMM().fit(X, y)
    monkeypatch.setattr(word_counts, "_MOST_COUNTS", 10_000)
    assert tl.HMM().fit(X, y).predict(X) == y


def test_rows_that_have_their_labels_elsewhere():
    with raises(LabelError, where="sentence 0", hint="Corpus.from_pairs"):
        tl.CRF("words").fit([[("They", "PRP"), ("fish", "VBP")]])
    with raises(LabelError, where="sentence 0", hint="Corpus.from_dicts"):
        tl.CRF("words").fit([{"tokens": ["They"], "ner_tags": ["O"]}])
    with raises(LabelError, hint="Pass them as y"):
        tl.CRF("words").fit([["They"]])


def test_a_sparse_matrix_is_not_a_list_of_sentences():
    sparse = pytest.importorskip("scipy.sparse")
    with raises(SentenceError, found="a sparse matrix", hint="toarray"):
        tl.CRF(None).fit(sparse.eye(3), [["X", "Y", "X"]])
    with raises(SentenceError, where="sentence 0", found="a sparse matrix", hint="toarray"):
        tl.CRF(None).fit([sparse.eye(3).tocsr()], [["X", "Y", "X"]])
