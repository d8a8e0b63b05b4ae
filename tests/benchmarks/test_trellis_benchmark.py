"""The benchmark of the trellis: it runs, has every row, and compares answers before times."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.scripts

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "trellis.py"
MODULES = {"hmmlearn": "hmmlearn", "pytorch-crf": "torchcrf", "torch-struct": "torch_struct"}
JOBS_OF = {
    "hmmlearn": {"viterbi", "log_partition", "marginals"},
    "pytorch-crf": {"viterbi", "loss_gradient"},
    "torch-struct": {"log_partition", "marginals"},
}
JOBS = ["viterbi", "log_partition", "marginals", "nbest", "sample", "entropy", "loss_gradient"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Printed text, Markdown and JSON of a tiny run."""
    out = tmp_path_factory.mktemp("results")
    options = ["--quick", "--labels", "3", "--tokens", "400", "--threads", "2", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    markdown = (out / "trellis.md").read_text(encoding="utf-8")
    return done.stdout, markdown, json.loads((out / "trellis.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("trellis_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_job_has_rates_of_one_thread_and_of_several(run):
    _, _, report = run
    ours = [r for r in report["rates"] if r["contestant"] == "tagloom"]
    assert {(r["job"], r["dtype"], r["threads"]) for r in ours} == {
        (job, dtype, n) for job in JOBS for dtype in ("float32", "float64") for n in (1, 2)
    }
    for record in ours:
        assert record["labels"] == 3
        assert record["tokens_per_second"] > 0
        assert record["seconds"] == min(record["turns"])
        has_bound = record["job"] not in ("nbest", "sample", "entropy")
        assert (record["share_of_peak"] is not None) == has_bound


@pytest.mark.parametrize("peer", MODULES)
def test_a_peer_has_rates_or_a_reason(run, peer):
    _, _, report = run
    records = [r for r in report["rates"] if r["contestant"] == peer]
    assert {r["job"] for r in records} == JOBS_OF[peer]
    missing = importlib.util.find_spec(MODULES[peer]) is None
    for record in records:
        assert record.get("note") == ("not installed" if missing else None)
        assert ("tokens_per_second" in record) != missing


def test_every_goal_is_answered(run):
    _, _, report = run
    goals = report["goals"]
    assert len(goals) == 12
    for goal in goals:
        assert goal["target"] > 0
        assert (goal["met"] is None) == (goal["value"] is None) == ("note" in goal)
    assert any("hmmlearn" in goal["goal"] and goal["value"] for goal in goals)


def test_what_is_printed_is_what_is_written(run):
    printed, markdown, report = run
    assert printed.strip() == markdown.strip()
    rows = [[cell.strip() for cell in line.split("|")] for line in printed.splitlines()]
    jobs = [row[1:4] for row in rows if len(row) > 4 and row[1] in JOBS]
    assert jobs == [[job, "3", dtype] for job in JOBS for dtype in ("float32", "float64")]
    for goal in report["goals"]:
        assert goal["goal"] in printed


def test_the_run_can_be_traced(run):
    printed, _, report = run
    assert report["command"].startswith("python benchmarks/trellis.py --quick --labels 3")
    assert set(report["versions"]) == {"python", "numpy", "torch", "tagloom", *MODULES}
    assert set(report["machine"]) == {"cpu", "cores", "system", "instruction_set"}
    assert set(report["peak"]) == {"float32", "float64"}
    for fact in (report["commit"], report["date"], report["machine"]["instruction_set"]):
        assert fact
        assert fact in printed


@pytest.mark.parametrize("job", ["viterbi", "log_partition", "marginals"])
def test_a_peer_that_answers_differently_is_not_timed(benchmark, job):
    peer = benchmark.Hmmlearn(benchmark.make_scores(400, 3, "float64"))
    benchmark.check_agreement(job, peer, "float64")
    peer.model.transmat_ = np.roll(peer.model.transmat_, 1, axis=1)
    with pytest.raises(AssertionError, match=f"{job} of hmmlearn"):
        benchmark.check_agreement(job, peer, "float64")


def test_our_gradient_is_that_of_our_loss(benchmark):
    """By finite differences, so that it is checked where pytorch-crf is missing too."""
    scores = benchmark.make_scores(60, 3, "float64")
    ours = benchmark.Tagloom(scores)
    _, grad_emit, grad_trans = (np.copy(part) for part in ours.loss_gradient())
    for array, grad in [(scores.emit, grad_emit), (scores.trans, grad_trans)]:
        for at in [(0, 0), (2, 1)]:
            around = []
            for step in (1e-5, -2e-5):
                array[at] += step
                around.append(ours.loss_gradient()[0])
            array[at] += 1e-5
            np.testing.assert_allclose(grad[at], (around[0] - around[1]) / 2e-5, rtol=1e-5)


def test_numbers_are_written_short(benchmark):
    assert [benchmark.count(n) for n in (7, 12_345, 456_789, 12_345_678)] == [
        "7",
        "12.3k",
        "457k",
        "12.3M",
    ]
    assert [benchmark.duration(s) for s in (1.5, 0.0123, 4.5e-6)] == ["1.5 s", "12.3 ms", "4.5 µs"]
