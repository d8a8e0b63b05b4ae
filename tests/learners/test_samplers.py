"""The samplers against exact posteriors by enumeration."""

import math

import numpy as np
import pytest

from posteriors import count, exact_posterior, log_grid, log_row, number, total_variation
from tagloom import _native

# ---- collapsed Gibbs -----------------------------------------------------------------------------

CASES = {
    "stop": {"Y": 2, "lengths": [4, 3], "stop": True},
    "no stop": {"Y": 2, "lengths": [3, 4], "stop": False},
    "three labels": {"Y": 3, "lengths": [4], "stop": True},
    "missing symbols, one-token and empty sequences": {
        "Y": 2,
        "lengths": [1, 0, 4, 1],
        "stop": True,
        "missing": [0, 3],
    },
    "candidates": {"Y": 3, "lengths": [4, 1], "stop": True, "candidates": True},
    "topology": {"Y": 3, "lengths": [5], "stop": False, "left_right": True},
}


def run_gibbs(case, sweeps):
    rng = np.random.default_rng(5)
    Y, V, lengths = case["Y"], 3, case["lengths"]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    T = int(offsets[-1])
    symbols = rng.integers(0, V, T).astype(np.int32)
    symbols[case.get("missing", [])] = -1
    start, trans = np.full(Y, 0.4), np.full((Y, Y), 0.3)
    if case.get("left_right"):
        trans = np.triu(trans) * np.tri(Y, Y, 1)
        start[1:] = 0
    stop = np.full(Y, 0.5) if case["stop"] else None
    candidates = None
    labels, lists = np.zeros(T, dtype=np.int32), (None, None)
    if case.get("candidates"):
        candidates = [[0, 1, 2], [0, 2], [1], [0, 1, 2], [1, 2]]
        labels = np.array([c[0] for c in candidates], dtype=np.int32)
        lists = (
            np.cumsum([0] + [len(c) for c in candidates]),
            np.concatenate(candidates).astype(np.int32),
        )
    beta = 0.6
    exact = exact_posterior(symbols, offsets, start, trans, stop, beta, V, candidates)
    sampler = _native.Gibbs(Y, V, offsets, symbols, labels, *lists)
    visits = np.zeros(len(exact))
    for seed in range(sweeps):
        sampler.sweep(start, trans, stop, beta, seed)
        visits[number(sampler.labels, Y)] += 1
    return exact, visits / sweeps, sampler, (symbols, offsets, Y, V)


@pytest.mark.parametrize("name", CASES)
def test_pointwise_gibbs_has_the_exact_posterior(name):
    exact, sampled, _, _ = run_gibbs(CASES[name], 10_000)
    assert total_variation(exact, sampled) < 0.06
    assert sampled[exact == 0].sum() == 0


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_pointwise_gibbs_comes_close_to_the_exact_posterior(name):
    exact, sampled, _, _ = run_gibbs(CASES[name], 200_000)
    assert total_variation(exact, sampled) < 0.015


@pytest.mark.parametrize("name", CASES)
def test_gibbs_counts_follow_the_labels(name):
    _, _, sampler, data = run_gibbs(CASES[name], 50)
    transitions, emissions = count(sampler.labels, *data)
    nonempty = transitions.copy()
    nonempty[-1, -1] = 0  # empty sequences have no transition
    assert (sampler.transitions() == nonempty).all()
    assert (sampler.emissions() == emissions.T).all()
    histogram = np.bincount(emissions.astype(int).ravel())
    assert sampler.emission_histogram().tolist() == histogram.tolist()


# ---- the infinite HMM ----------------------------------------------------------------------------

ALPHA, GAMMA, BETA = 0.8, 1.2, 0.5


def partitions(T):
    """All partitions of T tokens, as labels numbered by first use."""
    rows = [()]
    for _ in range(T):
        rows = [(*row, k) for row in rows for k in range(max(row, default=-1) + 2)]
    return rows


def stirling(n, m):
    """Unsigned Stirling numbers of the first kind."""
    if n == 0 or m == 0:
        return float(n == m)
    return stirling(n - 1, m - 1) + (n - 1) * stirling(n - 1, m)


def partition_prior(path, offsets, sticky, stops, alpha=ALPHA, gamma=GAMMA):
    """Pr(path) under the infinite HMM, summed over all numbers of tables."""
    K = max(path) + 1
    transitions, _ = count_path(path, offsets, K)
    weights = {(0,) * K: 1.0}  # tables of each state -> sum of products
    for j in range(K + 1):
        for k in range(K):
            n = int(transitions[j, k])
            if n == 0:
                continue
            cell = [0.0] * (n + 1)  # by the number of tables that draw from the sticks
            for m in range(1, n + 1):
                for shared in range(m + 1) if j == k else [m]:
                    others = math.comb(m, shared) * sticky ** (m - shared)
                    cell[shared] += stirling(n, m) * alpha**shared * others
            new = {}
            for tables, weight in weights.items():
                for m, factor in enumerate(cell):
                    key = (*tables[:k], tables[k] + m, *tables[k + 1 :])
                    new[key] = new.get(key, 0.0) + weight * factor
            weights = new
    total = sum(
        weight * math.prod(math.gamma(m) for m in tables) / math.gamma(gamma + sum(tables))
        for tables, weight in weights.items()
        if all(tables)
    )
    prior = total * gamma**K * math.gamma(gamma)
    for j in range(K + 1):
        a = alpha + (sticky if j < K else 0)
        prior *= math.gamma(a) / math.gamma(a + transitions[j, :K].sum())
    if stops:
        for k in range(K):
            ends, left = transitions[k, K], transitions[k, :K].sum()
            prior *= math.gamma(1 + ends) * math.gamma(1 + left) / math.gamma(2 + ends + left)
    return prior


def count_path(path, offsets, K):
    return count(path, [-1] * len(path), offsets, K, 1)


def partition_posterior(symbols, offsets, sticky, stops, V=3):
    paths = partitions(len(symbols))
    probs = []
    for path in paths:
        K = max(path) + 1
        _, emissions = count(path, symbols, offsets, K, V)
        likelihood = math.exp(sum(log_row(row, np.full(V, BETA)) for row in emissions))
        probs.append(partition_prior(path, offsets, sticky, stops) * likelihood)
    return {path: p / sum(probs) for path, p in zip(paths, probs, strict=True)}


def canonical(labels):
    seen = {}
    return tuple(seen.setdefault(y, len(seen)) for y in labels.tolist())


BEAM_SYMBOLS = np.array([0, 1, 0, 1, 0], dtype=np.int32)
BEAM_CASES = {
    "plain": {"offsets": [0, 5], "sticky": 0.0, "stops": False},
    "sticky": {"offsets": [0, 5], "sticky": 0.7, "stops": False},
    "two sequences with a stop": {"offsets": [0, 2, 5], "sticky": 0.0, "stops": True},
    "a missing symbol": {"offsets": [0, 5], "sticky": 0.0, "stops": True, "missing": [2]},
}


def beam_distance(case, sweeps, sweep):
    """Total variation between the posterior and the labels of a sampler."""
    symbols = BEAM_SYMBOLS.copy()
    symbols[case.get("missing", [])] = -1
    offsets = np.array(case["offsets"])
    exact = partition_posterior(symbols, offsets, case["sticky"], case["stops"])
    sampler = _native.Beam(
        offsets,
        np.zeros(5, dtype=np.int32),
        np.array([0.5, 0.5]),
        ALPHA,
        GAMMA,
        case["sticky"],
        None,
        None,
        case["stops"],
        1000,
    )
    visits, keys = dict.fromkeys(exact, 0), {}
    for seed in range(sweeps):
        sweep(sampler, symbols, seed)
        labels = sampler.labels
        key = keys.get(labels.tobytes())
        if key is None:
            key = keys[labels.tobytes()] = canonical(labels)
        visits[key] += 1
    return 0.5 * sum(abs(visits[path] / sweeps - p) for path, p in exact.items())


GENERATOR = np.random.default_rng(0)  # of the steps that NumPy makes


def native_sweep(sampler, symbols, seed):
    sampler.sweep(symbols, 3, BETA, seed, 1)


def stepwise_sweep(sampler, symbols, seed, broken=False):
    """The same sweep in single steps, with emissions drawn by NumPy; broken: step 2 is wrong."""
    tables = sampler.draw_tables(seed)
    if broken:  # every transition counts as a table
        tables = np.bincount(sampler.labels, minlength=len(tables))
    sampler.draw_sticks(tables, seed)
    K = sampler.draw_rows(seed)
    counts = np.full((K, 3), BETA)
    is_seen = symbols >= 0
    np.add.at(counts, (sampler.labels[is_seen], symbols[is_seen]), 1)
    gammas = GENERATOR.standard_gamma(counts)
    probs = np.ascontiguousarray((gammas / gammas.sum(axis=1, keepdims=True)).T)
    sampler.draw_labels(probs, symbols, seed, 1)


def test_the_partition_prior_sums_to_one():
    for case in BEAM_CASES.values():
        if case["stops"]:  # then only Pr(labels) given the lengths is not normalised
            continue
        total = sum(
            partition_prior(path, case["offsets"], case["sticky"], False) for path in partitions(5)
        )
        assert total == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("name", BEAM_CASES)
def test_beam_sampling_has_the_exact_posterior(name):
    assert beam_distance(BEAM_CASES[name], 10_000, native_sweep) < 0.07


@pytest.mark.soak
@pytest.mark.parametrize("name", BEAM_CASES)
def test_beam_sampling_comes_close_to_the_exact_posterior(name):
    assert beam_distance(BEAM_CASES[name], 100_000, native_sweep) < 0.03


def broken_sweep(*arguments):
    stepwise_sweep(*arguments, broken=True)


def test_a_broken_beam_sampler_is_found_out():
    assert beam_distance(BEAM_CASES["plain"], 8_000, broken_sweep) > 0.1


@pytest.mark.soak
def test_a_broken_beam_sampler_stays_far_from_the_posterior():
    assert beam_distance(BEAM_CASES["plain"], 100_000, stepwise_sweep) < 0.03
    assert beam_distance(BEAM_CASES["plain"], 100_000, broken_sweep) > 0.1


def test_beam_sampling_learns_concentrations():
    symbols, offsets = np.array([0, 1, 0, 2], dtype=np.int32), np.array([0, 4])
    points, weights = log_grid(-6, 3, 16)
    joint = np.zeros((16, 16))  # alpha, gamma
    for path in partitions(4):
        _, emissions = count(path, symbols, offsets, max(path) + 1, 3)
        likelihood = math.exp(sum(log_row(row, np.full(3, BETA)) for row in emissions))
        for i, j in np.ndindex(16, 16):
            prior = partition_prior(path, offsets, 0.0, False, points[i], points[j])
            joint[i, j] += prior * likelihood * weights[i] * weights[j]
    joint /= joint.sum()
    expected = joint.sum(axis=1) @ np.log(points), joint.sum(axis=0) @ np.log(points)
    labels, sticks = np.zeros(4, dtype=np.int32), np.array([0.5, 0.5])
    sampler = _native.Beam(offsets, labels, sticks, 1.0, 1.0, 0.0, 1.0, 1.0, False, 1000)
    draws = []
    for seed in range(15_000):
        native_sweep(sampler, symbols, seed)
        draws.append((math.log(sampler.alpha), math.log(sampler.gamma)))
    assert np.mean(draws, axis=0) == pytest.approx(expected, abs=0.1)
