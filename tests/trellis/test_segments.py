"""Segments: every operation equals a sum, or a maximum, over all segmentations one by one."""

import copy
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from oracles import Segmentations
from raising import raises
from tagloom.errors import InfeasibleError, LabelError, ScoreError, ShapeError
from tagloom.trellis import Structure, segment_log_partition_grad


class Case:
    """Random scores of a ragged batch, and the enumeration of each sequence."""

    def __init__(self, seed, lengths, L, Y, look, dtype, sparse):
        rng = np.random.default_rng(seed)

        def draw(*shape):
            if look == "integers":
                array = rng.integers(-2, 3, shape).astype(float)
            else:
                array = rng.standard_normal(shape) * {"floats": 1.0, "wide": 300.0}[look]
            if sparse:
                array[rng.random(shape) < 0.2] = -np.inf
            return array.astype(dtype)

        self.look = look
        self.parts = [draw(T, L, Y) for T in lengths]
        self.shared = {"trans": draw(Y, Y), "start": draw(Y), "stop": draw(Y)}
        for name in rng.choice(list(self.shared), rng.integers(3), replace=False):
            self.shared[name] = None
        self.oracles = [Segmentations(part, **self.shared) for part in self.parts]
        self.offsets = np.cumsum([0, *lengths])
        tolerance = 1e-4 if dtype == np.float32 else 1e-9
        self.close = {"rtol": tolerance, "atol": tolerance}

    def batch(self, **options):
        return tl.SegmentTrellis.stack(self.parts, **self.shared, **options)

    def __repr__(self):
        return f"Case({self.parts}, {self.shared})"


@st.composite
def cases(draw):
    Y, L = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    most = {1: 5, 2: 4, 3: 3}[Y]
    lengths = draw(st.lists(st.integers(0, most), min_size=1, max_size=3))
    look = draw(st.sampled_from(["floats", "integers", "wide"]))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return Case(draw(st.integers(0, 10**6)), lengths, L, Y, look, dtype, draw(st.booleans()))


@given(cases())
def test_viterbi(case):
    trellis = case.batch()
    assert isinstance(trellis, Structure)
    best = trellis.viterbi(on_infeasible="none")
    rows = zip(
        case.oracles,
        trellis.segments(best.path),
        trellis.split(best.path),
        best.score,
        strict=True,
    )
    for oracle, segments, path, score in rows:
        if not oracle.all:
            assert_array_equal(path, -1)
            assert score == -math.inf
            continue
        (expected, top), *others = oracle.nbest(2)
        assert_allclose(score, top, **case.close)
        if case.look == "integers" or not others or top - others[0][1] > 1e-2:
            assert tuple(segments) == expected


@given(cases(), st.integers(1, 7))
def test_nbest(case, n):
    trellis = case.batch()
    for oracle, one, found in zip(case.oracles, trellis, trellis.nbest(n), strict=True):
        expected = oracle.nbest(n)
        assert found.paths.shape == (len(expected), oracle.T)
        assert_allclose(found.scores, [score for _, score in expected], **case.close)
        listed = [tuple(one.segments(path)) for path in found.paths]
        assert len(set(listed)) == len(listed)
        if case.look == "integers":
            assert listed == [segmentation for segmentation, _ in expected]
        probs = dict(oracle.probs()) if expected else {}
        assert_allclose(found.probs, [probs[one] for one in listed], **case.close)


@given(cases())
def test_sums(case):
    trellis = case.batch()
    log_z = trellis.log_partition()
    marginals = trellis.marginals(on_infeasible="none")
    covering = trellis.label_marginals(on_infeasible="none")
    entropy = trellis.entropy(on_infeasible="none")
    counts = trellis.expected_counts(on_infeasible="none")
    assert marginals.dtype == trellis.dtype
    assert_array_equal(trellis.is_feasible(), [bool(oracle.all) for oracle in case.oracles])
    totals = dict.fromkeys(("labels", "transitions", "start", "stop"), 0)
    for i, oracle in enumerate(case.oracles):
        assert_allclose(log_z[i], oracle.log_partition(), **case.close)
        at = slice(*case.offsets[i : i + 2])
        if not oracle.all:
            assert not marginals[at].any()
            assert entropy[i] == 0
            continue
        assert_allclose(marginals[at], oracle.marginals(), **case.close)
        assert_allclose(covering[at], oracle.covering(), **case.close)
        assert_allclose(entropy[i], oracle.entropy(), **case.close)
        for name in totals:
            totals[name] = totals[name] + getattr(oracle.expected_counts(), name)
    for name, total in totals.items():
        assert_allclose(
            getattr(counts, name), np.broadcast_to(total, getattr(counts, name).shape), **case.close
        )


@given(cases(), st.integers(0, 10**6))
def test_given_and_partial_segmentations(case, seed):
    rng = np.random.default_rng(seed)
    trellis = case.batch()
    for oracle, one in zip(case.oracles, trellis, strict=True):
        for segmentation, prob in oracle.probs()[:5]:
            path = one.path_of(list(segmentation))
            assert_array_equal(one.path_of(one.segments(path)), path)
            assert_allclose(one.path_score(path), oracle.score(segmentation), **case.close)
            assert_allclose(math.exp(one.log_prob(list(segmentation))), prob, **case.close)
        if oracle.T == 0 or not oracle.all:
            continue
        begin = int(rng.integers(oracle.T))
        end = int(rng.integers(begin + 1, min(oracle.T, begin + oracle.L + 1) + 1))
        end = min(end, oracle.T)
        y = int(rng.integers(oracle.Y))
        some = [(begin, end, y)]
        assert_allclose(
            one.log_prob_of(some),
            oracle.log_prob_of(lambda whole, some=some: some[0] in whole),
            **case.close,
        )
        assert_allclose(
            one.log_prob_of([(begin, end, None)]),
            oracle.log_prob_of(lambda whole, b=begin, e=end: (b, e) in {x[:2] for x in whole}),
            **case.close,
        )
        without = one.constrain(forbidden=some)
        others = [score for whole, score in oracle.all if some[0] not in whole]
        assert without.is_feasible() == bool(others)
        mask = rng.random(one.scores.shape) < 0.7
        assert_allclose(
            one.log_prob_of(mask),
            oracle.log_prob_of(
                lambda whole, mask=mask: all(mask[b, e - b - 1, y] for b, e, y in whole)
            ),
            **case.close,
        )


@given(cases())
def test_gradient_is_that_of_finite_differences(case):
    flat = np.concatenate(case.parts).astype(np.float64)
    arrays = {
        name: None if array is None else array.astype(np.float64)
        for name, array in case.shared.items()
    }
    Y = flat.shape[2]
    weight = np.arange(1.0, len(case.parts) + 1)
    grads = {
        "grad_scores": np.empty(flat.shape),
        "grad_trans": np.empty((Y, Y)),
        "grad_start": np.empty(Y),
        "grad_stop": np.empty(Y),
    }
    if case.look == "wide":
        return  # differences of huge scores are too coarse
    log_z = segment_log_partition_grad(case.offsets, flat, **arrays, weight=weight, **grads)

    def loss(**changed):
        z = segment_log_partition_grad(
            case.offsets, changed.pop("scores", flat), **{**arrays, **changed}
        )
        return (weight * np.where(np.isneginf(z), 0.0, z)).sum()

    assert_allclose((weight * np.where(np.isneginf(log_z), 0.0, log_z)).sum(), loss())
    rng = np.random.default_rng(0)
    for name, shape in (("scores", flat.shape), ("trans", (Y, Y)), ("start", (Y,)), ("stop", (Y,))):
        start = flat if name == "scores" else arrays[name]
        start = np.zeros(shape) if start is None else start
        if start.size == 0:
            continue
        direction = rng.standard_normal(shape)
        h = 1e-5
        slope = (loss(**{name: start + h * direction}) - loss(**{name: start - h * direction})) / (
            2 * h
        )
        assert_allclose((grads[f"grad_{name}"] * direction).sum(), slope, rtol=1e-5, atol=1e-5)


def test_samples_have_the_frequencies_of_the_probabilities():
    rng = np.random.default_rng(1)
    scores, trans = rng.standard_normal((3, 3, 2)), rng.standard_normal((2, 2))
    trellis = tl.SegmentTrellis(scores, trans, start=[0.5, 0.0], stop=[0.0, 1.0])
    n = 20_000
    drawn = trellis.sample(n, random_state=7)
    assert_array_equal(drawn, trellis.sample(n, random_state=7))
    found = {}
    for path in drawn:
        key = tuple(tuple(one) for one in trellis.segments(path))
        found[key] = found.get(key, 0) + 1
    expected = Segmentations(scores, trans, [0.5, 0.0], [0.0, 1.0]).probs()
    assert set(found) <= {one for one, _ in expected}
    for one, p in expected:
        assert abs(found.get(one, 0) / n - p) < 5 * math.sqrt(p * (1 - p) / n) + 1e-9


def test_a_batch_does_not_depend_on_threads_or_neighbours():
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((T, 6, 5)) for T in (40, 0, 73, 1, 55)]
    trans = rng.standard_normal((5, 5))
    one = tl.SegmentTrellis.stack(parts, trans, n_threads=1)
    two = tl.SegmentTrellis.stack(parts, trans, n_threads=4)
    for method in ("log_partition", "marginals", "entropy"):
        assert_array_equal(getattr(one, method)(), getattr(two, method)())
    assert_array_equal(one.viterbi().path, two.viterbi().path)
    assert_array_equal(one.sample(3, 0), two.sample(3, 0))
    assert_array_equal(one.expected_counts().transitions, two.expected_counts().transitions)
    for part, single in zip(parts, one, strict=True):
        alone = tl.SegmentTrellis(part, trans)
        assert alone.log_partition() == single.log_partition()
        assert_array_equal(alone.marginals(), single.marginals())
    assert_array_equal(one[1:4].marginals(), np.concatenate([x.marginals() for x in one[1:4]]))


def test_length_one_is_a_chain():
    rng = np.random.default_rng(0)
    emit, trans = rng.standard_normal((30, 4)), rng.standard_normal((4, 4))
    start, stop = rng.standard_normal(4), rng.standard_normal(4)
    segments = tl.SegmentTrellis(emit[:, None], trans, start, stop)
    chain = tl.Trellis(emit, trans, start, stop)
    assert_allclose(segments.log_partition(), chain.log_partition())
    assert_allclose(segments.marginals()[:, 0], chain.marginals(), atol=1e-12)
    assert_allclose(segments.entropy(), chain.entropy())
    assert_array_equal(segments.viterbi().path, chain.viterbi().path)
    assert_allclose(segments.nbest(5).scores, chain.nbest(5).scores)


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_long_sequences_and_large_scores(scale):
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((3000, 4, 3)) * scale
    trellis = tl.SegmentTrellis(scores, rng.standard_normal((3, 3)) * scale)
    best = trellis.viterbi()
    assert best.score <= trellis.log_partition() <= best.score + 3000 * math.log(3 * 4)
    assert_allclose(trellis.label_marginals().sum(axis=1), 1, rtol=1e-9)
    assert trellis.nbest(2).scores[0] == best.score


def test_copies_types_and_temperature():
    trellis = tl.SegmentTrellis(np.arange(12.0).reshape(3, 2, 2), labels=["A", "B"])
    again = pickle.loads(pickle.dumps(trellis))
    assert again.log_partition() == trellis.log_partition()
    assert copy.copy(trellis).labels == ("A", "B")
    assert trellis.astype(np.float32).dtype == np.float32
    assert_allclose(
        trellis.tempered(2).log_partition(),
        tl.SegmentTrellis(trellis.scores / 2).log_partition(),
    )
    out = np.empty(trellis.scores.shape)
    assert trellis.marginals(out=out) is out
    assert "3 positions, lengths up to 2, 2 labels" in repr(trellis)


def test_drawings():
    scores = np.zeros((3, 2, 2))
    scores[1, 1, 1] = 3.0
    trellis = tl.SegmentTrellis(scores, labels=["O", "LOC"])
    picture = trellis.draw("marginals", tokens=["in", "New", "York"], min_prob=0.02).splitlines()
    assert picture[1] == "└─O 0.46─┘  └──────LOC 0.74──────┘"
    assert any("O 0." in line for line in picture[2:])
    svg = trellis.draw(tokens=["<in>", "New", "York"], format="svg")
    assert svg.startswith("<svg")
    assert "&lt;in&gt;" in svg
    assert "LOC" in svg
    assert trellis._repr_svg_().startswith("<svg")
    assert trellis._repr_html_() == trellis._repr_svg_()


def test_picture_of_the_documentation():
    """docs/images/segments.svg is what draw() returns for the example of docs/structures.md."""
    scores = np.full((4, 3, 2), -np.inf)
    scores[:, 0, 0] = 0.0
    scores[:, :, 1] = -1.0
    scores[1, 1, 1], scores[1, 2, 1] = 1.5, 2.0
    trellis = tl.SegmentTrellis(scores, trans=[[0.0, 0.0], [0.0, -2.0]], labels=["O", "LOC"])
    words = ["in", "New", "York", "City"]
    picture = trellis.draw("marginals", tokens=words, format="svg", min_prob=0.2)
    stored = Path(__file__).parents[2] / "docs" / "images" / "segments.svg"
    assert stored.read_text(encoding="utf-8") == picture + "\n"


def test_errors_name_what_is_wrong():
    zeros = np.zeros((3, 2, 2))
    trellis = tl.SegmentTrellis(zeros, labels=["A", "B"])
    with raises(ShapeError, parameter="scores", found="(3, 2)"):
        tl.SegmentTrellis(np.zeros((3, 2)))
    with raises(ShapeError, parameter="trans", found="(3, 3)"):
        tl.SegmentTrellis(zeros, np.zeros((3, 3)))
    with raises(ScoreError, where="scores[1, 0, 1]"):
        tl.SegmentTrellis(np.where(np.arange(12).reshape(3, 2, 2) == 5, np.nan, 0.0))
    with raises(ShapeError, parameter="scores[1]"):
        tl.SegmentTrellis.stack([zeros, np.zeros((3, 1, 2))])
    with raises(ShapeError, parameter="scores", found="none"):
        tl.SegmentTrellis.stack([])
    with raises(LabelError, where="forced"):
        trellis.constrain(forced=[(0, 1, "C")])
    with raises(ShapeError, where="forced"):
        trellis.constrain(forced=[(2, 4, "A")])
    with raises(ShapeError, where="segments"):
        trellis.path_score([(0, 2, "A")])
    with raises(ShapeError, where="segments, position 1"):
        trellis.path_score([(0, 1, "A"), (2, 3, "A")])
    with raises(LabelError, where="path, position 2"):
        trellis.path_score([0, 0, 3])
    assert trellis.path_score([2, 0, 0]) == -math.inf  # begins inside a segment
    with raises(InfeasibleError, where="position 1"):
        trellis.constrain(forbidden=[(1, 2, None), (1, 3, None), (0, 2, None)]).viterbi()
    with raises(ShapeError, where="draw"):
        tl.SegmentTrellis.stack([zeros]).draw()
    with pytest.raises(TypeError):
        trellis[0]
