"""Old public names. Each keeps working for one release, with a `DeprecationWarning`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def warn_renamed(old: str, new: str, *, level: int = 2) -> None:
    """Warn that ``old`` is now called ``new``.

    ``level`` is the number of frames from this function's caller to the user's line.
    """
    warnings.warn(
        f"{old} is now called {new}; the old name will be removed.",
        DeprecationWarning,
        stacklevel=level + 1,
    )


def renamed_property(owner: str, old: str, new: str) -> Any:
    """Return a property ``old`` of class ``owner`` that reads the attribute ``new``."""

    def read(self: Any) -> Any:
        warn_renamed(f"{owner}.{old}", new)
        return getattr(self, new)

    return property(read, doc=f"Old name of `{new}`.")


def renamed_function(old: str, new: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function called ``old`` that calls ``new``."""

    def call(*args: Any, **options: Any) -> Any:
        warn_renamed(old, new.__name__)
        return new(*args, **options)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"Old name of `{new.__name__}`."
    return call


def renamed_parameter(owner: str, old: str, new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function of ``owner`` that still accepts ``new`` as ``old=``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            if old in options:
                warn_renamed(f"{owner}({old}=)", f"{new}=")
                options[new] = options.pop(old)
            return function(*args, **options)

        return call

    return decorate
