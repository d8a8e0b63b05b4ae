"""Engines: results in order, the same on every engine; lost workers are replaced."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from tagloom.cluster import InlineEngine, LocalEngine
from tagloom.cluster.engines import distribute
from tagloom.cluster.messages import Box
from tagloom.errors import FormatError, WorkerError


class Counter:
    """A shard whose state comes from its arguments and from kept calls."""

    def __init__(self, start):
        self.start, self.added = start, 0

    def add(self, own, more):
        self.added += own + more
        return self.added

    def total(self, scale):
        return self.start + self.added * scale

    def gather(self, array):
        assert not array.flags.writeable
        return array[:: self.start + 1]

    def warn(self):
        import warnings

        warnings.warn("a shard is odd", UserWarning, stacklevel=1)

    def fail(self):
        if self.start > 0:
            raise FormatError("too long", path=f"{self.start}.txt", line=7)

    def die(self, flag):
        if self.start == 1 and not os.path.exists(flag):
            with open(flag, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return self.total(1)

    def die_always(self):
        os.kill(os.getpid(), signal.SIGKILL)


def engines():
    return [InlineEngine(), LocalEngine(1), LocalEngine(2)]


def double(x):
    return 2 * x


@pytest.mark.parametrize("n_workers", [None, 2])
def test_results_are_in_the_order_of_the_shards(n_workers):
    engine = InlineEngine() if n_workers is None else LocalEngine(n_workers)
    try:
        engine.start(Counter, [(0,), (1,), (2,)])
        assert engine.call("add", 10, each=[(1,), (2,), (3,)], keep=True) == [11, 12, 13]
        assert engine.call("total", 2) == [22, 25, 28]
        big = np.arange(200_000.0)  # through shared memory
        big.flags.writeable = False
        for s, part in enumerate(engine.call("gather", big)):
            np.testing.assert_array_equal(part, big[:: s + 1])
        assert dict(engine.map(double, [(1,), (5,), (7,)])) == {0: 2, 1: 10, 2: 14}
    finally:
        engine.close()


def test_errors_and_warnings_of_a_shard_arrive():
    with LocalEngine(2) as engine:
        engine.start(Counter, [(0,), (1,), (2,)])
        with pytest.raises(FormatError) as caught:
            engine.call("fail")
        assert (caught.value.path, caught.value.line) == ("1.txt", 7)  # the first in order
        with pytest.warns(UserWarning, match="a shard is odd"):
            engine.call("warn")
        assert engine.call("total", 1) == [0, 1, 2]  # the workers are still there


def test_a_killed_worker_is_replaced_with_its_state(tmp_path):
    with LocalEngine(2) as engine:
        engine.start(Counter, [(0,), (1,), (2,)])
        engine.call("add", 10, each=[(1,), (2,), (3,)], keep=True)
        assert engine.call("die", str(tmp_path / "flag")) == [11, 13, 15]
        assert engine.n_restarts == 1
        for process_id in engine.process_ids:  # between two calls
            os.kill(process_id, signal.SIGKILL)
        assert engine.call("total", 1) == [11, 13, 15]
        assert engine.n_restarts == 3


def test_a_shard_that_always_kills_its_worker_is_an_error():
    with LocalEngine(1) as engine:
        engine.start(Counter, [(0,)], names=["a.conllu"])
        with pytest.raises(WorkerError) as caught:
            engine.call("die_always")
        assert caught.value.where == "a.conllu"
        assert "signal 9" in caught.value.found


def test_tasks_of_a_killed_worker_are_repeated():
    with LocalEngine(2) as engine:
        done = []
        stop = threading.Event()

        def kill():
            for _ in range(3):
                if stop.wait(0.15) or not engine.process_ids:
                    continue
                os.kill(engine.process_ids[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        for i, value in engine.map(time.sleep, [(0.05,)] * 12):
            done.append(i)
            assert value is None
        stop.set()
        killer.join()
        assert sorted(done) == list(range(12))


def test_shards_are_distributed_by_size():
    shards = distribute([1, 9, 1, 1, 4, 4], 2)
    assert sorted(s for own in shards for s in own) == list(range(6))
    assert {sum([1, 9, 1, 1, 4, 4][s] for s in own) for own in shards} == {10}


def test_a_box_returns_what_was_put_in():
    writer = Box()
    reader = Box(os.dup(writer.handle))
    for n in (10, 100_000, 50_000, 400_000):
        value = {"a": np.arange(n, dtype=np.int32), "b": "text"}
        found = reader.unpack(writer.pack(value), copy=True)
        np.testing.assert_array_equal(found["a"], value["a"])
        found["a"][:] = 0  # a copy
        assert found["b"] == "text"
    writer.close()
    reader.close()
