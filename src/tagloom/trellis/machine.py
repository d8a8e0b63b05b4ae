"""What the native core uses of the machine: all cores and the widest vectors, by default."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tagloom import _native
from tagloom.errors import ParameterError

#: The cores that this process may use.
ALL_THREADS = (
    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
)


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
        raise ParameterError(f"This machine cannot run {name!r}; it has {instruction_sets()}.")
    try:
        yield
    finally:
        _native.use_instruction_set(before)
