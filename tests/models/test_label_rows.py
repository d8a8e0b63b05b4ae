"""Labels as users pass them: which containers are read, and what is said of wrong ones."""

import numpy as np
import pytest

import tagloom as tl
from raising import raises
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
        [list(map(Name, row)) for row in ROWS],
        [list(map(np.str_, row)) for row in ROWS],
    ],
    ids=["lists", "tuples", "iterator", "iterators", "arrays", "objects", "subclass", "str_"],
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
    ("y", "where", "found"),
    [
        ([["N", "V"], ["N"]], "sentence 0", "2"),
        ([["N", "V", "V"], []], "sentence 1", "0"),
        ([["N", "V", "V", "N"], []], "sentence 0", "4"),
        ([["N", "V", "V"], [7]], "sentence 1, token 0", "7, of type int"),
        ([["N", ["V"], "V"], ["N"]], "sentence 0, token 1", "['V'], of type list"),
        ([["N", None, "V"], ["N"]], "sentence 0, token 1", "None (unknown)"),
        ([["N", {"V"}, "V"], ["N"]], "sentence 0, token 1", "one of ['V']"),
        ([["N", "V", "V"], "N"], "sentence 1", "the str 'N'"),
        (ROWS[:1], None, "1"),
    ],
)
def test_invalid_labels_are_named(y, where, found):
    for read in (read_labels, lambda *given: tl.MostFrequentTag().fit(X, y)):
        with raises(LabelError, where=where, found=found):
            read(X, X, y)
