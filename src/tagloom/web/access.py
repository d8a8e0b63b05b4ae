"""Who may ask: the names of the host, tokens, and where a page may come from.

- *Host*. A page of another site can make its own name resolve to 127.0.0.1 and then read what a
  local server answers (DNS rebinding). A server on loopback therefore accepts loopback names only.
  The port is not compared: it differs behind ``ssh -L``.
- *Token*. A secret of 256 bits, sent as ``Authorization: Bearer``. A page cannot send that header
  on its first request, so `Access` with ``cookie=`` takes the token once from the URL, sets a
  cookie in exchange and redirects to the URL without it.
- *Origin*. `check_same_origin` refuses requests that change something and come from another site.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import ipaddress
import os
import secrets
import stat
from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode, urlsplit

from tagloom.checks import show
from tagloom.errors import ParameterError, RequestError
from tagloom.web.messages import Request, Response

SHORTEST_TOKEN = 16  # characters; a shorter one can be guessed


@functools.lru_cache(64)
def is_loopback(host: str) -> bool:
    """Whether a host name or address is of this machine only.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_host(request: Request) -> None:
    """Refuse a request whose Host is not a loopback name.

    Raises
    ------
    RequestError
        421, also if there is no Host or more than one.
    """
    value = request.headers.get(b"host", b"").decode("latin-1")
    hosts = [name for name, _ in request.scope["headers"] if name == b"host"]
    name = value.rpartition(":")[0] if ":" in value and not value.endswith("]") else value
    if len(hosts) != 1 or not is_loopback(name):
        raise RequestError(
            status=421,
            where="Host",
            expected="a name of this machine, such as localhost",
            found=show(value),
            hint="Servers on other addresses do not have this limit: see --host.",
        )


def check_same_origin(request: Request, marker: str) -> None:
    """Refuse a request that may change something and does not come from our own page.

    Parameters
    ----------
    request : Request
        GET, HEAD and OPTIONS always pass.
    marker : str
        A header, such as ``X-Tagloom-Studio``, that the page sends with the value 1. Other sites
        cannot send it without asking first, which is refused.

    Raises
    ------
    RequestError
        403 for another origin or a missing marker, 415 for a body that is not JSON.
    """
    if request.method in ("GET", "HEAD", "OPTIONS"):
        return
    site = request.headers.get(b"sec-fetch-site")
    origin = request.header("origin")
    host = request.header("host")
    if (site is not None and site != b"same-origin") or (
        origin is not None and urlsplit(origin).netloc != host
    ):
        raise RequestError(
            status=403, where="Origin", expected="a page of this server", found=show(origin)
        )
    if request.header(marker) != "1":
        raise RequestError(status=403, where=marker, expected="the header with the value 1")
    if request.content_type() != "application/json":
        raise RequestError(
            status=415, where="Content-Type", expected="application/json",
            found=show(request.content_type()),
        )  # fmt: skip


class Access:
    """Checks tokens.

    Parameters
    ----------
    token : str, optional
        The secret; a random one by default.
    cookie : str, optional
        Begin of the name of a cookie, for pages; the port is added, since browsers share cookies
        between ports. ``GET …?token=SECRET`` then sets it and redirects.
    open_paths : collection of str
        Paths that need no token, such as those of health checks.

    Attributes
    ----------
    token : str
    """

    def __init__(
        self,
        token: str | None = None,
        *,
        cookie: str | None = None,
        open_paths: Collection[str] = (),
    ) -> None:
        self.token = secrets.token_urlsafe(32) if token is None else token
        self._cookie = cookie
        self._open = frozenset(open_paths)
        # Digests have one length, so that a comparison takes the same time for every guess.
        self._digest = hashlib.sha256(self.token.encode()).digest()
        # The cookie is derived from the token: whoever sees it does not learn the token.
        self._session = hmac.new(self.token.encode(), b"cookie", hashlib.sha256).hexdigest()

    @classmethod
    def from_file(cls, path: str, *, open_paths: Collection[str] = ()) -> Access:
        """Read the token from the first line of a file.

        Raises
        ------
        ParameterError
            If it is shorter than 16 characters, not ASCII, or the file can be read by everybody.
        OSError
            If the file cannot be read.
        """
        with open(path, encoding="utf-8", errors="replace") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & stat.S_IROTH:
                raise ParameterError(
                    where=path,
                    parameter="token_file",
                    expected="readable only by its owner or group",
                    found="a file that everybody can read",
                    hint=f"Run: chmod o-r {path}",
                )
            token = file.readline(1 << 12).strip()
        if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
            raise ParameterError(
                where=path,
                parameter="token_file",
                expected=f"a file whose first line has at least {SHORTEST_TOKEN} characters",
                found=f"{len(token)} characters",
                hint="Make one: openssl rand -hex 32 > FILE && chmod 600 FILE",
            )
        return cls(token, open_paths=open_paths)

    def check(self, request: Request) -> Response | None:
        """Return None if the request may pass, or the redirect that sets the cookie.

        Raises
        ------
        RequestError
            401 otherwise.
        """
        if request.path in self._open:
            return None
        sent = request.headers.get(b"authorization", b"")
        if sent[:7].lower() == b"bearer ":
            if self._matches(sent[7:].strip()):
                return None
        elif self._cookie is not None:
            redirect = self._exchange(request)
            if redirect is not None or self._has_cookie(request):
                return redirect
        raise RequestError(
            status=401,
            where="Authorization",
            expected="Bearer and the token of this server"
            + (", or the URL that it printed" if self._cookie else ""),
            found="none" if not sent else "another one",
        )

    def _matches(self, token: bytes) -> bool:
        return hmac.compare_digest(hashlib.sha256(token).digest(), self._digest)

    def _cookie_name(self, request: Request) -> str:
        server = request.scope.get("server")
        return f"{self._cookie}-{server[1] if server else 0}"

    def _has_cookie(self, request: Request) -> bool:
        name = self._cookie_name(request)
        for part in (request.header("cookie") or "").split(";"):
            key, _, value = part.strip().partition("=")
            if key == name and hmac.compare_digest(value.encode(), self._session.encode()):
                return True
        return False

    def _exchange(self, request: Request) -> Response | None:
        if request.method != "GET":
            return None
        pairs = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in pairs if name == "token"]
        if len(given) != 1 or not self._matches(given[0].encode()):
            return None
        rest = urlencode([pair for pair in pairs if pair[0] != "token"])
        # A path of two slashes would lead to another host.
        target = "/" + request.path.lstrip("/") + (f"?{rest}" if rest else "")
        cookie = f"{self._cookie_name(request)}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        return Response(
            status=303,
            content_type=b"text/plain",
            headers=[
                (b"location", target.encode("ascii", "backslashreplace")),
                (b"set-cookie", cookie.encode("latin-1")),
                (b"cache-control", b"no-store"),
            ],
        )
