"""Learning from shards: what one process learns, and the same bits for any number of workers."""

import json
import os
import re
import signal
import threading

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import DataWarning, FormatError, LabelError, ParameterError, SentenceError
from tagloom.models import shards
from tagloom.models.sharded import read_files

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h"]


def sentences(n, seed=0, labels="XYZ"):
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        tokens = [WORDS[i] for i in rng.integers(len(WORDS), size=rng.integers(1, 9))]
        tags = [labels[(ord(t) + rng.integers(4) // 3) % len(labels)] for t in tokens]
        made.append(tl.Sentence(tokens, labels=tags))
    return made


def write(folder, parts):
    for i, part in enumerate(parts):
        tl.write(tl.Corpus(part), folder / f"{i:02}.conll", "conll")
    return tl.files(str(folder / "*.conll"), "conll")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    every = sentences(120)
    source = write(tmp_path_factory.mktemp("shards"), [every[:30], every[30:35], every[35:]])
    return source, tl.Corpus(every)


def weights(tagger):
    scores = tagger.scores_
    return np.concatenate([scores.rows.weights, scores.trans.ravel(), scores.start, scores.stop])


def without_times(tagger, path):
    tagger.save(path)
    tagger = tl.load(path)
    tagger.training_ = {k: v for k, v in tagger.training_.items() if k != "seconds"}
    tagger.history_[:] = [record._replace(seconds=0.0) for record in tagger.history_]
    tagger.save(path)
    return path.read_bytes()


CASES = {
    "crf": lambda **more: tl.CRF("words", algorithm="lbfgs", **more),
    "min_count": lambda **more: tl.CRF(
        ["word[-1..1]", "word[-1] & word"], algorithm="lbfgs", min_count=3, **more
    ),
    "edges": lambda **more: tl.CRF(["word", "edge(word)"], algorithm="lbfgs", **more),
    "order 2": lambda **more: tl.CRF("words", algorithm="lbfgs", order=2, states="seen", **more),
    "all": lambda **more: tl.CRF("words", algorithm="lbfgs", combinations="all", **more),
    "transitions": lambda **more: tl.CRF(
        "words", algorithm="lbfgs", transitions="all", boundaries=False, **more
    ),
    "owl-qn": lambda **more: tl.CRF("words", algorithm="lbfgs", l1=0.3, select="l1", **more),
    "token": lambda **more: tl.TokenClassifier(["word[-1..1]"], algorithm="lbfgs", **more),
    "memm": lambda **more: tl.MEMM(["word", "edge(word)"], algorithm="lbfgs", **more),
}


@pytest.mark.parametrize("name", CASES)
def test_shards_give_the_model_of_one_process(corpus, name):
    source, whole = corpus
    make = CASES[name]
    one, sharded = make().fit(whole), make().fit(source)
    ours, theirs = sharded.scores_, one.scores_
    np.testing.assert_array_equal(ours.index.keys(), theirs.index.keys())
    assert ours.names.blob == theirs.names.blob
    assert [r.loss for r in sharded.history_[:20]] == pytest.approx(
        [r.loss for r in one.history_[:20]], rel=1e-6
    )
    assert sharded.predict(whole) == one.predict(whole)
    assert sharded.training_["tokens"] == one.training_["tokens"]
    assert sharded.training_["shards"] == 3


@pytest.mark.parametrize("name", ["crf", "min_count", "edges", "order 2", "owl-qn", "memm"])
def test_float64_gives_the_losses_of_one_process(corpus, name):
    source, whole = corpus
    make = CASES[name]
    one, sharded = make(dtype="float64").fit(whole), make(dtype="float64").fit(source)
    assert [r.loss for r in sharded.history_[:30]] == pytest.approx(
        [r.loss for r in one.history_[:30]], rel=1e-10
    )


@pytest.mark.parametrize("name", ["crf", "min_count", "edges", "order 2", "memm"])
def test_layout_and_mask_are_those_of_one_process(corpus, name):
    source, whole = corpus
    tagger = CASES[name]()
    data = tagger.read_data(whole, None, None)
    objective, layout = tagger._make_objective(data)
    sharded = read_files(tagger, source, None, None)
    for field in ("labels", "ptr", "cols", "edge_ptr", "edge_cols", "ties"):
        np.testing.assert_array_equal(getattr(sharded.layout, field), getattr(layout, field))
    np.testing.assert_array_equal(sharded.objective.mask(), objective.mask())
    theta = np.random.default_rng(1).normal(size=layout.n_weights)
    grad = np.empty(layout.n_weights)
    loss = objective.evaluate(theta * objective.mask(), grad, 1)
    found_loss, found = sharded.objective.evaluate(theta * objective.mask())
    assert found_loss == pytest.approx(loss, rel=1e-6)
    np.testing.assert_allclose(found, grad, rtol=1e-4, atol=1e-4)
    sharded.close()


def test_any_number_of_workers_gives_the_same_file(corpus, tmp_path):
    source, _ = corpus
    files = set()
    for n_workers in (None, 1, 2):
        tagger = tl.CRF("words", algorithm="lbfgs", max_iterations=5, n_workers=n_workers)
        files.add(without_times(tagger.fit(source), tmp_path / "m.tagloom"))
    # Nothing is kept in memory, or all of it.
    tagger = tl.CRF("words", algorithm="lbfgs", max_iterations=5, max_memory="1K")
    files.add(without_times(tagger.fit(source), tmp_path / "m.tagloom"))
    assert len(files) == 1


def test_a_checkpoint_resumes_to_the_same_weights(corpus, tmp_path):
    source, _ = corpus
    path = tmp_path / "run.ckpt"

    def make(n, **more):
        return tl.CRF("words", algorithm="lbfgs", max_iterations=n, **more)

    whole = make(8).fit(source)
    make(3).fit(source, checkpoint=path)
    resumed = make(8, n_workers=2).fit(source, checkpoint=path)
    np.testing.assert_array_equal(weights(resumed), weights(whole))
    assert [r.iteration for r in resumed.history_] == list(range(1, 9))


def test_killed_workers_do_not_change_a_bit(corpus):
    source, _ = corpus
    whole = tl.CRF("words", algorithm="lbfgs", max_iterations=12).fit(source)
    tagger = tl.CRF("words", algorithm="lbfgs", max_iterations=12, n_workers=2)
    data = tagger.read_data(source, None, None)

    def kill(record):
        if record.iteration in (2, 7):
            os.kill(data.engine.process_ids[record.iteration % 2], signal.SIGKILL)

    tagger.fit_data(data, callback=kill)
    assert data.engine.n_restarts == 2
    tagger.release(data)
    np.testing.assert_array_equal(weights(tagger), weights(whole))


def test_a_worker_killed_at_any_moment(corpus):
    source, _ = corpus
    whole = tl.CRF("words", algorithm="lbfgs", max_iterations=10).fit(source)
    tagger = tl.CRF("words", algorithm="lbfgs", max_iterations=10, n_workers=1)
    data = tagger.read_data(source, None, None)
    timer = threading.Timer(0.02, lambda: os.kill(data.engine.process_ids[0], signal.SIGKILL))
    timer.start()
    tagger.fit_data(data, callback=lambda record: timer.join(0.01))
    tagger.release(data)
    np.testing.assert_array_equal(weights(tagger), weights(whole))


def test_progress_shows_shards_loss_and_exchanges(corpus, capsys):
    tl.CRF("words", algorithm="lbfgs", max_iterations=2, n_workers=2).fit(corpus[0], verbose=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("CRF, 3 shards on 2 workers")
        assert re.search(r"loss [\d.,]+ .* exchanges of \d+\.\d\d s", line)


def test_development_data_choose_the_iteration(corpus):
    source, _ = corpus
    dev = tl.Corpus(sentences(20, seed=5))
    tagger = tl.CRF("words", algorithm="lbfgs", max_iterations=6).fit(source, dev=dev)
    assert all(record.dev is not None for record in tagger.history_)
    assert tagger.training_["dev"] == pytest.approx(tagger.score(dev))


@pytest.mark.parametrize("name", ["crf", "min_count", "edges", "order 2", "memm"])
@pytest.mark.parametrize("n_workers", [None, 2])
def test_development_files_are_scored_on_the_shards(corpus, name, n_workers, tmp_path):
    source, _ = corpus
    every = sentences(20, seed=5)
    dev = write(tmp_path, [every[:12], every[12:]])
    make = CASES[name]
    ours = make(max_iterations=6, n_workers=n_workers).fit(source, dev=dev)
    theirs = make(max_iterations=6).fit(source, dev=tl.Corpus(every))
    assert [r.dev for r in ours.history_] == [r.dev for r in theirs.history_]
    np.testing.assert_array_equal(weights(ours), weights(theirs))


def test_development_files_of_spans(tmp_path):
    def some(n, seed):
        rng = np.random.default_rng(seed)
        tags = [["B-PER", "I-PER"], ["O", "O"], ["O", "B-LOC"], ["B-LOC", "O"]]
        return [
            tl.Sentence([WORDS[(3 * i + j) % 8] for j in range(2)], labels=tags[i])
            for i in rng.integers(4, size=n)
        ]

    for name in ("train", "dev"):
        (tmp_path / name).mkdir()
    source = write(tmp_path / "train", [some(20, 0), some(20, 1)])
    dev = write(tmp_path / "dev", [some(9, 2), some(7, 3), some(5, 4)])
    ours = tl.CRF("words", algorithm="lbfgs", max_iterations=4).fit(source, dev=dev)
    theirs = tl.CRF("words", algorithm="lbfgs", max_iterations=4).fit(
        source, dev=tl.Corpus(list(dev))
    )
    assert ours.scheme_ == "bio"
    assert [r.dev for r in ours.history_] == [r.dev for r in theirs.history_]
    in_memory = tl.CRF("words", max_iterations=2).fit(tl.Corpus(list(source)), dev=dev)
    assert in_memory.history_[0].dev is not None


def test_development_files_without_tokens(corpus, tmp_path):
    dev = write(tmp_path, [[]])
    with raises(LabelError, parameter="dev", found="no tokens"):
        tl.CRF("words", algorithm="lbfgs").fit(corpus[0], dev=dev)


def test_features_follow_the_labels_of_all_shards(tmp_path):
    names = [tl.Sentence(["Ada", "wrote"], labels=["B-PER", "O"])] * 3
    plain = [tl.Sentence(["she", "wrote"], labels=["O", "O"])] * 3
    source = write(tmp_path, [plain, names])
    tagger = tl.CRF(algorithm="lbfgs").fit(source)
    whole = tl.CRF(algorithm="lbfgs").fit(tl.Corpus(plain + names))
    assert tagger.scores_.extractor.templates == whole.scores_.extractor.templates
    assert tagger.scheme_ == whole.scheme_ == "bio"


def test_open_labels(tmp_path):
    every = sentences(40)
    for sentence in every[::3]:
        sentence.labels = [None, *sentence.labels[1:]]
    for sentence in every[1::5]:
        sentence.labels = [frozenset("XY"), *sentence.labels[1:]]
    for i, part in enumerate((every[:20], every[20:])):
        tl.write(tl.Corpus(part), tmp_path / f"{i}.jsonl", "jsonl")
    source = tl.files(str(tmp_path / "*.jsonl"))
    whole = tl.CRF("words", algorithm="lbfgs").fit(tl.Corpus(every))
    sharded = tl.CRF("words", algorithm="lbfgs").fit(source)
    assert sharded.predict(every) == whole.predict(every)
    assert sharded.history_[5].loss == pytest.approx(whole.history_[5].loss, rel=1e-6)


# ---- faults of single files --------------------------------------------------------------------


@pytest.mark.parametrize("n_workers", [None, 2])
def test_a_bad_line_is_named(tmp_path, n_workers):
    source = write(tmp_path, [sentences(5), sentences(5), sentences(5)])
    with open(tmp_path / "01.conll", "a") as file:
        file.write("alone\n\n")
    with pytest.raises(FormatError) as caught:
        tl.CRF("words", algorithm="lbfgs", n_workers=n_workers).fit(source)
    assert caught.value.path == str(tmp_path / "01.conll")
    assert caught.value.line is not None


def test_an_empty_file_and_a_late_label_are_fine(tmp_path):
    late = [*sentences(5), tl.Sentence(["q"], labels=["W"])]
    source = write(tmp_path, [sentences(10), [], late])
    tagger = tl.CRF("words", algorithm="lbfgs", l2=0.01, n_workers=2).fit(source)
    assert tagger.labels_.tolist() == ["W", "X", "Y", "Z"]
    assert tagger.predict([["q"]]) == [["W"]]


def test_only_empty_files(tmp_path):
    source = write(tmp_path, [[], []])
    with raises(SentenceError, expected="at least one sentence", found="none"):
        tl.CRF("words", algorithm="lbfgs").fit(source)


def test_a_violation_of_the_scheme_in_one_shard_warns(tmp_path):
    good = [tl.Sentence(["Ada", "L"], labels=["B-PER", "I-PER"])] * 4
    bad = [tl.Sentence(["x", "Ada"], labels=["O", "I-LOC"])]
    source = write(tmp_path, [good, bad])
    with pytest.warns(DataWarning) as caught:
        sharded = tl.CRF("words", algorithm="lbfgs").fit(source)
    with pytest.warns(DataWarning) as expected:
        whole = tl.CRF("words", algorithm="lbfgs").fit(tl.Corpus(good + bad))
    assert [str(w.message) for w in caught] == [str(w.message) for w in expected]
    assert sharded.scheme_ == whole.scheme_


def test_a_label_outside_the_given_set_is_located(tmp_path):
    source = write(tmp_path, [sentences(5, labels="XY"), sentences(5, labels="XYZ")])
    with pytest.raises(LabelError) as caught:
        tl.CRF("words", algorithm="lbfgs", labels=["X", "Y"]).fit(source)
    assert caught.value.where.startswith(str(tmp_path / "01.conll:"))


@pytest.mark.parametrize(
    ("params", "arguments", "parameter"),
    [
        ({}, {"y": [["X"]]}, "y"),
        ({}, {"sample_weight": [1.0]}, "sample_weight"),
        ({"warm_start": True}, {}, "warm_start"),
        ({"constrain_training": True}, {}, "constrain_training"),
        ({"n_workers": 0}, {}, "n_workers"),
        ({"max_memory": "lots"}, {}, "max_memory"),
        ({"cluster": ""}, {}, "cluster"),
    ],
)
def test_options_that_files_do_not_allow(corpus, params, arguments, parameter):
    with raises(ParameterError, parameter=parameter):
        tl.CRF("words", algorithm="lbfgs", **params).fit(corpus[0], **arguments)


def test_models_that_need_a_corpus_in_memory_say_so(corpus):
    with raises(ParameterError, found="files"):
        tl.SemiCRF("words").fit(corpus[0])


def test_a_model_file_does_not_say_where_it_was_trained(corpus, tmp_path):
    tl.CRF("words", algorithm="lbfgs", n_workers=2).fit(corpus[0]).save(tmp_path / "m")
    assert tl.load(tmp_path / "m").n_workers is None
    assert "n_workers" not in json.dumps(tl.load(tmp_path / "m").to_file().header)


# ---- mixing and counting -----------------------------------------------------------------------


ONLINE = {
    "adagrad": lambda **more: tl.CRF("words", max_iterations=6, **more),
    "sgd": lambda **more: tl.CRF("words", algorithm="sgd", l2=0.1, max_iterations=6, **more),
    "seen": lambda **more: tl.CRF("words", combinations="seen", max_iterations=6, **more),
    "memm": lambda **more: tl.MEMM(["word"], max_iterations=6, **more),
    "perceptron": lambda **more: tl.StructuredPerceptron("words", max_iterations=6, **more),
    "svm": lambda **more: tl.StructuredSVM(
        "words", algorithm="subgradient", max_iterations=6, **more
    ),
    "token": lambda **more: tl.TokenClassifier("words", loss="hinge", max_iterations=6, **more),
}


@pytest.mark.parametrize("name", ONLINE)
def test_one_process_learns_from_files_as_from_memory(corpus, name):
    source, whole = corpus
    np.testing.assert_array_equal(
        weights(ONLINE[name]().fit(source)), weights(ONLINE[name]().fit(whole))
    )


@pytest.mark.parametrize("name", ONLINE)
def test_pieces_are_visited_in_turn(corpus, name, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_PART", 40)
    monkeypatch.setattr(shards, "_PIECE", 100)
    source, whole = corpus
    make = ONLINE[name]
    one, pieces = make().fit(whole), make().fit(source)
    assert pieces.score(whole) > one.score(whole) - 0.02
    assert len(pieces.history_) == len(one.history_)
    spilled = make(max_memory="1K").fit(source)
    np.testing.assert_array_equal(weights(spilled), weights(pieces))
    path = tmp_path / "run.ckpt"
    make().set_params(max_iterations=3).fit(source, checkpoint=path)
    resumed = make().fit(source, checkpoint=path)
    np.testing.assert_array_equal(weights(resumed), weights(pieces))


def test_penalties_refer_to_all_pieces(tmp_path, monkeypatch):
    """Copies of one sentence give the same weights, however they are divided."""
    same = [tl.Sentence(["a", "b"], labels=["X", "Y"])] * 40
    source = write(tmp_path, [same])

    def fitted():
        return weights(tl.CRF("words", algorithm="sgd", l2=1.0, max_iterations=3).fit(source))

    one = fitted()
    monkeypatch.setattr(shards, "_PART", 8)
    monkeypatch.setattr(shards, "_PIECE", 16)
    np.testing.assert_allclose(fitted(), one, rtol=1e-5)


def test_dual_learners_need_a_corpus_in_memory(corpus):
    with raises(ParameterError, found="files"):
        tl.StructuredSVM("words", algorithm="frank-wolfe").fit(corpus[0])


@pytest.mark.parametrize("name", ["adagrad", "memm", "perceptron"])
def test_online_learners_are_mixed(corpus, name, tmp_path):
    source, whole = corpus

    def make(n=6, **more):
        return ONLINE[name](n_workers=2, **more).set_params(max_iterations=n)

    mixed, one = make().fit(source), ONLINE[name]().fit(whole)
    assert mixed.score(whole) > one.score(whole) - 0.02
    again = make().set_params(n_workers=1).fit(source)
    np.testing.assert_array_equal(weights(again), weights(mixed))
    path = tmp_path / "run.ckpt"
    make(1).fit(source, checkpoint=path)
    make(4).fit(source, checkpoint=path)
    resumed = make().fit(source, checkpoint=path)
    np.testing.assert_array_equal(weights(resumed), weights(mixed))


def test_weights_are_averaged_over_the_shards_that_moved_them(tmp_path):
    only = [tl.Sentence(["q"], labels=["W"])] * 30
    source = write(tmp_path, [sentences(30), sentences(30, seed=1), sentences(30, seed=2), only])
    mixed = tl.CRF("words", max_iterations=2, n_workers=2).fit(source)
    alone = tl.CRF("words", max_iterations=2, labels=["W", "X", "Y", "Z"], average=False).fit(
        tl.Corpus([*only, *sentences(1)])
    )
    # One shard of four has the word; its weight is not divided by four.
    ours, theirs = (model.predict_marginals([["q"]])[0][0, 0] for model in (mixed, alone))
    assert ours > 0.8 * theirs


@pytest.mark.parametrize("name", ["svm", "token"])
def test_learners_that_cannot_be_mixed_say_so(corpus, name):
    with raises(ParameterError, expected="a CRF or a perceptron with several workers"):
        ONLINE[name](n_workers=2).fit(corpus[0])


@pytest.mark.parametrize("params", [{}, {"order": 2}, {"emissions": ["word", "suffix(1)"]}])
def test_counts_of_shards_add_up(corpus, params):
    source, whole = corpus
    one = tl.HMM(**params).fit(whole)
    sharded = tl.HMM(n_workers=2, **params).fit(source)
    assert sharded.training_["tokens"] == one.training_["tokens"]
    for ours, theirs in zip(sharded.log_transitions_, one.log_transitions_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    X = [["a", "b", "unseen"], ["h"]]
    for ours, theirs in zip(sharded.predict_marginals(X), one.predict_marginals(X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
