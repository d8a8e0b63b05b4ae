"""KenLM reads our files and gives the same scores; NLTK smooths the same way."""

import math

import numpy as np
import pytest

import tagloom as tl

pytestmark = pytest.mark.peers

LN10 = math.log(10)


@pytest.fixture(scope="module")
def parts():
    return [tl.datasets.load("english", part).tokens for part in ("train", "test")]


@pytest.mark.parametrize("order", [2, 3, 5])
@pytest.mark.parametrize("smoothing", ["modified-kneser-ney", "witten-bell", "add-k"])
def test_kenlm_reads_our_file_and_agrees(order, smoothing, parts, tmp_path):
    kenlm = pytest.importorskip("kenlm")
    train, test = parts
    model = tl.NGramModel(order, smoothing=smoothing).fit(train)
    path = tmp_path / "model.arpa"
    model.to_arpa(path)
    judge = kenlm.Model(str(path))
    assert judge.order == order
    for words in test:
        ours = model.score_tokens(words)
        theirs = list(judge.full_scores(" ".join(words)))
        np.testing.assert_allclose(
            ours.log_probs / LN10, [p for p, _, _ in theirs], atol=1e-6, rtol=3e-7
        )
        assert ours.lengths.tolist() == [n for _, n, _ in theirs]
        assert ours.is_unknown.tolist() == [is_unknown for _, _, is_unknown in theirs]


def test_kenlm_agrees_on_a_pruned_model(parts, tmp_path):
    kenlm = pytest.importorskip("kenlm")
    train, test = parts
    model = tl.NGramModel(3).fit(train).prune(1e-6)
    path = tmp_path / "model.arpa"
    model.to_arpa(path)
    judge = kenlm.Model(str(path))
    for words in test:
        expected = judge.score(" ".join(words))
        assert model.log_prob(words) / LN10 == pytest.approx(expected, rel=1e-6)


def nltk_model(kind, text, order, *args):
    """A model of NLTK's, given the n-grams that we count: one <s>, and nothing predicts it."""
    lm = pytest.importorskip("nltk.lm")
    words = {w for sentence in text for w in [*sentence, "</s>"]}
    vocabulary = lm.Vocabulary(words, unk_cutoff=1)
    judge = getattr(lm, kind)(*args, order, vocabulary=vocabulary)
    padded = [["<s>", *sentence, "</s>"] for sentence in text]
    ngrams = [
        [
            tuple(row[i : i + n])
            for n in range(1, order + 1)
            for i in range(len(row) - n + 1)
            if row[i + n - 1] != "<s>"
        ]
        for row in padded
    ]
    for row in ngrams:
        judge.counts.update([row])
    return judge


@pytest.mark.parametrize("order", [2, 3])
def test_nltk_agrees_on_witten_bell(order, parts):
    """A closed vocabulary, since NLTK gives unknown words no probability."""
    train = parts[0][:150]
    judge = nltk_model("WittenBellInterpolated", train, order)
    model = tl.NGramModel(order, smoothing="witten-bell", closed=True).fit(train)
    for words in train[:20]:
        row = ["<s>", *words, "</s>"]
        expected = [
            judge.unmasked_score(row[t], tuple(row[max(0, t - order + 1) : t]))
            for t in range(1, len(row))
        ]
        np.testing.assert_allclose(np.exp(model.score_tokens(words).log_probs), expected, rtol=1e-9)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("k", [0.1, 1])
def test_nltk_agrees_on_add_k(order, k, parts):
    train = parts[0][:150]
    judge = nltk_model("Lidstone", train, order, k)
    # NLTK's vocabulary counts a label for unknown words, also in a closed one.
    model = tl.NGramModel(order, smoothing="add-k", k=k).fit(train)
    assert len(judge.vocab) == len(model.vocabulary_) - 1
    rng = np.random.default_rng(0)
    for words in train[:20]:
        shuffled = [str(w) for w in rng.permutation(words)]
        for tokens in (words, shuffled):
            row = ["<s>", *tokens, "</s>"]
            expected = [
                judge.unmasked_score(
                    row[t], tuple(row[max(0, t - order + 1) : t]) if order > 1 else None
                )
                for t in range(1, len(row))
            ]
            np.testing.assert_allclose(
                np.exp(model.score_tokens(tokens).log_probs), expected, rtol=1e-9
            )
