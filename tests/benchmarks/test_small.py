"""The benchmark of small corpora, on the corpus of the package."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.scripts

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "small.py"


def test_the_english_corpus_needs_no_data(tmp_path):
    command = [sys.executable, SCRIPT, "--sets", "english", "persons", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={})
    assert "persons was skipped: no probablepeople" in done.stdout
    *_, row = (tmp_path / "small.md").read_text(encoding="utf-8").splitlines()
    _, title, used, tokens, crf, *_ = (cell.strip() for cell in row.split("|"))
    assert (title, used, tokens) == ("English corpus", "yes", "7,266")
    assert 85 < float(crf) < 100
