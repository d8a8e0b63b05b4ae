"""How fast, how large, how exact? Every job of benchmarks/jobs beside its peers, in one run.

    make bench                                    # makes both environments and runs all of it
    python benchmarks/run.py [--quick] [--only JOB ...] [--data DIR] [--out DIR]
    python benchmarks/run.py --docs               # only write texts and plots from the results

A job and its peers take turns, each in a process of its own that is pinned to one core; the best
of at least three rounds counts, and the spread is (worst − best) / best. One table is printed, and
written with machine, commit and versions as suite.json, suite.md and plots to benchmarks/results; a
quick run goes to benchmarks/results/quick, since it uses less data. With --only, the other jobs of
the file stay as they are: every job says by itself which commit and machine it was measured on.

The exit code is 1 if a contestant failed. A peer that is not installed is said and skipped, and a
target that is missed is said and no failure.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from harness import children, corpora, jobs, plots, reports, results, runner

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PAGE = ROOT / "docs" / "benchmarks.md"


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="less data; under five minutes")
    parser.add_argument(
        "--only", nargs="+", metavar="JOB", help="names of files in benchmarks/jobs"
    )
    parser.add_argument("--list", action="store_true", help="name the jobs")
    parser.add_argument(
        "--data",
        type=Path,
        help="folder of corpora; by default the environment variable TAGLOOM_DATA, or else "
        "../shared/data beside the repository; if neither is there, a synthetic corpus is drawn",
    )
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--rounds", type=int, default=3, help="at least 3; default 3")
    parser.add_argument(
        "--docs", action="store_true", help="write texts and plots again, run nothing"
    )
    parser.add_argument(
        "--peers",
        default=str(ROOT / ".venv-bench" / "bin" / "python"),
        help="the Python that has the peers; by default .venv-bench/bin/python",
    )
    parser.add_argument("--jobs", type=Path, default=jobs.FOLDER, help=argparse.SUPPRESS)
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)  # for the tests
    found = parser.parse_args(arguments)
    if found.rounds < 3:
        parser.error("--rounds must be at least 3: a single time says nothing of its spread.")
    found.out = found.out or (RESULTS / "quick" if found.quick else RESULTS)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    # Ended from outside, it ends the process that it waits for, and clears its folder away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse_arguments(arguments)
    known = jobs.names(options.jobs)
    if options.list:
        print("\n".join(f"{name:20} {jobs.load(name, options.jobs).job.title}" for name in known))
        return 0
    if options.docs:
        report = results.read(RESULTS / "suite.json")
        write_texts(report, RESULTS)
        PAGE.write_text(reports.write_page(report), encoding="utf-8")
        return 0
    chosen = jobs.in_order([jobs.load(name, options.jobs) for name in options.only or known])
    data = None if options.tiny else corpora.find(options.data)
    begun, failed = time.perf_counter(), False
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
            failed |= any("failed" in found for found in result["contestants"].values())
            # Written after every job: what was measured stays when a run is broken off.
            path = options.out / "suite.json"
            report = results.merge(path, {loaded.name: result}, known=known)
            text = write_texts(report, options.out)
            if options.out == RESULTS:
                update_page(report)
    print("\n" + text)
    print(f"{len(chosen)} jobs in {time.perf_counter() - begun:.0f} s: {options.out}")
    return int(failed)


def write_texts(report: dict[str, Any], out: Path) -> str:
    """Write suite.md and the plots of the results."""
    text = reports.write_markdown(report)
    (out / "suite.md").write_text(text, encoding="utf-8")
    for name, svg in plots.draw(report).items():
        (out / name).write_text(svg, encoding="utf-8")
    return text


def update_page(report: dict[str, Any]) -> None:
    """Write the page, unless figures of a synthetic corpus would replace those of a real one."""
    of_real_text = PAGE.exists() and reports.NOT_REAL not in PAGE.read_text(encoding="utf-8")
    if not (of_real_text and reports.warning(report)):
        PAGE.write_text(reports.write_page(report), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(children.main(sys.argv[2:]))
    sys.exit(main())
