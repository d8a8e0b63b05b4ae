"""SemiCRF: its scores are sums of named weights, its training is exact, and it is one tagger."""

import itertools
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tagloom as tl
from oracles import Segmentations
from raising import raises
from tagloom.errors import LabelError, ModelFileError, ParameterError, TemplateError
from tagloom.features import Lexicon, SegmentTemplates
from tagloom.trellis import Structure

X = [
    ["Ada", "Lovelace", "wrote", "to", "New", "York", "City"],
    ["she", "met", "Ada", "Lovelace", "in", "York"],
    ["Ada", "wrote", "of", "New", "York"],
    ["York", "met", "Ada", "King", "Lovelace"],
]
BIO = [
    ["B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "I-LOC"],
    ["O", "O", "B-PER", "I-PER", "O", "B-LOC"],
    ["B-PER", "O", "O", "B-LOC", "I-LOC"],
    ["B-LOC", "O", "B-PER", "I-PER", "I-PER"],
]
BIOES = tl.labels.convert(BIO, "bio", "bioes")
TEMPLATES = ["phrase(lower)", "first(shape) & last(suffix(2))", "each(word)", "length"]


def fitted(y=BIO, **options):
    options = {
        "features": ["word", "suffix(2)"],
        "segments": TEMPLATES,
        "min_segments": 1,  # the corpus is tiny
        **options,
    }
    return tl.SemiCRF(**options).fit(X, y)


@pytest.fixture(scope="module", params=["bio", "bioes"])
def tagger(request):
    return fitted(BIO if request.param == "bio" else BIOES)


def plain_score(tagger, sentence, labels):
    """The score of labels as the sum of the weights of everything that is observed."""
    weights = tagger.state_features_
    token = tl.features.make(["word", "suffix(2)"]).extract(sentence)
    total = sum(
        weights.get((name, label), 0.0)
        for attributes, label in zip(token, labels, strict=True)
        for name in attributes
    )
    spans = [(s.start, s.end, s.type) for s in tl.labels.to_spans(labels, tagger.scheme_)]
    templates = SegmentTemplates(TEMPLATES)
    for start, end, kind in spans:
        names = templates.extract(sentence, start, end)
        total += sum(weights.get((name, f"B-{kind}"), 0.0) for name in names)
    inside = {t for start, end, _ in spans for t in range(start, end)}
    pieces = sorted([*spans, *((t, t + 1, None) for t in range(len(sentence)) if t not in inside)])
    order = ["O" if kind is None else f"B-{kind}" for _, _, kind in pieces]
    number = {label: y for y, label in enumerate(tagger.labels_)}
    trans = tagger.scores_.trans
    total += sum(trans[number[a], number[b]] for a, b in itertools.pairwise(order))
    return total + tagger.scores_.start[number[order[0]]] + tagger.scores_.stop[number[order[-1]]]


def test_scores_are_sums_of_named_weights(tagger):
    structure = tagger.trellis(X)
    assert isinstance(structure, Structure)
    for sentence, one in zip(X, structure, strict=True):
        for best in tagger.predict_nbest([sentence], 12)[0]:
            expected = plain_score(tagger, sentence, best.labels)
            assert_allclose(best.score, expected, atol=1e-4)
            assert_allclose(one.path_score(best.labels), best.score, atol=1e-6)


def test_probabilities_are_those_of_all_segmentations(tagger):
    structure = tagger.trellis([X[2]])[0]
    trellis = structure.trellis
    oracle = Segmentations(trellis.scores, trellis.trans, trellis.start, trellis.stop)
    names = tagger.labels_.tolist()
    expected = np.zeros((5, len(names)))
    for segmentation, prob in oracle.probs():
        path = trellis.path_of([tuple(one) for one in segmentation])
        labels = structure.to_labels(path)
        expected[np.arange(5), labels] += prob
        assert tl.labels.validate([[names[y] for y in labels]], tagger.scheme_).is_valid
    assert_allclose(tagger.predict_marginals([X[2]])[0], expected, atol=1e-5)
    spans = {(s.type, s.start, s.end): s.prob for s in tagger.predict_spans([X[2]], 0.01)[0]}
    marginals = oracle.marginals()
    types = tagger._fitted.alphabet.types
    for (kind, start, end), prob in spans.items():
        assert_allclose(prob, marginals[start, end - start - 1, types.index(kind)], atol=1e-5)


def test_known_labels(tagger):
    gold = BIO if tagger.scheme_ == "bio" else BIOES
    assert tagger.predict(X, known=gold) == gold
    half = [[label if t % 2 else None for t, label in enumerate(row)] for row in gold]
    for got, want in zip(tagger.predict(X, known=half), gold, strict=True):
        assert got[1::2] == want[1::2]
    draws = tagger.sample(X, 3, random_state=0, known=half)
    assert all(
        row[1::2] == want[1::2] for rows, want in zip(draws, gold, strict=True) for row in rows
    )


@pytest.mark.parametrize("labels", [BIO, BIOES])
@pytest.mark.parametrize("combinations", ["all", "seen"])
def test_gradient_is_that_of_finite_differences(labels, combinations):
    tagger = tl.SemiCRF(
        features=["word", "suffix(2)"], segments=TEMPLATES, combinations=combinations
    )
    data = tagger.read_data(X, labels, [1.0, 2.0, 0.5, 1.0])
    objective, _ = tagger._make_objective(data)
    rng = np.random.default_rng(0)
    free = objective.mask()
    theta, direction = (rng.standard_normal(objective.n_weights) * free for _ in range(2))
    grad, unused = np.empty(len(theta)), np.empty(len(theta))
    objective.evaluate(theta, grad, 2)
    h = 0.01
    up, down = (objective.evaluate(theta + s * h * direction, unused, 1) for s in (1, -1))
    assert_allclose(grad @ direction, (up - down) / (2 * h), rtol=1e-3)


@pytest.mark.parametrize("labels", [BIO, BIOES])
def test_training_sums_over_labels_that_break_the_scheme(labels):
    """With weights of zero the loss is the logarithm of the number of segmentations."""
    tagger = tl.SemiCRF(features=["word"], segments=["length"], min_segments=1)
    data = tagger.read_data(X, labels, None)
    objective, _ = tagger._make_objective(data)
    theta = np.zeros(objective.n_weights)
    names = {label for row in labels for label in row}
    n_strays = sum(name[0] in "IE" for name in names)
    expected = 0.0
    for sentence in X:
        counts = [1]  # of segmentations that end at each position
        for _ in sentence:
            spans = 2 * sum(counts[-3:])  # of two types and three lengths
            counts.append((1 + n_strays) * counts[-1] + spans)
        assert len(counts) == len(sentence) + 1
        expected += np.log(counts[-1])
    assert_allclose(objective.evaluate(theta, np.empty(len(theta)), 1), expected, rtol=1e-6)


def test_lbfgs_and_adagrad_minimise_the_same_objective():
    tagger = fitted(algorithm="lbfgs", l2=0.01, max_iterations=200)
    assert tagger.predict(X) == BIO
    assert tagger.history_[-1].loss < tagger.history_[0].loss
    online = fitted(algorithm="adagrad", max_iterations=40)
    assert online.predict(X) == BIO
    assert online.digest() == fitted(algorithm="adagrad", max_iterations=40, n_threads=1).digest()


def test_maximum_lengths_come_from_the_data(tagger):
    assert tagger.max_lengths_ == {"LOC": 3, "PER": 3}
    assert all(s.end - s.start <= 3 for s in tagger.predict_spans([["York"] * 9], 0.001)[0])
    with raises(ParameterError, parameter="max_length", expected="at least 3"):
        fitted(max_length=2)


def test_plain_labels_make_a_crf():
    sentences, labels = [["they", "can", "fish"], ["fish", "swim"]], [["N", "V", "V"], ["N", "V"]]
    semi = tl.SemiCRF(features=["word"], algorithm="lbfgs").fit(sentences, labels)
    chain = tl.CRF(features=["word"], algorithm="lbfgs").fit(sentences, labels)
    for a, b in zip(
        semi.predict_marginals(sentences), chain.predict_marginals(sentences), strict=True
    ):
        assert_allclose(a, b, atol=1e-3)
    assert isinstance(semi.trellis(sentences), tl.Trellis)


@pytest.mark.parametrize("least", [1, 2, 3])
def test_min_segments(least):
    tagger = fitted(min_segments=least, min_weight=0)
    kept = {weight.attribute for weight in tagger.feature_weights("segment*")}
    templates = SegmentTemplates(TEMPLATES)
    seen = Counter(
        name
        for sentence, labels in zip(X, BIO, strict=True)
        for span in tl.labels.to_spans(labels)
        for name in templates.extract(sentence, span.start, span.end)
    )
    assert kept == {name for name, n in seen.items() if n >= least}
    assert len(kept) < len(seen) or least == 1


def test_lexicons_and_files(tmp_path):
    templates = SegmentTemplates(
        ["lexicon(places)", "phrase(short_shape)"], lexicons={"places": {"New York": "CITY"}}
    )
    tagger = fitted(segments=templates)
    names = {weight.attribute for weight in tagger.feature_weights("segment*")}
    assert "segment lexicon(places)=CITY" in names
    tagger.save(tmp_path / "semi.tagloom")
    loaded = tl.load(tmp_path / "semi.tagloom")
    assert loaded.predict(X) == tagger.predict(X)
    assert loaded.digest() == tagger.digest()
    assert loaded.describe()["max_lengths"] == {"LOC": 3, "PER": 3}
    file = tagger.to_file()
    file.header["longest"] = [0, 5]
    with raises(ModelFileError, where="longest"):
        type(tagger).from_file(file)


def test_development_data_choose_the_epoch():
    tagger = tl.SemiCRF(features=["word"], segments=TEMPLATES, max_iterations=6).fit(
        X, BIO, dev=(X, BIO)
    )
    assert max(record.dev for record in tagger.history_) > 0.9


def test_errors():
    with raises(TemplateError, found="'middle(word)'"):
        fitted(segments=["middle(word)"])
    with raises(TemplateError, expected="'towns' among the lexicons"):
        fitted(segments=["lexicon(towns)"])
    with raises(TemplateError, expected="each(...) alone"):
        fitted(segments=["each(word) & length"])
    with raises(TemplateError, expected="a preset"):
        fitted(segments="phrase(word)")
    with raises(LabelError, where="sentence 0, token 0", found="None"):
        tl.SemiCRF().fit(X[:1], [[None, *BIO[0][1:]]])
    with raises(ParameterError, parameter="constraints", found="io"):
        labels = [[label.replace("B-", "I-") for label in row] for row in BIO]
        tl.SemiCRF(constraints="io").fit(X, labels)
    with raises(ParameterError, parameter="features", found="edge templates"):
        fitted(features=["word", "edge(word)"])


def test_a_counted_lexicon_leaves_out_the_names_of_a_sentence():
    """In training a name that occurs once is not in the lexicon; in other text it is."""
    X = [["Ada", "ran"], ["Ada", "sat"], ["Bonn", "ran"]]
    y = [["B-PER", "O"], ["B-PER", "O"], ["B-LOC", "O"]]
    names = Lexicon.counted([("Ada", "PER"), ("Ada", "PER"), ("Bonn", "LOC")])
    templates = SegmentTemplates(["lexicon(names)"], lexicons={"names": names})
    tagger = tl.SemiCRF(features=["word"], segments=templates).fit(X, y)
    known = {row.attribute for row in tagger.feature_weights()}
    assert "segment lexicon(names)=PER" in known
    assert "segment lexicon(names)=LOC" not in known
    assert templates.extract(["Bonn"], 0, 1) == ["segment lexicon(names)=LOC"]
