"""Parameters of well separated states come back from sampled tokens."""

import numpy as np
import pytest

import tagloom as tl

START = np.array([0.5, 0.3, 0.2])
TRANS = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.25, 0.05, 0.7]])


def draw_states(rng, N, T):
    """Draw N chains of T states each [N, T]."""
    states = np.empty((N, T), dtype=np.int64)
    states[:, 0] = rng.choice(3, N, p=START)
    cumulative = TRANS.cumsum(axis=1)
    for t in range(1, T):
        states[:, t] = (rng.random((N, 1)) > cumulative[states[:, t - 1]]).sum(axis=1)
    return states


def fit(X, emissions):
    algorithm = tl.learners.EM(200, tolerance=1e-7)
    model = tl.HMM(
        n_states=3, emissions=emissions, algorithm=algorithm, restarts=3, stop=False, prior=1
    )
    return model.fit(X)


def check_chain(hmm, order, tolerance, of_few):
    found = np.exp(hmm.transitions_)[np.ix_(order, order)]
    np.testing.assert_allclose(found, TRANS, atol=tolerance)
    np.testing.assert_allclose(hmm.startprob_[order], START, atol=of_few)


def check_symbols(N, T, tolerance, of_few):
    emit = np.array(
        [[0.7, 0.1, 0.1, 0.05, 0.05], [0.05, 0.8, 0.05, 0.05, 0.05], [0.1, 0, 0, 0.5, 0.4]]
    )
    rng = np.random.default_rng(0)
    states = draw_states(rng, N, T)
    tokens = (rng.random((N, T, 1)) > emit.cumsum(axis=1)[states]).sum(axis=2)
    hmm = fit(list(tokens), tl.emissions.Categorical(prior=1, symbols=5))
    probs = hmm.emissionprob_[:, :5]
    order = [int(np.abs(probs - row).sum(axis=1).argmin()) for row in emit]
    np.testing.assert_allclose(probs[order], emit, atol=tolerance)
    check_chain(hmm, order, tolerance, of_few)


def check_vectors(N, T, tolerance, of_few):
    means = np.array([[0.0, 0.0], [3.0, 1.0], [-1.0, 4.0]])
    factors = np.array(
        [[[1.0, 0.0], [0.5, 0.8]], [[0.7, 0.0], [0.0, 1.2]], [[1.0, 0.0], [-0.6, 0.5]]]
    )
    rng = np.random.default_rng(1)
    states = draw_states(rng, N, T)
    noise = (factors[states] @ rng.standard_normal((N, T, 2, 1)))[..., 0]
    hmm = fit(list(means[states] + noise), tl.emissions.Gaussian("full"))
    order = [int(np.abs(hmm.emission_.means_ - mean).sum(axis=1).argmin()) for mean in means]
    np.testing.assert_allclose(hmm.emission_.means_[order], means, atol=tolerance)
    cov = factors @ factors.transpose(0, 2, 1)
    np.testing.assert_allclose(hmm.emission_.covariances_[order], cov, atol=of_few)
    check_chain(hmm, order, tolerance, of_few)


@pytest.mark.parametrize("check", [check_symbols, check_vectors])
def test_recovery_from_few_tokens(check):
    check(N=100, T=100, tolerance=0.08, of_few=0.16)  # starts have N draws only


@pytest.mark.soak
@pytest.mark.parametrize("check", [check_symbols, check_vectors])
def test_recovery_from_a_million_tokens(check):
    check(N=10_000, T=100, tolerance=0.02, of_few=0.02)
