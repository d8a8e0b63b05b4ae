"""Predicted labels on their way into files: relabelled streams, appended columns, promptness."""

import io
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError
from tagloom.sequences.corpora import relabel
from tagloom.sequences.files import CHUNK


def read(data, *args, **options):
    return tl.read(io.BytesIO(data), *args, **options)


def written(sentences, *args, **options):
    out = io.BytesIO()
    tl.write(sentences, out, *args, **options)
    return out.getvalue()


def number(batch):
    """Label each token with its place in the sentence."""
    return [s.with_labels([f"L{t}" for t in range(len(s))]) for s in batch]


# A file, and the same file with labels appended: comments, blank lines, line ends, odd blanks, a
# document mark, a header, a byte order mark, a missing last line end.
APPENDED = {
    "tabs": ("a\tX\nb\tY\n\nc\tX\n\n", "a\tX\tL0\nb\tY\tL1\n\nc\tX\tL0\n\n"),
    "blanks": ("a  X\nb   Y\n\n\nc X\n", "a  X L0\nb   Y L1\n\n\nc X L0\n"),
    "tabs and blanks": ("a \tX\nb\t Y\n", "a \tX\tL0\nb\t Y L1\n"),
    "blanks at the end": ("a X  \nb Y\t\n", "a X L0  \nb Y L1\t\n"),
    "one column": ("a\nb\n\nc\n", "a L0\nb L1\n\nc L0\n"),
    "comments": ("# id 1\na X\nb Y\n\n# id 2\nc X\n", "# id 1\na X L0\nb Y L1\n\n# id 2\nc X L0\n"),
    "no last line end": ("a X\nb Y", "a X L0\nb Y L1"),
    "windows": ("a X\r\nb Y\r\n\r\nc X\r\n", "a X L0\r\nb Y L1\r\n\r\nc X L0\r\n"),
    "documents": ("-DOCSTART- O\n\na X\n\n\n", "-DOCSTART- O\n\na X L0\n\n\n"),
    "header": ("word\tpos\r\na\tX\r\n", "word\tpos\tlabel\r\na\tX\tL0\r\n"),
    "header with a label": ("word\tlabel\na\tX\n", "word\tlabel\tlabel2\na\tX\tL0\n"),
    "letters": ("ß ü\n😀 é\n", "ß ü L0\n😀 é L1\n"),
    "nothing": ("", ""),
    "blank lines": ("\n\n", "\n\n"),
}


@pytest.mark.parametrize("name", APPENDED)
@pytest.mark.parametrize("labelled", [True, False])
def test_an_appended_column_leaves_the_others_byte_for_byte(name, labelled):
    before, after = (text.encode() for text in APPENDED[name])
    for mark in (b"", b"\xef\xbb\xbf"):
        file = io.BytesIO(mark + before)
        stream = tl.stream(file, "conll", labelled=labelled).through(number)
        assert written(stream, append=True) == mark + after
        corpus = read(mark + before, "conll", labelled=labelled)
        assert all(len(s.columns["0" if "0" in s.columns else "word"]) for s in corpus)  # parsed
        assert written(corpus.with_labels(s.labels for s in number(corpus)), append=True) == (
            mark + after
        )


def test_labels_of_conllu_go_to_their_column_also_when_appended():
    data = b"# c\n1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n1\ta\t_\tX\tP\t_\t_\t_\t_\t_\n\n"
    for options in ({}, {"append": True}):
        stream = tl.stream(io.BytesIO(data), "conllu", labelled=False).through(number)
        assert written(stream, **options) == data.replace(b"\tX\t", b"\tL0\t")
    stream = tl.stream(io.BytesIO(data), "conllu", label="xpos").through(number)
    assert written(stream) == data.replace(b"\tP\t", b"\tL0\t")
    with raises(FormatError, parameter="append", expected="CoNLL-U", found="'prob'"):
        written(read(data, "conllu"), append=["label", "prob"])


def test_further_columns_are_appended_too():
    def sure(batch):
        for sentence in number(batch):
            sentence.columns["prob"] = ["0.5"] * len(sentence)
            yield sentence

    for data, format, expected in [
        (b"a  X\nb  Y\n", "conll", b"a  X L0 0.5\nb  Y L1 0.5\n"),
        (b"a/X  b/Y\n", "slash", b"a/L0/0.5  b/L1/0.5\n"),
        (b"{\"tokens\": [\"a\"]}\n", "jsonl",
         b'{"tokens": ["a"], "labels": ["L0"], "prob": ["0.5"]}\n'),
    ]:  # fmt: skip
        stream = tl.stream(io.BytesIO(data), format, labelled=False).through(sure)
        assert written(stream, append=["label", "prob"]) == expected
    with raises(FormatError, where="sentence 0", expected="token, label", found="'prob'"):
        written(read(b"a X\n", "conll"), append=["label", "prob"])
    with raises(FormatError, parameter="append", found="'1'"):
        written(read(b"a X\n", "conll"), append=["label", "1"])
    with raises(FormatError, parameter="append", found="'label'"):
        written(read(b"a X\n", "conll"), append="label")


def test_a_replaced_label_changes_its_field_alone():
    data = b"# c\r\na  X  p \r\nb  Y  q\r\n\r\n"
    corpus = read(data, "conll", label=1)
    assert written(corpus) == data
    expected = data.replace(b" X ", b" L0 ").replace(b" Y ", b" L1 ")
    assert written(tl.stream(io.BytesIO(data), "conll", label=1).through(number)) == expected
    assert (
        written(read(data, "conll", label=1, labelled=False)) == data
    )  # there was nothing to write


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ("a b", "'a b'"),
        ("a\nb", r"'a\nb'"),
        ("", "''"),
        (None, "None (unknown)"),
        ({"A", "B"}, "one of {A,B}"),
    ],
)
@pytest.mark.parametrize("append", [True, False])
def test_a_label_that_cannot_be_written_says_where(label, found, append):
    corpus = read(b"a X\nb Y\n", "conll").with_labels([["A", label]])
    with raises(FormatError, where="sentence 0, token 1", found=found):
        written(corpus, append=append)


def test_a_token_that_would_become_a_comment_is_refused():
    corpus = read(b"a X p\nb Y q\n", "conll")
    corpus[0].tokens[0], corpus[0].columns["1"][0] = "-DOCSTART-", "Z"
    with raises(FormatError, where="sentence 0", hint="jsonl"):
        written(corpus)


fields = st.text("abü😀-#\u00a0", min_size=1, max_size=4)
blank = st.text(" \t", min_size=1, max_size=3)


@given(st.data())
def test_random_rows_keep_every_byte(data):
    """What is written without its new fields is what was read."""
    n = data.draw(st.integers(1, 3))
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    lines, marked = [], []
    for _ in range(data.draw(st.integers(1, 6))):
        row = "a" + data.draw(fields)  # no comment
        for _ in range(n - 1):
            row += data.draw(blank) + data.draw(fields)
        lead, trail = data.draw(st.text(" ", max_size=2)), data.draw(st.text(" \t", max_size=2))
        lines.append(lead + row + trail + end)
        marked.append((lead + row, trail + end))
        if data.draw(st.booleans()):
            lines.append(end)
            marked.append(("", end))
    raw = "".join(lines).encode()
    corpus = read(raw, "conll", sep=" ", labelled=False, comment="")
    out = written(corpus.with_labels(s.labels for s in number(corpus)),
                  append=True).decode()  # fmt: skip
    for before, after in marked:
        assert out.startswith(before)
        out = out[len(before) :]
        if before:
            assert out[0] in " \t"
            assert out[1] == "L"
            out = out[2:].lstrip("0123456789")
        assert out.startswith(after)
        out = out[len(after) :]
    assert out == ""


# Reading without labels.


def test_columns_are_named_although_the_labels_are_missing():
    names = ["word", "pos", "ner"]
    for data in (b"a X\nb Y\n", b"a X O\nb Y O\n"):
        corpus = read(data, "conll", columns=names, label="ner", labelled=False)
        assert corpus[0].columns["pos"] == ["X", "Y"]
        assert corpus[0].labels is None
    corpus = read(b"X a\n", "conll", columns=["ner", "pos", "word"], label=0, labelled=False)
    assert list(corpus[0].columns) == ["pos", "word"]
    with raises(FormatError, expected="3 columns", found="2 in"):
        read(b"a X\n", "conll", columns=names, label="ner")
    with raises(FormatError, expected="3 columns", found="1 in"):
        read(b"a\n", "conll", columns=names, label="ner", labelled=False)


def test_a_row_of_the_given_names_is_a_header():
    names = ["form", "kind", "answer"]
    for data in (b"form\tkind\tanswer\na\tX\tO\n", b"form\tkind\na\tX\n"):
        corpus = read(data, "conll", columns=names, label="answer", labelled=False)
        assert corpus.tokens == [["a"]]
    assert read(b"form\tkind\tanswer\na\tX\tO\n", "conll", columns=names).tokens == [["a"]]


def test_empty_or_missing_labels_do_not_matter_when_they_are_not_read():
    assert read(b"a\t\nb\tX\n", "conll", label=1, labelled=False).tokens == [["a", "b"]]
    with raises(FormatError, expected="a label", found="an empty one"):
        read(b"a\t\nb\tX\n", "conll", label=1)
    data = b'{"tokens": ["a"], "upos": ["X"], "tags": [1], "n": 5}\n'
    corpus = read(data, "jsonl", label="ner", labelled=False)
    assert (corpus[0].labels, corpus.label, written(corpus)) == (None, "ner", data)
    assert b'"n": 5, "ner": ["L0"]}\n' in written(corpus.with_labels([["L0"]]))
    assert read(data, "jsonl", labelled=False).tokens == [["a"]]  # two keys, neither is read
    assert read(b"a/X b/Y\n", "slash", labelled=False)[0].labels is None


def test_relabelled_json_keeps_blank_lines_and_line_ends():
    data = b'\n{"tokens": ["a"]}\r\n\n{"tokens": ["b"]}'
    stream = tl.stream(io.BytesIO(data), "jsonl", labelled=False).through(number)
    assert written(stream) == data.replace(b"]}", b'], "labels": ["L0"]}')


# Plain text.


def test_plain_text_is_read_and_written_with_or_without_tags():
    data = "\nThey  can fish.\n\n1/2 é\n".encode()
    corpus = read(data, "text")
    assert corpus.tokens == [["They", "can", "fish."], ["1/2", "é"]]
    assert corpus[0].labels is None
    assert written(corpus) == data
    stream = tl.stream(io.BytesIO(data), "text").through(number)
    assert written(stream, "slash") == "\nThey/L0  can/L1 fish./L2\n\n1/2/L0 é/L1\n".encode()
    with raises(FormatError, where="sentence 0", found="labels", options="format"):
        written(number(corpus), "text")
    with raises(FormatError, where="sentence 0, token 0", found="'New York'"):
        written([["New York"]], "text")


# Streams.


def test_through_keeps_what_stands_before_and_after_the_sentences():
    data = b"\xef\xbb\xbfword tag\n# c 1\n\na X\n\n# the end\n"
    stream = tl.stream(io.BytesIO(data), "conll", header=True).through(list).through(number)
    assert (stream.format, stream.label) == ("conll", "tag")
    assert written(stream) == data.replace(b"a X", b"a L0")
    assert written(tl.stream(io.BytesIO(b"a X\n\n# the end\n"), "conll").through(lambda b: [])) == (
        b"# the end\n"
    )


def test_batches_hold_all_sentences_once():
    data = b"a X\nb Y\n\n" * (CHUNK // 4)
    sizes = [len(batch) for batch in tl.stream(io.BytesIO(data), "conll").batches()]
    assert sum(sizes) == CHUNK // 4
    assert len(sizes) > 2
    stream = tl.stream(io.BytesIO(data), "conll")
    assert next(stream).tokens == ["a", "b"]
    assert sum(map(len, stream.batches())) == CHUNK // 4 - 1


def test_sentences_before_a_fault_are_delivered():
    for data, format in [
        (b"a X\n\nb\n", "conll"),
        (b"a/X\nb\n", "slash"),
        (b'{"tokens": ["a"]}\n{\n', "jsonl"),
        (b"a/X\nb\xff\n", "slash"),
    ]:
        stream = tl.stream(io.BytesIO(data), format)
        assert next(stream).tokens == ["a"]
        with pytest.raises(FormatError) as caught:
            next(stream)
        assert caught.value.line in (2, 3)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX pipes")
@pytest.mark.parametrize(
    ("format", "pieces"),
    [
        ("conll", [b"I X\n\n", b"They X\ncan", b" Y\n", b"\n", b"Fish X\n\n", b"a X"]),
        ("conllu", [b"1\tI\t_\t_\t_\t_\t_\t_\t_\t_\n\n"] * 3),
        ("text", [b"I\n", b"They can", b" fish\n", b"a"]),
        ("jsonl", [b'{"tokens": ["I"]}\n'] * 3),
    ],
)
def test_a_sentence_is_delivered_as_soon_as_it_is_there(format, pieces):
    """Whoever writes a sentence into a pipe gets it back before writing the next one."""
    end, start = os.pipe()
    whole = 0
    with open(end, "rb") as file, open(start, "wb", buffering=0) as out:
        out.write(pieces[0])
        timer = threading.Timer(20, lambda: os.close(start))  # a reader that waits gets an end
        timer.start()
        stream = tl.stream(file, format, labelled=False)
        assert next(stream).tokens == ["I"]
        timer.cancel()
        for piece in pieces[1:]:
            out.write(piece)
            ends = piece.endswith(b"\n\n") or (piece == b"\n" and format == "conll")
            if ends or (format in ("text", "jsonl") and piece.endswith(b"\n")):
                whole += 1
                next(stream)
        out.close()
        whole += sum(1 for _ in stream)
    assert whole == len(tl.read(io.BytesIO(b"".join(pieces)), format, labelled=False)) - 1


# ---- the short way of `tagloom tag`


def label_all(batch):
    return [[f"L{len(token)}" for token in tokens] for tokens in batch]


CONLLU_ROW = "{}\t{}\t_\tX\t_\t_\t_\t_\t_\t_\n"
FILES = {
    "plain": ("conll", "They\nfish\n\nFish\nswim\n"),
    "columns": ("conll", "They  x\ncan\ty \r\nfish  z \n \n\n# id = 2\nPlease  x\nbook  y"),
    "mark of byte order": ("conll", "\ufeffThey x\n\n\nfish y\n\n\n"),
    "two marks": ("conll", "\ufeff\ufeffThey x\n"),
    "documents": ("conll", "-DOCSTART- x\n\nThey x\n\n-DOCSTART- x\n\nfish y\n"),
    "header": ("conll", "token\tlemma\r\nThey\tthey\r\n\r\nÉtés\tété\r\n"),
    "empty": ("conll", ""),
    "blank": ("conll", "\n\n  \n"),
    "header only": ("conll", "token\tlemma\n"),
    "conllu": (
        "conllu",
        "# text = du é\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n"
        + CONLLU_ROW.format(1, "de")
        + CONLLU_ROW.format(2, "le")
        + CONLLU_ROW.format("2.1", "é")
        + "\n\n# end\n"
        + CONLLU_ROW.format(1, "fin"),
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("label", [None, -1])
def test_relabel_writes_what_write_writes(name, append, label):
    format, text = FILES[name]
    if format == "conllu" and label == -1:
        label = "xpos"

    def stream():
        file = io.BytesIO(text.encode())
        return tl.stream(file, format, labelled=False, label=label)

    def labelled(batch):
        return map(tl.Sentence.with_labels, batch, label_all([s.tokens for s in batch]))

    expected, found = io.BytesIO(), io.BytesIO()
    tl.write(stream().through(labelled), expected, append=append)
    assert relabel(stream(), found, label_all, ["L1", "L2"], append=append)
    assert found.getvalue() == expected.getvalue()


def test_relabel_leaves_the_rest_to_write():
    def stream(text="They x\n", format="conll", **options):
        return tl.stream(io.BytesIO(text.encode()), format, labelled=False, **options)

    out = io.BytesIO()
    assert not relabel(stream("They\n", "text"), out, label_all, ["L"])
    assert not relabel(stream(), out, label_all, ["a label"], append=True)
    assert not relabel(stream(), out, label_all, [""], append=True)
    assert not relabel(stream(), out, label_all, ["L"], append=["label", "prob"])
    row = CONLLU_ROW.format(1, "de")
    assert not relabel(stream(row, "conllu", label="upos+feats"), out, label_all, ["L"])
    assert out.getvalue() == b""


def test_relabel_names_the_faulty_row_after_writing_what_stands_before():
    text = "They x\n\n" * 3 + "fish\n\nThey x\n"
    out = io.BytesIO()
    stream = tl.stream(io.BytesIO(text.encode()), "conll", labelled=False)
    with raises(FormatError, where="<file>:7", expected="2 columns", found="1 in"):
        relabel(stream, out, label_all, ["L4"], append=True)
    assert out.getvalue() == b"They x L4\n\n" * 3


@pytest.mark.parametrize(
    "labels", [[], [["L"]], [["L", "L"], []], [["L", None]], [("L", "L")], [["L", "a b"]], None]
)
def test_relabel_takes_one_label_per_token(labels):
    stream = tl.stream(io.BytesIO(b"They x\ncan y\n"), "conll", labelled=False)
    with pytest.raises(ValueError, match="one str per token"):
        relabel(stream, io.BytesIO(), lambda batch: labels, ["L"], append=True)
