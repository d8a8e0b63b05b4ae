"""Requests and responses: a thin layer over ASGI, for handlers of the form request → response.

A handler is ``async def handler(request: Request) -> Response``. It raises a
`tagloom.errors.TagloomError` to refuse a request; `tagloom.web.problems` renders it. Bodies are
read with a limit, also after inflation, and decoded by msgspec into typed structs.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import msgspec

from tagloom.checks import show
from tagloom.errors import ParameterError, RequestError

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]
T = TypeVar("T")

JSON = b"application/json"
PROBLEM = b"application/problem+json"
HTML = b"text/html; charset=utf-8"
TEXT = b"text/plain; charset=utf-8"

DEFAULT_LIMIT = 8 << 20  # bytes of a body
_INFLATED_AT_ONCE = 1 << 16  # bytes that a compressed body may grow by before the next check


class ClientLeft(Exception):
    """The client closed the connection before it sent the whole request."""


class Request:
    """One HTTP request.

    Attributes
    ----------
    method, path : str
    headers : dict of bytes to bytes
        Names in lower case. Of headers that occur twice, the last; `App` refuses a second Host.
    parameters : dict of str to str
        The parts of the path that a route names in braces.
    scope : mapping
        The scope of ASGI.
    max_body : int
        Bytes that `body` accepts.
    about : str or None
        What a handler notes for the observer of the app, such as the name of a model.
    """

    __slots__ = (
        *("_receive", "about", "headers", "max_body", "method", "parameters", "path", "scope"),
    )

    def __init__(self, scope: Scope, receive: Receive, max_body: int = DEFAULT_LIMIT) -> None:
        self.scope = scope
        self._receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.parameters: dict[str, str] = {}
        self.max_body = max_body
        self.about: str | None = None

    def header(self, name: str) -> str | None:
        """Return a header as a str, or None."""
        value = self.headers.get(name.lower().encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    def query(self, known: Iterable[str]) -> dict[str, str]:
        """Return the parameters of the query.

        Parameters
        ----------
        known : iterable of str
            The names that the route takes.

        Raises
        ------
        ParameterError
            If a name is unknown or occurs twice.
        """
        names = tuple(known)
        values: dict[str, str] = {}
        text = self.scope["query_string"].decode("latin-1")
        for name, value in parse_qsl(text, keep_blank_values=True):
            if name not in names or name in values:
                raise ParameterError(
                    where="query",
                    expected=f"each of {', '.join(names)} at most once" if names else "none",
                    found=show(name),
                )
            values[name] = value
        return values

    def content_type(self) -> str:
        """Return the media type of the body, in lower case, without its parameters."""
        value = self.headers.get(b"content-type", b"")
        return value.partition(b";")[0].strip().lower().decode("latin-1")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body piece by piece, inflated if it is compressed.

        Raises
        ------
        ClientLeft
            If the connection was closed.
        RequestError
            If the body has an encoding other than gzip or deflate, or is not what that promises.
        """
        inflate = self._inflater()
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            more = message.get("more_body", False)
            data: bytes = message.get("body", b"")
            if inflate is None:
                if data:
                    yield data
                continue
            try:
                while data:
                    piece = inflate.decompress(data, _INFLATED_AT_ONCE)
                    if inflate.unused_data:
                        raise zlib.error("bytes after its end")
                    data = inflate.unconsumed_tail
                    if piece:
                        yield piece
                if not more and not inflate.eof:
                    raise zlib.error("it is cut short")
            except zlib.error as error:
                raise RequestError(
                    f"the compressed body is damaged: {error}.", status=400, where="body"
                ) from None

    def _inflater(self) -> Any:
        encoding = self.headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding in (b"identity", b""):
            return None
        if encoding in (b"gzip", b"deflate"):
            return zlib.decompressobj(zlib.MAX_WBITS | 32)  # recognises both by their first bytes
        raise RequestError(
            status=415,
            where="Content-Encoding",
            expected="gzip, deflate or identity",
            found=show(encoding.decode("latin-1")),
        )

    async def body(self) -> bytes:
        """Read the whole body, which may have ``max_body`` bytes, inflated.

        Raises
        ------
        RequestError
            413 if it is larger. The answer is sent at once; nothing more is kept of the body.
        """
        length = self.headers.get(b"content-length")
        if length is not None and len(length) < 20 and int(length) > self.max_body:
            raise self.too_large(f"{int(length):,} bytes")
        if b"content-encoding" not in self.headers:  # the common case, without an iterator
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            if not message.get("more_body", False):
                data: bytes = message.get("body", b"")
                if len(data) > self.max_body:
                    raise self.too_large(f"{len(data):,} bytes")
                return data
            parts, size = [message.get("body", b"")], len(message.get("body", b""))
        else:
            parts, size = [], 0
        async for part in self.chunks():
            parts.append(part)
            size += len(part)
            if size > self.max_body:
                raise self.too_large("more")
        return b"".join(parts)

    def too_large(self, found: str) -> RequestError:
        """Return the error of a body that is too large."""
        return RequestError(
            status=413,
            where="body",
            expected=f"at most {self.max_body:,} bytes",
            found=found,
            hint="Send it in several requests.",
        )

    async def json(self, decoder: msgspec.json.Decoder[T]) -> T:
        """Read a JSON body into the type of a decoder.

        Raises
        ------
        RequestError
            415 if the body is not declared as JSON, 400 if it is not JSON, 422 if it does not have
            the type; the field ``where`` is the path in the body, such as ``sentences[3][7]``.
        """
        check_type(self, "application/json")
        return decode(await self.body(), decoder)

    async def left(self) -> None:
        """Return when the client has closed the connection; call it after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def check_type(request: Request, *expected: str) -> str:
    """Return the media type of a request if it is one of those expected.

    Raises
    ------
    RequestError
        415 otherwise.
    """
    found = request.content_type()
    if found not in expected:
        raise RequestError(
            status=415,
            where="Content-Type",
            expected=" or ".join(expected),
            found=show(found) if found else "none",
            hint=f"Send the header Content-Type: {expected[0]}.",
        )
    return found


def decode(data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode JSON, with errors that name the place.

    Examples
    --------
    >>> import msgspec
    >>> decode(b'[["They", 1]]', msgspec.json.Decoder(list[list[str]]))
    Traceback (most recent call last):
    ...
    tagloom.errors.RequestError: [0][1]: expected a str, found an int.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(
            f"the body is not JSON: {error}.", status=400, where="body", expected="JSON in UTF-8"
        ) from None
    except RecursionError:
        raise RequestError(
            status=400, where="body", expected="JSON", found="lists or objects nested too deep"
        ) from None


_ARTICLES = {"a": "an", "i": "an", "o": "an", "e": "an"}


def _invalid(text: str) -> RequestError:
    """Turn the message of msgspec, ``Expected `str`, got `int` - at `$.x[3]```, into fields."""
    reason, _, path = text.partition(" - at `$")
    where = path.rstrip("`").lstrip(".") or "body"
    expected, comma, found = reason.removeprefix("Expected ").partition(", got ")
    if reason.startswith("Expected ") and comma:
        return RequestError(
            status=422, where=where, expected=_worded(expected), found=_worded(found)
        )
    return RequestError(f"{reason}.", status=422, where=where)


def _worded(kinds: str) -> str:
    """Return ``a str`` for "`str`"; ``a str or null`` for "`str | null`"."""
    if not (kinds.startswith("`") and kinds.endswith("`")):
        return kinds
    words = kinds.strip("`").split(" | ")
    return " or ".join(w if w == "null" else f"{_ARTICLES.get(w[:1], 'a')} {w}" for w in words)


class Response:
    """An answer with a body of known length.

    Parameters
    ----------
    body : bytes
    status : int
    content_type : bytes
    headers : list of pairs of bytes, optional

    Attributes
    ----------
    has_begun : bool
        Whether the first byte was sent.
    """

    __slots__ = ("body", "content_type", "has_begun", "headers", "status")

    def __init__(
        self,
        body: bytes = b"",
        status: int = 200,
        content_type: bytes = JSON,
        headers: Headers | None = None,
    ) -> None:
        self.body = body
        self.status = status
        self.content_type = content_type
        self.headers = headers
        self.has_begun = False

    async def send(self, send: Send, more: Headers) -> None:
        """Send the answer, with the headers that the app adds to all answers."""
        headers = [
            (b"content-type", self.content_type),
            (b"content-length", b"%d" % len(self.body)),
            *more,
        ]
        if self.headers:
            headers += self.headers
        self.has_begun = True
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class Stream(Response):
    """An answer whose body is sent piece by piece, as the client reads it.

    Parameters
    ----------
    pieces : async iterator of bytes
        It is closed when the client leaves. The status and headers are sent with its first piece:
        an error before that is an ordinary problem.
    status, content_type, headers
        As for `Response`.
    """

    __slots__ = ("pieces",)

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        status: int = 200,
        content_type: bytes = JSON,
        headers: Headers | None = None,
    ) -> None:
        super().__init__(b"", status, content_type, headers)
        self.pieces = pieces

    async def send(self, send: Send, more: Headers) -> None:
        """Send piece by piece."""
        headers = [(b"content-type", self.content_type), *more, *(self.headers or ())]
        start = {"type": "http.response.start", "status": self.status, "headers": headers}
        try:
            first = await anext(self.pieces, b"")
            self.has_begun = True
            await send(start)
            await send({"type": "http.response.body", "body": first, "more_body": True})
            async for piece in self.pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            close = getattr(self.pieces, "aclose", None)
            if close is not None:
                await close()


_ENCODER = msgspec.json.Encoder()


def reply(data: Any, status: int = 200, headers: Headers | None = None) -> Response:
    """Return plain data, or a msgspec struct, as a JSON response.

    Examples
    --------
    >>> reply({"labels": ["N"]}).body
    b'{"labels":["N"]}'
    """
    return Response(_ENCODER.encode(data), status, JSON, headers)


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Run a function in a thread, so that other requests are answered meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)
