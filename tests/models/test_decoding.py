"""Predicting natively gives the labels of the trellis, and leaves the rest to it."""

import numpy as np
import pytest

import tagloom as tl
from raising import raises
from tagloom import _native
from tagloom.errors import FeatureError, InfeasibleError, SentenceError
from tagloom.trellis import instruction_sets, use_instruction_set

ODD = [["They", "can", "fish", "."], [], ["é"], ["日本", "unseen", "𝒳"], ["fish"] * 2000, [""]]
EDGES = ["word[-1..1]", "suffix(2)", "edge(word)", "edge(shape[-1])"]
# Whether the model has a native decoder.
MODELS = {
    "CRF": (tl.CRF(max_iterations=2), True),
    "CRF order 2": (tl.CRF(["word", "suffix(2)"], order=2, max_iterations=2), True),
    "CRF order 3 seen": (tl.CRF(["word"], order=3, states="seen", max_iterations=1), False),
    "CRF edges": (tl.CRF(EDGES, max_iterations=2), True),
    "CRF edges order 2": (tl.CRF(EDGES, order=2, max_iterations=1), True),
    "CRF dictionary": (tl.CRF(["word"], constraints=tl.TagDictionary(), max_iterations=1), False),
    "SVM": (tl.StructuredSVM(["word[-1..0]"], max_iterations=2), True),
    "MEMM": (tl.MEMM(max_iterations=2), True),
    "MEMM edges": (tl.MEMM(EDGES, max_iterations=2), True),
    "tokens": (tl.TokenClassifier(["word", "suffix(3)"], max_iterations=2), True),
    "HMM": (tl.HMM(), True),
    "HMM order 2": (tl.HMM(order=2), True),
    "HMM without spelling": (tl.HMM(emissions=tl.emissions.Words(max_suffix=0)), True),
    "HMM lexical": (tl.HMM(emissions=tl.emissions.Words(lexical=3)), False),
    "HMM features": (tl.HMM(emissions=["word", "shape"]), False),
    "most frequent": (tl.MostFrequentTag(), True),
}


@pytest.fixture(scope="module")
def corpora():
    train, _, test = tl.datasets.load("english", label="upos")
    return train[:150], test


@pytest.fixture(scope="module", params=MODELS)
def case(request, corpora):
    model, is_native = MODELS[request.param]
    return model.fit(corpora[0]), is_native


def by_trellis(tagger, X):
    return tagger._best_labels(tagger.score_sentences(X, 1))


def test_labels_are_those_of_the_trellis(case, corpora):
    tagger, is_native = case
    decoder = tagger._fitted.decoder
    assert (decoder is not None) == is_native
    for X in (corpora[1].tokens, ODD, [ODD[0]], [[]], []):
        expected = by_trellis(tagger, X) if X else []
        for threads in (1, 2):
            assert tagger.predict(X, n_threads=threads) == expected
        assert tagger.predict(tl.Sentence(x) for x in X) == expected
        if is_native and X:
            assert decoder.decode(X, 2) == expected
    for x in corpora[1].tokens[:20]:
        assert tagger.predict([x]) == by_trellis(tagger, [x])


def test_marginals_of_few_sentences_have_the_bits_of_the_trellis(case, corpora):
    tagger, is_native = case
    test = corpora[1].tokens
    for X in ([test[0]], test[:5], ODD[:4], [tuple(test[1])], [[]], []):
        direct = tagger._fitted.decoder.marginals_of_few(X) if is_native else None
        if direct is not None:
            expected = tagger.trellis(X, n_threads=1)
            gamma = expected.split(expected.marginals()) if X else []
            assert [g.tobytes() for g in direct] == [g.tobytes() for g in gamma]
            assert [g.shape for g in direct] == [g.shape for g in gamma]
        got = tagger.predict_marginals(X)
        assert [g.shape for g in got] == [(len(x), len(tagger.labels_)) for x in X]
    if is_native:
        assert tagger._fitted.decoder.marginals_of_few([test[0]]) is not None
        assert tagger._fitted.decoder.marginals_of_few([["word"] * 2000]) is None


def features_of(tokens):
    return [
        {"word": word, "suffix": {"2": word[-2:]}, "length": len(word) / 8, "upper": word.isupper()}
        for word in tokens
    ]


ITEMS = {
    "CRF": tl.CRF(None, max_iterations=2),
    "MEMM": tl.MEMM(None, max_iterations=2),
    "function": tl.CRF(features_of, max_iterations=2),
}


@pytest.mark.parametrize("kind", ITEMS)
def test_items_are_decoded_as_by_the_trellis(kind, corpora):
    train, test = corpora
    make = (lambda tokens: tokens) if kind == "function" else features_of
    tagger = ITEMS[kind].fit([make(x) for x in train.tokens], train.labels)
    decoder = tagger._fitted.decoder
    X = [make(x) for x in [*test.tokens, *ODD]]
    expected = by_trellis(tagger, X)
    for threads in (1, 2):
        assert decoder.decode(X, threads) == expected
        assert tagger.predict(X, n_threads=threads) == expected
    assert [tagger.predict([x])[0] for x in X[:20]] == expected[:20]
    labels, probs = decoder.decode_with_probs(X[:20], 1.0, 1)
    assert labels == expected[:20]
    gamma = [tagger.trellis([x]).marginals() for x in X[:20]]
    for row, sentence_probs, g in zip(labels, probs, gamma, strict=True):
        numbers = [tagger.labels_.tolist().index(label) for label in row]
        np.testing.assert_allclose(sentence_probs, g[np.arange(len(row)), numbers], rtol=1e-5)
    if kind == "function":  # only `decode` calls it
        assert decoder.decode_few(X[:1], 1) is decoder.marginals_of_few(X[:1]) is None
        return
    for x, g in zip(X[:20], gamma, strict=True):
        (few,) = decoder.marginals_of_few([x])
        assert few.tobytes() == g.tobytes()
    assert decoder.decode_few([X[0], tuple(X[1])], 1) == expected[:2]
    lists = [[f"word:{word}" for word in x] for x in test.tokens[:3]]
    lists = [[[item] for item in x] for x in lists]
    assert tagger.predict(lists) == by_trellis(tagger, lists)


@pytest.mark.parametrize("name", instruction_sets())
def test_names_of_any_length_are_found(name):
    alphabet = "abcdefghijklmnopqrstuvwxyzéü日本"
    names = ["".join(alphabet[(7 * i + i // 3 * j) % 30] for j in range(i)) for i in range(90)]
    X = [[[one] for one in names], [names[10:], names[:80], []]]
    y = [[str(5 * i % 7) for i in range(90)], ["1", "2", "3"]]
    tagger = tl.CRF(None, algorithm="lbfgs", l2=0.01, max_iterations=30).fit(X, y)
    with use_instruction_set(name):
        assert tagger.predict(X[:1]) == y[:1]
        as_dicts = [[dict.fromkeys(token, 1.0) for token in x] for x in X]
        lists, dicts = tagger.predict_marginals(X), tagger.predict_marginals(as_dicts)
    for ours, same in zip(lists, dicts, strict=True):
        np.testing.assert_allclose(ours, same, rtol=1e-6)


@pytest.mark.parametrize("name", instruction_sets())
@pytest.mark.parametrize("Y", [23, 24, 33, 49, 64, 65])
def test_labels_that_others_dominate_change_no_path(Y, name):
    """From emissions that decide nearly alone to ones that decide little, and with ties."""
    rng = np.random.default_rng(Y)
    n_words, words = 50, _native.Index()
    for i in range(n_words):
        words.add(f"w{i}")
    lengths = [*rng.integers(0, 40, 60), 1, 255, 256, 257, 300]
    ids = [rng.integers(0, n_words, T) for T in lengths]
    X = [[[f"w{i}"] for i in row] for row in ids]
    labels = [f"L{y:02}" for y in range(Y)]
    row_ptr, cols = np.arange(0, n_words * Y + 1, Y), np.tile(np.arange(Y), n_words)
    for scale, is_whole in ((10, False), (3, False), (0.2, False), (3, True), (0, True)):
        table = scale * rng.standard_normal((n_words, Y))
        trans, ends = rng.standard_normal((Y, Y)), rng.standard_normal((2, Y))
        if is_whole:
            table, trans, ends = np.round(table), np.round(trans), np.round(ends)
        table = table.astype(np.float32)
        rows = _native.WeightRows(row_ptr, cols.astype(np.uint16), table.ravel(), Y)
        dense = _native.Dense(Y, 1, trans, ends[0], ends[1])
        emit = table[np.concatenate(ids)]
        offsets = np.cumsum([0, *lengths])
        batch = tl.Trellis(emit, trans, start=ends[0], stop=ends[1], offsets=offsets)
        expected = [[labels[y] for y in path] for path in batch.split(batch.viterbi().path)]
        with use_instruction_set(name):
            decoder = _native.ItemDecoder(words, rows, dense, labels)
            assert decoder.decode(X, 1) == expected
            assert [decoder.decode([x], 1)[0] for x in X] == expected


def test_malformed_items_are_reported_as_by_the_trellis():
    tagger = tl.CRF(None, max_iterations=1).fit([[{"a": 1.0}, ["c"]]], [["X", "Y"]])
    assert tagger._fitted.decoder is not None
    endless = {}
    endless["a"] = endless
    for item in (
        "word",
        {"a": None},
        {"a": float("nan")},
        {"a": 1e39},
        [3],
        {"\udc80": 1},
        endless,
    ):
        for X in ([[{"a": 2.0}], [{}, item]], [[item]]):
            assert tagger._fitted.decoder.decode(X, 1) is None
            with pytest.raises((SentenceError, FeatureError)):
                tagger.predict(X)
            with pytest.raises((SentenceError, FeatureError)):
                tagger.predict_marginals(X)


def test_rows_of_numbers_are_left_to_the_trellis():
    X = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.5]])]
    tagger = tl.CRF(None, max_iterations=5).fit(X, [["N", "V"], ["N"]])
    assert tagger._fitted.decoder.decode(X, 1) is None
    assert tagger.predict(X) == [["N", "V"], ["N"]]


def test_wrong_tokens_are_reported_as_ever(case):
    tagger, _ = case
    for X in ([["they"], ["can", 3]], [["they", None]], ["they"]):
        with pytest.raises(SentenceError):
            tagger.predict(X)


def test_words_in_and_out_of_the_cache_on_several_threads(corpora):
    tagger = tl.CRF(["word[-1..1]", "suffix(2)"], max_iterations=2).fit(corpora[0])
    known = corpora[1].tokens * 3
    # New words, ASCII or not, between known ones; a pass of 2,048 positions begins in a sentence.
    new = [[*x, f"new{i}", f"né{i % 7}"] for i, x in enumerate(known)]
    for X in (known, new, new[::-1]):
        expected = [tagger.predict_one(x) for x in X]
        fresh = tl.load(tagger.to_bytes())
        for threads in (2, 1, 3):
            assert fresh.predict(X, n_threads=threads) == expected
        few = zip(fresh.predict_marginals(X[:3]), tagger.predict_marginals(X[:3]), strict=True)
        assert all(one.tobytes() == other.tobytes() for one, other in few)
    for wrong, error in (("x\ud800", FeatureError), (3, SentenceError)):
        X = [*known, ["a", wrong], ["b", wrong]]  # the first error counts, on any thread
        with raises(error, where=f"sentence {len(known)}, token 1"):
            tagger.predict(X, n_threads=2)


def test_bio_is_legal_natively():
    X = [["Ada", "Lovelace", "wrote"], ["Ada", "met", "Lovelace"], ["he", "wrote", "Ada"]]
    y = [["B-PER", "I-PER", "O"], ["B-PER", "O", "B-PER"], ["O", "O", "B-PER"]]
    for model in (tl.CRF(), tl.MEMM(), tl.HMM(), tl.MEMM(constrain_training=True)):
        tagger = model.fit(X, y)
        assert tagger._fitted.decoder is not None
        words = [*sorted({word for x in X for word in x}), "unseen"]
        rng = np.random.default_rng(0)
        new = [list(rng.choice(words, size=n)) for n in range(1, 60)]
        predicted = tagger.predict(new)
        assert predicted == by_trellis(tagger, new)
        for row in predicted:
            assert all(a != "O" or b != "I-PER" for a, b in zip(["O", *row], row, strict=False))


def test_impossible_words_and_sentences():
    """−inf is an ordinary score; a sentence without any path is reported by the trellis."""
    X, y = [["a", "b"], ["b", "c"]], [["X", "Y"], ["Y", "X"]]
    tagger = tl.HMM(emissions=tl.emissions.Words(smoothing=0, unknown=0, max_suffix=0)).fit(X, y)
    assert tagger._fitted.decoder is not None
    assert np.isneginf(tagger.emission_.table.rows).any()
    assert tagger.predict([["a", "b", "c"]]) == [["X", "Y", "X"]]
    with pytest.raises(InfeasibleError) as error:
        tagger.predict([["a", "b"], ["a", "never"]])
    assert (error.value.sequence, error.value.position) == (1, 1)


def test_a_subclass_that_scores_in_another_way_is_decoded_by_its_trellis():
    X, y = [["a", "b"], ["b", "c"]], [["X", "Y"], ["Y", "X"]]

    class Turned(tl.HMM, kind="tests.Turned"):
        def score_sentences(self, sentences, n_threads):
            batch = super().score_sentences(sentences, n_threads)
            return tl.Trellis(-batch.emit, offsets=batch.offsets)

    class Flat(tl.emissions.Words, kind="tests.Flat"):
        def log_probs(self, X):
            return np.zeros_like(super().log_probs(X))

        def scores(self, X, n_threads=1):
            scored = super().scores(X, n_threads)
            return scored._replace(emit=np.zeros_like(scored.emit))

    assert not Turned.decodes_natively
    assert tl.HMM.decodes_natively
    assert tl.CRF.decodes_natively
    for tagger in (Turned().fit(X, y), tl.HMM(emissions=Flat()).fit(X, y)):
        assert tagger.predict(X) == by_trellis(tagger, X) != tl.HMM().fit(X, y).predict(X)


def test_tables_of_float64_are_left_to_the_trellis():
    hmm = tl.HMM.from_probs(
        ["N", "V"],
        ["can", "fish"],
        start=[0.5, 0.5],
        trans=[[0.2, 0.8], [0.6, 0.4]],
        emit=[[0.1, 0.9], [0.7, 0.3]],
    )
    assert hmm._fitted.decoder is None
    assert hmm.predict([["can", "fish"]]) == [["V", "N"]]


def test_many_labels():
    """Beyond 64 labels rows are added token by token, not word by word."""
    words = [f"w{i}" for i in range(90)]
    X = [words[i : i + 5] for i in range(0, 90, 5)]
    y = [[f"L{int(word[1:]) % 80:02}" for word in x] for x in X]
    for kind in (tl.HMM, tl.MostFrequentTag, tl.MEMM, tl.CRF):
        tagger = kind(labels=[f"L{i:02}" for i in range(80)]).fit(X, y)
        assert tagger._fitted.decoder is not None
        new = [*X, ["w3", "unseen", "w88"]]
        assert tagger.predict(new) == by_trellis(tagger, new)
