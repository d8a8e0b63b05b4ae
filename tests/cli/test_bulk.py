"""tagloom tag into a folder: the files of one process, on several, resumed and in parts."""

import os
import sys

import pytest
from click.testing import CliRunner

import tagloom as tl
from tagloom.cli import group


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


def test_a_bad_file_is_named_and_leaves_nothing(run, model, files, tmp_path):
    (tmp_path / "in" / "c.conllu").write_text("1\tThey\n")
    done = run("tag", model, "in/*.conllu", "-o", "out/", "--n-workers", 2, "-q")
    assert done.returncode == 2
    assert done.stderr.startswith("tagloom: in/c.conllu:1: ")
    assert "c.conllu" not in contents(tmp_path / "out")
    assert [name for name in os.listdir(tmp_path / "out") if name.endswith(".part")] == []


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
