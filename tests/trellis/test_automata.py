"""What each state space means, said without states: a formula over the label path.

The oracle in `test_enumeration` follows the automaton's own arrays, so a constructor that builds
the wrong automaton would pass there. Here the weight of a path is written down from its labels
alone and must equal what the trellis of the space gives it, for every path.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles
import tagloom as tl
from strategies import random_automaton

FORBIDDEN = -math.inf


def scores_of_all_paths(space, weights, T):
    """path -> the score that the trellis gives it when all other scores are zero."""
    trellis = tl.Trellis(np.zeros((T, space.n_labels)), states=space, weights=weights)
    every = itertools.product(range(space.n_labels), repeat=T)
    return {path: trellis.path_score(path) for path in every}


def assert_scores(space, groups, T, formula):
    """The trellis and the formula agree on every path of length T."""
    weights = np.concatenate([np.ravel(groups[name]) for name in space.weight_groups] or [[]])
    assert {name: tuple(shape) for name, shape in space.weight_groups.items()} == {
        name: np.shape(group) for name, group in groups.items()
    }
    found = scores_of_all_paths(space, weights, T)
    expected = {path: formula(path) for path in found}
    assert_allclose(list(found.values()), list(expected.values()), rtol=1e-12, atol=1e-12)
    log_z = oracles.log_sum_exp([score for score in expected.values() if score > FORBIDDEN])
    trellis = tl.Trellis(np.zeros((T, space.n_labels)), states=space, weights=weights)
    assert_allclose(trellis.log_partition(), log_z, rtol=1e-12, atol=1e-12)


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(("Y", "k", "T"), [(2, 1, 4), (3, 2, 4), (2, 3, 6), (1, 3, 5), (2, 4, 3)])
def test_order_k_adds_a_weight_for_each_longer_ngram(Y, k, T):
    groups = {f"ngram{n}": normal(n, *(Y,) * n) for n in range(3, k + 2)}

    def formula(path):
        return sum(
            groups[f"ngram{n}"][path[t - n + 1 : t + 1]]
            for n in range(3, k + 2)
            for t in range(n - 1, len(path))
        )

    assert_scores(tl.StateSpace.order(Y, k), groups, T, formula)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_pruned_order_k_has_the_seen_ngrams_and_loses_no_path(k, seed):
    Y, T = 3, 5
    rng = np.random.default_rng(seed)
    seen = [rng.integers(0, Y, rng.integers(0, 7)).tolist() for _ in range(4)]
    space = tl.StateSpace.order(Y, k, seen=seen)
    ids = {}
    for n in range(3, k + 2):
        ngrams = {tuple(s[i : i + n]) for s in seen for i in range(len(s) - n + 1)}
        listed = list(space.ngrams[f"ngram{n}"])
        assert sorted(listed) == sorted(ngrams)
        ids[n] = {ngram: i for i, ngram in enumerate(listed)}
    groups = {f"ngram{n}": normal(seed, len(ids[n])) for n in ids}

    def formula(path):
        return sum(
            groups[f"ngram{n}"][ids[n][path[t - n + 1 : t + 1]]]
            for n in ids
            for t in range(n - 1, len(path))
            if path[t - n + 1 : t + 1] in ids[n]
        )

    assert_scores(space, groups, T, formula)


@pytest.mark.parametrize(("Y", "label", "n"), [(2, 0, 1), (2, 1, 3), (3, 1, 2), (1, 0, 2)])
def test_run_length_weighs_the_run_just_before(Y, label, n):
    run = normal(7, n + 1, Y)

    def formula(path):
        total = 0.0
        for t, y in enumerate(path):
            before = list(itertools.takewhile(lambda x: x == label, reversed(path[:t])))
            total += run[min(len(before), n), y]
        return total

    assert_scores(tl.StateSpace.run_length(Y, label, n), {"run": run}, 5, formula)


@pytest.mark.parametrize(("Y", "label", "n"), [(2, 0, 1), (2, 1, 3), (3, 1, 2), (1, 0, 2)])
def test_total_count_weighs_how_many_came_before(Y, label, n):
    count = normal(8, n + 1, Y)

    def formula(path):
        return sum(count[min(path[:t].count(label), n), y] for t, y in enumerate(path))

    assert_scores(tl.StateSpace.total_count(Y, label, n), {"count": count}, 5, formula)


def test_bio_allows_inside_only_after_the_same_type():
    labels = ["O", "I-A", "B-A", "I-B", "B-B"]

    def formula(path):
        names = [labels[y] for y in path]
        for before, name in zip(["O", *names], names, strict=False):
            if name[0] == "I" and before not in (f"B-{name[2:]}", name):
                return FORBIDDEN
        return 0.0

    assert_scores(tl.StateSpace.bio(labels), {}, 3, formula)


@pytest.mark.parametrize("letters", ["BIES", "BILU"])
def test_bioes_spans_are_whole(letters):
    b, i, e, s = letters
    labels = ["O"] + [f"{letter}-{kind}" for kind in "AB" for letter in letters]

    def formula(path):
        inside = None  # the type of the open span
        for name in (labels[y] for y in path):
            letter, kind = name[0], name[2:]
            if inside is None and letter in (i, e):
                return FORBIDDEN
            if inside is not None and (letter not in (i, e) or kind != inside):
                return FORBIDDEN
            if letter in (b, i):
                inside = kind
            elif letter == e:
                inside = None
            assert letter in (b, i, e, s, "O")
        return 0.0 if inside is None else FORBIDDEN

    assert_scores(tl.StateSpace.bioes(labels), {}, 3, formula)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(0, 4))
def test_intersection_takes_the_paths_of_both_and_adds_their_weights(seed, Y, T):
    rng = np.random.default_rng(seed)
    a = random_automaton(rng, Y)
    b = [
        tl.StateSpace.run_length(Y, 0, 2),
        tl.StateSpace.order(Y, 2),
        random_automaton(rng, Y),
    ][seed % 3]
    w_a, w_b = normal(seed, a.n_weights), normal(seed + 1, b.n_weights)
    alone_a, alone_b = scores_of_all_paths(a, w_a, T), scores_of_all_paths(b, w_b, T)
    both = scores_of_all_paths(a & b, np.concatenate([w_a, w_b]), T)
    assert_allclose(
        list(both.values()),
        [alone_a[path] + alone_b[path] for path in both],
        rtol=1e-12,
        atol=1e-12,
    )
    again = a.intersect(b)
    assert_array_equal(again.src, (a & b).src)


def test_order_two_equals_the_product_tagset():
    """§7.3.2: trigram scores by tags that are pairs of tags, −inf where the pairs disagree."""
    rng = np.random.default_rng(3)
    T, Y = 7, 3
    emit, trans = rng.standard_normal((T, Y)), rng.standard_normal((Y, Y))
    start, stop = rng.standard_normal(Y), rng.standard_normal(Y)
    trigram = rng.standard_normal((Y, Y, Y))
    second = tl.Trellis(
        emit, trans, start, stop, states=tl.StateSpace.order(Y, 2), weights=trigram.ravel()
    )

    pairs = [(None, b) for b in range(Y)] + list(itertools.product(range(Y), repeat=2))
    P = len(pairs)
    last = np.array([b for _, b in pairs])
    wide = np.full((P, P), -np.inf)
    for i, (a, b) in enumerate(pairs):
        for j, (c, d) in enumerate(pairs):
            if c == b:
                wide[i, j] = trans[b, d] + (0.0 if a is None else trigram[a, b, d])
    product = tl.Trellis(
        emit[:, last],
        wide,
        np.where([a is None for a, _ in pairs], start[last], -np.inf),
        stop[last],
    )
    assert_allclose(second.log_partition(), product.log_partition(), rtol=1e-12)
    assert_array_equal(second.viterbi().path, last[product.viterbi().path])
    assert_allclose(second.viterbi().score, product.viterbi().score, rtol=1e-12)
    folded = np.zeros((T, Y))
    np.add.at(folded.T, last, product.marginals().T)
    assert_allclose(second.marginals(), folded, rtol=1e-9, atol=1e-12)
    assert_array_equal(second.nbest(10).paths, last[product.nbest(10).paths])
