"""Run commands of tagloom, each in its own process.

Hundreds of tests do, and starting Python and importing NumPy takes most of the time of a short
command. A server that has imported both therefore forks a process for each command. Systems without
fork start Python anew.
"""

import contextlib
import io
import multiprocessing
import os
import pkgutil
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import tagloom

COMMAND = [sys.executable, "-c", "from tagloom.cli import main; main()"]
TIMEOUT = 120  # seconds
CAN_FORK = "forkserver" in multiprocessing.get_all_start_methods()


def environment():
    return {**os.environ, "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8"}


def run(folder, *arguments, stdin=""):
    """Run a command in a folder; the result is that of `subprocess.run`."""
    arguments = [*map(str, arguments)]
    if not CAN_FORK:
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=folder,
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=environment(),
            timeout=TIMEOUT,
        )
    with tempfile.TemporaryDirectory() as streams:
        os.mkfifo(os.path.join(streams, "0"))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*_modules()])
        process = context.Process(
            target=_main, args=(os.fspath(folder), arguments, streams, environment())
        )
        process.start()
        threading.Thread(
            target=_feed, args=(os.path.join(streams, "0"), stdin), daemon=True
        ).start()
        process.join(TIMEOUT)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired([*COMMAND, *arguments], TIMEOUT)
        out, err = (Path(streams, name).read_text(encoding="utf-8") for name in "12")
    return subprocess.CompletedProcess([*COMMAND, *arguments], process.exitcode, out, err)


def _feed(pipe, text):
    """Write the standard input of a command, which may end before it has read all."""
    with contextlib.suppress(BrokenPipeError), open(pipe, "wb") as file:
        file.write(text.encode())


def _modules():
    """Name what commands import: NumPy, rich and all of tagloom but what needs other packages."""
    yield from ("numpy", "numpy.random", "rich.console", "rich.progress", "rich.table")
    for module in pkgutil.walk_packages(tagloom.__path__, "tagloom."):
        if not module.name.startswith("tagloom.interop"):
            yield module.name


def _main(folder, arguments, streams, variables):
    """Become the process of a command."""
    os.environ.clear()
    os.environ.update(variables)
    for fd, flags in enumerate([os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2]):
        os.dup2(os.open(os.path.join(streams, str(fd)), flags), fd)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(os.fdopen(fd, mode, closefd=False), encoding="utf-8")
        for fd, mode in enumerate(["rb", "wb", "wb"])
    )
    os.chdir(folder)
    warnings.resetwarnings()
    warnings.simplefilter("error")
    sys.argv = ["tagloom", *arguments]
    from tagloom.cli import main

    main()
