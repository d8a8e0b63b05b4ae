"""Counting and smoothing: equal to plain Python, to lmplz, and to 1."""

import gzip
import itertools
import math
import os
import random
from pathlib import Path

import numpy as np
import pytest

import tagloom as tl
from plain_ngrams import END, START, UNKNOWN, PlainModel
from tagloom import _native
from tagloom.errors import ParameterError, SentenceError
from tagloom.language.ngrams import SMOOTHINGS


def random_text(seed, n=60, letters="abcdefg"):
    """Sentences whose words are as unevenly frequent as real ones."""
    rng = random.Random(seed)
    return [
        [letters[int(rng.betavariate(0.7, 2) * len(letters))] for _ in range(rng.randint(0, 7))]
        for _ in range(n)
    ]


def histories(model, rng, n=25):
    """Some histories of every length, from the start of a sentence and not."""
    words = [w for w in model.vocabulary_ if w not in (START, END)]
    yield [], True
    yield [], False
    for _ in range(n):
        yield [rng.choice(words) for _ in range(rng.randint(1, 5))], rng.random() < 0.5


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("min_counts", [[1], [1, 1, 2], [1, 2, 3]])
def test_equal_to_the_formulas(smoothing, order, closed, min_counts):
    min_counts = min_counts[:order]
    text = random_text(order)
    model = tl.NGramModel(
        order, smoothing=smoothing, closed=closed, min_counts=min_counts, k=0.3
    ).fit(text)
    whole = min_counts + [min_counts[-1]] * (order - len(min_counts))
    plain = PlainModel(text, order, smoothing, closed=closed, min_counts=whole, k=0.3)
    for history, start in histories(model, random.Random(0)):
        known = [START, *history] if start else history
        # A word that the plain model has not counted is its unknown word.
        expected = [plain.prob(w, known) for w in model.vocabulary_]
        np.testing.assert_allclose(
            model.next_probs(history, start=start), expected, rtol=2e-6, atol=0
        )


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 3, 4, 7])
def test_probabilities_sum_to_1(smoothing, order):
    english = tl.datasets.load("english", "train")[:150]
    model = tl.NGramModel(order, smoothing=smoothing, min_counts=[1, 1, 2][:order]).fit(english)
    for history, start in histories(model, random.Random(1)):
        assert model.next_probs(history, start=start).sum() == pytest.approx(1, abs=1e-9)
    for sentence in english.tokens[:20]:
        assert model.next_probs(sentence[:3]).sum() == pytest.approx(1, abs=1e-9)


def test_perplexity_by_hand():
    """Counts of `a b`, `a`: p(a | <s>) = 2/2 and so on, with add-one over {a, b, </s>}."""
    model = tl.NGramModel(2, smoothing="add-k", closed=True).fit([["a", "b"], ["a"]])
    # p(a|<s>) = (2+1)/(2+3), p(b|a) = (1+1)/(2+3), p(</s>|b) = (1+1)/(1+3)
    by_hand = (3 / 5 * 2 / 5 * 2 / 4) ** (-1 / 3)
    assert model.perplexity([["a", "b"]]) == pytest.approx(by_hand, rel=1e-12)


# ---- lmplz -----------------------------------------------------------------------------------

# From ARPA files that KenLM's lmplz wrote for the training part of the embedded corpus, blanks in
# tokens replaced, with --discount_fallback: log10 probability and back-off weight.
LMPLZ = {
    1: {"<unk>": (-3.9153702, 0), "</s>": (-1.1959449, 0), "in": (-1.8759025, 0)},
    2: {
        "<unk>": (-3.7915452, 0),
        "<s>": (0, -0.3295327),
        "in": (-1.8027872, -0.21516356),
        ". </s>": (-0.0065171975, 0),
        "of the": (-0.5464599, 0),
        "<s> The": (-0.8569194, 0),
    },
    3: {
        "<s>": (0, -0.33553576),
        "the": (-1.5185342, -0.09745988),
        "in the": (-0.65947986, -0.03560444),
        "<s> The": (-0.8559628, -0.046271097),
        "one of the": (-0.48238033, 0),
        "<s> In the": (-1.293186, 0),
    },
    4: {
        ", the": (-1.1425786, -0.0142750135),
        "one of the": (-0.49414152, -0.0028326523),
        "<s> In the": (-1.2969043, -0.0028326523),
    },
    5: {
        '" </s>': (-1.3733428, 0),
        "<s> The": (-0.8559628, -0.048497416),
        "one of the": (-0.49414152, -0.0025751193),
    },
}
SIZES = {1: 2165, 2: 8074, 3: 15105, 4: 21852, 5: 28126}
# By KenLM's query on the test part: with unknown words, and without them.
PERPLEXITIES = {
    2: (287.3825, 139.8550),
    3: (287.1603, 139.5486),
    4: (287.0713, 139.5291),
    5: (287.2065, 139.5391),
}


def arpa_of(model):
    """The log10 probability and back-off weight of every n-gram, as our ARPA file has them."""
    arrays, tables = model.tables_.arrays, model.tables_
    level = arrays["level"].tolist()
    entries = {}
    for lo, hi in itertools.pairwise(level[1:]):
        for line in tables.native.format(tables.vocabulary, lo, hi).decode().splitlines():
            p, words, *bow = line.split("\t")
            entries[words] = (float(p), float(bow[0]) if bow else 0.0)
    return entries


@pytest.mark.parametrize("order", LMPLZ)
def test_equal_to_lmplz(order):
    model = tl.NGramModel(order).fit(tl.datasets.load("english", "train"))
    entries = arpa_of(model)
    assert len(entries) == SIZES[order]
    for words, expected in LMPLZ[order].items():
        assert entries[words] == pytest.approx(expected, abs=1e-6), words
    if order in PERPLEXITIES:
        test = tl.datasets.load("english", "test")
        found = model.perplexity(test), model.perplexity(test, unknown=False)
        assert found == pytest.approx(PERPLEXITIES[order], rel=1e-6)
    # lmplz --discount_fallback: the fifth order of the small corpus cannot be estimated.
    assert model.training_["estimated_discounts"] == [n < 5 for n in range(1, order + 1)]


REFERENCES = Path(os.environ.get("TAGLOOM_DATA", "TAGLOOM_DATA is not set"))


@pytest.mark.parametrize(
    ("name", "order"), [*(("english", n) for n in range(1, 6)), ("ewt", 2), ("ewt", 3)]
)
def test_every_entry_is_that_of_lmplz(name, order):
    """With TAGLOOM_DATA=folder, compares with the whole files in folder/lmplz-reference."""
    path = REFERENCES / "lmplz-reference" / f"{name}-order{order}.arpa.gz"
    if not path.exists():
        pytest.skip(f"no reference files: {path}")
    if name == "english":
        train = tl.datasets.load("english", "train")
    else:
        train = tl.read(REFERENCES / "ud-english-ewt" / "train.conllu", label="upos")
    sentences = [[token.replace(" ", "_") for token in tokens] for tokens in train.tokens]
    found = arpa_of(tl.NGramModel(order).fit(sentences))
    expected = {}
    for line in gzip.decompress(path.read_bytes()).decode().split("\n"):
        if "\t" in line:
            p, words, *bow = line.split("\t")
            expected[words] = (float(p), float(bow[0]) if bow else 0.0)
    assert found.keys() == expected.keys()
    largest = max(np.abs(np.subtract(found[words], expected[words])).max() for words in expected)
    assert largest < 1e-6


# ---- text in pieces, words that are rare, threads ------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_a_text_read_in_chunks_has_the_same_counts(chunk):
    text = random_text(3, n=200, letters="abcdefghijklmnop")
    options = (0, 1.0, False, [1, 1, 1], 1)
    whole, pieces = (_native.NGramCounter(3, None, 2, size) for size in (1 << 20, chunk))
    for counter in (whole, pieces):
        assert counter.add(text) is None
    expected, found = whole.finish(*options), pieces.finish(*options)
    assert found[1].names()[0] == expected[1].names()[0]
    assert found[2:] == expected[2:]
    for name, array in expected[0].items():
        np.testing.assert_array_equal(found[0][name], array)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_threads_change_nothing(smoothing):
    english = tl.datasets.load("english", "train")
    one, four = (tl.NGramModel(3, smoothing=smoothing, n_threads=n).fit(english) for n in (1, 4))
    assert one.digest() == four.digest()


def test_rare_words_become_the_unknown_word():
    text = random_text(5, n=80, letters="abcdefghijklmnopqrstuvwxyz")
    counts = {w: sum(s.count(w) for s in text) for s in text for w in s}
    replaced = [[w if counts[w] >= 8 else UNKNOWN for w in s] for s in text]
    found = tl.NGramModel(3, min_word_count=8).fit(text)
    expected = tl.NGramModel(3).fit(replaced)
    assert set(found.vocabulary_) == set(expected.vocabulary_)
    assert 5 < len(found.vocabulary_) < 26
    np.testing.assert_allclose(found.log_probs(text), expected.log_probs(replaced), rtol=1e-12)


def test_a_given_vocabulary():
    text = [["a", "b", "c"], ["a", "c"]]
    found = tl.NGramModel(2, vocabulary=["a", "b", "z"]).fit(text)
    expected = tl.NGramModel(2).fit([["a", "b", UNKNOWN], ["a", UNKNOWN]])
    assert found.vocabulary_ == (UNKNOWN, START, END, "a", "b", "z")
    assert found.score_tokens(["c"]).is_unknown.tolist() == [True, False]
    # One more word to share with: the uniform distribution is over five words instead of four.
    assert found.next_probs(["a"]).sum() == pytest.approx(1, abs=1e-12)
    assert found.discounts_ == expected.discounts_


def test_files_are_counted_like_lists(tmp_path):
    english = tl.datasets.load("english", "train")
    text = "".join(" ".join(tokens) + "\n" for tokens in english.tokens)
    plain, packed = tmp_path / "text", tmp_path / "text.gz"
    plain.write_text(text.replace("\n", "\r\n\n", 50), encoding="utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    expected = tl.NGramModel(3).fit([tokens.split() for tokens in text.splitlines()])
    for path in (plain, packed):
        assert tl.NGramModel(3).fit_files(path).digest() == expected.digest()
    twice = tl.NGramModel(1).fit_files(plain, str(packed))
    assert twice.training_["sentences"] == 2 * expected.training_["sentences"]


def test_a_generator_is_read_once():
    sentences = (["a", letter] for letter in "abcab")
    assert tl.NGramModel(2).fit(sentences).training_["tokens"] == 10


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"order": 0}, "order"),
        ({"order": 8}, "order"),
        ({"order": 2.5}, "order"),
        ({"smoothing": "kn"}, "smoothing"),
        ({"k": 0}, "k"),
        ({"k": math.nan}, "k"),
        ({"unit": "word"}, "unit"),
        ({"closed": 1}, "closed"),
        ({"closed": True, "min_word_count": 2}, "min_word_count"),
        ({"min_word_count": 0}, "min_word_count"),
        ({"min_counts": [2, 1]}, "min_counts"),
        ({"min_counts": [1, 1, 1, 1]}, "min_counts"),
        ({"min_counts": []}, "min_counts"),
        ({"min_counts": "2"}, "min_counts"),
        ({"n_threads": 0}, "n_threads"),
    ],
)
def test_parameters_out_of_range(parameters, name):
    with pytest.raises(ParameterError) as error:
        tl.NGramModel(**parameters).fit([["a"]])
    assert error.value.parameter == name


@pytest.mark.parametrize(
    ("X", "where"),
    [
        ("the boat", None),
        (b"the boat", None),
        (3, None),
        (tl.Sentence(["the", "boat"]), None),
        ([["a"], "the boat"], "sentence 1"),
        ([["a"], 3], "sentence 1"),
        ([["a"], ["b", 3]], "sentence 1, token 1"),
        ([["a"], ["b", None]], "sentence 1, token 1"),
        ([["a"], ["b", "<s>"]], "sentence 1, token 1"),
        ([["a"], ["</s>", "b"]], "sentence 1, token 0"),
        ([["a"], ["\ud800"]], "sentence 1, token 0"),
        ([], None),
    ],
)
def test_text_that_cannot_be_counted(X, where):
    with pytest.raises(SentenceError) as error:
        tl.NGramModel(2).fit(X)
    assert error.value.where == where


def test_a_mistake_late_in_a_long_list_is_found_at_its_place():
    sentences = [["a"]] * 10_000 + [["a", 7]]
    with pytest.raises(SentenceError) as error:
        tl.NGramModel(2).fit(sentences)
    assert error.value.where == "sentence 10000, token 1"
