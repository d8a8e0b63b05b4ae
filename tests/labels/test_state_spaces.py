"""The state spaces of schemes accept the legal sequences, which regular expressions define."""

import itertools
import re

import numpy as np
import pytest

import tagloom as tl
from raising import raises

# Each label is one character: a span of type x or y in small letters, of type Y in the alphabet.
SPELLING = {
    "bio": {"B-x": "b", "I-x": "i", "B-y": "B", "I-y": "I", "O": "o"},
    "bioes": {"B-x": "b", "I-x": "i", "E-x": "e", "S-x": "s", "B-y": "B", "E-y": "E", "O": "o"},
    "bilou": {"B-x": "b", "I-x": "i", "L-x": "e", "U-x": "s", "B-y": "B", "L-y": "E", "O": "o"},
    "iob1": {"B-x": "b", "I-x": "i", "I-y": "I", "O": "o"},
    "io": {"I-x": "i", "I-y": "I", "O": "o"},
}
GRAMMAR = {
    "bio": r"(o|bi*|BI*)*",
    "bioes": r"(o|s|bi*e|BE)*",
    "bilou": r"(o|s|bi*e|BE)*",
    "iob1": r"(o|I+|i+(bi*)*)*",  # b only right after a token of its own type
    "io": r"[oiI]*",
}


@pytest.mark.parametrize("scheme", GRAMMAR)
def test_a_state_space_accepts_the_legal_sequences(scheme):
    spelling = SPELLING[scheme]
    labels = list(spelling)
    space = tl.labels.state_space(labels, scheme)
    for T in range(5):
        for path in itertools.product(labels, repeat=T):
            is_legal = re.fullmatch(GRAMMAR[scheme], "".join(spelling[y] for y in path)) is not None
            assert space.accepts(path) == is_legal, path


@pytest.mark.parametrize("scheme", ["bio", "bioes", "bilou"])
def test_constructors_of_state_spaces_use_the_same_rules(scheme):
    labels = list(SPELLING[scheme])
    space = tl.labels.state_space(labels, scheme)
    assert space == (tl.StateSpace.bio if scheme == "bio" else tl.StateSpace.bioes)(labels)
    legal = tl.labels.legal_transitions(labels, scheme)
    np.testing.assert_array_equal(space.initial, legal.start)
    np.testing.assert_array_equal(space.transitions_allowed, legal.transitions)
    np.testing.assert_array_equal(space.final, legal.stop)


def test_bioes_reads_both_spellings():
    mixed = tl.StateSpace.bioes(["B-x", "E-x", "L-x", "U-x", "O"])
    assert mixed.accepts(["B-x", "L-x", "U-x", "B-x", "E-x"])
    assert not mixed.accepts(["L-x"])
    with raises(tl.errors.SchemeError, where="labels[1]", found="'L-x'"):
        tl.labels.state_space(["B-x", "L-x"], "bioes")
