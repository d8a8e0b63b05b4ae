"""The measures of SemEval-2013: cases by hand, and nervaluate on random labels."""

import numpy as np
import pytest

from raising import raises
from tagloom.errors import SchemeError, ShapeError
from tagloom.evaluation import evaluate_overlaps

GOLD = [["B-PER", "I-PER", "O", "B-LOC", "O"]]


@pytest.mark.parametrize(
    ("predicted", "strict", "exact", "partial", "type"),
    [  # correct, incorrect, partial, missed, spurious
        (
            "B-PER I-PER O B-LOC O",
            [2, 0, 0, 0, 0],
            [2, 0, 0, 0, 0],
            [2, 0, 0, 0, 0],
            [2, 0, 0, 0, 0],
        ),
        ("B-PER O O O B-X", [0, 1, 0, 1, 1], [0, 1, 0, 1, 1], [0, 0, 1, 1, 1], [1, 0, 0, 1, 1]),
        ("B-LOC I-LOC O O O", [0, 1, 0, 1, 0], [1, 0, 0, 1, 0], [1, 0, 0, 1, 0], [0, 1, 0, 1, 0]),
        ("O O O O O", [0, 0, 0, 2, 0], [0, 0, 0, 2, 0], [0, 0, 0, 2, 0], [0, 0, 0, 2, 0]),
    ],
)
def test_cases_by_hand(predicted, strict, exact, partial, type):
    result = evaluate_overlaps(GOLD, [predicted.split()])
    assert list(result.strict) == strict
    assert list(result.exact) == exact
    assert list(result.partial) == partial
    assert list(result.type) == type


def test_scores_follow_from_the_counts():
    score = evaluate_overlaps(GOLD, [["B-PER", "O", "O", "B-LOC", "B-X"]]).partial
    assert list(score) == [1, 0, 1, 0, 1]
    assert (score.precision, score.recall, score.f1) == (1.5 / 3, 1.5 / 2, 0.6)
    empty = evaluate_overlaps([["O"]], [["O"]])
    assert (empty.strict.f1, empty.per_type) == (0.0, {})
    assert empty.to_dict()["type"]["missed"] == 0


def test_mistakes():
    with raises(ShapeError, parameter="predicted"):
        evaluate_overlaps([["O"]], [["O", "O"]])
    with raises(SchemeError, found="'NOUN'"):
        evaluate_overlaps([["NOUN"]], [["NOUN"]])


@pytest.mark.peers
@pytest.mark.parametrize("seed", range(4))
def test_all_counts_equal_nervaluate(seed):
    from nervaluate import Evaluator

    rng = np.random.default_rng(seed)
    names = ["O", "B-x", "I-x", "B-y", "I-y"]
    gold, predicted = ([_legal(rng.choice(names, 12)) for _ in range(300)] for _ in range(2))
    theirs = Evaluator(gold, predicted, tags=["x", "y"], loader="list").evaluate()
    ours = evaluate_overlaps(gold, predicted)
    pairs = [(theirs["overall"], ours)]
    pairs += [(theirs["entities"][name], ours.per_type[name]) for name in "xy"]
    for their, our in pairs:
        for measure in ("strict", "exact", "partial", "type"):
            judge = their["ent_type" if measure == "type" else measure]
            score = getattr(our, measure)
            counts = [getattr(judge, field) for field in score._fields]
            assert list(score) == counts, measure
            scores = [judge.precision, judge.recall, judge.f1]
            np.testing.assert_allclose(
                [score.precision, score.recall, score.f1], scores, rtol=1e-12
            )


def _legal(row):
    """Turn an I that continues nothing into a B."""
    result, before = [], "O"
    for label in map(str, row):
        if label[0] == "I" and before[2:] != label[2:]:
            label = f"B{label[1:]}"
        result.append(label)
        before = label
    return result
