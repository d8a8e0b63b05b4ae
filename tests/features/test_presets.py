"""Presets, and what `make` makes of what a user gives."""

import re

import pytest

import tagloom as tl
from tagloom import Sentence
from tagloom._native import Index
from tagloom.errors import ParameterError, TemplateError
from tagloom.features import PRESETS, Function, Items, Templates, from_dict, make

NAMES = "words, pos, chunk, chunk-pos, ner"


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_works_on_any_words(name):
    templates = make(name)
    words = ["They", "can't", "fish", "1984", "!", "👩‍👩‍👧", "e\u0301", "日本", ""]
    sentence = Sentence(words, columns={"pos": ["X"] * 9}) if name == "chunk-pos" else words
    found = templates.extract(sentence)
    assert all(found)
    assert not templates.has_edges
    assert len(set(templates.templates)) == len(templates)  # no template twice
    encoded = templates.encode([sentence], Index(), grow=True)
    assert len(encoded.ids) == sum(map(len, found))
    assert from_dict(templates.to_dict()) == templates


def test_words_is_what_a_hidden_markov_model_sees():
    assert make("words").extract(["a", "b"]) == [{"word=a": 1.0}, {"word=b": 1.0}]


def test_a_list_of_ones_own_starts_from_a_preset():
    templates = make([*PRESETS["words"], "col(pos)[-1]"])
    sentence = tl.Sentence(["a", "b"], columns={"pos": ["N", "V"]})
    assert list(templates.extract(sentence)[1]) == ["word=b", "col(pos)[-1]=N"]


def test_resources_go_to_the_templates():
    assert list(make(["lexicon(l)"], lexicons={"l": ["a"]}).extract(["a"])[0]) == ["lexicon(l)=S"]
    with pytest.raises(ParameterError, match="lexicons: only template expressions and presets"):
        make(None, lexicons={"l": ["a"]})


def test_what_is_an_extractor_already_is_kept():
    for extractor in (Templates(["word"]), Items(), Function(list)):
        assert make(extractor) is extractor


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            "po",
            f"features is 'po', which is neither a preset ({NAMES}) nor a file.",
        ),
        (
            "word[-1]",
            f"which is neither a preset ({NAMES}) nor a file. A template",
        ),
        (
            3,
            f"features is 3; expected a preset ({NAMES}), a list of templates",
        ),
    ],
)
def test_what_is_nothing(features, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        make(features)


def test_an_unknown_kind_in_a_model_file():
    with pytest.raises(ParameterError, match="features of the kind 'neural' are not known"):
        from_dict({"kind": "neural"})


def test_a_bad_template_in_a_list():
    with pytest.raises(TemplateError, match="template 1, 'sufffix'"):
        make(["word", "sufffix"])
