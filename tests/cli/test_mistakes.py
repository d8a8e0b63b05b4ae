"""What a new user gets wrong, and what they are told: where, what was found, what to do next.

Each is one line, and nothing is lost: no file is made, changed or half written. docs/errors.md has
the same cases for readers.
"""

import gc
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import tagloom as tl
from tagloom.cli import main
from tagloom.errors import (
    FormatError,
    LabelError,
    ModelFileError,
    NotFittedError,
    ParameterError,
    SchemeError,
    SentenceError,
    ShapeError,
    TagloomError,
    TemplateError,
)

NER = "Ann B-PER\nLee I-PER\nsaw O\nOslo B-LOC\n\nBo B-PER\nslept O\n\n"
FILES = {
    "ner.conll": NER,
    "pos.conll": "They PRON B-NP\ncan AUX B-VP\nfish VERB I-VP\n\n",
    "mixed.conll": NER + "Ann B-PER\nLee E-PER\n\nOslo S-LOC\n\n",
    "empty.conll": "",
    "blank.conll": "\n\n\n",
    "words.conll": "They\ncan\nfish\n\n",
    "dev.conll": "Ann B-PER\nsaw O\nNATO B-ORG\n\n",
    "words.tsv": "".join(f"w{i}\tN\n" for i in range(120)),
    "words.jsonl": '{"tokens": ["a", "b"]}\n',
    "latin.conll": "Zoë B-PER\nsaw O\n\n".encode("latin-1"),
    "utf16.conll": NER.encode("utf-16"),
    "crlf.conll": NER.replace("\n", "\r\n"),
    "bom.conll": b"\xef\xbb\xbf" + NER.encode(),
    "table.csv": "word,tag\nAnn,B-PER\nslept\n",
    "tiny.txt": "They\n",
    "many.conll": NER * 200,
    "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "other.crfsuite": b"lCRF" + bytes(200),
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with files of all kinds and two models."""
    folder = tmp_path_factory.mktemp("desk")
    for name, text in FILES.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "folder").mkdir()
    tl.CRF(features="words").fit(tl.read(folder / "ner.conll")).save(folder / "ner.tagloom")
    columns = tl.CRF(features=["word", "col(1)"]).fit(tl.read(folder / "pos.conll"))
    columns.save(folder / "pos.tagloom")
    return folder


@pytest.fixture(autouse=True)
def collector():
    """Restore the garbage collector, which a command configures for its process."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# ---- commands ------------------------------------------------------------------------------

# The line of each must contain these words: the place, the value and the option, not the wording,
# which test_messages.py has.
COMMANDS = [
    # The wrong file.
    ("train crf none.conll -o m", "none.conll: No such file or directory"),
    ("train crf table.csv -o m", "table.csv:3: ", "2 columns (word, tag)", "--sep"),
    ("train crf folder -o m", "folder: Is a directory"),
    ("train crf picture.png -o m", "picture.png: ", "NUL", "--encoding utf-16"),
    ("train crf ner.tagloom -o m", "ner.tagloom: ", "a model"),
    ("tag ner.tagloom picture.png", "picture.png: ", "NUL"),
    ("tag none.tagloom ner.conll", "none.tagloom: No such file or directory"),
    ("tag ner.conll ner.conll", "ner.conll: ", "b'Ann"),
    ("tag tiny.txt ner.conll", "tiny.txt: ", "b'They"),
    ("explain tiny.txt ner.conll", "tiny.txt: ", "b'They"),
    ("inspect tiny.txt", "tiny.txt: ", "b'They"),
    ("inspect other.crfsuite", "other.crfsuite: ", "CRFsuite"),
    ("tag ner.conll ner.tagloom", "tagloom tag ner.tagloom ner.conll"),
    ("explain ner.conll ner.tagloom", "tagloom explain ner.tagloom ner.conll"),
    ("tag ner.tagloom ner.tagloom", "ner.tagloom: ", "a model"),
    ("compare ner.tagloom ner.conll ner.conll", "ner.tagloom: ", "a model"),
    ("eval ner.conll ner.tagloom", "tagloom eval ner.tagloom ner.conll"),
    # Empty input.
    ("train crf empty.conll -o m", "empty.conll: ", "sentence", "none"),
    ("train crf blank.conll -o m", "blank.conll: ", "sentence", "none"),
    ("train crf ner.conll --dev empty.conll -o m", "dev"),
    ("tag empty.conll ner.conll", "empty.conll: ", "empty"),
    ("eval ner.tagloom empty.conll", "empty.conll: ", "sentence", "none"),
    ("eval empty.conll empty.conll", "empty.conll: ", "sentence", "none"),
    # The wrong column, and labels that are missing.
    ("train crf ner.conll --label upos -o m", "ner.conll: --label must be ", "0, 1", "'upos'"),
    ("train crf ner.conll --token 5 -o m", "ner.conll: --token must be ", "0, 1", "got 5."),
    ("train crf words.conll -o m", "words.conll: sentence 0: ", "none", "--label."),
    ("train crf words.jsonl -o m", "words.jsonl: sentence 0: ", "none", "--label."),
    ("eval ner.tagloom words.conll", "words.conll: sentence 0: ", "none", "--label."),
    ("tag ner.tagloom words.conll --label ner", "words.conll: --label must be ", "'ner'"),
    # A model of another kind.
    ("eval ner.tagloom pos.conll", "pos.conll: ", "ner.tagloom", "'B-NP'", "--label"),
    ("train crf ner.conll --dev pos.conll -o m", "pos.conll: ", "'B-NP'", "--label"),
    ("train hmm ner.conll --dev pos.conll -o m", "pos.conll: ", "'B-LOC'", "'B-NP'"),
    ("compare ner.conll ner.tagloom pos.tagloom", "ner.conll: ", "pos.tagloom", "'B-PER'"),
    ("tag pos.tagloom words.conll", "column 1", "col(1)"),
    # Mixed and misspelt schemes.
    ("train crf mixed.conll --constraints bio -o m", "of bio", "'E-PER'"),
    ("convert mixed.conll out.jsonl --scheme-to bioes", "No scheme fits", "--scheme-from."),
    ("convert ner.conll out.jsonl --scheme-to bieos", "--scheme-to must be ", "'bieos'"),
    # Encodings.
    (
        "train crf latin.conll -o m",
        "latin.conll:1: ",
        "byte 0xEB at offset 2",
        "--encoding latin-1",
    ),
    ("tag ner.tagloom latin.conll", "latin.conll:1: ", "byte 0xEB at offset 2"),
    ("convert utf16.conll out.jsonl", "utf16.conll:1: ", "--encoding utf-16"),
    # Places that cannot be written to.
    ("train crf ner.conll -o folder", "folder: ", "-o"),
    ("tag ner.tagloom words.conll -o no/o.conll", "no/o.conll: No such file or directory"),
    ("convert ner.conll no/out.jsonl", "no/out.jsonl: No such file or directory"),
    # Files that come with a corpus.
    ("train crf ner.conll --features picture.png -o m", "picture.png:1: ", "byte 0x89"),
    ("train crf ner.conll --features latin.conll -o m", "latin.conll:1: ", "byte 0xEB"),
    ("train crf ner.conll --lexicon c=latin.conll -o m", "latin.conll:1: ", "byte 0xEB"),
    ("train crf ner.conll --clusters c=utf16.conll -o m", "utf16.conll:1: ", "byte 0xFF"),
    ("train crf ner.conll --lexicon c=none.txt -o m", "none.txt: No such file or directory"),
    ("train crf ner.conll --lexicon c=empty.conll -o m", "phrase"),
    (
        "train crf ner.conll --features word --lexicon c=tiny.txt -o m",
        *("--features must be ", "lexicon(c)"),
    ),
    ("train crf ner.conll --checkpoint picture.png -o m", "picture.png: "),
    # What does not exist.
    ("train crff ner.conll -o m", "'crff'", "crf", "perceptron"),
    ("train ner.conll -o m", "'ner.conll'", "tagloom train crf TRAIN"),
    ("tagg ner.tagloom ner.conll", "'tagg'"),
    ("train crf ner.conll --features poss -o m", "'poss'"),
    ("train hmm ner.conll --features pos -o m", "'--features'"),
]
if os.path.exists("/dev/full"):
    COMMANDS += [
        ("train crf ner.conll -o /dev/full", "/dev/full: No space left on device"),
        ("tag ner.tagloom words.conll -o /dev/full", "/dev/full: No space left on device"),
        ("convert ner.conll /dev/full --to conll", "/dev/full: No space left on device"),
    ]


@pytest.mark.parametrize(
    ("command", "words"), [(c, words) for c, *words in COMMANDS], ids=[c for c, *_ in COMMANDS]
)
def test_a_command_says_what_is_wrong_and_changes_nothing(desk, monkeypatch, capfd, command, words):
    monkeypatch.chdir(desk)
    monkeypatch.setattr(sys, "argv", ["tagloom", *command.split()])
    before = content(desk)
    with pytest.raises(SystemExit) as done:
        main()
    out, err = capfd.readouterr()
    assert (done.value.code, out) == (2, "")
    *notices, line = err.splitlines()
    assert all(" read as " in notice for notice in notices), notices
    assert re.match(r"tagloom( \w+)*: ", line), line
    assert all(word in line for word in words), line
    assert content(desk) == before


# ---- what is accepted, but not silently ----------------------------------------------------

NOTICED = [
    ("train MODEL ner.conll --dev dev.conll -o OUT", ["dev.conll: ", "'B-ORG'", "1 token of 3"]),
    ("train MODEL words.tsv --label 0 -o OUT", ["120 tokens", "'w0'", "--label"]),
]


@pytest.mark.parametrize("model", ["crf", "hmm", "token", "baseline"])
@pytest.mark.parametrize(("command", "words"), NOTICED)
def test_a_command_warns_in_one_line(desk, monkeypatch, capfd, tmp_path, model, command, words):
    monkeypatch.chdir(desk)
    command = command.replace("MODEL", model).replace("OUT", str(tmp_path / "m"))
    monkeypatch.setattr(sys, "argv", ["tagloom", *command.split()])
    for quiet in ([], ["--quiet"]):
        monkeypatch.setattr(sys, "argv", [*sys.argv, *quiet])
        with pytest.raises(SystemExit) as done:
            main()
        warned = [x for x in capfd.readouterr().err.splitlines() if x.startswith("tagloom: ")]
        assert done.value.code == 0
        assert len(warned) == (not quiet), warned
        assert quiet or all(word in warned[0] for word in words), warned[0]


# ---- functions -----------------------------------------------------------------------------

CALLS = [
    # Strings instead of lists, and what is no list at all.
    (lambda t: t.predict("They can"), SentenceError, "the str 'They can'", "Split"),
    (lambda t: t.predict(["They", "can"]), SentenceError, "sentence 0", "the str 'They'", "Split"),
    (lambda t: t.predict(None), SentenceError, "None"),
    (lambda t: t.predict([3]), SentenceError, "sentence 0", "3, of type int"),
    (lambda t: t.predict([[3]]), SentenceError, "token 0", "int", "features="),
    (lambda t: t.explain([["a"]]), SentenceError, "token 0", "list"),
    (lambda t: t.predict([np.zeros((2, 3))]), SentenceError, "sentence 0", "ndarray"),
    (lambda t: t.fit("ner.conll"), SentenceError, "'ner.conll'", "tagloom.read"),
    (lambda t: t.fit([["a", "b"]], "XY"), LabelError, "y must be ", "the str 'XY'"),
    (lambda t: t.fit([["a", "b"]], ["XY"]), LabelError, "sentence 0", "the str 'XY'"),
    (lambda t: t.fit(tl.read("ner.conll"), dev="dev"), SentenceError, "the str 'dev'"),
    (lambda t: tl.Sentence("They can"), SentenceError, "the str 'They can'", "Split"),
    (lambda t: tl.Corpus(["They can"]), SentenceError, "sentence 0", "the str 'They can'"),
    (lambda t: tl.evaluate(["O"], ["O"]), ShapeError, "gold[0]", "'O'"),
    (lambda t: tl.read(["They can"]), FormatError, "path must be ", "['They can']"),
    (
        lambda t: tl.CRF(features=None).fit([["a", "b"]], [["X", "Y"]]),
        *(SentenceError, "'a'", "preset"),
    ),
    # Labels that are missing or do not fit.
    (lambda t: t.fit(tl.read("words.conll")), LabelError, "words.conll: sentence 0", "label"),
    (lambda t: t.fit([["a"]], [[None]]), LabelError, "(None)", "column"),
    (lambda t: t.score([["a"]]), LabelError, "sentence 0", "y"),
    (lambda t: t.predict([["a"]], known=[["X"]]), LabelError, "sentence 0, token 0", "'X'"),
    (lambda t: t.predict([["a"]], known={0: "O"}), LabelError, "known", "{0: 'O'}"),
    (lambda t: t.predict([["a"]], known=3), LabelError, "known", "3"),
    (lambda t: t.predict([["a"]], known=[3]), LabelError, "sentence 0", "3"),
    (lambda t: t.predict_spans([["a"]], "high"), ParameterError, "threshold", "'high'"),
    (lambda t: tl.Corpus([["a", "b"]], [["X"]]), LabelError, "sentence 0", "2 labels", "found 1"),
    (
        lambda t: tl.evaluate([["O"]], [["O"] * 2]),
        *(ShapeError, "predicted: sentence 0", "1 label", "found 2"),
    ),
    # Mixed schemes.
    (lambda t: t.fit(tl.read("mixed.conll")), UserWarning, "No scheme fits", "tagloom check"),
    (
        lambda t: tl.labels.convert([["B-X", "E-X"]], "bio", "bioes"),
        *(SchemeError, "sentence 0, token 1", "'E-X'", 'source="bioes"', "repair=True"),
    ),
    # The wrong file, the wrong column, a model of another kind.
    (lambda t: tl.read("none.conll"), FileNotFoundError, "'none.conll'"),
    (
        lambda t: tl.read("ner.conll", label="upos"),
        *(FormatError, "ner.conll: label must be ", "'upos'"),
    ),
    (lambda t: tl.read("ner.conll", "conllu"), FormatError, "ner.conll:1: ", 'format="conll"'),
    (lambda t: tl.read("ner.tagloom"), FormatError, "ner.tagloom: ", "a model"),
    (lambda t: tl.load("ner.conll"), ModelFileError, "ner.conll: "),
    (lambda t: tl.load("other.crfsuite"), ModelFileError, "other.crfsuite: ", "CRFsuite"),
    (lambda t: tl.load("folder"), ModelFileError, "folder: "),
    (
        lambda t: tl.load("pos.tagloom").predict([["They"]]),
        *(TemplateError, "column 1", "'col(1)'", "columns={...}"),
    ),
    (lambda t: t.fit(tl.read("empty.conll")), SentenceError, "empty.conll: "),
    # Too early, misspelt, nowhere to go.
    (lambda t: tl.CRF().predict([["a"]]), NotFittedError, "fit()"),
    (lambda t: tl.CRF().save("new.tagloom"), NotFittedError, "save()"),
    (
        lambda t: tl.CRF(features="poss").fit(tl.read("ner.conll")),
        *(ParameterError, "features must be ", "'poss'", "'pos'"),
    ),
    (lambda t: t.set_params(c1=0.1), ParameterError, "CRF", "'c1'", "c1 is l1 here"),
    (lambda t: t.save("no/m.tagloom"), FileNotFoundError, "'no/m.tagloom'"),
    (lambda t: t.save("folder"), IsADirectoryError, "'folder'"),
    (lambda t: tl.write(tl.read("ner.conll"), "no/o.conll"), FileNotFoundError, "'no/o.conll'"),
]
if os.path.exists("/dev/full"):
    CALLS += [
        (lambda t: t.save("/dev/full"), OSError, "'/dev/full'"),
        (lambda t: tl.write(tl.read("ner.conll"), "/dev/full", "conll"), OSError, "'/dev/full'"),
    ]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [(call, error, words) for call, error, *words in CALLS],
    ids=[f"{i}-{c[1].__name__}" for i, c in enumerate(CALLS)],
)
def test_a_function_says_what_is_wrong_and_changes_nothing(desk, monkeypatch, call, error, words):
    monkeypatch.chdir(desk)
    tagger = tl.load("ner.tagloom")
    before, predicted = content(desk), tagger.predict([["Ann", "slept"]])
    with pytest.raises(error) as caught:
        call(tagger)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words), caught.value
    assert content(desk) == before
    assert tl.load("ner.tagloom").predict([["Ann", "slept"]]) == predicted


# What is forgotten (None, as a function without return gives it), or something else altogether.
PLACES = {
    "predict": lambda t, x: t.predict(x),
    "predict known": lambda t, x: t.predict([["a"]], known={0: x}),
    "predict_spans": lambda t, x: t.predict_spans(x),
    "predict_spans threshold": lambda t, x: t.predict_spans([["a"]], [x]),
    "predict_nbest n": lambda t, x: t.predict_nbest([["a"]], [x]),
    "sample seed": lambda t, x: t.sample([["a"]], random_state={0: x}),
    "explain": lambda t, x: t.explain(x),
    "score": lambda t, x: t.score(x),
    "score y": lambda t, x: t.score([["a"]], [x]),
    "score weight": lambda t, x: t.score([["a"]], [["O"]], sample_weight=[x, x]),
    "fit": lambda t, x: t.fit(x),
    "fit y": lambda t, x: t.fit([["a"]], [x]),
    "fit weight": lambda t, x: t.fit([["a", "b"]], [["X", "Y"]], sample_weight=[x, x]),
    "fit dev": lambda t, x: t.fit([["a", "b"]], [["X", "Y"]], dev=[x]),
    "HMM weight": lambda t, x: tl.HMM().fit([["a", "b"]], [["X", "Y"]], sample_weight=[x, x]),
    "CRF labels": lambda t, x: tl.CRF(labels=[x]).fit([["a", "b"]], [["X", "Y"]]),
    "CRF eta": lambda t, x: tl.CRF(eta=[x]).fit([["a", "b"]], [["X", "Y"]]),
    "calibrate": lambda t, x: t.calibrate(x),
    "evaluate": lambda t, x: tl.evaluate(x, [["O"]]),
    "evaluate predicted": lambda t, x: tl.evaluate([["O"]], x),
    "compare": lambda t, x: tl.compare([["O"]], x, [["O"]]),
    "read": lambda t, x: tl.read(x),
    "write": lambda t, x: tl.write(x, "out.conll"),
    "load": lambda t, x: tl.load(x),
    "Sentence": lambda t, x: tl.Sentence(x),
    "Corpus": lambda t, x: tl.Corpus(x),
    "Corpus of": lambda t, x: tl.Corpus([x]),
    "convert": lambda t, x: tl.labels.convert(x, "bio", "bioes"),
    "convert scheme": lambda t, x: tl.labels.convert([["O"]], "bio", x),
    "detect": lambda t, x: tl.labels.detect(x),
    "validate": lambda t, x: tl.labels.validate(x, "bio"),
    "Templates": lambda t, x: tl.features.Templates(x),
    "Lexicon": lambda t, x: tl.features.Lexicon(x),
    "Clusters": lambda t, x: tl.features.Clusters(x),
    "dataset": lambda t, x: tl.datasets.load(x),
    "Trellis": lambda t, x: tl.Trellis(x),
    "constrain": lambda t, x: t.trellis([["a"]])[0].constrain(forced=[x]),
}


@pytest.mark.parametrize("value", [None, 3, object()], ids=["None", "3", "object"])
@pytest.mark.parametrize("place", PLACES)
def test_something_else_altogether_is_told_in_one_line(desk, monkeypatch, place, value):
    monkeypatch.chdir(desk)
    before = content(desk)
    with pytest.raises(TagloomError) as caught:
        PLACES[place](tl.load("ner.tagloom"), value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert content(desk) == before


# ---- files that look wrong and are not -----------------------------------------------------


@pytest.mark.parametrize("name", ["crlf.conll", "bom.conll"])
def test_windows_line_ends_and_byte_order_marks_are_no_mistake(
    desk, monkeypatch, capfdbinary, name
):
    monkeypatch.chdir(desk)
    plain, other = tl.read("ner.conll"), tl.read(name)
    assert (other.tokens, other.labels) == (plain.tokens, plain.labels)
    monkeypatch.setattr(sys, "argv", ["tagloom", "tag", "ner.tagloom", name, "-q"])
    with pytest.raises(SystemExit) as done:
        main()
    out = capfdbinary.readouterr().out
    assert done.value.code == 0
    mark, end = (b"\xef\xbb\xbf", b"\n") if name == "bom.conll" else (b"", b"\r\n")
    assert out.startswith(mark + b"Ann B-PER B-PER" + end)


@pytest.mark.slow
def test_a_line_of_50_mb_is_read_tagged_and_written(desk, monkeypatch, tmp_path):
    """A token of 50 million characters is a strange token, but no reason to fail."""
    monkeypatch.chdir(desk)
    path = tmp_path / "long.conll"
    path.write_bytes(b"Ann B-PER\n" + b"x" * 50_000_000 + b" O\n\n")
    monkeypatch.setattr(
        sys, "argv", ["tagloom", "tag", "ner.tagloom", str(path), "-q", "-o", str(path) + ".out"]
    )
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    out = (tmp_path / "long.conll.out").read_bytes()
    assert len(out) == path.stat().st_size + len(" B-PER") + len(" O")
    first, second, rest = out.split(b"\n", 2)
    assert (first, second[-4:], rest) == (b"Ann B-PER B-PER", b" O O", b"\n")


ENDLESS = [  # with the line where the sentence begins, and what ends it
    ("tag ner.tagloom FILE", "token", 1, "a blank line"),
    ("explain ner.tagloom FILE", "rows", 1, "a blank line"),
    ("eval ner.tagloom FILE", "token", 1, "a blank line"),
    ("compare FILE ner.tagloom pos.tagloom", "rows", 1, "a blank line"),
    ("train crf FILE -o m", "rows", 1, "a blank line"),
    ("train crf ner.conll --dev FILE -o m", "columns", 1, "a blank line"),
    ("convert FILE out.jsonl", "columns", 1, "a blank line"),
    ("check FILE", "token", 2, "a line end"),
]
WHOLE = {  # with the bytes after which it repeats
    "token": (b"Ann B-PER\n", b"x"),
    "columns": (b"Ann B-PER\n", b"Ann B-PER "),
    "rows": (b"", b"Ann B-PER\n"),
}


def endless(path, kind, size):
    before, part = WHOLE[kind]
    with open(path, "wb") as file:
        file.write(before)
        for _ in range(size // 1_000_000):
            file.write(part * (1_000_000 // len(part)))
        file.write(b" O\n\n")


@pytest.mark.parametrize(("command", "kind", "line", "end"), ENDLESS)
def test_a_command_refuses_a_sentence_that_does_not_end(
    desk, monkeypatch, capfd, tmp_path, command, kind, line, end
):
    monkeypatch.setattr("tagloom.sequences.files.SENTENCE_LIMIT", 2_000_000)
    path = tmp_path / "endless.conll"
    endless(path, kind, 3_000_000)
    words = [f"{path}:{line}: ", end, "a sentence of more than 2 MB"]
    test_a_command_says_what_is_wrong_and_changes_nothing(
        desk, monkeypatch, capfd, command.replace("FILE", str(path)), words
    )


@pytest.mark.skipif(not os.environ.get("TAGLOOM_BIG"), reason="set TAGLOOM_BIG=1 for files of 1 GB")
@pytest.mark.parametrize("kind", WHOLE)
def test_commands_refuse_a_sentence_of_1_gb_in_little_memory(desk, tmp_path, kind):
    path, output = tmp_path / "big.conll", tmp_path / "output"
    endless(path, kind, 1_000_000_000)
    for command in ("tag ner.tagloom FILE", "train crf FILE -o m", "convert FILE out.jsonl"):
        arguments = command.replace("FILE", str(path)).split()
        call = [sys.executable, "-c", "from tagloom.cli import main; main()", *arguments]
        with open(output, "wb") as file:
            process = subprocess.Popen(call, cwd=desk, stdout=file, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)  # of this child alone
        process.returncode = os.waitstatus_to_exitcode(status)
        line = output.read_text(encoding="utf-8").splitlines()[-1]
        assert process.returncode == 2, line
        assert "big.conll:1: " in line, line
        assert "a sentence of more than 128 MB" in line, line
        assert used.ru_maxrss < 1_000_000  # kB
    path.unlink()


SCARCE = """
import resource, sys
import numpy, tagloom.models, tagloom.cli.tag  # NumPy is imported late; its BLAS would exit
from tagloom.cli import main
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 100_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory, as seen in /proc")
def test_too_little_memory_is_one_line(desk, tmp_path):
    path = tmp_path / "long.conll"
    endless(path, "token", 50_000_000)
    done = subprocess.run(
        [sys.executable, "-c", SCARCE, "tag", "ner.tagloom", str(path), "-o", f"{path}.out", "-q"],
        cwd=desk,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ("tagloom: not enough memory. Split the file, or use a larger machine.\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert os.listdir(tmp_path) == ["long.conll"]


# ---- saving under bad conditions -----------------------------------------------------------

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and limits")

# Saves again and again, until a file named "stop" is beside the model.
SAVE = """
import os, sys
import tagloom as tl
tagger = tl.load(sys.argv[1])
corpus = tl.Corpus([["word"] * 20_000], [[sys.argv[3]] * 20_000])
print("ready", flush=True)
while not os.path.exists(os.path.join(os.path.dirname(sys.argv[2]), "stop")):
    tagger.save(sys.argv[2])
    tl.write(corpus, sys.argv[2] + ".conll")
"""


def saving(model, path, label):
    return subprocess.Popen(
        [sys.executable, "-c", SAVE, str(model), str(path), label],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Two models of 4 MB that predict different labels."""
    folder = tmp_path_factory.mktemp("large")
    words = [f"w{i}" for i in range(20_000)]
    for label in "AB":
        tagger = tl.HMM().fit([[word, "end"] for word in words], [[label, "Z"]] * len(words))
        tagger.save(folder / f"{label}.tagloom")
    return folder


WRITERS = {
    "train": "train crf ner.conll -q -o OUT",
    "checkpoint": "train crf ner.conll -q -o m --checkpoint OUT",
    "tag": "tag ner.tagloom many.conll -q -o OUT",
    "explain": "explain ner.tagloom ner.conll -q -o OUT",
    "report": "eval ner.tagloom ner.conll --report OUT",
    "convert": "convert many.conll OUT -q --to conll",
}


@posix
@pytest.mark.parametrize("command", WRITERS.values(), ids=WRITERS)
def test_the_disk_is_full_and_an_old_file_stays(desk, tmp_path, command):
    path = tmp_path / "result"
    if "--checkpoint" not in command:  # an old checkpoint would be read first
        path.write_text("old")
    before = content(tmp_path)
    arguments = command.replace("OUT", str(path)).replace("-o m", f"-o {tmp_path}/m").split()
    # No file may have more than 1 kB.
    script = 'ulimit -f 1 && exec "$0" -c "from tagloom.cli import main; main()" "$@" > /dev/null'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, *arguments],
        cwd=desk,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"tagloom: {path}: File too large. Choose another folder; an existing file is unchanged."
    )
    assert content(tmp_path) == before
    assert len(os.listdir(tmp_path)) == len(before)


PRINTERS = ["inspect ner.tagloom", "tag ner.tagloom words.conll -q"]


@posix
@pytest.mark.parametrize("command", [*PRINTERS, "--help"])
@pytest.mark.parametrize("output", ["/dev/full", "&-"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written(desk, command, output, unbuffered):
    script = f'"$0" -m tagloom {command} > {output}'.replace("> &", ">&")
    done = subprocess.run(
        ["bash", "-c", script, sys.executable],
        cwd=desk,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert re.match(r"tagloom: .*(No space left on device|Bad file descriptor)\.", done.stderr)


@posix
@pytest.mark.parametrize("command", PRINTERS)
def test_the_reader_of_the_output_stops(desk, command):
    arguments = [sys.executable, "-m", "tagloom", *command.split()]
    with subprocess.Popen(
        arguments, cwd=desk, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


# The command runs once, so that whatever it imports is there; then again as a user who may not
# write, which root gives up to be.
SHUT = """
import os, sys
from tagloom.cli import main

def run(path):
    sys.argv[1:] = [argument.replace("OUT", path) for argument in arguments]
    try:
        main()
    except SystemExit as end:
        return end.code

shelf, *arguments = sys.argv[1:]
assert run(os.path.join(os.path.dirname(shelf), "first")) == 0
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
if not os.access(shelf, os.X_OK, effective_ids=True):
    sys.exit("unreachable")
sys.exit(run(os.path.join(shelf, "result")))
"""


@posix
@pytest.mark.parametrize("command", WRITERS.values(), ids=WRITERS)
def test_a_read_only_folder(desk, command):
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to other users
        os.chmod(folder, 0o777)
        for name in ("ner.conll", "many.conll", "ner.tagloom"):
            shutil.copy(desk / name, folder)
        shelf = Path(folder, "shelf")
        shelf.mkdir()
        if "--checkpoint" not in command:  # an old checkpoint would be read first
            (shelf / "result").write_text("old")
        before = content(shelf)
        shelf.chmod(0o555)
        arguments = command.replace("-o m", f"-o {folder}/m").split()
        try:
            done = subprocess.run(
                [sys.executable, "-c", SHUT, str(shelf), *arguments],
                cwd=folder,
                capture_output=True,
                text=True,
            )
        finally:
            shelf.chmod(0o755)
        if done.stderr.endswith("unreachable\n"):
            pytest.skip("other users cannot reach the folder for temporary files")
        line = done.stderr.splitlines()[-1]
        assert done.returncode == 2, line
        assert re.match(rf"tagloom: {shelf}/result: Permission denied[.;]", line), line
        assert content(shelf) == before
        assert len(os.listdir(shelf)) == len(before)


@posix
def test_killed_while_saving_the_old_files_stay_readable(large, tmp_path):
    path = tmp_path / "m.tagloom"
    tl.load(large / "A.tagloom").save(path)
    tl.write(tl.Corpus([["word"]], [["old"]]), f"{path}.conll")
    parts = 0
    for attempt in range(100):  # a busy machine may miss the middle of a save many times
        with saving(large / "B.tagloom", path, "new") as child:
            assert child.stdout.readline() == "ready\n"
            time.sleep(0.003 * (attempt % 20))
            child.send_signal(signal.SIGKILL)
        tagger = tl.load(path, verify=True)
        assert tagger.predict([["w1", "end"]])[0] in (["A", "Z"], ["B", "Z"])
        corpus = tl.read(f"{path}.conll")
        assert (corpus.n_tokens, *corpus.label_counts()) in ((1, "old"), (20_000, "new"))
        for part in tmp_path.glob(".*.part"):
            parts += 1
            part.unlink()
        if parts >= 2:
            return
    pytest.fail(f"only {parts} of 100 kills came in the middle of a save")


@posix
def test_two_processes_save_to_one_path(large, tmp_path):
    path = tmp_path / "m.tagloom"
    tl.load(large / "A.tagloom").save(path)
    tl.write(tl.Corpus([["word"] * 20_000], [["A"] * 20_000]), f"{path}.conll")
    children = [saving(large / f"{label}.tagloom", path, label) for label in "AB"]
    seen, ending = set(), time.monotonic() + 120
    try:
        for n_reads in itertools.count():
            if (n_reads >= 10 and seen == {"A", "B"}) or time.monotonic() > ending:
                break
            (label, end) = tl.load(path, verify=True).predict([["w1", "end"]])[0]
            assert (label in "AB", end) == (True, "Z")
            seen.add(label)
            corpus = tl.read(f"{path}.conll")
            assert corpus.n_tokens == 20_000
            assert len(corpus.label_counts()) == 1
    finally:
        (tmp_path / "stop").touch()
    for child in children:
        child.communicate()
        assert child.returncode == 0
    assert seen == {"A", "B"}
    assert sorted(os.listdir(tmp_path)) == ["m.tagloom", "m.tagloom.conll", "stop"]
