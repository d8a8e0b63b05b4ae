"""`minimise` on functions in Python: judged by SciPy, and by solutions in closed form."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

from tagloom.errors import ParameterError, ShapeError, TrainingError
from tagloom.training import minimise

rng = np.random.default_rng(5)
A = rng.normal(size=(40, 12))
TARGET = A @ np.where(np.arange(12) % 3 == 0, rng.normal(size=12), 0.0) + 0.1 * rng.normal(size=40)
SIGNS = np.where(rng.random(40) < 1 / (1 + np.exp(-A @ np.arange(12) / 6)), 1.0, -1.0)


def rosenbrock(theta):
    return optimize.rosen(theta), optimize.rosen_der(theta)


def least_squares(theta):
    error = A @ theta - TARGET
    return error @ error / 2, A.T @ error


def logistic(theta):
    margin = SIGNS * (A @ theta)
    return np.logaddexp(0, -margin).sum(), -A.T @ (SIGNS / (1 + np.exp(margin)))


def judge(objective, theta, l2):
    def penalised(theta):
        loss, grad = objective(theta)
        return loss + l2 * theta @ theta, grad + 2 * l2 * theta

    options = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10}
    return optimize.minimize(penalised, theta, jac=True, method="L-BFGS-B", options=options)


@pytest.mark.parametrize(
    ("objective", "start", "l2"),
    [
        (rosenbrock, np.array([-1.2, 1.0, -0.5, 2.0, 0.7]), 0.0),
        (least_squares, np.zeros(12), 0.0),
        (logistic, np.zeros(12), 0.3),
    ],
    ids=["rosenbrock", "least squares", "logistic"],
)
def test_minimum_equals_that_of_scipy(objective, start, l2):
    records = []
    outcome = minimise(objective, start, l2=l2, epsilon=1e-9, callback=records.append)
    expected = judge(objective, start, l2)
    assert outcome.stopped == "converged"
    assert_allclose(outcome.weights, expected.x, rtol=1e-5, atol=1e-6)
    assert_allclose(outcome.records[-1].loss, expected.fun, rtol=1e-9, atol=1e-12)
    assert records == outcome.records
    falls = [one.loss - later.loss for one, later in itertools.pairwise(records)]
    assert min(falls) >= -1e-12 * records[-1].loss  # rounding of the sums


@pytest.mark.parametrize("l1", [0.5, 2.0, 100.0])
def test_l1_soft_thresholds(l1):
    """argmin ½‖θ − c‖² + l1·‖θ‖₁ is sign(c)·max(|c| − l1, 0), exactly 0 where |c| ≤ l1."""
    c = np.array([3.0, -0.5, 0.25, -2.5, 0.0, 7.0])
    outcome = minimise(lambda theta: ((theta - c) @ (theta - c) / 2, theta - c), np.ones(6), l1=l1)
    expected = np.sign(c) * np.maximum(np.abs(c) - l1, 0)
    assert_allclose(outcome.weights, expected, rtol=1e-6, atol=1e-6)
    assert (outcome.weights[np.abs(c) <= l1] == 0).all()


def test_lasso_equals_that_of_scikit_learn():
    from sklearn.linear_model import Lasso

    l1 = 4.0
    theirs = Lasso(alpha=l1 / len(A), fit_intercept=False, tol=1e-12, max_iter=100_000)
    theirs.fit(A, TARGET)
    ours = minimise(least_squares, np.zeros(12), l1=l1, epsilon=1e-9)
    assert_allclose(ours.weights, theirs.coef_, atol=1e-5)
    np.testing.assert_array_equal(ours.weights == 0, theirs.coef_ == 0)
    assert 0 < (ours.weights == 0).sum() < 12


def test_points_outside_the_domain_shorten_the_step():
    """θ − log θ has its minimum at 1 and no value below 0."""

    def barrier(theta):
        if theta[0] <= 0:
            return math.inf, np.array([math.nan])
        return theta[0] - math.log(theta[0]), 1 - 1 / theta

    assert_allclose(minimise(barrier, [20.0]).weights, [1.0], rtol=1e-5)


def test_the_limit_of_iterations():
    outcome = minimise(rosenbrock, np.array([-1.2, 1.0]), max_iterations=3)
    assert (outcome.stopped, len(outcome.records)) == ("max_iterations", 3)


def test_a_start_without_a_loss():
    with pytest.raises(TrainingError) as caught:
        minimise(lambda theta: (math.nan, theta), np.ones(2))
    assert caught.value.where == "iteration 1"


@pytest.mark.parametrize("grad", [np.zeros(3), np.zeros((2, 1)), 0.0])
def test_a_gradient_of_another_shape(grad):
    with pytest.raises(ShapeError) as caught:
        minimise(lambda theta: (0.0, grad), np.ones(2))
    assert (caught.value.parameter, caught.value.found) == ("grad", f"{np.shape(grad)}")


@pytest.mark.parametrize("theta", [np.ones((2, 2)), [[1.0]], 3.0, [math.nan]])
def test_a_start_that_is_not_a_finite_vector(theta):
    with pytest.raises((ShapeError, ParameterError)) as caught:
        minimise(rosenbrock, theta)
    assert caught.value.parameter == "theta"


def test_errors_of_the_objective_reach_the_caller():
    def fails(theta):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        minimise(fails, np.ones(2))
