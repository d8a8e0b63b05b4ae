"""The gradient of the log-partition is the expected counts: enumeration and finite differences."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

import oracles
import tagloom as tl
from strategies import BIO, cases, make_space
from tagloom.trellis import log_partition_grad

NAMES = ("emit", "trans", "start", "stop", "edge")


def sample_arrays(rng, lengths, Y, dtype=np.float64):
    total = sum(lengths)
    shapes = {
        "emit": (total, Y),
        "trans": (Y, Y),
        "start": (Y,),
        "stop": (Y,),
        "edge": (total, Y, Y),
    }
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def enumerated(offsets, arrays, weight):
    """log_z of each sequence and the gradients of Σ weight·log_z, from expected counts."""
    grads = {name: np.zeros(array.shape) for name, array in arrays.items() if array is not None}
    log_z = []
    for i, (lo, hi) in enumerate(itertools.pairwise(offsets)):
        local = {
            name: array[lo:hi] if name in ("emit", "edge") else array
            for name, array in arrays.items()
            if array is not None
        }
        chain = oracles.Chain(**local)
        log_z.append(chain.log_partition())
        if not chain.paths:
            continue
        counts = chain.expected_counts()
        grads["emit"][lo:hi] += weight[i] * chain.marginals()
        parts = {"trans": counts.transitions, "start": counts.start, "stop": counts.stop}
        for name in parts.keys() & grads.keys():
            grads[name] += weight[i] * parts[name]
        if "edge" in grads:
            grads["edge"][lo:hi] += weight[i] * chain.pair_marginals()
    return log_z, grads


@given(cases())
def test_gradients_equal_expected_counts(case):
    rng = np.random.default_rng(len(case.emits))
    case = case.feasible()
    if not case.emits:
        return
    weight = rng.uniform(-1.0, 2.0, len(case.emits))
    arrays = {
        "emit": np.concatenate(case.emits),
        "trans": case.trans,
        "start": case.start,
        "stop": case.stop,
        "edge": None if case.edges is None else np.concatenate(case.edges),
    }
    # Full of nonsense, for the buffers are overwritten, not added to.
    buffers = {
        f"grad_{name}": np.full_like(array, 77.0)
        for name, array in arrays.items()
        if array is not None
    }
    found = log_partition_grad(case.offsets, **arrays, weight=weight, **buffers)
    log_z, grads = enumerated(case.offsets, arrays, weight)
    assert found.dtype == np.float64
    assert_allclose(found, log_z, **case.close)
    for name, grad in grads.items():
        assert_allclose(buffers[f"grad_{name}"], grad, **case.close, err_msg=name)


@pytest.mark.parametrize("without", [(), ("edge",), ("edge", "start", "stop"), ("trans", "edge")])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_equal_finite_differences(weighted, without):
    """Central differences of Σ weight·log_z in every entry of every array."""
    rng = np.random.default_rng(8)
    lengths, Y, h = [3, 1, 0, 4], 3, 1e-5
    offsets = np.cumsum([0, *lengths])
    arrays = sample_arrays(rng, lengths, Y)
    for name in without:
        del arrays[name]
    weight = rng.uniform(0.5, 2.0, len(lengths)) if weighted else None
    buffers = {f"grad_{name}": np.empty_like(array) for name, array in arrays.items()}
    log_partition_grad(offsets, **arrays, weight=weight, **buffers)

    def objective():
        log_z = log_partition_grad(offsets, **arrays)
        return log_z.sum() if weight is None else weight @ log_z

    for name, array in arrays.items():
        numeric = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            kept = array[index]
            array[index] = kept + h
            up = objective()
            array[index] = kept - h
            numeric[index] = (up - objective()) / (2 * h)
            array[index] = kept
        assert_allclose(buffers[f"grad_{name}"], numeric, rtol=1e-7, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("kind", ["order2", "run", "edges", "bio"])
def test_marginals_are_finite_differences_of_the_log_partition(kind):
    """For any automaton: d log_z / d emit = marginals, d log_z / d weights = expected counts."""
    rng = np.random.default_rng(2)
    space = make_space(rng, kind, BIO)
    emit = rng.standard_normal((4, 3))
    weights = rng.standard_normal(space.n_weights)
    trellis = tl.Trellis(emit, states=space, weights=weights)
    h = 1e-5

    def slope(array, index, build):
        up, down = array.copy(), array.copy()
        up[index] += h
        down[index] -= h
        return (build(up).log_partition() - build(down).log_partition()) / (2 * h)

    gamma = np.zeros(emit.shape)
    for index in np.ndindex(emit.shape):
        gamma[index] = slope(emit, index, lambda x: tl.Trellis(x, states=space, weights=weights))
    assert_allclose(trellis.marginals(), gamma, rtol=1e-7, atol=1e-9)
    counts = [
        slope(weights, j, lambda x: tl.Trellis(emit, states=space, weights=x))
        for j in range(space.n_weights)
    ]
    assert_allclose(trellis.expected_counts().weights, counts, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["first", "order2", "seen", "run", "edges", "bio"])
@pytest.mark.parametrize("has_edge", [False, True])
def test_gradients_in_any_state_space_are_finite_differences(kind, has_edge):
    rng = np.random.default_rng(3)
    space = make_space(rng, kind, BIO)
    arrays = sample_arrays(rng, [4, 1, 3], 3)
    arrays["weights"] = rng.standard_normal(space.n_weights)
    if not has_edge:
        del arrays["edge"]
    weight, h = rng.uniform(-1.0, 2.0, 3), 1e-5
    buffers = {f"grad_{name}": np.full_like(array, 77.0) for name, array in arrays.items()}
    given = {"offsets": [0, 4, 5, 8], "states": space}
    log_z = log_partition_grad(**given, **arrays, weight=weight, **buffers)
    assert_allclose(log_z, tl.Trellis(**given, **arrays).log_partition(), rtol=1e-12)
    for name, array in arrays.items():
        for index in np.ndindex(array.shape):
            kept, values = array[index], []
            for array[index] in (kept + h, kept - h):
                values.append(weight @ tl.Trellis(**given, **arrays).log_partition())
            array[index] = kept
            slope = (values[0] - values[1]) / (2 * h)
            found = buffers[f"grad_{name}"][index]
            assert_allclose(found, slope, rtol=1e-6, atol=1e-8, err_msg=f"{name}{index}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_the_buffers_that_are_given_are_written(dtype):
    rng = np.random.default_rng(1)
    arrays = sample_arrays(rng, [4, 2], 3, dtype)
    full = {f"grad_{name}": np.empty_like(array) for name, array in arrays.items()}
    log_z = log_partition_grad([0, 4, 6], **arrays, **full)
    for name in NAMES:
        one = np.empty_like(arrays[name])
        again = log_partition_grad([0, 4, 6], **arrays, **{f"grad_{name}": one})
        assert_array_equal(log_z, again)
        assert_array_equal(one, full[f"grad_{name}"])
    assert_array_equal(log_partition_grad([0, 4, 6], **arrays), log_z)


def test_buffers_may_be_strided_or_of_another_dtype():
    arrays = sample_arrays(np.random.default_rng(1), [4, 2], 3)
    plain, strided = np.empty((6, 3)), np.full((3, 6), 9.0).T
    narrow = np.empty((6, 3), np.float32)
    for buffer in (plain, strided, narrow):
        log_partition_grad([0, 4, 6], **arrays, grad_emit=buffer)
    assert_array_equal(strided, plain)
    assert_allclose(narrow, plain, rtol=1e-6)


def test_row_zero_of_the_edge_gradient_is_zero():
    arrays = sample_arrays(np.random.default_rng(1), [3, 2], 2)
    grad = np.full_like(arrays["edge"], 5.0)
    log_partition_grad([0, 3, 5], **arrays, grad_edge=grad)
    assert not grad[[0, 3]].any()
    assert_allclose(grad[[1, 2, 4]].sum(axis=(1, 2)), 1.0)


def test_a_weight_of_zero_leaves_a_sequence_out():
    arrays = sample_arrays(np.random.default_rng(1), [3, 2], 2)
    grad, alone = np.empty((2, 2)), np.empty((2, 2))
    log_partition_grad([0, 3, 5], **arrays, weight=np.array([0.0, 1.0]), grad_trans=grad)
    second = {k: v[3:] if k in ("emit", "edge") else v for k, v in arrays.items()}
    log_partition_grad([0, 2], **second, grad_trans=alone)
    assert_allclose(grad, alone, rtol=1e-12)


@pytest.mark.parametrize("with_edge", [False, True])
def test_threads_do_not_change_the_gradient(with_edge):
    rng = np.random.default_rng(6)
    lengths = rng.integers(0, 90, 100).tolist()  # large enough that threads are worth their while
    arrays = sample_arrays(rng, lengths, 16)
    if not with_edge:
        del arrays["edge"]
    weight = rng.uniform(0, 1, 100)
    results = []
    for n_threads in (1, 2, 3):
        buffers = {f"grad_{name}": np.empty_like(array) for name, array in arrays.items()}
        log_z = log_partition_grad(
            np.cumsum([0, *lengths]), **arrays, weight=weight, **buffers, n_threads=n_threads
        )
        results.append({"log_z": log_z, **buffers})
    for key in results[0]:
        assert_array_equal(results[0][key], results[1][key], err_msg=key)
        assert_array_equal(results[0][key], results[2][key], err_msg=key)
