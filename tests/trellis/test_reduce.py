"""The semiring laws for every built-in, and `reduce` against ⊕ over paths of ⊗ over arcs."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import tagloom as tl
from strategies import SPACES, cases

S = tl.semirings


def arc_value(t, y_prev, y):
    """A value for Expectation that differs from arc to arc."""
    return t + 2.0 * (-1 if y is None else y) - 0.5 * (-1 if y_prev is None else y_prev)


BUILT_IN = {
    "MAX_TIMES": S.MAX_TIMES,
    "SUM_TIMES": S.SUM_TIMES,
    "MAX_PLUS": S.MAX_PLUS,
    "LOG_PLUS": S.LOG_PLUS,
    "BOOLEAN": S.BOOLEAN,
    "COUNTING": S.COUNTING,
    "KBest(1)": S.KBest(1),
    "KBest(3)": S.KBest(3),
    "Expectation": S.Expectation(arc_value),
}
every = pytest.mark.parametrize("ring", BUILT_IN.values(), ids=BUILT_IN)


def same(a, b, tolerance=1e-9):
    """Equal but for rounding, through any nesting of tuples."""
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, float):
        return a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    return a == b


def elements(ring):
    """⊕ of up to three lifted transitions; eighths, so that sums and ties are exact."""
    transitions = st.tuples(
        st.integers(-24, 24).map(lambda n: n / 8),
        st.integers(0, 4),
        st.integers(0, 3),
        st.integers(0, 3),
    )
    lifted = st.lists(transitions.map(lambda transition: ring.lift(*transition)), max_size=3)
    return lifted.map(lambda parts: functools.reduce(ring.plus, parts, ring.zero))


@every
@settings(max_examples=50)
@given(st.data())
def test_semiring_laws(ring, data):
    """Footnote 11 of Eisenstein (2018) §7.7.3, law by law."""
    a, b, c = (data.draw(elements(ring)) for _ in range(3))
    plus, times, zero, one = ring.plus, ring.times, ring.zero, ring.one
    assert same(plus(plus(a, b), c), plus(a, plus(b, c)))
    assert same(plus(a, b), plus(b, a))
    assert same(times(times(a, b), c), times(a, times(b, c)))
    assert same(times(a, plus(b, c)), plus(times(a, b), times(a, c)))
    assert same(times(plus(a, b), c), plus(times(a, c), times(b, c)))
    assert same(plus(a, zero), a)
    assert same(plus(zero, a), a)
    assert same(times(a, one), a)
    assert same(times(one, a), a)
    assert same(times(a, zero), zero)
    assert same(times(zero, a), zero)


@every
@given(cases(spaces=(None, *SPACES), looks=("floats",)))
@settings(max_examples=40)
def test_reduce_is_the_total_over_paths(ring, case):
    for chain, found in zip(case.chains, case.batch().reduce(ring), strict=True):
        tolerance = case.close["rtol"]
        assert same(found, chain.total(ring), tolerance), (found, chain.total(ring))


@given(cases(spaces=(None, *SPACES)))
def test_the_built_ins_are_what_their_names_say(case):
    trellis = case.batch()
    log_z = [chain.log_partition() for chain in case.chains]
    best = [chain.best()[1] if chain.paths else -math.inf for chain in case.chains]
    assert_allclose(trellis.reduce(S.LOG_PLUS), log_z, **case.close)
    assert_allclose(trellis.reduce(S.MAX_PLUS), best, **case.close)
    assert trellis.reduce(S.BOOLEAN) == [bool(chain.paths) for chain in case.chains]
    assert trellis.reduce(S.COUNTING) == [len(chain.paths) for chain in case.chains]
    if case.look in ("floats", "integers"):  # exp(1000) is no float
        rtol = 10 * case.close["rtol"]
        assert_allclose(trellis.reduce(S.SUM_TIMES), np.exp(log_z), rtol=rtol)
        assert_allclose(trellis.reduce(S.MAX_TIMES), np.exp(best), rtol=rtol)


@given(cases(spaces=(None, *SPACES), looks=("integers",)), st.integers(1, 6))
def test_kbest_is_nbest(case, k):
    for chain, found in zip(case.chains, case.batch().reduce(S.KBest(k)), strict=True):
        assert [(labels, score) for score, labels in found] == chain.nbest(k)


@given(cases(spaces=(None, *SPACES)))
def test_expectation_is_the_mean_over_paths(case):
    case = case.feasible()
    if not case.emits:
        return

    def along(chain):
        return lambda path: math.fsum(arc_value(*arc[1:4]) for arc in chain.arcs(path))

    trellis = case.batch()
    close = {"rtol": 1e-9, "atol": 1e-9 * case.scale}
    found = trellis.reduce(S.Expectation(arc_value))
    scores = trellis.reduce(S.Expectation("score"))
    for chain, (log_z, mean), (_, score) in zip(case.chains, found, scores, strict=True):
        assert_allclose(log_z, chain.log_partition(), **close)
        assert_allclose(mean, chain.expectation(along(chain)), **close)
        assert_allclose(log_z - score, chain.entropy(), **close)


class Paths:
    """The free semiring, as a user might write it: its total is the set of all paths."""

    zero = frozenset()
    one = frozenset({()})

    def plus(self, a, b):
        assert not a & b, "a path was counted twice"
        return a | b

    def times(self, a, b):
        return frozenset(x + y for x in a for y in b)

    def lift(self, score, t, y_prev, y):
        assert score > -math.inf, "a forbidden transition was lifted"
        return frozenset({((round(float(score), 3), t, y_prev, y),)})


@given(cases(spaces=(None, *SPACES), looks=("integers",)))
def test_a_user_semiring_sees_every_arc_in_order(case):
    """No ⊕ or ⊗ may be skipped, doubled or swapped: the result is the list of all paths."""
    for chain, found in zip(case.chains, case.batch().reduce(Paths()), strict=True):
        expected = {tuple(arc[:4] for arc in chain.arcs(path)) for path, _ in chain.paths}
        assert found == expected


def test_an_empty_sequence_reduces_to_one():
    trellis = tl.Trellis(np.zeros((0, 2)))
    assert trellis.reduce(Paths()) == Paths.one
    assert trellis.reduce(S.LOG_PLUS) == 0.0
    assert trellis.reduce(S.COUNTING) == 1
