"""Raw text to tokens and sentences by rules."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tagloom.text import (
    PATTERNS,
    PRESETS,
    Characters,
    Cuts,
    Rules,
    Whitespace,
    blocks,
    gaps,
)
from tagloom.text.patterns import abbreviation_pattern, any_of

PIECES = [
    *("don't", "cannot", "U.S.", "Mr.", "3.50", "$5", "e-mail", "well-known", "http://a.b/c?d=1."),
    *(
        "a@b.org",
        "...",
        "?!",
        ":-)",
        "👩‍💻",
        "🇪🇪",
        "e\u0301",
        "नमस्ते",
        "你好。",
        "שלום",
        "\x00",
        "\u200b",
    ),
    *("\ud800", "'99", "(x)", '"Hi!"', "5km", "713-555-0199", "<<", "''", "-", ".", "A."),
]
BLANKS = [" ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\x1c", "\x85", "\u2029", "\f", ""]
TEXTS = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from(PIECES + BLANKS), max_size=30).map("".join),
)


def tokens(text, **options):
    return [text[s:e] for s, e in Rules(**options).cut(text).spans()]


def sentences(text, cutter=None):
    cuts = (cutter or Rules()).cut(text)
    rows = zip(cuts.sentences, cuts.sentences[1:], strict=False)
    return [text[cuts.starts[a] : cuts.ends[b - 1]] for a, b in rows]


def assert_lossless(text, cuts):
    """Tokens and gaps are the text, gaps are blank, and sentences cover all tokens in order."""
    spans = cuts.spans()
    between = gaps(text, spans)
    pieces = [text[start:end] for start, end in spans]
    assert all(pieces)
    assert "".join(x for pair in zip(between, [*pieces, ""], strict=True) for x in pair) == text
    assert not "".join(between).strip()
    assert cuts.sentences[0] == 0
    assert cuts.sentences[-1] == len(spans)
    assert (np.diff(cuts.sentences) > 0).all()


@pytest.mark.parametrize("preset", PRESETS)
@given(text=TEXTS)
@settings(max_examples=60)
def test_tokens_and_gaps_are_the_text(preset, text):
    assert_lossless(text, PRESETS[preset]().cut(text))


@given(text=TEXTS, size=st.integers(1, 20))
@settings(max_examples=60)
def test_blocks_are_lossless(text, size):
    parts = [*blocks(text, Rules(), size)]
    spans = [span for part in parts for span in part.spans()]
    assert "".join(text[s:e] for s, e in spans) == "".join(text.split())


def test_blocks_of_ordinary_text_give_the_cuts_of_the_whole():
    text = "One sentence is here. Mr. Lee isn't. Why not? " * 40
    whole = Rules().cut(text)
    parts = [*blocks(text, Rules(), 100)]
    assert len(parts) > 10
    assert [s for part in parts for s in part.spans()] == whole.spans()
    assert sum(len(part.sentences) - 1 for part in parts) == len(whole.sentences) - 1


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("text", ["", " ", "\n\n \t\u3000"])
def test_blank_text_has_no_tokens(preset, text):
    cuts = PRESETS[preset]().cut(text)
    assert (cuts.spans(), cuts.sentences.tolist()) == ([], [0])


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_pattern_finds_its_example(pattern):
    match = re.match(pattern.regex, pattern.example)
    assert match[0] == tokens(pattern.example)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("They don't, can't and cannot.", "They do n't , ca n't and can not ."),
        ("I'm sure it's Ann's: we'll, he'd", "I 'm sure it 's Ann 's : we 'll , he 'd"),
        (
            "Mr. O'Brien of the U.S. paid $3.50 (5%).",
            "Mr. O'Brien of the U.S. paid $ 3.50 ( 5 % ) .",
        ),
        ("See http://a.org/b?c=1, www.d.com.", "See http://a.org/b?c=1 , www.d.com ."),
        ("Mail ada@example.org!!!", "Mail ada@example.org !!!"),
        ("A well-known e-mail", "A well - known e-mail"),
        ("Wait... what?! :-)", "Wait ... what ?! :-)"),
        ("At 10:30 on 12/25/2001, 5km", "At 10:30 on 12/25/2001 , 5 km"),
        ("Call 713-555-0199 in the 1990s", "Call 713-555-0199 in the 1990s"),
        ('"Yes," she said.', '" Yes , " she said .'),
        ("👩‍💻🇪🇪 ok", "👩‍💻 🇪🇪 ok"),
        ("cafe\u0301, नमस्ते।", "cafe\u0301 , नमस्ते ।"),
    ],
)
def test_tokens_of_english(text, expected):
    assert tokens(text) == expected.split()


def test_policies():
    assert tokens("a well-known cat", hyphens="keep") == ["a", "well-known", "cat"]
    assert tokens("they don't, cannot", contractions=False) == ["they", "don't", ",", "cannot"]
    assert tokens("Abc. and Def. end", abbreviations=["Abc", "Def."]) == [
        "Abc.",
        "and",
        "Def.",
        "end",
    ]
    assert tokens("x: #42-7!", patterns=[r"#\d+-\d+"]) == ["x", ":", "#42-7", "!"]


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("Dr. Lee came. She left.", 2),
        ("He lives in the U.S. He works.", 2),
        ('Really? yes. "No!" They left...', 4),
        ("J. Smith and e.g. Bob", 1),
        ("a title\n\nthen text", 2),
        ("one line\nof text", 1),
    ],
)
def test_sentences_of_english(text, n):
    assert len(sentences(text)) == n, sentences(text)


def test_whitespace_has_a_sentence_on_each_line():
    assert sentences("a b.\n\nc d. E", Whitespace()) == ["a b.", "c d. E"]


def test_characters():
    text = "「你好。」他说！再\ufe00见 e\u0301\n好"
    cuts = Characters().cut(text)
    assert [text[s:e] for s, e in cuts.spans()] == [
        *"「你好。」他说！",
        "再\ufe00",
        "见",
        "e\u0301",
        "好",
    ]
    assert sentences(text, Characters()) == ["「你好。」", "他说！", "再\ufe00见 e\u0301", "好"]


def test_a_long_piece_takes_linear_time():
    cuts = Rules().cut("a." * 200_000)
    assert len(cuts.starts) == 400_000
    url = "http://a.b/" + "c" * 5000
    assert tokens(f"see {url} now") == ["see", url, "now"]


def test_the_longest_word_is_tried_first():
    assert re.match(any_of(["a", "ab"]), "abc")[0] == "ab"
    assert re.match(abbreviation_pattern(["a.b"]), "a.b.")
    assert not re.match(abbreviation_pattern(["a.b"]), "axb.")


def test_cuts_without_their_last_sentence():
    cuts = Rules().cut("A b. C d.")
    assert len(cuts.without_last_sentence().starts) == 3
    assert isinstance(cuts.shifted(2), Cuts)
    assert cuts.shifted(2).spans()[0] == (2, 3)
