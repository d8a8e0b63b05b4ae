"""What holds for every tagger: one suite for all models."""

import copy
import io
import pickle
import threading

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import LabelError, NotFittedError, ParameterError, SentenceError
from tagloom.models.linear import LinearTagger
from tagloom.scores import Vectors

MODELS = {
    "crf": lambda **kw: tl.CRF(features="pos", algorithm="lbfgs", max_iterations=15, **kw),
    "crf-l1": lambda **kw: tl.CRF(
        features="pos", algorithm="lbfgs", l1=0.3, l2=0.1, max_iterations=15, **kw
    ),
    "crf-adagrad": lambda **kw: tl.CRF(features="pos", algorithm="adagrad", max_iterations=3, **kw),
    "crf-pruned": lambda **kw: tl.CRF(features="pos", prune=1e-4, max_iterations=3, **kw),
    "crf-pruned-order-2": lambda **kw: tl.CRF(
        features="pos", prune=1e-4, order=2, states="seen", max_iterations=4, **kw
    ),
    "crf-sgd": lambda **kw: tl.CRF(features="pos", algorithm="sgd", max_iterations=3, **kw),
    "crf-edges": lambda **kw: tl.CRF(
        features=["word", "suffix(2)", "edge(shape)"], algorithm="lbfgs", max_iterations=8, **kw
    ),
    "perceptron": lambda **kw: tl.StructuredPerceptron(features="pos", max_iterations=3, **kw),
    "crf-order-2": lambda **kw: tl.CRF(features="pos", order=2, max_iterations=3, **kw),
    "perceptron-order-3": lambda **kw: tl.StructuredPerceptron(
        features="pos", order=3, states="seen", max_iterations=3, **kw
    ),
    "semicrf": lambda **kw: tl.SemiCRF(features="pos", max_iterations=3, **kw),
    "svm": lambda **kw: tl.StructuredSVM(features="pos", max_iterations=5, **kw),
    "svm-frank-wolfe": lambda **kw: tl.StructuredSVM(
        features="pos", algorithm="frank-wolfe", max_iterations=5, **kw
    ),
    "memm": lambda **kw: tl.MEMM(features="pos", max_iterations=3, **kw),
    "memm-edges": lambda **kw: tl.MEMM(
        features=["word", "suffix(2)", "edge(shape)"], algorithm="lbfgs", max_iterations=8, **kw
    ),
    "memm-perceptron": lambda **kw: tl.MEMM(
        features="pos", loss="perceptron", max_iterations=3, **kw
    ),
    "memm-hinge": lambda **kw: tl.MEMM(features="pos", loss="hinge", max_iterations=5, **kw),
    "hmm": lambda **kw: tl.HMM(**kw),
    "hmm-2": lambda **kw: tl.HMM(order=2, smoothing="interpolation", **kw),
    "hmm-lexical": lambda **kw: tl.HMM(order=2, emissions=tl.emissions.Words(lexical=3), **kw),
    "hmm-features": lambda **kw: tl.HMM(emissions=["word", "suffix(2)"], **kw),
    "hmm-open": lambda **kw: tl.HMM(stop=False, smoothing="add-k", **kw),
    "baseline": lambda **kw: tl.MostFrequentTag(**kw),
    "token-log": lambda **kw: tl.TokenClassifier(features="pos", max_iterations=3, **kw),
    "token-perceptron": lambda **kw: tl.TokenClassifier(
        features="pos", loss="perceptron", max_iterations=3, **kw
    ),
    "token-hinge": lambda **kw: tl.TokenClassifier(
        features="pos", loss="hinge", max_iterations=5, **kw
    ),
}
# These need torch, so they run in `make test-peers`.
NETWORKS = {
    "neural": lambda **kw: tl.NeuralTagger(hidden=16, max_iterations=2, **kw),
    "neural-alone": lambda **kw: tl.NeuralTagger(
        features=None, hidden=32, eta=0.01, dropout=0.2, max_iterations=8, batch_tokens=128, **kw
    ),
    "neural-margin": lambda **kw: tl.NeuralTagger(
        head="margin", encoder="gru", hidden=16, max_iterations=2, **kw
    ),
    "neural-softmax": lambda **kw: tl.NeuralTagger(
        head="softmax", encoder="cnn", layers=2, hidden=16, max_iterations=2, **kw
    ),
    "neural-hinge": lambda **kw: tl.NeuralTagger(
        head="hinge", encoder="birnn", characters=None, hidden=16, max_iterations=2, **kw
    ),
    "neural-order-2": lambda **kw: tl.NeuralTagger(
        order=2, encoder="lstm", characters="lstm", hidden=16, max_iterations=2, **kw
    ),
    "neural-vectors": lambda **kw: tl.NeuralTagger(
        vectors=VECTORS, tune_vectors="both", word_size=0, hidden=16, max_iterations=2, **kw
    ),
}
WORDS = ["the", "of", "is", "he", "a", "b"]
VECTORS = Vectors(WORDS, [[len(word), ord(word[0]) - 100] for word in WORDS])
MODELS |= NETWORKS
# All models share the code that checks what users pass: one linear model, one that normalises
# locally and one with tables stand for the rest.
CHECKED = ("crf-adagrad", "memm", "hmm")
STRANGE = [
    [],
    ["unseenword"],
    ["👩‍👩‍👧", "e\u0301a\u0308", "İstanbul", "ǅ", "\u200b", "a\u0000b"],
    ["ß" * 300],
]


@pytest.fixture(scope="module")
def train():
    return tl.datasets.load("english", "train", label="upos")[:150]


@pytest.fixture(scope="module")
def test():
    return tl.datasets.load("english", "test", label="upos")[:40]


def _params():
    marks = {name: [pytest.mark.peers] for name in NETWORKS}
    return [pytest.param(name, marks=marks.get(name, [])) for name in MODELS]


@pytest.fixture(scope="module", params=_params())
def make(request):
    return MODELS[request.param]


@pytest.fixture(scope="module")
def tagger(make, train):
    return make().fit(train)


@pytest.fixture(scope="module", params=CHECKED)
def make_checked(request):
    return MODELS[request.param]


@pytest.fixture(scope="module")
def checked(make_checked, train):
    return make_checked().fit(train)


def test_fit_returns_self_and_learns(make, train, test):
    model = make()
    assert model.fit(train) is model
    assert model.score(train) > 0.8
    assert model.score(test) > 0.6


def test_open_labels(make):
    X, y = [["a", "b", "c"]] * 2, [["X", None, "Y"], ["X", {"X", "Y"}, "Y"]]
    if make().takes_open_labels:
        tagger = make().fit(X, y)
        assert tagger.labels_.tolist() == ["X", "Y"]
        assert [row[::2] for row in tagger.predict(X)] == [["X", "Y"]] * 2
        with raises(LabelError, expected="at least two different labels", found="none"):
            make().fit([["a", "b"]], [[None, None]])
        with raises(LabelError, where="sentence 0, token 1", found="set()"):
            make().fit([["a", "b"]], [["X", set()]])
    else:
        with raises(LabelError, where="sentence 0, token 1", found="None"):
            make().fit(X, y)
        with raises(LabelError, where="sentence 0, token 1", found="one of"):
            make().fit(X[:1], y[1:])


def test_known_labels_are_kept(tagger, test):
    sentences = list(test)[:8]
    gold = [sentence.labels for sentence in sentences]
    assert tagger.predict(sentences, known=gold) == gold
    assert all(p.max(axis=1).min() > 0.999 for p in tagger.predict_marginals(sentences, known=gold))
    half = [[y if t % 2 else None for t, y in enumerate(row)] for row in gold]
    for got, want in zip(tagger.predict(sentences, known=half), gold, strict=True):
        assert got[1::2] == want[1::2]
    either = [[{"NOUN", "VERB"}] * len(row) for row in gold]
    assert {y for row in tagger.predict(sentences, known=either) for y in row} <= {"NOUN", "VERB"}
    draws = tagger.sample(sentences[:2], 3, random_state=0, known=half[:2])
    assert all(row[1::2] == gold[i][1::2] for i in (0, 1) for row in draws[i])
    assert tagger.entropy(sentences, known=gold).max() < 1e-6
    assert tagger.predict_nbest(sentences[:1], 2, known=gold[:1])[0][0].labels == gold[0]
    free = [None] * len(sentences)
    assert tagger.predict(sentences, known=free) == tagger.predict(sentences)


def test_invalid_known_labels(checked, test):
    sentences = list(test)[:8]
    gold = [sentence.labels for sentence in sentences]
    with raises(LabelError, parameter="known", expected="a list of 8 entries"):
        checked.predict(sentences, known=gold[:3])
    with raises(LabelError, where="known, sentence 0, token 0", found="'NOPE'"):
        checked.predict(sentences[:1], known=[["NOPE"] * len(gold[0])])
    with raises(LabelError, where="known, sentence 0", expected="one per token"):
        checked.predict(sentences[:1], known=[["NOUN"]])


def test_labels_and_their_probabilities_at_once(tagger, test):
    calibrated = tagger.calibrate(test)
    for model in (tagger, calibrated):
        for X, known in ((list(test), None), (test.tokens[:1], None), (list(test)[:3], KNOWN)):
            if known is None and X and isinstance(X[0], list) and not model.reads_only_tokens:
                X = list(test)[:1]
            labels, probs = model.predict_with_probs(X, known=known)
            assert labels == model.predict(X, known=known)
            marginals = model.predict_marginals(X, known=known)
            for row, row_probs, gamma in zip(labels, probs, marginals, strict=True):
                path = np.searchsorted(model.labels_.tolist(), row)
                np.testing.assert_allclose(row_probs, gamma[np.arange(len(row)), path], rtol=2e-5)
    assert tagger.predict_with_probs([]) == ([], [])


KNOWN = [None, None, None]


def test_predictions_have_the_lengths_of_the_sentences(tagger, test):
    predicted = tagger.predict(test)
    assert [len(row) for row in predicted] == [len(s) for s in test]
    assert set().union(*predicted) <= set(tagger.labels_)


def test_one_sentence_alone(tagger, test):
    tokens = test.tokens[0]
    assert tagger.predict_one(tokens) == tagger.predict([tokens])[0]
    label = tagger.labels_[-1]
    known = [label] + [None] * (len(tokens) - 1)
    assert tagger.predict_one(tokens, known=known)[0] == label
    with raises(SentenceError, found="the str 'They can fish'"):
        tagger.predict_one("They can fish")


def test_labels_are_sorted_and_are_the_classes(tagger, train):
    assert tagger.labels_.tolist() == sorted(train.label_counts())
    assert tagger.classes_ is tagger.labels_


def test_a_saved_model_predicts_the_same(tagger, test, tmp_path):
    path = tmp_path / "model.tagloom"
    tagger.save(path)
    loaded = tl.load(path, verify=True)
    assert type(loaded) is type(tagger)
    assert loaded.predict(test) == tagger.predict(test)
    ours, theirs = tagger.trellis(test), loaded.trellis(test)
    np.testing.assert_array_equal(ours.emit, theirs.emit)
    np.testing.assert_array_equal(ours.trans, theirs.trans)
    assert loaded.get_params() == tagger.get_params()
    assert loaded.training_ == tagger.training_
    assert loaded.feature_weights(n=50) == tagger.feature_weights(n=50)


def test_pickle_and_copy_go_through_the_file_format(tagger, test):
    unpickler = Recording(io.BytesIO(pickle.dumps(tagger)))
    assert unpickler.load().predict(test) == tagger.predict(test)
    assert unpickler.modules == {"tagloom"}  # no array is pickled as such
    assert copy.deepcopy(tagger).predict(test) == tagger.predict(test)


class Recording(pickle.Unpickler):
    """Unpickle, and note the packages whose names the pickle refers to."""

    def __init__(self, file):
        super().__init__(file)
        self.modules = set()

    def find_class(self, module, name):
        self.modules.add(module.partition(".")[0])
        return super().find_class(module, name)


def test_an_unfitted_tagger_can_be_pickled_but_not_used(make):
    model = pickle.loads(pickle.dumps(make()))
    assert model.get_params() == make().get_params()
    with raises(NotFittedError, message="not fitted", hint="Call fit()"):
        model.predict([["a"]])
    with raises(NotFittedError, hint="before save"):
        model.save("never")


def test_one_seed_gives_one_model_at_any_number_of_threads(make, train, test):
    one, two = make(n_threads=1).fit(train), make(n_threads=2).fit(train)
    np.testing.assert_array_equal(one.trellis(test).emit, two.trellis(test).emit)
    np.testing.assert_array_equal(one.trellis(test).trans, two.trellis(test).trans)


def test_threads_do_not_matter_for_predictions(tagger, test):
    assert tagger.predict(test, n_threads=1) == tagger.predict(test, n_threads=2)


@pytest.mark.parametrize("n_threads", [0, -1, 1.5, "two", 2**70])
def test_invalid_n_threads(make_checked, checked, test, n_threads):
    for method in (checked.predict, checked.predict_marginals, checked.trellis):
        for X in (test[:1], [["they"]]):  # the second is decoded by a shortcut
            with raises(ParameterError, parameter="n_threads"):
                method(X, n_threads=n_threads)
    with raises(ParameterError, parameter="n_threads"):
        make_checked(n_threads=n_threads).fit([["they", "fish"]], [["N", "V"]])


def test_many_threads_share_a_tagger(tagger, test):
    expected = tagger.predict(test)
    results = [None] * 8

    def work(i):
        results[i] = [tagger.predict(test, n_threads=1) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == [expected] * 3 for result in results)


def test_strange_input(tagger):
    assert tagger.predict([]) == []
    predicted = tagger.predict(STRANGE)
    assert [len(row) for row in predicted] == [len(s) for s in STRANGE]
    assert [len(m) for m in tagger.predict_marginals(STRANGE)] == [len(s) for s in STRANGE]


def test_a_very_long_sentence(tagger):
    (labels,) = tagger.predict([["word", "another", "7"] * 10_000])
    assert len(labels) == 30_000


def test_all_results_are_those_of_the_trellis(tagger, test):
    trellis = tagger.trellis(test)
    names = tagger.labels_.tolist()
    paths = trellis.split(trellis.viterbi().path)
    assert tagger.predict(test) == [[names[y] for y in path] for path in paths]
    for ours, theirs in zip(
        tagger.predict_marginals(test), trellis.split(trellis.marginals()), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    as_dict = tagger.predict_marginals(test, as_dict=True)
    assert as_dict[0][0].keys() == set(names)
    assert sum(as_dict[0][0].values()) == pytest.approx(1, abs=1e-5)
    best = tagger.predict_nbest(test, 3)
    for ranked, predicted in zip(best, tagger.predict(test), strict=True):
        assert ranked[0].labels == predicted
        probs = [r.prob for r in ranked]
        assert probs == sorted(probs, reverse=True)
    np.testing.assert_allclose(tagger.entropy(test), trellis.entropy(), rtol=1e-6, atol=1e-6)
    drawn = tagger.sample(test, 2, random_state=0)
    assert [len(draws) for draws in drawn] == [2] * len(test)
    assert drawn == tagger.sample(test, 2, random_state=0)
    assert [len(draws[0]) for draws in drawn] == [len(s) for s in test]


def test_explanations_sum_to_the_difference_of_two_paths(tagger, test):
    for sentence in [*test[:4], [], ["unseenword"]]:
        explanation = tagger.explain(sentence)
        trellis = tagger.trellis([sentence])[0]
        (labels,) = tagger.predict([sentence])
        (marginals,) = tagger.predict_marginals([sentence], as_dict=True)
        assert list(explanation.labels) == labels
        assert explanation.score == trellis.path_score(labels)
        assert len(explanation) == len(labels)
        for t, decision in enumerate(explanation):
            rest = trellis.constrain(forbidden={t: labels[t]})
            assert decision.label == labels[t]
            assert decision.prob == pytest.approx(marginals[t][labels[t]], rel=1e-5)
            assert decision.runner_up == decision.rival[t] != labels[t]
            assert trellis.path_score(decision.rival) == rest.viterbi().score
            margin = trellis.path_score(labels) - trellis.path_score(decision.rival)
            size = sum(abs(r.weight) + abs(r.rival_weight) for r in decision.reasons)
            assert sum(r.value for r in decision.reasons) == pytest.approx(margin, abs=1e-12 * size)
            lost = [r.value for r in decision.reasons if r.name == "rounding"]
            assert abs(sum(lost)) <= 1e-6 * size


def test_spans_have_probabilities(tagger, test):
    """Every part of speech is a type of its own, so a span is a longest run of one label."""
    found = tagger.predict_spans(test, scheme="io")
    for row, labels in zip(found, tagger.predict(test), strict=True):
        assert [span[:3] for span in row] == tl.labels.to_spans(labels, "io")
        assert all(0 < span.prob <= 1 for span in row)
    likely = tagger.predict_spans(test, 0.2, scheme="io")
    assert [[s[:3] for s in row if s.prob >= 0.2] for row in found] == [
        [s[:3] for s in row if s[:3] in {b[:3] for b in best}]
        for row, best in zip(likely, found, strict=True)
    ]


def test_calibration_changes_probabilities_and_nothing_else(tagger, test, tmp_path):
    calibrated = tagger.calibrate(test)
    temperature = calibrated.temperature_
    assert calibrated is not tagger
    assert tagger.temperature_ == 1 != temperature
    assert calibrated.predict(test) == tagger.predict(test)
    expected = tagger.trellis(test).tempered(temperature)
    np.testing.assert_array_equal(calibrated.trellis(test).marginals(), expected.marginals())
    np.testing.assert_allclose(calibrated.entropy(test), expected.entropy(), rtol=1e-6, atol=1e-6)
    explained, before = calibrated.explain(test[0]), tagger.explain(test[0])
    assert explained.labels == before.labels
    for decision, other in zip(explained, before, strict=True):
        assert decision.margin == pytest.approx(other.margin / temperature, rel=1e-4, abs=1e-4)
        assert sum(r.value for r in decision.reasons) == pytest.approx(decision.margin)
    calibrated.save(tmp_path / "model.tagloom")
    for copied in (tl.load(tmp_path / "model.tagloom"), pickle.loads(pickle.dumps(calibrated))):
        assert copied.temperature_ == temperature
        np.testing.assert_array_equal(copied.trellis(test).marginals(), expected.marginals())


def test_fitting_again_resets_the_temperature(make, train, test):
    calibrated = make().fit(train[:60]).calibrate(test)
    assert calibrated.temperature_ != 1
    calibrated.fit(train[:60])
    assert calibrated.temperature_ == 1


def test_predictions_make_a_one_dimensional_array(tagger):
    array = np.asarray(tagger.predict([["a", "b"], ["c", "d"]]))
    assert array.shape == (2,)
    assert array.dtype == object


def test_lists_and_corpora_are_the_same(make, train, test):
    by_lists = make().fit(train.tokens, train.labels)
    assert by_lists.predict(test.tokens) == make().fit(train).predict(test)


@pytest.mark.parametrize("X", ["They can fish", ["They can fish"], [["ok"], "They"]])
def test_letters_are_never_tagged(checked, X):
    with raises(SentenceError, found="the str 'They"):
        checked.predict(X)


def test_bad_training_data_is_named(make_checked):
    with raises(LabelError, where="sentence 1", expected="2 labels", found="1"):
        make_checked().fit([["a"], ["b", "c"]], [["X"], ["Y"]])
    with raises(SentenceError, where="sentence 1", expected="at least one token"):
        make_checked().fit([["a"], []], [["X"], []])
    with raises(LabelError, expected="at least two different labels", found="'X'"):
        make_checked().fit([["a"], ["b"]], [["X"], ["X"]])
    with raises(SentenceError, where="sentence 0", found="the str 'ab'"):
        make_checked().fit(["ab"], [["X", "Y"]])
    with raises(SentenceError, expected="at least one sentence"):
        make_checked().fit([], [])
    with raises(LabelError, where="sentence 0, token 0", found="3, of type int"):
        make_checked().fit([["a", "b"]], [[3, 4]])
    with raises(LabelError, where="sentence 0", found="none"):
        make_checked().fit([["a"]])
    with raises(LabelError, parameter="y", found="2"):
        make_checked().fit([["a"]], [["X"], ["Y"]])


def test_sample_weights_stand_for_repetition(make):
    X = [["a", "b"], ["a", "c"], ["b", "a"]]
    y = [["X", "Y"], ["Y", "X"], ["Y", "Y"]]
    twice = make().fit([*X, X[0]], [*y, y[0]])
    weighted = make().fit(X, y, sample_weight=[2, 1, 1])
    if not isinstance(weighted, LinearTagger | tl.NeuralTagger):
        np.testing.assert_array_equal(twice.trellis(X).marginals(), weighted.trellis(X).marginals())
    if isinstance(weighted, tl.CRF) and weighted.algorithm == "lbfgs":
        np.testing.assert_allclose(
            twice.trellis(X).marginals(), weighted.trellis(X).marginals(), atol=2e-3
        )
    with raises(ParameterError, parameter="sample_weight", expected="3 numbers", found="(2,)"):
        make().fit(X, y, sample_weight=[1, 2])
    hits = [a == b for a, b in zip(weighted.predict(X[:1])[0], y[0], strict=True)]
    assert weighted.score(X, y, sample_weight=[1, 0, 0]) == np.mean(hits)


def test_parameters(make):
    model = make()
    assert model.set_params(n_threads=3).n_threads == 3
    with raises(ParameterError, found="'depth'", expected="n_threads"):
        model.set_params(depth=2)
    with raises(ParameterError, parameter="n_threads", expected="at least 1", found="0"):
        model.set_params(n_threads=0).fit([["a", "b"]], [["X", "Y"]])
    assert "n_threads=0" in repr(model)
    assert repr(tl.CRF()) == "CRF()"


def test_scikit_learn_can_clone_and_cross_validate(make, train):
    from sklearn.base import clone
    from sklearn.model_selection import cross_val_predict, cross_val_score

    X, y = train.tokens, train.labels
    assert clone(make()).get_params() == make().get_params()
    assert (cross_val_score(make(), X, y, cv=2) > 0.5).all()
    assert len(cross_val_predict(make(), X, y, cv=2)) == len(X)


@pytest.mark.parametrize("make", [tl.CRF, tl.SemiCRF, tl.HMM])
@pytest.mark.parametrize("dtype", [None, object])
def test_sentences_of_numpy_are_words_by_default(make, dtype):
    X = [np.array(["Ann", "left"], dtype), np.array(["Oslo"], dtype)]
    y = [np.array(["B-PER", "O"]), np.array(["B-LOC"])]
    assert make().fit(X, y).predict(X) == make().fit([*map(list, X)], [*map(list, y)]).predict(X)
