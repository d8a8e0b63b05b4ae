"""tagloom inspect, check of models, and the examples of every command."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import click
import pytest

import tagloom as tl
from commands import run as run_command
from tagloom.cli import COMMANDS
from tagloom.cli.groups import group
from tagloom.cli.options import find_taggers
from tagloom.cli.train import make_command


def test_inspect_shows_what_a_model_is_and_has_learnt(run, model):
    done = run("inspect", model)
    assert (done.returncode, done.stderr) == (0, "")
    out = done.stdout
    assert re.search(r"^model +CRF, \d+ kB$", out, re.MULTILINE)
    assert re.search(r"^labels +17: ADJ ADP", out, re.MULTILINE)
    assert "trained on  495 sentences, 7,266 tokens, labels of 'upos'" in out
    assert re.search(r"^training +\d+ iterations, loss [\d.]+, dev 0\.9\d+", out, re.MULTILINE)
    (verb,) = re.findall(r"^VERB((?: +[\d.]+  \S.*\n){5})", out, re.MULTILINE)
    weights = [float(line.split()[0]) for line in verb.splitlines()]
    assert weights == sorted(weights, reverse=True)
    table = out[out.index("from ↓ to →") :].splitlines()
    assert len(table) == 18
    assert [len(row.split()) for row in table[1:]] == [18] * 17
    assert "\x1b" not in out


def test_inspect_as_json_has_everything(run, model):
    value = json.loads(run("inspect", model, "--json", "--top", "2").stdout)
    tagger = tl.load(model)
    assert value["labels"] == tagger.labels_.tolist()
    assert value["bytes"] == model.stat().st_size
    assert value["training"] == json.loads(json.dumps(tagger.training_))
    assert value["parameters"]["algorithm"] == tagger.algorithm
    assert {(x["from"], x["to"]): x["weight"] for x in value["transitions"]} == (
        tagger.transition_features_
    )
    for label in tagger.labels_:
        shown = [x for x in value["weights"] if x["label"] == label]
        best = [w for w in tagger.feature_weights(label=label) if w.weight > 0]
        assert sorted(x["weight"] for x in shown) == sorted(w.weight for w in best[:2])


def test_inspect_by_pattern_and_label(run, model, is_mistake):
    done = run("inspect", model, "--pattern", "suffix*", "--label", "VERB", "--top", "3")
    tagger = tl.load(model)
    best = tagger.feature_weights("suffix*", label="VERB", n=3)
    assert [line.split(maxsplit=2) for line in done.stdout.splitlines()] == [
        ["VERB", f"{w.weight:.3f}", w.attribute] for w in best
    ]
    value = json.loads(run("inspect", model, "--pattern", "suffix*", "--json").stdout)
    strongest = tagger.feature_weights("suffix*", n=5)
    assert [x["weight"] for x in value["weights"]] == [w.weight for w in strongest]
    assert "no feature" in run("inspect", model, "--pattern", "magic*").stdout
    one = run("inspect", model, "--label", "VERB").stdout
    assert "NOUN → VERB" in one or "PRON → VERB" in one
    assert is_mistake(run("inspect", model, "--label", "V"), "--label must be ", "ADJ, ", "'V'")
    assert is_mistake(run("inspect", "none"), "none: No such file or directory.")


def test_check_verifies_a_model(run, model, tmp_path):
    done = run("check", model)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{model}: a model, 495 sentences, 7,266 tokens, 17 labels\n" in done.stdout
    assert "no problems" in done.stdout
    data = bytearray(model.read_bytes())
    data[-100] ^= 1  # a weight
    (tmp_path / "m.tagloom").write_bytes(data)
    done = run("check", "m.tagloom", "--json")
    assert done.returncode == 1
    ((problem,),) = [file["problems"] for file in json.loads(done.stdout)["files"]]
    assert problem["kind"] == "model"
    (tmp_path / "a.conll").write_text("a X\nb Y\n")
    done = run("check", "m.tagloom", "a.conll", "--rare", "1")
    assert done.returncode == 1
    assert "a.conll: CoNLL columns, 1 sentence" in done.stdout


# Every example that a help shows runs.


OURS = ("crf", "hmm", "memm", "perceptron", "svm", "token", "baseline")


def commands():
    context = click.Context(group)
    for name in COMMANDS:
        command = group.get_command(context, name)
        yield name, command
        for sub in command.commands if name == "lm" else ():
            yield f"{name} {sub}", command.commands[sub]
    for name in OURS:
        cls = find_taggers()[name]
        yield f"train {name}", make_command(name, cls)


RUN_ELSEWHERE = ("serve", "studio", "demo")  # they have tests of their own


def examples():
    for name, command in commands():
        lines = (command.epilog or "").split("\n")
        found = [line.strip() for line in lines if "tagloom " in line]
        yield name, found


def test_every_command_has_examples():
    assert all(found for _, found in examples())


@pytest.fixture(scope="module")
def desk(corpora, model, tmp_path_factory):
    """A folder with every file that the examples read."""
    folder = tmp_path_factory.mktemp("desk")
    for path in corpora.iterdir():
        shutil.copy(path, folder)
    shutil.copy(model, folder / "pos.tagloom")
    shutil.copy(model, folder / "small.tagloom")
    tagged = tl.read(folder / "test.conllu")
    tl.write(tagged.with_labels(tl.load(model).predict(tagged)), folder / "tagged.conllu")
    tl.NGramModel(3).fit(tl.read(folder / "train.conllu")).save(folder / "english.tagloom")
    dicts = tl.CRF(features=None, boundaries=False).fit([[{"a": 1}, {"b": 1}]], [["N", "V"]])
    dicts.save(folder / "dicts.tagloom")
    tl.interop.to_crfsuite(dicts, folder / "pos.crfsuite")
    wapiti = "#mdl#2#1\n#rdr#1/1/0\n9:u:%x[0,0],\n#qrk#1\n1:N,\n#qrk#1\n3:u:a,\n0=0x1p+0\n"
    (folder / "pos.wapiti").write_text(wapiti, encoding="utf-8")
    lines = [" ".join(tokens) for tokens in tl.read(folder / "dev.conllu").tokens]
    (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "words.txt").write_text("\n".join(lines[:20]), encoding="utf-8")
    states = tl.HMM(n_states=3).fit(tagged.tokens).predict(tagged.tokens)
    tl.write(tagged.with_labels(states), folder / "induced.conllu")
    sentences = (folder / "train.conllu").read_text(encoding="utf-8").split("\n\n")
    texts = [" ".join(re.findall(r"^\d+\t(\S+)", s, re.MULTILINE)) for s in sentences]
    with_text = [f"# text = {text}\n{s}" for text, s in zip(texts, sentences, strict=True) if text]
    (folder / "train.conllu").write_text("\n\n".join([*with_text, ""]), encoding="utf-8")
    (folder / ".zfunc").mkdir()
    # Each word depends on the word before it.
    rows = (folder / "test.conllu").read_text(encoding="utf-8").split("\n")
    for i, row in enumerate(rows):
        fields = row.split("\t")
        if len(fields) == 10 and fields[0].isdigit():
            head = int(fields[0]) - 1
            rows[i] = "\t".join([*fields[:6], str(head), "dep" if head else "root", *fields[8:]])
    (folder / "test.conllu").write_text("\n".join(rows), encoding="utf-8")
    parser = tl.DependencyParser(max_iterations=1).fit(tl.read(folder / "test.conllu"))
    parser.save(folder / "parser.tagloom")
    for part in ("in/a", "in/b", "shards/a", "shards/b"):
        (folder / part).parent.mkdir(exist_ok=True)
        tl.write(tagged[:20], folder / f"{part}.conllu.gz")
    for name in ("test.jsonl", "arguments.jsonl"):
        tl.sequences.write_frames(
            [tl.sequences.FrameSentence(["go"], [0], ["root"])], folder / name
        )
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="written for a POSIX shell")
@pytest.mark.parametrize(
    "example", [x for name, found in examples() for x in found if name not in RUN_ELSEWHERE]
)
def test_examples_of_the_help_run(example, desk, monkeypatch):
    monkeypatch.setenv("HOME", str(desk))  # where `completion --install` writes
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    if re.search(r"[<>|]", example):
        python = f"{sys.executable} -c 'from tagloom.cli import main; main()'"
        script = f'tagloom() {{ {python} "$@"; }}; {example}'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=desk,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
    else:
        done = run_command(desk, *shlex.split(example)[1:])
    # Repeated sentences, and labels that are probably wrong: there is something to report.
    finds = (
        "tagloom check train.conllu dev.conllu",
        "tagloom check train.conllu --label upos --err",
    )
    assert done.returncode == (1 if example.startswith(finds) else 0), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["hmm", "baseline"])
def test_inspect_shows_what_models_that_count_have_counted(run, tmp_path, name):
    (tmp_path / "a.conll").write_text("they N\ncan V\nfish V\n\nfish N\n\nthey N\nfish V\n\n")
    run("train", name, "a.conll", "-o", "m.tagloom", "-q")
    out = run("inspect", "m.tagloom").stdout
    assert re.search(r"^words +3$", out, re.MULTILINE)
    assert re.search(r"^trained on  3 sentences, 6 tokens", out, re.MULTILINE)
    assert ("from ↓ to →" in out) == (name == "hmm")
    tagger = tl.load(tmp_path / "m.tagloom")
    value = json.loads(run("inspect", "m.tagloom", "--json", "--label", "V", "--top", "1").stdout)
    (best,) = tagger.feature_weights(label="V", n=1)
    assert value["weights"] == [{"label": "V", "feature": best.attribute, "weight": best.weight}]
    assert "word=they" in run("inspect", "m.tagloom", "--pattern", "word=t*").stdout
