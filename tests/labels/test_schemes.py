"""The tables against independent definitions: regular expressions, seqeval, plain enumeration."""

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval import scheme as seqeval_schemes

import tagloom as tl
from raising import raises
from tagloom import labels
from tagloom.errors import LabelError, SchemeError, ShapeError
from tagloom.labels import Span

LETTERS = {
    **{"bio": "BI", "iob1": "BI", "io": "I", "bioes": "BIES", "bilou": "BILU"},
    **{"bmes": "BMES", "bmewo": "BMEW", "ioe2": "IE", "ioe1": "IE"},
}
SEPARATING = [name for name in LETTERS if name != "io"]
# What is legal, said a second time: labels are written as two characters, O as "O.".
REGULAR = {
    "bio": r"(O\.|Bx(Ix)*|By(Iy)*)*",
    "iob1": r"(O\.|Ix|Iy|(?<=[BI]x)Bx|(?<=[BI]y)By)*",
    "io": r"(O\.|Ix|Iy)*",
    "bioes": r"(O\.|Sx|Sy|Bx(Ix)*Ex|By(Iy)*Ey)*",
    "bilou": r"(O\.|Ux|Uy|Bx(Ix)*Lx|By(Iy)*Ly)*",
    "bmes": r"(O\.|Sx|Sy|Bx(Mx)*Ex|By(My)*Ey)*",
    "bmewo": r"(O\.|Wx|Wy|Bx(Mx)*Ex|By(My)*Ey)*",
    "ioe2": r"(O\.|(Ix)*Ex|(Iy)*Ey)*",
    "ioe1": r"(O\.|Ix|Iy|Ex(?=[IE]x)|Ey(?=[IE]y))*",
}


def alphabet(name):
    return ["O"] + [f"{letter}-{type}" for letter in LETTERS[name] for type in "xy"]


def sequences(name, longest):
    for length in range(longest + 1):
        yield from itertools.product(alphabet(name), repeat=length)


@pytest.mark.parametrize("name", LETTERS)
def test_legality_equals_a_regular_expression(name):
    pattern = re.compile(REGULAR[name])
    seen = set()
    start, transitions, stop = labels.legal_transitions(alphabet(name), name)
    for sequence in sequences(name, 4):
        text = "".join("O." if y == "O" else y[0] + y[2] for y in sequence)
        legal = pattern.fullmatch(text) is not None
        seen.add(legal)
        assert labels.validate([sequence], name).is_valid == legal, sequence
        path = [alphabet(name).index(y) for y in sequence]
        masked = not path or (
            start[path[0]]
            and stop[path[-1]]
            and all(transitions[a, b] for a, b in itertools.pairwise(path))
        )
        assert masked == legal, sequence
    assert seen == ({True} if name == "io" else {True, False})


@pytest.mark.parametrize(
    ("name", "judge"), [("bio", "IOB2"), ("bioes", "IOBES"), ("bilou", "BILOU"), ("ioe2", "IOE2")]
)
def test_strict_spans_equal_seqeval(name, judge):
    for sequence in sequences(name, 4):
        tokens = seqeval_schemes.Tokens(list(sequence), getattr(seqeval_schemes, judge))
        expected = [(e.tag, e.start, e.end) for e in tokens.entities]
        assert labels.to_spans(sequence, name) == expected, sequence


@pytest.mark.parametrize("name", LETTERS)
def test_both_readings_agree_on_legal_labels(name):
    for sequence in sequences(name, 4):
        if labels.validate([sequence], name).is_valid:
            assert labels.to_spans(sequence) == labels.to_spans(sequence, name), sequence


def test_strict_iob1_equals_seqeval_on_legal_labels():
    legal = [y for y in sequences("iob1", 5) if labels.validate([y], "iob1").is_valid]
    assert len(legal) > 500
    for sequence in legal:
        tokens = seqeval_schemes.Tokens(list(sequence), seqeval_schemes.IOB1)
        expected = [(e.tag, e.start, e.end) for e in tokens.entities]
        assert labels.to_spans(sequence, "iob1") == expected, sequence


def test_strict_ioe1_equals_seqeval_on_legal_labels():
    # seqeval reads an E only inside a span or after another E.
    legal = [
        y
        for y in sequences("ioe1", 5)
        if labels.validate([y], "ioe1").is_valid
        and all(b[0] != "E" or a[2:] == b[2:] for a, b in itertools.pairwise(["O", *y]))
    ]
    assert len(legal) > 400
    for sequence in legal:
        tokens = seqeval_schemes.Tokens(list(sequence), seqeval_schemes.IOE1)
        expected = [(e.tag, e.start, e.end) for e in tokens.entities]
        assert labels.to_spans(sequence, "ioe1") == expected, sequence


@pytest.mark.parametrize("judge", ["IOB2", "IOBES", "IOE2"])
def test_suffixes_equal_seqeval(judge):
    name = {"IOB2": "bio", "IOBES": "bioes", "IOE2": "ioe2"}[judge]
    scheme = getattr(seqeval_schemes, judge)
    for sequence in sequences(name, 3):
        turned = [y if y == "O" else f"{y[2:]}-{y[0]}" for y in sequence]
        tokens = seqeval_schemes.Tokens(turned, scheme, suffix=True, delimiter="-")
        expected = [(e.tag, e.start, e.end) for e in tokens.entities]
        assert labels.to_spans(turned, name) == expected, turned
        assert labels.to_spans(turned) == labels.to_spans(sequence)


def test_suffixes_are_written_by_name():
    rows = [["PER-B", "PER-I", "O", "LOC-B"]]
    (prefixed,) = labels.convert(rows, "bio", "bioes")
    assert prefixed == ["B-PER", "E-PER", "O", "S-LOC"]
    assert labels.convert([prefixed], "bioes", "bio-suffix") == rows
    assert labels.validate(rows, "bio").is_valid
    assert not labels.validate([["O", "PER-I"]], "bio-suffix").is_valid
    assert labels.from_spans([("", 0, 2)], 3, "bmes-suffix") == ["B", "E", "O"]


def test_strict_iob1_drops_a_b_that_nothing_touches():
    assert labels.to_spans(["O", "B-x", "I-x", "O", "I-y"], "iob1") == [("y", 4, 5)]
    assert labels.to_spans(["I-x", "B-x", "I-x"], "iob1") == [("x", 0, 1), ("x", 1, 3)]


@st.composite
def sentences_of_spans(draw):
    cuts = draw(st.lists(st.integers(1, 3), max_size=6))
    types = draw(
        st.lists(st.sampled_from(["", "x", "y-z"]), min_size=len(cuts), max_size=len(cuts))
    )
    result, start = [], 0
    for length, type in zip(cuts, types, strict=True):
        if draw(st.booleans()):
            result.append(Span(type, start, start + length))
        start += length
    return result, start


@given(sentences_of_spans())
def test_spans_survive_every_scheme_and_every_conversion(case):
    expected, length = case
    for source in SEPARATING:
        written = labels.from_spans(expected, length, source)
        assert labels.validate([written], source).is_valid
        assert labels.to_spans(written, source) == expected
        assert labels.to_spans(written) == expected
        for target in SEPARATING:
            (converted,) = labels.convert([written], source, target)
            assert converted == labels.from_spans(expected, length, target)
            assert labels.convert([converted], target, source) == [written]


def test_detect_names_every_scheme_that_fits():
    assert labels.detect([["B-x", "I-x"], ["O"]]).scheme == "bio"
    assert labels.detect([["I-x", "B-x"]]).scheme == "iob1"
    assert labels.detect([["S-x"]]).scheme == "bioes"
    assert labels.detect([["B-x", "L-x"]]).scheme == "bilou"
    assert labels.detect([["I-x", "I-y"]]).fits == ("iob1", "io")
    assert labels.detect([["B-x", "M-x", "E-x"]]).scheme == "bmes"
    assert labels.detect([["B-x", "E-x", "W-x"]]).scheme == "bmewo"
    assert labels.detect([["I-x", "E-x", "O"]]).scheme == "ioe2"
    assert labels.detect([["E-x", "I-x", "O"]]).scheme == "ioe1"
    assert labels.detect([["PER-B", "PER-I", "O"]]).scheme == "bio"
    assert labels.detect([["B", "I", "O"]]).scheme == "bio"
    assert labels.detect([["O"]]).fits == ("bio", "iob1", "io", "bioes", "bilou")
    assert labels.detect([]).fits == ("bio", "iob1", "io", "bioes", "bilou")


def test_detect_never_chooses_in_silence():
    with raises(SchemeError, found="iob1 and io", options="scheme"):
        _ = labels.detect([["I-x", "O"]]).scheme
    with raises(SchemeError, found="none", message="bio: 1 illegal, as 'I-x'"):
        _ = labels.detect([["O", "I-x", "O", "B-x"]]).scheme
    with raises(SchemeError, found="none", message="'NOUN' has no letter"):
        _ = labels.detect([["NOUN", "O"]]).scheme


def test_problems_name_file_line_neighbours_and_what_is_expected():
    class File(list):
        path = "a.conll"

    sentence = SimpleNamespace(labels=["O", "I-x", "B-y"], line_of=[7, 8, 10].__getitem__)
    report = labels.validate(File([["O"], sentence]), "bioes")
    assert [(p.sentence, p.token, p.previous, p.label, p.line) for p in report] == [
        (1, 1, "O", "I-x", 8),
        (1, 2, "I-x", "B-y", 10),
        (1, 3, "B-y", None, 10),
    ]
    assert str(report).splitlines() == [
        "2 sentences, 4 tokens: 3 illegal labels in bioes.",
        "a.conll:8: sentence 1, token 1: 'I-x' cannot follow 'O' in bioes; "
        "expected 'O', 'B-…', 'S-…'.",
        "a.conll:10: sentence 1, token 2: 'B-y' cannot follow 'I-x' in bioes; "
        "expected 'I-x', 'E-x'.",
        "a.conll:10: sentence 1, token 3: 'B-y' cannot end a sentence in bioes; "
        "expected 'I-y', 'E-y'.",
    ]
    assert report.to_dict()["problems"][0]["expected"] == "'O', 'B-…', 'S-…'"


def test_a_corpus_from_a_file_names_its_lines(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("a O\n\nb O\nc I-x\n")
    (problem,) = labels.validate(tl.read(path), "bio")
    assert (problem.path, problem.line) == (str(path), 4)
    assert str(problem).startswith(f"{path}:4: sentence 1, token 1: 'I-x' cannot follow 'O' in bio")
    with raises(SchemeError, where="a.conll:4: sentence 1, token 1", found="'I-x'"):
        labels.convert(tl.read(path), "bio", "bioes")


def test_a_foreign_label_is_one_problem():
    (problem,) = labels.validate([["O", "E-x", "O"]], "bio")
    assert str(problem) == "sentence 0, token 1: 'E-x' is not a label of bio; expected 'O', 'B-…'."


def test_hyphens_bare_letters_and_labels_without_letters():
    assert labels.to_spans(["B-a-b", "I-a-b", "I-a"]) == [("a-b", 0, 2), ("a", 2, 3)]
    assert labels.to_spans(["B", "I", "O", "B"], "bio") == [("", 0, 2), ("", 3, 4)]
    assert labels.from_spans([("", 0, 2)], 3, "bioes") == ["B", "E", "O"]
    assert labels.to_spans(["PER", "PER", "LOC", "O"], "io") == [("PER", 0, 2), ("LOC", 2, 3)]
    assert labels.convert([["PER", "PER", "O"]], "io", "bio") == [["B-PER", "I-PER", "O"]]
    with raises(SchemeError, where="token 1", expected="'B-PER'", found="'NOUN'"):
        labels.to_spans(["O", "NOUN"])


def test_io_says_when_it_would_lose_a_border():
    touching = [["O"], ["B-x", "B-x", "O"]]
    with raises(SchemeError, where="sentence 1, tokens 0 to 1", expected="io", found="'x'"):
        labels.convert(touching, "bio", "io")
    assert labels.convert(touching, "bio", "io", merge=True) == [["O"], ["I-x", "I-x", "O"]]


def test_illegal_labels_are_converted_only_on_demand():
    place = "sentence 0, token 1"
    with raises(SchemeError, where=place, expected="'B-…'", found="'I-x'") as caught:
        labels.convert([["O", "I-x"]], "bio", "bioes")
    assert caught.value.options == {"source": "iob1", "repair": True}
    assert labels.convert([["O", "I-x"]], "bio", "bioes", repair=True) == [["O", "S-x"]]
    with raises(SchemeError, where="sentence 0, token 1", expected="of bio", found="'E-x'"):
        labels.convert([["O", "E-x"]], "bio", "bioes", repair=True)


def test_mistakes_are_named():
    with raises(SchemeError, parameter="scheme", expected="bio, iob1", found="'bmeow'"):
        labels.validate([["O"]], "bmeow")
    with raises(LabelError, where="sentence 1, token 1", found="None (unknown)"):
        labels.detect([["O"], ["O", None]])
    with raises(LabelError, where="sentence 0, token 0", found="one of ['B-x', 'O']"):
        labels.validate([[{"O", "B-x"}]], "bio")
    with raises(LabelError, where="token 0", expected="a str", found="3, of type int"):
        labels.to_spans([3])
    with raises(LabelError, where="sentence 0", expected="labels", found="none"):
        labels.detect([SimpleNamespace(labels=None)])
    with raises(ShapeError, where="sentences[0]", expected="a list of labels", found="'O'"):
        labels.detect(["O", "B-x"])
    with raises(ShapeError, parameter="sentences", found="the str 'O O'"):
        labels.detect("O O")
    with raises(ShapeError, parameter="spans", expected="end <= 2", found="end=3"):
        labels.from_spans([("x", 1, 3)], 2, "bio")
    with raises(ShapeError, parameter="spans", expected="overlap", found="start=1"):
        labels.from_spans([("x", 0, 2), ("y", 1, 3)], 3, "bio")
    with raises(SchemeError, where="labels[1]", expected="a label of bio", found="'E-x'"):
        labels.legal_transitions(["O", "E-x"], "bio")


def test_numpy_strings_and_aliases_are_fine():
    assert labels.to_spans(np.array(["B-x", "I-x"]), "IOB2") == [("x", 0, 2)]
    assert labels.get_scheme("iobes") is labels.get_scheme("bioes")
