"""The template language: what is read, what it is called, and what it gives."""

import copy
import io
import itertools
import json
import pickle
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tagloom as tl
from raising import raises
from tagloom._native import Index
from tagloom.errors import FeatureError, ParameterError, SentenceError, TemplateError
from tagloom.features import Lexicon, Templates, extract, from_dict, make
from tagloom.features.expressions import FUNCTIONS, parse, quote
from tagloom.features.functions import Resources, function_of, native_kind

TOVES = ["the", "slithy", "toves"]


def names_of(index):
    """The names of an index in the order of their ids."""
    blob, ends = index.names()
    return [blob[a:b].decode() for a, b in itertools.pairwise(ends)]


def shown(templates, sentence, **resources):
    """The names of each token's attributes, without their values."""
    return [list(token) for token in Templates(templates, **resources).extract(sentence)]


# ---- what templates are called ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("word", ["word"]),
        ("word[0]", ["word"]),
        (" word [ -1 ] ", ["word[-1]"]),
        ("word[+1]", ["word[1]"]),
        ("word[-1..1]", ["word[-1]", "word", "word[1]"]),
        ("suffix(1..3)", ["suffix(1)", "suffix(2)", "suffix(3)"]),
        (
            "prefix(1..2) & suffix(1..2)",
            [f"prefix({i})&suffix({j})" for i in (1, 2) for j in (1, 2)],
        ),
        (
            "suffix(2..3)[-1..0]",
            ["suffix(2)[-1]", "suffix(3)[-1]", "suffix(2)", "suffix(3)"],
        ),
        ("word[-1]&word&word[1]", ["word[-1]&word&word[1]"]),
        ("suffix('thy','es')", ['suffix("thy", "es")']),
        ("suffix(2,col(lemma))", ["suffix(2, col(lemma))"]),
        ("lower(col(3))", ["lower(col(3))"]),
        ('col("two words")', ['col("two words")']),
        ('col("pos")', ["col(pos)"]),
        (r'regex("^\d+$")', [r'regex("^\d+$")']),
        (r"""regex('"')""", [r'regex("\"")']),
        ("edge(word[-1] & shape)", ["edge(word[-1]&shape)"]),
        ("edge(word[0..1])", ["edge(word)", "edge(word[1])"]),
        ("value(x)[-1]", ["value(x)[-1]"]),
        ("cluster(brown, 4..5, lower)", ["cluster(brown, 4, lower)", "cluster(brown, 5, lower)"]),
        ("lexicon(cities, lower)[1]", ["lexicon(cities, lower)[1]"]),
        ("shape(lexicon(cities))", ["shape(lexicon(cities))"]),
    ],
)
def test_a_template_has_one_way_to_be_written(text, names):
    records = parse(text)
    assert [record.text for record in records] == names
    # ... which is read as the same template again
    assert [parse(name) for name in names] == [[record] for record in records]


@given(st.text())
def test_quoted_text_is_read_back(text):
    # A backslash at the end, or before the quote, would need another one: as in a raw string.
    text = re.sub(r"\\", "", text)
    [record] = parse(f"col({quote(text)})")
    assert record.factors[0].atom.column == text


def test_every_function_is_named_in_the_page_of_the_language():
    text = (Path(__file__).parents[2] / "docs" / "templates.md").read_text(encoding="utf-8")
    assert [name for name in FUNCTIONS if f"`{name}" not in text] == []


# ---- what they give --------------------------------------------------------------------------


def test_names_are_whole_and_readable():
    assert shown(["word[-1]", "word[-1] & word", "suffix(3)", "title[1] & word"], TOVES) == [
        ["word[-1]=<-1>", "word[-1]&word=<-1>|the", "suffix(3)=the"],
        ["word[-1]=the", "word[-1]&word=the|slithy", "suffix(3)=thy"],
        ["word[-1]=slithy", "word[-1]&word=slithy|toves", "suffix(3)=ves"],
    ]
    assert shown(["title & word", "word & title", "title & upper"], ["A"]) == [
        ["title&word=A", "word&title=A", "title&upper"]
    ]


def test_the_list_of_word_features_for_tagging():
    """001 §5.1: words around, and pairs of neighbours, at the last of four words."""
    templates = ["word[-2..-1]", "word[1..2]"]
    templates += ["word[-2] & word[-1]", "word[-1] & word", "word & word[1]"]
    assert shown(templates, ["all", "mimsy", "were", "the"])[3] == [
        "word[-2]=mimsy",
        "word[-1]=were",
        "word[1]=<+1>",
        "word[2]=<+2>",
        "word[-2]&word[-1]=mimsy|were",
        "word[-1]&word=were|the",
        "word&word[1]=the|<+1>",
    ]


def test_outside_the_sentence_whole_values_have_a_marker_and_the_rest_has_nothing():
    whole = ["word", "lower", "shape", "short_shape", "length", "cluster(b)", "lower(col(0))"]
    parts = ["prefix(1)", "suffix(1)", 'suffix("a")', "upper", 'regex("(a)")', "lexicon(l)"]
    for expression in whole + parts:
        templates = Templates(
            [f"{expression}[-2]"], clusters={"b": {"a": "0"}}, lexicons={"l": ["a"]}
        )
        found = [list(token) for token in templates.extract(["A", "A"])]
        if expression in whole:
            assert found == [[f"{expression}[-2]=<-2>"], [f"{expression}[-2]=<-1>"]]
        else:
            assert found == [[], []]


def test_an_affix_needs_a_word_of_its_length():
    assert shown(["suffix(2..3)", "prefix(2)"], ["ab", "a", "äbc"]) == [
        ["suffix(2)=ab", "prefix(2)=ab"],
        [],
        ["suffix(2)=bc", "suffix(3)=äbc", "prefix(2)=äb"],
    ]


def test_the_longest_listed_affix_or_the_empty_one():
    templates = ['suffix("y", "thy", "athy")', 'prefix("un", "under")']
    assert shown(templates, ["healthy", "apathy", "under", "lay"]) == [
        ['suffix("y", "thy", "athy")=thy', 'prefix("un", "under")='],
        ['suffix("y", "thy", "athy")=athy', 'prefix("un", "under")='],
        ['suffix("y", "thy", "athy")=', 'prefix("un", "under")=under'],
        ['suffix("y", "thy", "athy")=y', 'prefix("un", "under")='],
    ]


def test_a_named_list_of_affixes():
    assert shown(["suffix(endings)"], TOVES, lists={"endings": ["es", "thy"]}) == [
        ["suffix(endings)="],
        ["suffix(endings)=thy"],
        ["suffix(endings)=es"],
    ]


def test_a_regular_expression_is_a_flag_or_gives_its_first_group():
    templates = [r'regex("^[0-9]+$")', r'regex("([0-9]+)(st|th)$")']
    assert shown(templates, ["1984", "19th", "th"]) == [
        ['regex("^[0-9]+$")'],
        ['regex("([0-9]+)(st|th)$")=19'],
        [],
    ]
    # a group that took no part in the match has no value
    assert shown(['regex("a|(b)")'], ["a", "b"]) == [[], ['regex("a|(b)")=b']]


def test_functions_of_functions_and_of_columns():
    sentence = tl.Sentence(["Saw", "SHE"], columns={"lemma": ["see", "she"]})
    templates = ["suffix(2, lower)", "suffix(2, col(lemma))", "upper(col(lemma))", "lower & upper"]
    assert shown(templates, sentence) == [
        ["suffix(2, lower)=aw", "suffix(2, col(lemma))=ee"],
        ["suffix(2, lower)=he", "suffix(2, col(lemma))=he", "lower&upper=she"],
    ]


# A second implementation, word by word: what each expression gives, and whether it has a marker.
DATE = re.compile(
    r"[12][0-9]{3}"
    r"|[0-9]{1,2}\.[0-9]{1,2}\."
    r"|([0-9]{1,2}|[0-9]{4})(?P<sign>[-/.])[0-9]{1,2}(?P=sign)([0-9]{1,2}|[0-9]{4})"
)


def plain_shape(word):
    letters = []
    for c in word:
        if unicodedata.category(c) in ("Lu", "Lt") or c.isupper() or c.istitle():
            letters.append("X")
        elif c.isalpha() or c.islower():
            letters.append("x")
        else:
            letters.append("d" if c.isdigit() else c)
    return "".join(letters)


def flag(holds):
    return lambda word: "" if holds(word) else None


PLAIN = {
    "word": (lambda w: w, True),
    "lower": (str.lower, True),
    "prefix(2)": (lambda w: w[:2] if len(w) > 1 else None, False),
    "suffix(3)": (lambda w: w[-3:] if len(w) > 2 else None, False),
    "shape": (plain_shape, True),
    "short_shape": (lambda w: "".join(c for c, _ in itertools.groupby(plain_shape(w))), True),
    "length": (lambda w: str(len(w)), True),
    "digit": (flag(lambda w: any(c.isdigit() for c in w)), False),
    "digits": (flag(str.isdigit), False),
    "decimal": (flag(str.isdecimal), False),
    "numeric": (flag(str.isnumeric), False),
    "alpha": (flag(str.isalpha), False),
    "alnum": (flag(str.isalnum), False),
    "ascii": (flag(str.isascii), False),
    "upper": (flag(str.isupper), False),
    "lowercase": (flag(str.islower), False),
    "title": (flag(str.istitle), False),
    "hyphen": (flag(lambda w: {"-", "\u2010", "\u2011"} & set(w)), False),
    "punctuation": (
        flag(lambda w: w and all(unicodedata.category(c)[0] in "PS" for c in w)),
        False,
    ),
    "date": (flag(lambda w: len(w) <= 10 and DATE.fullmatch(w)), False),
    'regex("([a-z]+)")': (lambda w: (re.search("[a-z]+", w) or [None])[0], False),
    "suffix(2, lower)": (lambda w: w.lower()[-2:] if len(w.lower()) > 1 else None, False),
    'suffix("e", "es")': (lambda w: re.search(r"(es|e|)\Z", w)[1], False),
}
FLAGGED = {"digit", "digits", "decimal", "numeric", "alpha", "alnum", "ascii", "upper", "lowercase"}
FLAGGED |= {"title", "hyphen", "punctuation", "date"}

words = st.one_of(
    st.sampled_from(["The", "iPhone", "U.S.", "co-op", "1984", "12.3.99", "12.03.", "1/2/2003"]),
    st.sampled_from(["ß", "ŉ", "ǅungla", "İ", "ΑΣ", "١٢", "²", "e\u0301", "👩‍👩‍👧", "日本", "ª"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
factors = st.lists(
    st.tuples(st.sampled_from(sorted(PLAIN)), st.integers(-3, 3)), min_size=1, max_size=3
)


def plain_name(factors, sentence, t):
    """Name the attribute of a conjunction at a token, plainly; None if it has none."""
    values = []
    for function, offset in factors:
        call, has_marker = PLAIN[function]
        at = t + offset
        if 0 <= at < len(sentence):
            value = call(sentence[at])
        elif has_marker:
            value = f"<{at}>" if at < 0 else f"<+{at - len(sentence) + 1}>"
        else:
            value = None
        if value is None:
            return None
        if function not in FLAGGED:
            values.append(value)
    name = "&".join(f"{f}[{offset}]" if offset else f for f, offset in factors)
    return name + ("=" + "|".join(values) if values else "")


@given(st.lists(words, max_size=6), st.lists(factors, min_size=1, max_size=4))
def test_every_function_at_every_offset_against_plain_python(sentence, conjunctions):
    texts = [" & ".join(f"{f}[{offset}]" for f, offset in factors) for factors in conjunctions]
    expected = []
    for t in range(len(sentence)):
        expected.append({})
        for factors in conjunctions:
            name = plain_name(factors, sentence, t)
            if name is not None:
                expected[-1][name] = expected[-1].get(name, 0.0) + 1.0
    templates = Templates(texts)
    assert templates.extract(sentence) == expected
    # ... and what is encoded is what is shown
    index = Index()
    encoded = templates.encode([sentence, sentence], index, grow=True)
    names = names_of(index)
    for t, attributes in enumerate(expected * 2):
        ids = encoded.ids[encoded.indptr[t] : encoded.indptr[t + 1]]
        assert len(ids) == sum(attributes.values())
        assert {names[i] for i in ids} == set(attributes)


@given(words)
def test_functions_in_python_agree_with_the_native_ones(word):
    nothing = Resources({}, {}, {})
    for text in PLAIN:
        atom = parse(text)[0].factors[0].atom
        if native_kind(atom) is not None:
            value = function_of(atom, nothing)(word)
            assert ([] if value is None else [value]) == [
                name.partition("=")[2] for name in Templates([text]).extract([word])[0]
            ], text


# ---- encoding --------------------------------------------------------------------------------


def test_training_numbers_what_it_sees_and_later_the_rest_is_left_out():
    templates, index = Templates(["word", "word[-1]"]), Index()
    encoded = templates.encode([["a", "b"], ["b"]], index, grow=True)
    assert names_of(index) == ["word=a", "word[-1]=<-1>", "word=b", "word[-1]=a"]
    assert encoded.offsets.tolist() == [0, 2, 3]
    assert encoded.indptr.tolist() == [0, 2, 4, 6]
    assert encoded.ids.tolist() == [0, 1, 2, 3, 2, 1]
    assert encoded.values is None
    later = templates.encode([["c", "a"]], index)
    assert later.ids.tolist() == [1, 0]
    assert index.size == 4


def test_a_frequency_cut_off_by_hand():
    """a, a, b, a and two starts: a three times, the start twice, the rest once."""
    templates, index = Templates(["word", "word[-1]"]), Index()
    templates.encode([["a", "a", "b"], ["a"]], index, grow=True)
    counts = dict(zip(names_of(index), index.counts().tolist(), strict=True))
    assert counts == {"word=a": 3, "word[-1]=<-1>": 2, "word[-1]=a": 2, "word=b": 1}
    kept = index.keep(index.counts() >= 2)
    assert templates.encode([["b", "a"]], kept).ids.tolist() == [1, 0]


def test_edge_templates_are_encoded_apart():
    templates = Templates(["word", "edge(word)"])
    nodes, edges = Index(), Index()
    encoded = templates.encode([["a", "b", "a"]], nodes, edges, grow=True)
    assert names_of(nodes) == ["word=a", "word=b"]
    assert names_of(edges) == ["edge(word)=a", "edge(word)=b"]
    assert encoded.edge_indptr.tolist() == [0, 1, 2, 3]
    assert encoded.edge_ids.tolist() == [0, 1, 0]
    assert encoded.edge_values is None
    with raises(ParameterError, parameter="edge_index"):
        templates.encode([["a"]], Index())


def test_without_edge_templates_there_are_no_edge_arrays():
    encoded = make("pos").encode([["a"]], Index(), grow=True)
    assert encoded[4:] == (None, None, None)


def test_templates_that_make_the_same_name_share_an_attribute():
    index = Index()
    encoded = Templates(["word", "word"]).encode([["a"]], index, grow=True)
    assert encoded.ids.tolist() == [0, 0]
    assert Templates(["word", "word"]).extract(["a"]) == [{"word=a": 2.0}]


@pytest.mark.parametrize("X", [[], [[]], [[], ["a"], []], (("a", "b"),), np.array([["a", "b"]])])
def test_empty_and_unusual_batches(X):
    encoded = Templates(["word[-1]"]).encode(X, Index(), grow=True)
    assert len(encoded.offsets) == len(X) + 1
    assert encoded.offsets[-1] == sum(map(len, X)) == len(encoded.indptr) - 1


def test_a_generator_of_sentences_with_columns():
    sentences = (tl.Sentence([w], columns={"pos": ["N"]}) for w in "ab")
    encoded = Templates(["word", "col(pos)"]).encode(sentences, Index(), grow=True)
    assert encoded.ids.tolist() == [0, 1, 2, 1]


def test_a_corpus_is_a_batch():
    corpus = tl.read(io.StringIO("a N X\nb V Y\n\nc N X\n"), "conll", columns=["w", "pos", "y"])
    encoded = Templates(["word", "col(pos)"]).encode(corpus, Index(), grow=True)
    assert encoded.offsets.tolist() == [0, 2, 3]


# ---- columns and numbers ---------------------------------------------------------------------


def test_columns_by_name_and_number_of_a_file():
    corpus = tl.read(io.StringIO("Das ART X\nHaus NN Y\n"), "conll")
    assert shown(["col(1)[-1]", "col(0)", 'col("1")'], corpus[0])[1] == [
        "col(1)[-1]=ART",
        "col(0)=Haus",
        'col("1")=NN',
    ]


def test_columns_by_name_and_number_of_a_sentence_made_by_hand():
    sentence = tl.Sentence(["Das"], columns={"pos": ["ART"], "lemma": ["der"]})
    assert shown(["col(pos)", "col(0)", "col(1)", "col(2)"], sentence) == [
        ["col(pos)=ART", "col(0)=Das", "col(1)=ART", "col(2)=der"]
    ]


def test_a_column_that_is_not_there():
    sentence = tl.Sentence(["Das"], columns={"pos": ["ART"]})
    with raises(
        TemplateError, expected="column tag, which template 1, 'col(tag)[-1]'", found="pos"
    ):
        Templates(["word", "col(tag)[-1]"]).extract(sentence)
    with raises(TemplateError, where="sentence 0", expected="column 4, which template 0, 'col(4)'"):
        Templates(["col(4)"]).extract(sentence)
    with raises(TemplateError, where="sentence 1", found="a list of tokens", hint="columns="):
        Templates(["col(pos)"]).encode([sentence, ["Das"]], Index(), grow=True)


def test_real_values_from_a_column():
    sentence = tl.Sentence(["a", "b", "c"], columns={"x": ["0.5", "-2", "1e3"]})
    assert Templates(["value(x)", "value(x)[-1]", "value(x) & word"]).extract(sentence) == [
        {"value(x)": 0.5, "value(x)[-1]": 0.0, "value(x)&word=a": 0.5},
        {"value(x)": -2.0, "value(x)[-1]": 0.5, "value(x)&word=b": -2.0},
        {"value(x)": 1000.0, "value(x)[-1]": -2.0, "value(x)&word=c": 1000.0},
    ]
    encoded = Templates(["value(x)", "word"]).encode([sentence, sentence], Index(), grow=True)
    assert encoded.values.tolist() == [0.5, 1, -2, 1, 1000, 1] * 2


@pytest.mark.parametrize("bad", ["nan", "inf", "", "1,5", "x"])
def test_invalid_real_values(bad):
    good = tl.Sentence(["a"], columns={"x": ["1"]})
    sentence = tl.Sentence(["a", "b"], columns={"x": ["1", bad]})
    with raises(FeatureError, where="sentence 1, token 1", found=f"'{bad}'", expected="column x"):
        Templates(["value(x)"]).encode([good, sentence], Index(), grow=True)


# ---- saving ----------------------------------------------------------------------------------


def resourceful():
    return Templates(
        ["word[-1..1]", "lexicon(cities)", "cluster(brown, 2)", "suffix(ends)", "edge(shape)"],
        lexicons={"cities": Lexicon({"new york": "US", "york": "UK"}, ignore_case=True)},
        clusters={"brown": {"New": "0110"}},
        lists={"ends": ["ew", "k"]},
    )


@pytest.mark.parametrize(
    "again",
    [
        lambda t: from_dict(json.loads(json.dumps(t.to_dict()))),
        lambda t: pickle.loads(pickle.dumps(t)),
        copy.deepcopy,
    ],
    ids=["json", "pickle", "deepcopy"],
)
def test_saved_and_loaded_templates_give_the_same(again):
    templates = resourceful()
    loaded = again(templates)
    assert loaded == templates
    assert loaded.templates == templates.templates
    sentence = ["New", "York", "York"]
    assert loaded.extract(sentence) == templates.extract(sentence)
    assert loaded.extract(sentence, edges=True) == templates.extract(sentence, edges=True)
    assert templates.extract(sentence)[2] == {
        "word[-1]=York": 1.0,
        "word=York": 1.0,
        "word[1]=<+1>": 1.0,
        "lexicon(cities)=S-UK": 1.0,
        "suffix(ends)=k": 1.0,
    }


# ---- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "character", "found", "expected", "hint"),
    [
        ("sufffix(3)", 1, "'sufffix'", "a function", "Did you mean 'suffix'?"),
        ("word & pos", 8, "'pos'", "a function", "A column of the data is"),
        ("word-1", None, "'word-1'", "a function", "Did you mean 'word[-1]'?"),
        ("word & edge(word)", 8, "'edge'", "a function", "edge(...) goes aro"),
        ("word[", 6, "the end", "an offset such as -1 or -2..2", None),
        ("word[x]", 6, "'x'", "an offset", None),
        ("word[2..1]", 9, "the range 2..1", "the smaller number first", None),
        ("word[1..]", 9, "']'", "a number after '..'", None),
        ("word[-1", 8, "the end", "']'", None),
        ("word word", 6, "'word'", "'&', '[' or the end", None),
        ("", 1, "the end", "a function such as word or suffix(3)", None),
        ("word &", 7, "the end", "a function", None),
        ("word ? lower", 6, "'?', which is not part of the language", None, None),
        ("U00:%x[0,0]", 5, "'%', which is not part of", None, "CRFppTemplates(lines)"),
        ("suffix", 7, "the end", "'(', as in suffix(3), suffix(1..4) or", None),
        ("suffix(0)", 8, "'0'", "a length of 1 or more", None),
        ("suffix()", 8, "')'", "an argument", None),
        ("suffix(lower)", 8, "'lower'", "suffix(3), suffix(1..4) or", None),
        ("suffix(3, 4)", 11, "'4'", "lower or col(...)", None),
        ("suffix(3, lemma)", None, "'lemma'", "lower or col(...)", "A column of the data is"),
        ('suffix("")', 8, "an empty text", "an affix", None),
        ("suffix(3, suffix(1..2))", 11, "'suffix(1)'", "one value", None),
        ("word(3)", 6, "'3'", "word and no more", None),
        ("lower(word[1])", 11, "'['", "',' or ')'", None),
        ("col", 4, "the end", "(the name or number of a column", None),
        ("col(lower(word))", 5, "'lower'", "the name or number of a column", None),
        ("col(1..2)", 5, "'1'", "the name or number of a column", None),
        ('regex("(")', 7, "a regular expression that Python cannot read (missing", None, None),
        ("regex(a)", 7, "'a'", "a text in quotes, as in regex(", None),
        ("lexicon(3)", 9, "'3'", "a name, as in lexicon(cities)", None),
        ("cluster(brown, 0)", 16, "'0'", "1 bit or more", None),
        ("value(x) & value(y)", None, "two real values", "at most one value(...)", None),
        ("bias[1]", 5, "an offset", None, "bias is the same everywhere."),
        ("edge(word", 10, "the end", "'&' or ')'", None),
        ("edge(word)[1]", 11, "'['", "the end", None),
        ("'abc", 1, "a text without its closing quote", None, None),
    ],
)
def test_a_mistake_is_shown_where_it_is(text, character, found, expected, hint):
    place = "" if character is None else f", character {character}"
    with raises(TemplateError, where=f"template 1, {text!r}{place}", found=found) as caught:
        Templates(["word", text])
    assert (expected or "") in (caught.value.expected or "")
    assert (hint or "") in (caught.value.hint or "")


def test_templates_that_are_not_str():
    with raises(TemplateError, where="template 1", found="3", expected="a str"):
        Templates(["word", 3])


@pytest.mark.parametrize("kind", ["lexicons", "clusters", "lists"])
def test_a_resource_that_is_not_given(kind):
    text = {"lexicons": "lexicon(a)", "clusters": "cluster(a)", "lists": "suffix(a)"}[kind]
    with raises(TemplateError, expected=f"'a' among the {kind}", found="none", hint=f"{kind}="):
        Templates([text])
    given = {"lexicons": ["x"], "clusters": {"x": "0"}, "lists": ["x"]}[kind]
    with raises(TemplateError, found="b"):
        Templates([text], **{kind: {"b": given}})


@pytest.mark.parametrize(
    ("X", "where", "expected", "found"),
    [
        ("They fish", None, "a list of sentences", "the str 'They fish'"),
        (["They fish"], "sentence 0", "a list of tokens", "the str 'They fish'"),
        ([["They"], "fish"], "sentence 1", "a list of tokens", "the str 'fish'"),
        ([["They", 3]], "sentence 0, token 1", "a str", "int"),
        ([["They", None]], "sentence 0, token 1", "a str", "None"),
        ([["They", ["fish"]]], "sentence 0, token 1", "a str", "list"),
        ([{"a": 1}], "sentence 0", "a list of str", "of type dict"),
        ([np.zeros((2, 3))], "sentence 0", "a list of str", "array("),
        (5, None, "a list of sentences", "5"),
    ],
)
def test_what_is_not_a_sentence(X, where, expected, found):
    with raises(SentenceError, where=where, expected=expected, found=found):
        Templates(["word"]).encode(X, Index(), grow=True)


@pytest.mark.parametrize("X", ["They fish", ["They fish"], 5])
@pytest.mark.parametrize("template", ["col(pos)", "value(x)", "lexicon(l)"])
def test_invalid_sentences_for_templates_that_read_columns(X, template):
    with raises(SentenceError, expected="a list of "):
        Templates([template], lexicons={"l": ["They"]}).encode(X, Index(), grow=True)


def test_a_lone_surrogate_is_an_error():
    with raises(FeatureError, where="sentence 0, token 1", message="lone surrogate"):
        extract(["a", "\ud800"], ["word"])
