"""Spectral learning: exact from exact moments, and the better, the more data."""

import functools

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import ParameterError, TrainingError
from tagloom.evaluation.assignments import assign
from tagloom.learners.spectral import (
    Estimate,
    Moments,
    Operators,
    count_moments,
    merge_runs,
    project,
    recover,
)
from tagloom.training import fit_iteratively


def random_model(rng, Y, V, has_stop=True):
    """A start, transitions [from, to], stops and emissions [V, Y] that are well apart."""
    start = rng.dirichlet(np.ones(Y) * 3)
    trans = rng.dirichlet(np.ones(Y), Y) * 0.6 + 0.4 * np.eye(Y)
    stop = rng.uniform(0.05, 0.3, Y) if has_stop else np.zeros(Y)
    emit = rng.dirichlet(np.ones(V) * 0.3, Y).T
    return start, trans, stop, emit


def exact_moments(start, trans, stop, emit):
    """The expected numbers of symbols, pairs and triples of a sequence with a stop."""
    onward = trans * (1 - stop)[:, None]
    visits = np.linalg.solve(np.eye(len(start)) - onward.T, start)  # expected numbers of tokens
    V = len(emit)
    pairs = np.einsum("i,ij,ai,bj->ab", visits, onward, emit, emit)
    triples = np.einsum("i,ij,jk,ai,bj,ck->abc", visits, onward, onward, emit, emit, emit)
    return Moments(
        emit @ start,
        emit @ (visits * stop),
        emit @ visits,
        np.array(list(np.ndindex(V, V)), dtype=np.int32).T,
        pairs.ravel(),
        np.array(list(np.ndindex(V, V, V)), dtype=np.int32).T,
        triples.ravel(),
    )


def matched(estimate, emit):
    """The estimate with its states in the order of the true ones."""
    order = assign(-np.abs(emit[:, :, None] - estimate.emissions[:, None, :]).sum(axis=0))
    return Estimate(
        estimate.emissions[:, order],
        estimate.start[order],
        estimate.transitions[np.ix_(order, order)],
        estimate.stop[order],
        estimate.visits[order],
    )


@pytest.mark.parametrize(("Y", "V"), [(1, 1), (1, 4), (2, 2), (3, 8), (5, 12)])
def test_exact_moments_give_the_parameters_back(Y, V):
    rng = np.random.default_rng(Y)
    start, trans, stop, emit = random_model(rng, Y, V)
    found = matched(recover(exact_moments(start, trans, stop, emit), Y, rng), emit)
    for ours, truth in zip(found, (emit, start, trans, stop), strict=False):
        np.testing.assert_allclose(ours, truth, atol=1e-8)
    for ours, raw in zip(project(found), found, strict=True):  # probabilities stay as they are
        np.testing.assert_allclose(ours, raw, atol=1e-8)


def draw_triples(rng, n, start, trans, emit):
    """Count n independent sequences of three symbols."""
    counts = rng.multinomial(n, joint_of_triples(start, trans, emit).ravel()).astype(float)
    V = len(emit)
    table = counts.reshape(V, V, V)
    singles = [table.sum(axis=axes) for axes in ((1, 2), (0, 2), (0, 1))]
    pairs = table.sum(axis=2) + table.sum(axis=0)
    places = [np.array(list(np.ndindex((V,) * k)), dtype=np.int32).T for k in (2, 3)]
    return Moments(
        singles[0], singles[2], sum(singles), places[0], pairs.ravel(), places[1], counts
    )


def joint_of_triples(start, trans, emit):
    return np.einsum("i,ij,jk,ai,bj,ck->abc", start, trans, trans, emit, emit, emit)


def test_error_falls_with_the_square_root_of_the_data():
    """The errors are medians of seven draws: now and then two eigenvalues nearly coincide."""
    start, trans = np.array([0.5, 0.3, 0.2]), np.full((3, 3), 0.15) + 0.55 * np.eye(3)
    emit = np.array([[4, 4, 2, 1, 1, 1, 1, 1], [1, 1, 1, 4, 4, 2, 1, 1], [1, 2, 1, 1, 1, 1, 4, 4]])
    emit = (emit / emit.sum(axis=1, keepdims=True)).T  # [V, Y]
    truth, sizes = joint_of_triples(start, trans, emit), [10_000, 40_000, 160_000, 640_000]
    errors = np.zeros((3, len(sizes), 7))
    for j, n in enumerate(sizes):
        for seed in range(7):
            rng = np.random.default_rng([seed, n])
            moments = draw_triples(rng, n, start, trans, emit)
            operators = Operators.from_moments(moments, 3, rng)
            B = operators.by_symbol
            joint = np.einsum("z,czk,bky,ayx,x->abc", operators.final, B, B, B, operators.first)
            found = matched(project(recover(moments, 3, rng)), emit)
            errors[:, j, seed] = (
                np.abs(truth - joint).sum(),
                np.abs(found.emissions - emit).sum(),
                np.abs(found.transitions - trans).sum(),
            )
    for row in np.median(errors, axis=2):
        slope = np.polyfit(np.log(sizes), np.log(row), 1)[0]
        assert -0.65 <= slope <= -0.35, (slope, row)


def test_operators_give_the_joint_probabilities():
    rng = np.random.default_rng(1)
    start, trans, _, emit = random_model(rng, 2, 4)
    joint = joint_of_triples(start, trans, emit)
    triples = np.array(list(np.ndindex(joint.shape)), dtype=np.int32).T
    moments = Moments(emit @ start, np.zeros(4), emit @ start, triples[:2], joint.ravel(), triples,
                      joint.ravel())  # fmt: skip
    operators = Operators.from_moments(moments, 2, rng)
    found = np.array([operators.prob(x) for x in np.ndindex(joint.shape)])
    np.testing.assert_allclose(found, joint.ravel(), atol=1e-10)
    longer = sum(operators.prob(x) for x in np.ndindex((4,) * 5))
    np.testing.assert_allclose(longer, 1.0, atol=1e-9)


def test_merged_symbols_lose_nothing():
    """Symbols that are merged outside still have their own emissions: exact moments stay exact."""
    rng = np.random.default_rng(1)
    start, trans, stop, emit = random_model(rng, 2, 12)
    moments = exact_moments(start, trans, stop, emit)
    least = np.sort(moments.every)[-6]  # six of twelve symbols are frequent
    found = matched(recover(moments, 2, rng, min_count=least), emit)
    for ours, truth in zip(found, (emit, start, trans, stop), strict=False):
        np.testing.assert_allclose(ours, truth, atol=1e-8)


def test_an_estimate_is_projected_to_probabilities():
    rng = np.random.default_rng(2)
    start, trans, _, emit = random_model(rng, 3, 6)
    moments = draw_triples(rng, 300, start, trans, emit)
    raw = recover(moments, 3, rng)
    assert min(array.min() for array in raw) < 0  # so that there is something to project
    found = project(raw)
    assert min(array.min() for array in found) >= 0
    joint = joint_of_triples(found.start, found.transitions, found.emissions)
    np.testing.assert_allclose(joint.sum(), 1.0, atol=1e-12)


def test_counts_equal_a_loop():
    rng = np.random.default_rng(0)
    rows = [rng.integers(-1, 4, n).tolist() for n in (0, 1, 2, 3, 7, 0, 5, 1)]
    weight = rng.random(len(rows))
    offsets = np.cumsum([0, *map(len, rows)])
    ids = np.array([x for row in rows for x in row])
    moments = count_moments(ids, offsets, 4, np.repeat(weight, [len(row) for row in rows]))
    expected = {n: {} for n in (1, 2, 3)}
    for row, w in zip(rows, weight, strict=True):
        for n, table in expected.items():
            for t in range(len(row) - n + 1):
                run = tuple(row[t : t + n])
                if min(run) >= 0:
                    table[run] = table.get(run, 0.0) + w
    for n, runs, counts in (
        (2, moments.pairs, moments.pair_counts),
        (3, moments.triples, moments.triple_counts),
    ):
        table = dict(zip(map(tuple, runs.T.tolist()), counts, strict=True))
        assert table.keys() == expected[n].keys()
        for run, count in table.items():
            np.testing.assert_allclose(count, expected[n][run])
    np.testing.assert_allclose(moments.every, [expected[1].get((v,), 0) for v in range(4)])
    pairs = [(row, w) for row, w in zip(rows, weight, strict=True) if row]
    first = [sum(w for row, w in pairs if row[0] == v) for v in range(4)]
    last = [sum(w for row, w in pairs if row[-1] == v) for v in range(4)]
    np.testing.assert_allclose(moments.first, first)
    np.testing.assert_allclose(moments.last, last)


def test_keys_of_many_symbols_do_not_overflow():
    V = 3_000_000
    rows = np.array([[V - 1, V - 1, 5], [V - 1, V - 1, 5], [V - 2, V - 2, 5]])
    runs, counts = merge_runs(rows, np.ones(3), V)
    assert sorted(zip(map(tuple, runs.T.tolist()), counts.tolist(), strict=True)) == [
        ((5, 5, 5), 1.0),
        ((V - 1, V - 1, V - 2), 2.0),
    ]


def test_too_few_symbols_or_tokens():
    rng = np.random.default_rng(0)
    with raises(TrainingError, expected="rank 3", found="rank 2"):
        recover(count_moments(rng.integers(0, 2, 50), np.array([0, 50]), 2), 3, rng)
    with raises(TrainingError, expected="3 tokens"):
        recover(count_moments(np.array([0, 1, 1]), np.array([0, 2, 3]), 2), 2, rng)


# ---- the algorithm -------------------------------------------------------------------------------


def problem_of(X, n_states, **options):
    words = tl.emissions.Words(smoothing=0, unknown=0, max_suffix=0)
    emission = words.bind([str(y) for y in range(n_states)])
    data = emission.encode(X)
    return tl.learners.Unlabelled(data, data.offsets, emission, **options)


@functools.cache
def draw_words(n, seed):
    """A model of two states, and n sequences drawn from it."""
    names, words = ["A", "B"], [f"w{v}" for v in range(5)]
    emit = [[0.6, 0.2, 0.1, 0.05, 0.05], [0.05, 0.05, 0.1, 0.3, 0.5]]
    trans, stop = np.array([[0.7, 0.2], [0.25, 0.65]]), [0.1, 0.1]
    probs = {"start": [0.8, 0.2], "trans": trans, "emit": emit, "stop": stop}
    hmm = tl.HMM.from_probs(names, words, **probs)
    rng = np.random.default_rng(seed)
    return hmm, [hmm.generate(rng).tokens for _ in range(n)]


@pytest.mark.parametrize("has_stop", [True, False])
def test_algorithm_learns_words(has_stop):
    hmm, X = draw_words(1200, 0)
    problem = problem_of(X, 2, has_stop=has_stop)
    outcome = fit_iteratively(tl.learners.Spectral().start(problem, 0), max_iterations=5)
    assert (outcome.stopped, len(outcome.records)) == ("converged", 1)
    chain, emission = outcome.weights
    sums = np.exp(chain.log_trans[0]).sum(axis=1)
    if has_stop:
        sums += np.exp(chain.log_stop)
        truth = sum(hmm.trellis(X).log_partition())
        assert outcome.records[0].objective > truth - 0.01 * problem.n_tokens
    else:
        assert chain.log_stop is None
    np.testing.assert_allclose(sums, 1.0, rtol=1e-9)
    words = [[f"w{v}"] for v in range(5)]
    ours, theirs = (np.exp(e.log_probs(words)) for e in (emission, hmm.emission_))  # [V, Y]
    order = assign(-np.abs(theirs[:, :, None] - ours[:, None, :]).sum(axis=0))
    np.testing.assert_allclose(ours[:, order], theirs, atol=0.1)


def test_weights_of_sequences_count_them():
    _, X = draw_words(200, 1)
    ours, theirs = (
        tl.learners.Spectral().start(problem, 0)
        for problem in (
            problem_of(X + X[:50], 2),
            problem_of(X, 2, weight=np.array([2.0] * 50 + [1.0] * 150)),
        )
    )
    np.testing.assert_allclose(ours.step().loss, theirs.step().loss, rtol=1e-6)


def test_state_of_the_learner():
    _, X = draw_words(100, 2)
    problem = problem_of(X, 2)
    learner, other = (tl.learners.Spectral().start(problem, seed) for seed in (0, 1))
    other.restore(learner.state())
    np.testing.assert_array_equal(
        other.weights()[0].log_trans[0], learner.weights()[0].log_trans[0]
    )
    assert other.step() == learner.step()


def test_conditions_that_name_states_are_refused():
    _, X = draw_words(5, 0)
    for options in (
        {"allowed": tl.learners.Allowed.everything(2)},
        {"fixed": frozenset({"start"})},
        {"tied": ((0, 1),)},
        {"candidates": tl.learners.CandidateLabels.from_mask(np.ones((50, 2), bool))},
    ):
        with raises(ParameterError, parameter="algorithm"):
            tl.learners.Spectral().start(problem_of(X, 2, **options), 0)


def test_tokens_that_are_not_symbols_are_refused():
    emission = tl.emissions.Features(["suffix(1)"]).bind(["0", "1"])
    X = [["a", "b", "c"]]
    problem = tl.learners.Unlabelled(emission.encode(X), np.array([0, 3]), emission)
    with raises(ParameterError, parameter="algorithm", found="Features"):
        tl.learners.Spectral().start(problem, 0)


def test_model_and_start_for_em():
    true, X = draw_words(1200, 0)
    fast = tl.HMM(n_states=2, algorithm="spectral").fit(X)
    assert (fast.stopped_, fast.training_["algorithm"]) == ("converged", "spectral")
    then = tl.learners.Spectral(then=tl.learners.EM(max_iterations=50))
    polished = tl.HMM(n_states=2, algorithm=then).fit(X)
    from_truth = tl.HMM(n_states=2, start_from=true, max_iterations=50).fit(X)
    scores = [hmm.log_likelihood(X) for hmm in (fast, polished, from_truth)]
    assert scores[0] < scores[1]
    np.testing.assert_allclose(scores[1], scores[2], rtol=1e-5)
    loaded = tl.HMM.load(polished.to_bytes())
    assert loaded.predict(X[:3]) == polished.predict(X[:3])
    assert tl.HMM(n_states=2, algorithm=then, max_iterations=3).fit(X).training_["iterations"] == 3


def test_missing_symbols_are_left_out():
    rng = np.random.default_rng(0)
    x = rng.choice([0.0, 1.0, 2.0, np.nan], 400, p=[0.4, 0.3, 0.2, 0.1])
    hmm = tl.HMM(n_states=2, algorithm="spectral").fit([x])
    assert np.isfinite(hmm.log_likelihood([x]))


def test_numbers_are_refused():
    X = np.random.default_rng(0).normal(size=(50, 2))
    hmm = tl.HMM(n_states=2, algorithm="spectral", emissions=tl.emissions.Gaussian())
    with raises(ParameterError, parameter="algorithm", found="Gaussian"):
        hmm.fit(X)
