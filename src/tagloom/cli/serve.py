"""``tagloom serve``: an HTTP server for models."""

from __future__ import annotations

import logging
import re
from typing import Any

import click

from tagloom.errors import MissingExtraError, ParameterError


class Size(click.ParamType[int]):
    """A number of bytes, such as 8M."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Read a number with an optional K, M or G."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d{1,12})([KMG]?)", str(value).upper())
        if match is None or not int(match[1]):
            self.fail(f"{value!r} is not a size such as 500K or 8M.", param, ctx)
        return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


@click.command(
    epilog="""\b
Examples:
  tagloom serve pos.tagloom
  tagloom serve pos.tagloom names=ner.tagloom --workers 4
  tagloom serve pos.tagloom --host 0.0.0.0 --token-file token
  curl -s localhost:8080/v1/tag -H 'Content-Type: application/json' \\
    -d '{"texts": ["They can fish."]}'
"""
)
@click.argument("models", nargs=-1, metavar="[[NAME=]MODEL]...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8080,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 for any free one.",
)
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1, 512),
    help="Processes that answer; they share the models.",
)
@click.option(
    "--token-file", metavar="FILE", help="Accept only requests with the token in this file."
)
@click.option(
    "--insecure", is_flag=True, help="Allow an address of other machines without a token."
)
@click.option(
    "--cors", "origins", multiple=True, metavar="ORIGIN", help="Site whose pages may call."
)
@click.option(
    "--max-body", default="8M", show_default=True, type=Size(), help="Bytes of a request."
)
@click.option(
    "--max-tokens",
    default=100_000,
    show_default=True,
    type=click.IntRange(1),
    help="Tokens of a request; streams have no limit.",
)
@click.option(
    "--max-in-flight",
    default=256,
    show_default=True,
    type=click.IntRange(1),
    help="Requests per worker that are answered or wait; more get 429.",
)
@click.option(
    "--timeout",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0.1, 86400),
    help="Seconds for a request to arrive, and for its answer.",
)
@click.option(
    "--drain-delay",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0, 3600),
    help="Seconds after SIGTERM in which connections are still accepted.",
)
def command(
    models: tuple[str, ...],
    host: str,
    port: int,
    workers: int,
    token_file: str | None,
    insecure: bool,
    origins: tuple[str, ...],
    max_body: int,
    max_tokens: int,
    max_in_flight: int,
    timeout: float,
    drain_delay: float,
) -> None:
    """Serve MODELs over HTTP; without one, English taggers trained at the start.

    Each MODEL is a file, named after it or by NAME. Files are watched: a changed one is loaded, a
    damaged one is refused and the model in use stays; SIGHUP loads all of them again. SIGTERM
    completes all requests and exits with code 0. The page /docs describes the requests.
    """
    try:
        from tagloom import serve, web
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    try:
        is_local = web.is_loopback(host)
        access = None
        if token_file is not None:
            access = web.Access.from_file(token_file, open_paths=serve.OPEN_PATHS)
        elif not is_local and not insecure:
            raise ParameterError(
                parameter="host",
                expected="an address of this machine alone, without a token",
                found=host,
                hint="Other machines could use the server: pass {token_file}, or {insecure}.",
                options={"token_file": "FILE", "insecure": True},
            )
        settings = serve.Settings(
            max_body=max_body,
            max_tokens=max_tokens,
            max_in_flight=max_in_flight,
            timeout=timeout,
            drain_delay=drain_delay,
            loopback_only=is_local,
            access=access,
            origins=origins,
        )
        serve.serve(
            serve.parse_sources(models),
            settings,
            host=host,
            port=port,
            n_workers=workers,
            announce=lambda url: click.echo(f"{url}/docs"),
        )
    except ModuleNotFoundError as error:
        raise _missing(error) from error


def _missing(error: ModuleNotFoundError) -> MissingExtraError:
    return MissingExtraError(
        f"tagloom serve needs the package {error.name!r}.",
        found=error.name,
        hint="Install it: pip install 'tagloom[serve]'",
    )
