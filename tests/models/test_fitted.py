"""The fitted state: frozen, replaced in one step, with its caches inside."""

import copy
import threading

import numpy as np
import pytest

import tagloom as tl
from tagloom.errors import NotFittedError

X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
Y = [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]]
OTHER = [["V", "N", "N"], ["V", "N", "N"], ["V", "N"]]


@pytest.fixture
def tagger():
    return tl.CRF(features=["word"]).fit(X, Y)


def test_learned_attributes_cannot_be_assigned(tagger):
    for name in ("scores_", "constraints_", "compaction_"):
        with pytest.raises(AttributeError, match=f"{name} of CRF cannot be assigned"):
            setattr(tagger, name, None)
    with pytest.raises(AttributeError):
        tagger._fitted.scores = None
    with pytest.raises(AttributeError, match="has no compaction_"):
        _ = tagger.compaction_
    for name in ("labels_", "scores_", "history_"):
        assert not hasattr(tl.CRF(), name)
        with pytest.raises(NotFittedError):
            getattr(tl.CRF(), name)


def test_the_training_record_can_be_added_to(tagger):
    decoder = tagger._fitted.decoder
    tagger.training_ |= {"format": "conll"}
    assert tagger.training_["format"] == "conll"
    assert tagger._fitted.decoder is decoder  # the same state
    tagger.training_ = {"tokens": 8}
    assert tagger.training_ == {"tokens": 8}
    assert tagger.predict(X) == Y


def test_a_fit_replaces_everything_derived_from_the_one_before(tagger):
    calibrated = tagger.calibrate(X, [["N", "N", "V"], *Y[1:]])
    before = copy.copy(calibrated)
    assert before.predict(X) == Y
    assert before.temperature_ != 1
    calibrated.fit(X, OTHER)
    assert calibrated.temperature_ == 1
    assert calibrated.predict(X) == OTHER
    assert before.predict(X) == Y  # a copy keeps its own state
    assert before.temperature_ != 1


def test_a_copy_shares_the_caches(tagger):
    assert copy.copy(tagger)._fitted.decoder is tagger._fitted.decoder is not None


def test_compact_drops_the_temperature(tagger):
    """It was fitted to the scores of all weights; see `Tagger.temperature_`."""
    calibrated = tagger.calibrate(X, [["N", "N", "V"], *Y[1:]])
    small = calibrated.compact(max_bytes=10**6)
    assert calibrated.temperature_ != 1
    assert small.temperature_ == 1
    assert tl.load(small.to_bytes()).temperature_ == 1
    again = small.calibrate(X, [["N", "N", "V"], *Y[1:]])
    refit = tl.load(small.to_bytes()).calibrate(X, [["N", "N", "V"], *Y[1:]])
    assert again.temperature_ == refit.temperature_
    assert small.compaction_.n_weights <= small.compaction_.n_weights_before


def test_partial_fit_continues_from_a_copy():
    once = tl.StructuredPerceptron(features=["word"]).partial_fit(X, Y)
    twice = copy.copy(once).partial_fit(X, Y)
    assert len(once.history_) == 1
    assert len(twice.history_) == 2


def test_threads_that_fit_and_predict_see_whole_states():
    """Every answer is that of one fit or of the other, never of a mixture."""
    tagger = tl.CRF(features=["word"], max_iterations=3, n_threads=1).fit(X, Y)
    answers, failures, done = set(), [], threading.Event()

    def ask():
        try:
            while not done.is_set():
                answers.add(str(tagger.predict(X)))
                answers.add(str(tagger._best_labels(tagger.score_sentences(X, 1))))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(30):
        tagger.fit(X, OTHER if i % 2 == 0 else Y)
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert answers <= {str(Y), str(OTHER)}


class Constant(tl.Tagger):
    """A tagger that keeps what it learns in attributes."""

    def fit(self, X, y=None):
        self.scores_ = np.log([0.9, 0.1])
        self.labels_ = ["N", "V"]
        return self

    def score_sentences(self, sentences, n_threads):
        lengths = [len(sentence) for sentence in sentences]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return tl.Trellis(np.tile(self.scores_, (sum(lengths), 1)), offsets=offsets)

    def to_file(self):
        return tl.storage.File({}, {"scores": self.scores_})

    @classmethod
    def from_file(cls, file, *, features=None):
        return cls().fit(None)


def test_a_tagger_of_plain_attributes():
    tagger = Constant().fit(X)
    assert tagger.labels_.tolist() == ["N", "V"]
    assert tagger.labels_.dtype == object
    calibrated = tagger.calibrate([["a", "b"]], [["N", "V"]])
    assert calibrated.temperature_ > 1
    assert tl.load(calibrated.to_bytes()).temperature_ == calibrated.temperature_
    assert calibrated.fit(X).temperature_ == 1
    assert tagger.predict([["a"], []]) == [["N"], []]
