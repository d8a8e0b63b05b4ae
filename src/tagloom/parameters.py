"""Parameters as data: name, type, bounds, default and help of each are declared once.

A class derived from `Parameterised` lists its parameters as annotated attributes::

    class Ridge(Parameterised):
        '''Least squares with a penalty.'''

        l2: float = number(default=1.0, least=0, help="Penalty on the sum of squared weights.")
        solver: str = choice(default="exact", choices=("exact", "sgd"), help="Algorithm.")

The declarations yield the constructor, which only stores its arguments, ``check_parameters``, the
Parameters section of the docstring, ``get_params``, ``set_params``, ``repr`` and, for a model, the
options of ``tagloom train``. Type checkers and editors see the constructor through PEP 681.

A subclass inherits the parameters of its bases. It may declare one again and needs to give only
the differences: ``l2: float = number(default=0.1)``. Assigning a plain value, ``solver = "exact"``,
fixes a parameter: it becomes an attribute and is no longer an argument of the constructor.

This module lies below all models, because emissions and learners have parameters too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

from tagloom import checks
from tagloom.errors import UnknownParameterError
from tagloom.records import Record, replace

if TYPE_CHECKING:
    from inspect import Signature

_WIDTH = 96  # of a generated docstring


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"


MISSING: Any = _Missing()  # a field that the declaration of a base class fills in


# ---- kinds of parameters -------------------------------------------------------------------------


class Parameter(Record):
    """One parameter of a constructor.

    Attributes
    ----------
    name : str
    default : object
        If None, the parameter is optional, and None is not checked.
    help : str
        One sentence; also the help text of the command-line option.
    details : str
        Further sentences for the documentation.
    type : str
        The accepted types, as written in the documentation.
    check : callable or None
        Raises if a value is not valid.
    is_positional : bool
        Whether it may be passed without its name.
    is_option : bool
        Whether the command line offers it.
    """

    name: str = ""
    default: Any = MISSING
    help: str = MISSING
    details: str = MISSING
    type: str = MISSING
    check: Callable[[Any], Any] | None = MISSING
    is_positional: bool = MISSING
    is_option: bool = MISSING

    #: Value of each field that no class declares.
    _fallbacks: ClassVar[Mapping[str, Any]] = {
        "help": "",
        "details": "",
        "type": "object",
        "check": None,
        "is_positional": False,
        "is_option": True,
    }

    def named(self, name: str, base: Parameter | None) -> Parameter:
        """Return this declaration with its name, and missing fields filled in from a base class."""
        inherited = {} if base is None else vars(base)
        values = {**self._fallbacks, **{k: v for k, v in inherited.items() if v is not MISSING}}
        missing = [k for k, v in vars(self).items() if v is MISSING]
        return replace(self, name=name, **{k: values[k] for k in missing if k in values})

    def check_value(self, value: Any) -> None:
        """Raise if a value is not valid.

        Raises
        ------
        ParameterError
            Names the parameter.
        """
        if value is None and self.default is None:
            return
        if self.check is not None:
            self.check(value)
        else:
            self._check(value)

    def _check(self, value: Any) -> None:
        """Check a value by the kind of the parameter."""

    @property
    def type_text(self) -> str:
        """Type and default, as numpydoc writes them: ``float, default 1.0``."""
        if self.default is None and "None" not in self.type:
            return f"{self.type}, optional"
        return self.type if self.default is MISSING else f"{self.type}, default {self._shown}"

    @property
    def _shown(self) -> str:
        return f'"{self.default}"' if isinstance(self.default, str) else repr(self.default)

    def document(self) -> str:
        """Return the entry of the parameter in a section Parameters."""
        import textwrap  # here, for a quick start

        text = f"{self.help} {self.details}".strip()
        lines = textwrap.wrap(text, _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
        return "\n".join([f"{self.name} : {self.type_text}", *(f"    {line}" for line in lines)])


class Count(Parameter):
    """An integer of at least ``least``."""

    type: str = "int"
    least: int = MISSING

    def _check(self, value: Any) -> None:
        checks.count(value, self.name, least=0 if self.least is MISSING else self.least)


class Number(Parameter):
    """A finite number within bounds: value ≥ least, value > above, value ≤ most."""

    type: str = "float"
    least: float | None = MISSING
    above: float | None = MISSING
    most: float | None = MISSING

    def _check(self, value: Any) -> None:
        names = ("least", "above", "most")
        bounds = {name: getattr(self, name) for name in names}
        given = {name: bound for name, bound in bounds.items() if bound is not MISSING}
        checks.number(value, self.name, **given)


class Flag(Parameter):
    """True or False."""

    type: str = "bool"

    def _check(self, value: Any) -> None:
        checks.flag(value, self.name)


def _find_type(name: str) -> type:
    """Import a type by its whole name."""
    module, _, name = name.rpartition(".")
    found: type = getattr(import_module(module), name)
    return found


class Choice(Parameter):
    """One of several names, or an object of a type in ``also``, by its whole name.

    The command line accepts the names, and, with ``free``, texts that this type reads; ``check``
    must accept them.
    """

    choices: Sequence[str | None] = MISSING
    also: tuple[str, ...] = MISSING
    free: type = MISSING

    def _check(self, value: Any) -> None:
        # A name is compared first: its type need not be imported then.
        is_name = self.also is MISSING or isinstance(value, str)
        if is_name or not isinstance(value, tuple(map(_find_type, self.also))):
            checks.choice(value, self.name, self.choices)

    @property
    def type_text(self) -> str:
        """The choices in braces, other accepted types, and the default."""
        names = ", ".join(f'"{x}"' if isinstance(x, str) else repr(x) for x in self.choices)
        others = [] if self.also is MISSING else [name.rpartition(".")[2] for name in self.also]
        others += [] if self.free is MISSING else [self.free.__name__]
        others += [self.type] if self.type != "object" else []
        return f"{' or '.join([f'{{{names}}}', *others])}, default {self._shown}"


class Names(Parameter):
    """A list of str, which the command line splits at ``separator``."""

    type: str = "list of str"
    separator: str = ","


class Path(Parameter):
    """The path of a file or folder, or another text, which the command line takes as it is."""

    type: str = "path"
    metavar: str = "PATH"


# ---- declarations ------------------------------------------------------------------------------

# Field specifiers of PEP 681: type checkers read `default`, `kw_only` and `init` from the call, so
# all arguments are keyword-only. Missing ones are taken from the declaration of a base class.


def parameter(
    *,
    default: Any = MISSING,
    help: str = MISSING,
    details: str = MISSING,
    type: str = MISSING,
    check: Callable[[Any], Any] | None = MISSING,
    kw_only: bool = True,
    is_option: bool = MISSING,
) -> Any:
    """Declare a parameter of any type; see `Parameter`.

    With ``is_option=False`` it does not become a command-line option of its name.

    Examples
    --------
    >>> class Model(Parameterised):
    ...     callback: object = parameter(default=None, type="callable", help="Called at the end.")
    >>> print(Model.parameters["callback"].document())
    callback : callable, optional
        Called at the end.
    """
    return Parameter("", default, help, details, type, check, not kw_only, is_option)


def count(
    *,
    default: int | None = MISSING,
    least: int = MISSING,
    help: str = MISSING,
    details: str = MISSING,
    check: Callable[[Any], Any] | None = MISSING,
    kw_only: bool = True,
) -> Any:
    """Declare an integer of at least ``least``, 0 by default.

    Examples
    --------
    >>> class Model(Parameterised):
    ...     order: int = count(default=1, least=1, help="Label order.")
    >>> Model(order=2)
    Model(order=2)
    """
    return Count("", default, help, details, check=check, is_positional=not kw_only, least=least)


def number(
    *,
    default: float | None = MISSING,
    least: float | None = MISSING,
    above: float | None = MISSING,
    most: float | None = MISSING,
    help: str = MISSING,
    details: str = MISSING,
) -> Any:
    """Declare a finite number with bounds: value ≥ least, value > above, value ≤ most.

    Examples
    --------
    >>> class Model(Parameterised):
    ...     rate: float = number(default=0.1, above=0, most=1, help="Learning rate.")
    >>> Model(rate=0).check_parameters()
    Traceback (most recent call last):
    ...
    tagloom.errors.ParameterError: rate must be a finite number above 0 and of at most 1; got 0.
    """
    return Number("", default, help, details, least=least, above=above, most=most)


def flag(
    *,
    default: bool | None = MISSING,
    help: str = MISSING,
    details: str = MISSING,
    is_option: bool = MISSING,
) -> Any:
    """Declare a parameter that is True or False.

    Examples
    --------
    >>> class Model(Parameterised):
    ...     averaged: bool = flag(default=True, help="Average the weights.")
    >>> Model().averaged
    True
    """
    return Flag("", default, help, details, is_option=is_option)


def choice(
    *,
    default: str | None = MISSING,
    choices: Sequence[str | None] = MISSING,
    also: tuple[str, ...] = MISSING,
    free: type = MISSING,
    type: str = MISSING,
    help: str = MISSING,
    details: str = MISSING,
    check: Callable[[Any], Any] | None = MISSING,
) -> Any:
    """Declare one of several names, or an object of a type in ``also``, by its whole name.

    ``type`` names further accepted types in the documentation; ``check`` must accept them, and
    those of ``free``, a type that the command line reads, too.

    Examples
    --------
    >>> class Model(Parameterised):
    ...     states: str = choice(default="auto", choices=("auto", "all"), help="Histories.")
    >>> Model.parameters["states"].type_text
    '{"auto", "all"}, default "auto"'
    """
    if choices is not MISSING:
        choices = tuple(choices)
    return Choice("", default, help, details, type, check, choices=choices, also=also, free=free)


def names(
    *,
    default: Sequence[str] | None = MISSING,
    separator: str = ",",
    type: str = "list of str",
    help: str = MISSING,
    details: str = MISSING,
    check: Callable[[Any], Any] | None = MISSING,
) -> Any:
    """Declare a list of str; the command line takes them as one argument, with separators.

    Examples
    --------
    >>> class Model(Parameterised):
    ...     labels: list[str] | None = names(default=None, help="The label set.")
    >>> Model(labels=["A", "B"])
    Model(labels=['A', 'B'])
    """
    return Names("", default, help, details, type, check, separator=separator)


def path(
    *,
    default: Any = MISSING,
    type: str = "path",
    metavar: str = "PATH",
    help: str = MISSING,
    details: str = MISSING,
    check: Callable[[Any], Any] | None = MISSING,
) -> Any:
    """Declare the path of a file or folder, or another text; ``check`` may accept other objects.

    ``metavar`` stands for the value in the help of the command line.

    Examples
    --------
    >>> class Model(Parameterised):
    ...     vectors: str | None = path(default=None, help="A file of vectors.")
    >>> Model(vectors="glove.txt")
    Model(vectors='glove.txt')
    """
    return Path("", default, help, details, type, check, metavar=metavar)


class _Attribute:
    def __init__(self, default: Any) -> None:
        self.default = default


def attribute(*, default: Any = MISSING, init: bool = False) -> Any:
    """Declare an attribute that is not a parameter; pass ``init=False`` for type checkers.

    Examples
    --------
    >>> class Model(Parameterised):
    ...     l2: float = number(default=1.0, help="Penalty.")
    ...     cache: object = attribute(default=None, init=False)
    >>> list(Model.parameters), Model().cache
    (['l2'], None)
    """
    return _Attribute(default)


# ---- classes with parameters -------------------------------------------------------------------


class _Declared:
    """The parameters that a class declares, and the inherited ones that it fixes."""

    def __init__(self) -> None:
        self.parameters: dict[str, Parameter] = {}
        self.fixed: set[str] = set()


@dataclass_transform(
    eq_default=False,
    kw_only_default=True,
    field_specifiers=(parameter, count, number, flag, choice, names, path, attribute),
)
class Parameterised:
    """Base class for declared parameters; the module docstring explains the declarations.

    A class may also define its own constructor; its parameters are then the arguments of that.

    Examples
    --------
    >>> from tagloom.parameters import Parameterised, choice, number
    >>> class Ridge(Parameterised):
    ...     '''Least squares with a penalty.'''
    ...     l2: float = number(default=1.0, least=0, help="Penalty on squared weights.")
    ...     solver: str = choice(default="exact", choices=("exact", "sgd"), help="Algorithm.")
    >>> Ridge(l2=0.5)
    Ridge(l2=0.5)
    >>> print(Ridge.parameters["solver"].document())
    solver : {"exact", "sgd"}, default "exact"
        Algorithm.
    >>> Ridge(l2=-1).check_parameters()
    Traceback (most recent call last):
    ...
    tagloom.errors.ParameterError: l2 must be a finite number of at least 0; got -1.
    """

    #: Names that other tools have for parameters, with those they have here; for messages.
    other_names: ClassVar[Mapping[str, str]] = {}
    #: The parameters of the class by name, in the order of the documentation.
    parameters: ClassVar[Mapping[str, Parameter]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._declared = _take_declarations(cls)
        cls.parameters = dict(_collect(cls.__mro__))
        if "__init__" not in cls.__dict__ and cls.parameters:
            cls.__init__ = _Constructor(cls)  # type: ignore[assignment, method-assign]
        if cls.__doc__ is not None and "__doc__" in cls.__dict__:  # there is none under -OO
            cls.__doc__ = _Documentation(cls.__doc__, cls)  # type: ignore[assignment]

    _declared: ClassVar[_Declared] = _Declared()

    def check_parameters(self) -> None:
        """Raise for a parameter that is outside its declared range.

        Raises
        ------
        ParameterError
            Names the parameter, what was found and what was expected.
        """
        for name, declared in self.parameters.items():
            declared.check_value(getattr(self, name))

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Create an object from the values of command-line options, by parameter name."""
        return cls(**options)

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the constructor's arguments."""
        return list(_defaults(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments; the fitted state stays until the next fit."""
        names = self.parameter_names()
        for name, value in params.items():
            if name not in names:
                raise _unknown(type(self), name, names)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = _defaults(type(self))
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not same(value, defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def same(value: Any, default: Any) -> bool:
    """Whether a parameter has its default value: of the same type, and equal."""
    return value is default or (type(value) is type(default) and bool(value == default))


def _take_declarations(cls: type[Parameterised]) -> _Declared:
    """Collect the declarations of a class body and replace them by their defaults."""
    declared, inherited = _Declared(), dict(_collect(cls.__mro__[1:]))
    for name, value in list(vars(cls).items()):
        if isinstance(value, Parameter | _Attribute):
            if isinstance(value, Parameter):
                value = value.named(name, inherited.get(name))
                declared.parameters[name] = value
            if value.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, value.default)
        elif name in inherited:
            declared.fixed.add(name)
    return declared


def _collect(classes: Sequence[type]) -> Iterator[tuple[str, Parameter]]:
    """Yield the parameters of classes in method resolution order, positional ones first."""
    parameters: dict[str, Parameter] = {}
    fixed: set[str] = set()
    for cls in classes:
        declared = cls.__dict__.get("_declared", _Declared())
        for name, value in declared.parameters.items():
            if name not in fixed:
                parameters.setdefault(name, value)
        fixed |= declared.fixed
    yield from sorted(parameters.items(), key=lambda item: not item[1].is_positional)


class _Constructor:
    """A constructor that stores its arguments; its signature is made when it is read."""

    def __init__(self, cls: type[Parameterised]) -> None:
        self._cls = cls
        self.__name__, self.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
        self.__module__ = cls.__module__

    def __get__(self, new: Any, owner: type | None = None) -> Any:
        return self if new is None else MethodType(self, new)

    def __call__(self, new: Any, /, *args: Any, **kwargs: Any) -> None:
        parameters = self._cls.parameters
        unknown = kwargs.keys() - parameters.keys()
        if unknown:
            raise _unknown(type(new), min(unknown), list(parameters))
        positional = [name for name, declared in parameters.items() if declared.is_positional]
        given = dict(zip(positional, args, strict=False))
        values = {**self.defaults, **kwargs, **given}
        is_bound = len(given) == len(args) and given.keys().isdisjoint(kwargs)
        if not is_bound or any(value is MISSING for value in values.values()):
            try:
                self.__signature__.bind(new, *args, **kwargs)  # raises
            except TypeError as error:
                raise TypeError(f"{type(new).__name__}() {error}") from None
        for name in parameters:
            setattr(new, name, values[name])
        after = getattr(new, "__post_init__", None)
        if after is not None:
            after()

    @property
    def defaults(self) -> dict[str, Any]:
        """The default of each argument, MISSING without one."""
        return {name: declared.default for name, declared in self._cls.parameters.items()}

    @property
    def __signature__(self) -> Signature:
        from inspect import Parameter, Signature  # here, for a quick start

        kinds = Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD
        arguments = [Parameter("self", kinds[1])]
        for name, declared in self._cls.parameters.items():
            default = Parameter.empty if declared.default is MISSING else declared.default
            arguments.append(Parameter(name, kinds[declared.is_positional], default=default))
        return Signature(arguments)


def _defaults(cls: type[Parameterised]) -> dict[str, Any]:
    """Return the defaults of a constructor's arguments by name."""
    constructor: Any = cls.__init__
    if isinstance(constructor, _Constructor):
        return constructor.defaults
    if constructor is object.__init__:  # whose signature is (self, *args, **kwargs)
        return {}
    from inspect import signature  # here, for a quick start

    arguments = signature(constructor).parameters
    return {name: each.default for name, each in arguments.items() if name != "self"}


def _unknown(cls: type[Parameterised], name: str, known: Sequence[str]) -> UnknownParameterError:
    """Return the error for a parameter that a class does not have."""
    from difflib import get_close_matches  # here, for a quick start

    if name in cls.other_names:
        hint = f"{name} is {cls.other_names[name]} here."
    elif close := get_close_matches(name, known, 1):
        hint = f"Did you mean {close[0]}?"
    else:
        hint = f"It has: {', '.join(known)}."
    return UnknownParameterError(
        f"{cls.__name__} has no parameter {name!r}.",
        parameter=name,
        expected=f"one of {', '.join(known)}",
        found=repr(name),
        hint=hint,
    )


class _Documentation:
    """The docstring of a class with its parameters; it is put together when it is read."""

    def __init__(self, doc: str, cls: type[Parameterised]) -> None:
        self._doc, self._cls = doc, cls

    def __get__(self, instance: Any, owner: type | None = None) -> str:
        return _document(self._doc, list(self._cls.parameters.values()))


def _document(doc: str, parameters: Sequence[Parameter]) -> str:
    """Insert a Parameters section before the first section of a docstring, unless it has one."""
    from inspect import cleandoc  # here, for a quick start

    lines = cleandoc(doc).split("\n")
    titles = [i for i, line in enumerate(lines[1:]) if line and set(line) == {"-"}]
    if not parameters or any(lines[i] == "Parameters" for i in titles):
        return doc
    section = ["Parameters", "----------"]
    section += "\n".join(parameter.document() for parameter in parameters).split("\n")
    at = titles[0] if titles else len(lines)
    before, after = lines[:at], lines[at:]
    while before and not before[-1]:
        before.pop()
    return "\n".join([*before, "", *section, *(["", *after] if after else [])])
