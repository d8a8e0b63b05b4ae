"""Emissions of numbers: densities beside scipy, maxima, gaps, posteriors, files, hard cases."""

import functools
import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats as sp

import tagloom as tl
from tagloom.errors import ModelFileError, NotFittedError, ParameterError, SentenceError, ShapeError
from tagloom.scores.emissions import base
from tagloom.scores.emissions.numeric import Numbers

em = tl.emissions
LABELS = ("a", "b", "c")
KINDS = ("spherical", "diag", "full", "tied")
PRIOR = {"prior_mean": 0.3, "prior_mean_weight": 0.7, "prior_scale": 0.4, "prior_weight": 12.0}
SPECS = {
    **{f"gaussian {kind}": em.Gaussian(kind) for kind in KINDS},
    **{f"gaussian {kind}, prior": em.Gaussian(kind, **PRIOR) for kind in KINDS},
    **{f"mixture {kind}": em.GaussianMixture(2, kind) for kind in KINDS},
    "mixture, prior": em.GaussianMixture(2, "full", weight_alpha=1.5, **PRIOR),
    "poisson": em.Poisson(),
    "poisson, prior": em.Poisson(prior_shape=[1.5, 2.0, 3.0], prior_rate=0.5),
    "bernoulli": em.Bernoulli(),
    "bernoulli, prior": em.Bernoulli(alpha=1.5, beta=2.0),
    "multinomial": em.Multinomial(),
    "multinomial, prior": em.Multinomial(alpha=1.3, n_trials=6),
    "independent": em.Independent([em.Gaussian("full"), em.Poisson()], columns=[[0, 2], 1]),
}
LENGTHS = (7, 0, 1, 12, 20)


@pytest.fixture(params=SPECS)
def name(request):
    return request.param


def draw_data(name, seed=0, missing=0.15, lengths=LENGTHS):
    """Sequences of three columns for a spec; some values are missing, and one row whole."""
    rng = np.random.default_rng(seed)
    T = sum(lengths)
    if name.startswith("poisson"):
        x = rng.poisson(3.0, (T, 3)) * 1.0
    elif name.startswith("bernoulli"):
        x = rng.integers(0, 2, (T, 3)) * 1.0
    elif name.startswith("multinomial"):
        x = rng.multinomial(6, [0.2, 0.5, 0.3], T) * 1.0
    else:
        x = rng.standard_normal((T, 3)) @ rng.standard_normal((3, 3)) + 2
        if name.startswith("independent"):
            x[:, 1] = rng.poisson(2.0, T)
    if missing:
        # a mixture with gaps in all columns takes long
        columns = slice(0, 1) if name.startswith("mixture") else slice(None)
        x[:, columns][rng.random(x[:, columns].shape) < missing] = np.nan
        x[3] = np.nan
    return np.split(x, np.cumsum(lengths)[:-1])


def soft(T, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), T), rng.uniform(0.1, 2, T)


def fit(name, X, gamma=None):
    bound = SPECS[name].bind(LABELS)
    gamma = soft(len(np.concatenate(X)))[0] if gamma is None else gamma
    return bound.update(bound.collect(X, gamma))


@functools.cache
def fitted_to(name, missing=0.15):
    """The emission fitted to the data of `draw_data(name)`, shared: emissions never change."""
    return fit(name, draw_data(name, missing=missing))


def objective(emission, X, gamma):
    return float((gamma * emission.log_probs(X)).sum()) + emission.log_prior()


# ---- what every emission does ------------------------------------------------------------------


def test_an_emission_never_changes(name):
    X = draw_data(name)
    bound = SPECS[name].bind(LABELS)
    with pytest.raises(NotFittedError):
        bound.log_probs(X)
    fitted = fitted_to(name)
    before = fitted.log_probs(X)
    fitted.update(fitted.collect(X, soft(40, 1)[0]))
    assert_array_equal(fitted.log_probs(X), before)
    assert not bound.is_fitted
    assert SPECS[name].labels == ()


def test_encoded_data_score_as_the_arrays_do(name):
    X = draw_data(name)
    fitted = fitted_to(name)
    data = fitted.encode(X)
    assert fitted.encode(data) is data
    assert_array_equal(base.offsets_of(data), np.cumsum([0, *LENGTHS]))
    assert_array_equal(fitted.log_probs(data), fitted.log_probs(X))
    other = draw_data(name, seed=5)
    alone = [fitted.log_probs([x]) for x in other]
    assert_allclose(np.concatenate(alone), fitted.log_probs(other), rtol=1e-9, atol=1e-9)
    assert len(base.fingerprint_of(data)) > 0


def test_statistics_of_different_sequences_add_up(name):
    X = draw_data(name)
    fitted = fitted_to(name)
    gamma, weight = soft(40, 2)
    for given in (None, weight):
        cuts = (slice(0, 8), slice(8, 40))
        parts = [
            fitted.collect(part, gamma[at], None if given is None else given[at])
            for part, at in zip((X[:3], X[3:]), cuts, strict=True)
        ]
        merged = fitted.update(fitted.merge(*parts))
        whole = fitted.update(fitted.collect(X, gamma, given))
        assert_allclose(merged.log_probs(X), whole.log_probs(X), rtol=1e-9, atol=1e-9)
        assert merged.log_prior() == pytest.approx(whole.log_prior(), rel=1e-9)


def test_labels_count_as_probabilities_of_1(name):
    X, labels = draw_data(name), np.arange(40) % 3
    hard, one_hot = fit(name, X, labels), fit(name, X, em.dense(labels, 3))
    assert_allclose(hard.log_probs(X), one_hot.log_probs(X), rtol=1e-9, atol=1e-9)


def test_files_hold_everything(name):
    X = draw_data(name)
    fitted = fitted_to(name)
    again = base.from_plain(base.to_plain(fitted)).bind(LABELS).from_file(fitted.to_file())
    assert_array_equal(again.log_probs(X), fitted.log_probs(X))
    assert again.log_prior() == fitted.log_prior()
    assert again.n_parameters == fitted.n_parameters
    assert base.to_plain(again) == base.to_plain(fitted)


def test_states_can_be_put_in_another_order(name):
    X = draw_data(name)
    fitted = fitted_to(name)
    key = np.reshape(fitted.order_key(), (3, -1))
    other = fitted.permute([2, 0, 1])
    assert_allclose(other.log_probs(X), fitted.log_probs(X)[:, [2, 0, 1]], rtol=1e-10, atol=1e-10)
    assert_array_equal(np.reshape(other.order_key(), (3, -1)), key[[2, 0, 1]])


def test_a_start_depends_on_the_seed_alone(name):
    X = draw_data(name)
    bound = SPECS[name].bind(LABELS)
    one, again, other = (
        bound.initialise(X, np.random.default_rng(seed)).log_probs(X) for seed in (0, 0, 1)
    )
    assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    assert np.isfinite(one).all()


def test_generated_tokens_are_scored_and_learned_from(name):
    fitted = fitted_to(name, 0)
    if name == "multinomial":
        with pytest.raises(ParameterError) as caught:
            fitted.generate(np.zeros(3, dtype=int), np.random.default_rng(0))
        assert caught.value.parameter == "n_trials"
        return
    y = np.repeat([0, 1, 2], 4000)
    x = fitted.generate(y, np.random.default_rng(0))
    assert x.shape == (12_000, 3)
    scores = fitted.log_probs([x])
    again = fitted.update(fitted.collect([x], y))
    # the likelihood of 12,000 tokens is within a few units of its maximum
    gain = again.log_probs([x])[np.arange(len(y)), y].sum() - scores[np.arange(len(y)), y].sum()
    assert -60 < gain < 60
    assert_allclose(again.order_key(), fitted.order_key(), atol=0.25)


def test_it_works_in_a_model(name, tmp_path):
    X = [x for x in draw_data(name) if len(x)]
    y = [[LABELS[(t // 3) % 3] for t in range(len(x))] for x in X]
    hmm = tl.HMM(emissions=SPECS[name]).fit(X, y)
    hmm.save(tmp_path / "m")
    loaded = tl.load(tmp_path / "m")
    assert loaded.predict(X) == hmm.predict(X)
    assert_allclose(loaded.predict_marginals(X)[3], hmm.predict_marginals(X)[3])
    everything = [*X, np.empty((0, 3))]
    assert [len(row) for row in hmm.predict(everything)] == [7, 1, 12, 20, 0]
    weighted = tl.HMM(emissions=SPECS[name]).fit(X, y, sample_weight=[1, 1, 2, 1])
    doubled = tl.HMM(emissions=SPECS[name]).fit([*X, X[2]], [*y, y[2]])
    if not name.startswith("mixture"):  # whose clusters depend on the order
        assert_allclose(
            weighted.emission_.log_probs(X), doubled.emission_.log_probs(X), rtol=1e-6, atol=1e-6
        )


# ---- densities beside scipy --------------------------------------------------------------------


def matrices(emission):
    """Full covariances of a Gaussian [Y, D, D]."""
    cov, D = emission.covariances_, emission.means_.shape[1]
    return {
        "spherical": lambda: cov[:, None, None] * np.eye(D),
        "diag": lambda: np.stack([np.diag(v) for v in cov]),
        "full": lambda: cov,
        "tied": lambda: np.stack([cov] * len(emission.means_)),
    }[emission.covariance]()


def normal_densities(x, means, covs):
    out = np.zeros((len(x), len(means)))
    for t, k in itertools.product(range(len(x)), range(len(means))):
        o = ~np.isnan(x[t])
        if o.any():
            out[t, k] = sp.multivariate_normal.logpdf(x[t, o], means[k, o], covs[k][np.ix_(o, o)])
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_normal_densities_of_observed_values(kind):
    X = draw_data(f"gaussian {kind}")
    fitted = fit(f"gaussian {kind}", X)
    expected = normal_densities(np.concatenate(X), fitted.means_, matrices(fitted))
    assert_allclose(fitted.log_probs(X), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_large_means_do_not_cost_digits(kind):
    X = draw_data(f"gaussian {kind}")
    moved = [x + 1e7 for x in X]
    fitted, other = fit(f"gaussian {kind}", X), fit(f"gaussian {kind}", moved)
    assert_allclose(other.log_probs(moved), fitted.log_probs(X), rtol=1e-6, atol=1e-6)
    scales = np.array([1e-6, 1.0, 1e8])
    other = fit(f"gaussian {kind}", [x * scales for x in X])
    if kind != "spherical":  # densities are per unit
        change = np.where(np.isnan(np.concatenate(X)), 0, np.log(scales)).sum(axis=1)
        assert_allclose(
            other.log_probs([x * scales for x in X]),
            fitted.log_probs(X) - change[:, None],
            rtol=1e-8,
            atol=1e-7,
        )


@pytest.mark.parametrize("kind", KINDS)
def test_states_far_apart_do_not_cost_digits(kind):
    """The expanded quadratic form would lose nine digits here."""
    means = np.array([[0.0, 0.0], [1e6, -1e6], [3e6, 1e6]])
    shapes = {"spherical": (3,), "diag": (3, 2), "full": (3, 2, 2), "tied": (2, 2)}
    cov = np.ones(shapes[kind]) if kind in ("spherical", "diag") else np.eye(2) + np.zeros(
        shapes[kind]
    )  # fmt: skip
    given = em.Gaussian.from_params(LABELS, means, cov, kind)
    x = means + np.array([0.3, -0.2])
    expected = normal_densities(x, means, matrices(given))
    assert_allclose(given.log_probs([x]), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_mixture_densities(kind):
    X = draw_data("mixture")
    fitted = fit(f"mixture {kind}", X)
    x = np.concatenate(X)
    cov, D = fitted.covariances_, 3
    for y in range(3):
        covs = {
            "spherical": lambda y=y: cov[y][:, None, None] * np.eye(D),
            "diag": lambda y=y: np.stack([np.diag(v) for v in cov[y]]),
            "full": lambda y=y: cov[y],
            "tied": lambda y=y: np.stack([cov[y]] * 2),
        }[kind]()
        each = normal_densities(x, fitted.means_[y], covs) + np.log(fitted.weights_[y])
        assert_allclose(
            fitted.log_probs(X)[:, y], np.logaddexp.reduce(each, axis=1), rtol=1e-9, atol=1e-9
        )


def test_densities_of_counts():
    X = draw_data("poisson")
    fitted, x = fit("poisson", X), np.concatenate(X)
    each = sp.poisson.logpmf(np.nan_to_num(x)[:, None], fitted.rates_)
    each = np.where(np.isnan(x)[:, None], 0, each).sum(axis=2)
    assert_allclose(fitted.log_probs(X), each, rtol=1e-10)
    X = draw_data("bernoulli")
    fitted, x = fit("bernoulli", X), np.concatenate(X)
    each = sp.bernoulli.logpmf(np.nan_to_num(x)[:, None], fitted.probs_)
    each = np.where(np.isnan(x)[:, None], 0, each).sum(axis=2)
    assert_allclose(fitted.log_probs(X), each, rtol=1e-10, atol=1e-12)


def test_multinomial_densities_are_sums_over_the_missing_counts():
    X = draw_data("multinomial, prior")
    fitted, x = fit("multinomial, prior", X), np.concatenate(X)
    p = fitted.probs_
    for t, y in itertools.product(range(len(x)), range(3)):
        o = ~np.isnan(x[t])
        ways = [
            row
            for row in itertools.product(range(7), repeat=3)
            if sum(row) == 6 and all(row[d] == x[t, d] for d in np.flatnonzero(o))
        ]
        expected = np.log(sum(sp.multinomial.pmf(row, 6, p[y]) for row in ways))
        assert fitted.log_probs(X)[t, y] == pytest.approx(expected, abs=1e-10)
    fitted = fit("multinomial", X)  # the number of trials is not known: that of the observed
    p = fitted.probs_
    for t, y in itertools.product(range(len(x)), range(3)):
        o = ~np.isnan(x[t])
        expected = 0.0
        if o.any():
            expected = sp.multinomial.logpmf(x[t, o], x[t, o].sum(), p[y, o] / p[y, o].sum())
        assert fitted.log_probs(X)[t, y] == pytest.approx(expected, abs=1e-9)


# ---- maxima ------------------------------------------------------------------------------------


def test_the_update_maximises_likelihood_and_prior(name):
    """No neighbour is better, once updates that complete gaps have converged."""
    X, (gamma, _) = draw_data(name, missing=0.1), soft(40, 3)
    best = fit(name, X, gamma)
    for _ in range(60 if "mixture" in name else 0):
        best = best.update(best.collect(X, gamma))
    top = objective(best, X, gamma)
    rng = np.random.default_rng(0)
    for scale in (0.1, 0.003):
        for _ in range(3):
            noise = np.exp(scale * rng.standard_normal(gamma.shape))
            bound = best if "mixture" in name else SPECS[name].bind(LABELS)
            other = bound.update(bound.collect(X, gamma * noise))
            assert objective(other, X, gamma) <= top + 1e-9 * abs(top)
    assert top >= objective(best.update(best.collect(X, gamma)), X, gamma) - 1e-9 * abs(top)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_vanish_at_the_maximum(kind):
    X, (gamma, _) = draw_data(f"gaussian {kind}, prior", missing=0.1), soft(40, 3)
    best = fit(f"gaussian {kind}, prior", X, gamma)
    step = 1e-4
    for at in np.ndindex(best.means_.shape):
        ends = []
        for sign in (-1, 1):
            means = best.means_.copy()
            means[at] += sign * step
            ends.append(objective(best.replace(means_=means), X, gamma))
        assert abs(ends[1] - ends[0]) / (2 * step) < 1e-4
    for at in np.ndindex(best.covariances_.shape):
        if kind in ("full", "tied") and at[-1] < at[-2]:
            continue
        ends = []
        for sign in (-1, 1):
            cov = best.covariances_.copy()
            cov[at] += sign * step
            if kind in ("full", "tied") and at[-1] != at[-2]:
                cov[(*at[:-2], at[-1], at[-2])] += sign * step
            ends.append(objective(best.replace(covariances_=cov), X, gamma))
        assert abs(ends[1] - ends[0]) / (2 * step) < 1e-3


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_rows_with_gaps_count_by_their_conditional_moments(kind):
    """One update, row by row in plain NumPy."""
    X, (gamma, _) = draw_data(f"gaussian {kind}", missing=0.3), soft(40, 4)
    before = fit(f"gaussian {kind}", X)
    after = before.update(before.collect(X, gamma))
    x, covs = np.concatenate(X), matrices(before)
    n, first, second = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3, 3))
    for t, y in itertools.product(range(len(x)), range(3)):
        o, m = np.flatnonzero(~np.isnan(x[t])), np.flatnonzero(np.isnan(x[t]))
        if len(o) == 0:
            continue
        mean, extra = x[t].copy(), np.zeros((3, 3))
        if len(m):
            regression = covs[y][np.ix_(m, o)] @ np.linalg.inv(covs[y][np.ix_(o, o)])
            mean[m] = before.means_[y, m] + regression @ (x[t, o] - before.means_[y, o])
            extra[np.ix_(m, m)] = covs[y][np.ix_(m, m)] - regression @ covs[y][np.ix_(o, m)]
        n[y] += gamma[t, y]
        first[y] += gamma[t, y] * mean
        second[y] += gamma[t, y] * (np.outer(mean, mean) + extra)
    means = first / n[:, None]
    scatter = second - n[:, None, None] * means[:, :, None] * means[:, None, :]
    expected = scatter / n[:, None, None] if kind == "full" else scatter.sum(axis=0) / n.sum()
    assert_allclose(after.means_, means, rtol=1e-9)
    assert_allclose(after.covariances_, expected, rtol=1e-8, atol=1e-10)


# ---- posteriors --------------------------------------------------------------------------------


def sequential_evidence(kind, x, y):
    """log p(x | y) as a product of Student t predictions, by textbook formulas."""
    m0, kappa0, psi, c = 0.3, 0.7, 0.4, 12.0
    D, total = x.shape[1], 0.0
    for t in range(len(x)):
        before = x[:t]
        same = before[y[:t] == y[t]]
        kappa = kappa0 + len(same)
        mean = (kappa0 * m0 + same.sum(axis=0)) / kappa
        groups = range(3) if kind == "tied" else [y[t]]
        scale = psi * np.eye(D)
        for g in groups:
            rows = before[y[:t] == g]
            k = kappa0 + len(rows)
            centre = (kappa0 * m0 + rows.sum(axis=0)) / k
            scale += kappa0 * np.outer(m0 - centre, m0 - centre)
            scale += (rows - centre).T @ (rows - centre)
        n = t if kind == "tied" else len(same)
        if kind == "full" or kind == "tied":
            dof = c + n - len(groups) - D - 1
            df = dof - D + 1
            total += sp.multivariate_t.logpdf(x[t], mean, scale * (1 + 1 / kappa) / df, df)
        elif kind == "diag":
            df = c + n - 3
            width = np.sqrt(np.diag(scale) * (1 + 1 / kappa) / df)
            total += sp.t.logpdf(x[t], df, mean, width).sum()
        else:
            df = (c + n - 1) * D - 2
            shape = np.trace(scale) / df * (1 + 1 / kappa) * np.eye(D)
            total += sp.multivariate_t.logpdf(x[t], mean, shape, df)
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_the_variational_bound_of_known_labels_is_the_evidence(kind):
    x = np.concatenate(draw_data("gaussian", missing=0))
    y = np.arange(len(x)) % 3
    bound = em.Gaussian(kind, **PRIOR).bind(LABELS)
    fitted = bound.mean_field(bound.collect([x], y))
    lower = fitted.log_probs([x])[np.arange(len(y)), y].sum() + fitted.log_prior()
    assert lower == pytest.approx(sequential_evidence(kind, x, y), rel=1e-9)
    other = bound.mean_field(bound.collect([x], (y + 1) % 3))
    assert other.log_probs([x])[np.arange(len(y)), y].sum() + other.log_prior() < lower
    again = bound.from_file(fitted.to_file())
    assert again.log_prior() == fitted.log_prior()
    assert_array_equal(again.log_probs([x]), fitted.log_probs([x]))


def test_the_evidence_of_counts():
    """Predictions one after another: negative binomial, Beta-Bernoulli, Dirichlet-multinomial."""
    rng = np.random.default_rng(0)
    y = np.arange(20) % 3

    def lower(spec, x):
        bound = spec.bind(LABELS)
        fitted = bound.mean_field(bound.collect([x], y))
        return fitted.log_probs([x])[np.arange(20), y].sum() + fitted.log_prior()

    x = rng.poisson(3, (20, 2)) * 1.0
    x[4, 1] = np.nan
    expected = 0.0
    for t, d in itertools.product(range(20), range(2)):
        same = x[:t][y[:t] == y[t], d]
        same = same[~np.isnan(same)]
        a, b = 2.5 + same.sum(), 0.5 + len(same)
        if not np.isnan(x[t, d]):
            expected += sp.nbinom.logpmf(x[t, d], a, b / (b + 1))
    assert lower(em.Poisson(prior_shape=2.5, prior_rate=0.5), x) == pytest.approx(expected)
    x = rng.integers(0, 2, (20, 2)) * 1.0
    expected = 0.0
    for t, d in itertools.product(range(20), range(2)):
        same = x[:t][y[:t] == y[t], d]
        p = (1.5 + same.sum()) / (1.5 + 2.0 + len(same))
        expected += np.log(p if x[t, d] else 1 - p)
    assert lower(em.Bernoulli(alpha=1.5, beta=2.0), x) == pytest.approx(expected)
    x = rng.multinomial(5, [0.2, 0.3, 0.5], 20)
    expected = 0.0
    for t in range(20):
        alpha = 1.4 + x[:t][y[:t] == y[t]].sum(axis=0)
        expected += sp.dirichlet_multinomial.logpmf(x[t], alpha, 5)
    assert lower(em.Multinomial(alpha=1.4), x) == pytest.approx(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_normal_parameters_are_drawn_from_their_posterior(kind):
    x, D, n = np.concatenate(draw_data("gaussian", missing=0))[:30], 3, 800
    y = np.arange(30) % 3
    bound = em.Gaussian(kind, **PRIOR).bind(LABELS)
    stats, rng = bound.collect([x], y), np.random.default_rng(0)
    draws = [bound.draw_posterior(stats, rng) for _ in range(n)]
    means = np.array([d.means_ for d in draws])
    rows = [x[y == k] for k in range(3)]
    kappa = 0.7 + 10
    expected = np.array([(0.7 * 0.3 + r.sum(axis=0)) / kappa for r in rows])
    assert (np.abs(means.mean(axis=0) - expected) < 5 * means.std(axis=0) / np.sqrt(n)).all()
    scatter = np.array([
        0.4 * np.eye(D) * (1 if kind != "tied" else 1 / 3)
        + (r - m).T @ (r - m) + 0.7 * np.outer(m - 0.3, m - 0.3)
        for r, m in zip(rows, expected, strict=True)
    ])  # fmt: skip
    c = 12.0
    mean_cov = {
        "full": lambda: scatter / (c + 10 - D - 2 - D - 1),
        "tied": lambda: scatter.sum(axis=0) / (c + 30 - 3 - D - 1 - D - 1),
        "diag": lambda: np.diagonal(scatter, axis1=1, axis2=2) / (c + 10 - 3 - 2),
        "spherical": lambda: np.trace(scatter, axis1=1, axis2=2) / ((c + 10 - 1) * D - 2 - 2),
    }[kind]()
    covs = np.array([d.covariances_ for d in draws])
    assert (np.abs(covs.mean(axis=0) - mean_cov) < 5 * covs.std(axis=0) / np.sqrt(n)).all()
    spread = {
        "full": lambda: np.diagonal(mean_cov, axis1=1, axis2=2),
        "tied": lambda: np.diag(mean_cov),
        "diag": lambda: mean_cov,
        "spherical": lambda: mean_cov[:, None],
    }[kind]()
    assert_allclose(means.var(axis=0), np.broadcast_to(spread / kappa, (3, D)), rtol=0.35)


def test_counts_are_drawn_from_their_posterior():
    rng, y, n = np.random.default_rng(0), np.arange(30) % 3, 800

    def mean_of(spec, x, of):
        bound = spec.bind(LABELS)
        stats = bound.collect([x], y)
        draws = np.array([of(bound.draw_posterior(stats, rng)) for _ in range(n)])
        return draws.mean(axis=0), 5 * draws.std(axis=0) / np.sqrt(n)

    x = rng.poisson(3, (30, 2))
    sums = np.array([x[y == k].sum(axis=0) for k in range(3)])
    mean, error = mean_of(em.Poisson(prior_shape=2, prior_rate=0.5), x, lambda e: e.rates_)
    assert (np.abs(mean - (sums + 2) / 10.5) < error).all()
    x = rng.integers(0, 2, (30, 2))
    sums = np.array([x[y == k].sum(axis=0) for k in range(3)])
    mean, error = mean_of(em.Bernoulli(alpha=2, beta=3), x, lambda e: e.probs_)
    assert (np.abs(mean - (sums + 2) / 15) < error).all()
    x = rng.multinomial(4, [0.2, 0.8], 30)
    sums = np.array([x[y == k].sum(axis=0) for k in range(3)])
    mean, error = mean_of(em.Multinomial(alpha=1.5), x, lambda e: e.probs_)
    assert (np.abs(mean - (sums + 1.5) / (40 + 3)) < error).all()


def test_gaps_are_filled_by_draws():
    """A Gibbs sampler of one label: column 1 is 2 · column 0, and half of it is missing."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 1)) * [1.0, 2.0]
    x[::2, 1] = np.nan
    emission = em.Gaussian("full").bind(["a"])
    data = emission.encode([x])
    y = np.zeros(400, dtype=int)
    draws = []
    for _ in range(150):
        emission = emission.draw_posterior(emission.collect(data, y), rng)
        draws.append(emission.covariances_[0])
    cov = np.mean(draws[20:], axis=0)
    assert cov[0, 1] / cov[0, 0] == pytest.approx(2, rel=0.02)
    assert cov[1, 1] / cov[0, 0] == pytest.approx(4, rel=0.05)


def test_posteriors_without_a_prior_use_a_weak_one(name):
    X, y = draw_data(name, missing=0), np.arange(40) % 3
    bound = SPECS[name].bind(LABELS)
    drawn = bound.draw_posterior(bound.collect(X, y), np.random.default_rng(0))
    assert np.isfinite(drawn.log_probs(X)).all()
    empty = np.zeros((40, 3))
    empty[:, 0] = 1  # states without tokens are drawn from the prior
    drawn = bound.draw_posterior(bound.collect(X, empty), np.random.default_rng(0))
    assert np.isfinite(drawn.log_probs(X)).all()
    expected = bound.mean_field(bound.collect(X, y))
    assert np.isfinite(expected.log_probs(X)).all()
    assert expected.log_prior() < 0
    updated = expected.update(expected.collect(X, y))  # the divergence goes with its posterior
    assert updated.log_prior() == pytest.approx(fit(name, X, y).log_prior(), rel=0.5, abs=1e-9)


@pytest.mark.parametrize("member", ["draw_posterior", "mean_field"])
def test_improper_priors_are_one_clear_line(member):
    x, y = np.zeros((3, 2)), np.zeros(3, dtype=int)
    rng = (np.random.default_rng(0),) if member == "draw_posterior" else ()
    for spec in (em.Gaussian("full", prior_weight=1), em.Poisson(prior_shape=2)):
        bound = spec.bind(LABELS)
        with pytest.raises(ParameterError) as caught:
            getattr(bound, member)(bound.collect([x], y), *rng)
        assert caught.value.where.endswith(f".{member}")
        assert "\n" not in str(caught.value)
    gaps = np.array([[1.0, np.nan], [2.0, 1.0], [0.0, 3.0]])
    bound = em.Multinomial().bind(LABELS)
    with pytest.raises(ParameterError):
        getattr(bound, member)(bound.collect([gaps], y), *rng)


# ---- hard cases --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_singular_covariances_are_raised_to_the_floor(kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 3)) * [1.0, 50.0, 1.0]
    x[:, 2] = 7.0  # constant
    x[:10] = x[0]  # a label with one distinct token
    y = np.repeat([0, 1, 2], 10)
    bound = em.Gaussian(kind, floor=1e-4).bind(LABELS)
    fitted = bound.update(bound.collect([x], y))
    assert np.isfinite(fitted.log_probs([x])).all()
    scale = np.append(x[:, :2].var(axis=0), 49.0)
    for cov in matrices(fitted):
        if kind == "spherical":
            assert np.diag(cov).min() >= 1e-4 * scale.mean() * (1 - 1e-9)
        else:
            unit = np.sqrt(1e-4 * scale)
            assert np.linalg.eigvalsh(cov / np.outer(unit, unit)).min() >= 1 - 1e-6
    best = objective(fitted, [x], em.dense(y, 3))
    rng = np.random.default_rng(1)
    for _ in range(20):  # among the covariances above the floor, no neighbour is better
        moved = fitted.replace(means_=fitted.means_ + 1e-3 * rng.standard_normal((3, 3)))
        assert objective(moved, [x], em.dense(y, 3)) <= best


@pytest.mark.parametrize(
    "x", [np.empty((0, 2)), np.full((4, 2), np.nan), np.zeros((4, 2)), np.ones((1, 2))]
)
def test_data_without_information(name, x):
    x = np.column_stack([x, x[:, :1]])
    if name == "multinomial, prior":
        return  # whose counts have to sum to n_trials
    bound = SPECS[name].bind(LABELS)
    start = bound.initialise([x, np.empty((0, 3))], np.random.default_rng(0))
    assert start.log_probs([x]).shape == (len(x), 3)
    assert np.isfinite(start.log_probs([x])).all()
    assert np.isfinite(start.log_prior())


def test_a_label_without_tokens_keeps_its_parameters(name):
    X = draw_data(name)
    fitted = fitted_to(name)
    gamma = np.zeros((40, 3))
    gamma[:, :2] = 0.5
    after = fitted.update(fitted.collect(X, gamma))
    assert np.isfinite(after.log_probs(X)).all()
    if "prior" not in name and "tied" not in name:
        assert_allclose(after.log_probs(X)[:, 2], fitted.log_probs(X)[:, 2], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("X", "where"),
    [
        ([["a", "b"]], "sentence 0"),
        ([[1.0, 2.0], np.zeros((2, 3))], "sentence 1"),
        ([np.zeros((2, 3, 4))], "sentence 0"),
        ([[1.0], [0.0, np.inf]], "sentence 1, token 1"),
        ([[1.0], [None, "x"]], "sentence 1"),
    ],
)
def test_sequences_that_are_not_numbers(X, where):
    with pytest.raises(SentenceError) as caught:
        em.Gaussian().bind(LABELS).encode(X)
    assert caught.value.where == where


def test_forms_of_sequences():
    bound = em.Gaussian().bind(LABELS)
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    for x in ([1, None], np.array([1.0, np.nan]), masked, np.array([[1.0], [np.nan]]), (1, np.nan)):
        assert_array_equal(bound.encode([x]).x, [[1.0], [np.nan]])
    assert bound.encode([[], [[1, 2]]]).x.shape == (1, 2)
    assert bound.encode([]).x.shape == (0, 1)


@pytest.mark.parametrize(
    ("spec", "x", "where"),
    [
        (em.Poisson(), [[0, 1], [2, -1]], "sentence 0, token 1"),
        (em.Poisson(), [[0.5]], "sentence 0, token 0"),
        (em.Bernoulli(), [[0, 1], [2, 1]], "sentence 0, token 1"),
        (em.Multinomial(), [[0, 1], [2, -1]], "sentence 0, token 1"),
        (em.Multinomial(n_trials=3), [[2, 1], [2, 2]], "sentence 0, token 1"),
        (em.Multinomial(n_trials=3), [[2, 1], [4, np.nan]], "sentence 0, token 1"),
        (em.Independent([em.Poisson(), em.Poisson()]), [[1], [2]], "sentence 0"),
    ],
    ids=str,
)
def test_values_out_of_range(spec, x, where):
    with pytest.raises(SentenceError) as caught:
        spec.bind(LABELS).encode([np.array(x)])
    assert caught.value.where == where


def test_columns_must_be_those_of_training():
    fitted = fit("gaussian full", draw_data("gaussian"))
    with pytest.raises(ShapeError) as caught:
        fitted.log_probs([np.zeros((2, 4))])
    assert (caught.value.expected, caught.value.found) == ("3 columns, as in training", "4")


@pytest.mark.parametrize(
    ("spec", "parameter"),
    [
        (em.Gaussian("round"), "covariance"),
        (em.Gaussian(floor=0), "floor"),
        (em.Gaussian(prior_mean="x"), "prior_mean"),
        (em.Gaussian(prior_mean_weight=-1), "prior_mean_weight"),
        (em.Gaussian("diag", prior_scale=[[1.0, 0], [0, 1]]), "prior_scale"),
        (em.Gaussian("full", prior_scale=[[1.0, 2], [2, 1]]), "prior_scale"),
        (em.Gaussian(prior_scale=-1.0), "prior_scale"),
        (em.GaussianMixture(0), "n"),
        (em.GaussianMixture(weight_alpha=0.5), "weight_alpha"),
        (em.Poisson(prior_shape=0.5), "prior_shape"),
        (em.Bernoulli(alpha=0), "alpha"),
        (em.Bernoulli(floor=0.6), "floor"),
        (em.Multinomial(alpha=0.1), "alpha"),
        (em.Multinomial(n_trials=-1), "n_trials"),
        (em.Independent([]), "emissions"),
        (em.Independent([em.Gaussian("round")]), "covariance"),
        (em.Independent([em.Gaussian()], columns=[0, 1]), "columns"),
        (em.Independent([em.Gaussian()], columns=[-1]), "columns"),
        (em.Independent([em.Words(lexical=1)]), "emissions"),
    ],
    ids=str,
)
def test_invalid_parameters(spec, parameter):
    with pytest.raises(ParameterError) as caught:
        spec.bind(LABELS)
    assert caught.value.parameter == parameter


def test_priors_have_the_columns_of_the_data():
    for spec in (em.Gaussian(prior_mean=[0.0, 1.0]), em.Gaussian("full", prior_scale=np.eye(2))):
        bound = spec.bind(LABELS)
        with pytest.raises(ParameterError) as caught:
            bound.update(bound.collect(draw_data("gaussian"), soft(40)[0]))
        assert caught.value.parameter in ("prior_mean", "prior_scale")


# ---- hostile files -----------------------------------------------------------------------------


def test_damaged_arrays_are_refused(name):
    fitted = fitted_to(name)
    file = fitted.to_file()
    for key, good in file.arrays.items():
        for wrong in (good[:-1], good * np.nan, good[..., None], good.astype(str)):
            damaged = type(file)(file.header, {**file.arrays, key: wrong})
            with pytest.raises((ModelFileError, ValueError)):
                SPECS[name].bind(LABELS).from_file(damaged)
        missing = {k: v for k, v in file.arrays.items() if k != key}
        with pytest.raises((ModelFileError, KeyError)):
            SPECS[name].bind(LABELS).from_file(type(file)(file.header, missing))


@pytest.mark.parametrize("kind", KINDS)
def test_covariances_of_files_are_positive_definite(kind):
    for name in (f"gaussian {kind}", f"mixture {kind}"):
        fitted = fitted_to(name)
        file = fitted.to_file()
        good = file.arrays["emission_covariances_"]
        wrong = [-good, 0 * good]
        if kind in ("full", "tied"):
            skewed = good.copy()
            skewed[..., 0, 1] += 1
            wrong += [skewed, good - 2 * np.eye(3) * np.linalg.eigvalsh(good).max()]
        for values in wrong:
            arrays = {**file.arrays, "emission_covariances_": values}
            with pytest.raises(ModelFileError) as caught:
                SPECS[name].bind(LABELS).from_file(type(file)(file.header, arrays))
            assert "covariances_" in caught.value.where


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("poisson", "rates_", -1.0),
        ("poisson", "log_rates_", 50.0),
        ("bernoulli", "log_ones_", 0.5),
        ("multinomial", "log_p_", 0.5),
        ("mixture diag", "log_weights_", 0.5),
    ],
)
def test_probabilities_of_files_are_possible(name, key, value):
    file = fitted_to(name).to_file()
    array = file.arrays[f"emission_{key}"].copy()
    array.flat[0] = value
    with pytest.raises(ModelFileError) as caught:
        SPECS[name].bind(LABELS).from_file(
            type(file)(file.header, {**file.arrays, f"emission_{key}": array})
        )
    assert key in caught.value.where


@pytest.mark.parametrize("order", ["C", "F"])
def test_standardised_numbers(order):
    """In blocks, several rows at a time, and for arrays that are stored column by column."""
    rng = np.random.default_rng(0)
    for T in (0, 5, 16, 40, 16_384 + 37):
        x = np.asarray(rng.normal(3, [1, 20, 0], (T, 3)), order=order)
        data = Numbers.read([x])
        mean = x.mean(axis=0) if T else np.zeros(3)
        assert_allclose(data.centred, x - mean, atol=1e-12)
        assert_allclose(data.z, (x - mean) / data.spread, atol=1e-12)
        squares = np.square(x - mean).sum(axis=0)
        assert_allclose(data.totals(None), [np.full(3, T), np.zeros(3), squares], atol=1e-9)
        x[::3, 1] = np.nan
        gaps = Numbers.read([x])
        assert (gaps.z[::3, 1] == 0).all()
        if T:
            expected = (x - np.nanmean(x, axis=0)) / gaps.spread
            assert_allclose(gaps.z, np.nan_to_num(expected), atol=1e-12)
