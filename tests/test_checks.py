"""What users pass: every check accepts what it should and names what it refuses."""

import subprocess
import sys

import numpy as np
import pytest

import tagloom as tl
from tagloom import checks
from tagloom.errors import LabelError, ParameterError, SentenceError, ShapeError


@pytest.mark.parametrize("value", [2, np.int32(2), np.uint64(2)])
def test_counts(value):
    assert checks.count(value, "n") == 2
    assert type(checks.count(value, "n")) is int


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 0, -1, 2**63])
def test_not_counts(value):
    with pytest.raises(ParameterError) as caught:
        checks.count(value, "order", least=1)
    assert caught.value.parameter == "order"
    assert "integer" in caught.value.expected


def test_a_count_raises_the_error_that_the_caller_chooses():
    with pytest.raises(ShapeError):
        checks.count(-1, "n", error=ShapeError)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int64(1)])
def test_numbers(value):
    assert checks.number(value, "eta", above=0, most=1) == float(value)


@pytest.mark.parametrize("value", [0, 2, np.nan, np.inf, True, "1", None, 1j])
def test_not_numbers(value):
    with pytest.raises(ParameterError) as caught:
        checks.number(value, "eta", above=0, most=1)
    assert caught.value.parameter == "eta"
    assert caught.value.expected == "a finite number above 0 and of at most 1"


def test_choices_are_compared_by_type():
    assert checks.choice(None, "select", (None, "l1")) is None
    for value in ("L1", 1, np.array(["l1"])):
        with pytest.raises(ParameterError) as caught:
            checks.choice(value, "select", (None, "l1"))
        assert caught.value.expected == "one of None, 'l1'"


def test_flags():
    assert checks.flag(np.True_, "average") is True
    for value in (1, "yes", None):
        with pytest.raises(ParameterError):
            checks.flag(value, "average")


def test_threads():
    assert checks.threads(None) == checks.ALL_THREADS
    assert checks.threads(np.int64(3)) == 3
    for value in (0, -1, 1.5, "2", 2**63, True):
        with pytest.raises(ParameterError) as caught:
            checks.threads(value)
        assert caught.value.parameter == "n_threads"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has taskset")
def test_all_threads_are_those_of_the_affinity_mask():
    code = "import os; os.sched_setaffinity(0, {0}); from tagloom.checks import threads; "
    code += "print(threads(None))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "1"


@pytest.mark.parametrize(
    "X",
    [
        [["a", "b"], []],
        (["a"], ("b",)),
        [tl.Sentence(["a"])],
        tl.Corpus([["a"]]),
        [np.array(["a"])],
        [],
    ],
)
def test_sentences(X):
    assert len(checks.sentences(X)) == len(X)


def test_sentences_from_an_iterator():
    assert checks.sentences(iter([["a"], ["b"]])) == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("X", "where"),
    [
        ("They can fish", None),
        (b"They", None),
        (3, None),
        (None, None),
        (tl.Sentence(["a"]), None),
        (["They can fish"], "sentence 0"),
        ([["a"], "b c"], "sentence 1"),
        ([["a"], 3], "sentence 1"),
        ([["a"], None], "sentence 1"),
    ],
)
def test_not_sentences(X, where):
    with pytest.raises(SentenceError) as caught:
        checks.sentences(X)
    assert caught.value.where == where
    assert caught.value.found


def test_labels():
    assert checks.label("N", "here") == "N"
    assert type(checks.label(np.str_("N"), "here")) is str
    assert checks.label(None, "here", may_be_open=True) is None
    assert checks.label({"N", "V"}, "here", may_be_open=True) == {"N", "V"}


@pytest.mark.parametrize(
    ("value", "may_be_open"), [(3, True), (None, False), ({"N"}, False), (set(), True), ({1}, True)]
)
def test_not_labels(value, may_be_open):
    with pytest.raises(LabelError) as caught:
        checks.label(value, "sentence 2, token 1", may_be_open=may_be_open)
    assert caught.value.where == "sentence 2, token 1"


def test_label_lists():
    assert checks.label_list(("N", np.str_("V"), None), "here") == ["N", "V", None]
    for value in ("N V", 3, None):
        with pytest.raises(LabelError):
            checks.label_list(value, "here")


@pytest.mark.parametrize("value", ["NV", 3, ["N", 1], ["N", "N"], {"N": 0}, None])
def test_not_label_names(value):
    with pytest.raises(LabelError) as caught:
        checks.label_names(value)
    assert caught.value.parameter == "labels"


def test_values_are_shown_on_one_short_line():
    assert checks.show(np.zeros((50, 50))).count("\n") == 0
    assert len(checks.show(list(range(1000)))) < 70
    assert checks.show(2**80) == "an integer of 81 bits"
    nested = []
    for _ in range(100_000):
        nested = [nested]
    assert checks.show(nested) == "a list, nested deeply"
