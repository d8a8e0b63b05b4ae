"""Φ(x, y): the features that the texts print for their examples, and small sums by hand."""

from collections import Counter

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import LabelError
from tagloom.features import START, STOP, extract, global_vector

TOVES = ["the", "slithy", "toves"]


def test_the_slithy_toves_has_exactly_ten_features():
    """W: word and tag, M: suffix and tag, T: tag and tag; "the" has the empty suffix."""
    found = global_vector(TOVES, ["D", "J", "N"], ["word", 'suffix("thy", "es")'])
    assert found == Counter(
        {
            ("transition", START, "D"): 1,
            ("word=the", "D"): 1,
            ('suffix("thy", "es")=', "D"): 1,
            ("transition", "D", "J"): 1,
            ("word=slithy", "J"): 1,
            ('suffix("thy", "es")=thy', "J"): 1,
            ("transition", "J", "N"): 1,
            ("word=toves", "N"): 1,
            ('suffix("thy", "es")=es', "N"): 1,
            ("transition", "N", STOP): 1,
        }
    )
    assert len(found) == 10


def test_they_can_fish_has_seven_features():
    found = global_vector(["they", "can", "fish"], ["N", "V", "V"])
    assert found == Counter(
        [
            ("word=they", "N"),
            ("transition", START, "N"),
            ("word=can", "V"),
            ("transition", "N", "V"),
            ("word=fish", "V"),
            ("transition", "V", "V"),
            ("transition", "V", STOP),
        ]
    )


def test_the_vector_of_the_pidgin_english_sentence():
    """The counts of 001 (15): first state, transitions by column, emissions by column."""
    words, states = ["the", "can", "can", "can", "the", "can"], list("DNVVDN")
    found = global_vector(words, states, stop=False)
    first = [found["transition", START, y] for y in "DNV"]
    transitions = [found["transition", a, b] for a in "DNV" for b in "DNV"]
    emits = [found[f"word={w}", y] for y in "DNV" for w in ("can", "the")]
    assert first + transitions + emits == [1, 0, 0, 0, 2, 0, 0, 0, 1, 1, 0, 1, 0, 2, 2, 0, 2, 0]


def test_edge_templates_count_pairs_of_labels_from_the_second_token_on():
    found = global_vector(["a", "b"], ["X", "Y"], ["word", "edge(word[-1])"], start=False)
    assert found == Counter(
        [
            ("word=a", "X"),
            ("transition", "X", "Y"),
            ("word=b", "Y"),
            ("edge(word[-1])=a", "X", "Y"),
            ("transition", "Y", STOP),
        ]
    )


def test_real_values_are_summed():
    found = global_vector([{"x": 0.5}, {"x": 0.25}], ["A", "A"], None)
    assert found["x", "A"] == 0.75


@pytest.mark.parametrize("labels", [["N"], "NVV", ["N", None, "V"], ["N", {"V"}, "V"]])
def test_labels_that_do_not_fit_are_refused(labels):
    with raises(
        LabelError, expected="per token" if len(labels) == 1 or labels == "NVV" else "for every"
    ):
        global_vector(["they", "can", "fish"], labels)


def test_an_empty_sentence_has_no_features():
    assert global_vector([], []) == Counter()


def test_extract_shows_edges_among_the_others():
    assert extract(["a"], ["word", "edge(word)"]) == [{"word=a": 1.0, "edge(word)=a": 1.0}]


def test_what_is_extracted_can_be_given_as_features():
    sentence = ["They", "can", "fish"]
    shown = tl.features.extract(sentence, "pos")
    assert tl.features.extract(shown, None) == shown
