"""Attachment scores of dependency trees."""

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import SentenceError
from tagloom.evaluation import evaluate_trees

GOLD = [([2, 0, 2], ["nsubj", "root", "obj"]), ([0, 1], ["root", "obj"])]
OURS = [([2, 0, 1], ["nsubj", "root", "obj"]), ([0, 1], ["root", "obl"])]


def test_scores_by_hand():
    result = evaluate_trees(GOLD, OURS)
    assert result.uas == 4 / 5
    assert result.las == 3 / 5
    assert result.label_accuracy == 4 / 5
    assert result.exact == 0
    assert result.by_label["obj"].recall == 0
    assert result.by_label["root"].f1 == 1
    assert result.by_label["obl"].support == 0
    low, high = result.intervals["uas"]
    assert low <= result.uas <= high
    assert evaluate_trees(GOLD, GOLD).exact == 1
    data = result.to_dict()
    assert data["words"] == 5
    assert "UAS             0.8000" in str(result)


def test_intervals():
    """The bootstrap agrees with the normal approximation on many sentences."""
    rng = np.random.default_rng(0)
    gold = [([0] + [1] * 9, ["x"] * 10)] * 400
    ours = [([0, *rng.choice([1, 2], 9, p=[0.7, 0.3]).tolist()], ["x"] * 10) for _ in gold]
    result = evaluate_trees(gold, ours)
    shares = result.counts[:, 1] / 10
    spread = 1.96 * shares.std() / np.sqrt(400)
    low, high = result.intervals["uas"]
    assert high - low == pytest.approx(2 * spread, rel=0.15)


def test_columns_and_errors():
    sentence = tl.Sentence(["a", "b"], columns={"head": ["0", "1"], "deprel": ["root", "obj"]})
    assert evaluate_trees([sentence], [GOLD[1]]).las == 1
    with raises(SentenceError, parameter="predicted"):
        evaluate_trees(GOLD, OURS[:1])
    with raises(SentenceError, where="sentence 0"):
        evaluate_trees(GOLD[:1], OURS[1:])
    with raises(SentenceError, where="sentence 0", expected="head"):
        evaluate_trees([tl.Sentence(["a"])], [([0], ["x"])])
    with raises(SentenceError, found="'_'"):
        evaluate_trees([tl.Sentence(["a"], columns={"head": ["_"]})], [([0], ["x"])])
