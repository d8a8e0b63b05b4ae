"""A batch is its sequences, whatever their lengths, order and number of threads."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from raising import raises
from strategies import SPACES, Case, cases
from tagloom.trellis import log_partition_grad

anything = st.one_of(cases(), cases(spaces=SPACES))

RESULTS = {
    "viterbi path": lambda trellis: trellis.viterbi().path,
    "viterbi score": lambda trellis: trellis.viterbi().score,
    "log_partition": lambda trellis: trellis.log_partition(),
    "marginals": lambda trellis: trellis.marginals(),
    "pair_marginals": lambda trellis: trellis.pair_marginals(),
    "pair_marginals(2)": lambda trellis: trellis.pair_marginals(2),
    "posterior path": lambda trellis: trellis.posterior_decode().path,
    "confidence": lambda trellis: trellis.posterior_decode().confidence,
    "forward": lambda trellis: trellis.forward(),
    "backward": lambda trellis: trellis.backward("max-plus"),
    "entropy": lambda trellis: trellis.entropy(),
    "nbest paths": lambda trellis: np.concatenate([b.paths.ravel() for b in trellis.nbest(3)]),
    "nbest probs": lambda trellis: np.concatenate([b.probs for b in trellis.nbest(3)]),
    "labels": lambda trellis: trellis.expected_counts().labels,
    "transitions": lambda trellis: trellis.expected_counts().transitions,
    "start": lambda trellis: trellis.expected_counts().start,
    "stop": lambda trellis: trellis.expected_counts().stop,
    "weights": lambda trellis: trellis.expected_counts().weights,
    "log_prob_of": lambda trellis: trellis.log_prob_of(trellis.emit > -0.5),
    "path_score": lambda trellis: trellis.path_score(trellis.viterbi().path),
    "log_prob": lambda trellis: trellis.log_prob(trellis.viterbi().path),
    "sample": lambda trellis: trellis.sample(3, random_state=3),
    "is_feasible": lambda trellis: trellis.is_feasible(),
}


@settings(max_examples=50)
@given(anything)
def test_a_batch_is_a_loop_over_its_sequences(case):
    batch = case.batch()
    assert batch.is_batch
    assert len(batch) == len(case.emits)
    assert_array_equal(batch.lengths, [len(emit) for emit in case.emits])
    singles = [case.single(i) for i in range(len(case.emits))]
    log_z = batch.log_partition()
    best = batch.viterbi(on_infeasible="none")
    paths = batch.split(best.path)
    gamma = batch.split(batch.marginals(on_infeasible="none"))
    for i, (single, item) in enumerate(zip(singles, batch, strict=True)):
        for one in (single, item, batch[i]):
            assert not one.is_batch
            assert_array_equal(one.emit, case.emits[i])
            assert_allclose(one.log_partition(), log_z[i], **case.close)
            assert_array_equal(one.viterbi(on_infeasible="none").path, paths[i])
            assert_allclose(one.viterbi(on_infeasible="none").score, best.score[i], **case.close)
            assert_allclose(one.marginals(on_infeasible="none"), gamma[i], **case.close)


def ragged(space, with_edge, dtype, N=300, Y=5, longest=90):
    """A batch with empty and long sequences, large enough that threads are worth their while."""
    rng = np.random.default_rng(4)
    states = {
        None: lambda: None,
        "order": lambda: tl.StateSpace.order(Y, 2),
        "run": lambda: tl.StateSpace.run_length(Y, 1, 3),
    }[space]()
    lengths = rng.integers(0, longest, N)
    return {
        "emit": rng.standard_normal((lengths.sum(), Y)).astype(dtype),
        "trans": rng.standard_normal((Y, Y)),
        "start": rng.standard_normal(Y),
        "stop": rng.standard_normal(Y),
        "edge": rng.standard_normal((lengths.sum(), Y, Y)) if with_edge else None,
        "offsets": np.cumsum([0, *lengths]),
        "states": states,
        "weights": rng.standard_normal(states.n_weights) if states is not None else None,
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("space", "with_edge", "size"),
    [
        (None, False, {"N": 110, "Y": 16}),
        (None, True, {"N": 110, "Y": 16}),
        ("order", False, {"N": 200}),
        ("order", True, {"N": 60}),
        ("run", False, {"N": 100}),
        ("run", True, {"N": 100}),
    ],
)
def test_threads_do_not_change_a_single_bit(space, size, with_edge, dtype):
    arrays = ragged(space, with_edge, dtype, **size)
    trellises = [tl.Trellis(**arrays, n_threads=n) for n in (1, 2, 3)]
    for name, result in RESULTS.items():
        one, two, three = (result(trellis) for trellis in trellises)
        assert_array_equal(one, two, err_msg=name)
        assert_array_equal(one, three, err_msg=name)


@pytest.mark.parametrize("space", [None, "order", "run"])
def test_viterbi_paths_do_not_depend_on_the_batch(space):
    arrays = ragged(space, False, np.float32)
    batch = tl.Trellis(**arrays)
    alone = [trellis.viterbi().path for trellis in batch]
    assert_array_equal(batch.viterbi().path, np.concatenate(alone))


@pytest.mark.parametrize("space", [None, "order", "run"])
def test_a_trellis_may_be_shared_between_threads_of_the_caller(space):
    arrays = ragged(space, False, np.float64, N=100)
    names = ["viterbi path", "marginals", "log_partition", "entropy", "sample", "labels"] * 3
    expected = {name: RESULTS[name](tl.Trellis(**arrays)) for name in names}
    shared = tl.Trellis(**arrays, n_threads=2)  # nothing computed yet, nothing cached
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda name: RESULTS[name](shared), names))
    for name, result in zip(names, found, strict=True):
        assert_array_equal(result, expected[name], err_msg=name)


def test_stack_takes_a_list_of_arrays():
    rng = np.random.default_rng(2)
    emits = [rng.standard_normal((T, 3)) for T in (2, 0, 4)]
    edges = [rng.standard_normal((T, 3, 3)) for T in (2, 0, 4)]
    trans = rng.standard_normal((3, 3))
    stacked = tl.Trellis.stack(emits, trans, edge=edges)
    flat = tl.Trellis(
        np.concatenate(emits), trans, edge=np.concatenate(edges), offsets=[0, 2, 2, 6]
    )
    assert_array_equal(stacked.offsets, [0, 2, 2, 6])
    assert_array_equal(stacked.log_partition(), flat.log_partition())
    parts = stacked.split(stacked.emit)
    assert [len(part) for part in parts] == [2, 0, 4]
    assert all(np.shares_memory(part, stacked.emit) for part in parts if len(part))


def test_an_empty_batch_gives_empty_results():
    trellis = tl.Trellis(np.zeros((0, 3)), offsets=[0])
    assert len(trellis) == 0
    assert list(trellis) == []
    assert trellis.log_partition().shape == (0,)
    assert trellis.viterbi().path.shape == (0,)
    assert trellis.viterbi().score.shape == (0,)
    assert trellis.marginals().shape == (0, 3)
    assert trellis.nbest(2) == []
    assert trellis.count_paths() == []
    assert trellis.is_feasible().shape == (0,)
    assert trellis.entropy().shape == (0,)
    assert trellis.sample(5, random_state=0).shape == (5, 0)
    assert trellis.reduce(tl.semirings.COUNTING) == []
    assert not trellis.expected_counts().transitions.any()


def test_a_batch_of_empty_sequences():
    trellis = tl.Trellis(np.zeros((0, 3)), offsets=[0, 0, 0])
    assert_array_equal(trellis.log_partition(), [0.0, 0.0])
    assert trellis.count_paths() == [1, 1]
    assert_array_equal(trellis.viterbi().score, [0.0, 0.0])
    assert_array_equal(trellis.entropy(), [0.0, 0.0])


def test_one_infeasible_sequence_does_not_spoil_the_others():
    good = np.array([[1.0, 0.0], [0.0, 2.0]])
    bad = np.full((2, 2), -np.inf)
    trellis = tl.Trellis.stack([good, bad, good])
    best = trellis.viterbi(on_infeasible="none")
    assert_array_equal(best.path, [0, 1, -1, -1, 0, 1])
    assert_array_equal(best.score, [3.0, -math.inf, 3.0])
    gamma = trellis.marginals(on_infeasible="none")
    assert_allclose(gamma.sum(axis=1), [1, 1, 0, 0, 1, 1])
    assert [len(b.scores) for b in trellis.nbest(2)] == [2, 0, 2]
    posterior = trellis.posterior_decode(on_infeasible="none")
    assert_array_equal(posterior.path, [0, 1, -1, -1, 0, 1])
    assert_array_equal(trellis.is_feasible(), [True, False, True])


def test_row_zero_of_edge_is_not_used():
    """Even forbidden there, edge says nothing about a first position."""
    rng = np.random.default_rng(9)
    emits = [rng.standard_normal((T, 3)) for T in (3, 1, 2)]
    edges = [rng.standard_normal((T, 3, 3)) for T in (3, 1, 2)]
    plain = Case(emits, edges=edges).batch()
    for edge in edges:
        edge[0] = -np.inf
    blocked = Case(emits, edges=edges).batch()
    assert_array_equal(plain.log_partition(), blocked.log_partition())
    assert_array_equal(plain.viterbi().path, blocked.viterbi().path)
    assert_array_equal(plain.marginals(), blocked.marginals())


def test_attributes_say_what_the_trellis_is():
    single = tl.Trellis(np.zeros((2, 3), np.float32), labels=["D", "N", "V"], n_threads=2)
    assert (single.n_labels, single.n_threads, single.dtype) == (3, 2, np.float32)
    assert tuple(single.labels) == ("D", "N", "V")
    assert_array_equal(single.lengths, [2])
    assert_array_equal(single.offsets, [0, 2])
    assert single.states.n_states == 3
    named = tl.Trellis(
        np.zeros((4, 2)), offsets=[0, 1, 4], states=tl.StateSpace.order(["a", "b"], 2)
    )
    assert tuple(named.labels) == ("a", "b")  # those of the states, unless told otherwise
    assert named[1].path_score(["a", "b", "a"]) == 0.0
    assert named.states.n_states == named[0].states.n_states == 6


def test_other_scores_for_the_same_transitions():
    rng = np.random.default_rng(7)
    trans, start, stop = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)
    model = tl.Trellis(np.empty((0, 3)), trans, start, stop, labels=list("abc"), offsets=[0])
    for edge in (None, rng.normal(size=(9, 3, 3))):
        emit, offsets = rng.normal(size=(9, 3)), [0, 4, 4, 9]
        fresh = tl.Trellis(emit, trans, start, stop, edge=edge, offsets=offsets, labels=list("abc"))
        shared = model.with_scores(emit, edge=edge, offsets=offsets)
        np.testing.assert_array_equal(shared.viterbi().path, fresh.viterbi().path)
        np.testing.assert_array_equal(shared.marginals(), fresh.marginals())
        np.testing.assert_array_equal(shared.nbest(2)[0].scores, fresh.nbest(2)[0].scores)
        assert shared.labels == fresh.labels
    assert not model.with_scores(emit).is_batch
    for ours, theirs in zip(model.label_transitions, (trans, start, stop), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    second = tl.Trellis(np.zeros((2, 3)), states=tl.StateSpace.order(3, 2))
    with raises(tl.errors.ShapeError, where="transitions", found="StateSpace.order"):
        _ = second.label_transitions
    with raises(tl.errors.ShapeError, parameter="emit", expected="Y = 3", found="(2, 4)"):
        model.with_scores(np.zeros((2, 4)))
    with raises(tl.errors.ScoreError, where="emit[0, 1]", found="nan"):
        model.with_scores([[0.0, np.nan, 1.0]])
    with raises(tl.errors.ShapeError, parameter="edge", expected="(T, Y, Y)"):
        model.with_scores(np.zeros((2, 3)), edge=np.zeros((2, 3)))


def as_it_is(shape):
    return np.full(shape, np.nan)


def as_float32(shape):
    return np.full(shape, np.nan, dtype=np.float32)


def every_second_column(shape):
    return np.full((shape[0], 2 * shape[1]), np.nan)[:, ::2]


@pytest.mark.parametrize("make", [as_it_is, as_float32, every_second_column])
def test_marginals_go_into_an_array_of_the_caller(make):
    scores = np.random.default_rng(0).standard_normal((7, 3))
    scores[5:] = -np.inf
    batch = tl.Trellis(scores, np.ones((3, 3)), offsets=[0, 1, 5, 7])
    out = make(scores.shape)
    assert batch.marginals(on_infeasible="none", out=out) is out
    assert_allclose(out, batch.marginals(on_infeasible="none"), rtol=1e-6)
    assert not out[5:].any()


def test_marginals_may_replace_the_scores():
    scores = np.random.default_rng(0).standard_normal((40, 3))
    offsets = np.arange(0, 41, 4)
    expected = tl.Trellis(scores.copy(), np.ones((3, 3)), offsets=offsets).marginals()
    tl.Trellis(scores, np.ones((3, 3)), offsets=offsets).marginals(out=scores)
    assert_array_equal(scores, expected)


def test_results_may_go_over_scores_that_are_still_read():
    rng = np.random.default_rng(0)
    emit, trans, edge = (rng.standard_normal(shape) for shape in ((4, 4), (4, 4), (4, 4, 4)))
    expected = tl.Trellis(emit, trans, edge=edge).marginals()
    over_edge = edge.copy()
    rows = over_edge.reshape(16, 4)[8:12]
    assert_array_equal(tl.Trellis(emit, trans, edge=over_edge).marginals(out=rows), expected)
    pairs, over_edge = np.empty_like(edge), edge.copy()
    log_z = log_partition_grad([0, 4], emit, trans, edge=edge, grad_edge=pairs)
    again = log_partition_grad([0, 4], emit, trans, edge=over_edge, grad_edge=over_edge)
    assert_array_equal(again, log_z)
    assert_array_equal(over_edge, pairs)


def test_a_batch_of_many_windows_is_a_loop_too():
    """Sequences are sorted by length some hundreds at a time; here they are 1,300, some empty."""
    rng = np.random.default_rng(0)
    lengths = rng.choice([0, 1, 2, 3, 9, 300], 1300, p=[0.1, 0.3, 0.3, 0.2, 0.09, 0.01])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    batch = tl.Trellis(
        rng.standard_normal((offsets[-1], 4)), rng.standard_normal((4, 4)), offsets=offsets
    )
    best, marginals = batch.viterbi(), batch.marginals()
    assert_array_equal(best.path, np.concatenate([one.viterbi().path for one in batch]))
    assert_allclose(best.score, [one.viterbi().score for one in batch], rtol=1e-12)
    assert_allclose(marginals, np.concatenate([one.marginals() for one in batch]), atol=1e-12)
