"""What notebooks show: HTML, data frames, progress."""

import logging
import xml.etree.ElementTree as ET

import pytest

import tagloom as tl
from tagloom import notebooks
from tagloom.training import progress

X = [["Ada", "Lovelace", "wrote"], ["he", "met", "Ada"]]
Y = [["B-PER", "I-PER", "O"], ["O", "O", "B-PER"]]


@pytest.fixture(scope="module")
def tagger():
    return tl.CRF("words").fit(X, Y)


def marked(html):
    """The text of each coloured part."""
    return ["".join(mark.itertext()) for mark in ET.fromstring(html).iter("mark")]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["B-PER", "I-PER", "O"], ["Ada Lovelace PER"]),
        (["B-PER", "B-PER", "O"], ["Ada PER", "<b> PER"]),
        (["PER-B", "PER-E", "LOC-S"], ["Ada <b> PER", "wrote LOC"]),
        (["NOUN", None, {"VERB", "AUX"}], ["Ada NOUN", "wrote AUX or VERB"]),
        (None, []),
    ],
)
def test_a_sentence_has_coloured_spans(labels, expected):
    words = ["Ada", "Lovelace" if expected[:1] == ["Ada Lovelace PER"] else "<b>", "wrote"]
    assert marked(tl.Sentence(words, labels)._repr_html_()) == expected


def test_a_corpus_shows_its_first_sentences():
    html = tl.Corpus(X * 4, Y * 4)._repr_html_()
    assert html.count("tagloom-sentence") == 5
    assert "8 sentences, 24 tokens" in html
    assert "…" in html


def test_a_tagger_shows_parameters_or_what_it_has_learned(tagger):
    assert "not fitted" in tl.CRF("words", l2=0.5)._repr_html_()
    shown = ET.fromstring(tagger._repr_html_())
    rows = {row[0].text: row[1].text for row in shown.iter("tr")}
    assert rows["labels"] == "3: B-PER, I-PER, O"
    assert rows["scheme"] == "bio"
    assert rows["sentences"] == "2"


def test_a_trellis_shows_its_picture(tagger):
    trellis = tagger.trellis(X)[0]
    assert trellis._repr_svg_().startswith("<svg")
    assert trellis._repr_html_() == trellis._repr_svg_()  # where SVG alone is not shown


@pytest.mark.peers
def test_results_are_data_frames(tagger):
    spans = tagger.predict_spans(X).to_frame()
    assert list(spans.columns) == ["sentence", "rank", "type", "start", "end", "prob"]
    assert spans["end"].tolist() == [2, 3]
    best = tagger.predict_nbest(X, n=2).to_frame()
    assert best["sentence"].tolist() == [0, 0, 1, 1]
    assert best["rank"].tolist() == [0, 1, 0, 1]
    weights = tagger.feature_weights(n=4).to_frame()
    assert list(weights.columns) == ["attribute", "label", "weight"]
    assert len(weights) == 4
    history = tagger.history_.to_frame()
    assert history["iteration"].tolist() == [1, 2, 3, 4, 5]
    scores = tl.evaluate(Y, tagger.predict(X), n_bootstrap=0).to_frame()
    assert scores["type"].tolist() == ["PER", "micro", "macro", "weighted"]
    assert scores["f1"].tolist() == [1.0] * 4
    assert len(tl.CRF("words").fit(X, Y).predict_spans([]).to_frame()) == 0
    baseline = tl.MostFrequentTag().fit(X, Y)
    assert len(baseline.feature_weights(n=2).to_frame()) == 2


def test_the_history_of_a_loaded_model_is_the_same(tagger, tmp_path):
    tagger.save(tmp_path / "m.tagloom")
    history = tl.load(tmp_path / "m.tagloom").history_
    assert history == tagger.history_
    assert isinstance(history, notebooks.Rows)


def test_progress_in_a_notebook_is_one_line(monkeypatch, capfd):
    assert not notebooks.is_notebook()
    tl.CRF("words").fit(X, Y)
    assert capfd.readouterr().err == ""  # not a terminal
    monkeypatch.setattr(progress, "is_notebook", lambda: True)
    tl.CRF("words").fit(X, Y)
    shown = capfd.readouterr().err
    assert shown.count("\n") == 1
    assert "CRF 5/5  loss" in shown.split("\r")[-1]


def test_verbose_and_logging(capfd, caplog):
    with caplog.at_level(logging.INFO, logger="tagloom"):
        tl.CRF("words").fit(X, Y, dev=(X, Y), verbose=True)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith("CRF 1  loss ")
    assert "dev 1.0000" in lines[-1]
    assert [record.getMessage() for record in caplog.records] == [
        line.rsplit("  ", 2)[0]
        for line in lines  # without speed and seconds
    ]
