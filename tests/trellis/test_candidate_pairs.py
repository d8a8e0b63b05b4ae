"""Candidates of order 2: the answers of enumeration, of the dense layout and of the automaton."""

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
from raising import raises
from tagloom import _native
from tagloom.errors import ShapeError
from tagloom.trellis.histories import HistorySpace

FAR = np.array([0.0, -1.0, -5.0, 40.0, 300.0, -300.0, -750.0, 2000.0, -1e5, -np.inf])


def seen_space(rng, Y, n):
    """Return the space of the trigrams in n random label sequences."""
    return tl.StateSpace.order(Y, 2, seen=rng.integers(0, Y, (n, 5)).tolist())


def random_pair(rng, Y, lengths, states, *, share=0.5, dtype=np.float64):
    """Return a trellis of candidates, and one with −inf in place of other labels."""
    T, offsets = int(sum(lengths)), np.cumsum([0, *lengths])
    mask = rng.random((T, Y)) < share
    mask[np.arange(T), rng.integers(0, Y, T)] = True
    emit = rng.normal(size=(T, Y)).astype(dtype)
    shared = [rng.normal(size=shape).astype(dtype) for shape in ((Y, Y), Y, Y)]
    options = {"states": states, "weights": rng.normal(size=states.n_weights).astype(dtype)}
    few = listed(mask, emit, *shared, offsets=offsets, **options)
    emit = np.where(mask, emit, dtype(-np.inf))
    return few, tl.Trellis(emit, *shared, offsets=offsets, **options)


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["ordinary", "far"]), st.booleans())
def test_every_result_is_that_of_enumeration(seed, kind, has_all):
    rng = np.random.default_rng(seed)
    Y, lengths = 3, rng.integers(0, 6, 8)

    def scores(*shape):
        return rng.choice(FAR, shape) if kind == "far" else rng.normal(size=shape)

    T, offsets = int(sum(lengths)), np.cumsum([0, *lengths])
    mask, emit = rng.random((T, Y)) < 0.7, scores(T, Y)
    trans, start, stop = scores(Y, Y), scores(Y), scores(Y)
    states = tl.StateSpace.order(Y, 2) if has_all else seen_space(rng, Y, 3)
    options = {"states": states, "weights": scores(states.n_weights)}
    trellis = listed(mask, emit, trans, start, stop, offsets=offsets, **options)
    masked = np.where(mask, emit, -np.inf)
    chains = [
        Chain(masked[lo:hi], trans, start, stop, **options)
        for lo, hi in itertools.pairwise(offsets)
    ]
    check_by_enumeration(trellis, chains)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("has_all", [False, True])
def test_other_layouts_give_the_same(has_all, share, dtype):
    rng = np.random.default_rng(3)
    states = tl.StateSpace.order(7, 2) if has_all else seen_space(rng, 7, 20)
    few, other = random_pair(rng, 7, [*range(20)], states, share=share, dtype=dtype)
    exact = dtype == np.float64
    tolerance = {"rtol": 1e-10, "atol": 1e-11} if exact else {"rtol": 3e-5, "atol": 3e-6}
    assert_array_equal(few.viterbi().path, other.viterbi().path)
    assert_allclose(few.viterbi().score, other.viterbi().score, rtol=1e-12 if exact else 1e-6)
    assert_allclose(
        few.log_partition(), other.log_partition(), rtol=1e-12, atol=0 if exact else 1e-5
    )
    assert_allclose(few.marginals(), other.marginals(), **tolerance)
    assert few.marginals().dtype == dtype
    assert_allclose(few.pair_marginals(), other.pair_marginals(), **tolerance)
    assert_allclose(few.entropy(), other.entropy(), rtol=1e-9 if exact else 1e-4, atol=1e-9)
    for a, b in zip(few.expected_counts(), other.expected_counts(), strict=True):
        assert_allclose(a, b, rtol=1e-9 if exact else 1e-4, atol=1e-9 if exact else 1e-5)
    for a, b in zip(few.nbest(300), other.nbest(300), strict=True):
        assert_array_equal(a.paths, b.paths)
        assert_allclose(a.scores, b.scores, rtol=1e-12 if exact else 1e-6)


def test_sequences_count_with_their_weights():
    rng = np.random.default_rng(4)
    few, other = random_pair(rng, 4, [3, 0, 1, 6], seen_space(rng, 4, 4))
    weight = np.array([2.0, 1.0, 0.5, 0.0])
    of_candidates = np.empty_like(few.candidates.scores)
    found = few.expectations(weight=weight, marginals=of_candidates)
    expected = other.expectations(weight=weight)
    for a, b in zip(found.counts, expected.counts, strict=True):
        assert_allclose(a, b, atol=1e-12)
    assert_allclose(of_candidates, few.candidate_marginals())


def test_ties_go_to_the_lowest_label_from_the_end():
    mask = np.array([[True, True, False], [True, False, True], [False, True, True]])
    states = tl.StateSpace.order(3, 2, seen=[[1, 2, 1]])
    options = {"states": states, "weights": np.zeros(1)}
    few = listed(mask, np.zeros((3, 3)), np.zeros((3, 3)), **options)
    assert_array_equal(few.viterbi().path, [0, 0, 1])
    paths = sorted(itertools.product([0, 1], [0, 2], [1, 2]), key=lambda path: path[::-1])
    assert_array_equal(few.nbest(8).paths, paths)


def test_draws_have_the_probabilities_of_the_paths():
    rng = np.random.default_rng(5)
    one = random_pair(rng, 4, [4], tl.StateSpace.order(4, 2), share=0.6)[0][0]
    paths = one.sample(40_000, random_state=2)
    found, times = np.unique(paths, axis=0, return_counts=True)
    expected = np.exp([one.log_prob(path) for path in found])
    assert len(found) > 5
    assert_allclose(times / 40_000, expected, atol=5 * np.sqrt(0.25 / 40_000))


def test_results_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(6)
    few, _ = random_pair(rng, 20, [30] * 200, seen_space(rng, 20, 300), share=0.1)
    results = []
    for n_threads in (1, 4):
        few.n_threads = n_threads
        results.append([*few.expected_counts(), few.candidate_marginals(), few.entropy()])
    for a, b in zip(*results, strict=True):
        assert_array_equal(a, b)


def test_long_sequences_keep_their_precision():
    rng = np.random.default_rng(7)
    few, other = random_pair(rng, 3, [100_000], seen_space(rng, 3, 5))
    assert_allclose(few.log_partition(), other.log_partition(), rtol=1e-14)
    assert_array_equal(few.viterbi().path, other.viterbi().path)


@pytest.mark.parametrize("has_all", [False, True])
def test_pruned_is_constrained(has_all):
    rng = np.random.default_rng(8)
    states = tl.StateSpace.order(6, 2) if has_all else seen_space(rng, 6, 9)
    _, trellis = random_pair(rng, 6, [3, 0, 8], states, share=1.0)
    kept = np.exp(trellis.emit - trellis.emit.max(axis=1, keepdims=True)) >= 0.3
    pruned, expected = trellis.prune(0.3), trellis.constrain(kept)
    assert_array_equal(np.nonzero(kept)[1], pruned.candidates.label_ids)
    assert_array_equal(pruned.viterbi().path, expected.viterbi().path)
    assert_allclose(pruned.marginals(), expected.marginals(), atol=1e-12)


def test_sequence_without_a_path_keeps_all_labels():
    emit = [[9.0, 0.0], [9.0, 0.0], [9.0, 0.0], [0.0, 9.0]]
    states = tl.StateSpace.order(2, 2, seen=[[0, 0, 0]])
    trellis = tl.Trellis(emit, states=states, weights=[-np.inf], offsets=[0, 3, 4])
    pruned = trellis.prune(0.5)
    assert_array_equal(pruned.emit > -np.inf, [[1, 1], [1, 1], [1, 1], [0, 1]])
    assert_array_equal(pruned.viterbi().path, trellis.viterbi().path)


# The space of the trigrams that occur


def test_listing_is_left_until_it_is_needed():
    labels = [f"L{k}" for k in range(300)]
    seen = np.random.default_rng(9).integers(0, 300, (400, 8)).tolist()
    space = tl.StateSpace.order(labels, 2, seen=seen)
    few = listed(
        np.eye(300, dtype=bool)[:4], np.zeros((4, 300)), states=space,
        trans=np.zeros((300, 300)), weights=np.ones(space.n_weights),
    )  # fmt: skip
    (
        few.viterbi(),
        few.marginals(),
        few.nbest(2),
        few.entropy(),
        few.sample(2),
        few.path_score([0, 1, 2, 3]),
    )
    copies = [pickle.loads(pickle.dumps(space)), tl.StateSpace.from_dict(space.to_dict())]
    assert "src" not in vars(space)
    assert repr(
        space
    ) == f"StateSpace.order(300 labels, k=2, pruned): {space.n_states} states, " + (
        f"{space.n_transitions} transitions"
    )
    for copy in copies:
        assert copy == space
        assert hash(copy) == hash(space)
    assert len(space.src) == space.n_transitions


@pytest.mark.parametrize("k", [2, 3])
def test_some_of_the_labels(k):
    """Over fewer labels, the same label paths have the same scores."""
    rng = np.random.default_rng(10)
    space = tl.StateSpace.order(list("abcde"), k, seen=rng.integers(0, 5, (6, 6)).tolist())
    used = np.array([1, 2, 4])
    few, places = space.over(used)
    assert few.labels == ("b", "c", "e")
    emit, weights = rng.normal(size=(5, 5)), rng.normal(size=space.n_weights)
    allowed = np.isin(np.arange(5), used)[None].repeat(5, axis=0)
    whole = tl.Trellis(emit, states=space, weights=weights).constrain(allowed)
    part = tl.Trellis(np.ascontiguousarray(emit[:, used]), states=few, weights=weights[places])
    assert part.log_partition() == pytest.approx(whole.log_partition(), rel=1e-13)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("has_names", [False, True])
def test_narrowed(k, has_names):
    rng = np.random.default_rng(11)
    labels = [f"L{y}" for y in range(9)] if has_names else 9
    states, options = None, {}
    if k > 1:
        seen = rng.integers(0, 9, (40, 6)).tolist()
        states = tl.StateSpace.order(labels, k, seen=seen)
        options = {"states": states, "weights": rng.normal(size=states.n_weights)}
    mask = rng.random((8, 9)) < 0.5
    mask[:, [0, 3, 5]] = False
    trellis = listed(
        mask, rng.normal(size=(8, 9)), rng.normal(size=(9, 9)), rng.normal(size=9),
        rng.normal(size=9), offsets=[0, 5, 5, 8], **options,
    )  # fmt: skip
    few, used = trellis.narrow()
    assert_array_equal(used, np.flatnonzero(mask.any(axis=0)))
    assert few.labels == (tuple(f"L{y}" for y in used) if has_names and k > 1 else None)
    assert_allclose(few.log_partition(), trellis.log_partition(), rtol=1e-12)
    assert_array_equal(used[few.viterbi().path], trellis.viterbi().path)
    assert_allclose(few.marginals(), trellis.marginals()[:, used], atol=1e-12)


def test_nothing_to_narrow():
    dense = tl.Trellis(np.zeros((3, 2)))
    assert dense.narrow()[0] is dense
    space = tl.StateSpace.from_transitions(2, [[True, True], [True, False]])
    few = listed(np.eye(2, dtype=bool), np.zeros((2, 2)), np.zeros((2, 2)), states=space)
    assert few.narrow()[0] is few
    assert_array_equal(few.narrow()[1], [0, 1])


def test_damaged_ngrams():
    data = tl.StateSpace.order(["a", "b"], 2, seen=[[0, 1, 1], [1, 0]]).to_dict()
    assert data["seen"] == [[0, 1, 1, 0, 1, 1], [0, 1, 1]]
    for seen in (
        [[0, 1, 1, 1], [0, 1]],  # not threes
        [[0, 1, 1, 1], [0, 1, 2]],  # an unknown label
        [[0, 1, 1, 1], [0, 1, -1]],
        [[0, 1], [0, 1, 1]],  # lacks 1 1
        [[1, 1], [0, 1, 1]],  # lacks 0 1
        [[0, 1, 1, 1], [0, 1, 1, 0, 1, 1]],  # twice
        [[0, 1, 1, 1]],
        [[0, 1, 1, 1], "x"],
        [[0, 1, 1, 1], [[0, 1], 1]],
        "seen",
        3,
        None,
    ):
        with raises(ShapeError, where="stored state space"):
            tl.StateSpace.from_dict(data | {"seen": seen})


def test_names_of_labels():
    space = tl.StateSpace.order(2, 2, seen=[[0, 1, 1]])
    named = space & tl.StateSpace.first_order(["a", "b"])
    assert named == tl.StateSpace.order(["a", "b"], 2, seen=[[0, 1, 1]])
    assert "src" not in vars(space)
    assert space & tl.StateSpace.first_order(2) is space


def test_a_space_of_the_user():
    """Given as `states`, it prunes like order 2, by the trigrams that it has."""
    X, y = [["w", "v", "w"], ["v", "w", "w"]] * 5, [["A", "B", "A"], ["B", "A", "A"]] * 5
    space = tl.StateSpace.order(2, 2, seen=[[0, 1, 0]])
    tagger = tl.CRF("words", states=space, prune=0.01, max_iterations=3).fit(X, y)
    assert tagger._fitted.pruning is not None
    assert tagger.scores_.states.labels == ("A", "B")
    assert tagger.scores_.tied.shape == (1,)
    assert tl.load(tagger.to_bytes()).predict(X) == tagger.predict(X) == y


def test_other_attributes():
    space = tl.StateSpace.order(2, 2, seen=[[0, 1, 1]])
    assert isinstance(space, HistorySpace)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = space.colour


def test_native_trigrams():
    for labels in ([[0, 1, 2]], [[0, 1, -1]], [[1, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]):
        with pytest.raises(ValueError, match=r"labels must be|must rise"):
            _native.Trigrams(2, np.array(labels, dtype=np.int32))
    trigrams = _native.Trigrams(2, np.zeros((1, 3), dtype=np.int32))
    assert len(trigrams) == 1
    with pytest.raises(ValueError, match=r"weights must be \[K\]"):
        _native.TrigramScores(trigrams, np.zeros(2))
