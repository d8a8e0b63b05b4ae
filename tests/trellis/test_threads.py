"""The threads that wait for work: forks, many callers, errors, the end of a process."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import tagloom as tl

CASE = """
import conftest  # which chooses the build that is tested
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


def run(code):
    """Run the case and more code in a process of its own, which must come to its end."""
    return subprocess.run(
        [sys.executable, "-c", CASE + textwrap.dedent(code)],
        cwd=Path(__file__).parents[1],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout


IS_SANITIZED = "TAGLOOM_NATIVE" in os.environ
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
    assert run(FORK + textwrap.dedent(code)) == "done\n"


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
    assert run(FORK + textwrap.dedent(code)) == "True\n"


def test_a_process_ends_with_its_threads():
    assert run("print(np.array_equal(path(64), expected))") == "True\n"


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


LIMIT = """
import resource
from pathlib import Path

def limit(more):  # to so many bytes of memory more than there are now; None: to none
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    now = most if more is None else pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (now, most))
"""
needs_limits = pytest.mark.skipif(
    sys.platform != "linux" or IS_SANITIZED,
    reason="reads /proc/self/statm; the sanitizers need memory without limits",
)


@needs_limits
def test_after_an_error_threads_work_on():
    """Four workers are to decode sequences of which each needs more memory than there is."""
    code = """
    long = tl.Trellis(np.zeros((40_000, 500)), offsets=np.arange(0, 40_001, 5_000), n_threads=4)
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
    assert run(LIMIT + textwrap.dedent(code)) == "done\n"


@needs_limits
def test_where_there_are_no_more_threads_those_that_are_do_the_work():
    code = """
    limit(4 << 20)  # less than the stack of a thread
    assert np.array_equal(path(50), expected)
    limit(None)
    print("done")
    """
    assert run(LIMIT + textwrap.dedent(code)) == "done\n"
