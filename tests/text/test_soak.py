"""Texts of 100 MB on one line: bounded memory, linear time; run by `make soak-text`."""

import resource
import time

import pytest

import tagloom as tl

UNITS = {
    "words": "They can't fish, he said. ",
    "one sentence": "abc def ",
    "no blanks": "a.",
    "one word": "a",
    "blanks": " ",
    "mixed": "नमस्ते, 你好。 e\u0301\x00\u200b :-) 👩‍💻 ",
}


@pytest.mark.soak
@pytest.mark.parametrize("name", UNITS)
def test_a_line_of_100_megabytes(name):
    text = UNITS[name] * (100_000_000 // len(UNITS[name]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB
    began, characters = time.process_time(), 0
    for sentence in tl.Tokenizer().stream(text):
        characters += sum(map(len, sentence.tokens))
        start, end = sentence.offsets[-1]
        assert text[start:end] == sentence.tokens[-1]
    seconds = time.process_time() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{name}: {seconds:.0f} s, {grown:.0f} MB more")
    assert characters == sum(not c.isspace() for c in UNITS[name]) * (len(text) // len(UNITS[name]))
    assert grown < 1000
    assert seconds < 300
