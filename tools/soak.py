"""Use taggers for an hour as a service would, and watch memory and results. `make soak` runs this.

python tools/soak.py [--minutes 60] [--pause 0] [--arenas N]

Every round trains a tagger, learns more sentences in place, saves it, loads it again, and tags
from eight threads at once. The labels must be those of the first round. A pause between the rounds
leaves the processor to others. The resident memory is printed once a minute, and at the end its
slope after a warm-up of a tenth of the time; above 1 MB per hour the exit code is 1. `--arenas`
limits the arenas of glibc, each of which keeps freed memory; `tagloom serve` has one.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import tagloom as tl

N_THREADS = 8
M_ARENA_MAX = -8  # of mallopt(3)
MOST = 1.0  # MB per hour


def main() -> None:
    """Run rounds until the time is over, then report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--pause", type=float, default=0, help="seconds between two rounds")
    parser.add_argument("--arenas", type=int, help="most arenas of glibc")
    options = parser.parse_args()
    end = options.minutes * 60
    if options.arenas and not ctypes.CDLL(None).mallopt(M_ARENA_MAX, options.arenas):
        sys.exit("mallopt refuses the number of arenas")
    train = tl.datasets.load("english", "train", label="upos")[:200]
    test = tl.datasets.load("english", "test", label="upos")[:60].tokens
    began, samples, expected, n, n_printed = time.monotonic(), [], None, 0, 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(N_THREADS) as pool:
        path = Path(folder, "model.tagloom")
        while (at := time.monotonic() - began) < end:
            found = one_round(train, test, path, pool)
            expected = found if expected is None else expected
            if found != expected:
                sys.exit(f"round {n}: other labels than in the first round")
            gc.collect()
            samples.append((at / 3600, resident_mb()))
            n += 1
            if at // 60 >= n_printed:
                print(f"{at / 60:5.1f} min  round {n}  {samples[-1][1]:.1f} MB", flush=True)
                n_printed += 1
            time.sleep(options.pause)
    hours, memory = np.array([sample for sample in samples if sample[0] >= end / 36000]).T
    slope = np.polyfit(hours, memory, 1)[0] if len(hours) > 2 else float("nan")
    print(
        f"{n} rounds in {end / 60:.0f} minutes, same labels in each; memory after a tenth of "
        f"the time {memory[0]:.1f} MB, at the end {memory[-1]:.1f} MB, slope {slope:+.2f} MB/h; "
        f"{time.process_time():.0f} s of CPU time"
    )
    sys.exit(bool(slope > MOST))


def one_round(train: tl.Corpus, test: list[list[str]], path: Path, pool: ThreadPoolExecutor) -> str:
    """Train, learn more, save, load, tag from all threads; return everything that was predicted."""
    tagger = tl.CRF("pos", max_iterations=2).fit(train[:150])
    for i in range(150, 160):
        tagger.partial_fit(train[i : i + 1])
    tagger.save(path)
    loaded = [tl.load(path), tl.load(path, private=True)]
    parts = [test[i::N_THREADS] for i in range(N_THREADS)]
    answers = [
        list(pool.map(lambda part, model=model: model.predict(part, n_threads=1), parts))
        for model in (tagger, *loaded)
    ]
    if answers[1] != answers[0] or answers[2] != answers[0]:
        sys.exit("a loaded model predicts other labels")
    return repr(answers[0])


def resident_mb() -> float:
    """Return the resident memory of this process, in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
