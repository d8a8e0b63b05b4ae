"""Geweke's joint test of the samplers (2004): draws of labels and concentrations given tokens take
turns with draws of the tokens given both. Then everything has the distribution of the prior, under
which each concentration is a standard exponential variable."""

import math

import numpy as np
import pytest

import tagloom as tl
from tagloom.learners import Beam, Gibbs, Unlabelled, concentrations
from tagloom.scores.emissions.categorical import SymbolTokens

SYMBOLS, V = ("a", "b"), 3  # and a cell for others
OFFSETS = np.array([0, 5, 8], dtype=np.int64)
LOG_MEAN, LOG_DEVIATION = -0.5772156649, math.pi / math.sqrt(6)  # of log x, x exponential
SAMPLERS = {
    "pointwise": (Gibbs(1, blocked=False), 2),
    "blocked": (Gibbs(1, blocked=True), 2),
    "beam": (Beam(1, initial_states=2), 1),
    "sticky beam": (Beam(1, initial_states=2, sticky=0.7), 1),
}


def make_problem(ids, n_states):
    emission = tl.emissions.Categorical(symbols=list(SYMBOLS)).bind(list(map(str, range(n_states))))
    data = SymbolTokens(SYMBOLS, ids, OFFSETS)
    return Unlabelled(data, OFFSETS, emission, has_stop=False)


def draw_tokens(labels, beta, rng):
    """Draw a symbol for each label, with the probabilities integrated out."""
    counts = np.full((labels.max() + 1, V), beta)
    ids = np.empty(len(labels), dtype=np.int32)
    for t, y in enumerate(labels):
        ids[t] = min(np.searchsorted(np.cumsum(counts[y]), rng.random() * counts[y].sum()), V - 1)
        counts[y, ids[t]] += 1
    return ids


def draw_jointly(name, steps):
    """Return log concentrations after each step [steps, 2 or 3]."""
    algorithm, n_states = SAMPLERS[name]
    rng, draws = np.random.default_rng(0), []
    learner = algorithm.start(make_problem(rng.integers(0, V, 8).astype(np.int32), n_states), 0)
    for _ in range(steps):
        learner.step()
        state = learner.state()
        chain = state["concentrations"]  # alpha, for the infinite model gamma, beta
        draws.append(np.log(chain))
        problem = make_problem(draw_tokens(state["labels"], chain[-1], rng), n_states)
        learner = algorithm.start(problem, 0)
        learner.restore(state)
    return np.array(draws)


def deviations(draws):
    """Distance of the means from those of the prior, in standard errors of batch means, and these
    errors; the same for the squares about the mean of the prior."""
    distances, errors = [], []
    for values, expected in (
        (draws, LOG_MEAN),
        ((draws - LOG_MEAN) ** 2, LOG_DEVIATION**2),
    ):
        batches = values[: len(values) // 30 * 30].reshape(30, -1, draws.shape[1]).mean(axis=1)
        error = batches.std(axis=0, ddof=1) / math.sqrt(30)
        distances.append(np.abs(values.mean(axis=0) - expected) / error)
        errors.append(error)
    return np.array(distances), np.array(errors)


@pytest.mark.parametrize("name", SAMPLERS)
def test_concentrations_return_to_their_prior(name):
    distances, errors = deviations(draw_jointly(name, 6000))
    assert distances.max() < 4
    assert errors[0].max() < 0.15


@pytest.mark.soak
@pytest.mark.parametrize("name", SAMPLERS)
def test_concentrations_come_close_to_their_prior(name):
    distances, errors = deviations(draw_jointly(name, 200_000))
    assert distances.max() < 4
    assert errors[0].max() < 0.03


def test_a_wrong_sampler_is_found_out(monkeypatch):
    """Concentrations with mean 1 / 2 instead of 1 under their prior."""

    def draw(counts, a, rng):
        def log_density(x):
            return sum(rows.log_evidence(math.exp(x)) for rows in counts) - 2 * math.exp(x) + x

        return math.exp(concentrations.slice_step(log_density, math.log(a), rng))

    monkeypatch.setattr("tagloom.learners.gibbs.draw_concentration", draw)
    distances, _ = deviations(draw_jointly("pointwise", 6000))
    assert distances.max() > 8
