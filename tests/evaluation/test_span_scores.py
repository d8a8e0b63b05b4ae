"""Span scores against outside judges: conlleval's published rules, and seqeval in both modes."""

import itertools
import warnings
from collections import Counter

import numpy as np
import pytest
import seqeval.metrics
from seqeval import scheme as seqeval_schemes
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

import tagloom as tl
from raising import raises
from tagloom.errors import SchemeError
from tagloom.evaluation.scores import CORRECT_SPANS, GOLD_SPANS, PREDICTED_SPANS

TYPES = ["PER", "LOC", "GPE-LOC"]


def random_rows(letters, count, seed, types=TYPES, longest=9):
    """Random labels, most sequences illegal in any scheme; sentences of 0 to 9 tokens."""
    random = np.random.default_rng(seed)
    alphabet = np.array(["O", "O"] + [f"{y}-{type}" for y in letters for type in types])
    offsets = np.append(0, random.integers(0, longest + 1, size=count).cumsum())
    gold = random.integers(len(alphabet), size=offsets[-1])
    # Most predicted labels are right, so that many spans match.
    other = random.integers(len(alphabet), size=offsets[-1])
    predicted = np.where(random.random(offsets[-1]) < 0.7, gold, other)
    return tuple(
        [alphabet[ids[i:j]].tolist() for i, j in itertools.pairwise(offsets)]
        for ids in (gold, predicted)
    )


def conlleval(gold, predicted):
    """Count chunks as the CoNLL-2000 script does, token by token, with its own two rules.

    A chunk ends between two tokens if B or I is followed by B or O, if E is followed by E, I or O,
    or if the type changes while inside; it starts where B, or I or E after O, or E or I after E
    stands, or where the type changes. A chunk is right if both sides started together with the same
    type and nothing has set them apart until both end together.
    """

    def split(label):
        letter, _, type = label.partition("-")
        return letter, type

    def ends(before, now):
        rule = (before[0], now[0]) in {
            *(("B", x) for x in "BO"),
            *(("I", x) for x in "BO"),
            *(("E", x) for x in "EIO"),
        }
        return rule or (before[0] != "O" and before[1] != now[1])

    def starts(before, now):
        rule = (before[0], now[0]) in {
            *((x, "B") for x in "BIO"),
            *((x, "I") for x in "OE"),
            *((x, "E") for x in "OE"),
        }
        return rule or (now[0] != "O" and before[1] != now[1])

    found, guessed, right = Counter(), Counter(), Counter()
    outside = ("O", "")
    last_gold = last_predicted = outside
    together = False
    both = [*zip(map(split, gold), map(split, predicted), strict=True), (outside, outside)]
    for g, p in both:
        gold_ends, predicted_ends = ends(last_gold, g), ends(last_predicted, p)
        if together:
            if gold_ends and predicted_ends and last_gold[1] == last_predicted[1]:
                together = False
                right[last_gold[1]] += 1
            elif gold_ends != predicted_ends or g[1] != p[1]:
                together = False
        gold_starts, predicted_starts = starts(last_gold, g), starts(last_predicted, p)
        if gold_starts and predicted_starts and g[1] == p[1]:
            together = True
        found[g[1]] += gold_starts
        guessed[p[1]] += predicted_starts
        last_gold, last_predicted = g, p
    return found, guessed, right


@pytest.mark.parametrize(("letters", "seed"), [("BI", 1), ("I", 2), ("IE", 3)])
def test_default_equals_conlleval_sentence_by_sentence(letters, seed):
    gold, predicted = random_rows(letters, 5_000, seed)
    result = tl.evaluate(gold, predicted, n_bootstrap=0)
    totals = [Counter(), Counter(), Counter()]
    columns = [GOLD_SPANS, PREDICTED_SPANS, CORRECT_SPANS]
    for n, (g, p) in enumerate(zip(gold, predicted, strict=True)):
        counts = conlleval(g, p)
        assert [c.total() for c in counts] == result.sentence_counts[n, columns].tolist(), (g, p)
        for total, count in zip(totals, counts, strict=True):
            total.update(count)
    assert result.reading == "conlleval"
    for type, score in result.per_type.items():
        assert (score.gold, score.predicted, score.correct) == tuple(c[type] for c in totals)
    assert result.micro.correct > 1000


def assert_same(report, result):
    """Compare all that seqeval reports with ours."""
    averages = {
        "micro avg": result.micro,
        "macro avg": result.macro,
        "weighted avg": result.weighted,
    }
    names = averages | result.per_type
    assert set(report) == set(names)
    for name, score in names.items():
        theirs = report[name]
        ours = [score.precision, score.recall, score.f1, score.gold]
        expected = [theirs[k] for k in ("precision", "recall", "f1-score", "support")]
        np.testing.assert_allclose(ours, expected, rtol=1e-12, err_msg=name)


def batches(letters, seed, size=400, count=12):
    for batch in range(count):
        yield random_rows(letters, size, [seed, batch])


@pytest.mark.parametrize(("letters", "seed"), [("BI", 4), ("I", 5), ("BIES", 6), ("IE", 7)])
def test_default_equals_seqeval_default(letters, seed):
    for gold, predicted in batches(letters, seed):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = seqeval.metrics.classification_report(gold, predicted, output_dict=True)
        assert_same(report, tl.evaluate(gold, predicted, n_bootstrap=0))


@pytest.mark.parametrize(
    ("scheme", "judge", "letters", "seed"),
    [
        ("bio", "IOB2", "BI", 8),
        ("bioes", "IOBES", "BIES", 9),
        ("bilou", "BILOU", "BILU", 10),
        ("ioe2", "IOE2", "IE", 20),
    ],
)
def test_strict_equals_seqeval_strict(scheme, judge, letters, seed):
    for gold, predicted in batches(letters, seed):
        report = seqeval.metrics.classification_report(
            gold,
            predicted,
            mode="strict",
            scheme=getattr(seqeval_schemes, judge),
            output_dict=True,
            zero_division=0,
        )
        result = tl.evaluate(gold, predicted, strict=True, scheme=scheme, n_bootstrap=0)
        assert result.reading == f"strict {scheme}"
        assert_same(report, result)


def test_suffixes_score_as_seqeval_scores_them():
    gold, predicted = (
        [[y if y == "O" else f"{y[2:]}-{y[0]}" for y in row] for row in rows]
        for rows in random_rows("BI", 400, 21)
    )
    for strict in (False, True):
        judge = {"mode": "strict", "scheme": seqeval_schemes.IOB2} if strict else {}
        report = seqeval.metrics.classification_report(
            gold, predicted, suffix=True, output_dict=True, zero_division=0, **judge
        )
        result = tl.evaluate(gold, predicted, strict=strict, scheme="bio", n_bootstrap=0)
        assert_same(report, result)


@pytest.mark.parametrize("scheme", ["bio", "iob1", "io", "bioes", "bilou"])
def test_counts_equal_those_of_the_span_lists(scheme):
    letters = {"bio": "BI", "iob1": "BI", "io": "I", "bioes": "BIES", "bilou": "BILU"}[scheme]
    gold, predicted = random_rows(letters, 3000, 11)
    for strict in (False, True):
        result = tl.evaluate(gold, predicted, strict=strict, scheme=scheme, n_bootstrap=0)
        read = {"scheme": scheme} if strict else {}
        for n, pair in enumerate(zip(gold, predicted, strict=True)):
            g, p = (set(tl.labels.to_spans(row, **read)) for row in pair)
            expected = [len(g), len(p), len(g & p)]
            assert result.sentence_counts[n, GOLD_SPANS:].tolist() == expected, pair


def test_the_two_readings_and_why_they_differ():
    gold = [["B-PER", "I-PER", "O"], ["O", "B-LOC", "O"]]
    predicted = [["B-PER", "I-PER", "O"], ["O", "I-LOC", "I-PER"]]
    lenient = tl.evaluate(gold, predicted)
    strict = tl.evaluate(gold, predicted, strict=True, scheme="bio")
    assert lenient.micro[3:] == (2, 3, 2)
    assert strict.micro[3:] == (2, 1, 1)
    (difference,) = lenient.reading_differences
    assert strict.reading_differences == [difference]
    assert (difference.name, difference.scheme) == ("predicted", "bio")
    assert (difference.only_conlleval, difference.only_strict, difference.both) == (2, 0, 1)
    assert difference.reasons == {
        "'I-…' after 'O'": 1,
        "'I-…' after 'I-…' of another type": 1,
    }
    assert (
        "The two readings differ in predicted. Counted by conlleval only: 2 spans; by strict bio "
        "only: 0; by both: 1. Why: 1 time 'I-…' after 'O', "
        "1 time 'I-…' after 'I-…' of another type."
    ) in str(lenient)


def test_reasons_at_the_edges_of_a_sentence():
    result = tl.evaluate([["S-x", "O"]] * 3, [["B-x", "O"], ["E-x", "O"], ["O", "B-x"]])
    (difference,) = result.reading_differences
    assert difference.reasons == {
        "'O' after 'B-…'": 1,
        "'E-…' at the start of a sentence": 1,
        "'B-…' at the end of a sentence": 1,
    }
    assert (difference.only_conlleval, difference.only_strict, difference.both) == (3, 0, 0)


def test_readings_are_compared_for_gold_too_and_only_where_spans_change():
    illegal = [["B-x", "I-x", "O"], ["O", "I-x", "O"]]
    result = tl.evaluate(illegal, illegal, scheme="bio")
    assert [d.name for d in result.reading_differences] == ["gold", "predicted"]
    result = tl.evaluate([["S-x", "O"]], [["B-x", "E-x"]])
    assert (result.scheme, result.reading_differences) == ("bioes", [])
    assert tl.evaluate([["B-x", "O"]], [["B-x", "B-x"]]).reading_differences == []


def test_the_scheme_is_never_chosen_in_silence():
    assert "Scheme: bio, the only one that the gold labels fit." in str(
        tl.evaluate([["B-x"]], [["O"]])
    )
    assert "Scheme: iob1, as requested." in tl.evaluate([["I-x"]], [["O"]], scheme="iob1").note
    unsure = tl.evaluate([["I-x"]], [["O"]])
    assert unsure.scheme is None
    assert "Scheme: unknown. The labels fit iob1 and io alike." in unsure.note
    with raises(SchemeError, found="iob1 and io", options="scheme"):
        tl.evaluate([["I-x"]], [["O"]], strict=True)
    with raises(SchemeError, found="none", message="bio: 1", options="scheme"):
        tl.evaluate([["O", "I-x", "B-y"]], [["O", "O", "O"]], strict=True)
    strict = tl.evaluate([["B-x"]], [["B-x"]], strict=True)
    assert (strict.reading, strict.scheme) == ("strict bio", "bio")


def test_labels_that_do_not_fit_are_named():
    with raises(SchemeError, where="predicted: sentence 1, token 0", found="'E-x'"):
        tl.evaluate([["O"], ["B-x"]], [["O"], ["E-x"]], strict=True, scheme="bio")
    with raises(
        SchemeError, where="predicted: sentence 0, token 1", found="'<unk>'", options="spans"
    ):
        tl.evaluate([["B-x", "O"]], [["B-x", "<unk>"]])
    with raises(SchemeError, where="gold: sentence 0, token 0", expected="of bio", found="'NOUN'"):
        tl.evaluate([["NOUN"]], [["NOUN"]], scheme="bio")
    with raises(SchemeError, parameter="strict", options="spans"):
        tl.evaluate([["B-x"]], [["B-x"]], strict=True, spans=False)


def test_types_without_letters_are_spans_in_io():
    result = tl.evaluate([["PER", "PER", "O"]], [["PER", "O", "O"]], scheme="io")
    assert result.micro[3:] == (1, 1, 0)
    assert list(result.per_type) == ["PER"]


def test_bare_letters_are_spans_without_type():
    result = tl.evaluate([["B", "I", "B"]], [["B", "I", "B"]])
    assert result.micro[3:] == (2, 2, 2)
    assert "(no type)" in str(result)


def test_no_spans_at_all_score_zero_as_in_conlleval():
    result = tl.evaluate([["O", "O"]], [["O", "O"]])
    assert (result.precision, result.recall, result.f1, result.macro.f1) == (0, 0, 0, 0)
    assert result.accuracy == 1
    assert tl.evaluate([], []).f1 == 0
    assert "0 sentences" in str(tl.evaluate([], []))


@pytest.mark.parametrize("zero_division", [0, 1])
@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        (["B-A", "O"], ["O", "B-B"]),
        (["B-A", "O"], ["O", "O"]),
        (["O", "O"], ["B-B", "O"]),
        (["O", "O"], ["O", "O"]),
    ],
)
def test_zero_division_is_that_of_seqeval(gold, predicted, zero_division):
    result = tl.evaluate([gold], [predicted], spans=True, zero_division=zero_division)
    for name in ("micro", "weighted"):
        theirs = precision_recall_fscore_support(
            [gold], [predicted], average=name, zero_division=zero_division
        )
        assert getattr(result, name)[:3] == theirs[:3]
