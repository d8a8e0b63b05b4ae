"""Selection of spans: equal to all subsets one by one, and to an integer programme."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from oracles import log_sum_exp
from raising import raises
from tagloom.errors import InfeasibleError, ParameterError, ScoreError, ShapeError
from tagloom.trellis import (
    AtMostOnce,
    ExactlyOnce,
    OnlyAfter,
    OnlyIf,
    OnlyLabels,
    SpanSelection,
    select_spans,
)

LABELS = ("A0", "A1", "C-A0", "TMP")


def holds(constraint, labels):
    """The definition of each constraint, for the labels of a selection from left to right."""
    match constraint:
        case AtMostOnce(label):
            return labels.count(label) <= 1
        case ExactlyOnce(label):
            return labels.count(label) == 1
        case OnlyIf(label, other):
            return label not in labels or other in labels
        case OnlyAfter(label, other):
            return label not in labels or other in labels[: labels.index(label)]
        case OnlyLabels(allowed):
            return set(labels) <= allowed
    raise AssertionError(constraint)


def all_selections(candidates, scores, constraints):
    """Every subset of the candidates that is a selection, with its score."""
    found = []
    for k in range(len(candidates) + 1):
        for subset in itertools.combinations(range(len(candidates)), k):
            spans = sorted(candidates[c] for c in subset)
            if any(a[1] > b[0] for a, b in itertools.pairwise(spans)):
                continue
            score = math.fsum(scores[c] for c in subset)
            if score > -math.inf and all(
                holds(one, [label for _, _, label in spans]) for one in constraints
            ):
                found.append((frozenset(subset), score))
    return sorted(found, key=lambda item: -item[1])


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = draw(st.integers(0, 8))
    candidates = []
    for _ in range(n):
        start = int(rng.integers(0, 6))
        candidates.append((start, start + int(rng.integers(1, 4)), str(rng.choice(LABELS))))
    candidates = list(dict.fromkeys(candidates))
    scores = rng.standard_normal(len(candidates))
    scores[rng.random(len(candidates)) < 0.1] = -np.inf
    pool = [
        AtMostOnce("A0"),
        AtMostOnce("A1"),
        ExactlyOnce("A1"),
        OnlyIf("TMP", "A0"),
        OnlyAfter("C-A0", "A0"),
        OnlyLabels(frozenset({"A0", "C-A0", "TMP"})),
    ]
    chosen = [one for one in pool if rng.random() < 0.4]
    return candidates, scores, chosen


@given(cases(), st.integers(1, 6))
def test_selections_equal_all_subsets(case, n):
    candidates, scores, constraints = case
    expected = all_selections(candidates, scores.tolist(), constraints)
    selection = SpanSelection(candidates, scores, constraints)
    found = selection.nbest(n)
    assert len(found) == min(n, len(expected))
    assert_allclose([one.score for one in found], [score for _, score in expected[:n]], atol=1e-12)
    assert len({frozenset(one.indices) for one in found}) == len(found)
    every = dict(expected)
    for one in found:
        assert_allclose(every[frozenset(one.indices)], one.score, atol=1e-12)
        assert one.spans == sorted(candidates[c] for c in one.indices)
    if not expected:
        assert selection.best(on_infeasible="none") is None
        assert selection.log_partition() == -math.inf
        assert not selection.marginals().any()
        return
    log_z = log_sum_exp([score for _, score in expected])
    assert_allclose(selection.log_partition(), log_z, atol=1e-9)
    marginals = np.zeros(len(candidates))
    for subset, score in expected:
        for c in subset:
            marginals[c] += math.exp(score - log_z)
    assert_allclose(selection.marginals(), marginals, atol=1e-9)
    assert_allclose(found[0].prob, math.exp(expected[0][1] - log_z), atol=1e-9)


def test_a_batch_equals_its_sequences():
    rng = np.random.default_rng(0)
    constraints = [AtMostOnce("A0"), OnlyAfter("C-A0", "A0")]
    parts = []
    for n in (5, 0, 40, 12):
        starts = rng.integers(0, 20, n)
        spans = [(int(s), int(s + rng.integers(1, 6)), str(rng.choice(LABELS))) for s in starts]
        parts.append((spans, rng.standard_normal(n)))
    flat = [span for spans, _ in parts for span in spans]
    scores = np.concatenate([scores for _, scores in parts])
    offsets = np.cumsum([0] + [len(spans) for spans, _ in parts])
    batch = SpanSelection(flat, scores, constraints, offsets=offsets)
    singles = [SpanSelection(*part, constraints) for part in parts]
    assert [one.spans for one in batch.best()] == [one.best().spans for one in singles]
    assert_allclose(batch.log_partition(), [one.log_partition() for one in singles])
    assert_allclose(batch.marginals(), np.concatenate([one.marginals() for one in singles]))


@pytest.mark.parametrize("seed", range(3))
def test_the_best_selection_is_that_of_an_integer_programme(seed):
    """scipy's milp: a variable per candidate, a row per position and per constraint."""
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(seed)
    T, spans = 30, []
    for _ in range(25):
        start = int(rng.integers(0, T - 1))
        end = min(T, start + int(rng.integers(1, 8)))
        spans += [(start, end, label) for label in LABELS]
    spans = list(dict.fromkeys(spans))
    scores = rng.standard_normal(len(spans))
    constraints = [AtMostOnce("A0"), ExactlyOnce("A1"), OnlyIf("TMP", "A0")]
    constraints.append(OnlyAfter("C-A0", "A0"))
    is_label = {label: np.array([kind == label for _, _, kind in spans]) for label in LABELS}
    rows = [[start <= t < end for start, end, _ in spans] for t in range(T)]
    upper, lower = [1.0] * T, [0.0] * T
    rows += [is_label["A0"], is_label["A1"]]
    upper, lower = [*upper, 1, 1], [*lower, 0, 1]
    for c, (start, _, kind) in enumerate(spans):
        if kind in ("TMP", "C-A0"):  # x_c ≤ the sum of the A0 that license it
            row = np.zeros(len(spans))
            row[c] = 1
            licence = is_label["A0"] & np.array([kind == "TMP" or e <= start for _, e, _ in spans])
            rows.append(row - licence)
            upper, lower = [*upper, 0], [*lower, -np.inf]
    solved = optimize.milp(
        -scores,
        integrality=np.ones(len(spans)),
        bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(np.array(rows, dtype=float), lower, upper),
    )
    best = select_spans(spans, scores, constraints)
    assert_allclose(best.score, -solved.fun, atol=1e-6)
    assert set(best.indices) == set(np.flatnonzero(solved.x > 0.5).tolist())


def test_errors():
    with raises(InfeasibleError, hint="Relax"):
        select_spans([(0, 1, "A0")], [1.0], [ExactlyOnce("A1")])
    with raises(ShapeError, where="candidates[1]", found="(2, 2, 'A0')"):
        SpanSelection([(0, 1, "A0"), (2, 2, "A0")], [0.0, 0.0])
    with raises(ShapeError, parameter="scores", found="(2,)"):
        SpanSelection([(0, 1, "A0")], [0.0, 0.0])
    with raises(ScoreError, where="scores[0]"):
        SpanSelection([(0, 1, "A0")], [np.nan])
    with raises(ParameterError, parameter="constraints", found="'A0'"):
        SpanSelection([(0, 1, "A0")], [0.0], ["A0"])
