"""The lookup baseline."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tagloom as tl
from tagloom.errors import ParameterError

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
