"""Attributes that occur together: the same loss and gradient, and the same minimum with fewer
numbers.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from encoded import Encoding, random_encoding, random_theta
from tagloom import _native
from tagloom.training import LBFGS


def with_copies(encoding, copies=3):
    """The same tokens with copies of each attribute, which have the next numbers."""
    changes = {}
    for indptr, ids, values, n in (
        ("indptr", "ids", "values", "n_attributes"),
        ("edge_indptr", "edge_ids", "edge_values", "n_edge_attributes"),
    ):
        if getattr(encoding, ids) is None:
            continue
        # Numbered as they occur, like the attributes of an index.
        old = getattr(encoding, ids)
        place = {a: i for i, a in enumerate(dict.fromkeys(old.tolist()))}
        for a in range(getattr(encoding, n)):
            place.setdefault(a, len(place))
        new = np.array([copies * place[a] + c for a in old for c in range(copies)], np.int32)
        changes |= {ids: new, indptr: getattr(encoding, indptr) * copies}
        changes |= {n: getattr(encoding, n) * copies}
        if getattr(encoding, values) is not None:
            changes[values] = np.repeat(getattr(encoding, values), copies)
    return replace(encoding, **changes)


def evaluate(objective, theta, threads=1):
    grad = np.full(objective.n_weights, 77.0)
    return objective.evaluate(theta, grad, threads), grad


VARIANTS = [
    {"edges": edges, "valued": valued, "all_combinations": all_}
    for edges in (False, True)
    for valued in (False, True)
    for all_ in (False, True)
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_loss_and_gradient_are_those_of_single_attributes(variant):
    encoding = with_copies(random_encoding(1, **variant))
    theta = random_theta(encoding)
    objective = encoding.make(batches_only=True)
    loss, grad = evaluate(objective, theta)
    expected_loss, expected = evaluate(encoding.objective, theta)
    assert_allclose(loss, encoding.nll(theta), rtol=1e-12)
    assert_allclose(loss, expected_loss, rtol=1e-12)
    assert_allclose(grad, expected, rtol=1e-10, atol=1e-12)
    assert np.count_nonzero(grad) > 20


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_coordinates_of_bundles_have_the_same_loss_and_norm(variant):
    encoding = with_copies(random_encoding(2, **variant))
    objective = encoding.make(batches_only=True)
    bundled = _native.BundledObjective(objective)
    assert bundled.n_weights < 0.7 * objective.n_weights
    v = np.random.default_rng(0).normal(size=bundled.n_weights)
    v[~bundled.mask()] = 0
    theta = bundled.expand(v)
    assert_allclose(np.linalg.norm(theta), np.linalg.norm(v))
    assert_array_equal(theta[~objective.mask()], 0)
    (loss, grad), (expected, of_theta) = evaluate(bundled, v), evaluate(objective, theta)
    assert_allclose(loss, expected, rtol=1e-12)
    assert_allclose(np.linalg.norm(grad), np.linalg.norm(of_theta), rtol=1e-10)
    for j in np.random.default_rng(1).choice(np.flatnonzero(bundled.mask()), 20, replace=False):
        up, down = v.copy(), v.copy()
        up[j] += 1e-5
        down[j] -= 1e-5
        numeric = (evaluate(bundled, up)[0] - evaluate(bundled, down)[0]) / 2e-5
        assert_allclose(grad[j], numeric, rtol=1e-6, atol=1e-8)


def test_lbfgs_takes_the_same_steps_with_bundles():
    encoding = with_copies(random_encoding(3, [9] * 60, Y=4, n_attributes=40, edges=False))
    single = LBFGS(encoding.objective, l2=0.1, n_threads=1)
    bundled = LBFGS(_native.BundledObjective(encoding.make(batches_only=True)), l2=0.1, n_threads=2)
    for _ in range(15):
        step, expected = bundled.step(), single.step()
        assert_allclose(step.loss, expected.loss, rtol=1e-9)
        assert_allclose(step.grad_norm, expected.grad_norm, rtol=1e-4)
        assert step.n_evaluations == expected.n_evaluations
    assert_allclose(bundled.weights(), single.weights(), rtol=1e-3, atol=1e-5)
    assert len(bundled.theta()) < 0.5 * len(single.theta())


@pytest.mark.parametrize("float32", [False, True])
def test_every_bit_is_the_same_for_any_number_of_threads(float32):
    lengths = np.random.default_rng(5).integers(0, 40, 700)
    options = {"edges": False, "valued": False, "n_attributes": 500, "float32": float32}
    encoding = with_copies(random_encoding(6, lengths, Y=9, **options), 2)
    bundled = _native.BundledObjective(encoding.make(batches_only=True))
    v = np.random.default_rng(0).normal(scale=0.3, size=bundled.n_weights)
    loss, grad = evaluate(bundled, v)
    for threads in (2, 3, 8):
        found, found_grad = evaluate(bundled, v, threads)
        assert found == loss
        assert_array_equal(found_grad, grad)


def test_attributes_with_other_values_or_tokens_are_not_bundled():
    encoding = random_encoding(4, [5] * 8, Y=3, n_attributes=4, edges=False, valued=True)
    pairs = with_copies(encoding, 2)
    values = pairs.values.copy()
    values[1::2] *= 2  # the copies have other values
    others = replace(pairs, values=values)
    theta = random_theta(others)
    objective = others.make(batches_only=True)
    free = np.count_nonzero(objective.mask())
    assert _native.BundledObjective(objective).mask().sum() == free
    assert_allclose(evaluate(objective, theta)[0], others.nll(theta), rtol=1e-12)


def test_a_bundle_with_some_free_weights_is_refused():
    encoding = with_copies(random_encoding(5, edges=False))
    objective = encoding.make(batches_only=True)
    free = objective.mask()
    free[np.flatnonzero(free)[0]] = False
    objective.set_mask(free)
    with pytest.raises(ValueError, match="only some weights of a bundle"):
        _native.BundledObjective(objective)


def test_a_crf_learns_the_weights_of_all_attributes_of_a_word_that_is_seen_once():
    X = [["an", "aardvark", "ran"], ["the", "zebra", "slept"], ["an", "okapi", "slept"]]
    y = [["D", "N", "V"]] * 3
    tagger = tl.CRF(["lower", "suffix(2..3)"], algorithm="lbfgs", l2=0.1).fit(X, y)
    weights = {reason.name: reason.weight for reason in tagger.explain(X[0])[1].reasons}
    names = ("lower=aardvark", "suffix(2)=rk", "suffix(3)=ark")
    assert len({weights[name] for name in names}) == 1
    assert weights[names[0]] > 0.1


def words(seed, *, zeros=False, repeated=False, Y=5, **options):
    """Sentences of frequent words with their prefixes, suffixes, a bias, and the words before."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 12, 150)
    word = rng.integers(0, 25, lengths.sum())
    ids, values, ends = [], [], []
    for t, w in enumerate(word):
        own = [0, 1 + w, 26 + w // 4, 40 + w % 6, 50 + word[t - 1]]
        ids += own + [0] * repeated + [80 + w // 2] * zeros
        values += [1] * (5 + repeated) + [0] * zeros
        ends.append(len(ids))
    offsets, indptr = (np.array([0, *x], np.int64) for x in (np.cumsum(lengths), ends))
    gold = (rng.integers(0, Y, len(word)) * (rng.random(len(word)) < 0.4) + word % Y) % Y
    if zeros:
        options["values"] = np.array(values, np.float32)
    ids, gold = np.array(ids, np.int32), gold.astype(np.int32)
    return Encoding(offsets, indptr, ids, gold, Y, 100, **options)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("Y", [5, 20, 70])
@pytest.mark.parametrize("all_combinations", [False, True])
def test_groups_change_no_sum(zeros, Y, all_combinations):
    encoding = words(7, zeros=zeros, Y=Y, all_combinations=all_combinations)
    theta = random_theta(encoding)
    objective = encoding.make(batches_only=True)
    assert 20 <= objective.n_groups <= 26
    assert encoding.objective.n_groups == 0
    loss, grad = evaluate(objective, theta)
    expected_loss, expected = evaluate(encoding.objective, theta)
    assert_allclose(loss, expected_loss, rtol=1e-12)
    assert_allclose(grad, expected, rtol=1e-9, atol=1e-10)
    for threads in (2, 3):
        found, found_grad = evaluate(objective, theta, threads)
        assert found == loss
        assert_array_equal(found_grad, grad)
    narrow = encoding.make(batches_only=True, float32=True)
    assert_allclose(evaluate(narrow, theta)[1], expected, atol=1e-3)


def test_attributes_that_are_repeated_or_have_values_are_not_grouped():
    repeated = words(8, repeated=True)
    values = np.full(len(repeated.ids), 0.5, np.float32)
    for encoding in (repeated, replace(words(8), values=values[: len(words(8).ids)])):
        objective = encoding.make(batches_only=True)
        assert objective.n_groups == 0
        theta = random_theta(encoding)
        found, expected = evaluate(objective, theta), evaluate(encoding.objective, theta)
        assert_allclose(found[0], expected[0], rtol=1e-12)
        assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-10)
