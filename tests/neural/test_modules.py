"""The network in torch and the forward pass in NumPy give the same scores."""

import numpy as np
import pytest

from plain_networks import forward

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

from tagloom.neural.modules import Batch, Network  # noqa: E402
from tagloom.scores.networks import Alphabets, NetworkScores, NetworkSpec  # noqa: E402
from tagloom.scores.vectors import Vectors  # noqa: E402

SENTENCES = [["they", "can", "fish"], ["a"], [], ["fish", "swim", "", "x" * 200, "Été"], ["can"]]
ALPHABETS = Alphabets(
    ("they", "can"), "acefhintyxé", Vectors(["fish", "can"], [[1.0, 0.5], [2, -1]])
)
SIZES = {"n_labels": 3, "n_words": 3, "word_size": 5, "n_characters": 15, "character_size": 4}


def specs():
    for encoder in ("lstm", "gru", "rnn"):
        for both in (True, False):
            yield NetworkSpec(**SIZES, encoder=encoder, is_bidirectional=both, hidden=6)
    yield NetworkSpec(**SIZES, encoder="lstm", layers=2, hidden=6)
    yield NetworkSpec(**SIZES, encoder="gru", layers=2, is_bidirectional=False, hidden=6)
    yield NetworkSpec(**SIZES, encoder="cnn", layers=3, hidden=6)
    for characters in ("cnn", "lstm"):
        yield NetworkSpec(**SIZES, characters=characters, character_units=7, hidden=6)
    yield NetworkSpec(
        3, n_vectors=3, vector_size=2, is_tuned=True, characters="cnn", n_characters=15,
        character_size=4, character_units=3, widths=(1, 3), hidden=4,
    )  # fmt: skip


@pytest.mark.parametrize("spec", [*specs()], ids=lambda spec: f"{spec.encoder}-{spec.characters}")
def test_torch_and_numpy_agree(spec):
    torch.manual_seed(1)
    network = Network(spec).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.uniform_(-1, 1)
    arrays = network.arrays()
    if spec.n_vectors:
        arrays["vectors.weight"] = ALPHABETS.vectors.table
        network.set_arrays(arrays)
    assert {name: a.shape for name, a in arrays.items()} == dict(spec.shapes())
    spec.check(arrays)
    inputs = ALPHABETS.encode(SENTENCES)
    with torch.no_grad():
        expected = network(Batch.of(inputs)).numpy()
    np.testing.assert_allclose(forward(spec, arrays, inputs), expected, rtol=1e-5, atol=1e-5)
    assert expected.shape == (10, 3)
    assert NetworkSpec.from_dict(spec.to_dict()) == spec
    for none in ([], [[]]):
        empty = ALPHABETS.encode(none)
        assert forward(spec, arrays, empty).shape == (0, 3)
        assert network(Batch.of(empty)).shape == (0, 3)


def test_batches_do_not_matter():
    spec = NetworkSpec(**SIZES, characters="cnn", character_units=4, hidden=6)
    network = Network(spec)
    scores = NetworkScores(spec, ALPHABETS, network.arrays())
    together = scores.emit(SENTENCES, 1)
    alone = np.concatenate([scores.emit([sentence], 1) for sentence in SENTENCES])
    np.testing.assert_allclose(together, alone, atol=1e-6)
