"""Registries of classes by kind, the name under which files store an object.

A kind is looked up among the classes defined in this process, then among those of tagloom, whose
modules are imported on demand, then among the entry points of other packages. A file chooses among
installed classes; it cannot name code to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """The classes of one base, by kind.

    Parameters
    ----------
    group : str
        The group of entry points in which other packages announce their kinds.
    modules : mapping of str to str
        For each kind of tagloom, the module that defines its class.

    Examples
    --------
    >>> from tagloom.registries import Registry
    >>> registry = Registry("tagloom.examples", {"Counter": "collections"})
    >>> registry.add("int", int)
    >>> registry.find("int"), registry.find("float"), registry.names()
    (<class 'int'>, None, ['Counter', 'int'])
    """

    def __init__(self, group: str, modules: Mapping[str, str]) -> None:
        self._group, self.modules = group, modules
        self.classes: dict[str, type[T]] = {}

    def add(self, kind: str, cls: type[T]) -> None:
        """Add a class; a later class replaces an earlier one of the same kind."""
        self.classes[kind] = cls

    def find(self, kind: str) -> type[T] | None:
        """Return the class of a kind, or None if no installed package has it."""
        if kind not in self.classes and kind in self.modules:
            import_module(self.modules[kind])  # defining the class adds it
        if kind not in self.classes:
            for entry in self._entry_points():
                if entry.name == kind:
                    self.classes[kind] = entry.load()
        return self.classes.get(kind)

    def names(self) -> list[str]:
        """Return all kinds: of tagloom, of this process, of other packages."""
        entries = (entry.name for entry in self._entry_points())
        return sorted({*self.modules, *self.classes, *entries})

    def _entry_points(self) -> Any:
        from importlib.metadata import entry_points  # here, for a quick start

        return entry_points(group=self._group)


def is_abstract(cls: type) -> bool:
    """Check whether a class lacks methods of its bases; also while it is being made.

    That is `inspect.isabstract`, without the import of a large module.

    Examples
    --------
    >>> from abc import ABC, abstractmethod
    >>> class Shape(ABC):
    ...     @abstractmethod
    ...     def area(self): ...
    >>> is_abstract(Shape), is_abstract(type("Square", (Shape,), {"area": lambda self: 1}))
    (True, False)
    """
    inherited = {
        name for base in cls.__bases__ for name in getattr(base, "__abstractmethods__", ())
    }
    values = [*vars(cls).values(), *(getattr(cls, name, None) for name in inherited)]
    return any(getattr(value, "__isabstractmethod__", False) for value in values)
