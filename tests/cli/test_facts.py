"""``tagloom --version``, and the manual pages."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tagloom as tl
from commands import run
from tagloom.cli.manual import manual_pages


def test_version(tmp_path):
    done = run(tmp_path, "--version")
    assert (done.returncode, done.stdout) == (0, f"tagloom, version {tl.__version__}\n")


def test_facts_for_a_report(tmp_path):
    done = run(tmp_path, "--version", "--json")
    facts = json.loads(done.stdout)
    assert facts["tagloom"] == tl.__version__
    assert facts["instruction_set"] in facts["instruction_sets"]
    assert facts["packages"]["numpy"]
    assert facts["compiler"].split()[0] in ("GCC", "clang")
    # A report must not contain names of people or of folders.
    assert "/" not in done.stdout.replace("\\/", "/").replace(facts["compiler"], "")
    assert run(tmp_path, "--json", "--version").stdout == done.stdout


def test_json_without_version(tmp_path):
    done = run(tmp_path, "--json")
    assert done.returncode == 2
    assert "--version" in done.stderr


def test_every_command_has_a_page():
    pages = manual_pages()
    assert {"tagloom.1", "tagloom-tag.1", "tagloom-train-crf.1", "tagloom-lm-train.1"} <= set(pages)
    tag = pages["tagloom-tag.1"]
    assert ".SH SYNOPSIS\n.B tagloom tag\n" in tag
    assert "\\fB\\-\\-nbest N" in tag
    assert "\\fBtagloom-train-crf\\fP(1)" in pages["tagloom-train.1"]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_pages_are_valid(tmp_path):
    """No unknown request, no unbalanced block: groff warns of both."""
    for name, page in manual_pages().items():
        checked = subprocess.run(
            ["groff", "-man", "-Tutf8", "-k", "-ww", "-z"],
            input=page,
            capture_output=True,
            text=True,
            check=True,
        )
        faults = [x for x in checked.stderr.splitlines() if "adjust line" not in x and x]
        assert faults == [], name


@pytest.mark.scripts
@pytest.mark.tree
def test_the_files_of_share_are_those_of_the_commands(tmp_path):
    """If this fails, run `make man` and commit the result."""
    # In a process of its own: other tests register models, which are commands, too.
    subprocess.run([sys.executable, "-m", "tagloom.cli.manual", tmp_path], check=True)
    assert texts_below(Path(__file__).parents[2] / "share") == texts_below(tmp_path)


def texts_below(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }
