"""Edits of a corpus: durable, versioned, undone in any order, merged with other changes."""

import json
import os
import random
import subprocess
import sys

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import ConflictError, FormatError, LabelError, ParameterError, ReadOnlyError
from tagloom.studio import EditedCorpus

CONLLU = (
    b"# sent_id = 1\r\n1-2\tdont\t_\t_\t_\t_\t_\t_\t_\t_\r\n"
    b"1\tdo\tdo\tAUX\t_\t_\t0\troot\t_\tA=1\r\n2\tnot\tnot\tPART\t_\t_\t1\tadvmod\t_\t_\r\n"
    b"2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\r\n\r\n"
    b"# text = fish\r\n1\tfish\tfish\t_\tNN\t_\t0\troot\t_\t_\r\n\r\n\r\n"
    b"1\tfish\tfish\tVERB\t_\t_\t0\troot\t_\t_\r\n"
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_bytes(CONLLU)
    return str(path)


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def journal_of(path):
    return [json.loads(line) for line in read_bytes(path + ".edits.jsonl").splitlines()]


def kill(edited):
    """Leave everything as a killed process does."""
    if edited.journal._file is not None:
        edited.journal._file.close()


@pytest.fixture
def open_corpus():
    opened = []

    def open_corpus(path, **options):
        opened.append(EditedCorpus(path, **options))
        return opened[-1]

    yield open_corpus
    for edited in opened:
        kill(edited)


def test_change_is_in_the_journal_and_the_file_stays(path, open_corpus):
    edited = open_corpus(path)
    assert edited.labels == [["AUX", "PART"], [None], ["VERB"]]
    edited.change(1, {0: "NOUN"}, edited.version(1))
    assert edited.labels[1] == ["NOUN"]
    record = journal_of(path)[-1]
    assert (record["n"], record["action"]) == (1, "label")
    assert record["changes"][0]["old"] == [None]
    assert read_bytes(path) == CONLLU
    edited.close()
    assert open_corpus(path).labels[1] == ["NOUN"]


def test_save_changes_only_the_bytes_of_the_labels(path, open_corpus):
    edited = open_corpus(path)
    edited.change(1, {0: "NOUN"})
    edited.change(0, {1: "ADV"})
    edited.save()
    expected = CONLLU.replace(b"PART", b"ADV").replace(b"fish\t_\tNN", b"fish\tNOUN\tNN")
    assert read_bytes(path) == expected
    assert edited.n_unsaved == 0
    assert [record["action"] for record in journal_of(path)] == ["open"]
    edited.change(1, {0: None})
    edited.save()
    assert read_bytes(path) == CONLLU.replace(b"PART", b"ADV")
    edited.close()
    assert os.listdir(os.path.dirname(path)) == ["a.conllu"]


def test_another_version_is_refused(path, open_corpus):
    edited = open_corpus(path)
    version = edited.version(2)
    edited.change(2, {0: "NOUN"}, version)
    with raises(ConflictError, where="sentence 2", found=version):
        edited.change(2, {0: "ADJ"}, version)
    assert edited.labels[2] == ["NOUN"]
    edited.undo()
    assert edited.version(2) == version


def test_invalid_changes_leave_no_trace(path, open_corpus):
    edited = open_corpus(path)
    with raises(ParameterError, parameter="sentence", found="3"):
        edited.change(3, {0: "X"})
    with raises(ParameterError, parameter="token", found="1"):
        edited.change(2, {1: "X"})
    for label in ("", "a\tb", "a\nb"):
        with raises(LabelError, where="sentence 2, token 0"):
            edited.change(2, {0: label})
    assert edited.change(2, {0: "VERB"}) is None
    assert [record["action"] for record in journal_of(path)] == ["open"]


def test_everywhere_is_one_action(path, open_corpus):
    edited = open_corpus(path)
    edited.change(1, {0: "VERB"})
    assert edited.find_same("fish", "VERB") == [(1, 0), (2, 0)]
    action = edited.change_everywhere("fish", "VERB", "NOUN")
    assert action.sentences == [1, 2]
    assert edited.labels[1:] == [["NOUN"], ["NOUN"]]
    edited.undo()
    assert edited.labels[1:] == [["VERB"], ["VERB"]]
    edited.redo()
    assert edited.labels[1:] == [["NOUN"], ["NOUN"]]
    assert edited.change_everywhere("cat", "VERB", "NOUN") is None


def test_a_second_process_reads_only(path, open_corpus):
    edited = open_corpus(path)
    edited.change(2, {0: "NOUN"})
    code = (
        "import sys; from tagloom.studio import EditedCorpus; e = EditedCorpus(sys.argv[1]);"
        "print(e.is_read_only, e.journal.owner, e.labels[2])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(f"True process {os.getpid()}, since 2")
    assert run.stdout.endswith("['NOUN']\n")
    other = open_corpus(path, read_only=True)
    with raises(ReadOnlyError, where=path):
        other.change(2, {0: "ADJ"})
    with raises(ReadOnlyError):
        other.save()


def test_a_line_cut_short_was_never_acknowledged(path, open_corpus):
    edited = open_corpus(path)
    edited.change(2, {0: "NOUN"})
    edited.change(2, {0: "ADJ"})
    edited.close()
    journal = path + ".edits.jsonl"
    data = read_bytes(journal)
    for cut in range(1, 60):
        with open(journal, "wb") as file:
            file.write(data[:-cut])
        again = open_corpus(path)
        assert again.labels[2] == ["NOUN"]
        kill(again)
    with open(journal, "wb") as file:
        file.write(b"[]\n" + data)
    with raises(FormatError, where=f"{journal}:1"):
        open_corpus(path)


def test_a_full_disk_changes_nothing(path, open_corpus, monkeypatch):
    edited = open_corpus(path)

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tagloom.studio.journals.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        edited.change(2, {0: "NOUN"})
    monkeypatch.undo()
    assert edited.labels[2] == ["VERB"]
    assert edited.done == []
    assert [record["action"] for record in journal_of(path)] == ["open"]


def test_crash_between_save_and_clear(path, open_corpus, monkeypatch):
    """The edits are in the file and in the journal: they are not applied twice, nor lost."""
    edited = open_corpus(path)
    edited.change(2, {0: "NOUN"})
    edited.change(2, {0: "ADJ"})
    monkeypatch.setattr(edited.journal, "clear", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        edited.save()
    kill(edited)
    again = open_corpus(path)
    assert again.labels[2] == ["ADJ"]
    assert again.lost == []
    again.undo()
    assert again.labels[2] == ["NOUN"]


@pytest.mark.parametrize("then", ["back", "undo", "further"])
def test_edits_after_a_crash_between_save_and_clear(path, open_corpus, monkeypatch, then):
    """The journal then has edits that the file has, too; those that follow them still count."""
    edited = open_corpus(path)
    before = edited.labels[0][0]
    edited.change(0, {0: "Q"})
    monkeypatch.setattr(edited.journal, "clear", lambda: (_ for _ in ()).throw(OSError))
    with pytest.raises(OSError):
        edited.save()
    kill(edited)
    edited = open_corpus(path)
    assert edited.labels[0][0] == "Q"
    if then == "undo":
        edited.undo()
    else:
        edited.change(0, {0: before if then == "back" else "R"})
    kill(edited)
    edited = open_corpus(path)
    assert edited.labels[0][0] == ("R" if then == "further" else before)
    assert edited.lost == []
    edited.save()
    assert open_corpus(path, read_only=True).labels[0][0] == edited.labels[0][0]


def test_a_file_that_others_changed_is_merged(path, open_corpus):
    edited = open_corpus(path)
    edited.change(2, {0: "NOUN"})
    edited.change(0, {0: "VERB"})
    new = b"1\tnew\tnew\tADJ\t_\t_\t0\troot\t_\t_\r\n\r\n" + CONLLU.replace(b"\tAUX", b"\tX")
    with open(path, "wb") as file:
        file.write(new)
    edited.save()
    expected = new.replace(b"fish\tVERB", b"fish\tNOUN")
    assert read_bytes(path) == expected
    (lost,) = edited.lost
    assert (lost.token, lost.old, lost.new) == (0, "AUX", "VERB")
    assert lost.reason == "the file now has X"


def test_accepted_sentences_and_new_names_survive(path, open_corpus):
    edited = open_corpus(path)
    edited.change(1, {0: "NOUN"}, kind="accept")
    edited.change(2, {}, kind="accept")
    edited.add_name("NEW")
    edited.close()
    again = open_corpus(path)
    assert again.accepted == {1, 2}
    assert again.names == ["NEW"]
    again.undo()
    assert again.accepted == {1}
    with raises(ParameterError, parameter="name"):
        again.add_name(" ")


@pytest.mark.parametrize("seed", range(8))
def test_random_edits_equal_a_plain_model(tmp_path, open_corpus, seed):
    """Against lists and two stacks; the process is killed and started again at random."""
    rng = random.Random(seed)
    path = str(tmp_path / "a.conll")
    words = ["a", "b", "c"]
    tokens = [[rng.choice(words) for _ in range(rng.randint(1, 4))] for _ in range(6)]
    labels = [[rng.choice("XY") for _ in row] for row in tokens]
    tl.write(tl.Corpus(tokens, labels), path, "conll")
    edited, done, undone = open_corpus(path), [], []
    for _ in range(120):
        kind = rng.choice(["label", "label", "all", "undo", "redo", "restart", "save"])
        i = rng.randrange(6)
        t, new = rng.randrange(len(tokens[i])), rng.choice(["X", "Y", "Z", None])
        before = [list(row) for row in labels]
        if kind == "label":
            edited.change(i, {t: new}, edited.version(i))
            labels[i][t] = new
        elif kind == "all":
            word, old = tokens[i][t], labels[i][t]
            edited.change_everywhere(word, old, new)
            for row, names in zip(tokens, labels, strict=True):
                names[:] = [
                    new if (w, y) == (word, old) else y for w, y in zip(row, names, strict=True)
                ]
        elif kind == "undo":
            assert (edited.undo() is None) == (not done)
            if done:
                undone.append([list(row) for row in labels])
                labels = done.pop()
        elif kind == "redo":
            assert (edited.redo() is None) == (not undone)
            if undone:
                done.append([list(row) for row in labels])
                labels = undone.pop()
        elif kind == "restart":
            kill(edited)
            edited = open_corpus(path)
        else:
            edited.save()
            done, undone = [], []
            assert [s.labels for s in tl.read(path, "conll", unknown="_")] == labels
        if kind in ("label", "all") and labels != before:
            done.append(before)
            undone = []
        assert edited.labels == labels
        assert edited.lost == []


def test_formats(tmp_path, open_corpus):
    """What holds labels is edited; raw text is refused with a way out."""
    text = tmp_path / "a.txt"
    text.write_text("They fish .\n")
    with raises(FormatError, found="text", hint="tagloom convert"):
        open_corpus(str(text), options={"format": "text"})
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a", "b"], "labels": [null, ["X", "Y"]], "z": 1}\n')
    edited = open_corpus(str(path))
    assert edited.labels == [[None, frozenset("XY")]]
    edited.change(0, {0: "X"})
    edited.undo()
    edited.change(0, {1: "Y"})
    edited.save()
    assert path.read_text() == '{"tokens": ["a", "b"], "labels": [null, "Y"], "z": 1}\n'
