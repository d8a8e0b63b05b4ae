"""L-BFGS and OWL-QN: judged by CRFsuite and SciPy, by the conditions of an optimum, and resumed."""

import os
import subprocess
import sys

import numpy as np
import pycrfsuite
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from encoded import random_encoding, random_theta
from raising import raises
from tagloom.errors import ParameterError, ShapeError, TrainingError
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
    theta = np.zeros(encoding.objective.n_weights)
    ptr, cols, _ = encoding.objective.rows()
    for (attribute, label), weight in info.state_features.items():
        a, y = int(attribute[1:]), int(label[1:])
        (at,) = np.flatnonzero(cols[ptr[a] : ptr[a + 1]] == y)
        theta[ptr[a] + at] = weight
    for (y_prev, y), weight in info.transitions.items():
        theta[len(cols) + int(y_prev[1:]) * encoding.n_labels + int(y[1:])] = weight
    assert not theta[~encoding.objective.mask()].any()
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
    optimiser = LBFGS(encoding.objective, l1=l1, l2=l2, epsilon=1e-7, delta=1e-10)
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
        np.zeros(encoding.objective.n_weights),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9},
    )
    optimiser = LBFGS(encoding.objective, l2=0.1, epsilon=1e-9, period=0)
    step, _ = run(optimiser)
    assert_allclose(step.loss, judge.fun, rtol=1e-10)
    assert_allclose(optimiser.theta(), judge.x, atol=1e-5)


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
def test_optimum_satisfies_its_conditions(l1, l2):
    """The gradient is 0 where a weight is not, and within ±l1 where it is (Karush–Kuhn–Tucker)."""
    encoding = corpus()
    optimiser = LBFGS(encoding.objective, l1=l1, l2=l2, epsilon=1e-7, period=0)
    step, _ = run(optimiser)
    theta = optimiser.theta()
    grad = encoding.evaluate(theta)[1] + 2 * l2 * theta
    zero = theta == 0
    assert_allclose(grad[~zero] + l1 * np.sign(theta[~zero]), 0.0, atol=1e-4)
    assert (np.abs(grad[zero]) <= l1 + 1e-4).all()
    assert step.grad_norm <= 1e-7 * max(1, np.linalg.norm(theta))
    assert not theta[~encoding.objective.mask()].any()
    if l1:
        assert zero[encoding.objective.mask()].mean() > 0.2  # that is what L1 is for


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
def test_loss_falls_at_every_step(l1, l2):
    encoding = corpus()
    optimiser = LBFGS(encoding.objective, l1=l1, l2=l2)
    losses = [optimiser.step().loss for _ in range(40)]
    assert (np.diff(losses) <= 1e-9).all()
    assert losses[-1] < 0.95 * losses[0]


def test_float32_reaches_the_same_optimum():
    wide, narrow = corpus(), corpus(float32=True)
    found = [run(LBFGS(e.objective, l2=0.1, epsilon=1e-4))[0].loss for e in (wide, narrow)]
    assert_allclose(found[1], found[0], rtol=1e-5)


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
@pytest.mark.parametrize("float32", [False, True])
def test_resuming_gives_the_same_bits(l1, l2, float32):
    encoding = corpus(float32=float32)
    whole = LBFGS(encoding.objective, l1=l1, l2=l2)
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
        optimiser = LBFGS(encoding.objective, l1=0.1, l2=0.1, n_threads=n_threads)
        found.append(([optimiser.step() for _ in range(8)], optimiser.theta()))
    for steps, theta in found[1:]:
        assert steps == found[0][0]
        assert_array_equal(theta, found[0][1])


def test_a_warm_start_begins_at_the_given_weights():
    encoding = corpus()
    first = LBFGS(encoding.objective, l2=0.1, epsilon=1e-6, period=0)
    best, taken = run(first)
    second = LBFGS(encoding.objective, l2=0.1, epsilon=1e-6, period=0, theta=first.theta())
    again, few = run(second)
    assert few < taken / 5
    assert_allclose(again.loss, best.loss, rtol=1e-9)
    masked = LBFGS(encoding.objective, theta=np.ones(encoding.objective.n_weights))
    masked.step()
    assert not masked.theta()[~encoding.objective.mask()].any()


def test_a_start_far_away_comes_home():
    encoding = corpus()
    theta = np.round(random_theta(encoding, scale=300.0))
    expected = run(LBFGS(encoding.objective, l2=0.1))[0].loss
    assert_allclose(
        run(LBFGS(encoding.objective, l2=0.1, theta=theta))[0].loss, expected, rtol=1e-3
    )


def test_memory_speeds_up_and_none_is_steepest_descent():
    encoding = corpus()
    losses = []
    for memory in (0, 6):
        optimiser = LBFGS(encoding.objective, l2=0.1, memory=memory)
        losses.append([optimiser.step().loss for _ in range(30)][-1])
    assert losses[1] < losses[0]


def test_nothing_to_learn_converges_at_once():
    encoding = random_encoding(7, Y=1)
    step = LBFGS(encoding.objective).step()
    assert step.converged
    assert_allclose(step.loss, 0.0, atol=1e-12)


def test_period_and_delta_stop_a_run_that_crawls():
    encoding = corpus()
    optimiser = LBFGS(encoding.objective, l2=0.1, epsilon=0.0, period=3, delta=0.05)
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
    ("name", "value", "found"),
    [
        ("l1", -1.0, "-1.0"),
        ("l2", np.nan, "nan"),
        ("memory", -1, "-1"),
        ("memory", 2.5, "2.5"),
        ("n_threads", 0, "0"),
        ("n_threads", 2**70, "an integer of 71 bits"),
        ("epsilon", np.inf, "inf"),
        ("theta", np.full(3, np.nan), "shape (3,)"),
    ],
)
def test_arguments_out_of_range(name, value, found):
    with pytest.raises((ParameterError, ShapeError)) as caught:
        LBFGS(corpus().objective, **{name: value})
    assert (caught.value.parameter, caught.value.found) == (name, found)


def test_a_theta_that_is_not_finite_is_refused():
    objective = corpus().objective
    with pytest.raises(ParameterError) as caught:
        LBFGS(objective, theta=np.full(objective.n_weights, np.inf))
    assert (caught.value.parameter, caught.value.found) == ("theta", "inf at index 0")


def test_default_threads_are_those_of_the_affinity_mask():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system has no affinity masks")
    code = (
        "import os; os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])\n"
        "from tagloom.training import LBFGS\n"
        "print(LBFGS(None, theta=[0.0]).n_threads)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "1"


def test_the_state_of_another_objective_is_refused():
    one, other = LBFGS(corpus().objective), LBFGS(random_encoding(1).objective)
    one.step()
    with raises(ParameterError, parameter="state", found="another learner"):
        other.restore(one.state())
    state = one.state()
    del state["grad"]
    with raises(ParameterError, parameter="state", found="another learner"):
        one.restore(state)


# Driven from outside: ask for a point, tell the loss and its gradient


def told(optimiser, encoding, most=1000):
    """One iteration by ask and tell, and the points that it asked for."""
    points = []
    for _ in range(most):
        points.append(optimiser.ask())
        if points[-1] is None:
            return None, points
        step = optimiser.tell(*encoding.evaluate(points[-1]))
        if step is not None:
            return step, points
    raise AssertionError("the line search does not end")


def assert_same_state(one, other):
    one, other = one.state(), other.state()
    assert one.keys() == other.keys()
    for name in one:
        assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
@pytest.mark.parametrize("float32", [False, True])
def test_ask_and_tell_take_the_same_steps_to_the_bit(l1, l2, float32):
    encoding = corpus(float32=float32)
    closed = LBFGS(encoding.objective, l1=l1, l2=l2)
    driven = LBFGS(encoding.objective, l1=l1, l2=l2)
    for _ in range(40):
        assert told(driven, encoding)[0] == closed.step()
        assert_same_state(driven, closed)


def test_searches_that_fail_take_the_same_steps_to_the_bit():
    """Far from home, line searches need many trials and the history is dropped."""
    encoding = corpus()
    theta = np.round(random_theta(encoding, scale=300.0))
    closed = LBFGS(encoding.objective, l2=0.0, theta=theta, epsilon=0.0, period=0)
    driven = LBFGS(encoding.objective, l2=0.0, theta=theta, epsilon=0.0, period=0)
    trials = []
    for _ in range(60):
        step = closed.step()
        found, points = told(driven, encoding)
        trials.append(len(points))
        if found is None:
            assert step.converged
            break
        assert found == step
        assert found.n_evaluations == len(points)
        assert_same_state(driven, closed)
    assert max(trials) >= 3


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
def test_a_function_in_python_takes_the_same_steps_to_the_bit(l1, l2):
    encoding = corpus(all_combinations=True)
    closed = LBFGS(encoding.objective, l1=l1, l2=l2)
    zeros = np.zeros(encoding.objective.n_weights)
    called = LBFGS(encoding.evaluate, l1=l1, l2=l2, theta=zeros)
    for _ in range(20):
        assert called.step() == closed.step()
    assert_array_equal(called.weights(), closed.weights())


@pytest.mark.parametrize(("l1", "l2"), PENALTIES)
def test_a_state_taken_during_a_line_search_gives_the_same_steps(l1, l2):
    encoding = corpus()
    whole = LBFGS(encoding.objective, l1=l1, l2=l2)
    for _ in range(5):
        whole.step()
    point = whole.ask()
    state = whole.state()
    whole.tell(*encoding.evaluate(point))
    while whole.state()["theta"].tobytes() == state["theta"].tobytes():
        whole.tell(*encoding.evaluate(whole.ask()))
    resumed = LBFGS(encoding.make(), l1=l1, l2=l2)
    resumed.restore(state)
    assert_array_equal(resumed.ask(), point)
    told(resumed, encoding)
    assert_same_state(resumed, whole)
    for _ in range(5):
        assert resumed.step() == whole.step()


def test_repeated_ask_returns_the_same_point():
    encoding = corpus()
    optimiser = LBFGS(encoding.objective)
    for _ in range(3):
        first, second = optimiser.ask(), optimiser.ask()
        assert_array_equal(first, second)
        optimiser.tell(*encoding.evaluate(first))


def test_gradients_of_masked_weights_are_ignored():
    encoding = corpus()
    masked = ~encoding.objective.mask()
    assert masked.any()
    clean, noisy = LBFGS(encoding.objective, l1=0.1), LBFGS(encoding.objective, l1=0.1)
    for _ in range(20):
        loss, grad = encoding.evaluate(noisy.ask())
        clean.ask()
        assert clean.tell(loss, grad) == noisy.tell(loss, np.where(masked, 7.0, grad))
    assert_array_equal(noisy.theta(), clean.theta())
    assert not noisy.theta()[masked].any()


def test_ask_returns_none_at_the_minimum():
    optimiser = LBFGS(None, l2=0.0, theta=np.zeros(2))
    optimiser.tell(3.0, optimiser.ask())  # the gradient of 3 + ½θ² is θ
    assert optimiser.ask() is None
    step = LBFGS(lambda theta: (3.0, theta), l2=0.0, theta=np.zeros(2)).step()
    assert step.converged
    assert step.loss == 3.0


def test_tell_without_ask():
    optimiser = LBFGS(None, theta=np.zeros(2))
    with pytest.raises(TrainingError) as caught:
        optimiser.tell(1.0, np.zeros(2))
    assert "ask()" in caught.value.hint
    optimiser.ask()
    with pytest.raises(ShapeError) as caught:
        optimiser.tell(1.0, np.zeros(3))
    assert (caught.value.parameter, caught.value.found) == ("grad", "(3,)")
    optimiser.tell(1.0, np.ones(2))
    with pytest.raises(TrainingError):
        optimiser.tell(1.0, np.ones(2))


def test_an_objective_is_needed_to_step_and_theta_to_start():
    with pytest.raises(TrainingError) as caught:
        LBFGS(None, theta=np.zeros(2)).step()
    assert "ask()" in caught.value.hint
    with pytest.raises(ParameterError) as caught:
        LBFGS(lambda theta: (0.0, theta))
    assert caught.value.parameter == "theta"


@pytest.mark.parametrize("value", [3.0, (1.0,), ("loss", np.zeros(2)), None])
def test_an_objective_that_returns_something_else(value):
    with pytest.raises(ParameterError) as caught:
        LBFGS(lambda theta: value, theta=np.zeros(2)).step()
    assert caught.value.parameter == "objective"
