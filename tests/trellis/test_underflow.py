"""Numbers too small for scaled probabilities: proven not to matter, or computed again exactly.

The dense kernels report for each sequence whether they prove that less than 1e-12 of its total was
lost (`ok`). These tests read that report from the native module: it must be true where it is
wanted for speed, and never where the total is wrong.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
import tagloom as tl
from oracles import Chain
from tagloom import _native
from tagloom.trellis import instruction_sets, use_instruction_set

FAR = np.array([0.0, -1.0, -5.0, -150.0, -300.0, -600.0, -750.0, -1500.0, -1e5, -np.inf])


def dense_sum(trellis, *, counts=False):
    """Return log_z [N], ok [N] and the marginals [T, Y] of the dense kernels alone."""
    N, Y = len(trellis.offsets) - 1, trellis.n_labels
    log_z, ok = np.empty(N), np.empty(N, dtype=bool)
    marginals = np.zeros_like(trellis.emit)
    dense = trellis.dense_transitions
    into = None
    if counts:
        into = _native.TransitionCounts(np.zeros(np.prod(dense.shape)), np.zeros(Y), np.zeros(Y))
    dense.sum(trellis._batch.native, 1, log_z, ok, marginals=marginals, counts=into)
    return log_z, ok, marginals


def pieces(trellis):
    """Yield the arguments of the reference for each sequence that is not empty."""
    for lo, hi in itertools.pairwise(trellis.offsets):
        edge = None if trellis.edge is None else trellis.edge[lo:hi]
        yield trellis.emit[lo:hi], trellis.trans, trellis.start, trellis.stop, edge


def after_many_iterations(Y, lengths, *, share=0.6, with_edge=False, seed=0):
    """Scores as EM leaves them: most moves and emissions have all but vanished, by various ways."""
    rng = np.random.default_rng(seed)

    def scores(*shape):
        x = -rng.exponential(1.0, shape)
        vanished = rng.random(shape) < share
        return np.where(vanished, -rng.choice([130.0, 250.0, 400.0, 700.0, 2000.0], shape), x)

    T = sum(lengths)
    return tl.Trellis(
        scores(T, Y),
        scores(Y, Y),
        scores(Y),
        scores(Y),
        edge=scores(T, Y, Y) if with_edge else None,
        offsets=np.cumsum([0, *lengths]),
    )


@pytest.mark.parametrize("with_edge", [False, True])
@pytest.mark.parametrize("name", instruction_sets())
def test_vanished_moves_are_dropped_where_that_is_proven_harmless(name, with_edge):
    trellis = after_many_iterations(12, [*range(1, 60)] * 2, with_edge=with_edge)
    with use_instruction_set(name):
        log_z, ok, marginals = dense_sum(trellis)
    assert ok.mean() > 0.97
    for i, (arguments, gamma) in enumerate(
        zip(pieces(trellis), trellis.split(marginals), strict=True)
    ):
        if ok[i]:
            assert_allclose(log_z[i], reference.log_partition(*arguments), rtol=1e-13, atol=1e-11)
            assert_allclose(gamma, reference.marginals(*arguments), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("with_edge", [False, True])
def test_the_whole_is_exact_whatever_was_dropped(with_edge):
    trellis = after_many_iterations(5, [*range(1, 40)], with_edge=with_edge)
    judges = list(pieces(trellis))
    assert_allclose(
        trellis.log_partition(), [reference.log_partition(*args) for args in judges], rtol=1e-12
    )
    gammas = np.concatenate([reference.marginals(*args) for args in judges])
    assert_allclose(trellis.marginals(), gammas, atol=1e-10)
    xi = sum(reference.pair_marginals(*args).sum(axis=0) for args in judges)
    assert_allclose(trellis.expected_counts().transitions, xi, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("lengths", [[3000], [400] * 20])
def test_long_sequences_are_proven_state_by_state(lengths):
    """One bound for all states grows too large within some hundred positions."""
    trellis = after_many_iterations(8, lengths, share=0.4)
    log_z, ok, _ = dense_sum(trellis, counts=True)
    assert ok.all()
    assert_allclose(log_z, [reference.log_partition(*args) for args in pieces(trellis)], rtol=1e-12)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.booleans(), st.booleans())
def test_what_is_called_proven_is_right(seed, order, with_edge, scattered):
    """Against enumeration, with scores between which paths fall behind and catch up again."""
    rng = np.random.default_rng(seed)
    Y = 3 if order < 3 else 2
    lengths = rng.integers(1, 7 - order, 20)
    space = tl.StateSpace.order(Y, order) if order > 1 else None

    def scores(*shape):
        if scattered:
            return -rng.exponential(rng.choice([1.0, 100.0, 400.0]), shape)
        return rng.choice(FAR, shape, p=[0.25, *[0.75 / (len(FAR) - 1)] * (len(FAR) - 1)])

    shared = {
        "trans": scores(Y, Y),
        "start": scores(Y),
        "stop": scores(Y),
        "states": space,
        "weights": None,
    }
    T = sum(lengths)
    edge = scores(T, Y, Y) if with_edge else None
    offsets = np.cumsum([0, *lengths])
    trellis = tl.Trellis(scores(T, Y), edge=edge, offsets=offsets, **shared)
    log_z, ok, marginals = dense_sum(trellis, counts=True)
    whole, entropies = trellis.log_partition(), trellis.entropy(on_infeasible="none")
    for i, (lo, hi) in enumerate(itertools.pairwise(offsets)):
        one_edge = None if edge is None else edge[lo:hi]
        chain = Chain(trellis.emit[lo:hi], edge=one_edge, **shared)
        exact = chain.log_partition()
        assert_allclose(whole[i], exact, rtol=1e-13, atol=1e-11)
        if not chain.paths:
            assert not ok[i]
            continue
        assert_allclose(entropies[i], chain.entropy(), rtol=1e-9, atol=1e-10)
        if ok[i]:
            assert_allclose(log_z[i], exact, rtol=1e-13, atol=1e-11)
            assert_allclose(marginals[lo:hi], chain.marginals(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("behind", [-600.0, -720.0, -1e4])
def test_a_loss_that_decides_is_noticed(behind):
    """Label 1 falls behind by e^behind, then label 0 is forbidden: its paths are all that is left.

    Label 2 ends in time to keep a total above 0, much smaller than that of label 1.
    """
    tracks = np.where(np.eye(3, dtype=bool), 0.0, -np.inf)
    tracks[0, 2] = 0.0
    emit = np.zeros((30, 3))
    emit[1, 1], emit[1:, 2] = behind, -100.0
    emit[20:, 0], emit[20:, 2] = -np.inf, -200.0
    for n in (1, 20):
        batch = tl.Trellis.stack([emit] * n, tracks)
        arguments = next(pieces(tl.Trellis.stack([emit], tracks, np.zeros(3), np.zeros(3))))
        exact = reference.log_partition(*arguments)
        assert_allclose(batch.log_partition(), exact, rtol=1e-12)
        assert_allclose(batch.marginals()[:30], reference.marginals(*arguments), atol=1e-10)


def test_forbidden_stays_forbidden_beside_vanished_moves():
    """Moves of e^-800 are as good as none, but those of −inf are none: no path, no probability."""
    trans = np.array([[0.0, -800.0], [-np.inf, -np.inf]])
    trellis = tl.Trellis(np.zeros((40, 2)), trans, offsets=np.arange(0, 41, 4))
    _, ok, marginals = dense_sum(trellis)
    assert ok.all()
    assert (marginals[:, 1] < 1e-300).all()
    shut = tl.Trellis(np.zeros((40, 2)), trans, [-np.inf, 0.0], offsets=np.arange(0, 41, 4))
    assert (shut.log_partition() == -np.inf).all()
    assert not shut.marginals(on_infeasible="none").any()


def test_probabilities_that_em_drives_to_zero_stay_in_the_dense_kernels():
    """Baum-Welch over words: no sequence is left to the automaton, in any of 200 iterations."""
    rng = np.random.default_rng(0)
    Y, V = 6, 12
    lengths = rng.integers(3, 25, 120)
    offsets = np.cumsum([0, *lengths])
    # Two interleaved kinds of words, so that most transitions and emissions vanish.
    kind = (np.arange(offsets[-1]) + np.repeat(rng.integers(0, 2, 120), lengths)) % 2
    words = kind * (V // 2) + rng.integers(0, V // 2, offsets[-1])
    start, trans, emit = (rng.dirichlet(np.ones(n), size=m) for n, m in ((Y, 1), (Y, Y), (V, Y)))
    smallest, totals = 1.0, []
    for _ in range(200):
        with np.errstate(divide="ignore"):
            scores = np.log(emit.T[words]), np.log(trans), np.log(start[0])
        trellis = tl.Trellis(*scores, offsets=offsets)
        log_z, ok, gamma = dense_sum(trellis, counts=True)
        assert ok.all()
        totals.append(log_z.sum())
        counts = trellis.expected_counts()
        smallest = min([smallest, *trans[trans > 0], *emit[emit > 0]])
        start = counts.start[None] / counts.start.sum()
        trans = counts.transitions / counts.transitions.sum(axis=1, keepdims=True)
        used = np.zeros((V, Y))
        np.add.at(used, words, gamma)
        emit = (used / used.sum(axis=0)).T
    assert smallest < 1e-200
    assert (np.diff(totals) > -1e-9 * abs(totals[0])).all()


def test_a_small_sum_between_large_ones_is_noticed():
    """Each number is above 1e-100 of its neighbours, but their product underflows."""
    far, no = -99 * np.log(10), -np.inf
    trans = np.full((6, 6), no)
    trans[1, [2, 3]] = far
    trans[2, 4] = trans[4, 4] = trans[5, 5] = 0.0
    trans[3, 5] = far
    emit = np.full((5, 6), no)
    emit[0, [0, 1]] = 0.0, far
    emit[1, [2, 3]] = far
    emit[1, 0] = 0.0  # which no path reaches
    emit[2, [4, 5]] = far, 0.0
    emit[3:, [4, 5]] = 0.0
    arguments = emit, trans, np.zeros(6), np.zeros(6), None
    batch = tl.Trellis.stack([emit] * 20, trans)
    assert_allclose(batch.log_partition(), reference.log_partition(*arguments), rtol=1e-12)
    assert_allclose(batch.marginals()[:5], reference.marginals(*arguments), atol=1e-10)
