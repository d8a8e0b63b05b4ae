"""A disk that fills up, or fails, at every write of a job: the old file or the new one stays."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from faults.jobs import JOBS, is_whole, with_old_file
from processes import IS_SANITIZED

pytestmark = [
    pytest.mark.scripts,
    pytest.mark.skipif(
        sys.platform != "linux" or IS_SANITIZED, reason="preloads a library, as the sanitizers do"
    ),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("library") / "failing_disk.so"
    source = Path(__file__).parent / "failing_disk.c"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", path, source, "-ldl"], check=True)
    return path


def run(job, folder, library, at=0):
    env = {**os.environ, "LD_PRELOAD": str(library), "FAULT_FOLDER": str(folder)}
    env |= {"FAULT_AT": str(at), "FAULT_LOG": str(folder.parent / f"{folder.name}.log")}
    return subprocess.run(
        job.command, cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("name", JOBS)
def test_every_write_fails_once(name, inputs, library, tmp_path):
    job = JOBS[name]
    with_old_file(inputs, tmp_path / "good", job)
    done = run(job, tmp_path / "good", library)
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "good.log").read_text().split()
    counts = Counter(log)
    assert counts["write"] >= 1
    assert counts["rename"] >= 1
    assert counts["fsync"] >= 1
    for at in range(1, len(log) + 1):
        folder = tmp_path / f"{at}"
        old = with_old_file(inputs, folder, job)
        done = run(job, folder, library, at)
        path = folder / job.output
        place = f"{name}, call {at} of {log}"
        if done.returncode == 0:  # only the flush of a folder may fail unnoticed: the file is there
            assert log[at - 1] == "fsync", place
            assert is_whole(path), place
        else:
            assert done.returncode == 2, (place, done.stderr)
            assert "Traceback" not in done.stderr, (place, done.stderr)
            assert done.stderr.splitlines()[-1].startswith("tagloom: "), (place, done.stderr)
            if old or path.exists():
                assert is_whole(path), place
        left = [x.name for x in folder.iterdir() if x.name.endswith(".part")]
        assert left == [], place
