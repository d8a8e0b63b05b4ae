"""tagloom train, as a process."""

import inspect
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tagloom as tl
from tagloom.cli.options import find_taggers
from tagloom.cli.templates import read_features
from tagloom.cli.train import make_command
from tagloom.models import Capability

MODELS = {
    name: find_taggers()[name]
    for name in ("crf", "hmm", "memm", "perceptron", "svm", "token", "baseline")
}
NER = "Ann B-PER\nLee I-PER\nsaw O\nOslo B-LOC\n\nBo B-PER\nslept O\n\n"


def test_it_learns_saves_and_says_what(run, corpora, tmp_path):
    done = run(
        "train", "crf", "train.conllu", "--label", "upos", "--dev", "dev.conllu",
        "-o", tmp_path / "pos.tagloom", folder=corpora,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert done.stdout.startswith("trained on  495 sentences, 7,266 tokens\n")
    assert shown["labels"] == "17"
    assert shown["dev"].startswith("accuracy 0.9")
    assert done.stderr.splitlines() == [
        f"{name}.conllu: read as CoNLL-U (by the name .conllu)" for name in ("train", "dev")
    ]
    tagger = tl.load(tmp_path / "pos.tagloom", verify=True)
    assert tagger.score(tl.read(corpora / "test.conllu")) > 0.9
    record = tagger.training_
    assert (record["format"], record["label"]) == ("conllu", "upos")


@pytest.mark.parametrize("name", MODELS)
def test_every_model_gives_json_and_is_what_its_class_makes(run, name, tmp_path):
    (tmp_path / "ner.conll").write_text(NER)
    done = run("train", name, "ner.conll", "-o", "ner.tagloom", "--json", "--n-threads", "1")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert (value["sentences"], value["tokens"], value["labels"]) == (2, 6, 4)
    assert value["dev"] is None
    is_linear = Capability.FEATURES in MODELS[name].capabilities
    assert value["scheme"] == "bio" if is_linear else value["words"] == 6
    assert value["bytes"] == (tmp_path / "ner.tagloom").stat().st_size
    assert value["model"] == MODELS[name].__name__
    corpus = tl.read(tmp_path / "ner.conll")
    expected = MODELS[name](n_threads=1)
    expected.fit(corpus, **({"progress": False} if is_linear else {}))
    tagger = tl.load(tmp_path / "ner.tagloom")
    assert tagger.get_params() == expected.get_params()
    if is_linear:
        assert tagger.state_features_ == expected.state_features_
    np.testing.assert_array_equal(tagger.trellis(corpus).emit, expected.trellis(corpus).emit)


@pytest.mark.parametrize("name", MODELS)
def test_options_are_the_parameters_of_the_class(name):
    """Name, default and help come from the class; nothing is left out."""
    cls = MODELS[name]
    options = {option.name: option for option in make_command(name, cls).params}
    for declared in cls.parameters.values():
        if declared.name in ("features", "warm_start", "cost") or not declared.is_option:
            continue
        option = options[declared.name]
        assert (option.default, option.help) == (declared.default, declared.help)
        assert option.opts[0] == "--" + declared.name.replace("_", "-")
    assert list(cls.parameters) == list(inspect.signature(cls).parameters)
    assert ("features" in options) == (Capability.FEATURES in cls.capabilities)
    iterates = Capability.ITERATIONS in cls.capabilities or "n_states" in cls.parameters
    assert ("checkpoint" in options) == iterates
    assert ("dictionary" in options) == ("constraints" in options)
    if "constraints" in options:
        assert options["constraints"].type.choices[:3] == ("auto", "none", "bio")


@pytest.mark.parametrize("name", ["crf", "hmm"])
def test_help_without_docstrings(name, corpora):
    """``python -OO`` drops docstrings, on which no option depends."""
    code = "from tagloom.cli import main; main()"
    command = [sys.executable, "-OO", "-c", code, "train", name, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=corpora)
    assert done.returncode == 0, done.stderr
    for declared in MODELS[name].parameters.values():
        first = declared.help.split()[:2]  # the rest may be on the next line
        assert not declared.is_option or " ".join(first) in done.stdout, declared.name


def test_order_constraints_and_open_labels(run, tmp_path):
    rows = ['{"tokens": ["they", "fish"], "labels": ["N", null]}']
    rows += ['{"tokens": ["they", "swim"], "labels": ["N", "V"]}'] * 3
    (tmp_path / "open.jsonl").write_text("\n".join(rows) + "\n")
    done = run(
        "train", "crf", "open.jsonl", "-o", "open.tagloom", "--order", "2", "--states", "seen",
        "--dictionary", "3", "--constrain-training", "--features", "words",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tagger = tl.load(tmp_path / "open.tagloom")
    assert (tagger.order, tagger.states, tagger.constrain_training) == (2, "seen", True)
    assert tagger.constraints_.dictionary == {"they": ("N",), "swim": ("V",)}
    assert tagger.predict([["they", "swim"]]) == [["N", "V"]]


@pytest.mark.parametrize("name", ["hmm", "baseline"])
def test_models_that_count_are_measured_on_dev(run, is_mistake, corpora, tmp_path, name):
    done = run(
        "train", name, "train.conllu", "--label", "upos", "--dev", "dev.conllu",
        "-o", tmp_path / "m.tagloom", folder=corpora,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert shown["dev"].startswith("accuracy 0.8")
    words = {word for sentence in tl.read(corpora / "train.conllu") for word in sentence}
    assert shown["words"] == f"{len(words):,}"
    done = run("train", name, "x.conllu", "-o", "m", "--features", "pos")
    assert is_mistake(done, "No such option")
    assert "?." not in done.stderr


def test_options_reach_the_model(run, tmp_path):
    (tmp_path / "ner.conll").write_text(NER)
    done = run(
        "train", "crf", "ner.conll", "-o", "m.tagloom", "-q", "--algorithm", "lbfgs", "--l1", "0.1",
        "--constraints", "none", "--no-boundaries", "--max-iterations", "3",
        "--features", "word; suffix(1..2) ; word[-1] & word",
        "--labels", "O,B-PER,I-PER,B-LOC,I-LOC",
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    tagger = tl.load(tmp_path / "m.tagloom")
    params = tagger.get_params()
    assert (params["algorithm"], params["l1"], params["constraints"]) == ("lbfgs", 0.1, None)
    assert (params["boundaries"], params["max_iterations"]) == (False, 3)
    assert tagger.labels_.tolist() == ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    assert tagger.scores_.extractor.templates == ["word", "suffix(1)", "suffix(2)", "word[-1]&word"]


def test_features_may_be_files_and_use_lexicons(run, is_mistake, tmp_path):
    (tmp_path / "ner.conll").write_text(NER)
    (tmp_path / "crfpp.txt").write_text("# unigrams\nU00:%x[0,0]\nU01:%x[-1,0]\nB\n")
    (tmp_path / "own.txt").write_text("word\n# and\nlexicon(people)\n")
    (tmp_path / "people.txt").write_text("Ann Lee\nBo\n")
    (tmp_path / "clusters.txt").write_text("01\tAnn\t3\n10\tBo\t2\n")
    for features, more, name in [
        ("crfpp.txt", [], "U00:Ann"),
        ("own.txt", ["--lexicon", "people=people.txt"], "lexicon(people)"),
        ("words", [], "word=Ann"),
        ("words", ["--lexicon", "people=people.txt"], "lexicon(people)=B"),
        ("auto", ["--lexicon", "people=people.txt"], "lexicon(people)=B"),
        ("auto", ["--lexicon", "people=people.txt"], "short_shape[-2]="),  # as for entities
        ("word", ["--clusters", "c=clusters.txt", "--features", "words"], "cluster(c)=01"),
    ]:
        done = run(
            "train", "crf", "ner.conll", "-o", "m.tagloom", "-q", "--features", features, *more
        )
        assert (done.returncode, done.stderr) == (0, "")
        weights = tl.load(tmp_path / "m.tagloom").feature_weights()
        assert any(w.attribute.startswith(name) for w in weights)
    train = ["train", "crf", "ner.conll", "-o", "m.tagloom"]
    assert is_mistake(run(*train, "--features", "none.tpl"), "none.tpl: No such file")
    assert is_mistake(run(*train, "--features", "magic"), "magic")
    assert is_mistake(run(*train, "--lexicon", "people"), "expected NAME=FILE")


def test_each_model_is_described_by_one_whole_sentence(run):
    done = run("train", "--help")
    assert "  perceptron  An averaged structured perceptron.\n" in done.stdout
    assert "..." not in done.stdout.partition("Commands:")[2]
    assert (
        "  An averaged structured perceptron.\n\n  The model is trained on TRAIN; - is stdin. "
        in run("train", "perceptron", "--help").stdout
    )


def test_templates_are_split_outside_of_parentheses_and_quotes():
    extractor = read_features('word; regex("a;b")\nsuffix(2)', {})
    assert extractor.templates == ["word", 'regex("a;b")', "suffix(2)"]


def test_the_model_remembers_columns(run, tmp_path):
    (tmp_path / "a.conll").write_text("Ann NNP B-PER\nsaw VBD O\nBo NNP B-PER\n\n")
    done = run(
        "train", "crf", "a.conll", "--columns", "word,pos,ner", "-o", "m.tagloom", "-q",
        "--features", "word; col(pos)",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    record = tl.load(tmp_path / "m.tagloom").training_
    assert (record["columns"], record["label"]) == (["word", "pos", "ner"], "ner")
    for text in ("Eve NNP\nsaw VBD\n", "Eve NNP O\nsaw VBD O\n"):  # without and with labels
        done = run("tag", "m.tagloom", "-q", stdin=text)
        assert done.returncode == 0, done.stderr
        assert done.stdout == text.replace("\n", " B-PER\n", 1)[:-1] + " O\n"
    done = run("eval", "m.tagloom", "a.conll", "--json")
    assert json.loads(done.stdout)["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.conll", "-o", "m"], ["none.conll: No such file or directory."]),
        (["ner.conll", "-o", "no/such/m"], ["no/such/m: No such file or directory;"]),
        (["ner.conll", "-o", "."], ["-o"]),
        (["ner.conll"], ["'-o' / '--output'"]),
        (["ner.conll", "-o", "m", "--label", "7"], ["ner.conll: --label must be ", "got 7."]),
        (["ner.conll", "-o", "m", "--algorithm", "lbfgs", "--l1", "-1"], ["l1 must be ", "-1"]),
        (["one.conll", "-o", "m"], ["the label 'O'", "--label"]),
        (["ner.conll", "-o", "m", "--dev", "bad.conll"], ["bad.conll:3: expected"]),
        (["ner.conll", "-o", "m", "--algorithm", "magic"], ["'--algorithm'"]),
    ],
)
def test_a_mistake_is_one_line_and_code_2(run, is_mistake, arguments, words, tmp_path):
    (tmp_path / "ner.conll").write_text(NER)
    (tmp_path / "one.conll").write_text("a O\nb O\n")
    (tmp_path / "bad.conll").write_text("# c\na\nb O\n")
    assert is_mistake(run("train", "crf", *arguments), *words)
    assert not (tmp_path / "m").exists()


def test_debug_shows_the_traceback_wherever_it_stands(run):
    for arguments in (["--debug", "train", "crf", "none.conll", "-o", "m"],
                      ["train", "crf", "none.conll", "-o", "m", "--debug"]):  # fmt: skip
        done = run(*arguments)
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        assert "FileNotFoundError" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_saves_what_was_learnt_so_far(corpora, tmp_path):
    path = tmp_path / "m.tagloom"
    started = tmp_path / "started"
    code = f"""if True:
        from pathlib import Path
        from tagloom.cli import main
        from tagloom.training.online import SGD
        step = SGD.step
        def tell(learner):
            result = step(learner)
            Path({str(started)!r}).touch()
            return result
        SGD.step = tell
        main()"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, "train", "crf", "train.conllu", "-o", str(path),
         "--algorithm", "sgd", "--max-iterations", "100000", "--json"],  # for hours
        cwd=corpora, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not started.exists():  # after the first iteration
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"tagloom: interrupted; iteration {json.loads(out)['best_iteration']} is saved" in err
    assert json.loads(out)["stopped"] == "interrupted"
    assert tl.load(path).training_["stopped"] == "interrupted"


def test_a_checkpoint_is_resumed(run, tmp_path):
    (tmp_path / "ner.conll").write_text(NER)
    train = ["train", "crf", "ner.conll", "-q", "--max-iterations"]
    checkpoint = ["--checkpoint", "run.tagloom"]
    assert run(*train, "2", "-o", "a.tagloom", *checkpoint).returncode == 0
    assert run(*train, "5", "-o", "b.tagloom", *checkpoint).returncode == 0
    assert run(*train, "5", "-o", "c.tagloom").returncode == 0
    resumed, once = (tl.load(tmp_path / name) for name in ("b.tagloom", "c.tagloom"))
    assert resumed.state_features_ == once.state_features_
    assert len(resumed.history_) == 5


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX terminal")
def test_progress_is_shown_on_a_terminal_only(corpora, tmp_path):
    import pty

    terminal, end = pty.openpty()
    code = "from tagloom.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "train", "crf", "train.conllu", "-o", tmp_path / "m"],
        cwd=corpora, stdout=subprocess.PIPE, stderr=end, text=True,
    ) as process:  # fmt: skip
        os.close(end)
        out, shown = process.stdout.read(), b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
        except OSError:  # Linux says so when the other end is closed
            pass
        os.close(terminal)
    assert process.returncode == 0
    assert b"CRF" in shown
    assert b"loss" in shown
    assert "\x1b" not in out


def test_calibrate(run, corpora, tmp_path, is_mistake):
    train, dev = corpora / "train.conllu", corpora / "dev.conllu"
    options = ["--label", "upos", "--dev", dev, "--calibrate", "-o", "m.tagloom"]
    done = run("train", "hmm", train, *options)
    assert done.returncode == 0, done.stderr
    temperature = tl.load(tmp_path / "m.tagloom").temperature_
    assert f"temperature {temperature:.4g}\n" in done.stdout
    assert f"temperature {temperature:.4g}\n" in run("inspect", "m.tagloom").stdout
    done = run("train", "hmm", train, "--calibrate", "-o", "n.tagloom")
    assert is_mistake(done, "--calibrate needs --dev")


def test_files_stay_on_disk(run, corpora, tmp_path):
    train = tl.read(corpora / "train.conllu")
    for i in range(3):
        tl.write(tl.Corpus(train[i::3]), tmp_path / f"shard{i}.conllu.gz")
    options = ["--algorithm", "lbfgs", "--max-iterations", 3, "--label", "upos"]
    done = run("train", "crf", "shard*.conllu.gz", *options, "--n-workers", 2, "-o", "m", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["sentences"] == len(train)
    record = tl.load(tmp_path / "m").training_
    assert (record["shards"], record["label"]) == (3, "upos")
    done = run("train", "baseline", "shard*.conllu.gz", "-o", "m")
    assert done.returncode == 2
    assert "learns from one file" in done.stderr
    done = run("train", "crf", "shard*.conllu.gz", "-o", "m", "--tokenizer", "learn")
    assert done.returncode == 2
    assert "--tokenizer needs TRAIN as one file" in done.stderr


def test_names_of_numbered_labels_are_stored_in_the_model(run, tmp_path):
    row = json.dumps({"tokens": ["Bo", "slept"], "labels": [1, 0]}) + "\n"
    (tmp_path / "train.jsonl").write_text(row * 4)
    (tmp_path / "names.json").write_text('["O", "B-PER"]')
    train = ("train", "crf", "train.jsonl", "--label-names", "names.json", "-o", "m.tagloom")
    assert run(*train, folder=tmp_path).returncode == 0
    assert tl.load(tmp_path / "m.tagloom").training_["label_names"] == ["O", "B-PER"]
    (tmp_path / "names.json").unlink()
    done = run("eval", "m.tagloom", "train.jsonl", "--n-bootstrap", "0", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    # A model of an earlier version, or of a stranger, may name a file: it is not opened.
    tagger = tl.load(tmp_path / "m.tagloom")
    tagger.training_["label_names"] = "names.json"
    tagger.save(tmp_path / "m.tagloom")
    done = run("eval", "m.tagloom", "train.jsonl", "--n-bootstrap", "0", folder=tmp_path)
    assert done.returncode == 2
    assert "Pass the names of numbered labels as --label-names" in done.stderr
    assert "names.json" not in done.stderr
