"""Models as files: the registry of kinds, files of earlier versions, pickle, describe, digest."""

import copy
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tagloom as tl
from model_files import answers
from raising import raises
from tagloom import storage
from tagloom.errors import ModelFileError, NotFittedError, ParameterError
from tagloom.models import files
from tagloom.storage import File

X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
Y = [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]]
OLD = Path(__file__).parent / "files"


class Mean(tl.Model, kind="tests.Mean"):
    """A model that is not a tagger."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def fit(self, X):
        self.mean_ = self.scale * np.mean(X, axis=0)
        return self

    def to_file(self):
        return File({"params": self.get_params()}, {"mean": self.mean_}, frozenset({"mean"}))

    @classmethod
    def from_file(cls, file, *, features=None):
        model = cls(**file.header["params"])
        model.mean_ = file.arrays["mean"] + 0.0
        return model


def lengths(sentence):
    return [{"length": float(len(word)), "word": word} for word in sentence]


# ---- files of earlier versions -----------------------------------------------------------------

EXPECTED = json.loads((OLD / "0.1.0.json").read_text())


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_files_of_version_0_1_0_give_the_same_predictions(name):
    """Written by tagloom 0.1.0, which also made these predictions."""
    expected, sentences = EXPECTED["models"][name], EXPECTED["sentences"]
    tagger = tl.load(OLD / f"0.1.0-{name}.tagloom", verify=True)
    assert type(tagger).__name__ == expected["model"]
    assert tagger.labels_.tolist() == expected["labels"]
    assert tagger.temperature_ == expected["temperature"]
    assert tagger.predict(sentences) == expected["predictions"]
    for ours, theirs in zip(
        tagger.predict_marginals(sentences), expected["marginals"], strict=True
    ):
        np.testing.assert_allclose(ours.ravel(), np.ravel(theirs), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        tagger.trellis(sentences).log_partition(), expected["log_partition"], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_files_of_version_0_1_0_are_saved_again(name, tmp_path):
    tagger = tl.load(OLD / f"0.1.0-{name}.tagloom")
    tagger.save(tmp_path / "again.tagloom")
    again = tl.load(tmp_path / "again.tagloom", verify=True)
    assert again.predict(X) == tagger.predict(X)
    assert again.digest() == tagger.digest()
    assert again.training_ == tagger.training_


LATER = {
    path.name.removesuffix(".tagloom"): json.loads((OLD / f"{version}.json").read_text())["models"]
    for version in ("0.2.0",)
    for path in sorted(OLD.glob(f"{version}-*.tagloom"))
}


@pytest.mark.parametrize("name", LATER)
def test_files_of_later_versions_give_the_same_answers(name, tmp_path):
    """Written by tests/model_files.py, run with that version."""
    expected = LATER[name][name.partition("-")[2]]
    old = tl.load(OLD / f"{name}.tagloom", verify=True)
    old.save(tmp_path / "again.tagloom")
    for model in (old, tl.load(tmp_path / "again.tagloom")):
        found = json.loads(json.dumps(answers(model, expected["sentences"])))
        numbers = found.pop("marginals", []), expected.get("marginals", [])
        for ours, theirs in zip(*numbers, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-5)
        assert found == {key: value for key, value in expected.items() if key != "marginals"}


def test_there_is_a_file_of_every_kind():
    written = {storage.read(path)[0]["model"] for path in OLD.glob("*.tagloom")}
    assert written == set(files._REGISTRY.modules)


# ---- kinds -------------------------------------------------------------------------------------


def test_a_model_that_is_not_a_tagger(tmp_path):
    model = Mean(scale=2.0).fit([[1.0, 2.0], [3.0, 4.0]])
    model.save(tmp_path / "mean.tagloom")
    loaded = tl.load(tmp_path / "mean.tagloom", verify=True)
    assert type(loaded) is Mean
    np.testing.assert_array_equal(loaded.mean_, [4.0, 6.0])
    assert loaded.get_params() == {"scale": 2.0}
    assert storage.read(tmp_path / "mean.tagloom")[0]["kind"] == "model"
    with pytest.raises(ModelFileError) as error:
        tl.Tagger.load(tmp_path / "mean.tagloom")
    assert error.value.expected == "a model of kind Tagger"
    assert error.value.found == "tests.Mean"
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        np.testing.assert_array_equal(copied.mean_, model.mean_)
    assert not Mean().is_fitted
    for use in ("save", "to_bytes", "describe", "digest"):
        with raises(NotFittedError, hint=f"before {use}()"):
            getattr(Mean(), use)(*(["x"] if use == "save" else []))


def test_the_class_chooses_which_arrays_are_verified():
    data = bytearray(Mean().fit([[1.0, 2.0]]).to_bytes())
    data[-1] ^= 1  # in the mean, which its class leaves unverified
    assert tl.load(bytes(data), verify=False).mean_[1] != 2.0
    with raises(ModelFileError, found="checksum"):
        tl.load(bytes(data))  # small enough to be verified whole


def test_every_model_of_ours_is_found_by_its_kind():
    names = [name for name in tl.__all__ if isinstance(getattr(tl, name), type)]
    models = [getattr(tl, name) for name in names if issubclass(getattr(tl, name), tl.Model)]
    concrete = [cls for cls in models if cls not in (tl.Model, tl.Tagger)]
    assert len(concrete) >= 7
    modules = files._REGISTRY.modules
    assert {cls.kind for cls in concrete} <= set(modules)
    for name, module in modules.items():
        cls = files.find_kind(name)
        assert cls is not None
        assert (cls.kind, cls.__module__) == (name, module)
    assert {*modules, "tests.Mean"} <= set(files.known_kinds())
    assert files.find_kind("Oracle") is None


PACKAGE = """
from tagloom import Model
from tagloom.storage import File
class Echo(Model, kind="outside.Echo"):
    def to_file(self):
        return File({"said": self.said_})
    @classmethod
    def from_file(cls, file, *, features=None):
        model = cls()
        model.said_ = file.header["said"]
        return model
"""


def test_another_package_adds_a_kind_by_an_entry_point(tmp_path):
    """In a process that never imports the package by itself."""
    (tmp_path / "outside.py").write_text(PACKAGE)
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tagloom.models]\noutside.Echo = outside:Echo\n")

    def run(code):
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()

    path = str(tmp_path / "echo.tagloom")
    run(f"import outside; m = outside.Echo(); m.said_ = 'hello'; m.save({path!r})")
    assert run(f"import tagloom; print(tagloom.load({path!r}).said_)") == "hello"
    assert "outside.Echo" in run("from tagloom.models import files; print(files.known_kinds())")
    with pytest.raises(ModelFileError) as error:  # here the package is not installed
        tl.load(path)
    assert error.value.found == "a model of the kind 'outside.Echo'"
    assert "Install" in error.value.hint


def test_a_class_of_the_same_kind_replaces_the_earlier_one():
    first = type("Again", (Mean,), {}, kind="tests.Again")
    assert files.find_kind("tests.Again") is first
    second = type("Again", (Mean,), {}, kind="tests.Again")
    assert files.find_kind("tests.Again") is second
    assert type("Sub", (Mean,), {}).kind == "Sub"


# ---- what load and save take -------------------------------------------------------------------


def test_bytes_and_file_objects(tmp_path):
    tagger = tl.HMM().fit(X, Y)
    path = tmp_path / "m.tagloom"
    tagger.save(path)
    with open(tmp_path / "n.tagloom", "wb") as file:
        tagger.save(file)
    data = path.read_bytes()
    assert data == tagger.to_bytes() == (tmp_path / "n.tagloom").read_bytes()
    for given in (data, bytearray(data), memoryview(data), io.BytesIO(data), path, str(path)):
        assert tl.load(given, verify=True).predict(X) == tagger.predict(X)
    with open(path, "rb") as file:
        assert tl.HMM.load(file).predict(X) == tagger.predict(X)


@pytest.mark.parametrize("given", [None, 3, ["m.tagloom"], io.StringIO("m")])
def test_load_takes_nothing_else(given):
    with pytest.raises(ModelFileError) as error:
        tl.load(given)
    assert error.value.expected.startswith(("the path of a model file", "a file opened in binary"))


@pytest.mark.parametrize("given", [None, 3, io.StringIO()])
def test_save_takes_nothing_else(given):
    tagger = tl.HMM().fit(X, Y)
    with raises(ModelFileError, expected="a path, or a file object opened for writing bytes"):
        tagger.save(given)


def test_save_to_a_file_that_takes_some_bytes_at_a_time():
    class Slow(io.RawIOBase):
        data = b""

        def writable(self):
            return True

        def write(self, data):
            self.data += bytes(data[:1000])
            return len(data[:1000])

    tagger, file = tl.HMM().fit(X, Y), Slow()
    tagger.save(file)
    assert file.data == tagger.to_bytes()


# ---- pickle ------------------------------------------------------------------------------------


def test_pickle_carries_a_feature_function_by_reference(tmp_path):
    tagger = tl.CRF(features=lengths).fit(X, Y)
    for copied in (pickle.loads(pickle.dumps(tagger)), copy.deepcopy(tagger)):
        assert copied.predict(X) == tagger.predict(X)
        assert copied.scores_.extractor.function is lengths
    tagger.save(tmp_path / "f.tagloom")
    assert b"lengths" in (tmp_path / "f.tagloom").read_bytes()  # its name
    with raises(ModelFileError, parameter="features", expected="lengths"):
        tl.load(tmp_path / "f.tagloom")


def test_a_function_without_a_name_is_refused_when_pickled():
    tagger = tl.CRF(features=lambda sentence: [{"word": word} for word in sentence]).fit(X, Y)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(tagger)


def test_pickle_keeps_the_class_and_the_requests():
    tagger = tl.HMM().set_fit_request(sample_weight=True)
    for model in (tagger, tagger.fit(X, Y)):
        copied = pickle.loads(pickle.dumps(model))
        assert type(copied) is tl.HMM
        assert copied._requests == {"fit": {"sample_weight": True}}
        assert copied.is_fitted is model.is_fitted


# ---- describe and digest -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [tl.CRF(features=["word"]), tl.HMM(order=2), tl.MostFrequentTag(), tl.MEMM(), Mean()],
    ids=repr,
)
def test_describe_is_plain_data(model):
    fitted = model.fit([[1.0]]) if isinstance(model, Mean) else model.fit(X, Y)
    about = fitted.describe()
    assert json.loads(json.dumps(about)) == about
    assert about["model"] == model.kind
    if isinstance(model, tl.Tagger):
        assert about["labels"] == ["N", "V"]
        assert about["temperature"] == 1
        assert about["training"]["tokens"] == 8
    if isinstance(model, tl.CRF):
        assert about["features"] == ["word"]
        assert about["attributes"] == 4
        assert about["weights"] == fitted.scores_.n_weights
        assert about["parameters"]["algorithm"] == "adagrad"


def test_digest_depends_on_what_predictions_depend_on():
    one = tl.CRF(features=["word"], n_threads=1).fit(X, Y)
    assert one.digest() == tl.CRF(features=["word"], n_threads=2).fit(X, Y).digest()
    assert one.digest() == tl.load(one.to_bytes()).digest()
    assert len(one.digest()) == 16
    others = [
        tl.CRF(features=["word"], max_iterations=3).fit(X, Y),
        tl.CRF(features=["word", "shape"]).fit(X, Y),
        tl.StructuredPerceptron(features=["word"]).fit(X, Y),
        one.calibrate(X, [["N", "N", "V"], *Y[1:]]),
    ]
    assert len({model.digest() for model in [one, *others]}) == 5


# ---- contents ----------------------------------------------------------------------------------


def test_files_are_joined_and_cut_apart():
    nodes = File({"order": 1}, {"weights": np.zeros(2)}, frozenset({"weights"}))
    whole = nodes | nodes.prefixed("edge_") | File({"order": 2}, {"start": np.ones(3)})
    assert whole.header == {"order": 2}
    assert set(whole.arrays) == {"weights", "edge_weights", "start"}
    assert whole.unverified == {"weights", "edge_weights"}
    assert whole.verified == ["start"]
    assert whole.n_bytes == 8 * 7
    part = whole.part("edge_", {"a": 1})
    assert (part.header, [*part.arrays], part.unverified) == ({"a": 1}, ["weights"], {"weights"})
    with pytest.raises(ParameterError) as error:
        _ = nodes | nodes
    assert error.value.found == "weights twice"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens", "x"), ("iterations", [5]), ("loss", {"a": 1}), ("dev", True), ("seconds", "1"),
        ("label", {"a": "b"}), ("columns", 5), ("columns", [["x"]]), ("sep", ["x"]),
        ("token", 0.5), ("label_names", [1]), ("histories", [["x"]]), ("format", 3),
    ],
)  # fmt: skip
def test_a_training_record_of_other_types_is_refused(name, value):
    header, arrays = storage.read(OLD / "0.2.0-tokens.tagloom")
    header["training"][name] = value
    with raises(ModelFileError, where=f"training record, {name}"):
        tl.load(storage.to_bytes(header, arrays))
    with raises(ModelFileError, expected="a training record"):
        tl.load(storage.to_bytes(header | {"training": [name]}, arrays))
