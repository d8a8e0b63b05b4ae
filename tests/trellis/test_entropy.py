"""The entropy of the dense layout: equal to enumeration and to the automaton, in all layouts."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tagloom as tl
from oracles import Chain
from tagloom.trellis import instruction_sets, use_instruction_set

LAYOUTS = {
    "labels": (3, None, False),
    "edge": (3, None, True),
    "order 2": (2, lambda: tl.StateSpace.order(2, 2), False),
    "order 2, edge": (2, lambda: tl.StateSpace.order(2, 2), True),
    "order 3": (2, lambda: tl.StateSpace.order(2, 3), False),
}


def arrays_of(layout, lengths, spread, dtype=np.float64, forbidden=0.1):
    Y, make_space, with_edge = LAYOUTS[layout]
    states = make_space() if make_space else None
    rng = np.random.default_rng(1)

    def scores(*shape, forbidden=0.0):
        x = spread * rng.standard_normal(shape)
        return np.where(rng.random(shape) < forbidden, -np.inf, x).astype(dtype)

    T = sum(lengths)
    return {
        "emit": scores(T, Y),
        "trans": scores(Y, Y, forbidden=forbidden),
        "start": scores(Y),
        "stop": scores(Y),
        "edge": scores(T, Y, Y) if with_edge else None,
        "states": states,
        "weights": scores(states.n_weights) if states else None,
        "offsets": np.cumsum([0, *lengths]),
    }


@pytest.mark.parametrize("forbidden", [0.0, 0.1])
@pytest.mark.parametrize("spread", [0.3, 3.0, 30.0])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", instruction_sets())
def test_entropy_equals_enumeration(name, layout, spread, forbidden):
    """In lanes and alone, to 1e-10, also where one path has nearly everything."""
    lengths = [0, *[1, 2, 3, 4, 5] * 5]
    arrays = arrays_of(layout, lengths, spread, forbidden=forbidden)
    offsets = arrays.pop("offsets")
    with use_instruction_set(name):
        batch = tl.Trellis(**arrays, offsets=offsets)
        found = batch.entropy(on_infeasible="none")
        alone = [one.entropy(on_infeasible="none") for one in batch]
    for i, (lo, hi) in enumerate(itertools.pairwise(offsets)):
        edge = None if arrays["edge"] is None else arrays["edge"][lo:hi]
        chain = Chain(**{**arrays, "emit": arrays["emit"][lo:hi], "edge": edge})
        expected = chain.entropy() if chain.paths else 0.0
        assert_allclose([found[i], alone[i]], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_entropy_of_longer_sequences_equals_that_of_the_automaton(layout, dtype):
    lengths = [*range(1, 40), 300]
    trellis = tl.Trellis(**arrays_of(layout, lengths, 1.5, dtype))
    expected = np.empty(len(lengths))
    trellis._transitions.automaton.entropy(trellis._batch.native, 1, expected)
    assert_allclose(trellis.entropy(), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("T", [1, 30, 2000])
def test_equal_paths_have_the_log_of_their_number(T):
    batch = tl.Trellis(np.zeros((20 * T, 7)), offsets=np.arange(0, 20 * T + 1, T))
    assert_allclose(batch.entropy(), T * math.log(7), rtol=1e-13)


def test_large_scores_do_not_cost_digits():
    """The scores are 1e6, their differences a few units: entropy must not see the former."""
    rng = np.random.default_rng(2)
    emit = rng.integers(-3, 4, (200, 5)).astype(float)
    plain = tl.Trellis(emit, offsets=np.arange(0, 201, 10)).entropy()
    moved = tl.Trellis(emit + 1e6, offsets=np.arange(0, 201, 10)).entropy()
    assert_allclose(moved, plain, rtol=1e-12)


def test_entropy_is_never_negative():
    rng = np.random.default_rng(3)
    for spread in (1.0, 20.0, 100.0):
        emit = spread * rng.standard_normal((6400, 4))
        trellis = tl.Trellis(emit, offsets=np.arange(0, 6401, 8))
        assert (trellis.entropy() >= 0).all()
