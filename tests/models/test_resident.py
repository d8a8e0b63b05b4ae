"""Models that learn in place: `partial_fit`, and predictions without a copy of the model."""

import copy
import threading
import time
from collections import Counter

import numpy as np
import pytest

import tagloom as tl
from tagloom.errors import DataWarning, LabelError, ScoreError
from tagloom.models.summaries import Summary

X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"], ["can", "they", "swim"]]
Y = [["N", "V", "V"], ["N", "V", "V"], ["N", "V"], ["V", "N", "V"]]

MAKERS = {
    "adagrad": lambda **o: tl.CRF("words", **o),
    "sgd": lambda **o: tl.CRF("words", algorithm="sgd", **o),
    "edges": lambda **o: tl.CRF(["word", "word[-1]", "edge(word)"], **o),
    "seen": lambda **o: tl.CRF("words", combinations="seen", **o),
    "order 2": lambda **o: tl.CRF("words", order=2, **o),
    "order 2, seen": lambda **o: tl.CRF("words", order=2, states="seen", **o),
    "l2": lambda **o: tl.CRF("words", l2=0.1, **o),
    "perceptron": lambda **o: tl.StructuredPerceptron("words", **o),
    "svm": lambda **o: tl.StructuredSVM("words", **o),
    "token": lambda **o: tl.TokenClassifier("words", **o),
    "token hinge": lambda **o: tl.TokenClassifier("words", loss="hinge", **o),
    "memm": lambda **o: tl.MEMM(["word", "word[-1]", "edge(word)"], **o),
    "memm perceptron": lambda **o: tl.MEMM("words", loss="perceptron", **o),
}


@pytest.fixture(params=MAKERS, ids=lambda name: name)
def make(request):
    return MAKERS[request.param]


def learn(tagger, n=6):
    for i in range(n):
        tagger.partial_fit(X[i % 4 : i % 4 + 1], Y[i % 4 : i % 4 + 1])
    return tagger


def test_live_scores_are_those_of_the_saved_model(make):
    tagger = learn(make(labels=["N", "V"]))
    live = tagger.trellis(X)
    assert tagger._fitted.live is not None  # no copy has been made
    saved = tl.load(tagger.to_bytes())
    again = saved.trellis(X)
    np.testing.assert_allclose(live.emit, again.emit, rtol=1e-5, atol=1e-5)
    if live.edge is not None:
        np.testing.assert_allclose(live.edge, again.edge, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(live.log_partition(), again.log_partition(), rtol=1e-5, atol=1e-5)
    assert tagger._fitted.live is None  # saving made one, which is used from now on
    assert tagger.predict(X) == saved.predict(X)


@pytest.mark.parametrize("name", ["adagrad", "perceptron", "svm", "token", "memm", "order 2"])
def test_the_first_call_is_the_first_epoch_of_fit(name):
    options = {"max_iterations": 1, "labels": ["N", "V"]}
    part = MAKERS[name](**options).partial_fit(X, Y)
    whole = MAKERS[name](**options).fit(X, Y)
    assert part.state_features_ == pytest.approx(whole.state_features_, rel=1e-6)
    np.testing.assert_allclose(part.transitions_, whole.transitions_, rtol=1e-6)
    assert part.history_[0].loss == pytest.approx(whole.history_[0].loss, rel=1e-12)


def test_a_new_label_keeps_all_weights(make):
    tagger = learn(make(average=False))
    if tagger.get_params().get("l2"):
        pytest.skip("the penalty changes weights")
    before, transitions = tagger.state_features_, tagger.transition_features_
    tagger.partial_fit([["zzz", "they"]], [["A", "N"]], sample_weight=[0.0])
    assert tagger.labels_.tolist() == ["A", "N", "V"]
    assert tagger.state_features_ == pytest.approx(before)
    assert tagger.transition_features_ == pytest.approx(transitions)


def test_a_new_label_is_learnt(make):
    tagger = learn(make())
    for _ in range(40):
        tagger.partial_fit([*X, ["zzz", "they"]], [*Y, ["A", "N"]])
    assert tagger.predict([["zzz", "they"], ["they", "fish"]]) == [["A", "N"], ["N", "V"]]


def test_partial_fit_starts_from_the_weights_of_fit(make):
    tagger = make(max_iterations=10, average=False).fit(X, Y)
    if tagger.get_params().get("l2"):
        pytest.skip("the penalty changes weights")
    scored, features = tagger.trellis(X), tagger.state_features_
    transitions = tagger.transition_features_
    tagger.partial_fit([["fish", "swim"]], [["V", "N"]], sample_weight=[0.0])
    assert tagger.state_features_ == pytest.approx(features, rel=1e-6)
    assert tagger.transition_features_ == pytest.approx(transitions, rel=1e-6)
    tagger.partial_fit([["fish", "swim"]] * 9, [["V", "N"]] * 9)
    assert tagger.predict([["fish", "swim"]]) == [["V", "N"]]
    assert not np.allclose(tagger.trellis(X).emit, scored.emit)


def test_copies_learn_separately(make):
    tagger = learn(make())
    before = tagger.trellis(X).emit.copy()
    other = copy.copy(tagger)
    np.testing.assert_array_equal(other.trellis(X).emit, before)
    other.partial_fit(X, Y)
    np.testing.assert_array_equal(tagger.trellis(X).emit, before)
    assert not np.array_equal(other.trellis(X).emit, before)
    tagger.partial_fit(X, Y)
    np.testing.assert_array_equal(tagger.trellis(X).emit, other.trellis(X).emit)


def test_other_options_take_effect(make):
    tagger = learn(make())
    if "eta" not in tagger.get_params():
        pytest.skip("no learning rate")
    if tagger.get_params().get("loss", "log") != "log":
        pytest.skip("no learning rate with this loss")
    tagger.set_params(average=False).partial_fit(X, Y)
    still = copy.copy(tagger).set_params(eta=1e-9)
    before = still.trellis(X).emit.copy()
    still.partial_fit(X, Y)
    np.testing.assert_allclose(still.trellis(X).emit, before, atol=1e-5)
    tagger.partial_fit(X, Y)
    assert np.abs(tagger.trellis(X).emit - before).max() > 0.01


def test_rare_attributes_count_on():
    """An attribute is used from the call on in which it occurs for the min_count-th time."""
    tagger = tl.CRF(["word"], min_count=3, average=False, labels=["N", "V"])
    for n in range(1, 5):
        tagger.partial_fit([["fish", f"w{n}"]], [["N", "V"]])
        weights = {attribute for attribute, _ in tagger.state_features_}
        assert weights == ({"word=fish"} if n >= 3 else set())


def test_predictions_use_a_copy_once_it_pays():
    tagger = learn(tl.CRF("words"))
    assert tagger._fitted.decoder is None
    tagger.predict(X * 1000)
    assert tagger._fitted.decoder is not None
    tagger.partial_fit(X[:1], Y[:1])
    assert tagger._fitted.decoder is None


def test_the_cost_does_not_depend_on_the_model():
    """One sentence takes as long after 4,000 sentences as after 40."""

    def seconds(n):
        words = np.random.default_rng(0).integers(0, 20_000, (n, 20))
        tagger = tl.CRF("pos", n_threads=1)
        tagger.partial_fit([[f"w{i}" for i in row] for row in words], [["N", "V"] * 10] * n)
        times = []
        for _ in range(12):
            began = time.process_time()
            tagger.partial_fit([["w1", "w2", "w3"]], [["N", "V", "N"]])
            tagger.predict([["w1", "w2", "w3"]])
            times.append(time.process_time() - began)
        return min(times)

    small, large = seconds(40), seconds(4000)
    assert large < 4 * small


def test_failures_leave_the_model_as_it_was():
    tagger = learn(tl.CRF("words"))
    before = tagger.trellis(X).emit.copy()
    with pytest.raises(LabelError):
        tagger.partial_fit([["new", "words"]], [["N"]])
    np.testing.assert_array_equal(tagger.trellis(X).emit, before)
    assert tagger.predict([["new", "words", "they"]])  # attributes that were read, but not learnt
    assert tagger.partial_fit([["new", "words"]], [["N", "V"]]).score(X, Y) == 1


def test_weights_that_overflow_are_dropped():
    tagger = learn(tl.CRF("words", algorithm="sgd"))
    tagger.set_params(eta=1e300)
    with pytest.raises(ScoreError):
        tagger.partial_fit(X * 10, Y * 10)
    assert not tagger.is_fitted


def test_threads_read_whole_states():
    """While one thread learns, others see scores and labels of the moment between two calls."""
    tagger = learn(tl.CRF("words"))
    failures, done = [], threading.Event()

    def ask():
        try:
            while not done.is_set():
                trellis = tagger.trellis(X)
                assert trellis.emit.shape[1] == len(trellis.labels)
                assert np.isfinite(trellis.log_partition()).all()
                tagger.predict(X)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(60):
        tagger.partial_fit([[f"new{i}", "they"]], [[f"L{i % 7}", "N"]])
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(tagger.labels_) == 9


def test_schemes_need_all_parts():
    """A scheme must fit every part so far, whatever the last one is."""
    tagger = tl.CRF("words")
    tagger.partial_fit([["a", "b", "c"]], [["B-X", "I-X", "O"]])
    assert tagger.scheme_ == "bio"
    tagger.partial_fit([["d", "e"]], [["O", "O"]])
    assert tagger.scheme_ == "bio"
    with pytest.warns(DataWarning, match="illegal"):
        tagger.partial_fit([["f", "g"], ["a"]], [["O", "I-X"], ["B-X"]])
    assert tagger.scheme_ is None


def test_tag_dictionaries_count_all_parts():
    tagger = tl.CRF("words", constraints=tl.TagDictionary(min_count=2))
    tagger.partial_fit([["they", "fish"]], [["N", "V"]])
    assert tagger.constraints_.dictionary == {}
    tagger.partial_fit([["they", "swim"]], [["N", "V"]])
    assert tagger.constraints_.dictionary == {"they": ("N",)}


def test_merged_summaries_equal_that_of_the_whole():
    sentences = [["a", "b"], ["b", "c", "a"], ["c"], ["a", "a", "b", "c"]]
    labels = [["B-X", "I-X"], ["O", "B-Y", {"O", "B-X"}], [None], ["O", "B-X", "I-X", "O"]]
    names = ["B-X", "I-X", "O", "B-Y"]
    options = {"constraints": ["auto", tl.TagDictionary(1)], "order": 2}
    whole = Summary.of(sentences, labels, names, **options)
    parts = [Summary.of(sentences[i : i + 2], labels[i : i + 2], names, **options) for i in (0, 2)]
    assert parts[0].merged(parts[1]) == whole
    grown = Summary()
    for part in parts:
        grown.add(part)
    assert grown == whole
    assert whole.transitions[None, "B-X"] == 1
    assert whole.transitions["B-X", "I-X"] == 2
    assert whole.words["a"] == Counter({"B-X": 2, "O": 1})
    assert whole.grams == {("B-X", "I-X"), ("O", "B-Y"), ("O", "B-X", "I-X"), ("B-X", "I-X", "O")}
    assert whole.scheme("auto") == "bio"
