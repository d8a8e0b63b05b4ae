"""Run the server: one process, or a parent that replaces dead workers and hands them new models.

With several workers, the parent opens the socket, loads the models and forks: workers share the
socket, the pages of the models and the memory of the metrics. When a file changes, the parent makes
one private copy, verifies it and sends its descriptor to the workers, which map the same memory. A
worker that dies is replaced; a worker whose parent dies drains and ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import logging
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from tagloom.errors import ParameterError
from tagloom.serve.app import make_app
from tagloom.serve.metrics import Metrics
from tagloom.serve.registry import (
    INTERVAL,
    Loader,
    Registry,
    Served,
    Source,
    Watcher,
    load_copy,
)
from tagloom.serve.settings import Settings
from tagloom.storage import Copy
from tagloom.web import Server, bind, url_of

logger = logging.getLogger("tagloom.serve")

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
HASTY = 1.0  # seconds: a worker that lives shorter has failed to start
MOST_FAILURES = 5  # such workers in a row before the parent gives up


def serve(
    sources: list[Source],
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    n_workers: int = 1,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve models until SIGTERM or Ctrl-C.

    Parameters
    ----------
    sources : list of Source
        As `parse_sources` returns them.
    settings : Settings
    host, port
        Where to listen; port 0 is any free one.
    n_workers : int
        Number of processes that answer.
    announce : function
        Called with the URL once the server listens.

    Raises
    ------
    ModelFileError, OSError
        If a model cannot be loaded at the start.
    ParameterError
        If the address is not free.
    """
    if n_workers > 1 and not hasattr(os, "fork"):
        raise ParameterError(
            parameter="workers",
            expected="1 on this system, which cannot fork",
            found=str(n_workers),
        )
    _share_memory_between_threads()
    gc.freeze()  # to collect the 40,000 objects of modules would halt all requests for 10 ms
    with bind(host, port) as listening:
        metrics = Metrics([source.name for source in sources], n_workers)
        if n_workers == 1:
            _serve_alone(sources, settings, listening, metrics, announce)
        else:
            _Parent(sources, settings, listening, metrics, n_workers).run(announce)


def _share_memory_between_threads() -> None:
    """Let all threads allocate from one arena of glibc.

    By default each thread has its own, and memory that one has freed is of no use to another:
    43,000 mixed requests took 22 MB more, which were never returned; with one arena none.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries lack it
        if mallopt is not None:
            mallopt(_ARENA_MAX, 1)


def _serve_alone(
    sources: list[Source],
    settings: Settings,
    listening: socket.socket,
    metrics: Metrics,
    announce: Callable[[str], None],
) -> None:
    """Serve in this process; models are loaded while it already listens."""
    registry = Registry(source.name for source in sources)
    server = _server(registry, settings, metrics, listening)
    errors: list[Exception] = []

    def fail(error: Exception) -> None:
        errors.append(error)
        server.stop(delay=0)

    loader = Loader(sources, lambda served, _: registry.put(served), metrics.count_reload)
    watcher = Watcher(loader, fail)
    url = url_of(listening)

    def ready() -> None:
        watcher.start()
        announce(url)

    with _on_hangup(watcher.reload):
        server.run(ready)
    watcher.stop()
    if errors:
        raise errors[0]


def _server(
    registry: Registry, settings: Settings, metrics: Metrics, listening: socket.socket
) -> Server:
    app = make_app(registry, settings, metrics)
    return Server(app, [listening], drain_delay=settings.drain_delay, timeout=settings.timeout)


@contextlib.contextmanager
def _on_hangup(reload: Callable[[], None]) -> Iterator[None]:
    """Reload the models on SIGHUP, where that signal exists."""
    if not hasattr(signal, "SIGHUP") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, lambda *_: reload())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


# ---- several workers ---------------------------------------------------------------------------


class _Worker:
    """A worker as its parent sees it."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self.began = time.monotonic()


class _Parent:
    """Loads models and keeps workers alive; it answers no requests itself."""

    def __init__(
        self,
        sources: list[Source],
        settings: Settings,
        listening: socket.socket,
        metrics: Metrics,
        n_workers: int,
    ) -> None:
        self._settings = settings
        self._listening = listening
        self._metrics = metrics
        self._n_workers = n_workers
        self._registry = Registry(source.name for source in sources)
        self._loader = Loader(sources, self._publish, metrics.count_reload)
        self._workers: dict[int, _Worker] = {}  # number → worker
        self._signals: list[int] = []
        self._failures = 0

    def run(self, announce: Callable[[str], None]) -> None:
        """Serve until SIGTERM or SIGINT."""
        self._loader.load_all()
        woken, waker = socket.socketpair()
        for end in (woken, waker):
            end.setblocking(False)
        names = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
        before = {n: signal.signal(n, lambda n, _: self._signals.append(n)) for n in names}
        old = signal.set_wakeup_fd(waker.fileno())
        try:
            for number in range(1, self._n_workers + 1):
                self._start(number)
            announce(url_of(self._listening))
            with selectors.DefaultSelector() as selector:
                selector.register(woken, selectors.EVENT_READ)
                self._watch(selector, woken)
            self._end()
        finally:
            signal.set_wakeup_fd(old)
            for n, handler in before.items():
                signal.signal(n, handler)

    def _watch(self, selector: selectors.BaseSelector, woken: socket.socket) -> None:
        next_look = time.monotonic() + INTERVAL
        while True:
            if selector.select(max(0.0, next_look - time.monotonic())):
                with contextlib.suppress(BlockingIOError):
                    woken.recv(4096)
            signals, self._signals = self._signals, []
            if signal.SIGTERM in signals or signal.SIGINT in signals:
                return
            self._replace_dead()
            if signal.SIGHUP in signals:
                self._loader.look(force=True)
            elif time.monotonic() >= next_look:
                self._loader.look()
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + INTERVAL

    def _start(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            ours.close()
            for worker in self._workers.values():
                worker.channel.close()
            self._work(number, theirs)
        theirs.close()
        self._workers[number] = _Worker(pid, ours)

    def _work(self, number: int, channel: socket.socket) -> NoReturn:
        """Answer requests; the body of a worker, which never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for name in (signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
                signal.signal(name, signal.SIG_IGN if name == signal.SIGHUP else signal.SIG_DFL)
            self._metrics.use_row(number)
            server = _server(self._registry, self._settings, self._metrics, self._listening)
            listener = threading.Thread(
                target=_listen, args=(channel, self._registry, server.stop), daemon=True
            )
            server.run(listener.start)
            code = 0
        except BaseException as error:
            logger.error("worker %d: %s", number, type(error).__name__)
        finally:
            os._exit(code)

    def _publish(self, served: Served, copy: Copy | None) -> None:
        """Use a model here, for workers to come, and send it to those that there are."""
        self._registry.put(served)
        if copy is None or copy.descriptor is None:
            return
        message = json.dumps({"name": served.name, "path": copy.name}).encode()
        for worker in self._workers.values():
            with contextlib.suppress(OSError):  # it has died, and will be replaced
                socket.send_fds(worker.channel, [message], [copy.descriptor])

    def _replace_dead(self) -> None:
        for number, worker in list(self._workers.items()):
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if not pid:
                continue
            logger.error(
                "worker %d ended with code %d: replaced", number, os.waitstatus_to_exitcode(status)
            )
            worker.channel.close()
            del self._workers[number]
            self._metrics.clear_worker(number)
            self._metrics.count_restart()
            is_hasty = time.monotonic() - worker.began < HASTY
            self._failures = self._failures + 1 if is_hasty else 0
            if self._failures >= MOST_FAILURES:
                self._end()
                raise RuntimeError("workers end as soon as they are started")
            self._start(number)

    def _end(self) -> None:
        """Let the workers drain, and wait for them."""
        # The socket closes with its last copy; until then workers accept.
        self._listening.close()
        for worker in self._workers.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGTERM)
        ending = time.monotonic() + self._settings.drain_delay + self._settings.timeout + 5
        while self._workers and time.monotonic() < ending:
            if self._signals.count(signal.SIGINT) + self._signals.count(signal.SIGTERM) > 1:
                break
            for number, worker in list(self._workers.items()):
                if os.waitpid(worker.pid, os.WNOHANG)[0]:
                    worker.channel.close()
                    del self._workers[number]
            time.sleep(0.02)
        for worker in self._workers.values():
            os.kill(worker.pid, signal.SIGKILL)
            os.waitpid(worker.pid, 0)


def _listen(channel: socket.socket, registry: Registry, stop: Callable[[], None]) -> None:
    """Take new models from the parent, in a thread of a worker; stop when the parent is gone."""
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 1)
        except OSError:
            message, descriptors = b"", []
        if not message:
            stop()
            return
        about = json.loads(message)
        with Copy.from_descriptor(descriptors[0], about["path"]) as copy:
            registry.put(load_copy(about["name"], copy))
