"""What an operator can set, with the defaults of the command line."""

from __future__ import annotations

from dataclasses import dataclass

from tagloom.web import Access

#: Paths that need no token: health checks, and the page that describes the requests, whose form
#: asks for the token.
OPEN_PATHS = ("/healthz", "/readyz", "/docs", "/docs/docs.css", "/docs/docs.js")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Limits and access of a server.

    Attributes
    ----------
    max_body : int
        Bytes of a request, inflated; of one line of a stream.
    max_tokens : int
        Tokens of a request; streams have no limit.
    max_in_flight : int
        Requests that are being answered by one worker, or wait; more are answered with 429.
    timeout : float
        Seconds for a request to arrive, and for its answer.
    drain_delay : float
        Seconds between SIGTERM and the end of new connections.
    loopback_only : bool
        Whether only loopback names are accepted as Host.
    access : Access, optional
        Checks tokens.
    origins : tuple of str
        Sites whose pages may call the server.
    """

    max_body: int = 8 << 20
    max_tokens: int = 100_000
    max_in_flight: int = 256
    timeout: float = 30.0
    drain_delay: float = 5.0
    loopback_only: bool = True
    access: Access | None = None
    origins: tuple[str, ...] = ()
