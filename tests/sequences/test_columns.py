"""CoNLL columns and CoNLL-U: what is read, what survives a round trip, what each fault says."""

import copy
import io
import pickle

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError

# Multiword token, empty nodes, comments of every kind, a document mark, an odd blank line.
CONLLU = """\
# newdoc id = d1
# sent_id = 1
# text = I haven't gone
1\tI\tI\tPRON\tPRP\tCase=Nom|Number=Sing\t3\tnsubj\t_\t_
2-3\thaven't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\thave\thave\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
# a comment inside
4\tgone\tgo\t_\tVBN\tTense=Past\t0\troot\t0:root\tX=ü
4.1\tthere\tthere\tADV\tRB\t_\t_\t_\t4:advmod\t_


# sent_id = 2
0.1\tghost\tghost\tNOUN\tNN\t_\t_\t_\t_\t_
1\tNew York\tNew York\tPROPN\tNNP\t_\t0\troot\t_\t_

# trailing comment
""".encode()


def read(data, *args, **options):
    return tl.read(io.BytesIO(data), *args, **options)


def written(corpus, *args, **options):
    out = io.BytesIO()
    tl.write(corpus, out, *args, **options)
    return out.getvalue()


def test_conllu_words_are_read_and_the_rest_is_kept():
    corpus = read(CONLLU)
    assert (corpus.format, corpus.label) == ("conllu", "upos")
    assert corpus.tokens == [["I", "have", "n't", "gone"], ["New York"]]
    assert corpus.labels == [["PRON", "AUX", "PART", None], ["PROPN"]]
    first = corpus[0]
    assert first.columns["lemma"] == ["I", "have", "not", "go"]
    assert list(first.columns) == [
        *("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"),
    ]
    assert first.comments == [
        "# newdoc id = d1",
        "# sent_id = 1",
        "# text = I haven't gone",
        "# a comment inside",
    ]
    assert "2-3\thaven't" in first.source
    assert [first.line_of(t) for t in range(4)] == [4, 6, 7, 9]
    assert corpus[1].line_of(0) == 15


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("upos", ["PRON", "AUX", "PART", None]),
        ("xpos", ["PRP", "VBP", "RB", "VBN"]),
        ("feats", ["Case=Nom|Number=Sing", "_", "_", "Tense=Past"]),
        ("upos+feats", ["PRON|Case=Nom|Number=Sing", "AUX", "PART", None]),
        ("lemma", ["I", "have", "not", "go"]),
        ("LEMMA", ["I", "have", "not", "go"]),
        (4, ["PRP", "VBP", "RB", "VBN"]),
    ],
)
def test_conllu_labels_come_from_the_column_that_is_named(label, expected):
    assert read(CONLLU, label=label)[0].labels == expected


# Line ends, missing line ends, blank lines with blanks in them, a byte order mark.
VARIANTS = {
    "as it is": lambda b: b,
    "windows": lambda b: b.replace(b"\n", b"\r\n"),
    "mixed": lambda b: b.replace(b"\n", b"\r\n", 3),
    "no final newline": lambda b: b.rstrip(b"\n"),
    "no trailing comment": lambda b: b[: b.index(b"# trailing")],
    "one final newline": lambda b: b[: b.index(b"# trailing") - 1],
    "blank line with blanks": lambda b: b.replace(b"\n\n", b"\n \t \n"),
    "byte order mark": lambda b: b"\xef\xbb\xbf" + b,
    "leading blank lines": lambda b: b"\n\n" + b,
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("label", ["upos", "upos+feats", "misc"])
def test_conllu_survives_byte_for_byte(variant, label):
    data = VARIANTS[variant](CONLLU)
    corpus = read(data, "conllu", label=label)
    assert corpus.tokens == [["I", "have", "n't", "gone"], ["New York"]]
    assert written(corpus) == data
    assert [s.columns for s in corpus]  # parsed, but not changed
    assert [s.comments for s in corpus]
    assert written(corpus) == data
    assert written(tl.stream(io.BytesIO(data), "conllu")) == data
    assert written(pickle.loads(pickle.dumps(corpus))) == data
    assert written(copy.deepcopy(corpus)) == data


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_changed_label_changes_its_field_and_nothing_else(variant):
    data = VARIANTS[variant](CONLLU)
    corpus = read(data, "conllu")
    corpus[0].labels[1] = "VERB"
    assert written(corpus) == data.replace(b"\tAUX\t", b"\tVERB\t")
    corpus[0].labels[1] = None
    assert written(corpus) == data.replace(b"\tAUX\t", b"\t_\t")


def test_changed_tokens_columns_and_comments_are_written():
    corpus = read(CONLLU)
    corpus[1].tokens[0] = "Paris"
    corpus[1].columns["lemma"][0] = "paris"
    corpus[0].comments[1] = "# sent_id = 9"
    expected = CONLLU.replace(b"\tNew York\tNew York\t", b"\tParis\tparis\t")
    comments = b"# newdoc id = d1\n# sent_id = 9\n# text = I haven't gone\n# a comment inside\n"
    inside = b"# a comment inside\n"
    expected = comments + expected[expected.index(b"1\tI\t") :].replace(inside, b"", 1)
    assert written(corpus) == expected


def test_joined_labels_are_split_again():
    corpus = read(CONLLU, label="upos+feats")
    corpus[1].labels[0] = "NOUN|Case=Acc|Number=Plur"
    corpus[0].labels[0] = "X"
    again = read(written(corpus))
    assert again[1].columns["feats"] == ["Case=Acc|Number=Plur"]
    assert (again[0].labels[0], again[0].columns["feats"][0]) == ("X", "_")


def test_predicted_labels_go_into_the_file_that_was_read():
    gold = read(CONLLU)
    predicted = tl.Corpus(gold, [["A", "B", "C", "D"], ["E"]])
    out = written(predicted, "conllu")
    assert read(out).labels == [["A", "B", "C", "D"], ["E"]]
    assert b"2-3\thaven't" in out
    assert b"4.1\tthere" in out
    assert gold.labels[0][0] == "PRON"


def test_conllu_plus_names_its_columns():
    data = b"# global.columns = ID FORM UPOS NER\n1\tParis\tPROPN\tB-LOC\n\n1\tis\tAUX\tO\n\n"
    corpus = read(data, label="NER")
    assert (corpus.format, corpus.labels) == ("conllu", [["B-LOC"], ["O"]])
    assert read(data).label == "UPOS"
    assert written(corpus) == data
    # The names stay when the first sentence goes, and lines are still counted with them.
    assert written(corpus[1:]) == data.replace(b"1\tParis\tPROPN\tB-LOC\n\n", b"")
    assert corpus[1].line_of(0) == 4


@pytest.mark.parametrize("sep", [b"\t", b" ", b"   ", b" \t"])
def test_columns_kept_apart_by_tabs_or_blanks(sep):
    data = b"They PRP B-NP\nfish VBP O\n\n".replace(b" ", sep) * 2
    corpus = read(data, "conll")
    assert corpus.tokens == [["They", "fish"]] * 2
    assert corpus.labels == [["B-NP", "O"]] * 2
    assert corpus[0].columns == {"0": ["They", "fish"], "1": ["PRP", "VBP"], "2": ["B-NP", "O"]}
    assert written(corpus) == data
    corpus[1].labels = ["X", "O"]
    assert written(corpus) == data[: len(data) // 2] + data[len(data) // 2 :].replace(b"B-NP", b"X")


def test_columns_are_named_by_option_or_header():
    data = b"They\tPRP\nfish\tVBP\n"
    corpus = read(data, "conll", columns=["word", "pos"], label="pos")
    assert corpus[0].columns == {"word": ["They", "fish"], "pos": ["PRP", "VBP"]}
    named = b"left\tright\n" + data
    corpus = read(named, "conll", header=True)
    assert (corpus.label, corpus.tokens) == ("right", [["They", "fish"]])
    assert corpus[0].line_of(0) == 2
    assert written(corpus) == named
    # A first row of words that only headers have is taken for one, and that is said.
    known = b"Token\tNER\n\n" + data
    corpus = read(known, "conll")
    assert (corpus.label, len(corpus)) == ("NER", 1)
    assert "first row read as a header" in corpus.notice
    assert written(corpus) == known
    assert read(known, "conll", header=False).tokens == [["Token"], ["They", "fish"]]


def test_columns_may_be_chosen_by_number_and_in_any_order():
    corpus = read(b"1 a X p\n2 b Y q\n", "conll", token=1, label=-2)
    assert (corpus.tokens, corpus.labels) == ([["a", "b"]], [["X", "Y"]])


def test_one_column_has_no_labels():
    corpus = read(b"They\nfish\n\nFish\n", "conll")
    assert (corpus.tokens, corpus[0].labels) == ([["They", "fish"], ["Fish"]], None)
    assert written(corpus) == b"They\nfish\n\nFish\n"


def test_hash_signs_that_are_words_stay_words():
    data = b"# a comment here\n#tag\tX\n#\tY\n# \tZ\n\n"
    corpus = read(data, "conll")
    assert (corpus.tokens, corpus[0].comments) == ([["#tag", "#", "# "]], ["# a comment here"])
    with raises(FormatError, where="<file>:2", found="1 in '# x'", options="comment"):
        read(b"a\tX\n# x\n", "conll")
    assert read(b"a\tX\n#x\nb\tY\n", "conll", comment="#").tokens == [["a", "b"]]
    assert read(b"# X\n", "conll", comment="").tokens == [["#"]]


def test_a_line_that_may_be_a_comment_or_a_row_is_not_guessed():
    data = b"# sent_id 7\nParis NNP B-LOC\n\n# NN O\n"
    with raises(FormatError, where="<file>:1", found="'# sent_id 7'", options="comment"):
        read(data, "conll")
    assert read(data, "conll", comment="#").tokens == [["Paris"]]
    assert read(data, "conll", comment="").tokens == [["#", "Paris"], ["#"]]
    assert read(b"Paris NNP B-LOC\n# NN O\n", "conll").tokens == [["Paris", "#"]]


def test_document_marks_are_no_tokens():
    data = b"-DOCSTART- -X- O\n\nParis NNP B-LOC\n\n"
    corpus = read(data, "conll")
    assert (corpus.tokens, corpus[0].comments) == ([["Paris"]], ["-DOCSTART- -X- O"])
    assert written(corpus) == data


def test_no_break_spaces_are_part_of_a_word():
    assert read("10\u00a0000 CD\n\u3000 X\n".encode(), "conll").tokens == [
        ["10\u00a0000", "\u3000"]
    ]


def test_an_unknown_label_has_the_sign_that_is_chosen():
    assert read(b"a\tX\nb\t?\n", "conll", unknown="?").labels == [["X", None]]
    assert read(b"a\tX\nb\t\n", "conll", unknown="").labels == [["X", None]]
    assert read(b"a\tX\nb\t_\n", "conll").labels == [["X", "_"]]
    assert written(read(b"a\tX\nb\t\n", "conll", unknown="")) == b"a\tX\nb\t\n"


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (b"", "conllu"),
        (b"\n\n", "conllu"),
        (b"# only a comment", "conllu"),
        (b"\r\n", "conllu"),
        (b"\xef\xbb\xbf", "conll"),
        (b"token\tlabel\n", "conll"),
        (b"\n", "jsonl"),
        (b"\n", "slash"),
    ],
)
def test_a_file_without_sentences(data, format):
    corpus = read(data, format)
    assert (len(corpus), corpus.n_tokens) == (0, 0)
    assert written(corpus) == data
    assert written(tl.stream(io.BytesIO(data), format)) == data


# Each fault is one line: where, what was found, what was expected, what to do next.
FAULTS = [
    (
        b"a X Y\nb Y Z\nParis B-LOC\n",
        {},
        {
            "where": "<file>:3",
            "expected": "3 columns as on line 1",
            "found": "2 in 'Paris B-LOC'",
            "options": "columns",
        },
    ),
    (
        b"a,X\nb\tY\n",
        {"sep": ","},
        {"where": "<file>:2", "expected": "2 columns", "options": "sep"},
    ),
    (b"a\tX\n\nb X\n", {}, {"where": "<file>:3", "found": "1 in 'b X'", "options": "sep"}),
    (b"a\tX\nb   X\n", {}, {"where": "<file>:2", "found": "1 in", "options": "sep"}),
    (b"a\tX\nb\tY\t\n", {}, {"where": "<file>:2", "found": "3 in", "options": "columns"}),
    (
        b"a\tX\n",
        {"columns": ["x"]},
        {"where": "<file>:1", "expected": "1 column", "found": "2 in", "options": "columns"},
    ),
    (b"a\tX\n\tY\n", {}, {"where": "<file>:2", "expected": "a token", "found": r"'\tY'"}),
    (
        b"a\tX\nb\t\n",
        {},
        {"where": "<file>:2", "expected": "a label", "found": r"'b\t'", "options": "unknown"},
    ),
    (b"a\tX\nb\xe9\tY\n", {}, {"where": "<file>:2", "found": "byte 0xE9 at offset 5"}),
    (b"a\tX\nb\0\tY\n", {}, {"where": "<file>:2", "found": "byte 0x00 at offset 5"}),
    (
        b"a\tX\n",
        {"label": "ner"},
        {"where": "<file>", "parameter": "label", "expected": "0, 1", "found": "'ner'"},
    ),
    (b"a\tX\n", {"label": 2}, {"parameter": "label", "found": "2"}),
    (b"a\tX\n", {"token": 5}, {"parameter": "token", "found": "5"}),
    (b"a\tX\n", {"sep": "ab"}, {"parameter": "sep", "found": "'ab'"}),
    (b"a\tX\n", {"columns": "ab"}, {"parameter": "columns", "found": "'ab'"}),
    (b"a\tX\n", {"columns": ["a", "a"]}, {"parameter": "columns", "found": "a, a"}),
    (b"a X\rb Y\r\rc Z\r", {}, {"where": "<file>:1", "found": "carriage returns"}),
    (b"a\tX\n", {"tokenize": len}, {"parameter": "tokenize", "expected": "reading conll"}),
]


@pytest.mark.parametrize(("data", "options", "fields"), FAULTS)
def test_faults_in_columns(data, options, fields):
    with raises(FormatError, **fields):
        read(data, "conll", **options)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (b"1\tx\tx\tX\t_\t_\t0\troot\t_", "10 columns"),
        (b"x\tx\tx\tX\t_\t_\t0\troot\t_\t_", "an ID such as 3, 3-4 or 3.1"),
        (b"1-\tx\tx\tX\t_\t_\t0\troot\t_\t_", "an ID"),
        (b"1.2.3\tx\tx\tX\t_\t_\t0\troot\t_\t_", "an ID"),
        (b"1\t\tx\tX\t_\t_\t0\troot\t_\t_", "a token"),
    ],
)
def test_faults_in_conllu(row, expected):
    with raises(FormatError, where="<file>:2", expected=expected):
        read(b"# c\n" + row + b"\n", "conllu")


def test_a_stream_gives_what_stands_before_a_fault():
    good = []
    with raises(FormatError, where=":4"):
        for sentence in tl.stream(io.BytesIO(b"a X\nb Y\n\nc\n"), "conll"):
            good.append(sentence.tokens)
    assert good == [["a", "b"]]


def test_lines_and_offsets_count_across_chunks():
    data = b"word X\n\n" * 50_000
    with raises(FormatError, where=":100001", found="byte 0xFF at offset 400000"):
        read(data + b"\xff X\n", "conll")
    with raises(FormatError, where=":100001", expected="2 columns as on line 1", found="1 in"):
        read(data + b"word\n", "conll")
    assert read(data, "conll")[-1].line_of(0) == 99_999


def test_a_sentence_longer_than_a_chunk():
    data = b"word X\n" * 300_000
    corpus = read(data, "conll")
    assert (len(corpus), corpus.n_tokens) == (1, 300_000)
    assert written(corpus) == data


def test_plain_columns_from_other_formats_and_back():
    corpus = read(CONLLU)
    corpus[0].labels[3] = "VERB"
    assert written(corpus, "conll", sep=";", columns=["label", "token", "xpos"]).startswith(
        b"PRON;I;PRP\nAUX;have;VBP\n"
    )
    plain = read(b"# sent_id = 7\na\tp\tX\n\n", "conll", columns=["form", "lemma", "ner"])
    assert written(plain, "conllu", label="misc") == (
        b"# sent_id = 7\n1\ta\tp\t_\t_\t_\t_\t_\t_\tX\n\n"
    )
    assert written(plain, "conll", sep=" ") == b"# sent_id = 7\na p X\n\n"


def test_files_are_joined_with_the_line_ends_they_lack():
    first, second = read(b"a X\r\nb Y", "conll"), read(b"c Z\n", "conll")
    assert written([*first, *second], "conll") == b"a X\r\nb Y\r\n\r\nc Z\n"
    assert written([*second, *first], "conll") == b"c Z\n\na X\r\nb Y"
    wider = read(b"d\tP\tZ\n", "conll")
    with raises(FormatError, where="sentence 1", expected="2 columns", found="3"):
        written([*first, *wider], "conll")


def _shorten_labels(s):
    s.labels = ["X"]


def _shorten_column(s):
    s.columns["0"] = ["a"]


def _empty(s):
    s.tokens, s.labels = [], []


def _unlabel(s):
    s.labels = None


def _break_token(s):
    s.tokens[1] = "b\nc"


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (_shorten_labels, {"where": "sentence 0", "expected": "2 labels", "found": "1"}),
        (_shorten_column, {"where": "sentence 0", "expected": "2 values in column '0'"}),
        (_empty, {"where": "sentence 0", "expected": "a token", "found": "none"}),
        (_unlabel, {"where": "sentence 0, token 0", "found": "None", "options": "unknown"}),
        (_break_token, {"where": "sentence 0, token 1", "found": r"'b\nc'"}),
    ],
)
def test_changes_that_columns_cannot_hold(change, fields):
    corpus = read(b"a X\nb Y\n", "conll")
    change(corpus[0])
    with raises(FormatError, **fields):
        written(corpus)


def test_a_sentence_with_more_tokens_than_it_was_read_with_is_written_anew():
    corpus = read(CONLLU)
    corpus[1].tokens, corpus[1].labels = ["New", "York"], ["PROPN", "PROPN"]
    assert written(corpus).endswith(
        b"1\tNew\t_\tPROPN\t_\t_\t_\t_\t_\t_\n2\tYork\t_\tPROPN\t_\t_\t_\t_\t_\t_\n\n"
        b"# trailing comment\n"
    )


def test_labels_get_a_column_where_the_file_has_none():
    corpus = read(b"# id = 1\nThey\nfish\n\nFish\n", "conll")
    labelled = corpus.with_labels([["PRP", "VBP"], ["NN"]])
    assert written(labelled) == b"# id = 1\nThey PRP\nfish VBP\n\nFish NN\n"
    assert written(labelled, sep="\t").startswith(b"# id = 1\nThey\tPRP\n")
    plus = read(b"# global.columns = ID FORM NER\n1\ta\tO\n\n")
    assert plus[0].labels is None
    with raises(FormatError, parameter="label", expected="FORM, NER", found="None"):
        written(plus.with_labels([["X"]]))
    assert written(plus.with_labels([["X"]]), label="NER").endswith(b"1\ta\tX\n\n")


def test_labels_may_go_to_another_column_of_the_same_file():
    out = written(read(CONLLU), "conllu", label="xpos")
    expected = CONLLU
    for upos, xpos in [
        ("PRON", "PRP"),
        ("AUX", "VBP"),
        ("PART", "RB"),
        ("_", "VBN"),
        ("PROPN", "NNP"),
    ]:
        expected = expected.replace(f"\t{upos}\t{xpos}\t".encode(), f"\t{upos}\t{upos}\t".encode())
    assert out == expected


def test_there_is_no_such_column_to_write():
    corpus = tl.Corpus([["a"]], [["X"]])
    with raises(FormatError, parameter="label", expected="id, form", found="'ner'"):
        written(corpus, "conllu", label="ner")
    with raises(FormatError, where="sentence 0", expected="token, label", found="'ner'"):
        written(corpus, "conll", columns=["token", "ner"])


WORDS = st.text(
    st.characters(exclude_characters="\t\r\n\0 ", exclude_categories=["Cs"]), min_size=1
)


@example([[("\ufeff", "0")]], " ")
@settings(deadline=None)  # other jobs may share the machine
@given(st.lists(st.lists(st.tuples(WORDS, WORDS), min_size=1), min_size=1), st.sampled_from("\t "))
def test_what_is_written_is_read_again(rows, sep):
    corpus = tl.Corpus([[w for w, _ in s] for s in rows], [[y for _, y in s] for s in rows])
    for sentence in corpus:  # a document mark is not a word
        sentence.tokens = [w.replace("-DOCSTART-", "d") for w in sentence.tokens]
    data = written(corpus, "conll", sep=sep)
    again = read(data, "conll", sep=sep, header=False, comment="")
    assert (again.tokens, again.labels) == (corpus.tokens, corpus.labels)
    data = written(corpus, "conllu")
    again = read(data, "conllu", unknown="\0")
    assert (again.tokens, again.labels) == (corpus.tokens, corpus.labels)


@settings(deadline=None)  # other jobs may share the machine
@given(st.binary(max_size=200) | st.text("ab\t \n\r#_-.12\0é", max_size=60).map(str.encode))
def test_any_bytes_are_read_and_given_back_or_are_one_clear_error(data):
    for format in (None, "conll", "conllu", "slash", "jsonl", "jsonl-spans"):
        try:
            corpus = read(data, format)
        except FormatError as error:
            message = str(error)
        else:
            message = "<file>"
            assert written(corpus) == data
        assert message.startswith("<file>")


@pytest.mark.parametrize(
    ("sentence", "where", "found"),
    [
        (["New York"], "sentence 0, token 0", "'New York'"),
        (tl.Sentence(["the", "-DOCSTART-"], ["D", "N"]), "sentence 0, token 1", "'-DOCSTART-'"),
    ],
)
def test_what_would_be_read_differently_is_not_written(tmp_path, sentence, where, found):
    with raises(FormatError, where=where, found=found):
        tl.write([sentence], tmp_path / "a.conll")
    assert not (tmp_path / "a.conll").exists()


@pytest.mark.parametrize("mark", ["-DOCSTART-", "-DOCSTART- (1 EU)", "-DOCSTART- -X- O\n"])
def test_a_row_that_begins_a_document_may_have_other_columns(mark):
    text = f"{mark}\nEU -X- _ B-ORG\nrejects -X- _ O\n\n{mark}\nGo -X- _ O\n"  # as Label Studio
    corpus = tl.read(io.StringIO(text))
    assert corpus.labels == [["B-ORG", "O"], ["O"]]
    assert [s.comments for s in corpus] == [[mark.strip()]] * 2
    out = io.BytesIO()
    tl.write(corpus, out)
    assert out.getvalue().decode() == text
    assert len(tl.read(io.StringIO(f"{mark}\n"), "conll")) == 0


def test_a_first_row_that_may_be_a_comment():
    text = "#\thttp://x\t[2009]\n1\tAuf\tO\tO\n"
    with raises(
        FormatError, where=":2", expected="3 columns as on line 1, which begins with #"
    ) as e:
        tl.read(io.StringIO(text))
    assert e.value.options == {"comment": "#"}
    assert tl.read(io.StringIO(text), comment="#", token=1).labels == [["O"]]
