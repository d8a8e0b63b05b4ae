"""tagloom convert and tagloom check, as a user calls them."""

import gzip
import io
import json
import os
import subprocess
import sys

import pytest

import tagloom as tl
from tagloom.cli import main

BIO = "Ann B-PER\nLee I-PER\nsaw O\nBo B-PER\n\nOslo B-LOC\n\n"


@pytest.fixture
def run(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tagloom", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capfd.readouterr()
        return done.value.code, out, err

    return run


def put(name, text):
    with open(name, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def test_convert_formats_and_tell_the_guess(run):
    put("a.conll", BIO)
    code, out, err = run("convert", "a.conll", "b.jsonl")
    assert (code, out) == (0, "")
    assert err == (
        "a.conll: read as CoNLL columns (by the name .conll); columns separated by blanks; "
        "labels from column '1'\n"
    )
    assert tl.read("b.jsonl").labels == tl.read("a.conll").labels
    assert run("convert", "-q", "b.jsonl", "c.conllu.gz")[2] == ""
    with gzip.open("c.conllu.gz") as file:
        assert file.readline() == b"1\tAnn\t_\tB-PER\t_\t_\t_\t_\t_\t_\n"
    assert run("convert", "-q", "a.conll", "-", "--to", "slash")[1] == (
        "Ann/B-PER Lee/I-PER saw/O Bo/B-PER\nOslo/B-LOC\n"
    )
    code, out, _ = run("convert", "-q", "a.conll", "-", "--to", "jsonl-spans")
    assert json.loads(out.splitlines()[0])["spans"][0] == {"start": 0, "end": 7, "label": "PER"}


def test_convert_within_a_format_keeps_every_byte(run):
    data = b"# c\r\n1\ta\ta\tX\t_\t_\t0\troot\t_\t_\r\n1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\r\n"
    put("a.conllu", data)
    assert run("convert", "a.conllu", "b.conllu")[0] == 0
    with open("b.conllu", "rb") as file:
        assert file.read() == data


def test_convert_columns_labels_and_separators(run):
    put("a.conllu", "1\ta\tb\tX\tY\tF=1\t0\troot\t_\t_\n\n")
    arguments = ("convert", "-q", "a.conllu", "-", "--label", "upos+feats", "--to", "conll")
    assert run(*arguments)[1] == "a\tX|F=1\n\n"
    assert (
        run(*arguments, "--to-columns", "token,xpos,label", "--to-sep", " ")[1] == "a Y X|F=1\n\n"
    )
    put("b.txt", "p;a;X\nq;b;?\n")
    arguments = ("convert", "-q", "b.txt", "-", "--from", "conll", "--sep", ";", "--token", "1")
    code, out, _ = run(*arguments, "--unknown", "?", "--to", "jsonl")
    assert (code, json.loads(out)) == (0, {"tokens": ["a", "b"], "labels": ["X", None]})


@pytest.mark.parametrize("given", [[], ["--scheme-from", "bio"]])
def test_convert_schemes(run, given):
    put("a.conll", BIO)
    code, out, _ = run("convert", "-q", "a.conll", "-", *given, "--scheme-to", "bioes")
    assert (code, out) == (0, "Ann B-PER\nLee E-PER\nsaw O\nBo S-PER\n\nOslo S-LOC\n\n")
    put("b.conll", out)
    assert run("convert", "-q", "b.conll", "-", "--scheme-to", "bio")[1] == BIO


def test_convert_says_what_cannot_be_done(run):
    put("a.conll", "a I-X\nb I-X\n")
    code, _, err = run("convert", "-q", "a.conll", "b.conll", "--scheme-to", "bio")
    assert (code, "iob1 and io" in err, "--scheme-from" in err) == (2, True, True)
    code, _, err = run(
        "convert", "-q", "a.conll", "b.conll", "--scheme-to", "io", "--scheme-from", "bio"
    )
    assert code == 2
    assert err.startswith("tagloom: a.conll:1: sentence 0, token 0: 'I-X'")
    assert "--scheme-from iob1" in err
    assert "--repair" in err
    repaired = ("--scheme-to", "bio", "--scheme-from", "bio", "--repair")
    assert run("convert", "-q", "a.conll", "-", *repaired)[1] == "a B-X\nb I-X\n"
    code, _, err = run("convert", "a.conll", "b.conll", "--repair")
    assert (code, "need --scheme-to" in err) == (2, True)
    put("b.conll", "a X\nb\n")
    code, _, err = run("convert", "-q", "b.conll", "c.jsonl")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("tagloom: b.conll:2: ")
    assert "--sep" in err
    assert "--to-sep" not in err  # it is about reading
    assert not os.path.exists("c.jsonl")
    assert run("convert", "none.conll", "c.jsonl")[0] == 2
    code, _, err = run("convert", "-q", "a.conll", "c.jsonl", "--sep", "ab")
    assert (code, err.startswith("tagloom: --sep must be ")) == (2, True)
    code, _, err = run("convert", "-q", "a.conll", "c.conllu", "--to-label", "ner")
    assert (code, err.startswith("tagloom: --to-label must be ")) == (2, True)
    code, _, err = run("convert", "-q", "a.conll", "c.txt", "--scheme-to", "bieos")
    assert (code, "--scheme-from" in err) == (2, True)
    schemes = ("--scheme-from", "iob1", "--scheme-to", "bieos")
    code, _, err = run("convert", "-q", "a.conll", "c.txt", *schemes)
    assert (code, err.startswith("tagloom: --scheme-to must be ")) == (2, True)


def test_convert_reports_spans_that_do_not_fit(run):
    put("a.jsonl", '{"text": "Ann Lee", "spans": [[0, 2, "X"]]}\n')
    code, _, err = run("convert", "-q", "a.jsonl", "b.jsonl", "--to", "jsonl")
    assert (code, tl.read("b.jsonl").labels) == (0, [[None, "O"]])
    assert err.startswith("a.jsonl:1: span 0:2 'X' ('An') cuts the token 'Ann'")


def test_convert_as_a_process_reads_stdin_and_writes_stdout(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "from tagloom.cli import main; main()", "convert", "-", "-"],
        input=BIO.encode(),
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert (done.returncode, done.stdout) == (0, BIO.encode())
    assert done.stderr.startswith(b"<stdin>: read as CoNLL columns (every row has 2 columns)")


def check(run, *arguments):
    """The exit code, and {(kind, path, line): message} of the problems."""
    code, out, _ = run("check", "--json", *arguments)
    value = json.loads(out)
    found = {
        (p["kind"], p["path"], p["line"]): p["message"]
        for file in value["files"]
        for p in file["problems"]
    }
    assert value["problems"] == sum(len(file["problems"]) for file in value["files"])
    return code, found, value["files"]


def test_check_a_clean_file(run):
    put("a.conll", BIO)
    code, out, _ = run("check", "a.conll", "--rare", "1")
    assert (code, out) == (
        0,
        "a.conll: CoNLL columns, 2 sentences, 5 tokens, 4 labels, scheme bio\n"
        "  read as CoNLL columns (by the name .conll); columns separated by blanks; "
        "labels from column '1'\n"
        "  no problems\n",
    )
    code, found, files = check(run, "a.conll", "--rare", "1")
    assert (code, found) == (0, {})
    assert files[0]["format"] == "conll"
    assert files[0]["schemes"] == ["bio"]
    assert files[0]["labels"] == {"B-PER": 2, "I-PER": 1, "O": 1, "B-LOC": 1}


def test_check_reads_files_as_the_other_commands_do(run):
    put("a.csv", "sentence,word,tag\n0,Ann,B-PER\n0,slept,O\n\n1,Bo,B-PER\n".encode("utf-16"))
    options = "--format conll --sep , --columns sentence,word,tag --token word --rare 1"
    code, out, _ = run("check", "a.csv", *options.split(), "--encoding", "utf-16")
    assert (code, out.splitlines()[0]) == (
        0,
        "a.csv: CoNLL columns, 2 sentences, 3 tokens, 2 labels, scheme bio",
    )


# Name and content of a file; kind, line and words of its only problem.
PROBLEMS = [
    (
        "a.conll",
        BIO + "x O\ny I-LOC\n",
        "illegal",
        9,
        "token 1: 'I-LOC' cannot follow 'O' in bio",
    ),
    ("a.conll", BIO + "x B-PER\ny PERSON\n", "illegal", 9, "'PERSON' is not a label of bio"),
    ("a.conll", BIO + "Oslo B-LOC\n", "duplicate", 8, "sentence 2 repeats sentence 1 (line 6)."),
    ("a.conll", BIO + "Oslo O\n", "duplicate", 8, "(line 6), with other labels."),
    ("a.conll", BIO + "\n\nx O\n", "empty", 8, "a blank line before sentence 2"),
    ("a.jsonl", '{"tokens": ["a"]}\n{"tokens": []}\n', "empty", 2, "sentence 1 has no tokens"),
    ("a.conll", BIO + "x O\n" * 1001, "long", 8, "1,001 tokens. Is a blank line missing?"),
    ("a.txt", "x/A y/B\n" + "x/A " * 1001 + "\n", "long", 2, "Is a line end missing?"),
    ("a.conll", BIO + "a\x07b O\n", "control", 8, "sentence 2 contains U+0007"),
    ("a.conll", BIO + "a\ufeff O\n", "control", 8, "U+FEFF"),
    ("a.jsonl", '{"tokens": ["a\\u0085"]}\n', "control", 1, "U+0085"),
    ("a.conll", BIO.encode() + b"abc\xe9 O\n", "bytes", 8, "byte 0xE9 at offset 51 is not UTF-8"),
    ("a.conll", BIO.encode() + b"a\0 O\n", "bytes", 8, "byte 0x00 at offset 49 is NUL"),
    ("a.conll", BIO + "x\n\ny O\n", "format", 8, "expected 2 columns as on line 1, found 1"),
    ("a.jsonl", "{\n", "format", 1, "JSON"),
    ("a.jsonl", '{"text": "ab", "spans": [[0, 1, "X"]]}', "span", 1, "cuts the token 'ab'"),
]


@pytest.mark.parametrize(("name", "text", "kind", "line", "message"), PROBLEMS)
def test_check_finds(run, name, text, kind, line, message):
    put(name, text)
    code, found, _ = check(run, name, "--rare", "1")
    assert code == 1
    assert list(found) == [(kind, name, line)]
    assert message in found[kind, name, line]
    code, out, _ = run("check", name, "--rare", "1")
    assert (code, f"{name}:{line}: " in out) == (1, True)
    assert run("check", name, "--rare", "1", "--ignore", kind)[0] == 0


def test_check_finds_every_line_with_bad_bytes_and_goes_on(run):
    put("a.conll", b"abc\xe9 O\nx \xff\n\nx O\n\xe9 O\n\ny I-X\nz B-X\nz E-X\n")
    _, found, files = check(run, "a.conll", "--scheme", "bio", "--rare", "1")
    assert [key[0::2] for key in found] == [
        *(("bytes", 1), ("bytes", 2), ("bytes", 5)),
        *(("illegal", 2), ("illegal", 7), ("illegal", 9)),
    ]
    assert files[0]["tokens"] == 7


def test_check_finds_mixed_schemes_in_a_file_and_between_files(run):
    bioes = "Ann B-PER\nLee E-PER\n\n"
    put("a.conll", BIO + BIO + bioes * 3)
    code, found, _ = check(run, "a.conll", "--rare", "1", "--ignore", "duplicate")
    assert code == 1
    assert list(found) == [("mixed", "a.conll", 15)]
    assert "4 sentence(s) fit bio, but 3 fit bioes and not bio" in found["mixed", "a.conll", 15]
    put("a.conll", BIO)
    put("b.conll", bioes)
    code, found, _ = check(run, "a.conll", "b.conll", "--rare", "1")
    assert found == {
        ("mixed", "a.conll", None): (
            "the files have different schemes: a.conll: bio; b.conll: bioes."
        )
    }


def test_check_finds_what_files_share(run):
    put("train.conll", BIO)
    put("test.conll", "Oslo B-LOC\n\nRome B-LOC\n\n")
    code, found, _ = check(run, "train.conll", "test.conll", "--rare", "1")
    assert code == 1
    assert found == {
        ("overlap", "test.conll", 1): (
            "1 of 2 sentences (50.0%) also occur in train.conll, the first: 'Oslo'."
        )
    }


def test_check_finds_rare_labels(run):
    put("a.conll", BIO)
    code, found, _ = check(run, "a.conll", "--rare", "2")
    assert code == 1
    assert found == {
        ("rare", "a.conll", None): (
            "3 label(s) occur fewer than 2 times: B-LOC (1), I-PER (1), O (1)."
        )
    }


def test_check_does_not_take_tags_for_spans(run):
    put("a.conll", "I PRON\nswim VERB\nin I\n")
    code, found, files = check(run, "a.conll", "--rare", "1")
    assert (code, found, files[0]["schemes"]) == (0, {}, [])


def test_check_lets_unknown_labels_pass(run):
    put(
        "a.jsonl",
        '{"tokens": ["a", "b"], "labels": [null, "I-X"]}\n{"tokens": ["c"], "labels": ["B-X"]}\n',
    )
    assert check(run, "a.jsonl", "--rare", "1")[:2] == (0, {})


def test_check_shows_a_few_of_many(run):
    put("a.conll", "a X\n\n" * 20)
    code, out, _ = run("check", "a.conll")
    assert code == 1
    assert "  duplicate (19): a sentence that occurs twice in one file\n" in out
    assert "… and 14 more; --json has all" in out


def test_check_says_that_a_file_is_empty(run):
    put("a.conll", "")
    found = {("empty", "a.conll", None): "the file has no sentences."}
    assert check(run, "a.conll")[:2] == (1, found)


def test_check_tells_a_mistake_of_the_users(run):
    code, _, err = run("check", "none.conll")
    assert (code, err) == (
        2,
        "tagloom: none.conll: No such file or directory. "
        "Is the name right, and does its folder exist?\n",
    )
    code, _, err = run("check")
    assert (code, err) == (
        2,
        "tagloom check: Missing argument 'FILES...'. Try 'tagloom check --help'.\n",
    )
    put("a.txt", "one two\n")
    code, out, err = run("check", "a.txt")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("tagloom: a.txt: ")
    assert "Pass --format" in err
    put("a.conll", BIO)
    code, _, err = run("check", "a.conll", "--scheme", "bie")
    assert (code, err.startswith("tagloom: --scheme must be ")) == (2, True)
    assert run("check", "a.conll", "--label", "7")[0] == 2


def test_marks_of_documents_become_those_of_conllu(tmp_path):
    path = tmp_path / "a.conllu"
    text = "-DOCSTART- -X- O\n\nEU NNP B-ORG\n\nIt PRP O\n\n-DOCSTART- -X- O\n\nBonn NNP B-LOC\n"
    tl.write(tl.read(io.StringIO(text), "conll"), path)
    again = tl.read(path)
    assert [s.comments for s in again] == [["# newdoc"], [], ["# newdoc"]]
    assert again.tokens == [["EU"], ["It"], ["Bonn"]]
