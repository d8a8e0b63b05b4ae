"""The instruction set of the native core: by default the widest that the machine has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tagloom import _native
from tagloom.checks import ALL_THREADS, show
from tagloom.errors import ParameterError

__all__ = ["ALL_THREADS", "instruction_set", "instruction_sets", "use_instruction_set"]


def instruction_sets() -> list[str]:
    """Return the instruction sets that this machine can run, narrowest first.

    Examples
    --------
    >>> instruction_sets()[0]
    'baseline'
    """
    return _native.instruction_sets()


def instruction_set() -> str:
    """Return the instruction set in use.

    Examples
    --------
    >>> instruction_set() in instruction_sets()
    True
    """
    return _native.instruction_set()


@contextmanager
def use_instruction_set(name: str) -> Iterator[None]:
    """Force an instruction set, for the whole process, while the context is open.

    Examples
    --------
    >>> with use_instruction_set("baseline"):
    ...     instruction_set()
    'baseline'
    """
    before = instruction_set()
    if not _native.use_instruction_set(name):
        expected = f"one that this machine has: {', '.join(instruction_sets())}"
        raise ParameterError(parameter="name", expected=expected, found=show(name))
    try:
        yield
    finally:
        _native.use_instruction_set(before)
