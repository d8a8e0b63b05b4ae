"""The requests of the page: answers, edits and conflicts, and what is refused."""

import http.client
import json
import threading
import urllib.request

import numpy as np
import pytest

import tagloom as tl
from studio_clients import Client
from tagloom.studio import facts, training, trellises
from tagloom.studio.app import MARKER

TEXT = {"text": "They can fish."}


def small(path, n=40):
    train = tl.datasets.load("english", "train")[:n]
    tl.write(tl.Corpus(train.tokens, train.labels), path, "conll")
    return path


# ---- views -----------------------------------------------------------------------------------


def test_trellis_is_that_of_the_tagger(practice):
    session, client = practice
    view = client.post("/api/trellis", {**TEXT, "force": {"2": "NOUN"}, "n_best": 3})
    tokens = ["They", "can", "fish", "."]
    assert view["tokens"] == tokens
    known = [[None, None, "NOUN", None]]
    tagger = session.tagger
    assert [view["labels"][k] for k in view["path"]] == tagger.predict([tokens], known=known)[0]
    gamma = tagger.predict_marginals([tokens], known=known)[0]
    np.testing.assert_allclose(view["gamma"], gamma, atol=1e-5)
    trellis = tagger.trellis([tokens], known=known)[0]
    best = tagger.predict_nbest([tokens], 3, known=known)[0]
    assert [b["labels"] for b in view["nbest"]] == [b.labels for b in best]
    np.testing.assert_allclose(
        [b["prob"] for b in view["nbest"]], [b.prob for b in best], rtol=1e-5
    )
    xi = trellis.pair_marginals()
    for t, a, b, p in view["moves"]:
        assert p == pytest.approx(xi[t, a, b], abs=1e-4)
    assert len(view["moves"]) == (xi >= 0.001).sum()


def test_nodes_have_forward_and_backward_scores(practice):
    session, client = practice
    nodes = client.post("/api/nodes", {**TEXT, "force": {"2": "NOUN"}, "position": 1})
    tokens, known = ["They", "can", "fish", "."], [[None, None, "NOUN", None]]
    trellis = session.tagger.trellis([tokens], known=known)[0]
    for name, expected in (("alpha", trellis.forward()), ("beta", trellis.backward())):
        assert [*nodes[name]] == session.tagger.labels_.tolist()
        found = [-np.inf if x is None else x for x in nodes[name].values()]
        np.testing.assert_allclose(found, expected[1], atol=1e-3)


def test_only_the_most_probable_moves_are_sent(practice, monkeypatch):
    session, _ = practice
    tokens = ["They", "can", "fish", "."]
    monkeypatch.setattr(trellises, "LEAST_MOVE", 0.0)
    monkeypatch.setattr(trellises, "MOST_MOVES", 2)
    moves = trellises.view_trellis(session.tagger, tokens)["moves"]
    xi = session.tagger.trellis([tokens])[0].pair_marginals()
    least = np.sort(xi[1:].ravel())[-8]
    assert sorted(p for *_, p in moves) == pytest.approx(np.sort(xi[1:][xi[1:] >= least]), abs=1e-4)


def test_scores_give_the_same_path(practice):
    session, client = practice
    view = client.post("/api/scores", TEXT)
    lists = [np.array(view[name], dtype=float) for name in ("emit", "start", "stop", "trans")]
    emit, start, stop, trans = lists
    best = tl.Trellis(emit, None, start, stop, edge=trans).viterbi()
    names = [view["labels"][y] for y in best.path]
    assert names == session.tagger.predict([view["tokens"]])[0]


def test_why_sums_to_the_margin(practice):
    session, client = practice
    why = client.post("/api/why", {**TEXT, "position": 1})
    total = sum(r["value"] for r in why["reasons"]) + why["others"]["value"]
    assert total == pytest.approx(why["margin"], abs=1e-9)
    assert why["label"] == session.tagger.predict([["They", "can", "fish", "."]])[0][1]


def test_examples_are_the_classics(practice):
    _, client = practice
    examples = client.get("/api/examples")
    first = examples[0]
    trellis = tl.Trellis(*(np.array(first[k]) for k in ("emit", "trans", "start", "stop")))
    assert trellis.viterbi().score == -10
    assert len({e["name"] for e in examples}) == len(examples) >= 7
    rib = next(e for e in examples if e["name"] == "rib-rob")
    assert None in rib["start"]


def test_errors_and_model(practice):
    session, client = practice
    confusion = client.get("/api/confusion")
    dev = tl.datasets.load("english", "dev")
    predicted = session.tagger.predict(dev)
    assert confusion["accuracy"] == pytest.approx(tl.evaluate(dev, predicted).accuracy)
    i, j = confusion["labels"].index("VERB"), confusion["labels"].index("NOUN")
    found = client.get("/api/mistakes", gold="VERB", predicted="NOUN")
    assert found["total"] == confusion["matrix"][i][j] > 0
    row = found["rows"][0]
    assert dev[row["sentence"]].tokens[row["token"]] == row["word"]
    assert client.get("/api/calibration")["n"] == dev.n_tokens
    model = client.get("/api/model")
    assert model["kind"] == "CRF"
    np.testing.assert_allclose(
        model["transitions"]["weights"], session.tagger.transitions_, atol=1e-4
    )
    weights = client.get("/api/weights", q="suffix*", label="ADV")
    assert weights[0]["attribute"].startswith("suffix")
    assert weights == sorted(weights, key=lambda w: -w["weight"])


def test_suspects_come_by_event(practice):
    session, client = practice
    ready = threading.Event()
    end = session.listen(lambda event: event["kind"] == "suspects" and ready.set())
    assert client.get("/api/suspects")["state"] in ("running", "ready")
    assert ready.wait(120)
    end()
    rows = client.get("/api/suspects")["rows"]
    assert rows
    assert rows[0]["label"] == session.edited.labels[rows[0]["sentence"]][rows[0]["token"]]


def test_two_models(open_studio, tmp_path):
    train, dev, _ = tl.datasets.load("english")
    a, b = tl.CRF().fit(train[:100]), tl.HMM().fit(train[:100])
    with open_studio(a, None, str(small(tmp_path / "a.conll")), test=dev, other=b) as (_, client):
        found = client.get("/api/comparison")
    assert found["on"] == "test"  # so that the page opens sentences of the test file
    result = tl.compare(dev, a.predict(dev), b.predict(dev))
    assert found["p_value"] == result.p_values["accuracy"]
    assert found["total"] == sum(
        x != y for item in result.disagreements for x, y in zip(item.a, item.b, strict=True)
    )


def test_hmm(open_studio, tmp_path):
    hmm = tl.HMM().fit(tl.datasets.load("english", "train")[:100])
    with open_studio(hmm, None, str(small(tmp_path / "a.conll"))) as (_, client):
        model = client.get("/api/model")
        assert model["transitions"]["is_probs"]
        np.testing.assert_allclose(
            model["transitions"]["weights"], np.exp(hmm.transitions_), atol=1e-4
        )
        assert client.post("/api/trellis", TEXT)["tokens"] == ["They", "can", "fish", "."]


@pytest.mark.parametrize("supervised", [True, False])
def test_states_of_a_hidden_markov_model(supervised):
    train = tl.datasets.load("english", "train")[:80]
    hmm = tl.HMM() if supervised else tl.HMM(n_states=3, max_iterations=3)
    hmm.fit(train if supervised else train.tokens)
    view = facts.view_model(hmm)
    assert [state["name"] for state in view["states"]] == hmm.labels_.tolist()
    assert sum(state["share"] for state in view["states"]) == pytest.approx(1, abs=0.01)
    for y, state in enumerate(view["states"]):
        stays = view["transitions"]["weights"][y]
        assert sum(stays) + state["stop"] == pytest.approx(1, abs=0.01)
        probs = [p for _, p in state["words"]]
        assert probs == sorted(probs, reverse=True)
        assert 0 < len(probs) <= 8
    if supervised:
        det = view["states"][hmm.labels_.tolist().index("DET")]
        assert det["words"][0][0] == "the"
        n = sum(y == "DET" for row in train.labels for y in row)
        share = sum(
            (w, y) == ("the", "DET") for s in train for w, y in zip(s, s.labels, strict=True)
        )
        assert det["words"][0][1] == pytest.approx(share / n, abs=0.1)  # but for smoothing
    assert facts.view_model(tl.CRF().fit(train))["states"] is None


# ---- edits -----------------------------------------------------------------------------------


def test_correct_and_retrain(open_studio, tmp_path):
    path = small(tmp_path / "a.conll")
    with open_studio(corpus_path=str(path)) as (session, client):
        view = client.get("/api/sentences/3")
        before = session.trainer.learned.number
        status, changed = client.edit(view, {"labels": {"0": "X", "1": None}})
        assert status == 200
        assert changed["labels"][:2] == ["X", None]
        assert session.trainer.wait()
        assert session.trainer.learned.number > before
        assert "X" in session.tagger.labels_
        assert client.get("/api/state")["corpus"]["unsaved"] == 1
        assert client.post("/api/undo")["sentences"] == [3]
        assert client.get("/api/sentences/3")["version"] == view["version"]
        client.post("/api/redo")
        client.post("/api/save")
    labels = tl.read(path, "conll", unknown="_")[3].labels
    assert labels[:2] == ["X", None]
    assert not (tmp_path / "a.conll.edits.jsonl").exists()


def test_corrections_of_a_large_corpus_are_learnt_alone(open_studio, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "QUICK_FIT", 0.0)  # as if a training took long
    path = small(tmp_path / "a.conll", 60)
    with open_studio(corpus_path=str(path)) as (session, client):
        trainer, first = session.trainer, session.trainer.learned
        before = first.tagger.predict_marginals([session.edited.corpus[3]])[0]
        view = client.get("/api/sentences/3")
        label = "VERB" if view["labels"][0] != "VERB" else "NOUN"
        client.edit(view, {"labels": {"0": label}})
        assert trainer.wait()
        corrected = trainer.learned
        assert corrected.corrected == {3}
        assert corrected.number == first.number + 1
        y = corrected.tagger.labels_.tolist().index(label)
        after = corrected.tagger.predict_marginals([session.edited.corpus[3]])[0]
        assert after[0, y] > before[0, y]
        np.testing.assert_array_equal(  # requests that have begun keep their model
            first.tagger.predict_marginals([session.edited.corpus[3]])[0], before
        )
        doubt = 1 - after.max(axis=1).mean(dtype=float)
        assert corrected.doubts.means[3] == pytest.approx(doubt, abs=1e-6)
        client.post("/api/save-model")  # the saved model has learnt everything from scratch
        assert trainer.learned.corrected == frozenset()
        fresh = tl.CRF().fit(session.edited.with_labels())
        saved = tl.load(session.model_path)
        X = session.edited.corpus.tokens
        for a, b in zip(saved.predict_marginals(X), fresh.predict_marginals(X), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
        for i in range(10):  # a tenth of the corpus: everything is learnt anew
            view = client.get(f"/api/sentences/{i}")
            client.edit(view, {"labels": {"0": "X"}})
            assert trainer.wait()
        assert len(trainer.learned.corrected) < 10


def test_conflict_has_both_versions(open_studio, tmp_path):
    with open_studio(corpus_path=str(small(tmp_path / "a.conll"))) as (_, client):
        view = client.get("/api/sentences/0")
        assert client.edit(view, {"labels": {"0": "A"}})[0] == 200
        status, answer = client.edit(view, {"labels": {"1": "B"}})
        assert status == 409
        assert answer["yours"] == {"1": "B"}
        assert answer["theirs"]["labels"][0] == "A"
        assert client.edit(answer["theirs"], {"labels": {"1": "B"}})[0] == 200


def test_two_tabs_lose_nothing(open_studio, tmp_path):
    """S9, short: what was answered with 200 is in the file; everything else was a conflict."""
    path = small(tmp_path / "a.conll")
    rng = np.random.default_rng(0)
    with open_studio(corpus_path=str(path)) as (_, client):
        expected = {i: client.get(f"/api/sentences/{i}")["labels"] for i in range(5)}
        tabs = [{i: client.get(f"/api/sentences/{i}") for i in range(5)} for _ in range(2)]
        conflicts = 0
        for _ in range(60):
            tab, i = tabs[rng.integers(2)], int(rng.integers(5))
            t, label = int(rng.integers(len(expected[i]))), f"L{rng.integers(4)}"
            status, answer = client.edit(tab[i], {"labels": {str(t): label}})
            if status == 200:
                expected[i][t] = label
                tab[i] = answer
            else:
                assert status == 409
                assert answer["theirs"]["labels"] == expected[i]
                tab[i] = answer["theirs"]
                conflicts += 1
        assert conflicts > 5
        client.post("/api/save")
    assert {i: tl.read(path, "conll")[i].labels for i in range(5)} == expected


def test_accept_fills_in_what_is_predicted(open_studio, tmp_path):
    train = tl.datasets.load("english", "train")[:60]
    labels = [row if i < 40 else [None] * len(row) for i, row in enumerate(train.labels)]
    path = tmp_path / "a.jsonl"
    tl.write(tl.Corpus(train.tokens, labels), path)
    with open_studio(corpus_path=str(path)) as (session, client):
        queue = client.get("/api/queue", n=20)
        assert {q["index"] for q in queue} <= set(range(40, 60))
        ranked = [q["index"] for q in queue if not q["is_random"]]
        assert ranked == [i for i, is_random in session.trainer.queue(20) if not is_random]
        assert [q["is_random"] for q in queue[:5]].count(True) == 1
        view = queue[0]
        status, done = client.edit(view, {"accept": True, "leave": [1]})
        assert status == 200
        assert done["labels"][1] is None
        rest = [y for t, y in enumerate(done["labels"]) if t != 1]
        assert rest == [y for t, y in enumerate(view["predicted"]) if t != 1]
        assert done["accepted"]
        assert view["index"] not in {q["index"] for q in client.get("/api/queue", n=20)}
        assert [q["index"] for q in client.get("/api/queue", n=3, kind="file")] == sorted(
            {*range(40, 60)} - {view["index"]}
        )[:3]


def test_estimate_is_of_predictions_before_the_answer(open_studio, tmp_path):
    """A model that has learnt the corrections of a sentence is not asked about it again."""
    train = tl.datasets.load("english", "train")[:60]
    labels = [row if i < 20 else [None] * len(row) for i, row in enumerate(train.labels)]
    path = tmp_path / "a.jsonl"
    tl.write(tl.Corpus(train.tokens, labels), path)
    with open_studio(corpus_path=str(path)) as (session, client):
        (view,) = client.get("/api/queue", n=1)
        assert view["is_random"]
        wrong = {str(t): "X" for t in range(len(view["tokens"]))}
        _, changed = client.edit(view, {"labels": wrong})
        session.trainer.wait()  # now the model has learnt the labels
        client.edit(client.get(f"/api/sentences/{changed['index']}"), {"accept": True})
        session.trainer.request()
        session.trainer.wait()
        expected = view["predicted"].count("X") / len(view["tokens"])
        assert client.get("/api/state")["curve"][-1]["asked"] == pytest.approx(expected)


def test_from_zero(open_studio, tmp_path):
    """Without labels: add names, label, and a model appears."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a", "b"]}\n{"tokens": ["b", "a"]}\n{"tokens": ["a"]}\n')
    with open_studio(corpus_path=str(path), options={"labelled": False}) as (session, client):
        state = client.get("/api/state")
        assert state["model"] is None
        status, answer = client.send("POST", "/api/trellis", TEXT)
        assert status == 422
        assert "no model yet" in answer["detail"]
        for name in ("X", "Y"):
            client.post("/api/names", {"name": name})
        assert client.get("/api/state")["labels"] == ["X", "Y"]
        for i, row in enumerate([["X", "Y"], ["Y", "X"]]):
            view = client.get(f"/api/sentences/{i}")
            client.edit(view, {"labels": dict(enumerate(row))})
        session.trainer.wait()
        assert client.get("/api/sentences/2")["predicted"] == ["X"]


def test_spans(open_studio, tmp_path):
    path = tmp_path / "a.conll"
    corpus = tl.datasets.load("english", "train", label="entity")[:80]
    tl.write(tl.Corpus(corpus.tokens, corpus.labels), path, "conll")
    i = next(i for i, row in enumerate(corpus.labels) if set(row) == {"O"} and len(row) > 4)
    with open_studio(corpus_path=str(path)) as (_, client):
        state = client.get("/api/state")
        assert state["scheme"] == "bio"
        assert "PER" in state["types"]
        view = client.get(f"/api/sentences/{i}")
        _, view = client.edit(view, {"span": {"start": 0, "end": 3, "type": "PER"}})
        assert view["labels"][:4] == ["B-PER", "I-PER", "I-PER", "O"]
        _, view = client.edit(view, {"span": {"start": 1, "end": 2, "type": "LOC"}})
        assert view["labels"][:4] == ["O", "B-LOC", "O", "O"]
        _, view = client.edit(view, {"span": {"start": 0, "end": 4, "type": None}})
        assert set(view["labels"]) == {"O"}


def test_everywhere(open_studio, tmp_path):
    path = small(tmp_path / "a.conll")
    with open_studio(corpus_path=str(path)) as (session, client):
        i, t = next(
            (i, t) for i, s in enumerate(session.edited.corpus) for t, w in enumerate(s) if w == "."
        )
        found = client.get("/api/same", sentence=i, token=t)
        assert found["word"] == "."
        done = client.post("/api/everywhere", {"sentence": i, "token": t, "label": "DOT"})
        assert done["changed"] == found["total"] > 10
        client.post("/api/undo")
        assert client.get("/api/same", sentence=i, token=t)["total"] == found["total"]


@pytest.mark.slow
def test_one_label_of_a_large_file(open_studio, tmp_path):
    """S10: only the bytes of that label differ in 12 MB with comments, ranges and CRLF."""
    sentence = (
        "# sent_id = {n}\r\n# text = dont fish\r\n1-2\tdont\t_\t_\t_\t_\t_\t_\t_\tA=b\r\n"
        "1\tdo\tdo\tAUX\tVB\tMood=Ind\t0\troot\t_\t_\r\n2\tnot\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_\r\n"
        "3\tfish\tfish\tVERB\t\t_\t1\tx\t_\tSpaceAfter=No\r\n3.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\r\n\r\n"
    )
    data = "".join(sentence.format(n=n) for n in range(60_000)).encode()
    assert len(data) > 12_000_000
    path = tmp_path / "large.conllu"
    path.write_bytes(data)
    from tagloom.studio import EditedCorpus

    edited = EditedCorpus(str(path))
    edited.change(31_234, {1: "ADV5"})
    edited.save()
    edited.close()
    new = np.frombuffer(path.read_bytes(), np.uint8)
    differ = np.flatnonzero(new != np.frombuffer(data, np.uint8))
    assert len(new) == len(data)
    assert new[differ].tobytes() == b"ADV5"


def test_read_only(open_studio, tmp_path):
    with open_studio(corpus_path=str(small(tmp_path / "a.conll")), read_only=True) as (_, client):
        view = client.get("/api/sentences/0")
        assert client.edit(view, {"labels": {"0": "A"}})[0] == 403
        for path in ("/api/save", "/api/undo", "/api/save-model"):
            assert client.send("POST", path)[0] == 403
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.conll"]


def test_save_model(open_studio, tmp_path):
    path = small(tmp_path / "a.conll")
    with open_studio(corpus_path=str(path)) as (session, client):
        assert client.post("/api/save-model") == {"name": "a.conll.tagloom"}
        digest = session.tagger.digest()
    assert tl.load(tmp_path / "a.conll.tagloom").digest() == digest


# ---- security --------------------------------------------------------------------------------


def test_foreign_requests_are_refused(practice):
    """S11: host, cookie, origin, marker, content type, other paths."""
    _, client = practice
    assert client.send("GET", "/api/state", headers={"Host": "evil.example"})[0] == 421
    assert client.send("GET", "/api/state", cookie=False)[0] == 401
    assert client.send("GET", "/", cookie=False)[0] == 401
    assert client.send("POST", "/api/undo", headers={"Origin": "http://evil"})[0] == 403
    assert client.send("POST", "/api/undo", headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert client.send("POST", "/api/undo", headers={MARKER: None})[0] == 403
    assert client.send("POST", "/api/undo", headers={"Content-Type": "text/plain"})[0] == 415
    assert client.send("GET", "/api/nothing")[0] == 404
    host, port = client.base.removeprefix("http://").split(":")
    for path in (
        "/../../etc/passwd",
        "/page/../../etc/passwd",
        "/page/%2e%2e/app.py",
        "/page//etc",
    ):
        connection = http.client.HTTPConnection(host, int(port))
        connection.putrequest("GET", path, skip_accept_encoding=True)
        connection.putheader("Cookie", client.cookie)
        connection.endheaders()
        assert connection.getresponse().status == 404, path
        connection.close()


def test_token_is_exchanged_for_a_cookie(practice):
    _, client = practice
    assert client.location == "/"
    assert client.token not in client.cookie
    request = urllib.request.Request(client.base + "/", headers={"Cookie": client.cookie})
    with urllib.request.urlopen(request) as answer:
        headers = answer.headers
        page = answer.read().decode()
    assert client.token not in page
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/trellis", b"{", 400),
        ("POST", "/api/trellis", {"tokens": [1]}, 422),
        ("POST", "/api/trellis", {"tokens": []}, 422),
        ("POST", "/api/trellis", {"tokens": ["a"] * 5000}, 422),
        ("POST", "/api/trellis", {"text": "a", "force": {"5": "NOUN"}}, 422),
        ("POST", "/api/trellis", {"text": "a", "force": {"0": "NO-SUCH"}}, 422),
        ("POST", "/api/trellis", {"sentence": 10**6}, 422),
        ("POST", "/api/trellis", {"path": "/etc/passwd"}, 422),
        ("POST", "/api/why", {"text": "a", "position": 9}, 422),
        ("POST", "/api/nodes", {"text": "a", "position": 9}, 422),
        ("POST", "/api/names", {"name": ""}, 422),
        ("POST", "/api/everywhere", {"sentence": 0, "token": -1, "label": "X"}, 422),
        ("PUT", "/api/sentences/0", {"labels": {"0": "X"}}, 422),  # no version
        ("PUT", "/api/sentences/x", {}, 422),
        ("GET", "/api/queue?n=-1", None, 422),
        ("GET", "/api/queue?path=/etc", None, 422),
        ("GET", "/api/weights?label=NO-SUCH", None, 422),
        ("GET", "/api/sentences/99999999999999999999", None, 422),
    ],
)
def test_invalid_requests_get_one_clear_line(practice, method, path, body, status):
    _, client = practice
    found, answer = client.send(method, path, body)
    assert found == status, answer
    assert answer["detail"].endswith((".", "?"))


def test_lone_surrogates_and_long_tokens(open_studio, tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [
        {"tokens": ["\u202e", "x" * 1_000_000, "<script>"], "labels": ["A", "B", "<b>"]},
        {"tokens": ["a\u0007", '"onload'], "labels": ["A", "B"]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows * 3))
    with open_studio(corpus_path=str(path)) as (_, client):
        view = client.get("/api/sentences/0")
        assert len(view["tokens"][1]) == 80
        assert len(json.dumps(client.get("/api/queue"))) < 20_000
        status, answer = client.send("POST", "/api/trellis", {"tokens": ["\ud800", "b"]})
        assert status == 400
        assert "surrogate" in answer["detail"]


def test_another_client_needs_the_token(practice):
    _, client = practice
    with pytest.raises(AssertionError):
        Client(client.base + "/?token=" + "x" * 43)
