"""The benchmarks of orders and of the whole family: committed tables are those of their numbers."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.scripts

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
NEEDS = {"orders": "ocr-letters", "family": "ud-english-ewt"}


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NEEDS)
def test_the_committed_table_is_that_of_the_committed_numbers(name):
    results = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert load(name).show(results) in (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def test_the_docs_show_the_numbers_of_the_orders():
    page = (ROOT / "docs" / "decoding.md").read_text(encoding="utf-8")
    for row in json.loads((RESULTS / "orders.json").read_text(encoding="utf-8")):
        assert f" {100 * row['score']:.2f} " in page


@pytest.mark.parametrize("name", NEEDS)
def test_without_the_corpora_it_says_which_is_missing(name, tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"has no folder {NEEDS[name]}" in done.stderr
    assert len(done.stderr.splitlines()) == 1
