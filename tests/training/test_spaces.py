"""Learning over state spaces, with labels left open and labels forbidden: all by enumeration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from encoded import random_encoding, random_theta
from tagloom import StateSpace, _native
from tagloom.training import LBFGS, AdaGrad, AveragedPerceptron, FrankWolfe, Subgradient

Y = 3
LENGTHS = (3, 1, 0, 4, 2, 5)
WEIGHT = np.array([1.0, 0.5, 2.0, 0.0, 1.5, 1.0])
SEEN = [[0, 1, 2, 0], [2, 2], [1]]
NO_21 = StateSpace.from_transitions(Y, ~np.eye(Y, dtype=bool)[[1, 0, 2]] | np.eye(Y, dtype=bool))
SPACES = {
    "labels": None,
    "order 2": StateSpace.order(Y, 2),
    "order 3": StateSpace.order(Y, 3),
    "order 2, seen": StateSpace.order(Y, 2, seen=SEEN),
    "order 3, seen": StateSpace.order(Y, 3, seen=SEEN),
    "run": StateSpace.run_length(Y, 1, 2),
    "count and order 2": StateSpace.total_count(Y, 0, 2) & StateSpace.order(Y, 2),
}
# Set 0 has all labels.
SETS = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1]], dtype=np.uint8)


def encoding(seed, space, *, is_open=False, is_forbidden=False, edges=False, **options):
    rng = np.random.default_rng(seed)
    made = random_encoding(seed, LENGTHS, Y=Y, edges=edges, **options)
    T = len(made.gold)
    changes = {"states": SPACES[space]}
    if is_open or is_forbidden:
        changes["sets"] = SETS
    if is_open:  # what is left open includes what was there, so nothing is forbidden
        opened = [(-1, -2, -1)[y] if y != 1 else -3 for y in made.gold]
        made.gold = np.where(rng.uniform(size=T) < 0.5, opened, made.gold).astype(np.int32)
        made.gold[:3] = -1  # a sentence of which nothing is known
    if is_forbidden:
        allowed = np.where(made.gold == 2, -1, np.where(made.gold == 0, -2, -1 - rng.integers(3)))
        allowed[made.gold < 0] = -1
        changes["allowed"] = allowed.astype(np.int32)
    fields = {
        name: getattr(made, name) for name in made.__dataclass_fields__ if name != "objective"
    }
    return type(made)(**fields | changes)


CASES = [
    (space, is_open, is_forbidden, edges)
    for space in SPACES
    for is_open in (False, True)
    for is_forbidden in (False, True)
    for edges in (False, True)
]


@pytest.mark.parametrize(("space", "is_open", "is_forbidden", "edges"), CASES)
@pytest.mark.parametrize("all_combinations", [False, True])
def test_loss_and_gradient(space, is_open, is_forbidden, edges, all_combinations):
    made = encoding(
        5,
        space,
        is_open=is_open,
        is_forbidden=is_forbidden,
        edges=edges,
        weight=WEIGHT,
        all_combinations=all_combinations,
    )
    theta = random_theta(made)
    loss, grad = made.evaluate(theta)
    assert_allclose(loss, made.nll(theta), rtol=1e-11)
    mask = made.objective.mask()
    h = 1e-5
    for j in range(len(theta)):
        if not mask[j]:
            assert grad[j] == 0
            continue
        up, down = theta.copy(), theta.copy()
        up[j] += h
        down[j] -= h
        numeric = (made.evaluate(up)[0] - made.evaluate(down)[0]) / (2 * h)
        assert_allclose(grad[j], numeric, rtol=1e-5, atol=1e-7, err_msg=str(j))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("is_open", [False, True])
def test_one_stochastic_step_follows_the_gradient_of_each_sentence(space, is_open):
    """With a tiny rate, one epoch of SGD moves by the gradient of the whole."""
    made = encoding(6, space, is_open=is_open, edges=True, weight=WEIGHT, all_combinations=True)
    online = _native.Online(made.objective, "sgd", eta=1e-7)
    loss, _ = online.epoch(np.arange(len(LENGTHS)))
    expected, grad = made.evaluate(np.zeros(made.objective.n_weights))
    assert_allclose(loss, expected, rtol=1e-5)
    assert_allclose(online.theta() / -1e-7, grad, atol=1e-5)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("edges", [False, True])
def test_perceptron_step_is_the_difference_of_two_paths(space, edges):
    """From random weights one update is Φ(gold) − Φ(best), found by enumeration."""
    for i in range(len(LENGTHS)):
        made = encoding(7, space, edges=edges, valued=False, all_combinations=True)
        n = LENGTHS[i]
        if n == 0:
            continue
        theta = random_theta(made, seed=3)
        online = _native.Online(made.objective, "perceptron")
        state = online.state()
        state["theta"] = theta
        online.restore(state)
        only = np.full(len(LENGTHS), 2)  # the empty one, which teaches nothing
        only[0] = i
        online.epoch(only)
        chain = list(made.chains(theta))[i]
        gold = tuple(made.gold[made.offsets[i] : made.offsets[i + 1]].tolist())
        best = chain.best()[0]
        step = online.theta() - theta
        # Scores are linear in theta: moving along the step changes the two by Φ · step.
        moved = list(made.chains(theta + step))[i]
        gain = (moved.path_score(gold) - chain.path_score(gold)) - (
            moved.path_score(best) - chain.path_score(best)
        )
        assert_allclose(gain, np.square(step).sum(), rtol=1e-6, atol=1e-9)
        if gold == best:
            assert not step.any()
        else:
            tail = step[len(theta) - made.objective.n_weights + made.objective.rows()[0][-1] :]
            assert np.abs(tail).sum() > 0


def test_open_labels_complete_themselves_under_the_present_weights():
    """Where the best path fits what is left open, nothing is learnt."""
    made = encoding(8, "labels", is_open=True, all_combinations=True)
    made.gold[:] = -1
    objective = made.make(gold=made.gold)
    for rule in ("perceptron", "subgradient"):
        online = _native.Online(objective, rule, cost=1 - np.eye(Y).ravel())
        _, mistakes = online.epoch(np.arange(len(LENGTHS)))
        assert mistakes == 0
        assert not online.theta().any()


def test_frank_wolfe_refuses_open_labels():
    made = encoding(8, "labels", is_open=True)
    with pytest.raises(ValueError, match="open labels"):
        FrankWolfe(made.objective, C=1.0)


def test_labels_that_the_space_refuses_are_an_error():
    made = encoding(9, "labels")
    made.gold[:3] = [0, 1, 0]
    assert not NO_21.accepts([0, 1, 0])
    with pytest.raises(ValueError, match="sentence 0: the state space"):
        made.make(gold=made.gold, space=NO_21.native)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gold": -4}, r"gold\[0\] is -4; labels are numbered 0 to 2, sets of them -1 to -3"),
        ({"allowed": 0}, r"allowed\[0\] is not a set of labels"),
        ({"sets": 2}, "sets must"),
    ],
)
def test_wrong_sets(changes, message):
    made = encoding(10, "labels", is_open=True, is_forbidden=True)
    for name, value in changes.items():
        array = getattr(made, name).copy()
        array.flat[0] = value
        with pytest.raises(ValueError, match=message):
            made.make(**{name: array})


def make_space(space, order=0, **changes):
    """Build the native space of a state space with some arrays changed."""
    names = ("n_labels", "state_labels", "src", "dst", "initial", "final", "n_weights")
    names += ("tie_indptr", "tie_ids", "start_tie_indptr", "start_tie_ids")
    arrays = {name: getattr(space, name) for name in names} | changes
    ties = _native.Ties(arrays.pop("tie_indptr"), arrays.pop("tie_ids"))
    starts = _native.Ties(arrays.pop("start_tie_indptr"), arrays.pop("start_tie_ids"))
    return _native.Space(ties=ties, start_ties=starts, order=order, **arrays)


def test_wrong_spaces():
    space = StateSpace.order(2, 2)
    for name, value in [
        ("src", 99),
        ("dst", -1),
        ("state_labels", 2),
        ("tie_ids", space.n_weights),
        ("tie_indptr", 5),
    ]:
        array = getattr(space, name).copy()
        array[-1] = value
        with pytest.raises(ValueError, match=r"range|sorted|transition"):
            make_space(space, **{name: array})
    with pytest.raises(ValueError, match="initial and final"):
        make_space(space, initial=space.initial[1:])
    made = encoding(1, "labels")
    for order, message in [
        (1, "every history"),
        (9, "too few transitions"),
    ]:  # histories that it lacks
        with pytest.raises(ValueError, match=message):
            made.make(space=make_space(NO_21, order=order))
    with pytest.raises(ValueError, match="number of labels"):
        encoding(1, "labels").make(space=space.native)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("scale", [30.0, 1000.0])
def test_wide_scores_do_not_underflow(space, scale):
    """Probabilities beyond what a float holds are summed in log space instead."""
    made = encoding(11, space, is_open=True, edges=space == "run")
    theta = random_theta(made, scale=scale)
    loss, grad = made.evaluate(theta)
    assert_allclose(loss, made.nll(theta), rtol=1e-9, atol=1e-9)
    assert np.isfinite(grad).all()


@pytest.mark.parametrize("space", ["order 2", "order 2, seen", "count and order 2"])
def test_optimisers_go_down_and_are_the_same_at_any_number_of_threads(space):
    made = encoding(12, space, is_open=True, edges=False)
    for make in (
        lambda p, n: LBFGS(p, l2=0.1, n_threads=n),
        lambda p, n: AdaGrad(p, eta=0.1, random_state=1),
        lambda p, n: AveragedPerceptron(p, random_state=1),
        lambda p, n: Subgradient(p, C=1.0, random_state=1),
    ):
        thetas = []
        for threads in (1, 2):
            optimiser = make(made.objective, threads)
            first = optimiser.step().loss
            for _ in range(10):
                last = optimiser.step().loss
            assert last <= first
            thetas.append(optimiser.theta())
        assert_array_equal(*thetas)
