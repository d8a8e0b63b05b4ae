"""The structured SVM: loss and steps by enumeration, the optimum by another way, the gap."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from encoded import random_encoding
from raising import raises
from tagloom.errors import ParameterError, ShapeError
from tagloom.training import FrankWolfe, Subgradient

WEIGHT = np.array([1.0, 0.5, 2.0, 0.0, 1.5])
COST = np.array([[0.0, 1.0, 3.0], [0.5, 0.0, 2.0], [1.0, 0.25, 0.0]])
HAMMING = 1 - np.eye(3)

BOTH = [(Subgradient, {}), (Subgradient, {"average": False}), (FrankWolfe, {})]


def features(encoding, i, path):
    """Φ of one sentence, masked weights left out: the gradient of its path's score by θ."""
    mask = encoding.objective.mask()
    lo, hi = encoding.offsets[i : i + 2]
    phi = np.zeros(len(mask))
    for j in np.flatnonzero(mask):
        emit, edge, trans, start, stop = encoding.scores(np.eye(1, len(mask), j)[0])
        emit, edge = emit[lo:hi], edge[lo:hi]
        for t, y in enumerate(path):
            phi[j] += emit[t, y]
            if t:
                phi[j] += trans[path[t - 1], y] + edge[t, path[t - 1], y]
        if len(path):
            phi[j] += start[path[0]] + stop[path[-1]]
    return phi


class Enumerated:
    """Every path of every sentence: features [n, F] and costs [n], and the objective from them."""

    def __init__(self, encoding, C, cost=HAMMING):
        self.C = C
        self.weight = np.ones(5) if encoding.weight is None else encoding.weight
        self.phi, self.costs, self.gold = [], [], []
        for i in range(len(encoding.offsets) - 1):
            gold = encoding.gold[encoding.offsets[i] : encoding.offsets[i + 1]].tolist()
            # In the order of ties: the lowest label at the end wins, then before it.
            paths = sorted(itertools.product(range(3), repeat=len(gold)), key=lambda p: p[::-1])
            self.phi.append(np.array([features(encoding, i, path) for path in paths]))
            self.costs.append(
                np.array([sum(cost[a, b] for a, b in zip(gold, p, strict=True)) for p in paths])
            )
            self.gold.append(paths.index(tuple(gold)))

    def worst(self, i, theta):
        augmented = self.phi[i] @ theta + self.costs[i]
        best = int(np.argmax(augmented.round(9)))
        return best, float(augmented.max() - augmented[self.gold[i]])

    def objective(self, theta):
        losses = [self.worst(i, theta)[1] for i in range(len(self.phi))]
        return theta @ theta / 2 + self.C * float(self.weight @ losses)

    def optimum(self):
        """Minimise over θ and slacks under one constraint for every path, by SciPy's SLSQP."""
        from scipy.optimize import LinearConstraint, minimize

        N, F = len(self.phi), self.phi[0].shape[1]
        rows, low = [], []
        for i, (phi, costs) in enumerate(zip(self.phi, self.costs, strict=True)):
            slack = np.repeat(np.eye(1, N, i), len(phi), axis=0)
            rows.append(np.hstack([phi[self.gold[i]] - phi, slack]))
            low.append(costs)
        # Rounding, which differs between machines, may stop the line search before 1e-12.
        for ftol in (1e-12, 1e-10, 1e-8):
            found = minimize(
                lambda x: x[:F] @ x[:F] / 2 + self.C * self.weight @ x[F:],
                np.concatenate([np.zeros(F), [c.max() for c in self.costs]]),
                jac=lambda x: np.concatenate([x[:F], self.C * self.weight]),
                constraints=LinearConstraint(np.vstack(rows), np.concatenate(low)),
                method="SLSQP",
                options={"ftol": ftol, "maxiter": 500},
            )
            if found.success:
                break
        assert found.success, found.message
        return found.fun, found.x[:F]


@pytest.mark.parametrize("float32", [False, True])
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize(("weight", "cost"), [(None, None), (WEIGHT, COST)])
def test_subgradient_equals_a_plain_one(edges, weight, cost, float32):
    """θ ← (1 − 1/k)·θ + C·N/k·weight·(Φ(y) − Φ(ŷ)), ŷ by enumeration with the cost added."""
    encoding = random_encoding(31, edges=edges, weight=weight, float32=float32)
    plain = Enumerated(encoding, 0.7, HAMMING if cost is None else cost)
    last = Subgradient(encoding.objective, C=0.7, cost=cost, shuffle=False, average=False)
    mean = Subgradient(encoding.objective, C=0.7, cost=cost, shuffle=False)
    theta, total, k = np.zeros(encoding.objective.n_weights), 0.0, 0
    tolerance = {"rtol": 2e-5, "atol": 2e-5} if float32 else {"rtol": 1e-9, "atol": 1e-9}
    for _ in range(4):
        losses = 0.0
        for i in range(5):
            k += 1
            found, loss = plain.worst(i, theta)
            losses += plain.weight[i] * loss
            step = plain.phi[i][plain.gold[i]] - plain.phi[i][found]
            theta = (1 - 1 / k) * theta + 0.7 * 5 / k * plain.weight[i] * step
            total = total + k * theta
        assert_allclose(last.step().loss, losses / 5, **tolerance)
        mean.step()
        assert_allclose(last.theta(), theta, **tolerance)
        assert_allclose(mean.theta(), total / (k * (k + 1) / 2), **tolerance)
    assert losses > 0


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("C", [0.1, 3.0])
@pytest.mark.parametrize(("weight", "cost"), [(None, None), (WEIGHT, COST)])
def test_frank_wolfe_reaches_the_optimum_of_the_enumerated_program(edges, C, weight, cost):
    encoding = random_encoding(32, edges=edges, weight=weight)
    plain = Enumerated(encoding, C, HAMMING if cost is None else cost)
    optimum, theta = plain.optimum()
    optimiser = FrankWolfe(encoding.objective, C=C, cost=cost, tolerance=1e-7)
    duals = []
    for _ in range(3000):
        step = optimiser.step()
        # The objective is that of the weights; the gap bounds what is left of it.
        assert_allclose(step.loss, plain.objective(optimiser.theta()), rtol=1e-9)
        assert 0 <= step.loss - optimum + 1e-6 * optimum <= step.gap + 2e-6 * optimum
        duals.append(step.loss - step.gap)
        if step.converged:
            break
    assert step.converged
    assert all(b >= a - 1e-9 * optimum for a, b in itertools.pairwise(duals))  # each step climbs
    assert_allclose(optimiser.theta(), theta, atol=2e-3 * max(1, np.abs(theta).max()))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize(("weight", "cost"), [(None, None), (WEIGHT, COST)])
def test_subgradient_approaches_the_optimum(average, weight, cost):
    encoding = random_encoding(33, weight=weight)
    plain = Enumerated(encoding, 0.3, HAMMING if cost is None else cost)
    optimum, _ = plain.optimum()
    optimiser = Subgradient(encoding.objective, C=0.3, cost=cost, average=average)
    objectives = []
    for epochs in (1, 20, 2000):
        for _ in range(epochs):
            optimiser.step()
        objectives.append(plain.objective(optimiser.theta()) / optimum - 1)
    assert objectives[0] > objectives[1] > objectives[2] >= -1e-7
    assert objectives[2] < (0.002 if average else 0.02)


def test_the_two_agree_on_a_problem_that_is_too_large_to_enumerate():
    lengths = np.random.default_rng(0).integers(0, 12, 80)
    encoding = random_encoding(34, lengths, Y=4, n_attributes=40, valued=False)
    wolfe = FrankWolfe(encoding.objective, C=0.2, tolerance=1e-4)
    while not (step := wolfe.step()).converged:
        pass
    pegasos = Subgradient(encoding.objective, C=0.2)
    for _ in range(500):
        pegasos.step()
    assert_allclose(pegasos.theta(), wolfe.theta(), atol=0.05)
    assert step.loss > 0


@pytest.mark.parametrize(("optimiser", "parameters"), BOTH)
@pytest.mark.parametrize("float32", [False, True])
def test_resuming_gives_the_same_bits(optimiser, parameters, float32):
    lengths = np.random.default_rng(1).integers(0, 10, 50)
    encoding = random_encoding(35, lengths, Y=4, n_attributes=60, float32=float32)
    whole = optimiser(encoding.objective, random_state=7, **parameters)
    for _ in range(3):
        whole.step()
    state = {name: array.copy() for name, array in whole.state().items()}
    expected = [whole.step()[:1] for _ in range(3)]
    resumed = optimiser(encoding.make(), random_state=7, **parameters)
    resumed.restore(state)
    assert [resumed.step()[:1] for _ in range(3)] == expected
    assert_array_equal(resumed.theta(), whole.theta())


@pytest.mark.parametrize(("optimiser", "parameters"), BOTH)
def test_one_seed_gives_one_model_and_another_seed_another(optimiser, parameters):
    found = []
    for seed in (3, 3, 4):
        encoding = random_encoding(36, np.full(40, 5), valued=False)
        online = optimiser(encoding.objective, random_state=seed, **parameters)
        online.step()
        online.step()
        found.append(online.theta())
    assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert not found[0][~encoding.objective.mask()].any()


@pytest.mark.parametrize(("optimiser", "parameters"), BOTH)
@pytest.mark.parametrize("lengths", [[], [0], [1], [3000, 1]])
@pytest.mark.parametrize("Y", [1, 3])
def test_odd_sizes(optimiser, parameters, lengths, Y):
    online = optimiser(random_encoding(37, lengths, Y=Y, valued=False).objective, **parameters)
    for _ in range(3):
        assert np.isfinite(online.step().loss)
    assert np.isfinite(online.theta()).all()


def test_weights_to_start_from_count_as_an_epoch():
    encoding = random_encoding(38, np.full(30, 4), valued=False)
    first = Subgradient(encoding.objective, C=0.5, average=False, shuffle=False)
    first.step()
    second = Subgradient(
        encoding.objective, C=0.5, average=False, shuffle=False, theta=first.theta()
    )
    assert_allclose(second.theta(), first.theta(), rtol=1e-12)
    first.step()
    second.step()
    assert_allclose(second.theta(), first.theta(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("optimiser", [Subgradient, FrankWolfe])
def test_what_does_not_fit(optimiser):
    objective = random_encoding(39).objective
    with pytest.raises(ParameterError) as caught:
        optimiser(objective, C=0)
    assert (caught.value.parameter, caught.value.found) == ("C", "0")
    with pytest.raises(ShapeError) as caught:
        optimiser(objective, cost=np.zeros((2, 2)))
    assert (caught.value.parameter, caught.value.found) == ("cost", "(2, 2)")
    for wrong in (-COST, np.where(COST > 2, np.inf, COST), np.ones((3, 3))):
        with pytest.raises(ParameterError) as caught:
            optimiser(objective, cost=wrong)
        assert caught.value.parameter == "cost"


def test_states_that_do_not_fit_are_refused():
    objective = random_encoding(40).objective
    wolfe = FrankWolfe(objective, C=1.0)
    wolfe.step()
    state = wolfe.state()
    assert len(state["paths"]) > 0
    with raises(ParameterError, parameter="state", found="another learner"):
        Subgradient(objective, average=False).restore(state)
    for wrong in (
        {"paths": state["paths"] + 3},
        {"paths": state["paths"][:-1]},
        {"n_paths": state["n_paths"] - 1},
        {"n_paths": state["n_paths"] + 2**62},
        {"shares": state["shares"][:-1]},
    ):
        with raises(ParameterError, parameter="state", found="another learner"):
            FrankWolfe(objective, C=1.0).restore({**state, **wrong})
