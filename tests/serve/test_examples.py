"""The examples of docs/serving.md for the shell and for JavaScript, run against a server."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from serving import Program

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
CONLLU = "1\tThey\t_\tX\t_\t_\t0\troot\t_\t_\n2\tfish\t_\tX\t_\t_\t1\tdep\t_\t_\n\n"


def examples(language, word):
    """Return the blocks of a language that contain a word, continued lines joined."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [block.replace("\\\n", "") for block in blocks if word in block]


@pytest.fixture(scope="module")
def program():
    with Program("--drain-delay", "0") as program:
        yield program


def run(program, folder, command, text):
    """Run an example; its server is at the port of the test, and `tagloom` that of the test."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, text.replace("localhost:8080", f"localhost:{program.port}")],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.serve
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_shell(program, tmp_path):
    (tmp_path / "big.jsonl").write_text('["They", "fish"]\n{"text": "They fish."}\n')
    (tmp_path / "test.conllu").write_text(CONLLU)
    lines = [line for block in examples("sh", "curl -s") for line in block.splitlines()]
    texts, tagged, ndjson, conllu = [run(program, tmp_path, ["sh", "-c"], x) for x in lines]
    tokens = json.loads(texts)["documents"][0]["sentences"][0]["tokens"]
    assert [t["label"] for t in tokens] == ["PRON", "AUX", "VERB", "PUNCT"]
    assert all(0 < t["prob"] <= 1 for t in tokens)
    assert tagged.splitlines()[0] == "They/PRON ca/AUX n't/PART ./PUNCT"
    rows = [json.loads(line) for line in ndjson.splitlines()]
    assert rows[0]["labels"] == ["PRON", "VERB"]
    assert rows[1]["sentences"][0]["tokens"][2]["text"] == "."
    assert conllu == CONLLU.replace("X", "PRON", 1).replace("X", "VERB", 1)


@pytest.mark.serve
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_javascript(program, tmp_path):
    [script] = examples("js", "fetch")
    shown = run(program, tmp_path, ["node", "--input-type=module", "-e"], script)
    rows = [line.rsplit(" ", 1) for line in shown.splitlines()]
    assert [word for word, _ in rows] == ["🙂", "They", "can", "fish", "."]
    assert [label for _, label in rows][1:] == ["PRON", "AUX", "VERB", "PUNCT"]


def test_the_page_has_the_examples():
    assert len(examples("sh", "curl -s")) == 2
    assert len(examples("js", "fetch")) == 1
