"""CRF++ template files: what they give, worked out by hand from CRF++'s documentation.

The rules were also tried on CRF++ itself: 30 random template files, a model with random weights on
the attributes that we make, and the marginals of CRF++'s tagger equal ours to 1.2e-7.
"""

import io

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom._native import Index
from tagloom.errors import TemplateError
from tagloom.features import CRFppTemplates, from_dict, make, read_crfpp

# The example of CRF++'s documentation, the current token being "the".
DATA = """\
He PRP B-NP
reckons VBZ B-VP
the DT B-NP
current JJ I-NP
account NN I-NP
"""


def corpus():
    return tl.read(io.StringIO(DATA), "conll")


@pytest.mark.parametrize(
    ("macro", "value"),
    [
        ("%x[0,0]", "the"),
        ("%x[0,1]", "DT"),
        ("%x[-1,0]", "reckons"),
        ("%x[-2,1]", "PRP"),
        ("%x[0,0]/%x[0,1]", "the/DT"),
        ("ABC%x[0,1]123", "ABCDT123"),
        ("%x[-3,0]", "_B-1"),
        ("%x[-4,1]", "_B-2"),
        ("%x[3,0]", "_B+1"),
        ("%x[4,0]|%x[2,1]", "_B+2|NN"),
    ],
)
def test_what_a_macro_stands_for(macro, value):
    """The table "Expanded features" of the documentation, and both ends of the sentence."""
    assert list(CRFppTemplates([f"U01:{macro}"]).extract(corpus()[0])[2]) == [f"U01:{value}"]


def test_lines_of_blanks_are_skipped():
    assert CRFppTemplates(["U:%x[0,0]", "   ", "\t\r\n", "B"]).templates == ["U:%x[0,0]"]


def test_two_templates_for_pairs_of_labels_have_weights_each():
    """As in CRF++: two equal weights are penalised less than one of twice the size."""
    X, y = [["a", "b"], ["b", "a"], ["a", "a"]], [["N", "V"], ["V", "N"], ["N", "N"]]
    options = {"algorithm": "lbfgs", "l2": 0.5, "boundaries": False, "combinations": "all"}
    lines = ["U:%x[0,0]", "B", "B1"]
    assert CRFppTemplates(lines).templates == ["U:%x[0,0]", "B1"]
    two = tl.CRF(CRFppTemplates(lines), tolerance=1e-9, **options).fit(X, y)
    one = tl.CRF(CRFppTemplates(lines[:2]), tolerance=1e-9, **options).fit(X, y)
    rows = two.scores_.edge_rows
    second = np.zeros(4)
    second[rows.cols] = rows.weights
    np.testing.assert_allclose(second.reshape(2, 2), two.transitions_, atol=1e-4)
    assert two.history_[-1].loss < one.history_[-1].loss - 1e-3


def test_a_whole_file(tmp_path):
    path = tmp_path / "template"
    path.write_text("# Unigram\nU00:%x[-1,0]\nU01:%x[0,0]/%x[0,1]\n\nU\n# Bigram\nB\nB02:%x[0,1]\n")
    templates = read_crfpp(path)
    assert templates.templates == ["U00:%x[-1,0]", "U01:%x[0,0]/%x[0,1]", "U", "B02:%x[0,1]"]
    assert templates.transitions
    assert any(templates.extract(corpus()[0], edges=True))
    sentence = corpus()[0]
    assert [list(token) for token in templates.extract(sentence)][:2] == [
        ["U00:_B-1", "U01:He/PRP", "U"],
        ["U00:He", "U01:reckons/VBZ", "U"],
    ]
    edges = templates.extract(sentence, edges=True)
    assert [list(token) for token in edges[1:3]] == [["B02:VBZ"], ["B02:DT"]]
    encoded = templates.encode(corpus(), Index(), Index(), grow=True)
    assert encoded.indptr.tolist() == [0, 3, 6, 9, 12, 15]
    assert encoded.edge_indptr.tolist() == [0, 1, 2, 3, 4, 5]


def test_templates_without_a_number_are_a_bag_of_words():
    """Without "U01:" before them, words at different places are the same feature."""
    templates, index = CRFppTemplates(["U:%x[-1,0]", "U:%x[1,0]"]), Index()
    encoded = templates.encode([["a", "b", "a"]], index, grow=True)
    assert encoded.ids[2:4].tolist() == [encoded.ids[2]] * 2  # around b stand a and a
    assert templates.extract(["a", "b", "a"])[1] == {"U:a": 2.0}


def test_without_a_bare_b_pairs_of_labels_have_no_weight():
    assert not CRFppTemplates(["U:%x[0,0]"]).transitions
    assert not CRFppTemplates(["U:%x[0,0]", "B%x[0,0]"]).transitions
    assert CRFppTemplates(["U:%x[0,0]", "B01"]).transitions
    assert make(["word"]).transitions


def test_words_alone_have_column_0_only():
    templates = CRFppTemplates(["U:%x[0,0]", "U:%x[0,1]"])
    with raises(
        TemplateError, where="sentence 0", expected="column 1, which template 1, 'U:%x[0,1]'"
    ):
        templates.extract(["the"])
    assert CRFppTemplates(["U:%x[0,0]"]).extract(["the"]) == [{"U:the": 1.0}]


def test_a_column_that_the_data_does_not_have():
    with raises(TemplateError, expected="'U02:%x[-1,4]'", found="0, 1, 2"):
        CRFppTemplates(["U02:%x[-1,4]"]).extract(corpus()[0])


@pytest.mark.parametrize(
    ("line", "where", "expected", "found"),
    [
        ("X01:%x[0,0]", "line 2", "starts with U", "'X01:%x[0,0]'"),
        ("U01:%x[0]", "line 2, 'U01:%x[0]', character 5", "%x[row,column]", "'%x[0]'"),
        ("U01:%m[0,0]", "character 5", "%x[row,column]", "'%m[0,0]'"),
        ("U01:100%", "character 8", "%x[row,column]", "'%'"),
        ("U01:%x[ 0,0]", "character 5", "%x[row,column]", "'%x[ 0,0]'"),
    ],
)
def test_a_malformed_line(line, where, expected, found, tmp_path):
    with raises(TemplateError, where=where, expected=expected, found=found):
        CRFppTemplates(["U00:%x[0,0]", line])
    path = tmp_path / "broken.tpl"
    path.write_text(f"U00:%x[0,0]\n{line}\n")
    with raises(TemplateError, where="broken.tpl:2"):
        read_crfpp(path)


def test_line_ends_of_windows_and_a_file_by_its_path(tmp_path):
    path = tmp_path / "template"
    path.write_bytes(b"U00:%x[0,0]\r\n\r\nB\r\n")
    templates = make(path)
    assert isinstance(templates, CRFppTemplates)
    assert templates.extract(["a"]) == [{"U00:a": 1.0}]
    assert make(str(path)) == templates


def test_saved_and_loaded():
    templates = CRFppTemplates(["# c", "U00:%x[0,1]", "B"])
    again = from_dict(templates.to_dict())
    assert isinstance(again, CRFppTemplates)
    assert again == templates
    assert again.transitions
    assert again.extract(corpus()[0]) == templates.extract(corpus()[0])
