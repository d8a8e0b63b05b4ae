"""Every operation equals the sum, or the maximum, over all paths listed one by one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from raising import raises
from strategies import SPACES, cases
from tagloom.errors import InfeasibleError

# Half of the cases go through the dense first-order kernels, half through the automata.
anything = st.one_of(cases(), cases(spaces=SPACES))


def assert_best(case, chain, path, score):
    """The path is the best one; exactly, by the tie rule, where the scores are integers."""
    expected, top = chain.best()
    if case.look == "integers":
        assert (tuple(path), score) == (expected, top)
        return
    assert_allclose(score, top, **case.close)
    assert_allclose(chain.path_score(path), top, **case.close)
    (_, second) = chain.nbest(2)[-1]
    if top - second > 10 * case.close["atol"]:
        assert tuple(path) == expected


@given(anything)
def test_viterbi_finds_the_best_path(case):
    trellis = case.batch()
    best = trellis.viterbi(on_infeasible="none")
    assert best.path.dtype == np.int32
    assert best.score.dtype == np.float64
    for chain, path, score in zip(case.chains, trellis.split(best.path), best.score, strict=True):
        if chain.paths:
            assert_best(case, chain, path, score)
        else:
            assert_array_equal(path, np.full(chain.T, -1))
            assert score == -math.inf


@given(anything, st.integers(1, 8))
def test_nbest_lists_the_best_paths_in_order(case, n):
    for chain, found in zip(case.chains, case.batch().nbest(n), strict=True):
        expected = chain.nbest(n)
        k = len(expected)
        assert found.paths.shape == (k, chain.T)
        assert found.paths.dtype == np.int32
        assert found.scores.dtype == found.probs.dtype == np.float64
        assert len({tuple(path) for path in found.paths}) == k
        assert_allclose(found.scores, [score for _, score in expected], **case.close)
        assert_allclose([chain.path_score(p) for p in found.paths], found.scores, **case.close)
        if case.look == "integers":
            assert [tuple(path) for path in found.paths] == [path for path, _ in expected]
        probs = dict(chain.probs()) if k else {}
        assert_allclose(found.probs, [probs[tuple(path)] for path in found.paths], **case.close)


@given(anything)
def test_nbest_of_more_paths_than_there_are_lists_them_all(case):
    for chain, found in zip(case.chains, case.batch().nbest(500), strict=True):
        assert sorted(map(tuple, found.paths)) == [path for path, _ in chain.paths]
        if chain.paths:
            assert_allclose(found.probs.sum(), 1.0, **case.close)


@given(anything)
def test_log_partition_sums_all_paths(case):
    log_z = case.batch().log_partition()
    assert log_z.dtype == np.float64
    assert_allclose(log_z, [chain.log_partition() for chain in case.chains], **case.close)


@given(anything)
def test_marginals_sum_the_paths_through_each_label(case):
    trellis = case.batch()
    gamma = trellis.marginals(on_infeasible="none")
    assert gamma.dtype == case.dtype
    assert np.all(gamma >= 0)
    for chain, found in zip(case.chains, trellis.split(gamma), strict=True):
        expected = chain.marginals() if chain.paths else np.zeros((chain.T, chain.Y))
        assert_allclose(found, expected, **case.close)
        assert_array_equal(found[expected == 0], 0.0)  # forbidden is exactly zero


@given(anything, st.integers(1, 4))
def test_pair_marginals_at_any_distance(case, distance):
    trellis = case.batch()
    xi = trellis.pair_marginals(distance, on_infeasible="none")
    assert xi.shape == (case.offsets[-1], trellis.n_labels, trellis.n_labels)
    for chain, found in zip(case.chains, trellis.split(xi), strict=True):
        assert_allclose(found, chain.pair_marginals(distance), **case.close)


@given(anything)
def test_posterior_decoding_takes_the_likeliest_label_at_each_position(case):
    trellis = case.batch()
    posterior = trellis.posterior_decode(on_infeasible="none")
    gamma = trellis.marginals(on_infeasible="none")
    assert posterior.path.dtype == np.int32
    for chain, path, confidence, own in zip(
        case.chains,
        trellis.split(posterior.path),
        trellis.split(posterior.confidence),
        trellis.split(gamma),
        strict=True,
    ):
        if not chain.paths:
            assert_array_equal(path, np.full(chain.T, -1))
            assert_array_equal(confidence, np.zeros(chain.T))
            continue
        assert_array_equal(path, own.argmax(axis=1))  # argmax takes the lowest of equals
        expected = chain.marginals()
        assert_allclose(confidence, expected.max(axis=1), **case.close)
        chosen = np.take_along_axis(expected, np.asarray(path, int)[:, None], axis=1)[:, 0]
        assert_allclose(chosen, expected.max(axis=1), **case.close)


@given(anything)
def test_expected_counts_are_summed_over_the_batch(case):
    counts = case.batch().expected_counts(on_infeasible="none")
    expected = [chain.expected_counts() for chain in case.chains]
    for name in ("labels", "transitions", "start", "stop", "weights"):
        found = getattr(counts, name)
        assert found.dtype == np.float64
        total = sum(getattr(one, name) for one in expected)
        assert_allclose(found, total, **case.close, err_msg=name)


@given(anything)
def test_entropy(case):
    found = case.batch().entropy(on_infeasible="none")
    # −Σ p log p adds a term of size log p per path, so the error grows with the scores' spread.
    close = {"rtol": case.close["rtol"], "atol": 20 * case.close["atol"]}
    assert_allclose(found, [chain.entropy() for chain in case.chains], **close)


@given(anything, st.integers(0, 2**32 - 1))
def test_path_score_and_log_prob_of_any_path(case, seed):
    rng = np.random.default_rng(seed)
    trellis = case.batch()
    paths = [rng.integers(0, chain.Y, chain.T) for chain in case.chains]
    flat = np.concatenate(paths)
    expected = [chain.path_score(path) for chain, path in zip(case.chains, paths, strict=True)]
    log_probs = [chain.log_prob(path) for chain, path in zip(case.chains, paths, strict=True)]
    for given_path in (flat, paths, [path.tolist() for path in paths]):
        assert_allclose(trellis.path_score(given_path), expected, **case.close)
        assert_allclose(trellis.log_prob(given_path), log_probs, **case.close)


@given(anything)
def test_path_score_of_every_allowed_path(case):
    for i, chain in enumerate(case.chains):
        trellis = case.single(i)
        for path, score in chain.paths[:: max(1, len(chain.paths) // 20)]:
            assert_allclose(trellis.path_score(path), score, **case.close)


@given(anything, st.integers(0, 2**32 - 1))
def test_log_prob_of_a_partial_labelling(case, seed):
    rng = np.random.default_rng(seed)
    trellis = case.batch()
    masks = [rng.random((chain.T, chain.Y)) < 0.7 for chain in case.chains]
    found = trellis.log_prob_of(np.concatenate(masks))
    expected = [chain.log_prob_of(mask) for chain, mask in zip(case.chains, masks, strict=True)]
    assert_allclose(found, expected, **case.close)


@given(anything)
def test_feasibility_and_number_of_paths(case):
    trellis = case.batch()
    counts = trellis.count_paths()
    assert counts == [len(chain.paths) for chain in case.chains]
    assert all(type(count) is int for count in counts)
    assert_array_equal(trellis.is_feasible(), [bool(chain.paths) for chain in case.chains])


@given(anything)
def test_forward_and_backward_meet_at_every_position(case):
    """Exercise 9: ⊕_s alpha[t, s] ⊗ beta[t, s] is the total, whatever t."""
    trellis = case.batch()
    labels = np.arange(case.n_labels) if case.states is None else case.states.state_labels
    for semiring, total in (("log-plus", log_partition_of), ("max-plus", best_score_of)):
        alpha, beta = trellis.forward(semiring), trellis.backward(semiring)
        assert alpha.dtype == beta.dtype == np.float64
        assert alpha.shape == beta.shape == (case.offsets[-1], len(labels))
        for chain, a, b in zip(case.chains, trellis.split(alpha), trellis.split(beta), strict=True):
            plus = np.logaddexp.reduce if semiring == "log-plus" else np.maximum.reduce
            assert_allclose(plus(a + b, axis=1), np.full(chain.T, total(chain)), **case.close)
            if chain.T:
                final = [True] * len(labels) if case.states is None else case.states.final
                stop = np.where(final, np.asarray(chain.stop)[labels], -math.inf)
                assert_allclose(b[-1], stop, **case.close)
                log_start = [chain.enter[y][0] for y in chain.enter]
                assert np.all(np.isneginf(np.delete(a[0], log_start)))


def log_partition_of(chain):
    return chain.log_partition()


def best_score_of(chain):
    return chain.best()[1] if chain.paths else -math.inf


@given(cases(n=1))
def test_a_single_sequence_gives_plain_values(case):
    trellis, (chain,) = case.single(), case.chains
    assert not trellis.is_batch
    assert type(trellis.log_partition()) is float
    assert_allclose(trellis.log_partition(), chain.log_partition(), **case.close)
    assert type(trellis.is_feasible()) is bool
    assert trellis.is_feasible() == bool(chain.paths)
    assert trellis.count_paths() == len(chain.paths)
    best = trellis.viterbi(on_infeasible="none")
    assert type(best.score) is float
    assert best.path.shape == (chain.T,)
    assert trellis.marginals(on_infeasible="none").shape == (chain.T, chain.Y)
    assert len(trellis.nbest(3).scores) == min(3, len(chain.paths))
    if chain.paths:
        assert_best(case, chain, best.path, best.score)
        assert type(trellis.entropy()) is float
        assert type(trellis.path_score(best.path)) is float
        assert type(trellis.log_prob(best.path)) is float
        assert type(trellis.log_prob_of(np.ones((chain.T, chain.Y), bool))) is float
        assert_allclose(trellis.log_prob_of(np.ones((chain.T, chain.Y), bool)), 0.0, **case.close)


def test_counting_is_exact_far_beyond_a_float():
    assert tl.Trellis(np.zeros((100, 4))).count_paths() == 4**100
    trans = np.array([[0.0, 0.0], [0.0, -np.inf]])  # no label 1 twice in a row: Fibonacci
    fibonacci = [1, 2]
    while len(fibonacci) <= 300:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    assert tl.Trellis(np.zeros((300, 2)), trans).count_paths() == fibonacci[300]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [-3e4, 3e4])
def test_a_shift_of_all_scores_transitions_only_the_total(dtype, offset):
    rng = np.random.default_rng(5)
    emit, trans = rng.integers(-3, 4, (6, 3)), rng.integers(-3, 4, (3, 3))
    plain = tl.Trellis(emit.astype(dtype), trans)
    moved = tl.Trellis((emit + offset).astype(dtype), trans)  # exact in float32: integers
    assert_array_equal(plain.viterbi().path, moved.viterbi().path)
    assert moved.viterbi().score == plain.viterbi().score + 6 * offset
    assert_allclose(moved.log_partition(), plain.log_partition() + 6 * offset, rtol=1e-7)
    assert_allclose(moved.marginals(), plain.marginals(), rtol=2e-5)
    assert_allclose(moved.entropy(), plain.entropy(), rtol=2e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("T", [1, 2, 7])
def test_one_path_has_all_the_probability(dtype, T):
    path = np.arange(T) % 3
    emit = np.full((T, 3), -np.inf, dtype)
    emit[np.arange(T), path] = 7.5
    trellis = tl.Trellis(emit)
    assert trellis.log_partition() == pytest.approx(7.5 * T, rel=1e-6)
    assert_array_equal(trellis.viterbi().path, path)
    assert_array_equal(trellis.marginals(), np.eye(3)[path])
    assert trellis.entropy() == pytest.approx(0.0, abs=1e-5)
    assert trellis.count_paths() == 1
    assert_array_equal(trellis.nbest(4).paths, [path])
    assert_array_equal(trellis.sample(3, random_state=0), [path] * 3)


def test_an_empty_sequence_has_one_empty_path():
    trellis = tl.Trellis(np.zeros((0, 3)), start=np.full(3, -np.inf), stop=np.full(3, -np.inf))
    assert trellis.log_partition() == 0.0
    assert trellis.is_feasible() is True
    assert trellis.count_paths() == 1
    assert trellis.viterbi().path.shape == (0,)
    assert trellis.viterbi().score == 0.0
    assert trellis.marginals().shape == (0, 3)
    assert trellis.pair_marginals().shape == (0, 3, 3)
    assert trellis.entropy() == 0.0
    assert trellis.sample(4, random_state=1).shape == (4, 0)
    assert trellis.path_score([]) == 0.0
    assert trellis.log_prob([]) == 0.0
    assert trellis.nbest(3).paths.shape == (1, 0)
    assert_array_equal(trellis.nbest(3).probs, [1.0])
    assert trellis.posterior_decode().path.shape == (0,)
    assert trellis.forward().shape == trellis.backward().shape == (0, 3)
    for name in ("labels", "transitions", "start", "stop"):
        assert not getattr(trellis.expected_counts(), name).any()


def test_no_path_at_all_is_never_a_nan():
    trellis = tl.Trellis(np.zeros((3, 2)), trans=np.full((2, 2), -np.inf))
    assert trellis.log_partition() == -math.inf
    assert trellis.is_feasible() is False
    assert trellis.count_paths() == 0
    assert trellis.nbest(2).paths.shape == (0, 3)
    assert trellis.path_score([0, 0, 0]) == -math.inf
    assert trellis.log_prob([0, 0, 0]) == -math.inf
    assert trellis.log_prob_of(np.ones((3, 2), bool)) == -math.inf
    assert trellis.entropy(on_infeasible="none") == 0.0
    assert_array_equal(trellis.pair_marginals(on_infeasible="none"), np.zeros((3, 2, 2)))
    assert_array_equal(trellis.sample(2, 0, on_infeasible="none"), np.full((2, 3), -1))
    assert not trellis.expected_counts(on_infeasible="none").transitions.any()
    assert_array_equal(trellis.viterbi(on_infeasible="none").path, [-1, -1, -1])
    assert_array_equal(trellis.marginals(on_infeasible="none"), np.zeros((3, 2)))
    assert not np.isnan(trellis.forward()).any()
    assert not np.isnan(trellis.backward()).any()


def test_integers_are_taken_as_float64():
    trellis = tl.Trellis(np.array([[1, 2], [3, 4]]))
    assert trellis.dtype == np.float64
    assert trellis.viterbi().score == 6.0


def test_other_arrays_follow_the_dtype_of_emit():
    trellis = tl.Trellis(np.zeros((2, 2), np.float32), np.ones((2, 2)), start=np.ones(2))
    assert trellis.dtype == trellis.trans.dtype == trellis.start.dtype == np.float32
    assert trellis.marginals().dtype == np.float32


@pytest.mark.parametrize("stand_in", [-1e9, -1e16, -1e30])
@pytest.mark.parametrize("kind", [None, "run"])
def test_marginals_stay_probabilities_beside_stand_ins_for_minus_infinity(kind, stand_in):
    """Where no path avoids −1e16, sums lose all digits; a row must still be a distribution."""
    rng = np.random.default_rng(3)
    states = tl.StateSpace.run_length(3, 0, 2) if kind else None

    def scores(*shape):
        return np.where(rng.random(shape) < 0.5, stand_in, rng.standard_normal(shape))

    for _ in range(50):
        trellis = tl.Trellis(scores(6, 3), scores(3, 3), scores(3), scores(3), states=states)
        assert_allclose(trellis.marginals().sum(axis=1), 1.0, rtol=1e-9)
        assert_allclose(trellis.pair_marginals()[1:].sum(axis=(1, 2)), 1.0, rtol=1e-9)
        assert np.isfinite(trellis.entropy())
        assert trellis.log_prob(trellis.viterbi().path) <= 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2])
def test_states_are_a_markov_chain(dtype, k):
    """Its marginals and transitions give back the marginals and pairs of labels."""
    rng = np.random.default_rng(k)
    space = tl.StateSpace.order(3, k)
    emit = rng.normal(size=(9, 3)).astype(dtype)
    emit[2, 1] = -np.inf
    batch = tl.Trellis(
        emit,
        rng.normal(size=(3, 3)),
        rng.normal(size=3),
        rng.normal(size=3),
        states=space,
        weights=rng.normal(size=space.n_weights),
        offsets=[0, 4, 4, 5, 9],
    )
    gamma, transitions = batch.state_marginals(), batch.transition_probs()
    labels = np.zeros((9, 3))
    np.add.at(labels.T, space.state_labels, gamma.T)
    np.testing.assert_allclose(labels, batch.marginals(), atol=1e-6)
    np.testing.assert_allclose(gamma.sum(axis=1), 1, rtol=1e-12)
    pairs = np.zeros((9, 3, 3))
    for m, (a, b) in enumerate(zip(space.src, space.dst, strict=True)):
        pairs[1:, space.state_labels[a], space.state_labels[b]] += (
            gamma[:-1, a] * transitions[1:, m]
        )
    np.testing.assert_allclose(pairs, batch.pair_marginals(), atol=1e-6)


def test_states_without_a_path_have_no_probability():
    shut = tl.Trellis([[0.0, 0.0], [-np.inf, -np.inf]])
    with raises(InfeasibleError, where="position 1"):
        shut.state_marginals()
    assert not shut.state_marginals(on_infeasible="none").any()
    assert not shut.transition_probs().any()
