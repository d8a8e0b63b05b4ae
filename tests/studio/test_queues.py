"""The order of the queue: the lazy choice is that of plain definitions."""

import random

import numpy as np
import pytest

import tagloom as tl
from tagloom.studio import queues
from tagloom.studio.projects import EditedCorpus
from tagloom.studio.queues import Queue


@pytest.fixture(scope="module")
def edited(tmp_path_factory):
    path = tmp_path_factory.mktemp("queue") / "a.jsonl"
    train = tl.datasets.load("english", "train")[:120]
    labels = [row if i < 40 else [None] * len(row) for i, row in enumerate(train.labels)]
    tl.write(tl.Corpus(train.tokens, labels), path)
    edited = EditedCorpus(str(path), options={})
    yield edited
    edited.close()


@pytest.fixture(scope="module")
def tagger(edited):
    return tl.CRF(max_iterations=2).fit(edited.corpus[:40])


def plain_urgencies(edited, doubts, seen):
    """Compute urgencies word by word; ``seen`` counts sentences of the list by word."""
    sentences = [[w.lower() for w in s.tokens] for s in edited.corpus]
    mass, known, at = {}, {}, 0
    for i, words in enumerate(sentences):
        for t, word in enumerate(words):
            if i < 40:  # these have labels
                known[word] = known.get(word, 0) + 1
            else:
                mass[word] = mass.get(word, 0.0) + doubts[at + t]
        at += len(words)
    result, at = [], 0
    for words in sentences:
        total = 0.0
        for t, word in enumerate(words):
            value = mass.get(word, 0.0) / (1 + known.get(word, 0))
            total += doubts[at + t] ** 0.5 * value * 0.5 ** seen.get(word, 0)
        at += len(words)
        result.append(total / len(words))
    return np.array(result)


def test_lists_are_those_of_the_definition(edited, tagger, monkeypatch):
    queue = Queue(edited)
    doubts = queue.rank(tagger)
    gamma = tagger.predict_marginals(edited.corpus)
    tokens = np.concatenate([1 - g.max(axis=1).astype(float) for g in gamma])
    np.testing.assert_allclose(doubts.tokens, tokens)
    np.testing.assert_allclose(doubts.means, [1 - g.max(axis=1).mean(dtype=float) for g in gamma])
    seen, expected = {}, []
    for _ in range(8):
        urgencies = plain_urgencies(edited, tokens, seen)
        i = max((k for k in range(40, 120) if k not in expected), key=lambda k: urgencies[k])
        expected.append(i)
        for word in {w.lower() for w in edited.corpus[i].tokens}:
            seen[word] = seen.get(word, 0) + 1
    monkeypatch.setattr(queues, "EVERY", 1000)  # none at random
    assert queue.choose(8, "doubt", None, doubts) == [(i, False) for i in expected]


def test_every_fifth_is_random(edited, tagger):
    queue = Queue(edited)
    chosen = queue.choose(80, "doubt", None, queue.rank(tagger))
    assert sorted(i for i, _ in chosen) == [*range(40, 120)]
    assert [k for k, (_, is_random) in enumerate(chosen) if is_random] == [*range(4, 80, 5)]
    assert [i for i, _ in queue.choose(3, "file", 41, None)] == [40, 42, 43]
    assert all(is_random for _, is_random in queue.choose(5, "doubt", None, None))


def test_draws_and_their_weights(edited):
    """The weighted mean of a quantity over draws is its mean over tokens."""
    queue, rng = Queue(edited), random.Random(0)
    lengths = np.array([len(s) for s in edited.corpus])
    drawn = np.array([queue._draw([*range(120)], 1, rng)[0] for _ in range(4000)])
    expected = 1 / (lengths + 5) / (1 / (lengths + 5)).sum()
    shares = np.bincount(drawn, minlength=120) / len(drawn)
    assert np.abs(shares - expected).sum() < 0.2  # total variation 0.1
    weights = np.array([queue.weight_of(i, "doubt") for i in range(120)])
    share_of_short = (lengths < 10) * lengths  # tokens in short sentences
    estimate = (weights * share_of_short)[drawn].sum() / (weights * lengths)[drawn].sum()
    assert estimate == pytest.approx(share_of_short.sum() / lengths.sum(), abs=0.02)
    assert queue.weight_of(3, "random") == 1


def test_ranking_some_sentences_again(edited, tagger, monkeypatch):
    monkeypatch.setattr(queues, "RANKED", 5)
    queue = Queue(edited)
    before = queue.rank(tagger)
    other = tl.CRF(max_iterations=1, eta=0.1).fit(edited.corpus[:40])
    after, whole = queue.rank_again(before, other, {50}), queue.rank(other)
    gamma = tagger.predict_marginals(edited.corpus)
    tokens = np.concatenate([1 - g.max(axis=1).astype(float) for g in gamma])
    changed = [*np.argsort(-plain_urgencies(edited, tokens, {}))[:5].tolist(), 50]
    for i in range(120):
        expected = whole if i in changed else before
        assert after.means[i] == pytest.approx(expected.means[i], abs=1e-6)


def test_a_labelled_corpus_is_reviewed_by_doubt(tmp_path, tagger):
    """Where all sentences have labels, those that are accepted are done."""
    path = tmp_path / "a.jsonl"
    train = tl.datasets.load("english", "train")[:60]
    tl.write(tl.Corpus(train.tokens, train.labels), path)
    edited = EditedCorpus(str(path), options={})
    queue = Queue(edited)
    doubts = queue.rank(tagger)
    chosen = [i for i, is_random in queue.choose(6, "doubt", None, doubts) if not is_random]
    edited.change(chosen[1], {0: None}, kind="label")  # unsure: the rest is reviewed nevertheless
    edited.change(chosen[0], {}, kind="accept")
    again = queue.choose(60, "doubt", None, doubts)
    assert sorted(i for i, _ in again) == sorted({*range(60)} - {chosen[0]})
    assert queue.n_done() == 1
    edited.close()
