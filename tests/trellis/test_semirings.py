"""Semirings: their laws, and the recursion against the enumeration of every path."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raising import raises
from tagloom.errors import ParameterError, ScoreError
from tagloom.trellis.semirings import (
    BOOLEAN,
    COUNTING,
    LOG_PLUS,
    MAX_PLUS,
    MAX_TIMES,
    SUM_TIMES,
    Expectation,
    KBest,
    Semiring,
    reduce_transitions,
)
from tagloom.trellis.states import StateSpace

# ---- laws -----------------------------------------------------------------------------------

scores = st.integers(-6, 6).map(float) | st.just(-math.inf)
weights = st.integers(0, 12).map(lambda n: n / 4)


def kbest_values(k):
    """Up to k scored paths of two labels, with many ties, in the order that KBest keeps."""
    path = st.tuples(st.integers(-2, 2).map(float), st.tuples(st.integers(0, 1), st.integers(0, 1)))
    return st.lists(path, max_size=k).map(
        lambda paths: tuple(sorted(paths, key=lambda p: (-p[0], p[1][::-1])))
    )


def expectation_values():
    pair = st.tuples(st.integers(-6, 6).map(float), st.integers(-3, 3).map(float))
    return pair | st.just(Expectation("score").zero)


CASES = [
    (MAX_TIMES, weights),
    (SUM_TIMES, weights),
    (MAX_PLUS, scores),
    (LOG_PLUS, scores),
    (BOOLEAN, st.booleans()),
    (COUNTING, st.integers(0, 10**30)),
    (KBest(1), kbest_values(1)),
    (KBest(3), kbest_values(3)),
    (Expectation("score"), expectation_values()),
]


def same(a, b):
    """Equal, floats up to rounding."""
    if isinstance(a, float):
        return a == b or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize(("semiring", "values"), CASES, ids=[repr(case[0]) for case in CASES])
def test_semiring_laws(semiring, values):
    plus, times, zero, one = semiring.plus, semiring.times, semiring.zero, semiring.one

    @settings(max_examples=100, deadline=None)
    @given(values, values, values)
    def laws(a, b, c):
        assert same(plus(plus(a, b), c), plus(a, plus(b, c)))
        assert same(plus(a, b), plus(b, a))
        assert same(plus(a, zero), a)
        assert same(plus(zero, a), a)
        assert same(times(times(a, b), c), times(a, times(b, c)))
        assert same(times(a, one), a)
        assert same(times(one, a), a)
        assert same(times(a, zero), zero)
        assert same(times(zero, a), zero)
        assert same(times(a, plus(b, c)), plus(times(a, b), times(a, c)))
        assert same(times(plus(a, b), c), plus(times(a, c), times(b, c)))

    laws()


# ---- the recursion, against enumeration -----------------------------------------------------


def legal(path):
    return True


def no_weights(path, weights):
    return 0.0


def trigram_weights(path, weights):
    return sum(
        weights.reshape(2, 2, 2)[gram] for gram in zip(path, path[1:], path[2:], strict=False)
    )


def run_weights(path, weights):
    total = 0.0
    for t, y in enumerate(path):
        run = len(list(itertools.takewhile(lambda label: label == 1, reversed(path[:t]))))
        total += weights.reshape(3, 2)[min(run, 2), y]
    return total


SPACES = {
    "first order": (StateSpace.first_order(2), legal, no_weights),
    "order 2": (StateSpace.order(2, 2), legal, trigram_weights),
    "run length": (StateSpace.run_length(2, 1, 2), legal, run_weights),
    "bio": (
        StateSpace.bio(["B", "I", "O"]),
        lambda path: all(y != 1 or p in (0, 1) for p, y in itertools.pairwise((2, *path))),
        no_weights,
    ),
    "an even number of 0s": (
        StateSpace.from_edges(
            2,
            [1, 0, 1, 0],
            [(0, 0), (0, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 0), (3, 1)],
            initial=[0, 1],
            final=[0, 3],
        ),
        lambda path: path.count(0) % 2 == 0,
        no_weights,
    ),
}


def random_problem(space, T, seed):
    """Scores on a grid of quarters, so that sums are exact and ties occur; some are −inf."""
    rng = np.random.default_rng(seed)
    Y = space.n_labels

    def draw(*shape):
        values = rng.integers(-8, 8, size=shape) / 4
        return np.where(rng.random(shape) < 0.1, -np.inf, values)

    edge = draw(T, Y, Y) if seed % 2 else None
    return draw(T, Y), draw(Y, Y), draw(Y), draw(Y), edge, draw(space.n_weights)


def enumerate_paths(name, T, problem):
    """Every path with its score, as the definition says; those at −inf left out."""
    space, is_legal, weigh = SPACES[name]
    emit, trans, start, stop, edge, weights = problem
    found = []
    for path in itertools.product(range(space.n_labels), repeat=T):
        if not is_legal(path):
            continue
        score = sum(emit[t, y] for t, y in enumerate(path)) + weigh(path, weights)
        score += start[path[0]] + stop[path[-1]] if path else 0.0
        for t in range(1, T):
            score += trans[path[t - 1], path[t]]
            score += edge[t, path[t - 1], path[t]] if edge is not None else 0.0
        if score > -math.inf:
            found.append((float(score), path))
    return found


@pytest.mark.parametrize("name", [*SPACES])
@pytest.mark.parametrize("T", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_every_semiring_equals_enumeration(name, T, seed):
    space = SPACES[name][0]
    problem = random_problem(space, T, seed)
    found = enumerate_paths(name, T, problem)
    all_scores = [score for score, _ in found]
    log_z = math.log(math.fsum(map(math.exp, all_scores))) if found else -math.inf

    def reduce(semiring):
        return reduce_transitions(semiring, space, *problem)

    assert reduce(BOOLEAN) is bool(found)
    assert reduce(COUNTING) == len(found)
    assert reduce(MAX_PLUS) == max(all_scores, default=-math.inf)
    assert reduce(LOG_PLUS) == pytest.approx(log_z, rel=1e-12, abs=1e-12)
    assert reduce(MAX_TIMES) == pytest.approx(max(map(math.exp, all_scores), default=0), rel=1e-12)
    assert reduce(SUM_TIMES) == pytest.approx(math.fsum(map(math.exp, all_scores)), rel=1e-12)

    ranked = sorted(found, key=lambda scored: (-scored[0], scored[1][::-1]))
    for k in (1, 2, 7, 1000):
        assert reduce(KBest(k)) == tuple(ranked[:k])

    # An expectation whose value looks at everything it is given.
    def value(t, y_prev, y):
        return 1.0 * t + (0.5 if y_prev is None else y_prev) * (3 if y is None else y)

    def path_value(path):
        inner = [value(t, path[t - 1] if t else None, path[t]) for t in range(T)]
        return math.fsum([*inner, value(T, path[-1], None)] if T else [])

    log_p, mean = reduce(Expectation(value))
    assert log_p == pytest.approx(log_z, rel=1e-12, abs=1e-12)
    expected = math.fsum(math.exp(score - log_z) * path_value(path) for score, path in found)
    assert mean == pytest.approx(expected, rel=1e-12, abs=1e-12)
    log_p, mean = reduce(Expectation("score"))
    entropy = -math.fsum(math.exp(s - log_z) * (s - log_z) for s in all_scores)
    if found:
        assert log_p - mean == pytest.approx(entropy, rel=1e-11, abs=1e-11)


def fish(words):
    """Scores of 000, Table 7.1, for a sentence over {they, can, fish} and labels N, V."""
    table = {"they": (-2, -10), "can": (-3, -1), "fish": (-3, -3)}
    return (
        np.array([table[word] for word in words], dtype=float),
        np.array([[-3.0, -1.0], [-1.0, -3.0]]),  # N->N, N->V; V->N, V->V
        np.array([-1.0, -2.0]),
        np.array([-1.0, -1.0]),
        None,
        np.zeros(0),
    )


def test_they_can_fish():
    space = StateSpace.first_order(["N", "V"])
    problem = fish(["they", "can", "fish"])
    assert reduce_transitions(MAX_PLUS, space, *problem) == -10
    assert reduce_transitions(LOG_PLUS, space, *problem) == pytest.approx(-9.854889, abs=1e-6)
    assert reduce_transitions(KBest(1), space, *problem) == ((-10.0, (0, 1, 0)),)
    problem = fish(["fish", "can"])
    assert reduce_transitions(LOG_PLUS, space, *problem) == pytest.approx(-6.888557, abs=1e-6)
    assert reduce_transitions(KBest(4), space, *problem) == (
        (-7.0, (0, 1)),
        (-10.0, (1, 0)),
        (-10.0, (1, 1)),
        (-11.0, (0, 0)),
    )


def test_log_space_survives_large_scores():
    space = StateSpace.first_order(2)
    emit = np.full((2000, 2), 1000.0)
    zeros = np.zeros(2)
    problem = (emit, np.zeros((2, 2)), zeros, zeros, None, np.zeros(0))
    assert reduce_transitions(LOG_PLUS, space, *problem) == pytest.approx(
        2000 * (1000 + math.log(2)), rel=1e-12
    )
    _, mean = reduce_transitions(Expectation("score"), space, *problem)
    assert mean == pytest.approx(2_000_000, rel=1e-12)
    assert reduce_transitions(COUNTING, space, *problem) == 2**2000
    with raises(ScoreError, where="position 0", found="exp(1000.0)", hint="LOG_PLUS"):
        reduce_transitions(SUM_TIMES, space, *problem)


def test_lift_sees_each_move_once_and_no_forbidden_move():
    space = StateSpace.first_order(2)
    emit = np.array([[1.0, -np.inf], [2.0, 4.0]])
    trans = np.array([[-np.inf, 0.5], [0.0, 0.0]])
    stop = np.array([0.0, 8.0])
    lifted = []

    def lift(score, t, y_prev, y):
        lifted.append((score, t, y_prev, y))
        return 1

    spy = Semiring("spy", 0, 1, COUNTING.plus, COUNTING.times, lift)
    problem = (emit, trans, np.zeros(2), stop, None, np.zeros(0))
    assert reduce_transitions(spy, space, *problem) == 1
    assert lifted == [(1.0, 0, None, 0), (4.5, 1, 0, 1), (8.0, 2, 1, None)]


def test_a_users_object_is_a_semiring():
    class Longest:
        """The largest single transition score on any path."""

        zero = one = -math.inf
        plus = times = staticmethod(max)

        def lift(self, score, t, y_prev, y):
            return score

    assert reduce_transitions(Longest(), StateSpace.first_order(2), *fish(["they", "can"])) == -1.0


def test_no_path_is_zero_and_no_position_is_one():
    space = StateSpace.first_order(2)
    for semiring, _ in CASES:
        emit, *rest = fish(["they"])
        assert reduce_transitions(semiring, space, emit - np.inf, *rest) == semiring.zero
        assert reduce_transitions(semiring, space, emit[:0], *rest) == semiring.one


def test_semirings_can_be_pickled_and_name_themselves():
    for semiring, _ in CASES:
        assert pickle.loads(pickle.dumps(semiring)) == semiring
    assert repr(LOG_PLUS) == "<semiring log-plus>"


def test_mistakes_are_named():
    with raises(ParameterError, parameter="k", found="0"):
        KBest(0)
    with raises(ParameterError, parameter="k", found="'two'"):
        KBest("two")
    with raises(ParameterError, parameter="value", found="3"):
        Expectation(3)
