"""Constraints: what is left is exactly the allowed paths, with their probability renormalised."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles
import tagloom as tl
from strategies import SPACES, cases

anything = st.one_of(cases(), cases(spaces=SPACES))


def assert_paths_are(trellis, kept, case):
    """The trellis has these paths with these scores and no others."""
    assert trellis.count_paths() == [len(paths) for paths in kept]
    assert_array_equal(trellis.is_feasible(), [bool(paths) for paths in kept])
    expected = [oracles.log_sum_exp([score for _, score in paths]) for paths in kept]
    assert_allclose(trellis.log_partition(), expected, **case.close)
    for paths, found in zip(kept, trellis.nbest(400), strict=True):
        assert sorted(map(tuple, found.paths)) == sorted(path for path, _ in paths)
    best = trellis.split(trellis.viterbi(on_infeasible="none").path)
    for paths, path in zip(kept, best, strict=True):
        assert not paths or tuple(path) in dict(paths)


def keep(case, test):
    """The paths of each sequence i that pass test(i, path)."""
    return [
        [(path, score) for path, score in chain.paths if test(i, path)]
        for i, chain in enumerate(case.chains)
    ]


@given(anything, st.integers(0, 2**32 - 1))
def test_a_mask_keeps_the_allowed_labels(case, seed):
    rng = np.random.default_rng(seed)
    masks = [rng.random(emit.shape) < 0.7 for emit in case.emits]
    trellis = case.batch().constrain(np.concatenate(masks))
    kept = keep(case, lambda i, path: all(masks[i][t, y] for t, y in enumerate(path)))
    assert_paths_are(trellis, kept, case)


@given(anything, st.integers(0, 2**32 - 1))
def test_positions_may_be_allowed_forced_and_forbidden(case, seed):
    rng = np.random.default_rng(seed)
    tokens = [(i, t) for i, emit in enumerate(case.emits) for t in range(len(emit))]
    chosen = [tokens[j] for j in rng.permutation(len(tokens))[:4]]
    Y = case.n_labels
    allowed, forced, forbidden = {}, {}, {}
    for j, where in enumerate(chosen):
        labels = rng.permutation(Y)[: 1 + rng.integers(Y)].tolist()
        if j % 4 == 0:
            allowed[where] = labels
        elif j % 4 == 1:
            allowed[where] = labels[0]
        elif j % 4 == 2:
            forced[where] = labels[0]
        else:
            forbidden[where] = labels if len(labels) > 1 else labels[0]

    def test(i, path):
        return all(
            y in np.atleast_1d(allowed.get((i, t), range(Y)))
            and y == forced.get((i, t), y)
            and y not in np.atleast_1d(forbidden.get((i, t), -1))
            for t, y in enumerate(path)
        )

    trellis = case.batch().constrain(allowed, forced=forced, forbidden=forbidden)
    assert_paths_are(trellis, keep(case, test), case)


@given(anything, st.integers(0, 2**32 - 1), st.booleans())
def test_transitions_may_be_forbidden(case, seed, as_pairs):
    banned = np.random.default_rng(seed).random((case.n_labels,) * 2) < 0.3
    transitions = list(zip(*np.nonzero(banned), strict=True)) if as_pairs else banned
    trellis = case.batch().constrain(forbidden_transitions=transitions)
    kept = keep(case, lambda _, path: not any(banned[a, b] for a, b in itertools.pairwise(path)))
    assert_paths_are(trellis, kept, case)


@given(cases(n=1, spaces=(None, *SPACES)), st.integers(0, 2**32 - 1))
def test_a_single_sequence_takes_plain_positions(case, seed):
    rng = np.random.default_rng(seed)
    T = len(case.emits[0])
    y = int(rng.integers(case.n_labels))
    t = int(rng.integers(T)) if T else None
    trellis = case.single().constrain(forced={t: y} if T else None)
    ((*kept,),) = keep(case, lambda _, path: not T or path[t] == y)
    assert trellis.count_paths() == len(kept)
    expected = oracles.log_sum_exp([score for _, score in kept])
    assert_allclose(trellis.log_partition(), expected, **case.close)


@pytest.fixture
def tagger():
    rng = np.random.default_rng(11)
    return tl.Trellis(rng.standard_normal((4, 3)), labels=["D", "N", "V"])


def test_labels_may_be_given_by_name(tagger):
    by_name = tagger.constrain(
        {0: ["D", "N"], 1: "N"},
        forced={2: "V"},
        forbidden={3: "V"},
        forbidden_transitions=[("D", "N")],
    )
    by_id = tagger.constrain(
        {0: [0, 1], 1: 1}, forced={2: 2}, forbidden={3: 2}, forbidden_transitions=[(0, 1)]
    )
    assert by_name.count_paths() == by_id.count_paths() == 2
    assert_array_equal(by_name.viterbi().path, by_id.viterbi().path)
    assert by_name.log_partition() == by_id.log_partition()


def test_a_one_character_name_and_a_set_are_both_labels(tagger):
    assert tagger.constrain({0: {"D", "N"}}).count_paths() == 2 * 27
    assert tagger.constrain({0: "N"}).count_paths() == 27


def test_constrain_returns_a_new_trellis(tagger):
    before = tagger.log_partition()
    narrower = tagger.constrain(forced={0: "V"})
    assert narrower is not tagger
    assert narrower.log_partition() < before == tagger.log_partition()
    assert tagger.count_paths() == 81
    assert narrower.constrain(forced={0: "N"}).count_paths() == 0
    assert narrower.constrain(forced={1: "N"}).count_paths() == 9


def test_constraints_never_raise_until_a_path_is_asked_for(tagger):
    impossible = tagger.constrain(np.zeros((4, 3), bool))
    assert impossible.is_feasible() is False
    assert impossible.log_partition() == -math.inf
    with pytest.raises(tl.errors.InfeasibleError):
        impossible.viterbi()


@given(cases(spaces=(None, *SPACES)), st.integers(0, 2**32 - 1))
def test_the_mass_of_a_mask_is_its_share_of_the_partition(case, seed):
    """log_prob_of(mask) = log_z of the constrained trellis − log_z."""
    rng = np.random.default_rng(seed)
    case = case.feasible()
    if not case.emits:
        return
    mask = np.concatenate([rng.random(emit.shape) < 0.8 for emit in case.emits])
    trellis = case.batch()
    found = trellis.log_prob_of(mask)
    close = {"rtol": 1e-4, "atol": 10 * case.close["atol"]}
    share = trellis.constrain(mask).log_partition() - trellis.log_partition()
    assert_allclose(found, share, **close)
