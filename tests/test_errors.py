"""Errors as fields: rendering, pickling, plain data."""

import pickle

import pytest

from tagloom import errors

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.TagloomError)
]


def command_line(name, value):
    return f"--{name}" if value is ... else f"--{name} {value!r}"


def test_a_parameter_error_is_rendered_from_its_fields():
    error = errors.ParameterError(parameter="l2", expected="at least 0", found="-1")
    assert str(error) == "l2 must be at least 0; got -1."
    assert error.render(command_line) == "--l2 must be at least 0; got -1."


def test_a_place_comes_first_and_a_hint_last():
    error = errors.LabelError(
        where="sentence 3", expected="a list", found="'N V'", hint="Split it."
    )
    assert str(error) == "sentence 3: expected a list, found 'N V'. Split it."


def test_a_message_takes_the_place_of_expected_and_found():
    error = errors.NotFittedError("This CRF is not fitted.", expected="weights", hint="Call fit().")
    assert str(error) == "This CRF is not fitted. Call fit()."
    assert error.expected == "weights"


def test_options_of_a_hint_are_rendered_for_their_surface():
    error = errors.FormatError(
        path="a.tsv",
        line=2,
        expected="3 columns",
        found="2",
        hint="Try {sep}, or set {columns}.",
        options={"sep": "\t", "columns": ...},
    )
    assert (error.path, error.line, error.where) == ("a.tsv", 2, "a.tsv:2")
    assert str(error).endswith('Try sep="\\t", or set columns.')
    assert error.render(command_line).endswith("Try --sep '\\t', or set --columns.")
    assert error.to_dict()["hint"] == 'Try sep="\\t", or set columns.'


def test_braces_in_a_hint_without_options_are_kept():
    assert str(errors.TagloomError("wrong.", hint="Use {A,B}.")) == "wrong. Use {A,B}."


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_survives_pickling_with_its_fields(kind):
    places = (2, 5) if kind is errors.InfeasibleError else ()
    error = kind("wrong.", *places, where="here", found="x", hint="Mend it.", parameter="p")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error) == "here: wrong. Mend it."
    assert vars(copy) == vars(error)


def test_plain_data_has_the_fields_that_are_set():
    error = errors.ScoreError(where="position 3", expected="a score", found="nan")
    assert error.to_dict() == {
        "error": "ScoreError",
        "message": "position 3: expected a score, found nan.",
        "where": "position 3",
        "found": "nan",
        "expected": "a score",
    }


def test_text_of_damaged_files_can_be_shown():
    error = errors.FormatError(
        path="a\udc80.csv",
        expected="different names",
        found="x\x00\x1b[31m, é 😀\n" + "y" * 5000,
        hint="Rename {column}.",
        options={"column": "\x07"},
    )
    text = str(error)
    assert text.isprintable()
    assert text.startswith(
        "a\\udc80.csv: expected different names, found x\\x00\\x1b[31m, é 😀\\ny"
    )
    assert text.endswith('…. Rename column="\\u0007".')
    assert 1000 < len(text) < 1200
    assert str(errors.TagloomError("a\tb.")) == "a\\tb."
