"""Hidden Markov models of files with open labels: the model of one process, from any workers."""

import os
import re
import signal

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError, LabelError, ParameterError, SentenceError, TrainingError
from tagloom.models import shards

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h"]


def sentences(n, seed=0, words=WORDS):
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        tokens = [words[i] for i in rng.integers(len(words), size=rng.integers(1, 9))]
        tags = ["XYZ"[(ord(t) + rng.integers(4) // 3) % 3] for t in tokens]
        made.append(tl.Sentence(tokens, labels=tags))
    return made


def write(folder, parts):
    for i, part in enumerate(parts):
        tl.write(tl.Corpus(part), folder / f"{i:02}.jsonl")
    return tl.files(str(folder / "*.jsonl"))


def divided(every):
    return [every[:40], every[40:43], every[43:]]


@pytest.fixture
def small_pieces(monkeypatch):
    """Read files in several pieces, in this process."""
    monkeypatch.setattr(shards, "_PART", 60)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Sentences without labels; words that one shard alone has."""
    every = [tl.Sentence(s.tokens) for s in [*sentences(90), *sentences(30, 1, ["g", "x", "y"])]]
    return write(tmp_path_factory.mktemp("plain"), divided(every)), [s.tokens for s in every]


@pytest.fixture(scope="module")
def partial(tmp_path_factory):
    """Sentences with some labels; the second shard has none."""
    every = sentences(120, seed=2)
    for i, sentence in enumerate(every):
        if i % 3 == 0:
            sentence.labels = [None, *sentence.labels[1:]]
        elif i % 3 == 1 or 40 <= i < 43:
            sentence.labels = [None] * len(sentence)
    every[3].labels = [{"X", "Y"}, *every[3].labels[1:]]  # one of several
    tokens = [s.tokens for s in every]
    labels = [s.labels for s in every]
    return write(tmp_path_factory.mktemp("partial"), divided(every)), (tokens, labels)


UNLABELLED = {
    "em": {},
    "float32": {"dtype": "float32"},
    "restarts": {"restarts": 3},
    "tied": {"tied": [[0, 1]]},
    "left-right": {"allowed": "left-right"},
    "no stop": {"stop": False},
    "vb": {"algorithm": "vb"},
    "gradient": {"algorithm": "gradient"},
    "prior 1": {"emissions": tl.emissions.Categorical(prior=1)},
    "symbols": {"emissions": tl.emissions.Categorical(symbols=[*WORDS, "z"])},
    "words": {"emissions": tl.emissions.Words(smoothing=0, unknown=0)},
    "features": {"emissions": ["word", "suffix(1)"]},
    "log-linear": {"emissions": tl.emissions.LogLinear()},
}


@pytest.mark.parametrize("name", UNLABELLED)
def test_shards_learn_the_model_of_one_process(plain, name, small_pieces):
    source, X = plain
    params = {"n_states": 3, "max_iterations": 12} | UNLABELLED[name]
    one, sharded = tl.HMM(**params).fit(X), tl.HMM(**params).fit(source)
    rtol = 1e-4 if name == "float32" else 1e-9
    assert len(one.history_) > 4
    np.testing.assert_allclose(
        [r.objective for r in sharded.history_], [r.objective for r in one.history_], rtol=rtol
    )
    assert sharded.training_["objectives"] == pytest.approx(one.training_["objectives"], rel=rtol)
    for ours, theirs in zip(sharded.predict_marginals(X), one.predict_marginals(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=100 * rtol)
    assert sharded.training_["shards"] == 3
    assert sharded.training_["tokens"] == sum(map(len, X))


@pytest.mark.parametrize("name", ["em", "vb", "words", "features", "log-linear", "tied"])
def test_any_number_of_workers_gives_the_same_bits(plain, name):
    source, _ = plain
    params = {"n_states": 3, "max_iterations": 5} | UNLABELLED[name]
    models = [tl.HMM(n_workers=n, **params).fit(source) for n in (None, 1, 2)]
    for other in models[1:]:
        same_bits(other, models[0])


def same_bits(ours, theirs):
    assert [r.objective for r in ours.history_] == [r.objective for r in theirs.history_]
    ours, theirs = ours.to_file().arrays, theirs.to_file().arrays
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name])


PARTIAL = {
    "words": {},
    "symbols": {"emissions": tl.emissions.Categorical()},
    "dictionary": {"constraints": tl.TagDictionary(entries={"a": ["X", "Y"], "b": "Z"})},
    "symbols and dictionary": {
        "emissions": tl.emissions.Categorical(),
        "constraints": tl.TagDictionary(3, {"a": ["X", "Y"], "b": "Z"}),
    },
}


@pytest.mark.parametrize("name", PARTIAL)
@pytest.mark.parametrize("n_workers", [None, 2])
def test_open_labels_are_learned(partial, name, n_workers, small_pieces):
    source, (X, y) = partial
    params = {"max_iterations": 8} | PARTIAL[name]
    one, sharded = tl.HMM(**params).fit(X, y), tl.HMM(n_workers=n_workers, **params).fit(source)
    assert one.history_
    np.testing.assert_allclose(
        [r.objective for r in sharded.history_], [r.objective for r in one.history_], rtol=1e-9
    )
    assert sharded.predict(X) == one.predict(X)
    assert sharded.constraints_ == one.constraints_


@pytest.mark.parametrize("emissions", [None, tl.emissions.Categorical()])
def test_a_dictionary_without_labels(plain, emissions):
    source, X = plain
    entries = tl.TagDictionary(entries={w: [y] for w, y in zip("abcd", "XYZX", strict=True)})
    params = {"labels": ["X", "Y", "Z"], "constraints": entries, "max_iterations": 8}
    one = tl.HMM(emissions=emissions, **params).fit(X)
    sharded = tl.HMM(emissions=emissions, n_workers=2, **params).fit(source)
    np.testing.assert_allclose(
        [r.objective for r in sharded.history_], [r.objective for r in one.history_], rtol=1e-9
    )
    assert sharded.predict(X) == one.predict(X)


def test_labels_of_files_do_not_count_beside_n_states(partial):
    source, (X, _) = partial
    one, sharded = (tl.HMM(n_states=2, max_iterations=5).fit(data) for data in (X, source))
    assert sharded.predict(X) == one.predict(X)
    assert list(sharded.labels_) == ["0", "1"]


def test_dead_states_are_reseeded_alike(tmp_path, small_pieces):
    # The second state has no token at the beginning.
    X = [s.tokens for s in sentences(80, words=["a", "b", "c"])]
    source = write(tmp_path, divided([tl.Sentence(tokens) for tokens in X]))
    probs = [[0.4, 0.3, 0.3], [1e-80, 1e-80, 1]]
    emission = tl.emissions.Categorical.from_probs(["0", "1"], ["a", "b", "c"], probs, prior=1)
    start = {"start": [1, 0], "transitions": [[1 - 1e-80, 1e-80], [0.5, 0.5]]}
    params = {"n_states": 2, "stop": False, "max_iterations": 9, "prior": 1.0}
    params["start_from"] = start | {"emission": emission}
    one = tl.HMM(**params).fit(X)
    assert one.training_["reseeded"]
    for n_workers in (None, 2):
        sharded = tl.HMM(n_workers=n_workers, **params).fit(source)
        assert sharded.training_["reseeded"] == one.training_["reseeded"]
        np.testing.assert_allclose(
            [r.objective for r in sharded.history_], [r.objective for r in one.history_], rtol=1e-9
        )


@pytest.mark.parametrize("emissions", [None, tl.emissions.Words(smoothing=0, unknown=0)])
def test_learning_starts_from_a_model(plain, emissions):
    source, X = plain
    params = {"n_states": 3, "emissions": emissions, "max_iterations": 4}
    first = tl.HMM(**params).fit(X)
    one, sharded = (tl.HMM(start_from=first, **params).fit(data) for data in (X, source))
    assert one.history_[0].objective > first.history_[-1].objective
    np.testing.assert_allclose(
        [r.objective for r in sharded.history_], [r.objective for r in one.history_], rtol=1e-9
    )


def test_a_checkpoint_resumes_to_the_same_bits(plain, tmp_path):
    source, _ = plain
    path = tmp_path / "run.ckpt"
    whole = tl.HMM(n_states=3, max_iterations=8).fit(source)
    tl.HMM(n_states=3, max_iterations=3).fit(source, checkpoint=path)
    resumed = tl.HMM(n_states=3, max_iterations=8, n_workers=2).fit(source, checkpoint=path)
    same_bits(resumed, whole)
    with pytest.raises(tl.errors.TagloomError, match="other"):
        tl.HMM(n_states=3, max_iterations=8).fit(tl.files(source.paths[:2]), checkpoint=path)


@pytest.mark.parametrize("corpus", ["plain", "partial"])
def test_killed_workers_do_not_change_a_bit(corpus, request, monkeypatch):
    source, _ = request.getfixturevalue(corpus)
    params = {"n_states": 3} if corpus == "plain" else {}
    whole = tl.HMM(max_iterations=8, **params).fit(source)
    engines = []
    from tagloom.models import counting

    opened = counting.open_engine
    monkeypatch.setattr(
        counting, "open_engine", lambda *a, **k: engines.append(opened(*a, **k)) or engines[-1]
    )

    def kill(record):
        if record.iteration in (2, 5):
            os.kill(engines[0].process_ids[record.iteration % 2], signal.SIGKILL)

    tagger = tl.HMM(max_iterations=8, n_workers=2, **params).fit(source, callback=kill)
    assert engines[0].n_restarts == 2
    same_bits(tagger, whole)


def test_progress_shows_shards_objective_and_exchanges(plain, capsys):
    tl.HMM(n_states=2, max_iterations=2, n_workers=2).fit(plain[0], progress=True)
    shown = capsys.readouterr().err
    assert "HMM, 3 shards on 2 workers" in shown
    assert re.search(r"exchanges of \d+\.\d\d s", shown)


def test_options_that_need_the_sequences_in_memory(plain):
    source, X = plain
    with raises(ParameterError, expected="em, vb or gradient"):
        tl.HMM(n_states=2, algorithm="gibbs").fit(source)
    other = tl.HMM(n_states=2, max_iterations=1).fit(X)
    for name, value in (("match_to", other), ("max_memory", "1G")):
        with raises(ParameterError, parameter=name):
            tl.HMM(n_states=2, **{name: value}).fit(source)
    for name, value in (("y", []), ("sample_weight", [1.0]), ("lengths", [3])):
        with raises(ParameterError, parameter=name):
            tl.HMM(n_states=2).fit(source, **{name: value})
    with raises(ParameterError, parameter="order"):
        tl.HMM(n_states=2, order=2).fit(source)


def test_errors_name_the_file(plain, partial, tmp_path):
    with raises(LabelError) as caught:
        tl.HMM().fit(plain[0])
    assert caught.value.where.startswith(plain[0].paths[0])
    with raises(LabelError) as caught:
        tl.HMM(labels=["X", "Y"]).fit(partial[0])
    assert partial[0].paths[0] in caught.value.where
    source = write(tmp_path, [[tl.Sentence(["a"]), tl.Sentence(["a", "q"])], []])
    model = tl.emissions.Categorical.from_probs(["0", "1"], ["a", "b"], [[0.5, 0.5]] * 2)
    for n_workers in (None, 2):
        tagger = tl.HMM(n_states=2, start_from={"emission": model}, n_workers=n_workers)
        with raises(TrainingError) as caught:
            tagger.fit(source)
        assert caught.value.where == f"{source.paths[0]}, sequence 1"
    with open(source.paths[0], "a") as file:
        file.write("{\n")
    with raises(FormatError) as caught:
        tl.HMM(n_states=2).fit(source)
    assert (caught.value.path, caught.value.line) == (source.paths[0], 3)


def test_empty_files(plain, tmp_path):
    source = write(tmp_path, [[], [tl.Sentence(tokens) for tokens in plain[1]], []])
    sharded = tl.HMM(n_states=3, max_iterations=4, n_workers=2).fit(source)
    one = tl.HMM(n_states=3, max_iterations=4).fit(plain[1])
    assert sharded.predict(plain[1]) == one.predict(plain[1])
    with raises(SentenceError):
        tl.HMM(n_states=3).fit(source.of(source.paths[0]))
