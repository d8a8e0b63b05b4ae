"""A million positions: nothing drifts, underflows, or fills the memory."""

import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import tagloom as tl

pytestmark = pytest.mark.slow

T, Y = 500_000, 20


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    return {
        "emit": 1.5 * rng.standard_normal((T, Y), np.float32),
        "trans": rng.standard_normal((Y, Y), np.float32),
        "start": rng.standard_normal(Y, np.float32),
        "stop": rng.standard_normal(Y, np.float32),
    }


def chunked_forward(emit, trans, first, burn_in=200, n_chunks=500):
    """log_z up to the stop arc, and alpha normalised at each position, in log space.

    All chunks step side by side. A chunk starts `burn_in` positions early from equal scores: when
    its own rows begin it has forgotten where it started, for each step contracts the difference,
    and 200 leave less than 10^-16 of it with scores as mild as these. Only the first chunk has a
    true start.
    """
    T, Y = emit.shape
    L = T // n_chunks
    mix = np.exp(trans)
    where = np.arange(n_chunks) * L  # position of each chunk's first row of output
    alpha = np.zeros((n_chunks, Y))  # log space, normalised
    out = np.empty((T, Y))
    log_z = np.zeros(n_chunks)
    for i in range(-burn_in, L):
        t = np.maximum(where + i, 0)
        alpha = np.log(np.exp(alpha) @ mix) + emit[t]
        if i <= 0:
            alpha[0] = first + emit[0]  # chunk 0 waits at position 0 until the others arrive
        top = alpha.max(axis=1)
        total = top + np.log(np.exp(alpha - top[:, None]).sum(axis=1))
        alpha -= total[:, None]
        if i >= 0:
            out[t] = alpha
            log_z += total
    return math.fsum(log_z), out


@pytest.fixture(scope="module")
def expected(arrays):
    """log_z and marginals by NumPy in float64 log space."""
    emit = arrays["emit"].astype(float)
    trans, start, stop = (arrays[k].astype(float) for k in ("trans", "start", "stop"))
    log_z, alpha = chunked_forward(emit, trans, start)
    log_z += np.logaddexp.reduce(alpha[-1] + stop)
    # Backward is forward over the reversed sequence; its row includes emit[t], counted twice then.
    _, beta = chunked_forward(emit[::-1], trans.T, stop)
    gamma = alpha + beta[::-1] - emit
    gamma -= gamma.max(axis=1, keepdims=True)
    gamma = np.exp(gamma)
    return log_z, gamma / gamma.sum(axis=1, keepdims=True)


def test_float32_takes_the_same_path_as_float64(arrays):
    narrow = tl.Trellis(**arrays)
    wide = tl.Trellis(**{name: array.astype(np.float64) for name, array in arrays.items()})
    a, b = narrow.viterbi(), wide.viterbi()
    assert_array_equal(a.path, b.path)
    assert a.score == pytest.approx(b.score, rel=1e-9)
    assert narrow.path_score(a.path) == pytest.approx(a.score, rel=1e-9)


@pytest.mark.parametrize(
    ("dtype", "rtol", "atol"), [(np.float64, 1e-9, 1e-11), (np.float32, 1e-4, 1e-6)]
)
def test_sums_equal_log_space(arrays, expected, dtype, rtol, atol):
    log_z, gamma = expected
    trellis = tl.Trellis(**{name: array.astype(dtype) for name, array in arrays.items()})
    assert trellis.log_partition() == pytest.approx(
        log_z, rel=1e-12 if dtype == np.float64 else 1e-7
    )
    assert_allclose(trellis.marginals(), gamma, rtol=rtol, atol=atol)


def test_the_library_has_a_log_space_reference_of_its_own(arrays):
    """forward() works in log space, a tenth as fast; the scaled sums must equal it."""
    start = {**arrays, "emit": arrays["emit"][:100_000]}
    trellis = tl.Trellis(**{name: array.astype(np.float64) for name, array in start.items()})
    alpha, beta = trellis.forward(), trellis.backward()
    log_z = np.logaddexp.reduce(alpha[-1] + trellis.stop)
    assert trellis.log_partition() == pytest.approx(log_z, rel=1e-12)
    assert_allclose(trellis.marginals(), np.exp(alpha + beta - log_z), rtol=1e-7, atol=1e-9)


SPACE = "states=tl.StateSpace.run_length(20, 0, 3)"
CASES = [
    ("viterbi", "float32", "", ""),
    ("viterbi", "float64", "", ""),
    ("log_partition", "float32", "", ""),
    ("log_partition", "float64", "", ""),
    ("log_partition", "float32", "", SPACE),
    ("log_partition", "float32", "emit *= 1e4; trans[1, 2] = -np.inf", ""),  # in log space
    ("log_partition", "float32", "emit[T // 2] = -np.inf", ""),  # no path
]


@pytest.mark.skipif(sys.platform != "linux", reason="resets the peak memory through /proc")
@pytest.mark.parametrize(("method", "dtype", "change", "options"), CASES)
def test_memory_beyond_the_inputs_is_bounded(method, dtype, change, options):
    """At most 64 MB beside the arrays: no [T, Y] of back-pointers wider than a byte, no copy."""
    program = f"""
        import re
        import numpy as np, tagloom as tl

        def status(field):
            return int(re.search(field + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])

        T, trans = {T}, np.eye({Y})
        emit = np.zeros((T, {Y}), "{dtype}")
        emit[:] = np.random.default_rng(0).standard_normal({Y})
        {change}
        trellis = tl.Trellis(emit, trans, n_threads=2, {options})
        small = tl.Trellis(emit[:100], trans, n_threads=2, {options})
        small.{method}()  # threads and code are loaded
        open("/proc/self/clear_refs", "w").write("5")  # the peak starts again from here
        before = status("VmRSS")
        result = trellis.{method}()
        print((status("VmHWM") - before) / 1024)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert float(run.stdout) < 64.0


@pytest.mark.skipif(os.name == "nt", reason="needs a signal to the own process")
@pytest.mark.parametrize("space", [None, tl.StateSpace.run_length(Y, 0, 3)])
def test_a_search_for_many_paths_can_be_interrupted(space):
    """Ctrl-C during an n-best search of many seconds ends it at once."""
    # A shell starts programs in the background with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    trellis = tl.Trellis(np.random.default_rng(0).normal(size=(20_000, Y)), states=space)
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    began = time.perf_counter()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            trellis.nbest(100_000)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.perf_counter() - began < 10
