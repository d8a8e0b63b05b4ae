"""Trellises of candidate labels for the tests, and the comparison with enumeration."""

import itertools

import numpy as np
from numpy.testing import assert_allclose

import tagloom as tl


def listed(mask, emit, *shared, offsets=None, **options):
    """Return a trellis of candidates where a mask [T, Y] is true."""
    indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    ids = np.nonzero(mask)[1]
    return tl.Trellis.from_candidates(emit[mask], ids, indptr, *shared, offsets=offsets, **options)


def check_by_enumeration(trellis, chains):
    """Compare every result of a batch with the enumerated chains of its sequences."""
    log_z, entropy = trellis.log_partition(), trellis.entropy(on_infeasible="none")
    gamma = trellis.split(trellis.marginals(on_infeasible="none"))
    pairs = trellis.split(trellis.pair_marginals(on_infeasible="none"))
    best, nbest = trellis.viterbi(on_infeasible="none"), trellis.nbest(5)
    draws = trellis.sample(3, random_state=0, on_infeasible="none")
    ends = itertools.pairwise(trellis.offsets)
    for i, ((lo, hi), chain) in enumerate(zip(ends, chains, strict=True)):
        assert_allclose(log_z[i], chain.log_partition(), rtol=1e-13, atol=1e-11)
        if not chain.paths:
            assert log_z[i] == best.score[i] == -np.inf
            assert len(nbest[i].paths) == 0
            assert not gamma[i].any()
            assert not entropy[i]
            assert (draws[:, lo:hi] == -1).all()
            assert (best.path[lo:hi] == -1).all()
            continue
        assert_allclose(gamma[i], chain.marginals(), atol=1e-10)
        assert_allclose(pairs[i][1:], chain.pair_marginals()[1:], atol=1e-10)
        assert_allclose(entropy[i], chain.entropy(), rtol=1e-9, atol=1e-10)
        best_scores = sorted((score for _, score in chain.paths), reverse=True)[:5]
        assert_allclose(best.score[i], best_scores[0], rtol=1e-12, atol=1e-10)
        assert_allclose(nbest[i].scores, best_scores, rtol=1e-12, atol=1e-10)
        assert len({tuple(path) for path in nbest[i].paths}) == len(nbest[i].paths)
        for path in [*nbest[i].paths, *draws[:, lo:hi], best.path[lo:hi]]:
            expected = chain.path_score(tuple(path.tolist()))
            assert_allclose(trellis[i].path_score(path), expected, rtol=1e-12, atol=1e-10)
