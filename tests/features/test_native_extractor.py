"""The native extractor: judged by a plain one in Python, and over all of Unicode."""

import itertools
import random
import sys
import threading
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plain_features as reference
import processes
from tagloom import _native

LISTED = ["ing", "s", "ness", "é", "字", "\U0001f600", "un", "unde"]
ARGUMENTS = {
    "prefix": 2,
    "suffix": 3,
    "lower_prefix": 2,
    "lower_suffix": 3,
    "listed_prefix": LISTED,
    "listed_suffix": LISTED,
    "python": lambda word: word[::-1] if "a" in word else None,
}


def single(*kinds):
    """A program with one template for each kind, at offset 0."""
    atoms = [(0, kind, ARGUMENTS.get(kind)) for kind in kinds]
    templates = [([f"{kind}=", ""], [(a, 0)], -1) for a, kind in enumerate(kinds)]
    return atoms, [False] * len(atoms), templates, [], []


def decode(extractor, columns, numeric=(), index=None, grow=True):
    """The names and values that encode() gives, through the names of the index."""
    index = index or _native.Index()
    numeric = [np.asarray(one, float) for one in numeric]
    offsets, indptr, ids, values = extractor.encode(columns, numeric, index, grow)
    names = names_of(index)
    values = np.ones(len(ids), np.float32) if values is None else values
    assert offsets.tolist() == np.cumsum([0, *map(len, columns[0])]).tolist()
    return [
        [(names[ids[i]], float(values[i])) for i in range(a, b)]
        for a, b in itertools.pairwise(indptr)
    ]


def check(program, columns, numeric=()):
    extractor = _native.Extractor(*program)
    expected = reference.names(program, columns, numeric)
    assert extractor.names(columns, [np.asarray(one, float) for one in numeric]) == expected
    assert decode(extractor, columns, numeric) == expected


def test_every_kind_is_in_the_reference():
    with pytest.raises(ValueError, match="unknown kind 'nonsense'") as caught:
        _native.Extractor([(0, "nonsense", None)], [False], [], [], [])
    kinds = str(caught.value).split("the kinds are ")[1].rstrip(".").split(", ")
    assert sorted(kinds) == sorted(reference.KINDS)


EVERY_CHARACTER = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
# Letters without case, unassigned and private code points behave alike: some of them will do.
UNLIKE = [c for c in EVERY_CHARACTER if unicodedata.category(c) not in ("Lo", "Cn", "Co")]
ALIKE = [c for c in EVERY_CHARACTER if unicodedata.category(c) in ("Lo", "Cn", "Co")]


@pytest.mark.slow
def test_flags_of_code_points_of_unicode():
    """The same as Python's str methods for words of one character."""
    characters = UNLIKE + ALIKE[::10]
    index = _native.Index()
    extractor = _native.Extractor(*single(*reference.FLAGS))
    _, indptr, ids, _ = extractor.encode([[characters]], [], index, True)
    token = np.repeat(np.arange(len(characters)), np.diff(indptr))
    for kind, function in reference.FLAGS.items():
        expected = np.fromiter(map(function, characters), bool)
        found = token[ids == index.find([f"{kind}="])]
        assert np.array_equal(found, np.flatnonzero(expected)), kind


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["value", "lower", "shape"])
def test_texts_of_code_points_of_unicode(kind):
    characters = UNLIKE + ALIKE[::10]
    expected = [reference.TEXTS[kind](word, None) for word in characters]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(expected))}
    program = [(0, kind, None)], [False], [(["", ""], [(0, 0)], -1)], [], []
    index = _native.Index()
    ids = _native.Extractor(*program).encode([[characters]], [], index, True)[2]
    assert np.array_equal(ids, [numbers[one] for one in expected])
    assert index.names()[0] == "".join(numbers).encode()


@pytest.mark.parametrize("around", [("a", "B"), ("Σ", "1"), ("A", "Σ")])
@pytest.mark.parametrize("kind", [*reference.FLAGS, "lower", "shape", "short_shape", "suffix"])
def test_every_code_point_of_unicode_among_others(kind, around):
    words = [c.join(around) for c in UNLIKE + ALIKE[::50]]
    argument = 2 if kind == "suffix" else None
    check_values(kind, argument, words, [reference.value(kind, argument, word) for word in words])


def check_values(kind, argument, words, expected):
    program = [(0, kind, argument)], [False], [(["=", ""], [(0, 0)], -1)], [], []
    index = _native.Index()
    _, indptr, ids, _ = _native.Extractor(*program).encode([[words]], [], index, True)
    assert np.array_equal(np.diff(indptr), [one is not None for one in expected])
    names = names_of(index)
    assert [names[i] for i in ids.tolist()] == ["=" + one for one in expected if one is not None]


def names_of(index):
    blob, ends = index.names()
    blob, ends = bytes(blob), ends.tolist()
    return [blob[a:b].decode() for a, b in itertools.pairwise(ends)]


TRICKY = [
    "İ",
    "ΟΔΟΣ",
    "Σ",
    "ǅ",
    "ǅungla",
    "ß",
    "ẞ",
    "ﬁn",
    "é",
    "e\u0301",
    "👩‍👩‍👧",
    "🇪🇪",
    "𝔄𝔟",
    "Ⅷ",
    "ⅷ",
]
TRICKY += [
    "字",
    "１２",
    "²",
    "½",
    "٣",
    "Ⓐ",
    "ª",
    "ʰ",
    "",
    " ",
    "\0",
    "a\0b",
    "—",
    "‐",
    "€",
    "«»",
    "1st",
]


@pytest.mark.parametrize("word", TRICKY)
def test_tricky_words(word):
    check(single(*reference.KINDS), [[[word], [word * 2, "x" + word, word + "x"]]])


@pytest.mark.parametrize(
    ("word", "holds"),
    [
        ("2024-05-17", True),
        ("17/05/2024", True),
        ("1/2/99", True),
        ("12.03.", True),
        ("12.03.2024", True),
        ("1999", True),
        ("3000", False),
        ("999", False),
        ("12.03", False),
        ("1/2", False),
        ("10:30", False),
        ("2024-05/17", False),
        ("2024--17", False),
        ("-05-17", False),
        ("12-03-", False),
        ("123-4-5", False),
        ("12345", False),
        ("1.2.3.4", False),
        ("", False),
    ],
)
def test_dates(word, holds):
    assert reference.value("date", None, word) == ("" if holds else None)
    assert bool(_native.Extractor(*single("date")).names([[[word]]], [])[0]) is holds


@given(st.text("0123456789-/.", max_size=11))
def test_dates_are_as_the_expression_says(word):
    check(single("date"), [[[word]]])


def test_affixes_of_words_that_are_too_short_have_no_value():
    extractor = _native.Extractor(*single("prefix", "suffix"))
    assert extractor.names([[["a", "ab", "åäö"]]], []) == [
        [],
        [("prefix=ab", 1.0)],
        [("prefix=åä", 1.0), ("suffix=åäö", 1.0)],
    ]


def test_the_longest_listed_affix_wins():
    program = ([(0, "listed_suffix", ["s", "ness", "ss"])], [False], [(["", ""], [(0, 0)], -1)])
    extractor = _native.Extractor(*program, [], [])
    words = ["fitness", "less", "bus", "ness", "on"]
    assert [[name for name, _ in one] for one in extractor.names([[words]], [])] == [
        ["ness"],
        ["ss"],
        ["s"],
        ["ness"],
        [],
    ]


def test_window_conjunction_and_boundaries():
    atoms = [(0, "lower", None), (0, "title", None), (1, "value", None)]
    templates = [
        (["w[-1]=", ""], [(0, -1)], -1),
        (["w[-3]=", ""], [(0, -3)], -1),
        (["w[2]=", ""], [(0, 2)], -1),
        (["title[-1]", ""], [(1, -1)], -1),
        (["w|pos=", "|", ""], [(0, 0), (2, 1)], -1),
        (["bias"], [], -1),
    ]
    boundary = [True, False, False]
    program = atoms, boundary, templates, ["<s>", "<s2>"], ["</s>"]
    columns = [[["The", "Cat"], ["Ok"]], [["DET", "NOUN"], ["X"]]]
    check(program, columns)
    assert _native.Extractor(*program).names(columns, [])[0] == [
        ("w[-1]=<s>", 1.0),
        ("w[-3]=<s2>", 1.0),
        ("w[2]=</s>", 1.0),
        ("w|pos=the|NOUN", 1.0),
        ("bias", 1.0),
    ]


words = st.one_of(
    st.sampled_from(["the", "The", "THE", "underings", "2024-05-17", *TRICKY]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    st.text("aB1-é字😀\u0301", max_size=12),
)


@st.composite
def programs(draw):
    """A random program of up to three columns, and sentences for it."""
    n_columns = draw(st.integers(1, 3))
    kinds = draw(st.lists(st.sampled_from(reference.KINDS), min_size=1, max_size=6))
    atoms = [(draw(st.integers(0, n_columns - 1)), kind, ARGUMENTS.get(kind)) for kind in kinds]
    boundary = draw(st.lists(st.booleans(), min_size=len(atoms), max_size=len(atoms)))
    templates = []
    for _ in range(draw(st.integers(0, 6))):
        factors = draw(
            st.lists(st.tuples(st.integers(0, len(atoms) - 1), st.integers(-3, 3)), max_size=3)
        )
        size = len(factors) + 1
        literals = draw(st.lists(st.sampled_from(["", "a=", "é|"]), min_size=size, max_size=size))
        templates.append((literals, factors, draw(st.sampled_from([-1, -1, 0, 1]))))
    ends = st.lists(st.sampled_from(["<s>", "", "é"]), max_size=3)
    lengths = draw(st.lists(st.integers(0, 5), max_size=4))
    columns = [
        [draw(st.lists(words, min_size=n, max_size=n)) for n in lengths] for _ in range(n_columns)
    ]
    numbers = st.floats(-9, 9, width=32)
    numeric = [draw(st.lists(numbers, min_size=sum(lengths), max_size=sum(lengths)))] * 2
    return (atoms, boundary, templates, draw(ends), draw(ends)), columns, numeric


@given(programs())
def test_random_programs_are_as_in_plain_python(case):
    check(*case)


def test_equal_names_of_other_templates_are_one_attribute():
    """As the bag of words of CRF++: the same literals and values, whatever the offset."""
    templates = [(["w=", ""], [(0, -1)], -1), (["w=", ""], [(0, 1)], -1)]
    extractor = _native.Extractor([(0, "value", None)], [False], templates, [], [])
    index = _native.Index()
    _, indptr, ids, _ = extractor.encode([[["a", "b", "a"]]], [], index, True)
    assert indptr.tolist() == [0, 1, 3, 4]
    assert ids.tolist() == [0, 1, 1, 0]
    assert index.counts().tolist() == [2, 2]


def test_numbers_follow_tokens_then_templates():
    extractor = _native.Extractor(*single("value", "lower"))
    index = _native.Index()
    extractor.encode([[["B", "a"], ["a", "c"]]], [], index, True)
    assert index.names()[0] == b"value=Blower=bvalue=alower=avalue=clower=c"
    assert index.counts().tolist() == [1, 1, 2, 2, 1, 1]


def test_a_frozen_index_leaves_out_what_is_new():
    extractor = _native.Extractor(*single("value"))
    index = _native.Index()
    extractor.encode([[["a", "b"]]], [], index, True)
    many = ["b", "new", "a", "new"] * 50
    _, indptr, ids, _ = extractor.encode([[many, []]], [], index, False)
    assert ids.tolist() == [1, 0] * 50
    assert np.diff(indptr).tolist() == [1, 0, 1, 0] * 50
    assert index.counts().tolist() == [1, 1]


def test_encoding_in_parts_is_encoding_at_once():
    rng = random.Random(5)
    sentences = [
        ["".join(rng.choices("abcé", k=rng.randint(1, 3))) for _ in range(rng.randint(0, 70))]
        for _ in range(60)
    ]
    atoms = [(0, "value", None), (0, "suffix", 1)]
    templates = [(["w=", ""], [(0, 0)], -1), (["", "|", ""], [(0, -1), (1, 0)], -1)]
    extractor = _native.Extractor(atoms, [True, True], templates, ["<s>"], ["</s>"])
    whole, parts = _native.Index(), _native.Index()
    _, _, ids, _ = extractor.encode([sentences], [], whole, True)
    each = [extractor.encode([[one]], [], parts, True)[2] for one in sentences]
    np.testing.assert_array_equal(ids, np.concatenate(each))
    assert whole.names()[0] == parts.names()[0]
    assert whole.counts().tolist() == parts.counts().tolist()
    assert decode(extractor, [sentences], index=whole, grow=False) == reference.names(
        (atoms, [True, True], templates, ["<s>"], ["</s>"]), [sentences]
    )


def test_equal_words_in_other_objects_and_kinds_of_string():
    class Text(str):
        def lower(self):
            return "never asked"

    words = ["Äb", "".join(["Ä", "b"]), Text("Äb"), np.str_("Äb"), Text("Ab")]
    names = _native.Extractor(*single("lower")).names([(tuple(words),)], [])
    assert names == [[("lower=äb", 1.0)]] * 4 + [[("lower=ab", 1.0)]]


def test_a_function_is_asked_once_for_each_word():
    asked = []
    program = ([(0, "python", asked.append)], [False], [(["x", ""], [(0, 0)], -1)], [], [])
    extractor = _native.Extractor(*program)
    assert extractor.names([[["a", "b", "a"], ["b"]]], []) == [[], [], [], []]
    assert asked == ["a", "b"]


def test_a_function_may_change_the_lists_it_is_called_for():
    sentence = ["".join(["w", str(i)]) for i in range(100)]

    def clear(word):
        sentence.clear()
        return word

    atoms = [(0, "value", None), (0, "python", clear)]
    templates = [(["", "|", ""], [(0, 0), (1, 0)], -1)]
    extractor = _native.Extractor(atoms, [False, False], templates, [], [])
    names = extractor.names([[sentence]], [])
    assert names == [[(f"w{i}|w{i}", 1.0)] for i in range(100)]


def test_errors_of_functions_come_through():
    program = [(0, "python", {"a": "A"}.__getitem__)], [False], [(["x", ""], [(0, 0)], -1)], [], []
    with pytest.raises(KeyError, match="'b'"):
        _native.Extractor(*program).names([[["a", "b"]]], [])
    program[0][0] = (0, "python", len)
    with pytest.raises(TypeError, match="expected a str or None, found int"):
        _native.Extractor(*program).names([[["a"]]], [])
    program[0][0] = (0, "python", lambda word: "\ud800")
    with pytest.raises(ValueError, match="lone surrogate"):
        _native.Extractor(*program).names([[["a"]]], [])


def test_words_that_differ_in_one_byte():
    """As long as each other, with bytes of zero too, met for the first time and again."""
    words = [""]
    for length in range(1, 20):
        words += ["x" * length, "\0" * length, "é" * length]
        for i in range(length):
            words += ["x" * i + other + "x" * (length - i - 1) for other in "\0yé"]
    words += words[::-1]
    check(single("value"), [[words[i : i + 7] for i in range(0, len(words), 7)]])


@pytest.mark.parametrize("wrong", [None, "x\ud800"])
@pytest.mark.parametrize(("n", "t"), [(0, 0), (2, 30), (5, 31), (7, 0), (7, 39)])
def test_a_wrong_token_is_found_where_it_stands(n, t, wrong):
    columns = [[[f"w{i}" for i in range(40)] for _ in range(8)] for _ in range(2)]
    columns[1][n][t] = wrong
    atoms = [(0, "value", None), (1, "value", None)]
    templates = [(["x", "", ""], [(0, -2), (1, 1)], -1)]
    extractor = _native.Extractor(atoms, [True, True], templates, ["<1>", "<2>"], ["</1>"])
    with pytest.raises((TypeError, ValueError), match=f"^column 1, sentence {n}, token {t}: "):
        extractor.names(columns, [])


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ([[["a"], ["b", 3]]], TypeError, "^sentence 1, token 1: expected a str, found int"),
        ([[["a"], "text"]], TypeError, "^sentence 1: expected a list of str, found str"),
        ([[["a", None]]], TypeError, "^sentence 0, token 1: expected a str, found NoneType"),
        (["text"], TypeError, "column 0: expected a list of sentences, found str"),
        ("text", TypeError, "columns: expected a list, found str"),
        (
            [[["a", "x\ud800"]]],
            ValueError,
            r"^sentence 0, token 1: 'x\\ud800' has a lone surrogate",
        ),
        ([], ValueError, "1 columns; found 0"),
    ],
)
def test_what_is_not_a_sentence(columns, error, message):
    with pytest.raises(error, match=message):
        _native.Extractor(*single("value")).encode(columns, [], _native.Index(), True)


def test_columns_must_fit_each_other():
    program = ([(1, "value", None)], [False], [(["x", ""], [(0, 0)], -1)], [], [])
    extractor = _native.Extractor(*program)
    with pytest.raises(ValueError, match="2 columns; found 1"):
        extractor.names([[["a"]]], [])
    with pytest.raises(ValueError, match="column 1 has 0 sentences, column 0 has 1"):
        extractor.names([[["a"]], []], [])
    with pytest.raises(ValueError, match=r"^column 1, sentence 0: expected 2 values"):
        extractor.names([[["a", "b"]], [["A"]]], [])
    with pytest.raises(TypeError, match="column 1, sentence 0, token 0: expected a str, found in"):
        extractor.names([[["a"]], [[1]]], [])


def test_numeric_columns_are_checked():
    program = ([], [], [(["x"], [], 0)], [], [])
    extractor = _native.Extractor(*program)
    assert extractor.names([[["a", "b"]]], [np.array([0.5, 0])]) == [[("x", 0.5)], [("x", 0.0)]]
    with pytest.raises(ValueError, match="1 numeric columns; found 0"):
        extractor.names([[["a"]]], [])
    with pytest.raises(ValueError, match="numeric column 0 has 1 values for 2 tokens"):
        extractor.names([[["a", "b"]]], [np.zeros(1)])
    with pytest.raises(TypeError, match="numeric column 0: expected a float64 array"):
        extractor.names([[["a", "b"]]], [[1.0, 2.0]])
    for bad in [np.nan, np.inf, -np.inf, 1e300]:
        values = [np.array([0, 0, bad])]
        with pytest.raises(ValueError, match="sentence 2, token 0: expected a finite number"):
            extractor.encode([[["a", "b"], [], ["c"]]], values, _native.Index(), True)


@pytest.mark.parametrize(
    ("atoms", "templates", "message"),
    [
        ([(0, "prefix", None)], [], "atom 0, 'prefix': expected a length, found None"),
        ([(0, "suffix", 0)], [], "atom 0, 'suffix': expected a length of at least 1, found 0"),
        ([(0, "suffix", -1)], [], "expected a length, found -1"),
        ([(0, "listed_prefix", 3)], [], "expected a list of str, found 3"),
        ([(0, "listed_suffix", ["a", ""])], [], "the list has an empty string"),
        ([(0, "value", 3)], [], "takes no argument, found 3"),
        ([(0, "python", "f")], [], "expected a function, found 'f'"),
        ([(-1, "value", None)], [], "column -1 is not between 0 and 1000"),
        ([(2**30, "value", None)], [], "is not between 0 and 1000"),
        ([], [([], [], -1)], "template 0: expected 1 literals around 0 factors, found 0"),
        ([], [(["", ""], [(0, 0)], -1)], "template 0: atom 0 does not exist"),
        ([(0, "value", None)], [(["", ""], [(0, 1001)], -1)], "offset 1001 is beyond 1000"),
        ([], [([""], [], -2)], "numeric column -2 is not between -1 and 1000"),
    ],
)
def test_programs_that_do_not_fit(atoms, templates, message):
    with pytest.raises(ValueError, match=message):
        _native.Extractor(atoms, [False] * len(atoms), templates, [], [])


def test_each_atom_needs_a_boundary_flag():
    with pytest.raises(ValueError, match="a boundary flag for each of 1 atoms, found 0"):
        _native.Extractor([(0, "value", None)], [], [], [], [])


def test_two_threads_cannot_grow_one_index():
    """The second is told so, or comes after the first; nothing is lost in between."""
    extractor = _native.Extractor(*single("value"))
    sentences = [[f"w{i}" for i in range(20000)]]
    index, refused = _native.Index(), []

    def grow():
        for _ in range(20):
            try:
                extractor.encode([sentences], [], index, True)
            except RuntimeError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=grow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(refused) <= {"another thread is adding to this Index."}
    assert index.size == 20000
    assert index.counts().tolist() == [80 - len(refused)] * 20000


def many_sentences():
    """So many tokens that threads are worth it: empty sentences, a long one, words new and old."""
    draw = random.Random(5)
    lengths = [0, 0, *draw.choices(range(40), k=2_000), 9_000, 0]
    words = [f"w{int(draw.random() ** 3 * 9_000)}" for _ in range(sum(lengths))]
    cuts = list(itertools.accumulate(lengths, initial=0))
    return [words[a:b] for a, b in itertools.pairwise(cuts)]


@pytest.mark.parametrize("numeric", [False, True])
def test_any_number_of_threads_numbers_attributes_alike(numeric):
    sentences = many_sentences()
    T = sum(map(len, sentences))
    assert T > 40_000
    atoms = [(0, "value", None), (0, "suffix", 2)]
    templates = [
        (["w=", ""], [(0, 0)], -1),
        (["p=", "|", ""], [(0, -1), (1, 0)], -1),
        (["s=", ""], [(1, 1)], 0 if numeric else -1),
    ]
    extractor = _native.Extractor(atoms, [False, False], templates, [], [])
    values = [np.arange(T, dtype=float)] if numeric else []

    def encode(threads):
        index = _native.Index()
        index.add("known before")
        extractor.encode([[["w7", "w8"]]], values and [np.zeros(2)], index, True)
        grown = extractor.encode([sentences], values, index, True, threads)
        some = index.keep(np.arange(index.size) % 3 > 0)
        found = extractor.encode([sentences], values, some, False, threads)
        return [index.keys(), index.counts(), index.names()[1], *grown, *found], index.names()[0]

    expected, names = encode(1)
    for threads in (2, 3, 9):
        arrays, found = encode(threads)
        assert found == names
        for a, b in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(a, b)


@processes.needs_limits
@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_index_is_as_before_when_memory_runs_out(n_threads):
    code = f"""
    from tagloom import _native

    templates = [(["w=", ""], [(0, 0)], -1), (["p=", "|", ""], [(0, -1), (0, 0)], -1)]
    extractor = _native.Extractor([(0, "value", None)], [True], templates, ["<1>"], ["</1>"])
    index = _native.Index()

    def encode(*sentences):
        return extractor.encode([list(sentences)], [], index, True, {n_threads})[2].tolist()

    def names():
        text, offsets = index.names()
        return [bytes(text[a:b]) for a, b in zip(offsets, offsets[1:])]

    first = encode(["a", "b"])
    before = names()
    many = [[f"w{{i * 7919 % 500_000}}" for i in range(k, k + 50)] for k in range(0, 1_000_000, 50)]
    limit(150 << 20)
    try:
        encode(*many)
        print("there was enough")
    except MemoryError:
        pass
    limit(None)
    assert names() == before and index.size == len(before)
    assert encode(["a", "b"]) == first
    assert len(names()) == index.size
    assert encode(["a", "c"])[-2:] == [4, 5] and names()[4:] == [b"w=c", b"p=a|c"], names()
    print("done")
    """
    assert processes.run(code) == "done\n"
