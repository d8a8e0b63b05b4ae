"""CRFsuite's data format: rows of a label and attributes."""

import io

import numpy as np
import pycrfsuite
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError, SentenceError
from tagloom.sequences.attribute_rows import format_attributes, parse_attributes

CHUNKS = (  # as crfsuite/example/chunking.py writes
    "B-NP\tw[0]=Confidence\tpos[0]=NN\t__BOS__\n"
    "B-PP\tw[0]=in\tpos[0]=IN\tw[-1]|w[0]=Confidence|in\n"
    "\n"
    "B-NP\tw[0]=10\\:30\tpos[0]=CD\tlength:5\t__BOS__\n"
    "\n"
)


def test_a_file_is_recognised_read_and_written():
    corpus = tl.read(io.StringIO(CHUNKS))
    assert corpus.format == "crfsuite"
    assert corpus.labels == [["B-NP", "B-PP"], ["B-NP"]]
    assert corpus.tokens[0][0] == "w[0]=Confidence\tpos[0]=NN\t__BOS__"
    assert tl.features.extract(corpus[1], "attributes") == [
        {"w[0]=10:30": 1.0, "pos[0]=CD": 1.0, "length": 5.0, "__BOS__": 1.0}
    ]
    out = io.BytesIO()
    tl.write(corpus, out)
    assert out.getvalue().decode() == CHUNKS
    assert corpus[1].line == 4


def test_columns_with_tabs_are_not_taken_for_attributes():
    assert tl.read(io.StringIO("a\tb=c\tX\nb\tc=d\tY\n")).format == "conll"
    assert tl.read(io.StringIO("a\tX\nb=1\tY\n")).format == "conll"


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_characters="\t\r\n", codec="utf-8"), min_size=1),
        st.floats(-100, 100, width=32).filter(bool),
    )
)
def test_attributes_survive_a_round_trip(values):
    read = parse_attributes(format_attributes(values))
    assert read.keys() == values.keys()
    assert all(abs(read[name] - values[name]) <= 1e-7 * abs(values[name]) for name in values)


def test_training_equals_the_same_attributes_as_dicts(tmp_path):
    """The file, dicts of its attributes, and python-crfsuite with them: one optimum."""
    train = tl.datasets.load("english", "train", label="upos")[:80]
    rows = tl.features.to_attributes(train, ["word", "suffix(2)", "word[-1]"])
    path = tmp_path / "train.crfsuite.txt"
    tl.write(rows, path, "crfsuite")
    corpus = tl.read(path)
    assert corpus.format == "crfsuite"
    options = {"algorithm": "lbfgs", "boundaries": False, "tolerance": 1e-6, "constraints": None}
    ours = tl.CRF(**options).fit(corpus)
    dicts = [[parse_attributes(token) for token in sentence] for sentence in corpus.tokens]
    same = tl.CRF(features=None, **options).fit(dicts, corpus.labels)
    assert ours.predict(corpus) == same.predict(dicts)
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": 1.0, "epsilon": 1e-6})
    for x, y in zip(dicts, corpus.labels, strict=True):
        trainer.append(x, y)
    trainer.train(str(tmp_path / "model"))
    theirs = tl.load(str(tmp_path / "model"))
    ours.save(tmp_path / "own.tagloom")
    loaded = tl.load(tmp_path / "own.tagloom")
    for mine, other in zip(
        loaded.predict_marginals(corpus), theirs.predict_marginals(dicts), strict=True
    ):
        np.testing.assert_allclose(mine, other[:, _places(theirs, ours)], atol=2e-3)


def _places(theirs, ours):
    labels = theirs.labels_.tolist()
    return [labels.index(label) for label in ours.labels_]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("A\tw=a\nB\tlength:long\n", {"where": "<file>:2", "found": "'length:long'"}),
        ("A\tw=a\n\tw=b\n", {"where": "<file>:2", "expected": "a label before the first tab"}),
        ("@weight:2\nA\tw=b\n", {"where": "<file>:1", "found": "'@weight:2'"}),
        ("A\tw:nan\n", {"where": "<file>:1", "found": "'w:nan'"}),
    ],
)
def test_malformed_rows(text, fields):
    with raises(FormatError, **fields):
        tl.read(io.StringIO(text), "crfsuite")


def test_what_the_format_cannot_hold():
    for corpus in [
        tl.Corpus([["a"]]),
        tl.Corpus([["a"]], [[None]]),
        tl.Corpus([["a"]], [["x\ty"]]),
        tl.Corpus([["a"], []], [["x"], []]),
    ]:
        with pytest.raises(FormatError):
            tl.write(corpus, io.BytesIO(), "crfsuite")
    with pytest.raises(SentenceError):
        tl.features.extract([["w=a"]], "attributes")
