"""Back-off arcs against enumeration: every reading of small lattices, in every semiring.

The score of a reading is that of the n-gram model, which tests/language compares with plain Python.
Both ways of taking a step are forced, since a small lattice would always go by pairs.
"""

import itertools
import math
import random

import numpy as np
import pytest

import tagloom as tl
from tagloom import _native
from tagloom.errors import InfeasibleError, ParameterError, ScoreError, ShapeError
from tagloom.language.ngrams import SMOOTHINGS
from tagloom.trellis import BackoffArcs, BackoffTrellis, Slots, Structure

END = 2
# few_states, direct_limit of core/backoff.hpp: as the numbers decide, always by sources with and
# without marks, always by pairs, and a mixture.
WAYS = [(32, -1), (0, 0), (32, 0), (0, 100), (32, 100), (1, 1), (2, 2)]


def random_model(rng, order, smoothing, threshold):
    letters = "abcdef"[: rng.randint(3, 6)]
    text = [[rng.choice(letters) for _ in range(rng.randint(0, 6))] for _ in range(25)]
    closed = rng.random() < 0.3
    model = tl.NGramModel(order, smoothing=smoothing, closed=closed, k=0.4).fit(text)
    return model.prune(threshold) if threshold else model


def random_sets(rng, n_labels, has_unknown, spread):
    """Candidates of one to four positions: all words, some, one; equal scores and others."""
    sets = []
    for _ in range(rng.randint(1, 4)):
        n = min(rng.choice([1, 2, n_labels]), n_labels - 3)
        ids = sorted(rng.sample(range(3, n_labels), n))
        ids = [0, *ids] if has_unknown and rng.random() < 0.3 else ids
        sets.append((ids, [rng.choice([0.0, -0.5, rng.gauss(0, spread)]) for _ in ids]))
    return sets


def enumerate_readings(model, sets, stop):
    """All paths with their scores, by the scores of the model."""
    native = model.tables_.native
    paths = list(itertools.product(*(range(len(ids)) for ids, _ in sets)))
    scores = []
    for path in paths:
        ids = np.array([sets[t][0][k] for t, k in enumerate(path)], np.int32)
        offsets = np.array([0, len(ids)], np.int64)
        _, _, sums = native.score(ids, offsets, True, stop is not None, 1)
        scores.append(sums[0] + sum(sets[t][1][k] for t, k in enumerate(path)))
    return paths, np.array(scores)


def make_trellis(model, sets, stop, way):
    arcs = BackoffArcs(model.tables_.arrays)
    arcs.native = _native.BackoffArcs(arcs.ngrams, *way)
    slots = Slots.of(arcs.n_labels, sets)
    start = arcs.state_after([])
    return BackoffTrellis(arcs, slots, np.arange(len(sets)), start=start, stop=stop)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("threshold", [0, 1e-3, 3e-2])
@pytest.mark.parametrize("spread", [3, 400])
def test_equal_to_enumeration(order, smoothing, threshold, spread):
    """With a spread of 400, probabilities underflow and logarithms must answer."""
    rng = random.Random(f"{order} {smoothing} {threshold} {spread}")
    compare_with_enumeration(random_model(rng, order, smoothing, threshold), rng, spread)


@pytest.mark.parametrize("seed", range(30))
def test_explicit_arcs_count_even_if_back_off_would_score_higher(seed):
    """Any weights, as a pruned or a foreign model may have them: no sum to 1, no dominance."""
    rng = random.Random(seed)
    model = random_model(rng, rng.choice([2, 3, 4]), "absolute", 0)
    arrays = dict(model.tables_.arrays)
    for name, most in [("log_prob", 0.0), ("backoff", 2.0)]:
        weights = [min(rng.gauss(-2, 2), most) for _ in arrays[name]]
        arrays[name] = np.where(np.isinf(arrays[name]), -np.inf, weights)
    tables = type(model.tables_)(arrays, model.tables_.vocabulary, model.tables_.has_unknown)
    parent = np.repeat(np.arange(len(arrays["backoff"])), np.diff(arrays["first"]))  # of node i + 1
    node = np.arange(arrays["level"][2], len(arrays["word"]))
    backed_off = arrays["backoff"][parent[node - 1]] + arrays["log_prob"][arrays["suffix"][node]]
    assert (arrays["log_prob"][node] < backed_off).any()
    compare_with_enumeration(model._with_tables(tables, {}), rng, 2)


def compare_with_enumeration(model, rng, spread):
    tolerance = 1e-10 * max(1, spread)
    for way in WAYS:
        sets = random_sets(rng, model.tables_.n_words, model.tables_.has_unknown, spread)
        stop = rng.choice([END, None])
        paths, scores = enumerate_readings(model, sets, stop)
        is_path = scores > -np.inf
        log_z = np.logaddexp.reduce(scores[is_path]) if is_path.any() else -np.inf
        trellis = make_trellis(model, sets, stop, way)
        assert trellis.log_partition() == pytest.approx(log_z, abs=tolerance)
        assert trellis.is_feasible() == is_path.any()
        if not is_path.any():
            continue

        best = trellis.viterbi()
        assert best.score == pytest.approx(scores.max(), abs=tolerance)
        assert trellis.path_score(best.path) == pytest.approx(scores.max(), abs=tolerance)

        nbest = trellis.nbest(len(paths) + 3)
        assert len(nbest.scores) == is_path.sum()
        expected = np.sort(scores[is_path])[::-1]
        np.testing.assert_allclose(nbest.scores, expected, atol=tolerance)
        np.testing.assert_allclose(nbest.probs, np.exp(expected - log_z), atol=tolerance)
        assert len({tuple(path) for path in nbest.paths.tolist()}) == len(nbest.paths)
        assert nbest.paths[0].tolist() == best.path.tolist()

        probs = np.exp(scores - log_z)
        gamma = np.zeros((len(sets), trellis.n_labels))
        for path, prob in zip(paths, probs, strict=True):
            for t, k in enumerate(path):
                gamma[t, sets[t][0][k]] += prob
        np.testing.assert_allclose(trellis.marginals(), gamma, atol=tolerance)
        entropy = -np.sum(probs[probs > 0] * np.log(probs[probs > 0]))
        assert trellis.entropy() == pytest.approx(entropy, abs=10 * tolerance)


def test_ties_go_to_the_lowest_labels_from_the_end():
    model = tl.NGramModel(2).fit([["a", "b", "c", "d"]])
    arrays = dict(model.tables_.arrays)
    arrays["log_prob"] = np.where(np.isinf(arrays["log_prob"]), -np.inf, -1.0)
    arrays["backoff"] = np.zeros_like(arrays["backoff"])
    for way in WAYS:
        arcs = BackoffArcs(arrays)
        arcs.native = _native.BackoffArcs(arcs.ngrams, *way)
        every = ([3, 4, 5, 6], [0.0] * 4)
        slots = Slots.of(arcs.n_labels, [every])
        trellis = BackoffTrellis(arcs, slots, [0, 0, 0], start=arcs.state_after([]), stop=END)
        assert trellis.viterbi().path.tolist() == [3, 3, 3]
        paths = trellis.nbest(64).paths.tolist()
        assert paths == sorted(paths, key=lambda path: path[::-1])
        assert len(paths) == 64


@pytest.mark.parametrize("way", WAYS)
def test_samples_follow_the_probabilities(way):
    rng = random.Random(5)
    model = random_model(rng, 3, "witten-bell", 0)
    words = list(range(3, model.tables_.n_words))
    sets = [(words, [0.0] * len(words)), (words[:2], [0.0, 1.0]), (words, [0.0] * len(words))]
    paths, scores = enumerate_readings(model, sets, END)
    probs = np.exp(scores - np.logaddexp.reduce(scores))
    trellis = make_trellis(model, sets, END, way)
    n = 20_000
    drawn = trellis.sample(n, random_state=0)
    assert drawn.shape == (n, 3)
    labels, counts = np.unique(drawn, axis=0, return_counts=True)
    share = {tuple(row): count / n for row, count in zip(labels.tolist(), counts, strict=True)}
    for path, prob in zip(paths, probs, strict=True):
        ids = tuple(sets[t][0][k] for t, k in enumerate(path))
        assert abs(share.get(ids, 0) - prob) < 5 * math.sqrt(prob / n) + 1e-4, ids


# ---- label models --------------------------------------------------------------------------------


def test_label_model_of_order_2_is_a_dense_trellis():
    """Tags of real sentences: arcs and emissions give what trans [Y, Y] and emissions give."""
    corpus = tl.datasets.load("english", "train", label="upos")
    hmm = tl.HMM().fit(corpus)
    names = hmm.labels_.tolist()
    tags = tl.NGramModel(2, smoothing="witten-bell", vocabulary=names).fit(corpus.labels)
    first = 3
    assert tags.vocabulary_[first:] == tuple(names)
    arcs, native = tags.tables_.arcs, tags.tables_.native
    trans = np.array([native.score_all(arcs.state_after([y])) for y in range(first, arcs.n_labels)])
    start = native.score_all(arcs.state_after([]))
    for sentence in tl.datasets.load("english", "test")[:5]:
        emit = np.asarray(hmm.trellis([sentence])[0].emit, np.float64)
        dense = tl.Trellis(emit, trans[:, first:], start[first:], trans[:, END])
        slots = Slots.from_emissions(arcs.n_labels, emit, range(first, arcs.n_labels))
        trellis = BackoffTrellis(
            arcs, slots, range(len(emit)), start=arcs.state_after([]), stop=END
        )
        assert (trellis.viterbi().path - first).tolist() == dense.viterbi().path.tolist()
        assert trellis.log_partition() == pytest.approx(dense.log_partition(), rel=1e-12)
        assert trellis.entropy() == pytest.approx(dense.entropy(), abs=1e-9)
        np.testing.assert_allclose(trellis.marginals()[:, first:], dense.marginals(), atol=1e-12)


@pytest.mark.parametrize(("emit", "labels"), [([[0.0]], None), ([0.0], None), ([[0.0]], [3, 4])])
def test_emissions_that_do_not_fit(emit, labels):
    with pytest.raises(ShapeError) as error:
        Slots.from_emissions(5, emit, labels)
    assert error.value.parameter == "emit"


# ---- batches, constraints, errors ----------------------------------------------------------------


@pytest.fixture(scope="module")
def english():
    model = tl.NGramModel(3).fit(tl.datasets.load("english", "train"))
    return model, BackoffArcs(model.tables_.arrays), model.tables_.slots


def test_a_batch_is_its_sequences(english):
    model, arcs, slots = english
    ids, offsets = model.tables_.ids(tl.datasets.load("english", "dev").tokens[:20])
    is_gap = np.random.default_rng(0).random(len(ids)) < 0.3
    slot = np.where(is_gap, 0, 1 + ids).astype(np.int32)
    start = arcs.state_after([])
    for n_threads in (1, 3):
        batch = BackoffTrellis(
            arcs, slots, slot, start=start, stop=END, offsets=offsets, n_threads=n_threads
        )
        assert isinstance(batch, Structure)
        assert len(batch) == 20
        best, log_z, entropy = batch.viterbi(), batch.log_partition(), batch.entropy()
        marginals = batch.candidate_marginals()
        draws = batch.sample(2, random_state=7)
        nbest = batch.nbest(3)
        for i, one in enumerate(batch):
            at = slice(offsets[i], offsets[i + 1])
            assert one.viterbi().path.tolist() == best.path[at].tolist()
            assert one.viterbi().score == best.score[i]
            assert one.log_partition() == log_z[i]
            assert one.entropy() == entropy[i]
            for alone, together in zip(one.candidate_marginals(), marginals[at], strict=True):
                assert alone.tolist() == together.tolist()
            assert one.nbest(3).paths.tolist() == nbest[i].paths.tolist()
            assert batch.path_score(draws[0])[i] > -np.inf
        assert (
            batch[2:5].viterbi().path.tolist()
            == np.concatenate([batch[i].viterbi().path for i in range(2, 5)]).tolist()
        )
        assert [part.tolist() for part in batch.split(best.path)][3] == batch[
            3
        ].viterbi().path.tolist()


def test_large_and_small_steps_agree(english):
    """20 sentences at a vocabulary of 2,165 words: by sources and by pairs, to the last digits."""
    model, arcs, slots = english
    ids, offsets = model.tables_.ids(tl.datasets.load("english", "dev").tokens[:6])
    is_gap = np.random.default_rng(1).random(len(ids)) < 0.4
    slot = np.where(is_gap, 0, 1 + ids).astype(np.int32)
    results = []
    for way in [(32, -1), (32, 0)]:
        other = BackoffArcs(model.tables_.arrays)
        other.native = _native.BackoffArcs(other.ngrams, *way)
        trellis = BackoffTrellis(
            other, slots, slot, start=arcs.state_after([]), stop=END, offsets=offsets
        )
        results.append(
            (trellis.viterbi(), trellis.log_partition(), trellis.marginals(), trellis.entropy())
        )
    (best, log_z, gamma, entropy), (best_2, log_z_2, gamma_2, entropy_2) = results
    assert best.path.tolist() == best_2.path.tolist()
    np.testing.assert_allclose(best.score, best_2.score, rtol=1e-12)
    np.testing.assert_allclose(log_z, log_z_2, rtol=1e-12)
    np.testing.assert_allclose(gamma, gamma_2, atol=1e-11)
    np.testing.assert_allclose(gamma.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(entropy, entropy_2, atol=1e-9)
    assert (log_z >= best.score).all()


def test_constrained_and_tempered():
    rng = random.Random(2)
    model = random_model(rng, 3, "absolute", 0)
    words = list(range(3, model.tables_.n_words))
    sets = [(words, [0.0] * len(words))] * 3
    trellis = make_trellis(model, sets, END, WAYS[0])
    allowed = np.random.default_rng(0).random((3, trellis.n_labels)) < 0.6
    paths, scores = enumerate_readings(model, sets, END)
    kept = [all(allowed[t, words[k]] for t, k in enumerate(path)) for path in paths]
    expected = np.logaddexp.reduce(scores[kept])
    assert trellis.constrain(allowed).log_partition() == pytest.approx(expected, rel=1e-12)
    assert not trellis.constrain(np.zeros_like(allowed)).is_feasible()
    for temperature in (0.5, 2):
        expected = np.logaddexp.reduce(scores / temperature)
        tempered = trellis.tempered(temperature)
        assert tempered.log_partition() == pytest.approx(expected, rel=1e-12)


def test_an_empty_sequence():
    model = tl.NGramModel(2).fit([["a"], []])
    arcs = BackoffArcs(model.tables_.arrays)
    slots = Slots.of(arcs.n_labels, [])
    trellis = BackoffTrellis(arcs, slots, [], start=arcs.state_after([]), stop=END)
    assert trellis.viterbi().path.tolist() == []
    assert trellis.log_partition() == pytest.approx(model.log_prob([]), abs=1e-12)
    assert trellis.marginals().shape == (0, arcs.n_labels)
    assert trellis.nbest(2).paths.shape == (1, 0)
    assert trellis.sample(3).shape == (3, 0)
    assert trellis.entropy() == pytest.approx(0, abs=1e-12)


def test_sequences_without_a_path():
    model = tl.NGramModel(2, closed=True).fit([["a", "b"]])
    arcs = BackoffArcs(model.tables_.arrays)
    slots = Slots.of(arcs.n_labels, [([3], [0.0]), ([], []), ([4], [-np.inf])])
    start = arcs.state_after([])
    for slot, position in [([0, 1, 0], 1), ([0, 0, 2], 2)]:
        trellis = BackoffTrellis(arcs, slots, slot, start=start, stop=END)
        assert trellis.log_partition() == -np.inf
        assert trellis.viterbi(on_infeasible="none").path.tolist() == [-1, -1, -1]
        assert trellis.nbest(2).paths.shape[0] == 0
        assert not trellis.marginals(on_infeasible="none").any()
        for method in (trellis.viterbi, trellis.marginals, trellis.entropy):
            with pytest.raises(InfeasibleError) as error:
                method()
            assert (error.value.sequence, error.value.position) == (0, position)
        with pytest.raises(InfeasibleError):
            trellis.sample(1)
    batch = BackoffTrellis(arcs, slots, [0, 0, 1], start=start, offsets=[0, 1, 3])
    assert batch.is_feasible().tolist() == [True, False]
    with pytest.raises(InfeasibleError) as error:
        batch.viterbi()
    assert (error.value.sequence, error.value.position) == (1, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda arcs: Slots(arcs.n_labels, [0, 2], [4, 3], [0.0, 0.0]),
        lambda arcs: Slots(arcs.n_labels, [0, 2], [3, 3], [0.0, 0.0]),
        lambda arcs: Slots(arcs.n_labels, [0, 1], [99], [0.0]),
        lambda arcs: Slots(arcs.n_labels, [0, 1], [-1], [0.0]),
        lambda arcs: Slots(arcs.n_labels, [0, 2], [3], [0.0]),
        lambda arcs: Slots(arcs.n_labels, [1, 1], [3], [0.0]),
        lambda arcs: Slots(arcs.n_labels, [0, 1], [3], [0.0, 1.0]),
        lambda arcs: BackoffTrellis(arcs, SLOTS(arcs), [5], start=0),
        lambda arcs: BackoffTrellis(arcs, SLOTS(arcs), [-1], start=0),
        lambda arcs: BackoffTrellis(arcs, SLOTS(arcs), [0], start=10**6),
        lambda arcs: BackoffTrellis(arcs, SLOTS(arcs), [0], start=-1),
        lambda arcs: BackoffTrellis(arcs, SLOTS(arcs), [0], start=0, stop=10**6),
        lambda arcs: BackoffTrellis(arcs, SLOTS(arcs), [0, 0], start=0, offsets=[0, 1]),
        lambda arcs: BackoffTrellis(arcs, Slots.of(3, [([1], [0.0])]), [0], start=0),
        lambda arcs: BackoffTrellis(arcs, SLOTS(arcs), [0], start=0).path_score([3, 3]),
        lambda arcs: BackoffTrellis(arcs, SLOTS(arcs), [0], start=0).constrain([[True]]),
    ],
)
def test_arrays_that_do_not_fit(make):
    arcs = BackoffArcs(tl.NGramModel(2).fit([["a", "b"]]).tables_.arrays)
    with pytest.raises(ShapeError):
        make(arcs)


def SLOTS(arcs):
    return Slots.of(arcs.n_labels, [([3], [0.0])])


@pytest.mark.parametrize("score", [np.nan, np.inf])
def test_scores_that_are_none(score):
    with pytest.raises(ScoreError) as error:
        Slots.of(5, [([3, 4], [0.0, score])])
    assert error.value.where == "scores[1]"


def test_arguments_out_of_range():
    arcs = BackoffArcs(tl.NGramModel(2).fit([["a", "b"]]).tables_.arrays)
    trellis = BackoffTrellis(arcs, SLOTS(arcs), [0], start=0)
    for call, name in [
        (lambda: trellis.nbest(0), "n"),
        (lambda: trellis.sample(-1), "n"),
        (lambda: trellis.tempered(0), "temperature"),
        (lambda: trellis.viterbi(on_infeasible="ignore"), "on_infeasible"),
    ]:
        with pytest.raises(ParameterError) as error:
            call()
        assert error.value.parameter == name
