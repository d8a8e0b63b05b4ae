"""Errors of a trellis: which argument, what was found, what was expected."""

import copy
import pickle

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import (
    InfeasibleError,
    LabelError,
    ParameterError,
    ScoreError,
    ShapeError,
    TagloomError,
)
from tagloom.trellis import Trellis, log_partition_grad

EMIT = np.zeros((4, 3))


@pytest.mark.parametrize(
    ("arrays", "fields"),
    [
        ({"emit": np.zeros(3)}, {"parameter": "emit", "found": "(3,)", "expected": "(T, Y)"}),
        (
            {"emit": np.zeros((2, 3, 3))},
            {"parameter": "emit", "found": "(2, 3, 3)", "expected": "(T, Y)"},
        ),
        (
            {"emit": np.zeros((2, 0))},
            {"parameter": "emit", "found": "(2, 0)", "expected": "at least one label"},
        ),
        (
            {"trans": np.zeros((3, 2))},
            {
                "parameter": "trans",
                "found": "(3, 2)",
                "expected": "(Y, Y) = (3, 3) to match emit (4, 3)",
            },
        ),
        ({"trans": np.zeros(9)}, {"parameter": "trans", "found": "(9,)", "expected": "(3, 3)"}),
        (
            {"start": np.zeros(2)},
            {"parameter": "start", "found": "(2,)", "expected": "(Y,) = (3,)"},
        ),
        ({"stop": np.zeros((3, 1))}, {"parameter": "stop", "found": "(3, 1)", "expected": "(3,)"}),
        (
            {"edge": np.zeros((4, 3, 2))},
            {"parameter": "edge", "found": "(4, 3, 2)", "expected": "(4, 3, 3)"},
        ),
        (
            {"edge": np.zeros((3, 3, 3))},
            {"parameter": "edge", "found": "(3, 3, 3)", "expected": "(4, 3, 3)"},
        ),
        ({"labels": ["A", "B"]}, {"parameter": "labels", "found": "2", "expected": "3 names"}),
        (
            {"states": tl.StateSpace.first_order(2)},
            {"parameter": "states", "found": "2", "expected": "3 labels"},
        ),
        (
            {"states": tl.StateSpace.run_length(3, 0, 1), "weights": np.zeros(5)},
            {"parameter": "weights", "found": "(5,)", "expected": "(6,)"},
        ),
        ({"weights": np.zeros(2)}, {"parameter": "weights", "found": "(2,)", "expected": "(0,)"}),
    ],
)
def test_wrong_shapes(arrays, fields):
    with raises(ShapeError, **fields):
        tl.Trellis(**{"emit": EMIT, **arrays})


@pytest.mark.parametrize(
    ("offsets", "fields"),
    [
        ([], {"parameter": "offsets", "found": "an array of float64, shape (0,)"}),
        ([[0, 4]], {"parameter": "offsets", "found": "an array of int64, shape (1, 2)"}),
        ([1, 4], {"parameter": "offsets", "found": "1 to 4"}),
        ([0, 3], {"parameter": "offsets", "found": "0 to 3"}),
        ([0, 5], {"parameter": "offsets", "found": "0 to 5"}),
        ([0, 3, 2, 4], {"parameter": "offsets", "found": "3, 2 at offsets[1:3]"}),
        ([0.0, 4.5], {"parameter": "offsets", "found": "an array of float64, shape (2,)"}),
        ([[0], [0, 4]], {"parameter": "offsets", "found": "[[0], [0, 4]]"}),
        ([0, 2**70], {"parameter": "offsets", "found": "an array of object, shape (2,)"}),
    ],
)
def test_wrong_offsets(offsets, fields):
    with raises(ShapeError, **fields):
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
def test_nan_and_infinite_scores_are_named(name, shape, index, bad):
    array = np.zeros(shape)
    array[index] = bad
    arrays = {"emit": EMIT, name: array}
    if name == "weights":
        arrays["states"] = tl.StateSpace.run_length(3, 0, 1)
    where = f"{name}[{', '.join(map(str, index))}]"
    with raises(ScoreError, where=where, found="nan" if np.isnan(bad) else "inf"):
        tl.Trellis(**arrays)


def test_scores_that_are_not_numbers():
    with raises(ShapeError, parameter="emit", found="<U1"):
        tl.Trellis([["a", "b"]])
    with raises(ShapeError, parameter="emit", found="complex128"):
        tl.Trellis(np.zeros((2, 2), complex))


@pytest.fixture
def tagger():
    return tl.Trellis(EMIT, labels=["D", "N", "V"])


@pytest.fixture
def batch():
    return tl.Trellis(np.zeros((5, 3)), offsets=[0, 2, 5], labels=["D", "N", "V"])


@pytest.mark.parametrize("method", ["path_score", "log_prob"])
def test_labels_of_a_path_must_exist(tagger, method):
    with raises(LabelError, where="path, position 1", expected="'D', 'N', 'V'", found="'X'"):
        getattr(tagger, method)(["D", "X", "N", "V"])
    with raises(LabelError, where="path, position 2", found="3"):
        getattr(tagger, method)([0, 1, 3, 0])
    with raises(LabelError, where="path, position 2", found="-1"):
        getattr(tagger, method)([0, 1, -1, 0])


@pytest.mark.parametrize(
    ("path", "error", "fields"),
    [
        (
            [["D", "N"], ["D", "N", "X"]],
            LabelError,
            {"where": "path, sequence 1, position 2", "found": "'X'"},
        ),
        (
            ["D", "N", "D", "N", "X"],
            LabelError,
            {"where": "path, sequence 1, position 2", "found": "'X'"},
        ),
        (
            np.array(["D", "X", "D", "N", "V"]),
            LabelError,
            {"where": "path, sequence 0, position 1", "found": "'X'"},
        ),
        ([[0, 1], [0, 1, 7]], LabelError, {"where": "path, sequence 1, position 2", "found": "7"}),
        (
            np.array([0, 1, 2, -1, 0]),
            LabelError,
            {"where": "path, sequence 1, position 1", "found": "-1"},
        ),
        (
            [[0, "N"], ["D", 3, "V"]],
            LabelError,
            {"where": "path, sequence 1, position 1", "found": "3"},
        ),
        (
            [[0, 1], [0, [1], 0]],
            LabelError,
            {"where": "path, sequence 1, position 1", "found": "[1]"},
        ),
        (
            [[0, 1], [0, None, 0]],
            LabelError,
            {"where": "path, sequence 1, position 1", "found": "None"},
        ),
        ([[0, 1], None], ShapeError, {"where": "path, sequence 1", "found": "None"}),
        ([[0, 1], "DNV"], ShapeError, {"where": "path, sequence 1", "found": "'DNV'"}),
        ([[0, 1], {0, 1, 2}], ShapeError, {"where": "path, sequence 1", "found": "{0, 1, 2}"}),
        (None, ShapeError, {"parameter": "path", "found": "None"}),
        (3, ShapeError, {"parameter": "path", "found": "3"}),
        ("DNDNV", ShapeError, {"parameter": "path", "found": "'DNDNV'"}),
        (np.zeros((2, 3), int), ShapeError, {"where": "path, sequence 0", "found": "3"}),
    ],
)
def test_a_wrong_label_of_a_batch_is_named_by_sequence_and_position(batch, path, error, fields):
    with raises(error, **fields):
        batch.path_score(path)


@pytest.mark.parametrize(
    ("path", "error", "fields"),
    [
        ([0, "N", "X", 1], LabelError, {"where": "path, position 2", "found": "'X'"}),
        (
            [0, 1, 2, 2**70],
            LabelError,
            {"where": "path, position 3", "found": "an integer of 71 bits"},
        ),
        ([0, 1, True, 2], LabelError, {"where": "path, position 2", "found": "True"}),
        ([[0, 1], [0], [1], [2]], LabelError, {"where": "path, position 0", "found": "[0, 1]"}),
        (
            [np.array([0, 1]), "N", "N", "N"],
            LabelError,
            {"where": "path, position 0", "found": "array([0, 1])"},
        ),
        ([[0, 1], [0]], ShapeError, {"parameter": "path", "found": "2"}),
        (np.zeros((4, 2), int), ShapeError, {"parameter": "path", "found": "shape (4, 2)"}),
        ({0, 1}, ShapeError, {"parameter": "path", "found": "{0, 1}"}),
        (None, ShapeError, {"parameter": "path", "found": "None"}),
    ],
)
def test_a_wrong_label_of_one_path_is_named_by_position(tagger, path, error, fields):
    with raises(error, **fields):
        tagger.path_score(path)


def test_an_empty_sequence_does_not_shift_the_place_of_a_wrong_label():
    batch = tl.Trellis(np.zeros((3, 2)), offsets=[0, 0, 1, 1, 3])
    with raises(LabelError, where="sequence 3, position 1", found="5"):
        batch.path_score([[], [0], [], [0, 5]])
    with raises(LabelError, where="sequence 1, position 0", found="5"):
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
    with raises(LabelError, found="'N'", hint="labels="):
        tl.Trellis(EMIT).path_score(["N", "N", "N", "N"])


@pytest.mark.parametrize("method", ["path_score", "log_prob"])
def test_paths_must_have_the_length_of_the_sequence(tagger, batch, method):
    with raises(ShapeError, parameter="path", expected="4 labels", found="3"):
        getattr(tagger, method)([0, 1, 2])
    with raises(ShapeError, parameter="path", expected="5 labels", found="6"):
        getattr(batch, method)(np.zeros(6, int))
    with raises(ShapeError, where="path, sequence 1", expected="3 labels", found="2"):
        getattr(batch, method)([[0, 0], [0, 0]])
    with raises(ShapeError, parameter="path", expected="2 paths", found="1"):
        getattr(batch, method)([[0, 0]])


@pytest.mark.parametrize("method", ["log_prob_of", "constrain"])
def test_masks_must_have_the_shape_of_emit(tagger, batch, method):
    with raises(ShapeError, parameter="allowed", expected="(4, 3)", found="(3, 4)"):
        getattr(tagger, method)(np.ones((3, 4), bool))
    with raises(ShapeError, parameter="allowed", expected="(5, 3)", found="(2, 3)"):
        getattr(batch, method)(np.ones((2, 3), bool))


@pytest.mark.parametrize("method", ["log_prob_of", "constrain"])
def test_masks_must_not_be_ragged(tagger, method):
    with raises(ShapeError, parameter="allowed", expected="rows of one length"):
        getattr(tagger, method)([[True], [False, True]])


def test_masks_must_be_boolean(tagger):
    with raises(ShapeError, parameter="allowed", expected="bool", found="float64"):
        tagger.log_prob_of(np.ones((4, 3)))


def test_constraints_on_labels_and_positions_that_do_not_exist(tagger, batch):
    with raises(LabelError, where="allowed[0]", found="'X'"):
        tagger.constrain({0: "X"})
    with raises(LabelError, where="forced[0]", found="'X'"):
        tagger.constrain(forced={0: "X"})
    with raises(LabelError, where="forbidden[0]", found="7"):
        tagger.constrain(forbidden={0: 7})
    with raises(LabelError, where="forbidden_transitions", found="'X'"):
        tagger.constrain(forbidden_transitions=[("D", "X")])
    with raises(ShapeError, where="forced", expected="a position from 0 to 3", found="4"):
        tagger.constrain(forced={4: "N"})
    with raises(ShapeError, where="forced", expected="a position from 0 to 2", found="3"):
        batch.constrain(forced={(1, 3): "N"})
    with raises(ShapeError, where="forced", expected="a sequence from 0 to 1", found="2"):
        batch.constrain(forced={(2, 0): "N"})
    with raises(ShapeError, parameter="forbidden_transitions", expected="(3, 3)", found="(2, 2)"):
        tagger.constrain(forbidden_transitions=np.zeros((2, 2), bool))


@pytest.mark.parametrize(
    ("constraints", "error", "fields"),
    [
        (
            {"forbidden_transitions": 3},
            ShapeError,
            {"parameter": "forbidden_transitions", "found": "3"},
        ),
        (
            {"forbidden_transitions": "DN"},
            ShapeError,
            {"parameter": "forbidden_transitions", "found": "'DN'"},
        ),
        (
            {"forbidden_transitions": {0: None}},
            ShapeError,
            {"parameter": "forbidden_transitions", "found": "{0: None}"},
        ),
        (
            {"forbidden_transitions": [1, 2]},
            ShapeError,
            {"where": "forbidden_transitions", "found": "1"},
        ),
        (
            {"forbidden_transitions": [("D", None)]},
            LabelError,
            {"where": "forbidden_transitions", "found": "None"},
        ),
        (
            {"forbidden_transitions": [[True], [True, False]]},
            ShapeError,
            {"parameter": "forbidden_transitions", "found": "[[True], [True, False]]"},
        ),
        ({"allowed": {(0, 1): None}}, LabelError, {"where": "allowed[(0, 1)]", "found": "None"}),
        (
            {"forbidden": {(0, 1): None}},
            LabelError,
            {"where": "forbidden[(0, 1)]", "found": "None"},
        ),
        ({"forced": {(0, 1, 2): "N"}}, ShapeError, {"where": "forced", "found": "(0, 1, 2)"}),
        ({"forced": {1: "N"}}, ShapeError, {"where": "forced", "found": "1"}),
        ({"forced": {"ab": "N"}}, ShapeError, {"where": "forced", "found": "'ab'"}),
        ({"forced": {("a", 1): "N"}}, ShapeError, {"where": "forced", "found": "'a'"}),
        ({"forced": {(0.5, 1): "N"}}, ShapeError, {"where": "forced", "found": "0.5"}),
        ({"forced": {(1, 0.5): "N"}}, ShapeError, {"where": "forced", "found": "0.5"}),
    ],
)
def test_constraints_of_the_wrong_type(batch, constraints, error, fields):
    with raises(error, **fields):
        batch.constrain(**constraints)


def test_constraints_may_be_sets(tagger):
    assert tagger.constrain({0: {"N", 2}}).count_paths() == 2 * 3**3
    assert tagger.constrain(forbidden={0: ("N",), 1: np.array([0, 1])}).count_paths() == 2 * 9
    assert tagger.constrain(forbidden_transitions={("N", "V")}).count_paths() == 55


def infeasible():
    """Three sequences of two; the second dies at its position 1."""
    emit = np.zeros((6, 2))
    emit[3] = -np.inf
    return tl.Trellis(emit, offsets=[0, 2, 4, 6])


METHODS = {
    "viterbi": lambda trellis: trellis.viterbi(),
    "marginals": lambda trellis: trellis.marginals(),
    "posterior_decode": lambda trellis: trellis.posterior_decode(),
    "sample": lambda trellis: trellis.sample(2, random_state=0),
}


@pytest.mark.parametrize("method", METHODS)
def test_no_path_names_sequence_and_position(method):
    with raises(InfeasibleError, where="sequence 1, position 1") as caught:
        METHODS[method](infeasible())
    assert (caught.value.sequence, caught.value.position) == (1, 1)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.sequence, again.position, str(again)) == (1, 1, str(caught.value))


def test_one_bad_sequence_does_not_spoil_the_batch():
    """What raises takes on_infeasible="none"; what can answer −inf does."""
    batch = infeasible()
    for ask in (batch.viterbi, batch.marginals, batch.posterior_decode, batch.entropy):
        with raises(InfeasibleError, where="sequence 1", hint="on_infeasible='none'"):
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
    for method, ask in METHODS.items():
        with raises(InfeasibleError, where=f"position {position}") as caught:
            ask(trellis)
        assert (caught.value.sequence, caught.value.position) == (0, position), method


@pytest.mark.parametrize("method", ["viterbi", "marginals", "posterior_decode"])
def test_on_infeasible_is_raise_or_none(method):
    with raises(ParameterError, parameter="on_infeasible", expected="'none'", found="'ignore'"):
        getattr(tl.Trellis(EMIT), method)(on_infeasible="ignore")


def test_indexing_a_batch(batch):
    assert batch[-1].lengths.tolist() == [3]
    with pytest.raises(IndexError, match="sequence 2 of a batch of 2"):
        batch[2]
    with pytest.raises(TypeError, match="an int or a slice; got 'a'"):
        batch["a"]
    with raises(ShapeError, parameter="flat", expected="5", found="4"):
        batch.split(np.zeros(4))


def test_a_single_trellis_is_not_a_batch(tagger):
    for ask in (len, list, lambda trellis: trellis[0]):
        with pytest.raises(TypeError, match="A single Trellis"):
            ask(tagger)


def test_stacked_arrays_must_agree():
    with raises(ShapeError, parameter="emits[1]", expected="(2, 3)", found="(2, 4)"):
        tl.Trellis.stack([np.zeros((2, 3)), np.zeros((2, 4))])
    with raises(ShapeError, parameter="edge", expected="2 arrays", found="1"):
        tl.Trellis.stack([np.zeros((2, 3))] * 2, edge=[np.zeros((2, 3, 3))])
    with raises(ShapeError, parameter="edge[0]", expected="(2, 3, 3)", found="(1, 3, 3)"):
        tl.Trellis.stack([np.zeros((2, 3))] * 2, edge=[np.zeros((T, 3, 3)) for T in (1, 3)])


@pytest.mark.parametrize(
    ("change", "error", "fields"),
    [
        (
            {"grad_emit": np.zeros((4, 2))},
            ShapeError,
            {"parameter": "grad_emit", "found": "shape (4, 2)"},
        ),
        (
            {"grad_trans": np.zeros((2, 3))},
            ShapeError,
            {"parameter": "grad_trans", "found": "shape (2, 3)"},
        ),
        ({"grad_start": [0.0, 0.0, 0.0]}, ShapeError, {"parameter": "grad_start", "found": "list"}),
        ({"weight": np.ones(3)}, ShapeError, {"parameter": "weight", "found": "(3,)"}),
        ({"weight": np.array([1.0, np.nan])}, ScoreError, {"where": "weight[1]", "found": "nan"}),
        (
            {"offsets": [0, 5, 4]},
            ShapeError,
            {"parameter": "offsets", "found": "5, 4 at offsets[1:3]"},
        ),
    ],
)
def test_gradient_buffers_must_fit(change, error, fields):
    arguments = {"offsets": [0, 2, 4], "emit": EMIT, "trans": np.zeros((3, 3)), **change}
    with raises(error, **fields):
        log_partition_grad(**arguments)


def test_gradient_buffers_must_be_writable():
    grad = np.zeros((4, 3))
    grad.flags.writeable = False
    with raises(ShapeError, parameter="grad_emit", expected="writable", found="read-only"):
        log_partition_grad([0, 4], EMIT, grad_emit=grad)


def test_every_error_is_also_a_built_in():
    for error in (ShapeError, ScoreError, LabelError, InfeasibleError):
        assert issubclass(error, TagloomError)
        assert issubclass(error, ValueError)


@pytest.mark.parametrize(
    ("ask", "error", "fields"),
    [
        (lambda t: t.nbest(2.5), ParameterError, {"parameter": "n", "found": "2.5"}),
        (lambda t: t.nbest(0), ParameterError, {"parameter": "n", "found": "0"}),
        (lambda t: t.pair_marginals(0), ParameterError, {"parameter": "distance", "found": "0"}),
        (lambda t: t.sample(-1), ParameterError, {"parameter": "n", "found": "-1"}),
        (lambda t: t.forward("sum"), ParameterError, {"parameter": "semiring", "found": "'sum'"}),
        (
            lambda t: t.reduce("tropical"),
            ParameterError,
            {"parameter": "semiring", "found": "'tropical'"},
        ),
        (lambda t: t.draw(format="png"), ParameterError, {"parameter": "format", "found": "'png'"}),
        (lambda t: t.names([0]), ShapeError, {"parameter": "path", "found": "(1,)"}),
        (
            lambda t: Trellis(t.emit, labels=["N", "N"]),
            LabelError,
            {"parameter": "labels", "found": "'N' twice"},
        ),
        (
            lambda t: Trellis(t.emit, labels="NV"),
            LabelError,
            {"parameter": "labels", "found": "'NV'"},
        ),
        (
            lambda t: Trellis(t.emit, n_threads=1.5),
            ParameterError,
            {"parameter": "n_threads", "found": "1.5"},
        ),
        (
            lambda t: Trellis(t.emit).names([0, 1]),
            LabelError,
            {"message": "This trellis has no label names."},
        ),
        (
            lambda t: t.names([[0], [0, 1]]),
            ShapeError,
            {"parameter": "path", "found": "[[0], [0, 1]]"},
        ),
        (
            lambda t: t.nbest(2**70),
            ParameterError,
            {"parameter": "n", "found": "an integer of 71 bits"},
        ),
        (
            lambda t: t.nbest(10**5000),
            ParameterError,
            {"parameter": "n", "found": "an integer of 16610 bits"},
        ),
        (
            lambda t: t.sample(2**70),
            ParameterError,
            {"parameter": "n", "found": "an integer of 71 bits"},
        ),
        (
            lambda t: t.pair_marginals(2**70),
            ParameterError,
            {"parameter": "distance", "found": "an integer of 71 bits"},
        ),
        (
            lambda t: Trellis(t.emit, n_threads=2**70),
            ParameterError,
            {"parameter": "n_threads", "found": "an integer of 71 bits"},
        ),
        (
            lambda t: Trellis(t.emit, states="bio"),
            ParameterError,
            {"parameter": "states", "found": "'bio'"},
        ),
        (
            lambda t: t.reduce(3),
            ParameterError,
            {"parameter": "semiring", "found": "3, which lacks zero, one, plus, times, lift"},
        ),
        (
            lambda t: t.reduce(type("Half", (), {"zero": 0, "one": 1, "plus": max})()),
            ParameterError,
            {"parameter": "semiring", "found": "which lacks times, lift"},
        ),
        (lambda t: Trellis.stack(3), ShapeError, {"parameter": "emits", "found": "3"}),
        (lambda t: Trellis.stack("ab"), ShapeError, {"parameter": "emits", "found": "'ab'"}),
        (lambda t: Trellis.stack([]), ShapeError, {"parameter": "emits", "found": "none"}),
        (
            lambda t: Trellis.stack([t.emit], edge=3),
            ShapeError,
            {"parameter": "edge", "found": "3"},
        ),
        (lambda t: t.sample(2**62), ParameterError, {"parameter": "n", "found": str(2**62)}),
        (lambda t: t.sample(2**45), ParameterError, {"parameter": "n", "found": str(2**45)}),
        (lambda t: t.backward("sum"), ParameterError, {"parameter": "semiring", "found": "'sum'"}),
        (lambda t: t.nbest(True), ParameterError, {"parameter": "n", "found": "True"}),
        (
            lambda t: Trellis.stack([[[0], [0, 1]]]),
            ShapeError,
            {"parameter": "emits[0]", "found": "[[0], [0, 1]]"},
        ),
    ],
)
def test_parameters_out_of_range_are_named(ask, error, fields):
    trellis = Trellis(np.zeros((2, 2)), labels=["N", "V"])
    with raises(error, **fields):
        ask(trellis)


def test_the_largest_number_is_not_too_large():
    trellis = Trellis(np.zeros((2, 2)), n_threads=2**63 - 1)
    assert len(trellis.nbest(2**63 - 1).paths) == 4
    assert not trellis.pair_marginals(2**63 - 1).any()


def test_semirings_may_be_named_and_transitions_given_as_a_list_of_bools():
    trellis = Trellis([[0.0, 1.0], [0.0, 2.0]])
    assert trellis.reduce("counting") == 4
    banned = trellis.constrain(forbidden_transitions=[[False, True], [True, True]])
    assert banned.count_paths() == 1
    assert trellis.log_prob_of({0: 1}) == pytest.approx(
        trellis.constrain(forced={0: 1}).log_partition() - trellis.log_partition()
    )


@pytest.mark.parametrize(
    ("ask", "error", "fields"),
    [
        (
            lambda t: Trellis(np.full((2, 2), -1e308)),
            ScoreError,
            {"where": "emit[0, 0]", "found": "-1e+308"},
        ),
        (
            lambda t: Trellis(np.zeros((2, 2), np.float32), np.array([[0, -1e300], [0, 0]])),
            ScoreError,
            {"where": "trans[0, 1]", "found": "-1e+300"},
        ),
        (
            lambda t: t.constrain(forbidden_transitions=np.array([[0, 1], [0, 0]])),
            ShapeError,
            {"parameter": "forbidden_transitions", "found": "int64 of shape (2, 2)"},
        ),
        (
            lambda t: t.constrain(forbidden_transitions=("N", "V")),
            ShapeError,
            {"where": "forbidden_transitions", "found": "'N'"},
        ),
        (
            lambda t: Trellis(t.emit, states=tl.StateSpace.order(["a", "b"], 2), labels=["x", "y"]),
            LabelError,
            {"parameter": "labels", "found": "['x', 'y']"},
        ),
        (
            lambda t: Trellis(t.emit, labels={"N", "V"}),
            LabelError,
            {"parameter": "labels", "found": "a set"},
        ),
        (
            lambda t: Trellis(t.emit, labels=[1, 0]),
            LabelError,
            {"parameter": "labels", "found": "[1, 0]"},
        ),
        (
            lambda t: Trellis([[1, 2], [3]]),
            ShapeError,
            {"parameter": "emit", "found": "[[1, 2], [3]]"},
        ),
        (lambda t: t.names([0, 2]), LabelError, {"parameter": "path", "found": "[0, 2]"}),
    ],
)
def test_ambiguous_arguments_are_errors(ask, error, fields):
    trellis = Trellis(np.zeros((2, 2)), labels=["N", "V"])
    with raises(error, **fields):
        ask(trellis)


def test_a_trellis_with_native_layouts_can_be_copied():
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
        with raises(ScoreError, where=f"emit[{where}]", found=str(wrong)):
            tl.Trellis(emit, n_threads=n_threads)
    emit.flat[at] = 1
    assert len(tl.Trellis(emit).viterbi().path) == 100_000


@pytest.mark.parametrize(
    ("out", "fields"),
    [
        (np.empty((4, 2)), {"parameter": "out", "found": "shape (4, 2)"}),
        ([[0.0] * 3] * 4, {"parameter": "out", "found": "list"}),
        (np.broadcast_to(0.0, (4, 3)), {"parameter": "out", "found": "a read-only array"}),
        (np.zeros((4, 3), dtype=int), {"parameter": "out", "found": "int64"}),
        (np.zeros((4, 3), dtype=bool), {"parameter": "out", "found": "bool"}),
    ],
)
def test_wrong_buffers_for_marginals(out, fields):
    with raises(ShapeError, **fields):
        tl.Trellis(EMIT).marginals(out=out)
