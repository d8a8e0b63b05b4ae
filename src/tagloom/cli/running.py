"""The command that runs: its name, and what to close at its end; without click."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

_stacks: list[ExitStack] = []


@contextmanager
def closing() -> Iterator[None]:
    """Call the functions of `on_close` at the end of the block, also after an error."""
    with ExitStack() as stack:
        _stacks.append(stack)
        try:
            yield
        finally:
            _stacks.remove(stack)


def on_close(function: Callable[[], Any]) -> None:
    """Call a function at the end of the command, or of the innermost block of `closing`."""
    if _stacks:
        _stacks[-1].callback(function)
