"""Every kind of model that tags is served, by the same suite of models as the contract's."""

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


@pytest.fixture(scope="module")
def corpus():
    return tl.datasets.load("english", "train", label="upos")[:60]


@pytest.fixture(scope="module")
def models(corpus):
    return {name: make().fit(corpus) for name, make in contract.MODELS.items()}


@pytest.fixture(scope="module")
def address(models):
    with serving(models) as address:
        yield address


@pytest.mark.parametrize("name", contract.MODELS)
def test_every_kind_is_served(address, models, corpus, name):
    tagger, X = models[name], corpus.tokens[:8]
    answer = tag(address, sentences=X, model=name, probs="top")
    assert answer["labels"] == tagger.predict(X)
    probs = tagger.predict_with_probs(X)[1]
    assert answer["probs"] == [[round(p, 6) for p in row] for row in probs]
    assert tag(address, sentences=X[:1], model=name, nbest=2)["nbest"]
    assert tag(address, texts=["They can fish."], model=name)["documents"][0]["sentences"]
    known = [["NOUN"] + [None] * (len(X[0]) - 1)]
    assert tag(address, sentences=X[:1], model=name, known=known)["labels"][0][0] == "NOUN"
    assert ask(address, "/v1/explain", {"sentence": X[0][:4], "model": name})[0] == 200
    assert ask(address, f"/v1/models/{name}")[2]["kind"] == tagger.kind


def test_the_suite_has_every_kind_of_tagger(models):
    classes = [*map(find_kind, known_kinds())]
    ours = {c for c in classes if c.__module__.startswith("tagloom.models.")}
    assert {c.kind for c in ours if issubclass(c, tl.Tagger)} <= {m.kind for m in models.values()}
