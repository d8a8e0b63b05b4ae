"""The narrated scripts run without a word on stderr, and say what they should."""

import itertools
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tagloom as tl

pytestmark = pytest.mark.scripts

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
        "Without the constraints, such paths have probability 0.1329.",
    ],
    "neural_names.py": [
        "  tanh     none\n",
        "  sigmoid  recurrence, h0, output\n           all hidden units are equal: yes",
    ],
    "restore_noise.py": [
        "received  the NOISE NOISE NOISE NOISE market at NOISE\n"
        "restored  the cook went to the market at dawn",
        "9 of 15 words restored; `the` everywhere would have restored 2.",
    ],
    "restore_text.py": ["A bigram model of 495 sentences, 2,165 words.", "ms per gap."],
    "true_casing.py": ["written ", "  may    "],
    "languages.py": ["11 of 12 are right."],
    "label_bias.py": [
        "MEMM  Pr(1 2 3 | rib) = 0.501   Pr(4 5 3 | rib) = 0.499\n"
        "  MEMM  Pr(1 2 3 | rob) = 0.501   Pr(4 5 3 | rob) = 0.499\n"
        "  CRF   Pr(1 2 3 | rib) = 0.97",
        "Wrong paths of 500, in 10 runs",
    ],
    "dependency_edges.py": [
        "60 training sentences, 200 test sentences",
        "local           94.5         0             0          4",
        "inference       94.6         0             0          0",
        "global          94.8         0             0          0",
    ],
    "semantic_roles.py": [
        "2 of 13\n",
        "no overlap        0.825   0.846   0.835         0 of 13",
        "ate     ARG0 [The dog that they found]  ARG1 [the bread]",
    ],
    "local_and_global.py": [
        "Parts of speech: 495 training sentences, 105 test sentences; accuracy.\n"
        "                     token          MEMM        global             p\n"
        "log ",
        "Entities in BIO: 495 training sentences, 105 test sentences; span F1.\n"
        "                     token  token, legal          MEMM        global             p\n",
    ],
    "pos_unknown_words.py": [
        "495 training sentences, 105 test sentences.",
        "293 of the 1,559 test words are unknown.",
        "  glibbly        ADV ",
    ],
    "chunking.py": [
        "illegal labels\neach token alone         3",
        "\nlabel trigrams          12",
        "Trigrams against bigrams: p = 0.",
    ],
    "entities_gazetteer.py": [
        "99 test sentences; Lexicon(511 phrases).",
        "\n  Belgrade (LOC)\n",
        "\nReading books in Reading/B-LOC is what Antwerp/B-LOC taught Hanne .\n",
    ],
    "acronyms.py": [
        "113 terms, 2,572 letters; each tagged by a model that never saw it.",
        "  magnetoencephalography     MG    -> MEG\n",
        "electrocardiograph\n  ECG    probability 0.9",
    ],
    "garden_path.py": [
        "  the old man              D J N        Pr(old is N) = 0.220\n"
        "  the old man the          D N V D      Pr(old is N) = 0.868\n",
        "greedy   D J N D N   log-probability -7.544\n"
        "Viterbi  D N V D N   log-probability -5.667\n",
        "  sum         -4.038  >  sum         -5.915\n"
        "The difference, 1.877, equals that of the path scores, 1.877.",
        "Pr(D | N) = 0.08   -4.101 > -4.528   D N V D N\n"
        "  Pr(D | N) = 0.16   -4.192 < -3.835   D J N D N",
    ],
    "induce_tags.py": [
        "600 sentences, 8,825 tokens; 12 states, no labels.",
        "one state                 0.165",
        "With a dictionary of all words, 1.33 tags per token:",
    ],
    "regimes.py": [
        "1440 minutes; 610 miss a value, 184 of them both",
        "     4     6175.5  <",
        "missing values integrated out     94.9            100.0",
    ],
    "tracking.py": [
        "400 steps of 2 s, 74 of them with gaps",
        "converged\nnoise of the receiver: 6.0 m; learnt: 6.0 and 6.1 m",
        "within the ellipse of 95 %: 97%",
    ],
    "digits.py": [
        "150 training and 150 test sequences of 10 pictures.",
        "0 -> 1, 1 -> 2, 2 -> 3, 3 -> 4, 4 -> 5, 5 -> 6, 6 -> 7, 7 -> 8, 8 -> 9, 9 -> 0",
    ],
    "partial_labels.py": [
        "495 training sentences, 7,266 tokens; accuracy on 105 others.",
        "A dictionary has one label for 76% of the tokens, several for others.",
    ],
    "grid_search.py": [
        "Phrases of 250 sentences, 3-fold cross-validation; span F1.",
        "\nThe best: endings, l2 = 0.",
        "CRF(features=['word', 'lower[-1..1]', 'suffix(1..3)[-1..1]'], algorithm='lbfgs', l2=0.",
    ],
}


def figures(said, start):
    """The numbers in the rest of the line that begins so."""
    (line,) = [line for line in said.splitlines() if line.startswith(start)]
    return [float(x) for x in re.findall(r"-?\d+\.?\d*", line.removeprefix(start))]


def spelling_helps_with_unknown_words(said):
    steps = ["the word ", "+ the words around", "+ endings", "+ beginnings", "+ shapes"]
    accuracy, known, unknown = np.transpose([figures(said, step) for step in steps])
    assert (np.diff(unknown) > 0).all()
    assert unknown[-1] - unknown[1] > 10 > known[-1] - known[1] > 0
    assert accuracy[-1] > figures(said, "commonest label")[0] + 4


def label_histories_help(said):
    names = ["each token alone", "... and legal", "label bigrams", "label trigrams"]
    rows = np.array([figures(said, name) for name in names])  # states, P, R, F1, illegal
    assert (np.diff(rows[:, 3]) > 0).all()
    assert rows[0, 4] > 20
    assert (rows[1:, 4] == 0).all()


def exact_search_restores_more(said):
    for share in ("10%", "25%", "50%"):
        _, exact, greedy, usual = figures(said, f" {share}")
        assert exact > greedy > usual


def a_language_model_puts_capitals_back(said):
    names = ["small letters", "most frequent form", "2-gram model"]
    small, usual, bigrams = (figures(said, name)[0] for name in names)
    assert bigrams > usual > small


def a_gazetteer_finds_names(said):
    *scores, n_found, n = figures(said, "spelling and context")
    *better, n_more, same = figures(said, "... and the gazetteer")
    assert (np.array(better) > scores).all()
    assert n_found < n_more < n == same
    (p,) = figures(said, "With so few names, a difference this large arises by chance with p =")
    assert 0 < p < 0.3


def counting_corrects_acronyms(said):
    letters, acronyms = figures(said, "I, O ")
    for cap in (4, 8):
        more_letters, more_acronyms = figures(said, f"I, O×1 ... O×{cap}")
        assert more_letters > letters
        assert more_acronyms > acronyms + 5


def order_helps_to_read(said):
    (alone, _), (together, whole) = figures(said, "one by one "), figures(said, "in sequence ")
    assert alone + 10 < together < 100
    assert whole > 50


def hidden_labels_cost_little(said):
    rows = [figures(said, f"{share:12}%") for share in (0, 50, 80, 90, 95)]
    scattered, whole = np.transpose([row[-2:] for row in rows])
    assert scattered[0] == whole[0]
    assert (np.diff(scattered) < 0).all()
    assert scattered[1] > scattered[0] - 4
    assert (scattered[2:] > whole[2:] + 2).all()
    by_sets, by_sure = (
        figures(said, f"  trained on {what} ")[0] for what in ("all sets", "sets of one label")
    )
    assert by_sure + 1 < by_sets < scattered[0]


def a_dictionary_names_the_states(said):
    one_state, em, gibbs = (
        figures(said, f"{name} ") for name in ("one state", "EM", "Gibbs sampling")
    )
    assert gibbs[0] > em[0] + 0.1 > one_state[0] + 0.2  # many-to-one
    assert em[2] > 0.15 > one_state[2]  # V-measure
    (with_all,), (with_half,) = (
        figures(said, f"  accuracy on {what} ") for what in ("all tokens", "the second half")
    )
    assert with_all > with_half + 0.1 > gibbs[0] + 0.2


def a_search_pays(said):
    table = np.array(
        [figures(said, f"{name:16} ") for name in ("words", "words around", "endings")]
    )
    assert table.shape == (3, 3)
    assert (np.diff(table.max(axis=1)) > 0).all()
    (alone,), (best,) = figures(said, "  words alone "), figures(said, "  the best ")
    assert alone + 10 < best < 100


def features_help_a_network(said):
    network, both = (figures(said, f"  {name:8} ")[0] for name in ("network", "both"))
    assert both > network + 10
    assert both > 40


PROVES = {
    "neural_names.py": features_help_a_network,
    "pos_unknown_words.py": spelling_helps_with_unknown_words,
    "restore_text.py": exact_search_restores_more,
    "true_casing.py": a_language_model_puts_capitals_back,
    "chunking.py": label_histories_help,
    "entities_gazetteer.py": a_gazetteer_finds_names,
    "acronyms.py": counting_corrects_acronyms,
    "digits.py": order_helps_to_read,
    "partial_labels.py": hidden_labels_cost_little,
    "grid_search.py": a_search_pays,
    "induce_tags.py": a_dictionary_names_the_states,
}


NEED_TORCH = ("neural_names.py",)


def test_every_example_is_listed_here_and_in_the_docs():
    names = {path.name for path in EXAMPLES.glob("*.py")}
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text(encoding="utf-8")
    assert names == set(SAYS) == set(re.findall(r"^\| `(\w+\.py)` \|", page, re.MULTILINE))


def as_case(name):
    """Mark the examples that need torch; `make test-peers` runs them."""
    return pytest.param(name, marks=pytest.mark.peers) if name in NEED_TORCH else name


@pytest.mark.parametrize("name", [*map(as_case, SAYS)])
def test_example(name, tmp_path):
    if name in NEED_TORCH:
        pytest.importorskip("torch")
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
    if name in PROVES:
        PROVES[name](done.stdout)
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
    assert "illegal labels" in illegal


@pytest.mark.parametrize("name", ["digits.py", "grid_search.py"])
def test_what_is_missing_is_said(name, monkeypatch):
    for module in ("sklearn.datasets", "sklearn.model_selection"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit, match=r"needs scikit-learn.*: pip install scikit-learn"):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
