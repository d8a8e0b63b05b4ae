"""JSON arrays and the annotations of other tools: Hugging Face, spaCy, doccano, Label Studio."""

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tagloom as tl
from raising import raises
from tagloom.errors import FormatError
from tagloom.sequences.arrays import Elements
from tagloom.sequences.files import Input

NAMES = ["O", "B-PER", "I-PER"]
TASK = {
    "id": 7,
    "data": {"text": "Ann Lee left Oslo."},
    "annotations": [
        {"was_cancelled": True, "result": []},
        {
            "id": 1,
            "result": [
                {
                    "id": "x1",
                    "from_name": "ner",
                    "to_name": "text",
                    "type": "labels",
                    "value": {"start": 0, "end": 7, "text": "Ann Lee", "labels": ["PER"]},
                },
                {"type": "relation", "from_id": "x1", "to_id": "x1"},
            ],
        },
    ],
}


def read(text, **options):
    data = text if isinstance(text, str) else json.dumps(text)
    return tl.read(io.BytesIO(data.encode()), **options)


def written(corpus, *args, **options):
    out = io.BytesIO()
    tl.write(corpus, out, *args, **options)
    return out.getvalue().decode()


# ---- Hugging Face ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_array", [False, True])
def test_numbers_become_names_and_numbers_again(is_array):
    rows = [{"id": "0", "tokens": ["Ann", "left"], "ner_tags": [1, 0]}]
    rows.append({"id": "1", "tokens": ["Lee"], "ner_tags": [-100]})
    text = json.dumps(rows) if is_array else "".join(json.dumps(row) + "\n" for row in rows)
    corpus = read(text, label_names=NAMES)
    assert corpus.format == ("json" if is_array else "jsonl")
    assert corpus.labels == [["B-PER", "O"], [None]]
    assert written(corpus) == text
    corpus[1].labels = ["I-PER"]
    assert written(corpus) == text.replace("-100", "2")
    corpus[1].labels = ["B-LOC"]
    with raises(FormatError, where="sentence 1", parameter="label_names", expected="'B-LOC'"):
        written(corpus)


@pytest.mark.parametrize(
    "info",
    [
        {"features": {"ner_tags": {"feature": {"names": NAMES, "_type": "ClassLabel"}}}},
        {"features": {"ner_tags": {"feature": {"names": NAMES}}, "pos": {"names": ["N"]}}},
        {"default": {"features": {"ner_tags": {"names": NAMES}}}},
        {"names": NAMES, "_type": "ClassLabel"},
        {"id2label": {"0": "O", "1": "B-PER", "2": "I-PER"}},
        NAMES,
    ],
)
def test_names_from_a_file_and_from_an_object(tmp_path, info):
    path = tmp_path / "dataset_info.json"
    path.write_text(json.dumps(info))
    for names in (path, str(path), info):
        corpus = read([{"tokens": ["Ann"], "ner_tags": [1]}], label_names=names)
        assert corpus.labels == [["B-PER"]]


def test_names_from_a_class_label():
    class ClassLabel:
        names = NAMES

    class Sequence:
        feature = ClassLabel()

    for names in (ClassLabel(), Sequence()):
        assert read([{"tokens": ["a"], "ner_tags": [2]}], label_names=names).labels == [["I-PER"]]


def test_mistakes_about_numbers():
    rows = [{"tokens": ["a"], "ner_tags": [0]}, {"tokens": ["a"], "ner_tags": [3]}]
    with raises(FormatError, where="<file>:1", found="0", hint="label_names"):
        read(rows)
    with raises(FormatError, where="<file>:1", expected="from 0 to 2", found="3"):
        read(rows, label_names=NAMES)
    with raises(FormatError, parameter="label_names", expected="'ner_tags'"):
        read(rows, label_names={"names": 3})


# ---- spaCy, doccano, Label Studio --------------------------------------------------------------


def test_names_that_occur_twice():
    with raises(FormatError, parameter="label_names", expected="different names"):
        read([{"tokens": ["a"], "ner_tags": [1]}], label_names=["O", "X", "X"])


def test_pairs_of_spacy():
    text = (
        '[\n  ["Ann Lee left.", {"entities": [[0, 7, "PER"]]}],\n  ["Oslo", {"entities": []}]\n]\n'
    )
    corpus = read(text)
    assert corpus.format == "spacy"
    assert corpus[0].labels == ["B-PER", "I-PER", "O", "O"]
    assert (corpus[1].line, corpus[1].offsets) == (3, [(0, 4)])
    assert written(corpus) == text
    corpus[1].labels = ["B-LOC"]
    assert json.loads(written(corpus))[1] == ["Oslo", {"entities": [[0, 4, "LOC"]]}]


def test_both_generations_of_doccano():
    old = '{"id": 1, "text": "Ann left", "label": [[0, 3, "PER"]]}\n'
    entity = {"id": 4, "label": "PER", "start_offset": 0, "end_offset": 3}
    new = json.dumps({"id": 1, "text": "Ann left", "relations": [], "entities": [entity]}) + "\n"
    for text in (old, new):
        corpus = read(text)
        assert (corpus.format, corpus.labels) == ("jsonl-spans", [["B-PER", "O"]])
        assert written(corpus) == text
    corpus[0].labels = ["B-PER", "B-X"]
    spans = json.loads(written(corpus))["entities"]
    assert spans == [entity, {"label": "X", "start_offset": 4, "end_offset": 8}]


def test_tasks_of_label_studio():
    corpus = read([TASK])
    assert corpus.format == "label-studio"
    assert corpus[0].labels == ["B-PER", "I-PER", "O", "O", "O"]
    assert json.loads(written(corpus)) == [TASK]
    corpus[0].labels[3] = "B-LOC"
    result = json.loads(written(corpus))[0]["annotations"][1]["result"]
    assert result[0] == TASK["annotations"][1]["result"][0]
    assert result[1]["value"] == {"start": 13, "end": 17, "text": "Oslo", "labels": ["LOC"]}
    assert result[1]["from_name"] == "ner"
    assert result[2]["type"] == "relation"


def test_text_under_a_name_of_its_own():
    region = {"type": "labels", "value": {"start": 0, "end": 3, "labels": ["PER"]}}
    task = {"data": {"review": "Ann left", "stars": 4}, "annotations": [{"result": [region]}]}
    assert read([task]).labels == [["B-PER", "O"]]
    with raises(FormatError, expected="'text'", hint="token"):
        read([task | {"data": {"review": "Ann left", "author": "Bo"}}])


def test_a_task_with_two_annotations():
    region = {"type": "labels", "value": {"start": 0, "end": 3, "labels": ["PER"]}}
    annotations = [{"was_cancelled": True}, {"result": [region]}, {"result": []}]
    task = {"data": {"text": "Ann left"}, "annotations": annotations}
    corpus = tl.read(io.StringIO(json.dumps([task])))
    assert corpus.labels == [["B-PER", "O"]]
    assert [p.partition(": ")[2] for p in corpus.problems] == [
        "2 annotations of one task; the first is read."
    ]


def test_json_min_of_label_studio():
    label = {"start": 0, "end": 3, "text": "Ann", "labels": ["PER"]}
    corpus = read([{"id": 1, "text": "Ann left", "label": [label]}])
    assert (corpus.format, corpus.labels) == ("json-spans", [["B-PER", "O"]])


@pytest.mark.parametrize("format", ["json", "json-spans", "spacy", "label-studio"])
def test_new_arrays_are_read_again(format, tmp_path):
    corpus = tl.Corpus([["Ann", "left"], ["Oslo"]], [["B-PER", "O"], ["B-LOC"]])
    tl.write(corpus, tmp_path / "a.json", format)
    again = tl.read(tmp_path / "a.json")
    assert (again.format, again.tokens, again.labels) == (format, corpus.tokens, corpus.labels)
    assert json.loads(written(again[:1], format))
    assert json.loads(written(tl.Corpus([]), format)) == []
    assert len(read(written(tl.Corpus([]), format), format=format)) == 0


def test_a_tokenizer_object():
    text = [["don't", {"entities": []}]]
    assert read(text).tokens == [["do", "n't"]]
    assert read(text, tokenize=tl.Tokenizer("whitespace")).tokens == [["don't"]]


@pytest.mark.parametrize(
    ("text", "line", "expected", "found"),
    [
        ('[\n{"tokens": ["a"]}\n{"tokens"', 3, "a comma or ]", "column 1"),
        ('[\n{"tokens": ["a" "b"]}]', 2, "valid JSON", "column 17"),
        ('[{"tokens": ["a"]}', 1, "a comma or ]", "the end of the file"),
        ('[{"tokens": ["a"]}] x', 1, "nothing after the array", "'x' at column 21"),
        ('[{"tokens": ["a"]},', 1, "valid JSON", "the end of the file at column 20"),
        ('{\n"tokens": ["a"]\n}', 1, "one JSON object on each line", "'{'"),
        ('["a", {}]\n["b", {}]', 1, "one array of all pairs", "an array on a line"),
        ('{"text": "a", "annotations": [{"label": 3}]}', 1, "a span such as", "{'label': 3}"),
        ('[["a", {}],\n\n["b"]]', 3, "a pair such as", '["b"]'),
        ('[{"data": {"text": "a"}},\n{"data": 3}]', 2, "a task such as", "3"),
        ('[["a", {"entities": [[0, "x"]]}]]', 1, "a span such as", "[0, 'x']"),
        ('[{"tokens": ["\\ud800"]}]', 1, "whole characters", "surrogate"),
    ],
)
def test_mistakes_have_their_place(text, line, expected, found):
    with raises(FormatError, where=f"<file>:{line}", expected=expected, found=found):
        read(text)


def test_mistakes_that_a_guess_finds():
    with raises(FormatError, expected="one array of all tasks", found="a task on a line"):
        read('{"data": {"text": "a"}, "annotations": []}\n')
    with raises(FormatError, expected="valid JSON", found="while decoding a JSON array"):
        read('{"tokens": ' + "[" * 100_000)
    with raises(FormatError, hint="into one array, or on one line each"):
        read('{\n"data": [\n')


def test_a_byte_that_is_not_utf8():
    with raises(FormatError, where="<file>:2", found="0xE9 at offset 18"):
        tl.read(io.BytesIO(b'[{"tokens": ["a",\n\xe9"]}]'), "json")


def test_one_long_line_is_read_as_it_is_needed():
    file = io.BytesIO(json.dumps([{"tokens": ["word"] * 50, "labels": ["X"] * 50}] * 2000).encode())
    assert len(next(tl.stream(file))) == 50
    assert file.tell() < len(file.getvalue()) / 2


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.dictionaries(st.text(max_size=3), values, max_size=3), max_size=5),
    st.integers(1, 9),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_elements_are_those_of_the_json_module(rows, chunk, indent, is_ascii):
    text = json.dumps(rows, indent=indent, ensure_ascii=is_ascii)
    data = text.encode("utf-8", "surrogatepass")

    class Slow(io.BytesIO):
        def read1(self, size=-1):
            return super().read1(chunk)

    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return
    elements = Elements(Input(Slow(data)))
    found = [element for batch in elements for element in batch]
    assert [element.value for element in found] == rows
    joined = b"".join(element.before * (i > 0) + element.raw for i, element in enumerate(found))
    assert elements.head + joined + elements.tail == data
    for element in found:
        assert text.split("\n")[element.line - 1].strip().startswith(("{", "[{"))
