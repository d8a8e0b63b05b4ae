"""Filter, smoother, samples and forecasts against dense conditioning of one large Gaussian."""

import numpy as np
import pytest

import tagloom as tl
from gaussians import System, condition, random_covariance, random_system
from tagloom import _native
from tagloom.errors import NotFittedError, ParameterError, ShapeError

# States, observed components, steps: fixed-size kernels, those of several vectors, blocked loops.
SIZES = [(1, 1, 1), (1, 2, 9), (2, 1, 8), (3, 2, 7), (4, 2, 9), (5, 3, 6), (8, 3, 6), (9, 2, 6)]
SIZES += [(11, 4, 5), (17, 2, 4)]


def model_of(system: System, **options) -> tl.LinearGaussian:
    """A model with one matrix for all steps."""
    return tl.LinearGaussian(
        transition=system.A[0],
        transition_covariance=system.Q[0],
        transition_offset=system.b[0],
        observation=system.C[0],
        observation_covariance=system.R[0],
        observation_offset=system.d[0],
        initial_mean=system.mean,
        initial_covariance=system.cov,
        diffuse=system.diffuse,
        **options,
    )


def varying_of(system: System) -> dict:
    return {
        "transition": system.A,
        "transition_covariance": system.Q,
        "transition_offset": system.b,
        "observation": system.C,
        "observation_covariance": system.R,
        "observation_offset": system.d,
    }


def assert_close(found, expected, tolerance=1e-10):
    scale = 1 + np.abs(expected).max(initial=0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def assert_smoothed(model, system, **options):
    smoothed, expected = model.smooth(system.y, **options), condition(system)
    assert_close(smoothed.means, expected.means)
    assert_close(smoothed.covariances, expected.covariances)
    assert_close(smoothed.lag_one_covariances, expected.lags)
    assert_close(smoothed.log_likelihood, expected.log_likelihood)
    assert_close(model.log_likelihood(system.y, **options), expected.log_likelihood)


@pytest.fixture(params=_native.instruction_sets())
def instruction_set(request):
    before = _native.instruction_set()
    _native.use_instruction_set(request.param)
    yield
    _native.use_instruction_set(before)


# ---- smoother and filter -------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0, 0.3])
@pytest.mark.parametrize("correlated", [True, False])
@pytest.mark.parametrize(("n", "m", "T"), SIZES)
def test_smoother_is_dense_conditioning(n, m, T, correlated, missing, instruction_set):
    rng = np.random.default_rng([n, m, T])
    for _ in range(3):
        system = random_system(rng, n, m, T, missing=missing, correlated=correlated)
        assert_smoothed(model_of(system), system)


@pytest.mark.parametrize("missing", [0, 0.3])
@pytest.mark.parametrize(("n", "m", "T"), SIZES)
def test_smoother_with_varying_parts(n, m, T, missing, instruction_set):
    system = random_system(np.random.default_rng(T), n, m, T, varying=True, missing=missing)
    assert_smoothed(model_of(system), system, varying=varying_of(system))
    # The same with parts that vary from the start, and those after T unused.
    model = model_of(system).set_params(
        transition=np.concatenate([system.A, system.A]), observation_offset=system.d
    )
    rest = varying_of(system)
    del rest["transition"], rest["observation_offset"]
    assert_smoothed(model, system, varying=rest)


@pytest.mark.parametrize("name", ["transition", "transition_covariance", "observation_covariance"])
def test_one_varying_part(name):
    one = random_system(np.random.default_rng(1), 3, 2, 7, missing=0.2)
    many = random_system(np.random.default_rng(2), 3, 2, 7, varying=True)
    letter = {"transition": "A", "transition_covariance": "Q", "observation_covariance": "R"}[name]
    setattr(one, letter, getattr(many, letter))
    assert_smoothed(model_of(one), one, varying={name: getattr(one, letter)})


@pytest.mark.parametrize("missing", [0, 0.4])
@pytest.mark.parametrize(("n", "m", "T"), [(1, 1, 6), (3, 2, 6), (4, 3, 5), (9, 2, 5)])
def test_filter_is_dense_conditioning_on_the_past(n, m, T, missing):
    system = random_system(np.random.default_rng(n), n, m, T, missing=missing)
    filtered = model_of(system).filter(system.y)
    before = 0.0
    for t in range(T):
        now, past = condition(system.until(t + 1, t + 1)), condition(system.until(t + 1, t))
        assert_close(filtered.means[t], now.means[t])
        assert_close(filtered.covariances[t], now.covariances[t])
        assert_close(filtered.predicted_means[t], past.means[t])
        assert_close(filtered.predicted_covariances[t], past.covariances[t])
        assert_close(filtered.log_densities[t], now.log_likelihood - before)
        before = now.log_likelihood
    assert_close(filtered.log_likelihood, before)
    assert filtered.n_diffuse == 0


def test_inputs_move_states_and_observations():
    rng = np.random.default_rng(0)
    system = random_system(rng, 3, 2, 8, missing=0.2)
    B, D = rng.standard_normal((3, 2)), rng.standard_normal((2, 2))
    u = rng.standard_normal((8, 2))
    model = model_of(system).set_params(transition_input=B, observation_input=D)
    system.b = system.b + u @ B.T
    system.d = system.d + u @ D.T
    assert_smoothed(model, system, inputs=u)
    # Weights of inputs that vary.
    weights = rng.standard_normal((8, 3, 2))
    system.b = system.b - u @ B.T + np.einsum("tij,tj->ti", weights, u)
    assert_smoothed(model, system, inputs=u, varying={"transition_input": weights})


def test_a_step_without_observations_only_predicts():
    system = random_system(np.random.default_rng(3), 4, 2, 9)
    system.y[3:6] = np.nan
    filtered = model_of(system).filter(system.y)
    np.testing.assert_array_equal(filtered.means[3:6], filtered.predicted_means[3:6])
    np.testing.assert_array_equal(filtered.log_densities[3:6], 0)
    system.y[:] = np.nan
    assert model_of(system).log_likelihood(system.y) == 0


def test_states_without_noise():
    """Q of rank 1, and states that follow others exactly: predicted covariances are singular."""
    rng = np.random.default_rng(4)
    T = 8
    A = np.array([[0.5, 0.3, 0.2], [1.0, 0, 0], [0, 1.0, 0]])  # an autoregression of order 3
    system = random_system(rng, 3, 1, T)
    system.A = np.array([A] * T)
    system.Q = np.array([np.diag([1.0, 0, 0])] * T)
    system.cov = np.diag([1.0, 0, 0])
    assert_smoothed(model_of(system), system)
    system.Q[:] = 0
    assert_smoothed(model_of(system), system)


def test_observations_without_noise():
    rng = np.random.default_rng(5)
    system = random_system(rng, 4, 2, 7)
    system.R[:] = 0
    smoothed = model_of(system).smooth(system.y)
    expected = condition(system)
    assert_close(smoothed.means, expected.means, 1e-8)
    assert_close(smoothed.log_likelihood, expected.log_likelihood)
    # A component that repeats another one has no density of its own; one that contradicts it has 0.
    model = tl.LinearGaussian(
        transition=[[1]],
        transition_covariance=[[1]],
        observation=[[1], [1]],
        observation_covariance=np.zeros((2, 2)),
        initial_mean=[0],
        initial_covariance=[[1]],
    )
    single = model.log_likelihood([[0.3, np.nan], [1.0, np.nan]])
    assert_close(model.log_likelihood([[0.3, 0.3], [1.0, 1.0]]), single)
    assert model.log_likelihood([[0.3, 0.4], [1.0, 1.0]]) == -np.inf


@pytest.mark.parametrize("diffuse", [False, True])
@pytest.mark.parametrize("n_sequences", [1, 3])
def test_components_without_a_density(n_sequences, diffuse):
    """A second receiver without noise repeats the first: no density, at any step."""
    rng = np.random.default_rng(21)
    walk = tl.LinearGaussian(
        transition=[[0.9]],
        transition_covariance=[[1]],
        observation=[[1], [1]],
        observation_covariance=np.zeros((2, 2)),
        initial_covariance=[[1]],
        diffuse=diffuse,
    )
    first = rng.standard_normal((n_sequences, 700, 1))
    both = list(np.concatenate([first, first], axis=2))
    single = list(np.concatenate([first, np.full(first.shape, np.nan)], axis=2))
    for one, other in zip(walk.filter(both), walk.filter(single), strict=True):
        assert_close(one.log_densities, other.log_densities)
        assert_close(one.log_densities.sum(), one.log_likelihood)
        assert_close(one.log_likelihood, other.log_likelihood)
    belief, total = None, 0.0
    for y in both[0]:
        belief = walk.update(y, belief)
        total += belief.log_density
    assert_close(total, walk.log_likelihood(both[0]))
    both[0][600, 1] += 0.5  # the two contradict each other, long after covariances have settled
    assert walk.log_likelihood(both) == -np.inf


# ---- diffuse starts ------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0, 0.3])
@pytest.mark.parametrize(
    ("n", "m", "diffuse"), [(1, 1, 1), (2, 1, 2), (3, 2, 2), (4, 1, 4), (9, 2, 5)]
)
def test_diffuse_start_is_a_flat_prior(n, m, diffuse, missing):
    rng = np.random.default_rng([n, m])
    for _ in range(4):
        system = random_system(rng, n, m, 12, missing=missing, diffuse=diffuse)
        model = model_of(system)
        assert_smoothed(model, system)
        filtered = model.filter(system.y)
        assert 0 <= filtered.n_diffuse < 12
        for t in range(filtered.n_diffuse, 12):
            now = condition(system.until(t + 1, t + 1))
            assert_close(filtered.means[t], now.means[t], 1e-8)
            assert_close(filtered.covariances[t], now.covariances[t], 1e-8)
            assert_close(filtered.log_densities[: t + 1].sum(), now.log_likelihood)
        assert (
            np.isinf(np.diagonal(filtered.covariances[: filtered.n_diffuse], 0, 1, 2))
            .any(axis=1)
            .all()
        )


def test_diffuse_start_is_the_limit_of_large_variances():
    system = random_system(np.random.default_rng(6), 3, 1, 10, diffuse=2)
    diffuse = model_of(system).smooth(system.y)
    kappa = 1e7
    proper = model_of(system).set_params(
        diffuse=False, initial_covariance=system.cov + kappa * np.diag(system.diffuse)
    )
    near = proper.smooth(system.y)
    assert_close(diffuse.means, near.means, 1e-5)
    assert_close(diffuse.covariances, near.covariances, 1e-5)
    assert_close(diffuse.log_likelihood, near.log_likelihood + np.log(kappa), 1e-5)


def test_diffuse_level_observed_exactly():
    """Without noise the first observation is the level: a constraint rather than information."""
    walk = tl.LinearGaussian(
        transition=[[1]],
        transition_covariance=[[1]],
        observation=[[1]],
        observation_covariance=[[0]],
        diffuse=True,
    )
    y = np.array([3.0, 4.0, 2.0])
    smoothed = walk.smooth(y)
    np.testing.assert_allclose(smoothed.means[:, 0], y, rtol=1e-15)
    np.testing.assert_allclose(smoothed.covariances, 0, atol=1e-15)
    # Two steps of a random walk, and -log(2 pi) / 2 for the one that sets the level.
    expected = -0.5 * (3 * np.log(2 * np.pi) + 1 + 4)
    np.testing.assert_allclose(smoothed.log_likelihood, expected, rtol=1e-15)


def test_what_is_never_seen_stays_infinite():
    model = tl.LinearGaussian(
        transition=np.eye(2),
        transition_covariance=np.eye(2),
        observation=[[1.0, 0.0]],
        observation_covariance=[[1]],
        diffuse=True,
    )
    y = [1.0, 2.0, 3.0]
    filtered, smoothed = model.filter(y), model.smooth(y)
    assert filtered.n_diffuse == 3
    known = tl.LinearGaussian(
        transition=[[1]],
        transition_covariance=[[1]],
        observation=[[1]],
        observation_covariance=[[1]],
        diffuse=True,
    )
    assert_close(smoothed.means[:, 0], known.smooth(y).means[:, 0])
    assert_close(smoothed.covariances[:, 0, 0], known.smooth(y).covariances[:, 0, 0])
    assert_close(
        smoothed.lag_one_covariances[:, 0, 0], known.smooth(y).lag_one_covariances[:, 0, 0]
    )
    assert_close(smoothed.log_likelihood, known.log_likelihood(y))
    assert (smoothed.covariances[:, 1, 1] == np.inf).all()
    assert (smoothed.covariances[:, 0, 1] == 0).all()
    seen = model.to_observations(smoothed)
    assert np.isfinite(seen.covariances).all()
    with pytest.raises(ParameterError) as error:
        model.sample(y)
    assert error.value.where == "sequence 0"
    nothing = model.smooth([np.nan, np.nan])
    assert (nothing.covariances[:, [0, 1], [0, 1]] == np.inf).all()
    assert nothing.log_likelihood == 0


# ---- lists, threads, steady states ---------------------------------------------------------------


def random_series(rng, m, lengths, missing):
    series = [rng.standard_normal((T, m)) for T in lengths]
    for y in series:
        y[rng.random(y.shape) < missing] = np.nan
    return series


@pytest.mark.parametrize("missing", [0, 0.2])
@pytest.mark.parametrize("diffuse", [0, 2])
@pytest.mark.parametrize("n", [2, 4, 6])
def test_a_list_is_each_sequence_for_itself(n, diffuse, missing, instruction_set):
    rng = np.random.default_rng(n)
    system = random_system(rng, n, 2, 1, diffuse=diffuse)
    series = random_series(rng, 2, [5, 1, 9, 40, 7, 7, 3, 12, 0, 6], missing)
    model = model_of(system)
    for method in (model.filter, model.smooth):
        for y, found in zip(series, method(series), strict=True):
            for one, other in zip(method(y), found, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    total = sum(model.log_likelihood(y) for y in series)
    np.testing.assert_allclose(model.log_likelihood(series), total, rtol=1e-12)


@pytest.mark.parametrize("steady_state", [True, False])
def test_same_bits_for_any_number_of_threads(steady_state):
    rng = np.random.default_rng(7)
    system = random_system(rng, 4, 2, 1, diffuse=1)
    series = random_series(rng, 2, [30, 700, 5, 900, 12] * 20, 0.01)
    answers = []
    for n_threads in (1, 2, 5):
        model = model_of(system, n_threads=n_threads, steady_state=steady_state)
        smoothed = [np.concatenate([np.ravel(x) for x in s]) for s in model.smooth(series)]
        answers.append(np.concatenate([*smoothed, *map(np.ravel, model.sample(series, 2))]))
    for other in answers[1:]:
        np.testing.assert_array_equal(answers[0], other)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("n", [1, 4, 7, 10])
def test_steady_state_changes_nothing_but_the_last_digits(n, gaps):
    rng = np.random.default_rng(n)
    system = random_system(rng, n, 2, 1)
    y = rng.standard_normal((3000, 2))
    if gaps:
        y[1500:1510] = np.nan
        y[2500:2700, 1] = np.nan
    steady, full = (model_of(system, steady_state=s) for s in (True, False))
    for method in ("filter", "smooth"):
        for a, b in zip(getattr(steady, method)(y), getattr(full, method)(y), strict=True):
            assert_close(a, b, 1e-11)
    covariances = steady.filter(y).covariances
    assert (covariances[1000:1499] == covariances[1000]).all(), "no steady state"
    assert (steady.smooth(y).covariances[1000:1300] == steady.smooth(y).covariances[1000]).all()


def test_a_loose_steady_state_is_reached_earlier():
    system = random_system(np.random.default_rng(8), 3, 1, 1)
    y = np.zeros((300, 1))

    def reached(bound):
        covariances = model_of(system, steady_state=bound).filter(y).covariances
        return (covariances != covariances[-1]).any(axis=(1, 2)).sum()

    assert reached(1e-3) < reached(1e-6) < reached(1e-12) < 300
    full = model_of(system, steady_state=False).filter(y).covariances
    for bound in (1e-3, 1e-6):
        found = model_of(system, steady_state=bound).filter(y).covariances
        sd = np.sqrt(np.diagonal(full, 0, 1, 2))
        assert (np.abs(found - full) / sd[:, :, None] / sd[:, None, :]).max() < bound


@pytest.mark.slow
@pytest.mark.parametrize("steady_state", [True, False])
@pytest.mark.parametrize("noise", [1e-12, 1.0])
def test_a_million_steps_stay_symmetric_and_positive(noise, steady_state):
    T = 1_000_000
    rng = np.random.default_rng(9)
    model = tl.LinearGaussian(
        transition=[[1, 1, 0.5, 0], [0, 1, 1, 0], [0, 0, 0.9, 0], [0, 0, 0, 1]],
        transition_covariance=noise * np.eye(4),
        observation=[[1, 0, 0, 1], [0, 0, 1, 0.5]],
        observation_covariance=np.eye(2),
        diffuse=True,
        steady_state=steady_state,
    )
    y = rng.standard_normal((T, 2))
    y[rng.random((T, 2)) < 1e-4] = np.nan
    smoothed = model.smooth(y)
    assert np.isfinite(smoothed.log_likelihood)
    assert np.isfinite(smoothed.means).all()
    covariances = smoothed.covariances
    np.testing.assert_array_equal(covariances, covariances.swapaxes(1, 2))
    values = np.linalg.eigvalsh(covariances[::17])
    assert (values[:, 0] > -1e-15 * values[:, -1]).all()
    assert (values[:, 0] > 0).mean() > 0.999


def test_nearly_constant_states():
    """With almost no noise the smoother is a regression on time."""
    rng = np.random.default_rng(10)
    T = 500
    y = 2.0 + 0.1 * np.arange(T) + rng.standard_normal(T)
    trend = tl.LinearGaussian(
        transition=[[1, 1], [0, 1]],
        transition_covariance=1e-16 * np.eye(2),
        observation=[[1, 0]],
        observation_covariance=[[1]],
        diffuse=True,
    )
    slope, level = np.polyfit(np.arange(T), y, 1)
    smoothed = trend.smooth(y)
    np.testing.assert_allclose(smoothed.means[:, 1], slope, rtol=1e-4)
    np.testing.assert_allclose(smoothed.means[0, 0], level, rtol=1e-4)
    X = np.stack([np.ones(T), np.arange(T)], axis=1)
    np.testing.assert_allclose(smoothed.covariances[0], np.linalg.inv(X.T @ X), rtol=1e-5)


# ---- samples, forecasts, single steps ------------------------------------------------------------


@pytest.mark.parametrize("diffuse", [0, 2])
def test_sampled_paths_have_the_smoothed_moments(diffuse):
    rng = np.random.default_rng(11)
    system = random_system(rng, 3, 1, 5, missing=0.3, diffuse=diffuse)
    model, N = model_of(system), 40_000
    paths = model.sample(system.y, N)
    assert paths.shape == (N, 5, 3)
    expected = condition(system)
    sd = np.sqrt(np.diagonal(expected.covariances, 0, 1, 2))
    assert (np.abs(paths.mean(axis=0) - expected.means) < 5 * sd / np.sqrt(N)).all()
    centred = (paths - expected.means) / sd
    for t in range(5):
        found = centred[:, t].T @ centred[:, t] / N
        assert_close(found, expected.covariances[t] / np.outer(sd[t], sd[t]), 0.03)
        if t < 4:
            found = centred[:, t + 1].T @ centred[:, t] / N
            assert_close(found, expected.lags[t] / np.outer(sd[t + 1], sd[t]), 0.03)


def test_samples_repeat_with_their_seed():
    system = random_system(np.random.default_rng(12), 2, 1, 6)
    model = model_of(system)
    np.testing.assert_array_equal(model.sample(system.y, 3), model.sample(system.y, 3))
    other = model.sample(system.y, 3, random_state=1)
    assert (other != model.sample(system.y, 3)).any()


@pytest.mark.parametrize("diffuse", [0, 1])
def test_forecast_is_dense_conditioning_on_all(diffuse):
    rng = np.random.default_rng(13)
    system = random_system(rng, 3, 2, 9, missing=0.2, diffuse=diffuse)
    expected = condition(system.until(9, 6))
    model = model_of(system)
    ahead = model.forecast(system.y[:6], 3)
    assert_close(ahead.state_means, expected.means[6:])
    assert_close(ahead.state_covariances, expected.covariances[6:])
    means = expected.means[6:] @ system.C[0].T + system.d[0]
    assert_close(ahead.means, means)
    covariances = system.C[0] @ expected.covariances[6:] @ system.C[0].T + system.R[0]
    assert_close(ahead.covariances, covariances)
    belief = None
    for y in system.y[:6]:
        belief = model.update(y, belief)
    for one, other in zip(model.forecast(belief, 3), ahead, strict=True):
        assert_close(one, other)
    both = model.forecast([system.y[:6], system.y[:4]], 3)
    assert_close(both[0].means, ahead.means)
    assert both[1].means.shape == (3, 2)


def test_forecast_with_inputs_and_varying_parts():
    rng = np.random.default_rng(14)
    system = random_system(rng, 2, 1, 8, varying=True)
    B, u = rng.standard_normal((2, 1)), rng.standard_normal((8, 1))
    model = model_of(system).set_params(transition_input=B, observation_input=np.zeros((1, 1)))
    varying = varying_of(system)
    ahead = model.forecast(system.y[:5], 3, inputs=u, varying=varying)
    system.b = system.b + u @ B.T
    expected = condition(system.until(8, 5))
    assert_close(ahead.state_means, expected.means[5:])
    belief = None
    for t in range(5):
        now = {name: array[t] for name, array in varying.items()}
        belief = model.update(system.y[t], belief, inputs=u[t], varying=now)
    rest = {name: array[5:] for name, array in varying.items()}
    again = model.forecast(belief, 3, inputs=u[5:], varying=rest)
    assert_close(again.means, ahead.means)
    assert_close(again.covariances, ahead.covariances)


@pytest.mark.parametrize("diffuse", [0, 3])
@pytest.mark.parametrize("missing", [0, 0.5])
def test_update_is_the_filter_step_by_step(missing, diffuse):
    system = random_system(np.random.default_rng(15), 4, 2, 12, missing=missing, diffuse=diffuse)
    model = model_of(system)
    filtered = model.filter(system.y)
    belief = None
    for t, y in enumerate(system.y):
        belief = model.update(y, belief)
        assert_close(belief.mean, filtered.means[t])
        np.testing.assert_allclose(belief.covariance, filtered.covariances[t], rtol=1e-9, atol=1e-9)
        assert_close(belief.log_density, filtered.log_densities[t])
        assert belief.n_steps == t + 1
    assert belief.start is None


def test_update_with_parts_that_vary_in_the_model():
    system = random_system(np.random.default_rng(16), 2, 1, 5, varying=True)
    model = model_of(system).set_params(transition=system.A, observation_covariance=system.R)
    filtered = model.filter(system.y)
    belief = None
    for t, y in enumerate(system.y):
        belief = model.update(y, belief)
        assert_close(belief.mean, filtered.means[t])
    with pytest.raises(ShapeError) as error:
        model.update(system.y[0], belief)
    assert error.value.parameter in ("transition", "observation_covariance")


def test_forecast_from_a_belief_with_parts_that_vary_in_the_model():
    system = random_system(np.random.default_rng(19), 2, 1, 9, varying=True)
    parts = {name: varying_of(system)[name] for name in ("transition", "observation")}
    model = model_of(system).set_params(**parts)
    ahead = model.forecast(system.y[:5], 4)
    belief = None
    for y in system.y[:5]:
        belief = model.update(y, belief)
    for one, other in zip(model.forecast(belief, 4), ahead, strict=True):
        assert_close(one, other)
    with pytest.raises(ShapeError) as error:
        model.forecast(belief, 5)
    assert error.value.parameter in parts
    assert error.value.found == "9"


def test_update_takes_only_inputs_that_the_model_has():
    system = random_system(np.random.default_rng(20), 2, 1, 3)
    with pytest.raises(ShapeError) as error:
        model_of(system).update(1.0, inputs=[1.0])
    assert error.value.parameter == "inputs"
    model = model_of(system).set_params(transition_input=np.ones((2, 1)))
    with pytest.raises(ParameterError) as error:
        model.update(1.0)
    assert error.value.parameter == "inputs"


def test_generated_sequences_have_the_moments_of_the_model():
    model = tl.LinearGaussian(
        transition=[[0.8, 0.2], [0, 0.5]],
        transition_covariance=[[1, 0.3], [0.3, 0.5]],
        observation=[[1, 0]],
        observation_covariance=[[2]],
        observation_offset=[3],
        initial_mean=[0, 0],
        initial_covariance=np.eye(2),
    )
    states, observations = model.generate(200_000)
    errors = states[1:] - states[:-1] @ model.transition_.T
    assert_close(np.cov(errors.T), model.transition_covariance_, 0.02)
    noise = observations[:, 0] - states[:, 0]
    assert abs(noise.mean() - 3) < 0.02
    assert abs(noise.var() - 2) < 0.03
    np.testing.assert_array_equal(states, model.generate(200_000).states)
    assert (model.generate(5, random_state=1).states != states[:5]).any()
    np.testing.assert_array_equal(model.generate(5, initial_state=[7, 8]).states[0], [7, 8])
    assert model.generate(0).states.shape == (0, 2)


def test_expected_observations():
    system = random_system(np.random.default_rng(17), 3, 2, 6, missing=0.3)
    model, expected = model_of(system), condition(system)
    smoothed = model.smooth(system.y)
    seen = model.to_observations(smoothed)
    assert_close(seen.means, expected.means @ system.C[0].T + system.d[0])
    signal = model.to_observations(smoothed, noise=False)
    assert_close(seen.covariances - signal.covariances, np.array([system.R[0]] * 6))
    pair = model.to_observations(model.smooth([system.y, system.y[:4]]))
    assert_close(pair[0].means, seen.means)
    assert pair[1].covariances.shape == (4, 2, 2)
    with pytest.raises(ParameterError) as error:
        model.to_observations(smoothed.means)
    assert error.value.parameter == "states"


# ---- what users pass -----------------------------------------------------------------------------


def test_forms_of_observations():
    walk = tl.LinearGaussian(
        transition=[[1]],
        transition_covariance=[[1]],
        observation=[[1]],
        observation_covariance=[[1]],
        diffuse=True,
    )
    expected = walk.smooth(np.array([[1.0], [2.0], [4.0]])).means
    for y in ([1, 2, 4], (1.0, 2, 4), np.array([1, 2, 4]), [[1], [2], [4]]):
        np.testing.assert_array_equal(walk.smooth(y).means, expected)
    both = walk.smooth([np.array([1.0, 2, 4]), np.array([[1.0], [2], [4]])])
    assert [s.means.tolist() for s in both] == [expected.tolist()] * 2
    assert walk.smooth(np.zeros((0, 1))).means.shape == (0, 1)


@pytest.mark.parametrize(
    ("Y", "where", "found"),
    [
        (np.zeros((3, 2)), None, "shape (3, 2)"),
        (np.zeros((2, 3, 1)), None, "shape (2, 3, 1)"),
        ([np.zeros((3, 1)), np.zeros((3, 2))], "sequence 1", "shape (3, 2)"),
        ([], None, "an empty list"),
        ("abc", None, None),
        (np.array([1.0, np.inf]), None, "inf at step 1, component 0"),
        (np.array([True, False]), None, None),
    ],
)
def test_wrong_observations(Y, where, found):
    walk = tl.LinearGaussian(
        transition=[[1]],
        transition_covariance=[[1]],
        observation=[[1]],
        observation_covariance=[[1]],
        diffuse=True,
    )
    with pytest.raises((ShapeError, ParameterError)) as error:
        walk.smooth(Y)
    assert error.value.where == where
    assert found is None or error.value.found == found


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("transition", np.eye(3), ShapeError),
        ("transition", [[1, np.nan], [0, 1]], ParameterError),
        ("transition_covariance", [[1, 2], [2, 1]], ParameterError),
        ("transition_covariance", [[1, 0.5], [0, 1]], ParameterError),
        ("observation", np.eye(3)[:1], ShapeError),
        ("observation_covariance", np.eye(2), ShapeError),
        ("observation_covariance", [[-1.0]], ParameterError),
        ("initial_mean", [0.0], ShapeError),
        ("initial_mean", np.zeros((4, 2)), ShapeError),
        ("diffuse", [True], ParameterError),
        ("steady_state", -1.0, ParameterError),
        ("n_threads", 0, ParameterError),
    ],
)
def test_wrong_parts(name, value, kind):
    parts = {
        "transition": np.eye(2),
        "transition_covariance": np.eye(2),
        "observation": [[1.0, 0.0]],
        "observation_covariance": [[1.0]],
        "diffuse": True,
    }
    model = tl.LinearGaussian(n_states=2, **{**parts, name: value})
    with pytest.raises(kind) as error:
        model.smooth([1.0, 2.0])
    assert error.value.parameter == name


def test_a_model_without_parts_is_not_fitted():
    model = tl.LinearGaussian(n_states=2)
    assert not model.is_fitted
    for method in (model.filter, model.smooth, model.sample, model.log_likelihood, model.update):
        with pytest.raises(NotFittedError):
            method([1.0])
    with pytest.raises(NotFittedError) as error:
        tl.LinearGaussian(
            transition=[[1]],
            transition_covariance=[[1]],
            observation=[[1]],
            observation_covariance=[[1]],
        ).smooth([1.0])
    assert "initial_covariance, or diffuse=True" in error.value.hint


def test_a_given_part_that_is_changed_in_place_counts():
    A = np.array([[1.0]])
    walk = tl.LinearGaussian(
        transition=A,
        transition_covariance=[[1]],
        observation=[[1]],
        observation_covariance=[[1]],
        diffuse=True,
    )
    before = walk.log_likelihood([1.0, 2.0])
    A[0, 0] = 0.5
    assert walk.log_likelihood([1.0, 2.0]) != before
    assert walk.transition_ == 0.5


def test_given_parts_may_be_lists_of_arrays():
    parts = {
        "transition": [np.array([1.0, 1.0]), np.array([0.0, 1.0])],
        "transition_covariance": [np.array([1.0, 0.0]), np.array([0.0, 1.0])],
        "observation": [np.array([1.0, 0.0])],
        "observation_covariance": [[1]],
        "diffuse": [True, True],
    }
    model = tl.LinearGaussian(**parts)
    first = model.parameters_
    assert model.parameters_ is first
    parts["transition"][0][1] = 0.5
    assert model.transition_[0, 1] == 0.5


def test_masked_entries_are_missing():
    y = np.array([1.0, 7.0, 4.0])
    model = tl.LinearGaussian(
        transition=[[1]],
        transition_covariance=[[1]],
        observation=[[1]],
        observation_covariance=[[1]],
        diffuse=True,
    )
    masked = np.ma.array(y, mask=[False, True, False])
    expected = model.smooth([1.0, np.nan, 4.0])
    np.testing.assert_array_equal(model.smooth(masked).means, expected.means)
    integers = np.ma.array([1, 7, 4], mask=[False, True, False])
    np.testing.assert_array_equal(model.smooth(integers).means, expected.means)


def test_inputs_must_fit():
    model = tl.LinearGaussian(
        transition=[[1]],
        transition_covariance=[[1]],
        transition_input=[[1, 2]],
        observation=[[1]],
        observation_covariance=[[1]],
        diffuse=True,
    )
    for inputs in (None, np.zeros((3, 1)), np.zeros((2, 2)), [[0, np.nan]] * 3):
        with pytest.raises((ShapeError, ParameterError)) as error:
            model.smooth([1.0, 2.0, 3.0], inputs=inputs)
        assert error.value.parameter == "inputs"
    with pytest.raises(ShapeError) as error:
        model.smooth([np.zeros(3), np.zeros(3)], inputs=[np.zeros((3, 2))])
    assert error.value.parameter == "inputs"
    with pytest.raises(ParameterError) as error:
        model.smooth([1.0], inputs=[[0, 0]], varying={"initial_mean": [[1]]})
    assert error.value.parameter == "varying"
    with pytest.raises(ShapeError) as error:
        model.smooth(
            [1.0, 2.0], inputs=np.zeros((2, 2)), varying={"transition": np.ones((3, 1, 1))}
        )
    assert error.value.parameter == "transition"


def test_wrong_beliefs():
    system = random_system(np.random.default_rng(18), 2, 1, 3)
    model = model_of(system)
    with pytest.raises(ParameterError) as error:
        model.update([1.0], "belief")
    assert error.value.parameter == "belief"
    with pytest.raises(ShapeError) as error:
        model.update([1.0, 2.0])
    assert error.value.parameter == "y"
    with pytest.raises(ParameterError) as error:
        model.update("one")
    assert error.value.parameter == "y"
    with pytest.raises(ParameterError) as error:
        model.smooth([1.0], varying=["transition"])
    assert error.value.parameter == "varying"
    diffuse = model.set_params(diffuse=True)
    with pytest.raises(ParameterError) as error:
        diffuse.forecast(diffuse.update([1.0]), 3)
    assert error.value.parameter == "Y"


def test_random_covariances_of_the_oracle_are_positive():
    assert np.linalg.eigvalsh(random_covariance(np.random.default_rng(0), 5)).min() > 0
