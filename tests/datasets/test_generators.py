"""The generator: sizes, seeds, Zipf's law, legal spans, suffixes that tell."""

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

from raising import raises
from tagloom.datasets import synthetic
from tagloom.errors import DatasetError
from tagloom.labels import validate


def counts_by_word(corpus):
    counts = defaultdict(Counter)
    for sentence in corpus:
        for word, label in zip(sentence.tokens, sentence.labels, strict=True):
            counts[word][label] += 1
    return counts


@pytest.mark.parametrize("kind", ["pos", "bio"])
def test_one_seed_gives_one_corpus(kind):
    first = synthetic(50, kind=kind, random_state=3)
    assert synthetic(50, kind=kind, random_state=3) == first
    assert synthetic(50, kind=kind, random_state=np.random.default_rng(3)) == first
    assert synthetic(50, kind=kind, random_state=4) != first


def test_the_corpus_of_a_seed_does_not_change_between_versions():
    # Benchmarks and figures in the documentation name a seed; a change here needs a changelog line.
    corpus = synthetic(2, mean_length=4, random_state=0)
    assert [" ".join(s.tokens) for s in corpus] == [
        "huhusos toriguh zolesos zogesos zo",
        "ba paketov zi",
    ]
    assert [" ".join(s.labels) for s in corpus] == ["T06 T09 T06 T06 T01", "T01 T12 T02"]


@pytest.mark.parametrize("kind", ["pos", "bio"])
@pytest.mark.parametrize("n", [1, 7, 10_001])
def test_n_tokens_is_met_exactly(kind, n):
    corpus = synthetic(n_tokens=n, kind=kind)
    assert corpus.n_tokens == n
    assert all(len(s) > 0 for s in corpus)


def test_n_sentences_is_met_exactly_and_1000_by_default():
    assert len(synthetic(17)) == 17
    assert len(synthetic()) == 1000


@pytest.mark.parametrize("mean", [1, 2.5, 40])
def test_sentences_have_the_mean_length(mean):
    lengths = np.array([len(s) for s in synthetic(4000, mean_length=mean)])
    assert lengths.min() == 1
    # 1 plus two geometric numbers of mean g: the variance is 2 g (g + 1)
    g = (mean - 1) / 2
    assert abs(lengths.mean() - mean) <= 5 * np.sqrt(2 * g * (g + 1) / 4000)


@pytest.mark.parametrize("n_labels", [2, 12, 45])
def test_all_labels_occur_and_sort_as_they_are_numbered(n_labels):
    corpus = synthetic(n_tokens=60_000, n_labels=n_labels, vocabulary=3000)
    labels = sorted(corpus.label_counts())
    assert len(labels) == n_labels
    assert [int(y[1:]) for y in labels] == list(range(1, n_labels + 1))


@pytest.mark.parametrize("kind", ["pos", "bio"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_words_follow_zipfs_law(kind, seed):
    corpus = synthetic(n_tokens=200_000, kind=kind, random_state=seed)
    counts = np.sort([sum(c.values()) for c in counts_by_word(corpus).values()])[::-1]
    assert len(counts) <= 5000
    top = np.arange(3, 1000)
    slope, _ = np.polyfit(np.log(top), np.log(counts[top]), 1)
    assert -1.15 < slope < -0.85
    residual = np.corrcoef(np.log(top), np.log(counts[top]))[0, 1]
    assert residual < -0.97


def test_frequent_words_are_shorter():
    counts = counts_by_word(synthetic(n_tokens=50_000))
    ranked = sorted(counts, key=lambda w: -sum(counts[w].values()))
    mean = [np.mean([len(w) for w in part]) for part in (ranked[:50], ranked[-500:])]
    assert mean[0] + 1 < mean[1]


@pytest.mark.parametrize("seed", [0, 1])
def test_suffixes_tell_the_label_of_unknown_words(seed):
    corpus = synthetic(n_tokens=60_000, random_state=seed)
    train, test = corpus[: len(corpus) // 2], corpus[len(corpus) // 2 :]
    known = counts_by_word(train)
    by_suffix = defaultdict(Counter)
    for word, labels in known.items():
        by_suffix[word[-3:]].update(labels)
    majority = train.label_counts().most_common(1)[0][0]
    hits = Counter()
    for sentence in test:
        for word, label in zip(sentence.tokens, sentence.labels, strict=True):
            if word in known:
                continue
            seen = by_suffix.get(word[-3:])
            hits["n"] += 1
            hits["suffix"] += label == (seen.most_common(1)[0][0] if seen else majority)
            hits["majority"] += label == majority
    assert hits["n"] > 300
    # four words in five have a suffix of their label, and some of them stand for their second
    assert hits["suffix"] / hits["n"] > 0.65
    assert hits["majority"] / hits["n"] < 0.45


def test_without_suffixes_all_words_end_in_a_vowel():
    words = counts_by_word(synthetic(500, suffixes=0))
    assert all(word[-1] in "aeiou" for word in words)
    with_suffix = [w for w in counts_by_word(synthetic(500, suffixes=1)) if w[-1] not in "aeiou"]
    assert len(with_suffix) > 1000


def test_ambiguity_is_the_share_of_words_with_two_labels():
    def share(ambiguity):
        corpus = synthetic(n_tokens=300_000, vocabulary=500, ambiguity=ambiguity)
        counts = counts_by_word(corpus)
        assert max(map(len, counts.values())) <= 2
        return np.mean([len(c) == 2 for c in counts.values()])

    assert share(0) == 0
    assert share(0.3) == pytest.approx(0.3, abs=0.06)
    assert share(1) > 0.97


def test_labels_depend_on_the_label_before():
    corpus = synthetic(n_tokens=50_000)
    pairs = Counter(pair for s in corpus for pair in pairwise(s.labels))
    single = corpus.label_counts()
    n, m = sum(pairs.values()), sum(single.values())
    information = sum(
        c / n * np.log(c / n / (single[a] / m * single[b] / m)) for (a, b), c in pairs.items()
    )
    assert information > 0.2  # nats; 0 if labels were drawn one by one


@pytest.mark.parametrize("n_labels", [3, 9, 53])
def test_bio_spans_are_legal_and_of_every_type(n_labels):
    corpus = synthetic(n_tokens=100_000, kind="bio", n_labels=n_labels, vocabulary=2000)
    for sentence in corpus:
        for before, now in pairwise(["O", *sentence.labels]):
            if now.startswith("I-"):
                assert before in ("B-" + now[2:], now)
    assert validate(corpus.labels, "bio").is_valid
    labels = corpus.label_counts()
    assert len(labels) == n_labels
    assert {y[:2] for y in labels} == {"O", "B-", "I-"}
    pairs = Counter(pair for s in corpus for pair in pairwise(s.labels))
    # two spans of a type side by side, which only B- can tell apart
    assert sum(n for (a, b), n in pairs.items() if b[0] == "B" and a[2:] == b[2:]) > 0


def test_bio_cue_words_announce_a_type():
    corpus = synthetic(n_tokens=100_000, kind="bio", random_state=2)
    after = defaultdict(Counter)
    for sentence in corpus:
        for word, label in zip(sentence.tokens[:-1], sentence.labels[1:], strict=True):
            after[word][label] += 1
    cues = Counter()
    for word, labels in after.items():
        label, n = labels.most_common(1)[0]
        if word.islower() and label.startswith("B-") and n > 0.6 * sum(labels.values()) > 20:
            cues[label] += 1
    assert all(cues[f"B-{k}"] == 5 for k in "ABCD")


def test_bio_names_are_capitalised_and_plain_words_are_not():
    for sentence in synthetic(200, kind="bio"):
        for word, label in zip(sentence.tokens, sentence.labels, strict=True):
            assert word[0].isupper() == (label != "O")


@pytest.mark.parametrize(
    ("options", "parameter", "expected", "found"),
    [
        ({"kind": "ner"}, "kind", "pos, bio", "'ner'"),
        ({"n_sentences": 3, "n_tokens": 9}, "n_tokens", "left out", "9"),
        ({"n_sentences": 0}, "n_sentences", "at least 1", "0"),
        ({"n_tokens": -1}, "n_tokens", "at least 1", "-1"),
        ({"n_labels": 1}, "n_labels", "between 2 and 500", "1"),
        ({"kind": "bio", "n_labels": 4}, "n_labels", "an odd number from 3 to 53", "4"),
        ({"kind": "bio", "n_labels": 55}, "n_labels", "from 3 to 53", "55"),
        ({"vocabulary": 100}, "vocabulary", "240 for 12 labels", "100"),
        ({"mean_length": 0.5}, "mean_length", "at least 1", "0.5"),
        ({"mean_length": float("nan")}, "mean_length", "at least 1", "nan"),
        ({"ambiguity": 1.5}, "ambiguity", "between 0 and 1", "1.5"),
        ({"suffixes": -0.1}, "suffixes", "between 0 and 1", "-0.1"),
    ],
)
def test_a_parameter_out_of_range_is_named(options, parameter, expected, found):
    with raises(DatasetError, parameter=parameter, expected=expected, found=found):
        synthetic(**options)
