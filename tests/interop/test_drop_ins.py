"""The classes of python-crfsuite and sklearn-crfsuite: one programme, run with both packages."""

import pickle

import numpy as np
import pycrfsuite as theirs
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import crfsuite_cases as cases
import tagloom as tl
from raising import raises
from tagloom.errors import NotFittedError, ParameterError, SentenceError
from tagloom.interop import pycrfsuite as ours
from tagloom.interop.sklearn_crfsuite import CRF, metrics, scorers, utils

SEQUENCE = [
    {"walk": 1, "shop": 0.5},
    {"walk": True, "near": {"a": "b", "c": ["d", "e"]}},
    {"солнце": "не светит".encode(), "clean": 1},
    {b"clean": 0.5},
    ["walk", "walk"],
    {},
]
LABELS = ["sunny", "sunny", "rainy", "rainy", "sunny", "好"]
PRECISE = {"c2": 0.5, "epsilon": 1e-7, "delta": 1e-9}


@pytest.fixture(scope="module")
def data():
    return cases.english("train", "chunk", n=80)


def train(package, data, path, params):
    """The programme: train, open, look."""
    trainer = package.Trainer(verbose=False)
    trainer.select("lbfgs")
    trainer.set_params(params)
    for x, y in zip(*data, strict=True):
        trainer.append(x, y)
    trainer.train(str(path))
    tagger = package.Tagger()
    tagger.open(str(path))
    return trainer, tagger


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    paths = folder / "theirs.crfsuite", folder / "ours.crfsuite"
    return paths, [
        train(package, data, path, PRECISE)
        for package, path in zip((theirs, ours), paths, strict=True)
    ]


def test_both_train_the_same_model(data, runs):
    _, [(their_trainer, their_tagger), (our_trainer, our_tagger)] = runs
    n_features = [t.logparser.featgen_num_features for t in (their_trainer, our_trainer)]
    assert n_features[0] == n_features[1]
    X, _ = data
    assert our_tagger.labels() == their_tagger.labels()
    assert [our_tagger.tag(x) for x in X] == [their_tagger.tag(x) for x in X]
    for x in X[:10]:
        a, b = (cases.marginals(t, x, our_tagger.labels()) for t in (our_tagger, their_tagger))
        np.testing.assert_allclose(a, b, atol=0.01)  # two optimisers, each near the optimum
        path = our_tagger.tag()
        assert our_tagger.probability(path) == pytest.approx(
            their_tagger.probability(path), abs=0.02
        )
    losses = [t.logparser.last_iteration["loss"] for t in (our_trainer, their_trainer)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert our_tagger.info().transitions == pytest.approx(their_tagger.info().transitions, abs=0.05)


def test_each_reads_the_files_of_the_other(data, runs):
    paths, _ = runs
    X = data[0][:20]
    for path in paths:
        taggers = [package.Tagger() for package in (theirs, ours)]
        for tagger in taggers:
            tagger.open(str(path))
        expected, results = ([tagger.tag(x) for x in X] for tagger in taggers)
        assert results == expected
        a, b = (tagger.info() for tagger in taggers)
        assert (a.labels, a.attributes) == (b.labels, b.attributes)
        names = ("size", "type", "version", "num_labels", "num_attrs")
        assert [a.header[name] for name in names] == [b.header[name] for name in names]


def test_items_are_read_as_python_crfsuite_reads_them():
    for sequence in (SEQUENCE, [x for x in SEQUENCE if x], [["a"], ("b", "c"), {"d": {"e"}}], []):
        expected, result = theirs.ItemSequence(sequence), ours.ItemSequence(sequence)
        assert len(result) == len(expected)
        for a, b in zip(result.items(), expected.items(), strict=True):
            assert a.keys() == b.keys()
            assert all(a[k] == b[k] or a[k] == 2 for k in a)  # "walk" twice: we show the sum
    for wrong in (["foo"], [{"a": None}], [{1: "a"}]):
        with raises(SentenceError, where="token 0"):
            ours.ItemSequence(wrong)


def test_every_form_of_features_tags_alike(tmp_path):
    results = []
    for package in (theirs, ours):
        _, tagger = train(package, ([SEQUENCE] * 3, [LABELS] * 3), tmp_path / "x", {"c2": 0.1})
        forms = [SEQUENCE, package.ItemSequence(SEQUENCE), iter(SEQUENCE)]
        results.append([tagger.tag(form) for form in forms])
        tagger.close()
    assert results[0] == results[1]
    assert results[1] == [LABELS] * 3


def test_a_closed_tagger():
    tagger = ours.Tagger()
    for method in (tagger.labels, lambda: tagger.tag([["a"]])):
        with raises(NotFittedError, hint="open"):
            method()
    with pytest.raises(RuntimeError, match="closed"):
        tagger.info()


def test_dump_is_what_crfsuite_dumps(runs, tmp_path):
    (path, _), _ = runs
    texts = []
    for package in (theirs, ours):
        tagger = package.Tagger()
        tagger.open(str(path))
        tagger.dump(str(tmp_path / "dump"))
        texts.append((tmp_path / "dump").read_text())
        (tmp_path / "dump").unlink()
    expected, shown = ([line for line in text.splitlines() if "-->" in line] for text in texts)
    assert {x.rpartition(":")[0] for x in shown} == {x.rpartition(":")[0] for x in expected}
    assert [x for x in texts[0].splitlines() if x.endswith("{")] == [
        x for x in texts[1].splitlines() if x.endswith("{")
    ]


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "ap", "pa", "arow"])
def test_parameters_have_the_names_and_defaults_of_crfsuite(algorithm):
    a, b = theirs.Trainer(algorithm, verbose=False), ours.Trainer(algorithm, verbose=False)
    assert a.get_params() == b.get_params()
    with pytest.raises(ValueError, match="nothing"):
        b.set("nothing", 1)
    with pytest.raises(ValueError, match="foo"):
        b.select("foo")


def test_messages_and_held_out_sequences(data, capsys):
    class Counting(ours.Trainer):
        seen = 0

        def on_iteration(self, log, info):
            self.seen += 1
            assert f"#{info['num']}" in log

    trainer = Counting(params={"max_iterations": 4})
    for i, (x, y) in enumerate(zip(*data, strict=True)):
        trainer.append(x, y, group=i % 2)
    trainer.train("", holdout=1)
    last = trainer.logparser.last_iteration
    assert trainer.seen == len(trainer.logparser.iterations) == 4
    assert 0.5 < last["item_accuracy_float"] <= 1
    assert set(last["scores"]) >= {"B-NP", "O"}
    assert "Item accuracy" in capsys.readouterr().out
    with pytest.raises(ValueError, match="differ"):
        trainer.append([["a"]], ["x", "y"])


# sklearn-crfsuite


def test_sklearn_estimator(data, tmp_path):
    X, y = data
    path = tmp_path / "model.crfsuite"
    crf = CRF("lbfgs", c1=0.1, c2=0.1, max_iterations=30, model_filename=str(path)).fit(X, y)
    assert crf.score(X, y) > 0.95
    assert crf.predict(X).shape == (len(X),)
    assert crf.predict_single(X[0]) == list(crf.predict(X)[0])
    assert sum(crf.predict_marginals(X[:1])[0][0].values()) == pytest.approx(1, abs=1e-5)
    assert CRF(model_filename=str(path)).score(X, y) == crf.score(X, y)
    for copied in (pickle.loads(pickle.dumps(crf)), clone(crf).fit(X, y)):
        assert copied.score(X, y) == crf.score(X, y)
    assert cases.open_model(path).tag(X[0]) == crf.predict_single(X[0])
    assert crf.size_ == path.stat().st_size
    assert crf.num_attributes_ == len(crf.attributes_)
    assert tl.interop.convert(crf).predict(X[:5]) == crf.predict(X[:5]).tolist()


def test_sklearn_parameters():
    crf = CRF(c1=0.5)
    assert crf.get_params()["c1"] == 0.5
    assert repr(crf.set_params(c2=2)) == "CRF(c1=0.5, c2=2)"
    with raises(ParameterError, found="nothing"):
        crf.set_params(nothing=1)
    with raises(NotFittedError, hint="fit"):
        crf.predict([[["a"]]])
    with raises(ParameterError, where="fit"):
        crf.fit([], [], [[]])
    assert crf.classes_ is crf.size_ is crf.attributes_ is crf.tagger_ is None


@pytest.mark.parametrize("package", [theirs, ours])
def test_one_label_and_empty_sequences(package, tmp_path):
    trainer = package.Trainer(verbose=False)
    for x, y in [([["a"], ["b"]], ["O", "O"]), ([], []), ([{"a": 1}], ["O"])]:
        trainer.append(x, y)
    trainer.train(str(tmp_path / "one.crfsuite"))
    tagger = package.Tagger()
    tagger.open(str(tmp_path / "one.crfsuite"))
    assert tagger.tag([["a"], ["c"]]) == ["O", "O"]
    assert tagger.tag([]) == []


def test_sklearn_with_one_label_and_empty_sequences():
    X, y = [[], [{"a": 1}, {"b": 1}]], [[], ["O", "O"]]
    assert CRF().fit(X, y).predict(X).tolist() == y


def test_names_that_programs_import(data):
    assert issubclass(SentenceError, ours.CRFSuiteError)
    assert issubclass(ours.Trainer, ours.BaseTrainer)
    assert utils.flatten([["a"], [], ["b"]]) == ["a", "b"]
    crf = CRF(max_iterations=20).fit(*data)
    assert scorers.flat_accuracy(crf, *data) == crf.score(*data)
    assert scorers.sequence_accuracy(crf, *data) <= crf.score(*data)


def test_cross_validation(data):
    X, y = data
    assert cross_val_score(CRF(max_iterations=10), X, y, cv=2).min() > 0.7


def test_metrics():
    a, b = [["x", "z", "y"], ["x", "x"]], [["y", "z", "y"], ["x", "y"]]
    assert metrics.flat_accuracy_score(a, b) == 0.6
    assert metrics.flat_fbeta_score(a, b, beta=1, average="macro") == pytest.approx(2 / 3)
    assert metrics.flat_precision_score(a, b, average="micro") == 0.6
    assert metrics.flat_recall_score(a, b, average="micro") == 0.6
    assert "accuracy" in metrics.flat_classification_report(a, b, labels=["x", "y", "z"])
    assert metrics.sequence_accuracy_score(a, [["x", "z", "y"], ["y", "x"]]) == 0.5
    assert metrics.sequence_accuracy_score([], []) == 0


@pytest.mark.peers
def test_beside_sklearn_crfsuite(data):
    """The settings of its tutorial, side by side."""
    import sklearn_crfsuite
    from sklearn_crfsuite import metrics as their_metrics

    X, y = data
    options = {"algorithm": "lbfgs", "c1": 0.1, "c2": 0.1, "all_possible_transitions": True}
    peer, crf = sklearn_crfsuite.CRF(**options), CRF(**options)
    a, b = (model.fit(X, y).predict(X) for model in (peer, crf))
    same = [p == q for pair in zip(a, b, strict=True) for p, q in zip(*pair, strict=True)]
    assert np.mean(same) > 0.999
    assert crf.classes_ == peer.classes_
    assert crf.get_params() == peer.get_params()
    assert tl.interop.convert(peer).predict(X) == [list(x) for x in a]
    options = {"average": "weighted", "labels": [label for label in crf.classes_ if label != "O"]}
    assert metrics.flat_f1_score(y, a, **options) == their_metrics.flat_f1_score(y, a, **options)
    with pytest.raises(NotFittedError):
        tl.interop.convert(sklearn_crfsuite.CRF())
