"""``tagloom train parser``, ``tag`` and ``eval`` with a parser."""

import json

from commands import run

CONLLU = """\
# text = they can fish
1\tthey\tthey\tPRON\tPRP\t_\t3\tnsubj\t_\t_
2\tcan\tcan\tAUX\tMD\t_\t3\taux\t_\t_
3\tfish\tfish\tVERB\tVB\t_\t0\troot\t_\t_

1\tthey\tthey\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tfish\tfish\tVERB\tVB\t_\t0\troot\t_\t_

"""


def test_train_tag_and_eval(tmp_path):
    (tmp_path / "train.conllu").write_text(CONLLU)
    options = ("--hash-bits", 16, "--json")
    trained = run(
        tmp_path,
        "train",
        "parser",
        "train.conllu",
        "-o",
        "p.tagloom",
        "--dev",
        "train.conllu",
        *options,
    )
    assert trained.returncode == 0, trained.stderr
    summary = json.loads(trained.stdout)
    assert summary["dev"] == 1.0
    assert summary["sentences"] == 2
    blank = CONLLU.replace("\t3\tnsubj", "\t_\t_").replace("\t0\troot", "\t_\t_")
    tagged = run(tmp_path, "tag", "p.tagloom", stdin=blank)
    assert tagged.returncode == 0, tagged.stderr
    assert tagged.stdout == CONLLU
    (tmp_path / "parsed.conllu").write_text(tagged.stdout)
    scored = run(tmp_path, "eval", "p.tagloom", "train.conllu", "--json")
    assert json.loads(scored.stdout)["las"] == 1.0
    text = run(tmp_path, "eval", "train.conllu", "parsed.conllu", "--trees")
    assert "UAS" in text.stdout
    assert text.returncode == 0


def test_mistakes_are_one_line(tmp_path):
    (tmp_path / "bad.conllu").write_text(CONLLU.replace("\t3\taux", "\t9\taux"))
    trained = run(tmp_path, "train", "parser", "bad.conllu", "-o", "p.tagloom")
    assert trained.returncode == 2
    assert trained.stderr.count("\n") == 1
    assert "sentence 0, token 1" in trained.stderr
    (tmp_path / "good.conllu").write_text(CONLLU)
    run(tmp_path, "train", "parser", "good.conllu", "-o", "p.tagloom", "--hash-bits", 16, "-q")
    refused = run(tmp_path, "tag", "p.tagloom", "good.conllu", "--nbest", 2)
    assert refused.returncode == 2
    assert "parser" in refused.stderr
