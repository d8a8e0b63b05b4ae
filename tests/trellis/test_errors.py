"""What a user reads after a mistake: which array, what was found, what was expected."""

import copy
import pickle
import re

import numpy as np
import pytest

import tagloom as tl
from tagloom.errors import (
    InfeasibleError,
    LabelError,
    ParameterError,
    ScoreError,
    ShapeError,
    TagloomError,
)
from tagloom.trellis import Trellis, log_partition_grad


def says(*parts):
    """A pattern for a message that contains all the parts, in any order."""
    return "(?s)" + "".join(f"(?=.*{re.escape(part)})" for part in parts)


EMIT = np.zeros((4, 3))


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({"emit": np.zeros(3)}, ["emit", "(3,)", "(T, Y)"]),
        ({"emit": np.zeros((2, 3, 3))}, ["emit", "(2, 3, 3)", "(T, Y)"]),
        ({"emit": np.zeros((2, 0))}, ["emit", "(2, 0)"]),
        ({"trans": np.zeros((3, 2))}, ["trans", "(3, 3)", "(3, 2)"]),
        ({"trans": np.zeros(9)}, ["trans", "(3, 3)", "(9,)"]),
        ({"start": np.zeros(2)}, ["start", "(3,)", "(2,)"]),
        ({"stop": np.zeros((3, 1))}, ["stop", "(3,)", "(3, 1)"]),
        ({"edge": np.zeros((4, 3, 2))}, ["edge", "(4, 3, 3)", "(4, 3, 2)"]),
        ({"edge": np.zeros((3, 3, 3))}, ["edge", "(4, 3, 3)", "(3, 3, 3)"]),
        ({"labels": ["A", "B"]}, ["labels", "3", "2"]),
        ({"states": tl.StateSpace.first_order(2)}, ["states", "3", "2"]),
        (
            {"states": tl.StateSpace.run_length(3, 0, 1), "weights": np.zeros(5)},
            ["weights", "(6,)", "(5,)"],
        ),
        ({"weights": np.zeros(2)}, ["weights", "(0,)", "(2,)"]),
    ],
)
def test_arrays_that_do_not_fit(arrays, parts):
    with pytest.raises(ShapeError, match=says(*parts)):
        tl.Trellis(**{"emit": EMIT, **arrays})


@pytest.mark.parametrize(
    ("offsets", "parts"),
    [
        ([], ["offsets"]),
        ([[0, 4]], ["offsets", "(1, 2)"]),
        ([1, 4], ["offsets", "1", "0"]),
        ([0, 3], ["offsets", "3", "4"]),
        ([0, 5], ["offsets", "5", "4"]),
        ([0, 3, 2, 4], ["offsets", "3", "2"]),
        ([0.0, 4.5], ["offsets"]),
        ([[0], [0, 4]], ["offsets", "rows of one length", "[[0], [0, 4]]"]),
        ([0, 2**70], ["offsets", "integers", "object"]),
    ],
)
def test_offsets_that_do_not_fit(offsets, parts):
    with pytest.raises(ShapeError, match=says(*parts)):
        tl.Trellis(EMIT, offsets=offsets)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("name", "shape", "index"),
    [
        ("emit", (4, 3), (2, 1)),
        ("trans", (3, 3), (0, 2)),
        ("start", (3,), (1,)),
        ("stop", (3,), (2,)),
        ("edge", (4, 3, 3), (3, 0, 1)),
        ("weights", (6,), (4,)),
    ],
)
def test_scores_that_are_not_scores(name, shape, index, bad):
    array = np.zeros(shape)
    array[index] = bad
    arrays = {"emit": EMIT, name: array}
    if name == "weights":
        arrays["states"] = tl.StateSpace.run_length(3, 0, 1)
    where = f"{name}[{', '.join(map(str, index))}]"
    with pytest.raises(ScoreError, match=says(where, "nan" if np.isnan(bad) else "inf")):
        tl.Trellis(**arrays)


def test_scores_of_another_kind_are_refused():
    with pytest.raises((ShapeError, TypeError), match="emit"):
        tl.Trellis([["a", "b"]])
    with pytest.raises((ShapeError, TypeError), match="emit"):
        tl.Trellis(np.zeros((2, 2), complex))


@pytest.fixture
def tagger():
    return tl.Trellis(EMIT, labels=["D", "N", "V"])


@pytest.fixture
def batch():
    return tl.Trellis(np.zeros((5, 3)), offsets=[0, 2, 5], labels=["D", "N", "V"])


@pytest.mark.parametrize("method", ["path_score", "log_prob"])
def test_labels_of_a_path_must_exist(tagger, method):
    with pytest.raises(LabelError, match=says("'X'", "D", "N", "V")):
        getattr(tagger, method)(["D", "X", "N", "V"])
    with pytest.raises(LabelError, match=says("3")):
        getattr(tagger, method)([0, 1, 3, 0])
    with pytest.raises(LabelError, match=says("-1")):
        getattr(tagger, method)([0, 1, -1, 0])


@pytest.mark.parametrize(
    ("path", "error", "parts"),
    [
        ([["D", "N"], ["D", "N", "X"]], LabelError, ["sequence 1, position 2", "'X'", "'V'"]),
        (["D", "N", "D", "N", "X"], LabelError, ["sequence 1, position 2", "'X'"]),
        (np.array(["D", "X", "D", "N", "V"]), LabelError, ["sequence 0, position 1", "'X'"]),
        ([[0, 1], [0, 1, 7]], LabelError, ["sequence 1, position 2", "7", "0 to 2"]),
        (np.array([0, 1, 2, -1, 0]), LabelError, ["sequence 1, position 1", "-1", "0 to 2"]),
        ([[0, "N"], ["D", 3, "V"]], LabelError, ["sequence 1, position 1", "3", "0 to 2"]),
        ([[0, 1], [0, [1], 0]], LabelError, ["sequence 1, position 1", "[1]"]),
        ([[0, 1], [0, None, 0]], LabelError, ["sequence 1, position 1", "None"]),
        ([[0, 1], None], ShapeError, ["sequence 1", "3 labels", "got None"]),
        ([[0, 1], "DNV"], ShapeError, ["sequence 1", "3 labels", "got 'DNV'"]),
        ([[0, 1], {0, 1, 2}], ShapeError, ["sequence 1", "3 labels", "got {0, 1, 2}"]),
        (None, ShapeError, ["sequence of labels", "got None"]),
        (3, ShapeError, ["sequence of labels", "got 3"]),
        ("DNDNV", ShapeError, ["sequence of labels", "got 'DNDNV'"]),
        (np.zeros((2, 3), int), ShapeError, ["sequence 0", "2 labels", "got 3"]),
    ],
)
def test_a_wrong_label_of_a_batch_is_named_by_sequence_and_position(batch, path, error, parts):
    with pytest.raises(error, match=says(*parts)):
        batch.path_score(path)


@pytest.mark.parametrize(
    ("path", "error", "parts"),
    [
        ([0, "N", "X", 1], LabelError, ["path, position 2", "'X'"]),
        ([0, 1, 2, 2**70], LabelError, ["path, position 3", str(2**70)]),
        ([0, 1, True, 2], LabelError, ["path, position 2", "True"]),
        ([[0, 1], [0], [1], [2]], LabelError, ["path, position 0", "[0, 1]"]),
        ([np.array([0, 1]), "N", "N", "N"], LabelError, ["path, position 0", "array([0, 1])"]),
        ([[0, 1], [0]], ShapeError, ["4 positions", "got 2"]),
        (np.zeros((4, 2), int), ShapeError, ["4 positions", "(4, 2)"]),
        ({0, 1}, ShapeError, ["sequence of labels", "{0, 1}"]),
        (None, ShapeError, ["sequence of labels", "got None"]),
    ],
)
def test_a_wrong_label_of_one_path_is_named_by_position(tagger, path, error, parts):
    with pytest.raises(error, match=says(*parts)):
        tagger.path_score(path)


def test_an_empty_sequence_does_not_shift_the_place_of_a_wrong_label():
    batch = tl.Trellis(np.zeros((3, 2)), offsets=[0, 0, 1, 1, 3])
    with pytest.raises(LabelError, match=says("sequence 3, position 1", "5")):
        batch.path_score([[], [0], [], [0, 5]])
    with pytest.raises(LabelError, match=says("sequence 1, position 0", "5")):
        batch.path_score([5, 0, 0])


def test_ids_and_names_may_be_mixed():
    emit = np.arange(15.0).reshape(5, 3)
    batch = tl.Trellis(emit, offsets=[0, 2, 5], labels=["D", "N", "V"])
    expected = [1 + 5, 6 + 10 + 14]
    assert batch.path_score([[1, "V"], ["D", np.int64(1), "V"]]).tolist() == expected
    assert batch.path_score([1, "V", "D", 1, "V"]).tolist() == expected
    assert batch.path_score([np.array([1, 2]), np.array(["D", "N", "V"])]).tolist() == expected
    assert batch[0].path_score([1, "V"]) == expected[0]
    assert batch[:1].path_score(np.array([[1, 2]])).tolist() == expected[:1]


def test_names_need_label_names():
    with pytest.raises(LabelError, match=says("'N'")):
        tl.Trellis(EMIT).path_score(["N", "N", "N", "N"])


@pytest.mark.parametrize("method", ["path_score", "log_prob"])
def test_paths_must_have_the_length_of_the_sequence(tagger, batch, method):
    with pytest.raises(ShapeError, match=says("path", "4", "3")):
        getattr(tagger, method)([0, 1, 2])
    with pytest.raises(ShapeError, match=says("path", "5", "6")):
        getattr(batch, method)(np.zeros(6, int))
    with pytest.raises(ShapeError, match=says("path", "sequence 1", "3", "2")):
        getattr(batch, method)([[0, 0], [0, 0]])
    with pytest.raises(ShapeError, match=says("2", "1")):
        getattr(batch, method)([[0, 0]])


@pytest.mark.parametrize("method", ["log_prob_of", "constrain"])
def test_masks_must_have_the_shape_of_emit(tagger, batch, method):
    with pytest.raises(ShapeError, match=says("allowed", "(4, 3)", "(3, 4)")):
        getattr(tagger, method)(np.ones((3, 4), bool))
    with pytest.raises(ShapeError, match=says("allowed", "(5, 3)", "(2, 3)")):
        getattr(batch, method)(np.ones((2, 3), bool))


@pytest.mark.parametrize("method", ["log_prob_of", "constrain"])
def test_masks_must_not_be_ragged(tagger, method):
    with pytest.raises(ShapeError, match=says("allowed", "rows of one length", "[[True], [False,")):
        getattr(tagger, method)([[True], [False, True]])


def test_masks_must_be_boolean(tagger):
    with pytest.raises(ShapeError, match=says("allowed", "bool", "float64")):
        tagger.log_prob_of(np.ones((4, 3)))


def test_constraints_that_name_nothing(tagger, batch):
    with pytest.raises(LabelError, match=says("'X'")):
        tagger.constrain({0: "X"})
    with pytest.raises(LabelError, match=says("'X'")):
        tagger.constrain(forced={0: "X"})
    with pytest.raises(LabelError, match=says("7")):
        tagger.constrain(forbidden={0: 7})
    with pytest.raises(LabelError, match=says("'X'")):
        tagger.constrain(forbidden_moves=[("D", "X")])
    with pytest.raises(ShapeError, match=says("4")):
        tagger.constrain(forced={4: "N"})
    with pytest.raises(ShapeError, match=says("3")):
        batch.constrain(forced={(1, 3): "N"})
    with pytest.raises(ShapeError, match=says("2")):
        batch.constrain(forced={(2, 0): "N"})
    with pytest.raises(ShapeError, match=says("forbidden_moves", "(3, 3)", "(2, 2)")):
        tagger.constrain(forbidden_moves=np.zeros((2, 2), bool))


@pytest.mark.parametrize(
    ("constraints", "error", "parts"),
    [
        ({"forbidden_moves": 3}, ShapeError, ["forbidden_moves", "pairs", "(3, 3)", "got 3"]),
        ({"forbidden_moves": "DN"}, ShapeError, ["forbidden_moves", "pairs", "got 'DN'"]),
        ({"forbidden_moves": {0: None}}, ShapeError, ["forbidden_moves", "got {0: None}"]),
        ({"forbidden_moves": [1, 2]}, ShapeError, ["forbidden_moves: 1 is not a pair"]),
        ({"forbidden_moves": [("D", None)]}, LabelError, ["forbidden_moves", "None"]),
        ({"forbidden_moves": [[True], [True, False]]}, ShapeError, ["rows of one length"]),
        ({"allowed": {(0, 1): None}}, LabelError, ["allowed[(0, 1)]", "None", "'D'"]),
        ({"forbidden": {(0, 1): None}}, LabelError, ["forbidden[(0, 1)]", "None", "'D'"]),
        ({"forced": {(0, 1, 2): "N"}}, ShapeError, ["forced", "(sequence, position)", "(0, 1, 2)"]),
        ({"forced": {1: "N"}}, ShapeError, ["forced", "(sequence, position)", "got 1"]),
        ({"forced": {"ab": "N"}}, ShapeError, ["forced", "(sequence, position)", "got 'ab'"]),
        ({"forced": {("a", 1): "N"}}, ShapeError, ["forced: sequence 'a' is not in 0 to 1"]),
        ({"forced": {(0.5, 1): "N"}}, ShapeError, ["forced: sequence 0.5 is not in 0 to 1"]),
        ({"forced": {(1, 0.5): "N"}}, ShapeError, ["forced: position 0.5 is not in 0 to 2"]),
    ],
)
def test_constraints_of_another_kind_are_refused(batch, constraints, error, parts):
    with pytest.raises(error, match=says(*parts)):
        batch.constrain(**constraints)


def test_constraints_may_be_sets(tagger):
    assert tagger.constrain({0: {"N", 2}}).count_paths() == 2 * 3**3
    assert tagger.constrain(forbidden={0: ("N",), 1: np.array([0, 1])}).count_paths() == 2 * 9
    assert tagger.constrain(forbidden_moves={("N", "V")}).count_paths() == 55


def infeasible():
    """Three sequences of two; the second dies at its position 1."""
    emit = np.zeros((6, 2))
    emit[3] = -np.inf
    return tl.Trellis(emit, offsets=[0, 2, 4, 6])


ASKED = {
    "viterbi": lambda trellis: trellis.viterbi(),
    "marginals": lambda trellis: trellis.marginals(),
    "posterior_decode": lambda trellis: trellis.posterior_decode(),
    "sample": lambda trellis: trellis.sample(2, random_state=0),
}


@pytest.mark.parametrize("method", ASKED)
def test_no_path_names_sequence_and_position(method):
    with pytest.raises(InfeasibleError, match=says("sequence 1", "position 1")) as caught:
        ASKED[method](infeasible())
    assert (caught.value.sequence, caught.value.position) == (1, 1)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.sequence, again.position, str(again)) == (1, 1, str(caught.value))


def test_one_bad_sequence_does_not_spoil_the_batch():
    """What raises takes on_infeasible="none"; what can answer −inf does."""
    batch = infeasible()
    for ask in (batch.viterbi, batch.marginals, batch.posterior_decode, batch.entropy):
        with pytest.raises(InfeasibleError, match=says("sequence 1", "on_infeasible='none'")):
            ask()
        ask(on_infeasible="none")
    assert (batch.split(batch.sample(2, 0, on_infeasible="none").T)[1] == -1).all()
    assert batch.entropy(on_infeasible="none")[1] == 0
    for log_probs in (batch.log_prob(np.zeros(6, int)), batch.log_prob_of(np.ones((6, 2), bool))):
        assert log_probs[1] == -np.inf
        assert np.isfinite(log_probs[0])


def automaton_without_end():
    return tl.StateSpace.bioes(["B-X", "I-X", "E-X", "O", "S-X"])


@pytest.mark.parametrize(
    ("arrays", "position"),
    [
        ({"emit": np.zeros((3, 2)), "start": np.full(2, -np.inf)}, 0),
        ({"emit": np.zeros((3, 2)), "trans": np.full((2, 2), -np.inf)}, 1),
        ({"emit": np.zeros((3, 2)), "stop": np.full(2, -np.inf)}, 3),
        ({"emit": np.array([[0.0, 0], [0, 0], [-np.inf, -np.inf]])}, 2),
        # B-X is forced at the last position: every position is reached, but it may not end there.
        (
            {
                "emit": np.array([[0.0] * 5, [0] + [-np.inf] * 4]),
                "states": automaton_without_end(),
            },
            2,
        ),
        (
            {
                "emit": np.zeros((2, 2)),
                "edge": np.stack([np.zeros((2, 2)), np.full((2, 2), -np.inf)]),
            },
            1,
        ),
    ],
)
def test_the_first_position_that_no_path_reaches(arrays, position):
    trellis = tl.Trellis(**arrays)
    assert trellis.is_feasible() is False
    for method, ask in ASKED.items():
        with pytest.raises(InfeasibleError, match=says(f"position {position}")) as caught:
            ask(trellis)
        assert (caught.value.sequence, caught.value.position) == (0, position), method


@pytest.mark.parametrize("method", ["viterbi", "marginals", "posterior_decode"])
def test_on_infeasible_is_raise_or_none(method):
    with pytest.raises(ValueError, match=says("on_infeasible", "ignore", "raise", "none")):
        getattr(tl.Trellis(EMIT), method)(on_infeasible="ignore")


def test_arguments_out_of_range(tagger):
    with pytest.raises(ValueError, match=says("n", "0")):
        tagger.nbest(0)
    with pytest.raises(ValueError, match=says("n", "-1")):
        tagger.sample(-1)
    with pytest.raises(ValueError, match=says("distance", "0")):
        tagger.pair_marginals(0)
    with pytest.raises(ValueError, match=says("n_threads", "0")):
        tl.Trellis(EMIT, n_threads=0)
    with pytest.raises(ValueError, match=says("semiring", "min-plus", "log-plus", "max-plus")):
        tagger.forward("min-plus")
    with pytest.raises(ValueError, match=says("semiring", "min-plus", "log-plus", "max-plus")):
        tagger.backward("min-plus")


def test_indexing_a_batch(batch):
    assert batch[-1].lengths.tolist() == [3]
    with pytest.raises(IndexError, match="2"):
        batch[2]
    with pytest.raises(ShapeError, match=says("5", "4")):
        batch.split(np.zeros(4))


def test_a_single_sequence_is_no_batch(tagger):
    with pytest.raises(TypeError, match="single"):
        len(tagger)
    with pytest.raises(TypeError, match="single"):
        tagger[0]


def test_stacked_arrays_must_agree():
    with pytest.raises(ShapeError, match=says("emit", "1", "(2, 4)", "3")):
        tl.Trellis.stack([np.zeros((2, 3)), np.zeros((2, 4))])
    with pytest.raises(ShapeError, match=says("edge", "2", "1")):
        tl.Trellis.stack([np.zeros((2, 3))] * 2, edge=[np.zeros((2, 3, 3))])
    with pytest.raises(ShapeError, match=says("edge", "(2, 3, 3)", "(1, 3, 3)")):
        tl.Trellis.stack([np.zeros((2, 3))] * 2, edge=[np.zeros((T, 3, 3)) for T in (1, 3)])


@pytest.mark.parametrize(
    ("change", "error", "parts"),
    [
        ({"grad_emit": np.zeros((4, 2))}, ShapeError, ["grad_emit", "(4, 3)", "(4, 2)"]),
        ({"grad_trans": np.zeros((2, 3))}, ShapeError, ["grad_trans", "(3, 3)", "(2, 3)"]),
        ({"grad_start": [0.0, 0.0, 0.0]}, ShapeError, ["grad_start", "ndarray", "list"]),
        ({"weight": np.ones(3)}, ShapeError, ["weight", "(2,)", "(3,)"]),
        ({"weight": np.array([1.0, np.nan])}, ScoreError, ["weight[1]", "nan"]),
        ({"offsets": [0, 5, 4]}, ShapeError, ["offsets", "5", "4"]),
    ],
)
def test_gradient_buffers_must_fit(change, error, parts):
    arguments = {"offsets": [0, 2, 4], "emit": EMIT, "trans": np.zeros((3, 3)), **change}
    with pytest.raises(error, match=says(*parts)):
        log_partition_grad(**arguments)


def test_gradient_buffers_must_be_writable():
    grad = np.zeros((4, 3))
    grad.flags.writeable = False
    with pytest.raises(ShapeError, match=says("grad_emit", "writ")):
        log_partition_grad([0, 4], EMIT, grad_emit=grad)


def test_every_error_is_also_a_built_in():
    for error in (ShapeError, ScoreError, LabelError, InfeasibleError):
        assert issubclass(error, TagloomError)
        assert issubclass(error, ValueError)


@pytest.mark.parametrize(
    ("ask", "error", "parts"),
    [
        (lambda t: t.nbest(2.5), ParameterError, ("n must be an int", "2.5")),
        (lambda t: t.nbest(0), ParameterError, ("n must be at least 1", "0")),
        (lambda t: t.pair_marginals(0), ParameterError, ("distance", "at least 1")),
        (lambda t: t.sample(-1), ParameterError, ("n must be at least 0", "-1")),
        (lambda t: t.forward("sum"), ParameterError, ("log-plus", "max-plus", "sum")),
        (lambda t: t.reduce("tropical"), ParameterError, ("tropical", "max-plus")),
        (lambda t: t.draw(format="png"), ParameterError, ("text", "svg", "png")),
        (lambda t: t.names([0]), ShapeError, ("path", "(2,)", "(1,)")),
        (lambda t: Trellis(t.emit, labels=["N", "N"]), LabelError, ("'N' occurs twice",)),
        (lambda t: Trellis(t.emit, labels="NV"), LabelError, ("list of names", "'NV'")),
        (lambda t: Trellis(t.emit, n_threads=1.5), ParameterError, ("n_threads", "1.5")),
        (lambda t: Trellis(t.emit).names([0, 1]), LabelError, ("no label names", "labels=")),
        (lambda t: t.names([[0], [0, 1]]), ShapeError, ("path", "rows of one length")),
        (lambda t: t.nbest(2**70), ParameterError, ("n must be less than 2**63", "71 bits")),
        (lambda t: t.nbest(10**5000), ParameterError, ("n must be less than 2**63",)),
        (lambda t: t.sample(2**70), ParameterError, ("n must be less than 2**63",)),
        (lambda t: t.pair_marginals(2**70), ParameterError, ("distance must be less than 2**63",)),
        (
            lambda t: Trellis(t.emit, n_threads=2**70),
            ParameterError,
            ("n_threads must be less than 2**63", "71 bits"),
        ),
        (
            lambda t: Trellis(t.emit, states="bio"),
            ParameterError,
            ("states must be a StateSpace", "StateSpace.bio(labels)", "got 'bio'"),
        ),
        (lambda t: t.reduce(3), ParameterError, ("semiring", "'max-plus'", "3 lacks zero, one")),
        (
            lambda t: t.reduce(type("Half", (), {"zero": 0, "one": 1, "plus": max})()),
            ParameterError,
            ("object with zero, one, plus, times and lift", "lacks times, lift"),
        ),
        (lambda t: Trellis.stack([[[0], [0, 1]]]), ShapeError, ("emits[0]", "rows of one length")),
    ],
)
def test_parameters_out_of_range_are_named(ask, error, parts):
    trellis = Trellis(np.zeros((2, 2)), labels=["N", "V"])
    with pytest.raises(error, match=says(*parts)):
        ask(trellis)


def test_the_largest_number_is_not_too_large():
    trellis = Trellis(np.zeros((2, 2)), n_threads=2**63 - 1)
    assert len(trellis.nbest(2**63 - 1).paths) == 4
    assert not trellis.pair_marginals(2**63 - 1).any()


def test_semirings_may_be_named_and_moves_given_as_a_list_of_bools():
    trellis = Trellis([[0.0, 1.0], [0.0, 2.0]])
    assert trellis.reduce("counting") == 4
    banned = trellis.constrain(forbidden_moves=[[False, True], [True, True]])
    assert banned.count_paths() == 1
    assert trellis.log_prob_of({0: 1}) == pytest.approx(
        trellis.constrain(forced={0: 1}).log_partition() - trellis.log_partition()
    )


@pytest.mark.parametrize(
    ("ask", "error", "parts"),
    [
        (lambda t: Trellis(np.full((2, 2), -1e308)), ScoreError, ("emit[0, 0]", "1e300", "-inf")),
        (
            lambda t: Trellis(np.zeros((2, 2), np.float32), np.array([[0, -1e300], [0, 0]])),
            ScoreError,
            ("trans[0, 1]", "float32", "float64"),
        ),
        (
            lambda t: t.constrain(forbidden_moves=np.array([[0, 1], [0, 0]])),
            ShapeError,
            ("forbidden_moves", "bool", "int64"),
        ),
        (lambda t: t.constrain(forbidden_moves=("N", "V")), ShapeError, ("'N'", "pair")),
        (
            lambda t: Trellis(t.emit, states=tl.StateSpace.order(["a", "b"], 2), labels=["x", "y"]),
            LabelError,
            ("['x', 'y']", "['a', 'b']"),
        ),
        (lambda t: Trellis(t.emit, labels={"N", "V"}), LabelError, ("in order", "set")),
        (lambda t: Trellis(t.emit, labels=[1, 0]), LabelError, ("str", "1")),
        (lambda t: Trellis([[1, 2], [3]]), ShapeError, ("emit", "numbers")),
        (lambda t: t.names([0, 2]), LabelError, ("0 to 1",)),
        (lambda t: list(t), TypeError, ("single Trellis",)),
        (lambda t: Trellis(t.emit, offsets=[0, 2])["a"], TypeError, ("int or a slice", "'a'")),
    ],
)
def test_what_could_be_misread_is_refused(ask, error, parts):
    trellis = Trellis(np.zeros((2, 2)), labels=["N", "V"])
    with pytest.raises(error, match=says(*parts)):
        ask(trellis)


def test_a_trellis_can_be_copied_whatever_was_asked_of_it_before():
    trellis = Trellis(np.eye(3), labels=["N", "V", "D"])
    trellis.nbest(2)
    trellis.draw()
    for copied in (pickle.loads(pickle.dumps(trellis)), copy.deepcopy(trellis)):
        assert copied.viterbi().path.tolist() == trellis.viterbi().path.tolist()
        assert copied.labels == trellis.labels


def test_an_empty_sequence_is_drawn_with_its_one_path():
    picture = Trellis(np.zeros((0, 2))).draw()
    assert "best path (score 0)" in picture
    assert "no path" not in picture


def test_a_slice_of_a_batch_is_a_batch():
    batch = Trellis.stack([np.eye(3)[:2], np.eye(3)[:1], np.eye(3)])
    assert batch[1:].lengths.tolist() == [1, 3]
    assert np.shares_memory(batch[1:].emit, batch.emit)
    assert [len(batch[part]) for part in (slice(3, None), slice(2, 1), slice(0, 3, 2))] == [0, 0, 2]
    assert batch[::-1].log_partition() == pytest.approx(batch.log_partition()[::-1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("at", [[0], [16_383], [16_384, 16_385], [299_999], [70_001, 270_000]])
def test_the_first_wrong_score_of_a_large_array_is_named(at, wrong, dtype):
    emit = np.full((100_000, 3), -np.inf, dtype=dtype)
    emit[:, 0] = 1
    emit.flat[at] = wrong
    where = ", ".join(map(str, np.unravel_index(at[0], emit.shape)))
    for n_threads in (1, 2):
        with pytest.raises(ScoreError, match=says(f"emit[{where}] is {wrong}")):
            tl.Trellis(emit, n_threads=n_threads)
    emit.flat[at] = 1
    assert len(tl.Trellis(emit).viterbi().path) == 100_000


@pytest.mark.parametrize(
    ("out", "parts"),
    [
        (np.empty((4, 2)), ["out", "(4, 3)", "(4, 2)"]),
        ([[0.0] * 3] * 4, ["out", "(4, 3)", "list"]),
        (np.broadcast_to(0.0, (4, 3)), ["out", "read-only", "copy"]),
        (np.zeros((4, 3), dtype=int), ["out", "float", "int64"]),
        (np.zeros((4, 3), dtype=bool), ["out", "float", "bool"]),
    ],
)
def test_an_array_that_cannot_take_the_marginals(out, parts):
    with pytest.raises(ShapeError, match=says(*parts)):
        tl.Trellis(EMIT).marginals(out=out)
