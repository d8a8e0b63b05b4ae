"""Labels that mark spans: what is illegal in the scheme of the training data is never predicted."""

import warnings

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import DataWarning, SchemeError


@pytest.fixture(scope="module")
def train():
    return tl.datasets.load("english", "train", label="chunk")


@pytest.fixture(scope="module")
def noise():
    """Sentences that bring a tagger into trouble: words in random order."""
    words = [w for s in tl.datasets.load("english", "test") for w in s.tokens]
    rng = np.random.default_rng(0)
    return [rng.choice(words, size=12).tolist() for _ in range(200)]


@pytest.mark.parametrize("kind", [tl.CRF, tl.StructuredPerceptron])
def test_predictions_are_legal(kind, train, noise):
    tagger = kind(max_iterations=1).fit(train)
    assert tagger.scheme_ == "bio"
    everything = [*tagger.predict(noise), *sum(tagger.sample(noise[:40], 5, random_state=0), [])]  # noqa: RUF017
    everything += [n.labels for best in tagger.predict_nbest(noise[:40], 5) for n in best]
    assert tl.labels.validate(everything, "bio").is_valid


def test_without_constraints_they_need_not_be(train, noise):
    tagger = tl.StructuredPerceptron(max_iterations=1, constraints=None).fit(train)
    assert tagger.scheme_ is None
    assert not tl.labels.validate(tagger.predict(noise), "bio").is_valid


def test_probabilities_are_those_among_legal_labellings(train, noise):
    tagger = tl.CRF(max_iterations=1).fit(train)
    trellis = tagger.trellis(noise[:5])
    np.testing.assert_allclose(trellis.marginals().sum(axis=1), 1, rtol=1e-4)
    inside = [y for y, label in enumerate(tagger.labels_) if label.startswith("I-")]
    assert trellis[0].marginals()[0, inside].max() == 0  # nothing is inside at the start


def test_illegal_training_data_give_a_warning():
    X, y = [["a", "b"], ["b", "a"]], [["O", "I-X"], ["B-X", "I-X"]]
    with pytest.warns(DataWarning) as caught:
        tagger = tl.CRF(features="words").fit([*X, ["c"]], [*y, ["B-Y"]])
    assert caught[0].message.options == {"constraints": "bio"}
    assert tagger.scheme_ is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tl.CRF(features="words", constraints="bio").fit(X, y).scheme_ == "bio"


def test_parts_of_speech_are_not_spans():
    tagger = tl.CRF(features="words").fit([["a", "b"]], [["NOUN", "VERB"]])
    assert tagger.scheme_ is None
    with raises(SchemeError, expected="a label of bio", found="'NOUN'"):
        tl.CRF(features="words", constraints="bio").fit([["a", "b"]], [["NOUN", "VERB"]])


def test_the_scheme_is_saved(train, tmp_path):
    tl.CRF(max_iterations=1).fit(train).save(tmp_path / "m.tagloom")
    assert tl.load(tmp_path / "m.tagloom").scheme_ == "bio"


def test_labels_that_training_did_not_have():
    tagger = tl.CRF(features="words").fit([["a", "b"]], [["X", "Y"]], dev=([["a"]], [["Z"]]))
    assert tagger.history_[-1].dev == 0
    assert tagger.score([["a", "b"]], [["X", "Z"]]) == 0.5


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["B", "I", "O", "B"], "bio"),
        (["B", "M", "E", "S"], "bmes"),
        (["S", "B", "I", "E", "O"], "bioes"),
    ],
)
def test_bare_letters_are_legal_in_decoding(labels, scheme):
    words = [str(t) for t in range(len(labels))]
    tagger = tl.CRF("words").fit([words], [labels])
    assert tagger.scheme_ == scheme
    for sample in tagger.sample([words], n=50, random_state=0)[0]:
        assert scheme in tl.labels.detect([sample, labels]).fits
    assert all(span.type == "" for span in tagger.predict_spans([words])[0])
    # Other letters, or some of them, are labels like any others.
    assert tl.CRF("words").fit([["a", "b"]], [["S", "N"]]).scheme_ is None
