"""Jobs that write files, for tests that disturb them; each is a command in its own folder.

A job has a command, the file that it writes, and a check that a file is complete. `prepare` gives a
folder with the inputs and with an old version of that file.
"""

from __future__ import annotations

import gzip
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import tagloom as tl
from tagloom import storage

TAGLOOM = [sys.executable, "-c", "from tagloom.cli import main; main()"]
N_SENTENCES = 60


@dataclass(frozen=True)
class Job:
    """A command, and the file that it replaces."""

    arguments: list[str]
    output: str

    @property
    def command(self) -> list[str]:
        """The whole command line."""
        return [*TAGLOOM, *self.arguments]


def _train(*more: str) -> list[str]:
    words = ["train", "crf", "train.conllu", "--label", "upos", "--features", "word; suffix(1..2)"]
    return [*words, "--max-iterations", "3", "-o", "out.tagloom", "--quiet", *more]


JOBS = {
    "save": Job(_train(), "out.tagloom"),
    "checkpoint": Job(_train("--checkpoint", "run.ckpt"), "run.ckpt"),
    "convert": Job(["convert", "train.conllu", "out.jsonl", "-q"], "out.jsonl"),
    "convert-gzip": Job(["convert", "train.conllu", "out.jsonl.gz", "-q"], "out.jsonl.gz"),
    "tag": Job(["tag", "model.tagloom", "train.conllu", "-o", "out.conllu"], "out.conllu"),
}
# Jobs of several processes: killed is the one that writes.
SHARED_JOBS = {
    "workers": Job(_train("--algorithm", "lbfgs", "--n-workers", "2"), "out.tagloom"),
    "workers-checkpoint": Job(
        _train("--algorithm", "lbfgs", "--n-workers", "2", "--checkpoint", "run.ckpt"), "run.ckpt"
    ),
    "folder": Job(
        ["tag", "model.tagloom", "train*.conllu", "-o", "out/", "--n-workers", "2", "-q"],
        "out/train.conllu",
    ),
}


def prepare(folder: Path) -> None:
    """Fill a folder with a corpus and a model."""
    corpus = tl.datasets.load("english", "test", label="upos")[:N_SENTENCES]
    tl.write(corpus, folder / "train.conllu")
    tl.CRF(["word"], max_iterations=2).fit(corpus).save(folder / "model.tagloom")


def with_old_file(source: Path, folder: Path, job: Job) -> bytes:
    """Copy the inputs to a new folder, with an old complete file; return its bytes."""
    shutil.copytree(source, folder)
    path = folder / job.output
    path.parent.mkdir(exist_ok=True)
    if job.output.endswith(".tagloom"):
        shutil.copy(folder / "model.tagloom", path)
    elif job.output.endswith(".gz"):
        path.write_bytes(gzip.compress(b'{"tokens": ["old"], "labels": ["X"]}\n'))
    elif job.output.endswith(".jsonl"):
        path.write_bytes(b'{"tokens": ["old"], "labels": ["X"]}\n')
    elif job.output.endswith(".conllu"):
        path.write_bytes(b"1\told\t_\tX\t_\t_\t_\t_\t_\t_\n\n")
    else:
        return b""  # an old checkpoint would be resumed
    return path.read_bytes()


def is_whole(path: Path) -> bool:
    """Return whether a file is complete: a model that verifies, or a corpus that reads."""
    if path.suffix == ".tagloom":
        tl.load(path)
    elif path.suffix == ".ckpt":
        storage.read(str(path), verify=True)
    else:
        corpus = tl.read(path, label="upos" if path.suffix == ".conllu" else None)
        return len(corpus) in (1, N_SENTENCES)
    return True
