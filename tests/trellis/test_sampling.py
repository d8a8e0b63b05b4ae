"""Samples: legal, reproducible, and as frequent as their probability says."""

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
