"""The number of states: criteria by their formulas, folds, inputs."""

import json

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import ParameterError
from tagloom.models.selection import _folds


def regimes(T=300, seed=0):
    """Three well separated states that stay for long [T, 1]."""
    rng = np.random.default_rng(seed)
    states = np.repeat(rng.permutation(np.arange(T // 20) % 3), 20)
    return rng.normal(np.array([0.0, 4.0, 9.0])[states], 0.7)[:, None]


GAUSSIAN = {"emissions": tl.emissions.Gaussian("diag"), "random_state": 1}


@pytest.mark.parametrize("by", ["bic", "icl", "held-out"])
def test_the_number_of_states_is_found(by):
    hmm = tl.HMM(restarts=2, max_iterations=40, **GAUSSIAN)
    result = tl.select_states(hmm, regimes(240), range(2, 5), by=by, n_folds=3)
    assert result.n_states == result.best.n_states == 3
    assert result.model is result.models[3]
    assert len(result.model.labels_) == 3
    assert [row.n_states for row in result.candidates] == [2, 3, 4]


def test_criteria_are_their_formulas():
    X = [regimes(120), regimes(40, 1)]
    hmm = tl.HMM(**GAUSSIAN)
    result = tl.select_states(hmm, X, [2], by="held-out", n_folds=2)
    row, model = result.best, tl.HMM(n_states=2, **GAUSSIAN).fit(X)
    log_likelihood = model.log_likelihood(X)
    # start 1, transitions and stop 2 · 2, means and variances 2 · 2
    assert row.n_parameters == 9
    np.testing.assert_allclose(row.log_likelihood, log_likelihood)
    np.testing.assert_allclose(row.aic, -2 * log_likelihood + 2 * 9)
    np.testing.assert_allclose(row.bic, -2 * log_likelihood + 9 * np.log(160))
    gamma, xi = (model.trellis(X).marginals(), model.trellis(X).pair_marginals())
    with np.errstate(divide="ignore", invalid="ignore"):  # H(path) = Σ H(pairs) − Σ H(inner)
        terms = [-np.nansum(np.where(p > 0, p * np.log(p), 0)) for p in (xi, gamma)]
    inner = np.delete(gamma, [0, 119, 120, 159], axis=0)
    entropy = terms[0] + np.nansum(np.where(inner > 0, inner * np.log(inner), 0))
    np.testing.assert_allclose(row.icl - row.bic, 2 * entropy, atol=1e-6)
    parts = [tl.HMM(n_states=2, **GAUSSIAN).fit([X[1 - i]]).log_likelihood([X[i]]) for i in (0, 1)]
    np.testing.assert_allclose(row.held_out, sum(parts) / 160)
    assert hmm.n_states is None  # the model that was passed stays as it was


def test_words_counts_and_several_sequences():
    words = [["a", "b", "a", "b", "a", "b"]] * 5
    assert tl.select_states(tl.HMM(restarts=2), words, [1, 2]).n_states == 2
    counts = np.random.default_rng(0).poisson(np.repeat([1, 20, 1, 20], 25)).astype(float)
    poisson = tl.HMM(emissions=tl.emissions.Poisson(), restarts=2)
    joined = tl.select_states(poisson, counts[:, None], [1, 2], lengths=[50, 50])
    assert joined.n_states == 2
    apart = tl.select_states(poisson, [counts[:50, None], counts[50:, None]], [1, 2])
    assert apart.to_dict()["candidates"][1]["bic"] == joined.to_dict()["candidates"][1]["bic"]


def test_folds_take_turns_and_cut_few_sequences():
    sequences = [["a"] * n for n in (3, 1, 0, 2, 4)]
    folds = _folds(sequences, 2)
    assert [len(part) for _, part in folds] == [2, 2]
    assert [sum(map(len, part)) for _, part in folds] == [5, 5]
    folds = _folds([list("abcdefg")], 3)
    assert [part for _, part in folds] == [[["a", "b"]], [["c", "d"]], [["e", "f", "g"]]]
    assert all(sum(map(len, rest)) + sum(map(len, part)) == 7 for rest, part in folds)
    with raises(ParameterError, parameter="n_folds", expected="at most 2"):
        _folds([["a", "b"]], 3)


def test_result_as_data_and_text(capsys):
    result = tl.select_states(tl.HMM(**GAUSSIAN), regimes(60), (n for n in (2, 1)), progress=True)
    assert "Choosing the number of states" in capsys.readouterr().err
    data = json.loads(json.dumps(result.to_dict()))
    assert (data["by"], data["n_states"]) == ("bic", 2)
    assert data["candidates"][0]["held_out"] is None
    assert str(result).startswith("2 states: the smallest bic of 2 models.")
    assert str(result).splitlines()[-1].endswith("best")
    assert repr(result) == "StateSelection(n_states=2, by='bic', tried=[1, 2])"
    assert "<table>" in result._repr_html_()


@pytest.mark.parametrize("numbers", [[], 3, [0], ["2"], [2.5]])
def test_wrong_numbers(numbers):
    with raises(ParameterError, parameter="n_states"):
        tl.select_states(tl.HMM(), [["a"]], numbers)


def test_wrong_criterion():
    with raises(ParameterError, parameter="by", found="'accuracy'"):
        tl.select_states(tl.HMM(), [["a"]], [1], by="accuracy")
