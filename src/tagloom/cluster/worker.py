"""A worker: holds the objects of some shards and calls their methods.

`LocalEngine` has one in each process, see `process`; `RayEngine` makes it an actor.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """The answer of a worker to one request.

    Attributes
    ----------
    values : list
        The results, in the order of the requested calls.
    error : BaseException or None
        The error that ended the request.
    failed : int
        The number of the call that raised it.
    warnings : list of Warning
        Issued by the calls.
    """

    values: list[Any]
    error: BaseException | None = None
    failed: int = 0
    warnings: Sequence[Warning] = ()


class Make(NamedTuple):
    """Request: make the object of a shard."""

    shard: int
    make: Callable[..., Any]
    arguments: tuple[Any, ...]

    def run(self, worker: Worker, common: tuple[Any, ...]) -> None:
        """Make the object."""
        worker.shards[self.shard] = self.make(*self.arguments)


class Call(NamedTuple):
    """Request: call a method of a shard with its own arguments, then the common ones."""

    shard: int
    method: str
    arguments: tuple[Any, ...] = ()

    def run(self, worker: Worker, common: tuple[Any, ...]) -> Any:
        """Call the method."""
        return getattr(worker.shards[self.shard], self.method)(*self.arguments, *common)


class Run(NamedTuple):
    """Request: call a function."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def run(self, worker: Worker, common: tuple[Any, ...]) -> Any:
        """Call the function."""
        return self.function(*self.arguments)


class Forget(NamedTuple):
    """Request: drop the objects of all shards."""

    def run(self, worker: Worker, common: tuple[Any, ...]) -> None:
        """Drop them."""
        worker.shards.clear()


Request = Make | Call | Run | Forget


class Worker:
    """The objects of some shards.

    Attributes
    ----------
    shards : dict of int to object
    """

    def __init__(self) -> None:
        self.shards: dict[int, Any] = {}

    def handle(self, requests: Sequence[Request], common: tuple[Any, ...] = ()) -> Reply:
        """Carry out requests one after another; stop at the first error."""
        values: list[Any] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for i, request in enumerate(requests):
                try:
                    values.append(request.run(self, common))
                except Exception as error:
                    return Reply(values, _portable(error), i, _messages(caught))
        return Reply(values, warnings=_messages(caught))

    def process_id(self) -> int:
        """Return the id of the process that has the shards."""
        return os.getpid()


def _messages(caught: list[warnings.WarningMessage]) -> list[Warning]:
    return [m.message if isinstance(m.message, Warning) else UserWarning(m.message) for m in caught]


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent: itself, or one with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
