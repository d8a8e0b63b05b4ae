"""Expectation maximisation of emissions of numbers, iteration by iteration beside hmmlearn."""

import numpy as np
import pytest
from hmmlearn.hmm import GMMHMM, GaussianHMM, MultinomialHMM, PoissonHMM
from numpy.testing import assert_allclose

import tagloom as tl
from tagloom.learners import ChainPrior, Unlabelled
from tagloom.learners.expectations import EStep, update_chain
from tagloom.scores.markov import MarkovChain

em = tl.emissions
KINDS = ("spherical", "diag", "full", "tied")
LENGTHS = [40, 1, 2, 25]
NAMES = ("0", "1", "2")
ITERATIONS = 8


def start_values(rng):
    return rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)


def iterate(emission, x, start, trans, correct=lambda old, new, stats: new):
    """Yield the likelihood of the start, and after each iteration, with the model."""
    X = np.split(x, np.cumsum(LENGTHS)[:-1])
    data = emission.encode(X)
    problem = Unlabelled(data, data.offsets, emission, has_stop=False, prior=ChainPrior())
    chain, expect = MarkovChain.from_probs(start, (trans,), None), EStep(problem)
    for _ in range(ITERATIONS + 1):
        expected = expect(chain, emission)
        yield expected.log_likelihood, chain, emission
        new = emission.update(expected.stats)
        chain = update_chain(problem, expected, chain)
        emission = correct(emission, new, expected.stats)


def peer_likelihoods(peer, x, start, trans):
    """List the likelihood of the start, and after each of hmmlearn's iterations."""
    peer.startprob_, peer.transmat_ = start, trans
    return list(peer.fit(x, LENGTHS).monitor_.history)  # each before its M-step


def make_peer(cls, **params):
    return cls(
        3, n_iter=ITERATIONS + 1, tol=-np.inf, init_params="", implementation="log", **params
    )


def signal(rng, D=3):
    """Numbers around three means, which overlap."""
    states = rng.integers(0, 3, sum(LENGTHS))
    return 1.5 * states[:, None] + rng.standard_normal((sum(LENGTHS), D)) @ rng.normal(size=(D, D))


def compact(rng, kind, n, D):
    """Random covariances in the shape of their kind."""
    roots = rng.normal(size=(*n, D, D))
    full = roots @ roots.swapaxes(-1, -2) + np.eye(D)
    if kind == "tied":
        return full[..., 0, :, :] if len(n) > 1 else full[0]
    diagonal = np.diagonal(full, axis1=-1, axis2=-2)
    return {"full": full, "diag": diagonal, "spherical": diagonal[..., 0]}[kind]


@pytest.mark.parametrize("has_prior", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gaussians(kind, has_prior):
    rng = np.random.default_rng(KINDS.index(kind))
    x, (start, trans), D = signal(rng), start_values(rng), 3
    means, cov = rng.normal(size=(3, D)), compact(rng, kind, (3,), D)
    is_diagonal = kind in ("spherical", "diag")
    kappa, weight, scale = (0.7, 2.5, 0.4) if has_prior else (0.0, 0.0, 0.0)
    peer = make_peer(
        GaussianHMM,
        covariance_type=kind,
        means_prior=0.3,
        means_weight=kappa,
        covars_prior=scale if is_diagonal else scale * np.eye(D),
        covars_weight=weight + (1 if is_diagonal else D),
    )
    peer.n_features, peer.means_, peer.covars_ = D, means, cov
    given = em.Gaussian.from_params(
        NAMES, means, cov, kind,
        prior_mean=0.3, prior_mean_weight=kappa, prior_scale=scale, prior_weight=weight,
    )  # fmt: skip
    ours = list(iterate(given, x, start, trans))
    assert_allclose(
        [likelihood for likelihood, _, _ in ours],
        peer_likelihoods(peer, x, start, trans),
        rtol=1e-8,
    )
    objectives = [likelihood + emission.log_prior() for likelihood, _, emission in ours]
    assert np.diff(objectives).min() > -1e-9 * abs(objectives[-1])
    if has_prior:  # the objective is with the prior: the likelihood alone is another number
        assert abs(objectives[-1] - ours[-1][0]) > 1


@pytest.mark.parametrize("has_prior", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_mixtures(kind, has_prior):
    """hmmlearn computes covariances about the means before the iteration: so does this test."""
    rng = np.random.default_rng(10 + KINDS.index(kind))
    x, (start, trans), D, M = signal(rng), start_values(rng), 3, 2
    means, cov = 1.5 * rng.normal(size=(3, M, D)), compact(rng, kind, (3, M), D)
    weights = rng.dirichlet(np.ones(M), 3)
    alpha, mean, kappa, scale, weight = (
        (1.5, 0.3, 0.7, 0.4, 9.0) if has_prior else (1.0, 0.0, 0.0, 0.0, 0.0)
    )
    # Ours as theirs: a degree of freedom for each matrix, and some for its elements.
    theirs = {
        "full": {"covars_prior": scale * np.eye(D), "covars_weight": weight - D - 2},
        "tied": {"covars_prior": scale * np.eye(D), "covars_weight": weight - M - D - 1},
        "diag": {"covars_prior": (weight - 3) / 2, "covars_weight": scale / 2},
        "spherical": {
            "covars_prior": (D * weight - D - 2) / 2,
            "covars_weight": D * scale / 2,
        },
    }[kind]
    peer = make_peer(
        GMMHMM,
        n_mix=M,
        covariance_type=kind,
        weights_prior=alpha,
        means_prior=mean,
        means_weight=kappa,
        **theirs,
    )
    peer.n_features, peer.weights_, peer.means_, peer.covars_ = D, weights, means, cov
    bound = em.GaussianMixture(
        M, kind, weight_alpha=alpha, prior_mean=mean, prior_mean_weight=kappa,
        prior_scale=scale, prior_weight=weight,
    ).bind(NAMES)  # fmt: skip
    given = bound.replace(
        log_weights_=np.log(weights), means_=means, covariances_=cov,
        shift_=np.zeros_like(means), centre_=np.zeros(D),
    )  # fmt: skip

    def about_old_means(old, new, stats):
        """Add Σ γ (x − old)(x − old)ᵀ − Σ γ (x − new)(x − new)ᵀ to the numerator."""
        moved, off = new.means_ - old.means_, kappa * (new.means_ - mean)
        n = stats.counts[..., None, None]
        cross = off[..., :, None] * moved[..., None, :]
        extra = n * moved[..., :, None] * moved[..., None, :] + cross + cross.swapaxes(-1, -2)
        if kind == "tied":
            extra, n = extra.sum(axis=1), n.sum(axis=1)
        extra = extra / (weight + n)
        diagonal = np.diagonal(extra, axis1=-1, axis2=-2)
        extra = {"diag": diagonal, "spherical": diagonal.mean(axis=-1)}.get(kind, extra)
        return new.replace(covariances_=new.covariances_ + extra)

    peers = peer_likelihoods(peer, x, start, trans)
    theirs = [value for value, _, _ in iterate(given, x, start, trans, about_old_means)]
    assert_allclose(theirs, peers, rtol=1e-8)
    values = list(iterate(given, x, start, trans))
    ours = [value + (emission.log_prior() if has_prior else 0) for value, _, emission in values]
    assert np.diff(ours).min() > -1e-9 * abs(ours[-1])
    if not has_prior:
        assert ours[1] > peers[1]  # ours is the maximum of the M-step


def test_poisson():
    rng = np.random.default_rng(20)
    x, (start, trans) = rng.poisson(rng.choice([1.0, 4.0, 9.0], sum(LENGTHS))), start_values(rng)
    x = np.stack([x, rng.poisson(3, len(x))], axis=1)
    peer = make_peer(PoissonHMM)
    peer.n_features, peer.lambdas_ = 2, rng.uniform(1, 6, (3, 2))
    given = em.Poisson().bind(NAMES)
    given = given.replace(rates_=peer.lambdas_, log_rates_=np.log(peer.lambdas_))
    ours = [value for value, _, _ in iterate(given, x, start, trans)]
    assert_allclose(ours, peer_likelihoods(peer, x, start, trans), rtol=1e-8)


def test_multinomials_with_their_coefficient():
    rng = np.random.default_rng(30)
    x, (start, trans) = rng.multinomial(7, [0.2, 0.5, 0.3], sum(LENGTHS)), start_values(rng)
    x[::2] = rng.multinomial(7, [0.6, 0.1, 0.3], len(x[::2]))
    peer = make_peer(MultinomialHMM, n_trials=7)
    peer.n_features, peer.emissionprob_ = 3, rng.dirichlet(np.ones(3), 3)
    given = em.Multinomial(n_trials=7).bind(NAMES).replace(log_p_=np.log(peer.emissionprob_))
    ours = [value for value, _, _ in iterate(given, x, start, trans)]
    assert_allclose(ours, peer_likelihoods(peer, x, start, trans), rtol=1e-8)


# ---- cases from hmmlearn's users ---------------------------------------------------------------


def fit(X, n_states, emission="diag", **params):
    emission = em.Gaussian(emission) if isinstance(emission, str) else emission
    model = tl.HMM(n_states=n_states, emissions=emission, random_state=0, **params).fit(X)
    objectives = np.array([record.objective for record in model.history_])
    assert np.isfinite(objectives).all()
    assert_allclose(model.startprob_.sum(), 1)
    rows = model.transmat_.sum(axis=1)
    assert_allclose(rows if model.log_stop_ is None else rows + np.exp(model.log_stop_), 1)
    assert np.isfinite(model.emission_.means_).all()
    assert all(np.isfinite(gamma).all() for gamma in model.predict_marginals(X))
    return model


def test_covariances_stay_positive_definite():
    """hmmlearn#18: a full covariance of few, or of equal, observations."""
    rng = np.random.default_rng(0)
    few = rng.normal(size=(12, 5))
    model = fit([few], 4, "full")
    assert np.linalg.eigvalsh(model.emission_.covariances_).min() > 0
    equal = np.repeat(rng.normal(size=(3, 4)), 5, axis=0)
    model = fit([equal], 3, "full")
    assert np.linalg.eigvalsh(model.emission_.covariances_).min() > 0
    assert len(set(model.predict([equal])[0])) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_states_that_no_token_needs(kind):
    """hmmlearn#110, #169, #424: rows of transmat_ that sum to 0, or become NaN."""
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(30, 2)) + 8 * (np.arange(30) % 2)[:, None], np.zeros((1, 2))]
    fit(X, 7, kind)
    fit([np.full((20, 1), 3.0)], 4, kind)
    fit([rng.normal(size=(2, 3))], 5, kind)  # fewer tokens than states


def test_zeros_are_not_frozen():
    """hmmlearn#186: only transitions that ``allowed`` excludes stay at 0."""
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(0, 1, 40), rng.normal(6, 1, 40), rng.normal(0, 1, 40)])
    start = tl.HMM(
        n_states=2, emissions=em.Gaussian(), stop=False, allowed="left-right", random_state=0
    ).fit([x])
    assert start.transmat_[1, 0] == 0
    free = fit([x], 2, stop=False)
    assert (free.transmat_ > 0).all()


def test_the_objective_never_falls_and_stopping_has_a_reason():
    """hmmlearn#410: the monitor compared likelihoods, while the M-step maximised with a prior."""
    rng = np.random.default_rng(3)
    for seed in range(5):
        X = [0.05 * rng.normal(size=(200, 3))]
        given = em.Gaussian("full", prior_scale=0.01, prior_weight=1.0)
        model = tl.HMM(n_states=3, emissions=given, random_state=seed, max_iterations=40).fit(X)
        objectives = np.array([record.objective for record in model.history_])
        if not model.training_.get("reseeded"):
            assert np.diff(objectives).min(initial=0) >= -1e-9 * np.abs(objectives).max()
        assert model.stopped_ in ("converged", "max_iterations")
        prior = model.history_[-1].objective - model.log_likelihood(X)
        assert prior == pytest.approx(
            model.emission_.log_prior()
            + 0.01 * (model.log_start_.sum() + model.transitions_.sum() + model.log_stop_.sum()),
            rel=1e-6,
        )
