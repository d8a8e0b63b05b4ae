"""tagloom lm: train, score, restore, generate."""

import gzip
import json

import click
import pytest

import tagloom as tl
from tagloom.cli.lm import command as group

TEXT = """the old boat left the harbour at dawn
the boat left the harbour in the fog
at dawn the old man went to the harbour
"""


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    tl.NGramModel(2).fit([line.split() for line in TEXT.splitlines()]).save(tmp_path / "m.tagloom")
    return tmp_path


def test_train_reports_and_saves(run, desk):
    done = run("lm", "train", "text.txt", "-o", "new.tagloom", "--dev", "text.txt")
    assert (done.returncode, done.stderr) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines()[1:])
    assert done.stdout.startswith("learnt from 3 sentences, 25 tokens\n")
    model = tl.load(desk / "new.tagloom")
    assert rows["n-grams"] == ", ".join(map(str, model.ngram_counts_))
    text = [line.split() for line in TEXT.splitlines()]
    assert float(rows["perplexity"]) == pytest.approx(model.perplexity(text), abs=0.005)
    assert model.digest() == tl.NGramModel(3).fit(text).digest()


def test_train_options_are_parameters(run, desk):
    (desk / "words.txt").write_text("the\nboat\n\nold\n")
    options = ["--order", "2", "--smoothing", "add-k", "--k", "0.5", "--min-counts", "1,2"]
    options += ["--vocabulary", "words.txt", "--json"]
    done = run("lm", "train", "text.txt", *options, "-o", "new.tagloom")
    summary = json.loads(done.stdout)
    model = tl.load(desk / "new.tagloom")
    assert summary["ngrams"] == model.ngram_counts_
    assert model.get_params() == {
        **tl.NGramModel(2, smoothing="add-k", k=0.5).get_params(),
        "min_counts": [1, 2],
        "vocabulary": ["the", "boat", "old"],
    }


def test_train_reads_other_formats_stdin_and_compressed_files(run, desk):
    (desk / "a.conll").write_text("the\tD\nboat\tN\n\nthe\tD\nfog\tN\n")
    (desk / "a.txt.gz").write_bytes(gzip.compress(b"the boat\nthe fog\n"))
    for name, stdin in [("a.conll", ""), ("a.txt.gz", ""), ("-", "the boat\nthe fog\n")]:
        done = run("lm", "train", name, "-o", "new.tagloom", "-q", stdin=stdin)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        expected = tl.NGramModel(3).fit([["the", "boat"], ["the", "fog"]])
        assert tl.load(desk / "new.tagloom").digest() == expected.digest()


def test_arpa_files_are_models_too(run, desk):
    run("lm", "train", "text.txt", "--order", "2", "-o", "m.arpa.gz", "-q")
    scores = [run("lm", "score", name, "text.txt").stdout for name in ("m.arpa.gz", "m.tagloom")]
    assert scores[0] == scores[1]
    assert len(scores[0].splitlines()) == 3


def test_score(run, desk):
    model = tl.load(desk / "m.tagloom")
    lines = run("lm", "score", "m.tagloom", stdin="the boat\n\nthe cat").stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    assert [text for _, text in rows] == ["the boat", "", "the cat"]
    expected = [model.log_prob(text.split()) for _, text in rows]
    assert [float(score) for score, _ in rows] == pytest.approx(expected, abs=1e-4)
    (line,) = run("lm", "score", "m.tagloom", "--json", stdin="the boat\n").stdout.splitlines()
    assert json.loads(line) == {"log_prob": expected[0], "text": "the boat"}
    by_token = run("lm", "score", "m.tagloom", "--tokens", stdin="the cat\n").stdout
    assert [line.split("\t")[0] for line in by_token.splitlines()] == ["the", "cat", "</s>", ""]
    assert by_token.count("unknown") == 1
    (tokens,) = run("lm", "score", "m.tagloom", "--tokens", "--json", stdin="the cat").stdout.split(
        "\n"
    )[:-1]
    assert [row["unknown"] for row in json.loads(tokens)] == [False, True, False]


def test_score_total(run, desk):
    model = tl.load(desk / "m.tagloom")
    text = [["the", "boat"], ["the", "cat"]]
    done = run("lm", "score", "m.tagloom", "--total", "--json", stdin="the boat\n\nthe cat\n")
    assert json.loads(done.stdout) == {
        "perplexity": model.perplexity(text),
        "perplexity_without_unknown": model.perplexity(text, unknown=False),
        "sentences": 2,
        "tokens": 4,
        "unknown": 1,
    }
    shown = run("lm", "score", "m.tagloom", "--total", stdin="the boat\n\nthe cat\n").stdout
    assert f"perplexity  {model.perplexity(text):.2f}" in shown
    assert "2 sentences, 4 tokens, 1 unknown" in shown


def test_restore(run, desk):
    model = tl.load(desk / "m.tagloom")
    done = run("lm", "restore", "m.tagloom", stdin="the old _ left\n_ _\n")
    gaps = [["the", "old", None, "left"], [None, None]]
    assert done.stdout.splitlines() == [" ".join(model.restore(row)) for row in gaps]
    done = run("lm", "restore", "m.tagloom", "--gap", "NOISE", "--nbest", "2", stdin="the NOISE")
    readings = model.decode(["the", None]).nbest(2)
    expected = [f"{r.prob:.4f}\t{' '.join(r.tokens)}" for r in readings]
    assert done.stdout.splitlines() == expected
    options = ["--json", "--nbest", "1", "--marginals", "2"]
    (line,) = run("lm", "restore", "m.tagloom", *options, stdin="the _\n").stdout.splitlines()
    found = json.loads(line)
    assert found["text"] == found["nbest"][0]["text"] == " ".join(readings[0].tokens)
    (gap,) = found["gaps"]
    assert gap["position"] == 1
    words = [(w["word"], w["prob"]) for w in gap["words"]]
    assert words == model.decode(["the", None]).marginals(2)[1]
    shown = run("lm", "restore", "m.tagloom", "--marginals", "1", stdin="the _\n").stdout
    assert shown.splitlines()[1] == f"  1: {words[0][0]} {words[0][1]:.4f}"


def test_letters(run, desk):
    run("lm", "train", "-", "--unit", "letters", "-o", "l.tagloom", "-q", stdin="banana\n")
    done = run("lm", "restore", "l.tagloom", "--gap", "?", stdin="b?n?na\n")
    assert done.stdout == "banana\n"
    assert run("lm", "generate", "l.tagloom", "--start", "ban").stdout.startswith("ban")


def test_score_of_impossible_words_is_null_in_json(run, desk):
    run("lm", "train", "text.txt", "--closed", "-o", "closed.tagloom", "-q")
    (line,) = run("lm", "score", "closed.tagloom", "--json", stdin="the cat\n").stdout.splitlines()
    assert json.loads(line) == {"log_prob": None, "text": "the cat"}
    totals = json.loads(
        run("lm", "score", "closed.tagloom", "--total", "--json", stdin="the cat").stdout
    )
    assert (totals["perplexity"], totals["unknown"]) == (None, 1)


@pytest.mark.parametrize("command", [[], ["train"], ["score"], ["restore"], ["generate"]])
def test_help_names_every_option(run, command):
    done = run("lm", *command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: tagloom lm {' '.join(command)}".rstrip())
    assert "Examples:" in done.stdout
    for option in group.commands[command[0]].params if command else ():
        assert not isinstance(option, click.Option) or max(option.opts, key=len) in done.stdout


def test_generate(run, desk):
    options = ["-n", "4", "--random-state", "3", "--start", "the", "--max-tokens", "5"]
    one, two = (run("lm", "generate", "m.tagloom", *options).stdout for _ in range(2))
    assert one == two
    assert len(one.splitlines()) == 4
    assert all(line.split()[0] == "the" and len(line.split()) <= 6 for line in one.splitlines())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "text.txt", "-o", "x", "--order", "8"], ["--order", "1 to 7", "8"]),
        (["train", "text.txt", "-o", "x", "--k", "0"], ["--k", "above 0"]),
        (["train", "text.txt", "-o", "x", "--min-counts", "2,1"], ["--min-counts"]),
        (["train", "text.txt", "-o", "x", "--min-counts", "two"], ["--min-counts", "'two'"]),
        (["train", "text.txt", "-o", "x", "--closed", "--min-word-count", "2"], ["--min-word"]),
        (["train", "text.txt", "-o", "x", "--prune", "-1"], ["--prune", "-1"]),
        (["train", "missing.txt", "-o", "x"], ["missing.txt"]),
        (["train", "text.txt", "-o", "missing/x"], ["missing"]),
        (["train", "empty.txt", "-o", "x"], ["at least one sentence"]),
        (["train", "bad.txt", "-o", "x"], ["bad.txt:2"]),
        (["train", "marked.txt", "-o", "x"], ["marked.txt:1", "<s>"]),
        (["score", "text.txt", "text.txt"], ["text.txt:1", "ARPA"]),
        (["score", "damaged.tagloom", "text.txt"], ["damaged.tagloom"]),
        (["score", "m.tagloom", "worse.txt"], ["worse.txt:1"]),
        (["score", "m.tagloom", "marked.txt"], ["marked.txt:1", "'<s>'"]),
        (["score", "m.tagloom", "marked.txt", "--total"], ["marked.txt:1", "'<s>'"]),
        (["restore", "missing.tagloom"], ["missing.tagloom"]),
        (["restore", "m.tagloom", "marked.txt"], ["marked.txt:1", "'<s>'"]),
        (["restore", "m.tagloom", "text.txt", "--gap", ""], ["--gap"]),
        (["restore", "closed.tagloom", "unknown.txt"], ["unknown.txt:1", "'cat'"]),
        (["generate", "m.tagloom", "--temperature", "0"], ["--temperature"]),
        (["generate"], ["MODEL"]),
        (["learn"], ["learn"]),
    ],
)
def test_mistakes_are_one_line(run, desk, is_mistake, arguments, words):
    (desk / "empty.txt").write_text("\n")
    (desk / "bad.txt").write_bytes(b"ab\n\xff\n")
    (desk / "worse.txt").write_bytes(b"\xff\n")
    (desk / "marked.txt").write_text("<s> a </s>\n")
    data = bytearray((desk / "m.tagloom").read_bytes())
    data[-5] ^= 1
    data[len(data) // 2] ^= 1
    (desk / "damaged.tagloom").write_bytes(data)
    text = [line.split() for line in TEXT.splitlines()]
    tl.NGramModel(2, closed=True).fit(text).save(desk / "closed.tagloom")
    (desk / "unknown.txt").write_text("the cat _\n")
    assert is_mistake(run("lm", *arguments), *words)
    assert not (desk / "x").exists()
