"""L-BFGS with log-linear emissions, and variational Bayes."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from tagloom.errors import ParameterError, SentenceError
from tagloom.learners import ChainPrior, Unlabelled

Categorical, LogLinear = tl.emissions.Categorical, tl.emissions.LogLinear

WORDS = [["the", "dog", "walked"], ["a", "Cat", "talked", "to", "the", "dog"], ["3-fold"]]


def problem_of(X, emission, labels, **fields):
    bound = emission.bind(labels)
    data = bound.encode(X)
    return Unlabelled(data, data.offsets, bound, **fields)


# ---- gradient ----------------------------------------------------------------------------------


@pytest.mark.parametrize("emission", [LogLinear(penalty=0.3), Categorical(prior=1.3)])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"has_stop": False, "fixed": frozenset({"start"})},
        {"fixed": frozenset({"transitions"})},
        {"fixed": frozenset({"emission"}), "weight": np.array([1.0, 0.5, 2.0])},
    ],
)
def test_gradient_equals_finite_differences(emission, fields):
    problem = problem_of(
        WORDS, emission, ["0", "1", "2"], prior=ChainPrior(1.2, 1.1, 1.3), **fields
    )
    learner = tl.learners.Gradient().start(problem, seed=0)
    theta = learner._lbfgs.theta()
    theta = theta + 0.1 * np.random.default_rng(1).standard_normal(len(theta))
    _, grad = learner._evaluate(theta)
    for i in np.linspace(0, len(theta) - 1, 25).astype(int):
        step = np.zeros_like(theta)
        step[i] = 1e-5
        both = [learner._evaluate(theta + sign * step)[0] for sign in (1, -1)]
        assert_allclose(grad[i], (both[0] - both[1]) / 2e-5, rtol=1e-5, atol=1e-6)


def test_gradient_and_em_find_the_same_maximum():
    """From a start near a maximum, both climb to it."""
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 3, 40)]
    params = {"n_states": 2, "prior": 2.0, "emissions": Categorical(prior=2.0)}
    em = tl.HMM(**params, algorithm=tl.learners.EM(600, tolerance=1e-12)).fit(X)
    near = tl.HMM(**params, algorithm=tl.learners.EM(30, tolerance=0)).fit(X)
    gradient = tl.HMM(
        **params, start_from=near, algorithm=tl.learners.Gradient(150, tolerance=0)
    ).fit(X)
    assert_allclose(gradient.history_[-1].objective, em.history_[-1].objective, rtol=1e-6)
    assert_allclose(gradient.transmat_, em.transmat_, atol=1e-2)


@pytest.mark.parametrize("algorithm", ["gradient", "em"])
def test_log_linear(algorithm):
    hmm = tl.HMM(n_states=2, emissions=LogLinear(), algorithm=algorithm, max_iterations=15)
    hmm.fit(WORDS)
    objectives = np.array([r.objective for r in hmm.history_])
    assert np.diff(objectives).min() >= 0
    emission = hmm.emission_
    assert_allclose(emission.probs_.sum(axis=1), 1)
    assert_allclose(
        objectives[-1],
        hmm.log_likelihood(WORDS)
        - (emission.weights_**2).sum()
        + 0.01 * (hmm.log_start_.sum() + hmm.transitions_.sum() + hmm.log_stop_.sum()),
    )
    again = tl.load(hmm.to_bytes())
    new = [["a", "log", "balked"]]
    assert again.predict(new) == hmm.predict(new)
    assert_array_equal(again.emission_.weights_, emission.weights_)
    assert np.isfinite(hmm.log_likelihood(new))
    assert hmm.n_parameters_ > 0


def test_log_linear_probabilities_by_hand():
    emission = LogLinear(["word", "suffix(1)"], penalty=0).bind(["0"])
    data = emission.encode([["ab", "cb", "d"]])
    emission = emission.initialise(data, np.random.default_rng(0))
    names = [*zip(["ab", "cb", "d"], [0, 1, 2], strict=True)]
    w = emission.weights_[:, 0]
    assert len(w) == 5  # three words, two endings
    scores = [w[0] + w[3], w[1] + w[3], w[2] + w[4]]
    total = sum(map(math.exp, scores))
    for word, v in names:
        assert_allclose(emission.log_probs([[word]])[0, 0], scores[v] - math.log(total))
    assert_allclose(emission.log_probs([["xb"]])[0, 0], w[3] - math.log(total))


def test_wrong_use():
    with pytest.raises(SentenceError):
        tl.HMM(n_states=2, emissions=LogLinear()).fit([[0, 1]])
    with pytest.raises(ParameterError) as error:
        tl.HMM(n_states=2, emissions=LogLinear(penalty=-1)).fit(WORDS)
    assert error.value.parameter == "penalty"
    with pytest.raises(ParameterError):
        tl.HMM(n_states=2, emissions=tl.emissions.Words(), algorithm="gradient").fit(WORDS)
    with pytest.raises(ParameterError):
        tl.HMM(n_states=2, emissions=LogLinear(), algorithm="vb").fit(WORDS)


def test_resumed_gradient_has_the_same_bits(tmp_path):
    params = {"n_states": 2, "emissions": LogLinear(), "algorithm": "gradient"}
    whole = tl.HMM(**params, max_iterations=8).fit(WORDS)
    for n in (3, 8):
        resumed = tl.HMM(**params, max_iterations=n).fit(WORDS, checkpoint=tmp_path / "run")
    assert [r.objective for r in resumed.history_] == [r.objective for r in whole.history_]


# ---- variational Bayes -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_bound_never_falls(seed):
    rng = np.random.default_rng(seed)
    X = [rng.integers(0, 4, n) for n in (*rng.integers(0, 10, 3), 5)]
    params = {
        "n_states": int(rng.integers(1, 5)),
        "stop": bool(rng.integers(2)),
        "allowed": "left-right" if rng.random() < 0.3 else None,
        "algorithm": tl.learners.VB(
            25,
            tolerance=0,
            alpha=float(rng.choice([0.05, 1, 3])),
            beta=float(rng.choice([0.01, 1])),
        ),
    }
    hmm = tl.HMM(**params, random_state=seed).fit(X)
    bounds = np.array([r.objective for r in hmm.history_])
    assert np.isfinite(bounds).all()
    assert np.diff(bounds).min(initial=0) >= -1e-9 * np.abs(bounds).max()
    assert_allclose(hmm.emission_.probs_.sum(axis=1), 1)
    stop = 0 if hmm.log_stop_ is None else np.exp(hmm.log_stop_)
    assert_allclose(hmm.transmat_.sum(axis=1) + stop, 1)


def log_evidence(x, Y, V, alpha, beta):
    """Log Pr(x) with the parameters integrated out, by enumeration of the labels; no stop."""

    def log_dirichlet(counts, prior):
        return (
            math.lgamma(prior * len(counts))
            - math.lgamma(prior * len(counts) + sum(counts))
            + sum(math.lgamma(prior + c) - math.lgamma(prior) for c in counts)
        )

    logs = []
    for path in itertools.product(range(Y), repeat=len(x)):
        trans, emit = np.zeros((Y, Y)), np.zeros((Y, V + 1))
        start = np.eye(Y)[path[0]]
        for a, b in itertools.pairwise(path):
            trans[a, b] += 1
        for y, v in zip(path, x, strict=True):
            emit[y, v] += 1
        rows = [(start, alpha), *((row, alpha) for row in trans), *((row, beta) for row in emit)]
        logs.append(sum(log_dirichlet(counts.tolist(), prior) for counts, prior in rows))
    return float(np.logaddexp.reduce(logs))


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.3, 0.2), (3.0, 2.0)])
def test_bound_is_below_the_evidence_and_near_it(alpha, beta):
    x, Y, V = [0, 1, 1, 0, 2, 1], 2, 3
    vb = tl.learners.VB(60, tolerance=1e-8, alpha=alpha, beta=beta)
    hmm = tl.HMM(n_states=Y, stop=False, algorithm=vb, restarts=4).fit([x])
    evidence = log_evidence(x, Y, V, alpha, beta)
    bound = hmm.history_[-1].objective
    assert bound < evidence
    assert bound > evidence - 4


def test_one_state_has_the_exact_evidence():
    x = [0, 1, 1, 0, 2, 1]
    vb = tl.learners.VB(alpha=0.7, beta=0.4)
    hmm = tl.HMM(n_states=1, stop=False, algorithm=vb).fit([x])
    assert_allclose(hmm.history_[-1].objective, log_evidence(x, 1, 3, 0.7, 0.4), rtol=1e-10)


def test_sparse_priors_leave_states_unused():
    rng = np.random.default_rng(3)
    X = [rng.integers(0, 2, 30)]
    vb = tl.learners.VB(60, alpha=0.01, beta=0.5)
    hmm = tl.HMM(n_states=6, stop=False, algorithm=vb).fit(X)
    assert len(set(hmm.predict(X)[0])) <= 2


def test_resumed_vb_has_the_same_bits(tmp_path):
    X = [np.random.default_rng(4).integers(0, 5, 40)]
    params = {"n_states": 3, "algorithm": tl.learners.VB(alpha=0.2, beta=0.1)}
    whole = tl.HMM(**params, max_iterations=9).fit(X)
    for n in (4, 9, 9):
        resumed = tl.HMM(**params, max_iterations=n).fit(X, checkpoint=tmp_path / "run")
    assert [r.objective for r in resumed.history_] == [r.objective for r in whole.history_]
    assert_array_equal(resumed.emission_.probs_, whole.emission_.probs_)


@pytest.mark.parametrize("covariance", ["full", "tied"])
@pytest.mark.parametrize("components", [None, 2])
def test_vb_with_gaps_never_falls(covariance, components):
    """Missing values of rows with others have a distribution of their own in the bound."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 3))
    x += 3 * np.repeat([0, 1, 0], 20)[:, None]
    x[rng.random(x.shape) < 0.25] = np.nan
    emission = tl.emissions.Gaussian(covariance)
    if components is not None:
        emission = tl.emissions.GaussianMixture(components, covariance)
    algorithm = tl.learners.VB(40, tolerance=0)
    hmm = tl.HMM(n_states=2, emissions=emission, algorithm=algorithm).fit([x[:35], x[35:]])
    objectives = np.array([record.objective for record in hmm.history_])
    assert len(objectives) > 3
    assert -np.diff(objectives).min() <= 1e-9 * np.abs(objectives).max()


@pytest.mark.parametrize(("gaps", "slack"), [(False, 0.03), (True, 1.0)])
def test_vb_bounds_the_evidence(gaps, slack):
    """Of a few rows, by draws from the prior; without gaps the posterior is exact."""
    x = np.array([[0.3, 0.1], [-0.2, 0.5], [0.4, 1.0], [0.1, -0.3]])
    if gaps:
        x[[0, 2, 3], [1, 0, 1]] = np.nan
    prior = {"prior_mean": 0.0, "prior_mean_weight": 1.0, "prior_scale": 1.0, "prior_weight": 9.0}
    gaussian = tl.emissions.Gaussian("full", **prior)
    hmm = tl.HMM(n_states=1, emissions=gaussian, stop=False, algorithm="vb").fit(x)
    rng, n = np.random.default_rng(0), 20_000
    # Σ ~ inverse-Wishart(ν = 5, I): the inverse of the scatter of 5 standard normal vectors
    vectors = rng.standard_normal((n, 5, 2))
    cov = np.linalg.inv(vectors.transpose(0, 2, 1) @ vectors)
    mu = (np.linalg.cholesky(cov) @ rng.standard_normal((n, 2, 1)))[:, :, 0]
    log_p = np.zeros(n)
    for row in x:
        o = np.flatnonzero(~np.isnan(row))
        part, delta = cov[:, o[:, None], o], row[o] - mu[:, o]
        solved = np.linalg.solve(part, delta[:, :, None])[:, :, 0]
        log_p -= 0.5 * (np.linalg.slogdet(2 * np.pi * part)[1] + (delta * solved).sum(axis=1))
    evidence = np.log(np.exp(log_p).mean())
    assert evidence - slack < hmm.history_[-1].objective < evidence + 0.03
