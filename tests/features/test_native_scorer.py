"""Scores from sentences: judged by sums over the names that the plain extractor gives."""

import itertools
import random
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plain_features as reference
import tagloom as tl
from tagloom import _native
from tagloom.trellis import instruction_sets, use_instruction_set

ATOMS = [
    (0, "value", None),
    (0, "lower", None),
    (0, "suffix", 2),
    (0, "title", None),
    (1, "value", None),
    (0, "shape", None),
]
TEMPLATES = [
    (["w=", ""], [(0, 0)], -1),
    (["w[-1]=", ""], [(0, -1)], -1),
    (["l[1]=", ""], [(1, 1)], -1),
    (["s2=", ""], [(2, 0)], -1),
    (["title", ""], [(3, 0)], -1),
    (["title|s2=", "", ""], [(3, 0), (2, 0)], -1),
    (["s2[-1]=", ""], [(2, -1)], -1),
    (["ww=", "|", ""], [(0, -1), (0, 0)], -1),
    (["pw=", "|", ""], [(4, 0), (1, 0)], -1),
    (["p=", ""], [(4, 1)], -1),
    (["x*shape=", ""], [(5, 0)], 0),
    (["x*ll=", "|", ""], [(1, 0), (1, 1)], 1),
    (["bias"], [], -1),
]
PROGRAM = ATOMS, [True, True, False, False, True, False], TEMPLATES, ["<s>"], ["</s>"]
EXTRACTOR = _native.Extractor(*PROGRAM)


def sentences(seed, n, longest=12):
    rng = random.Random(seed)
    words = ["The", "the", "Été", "dog", "dogs", "runs", "a", "B", "日本", "😀😀", "x1"]
    lengths = [rng.randint(0, longest) for _ in range(n)]
    columns = [
        [rng.choices(words, k=length) for length in lengths],
        [rng.choices(["N", "V", "D"], k=length) for length in lengths],
    ]
    numeric = [np.array([rng.uniform(-2, 2) for _ in range(sum(lengths))]) for _ in range(2)]
    return columns, numeric


def rows_for(size, K, seed=0, dtype=np.uint16):
    """Random rows: empty, sparse and dense ones."""
    rng = np.random.default_rng(seed)
    n = rng.choice([0, 1, min(3, K - 1), K], size) if K > 1 else rng.choice([0, 1], size)
    row_ptr = np.concatenate([[0], np.cumsum(n)]).astype(np.int64)
    cols = [np.sort(rng.choice(K, k, replace=False)) for k in n]
    cols = np.concatenate([*cols, np.zeros(0, int)]).astype(dtype)
    return row_ptr, cols, rng.normal(size=row_ptr[-1]).astype(np.float32)


def dense(row_ptr, cols, weights, K):
    table = np.zeros((len(row_ptr) - 1, K))
    for a in range(len(table)):
        table[a, cols[row_ptr[a] : row_ptr[a + 1]]] = weights[row_ptr[a] : row_ptr[a + 1]]
    return table


def make(K, seed=0, dtype=np.uint16, keep=0.8):
    """A scorer that has seen some sentences, its index, and its weights by name, [K] each."""
    index = _native.Index()
    EXTRACTOR.encode(*sentences(seed, 20), index, True)
    rng = np.random.default_rng(seed)
    index = index.keep(rng.random(index.size) < keep)
    rows = rows_for(index.size, K, seed, dtype)
    blob, ends = index.names()
    names = [blob[a:b].decode() for a, b in itertools.pairwise(ends)]
    by_name = dict(zip(names, dense(*rows, K), strict=True))
    assert len(by_name) == index.size
    return _native.Scorer(EXTRACTOR, index, *rows, K), index, rows, by_name


@pytest.mark.parametrize("K", [1, 2, 3, 4, 5, 16, 17, 49, 64, 65, 100])
@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_emit_is_the_sum_over_names(K, dtype):
    scorer, index, rows, by_name = make(K, K, dtype)
    columns, numeric = sentences(K + 1, 90)
    offsets, emit = scorer.emit(columns, numeric, 1)
    expected = [
        sum((value * by_name[name] for name, value in found if name in by_name), np.zeros(K))
        for found in reference.names(PROGRAM, columns, numeric)
    ]
    assert emit.dtype == np.float32
    np.testing.assert_allclose(emit, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(offsets, np.cumsum([0, *map(len, columns[0])]))

    _, indptr, ids, values = EXTRACTOR.encode(columns, numeric, index, False)
    encoded = _native.WeightRows(*rows, K).score(indptr, ids, values)
    np.testing.assert_allclose(encoded, expected, rtol=1e-5, atol=1e-5)
    ones = _native.WeightRows(*rows, K).score(indptr, ids, None)
    table = dense(*rows, K)
    plain = [table[ids[a:b]].sum(0) for a, b in itertools.pairwise(indptr)]
    np.testing.assert_allclose(ones, plain, rtol=1e-5, atol=1e-5)


def test_edge_is_emit_seen_as_moves():
    scorer, *_ = make(9)
    columns, numeric = sentences(2, 9)
    _, emit = scorer.emit(columns, numeric)
    _, edge = scorer.edge(columns, numeric)
    assert edge.shape == (len(emit), 3, 3)
    np.testing.assert_array_equal(edge.reshape(emit.shape), emit)
    with pytest.raises(ValueError, match=r"needs Y \* Y outputs; this scorer has 8"):
        make(8)[0].edge(columns, numeric)


@pytest.mark.parametrize("name", instruction_sets())
@pytest.mark.parametrize("K", [1, 2, 7, 17, 65, 140])
def test_rows_of_any_length_are_summed(K, name):
    rng = np.random.default_rng(K)
    weights = rng.standard_normal((40, K)) * (rng.random((40, K)) < rng.random((40, 1)))
    kept = weights != 0
    row_ptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    cols = np.nonzero(kept)[1].astype(np.uint16)
    rows = _native.WeightRows(row_ptr, cols, weights[kept].astype(np.float32), K)
    n = rng.integers(0, 9, 50)
    indptr = np.concatenate([[0], np.cumsum(n)])
    ids = rng.integers(0, 40, indptr[-1]).astype(np.int32)
    values = rng.standard_normal(len(ids)).astype(np.float32)
    tokens = itertools.pairwise(indptr)
    expected = [values[lo:hi] @ weights[ids[lo:hi]] for lo, hi in tokens]
    with use_instruction_set(name):
        np.testing.assert_allclose(rows.score(indptr, ids, values, 1), expected, atol=1e-5)


@pytest.mark.parametrize("K", [1, 2, 17, 70])
def test_neither_threads_nor_the_rest_of_the_batch_change_a_bit(K):
    scorer, index, rows, _ = make(K)
    columns, numeric = sentences(3, 1500)
    _, emit = scorer.emit(columns, numeric, 1)
    assert len(emit) > 3 * 2048  # more than one share for a thread
    _, indptr, ids, values = EXTRACTOR.encode(columns, numeric, index, False)
    encoded = _native.WeightRows(*rows, K).score(indptr, ids, values, 1)
    for threads in [2, 3, 8, 10**6]:
        np.testing.assert_array_equal(scorer.emit(columns, numeric, threads)[1], emit)
        again = _native.WeightRows(*rows, K).score(indptr, ids, values, threads)
        np.testing.assert_array_equal(again, encoded)
    start = 0
    for n in range(50):
        stop = start + len(columns[0][n])
        one = [[column[n]] for column in columns]
        alone = scorer.emit(one, [values[start:stop] for values in numeric])[1]
        np.testing.assert_array_equal(alone, emit[start:stop])
        start = stop


def test_many_threads_share_one_scorer():
    scorer, *_ = make(17)
    cases = [sentences(seed, 40) for seed in range(8)]
    expected = [scorer.emit(*case)[1] for case in cases]
    wrong = []

    def work(i):
        for _ in range(30):
            if not np.array_equal(scorer.emit(*cases[i])[1], expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def many_words(seed, n):
    """Sentences with more words than a scorer remembers, some of them too long to be remembered."""
    rng = random.Random(seed)
    words = [f"{'Wé'[i % 2]}{i % 7}ord{rng.randrange(40_000)}{'s' * (i % 90)}" for i in range(n)]
    tags = [rng.choice("NVD") for _ in words]
    columns = [[row[i : i + 10] for i in range(0, n, 10)] for row in (words, tags)]
    return columns, [np.array([rng.uniform(-2, 2) for _ in words]) for _ in range(2)]


@pytest.mark.parametrize("K", [17, 70])
def test_what_was_asked_before_does_not_change_a_bit(K):
    index = _native.Index()
    EXTRACTOR.encode(*many_words(0, 5000), index, True)
    rows = rows_for(index.size, K)
    warm = _native.Scorer(EXTRACTOR, index, *rows, K)
    for seed in range(3):
        warm.emit(*many_words(seed, 25_000), seed + 1)
    for seed in range(6):
        case = many_words(seed, 2000)
        cold = _native.Scorer(EXTRACTOR, index, *rows, K)
        np.testing.assert_array_equal(warm.emit(*case)[1], cold.emit(*case)[1])


def test_many_threads_meet_the_same_new_words():
    shared, index, rows, _ = make(17)
    cases = [many_words(seed % 4, 3000) for seed in range(8)]
    expected = [_native.Scorer(EXTRACTOR, index, *rows, 17).emit(*case)[1] for case in cases]
    found = {}
    ready = threading.Barrier(8)

    def work(i):
        ready.wait()
        found[i] = [shared.emit(*cases[i])[1] for _ in range(3)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(8):
        for emit in found[i]:
            np.testing.assert_array_equal(emit, expected[i])


def test_functions_of_words_are_asked_in_every_call():
    answers = {"a": "x"}
    extractor = _native.Extractor(
        [(0, "python", answers.get)], [False], [(["f=", ""], [(0, 0)], -1)], [], []
    )
    index = _native.Index()
    index.add(["f=", "x"])
    one = np.array([0, 1]), np.array([0], np.uint16), np.ones(1, np.float32)
    scorer = _native.Scorer(extractor, index, *one, 1)
    assert scorer.emit([[["a"]]], [])[1].tolist() == [[1]]
    answers.clear()
    assert scorer.emit([[["a"]]], [])[1].tolist() == [[0]]


def test_a_scorer_keeps_the_index_that_it_was_made_with():
    scorer, index, *_ = make(5)
    case = sentences(4, 30)
    before = scorer.emit(*case)[1]
    EXTRACTOR.encode(*case, index, True)
    for i in range(1000):
        index.add(str(i))
    np.testing.assert_array_equal(scorer.emit(*case)[1], before)
    del index
    np.testing.assert_array_equal(scorer.emit(*case)[1], before)


def test_a_scorer_keeps_alive_what_it_needs():
    _, index, rows, _ = make(5)
    expected = _native.Scorer(EXTRACTOR, index, *rows, 5).emit(*sentences(4, 30))[1]
    view = _native.Index.from_keys(index.keys())
    scorer = _native.Scorer(_native.Extractor(*PROGRAM), view, *(array.copy() for array in rows), 5)
    del view
    np.testing.assert_array_equal(scorer.emit(*sentences(4, 30))[1], expected)


def test_nothing_to_score():
    scorer, *_ = make(5)
    assert scorer.emit([[], []], [np.zeros(0)] * 2)[1].shape == (0, 5)
    offsets, emit = scorer.emit([[[], []], [[], []]], [np.zeros(0)] * 2, 4)
    assert offsets.tolist() == [0, 0, 0]
    assert emit.shape == (0, 5)
    empty = _native.Extractor([], [], [], [], [])
    none = np.zeros(0, np.uint16), np.zeros(0, np.float32)
    scorer = _native.Scorer(empty, _native.Index(), np.zeros(1, np.int64), *none, 5)
    assert scorer.emit([[["a", "b"]]], [])[1].tolist() == [[0] * 5] * 2


def test_a_sentence_of_many_tokens():
    scorer, *_ = make(5)
    columns, numeric = sentences(6, 1, longest=0)
    columns = [["The", "dog", "runs"] * 5000], [["D", "N", "V"] * 5000]
    numeric = [np.ones(15000)] * 2
    _, emit = scorer.emit(columns, numeric, 3)
    middle = emit.reshape(5000, 3, 5)[1:-1]
    np.testing.assert_array_equal(middle, np.broadcast_to(middle[0], middle.shape))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p, c, w: (p[:0], c, w), "row_ptr is empty"),
        (lambda p, c, w: (p[:-1], c, w), "row_ptr .* goes from 0 to 4"),
        (lambda p, c, w: (p + 1, c, w), "row_ptr .* goes from 1 to 6"),
        (lambda p, c, w: (p, c[1:], w), "there are 5 weights, but 4 cols"),
        (lambda p, c, w: (p, c[1:], w[1:]), "number of weights, 4"),
        (lambda p, c, w: (p[[0, 2, 1, 3]], c, w), "row_ptr decreases after attribute 1"),
        (lambda p, c, w: (p, c + np.uint16(2), w), "cols must be below K = 3"),
        (lambda p, c, w: (p, c[::-1].copy(), w), "attribute 0 has 3 weights"),
        (lambda p, c, w: (p[[0, 3]], c, w), "attribute 0 has 5 weights"),
    ],
)
def test_rows_that_do_not_fit(change, message):
    rows = np.array([0, 3, 4, 5]), np.array([0, 1, 2, 0, 1], np.uint16), np.ones(5, np.float32)
    _native.WeightRows(*rows, 3)
    with pytest.raises(ValueError, match=message):
        _native.WeightRows(*change(*rows), 3)


def test_scorers_that_do_not_fit():
    _, index, rows, _ = make(5)
    with pytest.raises(ValueError, match="K is 0"):
        _native.Scorer(EXTRACTOR, index, *rows, 0)
    with pytest.raises(ValueError, match=f"for 0 attributes, but the index has {index.size}"):
        _native.Scorer(EXTRACTOR, index, np.zeros(1, np.int64), rows[1][:0], rows[2][:0], 5)
    scorer = _native.Scorer(EXTRACTOR, index, *rows, 5)
    with pytest.raises(ValueError, match="threads must be at least 1; got 0"):
        scorer.emit(*sentences(1, 1), 0)
    with pytest.raises(TypeError, match=r"^sentence 0, token 1: expected a str, found int"):
        scorer.emit([[["a", 1]], [["N", "N"]]], [np.zeros(2)] * 2)


def test_encoded_features_that_do_not_fit():
    rows = np.array([0, 1, 2]), np.array([0, 1], np.uint16), np.ones(2, np.float32)
    two = np.array([0, 1], np.int32)
    for indptr, ids, values in [
        (np.zeros(0, np.int64), two, None),
        (np.array([0, 1]), two, None),
        (np.array([1, 2]), two, None),
        (np.array([0, 3, 2]), two, None),
        (np.array([0, -1, 2]), two, None),
        (np.array([0, 2]), two, np.ones(1, np.float32)),
    ]:
        with pytest.raises(ValueError, match="indptr must"):
            _native.WeightRows(*rows, 3).score(indptr, ids, values)
    for bad in [-1, 2, 2**31 - 1, -(2**31)]:
        with pytest.raises(ValueError, match=f"id {bad} is out of range"):
            _native.WeightRows(*rows, 3).score(np.array([0, 1]), np.array([bad], np.int32), None)


def test_damaged_models_are_refused_or_harmless():
    """Thousands of mutations: ValueError, or scores of the right shape; never a crash."""
    rng = np.random.default_rng(7)
    _, index, rows, _ = make(4)
    case = sentences(8, 6)
    T = sum(map(len, case[0][0]))
    refused = 0
    for _ in range(3000):
        arrays = [array.copy() for array in (index.keys(), *rows)]
        for _ in range(rng.integers(1, 4)):
            which = rng.integers(4)
            array = arrays[which]
            if rng.random() < 0.15 and len(array) > 1:
                arrays[which] = array[: rng.integers(len(array))].copy()
            elif len(array):
                raw = array.view(np.uint8)
                raw[rng.integers(len(raw))] = rng.choice([0, 1, 4, 127, 255, rng.integers(256)])
        keys, *damaged = arrays
        try:
            damaged_index = _native.Index.from_keys(keys)
            scorer = _native.Scorer(EXTRACTOR, damaged_index, *damaged, 4)
        except ValueError:
            refused += 1
            continue
        assert scorer.emit(*case)[1].shape == (T, 4)
    assert 500 < refused < 2900


@given(st.lists(st.integers(0, 9), max_size=9), st.integers(1, 30), st.data())
def test_label_lists(lengths, Y, data):
    labels = [f"L{y}" for y in range(Y)]
    T = sum(lengths)
    path = data.draw(st.lists(st.integers(0, Y - 1), min_size=T, max_size=T))
    offsets = np.cumsum([0, *lengths])
    expected = [[labels[y] for y in path[a:b]] for a, b in itertools.pairwise(offsets)]
    assert _native.label_lists(np.array(path, np.int32), offsets, labels) == expected


@pytest.mark.parametrize(
    ("path", "offsets", "message"),
    [
        ([0, 2], [0, 2], r"path\[1\] is 2"),
        ([-1], [0, 1], r"path\[0\] is -1"),
        ([0, 1], [0, 1], "offsets must rise from 0 to 2"),
        ([0, 1], [], "offsets must rise from 0 to 2"),
        ([0, 1], [0, 3, 2], "offsets must rise from 0 to 2"),
        ([0, 1], [0, -1, 2], "offsets must rise from 0 to 2"),
    ],
)
def test_label_lists_that_do_not_fit(path, offsets, message):
    with pytest.raises(ValueError, match=message):
        _native.label_lists(np.array(path, np.int32), np.array(offsets, np.int64), ["a", "b"])


def test_dense_scores_must_fit():
    good = {"order": 2, "trans": np.zeros((2, 3, 3, 3)), "start": np.zeros(3), "stop": np.zeros(3)}
    assert _native.Dense(3, **good).shape == (2, 3, 3, 3)
    for name, wrong in [
        ("trans", np.zeros((1, 3, 3, 3))),
        ("trans", np.zeros((2, 3, 3, 3), dtype=np.int64)),
        ("start", np.zeros(2)),
        ("stop", np.zeros((3, 1, 2))),
        ("order", 0),
        ("order", 60),
    ]:
        with pytest.raises(ValueError, match=r"must be|order"):
            _native.Dense(3, **good | {name: wrong})


def test_tagging_in_one_go_is_scoring_and_decoding():
    _, index, rows, _ = make(5)
    scorer = _native.Scorer(EXTRACTOR, index, *rows, 5)
    rng = np.random.default_rng(0)
    trans, start, stop = rng.normal(size=(5, 5)), rng.normal(size=5), rng.normal(size=5)
    labels, transitions = list("abcde"), _native.Dense(5, 1, trans, start, stop)
    decoder = _native.Decoder(scorer, transitions, labels)
    for n in (1, 3, 40, 6000):  # the last are tagged in several pieces
        case = sentences(9, n)
        offsets, emit = scorer.emit(*case)
        path = tl.Trellis(emit, trans, start, stop, offsets=offsets).viterbi().path
        expected = _native.label_lists(path, offsets, labels)
        for threads in (1, 2):
            assert decoder.decode(*case, threads) == expected
    forbidden = np.full(5, -np.inf)
    stuck = _native.Decoder(scorer, _native.Dense(5, 1, trans, forbidden, stop), labels)
    assert stuck.decode(*sentences(9, 3)) is None
    for wrong in (
        (transitions, labels[:4]),
        (_native.Dense(4, 1, None, None, None), labels),
        (transitions, labels, scorer),  # edges have 25 outputs
        (transitions, labels, None, _native.LocalNormaliser(np.zeros((4, 4)), np.zeros(4))),
    ):
        with pytest.raises(ValueError, match="must be for 5 labels"):
            _native.Decoder(scorer, *wrong)
    huge = [*rows[:-1], np.full_like(rows[-1], 3e38)]
    too_large = _native.Scorer(EXTRACTOR, index, *huge, 5)
    too_large = _native.Decoder(too_large, transitions, labels)
    assert too_large.decode(*sentences(9, 3)) is None
    (words, tags), numeric = sentences(9, 6000)
    unknown = [["none"] * len(row) for row in words]
    numeric = [np.zeros_like(x) for x in numeric]
    assert too_large.decode((unknown, unknown), numeric, 2) is not None
    unknown[-1], tags[:-1] = words[-1], unknown[:-1]
    assert too_large.decode((unknown, tags), numeric, 2) is None


def test_a_few_lists_of_tokens_are_tagged_as_any_others():
    X = [["they", "can"], ("fish",), [], ["can", "they", "fish"]]
    y = [["N", "V"], ["V"], ["V", "N", "N"]]
    tagger = tl.CRF(features="words", max_iterations=3).fit([x for x in X if x], y)
    decoder = tagger._fitted.decoder
    assert decoder is not None
    assert decoder.decode_few(X, 1) == decoder.decode(X, 1) == tagger.predict(iter(X))
    assert decoder.decode_few([["can"] * 1024], 1) == decoder.decode([["can"] * 1024], 1)
    for other in (tuple(X), iter(X), "they", ["they"], [["can"] * 1025], [["they", 3]], [None]):
        assert decoder.decode_few(other, 1) is None
    with pytest.raises(tl.errors.SentenceError, match="sentence 1, token 1: expected a str, found"):
        tagger.predict([["they"], ["can", 3]])


def test_a_table_takes_the_last_attribute_that_it_has():
    """Whatever the number of outputs: up to 64 they are summed by word, beyond at each token."""
    templates = tl.features.Templates(["bias", "suffix(1)", "suffix(2)", "word"])
    known = ["fish", "dish", "was", "é", "日本"]
    words = [*known, "wish", "has", "x", "𝒳é", "", "本"]
    for Y in (3, 64, 65):
        index = _native.Index()
        templates.encode([known], index, grow=True)
        table = np.random.default_rng(Y).normal(size=(index.size, Y)).astype(np.float32)
        table[1, 0] = -np.inf
        ptr, cols = (
            np.arange(len(table) + 1) * Y,
            np.tile(np.arange(Y, dtype=np.uint16), len(table)),
        )
        scorer = templates.scorer(index, ptr, cols, table.ravel(), Y, takes_last=True)
        encoded = templates.encode([words], index)
        expected = table[encoded.ids[encoded.indptr[1:] - 1]]  # the last of each token
        for _ in range(2):  # new words, then known ones
            _, emit = scorer.emit([[words]], [])
            np.testing.assert_array_equal(emit, expected)


@pytest.mark.parametrize("template", ["word[-1]", "word[-1] & word", "col(pos)"])
def test_a_table_needs_templates_of_its_token(template):
    templates, index = tl.features.Templates(["bias", template]), _native.Index()
    none = np.zeros(0, np.float32)
    with pytest.raises(ValueError, match="takes_last"):
        templates.scorer(
            index, np.zeros(1, np.int64), none.astype(np.uint16), none, 2, takes_last=True
        )
