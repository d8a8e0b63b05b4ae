"""Models that learn step by step: what one short class gets from `IterativeModel`."""

import json
import os
import signal
from dataclasses import dataclass

import numpy as np
import pytest

import tagloom as tl
from raising import raises, warns
from tagloom.errors import DataWarning, ModelFileError, ParameterError
from tagloom.models import IterativeModel
from tagloom.models.data import digest
from tagloom.storage import File
from tagloom.training import Step


@dataclass
class Numbers:
    values: np.ndarray

    @property
    def digest(self):
        return digest([], self.values)

    @property
    def sizes(self):
        return {"values": len(self.values)}


class Walk:
    """Halves the distance to the mean; the objective, minus the mean square, rises."""

    def __init__(self, values, start):
        self.values, self.mean = values, start

    def step(self):
        before, self.mean = self.mean, (self.mean + self.values.mean()) / 2
        objective = -float(np.square(self.values - self.mean).mean())
        return Step.rising(objective, "fit", converged=abs(self.mean - before) < 1e-6)

    def weights(self):
        return np.array(self.mean)

    def state(self):
        return {"mean": np.array(self.mean)}

    def restore(self, state):
        self.mean = float(state["mean"])


class Middle(IterativeModel, kind="tests.Middle"):
    """A model that is not a tagger: the mean of numbers, from several starts."""

    def __init__(self, *, n_starts=1, max_iterations=None, patience=None):
        self.n_starts, self.max_iterations, self.patience = n_starts, max_iterations, patience

    def read_data(self, X, y, sample_weight):
        return Numbers(np.asarray(X, dtype=float))

    def make_learner(self, data, start=0.0):
        return Walk(data.values, start)

    def learn(self, data, fitting):
        return fitting.run_best(lambda i: self.make_learner(data, 10.0 * i), self.n_starts)

    def score_dev(self, dev, data):
        return lambda weights: -abs(float(weights) - dev)

    def finish(self, data, outcome, record):
        self.mean_, self.history_, self.training_ = outcome.weights, outcome.records, record

    def to_file(self):
        return File({"params": self.get_params(), "training": self.training_}, {"mean": self.mean_})

    @classmethod
    def from_file(cls, file, *, features=None):
        model = cls(**file.header["params"])
        model.mean_, model.training_ = file.arrays["mean"], file.header["training"]
        return model


X = [1.0, 2.0, 6.0]


def test_fit_returns_self_and_records():
    records = []
    model = Middle()
    assert model.fit(X, callback=records.append) is model
    assert model.mean_ == pytest.approx(3, abs=1e-5)
    assert model.history_ == records
    record = model.training_
    assert (record["values"], record["stopped"]) == (3, "converged")
    assert record["fit"] == -record["loss"] == records[-1].objective
    assert (record["iterations"], record["best_iteration"]) == (len(records), len(records))
    json.dumps(record)


def test_limits():
    assert len(Middle(max_iterations=2).fit(X).history_) == 2
    assert Middle().limits() == (100, 10)
    assert Middle(max_iterations=3, patience=4).limits() == (3, 4)
    for name in ("max_iterations", "patience"):
        with pytest.raises(ParameterError) as caught:
            Middle(**{name: 0}).fit(X)
        assert caught.value.parameter == name


def test_dev_keeps_the_best_weights():
    model = Middle(patience=2).fit(X, dev=2.2)
    assert model.mean_ == 2.25  # 1.5, 2.25, 2.625, …
    assert (model.training_["stopped"], model.training_["best_iteration"]) == ("early", 2)
    assert model.training_["dev"] == pytest.approx(-0.05)


def test_starts_that_are_further_away_lose():
    assert Middle(n_starts=3, max_iterations=1).fit(X).mean_ == 1.5


def test_a_checkpoint_resumes_to_the_same_bits(tmp_path):
    path = tmp_path / "run"
    whole = Middle(max_iterations=9).fit(X, dev=9.0)
    Middle(max_iterations=4).fit(X, dev=9.0, checkpoint=path)
    resumed = []
    again = Middle(max_iterations=9).fit(X, dev=9.0, checkpoint=path, callback=resumed.append)
    assert [r.iteration for r in resumed] == [5, 6, 7, 8, 9]
    assert again.mean_ == whole.mean_
    with raises(ModelFileError, where="run", expected="data", found="data"):
        Middle().fit([1.0, 2.0], checkpoint=path)
    path.rename(tmp_path / "run.1")
    with raises(ModelFileError, where="run.1", expected="n_starts 2", found="n_starts 1"):
        Middle(n_starts=2).fit(X, checkpoint=path)


@pytest.mark.parametrize("checkpoint", [3, b"run"])
def test_a_checkpoint_that_is_not_a_path(checkpoint):
    with pytest.raises(ParameterError) as caught:
        Middle().fit(X, checkpoint=checkpoint)
    assert caught.value.parameter == "checkpoint"


def test_ctrl_c_warns_at_the_line_that_called_fit():
    def press(record):
        if record.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.warns(UserWarning, match="the weights of iteration 2 are kept") as caught:
        model = Middle().fit(X, callback=press)
    assert caught[0].filename == __file__
    assert model.training_["stopped"] == "interrupted"


def test_models_without_development_scores_refuse_them():
    class Plain(Middle, kind="tests.Plain"):
        score_dev = IterativeModel.score_dev

    with pytest.raises(ParameterError) as caught:
        Plain().fit(X, dev=3.0)
    assert caught.value.parameter == "dev"


def test_it_is_saved_and_loaded():
    model = tl.load(Middle(max_iterations=3).fit(X).to_bytes())
    assert (model.mean_, model.max_iterations) == (2.625, 3)


def test_a_warning_about_labels_names_the_line_that_called_fit():
    with warns(DataWarning, expected="labels of a scheme") as caught:
        tl.CRF(features="words", max_iterations=1).fit([["a", "b"]], [["I-X", "B-Y"]])
    assert {w.filename for w in caught} == {__file__}
