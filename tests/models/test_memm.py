"""MEMM: local distributions against plain Python, closed forms and scikit-learn."""

import itertools
import math

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom import _native
from tagloom.errors import LabelError, ParameterError
from tagloom.models.layouts import cut

X = [["they", "can", "fish"], ["can", "of", "fish"], ["fish"], ["they", "fish", "of", "can"]]
GOLD = [["N", "V", "V"], ["N", "P", "N"], ["V"], ["N", "V", "P", "N"]]
NEW = [["fish", "can", "of", "it"], ["it"], [], ["of", "they"]]
KINDS = [
    ("log", "adagrad"),
    ("log", "lbfgs"),
    ("perceptron", "auto"),
    ("hinge", "subgradient"),
    ("hinge", "frank-wolfe"),
]
FEATURES = [["word", "word[-1]"], ["word", "edge(word)", "edge(suffix(1))"], ["edge(word)"]]


def memm(loss="log", algorithm="auto", **options):
    defaults = {"features": ["word", "edge(word)"], "max_iterations": 20, "min_weight": 0.0}
    return tl.MEMM(**{"loss": loss, "algorithm": algorithm, **defaults, **options})


class Judge:
    """The same model in plain Python: dicts of weights, one distribution at a time."""

    def __init__(self, scores, follows=None):
        self.labels = scores.labels
        self.follows = follows or {}  # label before, or None -> what may come next; others: all
        Y, names = range(len(self.labels)), self.labels
        self.start = {names[y]: scores.start[y] for y in Y}
        self.trans = {(names[p], names[y]): scores.trans[p, y] for p in Y for y in Y}
        self.node, self.edge = {}, {}
        for a, name in enumerate(scores.names):
            for w in range(scores.rows.ptr[a], scores.rows.ptr[a + 1]):
                self.node[name, names[scores.rows.cols[w]]] = float(scores.rows.weights[w])
        for a, name in enumerate(scores.edge_names or ()):
            for w in range(scores.edge_rows.ptr[a], scores.edge_rows.ptr[a + 1]):
                p, y = divmod(int(scores.edge_rows.cols[w]), len(names))
                self.edge[name, names[p], names[y]] = float(scores.edge_rows.weights[w])
        self.extractor = scores.extractor

    def steps(self, sentence):
        """For each token a function from the label before to {label: log probability}."""
        nodes = self.extractor.extract(sentence)
        edges = self.extractor.extract(sentence, edges=True) if self.edge else [{}] * len(nodes)
        return [lambda p, a=a, e=e: self.local(p, a, e) for a, e in zip(nodes, edges, strict=True)]

    def local(self, y_prev, node, edge):
        scores = {}
        for y in self.follows.get(y_prev, self.labels):
            s = sum(self.node.get((a, y), 0.0) * v for a, v in node.items())
            if y_prev is None:
                s += self.start[y]
            else:
                s += self.trans[y_prev, y]
                s += sum(self.edge.get((a, y_prev, y), 0.0) * v for a, v in edge.items())
            scores[y] = s
        top = max(scores.values())
        log_z = top + math.log(sum(math.exp(s - top) for s in scores.values()))
        return {y: scores[y] - log_z if y in scores else -math.inf for y in self.labels}

    def log_prob(self, sentence, path):
        steps = zip(self.steps(sentence), [None, *path], path, strict=False)  # the last has no next
        return sum(step(y_prev)[y] for step, y_prev, y in steps)

    def paths(self, sentence):
        everything = itertools.product(self.labels, repeat=len(sentence))
        return {path: self.log_prob(sentence, path) for path in everything}

    def marginals(self, sentence, paths):
        total = sum(map(math.exp, paths.values()))
        found = np.zeros((len(sentence), len(self.labels)))
        for path, log_prob in paths.items():
            for t, y in enumerate(path):
                found[t, self.labels.index(y)] += math.exp(log_prob) / total
        return found


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize(("loss", "algorithm"), KINDS)
def test_everything_equals_enumeration(loss, algorithm, features):
    tagger = memm(loss, algorithm, features=features).fit(X, GOLD)
    judge = Judge(tagger.scores_)
    trellis = tagger.trellis(NEW)
    np.testing.assert_allclose(trellis.log_partition(), 0, atol=1e-4)
    for i, sentence in enumerate(NEW):
        paths = judge.paths(sentence)
        assert sum(map(math.exp, paths.values())) == pytest.approx(1)
        names = tagger.labels_.tolist()
        for path, log_prob in paths.items():
            ids = [names.index(y) for y in path]
            assert trellis[i].path_score(ids) == pytest.approx(log_prob, abs=1e-4, rel=1e-5)
        ranked = sorted(paths.values(), reverse=True)
        best = tagger.predict_nbest([sentence], 3)[0]
        np.testing.assert_allclose([b.score for b in best], ranked[:3], atol=1e-4, rtol=1e-5)
        predicted = tuple(tagger.predict([sentence])[0])
        assert paths[predicted] == pytest.approx(ranked[0], abs=1e-4)
        np.testing.assert_allclose(
            tagger.predict_marginals([sentence])[0], judge.marginals(sentence, paths), atol=1e-5
        )


@pytest.mark.parametrize("combinations", ["seen", "all"])
@pytest.mark.parametrize("features", FEATURES)
def test_the_loss_and_its_gradient(features, combinations):
    """Σ weight·−log Pr(y_t | y_{t-1}, x), in plain Python; its gradient by differences."""
    tagger = memm(features=features, combinations=combinations)
    weight = [1.0, 0.5, 2.0, 3.0]
    data = tagger._read(X, GOLD, weight, None)
    objective, data.layout = tagger._make_objective(data)
    layout = data.layout
    free = objective.mask()
    assert layout.n_weights == len(free)

    def loss(theta):
        judge = Judge(cut(theta, data))
        return -sum(w * judge.log_prob(*pair) for w, *pair in zip(weight, X, GOLD, strict=True))

    theta = np.random.default_rng(0).normal(size=len(free)) * free
    grad = np.empty_like(theta)
    assert objective.evaluate(theta, grad, 1) == pytest.approx(loss(theta), rel=1e-5)
    assert not grad[~free].any()
    for j in np.flatnonzero(free):
        step = np.zeros_like(theta)
        step[j] = 1e-2
        slope = (loss(theta + step) - loss(theta - step)) / 2e-2
        assert grad[j] == pytest.approx(slope, abs=2e-3)


def test_without_input_probabilities_are_relative_frequencies():
    X, y = [["."] * 40], ["ABBABAABBBABABBBAABABABBAABBBABABAABBABA"]
    tagger = memm(algorithm="lbfgs", l2=1e-6, features=["edge(word)"], max_iterations=300)
    tagger.fit(X, [list(y[0])])
    transitions = list(itertools.pairwise(y[0]))
    for p, label in itertools.product("AB", repeat=2):
        share = transitions.count((p, label)) / sum(before == p for before, _ in transitions)
        names = tagger.labels_.tolist()
        trellis = tagger.trellis([["."] * 2])[0]
        given = trellis.path_score([names.index(p), names.index(label)])
        other = trellis.path_score([names.index(p), 1 - names.index(label)])
        assert 1 / (1 + math.exp(other - given)) == pytest.approx(share, abs=1e-3)


def test_the_optimum_is_that_of_logistic_regression_with_the_label_before():
    """scikit-learn: Σ nll + ‖θ‖² / (2C), so that C = 1 / (2·l2); the label before is one-hot."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    X = [rng.normal(size=(20, 2)) for _ in range(5)]
    y = [["abc"[int(x[0] > 0) + int(x[0] + x[1] > 1)] for x in rows] for rows in X]
    tagger = memm(
        algorithm="lbfgs", l2=0.05, features=None, combinations="all", max_iterations=500
    ).fit(X, y)

    def rows(values, before):  # two numbers, and which label is before: a, b, c, or none
        return [*values, *(before == p for p in ("a", "b", "c", None))]

    before = [p for labels in y for p in [None, *labels[:-1]]]
    tokens = zip(np.concatenate(X), before, strict=True)
    design = np.array([rows(x, p) for x, p in tokens], dtype=float)
    judge = LogisticRegression(C=10.0, fit_intercept=False, tol=1e-9, max_iter=5000)
    judge.fit(design, np.concatenate(y))
    trellis = tagger.trellis(X)
    path = np.concatenate([np.searchsorted(["a", "b", "c"], ys) for ys in y])
    ours = trellis.path_score(path)  # [N] log probability of the gold labels
    log_probs = judge.predict_log_proba(design)[np.arange(len(path)), path]
    theirs = log_probs.reshape(5, 20).sum(axis=1)
    np.testing.assert_allclose(ours, theirs, rtol=2e-3)


def test_the_label_before_is_of_use():
    """The vowel of the second syllable repeats the first one: the input says nothing."""
    X = [["a", "?"], ["o", "?"], ["u", "?"]]
    y = [["A", "A"], ["O", "O"], ["U", "U"]]
    assert memm(features=["word"]).fit(X, y).predict(X) == y
    assert tl.TokenClassifier(features=["word"]).fit(X, y).predict(X) != y


def test_edges_join_the_label_before_and_the_input():
    """An exclusive or of the label before and the word, which no sum of the two can tell."""
    X = [["p", "=", "x"], ["p", "!", "x"], ["q", "=", "x"], ["q", "!", "x"]]
    y = [["P", "P", "x"], ["P", "Q", "x"], ["Q", "Q", "x"], ["Q", "P", "x"]]
    plain = memm(algorithm="lbfgs", l2=0.01, features=["word"]).fit(X, y)
    joined = memm(algorithm="lbfgs", l2=0.01, features=["word", "edge(word)"]).fit(X, y)
    assert plain.predict(X) != y
    assert joined.predict(X) == y


def test_illegal_labellings_have_no_probability_and_the_others_share_it():
    X = [["a", "b", "c"], ["b", "x"], ["x", "a"]]
    y = [["B-X", "I-X", "O"], ["B-X", "O"], ["O", "B-X"]]
    tagger = memm(features=["word"]).fit(X, y)
    assert tagger.scheme_ == "bio"
    judge, sentence = Judge(tagger.scores_), ["b", "b", "x"]
    legal = {
        path: log_prob
        for path, log_prob in judge.paths(sentence).items()
        if path[0] != "I-X" and ("O", "I-X") not in itertools.pairwise(path)
    }
    trellis = tagger.trellis([sentence])[0]
    mass = sum(map(math.exp, legal.values()))
    assert mass < 0.999
    assert trellis.log_partition() == pytest.approx(math.log(mass), abs=1e-4)
    np.testing.assert_allclose(trellis.marginals(), judge.marginals(sentence, legal), atol=1e-5)
    assert tuple(tagger.predict([sentence])[0]) == max(legal, key=legal.get)


FOLLOWS = {None: "NV", "N": "VP", "P": "N", "V": "NPV"}


def legal_space():
    transitions = [[y in FOLLOWS[p] for y in "NPV"] for p in "NPV"]
    return tl.StateSpace.from_transitions(
        ["N", "P", "V"], transitions, [y in FOLLOWS[None] for y in "NPV"]
    )


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize(("loss", "algorithm"), KINDS)
def test_allowed_labels_share_all_probability_with_constraints_in_training(
    loss, algorithm, features
):
    options = {"features": features, "constraints": legal_space(), "constrain_training": True}
    tagger = memm(loss, algorithm, **options).fit(X, GOLD)
    judge = Judge(tagger.scores_, FOLLOWS)
    trellis = tagger.trellis(NEW)
    np.testing.assert_allclose(trellis.log_partition(), 0, atol=1e-4)
    for i, sentence in enumerate(NEW):
        paths = judge.paths(sentence)
        for path, log_prob in paths.items():
            score = trellis[i].path_score(["NPV".index(y) for y in path])
            assert score == pytest.approx(log_prob, abs=1e-4, rel=1e-5)
        best = tuple(tagger.predict([sentence])[0])
        assert paths[best] == pytest.approx(max(paths.values()), abs=1e-4)


def test_the_loss_under_constraints():
    options = {"constraints": legal_space(), "constrain_training": True}
    tagger = memm(**options)
    data = tagger._read(X, GOLD, None, None)
    objective, data.layout = tagger._make_objective(data)
    layout = data.layout
    theta = np.random.default_rng(1).normal(size=layout.n_weights) * objective.mask()
    judge = Judge(cut(theta, data), FOLLOWS)
    expected = -sum(judge.log_prob(*pair) for pair in zip(X, GOLD, strict=True))
    found = objective.evaluate(theta, np.empty_like(theta), 1)
    assert found == pytest.approx(expected, rel=1e-5)
    tagger.fit(X, GOLD)
    with raises(LabelError, where="sentence 1", expected="that the constraints allow"):
        memm(**options).fit(X, [GOLD[0], ["N", "P", "P"], *GOLD[2:]])
    runs = tl.StateSpace.from_edges(  # V at most twice in a row
        ["N", "P", "V"],
        ["N", "P", "V", "V"],
        [(p, y) for p in range(4) for y in (0, 1)] + [(0, 2), (1, 2), (2, 3)],
        [0, 1, 2],
    )
    with raises(ParameterError, parameter="constraints", found="which looks further back"):
        memm(constraints=runs, constrain_training=True).fit(X, GOLD)


def test_constraints_in_training_are_kept_in_files(tmp_path):
    tagger = memm(constraints=legal_space(), constrain_training=True).fit(X, GOLD)
    tagger.save(tmp_path / "memm.tagloom")
    loaded = tl.load(tmp_path / "memm.tagloom")
    assert loaded.constrain_training
    np.testing.assert_array_equal(loaded.trellis(NEW).emit, tagger.trellis(NEW).emit)
    np.testing.assert_array_equal(loaded.trellis(NEW).marginals(), tagger.trellis(NEW).marginals())


def test_label_bias():
    """Lafferty et al. 2001: about 42 % of errors for the MEMM and 4.6 % for the CRF.

    With exact transitions the second letter tells a MEMM nothing, so half of the paths are wrong;
    1/16 is the least that any tagger gets wrong. Bounds: five standard deviations of 500 sequences.
    """
    data = tl.datasets.classic("rib-rob")
    possible = [scores > -np.inf for scores in (data.trans, data.start, data.stop)]
    space = tl.StateSpace.from_transitions(data.labels, *possible)
    train, test = data.sample(2000, random_state=1), data.sample(500, random_state=2)
    options = {"features": ["word"], "constraints": space, "constrain_training": True}
    wrong = {}
    for kind in (tl.MEMM, tl.CRF):
        tagger = kind(algorithm="lbfgs", l2=0.1, **options).fit(train)
        pairs = zip(tagger.predict(test), test.labels, strict=True)
        wrong[kind] = sum(path != gold for path, gold in pairs) / 500
        same = tagger.predict_marginals([list("rib"), list("rob")])
        assert np.allclose(*same, atol=1e-5) == (kind is tl.MEMM)
    assert 0.38 < wrong[tl.MEMM] < 0.62
    assert 0.01 < wrong[tl.CRF] < 0.12


def normalised(emit, offsets, trans, start, edge):
    """Log probabilities of a local model, by their definition, in float64."""
    emit = emit.astype(np.float64)
    scores = emit[:, None, :] + trans + (0 if edge is None else edge)  # [T, y_prev, y]
    log_z = np.logaddexp.reduce(scores, axis=2)  # [T, y_prev]
    log_z[np.isneginf(log_z)] = 0
    result = emit.copy()
    for begin, end in itertools.pairwise(offsets):
        if end > begin:
            result[begin : end - 1] -= log_z[begin + 1 : end]
            result[begin] -= np.logaddexp.reduce(emit[begin] + start)
    return result


@pytest.mark.parametrize("Y", [1, 2, 17, 70])
@pytest.mark.parametrize("scale", [1.0, 1e4])  # with which most exponentials underflow
@pytest.mark.parametrize("has_edge", [False, True])
def test_local_normalisers(Y, scale, has_edge):
    rng = np.random.default_rng(Y)
    offsets = np.array([0, 3, 3, 4, 100, 300])
    emit = (scale * rng.normal(size=(300, Y))).astype(np.float32)
    emit[rng.random(emit.shape) < 0.1] = -np.inf
    trans, start = scale * rng.normal(size=(Y, Y)), scale * rng.normal(size=Y)
    trans[rng.random((Y, Y)) < 0.2] = -np.inf
    emit[offsets[:-1][np.diff(offsets) > 0], 0] = 1.0  # a sentence may begin with the first label
    edge = (scale * rng.normal(size=(300, Y, Y))).astype(np.float32) if has_edge else None
    normaliser = _native.LocalNormaliser(trans, start)
    ours = normaliser.normalise(emit, offsets, edge)
    expected = normalised(emit, offsets, trans, start, edge)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6 * scale)
    np.testing.assert_array_equal(normaliser.normalise(emit, offsets, edge, 2), ours)
    with pytest.raises(ValueError, match="offsets must rise from 0 to 300"):
        normaliser.normalise(emit, offsets[:-1], edge)
    with pytest.raises(ValueError, match=f"must be for {Y} labels"):
        normaliser.normalise(np.zeros((300, Y + 1), np.float32), offsets, None)


def test_weights_have_names(tmp_path):
    tagger = memm(algorithm="lbfgs").fit(X, GOLD)
    edges = {w.label for w in tagger.feature_weights("edge(*")}
    assert "N → V" in edges
    assert edges <= {f"{p} → {y}" for p in "NPV" for y in "NPV"}
    assert tagger.transition_features_["P", "N"] > 0
    assert not tagger.scores_.stop.any()
    tagger.save(tmp_path / "memm.tagloom")
    loaded = tl.load(tmp_path / "memm.tagloom")
    assert loaded.predict_marginals(NEW)[0].tolist() == tagger.predict_marginals(NEW)[0].tolist()


def test_a_sentence_weighs_as_much_as_its_copies():
    options = {"algorithm": "lbfgs", "l2": 0.1, "max_iterations": 200}
    twice = memm(**options).fit([*X, X[1]], [*GOLD, GOLD[1]])
    weighted = memm(**options).fit(X, GOLD, sample_weight=[1, 2, 1, 1])
    np.testing.assert_allclose(twice.trellis(X).emit, weighted.trellis(X).emit, atol=5e-3)


def test_warm_start_continues_from_the_weights():
    tagger = memm(algorithm="lbfgs", l2=0.1, max_iterations=200, warm_start=True).fit(X, GOLD)
    before, loss = tagger.trellis(NEW).marginals(), tagger.history_[-1].loss
    tagger.set_params(max_iterations=1).fit(X, GOLD)
    assert tagger.history_[0].loss < loss * 1.001
    np.testing.assert_allclose(tagger.trellis(NEW).marginals(), before, atol=0.1)
    tagger.set_params(max_iterations=50).fit([["of", "ice"]], [["P", "A"]])  # a new label
    assert tagger.labels_.tolist() == ["A", "N", "P", "V"]
    assert tagger.predict([["of", "ice"]]) == [["P", "A"]]


@pytest.mark.parametrize("loss", ["log", "perceptron", "hinge"])
def test_partial_fit_learns_more(loss):
    tagger = memm(loss, average=False)
    for _ in range(20):
        tagger.partial_fit(X[:1], GOLD[:1]).partial_fit(X[1:], GOLD[1:])
    judge = Judge(tagger.scores_)
    for sentence, gold in zip(X, GOLD, strict=True):
        steps = zip(judge.steps(sentence), [None, *gold[:-1]], gold, strict=True)
        for step, y_prev, y in steps:
            given = step(y_prev)
            assert max(given, key=given.get) == y


def test_invalid_parameters_are_named():
    with pytest.raises(ParameterError) as caught:
        memm("hinge", "lbfgs").fit(X, GOLD)
    assert (caught.value.parameter, caught.value.found) == ("algorithm", "'lbfgs'")
    with raises(ParameterError, expected="an online learner", found="frank-wolfe"):
        memm("hinge", "frank-wolfe").partial_fit(X, GOLD)
    with raises(LabelError, where="sentence 0, token 1", found="None"):
        memm().fit([["a", "b"]], [["X", None]])
