"""Expectation maximisation against hmmlearn, enumeration and its own guarantees."""

import itertools

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from tagloom.errors import ParameterError, TrainingError
from tagloom.learners import Allowed, CandidateLabels, ChainPrior, Unlabelled
from tagloom.learners.expectations import EStep, initial_model
from tagloom.scores.markov import MarkovChain
from tagloom.training import fit_iteratively

Categorical = tl.emissions.Categorical


def random_rows(rng, *shape):
    return rng.dirichlet(np.ones(shape[-1]), shape[:-1])


def start_values(rng, Y, V):
    """Random start, transitions and emission probabilities, without stop."""
    return random_rows(rng, Y), random_rows(rng, Y, Y), random_rows(rng, Y, V)


def fit_from(start, trans, emit, X, iterations=10, **params):
    """EM from given start values, for exactly so many iterations."""
    names = [str(y) for y in range(len(start))]
    emission = Categorical.from_probs(names, range(emit.shape[1]), emit, prior=1)
    return tl.HMM(
        labels=names,
        stop=False,
        prior=1,
        start_from={"start": start, "transitions": trans, "emission": emission},
        algorithm=tl.learners.EM(iterations, tolerance=0, reseed=False),
        **params,
    ).fit(X)


def peer_history(start, trans, emit, X, iterations, **priors):
    """Log-likelihood after each of hmmlearn's iterations, and its model."""
    joined, lengths = np.concatenate(X)[:, None], [len(x) for x in X]
    peer = CategoricalHMM(len(start), implementation="log", n_iter=1, init_params="", **priors)
    peer.n_features = emit.shape[1]
    peer.startprob_, peer.transmat_, peer.emissionprob_ = start, trans, emit
    history = []
    for _ in range(iterations):
        peer.fit(joined, lengths)
        history.append(peer.score(joined, lengths))
    return history, peer


@pytest.mark.parametrize(("Y", "V"), [(1, 3), (2, 2), (4, 6)])
def test_each_iteration_equals_hmmlearn(Y, V):
    rng = np.random.default_rng(10 * Y + V)
    values = start_values(rng, Y, V)
    X = [rng.integers(0, V, n) for n in (40, 1, 2, 25)]
    X[0][:V] = np.arange(V)
    hmm = fit_from(*values, X)
    history, peer = peer_history(*values, X, len(hmm.history_))
    assert_allclose([r.objective for r in hmm.history_], history, rtol=1e-8)
    assert_allclose(hmm.transmat_, peer.transmat_, atol=1e-8)
    assert_allclose(hmm.emissionprob_, peer.emissionprob_, atol=1e-8)
    assert_allclose(hmm.startprob_, peer.startprob_, atol=1e-8)


def test_priors_equal_hmmlearn():
    rng = np.random.default_rng(1)
    values = start_values(rng, 3, 4)
    X = [rng.integers(0, 4, n) for n in (30, 9, 12)]
    names = ["0", "1", "2"]
    # A cell for other symbols would share in the prior: hmmlearn has none.
    emission = Categorical.from_probs(names, range(4), values[2], prior=1)
    hmm = tl.HMM(
        labels=names,
        stop=False,
        prior=ChainPrior(start=2.5, transitions=3.0),
        start_from={"start": values[0], "transitions": values[1], "emission": emission},
        algorithm=tl.learners.EM(8, tolerance=0),
    ).fit(X)
    _, peer = peer_history(*values, X, 8, startprob_prior=2.5, transmat_prior=3.0)
    assert_allclose(hmm.startprob_, peer.startprob_, atol=1e-8)
    assert_allclose(hmm.transmat_, peer.transmat_, atol=1e-8)


def random_problem(rng):
    """Sequences of symbols, some empty, one token, or shorter than there are states."""
    Y, V = int(rng.integers(1, 6)), int(rng.integers(1, 7))
    lengths = [*rng.integers(0, 12, int(rng.integers(1, 6))), int(rng.integers(1, 4))]
    X = [rng.integers(0, V, n) for n in lengths]
    params = {
        "n_states": Y,
        "stop": bool(rng.integers(2)),
        "prior": float(rng.choice([1.0, 1.1, 3.0])),
        "emissions": Categorical(prior=float(rng.choice([1.0, 1.01, 2.0]))),
        "allowed": None if rng.random() < 0.7 else "left-right",
        "tied": [[0, Y - 1]] if Y > 1 and rng.random() < 0.3 else None,
    }
    weight = None if rng.random() < 0.7 else rng.random(len(X)) + 0.1
    return X, params, weight


@pytest.mark.parametrize("seed", range(40))
def test_objective_never_falls(seed):
    X, params, weight = random_problem(np.random.default_rng(seed))
    em = tl.learners.EM(25, tolerance=0, reseed=False)
    hmm = tl.HMM(**params, algorithm=em, random_state=seed).fit(X, sample_weight=weight)
    objectives = np.array([r.objective for r in hmm.history_])
    assert np.isfinite(objectives).all()
    assert np.diff(objectives).min(initial=0) >= -1e-9 * np.abs(objectives).max()
    assert all(np.isfinite(g).all() for g in hmm.predict_marginals(X))


def test_objective_is_that_of_the_returned_model():
    rng = np.random.default_rng(3)
    X = [rng.integers(0, 4, 30)]
    hmm = tl.HMM(n_states=3, emissions=Categorical(prior=1), prior=1, max_iterations=5).fit(X)
    assert_allclose(hmm.history_[-1].objective, hmm.log_likelihood(X), rtol=1e-12)
    assert hmm.stopped_ == "max_iterations"
    with_prior = tl.HMM(n_states=3, emissions=Categorical(prior=1.5), prior=2.0, stop=False)
    with_prior.fit(X)
    logs = [0.5 * np.log(with_prior.emission_.probs_).sum()]
    logs += [with_prior.log_start_.sum(), with_prior.transitions_.sum()]
    assert_allclose(
        with_prior.history_[-1].objective, with_prior.log_likelihood(X) + sum(logs), rtol=1e-12
    )


def problem_of(X, labels, **fields):
    emission = Categorical(prior=1).bind(labels)
    data = emission.encode(X)
    return Unlabelled(data, data.offsets, emission, **fields)


def test_candidates_against_enumeration():
    """Partial labels: expected counts are sums over the labellings that agree with them."""
    rng = np.random.default_rng(5)
    X, Y = [[0, 1, 2, 1], [2, 0]], 3
    mask = rng.random((6, Y)) < 0.6
    mask[np.arange(6), rng.integers(0, Y, 6)] = True
    problem = problem_of(X, ["a", "b", "c"], candidates=CandidateLabels.from_mask(mask))
    rows = random_rows(rng, Y, Y + 1)
    chain = MarkovChain.from_probs(random_rows(rng, Y), (rows[:, :Y],), rows[:, Y])
    emission = problem.emission.initialise(problem.data, rng)
    expected = EStep(problem)(chain, emission)
    log_likelihood, transitions, counts = 0.0, np.zeros((Y, Y)), np.zeros((Y, 3))
    first = 0
    for x in X:
        total, trans_part, count_part = 0.0, np.zeros((Y, Y)), np.zeros((Y, 3))
        for path in itertools.product(range(Y), repeat=len(x)):
            if not all(mask[first + t, y] for t, y in enumerate(path)):
                continue
            p = np.exp(chain.log_start[path[0]] + chain.log_stop[path[-1]])
            for a, b in itertools.pairwise(path):
                p *= rows[a, b]
            for y, v in zip(path, x, strict=True):
                p *= emission.probs_[y, emission.symbols_.index(v)]
            total += p
            for a, b in itertools.pairwise(path):
                trans_part[a, b] += p
            for y, v in zip(path, x, strict=True):
                count_part[y, v] += p
        log_likelihood += np.log(total)
        transitions += trans_part / total
        counts += count_part / total
        first += len(x)
    assert_allclose(expected.log_likelihood, log_likelihood, rtol=1e-12)
    assert_allclose(expected.transitions, transitions, atol=1e-12)
    assert_allclose(expected.stats.counts[:-1].T, counts, atol=1e-12)


def test_candidates_give_the_result_of_a_dense_trellis():
    rng = np.random.default_rng(6)
    X = [rng.integers(0, 5, 20)]
    mask = np.ones((20, 3), dtype=bool)
    everything = problem_of(X, ["a", "b", "c"], candidates=CandidateLabels.from_mask(mask))
    dense = problem_of(X, ["a", "b", "c"])
    model = initial_model(dense, rng)
    one, other = (EStep(p)(*model) for p in (everything, dense))
    assert_allclose(one.log_likelihood, other.log_likelihood, rtol=1e-12)
    assert_allclose(one.stats.counts, other.stats.counts, atol=1e-12)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_same_bits_at_any_number_of_threads(n_threads):
    rng = np.random.default_rng(7)
    X = [rng.integers(0, 50, int(n)) for n in rng.integers(0, 30, 200)]
    models = [
        tl.HMM(n_states=5, max_iterations=4, n_threads=n, random_state=3).fit(X)
        for n in (1, n_threads)
    ]
    one, other = models
    assert [r.objective for r in one.history_] == [r.objective for r in other.history_]
    assert_array_equal(one.emission_.probs_, other.emission_.probs_)
    assert_array_equal(one.transitions_, other.transitions_)


def test_float32_follows_float64():
    rng = np.random.default_rng(8)
    X = [rng.integers(0, 20, 40) for _ in range(20)]
    kwargs = {"n_states": 4, "algorithm": tl.learners.EM(10, tolerance=0)}
    double, single = (tl.HMM(**kwargs, dtype=d).fit(X) for d in ("float64", "float32"))
    objectives = np.array([r.objective for r in single.history_])
    assert_allclose(objectives, [r.objective for r in double.history_], rtol=1e-4)
    assert np.diff(objectives).min() >= -1e-5 * abs(objectives[0])


def test_resumed_run_has_the_same_bits(tmp_path):
    rng = np.random.default_rng(9)
    X = [rng.integers(0, 6, 30) for _ in range(5)]
    whole = tl.HMM(n_states=3, max_iterations=9).fit(X)
    path = tmp_path / "run"
    for n in (4, 9):
        resumed = tl.HMM(n_states=3, max_iterations=n).fit(X, checkpoint=path)
    assert [r.objective for r in resumed.history_] == [r.objective for r in whole.history_]
    assert_array_equal(resumed.emission_.probs_, whole.emission_.probs_)


def test_dead_states_are_reseeded_and_recorded():
    """hmmlearn #110, #169, #424: a state that no token uses."""
    rng = np.random.default_rng(11)
    X = [np.repeat(rng.integers(0, 3, 30), 3) for _ in range(5)]
    names = ["0", "1", "2"]
    emit = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [1e-12, 1e-12, 1.0]])
    emit[2] /= emit[2].sum()
    trans = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.4, 0.3, 0.3]])
    emission = Categorical.from_probs(names, range(3), emit, prior=1)
    start_from = {"start": [0.5, 0.5, 0.0], "transitions": trans, "emission": emission}
    params = {"labels": names, "stop": False, "prior": 1, "start_from": start_from}
    plain = tl.HMM(**params, algorithm=tl.learners.EM(reseed=False)).fit(X)
    hmm = tl.HMM(**params).fit(X)
    assert hmm.training_["reseeded"] == [[1, 2]]
    assert hmm.log_likelihood(X) > plain.log_likelihood(X) + 10
    assert_allclose(hmm.transmat_.sum(axis=1), 1)
    assert np.isfinite(plain.log_likelihood(X))
    assert_allclose(plain.transmat_.sum(axis=1), 1)  # the dead state keeps its row


def test_restarts_keep_the_best():
    rng = np.random.default_rng(12)
    X = [rng.integers(0, 8, 60) for _ in range(4)]
    hmm = tl.HMM(n_states=4, restarts=5, emissions=Categorical(prior=1)).fit(X)
    objectives = hmm.training_["objectives"]
    assert len(objectives) == 5
    assert len(set(np.round(objectives, 6))) > 1
    assert hmm.history_[-1].objective == max(objectives)
    alone = tl.HMM(n_states=4, restarts=2, emissions=Categorical(prior=1)).fit(X)
    assert alone.training_["objectives"] == objectives[:2]


def test_learns_through_the_plain_loop():
    rng = np.random.default_rng(13)
    problem = problem_of([rng.integers(0, 3, 20)], ["a", "b"])
    outcome = fit_iteratively(tl.learners.EM().start(problem, seed=0), max_iterations=3)
    chain, emission = outcome.weights
    assert_allclose(np.exp(chain.log_trans[0]).sum(axis=1) + np.exp(chain.log_stop), 1)
    assert_allclose(emission.probs_.sum(axis=1), 1)


def test_zeros_of_allowed_stay_and_no_others_appear():
    rng = np.random.default_rng(14)
    X = [np.sort(rng.integers(0, 4, 12)) for _ in range(10)]
    hmm = tl.HMM(n_states=4, allowed="left-right", stop=False, prior=1.01).fit(X)
    possible = np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool)
    assert_array_equal(hmm.transmat_ > 0, possible)
    assert_array_equal(hmm.startprob_, [1, 0, 0, 0])
    stop_last = Allowed(np.arange(4) == 0, possible, np.arange(4) == 3)
    ends = tl.HMM(n_states=4, allowed=stop_last).fit(X)
    assert_array_equal(np.exp(ends.log_stop_) > 0, np.arange(4) == 3)
    assert all(row[-1] == "3" for row in ends.predict(X))


def test_impossible_sequences_are_reported():
    stop_last = Allowed(np.arange(3) == 0, np.eye(3, k=1, dtype=bool), np.arange(3) == 2)
    with pytest.raises(TrainingError) as error:
        tl.HMM(n_states=3, allowed=stop_last).fit([[0, 1, 0], [0, 1]])
    assert error.value.where == "sequence 1"


def test_fixed_and_tied_parts():
    rng = np.random.default_rng(15)
    values = start_values(rng, 3, 4)
    X = [rng.integers(0, 4, 30)]
    hmm = fit_from(*values, X, fixed=["transitions"])
    assert_allclose(hmm.transmat_, values[1], atol=1e-15)
    assert not np.allclose(hmm.emissionprob_, values[2])
    hmm = fit_from(*values, X, fixed="emission")
    assert_array_equal(hmm.emissionprob_, values[2])
    tied = tl.HMM(n_states=3, tied=[[0, 2]], emissions=Categorical(prior=1)).fit(X)
    assert_allclose(tied.emissionprob_[0], tied.emissionprob_[2], rtol=1e-12)
    assert not np.allclose(tied.emissionprob_[0], tied.emissionprob_[1])


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({"fixed": ["weights"]}, "fixed"),
        ({"tied": [[0, 5]]}, "tied"),
        ({"tied": [[0, 1], [1]]}, "tied"),
        ({"allowed": "ring"}, "allowed"),
        ({"algorithm": "gradient descent"}, "algorithm"),
        ({"prior": 0.5}, "prior"),
        ({"emissions": Categorical(prior=0.5)}, "prior"),
        ({"n_states": 0}, "n_states"),
        ({"order": 2}, "order"),
        ({"start_from": {"start": [0.5, 0.6]}}, "start_from"),
        ({"start_from": 3}, "start_from"),
        ({"n_states": "infinite", "algorithm": "em"}, "n_states"),
        ({"dtype": "float16"}, "dtype"),
    ],
)
def test_invalid_parameters(params, parameter):
    with pytest.raises(ParameterError) as error:
        tl.HMM(**{"n_states": 2} | params).fit([[0, 1, 1]])
    assert error.value.parameter == parameter
