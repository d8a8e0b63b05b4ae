"""`Trellis.prune`: the labels it keeps, and results that are exact over them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from raising import raises
from tagloom.errors import ParameterError

OFFSETS = [0, 3, 3, 8]


def random_trellis(seed=0, dtype=np.float64, Y=6, **options):
    rng = np.random.default_rng(seed)
    arrays = [2 * rng.normal(size=shape) for shape in ((8, Y), (Y, Y), Y, Y)]
    return tl.Trellis(*(a.astype(dtype) for a in arrays), offsets=OFFSETS, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("least", [0.0, 0.1, 0.5, 1.0])
def test_pruned_is_constrained(dtype, least):
    trellis = random_trellis(dtype=dtype)
    emit = trellis.emit.astype(float)
    kept = np.exp(emit - emit.max(axis=1, keepdims=True)) >= least
    pruned, expected = trellis.prune(least), trellis.constrain(kept)
    assert_array_equal(np.diff(pruned.candidates.indptr), kept.sum(axis=1))
    assert_array_equal(pruned.candidates.label_ids, np.nonzero(kept)[1])
    assert_array_equal(pruned.viterbi().path, expected.viterbi().path)
    tolerance = {"rtol": 1e-5 if dtype == np.float32 else 1e-12, "atol": 1e-7}
    assert_allclose(pruned.log_partition(), expected.log_partition(), **tolerance)
    assert_allclose(pruned.marginals(), expected.marginals(), **tolerance)
    for one, other in zip(pruned.nbest(4), expected.nbest(4), strict=True):
        assert_array_equal(one.paths, other.paths)


def best_of(emit, least, most):
    """Which labels are kept, by sorting."""
    kept = np.zeros(emit.shape, dtype=bool)
    for t, row in enumerate(emit):
        ranked = np.argsort(-row, kind="stable")  # of equal ones the lower first
        probable = np.exp(row[ranked] - row.max()) >= least
        kept[t, ranked[probable][:most]] = True
    return kept


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("most", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("least", [0.0, 0.1])
def test_at_most_so_many(least, most, dtype):
    trellis = random_trellis(dtype=dtype)
    kept = best_of(trellis.emit.astype(float), least, most)
    assert_array_equal(trellis.prune(least, most).emit > -np.inf, kept)


def test_of_equal_scores_the_lower_labels_are_kept():
    emit = [[1.0, 2.0, 1.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0, 0.0]]
    pruned = tl.Trellis(emit).prune(0.0, 3)
    assert_array_equal(pruned.candidates.label_ids, [0, 1, 3, 0, 1, 2, 1, 2, 3])


@pytest.mark.parametrize("most", [None, 1, 2])
def test_pruned_after_constraints(most):
    trellis = random_trellis()
    allowed = np.random.default_rng(1).random((8, 6)) < 0.5
    allowed[:, 0] = True
    kept = best_of(np.where(allowed, trellis.emit, -np.inf), 0.2, most)
    assert_array_equal(trellis.constrain(allowed).prune(0.2, most).emit > -np.inf, kept)
    indptr = np.concatenate([[0], np.cumsum(allowed.sum(axis=1))])
    listed = tl.Trellis.from_candidates(
        trellis.emit[allowed], np.nonzero(allowed)[1], indptr, trellis.trans
    )
    assert_array_equal(listed.prune(0.2, most).emit > -np.inf, kept)


def test_sequence_without_a_path_keeps_all_labels():
    emit = [[9.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 0.0]]
    trellis = tl.Trellis(emit, [[-np.inf, 0.0], [0.0, 0.0]], offsets=[0, 2, 4])
    pruned = trellis.prune(0.5)
    assert_array_equal(pruned.emit > -np.inf, [[1, 1], [1, 1], [0, 1], [1, 0]])
    assert_array_equal(pruned.viterbi().path, trellis.viterbi().path)


def test_nothing_to_prune():
    states = tl.StateSpace.order(["A", "B"], 3)
    histories = tl.Trellis(np.zeros((3, 2)), states=states, weights=np.zeros(states.n_weights))
    assert histories.prune(0.5) is histories
    edges = tl.Trellis(np.zeros((3, 2)), edge=np.zeros((3, 2, 2)))
    assert edges.prune(0.5) is edges


def test_invalid_threshold():
    with raises(ParameterError, parameter="least", found="1.5"):
        random_trellis().prune(1.5)
    with raises(ParameterError, parameter="most", found="0"):
        random_trellis().prune(0.5, 0)
