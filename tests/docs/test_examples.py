"""The narrated scripts run without a word on stderr, and say what they should."""

import itertools
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tagloom as tl

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "trellis_tour.py": [
        "best path (score -10): N V N",
        "N V V N  -14\n  N V N V  -14",
        "N N  -11\n  N V  -7\n  V N  -10\n  V V  -10",
        "exponentials: -6.888557",
        "recursion:    -6.888557",
        "N V N   -10  probability 0.864927",
        "-13.113214  -13.113214  -13.113214  -13.113214",
        "log-plus  -9.85488",
        "Before we knew, that had probability 0.1329.",
    ],
    "restore_noise.py": [
        "received  the NOISE NOISE NOISE NOISE market at NOISE\n"
        "restored  the cook went to the market at dawn",
        "9 of 15 words restored; `the` everywhere would have restored 2.",
    ],
    "label_bias.py": [
        "MEMM  Pr(1 2 3 | rib) = 0.501   Pr(4 5 3 | rib) = 0.499\n"
        "  MEMM  Pr(1 2 3 | rob) = 0.501   Pr(4 5 3 | rob) = 0.499\n"
        "  CRF   Pr(1 2 3 | rib) = 0.97",
        "Wrong paths of 500, in 10 runs",
    ],
    "local_and_global.py": [
        "Parts of speech: 495 sentences to learn from, 105 to test on; accuracy.\n"
        "                     token          MEMM        global             p\n"
        "log ",
        "Entities in BIO: 495 sentences to learn from, 105 to test on; span F1.\n"
        "                     token  token, legal          MEMM        global             p\n",
    ],
}


def test_every_example_is_listed_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_example(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    for words in SAYS[name]:
        assert words in done.stdout
    assert not list(tmp_path.iterdir())


def test_no_filling_of_the_gaps_is_likelier_than_the_restored_one():
    """Every pair of words tried in two gaps, the log-probability of the sentence added up."""
    example = runpy.run_path(str(EXAMPLES / "restore_noise.py"))
    vocabulary, log_p, first, last = example["bigram_model"](example["TEXT"])
    probs = np.exp(np.column_stack([log_p, last]))
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=1e-12)
    received = ["NOISE", "old", "NOISE", "sold", "the", "boat"]
    best = example["trellis_of"](received, vocabulary, log_p, first, last).viterbi()
    scores = {}
    for filling in itertools.product(range(len(vocabulary)), repeat=2):
        gaps = iter(filling)
        path = [next(gaps) if r == "NOISE" else vocabulary.index(r) for r in received]
        inner = sum(log_p[a, b] for a, b in itertools.pairwise(path))
        scores[tuple(path)] = first[path[0]] + inner + last[path[-1]]
    assert tuple(best.path) == max(scores, key=scores.get)
    assert best.score == pytest.approx(max(scores.values()), rel=1e-12)


def test_local_and_global_on_files(tmp_path, capsys, monkeypatch):
    """What a sentence is worth to chunks: legal labels, then training over all of it."""
    splits = tl.datasets.load("english", label="chunk")
    paths = [str(tmp_path / "train.conll"), str(tmp_path / "test.conll")]
    for path, corpus in zip(paths, (splits.train, splits.test), strict=True):
        tl.write(corpus, path, columns=["token", "label"])
    monkeypatch.setattr(sys, "argv", ["local_and_global.py", "--data", *paths])
    runpy.run_path(str(EXAMPLES / "local_and_global.py"), run_name="__main__")
    title, _, *rows, illegal = capsys.readouterr().out.strip().splitlines()
    assert title.startswith(paths[0])
    assert [row.split()[0] for row in rows] == ["log", "hinge", "perceptron"]
    scores = np.array([row.split()[1:] for row in rows], dtype=float)  # [3, 5]
    token, legal, memm, whole = scores[:, :4].mean(axis=0)
    assert 70 < token + 0.5 < legal < whole < 95
    assert token < memm
    assert "illegal labels in" in illegal
