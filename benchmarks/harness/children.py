"""The process of one contestant: pinned to its cores, it runs the job once and says what it found.

CPU time is that of all threads of the process. Peak memory is that of the whole process, with the
interpreter and the corpus in it, so that the models that a job only needs, and does not measure,
are made in forks of it: see `Bench.artefact`.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from harness import corpora, jobs

Result = TypeVar("Result")

# Exit codes that the runner knows.
MISSING, FAILED = 3, 4


class Bench:
    """What a contestant is given: the data, the clock, and where to put what it found."""

    def __init__(self, folder: Path, quick: bool, point: float | None) -> None:
        self.folder = folder  # shared by all processes of a run
        self.quick = quick
        self.point = point
        self.measures: dict[str, dict[str, Any]] = {}
        self.values: dict[str, Any] = {}
        self.peak_of_commands = 0

    # ---- the corpus ------------------------------------------------------------------------

    @cached_property
    def train(self) -> corpora.Part:
        return corpora.load(self.folder, "train")

    @cached_property
    def dev(self) -> corpora.Part:
        return corpora.load(self.folder, "dev")

    @cached_property
    def test(self) -> corpora.Part:
        return corpora.load(self.folder, "test")

    # ---- the clock -------------------------------------------------------------------------

    def time(
        self,
        name: str,
        function: Callable[[], Result],
        units: float = 1,
        unit: str = "",
        *,
        least: float = 0.0,
        calls: int = 1,
    ) -> Result:
        """Time a function; again until `least` seconds have gone, and the best time counts.

        To collect garbage before each call may take longer than a short one, and counts a third.
        What is too short for the clock is done in a loop: the time is divided by its `calls`.
        """
        spent, best = 0.0, (float("inf"), float("inf"))
        while True:
            began = time.perf_counter()
            gc.collect()
            spent += (time.perf_counter() - began) / 3
            wall, cpu = time.perf_counter(), time.process_time()
            result = function()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            best = (min(best[0], cpu), min(best[1], wall))
            spent += wall
            if spent >= least:
                break
        self.record(name, best[0] / calls, best[1] / calls, units, unit)
        return result

    def command(
        self,
        name: str,
        command: Sequence[str],
        units: float = 1,
        unit: str = "",
        *,
        times: int = 1,
        **options: Any,
    ) -> None:
        """Time a program from its start to its end; the best of so many times counts.

        The peak of a contestant with commands is that of the largest of them.
        """
        best = (float("inf"), float("inf"))
        for _ in range(times):
            wall = time.perf_counter()
            process = subprocess.Popen(command, **options)
            _, status, used = os.wait4(process.pid, 0)  # of this process alone, not of all so far
            wall = time.perf_counter() - wall
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                raise subprocess.CalledProcessError(process.returncode, command)
            best = (min(best[0], used.ru_utime + used.ru_stime), min(best[1], wall))
            self.peak_of_commands = max(self.peak_of_commands, largest(used))
        self.record(name, *best, units, unit)

    def record(
        self, name: str, cpu: float, wall: float | None, units: float = 1, unit: str = ""
    ) -> None:
        """Keep times that were measured elsewhere; without a wall where only CPU time is known."""
        self.measures[name] = {"cpu": cpu, "wall": wall, "units": units, "unit": unit}

    def value(self, name: str, value: Any) -> None:
        """Keep a figure that is no time: an accuracy, the size of a file."""
        self.values[name] = value

    # ---- what a job needs and does not measure ---------------------------------------------

    def artefact(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return a file of the run; the first process that asks has it made, in a fork."""
        path = self.folder / name
        if not path.exists():
            partial = self.folder / f"{name}.partial"
            process = multiprocessing.get_context("fork").Process(target=make, args=(partial,))
            process.start()
            process.join()
            if process.exitcode != 0:
                raise RuntimeError(f"making {name} failed; see above.")
            partial.rename(path)
        return path


def peak_memory() -> int:
    """Return the most bytes that this process had in memory.

    ru_maxrss is not less than what the parent had when it started this process, so that
    Linux's own mark is read where there is one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return largest(resource.getrusage(resource.RUSAGE_SELF))


def largest(used: resource.struct_rusage) -> int:
    """Return ru_maxrss in bytes."""
    return used.ru_maxrss if sys.platform == "darwin" else used.ru_maxrss * 1024


def peak(bench: Bench) -> int:
    """Return the peak of the commands, if there were any, otherwise of this process.

    A command's ru_maxrss is not less than what this process had when it started it: a contestant
    with commands must stay smaller than they are.
    """
    if not bench.peak_of_commands:
        return peak_memory()
    if bench.peak_of_commands <= peak_memory():
        raise RuntimeError(
            f"the commands took no more memory than the process that started them, "
            f"{peak_memory():,} bytes: their own peak is not known."
        )
    return bench.peak_of_commands


def main(arguments: Sequence[str]) -> int:
    """Run a contestant: what is asked for is JSON, and so is what is found."""
    asked = json.loads(arguments[0])
    if hasattr(os, "sched_setaffinity") and asked["cores"]:
        os.sched_setaffinity(0, asked["cores"])
    loaded = jobs.load(asked["job"], Path(asked["jobs"]))
    (contestant,) = (c for c in loaded.job.contestants if c.name == asked["contestant"])
    needs = contestant.needs
    if needs and importlib.util.find_spec(needs) is None and shutil.which(needs) is None:
        print(f"{needs} is not installed", file=sys.stderr)
        return MISSING
    bench = Bench(Path(asked["folder"]), asked["quick"], asked["point"])
    try:
        contestant.run(bench)
        found = {"measures": bench.measures, "values": bench.values, "peak": peak(bench)}
    except Exception:
        traceback.print_exc()
        return FAILED
    Path(asked["out"]).write_text(json.dumps(found), encoding="utf-8")
    return 0
