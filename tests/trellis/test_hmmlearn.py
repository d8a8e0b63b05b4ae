"""hmmlearn as judge: an HMM is start, transition and emission log-probabilities."""

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl


def hidden_markov_model(Y, n_symbols, zeros):
    """Parameters with every row a distribution; some entries zero, though never a whole row."""
    rng = np.random.default_rng(Y)

    def rows(*shape):
        p = rng.dirichlet(np.ones(shape[-1]), shape[:-1])
        if zeros:
            p = np.where((p < 0.1) & (p < p.max(axis=-1, keepdims=True)), 0.0, p)
        return p / p.sum(axis=-1, keepdims=True)

    model = CategoricalHMM(n_components=Y, implementation="log")
    model.startprob_, model.transmat_ = rows(Y), rows(Y, Y)
    model.emissionprob_ = rows(Y, n_symbols)
    model.n_features = n_symbols
    return model


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("Y", "n_symbols"), [(1, 3), (2, 2), (4, 6), (9, 5)])
def test_likelihood_posteriors_and_viterbi(Y, n_symbols, zeros):
    model = hidden_markov_model(Y, n_symbols, zeros)
    sequences = [model.sample(T, random_state=T)[0] for T in (1, 2, 30, 200)]
    with np.errstate(divide="ignore"):
        trellis = tl.Trellis.stack(
            [np.log(model.emissionprob_[:, symbols[:, 0]].T) for symbols in sequences],
            np.log(model.transmat_),
            np.log(model.startprob_),
        )
    best = trellis.viterbi()
    paths, gammas = trellis.split(best.path), trellis.split(trellis.marginals())
    for i, symbols in enumerate(sequences):
        log_z, posteriors = model.score_samples(symbols)
        assert_allclose(trellis.log_partition()[i], log_z, rtol=1e-10)
        assert_allclose(gammas[i], posteriors, rtol=1e-8, atol=1e-12)
        score, path = model.decode(symbols, algorithm="viterbi")
        assert_allclose(best.score[i], score, rtol=1e-10)
        assert_array_equal(paths[i], path)


def test_the_two_meanings_of_best_agree_with_both_decoders():
    """Viterbi, and hmmlearn's "map" decoder, which takes the likeliest state at each position."""
    model = hidden_markov_model(4, 6, False)
    symbols, _ = model.sample(300, random_state=0)
    trellis = tl.Trellis(
        np.log(model.emissionprob_[:, symbols[:, 0]].T),
        np.log(model.transmat_),
        np.log(model.startprob_),
    )
    _, path = model.decode(symbols, algorithm="map")
    assert_array_equal(trellis.posterior_decode().path, path)
    assert (path != trellis.viterbi().path).any()  # the two are different questions
