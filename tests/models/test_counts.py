"""What is counted of words, beside a plain count in Python."""

from collections import Counter, defaultdict

import numpy as np
import pytest

import tagloom as tl
from tagloom import _native
from tagloom.errors import SentenceError
from tagloom.models.counts import count_ngrams, count_words, read_labelled
from tagloom.scores.tables import chain

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
    given = weight if weighted else None
    read = read_labelled(X, y, given, labels=None, max_suffix=max_suffix)
    found = count_words(read, min_count=min_count, rare=rare, fold_case=fold_case)
    times, counts = Counter(), defaultdict(lambda: np.zeros(3))
    for row, labels, w in zip(X, y, weight, strict=True):
        for word, label in zip(row, labels, strict=True):
            times[word] += 1
            counts[word]["ABC".index(label)] += w
    total = {word: own.sum() for word, own in counts.items()}
    known = [w for w in counts if max(times[w], total[w]) >= min_count and total[w] > 0]
    some = [w for w in counts if 0 < total[w] <= rare] or [w for w in counts if total[w] > 0]

    spellings, parent = defaultdict(lambda: np.zeros(3)), {"bias": "bias"}
    chains = {word: list(chain(max_suffix).extract([word])[0]) for word in counts}
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
            own = list(chain(max_suffix).extract([word])[0])[:-1]
            assert names[found.parent[a]] == [name for name in own if name in spellings][-1]
    np.testing.assert_array_equal(found.spelling, found.parent[found.words])
    assert [known[w] if w >= 0 else None for w in found.word_of] == [
        word if word in known else None for row in X for word in row
    ]


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
    with pytest.raises(ValueError, match="do not fit each other"):
        _native.count_ngrams(gold, offsets, weight, 3, 1)
    with pytest.raises(ValueError, match="do not fit each other"):
        _native.count_words(GOLD, gold, offsets, weight, 3, 3)


@pytest.mark.parametrize("words", [GOLD[:2], GOLD + 1, GOLD - 1])
def test_words_that_fit_no_labels_are_refused(words):
    with pytest.raises(ValueError, match="expected the number of a word for each label"):
        _native.count_words(words, GOLD, OFFSETS, None, 3, 3)


@pytest.mark.parametrize(
    ("token", "error", "message"),
    [
        (7, SentenceError, "sentence 1, token 1 is 7, of type int; expected a str"),
        (None, SentenceError, "sentence 1, token 1 is None, of type NoneType"),
        ("\ud800", ValueError, "sentence 1, token 1: .* half of a surrogate pair"),
    ],
)
def test_a_token_that_is_no_word_is_named(token, error, message):
    with pytest.raises(error, match=message):
        tl.HMM().fit([["they"], ["can", token]], [["N"], ["V", "V"]])


@pytest.mark.parametrize(("Y", "k"), [(2**16 - 1, 3), (2**41, 1), (5, -1)])
def test_more_ngrams_than_memory_holds_are_refused(Y, k):
    with pytest.raises(ValueError, match=r"n-grams|histories"):
        _native.count_ngrams(np.zeros(3, np.int32), np.array([0, 3]), None, Y, k)
