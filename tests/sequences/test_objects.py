"""JSON lines: partial labels, keys that are kept, character spans to BIO and back."""

import io
import json
import logging
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError
from tagloom.sequences import word_offsets


def read(*objects, **options):
    data = "".join(x if isinstance(x, str) else json.dumps(x) + "\n" for x in objects)
    return tl.read(io.BytesIO(data.encode()), **options)


def written(corpus, *args, **options):
    out = io.BytesIO()
    tl.write(corpus, out, *args, **options)
    return out.getvalue().decode()


def test_a_label_may_be_null_or_an_array():
    corpus = read({"tokens": ["a", "b", "c"], "labels": ["X", None, ["Y", "X"]]})
    assert corpus.format == "jsonl"
    assert corpus.labels == [["X", None, frozenset({"X", "Y"})]]
    fresh = tl.Corpus(corpus.tokens, corpus.labels)
    assert json.loads(written(fresh, "jsonl"))["labels"] == ["X", None, ["X", "Y"]]


def test_what_is_not_understood_is_kept():
    line = '{ "id": 7,"tokens":["a"] , "x": {"y": [1.50, "\\u00fc"]}, "tags": ["X"] }\r\n'
    corpus = read("\n", line, "\n")
    assert (corpus.label, corpus[0].line_of(0)) == ("tags", 2)
    assert written(corpus) == "\n" + line + "\n"
    corpus[0].labels = ["Z"]
    assert json.loads(written(corpus)) == {
        "id": 7,
        "tokens": ["a"],
        "x": {"y": [1.5, "ü"]},
        "tags": ["Z"],
    }


def test_other_lists_are_columns():
    corpus = read({"words": ["a", "b"], "pos": ["N", "V"], "ner_tags": ["O", "O"], "n": [1, 2]})
    assert corpus[0].columns == {"words": ["a", "b"], "pos": ["N", "V"], "ner_tags": ["O", "O"]}
    assert corpus.label == "ner_tags"
    corpus[0].columns["pos"][0] = "X"
    assert json.loads(written(corpus))["pos"] == ["X", "V"]


def test_two_keys_that_may_be_labels_need_a_choice():
    sentence = {"tokens": ["a"], "pos_tags": ["N"], "ner_tags": ["O"]}
    with raises(FormatError, found="'ner_tags' and 'pos_tags'") as caught:
        read(sentence)
    assert caught.value.options == {"label": "ner_tags"}
    assert read(sentence, label="pos_tags").labels == [["N"]]


def test_a_key_that_is_named_must_be_there():
    with raises(FormatError, parameter="label", expected="tokens, tags", found="'ner'"):
        read({"tokens": ["a"], "tags": ["X"]}, label="ner")


def test_sentences_without_labels():
    corpus = read({"tokens": ["a"], "labels": None}, {"tokens": []})
    assert [s.labels for s in corpus] == [None, None]
    assert corpus.tokens == [["a"], []]


@pytest.mark.parametrize(
    ("line", "expected", "found"),
    [
        ('{"tokens": ["a"]', "one JSON object", "wrong at column"),
        ('{"tokens": "a b"}', "a list of strings under 'tokens'", "'a b'"),
        ('{"tokens": ["a", 3]}', "a list of strings", "3"),
        ('{"text": "a"}', "a list of strings under 'tokens'", "None"),
        ('["a"]', "an object", "a"),
        ('{"tokens": ["a"], "labels": []}', "a list of 1 labels", "[]"),
        ('{"tokens": ["a"], "labels": [3]}', "label 0", "3"),
        ('{"tokens": ["a"], "labels": [[]]}', "label 0", "[]"),
        ('{"tokens": ["\\ud800"]}', "whole characters", "half of a surrogate pair"),
        ("[" * 100_000, "valid JSON", "[["),
        ('{"tokens": ["a"], "n": ' + "1" * 5000 + "}", "valid JSON", "111"),
        ('{"tokens": ["a\0"]}', "UTF-8", "byte 0x00"),
    ],
)
def test_faults(line, expected, found):
    with raises(FormatError, where="<file>:2", expected=expected, found=found):
        read({"tokens": ["ok"], "labels": ["X"]}, line)


TEXT = "Ann Lee saw Zoë's Paris-Nord."


def test_spans_become_bio_and_offsets_are_kept():
    spans = [[0, 7, "PER"], {"start": 12, "end": 15, "label": "PER"}, [18, 28, "LOC"]]
    corpus = read({"text": TEXT, "spans": spans})
    assert corpus.format == "jsonl-spans"
    (s,) = corpus
    assert s.tokens == ["Ann", "Lee", "saw", "Zoë", "'s", "Paris", "-", "Nord", "."]
    assert s.labels == [
        *("B-PER", "I-PER", "O", "B-PER", "O", "B-LOC", "I-LOC", "I-LOC", "O"),
    ]
    assert [s.text[begin:end] for begin, end in s.offsets] == s.tokens
    assert corpus.problems == []


@pytest.mark.parametrize(
    ("span", "labels", "problem"),
    [
        ([0, 2, "X"], [None, "O"], r"<file>:1: span 0:2 'X' \('An'\) cuts the token 'Ann' \(0:3\)"),
        ([1, 7, "X"], [None, None], "cuts the token 'Ann'"),
        ([3, 7, "X"], ["O", "B-X"], r"span 3:7 'X' \(' Lee'\) is read as 4:7, its tokens"),
        ([3, 4, "X"], ["O", "O"], "contains no token"),
        ([0, 8, "X"], ["O", "O"], "outside the text of 7 characters"),
        ([3, 3, "X"], ["O", "O"], "empty or outside"),
        ([-3, 3, "X"], ["O", "O"], "empty or outside"),
    ],
)
def test_spans_that_do_not_fit_are_reported(span, labels, problem, caplog):
    line = json.dumps({"text": "Ann Lee", "spans": [span]}) + "\n"
    corpus = read(line)
    assert corpus.labels == [labels]
    assert len(corpus.problems) == 1
    assert repr(corpus).endswith("1 problem)")
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(corpus.problems[0])
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert "1 problem, the first: " in caplog.text
    assert written(corpus) == line  # nothing is lost


def test_overlapping_spans_are_reported():
    corpus = read({"text": "a b c d", "spans": [[2, 5, "Y"], [0, 3, "X"]]})
    assert corpus.labels == [["B-X", "I-X", None, "O"]]
    assert "span 2:5 'Y' ('b c') overlaps an earlier one" in corpus.problems[0]


@pytest.mark.parametrize("format", [None, "jsonl-spans"])
def test_the_text_may_be_under_data(format):
    corpus = read({"id": 1, "data": "EU left", "label": [[0, 2, "ORG"]]}, format=format)
    assert corpus.tokens == [["EU", "left"]]
    assert corpus.labels == [["B-ORG", "O"]]
    corpus[0].labels = ["O", "O"]
    assert json.loads(written(corpus)) == {"id": 1, "data": "EU left", "label": []}
    array = [{"data": "EU left", "label": [[0, 2, "ORG"]]}]
    assert tl.read(io.StringIO(json.dumps(array))).labels == [["B-ORG", "O"]]


@pytest.mark.parametrize("answer", ["reject", "ignore"])
def test_answers_that_are_not_accepted_are_unknown(answer, caplog):
    rows = [{"text": "EU left", "spans": [[0, 2, "ORG"]], "answer": x} for x in ("accept", answer)]
    with caplog.at_level(logging.WARNING):
        corpus = read(*rows)
        assert corpus.labels == [["B-ORG", "O"], [None, None]]
    assert f"2: the answer is {answer!r}" in caplog.text
    assert [json.loads(line) for line in written(corpus).splitlines()] == rows


def test_changed_labels_change_the_spans_and_keep_the_rest():
    value = {
        "text": TEXT,
        "entities": [
            {"start": 0, "end": 7, "label": "PER", "id": 1},
            {"start": 13, "end": 15, "label": "CUT", "id": 2},
        ],
        "meta": 1,
    }
    corpus = read(value)
    corpus[0].labels[5] = "B-LOC"
    assert json.loads(written(corpus)) == {
        **value,
        "entities": [*value["entities"], {"start": 18, "end": 23, "label": "LOC"}],
    }
    corpus = read({"text": TEXT, "label": [[0, 3, "PER"]]})
    corpus[0].labels[1] = "I-PER"
    assert json.loads(written(corpus)) == {"text": TEXT, "label": [[0, 7, "PER"]]}


def test_labels_may_go_under_another_key():
    corpus = read({"id": 1, "tokens": ["a"], "tags": ["X"]})
    assert json.loads(written(corpus, "jsonl", label="ner")) == {
        "id": 1,
        "tokens": ["a"],
        "ner": ["X"],
    }


def test_tokens_that_are_not_those_of_the_text():
    corpus = read({"text": "Ann left", "spans": []})
    corpus[0].tokens[0] = "Bo"
    with raises(FormatError, where="sentence 0", expected="['Ann'", found="['Bo'"):
        written(corpus)
    assert json.loads(written(corpus, "jsonl"))["tokens"] == ["Bo", "left"]


def test_tokens_become_text_with_spans():
    corpus = tl.Corpus([["Ann", "Lee", "saw", "Bo"]], [["B-PER", "I-PER", "O", "I-PER"]])
    value = json.loads(written(corpus, "jsonl-spans"))
    assert value["text"] == "Ann Lee saw Bo"
    assert [(s["start"], s["end"], s["label"]) for s in value["spans"]] == [
        (0, 7, "PER"),
        (12, 14, "PER"),
    ]
    with raises(FormatError, where="sentence 0, token 0", expected="BIO", found="'NOUN'"):
        written(tl.Corpus([["a"]], [["NOUN"]]), "jsonl-spans")


def test_a_tokenizer_of_the_users_own():
    def by_blanks(text):
        begin = 0
        for word in text.split(" "):
            yield begin, begin + len(word)
            begin += len(word) + 1

    corpus = read({"text": "Ann's hat", "spans": []}, tokenize=by_blanks)
    assert corpus.tokens == [["Ann's", "hat"]]
    with raises(FormatError, where=":1", parameter="tokenize", found="0:1 after 1"):
        read({"text": "ab", "spans": []}, tokenize=lambda text: [(0, 1), (0, 1)])


@pytest.mark.parametrize(
    "span", [[0, 1], [0, 1, 3], ["0", 1, "X"], {"start": 0}, 3, [0, True, "X"]]
)
def test_what_is_not_a_span(span):
    with raises(FormatError, where=":1", expected="a span"):
        read({"text": "ab", "spans": [span]})


@settings(deadline=None)  # other jobs may share the machine
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_tokens_are_the_text_without_its_blanks(text):
    offsets = word_offsets(text)
    assert "".join(text[b:e] for b, e in offsets) == "".join(text.split())
    assert all(e <= b for (_, e), (b, _) in pairwise(offsets))


@settings(deadline=None)  # other jobs may share the machine
@given(st.data())
def test_aligned_spans_survive_labels(data):
    words = data.draw(st.lists(st.sampled_from(["Ann", "ü", "-", "x1"]), min_size=1, max_size=8))
    text = " ".join(words)
    offsets = word_offsets(text)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(offsets)))))
    spans = [
        [offsets[i][0], offsets[j - 1][1], data.draw(st.sampled_from("XY"))]
        for i, j in pairwise(cuts)
    ]
    corpus = read({"text": text, "spans": spans})
    assert corpus.problems == []
    fresh = tl.Sentence(
        corpus[0].tokens, corpus[0].labels, text=corpus[0].text, offsets=corpus[0].offsets
    )
    value = json.loads(written([fresh], "jsonl-spans"))
    assert [[s["start"], s["end"], s["label"]] for s in value["spans"]] == spans


def test_tokens_survive_a_round_trip_through_spans():
    """Also tokens that a tokenizer would cut or join."""
    tokens = [["London,", "U", ".", "S.", "can't", "go"], ["a b", "--x", "3", ".", "5"]]
    labels = [["B-LOC", "O", "O", "O", "O", "O"], ["B-X", "I-X", "O", "O", "O"]]
    line = written(tl.Corpus(tokens, labels), "jsonl-spans")
    assert (read(line).tokens, read(line).labels) == (tokens, labels)
    assert written(read(line)) == line


def test_tokens_of_a_text_survive_a_change_of_format():
    """Those that another format listed, that a tokenizer found, or that were changed by hand."""
    value = {"text": "a-b can't", "tokens": [[0, 3], [4, 9]], "spans": [[0, 3, "X"]]}
    corpus = read(value)
    array = tl.read(io.StringIO(written(corpus, "json-spans")))
    assert (array.format, array.tokens) == ("json-spans", corpus.tokens)
    assert read(written(array, "jsonl-spans")).tokens == [["a-b", "can't"]]
    blanks = tl.Tokenizer("whitespace")
    corpus = tl.read(io.StringIO('[["a-b can\'t", {"entities": []}]]'), tokenize=blanks)
    assert read(written(corpus, "jsonl-spans")).tokens == [["a-b", "can't"]]
    corpus = read({"text": "a-b can't", "spans": []}, tokenize=blanks)
    corpus[0].labels[0] = "B-X"
    assert read(written(corpus)).labels == [["B-X", "O"]]


def test_tokens_are_not_listed_where_rules_find_them():
    line = written(tl.Corpus([["Ann", "left", "."]], [["B-PER", "O", "O"]]), "jsonl-spans")
    assert set(json.loads(line)) == {"text", "spans"}


def test_listed_tokens_are_used():
    value = {"text": "a-b c", "tokens": [[0, 3], [4, 5]], "spans": [[0, 3, "X"]]}
    corpus = read(value)
    assert (corpus.format, corpus.tokens) == ("jsonl-spans", [["a-b", "c"]])
    value["tokens"] = [{"text": "a", "start": 0, "end": 1, "id": 0}, {"start": 1, "end": 5}]
    assert read(value, tokenize=word_offsets).tokens == [["a", "-b c"]]
    value["tokens"] = [[0, 3], [2, 9]]
    with raises(FormatError, where=":1", expected="tokens in order", found="2:9 after 3"):
        read(value)


def test_a_tokenizer_splits_documents_and_writing_joins_them():
    value = {"text": "Ann left. Bob Lee. Jr. came.", "spans": [[10, 22, "PER"]], "id": 7}
    corpus = read(value, {"text": " ", "spans": []}, tokenize=tl.Tokenizer())
    assert [s.tokens[:2] for s in corpus] == [["Ann", "left"], ["Bob", "Lee"], []]
    assert corpus[1].labels == ["B-PER", "I-PER", "I-PER", "I-PER", "O", "O"]
    assert [json.loads(line) for line in written(corpus).splitlines()] == [
        value,
        {"text": " ", "spans": []},
    ]
    corpus[0].labels[0] = "B-PER"
    changed = json.loads(written(corpus).splitlines()[0])
    assert changed["spans"] == [[0, 3, "PER"], [10, 22, "PER"]]
    assert changed["id"] == 7


def test_raw_text_of_conllu_is_kept_in_spans():
    rows = "# text = Go!\n1\tGo\t_\tB-X\t_\t_\t_\t_\t_\tSpaceAfter=No\n2\t!\t_\tO" + "\t_" * 6
    corpus = tl.read(io.StringIO(rows + "\n\n"), "conllu")
    assert json.loads(written(corpus, "jsonl-spans"))["text"] == "Go!"
