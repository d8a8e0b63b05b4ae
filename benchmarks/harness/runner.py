"""Start the processes of a job in turn, pinned to their cores, and collect their reports."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness import results
from harness.children import MISSING
from harness.jobs import Contestant, Loaded

ROOT = Path(__file__).parents[2]
COMMAND = Path(__file__).parents[1] / "run.py"
# If the first round of a contestant at one point takes more seconds, it is the only one.
LONG = 45.0
# The files that the figures depend on, from the root of the repository.
MEASURED = ("src", "CMakeLists.txt", "pyproject.toml", "benchmarks/jobs", "benchmarks/harness")
# Prevents libraries from using a second core by default; they read these when they are loaded.
ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")
}


@dataclass(frozen=True)
class Settings:
    """The settings of a run."""

    folder: Path  # of the run: corpora, models
    jobs: Path
    peers: str  # the Python of the peers' environment
    corpus: str
    quick: bool
    rounds: int


class Failed(Exception):
    """A process of a contestant failed; the message has its last line."""


class Missing(Exception):
    """A contestant cannot take part; the message has the reason."""


def run_job(loaded: Loaded, settings: Settings) -> dict[str, Any]:
    """Run a job; the failure of a contestant does not stop it."""
    begun, load = time.perf_counter(), load_average()
    job = loaded.job
    points = job.quick_points if settings.quick and job.points else job.points
    contestants: dict[str, Any] = {}
    for (name, point), found in run_turns(loaded, settings, points or (None,)).items():
        if point is None or "skipped" in found or "failed" in found:
            contestants[name] = found
        elif "failed" not in contestants.setdefault(name, {"points": {}}):
            contestants[name]["points"][results.format_point(point)] = found
    for contestant in job.contestants:
        python = settings.peers if contestant.needs else None
        contestants[contestant.name] |= {
            "version": find_version(contestant.name.split(",")[0], python),
            "stands_on": {name: find_version(name, python) for name in contestant.stands_on},
            "cores": contestant.cores,
            "beside": contestant.beside,
        }
    return {
        "title": job.title,
        "about": loaded.about,
        "section": job.section,
        "point": job.point,
        "compares_memory": job.compares_memory,
        "quick": settings.quick,
        "corpus": settings.corpus,
        "commit": describe_commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": describe_machine(),
        "python": platform.python_version(),
        "load": {"start": load, "end": load_average()},
        "seconds": time.perf_counter() - begun,
        "contestants": contestants,
        "goals": results.judge(job.goals, contestants),
    }


def run_turns(
    loaded: Loaded, settings: Settings, points: Sequence[float | None]
) -> dict[tuple[str, float | None], dict[str, Any]]:
    """Run the contestants in turn at all points, round by round."""
    turns = [(contestant, point) for point in points for contestant in loaded.job.contestants]
    reports: dict[tuple[str, float | None], list[dict[str, Any]]]
    reports = {(contestant.name, point): [] for contestant, point in turns}
    out: dict[tuple[str, float | None], dict[str, Any]] = {}
    n_rounds = 1 if loaded.job.points and settings.quick else loaded.job.rounds or settings.rounds
    for _ in range(n_rounds):
        for contestant, point in turns:
            key = contestant.name, point
            if key in out or (reports[key] and point and reports[key][0]["seconds"] > LONG):
                continue
            try:
                reports[key].append(run_child(loaded.name, contestant, settings, point))
            except Missing as reason:
                out[key] = {"skipped": str(reason)}
            except Failed as reason:
                out[key] = {"failed": str(reason)}
    return {key: out.get(key) or results.gather(reports[key]) for key in reports}


def run_child(
    job: str, contestant: Contestant, settings: Settings, point: float | None
) -> dict[str, Any]:
    """Run a contestant once, in a separate process."""
    python = settings.peers if contestant.needs else sys.executable
    if not Path(python).exists():
        raise Missing(f"{python} is missing; `make bench` creates it")
    out = settings.folder / "report.json"
    out.unlink(missing_ok=True)
    request = {
        "job": job,
        "jobs": str(settings.jobs),
        "contestant": contestant.name,
        "folder": str(settings.folder),
        "quick": settings.quick,
        "point": point,
        "cores": choose_cores(contestant.cores),
        "out": str(out),
    }
    begun = time.perf_counter()
    done = subprocess.run(
        [python, str(COMMAND), "--child", json.dumps(request)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    if done.returncode == MISSING:
        raise Missing(done.stderr.strip())
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        lines = done.stderr.strip().splitlines()
        raise Failed(lines[-1] if lines else f"exit code {done.returncode}")
    return json.loads(out.read_text(encoding="utf-8")) | {"seconds": time.perf_counter() - begun}


def environment() -> dict[str, str]:
    """Return the environment of a contestant: one thread, and no PYTHON* variables from outside.

    With PYTHONDONTWRITEBYTECODE, for instance, an import would compile all of tagloom each time,
    but not the peers, whose bytecode was written when they were installed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, **ONE_THREAD, "PYTHONNOUSERSITE": "1", "PYTHONUTF8": "1"}


def choose_cores(n: int) -> list[int]:
    """Return the last cores that this process may use: the first often serve interrupts."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    return sorted(os.sched_getaffinity(0))[-n:]


# ---- where and when --------------------------------------------------------------------


def find_version(package: str, python: str | None) -> str | None:
    """Return the version of a package in the peers' environment, or in this one."""
    if python is None:
        return importlib.metadata.version(package)
    if not Path(python).exists():
        return None
    code = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    done = subprocess.run(
        [python, "-c", code, package], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


def describe_machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    cpus = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": cpus[0] if cpus else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def describe_commit() -> str:
    """Return the commit, marked as dirty if measured files differ from it."""
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False
        )
        changed = subprocess.run(
            [*git, "status", "--porcelain", "-uno", "--", *MEASURED],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return "unknown: no git"
    if head.returncode != 0:
        return "unknown: no repository"
    return head.stdout.strip() + ("-dirty" if changed.stdout.strip() else "")


def load_average() -> list[float] | None:
    return [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None


def lines_of(name: str, result: dict[str, Any]) -> Iterator[str]:
    """Yield a short summary of a job, printed while the others still run."""
    yield f"{name}: {result['seconds']:.0f} s"
    for contestant, found in result["contestants"].items():
        for reason in ("skipped", "failed"):
            if reason in found:
                yield f"  {contestant} {reason}: {found[reason]}"
    for goal in result["goals"]:
        if goal["value"] is not None:
            sign = "≥" if goal["is_at_least"] else "≤"
            met = "met" if goal["met"] else "NOT MET"
            yield (
                f"  {goal['what']}: {goal['value']:.3g} {goal['unit']}, "
                f"target {sign} {goal['target']:g}: {met}"
            )
