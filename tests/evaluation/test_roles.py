"""Scores of semantic roles against counts by hand."""

from raising import raises
from role_sentences import grammar
from tagloom.errors import SentenceError
from tagloom.evaluation import evaluate_roles
from tagloom.labels.roles import is_legal_frame, role_constraints
from tagloom.sequences import Argument

GOLD = grammar(12, 3)


def without(sentence, role):
    return sentence.with_frames(
        type(f)(f.predicate, tuple(a for a in f.arguments if a.role != role))
        for f in sentence.frames
    )


def test_scores():
    perfect = evaluate_roles(GOLD, GOLD)
    assert (perfect.precision, perfect.recall, perfect.f1, perfect.n_illegal) == (1, 1, 1, 0)
    assert perfect.intervals["f1"] == (1.0, 1.0)
    predicted = [without(s, "ARG0") for s in GOLD]
    result = evaluate_roles(GOLD, predicted, n_bootstrap=50)
    n_all = sum(len(f.arguments) for s in GOLD for f in s.frames)
    n_kept = sum(len(f.arguments) for s in predicted for f in s.frames)
    assert result.precision == 1.0
    assert result.recall == n_kept / n_all
    assert result.f1 == 2 * n_kept / (n_all + n_kept)
    assert result.by_role["ARG0"].recall == 0.0
    assert result.by_role["ARG1"].f1 == 1.0
    assert result.by_tag["VERB"].support == n_all
    low, high = result.intervals["f1"]
    assert low <= result.f1 <= high
    assert result.to_dict()["illegal_frames"] == 0
    assert "illegal frames" in str(result)


def test_illegal_frames():
    rules = role_constraints(["ARG0", "R-ARG0", "C-ARG0", "ARGM-TMP"])
    for arguments, is_legal in (
        ([(0, 1, "ARG0"), (2, 3, "ARGM-TMP"), (3, 4, "ARGM-TMP")], True),
        ([(0, 1, "ARG0"), (2, 3, "ARG0")], False),
        ([(0, 2, "ARG0"), (1, 3, "ARGM-TMP")], False),
        ([(0, 1, "R-ARG0")], False),
        ([(0, 1, "R-ARG0"), (2, 3, "ARG0")], True),
        ([(0, 1, "C-ARG0"), (2, 3, "ARG0")], False),
    ):
        assert is_legal_frame(arguments, rules) == is_legal, arguments
    frame = GOLD[0].frames[0]
    twice = (Argument(0, 1, "ARG0"), Argument(2, 3, "ARG0"))
    bad = [GOLD[0].with_frames([type(frame)(frame.predicate, twice), *GOLD[0].frames[1:]])]
    assert evaluate_roles(GOLD[:1], bad, n_bootstrap=0).n_illegal == 1


def test_different_sentences():
    with raises(SentenceError, parameter="predicted", found="1"):
        evaluate_roles(GOLD, GOLD[:1])
    with raises(SentenceError, where="sentence 0", expected="words"):
        evaluate_roles(GOLD[:1], grammar(30, 9)[-1:])
    with raises(SentenceError, where="sentence 0", expected="predicates"):
        evaluate_roles(GOLD[:1], [GOLD[0].with_frames([])])
