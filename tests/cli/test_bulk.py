"""tagloom tag into a folder: the files of one process, on several, resumed and in parts."""

import importlib
import os
import sys

import pytest
from click.testing import CliRunner

import tagloom as tl
from tagloom.cli import bulk
from tagloom.cli.groups import group

tag_module = importlib.import_module("tagloom.cli.tag")


@pytest.fixture
def files(tmp_path):
    """Files of several formats, below a folder."""
    (tmp_path / "in" / "more").mkdir(parents=True)
    tokens = [["They", "can", "fish", "."], ["Please", "book", "a", "room"]]
    names = ["a.conllu", "b.conllu.gz", "c.jsonl", "more/d.jsonl.gz", "e.conllu"]
    for i, name in enumerate(names):
        sentences = [tl.Sentence(row) for row in tokens * (i + 1)]
        tl.write(tl.Corpus(sentences), tmp_path / "in" / name)
    return names


def contents(folder):
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith(".tagloom"):
            found[path.relative_to(folder).as_posix()] = tl.read(path).labels
    return found


def test_workers_and_parts_give_what_one_file_after_another_gives(run, model, files, tmp_path):
    expected = {}
    for name in files:
        done = run("tag", model, f"in/{name}", "-o", "one" + name.replace("more/", ""), "-q")
        assert done.returncode == 0, done.stderr
        expected[name] = tl.read(tmp_path / ("one" + name.replace("more/", ""))).labels
    patterns = ["in/**/*.conllu*", "in/**/*.jsonl*"]
    done = run("tag", model, *patterns, "-o", "out/", "--n-workers", 2)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("5 files tagged in out/\n")
    assert contents(tmp_path / "out") == expected
    for k in (1, 2, 3):
        done = run("tag", model, *patterns, "-o", "parts/", "--part", f"{k}/3", "--resume", "-q")
        assert (done.returncode, done.stderr) == (0, "")
    assert contents(tmp_path / "parts") == expected


def test_resume_skips_what_is_finished_and_removes_what_was_killed(run, model, files, tmp_path):
    assert run("tag", model, "in/*.conllu*", "-o", "out/").returncode == 0
    (tmp_path / "out" / "b.conllu.gz").unlink()
    before = os.stat(tmp_path / "out" / "a.conllu").st_mtime_ns
    abandoned = tmp_path / "out" / ".b.conllu.gz.0123456789abcdef.part"
    abandoned.write_bytes(b"half of it")
    done = run("tag", model, "in/*.conllu*", "-o", "out/", "--resume")
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("1 file tagged in out/, 2 finished before\n")
    assert os.stat(tmp_path / "out" / "a.conllu").st_mtime_ns == before
    assert not abandoned.exists()
    assert len(contents(tmp_path / "out")) == 3


def test_another_run_is_not_resumed(run, model, files, tmp_path):
    assert run("tag", model, "in/a.conllu", "-o", "out/").returncode == 0
    done = run("tag", model, "in/*.conllu", "-o", "out/", "--resume", "--marginals")
    assert done.returncode == 2
    assert "were tagged with other options" in done.stderr
    other = tl.CRF("words").fit([["They", "fish"]], [["N", "V"]])
    other.save(tmp_path / "other.tagloom")
    done = run("tag", "other.tagloom", "in/*.conllu", "-o", "out/", "--resume")
    assert done.returncode == 2
    assert "were tagged with another model" in done.stderr
    for damaged in ("{", "5", "[" * 10_000):
        (tmp_path / "out" / ".tagloom-run.json").write_text(damaged)
        done = run("tag", model, "in/*.conllu", "-o", "out/", "--resume")
        assert done.returncode == 2
        assert "expected the record of a run, found a damaged file" in done.stderr


def test_a_bad_file_is_named_and_leaves_nothing(run, model, files, tmp_path):
    (tmp_path / "in" / "c.conllu").write_text("1\tThey\n")
    done = run("tag", model, "in/*.conllu", "-o", "out/", "--n-workers", 2, "-q")
    assert done.returncode == 2
    assert done.stderr.startswith("tagloom: in/c.conllu:1: ")
    assert "c.conllu" not in contents(tmp_path / "out")
    assert [name for name in os.listdir(tmp_path / "out") if name.endswith(".part")] == []


# ---- row groups --------------------------------------------------------------------------------


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Parquet files of many row groups, each of them a task, and a small one."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(bulk, "_LEAST", 5_000)
    monkeypatch.setattr(bulk, "_MOST", 1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    words = ["They", "can", "fish", ".", "Please", "book", "a", "room"]
    for name, n in (("a.parquet", 700), ("b.parquet", 300), ("small.parquet", 3)):
        tokens = [[words[(i * j) % 8] for j in range(1, 2 + i % 5)] for i in range(n)]
        table = pyarrow.table({"id": range(n), "tokens": tokens})
        parquet.write_table(table, tmp_path / "in" / name, row_group_size=50)
    return tmp_path


def tag(model, *arguments):
    done = CliRunner().invoke(group, ["tag", str(model), "in/*.parquet", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def rows(folder):
    from pyarrow import parquet

    assert sorted(os.listdir(folder)) == [".tagloom-run.json", *NAMES]
    return {name: parquet.read_table(folder / name).to_pylist() for name in NAMES}


NAMES = ["a.parquet", "b.parquet", "small.parquet"]


@pytest.fixture
def whole(tables, model, monkeypatch):
    """What one task per file writes."""
    with monkeypatch.context() as patch:
        patch.setattr(bulk, "_LEAST", 1 << 40)
        assert tag(model, "-o", "whole/").endswith("3 files tagged in whole/\n")
    found = rows(tables / "whole")
    assert [row["id"] for row in found["a.parquet"]] == list(range(700))
    assert all(len(row["tokens"]) == len(row["labels"]) for row in found["a.parquet"])
    return found


@pytest.mark.parametrize("more", [[], ["--n-workers", "2"]])
def test_row_groups_are_tasks(tables, model, whole, more):
    shown = tag(model, "-o", "out/", *more)
    assert shown.endswith("1 file and 20 parts of 2 files tagged in out/\n")
    assert rows(tables / "out") == whole
    shown = tag(model, "-o", "out/", "--resume", *more)
    assert shown.endswith("0 files tagged in out/, 21 finished before\n")
    tag(model, "-o", "out/", *more)  # again, from the beginning
    assert rows(tables / "out") == whole


def test_jobs_divide_row_groups(tables, model, whole):
    for k in (2, 3, 1):
        assert not (tables / "out" / "a.parquet").exists()
        tag(model, "-o", "out/", "--part", f"{k}/3")
    assert rows(tables / "out") == whole


def test_finished_row_groups_are_kept(tables, model, whole, monkeypatch):
    tagged = []
    complete = tag_module.tag_file

    def tag_file(request, source, output, tagger=None, groups=None):
        if len(tagged) == 9:
            raise KeyboardInterrupt
        tagged.append((source, groups))
        return complete(request, source, output, tagger, groups)

    monkeypatch.setattr(tag_module, "tag_file", tag_file)
    done = CliRunner().invoke(group, ["tag", str(model), "in/*.parquet", "-o", "out/"])
    assert done.exit_code != 0
    assert not (tables / "out" / "a.parquet").exists()
    before = tagged.copy()
    tagged.clear()
    monkeypatch.setattr(
        tag_module, "tag_file", lambda *a: tagged.append((a[1], a[4])) or complete(*a)
    )
    shown = tag(model, "-o", "out/", "--resume")
    assert "9 finished before" in shown
    assert len(tagged) == 12
    assert not set(before) & set(tagged)
    assert rows(tables / "out") == whole


def test_an_error_in_a_row_group_names_the_row(tables, model):
    from pyarrow import parquet

    table = parquet.read_table("in/b.parquet").to_pylist()
    table[260]["tokens"] = None
    pyarrow = pytest.importorskip("pyarrow")
    parquet.write_table(pyarrow.Table.from_pylist(table), "in/b.parquet", row_group_size=50)
    done = CliRunner().invoke(group, ["tag", str(model), "in/b.parquet", "-o", "out/"])
    assert done.exit_code == 1
    assert "in/b.parquet, row 260: expected a list of strings" in done.output


def test_a_table_of_tokens_is_one_task(tables, model):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    numbers = [i for i in range(700) for _ in range(3)]
    table = pyarrow.table({"sentence_id": numbers, "word": ["They", "can", "fish"] * 700})
    parquet.write_table(table, "in/a.parquet", row_group_size=50)
    done = CliRunner().invoke(group, ["tag", str(model), "in/a.parquet", "-o", "out/"])
    assert done.exit_code == 0, done.output
    assert done.output.endswith("1 file tagged in out/\n")
    assert len(tl.read("out/a.parquet")) == 700


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["in/*.nothing", "-o", "out/"], "No file matches in/*.nothing."),
        (["-o", "out/"], "INPUT must be files"),
        (["-", "-o", "out/"], "not stdin"),
        (["in/a.conllu", "-o", "in/"], "in/a.conllu would be overwritten"),
        (["in/a.conllu", "-o", "out/", "--part", "4/3"], "found '4/3'"),
        (["in/a.conllu", "--resume"], "--resume needs a folder"),
        (["in/a.conllu", "in/c.jsonl"], "need a folder"),
    ],
)
def test_mistakes(run, model, files, arguments, message):
    done = run("tag", model, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_cluster_without_ray_gives_the_install_line(model, files, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(tmp_path)
    arguments = ["tag", str(model), "in/a.conllu", "-o", "out/", "--cluster", "auto"]
    done = CliRunner().invoke(group, arguments)
    assert done.exit_code == 1
    assert "pip install 'tagloom[ray]'" in done.output
