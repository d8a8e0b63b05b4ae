"""The Markov chain of labels: counts, expected counts, free parameters, draws."""

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tagloom as tl
from tagloom.errors import ModelFileError, ParameterError
from tagloom.scores.markov import MarkovChain, check_size, count_ngrams
from tagloom.scores.smoothing import METHODS, Smoothing
from tagloom.storage import File

PATHS = [[0, 1, 1, 2], [1, 2], [2], [0, 0, 1]]
LABELS = np.array([y for path in PATHS for y in path], dtype=np.int32)
OFFSETS = np.cumsum([0, *map(len, PATHS)])


def chain_of(order, **smoothing):
    return MarkovChain.from_counts(count_ngrams(LABELS, OFFSETS, None, 3, order), **smoothing)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_trellis_of_a_chain_sums_to_one(order, stop, method):
    """Over all label sequences of all lengths up to n, and those that go on."""
    chain = chain_of(order, smoothing=Smoothing(method, 0.5, stop))
    trans, start, ends, states, weights = chain.transitions(list("ABC"))
    alive, ended = 1.0, 0.0
    for T in range(1, 6):
        emit = np.zeros((T, 3))
        paths = tl.Trellis(emit, trans, start, states=states, weights=weights, labels=list("ABC"))
        alive = np.exp(paths.log_partition())
        assert alive == pytest.approx(1 - ended)
        if stop:
            stopped = tl.Trellis(
                emit, trans, start, ends, states=states, weights=weights, labels=list("ABC")
            )
            ended += np.exp(stopped.log_partition())


@pytest.mark.parametrize(("order", "stop", "n"), [(1, False, 2 + 6), (1, True, 2 + 6 + 3),
                                                  (2, True, 2 + 6 + 18 + 3)])  # fmt: skip
def test_free_parameters(order, stop, n):
    assert chain_of(order, smoothing=Smoothing("add-k", 1.0, stop)).n_parameters == n


def test_expected_counts_of_known_labels_are_counts():
    """A trellis in which one path is possible expects what was counted."""
    counts = np.zeros((4, 4))
    for path in PATHS:
        emit = np.full((len(path), 3), -np.inf)
        emit[np.arange(len(path)), path] = 0
        expected = tl.Trellis(emit).expected_counts()
        counts[:3, :3] += expected.transitions
        counts[3, :3] += expected.start
        counts[:3, 3] += expected.stop
    assert_allclose(counts, count_ngrams(LABELS, OFFSETS, None, 3, 1))
    for method in METHODS:
        soft = MarkovChain.from_counts(counts, Smoothing(method))
        assert_allclose(soft.log_trans[0], chain_of(1, smoothing=Smoothing(method)).log_trans[0])


@pytest.mark.parametrize("order", [1, 2])
def test_sequences_are_drawn_as_probable_as_they_are(order):
    chain = chain_of(order, smoothing=Smoothing("witten-bell"))
    rng, n = np.random.default_rng(0), 4000
    drawn = Counter(tuple(chain.generate(rng)) for _ in range(n))
    trans, start, stop, states, weights = chain.transitions(list("ABC"))
    for path, times in drawn.most_common(6):
        trellis = tl.Trellis(
            np.zeros((len(path), 3)), trans, start, stop, states=states, weights=weights,
            labels=list("ABC"),
        )  # fmt: skip
        p = np.exp(trellis.path_score(path))
        assert abs(times / n - p) < 5 * np.sqrt(p * (1 - p) / n)
    assert len(chain.generate(rng, length=17)) == 17
    with pytest.raises(ParameterError) as caught:
        chain_of(order, smoothing=Smoothing(stop=False)).generate(rng)
    assert caught.value.parameter == "length"


def test_chains_that_are_too_large():
    check_size(2, 200)
    with pytest.raises(ParameterError) as caught:
        check_size(3, 200)
    assert (caught.value.parameter, caught.value.found) == ("order", "3, which has 1,632,240,801")


def test_files_of_chains():
    chain = chain_of(2, smoothing=Smoothing())
    file = chain.to_file()
    again = MarkovChain.from_file(file, 3)
    for a, b in zip(again.log_trans, chain.log_trans, strict=True):
        assert_allclose(a, b)
    for header, Y in (({"order": 40, "stop": True}, 3), ({"order": 2, "stop": True}, 4)):
        with pytest.raises(ModelFileError):
            MarkovChain.from_file(File(header, file.arrays), Y)
