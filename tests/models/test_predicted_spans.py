"""Spans and their probabilities: every labelling of a sentence, read as spans, is the judge."""

import itertools
from collections import defaultdict

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import InfeasibleError, ParameterError, SchemeError
from tagloom.labels import span_rules, to_spans
from tagloom.trellis import StateSpace, runs

# scheme -> label sets; those without a scheme are read as conlleval reads them
LABELS = {
    "bio": ["O", "B-P", "I-P", "B-L", "I-L"],
    "iob1": ["O", "B-P", "I-P", "I-L"],
    "io": ["O", "I-P", "I-L"],
    "io-bare": ["O", "PER", "GPE"],
    "bioes": ["O", "B-P", "I-P", "E-P", "S-P"],
    "bilou": ["O", "U-P", "L-P", "B-P", "I-P"],
    "conlleval": ["I-P", "O", "B-P", "E-P", "I-L"],
    "bare letters": ["B", "I", "O"],
}


def scheme_of(name):
    if name in ("conlleval", "bare letters"):
        return None
    return name.removesuffix("-bare")


def random_trellis(rng, T, labels, *, order=1, has_edge=False, forbid=0.0):
    Y = len(labels)

    def scores(*shape):
        values = rng.normal(size=shape) * 2
        values[rng.random(shape) < forbid] = -np.inf
        return values

    states = None if order == 1 else StateSpace.order(Y, order)
    return tl.Trellis(
        scores(T, Y),
        scores(Y, Y),
        rng.normal(size=Y),
        rng.normal(size=Y),
        edge=scores(T, Y, Y) if has_edge else None,
        states=states,
        weights=None if states is None else rng.normal(size=states.n_weights),
        offsets=[0, T],
    )


def over_seen(rng, trellis):
    """The same of order 2 with fewer trigrams, whose labels can be listed."""
    if trellis.states.kind != "order":
        return trellis
    Y = trellis.n_labels
    states = StateSpace.order(Y, 2, seen=rng.integers(0, Y, (4, 6)).tolist())
    shared = trellis.trans, trellis.start, trellis.stop
    weights = rng.normal(size=states.n_weights)
    return tl.Trellis(
        trellis.emit, *shared, states=states, weights=weights, offsets=trellis.offsets
    )


def enumerate_spans(trellis, labels, scheme):
    """The probability of each span: the sum over all labellings that have it."""
    one = trellis[0]
    T, total, found = len(one.emit), one.log_partition(), defaultdict(float)
    for path in itertools.product(range(len(labels)), repeat=T):
        prob = np.exp(one.path_score(path) - total)
        for span in to_spans([labels[y] for y in path], scheme):
            found[span] += prob
    return found


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize(
    ("order", "has_edge", "forbid"), [(1, False, 0), (1, True, 0), (1, False, 0.1), (2, False, 0)]
)
@pytest.mark.parametrize("least", [None, 0.2])
def test_probabilities_are_sums_over_all_labellings(name, order, has_edge, forbid, least):
    labels, scheme = LABELS[name], scheme_of(name)
    types, rules = span_rules(labels, scheme)
    rng = np.random.default_rng(7)
    checked = 0
    for T in (1, 2, 3, 4, 5):
        trellis = random_trellis(rng, T, labels, order=order, has_edge=has_edge, forbid=forbid)
        if least is not None:
            trellis = over_seen(rng, trellis).prune(least)
        if not trellis.is_feasible()[0]:
            continue
        expected = enumerate_spans(trellis, labels, scheme)
        spans = [
            (start, end, kind)
            for start in range(T)
            for end in range(start + 1, T + 1)
            for kind in range(len(types))
        ]
        (probs,) = runs.run_probs(trellis, rules, [spans])
        for (start, end, kind), prob in zip(spans, probs, strict=True):
            want = expected.get((types[kind], start, end), 0.0)
            assert prob == pytest.approx(want, rel=1e-9, abs=1e-15)
            checked += want > 0
        for threshold in (1e-3, 0.1, 0.5):
            found = runs.find_runs(trellis, rules, threshold)
            wanted = {s for s, p in expected.items() if p >= threshold}
            assert {(types[r.kind], r.start, r.end) for r in found} == wanted
            assert found == sorted(found)
    assert checked > (10 if least is None else 5)


def test_sequences_of_a_batch_do_not_touch(monkeypatch):
    labels = LABELS["iob1"]
    _, rules = span_rules(labels, "iob1")
    rng = np.random.default_rng(1)
    emits = [rng.normal(size=(T, len(labels))) for T in (3, 0, 1, 4, 2)]
    trans = rng.normal(size=(len(labels),) * 2)
    batch = tl.Trellis.stack(emits, trans)
    expected = []
    for i, emit in enumerate(emits):
        one = tl.Trellis.stack([emit], trans)
        expected += [run._replace(sequence=i) for run in runs.find_runs(one, rules, 0.01)]
    for most in (runs._MOST_PROBS, 16, 64):  # all at once, one by one, and some at a time
        monkeypatch.setattr(runs, "_MOST_PROBS", most)
        found = runs.find_runs(batch, rules, 0.01)
        assert [run[:4] for run in found] == [run[:4] for run in expected]
        np.testing.assert_allclose([r.prob for r in found], [r.prob for r in expected], rtol=1e-12)
        places = [[(r.start, r.end, r.kind) for r in expected if r.sequence == i] for i in range(5)]
        probs = runs.run_probs(batch, rules, places)
        found = list(itertools.chain.from_iterable(probs))
        np.testing.assert_allclose(found, [r.prob for r in expected], rtol=1e-12)


def test_large_scores_do_not_underflow():
    labels = ["O", "B-P", "I-P"]
    _, rules = span_rules(labels, "bio")
    emit = np.array([[0, 9000.0, 0], [0, 0, 9000.5], [9000, 0, 0]] * 50)
    (found,) = runs.run_probs(tl.Trellis.stack([emit]), rules, [[(0, 2, 0), (3, 5, 0), (0, 1, 0)]])
    assert found[:2] == [pytest.approx(1), pytest.approx(1)]
    assert found[2] == 0


@pytest.fixture(scope="module", params=["crf", "hmm", "hmm-2", "perceptron", "token", "baseline"])
def tagger(request):
    train = tl.datasets.load("english", "train", label="entity")[:120]
    make = {
        "crf": lambda: tl.CRF(max_iterations=2),
        "hmm": lambda: tl.HMM(),
        "hmm-2": lambda: tl.HMM(order=2),
        "perceptron": lambda: tl.StructuredPerceptron(max_iterations=2),
        "token": lambda: tl.TokenClassifier(max_iterations=2),
        "baseline": lambda: tl.MostFrequentTag(),
    }
    return make[request.param]().fit(train)


def test_every_tagger_predicts_spans(tagger):
    test = tl.datasets.load("english", "test", label="entity")[:30]
    best = tagger.predict_spans(test)
    assert [[s[:3] for s in row] for row in best] == [to_spans(y) for y in tagger.predict(test)]
    for threshold in (0.9, 0.5, 0.1):
        found = tagger.predict_spans(test, threshold)
        assert all(s.prob >= threshold for row in found for s in row)
        known = [{s[:3]: s.prob for s in row} for row in found]
        for row, probs in zip(best, known, strict=True):
            for span in row:
                if span.prob >= threshold:
                    assert probs[span[:3]] == pytest.approx(span.prob, rel=1e-6)
        if threshold > 0.5:  # then no two of them overlap
            for row in found:
                assert all(a.end <= b.start for a, b in itertools.pairwise(row))
    more, less = tagger.predict_spans(test, 0.1), tagger.predict_spans(test, 0.6)
    assert sum(map(len, more)) >= sum(map(len, less)) > 0


def test_the_reading_can_be_chosen():
    X, y = [["a", "b", "c"]] * 2, [["O", "I-P", "B-P"], ["B-P", "I-P", "O"]]
    hmm = tl.HMM(k=1.0, smoothing="add-k", constraints=None).fit(X, y)
    strict, lenient = hmm.predict_spans(X[:1], 1e-6, scheme="bio"), hmm.predict_spans(X[:1], 1e-6)
    by_place = {s[:3]: s.prob for s in strict[0]}
    assert any(s.prob > by_place.get(s[:3], 0) + 0.01 for s in lenient[0])


def test_wrong_input():
    pos = tl.HMM().fit([["a", "b"]], [["N", "V"]])
    with raises(SchemeError, where="labels[0]", found="'N'"):
        pos.predict_spans([["a"]])
    assert pos.predict_spans([["a"]], scheme="io")[0][0][:3] == ("N", 0, 1)
    ner = tl.HMM().fit([["a", "b"]], [["B-P", "O"]])
    for threshold in (1.5, 0):
        with raises(ParameterError, parameter="threshold", found=str(threshold)):
            ner.predict_spans([["a"]], threshold)
    with raises(SchemeError, parameter="scheme", found="'bil'"):
        ner.predict_spans([["a"]], scheme="bil")
    with raises(SchemeError, where="labels[0]", expected="of io", found="'B-P'"):
        ner.predict_spans([["a"]], scheme="io")
    assert ner.predict_spans([]) == ner.predict_spans([], 0.5) == []
    assert ner.predict_spans([[]], 0.5) == [[]]
    shut = tl.HMM.from_probs(
        ["B-P", "O"], ["a"], start=[1, 0], trans=[[0, 1], [0, 1]], emit=[[1]] * 2
    )
    with raises(InfeasibleError, where="sequence 0, position 0"):
        shut.predict_spans([["b"]], 0.5)


def test_known_labels_change_the_probabilities():
    hmm = tl.HMM().fit([["a", "b"]] * 2, [["B-P", "I-P"], ["B-P", "O"]])
    known = [["B-P", "O"]]
    (span,) = hmm.predict_spans([["a", "b"]], 0.1, known=known)[0]
    assert span == ("P", 0, 1, pytest.approx(1))
    assert hmm.predict_spans([["a", "b"]], known=known) == [[span]]
