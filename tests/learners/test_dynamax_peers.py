"""Expectation maximisation, iteration by iteration beside dynamax, with its priors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tagloom as tl

em = tl.emissions
Y, D, N, T = 3, 2, 4, 50
NAMES = tuple(map(str, range(Y)))
ITERATIONS = 8
ALPHA = 1.1  # of start and transitions: the default of dynamax

# JAX and TensorFlow Probability warn about each other.
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def models():
    """The models of dynamax, in double precision."""
    reason = "dynamax is not installed; `make test-peers` installs it"
    jax = pytest.importorskip("jax", reason=reason)
    pytest.importorskip("dynamax", reason=reason)
    jax.config.update("jax_enable_x64", True)
    import dynamax.hidden_markov_model as models

    return models


def peer_likelihoods(peer, x, start, trans, **emission):
    """List the log-likelihood of the start, and after each iteration; all sequences are as long."""
    import jax
    import jax.numpy as jnp

    given = {"initial_probs": start, "transition_matrix": trans} | emission
    params, props = peer.initialize(**{name: jnp.asarray(value) for name, value in given.items()})
    x, state = jnp.asarray(x), peer.initialize_m_step_state(params, props)

    @jax.jit
    def iterate(params):  # as `fit_em`, which would report the likelihood times the prior
        stats, values = jax.vmap(lambda row: peer.e_step(params, row))(x)
        return peer.m_step(params, props, stats, state)[0], values.sum()

    values = []
    for _ in range(ITERATIONS + 1):
        params, value = iterate(params)
        values.append(float(value))
    return values


def our_likelihoods(emission, x, start, trans):
    """The same for tagloom."""
    X, values = list(x), []
    model = {"start": start, "transitions": trans, "emission": emission}
    for n in range(ITERATIONS + 1):
        fixed = ["start", "transitions", "emission"] if n == 0 else []
        hmm = tl.HMM(
            labels=NAMES,
            stop=False,
            prior=ALPHA,
            start_from=model,
            fixed=fixed,
            algorithm=tl.learners.EM(1, tolerance=0, reseed=False),
        ).fit(X)
        values.append(hmm.log_likelihood(X))
        model = hmm if n else model
    return values


def start_values(rng):
    return rng.dirichlet(np.ones(Y)), rng.dirichlet(np.ones(Y), Y)


def test_gaussians(models):
    rng = np.random.default_rng(0)
    x = 2 * rng.integers(0, Y, (N, T, 1)) + rng.standard_normal((N, T, D))
    (start, trans), means = start_values(rng), rng.normal(size=(Y, D))
    deviations = rng.uniform(0.5, 2, (Y, D))
    peer = models.DiagonalGaussianHMM(
        Y,
        D,
        emission_prior_mean=0.3,
        emission_prior_mean_concentration=0.7,
        emission_prior_concentration=0.4,
        emission_prior_scale=0.2,
    )
    ours = em.Gaussian.from_params(
        NAMES, means, deviations**2, "diag",
        prior_mean=0.3, prior_mean_weight=0.7, prior_scale=2 * 0.2, prior_weight=2 * 0.4 + 3,
    )  # fmt: skip
    theirs = {"emission_means": means, "emission_scale_diags": deviations}
    assert_allclose(
        our_likelihoods(ours, x, start, trans),
        peer_likelihoods(peer, x, start, trans, **theirs),
        rtol=1e-10,
    )


def test_poisson(models):
    rng = np.random.default_rng(1)
    x = rng.poisson(rng.choice([1.0, 4.0, 9.0], (N, T, 1)), (N, T, D))
    (start, trans), rates = start_values(rng), rng.uniform(1, 6, (Y, D))
    peer = models.PoissonHMM(Y, D, emission_prior_concentration=1.3, emission_prior_rate=0.2)
    ours = em.Poisson(prior_shape=1.3, prior_rate=0.2).bind(NAMES)
    ours = ours.replace(rates_=rates, log_rates_=np.log(rates))
    theirs = peer_likelihoods(peer, x.astype(float), start, trans, emission_rates=rates)
    assert_allclose(our_likelihoods(ours, x, start, trans), theirs, rtol=1e-10)


def test_categories(models):
    rng = np.random.default_rng(2)
    V = 5
    x, (start, trans) = rng.integers(0, V, (N, T, 1)), start_values(rng)
    x[:, ::3] = rng.integers(0, 2, x[:, ::3].shape)
    probs = rng.dirichlet(np.ones(V), (Y, 1))
    # A flat prior, since ours has one cell more, for symbols that were not seen.
    peer = models.CategoricalHMM(Y, 1, V, emission_prior_concentration=1.0)
    ours = em.Categorical.from_probs(NAMES, list(range(V)), probs[:, 0], prior=1)
    theirs = peer_likelihoods(peer, x, start, trans, emission_probs=probs)
    assert_allclose(our_likelihoods(ours, x[..., 0], start, trans), theirs, rtol=1e-10)
