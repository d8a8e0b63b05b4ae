"""tagloom tag, and eval and compare of models, as processes."""

import io
import json
import os
import re
import select
import subprocess
import sys
import time

import pytest

import tagloom as tl

COMMAND = [sys.executable, "-c", "from tagloom.cli import main; main()"]


def test_columns_comments_and_blank_lines_stay(run, model):
    text = "# id = 1\nThey  x\ncan   y\r\nfish  z \n\n\n# id = 2\nPlease  x\n-DOCSTART- x\nbook  y"
    done = run("tag", model, "-q", stdin=text)
    assert (done.returncode, done.stderr) == (0, "")
    bare = re.sub(r" [A-Z]+(?= ?\r?$)", "", done.stdout.replace("\r\n", "\n"), flags=re.MULTILINE)
    assert bare == text.replace("\r\n", "\n")
    assert done.stdout.startswith("# id = 1\nThey  x PRON\ncan   y AUX\n")


def test_it_gives_what_predict_gives_in_every_format(run, model, corpora, tmp_path):
    tagger = tl.load(model)
    test = tl.read(corpora / "test.conllu")
    expected = tagger.predict(test)
    for name, options in [
        ("out.conllu", []),
        ("out.conllu.gz", []),
        ("out.jsonl", []),
        ("out.conll", []),
        ("one.conllu", ["--threads", "1"]),
    ]:
        done = run("tag", model, corpora / "test.conllu", "-o", name, *options)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert done.stderr.endswith("test.conllu: read as CoNLL-U (by the name .conllu)\n")
        assert tl.read(tmp_path / name).labels == expected, name
    for name, options in [("in.jsonl", []), ("in.conll", [])]:
        tl.write(tl.Corpus(test.tokens), tmp_path / name)
        done = run("tag", model, name, "-q", *options)
        (tmp_path / "out").write_text(done.stdout)
        assert tl.read(tmp_path / "out", name[3:]).labels == expected
    # word/TAG in, word/TAG out: the old tags do not matter
    tl.write(test.with_labels([["X"] * len(s) for s in test]), tmp_path / "in.txt", "slash")
    done = run("tag", model, "in.txt", "-q", "--format", "slash", "-o", "out.txt")
    assert (done.returncode, done.stderr) == (0, "")
    assert tl.read(tmp_path / "out.txt", "slash").labels == expected


def test_plain_text_becomes_word_slash_tag(run, model):
    for text, options in [
        ("They can fish .\n\nPlease book a room .\n", ["--format", "text"]),
        ("They can fish .\n\nPlease book a room\n", []),  # nothing else fits
    ]:
        done = run("tag", model, *options, stdin=text)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("They/PRON can/AUX fish/VERB ./PUNCT\n\nPlease/")
        words = [item.rpartition("/")[0] for item in done.stdout.split()]
        assert words == text.split()
        notice = "<stdin>: read as plain text (one sentence per line)\n"
        assert done.stderr == ("" if options else notice)


def test_one_token_a_row_needs_no_other_column(run, model):
    done = run("tag", model, stdin="They\ncan\nfish\n\n")
    assert done.stdout == "They PRON\ncan AUX\nfish VERB\n\n"
    assert "one token per row" in done.stderr


def test_labels_go_into_a_column_that_is_named(run, model, is_mistake):
    table = "sentence,word,tag\n1,They,?\n1,can,?\n"
    done = run("tag", model, "-q", "--label", "tag", stdin=table)
    assert done.stdout == "sentence,word,tag\n1,They,PRON\n1,can,AUX\n"
    text = "They ? x\ncan ? y\n"
    done = run("tag", model, "-q", "--label", "1", stdin=text)
    assert done.stdout == "They PRON x\ncan AUX y\n"
    done = run("tag", model, "-q", "--label", "pos", "--columns", "word,pos,z", stdin=text)
    assert done.stdout == "They PRON x\ncan AUX y\n"
    done = run("tag", model, "-q", "--label", "7", stdin=text)
    assert is_mistake(done, "--label must be ", "got 7.")
    conllu = "1\tThey\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    done = run("tag", model, "-q", "--label", "xpos", stdin=conllu)
    assert done.stdout == "1\tThey\t_\t_\tPRON\t_\t_\t_\t_\t_\n\n"
    done = run("tag", model, "-q", "--label", "pos", stdin='{"tokens": ["They"]}\n')
    assert json.loads(done.stdout) == {"tokens": ["They"], "pos": ["PRON"]}


def test_one_token_per_row_where_training_had_named_columns(run, tmp_path, is_mistake):
    rows = "Ann NNP B-PER\nleft VBD O\n\nOslo NNP B-LOC\n"
    train = tl.read(io.StringIO(rows), columns=["word", "pos", "ner"])
    for name, features in {"word": ["word"], "pos": ["word", "col(pos)"]}.items():
        (tmp_path / "train.conll").write_text(rows)
        options = ["--columns", "word,pos,ner", "--features", "; ".join(features)]
        run("train", "crf", tmp_path / "train.conll", *options, "-o", tmp_path / name, "-q")
    done = run("tag", tmp_path / "word", "-q", stdin="Ann\nleft\n\n")
    assert done.stdout == "Ann B-PER\nleft O\n\n"
    done = run("tag", tmp_path / "pos", "-q", stdin="Ann\nleft\n\n")
    assert is_mistake(done, "expected column pos, which template 1, 'col(pos)', reads", "word.")
    assert tl.load(tmp_path / "pos").predict(train) == train.labels


CORPUS = tl.Corpus([["Ann", "left", "Oslo"]], [["B-PER", "O", "B-LOC"]])


@pytest.fixture(scope="module")
def spans_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("spans") / "spans.tagloom"
    tl.CRF("words").fit(CORPUS).save(path)
    return path


@pytest.mark.parametrize("format", ["spacy", "label-studio", "json", "json-spans", "brat"])
def test_formats_with_one_place_for_labels(run, spans_model, tmp_path, format, is_mistake):
    source, target = (tmp_path / f"{x}.{'ann' if format == 'brat' else 'json'}" for x in "ab")
    tl.write(CORPUS.with_labels([["O"] * 3]), source, format)
    done = run("tag", spans_model, source, "-o", target, "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert tl.read(target).labels == CORPUS.labels
    done = run("tag", spans_model, source, "-o", target, "-q", "--marginals", "--nbest", "2")
    if format in ("json", "json-spans"):
        (value,) = json.loads(target.read_text())
        assert (len(value["nbest"]), len(value["probs"])) == (2, 3)
    else:
        assert is_mistake(done, "--marginals has no place in", "out.jsonl")
    done = run("tag", spans_model, source, "-o", tmp_path / "c.jsonl", "-q", "--marginals")
    assert (done.returncode, done.stderr) == (0, "")


def test_arrays_are_tagged_as_the_lines_of_training(run, tmp_path):
    row = {"tokens": ["They", "fish"], "ner_tags": [0, 0], "pos_tags": [0, 1]}
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n")
    options = ["--label", "pos_tags", "--label-names", "PRON,VERB", "-o", tmp_path / "m", "-q"]
    run("train", "crf", tmp_path / "train.jsonl", *options)
    row["pos_tags"] = [0, 0]
    done = run("tag", tmp_path / "m", "-q", stdin=json.dumps([row]))
    assert json.loads(done.stdout) == [row | {"pos_tags": [0, 1]}]


def test_attributes_of_crfsuite(run, tmp_path):
    rows = "B-PER\tw=Ann\tlength:3\nO\tw=left\n\nB-LOC\tw=Oslo\n\n"
    (tmp_path / "train.txt").write_text(rows)
    run("train", "crf", tmp_path / "train.txt", "-o", tmp_path / "m", "-q")
    (tmp_path / "test.txt").write_text(rows.replace("B-PER", "?"))
    done = run("tag", tmp_path / "m", "-q", "--format", "crfsuite", tmp_path / "test.txt")
    assert (done.returncode, done.stdout) == (0, rows)


def test_nbest_has_no_place_in_tables(run, model, is_mistake):
    done = run("tag", model, "-q", "--nbest", "2", stdin="sentence,word\n1,They\n")
    assert is_mistake(done, "--nbest has no place in a table", "out.jsonl")


def test_marginals(run, model):
    tagger, words = tl.load(model), ["They", "can", "fish"]
    gamma = tagger.predict_marginals([words], as_dict=True)[0]
    labels = tagger.predict([words])[0]
    probs = [f"{g[y]:.4f}" for g, y in zip(gamma, labels, strict=True)]
    done = run("tag", model, "-q", "--marginals", stdin="They  x\ncan  y\nfish  z\n")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[2:] for row in rows] == [[y, p] for y, p in zip(labels, probs, strict=True)]
    done = run("tag", model, "--marginals", "--format", "text", stdin="They can fish\n")
    assert done.stdout == " ".join(map("/".join, zip(words, labels, probs, strict=True))) + "\n"
    conllu = "1\tThey\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No|Prob=0.1\n2\tcan" + "\t_" * 8 + "\n\n"
    done = run("tag", model, "-q", "--marginals", stdin=conllu)
    misc = [line.split("\t")[9] for line in done.stdout.splitlines()[:2]]
    assert re.fullmatch(r"SpaceAfter=No\|Prob=0\.\d{4}", misc[0])
    assert re.fullmatch(r"Prob=0\.\d{4}", misc[1])
    done = run("tag", model, "-q", "--marginals", stdin='{"tokens": ["They", "can", "fish"]}\n')
    value = json.loads(done.stdout)
    assert list(value) == ["tokens", "labels", "probs"]
    assert [f"{p:.4f}" for p in value["probs"]] == probs


def test_nbest(run, model):
    tagger, words = tl.load(model), ["They", "can", "fish"]
    best = tagger.predict_nbest([words], 3)[0]
    done = run("tag", model, "-q", "--nbest", "3", stdin="# id = 7\nThey\ncan\nfish\n\n")
    blocks = done.stdout.split("\n\n")
    assert blocks.pop() == ""
    for i, (block, labelling) in enumerate(zip(blocks, best, strict=True), 1):
        lines = block.split("\n")
        assert lines[:2] == ["# id = 7", f"# nbest = {i}, prob = {labelling.prob:.4f}"]
        assert [line.split()[1] for line in lines[2:]] == labelling.labels
    done = run("tag", model, "--nbest", "2", "--format", "text", stdin="They can fish\n")
    assert done.stdout.splitlines()[::2] == [
        f"# nbest = {i}, prob = {x.prob:.4f}" for i, x in enumerate(best[:2], 1)
    ]
    done = run("tag", model, "-q", "--nbest", "2", stdin='{"tokens": ["They", "can", "fish"]}')
    value = json.loads(done.stdout)
    assert [x["labels"] for x in value["nbest"]] == [x.labels for x in best[:2]]
    assert value["labels"] == best[0].labels
    done = run("tag", model, "-q", "--nbest", "2", "--marginals", stdin="They x\ncan y\n")
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("They", "can"))]
    assert [len(row) for row in rows] == [4] * 4


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX pipes")
@pytest.mark.parametrize(
    ("sentence", "options"),
    [
        (b"They x\ncan y\n\n", ["-q"]),
        (b"They\ncan\n\n", ["-q"]),
        (b"They can .\n", ["--format", "text"]),
    ],
)
def test_a_sentence_is_answered_before_the_next_is_sent(model, sentence, options):
    with subprocess.Popen(
        [*COMMAND, "tag", str(model), *options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
    ) as process:  # fmt: skip
        for _ in range(3):
            process.stdin.write(sentence)
            answer, end = b"", time.monotonic() + 20
            while answer.count(b"\n") < sentence.count(b"\n") and time.monotonic() < end:
                if select.select([process.stdout], [], [], 1)[0]:
                    answer += process.stdout.read(1000)
            assert answer.split()[0].startswith(b"They")
            assert b"PRON" in answer
            assert answer.count(b"\n") == sentence.count(b"\n")
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0


def test_a_pipe_is_guessed_like_a_file(run, model, tmp_path):
    """The first lines have equally many words; only the later ones show that it is text."""
    text = "They can fish\nWe can swim\n\nThey fish\n"
    (tmp_path / "text").write_text(text)
    by_name, by_pipe = run("tag", model, tmp_path / "text"), run("tag", model, stdin=text)
    assert by_pipe.stdout == by_name.stdout
    assert by_pipe.stdout.splitlines()[0].count("/") == 3


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="measures memory by resource")
def test_a_long_stream_needs_constant_memory(model, tmp_path):
    code = (
        "import resource, sys; from tagloom.cli import main\n"
        "try: main()\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )

    def peak(n_sentences):
        path = tmp_path / "long.conll"
        path.write_bytes(b"They x\ncan y\nfish z\nhere w\n\n" * n_sentences)
        arguments = ["tag", str(model), str(path), "-o", os.devnull, "-q", "--threads", "1"]
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
        )
        return int(done.stderr.split()[-1])

    few, many = peak(20_000), peak(100_000)  # the difference is 2.2 MB of text
    assert many - few < 5_000, (few, many)


def test_output_that_nobody_reads_ends_quietly(corpora, model):
    if os.name == "nt":
        pytest.skip("needs POSIX pipes")
    done = subprocess.run(
        ["bash", "-c", '"$@" | head -1', "x", *COMMAND, "tag", str(model), "train.conllu", "-q"],
        cwd=corpora, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.tagloom"], ["none.tagloom: No such file or directory."]),
        (["text.conll"], ["text.conll: "]),
        (["-"], ["stdin"]),
        (["{model}", "none.conll"], ["none.conll: No such file or directory."]),
        (["{model}", "bad.conll"], ["bad.conll:2: ", "2 columns", "found 1", "--sep"]),
        (["{model}", "text.conll", "--nbest", "0"], ["'--nbest'"]),
        (["{model}", "text.conll", "-o", "no/such"], ["No such file or directory"]),
    ],
)
def test_a_mistake_is_one_line_and_code_2(run, model, tmp_path, is_mistake, arguments, words):
    (tmp_path / "text.conll").write_text("a x\n" * 50)
    (tmp_path / "bad.conll").write_text("a x\nb\n")
    arguments = [argument.format(model=model) for argument in arguments]
    assert is_mistake(run("tag", "-q", *arguments), *words)


# eval and compare of models.


def test_eval_of_a_model_is_evaluate_of_its_predictions(run, model, corpora):
    done = run(
        "eval", model, "test.conllu", "--train", "train.conllu", "--n-bootstrap", "50",
        folder=corpora,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    test, train = (tl.read(corpora / f"{name}.conllu") for name in ("test", "train"))
    predicted = test.with_labels(tl.load(model).predict(test))
    assert done.stdout == f"{tl.evaluate(test, predicted, train=train, n_bootstrap=50)}\n"
    assert done.stderr.count("\n") == 2  # what was guessed about two files
    done = run("eval", model, "-", "--json", stdin=(corpora / "test.conllu").read_text("utf-8"))
    assert json.loads(done.stdout)["accuracy"] == tl.load(model).score(test)


def test_a_model_is_known_by_its_content(run, model, corpora, tmp_path, is_mistake):
    (tmp_path / "anything").write_bytes(model.read_bytes())
    done = run("eval", "anything", corpora / "test.conllu", "--json")
    assert done.returncode == 0, done.stderr
    assert is_mistake(run("eval", corpora / "test.conllu", model), "The model comes first")
    (tmp_path / "m.tagloom").write_bytes(model.read_bytes()[:-10])
    assert is_mistake(run("eval", "m.tagloom", corpora / "test.conllu"), "m.tagloom")
    done = run("eval", model, corpora / "test.conllu", "--predicted-label", "xpos")
    assert is_mistake(done, "--predicted-label needs a file")


def test_compare_takes_models_and_files(run, model, corpora, tmp_path):
    done = run("tag", model, corpora / "test.conllu", "-o", tmp_path / "tagged.conllu", "-q")
    assert done.returncode == 0
    done = run(
        "compare", corpora / "test.conllu", "tagged.conllu", model, "--json",
        "--n-trials", "20", "--n-bootstrap", "20",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["disagreements"] == []


def test_unbuffered_output_that_does_not_fit_is_an_error(corpora, tmp_path):
    """A raw stdout takes a part of the bytes and returns how many; the rest must not get lost."""
    resource = pytest.importorskip("resource")
    with open(tmp_path / "out", "wb") as out:
        done = subprocess.run(
            [*COMMAND, "convert", "train.conllu", "-", "--to", "jsonl", "-q"],
            cwd=corpora,
            stdout=out,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
            timeout=120,
        )
    assert done.returncode != 0
    assert b"File too large" in done.stderr


def test_a_name_of_another_format_is_refused(run, model, is_mistake):
    done = run("tag", model, "-q", "-o", "out.xml", "--format", "text", stdin="They can fish .\n")
    assert is_mistake(done, "'out.xml'", ".jsonl")


RAW = "They can't fish.  Please book a room!\n\nIt's ok\n"


def test_raw_text(run, model, tmp_path):
    """Sentences and tokens of raw text, in the formats that a name implies."""
    (tmp_path / "raw.txt").write_text(RAW)
    done = run("tag", model, "--text", stdin=RAW)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("They/PRON ca/AUX n't/PART fish/VERB ./PUNCT\nPlease/")
    assert len(done.stdout.splitlines()) == 3

    done = run("tag", model, "raw.txt", "--text", "--marginals", "-o", "out.jsonl")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    expected = tl.load(model).tag_text(RAW, probs=True)
    assert [row["labels"] for row in rows] == [s.labels for s in expected]
    for row, sentence in zip(rows, expected, strict=True):
        assert [RAW[start:end] for start, end in row["offsets"]] == row["tokens"]
        assert RAW[row["start"] : row["end"]] == row["text"]
        assert row["probs"] == [round(p, 6) for p in sentence.probs]
    assert tl.read(tmp_path / "out.jsonl").tokens == [s.tokens for s in expected]

    done = run("tag", model, "raw.txt", "--text", "--marginals", "-o", "out.conllu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    corpus = tl.read(tmp_path / "out.conllu")
    assert corpus.labels == [s.labels for s in expected]
    assert corpus[0].comments == ["# text = They can't fish."]
    assert corpus[0].columns["misc"][1].startswith("SpaceAfter=No|Prob=0.")
    assert tl.Tokenizer().evaluate(corpus).tokens.f1 == 1


def test_raw_text_mistakes(run, model, is_mistake):
    assert is_mistake(run("tag", model, "--text", "--format", "conllu", stdin="a"), "--format")
    assert is_mistake(run("tag", model, "--text", "-o", "out.xlsx", stdin="a"), "out.xlsx")


def test_several_labellings_of_raw_text(run, model, tmp_path):
    (tmp_path / "raw.txt").write_text(RAW)
    tagger = tl.load(model)
    sentences = tagger.tokenizer_.split(RAW)
    expected = tagger.predict_nbest(sentences, 2)
    done = run("tag", model, "raw.txt", "--text", "--nbest", "2", "-o", "out.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [[best["labels"] for best in row["nbest"]] for row in rows] == [
        [best.labels for best in labellings] for labellings in expected
    ]
    assert [row["labels"] for row in rows] == [row["nbest"][0]["labels"] for row in rows]
    done = run("tag", model, "raw.txt", "--text", "--nbest", "2", "-o", "out.conllu")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.conllu").read_text().count("# nbest = 2, prob = ") == len(sentences)


def test_a_tokenizer_is_trained_saved_and_used(run, tmp_path):
    rows = ["1\tBa\t_\tN\t_\t_\t_\t_\t_\tSpaceAfter=No\n", "2\t-lo\t_\tV\t_\t_\t_\t_\t_\t_\n\n"]
    (tmp_path / "train.conllu").write_text("".join(rows * 30))
    for name, expected in [("learn", "Ba/N -lo/V\n"), ("characters", "B/")]:
        train = ("train", "crf", "train.conllu", "-o", "m.tagloom", "-q", "--tokenizer", name)
        done = run(*train)
        assert (done.returncode, done.stderr) == (0, "")
        done = run("tag", "m.tagloom", "--text", stdin="Ba-lo")
        assert done.stdout.startswith(expected), (name, done.stdout, done.stderr)


def test_documents_are_split_and_joined(run, tmp_path):
    text = "Ann left. Bob Lee came. Ann slept."
    spans = [[0, 3, "PER"], [10, 17, "PER"], [24, 27, "PER"]]
    line = json.dumps({"text": text, "spans": spans, "id": 3})
    (tmp_path / "train.jsonl").write_text(f"{line}\n" * 20)
    done = run("train", "crf", "train.jsonl", "-o", "m.tagloom", "-q", "--tokenizer", "rules")
    assert (done.returncode, done.stderr) == (0, "")
    assert tl.load(tmp_path / "m.tagloom").training_["sentences"] == 60
    done = run("tag", "m.tagloom", "train.jsonl", "-q", "-o", "out.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out.jsonl").read_text() == (tmp_path / "train.jsonl").read_text()


def test_learning_needs_raw_text(run, is_mistake, tmp_path):
    (tmp_path / "a.conll").write_text("They PRON\nfish VERB\n\n")
    done = run("train", "crf", "a.conll", "-o", "m", "--tokenizer", "learn")
    assert is_mistake(done, "a.conll: sentence 0", "# text")
