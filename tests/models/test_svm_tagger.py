"""The structured SVM from its public face: costs, the gap, files, and what it refuses."""

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import ParameterError
from tagloom.models.svm import cost_matrix

# One number tells X from Y; d(v) = w·v + b is how far X is above Y.
X = [[{"bias": 1.0, "v": 1.0}], [{"bias": 1.0, "v": -1.0}]]
Y = [["X"], ["Y"]]
BETWEEN = [[{"bias": 1.0, "v": 0.3}]]


def svm(**options):
    defaults = {"boundaries": False, "C": 100.0, "tolerance": 1e-5, "max_iterations": 1000}
    return tl.StructuredSVM(**{"algorithm": "frank-wolfe", **defaults, **options})


@pytest.fixture(scope="module")
def train():
    return tl.datasets.load("english", "train", label="upos")[:40]


def double_trouble(gold, other):
    return 0.0 if gold == other else 5.0 if gold == "Y" else 1.0


@pytest.mark.parametrize("algorithm", ["subgradient", "frank-wolfe"])
@pytest.mark.parametrize("cost", [[[0, 1], [5, 0]], np.array([[0, 1], [5, 0]]), double_trouble])
def test_the_dearer_mistake_has_the_wider_margin(algorithm, cost):
    """Hamming: d(1) = 1 and d(−1) = −1, so w = 1, b = 0. Otherwise d(−1) = −5: w = 3, b = −2."""
    plain = svm(algorithm=algorithm).fit(X, Y)
    assert plain.predict(BETWEEN) == [["X"]]
    careful = svm(algorithm=algorithm, cost=cost).fit(X, Y)
    assert careful.predict(BETWEEN) == [["Y"]]
    np.testing.assert_array_equal(careful.cost_, [[0, 1], [5, 0]])
    if algorithm == "frank-wolfe":
        for tagger, w, b in ((plain, 1, 0), (careful, 3, -2)):
            weights = {("v", "X"): w / 2, ("v", "Y"): -w / 2}
            weights |= {("bias", "X"): b / 2, ("bias", "Y"): -b / 2}
            for name, weight in weights.items():
                assert tagger.state_features_.get(name, 0.0) == pytest.approx(weight, abs=0.01)


def test_costs_are_in_the_order_of_the_labels():
    tagger = svm(cost=double_trouble, labels=["Y", "X"]).fit(X, Y)
    np.testing.assert_array_equal(tagger.cost_, [[0, 5], [1, 0]])


def test_the_solution_by_hand():
    """One token, labels N and V: the least θ with θ(N) − θ(V) = 1, and ½‖θ‖² = ½·2·(½)²."""
    tagger = svm(features=["word"], labels=["N", "V"]).fit([["a"]] * 2, [["N"]] * 2)
    assert tagger.state_features_ == pytest.approx(
        {("word=a", "N"): 0.5, ("word=a", "V"): -0.5}, abs=1e-4
    )
    assert tagger.history_[-1].loss == pytest.approx(0.25, abs=1e-4)


def test_a_small_C_bounds_the_weights():
    """With C too small for a margin the gradient of the losses is the solution: θ = C·Σ Φ − Φ̂."""
    tagger = svm(features=["word"], C=0.1, labels=["N", "V"]).fit([["a"]] * 2, [["N"]] * 2)
    assert tagger.state_features_ == pytest.approx(
        {("word=a", "N"): 0.2, ("word=a", "V"): -0.2}, abs=1e-4
    )
    assert tagger.history_[-1].loss == pytest.approx(0.04 + 0.1 * 2 * 0.6, abs=1e-4)


def test_sample_weights_stand_for_repetition(train):
    X, y = train.tokens, train.labels
    options = {"features": "words", "C": 0.02, "tolerance": 1e-4}
    twice = svm(**options).fit([*X, *X[:10]], [*y, *y[:10]])
    weighted = svm(**options).fit(X, y, sample_weight=[2] * 10 + [1] * 30)
    assert weighted.history_[-1].loss == pytest.approx(twice.history_[-1].loss, rel=1e-4)
    np.testing.assert_allclose(weighted.trellis(X).emit, twice.trellis(X).emit, atol=0.02)


def test_the_gap_bounds_the_distance_from_the_optimum_and_closes(train):
    best = svm(features="words", C=0.02).fit(train)
    assert best.training_["stopped"] == "converged"
    optimum = best.history_[-1].loss
    for record in svm(features="words", C=0.02, max_iterations=30).fit(train).history_:
        assert record.gap > 0
        assert record.loss - record.gap <= optimum <= record.loss * (1 + 1e-5)
    assert best.history_[-1].gap <= 1e-5 * optimum < 0.001 * best.history_[0].gap


def test_both_algorithms_find_the_same_weights(train):
    best = svm(features="words", C=0.02).fit(train)
    other = svm(features="words", C=0.02).set_params(algorithm="subgradient").fit(train)
    assert other.history_[-1].gap is None
    np.testing.assert_allclose(other.trellis(train).emit, best.trellis(train).emit, atol=0.1)
    assert other.score(train) == pytest.approx(best.score(train), abs=0.005)


def test_a_cost_function_is_saved_as_its_values(tmp_path):
    path = tmp_path / "model.tagloom"
    svm(cost=double_trouble).fit(X, Y).save(path)
    loaded = tl.load(path)
    np.testing.assert_array_equal(loaded.cost_, [[0, 1], [5, 0]])
    assert loaded.cost == [[0, 1], [5, 0]]
    assert loaded.fit(X, Y).predict(BETWEEN) == [["Y"]]


def test_a_checkpoint_contains_its_costs(tmp_path):
    path = tmp_path / "run.checkpoint"
    svm(cost=double_trouble, max_iterations=2).fit(X, Y, checkpoint=path)
    svm(cost=[[0, 1], [5, 0]], max_iterations=3).fit(X, Y, checkpoint=path)
    with raises(
        tl.errors.ModelFileError, expected="cost [[0.0, 1.0]", found="cost [[0.0, 1.0], [5"
    ):
        svm(max_iterations=3).fit(X, Y, checkpoint=path)


@pytest.mark.parametrize(
    ("cost", "found"),
    [
        ("hinge", "'hinge'"),
        (3.0, "shape ()"),
        (np.zeros((3, 3)), "shape (3, 3)"),
        ([[0, -1], [1, 0]], "-1 for 'Y' where 'X' is right"),
        ([[0, 1], [np.nan, 0]], "nan for 'X' where 'Y' is right"),
        ([[1, 1], [1, 0]], "1 for 'X' where 'X' is right"),
        (lambda gold, other: None if gold < other else "x", "[['x', None], ['x', 'x']]"),
    ],
)
def test_invalid_costs(cost, found):
    with pytest.raises(ParameterError) as caught:
        svm(cost=cost).fit(X, Y)
    assert (caught.value.parameter, caught.value.found) == ("cost", found)


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    tagger = svm(cost=double_trouble).fit(X, Y)
    with pytest.raises(ParameterError):
        tagger.set_params(cost=[[0, -1], [1, 0]]).fit(X, Y)
    np.testing.assert_array_equal(tagger.cost_, [[0, 1], [5, 0]])
    fresh = svm(cost=[[0, -1], [1, 0]])
    with pytest.raises(ParameterError):
        fresh.fit(X, Y)
    assert not fresh.is_fitted


def test_other_invalid_parameters():
    for name, value in (("C", 0), ("C", -1), ("algorithm", "lbfgs"), ("warm_start", True)):
        with pytest.raises(ParameterError) as caught:
            svm().set_params(**{name: value}).fit(X, Y)
        assert (caught.value.parameter, caught.value.found) == (name, repr(value))
    with raises(ParameterError, expected="an online learner", found="frank-wolfe"):
        svm().partial_fit(X, Y)


def test_warm_start_continues(train):
    tagger = tl.StructuredSVM(features="words", warm_start=True, max_iterations=5).fit(train)
    first = tagger.history_[0].loss
    assert tagger.fit(train).history_[0].loss < 0.5 * first
    assert tagger.score(train) > 0.9


def test_hamming_is_one_for_every_wrong_label():
    np.testing.assert_array_equal(cost_matrix("hamming", ["a", "b", "c"]), 1 - np.eye(3))
