"""Taggers as scikit-learn's estimators: every model in every tool that a user would reach for."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    train_test_split,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

import tagloom as tl
from raising import raises
from tagloom.errors import ParameterError
from tagloom.evaluation import Scorer, accuracy, sentence_accuracy, span_f1

MODELS = {
    "crf": tl.CRF("words", algorithm="lbfgs", max_iterations=5),
    "crf-adagrad": tl.CRF("words", max_iterations=2),
    "crf-order-2": tl.CRF("words", order=2, max_iterations=2),
    "perceptron": tl.StructuredPerceptron("words", max_iterations=2),
    "svm": tl.StructuredSVM("words", max_iterations=2),
    "memm": tl.MEMM("words", max_iterations=2),
    "token": tl.TokenClassifier("words", max_iterations=2),
    "hmm": tl.HMM(),
    "baseline": tl.MostFrequentTag(),
}
MANY = {name: MODELS[name] for name in ("crf-adagrad", "hmm")}  # where a process must be started


def lower(X):
    """Top level, so that other processes find it."""
    return [[word.lower() for word in words] for words in X]


def pipeline(tagger):
    return Pipeline([("lower", FunctionTransformer(lower)), ("tagger", tagger)])


@pytest.fixture(scope="module")
def data():
    corpus = tl.datasets.load("english", "train", label="upos")[:40]
    return corpus.tokens, corpus.labels


@pytest.fixture(params=MODELS)
def tagger(request):
    return clone(MODELS[request.param])


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_a_clone_is_equal_and_not_fitted(tagger, data):
    copied = clone(tagger.fit(*data))
    assert type(copied) is type(tagger)
    assert copied.get_params() == tagger.get_params()
    assert repr(copied) == repr(tagger)
    assert tagger.is_fitted
    assert not copied.is_fitted
    check_is_fitted(tagger)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(copied)


@pytest.mark.filterwarnings("ignore:.* moved to its emission:DeprecationWarning")
def test_parameters_are_stored_untouched(tagger):
    for name, value in tagger.get_params(deep=False).items():
        marker = object()
        assert getattr(type(tagger)(**{name: marker}), name) is marker
        assert tagger.set_params(**{name: value}) is tagger


def test_a_clone_does_not_share_what_can_change(data):
    tagger = tl.CRF(["word"], labels=sorted({y for row in data[1] for y in row}))
    copied = clone(tagger)
    copied.features.append("suffix(2)")
    copied.labels.clear()
    assert tagger.features == ["word"]
    assert len(tagger.labels) > 2


def test_grid_search(tagger, data):
    search = GridSearchCV(tagger, {"min_count": [1, 1000]}, cv=2, error_score="raise")
    search.fit(*data)
    assert search.best_params_ == {"min_count": 1}
    assert search.score(*data) == search.best_estimator_.score(*data) > 0.5
    assert search.predict(data[0]) == search.best_estimator_.predict(data[0])
    assert search.classes_ is search.best_estimator_.labels_
    assert "min_count" in search._repr_html_()


def test_randomised_search(tagger, data):
    found = RandomizedSearchCV(
        tagger, {"min_count": [1, 2, 3]}, n_iter=2, cv=2, random_state=0, error_score="raise"
    ).fit(*data)
    assert found.best_score_ == max(found.cv_results_["mean_test_score"])
    assert len(found.cv_results_["params"]) == 2


def test_pipeline(tagger, data):
    X, y = data
    shouted = [[word.upper() for word in words] for words in X]
    steps = pipeline(tagger).fit(X, y)
    assert steps.predict(shouted) == steps.predict(X) == tagger.predict(lower(X))
    assert steps.score(shouted, y) == tagger.score(lower(X), y)
    assert steps.set_params(tagger__min_count=2)["tagger"].min_count == 2
    assert type(tagger).__name__ in repr(steps)
    assert type(tagger).__name__ in steps._repr_html_()


def test_cross_validation(tagger, data):
    X, y = data
    scores = cross_val_score(tagger, X, y, cv=2, error_score="raise")
    predicted = cross_val_predict(tagger, X, y, cv=2)
    assert predicted.shape == (len(X),)
    assert [len(row) for row in predicted] == [len(row) for row in y]
    halves = [accuracy(_Said(predicted[i]), X[i], y[i]) for i in (slice(20), slice(20, 40))]
    np.testing.assert_allclose(scores, halves, rtol=1e-12)


class _Said:
    """Something that predicts what it was told."""

    def __init__(self, labels):
        self.labels = labels

    def predict(self, X):
        return self.labels


def test_sentences_of_one_length_stay_lists(tagger):
    X, y = [["a", "b"], ["c", "d"]] * 4, [["X", "Y"], ["Y", "X"]] * 4
    predicted = cross_val_predict(tagger, X, y, cv=2)
    assert predicted.shape == (8,)
    assert isinstance(predicted[0], list)


def test_a_corpus_is_enough(tagger):
    corpus = tl.datasets.load("english", "train", label="upos")[:40]
    by_lists = cross_val_score(tagger, corpus.tokens, corpus.labels, cv=2, error_score="raise")
    np.testing.assert_array_equal(cross_val_score(tagger, corpus, cv=2), by_lists)
    train, test = train_test_split(corpus, random_state=0)
    assert [len(train), len(test)] == [30, 10]
    assert tagger.fit(train).score(test) > 0.3


def test_learning_curve(data):
    sizes, _, test = learning_curve(tl.HMM(), *data, cv=2, train_sizes=[0.2, 1.0])
    assert sizes.tolist() == [4, 20]
    assert test[0].mean() < test[1].mean()


@pytest.mark.parametrize("name", MANY)
def test_two_processes_find_the_same(name, data):
    tagger, options = MANY[name], {"cv": 2, "error_score": "raise"}
    grid = {"tagger__min_count": [1, 2]}
    one, two = (
        GridSearchCV(pipeline(tagger), grid, n_jobs=n, **options).fit(*data) for n in (1, 2)
    )
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )
    fitted = cross_validate(tagger, *data, return_estimator=True, n_jobs=2, **options)
    assert [model.is_fitted for model in fitted["estimator"]] == [True, True]


# ---- scorers -------------------------------------------------------------------------------


def test_scorers_are_the_evaluation(data):
    tagger = tl.HMM().fit(*data)
    corpus = tl.datasets.load("english", "test", label="upos")[:20]
    assert accuracy(tagger, corpus) == tagger.score(corpus)
    splits = tl.datasets.load("english", label="chunk")
    chunker = tl.HMM().fit(splits.train)
    result = tl.evaluate(splits.test, chunker.predict(splits.test), strict=True, n_bootstrap=0)
    for measure in ("precision", "recall", "f1"):
        scorer = Scorer(measure, strict=True, scheme="bio")
        assert scorer(chunker, splits.test) == getattr(result, measure)
    for scorer in (accuracy, sentence_accuracy):
        assert scorer(chunker, splits.test) == getattr(result, scorer.measure)
    assert 0 < result.f1 < 1


def test_weights_of_a_scorer_stand_for_repetition():
    corpus = tl.datasets.load("english", "test", label="chunk")[:6]
    tagger = tl.HMM().fit(tl.datasets.load("english", "train", label="chunk")[:60])
    weights = [0, 3, 1, 2, 0, 1]
    repeated = [corpus[i] for i, weight in enumerate(weights) for _ in range(weight)]
    for scorer in (accuracy, sentence_accuracy, span_f1):
        weighted = scorer(tagger, corpus, sample_weight=weights)
        assert weighted == pytest.approx(scorer(tagger, repeated), rel=1e-12)
    assert span_f1(tagger, corpus) != span_f1(tagger, corpus, sample_weight=weights)
    with raises(ParameterError, parameter="sample_weight", found="(2,)"):
        span_f1(tagger, corpus, sample_weight=[1, 2])


def test_invalid_measures():
    with raises(ParameterError, parameter="scheme", found="'bio'"):
        Scorer("accuracy", scheme="bio")
    with raises(ParameterError, parameter="measure", expected="'accuracy'", found="'f2'"):
        Scorer("f2")


def test_scorers_in_a_search():
    corpus = tl.datasets.load("english", "train", label="chunk")[:60]
    X, y = corpus.tokens, corpus.labels
    search = GridSearchCV(
        tl.HMM(),
        {"min_count": [1, 2]},
        scoring={"f1": span_f1, "accuracy": accuracy},
        refit="f1",
        cv=2,
        n_jobs=2,
    ).fit(X, y)
    f1, right = (search.cv_results_[f"mean_test_{name}"] for name in ("f1", "accuracy"))
    assert search.best_score_ == f1.max()
    assert (f1 < right).all()
    assert pickle.loads(pickle.dumps(span_f1)) == span_f1
    assert search.score(X, y) == span_f1(search, X, y)


# ---- metadata routing ----------------------------------------------------------------------


def ask_for_weights(tagger):
    return tagger.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)


@pytest.mark.usefixtures("routing")
def test_weights_reach_fit_through_search_and_pipeline(tagger, data):
    X, y = data
    weights = np.random.default_rng(0).exponential(size=len(X)) * 10
    asking = pipeline(ask_for_weights(clone(tagger)))
    search = GridSearchCV(asking, {"tagger__min_count": [1]}, cv=2, error_score="raise")
    search.fit(X, y, sample_weight=weights)
    found = search.best_estimator_["tagger"].trellis(lower(X))
    direct = clone(tagger).fit(lower(X), y, sample_weight=weights).trellis(lower(X))
    plain = clone(tagger).fit(lower(X), y).trellis(lower(X))
    np.testing.assert_array_equal(found.emit, direct.emit)
    np.testing.assert_array_equal(found.trans, direct.trans)
    assert not np.allclose(found.marginals(), plain.marginals(), rtol=0, atol=1e-3)


@pytest.mark.usefixtures("routing")
def test_weights_reach_score(tagger, data):
    X, y = data
    weights = np.random.default_rng(0).random(len(X))
    asking = tagger.set_fit_request(sample_weight=False).set_score_request(sample_weight=True)
    scores = cross_val_score(
        asking, X, y, cv=2, params={"sample_weight": weights}, error_score="raise"
    )
    last = clone(tagger).fit(X[:20], y[:20])
    assert scores[1] == last.score(X[20:], y[20:], sample_weight=weights[20:])
    assert scores[1] != last.score(X[20:], y[20:])


@pytest.mark.usefixtures("routing")
def test_weights_reach_a_scorer(data):
    X, y = data
    weights = np.random.default_rng(0).random(len(X))
    asking = tl.HMM().set_fit_request(sample_weight=True)
    options = {"cv": 2, "params": {"sample_weight": weights}, "error_score": "raise"}
    scoring = accuracy.set_score_request(sample_weight=True)
    assert accuracy.weighted is None
    scores = cross_val_score(asking, X, y, scoring=scoring, **options)
    last = tl.HMM().fit(X[:20], y[:20], sample_weight=weights[:20])
    assert scores[1] == accuracy(last, X[20:], y[20:], weights[20:])
    many = cross_validate(
        asking,
        X,
        y,
        scoring={"a": scoring, "b": sentence_accuracy.set_score_request(sample_weight=False)},
        **options,
    )
    np.testing.assert_array_equal(many["test_a"], scores)


@pytest.mark.usefixtures("routing")
def test_known_labels_reach_predict(tagger, data):
    X, y = data
    asking = pipeline(tagger.set_predict_request(known="answers")).fit(X[:30], y[:30])
    known = [[label if label in tagger.labels_ else None for label in row] for row in y[30:]]
    assert asking.predict(X[30:], answers=known) == tagger.predict(lower(X[30:]), known=known)
    assert asking.predict(X[30:], answers=known) != asking.predict(X[30:])


@pytest.mark.usefixtures("routing")
def test_weights_that_were_not_requested_are_an_error(tagger, data):
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match=type(tagger).__name__):
        cross_val_score(tagger, *data, cv=2, params={"sample_weight": np.ones(40)})


@pytest.mark.usefixtures("routing")
def test_requests_reach_another_process(data):
    asking = pipeline(ask_for_weights(tl.HMM()))
    weights = np.random.default_rng(0).random(40)
    one, two = (
        cross_val_score(
            asking, *data, cv=2, n_jobs=n, params={"sample_weight": weights}, error_score="raise"
        )
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_requests_are_copied_not_shared(tagger, data):
    asking = tagger.set_fit_request(sample_weight=True)
    for copied in (
        clone(asking),
        pickle.loads(pickle.dumps(asking)),
        pickle.loads(pickle.dumps(asking.fit(*data))),
    ):
        assert copied.get_metadata_routing().fit.requests["sample_weight"] is True
        copied.set_fit_request(sample_weight=False)
    assert asking.get_metadata_routing().fit.requests["sample_weight"] is True
    assert type(tagger)().get_metadata_routing().fit.requests["sample_weight"] is None


def test_a_request_that_cannot_be_met():
    with raises(ParameterError, where="HMM.fit", expected="one of sample_weight", found="'w'"):
        tl.HMM().set_fit_request(w=True)
    with raises(ParameterError, where="HMM.partial_fit", expected="no metadata"):
        tl.HMM().set_partial_fit_request(sample_weight=True)
    tl.CRF().set_partial_fit_request(sample_weight=True)


def test_weights_without_routing(tagger, data):
    X, y = data
    scores = cross_val_score(
        tagger, X, y, cv=2, params={"sample_weight": np.ones(40)}, error_score="raise"
    )
    assert (scores > 0.3).all()
