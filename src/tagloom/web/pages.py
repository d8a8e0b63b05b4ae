"""Files of the package as pages: HTML, scripts, styles, with the headers that keep them apart.

Files are read once, from package data, and served under their names; nothing else of the file
system can be reached. The content security policy lets a page load only what its own server has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from tagloom.errors import RequestError
from tagloom.web.messages import HTML, Headers, Request, Response

#: Content types by suffix; files with another suffix are not served.
TYPES: Final = {
    ".css": b"text/css; charset=utf-8",
    ".html": HTML,
    ".js": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}

#: A page may load scripts, styles and data of its own server, and nothing else.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

#: Headers of every page and of its parts.
PAGE_HEADERS: Final[Headers] = [
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Pages:
    """The files of a folder of a package.

    Parameters
    ----------
    package : str
        Such as ``tagloom.studio``.
    folder : str
        A folder in it, with any depth of folders.

    Examples
    --------
    >>> from tagloom.web.pages import Pages
    >>> sorted(Pages("tagloom.web", "no-such-folder").names)
    []
    """

    def __init__(self, package: str, folder: str) -> None:
        self._files = {
            name: (TYPES[suffix], data, f'"{hashlib.sha256(data).hexdigest()[:16]}"'.encode())
            for name, suffix, data in _walk(files(package) / folder, "")
        }

    @property
    def names(self) -> list[str]:
        """Names of the files, with their folders."""
        return list(self._files)

    def get(self, request: Request, name: str) -> Response:
        """Return a file; 304 without a body if the client has it already.

        Raises
        ------
        RequestError
            404 if there is no such file.
        """
        if name not in self._files:
            raise RequestError(status=404, where=request.path, expected="a page of this server")
        content_type, data, tag = self._files[name]
        headers = [*PAGE_HEADERS, (b"etag", tag), (b"cache-control", b"no-cache")]
        if request.headers.get(b"if-none-match") == tag:
            return Response(b"", 304, content_type, headers)
        return Response(data, 200, content_type, headers)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, str, bytes]]:
    if not folder.is_dir():
        return
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        suffix = entry.name[entry.name.rfind(".") :]
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif suffix in TYPES:
            yield f"{prefix}{entry.name}", suffix, entry.read_bytes()
