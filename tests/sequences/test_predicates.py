"""Frames in JSON Lines: read, write back, and one line for each mistake."""

import io
import json

import pytest

from raising import raises
from tagloom.errors import FormatError, LabelError, SentenceError
from tagloom.sequences import Argument, FrameSentence, read_frames, write_frames

LINE = {
    "id": "a-1",
    "tokens": ["they", "eat", "fish"],
    "upos": ["PRON", "VERB", "NOUN"],
    "heads": [2, 0, 2],
    "deprels": ["nsubj", "root", "obj"],
    "frames": [
        {"predicate": 1, "roleset": "eat.01", "arguments": [[0, 1, "ARG0"]], "note": "x"},
    ],
}


def with_frame(**changes):
    frame = {"predicate": 1, "arguments": []} | changes
    return LINE | {"frames": [{k: v for k, v in frame.items() if v is not None}]}


def test_round_trip(tmp_path):
    """Unknown keys of sentences and frames are kept."""
    path = tmp_path / "a.jsonl"
    text = json.dumps(LINE) + "\n"
    path.write_text(text + "\n" + text)
    sentences = read_frames(path)
    assert len(sentences) == 2
    assert sentences[0].frames[0].arguments == (Argument(0, 1, "ARG0"),)
    out = io.BytesIO()
    write_frames(sentences, out)
    assert out.getvalue().decode() == text * 2


CASES = [
    (with_frame(predicate=None), "predicate", "frame 0"),
    (with_frame(predicate="eat"), "predicate", "'eat'"),
    (with_frame(predicate=3), "a predicate from 0 to 2", "3 in frame 0"),
    (with_frame(arguments=[[0, 4, "ARG0"]]), "end <= 3", "[0, 4, 'ARG0']"),
    (with_frame(arguments=[[2, 2, "ARG0"]]), "start < end", "[2, 2, 'ARG0']"),
    (with_frame(arguments=[[0, 1]]), "[start, end, role]", "[0, 1]"),
    (with_frame(roleset=7), "roleset", "7"),
    (LINE | {"heads": [2, 1, 2]}, "tree", "cycle"),
    (LINE | {"heads": [1, 0, 2]}, "tree", "cycle"),
    (LINE | {"heads": [2, 0, 9]}, "a head from 0 to 3", "9 in token 2"),
    (LINE | {"heads": [2, 0]}, "3 heads", "2"),
    (LINE | {"deprels": ["nsubj"]}, "3 strings in deprels", "1"),
    (LINE | {"tokens": "they eat fish"}, "tokens", "they eat"),
    (LINE | {"frames": None}, "frames", "None"),
    ([1], "an object", "list"),
]


@pytest.mark.parametrize(("value", "expected", "found"), CASES)
def test_mistakes(value, expected, found):
    text = json.dumps(LINE) + "\n" + json.dumps(value) + "\n"
    with raises(FormatError, expected=expected, found=found) as caught:
        read_frames(io.StringIO(text))
    assert caught.value.line == 2
    assert "\n" not in str(caught.value)


def test_not_json():
    with raises(FormatError, expected="JSON") as caught:
        read_frames(io.StringIO("{"))
    assert caught.value.line == 1


def test_plain_data():
    assert FrameSentence.of(LINE).to_dict() == LINE
    with raises(SentenceError, where="sentence 3"):
        FrameSentence.of(None, "sentence 3")
    with raises(LabelError, where="sentence 3, frame 0"):
        FrameSentence.of(with_frame(predicate=None), "sentence 3")
