"""The command line: one file per command, each imported only when it runs.

Conventions: results on stdout, everything else on stderr; ``--json`` for machines; exit code 2 and
one line for a user's mistake, with the traceback kept for ``--debug``.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import NoReturn

import click

from tagloom.cli.mistakes import Group

# name -> (module, one-line help). A command's module is imported only when it runs, so that
# start-up stays cheap.
COMMANDS = {
    "train": ("tagloom.cli.train", "Learn a tagger from labelled sentences."),
    "tag": ("tagloom.cli.tag", "Predict labels."),
    "explain": ("tagloom.cli.explain", "Say why tokens have their labels."),
    "eval": ("tagloom.cli.eval", "Score a model, or predicted labels, against gold ones."),
    "compare": ("tagloom.cli.compare", "Test whether two systems differ."),
    "inspect": ("tagloom.cli.inspect", "Look inside a model."),
    "convert": ("tagloom.cli.convert", "Convert formats and label schemes."),
    "check": ("tagloom.cli.check", "Find what is wrong in corpora and models."),
    "lm": ("tagloom.cli.lm", "Language models: train, score, restore, generate."),
    "demo": ("tagloom.cli.demo", "Train and try a tagger on the corpus that comes along."),
}


# What to do next about an error of the system, which only says what is wrong.
_ADVICE = {
    errno.ENOENT: "Is the name right, and is its folder there?",
    errno.EISDIR: "Give the name of a file.",
    errno.EACCES: "Choose another file or folder, or change who may use it.",
    errno.EROFS: "Choose another folder.",
    errno.ENOSPC: "Make room, or choose another place; a file that was there is as it was.",
    errno.EFBIG: "Choose another place; a file that was there is as it was.",
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


@click.group(cls=_LazyGroup)
@click.version_option(package_name="tagloom")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def group(ctx: click.Context, debug: bool) -> None:
    """Learn to label sequences, label them, and score, check and convert what is labelled."""
    ctx.obj = {"debug": debug}


def main() -> None:
    """Run the command line; a mistake of the user's is one line and exit code 2."""
    # --debug may stand anywhere, also after the command that failed.
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
        message = error.format_message().rstrip(".")
        _say(f"{command}: {message}. Try '{command} --help'.")
    except click.ClickException as error:
        if debug:
            raise
        _say(f"tagloom: {error.format_message()}")
    except click.Abort:
        click.echo("tagloom: interrupted.", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has seen enough, as in `tagloom ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        if debug:
            raise
        _say(f"tagloom: {_system_error(error)}")
    except MemoryError:
        if debug:
            raise
        _say("tagloom: there is not enough memory. Split the file, or use a larger machine.")


def _system_error(error: OSError) -> str:
    what = f"{error.strerror or error}."
    if error.filename:
        what = f"{error.filename}: {what}"
    # A message of our own, which is not the system's, says what to do by itself.
    is_plain = error.errno is not None and error.strerror == os.strerror(error.errno)
    advice = _ADVICE.get(error.errno or 0) if is_plain else None
    return f"{what} {advice}" if advice else what


def _say(line: str) -> NoReturn:
    click.echo(line, err=True)
    sys.exit(2)
