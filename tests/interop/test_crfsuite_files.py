"""CRFsuite's binary models, read and written; python-crfsuite is the judge."""

import io
import random
import struct
import tracemalloc

import numpy as np
import pytest

import crfsuite_cases as cases
import tagloom as tl
from raising import raises
from tagloom.errors import ModelFileError, ParameterError
from tagloom.interop.crfsuite import hash_texts, read_crfsuite, to_crfsuite

SMALL = [{"walk": 1, "shop": 0.5}, {"walk": True}, {"солнце": "не светит"}, {}], list("SSRS")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def pos(folder):
    """A model of parts of speech, by its path, and test items."""
    X, y = cases.english("train", n=150)
    path = folder / "pos.crfsuite"
    cases.train(X, y, path, c1=0.05, c2=0.05, max_iterations=60)
    return path, cases.english("test")[0]


@pytest.fixture(scope="module")
def small(folder):
    path = folder / "small.crfsuite"
    cases.train([SMALL[0]], [SMALL[1]], path)
    return path.read_bytes()


# Reading


def test_labels_and_marginals_are_crfsuites(pos):
    path, X = pos
    theirs, ours = cases.open_model(path), tl.load(path)
    assert isinstance(ours, tl.CRF)
    assert ours.labels_.tolist() == theirs.labels()
    assert ours.predict(X) == [theirs.tag(x) for x in X]
    worst = max(
        np.abs(rows - cases.marginals(theirs, x, theirs.labels())).max()
        for x, rows in zip(X, ours.predict_marginals(X), strict=True)
        if len(x)
    )
    assert worst < 1e-5
    for x, best in zip(X[:20], ours.predict_nbest(X[:20], 1), strict=True):
        theirs.set(x)
        assert best[0].prob == pytest.approx(theirs.probability(best[0].labels), abs=1e-5)


@pytest.mark.parametrize("algorithm", ["l2sgd", "ap", "pa", "arow"])
def test_models_of_every_algorithm(folder, algorithm):
    X, y = cases.english("train", "chunk", n=40)
    path = folder / f"{algorithm}.crfsuite"
    theirs = cases.train(X, y, path, algorithm, max_iterations=5)
    ours = tl.load(path)
    assert ours.predict(X) == [theirs.tag(x) for x in X]
    for x, rows in zip(X[:10], ours.predict_marginals(X[:10]), strict=True):
        np.testing.assert_allclose(rows, cases.marginals(theirs, x, theirs.labels()), atol=1e-5)


def test_weights_by_name(pos):
    path, _ = pos
    info, ours = cases.open_model(path).info(), tl.load(path)
    kept = {key: w for key, w in info.state_features.items() if w != 0}  # printed to 6 digits
    weights = ours.state_features_
    assert weights == pytest.approx({key: info.state_features[key] for key in weights}, abs=1e-5)
    assert kept.keys() <= weights.keys()
    assert ours.transition_features_ == pytest.approx(info.transitions, abs=1e-5)
    assert list(ours.scores_.names) == list(info.attributes)


def test_a_feature_function_makes_it_a_tagger_of_words(pos):
    path, X = pos
    words = tl.datasets.load("english", "test", label="upos").tokens
    tagger = tl.load(path, features=cases.word2features)
    assert tagger.predict(words) == tl.load(path).predict(X)


def test_a_path_its_bytes_and_a_file_give_the_same(pos, tmp_path):
    path, X = pos
    data = path.read_bytes()
    models = [tl.load(str(path)), tl.load(data), tl.load(io.BytesIO(data)), tl.CRF.load(path)]
    assert len({model.digest() for model in models}) == 1
    models[0].save(tmp_path / "pos.tagloom")
    assert tl.load(tmp_path / "pos.tagloom").predict(X[:30]) == models[0].predict(X[:30])
    with raises(ModelFileError, expected="HMM", found="CRF"):
        tl.HMM.load(path)


def test_training_can_continue(small):
    tagger = tl.load(small).set_params(warm_start=True, max_iterations=3)
    tagger.fit([SMALL[0]], [SMALL[1]])
    assert tagger.predict([SMALL[0]]) == [SMALL[1]]


def test_other_encodings(small):
    """The C programs of CRFsuite copy the bytes of their input."""
    old = "солнце:не светит".encode()
    new = "été".encode("latin-1").ljust(len(old), b"!")
    forged = small.replace(old + b"\0", new + b"\0")
    with raises(ModelFileError, where="<bytes>", expected="utf-8", hint="encoding"):
        tl.load(forged)
    assert "été!" in "".join(read_crfsuite(forged, encoding="latin-1").scores_.names)


# Writing


def test_the_file_comes_back_to_python_crfsuite(pos, tmp_path):
    path, X = pos
    theirs, again = cases.open_model(path), tmp_path / "again.crfsuite"
    to_crfsuite(tl.load(path), again)
    back = cases.open_model(again)
    assert [back.tag(x) for x in X] == [theirs.tag(x) for x in X]
    labels = theirs.labels()
    for x in X[:30]:
        ours, expected = (cases.marginals(tagger, x, labels) for tagger in (back, theirs))
        np.testing.assert_allclose(ours, expected, atol=1e-5)
    assert back.labels() == labels
    info, expected = back.info(), theirs.info()
    assert info.attributes == expected.attributes
    assert info.state_features.keys() == expected.state_features.keys()
    assert tl.load(again).digest() == tl.load(path).digest()


@pytest.mark.parametrize("model", [tl.CRF, tl.StructuredPerceptron, tl.StructuredSVM])
def test_taggers_of_templates_convert(model, tmp_path):
    corpus = tl.datasets.load("english", "train", label="upos")[:60]
    tagger = model(["word", "suffix(1..3)", "word[-1]"], boundaries=False, constraints=None)
    tagger.fit(corpus)
    path = tmp_path / "tagger.crfsuite"
    to_crfsuite(tagger, path)
    theirs, extract = cases.open_model(path), tagger.scores_.extractor.extract
    assert [theirs.tag(extract(s)) for s in corpus] == tagger.predict(corpus)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, "weights for the first or last label"),
        ({"order": 2}, "an order above 1"),
        ({"features": ["word", "edge(word)"]}, "edge templates"),
        ({"constraints": "bio"}, "constraints"),
    ],
)
def test_what_crfsuite_cannot_represent(options, found):
    X, y = [["a", "b", "c"], ["b", "c"]], [["B-X", "I-X", "O"], ["O", "B-X"]]
    tagger = tl.CRF(**{"features": ["word"], **options}).fit(X, y)
    with raises(ParameterError, where="to_crfsuite", found=found, hint="boundaries"):
        to_crfsuite(tagger)


def test_hashes_are_those_of_lookup3():
    texts = [b"", b"Four score and seven years ago", b"x" * 12 + b"\0", b"a\0"]
    alone = [hash_texts([text])[0] for text in texts]
    assert alone == hash_texts(texts).tolist()
    assert alone[:2] == [0xDEADBEEF, 0x17770551]  # published with the function


# Damage


def test_cut_short_anywhere(small):
    for n in range(len(small)):
        if n >= 4:
            with pytest.raises(ModelFileError) as caught:
                tl.load(small[:n])
            assert caught.value.where.startswith("<bytes>")
            assert caught.value.expected
            assert caught.value.found


NUMBERS = {
    "size": 4, "type": 8, "version": 12, "labels": 20, "attributes": 24, "features at": 28,
    "labels at": 32, "attributes at": 36,
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [0, 1, 7, 0x7FFFFFFF, 0xFFFFFFFF])
def test_forged_numbers_of_the_header(small, name, value):
    at = NUMBERS[name]
    forged = small[:at] + struct.pack("<I", value) + small[at + 4 :]
    with raises(ModelFileError, where="<bytes>"):
        tl.load(forged)


def test_many_labels_do_not_allocate_their_square():
    from tagloom.interop.crfsuite import _file, _FEATURE  # noqa: I001

    labels = [b"%d\0" % y for y in range(6_000)]
    data = _file(labels, [b"a\0"], np.zeros(0, _FEATURE))
    tracemalloc.start()
    with raises(ModelFileError, where="labels", found="6,000 labels"):
        tl.load(data)
    assert tracemalloc.get_traced_memory()[1] < 50 * len(data)
    tracemalloc.stop()


def mutate(data, rng):
    """Change a few bytes, or a number, or the length."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(changed))
        kind = rng.random()
        if kind < 0.5:
            changed[at] = rng.randrange(256)
        elif kind < 0.8:
            changed[at : at + 4] = struct.pack("<I", rng.choice([0, 1, 2**31, 2**32 - 1, at]))
        elif kind < 0.9:
            del changed[at:]
        else:
            changed[at:at] = rng.randbytes(rng.randrange(1, 9))
        if not changed:
            return b""
    return bytes(changed)


def check_mutations(data, n, seed, X):
    """Load damaged files: each raises a ModelFileError, or tags."""
    rng, messages = random.Random(seed), []
    for _ in range(n):
        damaged = mutate(data, rng)
        try:
            tl.load(damaged).predict(X)
        except ModelFileError as error:
            messages.append(str(error))
    assert all(len(message) < 600 for message in messages)
    return len(messages)


def test_damaged_files_are_refused_or_tag(small):
    assert check_mutations(small, 600, 0, [SMALL[0]]) > 120


@pytest.mark.soak
def test_damaged_files_soak(small):
    for seed in range(1, 21):
        check_mutations(small, 2000, seed, [SMALL[0]])
