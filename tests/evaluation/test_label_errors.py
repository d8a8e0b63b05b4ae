"""Planted errors are found; the same comes out of a plain loop over the folds."""

import json

import numpy as np
import pytest

import tagloom as tl
from commands import run
from raising import raises
from tagloom.errors import LabelError, ParameterError
from tagloom.evaluation import find_label_errors

TRAIN = tl.datasets.load("english", "train")
NAMES = sorted({y for row in TRAIN.labels for y in row})


def plant(share, seed=0):
    """Change a share of the labels at random."""
    rng = np.random.default_rng(seed)
    labels = [list(row) for row in TRAIN.labels]
    places = [(i, t) for i, row in enumerate(labels) for t in range(len(row))]
    planted = set()
    for k in rng.choice(len(places), int(share * len(places)), replace=False):
        i, t = places[k]
        labels[i][t] = str(rng.choice([y for y in NAMES if y != labels[i][t]]))
        planted.add((i, t))
    return TRAIN.with_labels(labels), planted


def test_planted_errors_come_first():
    corpus, planted = plant(0.01)
    found = find_label_errors(tl.CRF(), corpus, n_most=len(planted))
    hits = sum((s.sentence, s.token) in planted for s in found)
    assert hits >= 0.7 * len(planted)
    for suspect in found:
        assert suspect.word == corpus[suspect.sentence][suspect.token]
        assert suspect.label == corpus[suspect.sentence].labels[suspect.token]
        assert suspect.suggestion != suspect.label
        assert suspect.suggestion_prob > suspect.prob


def test_equals_a_loop_over_the_folds():
    corpus, _ = plant(0.02)
    corpus = corpus[:60]
    tagger = tl.HMM()
    folds = np.random.default_rng(3).permutation(60) % 3
    expected = {}
    for fold in range(3):
        rest = tl.Corpus([s for s, f in zip(corpus, folds, strict=True) if f != fold])
        model = tl.HMM().fit(rest)
        for i in np.flatnonzero(folds == fold).tolist():
            for t, probs in enumerate(model.predict_marginals([corpus[i]], as_dict=True)[0]):
                best = max(probs, key=probs.get)
                if best != corpus[i].labels[t]:
                    expected[i, t] = best, probs[best]
    found = find_label_errors(tagger, corpus, n_folds=3, random_state=3)
    assert {(s.sentence, s.token): s.suggestion for s in found} == {
        place: best for place, (best, _) in expected.items()
    }
    for s in found:  # batches of sentences are summed in float32
        assert s.suggestion_prob == pytest.approx(expected[s.sentence, s.token][1], rel=1e-4)
    assert not tagger.is_fitted


def test_open_labels_are_not_judged():
    labels = [[None if t == 0 else y for t, y in enumerate(row)] for row in TRAIN.labels]
    found = find_label_errors(tl.CRF(), TRAIN.with_labels(labels)[:100], n_folds=2)
    assert found
    assert all(s.token > 0 for s in found)


def test_mistakes_are_named():
    with raises(ParameterError, parameter="n_folds", found="5"):
        find_label_errors(tl.CRF(), TRAIN[:3])
    with raises(LabelError, where="sentence 1", found="none"):
        find_label_errors(tl.CRF(), [TRAIN[0], tl.Sentence(["a"])], n_folds=2)
    with raises(LabelError, parameter="y", found="1"):
        find_label_errors(tl.CRF(), TRAIN.tokens[:2], [["A"]])


def test_check_reports_probable_errors(tmp_path):
    corpus, planted = plant(0.005)
    path = tmp_path / "train.conll"
    tl.write(corpus, path)
    result = run(tmp_path, "check", path, "--label", "upos", "--errors", "20", "--json")
    assert result.returncode == 1
    (report,) = json.loads(result.stdout)["files"]
    problems = [p for p in report["problems"] if p["kind"] == "error"]
    assert len(problems) == 20
    lines = {corpus[i].line_of(t) for i, t in planted}
    assert sum(p["line"] in lines for p in problems) >= 12
    assert "has probability" in problems[0]["message"]


@pytest.mark.parametrize("n", [0, 1])
def test_check_of_too_few_sentences(tmp_path, n):
    path = tmp_path / "a.conll"
    path.write_text("a X\n\n" * n + "\n" * (1 - n))
    result = run(tmp_path, "check", path, "--format", "conll", "--errors", "5", "--rare", "0")
    assert result.returncode == 1 - n
    assert "error (" not in result.stdout
