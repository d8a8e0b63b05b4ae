"""``tagloom tag -o FOLDER``: many files, on several processes or machines, one task per file.

A file gets its name when it is complete, so a run that was interrupted can be resumed: files that
exist are finished. A record in the folder has the model and the options of the run; another run is
not mixed with it.

A large Parquet file has several tasks, each with some of its row groups. Their results are in a
hidden folder; the run that finds all of them there joins them.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tagloom import _native, checks
from tagloom.checks import plural
from tagloom.cli.running import closing
from tagloom.errors import FormatError, TagloomError
from tagloom.storage.replacing import remove_abandoned, replacing

if TYPE_CHECKING:
    from tagloom.cli.tag import Request

_RECORD = ".tagloom-run.json"
_MOST = 4_000_000  # tokens of row groups in one task, some seconds of work
_LEAST = 1_000_000  # bytes of a file that may be worth dividing


class Where(NamedTuple):
    """Where and which files are tagged."""

    n_workers: int | None = None
    cluster: str | None = None
    resume: bool = False
    part: str | None = None


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
    _part(0, where.part)  # raises
    # An error in the model or its options is reported once, and before anything is written.
    model = find_model(request.model, paths[0], request.vectors)
    for target in {os.path.dirname(target) for target in targets}:
        os.makedirs(target, exist_ok=True)
    record = _check_record(request, folder, resume=where.resume)
    divided = [
        Divided(path, target, _divide(request, path, model), record)
        for path, target in zip(paths, targets, strict=True)
    ]
    tasks = [task for file in divided for task in file.tasks()]
    mine = [tasks[i] for i in _part(len(tasks), where.part)]
    todo = [task for task in mine if not (where.resume and task.is_done)]
    if not where.resume:
        for task in mine:
            task.forget()
    from tagloom.cluster.engines import open_engine  # here, for a quick start

    engine = open_engine(where.n_workers, where.cluster, most=max(len(todo), 1))
    if request.n_threads is None and where.n_workers is not None:
        request = request._replace(n_threads=1)
    try:
        with _bar(len(todo), quiet) as bar:
            notices = {}
            for i, notice in engine.map(tag_task, [(request, task) for task in todo]):
                notices[i] = notice
                bar.update(1)
        complete = [file for file in divided if file.is_complete]
        for _ in engine.map(join_task, [(file,) for file in complete]):
            pass
        for file in divided:
            file.clean()
    finally:
        engine.close()
    if not quiet:
        if notices.get(0):
            click.echo(notices[0], err=True)
        click.echo(_summary(todo, len(mine) - len(todo), folder), err=True)


def _bar(n: int, quiet: bool) -> Any:
    from sys import stderr

    bar = click.progressbar(length=n, label="Files", file=stderr, show_pos=True)
    bar.hidden = quiet or not stderr.isatty()
    return bar


def _summary(todo: Sequence[Task], n_done: int, folder: str) -> str:
    n_parts = sum(task.groups is not None for task in todo)
    parts = [plural(len(todo) - n_parts, "file")] if n_parts < len(todo) or not todo else []
    if n_parts:
        n_files = len({task.source for task in todo if task.groups is not None})
        parts.append(f"{plural(n_parts, 'part')} of {plural(n_files, 'file')}")
    before = f", {n_done:,} finished before" if n_done else ""
    return f"{' and '.join(parts)} tagged in {folder}{before}"


# ---- tasks -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _model(path: str, source: str, vectors: str | None) -> Any:
    from tagloom.cli.tag import find_model

    return find_model(path, source, vectors)


class Task(NamedTuple):
    """A file, or some row groups of one, and where the result goes."""

    source: str
    output: str
    target: str  # the file that gets the result in the end
    groups: tuple[int, int] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the result exists."""
        return os.path.exists(self.target) or os.path.exists(self.output)

    def forget(self) -> None:
        """Remove an earlier result of a part, so that it is not joined."""
        if self.groups is not None:
            for path in (self.output, self.target):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


class Divided(NamedTuple):
    """A file, and the row groups of its tasks; one task if there are none."""

    source: str
    target: str
    groups: list[tuple[int, int]]
    run: str  # identifies model and options

    @property
    def folder(self) -> str:
        """Where the results of the tasks are until they are joined."""
        status = os.stat(self.source)
        text = f"{self.run} {status.st_size} {status.st_mtime_ns} {self.groups}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        above, name = os.path.split(self.target)
        return os.path.join(above, f".{name}.{digest}.parts")

    def tasks(self) -> list[Task]:
        """Return the tasks of the file."""
        if not self.groups:
            return [Task(self.source, self.target, self.target)]
        folder = self.folder
        names = [f"{first:06}-{end:06}.parquet" for first, end in self.groups]
        return [
            Task(self.source, os.path.join(folder, name), self.target, groups)
            for name, groups in zip(names, self.groups, strict=True)
        ]

    @property
    def is_complete(self) -> bool:
        """Whether all tasks of a divided file are done and not joined yet."""
        return (
            bool(self.groups)
            and not os.path.exists(self.target)
            and all(os.path.exists(task.output) for task in self.tasks())
        )

    def clean(self) -> None:
        """Remove the results of the tasks if they are joined."""
        if self.groups and os.path.exists(self.target):
            shutil.rmtree(self.folder, ignore_errors=True)


def _divide(request: Request, path: str, model: Any) -> list[tuple[int, int]]:
    """Return the row groups of the tasks of a file; none if it is one task."""
    is_other = isinstance(model, tuple) or request.is_raw
    if is_other or not path.endswith(".parquet") or os.path.getsize(path) < _LEAST:
        return []
    with closing():
        sentences, _ = request.reading.stream_like(model, path)
        layout: Any = sentences._layout
        divide = getattr(layout, "divide", None)
        return [] if divide is None else list(divide(_MOST))


def tag_task(request: Request, task: Task) -> str | None:
    """Tag one file or a part of it; runs on a worker.

    Raises
    ------
    TagloomError
        If the file is wrong; names it.
    """
    from tagloom.cli.tag import tag_file

    if task.groups is not None:
        os.makedirs(os.path.dirname(task.output), exist_ok=True)
    remove_abandoned(task.output)
    with closing():
        try:
            model = _model(request.model, "-", request.vectors)
            return tag_file(request, task.source, task.output, model, task.groups)
        except click.ClickException as error:  # it cannot be sent to another process
            raise FormatError(error.format_message(), path=task.source) from None
        except TagloomError as error:
            if error.where is None:
                error.where = task.source
            raise


def join_task(file: Divided) -> None:
    """Join the parts of a file; runs on a worker.

    Another job may do the same at the same time, with the same result.
    """
    from tagloom.sequences.arrow import join_parquet
    from tagloom.sequences.files import open_output

    outputs = [task.output for task in file.tasks()]
    remove_abandoned(file.target)
    try:
        with open_output(file.target) as out:
            join_parquet(outputs, out)
    except OSError:
        if not os.path.exists(file.target):
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


def _check_record(request: Request, folder: str, *, resume: bool) -> str:
    """Write and return which run the folder belongs to; raise if it is resumed by another one."""
    path = os.path.join(folder, _RECORD)
    record = {
        "model": _digest(request.model),
        "options": repr(request._replace(model="", n_threads=None)),
    }
    if resume and os.path.exists(path):
        try:
            with open(path, encoding="utf-8") as file:
                found = dict(json.load(file))
        except (ValueError, TypeError, RecursionError):
            raise FormatError(
                path=path,
                expected="the record of a run",
                found="a damaged file",
                hint="Choose another folder, or tag all files again without --resume.",
            ) from None
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
    return json.dumps(record)


def _digest(model: str) -> str:
    """Return a fingerprint of a model file; of one on a server, its address."""
    import numpy as np

    if not os.path.exists(model):
        return model
    return f"{_native.hash_data(np.fromfile(model, np.uint8)):016x}"
