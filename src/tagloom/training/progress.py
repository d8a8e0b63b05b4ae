"""Progress of training: iterations done, objective, dev score, speed and time left."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tagloom.notebooks import is_notebook

if TYPE_CHECKING:
    from tagloom.training.records import Record


def shows_progress(progress: bool | None) -> bool:
    """Whether to show progress: as given; by default on a terminal and in a notebook."""
    return sys.stderr.isatty() or is_notebook() if progress is None else progress


def make_bar(title: str, total: int, show: Speed) -> Bar | Line:
    """Make what shows progress here: in a notebook a line of text, else a bar."""
    kind = Line if is_notebook() else Bar
    return kind(title, total, show)


def show_record(record: Record) -> str:
    """Return the objective and the development score of a record."""
    reached = f"{record.measure.replace('_', ' ')} {record.objective:,.4g}"
    return reached if record.dev is None else f"{reached}  dev {record.dev:.4f}"


class Speed:
    """Shows records with the number of training tokens per second since the record before.

    The time of development scores counts.

    Parameters
    ----------
    n_tokens : int, optional
        Number of tokens of the training data; without it, no speed is shown.
    details : callable, optional
        Returns what else is to be shown, such as the time of exchanges.

    Examples
    --------
    >>> from tagloom.training import Record
    >>> show = Speed(n_tokens=3000)
    >>> show(Record(1, 120.5, None, 0.9, True, 1, 0.1))
    'loss 120.5  dev 0.9000  30,000 tokens/s'
    """

    def __init__(
        self, n_tokens: int | None = None, details: Callable[[], str] | None = None
    ) -> None:
        self._n_tokens, self._details, self._seconds = n_tokens, details, 0.0

    def __call__(self, record: Record) -> str:
        """Return what a record has reached."""
        spent, self._seconds = record.seconds - self._seconds, record.seconds
        parts = [show_record(record)]
        if self._n_tokens is not None and spent > 0:
            parts.append(f"{self._n_tokens * record.n_evaluations / spent:,.0f} tokens/s")
        if self._details is not None:
            parts.append(self._details())
        return "  ".join(parts)


class Line:
    """A line on stderr that is rewritten after each iteration, as notebooks show it.

    Parameters
    ----------
    title : str
    total : int
        The largest number of iterations.
    show : Speed, optional
    """

    def __init__(self, title: str, total: int, show: Speed | None = None) -> None:
        self._title, self._total, self._show = title, total, show or Speed()

    def __enter__(self) -> Line:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        print(file=sys.stderr)

    def __call__(self, record: Record) -> None:
        """Show a record."""
        left = record.seconds / record.iteration * (self._total - record.iteration)
        line = f"{self._title} {record.iteration}/{self._total}  {self._show(record)}"
        print(f"\r{line}  {left:.0f} s left ", end="", file=sys.stderr, flush=True)


class Lines:
    """A line on stderr for each iteration: ``fit(verbose=True)``."""

    def __init__(self, title: str, show: Speed | None = None) -> None:
        self._title, self._show = title, show or Speed()

    def __call__(self, record: Record) -> None:
        """Print a record."""
        line = f"{self._title} {record.iteration}  {self._show(record)}  {record.seconds:.1f} s"
        print(line, file=sys.stderr, flush=True)


class Bar:
    """A progress bar on stderr; a listener for `tagloom.training.fit_iteratively`.

    Parameters
    ----------
    title : str
    total : int
        The largest number of iterations.
    show : Speed, optional
    """

    def __init__(self, title: str, total: int, show: Speed | None = None) -> None:
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
        self._show = show or Speed()
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
        self._progress.update(self._task, completed=record.iteration, reached=self._show(record))
