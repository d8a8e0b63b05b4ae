"""The objective on encoded features: enumeration, finite differences, layout, odd sizes."""

import itertools
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from encoded import Encoding, random_encoding, random_theta
from tagloom import _native

VARIANTS = [
    {"edges": edges, "valued": valued, "all_combinations": all_, "boundaries": boundaries}
    for edges, valued, all_, boundaries in itertools.product([False, True], repeat=4)
]
WEIGHT = np.array([1.0, 0.5, 2.0, 0.0, 1.5])


def plain(lengths, gold, ids, Y, n_attributes, **options):
    """One attribute per token."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indptr = np.arange(len(gold) + 1, dtype=np.int64)
    ids, gold = np.array(ids, np.int32), np.array(gold, np.int32)
    return Encoding(offsets, indptr, ids, gold, Y, n_attributes, **options)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_loss_equals_enumeration(variant, weight):
    encoding = random_encoding(1, weight=weight, **variant)
    theta = random_theta(encoding)
    assert_allclose(encoding.evaluate(theta)[0], encoding.nll(theta), rtol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_gradient_equals_finite_differences(variant, weight):
    encoding = random_encoding(2, weight=weight, **variant)
    theta, h = random_theta(encoding), 1e-5
    grad = encoding.evaluate(theta)[1]
    mask = encoding.objective.mask()
    assert mask.all() == variant["all_combinations"]
    for j in range(len(theta)):
        if not mask[j]:
            assert grad[j] == 0.0
            continue
        up, down = theta.copy(), theta.copy()
        up[j] += h
        down[j] -= h
        numeric = (encoding.evaluate(up)[0] - encoding.evaluate(down)[0]) / (2 * h)
        assert_allclose(grad[j], numeric, rtol=1e-6, atol=1e-8, err_msg=str(j))


@pytest.mark.parametrize("variant", VARIANTS)
def test_float32_is_close_to_float64(variant):
    wide = random_encoding(3, **variant)
    narrow = random_encoding(3, float32=True, **variant)
    theta = random_theta(wide)
    (loss, grad), (loss32, grad32) = wide.evaluate(theta), narrow.evaluate(theta)
    assert_allclose(loss32, loss, rtol=1e-5)
    assert_allclose(grad32, grad, atol=1e-5)


def test_values_count_whether_rows_are_full_or_not():
    # Eight labels, each attribute seen with one: no full row anywhere.
    values = {"values": np.array([2.0, -1.0, 0.5], np.float32)}
    edges = {"edge_indptr": np.arange(4), "edge_ids": np.array([0, 0, 1], np.int32)}
    edges |= {"edge_values": np.array([1.0, 3.0, -2.0], np.float32), "n_edge_attributes": 2}
    encoding = plain([3], [3, 1, 2], [0, 1, 2], 8, 3, **values, **edges)
    theta = random_theta(encoding)
    assert_allclose(encoding.evaluate(theta)[0], encoding.nll(theta), rtol=1e-12)


@pytest.mark.parametrize("others", [1.0, 0.5])
def test_zeros_that_are_dropped_change_no_bit(others):
    """They have weights as before, also where all other values are 1 and need no multiplication."""
    encoding = random_encoding(4, [7] * 40, Y=5, n_attributes=30, edges=True, valued=True)
    zeros = np.random.default_rng(0).random(len(encoding.ids)) < 0.5
    values = {"values": np.where(zeros, 0, others).astype(np.float32)}
    edge_values = np.full(len(encoding.edge_ids), others, np.float32)
    edge_values[::3] = 0
    values["edge_values"] = edge_values
    kept, dropped = (encoding.make(**values, batches_only=drops) for drops in (False, True))
    assert_array_equal(kept.mask(), dropped.mask())
    theta = random_theta(encoding)
    grads = np.empty((2, len(theta)))
    losses = [kept.evaluate(theta, grads[0], 1), dropped.evaluate(theta, grads[1], 1)]
    assert losses[0] == losses[1]
    assert_array_equal(*grads)
    assert np.count_nonzero(grads[0]) > 50


def lanes_and_singles(**options):
    """Enough sentences for several shards, blocks and groups of lanes."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 40, 700)
    options = {"edges": False, "valued": False, "n_attributes": 500} | options
    return random_encoding(6, lengths, Y=9, **options)


@pytest.mark.parametrize("float32", [False, True])
@pytest.mark.parametrize("edges", [False, True])
def test_every_bit_is_the_same_for_any_number_of_threads(float32, edges):
    encoding = lanes_and_singles(float32=float32, edges=edges)
    theta = random_theta(encoding, scale=0.3)
    loss, grad = encoding.evaluate(theta)
    for threads in (2, 3, 8):
        found, found_grad = encoding.evaluate(theta, threads)
        assert found == loss
        assert_array_equal(found_grad, grad)


@pytest.mark.parametrize("valued", [False, True])
def test_objectives_made_on_any_number_of_threads_are_the_same(valued):
    encoding = random_encoding(
        11, [25] * 3_000, Y=9, n_attributes=3_000, edges=True, valued=valued, float32=True
    )
    theta = random_theta(encoding, scale=0.3)
    loss, grad = encoding.evaluate(theta)
    for threads in (2, 7):
        other, other_grad = encoding.make(threads=threads), np.empty_like(grad)
        assert_array_equal(other.mask(), encoding.objective.mask())
        assert other.evaluate(theta, other_grad, 1) == loss
        assert_array_equal(other_grad, grad)


def test_every_instruction_set_gives_the_same_gradient():
    encoding = lanes_and_singles(valued=True)
    theta = random_theta(encoding, scale=0.3)
    loss, grad = encoding.evaluate(theta)
    chosen = _native.instruction_set()
    try:
        for name in _native.instruction_sets():
            _native.use_instruction_set(name)
            found, found_grad = encoding.evaluate(theta)
            assert_allclose(found, loss, rtol=1e-12)
            assert_allclose(found_grad, grad, rtol=1e-9, atol=1e-10)
    finally:
        _native.use_instruction_set(chosen)


def test_sentences_one_by_one_add_up_to_all():
    encoding = lanes_and_singles(all_combinations=True)
    theta = random_theta(encoding, scale=0.3)
    loss, grad = encoding.evaluate(theta)
    total, total_grad = 0.0, np.zeros_like(grad)
    for lo, hi in itertools.pairwise(encoding.offsets):
        a, b = encoding.indptr[lo], encoding.indptr[hi]
        part = encoding.make(
            offsets=np.array([0, hi - lo]),
            indptr=encoding.indptr[lo : hi + 1] - a,
            ids=encoding.ids[a:b],
            gold=encoding.gold[lo:hi],
        )
        part_grad = np.empty_like(grad)
        total += part.evaluate(theta, part_grad, 1)
        total_grad += part_grad
    assert_allclose(loss, total, rtol=1e-12)
    assert_allclose(grad, total_grad, rtol=1e-9, atol=1e-10)


def test_concurrent_evaluations_do_not_disturb_each_other():
    encoding = lanes_and_singles()
    thetas = [random_theta(encoding, seed, 0.3) for seed in range(4)]
    expected = [encoding.evaluate(theta) for theta in thetas]
    found = [None] * 4

    def work(k):
        found[k] = [encoding.evaluate(thetas[k]) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        for loss, grad in found[k]:
            assert loss == expected[k][0]
            assert_array_equal(grad, expected[k][1])


# Layout


def test_rows_hold_seen_labels_and_full_rows_are_masked():
    # Attribute 0 is seen with labels 1 and 3 of 8 (a quarter: a full row), 1 with label 2 only,
    # 2 never.
    encoding = plain([3], [3, 1, 2], [0, 0, 1], 8, 3)
    ptr, cols, free = encoding.objective.rows()
    assert ptr.tolist() == [0, 8, 9, 9]
    assert cols.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 2]
    assert np.flatnonzero(free).tolist() == [1, 3, 8]
    assert (ptr.dtype, cols.dtype, free.dtype) == (np.int64, np.uint16, np.bool_)
    mask = encoding.objective.mask()
    assert encoding.objective.n_weights == len(mask) == 9 + 64 + 8 + 8
    assert_array_equal(mask[:9], free)
    assert [divmod(j, 8) for j in np.flatnonzero(mask[9:73]).tolist()] == [(1, 2), (3, 1)]
    assert np.flatnonzero(mask[73:81]).tolist() == [3]  # start
    assert np.flatnonzero(mask[81:]).tolist() == [2]  # stop


def test_all_combinations_free_every_weight():
    encoding = plain([3], [3, 1, 2], [0, 0, 1], 8, 3, all_combinations=True, boundaries=False)
    ptr, cols, free = encoding.objective.rows()
    assert ptr.tolist() == [0, 8, 16, 24]
    assert cols.tolist() == list(range(8)) * 3
    assert free.all()
    assert encoding.objective.mask().all()
    assert encoding.objective.n_weights == 24 + 64
    ptr, cols, free = encoding.objective.edge_rows()
    assert (ptr.tolist(), len(cols), len(free)) == ([0], 0, 0)


def test_edge_rows_count_transitions_inside_sentences_only():
    # The edge attribute of a first token has no label before it.
    edges = {"edge_indptr": np.arange(5), "edge_ids": np.array([1, 0, 0, 1], np.int32)}
    encoding = plain(
        [2, 2], [2, 5, 1, 0], [0] * 4, 6, 1, **edges, n_edge_attributes=3, boundaries=False
    )
    ptr, cols, free = encoding.objective.edge_rows()
    assert ptr.tolist() == [0, 1, 2, 2]
    assert cols.tolist() == [2 * 6 + 5, 1 * 6 + 0]
    assert free.all()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_large_problem_has_the_layout_that_its_tokens_ask_for(threads):
    # So many attributes and labels that threads are worth it, and edges come in several turns.
    rng = np.random.default_rng(3)
    T, Y, A, E = 30_000, 90, 5_000, 80_000
    offsets = np.arange(0, T + 1, 10)
    gold = rng.integers(0, Y, T).astype(np.int32)
    indptr, edge_indptr = np.arange(T + 1) * 8, np.arange(T + 1)
    ids = (rng.random(8 * T) ** 4 * A).astype(np.int32)  # from frequent to rare
    edge_ids = rng.integers(0, E, T).astype(np.int32)
    extra = np.array([7, A - 1], np.int32), np.array([3, Y - 1], np.uint16)
    objective = _native.LinearObjective(
        offsets,
        _native.Attributes(indptr, ids, A, extra=extra),
        _native.Labels(gold, Y),
        edges=_native.Attributes(edge_indptr, edge_ids, E),
        threads=threads,
    )
    seen = {(a, y) for a, y in zip(ids, np.repeat(gold, 8), strict=True)}
    check_rows(objective.rows(), seen | set(zip(*extra, strict=True)), A, Y)
    inner = np.arange(T) % 10 > 0
    transitions = np.roll(gold, 1) * Y + gold
    seen = set(zip(edge_ids[inner], transitions[inner], strict=True))
    check_rows(objective.edge_rows(), seen, E, Y * Y)


def check_rows(rows, seen, A, width):
    ptr, cols, free = rows
    lengths = np.zeros(A, dtype=np.int64)
    for a, _ in seen:
        lengths[a] += 1
    assert_array_equal(np.diff(ptr), np.where(4 * lengths >= width, width, lengths))
    attributes = np.repeat(np.arange(A), np.diff(ptr))
    found = list(zip(attributes.tolist(), cols.tolist(), strict=True))
    assert found == sorted(found)
    assert {pair for pair, is_free in zip(found, free, strict=True) if is_free} == seen


# Odd sizes and large scores


def test_one_label_costs_nothing():
    encoding = random_encoding(7, Y=1)
    loss, grad = encoding.evaluate(random_theta(encoding))
    assert_allclose(loss, 0.0, atol=1e-12)
    assert_allclose(grad, 0.0, atol=1e-12)


@pytest.mark.parametrize("lengths", [[1], [0], [], [0, 0, 1]])
def test_tiny_corpora(lengths):
    encoding = random_encoding(8, lengths)
    theta = random_theta(encoding)
    loss, grad = encoding.evaluate(theta, 2)
    assert_allclose(loss, encoding.nll(theta), rtol=1e-12)
    assert np.isfinite(grad).all()


def test_a_problem_without_attributes_still_learns_transitions():
    offsets, gold = np.array([0, 3]), np.array([0, 1, 1], np.int32)
    nothing = np.zeros(0, np.int32)
    encoding = Encoding(offsets, np.zeros(4, np.int64), nothing, gold, 2, 0)
    theta = random_theta(encoding)
    assert_allclose(encoding.evaluate(theta)[0], encoding.nll(theta), rtol=1e-12)


@pytest.mark.parametrize("float32", [False, True])
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_large_weights_as_a_perceptron_leaves_them(float32, edges, scale):
    encoding = random_encoding(9, edges=edges, valued=False, float32=float32)
    theta = np.round(random_theta(encoding, scale=scale))  # whole numbers: exact in float32 too
    loss, grad = encoding.evaluate(theta)
    assert_allclose(loss, encoding.nll(theta), rtol=1e-6)
    counts = np.zeros(len(theta))
    wide = random_encoding(9, edges=edges, valued=False)
    for j in np.flatnonzero(encoding.objective.mask()):
        up = theta.copy()
        up[j] += 1e-4
        counts[j] = (wide.nll(up) - wide.nll(theta)) / 1e-4
    assert_allclose(grad, counts, atol=2e-3)


@pytest.mark.parametrize("scale", [0.1, 1e3])
def test_a_very_long_sentence(scale):
    T, Y = 100_000, 4
    rng = np.random.default_rng(10)
    gold = rng.integers(0, Y, T).astype(np.int32)
    ids = rng.integers(0, 50, T).astype(np.int32)
    encoding = plain([T], gold, ids, Y, 50, float32=True, all_combinations=True)
    theta = random_theta(encoding, scale=scale)
    loss, grad = encoding.evaluate(theta, 2)
    assert np.isfinite(loss)
    assert loss > 0
    # Expected minus observed transitions: both have T - 1 of them.
    trans = grad[-2 * Y - Y * Y : -2 * Y]
    assert_allclose(trans.sum(), 0.0, atol=0.5)
    assert_allclose(grad[-Y:].sum(), 0.0, atol=1e-6)
    wide = encoding.make(float32=False)
    wide_grad = np.empty_like(grad)
    assert_allclose(wide.evaluate(theta, wide_grad, 1), loss, rtol=1e-6)
    assert_allclose(grad, wide_grad, rtol=1e-3, atol=0.5)


def test_non_finite_weights_give_a_non_finite_loss_and_leave_no_trace():
    encoding = lanes_and_singles()
    theta = random_theta(encoding, scale=0.3)
    before = encoding.evaluate(theta)
    for bad in (np.nan, np.inf, 1e308):
        assert not np.isfinite(encoding.evaluate(np.full_like(theta, bad))[0])
    after = encoding.evaluate(theta)
    assert after[0] == before[0]
    assert_array_equal(after[1], before[1])


# What does not fit


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gold": np.array([0, 3, 0], np.int32)}, r"gold\[1\] is 3; labels are numbered 0 to 2"),
        ({"gold": np.array([0, -1, 0], np.int32)}, r"gold\[1\] is -1"),
        ({"gold": np.zeros(4, np.int32)}, "indptr of nodes"),
        ({"ids": np.array([0, 9, 0], np.int32)}, r"ids\[1\] is 9; attributes are numbered 0 to 1"),
        ({"ids": np.array([0, -2, 0], np.int32)}, r"ids\[1\] is -2"),
        ({"ids": np.zeros(2, np.int32)}, r"indptr must run from 0 to len\(nodes.ids\)"),
        ({"indptr": np.array([0, 2, 1, 3])}, "must not decrease; it does at token 1"),
        ({"indptr": np.array([1, 1, 2, 3])}, "indptr must run from 0"),
        ({"offsets": np.array([0, 2])}, "offsets must run from 0"),
        ({"offsets": np.array([0, 4, 3])}, "offsets must not decrease; they do at sentence 1"),
        ({"offsets": np.zeros(0, np.int64)}, "at least one entry"),
        ({"values": np.array([0, np.nan, 1], np.float32)}, r"values\[1\] is not a finite"),
        ({"values": np.zeros(2, np.float32)}, "values must"),
        ({"weight": np.array([-1.0])}, r"weight\[0\] must be finite and not negative"),
        ({"weight": np.array([np.inf])}, r"weight\[0\] must be finite"),
        ({"weight": np.ones(2)}, "one entry for each sentence"),
        ({"n_labels": 0}, "number of labels must be 1 to 65535; got 0"),
        ({"n_labels": 70_000}, "number of labels must be 1 to 65535"),
        ({"n_attributes": -1}, "must not be negative"),
        (
            {"edge_indptr": np.arange(4), "edge_ids": np.zeros(3, np.int32)},
            r"edges.ids\[0\] is 0; attributes are numbered 0 to -1",
        ),
        (
            {
                "edge_indptr": np.zeros(4, np.int64),
                "edge_ids": np.zeros(0, np.int32),
                "n_labels": 300,
            },
            "at most 256 labels; got 300",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    encoding = plain([3], [0, 1, 2], [0, 1, 0], 3, 2)
    with pytest.raises(ValueError, match=message):
        encoding.make(**changes)


def test_theta_and_gradient_must_have_one_entry_per_weight():
    objective = plain([3], [0, 1, 2], [0, 1, 0], 3, 2).objective
    right, wrong = np.zeros(objective.n_weights), np.zeros(objective.n_weights + 1)
    with pytest.raises(ValueError, match="must be \\[n_weights\\]"):
        objective.evaluate(wrong, right, 1)
    with pytest.raises(ValueError, match="must be \\[n_weights\\]"):
        objective.evaluate(right, wrong, 1)
