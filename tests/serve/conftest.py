import pytest

import tagloom as tl
from serving import serving


@pytest.fixture(scope="session")
def taggers():
    english = {
        name: tl.datasets.load("english", "train", label=label)
        for name, label in {"pos": "upos", "ner": "entity"}.items()
    }
    return {name: tl.CRF().fit(corpus[:200]) for name, corpus in english.items()}


@pytest.fixture(scope="session")
def address(taggers):
    with serving(taggers, max_body=1 << 18, max_tokens=10_000) as address:
        yield address


@pytest.fixture(scope="session")
def sentences():
    return [s.tokens for s in tl.datasets.load("english", "test")]
