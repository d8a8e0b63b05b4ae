"""The benchmark of induction: it skips without data, and scores every contestant with it."""

import importlib.util
import json
from pathlib import Path

import pytest

import tagloom as tl

pytestmark = pytest.mark.scripts

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "induction.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("induction_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_data_it_measures_nothing(benchmark, tmp_path, capsys):
    benchmark.main(["--data", str(tmp_path)])
    assert "Nothing was measured" in capsys.readouterr().out


def test_dictionaries_are_scored_on_both_settings(benchmark, tmp_path):
    corpus = tl.datasets.synthetic(60, n_labels=4, vocabulary=80)
    path = tmp_path / benchmark.EWT
    path.parent.mkdir()
    tl.write(corpus, path, "conllu")
    benchmark.main(
        ["--data", str(tmp_path), "--quick", "--parts", "dictionary", "--out", str(tmp_path)]
    )
    report = json.loads((tmp_path / "induction.json").read_text(encoding="utf-8"))
    rows = report["dictionary, UPOS"]
    assert len(rows) == 6
    assert all(20 < row["accuracy"] <= 100 for row in rows)
