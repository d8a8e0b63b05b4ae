"""The worked examples, judged by going through every path."""

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest

from raising import raises
from tagloom import Corpus, datasets
from tagloom.errors import DatasetError


def paths(tables, tokens):
    """Every path with its score, best first."""
    emit, Y = tables.emit(tokens), len(tables.labels)
    scores = {}
    for path in product(range(Y), repeat=len(tokens)):
        score = tables.start[path[0]] + tables.stop[path[-1]]
        score += sum(emit[t, y] for t, y in enumerate(path))
        score += sum(tables.trans[a, b] for a, b in pairwise(path))
        scores["".join(tables.labels[y] for y in path)] = float(score)
    return dict(sorted(scores.items(), key=lambda item: -item[1]))


def log_sum(scores):
    return np.logaddexp.reduce(list(scores.values()))


def test_they_can_fish_has_the_scores_of_the_text():
    tables = datasets.classic("they-can-fish")
    scores = paths(tables, ["they", "can", "fish"])
    assert next(iter(scores.items())) == ("NVN", -10)
    assert log_sum(scores) == pytest.approx(-9.854889, abs=5e-7)
    scores = paths(tables, ["they", "can", "can", "fish"])
    assert {p for p, s in scores.items() if s == -14} == {"NVVN", "NVNV"}
    assert max(scores.values()) == -14
    assert log_sum(scores) == pytest.approx(-13.113214, abs=5e-7)


def test_they_can_fish_read_backwards():
    scores = paths(datasets.classic("they-can-fish"), ["fish", "can"])
    assert scores == {"NV": -7, "VN": -10, "VV": -10, "NN": -11}
    assert log_sum(scores) == pytest.approx(-6.888557, abs=5e-7)


def test_they_can_fish_has_the_two_sentences_that_are_not_separable():
    # What raises N V V above N V N lowers N V V N below N V V V by as much, whatever the weights.
    first, second = datasets.classic("they-can-fish").corpus

    def features(tokens, labels):
        transitions = zip(["<", *labels], [*labels, ">"], strict=True)
        return Counter([*zip(tokens, labels, strict=True), *transitions])

    gain = features(first.tokens, first.labels)
    gain.subtract(features(first.tokens, ["N", "V", "N"]))
    loss = features(second.tokens, ["N", "V", "V", "V"])
    loss.subtract(features(second.tokens, second.labels))
    assert gain[("fish", "V")] == 1
    assert {f: n for f, n in gain.items() if n} == {f: n for f, n in loss.items() if n}


def test_gliese_is_an_hmm_whose_rows_sum_to_one():
    tables = datasets.classic("gliese-581d")
    np.testing.assert_allclose(np.exp(tables.trans).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(tables.word_scores).sum(axis=1), 1, rtol=1e-12)
    assert np.exp(tables.start).sum() == pytest.approx(1)
    assert np.isneginf(tables.trans).sum() == 3
    assert not np.isnan(tables.trans).any()


def test_gliese_labels_can_the_can():
    tables = datasets.classic("gliese-581d")
    best, score = next(iter(paths(tables, ["can", "the", "can"]).items()))
    assert best == "VDN"
    assert np.exp(score) == pytest.approx(0.16)
    assert tables.corpus[1].labels == list(best)
    # the longer sentence of the example: 0.8 · 1 · 0.6 · 0.2 · 0.8 · 1
    tokens, labels = tables.corpus[0].tokens, tables.corpus[0].labels
    assert np.exp(paths(tables, tokens)["".join(labels)]) == pytest.approx(0.0768)


def test_emit_names_a_word_that_the_tables_lack():
    with raises(DatasetError, where="token 1", expected="they, can", found="'swim'"):
        datasets.classic("they-can-fish").emit(["they", "swim"])


def test_jabberwocky_gives_the_phrase_and_the_rest_as_unknown():
    phrase, stanza = datasets.classic("jabberwocky")
    assert phrase.tokens == ["the", "slithy", "toves"]
    assert phrase.labels == ["D", "J", "N"]
    assert phrase.columns["suffix"] == ["∅", "thy", "es"]
    assert [(w, y) for w, y in zip(stanza.tokens, stanza.labels, strict=True) if y] == [
        ("the", "D"),
        ("slithy", "J"),
        ("toves", "N"),
    ]


def test_garden_path_differs_from_the_right_reading():
    (sentence,) = datasets.classic("garden-path")
    assert sentence.tokens == ["The", "old", "man", "the", "boat"]
    assert sentence.labels == ["D", "N", "V", "D", "N"]
    assert sentence.columns["garden_path"] == ["D", "J", "N", "D", "N"]


def test_vowels_are_low_and_high_as_the_text_says_and_a_perceptron_tells_them_apart():
    data = datasets.classic("vowels")
    assert data.formants.shape == (len(data.vowels), 2) == (60, 2)
    f1, f2 = ({y: data.formants[np.array(data.vowels) == y, k] for y in "iua"} for k in (0, 1))
    assert max(f1["i"].max(), f1["u"].max()) < f1["a"].min()
    assert max(f2["u"].max(), f2["a"].max()) < f2["i"].min()

    X = np.c_[data.formants / 1000, np.ones(60)]
    gold = np.array([data.labels.index(y) for y in data.vowels])
    w = np.zeros((3, 3))
    for _ in range(100):
        mistakes = 0
        for x, y in zip(X, gold, strict=True):
            best = int(np.argmax(w @ x))
            if best != y:
                mistakes += 1
                w[y] += x
                w[best] -= x
    assert mistakes == 0


def test_rib_rob_has_two_paths_of_three_states():
    tables = datasets.classic("rib-rob")
    scores = {p: s for p, s in paths(tables, ["r", "i", "b"]).items() if s > -np.inf}
    assert list(scores) == ["123", "453"]
    assert np.exp(scores["123"]) == pytest.approx(0.5 * (29 / 32) ** 3)
    assert np.exp(scores["453"]) == pytest.approx(0.5 * (29 / 32) ** 2 / 32)
    np.testing.assert_allclose(np.exp(tables.word_scores).sum(axis=1), 1, rtol=1e-12)


def test_rib_rob_samples_follow_the_tables():
    tables = datasets.classic("rib-rob")
    n = 20_000
    corpus = tables.sample(n, random_state=5)
    assert isinstance(corpus, Corpus)
    assert Counter(map(tuple, corpus.labels)).keys() == {("1", "2", "3"), ("4", "5", "3")}
    pairs = Counter((y, w) for s in corpus for w, y in zip(s.tokens, s.labels, strict=True))
    total = Counter(y for s in corpus for y in s.labels)
    for i, y in enumerate(tables.labels):
        for j, w in enumerate(tables.words):
            p = np.exp(tables.word_scores[i, j])
            error = 5 * np.sqrt(p * (1 - p) / total[y])  # five standard deviations
            assert abs(pairs[y, w] / total[y] - p) < error
    assert abs(total["1"] / n - 0.5) < 5 * np.sqrt(0.25 / n)


def test_rib_rob_samples_are_those_of_the_seed():
    tables = datasets.classic("rib-rob")
    assert tables.sample(50, random_state=1) == tables.sample(50, random_state=1)
    assert tables.sample(50, random_state=1) != tables.sample(50, random_state=2)


def test_a_new_object_at_each_call():
    datasets.classic("they-can-fish").trans[0, 0] = 99
    assert datasets.classic("they_can fish").trans[0, 0] == -3


def test_an_unknown_example_lists_the_names():
    with raises(DatasetError, parameter="name", expected="they-can-fish, ", found="'fish'"):
        datasets.classic("fish")
    with raises(DatasetError, parameter="name", expected="rib-rob", found="''"):
        datasets.classic("")
