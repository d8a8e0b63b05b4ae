"""What the server and the page share: requests, access, errors as answers, running.

Needs the extra ``tagloom[serve]``.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.web.access import Access, check_same_origin, is_loopback
    from tagloom.web.apps import App, Route
    from tagloom.web.client import Client
    from tagloom.web.messages import ClientLeft, Request, Response, Stream, in_thread, reply
    from tagloom.web.pages import PAGE_HEADERS, Pages
    from tagloom.web.problems import problem
    from tagloom.web.running import Server, background, bind, run, url_of
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "access": ["Access", "check_same_origin", "is_loopback"],
            "apps": ["App", "Route"],
            "client": ["Client"],
            "messages": ["ClientLeft", "Request", "Response", "Stream", "in_thread", "reply"],
            "pages": ["PAGE_HEADERS", "Pages"],
            "problems": ["problem"],
            "running": ["Server", "background", "bind", "run", "url_of"],
        },
    )

__all__ = [
    "PAGE_HEADERS",
    "Access",
    "App",
    "Client",
    "ClientLeft",
    "Pages",
    "Request",
    "Response",
    "Route",
    "Server",
    "Stream",
    "background",
    "bind",
    "check_same_origin",
    "in_thread",
    "is_loopback",
    "problem",
    "reply",
    "run",
    "url_of",
]
