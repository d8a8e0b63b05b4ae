"""Equal scores: the lowest label at the last position, then at each one before it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import tagloom as tl
from strategies import SPACES, cases


@settings(max_examples=40)
@given(cases(spaces=(None, None, *SPACES), looks=("integers",)), st.integers(1, 12))
def test_the_tie_rule_orders_nbest_and_viterbi(case, n):
    for i, chain in enumerate(case.feasible().chains):
        trellis = case.feasible().single(i)
        expected = chain.nbest(n)
        found = trellis.nbest(n)
        assert [tuple(path) for path in found.paths] == [path for path, _ in expected]
        assert list(found.scores) == [score for _, score in expected]
        best = trellis.viterbi()
        assert (tuple(best.path), best.score) == expected[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("Y", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64, 65])
def test_all_equal_gives_label_zero_for_any_number_of_labels(dtype, Y):
    """Every width of the vector code must break ties alike."""
    trellis = tl.Trellis(np.zeros((9, Y), dtype), np.zeros((Y, Y)))
    assert_array_equal(trellis.viterbi().path, np.zeros(9))
    assert_array_equal(trellis.posterior_decode().path, np.zeros(9))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("Y", [3, 4, 5, 8, 9, 16, 17, 31, 33])
def test_ties_between_chosen_labels_in_wide_rows(dtype, Y):
    """Two labels tie at the top of every position: the lower one wins wherever it lies."""
    for low, high in itertools.combinations({0, 1, Y // 2, Y - 2, Y - 1}, 2):
        low, high = min(low, high), max(low, high)
        emit = np.zeros((6, Y), dtype)
        emit[:, [low, high]] = 1.0
        assert_array_equal(tl.Trellis(emit).viterbi().path, np.full(6, low))
        # The tie is decided at the end: once `high` must be last, what precedes is still lowest.
        stop = np.zeros(Y, dtype)
        stop[high] = 1.0
        path = tl.Trellis(emit, stop=stop).viterbi().path
        assert_array_equal(path, [low] * 5 + [high])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["order 2", "order 3", "run", "count"])
def test_ties_are_broken_alike_whatever_the_states(name, seed, dtype):
    """Without weights a larger state space has the same paths, so the same one must win."""
    rng = np.random.default_rng(seed)
    space = {
        "order 2": tl.StateSpace.order(3, 2),
        "order 3": tl.StateSpace.order(3, 3),
        "run": tl.StateSpace.run_length(3, 1, 2),
        "count": tl.StateSpace.total_count(3, 2, 4),
    }[name]
    lengths = [*range(1, 20), 1100]
    emit = rng.integers(-1, 2, (sum(lengths), 3)).astype(dtype)
    trans = np.eye(3)[rng.permutation(3)]  # each label has a favourite of its own to follow
    offsets = np.cumsum([0, *lengths])
    plain = tl.Trellis(emit, trans, offsets=offsets)
    larger = tl.Trellis(emit, trans, offsets=offsets, states=space)
    assert_array_equal(larger.viterbi().path, plain.viterbi().path)
    for one, other in zip(plain, larger, strict=True):
        assert_array_equal(other.viterbi().path, one.viterbi().path)
        assert_array_equal(other.nbest(3).paths, one.nbest(3).paths)


def test_ties_are_compared_from_the_end():
    """Two best paths, 0 1 and 1 0: the second ends in the lower label."""
    trans = np.array([[-5.0, 0.0], [0.0, -5.0]])
    trellis = tl.Trellis(np.zeros((2, 2)), trans)
    assert_array_equal(trellis.viterbi().path, [1, 0])
    assert_array_equal(trellis.nbest(4).paths, [[1, 0], [0, 1], [0, 0], [1, 1]])


def test_forbidden_labels_never_win_a_tie():
    emit = np.array([[-np.inf, 0.0], [-np.inf, 0.0]])
    assert_array_equal(tl.Trellis(emit).viterbi().path, [1, 1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_independent_labels_are_the_largest_scores(dtype):
    """Equal transitions: each position is decided alone, with start and stop at the ends."""
    rng = np.random.default_rng(5)
    Y, lengths = 7, [3, 0, 1, 40]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    emit = rng.integers(0, 4, (offsets[-1], Y)).astype(dtype)
    emit[rng.random(emit.shape) < 0.2] = -np.inf
    start, stop = rng.integers(0, 3, (2, Y)).astype(dtype)
    batch = tl.Trellis(emit, np.full((Y, Y), 0.5), start, stop, offsets=offsets)
    expected = emit.astype(np.float64)
    expected[offsets[:-1][np.diff(offsets) > 0]] += start
    expected[offsets[1:][np.diff(offsets) > 0] - 1] += stop
    assert_array_equal(batch.viterbi().path, expected.argmax(axis=1))
    assert_array_equal(
        batch.viterbi().score,
        [
            expected[a:b].max(axis=1).sum() + 0.5 * max(b - a - 1, 0)
            for a, b in itertools.pairwise(offsets)
        ],
    )


def test_independent_labels_without_a_path():
    emit = np.zeros((3, 2))
    emit[1] = -np.inf
    assert not tl.Trellis(emit).is_feasible()
    paths = tl.Trellis(emit, offsets=[0, 1, 3]).viterbi(on_infeasible="none")
    assert_array_equal(paths.path, [0, -1, -1])
