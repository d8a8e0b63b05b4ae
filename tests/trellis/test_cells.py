"""Expected counts of candidates whose scores are cells of a table, beside those of `Trellis`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tagloom.trellis import Trellis, engine

Y, R = 4, 6
LENGTHS = [5, 0, 1, 9, 2, 30]


def cases():
    """Yield the name of a range of scores and random cells: plain, tiny, and some forbidden."""
    yield "plain", lambda rng, n: rng.normal(0, 2, n)
    yield "tiny", lambda rng, n: rng.choice([0.0, -300.0, -900.0], n)
    yield "forbidden", lambda rng, n: np.where(rng.random(n) < 0.2, -np.inf, rng.normal(0, 40, n))


def problem(scores_of, seed):
    """Return candidates of each token, their cells, and the scores of chain and cells."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, R, sum(LENGTHS))
    listed = [np.flatnonzero(rng.random(Y) < 0.6) for _ in range(R)]
    listed = [labels if len(labels) else np.array([0]) for labels in listed]
    label_ids = np.concatenate([listed[r] for r in rows]).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum([len(listed[r]) for r in rows])])
    flat = np.concatenate([r * Y + listed[r] for r in rows])
    places, cells = np.unique(flat, return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    batch = engine.CellBatch(indptr, label_ids, cells.astype(np.int32), places, offsets, Y)
    chain = [scores_of(rng, Y * Y).reshape(Y, Y), rng.normal(size=Y), rng.normal(size=Y)]
    return batch, indptr, label_ids, cells, chain, scores_of(rng, len(places)), rng


def expect(batch, chain, scores, threads, weight):
    model = engine.Transitions(Y, None, *chain, None, None)
    counts = model.no_counts()
    log_z, found = engine.cell_sums(model, batch, scores, threads, counts, weight)
    return log_z, found, counts


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("name", "scores_of"), list(cases()))
def test_counts_equal_those_of_the_trellis(name, scores_of, seed):
    batch, indptr, label_ids, cells, chain, scores, rng = problem(scores_of, seed)
    weight = rng.random(len(LENGTHS)) * 3 if seed % 2 else None
    log_z, found, counts = expect(batch, chain, scores, 1, weight)
    wanted, transitions, start = np.zeros(len(scores)), np.zeros((Y, Y)), np.zeros(Y)
    for i, (a, b) in enumerate(zip(batch.offsets, batch.offsets[1:], strict=False)):
        if a == b:
            assert log_z[i] == 0
            continue
        lo, hi, times = indptr[a], indptr[b], 1 if weight is None else weight[i]
        emit = np.full((b - a, Y), -np.inf)
        tokens = np.repeat(np.arange(b - a), np.diff(indptr[a : b + 1]))
        emit[tokens, label_ids[lo:hi]] = scores[cells[lo:hi]]
        trellis = Trellis(emit, *chain)
        assert_allclose(log_z[i], trellis.log_partition(), rtol=1e-11, err_msg=name)
        if np.isneginf(log_z[i]):
            continue
        gamma = trellis.marginals()
        np.add.at(wanted, cells[lo:hi], times * gamma[tokens, label_ids[lo:hi]])
        start += times * gamma[0]
        transitions += times * trellis.pair_marginals().sum(axis=0)
    assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert_allclose(counts.start, start, rtol=1e-9, atol=1e-12)
    assert_allclose(counts.transitions, transitions, rtol=1e-9, atol=1e-12)


def test_any_number_of_threads_gives_the_same_bits():
    _, scores_of = next(cases())
    rng = np.random.default_rng(0)
    rows = rng.integers(0, R, 6000)
    offsets = np.arange(0, 6001, 20)
    label_ids = np.tile(np.arange(Y, dtype=np.int32), 6000)
    cells = (rows[:, None] * Y + np.arange(Y)).ravel()
    batch = engine.CellBatch(
        np.arange(0, 6000 * Y + 1, Y),
        label_ids,
        cells.astype(np.int32),
        np.arange(R * Y),
        offsets,
        Y,
    )
    chain = [scores_of(rng, Y * Y).reshape(Y, Y), rng.normal(size=Y), rng.normal(size=Y)]
    scores = scores_of(rng, R * Y)
    one, two = (expect(batch, chain, scores, threads, None) for threads in (1, 3))
    for a, b in zip((*one[:2], *one[2]), (*two[:2], *two[2]), strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cells": [0, 7]}, "must exist"),
        ({"cells": [1, 0]}, "have its label"),
        ({"places": [1, 0]}, "must rise"),
        ({"cells": [0]}, r"must be \[C\]"),
    ],
)
def test_wrong_cells(change, text):
    arrays = {"label_ids": [0, 1], "cells": [0, 1], "places": [0, 1]} | change
    label_ids, cells = (np.array(arrays[n], dtype=np.int32) for n in ("label_ids", "cells"))
    places = np.array(arrays["places"])
    with pytest.raises(ValueError, match=text):
        engine.CellBatch(np.array([0, 2]), label_ids, cells, places, np.array([0, 1]), 2)
