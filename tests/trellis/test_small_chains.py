"""Small chains, whose two passes run at once: against the general kernels and enumeration."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from tagloom import _native


def random_chain(rng, Y, zeros=False):
    """Log-probabilities of transitions [Y, Y], start and stop [Y]; some may be −inf."""
    rows = rng.dirichlet(np.ones(Y + 1), Y)
    if zeros:
        rows = np.where((rows < 0.15) & (rows < rows.max(axis=1, keepdims=True)), 0, rows)
        rows[:, Y] = np.maximum(rows[:, Y], 0.01)
        rows /= rows.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.log(rows[:, :Y]), np.log(rng.dirichlet(np.ones(Y))), np.log(rows[:, Y])


def run(emit, offsets, chain, weight=None, threads=1):
    """Return whether the kernel is sure, log_z, marginals and counts."""
    Y, N = emit.shape[1], len(offsets) - 1
    out = [np.empty(N), np.empty(emit.shape), np.zeros((Y, Y)), np.zeros(Y), np.zeros(Y)]
    ok = _native.small_chain_expectations(emit, offsets, *chain, weight, threads, *out)
    return ok, *out


def enumerate_paths(emit, chain):
    """log_z, marginals and counts of one sequence, path by path."""
    trans, start, stop = chain
    T, Y = emit.shape
    log_z, gamma, pairs = -np.inf, np.zeros((T, Y)), np.zeros((Y, Y))
    scored = []
    for path in itertools.product(range(Y), repeat=T):
        score = start[path[0]] + stop[path[-1]] + emit[np.arange(T), path].sum()
        score += sum(trans[a, b] for a, b in itertools.pairwise(path))
        scored.append((path, score))
        log_z = np.logaddexp(log_z, score)
    for path, score in scored:
        p = np.exp(score - log_z)
        gamma[np.arange(T), path] += p
        for a, b in itertools.pairwise(path):
            pairs[a, b] += p
    return log_z, gamma, pairs


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("Y", "T"), [(1, 1), (1, 4), (2, 1), (2, 7), (3, 5), (5, 3), (8, 3)])
def test_against_enumeration(Y, T, zeros):
    rng = np.random.default_rng(10 * Y + T)
    chain, emit = random_chain(rng, Y, zeros), 3 * rng.standard_normal((T, Y))
    ok, log_z, gamma, pairs, start, stop = run(emit, np.array([0, T]), chain)
    expected = enumerate_paths(emit, chain)
    assert ok
    assert log_z[0] == pytest.approx(expected[0], rel=1e-13)
    assert_allclose(gamma, expected[1], rtol=1e-12, atol=1e-15)
    assert_allclose(pairs, expected[2], rtol=1e-12, atol=1e-15)
    assert_allclose(start, expected[1][0], rtol=1e-12, atol=1e-15)
    assert_allclose(stop, expected[1][-1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("Y", [2, 3, 4, 7, 8])
def test_against_the_general_kernels(Y):
    """Long sequences, short ones, an empty one; emissions hundreds of nats apart; weights."""
    rng = np.random.default_rng(Y)
    lengths = [1, 0, 1000, 3, 130, 7]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    weight = rng.uniform(0.1, 2, len(lengths))
    for scale in (1.0, 30.0, 300.0):
        chain = random_chain(rng, Y)
        emit = scale * rng.standard_normal((offsets[-1], Y)) + 1e4
        ok, log_z, gamma, *counts = run(emit, offsets, chain, weight)
        assert ok
        trellis = tl.Trellis(emit, *chain, offsets=offsets, n_threads=1)
        expected, general = trellis.expectations(weight=weight)  # without marginals: not this one
        assert_allclose(log_z, expected, rtol=1e-12)
        assert_allclose(gamma, trellis.marginals(), rtol=1e-9, atol=1e-12)
        assert_allclose(counts[0], general.transitions, rtol=1e-8, atol=1e-11)
        assert_allclose(counts[1], general.start, rtol=1e-9, atol=1e-12)
        assert_allclose(counts[2], general.stop, rtol=1e-9, atol=1e-12)
        again = run(emit, offsets, chain, weight, threads=2)
        for a, b in zip(again[1:], (log_z, gamma, *counts), strict=True):
            assert_array_equal(a, b)


@pytest.mark.parametrize("order", [1, -1])
def test_paths_through_a_valley_are_not_lost(order):
    """The best path is 10^-400 behind in the middle: the kernel refuses, the trellis is right."""
    emit = np.zeros((200, 2))
    emit[:100, 1] = -10.0  # state 1 is bad at first,
    emit[100:, 0] = -20.0  # and much better afterwards; the states never change
    trans = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    chain = trans, np.log([0.5, 0.5]), np.zeros(2)
    ok, *_ = run(np.ascontiguousarray(emit[::order]), np.array([0, 200]), chain)
    assert not ok
    trellis = tl.Trellis(emit[::order], *chain)
    gamma = np.empty((200, 2))
    log_z, _ = trellis.expectations(marginals=gamma)
    assert log_z[0] == pytest.approx(-1000 + np.log(0.5))
    assert_allclose(gamma[:, 1], 1)


def test_impossible_sequences_are_left_to_the_trellis():
    chain = np.zeros((2, 2)) + np.log(0.5), np.log([0.5, 0.5]), np.zeros(2)
    for emit in (np.full((3, 2), -np.inf), np.array([[0.0, -np.inf]] * 2 + [[-np.inf, -np.inf]])):
        assert not run(emit, np.array([0, 3]), chain)[0]
        log_z, _ = tl.Trellis(emit, *chain).expectations(marginals=np.empty((3, 2)))
        assert log_z[0] == -np.inf


def test_scores_that_are_not_probabilities_take_the_other_way():
    rng = np.random.default_rng(0)
    emit, trans = rng.standard_normal((50, 4)), 3 * rng.standard_normal((4, 4))
    trellis = tl.Trellis(emit, trans)
    gamma = np.empty((50, 4))
    log_z, counts = trellis.expectations(marginals=gamma)
    assert log_z[0] == pytest.approx(trellis.log_partition(), rel=1e-12)
    assert_allclose(gamma, trellis.marginals(), rtol=1e-9)
    assert_allclose(counts.transitions, trellis.expected_counts().transitions, rtol=1e-9)


def test_wrong_shapes():
    shapes = {"emit": (3, 2), "trans": (2, 2), "start": 2, "stop": 2, "log_z": 1}
    shapes |= {"marginals": (3, 2), "transitions": (2, 2), "starts": 2, "stops": 2}
    good = {name: np.zeros(shape) for name, shape in shapes.items()}
    good |= {"offsets": np.array([0, 3]), "weight": None, "threads": 1}
    _native.small_chain_expectations(**good)
    for name, wrong in {
        "emit": np.zeros((3, 9)), "offsets": np.array([0, 4]), "trans": np.zeros((2, 3)),
        "start": np.zeros(3), "weight": np.zeros(2), "log_z": np.zeros(2),
        "marginals": np.zeros((2, 2)), "transitions": np.zeros((3, 2)), "stops": np.zeros(1),
    }.items():  # fmt: skip
        with pytest.raises(ValueError):
            _native.small_chain_expectations(**good | {name: wrong})


def features(z, products):
    """The features of quadratic scores [T, P]."""
    i, j = np.triu_indices(z.shape[1]) if products else (np.arange(z.shape[1]),) * 2
    return np.concatenate([z[:, i] * z[:, j], z, np.ones((len(z), 1))], axis=1)


@pytest.mark.parametrize("products", [False, True])
@pytest.mark.parametrize(("Y", "D"), [(2, 1), (3, 2), (5, 4), (8, 4), (8, 7), (1, 6)])
@pytest.mark.parametrize("instruction_set", tl.trellis.instruction_sets())
def test_quadratic_scores(Y, D, products, instruction_set):
    """Against the same kernel with scores and marginals of each token."""
    rng = np.random.default_rng(100 * Y + D)
    lengths = [1, 0, 300, 3, 129, 7]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    weight, z = rng.uniform(0.1, 2, len(lengths)), rng.standard_normal((offsets[-1], D))
    F, chain = features(z, products), random_chain(rng, Y, zeros=True)
    weights = 0.5 * rng.standard_normal((F.shape[1], Y))
    with tl.trellis.use_instruction_set(instruction_set):
        ok, log_z, gamma, *counts = run(F @ weights, offsets, chain, weight)
        results = []
        for threads in (1, 3):
            out = [np.empty(len(lengths)), np.zeros(weights.shape), *map(np.zeros_like, counts)]
            args = z, weights, offsets, *chain, weight, threads, *out
            assert ok
            assert _native.small_chain_moments(*args)
            results.append(out)
    sums = F.T @ (gamma * np.repeat(weight, lengths)[:, None])
    for found, expected in zip(results[0], [log_z, sums, *counts], strict=True):
        assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    for a, b in zip(*results, strict=True):
        assert_array_equal(a, b)


def test_shapes_of_quadratic_scores_are_checked():
    good = {
        "z": np.zeros((4, 2)),
        "weights": np.zeros((5, 3)),
        "offsets": np.array([0, 4]),
        "trans": np.full((3, 3), -1.1),
        "start": np.full(3, -1.1),
        "stop": np.zeros(3),
        "weight": None,
        "threads": 1,
        "log_z": np.empty(1),
        "sums": np.zeros((5, 3)),
        "transitions": np.zeros((3, 3)),
        "starts": np.zeros(3),
        "stops": np.zeros(3),
    }
    assert _native.small_chain_moments(**good)
    for name, wrong in {
        "z": np.zeros((4, 3)),
        "weights": np.zeros((4, 3)),
        "offsets": np.array([0, 5]),
        "sums": np.zeros((6, 3)),
        "log_z": np.empty(2),
        "trans": np.zeros((2, 2)),
    }.items():
        with pytest.raises(ValueError, match="must"):
            _native.small_chain_moments(**good | {name: wrong})


@pytest.mark.parametrize("Y", [3, 8])
def test_sequences_side_by_side_equal_each_alone(Y):
    # More sequences than shards: the kernel takes two at a time, of different lengths.
    rng = np.random.default_rng(Y)
    lengths = [*rng.integers(1, 40, 37), 0, 1, 200, 0, 0, 3]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    chain, emit = random_chain(rng, Y), 3 * rng.standard_normal((offsets[-1], Y))
    ok, log_z, gamma, *_ = run(emit, offsets, chain)
    assert ok
    for i, (first, end) in enumerate(itertools.pairwise(offsets)):
        alone = run(np.ascontiguousarray(emit[first:end]), np.array([0, end - first]), chain)
        assert log_z[i] == alone[1][0]
        assert_array_equal(gamma[first:end], alone[2])
