"""Tokens that share rows of scores: against the sums over scores of each token."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from tagloom import _native
from tagloom.trellis import engine
from tagloom.trellis.batches import Batch


def random_model(rng, Y, order=1, zeros=False, dtype=np.float64):
    """Transitions, starts and stops, some of them forbidden."""
    trans, start, stop = (rng.standard_normal(shape) for shape in ((Y, Y), Y, Y))
    if zeros:
        trans = np.where(rng.random((Y, Y)) < 0.2, -np.inf, trans)
    space = None if order == 1 else tl.StateSpace.order(Y, order)
    weights = None if space is None else rng.standard_normal(space.n_weights)
    arrays = [array.astype(dtype) for array in (trans, start, stop)]
    return engine.Transitions(Y, None, *arrays, weights, space)


def random_tokens(rng, R, lengths):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return rng.integers(0, R, offsets[-1]).astype(np.int32), offsets


def by_token(model, rows, ids, offsets, weight):
    """log_z, counts of each row and the other counts, from the scores of every token."""
    counts, marginals = model.no_counts(), np.empty((len(ids), rows.shape[1]), rows.dtype)
    batch = Batch(rows[ids], None, offsets, 0.0)
    log_z = engine.sums(model, batch, 1, marginals=marginals, counts=counts, weight=weight)
    of_rows = np.zeros(rows.shape)
    each = 1.0 if weight is None else np.repeat(weight, np.diff(offsets))[:, None]
    np.add.at(of_rows, ids, each * marginals)
    return log_z, of_rows, counts


def check(model, rows, ids, offsets, weight=None, rtol=1e-10, threads=1):
    counts = model.no_counts()
    log_z, of_rows = engine.shared_row_sums(model, rows, ids, offsets, threads, counts, weight)
    expected = by_token(model, rows, ids, offsets, weight)
    assert_allclose(log_z, expected[0], rtol=rtol)
    assert_allclose(of_rows, expected[1], rtol=rtol, atol=rtol)
    for found, right in zip(counts, expected[2], strict=True):
        assert_allclose(found, right, rtol=rtol, atol=rtol)


# Lanes, sequences that are alone, an empty one, and one too long for lanes.
LENGTHS = [3, 0, 1, 7, 7, 2, 1, 9] * 9 + [40, 3000]


@pytest.mark.parametrize("Y", [1, 2, 5, 9, 17])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("instruction_set", tl.trellis.instruction_sets())
def test_sums_of_tokens_that_share_rows(Y, zeros, instruction_set):
    rng = np.random.default_rng(Y)
    ids, offsets = random_tokens(rng, 11, LENGTHS)
    model, rows = random_model(rng, Y, zeros=zeros and Y > 2), 3 * rng.standard_normal((11, Y))
    with tl.trellis.use_instruction_set(instruction_set):
        check(model, rows, ids, offsets)
        check(model, rows, ids, offsets, rng.uniform(0.1, 2, len(offsets) - 1))


@pytest.mark.parametrize("order", [2, 3])
def test_higher_orders(order):
    rng = np.random.default_rng(order)
    ids, offsets = random_tokens(rng, 6, LENGTHS[:60])
    check(random_model(rng, 3, order), rng.standard_normal((6, 3)), ids, offsets)


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_float32(scale):
    rng = np.random.default_rng(0)
    ids, offsets = random_tokens(rng, 8, LENGTHS)
    model = random_model(rng, 6, dtype=np.float32)
    rows = (scale * rng.standard_normal((8, 6))).astype(np.float32)
    check(model, rows, ids, offsets, rtol=3e-5)


@pytest.mark.parametrize("scale", [100.0, 1000.0])
def test_numbers_that_underflow(scale):
    """Scaled probabilities do not suffice: log space answers for single sequences."""
    rng = np.random.default_rng(int(scale))
    ids, offsets = random_tokens(rng, 8, LENGTHS[:60])
    trans = np.where(np.eye(5) > 0, 0.0, -scale * rng.random((5, 5)))
    trans[rng.random((5, 5)) < 0.3] = -np.inf
    np.fill_diagonal(trans, 0)
    model = engine.Transitions(5, None, trans, np.zeros(5), np.zeros(5), None, None)
    check(model, scale * rng.standard_normal((8, 5)), ids, offsets)


def test_a_sequence_without_a_path():
    rows = np.array([[0.0, -np.inf], [-np.inf, -np.inf]])
    model = engine.Transitions(2, None, np.zeros((2, 2)), np.zeros(2), np.zeros(2), None, None)
    counts = model.no_counts()
    ids, offsets = np.array([0, 0, 1, 0], dtype=np.int32), np.array([0, 2, 4])
    log_z, of_rows = engine.shared_row_sums(model, rows, ids, offsets, 1, counts)
    assert_allclose(log_z, [0.0, -np.inf])
    assert_allclose(of_rows, [[2.0, 0.0], [0.0, 0.0]])


def test_same_bits_for_any_number_of_threads():
    rng = np.random.default_rng(3)
    ids, offsets = random_tokens(rng, 30, rng.integers(0, 25, 900))
    model, rows = random_model(rng, 12), rng.standard_normal((30, 12))
    results = []
    for threads in (1, 2, 5):
        counts = model.no_counts()
        results.append([*engine.shared_row_sums(model, rows, ids, offsets, threads, counts)])
        results[-1] += counts
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert_array_equal(a, b)


def test_shapes_are_checked():
    model = random_model(np.random.default_rng(0), 2)
    dense, counts = model.dense, _native.TransitionCounts(np.zeros(4), np.zeros(2), np.zeros(2))
    good = {
        "rows": np.zeros((3, 2)),
        "ids": np.zeros(4, dtype=np.int32),
        "offsets": np.array([0, 4]),
        "threads": 1,
        "log_z": np.zeros(1),
        "ok": np.zeros(1, dtype=bool),
        "weight": None,
        "counts": counts,
        "row_counts": np.zeros((3, 2)),
    }
    dense.sum_rows(**good)
    for name, wrong in {
        "rows": np.zeros((3, 3)),
        "ids": np.full(4, 3, dtype=np.int32),
        "offsets": np.array([0, 5]),
        "log_z": np.zeros(2),
        "ok": np.zeros(2, dtype=bool),
        "weight": np.zeros(2),
        "row_counts": np.zeros((2, 2)),
    }.items():
        with pytest.raises(ValueError, match="must"):
            dense.sum_rows(**good | {name: wrong})
    with pytest.raises(ValueError, match="ids"):
        dense.sum_rows(**good | {"ids": np.full(4, -1, dtype=np.int32)})
