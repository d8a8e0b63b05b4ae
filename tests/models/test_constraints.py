"""Orders, state spaces and constraints of taggers: what they learn, forbid, save and refuse."""

import itertools
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tagloom as tl
from raising import raises
from tagloom.errors import (
    InfeasibleError,
    LabelError,
    ModelFileError,
    ParameterError,
    SentenceError,
)
from tagloom.models.constraints import find_scheme
from tagloom.models.data import number_labels, read_labels
from tagloom.trellis import StateSpace

LABELS = ("A", "B", "C")
STRUCTURED = [tl.CRF, tl.StructuredPerceptron, tl.StructuredSVM]


def copied_data(n=60, seed=0):
    """The first two words say their labels; each later label follows from the second last."""
    rng = np.random.default_rng(seed)
    y = []
    for _ in range(n):
        row = [LABELS[i] for i in rng.integers(3, size=2)]
        for _ in range(10):
            row.append(LABELS[(LABELS.index(row[-2]) + 1) % 3])
        y.append(row)
    return [[*row[:2], *["w"] * 10] for row in y], y


@pytest.fixture(scope="module")
def english():
    return tl.datasets.load("english", "train", label="upos")


@pytest.fixture(scope="module")
def chunked():
    return tl.datasets.load("english", "train", label="chunk")


# ---- orders --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STRUCTURED)
@pytest.mark.parametrize("states", ["all", "seen", "auto"])
def test_order_2_learns_what_order_1_cannot(kind, states):
    X, y = copied_data()
    first = kind(features="words", max_iterations=20).fit(X, y)
    second = kind(features="words", order=2, states=states, max_iterations=20).fit(X, y)
    assert second.predict(X) == y
    assert first.predict(X) != y


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("states", ["all", "seen"])
def test_scores_are_those_of_the_ngrams(order, states):
    """The score of every labelling equals the sum of its weights, looked up by name."""
    X, y = copied_data(8)
    tagger = tl.CRF(features="words", order=order, states=states, max_iterations=3).fit(X, y)
    scores, space = tagger.scores_, tagger.scores_.states
    groups = space.unpack(scores.tied)
    weights = {}
    for group, values in groups.items():
        grams = space.ngrams.get(group) or itertools.product(range(3), repeat=values.ndim)
        weights |= {tuple(g): float(v) for g, v in zip(grams, values.ravel(), strict=True)}
    trellis = tagger.trellis([["w"] * 4])[0]
    for path in itertools.product(range(3), repeat=4):
        expected = scores.start[path[0]] + scores.stop[path[-1]]
        for t, label in enumerate(path):
            expected += trellis.emit[t, label]
            if t:
                expected += scores.trans[path[t - 1], label]
            for n in range(3, order + 2):
                if t + 1 >= n:
                    expected += weights.get(path[t + 1 - n : t + 1], 0.0)
        assert_allclose(trellis.path_score(path), expected, rtol=1e-5, atol=1e-5)


def test_full_and_pruned_agree_when_everything_was_seen():
    y = [[LABELS[i] for i in row] for row in itertools.product(range(3), repeat=4)]
    X = [["w"] * 4 for _ in y]
    options = {"features": "words", "order": 2, "algorithm": "lbfgs", "max_iterations": 15}
    full = tl.CRF(states="all", **options).fit(X, y)
    pruned = tl.CRF(states="seen", **options).fit(X, y)
    assert full.scores_.states.kind == "order"
    assert pruned.scores_.states.kind == "automaton"
    assert_allclose(full.history_[-1].loss, pruned.history_[-1].loss, rtol=1e-6)
    for one, two in zip(full.predict_marginals(X), pruned.predict_marginals(X), strict=True):
        assert_allclose(one, two, atol=1e-4)


def test_order_3_runs_through_everything(english, tmp_path):
    tagger = tl.CRF(order=3, states="seen", max_iterations=2).fit(english[:80])
    path = tmp_path / "order3.tagloom"
    tagger.save(path)
    again = tl.load(path)
    assert again.order == 3
    assert again.states == "seen"
    assert again.scores_.states == tagger.scores_.states
    X = english[80:110]
    assert again.predict(X) == tagger.predict(X)
    small = tagger.compact(max_bytes=200_000)
    assert len(small.predict(X)) == 30
    assert "ngram4" in dict(again.scores_.states.weight_groups)
    assert len(tagger.explain(X[0])) == len(X[0])


def test_partial_fit_takes_in_new_ngrams_and_labels():
    X, y = copied_data(20)
    tagger = tl.StructuredPerceptron(features="words", order=2, states="seen")
    only_ab = [i for i, row in enumerate(y) if row[0] == "A"]
    tagger.partial_fit([X[i] for i in only_ab], [y[i] for i in only_ab])
    before = tagger.scores_.states.n_weights
    for _ in range(30):
        tagger.partial_fit(X, y)
    assert tagger.scores_.states.n_weights >= before
    assert tagger.score(X, y) > 0.85
    tagger.partial_fit([["w", "v"]], [["D", "A"]])
    assert tagger.labels_.tolist() == ["A", "B", "C", "D"]


def test_warm_start_keeps_the_ngrams():
    X, y = copied_data(20)
    tagger = tl.CRF(features="words", order=2, algorithm="lbfgs", max_iterations=40)
    tagger.fit(X, y)
    loss = tagger.history_[-1].loss
    tagger.set_params(warm_start=True, max_iterations=1).fit(X, y)
    assert tagger.history_[-1].loss <= loss * 1.001


def test_a_custom_state_space_learns_its_weights():
    """Runs of exactly three: a chain of any order below three cannot count them."""
    rng = np.random.default_rng(0)
    y = []
    for _ in range(40):
        row = ["O"] * int(rng.integers(1, 4))
        for _ in range(3):
            row += ["I"] * 3 + ["O"] * int(rng.integers(1, 6))
        y.append(row)
    X = [["w"] * len(row) for row in y]
    runs = StateSpace.run_length(["I", "O"], "I", 4)
    tagger = tl.CRF(features="words", states=runs, algorithm="lbfgs", l2=0.01).fit(X, y)
    drawn = tagger.sample([["w"] * 30], 50, random_state=0)[0]
    inner = [
        len(list(group))
        for row in drawn
        for label, group in itertools.groupby(row[:-3])
        if label == "I"
    ]
    assert np.mean(np.array(inner) == 3) > 0.8
    plain = tl.CRF(features="words", algorithm="lbfgs", l2=0.01).fit(X, y)
    drawn = plain.sample([["w"] * 30], 50, random_state=0)[0]
    runs_of = [len(list(g)) for row in drawn for y, g in itertools.groupby(row[:-3]) if y == "I"]
    assert np.mean(np.array(runs_of) == 3) < 0.4


# ---- constraints ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*STRUCTURED, tl.TokenClassifier, tl.MEMM])
def test_tag_dictionary(kind, english):
    dictionary = tl.TagDictionary(min_count=3)
    tagger = kind(max_iterations=2, constraints=dictionary).fit(english)
    known = tagger.constraints_.dictionary
    assert known["the"] == ("DET",)
    for sentence, row in zip(english, tagger.predict(english), strict=True):
        for word, label in zip(sentence.tokens, row, strict=True):
            assert label in known.get(word, tagger.labels_)
    column = tagger.labels_.tolist().index("DET")
    assert tagger.predict_marginals([["the", "unseenword"]])[0][0, column] > 0.999


def test_entries_of_a_dictionary_go_before_what_was_seen(english):
    dictionary = tl.TagDictionary(min_count=2, entries={"the": {"X"}, "blork": {"VERB", "NOUN"}})
    tagger = tl.CRF(max_iterations=1, constraints=["auto", dictionary]).fit(english)
    assert tagger.predict([["the", "blork"]])[0][0] == "X"
    assert tagger.predict([["the", "blork"]])[0][1] in ("VERB", "NOUN")
    with raises(LabelError, where="entry 'the'", found="NOPE"):
        tl.CRF(constraints=tl.TagDictionary(entries={"the": ["NOPE"]})).fit(english)
    with raises(SentenceError, expected="a tag dictionary needs"):
        tl.CRF(None, constraints=dictionary).fit([[{"a": 1}, {"b": 1}]], [["X", "VERB"]])


def test_a_dictionary_never_leaves_a_sentence_without_labels():
    """I-X may not begin a sentence, but it is all that the dictionary knows of the word."""
    X, y = [["b", "i"]] * 4 + [["o"]], [["B-X", "I-X"]] * 4 + [["O"]]
    tagger = tl.CRF(features="words", constraints=["bio", tl.TagDictionary(2)]).fit(X, y)
    assert tagger.predict([["b", "i"], ["i"]])[0] == ["B-X", "I-X"]
    assert tagger.predict([["i"]])[0][0] in ("B-X", "O")


@pytest.mark.parametrize("kind", [*STRUCTURED, tl.TokenClassifier, tl.MEMM])
def test_a_space_of_transitions_between_labels(kind):
    X, y = [["a", "b", "c"], ["b", "a", "c"], ["c", "c", "a"]], [list("ABC"), list("BAC")]
    y.append(list("CCA"))
    allowed = np.ones((3, 3), dtype=bool)
    allowed[2, 2] = False  # no C after C, whatever was seen
    space = StateSpace.from_transitions(LABELS, allowed)
    tagger = kind(features="words", constraints=space).fit(X, y)
    for row in tagger.predict([["c"] * 6, ["c", "c", "a"]]):
        assert "CC" not in "".join(row)


@pytest.mark.parametrize("order", [1, 2])
def test_any_automaton_can_constrain(order):
    """Exactly one B in a sentence."""
    one = StateSpace.from_edges(
        LABELS,
        state_labels=["A", "C", "B", "A", "C"],
        edges=[
            *itertools.product([0, 1], [0, 1]),
            *itertools.product([0, 1], [2]),
            *itertools.product([2], [3, 4]),
            *itertools.product([3, 4], [3, 4]),
        ],
        initial=[0, 1, 2],
        final=[2, 3, 4],
    )
    X, y = copied_data(10)
    tagger = tl.CRF(features="words", order=order, constraints=one).fit(X, y)
    rows = tagger.predict(X) + sum(tagger.sample(X[:3], 5, random_state=0), [])  # noqa: RUF017
    assert all(row.count("B") == 1 for row in rows)
    with pytest.raises(InfeasibleError):
        tagger.predict([["w", "w"]], known=[["B", "B"]])


def test_order_2_with_bio(chunked):
    tagger = tl.CRF(order=2, max_iterations=1).fit(chunked)
    assert tagger.scheme_ == "bio"
    rng = np.random.default_rng(0)
    words = [w for s in chunked for w in s.tokens]
    noise = [rng.choice(words, size=12).tolist() for _ in range(50)]
    assert tl.labels.validate(tagger.predict(noise), "bio").is_valid


@pytest.mark.parametrize("kind", STRUCTURED)
@pytest.mark.parametrize("order", [1, 2])
def test_training_under_constraints(kind, order, chunked):
    options = {"order": order, "max_iterations": 2}
    if kind is tl.CRF:
        options |= {"algorithm": "lbfgs", "max_iterations": 20}
    tagger = kind(constrain_training=True, **options).fit(chunked[:100])
    plain = kind(**options).fit(chunked[:100])
    rng = np.random.default_rng(0)
    words = [w for s in chunked for w in s.tokens]
    noise = [rng.choice(words, size=12).tolist() for _ in range(30)]
    assert tl.labels.validate(tagger.predict(noise), "bio").is_valid
    test = chunked[100:]
    assert tagger.score(test) > plain.score(test) - 0.05
    if kind is tl.CRF:  # what is forbidden has no probability to lose
        assert tagger.history_[-1].loss < plain.history_[-1].loss


def test_training_under_a_dictionary_costs_less(english):
    options = {"algorithm": "lbfgs", "max_iterations": 5, "constraints": tl.TagDictionary(3)}
    free = tl.CRF(**options).fit(english[:80])
    bound = tl.CRF(constrain_training=True, **options).fit(english[:80])
    assert bound.history_[-1].loss < free.history_[-1].loss


def test_training_labels_that_violate_the_constraints():
    X, y = [["a", "b"], ["b", "a"]], [["B-X", "I-X"], ["O", "I-X"]]
    with raises(LabelError, where="sentence 1", expected="that the constraints allow"):
        tl.CRF(features="words", constraints="bio", constrain_training=True).fit(X, y)


def test_constraints_are_saved(tmp_path, english):
    labels = sorted({y for s in english for y in s.labels})
    space = StateSpace.total_count(labels, "VERB", 3)
    free = StateSpace.from_edges(
        space.labels,
        space.state_labels.tolist(),
        np.stack([space.src, space.dst], axis=1),
        space.initial,
    )
    tagger = tl.CRF(max_iterations=1, labels=labels, constraints=[free, tl.TagDictionary(4)])
    tagger.fit(english[:60])
    path = tmp_path / "bound.tagloom"
    tagger.save(path)
    again = tl.load(path)
    assert again.constraints_ == tagger.constraints_
    X = english[60:90]
    assert again.predict(X) == tagger.predict(X)
    # What was loaded can be learnt again with the same constraints.
    assert again.fit(english[:30]).constraints_.states == free


@pytest.mark.parametrize(
    ("options", "error", "parameter", "expected", "found"),
    [
        (
            {"constraints": "bilbo"},
            ParameterError,
            "constraints",
            "one of 'auto', 'bio'",
            "'bilbo'",
        ),
        ({"constraints": ["bio", 3]}, ParameterError, "constraints", "a StateSpace", "3"),
        ({"order": 0}, ParameterError, "order", "an integer of at least 1", "0"),
        ({"order": True}, ParameterError, "order", "an integer", "True"),
        ({"states": "some"}, ParameterError, "states", "one of 'auto', 'seen', 'all'", "'some'"),
        (
            {"order": 2, "states": StateSpace.order(LABELS, 2)},
            ParameterError,
            "order",
            "left out where states is a StateSpace",
            "2",
        ),
        (
            {"states": StateSpace.order(["X", "Y"], 2)},
            LabelError,
            "states",
            "over the labels of the data, A, B, C",
            "one over X, Y",
        ),
        (
            {"constraints": StateSpace.order(LABELS, 2)},
            ParameterError,
            "constraints",
            "a state space without weights",
            "StateSpace.order",
        ),
        ({"constraints": tl.TagDictionary("3")}, ParameterError, "min_count", "an integer", "'3'"),
    ],
)
def test_wrong_constraints(options, error, parameter, expected, found):
    X, y = copied_data(3)
    with raises(error, parameter=parameter, expected=expected, found=found):
        tl.CRF(features="words", **options).fit(X, y)


def test_a_damaged_state_space_is_refused(tmp_path):
    X, y = copied_data(5)
    tagger = tl.CRF(features="words", order=2, max_iterations=1).fit(X, y)
    header, arrays = tl.storage.read_bytes(tagger.to_bytes())
    header = json.loads(json.dumps(header))
    for damage in (
        {"states": {"n_labels": 3, "labels": list(LABELS), "order": 12}},
        {"states": {"n_labels": 3, "labels": list("XYZ"), "order": 2}},
        {"states": {"n_labels": 3, "labels": list(LABELS), "order": "2"}},
        {"constraints": {"scheme": "bio", "states": None, "dictionary": {}}},
        {"constraints": {"scheme": None, "states": None, "dictionary": {"w": ["Q"]}}},
    ):
        path = tmp_path / "bad.tagloom"
        tl.storage.write(path, header | damage, arrays)
        with pytest.raises(ModelFileError):
            tl.load(path)


# ---- labels left open ----------------------------------------------------------------------


def hide(corpus, share, seed=0):
    rng = np.random.default_rng(seed)
    return [[None if rng.random() < share else y for y in s.labels] for s in corpus]


@pytest.mark.parametrize("algorithm", ["lbfgs", "adagrad", "sgd"])
def test_most_accuracy_survives_when_half_of_the_labels_are_hidden(algorithm):
    train = tl.datasets.load("english", "train", label="upos")
    test = tl.datasets.load("english", "test", label="upos")
    X = [s.tokens for s in train]
    options = {"combinations": "all", "max_iterations": 40 if algorithm == "lbfgs" else 5}
    full = tl.CRF(algorithm=algorithm, **options).fit(train).score(test)
    half = tl.CRF(algorithm=algorithm, **options).fit(X, hide(train, 0.5)).score(test)
    assert full > 0.9
    assert full - 0.06 < half < full


@pytest.mark.parametrize("kind", [*STRUCTURED, tl.TokenClassifier])
def test_nothing_hidden_is_the_full_fit(kind, english):
    """Sets of one label are that label: the same numbers, bit by bit."""
    X = [s.tokens for s in english[:60]]
    full = kind(max_iterations=2).fit(X, [s.labels for s in english[:60]])
    sets = kind(max_iterations=2).fit(X, [[{y} for y in s.labels] for s in english[:60]])
    np.testing.assert_array_equal(full.scores_.rows.weights, sets.scores_.rows.weights)
    np.testing.assert_array_equal(full.scores_.trans, sets.scores_.trans)


@pytest.mark.parametrize("kind", STRUCTURED)
def test_sets_of_labels_teach_what_they_rule_out(kind):
    """Every label is one of two, but the two always have the right one in common."""
    rng = np.random.default_rng(1)
    words = {"a": "A", "b": "B", "c": "C"}
    X = [[str(w) for w in rng.choice(list(words), size=6)] for _ in range(60)]
    y = [[{words[w], str(rng.choice(LABELS))} for w in row] for row in X]
    tagger = kind(features="words", max_iterations=15).fit(X, y)
    assert tagger.predict([["a", "b", "c"]]) == [["A", "B", "C"]]


def test_open_labels_come_from_files(tmp_path):
    path = tmp_path / "some.jsonl"
    path.write_text(
        '{"tokens": ["they", "fish"], "labels": ["N", null]}\n'
        '{"tokens": ["they", "swim"], "labels": ["N", ["V", "N"]]}\n'
        '{"tokens": ["fish", "swim"], "labels": ["N", "V"]}\n',
        encoding="utf-8",
    )
    tagger = tl.CRF(features="words").fit(tl.read(path))
    assert tagger.predict([["they", "swim"]]) == [["N", "V"]]


def test_the_scheme_of_open_labels():
    def scheme(rows):
        offsets = np.cumsum([0, *(len(row) for row in rows)])
        read = read_labels(rows, rows, rows, may_be_open=True)
        return find_scheme(number_labels(read, None), offsets)

    assert scheme([["B-X", None, "I-X"], [None, "I-X", "O"]]) == "bio"
    assert scheme([["O", "I-X"], ["B-X", None, "O"]]) != "bio"
    X, y = [["a", "b", "c"], ["b", "a"]], [["B-X", None, "I-X"], ["O", "O"]]
    assert tl.CRF(features="words").fit(X, y).scheme_ == "bio"


@pytest.mark.parametrize("order", [1, 2])
def test_hidden_markov_models_take_constraints(order, chunked, tmp_path):
    rng = np.random.default_rng(0)
    words = [w for s in chunked for w in s.tokens]
    noise = [rng.choice(words, size=12).tolist() for _ in range(100)]
    free = tl.HMM(order=order, constraints=None).fit(chunked)
    assert not tl.labels.validate(free.predict(noise), "bio").is_valid
    tagger = tl.HMM(order=order).fit(chunked)
    assert tagger.scheme_ == "bio"
    assert tl.labels.validate(tagger.predict(noise), "bio").is_valid
    # The joint distribution is the same: constraints are about predictions.
    x, y = ["The", "dog"], ["O", "I-NP"]
    assert tagger.log_joint(x, y) == free.log_joint(x, y) > -np.inf
    both = tl.HMM(order=order, constraints=["auto", tl.TagDictionary(3)]).fit(chunked)
    both.save(tmp_path / "hmm.tagloom")
    again = tl.load(tmp_path / "hmm.tagloom")
    assert again.constraints_ == both.constraints_
    assert again.predict(noise) == both.predict(noise)
    with raises(ParameterError, parameter="constraints"):
        tl.HMM(constraints="bilbo").fit(chunked)
