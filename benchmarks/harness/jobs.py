"""The declarations of a job file: its contestants and its goals.

A job is a file in benchmarks/jobs with a docstring that describes the measurement, and one `JOB`.
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
    """A function that is run in a separate process, once per round."""

    name: str
    run: Callable[[Bench], None]
    # Package or program of a peer; packages are in the peers' environment. None: tagloom.
    needs: str | None = None
    cores: int = 1  # cores that its process is pinned to
    beside: str | None = "tagloom"  # for a peer: our contestant to compare with, or None
    stands_on: Sequence[str] = ()  # dependencies whose versions are also reported


@dataclass(frozen=True)
class Goal:
    """A target for a figure; unknown if a peer is missing."""

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
    """A measurement.

    With `points`, every contestant is run at each of them; the current one is `bench.point`. A
    round goes through all points, so that points take turns too.
    """

    title: str
    contestants: Sequence[Contestant]
    goals: Sequence[Goal] = ()
    points: Sequence[float] = ()
    quick_points: Sequence[float] = ()
    point: str = ""  # the meaning of a point: "tokens", "labels"
    after: Sequence[str] = ()  # jobs whose models it reuses if they are run too
    rounds: int | None = None  # set to 1 for correctness, which does not vary
    section: str = SIDE
    compares_memory: bool = False  # whether peaks of the processes are comparable


@dataclass(frozen=True)
class Loaded:
    """A job with the name and the docstring of its file."""

    name: str
    about: str
    job: Job


def load(name: str, folder: Path = FOLDER) -> Loaded:
    """Import a job file."""
    path = folder / f"{name}.py"
    if not path.exists():
        existing = ", ".join(names(folder))
        raise SystemExit(f"unknown job {name!r}; {folder.name}/ has: {existing}")
    spec = importlib.util.spec_from_file_location(f"job_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Loaded(name, (module.__doc__ or "").strip(), module.JOB)


def names(folder: Path = FOLDER) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py"))


def in_order(jobs: Iterable[Loaded]) -> list[Loaded]:
    """Sort jobs so that those which reuse models of others come after them."""
    return sorted(jobs, key=lambda loaded: (bool(loaded.job.after), loaded.name))
