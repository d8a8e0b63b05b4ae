"""``tagloom tag -o FOLDER``: many files, on several processes or machines, one task per file.

A file gets its name when it is complete, so a run that was interrupted can be resumed: files that
exist are finished. A record in the folder has the model and the options of the run; another run is
not mixed with it.
"""

from __future__ import annotations

import functools
import glob
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tagloom import _native, checks
from tagloom.checks import plural
from tagloom.errors import FormatError, TagloomError
from tagloom.storage.replacing import remove_abandoned, replacing

if TYPE_CHECKING:
    from tagloom.cli.tag import Request

OPTIONS = ("--n-workers", "--cluster", "--resume", "--part")
_RECORD = ".tagloom-run.json"


class Where(NamedTuple):
    """Where and which files are tagged; the values of `OPTIONS`."""

    n_workers: int | None = None
    cluster: str | None = None
    resume: bool = False
    part: str | None = None


def is_folder(output: str) -> bool:
    """Whether -o names a folder: one that exists, or a name with a slash at its end."""
    separators = tuple(filter(None, (os.sep, os.altsep)))
    return output.endswith(separators) or os.path.isdir(output)


def tag(
    request: Request, sources: Sequence[str], folder: str, where: Where, *, quiet: bool
) -> None:
    """Tag files into a folder.

    Parameters
    ----------
    request : Request
    sources : sequence of str
        File names and patterns.
    folder : str
    where : Where
    quiet : bool
    """
    from tagloom.cli.tag import find_model

    paths = _expand(sources)
    targets = _targets(paths, folder)
    mine = _part(len(paths), where.part)
    # An error in the model or its options is reported once, and before anything is written.
    find_model(request.model, paths[0])
    for target in {os.path.dirname(target) for target in targets}:
        os.makedirs(target, exist_ok=True)
    _check_record(request, folder, resume=where.resume)
    is_done = [where.resume and os.path.exists(targets[i]) for i in mine]
    todo = [i for i, done in zip(mine, is_done, strict=True) if not done]
    from tagloom.cluster.engines import open_engine  # here, for a quick start

    engine = open_engine(where.n_workers, where.cluster, most=max(len(todo), 1))
    if request.n_threads is None and where.n_workers is not None:
        request = request._replace(n_threads=1)
    try:
        with _bar(len(todo), quiet) as bar:
            tasks = [(request, paths[i], targets[i]) for i in todo]
            notices = {}
            for task, notice in engine.map(tag_task, tasks):
                notices[task] = notice
                bar.update(1)
    finally:
        engine.close()
    if not quiet:
        if notices.get(0):
            click.echo(notices[0], err=True)
        click.echo(_summary(len(todo), len(mine) - len(todo), folder), err=True)


def _bar(n: int, quiet: bool) -> Any:
    from sys import stderr

    bar = click.progressbar(length=n, label="Files", file=stderr, show_pos=True)
    bar.hidden = quiet or not stderr.isatty()
    return bar


def _summary(n: int, n_done: int, folder: str) -> str:
    before = f", {n_done:,} finished before" if n_done else ""
    return f"{plural(n, 'file')} tagged in {folder}{before}"


# ---- tasks -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _model(path: str, source: str) -> Any:
    from tagloom.cli.tag import find_model

    return find_model(path, source)


def tag_task(request: Request, source: str, target: str) -> str | None:
    """Tag one file; runs on a worker.

    Raises
    ------
    TagloomError
        If the file is wrong; names it.
    """
    from tagloom.cli.tag import command, tag_file

    remove_abandoned(target)
    with click.Context(command):
        try:
            return tag_file(request, source, target, _model(request.model, "-"))
        except click.ClickException as error:  # it cannot be sent to another process
            raise FormatError(error.format_message(), path=source) from None
        except TagloomError as error:
            if error.where is None:
                error.where = source
            raise


# ---- files -------------------------------------------------------------------------------------


def _expand(sources: Sequence[str]) -> list[str]:
    """Return the files that names and patterns stand for; each once, sorted within a pattern."""
    paths: dict[str, None] = {}
    for source in sources:
        if source == "-":
            raise click.UsageError("Into a folder, INPUT must be files, not stdin.")
        found = [source] if os.path.exists(source) else sorted(glob.glob(source, recursive=True))
        files = [path for path in found if not os.path.isdir(path)]
        if not files:
            raise click.UsageError(f"No file matches {source}.")
        paths |= dict.fromkeys(files)
    if not paths:
        raise click.UsageError("Into a folder, INPUT must be files, such as 'in/*.conllu'.")
    return list(paths)


def _targets(paths: Sequence[str], folder: str) -> list[str]:
    """Return the file to write for each file: its name below the folder that all have in common."""
    absolute = [os.path.abspath(path) for path in paths]
    base = os.path.commonpath([os.path.dirname(path) for path in absolute])
    targets = [os.path.join(folder, os.path.relpath(path, base)) for path in absolute]
    for path, target in zip(paths, targets, strict=True):
        if os.path.exists(target) and os.path.samefile(path, target):
            raise click.UsageError(f"{path} would be overwritten. Choose another folder with -o.")
    return targets


def _part(n: int, part: str | None) -> range:
    """Return the numbers of the files of a part K/N: every N-th from the K-th on."""
    if part is None:
        return range(n)
    k, _, parts = part.partition("/")
    number, of = checks.whole_number(k), checks.whole_number(parts)
    if not (number and of and number <= of):
        raise click.BadParameter(
            f"expected K/N with K from 1 to N, such as 3/64, found {part!r}.", param_hint="--part"
        )
    return range(number - 1, n, of)


def _check_record(request: Request, folder: str, *, resume: bool) -> None:
    """Write which run the folder belongs to; raise if it is resumed by another one."""
    path = os.path.join(folder, _RECORD)
    record = {
        "model": _digest(request.model),
        "options": repr(request._replace(model="", n_threads=None)),
    }
    if resume and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        for name, value in record.items():
            if found.get(name) != value:
                other = "another model" if name == "model" else "other options"
                raise FormatError(
                    f"the files in it were tagged with {other}.",
                    path=folder,
                    expected="files of the same run",
                    found="those of another run",
                    hint="Choose another folder, or tag all files again without --resume.",
                )
    with replacing(path) as out:
        out.write(json.dumps(record).encode())


def _digest(model: str) -> str:
    """Return a fingerprint of a model file; of one on a server, its address."""
    import numpy as np

    if not os.path.exists(model):
        return model
    return f"{_native.hash_data(np.fromfile(model, np.uint8)):016x}"
