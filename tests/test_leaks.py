"""No object of the native module outlives the program; nanobind reports those that do at exit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FIT = """
import conftest  # which chooses the build that is tested
import pickle, tagloom as tl
from tagloom.errors import TagloomError
X = [["they", "can", "fish"], ["fish", "can", "swim"], ["they", "fish"]]
y = [["N", "V", "V"], ["N", "V", "V"], ["N", "V"]]
"""
USES = {
    "taggers": """
models = [tl.CRF(), tl.CRF(order=2), tl.MEMM(features=["word", "edge(word)"]), tl.HMM(order=2)]
models += [tl.HMM(lexical=1), tl.MostFrequentTag(), tl.TokenClassifier(), tl.StructuredSVM()]
for model in models:
    model.fit(X, y).predict(X), model.predict_nbest(X, 2), model.explain(X[0])
    pickle.loads(pickle.dumps(model)).predict_marginals(X)
""",
    "features with functions": """
templates = tl.features.Templates(
    ["word", 'regex("^f")', "lexicon(fish)", "cluster(c)"],
    lexicons={"fish": ["they can"]}, clusters={"c": {"fish": "01"}},
)
kept = tl.CRF(features=templates).fit(X, y)
kept.predict(X)
def own(sentence): return [{"word": word} for word in sentence]
other = tl.CRF(features=own).fit(X, y)
""",
    "errors": """
def fail(tagger):
    try:
        tagger.predict("they can fish")
    except TagloomError as error:
        return error
kept = fail(tl.CRF().fit(X, y))
tl.CRF().fit(X, y).predict([[3]])  # ends the program
""",
    "generators": """
train = tl.datasets.load("english", "train", label="upos")
tagger = tl.StructuredPerceptron().partial_fit(train[:20])
left = tagger._batches(train[:20], None, None)
next(left)
tl.evaluate(train[:20], tagger.predict(train[:20]))
""",
}
DAEMON = """
import threading
def wait(tagger, began):
    began.set()
    threading.Event().wait()
began = threading.Event()
threading.Thread(target=wait, args=(tl.CRF().fit(X, y), began), daemon=True).start()
began.wait()
"""


def reported(code: str, **environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", FIT + code],
        cwd=Path(__file__).parent,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return "\n".join(line for line in run.stderr.splitlines() if "leaked" in line)


@pytest.mark.parametrize("use", USES)
def test_nothing_is_leaked(use):
    assert reported(USES[use], TAGLOOM_LEAK_WARNINGS="1") == ""


def test_leaks_are_reported_on_request_only():
    """A daemon thread keeps its tagger: a leak in nanobind's eyes, none in those of the user."""
    assert 'type "tagloom._native.' in reported(DAEMON, TAGLOOM_LEAK_WARNINGS="1")
    assert reported(DAEMON) == ""
