"""Token scores, intervals, the paired test, inputs and outputs."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.metrics

import tagloom as tl
from raising import raises
from tagloom import _native
from tagloom.errors import LabelError, ParameterError, ShapeError
from tagloom.evaluation import counts, scores


def random_tags(labels, count, seed, longest=12):
    random = np.random.default_rng(seed)
    rows = []
    for length in random.integers(0, longest, size=count):
        gold = [str(y) for y in random.choice(labels, length)]
        rows.append(
            (gold, [y if random.random() < 0.8 else str(random.choice(labels)) for y in gold])
        )
    return [g for g, _ in rows], [p for _, p in rows]


def test_token_scores_equal_scikit_learn():
    labels = ["NOUN", "VERB", "ADJ", "É", "a-rather-long-label"]
    gold, predicted = random_tags(labels, 500, 0)
    result = tl.evaluate(gold, predicted)
    flat = [[y for row in rows for y in row] for rows in (gold, predicted)]
    assert result.labels == sorted(labels)
    expected = sklearn.metrics.confusion_matrix(*flat, labels=result.labels)
    np.testing.assert_array_equal(result.confusion, expected)
    assert result.accuracy == sklearn.metrics.accuracy_score(*flat)
    columns = sklearn.metrics.precision_recall_fscore_support(*flat, labels=result.labels)
    for label, *row in zip(result.labels, *columns, strict=True):
        score = result.per_label[label]
        ours = [score.precision, score.recall, score.f1, score.gold]
        np.testing.assert_allclose(ours, row, rtol=1e-12)
    macro = sklearn.metrics.f1_score(*flat, average="macro")
    np.testing.assert_allclose(result.macro.f1, macro, rtol=1e-12)
    exact = np.mean([g == p for g, p in zip(gold, predicted, strict=True)])
    np.testing.assert_allclose(result.sentence_accuracy, exact, rtol=1e-12)


def test_without_spans_f1_is_accuracy():
    result = tl.evaluate([["N", "V", "N"]], [["N", "V", "V"]])
    assert not result.is_spans
    assert (result.reading, result.scheme) == ("tokens", None)
    assert result.precision == result.recall == result.f1 == result.accuracy == 2 / 3
    assert result.per_type == result.per_label
    assert "no spans are counted" in str(result)


def test_spans_may_be_switched_off_and_a_mixed_set_says_so():
    assert not tl.evaluate([["B-x"]], [["B-x"]], spans=False).is_spans
    mixed = tl.evaluate([["B-x", "NOUN"]], [["B-x", "NOUN"]])
    assert not mixed.is_spans
    assert "'B-x' looks like a span label, but 'NOUN' does not" in mixed.note


def test_known_and_unknown_words():
    gold, predicted = [["N", "V"], ["N"]], [["N", "N"], ["V"]]
    tokens = [["they", "fish"], ["fish"]]
    for train in (["they"], {"they"}, [["they", "can"]], [SimpleNamespace(tokens=["they"])]):
        result = tl.evaluate(gold, predicted, train=train, tokens=tokens)
        assert (result.n_known, result.n_unknown) == (1, 2)
        assert (result.accuracy_known, result.accuracy_unknown) == (1.0, 0.0)
    assert "unknown (2)" in str(result)
    assert (
        tl.evaluate(gold, predicted, train=["they", "fish"], tokens=tokens).accuracy_unknown is None
    )
    with raises(ShapeError, parameter="tokens", found="None"):
        tl.evaluate(gold, predicted, train=["they"])


def test_any_objects_with_labels_will_do():
    rows = [["B-x", "I-x"], ["O"]]
    objects = [SimpleNamespace(labels=row, tokens=["w"] * len(row)) for row in rows]
    tuples = tuple(map(tuple, rows))
    arrays = [np.array(row) for row in rows]

    class Row(list):
        pass

    kinds = [rows, [Row(row) for row in rows], objects, tuples, arrays, [tuple(rows[0]), rows[1]]]
    for gold, predicted in itertools.product(kinds, repeat=2):
        assert tl.evaluate(gold, predicted).f1 == 1.0
    assert tl.evaluate(iter(rows), iter(objects)).f1 == 1.0
    assert tl.evaluate(objects, rows, train=["w"]).n_known == 3


def test_strings_are_told_apart_however_they_are_stored():
    # Short and long, ASCII and not, one object or many: the fast paths must agree with ==.
    names = ["A", "AB", "ABCDEFGH", "ABCDEFGHI", "ABCDEFGHJ", "é", "日本", "x\0", "x", ""]
    random = np.random.default_rng(5)
    gold = [[names[i] for i in random.integers(len(names), size=50)] for _ in range(200)]
    predicted = [[y[:0] + "".join(list(y)) for y in row] for row in gold]
    result = tl.evaluate(gold, predicted)
    assert result.accuracy == 1.0
    assert result.labels == sorted(names)
    expected = [sum(row.count(name) for row in gold) for name in sorted(names)]
    assert np.diag(result.confusion).tolist() == expected


def test_many_labels():
    names = [f"L{i}" for i in range(3000)]
    result = tl.evaluate([names], [names[1:] + names[:1]])
    assert result.accuracy == 0
    assert result.confusion.sum() == 3000
    transitions = counts.count_transitions(counts.align({"gold": [names, [], names[:1]]}), 0)
    assert transitions[(None, "L0")] == 2
    assert (
        transitions[("L0", "L1")] == transitions[("L0", None)] == transitions[("L2999", None)] == 1
    )
    assert len(transitions) == 3002


def test_lengths_and_labels_that_do_not_fit():
    with raises(ShapeError, where="predicted", expected="2 sentences, as in gold", found="1"):
        tl.evaluate([["O"], ["O"]], [["O"]])
    with raises(ShapeError, where="predicted: sentence 1", expected="2 labels", found="3"):
        tl.evaluate([["O"], ["O", "O"], []], [["O"], ["O"] * 3, []])
    with raises(ShapeError, where="b: sentence 0", expected="1 label, as in gold", found="2"):
        tl.compare([["O"]], [["O"]], [["O", "O"]])
    with raises(LabelError, where="gold: sentence 0, token 1", found="None (unknown)"):
        tl.evaluate([["O", None]], [["O", "O"]])
    with raises(ShapeError, where="predicted[0]", expected="a list of labels", found="'O'"):
        tl.evaluate([["O"]], ["O"])
    with raises(ShapeError, parameter="gold", found="the str 'a.conll'", hint="tagloom.read"):
        tl.evaluate("a.conll", "b.conll")
    with raises(ShapeError, where="tokens", expected="1 sentence and 1 token", found="1 and 2"):
        tl.evaluate([["O"]], [["O"]], tokens=[["a", "b"]])


def test_repetitions_and_seeds_are_checked_at_once():
    with raises(ParameterError, parameter="n_bootstrap", found="-1"):
        tl.evaluate([["O"]], [["O"]], n_bootstrap=-1)
    with raises(ParameterError, parameter="random_state", found="None"):
        tl.evaluate([["O"]], [["O"]], random_state=None)
    with raises(ParameterError, parameter="n_trials", found="0.5"):
        tl.compare([["O"]], [["O"]], [["O"]], n_trials=0.5)
    with raises(ParameterError, parameter="n_trials", expected="at least 1", found="0"):
        tl.compare([["O"]], [["O"]], [["O"]], n_trials=0)


def test_corpora_from_files(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a", "b"], "labels": ["B-x", null]}\n')
    corpus = tl.read(path)
    with raises(LabelError, where="a.jsonl:1: sentence 0, token 1", found="None (unknown)"):
        tl.evaluate(corpus, corpus)
    corpus = tl.Corpus([["a", "b"], ["c"]], [["B-x", "I-x"], ["O"]])
    result = tl.evaluate(corpus, [["B-x", "I-x"], ["B-x"]], train=corpus[:1])
    assert (result.precision, result.recall, result.n_known) == (0.5, 1.0, 2)
    with raises(LabelError, where="sentence 0", expected="labels", found="none"):
        tl.evaluate(corpus, tl.Corpus([["a", "b"], ["c"]]))


def test_other_words_mean_other_texts():
    class Corpus(list):
        path = "a.conll"

    def corpus(*words):
        sentence = SimpleNamespace(labels=["O"] * len(words), tokens=list(words))
        return Corpus([sentence])

    with raises(ShapeError, where="sentence 0, token 1", expected="'b', as in gold", found="'c'"):
        tl.evaluate(corpus("a", "b"), corpus("a", "c"))
    with raises(ShapeError, where="a.conll: sentence 0", expected="1 label", found="2"):
        tl.evaluate(corpus("a"), corpus("a", "b"))


def test_intervals_equal_a_bootstrap_in_numpy():
    gold, predicted = random_tags(["O", "B-x", "I-x", "B-y"], 300, 1)
    result = tl.evaluate(gold, predicted, n_bootstrap=4000, random_state=3)
    rows = result.sentence_counts.astype(float)
    random = np.random.default_rng(0)
    sums = np.stack([rows[random.integers(300, size=300)].sum(axis=0) for _ in range(4000)])
    f1 = (
        2
        * sums[:, scores.CORRECT_SPANS]
        / (sums[:, scores.GOLD_SPANS] + sums[:, scores.PREDICTED_SPANS])
    )
    accuracy = sums[:, scores.CORRECT] / sums[:, scores.TOKENS]
    for name, values in (("f1", f1), ("accuracy", accuracy)):
        low, high = result.intervals[name]
        expected = np.percentile(values, [2.5, 97.5])
        # The ends of such an interval are themselves random: 4 % of its width is five deviations.
        np.testing.assert_allclose([low, high], expected, rtol=0, atol=0.06 * np.ptp(expected))
        assert low < getattr(result, name) < high


def test_resampling_draws_every_row_equally_often():
    N, R = 7, 20_000
    sums = _native.resample(np.eye(N, dtype=np.int32), R, 1)
    assert (sums.sum(axis=1) == N).all()
    # Each count is binomial(N, 1/N): mean 1, variance 1 - 1/N.
    np.testing.assert_allclose(sums.mean(axis=0), 1, rtol=0, atol=5 * np.sqrt(1 / R))
    np.testing.assert_allclose(sums.var(axis=0), 1 - 1 / N, rtol=0.05)


def test_large_counts_do_not_overflow():
    rows = np.full((1001, 2), 2**30, dtype=np.int32)
    rows[:, 1] = -(2**30)
    np.testing.assert_array_equal(_native.resample(rows, 3, 0)[:, 0], 1001 * 2**30)
    np.testing.assert_array_equal(_native.resample(rows, 3, 0)[:, 1], -1001 * 2**30)
    tossed = _native.toss(rows[:1], np.array([10**6]), 100, 0)
    assert np.all(np.abs(tossed[:, 0] / 2**30 - 500_000) < 5 * 500)


def test_one_seed_gives_one_result():
    gold, predicted = random_tags(["O", "B-x"], 60, 2)
    first, again, other = (
        tl.evaluate(gold, predicted, random_state=s).intervals for s in (0, 0, 1)
    )
    assert first == again != other
    p, same, different = (
        tl.compare(gold, predicted, gold[::1], random_state=s, n_trials=500).p_values
        for s in (0, 0, 1)
    )
    assert p == same
    assert set(p) == set(different)
    # Replicate r does not depend on how many there are.
    rows = np.arange(12, dtype=np.int32).reshape(6, 2)
    np.testing.assert_array_equal(_native.resample(rows, 9, 4)[:5], _native.resample(rows, 5, 4))


def exact_p_values(gold, a, b):
    """Enumerate every way of exchanging the outputs of the sentences."""

    def differences(a, b):
        x, y = (tl.evaluate(gold, rows, n_bootstrap=0).summary() for rows in (a, b))
        return {name: abs(x[name] - y[name]) for name in x}

    observed = differences(a, b)
    extreme = dict.fromkeys(observed, 0)
    for swap in itertools.product([False, True], repeat=len(gold)):
        pairs = [(y, x) if s else (x, y) for s, x, y in zip(swap, a, b, strict=True)]
        for name, value in differences(*zip(*pairs, strict=True)).items():
            extreme[name] += value >= observed[name] - 1e-12
    return {name: count / 2 ** len(gold) for name, count in extreme.items()}


@pytest.mark.parametrize("labels", [["O", "B-x", "I-x"], ["N", "V"]])
def test_p_values_equal_enumeration(labels):
    gold, a = random_tags(labels, 8, 4, longest=7)
    b = [row if i % 3 else g for i, (row, g) in enumerate(zip(a, gold, strict=True))]
    b[1] = [labels[0]] * len(b[1])
    result = tl.compare(gold, a, b, n_trials=20_000)
    expected = exact_p_values(gold, a, b)
    assert set(result.p_values) == set(expected)
    assert min(expected.values()) < 0.9
    for name, p in expected.items():
        # Five standard deviations of 20,000 trials.
        assert abs(result.p_values[name] - p) < 5 * np.sqrt(0.25 / 20_000), name


def test_p_values_of_equal_and_of_very_different_systems():
    gold = [["N", "V", "N"]] * 40
    wrong = [["V", "V", "N"]] * 40
    assert tl.compare(gold, wrong, wrong).p_value == 1.0
    assert tl.compare(gold, wrong, gold).p_value == 1 / 10_001


def test_compare_lists_the_sentences_that_differ():
    gold = [["B-x", "O"], [], ["O"], ["B-x"], ["B-y"]]
    a = [["B-x", "O"], [], ["O"], ["O"], ["O"]]
    b = [["O", "B-x"], [], ["O"], ["B-x"], ["B-x"]]
    tokens = [["p", "q"], [], ["r"], ["s"], ["t"]]
    result = tl.compare(gold, a, b, tokens=tokens)
    assert [item.sentence for item in result.disagreements] == [0, 3, 4]
    first = result.disagreements[0]
    assert (first.tokens, first.gold, first.a, first.b) == (["p", "q"], gold[0], a[0], b[0])
    assert (first.correct_a, first.correct_b) == (2, 0)
    text = str(result)
    assert "Labelled differently: 3 sentences. a has more tokens right in 1, b in 1" in text
    assert "token 1 'q': gold O, a O, b B-x" in text
    assert result.a.f1 == tl.evaluate(gold, a).f1
    assert result.b.f1 == tl.evaluate(gold, b).f1
    # A label that only the other system uses is not in a table of this one.
    assert result.a.labels == tl.evaluate(gold, a).labels


def test_results_print_and_export():
    gold, predicted = random_tags(["O", "B-<i>", "I-<i>"], 30, 6)
    result, comparison = tl.evaluate(gold, predicted), tl.compare(gold, predicted, gold)
    for item in (result, comparison):
        exported = json.loads(json.dumps(item.to_dict()))
        assert exported
        html = item._repr_html_()
        assert "&lt;i&gt;" in html
        assert "<i>" not in html
        assert html.count("<table>") == html.count("</table>") > 0
    exported = result.to_dict()
    assert exported["f1"] == result.f1
    assert exported["scheme"] == result.scheme
    assert exported["confusion"] == result.confusion.tolist()
    lines = str(result).splitlines()
    header = next(line for line in lines if line.startswith("type"))
    assert header.split() == ["type", "precision", "recall", "f1", "gold", "predicted", "correct"]
    assert comparison.to_dict()["p_value"] == comparison.p_value


def test_repr_is_short():
    result = tl.evaluate([["N", "V"]], [["N", "N"]])
    assert repr(result) == "Evaluation(tokens: accuracy=0.5000, sentence_accuracy=0.0000)"
    assert repr(tl.compare([["N"]], [["N"]], [["N"]])).endswith("p_value=1.0000)")


def test_confusions_are_the_commonest_mistakes():
    result = tl.evaluate([["A"] * 3 + ["B"] * 3], [["B", "B", "A", "A", "B", "C"]])
    assert result.confusions(2) == [("A", "B", 2), ("B", "A", 1)]
    assert len(result.confusions()) == 3


def test_native_code_refuses_arrays_that_do_not_fit():
    ids, offsets = np.array([0, 1], np.int32), np.array([0, 2], np.int64)
    for wrong in (
        (ids, ids[:1], offsets, 2),
        (ids, ids, offsets, 1),
        (ids - 1, ids, offsets, 2),
        (ids, ids, offsets[:1], 2),
        (ids, ids, np.array([0, 3, 2]), 2),
        (ids, ids, np.array([1, 2]), 2),
    ):
        with pytest.raises(ValueError, match="matching shapes"):
            _native.count_tokens(*wrong)
    letter, type = np.zeros(2, np.uint8), np.zeros(2, np.int32)
    tables = [np.zeros((2, 5, 5), np.uint8), np.zeros(5, np.uint8)] * 2
    _native.count_spans(ids, ids, offsets, letter, type, 1, *tables)
    for letters, types in ((letter + 5, type), (letter, type + 1), (letter, type[:1])):
        with pytest.raises(ValueError, match="letter and type"):
            _native.count_spans(ids, ids, offsets, letters, types, 1, *tables)
    with pytest.raises(ValueError, match=r"action must be \[2, 5, 5\]"):
        _native.count_spans(
            ids, ids, offsets, letter, type, 1, tables[0][:, :4].copy(), *tables[1:]
        )
    with pytest.raises(ValueError, match="at most 8 counts"):
        _native.resample(np.zeros((3, 9), np.int32), 1, 0)
    with pytest.raises(ValueError, match="copies must"):
        _native.toss(np.zeros((3, 2), np.int32), np.zeros(2, np.int64), 1, 0)
