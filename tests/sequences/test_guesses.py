"""The format is guessed from name and content, told, and never guessed between two that fit."""

import io
import logging

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError

CONLLU_ROW = "1\tFish\tfish\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"


@pytest.mark.parametrize(
    ("name", "text", "format", "why"),
    [
        ("a.conllu", CONLLU_ROW, "conllu", "by the name .conllu"),
        ("a.conllu.gz", CONLLU_ROW, "conllu", "by the name .conllu"),
        ("a.txt", "# sent_id = 1\n" + CONLLU_ROW, "conllu", "ten columns that start with an ID"),
        ("a.conll", CONLLU_ROW.replace("1\t", "1-2\t") + CONLLU_ROW, "conllu", "ten columns"),
        ("a.conll", "Fish NN\n", "conll", "by the name .conll"),
        ("a.tsv", "Fish\tNN\n", "conll", "by the name .tsv"),
        ("a.txt", "Fish\tNN\n", "conll", "by its tabs"),
        ("a.txt", "Fish NN\nswim VB\n", "conll", "every row has 2 columns"),
        ("a.txt", "-DOCSTART- -X- O\n\nFish NN O\n\nHi UH O\n", "conll", "by its -DOCSTART-"),
        ("a.txt", "10\u00a0000 CD\neuros NN\n", "conll", "every row has 2 columns"),
        ("a.txt", "\u3000 SP\n\u9280\u884c NN\n", "conll", "every row has 2 columns"),
        ("a.txt", "Fish/NN swim/VB\nThey/PRP do/VB so/RB\n", "slash", "every item has a slash"),
        ("a.txt", "word,tag\nFish,NN\n", "csv", "by the names in its first row"),
        ("a.txt", "sentence_id|text|tag\n1|Fish|NN\n", "csv", "by the sentence column"),
        ("a.txt", "Fish/NN swim/VB\n", "slash", "every item has a slash"),
        ("a.txt", '{"tokens": ["a"]}\n', "jsonl", "its objects have tokens"),
        ("a.jsonl", '{"text": "a", "spans": []}\n', "jsonl-spans", "have text, and no tokens"),
        ("a.txt", "# global.columns = ID FORM\n1\ta\n", "conllu", "by its # global.columns"),
        ("a.txt", "", "conll", "the file is empty"),
        ("a.jsonl", "", "jsonl", "by the name .jsonl"),
    ],
)
def test_guesses(tmp_path, caplog, name, text, format, why):
    path = tmp_path / name
    path.write_text(text)
    with caplog.at_level(logging.INFO, logger="tagloom"):
        corpus = tl.read(path)
    assert corpus.format == format
    assert why in corpus.notice
    assert corpus.notice in caplog.text
    assert f"format {format!r}" in repr(corpus)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Fish swim\n", "'Fish swim'"),
        ("Fish\nswim\n", "'Fish'"),
        ("and/or NN\neither/or NN x\n", "'and/or NN'"),
        ("a/X b/Y\nc/X d/Y\n", "'a/X b/Y'"),  # two columns, or word/TAG
        ('{"tokens": [], "text": "", "spans": []}', "both"),
        ("[\n", "'['"),
    ],
)
def test_what_cannot_be_told_is_an_error_that_says_what_to_pass(text, found):
    with raises(FormatError, where="<file>", found=found, hint="jsonl-spans", options="format"):
        tl.read(io.StringIO(text))


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        ("Zoë PER\n", "latin-1", "0xEB"),
        ("“Hi” UH\n", "cp1252", "0x93"),
        ("日本 N\n", "euc-jp", "0xC6"),
    ],
)
def test_another_encoding_is_the_first_suspect(text, encoding, found):
    with raises(FormatError, where="<file>:2", expected="UTF-8", found=found) as caught:
        tl.read(io.BytesIO(b"\n" + text.encode(encoding)))
    assert caught.value.options == {"encoding": encoding if encoding != "euc-jp" else "latin-1"}
    assert "euc-jp" in caught.value.hint
    format = {"format": "conll", "encoding": encoding}
    assert tl.read(io.BytesIO(text.encode(encoding)), **format)[0].tokens == text.split()[:1]


def test_a_spreadsheet_is_told_from_text():
    with raises(FormatError, found="a ZIP archive", hint="Save a spreadsheet as CSV"):
        tl.read(io.BytesIO(b"PK\x03\x04\x14\0\x06\0\x08\0"))


def test_a_name_that_the_content_belies(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("Fish NN\n")
    with raises(FormatError, where="a.jsonl:1", expected="JSON", found="'Fish NN'"):
        tl.read(path)


def test_nothing_is_printed_unless_asked_for(capfd):
    tl.read(io.StringIO("Fish\tNN\n"))
    assert capfd.readouterr() == ("", "")


def test_formats_are_named_right():
    with raises(FormatError, parameter="format", expected="conll,", found="'conl'"):
        tl.read(io.StringIO(""), "conl")
    with raises(FormatError, parameter="format", found="'conl'"):
        tl.write([], io.BytesIO(), "conl")


def test_the_format_to_write_is_that_of_the_name_or_of_the_corpus(tmp_path):
    corpus = tl.read(io.StringIO("a/X b/Y\n"), "slash")
    tl.write(corpus, tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "a/X b/Y\n"
    tl.write(corpus, tmp_path / "a.conll")
    assert (tmp_path / "a.conll").read_text() == "a\tX\nb\tY\n\n"
    tl.write(corpus, tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_text() == '{"tokens": ["a", "b"], "labels": ["X", "Y"]}\n'
    tl.write(corpus, tmp_path / "a.conllu")
    assert tl.read(tmp_path / "a.conllu").labels == [["X", "Y"]]
    with raises(FormatError, found="'b.txt'", options="format"):
        tl.write(tl.Corpus([["a"]]), "b.txt")


def test_annotations_of_brat_are_not_columns():
    with raises(FormatError, expected="doc.ann with its text", found="<file>"):
        tl.read(io.StringIO("T1\tORG 0 2\tEU\nT2\tMISC 11 17\tGerman\n"))


@pytest.mark.parametrize("name", ["out.xml", "out.html.gz", "out.npy"])
def test_a_name_that_promises_another_format_is_refused(tmp_path, name):
    corpus = tl.read(io.StringIO("Fish NN\nswim VB\n"))
    with raises(FormatError, expected="a file name whose suffix implies the format", found=name):
        tl.write(corpus, tmp_path / name)
    assert not list(tmp_path.iterdir())
    tl.write(corpus, tmp_path / name, "conll")  # if that is what the user wants


def test_columns_of_which_a_row_lacks_one_are_reported_with_the_row():
    text = b"# from here\nThey PRON\ncan\nfish VERB\n"
    with raises(FormatError, where=":3", expected="2 columns", found="1 column: 'can'"):
        tl.read(io.BytesIO(text))


def test_lines_of_equally_many_words_between_blank_lines_are_not_columns():
    """A pipe shows one line at a time and a file all of them: the guess must be the same."""
    with raises(FormatError, found="'They can fish'"):
        tl.read(io.StringIO("They can fish\n\nWe can swim\n\nYou can run\n"))
    assert tl.read(io.StringIO("Go VB\n\nThey PRP\nfish VBP\n")).format == "conll"
