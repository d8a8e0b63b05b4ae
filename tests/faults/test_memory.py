"""Every native allocation of a job fails in turn: an error, and the process stays usable."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from processes import IS_SANITIZED

HERE = Path(__file__).parent
JOBS = ["tag", "marginals", "nbest", "load", "fit", "lbfgs", "read", "ngrams", "segments", "words"]
JOBS += ["trees"]
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform != "linux" or IS_SANITIZED, reason="preloads a library"),
]


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    path = tmp_path_factory.mktemp("shim") / "failing_memory.so"
    source = str(HERE / "failing_memory.cpp")
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", source, "-o", str(path)], check=True)
    return path


@pytest.mark.parametrize("job", JOBS)
def test_every_allocation_fails_once(job, shim):
    done = subprocess.run(
        [sys.executable, str(HERE / "short_of_memory.py"), job],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    print(job, found)
    assert found["allocations"] > 10
    # Neither "terminated", nor "wrong result", "another error" or "broken afterwards".
    assert found.keys() <= {"allocations", "MemoryError", "harmless"}
