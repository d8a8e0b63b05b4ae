"""Lazy exports: each public name of a package is imported when it is first used.

A program that only tags should not wait for the code that trains, evaluates, draws or reads files.
So a package imports its names for type checkers only, and passes `lazily` the module of each name.
Code that rarely needs another package imports that package and writes ``training.run``: the module
behind the dot is imported when the line is reached.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        ``__name__`` of the package.
    modules : mapping of str to list of str
        The exported names of each module. The modules themselves are exported too.

    Returns
    -------
    tuple of function

    Examples
    --------
    >>> from tagloom.exports import lazily
    >>> get, list_names = lazily("tagloom", {"labels": ["to_spans"]})
    >>> get("to_spans")(["B-PER", "O"])
    [Span(type='PER', start=0, end=1)]
    >>> "to_spans" in list_names()
    True
    """
    home = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in home and name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = import_module(f"{package}.{home.get(name, name)}")
        if name in home:
            value = getattr(value, name)
        setattr(sys.modules[package], name, value)  # the next access does not call this function
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home, *modules})

    return get, list_names
