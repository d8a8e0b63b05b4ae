"""Tagger files: hostile, damaged, foreign, newer; and smaller ones."""

import contextlib
import json
import random
import struct

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom import storage
from tagloom.errors import ModelFileError, ParameterError, TagloomError


@pytest.fixture(scope="module")
def train():
    return tl.datasets.load("english", "train", label="upos")[:80]


@pytest.fixture(scope="module")
def tagger(train):
    return tl.CRF(features="pos", algorithm="lbfgs", max_iterations=10).fit(train)


@pytest.fixture(scope="module")
def small():
    X = [["they", "can", "fish"], ["fish", "can", "swim"]]
    features = ["word[-1..1]", "suffix(2)", "edge(shape)"]
    return tl.CRF(features=features).fit(X, [["N", "V", "V"], ["N", "V", "N"]])


def contents(tagger):
    return storage.read_bytes(tagger.to_bytes())


def restored(tmp_path, header, arrays):
    path = tmp_path / "changed.tagloom"
    storage.write(path, header, arrays)
    return tl.load(path)


def changes(header, arrays):
    """Every way to make a well-formed container that holds a wrong tagger."""
    rng = np.random.default_rng(0)
    for name in list(header):
        for value in (None, 0, -1, "x", [], {}, [None], {"kind": 3}, [[1]], 10**30):
            yield f"header {name} = {value!r}", {**header, name: value}, arrays
        yield f"no {name}", {k: v for k, v in header.items() if k != name}, arrays
    for name, array in arrays.items():
        yield f"no {name}", header, {k: v for k, v in arrays.items() if k != name}
        for changed in (
            array[:0],
            array[:-1],
            np.concatenate([array, array]),
            array.astype(np.float64),
            array.astype(np.int64),
            np.full_like(array, np.iinfo(array.dtype).max if array.dtype.kind in "ui" else np.nan),
            array.reshape(1, *array.shape),
            rng.permutation(array),
            np.zeros_like(array),
        ):
            yield f"{name}: {changed.dtype} {changed.shape}", header, {**arrays, name: changed}


def test_whatever_a_file_holds_it_is_refused_or_harmless(small, tmp_path):
    X = [["they", "can", "fish", "unseen", "é"], []]
    header, arrays = contents(small)
    refused = 0
    for what, new_header, new_arrays in changes(header, arrays):
        try:
            tagger = restored(tmp_path, new_header, new_arrays)
            tagger.predict(X)
            tagger.predict_marginals(X)
            tagger.feature_weights()
        except TagloomError:
            refused += 1
        except BaseException as error:
            raise AssertionError(what) from error
    assert refused > 100


def test_random_damage(small, tmp_path):
    data = bytearray(small.to_bytes())
    path = tmp_path / "damaged.tagloom"
    rng = random.Random(0)
    for _ in range(2000):
        copy = bytearray(data)
        for _ in range(rng.choice([1, 1, 1, 4, 64])):
            copy[rng.randrange(len(copy))] = rng.randrange(256)
        if rng.random() < 0.2:
            del copy[rng.randrange(len(copy)) :]
        path.write_bytes(copy)
        with contextlib.suppress(TagloomError):  # refused is right; anything else fails the test
            tl.load(path).predict([["they", "can"]])


@pytest.mark.parametrize(
    "params", [{"n_threads": -1}, {"min_count": 0}, {"eta": "fast"}, {"order": 2.5}], ids=str
)
def test_parameters_of_a_file_are_checked(small, params):
    header, arrays = contents(small)
    forged = {**header, "params": {**header["params"], **params}}
    with raises(ModelFileError, where="<bytes>", parameter=next(iter(params))):
        tl.load(storage.to_bytes(forged, arrays))


def test_edge_weights_need_edge_templates(small):
    header, arrays = contents(small)
    forged = {**header, "features": tl.features.make(["word"]).to_dict()}
    with raises(ModelFileError, expected="edge templates", found="none"):
        tl.load(storage.to_bytes(forged, arrays))


def test_every_byte_counts(small):
    """One wrong byte anywhere in a small file, and it is refused."""
    data = small.to_bytes()
    rng = random.Random(1)
    for at in [rng.randrange(len(data)) for _ in range(500)]:
        wrong = bytearray(data)
        wrong[at] ^= 1 << rng.randrange(8)
        with pytest.raises(TagloomError):
            tl.load(bytes(wrong))


def test_foreign_and_newer_files(tmp_path, small):
    path = tmp_path / "x.tagloom"
    path.write_text("They can fish\n")
    with raises(ModelFileError, where="x.tagloom", found="They can"):
        tl.load(path)
    with pytest.raises(FileNotFoundError):
        tl.load(tmp_path / "missing.tagloom")
    header, arrays = contents(small)
    with pytest.raises(ModelFileError) as error:
        restored(tmp_path, {**header, "model": "Oracle"}, arrays)
    assert error.value.found == "a model of the kind 'Oracle'"
    assert "CRF" in error.value.expected
    with pytest.raises(ModelFileError) as error:
        restored(tmp_path, {**header, "kind": "checkpoint"}, arrays)
    assert error.value.found == "a 'checkpoint'"


def test_the_weights_of_large_files_are_verified_on_demand(tmp_path, tagger, monkeypatch):
    path = tmp_path / "m.tagloom"
    tagger.save(path)
    data = bytearray(path.read_bytes())
    at = data.find(tagger.scores_.rows.weights.tobytes())
    assert at > 0
    data[at : at + 4] = struct.pack("<f", 3.25)
    path.write_bytes(data)
    tl.load(path, verify=False)  # the weights are not read
    with raises(ModelFileError, found="weights"):
        tl.load(path)  # a small file is verified whole
    monkeypatch.setattr("tagloom.storage.files.VERIFIED_WHOLE", 1000)
    tl.load(path)  # a large one on request
    with raises(ModelFileError, found="weights"):
        tl.load(path, verify=True)


def test_nothing_is_pickled(tmp_path, tagger):
    path = tmp_path / "m.tagloom"
    tagger.save(path)
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    json.loads(data[8 : 8 + n])  # the header is JSON, the rest are arrays
    assert b"cnumpy" not in data


def test_a_function_is_saved_by_name_only(tmp_path):
    def word2features(sentence):
        return [{"word": word, "n": float(len(word))} for word in sentence]

    X, y = [["a", "bb"], ["bb", "a"]], [["X", "Y"], ["Y", "X"]]
    tagger = tl.CRF(features=word2features).fit(X, y)
    tagger.save(tmp_path / "f.tagloom")
    with raises(ModelFileError, parameter="features", expected="word2features"):
        tl.load(tmp_path / "f.tagloom").predict(X)
    loaded = tl.load(tmp_path / "f.tagloom", features=word2features)
    assert loaded.predict(X) == tagger.predict(X) == y


def test_compact_by_size(tagger, train, tmp_path):
    small = tagger.compact(max_bytes=60_000, dev=train)
    small.save(tmp_path / "small.tagloom")
    assert small.compaction_.n_bytes <= 60_000
    assert (tmp_path / "small.tagloom").stat().st_size <= 64_000  # with the training record
    assert small.compaction_.accuracy <= small.compaction_.accuracy_before
    assert small.score(train) == small.compaction_.accuracy
    assert tl.load(tmp_path / "small.tagloom").predict(train) == small.predict(train)
    assert tagger.compact(max_bytes=10**9).predict(train[:9]) == tagger.predict(train[:9])
    with raises(ParameterError, parameter="max_bytes", found="100"):
        tagger.compact(max_bytes=100)
    with raises(ParameterError, expected="max_bytes or min_accuracy", found="neither"):
        tagger.compact()


def test_compact_by_accuracy(tagger, train):
    goal = tagger.score(train) - 0.02
    small = tagger.compact(min_accuracy=goal, dev=train)
    assert small.score(train) >= goal
    assert small.compaction_.n_weights < 0.8 * small.compaction_.n_weights_before
    with raises(ParameterError, parameter="min_accuracy", found="1.01"):
        tagger.compact(min_accuracy=1.01, dev=train)
    with raises(ParameterError, parameter="dev"):
        tagger.compact(min_accuracy=0.9)
