"""Measure speed, size and exactness: every job of benchmarks/jobs beside its peers, in one run.

    make bench                                    # creates both environments and runs everything
    python benchmarks/run.py [--quick] [--compare] [--only JOB ...] [--data DIR] [--out DIR]
    python benchmarks/run.py --docs               # only write texts and plots from the results

tagloom and its peers take turns, each in a separate process that is pinned to one core. The best of
at least three rounds counts; the spread is (worst − best) / best. The results are printed as a
table and written with machine, commit and versions to benchmarks/results as suite.json, suite.md
and plots; those of a quick run, which uses less data, to benchmarks/results/quick. With --only, the
other jobs of the file are kept: every job records the commit and machine of its measurement.
Without --only, the instructions of the hot paths are counted too, if valgrind is installed, and
written to instructions.json.

--compare names what became slower than in the committed results by more than the measured noise:
suite.json, or quick.json for a quick run, and instructions.json. The exit code is then 1. To
accept new results of a quick run, copy results/quick/suite.json to results/quick.json.

The exit code is 1 if a contestant failed. A peer that is not installed is reported and skipped. A
missed target is reported and is not a failure.
"""

from __future__ import annotations

import argparse
import json
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from harness import (
    changes,
    children,
    corpora,
    instructions,
    jobs,
    plots,
    reports,
    results,
    runner,
)

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PAGE = ROOT / "docs" / "benchmarks.md"


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="use less data; under five minutes")
    parser.add_argument(
        "--only", nargs="+", metavar="JOB", help="run these jobs: names of files in benchmarks/jobs"
    )
    parser.add_argument(
        "--compare", action="store_true", help="name what became slower than in the results so far"
    )
    parser.add_argument("--list", action="store_true", help="list the jobs")
    parser.add_argument(
        "--data",
        type=Path,
        help="folder of corpora; by default the environment variable TAGLOOM_DATA, or else "
        "../shared/data beside the repository; if neither exists, a synthetic corpus is generated",
    )
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, at least 3; default 3")
    parser.add_argument(
        "--docs", action="store_true", help="only write texts and plots from the results"
    )
    parser.add_argument(
        "--peers",
        default=str(ROOT / ".venv-bench" / "bin" / "python"),
        help="Python of the peers' environment; by default .venv-bench/bin/python",
    )
    parser.add_argument("--jobs", type=Path, default=jobs.FOLDER, help=argparse.SUPPRESS)
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)  # for the tests
    options = parser.parse_args(arguments)
    if options.rounds < 3:
        parser.error("--rounds must be at least 3, to estimate the spread.")
    options.out = options.out or (RESULTS / "quick" if options.quick else RESULTS)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    # When terminated, end the running child process and delete the temporary folder.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse_arguments(arguments)
    names = jobs.names(options.jobs)
    if options.list:
        print("\n".join(f"{name:20} {jobs.load(name, options.jobs).job.title}" for name in names))
        return 0
    if options.docs:
        report = results.read(RESULTS / "suite.json")
        write_texts(report, RESULTS)
        PAGE.write_text(reports.write_page(report), encoding="utf-8")
        return 0
    chosen = jobs.in_order([jobs.load(name, options.jobs) for name in options.only or names])
    data = None if options.tiny else corpora.find(options.data)
    begun, failed = time.perf_counter(), False
    committed = results.read(RESULTS / ("quick.json" if options.quick else "suite.json"))["jobs"]
    committed_counts = read_counts(RESULTS)
    found: list[changes.Change] = []
    with tempfile.TemporaryDirectory() as folder:
        size = "tiny" if options.tiny else "quick" if options.quick else "full"
        corpus = corpora.prepare(data, Path(folder), size)
        print(f"corpus: {corpus}")
        settings = runner.Settings(
            Path(folder), options.jobs, options.peers, corpus, options.quick, options.rounds
        )
        for loaded in chosen:
            result = runner.run_job(loaded, settings)
            print("\n".join(runner.lines_of(loaded.name, result)), flush=True)
            failed |= any("failed" in c for c in result["contestants"].values())
            found += changes.compare_jobs(committed, {loaded.name: result})
            # Written after every job, so that an interrupted run keeps its results.
            path = options.out / "suite.json"
            report = results.merge(path, {loaded.name: result}, known=names)
            text = write_texts(report, options.out)
            if options.out == RESULTS:
                update_page(report)
    if options.only is None and not options.tiny:
        found += changes.compare_counts(committed_counts, count_instructions(options.out))
    print("\n" + text)
    if options.compare:
        print("\n".join(changes.lines_of(found)))
        failed |= any(change.is_loss for change in found)
    print(f"{len(chosen)} jobs in {time.perf_counter() - begun:.0f} s: {options.out}")
    return int(failed)


def count_instructions(out: Path) -> dict[str, float]:
    """Count the instructions of the hot paths and write them; none where that is not possible."""
    try:
        counts = instructions.count()
    except instructions.NotCounted as reason:
        print(f"instructions not counted: {reason}")
        return {}
    record = {
        "commit": runner.describe_commit(),
        "python": platform.python_version(),
        "counts": counts,
    }
    text = json.dumps(record, indent=1) + "\n"
    (out / "instructions.json").write_text(text, encoding="utf-8")
    return counts


def read_counts(folder: Path) -> dict[str, float]:
    path = folder / "instructions.json"
    return json.loads(path.read_text(encoding="utf-8"))["counts"] if path.exists() else {}


def write_texts(report: dict[str, Any], out: Path) -> str:
    """Write suite.md and the plots of the results."""
    text = reports.write_markdown(report)
    (out / "suite.md").write_text(text, encoding="utf-8")
    for name, svg in plots.draw(report).items():
        (out / name).write_text(svg, encoding="utf-8")
    return text


def update_page(report: dict[str, Any]) -> None:
    """Write the page, unless results on a synthetic corpus would replace those on a real one."""
    of_real_text = PAGE.exists() and reports.NOT_REAL not in PAGE.read_text(encoding="utf-8")
    if not (of_real_text and reports.warning(report)):
        PAGE.write_text(reports.write_page(report), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(children.main(sys.argv[2:]))
    sys.exit(main())
