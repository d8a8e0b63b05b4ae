"""Taggers and their temperature: what is found, what it is good for, and what is refused."""

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom import storage
from tagloom.errors import LabelError, ModelFileError, NotFittedError, ParameterError


@pytest.fixture(scope="module")
def corpora():
    return tl.datasets.load("english", label="upos")


@pytest.mark.parametrize("true", [0.6, 1.0, 2.5])
def test_the_temperature_that_made_the_labels_is_found(corpora, true):
    """Labels drawn at a temperature are best foretold at that temperature."""
    train, dev, _ = corpora
    hmm = tl.HMM().fit(train)
    trellis = hmm.trellis(dev.tokens * 8).tempered(true)
    (drawn,) = trellis.sample(1, random_state=3)
    y = [[str(hmm.labels_[i]) for i in path] for path in trellis.split(drawn)]
    assert hmm.calibrate(dev.tokens * 8, y).temperature_ == pytest.approx(true, rel=0.08)


@pytest.mark.parametrize("make", [tl.StructuredPerceptron, tl.StructuredSVM, tl.HMM])
def test_scores_that_are_no_probabilities_become_some(corpora, make):
    train, dev, test = corpora
    tagger = make().fit(train)
    calibrated = tagger.calibrate(dev)
    for corpus in (dev, test):
        assert calibrated.reliability(corpus).ece < tagger.reliability(corpus).ece
    before, after = tagger.reliability(test), calibrated.reliability(test)
    assert before.accuracy == pytest.approx(after.accuracy) == pytest.approx(tagger.score(test))
    assert before.n == after.n == test.n_tokens


def test_no_temperature_predicts_better(corpora):
    train, dev, _ = corpora
    calibrated = tl.HMM(order=2).fit(train).calibrate(dev)
    place = {label: y for y, label in enumerate(calibrated.labels_)}
    gold = np.array([place.get(label, -1) for row in dev.labels for label in row])
    tokens = np.flatnonzero(gold >= 0)

    def loss(factor):
        gamma = calibrated.trellis(dev).astype(np.float64).tempered(factor).marginals()
        return -np.log(gamma[tokens, gold[tokens]]).mean()

    assert loss(1.0) < min(loss(0.98), loss(1.02), loss(0.5), loss(2))


def test_unknown_labels_are_left_out(corpora):
    train, dev, _ = corpora
    hmm = tl.HMM().fit(train)
    X, y = dev.tokens, dev.labels
    strange = hmm.calibrate([*X, ["what"]], [*y, ["NEVER"]])
    assert strange.temperature_ == pytest.approx(hmm.calibrate(X, y).temperature_, rel=1e-6)
    with raises(LabelError, expected="to calibrate with", found="none"):
        hmm.calibrate([["what"]], [["NEVER"]])
    with raises(LabelError, expected="to calibrate with", found="none"):
        hmm.calibrate([], [])
    with raises(NotFittedError, hint="before calibrate"):
        tl.CRF().calibrate(dev)
    assert tl.CRF().temperature_ == 1


def test_the_joint_distribution_stays(corpora):
    train, dev, _ = corpora
    hmm = tl.HMM().fit(train)
    x, y = dev[0].tokens, dev[0].labels
    assert hmm.calibrate(dev).log_joint(x, y) == hmm.log_joint(x, y)


def test_labels_stay_where_something_is_known(corpora):
    train, dev, test = corpora
    tagger = tl.StructuredSVM().fit(train[:150])
    known = [[None, *row[1:]] for row in test.labels]
    calibrated = tagger.calibrate(dev)
    assert calibrated.predict(test, known=known) == tagger.predict(test, known=known)
    before, after = (t.predict_marginals(test, known=known) for t in (tagger, calibrated))
    assert not np.allclose(before[0][0], after[0][0])
    np.testing.assert_allclose(before[0][1:], after[0][1:], atol=1e-6)  # these are given


@pytest.mark.parametrize("temperature", [0, -1.0, 1e9, "1", None, True, 2, [1.0]])
def test_a_file_with_a_wrong_temperature_is_refused(corpora, tmp_path, temperature):
    path = tmp_path / "model.tagloom"
    tl.HMM().fit(corpora[0][:20]).save(path)
    header, arrays = storage.read(path)
    storage.write(tmp_path / "bad", {**header, "temperature": temperature}, arrays)
    with raises(ModelFileError, where="bad", expected="between 0.01 and 1000000"):
        tl.load(tmp_path / "bad")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_tempered_trellis_is_one_with_smaller_scores(dtype):
    rng = np.random.default_rng(0)
    space = tl.StateSpace.order(3, 2)
    arrays = [rng.normal(size=(5, 3)), rng.normal(size=(3, 3)), rng.normal(size=3)]
    edge, weights = rng.normal(size=(5, 3, 3)), rng.normal(size=space.n_weights)
    arrays = [array.astype(dtype) for array in arrays]

    def make(factor):
        emit, trans, start = (array / dtype(factor) for array in arrays)
        more = {"edge": edge / factor, "weights": weights / factor, "states": space}
        return tl.Trellis(emit, trans, start, start, **more)

    tempered, expected = make(1).tempered(4), make(4)  # a power of two is exact
    assert tempered.dtype == dtype
    assert tempered.path_score([0, 1, 2, 1, 0]) == expected.path_score([0, 1, 2, 1, 0])
    np.testing.assert_array_equal(tempered.marginals(), expected.marginals())
    np.testing.assert_array_equal(tempered.viterbi().path, make(1).viterbi().path)
    assert make(1).astype(np.float64).dtype == np.float64
    for wrong in (0, -1, np.inf, np.nan):
        with raises(ParameterError, parameter="temperature", expected="a finite number above 0"):
            tempered.tempered(wrong)
    with raises(ParameterError, parameter="dtype", expected="float32 or float64", found="int64"):
        tempered.astype(np.int64)
