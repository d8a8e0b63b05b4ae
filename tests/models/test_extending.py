"""New parts in under 40 lines each, as another package would write them."""

import copy
import inspect
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

import tagloom as tl
from tagloom.models import IterativeTagger
from tagloom.models.baselines import MostFrequentTag
from tagloom.models.labelled import read_labelled
from tagloom.parameters import number
from tagloom.storage import File
from tagloom.training import Step
from tagloom.trellis import Structure, Trellis
from tagloom.trellis.structures import Ragged


def lines_of(part):
    """Count the lines of a class that are neither blank nor its docstring."""
    lines = [line for line in inspect.getsource(part).splitlines() if line.strip()]
    return len(lines) - len((part.__doc__ or "").splitlines())


# ---- a tagger ----------------------------------------------------------------------------------


class WordLearner:
    """A perceptron of words, without context: one step is one epoch."""

    def __init__(self, data, rate):
        self.places, self.gold, self.rate = words_of(data)[1], data.gold, rate
        self.table = np.zeros((self.places.max() + 1, len(data.labels)))  # [words, Y]

    def step(self):
        mistakes = 0
        for place, y in zip(self.places, self.gold, strict=True):
            if (best := self.table[place].argmax()) != y:
                self.table[place, [y, best]] += [self.rate, -self.rate]
                mistakes += 1
        return Step(mistakes)

    def weights(self):
        return self.table.copy()

    def state(self):
        return {"table": self.table}

    def restore(self, state):
        self.table = state["table"].copy()


class WordTagger(IterativeTagger, kind="tests.WordTagger"):
    """A tagger that sees one word at a time."""

    rate: float = number(default=1.0, above=0, help="Step of an update.")

    def read_data(self, X, y, sample_weight):
        return read_labelled(X, y, sample_weight, None)

    def make_learner(self, data):
        return WordLearner(data, self.rate)

    def finish(self, data, outcome, record):
        self.history_, self.training_ = outcome.records, record
        self.rows_ = dict(zip(words_of(data)[0].tolist(), outcome.weights, strict=True))
        self.labels_ = data.labels

    def score_sentences(self, sentences, n_threads):
        Y, unseen = len(self.labels_), np.zeros(len(self.labels_))
        rows = [[self.rows_.get(word, unseen) for word in words(x)] for x in sentences]
        return Trellis.stack([np.reshape(row, (-1, Y)) for row in rows])

    def to_file(self):
        header = {"labels": list(self.labels_), "words": list(self.rows_), "rate": self.rate}
        header["training"] = self.training_
        return File(header, {"table": np.array(list(self.rows_.values()))})

    @classmethod
    def from_file(cls, file, *, features=None):
        tagger, header = cls(rate=file.header["rate"]), file.header
        tagger.rows_ = dict(zip(header["words"], file.arrays["table"], strict=True))
        tagger.training_, tagger.labels_ = header["training"], header["labels"]
        return tagger


def words(sentence):
    return getattr(sentence, "tokens", sentence)


def words_of(data):
    return np.unique([w for x in data.sentences for w in words(x)], return_inverse=True)


@pytest.fixture(scope="module")
def corpora():
    return tl.datasets.load("english", label="upos")


def test_a_tagger_takes_under_40_lines():
    assert lines_of(WordTagger) < 40
    parts = (WordTagger, WordLearner, words, words_of)
    assert sum(map(lines_of, parts)) < 50  # with the algorithm that it learns by


def test_a_tagger_of_the_user(corpora, tmp_path):
    train, dev, test = corpora
    seen = []
    tagger = WordTagger(max_iterations=20).fit(train, dev=dev, callback=seen.append)
    assert tagger.score(test) > 0.7
    assert len(seen) == len(tagger.history_) == tagger.training_["iterations"] < 20  # stopped early
    assert tagger.training_["dev"] == max(record.dev for record in seen) == tagger.score(dev)
    tagger.save(tmp_path / "toy.tagloom")
    for other in (tl.load(tmp_path / "toy.tagloom"), pickle.loads(pickle.dumps(tagger))):
        assert other.predict(test) == tagger.predict(test)
        assert other.digest() == tagger.digest()
        assert other.training_ == tagger.training_
    assert tagger.describe()["training"]["tokens"] == train.n_tokens
    calibrated = tagger.calibrate(dev)
    assert calibrated.temperature_ != 1
    assert tl.load(calibrated.to_bytes()).temperature_ == calibrated.temperature_
    assert tagger.predict_nbest([["They"]], 2)[0][0].labels == ["PRON"]
    assert tagger.predict([[], ["They"]]) == [[], ["PRON"]]
    assert tagger.explain(["They", "fish"]).labels == tuple(tagger.predict([["They", "fish"]])[0])


def test_a_tagger_of_the_user_resumes_to_the_same_bits(corpora, tmp_path):
    train, dev, _ = corpora
    whole = WordTagger(max_iterations=4).fit(train, dev=dev)
    path = tmp_path / "run"
    WordTagger(max_iterations=2).fit(train, dev=dev, checkpoint=path)
    again = WordTagger(max_iterations=4).fit(train, dev=dev, checkpoint=path)
    for word, row in whole.rows_.items():
        assert_array_equal(again.rows_[word], row)
    assert [record.dev for record in again.history_] == [record.dev for record in whole.history_]
    with pytest.raises(tl.errors.TagloomError):
        WordTagger(rate=2.0).fit(train, checkpoint=path)


PACKAGE = """
import numpy as np
from tagloom.models import IterativeTagger
from tagloom.models.labelled import read_labelled
from tagloom.parameters import number
from tagloom.storage import File
from tagloom.training import Step
from tagloom.trellis import Trellis

"""


def test_a_tagger_of_another_package_on_the_command_line(corpora, tmp_path):
    """Installed with an entry point, its kind is a command of `tagloom train`."""
    parts = [inspect.getsource(part) for part in (WordLearner, WordTagger, words, words_of)]
    (tmp_path / "outside.py").write_text(PACKAGE + "\n\n".join(parts))
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    entry = "[tagloom.models]\ntests.WordTagger = outside:WordTagger\n"
    (info / "entry_points.txt").write_text(entry)
    train, dev, _ = corpora
    tl.write(train[:100], tmp_path / "train.conllu", "conllu")
    tl.write(dev, tmp_path / "dev.conllu", "conllu")

    def run(*arguments, stdin=""):
        done = subprocess.run(
            [sys.executable, "-c", "from tagloom.cli import main; main()", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONIOENCODING": "utf-8"},
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    help = run("train", "tests.WordTagger", "--help")
    assert "--rate FLOAT" in help
    assert "Step of an update.  [default: 1.0]" in help
    assert "--max-iterations INTEGER" in help
    assert "--features" not in help
    options = ["--label", "upos", "--dev", "dev.conllu", "--rate", "0.5", "-o", "toy.tagloom"]
    options += ["--checkpoint", "run", "--calibrate", "--json"]
    summary = json.loads(run("train", "tests.WordTagger", "train.conllu", *options))
    assert summary["tokens"] == train[:100].n_tokens
    assert summary["dev"] > 0.5
    assert (tmp_path / "run").exists()
    text = ["--format", "text"]
    assert run("tag", "toy.tagloom", *text, stdin="the fish\n").startswith("the/DET ")
    scores = json.loads(run("eval", "toy.tagloom", "dev.conllu", "--json"))
    assert scores["accuracy"] == pytest.approx(summary["dev"])
    assert "trained on" in run("inspect", "toy.tagloom")
    assert "the: DET" in run("explain", "toy.tagloom", *text, stdin="the fish\n")


# ---- a structure -------------------------------------------------------------------------------


class ExactlyOne(Ragged):
    """Exactly one position of a sequence has label 1, all others 0; no chain of order k can."""

    def __init__(self, emits, is_batch=True):  # emits: [T_i, 2] of each sequence
        self.emits, self.is_batch = emits, is_batch

    @property
    def offsets(self):
        return np.cumsum([0, *map(len, self.emits)])

    def __getitem__(self, i, /):
        is_batch = isinstance(i, slice)
        return ExactlyOne(self.emits[i] if is_batch else [self.emits[i]], is_batch)

    def _analyses(self):  # of each sequence: analyses [T, T], their scores [T] and probs [T]
        for emit in self.emits:
            analyses = np.eye(len(emit), dtype=np.int32)
            scores = np.where(analyses, emit[:, 1], emit[:, 0]).sum(axis=1)
            yield analyses, scores, np.exp(scores - np.logaddexp.reduce(scores))

    def log_partition(self):
        return self._per_sequence(
            np.array([np.logaddexp.reduce(s) for _, s, _ in self._analyses()])
        )

    def nbest(self, n, *, on_infeasible="none"):
        ranked = [(np.argsort(-s, kind="stable")[:n], a, s, p) for a, s, p in self._analyses()]
        lists = [(a[top], s[top], p[top]) for top, a, s, p in ranked]
        return lists if self.is_batch else lists[0]

    def viterbi(self, *, on_infeasible="raise"):
        best = self.nbest(1) if self.is_batch else [self.nbest(1)]
        scores = np.array([scores[0] for _, scores, _ in best])
        return np.concatenate([paths[0] for paths, _, _ in best]), self._per_sequence(scores)

    def marginals(self, *, on_infeasible="raise"):
        return np.concatenate([np.column_stack([1 - p, p]) for _, _, p in self._analyses()])

    def entropy(self, *, on_infeasible="raise"):
        return self._per_sequence(np.array([-(p @ np.log(p)) for _, _, p in self._analyses()]))

    def sample(self, n, random_state=None, *, on_infeasible="raise"):
        rng = np.random.default_rng(random_state)
        return np.hstack([a[rng.choice(len(p), n, p=p)] for a, _, p in self._analyses()])

    def constrain(self, allowed, /):
        pairs = zip(self.split(np.asarray(allowed)), self.emits, strict=True)
        return ExactlyOne([np.where(mask, e, -np.inf) for mask, e in pairs], self.is_batch)

    def tempered(self, temperature, /):
        return ExactlyOne([emit / temperature for emit in self.emits], self.is_batch)


class OneSubject(MostFrequentTag, kind="tests.OneSubject"):
    """A tagger that uses the structure: each sentence has exactly one subject."""

    def score_sentences(self, sentences, n_threads):
        scored = super().score_sentences(sentences, n_threads)
        return ExactlyOne(scored.split(scored.emit))


X = [["dogs", "see", "cats"], ["cats", "see", "dogs"], ["dogs", "sleep"], ["cats", "run"]]
y = [["subj", "_", "_"], ["subj", "_", "_"], ["subj", "_"], ["subj", "_"]]


@pytest.fixture(scope="module")
def one_subject():
    return OneSubject(labels=["_", "subj"]).fit(X, y)


def test_a_structure_takes_under_40_lines():
    assert lines_of(ExactlyOne) < 40


def test_a_trellis_and_the_toy_are_structures():
    scores = np.zeros((2, 2))
    assert isinstance(Trellis(scores), Structure)
    assert isinstance(ExactlyOne([scores]), Structure)
    assert not isinstance(scores, Structure)


def test_the_toy_agrees_with_a_trellis_whose_automaton_counts():
    """Counting the label 1 up to 2 and allowing only paths with one of them is the same set."""
    rng = np.random.default_rng(0)
    emits = [rng.standard_normal((T, 2)) for T in (1, 4, 7)]
    # States: 0 and no 1 so far; 1 now; 0 and one 1 before.
    space = tl.StateSpace.from_edges(
        2, [0, 1, 0], [(0, 0), (0, 1), (1, 2), (2, 2)], initial=[0, 1], final=[1, 2]
    )
    toy, trellis = ExactlyOne(emits), Trellis.stack(emits, states=space)
    assert_array_equal(toy.viterbi()[0], trellis.viterbi().path)
    assert_allclose(toy.viterbi()[1], trellis.viterbi().score, rtol=1e-12)
    assert_allclose(toy.log_partition(), trellis.log_partition(), rtol=1e-12)
    assert_allclose(toy.marginals(), trellis.marginals(), atol=1e-12)
    assert_allclose(toy.entropy(), trellis.entropy(), atol=1e-12)
    assert_allclose(toy.tempered(3.0).marginals(), trellis.tempered(3.0).marginals(), atol=1e-12)
    for mine, other in zip(toy.nbest(3), trellis.nbest(3), strict=True):
        for a, b in zip(mine, other, strict=True):
            assert_allclose(a, b, rtol=1e-12)
    allowed = np.ones((12, 2), dtype=bool)
    allowed[[1, 5], 1] = False
    assert_allclose(
        toy.constrain(allowed).marginals(), trellis.constrain(allowed).marginals(), atol=1e-12
    )
    assert [len(part) for part in toy.split(toy.marginals())] == [1, 4, 7]
    assert_allclose(toy[1].log_partition(), trellis[1].log_partition(), rtol=1e-12)


def test_a_tagger_works_with_the_toy(one_subject, tmp_path):
    pairs = [["dogs", "cats"], ["see", "dogs", "cats"]]
    for labels in one_subject.predict(pairs):
        assert labels.count("subj") == 1
    assert one_subject.predict(X) == y
    assert one_subject.predict([["dogs", "see", "cats"]], known=[[None, None, "subj"]]) == [
        ["_", "_", "subj"]
    ]
    for marginals in one_subject.predict_marginals(pairs):
        assert_allclose(marginals[:, 1].sum(), 1.0, rtol=1e-12)
    (best, second), _ = one_subject.predict_nbest(pairs, n=2)
    assert best.prob + second.prob == pytest.approx(1.0)
    assert one_subject.entropy(pairs).shape == (2,)
    assert one_subject.calibrate(X, y).temperature_ > 0
    one_subject.save(tmp_path / "toy.tagloom")
    assert tl.load(tmp_path / "toy.tagloom").predict(X) == y


def test_samples_of_a_tagger_with_the_toy(one_subject):
    (draws,) = one_subject.sample([["dogs", "cats", "see"]], n=2000, random_state=0)
    counts = [sum(labels[t] == "subj" for labels in draws) for t in range(3)]
    assert sum(counts) == 2000
    probs = one_subject.predict_marginals([["dogs", "cats", "see"]])[0][:, 1]
    assert chisquare(counts, 2000 * probs).pvalue > 1e-6


def test_what_needs_transitions_is_an_error(one_subject):
    with pytest.raises(tl.errors.ParameterError) as caught:
        one_subject.explain(["dogs", "see"])
    assert (caught.value.where, caught.value.found) == ("explain", "ExactlyOne")


# ---- an emission -------------------------------------------------------------------------------


class Bell(tl.emissions.Emission, kind="tests.Bell"):
    """Numbers with a normal distribution of its own mean and variance for each label."""

    learned = ("mean_", "variance_")

    def __init__(self, floor=1e-3):
        self.floor = floor

    def log_probs(self, X):
        distance = (np.concatenate(X) - self.mean_) ** 2 / self.variance_  # [T, Y]
        return -0.5 * (distance + np.log(2 * np.pi * self.variance_))

    def collect(self, X, gamma, weight=None):
        gamma, x = tl.emissions.dense(gamma, len(self.labels), weight), np.concatenate(X)[:, 0]
        return np.stack([gamma.sum(axis=0), x @ gamma, x**2 @ gamma])  # [3, Y]

    def update(self, stats):
        n, first, second = stats
        mean = first / n
        return self.replace(mean_=mean, variance_=np.maximum(second / n - mean**2, self.floor))

    def generate(self, y, rng):
        return rng.normal(self.mean_[y], np.sqrt(self.variance_[y]))[:, None]

    def order_key(self):
        return self.mean_

    @property
    def n_parameters(self):
        return 2 * len(self.labels)


@pytest.fixture
def signal():
    """Numbers near 0 while low, near 5 while high."""
    rng = np.random.default_rng(0)
    y = [["low"] * 5 + ["high"] * n + ["low"] * 3 for n in (4, 7, 2)]
    X = [rng.normal([5.0 * (label == "high") for label in row])[:, None] for row in y]
    return X, y


def test_an_emission_of_the_user(signal, tmp_path):
    X, y = signal
    assert lines_of(Bell) < 40
    hmm = tl.HMM(emissions=Bell()).fit(X, y)
    flat, labels = np.concatenate(X)[:, 0], np.array([label for row in y for label in row])
    for i, label in enumerate(hmm.labels_):
        assert hmm.emission_.mean_[i] == pytest.approx(flat[labels == label].mean())
        assert hmm.emission_.variance_[i] == pytest.approx(flat[labels == label].var())
    assert hmm.score(X, y) > 0.9
    assert hmm.training_["tokens"] == len(labels)

    gamma = hmm.predict_marginals(X)
    hmm.save(tmp_path / "bell.tagloom")
    for again in (tl.load(tmp_path / "bell.tagloom"), pickle.loads(pickle.dumps(hmm))):
        assert again.emissions == Bell()
        for a, b in zip(again.predict_marginals(X), gamma, strict=True):
            np.testing.assert_array_equal(a, b)
    best = max(
        ((hmm.log_joint(X[2], path), path) for path in hmm.sample(X[2:], 50, random_state=0)[0]),
        key=lambda pair: pair[0],
    )
    assert hmm.log_joint(X[2], hmm.predict(X[2:])[0]) >= best[0] - 1e-9
    assert "token" in {reason.name for reason in hmm.explain(X[0])[0].reasons}
    drawn = hmm.generate(0, length=6)
    assert drawn.tokens.shape == (6, 1)
    assert len(drawn.labels) == 6
    assert copy.copy(hmm).digest() == hmm.digest()


def test_an_emission_of_the_user_with_weights_and_search(signal):
    X, y = signal
    weighted = tl.HMM(emissions=Bell()).fit(X, y, sample_weight=[1, 1, 0])
    expected = tl.HMM(emissions=Bell()).fit(X[:2], y[:2])
    np.testing.assert_allclose(weighted.emission_.mean_, expected.emission_.mean_)
    from sklearn.model_selection import GridSearchCV

    choices = {"emissions__floor": [0.001, 1000.0], "order": [1, 2]}
    search = GridSearchCV(tl.HMM(emissions=Bell()), choices, cv=3).fit(X, y)
    assert search.best_params_["emissions__floor"] < 1


def test_an_emission_whose_module_is_not_imported(signal, tmp_path):
    X, y = signal
    path = tmp_path / "bell.tagloom"
    tl.HMM(emissions=Bell()).fit(X, y).save(path)
    code = f"import tagloom as tl; tl.load({str(path)!r})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("tagloom.errors.ModelFileError: ")
    assert "'tests.Bell'" in last
    assert "Import the module that defines its class" in last
