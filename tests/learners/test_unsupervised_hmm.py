"""`tl.HMM` without labels: what users pass, what they get, and hmmlearn's issues as cases."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from raising import raises
from tagloom.errors import LabelError, ParameterError, SentenceError

Categorical = tl.emissions.Categorical

TRUE = {
    "start": [0.6, 0.4],
    "trans": [[0.9, 0.1], [0.2, 0.8]],
    "emit": [[0.7, 0.2, 0.1], [0.05, 0.15, 0.8]],
}


def symbols(n=3, T=60, seed=0):
    """Sequences drawn from `TRUE`, as lists of str."""
    hmm = tl.HMM.from_probs(["a", "b"], ["x", "y", "z"], **TRUE)
    return [hmm.generate(seed + i, length=T).tokens for i in range(n)]


# ---- input -------------------------------------------------------------------------------------


def test_forms_of_input_agree():
    rng = np.random.default_rng(0)
    flat = rng.integers(0, 4, 20)
    expected = tl.HMM(n_states=2, max_iterations=5).fit([flat[:12], flat[12:]])
    forms = [
        ([flat[:12, None], flat[12:, None]], None),
        ([flat[:12].tolist(), flat[12:].tolist()], None),
        ([flat[:12].astype(float), flat[12:].astype(float)], None),
        (flat, [12, 8]),
        (flat[:, None], [12, 8]),
    ]
    for X, lengths in forms:
        hmm = tl.HMM(n_states=2, max_iterations=5).fit(X, lengths=lengths)
        assert_array_equal(hmm.emission_.probs_, expected.emission_.probs_)
        assert hmm.predict(X, lengths=lengths) == expected.predict([flat[:12], flat[12:]])
        assert hmm.score(X, lengths=lengths) == expected.score([flat[:12], flat[12:]])


def test_one_array_is_one_sequence():
    flat = np.random.default_rng(0).integers(0, 4, 20)
    hmm = tl.HMM(n_states=2, max_iterations=5).fit(flat)
    assert hmm.training_["sentences"] == 1
    assert [len(row) for row in hmm.predict(flat)] == [20]
    assert hmm.predict_marginals(flat[:, None])[0].shape == (20, 2)


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    flat = np.random.default_rng(0).integers(0, 4, 20)
    frame = pandas.DataFrame({"code": flat})
    expected = tl.HMM(n_states=2, max_iterations=5).fit([flat])
    for X in (frame, [frame], frame["code"]):
        hmm = tl.HMM(n_states=2, max_iterations=5).fit(X)
        assert_array_equal(hmm.emission_.probs_, expected.emission_.probs_)
        assert len(hmm.predict(X)[0]) == 20


def test_a_corpus_needs_no_labels():
    corpus = tl.datasets.load("english", label="upos")[1]
    hmm = tl.HMM(n_states=4, max_iterations=2).fit(corpus)
    plain = tl.HMM(n_states=4, max_iterations=2).fit([s.tokens for s in corpus])
    assert_array_equal(hmm.emission_.probs_, plain.emission_.probs_)
    assert hmm.score(corpus) < 0


@pytest.mark.parametrize("lengths", [[3], [2, -1, 3], [1.5, 2.5], "ab", [[4]]])
def test_wrong_lengths(lengths):
    with pytest.raises(ParameterError) as error:
        tl.HMM(n_states=2).fit(np.zeros(4, dtype=int), lengths=lengths)
    assert error.value.parameter == "lengths"


def test_wrong_data():
    with pytest.raises(SentenceError) as error:
        tl.HMM(n_states=2).fit([[0, 1], [0.5, 1]])
    assert error.value.where == "sentence 1, token 0"
    with pytest.raises(SentenceError):
        tl.HMM(n_states=2).fit([np.zeros((3, 2))])
    with pytest.raises(SentenceError):
        tl.HMM(n_states=2).fit([[]])
    with pytest.raises(LabelError):
        tl.HMM().fit([["a", "b"]])
    with pytest.raises(LabelError):
        tl.HMM(algorithm="em").fit([["a", "b"]])
    with pytest.raises(ParameterError) as error:
        tl.HMM(n_states=2).fit([["a", "b"]], [["N", "V"]])
    assert error.value.parameter == "y"


# ---- labels ------------------------------------------------------------------------------------


def test_full_labels_are_counted_as_before():
    X, y = [["they", "can", "fish"], ["they", "fish"]], [["N", "V", "V"], ["N", "V"]]
    counted, explicit = tl.HMM().fit(X, y), tl.HMM(algorithm="count").fit(X, y)
    assert_array_equal(counted.table_.rows, explicit.table_.rows)
    assert counted.history_ == []
    assert counted.stopped_ is None
    with pytest.raises(LabelError):
        tl.HMM(algorithm="count").fit(X, [["N", None, "V"], ["N", "V"]])


def test_em_of_full_labels_is_relative_frequency():
    X, y = [["a", "b", "a"], ["b"]], [["N", "V", "V"], ["N"]]
    hmm = tl.HMM(algorithm="em", emissions=Categorical(prior=1), prior=1).fit(X, y)
    assert_allclose(hmm.startprob_, [1, 0])
    assert_allclose(hmm.transmat_, [[0, 0.5], [0, 0.5]])
    assert_allclose(np.exp(hmm.log_stop_), [0.5, 0.5])
    assert_allclose(hmm.emissionprob_, [[0.5, 0.5], [0.5, 0.5]])


def test_partial_labels_improve_on_fewer():
    train, dev, _ = tl.datasets.load("english", label="upos")
    X, gold = [s.tokens for s in train], [list(s.labels) for s in train]
    rng = np.random.default_rng(0)
    open_y = [[label if rng.random() < 0.3 else None for label in row] for row in gold]
    hmm = tl.HMM(max_iterations=5).fit(X, open_y)
    assert isinstance(hmm.emission_, tl.emissions.Words)
    objectives = [r.objective for r in hmm.history_]
    assert objectives == sorted(objectives)
    assert hmm.score(dev) > 0.6
    assert hmm.predict(X, known=open_y)[0] == [
        a or b for a, b in zip(open_y[0], hmm.predict(X, known=open_y)[0], strict=True)
    ]


def test_sets_of_labels():
    X = [["a", "b"], ["b", "a"], ["c", "a"]]
    y = [["N", {"N", "V"}], [{"V", "D"}, "N"], [{"D"}, None]]
    hmm = tl.HMM(emissions=Categorical(prior=1), algorithm=tl.learners.EM(50)).fit(X, y)
    assert hmm.labels_.tolist() == ["D", "N", "V"]
    assert hmm.emission_.probs_[1, hmm.emission_.symbols_.index("c")] == 0  # c is D


def test_tag_dictionary():
    train, dev, _ = tl.datasets.load("english", label="upos")
    X = [s.tokens for s in train]
    entries = {}
    for s in train:
        for word, label in zip(s.tokens, s.labels, strict=True):
            entries.setdefault(word, set()).add(label)
    tags = sorted({label for s in train for label in s.labels})
    hmm = tl.HMM(labels=tags, constraints=tl.TagDictionary(entries=entries), max_iterations=20)
    hmm.fit(X)
    predicted = hmm.predict(X)
    assert all(
        label in entries[word]
        for words, row in zip(X, predicted, strict=True)
        for word, label in zip(words, row, strict=True)
    )
    right = [
        a == b
        for s, row in zip(train, predicted, strict=True)
        for a, b in zip(s.labels, row, strict=True)
    ]
    assert np.mean(right) > 0.85
    assert len(hmm.predict([s.tokens for s in dev])) == len(dev)  # with words never seen
    again = tl.load(hmm.to_bytes())
    assert again.predict(X) == predicted
    assert again.constraints_.dictionary == hmm.constraints_.dictionary


# ---- the interface of a tagger -----------------------------------------------------------------


def test_everything_a_tagger_offers():
    X = symbols()
    hmm = tl.HMM(n_states=2, random_state=1).fit(X)
    assert hmm.labels_.tolist() == ["0", "1"]
    assert_allclose(hmm.predict_marginals(X)[0].sum(axis=1), 1)
    assert hmm.predict_nbest(X, 2)[0][0].labels == hmm.predict(X)[0]
    known = [[None] * 59 + ["1"], None, None]
    assert hmm.predict(X, known=known)[0][-1] == "1"
    assert len(hmm.sample(X, 2, random_state=0)[0]) == 2
    assert hmm.explain(X[0]) is not None
    assert hmm.entropy(X).shape == (3,)
    assert hmm.describe()["training"]["stopped"] == "converged"
    assert set(hmm.generate(0, length=9).tokens) <= {"x", "y", "z"}
    drawn = tl.HMM(n_states=2).fit([[3, 5, 3, 5, 5]]).generate(0, length=6)
    assert set(drawn.tokens) <= {3, 5}
    assert set(drawn.labels) <= {"0", "1"}
    assert len(hmm.predict([["x", "never seen", "z"]])[0]) == 3


def test_likelihood_and_criteria():
    X = symbols()
    hmm = tl.HMM(n_states=2, stop=False, emissions=Categorical(prior=1), prior=1).fit(X)
    total = hmm.log_likelihood(X)
    assert_allclose(total, sum(hmm.trellis([x]).log_partition()[0] for x in X))
    assert_allclose(hmm.score(X), total / 180)
    parameters = 1 + 2 * 1 + 2 * 2
    assert hmm.n_parameters_ == parameters
    assert_allclose(hmm.aic(X), 2 * parameters - 2 * total)
    assert_allclose(hmm.bic(X), parameters * np.log(180) - 2 * total)
    assert_allclose(
        hmm.score(X, sample_weight=[1, 0, 0]), hmm.log_likelihood(X[:1]) / 60, rtol=1e-12
    )


def test_only_free_parameters_count():
    X = [[0, 1, 2, 0, 1], [2, 1]]
    params = {"n_states": 3, "stop": False, "emissions": Categorical(prior=1), "max_iterations": 2}
    n = {
        name: tl.HMM(**params | more).fit(X).n_parameters_
        for name, more in {
            "all": {},
            "left-right": {"allowed": "left-right"},
            "tied": {"tied": [[0, 1]]},
            "stop": {"stop": True},
        }.items()
    }
    assert n == {
        "all": 2 + 3 * 2 + 3 * 2,
        "left-right": 0 + (1 + 1 + 0) + 3 * 2,
        "tied": 2 + 3 * 2 + 2 * 2,
        "stop": 2 + 3 * 3 + 3 * 2,
    }
    hmm = tl.HMM(**params, allowed="left-right").fit(X)
    assert tl.load(hmm.to_bytes()).bic(X) == hmm.bic(X)


def test_stationary_distribution():
    hmm = tl.HMM.from_probs(["a", "b"], ["x", "y", "z"], **TRUE)
    pi = hmm.stationary_distribution()
    assert_allclose(pi @ np.array(TRUE["trans"]), pi, atol=1e-12)
    with_stop = tl.HMM(n_states=3).fit(symbols())
    shares = with_stop.stationary_distribution()
    chain = with_stop.transmat_ + np.exp(with_stop.log_stop_)[:, None] * with_stop.startprob_
    assert_allclose(shares @ chain, shares, atol=1e-12)


def test_files_and_pickles():
    X = symbols()
    for algorithm in (None, "vb", tl.learners.EM(7, tolerance=1e-3)):
        hmm = tl.HMM(n_states=2, algorithm=algorithm, restarts=2, random_state=3).fit(X)
        for again in (tl.load(hmm.to_bytes()), pickle.loads(pickle.dumps(hmm))):
            assert repr(again) == repr(hmm)
            assert again.predict(X) == hmm.predict(X)
            assert again.history_ == hmm.history_
            assert again.training_ == hmm.training_
            assert_array_equal(again.emission_.probs_, hmm.emission_.probs_)
            assert again.emission_.symbols_ == hmm.emission_.symbols_


def test_states_have_a_stable_order():
    X = symbols(n=6, T=200)
    first = [
        tl.HMM(n_states=2, restarts=3, random_state=seed).fit(X).emission_.probs_
        for seed in range(3)
    ]
    assert_allclose(first[1], first[0], atol=0.02)
    assert_allclose(first[2], first[0], atol=0.02)


def test_recovers_the_parameters():
    X = symbols(n=1, T=5_000)
    hmm = tl.HMM(n_states=2, stop=False, emissions=Categorical(symbols=list("xyz"))).fit(X)
    assert_allclose(hmm.emissionprob_, TRUE["emit"], atol=0.05)
    assert_allclose(hmm.transmat_, TRUE["trans"], atol=0.05)


def test_unseen_and_missing_symbols():
    hmm = tl.HMM(n_states=2).fit([[0, 1, 1, 0, 2]])
    assert np.isfinite(hmm.log_likelihood([[0, 7, 1]]))
    strict = tl.HMM(n_states=2, emissions=Categorical(prior=1)).fit([[0, 1, 1, 0, 2]])
    assert strict.log_likelihood([[0, 7, 1]]) == -np.inf
    X = [np.array([0, np.nan, 1.0])]
    gap = tl.HMM(n_states=2, stop=False, max_iterations=3).fit(X)
    trellis = gap.trellis(X)
    assert_array_equal(trellis.emit[1], 0)
    assert_allclose(np.exp(gap.log_likelihood([np.array([np.nan])])), 1)


def test_clone_and_parameters():
    sklearn = pytest.importorskip("sklearn.base")
    hmm = tl.HMM(n_states=3, algorithm=tl.learners.EM(5), emissions=Categorical(prior=2.0))
    assert repr(sklearn.clone(hmm)) == repr(hmm)
    assert hmm.set_params(n_states=4, emissions__prior=1.5).emissions.prior == 1.5


# ---- hmmlearn's issues -------------------------------------------------------------------------


def test_issue_18_more_states_than_tokens():
    hmm = tl.HMM(n_states=5, stop=False).fit([[0, 1]])
    assert np.isfinite(hmm.log_likelihood([[0, 1]]))
    assert_allclose(hmm.transmat_.sum(axis=1), 1)


def test_issue_186_zeros_in_start_values_may_stay_but_rows_sum_to_one():
    emission = Categorical.from_probs(["0", "1"], [0, 1], [[1.0, 0.0], [0.0, 1.0]], prior=1)
    start = {"start": [1.0, 0.0], "transitions": [[1.0, 0.0], [0.5, 0.5]], "emission": emission}
    hmm = tl.HMM(labels=["0", "1"], stop=False, prior=1, start_from=start).fit([[0, 0, 0]])
    assert_allclose(hmm.transmat_.sum(axis=1), 1)
    with pytest.raises(tl.errors.TrainingError) as error:  # symbol 1 is out of reach
        tl.HMM(labels=["0", "1"], stop=False, prior=1, start_from=start).fit([[0, 1, 0]])
    assert error.value.where == "sequence 0"


def test_issue_410_reports_why_it_stopped():
    X = symbols()
    short = tl.HMM(n_states=2, max_iterations=2).fit(X)
    long = tl.HMM(n_states=2, max_iterations=500).fit(X)
    assert (short.stopped_, long.stopped_) == ("max_iterations", "converged")
    assert len(short.history_) == 2
    assert short.history_[-1].objective < long.history_[-1].objective
    assert short.history_[0].measure == "log_posterior"


def test_interrupted(monkeypatch):
    import os
    import signal

    def stop(record):
        if record.iteration == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.warns(UserWarning, match="Interrupted"):
        hmm = tl.HMM(n_states=2, restarts=3).fit(symbols(), callback=stop)
    assert hmm.stopped_ == "interrupted"
    assert len(hmm.history_) == 3


def test_states_matched_to_another_model():
    X = symbols(n=6, T=100)
    first = tl.HMM(n_states=3, restarts=2).fit(X)
    order = [2, 0, 1]
    names = first.labels_.tolist()
    other = tl.HMM(
        labels=names,
        start_from={
            "start": first.startprob_[order],
            "transitions": first.transmat_[np.ix_(order, order)],
            "stop": np.exp(first.log_stop_)[order],
            "emission": first.emission_.permute(order),
        },
        match_to=first,
        max_iterations=1,
    ).fit(X)
    assert_allclose(other.emission_.probs_, first.emission_.probs_, atol=0.05)


def test_a_number_of_symbols_is_bounded():
    """A damaged file named 10^12, and a tuple of them took all memory."""
    with pytest.raises(ParameterError) as error:
        Categorical(symbols=10**12).check()
    assert error.value.found == "1,000,000,000,000"


@pytest.mark.parametrize("shape", [(20, 2), (20,)])
def test_measurements_without_an_emission_name_the_gaussian(shape):
    with raises(SentenceError, expected="whole number", hint="tl.emissions.Gaussian()"):
        tl.HMM(n_states=2).fit(np.random.default_rng(0).normal(size=shape))
