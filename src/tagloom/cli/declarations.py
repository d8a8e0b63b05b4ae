"""Commands declared as data: arguments and options, once, for click and for a quick start.

The decorators have the names and settings of click's, and only store them. `Command.click` makes
click's command of them, for help, completion, manual pages and errors. Importing click takes as
long as loading a model and tagging a line; so `Command.read` reads ordinary arguments without it,
and returns None for all others: what is unusual or wrong is click's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import click

F = TypeVar("F", bound=Callable[..., Any])


class Kind:
    """A type of click with its arguments, and the function that reads a value or returns None."""

    def __init__(self, name: str, arguments: Sequence[Any], read: Callable[[str], Any]) -> None:
        self._name, self._arguments, self.read = name, arguments, read

    def click(self) -> Any:
        """Return the type as click takes it."""
        import click

        return getattr(click, self._name)(*self._arguments)


def choice(choices: Sequence[str]) -> Kind:
    """One of several names."""
    return Kind("Choice", [list(choices)], lambda text: text if text in choices else None)


def integer(least: int) -> Kind:
    """An integer of at least ``least``."""

    def read(text: str) -> int | None:
        is_plain = text.isascii() and text.isdigit() and int(text) >= least
        return int(text) if is_plain else None

    return Kind("IntRange", [least], read)


_TEXT = Kind("STRING", [], str)


class Parameter:
    """An argument or an option: the arguments of click's decorator."""

    def __init__(self, decorator: str, names: tuple[str, ...], settings: dict[str, Any]) -> None:
        self.decorator, self.names, self.settings = decorator, names, settings
        long = [name for name in names if name.startswith("--")]
        plain = [name for name in names if not name.startswith("-")]
        self.name = (plain or long)[0].partition("/")[0].lstrip("-").replace("-", "_")
        self.kind: Kind = settings.get("type", _TEXT)

    def decorate(self, function: Any) -> Any:
        """Apply click's decorator."""
        import click

        settings = self.settings
        if "type" in settings:
            settings = settings | {"type": self.kind.click()}
        return getattr(click, self.decorator)(*self.names, **settings)(function)

    @property
    def default(self) -> Any:
        """The value if the option is not passed."""
        return self.settings.get("default", False if self.settings.get("is_flag") else None)

    def spellings(self) -> dict[str, bool | None]:
        """Return what users type, with the value of a flag, or None if a value follows."""
        found: dict[str, bool | None] = {}
        for name in self.names:
            on, _, off = name.partition("/")
            if on.startswith("-"):
                found[on] = True if off or self.settings.get("is_flag") else None
            if off:
                found[off] = False
        return found


def declare(parameters: Sequence[Parameter]) -> Callable[[F], F]:
    """Declare several parameters."""

    def decorate(function: F) -> F:
        function.__dict__.setdefault("_parameters", [])[:0] = parameters
        return function

    return decorate


def argument(name: str, **settings: Any) -> Callable[[F], F]:
    """Declare an argument, as `click.argument` does; at most the last may have nargs=-1."""
    return declare([Parameter("argument", (name,), settings)])


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Declare an option, as `click.option` does; ``type`` is a `Kind`."""
    return declare([Parameter("option", names, settings)])


def command(**settings: Any) -> Callable[[Callable[..., None]], Command]:
    """Declare a command, as `click.command` does."""
    return lambda function: Command(function, settings)


class Command:
    """A command and its parameters.

    Examples
    --------
    >>> @command()
    ... @argument("path")
    ... @option("-o", "--output", default="-")
    ... @option("--n-threads", type=integer(1))
    ... def show(**values): ...
    >>> show.read(["a.txt", "--n-threads=2"])
    {'path': 'a.txt', 'output': '-', 'n_threads': 2}
    >>> show.read(["a.txt", "--threads", "2"]) is None
    True
    """

    def __init__(self, function: Callable[..., None], settings: dict[str, Any]) -> None:
        self.function, self._settings = function, settings
        self._parameters: list[Parameter] = function.__dict__["_parameters"]

    def click(self) -> click.Command:
        """Make the command of click."""
        import click

        function: Any = self.function
        for parameter in reversed(self._parameters):
            function = parameter.decorate(function)
        made: click.Command = click.command(**self._settings)(function)
        return made

    def read(self, arguments: Sequence[str]) -> dict[str, Any] | None:
        """Return the values of ordinary arguments by parameter, or None: then ask click."""
        options = {
            spelling: (parameter, flag)
            for parameter in self._parameters
            if parameter.decorator == "option"
            for spelling, flag in parameter.spellings().items()
        }
        values = {each.name: each.default for each in self._parameters}
        texts, rest = [], list(reversed(arguments))
        while rest:
            text = rest.pop()
            if not text.startswith("-") or text == "-":
                texts.append(text)
                continue
            spelling, has_value, value = text.partition("=")
            parameter, flag = options.get(spelling, (None, None))
            if parameter is None:
                return None
            if flag is None:
                if not has_value and not rest:
                    return None
                found = parameter.kind.read(value if has_value else rest.pop())
                if found is None or (not spelling.startswith("--") and has_value):
                    return None
            elif has_value:
                return None
            else:
                found = flag
            values[parameter.name] = found
        return self._place(texts, values)

    def _place(self, texts: list[str], values: dict[str, Any]) -> dict[str, Any] | None:
        """Give each argument its text; None if there are too few or too many."""
        for parameter in self._parameters:
            if parameter.decorator == "option":
                continue
            if parameter.settings.get("nargs") == -1:
                values[parameter.name], texts = tuple(texts), []
            elif texts:
                values[parameter.name] = texts.pop(0)
            else:
                return None
        return None if texts else values
