"""Records: frozen dataclasses whose methods are not generated, so that programs start sooner.

`dataclasses` costs 6 ms of imports, and 0.3 ms for each class, whose methods it compiles. A record
has the same declarations, and one constructor that all classes share. That takes some microseconds,
so records are for models and files, not for tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

if TYPE_CHECKING:
    from inspect import Signature
    from typing import dataclass_transform
else:

    def dataclass_transform(**options: Any) -> Any:  # noqa: D103
        return lambda cls: cls


R = TypeVar("R")


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"


MISSING: Any = _Missing()  # in the place of a value that was not given


class _Field:
    def __init__(self, default: Any, factory: Any, kw_only: bool) -> None:
        self.default, self.factory, self.kw_only = default, factory, kw_only
        self.annotation: Any = None


def field(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] = MISSING,
    kw_only: bool = False,
) -> Any:
    """Declare a field of a record, as `dataclasses.field` does.

    Parameters
    ----------
    default : object
    default_factory : callable
        Makes the default of each record.
    kw_only : bool
        Whether the constructor takes it by name only.
    """
    return _Field(default, default_factory, kw_only)


class _Signature:
    """The signature of the constructor of a record, made when it is read."""

    def __get__(self, record: Record | None, cls: type[Record]) -> Signature:
        from inspect import Parameter, Signature  # here, for a quick start

        kinds = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
        arguments = []
        for name, declared in cls._fields.items():
            has_default = declared.default is not MISSING or declared.factory is not MISSING
            default = declared.default if declared.factory is MISSING else ...
            arguments.append(
                Parameter(
                    name,
                    kinds[declared.kw_only],
                    default=default if has_default else Parameter.empty,
                    annotation=declared.annotation,
                )
            )
        return Signature(sorted(arguments, key=lambda argument: argument.kind))


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
class Record:
    """Base class of records.

    They cannot be changed, unless ``class Point(Record, frozen=False)``. They compare by identity,
    or by value with ``eq=True``.

    Examples
    --------
    >>> from tagloom.records import Record, field, replace
    >>> class Point(Record):
    ...     x: float
    ...     y: float = 0.0
    ...     names: list[str] = field(default_factory=list)
    >>> replace(Point(1.0), y=2.0)
    Point(x=1.0, y=2.0, names=[])
    >>> import inspect
    >>> inspect.signature(Point)
    <Signature (x: 'float', y: 'float' = 0.0, names: 'list[str]' = Ellipsis)>
    >>> Point()
    Traceback (most recent call last):
    ...
    TypeError: Point() misses x
    """

    _fields: ClassVar[Mapping[str, _Field]] = {}
    __signature__: ClassVar[Any] = _Signature()

    def __init_subclass__(cls, *, frozen: bool = True, eq: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        fields = dict(cls._fields)
        for name in cls.__annotations__:
            if not str(cls.__annotations__[name]).startswith("ClassVar"):
                fields[name] = _take_field(cls, name)
                fields[name].annotation = cls.__annotations__[name]
        cls._fields = fields
        if not frozen:
            cls.__setattr__ = object.__setattr__  # type: ignore[assignment]
        if eq:
            cls.__eq__, cls.__hash__ = _equals, None  # type: ignore[assignment, method-assign]

    def __init__(self, *args: Any, **values: Any) -> None:
        fields = self._fields
        if args:
            names = [name for name, declared in fields.items() if not declared.kw_only]
            if len(args) > len(names):
                raise TypeError(f"{_name(self)}() takes {len(names)} values, found {len(args)}")
            for name, value in zip(names, args, strict=False):
                if name in values:
                    raise TypeError(f"{_name(self)}() has two values for {name}")
                values[name] = value
        for name, declared in fields.items():
            if name in values:
                value = values.pop(name)
            elif declared.factory is not MISSING:
                value = declared.factory()
            elif declared.default is not MISSING:
                value = declared.default
            else:
                raise TypeError(f"{_name(self)}() misses {name}")
            object.__setattr__(self, name, value)
        if values:
            raise TypeError(f"{_name(self)}() has no field {', '.join(values)}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of {_name(self)} cannot be assigned")

    def __repr__(self) -> str:
        return f"{_name(self)}({', '.join(f'{k}={getattr(self, k)!r}' for k in self._fields)})"

    def __replace__(self, **changes: Any) -> Self:
        return type(self)(
            **{k: getattr(self, k) for k in self._fields if k not in changes}, **changes
        )


def replace(old: R, **changes: Any) -> R:
    """Copy a record, or a dataclass, with other values of some fields."""
    if isinstance(old, Record):
        return old.__replace__(**changes)
    from dataclasses import replace

    new: R = replace(old, **changes)  # type: ignore[type-var]
    return new


def _equals(self: Record, other: object) -> bool:
    return type(self) is type(other) and all(
        getattr(self, name) == getattr(other, name) for name in self._fields
    )


def _name(record: Record) -> str:
    return type(record).__qualname__


def _take_field(cls: type[Record], name: str) -> _Field:
    """Return the field that a class declares; a default stays in the class, as its attribute."""
    declared = cls.__dict__.get(name, MISSING)
    if not isinstance(declared, _Field):
        if hasattr(declared, "__get__"):  # a descriptor, whose value in the class is the default
            declared = getattr(cls, name, MISSING)
        return _Field(declared, MISSING, kw_only=False)
    if declared.default is MISSING:
        delattr(cls, name)
    else:
        setattr(cls, name, declared.default)
    return declared
