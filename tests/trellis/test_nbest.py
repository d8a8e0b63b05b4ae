"""The n best paths of the dense layout: equal to those of the automaton, path by path."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from tagloom.trellis import instruction_sets, use_instruction_set

SPACES = {
    "labels": (6, None),
    "one label": (1, None),
    "bio": (5, lambda: tl.StateSpace.bio(["B-X", "B-Y", "I-X", "I-Y", "O"])),
    "order 2": (4, lambda: tl.StateSpace.order(4, 2)),
    "order 3": (3, lambda: tl.StateSpace.order(3, 3)),
}
LENGTHS = [0, 1, 2, 3, 0, 4, 60, *range(1, 20)]


def trellis_of(space, look, *, with_edge=False, dtype=np.float64, seed=0):
    Y, make_space = SPACES[space]
    states = make_space() if make_space else None
    rng = np.random.default_rng(seed)

    def scores(*shape):
        if look == "ties":
            return rng.integers(-1, 2, shape).astype(dtype)
        x = 2 * rng.standard_normal(shape).astype(dtype)
        return np.where(rng.random(shape) < 0.1, -np.inf, x) if look == "holes" else x

    return tl.Trellis(
        scores(sum(LENGTHS), Y),
        scores(Y, Y),
        scores(Y),
        scores(Y),
        edge=scores(sum(LENGTHS), Y, Y) if with_edge else None,
        states=states,
        weights=scores(states.n_weights) if states else None,
        offsets=np.cumsum([0, *LENGTHS]),
    )


def automaton_nbest(trellis, n):
    automaton = trellis._transitions.automaton
    return automaton.nbest(trellis._batch.native, 1, n)


@pytest.mark.parametrize("look", ["floats", "ties", "holes"])
@pytest.mark.parametrize("with_edge", [False, True])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("name", instruction_sets())
def test_dense_nbest_equals_that_of_the_automaton(name, space, with_edge, look):
    for dtype in (np.float32, np.float64):
        trellis = trellis_of(space, look, with_edge=with_edge, dtype=dtype)
        with use_instruction_set(name):
            found = trellis.nbest(7)
        for best, (paths, scores) in zip(found, automaton_nbest(trellis, 7), strict=True):
            assert best.paths.dtype == np.int32
            assert_array_equal(best.paths, paths)
            assert_allclose(best.scores, scores, rtol=1e-12, atol=1e-12)
            assert_array_equal(np.argsort(-best.probs, kind="stable"), np.arange(len(scores)))


@pytest.mark.parametrize("space", ["labels", "order 2"])
def test_many_paths_come_in_order_and_differ(space):
    trellis = trellis_of(space, "floats")
    for best, (paths, _) in zip(trellis.nbest(400), automaton_nbest(trellis, 400), strict=True):
        assert_array_equal(best.paths, paths)
        assert len({tuple(path) for path in best.paths}) == len(best.paths)
        assert (np.diff(best.scores) <= 1e-12).all()


@pytest.mark.parametrize("look", ["floats", "ties"])
def test_the_first_path_is_that_of_viterbi_with_its_score(look):
    trellis = trellis_of("labels", look)
    path, score = trellis.viterbi()
    for best, one, expected in zip(trellis.nbest(2), trellis.split(path), score, strict=True):
        assert_array_equal(best.paths[0], one)
        assert best.scores[0] == expected


def test_the_number_of_threads_changes_nothing():
    rng = np.random.default_rng(5)
    emit, trans = rng.standard_normal((4000, 20)), rng.standard_normal((20, 20))
    alone, together = (
        tl.Trellis(emit, trans, offsets=np.arange(0, 4001, 10), n_threads=n).nbest(3)
        for n in (1, 3)
    )
    for one, other in zip(alone, together, strict=True):
        assert_array_equal(one.paths, other.paths)
        assert_array_equal(one.scores, other.scores)
