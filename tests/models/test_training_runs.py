"""Progress, callbacks, early stopping, interrupts, checkpoints, warm starts."""

import os
import signal
import warnings

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import ModelFileError, ParameterError

KINDS = {
    "lbfgs": lambda **kw: tl.CRF(features="words", algorithm="lbfgs", **kw),
    "owlqn": lambda **kw: tl.CRF(features="words", algorithm="lbfgs", l1=0.2, l2=0.1, **kw),
    "adagrad": lambda **kw: tl.CRF(features="words", algorithm="adagrad", **kw),
    "sgd": lambda **kw: tl.CRF(features="words", algorithm="sgd", **kw),
    "perceptron": lambda **kw: tl.StructuredPerceptron(features="words", **kw),
    "memm": lambda **kw: tl.MEMM(features=["word", "edge(suffix(1))"], **kw),
    "svm": lambda **kw: tl.StructuredSVM(features="words", **kw),
    "frank-wolfe": lambda **kw: tl.StructuredSVM(
        features="words", algorithm="frank-wolfe", C=0.05, **kw
    ),
}


@pytest.fixture(params=KINDS)
def make(request):
    return KINDS[request.param]


@pytest.fixture(scope="module")
def train():
    return tl.datasets.load("english", "train", label="upos")[:120]


@pytest.fixture(scope="module")
def dev():
    return tl.datasets.load("english", "dev", label="upos")


def same(a, b):
    np.testing.assert_array_equal(a.scores_.rows.weights, b.scores_.rows.weights)
    np.testing.assert_array_equal(a.scores_.trans, b.scores_.trans)


def test_records_reach_a_callback(make, train, dev):
    records = []
    tagger = make(max_iterations=4).fit(train, dev=dev, callback=records.append)
    assert [r.iteration for r in records] == [1, 2, 3, 4]
    assert records == tagger.history_
    assert all(0 < r.dev < 1 and np.isfinite(r.loss) and r.seconds > 0 for r in records)
    assert tagger.training_["iterations"] == 4


def test_the_best_weights_on_dev_are_kept(make, train, dev):
    tagger = make(max_iterations=6).fit(train, dev=dev)
    best = max(r.dev for r in tagger.history_)
    assert tagger.score(dev) == pytest.approx(best, abs=1e-3)  # float32 weights
    assert tagger.training_["dev"] == best


def test_training_stops_when_dev_does_not_rise(make, train, dev):
    tagger = make(max_iterations=500, patience=2).fit(train, dev=dev)
    assert tagger.training_["stopped"] in ("early", "converged")
    if tagger.training_["stopped"] == "early":
        assert len(tagger.history_) == tagger.training_["best_iteration"] + 2


def test_ctrl_c_keeps_the_best_weights(make, train):
    def press(record):
        if record.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(UserWarning, match="Interrupted: the weights of iteration [23] are kept"):
        tagger = make(max_iterations=50).fit(train, callback=press)
    assert signal.getsignal(signal.SIGINT) is before
    assert tagger.training_["stopped"] == "interrupted"
    assert tagger.score(train) > 0.3


def test_a_checkpoint_resumes_to_the_same_numbers(make, train, tmp_path):
    path = tmp_path / "run.checkpoint"
    whole = make(max_iterations=6).fit(train)

    def press(record):
        if record.iteration == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(max_iterations=6).fit(train, callback=press, checkpoint=path)
    resumed = []
    again = make(max_iterations=6).fit(train, callback=resumed.append, checkpoint=path)
    assert resumed[0].iteration >= 4
    assert len(again.history_) == 6
    same(whole, again)
    assert [r.loss for r in whole.history_] == [r.loss for r in again.history_]


@pytest.mark.parametrize("checkpoint", [3, b"run", True, ["run"]])
def test_invalid_checkpoint(train, checkpoint):
    with pytest.raises(ParameterError) as raised:
        tl.CRF(features="words").fit(train, checkpoint=checkpoint)
    assert (raised.value.parameter, raised.value.expected) == ("checkpoint", "a file name")


def test_a_checkpoint_of_other_data_is_refused(make, train, tmp_path):
    path = tmp_path / "run.checkpoint"
    make(max_iterations=2).fit(train, checkpoint=path)
    with raises(ModelFileError, where="run.checkpoint", expected="data", found="data"):
        make(max_iterations=2).fit(train[:50], checkpoint=path)
    make(max_iterations=2).fit(train).save(path)
    with raises(ModelFileError, expected="a checkpoint", found="a tagger"):
        make(max_iterations=2).fit(train, checkpoint=path)


def test_warm_start_continues(train):
    cold = tl.CRF(features="words", algorithm="lbfgs", max_iterations=60).fit(train)
    warm = tl.CRF(features="words", algorithm="lbfgs", max_iterations=60, warm_start=True).fit(
        train
    )
    warm.fit(train)
    assert warm.history_[0].loss == pytest.approx(cold.history_[-1].loss, rel=1e-2)
    more = warm.fit([*train.tokens, ["zzz", "zzz"]], [*train.labels, ["NEW", "NOUN"]])
    assert "NEW" in more.labels_
    assert more.score(train) > cold.score(train) - 0.02


@pytest.mark.parametrize("average", [False, True])
def test_partial_fits_equal_one_epoch(train, dev, average):
    options = {"features": "pos", "average": average, "shuffle": False, "max_iterations": 1}
    options["labels"] = sorted(train.label_counts())
    whole = tl.StructuredPerceptron(**options).fit(train)
    parts = tl.StructuredPerceptron(**options)
    for i in range(0, len(train), 50):  # each part brings new words
        assert parts.partial_fit(train[i : i + 50]) is parts
    live = parts.trellis(dev).emit  # sums of weights in another order
    np.testing.assert_allclose(live, whole.trellis(dev).emit, rtol=1e-5, atol=1e-4)
    saved = tl.load(parts.to_bytes())
    np.testing.assert_array_equal(saved.trellis(dev).emit, whole.trellis(dev).emit)
    np.testing.assert_array_equal(saved.transitions_, whole.transitions_)


@pytest.mark.parametrize("algorithm", ["adagrad", "sgd"])
def test_partial_fits_add_new_labels(train, algorithm):
    tagger = tl.CRF(features="pos", algorithm=algorithm, average=False)
    for _ in range(3):
        tagger.partial_fit(train[:60])
        tagger.partial_fit(train[60:])
    assert tagger.score(train) > 0.9
    tagger.partial_fit([["zzz", "yyy"]] * 9, [["NEW", "NOUN"]] * 9)
    assert "NEW" in tagger.labels_
    assert tagger.score(train) > 0.9
    assert tagger.predict([["zzz", "yyy"]]) == [["NEW", "NOUN"]]


def test_partial_fit_needs_an_online_learner(train):
    with raises(ParameterError, expected="an online learner", found="CRF(", hint="{algorithm}"):
        tl.CRF(algorithm="lbfgs").partial_fit(train)


def test_a_progress_bar_is_shown_on_request(train, capfd):
    tl.CRF(features="words", algorithm="lbfgs", max_iterations=2).fit(train, progress=True)
    shown = capfd.readouterr()
    assert "2/2" in shown.err
    assert shown.out == ""
    tl.CRF(features="words", algorithm="lbfgs", max_iterations=2).fit(train)
    assert capfd.readouterr().err == ""  # no terminal here


def test_selection_by_l1_keeps_few_features(train, dev):
    whole = tl.CRF(features="pos", algorithm="lbfgs", l2=0.1).fit(train)
    chosen = tl.CRF(features="pos", algorithm="lbfgs", l1=0.5, l2=0.1, select="l1").fit(train)
    assert len(chosen.scores_.rows.weights) < 0.3 * len(whole.scores_.rows.weights)
    assert chosen.score(dev) > whole.score(dev) - 0.05


def test_partial_fits_free_weights_seen_later():
    """AdaGrad's sums of squares are infinite for masked weights, here unseen transitions."""
    tagger = tl.CRF(features="words", combinations="seen")
    for _ in range(10):
        tagger.partial_fit([["they", "fish"]], [["N", "V"]])
        tagger.partial_fit([["fish", "they"]], [["V", "N"]])
    weights = tagger.transition_features_
    assert weights.keys() >= {("N", "V"), ("V", "N")}
    assert all(np.isfinite(weight) for weight in weights.values())


@pytest.mark.parametrize(
    "make",
    [lambda **o: tl.CRF(features=["word", "edge(word)"], max_iterations=1, **o), tl.HMM],
)
def test_the_digest_tells_data_apart(make):
    def digest(X, y, labels=None, **options):
        return make(labels=labels).fit(X, y, **options).training_["digest"]

    X, y = [["a", "b"], ["c"]], [["X", "Y"], ["X"]]
    assert digest(X, y) == digest(X, y)
    assert digest(X, y, ["X", "Y"]) == digest(X, y, list(np.unique(["X", "Y"])))
    others = [
        digest(X, [["X", "Y"], ["Y"]]),
        digest(X, [["X", "Z"], ["X"]]),
        digest([["a", "b"], ["d"]], y),
        digest([["a"], ["b", "c"]], [["X"], ["Y", "X"]]),
        digest(X, y, sample_weight=[1, 2]),
        digest(X, y, sample_weight=[1, 1]),
    ]
    assert len({digest(X, y), *others}) == 7
