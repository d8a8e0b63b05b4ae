"""``tagloom train roles``, ``tag`` and ``eval`` with a role labeller."""

import json

from commands import run
from role_sentences import grammar
from tagloom.sequences import write_frames


def test_train_tag_and_eval(tmp_path):
    sentences = grammar(30, 0)
    write_frames(sentences, tmp_path / "train.jsonl")
    options = ("--hash-bits", 16, "--tags", "upos", "--dev", "train.jsonl")
    trained = run(tmp_path, "train", "roles", "train.jsonl", "-o", "r.tagloom", *options, "--json")
    assert trained.returncode == 0, trained.stderr
    summary = json.loads(trained.stdout)
    assert summary["dev"] == 1.0
    assert summary["labels"] == 4
    blank = [s.with_frames(type(f)(f.predicate) for f in s.frames) for s in sentences]
    write_frames(blank, tmp_path / "blank.jsonl")
    tagged = run(tmp_path, "tag", "r.tagloom", "blank.jsonl")
    assert tagged.stdout == (tmp_path / "train.jsonl").read_text()
    (tmp_path / "found.jsonl").write_text(tagged.stdout)
    scored = run(tmp_path, "eval", "r.tagloom", "train.jsonl", "--json")
    assert json.loads(scored.stdout)["f1"] == 1.0
    text = run(tmp_path, "eval", "train.jsonl", "found.jsonl", "--frames")
    assert "illegal frames  0" in text.stdout
    refused = run(tmp_path, "tag", "r.tagloom", "blank.jsonl", "--nbest", 2)
    assert refused.returncode == 2
    assert "role labeller" in refused.stderr


def test_mistakes_are_one_line(tmp_path):
    line = {"tokens": ["go"], "heads": [0], "deprels": ["root"], "frames": [{"arguments": []}]}
    (tmp_path / "bad.jsonl").write_text(json.dumps(line) + "\n")
    trained = run(tmp_path, "train", "roles", "bad.jsonl", "-o", "r.tagloom")
    assert trained.returncode == 2
    assert trained.stderr.count("\n") == 1
    assert "bad.jsonl:1: expected a predicate" in trained.stderr
