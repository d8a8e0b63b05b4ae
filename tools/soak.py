"""Use taggers for an hour as a service would, and watch memory and results. `make soak` runs this.

python tools/soak.py [--minutes 60]

Every round trains a tagger, learns more sentences in place, saves it, loads it again, and tags from
eight threads at once. The labels must be those of the first round. The slope of the resident memory
after a warm-up of a tenth of the time is printed; above 1 MB per hour the exit code is 1.
"""

from __future__ import annotations

import argparse
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
MOST = 1.0  # MB per hour


def main() -> None:
    """Run rounds until the time is over, then report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    end = parser.parse_args().minutes * 60
    train = tl.datasets.load("english", "train", label="upos")[:200]
    test = tl.datasets.load("english", "test", label="upos")[:60].tokens
    began, samples, expected, n = time.monotonic(), [], None, 0
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
    hours, memory = np.array(samples[len(samples) // 10 :]).T
    slope = np.polyfit(hours, memory, 1)[0] if len(hours) > 2 else float("nan")
    print(
        f"{n} rounds in {end / 60:.0f} minutes, same labels in each; memory {memory[0]:.1f} to "
        f"{memory[-1]:.1f} MB, slope {slope:+.2f} MB/h"
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
