"""CSV and TSV: quotes, a sentence column, and rows that come back as they were."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError

KAGGLE = (
    "Sentence #,Word,POS,Tag\r\n"
    "Sentence: 1,Thousands,NNS,O\r\n"
    ",of,IN,O\r\n"
    ',",",",",O\r\n'
    "Sentence: 2,London,NNP,B-geo\r\n"
    ',"say ""hi""",VB,O\r\n'
)


def read(text, **options):
    return tl.read(io.BytesIO(text.encode()), **options)


def written(corpus, *args, **options):
    out = io.BytesIO()
    tl.write(corpus, out, *args, **options)
    return out.getvalue().decode()


def test_a_sentence_column_filled_on_its_first_row_only():
    corpus = read(KAGGLE)
    assert (corpus.format, corpus.label) == ("csv", "Tag")
    assert corpus.tokens == [["Thousands", "of", ","], ["London", 'say "hi"']]
    assert corpus.labels == [["O", "O", "O"], ["B-geo", "O"]]
    assert corpus[0].columns["POS"] == ["NNS", "IN", ","]
    assert corpus[1].line_of(1) == 6
    assert "sentences by column 'Sentence #'" in corpus.notice


def test_a_sentence_column_filled_on_every_row():
    text = "sentence_id;token;tag\n7;Ann;B-PER\n7;slept;O\n9;Oslo;B-LOC\n"
    corpus = read(text)
    assert corpus.tokens == [["Ann", "slept"], ["Oslo"]]
    assert "separated by semicolons" in corpus.notice
    assert written(corpus) == text


def test_the_file_comes_back_byte_for_byte_apart_from_changed_rows():
    corpus = read(KAGGLE)
    assert written(corpus) == KAGGLE
    corpus[1].labels[1] = "I,x"
    assert written(corpus) == KAGGLE.replace('""",VB,O', '""",VB,"I,x"')
    corpus[0].tokens[1] = 'a"b'
    assert ',"a""b",IN,O\r\n' in written(corpus)


def test_columns_without_a_sentence_column_end_at_blank_rows():
    text = 'word,tag\n"Lee, Ann",B-PER\nslept,O\n,\nOslo,B-LOC\n\n'
    corpus = read(text, format="csv")
    assert corpus.tokens == [["Lee, Ann", "slept"], ["Oslo"]]
    assert written(corpus) == text


def test_columns_by_name_and_number():
    text = "1,B-PER,Ann\n1,O,slept\n2,B-LOC,Oslo\n"
    corpus = read(text, format="csv", sentence=0, label=1, token=2)
    assert (corpus.tokens, corpus.labels[1]) == ([["Ann", "slept"], ["Oslo"]], ["B-LOC"])
    assert read(text, format="csv", columns=["sent", "tag", "word"]).tokens == corpus.tokens
    with raises(FormatError, parameter="sentence", expected="0, 1, 2", found="'doc'"):
        read(text, format="csv", sentence="doc")
    assert read(text, format="csv", sentence=0, token=2, labelled=False)[0].labels is None


def test_a_quoted_field_may_contain_line_ends():
    text = 'sentence,word,tag\n1,"a\nb",X\n1,c,Y\n2,d,X\n'
    corpus = read(text)
    assert corpus.tokens == [["a\nb", "c"], ["d"]]
    assert (corpus[0].line_of(0), corpus[0].line_of(1), corpus[1].line) == (2, 4, 5)
    assert written(corpus) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("id,tokens,ner_tags\n0,\"['EU', 'x']\",\"['B-ORG', 'O']\"\n", 2),
        ('sentence,word_labels\nEU rejects calls,"B-ORG O O"\n', 2),
        ("a b c,O O O\nd e,O O\n", 1),
    ],
)
def test_a_whole_sentence_in_a_cell(text, line):
    with raises(FormatError, expected="one token in each row") as caught:
        tl.read(io.StringIO(text), format="csv")
    assert caught.value.line == line


def test_tokens_with_blanks():
    corpus = tl.read(io.StringIO("sentence,word,tag\n1,New York City,B-LOC\n"), format="csv")
    assert corpus.tokens == [["New York City"]]


def test_tabs_with_and_without_quotes():
    quoted = 'sentence\tword\ttag\n1\t"a\tb"\tX\n'
    assert read(quoted).tokens == [["a\tb"]]
    bare = 'sentence\tword\ttag\n1\t"\tX\n1\tb\tX\n'
    corpus = read(bare)
    assert corpus.tokens == [['"', "b"]]
    assert written(corpus) == bare


def test_a_new_table_numbers_its_sentences():
    corpus = tl.Corpus([["Lee, Ann", "slept"], ["Oslo"]], [["B-PER", "O"], ["B-LOC"]])
    text = written(corpus, "csv")
    assert text == 'sentence,token,label\n1,"Lee, Ann",B-PER\n1,slept,O\n2,Oslo,B-LOC\n'
    assert (read(text).tokens, read(text).labels) == (corpus.tokens, corpus.labels)
    assert written(corpus, "csv", sep="\t").startswith("sentence\ttoken\tlabel\n1\tLee, Ann\t")
    chosen = written(read(KAGGLE), "csv", columns=["token", "POS", "label"])
    assert chosen.startswith("sentence,token,POS,label\n1,Thousands,NNS,O\n")


def test_the_name_chooses_the_format(tmp_path):
    corpus = tl.Corpus([["a"]], [["X"]])
    tl.write(corpus, tmp_path / "a.csv.gz")
    assert tl.read(tmp_path / "a.csv.gz").labels == [["X"]]


def test_labels_in_a_new_column():
    corpus = read(KAGGLE, labelled=False)
    text = written(corpus.with_labels([["A", "B", "C"], ["D", "E"]]), append=True)
    assert text.startswith("Sentence #,Word,POS,Tag,label\r\nSentence: 1,Thousands,NNS,O,A\r\n")
    assert read(text, label="label").labels == [["A", "B", "C"], ["D", "E"]]


def test_two_sentences_of_one_name_are_not_merged():
    corpus = read(KAGGLE)
    with raises(FormatError, where="sentence 1", found="Sentence: 1", options="columns"):
        written([corpus[0], corpus[0]], "csv")
    again = written([corpus[0], corpus[0]], "csv", columns=["token", "label"])
    assert read(again).tokens == [corpus[0].tokens] * 2


def test_unknown_labels():
    text = "sentence,word,tag\n1,a,\n1,b,X\n"
    with raises(FormatError, where=":2", expected="column 'tag'", options="unknown"):
        read(text)
    corpus = read(text, unknown="")
    assert corpus.labels == [[None, "X"]]
    assert written(corpus) == text


@pytest.mark.parametrize(
    ("text", "line", "expected", "found"),
    [
        ("sentence,word,tag\n1,a,X\n1,b\n", 3, "3 columns (sentence, word, tag)", "2 in '1,b'"),
        ("sentence,word,tag\n1,a,X\n1,,X\n", 3, "a token in column 'word'", "empty field"),
        ("sentence,word,tag\n,a,X\n", 2, "a value in column 'sentence'", "none in the first row"),
        ('sentence,word,tag\n1,"a,X\n1,b,X\n', 2, "closed quotes", "in column 'word'"),
        ('sentence,word,tag\n1,a,X\n1,"a"b,X\n', 3, "closed quotes", "in column 'word'"),
    ],
)
def test_mistakes_have_line_and_column(text, line, expected, found):
    with raises(FormatError, where=f"<file>:{line}", expected=expected, found=found):
        read(text)


def test_sentences_before_a_mistake_are_delivered():
    stream = tl.stream(io.BytesIO(b"sentence,word,tag\n1,a,X\n2,b,X\n3,c\n"))
    assert next(stream).tokens == ["a"]
    with raises(FormatError, where=":4"):
        list(stream)


def test_a_table_is_read_as_it_is_needed():
    rows = (f"{i // 20},word{i},X\n" for i in range(60_000))
    file = io.BytesIO(("sentence,word,tag\n" + "".join(rows)).encode())
    assert next(tl.stream(file)).tokens[0] == "word0"
    assert file.tell() < len(file.getvalue()) / 2


field = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.tuples(field, field), min_size=1, max_size=4), min_size=1, max_size=4))
def test_any_fields_are_written_and_read_as_the_csv_module_reads_them(sentences):
    corpus = tl.Corpus(
        [[w for w, _ in s] for s in sentences], [[y for _, y in s] for s in sentences]
    )
    text = written(corpus, "csv")
    rows = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert [tuple(row[1:]) for row in rows] == [pair for s in sentences for pair in s]
    again = read(text)
    assert (again.tokens, again.labels) == (corpus.tokens, corpus.labels)
    assert written(again) == text


def test_labels_are_in_the_column_of_that_name():
    table = "sentence,token,label,POS\n0,Ann,PER,N\n"
    assert tl.read(io.StringIO(table)).labels == [["PER"]]
    with raises(FormatError, parameter="token", found="sentence, labels"):
        tl.read(io.StringIO("sentence,labels\nAnn left,PER O\n"), "csv", header=True)


def test_sentences_of_several_documents():
    table = "doc_id,sentence_id,word,tag\n1,1,Ann,X\n2,1,left,Y\n2,1,Oslo,Z\n"
    corpus = tl.read(io.StringIO(table))
    assert corpus.tokens == [["Ann"], ["left", "Oslo"]]
    corpus[1].labels[0] = "W"
    assert written(corpus) == table.replace("Y", "W")
    frame = {"doc_id": [1, 2, 2], "sentence_id": [1, 1, 1], "word": ["Ann", "left", "Oslo"]}
    assert tl.Corpus.from_frame(frame).tokens == corpus.tokens


def test_blanks_after_separators():
    table = 'sentence, word, tag\n1, "Lee, Ann", B-PER\n1, left, O\n'
    corpus = tl.read(io.StringIO(table))
    assert (corpus.tokens, corpus.labels) == ([["Lee, Ann", "left"]], [["B-PER", "O"]])
    assert (written(corpus), corpus.label) == (table, "tag")
    assert tl.read(io.StringIO("1, a , O\n"), "csv", sentence=0).tokens == [["a "]]


@pytest.mark.parametrize(
    "corpus", [tl.Corpus([["a", ""]], [["X", "X"]]), tl.Corpus([["a", "b"]], [["X", ""]])]
)
def test_empty_tokens_and_labels_are_not_written(corpus):
    with raises(FormatError, where="sentence 0, token 1", expected="not empty", hint="jsonl"):
        written(corpus, "csv")


def test_a_header_without_a_usual_name_for_tokens():
    corpus = tl.read(io.StringIO("sentence_id,text,label\n1,Ann,PER\n"))
    assert (corpus.tokens, corpus.labels) == ([["Ann"]], [["PER"]])
    assert tl.read(io.StringIO("sentence,NN\nends,VBZ\n"), "csv").tokens == [["sentence", "ends"]]
