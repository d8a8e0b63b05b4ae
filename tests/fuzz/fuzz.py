"""Search for faults with coverage feedback, one process per target. `make fuzz` runs this.

python tests/fuzz/fuzz.py [--seconds S] [TARGET ...]

Needs atheris. Prints executions and the result of each target; an input that causes a fault is
saved as fault-TARGET-… in the current folder: reduce it, and add it to `cases/TARGET`.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FunctionType

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

MEMORY = 2048  # MB of one process
SLOW = 20  # seconds of CPU time of one input
HANG = 300  # seconds of one input by the clock: the machine may be busy or paused


def fuzz(name: str, seconds: int) -> None:
    """Fuzz one target in this process; the engine ends the process."""
    import atheris
    import targets

    target, seeds = targets.TARGETS[name]
    inputs = [*seeds(), *(path.read_bytes() for path in (targets.CASES / name).glob("*"))]
    for data in inputs:  # imports what the target needs
        target(data)
    # In place: the import hook of atheris does not reach the modules of an editable installation.
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and str(function.__module__).startswith("tagloom"):
            atheris.instrument_func(function)

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        """Renew the checksums of half of the changed model files."""
        if seed % 2:
            return bytes(atheris.Mutate(data, max_size))
        return targets.forge(data, random.Random(seed))[:max_size]

    with tempfile.TemporaryDirectory() as folder:
        for data in inputs:
            Path(folder, hashlib.sha1(data).hexdigest()).write_bytes(data)
        arguments = [sys.argv[0], folder, f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY}"]
        arguments += [f"-timeout={HANG}", "-max_len=65536", f"-artifact_prefix=fault-{name}-"]
        custom = {"custom_mutator": change} if name == "model" else {}

        def timed(data: bytes) -> None:
            began = time.process_time()
            target(data)
            assert (took := time.process_time() - began) < SLOW, f"{took:.0f} s"

        atheris.Setup(arguments, timed, **custom)
        atheris.Fuzz()


def main() -> None:
    """Run the targets one after another, each within the time budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process:
        return fuzz(options.targets[0], options.seconds)
    from targets import TARGETS

    total, n_faults = 0, 0
    for name in options.targets or TARGETS:
        command = [
            sys.executable,
            __file__,
            "--in-process",
            "--seconds",
            str(options.seconds),
            name,
        ]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        runs = [int(n) for n in re.findall(r"^(?:Done |#)(\d+)", done.stderr, re.M)]
        total += max(runs, default=0)
        print(f"{name:<24}{max(runs, default=0):>10,} executions", end="  ", flush=True)
        if done.returncode:
            n_faults += 1
            said = [*done.stdout.splitlines()[-25:], *done.stderr.splitlines()[-8:]]
            print("FAULT\n" + "\n".join(line[:400] for line in said))
        else:
            print("no fault")
    print(f"{total:,} executions, {n_faults} targets with a fault")
    sys.exit(n_faults > 0)


if __name__ == "__main__":
    main()
