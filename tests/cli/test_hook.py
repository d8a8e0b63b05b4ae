"""The hook for pre-commit: which files it takes, and what its command reports."""

import re
from pathlib import Path

import pytest

from commands import run

pytestmark = pytest.mark.tree
HOOKS = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"


@pytest.fixture(scope="module")
def hook():
    """The fields of the only hook; its values are plain text on one line each."""
    rows = [line.lstrip("- ") for line in HOOKS.read_text().splitlines() if line[:1] in "- "]
    return dict(row.split(": ", 1) for row in rows)


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [
        ("data/train.conllu", True),
        ("dev.conll.gz", True),
        ("test.bio.xz", True),
        ("models/pos.tagloom", True),
        ("notes.txt", False),
        ("conllu.py", False),
    ],
)
def test_files_of_the_hook(hook, name, is_taken):
    assert bool(re.search(hook["files"], name)) is is_taken


def test_command_of_the_hook(hook, tmp_path):
    program, *words = [*hook["entry"].split(), *hook["args"].strip("[]").split(", ")]
    assert (program, hook["language"]) == ("tagloom", "python")
    (tmp_path / "good.conll").write_text("They O\nfish O\n\n")
    (tmp_path / "bad.conll").write_text("They O\nfish\n\n")
    assert run(tmp_path, *words, "good.conll").returncode == 0
    done = run(tmp_path, *words, "good.conll", "bad.conll")
    assert done.returncode == 1
    assert "bad.conll:2" in done.stdout + done.stderr
