"""Render errors of the library as one line with the option names of the running command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from tagloom.cli import stop_early
from tagloom.cli.running import closing
from tagloom.errors import NameOption, TagloomError, python_option


class Group(click.Group):
    """A group whose commands report errors of the library with their option names."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error of the library becomes a one-line error of click."""
        try:
            with closing():
                return super().invoke(ctx)
        except BrokenPipeError:  # click would exit with code 1
            stop_early()
        except TagloomError as error:
            name = ctx.invoked_subcommand
            command = None if name is None else self.get_command(ctx, name)
            raise click.ClickException(error.render(naming(command))) from error


@contextmanager
def named(names: Mapping[str, str], *, unless: str | None = None) -> Iterator[None]:
    """Report parameters under options with other names.

    Parameters
    ----------
    names : mapping
        Maps parameters to options: ``{"sep": "to_sep"}``.
    unless : str, optional
        Do not change errors about this file.
    """
    try:
        yield
    except TagloomError as error:
        if unless is not None and getattr(error, "path", None) == unless:
            raise
        command = click.get_current_context().command
        raise click.ClickException(error.render(naming(command, names))) from error


def naming(command: click.Command | None, names: Mapping[str, str] | None = None) -> NameOption:
    """Return a function that renders a parameter as an option of a command, if it is one.

    Parameters
    ----------
    command : click.Command or None
    names : mapping, optional
        Maps parameters to options with other names.
    """
    options = {
        option.name: option
        for option in (command.params if command else ())
        if isinstance(option, click.Option)
    }

    def write(name: str, value: Any = ...) -> str:
        option = options.get((names or {}).get(name, name))
        return python_option(name, value) if option is None else show_option(option, value)

    return write


def show_option(option: click.Option, value: Any = ...) -> str:
    """Return an option as the user types it, with a value to try unless that is ``...``."""
    name = max(option.opts, key=len)
    if value is ...:
        return name
    if option.is_flag:
        return name if value or not option.secondary_opts else max(option.secondary_opts, key=len)
    return f"{name} {_quote(str(value))}"


def _quote(value: str) -> str:
    """Quote a value for the shell; Windows has double quotes only."""
    value = value.replace("\t", r"\t")  # --sep reads \t as a tab
    return f'"{value}"' if os.name == "nt" else shlex.quote(value)
