"""Run an `App`: sockets, the HTTP server, slow clients, and a shutdown that loses no answer.

The server is uvicorn's protocol for HTTP/1.1 with httptools, and uvloop if it is installed, under a
loop of our own. uvicorn's own server closes idle connections at once on SIGTERM, so that clients
which are just about to send get a reset, and then ends by that signal. Here, SIGTERM starts to
drain: readiness checks fail, every answer carries ``Connection: close``, and new connections are
accepted for ``drain_delay`` seconds, in which a load balancer looks elsewhere. Then the sockets are
closed, after the connections that wait in them were accepted; requests in flight are completed for
at most ``timeout`` seconds; the exit code is 0.

A client must send its request at a reasonable pace: all of it within ``timeout`` seconds, plus one
for every 500 bytes. Otherwise thousands of connections could be held open with a byte now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from tagloom.errors import ParameterError
from tagloom.web.apps import App

BACKLOG = 2048  # connections that wait to be accepted
KEEP_ALIVE = 75  # seconds of an idle connection; load balancers reuse theirs for 60
MAX_HEADERS = 1 << 16  # bytes of a request before its body
GRACE = 0.5  # seconds after the drain for requests that are arriving
SLOWEST = 500  # bytes per second that a client must send after the first seconds

_EMPTY = b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TIMEOUT = b"HTTP/1.1 408 Request Timeout" + _EMPTY
_HEADERS = b"HTTP/1.1 431 Request Header Fields Too Large" + _EMPTY


class _State(ServerState):
    """What connections share; uvicorn's set of tasks also contains tasks that have just ended."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0  # requests whose headers have arrived


_AT_ONCE = (
    b"HTTP/1.1 200 OK\r\ndate: %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n"
    b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n\r\n%b"
)


class Protocol(HttpToolsProtocol):
    """A connection that notices slow clients and endless headers, and answers small requests.

    A request that the app may answer at once, and that arrives whole in one piece of data, gets
    neither a task nor a cycle of ASGI messages: `App.answer_at_once` returns its answer. All others
    go the way of uvicorn.
    """

    server_state: _State
    _app: App
    is_held = False  # whether the headers of a request have arrived that may be answered at once
    _held: list[bytes]  # the pieces of its body

    _since: float | None  # when the request began to arrive; None while none is arriving
    _received: int  # bytes since then
    _in_headers: bool

    def connection_made(self, transport: Any) -> None:  # noqa: D102
        self._since, self._received, self._in_headers = self.loop.time(), 0, True
        app: Any = self.config.app
        self._app = app
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:  # noqa: D102
        super().data_received(data)
        if self.is_held:
            self._release()  # the rest of its body comes later
        self._received += len(data)
        if self._in_headers and self._received > MAX_HEADERS and not self.transport.is_closing():
            self._refuse(_HEADERS)

    def on_message_begin(self) -> None:  # noqa: D102
        self._since, self._received, self._in_headers = self.loop.time(), 0, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:  # noqa: D102
        self._in_headers = False
        self.server_state.begun += 1
        is_idle = self.cycle is None or (self.cycle.response_complete and not self.pipeline)
        if (
            is_idle
            and not self.expect_100_continue
            and not self.flow.write_paused
            and self._app.may_answer_at_once(self.parser.get_method(), self.url)
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
        ):
            self.is_held, self._held = True, []
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:  # noqa: D102
        if self.is_held:
            self._held.append(body)
        else:
            super().on_body(body)

    def _release(self) -> None:
        """Go the way of uvicorn with a request that was held."""
        self.is_held = False
        super().on_headers_complete()
        for piece in self._held:
            super().on_body(piece)

    def _answer_at_once(self) -> bool:
        """Answer the request that is held; return False if it has to go the way of uvicorn."""
        scope: Any = self.scope
        scope["method"], scope["path"] = self.parser.get_method().decode("ascii"), self.url.decode()
        scope["query_string"] = b""
        held = self._held
        answer = self._app.answer_at_once(scope, held[0] if len(held) == 1 else b"".join(held))
        if answer is None:
            return False
        self.is_held = False
        date = self.server_state.default_headers[0][1]
        body = answer.body
        self.transport.write(_AT_ONCE % (date, answer.content_type, len(body), body))
        self.on_response_complete()
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self.server_state.begun -= len(self.pipeline)  # they will never start
        super().connection_lost(exc)

    def on_message_complete(self) -> None:  # noqa: D102
        self._since, self._received = None, 0
        if self.is_held:
            if self._answer_at_once():
                return
            self._release()
        super().on_message_complete()

    @property
    def is_receiving(self) -> bool:
        """Whether a request is arriving, or the first one is awaited."""
        return self._since is not None

    def close_if_slow(self, now: float, timeout: float) -> None:
        """Close the connection if a request has been arriving for too long."""
        if self._since is not None and now - self._since > timeout + self._received / SLOWEST:
            self._refuse(_TIMEOUT)

    def _refuse(self, answer: bytes) -> None:
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(answer)
        self.transport.close()


class Server:
    """Serves an app on sockets until it is stopped.

    Parameters
    ----------
    app : App
    sockets : list of socket
        Listening, as `bind` returns them. They are closed when the server stops.
    drain_delay : float
        Seconds between SIGTERM and the end of new connections.
    timeout : float
        Seconds for a request to arrive, and for answers to be completed after the drain.
    """

    def __init__(
        self,
        app: App,
        sockets: list[socket.socket],
        *,
        drain_delay: float = 0.0,
        timeout: float = 30.0,
    ) -> None:
        self.app = app
        self._sockets = sockets
        self._drain_delay = drain_delay
        self._timeout = timeout
        self._config = Config(
            app,
            http=Protocol,
            ws="none",
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,  # a line per request would contain what its URL contains
            server_header=False,
            proxy_headers=False,  # nothing here depends on the address of the client
            timeout_keep_alive=KEEP_ALIVE,
        )
        # Malformed requests are the client's to see, not a way to fill our log; the app itself
        # logs what goes wrong in it.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._state = state = _State()
        state.begun = app.answered
        app.count_in_flight = lambda: state.begun - app.answered
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drained: asyncio.Event | None = None
        self._is_forced = False

    def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Serve until `stop`, SIGTERM or SIGINT."""
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(self._serve(on_ready))

    def stop(self, *, delay: float | None = None) -> None:
        """Begin to drain; a second call ends at once. Any thread may call it."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop, delay)

    def _stop(self, delay: float | None = None) -> None:
        assert self._loop is not None
        assert self._drained is not None
        if self.app.is_draining:
            self._is_forced = True
            self._drained.set()
            return
        self.app.is_draining = True
        seconds = self._drain_delay if delay is None else delay
        self._loop.call_later(seconds, self._drained.set)

    async def _serve(self, on_ready: Callable[[], None]) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._drained = asyncio.Event()
        self._config.load()
        for start in self.app.on_start:
            await start()
        with self._signals(loop):
            # asyncio closes the sockets that it is given; these copies outlive that.
            copies = [listening.dup() for listening in self._sockets]
            servers = [
                await loop.create_server(self._connect, sock=listening, backlog=BACKLOG)
                for listening in self._sockets
            ]
            ticking = loop.create_task(self._tick(loop))
            on_ready()
            await self._drained.wait()
            for server in servers:
                server.close()
            await self._accept_waiting(loop, copies)
            await self._finish()
            ticking.cancel()
            for stop in self.app.on_stop:
                await stop()

    def _connect(self) -> Protocol:
        return Protocol(config=self._config, server_state=self._state, app_state={})

    async def _accept_waiting(
        self, loop: asyncio.AbstractEventLoop, copies: list[socket.socket]
    ) -> None:
        """Accept the connections that the system has accepted for us; closing would reset them."""
        for listening in copies:
            with contextlib.suppress(BlockingIOError, OSError):
                listening.setblocking(False)
                while True:
                    connection, _ = listening.accept()
                    connection.setblocking(False)
                    await loop.connect_accepted_socket(self._connect, connection)
            listening.close()

    @property
    def _connections(self) -> list[Protocol]:
        return [each for each in self._state.connections if isinstance(each, Protocol)]

    async def _finish(self) -> None:
        """Complete what is in flight, and close the rest."""
        self.app.stopping.set()
        began = time.monotonic()
        await asyncio.sleep(0.05)  # read what idle connections have just sent
        while self._connections and not self._is_forced:
            seconds = time.monotonic() - began
            if seconds > self._timeout:
                break
            for connection in self._connections:
                if seconds > GRACE or not connection.is_receiving:
                    connection.shutdown()  # idle: closes; otherwise closes after its answer
            await asyncio.sleep(0.02)
        for connection in self._connections:
            connection.transport.abort()
        for task in list(self._state.tasks):
            task.cancel()

    async def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Renew the date of the answers, and look for slow clients, every second."""
        while True:
            date = formatdate(time.time(), usegmt=True).encode()
            self._state.default_headers = [(b"date", date)]
            now = loop.time()
            for connection in self._connections:
                connection.close_if_slow(now, self._timeout)
            await asyncio.sleep(1)

    @contextlib.contextmanager
    def _signals(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Drain on SIGTERM, and without delay on SIGINT; only the main thread gets signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {}
        for number, delay in ((signal.SIGTERM, None), (signal.SIGINT, 0.0)):

            def handle(*_: object, delay: float | None = delay) -> None:
                self._stop(delay)

            before[number] = signal.getsignal(number)
            try:
                loop.add_signal_handler(number, handle)
            except NotImplementedError:  # Windows
                signal.signal(number, lambda *_, h=handle: loop.call_soon_threadsafe(h))
        try:
            yield
        finally:
            for number, handler in before.items():
                with contextlib.suppress(NotImplementedError):
                    loop.remove_signal_handler(number)
                signal.signal(number, handler)


def bind(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Open a listening socket.

    Parameters
    ----------
    host : str
        An address or name of this machine.
    port : int
        0 for any free one.

    Raises
    ------
    ParameterError
        If the address is not of this machine, or the port is taken or reserved.

    Examples
    --------
    >>> with bind() as listening:
    ...     listening.getsockname()[0]
    '127.0.0.1'
    """
    try:
        kind, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ParameterError(
            parameter="host", expected="an address of this machine", found=f"{host!r} ({error})"
        ) from None
    listening = socket.socket(kind, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # a restart need not wait for old connections to time out
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        name, expected = "port", "a free port"
        if error.errno in (errno.EADDRNOTAVAIL, errno.EINVAL):
            name, expected = "host", "an address of this machine"
        raise ParameterError(
            parameter=name,
            expected=expected,
            found=f"{host}:{port} ({error.strerror})",
            hint="Pass {port} for any free port." if name == "port" else None,
            options={"port": 0} if name == "port" else None,
        ) from None
    return listening


def url_of(listening: socket.socket) -> str:
    """Return the URL of a listening socket.

    Examples
    --------
    >>> with bind() as listening:
    ...     url_of(listening).startswith("http://127.0.0.1:")
    True
    """
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(
    app: App,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    announce: Callable[[str], None] = print,
    drain_delay: float = 0.0,
    timeout: float = 30.0,
) -> None:
    """Serve an app until SIGTERM or Ctrl-C.

    Parameters
    ----------
    app : App
        Made with ``loopback_only=is_loopback(host)``.
    host, port
        As for `bind`. Loopback by default: other machines cannot connect.
    announce : function
        Called with the URL once connections are accepted.
    drain_delay, timeout
        As for `Server`.
    """
    with bind(host, port) as listening:
        url = url_of(listening)
        Server(app, [listening], drain_delay=drain_delay, timeout=timeout).run(
            lambda: announce(url)
        )


@contextlib.contextmanager
def background(app: App, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve an app from a thread of this process, for notebooks and tests.

    Yields
    ------
    str
        The URL.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> from tagloom.web import App, Route, reply
    >>> async def hello(request):
    ...     return reply({"hello": request.parameters["name"]})
    >>> with background(App([Route("GET", "/hello/{name}", hello)])) as url:
    ...     urlopen(f"{url}/hello/you").read()
    b'{"hello":"you"}'
    """
    ready = threading.Event()
    with bind(host, port) as listening:
        url = url_of(listening)
        server = Server(app, [listening])
        thread = threading.Thread(target=server.run, args=(ready.set,), daemon=True)
        thread.start()
        if not ready.wait(30):
            raise RuntimeError("the server did not start")
        try:
            yield url
        finally:
            server.stop()
            thread.join()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # it does not exist for Windows
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
