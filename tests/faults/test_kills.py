"""Jobs that are killed at random moments: the old file or the new one is there, and complete."""

import os
import random
import subprocess
import sys
import time

import pytest

from faults.jobs import JOBS, SHARED_JOBS, is_whole, with_old_file
from processes import IS_SANITIZED

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or IS_SANITIZED, reason="the moments differ too much"
)
ALL = {**JOBS, **SHARED_JOBS}
N_KILLS = int(os.environ.get("TAGLOOM_KILLS", "200"))


def kill_at_random(name, inputs, tmp_path, n_kills):
    """Kill a job n times; return how often the new file was there already."""
    job, rng, n_new = ALL[name], random.Random(name), 0
    with_old_file(inputs, tmp_path / "good", job)
    began = time.monotonic()
    subprocess.run(job.command, cwd=tmp_path / "good", check=True, capture_output=True)
    duration = time.monotonic() - began
    for i in range(n_kills):
        folder = tmp_path / f"{i}"
        old = with_old_file(inputs, folder, job)
        process = subprocess.Popen(
            job.command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # Most of the time goes into the start of Python; the end is what writes.
        time.sleep(duration * rng.uniform(0.3, 1.1))
        process.kill()
        process.wait()
        path = folder / job.output
        if old or path.exists():
            assert is_whole(path), f"{name}, kill {i}"
            n_new += path.read_bytes() != old
    return n_new


@pytest.mark.scripts
@pytest.mark.parametrize("name", ["save", "tag", "workers"])
def test_a_few_kills(name, inputs, tmp_path):
    kill_at_random(name, inputs, tmp_path, n_kills=3)


@pytest.mark.soak
@pytest.mark.parametrize("name", ALL)
def test_two_hundred_kills(name, inputs, tmp_path):
    n_new = kill_at_random(name, inputs, tmp_path, N_KILLS)
    print(f"{name}: {N_KILLS} kills, new file {n_new} times, old file {N_KILLS - n_new} times")
    assert 0 < n_new < N_KILLS  # otherwise the moments were wrong, and nothing was tested
