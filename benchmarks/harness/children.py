"""The process of one contestant: pinned to its cores, it runs the job once and reports the results.

CPU time includes all threads of the process. Peak memory is that of the whole process, including
the interpreter and the corpus. So models that a job needs but does not measure are built in forked
processes; see `Bench.artefact`.
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

# Exit codes for the runner.
MISSING, FAILED = 3, 4


class Bench:
    """The argument of a contestant: the data, the clock, and the results."""

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
        """Time a function; repeat it for at least `least` seconds, and keep the best time.

        Garbage is collected before each call. This may take longer than a short call, so a third of
        its time counts towards `least`. A function that is too short for the clock contains a loop:
        its time is divided by `calls`.
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
        """Time a program from start to end; keep the best of several times.

        The peak memory of a contestant with commands is that of its largest command.
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
        """Record times that were measured elsewhere; `wall` is None if only CPU time is known."""
        self.measures[name] = {"cpu": cpu, "wall": wall, "units": units, "unit": unit}

    def value(self, name: str, value: Any) -> None:
        """Record a value other than a time: an accuracy, the size of a file."""
        self.values[name] = value

    # ---- files that a job needs but does not measure ---------------------------------------

    def artefact(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return a file of the run; the first process that needs it builds it in a fork."""
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
    """Return the peak memory of this process in bytes.

    ru_maxrss is at least the memory of the parent when it started this process, so the value of
    /proc is used where it exists.
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
    """Return the peak of the commands if there were any, otherwise of this process.

    A command's ru_maxrss is at least the memory of this process when it started the command, so a
    contestant with commands must stay smaller than they are.
    """
    if not bench.peak_of_commands:
        return peak_memory()
    if bench.peak_of_commands <= peak_memory():
        raise RuntimeError(
            f"the commands used no more memory than the process that started them, "
            f"{peak_memory():,} bytes, so their peak is unknown."
        )
    return bench.peak_of_commands


def main(arguments: Sequence[str]) -> int:
    """Run a contestant; both the request and the report are JSON."""
    request = json.loads(arguments[0])
    if hasattr(os, "sched_setaffinity") and request["cores"]:
        os.sched_setaffinity(0, request["cores"])
    loaded = jobs.load(request["job"], Path(request["jobs"]))
    (contestant,) = (c for c in loaded.job.contestants if c.name == request["contestant"])
    needs = contestant.needs
    if needs and importlib.util.find_spec(needs) is None and shutil.which(needs) is None:
        print(f"{needs} is not installed", file=sys.stderr)
        return MISSING
    bench = Bench(Path(request["folder"]), request["quick"], request["point"])
    try:
        contestant.run(bench)
        report = {"measures": bench.measures, "values": bench.values, "peak": peak(bench)}
    except Exception:
        traceback.print_exc()
        return FAILED
    Path(request["out"]).write_text(json.dumps(report), encoding="utf-8")
    return 0
