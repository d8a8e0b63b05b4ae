"""The online filter equals the forward marginals of each prefix."""

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import InfeasibleError, NotFittedError, ParameterError

LABELS, WORDS = ["A", "B", "C"], ["u", "v", "w", "x"]


def random_hmm(seed, stop=True):
    rng = np.random.default_rng(seed)
    ends = rng.uniform(0.1, 0.4, 3) if stop else None
    trans = rng.dirichlet(np.ones(3), 3)
    if stop:
        trans *= (1 - ends)[:, None]
    emit, start = rng.dirichlet(np.ones(4), 3), rng.dirichlet(np.ones(3))
    return tl.HMM.from_probs(LABELS, WORDS, start=start, trans=trans, emit=emit, stop=ends)


def forward_marginals(hmm, prefix):
    """The posterior of the last state and the likelihood of a prefix, from its trellis."""
    trellis = hmm.trellis([prefix])[0]
    alpha = trellis.forward()[-1]  # [S] log space, without the stop
    log_z = np.logaddexp.reduce(alpha)
    states = np.exp(alpha - log_z)
    label = trellis.states.state_labels
    return np.bincount(label, weights=states, minlength=len(hmm.labels_)), log_z


@pytest.mark.parametrize("stop", [True, False])
def test_filter_equals_the_forward_marginals_of_the_prefix(stop):
    hmm = random_hmm(0, stop)
    now = hmm.filter()
    words = np.random.default_rng(1).choice(WORDS, 12).tolist()
    for t, word in enumerate(words):
        posterior, log_z = forward_marginals(hmm, words[: t + 1])
        np.testing.assert_allclose(now.update(word), posterior, rtol=1e-10)
        np.testing.assert_allclose(now.log_likelihood, log_z, rtol=1e-10)
        assert now.n_tokens == t + 1
        assert now.label == LABELS[posterior.argmax()]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_filter_of_any_order(order):
    rng = np.random.default_rng(order)
    X = [rng.choice(WORDS, n).tolist() for n in rng.integers(1, 9, 40)]
    y = [rng.choice(LABELS, len(x)).tolist() for x in X]
    hmm = tl.HMM(order=order).fit(X, y)
    now = hmm.filter()
    for t, word in enumerate(X[0] + X[1]):
        posterior, log_z = forward_marginals(hmm, (X[0] + X[1])[: t + 1])
        np.testing.assert_allclose(now.update(word), posterior, rtol=1e-6)  # emit is float32
        np.testing.assert_allclose(now.log_likelihood, log_z, rtol=1e-6)


def test_missing_tokens_are_summed_over():
    hmm = random_hmm(2, stop=False)
    now = hmm.filter()
    now.update("u")
    now.update(None)
    posterior = now.update("v")
    total, weight = np.zeros(3), 0.0
    for word in WORDS:
        ours, log_z = forward_marginals(hmm, ["u", word, "v"])
        total += ours * np.exp(log_z)
        weight += np.exp(log_z)
    np.testing.assert_allclose(posterior, total / weight, rtol=1e-10)
    np.testing.assert_allclose(now.log_likelihood, np.log(weight), rtol=1e-10)


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_numbers_with_missing_components(covariance):
    x = np.random.default_rng(0).normal(np.repeat([0.0, 4.0, 0.0], 20)[:, None] * [1, -1])
    x[10] = np.nan
    x[25:30, 0] = np.nan
    hmm = tl.HMM(n_states=2, emissions=tl.emissions.Gaussian(covariance)).fit(x)
    now = hmm.filter()
    for t, row in enumerate(x):
        posterior, log_z = forward_marginals(hmm, x[: t + 1])
        np.testing.assert_allclose(now.update(row), posterior, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(now.log_likelihood, log_z, rtol=1e-9)


def test_counts_and_single_numbers():
    x = np.random.default_rng(0).poisson(np.repeat([2, 9], 20)).astype(float)
    hmm = tl.HMM(n_states=2, emissions=tl.emissions.Poisson()).fit(x)
    now = hmm.filter()
    for value in x:
        last = now.update(value)
    np.testing.assert_allclose(last, forward_marginals(hmm, x)[0], rtol=1e-9, atol=1e-12)


def test_predictions_ahead():
    hmm = random_hmm(3, stop=False)
    start, trans = np.exp(hmm.log_start_), np.exp(hmm.transitions_)
    now = hmm.filter()
    np.testing.assert_allclose(now.predict_next(), start)
    np.testing.assert_allclose(now.posterior, start)
    posterior = now.update("w")
    np.testing.assert_allclose(now.predict_next(), posterior @ trans)
    np.testing.assert_allclose(now.predict_next(3), posterior @ np.linalg.matrix_power(trans, 3))
    np.testing.assert_allclose(now.posterior, posterior)  # looking ahead changes nothing


def test_copy_and_reset():
    now = random_hmm(4).filter()
    now.update("u")
    ahead = now.copy()
    ahead.update("v")
    assert (now.n_tokens, ahead.n_tokens) == (1, 2)
    fresh = random_hmm(4).filter()
    np.testing.assert_array_equal(now.reset().update("x"), fresh.update("x"))


def test_a_long_stream_stays_normalised():
    now = random_hmm(5, stop=False).filter()
    for word in np.random.default_rng(0).choice(WORDS, 3000).tolist():
        posterior = now.update(word)
    np.testing.assert_allclose(posterior.sum(), 1.0, rtol=1e-12)
    assert now.log_likelihood < -1000


def test_an_impossible_token_leaves_the_filter_as_it_was():
    hmm = tl.HMM.from_probs(
        ["A", "B"], ["u", "v"], start=[1, 0], trans=[[1, 0], [0, 1]], emit=[[1, 0], [0, 1]]
    )
    now = hmm.filter()
    now.update("u")
    with raises(InfeasibleError, where="token 1", found="'v'"):
        now.update("v")
    assert now.n_tokens == 1
    np.testing.assert_allclose(now.update("u"), [1, 0])


def test_schemes_and_dictionaries_hold():
    X = [["Ada", "Lovelace", "wrote"], ["In", "London"]] * 3
    y = [["B-PER", "I-PER", "O"], ["O", "B-LOC"]] * 3
    constraints = ["bio", tl.TagDictionary(min_count=2)]
    hmm = tl.HMM(constraints=constraints).fit(X, y)
    now = hmm.filter()
    prefix = ["Ada", "London", "unknown", "wrote"]
    for t, word in enumerate(prefix):
        posterior, _ = forward_marginals(hmm, prefix[: t + 1])
        np.testing.assert_allclose(now.update(word), posterior, rtol=1e-5, atol=1e-7)


def test_models_that_cannot_filter():
    X, y = [["a", "b"]], [["A", "B"]]
    features = tl.HMM(emissions=["word", "word[-1]"]).fit(X, y)
    with raises(ParameterError, parameter="emissions", found="Features"):
        features.filter()
    with pytest.raises(NotFittedError):
        tl.HMM().filter()


@pytest.mark.parametrize("covariance", ["spherical", "diag", "full", "tied"])
def test_filter_of_vectors(covariance):
    """Vectors with and without gaps; a wrong number of columns is reported."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3)) + 2 * np.repeat([0, 1, 0], 20)[:, None]
    gaussian = tl.emissions.Gaussian(covariance)
    hmm = tl.HMM(n_states=2, emissions=gaussian, max_iterations=5).fit(x)
    x[3, 1] = x[7] = np.nan
    now = hmm.filter()
    for t in range(12):
        posterior, log_z = forward_marginals(hmm, x[: t + 1])
        np.testing.assert_allclose(now.update(x[t]), posterior, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(now.log_likelihood, log_z, rtol=1e-9)
    with raises(tl.errors.ShapeError, parameter="X"):
        now.update([1.0, 2.0])
