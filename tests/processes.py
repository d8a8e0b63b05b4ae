"""Code in processes of its own: what must come to its end, and what has little memory."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

IS_SANITIZED = "TAGLOOM_NATIVE" in os.environ

BEGIN = """
import conftest  # which chooses the build that is tested

def limit(more):  # to so many bytes of memory more than there are now; None: to none
    import resource
    from pathlib import Path
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    now = most if more is None else pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (now, most))
"""
needs_limits = pytest.mark.skipif(
    sys.platform != "linux" or IS_SANITIZED,
    reason="reads /proc/self/statm; the sanitizers need memory without limits",
)


def run(*code):
    """Run pieces of code in a process of its own; return what it prints."""
    return subprocess.run(
        [sys.executable, "-c", BEGIN + "".join(map(textwrap.dedent, code))],
        cwd=Path(__file__).parent,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
