"""Emissions: what every one has to do, weighted counts in plain Python, EM beside hmmlearn."""

import sys
from collections import Counter, defaultdict

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln, psi
from scipy.stats import dirichlet as scipy_dirichlet

import tagloom as tl
from tagloom.errors import ModelFileError, NotFittedError, ParameterError, ShapeError
from tagloom.scores.emissions import base, dirichlet
from tagloom.scores.markov import MarkovChain
from tagloom.scores.smoothing import Smoothing
from tagloom.scores.word_counts import WordTokens

X = [["they", "can", "fish"], ["They", "fish"], ["the", "old", "can"], ["can", "of", "fishes"]]
Y = np.array([1, 2, 2, 1, 2, 0, 0, 1, 1, 0, 1], dtype=np.int32)
LABELS = ("D", "N", "V")
Words, Features = tl.emissions.Words, tl.emissions.Features
CLOSED = Words(smoothing=0, unknown=0, max_suffix=0, fold_case=False)
SPECS = {
    "words": Words(),
    "closed": CLOSED,
    "lexical": Words(lexical=1),
    "features": Features(["suffix(1)", "shape"]),
    "both": Features(["word", "suffix(2)"], words=Words(rare=2)),
    "all": Features(["word", "shape"], words=Words(lexical=1)),
}


@pytest.fixture(params=SPECS)
def spec(request):
    return SPECS[request.param]


def tokens_of(sentences):
    return [token for sentence in sentences for token in sentence]


def soft(seed):
    """Probabilities of labels, and weights of tokens."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), len(Y)), rng.uniform(0.1, 2, len(Y))


def fit(spec, gamma=Y, weight=None, sentences=X):
    bound = spec.bind(LABELS, Smoothing())
    return bound.update(bound.collect(sentences, gamma, weight))


# ---- what every emission does ------------------------------------------------------------------


def test_an_emission_never_changes(spec):
    assert spec.labels == ()
    bound = spec.bind(LABELS, Smoothing())
    assert bound.labels == LABELS
    assert spec.labels == ()
    with pytest.raises(NotFittedError):
        bound.log_probs(X)
    stats = bound.collect(X, Y)
    first = bound.update(stats)
    before = first.log_probs(X)
    first.update(bound.collect(X, (Y + 1) % 3))
    assert_array_equal(first.log_probs(X), before)
    assert not bound.is_fitted


def test_encoded_data_score_as_the_sentences_do(spec):
    bound = spec.bind(LABELS, Smoothing())
    data = bound.encode(X)
    assert bound.encode(data) is data
    assert_array_equal(base.offsets_of(data), [0, 3, 5, 8, 11])
    fitted = bound.update(bound.collect(data, Y))
    assert_allclose(fitted.log_probs(data), fitted.log_probs(X), rtol=1e-6)
    assert_allclose(fitted.log_probs(X), fit(spec).log_probs(X), rtol=1e-6)
    if fitted.has_edges:
        assert_array_equal(fitted.scores(data).edge, fitted.scores(X).edge)
    other = fit(spec, sentences=[["fish", "they"], ["can"]], gamma=np.array([0, 1, 2]))
    unknown = np.isneginf(other.log_probs(X))
    assert_array_equal(np.isneginf(other.log_probs(data)), unknown)
    assert_allclose(other.log_probs(data)[~unknown], other.log_probs(X)[~unknown], rtol=1e-6)


def test_statistics_of_different_sentences_add_up(spec):
    bound = spec.bind(LABELS, Smoothing())
    _, weight = soft(0)
    for given in (None, weight):
        cut = (slice(5), slice(5, None))
        parts = [
            bound.collect(sentences, Y[at], None if given is None else given[at])
            for sentences, at in zip((X[:2], X[2:]), cut, strict=True)
        ]
        merged = bound.update(bound.merge(*parts))
        whole = bound.update(bound.collect(X, Y, given))
        new = [*X, ["fishing", "Can", "x"]]
        assert_allclose(np.exp(merged.log_probs(new)), np.exp(whole.log_probs(new)), rtol=1e-5)
        if merged.has_edges:
            edges = (np.exp(e.scores(new).edge) for e in (merged, whole))
            assert_allclose(*edges, rtol=1e-5)


def test_labels_count_as_probabilities_of_1(spec):
    one_hot = tl.emissions.dense(Y, 3)
    if SPECS["lexical"] in (spec, getattr(spec, "words", None)):
        with pytest.raises(ParameterError) as caught:
            fit(spec, one_hot)
        assert caught.value.where == "LexicalWords.collect"
        return
    assert_allclose(fit(spec, one_hot).log_probs(X), fit(spec).log_probs(X), rtol=1e-6)


def test_files_hold_everything(spec):
    fitted = fit(spec)
    plain = base.to_plain(fitted)
    again = base.from_plain(plain).bind(LABELS, Smoothing()).from_file(fitted.to_file())
    assert_array_equal(again.log_probs(X), fitted.log_probs(X))
    assert again.get_params() == fitted.get_params()
    assert again.n_parameters == fitted.n_parameters


def test_states_can_be_put_in_another_order(spec):
    fitted = fit(spec)
    key = np.reshape(fitted.order_key(), (3, -1))
    if fitted.has_edges:
        with pytest.raises(ParameterError) as caught:
            fitted.permute([2, 0, 1])
        assert caught.value.where == "LexicalWords.permute"
        return
    other = fitted.permute([2, 0, 1])
    assert_array_equal(other.log_probs(X), fitted.log_probs(X)[:, [2, 0, 1]])
    assert_array_equal(np.reshape(other.order_key(), (3, -1)), key[[2, 0, 1]])
    order = np.lexsort(key.T[::-1])
    sorted_key = fitted.permute(order).order_key()
    again = other.permute(np.lexsort(np.reshape(other.order_key(), (3, -1)).T[::-1]))
    assert_array_equal(again.order_key(), sorted_key)


def test_a_random_start_differs_by_seed(spec):
    bound = spec.bind(LABELS, Smoothing())
    if SPECS["lexical"] in (spec, getattr(spec, "words", None)):
        with pytest.raises(ParameterError):
            bound.initialise(X, np.random.default_rng(0))
        return
    one, again, other = (
        bound.initialise(X, np.random.default_rng(seed)).log_probs(X) for seed in (0, 0, 1)
    )
    assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_parameters_are_compared_and_shown():
    assert Words(rare=3) == Words(rare=3) != Words(rare=4)
    assert Words() != Features(["shape"])
    assert repr(Features(["shape"], words=Words(lexical=2))) == (
        "Features(templates=['shape'], words=Words(lexical=2))"
    )
    assert fit(Words()) != fit(Words())
    assert fit(Words()).get_params() == Words().get_params()


@pytest.mark.parametrize(
    ("spec", "member", "arguments"),
    [
        (Words(), "draw_posterior", (None, None)),
        (Words(), "log_prior", ()),
        (Words(), "mean_field", (None,)),
        (Words(lexical=1), "draw_posterior", (None, None)),
        (Words(lexical=1), "log_prior", ()),
        (Features(["shape"]), "generate", (Y, None)),
        (SPECS["both"], "log_prior", ()),
    ],
    ids=str,
)
def test_members_that_an_emission_does_not_have(spec, member, arguments):
    with pytest.raises(ParameterError) as caught:
        getattr(fit(spec), member)(*arguments)
    assert caught.value.where.endswith(f".{member}")
    assert caught.value.expected == f"an emission that supports {member}"
    assert caught.value.found


@pytest.mark.parametrize(
    ("gamma", "found"),
    [
        (Y[:-1], "int32 of shape (10,)"),
        (Y.astype(float), "float64 of shape (11,)"),
        (Y + 1, "1 to 3"),
        (Y - 1, "-1 to 1"),
        (np.zeros((11, 2)), "float64 of shape (11, 2)"),
        (np.zeros((11, 3), dtype=int), "int64 of shape (11, 3)"),
        (None, "object of shape ()"),
    ],
    ids=str,
)
def test_invalid_gamma(gamma, found):
    for spec in (Words(), Words(lexical=1), Features(["shape"])):
        with pytest.raises(ShapeError) as caught:
            fit(spec, gamma)
        assert (caught.value.parameter, caught.value.found) == ("gamma", found)


# ---- weighted counts in plain Python -----------------------------------------------------------


@pytest.mark.parametrize("weighted", [True, False])
def test_a_closed_vocabulary_has_relative_frequencies(weighted):
    gamma, weight = soft(1)
    fitted = fit(CLOSED, gamma, weight if weighted else None)
    counts, totals = defaultdict(lambda: [0.0] * 3), [0.0] * 3
    for t, word in enumerate(tokens_of(X)):
        for y in range(3):
            n = gamma[t, y] * (weight[t] if weighted else 1)
            counts[word][y] += n
            totals[y] += n
    expected = [[counts[word][y] / totals[y] for y in range(3)] for word in tokens_of(X)]
    assert_allclose(np.exp(fitted.log_probs(X)), expected, rtol=1e-5)
    assert fitted.log_prior() == 0
    assert np.isneginf(fitted.log_probs([["unheard"]])).all()


@pytest.mark.parametrize("weighted", [True, False])
def test_words_are_smoothed_by_spellings_as_in_python(weighted):
    """Pr(y | w) of probabilities of labels, as for labels: rare words make the prior."""
    gamma, weight = soft(2)
    weight = weight if weighted else np.ones(len(Y))
    spec = Words(smoothing=0.5, unknown=0.25, max_suffix=0, rare=1, fold_case=False)
    fitted = fit(spec, gamma, weight if weighted else None)
    counts = defaultdict(lambda: np.zeros(3))
    for t, word in enumerate(tokens_of(X)):
        counts[word] += gamma[t] * weight[t]
    total = {word: n.sum() for word, n in counts.items()}
    rare = [word for word in counts if total[word] <= 1 + 1e-9]
    prior = (sum(counts[word] for word in rare) + 2 / 3) / (sum(total[w] for w in rare) + 2)
    n = sum(total.values())
    joint = {
        word: 0.75 * total[word] / n * (counts[word] + 0.5 * prior) / (total[word] + 0.5)
        for word in counts
    }
    of_label = sum(joint.values()) + 0.25 * prior
    expected = [joint[word] / of_label for word in tokens_of(X)]
    assert_allclose(np.exp(fitted.log_probs(X)), expected, rtol=1e-5)
    assert_allclose(np.exp(fitted.log_probs([["unheard"]]))[0], 0.25 * prior / of_label, rtol=1e-5)


@pytest.mark.parametrize("weighted", [True, False])
def test_features_have_smoothed_frequencies(weighted):
    gamma, weight = soft(3)
    weight = weight if weighted else np.ones(len(Y))
    spec = Features(["suffix(1)", "prefix(2)"], smoothing=0.3)
    fitted = fit(spec, gamma, weight if weighted else None)
    new = ["fish", "toad", "qqq"]
    expected = np.ones((3, 3))
    for value in (lambda w: w[-1:], lambda w: w[:2]):
        seen, totals = defaultdict(lambda: [0.0] * 3), [0.0] * 3
        for t, word in enumerate(tokens_of(X)):
            for y in range(3):
                seen[value(word)][y] += gamma[t, y] * weight[t]
                totals[y] += gamma[t, y] * weight[t]
        cells = len(seen) + 1
        for t, word in enumerate(new):
            for y in range(3):
                n = seen[value(word)][y] if value(word) in seen else 0.0
                expected[t, y] *= (n + 0.3) / (totals[y] + 0.3 * cells)
    assert_allclose(np.exp(fitted.log_probs([new])), expected, rtol=1e-5)
    assert fitted.n_parameters == 3 * (len({w[-1] for w in tokens_of(X)}) +
                                       len({w[:2] for w in tokens_of(X)}))  # fmt: skip


# ---- maxima and posteriors ---------------------------------------------------------------------


def test_the_update_of_features_maximises_likelihood_and_prior():
    gamma, _ = soft(4)
    best = fit(Features(["suffix(1)"], smoothing=0.4), gamma)

    def objective(emission):
        return (gamma * emission.log_probs(X)).sum() + emission.log_prior()

    bound = Features(["suffix(1)"], smoothing=0.4).bind(LABELS)
    rng = np.random.default_rng(0)
    top = objective(best)
    for scale in (0.3, 0.03):
        for _ in range(20):
            noise = np.exp(scale * rng.standard_normal(gamma.shape))
            stats = bound.collect(X, gamma * noise)
            assert objective(bound.update(stats)) < top


def test_features_are_drawn_from_their_posterior():
    gamma, _ = soft(5)
    spec = Features(["suffix(1)"], smoothing=0.4)
    bound = spec.bind(LABELS)
    stats = bound.collect(X, gamma)
    values = list(dict.fromkeys(word[-1] for word in tokens_of(X)))
    counts = np.zeros((len(values) + 1, 3))  # the last: other values
    for t, word in enumerate(tokens_of(X)):
        counts[values.index(word[-1])] += gamma[t]
    alpha = counts + 0.4 + 1
    mean = alpha / alpha.sum(axis=0)
    variance = mean * (1 - mean) / (alpha.sum(axis=0) + 1)
    rng, n = np.random.default_rng(0), 1500
    words = [[*values, "?"]]
    draws = np.array([np.exp(bound.draw_posterior(stats, rng).log_probs(words)) for _ in range(n)])
    assert_allclose(draws.sum(axis=1), 1, rtol=1e-5)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / n)).all()
    assert_allclose(draws.var(axis=0), variance, rtol=0.2)


def test_the_variational_bound_of_known_labels_is_the_evidence():
    """log Pr(x | y) of a Dirichlet-multinomial, in closed form."""
    bound = Features(["suffix(1)", "prefix(1)"], smoothing=0.4).bind(LABELS)
    fitted = bound.mean_field(bound.collect(X, Y))
    lower = fitted.log_probs(X)[np.arange(len(Y)), Y].sum() + fitted.log_prior()
    evidence = 0.0
    for at in (-1, 0):
        values = [word[at] for word in tokens_of(X)]
        cells = len(set(values)) + 1
        for y in range(3):
            counts = Counter(v for v, label in zip(values, Y, strict=True) if label == y)
            evidence += gammaln(cells * 1.4) - gammaln(cells * 1.4 + sum(counts.values()))
            evidence += sum(gammaln(1.4 + n) - gammaln(1.4) for n in counts.values())
    assert lower == pytest.approx(evidence, rel=1e-6)
    other = bound.mean_field(bound.collect(X, (Y + 1) % 3))  # another q bounds it from below
    assert other.log_probs(X)[np.arange(len(Y)), Y].sum() + other.log_prior() < evidence
    again = fitted.update(bound.collect(X, Y))  # the divergence goes with its posterior
    assert again.log_prior() == bound.update(bound.collect(X, Y)).log_prior()


def test_digamma_is_that_of_scipy():
    x = np.concatenate([np.logspace(-8, 6, 200), np.arange(1, 12)])
    assert_allclose(dirichlet.digamma(x), psi(x), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("scale", [0.001, 0.5, 30])
def test_dirichlet_draws_have_their_mean_logarithm(scale):
    alpha = scale * np.array([[1.0, 2.0], [0.5, 4.0], [3.0, 1.0]])
    rng, n = np.random.default_rng(0), 4000
    draws = np.array([dirichlet.draw(alpha, rng) for _ in range(n)])
    assert np.isfinite(draws).all()
    assert_allclose(np.exp(draws).sum(axis=1), 1, rtol=1e-12)
    error = draws.std(axis=0) / np.sqrt(n)
    assert (np.abs(draws.mean(axis=0) - dirichlet.mean_log(alpha)) < 5 * error).all()
    probs = np.exp(draws)
    mean, error = alpha / alpha.sum(axis=0), probs.std(axis=0) / np.sqrt(n)
    assert (np.abs(probs.mean(axis=0) - mean) < 5 * error + 1e-12).all()


def test_divergence_is_its_expectation():
    """KL(q ‖ p) = E_q[log q - log p], by draws from q."""
    alpha = np.array([[2.0], [0.7], [4.0]])
    rng = np.random.default_rng(0)
    logs = np.array([dirichlet.draw(alpha, rng)[:, 0] for _ in range(20_000)])
    theta = np.exp(logs).T
    of_q = scipy_dirichlet(alpha[:, 0]).logpdf(theta / theta.sum(axis=0))
    of_p = scipy_dirichlet([1.3] * 3).logpdf(theta / theta.sum(axis=0))
    ratio = of_q - of_p
    error = ratio.std() / np.sqrt(len(ratio))
    assert abs(ratio.mean() - dirichlet.divergence(alpha, 1.3)) < 5 * error
    assert dirichlet.divergence(np.full((3, 2), 1.3), 1.3) == pytest.approx(0, abs=1e-12)


def test_em_by_these_parts_is_that_of_hmmlearn():
    """Likelihoods and parameters after each of ten iterations, from the same start."""
    rng = np.random.default_rng(0)
    V, K = 6, 3
    judge = CategoricalHMM(K, implementation="log", init_params="", n_iter=1, tol=-np.inf)
    judge.startprob_, judge.n_features = rng.dirichlet(np.ones(K)), V
    judge.transmat_, judge.emissionprob_ = (rng.dirichlet(np.ones(n), K) for n in (K, V))
    lengths = [7, 1, 12, 30]
    symbols = rng.integers(0, V, size=(sum(lengths), 1))
    words = [f"w{v}" for v in range(V)]
    cuts = np.cumsum(lengths)[:-1]
    sentences = [[words[s] for s in part] for part in np.split(symbols[:, 0], cuts)]

    labels = ["0", "1", "2"]
    hmm = tl.HMM.from_probs(
        labels,
        words,
        start=judge.startprob_,
        trans=judge.transmat_,
        emit=judge.emissionprob_,
    )
    chain, emission = hmm.chain_, CLOSED.bind(labels)
    data = emission.encode(sentences)
    current = hmm.emission_
    for _ in range(10):
        trans, start, stop, _, _ = chain.transitions(labels)
        trellis = tl.Trellis(current.log_probs(data), trans, start, stop, offsets=data.offsets)
        assert trellis.log_partition().sum() == pytest.approx(
            judge.score(symbols, lengths), rel=1e-6
        )
        expected = trellis.expected_counts()
        counts = np.zeros((K + 1, K + 1))
        counts[:K, :K], counts[K, :K] = expected.transitions, expected.start
        chain = MarkovChain.from_counts(counts, Smoothing("add-k", k=0, stop=False))
        current = emission.update(emission.collect(data, trellis.marginals()))
        judge.fit(symbols, lengths)
    assert_allclose(np.exp(chain.log_trans[0]), judge.transmat_, rtol=1e-4)
    assert_allclose(np.exp(current.log_probs([words])).T, judge.emissionprob_, rtol=1e-4)


# ---- generating --------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [CLOSED, Words(), Words(lexical=1)], ids=str)
def test_words_are_drawn_as_probable_as_they_are(spec):
    fitted = fit(spec)
    rng, n = np.random.default_rng(0), 2000
    labels = np.array([1, 2])
    drawn = Counter(tuple(fitted.generate(labels, rng)) for _ in range(n))
    firsts = Counter()
    for (first, _), times in drawn.items():
        firsts[first] += times
    known = fitted.table.known_words()
    trellis = fitted.scores([[word, "can"] for word in known])
    probs = np.exp(trellis.emit[::2, 1].astype(float))
    if trellis.edge is not None:  # N before V
        probs *= np.exp(trellis.edge[1::2, 1, 2].astype(float))
    for word, p in zip(known, probs, strict=True):
        assert abs(firsts[word] / n - p) < 5 * np.sqrt(p * (1 - p) / n) + 1e-9
    if spec is not CLOSED:
        assert "?" in Counter(fitted.generate(np.ones(200, dtype=int), rng, unknown="?"))


# ---- a new kind --------------------------------------------------------------------------------


class Counted(tl.emissions.Emission, kind="tests.Counted"):
    """Lengths of tokens, in a table of smoothed frequencies of up to ``most`` letters."""

    learned = ("log_p_",)

    def __init__(self, most=8):
        self.most = most

    def encode(self, X):
        return X if isinstance(X, WordTokens) else super().encode(X)

    def lengths(self, X):
        return np.minimum([len(word) for x in X for word in x], self.most)

    def log_probs(self, X):
        return self.log_p_.T[self.lengths(X)]

    def collect(self, X, gamma, weight=None):
        gamma = tl.emissions.dense(gamma, len(self.labels), weight)
        one_hot = np.eye(self.most + 1)[self.lengths(X)]  # [T, most + 1]
        return {"counts": gamma.T @ one_hot}

    def update(self, stats):
        counts = stats["counts"] + 0.1
        return self.replace(log_p_=np.log(counts / counts.sum(axis=1, keepdims=True)))


def test_defaults_of_the_protocol():
    bound = Counted().bind(LABELS)
    fitted = bound.update(bound.merge(bound.collect(X[:2], Y[:5]), bound.collect(X[2:], Y[5:])))
    assert_allclose(fitted.log_p_, bound.update(bound.collect(X, Y)).log_p_)
    scored = fitted.scores(X)
    assert_array_equal(scored.offsets, [0, 3, 5, 8, 11])
    assert scored.edge is None
    assert fitted.log_prior() == 0.0
    assert_array_equal(fitted.permute([1, 0, 2]).log_p_, fitted.log_p_[[1, 0, 2]])
    assert bound.initialise(X, np.random.default_rng(0)).log_p_.shape == (3, 9)
    for member, arguments in (("generate", (Y, None)), ("draw_posterior", (None, None))):
        with pytest.raises(ParameterError):
            getattr(fitted, member)(*arguments)
    with pytest.raises(ParameterError):
        _ = fitted.n_parameters
    with pytest.raises(ParameterError):
        fitted.order_key()


def test_lists_and_tuples_of_statistics_are_merged():
    bound = Counted().bind(LABELS)
    a, b = (1, [np.ones(2), {"n": 3}]), (2, [np.ones(2), {"n": 4}])
    n, (array, named) = bound.merge(a, b)
    assert (n, array.tolist(), named) == (3, [2, 2], {"n": 7})


def labelled():
    return [[LABELS[y] for y in part] for part in np.split(Y, [3, 5, 8])]


def test_an_unknown_kind_is_one_clear_line(tmp_path, monkeypatch):
    tl.HMM(emissions=Counted()).fit(X, labelled()).save(tmp_path / "m")
    monkeypatch.delitem(base._REGISTRY.classes, "tests.Counted")
    with pytest.raises(ModelFileError) as caught:
        tl.load(tmp_path / "m")
    text = str(caught.value)
    assert "\n" not in text
    assert "'tests.Counted'" in text
    assert "Import the module that defines its class" in text
    base._REGISTRY.add("tests.Counted", Counted)
    assert tl.load(tmp_path / "m").emission_.most == 8


def test_damaged_arrays_of_a_kind_are_refused(tmp_path):
    from tagloom import storage

    model = tl.HMM(emissions=Counted()).fit(X, labelled())
    header, arrays = storage.read_bytes(model.to_bytes())
    good = arrays["emission_log_p_"]
    for wrong in (good[:2], good * np.nan, None):
        damaged = {**arrays, "emission_log_p_": wrong}
        storage.write(tmp_path / "m", header, {k: v for k, v in damaged.items() if v is not None})
        with pytest.raises(ModelFileError):
            tl.load(tmp_path / "m")


def test_packages_announce_their_kinds(tmp_path, monkeypatch):
    module = tmp_path / "some_emissions.py"
    module.write_text(
        "import tagloom as tl\n"
        "class Announced(tl.emissions.Words, kind='some.Announced'):\n"
        "    pass\n"
    )
    info = tmp_path / "some_emissions-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-emissions\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tagloom.emissions]\nsome.Announced = some_emissions:Announced\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "some.Announced" in tl.emissions.known_kinds()
    assert "some_emissions" not in sys.modules
    assert base.from_plain({"kind": "some.Announced", "params": {"rare": 3}}).rare == 3
    monkeypatch.delitem(base._REGISTRY.classes, "some.Announced")
    monkeypatch.delitem(sys.modules, "some_emissions")
