"""Scores of induced labels, against scikit-learn and SciPy."""

import itertools
import json

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn import metrics

import tagloom as tl
from commands import run
from raising import raises
from tagloom.errors import LabelError, ShapeError
from tagloom.evaluation.assignments import assign


def random_case(rng, G=6, C=8, T=300):
    """Labels and clusters that depend on each other more or less."""
    gold = rng.integers(0, G, T)
    noise = rng.random(T) < rng.random()
    return gold, np.where(noise, rng.integers(0, C, T), (gold * 3 + 1) % C)


# ---- against other libraries -----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_entropies_equal_scikit_learn(seed):
    gold, clusters = random_case(np.random.default_rng(seed), G=1 + seed % 7, C=1 + seed % 5)
    result = tl.evaluate_clusters(gold, clusters)
    expected = metrics.homogeneity_completeness_v_measure(gold, clusters)
    ours = [result.homogeneity, result.completeness, result.v_measure]
    np.testing.assert_allclose(ours, expected, atol=1e-12, rtol=1e-10)
    mutual = metrics.mutual_info_score(gold, clusters) / np.log(2)
    entropies = sum(
        -sum(p * np.log2(p) for p in np.unique(x, return_counts=True)[1] / len(x))
        for x in (gold, clusters)
    )
    distance = entropies - 2 * mutual
    np.testing.assert_allclose(result.variation_of_information, distance, atol=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_mappings_equal_scipy_and_counting(seed):
    gold, clusters = random_case(np.random.default_rng(seed), G=3 + seed % 6, C=3 + seed % 9)
    result = tl.evaluate_clusters(gold, clusters)
    counts = metrics.cluster.contingency_matrix(gold, clusters)
    np.testing.assert_array_equal(result.counts, counts)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    np.testing.assert_allclose(result.one_to_one, counts[rows, columns].sum() / len(gold))
    np.testing.assert_allclose(result.many_to_one, counts.max(axis=0).sum() / len(gold))
    for mapping, share in (
        (result.mapping, result.many_to_one),
        (result.one_to_one_mapping, result.one_to_one),
    ):
        right = [mapping.get(c) == g for g, c in zip(gold.tolist(), clusters.tolist(), strict=True)]
        np.testing.assert_allclose(np.mean(right), share)
    matched = list(result.one_to_one_mapping.values())
    assert len(set(matched)) == len(matched)


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 7), (7, 3), (30, 30), (25, 40)])
def test_assignment_equals_scipy(shape):
    rng = np.random.default_rng(sum(shape))
    for trial in range(20):
        weights = rng.normal(size=shape) if trial % 2 else rng.integers(-3, 4, shape)
        columns = assign(weights)
        rows = np.flatnonzero(columns >= 0)
        assert len(rows) == min(shape)
        assert len(set(columns[rows].tolist())) == len(rows)
        best = linear_sum_assignment(weights, maximize=True)
        np.testing.assert_allclose(weights[rows, columns[rows]].sum(), weights[best].sum())


def test_assignment_equals_enumeration():
    weights = np.random.default_rng(0).integers(0, 9, (4, 5))
    best = max(
        sum(weights[i, j] for i, j in enumerate(columns))
        for columns in itertools.permutations(range(5), 4)
    )
    assert weights[np.arange(4), assign(weights)].sum() == best


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_assignment_of_nothing(shape):
    assert assign(np.zeros(shape)).tolist() == [-1] * shape[0]


@pytest.mark.parametrize("weights", [[1.0, 2.0], [[1.0, np.nan]], [[np.inf]]])
def test_assignment_needs_finite_numbers(weights):
    with raises(ShapeError, parameter="weights"):
        assign(weights)


# ---- cases whose scores are known ------------------------------------------------------------


def scores(gold, clusters):
    result = tl.evaluate_clusters(gold, clusters)
    return [round(value, 12) for value in result.summary().values()]


def test_other_names_are_perfect():
    assert scores(list("ABCABC"), list("312312")) == [1, 1, 1, 1, 1, 0]


def test_one_cluster():
    expected = [0.5, 0.5, 0, 0, 1, 1]  # one bit of the label is lost
    assert scores(list("AABB"), list("1111")) == expected


def test_all_different():
    assert scores(["A", "A", "B", "B"], [0, 1, 2, 3]) == [1, 0.5, round(2 / 3, 12), 1, 0.5, 1]


def test_independent():
    assert scores(list("AABB"), list("1212")) == [0.5, 0.5, 0, 0, 0, 2]


def test_one_label_in_one_cluster():
    assert scores(list("AA"), list("11")) == [1, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("nothing", [[], [[]], np.array([], dtype=int)])
def test_empty(nothing):
    result = tl.evaluate_clusters(nothing, nothing)
    assert list(result.summary().values()) == [0, 0, 1, 1, 1, 0]
    assert (result.n_tokens, result.mapping, result.one_to_one_mapping) == (0, {}, {})
    assert str(result).startswith("0 tokens, 0 labels, 0 clusters.")


# ---- inputs and outputs ------------------------------------------------------------------------


def test_every_form_of_input_gives_the_same():
    gold, clusters = [["N", "V"], [], ["N"]], [[1, 0], [], [0]]
    expected = tl.evaluate_clusters(gold, clusters).to_dict()
    forms = [
        (["N", "V", "N"], [1, 0, 0]),
        (["N", "V", "N"], clusters),
        (gold, np.array([1, 0, 0])),
        (gold, [np.array([1, 0], dtype=np.int32), np.array([], dtype=int), np.array([0])]),
        (iter(gold), tuple(clusters)),
        (tl.Corpus([tl.Sentence(labels, labels=labels) for labels in gold]), clusters),
    ]
    for form in forms:
        assert tl.evaluate_clusters(*form).to_dict() | {"words": {}} == expected


def test_clusters_are_sorted_as_numbers():
    result = tl.evaluate_clusters(["N"] * 4, ["10", "9", "b", "a"])
    assert result.clusters == ["9", "10", "a", "b"]


def test_result_as_data_and_text():
    corpus = tl.Corpus([tl.Sentence(["a", "cat", "a"], labels=["D", "N", "D"])])
    result = tl.evaluate_clusters(corpus, [["7", "8", "7"]])
    data = json.loads(json.dumps(result.to_dict()))
    assert data["mapping"] == data["one_to_one_mapping"] == {"7": "D", "8": "N"}
    assert data["words"] == result.words == {"7": ["a"], "8": ["cat"]}
    assert "7             2  D           D 100%  a" in str(result)
    assert "<table>" in result._repr_html_()
    assert repr(result).startswith("ClusterEvaluation(many_to_one=1.0000")


def test_wrong_lengths():
    with raises(ShapeError, where="predicted: sentence 1", found="1", expected="2 labels"):
        tl.evaluate_clusters([["N"], ["N", "V"]], [[0], [1]])
    with raises(ShapeError, where="predicted", found="2", expected="1 sentence,"):
        tl.evaluate_clusters([["N"]], [[0], [1]])
    with raises(ShapeError, where="predicted", found="1", expected="2 labels"):
        tl.evaluate_clusters(["N", "V"], [0])
    with raises(ShapeError, where="predicted", found="0", expected="1 label,"):
        tl.evaluate_clusters([["N"]], [])
    with raises(ShapeError, where="tokens", found="1", expected="2 tokens"):
        tl.evaluate_clusters([["N", "V"]], [[0, 1]], tokens=[["a"]])


@pytest.mark.parametrize("label", [None, 1.5, True, {"N", "V"}])
def test_wrong_labels(label):
    with raises(LabelError, where="gold, token 1"):
        tl.evaluate_clusters([["N", label]], [[0, 1]])


def test_not_a_collection():
    with raises(ShapeError, parameter="gold"):
        tl.evaluate_clusters("gold.conll", [[0]])
    with raises(ShapeError, where="gold[1]"):
        tl.evaluate_clusters([["N"], "V"], [[0], [1]])
    with raises(LabelError, where="gold: sentence 0"):
        tl.evaluate_clusters(tl.Corpus([tl.Sentence(["a"])]), [[0]])


# ---- the command -------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    (tmp_path / "gold.conll").write_text("the D\ncat N\n\na D\ndog N\nruns V\n")
    (tmp_path / "induced.conll").write_text("the 4\ncat 2\n\na 4\ndog 2\nruns 2\n")
    return tmp_path


def test_command(files):
    done = run(files, "eval", "gold.conll", "induced.conll", "--clusters", "--json")
    assert done.returncode == 0, done.stderr
    expected = tl.evaluate_clusters(*(tl.read(files / f"{n}.conll") for n in ("gold", "induced")))
    assert json.loads(done.stdout) == expected.to_dict()
    assert (expected.many_to_one, expected.words["4"]) == (0.8, ["the", "a"])


def test_command_with_a_model_of_other_labels(files):
    X, y = [["the", "cat"], ["a", "dog", "runs"]], [["4", "2"], ["4", "2", "2"]]
    tl.HMM().fit(X, y).save(files / "induced.tagloom")
    done = run(files, "eval", "induced.tagloom", "gold.conll", "--clusters", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["many_to_one"] == 0.8


def test_command_refuses_options_of_spans(files):
    done = run(files, "eval", "gold.conll", "induced.conll", "--clusters", "--strict")
    assert done.returncode == 2
    assert "--strict does not apply to --clusters" in done.stderr
