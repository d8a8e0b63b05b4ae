"""Run the programs for libFuzzer one after another, each within a time budget; report executions.

python tests/native/fuzz.py FOLDER [--seconds S] [READER ...]. FOLDER has the programs; `make
fuzz-native` builds them. An input that causes a fault is saved in the current folder: reduce it and
add it to `corpus/READER`, with which every run begins.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def main() -> None:
    """Run each program on a copy of its corpus."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("readers", nargs="*")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="copy what widens the coverage to this folder")
    options = parser.parse_args()
    total, n_faults = 0, 0
    for reader in options.readers or sorted(path.name for path in CORPUS.iterdir()):
        with tempfile.TemporaryDirectory() as name:
            corpus = shutil.copytree(CORPUS / reader, Path(name, "corpus"))
            command = [options.folder / f"fuzz_{reader}", f"-max_total_time={options.seconds}"]
            command += ["-rss_limit_mb=2048", "-timeout=20", "-max_len=65536"]
            command += [f"-artifact_prefix=fault-{reader}-", corpus]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
            if options.keep:
                kept = options.keep / reader
                kept.mkdir(parents=True, exist_ok=True)
                merge = [command[0], "-merge=1", kept, corpus]
                subprocess.run(merge, check=True, capture_output=True)
        runs = max((int(n) for n in re.findall(r"^(?:Done |#)(\d+)", done.stderr, re.M)), default=0)
        total += runs
        n_faults += done.returncode != 0
        print(f"{reader:<12}{runs:>12,} executions", end="  ", flush=True)
        last = "\n".join(done.stderr.splitlines()[-25:])
        print(f"FAULT\n{last}" if done.returncode else "no fault")
    print(f"{total:,} executions, {n_faults} readers with a fault")
    sys.exit(n_faults > 0)


if __name__ == "__main__":
    main()
