"""Explanations: which path is the rival, and what is said about the difference."""

import itertools
import json
import math
from html.parser import HTMLParser

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import InfeasibleError, NotFittedError, ParameterError, SentenceError
from tagloom.models.explanations import explain
from tagloom.scores.parts import Part
from tagloom.trellis import StateSpace


def plain_parts(trellis):
    def of_transition(t, y_prev, y):
        yield Part("half", float(trellis.emit[t, y]) / 2)
        yield Part("half", float(trellis.emit[t, y]) / 2)
        if trellis.edge is not None and y_prev is not None:
            yield Part("edge", float(trellis.edge[t, y_prev, y]), 2)

    return of_transition


def spaces(Y):
    full, pruned = StateSpace.order(Y, 2), StateSpace.order(Y, 2, seen=[[0, 1, 2, 1]])
    return {
        "first order": None,
        "order 2": full,
        "pruned": pruned,
        "order 3": StateSpace.order(Y, 3),
        "runs": StateSpace.run_length(Y, 1, 2) & full,
    }


@pytest.mark.parametrize("name", spaces(3))
@pytest.mark.parametrize("has_edge", [False, True])
def test_rivals_and_sums_by_enumeration(name, has_edge):
    rng = np.random.default_rng(len(name))
    T, Y = 5, 3
    space = spaces(Y)[name]
    for _ in range(5):
        trellis = tl.Trellis(
            rng.normal(size=(T, Y)),
            rng.normal(size=(Y, Y)),
            rng.normal(size=Y),
            rng.normal(size=Y),
            edge=rng.normal(size=(T, Y, Y)) if has_edge else None,
            states=space,
            weights=None if space is None else rng.normal(size=space.n_weights),
        )
        scores = {p: trellis.path_score(p) for p in itertools.product(range(Y), repeat=T)}
        best = max(scores, key=scores.get)
        names = [f"y{y}" for y in range(Y)]
        path = np.array(best, dtype=np.int32)
        found = explain([str(t) for t in range(T)], trellis, path, plain_parts(trellis), names)
        assert found.labels == tuple(names[y] for y in best)
        for t, decision in enumerate(found):
            others = {p: s for p, s in scores.items() if p[t] != best[t]}
            rival = max(others, key=others.get)
            assert decision.rival == tuple(names[y] for y in rival)
            assert decision.runner_up == names[rival[t]]
            assert decision.margin == pytest.approx(scores[best] - scores[rival], rel=1e-12)
            values = [r.value for r in decision.reasons]
            assert math.fsum(values) == pytest.approx(decision.margin, abs=1e-12)
            assert "rounding" not in {r.name for r in decision.reasons}
            assert [abs(v) for v in values] == sorted(map(abs, values), reverse=True)


def test_terms_that_both_paths_have_are_left_out():
    """Only the token that differs, its two neighbouring transitions and nothing else is named."""
    X = [["a", "b", "c", "d", "e"]] * 3
    tagger = tl.CRF(features=["word"], algorithm="lbfgs").fit(X, [["X", "Y", "X", "Y", "X"]] * 3)
    decision = tagger.explain(X[0])[2]
    assert decision.rival == ("X", "Y", "Y", "Y", "X")
    terms = {(r.position, r.name, r.label, r.rival) for r in decision.reasons}
    assert terms - {(2, "rounding", "", "")} == {
        (2, "word=c", "X", "Y"),
        (2, "transition", "Y → X", "Y → Y"),
        (3, "transition", "X → Y", "Y → Y"),
    }


def test_a_linear_tagger_names_its_weights():
    X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
    y = [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]]
    features = ["word", "word[-1]", "edge(suffix(1))"]
    tagger = tl.CRF(features=features, algorithm="lbfgs").fit(X, y)
    weights = {(w.attribute, w.label): w.weight for w in tagger.feature_weights()}
    names = tagger.labels_.tolist()
    for decision in tagger.explain(["they", "swim"]):
        for reason in decision.reasons:
            if reason.name == "rounding":
                continue
            if reason.name == "transition":
                first, last = reason.label.split(" → ")
                if first == "<start>":
                    expected = tagger.scores_.start[names.index(last)]
                elif last == "<stop>":
                    expected = tagger.scores_.stop[names.index(first)]
                else:
                    expected = tagger.scores_.trans[names.index(first), names.index(last)]
            else:
                expected = weights.get((reason.name, reason.label), 0.0)
            assert reason.weight == pytest.approx(expected, rel=1e-6)


def test_real_values_are_part_of_what_a_feature_adds():
    X = [[{"size": 2.0, "bias": 1.0}, {"size": -1.0, "bias": 1.0}]] * 2
    tagger = tl.CRF(features=None, algorithm="lbfgs").fit(X, [["L", "S"]] * 2)
    (w,) = (w for w in tagger.feature_weights("size") if w.label == "L")
    decision = tagger.explain(X[0])[0]
    assert decision.token == "0"
    (reason,) = (r for r in decision.reasons if r.name == "size" and r.position == 0)
    assert reason.weight == pytest.approx(2 * w.weight)


def test_a_word_without_a_choice_has_no_runner_up():
    hmm = tl.HMM.from_probs(
        ["D", "N"], ["the", "can"], start=[1, 0], trans=[[0, 1], [0.5, 0.5]], emit=[[1, 0], [0, 1]]
    )
    explanation = hmm.explain(["the", "can"])
    assert [d.runner_up for d in explanation] == [None, None]
    assert explanation[0].margin == math.inf
    assert explanation[0].reasons == explanation[0].rival == ()
    assert explanation.to_dict()["decisions"][0]["margin"] is None
    assert "the    D      1.0000  none" in str(explanation)
    with raises(InfeasibleError, where="position 0"):
        hmm.explain(["what"])


def test_wrong_input():
    with raises(NotFittedError, hint="before explain()"):
        tl.CRF().explain(["a"])
    hmm = tl.HMM().fit([["a", "b"]], [["X", "Y"]])
    with raises(SentenceError, found="the str 'They fish'"):
        hmm.explain("They fish")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_text_html_and_json():
    X = [["<script>alert(1)</script>", "&", "fish"], ["fish", "swim"]]
    tagger = tl.CRF(features=["word", "word[-1]"]).fit(X, [["<N>", "V", "<N>"], ["<N>", "V"]])
    explanation = tagger.explain(X[0])
    assert repr(explanation) == "<Explanation: <script>alert(1)</script>/<N> &/V fish/<N>>"
    page = Tags()
    page.feed(explanation._repr_html_())
    assert page.open == []
    allowed = "div table thead tbody tr th td details summary svg rect"
    assert page.seen <= set(allowed.split())
    assert "<script>alert(1)</script>" in page.text
    text = explanation.to_text(n=1)
    assert text.count("others") >= 1
    assert "<script>alert(1)</script>: <N>, not V, by +" in text
    data = json.loads(json.dumps(explanation.to_dict()))
    assert data["labels"] == ["<N>", "V", "<N>"]
    for decision, given in zip(explanation, data["decisions"], strict=True):
        assert sum(r["value"] for r in given["reasons"]) == pytest.approx(decision.margin)


def test_rivals_of_a_long_sentence_are_those_of_its_trellis():
    rng = np.random.default_rng(3)
    T, Y = 300, 4
    trellis = tl.Trellis(rng.normal(size=(T, Y)), rng.normal(size=(Y, Y)))
    path, names = trellis.viterbi().path, list("abcd")
    found = explain(["x"] * T, trellis, path, plain_parts(trellis), names)
    for t in range(0, T, 7):
        best = trellis.constrain(forbidden={t: int(path[t])}).viterbi()
        assert found[t].rival == tuple(names[y] for y in best.path)
        assert found[t].margin == pytest.approx(found.score - best.score, abs=1e-10)


def test_what_is_known_is_part_of_the_question():
    X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
    tagger = tl.HMM().fit(X, [["N", "V", "V"], ["N", "V", "N"], ["N", "V"]])
    known = [None, "N", {"N", "V"}]
    explanation = tagger.explain(X[0], known=known)
    assert list(explanation.labels) == tagger.predict([X[0]], known=[known])[0]
    assert explanation[1].runner_up is None
    assert all(d.rival[1] == "N" for d in explanation if d.rival)


@pytest.mark.parametrize("order", [2, 3])
def test_longer_histories_of_a_linear_tagger_are_named(order):
    X = [["a", "b", "c", "d", "e"], ["a", "c", "b", "e", "d"]] * 3
    y = [["X", "Y", "X", "X", "Y"], ["X", "X", "Y", "Y", "X"]] * 3
    tagger = tl.CRF(features=["word"], algorithm="lbfgs", order=order).fit(X, y)
    explanation = tagger.explain(["a", "b", "b", "d", "e"])
    names = {reason.name for decision in explanation for reason in decision.reasons}
    assert f"ngram{order + 1}" in names
    for decision in explanation:
        total = math.fsum(reason.value for reason in decision.reasons)
        assert total == pytest.approx(decision.margin, abs=1e-12 * 100)
        for reason in decision.reasons:
            if reason.name == "ngram3":
                assert len(reason.label.replace("→ ", "").split()) == 3


def test_chosen_positions():
    train = tl.datasets.load("english", "train")
    tagger = tl.CRF().fit(train[:50])
    whole = tagger.explain(train[60])
    some = tagger.explain(train[60], positions=[4, 0])
    assert some.decisions == (whole[4], whole[0])
    assert some.labels == whole.labels
    assert tagger.explain(train[60], positions=[]).decisions == ()
    with raises(ParameterError, parameter="positions", found=str(len(train[60]))):
        tagger.explain(train[60], positions=[len(train[60])])
