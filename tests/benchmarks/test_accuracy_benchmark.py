"""The benchmark of accuracy: it finds corpora, chooses the peer on dev, writes what it found."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

import tagloom as tl

pytestmark = pytest.mark.scripts

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "accuracy.py"
needs_taggers = pytest.mark.skipif(not hasattr(tl, "CRF"), reason="this tagloom has no taggers yet")


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("accuracy_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a tiny corpus of words and one of spans, named as the real ones are."""
    root = tmp_path_factory.mktemp("corpora")
    words = tl.datasets.synthetic(160, n_labels=4, vocabulary=100)
    spans = tl.datasets.synthetic(160, kind="bio", n_labels=3, vocabulary=100)
    for folder, suffix, corpus in [
        ("ud-english-ewt", "conllu", words),
        ("wnut17-ner", "tsv", spans),
    ]:
        (root / folder).mkdir()
        for part, some in [
            ("train", corpus[:100]),
            ("dev", corpus[100:130]),
            ("test", corpus[130:]),
        ]:
            options = {"columns": ["token", "label"], "sep": "\t"} if suffix == "tsv" else {}
            form = "conll" if suffix == "tsv" else "conllu"
            tl.write(some, root / folder / f"{part}.{suffix}", form, **options)
    return root


def run(benchmark, data, out, *options):
    benchmark.main(["--data", str(data), "--quick", "--out", str(out), *options])
    return json.loads((out / "accuracy.json").read_text(encoding="utf-8"))


@needs_taggers
def test_every_contestant_has_scores_with_intervals(benchmark, data, tmp_path):
    report = run(benchmark, data, tmp_path, "--corpora", "ewt-upos", "wnut17")
    assert [r["corpus"] for r in report["results"]] == ["ewt-upos", "wnut17"]
    for result in report["results"]:
        *ours, peer = result["contestants"]
        assert [one["contestant"] for one in ours] == ["tagloom CRF", "tagloom perceptron"]
        assert "p_value" not in peer["test"]
        for one in [*ours, peer]:
            for part in ("dev", "test"):
                low, high = one[part]["interval"]
                assert low <= one[part]["score"] <= high
            assert one["seconds"] > 0
        for one in ours:
            assert 0 < one["test"]["p_value"] <= 1
            assert one["test"]["score"] > 0.5


@needs_taggers
def test_what_is_written_has_every_score_and_goal(benchmark, data, tmp_path, capsys):
    report = run(benchmark, data, tmp_path, "--corpora", "ewt-upos", "uner-ewt")
    printed = capsys.readouterr().out
    assert printed.strip() == (tmp_path / "accuracy.md").read_text(encoding="utf-8").strip()
    assert len(report["goals"]) == 4
    for goal in report["goals"]:
        assert goal["goal"] in printed
    (result,) = report["results"]
    for one in result["contestants"]:
        assert benchmark.percent(one["test"]) in printed
    assert "uner-ewt: no " in printed
    assert str(data) not in report["command"]


@needs_taggers
def test_dev_only_leaves_the_test_file_unread(benchmark, data, tmp_path, monkeypatch):
    read = []
    real = tl.read
    monkeypatch.setattr(tl, "read", lambda path, **o: read.append(path.name) or real(path, **o))
    report = run(benchmark, data, tmp_path, "--corpora", "wnut17", "--dev-only")
    assert read == ["train.tsv", "dev.tsv"]
    assert all("test" not in one for one in report["results"][0]["contestants"])


def test_without_corpora_it_says_so(benchmark, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("TAGLOOM_DATA", raising=False)
    benchmark.main(["--out", str(tmp_path)])
    assert "pass --data DIR or set TAGLOOM_DATA" in capsys.readouterr().out
    benchmark.main(["--data", str(tmp_path / "none"), "--out", str(tmp_path)])
    assert "Nothing was measured" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_the_peer_learns_from_its_features(benchmark, data):
    task = next(task for task in benchmark.TASKS if task.name == "wnut17")
    corpora = {part: task.read(data, part) for part in benchmark.PARTS}
    peer = benchmark.peer_contestants()[-1]
    predicted = benchmark.train_and_predict(peer, task, corpora).predicted["test"]
    assert tl.evaluate(corpora["test"], predicted).f1 > 0.5


def test_features_of_the_peer_are_the_usual_ones(benchmark):
    features = benchmark.word_features(["The", "NATO", "met"], ["DT", "NNP", "VBD"], 1)
    assert features == {
        "bias": 1.0,
        "lower": "nato",
        "suffix3": "ATO",
        "suffix2": "TO",
        "isupper": True,
        "istitle": False,
        "isdigit": False,
        "pos": "NNP",
        "pos2": "NN",
        "-1:lower": "the",
        "-1:istitle": True,
        "-1:isupper": False,
        "-1:pos": "DT",
        "-1:pos2": "DT",
        "+1:lower": "met",
        "+1:istitle": False,
        "+1:isupper": False,
        "+1:pos": "VBD",
        "+1:pos2": "VB",
    }
    assert benchmark.word_features(["."], None, 0).keys() >= {"BOS", "EOS"}


def test_a_goal_is_met_at_its_target(benchmark):
    def result(*scores):
        return {
            "corpus": "ewt-upos",
            "contestants": [{"seconds": 15, "test": {"score": score}} for score in scores],
        }

    met = [goal["met"] for goal in benchmark.find_goals([result(0.95, 0.9485, 0.95)], "test")]
    assert met == [True, True, True, True]
    met = [goal["met"] for goal in benchmark.find_goals([result(0.9499, 0.947, 0.95)], "test")]
    assert met == [False, True, False, False]
