"""The client, and the command line as a client."""

import io
import json
import socket
import threading

import pytest

import commands
import tagloom as tl
from raising import raises
from serving import serving
from tagloom.errors import ParameterError, RequestError, SentenceError
from tagloom.web import Access, App, Client, Response, Route, background, reply

X = [["they", "can", "fish"], ["fish", "swim"], ["they", "fish", "."]]
Y = [["N", "V", "V"], ["N", "V"], ["N", "V", "."]]


@pytest.fixture(scope="module")
def tagger():
    return tl.CRF(features=["word", "suffix(2)"]).fit(X, Y)


@pytest.fixture(scope="module")
def url(tagger):
    names = tl.CRF().fit([["Ada", "Lee", "sat", "."]], [["B-PER", "I-PER", "O", "O"]])
    with serving({"pos": tagger, "ner": names}) as address:
        yield f"http://{address}"


def test_labels_and_more(url, tagger):
    with Client(f"{url}/pos") as client:
        assert client.tag(X) == tagger.predict(X)
        assert client.tag([]) == []
        assert client.tag(X, known=[[None, {"N"}, None], None, None])[0][1] == "N"
        assert [m["name"] for m in client.models()] == ["pos", "ner"]
        assert client.explain(X[0])["labels"] == Y[0]
        answer = client.request(sentences=X, probs="top")
        assert len(answer["probs"]) == 3
        document = client.tag_texts(["Ada sat."], model="ner", probs="top")[0]
        assert document["sentences"][0]["spans"][0]["label"] == "PER"


def test_many_sentences_are_several_requests(url, tagger, monkeypatch):
    monkeypatch.setattr("tagloom.web.client.AT_ONCE", 7)
    with Client(url) as client:
        assert client.tag(X * 5) == tagger.predict(X * 5)
        known = [None] * 14 + [["V", "V", "V"]]
        assert client.tag(X * 5, known=known)[-1] == ["V", "V", "V"]


def test_errors_have_their_fields(url):
    with Client(f"{url}/none") as client, raises(RequestError, where="model", found="'none'") as e:
        client.tag(X)
    assert e.value.status == 404
    with Client(url) as client:
        with raises(RequestError, where="sentences[1][0]", expected="a str"):
            client.tag([["a"], [3]])
        with raises(SentenceError, where="sentence 0"):
            client.tag(["They can fish"])
    with raises(ParameterError, parameter="url"):
        Client("localhost:8080")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(ConnectionError):
        Client(f"http://127.0.0.1:{port}").models()


def test_full_servers_are_asked_again():
    answers = [429, 503, 200]

    async def answer(request):
        status = answers.pop(0)
        return reply({"models": []}, status, [(b"retry-after", b"0")])

    with background(App([Route("GET", "/v1/models", answer)])) as url:
        with Client(url) as client:
            assert client.models() == []
        answers += [429, 429]
        with Client(url, attempts=2) as client, raises(RequestError) as error:
            client.models()
        assert error.value.status == 429


def test_errors_of_the_connection_name_the_server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with Client(url, timeout=0.1) as client, pytest.raises(TimeoutError) as late:
            client.models()  # the connection is not accepted
    with Client(url) as client, pytest.raises(ConnectionRefusedError) as refused:
        client.models()
    assert late.value.filename == refused.value.filename == url


def test_a_missing_token_is_explained():
    app = App([], access=Access())
    with background(app) as url, Client(url) as client, pytest.raises(RequestError) as refused:
        client.models()
    assert refused.value.status == 401
    assert "TAGLOOM_TOKEN" in refused.value.hint


def test_another_server_is_reported():
    async def answer(request):
        return Response(b"<html>", 200, b"text/html")

    app = App([Route("GET", "/v1/models", answer)])
    expected = raises(RequestError, expected="a server of tagloom")
    with background(app) as url, Client(url) as client, expected:
        client.models()


def test_a_connection_that_was_closed_meanwhile_is_opened_again(tagger):
    """A server that closes after each answer, as one that drains does."""
    count = []

    def serve(listening):
        for _ in range(2):
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                count.append(1)
                body = b'{"models": []}'
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
                connection.sendall(body)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        with Client(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=10) as client:
            assert client.models() == client.models() == []
        thread.join()
    assert len(count) == 2


def test_the_command_line_as_a_client(url, tagger, tmp_path):
    rows = "".join("".join(f"{w}\n" for w in x) + "\n" for x in X)
    path = tmp_path / "pos.tagloom"
    tagger.save(path)
    for options in ([], ["--marginals"], ["--nbest", "2"]):
        ours = commands.run(tmp_path, "tag", path, "--quiet", *options, stdin=rows)
        theirs = commands.run(tmp_path, "tag", f"{url}/pos", "--quiet", *options, stdin=rows)
        assert theirs.returncode == 0, theirs.stderr
        assert theirs.stdout == ours.stdout
    done = commands.run(tmp_path, "tag", f"{url}/ner", "--text", stdin="Ada Lee sat.")
    assert done.stdout == "Ada/B-PER Lee/I-PER sat/O ./O\n"
    command = ["tag", f"{url}/ner", "--text", "--marginals", "-o", "out.jsonl"]
    assert commands.run(tmp_path, *command, stdin="Ada Lee sat.").returncode == 0
    row = json.loads((tmp_path / "out.jsonl").read_text())
    assert row["spans"][0]["text"] == "Ada Lee"
    done = commands.run(tmp_path, "tag", f"{url}/none", stdin=rows)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "one of pos, ner" in done.stderr
    done = commands.run(tmp_path, "inspect", f"{url}/pos")
    assert "Only tagloom tag calls servers." in done.stderr


def test_files_with_columns_reach_the_model(tmp_path):
    text = "a N X\nb V Y\n\nb N Y\na V X\n\n"
    corpus = tl.read(io.StringIO(text), "conll", columns=["word", "pos", "label"])
    tagger = tl.CRF(features=["col(pos)", "word"]).fit(corpus)
    with serving({"m": tagger}) as address:
        done = commands.run(
            tmp_path, "tag", f"http://{address}", "-q", "--columns", "word,pos", stdin="b N\na V\n"
        )
    assert done.stdout == "b N Y\na V X\n"
