"""What a job file declares: who takes part, and what is promised.

A job is a file in benchmarks/jobs with a docstring that says what is measured, and one `JOB`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.children import Bench
    from harness.results import Found

FOLDER = Path(__file__).parents[1] / "jobs"
SECTIONS = SIDE, GROWTH, EXACT = ("Side by side", "How it grows", "What is exact")


@dataclass(frozen=True)
class Contestant:
    """A function that is run in a process of its own, as often as there are rounds."""

    name: str
    run: Callable[[Bench], None]
    # Package or program of a peer; packages have an environment of their own. None: tagloom.
    needs: str | None = None
    cores: int = 1  # that its process is pinned to
    beside: str | None = "tagloom"  # of a peer: which of ours it is compared with; None: nobody
    stands_on: Sequence[str] = ()  # packages below it whose versions are told, too


@dataclass(frozen=True)
class Goal:
    """A figure that is promised. It is met at its target, and unknown if a peer is missing."""

    what: str
    find: Callable[[Found], float]  # raises NotMeasured
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "×"

    @property
    def target(self) -> float:
        (target,) = (x for x in (self.at_least, self.at_most) if x is not None)
        return target

    def is_met(self, value: float) -> bool:
        return value >= self.target if self.at_least is not None else value <= self.target


@dataclass(frozen=True)
class Job:
    """What is measured.

    With `points` every contestant is run for each of them, and finds the one in `bench.point`; a
    round goes through all of them, so that points take turns, too.
    """

    title: str
    contestants: Sequence[Contestant]
    goals: Sequence[Goal] = ()
    points: Sequence[float] = ()
    quick_points: Sequence[float] = ()
    point: str = ""  # what a point is: "tokens", "labels"
    after: Sequence[str] = ()  # jobs whose models it takes over, if they run too
    rounds: int | None = None  # where one is enough: a matter of correctness, not of time
    section: str = SIDE
    compares_memory: bool = False  # whether peaks of the processes are comparable


@dataclass(frozen=True)
class Loaded:
    """A job with its name, that of its file, and what its docstring says."""

    name: str
    about: str
    job: Job


def load(name: str, folder: Path = FOLDER) -> Loaded:
    """Import a job file."""
    path = folder / f"{name}.py"
    if not path.exists():
        known = ", ".join(names(folder))
        raise SystemExit(f"there is no job {name!r} in {folder.name}/; jobs are: {known}")
    spec = importlib.util.spec_from_file_location(f"job_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Loaded(name, (module.__doc__ or "").strip(), module.JOB)


def names(folder: Path = FOLDER) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py"))


def in_order(jobs: Iterable[Loaded]) -> list[Loaded]:
    """Put those that take over models of others after them."""
    return sorted(jobs, key=lambda loaded: (bool(loaded.job.after), loaded.name))
