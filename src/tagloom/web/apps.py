"""The ASGI application that `tagloom serve` and `tagloom studio` share.

A request passes, in this order: the check of its Host, cross-origin rules, the check of its token,
the checks that the app adds, and its route. Whatever refuses it raises a `TagloomError`, which is
rendered in one place; an error that nobody foresaw is logged and becomes a 500 without details.

::

    async def hello(request: Request) -> Response:
        return reply({"hello": request.parameters["name"]})

    app = App([Route("GET", "/hello/{name}", hello)], loopback_only=True)
    run(app, port=8080)
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import NamedTuple, TypeAlias

from tagloom.errors import RequestError, TagloomError
from tagloom.web.access import Access, check_host
from tagloom.web.messages import (
    DEFAULT_LIMIT,
    ClientLeft,
    Headers,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    in_thread,
)
from tagloom.web.problems import problem

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Check: TypeAlias = Callable[[Request], None]
#: Answers a request whose whole body has arrived; None if the handler must do it.
AtOnce: TypeAlias = Callable[[Request, bytes], Response | None]
#: Called after every answer with the request, the status code and the seconds that it took.
Observer: TypeAlias = Callable[[Request, int, float], None]

logger = logging.getLogger("tagloom.web")

# Nobody keeps an answer, unless the answer itself says how long.
_KEPT: Headers = [(b"x-content-type-options", b"nosniff")]
_DATA: Headers = [*_KEPT, (b"cache-control", b"no-store")]
_CLOSE = (b"connection", b"close")
LEAST_COMPRESSED = 1000  # bytes of an answer
_IN_THREAD = 1 << 17  # bytes that take about a millisecond to compress
CLIENT_LEFT = 499  # the status under which a request is counted whose client left


class Route(NamedTuple):
    """A method and a path, and the handler that answers.

    Attributes
    ----------
    method : str
        GET also answers HEAD.
    path : str
        ``/v1/models/{name}``: a name in braces matches one part of the path and is in
        ``request.parameters``; ``{name*}`` as the last part matches the whole rest.
    handler : async function
    at_once : function, optional
        Answers small requests without a task of their own; see `App.answer_at_once`.
    """

    method: str
    path: str
    handler: Handler
    at_once: AtOnce | None = None


class App:
    """An ASGI application.

    Parameters
    ----------
    routes : iterable of Route
    loopback_only : bool
        Whether to accept loopback names as Host only; true for servers on a loopback address.
    access : Access, optional
        Checks tokens; without it everybody may ask.
    checks : iterable of function
        Called with each request after its token was accepted; they raise to refuse it.
    origins : collection of str
        Other sites whose pages may call this server (CORS), such as ``https://example.org``.
    max_body : int
        Bytes of a body, inflated.
    observer : function, optional
        Called after every answer.
    compress : bool
        Whether to compress answers of at least 1 KB for clients that accept gzip; streams are not.

    Attributes
    ----------
    is_draining : bool
        Whether the server is about to stop: every answer then closes its connection.
    on_start, on_stop : list of async functions
        Called by `tagloom.web.run` before the first request and after the last.
    answered : int
        Number of requests that are answered, or whose client left.
    count_in_flight : function
        Returns the number of requests that have begun and are not answered; set by
        `tagloom.web.run`.
    turn : int
        Number of requests that were answered at once since the loop last looked for data. They had
        all arrived by then, so that it is a number of requests at the same time.
    stopping : asyncio.Event
        Set when answers must come to an end; for streams that would go on for ever.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        *,
        loopback_only: bool = True,
        access: Access | None = None,
        checks: Iterable[Check] = (),
        origins: Collection[str] = (),
        max_body: int = DEFAULT_LIMIT,
        observer: Observer | None = None,
        compress: bool = False,
    ) -> None:
        self._compress = compress
        self._exact: dict[str, dict[str, Handler]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Handler]]] = []
        self._at_once: dict[tuple[bytes, bytes], AtOnce] = {}
        for route in routes:
            self._add(route)
        self._loopback_only = loopback_only
        self._access = access
        self._checks = tuple(checks)
        self._origins = {origin.encode() for origin in origins}
        self.max_body = max_body
        self.observer = observer
        self.is_draining = False
        self.on_start: list[Callable[[], Awaitable[None]]] = []
        self.on_stop: list[Callable[[], Awaitable[None]]] = []
        self.answered = 0
        self.count_in_flight: Callable[[], int] = lambda: 0
        self.turn = 0
        self.stopping = asyncio.Event()

    def _add(self, route: Route) -> None:
        methods = [route.method, "HEAD"] if route.method == "GET" else [route.method]
        if "{" not in route.path:
            handlers = self._exact.setdefault(route.path, {})
        else:
            text = re.sub(r"\\{(\w+)\\\*\\}$", r"(?P<\1>.+)", re.escape(route.path))
            pattern = re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", text))
            handlers = next((h for p, h in self._patterns if p == pattern), {})
            if not handlers:
                self._patterns.append((pattern, handlers))
        handlers.update(dict.fromkeys(methods, route.handler))
        if route.at_once is not None:
            self._at_once[route.method.encode(), route.path.encode()] = route.at_once

    def begin_turn(self) -> None:
        """Note that the loop is about to look for data."""
        self.turn = 0

    def may_answer_at_once(self, method: bytes, url: bytes) -> bool:
        """Whether a request may have an answer from `answer_at_once`."""
        return (method, url) in self._at_once and not self.is_draining and not self._origins

    def answer_at_once(self, scope: Scope, body: bytes) -> Response | None:
        """Answer a request whose whole body has arrived, without a task and without ASGI messages.

        Small requests cost less than the way to a handler and back. The handler answers those that
        take longer, and meets errors that nobody foresaw once more.

        Parameters
        ----------
        scope : mapping
            As in ASGI; the method and the path were accepted by `may_answer_at_once`.
        body : bytes

        Returns
        -------
        Response or None
            It is not compressed.
        """
        began = time.perf_counter()
        request = Request(scope, _receive_nothing, self.max_body)
        try:
            if self._loopback_only:
                check_host(request)
            if self._access is not None and self._access.check(request) is not None:
                return None
            for check in self._checks:
                check(request)
            route = (request.method.encode(), request.path.encode())
            response = self._at_once[route](request, body)
        except TagloomError as error:
            response = problem(error)
        except Exception:  # the handler meets the same error, and logs it
            return None
        if response is None:
            return None
        self.answered += 1
        self.turn += 1
        if self.observer is not None:
            self.observer(request, response.status, time.perf_counter() - began)
        return response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; the interface of ASGI."""
        if scope["type"] != "http":
            raise RuntimeError(f"tagloom.web answers http, not {scope['type']}")
        began = time.perf_counter()
        request = Request(scope, receive, self.max_body)
        try:
            status = await self._respond(request, send)
        finally:
            self.answered += 1
        if self.observer is not None:
            self.observer(request, status, time.perf_counter() - began)

    async def _respond(self, request: Request, send: Send) -> int:
        """Answer a request, whatever happens; return the status."""
        response: Response | None = None
        try:
            response = await self._answer(request)
            if self._compress:
                await _compress(request, response)
            await response.send(send, self._headers(request, response))
        except ClientLeft:
            return CLIENT_LEFT
        except Exception as error:
            if response is not None and response.has_begun:
                # The connection is closed without the last chunk, which every client notices.
                logger.error("%s %s: cut off: %s", request.method, request.path, _trace(error))
                return 500
            response = self._refusal(request, error)
            await response.send(send, self._headers(request, response))
        return response.status

    def _refusal(self, request: Request, error: Exception) -> Response:
        """Return the answer to a request that failed."""
        if isinstance(error, TagloomError):
            return problem(error)
        # Never the message of the error: it may contain what the client sent.
        logger.error("%s %s: %s", request.method, request.path, _trace(error))
        return problem(RequestError("an error in the server.", status=500))

    async def _answer(self, request: Request) -> Response:
        if self._loopback_only:
            check_host(request)
        if self._origins and request.method == "OPTIONS":
            return self._preflight(request)
        if self._access is not None:
            redirect = self._access.check(request)
            if redirect is not None:
                return redirect
        for check in self._checks:
            check(request)
        handlers = self._handlers(request)
        handler = handlers.get(request.method)
        if handler is None:
            error = RequestError(
                status=405,
                where=request.path,
                expected=" or ".join(handlers),
                found=request.method,
            )
            return problem(error, [(b"allow", ", ".join(handlers).encode())])
        return await handler(request)

    def _handlers(self, request: Request) -> dict[str, Handler]:
        """Return the handlers of a path by method."""
        handlers = self._exact.get(request.path)
        if handlers is not None:
            return handlers
        for pattern, candidates in self._patterns:
            match = pattern.fullmatch(request.path)
            if match is not None:
                request.parameters = match.groupdict()
                return candidates
        raise RequestError(
            status=404, where=request.path, expected="a path of this server", found="none"
        )

    def _headers(self, request: Request, response: Response) -> Headers:
        own = response.headers
        headers = _DATA
        if own and any(name == b"cache-control" for name, _ in own):
            headers = _KEPT
        if self._origins:
            headers = [*headers, *self._cross_origin(request)]
        return [*headers, _CLOSE] if self.is_draining else headers

    def _cross_origin(self, request: Request) -> Headers:
        origin = request.headers.get(b"origin", b"")
        if origin not in self._origins:
            return [(b"vary", b"origin")]
        return [(b"vary", b"origin"), (b"access-control-allow-origin", origin)]

    def _preflight(self, request: Request) -> Response:
        allowed: Headers = [
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", b"authorization, content-type"),
            (b"access-control-max-age", b"600"),
        ]
        is_known = request.headers.get(b"origin") in self._origins
        return Response(b"", 204, b"text/plain", allowed if is_known else [])


async def _compress(request: Request, response: Response) -> None:
    """Compress an answer in place, if that helps and the client accepts it."""
    own, body = response.headers or [], response.body
    if len(body) < LEAST_COMPRESSED or not accepts_gzip(
        request.headers.get(b"accept-encoding", b"")
    ):
        return
    if len(body) < _IN_THREAD:
        response.body = gzip.compress(body, 1, mtime=0)
    else:
        response.body = await in_thread(functools.partial(gzip.compress, body, 1, mtime=0))
    response.headers = [*own, (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]


def accepts_gzip(header: bytes) -> bool:
    """Whether an Accept-Encoding header allows gzip.

    Examples
    --------
    >>> [accepts_gzip(h) for h in (b"gzip, br", b"br;q=1.0, GZIP;q=0.5", b"gzip;q=0", b"*", b"")]
    [True, True, False, True, False]
    """
    for part in header.lower().split(b","):
        name, _, quality = part.partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return quality.replace(b" ", b"").strip(b"0.") != b"q="
    return False


async def _receive_nothing() -> Scope:
    raise RuntimeError("the body has been read")


def _trace(error: BaseException) -> str:
    """Return the kind of an error and the lines that it passed, without any values."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} at {' < '.join(reversed(frames))}"
