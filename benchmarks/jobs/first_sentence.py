"""Start Python, load the UPOS model and tag one sentence: in a program, and by `tagloom tag` for a
file with one line. Neither imports NumPy. Both sides have new environments with nothing but what
they need.
"""

import os
from pathlib import Path

from harness import Bench, Contestant, Goal, Job
from harness.environments import make_environment, python_of
from harness.features import sent2features
from harness.models import crfsuite_model, our_model

FIRST, COMMAND = "start, load, tag", "tagloom tag, one line"
SENTENCE = ["They", "can", "fish", "here", "."]
TIMES = 15  # starts of a turn, of which the best counts


def write_line(path: Path) -> None:
    path.write_text(f"{' '.join(SENTENCE)}\n", encoding="utf-8")


def make_ours(folder: Path) -> None:
    make_environment(folder, ["tagloom", "click"], script="tagloom.cli:main")


def make_theirs(folder: Path) -> None:
    make_environment(folder, ["pycrfsuite"])


def tagloom(bench: Bench) -> None:
    path = our_model(bench, "upos")
    folder = bench.artefact("tagloom-alone", make_ours)
    code = f"import tagloom as tl; tl.load({str(path)!r}).predict([{SENTENCE}])"
    bench.command(FIRST, [python_of(folder), "-c", code], times=TIMES)
    line = bench.artefact("line.txt", write_line)
    script = str(folder / "bin" / "tagloom")
    command = [python_of(folder), script, "tag", str(path), str(line)]
    bench.command(COMMAND, [*command, "--format", "text", "-o", os.devnull], times=TIMES)


def crfsuite(bench: Bench) -> None:
    path = crfsuite_model(bench, "upos")
    folder = bench.artefact("crfsuite-alone", make_theirs)
    code = (  # the features are written out: making them would import more
        "import pycrfsuite; tagger = pycrfsuite.Tagger(); "
        f"tagger.open({str(path)!r}); tagger.tag({sent2features(SENTENCE)})"
    )
    bench.command(FIRST, [python_of(folder), "-c", code], times=TIMES)


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
