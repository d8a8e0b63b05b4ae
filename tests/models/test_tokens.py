"""Token classifiers: the vowels, can of fish, other libraries' optima, what they refuse."""

import functools
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tagloom as tl
from raising import raises
from tagloom.errors import ParameterError

KINDS = [
    ("log", "adagrad"),
    ("log", "lbfgs"),
    ("perceptron", "auto"),
    ("hinge", "subgradient"),
    ("hinge", "frank-wolfe"),
]
FISH, CAN = ["they", "can", "fish"], ["can", "of", "fish"]
GOLD = [["N", "V", "V"], ["N", "P", "N"]]


def token(loss, algorithm, **options):
    defaults = {"C": 10.0, "max_iterations": 300, "min_weight": 0.0}
    return tl.TokenClassifier(**{"loss": loss, "algorithm": algorithm, **defaults, **options})


def vowels(n_sentences=4):
    """Formants in kHz and a bias, as the tokens of a few sentences."""
    data = tl.datasets.classic("vowels")
    rows = np.column_stack([data.formants / 1000, np.ones(len(data.formants))])
    X = np.array_split(rows, n_sentences)
    y = [part.tolist() for part in np.array_split(np.array(data.vowels), n_sentences)]
    return X, y


@pytest.mark.parametrize(("loss", "algorithm"), KINDS)
def test_vowels_by_their_formants(loss, algorithm):
    """001 §1.1: three weight vectors divide the plane into three parts."""
    X, y = vowels()
    # Of the perceptron only the last weights are sure to separate what they were learnt from.
    tagger = token(loss, algorithm, l2=0.001, average=loss != "perceptron").fit(X, y)
    assert tagger.labels_.tolist() == ["a", "i", "u"]
    assert tagger.score(X, y) == 1
    centres = tl.datasets.classic("vowels")
    rows = np.column_stack([centres.means / 1000, np.ones(3)])
    assert tagger.predict([rows]) == [list(centres.labels)]


@pytest.mark.parametrize(("loss", "algorithm"), KINDS)
def test_the_label_of_can_needs_the_neighbouring_words(loss, algorithm):
    """000 §7.1: [7.1-7.3] fail on one of the two sentences, [7.4-7.6] do not."""
    X = [FISH, CAN]
    alone = token(loss, algorithm, features=["word"], l2=0.01).fit(X, GOLD)
    assert alone.score(X, GOLD) <= 4 / 6  # can and fish each have one label, right in one place
    assert alone.predict([FISH])[0][1] == alone.predict([CAN])[0][0]
    context = token(loss, algorithm, features=["word[-1..1]"], l2=0.01).fit(X, GOLD)
    assert context.predict(X) == GOLD


@pytest.mark.parametrize(("loss", "algorithm"), KINDS)
def test_labels_do_not_depend_on_each_other(loss, algorithm):
    tagger = token(loss, algorithm, features=["word"], max_iterations=5).fit([FISH, CAN], GOLD)
    assert not tagger.transitions_.any()
    trellis = tagger.trellis([FISH])[0]
    marginals = np.exp(trellis.emit) / np.exp(trellis.emit).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(tagger.predict_marginals([FISH])[0], marginals, rtol=1e-5)


def test_log_loss_has_the_optimum_of_another_library():
    """scikit-learn: Σ nll + ‖θ‖² / (2C), so that C = 1 / (2·l2)."""
    from sklearn.linear_model import LogisticRegression

    X, y = vowels()
    tagger = token("log", "lbfgs", l2=0.05, combinations="all").fit(X, y)
    judge = LogisticRegression(C=10.0, fit_intercept=False, tol=1e-8, max_iter=2000)
    judge.fit(np.concatenate(X), np.concatenate(y))
    ours = np.concatenate(tagger.predict_marginals(X))
    np.testing.assert_allclose(ours, judge.predict_proba(np.concatenate(X)), atol=2e-3)


def test_hinge_loss_has_the_optimum_of_another_library():
    """Crammer and Singer's SVM: ½‖θ‖² + C·Σ hinge, the same in liblinear."""
    from sklearn.svm import LinearSVC

    X, y = vowels()
    tagger = token("hinge", "frank-wolfe", C=1.0, max_iterations=2000).fit(X, y)
    assert tagger.training_["stopped"] == "converged"
    judge = LinearSVC(
        multi_class="crammer_singer", C=1.0, fit_intercept=False, tol=1e-8, max_iter=100_000
    ).fit(np.concatenate(X), np.concatenate(y))
    scores = judge.decision_function(np.concatenate(X))
    np.testing.assert_allclose(tagger.trellis(X).emit, scores, atol=0.1)


def test_a_sentence_weighs_as_much_as_its_copies():
    X, y = vowels()
    options = {"l2": 0.1, "combinations": "all"}
    twice = token("log", "lbfgs", **options).fit([*X, X[0]], [*y, y[0]])
    weighted = token("log", "lbfgs", **options).fit(X, y, sample_weight=[2, 1, 1, 1])
    np.testing.assert_allclose(twice.trellis(X).emit, weighted.trellis(X).emit, atol=5e-3)


@pytest.mark.parametrize("loss", ["log", "perceptron", "hinge"])
def test_partial_fit_learns_more(loss):
    tagger = token(loss, "auto", features=["word[-1..1]"], average=False)
    for _ in range(20):
        tagger.partial_fit([FISH], GOLD[:1]).partial_fit([CAN], GOLD[1:])
    assert tagger.predict([FISH, CAN]) == GOLD
    assert not tagger.transitions_.any()


def test_constraints_are_for_decoding():
    X, y = [["a", "b", "c"], ["b", "x"]], [["B-X", "I-X", "O"], ["B-X", "O"]]
    free = token("log", "lbfgs", features=["word"], constraints=None).fit(X, y)
    assert free.scheme_ is None
    legal = token("log", "lbfgs", features=["word"]).fit(X, y)
    assert legal.scheme_ == "bio"
    assert "I-X" not in {labels[0] for labels in legal.predict([["b"], ["b", "c"], ["c", "b"]])}


def test_invalid_parameters_are_named():
    def fit(**options):
        tl.TokenClassifier(**options).fit([FISH], GOLD[:1])

    for parameter, options in (
        ("loss", {"loss": "squared"}),
        ("algorithm", {"loss": "hinge", "algorithm": "lbfgs"}),
        ("C", {"C": 0}),
        ("features", {"features": ["word", "edge(word)"]}),
        ("warm_start", {"loss": "hinge", "algorithm": "frank-wolfe", "warm_start": True}),
    ):
        with pytest.raises(ParameterError) as caught:
            fit(**options)
        assert caught.value.parameter == parameter
    with raises(ParameterError, expected="an online learner", found="frank-wolfe"):
        tl.TokenClassifier(loss="hinge", algorithm="frank-wolfe").partial_fit([FISH], GOLD[:1])
    with raises(ParameterError, expected="an online learner", found="TokenClassifier("):
        tl.TokenClassifier(algorithm="lbfgs").partial_fit([FISH], GOLD[:1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [tl.TokenClassifier, tl.MEMM])
def test_an_epoch_is_linear_in_the_number_of_labels(kind):
    """800 labels: an update of all label pairs per token took five times as long as the CRF."""
    n = 800
    X = [[f"w{i}" for i in range(j, j + 10)] for j in range(0, n, 10)]
    y = [[f"L{i}" for i in range(j, j + 10)] for j in range(0, n, 10)]

    def seconds(model):
        tagger = model("words", max_iterations=1, n_threads=1)
        began = time.process_time()
        with pytest.warns(tl.errors.DataWarning, match="more like words than labels"):
            tagger.fit(X, y)
        return time.process_time() - began

    all_labels = functools.partial(tl.CRF, prune=None)
    assert min(seconds(kind) for _ in range(2)) < seconds(all_labels) / 3


@pytest.mark.parametrize("algorithm", ["adagrad", "lbfgs"])
def test_single_tokens_learn_as_the_chain_does(algorithm):
    """Chains of one token, once with the recursions over paths and once by a softmax."""
    X, y = vowels()
    options = {"algorithm": algorithm, "max_iterations": 8, "min_weight": 0.0, "l2": 0.1}
    if algorithm == "adagrad":  # by default a CRF chooses its rate by the number of features
        options["eta"] = 0.5
    tokens = tl.TokenClassifier(None, combinations="all", **options).fit(X, y)
    X1 = [row[None] for rows in X for row in rows]
    y1 = [[label] for labels in y for label in labels]
    # A space that is not first order takes the recursion over its automaton.
    space = tl.StateSpace.order(["a", "i", "u"], 2)
    options["margin"] = 0.0  # by default, a CRF has one for small data
    chains = tl.CRF(None, states=space, boundaries=False, combinations="all", **options)
    chains.fit(X1, y1)
    assert_allclose(
        np.vstack(tokens.predict_marginals(X)),
        np.vstack(chains.predict_marginals(X1)),
        atol=1e-5,
    )
