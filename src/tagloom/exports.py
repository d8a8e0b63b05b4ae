"""Names that a package offers, each imported when it is first used.

A program that tags should not wait for what trains, evaluates, draws or reads files. So a package
imports its names for type checkers only, and tells `lazily` which of its modules has them. Code
that uses another package only now and then imports that package, and writes ``training.run``:
what is behind the dot is imported when the line is reached.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    modules : mapping of str to list of str
        Its modules, each with the names that it has; the modules can be had by name too.

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
        setattr(sys.modules[package], name, value)  # found without this function next time
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home, *modules})

    return get, list_names
