"""Samples: legal, reproducible, and as frequent as their probability says."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import tagloom as tl
from oracles import Chain
from strategies import SPACES, cases, numbers
from tagloom.trellis import instruction_sets, use_instruction_set


def chi_square_bound(dof):
    """What a chi-square variable exceeds once in a million (Wilson and Hilferty, 1931)."""
    return dof * (1 - 2 / (9 * dof) + 4.753 * math.sqrt(2 / (9 * dof))) ** 3


def assert_frequencies(samples, chain):
    """Pearson's test; paths expected fewer than five times are counted together."""
    counts = Counter(map(tuple, samples.tolist()))
    n = len(samples)
    statistic, cells, rare_expected, rare_found = 0.0, 0, 0.0, 0
    for path, p in chain.probs():
        if n * p < 5:
            rare_expected += n * p
            rare_found += counts[path]
        else:
            statistic += (counts[path] - n * p) ** 2 / (n * p)
            cells += 1
    if rare_expected > 1:
        statistic += (rare_found - rare_expected) ** 2 / rare_expected
        cells += 1
    assert set(counts) <= {path for path, _ in chain.paths}
    assert statistic < chi_square_bound(max(cells - 1, 1))


SAMPLED = {
    "first order": (3, 4, None),
    "one position": (4, 1, None),
    "order 2": (2, 6, lambda: tl.StateSpace.order(2, 2)),
    "pruned": (2, 6, lambda: tl.StateSpace.order(2, 3, seen=[[0, 1, 0, 0], [1, 1, 1, 0]])),
    "run length": (2, 6, lambda: tl.StateSpace.run_length(2, 1, 2)),
    "bioes": (5, 4, lambda: tl.StateSpace.bioes(["B-X", "E-X", "I-X", "O", "S-X"])),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_edge", [False, True])
@pytest.mark.parametrize("name", SAMPLED)
def test_frequencies_follow_the_probabilities(name, with_edge, dtype):
    Y, T, space = SAMPLED[name]
    states = space() if space else None
    rng = np.random.default_rng(17)

    def scores(*shape, forbidden=0.0):
        return numbers(rng, shape, "floats", forbidden, dtype) / 2

    arrays = {
        "emit": scores(T, Y),
        "trans": scores(Y, Y, forbidden=0.1),
        "start": scores(Y),
        "stop": scores(Y),
        "edge": scores(T, Y, Y) if with_edge else None,
        "states": states,
        "weights": scores(states.n_weights) if states is not None else None,
    }
    samples = tl.Trellis(**arrays).sample(20_000, random_state=23)
    assert samples.shape == (20_000, T)
    assert samples.dtype == np.int32
    assert_frequencies(samples, Chain(**arrays))


@given(st.one_of(cases(), cases(spaces=SPACES)), st.integers(0, 2**32 - 1))
def test_no_sample_is_a_forbidden_path(case, seed):
    case = case.feasible()
    assume(case.emits)
    samples = case.batch().sample(50, random_state=seed)
    assert samples.shape == (50, case.offsets[-1])
    for chain, lo, hi in zip(case.chains, case.offsets, case.offsets[1:], strict=False):
        allowed = {path for path, _ in chain.paths}
        assert set(map(tuple, samples[:, lo:hi].tolist())) <= allowed


def test_a_seed_gives_the_same_samples():
    rng = np.random.default_rng(1)
    emits = [rng.standard_normal((T, 3)) for T in (4, 0, 7)]
    trellis = tl.Trellis.stack(emits, rng.standard_normal((3, 3)))
    first = trellis.sample(100, random_state=42)
    assert_array_equal(first, trellis.sample(100, random_state=42))
    assert (first != trellis.sample(100, random_state=43)).any()
    again, other = (np.random.default_rng(7) for _ in range(2))
    assert_array_equal(
        trellis.sample(10, random_state=again), trellis.sample(10, random_state=other)
    )
    assert (trellis.sample(10, random_state=again) != trellis.sample(10, random_state=7)).any()


@pytest.mark.parametrize("space", [None, "order"])
def test_the_number_of_threads_does_not_change_the_samples(space):
    rng = np.random.default_rng(1)
    states = tl.StateSpace.order(3, 2) if space else None
    weights = rng.standard_normal(27) if space else None
    emits = [rng.standard_normal((T, 3)) for T in rng.integers(0, 20, 50)]
    one, two, three = (
        tl.Trellis.stack(emits, states=states, weights=weights, n_threads=n).sample(20, 5)
        for n in (1, 2, 3)
    )
    assert_array_equal(one, two)
    assert_array_equal(one, three)


def test_without_a_seed_samples_differ():
    trellis = tl.Trellis(np.zeros((200, 2)))
    assert (trellis.sample(1) != trellis.sample(1)).any()


def test_zero_samples_are_an_empty_array():
    assert tl.Trellis(np.zeros((3, 2))).sample(0, random_state=1).shape == (0, 3)


LAYOUTS = {
    "labels": (5, 1, False),
    "edge": (4, 1, True),
    "order 2": (3, 2, False),
    "order 3": (2, 3, False),
    "order 2, edge": (3, 2, True),
}


def random_batch(layout, lengths, dtype, *, forbidden=0.1, seed=3):
    """Arrays of a batch, half of whose sequences are short enough for lanes."""
    Y, order, with_edge = LAYOUTS[layout]
    rng = np.random.default_rng(seed)
    T = sum(lengths)

    def scores(*shape, forbidden=0.0):
        return numbers(rng, shape, "floats", forbidden, dtype) / 2

    space = tl.StateSpace.order(Y, order) if order > 1 else None
    return {
        "emit": scores(T, Y),
        "trans": scores(Y, Y, forbidden=forbidden),
        "start": scores(Y),
        "stop": scores(Y),
        "edge": scores(T, Y, Y) if with_edge else None,
        "states": space,
        "weights": scores(space.n_weights) if space else None,
        "offsets": np.cumsum([0, *lengths]),
    }


@pytest.mark.parametrize("forbidden", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["labels", "order 2"])
@pytest.mark.parametrize("name", instruction_sets())
def test_lanes_draw_by_the_probabilities(name, layout, dtype, forbidden):
    """Sixty times the same four sequences: each lane and each draw is as good as another."""
    lengths = [4, 1, 3, 4]
    arrays = random_batch(layout, lengths, dtype, forbidden=forbidden)
    offsets = arrays.pop("offsets")
    shared = {key: arrays[key] for key in ("trans", "start", "stop", "states", "weights")}
    with use_instruction_set(name):
        batch = tl.Trellis.stack(np.split(arrays["emit"], offsets[1:-1]) * 60, **shared)
        samples = batch.sample(400, random_state=11)
    for i, (lo, hi) in enumerate(itertools.pairwise(offsets)):
        chain = Chain(arrays["emit"][lo:hi], **shared)
        paths = [samples[:, j : j + hi - lo] for j in batch.offsets[i:-1:4]]
        assert_frequencies(np.concatenate(paths), chain)


def draws_of(trellis, uniform):
    """Paths [n, T] of one first-order sequence, drawn in NumPy from uniform numbers [T, n]."""
    alpha = trellis.forward()  # [T, Y]
    step = trellis.trans + (0.0 if trellis.edge is None else trellis.edge)
    step = np.broadcast_to(step, (*alpha.shape, trellis.n_labels))  # [T, Y, Y]
    paths = np.empty((uniform.shape[1], len(alpha)), dtype=int)
    for path, numbers_of_path in zip(paths, uniform.T, strict=True):
        weight = alpha[-1] + trellis.stop
        for t in reversed(range(len(alpha))):
            if t < len(alpha) - 1:
                weight = alpha[t] + step[t + 1][:, path[t + 1]]
            total = np.cumsum(np.exp(weight - weight.max()))
            path[t] = np.searchsorted(total, numbers_of_path[t] * total[-1], side="right")
    return paths


@pytest.mark.parametrize("layout", ["labels", "edge"])
@pytest.mark.parametrize("name", instruction_sets())
def test_a_draw_inverts_the_distribution_at_one_uniform_number_a_position(name, layout):
    lengths = [*range(1, 20), 0, *range(1, 20), 70]
    arrays = random_batch(layout, lengths, np.float64)
    with use_instruction_set(name):
        batch = tl.Trellis(**arrays)
        samples = batch.sample(3, random_state=8)
    uniform = np.random.default_rng(8).random((sum(lengths), 3))
    for one, numbers_of_one, found in zip(
        batch, batch.split(uniform), batch.split(samples.T), strict=True
    ):
        if len(found):
            assert_array_equal(found.T, draws_of(one, numbers_of_one))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_generator_draws_the_same_from_a_batch_and_from_its_parts(layout):
    arrays = random_batch(layout, [3, 0, 8, 1, 30, 12, *range(1, 30)], np.float64)
    batch = tl.Trellis(**arrays)
    whole = batch.sample(4, random_state=2)
    generator = np.random.default_rng(2)
    parts = [part.sample(4, generator) for part in (batch[:1], batch[1:7], batch[7:])]
    assert_array_equal(np.concatenate(parts, axis=1), whole)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sequences_beyond_the_scaled_probabilities_are_drawn_too(dtype):
    """Tracks that fall e^-1000 behind and catch up, beside sequences without any trouble."""
    tracks = np.where(np.eye(3, dtype=bool), 0.0, -np.inf)
    hard = np.zeros((40, 3))
    hard[:20, 0], hard[20:, 1] = 600.0, 600.0  # both tracks have the same score
    emits = [np.zeros((2, 3)), hard, np.zeros((5, 3))] * 8
    batch = tl.Trellis.stack([emit.astype(dtype) for emit in emits], tracks)
    samples = batch.split(batch.sample(600, random_state=4).T)
    for found in samples[1::3]:
        assert (found == found[0]).all()
        assert set(found[0]) == {0, 1}
        assert 220 < (found[0] == 0).sum() < 380
    assert set(samples[0][0]) == {0, 1, 2}


def test_extreme_uniform_numbers_draw_allowed_paths():
    """0 and the largest number below 1 choose the first and the last label that is allowed."""

    class Extreme(np.random.RandomState):
        def random_sample(self, size=None):
            return np.broadcast_to([0.0, np.nextafter(1.0, 0.0)], size)

    emit = np.array([[-np.inf, 0.3, -np.inf, 0.7, -np.inf]] * 12)
    for dtype in (np.float32, np.float64):
        batch = tl.Trellis(emit.astype(dtype), offsets=np.arange(0, 13, 3))
        paths = batch.sample(2, Extreme(0))
        assert_array_equal(paths, [[1] * 12, [3] * 12])
