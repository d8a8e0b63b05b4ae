"""Fitted objects of other packages, converted."""

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM, GaussianHMM, PoissonHMM

import tagloom as tl
from raising import raises
from tagloom.errors import NotFittedError, ParameterError


@pytest.fixture(scope="module")
def categorical():
    rng = np.random.default_rng(0)
    model = CategoricalHMM(n_components=3, n_iter=5, random_state=0, n_features=4)
    return model.fit(rng.integers(0, 4, size=(200, 1)))


def test_hmmlearn_categorical(categorical):
    ours = tl.interop.convert(categorical)
    x = np.random.default_rng(1).integers(0, 4, size=30)
    words = [str(symbol) for symbol in x]
    log_prob, states = categorical.decode(x[:, None])
    trellis = ours.trellis([words])[0]
    assert ours.predict([words]) == [[str(state) for state in states]]
    assert trellis.viterbi().score == pytest.approx(log_prob, abs=1e-4)
    assert float(trellis.log_partition()) == pytest.approx(categorical.score(x[:, None]), abs=1e-4)
    np.testing.assert_allclose(
        ours.predict_marginals([words])[0], categorical.predict_proba(x[:, None]), atol=1e-5
    )


@pytest.mark.parametrize("kind", ["diag", "full", "spherical", "tied"])
def test_hmmlearn_gaussian(kind):
    x = np.random.default_rng(0).normal(size=(120, 2)) * [1, 3] + np.arange(120)[:, None] // 60
    theirs = GaussianHMM(2, covariance_type=kind, n_iter=5, random_state=0).fit(x)
    ours = tl.interop.convert(theirs)
    log_prob, states = theirs.decode(x)
    trellis = ours.trellis([x])[0]
    assert ours.predict([x]) == [[str(state) for state in states]]
    assert trellis.viterbi().score == pytest.approx(log_prob, rel=1e-5)
    assert float(trellis.log_partition()) == pytest.approx(theirs.score(x), rel=1e-5)
    np.testing.assert_allclose(ours.predict_marginals([x])[0], theirs.predict_proba(x), atol=1e-5)


def test_names_of_states_and_symbols(categorical):
    ours = tl.interop.convert(categorical, labels=list("ABC"), words=list("wxyz"))
    assert ours.labels_.tolist() == ["A", "B", "C"]
    assert ours.predict([["w", "z"]])[0][0] in "ABC"


def test_what_cannot_be_converted():
    import pycrfsuite

    for unfitted in (CategoricalHMM(2), GaussianHMM(2)):
        with raises(NotFittedError, hint="fit()"):
            tl.interop.convert(unfitted)
    with raises(ParameterError, parameter="obj", hint="tagloom.load(path)"):
        tl.interop.convert(pycrfsuite.Tagger())
    for other in (PoissonHMM(2), 3, None):
        with raises(ParameterError, parameter="obj", expected="sklearn_crfsuite"):
            tl.interop.convert(other)
