"""The command line: one file per command, each imported only when it runs.

Conventions: results go to stdout, everything else to stderr; ``--json`` is for programs; a user's
mistake gives one line and exit code 2, and ``--debug`` shows its traceback.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import sys
from typing import NoReturn

import click

from tagloom.cli.mistakes import Group

# name -> (module, one-line help). A command's module is imported only when it runs, for a fast
# start.
COMMANDS = {
    "train": ("tagloom.cli.train", "Train a tagger on labelled sentences."),
    "tag": ("tagloom.cli.tag", "Predict labels."),
    "explain": ("tagloom.cli.explain", "Explain why tokens get their labels."),
    "eval": ("tagloom.cli.eval", "Score a model, or predicted labels, against gold labels."),
    "compare": ("tagloom.cli.compare", "Test whether two systems differ."),
    "inspect": ("tagloom.cli.inspect", "Show the contents of a model."),
    "convert": ("tagloom.cli.convert", "Convert formats and label schemes."),
    "convert-model": ("tagloom.cli.convert_model", "Convert models of other tools, and back."),
    "check": ("tagloom.cli.check", "Find problems in corpora and models."),
    "lm": ("tagloom.cli.lm", "Language models: train, score, restore, generate."),
    "serve": ("tagloom.cli.serve", "Serve models over HTTP."),
    "completion": ("tagloom.cli.completion", "Complete commands by the Tab key."),
    "studio": ("tagloom.cli.studio", "Open a local page: see, correct, retrain, find errors."),
    "demo": ("tagloom.cli.demo", "Train and try a tagger on the included corpus."),
}


# Advice for errors of the operating system, which describe only the problem.
_ADVICE = {
    errno.ENOENT: "Is the name right, and does its folder exist?",
    errno.EISDIR: "Pass the name of a file.",
    errno.EACCES: "Choose another file or folder, or change its permissions.",
    errno.EROFS: "Choose another folder.",
    errno.ENOSPC: "Free some space, or choose another folder; an existing file is unchanged.",
    errno.EFBIG: "Choose another folder; an existing file is unchanged.",
}


class _LazyGroup(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

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


def main() -> None:
    """Run the command line; a user's mistake gives one line and exit code 2."""
    # --debug may be anywhere, also after the command that failed.
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        sys.exit(group(arguments, prog_name="tagloom", standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as help:
        help.show()
        sys.exit(2)
    except click.UsageError as error:
        if debug:
            raise
        command = error.ctx.command_path if error.ctx else "tagloom"
        message = error.format_message()
        end = "" if message.endswith((".", "?")) else "."
        _fail(f"{command}: {message}{end} Try '{command} --help'.")
    except click.ClickException as error:
        if debug:
            raise
        _fail(f"tagloom: {error.format_message()}")
    except click.Abort:
        click.echo("tagloom: interrupted.", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has stopped, as in `tagloom ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        if debug:
            raise
        _fail(f"tagloom: {_system_error(error)}")
    except MemoryError:
        if debug:
            raise
        _fail("tagloom: not enough memory. Split the file, or use a larger machine.")


def _system_error(error: OSError) -> str:
    message = f"{error.strerror or error}."
    if error.filename:
        message = f"{error.filename}: {message}"
    # Messages that we wrote, unlike those of the system, already contain advice.
    is_plain = error.errno is not None and error.strerror == os.strerror(error.errno)
    advice = _ADVICE.get(error.errno or 0) if is_plain else None
    return f"{message} {advice}" if advice else message


def _fail(line: str) -> NoReturn:
    click.echo(line, err=True)
    sys.exit(2)
