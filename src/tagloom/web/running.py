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
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from tagloom.errors import ParameterError
from tagloom.web.apps import App
from tagloom.web.messages import Response, Scope

BACKLOG = 2048  # connections that wait to be accepted
KEEP_ALIVE = 75  # seconds of an idle connection; load balancers reuse theirs for 60
MAX_HEADERS = 1 << 16  # bytes of a request before its body
GRACE = 0.5  # seconds after the drain for requests that are arriving
ACCEPTED = 8  # connections besides the one that the loop accepts in a turn
SLOWEST = 500  # bytes per second that a client must send after the first seconds

_EMPTY = b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TIMEOUT = b"HTTP/1.1 408 Request Timeout" + _EMPTY
_HEADERS = b"HTTP/1.1 431 Request Header Fields Too Large" + _EMPTY


MOST_HEADS = 1000  # heads of requests that are kept
LONGEST_HEAD = 2000  # bytes of a head that is kept

_LENGTH = re.compile(rb"\r\ncontent-length: ?(\d{1,9})\r\n", re.IGNORECASE)
_AT_ONCE = (
    b"%bdate: %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n"
    b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n%b\r\n%b"
)


class _State(ServerState):
    """What connections share; uvicorn's set of tasks also contains tasks that have just ended."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0  # requests whose headers have arrived
        self.heads: dict[
            bytes, Scope
        ] = {}  # as `_split` returns them, of requests answered at once


def _split(data: bytes) -> tuple[bytes, bytes] | None:
    r"""Return the head of a request, without the number of its length, and its body.

    None if the data is not one whole request.

    Examples
    --------
    >>> _split(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
    (b'POST / HTTP/1.1\r\nContent-Length: \r\n\r\n', b'{}')
    """
    end = data.find(b"\r\n\r\n") + 4
    length = _LENGTH.search(data, 0, end)
    if length is None or len(data) - end != int(length[1]):
        return None
    return data[: length.start(1)] + data[length.end(1) : end], data[end:]


class Protocol(HttpToolsProtocol):
    """A connection that notices slow clients and endless headers, and answers small requests.

    A request that the app may answer at once, and that arrives whole in one piece of data, gets
    neither a task nor a cycle of ASGI messages: `App.answer_at_once` returns its answer. All others
    go the way of uvicorn.

    A client sends the same head with each request, but for the length of the body. A head that was
    parsed once is found in a table and not parsed again.
    """

    server_state: _State
    _app: App
    is_held = False  # whether the headers of a request have arrived that may be answered at once
    _held: list[bytes]  # the pieces of its body
    _piece: bytes | None  # the data that is being read, if it begins with a request

    _since: float | None  # when the request began to arrive; None while none is arriving
    _received: int  # bytes since then
    _in_headers: bool
    _used: float  # when the connection was last used

    def connection_made(self, transport: Any) -> None:  # noqa: D102
        self._since, self._received, self._in_headers = self.loop.time(), 0, True
        self._used = self._since
        app: Any = self.config.app
        self._app = app
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:  # noqa: D102
        self._used = self.loop.time()
        is_first = self._since is None or self._received == 0
        if is_first and self._answer_known(data):
            return
        self._piece = data if is_first else None
        super().data_received(data)
        if self.is_held:
            self._release()  # the rest of its body comes later
        self._received += len(data)
        if self._in_headers and self._received > MAX_HEADERS and not self.transport.is_closing():
            self._refuse(_HEADERS)

    def _is_free(self) -> bool:
        """Whether every request before has its answer, and the client reads them."""
        is_idle = self.cycle is None or (self.cycle.response_complete and not self.pipeline)
        return is_idle and not self.flow.write_paused

    def on_message_begin(self) -> None:  # noqa: D102
        self._since, self._received, self._in_headers = self.loop.time(), 0, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:  # noqa: D102
        self._in_headers = False
        self.server_state.begun += 1
        if (
            self._is_free()
            and not self.expect_100_continue
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

    def _answer_held(self) -> bool:
        """Answer the request that is held; return False if it has to go the way of uvicorn."""
        scope: Scope = {
            "type": "http",
            "method": self.parser.get_method().decode("ascii"),
            "path": self.url.decode("ascii"),
            "query_string": b"",
            "headers": self.headers,
            "server": self.server,
        }
        body = b"".join(self._held)
        status = self._answer_at_once(scope, body)
        if status is None:
            return False
        self.is_held = False
        split = None if self._piece is None or status != 200 else _split(self._piece)
        if split is not None and split[1] == body and len(split[0]) <= LONGEST_HEAD:
            heads = self.server_state.heads
            if len(heads) >= MOST_HEADS:
                heads.clear()
            heads[split[0]] = scope
        return True

    def _answer_known(self, data: bytes) -> bool:
        """Answer a request whose head was parsed before; return False if it has to be parsed."""
        if self._app.is_draining or not self._is_free():
            return False
        split = _split(data)
        scope = None if split is None else self.server_state.heads.get(split[0])
        if split is None or scope is None:
            return False
        self.server_state.begun += 1
        if self._answer_at_once(scope, split[1]) is None:
            self.server_state.begun -= 1  # it will begin again
            return False
        self._since = None
        return True

    def _answer_at_once(self, scope: Scope, body: bytes) -> int | None:
        """Send the answer that the app gives at once; return its status."""
        if self._app.turn == 0:
            self.loop.call_soon(self._app.begin_turn)
        answer = self._app.answer_at_once(scope, body)
        if answer is None:
            return None
        self.transport.write(self._encode(answer))
        return answer.status

    def _encode(self, answer: Response) -> bytes:
        date = self.server_state.default_headers[0][1]
        more = b"".join([b"%b: %b\r\n" % header for header in answer.headers or ()])
        body = answer.body
        status = STATUS_LINE[answer.status]
        return _AT_ONCE % (status, date, answer.content_type, len(body), more, body)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102
        self.server_state.begun -= len(self.pipeline)  # they will never start
        super().connection_lost(exc)

    def on_message_complete(self) -> None:  # noqa: D102
        self._since, self._received = None, 0
        if self.is_held:
            if self._answer_held():
                return
            self._release()
        super().on_message_complete()

    def on_response_complete(self) -> None:  # noqa: D102
        self._used = self.loop.time()
        super().on_response_complete()
        self._unset_keepalive_if_required()  # `close_if_slow` does it without a timer per answer

    @property
    def is_receiving(self) -> bool:
        """Whether a request is arriving, or the first one is awaited."""
        return self._since is not None

    def close_if_slow(self, now: float, timeout: float) -> None:
        """Close the connection if a request has been arriving for too long, or none has come."""
        if self._since is None:
            if now - self._used > KEEP_ALIVE and self._is_free():
                self.transport.close()
        elif now - self._since > timeout + self._received / SLOWEST:
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
        self._copies: list[socket.socket] = []
        self._accepting: set[asyncio.Task[None]] = set()

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
            self._copies = [listening.dup() for listening in self._sockets]
            servers = [
                await loop.create_server(self._connect_several, sock=listening, backlog=BACKLOG)
                for listening in self._sockets
            ]
            ticking = loop.create_task(self._tick(loop))
            on_ready()
            await self._drained.wait()
            for server in servers:
                server.close()
            # The system has accepted connections for us, which closing would reset.
            self._accept_waiting(BACKLOG)
            for listening in self._copies:  # at once: what still arrives would be reset
                listening.close()
            await asyncio.gather(*self._accepting, return_exceptions=True)
            await self._finish()
            ticking.cancel()
            for stop in self.app.on_stop:
                await stop()

    def _connect(self) -> Protocol:
        return Protocol(config=self._config, server_state=self._state, app_state={})

    def _connect_several(self) -> Protocol:
        """Accept further connections with one that the loop accepts.

        uvloop accepts one in each turn. If turns are long, because there is much to do, new clients
        would wait for seconds.
        """
        self._accept_waiting(ACCEPTED)
        return self._connect()

    def _accept_waiting(self, most: int) -> None:
        loop = asyncio.get_running_loop()
        for listening in self._copies:
            # No more are waiting; or there are too many open files, which the loop handles.
            with contextlib.suppress(BlockingIOError, OSError):
                listening.setblocking(False)
                for _ in range(most):
                    connection, _ = listening.accept()
                    connection.setblocking(False)
                    task = loop.create_task(self._take(loop, connection))
                    self._accepting.add(task)
                    task.add_done_callback(self._accepting.discard)

    async def _take(self, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        await loop.connect_accepted_socket(self._connect, connection)

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
