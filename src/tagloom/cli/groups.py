"""The command line as click knows it: the group of all commands, and its errors."""

from __future__ import annotations

import gc
import importlib
import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from tagloom.cli import COMMANDS, fail
from tagloom.cli.declarations import Command
from tagloom.cli.mistakes import Group, naming
from tagloom.errors import TagloomError


class _LazyGroup(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: Any = importlib.import_module(COMMANDS[cmd_name][0]).command
        made: click.Command = command.click() if isinstance(command, Command) else command
        return made

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in COMMANDS.items()])


@click.group(cls=_LazyGroup, invoke_without_command=True, no_args_is_help=True)
@click.option("--version", is_flag=True, help="Show the version; with --json, the installation.")
@click.option("--json", "as_json", is_flag=True, help="With --version: facts for a bug report.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def group(ctx: click.Context, version: bool, as_json: bool, debug: bool) -> None:
    """Train sequence labellers, predict labels, and evaluate, check and convert labelled data."""
    ctx.obj = {"debug": debug}
    if version:
        _show_version(as_json)
        ctx.exit()
    if as_json:
        raise click.UsageError("--json before a command is for --version only.", ctx)
    if ctx.invoked_subcommand is None:
        raise click.UsageError("Missing command.", ctx)


def _show_version(as_json: bool) -> None:
    from tagloom.cli.facts import installation_facts

    facts = installation_facts()
    if as_json:
        click.echo(json.dumps(facts, indent=2))
    else:
        click.echo(f"tagloom, version {facts['tagloom']}")


def run(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code."""
    gc.set_threshold(700, 10, 10)  # the default, which `main` raised
    return group(list(arguments), prog_name="tagloom", standalone_mode=False) or 0


def report(error: Exception, command: str | None, debug: bool) -> None:
    """Print an error of click, or of a command that started without it, as one line, and exit.

    Parameters
    ----------
    error : Exception
        Errors of other kinds are left to the caller.
    command : str or None
        The command that started without click.
    debug : bool
        Whether to raise the error instead.
    """
    if isinstance(error, TagloomError) and command is not None:
        if debug:
            raise error
        made = group.get_command(click.Context(group), command)
        fail(f"tagloom: {error.render(naming(made))}")
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        sys.exit(2)
    if isinstance(error, click.Abort):
        click.echo("tagloom: interrupted.", err=True)
        sys.exit(130)
    if isinstance(error, click.ClickException):
        if debug:
            raise error
        if not isinstance(error, click.UsageError):
            fail(f"tagloom: {error.format_message()}")
        path = error.ctx.command_path if error.ctx else " ".join(filter(None, ["tagloom", command]))
        message = error.format_message()
        end = "" if message.endswith((".", "?")) else "."
        fail(f"{path}: {message}{end} Try '{path} --help'.")
