"""N-gram models in use: scores, next words, text, smaller models, mixtures, files."""

import copy
import itertools
import math
import pickle
import random

import numpy as np
import pytest

import tagloom as tl
from plain_ngrams import END, START, UNKNOWN, PlainModel
from tagloom import storage
from tagloom.errors import (
    ModelFileError,
    NotFittedError,
    ParameterError,
    SentenceError,
    TagloomError,
)
from tagloom.language import interpolate
from tagloom.language.ngrams import SMOOTHINGS

TEXT = [s.split() for s in ["a b c a", "a b", "b c c a", "a a b c", "c", "a b c"]]


@pytest.fixture(scope="module")
def english():
    return tl.datasets.load("english", "train")


@pytest.fixture(scope="module")
def trigrams(english):
    return tl.NGramModel(3).fit(english)


# ---- scores ----------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_scores_of_sentences(smoothing):
    model = tl.NGramModel(3, smoothing=smoothing).fit(TEXT)
    plain = PlainModel(TEXT, 3, smoothing)
    for words in itertools.product(["a", "b", "z"], repeat=3):
        known = [w if w != "z" else UNKNOWN for w in words]
        steps = list(zip([*known, END], itertools.count(), strict=False))
        expected = [math.log(plain.prob(w, [START, *known][: t + 1])) for w, t in steps]
        scores = model.score_tokens(words)
        np.testing.assert_allclose(scores.log_probs, expected, rtol=1e-6)
        assert scores.tokens == [*words, END]
        assert scores.is_unknown.tolist() == [*(w == "z" for w in words), False]
        assert model.log_prob(words) == pytest.approx(sum(expected), rel=1e-6)
        inside = [math.log(plain.prob(w, known[:t])) for w, t in steps]
        assert model.log_prob(words, start=False) == pytest.approx(sum(inside), rel=1e-6)
        assert model.log_prob(words, end=False) == pytest.approx(sum(expected[:-1]), rel=1e-6)


def test_lengths_of_the_ngrams_found():
    model = tl.NGramModel(3).fit(TEXT)
    # "a b c" from the start; then d is unknown, and nothing follows it.
    assert model.score_tokens(["a", "b", "c", "d", "a"]).lengths.tolist() == [2, 3, 3, 1, 1, 2]


def test_batches_and_threads_give_the_same_scores(trigrams, english):
    one_by_one = [trigrams.log_prob(sentence) for sentence in english[:300]]
    for n_threads in (1, 3):
        model = trigrams._with_tables(trigrams.tables_, {}).set_params(n_threads=n_threads)
        np.testing.assert_array_equal(model.log_probs(english[:300]), one_by_one)
    assert trigrams.log_probs([]).shape == (0,)
    assert trigrams.log_prob([]) == trigrams.score_tokens([]).log_probs[0]


def test_perplexity_counts_ends_and_leaves_out_unknown_words(trigrams):
    scores = [trigrams.score_tokens(words) for words in (["The", "zzz", "."], ["Yes"])]
    log_probs = np.concatenate([s.log_probs for s in scores])
    is_known = ~np.concatenate([s.is_unknown for s in scores])
    assert not is_known.all()
    X = [["The", "zzz", "."], ["Yes"]]
    assert trigrams.perplexity(X) == pytest.approx(math.exp(-log_probs.mean()), rel=1e-12)
    expected = math.exp(-log_probs[is_known].mean())
    assert trigrams.perplexity(X, unknown=False) == pytest.approx(expected, rel=1e-12)
    assert trigrams.score(X) == pytest.approx(-math.log(trigrams.perplexity(X)), rel=1e-12)
    with pytest.raises(SentenceError):
        trigrams.perplexity([])


# ---- words and text --------------------------------------------------------------------------


def test_next_words_are_the_most_probable(trigrams):
    probs = trigrams.next_probs(["one", "of"])
    best = trigrams.next_words(["one", "of"], n=5)
    assert best[0].word == "the"
    assert [prob for _, prob in best] == sorted(probs, reverse=True)[:5]
    by_word = dict(zip(trigrams.vocabulary_, probs, strict=True))
    assert all(by_word[word] == prob for word, prob in best)
    everything = trigrams.next_words([], n=10**6)
    assert len(everything) == len(trigrams.vocabulary_) - 1  # all but <s>


def test_generated_text_follows_the_probabilities():
    model = tl.NGramModel(2, smoothing="witten-bell", closed=True).fit(TEXT)
    rng = np.random.default_rng(0)
    drawn = [tuple(model.generate(random_state=rng)) for _ in range(4000)]
    for words in [(), ("a", "b"), ("c",), ("a", "b", "c")]:
        expected = math.exp(model.log_prob(words))
        deviation = math.sqrt(expected * (1 - expected) / len(drawn))
        assert abs(drawn.count(words) / len(drawn) - expected) < 4 * deviation, words


def test_generate(trigrams):
    one = trigrams.generate(["The"], random_state=3)
    assert one[0] == "The"
    assert one == trigrams.generate(["The"], random_state=3)
    assert len(trigrams.generate(max_tokens=5, random_state=1)) <= 5
    assert trigrams.generate(["The"], max_tokens=0) == ["The"]
    greedy = trigrams.generate(max_tokens=3, temperature=1e-3, random_state=0)
    history = []
    for word in greedy:
        assert word == trigrams.next_words(history, n=1)[0].word
        history.append(word)
    rare = tl.NGramModel(2, min_word_count=5).fit(TEXT)
    assert UNKNOWN not in rare.generate(random_state=0, max_tokens=500)


@pytest.mark.parametrize(("unit", "kind"), [("letters", str), ("bytes", bytes)])
def test_letters_and_bytes(unit, kind):
    texts = ["banana", "bändanä", "banana split"]
    model = tl.NGramModel(4, unit=unit).fit(texts)
    assert isinstance(model.generate("ban", random_state=0), kind)
    assert model.log_prob("banana") > model.log_prob("ananab")
    tokens = model.score_tokens("ä").tokens
    assert tokens == (["ä", END] if unit == "letters" else ["<0xC3>", "<0xA4>", END])
    if unit == "bytes":
        assert model.log_prob("ä") == model.log_prob("ä".encode())
        assert not model.score_tokens(bytes(range(256))).is_unknown.any()
    again = tl.load(model.to_bytes())
    assert again.log_probs(texts).tolist() == model.log_probs(texts).tolist()


# ---- smaller models ----------------------------------------------------------------------------


def divergence(one, other, words, length):
    """KL divergence of two models over all sentences of up to a length, by enumeration."""
    total = 0.0
    for n in range(length + 1):
        for sentence in itertools.product(words, repeat=n):
            p = one.log_prob(sentence)
            total += math.exp(p) * (p - other.log_prob(sentence))
    return total


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_pruned_models_sum_to_1(smoothing, english):
    model = tl.NGramModel(4, smoothing=smoothing).fit(english[:200])
    previous = sum(model.ngram_counts_)
    for threshold in (1e-7, 1e-5, 1e-3):
        small = model.prune(threshold)
        assert small.training_["pruned"] == threshold
        for tokens in english.tokens[:30]:
            assert small.next_probs(tokens[:3]).sum() == pytest.approx(1, abs=1e-9)
        assert sum(small.ngram_counts_) < previous
        previous = sum(small.ngram_counts_)
        assert tl.load(small.to_bytes()).digest() == small.digest()
    assert model.prune(0).ngram_counts_[0] == model.ngram_counts_[0]


def test_pruning_drops_what_matters_least():
    """The loss that Stolcke's formula gives one n-gram is the divergence of the whole models."""
    model = tl.NGramModel(2, smoothing="absolute", closed=True).fit(TEXT)
    sizes = model.ngram_counts_
    # Find a threshold that drops exactly one bigram: the divergence per history must then be what
    # the threshold promises, P(h) KL(p(. | h), p'(. | h)) <= log(1 + threshold).
    thresholds = np.geomspace(1e-6, 1e-1, 300)
    small, threshold = next(
        (small, t) for t in thresholds if (small := model.prune(t)).ngram_counts_[1] == sizes[1] - 1
    )
    losses = []
    for history, start in [([], True), (["a"], False), (["b"], False), (["c"], False)]:
        p, q = (m.next_probs(history, start=start) for m in (model, small))
        is_there = p > 0
        kl = float(np.sum(p[is_there] * np.log(p[is_there] / q[is_there])))
        weight = model.next_probs([], start=False)
        index = model.vocabulary_.index(history[0]) if history else model.vocabulary_.index(END)
        losses.append(weight[index] * kl)
    changed = [loss for loss in losses if loss > 1e-15]
    assert len(changed) == 1
    assert math.expm1(changed[0]) <= threshold
    step = thresholds[1] / thresholds[0]
    assert math.expm1(changed[0]) >= threshold / step**2
    assert divergence(model, small, "abc", 6) > 0


def test_cut_offs_make_smaller_models(english):
    sizes = [
        tl.NGramModel(3, min_counts=counts).fit(english).ngram_counts_
        for counts in (1, [1, 1, 2], [1, 2], 2)
    ]
    assert sizes[0] == [2165, 5909, 7031]
    assert sizes[1][:2] == sizes[0][:2]
    assert sizes[1][2] < 1000
    assert sizes[2] == sizes[3]  # single words are never cut off
    assert sizes[2][1] < sizes[1][1]


# ---- mixtures ------------------------------------------------------------------------------------


def test_mixtures(english):
    a = tl.NGramModel(3).fit(english[:200])
    b = tl.NGramModel(3, smoothing="witten-bell").fit(english[150:400])
    mixed = interpolate(a, b, 0.3)
    assert set(mixed.vocabulary_) == {*a.vocabulary_, *b.vocabulary_}
    for tokens in english.tokens[:10]:
        for n in range(3):
            assert mixed.next_probs(tokens[:n]).sum() == pytest.approx(1, abs=1e-9)
    # Every n-gram of either model has exactly the mixed probability.
    n_compared = 0
    for tokens in english.tokens[150:200]:
        score = mixed.score_tokens(tokens)
        if not (score.lengths == 3).any():
            continue
        p_a, p_b = (np.exp(m.score_tokens(tokens).log_probs) for m in (a, b))
        expected = 0.3 * p_a + 0.7 * p_b
        np.testing.assert_allclose(
            np.exp(score.log_probs)[score.lengths == 3], expected[score.lengths == 3], rtol=1e-9
        )
        n_compared += int((score.lengths == 3).sum())
    assert n_compared > 500
    assert interpolate(a, b, 1.0).log_prob(english.tokens[0]) == pytest.approx(
        a.log_prob(english.tokens[0]), rel=1e-9
    )


def test_the_weight_of_a_mixture_is_estimated(english):
    a = tl.NGramModel(2).fit(english[:300])
    b = tl.NGramModel(2).fit([["xyzzy", "plugh"]] * 5)
    dev = english[300:]
    weight = interpolate(a, b, dev=dev).training_["weight"]
    assert 0.7 < weight < 0.9
    perplexities = [interpolate(a, b, weight + d).perplexity(dev) for d in (-0.1, 0, 0.1)]
    assert min(perplexities) == perplexities[1]
    # A mixture of a model with itself: no weight is better than another, and none is preferred.
    assert interpolate(a, a, 0.25, dev=dev).training_["weight"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda a: interpolate(a, tl.NGramModel(3).fit(TEXT)), "b"),
        (lambda a: interpolate(a, tl.NGramModel(2, unit="letters").fit(["ab"])), "b"),
        (lambda a: interpolate(a, "b"), "b"),
        (lambda a: interpolate(a, a, 1.5), "weight"),
        (lambda a: interpolate(a, a, None), "weight"),
        (lambda a: a.prune(-1), "threshold"),
        (lambda a: a.next_words(["a"], n=0), "n"),
        (lambda a: a.generate(max_tokens=-1), "max_tokens"),
        (lambda a: a.generate(temperature=0), "temperature"),
        (lambda a: tl.NGramModel.from_arpa("x", unit="word"), "unit"),
    ],
)
def test_arguments_out_of_range(make, parameter):
    with pytest.raises(ParameterError) as error:
        make(tl.NGramModel(2).fit(TEXT))
    assert error.value.parameter == parameter


@pytest.mark.parametrize(
    "method",
    [
        "log_prob",
        "log_probs",
        "score_tokens",
        "perplexity",
        "next_words",
        "generate",
        "prune",
        "to_arpa",
        "save",
        "to_bytes",
    ],
)
def test_not_fitted(method):
    with pytest.raises(NotFittedError):
        getattr(tl.NGramModel(), method)(*([] if method == "to_bytes" else [["a"]]))


@pytest.mark.parametrize("sentence", ["the boat", b"the boat", 3, ["the", 3], ["the", None]])
def test_sentences_that_are_none(sentence, trigrams):
    with pytest.raises(SentenceError):
        trigrams.log_prob(sentence)


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_saved_and_loaded(smoothing, english, tmp_path):
    model = tl.NGramModel(3, smoothing=smoothing, min_counts=(1, 1, 2), n_threads=1).fit(english)
    model.save(tmp_path / "small.tagloom")
    again = tl.load(tmp_path / "small.tagloom")
    assert isinstance(again, tl.NGramModel)
    assert again.get_params() == {**model.get_params(), "min_counts": [1, 1, 2]}
    assert again.training_ == model.training_
    assert again.discounts_ == model.discounts_
    assert again.vocabulary_ == model.vocabulary_
    test = tl.datasets.load("english", "test")
    expected = model.log_probs(test).tolist()
    for one in (again, pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)):
        assert one.log_probs(test).tolist() == expected
        assert one.digest() == model.digest()
    about = again.describe()
    assert about["model"] == "NGramModel"
    assert about["ngrams"] == model.ngram_counts_
    with pytest.raises(ModelFileError):
        tl.CRF.load(tmp_path / "small.tagloom")


def changes(header, arrays):
    """Ways to make a well-formed container that holds a wrong model."""
    rng = random.Random(0)
    for name in header:
        if name not in ("params", "training", "ngrams", "order"):
            for value in (None, 0.5, "x", [3], {"a": 1}):
                yield f"{name} = {value!r}", {**header, name: value}, arrays
        yield f"no {name}", {k: v for k, v in header.items() if k != name}, arrays
    for name, array in arrays.items():
        yield f"no {name}", header, {k: v for k, v in arrays.items() if k != name}
        with_other_type = array.astype(np.float32 if array.dtype == np.float64 else np.float64)
        is_float = array.dtype.kind == "f"
        for changed in (array[:0], array[:-1], np.append(array, array[-1:]), with_other_type):
            yield f"{name} {changed.shape} {changed.dtype}", header, {**arrays, name: changed}
        yield f"{name} 2-d", header, {**arrays, name: array[None]}
        if name == "ngrams.vocabulary":
            continue
        for _ in range(40):
            changed = array.copy()
            at = rng.randrange(len(array))
            values = [np.nan, np.inf, 1.0] if is_float else [-1, 0, 1, 5, 10**6, 2**31 - 1]
            changed[at] = rng.choice(values)
            if not np.array_equal(changed, array, equal_nan=True):
                yield f"{name}[{at}] = {changed[at]}", header, {**arrays, name: changed}


def test_hostile_files_are_refused_or_harmless(tmp_path):
    model = tl.NGramModel(3).fit(TEXT)
    header, arrays = storage.read_bytes(model.to_bytes())
    errors, n_read = {}, 0
    for what, changed_header, changed_arrays in changes(header, arrays):
        data = storage.to_bytes(changed_header, changed_arrays)
        try:
            again = tl.load(data)
        except TagloomError as error:
            errors[what] = error
        else:  # another valid model, such as one with another probability
            n_read += 1
            again.perplexity(TEXT)
            again.next_words(["a", "b"])
            again.generate(random_state=0, max_tokens=5)
    assert {type(error) for error in errors.values()} == {ModelFileError}
    assert not any("\n" in str(error) for error in errors.values())
    assert len(errors) > 150
    assert n_read < len(errors) / 3


def test_words_of_a_hostile_file():
    model = tl.NGramModel(2).fit(TEXT)
    header, stored = storage.read_bytes(model.to_bytes())
    arrays = dict(stored)
    words = [*model.vocabulary_]
    for wrong in (
        words[:-1],
        [*words, "x"],
        [*words[:-1], words[-2]],
        ["a", *words[1:]],
        [*words[:3], *reversed(words[3:])],
    ):
        arrays["ngrams.vocabulary"] = storage.pack_strings(wrong)
        if wrong[:3] == words[:3] and len(set(wrong)) == len(words):
            assert tl.load(storage.to_bytes(header, arrays)).vocabulary_ == tuple(wrong)
            continue
        with pytest.raises(ModelFileError):
            tl.load(storage.to_bytes(header, arrays))
