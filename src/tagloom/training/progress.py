"""Progress on a terminal: one line with iterations done, objective, dev score and time left."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tagloom.training.records import Record


def shows_progress(progress: bool | None) -> bool:
    """Whether to show progress: as given, or by default if stderr is a terminal."""
    return sys.stderr.isatty() if progress is None else progress


class Bar:
    """A progress bar on stderr; a listener for `tagloom.training.fit_iteratively`.

    Parameters
    ----------
    title : str
    total : int
        The largest number of iterations.
    """

    def __init__(self, title: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._progress: Any = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[reached]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(title, total=total, reached="")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, record: Record) -> None:
        """Show a record."""
        reached = f"{record.measure.replace('_', ' ')} {record.objective:,.4g}"
        if record.dev is not None:
            reached += f"  dev {record.dev:.4f}"
        self._progress.update(self._task, completed=record.iteration, reached=reached)
