"""The lookup baseline."""

import io
from collections import Counter, defaultdict

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tagloom as tl
from tagloom import storage
from tagloom.errors import LabelError, ModelFileError, ParameterError
from tagloom.models import baselines

X = [["they", "can", "fish"], ["can", "of", "fish"], ["they", "fish"], ["can", "walk"]]
Y = [["N", "V", "V"], ["N", "P", "N"], ["N", "V"], ["V", "V"]]


def test_known_words_get_their_most_frequent_label():
    train = tl.datasets.load("english", "train", label="upos")
    tagger = tl.MostFrequentTag().fit(train)
    counts = defaultdict(Counter)
    for sentence in train:
        for word, label in zip(sentence.tokens, sentence.labels, strict=True):
            counts[word][label] += 1
    assert sorted(tagger.words_) == sorted(counts)
    for word, seen in counts.items():
        ((label,),) = tagger.predict([[word]])
        assert seen[label] == max(seen.values())


def test_unknown_words_get_the_commonest_label_of_words_that_occur_once():
    tagger = tl.MostFrequentTag(max_suffix=0).fit(X, Y)
    assert tagger.predict([["swim"]]) == [["P"]]  # of/P and walk/V occur once; P comes first
    tagger = tl.MostFrequentTag(max_suffix=2).fit(X, Y)
    assert tagger.predict([["talk"]]) == [["V"]]


def test_unknown_words_take_after_known_ones_that_differ_in_capitals():
    tagger = tl.MostFrequentTag().fit(X, Y)
    assert tagger.predict([["Fish", "They"]]) == [["V", "N"]]
    without = tl.MostFrequentTag(fold_case=False, max_suffix=0).fit(X, Y)
    assert without.predict([["Fish", "They"]]) == [["P", "P"]]


def test_neighbours_do_not_matter():
    """000 §7.1: words alone cannot tell the cans and the fish apart."""
    tagger = tl.MostFrequentTag().fit(X, Y)
    assert tagger.predict([["they", "can", "fish"]])[0][1:] == ["V", "V"]
    assert tagger.predict([["can", "of", "fish"]]) == [["V", "P", "V"]]
    trellis = tagger.trellis([["they", "can", "fish"]])
    assert trellis.trans is None
    alone = np.concatenate(tagger.predict_marginals([["they"], ["can"], ["fish"]]))
    assert_allclose(trellis.marginals(), alone, rtol=1e-5)


def test_probabilities_are_relative_frequencies():
    tagger = tl.MostFrequentTag().fit(X, Y)
    assert tagger.labels_.tolist() == ["N", "P", "V"]
    assert_allclose(tagger.predict_marginals([["fish"]])[0], [[1 / 3, 0, 2 / 3]], atol=1e-3)


def test_ties_go_to_the_label_that_is_commoner_among_words_like_it():
    X = [["a"], ["a"], ["b"], ["c"]]
    tagger = tl.MostFrequentTag().fit(X, [["N"], ["V"], ["V"], ["V"]])
    assert tagger.predict([["a"]]) == [["V"]]


def test_bad_parameters_are_named():
    for name, value in {"max_suffix": -1, "min_count": 0, "fold_case": "no"}.items():
        with pytest.raises(ParameterError) as caught:
            tl.MostFrequentTag(**{name: value}).fit(X, Y)
        assert (caught.value.parameter, caught.value.found) == (name, repr(value))


def sparse(monkeypatch, X, Y, **options):
    monkeypatch.setattr(baselines, "_MOST_DENSE", 0)
    return tl.MostFrequentTag(**options).fit(X, Y)


@pytest.mark.parametrize("options", [{}, {"min_count": 3}, {"fold_case": False, "max_suffix": 0}])
def test_sparse_counts_equal_a_dense_table(monkeypatch, options):
    train = tl.datasets.load("english", "train", label="upos")[:150]
    test = [*tl.datasets.load("english", "test", label="upos")[:40], ["the", "THE", "xyzzy"]]
    weight = [0.5 + i % 3 for i in range(len(train))]
    dense = tl.MostFrequentTag(**options).fit(train, sample_weight=weight)
    monkeypatch.setattr(baselines, "_MOST_DENSE", 0)
    tagger = tl.MostFrequentTag(**options).fit(train, sample_weight=weight)
    assert tagger.words_ == dense.words_
    for ours, theirs in zip(
        tagger.predict_marginals(test), dense.predict_marginals(test), strict=True
    ):
        assert_allclose(ours, theirs, rtol=1e-4, atol=1e-7)
    labels, probs = tagger.predict_with_probs(test)
    assert labels == tagger.predict(test) == dense.predict(test)
    assert_allclose(np.concatenate(probs), np.concatenate(dense.predict_with_probs(test)[1]), 1e-4)
    pattern = {"pattern": "word=the", "n": 1}
    assert tagger.feature_weights(**pattern)[0][:2] == dense.feature_weights(**pattern)[0][:2]
    assert tagger.explain(test[0]).to_dict().keys() == dense.explain(test[0]).to_dict().keys()


def test_sparse_counts_are_saved(monkeypatch):
    tagger = sparse(monkeypatch, X, Y)
    buffer = io.BytesIO()
    tagger.save(buffer)
    loaded = tl.load(buffer.getvalue())
    assert loaded.predict(X) == tagger.predict(X)
    header, arrays = storage.read_bytes(buffer.getvalue())
    for name, change in {
        "label_keys": lambda keys: keys[::-1],
        "label_counts": lambda counts: counts - 9,
        "parent": lambda parent: np.roll(parent, 1) * 0 + len(parent) - 1,
    }.items():
        forged = storage.to_bytes(header, {**arrays, name: change(arrays[name]).copy()})
        with pytest.raises(ModelFileError) as caught:
            tl.load(forged)
        assert name in str(caught.value)


@pytest.mark.filterwarnings("ignore::tagloom.errors.DataWarning")
def test_a_hundred_thousand_labels():
    n = 100_000
    X = [[f"w{i}" for i in range(j, j + 100)] for j in range(0, n, 100)]
    Y = [[f"L{i}" for i in range(j, j + 100)] for j in range(0, n, 100)]
    tagger = tl.MostFrequentTag().fit(X, Y)
    assert tagger.predict(X[:3]) == Y[:3]
    with pytest.raises(LabelError) as caught:
        tagger.predict_marginals(X[:1])
    assert caught.value.found == "100,000"
