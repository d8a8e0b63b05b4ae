"""The native code on longer sequences: equal to NumPy, and alike for every instruction set."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
import tagloom as tl
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
    with pytest.raises(ValueError, match="abacus"), use_instruction_set("abacus"):
        pass
