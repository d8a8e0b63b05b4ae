"""The command line: one file per command, each imported only when it runs.

Conventions: results go to stdout, everything else to stderr; ``--json`` is for programs; a user's
mistake gives one line and exit code 2, and ``--debug`` shows its traceback.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import sys
from typing import Any, NoReturn

from tagloom.cli.declarations import Command
from tagloom.cli.running import closing

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


def main() -> None:
    """Run the command line; a user's mistake gives one line and exit code 2."""
    # Starting makes tens of thousands of objects that stay; looking for cycles among them at the
    # usual rate takes a twentieth of the start.
    gc.set_threshold(100_000, 50, 1000)
    # A closed stdout, as by `>&-`, is None. Writing to it should be an error of the system.
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    # --debug may be anywhere, also after the command that failed.
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    started: list[str] = []  # the command that started without click
    try:
        with closing():
            code = _run(arguments, started)
            sys.stdout.flush()
            sys.exit(code)
    except BrokenPipeError:
        stop_early()
    except OSError as error:
        if debug:
            raise
        try:
            sys.stdout.flush()
        except OSError:  # Python would fail again at its end, with another message and exit code
            _drop_output()
        fail(f"tagloom: {_system_error(error)}")
    except MemoryError:
        if debug:
            raise
        fail("tagloom: not enough memory. Split the file, or use a larger machine.")
    except Exception as error:
        from tagloom.cli.groups import report

        report(error, started[0] if started else None, debug)
        raise


def _drop_output() -> None:
    """Discard what stdout has not written yet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stop_early() -> NoReturn:
    """Exit because the reader of our output has stopped, as in ``tagloom ... | head``."""
    _drop_output()
    sys.exit(141)


def _run(arguments: list[str], started: list[str]) -> int:
    """Run a command; without click if that is possible. Return the exit code."""
    name = arguments[0] if arguments else ""
    if name in COMMANDS and "_TAGLOOM_COMPLETE" not in os.environ:
        command = importlib.import_module(COMMANDS[name][0]).command
        values = command.read(arguments[1:]) if isinstance(command, Command) else None
        if values is not None:
            started.append(name)
            return _call(command, values)
    from tagloom.cli import groups

    return groups.run(arguments)


def _call(command: Command, values: dict[str, Any]) -> int:
    """Call a command as click does."""
    try:
        command.function(**values)
    except (EOFError, KeyboardInterrupt):
        print("\ntagloom: interrupted.", file=sys.stderr)
        return 130
    return 0


def _system_error(error: OSError) -> str:
    message = f"{error.strerror or error}."
    if error.filename:
        message = f"{error.filename}: {message}"
    # Messages that we wrote, unlike those of the system, already contain advice.
    is_plain = error.errno is not None and error.strerror == os.strerror(error.errno)
    advice = _ADVICE.get(error.errno or 0) if is_plain else None
    return f"{message} {advice}" if advice else message


def fail(line: str) -> NoReturn:
    """Print a line to stderr and exit with code 2."""
    print(line, file=sys.stderr)
    sys.exit(2)
