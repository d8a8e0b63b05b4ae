"""Random fits of all emissions of numbers: the objective never falls, and nothing ends in NaN."""

import numpy as np
import pytest

import tagloom as tl

em = tl.emissions
KINDS = ("spherical", "diag", "full", "tied")


def random_emission(rng, D):
    """Return an emission, and a function that draws T tokens for it."""
    kind, which = str(rng.choice(KINDS)), int(rng.integers(7))
    prior = {}
    if rng.random() < 0.4:
        prior = {
            "prior_mean_weight": float(rng.choice([0.0, 0.5])),
            "prior_scale": float(rng.choice([0.01, 1.0])),
            "prior_weight": float(rng.choice([0.0, 1.0, 9.0])),
        }
    floor = float(rng.choice([1e-6, 1e-3, 1e-8]))
    scale = 10.0 ** rng.integers(-3, 4, D) if rng.random() < 0.3 else np.ones(D)
    shift = 10.0 ** rng.integers(-1, 6)

    def numbers(T):
        states = rng.integers(0, 3, T)
        return shift + scale * (3 * states[:, None] + rng.standard_normal((T, D)))

    if which in (0, 1):
        return em.Gaussian(kind, floor=floor, **prior), numbers
    if which == 2:
        alpha = float(rng.choice([1.0, 1.5]))
        return em.GaussianMixture(2, kind, floor=floor, weight_alpha=alpha, **prior), numbers
    if which == 3:
        rate = float(rng.choice([0.0, 0.3]))
        rates = rng.choice([0.0, 1.0, 8.0], D)
        spec = em.Poisson(prior_shape=float(rng.choice([1.0, 2.0])), prior_rate=rate)
        return spec, lambda T: rng.poisson(rates, (T, D)) * 1.0
    if which == 4:
        probs = rng.choice([0.0, 0.3, 1.0], D)
        spec = em.Bernoulli(alpha=float(rng.choice([1.0, 1.5])))
        return spec, lambda T: (rng.random((T, D)) < probs) * 1.0
    if which == 5:
        n = int(rng.integers(0, 6))
        spec = em.Multinomial(
            alpha=float(rng.choice([1.0, 1.2])), n_trials=n if rng.random() < 0.5 else None
        )
        return spec, lambda T: rng.multinomial(n, rng.dirichlet(np.ones(D)), T) * 1.0

    def mixed(T):
        return np.column_stack([numbers(T), rng.poisson(2.0, T)])

    columns = [list(range(D)), D]
    return em.Independent([em.Gaussian(kind, floor=floor), em.Poisson()], columns), mixed


def random_problem(seed):
    """Sequences with gaps, equal tokens, constant columns; some empty or of one token."""
    rng = np.random.default_rng(seed)
    D, Y = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    spec, draw = random_emission(rng, D)
    lengths = [*rng.integers(0, 15, int(rng.integers(1, 5))), int(rng.integers(1, 4))]
    X = [draw(int(T)) for T in lengths]
    may_be_constant = not isinstance(spec, em.Multinomial)
    for x in X:
        if may_be_constant and rng.random() < 0.3 and len(x):
            x[:] = x[0]
        if rng.random() < 0.5:
            x[rng.random(x.shape) < 0.2] = np.nan
        if rng.random() < 0.2:
            x[rng.random(len(x)) < 0.3] = np.nan
    if may_be_constant and rng.random() < 0.2:
        for x in X:
            x[:, 0] = 1.0
    params = {
        "stop": bool(rng.integers(2)),
        "prior": float(rng.choice([1.0, 1.1])),
        "allowed": "left-right" if rng.random() < 0.2 else None,
    }
    weight = None if rng.random() < 0.7 else rng.random(len(X)) + 0.1
    return X, Y, spec, params, weight


# By how much of itself the objective may fall, by rounding.
ROUNDING = {"float64": 1e-9, "float32": 1e-5}


def check_fit(seed, iterations=25, dtype="float64"):
    X, Y, spec, params, weight = random_problem(seed)
    algorithm = tl.learners.EM(iterations, tolerance=0, reseed=False)
    hmm = tl.HMM(
        n_states=Y, emissions=spec, algorithm=algorithm, random_state=seed, dtype=dtype, **params
    )
    hmm.fit(X, sample_weight=weight)
    objectives = np.array([record.objective for record in hmm.history_])
    assert np.isfinite(objectives).all(), seed
    fall = -np.diff(objectives).min(initial=0)
    assert fall <= ROUNDING[dtype] * max(np.abs(objectives).max(), 1), (
        seed,
        spec,
        fall,
        objectives,
    )
    for name, array in hmm.to_file().arrays.items():
        assert not np.isnan(array).any(), (seed, name)
    assert all(np.isfinite(gamma).all() for gamma in hmm.predict_marginals(X)), seed


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("seed", range(60))
def test_the_objective_never_falls(seed, dtype):
    check_fit(seed, 12, dtype)


@pytest.mark.soak
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("seed", range(1000, 2000))
def test_the_objective_never_falls_in_many_fits(seed, dtype):
    check_fit(seed, dtype=dtype)
