"""L-BFGS and OWL-QN: judged by CRFsuite and SciPy, by the conditions of an optimum, and resumed."""

import numpy as np
import pycrfsuite
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from encoded import random_encoding, random_theta
from tagloom.errors import ParameterError, ShapeError
from tagloom.training import LBFGS

PENALTIES = [(0.0, 1.0), (0.0, 0.05), (0.5, 0.0), (0.3, 0.2)]


def corpus(**options):
    """A learnable corpus: labels lean on their attributes and on the label before."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 15, 60)
    encoding = random_encoding(
        4, lengths, Y=4, n_attributes=60, edges=False, valued=False, **options
    )
    gold = encoding.gold
    for t in range(1, len(gold)):
        own = encoding.ids[encoding.indptr[t] : encoding.indptr[t + 1]]
        if len(own) and rng.uniform() < 0.8:
            gold[t] = (own[0] + gold[t - 1] // 2) % 4
    encoding.__post_init__()
    return encoding


def run(optimiser, most=2000):
    for k in range(most):
        step = optimiser.step()
        if step.converged:
            return step, k + 1
    raise AssertionError(f"not converged after {most} steps: {step}")


def objective(encoding, theta, l1, l2):
    return encoding.evaluate(theta)[0] + l1 * np.abs(theta).sum() + l2 * theta @ theta


def crfsuite(encoding, path, **params):
    """Train CRFsuite on the same features; its weights as theta, and the loss that it logged."""
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for lo, hi in zip(encoding.offsets[:-1], encoding.offsets[1:], strict=True):
        items = [
            [f"a{a}" for a in encoding.ids[encoding.indptr[t] : encoding.indptr[t + 1]]]
            for t in range(lo, hi)
        ]
        trainer.append(items, [f"y{y}" for y in encoding.gold[lo:hi]])
    trainer.set_params(
        {
            "feature.possible_states": encoding.all_combinations,
            "feature.possible_transitions": encoding.all_combinations,
            "feature.minfreq": 0,
            **params,
        }
    )
    trainer.train(str(path))
    with pycrfsuite.Tagger().open(str(path)) as tagger:
        info = tagger.info()
    theta = np.zeros(encoding.problem.n_weights)
    ptr, cols, _ = encoding.problem.rows()
    for (attribute, label), weight in info.state_features.items():
        a, y = int(attribute[1:]), int(label[1:])
        (at,) = np.flatnonzero(cols[ptr[a] : ptr[a + 1]] == y)
        theta[ptr[a] + at] = weight
    for (y_prev, y), weight in info.transitions.items():
        theta[len(cols) + int(y_prev[1:]) * encoding.n_labels + int(y[1:])] = weight
    assert not theta[~encoding.problem.mask()].any()
    return theta, trainer.logparser.iterations[-1]["loss"]


@pytest.mark.parametrize("all_combinations", [False, True])
@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
@pytest.mark.parametrize("iterations", [1, 3, 10, 40])
def test_objective_equals_what_crfsuite_logs(tmp_path, all_combinations, l1, l2, iterations):
    encoding = corpus(all_combinations=all_combinations, boundaries=False)
    theta, loss = crfsuite(
        encoding, tmp_path / "m", c1=l1, c2=l2, max_iterations=iterations, epsilon=0, delta=0
    )
    assert_allclose(objective(encoding, theta, l1, l2), loss, rtol=1e-6)


@pytest.mark.parametrize("all_combinations", [False, True])
@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
def test_optimum_equals_that_of_crfsuite(tmp_path, all_combinations, l1, l2):
    encoding = corpus(all_combinations=all_combinations, boundaries=False)
    _, theirs = crfsuite(
        encoding, tmp_path / "m", c1=l1, c2=l2, max_iterations=3000, epsilon=1e-7, delta=1e-10
    )
    optimiser = LBFGS(encoding.problem, l1=l1, l2=l2, epsilon=1e-7, delta=1e-10)
    step, _ = run(optimiser)
    assert_allclose(step.loss, objective(encoding, optimiser.theta(), l1, l2), rtol=1e-12)
    assert_allclose(step.loss, theirs, rtol=1e-5)
    assert step.loss <= theirs * (1 + 1e-7)


@pytest.mark.parametrize("options", [{}, {"all_combinations": True}, {"edges": True}])
def test_optimum_equals_that_of_scipy(options):
    options = {"edges": False} | options
    encoding = random_encoding(11, [5, 3, 8, 1, 6, 4], Y=3, **options)

    def penalised(theta):
        loss, grad = encoding.evaluate(theta)
        return loss + 0.1 * theta @ theta, grad + 0.2 * theta

    judge = minimize(
        penalised,
        np.zeros(encoding.problem.n_weights),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9},
    )
    optimiser = LBFGS(encoding.problem, l2=0.1, epsilon=1e-9, period=0)
    step, _ = run(optimiser)
    assert_allclose(step.loss, judge.fun, rtol=1e-10)
    assert_allclose(optimiser.theta(), judge.x, atol=1e-5)


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
def test_optimum_satisfies_its_conditions(l1, l2):
    """The gradient is 0 where a weight is not, and within ±l1 where it is (Karush–Kuhn–Tucker)."""
    encoding = corpus()
    optimiser = LBFGS(encoding.problem, l1=l1, l2=l2, epsilon=1e-7, period=0)
    step, _ = run(optimiser)
    theta = optimiser.theta()
    grad = encoding.evaluate(theta)[1] + 2 * l2 * theta
    zero = theta == 0
    assert_allclose(grad[~zero] + l1 * np.sign(theta[~zero]), 0.0, atol=1e-4)
    assert (np.abs(grad[zero]) <= l1 + 1e-4).all()
    assert step.grad_norm <= 1e-7 * max(1, np.linalg.norm(theta))
    assert not theta[~encoding.problem.mask()].any()
    if l1:
        assert zero[encoding.problem.mask()].mean() > 0.2  # that is what L1 is for


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
def test_loss_falls_at_every_step(l1, l2):
    encoding = corpus()
    optimiser = LBFGS(encoding.problem, l1=l1, l2=l2)
    losses = [optimiser.step().loss for _ in range(40)]
    assert (np.diff(losses) <= 1e-9).all()
    assert losses[-1] < 0.95 * losses[0]


def test_float32_reaches_the_same_optimum():
    wide, narrow = corpus(), corpus(float32=True)
    found = [run(LBFGS(e.problem, l2=0.1, epsilon=1e-4))[0].loss for e in (wide, narrow)]
    assert_allclose(found[1], found[0], rtol=1e-5)


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
@pytest.mark.parametrize("float32", [False, True])
def test_resuming_gives_the_same_bits(l1, l2, float32):
    encoding = corpus(float32=float32)
    whole = LBFGS(encoding.problem, l1=l1, l2=l2)
    for _ in range(9):
        whole.step()
    state = {name: array.copy() for name, array in whole.state().items()}
    expected = [whole.step() for _ in range(8)]
    resumed = LBFGS(encoding.make(), l1=l1, l2=l2)
    resumed.restore(state)
    assert [resumed.step() for _ in range(8)] == expected
    assert_array_equal(resumed.theta(), whole.theta())


def test_threads_do_not_change_a_bit():
    encoding = random_encoding(
        6, np.random.default_rng(0).integers(1, 30, 500), Y=9, n_attributes=25_000, edges=False
    )
    found = []
    for n_threads in (1, 2, 5):
        optimiser = LBFGS(encoding.problem, l1=0.1, l2=0.1, n_threads=n_threads)
        found.append(([optimiser.step() for _ in range(8)], optimiser.theta()))
    for steps, theta in found[1:]:
        assert steps == found[0][0]
        assert_array_equal(theta, found[0][1])


def test_a_warm_start_begins_where_it_is_told():
    encoding = corpus()
    first = LBFGS(encoding.problem, l2=0.1, epsilon=1e-6, period=0)
    best, taken = run(first)
    second = LBFGS(encoding.problem, l2=0.1, epsilon=1e-6, period=0, theta=first.theta())
    again, few = run(second)
    assert few < taken / 5
    assert_allclose(again.loss, best.loss, rtol=1e-9)
    masked = LBFGS(encoding.problem, theta=np.ones(encoding.problem.n_weights))
    masked.step()
    assert not masked.theta()[~encoding.problem.mask()].any()


def test_a_start_far_away_comes_home():
    encoding = corpus()
    theta = np.round(random_theta(encoding, scale=300.0))
    expected = run(LBFGS(encoding.problem, l2=0.1))[0].loss
    assert_allclose(run(LBFGS(encoding.problem, l2=0.1, theta=theta))[0].loss, expected, rtol=1e-3)


def test_memory_speeds_up_and_none_is_steepest_descent():
    encoding = corpus()
    losses = []
    for memory in (0, 6):
        optimiser = LBFGS(encoding.problem, l2=0.1, memory=memory)
        losses.append([optimiser.step().loss for _ in range(30)][-1])
    assert losses[1] < losses[0]


def test_nothing_to_learn_converges_at_once():
    encoding = random_encoding(7, Y=1)
    step = LBFGS(encoding.problem).step()
    assert step.converged
    assert_allclose(step.loss, 0.0, atol=1e-12)


def test_period_and_delta_stop_a_run_that_crawls():
    encoding = corpus()
    optimiser = LBFGS(encoding.problem, l2=0.1, epsilon=0.0, period=3, delta=0.05)
    losses = []
    while True:
        step = optimiser.step()
        losses.append(step.loss)
        if step.converged:
            break
    falls = [(old - new) / new for old, new in zip(losses, losses[3:], strict=False)]
    assert falls[-1] < 0.05
    assert min(falls[:-1]) >= 0.05


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("l1", -1.0, "l1 is -1.0; expected a finite number from 0"),
        ("l2", np.nan, "l2 is nan"),
        ("memory", -1, "memory is -1; expected an integer from 0"),
        ("memory", 2.5, "memory is 2.5"),
        ("n_threads", 0, "n_threads is 0; expected an integer from 1"),
        ("n_threads", 2**70, r"n_threads must be less than 2\*\*63; got a number of 71 bits"),
        ("epsilon", np.inf, "epsilon is inf"),
        ("theta", np.full(3, np.nan), "theta must have shape"),
    ],
)
def test_arguments_out_of_range(name, value, message):
    with pytest.raises((ParameterError, ShapeError), match=message):
        LBFGS(corpus().problem, **{name: value})


def test_a_theta_that_is_not_finite_is_refused():
    problem = corpus().problem
    with pytest.raises(ParameterError, match="not a finite number"):
        LBFGS(problem, theta=np.full(problem.n_weights, np.inf))


def test_the_state_of_another_problem_is_refused():
    one, other = LBFGS(corpus().problem), LBFGS(random_encoding(1).problem)
    one.step()
    with pytest.raises(ValueError, match="of another problem"):
        other.restore(one.state())
    state = one.state()
    del state["grad"]
    with pytest.raises(ValueError, match="lacks one of its arrays"):
        one.restore(state)
