"""An HTTP server for taggers: ``tagloom serve``.

Needs the extra ``tagloom[serve]``.
"""

from typing import TYPE_CHECKING

from tagloom.exports import lazily

if TYPE_CHECKING:
    from tagloom.serve.app import make_app
    from tagloom.serve.metrics import Metrics
    from tagloom.serve.registry import Registry, Served, Source, parse_sources
    from tagloom.serve.running import serve
    from tagloom.serve.settings import OPEN_PATHS, Settings
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "app": ["make_app"],
            "metrics": ["Metrics"],
            "registry": ["Registry", "Served", "Source", "parse_sources"],
            "running": ["serve"],
            "settings": ["OPEN_PATHS", "Settings"],
        },
    )

__all__ = [
    "OPEN_PATHS",
    "Metrics",
    "Registry",
    "Served",
    "Settings",
    "Source",
    "make_app",
    "parse_sources",
    "serve",
]
