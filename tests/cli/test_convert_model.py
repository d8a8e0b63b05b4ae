"""``tagloom convert-model``."""

import json

import tagloom as tl

WAPITI = "#mdl#2#1\n#rdr#1/1/0\n9:u:%x[0,0],\n#qrk#1\n1:é,\n#qrk#1\n3:u:a,\n0=0x1p+0\n"


def make_crfsuite(path):
    X, y = [[{"a": 1}, {"b": 1}]] * 2, [["N", "V"]] * 2
    crf = tl.CRF(features=None, boundaries=False).fit(X, y)
    tl.interop.to_crfsuite(crf, path)
    return X, crf


def test_there_and_back(run, tmp_path):
    X, crf = make_crfsuite(tmp_path / "a.crfsuite")
    done = run("convert-model", "a.crfsuite", "b.tagloom")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("CRF of CRFsuite, 2 labels → b.tagloom, ")
    assert tl.load(tmp_path / "b.tagloom").predict(X) == crf.predict(X)
    assert run("convert-model", "b.tagloom", "c.crfsuite", "-q").stderr == ""
    assert (tmp_path / "c.crfsuite").read_bytes() == (tmp_path / "a.crfsuite").read_bytes()
    run("convert-model", "b.tagloom", "d.bin", "--to", "crfsuite", "-q")
    assert (tmp_path / "d.bin").read_bytes()[:4] == b"lCRF"


def test_every_command_takes_foreign_models(run, tmp_path):
    make_crfsuite(tmp_path / "a.crfsuite")
    contents = json.loads(run("inspect", "a.crfsuite", "--json").stdout)
    assert contents["labels"] == ["N", "V"]
    assert contents["training"] == {"tool": "CRFsuite"}
    done = run("check", "a.crfsuite")
    assert done.returncode == 0
    assert done.stdout.startswith("a.crfsuite: a model")


def test_encoding(run, tmp_path):
    (tmp_path / "m.wapiti").write_bytes(WAPITI.encode("latin-1"))
    done = run("convert-model", "m.wapiti", "m.tagloom")
    assert done.returncode == 2
    assert "utf-8" in done.stderr
    assert run("convert-model", "m.wapiti", "m.tagloom", "--encoding", "latin-1").returncode == 0
    assert tl.load(tmp_path / "m.tagloom").labels_.tolist() == ["é"]


def test_mistakes(run, tmp_path):
    tl.HMM().fit([["a", "b"]], [["N", "V"]]).save(tmp_path / "hmm.tagloom")
    done = run("convert-model", "hmm.tagloom", "hmm.crfsuite")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "HMM" in done.stderr
    (tmp_path / "damaged.crfsuite").write_bytes(b"lCRF" + bytes(10))
    done = run("convert-model", "damaged.crfsuite", "x.tagloom")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "damaged.crfsuite" in done.stderr
    done = run("convert-model", "hmm.tagloom", "x.tagloom", "--encoding", "latin-1")
    assert done.returncode == 2
