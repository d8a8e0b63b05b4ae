"""Every kind of model that tags is served: one small model of each, from the contract suite."""

import importlib.util
from pathlib import Path

import pytest

import tagloom as tl
from serving import ask, serving, tag
from tagloom.models.files import find_kind, known_kinds

spec = importlib.util.spec_from_file_location(
    "contract", Path(__file__).parents[1] / "models" / "test_contract.py"
)
contract = importlib.util.module_from_spec(spec)
spec.loader.exec_module(contract)

# One of each kind, and of each structure that a kind can have.
NAMES = [
    "crf-adagrad", "crf-edges", "crf-order-2", "semicrf", "perceptron", "svm", "memm",
    "hmm", "hmm-2", "baseline", "token-perceptron",
]  # fmt: skip
NETWORKS = ["neural", "neural-softmax"]


@pytest.fixture(scope="module")
def corpus():
    return tl.datasets.load("english", "train", label="upos")[:60]


@pytest.mark.parametrize(
    "name", [*NAMES, *(pytest.param(name, marks=pytest.mark.peers) for name in NETWORKS)]
)
def test_every_kind_is_served(corpus, name):
    tagger, X = contract.MODELS[name]().fit(corpus), corpus.tokens[:8]
    with serving({name: tagger}) as address:
        answer = tag(address, sentences=X, probs="top")
        assert answer["labels"] == tagger.predict(X)
        probs = tagger.predict_with_probs(X)[1]
        assert answer["probs"] == [[round(p, 6) for p in row] for row in probs]
        assert tag(address, sentences=X[:1], nbest=2)["nbest"]
        assert tag(address, texts=["They can fish."])["documents"][0]["sentences"]
        known = [["NOUN"] + [None] * (len(X[0]) - 1)]
        assert tag(address, sentences=X[:1], known=known)["labels"][0][0] == "NOUN"
        assert ask(address, "/v1/explain", {"sentence": X[0][:4]})[0] == 200
        assert ask(address, f"/v1/models/{name}")[2]["kind"] == tagger.kind


def test_the_suite_has_every_kind_of_tagger():
    classes = [*map(find_kind, known_kinds())]
    ours = {c for c in classes if c.__module__.startswith("tagloom.models.")}
    served = {contract.MODELS[name]().kind for name in (*NAMES, *NETWORKS)}
    assert {c.kind for c in ours if issubclass(c, tl.Tagger)} <= served
