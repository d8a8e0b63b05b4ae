"""The native code on longer sequences: equal to NumPy, and alike for every instruction set."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
import tagloom as tl
from raising import raises
from tagloom.errors import ParameterError
from tagloom.trellis import instruction_sets, log_partition_grad, use_instruction_set

BASELINE = instruction_sets()[0]


def first_order(T, Y, *, seed=0, with_edge=False, forbidden=0.0):
    rng = np.random.default_rng(seed)

    def scores(*shape):
        x = 1.5 * rng.standard_normal(shape)
        return np.where(rng.random(shape) < forbidden, -np.inf, x)

    return {
        "emit": scores(T, Y),
        "trans": scores(Y, Y),
        "start": scores(Y),
        "stop": scores(Y),
        "edge": scores(T, Y, Y) if with_edge else None,
    }


@pytest.mark.parametrize("with_edge", [False, True])
@pytest.mark.parametrize("forbidden", [0.0, 0.1])
@pytest.mark.parametrize(("T", "Y"), [(50, 20), (64, 1), (40, 2), (33, 7), (50, 33), (20, 65)])
def test_native_equals_the_numpy_recurrences(T, Y, forbidden, with_edge):
    arrays = first_order(T, Y, forbidden=forbidden if Y > 2 else 0.0, with_edge=with_edge)
    trellis = tl.Trellis(**arrays)
    close = {"rtol": 1e-10, "atol": 1e-12}
    path, score = reference.viterbi(**arrays)
    assert_array_equal(trellis.viterbi().path, path)
    assert_allclose(trellis.viterbi().score, score, **close)
    assert_allclose(trellis.log_partition(), reference.log_partition(**arrays), **close)
    assert_allclose(trellis.forward(), reference.forward(**arrays), **close)
    assert_allclose(trellis.backward(), reference.backward(**arrays), **close)
    maximum = {"plus": np.max, **arrays}
    assert_allclose(trellis.forward("max-plus"), reference.forward(**maximum), **close)
    assert_allclose(trellis.backward("max-plus"), reference.backward(**maximum), **close)
    assert_allclose(trellis.marginals(), reference.marginals(**arrays), **close)
    xi = reference.pair_marginals(**arrays)
    assert_allclose(trellis.pair_marginals(), xi, **close)
    assert_allclose(trellis.expected_counts().transitions, xi.sum(axis=0), **close)


# Lengths around the blocks in which long sequences are cut, short ones for the lanes, empty ones.
RAGGED = [0, 1, 1, 2, 3, 5, 1023, 1024, 1025, 2500, 0, *range(1, 25)]


def ragged(Y, *, look="floats", with_edge=False, lengths=RAGGED):
    """Arrays of a batch and, for each sequence, the arguments of the reference."""
    rng = np.random.default_rng(Y)
    spread = {"floats": 1.5, "wide": 40.0, "holes": 1.5}[look]

    def scores(*shape):
        x = spread * rng.standard_normal(shape)
        if look == "holes" and Y > 3:
            x[rng.random(shape) < 0.1] = -np.inf
        return x

    arrays = {
        "emit": spread * rng.standard_normal((sum(lengths), Y)),
        "trans": scores(Y, Y),
        "start": scores(Y),
        "stop": scores(Y),
        "edge": scores(sum(lengths), Y, Y) if with_edge else None,
    }
    offsets = np.cumsum([0, *lengths])
    each = []
    for lo, hi in itertools.pairwise(offsets):
        edge = arrays["edge"][lo:hi] if with_edge else None
        each.append({**arrays, "emit": arrays["emit"][lo:hi], "edge": edge})
    return {**arrays, "offsets": offsets}, each


@pytest.mark.parametrize(
    ("Y", "look", "with_edge"),
    [
        (1, "floats", False),
        (3, "floats", False),
        (6, "holes", False),
        (9, "wide", False),
        (5, "holes", True),
    ],
)
def test_ragged_batches_equal_the_numpy_recurrences(Y, look, with_edge):
    """Lanes, single sequences and blocks of one batch, each against its own recurrence."""
    arrays, each = ragged(Y, look=look, with_edge=with_edge)
    trellis = tl.Trellis(**arrays)
    best, counts = trellis.viterbi(), trellis.expected_counts()
    paths, gammas = trellis.split(best.path), trellis.split(trellis.marginals())
    log_z = trellis.log_partition()
    transitions, start, stop = np.zeros((Y, Y)), np.zeros(Y), np.zeros(Y)
    close = {"rtol": 1e-8, "atol": 1e-9}
    for i, one in enumerate(each):
        if not len(one["emit"]):
            continue
        path, score = reference.viterbi(**one)
        assert_array_equal(paths[i], path)
        assert_allclose(best.score[i], score, rtol=1e-10)
        assert_allclose(log_z[i], reference.log_partition(**one), rtol=1e-10)
        gamma = reference.marginals(**one)
        assert_allclose(gammas[i], gamma, **close)
        transitions += reference.pair_marginals(**one).sum(axis=0)
        start += gamma[0]
        stop += gamma[-1]
    assert_allclose(counts.transitions, transitions, **close)
    assert_allclose(counts.start, start, **close)
    assert_allclose(counts.stop, stop, **close)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", instruction_sets())
def test_paths_are_alike_alone_in_a_batch_and_for_every_instruction_set(name, dtype):
    """Tenths make sums that are equal but for rounding: the harshest case for an arg-max."""
    rng = np.random.default_rng(0)
    lengths, Y = [*range(1, 60), 3000], 6

    def tenths(*shape):
        return (rng.integers(-7, 8, shape) / 10).astype(dtype)

    arrays = [tenths(sum(lengths), Y), tenths(Y, Y), tenths(Y), tenths(Y)]
    with use_instruction_set(BASELINE):
        expected = tl.Trellis(*arrays, offsets=np.cumsum([0, *lengths])).viterbi().path
    with use_instruction_set(name):
        batch = tl.Trellis(*arrays, offsets=np.cumsum([0, *lengths]))
        assert_array_equal(batch.viterbi().path, expected)
        alone = np.concatenate([one.viterbi().path for one in batch])
        assert_array_equal(alone, expected)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("share", [0.2, 0.3, 0.4])
@pytest.mark.parametrize("name", instruction_sets())
def test_lanes_decode_what_is_forbidden_in_every_way(name, share, order):
    """A start or a state, a transition, an emission and a stop may all be forbidden at once."""
    rng = np.random.default_rng(0)
    lengths, Y = rng.integers(1, 40, 200), 6

    def scores(*shape):
        x = rng.choice([-3.0, 0.5, 3.0], shape) + rng.random(shape)
        return np.where(rng.random(shape) < share, -np.inf, x)

    arrays = {"trans": scores(Y, Y), "start": scores(Y), "stop": scores(Y)}
    arrays["trans"][:, 0] = -np.inf
    arrays["start"][1] = arrays["stop"][1] = 0.0
    emit, offsets = scores(sum(lengths), Y), np.cumsum([0, *lengths])
    space = tl.StateSpace.order(Y, order)
    with use_instruction_set(name):
        trellis = tl.Trellis(emit, offsets=offsets, states=space, **arrays)
        best = trellis.viterbi(on_infeasible="none")
    assert 0 < np.isfinite(best.score).sum() < len(lengths)
    for i, (lo, hi) in enumerate(itertools.pairwise(offsets)):
        path, score = reference.viterbi(emit[lo:hi], **arrays)
        assert_allclose(best.score[i], score, rtol=1e-12)
        assert_array_equal(best.path[lo:hi], path if score > -np.inf else -1)


@pytest.mark.parametrize("name", instruction_sets())
def test_lanes_find_the_only_path_after_the_best_so_far_has_ended(name):
    """Label 0 is far ahead until it is forbidden, label 2 never begins: all are label 1."""
    lengths = np.arange(10, 60)
    emit = np.tile([3.99, -3.99, 3.99], (sum(lengths), 1))
    emit[np.cumsum(lengths) - 2, 0] = -np.inf
    trans = np.where(np.eye(3) > 0, 0.0, -np.inf)
    start = np.array([0.0, 0.0, -np.inf])
    with use_instruction_set(name):
        best = tl.Trellis(emit, trans, start, offsets=np.cumsum([0, *lengths])).viterbi()
    assert_array_equal(best.path, 1)
    assert_allclose(best.score, -3.99 * lengths)


@pytest.mark.parametrize("name", instruction_sets())
def test_lanes_decode_beside_a_score_beyond_the_floats(name):
    """One transition is so large that emissions round to nothing; −inf stays forbidden."""
    emit = np.array([[0.0, 0.0], [-np.inf, 0.0]] * 16)
    trans = [[1e60, 0.0], [0.0, 0.0]]
    with use_instruction_set(name):
        best = tl.Trellis(emit, trans, offsets=np.arange(0, 33, 2)).viterbi()
    assert_array_equal(best.path.reshape(-1, 2)[:, 1], 1)
    assert_array_equal(best.score, 0.0)


@pytest.mark.parametrize("name", instruction_sets())
def test_float32_marginals_of_many_states_sum_to_one(name):
    rng = np.random.default_rng(0)
    space = tl.StateSpace.order(10, 3)
    arrays = [rng.standard_normal(shape).astype("f") for shape in [(160, 10), (10, 10)]]
    with use_instruction_set(name):
        gamma = tl.Trellis(*arrays, offsets=np.arange(0, 161, 8), states=space).marginals()
    assert_allclose(gamma.sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("Y", [3, 6])
def test_float32_ties_are_decided_as_in_exact_arithmetic(Y):
    """Sums of a few hundred float32 numbers of one size are exact in float64."""
    rng = np.random.default_rng(Y)
    lengths = [*range(1, 50), 300]

    def tenths(*shape):
        return (rng.integers(-7, 8, shape) / 10).astype(np.float32)

    arrays = [tenths(sum(lengths), Y), tenths(Y, Y), tenths(Y), tenths(Y)]
    batch = tl.Trellis(*arrays, offsets=np.cumsum([0, *lengths]))
    paths = batch.split(batch.viterbi().path)
    for path, emit in zip(paths, batch.split(arrays[0]), strict=True):
        expected, _ = reference.viterbi(emit.astype(float), *(a.astype(float) for a in arrays[1:]))
        assert_array_equal(path, expected)


SPACES = {
    "order 2": lambda: tl.StateSpace.order(4, 2),
    "order 3": lambda: tl.StateSpace.order(3, 3),
    "pruned": lambda: tl.StateSpace.order(4, 3, seen=[[0, 1, 2, 3, 0, 0, 1, 1], [2, 2, 2, 2]]),
    "run length": lambda: tl.StateSpace.run_length(4, 2, 3),
    "total count": lambda: tl.StateSpace.total_count(4, 1, 5),
    "both": lambda: tl.StateSpace.run_length(4, 2, 3) & tl.StateSpace.order(4, 2),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_edge", [False, True])
@pytest.mark.parametrize("name", SPACES)
def test_automata_equal_numpy_over_their_states(name, with_edge, dtype):
    """The automaton unfolded to first order, one label per state, in a batch of many lengths."""
    space = SPACES[name]()
    lengths = [0, 1, 2, 70, *range(3, 25)]
    arrays, each = ragged(space.n_labels, with_edge=with_edge, lengths=lengths)
    weights = np.random.default_rng(5).standard_normal(space.n_weights).astype(dtype)
    arrays["emit"] = arrays["emit"].astype(dtype)
    trellis = tl.Trellis(**arrays, states=space, weights=weights)
    best, counts = trellis.viterbi(), trellis.expected_counts()
    paths, gammas = trellis.split(best.path), trellis.split(trellis.marginals())
    tolerance = 1e-10 if dtype == np.float64 else 2e-5
    close = {"rtol": tolerance, "atol": tolerance}
    transitions, tied = np.zeros(counts.transitions.shape), np.zeros(space.n_weights)
    for i, one in enumerate(each):
        if not len(one["emit"]):
            continue
        one = {k: None if a is None else a.astype(dtype).astype(float) for k, a in one.items()}
        wide = reference.unfold(space, weights.astype(float), **one)
        path, score = reference.viterbi(**wide)
        assert_array_equal(paths[i], np.asarray(space.state_labels)[path])
        assert_allclose(best.score[i], score, **close)
        assert_allclose(trellis.log_partition()[i], reference.log_partition(**wide), **close)
        gamma = reference.marginals(**wide)
        assert_allclose(gammas[i], reference.fold(space, gamma), **close)
        xi = reference.pair_marginals(**wide).sum(axis=0)
        transitions += reference.fold(space, reference.fold(space, xi).T).T
        np.add.at(
            tied, space.tie_ids, np.repeat(xi[space.src, space.dst], np.diff(space.tie_indptr))
        )
        np.add.at(tied, space.start_tie_ids, np.repeat(gamma[0], np.diff(space.start_tie_indptr)))
    assert_allclose(counts.transitions, transitions, **close)
    assert_allclose(counts.weights, tied, **close)


@pytest.mark.parametrize(("T", "Y"), [(50, 20), (40, 9), (300, 5)])
def test_float32_stays_close_to_float64(T, Y):
    arrays = first_order(T, Y, forbidden=0.05)
    narrow = {k: None if v is None else v.astype(np.float32) for k, v in arrays.items()}
    wide = {k: None if v is None else v.astype(np.float64) for k, v in narrow.items()}
    a, b = tl.Trellis(**narrow), tl.Trellis(**wide)
    assert_array_equal(a.viterbi().path, b.viterbi().path)
    assert_allclose(a.viterbi().score, b.viterbi().score, rtol=1e-6)
    assert_allclose(a.log_partition(), b.log_partition(), rtol=1e-6)
    assert_allclose(a.marginals(), b.marginals(), rtol=1e-4, atol=1e-6)
    assert_allclose(a.pair_marginals(), b.pair_marginals(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("crossing", [-np.inf, -1e5, -250.0])
@pytest.mark.parametrize("spread", [60.0, 300.0])
@pytest.mark.parametrize("layout", ["trans", "edge", "order 2"])
def test_a_path_that_falls_far_behind_may_still_win(layout, spread, crossing, dtype):
    """Labels as parallel tracks that must not, or hardly, be left.

    A track that is e^-1000 behind, no number in probability space, catches up when the others lose
    as much. Scaled sums must notice that they lost it, in lanes and alone.
    """
    rng = np.random.default_rng(int(spread))
    Y, lengths = 4, [25, 1, 2, 40, *range(3, 12)]
    tracks = np.where(np.eye(Y, dtype=bool), 0.0, crossing)
    emit = (spread * rng.standard_normal((sum(lengths), Y))).astype(dtype)
    arrays = {"emit": emit, "trans": tracks, "start": np.zeros(Y), "stop": np.zeros(Y)}
    options = {}
    if layout == "edge":
        arrays["edge"] = np.broadcast_to(tracks, (sum(lengths), Y, Y)).astype(dtype)
        arrays["trans"] = np.zeros((Y, Y))
    if layout == "order 2":
        options = {"states": tl.StateSpace.order(Y, 2)}
    batch = tl.Trellis(**arrays, **options, offsets=np.cumsum([0, *lengths]))
    tolerance = 1e-10 if dtype == np.float64 else 1e-5
    close = {"rtol": tolerance, "atol": 100 * tolerance}
    log_z = batch.log_partition()
    gammas, pairs = batch.split(batch.marginals()), batch.split(batch.pair_marginals())
    transitions = np.zeros((Y, Y))
    for i, one in enumerate(batch):
        edge = None if layout != "edge" else one.edge.astype(float)
        judge = [one.emit.astype(float), arrays["trans"], arrays["start"], arrays["stop"], edge]
        xi = reference.pair_marginals(*judge)
        transitions += xi.sum(axis=0)
        for found in (log_z[i], one.log_partition()):
            assert_allclose(found, reference.log_partition(*judge), **close)
        for found in (gammas[i], one.marginals()):
            assert_allclose(found, reference.marginals(*judge), **close)
        assert_allclose(pairs[i], xi, **close)
    assert_allclose(batch.expected_counts().transitions, transitions, **close)


# Layouts that have kernels of their own, at widths around those of the vector registers.
LAYOUTS = [
    pytest.param(Y, with_edge, order, id=f"Y={Y}{' edge' * with_edge}{' order 2' * order}")
    for Y, with_edge, order in [
        (1, False, False),
        (3, False, False),
        (8, False, False),
        (17, False, False),
        (33, False, False),
        (5, True, False),
        (20, True, False),
        (5, False, True),
        (9, True, True),
    ]
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("Y", "with_edge", "order"), LAYOUTS)
@pytest.mark.parametrize("name", instruction_sets())
def test_instruction_sets_agree(name, Y, with_edge, order, dtype):
    """Paths are the same, sums within the rounding of the type."""
    arrays = first_order(37, Y, seed=Y, with_edge=with_edge, forbidden=0.03 if Y > 4 else 0.0)
    arrays["emit"] = arrays["emit"].astype(dtype)
    if order:
        arrays["states"] = tl.StateSpace.order(Y, 2)
        arrays["weights"] = np.random.default_rng(1).standard_normal(Y**3)
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    found = []
    for forced in (BASELINE, name):
        with use_instruction_set(forced):
            trellis = tl.Trellis(**arrays)
            found.append(
                {
                    "path": trellis.viterbi().path,
                    "nbest": trellis.nbest(5).paths,
                    "score": trellis.viterbi().score,
                    "log_z": trellis.log_partition(),
                    "marginals": trellis.marginals(),
                    "pairs": trellis.pair_marginals(),
                    "forward": trellis.forward(),
                    "counts": trellis.expected_counts().transitions,
                    "entropy": trellis.entropy(),
                }
            )
    baseline, forced = found
    assert_array_equal(forced["path"], baseline["path"])
    assert_array_equal(forced["nbest"], baseline["nbest"])
    assert forced["score"] == pytest.approx(baseline["score"], rel=rtol)
    for key in ("log_z", "marginals", "pairs", "forward", "counts", "entropy"):
        assert_allclose(forced[key], baseline[key], rtol=rtol, atol=rtol, err_msg=key)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", instruction_sets())
def test_gradients_agree_between_instruction_sets(name, dtype):
    arrays = first_order(40, 13, seed=2)
    args = [np.array([0, 15, 15, 40])] + [
        arrays[key].astype(dtype) for key in ("emit", "trans", "start", "stop")
    ]
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    found = []
    for forced in (BASELINE, name):
        grads = {
            "grad_emit": np.empty_like(args[1]),
            "grad_trans": np.empty_like(args[2]),
            "grad_start": np.empty_like(args[3]),
            "grad_stop": np.empty_like(args[4]),
        }
        with use_instruction_set(forced):
            log_z = log_partition_grad(*args, **grads)
        found.append({"log_z": log_z, **grads})
    for key in found[0]:
        assert_allclose(found[1][key], found[0][key], rtol=rtol, atol=rtol, err_msg=key)


@pytest.mark.parametrize("name", instruction_sets())
def test_an_instruction_set_is_forced_only_inside_the_with_block(name):
    arrays = first_order(30, 10)
    before = tl.Trellis(**arrays).log_partition()
    with use_instruction_set(name):
        tl.Trellis(**arrays).log_partition()
    assert tl.Trellis(**arrays).log_partition() == before


def test_an_unknown_instruction_set_is_refused():
    with raises(ParameterError, parameter="name", found="'abacus'"), use_instruction_set("abacus"):
        pass


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", instruction_sets())
def test_exponentials_are_right_to_a_few_units_in_the_last_place(name, dtype):
    """Of one position and two labels, the odds are the exponential of the difference."""
    x = np.linspace(-80, 0, 200_001).astype(dtype)
    emit = np.stack([np.zeros_like(x), x], axis=1)
    with use_instruction_set(name):
        gamma = tl.Trellis(emit, offsets=np.arange(len(x) + 1)).marginals().astype(np.float64)
    exact = np.exp(x.astype(np.float64))
    assert_allclose(gamma[:, 1] / gamma[:, 0], exact, rtol=4 * np.finfo(dtype).eps)
