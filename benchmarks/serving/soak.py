"""V9: a mixed load at a constant rate; resident memory must not grow and no descriptor may leak.

python benchmarks/serving/soak.py --minutes 60 --rate 1000
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

import load

from serving import Program


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--settle", type=float, default=10, help="minutes that are not counted")
    arguments = parser.parse_args()
    samples = []
    with Program("--drain-delay", "1") as program:
        pid = program.process.pid
        # All connections have a large request at the same time: what that takes is taken once.
        load.send(program.port, [load.LARGE], 1e6, 32, 10)
        before, began = load.cpu_of(pid), time.monotonic()
        sender = load.Sender(program.port, load.MIX, arguments.rate, 32, 60 * arguments.minutes)
        while sender.process.poll() is None:
            seconds = time.monotonic() - began
            samples.append((seconds / 60, load.memory_of(pid), load.descriptors_of(pid)))
            if len(samples) % 12 == 1:
                minutes, memory, files = samples[-1]
                print(f"{minutes:6.1f} min  {memory / 1e6:7.2f} MB  {files} files", flush=True)
            time.sleep(5)
        done = sender.result()
        cpu = load.cpu_of(pid) - before
        code = program.stop()
    kept = np.array([row for row in samples if row[0] >= arguments.settle] or samples)
    slope = float(np.polyfit(kept[:, 0] / 60, kept[:, 1] / 1e6, 1)[0])
    files = kept[:, 2]
    print(
        f"{done.sent} requests in {arguments.minutes:g} min, {done.statuses}, broken "
        f"{done.broken}, exit code {code}, {1e6 * cpu / done.sent:.0f} µs of CPU; p50 "
        f"{done.latency[0]:.2f} ms, p99 {done.latency[1]:.2f} ms"
    )
    print(
        f"after {arguments.settle:g} min: memory {kept[0, 1] / 1e6:.2f} to {kept[-1, 1] / 1e6:.2f} "
        f"MB, slope {slope:+.3f} MB/h; files {files.min():.0f} to {files.max():.0f}"
    )


if __name__ == "__main__":
    main()
