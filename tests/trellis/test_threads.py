"""The threads that wait for work: forks, many callers, errors, the end of a process."""

import os
import platform
import sys
import threading

import numpy as np
import pytest

import processes
import tagloom as tl
from processes import IS_SANITIZED, needs_limits

CASE = """
import os, signal, sys, threading
import numpy as np
import tagloom as tl

rng = np.random.default_rng(0)
Y, lengths = 20, rng.integers(1, 40, 400)  # enough work for more than one thread
emit, trans = rng.normal(size=(lengths.sum(), Y)), rng.normal(size=(Y, Y))
offsets = np.cumsum([0, *lengths])

def path(n_threads):
    return tl.Trellis(emit, trans, offsets=offsets, n_threads=n_threads).viterbi().path

expected = path(1)
assert np.array_equal(path(3), expected)
"""


def run(*code):
    """Run the case and more code in a process of its own, which must come to its end."""
    return processes.run(CASE, *code)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")

FORK = """
def in_child():
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that waits for a thread it does not have is ended
        os._exit(0 if all(np.array_equal(path(n), expected) for n in (2, 3)) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


@needs_fork
def test_a_forked_child_has_threads_of_its_own():
    code = """
    assert in_child() == 0
    assert np.array_equal(path(3), expected)  # and the parent still has its own
    print("done")
    """
    assert run(FORK, code) == "done\n"


@needs_fork
@pytest.mark.skipif(
    IS_SANITIZED,
    reason="a child cannot allocate if the sanitizer's own allocator was locked by another thread",
)
def test_a_fork_while_threads_are_at_work():
    code = """
    is_over = threading.Event()

    def work():
        while not is_over.is_set():
            path(3)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    codes = [in_child() for _ in range(20)]
    is_over.set()
    for worker in workers:
        worker.join()
    print(codes == [0] * 20)
    """
    assert run(FORK, code) == "True\n"


def test_a_process_ends_with_its_threads():
    assert run("print(np.array_equal(path(64), expected))") == "True\n"


def test_a_process_ends_amid_the_work_of_daemon_threads():
    code = """
    def work():
        while True:
            path(3)

    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    import time; time.sleep(0.1)
    print("done")
    """
    for _ in range(3):
        assert run(code) == "done\n"


def test_many_callers_at_once():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 40, 400)
    emit, offsets = rng.normal(size=(lengths.sum(), 20)), np.cumsum([0, *lengths])
    trellises = {n: tl.Trellis(emit, offsets=offsets, n_threads=n) for n in (1, 2, 5)}
    expected = trellises[1].log_partition()
    found = []

    def work(n):
        for _ in range(20):
            found.append(np.array_equal(trellises[n].log_partition(), expected))

    callers = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 5) * 3]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [True] * 180


@needs_limits
def test_after_an_error_threads_work_on():
    """Four workers are to decode sequences of which each needs more memory than there is."""
    code = """
    starts = np.arange(0, 40_001, 5_000)
    long = tl.Trellis(np.zeros((40_000, 500)), np.eye(500), offsets=starts, n_threads=4)
    path(4)  # threads and code are there
    limit(1 << 20)
    try:
        long.viterbi()
        print("there was enough")
    except MemoryError:
        pass
    limit(None)
    assert np.array_equal(path(4), expected)
    assert (long.viterbi().path == 0).all()
    print("done")
    """
    assert run(code) == "done\n"


@needs_limits
@pytest.mark.parametrize("n_threads", [1, 2])
def test_memory_that_a_thread_keeps_is_sound_after_an_error(n_threads):
    """What is kept from a small call is too small for the next, and there is no more."""
    code = f"""
    def zeros(length):
        offsets, emit = np.arange(0, 8 * length + 1, length), np.zeros((8 * length, 500))
        return tl.Trellis(emit, np.eye(500), offsets=offsets, n_threads={n_threads})

    small, large = zeros(300), zeros(1_500)
    small.viterbi()
    limit(4 << 20)
    try:
        large.viterbi()
        print("there was enough")
    except MemoryError:
        pass
    limit(None)
    assert (small.viterbi().path == 0).all()
    print("done")
    """
    assert run(code) == "done\n"


@needs_limits
def test_where_there_are_no_more_threads_those_that_are_do_the_work():
    code = """
    limit(4 << 20)  # less than the stack of a thread
    assert np.array_equal(path(50), expected)
    limit(None)
    print("done")
    """
    assert run(code) == "done\n"


def test_all_threads_round_as_their_caller_does():
    """Or else bits would depend on which thread takes which sequence."""
    code = """
    import ctypes
    trellis = {n: tl.Trellis(emit, trans, offsets=offsets, n_threads=n) for n in (1, 3)}
    nearest = trellis[1].log_partition()
    ctypes.CDLL(None).fesetround(0x800)  # upwards, on x86
    up = [trellis[n].log_partition() for n in (1, 3)]
    ctypes.CDLL(None).fesetround(0)
    assert not np.array_equal(up[0], nearest)
    assert np.array_equal(up[0], up[1])
    print("done")
    """
    if platform.machine() != "x86_64" or sys.platform != "linux":
        pytest.skip("the number of a rounding mode is that of x86")
    assert run(code) == "done\n"
