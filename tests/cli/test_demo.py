"""tagloom demo, as a user and as a log file see it."""

import os
import re
import subprocess
import sys

import pytest

from tagloom.cli.demo import activation

COMMAND = [sys.executable, "-c", "from tagloom.cli import main; main()", "demo"]


@pytest.fixture(scope="module")
def out():
    done = subprocess.run(
        COMMAND, capture_output=True, text=True, encoding="utf-8", check=True,
        env={**os.environ, "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


def test_it_compares_models(out):
    assert "495 sentences, 7,266 tokens" in out
    row = r"^  (HMM|StructuredPerceptron|StructuredSVM|CRF)" + r" +([\d.]+)" * 5 + r" +([\d,]+)$"
    rows = re.findall(row, out, re.MULTILINE)
    assert [name for name, *_ in rows] == ["HMM", "StructuredPerceptron", "StructuredSVM", "CRF"]
    for _, accuracy, unknown, chunk, entity, seconds, size in rows:
        assert 85 < float(accuracy) < 99
        assert 50 < float(unknown) < float(accuracy)
        assert 60 < float(chunk) < 99
        assert 20 < float(entity) < 95
        assert 0 <= float(seconds) < 60
        assert 20 < float(size.replace(",", "")) < 2000


def test_it_explains_a_decision(out):
    assert "Why is 'can' AUX? tagger.explain(words)[1]" in out
    margin = float(re.search(r"scores ([\d.]+) less, of which", out)[1])
    part = out[out.index("of which") : out.index("Save it")]
    values = [float(v) for v in re.findall(r"^  +([+-][\d.]+)  ", part, re.MULTILINE)]
    assert len(values) == 7
    assert abs(sum(values) - margin) < 0.05


def test_it_evaluates(out):
    accuracy, low, high = re.search(
        r"105 sentences, accuracy ([\d.]+)% \(95 % between ([\d.]+)% and ([\d.]+)%\)", out
    ).groups()
    assert 85 < float(low) < float(accuracy) < float(high) < 99
    known, unknown = re.search(r"in training ([\d.]+)%, never seen ([\d.]+)%", out).groups()
    assert float(unknown) < float(known)


def test_it_tags_and_shows_how_sure_it_is(out):
    assert "  They/PRON can/AUX fish/VERB ./PUNCT\n" in out
    assert out.count("/PUNCT\n") == 3
    assert re.search(r"^AUX .*═\[0\.[89]\d\]", out, re.MULTILINE)
    probs = [float(p) for p in re.findall(r"^  PRON [A-Z ]+  (0\.\d{4})  ", out, re.MULTILINE)]
    assert probs
    assert probs == sorted(probs, reverse=True)
    assert re.search(r"PRON AUX VERB PUNCT +0\.[6-9]\d+  █{10,}", out)


def test_it_saves_and_loads(out):
    assert re.search(r"english\.tagloom, [\d,]+ kB; the loaded model predicts the same labels", out)
    assert "tagloom train crf TRAIN" in out


def test_it_is_plain_in_a_log_and_fits_a_narrow_terminal(out):
    assert "\x1b" not in out
    assert all(len(line) <= 80 and line == line.rstrip() for line in out.splitlines())


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX terminal")
@pytest.mark.parametrize("no_color", ["", pytest.param("1", marks=pytest.mark.slow)])
def test_it_is_bold_in_a_terminal_unless_asked_not_to_be(out, no_color):
    import pty

    terminal, end = pty.openpty()
    environment = {**os.environ, "NO_COLOR": no_color, "PYTHONIOENCODING": "utf-8"}
    quiet = subprocess.DEVNULL  # where progress would go
    with subprocess.Popen(COMMAND, stdout=end, stderr=quiet, env=environment) as process:
        os.close(end)
        shown = b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
        except OSError:  # Linux says so when the other end is closed
            pass
        os.close(terminal)
    assert process.returncode == 0
    text = shown.decode().replace("\r\n", "\n")
    assert ("\x1b[1m" in text) == (no_color == "")
    bare = re.sub(r"\x1b\[\d*m", "", text)

    def without_time(text):
        return re.sub(r"[\d.]+( +[\d,]+)$", r"soon\1", text, flags=re.MULTILINE)

    lines = [line.rstrip() for line in without_time(bare).splitlines()]
    assert lines == without_time(out).splitlines()


def test_it_says_how_to_find_the_commands(tmp_path, monkeypatch):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "activate").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setenv("PATH", "")
    assert activation().startswith("\n  source env/bin/activate  ")
    command = tmp_path / "tagloom"
    command.touch(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert activation() == ""
