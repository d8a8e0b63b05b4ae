"""The hidden Markov model: closed forms, enumeration, the texts' examples, hmmlearn as judge."""

import copy
import itertools
import math
import os
import pickle
import threading
from collections import Counter

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from raising import raises
from tagloom.errors import (
    InfeasibleError,
    LabelError,
    ModelFileError,
    ParameterError,
    SentenceError,
    ShapeError,
    TemplateError,
)

X = [["they", "can", "fish"], ["can", "of", "fish"], ["they", "fish"], ["the", "old", "can"]]
Y = [["N", "V", "V"], ["N", "P", "N"], ["N", "V"], ["D", "J", "N"]]
LABELS = ["D", "J", "N", "P", "V"]
# What gives relative frequencies: nothing is smoothed, nothing unknown.
PLAIN = {
    "smoothing": "add-k",
    "k": 0,
    "emissions": tl.emissions.Words(smoothing=0, unknown=0),
}


def hmm_of_words(*order, **options):
    """A model with options of its words."""
    own = {
        name: options.pop(name)
        for name in ("order", "smoothing", "k", "stop", "labels", "constraints")
        if name in options
    }
    if "emission_smoothing" in options:
        options["smoothing"] = options.pop("emission_smoothing")
    return tl.HMM(*order, **own, emissions=tl.emissions.Words(**options))


def example_1():
    """Pidgin English on Gliese 581 d (001, example 1)."""
    return tl.HMM.from_probs(
        ["D", "N", "V"],
        ["can", "the"],
        start=[0.8, 0, 0.2],
        trans=[[0, 1, 0], [0.2, 0.2, 0.6], [0.8, 0, 0.2]],
        emit=[[0, 1], [1, 0], [1, 0]],
    )


# ---- the example of the text -------------------------------------------------------------------


def test_example_1_as_a_linear_model():
    hmm = example_1()
    inf = np.inf
    w = hmm.as_vector()
    assert_allclose(
        w,
        # (12), as printed there, to two digits
        [
            *(-0.22, -inf, -1.61),
            *(-inf, 0, -inf, -1.61, -1.61, -0.51, -0.22, -inf, -1.61),
            *(-inf, 0, 0, -inf, 0, -inf),
        ],
        atol=0.005,
    )
    x, y = ["the", "can", "can", "can", "the", "can"], ["D", "N", "V", "V", "D", "N"]
    phi = hmm.feature_vector(x, y)
    assert_array_equal(phi, [1, 0, 0, 0, 2, 0, 0, 0, 1, 1, 0, 1, 0, 2, 2, 0, 2, 0])  # (15)
    happens = phi > 0
    assert_allclose(w[happens] @ phi[happens], hmm.log_joint(x, y), rtol=1e-12)
    assert math.exp(hmm.log_joint(x, y)) == pytest.approx(0.8 * 0.6 * 0.2 * 0.8)


def test_example_1_can_the_can():
    hmm = example_1()
    assert hmm.predict([["can", "the", "can"]]) == [["V", "D", "N"]]
    assert math.exp(hmm.log_joint(["can", "the", "can"], ["V", "D", "N"])) == pytest.approx(0.16)
    (best,) = hmm.predict_nbest([["can", "the", "can"]], n=1)[0]
    assert best.prob == pytest.approx(1)  # nothing else can be said so
    assert hmm.log_joint(["can", "the", "can"], ["N", "D", "N"]) == -np.inf
    with raises(InfeasibleError, where="sequence 0"):
        hmm.predict([["the", "the"]])
    with pytest.raises(InfeasibleError):
        hmm.predict([["a", "word", "unheard"]])


def test_example_1_as_a_linear_tagger_and_back(tmp_path):
    hmm = example_1()
    linear = hmm.to_linear()
    x = [["can", "the", "can"], ["the", "can", "can", "can", "the", "can"], ["can"]]
    assert linear.predict(x) == hmm.predict(x)
    assert_allclose(linear.trellis(x).log_partition(), hmm.trellis(x).log_partition(), rtol=1e-6)
    back = tl.HMM.from_linear(linear)
    assert_allclose(back.as_vector(), hmm.as_vector(), rtol=1e-6)
    assert back.words_ == ["can", "the"]
    linear.save(tmp_path / "linear.tagloom")
    assert tl.load(tmp_path / "linear.tagloom").predict(x) == hmm.predict(x)


# ---- counts ------------------------------------------------------------------------------------


def test_without_smoothing_probabilities_are_relative_frequencies():
    hmm = tl.HMM(**PLAIN).fit(X, Y)
    labels = [label for row in Y for label in row]
    count, firsts = Counter(labels), Counter(row[0] for row in Y)
    lasts = Counter(row[-1] for row in Y)
    pairs = Counter(pair for row in Y for pair in itertools.pairwise(row))
    emitted = Counter(pair for x, y in zip(X, Y, strict=True) for pair in zip(x, y, strict=True))
    assert_allclose(np.exp(hmm.log_start_), [firsts[y] / len(Y) for y in LABELS])
    assert_allclose(np.exp(hmm.log_stop_), [lasts[y] / count[y] for y in LABELS])
    assert_allclose(
        np.exp(hmm.log_transitions_[0]), [[pairs[a, b] / count[a] for b in LABELS] for a in LABELS]
    )
    emit = hmm.as_vector()[5 + 25 : -5].reshape(5, -1)
    assert_allclose(
        np.exp(emit),
        [[emitted[w, y] / count[y] for w in hmm.words_] for y in LABELS],
        rtol=1e-6,
    )


def test_add_k_is_its_closed_form():
    hmm = tl.HMM(smoothing="add-k", k=0.5).fit(X, Y)
    # N: four of six go on (V, V, P, …), two end; six outcomes with the end
    count = Counter(label for row in Y for label in row)
    pairs = Counter(pair for row in Y for pair in itertools.pairwise(row))
    expected = [[(pairs[a, b] + 0.5) / (count[a] + 0.5 * 6) for b in LABELS] for a in LABELS]
    assert_allclose(np.exp(hmm.log_transitions_[0]), expected)
    assert_allclose(np.exp(hmm.log_start_), [(c + 0.5) / (4 + 2.5) for c in (1, 0, 3, 0, 0)])
    open_ended = tl.HMM(smoothing="add-k", k=0.5, stop=False).fit(X, Y)
    goes_on = Counter(label for row in Y for label in row[:-1])
    expected = [[(pairs[a, b] + 0.5) / (goes_on[a] + 2.5) for b in LABELS] for a in LABELS]
    assert_allclose(np.exp(open_ended.log_transitions_[0]), expected)
    assert open_ended.log_stop_ is None


def test_witten_bell_is_its_closed_form():
    hmm = tl.HMM(smoothing="witten-bell").fit(X, Y)
    outcomes = [*LABELS, "END"]
    unigrams = Counter(y for row in Y for y in [*row, "END"])
    total, different = sum(unigrams.values()), len(unigrams)
    base = {y: (unigrams[y] + different / 6) / (total + different) for y in outcomes}
    for a, row in zip(LABELS, np.exp(hmm.log_transitions_[0]), strict=True):
        after = Counter(b for y in Y for c, b in itertools.pairwise([*y, "END"]) if c == a)
        n, t = sum(after.values()), len(after)
        assert_allclose(row, [(after[b] + t * base[b]) / (n + t) for b in LABELS])


def test_interpolation_is_its_closed_form():
    hmm = tl.HMM(smoothing="interpolation").fit(X, Y)
    ones = Counter(y for row in Y for y in [*row, "END"])
    twos = Counter(pair for row in Y for pair in itertools.pairwise(["START", *row, "END"]))
    before = Counter(pair[0] for pair in twos.elements())
    total = sum(ones.values())
    lambdas = [1.0, 1.0, 1.0]  # uniform, one label, two labels
    for (a, b), n in twos.items():
        foretold = [
            1 / 6,
            (ones[b] - 1) / (total - 1),
            (n - 1) / (before[a] - 1) if before[a] > 1 else 0,
        ]
        lambdas[foretold.index(max(foretold))] += n
    share = [x / sum(lambdas) for x in lambdas]
    expected = [
        [share[0] / 6 + share[1] * ones[b] / total + share[2] * twos[a, b] / before[a]
         for b in LABELS] for a in LABELS
    ]  # fmt: skip
    assert_allclose(np.exp(hmm.log_transitions_[0]), expected)


def test_emissions_are_the_closed_form():
    hmm = hmm_of_words(emission_smoothing=0.25, max_suffix=0, rare=1).fit(X, Y)
    tokens = [pair for x, y in zip(X, Y, strict=True) for pair in zip(x, y, strict=True)]
    by_word, count = Counter(tokens), Counter(w for w, _ in tokens)
    once = [(w, y) for w, y in tokens if count[w] == 1]
    unknown = {y: (sum(z == y for _, z in once) + 2 / 5) / (len(once) + 2) for y in LABELS}
    u = len(once) / len(tokens)
    joint = {
        (w, y): (1 - u) * count[w] / len(tokens)
        * (by_word[w, y] + 0.25 * unknown[y]) / (count[w] + 0.25)
        for w in count for y in LABELS
    }  # fmt: skip
    of = {y: u * unknown[y] + sum(joint[w, y] for w in count) for y in LABELS}
    emit = hmm.trellis([["can", "unheard"]])[0].emit
    assert_allclose(np.exp(emit[0]), [joint["can", y] / of[y] for y in LABELS], rtol=1e-6)
    assert_allclose(np.exp(emit[1]), [u * unknown[y] / of[y] for y in LABELS], rtol=1e-6)


SETTINGS = [
    {"order": order, "smoothing": smoothing, "stop": stop}
    for order in (1, 2, 3)
    for smoothing in ("add-k", "witten-bell", "interpolation")
    for stop in (True, False)
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_everything_sums_to_one(setting):
    hmm = tl.HMM(**setting).fit(X, Y)
    assert np.exp(hmm.log_start_).sum() == pytest.approx(1)
    ends = 0 if hmm.log_stop_ is None else np.exp(hmm.log_stop_)
    assert (hmm.log_stop_ is None) == (not setting["stop"])
    assert len(hmm.log_transitions_) == setting["order"]
    for level in hmm.log_transitions_:
        assert_allclose(np.exp(level).sum(axis=-1) + ends, np.ones(level.shape[:-1]))
    words = hmm.trellis([hmm.words_])[0].emit.astype(float)
    others = hmm.table_.rows[0].astype(float)
    assert_allclose(np.exp(words).sum(axis=0) + np.exp(others), np.ones(5), rtol=1e-6)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_trellis_is_the_joint_distribution(setting):
    """Every labelling of a short sentence, multiplied out by hand."""
    hmm = tl.HMM(**setting).fit(X, Y)
    x = ["they", "can", "unheard", "fish"]
    emit = np.exp(hmm.trellis([x])[0].emit.astype(float))
    k = setting["order"]
    probs = {}
    for path in itertools.product(range(5), repeat=4):
        p = np.exp(hmm.log_start_[path[0]]) * emit[0, path[0]]
        for t in range(1, 4):
            history = path[max(t - k, 0) : t]
            p *= (
                np.exp(hmm.log_transitions_[len(history) - 1][(*history, path[t])])
                * emit[t, path[t]]
            )
        p *= 1 if hmm.log_stop_ is None else np.exp(hmm.log_stop_[path[-1]])
        probs[path] = p
    best = max(probs, key=probs.get)
    assert hmm.predict([x]) == [[LABELS[y] for y in best]]
    assert hmm.log_joint(x, [LABELS[y] for y in best]) == pytest.approx(np.log(probs[best]))
    assert hmm.trellis([x]).log_partition()[0] == pytest.approx(np.log(sum(probs.values())))


def test_order_2_counts_trigrams():
    y = [["A", "B", "C"], ["A", "B", "C"], ["B", "B", "A"], ["C", "B", "A"]]
    x = [["w"] * 3] * 4
    hmm = tl.HMM(order=2, smoothing="add-k", k=1e-9).fit(x, y)
    transitions = np.exp(hmm.log_transitions_[1])
    assert_allclose(
        transitions[0, 1], np.array([0, 0, 1]) * (1 - np.exp(hmm.log_stop_[1])), atol=1e-6
    )
    assert_allclose(
        transitions[2, 1], np.array([1, 0, 0]) * (1 - np.exp(hmm.log_stop_[1])), atol=1e-6
    )
    assert_allclose(np.exp(hmm.log_transitions_[0][1]), [0, 1, 0], atol=1e-6)  # after ♦ B
    assert_allclose(np.exp(hmm.log_stop_), [2 / 4, 0, 2 / 3], atol=1e-6)


# ---- unknown words -----------------------------------------------------------------------------


def test_unknown_words_are_scored_by_endings_and_shape():
    words = ["walking", "talking", "running", "nation", "station", "ration", "Paris", "Oslo", "12"]
    labels = ["V", "V", "V", "N", "N", "N", "NAME", "NAME", "NUM"]
    hmm = tl.HMM().fit([[w] for w in words], [[y] for y in labels])
    unheard = [["singing"], ["potion"], ["Rome"], ["7"]]
    assert hmm.predict(unheard) == [["V"], ["N"], ["NAME"], ["NUM"]]
    blind = hmm_of_words(max_suffix=0).fit([[w] for w in words], [[y] for y in labels])
    assert len({row[0] for row in blind.predict(unheard)}) == 1


def test_unknown_words_take_after_known_ones_that_differ_in_capitals():
    x = [["Fishing", "is", "fun"], ["fun", "is", "here"], ["here", "is", "Fishing"]]
    y = [["G", "V", "N"], ["N", "V", "R"], ["R", "V", "G"]]
    x, y = x * 3, y * 3
    hmm = hmm_of_words(emission_smoothing=0).fit(x, y)
    fishing, fun = hmm.trellis([["fishing", "Fun"]]).emit
    assert hmm.labels_[np.argmax(fishing)] == "G"
    assert hmm.labels_[np.argmax(fun)] == "N"
    assert sorted(hmm.words_) == ["Fishing", "fun", "here", "is"]
    without = hmm_of_words(emission_smoothing=0, fold_case=False).fit(x, y)
    assert without.labels_[np.argmax(without.trellis([["fishing"]]).emit)] != "G"
    assert "straße" in tl.HMM().fit([["straße", "ǆ", "İ", "ﬁ"]], [list("ABAB")]).words_


def test_known_words_take_after_themselves_with_other_capitals():
    """Pr(y | Book) leans on 4 times book, and that on 3 times the spelling."""
    x, y = [["book", "Book", "a"]] + [["book", "a"]] * 3, [["N", "V", "D"]] + [["N", "D"]] * 3
    hmm = hmm_of_words(emission_smoothing=0.5, max_suffix=0, rare=1).fit(x, y)
    spelling = (np.array([0, 0, 1]) + 2 / 3) / 3  # D, N, V of words that occur once
    likeness = (np.array([0, 4, 0]) + 3 * spelling) / 7
    expected = (np.array([0, 0, 1]) + 0.5 * likeness) / 1.5  # Pr(y | Book)
    book, unheard = np.exp(hmm.trellis([["Book", "unheard"]])[0].emit.astype(float))  # Pr(w | y)
    found, wanted = book / unheard, expected / spelling  # Pr(w | y) has 1 / Pr(y) in both
    assert_allclose(found / found.sum(), wanted / wanted.sum(), rtol=1e-5)


def test_words_below_min_count_are_unknown():
    hmm = hmm_of_words(min_count=2).fit(X, Y)
    assert sorted(hmm.words_) == ["can", "fish", "they"]
    assert len(hmm_of_words(min_count=9).fit(X, Y).predict(X)) == 4  # all are


# ---- words and the label after them ------------------------------------------------------------

LEXICAL = [
    {"order": order, "stop": stop, "lexical": lexical, **more}
    for order in (1, 2)
    for stop in (True, False)
    for lexical in (1, 2, 99)
    for more in ({}, {"unknown": 0, "emission_smoothing": 0, "fold_case": False})
]


def words_given_pairs(hmm):
    """Pr(w | y, y⁺) of the known words and, last, of all others [V + 1, Y, Y + 1]."""
    places = np.append(hmm.table_.words, np.int32(0))
    factors = np.exp(hmm.pairs_.scores[hmm.pairs_.rows_of(places)].astype(float))
    return np.exp(hmm.table_.rows[places].astype(float))[:, :, None] * factors


@pytest.mark.parametrize("setting", LEXICAL, ids=str)
def test_words_sum_to_one_given_their_label_and_the_next(setting):
    hmm = hmm_of_words(**setting).fit(X, Y)
    assert_allclose(words_given_pairs(hmm).sum(axis=0), np.ones((5, 6)), rtol=1e-5)
    n_words = {1: 6, 2: 3, 99: 0}[setting["lexical"]]  # fish, without ■, has nothing after it
    assert len(hmm.pairs_.words) == n_words - (n_words > 0 and not setting["stop"])


@pytest.mark.parametrize("setting", LEXICAL, ids=str)
def test_the_trellis_of_a_lexical_model_is_its_joint_distribution(setting):
    hmm = hmm_of_words(**setting).fit(X, Y)
    x = ["they", "can", "fish", "can"] + ["unheard"] * (setting.get("unknown") is None)
    number = {w: i for i, w in enumerate(hmm.words_)}
    words = words_given_pairs(hmm)[[number.get(w, -1) for w in x]]  # [T, Y, Y + 1]
    if "unheard" in x:  # as probable as its spelling
        words[-1] *= np.exp((hmm.table_.rows[hmm.table_.find(x[-1:])] - hmm.table_.rows[0]).T)
    k, T = setting["order"], len(x)
    probs = {}
    for path in itertools.product(range(5), repeat=T):
        p = np.exp(hmm.log_start_[path[0]])
        for t in range(1, T):
            history = path[max(t - k, 0) : t]
            p *= np.exp(hmm.log_transitions_[len(history) - 1][(*history, path[t])])
        for t, (y, after) in enumerate(zip(path, [*path[1:], 5], strict=True)):
            p *= words[t, y, after]
        probs[path] = p * (1 if hmm.log_stop_ is None else np.exp(hmm.log_stop_[path[-1]]))
    best = max(probs, key=probs.get)
    (predicted,) = hmm.predict([x])
    assert probs[tuple(map(LABELS.index, predicted))] == pytest.approx(probs[best], rel=1e-5)
    assert hmm.log_joint(x, predicted) == pytest.approx(np.log(probs[best]), rel=1e-5)
    assert hmm.trellis([x]).log_partition()[0] == pytest.approx(np.log(sum(probs.values())))


def test_the_label_after_a_word_by_hand():
    """have/A before B twice, have/A before C once; other words of A: before C once."""
    x = [["have", "b"], ["have", "b"], ["have", "c"], ["go", "c"]]
    y = [["A", "B"], ["A", "B"], ["A", "C"], ["A", "C"]]
    hmm = hmm_of_words(lexical=3, smoothing="add-k", k=1).fit(x, y)
    after = np.array([1, 3, 3, 1]) / 8  # A, B, C, ■ after A: 0, 2, 2, 0 and one each
    have = (np.array([0, 2, 1, 0]) + 4 * after) / (3 + 4)  # two labels seen after it, twice each
    assert hmm.words_[0] == "have"
    probs = np.exp(hmm.table_.rows[hmm.table_.words[0], 0])  # Pr(have | A)
    total = 1 + probs * (have / after - 1)
    factors = np.exp(hmm.pairs_.scores[hmm.pairs_.rows_of(hmm.table_.words[:2])][:, 0])
    assert_allclose(factors, [have / after / total, 1 / total], rtol=1e-5)


def test_a_lexical_model_is_kept_in_files_and_draws_what_it_means(tmp_path):
    hmm = hmm_of_words(lexical=1, smoothing="add-k", k=0.1).fit(X * 5, Y * 5)
    hmm.save(tmp_path / "hmm.tagloom")
    loaded = tl.load(tmp_path / "hmm.tagloom")
    assert_array_equal(loaded.trellis(X).edge, hmm.trellis(X).edge)
    rng = np.random.default_rng(0)
    drawn = Counter()
    for _ in range(4000):
        sentence = hmm.generate(rng)
        pairs = zip(sentence.tokens, sentence.labels, [*sentence.labels[1:], "■"], strict=True)
        drawn.update(pairs)
    given = words_given_pairs(hmm)
    number = {w: i for i, w in enumerate([*hmm.words_, "<unknown>"])}
    for y, after in itertools.product(LABELS, [*LABELS, "■"]):
        n = sum(drawn[w, y, after] for w in number)
        for word, i in number.items():
            p = given[i, LABELS.index(y), [*LABELS, "■"].index(after)]
            assert drawn[word, y, after] == pytest.approx(n * p, abs=5 * (n * p) ** 0.5 + 5)
    with pytest.raises(ParameterError) as caught:
        hmm.to_linear()
    assert caught.value.where == "HMM.to_linear"
    with pytest.raises(ParameterError) as caught:
        hmm_of_words(lexical=0).fit(X, Y)
    assert (caught.value.parameter, caught.value.found) == ("lexical", "0")


# ---- several features of a token ---------------------------------------------------------------


def tagged():
    """The sentences above with a column, the first letter of each word."""
    return [
        tl.Sentence(x, labels=y, columns={"first": [w[0] for w in x]})
        for x, y in zip(X, Y, strict=True)
    ]


@pytest.mark.parametrize("weight", [None, [1, 2, 0.5, 3]])
@pytest.mark.parametrize("word", [[], ["word"]])
def test_features_are_emitted_each_on_its_own(word, weight):
    """Pr(x_t | y) = Pr(word | y) · Pr(last letter | y) · Pr(first letter | y), by hand."""
    words = tl.emissions.Words(smoothing=0.3, unknown=0.2)
    templates = [*word, "suffix(1)", "col(first)"]
    features = tl.emissions.Features(templates, smoothing=0.3, words=words)
    hmm = tl.HMM(emissions=features).fit(tagged(), sample_weight=weight)
    plain = tl.HMM(emissions=words).fit(tagged(), sample_weight=weight)
    n_of = weight or [1] * 4
    tokens = [
        (w, y, n) for x, ys, n in zip(X, Y, n_of, strict=True) for w, y in zip(x, ys, strict=True)
    ]
    value_of = {
        "suffix(1)": lambda w: w[-1],
        "col(first)": lambda w: w[0],
    }
    x = ["can", "of", "swam", "zebu"]
    expected = np.exp(plain.trellis([x])[0].emit.astype(float)) if word else np.ones((4, 5))
    for value in value_of.values():
        V = len({value(w) for w, _, _ in tokens})
        for (t, w), (i, y) in itertools.product(enumerate(x), enumerate(LABELS)):
            of_label = sum(n for _, z, n in tokens if z == y)
            seen = sum(n for v, z, n in tokens if z == y and value(v) == value(w))
            expected[t, i] *= (seen + 0.3) / (of_label + 0.3 * (V + 1))
    sentence = tl.Sentence(x, columns={"first": [w[0] for w in x]})
    if weight is None and not word:
        assert hmm.features_.rows.n_attributes == 1 + 6 + 4  # bias, last letters, first letters
    found = np.exp(hmm.trellis([sentence])[0].emit.astype(float))
    assert_allclose(found, expected, rtol=1e-5)


def test_features_help(tmp_path):
    splits = tl.datasets.load("english", label="chunk")
    words = tl.HMM().fit(splits.train)
    both = tl.HMM(emissions=["word", "col(upos)"]).fit(splits.train)
    assert both.score(splits.test) > words.score(splits.test) + 0.05
    both.save(tmp_path / "hmm.tagloom")
    loaded = tl.load(tmp_path / "hmm.tagloom")
    assert loaded.get_params() == both.get_params()
    assert_array_equal(loaded.trellis(splits.test).emit, both.trellis(splits.test).emit)
    reasons = both.explain(splits.test[0])[1].reasons
    assert any(r.name.startswith("col(upos)=") for r in reasons)


FEATURES = tl.emissions.Features


@pytest.mark.parametrize(
    ("emissions", "parameter", "found"),
    [
        ([], "emissions", "[]"),
        (3, "features", None),
        (["edge(word)"], "emissions", "'edge(word)', which looks at two labels"),
        (FEATURES([]), "templates", "[]"),
        (FEATURES(["shape"], smoothing=0), "smoothing", "0"),
        (FEATURES(["shape"], words=["word"]), "words", "['word'], of type list"),
        (FEATURES(["suffix(1)", "prefix(1) & lexicon(x)"]), None, None),
    ],
    ids=str,
)
def test_templates_that_cannot_be_emitted(emissions, parameter, found):
    with pytest.raises((ParameterError, TemplateError)) as caught:
        tl.HMM(emissions=emissions).fit(X, Y)
    if found is not None:
        assert (caught.value.parameter, caught.value.found) == (parameter, found)


def test_a_template_with_numbers_cannot_be_emitted():
    sentences = [
        tl.Sentence(x, labels=y, columns={"n": ["1.5"] * len(x)}) for x, y in zip(X, Y, strict=True)
    ]
    with pytest.raises(ParameterError) as caught:
        tl.HMM(emissions=["word", "value(n)"]).fit(sentences)
    assert caught.value.parameter == "templates"
    assert "numbers" in caught.value.found


@pytest.mark.parametrize("method", ["generate", "to_linear", "as_vector"])
def test_what_a_model_of_features_cannot_do(method):
    hmm = tl.HMM(emissions=["word", "shape"]).fit(X, Y)
    with pytest.raises(ParameterError) as caught:
        getattr(hmm, method)()
    owner = "Features" if method == "generate" else "HMM"
    assert caught.value.where == f"{owner}.{method}"
    assert "Features" in caught.value.found


# ---- generating --------------------------------------------------------------------------------


def test_generated_sentences_have_the_probabilities_of_the_model():
    hmm = tl.HMM.from_probs(
        ["A", "B"], ["x", "y"],
        start=[0.7, 0.3], trans=[[0.2, 0.5], [0.3, 0.1]], emit=[[0.9, 0.1], [0.4, 0.6]],
        stop=[0.3, 0.6],
    )  # fmt: skip
    rng = np.random.default_rng(0)
    n = 6_000
    drawn = Counter()
    for _ in range(n):
        sentence = hmm.generate(rng)
        drawn[tuple(sentence.tokens), tuple(sentence.labels)] += 1
    for (words, labels), times in drawn.most_common(8):
        p = math.exp(hmm.log_joint(words, labels))
        assert abs(times / n - p) < 4 * math.sqrt(p * (1 - p) / n)
    assert hmm.generate(7) == hmm.generate(7)


def test_parameters_are_recovered_from_what_is_generated():
    true = tl.HMM.from_probs(
        ["A", "B"], ["x", "y"],
        start=[0.7, 0.3], trans=[[0.2, 0.5], [0.3, 0.1]], emit=[[0.9, 0.1], [0.4, 0.6]],
        stop=[0.3, 0.6],
    )  # fmt: skip
    rng = np.random.default_rng(1)
    found = tl.HMM(**PLAIN).fit([true.generate(rng) for _ in range(5000)])
    assert_allclose(np.exp(found.log_transitions_[0]), np.exp(true.log_transitions_[0]), atol=0.02)
    assert_allclose(np.exp(found.log_stop_), np.exp(true.log_stop_), atol=0.02)


def test_without_a_stop_a_length_is_needed():
    hmm = example_1()
    with pytest.raises(ParameterError) as caught:
        hmm.generate(0)
    assert (caught.value.parameter, caught.value.found) == ("length", "None")
    sentence = hmm.generate(0, length=6)
    assert len(sentence) == 6
    assert hmm.log_joint(sentence.tokens, sentence.labels) > -np.inf
    drawn = hmm_of_words(order=2, unknown=0.4).fit(X, Y).generate(3, length=50, unknown="?")
    assert "?" in drawn.tokens
    assert set(drawn.tokens) <= {"?", *(w for x in X for w in x)}


# ---- judges ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_words", [2, 7])
def test_likelihoods_posteriors_and_paths_are_those_of_hmmlearn(n_words):
    rng = np.random.default_rng(n_words)
    judge = CategoricalHMM(n_components=4, implementation="log")
    judge.startprob_ = rng.dirichlet(np.ones(4))
    judge.transmat_ = rng.dirichlet(np.ones(4), 4)
    judge.emissionprob_ = rng.dirichlet(np.ones(n_words), 4)
    judge.n_features = n_words
    words = [f"w{i}" for i in range(n_words)]
    hmm = tl.HMM.from_probs(
        list("ABCD"), words,
        start=judge.startprob_, trans=judge.transmat_, emit=judge.emissionprob_,
    )  # fmt: skip
    for T in (1, 5, 80):
        symbols, _ = judge.sample(T, random_state=T)
        x = [[words[s] for s in symbols[:, 0]]]
        log_z, posteriors = judge.score_samples(symbols)
        assert_allclose(hmm.trellis(x).log_partition(), log_z, rtol=1e-10)
        assert_allclose(hmm.predict_marginals(x)[0], posteriors, rtol=1e-8, atol=1e-12)
        score, path = judge.decode(symbols)
        assert hmm.predict(x) == [["ABCD"[y] for y in path]]
        assert_allclose(hmm.log_joint(x[0], ["ABCD"[y] for y in path]), score, rtol=1e-10)


def test_viterbi_over_probabilities_is_viterbi_over_their_logarithms():
    """000 [7.50-7.53]: v_m(y) = p(w | y) · max p(y | y') · v_{m-1}(y')."""
    hmm = tl.HMM().fit(X, Y)
    for x in [*X, ["fish", "fish", "can", "the", "old", "of", "unheard"]]:
        emit = np.exp(hmm.trellis([x])[0].emit.astype(float))
        trans, stop = np.exp(hmm.log_transitions_[0]), np.exp(hmm.log_stop_)
        v, back = np.exp(hmm.log_start_) * emit[0], []
        for row in emit[1:]:
            products = trans * v[:, None]  # [y_prev, y]
            back.append(products.argmax(axis=0))
            v = row * products.max(axis=0)
        path = [int((v * stop).argmax())]
        for pointers in reversed(back):
            path.insert(0, int(pointers[path[0]]))
        best = hmm.trellis([x])[0].viterbi()
        assert best.path.tolist() == path
        assert math.exp(best.score) == pytest.approx((v * stop).max(), rel=1e-5)


# ---- as weights --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"stop": False}, {"max_suffix": 0}, {"min_count": 2}])
def test_the_linear_tagger_scores_as_the_model_does(options):
    train = tl.datasets.load("english", "train", label="upos")[:150]
    test = tl.datasets.load("english", "test", label="upos")[:40]
    hmm = hmm_of_words(**options).fit(train)
    linear = hmm.to_linear()
    assert_allclose(linear.trellis(test).emit, hmm.trellis(test).emit, atol=1e-4)
    assert_array_equal(linear.trellis(test).trans, hmm.trellis(test).trans)
    assert linear.predict(test) == hmm.predict(test)
    back = tl.HMM.from_linear(linear)
    assert_allclose(back.as_vector(), hmm.as_vector(), atol=1e-4)
    assert back.words_ == hmm.words_
    if "min_count" not in options:  # endings of unknown words too
        assert_allclose(back.trellis(test).emit, hmm.trellis(test).emit, atol=1e-4)
        assert back.predict(test) == hmm.predict(test)


def test_only_logarithms_of_probabilities_go_back():
    crf = tl.CRF(features=["bias", "word"], max_iterations=2).fit(X, Y)
    with pytest.raises(ParameterError) as caught:
        tl.HMM.from_linear(crf)
    assert caught.value.where == "HMM.from_linear, weights of start"
    crf = tl.CRF(features="pos", max_iterations=2).fit(X, Y)
    with pytest.raises(ParameterError) as caught:
        tl.HMM.from_linear(crf)
    assert caught.value.where == "HMM.from_linear"
    assert "lower[-1]" in caught.value.found


# ---- mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "parameter", "found"),
    [
        ({"smoothing": "good-turing"}, "smoothing", "'good-turing'"),
        ({"order": 0}, "order", "0"),
        ({"order": True}, "order", "True"),
        ({"k": -1}, "k", "-1"),
        ({"stop": "yes"}, "stop", "'yes'"),
        ({"unknown": 1}, "unknown", "1"),
        ({"emission_smoothing": -1}, "smoothing", "-1"),
        ({"fold_case": "yes"}, "fold_case", "'yes'"),
        ({"max_suffix": -1}, "max_suffix", "-1"),
        ({"rare": 0}, "rare", "0"),
        ({"order": 2, "smoothing": "add-k", "k": 0}, "k", "0"),
        ({"order": 12}, "order", "12, which has 13,060,694,016"),
    ],
    ids=str,
)
def test_invalid_parameters(options, parameter, found):
    with pytest.raises(ParameterError) as caught:
        hmm_of_words(**options).fit(X, Y)
    assert (caught.value.parameter, caught.value.found) == (parameter, found)


@pytest.mark.parametrize(
    ("change", "error", "parameter", "found"),
    [
        ({"trans": [0, 1]}, ShapeError, "trans", "(2,)"),
        ({"trans": [[0, 0.5], [1, 0]]}, ParameterError, "trans", "sums of 0.5, 1"),
        ({"stop": [1, 0]}, ParameterError, "trans and stop", "sums of 2, 1"),
        ({"start": [2, -1]}, ParameterError, "start", "array([ 2., -1.])"),
        ({"words": ["x", "x"]}, ParameterError, "words", "['x', 'x']"),
        ({"words": [1]}, ParameterError, "words", "[1]"),
        ({"labels": ["A", "A"]}, LabelError, "labels", "'A' twice"),
    ],
    ids=str,
)
def test_invalid_probabilities(change, error, parameter, found):
    good = {"start": [1, 0], "trans": [[0, 1], [1, 0]], "emit": [[1], [1]]}
    good |= {"labels": "AB", "words": ["x"]}
    with pytest.raises(error) as caught:
        tl.HMM.from_probs(**{**good, **change})
    assert (caught.value.parameter, caught.value.found) == (parameter, found)


def test_invalid_sentences():
    hmm = tl.HMM().fit(X, Y)
    with pytest.raises(SentenceError) as caught:
        hmm.predict([["they"], [3]])
    assert (caught.value.where, caught.value.found) == ("sentence 1, token 0", "3, of type int")
    with pytest.raises(LabelError) as caught:
        hmm.log_joint(["they"], ["N", "V"])
    assert (caught.value.expected, caught.value.found) == ("1 label", "2")
    with pytest.raises(ParameterError) as caught:
        hmm.feature_vector(["unheard"], ["N"])
    assert "'unheard'" in caught.value.found
    with pytest.raises(LabelError) as caught:
        hmm.feature_vector(["they"], ["N", "V"])
    assert caught.value.found == "1 words and 2 labels"
    with pytest.raises(ParameterError) as caught:
        tl.HMM(order=2).fit(X, Y).as_vector()
    assert caught.value.where == "HMM.as_vector"
    with pytest.raises(ParameterError) as caught:
        tl.HMM().fit(X, Y, sample_weight=[0, 0, 0, 0])
    assert caught.value.parameter == "sample_weight"


# ---- old names ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "emissions"),
    [
        ({"rare": 3, "unknown": 0.1}, tl.emissions.Words(rare=3, unknown=0.1)),
        ({"emission_smoothing": 0.5}, tl.emissions.Words(smoothing=0.5)),
        ({"max_suffix": 0, "fold_case": False}, tl.emissions.Words(max_suffix=0, fold_case=False)),
        ({"lexical": 1, "min_count": 2}, tl.emissions.Words(lexical=1, min_count=2)),
        (
            {"emissions": ["word", "shape"], "emission_smoothing": 0.5, "lexical": 2},
            FEATURES(
                ["word", "shape"],
                smoothing=0.5,
                words=tl.emissions.Words(smoothing=0.5, lexical=2),
            ),
        ),
        ({"emissions": ["shape"], "emission_smoothing": 0.5}, FEATURES(["shape"], smoothing=0.5)),
    ],
    ids=str,
)
def test_old_names_of_word_options_warn_and_work(old, emissions, tmp_path):
    with pytest.warns(DeprecationWarning, match=r"emissions\.Words\("):
        model = tl.HMM(**old)
    model.fit(X, Y).save(tmp_path / "m")
    new = tl.HMM(emissions=emissions).fit(X, Y)
    assert_array_equal(model.trellis(X).emit, new.trellis(X).emit)
    assert model.digest() == new.digest()
    loaded = tl.load(tmp_path / "m")
    if "shape" not in str(old):
        assert loaded.emissions == emissions
    assert_array_equal(loaded.trellis(X).emit, new.trellis(X).emit)
    changed = tl.HMM(emissions=old.get("emissions"))
    changed.set_params(**old).fit(X, Y)
    assert changed.digest() == new.digest()


def test_old_names_beside_an_emission():
    with pytest.warns(DeprecationWarning, match="moved"):
        model = tl.HMM(emissions=tl.emissions.Words(), rare=3)
    with pytest.raises(ParameterError) as caught:
        model.fit(X, Y)
    assert caught.value.parameter == "rare"
    with pytest.warns(DeprecationWarning, match="moved"):
        model = tl.HMM(emissions=["shape"], lexical=2)
    with pytest.raises(ParameterError) as caught:
        model.fit(X, Y)
    assert caught.value.parameter == "lexical"


def test_parameters_of_the_emission_are_reached_by_name():
    words = tl.emissions.Words(rare=3)
    model = tl.HMM(emissions=words).set_params(order=2, emissions__rare=5, emissions__lexical=1)
    assert (model.order, model.emissions) == (2, tl.emissions.Words(rare=5, lexical=1))
    assert words == tl.emissions.Words(rare=3)  # not changed in place
    assert tl.HMM().set_params(emissions__rare=5).emissions == tl.emissions.Words(rare=5)
    shorthand = tl.HMM(emissions=["shape"]).set_params(emissions__smoothing=0.5)
    assert shorthand.emissions == FEATURES(["shape"], smoothing=0.5)
    with pytest.raises(ParameterError) as caught:
        tl.HMM().set_params(emissions__depth=5)
    assert caught.value.parameter == "emissions__depth"


def test_emissions_that_are_the_word_alone():
    assert tl.HMM(emissions=["word"]).fit(X, Y).digest() == tl.HMM().fit(X, Y).digest()


def test_parameters_are_not_changed_by_fitting():
    words = tl.emissions.Words(lexical=2)
    model = tl.HMM(emissions=words).fit(X, Y)
    assert model.emissions is words
    assert words == tl.emissions.Words(lexical=2)
    assert repr(model) == "HMM(emissions=Words(lexical=2))"
    assert type(model.emission_) is tl.emissions.LexicalWords


def test_words_may_be_of_a_subclass_of_str():
    hmm = tl.HMM().fit(X, Y)
    assert hmm.predict([np.array(["they", "fish"])]) == hmm.predict([["they", "fish"]])
    assert hmm.predict([list(np.array(["they", "fish"]))]) == hmm.predict([["they", "fish"]])


@pytest.mark.parametrize(
    "model",
    [tl.HMM(), hmm_of_words(lexical=1), tl.HMM(emissions=["word", "shape"]), tl.MostFrequentTag()],
    ids=repr,
)
def test_damaged_files_are_refused(model, tmp_path):
    from tagloom import storage

    header, arrays = storage.read_bytes(model.fit(X, Y).to_bytes())
    storage.write(tmp_path / "good", header, arrays)
    assert tl.load(tmp_path / "good").words_ == model.words_

    def look(loaded):
        return loaded.words_, getattr(loaded, "features_", None) and list(loaded.features_.names)

    def refuses(header, arrays):
        storage.write(tmp_path / "bad", header, arrays)
        with pytest.raises(ModelFileError) as caught:
            look(tl.load(tmp_path / "bad"))
        return caught.value.where in (str(tmp_path / "bad"), "the names")

    for name, array in arrays.items():
        assert refuses(header, {k: v for k, v in arrays.items() if k != name})
        if name != "words":  # one word less is a model too
            assert refuses(header, {**arrays, name: array[:-1]})
        wrong = array.astype(float) * np.nan if array.dtype.kind == "f" else array + 100
        if not name.endswith("keys"):
            assert refuses(header, {**arrays, name: wrong.astype(array.dtype)})
    assert refuses({**header, "labels": ["A", "A"]}, arrays)
    assert refuses({**header, "labels": [1, 2, 3, 4, 5]}, arrays)
    assert refuses({**header, "params": {"depth": 3}}, arrays)
    if "emission" not in header:
        templates = {**header["features"], "templates": ["word"]}
        assert refuses({**header, "features": templates}, arrays)
        return
    assert refuses({**header, "order": 2}, arrays)
    assert refuses({**header, "order": "1"}, arrays)
    emission = header["emission"]
    for change in (
        {"kind": "Nobody"},
        {"kind": None},
        {"kind": ["Words"]},
        {"kind": "Words" if emission["kind"] == "Features" else "Features"},
        {"params": None},
        {"params": {"depth": 3}},
        {"params": {**emission["params"], "smoothing": -1}},
        {"labels": list("VWXYZ"), "words": None, "linear": None},
        {"features": {}, "words": {}, "linear": {}},
    ):
        assert refuses({**header, "emission": emission | change}, arrays)
    for wrong in (None, 3, [], {}):
        assert refuses({**header, "emission": wrong}, arrays)


def test_the_model_is_finished_when_fit_returns():
    sentences, labels = copy.deepcopy(X), copy.deepcopy(Y)
    expected = tl.HMM().fit(X, Y)
    model = tl.HMM().fit(sentences, labels)
    model.set_params(emissions=tl.emissions.Words(smoothing=5.0, min_count=3))
    for row in sentences + labels:
        row[:] = ["changed"] * len(row)
    again = pickle.loads(pickle.dumps(model))
    for one in (model, copy.copy(model), again):
        assert_array_equal(one.table_.rows, expected.table_.rows)
        assert one.words_ == expected.words_


def test_a_subclass_may_take_other_parameters():
    class Plain(tl.HMM):
        def __init__(self, max_suffix=0, **options):
            super().__init__(**options, emissions=tl.emissions.Words(max_suffix=max_suffix))

    expected = hmm_of_words(k=0.5, max_suffix=0).fit(X, Y).predict(X)
    assert Plain(k=0.5).fit(X, Y).predict(X) == expected


def test_attributes_of_a_model_that_is_not_fitted():
    for name in ("table_", "chain_", "emission_", "log_start_", "words_"):
        with pytest.raises(tl.errors.NotFittedError):
            getattr(tl.HMM(), name)
        assert not hasattr(tl.HMM(), name)


def test_a_model_without_words():
    hmm = tl.HMM(emissions=["shape", "suffix(1)"]).fit(X, Y)
    assert (hmm.words_, hmm.feature_weights()) == ([], [])
    assert not hasattr(hmm, "table_")
    assert hmm.features_ is hmm.emission_.linear


def test_many_threads_use_a_new_model_at_once():
    expected = tl.HMM().fit(X, Y).predict(X)
    for _ in range(20):
        model, found = tl.HMM().fit(X, Y), []
        begin = threading.Barrier(4)

        def work(model=model, found=found, begin=begin):
            begin.wait()
            found.append(model.predict(X))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [expected] * 4


def test_the_fitted_state_stays_when_parameters_change(tmp_path):
    hmm = tl.HMM(order=2).fit(X, Y)
    expected = hmm.predict_nbest(X, 2)
    hmm.set_params(order=1, stop=False).save(tmp_path / "m")
    assert hmm.predict_nbest(X, 2) == expected
    assert tl.load(tmp_path / "m").predict_nbest(X, 2) == expected


# ---- looking inside ----------------------------------------------------------------------------


def test_scores_are_listed_by_name():
    hmm = tl.HMM(**PLAIN).fit(X, Y)
    best = hmm.feature_weights(label="V")
    assert [(w.attribute, w.label) for w in best] == [("word=fish", "V"), ("word=can", "V")]
    assert [w.weight for w in best] == pytest.approx([np.log(2 / 3), np.log(1 / 3)])
    assert {w.attribute for w in hmm.feature_weights("word=o*")} == {"word=of", "word=old"}
    assert hmm.transition_features_["P", "N"] == pytest.approx(0)
    assert ("P", "V") not in hmm.transition_features_
    with pytest.raises(LabelError) as caught:
        hmm.feature_weights(label="Q")
    assert (caught.value.found, caught.value.expected) == ("'Q'", "one of D, J, N, P, V")


DATA = os.environ.get("TAGLOOM_DATA")


@pytest.mark.skipif(not DATA, reason="set TAGLOOM_DATA to the folder of the corpora")
@pytest.mark.parametrize(
    ("model", "upos", "xpos"),
    [
        (tl.MostFrequentTag(), 0.89, 0.87),
        (tl.HMM(), 0.92, 0.92),
        (tl.HMM(2), 0.928, 0.929),
        (hmm_of_words(2, lexical=3), 0.94, 0.936),
    ],
    ids=repr,
)
def test_accuracy_on_real_text(model, upos, xpos):
    for label, least in (("upos", upos), ("xpos", xpos)):
        folder = f"{DATA}/ud-english-ewt"
        train = tl.read(f"{folder}/train.conllu", label=label)
        assert model.fit(train).score(tl.read(f"{folder}/dev.conllu", label=label)) > least
