"""The server as a program: signals, workers, mistakes, and the short forms of the checks.

`make test-serve` runs this file; `make test` runs only what takes a second.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import commands
from serving import Program, ask
from tagloom.serve.registry import INTERVAL

CHECKS = Path(__file__).parents[2] / "benchmarks" / "serving" / "checks.py"
NAMES = re.findall(r'"""(V\d+):', CHECKS.read_text(encoding="utf-8"))


@pytest.mark.serve
@pytest.mark.parametrize("name", NAMES)
def test_check(name):
    """Each check is a program: its client has hundreds of connections of its own."""
    done = subprocess.run(
        [sys.executable, CHECKS, name], capture_output=True, text=True, timeout=100, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.serve
def test_the_embedded_taggers_are_served_without_a_file():
    with Program() as program:
        address = f"127.0.0.1:{program.port}"
        names = [m["name"] for m in ask(address, "/v1/models")[2]["models"]]
        assert names == ["pos", "chunk", "ner"]
        assert ask(address, "/v1/tag", {"texts": ["They can fish."]})[0] == 200
        assert program.stop(signal.SIGINT) == 0
    assert program.errors == []


@pytest.mark.serve
@pytest.mark.parametrize("n_workers", [1, 2])
def test_hangup_looks_at_files_that_seem_unchanged(tmp_path, taggers, n_workers):
    path = tmp_path / "m.tagloom"
    taggers["pos"].save(path)
    with Program(path, "--workers", n_workers, "--drain-delay", 0) as program:
        address = f"127.0.0.1:{program.port}"
        times = path.stat().st_atime_ns, path.stat().st_mtime_ns
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            file.write(b"damaged")
        os.utime(path, ns=times)
        time.sleep(2 * INTERVAL)
        assert count_refused(address) == 0
        program.process.send_signal(signal.SIGHUP)
        ending = time.monotonic() + 20
        while count_refused(address) == 0 and time.monotonic() < ending:
            assert ask(address, "/v1/tag", {"sentences": [["They"]]})[0] == 200
        assert count_refused(address) == 1
        assert program.stop() == 0


def count_refused(address):
    """Return how many files were refused."""
    text = ask(address, "/metrics")[2].decode()
    return float(re.search(r'^tagloom_reloads_total\{.*"refused"\} (.*)$', text, re.MULTILINE)[1])


def test_mistakes_are_one_line(tmp_path):
    (tmp_path / "bad.tagloom").write_bytes(b"garbage")
    for arguments, words in (
        (["missing.tagloom"], "missing.tagloom: No such file"),
        (["bad.tagloom", "--port", "0", "--workers", "2"], "expected a tagloom model"),
        (["--host", "0.0.0.0"], "pass --token-file FILE, or --insecure"),
        (["--token-file", "missing"], "missing: No such file"),
        (["--max-body", "much"], "is not a size"),
        (["--host", "192.0.2.1", "--insecure"], "--host must be an address of this machine"),
    ):
        done = commands.run(tmp_path, "serve", "--port", "0", *arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        lines = [line for line in done.stderr.splitlines() if line]
        assert len(lines) == 1, done.stderr
        assert words in lines[0]
