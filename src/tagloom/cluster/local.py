"""`LocalEngine`: workers that are processes of this machine.

A worker is a new Python process, not a copy of this one: it does not import the main program, and
threads that run here do not matter. It ends when this process ends, however that happens.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tagloom.cluster.engines import Lost, WorkerEngine
from tagloom.cluster.messages import HAS_BOXES, Channel, Packed, make_box
from tagloom.cluster.process import COMMAND
from tagloom.cluster.worker import Reply, Request
from tagloom.errors import ParameterError

_GRACE = 5.0  # seconds in which a worker must end once its input is closed


class LocalEngine(WorkerEngine):
    """Shards on processes of this machine.

    Parameters
    ----------
    n_workers : int

    Examples
    --------
    >>> from tagloom.cluster import LocalEngine
    >>> with LocalEngine(2) as engine:
    ...     engine.start(list, [("ab",), ("cad",), ("bb",)])
    ...     engine.call("count", "a")
    [1, 1, 0]
    """

    def __init__(self, n_workers: int) -> None:
        super().__init__(n_workers)
        self._common = make_box()

    def _start_worker(self) -> _Process:
        return _Process(self._common, max(1, cores() // self.n_workers))

    def _broadcast(self, common: tuple[Any, ...]) -> Packed:
        return self._common.pack(common)

    def _nothing(self) -> Packed:
        return Packed(pickle.dumps(()), ())

    @property
    def process_ids(self) -> list[int]:
        """The ids of the running processes."""
        return [w.process.pid for w in self._workers if isinstance(w, _Process)]

    def close(self) -> None:
        """End the workers."""
        super().close()
        self._common.close()


class _Process:
    """A worker in a process of its own."""

    def __init__(self, common: Any, threads: int) -> None:
        inbox, outbox = make_box(), make_box()  # as the worker sees them
        handles = [inbox.handle, outbox.handle, common.handle]
        # Libraries with threads of their own would start one per core in every worker.
        limits = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, handles)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **limits},
            start_new_session=True,  # Ctrl-C is for the program; its workers finish their call
            pass_fds=handles if HAS_BOXES else (),
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._channel = Channel(self.process.stdout, self.process.stdin, outbox, inbox, common)
        try:
            self._channel.send([entry or os.getcwd() for entry in sys.path])
        except OSError:
            raise Lost from None

    def ask(self, requests: Sequence[Request], common: Any) -> Reply:
        """Send requests and wait for the answer."""
        try:
            self._channel.send((list(requests), common))
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise ParameterError(
                f"A worker cannot be sent an object of this model: {error}.",
                expected="objects that other processes can import by name",
                found="one that cannot be pickled",
                hint="Define functions in a module, not in the main program or inside a function; "
                "or leave {n_workers} out.",
                options={"n_workers": ...},
            ) from None
        except OSError:
            raise Lost from None
        try:
            reply: Reply = self._channel.receive()
        except (EOFError, OSError):
            raise Lost from None
        return reply

    def describe(self) -> str:
        """Return how the process ended."""
        code = self.process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def close(self) -> None:
        """End the process."""
        self._channel.close()
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def cores() -> int:
    """Return the number of cores that this process may use."""
    from tagloom.checks import ALL_THREADS

    return ALL_THREADS
