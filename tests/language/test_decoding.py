"""Gaps restored and candidates chosen: equal to trying everything, and sensible on real text."""

import itertools
import math

import numpy as np
import pytest

import tagloom as tl
from tagloom.errors import InfeasibleError, NotFittedError, ScoreError, SentenceError
from tagloom.language.ngrams import SMOOTHINGS

TEXT = [s.split() for s in ["a b c a", "a b", "b c c a", "a a b c", "c", "a b c", "d a d"]]


@pytest.fixture(scope="module")
def english():
    return tl.NGramModel(3).fit(tl.datasets.load("english", "train"))


def fillings(model, sentence):
    """Every way to fill the gaps of a sentence, with its log-probability."""
    words = [w for w in model.vocabulary_ if not w.startswith("<")]
    choices = [words if token is None else [token] for token in sentence]
    return {tokens: model.log_prob(tokens) for tokens in itertools.product(*choices)}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("threshold", [0, 1e-2])
def test_restore_is_the_best_of_all_fillings(order, smoothing, threshold):
    model = tl.NGramModel(order, smoothing=smoothing).fit(TEXT)
    model = model.prune(threshold) if threshold else model
    for sentence in [
        [None],
        ["a", None],
        [None, "b", None],
        ["a", None, None, "z", None],
        [None, None, None],
        [],
    ]:
        scores = fillings(model, sentence)
        restored = model.restore(sentence)
        assert scores[tuple(restored)] == pytest.approx(max(scores.values()), abs=1e-12)
        for start, end in [(False, True), (True, False), (False, False)]:
            found = model.restore(sentence, start=start, end=end)
            best = max(model.log_prob(t, start=start, end=end) for t in scores)
            assert model.log_prob(found, start=start, end=end) == pytest.approx(best, abs=1e-12)


def test_two_gaps_at_a_vocabulary_of_20_000_words():
    """Equal to the recursion over all 400 million pairs of words."""
    rng = np.random.default_rng(0)
    draws = np.minimum(rng.zipf(1.3, 60_000), 20_000)
    words = [f"w{w}" for w in [*draws, *range(1, 20_001)]]  # every word occurs
    text = [["I", "try", *words[i : i + 20], ","] for i in range(0, len(words), 20)]
    model = tl.NGramModel(2, n_threads=1).fit(text)
    native, first = model.tables_.native, 3
    V = len(model.vocabulary_)
    assert V > 20_000
    (comma,) = model.tables_.ids([[","]])[0]
    after_try = native.score_all(model.tables_.arcs.state_after(model.tables_.ids([["try"]])[0]))
    best, total = np.full(V, -np.inf), np.full(V, 0.0)  # of paths to each word in the second gap
    follows = np.empty(V)  # the comma, and the end
    end = native.score_all(native.history(np.array([comma], np.int32), False))[2]
    for w in range(first, V):
        scores = native.score_all(1 + w)  # the history of w alone
        best = np.maximum(best, after_try[w] + scores)
        total += np.exp(after_try[w] + scores)
        follows[w] = scores[comma] + end
    begins = model.log_prob(["I", "try"], end=False)
    decoding = model.decode(["I", "try", None, None, ","])
    expected = begins + (best + follows)[first:].max()
    assert decoding.score == pytest.approx(expected, abs=1e-9)
    assert model.log_prob(decoding.tokens) == pytest.approx(expected, abs=1e-9)
    log_z = begins + np.log(np.sum(total[first:] * np.exp(follows[first:])))
    assert decoding.trellis.log_partition() == pytest.approx(log_z, abs=1e-9)
    probs = decoding.trellis.candidate_marginals()[3]
    by_pairs = total[first:] * np.exp(follows[first:] + begins - log_z)
    np.testing.assert_allclose(probs, by_pairs, rtol=1e-7, atol=1e-15)


def test_nbest_and_marginals_of_a_lattice():
    model = tl.NGramModel(3).fit(TEXT)
    lattice = [None, {"a": -1.0, "b": 0.5, "d": -math.inf}, ["c", "a"], "b"]
    scores = {}
    for tokens in fillings(model, [None, None, None, "b"]):
        channel = {"a": -1.0, "b": 0.5}.get(tokens[1])
        if channel is not None and tokens[2] in ("c", "a"):
            scores[tokens] = model.log_prob(tokens) + channel
    decoding = model.decode(lattice)
    log_z = np.logaddexp.reduce(list(scores.values()))
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    assert tuple(decoding.tokens) == ranked[0]
    assert decoding.score == pytest.approx(scores[ranked[0]], abs=1e-12)
    readings = decoding.nbest(5)
    assert [tuple(r.tokens) for r in readings] == ranked[:5]
    for reading in readings:
        score = scores[tuple(reading.tokens)]
        assert reading.score == pytest.approx(score, abs=1e-12)
        assert reading.prob == pytest.approx(math.exp(score - log_z), abs=1e-12)
    assert len(decoding.nbest(10**6)) == len(scores)
    for t, candidates in enumerate(decoding.marginals(n=10)):
        assert sum(prob for _, prob in candidates) == pytest.approx(1, abs=1e-12)
        for token, prob in candidates:
            expected = sum(math.exp(s - log_z) for x, s in scores.items() if x[t] == token)
            assert prob == pytest.approx(expected, abs=1e-12)
        assert candidates == sorted(candidates, key=lambda c: -c.prob)
    assert [len(c) for c in decoding.marginals(n=2)] == [2, 2, 2, 1]
    probs = np.exp(np.array(list(scores.values())) - log_z)
    assert decoding.entropy() == pytest.approx(-np.sum(probs * np.log(probs)), abs=1e-10)
    draws = decoding.sample(200, random_state=0)
    assert {tuple(tokens) for tokens in draws} <= set(scores)
    assert draws == decoding.sample(200, random_state=0)


def test_unknown_words_keep_their_text():
    model = tl.NGramModel(2).fit(TEXT)
    assert model.restore(["zebra", None, "yak"])[::2] == ["zebra", "yak"]
    # Of two words that the model does not know the better one is taken, the first of equals.
    assert model.decode([{"Zebra": -1.0, "zebra": -0.5}]).tokens == ["zebra"]
    assert model.decode([["Zebra", "zebra"], "a"]).tokens == ["Zebra", "a"]
    assert len(model.decode([{"Zebra": 0.0, "zebra": 0.0}]).nbest(5)) == 1
    closed = tl.NGramModel(2, closed=True).fit(TEXT)
    assert closed.decode([["zebra", "a"]]).tokens == ["a"]
    with pytest.raises(SentenceError) as error:
        closed.restore(["a", "zebra", None])
    assert error.value.where == "position 1"


@pytest.mark.parametrize(("unit", "text"), [("letters", "b?n?na"), ("bytes", "b?n?na")])
def test_letters_are_restored(unit, text):
    model = tl.NGramModel(3, unit=unit).fit(["banana", "bandana", "cabana"])
    tokens = list(text) if unit == "letters" else [f"<0x{ord(letter):02X}>" for letter in text]
    gap = tokens[1]
    restored = model.restore([None if token == gap else token for token in tokens])
    assert restored == ("banana" if unit == "letters" else b"banana")


def test_real_sentences(english):
    assert english.restore(["one", "of", None, "."])[2] == "the"
    sentence = tl.datasets.load("english", "train")[3]
    assert english.restore(sentence) == sentence.tokens
    holes = [None if t % 4 == 1 else token for t, token in enumerate(sentence.tokens)]
    restored = english.restore(holes)
    assert english.log_prob(restored) >= english.log_prob(sentence) - 1e-9
    assert [r for r, h in zip(restored, holes, strict=True) if h is not None] == [
        h for h in holes if h is not None
    ]


def test_decodings_are_shown(english):
    assert repr(english.decode(["one", None])).startswith("Decoding(['one'")


@pytest.mark.parametrize(
    ("lattice", "where"),
    [
        ("a b", None),
        (3, None),
        ([3], "position 0"),
        (["a", []], "position 1"),
        (["a", {}], "position 1"),
        (["a", [3]], "position 1"),
        (["a", {None: 1.0}], "position 1"),
        (["a", b"b"], "position 1"),
        (["\ud800"], "sentence 0, token 0"),
    ],
)
def test_lattices_that_are_none(lattice, where):
    with pytest.raises(SentenceError) as error:
        tl.NGramModel(2).fit(TEXT).decode(lattice)
    assert error.value.where == where


@pytest.mark.parametrize("score", [math.nan, math.inf, "1", None])
def test_scores_that_are_none(score):
    with pytest.raises(ScoreError) as error:
        tl.NGramModel(2).fit(TEXT).decode(["a", {"b": score}])
    assert error.value.where == "position 1, candidate 'b'"


def test_no_reading():
    model = tl.NGramModel(2).fit(TEXT)
    with pytest.raises(InfeasibleError) as error:
        model.decode(["a", {"b": -math.inf}]).nbest(2)
    assert error.value.position == 1
    with pytest.raises(NotFittedError):
        tl.NGramModel().restore([None])
