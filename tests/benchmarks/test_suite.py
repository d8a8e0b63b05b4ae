"""The benchmark suite: its machinery on tiny jobs, and what is published of it."""

import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import tagloom as tl

pytestmark = pytest.mark.scripts

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
pytest.importorskip("resource", reason="the suite needs POSIX: processes are forked and pinned")

import run as command  # noqa: E402
from harness import (  # noqa: E402
    Bench,
    Contestant,
    Goal,
    changes,
    children,
    corpora,
    features,
    instructions,
    jobs,
    plots,
    reports,
    results,
    runner,
)

FAST = '''
"""Add numbers."""
from harness import Bench, Contestant, Goal, Job

def ours(bench):
    bench.time("sum", lambda: sum(range(1000)), 1000, "numbers")
    bench.value("accuracy", 0.9)
    bench.value("tokens", bench.train.n_tokens)

def slower(bench):
    bench.time("sum", lambda: sum(x + 0 * x for x in range(50_000)), 1000, "numbers")
    bench.value("accuracy", 0.95)

JOB = Job(
    "add",
    [Contestant("tagloom", ours), Contestant("json, slowly", slower, needs="json"),
     Contestant("nobody", slower, needs="no_such_module")],
    [Goal("times as fast", lambda found: found.times("json, slowly", "sum"), at_least=0.01),
     Goal("as fast as nobody", lambda found: found.times("nobody", "sum"), at_least=2)],
)
'''
BROKEN = '''
"""Fail."""
from harness import Bench, Contestant, Goal, Job

def ours(bench):
    raise ValueError("the bench is broken")

JOB = Job("fail", [Contestant("tagloom", ours)],
          [Goal("works", lambda found: found.cpu("tagloom", "x"), at_least=1)])
'''
GROWING = '''
"""Add more and more numbers."""
from harness import Bench, Contestant, Goal, Job
from harness.jobs import GROWTH

def ours(bench):
    bench.time("sum", lambda: sum(range(int(bench.point))), bench.point, "numbers")
    bench.artefact("made", lambda path: path.write_text("once"))

JOB = Job("grow", [Contestant("tagloom", ours)], points=[10, 1000, 1e6], quick_points=[10, 1000],
          point="numbers", section=GROWTH)
'''
COMMANDS = '''
"""Start programs."""
import sys
from harness import Bench, Contestant, Job

def ours(bench):
    bench.artefact("made", lambda path: path.write_text(str(len(b"x" * 400_000_000))))  # in a fork
    large = [sys.executable, "-c", "n = 200_000_000; b'x' * n"]
    bench.command("large", large, 200_000_000, "bytes", times=2)
    bench.command("small", [sys.executable, "-c", "pass"])

JOB = Job("start", [Contestant("tagloom", ours)])
'''


def write_jobs(folder):
    """Make a folder of job files."""
    path = folder / "jobs"
    path.mkdir()
    for name, text in [("add", FAST), ("broken", BROKEN), ("grow", GROWING)]:
        (path / f"{name}.py").write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path):
    """A folder of job files."""
    return write_jobs(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One run of all jobs: the process, and the folder of its results."""
    out = tmp_path_factory.mktemp("whole")
    return run(write_jobs(out), out), out


def run(folder, out, *options, peers=sys.executable):
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--tiny", "--jobs", str(folder)]
    command += ["--out", str(out), "--peers", peers, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8")


def read(out):
    return json.loads((out / "suite.json").read_text(encoding="utf-8"))["jobs"]


def test_a_failing_job_is_reported_and_the_others_run(whole):
    done, out = whole
    assert done.returncode == 1
    assert "tagloom failed: ValueError: the bench is broken" in done.stdout
    assert "Traceback" in done.stderr
    found = read(out)
    assert list(found) == ["add", "broken", "grow"]
    assert found["broken"]["contestants"]["tagloom"]["failed"] == "ValueError: the bench is broken"
    (goal,) = found["broken"]["goals"]
    assert goal["met"] is None
    assert "the bench is broken" in goal["note"]
    assert "points" in found["grow"]["contestants"]["tagloom"]


def test_times_memory_and_values_of_every_contestant(whole):
    job = read(whole[1])["add"]
    assert job["corpus"] == "synthetic, 20,000 tokens"
    assert job["about"] == "Add numbers."
    for name in ("tagloom", "json, slowly"):
        found = job["contestants"][name]
        for clock in ("cpu", "wall"):
            times = found["measures"]["sum"][clock]
            assert len(times["rounds"]) == 3
            assert times["best"] == min(times["rounds"])
            assert times["spread"] == pytest.approx(max(times["rounds"]) / times["best"] - 1)
        assert 1e6 < found["peak"] < 1e9
    assert job["contestants"]["tagloom"]["values"]["tokens"] == pytest.approx(16_000, abs=100)
    ours, theirs = (
        job["contestants"][name]["measures"]["sum"]["cpu"]["best"]
        for name in ("tagloom", "json, slowly")
    )
    faster = job["goals"][0]  # its target is far off: whether it is met must not depend on the load
    assert faster["met"] is True
    assert faster["value"] == pytest.approx(theirs / ours)


def test_a_missing_peer_is_reported_and_skipped(whole):
    done, out = whole
    assert "nobody skipped: no_such_module is not installed" in done.stdout
    assert read(out)["add"]["goals"][1]["met"] is None
    assert "not measured" in done.stdout


def test_without_the_environment_of_the_peers_tagloom_still_runs(folder, tmp_path):
    done = run(folder, tmp_path, "--only", "add", peers=str(tmp_path / "no" / "python"))
    assert done.returncode == 0
    assert "`make bench` creates it" in done.stdout
    (job,) = read(tmp_path).values()
    assert "measures" in job["contestants"]["tagloom"]


def test_contestants_keep_bytecode_and_have_one_thread(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    found = runner.environment()
    assert "PYTHONDONTWRITEBYTECODE" not in found
    assert "PYTHONPATH" not in found
    assert found["OMP_NUM_THREADS"] == "1"
    assert found["PATH"]


def test_what_is_printed_is_what_is_written(whole):
    done, out = whole
    text = (out / "suite.md").read_text(encoding="utf-8")
    assert text in done.stdout
    for line in ("# Benchmarks", "## Side by side", "### add (`add`)", "## How it grows"):
        assert line in text
    assert re.search(r"\| add: times as fast +\| +[\d,.]+× \| +≥ 0.01× \| +yes \|", text)


def test_growth_has_a_line_for_each_point_and_two_plots(folder, tmp_path):
    run(folder, tmp_path, "--only", "grow", "--quick")
    (job,) = read(tmp_path).values()
    assert list(job["contestants"]["tagloom"]["points"]) == ["10", "1000"]
    text = (tmp_path / "suite.md").read_text(encoding="utf-8")
    assert re.search(r"\| 1,000 +\| +[\d.]+ [nµ]s per numbers \| +[\d.]+ MB \|", text)
    for plot in ("grow-time.svg", "grow-memory.svg", "ratios.svg"):
        assert ET.parse(tmp_path / plot).getroot().tag.endswith("svg")
        svg = (tmp_path / plot).read_text(encoding="utf-8")
        assert all(x in svg for x in (job["machine"]["cpu"], job["commit"], job["date"]))
        assert plot == "ratios.svg" or f"]({plot})" in text


def test_points_take_turns_within_a_round(folder, tmp_path):
    log = tmp_path / "log"
    noted = GROWING.replace(
        'bench.artefact("made"',
        f'open({str(log)!r}, "a").write(f"{{bench.point}} "), bench.artefact("made"',
    )
    (folder / "grow.py").write_text(noted, encoding="utf-8")
    run(folder, tmp_path, "--only", "grow")
    assert log.read_text().split() == 3 * ["10", "1000", "1000000.0"]


def test_a_job_that_is_run_again_leaves_the_others(whole, folder, tmp_path):
    before = read(whole[1])
    before["grow"]["commit"] = "0123456789ab"
    (tmp_path / "suite.json").write_text(json.dumps({"jobs": before}), encoding="utf-8")
    run(folder, tmp_path, "--only", "add")
    after = read(tmp_path)
    assert after["grow"] == before["grow"]
    assert after["add"] != before["add"]
    text = (tmp_path / "suite.md").read_text(encoding="utf-8")
    assert text.count("Measured elsewhere: commit ") == 1


def test_ended_from_outside_it_ends_its_process(folder, tmp_path):
    waiting = FAST.replace(
        'bench.value("accuracy", 0.9)',
        f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); "
        "time.sleep(600)",
    )
    (folder / "add.py").write_text(waiting, encoding="utf-8")
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--tiny", "--jobs", str(folder)]
    command += ["--out", str(tmp_path), "--only", "add"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        child = int((tmp_path / "pid").read_text())
        process.terminate()
        assert process.wait(timeout=60) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_unknown_job_and_too_few_rounds_are_refused(folder, tmp_path):
    done = run(folder, tmp_path, "--only", "sub")
    assert done.returncode != 0
    assert "unknown job 'sub'; jobs/ has: add, broken, grow" in done.stderr
    done = run(folder, tmp_path, "--rounds", "1")
    assert "--rounds must be at least 3" in done.stderr


# ---- commands ------------------------------------------------------------------------------


def test_the_peak_of_commands_is_that_of_the_largest_of_them(folder, tmp_path):
    (folder / "commands.py").write_text(COMMANDS, encoding="utf-8")
    done = run(folder, tmp_path, "--only", "commands")
    assert done.returncode == 0, done.stderr
    (job,) = read(tmp_path).values()
    found = job["contestants"]["tagloom"]
    assert 200e6 < found["peak"] < 250e6
    assert list(found["measures"]) == ["large", "small"]
    assert found["measures"]["large"]["unit"] == "bytes"
    assert 0 < found["measures"]["small"]["cpu"]["best"] < 10


def test_a_command_that_fails_is_an_error(tmp_path):
    with pytest.raises(subprocess.CalledProcessError, match="exit status 7"):
        Bench(tmp_path, True, None).command("fail", [sys.executable, "-c", "raise SystemExit(7)"])


def test_a_peak_of_commands_that_may_be_that_of_their_parent_is_refused(tmp_path, monkeypatch):
    bench = Bench(tmp_path, quick=True, point=None)
    assert children.peak(bench) == pytest.approx(children.peak_memory(), rel=0.1)
    bench.peak_of_commands = 50_000_000
    monkeypatch.setattr(children, "peak_memory", lambda: 40_000_000)
    assert children.peak(bench) == 50_000_000
    monkeypatch.setattr(children, "peak_memory", lambda: 50_000_000)
    with pytest.raises(RuntimeError, match="their peak is unknown"):
        children.peak(bench)


# ---- what is published -------------------------------------------------------------------


def test_the_page_is_what_the_results_generate():
    report = results.read(BENCHMARKS / "results" / "suite.json")
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert page == reports.write_page(report), "run: python benchmarks/run.py --docs"
    text = (BENCHMARKS / "results" / "suite.md").read_text(encoding="utf-8")
    assert text == reports.write_markdown(report)
    for name, svg in plots.draw(report).items():
        assert (BENCHMARKS / "results" / name).read_text(encoding="utf-8") == svg


def test_a_synthetic_corpus_is_said_and_does_not_replace_the_page(tmp_path, monkeypatch):
    def report(*corpora):
        real = results.read(BENCHMARKS / "results" / "suite.json")["jobs"]
        found = {name: dict(job) for name, job in list(real.items())[: len(corpora)]}
        for job, corpus in zip(found.values(), corpora, strict=True):
            job["corpus"] = corpus
        return {"jobs": found}

    real, mixed = report("English EWT", "English EWT"), report("English EWT", "synthetic, 9 tokens")
    line = "**Measured on a synthetic corpus, not on real text: "
    for write in (reports.write_markdown, reports.write_page):
        assert line not in write(real)
        title = list(mixed["jobs"].values())[1]["title"]
        assert f"{line}{title}.**\n\n| target" in write(mixed)
        assert f"{line}all jobs.**\n\n| target" in write(report("synthetic, 9 tokens"))

    page = tmp_path / "page.md"
    monkeypatch.setattr(command, "PAGE", page)
    command.update_page(real)
    before = page.read_text(encoding="utf-8")
    command.update_page(mixed)
    assert page.read_text(encoding="utf-8") == before
    page.write_text(reports.write_page(mixed), encoding="utf-8")  # as --docs does, when asked to
    command.update_page(report("synthetic, 9 tokens"))
    assert "all jobs" in page.read_text(encoding="utf-8")
    command.update_page(real)
    assert page.read_text(encoding="utf-8") == before


def test_the_job_on_the_page_works(tmp_path):
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "sort.py").write_text(text, encoding="utf-8")
    done = run(tmp_path, tmp_path, "--only", "sort")
    assert done.returncode == 0, done.stderr
    assert read(tmp_path)["sort"]["goals"][0]["value"] > 0


@pytest.mark.parametrize("name", jobs.names())
def test_every_job_says_what_it_measures(name):
    loaded = jobs.load(name)
    assert loaded.about.endswith(".")
    assert loaded.job.contestants[0].name == "tagloom"
    assert loaded.job.section in jobs.SECTIONS
    assert bool(loaded.job.points) == bool(loaded.job.quick_points) == bool(loaded.job.point)
    assert set(loaded.job.after) <= set(jobs.names())
    names = {contestant.name for contestant in loaded.job.contestants}
    assert {c.beside for c in loaded.job.contestants} <= {*names, None}
    for goal in loaded.job.goals:
        assert goal.target > 0


# ---- the parts ---------------------------------------------------------------------------


def test_word2features_and_templates_give_the_same_attributes():
    sentences = [s.tokens for s in tl.datasets.load("english", "dev", label="upos")[:20]]
    odd = [["Ünder", "ǅ", "1", "x", "NATO's", "=|&", "ß"], ["."]]
    assert 12 < features.check_same([*sentences, *odd]) < 16


def test_different_features_are_noticed(monkeypatch):
    monkeypatch.setattr(features, "TEMPLATES", ["word"])
    with pytest.raises(AssertionError, match="templates give"):
        features.check_same([["they", "fish"]])


def test_conllu_is_read_without_ranges_and_empty_nodes(tmp_path):
    rows = ["1-2\tdon't\t_\t_\t_", "1\tdo\t_\tAUX\tVBP", "2\tn't\t_\tPART\tRB", "2.1\tx\t_\tX\tX"]
    path = tmp_path / "a.conllu"
    path.write_text("# text = don't\n" + "\n".join(rows) + "\n\n", encoding="utf-8")
    part = corpora.read_conllu(path)
    assert part == corpora.Part([["do", "n't"]], [["AUX", "PART"]], [["VBP", "RB"]])
    corpora.write_conllu(part, path)
    assert corpora.read_conllu(path) == part


def test_a_quick_run_has_a_quarter_of_the_sentences_and_of_the_file(tmp_path):
    source, folder = tmp_path / "data" / corpora.EWT, tmp_path / "run"
    source.mkdir(parents=True)
    folder.mkdir()
    text = "".join(f"# n = {i}\n1\tw{i}\tw\tX\tY\tA=b\t0\troot\t_\t_\n\n" for i in range(9))
    for part in corpora.PARTS:
        (source / f"{part}.conllu").write_text(text, encoding="utf-8")
    assert corpora.prepare(source.parent, folder, "quick").endswith(
        "a quarter of its training part"
    )
    for part, n in [("train", 2), ("dev", 9), ("test", 9)]:
        found = (folder / f"{part}.conllu").read_text(encoding="utf-8")
        assert found == "".join(text.split("\n\n")[i] + "\n\n" for i in range(n))
        assert corpora.load(folder, part).tokens == [[f"w{i}"] for i in range(n)]
    assert (source / "train.conllu").read_text(encoding="utf-8") == text


def test_a_folder_without_the_corpus_is_refused(tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match=r"the folder has no ud-english-ewt/train\.conllu"):
        corpora.find(tmp_path)
    monkeypatch.setenv("TAGLOOM_DATA", str(tmp_path))
    (tmp_path / "ud-english-ewt").mkdir()
    (tmp_path / "ud-english-ewt" / "train.conllu").touch()
    assert corpora.find(None) == tmp_path


def test_the_best_round_counts():
    rounds = [
        {"measures": {"m": {"cpu": c, "wall": 2 * c, "units": 5, "unit": "x"}}, "values": {"v": c}}
        | {"peak": 100 * c}
        for c in (3.0, 2.0, 4.0)
    ]
    found = results.gather(rounds)
    assert found["measures"]["m"]["cpu"] == {"best": 2.0, "spread": 1.0, "rounds": [3.0, 2.0, 4.0]}
    assert found["peak"] == 200.0
    assert results.Found({"tagloom": found}).cpu("tagloom", "m") == 0.4


def a_job(mine, theirs, *, alone=(1.0, 1.0), cpu="a processor", quick=False):
    """The results of a job with rounds of ours, of a peer, and of a measurement without a peer."""

    def measures(**rounds):
        return {
            "measures": {
                what: {"cpu": results.summarise(seconds), "wall": None, "units": 1, "unit": "x"}
                for what, seconds in rounds.items()
            },
            "peak": 1,
        }

    ours, peer = measures(m=mine, alone=alone), measures(m=theirs)
    job = {"title": "job", "contestants": {"tagloom": ours, "peer": peer}, "quick": quick}
    return job | {"corpus": "EWT", "machine": {"cpu": cpu}}


def test_what_became_slower_is_named():
    before = {"job": a_job([1.0, 1.1], [10.0, 10.0])}

    def losses(*rounds, **options):
        found = list(changes.compare_jobs(before, {"job": a_job(*rounds, **options)}))
        return [change.name.split(", ")[1] for change in found if change.is_loss]

    assert losses([1.0, 1.1], [10.0, 10.0]) == []
    assert losses([2.0, 2.1], [20.0, 20.0]) == []  # a slower machine: the peer is slower, too
    assert losses([1.3, 1.3], [10.0, 10.0]) == ["m"]
    assert losses([1.3, 1.8], [10.0, 10.0]) == []  # as noisy as that
    assert losses([1.3], [10.0, 10.0]) == []  # noise unknown
    assert losses([1.0, 1.1], [10.0, 10.0], alone=(1.2, 1.2)) == ["alone"]
    assert losses([1.0, 1.1], [10.0, 10.0], alone=(1.2, 1.2), cpu="another") == []
    assert losses([1.3, 1.3], [10.0, 10.0], cpu="another") == ["m"]
    assert losses([1.3, 1.3], [10.0, 10.0], quick=True) == []  # other data
    slower = changes.compare_jobs(before, {"job": a_job([2.0, 2.0], [10.0, 10.0])})
    counts = changes.compare_counts({"tag": 100.0, "old": 1.0}, {"tag": 102.0, "new": 5.0})
    assert list(changes.lines_of([*slower, *counts])) == [
        "slower: job: tagloom, m, times as fast as peer: 10 -> 5, 50.0% slower (noise 10.0%)",
        "slower: instructions: tag: 100 -> 102, 2.0% slower (noise 1.0%)",
        "3 figures compared, 2 slower by more than their noise",
    ]


def test_committed_results_are_compared(folder, tmp_path):
    done = run(folder, tmp_path, "--only", "add", "--compare")
    assert done.returncode == 0, done.stderr
    assert "0 figures compared, 0 slower" in done.stdout  # the committed ones have no such job


def test_instructions_are_read_from_dumps(tmp_path):
    committed = json.loads((BENCHMARKS / "results" / "instructions.json").read_text("utf-8"))
    assert len(committed["counts"]) == 5
    assert min(committed["counts"].values()) > 1000
    dump = tmp_path / "out.1"
    dump.write_text("desc: Trigger: Client Request: 50 tag words\n\nsummary: 1000\ntotals: 1000\n")
    assert instructions.read_dump(dump) == ("tag words", 20.0)
    dump.write_text("desc: Trigger: Program termination\n\nsummary: 0\n")
    assert instructions.read_dump(dump) is None


def test_a_time_without_a_clock_is_left_out_of_the_table():
    one = {"measures": {"m": {"cpu": 2.0, "wall": None, "units": 1, "unit": ""}}}
    found = results.gather([one | {"values": {}, "peak": 1}])
    assert found["measures"]["m"]["wall"] is None
    row = reports.job_table({"title": "job", "contestants": {"tagloom": found}}).splitlines()[-1]
    assert [cell.strip() for cell in row.split("|")[2:6]] == ["2 s", "0%", "—", "—"]


def test_threads_are_compared_by_the_median_of_neighbouring_turns():
    def turns(*rounds):
        return {"measures": {"m": {"wall": {"best": min(rounds), "rounds": list(rounds)}}}}

    one, two = turns(10.0, 30.0, 10.0), turns(5.0, 20.0, 4.0)
    found = results.Found({"one": one, "two": two, "at": {"points": {"1": one, "2": two}}})
    assert found.ratio_of_turns("m", ("one", None), ("two", None)) == 2.0  # of 2, 1.5 and 2.5
    assert found.ratio_of_turns("m", ("at", 1), ("at", 2)) == 2.0
    found = results.Found({"one": one, "long": turns(5.0)})
    assert found.ratio_of_turns("m", ("one", None), ("long", None)) == 2.0
    with pytest.raises(results.NotMeasured):
        found.ratio_of_turns("m", ("one", None), ("nobody", None))


def test_the_commit_is_marked_where_what_is_measured_differs(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    files = [tmp_path / name for name in ("README.md", "pyproject.toml", "benchmarks/harness/a.py")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "a"], check=True)
    marked = []
    for file in files:
        file.write_text("changed", encoding="utf-8")
        marked.append(runner.describe_commit().endswith("-dirty"))
        file.write_text("", encoding="utf-8")
    assert marked == [False, True, True]


def test_versions_below_a_peer_are_told():
    peer = {"version": "0.7", "stands_on": {"torch": "2.1", "gone": None}}
    report = {"jobs": {"job": {"contestants": {"peer, fast": peer, "tagloom": {"version": "1"}}}}}
    assert reports.versions(report) == "peer 0.7, tagloom 1, torch 2.1"


def test_a_goal_is_met_at_its_target():
    assert [Goal("", float, at_least=2).is_met(x) for x in (1.9, 2.0)] == [False, True]
    assert [Goal("", float, at_most=2).is_met(x) for x in (2.0, 2.1)] == [True, False]


def contestant(cpu=1, accuracy=0.5, peak=1, **more):
    times = {"best": cpu, "spread": 0.0, "rounds": [cpu]}
    return {
        "measures": {"tag": {"cpu": times, "wall": times, "units": 2, "unit": "tokens"}},
        "values": {"accuracy": accuracy, "model file bytes": int(1e6 * peak), "before, bytes": 1},
        "peak": 1e6 * peak,
        **more,
    }


def make_report(contestants, *, compares_memory=False):
    job = {"title": "job", "compares_memory": compares_memory, "contestants": contestants}
    return {"jobs": {"job": job}}


def test_where_a_peer_is_better_is_found_in_the_results():
    def better(compares_memory, ours, theirs):
        contestants = {"tagloom": contestant(*ours), "peer": contestant(*theirs)}
        report = make_report(contestants, compares_memory=compares_memory)
        return reports.where_peers_are_better(report)

    assert better(True, (1, 0.9, 10), (2, 0.8, 20)) == []
    assert better(True, (2, 0.8, 20), (1, 0.9, 10)) == [
        "- job: tag: peer is 2× as fast.",
        "- job: peak memory: peer 10 MB; tagloom 20 MB.",
        "- job: accuracy: peer 90.00%; tagloom 80.00%.",
        "- job: model file bytes: peer 10 MB; tagloom 20 MB.",
    ]
    assert len(better(False, (2, 0.8, 20), (1, 0.9, 10))) == 3


def test_a_peer_that_beats_some_of_ours_is_listed_with_those():
    contestants = {
        "tagloom": contestant(2, 0.8, 20),
        "tagloom, small": contestant(2, 0.95, 5),
        "tagloom, middle": contestant(9, 0.7, 15),
        "peer": contestant(3, 0.9, 10, beside="tagloom, middle"),
        "alone": contestant(0.1, 0.99, 1, beside=None),
    }
    assert reports.where_peers_are_better(make_report(contestants)) == [
        "- job: tag: peer is 3× as fast as tagloom, middle.",
        "- job: accuracy: peer 90.00%; tagloom 80.00%; tagloom, middle 70.00%.",
        "- job: model file bytes: peer 10 MB; tagloom 20 MB; tagloom, middle 15 MB.",
    ]


def test_a_peer_is_compared_with_the_one_beside_it():
    contestants = {
        "tagloom": contestant(2, peak=3),
        "tagloom, order 2": contestant(4, peak=5),
        "peer": contestant(8, peak=7),
        "other": contestant(8, beside="tagloom, order 2"),
        "alone": contestant(8, beside=None),
    }
    report = make_report(contestants)
    assert plots.ratios(report) == [("job: tag, peer", 4.0), ("job: tag, other", 2.0)]

    def last(table, n):
        """Return the last cells of each row."""
        lines = table.splitlines()[2:]
        return [[cell.strip() for cell in line.split("|")[-n - 1 : -1]] for line in lines]

    assert last(reports.ratios_table(report), 6) == [
        ["peer", "1 s per token", "4 s per token", "4×", "3 MB", "7 MB"],
        ["other", "2 s per token", "4 s per token", "2×", "5 MB", "1 MB"],
    ]
    ratios = [ratio for (ratio,) in last(reports.job_table(report["jobs"]["job"]), 1)]
    assert ratios == ["", "", "4×", "2×", ""]
    assert reports.ratios_table({"jobs": {}}) == "No peer was measured."


def test_jobs_that_take_over_models_come_later():
    def loaded(name, after):
        return jobs.Loaded(name, "", jobs.Job(name, [Contestant("tagloom", print)], after=after))

    ordered = jobs.in_order([loaded("a", ["c"]), loaded("b", []), loaded("c", [])])
    assert [one.name for one in ordered] == ["b", "c", "a"]
