"""The trellis has legality tables of its own, since it knows no labels; both must say the same."""

import numpy as np
import pytest

import tagloom as tl

LETTERS = {"bio": "BI", "bioes": "BIES", "bilou": "BILU"}


@pytest.mark.parametrize("scheme", LETTERS)
def test_state_spaces_allow_what_the_scheme_allows(scheme):
    labels = [f"{letter}-{kind}" for kind in ("LOC", "PER") for letter in LETTERS[scheme]] + ["O"]
    space = getattr(tl.StateSpace, "bio" if scheme == "bio" else "bioes")(labels)
    legal = tl.labels.legal_moves(labels, scheme)
    np.testing.assert_array_equal(space.initial, legal.start)
    np.testing.assert_array_equal(space.moves_allowed, legal.moves)
    np.testing.assert_array_equal(space.final, legal.stop)
