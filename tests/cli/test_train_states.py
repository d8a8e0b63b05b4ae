"""tagloom train hmm --n-states: files without labels."""

import json

import pytest

import tagloom as tl

TEXT = "the dog walked\na cat talked to the dog\nthe cat walked\n"
COLUMN = "\n\n".join("\n".join(line.split()) for line in TEXT.splitlines()) + "\n"


@pytest.mark.parametrize(("name", "text"), [("plain.txt", TEXT), ("column.conll", COLUMN)])
def test_files_without_labels(run, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    options = ["--n-states", "3", "--algorithm", "em", "--restarts", "2", "--random-state", "5"]
    done = run("train", "hmm", name, "-o", "states.tagloom", "--json", *options)
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert (value["sentences"], value["tokens"], value["labels"]) == (3, 12, 3)
    assert value["stopped"] == "converged"
    X = [line.split() for line in TEXT.splitlines()]
    expected = tl.HMM(n_states=3, algorithm="em", restarts=2, random_state=5).fit(X)
    hmm = tl.load(tmp_path / "states.tagloom")
    assert hmm.predict(X) == expected.predict(X)
    tagged = run("tag", "states.tagloom", name)
    assert tagged.returncode == 0, tagged.stderr
    assert {"dog", *expected.predict(X)[0]} <= set(tagged.stdout.replace("/", " ").split())


def test_labels_are_ignored_and_dev_is_refused(run, tmp_path, corpora):
    done = run(
        "train", "hmm", "dev.conllu", "-o", tmp_path / "s.tagloom", "--n-states", "2",
        "--max-iterations", "2", "--json", folder=corpora,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["labels"] == 2
    done = run(
        "train", "hmm", "dev.conllu", "-o", tmp_path / "s.tagloom", "--n-states", "2",
        "--dev", "dev.conllu", folder=corpora,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--dev needs labels" in done.stderr
