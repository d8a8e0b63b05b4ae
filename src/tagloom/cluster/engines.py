"""The engine protocol, and what all engines share: shards on workers, replacement of lost workers.

An engine starts one object per shard, calls a method of all of them and gathers the results in the
order of the shards. Which worker has which shard never changes a result.
"""

from __future__ import annotations

import queue
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from tagloom import checks
from tagloom.cluster.worker import Call, Forget, Make, Reply, Request, Run
from tagloom.errors import WorkerError

# Times that a worker may die in one request before the request counts as the cause.
_MOST_DEATHS = 6


class Engine(Protocol):
    """Runs the objects of shards.

    Attributes
    ----------
    n_workers : int
    n_restarts : int
        How often a lost worker was replaced.
    """

    n_workers: int
    n_restarts: int

    def start(
        self,
        make: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        sizes: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Make one object per shard: ``make(*arguments[s])`` for each shard s.

        Parameters
        ----------
        make : callable
            Importable by its name on every worker.
        arguments : sequence of tuples
        sizes : sequence of float, optional
            The relative work of each shard, by which they are distributed.
        names : sequence of str, optional
            Names of the shards for errors.
        """

    def call(
        self,
        method: str,
        *common: Any,
        each: Sequence[tuple[Any, ...]] | None = None,
        keep: bool = False,
    ) -> list[Any]:
        """Call a method of every shard and return the results in the order of the shards.

        Parameters
        ----------
        method : str
        *common
            Arguments for all shards; arrays are read-only there.
        each : sequence of tuples, optional
            Arguments of each shard, before the common ones.
        keep : bool
            Whether the call changes the shards. It is then repeated on a worker that replaces a
            lost one; other calls must not change anything.

        Raises
        ------
        Exception
            That of the first shard, in order, whose call raised one.
        WorkerError
            If a worker dies again and again.
        """

    def map(
        self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """Call a function for each task; yield the number and the result of each as it is done."""

    def close(self) -> None:
        """End the workers."""


class Lost(Exception):
    """A worker has died, for instance by a signal."""


class Kept(NamedTuple):
    """A call that a new worker must repeat."""

    method: str
    each: Sequence[tuple[Any, ...]] | None
    common: tuple[Any, ...]

    def of(self, shard: int) -> Call:
        """Return the call of one shard."""
        own = () if self.each is None else self.each[shard]
        return Call(shard, self.method, (*own, *self.common))


class Remote(Protocol):
    """A worker in another process or on another machine."""

    def ask(self, requests: Sequence[Request], common: Any) -> Reply:
        """Send requests and wait for the answer; raise Lost if the worker dies."""

    def close(self) -> None:
        """End the worker."""

    def describe(self) -> str:
        """Return how the worker ended, for an error."""


class WorkerEngine(ABC):
    """Base of engines whose workers may die.

    Parameters
    ----------
    n_workers : int
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = checks.count(n_workers, "n_workers", least=1)
        self.n_restarts = 0
        self._make: tuple[Callable[..., Any], Sequence[tuple[Any, ...]]] | None = None
        self._names: Sequence[str] = ()
        self._kept: list[Kept] = []
        self._shards: list[list[int]] = [[] for _ in range(self.n_workers)]  # of each worker
        self._workers: list[Remote | None] = [None] * self.n_workers
        self._threads = ThreadPoolExecutor(self.n_workers, "tagloom-worker")
        self._lock = threading.Lock()

    @abstractmethod
    def _start_worker(self) -> Remote:
        """Start a worker without shards."""

    @abstractmethod
    def _broadcast(self, common: tuple[Any, ...]) -> Any:
        """Put what all workers read where they can read it."""

    # ---- shards ----------------------------------------------------------------------------

    def start(
        self,
        make: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        sizes: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Make one object per shard; see `Engine.start`."""
        self._kept = []
        self._names = names or [f"shard {s}" for s in range(len(arguments))]
        self._shards = distribute(sizes or [1.0] * len(arguments), self.n_workers)
        self._make = make, arguments
        nothing = self._broadcast(())
        self._on_all(lambda w: [Forget(), *self._makes(w)], nothing, revives=False)

    def _makes(self, w: int) -> list[Make]:
        assert self._make is not None
        make, arguments = self._make
        return [Make(s, make, arguments[s]) for s in self._shards[w]]

    def call(
        self,
        method: str,
        *common: Any,
        each: Sequence[tuple[Any, ...]] | None = None,
        keep: bool = False,
    ) -> list[Any]:
        """Call a method of every shard; see `Engine.call`."""

        def calls(w: int) -> list[Call]:
            own = ((s, () if each is None else each[s]) for s in self._shards[w])
            return [Call(s, method, arguments) for s, arguments in own]

        values = self._on_all(calls, self._broadcast(common))
        if keep:
            self._kept.append(Kept(method, each, common))
        results: list[Any] = [None] * sum(map(len, self._shards))
        for w, of_worker in enumerate(values):
            for s, value in zip(self._shards[w], of_worker, strict=True):
                results[s] = value
        return results

    def _on_all(
        self, requests: Callable[[int], Sequence[Request]], common: Any, *, revives: bool = True
    ) -> list[list[Any]]:
        """Send requests to all workers that have shards; wait for all of them."""
        busy = [w for w in range(self.n_workers) if self._shards[w]]
        waiting = [
            self._threads.submit(self._ask, w, requests(w), common, revives=revives) for w in busy
        ]
        replies = [future.result() for future in waiting]
        failures = []
        for w, reply in zip(busy, replies, strict=True):
            if reply.error is not None:
                request = requests(w)[reply.failed]
                failures.append((getattr(request, "shard", 0), reply.error))
        if failures:
            raise min(failures, key=lambda failure: failure[0])[1]
        values: list[list[Any]] = [[] for _ in range(self.n_workers)]
        for w, reply in zip(busy, replies, strict=True):
            values[w] = reply.values
            for warning in reply.warnings:
                warnings.warn(warning, stacklevel=4)
        return values

    def _ask(
        self, w: int, requests: Sequence[Request], common: Any, *, revives: bool = True
    ) -> Reply:
        """Send requests to one worker, and again to its successor if it dies."""
        for _ in range(_MOST_DEATHS):
            worker = self._workers[w]
            try:
                if worker is None:
                    worker = self._workers[w] = self._start_worker()
                    if revives:
                        reply = worker.ask(self._history(w), self._nothing())
                        if reply.error is not None:
                            return reply
                return worker.ask(requests, common)
            except Lost:
                how = "" if worker is None else worker.describe()
                if worker is not None:
                    worker.close()
                self._workers[w] = None
                with self._lock:
                    self.n_restarts += 1
        files = ", ".join(self._names[s] for s in self._shards[w]) or "a task"
        return Reply(
            [],
            WorkerError(
                where=files,
                expected="a worker that runs to its end",
                found=f"one that was lost {_MOST_DEATHS} times ({how})",
                hint="Signal 9 means in most cases that memory was not sufficient: use fewer "
                "workers or smaller files.",
            ),
        )

    def _history(self, w: int) -> list[Request]:
        """Return the requests that give a new worker the shards of a lost one."""
        if self._make is None:
            return []
        return [*self._makes(w), *(kept.of(s) for kept in self._kept for s in self._shards[w])]

    def _nothing(self) -> Any:
        """Return the broadcast of no arguments, without a change to what is broadcast now."""
        return ()

    # ---- tasks -----------------------------------------------------------------------------

    def map(
        self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """Call a function for each task; see `Engine.map`.

        Raises
        ------
        Exception
            The first error; the tasks that are running then are completed.
        """
        waiting = iter(enumerate(tasks))
        done: queue.SimpleQueue[tuple[int, Reply] | None] = queue.SimpleQueue()
        lock, stops = threading.Lock(), threading.Event()
        nothing = self._broadcast(())

        def work(w: int) -> None:
            try:
                while not stops.is_set():
                    with lock:
                        task = next(waiting, None)
                    if task is None:
                        break
                    i, arguments = task
                    done.put((i, self._ask(w, [Run(function, arguments)], nothing)))
            except Exception as error:  # of the tasks themselves, or of the connection
                done.put((-1, Reply([], error)))
            finally:
                done.put(None)

        running = self.n_workers
        for w in range(self.n_workers):
            self._threads.submit(work, w)
        try:
            while running:
                finished = done.get()
                if finished is None:
                    running -= 1
                    continue
                i, reply = finished
                for warning in reply.warnings:
                    warnings.warn(warning, stacklevel=2)
                if reply.error is not None:
                    raise reply.error
                yield i, reply.values[0]
        finally:
            stops.set()

    def close(self) -> None:
        """End the workers."""
        self._threads.shutdown()
        for worker in self._workers:
            if worker is not None:
                worker.close()
        self._workers = [None] * self.n_workers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class InlineEngine:
    """All shards in this process, one after another.

    Attributes
    ----------
    shards : list of object

    Examples
    --------
    >>> engine = InlineEngine()
    >>> engine.start(list, [("ab",), ("cad",)])
    >>> engine.call("count", "a")
    [1, 1]
    """

    def __init__(self) -> None:
        self.n_workers, self.n_restarts = 1, 0
        self.shards: list[Any] = []

    def start(
        self,
        make: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        sizes: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Make one object per shard; see `Engine.start`."""
        self.shards = [make(*own) for own in arguments]

    def call(
        self,
        method: str,
        *common: Any,
        each: Sequence[tuple[Any, ...]] | None = None,
        keep: bool = False,
    ) -> list[Any]:
        """Call a method of every shard; see `Engine.call`."""
        own = [()] * len(self.shards) if each is None else each
        pairs = zip(self.shards, own, strict=True)
        return [getattr(shard, method)(*arguments, *common) for shard, arguments in pairs]

    def map(
        self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """Call a function for each task; see `Engine.map`."""
        for i, arguments in enumerate(tasks):
            yield i, function(*arguments)

    def close(self) -> None:
        """Drop the shards."""
        self.shards = []


def distribute(sizes: Sequence[float], n: int) -> list[list[int]]:
    """Distribute shards to n workers: the largest first, each to the one with the least so far.

    Examples
    --------
    >>> distribute([5, 1, 1, 4], 2)
    [[0, 2], [1, 3]]
    """
    shards: list[list[int]] = [[] for _ in range(n)]
    loads = [0.0] * n
    for s in sorted(range(len(sizes)), key=lambda s: (-sizes[s], s)):
        w = min(range(n), key=lambda w: (loads[w], w))
        shards[w].append(s)
        loads[w] += sizes[s]
    return [sorted(own) for own in shards]


def open_engine(n_workers: int | None, cluster: str | None, most: int | None = None) -> Engine:
    """Make the engine that the parameters of a model or the options of a command name.

    Parameters
    ----------
    n_workers : int or None
        Processes on this machine, or workers of the cluster; None for this process alone, or all
        CPUs of the cluster.
    cluster : str or None
        The address of a Ray cluster, or "auto".
    most : int, optional
        The number of workers that have work.

    Raises
    ------
    MissingExtraError
        If a cluster is named and Ray is not installed.
    """
    if cluster is not None:
        from tagloom.cluster.on_ray import RayEngine

        return RayEngine(cluster, n_workers, most=most)
    if n_workers is None:
        return InlineEngine()
    from tagloom.cluster.local import LocalEngine

    return LocalEngine(n_workers if most is None else max(1, min(n_workers, most)))
