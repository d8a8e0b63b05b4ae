"""tagloom eval and tagloom compare, as processes."""

import json

import pytest

import tagloom as tl
from commands import run

GOLD = "Ada B-PER\nLovelace I-PER\nwrote O\n\nIn O\nLondon B-LOC\n. O\n"
WRONG = "Ada B-PER\nLovelace I-PER\nwrote O\n\nIn O\nLondon I-LOC\n. I-PER\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "gold.conll").write_text(GOLD)
    (tmp_path / "wrong.conll").write_text(WRONG)
    (tmp_path / "short.conll").write_text(GOLD.replace(". O\n", ""))
    (tmp_path / "other.conll").write_text(GOLD.replace("London", "Oslo"))
    (tmp_path / "train.conll").write_text("Ada B-PER\nwrote O\n. O\n")
    return tmp_path


def test_eval_prints_what_evaluate_prints(files):
    done = run(files, "eval", "gold.conll", "wrong.conll", "--train", "train.conll")
    assert done.returncode == 0, done.stderr
    gold, wrong, train = (
        tl.read(files / name) for name in ("gold.conll", "wrong.conll", "train.conll")
    )
    assert done.stdout == f"{tl.evaluate(gold, wrong, train=train)}\n"
    assert "unknown (3)" in done.stdout
    assert "gold.conll: read as CoNLL columns" in done.stderr


def test_eval_as_json_strict_and_from_stdin(files):
    lenient = run(files, "eval", "gold.conll", "-", "--json", stdin=WRONG)
    strict = run(
        files, "eval", "gold.conll", "wrong.conll", "--json", "--strict", "--scheme", "bio"
    )
    assert (lenient.returncode, strict.returncode) == (0, 0), lenient.stderr + strict.stderr
    assert json.loads(lenient.stdout)["f1"] == 0.8
    result = json.loads(strict.stdout)
    assert (result["reading"], result["f1"]) == ("strict bio", 2 / 3)


def test_files_with_other_columns_and_separators(files):
    """The options that say how files are read hold for every file, as in the other commands."""
    table = [("gold.csv", GOLD), ("wrong.csv", WRONG), ("words.csv", "Ada B-PER\nwrote O\n")]
    for name, text in table:
        rows = [f"{i},{row}" if row else "" for i, row in enumerate(text.split("\n"))]
        (files / name).write_text("\n".join(rows).replace(" ", ","))
    options = ["--format", "conll", "--sep", ",", "--columns", "number,word,tag", "--token", "word"]
    options += ["--label", "tag", "--train", "words.csv", "--json"]
    done = run(files, "eval", "gold.csv", "wrong.csv", *options)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["f1"], result["n_known"], result["n_unknown"]) == (0.8, 2, 4)
    done = run(files, "compare", "gold.csv", "wrong.csv", "gold.csv", *options)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [result[system]["f1"] for system in "ab"] == [0.8, 1.0]


def test_the_training_file_may_have_another_format(files):
    (files / "gold.txt").write_text("Ada/B-PER wrote/O\n")
    options = ["--format", "slash", "--sep", "/", "--train", "train.conll", "--json"]
    done = run(files, "eval", "gold.txt", "gold.txt", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_known"] == 2


def test_gold_and_predicted_in_two_columns_of_one_file(files):
    (files / "both.conll").write_text("Ada B-PER O\nwrote O O\n")
    done = run(
        files,
        "eval",
        "both.conll",
        "both.conll",
        "--label",
        "1",
        "--predicted-label",
        "2",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["micro"]["gold"] == 1


def test_compare_prints_a_p_value_and_the_sentences(files):
    done = run(files, "compare", "gold.conll", "wrong.conll", "gold.conll", "--n-trials", "100")
    assert done.returncode == 0, done.stderr
    assert "100 trials" in done.stdout
    assert "token 1 'London': gold B-LOC, a I-LOC, b B-LOC" in done.stdout
    done = run(files, "compare", "gold.conll", "wrong.conll", "gold.conll", "--json")
    assert json.loads(done.stdout)["disagreements"][0]["sentence"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gold.conll", "none.conll"], ["none.conll"]),
        (["gold.conll", "short.conll"], ["short.conll:5: sentence 1: ", "3 labels", "found 2"]),
        (["gold.conll", "other.conll"], ["sentence 1, token 1: ", "'London'", "'Oslo'"]),
        (["gold.conll", "gold.conll", "--scheme", "bmeow"], ["--scheme must be ", "'bmeow'"]),
        (
            ["gold.conll", "gold.conll", "--scheme", "io"],
            ["gold.conll:1: sentence 0, token 0: ", "'B-PER'"],
        ),
        (["gold.conll", "gold.conll", "--label", "0", "--strict"], ["with --scheme."]),
        (["gold.conll", "gold.conll", "--no-spans", "--strict"], ["--strict must be ", "--no-sp"]),
        (["gold.conll", "gold.conll", "--n-bootstrap", "-1"], ["--n-bootstrap must be ", "-1"]),
    ],
)
def test_a_mistake_is_one_line_and_code_2(files, arguments, words):
    done = run(files, "eval", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("tagloom: ")
    assert all(word in line for word in words), line


def test_both_commands_are_listed():
    done = run(".", "--help")
    assert "eval" in done.stdout
    assert "compare" in done.stdout
