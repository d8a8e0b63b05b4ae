"""A CRF with many labels: candidates at each token, and weights of sub-tags."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl
from raising import raises
from tagloom import storage
from tagloom.errors import ModelFileError, ParameterError
from tagloom.records import replace
from tagloom.scores import Subtags


def read(split, n):
    """Sentences whose labels have three sub-tags, such as NOUN|Chunk=I-NP|Entity=O."""
    corpus = tl.datasets.load("english", split, label="upos")[:n]
    columns = [(s.labels, s.columns["chunk"], s.columns["entity"]) for s in corpus]
    labels = [
        [f"{pos}|Chunk={chunk}|Entity={entity}" for pos, chunk, entity in zip(*rows, strict=True)]
        for rows in columns
    ]
    return corpus.tokens, labels


ORDERS = pytest.mark.parametrize("order", [1, 2])


@pytest.fixture(scope="module")
def train():
    return read("train", 150)


@pytest.fixture(scope="module")
def test():
    return read("test", 30)


def make(**options):
    return tl.CRF(**{"features": "pos", "prune": 0.02, "max_iterations": 3} | options)


@pytest.fixture(scope="module", params=[1, 2])
def tagger(request, train):
    return make(order=request.param, states="seen").fit(*train)


# Which models are pruned


def fit(n_labels, **options):
    X = [[f"w{10 * i + k}" for k in range(10)] for i in range(11)] * 8
    y = [[f"A|B={int(w[1:]) % n_labels}" for w in row] for row in X]
    return tl.CRF("words", max_iterations=1, **options).fit(X, y)


def test_auto_prunes_many_labels():
    few, many = fit(100), fit(101)
    assert few._fitted.pruning is None
    assert few.scores_.subtags is None
    assert many._fitted.pruning == (0.01, 64)
    assert many.scores_.subtags.names[:2] == ("A", "B=0")
    for options in ({"prune": None}, {"algorithm": "lbfgs"}):
        assert fit(101, **options)._fitted.pruning is None
    assert fit(101, order=2)._fitted.pruning == (0.01, 64)
    assert fit(101, order=3, states="seen")._fitted.pruning is None
    assert fit(101, subtags=None).scores_.subtags is None
    assert fit(101, prune=0.5)._fitted.pruning == (0.5, None)


@pytest.mark.parametrize(
    ("labels", "separator"),
    [
        (["NOUN|Case=Nom|Number=Sing", "PUNCT", "ADJ|Case=Nom"], "|"),
        (["Case=Nom|Number=Sing", "_", "Case=Gen|Number=Sing"], "|"),
        (["NOUN|Case=Nom", "PUNCT", "ADV", "CONJ"], None),  # most have one part
        (["A|B", "A|C", "B|C"], None),  # not features
        (["B-PER", "O"], None),
    ],
)
def test_separator_of_subtags(labels, separator):
    assert Subtags.find_separator(labels) == separator


def test_other_separators():
    X, y = [["a", "b", "c"]] * 4, [["N+s", "V+s", "N+p"]] * 4
    tagger = tl.CRF("words", prune=0.0, subtags="+").fit(X, y)
    assert tagger.predict(X) == y
    assert tagger.scores_.outputs == ("N+p", "N+s", "V+s", "N", "p", "s", "V")


def test_invalid_parameters(train):
    with raises(ParameterError, parameter="prune", found="-1"):
        make(prune=-1).fit(*train)
    with raises(ParameterError, parameter="subtags", found="''"):
        make(subtags="").fit(*train)
    with raises(ParameterError, parameter="prune", expected="lbfgs"):
        make(algorithm="lbfgs").fit(*train)
    with raises(ParameterError, parameter="prune", expected="an order above 2"):
        make(order=3).fit(*train)
    with raises(ParameterError, parameter="prune", expected="edge templates"):
        make(features=["word", "edge(digit)"]).fit(*train)
    with raises(ParameterError, parameter="subtags", hint="prune"):
        make(prune=None, subtags="|").fit(*train)


def test_learning_more_is_refused(tagger, train):
    with raises(ParameterError, parameter="prune", expected="partial_fit"):
        copy.copy(tagger).partial_fit(*train)
    with raises(ParameterError, parameter="warm_start", expected="sub-tags"):
        copy.copy(tagger).set_params(warm_start=True).fit(*train)


# Right


def test_accuracy(tagger, train, test):
    plain = make(prune=None).fit(*train)
    assert tagger.score(*test) > plain.score(*test) - 0.005
    assert tagger.score(*train) > 0.9


def test_results_are_those_of_the_trellis(tagger, test):
    trellis = tagger.trellis(test[0])
    assert trellis.candidates is not None
    assert tagger._fitted.decoder is not None
    assert len(trellis.candidates.label_ids) < 0.3 * trellis.emit.size
    names = tagger.labels_.tolist()
    paths = [[names[y] for y in path] for path in trellis.split(trellis.viterbi().path)]
    assert tagger.predict(test[0]) == paths  # decoded natively
    assert [tagger.predict_one(tokens) for tokens in test[0]] == paths
    assert tagger.predict(test[0], n_threads=2) == tagger.predict(test[0], n_threads=1)
    labels, probs = tagger.predict_with_probs(test[0])
    assert labels == paths
    marginals = tagger.predict_marginals(test[0])
    for row, row_probs, gamma in zip(paths, probs, marginals, strict=True):
        ids = np.searchsorted(names, row)
        assert_allclose(row_probs, gamma[np.arange(len(ids)), ids], rtol=1e-6)
        assert_allclose(gamma.sum(axis=1), 1, rtol=1e-5)
    best = tagger.predict_nbest(test[0], 2)
    assert [ranked[0].labels for ranked in best] == paths
    assert (tagger.entropy(test[0]) >= 0).all()


def test_scores_are_sums_over_subtags(tagger, test):
    """emit by the listed weights of attributes, label by label and sub-tag by sub-tag."""
    sentence = test[0][0]
    emit = tagger.score_sentences([sentence], 1).emit
    attributes = tagger.scores_.extractor.extract(sentence)
    weights = tagger.state_features_
    for y in (0, 7, 31):
        outputs = [tagger.labels_[y], *tagger.labels_[y].split("|")]
        for t, row in enumerate(attributes):
            expected = sum(weights.get((a, output), 0.0) for a in row for output in outputs)
            assert emit[t, y] == pytest.approx(expected, abs=1e-4)


def test_known_labels_that_would_be_pruned(tagger, test):
    sentences = test[0][:6]
    listed = tagger.trellis(sentences).candidates
    worst = next(y for y in range(len(tagger.labels_)) if y not in listed.label_ids)
    label = tagger.labels_[worst]
    known = [[label] + [None] * (len(s) - 1) for s in sentences]
    assert all(row[0] == label for row in tagger.predict(sentences, known=known))
    assert all(g[0, worst] == 1 for g in tagger.predict_marginals(sentences, known=known))


@ORDERS
def test_dictionary_and_state_space(order, train, test):
    words = tl.TagDictionary(min_count=5)
    tagger = make(constraints=words, order=order).fit(*train)
    allowed = tagger.constraints_.dictionary
    for sentence, row in zip(test[0], tagger.predict(test[0]), strict=True):
        assert all(y in allowed.get(w, (y,)) for w, y in zip(sentence, row, strict=True))


def test_explanations(tagger, test):
    """A token with one candidate has no runner-up."""
    explanation = tagger.explain(test[0][0])
    decisions = [decision for decision in explanation if decision.runner_up is not None]
    assert 0 < len(decisions) < len(explanation)
    for decision in decisions:
        total = sum(reason.value for reason in decision.reasons)
        assert total == pytest.approx(decision.margin, abs=1e-9)
    names = {reason.name for decision in decisions for reason in decision.reasons}
    assert any(" → " in name for name in names)


def test_weights_of_a_subtag(tagger):
    rows = tagger.feature_weights(label="Chunk=B-NP", n=5)
    assert {row.label for row in rows} == {"Chunk=B-NP"}
    assert rows[0].weight > 0


# Kept


def test_saved_and_loaded(tagger, test, tmp_path):
    tagger.save(tmp_path / "model.tagloom")
    for other in (
        tl.load(tmp_path / "model.tagloom", verify=True),
        pickle.loads(pickle.dumps(tagger)),
        copy.deepcopy(tagger),
    ):
        assert other.predict(test[0]) == tagger.predict(test[0])
        assert_array_equal(other.trellis(test[0]).marginals(), tagger.trellis(test[0]).marginals())
        assert other.get_params() == tagger.get_params()
    small = tagger.compact(max_bytes=len(tagger.to_bytes()) // 2)
    assert tl.load(small.to_bytes()).predict(test[0]) == small.predict(test[0])


def test_limit_in_files():
    """A model file without `prune_most` has no limit."""
    tagger = fit(101)
    data = tagger.to_bytes()
    assert tl.load(data)._fitted.pruning == (0.01, 64)
    header, arrays = storage.read_bytes(data)
    assert (header["prune"], header.pop("prune_most")) == (0.01, 64)
    assert tl.load(storage.to_bytes(header, arrays))._fitted.pruning == (0.01, None)
    assert "prune_most" not in fit(101, prune=0.5).to_file().header


@pytest.mark.parametrize(
    "damage",
    [{"prune": 2.0}, {"prune": "x"}]
    + [{"prune_most": most} for most in (0, -1, 2.5, True, "x", [3])],
)
def test_damaged_rule(tagger, damage):
    header, arrays = storage.read_bytes(tagger.to_bytes())
    with pytest.raises(ModelFileError):
        tl.load(storage.to_bytes(header | damage, arrays))


def test_files_with_other_values(tagger):
    file = tagger.to_file()
    for changes in ({"subtags": ""}, {"subtags": 3}):
        header = {**file.header, **changes}
        with pytest.raises((ModelFileError, ParameterError)):
            tl.CRF.from_file(replace(file, header=header))


@ORDERS
def test_checkpoint_resumes_to_the_same_bits(order, train, tmp_path):
    options = {"order": order, "states": "seen"}
    through = make(max_iterations=4, **options).fit(*train)
    path = tmp_path / "run.checkpoint"
    make(max_iterations=2, **options).fit(*train, checkpoint=path)
    resumed = make(max_iterations=4, **options).fit(*train, checkpoint=path)
    assert_array_equal(resumed.scores_.rows.weights, through.scores_.rows.weights)
    assert_array_equal(resumed.scores_.trans, through.scores_.trans)
    assert through.scores_.tied.any() == (order == 2)
    assert_array_equal(resumed.scores_.tied, through.scores_.tied)


@ORDERS
def test_threads_and_dev_do_not_change_the_weights(order, train, test):
    one, two = (make(n_threads=n, order=order).fit(*train) for n in (1, 2))
    assert_array_equal(one.scores_.rows.weights, two.scores_.rows.weights)
    best = make().fit(*train, dev=test)
    assert best.training_["dev"] == pytest.approx(best.score(*test))


@ORDERS
def test_dict_features(order, train, test):
    def items(sentences):
        return [[{"w": w, "s": w[-2:]} for w in tokens] for tokens in sentences]

    tagger = tl.CRF(features=None, prune=0.02, order=order).fit(items(train[0]), train[1])
    X = items(test[0])
    trellis = tagger.trellis(X)
    names = tagger.labels_.tolist()
    assert tagger.predict(X) == [
        [names[y] for y in path] for path in trellis.split(trellis.viterbi().path)
    ]


def test_other_tools_have_no_subtags(tagger):
    with raises(ParameterError, where="to_crfsuite", found="sub-tags"):
        tl.interop.to_crfsuite(tagger)
