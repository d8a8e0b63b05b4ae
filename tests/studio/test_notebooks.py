"""The studio from Python, and the trellis in a notebook cell."""

import re

import pytest

import tagloom as tl
from raising import raises
from studio_clients import Client
from tagloom.errors import NotFittedError, ParameterError

X = [["they", "can", "fish"], ["</script><b>", "fish"]]
Y = [["N", "V", "N"], ["N", "V"]]


@pytest.fixture(scope="module")
def tagger():
    return tl.CRF("words").fit(X, Y)


def test_studio_opens_and_closes(tagger, tmp_path):
    path = tmp_path / "a.conll"
    tl.write(tl.Corpus(X, Y), path, "conll")
    with tagger.studio(str(path), browser=False, format="conll") as studio:
        assert studio.url in studio._repr_html_()
        client = Client(studio.url)
        assert client.get("/api/state")["corpus"]["sentences"] == 2
        view = client.post("/api/trellis", {"tokens": X[0]})
        assert [view["labels"][k] for k in view["path"]] == tagger.predict([X[0]])[0]
    with pytest.raises(OSError):
        client.get("/api/state")
    assert not (tmp_path / "a.conll.edits.jsonl").exists()
    with raises(NotFittedError):
        tl.CRF("words").studio()


def test_cell_has_the_scores_and_no_markup_of_tokens(tagger):
    cell = tagger.explore(X[1])
    html = cell._repr_html_()
    assert html.count("</script>") == 1
    assert "<b>" not in html
    assert not re.search(r"^(import|export) ", html, re.MULTILINE)
    scores = cell.scores
    trellis = tl.Trellis(*(scores[name] for name in ("emit", "trans", "start", "stop")))
    path = [scores["labels"][y] for y in trellis.viterbi().path]
    assert path == tagger.predict([X[1]])[0]
    assert tagger.explore("they can").scores["tokens"] == ["they", "can"]


def test_what_a_cell_cannot_show(tagger):
    with raises(ParameterError, parameter="sentence", found="201"):
        tagger.explore(["a"] * 201)
    with raises(ParameterError, parameter="model"):
        tl.CRF("words", order=2).fit(X, Y).explore(X[0])
