"""Start Python, load the UPOS model and tag one sentence: in a program, and by `tagloom tag` for a
file with one line. Neither imports NumPy.
"""

import os
import sys
from pathlib import Path

from harness import Bench, Contestant, Goal, Job
from harness.features import sent2features
from harness.models import crfsuite_model, our_model

FIRST, COMMAND = "start, load, tag", "tagloom tag, one line"
SENTENCE = ["They", "can", "fish", "here", "."]


def write_line(path: Path) -> None:
    path.write_text(f"{' '.join(SENTENCE)}\n", encoding="utf-8")


def tagloom(bench: Bench) -> None:
    path = our_model(bench, "upos")
    code = f"import tagloom as tl; tl.load({str(path)!r}).predict([{SENTENCE}])"
    bench.command(FIRST, [sys.executable, "-c", code], times=5)
    line = bench.artefact("line.txt", write_line)
    command = [str(Path(sys.executable).parent / "tagloom"), "tag", str(path), str(line)]
    options = ["--format", "text", "-o", os.devnull]
    bench.command(COMMAND, [*command, *options], times=5)


def crfsuite(bench: Bench) -> None:
    path = crfsuite_model(bench, "upos")
    code = (  # the features are written out: making them would import more
        "import pycrfsuite; tagger = pycrfsuite.Tagger(); "
        f"tagger.open({str(path)!r}); tagger.tag({sent2features(SENTENCE)})"
    )
    bench.command(FIRST, [sys.executable, "-c", code], times=5)


JOB = Job(
    "first sentence",
    [
        Contestant("tagloom", tagloom),
        Contestant("python-crfsuite", crfsuite, needs="pycrfsuite"),
    ],
    [
        Goal(
            "time over that of python-crfsuite",
            lambda found: found.cpu("tagloom", FIRST) / found.cpu("python-crfsuite", FIRST),
            at_most=1.2,
        ),
        Goal(
            "tagloom tag, over python-crfsuite's script",
            lambda found: found.cpu("tagloom", COMMAND) / found.cpu("python-crfsuite", FIRST),
            at_most=1.2,
        ),
    ],
    after=["train_upos"],
    compares_memory=True,
)
