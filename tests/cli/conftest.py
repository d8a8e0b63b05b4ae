"""Files and processes for the tests of commands."""

from pathlib import Path

import pytest

import tagloom as tl
from commands import run


@pytest.fixture(scope="session")
def corpora(tmp_path_factory):
    """The shipped corpus under the names that the examples use, and models learnt from it."""
    folder = tmp_path_factory.mktemp("corpora")
    for split in ("train", "dev", "test"):
        corpus = tl.datasets.load("english", split, label="upos")
        tl.write(corpus, folder / f"{split}.conllu", "conllu")
    entities = tl.datasets.load("english", "train", label="entity")
    tl.write(tl.Corpus(entities.tokens, entities.labels), folder / "ner.conll")
    sentences = ["They can fish .", "Please book a room ."]
    tl.write(tl.Corpus([s.split() for s in sentences]), folder / "text.conll")
    return folder


@pytest.fixture(scope="session")
def model(corpora, tmp_path_factory):
    """A model of parts of speech, made by the command."""
    path = tmp_path_factory.mktemp("models") / "pos.tagloom"
    options = ["--label", "upos", "--dev", "dev.conllu", "-q", "-o", str(path)]
    done = run(corpora, "train", "crf", "train.conllu", *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return path


@pytest.fixture(name="run")
def run_fixture(tmp_path):
    """Run a command as a process in an empty folder."""

    def in_folder(*arguments, stdin="", folder: Path = tmp_path):
        return run(folder, *arguments, stdin=stdin)

    return in_folder


def is_mistake(done, *words):
    """Whether a process ended with code 2 and one line that contains the words."""
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2, line
    assert done.stdout == ""
    assert line.startswith("tagloom"), line
    assert all(word in line for word in words), line
    return True


@pytest.fixture(name="is_mistake")
def is_mistake_fixture():
    return is_mistake
