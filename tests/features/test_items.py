"""Dicts, lists, arrays and functions: the same attributes as python-crfsuite makes of them."""

import copy
import itertools
import json
import math
import pickle

import numpy as np
import pycrfsuite
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tagloom as tl
from raising import raises
from tagloom._native import Index
from tagloom.errors import FeatureError, ParameterError, SentenceError, ShapeError
from tagloom.features import Function, Items, Templates, extract, from_dict, make

# ---- forms of items --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "attributes"),
    [
        ([], {}),
        ({}, {}),
        (["a", "b"], {"a": 1, "b": 1}),
        (("a", "b"), {"a": 1, "b": 1}),
        ({"a", "b"}, {"a": 1, "b": 1}),
        ({"a": "b"}, {"a:b": 1}),
        ({"a": ""}, {"a:": 1}),
        ({"": "b", "a": 2.5, "c": 3, "d": True}, {":b": 1, "a": 2.5, "c": 3, "d": 1}),
        ({"a": False, "b": 0, "c": 0.0, "d": -0.0, "e": -1}, {"e": -1}),
        ({"a": {"b": "c", "d": 0.5}}, {"a:b:c": 1, "a:d": 0.5}),
        ({"a": ["b", "c"], "d": {"e"}}, {"a:b": 1, "a:c": 1, "d:e": 1}),
        ({"a": {"b": {"c": ["d"]}}, "e": "f"}, {"a:b:c:d": 1, "e:f": 1}),
        ({"a": np.float32(0.5), "b": np.int64(2), "c": np.bool_(True)}, {"a": 0.5, "b": 2, "c": 1}),
        ({"ü": "日本", "a:b": "c=d"}, {"ü:日本": 1, "a:b:c=d": 1}),
        (["a", "a"], {"a": 2}),
    ],
)
def test_what_an_item_may_be(item, attributes):
    assert Items().extract([item]) == [attributes]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
numbers = st.floats(allow_nan=False, allow_infinity=False, width=32) | st.booleans()
flat = texts | numbers | st.lists(texts, max_size=3, unique=True) | st.sets(texts, max_size=3)
deeper = flat | st.dictionaries(texts, flat, max_size=3)
values = deeper | st.dictionaries(texts, deeper, max_size=2)
items = st.dictionaries(texts, values, max_size=4) | st.lists(texts, max_size=4, unique=True)


@given(st.lists(items, max_size=4))
def test_python_crfsuite_makes_the_same_attributes(sentence):
    """But for those of value 0, which we leave out, and names that are made twice.

    Its ``items()`` shows the last of those; a model sums them, and so does `extract`.
    """
    theirs = pycrfsuite.ItemSequence(sentence).items()
    ours = Items().extract(sentence)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        other = {name: value for name, value in other.items() if value != 0}
        single = {name for name in other if is_made_once(name, sentence)}
        assert {n: v for n, v in mine.items() if n in single} == pytest.approx(
            {n: v for n, v in other.items() if n in single}
        )
        assert set(other) <= set(mine)


def is_made_once(name, sentence):
    return all([n for n, _ in flatten(item)].count(name) <= 1 for item in sentence)


def flatten(item):
    """Yield names and values, the slow and simple way."""
    if not isinstance(item, dict):
        yield from ((name, 1.0) for name in item)
        return
    for key, value in item.items():
        if isinstance(value, str):
            yield f"{key}:{value}", 1.0
        elif isinstance(value, dict | list | tuple | set):
            yield from ((f"{key}:{name}", inner) for name, inner in flatten(value))
        else:
            yield key, float(value)


@given(st.lists(st.lists(items, max_size=3), max_size=4))
def test_encoding_against_plain_python(X):
    index = Index()
    encoded = Items().encode(X, index, grow=True)
    blob, ends = index.names()
    names = [blob[a:b].decode() for a, b in itertools.pairwise(ends)]
    assert len(set(names)) == index.size
    assert encoded.offsets.tolist() == [0, *itertools.accumulate(map(len, X))]
    weights = np.ones(len(encoded.ids)) if encoded.values is None else encoded.values
    counts = dict.fromkeys(names, 0)
    for t, item in enumerate(itertools.chain(*X)):
        row = slice(encoded.indptr[t], encoded.indptr[t + 1])
        found = [(names[i], v) for i, v in zip(encoded.ids[row], weights[row], strict=True)]
        expected = [(name, np.float32(value)) for name, value in flatten(item)]
        assert sorted(found) == sorted(expected)
        for name, _ in found:
            counts[name] += 1
    assert index.counts().tolist() == [counts[name] for name in names]
    # what was learnt is found again, and only that
    # ... without those of value 0, which count as seen while learning, as in CRFsuite
    again = Items().encode([*X, [["never seen"], {"nor": "this"}]], index)
    assert again.ids.tolist() == encoded.ids[weights != 0].tolist()
    assert again.indptr[-3:].tolist() == [len(again.ids)] * 3
    assert index.size == len(names)


def test_many_tokens_long_names_and_dicts_of_many_entries():
    """More than the reader looks ahead, collects of a dict, hashes together, or joins in memory."""
    random = np.random.default_rng(0)
    letters = ["a", "bc", "defg", "ü", "日本", "x" * 15, "y" * 16, "z" * 17, "ä" * 40, "w" * 9000]
    other = [1.0, 0.5, 0, True, False, 3, np.float32(0.25), np.float64(2), {"in": "q"}, ["r", "s"]]

    def value():
        return letters[random.integers(10)] if random.random() < 0.6 else other[random.integers(10)]

    def item():
        n = int(random.choice([0, 1, 5, 13, 63, 64, 65, 200], p=[0.1, 0.2, 0.3, 0.3, *[0.025] * 4]))
        names = [f"{i}{letters[random.integers(9)]}" for i in range(n)]
        return names if random.random() < 0.3 else {name: value() for name in names}

    X = [[item() for _ in range(random.integers(0, 25))] for _ in range(60)]
    index = Index()
    encoded = Items().encode(X, index, grow=True)
    blob, ends = index.names()
    names = [blob[a:b].decode() for a, b in itertools.pairwise(ends)]
    rows = list(itertools.pairwise(encoded.indptr))
    tokens = list(itertools.chain(*X))
    assert len(rows) == len(tokens)
    for item, (a, b) in zip(tokens, rows, strict=True):
        found = [
            (names[i], float(v)) for i, v in zip(encoded.ids[a:b], encoded.values[a:b], strict=True)
        ]
        assert found == [(name, float(value)) for name, value in flatten(item)]


class Changes:
    """A number that changes the data while they are read."""

    def __init__(self, change):
        self.change = change

    def __float__(self):
        self.change()
        return 2.0


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_a_value_that_changes_the_data_while_they_are_read(ahead):
    """Nothing that was looked at ahead is used afterwards."""
    X = [[{f"a{i}": f"b{i}", "c": 1.0} for i in range(10)] for _ in range(3)]

    def change():
        last = X[1][4]
        X[1][4] = {}
        last.clear()  # the dict that is being read
        X[1][5] = {"new": "token"}
        del X[1][6:]
        X[2] = [["other"]]

    X[1][4] = {**{f"k{i}": True for i in range(ahead)}, "change": Changes(change), "gone": 1.0}
    index = Index()
    encoded = Items().encode(X, index, grow=True)
    assert encoded.offsets.tolist() == [0, 10, 16, 17]
    blob, ends = index.names()
    names = [blob[a:b].decode() for a, b in itertools.pairwise(ends)]
    found = [[names[i] for i in encoded.ids[a:b]] for a, b in itertools.pairwise(encoded.indptr)]
    assert found[14] == [*(f"k{i}" for i in range(ahead)), "change"]
    assert found[15:] == [["new:token"], ["other"]]
    assert found[9] == ["a9:b9", "c"]


def test_a_set_is_read_in_one_order_whatever_the_run():
    index = Index()
    Items().encode([[{"c", "a", "d", "b"}, {"x": {"q", "p"}}]], index, grow=True)
    assert index.names()[0] == b"abcdx:px:q"


def test_names_of_every_length_have_the_fingerprint_of_the_index():
    """Names are hashed side by side; the index hashes one at a time."""
    text = "aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuU"
    names = [text[i : i + n] for n in range(len(text)) for i in (0, 1)]
    names += [name + "ü" for name in names]
    index = Index()
    for name in sorted(set(names)):
        index.add(name)
    encoded = Items().encode([[names], [dict.fromkeys(names, True)]], index)
    assert encoded.ids.tolist()[: len(names)] == [index.find(name) for name in names]
    assert encoded.ids.tolist()[len(names) :] == [index.find(n) for n in dict.fromkeys(names)]


def test_whole_names_are_the_literal_templates_of_the_same_name():
    """A dict and a template that make the same name make the same attribute."""
    index = Index()
    Items().encode([[{"bias": 1.0}]], index, grow=True)
    assert index.find("bias") == 0
    assert Templates(["bias"]).encode([["a"]], index).ids.tolist() == [0]


# ---- errors ----------------------------------------------------------------------------------

TOKEN_0 = "sentence 0, token 0"


@pytest.mark.parametrize(
    ("X", "error", "where", "expected", "found"),
    [
        ("abc", SentenceError, None, "a list of sentences", "the str 'abc'"),
        (["abc"], SentenceError, "sentence 0", "a list of tokens", "the str 'abc'"),
        ([["a"]], SentenceError, TOKEN_0, "a dict or a list of features", "'a'"),
        ([[["a"]], [["b"], 3]], SentenceError, "sentence 1, token 1", "a dict or a list", "3"),
        ([3], SentenceError, "sentence 0", "a list of tokens", "3"),
        (3, SentenceError, None, "a list of sentences", "3"),
        ([tl.Sentence(["a"])], SentenceError, "sentence 0", "the features of each token", "Sent"),
        ([[["a", 3]]], SentenceError, TOKEN_0, "a str", "the name of a feature is 3, of type int"),
        ([[{3: 1.0}]], SentenceError, TOKEN_0, "a str", "the name of a feature is 3, of type int"),
        ([[{"a": None}]], SentenceError, TOKEN_0, "a str", "feature 'a' is None"),
        ([[{"a": {"b": object}}]], SentenceError, TOKEN_0, "a str", "feature 'a:b' is <class"),
        ([[{"a": b"c"}]], SentenceError, TOKEN_0, "a str", "feature 'a' is b'c', of type bytes"),
        ([[{}, {"a": math.nan}]], FeatureError, "sentence 0, token 1", "a finite", "'a' is nan"),
        ([[], [{"a": {"b": math.inf}}]], FeatureError, "sentence 1, token 0", "a finite", "'a:b'"),
        ([[{"a": -math.inf}]], FeatureError, TOKEN_0, "a finite number", "'a' is -inf"),
        ([[["a"]], np.zeros((1, 2))], SentenceError, "sentence 1", "a list of features", "array"),
        ([np.zeros((1, 2)), [["a"]]], SentenceError, "sentence 1", "an array of numbers", "a list"),
        ([np.zeros(3)], ShapeError, "sentence 0", "an array of shape (T, D)", "(3,)"),
        ([np.zeros((1, 2)), np.zeros((1, 3))], ShapeError, "sentence 1", "2 numbers per", "3"),
        ([np.array([[0, 1], [2, np.nan]])], FeatureError, "sentence 0, token 1", "a finite", "nan"),
    ],
)
def test_errors_name_sentence_token_and_feature(X, error, where, expected, found):
    with raises(error, where=where, expected=expected, found=found):
        Items().encode(X, Index(), grow=True)


def test_half_a_surrogate_pair_is_an_error():
    with raises(FeatureError, where=TOKEN_0, message="is not valid Unicode"):
        Items().encode([[{"a": "\ud800"}]], Index(), grow=True)


def test_an_item_that_contains_itself():
    item = {}
    item["a"] = item
    with raises(SentenceError, found="a dict that contains itself"):
        Items().extract([item])
    assert Items().extract([{"a": "b"}]) == [{"a:b": 1.0}]


def test_an_index_without_names_cannot_grow():
    index = Index()
    index.add("a")
    frozen = Index.from_keys(index.keys())
    assert Items().encode([[["a", "b"]]], frozen).ids.tolist() == [0]
    with pytest.raises(ValueError, match="cannot grow"):
        Items().encode([[["a"]]], frozen, grow=True)


# ---- arrays ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, bool])
def test_arrays_of_numbers(dtype):
    X = [np.array([[1, 0], [0, 0]], dtype), np.zeros((0, 2), dtype), np.array([[1, 1]], dtype)]
    index = Index()
    encoded = Items().encode(X, index, grow=True)
    assert encoded.offsets.tolist() == [0, 2, 2, 3]
    assert encoded.indptr.tolist() == [0, 1, 1, 3]
    assert encoded.ids.tolist() == [0, 0, 1]
    assert index.names()[0] == b"x[0]x[1]"
    assert index.counts().tolist() == [2, 1]
    assert Items().extract(X[2]) == [{"x[0]": 1.0, "x[1]": 1.0}]


def test_values_of_arrays_and_those_that_were_not_learnt():
    index = Index()
    encoded = Items().encode([np.array([[0.5, 0.0], [-2.0, 0.0]])], index, grow=True)
    assert encoded.values.tolist() == [0.5, -2.0]
    later = Items().encode([np.asfortranarray([[3.0, 4.0], [0.0, 1.0]])], index)
    assert later.ids.tolist() == [0]
    assert later.values.tolist() == [3.0]


# ---- functions -------------------------------------------------------------------------------


def word2features(sentence, t):
    word = sentence[t]
    features = {"word": word.lower(), "suffix": word[-2:], "title": word.istitle()}
    if t == 0:
        features["BOS"] = True
    return features


def sent2features(sentence):
    return [word2features(sentence, t) for t in range(len(sentence))]


def test_a_function_of_a_token_or_of_a_sentence():
    sentence = ["They", "fish"]
    expected = [
        {"word:they": 1.0, "suffix:ey": 1.0, "title": 1.0, "BOS": 1.0},
        {"word:fish": 1.0, "suffix:sh": 1.0},
    ]
    assert extract(sentence, word2features) == expected
    assert extract(sentence, sent2features) == expected
    assert extract(sent2features(sentence), None) == expected
    index = Index()
    by_function = make(word2features).encode([sentence], index, grow=True)
    by_dict = Items().encode([sent2features(sentence)], index, grow=True)
    assert by_function.ids.tolist() == by_dict.ids.tolist()


def test_the_same_meaning_gives_the_same_rows_as_templates():
    """A template and a function of the same meaning: the attributes differ in name only."""
    X = [["They", "can", "fish"], ["Fish", "they", "can"], []]

    def plain(sentence, t):
        before = sentence[t - 1] if t else "<-1>"
        return [f"word={sentence[t]}", f"word[-1]&word={before}|{sentence[t]}"]

    mine, theirs = Index(), Index()
    rows = Templates(["word", "word[-1] & word"]).encode(X, mine, grow=True)
    others = Function(plain).encode(X, theirs, grow=True)
    assert rows.ids.tolist() == others.ids.tolist()
    assert rows.indptr.tolist() == others.indptr.tolist()
    assert mine.names()[0] == theirs.names()[0]


def test_a_function_sees_the_sentence_as_it_was_given():
    seen = []
    sentence = tl.Sentence(["a"], columns={"pos": ["N"]})
    Function(lambda s: [seen.append(s) or s.columns["pos"]]).extract(sentence)
    assert seen == [sentence]


@pytest.mark.parametrize(
    ("function", "where", "expected", "found"),
    [
        (lambda s: s[:-1], "sentence 1", "1 items, one per token, from the function", "0"),
        (lambda s: "ab"[: len(s)], "sentence 0", "one dict or list of features per token", "'ab'"),
        (lambda s: [1.5] * len(s), TOKEN_0, "a dict or a list of features", "1.5"),
    ],
)
def test_a_function_that_returns_something_else(function, where, expected, found):
    X = [[["a"], ["b"]], [["c"]]]
    if where == "sentence 1":
        X[0] = []
    with raises(SentenceError, where=where, expected=expected, found=found):
        Function(function).encode(X, Index(), grow=True)


def test_a_function_never_gets_a_str_for_a_sentence():
    with raises(SentenceError, where="sentence 0", found="the str 'They fish'"):
        Function(word2features).encode(["They fish"], Index(), grow=True)
    with raises(SentenceError, found="the str 'They fish'"):
        Function(word2features).extract("They fish")


def test_a_function_of_three_arguments_is_refused():
    with raises(ParameterError, expected="function(sentence)", found="needs 3 arguments"):
        Function(lambda a, b, c: None)
    with raises(ParameterError, expected="a function of a sentence", found="3"):
        Function(3)


def test_only_the_name_of_a_function_is_saved_and_it_is_not_imported():
    saved = json.loads(json.dumps(Function(word2features).to_dict()))
    assert saved["kind"] == "function"
    assert saved["name"].endswith(".word2features")
    with raises(ParameterError, message="word2features", hint="features="):
        from_dict(saved)
    assert from_dict(saved, word2features).extract(["a"]) == Function(word2features).extract(["a"])
    with raises(ParameterError, hint="Leave features= out"):
        from_dict(Items().to_dict(), word2features)


def test_items_are_saved_and_copied():
    for again in (from_dict(Items().to_dict()), pickle.loads(pickle.dumps(Items()))):
        assert again == Items()
    assert copy.deepcopy(Items()) == Items()


def test_a_value_beyond_32_bits_names_its_token():
    with raises(FeatureError, where="sentence 1, token 1", expected="below 3.4e38"):
        Items().encode([[{"a": 1.0}], [{"a": 2.0}, {"b": 1e300}]], Index(), grow=True)
