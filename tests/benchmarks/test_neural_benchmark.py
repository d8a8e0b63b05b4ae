"""The benchmark of networks: every cell is stored at once, and those of other runs are kept."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

import tagloom as tl

pytest.importorskip("torch")
pytest.importorskip("pycrfsuite")
pytestmark = pytest.mark.peers

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark():
    sys.path.insert(0, str(FOLDER))  # the script imports the one of accuracy
    try:
        spec = importlib.util.spec_from_file_location("neural_benchmark", FOLDER / "neural.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a tiny corpus, named as the real one is."""
    root = tmp_path_factory.mktemp("corpora")
    corpus = tl.datasets.synthetic(60, n_labels=4, vocabulary=100)
    (root / "ud-english-ewt").mkdir()
    for k, part in enumerate(["train", "dev", "test"]):
        some = corpus[20 * k : 20 * k + 20]
        tl.write(some, root / "ud-english-ewt" / f"{part}.conllu", "conllu", label="upos")
    return root


def test_a_run_keeps_the_cells_of_other_runs(benchmark, data, tmp_path):
    common = ["--data", str(data), "--epochs", "1", "--out", str(tmp_path)]
    benchmark.main([*common, "--models", "network", "--seeds", "0", "1"])
    benchmark.main([*common, "--models", "linear", "network", "--seeds", "1"])
    rows = json.loads((tmp_path / "neural.json").read_text(encoding="utf-8"))["rows"]
    cells = [(row["model"], row["corpus"], row["seed"]) for row in rows]
    assert cells == [
        ("network", "ewt-upos", 0),
        ("linear", "ewt-upos", 1),
        ("network", "ewt-upos", 1),
    ]
    assert [row["attributes"] > 0 for row in rows] == [False, True, False]
    assert len({row["commit"] for row in rows}) == 1
    text = (tmp_path / "neural.md").read_text(encoding="utf-8")
    assert "| network | ewt-upos | 2 |" in text


def test_a_run_that_fails_keeps_its_finished_cells(benchmark, data, tmp_path, monkeypatch):
    run = benchmark.run

    def fail_at_seed_1(model, task, seed, options):
        if seed == 1:
            raise KeyboardInterrupt
        return run(model, task, seed, options)

    monkeypatch.setattr(benchmark, "run", fail_at_seed_1)
    options = ["--models", "network", "--seeds", "0", "1", "--epochs", "1"]
    with pytest.raises(KeyboardInterrupt):
        benchmark.main(["--data", str(data), "--out", str(tmp_path), *options])
    rows = json.loads((tmp_path / "neural.json").read_text(encoding="utf-8"))["rows"]
    assert [row["seed"] for row in rows] == [0]


def test_development_scores_are_not_stored(benchmark, data, tmp_path, capsys):
    benchmark.main(
        [
            "--data",
            str(data),
            "--models",
            "network",
            "--epochs",
            "1",
            "--dev-only",
            "--out",
            str(tmp_path),
        ]
    )
    assert not list(tmp_path.iterdir())
    assert "| network | ewt-upos | 1 | 1 |" in capsys.readouterr().out
