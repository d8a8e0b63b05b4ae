"""Labels as users pass them: which containers are read, and what is said of wrong ones."""

import numpy as np
import pytest

import tagloom as tl
from tagloom.errors import LabelError
from tagloom.models.data import number_labels, read_labels

X = [["they", "can", "fish"], ["fish"]]
ROWS = [["N", "V", "V"], ["N"]]


class Name(str):
    """A str that is not only a str."""


@pytest.mark.parametrize(
    "y",
    [
        ROWS,
        tuple(map(tuple, ROWS)),
        iter(ROWS),
        (iter(row) for row in ROWS),
        [np.array(row) for row in ROWS],
        [np.array(row, dtype=object) for row in ROWS],
    ],
    ids=["lists", "tuples", "iterator", "iterators", "arrays", "arrays of objects"],
)
def test_labels_are_read_from_any_container(y):
    gold = number_labels(read_labels(X, X, y), None)
    assert gold.names == ["N", "V"]
    assert gold.numbers.tolist() == [0, 1, 1, 0]
    assert not gold.is_open.any()


def test_open_labels_are_read_where_they_may_be():
    y = [["N", None, {"V", "N"}], [frozenset(["V"])]]
    read = read_labels(X, X, y, may_be_open=True)
    assert read.numbers is None
    gold = number_labels(read, None)
    assert gold.numbers.tolist() == [0, -1, -1, 1]  # both are as good as None
    assert gold.sets.tolist() == [[True, True]]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["N", "V"], ["N"]], "sentence 0 has 3 tokens but 2 labels"),
        ([["N", "V", "V"], []], "sentence 1 has 1 tokens but 0 labels"),
        ([["N", "V", "V", "N"], []], "sentence 0 has 3 tokens but 4 labels"),
        (
            [["N", "V", "V"], [7]],
            "sentence 1, token 0: the label is 7, of type int; labels are str",
        ),
        ([["N", ["V"], "V"], ["N"]], r"sentence 0, token 1: the label is \['V'\], of type list"),
        ([["N", Name("V"), "V"], ["N"]], "sentence 0, token 1: the label is 'V', of type Name"),
        ([["N", np.str_("V"), "V"], ["N"]], "sentence 0, token 1: .* of type str_; labels are str"),
        ([["N", None, "V"], ["N"]], r"sentence 0, token 1: the label is unknown \(None\)"),
        ([["N", {"V"}, "V"], ["N"]], "sentence 0, token 1: the label is one of several"),
        ([["N", "V", "V"], "N"], "sentence 1: the labels are the str 'N'"),
        (ROWS[:1], "2 sentences but 1 lists of labels"),
    ],
)
def test_a_label_that_is_none_is_named(y, message):
    for read in (read_labels, lambda *given: tl.HMM().fit(X, y)):
        with pytest.raises(LabelError, match=message):
            read(X, X, y)
