"""What is counted of words, beside a plain count in Python."""

from collections import Counter, defaultdict

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom import _native
from tagloom.errors import FeatureError, SentenceError
from tagloom.scores.markov import count_ngrams
from tagloom.scores.tables import backoff_templates
from tagloom.scores.word_counts import WordStats, WordTokens, add_rows, count_words

# Capitals of every kind: two letters for one (ß, ŉ), another ASCII letter (the Kelvin sign), title
# case (ǅ), sigma at the end, two spellings of one capital (ΐ); then digits, signs, nothing.
TEXT = (
    "the The THE can Can fish fishing FISH b-52 1,000 3 . x X '' Straße STRASSE straße ŉx ʼNx "
    "\u212a K k ǆa ǅa Ǆa ΣΑΣ σας σασ \u0390a \u03b9\u0308\u0301a İz i̇z naïve Naïve 日本 😀y"
)


def make(seed):
    draw = np.random.default_rng(seed)
    words = [*TEXT.split(), ""]
    X = [draw.choice(words, size=n).tolist() for n in draw.integers(1, 12, size=30)]
    y = [draw.choice(["A", "B", "C"], size=len(row)).tolist() for row in X]
    return X, y, draw.integers(0, 4, size=len(X)) / 2


def word_stats(X, y, weight, max_suffix):
    """Count labelled sentences, each with its weight."""
    data = WordTokens.read(backoff_templates(max_suffix), X)
    labels = np.array(["ABC".index(label) for row in y for label in row], dtype=np.int32)
    weight = None if weight is None else np.repeat(weight, np.diff(data.offsets))
    return WordStats.count(data, labels, weight, 3)


def capitalise(word):
    return word[:1].upper() + word[1:]


@pytest.mark.parametrize("min_count", [1, 8])
@pytest.mark.parametrize("rare", [1, 6])
@pytest.mark.parametrize("max_suffix", [0, 3])
@pytest.mark.parametrize("fold_case", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_words_are_counted_as_in_python(min_count, rare, max_suffix, fold_case, weighted):
    X, y, weight = make(seed=min_count + rare + max_suffix)
    if not weighted:
        weight = np.ones(len(X))
    found = count_words(
        word_stats(X, y, weight if weighted else None, max_suffix),
        "ABC",
        min_count=min_count,
        rare=rare,
        fold_case=fold_case,
    )
    times, counts = Counter(), defaultdict(lambda: np.zeros(3))
    for row, labels, w in zip(X, y, weight, strict=True):
        for word, label in zip(row, labels, strict=True):
            times[word] += 1
            counts[word]["ABC".index(label)] += w
    total = {word: own.sum() for word, own in counts.items()}
    known = [w for w in counts if max(times[w], total[w]) >= min_count and total[w] > 0]
    some = [w for w in counts if 0 < total[w] <= rare] or [w for w in counts if total[w] > 0]

    spellings, parent = defaultdict(lambda: np.zeros(3)), {"bias": "bias"}
    chains = {word: list(backoff_templates(max_suffix).extract([word])[0]) for word in counts}
    for word in some:
        for before, name in zip(["bias", *chains[word]], chains[word][:-1], strict=False):
            spellings[name] += counts[word]
            parent[name] = before
    groups = defaultdict(lambda: np.zeros(3))
    for word in known if fold_case else []:
        groups[word.lower()] += counts[word]
    variants = {
        variant: own
        for small, own in groups.items()
        for variant in (small, capitalise(small))
        if variant not in counts
    }

    names = list(found.names)
    S = len(found.spelling_counts)
    assert dict(zip(names[:S], found.spelling_counts.tolist(), strict=True)) == {
        name: own.tolist() for name, own in spellings.items()
    }
    assert {name: names[found.parent[i]] for i, name in enumerate(names[:S])} == parent
    assert [names[a] for a in found.words] == [f"word={w}" for w in known]
    np.testing.assert_array_equal(found.word_counts, [counts[w] for w in known])
    written = [names[a].removeprefix("word=") for a in found.variants]
    assert sorted(written) == sorted(variants)
    np.testing.assert_array_equal(
        found.variant_counts, np.reshape([variants[w] for w in written], (len(written), 3))
    )
    twins = [groups[w.lower()] - counts[w] if fold_case else np.zeros(3) for w in known]
    np.testing.assert_array_equal(found.twin_counts, twins)
    for words, attributes in ((known, found.words), (written, found.variants)):
        for word, a in zip(words, attributes.tolist(), strict=True):
            own = list(backoff_templates(max_suffix).extract([word])[0])[:-1]
            assert names[found.parent[a]] == [name for name in own if name in spellings][-1]
    np.testing.assert_array_equal(found.spelling, found.parent[found.words])
    assert [known[w] if w >= 0 else None for w in found.known_number] == [
        word if word in known else None for word in counts
    ]


@pytest.mark.parametrize("weighted", [True, False])
def test_probabilities_of_labels_are_added_up_as_in_python(weighted):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 6, size=50).astype(np.int32)
    gamma, weight = rng.dirichlet(np.ones(4), 50), rng.uniform(size=50)
    expected = np.zeros((7, 4))
    for t, i in enumerate(ids):
        for y in range(4):
            expected[i, y] += gamma[t, y] * (weight[t] if weighted else 1)
    found = add_rows(ids, gamma, weight if weighted else None, 7, 4)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    labels = gamma.argmax(axis=1).astype(np.int32)
    hard = add_rows(ids, labels, weight if weighted else None, 7, 4)
    np.testing.assert_allclose(
        hard, add_rows(ids, np.eye(4)[labels], weight if weighted else None, 7, 4), rtol=1e-12
    )
    assert add_rows(ids[:0], gamma[:0], None, 3, 4).tolist() == np.zeros((3, 4)).tolist()
    assert add_rows(ids[:0], labels[:0], None, 3, 4).tolist() == np.zeros((3, 4)).tolist()


def test_words_are_listed_in_the_order_of_their_numbers():
    X, _, _ = make(seed=4)
    data = WordTokens.read(backoff_templates(2), X)
    tokens = [word for row in X for word in row]
    assert data.words == list(dict.fromkeys(tokens))
    assert [data.words[i] for i in data.ids] == tokens


def test_statistics_of_different_sentences_add_up():
    X, y, weight = make(seed=5)
    whole = word_stats(X, y, weight, 3)
    merged = word_stats(X[:9], y[:9], weight[:9], 3).merge(word_stats(X[9:], y[9:], weight[9:], 3))
    assert merged.data.words == whole.data.words
    np.testing.assert_array_equal(merged.counts, whole.counts)
    np.testing.assert_array_equal(merged.times, whole.times)
    twice = whole.merge(whole)
    np.testing.assert_array_equal(twice.counts, 2 * whole.counts)


def test_sums_that_are_integers_but_for_rounding():
    """A word whose three labels have 0.1, 0.2 and 0.7 occurs once."""
    data = WordTokens.read(backoff_templates(0), [["once", "twice", "twice"]])
    stats = WordStats.count(data, np.array([[0.1, 0.2, 0.7]] * 3), None, 3)
    stats.counts[0] *= 1 + 1e-15
    assert stats.counts[0].sum() > 1
    counted = count_words(stats, "ABC", min_count=2, rare=1, fold_case=True)
    assert counted.n_once == pytest.approx(1)
    assert [counted.names[a] for a in counted.words] == ["word=twice"]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("weighted", [True, False])
def test_ngrams_are_counted_as_in_python(k, weighted):
    _, y, weight = make(seed=k)
    if not weighted:
        weight = np.ones(len(y))
    expected = np.zeros((4,) * (k + 1))
    for row, w in zip(y, weight, strict=True):
        path = [3] * k + ["ABC".index(label) for label in row] + [3]
        for t in range(k, len(path)):
            expected[tuple(path[t - k : t + 1])] += w
    gold = np.array(["ABC".index(label) for row in y for label in row], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, y)])
    found = count_ngrams(gold, offsets, weight if weighted else None, 3, k)
    np.testing.assert_array_equal(found, expected)


GOLD, OFFSETS = np.array([0, 1, 2], np.int32), np.array([0, 1, 3])


@pytest.mark.parametrize(
    ("gold", "offsets", "weight"),
    [
        (GOLD + 1, OFFSETS, None),
        (GOLD - 1, OFFSETS, None),
        (GOLD, OFFSETS[:2], None),
        (GOLD, OFFSETS[:0], None),
        (GOLD, np.array([0, 4, 3]), None),
        (GOLD, OFFSETS, np.ones(3)),
    ],
)
def test_labels_that_fit_no_sentences_are_refused(gold, offsets, weight):
    with pytest.raises(ValueError, match="matching shapes"):
        _native.count_ngrams(gold, offsets, weight, 3, 1)
    with pytest.raises(ValueError, match="matching shapes"):
        _native.count_words(GOLD, gold, offsets, weight, 3, 3)


@pytest.mark.parametrize(
    ("ids", "values", "weight"),
    [
        (GOLD[:2], np.ones((3, 2)), None),
        (GOLD, np.ones((2, 2)), None),
        (GOLD + 1, np.ones((3, 2)), None),
        (GOLD - 1, np.ones((3, 2)), None),
        (GOLD, np.ones((3, 2)), np.ones(2)),
    ],
)
def test_rows_that_do_not_fit_their_numbers(ids, values, weight):
    with pytest.raises(ValueError, match="matching shapes"):
        _native.add_rows(ids, values, weight, 3)


@pytest.mark.parametrize("words", [GOLD[:2], GOLD + 1, GOLD - 1])
def test_words_that_fit_no_labels_are_refused(words):
    with pytest.raises(ValueError, match="words must"):
        _native.count_words(words, GOLD, OFFSETS, None, 3, 3)


@pytest.mark.parametrize(("token", "found"), [(7, "7, of type int"), (None, "None")])
def test_a_token_that_is_not_a_str(token, found):
    with pytest.raises(SentenceError) as caught:
        tl.HMM().fit([["they"], ["can", token]], [["N"], ["V", "V"]])
    assert (caught.value.where, caught.value.found) == ("sentence 1, token 1", found)


def test_a_token_with_half_a_character():
    with raises(FeatureError, where="sentence 1, token 1", message="lone surrogate"):
        tl.HMM().fit([["they"], ["can", "\ud800"]], [["N"], ["V", "V"]])


@pytest.mark.parametrize(("Y", "k"), [(2**16 - 1, 3), (2**41, 1), (5, -1)])
def test_more_ngrams_than_memory_holds_are_refused(Y, k):
    with pytest.raises(ValueError, match=r"n-grams|histories"):
        _native.count_ngrams(np.zeros(3, np.int32), np.array([0, 3]), None, Y, k)
