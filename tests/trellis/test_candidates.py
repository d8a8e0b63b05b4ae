"""Candidate labels per position: the answers of enumeration and of the masked dense layout."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from candidates import check_by_enumeration, listed
from oracles import Chain
from tagloom import _native
from tagloom.errors import ParameterError, ShapeError, TagloomError
from tagloom.trellis import batches

FAR = np.array([0.0, -1.0, -5.0, -150.0, -300.0, -600.0, -750.0, -1500.0, -1e5, -np.inf])


def random_batch(rng, Y, lengths, *, share=0.4, dtype=np.float64, scale=1.0):
    """Return a trellis of candidates, and the dense one with −inf in place of other labels."""
    T = int(sum(lengths))
    offsets = np.cumsum([0, *lengths])
    mask = rng.random((T, Y)) < share
    mask[np.arange(T), rng.integers(0, Y, T)] = True
    emit = (scale * rng.normal(size=(T, Y))).astype(dtype)
    shared = [(scale * rng.normal(size=shape)).astype(dtype) for shape in ((Y, Y), Y, Y)]
    few = listed(mask, emit, *shared, offsets=offsets)
    dense = tl.Trellis(np.where(mask, emit, dtype(-np.inf)), *shared, offsets=offsets)
    return few, dense


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["ordinary", "far", "scattered"]))
def test_every_result_is_that_of_enumeration(seed, kind):
    rng = np.random.default_rng(seed)
    Y, lengths = 4, rng.integers(0, 6, 8)

    def scores(*shape):
        if kind == "far":
            return rng.choice(FAR, shape, p=[0.25, *[0.75 / (len(FAR) - 1)] * (len(FAR) - 1)])
        return rng.normal(size=shape) if kind == "ordinary" else -rng.exponential(300.0, shape)

    T, offsets = int(sum(lengths)), np.cumsum([0, *lengths])
    mask, emit = rng.random((T, Y)) < 0.6, scores(T, Y)
    trans, start, stop = scores(Y, Y), scores(Y), scores(Y)
    trellis = listed(mask, emit, trans, start, stop, offsets=offsets)
    masked = np.where(mask, emit, -np.inf)
    chains = [Chain(masked[lo:hi], trans, start, stop) for lo, hi in itertools.pairwise(offsets)]
    check_by_enumeration(trellis, chains)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.7])
def test_the_masked_dense_layout_gives_the_same(dtype, share):
    few, dense = random_batch(np.random.default_rng(3), 15, [*range(40)], share=share, dtype=dtype)
    tolerance = (
        {"rtol": 1e-10, "atol": 1e-11} if dtype == np.float64 else {"rtol": 2e-5, "atol": 2e-6}
    )
    assert_array_equal(few.emit, dense.emit)
    assert_array_equal(few.viterbi().path, dense.viterbi().path)
    assert_array_equal(few.viterbi().score, dense.viterbi().score)
    assert_allclose(
        few.log_partition(), dense.log_partition(), rtol=1e-6 if dtype == np.float32 else 1e-12
    )
    assert_allclose(few.marginals(), dense.marginals(), **tolerance)
    assert few.marginals().dtype == dtype
    assert_allclose(few.pair_marginals(), dense.pair_marginals(), **tolerance)
    assert_allclose(
        few.entropy(), dense.entropy(), rtol=1e-4 if dtype == np.float32 else 1e-9, atol=1e-9
    )
    for a, b in zip(few.expected_counts(), dense.expected_counts(), strict=True):
        assert_allclose(a, b, rtol=1e-4 if dtype == np.float32 else 1e-9, atol=1e-9)
    for a, b in zip(few.nbest(4), dense.nbest(4), strict=True):
        assert_array_equal(a.paths, b.paths)
        assert_array_equal(a.scores, b.scores)
    if dtype == np.float64:  # rounding decides where float32 and float64 differ
        assert_array_equal(few.sample(5, random_state=1), dense.sample(5, random_state=1))


def test_ties_go_to_the_lowest_label_from_the_end():
    mask = np.array([[True, True, False], [True, False, True], [False, True, True]])
    few = listed(mask, np.zeros((3, 3)), np.zeros((3, 3)))
    dense = tl.Trellis(np.where(mask, 0.0, -np.inf), np.zeros((3, 3)))
    assert_array_equal(few.viterbi().path, [0, 0, 1])
    assert_array_equal(few.nbest(8).paths, dense.nbest(8).paths)


def test_draws_have_the_probabilities_of_the_paths():
    few, _ = random_batch(np.random.default_rng(5), 6, [4], share=0.5)
    one = few[0]
    paths = one.sample(40_000, random_state=2)
    found, times = np.unique(paths, axis=0, return_counts=True)
    expected = np.exp([one.log_prob(path) for path in found])
    assert_allclose(times / 40_000, expected, atol=5 * np.sqrt(0.25 / 40_000))


def test_results_do_not_depend_on_the_number_of_threads():
    few, _ = random_batch(np.random.default_rng(6), 20, [30] * 200, share=0.1)
    results = []
    for n_threads in (1, 4):
        few.n_threads = n_threads
        results.append([*few.expected_counts(), few.candidate_marginals(), few.entropy()])
    for a, b in zip(*results, strict=True):
        assert_array_equal(a, b)


def test_counts_and_marginals_in_one_pass():
    few, dense = random_batch(np.random.default_rng(7), 9, [5, 0, 8], share=0.3)
    of_candidates, of_labels = np.empty_like(few.candidates.scores), np.empty(few.emit.shape)
    counts = few.expected_counts(marginals=of_candidates)
    few.expected_counts(marginals=of_labels)
    assert_allclose(of_labels, dense.marginals(), atol=1e-12)
    position = few.candidates.positions
    assert_array_equal(of_candidates, of_labels[position, few.candidates.label_ids])
    assert_array_equal(of_candidates, few.candidate_marginals())
    assert_allclose(counts.labels, of_labels.sum(axis=0))
    with pytest.raises(ShapeError) as error:
        few.expected_counts(marginals=np.empty(3))
    assert error.value.parameter == "marginals"
    with pytest.raises(ShapeError) as error:
        few.expected_counts(marginals=np.empty(of_labels.shape, dtype=np.float32))
    assert error.value.parameter == "marginals"


def test_vanishing_probabilities_do_not_need_log_space():
    """What EM drives to zero is dropped where the total provably stays the same."""
    rng = np.random.default_rng(8)
    few, dense = random_batch(rng, 12, [25] * 40, share=0.3)
    trans = np.where(rng.random((12, 12)) < 0.5, -rng.choice([300.0, 800.0, 5000.0], (12, 12)), 0.0)
    few = tl.Trellis.from_candidates(
        few.candidates.scores, few.candidates.label_ids, few.candidates.indptr, trans,
        offsets=few.offsets,
    )  # fmt: skip
    log_z = np.empty(40)
    redone = few._batch.native_candidates.sum(*few.listed_transitions, 1, log_z)
    assert redone < 10
    assert_allclose(log_z, tl.Trellis(dense.emit, trans, offsets=dense.offsets).log_partition())


def test_other_state_spaces_and_edges_answer_too():
    """The layout of candidates is for labels as states; others use the dense layout or more."""
    few, dense = random_batch(np.random.default_rng(9), 4, [6, 3], share=0.5)
    space = tl.StateSpace.order(4, 2)
    arguments = few.candidates.scores, few.candidates.label_ids, few.candidates.indptr
    second = tl.Trellis.from_candidates(*arguments, few.trans, states=space, offsets=few.offsets)
    judge = tl.Trellis(dense.emit, dense.trans, states=space, offsets=dense.offsets)
    assert_allclose(second.log_partition(), judge.log_partition())
    gamma = judge.marginals()[few.candidates.positions, few.candidates.label_ids]
    assert_allclose(second.candidate_marginals(), gamma)
    assert_array_equal(second.viterbi().path, judge.viterbi().path)
    for method in ("forward", "backward", "state_marginals", "is_feasible", "count_paths"):
        assert_allclose(getattr(few, method)(), getattr(dense, method)())
    assert_allclose(few.pair_marginals(2), dense.pair_marginals(2))
    assert_array_equal(few.nbest(300)[0].paths, dense.nbest(300)[0].paths)


def test_parts_of_a_batch_keep_their_candidates():
    few, dense = random_batch(np.random.default_rng(10), 7, [3, 0, 5, 2], share=0.4)
    assert_array_equal(few[2].emit, dense[2].emit)
    assert_array_equal(few[1:3].candidates.dense(7), dense[1:3].emit)
    assert_array_equal(few[::2].emit, dense[::2].emit)
    assert_array_equal(few[::2].viterbi().path, dense[::2].viterbi().path)
    assert_allclose(few.tempered(2.0).log_partition(), dense.tempered(2.0).log_partition())
    copy = pickle.loads(pickle.dumps(few))
    assert_array_equal(copy.candidate_marginals(), few.candidate_marginals())
    assert few.astype(np.float32).candidate_marginals().dtype == np.float32
    shut = few.constrain(forbidden={(0, 0): range(7)})
    assert shut.candidates is not None
    assert_array_equal(shut.is_feasible(), [False, True, True, True])


def test_constrain_lists_the_candidates_of_a_sparse_mask(monkeypatch):
    rng = np.random.default_rng(11)
    trellis = tl.Trellis(rng.normal(size=(60, 30)), rng.normal(size=(30, 30)), offsets=[0, 25, 60])
    mask = rng.random((60, 30)) < 0.1
    mask[:, 0] = True
    few = trellis.constrain(mask)
    assert few.candidates is not None
    assert trellis.constrain(forbidden={(0, 0): 1}).candidates is None
    with monkeypatch.context() as m:
        m.setattr(batches, "_LEAST_PAIRS", 10**9)
        dense = trellis.constrain(mask)
    assert dense.candidates is None
    assert_array_equal(few.viterbi().path, dense.viterbi().path)
    assert_allclose(few.log_partition(), dense.log_partition(), rtol=1e-13)
    assert_allclose(few.marginals(), dense.marginals(), atol=1e-13)
    second = tl.StateSpace.order(30, 2)
    wide = tl.Trellis(rng.normal(size=(60, 30)), states=second)
    assert wide.constrain(mask).candidates is None


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"label_ids": [0, 3, 1]}, "where", "label_ids[1]"),
        ({"label_ids": [1, 0, 1]}, "where", "label_ids[0:2]"),
        ({"label_ids": [1, 1, 1]}, "where", "label_ids[0:2]"),
        ({"label_ids": [0.0, 1.0, 1.0]}, "parameter", "label_ids"),
        ({"label_ids": [0, 1]}, "parameter", "label_ids"),
        ({"scores": [0.0, np.nan, 0.0]}, "where", "scores[1]"),
        ({"indptr": [0, 2]}, "parameter", "indptr"),
        ({"indptr": [0, 3, 2, 3]}, "parameter", "indptr"),
        ({"trans": np.zeros((2, 3))}, "parameter", "trans"),
        ({"offsets": [0, 1]}, "parameter", "offsets"),
    ],
)
def test_wrong_arguments_are_named(changes, field, value):
    arguments = {
        "scores": [0.0, 1.0, 2.0],
        "label_ids": [0, 1, 1],
        "indptr": [0, 2, 3],
        "trans": np.zeros((2, 2)),
    }
    with pytest.raises(TagloomError) as error:
        tl.Trellis.from_candidates(**arguments | changes)
    assert getattr(error.value, field) == value


def test_marginals_of_candidates_need_candidates():
    with pytest.raises(ParameterError) as error:
        tl.Trellis(np.zeros((2, 2))).candidate_marginals()
    assert error.value.where == "candidate_marginals"


def test_the_native_layout_refuses_what_would_read_outside_its_arrays():
    dense = _native.Dense(2, 1, None, None, None)
    wide = _native.Dense(3, 1, None, None, None)
    of_three = _native.TrigramScores(_native.Trigrams(3, np.zeros((1, 3), np.int32)), None)
    rows, ids = np.array([0, 1, 2]), np.array([0, 1], dtype=np.int32)
    scores, offsets = np.zeros(2), np.array([0, 2])
    few = _native.Candidates(rows, ids, scores, offsets, 2)
    for wrong in (
        lambda: _native.Candidates(rows, ids + 1, scores, offsets, 2),
        lambda: _native.Candidates(rows, ids, np.zeros(3), offsets, 2),
        lambda: _native.Candidates(rows, ids, scores, np.array([0, 3]), 2),
        lambda: few.viterbi(wide, None, 1, np.empty(2, dtype=np.int32), np.empty(1)),
        lambda: few.viterbi(dense, None, 1, np.empty(1, dtype=np.int32), np.empty(1)),
        lambda: few.sum(dense, None, 1, np.empty(2)),
        lambda: few.sum(dense, None, 1, np.empty(1), candidates=np.empty(1)),
        lambda: few.sum(dense, None, 1, np.empty(1), marginals=np.empty((2, 3))),
        lambda: few.sample(
            dense, None, 1, np.empty((1, 1)), np.empty((1, 2), dtype=np.int32), np.empty(1)
        ),
        lambda: few.entropy(dense, None, 1, np.empty(2), np.empty(1)),
        lambda: few.path_score(dense, None, np.array([0, 2], np.int32), np.empty(1)),
        lambda: few.path_score(dense, None, np.zeros(3, np.int32), np.empty(1)),
        lambda: few.sum(dense, None, 1, np.empty(1), trigram_counts=np.empty(1)),
        lambda: few.entropy(dense, of_three, 1, np.empty(1), np.empty(1)),
    ):
        with pytest.raises(ValueError):
            wrong()
