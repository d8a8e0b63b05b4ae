"""Lexicons and clusters: what is found, and what their files may hold."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raising import raises
from tagloom.errors import FormatError, ParameterError
from tagloom.features import Clusters, Lexicon, Templates


def match_plainly(phrases, tokens):
    """Every start in turn, the longest phrase first."""
    found = [""] * len(tokens)
    t = 0
    while t < len(tokens):
        for n in range(len(tokens) - t, 0, -1):
            if " ".join(tokens[t : t + n]) in phrases:
                found[t : t + n] = ["S"] if n == 1 else ["B", *["I"] * (n - 2), "E"]
                t += n
                break
        else:
            t += 1
    return found


@given(
    st.sets(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(" ".join), min_size=1),
    st.lists(st.sampled_from("abcd"), max_size=12),
)
def test_the_longest_phrase_from_the_left(phrases, tokens):
    assert Lexicon(phrases).match(tokens) == match_plainly(phrases, tokens)


def test_types_stand_beside_the_place_in_the_phrase():
    places = Lexicon({"New York": "US", "York": "UK", "New York City": "US"})
    assert places.match(["New", "York", "City", "New", "York", "York", "New"]) == (
        ["B-US", "I-US", "E-US", "B-US", "E-US", "S-UK", ""]
    )


def test_case_counts_unless_it_is_ignored():
    assert Lexicon(["New York"]).match(["new", "york"]) == ["", ""]
    assert Lexicon(["NEW york"], ignore_case=True).match(["New", "YORK"]) == ["B", "E"]
    # the same phrase twice after folding, with two types
    both = Lexicon({"May": "month", "may": "verb"}, ignore_case=True)
    assert len(both) == 1
    assert both.match(["MAY"]) == ["S-month+verb"]


def test_a_file_of_phrases_with_and_without_types(tmp_path):
    path = tmp_path / "places.tsv"
    path.write_bytes("\ufeffNew York\tUS\r\n\r\nZürich\tCH\r\nUr\n".encode())
    places = Lexicon(path)
    assert len(places) == 3
    assert places.match(["New", "York", "Zürich", "Ur"]) == ["B-US", "E-US", "S-CH", "S"]
    assert Lexicon(str(path)).to_dict() == places.to_dict()


def test_a_file_with_too_many_columns(tmp_path):
    path = tmp_path / "places.tsv"
    path.write_text("New York\tUS\nUr\tIQ\t3\n")
    with raises(FormatError, where="places.tsv:2", expected="a phrase", found="3 columns"):
        Lexicon(path)


@pytest.mark.parametrize("entries", [[], [" "], {}])
def test_an_empty_lexicon(entries):
    with raises(ParameterError, expected="at least one phrase"):
        Lexicon(entries)


def test_phrases_are_str():
    with raises(ParameterError, parameter="entries", expected="str", found="(3, '')"):
        Lexicon(["a", 3])


def test_a_lexicon_is_saved_whole():
    lexicon = Lexicon({"New York": "US", "new york": "us", "Ur": ""}, ignore_case=True)
    again = Lexicon.from_dict(json.loads(json.dumps(lexicon.to_dict())))
    tokens = ["new", "YORK", "ur", "x"]
    assert again.match(tokens) == lexicon.match(tokens) == ["B-US+us", "E-US+us", "S", ""]


def test_a_lexicon_in_templates_at_offsets_and_through_functions():
    templates = Templates(
        ["lexicon(c)", "lexicon(c)[1]", "lexicon(c, lower)", "lexicon(c) & word"],
        lexicons={"c": ["New York", "ur"]},
    )
    assert [list(token) for token in templates.extract(["in", "New", "York", "UR"])] == [
        ["lexicon(c)[1]=B"],
        ["lexicon(c)=B", "lexicon(c)[1]=E", "lexicon(c)&word=B|New"],
        ["lexicon(c)=E", "lexicon(c)&word=E|York"],
        ["lexicon(c, lower)=S"],
    ]


@pytest.mark.parametrize("n_words", [0, 1, 3])
def test_phrases_do_not_cross_sentences(n_words):
    templates = Templates(["lexicon(c)"], lexicons={"c": ["a b"]})
    for cut in range(n_words + 1):
        words = list(itertools.islice(itertools.cycle("ab"), n_words))
        halves = [words[:cut], words[cut:]]
        expected = [Lexicon(["a b"]).match(half) for half in halves]
        columns, _ = templates.columns(halves)
        assert columns[1] == expected


# ---- clusters --------------------------------------------------------------------------------


def test_clusters_of_browns_program(tmp_path):
    path = tmp_path / "paths"
    path.write_text("0110\tcat\t12\n0111\tdog\t3\n10\t0\t99\n")
    brown = Clusters(path)
    assert [brown.get(word) for word in ("cat", "dog", "0", "cow")] == ["0110", "0111", "10", None]
    assert [brown.get("dog", n) for n in (1, 3, 9)] == ["0", "011", "0111"]


def test_clusters_as_words_and_their_class(tmp_path):
    path = tmp_path / "clusters.txt"
    path.write_text("cat 17\ndog 17\n\nrun 3\n")
    assert Clusters(path).to_dict() == {"cat": "17", "dog": "17", "run": "3"}
    path.write_text("New York\t17\ncat\t3\n")
    assert Clusters(path).get("New York") == "17"


def test_a_clusters_file_with_one_column(tmp_path):
    path = tmp_path / "clusters.txt"
    path.write_text("cat 17\ndog\n")
    with raises(FormatError, where="clusters.txt:2", found="one column"):
        Clusters(path)


def test_invalid_clusters():
    with raises(ParameterError, expected="at least one word"):
        Clusters({})
    with raises(ParameterError, expected="a dict from str to str", found="('a', 3)"):
        Clusters({"a": 3})


def test_clusters_in_templates():
    templates = Templates(
        ["cluster(b)", "cluster(b, 2)[1]", "cluster(b, 2, lower)"], clusters={"b": {"cat": "0110"}}
    )
    assert [list(token) for token in templates.extract(["Cat", "cat"])] == [
        ["cluster(b, 2)[1]=01", "cluster(b, 2, lower)=01"],
        ["cluster(b)=0110", "cluster(b, 2)[1]=<+1>", "cluster(b, 2, lower)=01"],
    ]
