"""python-crfsuite as the judge: the same features, the same penalty, the same tagger."""

import numpy as np
import pycrfsuite
import pytest

import tagloom as tl


def word2features(sentence, t):
    word = sentence[t]
    item = {
        "bias": 1.0,
        "lower": word.lower(),
        "suffix3": word[-3:],
        "isupper": word.isupper(),
        "near": {"before": sentence[t - 1] if t else "BOS", "first": t == 0},
        "letters": sorted(set(word[:3])),
        "length": len(word) / 10,
    }
    return item


@pytest.fixture(scope="module")
def data():
    corpus = tl.datasets.load("english", "train", label="upos")[:100]
    X = [[word2features(s.tokens, t) for t in range(len(s))] for s in corpus]
    return X, corpus.labels


def crfsuite(data, path, algorithm, **params):
    trainer = pycrfsuite.Trainer(algorithm=algorithm, params=params, verbose=False)
    for x, y in zip(*data, strict=True):
        trainer.append(x, y)
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return trainer, tagger


@pytest.mark.parametrize(
    ("c1", "c2", "states", "transitions"),
    [
        (0.0, 1.0, "seen", "auto"),
        (0.0, 0.3, "all", "auto"),
        (0.4, 0.05, "seen", "auto"),
        (0.1, 0.1, "seen", "all"),  # the setting of sklearn-crfsuite's tutorial
        (0.0, 1.0, "all", "seen"),
    ],
)
def test_the_optimum_is_crfsuites(data, tmp_path, c1, c2, states, transitions):
    params = {"c2": c2, "epsilon": 1e-7, "delta": 1e-9, "max_iterations": 2000}
    if c1:
        params["c1"] = c1
    pairs = states if transitions == "auto" else transitions
    params["feature.possible_states"] = states == "all"
    params["feature.possible_transitions"] = pairs == "all"
    trainer, theirs = crfsuite(data, tmp_path / "peer", "lbfgs", **params)
    ours = tl.CRF(
        features=None,
        algorithm="lbfgs",
        l1=c1,
        l2=c2,
        combinations=states,
        transitions=transitions,
        tolerance=1e-6,
        boundaries=False,
        max_iterations=2000,
    ).fit(*data)
    X = data[0]
    for x, marginals in zip(X[:20], ours.predict_marginals(X[:20]), strict=True):
        theirs.set(x)
        for t, row in enumerate(marginals):
            expected = [theirs.marginal(label, t) for label in ours.labels_]
            np.testing.assert_allclose(row, expected, atol=0.02)
    loss = trainer.logparser.last_iteration["loss"]
    assert ours.history_[-1].loss == pytest.approx(loss, rel=2e-4)
    assert ours.transition_features_.keys() >= theirs.info().transitions.keys() or c1


def test_names_and_weights_are_crfsuites(data, tmp_path):
    _, theirs = crfsuite(data, tmp_path / "peer", "lbfgs", c2=1.0, epsilon=1e-7, delta=1e-9)
    ours = tl.CRF(
        features=None, algorithm="lbfgs", l2=1.0, boundaries=False, max_iterations=500
    ).fit(*data)
    info = theirs.info()
    # CRFsuite keeps the weights of attributes whose value is always zero; they are zero, too.
    assert ours.state_features_.keys() == {k for k, w in info.state_features.items() if w != 0}
    assert ours.transition_features_.keys() == info.transitions.keys()
    largest = max(info.state_features, key=lambda k: abs(info.state_features[k]))
    ours_by_name = ours.state_features_
    for key in [largest, *list(info.state_features)[:200]]:
        assert ours_by_name.get(key, 0.0) == pytest.approx(info.state_features[key], abs=0.03)


def test_word2features_comes_unchanged(data):
    corpus = tl.datasets.load("english", "train", label="upos")[:100]
    X, y = data
    given = tl.CRF(features=None, algorithm="lbfgs", max_iterations=10).fit(X, y)
    by_token = tl.CRF(features=word2features, algorithm="lbfgs", max_iterations=10).fit(corpus)
    by_sentence = tl.CRF(
        features=lambda s: [word2features(s, t) for t in range(len(s))],
        algorithm="lbfgs",
        max_iterations=10,
    ).fit(corpus)
    assert given.predict(X) == by_token.predict(corpus) == by_sentence.predict(corpus)


def test_a_looser_tolerance_stops_earlier(data):
    runs = [
        tl.CRF(features=None, algorithm="lbfgs", tolerance=tolerance, memory=memory).fit(*data)
        for tolerance, memory in [(1e-2, 6), (1e-5, 6), (1e-5, 1)]
    ]
    loose, tight, forgetful = (len(run.history_) for run in runs)
    assert loose < tight < forgetful


ONE_EPOCH = {"features": None, "margin": 0, "max_iterations": 1, "min_weight": 0}


def test_first_step_of_rare_features():
    """Of 60 features per token, first_square is (60 / 15)² and eta 6 / 60 times its root."""
    X = [[[f"{t} {k}" for k in range(60)] for t in range(2)]]
    weights = tl.CRF(**ONE_EPOCH).fit(X, [["A", "B"]]).scores_.rows.weights
    expected = 0.4 * 0.5 / np.sqrt(16 + 0.5**2)  # two labels: the gradient is 1/2
    np.testing.assert_allclose(np.abs(weights), expected, rtol=1e-5)


def test_frequent_features_have_the_usual_first_square():
    X, y = [[[f"{k}" for k in range(60)]] * 2] * 40, [["A", "B"]] * 40
    found, expected = tl.CRF(**ONE_EPOCH).fit(X, y), tl.CRF(**ONE_EPOCH, eta=0.1).fit(X, y)
    np.testing.assert_array_equal(found.scores_.rows.weights, expected.scores_.rows.weights)


def test_small_sparse_data_average_two_learners():
    train = tl.datasets.load("english", label="upos")[0][:60]
    X = [[{f"{a}": x[t][:a] for a in range(1, 9)} for t in range(len(x))] for x in train.tokens]
    exact = {"min_weight": 0.0, "dtype": "float64"}
    taggers = [
        tl.CRF(None, **exact),
        tl.CRF(None, max_iterations=20, margin=5.0, **exact),
        tl.CRF(None, algorithm="lbfgs", l1=0.1, l2=0.01, combinations="all", **exact),
    ]
    emit, one, other = (m.fit(X, train.labels).trellis(X).emit for m in taggers)
    np.testing.assert_allclose(emit, 0.6 * (one + other) / 2, rtol=1e-3, atol=1e-3)
    assert np.abs(one - other).max() > 0.1


def test_the_default_margin_shrinks_weights():
    """The labels are those of the margin; so are the scores, times 0.6."""
    train = tl.datasets.load("english", label="upos")[0][:60]
    X = [[{"end": x[t][-1:], "short": len(x[t]) < 4} for t in range(len(x))] for x in train.tokens]
    default, own = (
        tl.CRF(None, min_weight=0.0, **margin).fit(X, train.labels)
        for margin in ({}, {"margin": 2.0, "max_iterations": 10})
    )
    assert default.predict(X) == own.predict(X)
    np.testing.assert_allclose(
        default.trellis(X).emit, 0.6 * own.trellis(X).emit, rtol=1e-4, atol=1e-5
    )
