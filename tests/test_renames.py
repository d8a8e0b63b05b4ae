"""Old public names work for one release and warn with the new name."""

import numpy as np
import pytest

import tagloom as tl
from tagloom import training
from tagloom.trellis import semirings

TRELLIS = tl.Trellis([[0.0, 1.0], [2.0, 0.0]], labels=["N", "V"])
SPACE = TRELLIS.states
HMM = tl.HMM().fit([["a", "b"]], [["N", "V"]])
ARRAYS = (
    np.array([0, 2]),
    training.Attributes(np.array([0, 1, 2]), np.array([0, 1], np.int32), 2),
    training.Labels(np.array([0, 1], np.int32), 2),
)
OBJECTIVE = training.LinearObjective(*ARRAYS)
BIO = tl.models.Constraints(("O", "B-x", "I-x"), "bio")


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        (lambda: TRELLIS.move_probs(), lambda: TRELLIS.transition_probs(), "transition_probs"),
        (lambda: TRELLIS.moves[0], lambda: TRELLIS.label_transitions[0], "label_transitions"),
        (lambda: SPACE.n_moves, lambda: SPACE.n_transitions, "n_transitions"),
        (lambda: SPACE.move_table, lambda: SPACE.transition_table, "transition_table"),
        (lambda: SPACE.moves_allowed, lambda: SPACE.transitions_allowed, "transitions_allowed"),
        (lambda: HMM.log_moves_[0], lambda: HMM.log_transitions_[0], "log_transitions_"),
        (lambda: BIO.moves.src, lambda: BIO.transitions.src, "transitions"),
        (
            lambda: tl.StateSpace.from_moves(2, np.eye(2, dtype=bool)).src,
            lambda: tl.StateSpace.from_transitions(2, np.eye(2, dtype=bool)).src,
            "from_transitions",
        ),
        (
            lambda: tl.labels.legal_moves(["O", "B-x"], "bio").transitions,
            lambda: tl.labels.legal_transitions(["O", "B-x"], "bio").transitions,
            "legal_transitions",
        ),
        (
            lambda: tl.labels.legal_transitions(["O", "B-x"], "bio").moves,
            lambda: tl.labels.legal_transitions(["O", "B-x"], "bio").transitions,
            "transitions",
        ),
        (
            lambda: TRELLIS.constrain(forbidden_moves=[("V", "N")]).viterbi().path,
            lambda: TRELLIS.constrain(forbidden_transitions=[("V", "N")]).viterbi().path,
            "forbidden_transitions",
        ),
        (
            lambda: semirings.reduce_moves(semirings.LOG_PLUS, SPACE, *_scores()),
            lambda: semirings.reduce_transitions(semirings.LOG_PLUS, SPACE, *_scores()),
            "reduce_transitions",
        ),
        (
            lambda: training.Problem(*ARRAYS).mask(),
            lambda: training.LinearObjective(*ARRAYS).mask(),
            "LinearObjective",
        ),
        (
            lambda: training.SGD(problem=OBJECTIVE).theta(),
            lambda: training.SGD(objective=OBJECTIVE).theta(),
            "objective=",
        ),
    ],
)
def test_an_old_name_warns_and_returns_the_same(old, new, name):
    with pytest.warns(DeprecationWarning, match=f"is now called {name}") as warned:
        result = old()
    assert warned[0].filename == __file__
    np.testing.assert_array_equal(result, new())


def test_the_old_class_name_is_the_new_class():
    assert tl.labels.LegalMoves is tl.labels.LegalTransitions


def _scores():
    """Emissions, transitions, starts, stops, no edge scores and no tied weights."""
    return TRELLIS.emit, *TRELLIS.label_transitions, None, np.zeros(0)
