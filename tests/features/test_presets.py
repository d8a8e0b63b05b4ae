"""Presets, and what `make` makes of what a user gives."""

import pytest

import tagloom as tl
from raising import raises
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
    assert not any(templates.extract(sentence, edges=True))
    assert len(set(templates.templates)) == len(templates)  # no template twice
    encoded = templates.encode([sentence], Index(), grow=True)
    assert len(encoded.ids) == sum(map(len, found))
    assert from_dict(templates.to_dict()) == templates


def test_the_preset_words_has_only_the_word():
    assert make("words").extract(["a", "b"]) == [{"word=a": 1.0}, {"word=b": 1.0}]


def test_a_preset_can_be_extended():
    templates = make([*PRESETS["words"], "col(pos)[-1]"])
    sentence = tl.Sentence(["a", "b"], columns={"pos": ["N", "V"]})
    assert list(templates.extract(sentence)[1]) == ["word=b", "col(pos)[-1]=N"]


def test_resources_go_to_the_templates():
    assert list(make(["lexicon(l)"], lexicons={"l": ["a"]}).extract(["a"])[0]) == ["lexicon(l)=S"]
    with raises(ParameterError, parameter="features", expected="which alone use lexicons"):
        make(None, lexicons={"l": ["a"]})


def test_what_is_an_extractor_already_is_kept():
    for extractor in (Templates(["word"]), Items(), Function(list)):
        assert make(extractor) is extractor


@pytest.mark.parametrize(
    ("features", "expected", "hint"),
    [
        ("po", f"a preset ({NAMES}) or a file", "'pos'"),
        ("word[-1]", f"a preset ({NAMES}) or a file", "into a list"),
        (3, f"a preset ({NAMES}), a list of templates", None),
    ],
)
def test_unknown_features(features, expected, hint):
    with raises(ParameterError, parameter="features", expected=expected, hint=hint):
        make(features)


def test_an_unknown_kind_in_a_model_file():
    with raises(ParameterError, parameter="features", found="'neural'"):
        from_dict({"kind": "neural"})


def test_a_bad_template_in_a_list():
    with raises(TemplateError, where="template 1, 'sufffix'"):
        make(["word", "sufffix"])
