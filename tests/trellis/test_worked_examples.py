"""The examples that the texts work out, with the texts' numbers.

Eisenstein (2018), chapter 7: Table 7.1 and Figure 7.1, exercises 1 and 5 to 9. In Table 7.1(b) the
rows are *from* and the columns *to*; its caption says the opposite.
"""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl

N, V = 0, 1
EMIT = {"they": [-2, -10], "can": [-3, -1], "fish": [-3, -3]}
START = [-1, -2]
TRANS = [[-3, -1], [-1, -3]]
STOP = [-1, -1]
ALL_DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def trellis_of(sentence, dtype=np.float64):
    emit = np.array([EMIT[word] for word in sentence.split()], dtype)
    return tl.Trellis(emit, TRANS, START, STOP, labels=["N", "V"])


def names(path):
    return " ".join("NV"[y] for y in path)


@ALL_DTYPES
def test_figure_7_1_they_can_fish(dtype):
    trellis = trellis_of("they can fish", dtype)
    assert_array_equal(trellis.forward("max-plus"), [[-3, -12], [-9, -5], [-9, -11]])
    best = trellis.viterbi()
    assert names(best.path) == "N V N"
    assert best.score == -10
    assert trellis.log_partition() == pytest.approx(-9.854889, abs=1e-6)


@ALL_DTYPES
def test_exercise_1_they_can_can_fish(dtype):
    """The two best differ from the middle on and tie at the stop only: the noun is taken."""
    trellis = trellis_of("they can can fish", dtype)
    best = trellis.viterbi()
    assert names(best.path) == "N V V N"
    assert best.score == -14
    two = trellis.nbest(2)
    assert [names(path) for path in two.paths] == ["N V V N", "N V N V"]
    assert_array_equal(two.scores, [-14, -14])
    assert trellis.log_partition() == pytest.approx(-13.113214, abs=1e-6)
    v = trellis.forward("max-plus")
    assert_array_equal(v, [[-3, -12], [-9, -5], [-9, -9], [-13, -13]])


@ALL_DTYPES
def test_exercise_5_fish_can(dtype):
    trellis = trellis_of("fish can", dtype)
    scores = {"N N": -11, "N V": -7, "V N": -10, "V V": -10}
    for path, score in scores.items():
        assert trellis.path_score(path.split()) == score
    log_z = math.log(sum(map(math.exp, scores.values())))
    assert log_z == pytest.approx(-6.888557, abs=1e-6)
    assert trellis.log_partition() == pytest.approx(log_z, abs=1e-6)
    alpha = trellis.forward()
    assert np.logaddexp.reduce(alpha[-1] + STOP) == pytest.approx(log_z, abs=1e-6)
    for path, score in scores.items():
        assert trellis.log_prob(path.split()) == pytest.approx(score - log_z, abs=1e-6)


def test_exercise_6_the_n_best_taggings():
    trellis = trellis_of("they can fish")
    ranked = sorted(
        ((trellis.path_score(path), path) for path in itertools.product((N, V), repeat=3)),
        key=lambda item: (-item[0], item[1][::-1]),
    )
    found = trellis.nbest(8)
    assert_array_equal(found.paths, [path for _, path in ranked])
    assert_array_equal(found.scores, [score for score, _ in ranked])
    assert_allclose(found.probs, np.exp(found.scores - trellis.log_partition()), rtol=1e-12)
    assert found.probs.sum() == pytest.approx(1.0)
    assert [names(path) for path in found.paths[:2]] == ["N V N", "N V V"]


def test_exercise_7_two_labels_two_apart():
    """Pr(y_{m-2}, y_m): the sum over the label between, from alpha, beta and the scores."""
    trellis = trellis_of("they can can fish")
    alpha, beta, log_z = trellis.forward(), trellis.backward(), trellis.log_partition()
    step = np.array(TRANS)[None] + trellis.emit[:, None, :]  # s_t(y_prev, y)
    far = trellis.pair_marginals(2)
    assert not far[:2].any()
    for t in (2, 3):
        between = np.exp(step[t - 1]) @ np.exp(step[t])
        expected = np.exp(alpha[t - 2])[:, None] * between * np.exp(beta[t]) / np.exp(log_z)
        assert_allclose(far[t], expected, rtol=1e-12)
        assert_allclose(far[t].sum(axis=0), trellis.marginals()[t], rtol=1e-12)
        assert_allclose(far[t].sum(axis=1), trellis.marginals()[t - 2], rtol=1e-12)


SOURCE = "I try all things , I achieve what I can"
RECEIVED = "I try NOISE NOISE , I NOISE what I NOISE"


def bigram_model(sentences, vocabulary, smoothing=0.1):
    """log p(w | w_prev), smoothed so that no bigram has probability zero; index -1 is the start."""
    ids = {word: i for i, word in enumerate(vocabulary)}
    counts = np.full((len(ids) + 1, len(ids)), smoothing)
    for words in map(str.split, sentences):
        for before, word in zip([-1] + [ids[w] for w in words], words, strict=False):
            counts[before, ids[word]] += 1
    return np.log(counts / counts.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("scores_as", ["trans", "edge"])
def test_exercise_8_noise_is_restored_by_a_bigram_language_model(scores_as):
    """The labels are words; a word that was received forbids every other. Nothing else changes."""
    text = [SOURCE, "I can try", "what I achieve I can try", "all things , I try all things"]
    vocabulary = sorted({word for sentence in text for word in sentence.split()})
    model = bigram_model(text, vocabulary)
    received = RECEIVED.split()
    intact = np.array([[r in (word, "NOISE") for word in vocabulary] for r in received])
    emit = np.where(intact, 0.0, -np.inf)
    if scores_as == "trans":
        trellis = tl.Trellis(emit, model[:-1], model[-1], labels=vocabulary)
    else:
        edge = np.broadcast_to(model[:-1], (len(received), *model[:-1].shape))
        trellis = tl.Trellis(emit, start=model[-1], edge=edge, labels=vocabulary)
    best = trellis.viterbi()
    restored = [vocabulary[y] for y in best.path]
    assert all(r in (word, "NOISE") for r, word in zip(received, restored, strict=True))
    assert restored == SOURCE.split()

    # No other filling of the four gaps is likelier: all of them, one by one.
    gaps = [t for t, word in enumerate(received) if word == "NOISE"]
    known = [vocabulary.index(w) if w != "NOISE" else -1 for w in received]
    top = -math.inf
    for filling in itertools.product(range(len(vocabulary)), repeat=len(gaps)):
        path = known.copy()
        for t, y in zip(gaps, filling, strict=True):
            path[t] = y
        top = max(top, sum(model[a, b] for a, b in zip([-1, *path], path, strict=False)))
    assert best.score == pytest.approx(top, rel=1e-12)
    assert trellis.count_paths() == len(vocabulary) ** len(gaps)


@pytest.mark.parametrize("sentence", ["they can fish", "they can can fish", "fish can", "fish"])
def test_exercise_9_forward_and_backward_meet_everywhere(sentence):
    trellis = trellis_of(sentence)
    alpha, beta, log_z = trellis.forward(), trellis.backward(), trellis.log_partition()
    assert_allclose(np.logaddexp.reduce(alpha + beta, axis=1), log_z, rtol=1e-12)
    # alpha at the stop and beta at the start are the same number.
    assert np.logaddexp.reduce(alpha[-1] + STOP) == pytest.approx(log_z, rel=1e-12)
    at_start = np.array(START) + trellis.emit[0] + beta[0]
    assert np.logaddexp.reduce(at_start) == pytest.approx(log_z, rel=1e-12)


def test_one_recurrence_four_semirings():
    """§7.7.3: max and sum, over probabilities and over log-probabilities."""
    trellis = trellis_of("they can fish")
    S = tl.semirings
    assert trellis.reduce(S.MAX_PLUS) == -10
    assert trellis.reduce(S.LOG_PLUS) == pytest.approx(-9.854889, abs=1e-6)
    assert trellis.reduce(S.MAX_TIMES) == pytest.approx(math.exp(-10), rel=1e-12)
    assert trellis.reduce(S.SUM_TIMES) == pytest.approx(math.exp(-9.854889), rel=1e-6)
    assert trellis.reduce(S.COUNTING) == 8
    assert trellis.reduce(S.BOOLEAN) is True


def test_a_tag_dictionary_leaves_four_taggings():
    """§7.3.1: `they` is a noun only; of the eight taggings four are possible."""
    possible = trellis_of("they can fish").constrain({0: "N"})
    assert possible.count_paths() == 4
    assert names(possible.viterbi().path) == "N V N"
    grammatical = possible.constrain(forced={1: "V"})
    assert [names(path) for path in grammatical.nbest(5).paths] == ["N V N", "N V V"]


def test_acronyms_with_counting_states():
    """Run-length states (Ke, 2013, §5.3): an I is liked after exactly two O, not otherwise."""
    labels = ["I", "O"]
    space = tl.StateSpace.run_length(labels, "O", 3)
    run = np.zeros((4, 2))
    run[[0, 1, 3], 0] = -5.0  # I after a run of 0, 1 or 3 and more
    run[2, 0] = 5.0
    trellis = tl.Trellis(np.zeros((7, 2)), states=space, weights=run.ravel(), start=[5.5, 0.0])
    assert "".join(labels[y] for y in trellis.viterbi().path) == "IOOIOOI"
    assert trellis.viterbi().score == pytest.approx(5.5 - 5.0 + 10.0)
    assert trellis.path_score(["I", "O", "O", "O", "I", "I", "O"]) == pytest.approx(5.5 - 15.0)
