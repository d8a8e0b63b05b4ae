"""The helper of sklearn-crfsuite that programs import."""

from collections.abc import Iterable
from itertools import chain
from typing import TypeVar

__all__ = ["flatten"]

T = TypeVar("T")


def flatten(y: Iterable[Iterable[T]]) -> list[T]:
    """Return the elements of all lists, one after another.

    Examples
    --------
    >>> flatten([[1, 2], [3, 4]])
    [1, 2, 3, 4]
    """
    return list(chain.from_iterable(y))
