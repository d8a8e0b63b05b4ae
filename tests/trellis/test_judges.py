"""The judges judged: enumeration by hand-made numbers, the NumPy recurrences by enumeration."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import oracles
import reference


def test_enumeration_by_hand():
    """Two positions, two labels, scores 0 1 2 3 for the paths 00 01 10 11."""
    chain = oracles.Chain([[0.0, 2.0], [0.0, 1.0]])
    assert chain.paths == [((0, 0), 0.0), ((0, 1), 1.0), ((1, 0), 2.0), ((1, 1), 3.0)]
    z = 1 + math.e + math.e**2 + math.e**3
    assert chain.log_partition() == pytest.approx(math.log(z))
    assert chain.best() == ((1, 1), 3.0)
    assert_allclose(chain.marginals()[0], [(1 + math.e) / z, (math.e**2 + math.e**3) / z])
    assert_allclose(chain.pair_marginals()[1], np.exp([[0, 1], [2, 3]]) / z)
    assert_allclose(chain.expected_counts().transitions, np.exp([[0, 1], [2, 3]]) / z)
    assert chain.log_prob_of([[True, False], [True, True]]) == pytest.approx(
        math.log((1 + math.e) / z)
    )


def test_uniform_paths_have_the_entropy_of_a_coin_per_position():
    chain = oracles.Chain(np.zeros((4, 2)))
    assert chain.entropy() == pytest.approx(4 * math.log(2))
    assert len(chain.paths) == 16
    assert chain.nbest(3) == [((0, 0, 0, 0), 0.0), ((1, 0, 0, 0), 0.0), ((0, 1, 0, 0), 0.0)]


@pytest.mark.parametrize("with_edge", [False, True])
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
@pytest.mark.parametrize(("T", "Y"), [(1, 1), (1, 3), (5, 3), (6, 2)])
def test_the_recurrences_equal_enumeration(T, Y, forbidden, with_edge):
    for seed in range(5):
        rng = np.random.default_rng(seed)

        def scores(*shape, rng=rng):
            x = rng.standard_normal(shape)
            return np.where(rng.random(shape) < forbidden, -np.inf, x)

        arrays = [scores(T, Y), scores(Y, Y), scores(Y), scores(Y)]
        edge = scores(T, Y, Y) if with_edge else None
        chain = oracles.Chain(*arrays, edge=edge)
        if not chain.paths:
            assert reference.log_partition(*arrays, edge) == -math.inf
            continue
        close = {"rtol": 1e-10, "atol": 1e-12}
        assert_allclose(reference.log_partition(*arrays, edge), chain.log_partition(), **close)
        assert_allclose(reference.marginals(*arrays, edge), chain.marginals(), **close)
        assert_allclose(reference.pair_marginals(*arrays, edge), chain.pair_marginals(), **close)
        path, score = reference.viterbi(*arrays, edge)
        best, top = chain.best()
        assert_array_equal(path, best)
        assert_allclose(score, top, **close)
