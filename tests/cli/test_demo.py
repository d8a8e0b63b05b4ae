"""tagloom demo, as a user and as a log file see it."""

import os
import re
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", "from tagloom.cli import main; main()", "demo"]


def plain_demo():
    done = subprocess.run(
        COMMAND, capture_output=True, text=True, encoding="utf-8", check=True,
        env={**os.environ, "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


def test_it_shows_the_worked_example():
    out = plain_demo()
    assert "best path (score -10): N V N" in out
    assert re.search(r"N V N +-10 +0\.8649", out)
    assert re.search(r"N V V +-12 +0\.1171", out)
    assert re.search(r"N +1\.0000 +0\.0180 +0\.8671", out)
    assert re.search(r"forced=\{2: 'V'\}\)\n +N V V +-12 +0\.8807", out)


def test_it_checks_the_shipped_corpus():
    out = plain_demo()
    assert re.search(r"train +495 sentences +7,266 tokens +17 parts of speech +nothing wrong", out)
    assert out.count("nothing wrong") == 3


def test_it_is_plain_in_a_log_and_fits_a_narrow_terminal():
    out = plain_demo()
    assert "\x1b" not in out
    assert all(len(line) <= 80 and line == line.rstrip() for line in out.splitlines())


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX terminal")
@pytest.mark.parametrize("no_color", ["", "1"])
def test_it_is_bold_in_a_terminal_unless_asked_not_to_be(no_color):
    import pty

    terminal, end = pty.openpty()
    environment = {**os.environ, "NO_COLOR": no_color, "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(COMMAND, stdout=end, stderr=end, env=environment) as process:
        os.close(end)
        out = b""
        try:
            while part := os.read(terminal, 4096):
                out += part
        except OSError:  # Linux says so when the other end is closed
            pass
        os.close(terminal)
    assert process.returncode == 0
    text = out.decode().replace("\r\n", "\n")
    assert ("\x1b[1m" in text) == (no_color == "")
    bare = re.sub(r"\x1b\[\d*m", "", text)
    assert [s.rstrip() for s in bare.splitlines()] == plain_demo().splitlines()
