"""ARPA files: ours, those of other tools with their habits, and damaged ones."""

import gzip
import itertools
import math

import numpy as np
import pytest

import tagloom as tl
from tagloom.errors import FormatError
from tagloom.language.ngrams import SMOOTHINGS

# SRILM's way: spaces instead of tabs, no back-off weight of 0, -99 for log 0, and "b c" left out
# although "a b c" is there. Checked by hand below.
SRILM = r"""
Anything may stand before the model.

\data\
ngram 1=6
ngram  2=3
ngram 3=2

\1-grams:
-99	<s>	-0.3
-0.7 </s>
-0.6 a -0.2
-0.5 b	-0.1
-0.9 c
-1.5	<unk>

\2-grams:
-0.4 <s> a	-0.05
-0.3 a b	0.1
-1.1 a c

\3-grams:
-0.15 <s> a b
-0.25 a b c

\end\
"""
LN10 = math.log(10)


def read(text, tmp_path, **options):
    path = tmp_path / "model.arpa"
    path.write_text(text, encoding="utf-8")
    return tl.NGramModel.from_arpa(path, **options)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("name", ["model.arpa", "model.arpa.gz", "model.arpa.xz"])
def test_written_and_read_again(smoothing, name, tmp_path):
    english = tl.datasets.load("english", "train")[:200]
    model = tl.NGramModel(3, smoothing=smoothing, min_counts=[1, 1, 2]).fit(english)
    model.to_arpa(tmp_path / name)
    again = tl.NGramModel.from_arpa(tmp_path / name)
    assert again.order == 3
    assert again.vocabulary_ == model.vocabulary_
    assert again.ngram_counts_ == model.ngram_counts_
    test = tl.datasets.load("english", "test")[:50]
    np.testing.assert_allclose(again.log_probs(test), model.log_probs(test), atol=1e-7)
    again.to_arpa(tmp_path / "again.arpa")
    if name == "model.arpa":
        assert (tmp_path / "again.arpa").read_bytes() == (tmp_path / name).read_bytes()


def test_a_closed_vocabulary_has_no_unknown_word(tmp_path):
    model = tl.NGramModel(2, closed=True).fit([["a", "b"], ["a"]])
    model.to_arpa(tmp_path / "closed.arpa")
    assert "<unk>" not in (tmp_path / "closed.arpa").read_text()
    again = tl.NGramModel.from_arpa(tmp_path / "closed.arpa")
    assert again.closed
    assert again.log_prob(["a", "z"]) == -math.inf
    assert again.perplexity([["a", "z"]]) == math.inf
    assert again.log_prob(["a", "b"]) == pytest.approx(model.log_prob(["a", "b"]), abs=1e-8)


def test_habits_of_srilm(tmp_path):
    model = read(SRILM, tmp_path)
    assert model.order == 3
    assert not model.closed

    def score(words, **options):
        return (model.score_tokens(words, **options).log_probs / LN10).tolist()

    assert score(["a", "b", "c"]) == pytest.approx([-0.4, -0.15, -0.25, -0.7])
    # c after b is not there: back-off of b, whose weight is -0.1, and then the single word.
    assert score(["b", "c"], start=False) == pytest.approx([-0.5, -0.1 - 0.9, -0.7])
    # "a c" is there, with no back-off weight of its own, which means 0.
    assert score(["a", "c", "b"], start=False) == pytest.approx([-0.6, -1.1, -0.5, -0.1 - 0.7])
    # c after "x a": back-off from "a" and "<s> a".
    assert score(["a", "c"]) == pytest.approx([-0.4, -0.05 - 1.1, -0.7])
    assert score(["z"], end=False) == pytest.approx([-0.3 - 1.5])
    assert model.next_probs()[model.vocabulary_.index("<s>")] == 0


def test_missing_suffixes_change_no_score(tmp_path):
    """The n-grams that we add carry the probability that back-off gave."""
    model = read(SRILM, tmp_path)
    assert model.ngram_counts_ == [6, 4, 2]  # and "b c"
    model.to_arpa(tmp_path / "whole.arpa")
    whole = tl.NGramModel.from_arpa(tmp_path / "whole.arpa")
    for words in itertools.product("abcz", repeat=4):
        assert whole.log_prob(words) == pytest.approx(model.log_prob(words), abs=1e-7)


@pytest.mark.parametrize("unit", ["letters", "bytes"])
def test_letters_that_are_blank(unit, tmp_path):
    model = tl.NGramModel(3, unit=unit).fit(["a b\tc", "a\u3000b"])
    model.to_arpa(tmp_path / "letters.arpa")
    again = tl.NGramModel.from_arpa(tmp_path / "letters.arpa", unit=unit)
    assert again.vocabulary_ == model.vocabulary_
    assert again.log_prob("a b") == pytest.approx(model.log_prob("a b"), abs=1e-8)


@pytest.mark.parametrize("token", ["New York", "", "a\u00a0b", "a\n"])
def test_words_with_blanks_cannot_be_written(token, tmp_path):
    model = tl.NGramModel(2).fit([["in", token]])
    with pytest.raises(FormatError) as error:
        model.to_arpa(tmp_path / "blank.arpa")
    assert error.value.found == repr(token)
    assert not (tmp_path / "blank.arpa").exists()


def lines_of(text=SRILM):
    return text.split("\n")


def with_line(number, new):
    lines = lines_of()
    lines[number - 1] = new
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("", 1, r"an ARPA file with a line \data\\"),
        ("a\nb\n", 1, r"an ARPA file with a line \data\\"),
        ("\n".join(lines_of()[:12]), 13, r"\end\\"),
        (SRILM.replace("\\end\\", ""), 27, r"\end\\"),
        (with_line(5, "ngram 2=6"), 5, '"ngram 1=" and a count'),
        (with_line(5, "ngram 1=six"), 5, '"ngram 1=" and a count'),
        (with_line(5, "ngram 1=-6"), 5, '"ngram 1=" and a count'),
        (with_line(5, "6 words"), 5, '"ngram 1=" and a count'),
        (with_line(5, "ngram 1=7"), 17, "7 1-grams, as in the header"),
        (with_line(6, "ngram 2=2"), 22, "2 2-grams, as in the header"),
        (with_line(9, "\\2-grams:"), 9, r"\\1-grams:"),
        (with_line(17, "\\3-grams:"), 17, r"\\2-grams:"),
        (with_line(26, "\\4-grams:"), 26, r"\end\\"),
        (with_line(11, "-0.7"), 11, "a log-probability, 1 word and perhaps a back-off weight"),
        (
            with_line(19, "-0.3 a b c d"),
            19,
            "a log-probability, 2 words and perhaps a back-off weight",
        ),
        (with_line(12, "0.6a a -0.2"), 12, "a log10 probability"),
        (with_line(12, "nan a -0.2"), 12, "a log10 probability"),
        (with_line(12, "-1e a"), 12, "a log10 probability"),
        (with_line(12, "0.6 a -0.2"), 12, "a log10 probability of at most 0"),
        (with_line(12, "inf a -0.2"), 12, "a log10 probability"),
        (with_line(12, "-0.6 a low"), 12, "a log10 back-off weight"),
        (with_line(12, "-0.6 a 1e5"), 12, "a log10 back-off weight"),
        (with_line(13, "-0.6 a -0.2"), 13, "each 1-gram once"),
        (with_line(13, "-0.6 <s> -0.2"), 13, "each 1-gram once"),
        (with_line(19, "-0.3 <s> a"), 19, "each 2-gram once"),
        (with_line(19, "-0.3 a x"), 19, "a word that is among the 1-grams"),
        (
            with_line(15, "-1.5 d").replace("-0.3 a b", "-0.3 a <unk>"),
            19,
            "a word that is among the 1-grams",
        ),
    ],
)
def test_damaged_files(text, line, expected, tmp_path):
    with pytest.raises(FormatError) as error:
        read(text, tmp_path)
    assert error.value.line == line
    assert error.value.path == str(tmp_path / "model.arpa")
    assert error.value.expected == expected.replace("\\\\", "\\")
    assert "\n" not in str(error.value)


def test_an_order_above_7(tmp_path):
    text = "\\data\\\n" + "".join(f"ngram {n}=1\n" for n in range(1, 9))
    with pytest.raises(FormatError) as error:
        read(text, tmp_path)
    assert error.value.line == 9


def test_bytes_that_are_not_utf8(tmp_path):
    path = tmp_path / "latin.arpa"
    path.write_bytes(SRILM.replace("-0.9 c", "-0.9 \xe7").encode("latin-1"))
    with pytest.raises(FormatError) as error:
        tl.NGramModel.from_arpa(path)
    assert (error.value.line, error.value.expected) == (14, "UTF-8")


def test_a_line_without_an_end(tmp_path):
    path = tmp_path / "long.arpa.gz"
    path.write_bytes(gzip.compress(b"\\data\\\n" + b"x" * 5_000_000))
    with pytest.raises(FormatError) as error:
        tl.NGramModel.from_arpa(path)
    assert error.value.line == 2


def test_every_cut_is_noticed(tmp_path):
    """A file may end anywhere: no model comes out of half of one, and nothing worse happens."""
    whole = SRILM.rstrip()
    for end in range(len(whole)):
        with pytest.raises(FormatError):
            read(whole[:end], tmp_path)


def test_random_damage_is_an_error_or_a_model(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(500):
        data = bytearray(SRILM.encode())
        for at in rng.integers(len(data), size=rng.integers(1, 4)):
            data[at] = rng.integers(256)
        path = tmp_path / "damaged.arpa"
        path.write_bytes(data)
        try:
            model = tl.NGramModel.from_arpa(path)
        except FormatError as error:
            lines.append(error.line)
        else:
            assert model.log_prob(["a", "b", "c", "z"]) < 700
    assert len(lines) > 100
    assert None not in lines
