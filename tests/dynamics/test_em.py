"""EM: each step is the best one, the objective never falls, and what made the data is found."""

import warnings

import numpy as np
import pytest

import tagloom as tl
from gaussians import System, complete
from linear_gaussian_cases import CASES, TURN, T, draw, make_truth
from tagloom.dynamics import InverseWishart, Normal
from tagloom.dynamics.parameters import SHAPES
from tagloom.errors import NotFittedError, ParameterError, ShapeError


def objectives(model):
    return np.array([record.objective for record in model.history_])


def assert_never_falls(model):
    values = objectives(model)
    assert len(values) > 1
    rises = np.diff(values)
    assert (rises >= -1e-10 * (1 + np.abs(values[1:]))).all(), rises.min()
    assert values[-1] > values[0]


def fit_case(name, missing, **more):
    options, passed = CASES[name]
    Y = draw(make_truth(), [T, T, T], missing)
    model = tl.LinearGaussian(n_states=2, **{"tolerance": 0, **options, **more})
    return model.fit(Y, **passed), Y, passed


@pytest.mark.parametrize(
    ("name", "missing"), [("everything", 0), ("priors", 0), *((name, 0.3) for name in CASES)]
)
def test_objective_never_falls(name, missing):
    model, Y, passed = fit_case(name, missing, max_iterations=30)
    assert_never_falls(model)
    # What is reported is the objective of the model that is returned.
    plain = model.log_likelihood(Y, **passed)
    if model.prior is None:
        np.testing.assert_allclose(objectives(model)[-1], plain, rtol=1e-12)
    else:
        assert objectives(model)[-1] != plain


def log_priors(model, parts):
    """Log densities of the entries that are learnt, by SciPy."""
    from scipy.stats import invwishart, norm

    total = 0.0
    for name, prior in (model.prior or {}).items():
        value = parts[name]
        fixed = model.fixed.get(name) if isinstance(model.fixed, dict) else None
        if isinstance(prior, Normal):
            terms = norm.logpdf(value, np.broadcast_to(prior.mean, value.shape), prior.sd)
            total += terms[~fixed].sum() if fixed is not None else terms.sum()
        elif fixed is None:
            scale = prior.scale * np.eye(len(value)) if np.ndim(prior.scale) == 0 else prior.scale
            total += invwishart.logpdf(value, prior.degrees, scale)
        else:  # the blocks are those of the diagonal
            scales = zip(np.diag(value), np.diag(prior.scale), strict=True)
            total += sum(invwishart.logpdf(v, prior.degrees, scale) for v, scale in scales)
    return total


def system_of(parts, series, i, passed):
    """Sequence i with an entry of every part for each step."""
    y, varying = series[i], passed.get("varying", {})

    def steps(name):
        array = varying[name][i] if name in varying else parts[name]
        return array[: len(y)] if array.ndim > len(SHAPES[name]) else np.array([array] * len(y))

    b, d = steps("transition_offset"), steps("observation_offset")
    if "inputs" in passed:
        u = passed["inputs"][i]
        b = b + np.einsum("tij,tj->ti", steps("transition_input"), u)
        d = d + np.einsum("tij,tj->ti", steps("observation_input"), u)
    return System(
        steps("transition"),
        steps("transition_covariance"),
        b,
        steps("observation"),
        steps("observation_covariance"),
        d,
        parts["initial_mean"],
        parts["initial_covariance"],
        y,
    )


def expected_log_density(residual, cov, S):
    """E[log N(r; 0, S)] for r ~ N(residual, cov)."""
    squares = np.trace(np.linalg.solve(S, cov + np.outer(residual, residual)))
    return -0.5 * (len(S) * np.log(2 * np.pi) + np.linalg.slogdet(S)[1] + squares)


def expected_objective(model, parts, posteriors, series, passed):
    """E[log p(x, y)] under posteriors, as EM maximises it: steps without observations are left out,
    and what is missing at a step is unknown, or left out if the noise varies."""
    total = log_priors(model, parts)
    for i, (mean, cov) in enumerate(posteriors):
        system = system_of(parts, series, i, passed)
        T, n = system.b.shape
        m = system.d.shape[1]
        for t in range(T):
            now = np.zeros((n, len(mean)))  # r = now z - level
            now[:, t * n : t * n + n] = np.eye(n)
            if t:
                now[:, t * n - n : t * n] = -system.A[t]
            level, S = (system.b[t], system.Q[t]) if t else (system.mean, system.cov)
            total += expected_log_density(now @ mean - level, now @ cov @ now.T, S)
            used = np.isfinite(system.y[t])
            if not used.any():
                continue
            if "observation_covariance" not in passed.get("varying", {}):
                used = np.full(m, True)
            seen = np.zeros((m, len(mean)))
            seen[:, T * n + t * m : T * n + t * m + m] = np.eye(m)
            seen[:, t * n : t * n + n] = -system.C[t]
            seen = seen[used]
            residual, spread = seen @ mean - system.d[t][used], seen @ cov @ seen.T
            total += expected_log_density(residual, spread, system.R[t][np.ix_(used, used)])
    return total


@pytest.mark.parametrize(
    ("name", "missing"),
    [("everything", 0), ("priors", 0), *((name, 0.3) for name in CASES if "diffuse" not in name)],
)
def test_each_step_maximises_the_expected_log_density(name, missing):
    """Coefficients are best given the covariances before, covariances given the coefficients."""
    options, passed = CASES[name]
    passed = dict(passed)
    series = draw(make_truth(), [T, T, T], missing)
    model = tl.LinearGaussian(n_states=2, **options)
    data = model._read(series, passed.get("inputs"), passed.get("varying"))
    learner = model._learner(data, 0)
    learner.step()
    before = learner.parameters.arrays()
    posteriors = [complete(system_of(before, series, i, passed)) for i in range(len(series))]
    learner.step()
    after = learner.parameters.arrays()

    def objective(parts):
        return expected_objective(model, parts, posteriors, series, passed)

    covariances = {key: before[key] for key in SHAPES if key.endswith("covariance")}
    gain = objective(after) - objective(before)
    assert gain >= -1e-9
    assert objective({**after, **covariances}) >= objective(before) - 1e-9
    checked = 0
    for key in SHAPES:
        given = after if key in covariances else {**after, **covariances}
        for index in np.argwhere(learner.plan.free[key]):
            index = tuple(index)
            if key in covariances and index[0] < index[1]:
                continue

            def moved(by, key=key, index=index, given=given):
                array = given[key].copy()
                array[index] += by
                if key in covariances:
                    array[index[::-1]] = array[index]
                return objective({**given, key: array})

            step = 1e-3 * abs(given[key]).max()
            here = objective(given)
            slope = (moved(step) - moved(-step)) / (2 * step)
            curvature = (moved(step) + moved(-step) - 2 * here) / step**2
            assert curvature < 0
            # What moving along this entry could still gain; of covariances, up to the third order.
            assert slope**2 / -curvature < 1e-6, (key, index)
            checked += 1
    assert checked > 5


# ---- what is found -------------------------------------------------------------------------------


def assert_as_good_as(model, truth, new):
    """On new data, a model that was learnt predicts almost as the one that made them."""
    assert model.score(new) > truth.score(new) - 0.02
    errors = []
    for each in (model, truth):
        predicted = each.to_observations(
            each.filter(new)._replace(
                means=each.filter(new).predicted_means,
                covariances=each.filter(new).predicted_covariances,
            )
        )
        errors.append(((predicted.means - new) ** 2).mean())
    assert errors[0] < 1.02 * errors[1]


def test_what_made_the_data_is_recovered_up_to_rotation():
    truth = make_truth()
    series = draw(truth, [500] * 10, missing=0.1)
    model = tl.LinearGaussian(n_states=2, max_iterations=300).fit(series)
    assert_never_falls(model)
    assert model.training_["stopped"] == "converged"
    assert model.log_likelihood(series) > truth.log_likelihood(series)
    assert_as_good_as(model, truth, truth.generate(5000, random_state=99).observations)
    eigenvalues = np.sort_complex(np.linalg.eigvals(model.transition_))
    np.testing.assert_allclose(eigenvalues, np.sort_complex(np.linalg.eigvals(TURN)), atol=0.02)
    np.testing.assert_allclose(model.observation_offset_, [5, -3, 0], atol=0.3)

    # The stationary covariance of observations does not depend on the basis of the states.
    def spread(m):
        P = np.eye(2)
        for _ in range(2000):
            P = m.transition_ @ P @ m.transition_.T + m.transition_covariance_
        return m.observation_ @ P @ m.observation_.T

    np.testing.assert_allclose(spread(model), spread(truth), atol=0.5)


def test_noise_is_recovered_where_the_rest_is_fixed():
    truth = make_truth()
    series = draw(truth, [2000] * 5, missing=0.2)
    model = make_truth(
        transition_covariance=np.eye(2),
        observation_covariance=np.eye(3),
        fixed=[
            "transition",
            "observation",
            "observation_offset",
            "initial_mean",
            "initial_covariance",
        ],
        max_iterations=300,
        tolerance=1e-7,
    ).fit(series)
    np.testing.assert_allclose(model.transition_covariance_, np.diag([0.1, 0.2]), atol=0.03)
    expected = truth.observation_covariance_
    np.testing.assert_allclose(model.observation_covariance_, expected, atol=0.04)
    np.testing.assert_array_equal(model.transition_, TURN)


def test_weights_of_inputs_are_recovered():
    rng = np.random.default_rng(5)
    B, D = rng.standard_normal((2, 2)), rng.standard_normal((3, 2))
    truth = make_truth(transition_input=B, observation_input=D)
    inputs = [rng.standard_normal((800, 2)) for _ in range(4)]
    series = [
        truth.generate(800, inputs=u, random_state=i).observations for i, u in enumerate(inputs)
    ]
    model = make_truth(
        fixed=["transition", "transition_covariance", "observation", "observation_covariance"],
        max_iterations=100,
    ).fit(series, inputs=inputs)
    np.testing.assert_allclose(model.transition_input_, B, atol=0.1)
    np.testing.assert_allclose(model.observation_input_, D, atol=0.1)


def test_fixed_entries_stay():
    for name, (options, passed) in CASES.items():
        if not options.get("fixed"):
            continue
        series = draw(make_truth(), [T, T, T], 0.2)
        model = tl.LinearGaussian(n_states=2, max_iterations=5, **options).fit(series, **passed)
        fixed = options["fixed"]
        masks = fixed if isinstance(fixed, dict) else dict.fromkeys(fixed, True)
        for part, mask in masks.items():
            found = getattr(model.parameters_, part)
            given = np.asarray(options.get(part, np.zeros(found.shape)), dtype=float)
            mask = np.broadcast_to(mask, found.shape)
            np.testing.assert_array_equal(found[mask], given[mask], err_msg=f"{name}: {part}")


def test_priors_pull():
    series = draw(make_truth(), [30])
    options = {"n_states": 2, "max_iterations": 20}
    free = tl.LinearGaussian(**options).fit(series)
    strong = tl.LinearGaussian(**options, prior={"transition": Normal(0.0, 0.01)}).fit(series)
    assert abs(strong.transition_).max() < 0.05 < abs(free.transition_).max()
    wide = tl.LinearGaussian(
        **options, prior={"observation_covariance": InverseWishart(1e4 * np.eye(3), 1000)}
    ).fit(series)
    np.testing.assert_allclose(np.diag(wide.observation_covariance_), 1e4 / 1034, rtol=0.1)
    assert strong.history_[0].measure == "log_posterior"
    assert free.history_[0].measure == "log_likelihood"


# ---- the run -------------------------------------------------------------------------------------


def test_restarts_keep_the_best():
    series = draw(make_truth(), [60], 0.1)
    best = tl.LinearGaussian(n_states=3, restarts=4, max_iterations=8).fit(series)
    singles = [
        tl.LinearGaussian(n_states=3, max_iterations=8)._learner(best._read(series, None, None), i)
        for i in range(4)
    ]
    finals = []
    for learner in singles:
        for _ in range(8):
            step = learner.step()
        finals.append(step.objective)
    assert len(set(finals)) == 4
    np.testing.assert_allclose(best.history_[-1].objective, max(finals), rtol=1e-12)
    again = tl.LinearGaussian(n_states=3, restarts=4, max_iterations=8).fit(series)
    np.testing.assert_array_equal(best.transition_, again.transition_)


def test_a_run_resumes_to_the_same_bits(tmp_path):
    series = draw(make_truth(), [100, 50], 0.1)
    options = {"n_states": 2, "tolerance": 0}
    whole = tl.LinearGaussian(**options, max_iterations=12).fit(series)
    path = tmp_path / "run"
    tl.LinearGaussian(**options, max_iterations=5).fit(series, checkpoint=path)
    seen = []
    resumed = tl.LinearGaussian(**options, max_iterations=12)
    resumed.fit(series, checkpoint=path, callback=seen.append)
    assert [record.iteration for record in seen] == list(range(6, 13))
    for name in SHAPES:
        np.testing.assert_array_equal(
            getattr(whole.parameters_, name), getattr(resumed.parameters_, name)
        )
    other = tl.LinearGaussian(n_states=2, transition=TURN, max_iterations=12)
    with pytest.raises(tl.errors.ModelFileError):
        other.fit(series, checkpoint=path)


def test_same_bits_for_any_number_of_threads():
    series = draw(make_truth(), [30, 600, 20, 80] * 12, 0.05)
    fits = [
        tl.LinearGaussian(n_states=2, max_iterations=4, n_threads=n).fit(series) for n in (1, 2, 5)
    ]
    for fit in fits[1:]:
        for name in SHAPES:
            one, other = (getattr(f.parameters_, name) for f in (fits[0], fit))
            np.testing.assert_array_equal(one, other)


def test_it_stops_when_the_objective_stalls():
    series = draw(make_truth(), [200])
    model = tl.LinearGaussian(n_states=2, tolerance=1e-3, max_iterations=500).fit(series)
    values = objectives(model)
    assert model.training_["stopped"] == "converged"
    assert values[-1] - values[-2] <= 1e-3 * 600 < values[1] - values[0]
    record = model.training_
    assert (record["sequences"], record["steps"], record["observed"]) == (1, 200, 600)


@pytest.mark.parametrize(
    "series",
    [
        [np.zeros((1, 2))] * 3,
        [np.zeros((20, 2))],
        [np.ones((20, 2)) * [1, np.nan]],
        [np.full((4, 2), np.nan), np.random.default_rng(0).standard_normal((9, 2))],
        [np.zeros((0, 2)), np.random.default_rng(0).standard_normal((9, 2))],
        [np.random.default_rng(0).standard_normal((3, 2))],
        [1e8 + np.random.default_rng(0).standard_normal((50, 2))],
        [1e-8 * np.random.default_rng(0).standard_normal((50, 2))],
        [np.random.default_rng(0).standard_normal((50, 2)) * [1, 1e6]],
    ],
    ids=[
        "single steps",
        "zeros",
        "constant, half missing",
        "nothing seen",
        "empty",
        "few",
        "far",
        "small",
        "scales",
    ],
)
def test_data_at_the_edge(series):
    """EM rises, or ends with a warning where rounding is all that is left of the noise."""
    model = tl.LinearGaussian(n_states=3, max_iterations=15)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*close to singular")
        model.fit(series)
    values = objectives(model)
    assert (np.diff(values) >= -1e-9 * (1 + np.abs(values[1:]))).all()
    for name in SHAPES:
        assert np.isfinite(getattr(model.parameters_, name)).all()


def test_what_varied_in_fit_must_be_passed_again():
    options, passed = CASES["varying transition"]
    series = draw(make_truth(), [T, T, T])
    model = tl.LinearGaussian(n_states=2, max_iterations=3, **options).fit(series, **passed)
    model.smooth(series, **passed)
    for method, given in ((model.smooth, series), (model.update, series[0][0])):
        with pytest.raises(ParameterError) as error:
            method(given)
        assert error.value.parameter == "varying"


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"n_states": None}, "n_states"),
        ({"n_states": 0}, "n_states"),
        ({"fixed": ["transitions"]}, "fixed"),
        ({"fixed": 3}, "fixed"),
        ({"fixed": ["transition"]}, "fixed"),
        ({"transition": TURN, "fixed": {"transition": np.ones((3, 3), bool)}}, "fixed"),
        (
            {
                "observation_covariance": np.eye(3) + 0.1,
                "fixed": {"observation_covariance": np.eye(3, dtype=bool)},
            },
            "fixed",
        ),
        ({"prior": {"transition": InverseWishart(1, 5)}}, "prior"),
        ({"prior": {"transition_covariance": Normal()}}, "prior"),
        ({"prior": {"transition": Normal(sd=0)}}, "prior"),
        ({"prior": {"transition": Normal(mean=np.zeros(5))}}, "prior"),
        ({"prior": {"transition_covariance": InverseWishart(-1, 5)}}, "prior"),
        ({"prior": {"transition_covariance": InverseWishart(1, 0.5)}}, "prior"),
        ({"prior": {"transition": Normal()}, "transition": TURN, "fixed": ["transition"]}, "prior"),
        ({"restarts": 0}, "restarts"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"tolerance": -1}, "tolerance"),
        ({"diffuse": "yes"}, "diffuse"),
    ],
)
def test_wrong_parameters(options, parameter):
    model = tl.LinearGaussian(**{"n_states": 2, **options})
    with pytest.raises((ParameterError, ShapeError)) as error:
        model.fit(draw(make_truth(), [20]))
    assert error.value.parameter == parameter


def test_a_start_that_is_never_seen_cannot_be_learnt():
    model = tl.LinearGaussian(n_states=2, diffuse=True)
    with pytest.raises(ParameterError) as error:
        model.fit([np.random.default_rng(0).standard_normal((20, 1)), np.zeros((1, 1))])
    assert error.value.where == "sequence 1"
    assert error.value.parameter == "diffuse"


def test_learnt_attributes():
    model = tl.LinearGaussian(n_states=2, max_iterations=2)
    for name in ("transition_", "history_", "training_", "parameters_"):
        with pytest.raises(NotFittedError):
            getattr(model, name)
    assert model.fit(draw(make_truth(), [30])) is model
    assert model.transition_.shape == (2, 2)
    assert model.observation_.shape == (3, 2)
