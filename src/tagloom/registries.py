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
