"""Gibbs and beam sampling as learners: posteriors, concentrations, checkpoints, threads."""

import itertools
import math

import numpy as np
import pytest

import tagloom as tl
from posteriors import count, exact_posterior, log_grid, log_row, number, total_variation
from raising import raises
from tagloom.learners import Allowed, Beam, CandidateLabels, Gibbs, Unlabelled
from tagloom.learners.concentrations import log_gamma
from tagloom.training import fit_iteratively

X = [["a", "b", "a"], ["b", "c"]]


def make_problem(X=X, n_states=2, emission=None, **options):
    emission = (emission or tl.emissions.Categorical()).bind([str(k) for k in range(n_states)])
    data = emission.encode(X)
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in X])]).astype(np.int64)
    return Unlabelled(data, offsets, emission, **options)


def run(algorithm, problem, seed=0, **options):
    learner = algorithm.start(problem, seed)
    return learner, fit_iteratively(learner, max_iterations=algorithm.n_steps, **options)


def visited(algorithm, problem, n_paths, seed=0):
    learner = algorithm.start(problem, seed)
    visits, Y = np.zeros(n_paths), len(problem.labels)
    for _ in range(algorithm.sweeps):
        learner.step()
        visits[number(learner.labels, Y)] += 1
    return visits / algorithm.sweeps


# ---- posteriors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("blocked", [False, True])
def test_labels_have_the_exact_posterior(blocked):
    exact, problem = exact_and_problem()
    algorithm = Gibbs(1000, alpha=0.4, beta=0.6, blocked=blocked)
    assert total_variation(fold(exact), fold(visited(algorithm, problem, 16))) < 0.08


@pytest.mark.soak
@pytest.mark.parametrize("blocked", [False, True])
def test_labels_come_close_to_the_exact_posterior(blocked):
    exact, problem = exact_and_problem()
    algorithm = Gibbs(40_000, alpha=0.4, beta=0.6, blocked=blocked)
    assert total_variation(fold(exact), fold(visited(algorithm, problem, 16))) < 0.02


def fold(probs):
    """Add up paths that differ in the names of the two labels only: chains rarely exchange them."""
    return probs[: len(probs) // 2] + probs[: len(probs) // 2 - 1 : -1]


def exact_and_problem():
    problem = make_problem([["a", "b"], ["a", "c"]])
    start, trans = np.full(2, 0.4), np.full((2, 2), 0.4)
    data = problem.data.ids, problem.offsets
    return exact_posterior(*data, start, trans, start, 0.6, 4), problem


def test_blocked_draws_respect_candidates_and_topology():
    allowed = Allowed(
        np.array([True, False, False]),
        np.triu(np.ones((3, 3), dtype=bool)),
        np.array([False, False, True]),
    )
    candidates = CandidateLabels.from_mask(
        np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 1], [0, 0, 1]], dtype=bool)
    )
    for blocked, listed in itertools.product([False, True], [None, candidates]):
        problem = make_problem(n_states=3, allowed=allowed, candidates=listed)
        learner = Gibbs(20, blocked=blocked).start(problem, 0)
        for _ in range(20):
            learner.step()
            for first, end in itertools.pairwise(problem.offsets):
                row = learner.labels[first:end]
                assert row[0] == 0
                assert row[-1] == 2
                assert (np.diff(row) >= 0).all()
            if listed is not None:
                assert learner.labels[1] < 2
        chain, _ = learner.weights()
        assert np.isneginf(chain.log_trans[0][~allowed.transitions]).all()
        assert np.isneginf(chain.log_start[1:]).all()


def concentration_error(sweeps):
    """Difference of E[log alpha] and E[log beta] from their exact values."""
    problem = make_problem([["a", "b", "a", "a"]], has_stop=False)
    points, weights = log_grid(-7, 3, 40)
    joint = np.zeros((40, 40))  # alpha, beta
    for path in itertools.product(range(2), repeat=4):
        transitions, emissions = count(path, problem.data.ids, problem.offsets, 2, 3)
        chain, emission = (
            [math.exp(sum(log_row(row, np.full(n, a)) for row in counts)) for a in points]
            for counts, n in ((transitions[:, :2], 2), (emissions, 3))
        )
        joint += np.outer(weights * chain, weights * emission)
    joint /= joint.sum()
    expected = joint.sum(axis=1) @ np.log(points), joint.sum(axis=0) @ np.log(points)
    learner, draws = Gibbs(1).start(problem, 0), []
    for _ in range(sweeps):
        learner.step()
        draws.append((math.log(learner.chain_counts.alpha), math.log(learner.beta)))
    return np.abs(np.mean(draws, axis=0) - expected).max()


def test_concentrations_have_their_posterior():
    assert concentration_error(600) < 0.4


@pytest.mark.soak
def test_concentrations_come_close_to_their_posterior():
    assert concentration_error(20_000) < 0.1


# ---- the model -----------------------------------------------------------------------------------

CORPUS = [["the", "dog", "barks"], ["the", "cat", "sleeps"], ["a", "dog", "sleeps"]] * 30


def test_the_model_is_the_mean_given_the_last_labels():
    problem = make_problem(CORPUS, 3)
    learner, outcome = run(Gibbs(40, alpha=0.2, beta=0.3), problem)
    chain, emission = outcome.weights
    transitions = learner.transitions()
    masses = transitions[:3] + 0.2
    probs = masses / masses.sum(axis=1, keepdims=True)
    assert np.exp(chain.log_trans[0]) == pytest.approx(probs[:, :3], rel=1e-12)
    assert np.exp(chain.log_stop) == pytest.approx(probs[:, 3], rel=1e-12)
    counts = np.zeros((3, len(problem.data.symbols) + 1))
    np.add.at(counts, (learner.labels, problem.data.ids), 1)
    masses = counts + 0.3
    assert emission.probs_ == pytest.approx(masses / masses.sum(axis=1, keepdims=True), rel=1e-12)
    assert emission.prior == problem.emission.prior


def test_averages_are_those_of_the_last_sweeps():
    problem = make_problem()
    algorithm = Gibbs(6, alpha=0.2, beta=0.3, average=3)
    learner, visits = algorithm.start(problem, 0), np.zeros((5, 2))
    for sweep in range(6):
        learner.step()
        if sweep >= 3:
            visits[np.arange(5), learner.labels] += 1 / 3
    _, emission = learner.weights()
    expected = tl.emissions.Categorical(prior=1.3).bind(["0", "1"])
    expected = expected.update(expected.collect(problem.data, visits))
    assert emission.probs_ == pytest.approx(expected.probs_, rel=1e-12)


def test_tied_states_share_their_emission():
    problem = make_problem(CORPUS, 3, tied=((0, 2),))
    _, outcome = run(Gibbs(5), problem)
    probs = outcome.weights[1].probs_
    assert (probs[0] == probs[2]).all()
    assert (probs[0] != probs[1]).any()


def test_weights_and_impossible_choices_are_refused():
    weighted = make_problem(weight=np.array([1.0, 2.0]))
    for algorithm in (Gibbs(), Beam()):
        with raises(tl.errors.ParameterError, parameter="sample_weight"):
            algorithm.start(weighted, 0)
    tied = make_problem(tied=((0, 1),))
    with raises(tl.errors.ParameterError, parameter="blocked"):
        Gibbs(blocked=False).start(tied, 0)
    with raises(tl.errors.ParameterError, parameter="tied"):
        Beam().start(tied, 0)


# ---- runs ----------------------------------------------------------------------------------------

ALGORITHMS = {
    "pointwise": Gibbs(12, average=4),
    "blocked": Gibbs(12, blocked=True),
    "beam": Beam(12),
}


def arrays(weights):
    chain, emission = weights
    return [chain.log_start, *chain.log_trans, chain.log_stop, emission.probs_]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(arrays(a), arrays(b), strict=True))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_resumed_runs_have_the_same_bits(name, tmp_path):
    algorithm, problem = ALGORITHMS[name], make_problem(CORPUS, 3)
    _, whole = run(algorithm, problem)
    path = tmp_path / "run.ckpt"
    fit_iteratively(algorithm.start(problem, 0), max_iterations=10, checkpoint=path)
    _, resumed = run(algorithm, problem, checkpoint=path)
    assert same(whole.weights, resumed.weights)
    losses = [[record.loss for record in outcome.records] for outcome in (whole, resumed)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_any_number_of_threads_gives_the_same_bits(name):
    runs = [
        run(ALGORITHMS[name], make_problem(CORPUS, 3, n_threads=n))[1].weights for n in (1, 2, 3)
    ]
    assert same(runs[0], runs[1])
    assert same(runs[0], runs[2])
    other = run(ALGORITHMS[name], make_problem(CORPUS, 3), seed=1)[1].weights
    assert len(other[0].log_start) != len(runs[0][0].log_start) or not same(runs[0], other)


def test_beam_reports_the_posterior_of_the_number_of_states():
    learner, outcome = run(Beam(30), make_problem(CORPUS, 1))
    chain, emission = outcome.weights
    summary = learner.summary()
    assert len(summary["n_states"]) == 30
    assert len(emission.labels) == len(chain.log_start) == summary["n_states"][-1]
    assert sum(summary["n_states_posterior"].values()) == pytest.approx(1)
    total = np.exp(chain.log_trans[0]).sum(axis=1) + np.exp(chain.log_stop)
    assert total == pytest.approx(np.ones(len(total)))


def test_beam_takes_emissions_of_any_kind():
    """The general path gives the posterior of the native one: mean number of states agrees."""
    features = tl.emissions.Features(["suffix(1)"], smoothing=0.5)
    learner, outcome = run(Beam(15, initial_states=3), make_problem(CORPUS[:10], 1, features))
    assert len(outcome.weights[1].labels) == learner.n_states[-1]
    assert all(np.isfinite(record.loss) for record in outcome.records)


def test_blocked_sampling_takes_emissions_of_any_kind():
    features = tl.emissions.Features(["suffix(1)"], smoothing=0.5)
    problem = make_problem(CORPUS, 3, features)
    learner, outcome = run(Gibbs(10), problem)
    assert outcome.weights[1].labels == problem.labels
    assert sorted(set(learner.labels.tolist())) == [0, 1, 2]


# ---- single-site decoding ------------------------------------------------------------------------


def random_trellis(rng, **options):
    T, Y = 6, 3
    scores = {"emit": (T, Y), "trans": (Y, Y), "start": (Y,), "stop": (Y,)}
    arrays = {name: rng.standard_normal(shape) for name, shape in scores.items()}
    return tl.Trellis(**arrays, **options)


@pytest.mark.parametrize("kind", ["one", "batch", "edge", "order 2", "candidates"])
def test_single_sites_have_the_exact_marginals(kind):
    rng = np.random.default_rng(3)
    options = {"batch": {"offsets": [0, 4, 5, 5, 6]}, "edge": {"edge": rng.random((6, 3, 3))}}
    trellis = random_trellis(rng, **options.get(kind, {}))
    sweeps = 800
    if kind == "order 2":
        states = tl.StateSpace.order(3, 2)
        weights = rng.standard_normal(states.n_weights)
        trellis, sweeps = tl.Trellis(rng.random((4, 3)), states=states, weights=weights), 400
    if kind == "candidates":
        allowed = rng.random((6, 3)) < 0.7
        allowed[:, 1] = True
        trellis = trellis.constrain(allowed)
    sampled = tl.trellis.sample_single_sites(trellis, sweeps=sweeps, random_state=0)
    assert sampled.marginals == pytest.approx(trellis.marginals(), abs=0.07)
    assert (sampled.marginals[trellis.marginals() == 0] == 0).all()


def test_annealed_single_sites_approach_the_best_path():
    trellis = random_trellis(np.random.default_rng(0))
    sampled = tl.trellis.sample_single_sites(trellis, sweeps=200, annealed=True, random_state=0)
    assert sampled.path.tolist() == trellis.viterbi().path.tolist()


@pytest.mark.parametrize("make", [tl.HMM, tl.CRF, tl.StructuredPerceptron])
def test_gibbs_decoding_of_any_tagger(make):
    X, y = CORPUS[:6], [["D", "N", "V"]] * 6
    tagger = make().fit(X, y)
    decoded = tl.learners.gibbs_decode(tagger, X, sweeps=300, random_state=0)
    assert decoded.labels == list(tagger.predict(X))
    for sampled, exact in zip(decoded.marginals, tagger.predict_marginals(X), strict=True):
        assert sampled == pytest.approx(exact, abs=0.1)


def test_log_gamma():
    x = np.concatenate([np.geomspace(1e-8, 1e8, 2001), [1.0, 2.0, 10.0]])
    exact = np.array([math.lgamma(value) for value in x])
    assert log_gamma(x) == pytest.approx(exact, rel=1e-13, abs=1e-13)
    assert log_gamma(x[:10]) == pytest.approx(exact[:10], rel=0)
