"""The skeleton of server and page: routes, access, limits, problems, over real sockets."""

import gzip
import http.client
import json
import socket
import threading
import time
import zlib

import msgspec
import pytest

from raising import raises
from tagloom.errors import LabelError, ParameterError, RequestError
from tagloom.web import (
    Access,
    App,
    Pages,
    Response,
    Route,
    Stream,
    background,
    bind,
    check_same_origin,
    reply,
    running,
)
from tagloom.web.pages import POLICY
from tagloom.web.running import Protocol

TOKEN = "0123456789abcdef"


class Body(msgspec.Struct, forbid_unknown_fields=True):
    words: list[list[str]]


DECODER = msgspec.json.Decoder(Body)


async def hello(request):
    return reply({"hello": request.parameters.get("name"), "query": request.query(["a", "b"])})


async def echo(request):
    return reply((await request.json(DECODER)).words)


async def fail(request):
    raise LabelError(where="known, sentence 3, token 7", expected="a label", found="'\udc80'")


async def crash(request):
    raise KeyError("a secret word")


async def stream(request):
    async def pieces():
        async for chunk in request.chunks():
            yield chunk.upper()

    return Stream(pieces(), content_type=b"text/plain")


def make(**options):
    routes = [
        Route("GET", "/hello/{name}", hello),
        Route("GET", "/hello", hello),
        Route("POST", "/echo", echo),
        Route("POST", "/fail", fail),
        Route("POST", "/crash", crash),
        Route("POST", "/stream", stream),
    ]
    return App(routes, max_body=1000, **options)


@pytest.fixture(scope="module")
def address():
    with background(make()) as url:
        yield url.removeprefix("http://")


def ask(address, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(address, timeout=10)
    body = body.encode() if isinstance(body, str) else body
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    if data and answer.headers["content-type"].endswith("json"):
        return answer, json.loads(data)
    return answer, data


JSON = {"Content-Type": "application/json"}


def test_routes_and_queries(address):
    assert ask(address, "GET", "/hello/you?a=1")[1] == {"hello": "you", "query": {"a": "1"}}
    assert ask(address, "GET", "/hello")[1]["hello"] is None
    answer, body = ask(address, "HEAD", "/hello/you")
    assert answer.status == 200
    assert body == b""
    for query in ("c=1", "a=1&a=2"):
        answer, body = ask(address, "GET", f"/hello?{query}")
        assert (answer.status, body["where"]) == (422, "query")


def test_unknown_paths_and_methods(address):
    answer, body = ask(address, "GET", "/nothing")
    assert (answer.status, body["title"], body["where"]) == (404, "Not Found", "/nothing")
    assert answer.headers["content-type"] == "application/problem+json"
    answer, body = ask(address, "DELETE", "/hello/you")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert ask(address, "GET", "/hello/you/too")[0].status == 404


def test_answers_carry_no_server_name_and_are_not_kept(address):
    headers = ask(address, "GET", "/hello")[0].headers
    assert "server" not in headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


def test_json_bodies(address):
    assert ask(address, "POST", "/echo", '{"words": [["ä"]]}', JSON)[1] == [["ä"]]
    for body, status, where in (
        ("{", 400, "body"),
        (b'{"words": [["\xff"]]}', 400, "body"),
        ("[" * 300, 422, "body"),
        ('{"words": [["a", 1]]}', 422, "words[0][1]"),
        ('{"words": [], "x": 1}', 422, "body"),
        ("{}", 422, "body"),
    ):
        answer, problem = ask(address, "POST", "/echo", body, JSON)
        assert (answer.status, problem["where"]) == (status, where), body
    answer, problem = ask(address, "POST", "/echo", "{}")
    assert (answer.status, problem["where"]) == (415, "Content-Type")
    assert "application/json" in problem["hint"]


def test_bodies_are_limited_also_after_inflation(address):
    body = json.dumps({"words": [["a" * 2000]]})
    answer, problem = ask(address, "POST", "/echo", body, JSON)
    assert (answer.status, problem["expected"]) == (413, "at most 1,000 bytes")
    small = json.dumps({"words": [["a" * 500]]}).encode()
    for pack, name in ((gzip.compress, "gzip"), (zlib.compress, "deflate")):
        packed = JSON | {"Content-Encoding": name}
        assert ask(address, "POST", "/echo", pack(small), packed)[1] == [["a" * 500]]
        bomb = pack(b'{"words": [["' + b"a" * 50_000_000)
        assert ask(address, "POST", "/echo", bomb[:900], packed)[0].status == 413
    damaged = gzip.compress(small)
    for data in (damaged[:-9], damaged + b"x", b"no gzip"):
        answer, problem = ask(address, "POST", "/echo", data, packed)
        assert (answer.status, problem["where"]) == (400, "body"), data
    answer, problem = ask(address, "POST", "/echo", b"", JSON | {"Content-Encoding": "br"})
    assert (answer.status, problem["where"]) == (415, "Content-Encoding")


def test_errors_of_the_library_are_rendered_from_their_fields(address):
    answer, problem = ask(address, "POST", "/fail")
    assert answer.status == 422
    assert problem == {
        "type": "about:blank",
        "title": "Unprocessable Content",
        "status": 422,
        "detail": "known, sentence 3, token 7: expected a label, found '\\udc80'.",
        "error": "LabelError",
        "where": "known[3][7]",
        "found": "'?'",
        "expected": "a label",
    }


def test_an_unforeseen_error_shows_nothing(address, caplog):
    answer, problem = ask(address, "POST", "/crash")
    assert (answer.status, problem["detail"]) == (500, "an error in the server.")
    assert "secret" not in caplog.text
    assert "KeyError at test_apps.py:" in caplog.text


def test_streams(address):
    def pieces():
        yield from (b"one ", b"two ", b"three")

    answer, body = ask(address, "POST", "/stream", pieces())
    assert (answer.status, body) == (200, b"ONE TWO THREE")


def test_host_must_be_loopback(address):
    port = address.partition(":")[2]
    for host in (
        "localhost",
        f"localhost:{port}",
        "127.0.0.1:1",
        "[::1]:80",
        "LOCALHOST.",
        "[::1]",
    ):
        assert ask(address, "GET", "/hello", headers={"Host": host})[0].status == 200, host
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "10.0.0.1"):
        answer, problem = ask(address, "GET", "/hello", headers={"Host": host})
        assert (answer.status, problem["where"]) == (421, "Host"), host
    answer = send(address, b"GET /hello HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 421", b"HTTP/1.1 400"))


def send(address, data, wait=5.0):
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=wait) as connection:
        connection.sendall(data)
        return connection.recv(1 << 16)


def test_tokens():
    with background(make(access=Access(TOKEN, open_paths=["/hello"]))) as url:
        address = url.removeprefix("http://")
        assert ask(address, "GET", "/hello")[0].status == 200
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert ask(address, "GET", "/hello/you", headers=bearer)[0].status == 200
        for value in ("", "Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
            answer, problem = ask(address, "GET", "/hello/you", headers={"Authorization": value})
            assert (answer.status, problem["where"]) == (401, "Authorization"), value
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert TOKEN not in json.dumps(problem)
        assert ask(address, "GET", f"/hello/you?token={TOKEN}")[0].status == 401  # no cookies


def test_a_cookie_is_exchanged_for_the_token_of_the_url():
    with background(make(access=Access(TOKEN, cookie="tagloom-test"))) as url:
        address = url.removeprefix("http://")
        port = address.partition(":")[2]
        answer, _ = ask(address, "GET", f"/hello/you?a=1&token={TOKEN}")
        assert (answer.status, answer.headers["location"]) == (303, "/hello/you?a=1")
        cookie, *flags = answer.headers["set-cookie"].split("; ")
        assert cookie.startswith(f"tagloom-test-{port}=")
        assert {"HttpOnly", "SameSite=Strict"} <= set(flags)
        assert TOKEN not in cookie
        assert ask(address, "GET", "/hello/you", headers={"Cookie": cookie})[0].status == 200
        other = {"Cookie": cookie.replace(port, "1")}
        assert ask(address, "GET", "/hello/you", headers=other)[0].status == 401
        assert ask(address, "GET", "/hello/you?token=wrong")[0].status == 401
        answer, _ = ask(address, "GET", f"//evil.example/?token={TOKEN}")
        assert answer.headers["location"] == "/evil.example/"


def test_token_files(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    assert Access.from_file(str(path)).token == TOKEN
    path.chmod(0o644)
    with raises(ParameterError, parameter="token_file", hint="chmod o-r"):
        Access.from_file(str(path))
    path.chmod(0o600)
    path.write_text("short\n")
    with raises(ParameterError, parameter="token_file", found="5 characters"):
        Access.from_file(str(path))


def test_pages_have_a_policy_and_tags(tmp_path, monkeypatch):
    (tmp_path / "paged" / "site" / "deep").mkdir(parents=True)
    (tmp_path / "paged" / "__init__.py").write_text("")
    (tmp_path / "paged" / "site" / "deep" / "a.js").write_text("let a;")
    (tmp_path / "paged" / "site" / "index.html").write_text("<p>")
    (tmp_path / "paged" / "site" / "notes.py").write_text("secret = 1")
    monkeypatch.syspath_prepend(tmp_path)
    pages = Pages("paged", "site")
    assert pages.names == ["deep/a.js", "index.html"]

    async def page(request):
        return pages.get(request, request.parameters["path"])

    with background(App([Route("GET", "/{path*}", page)])) as url:
        address = url.removeprefix("http://")
        answer, body = ask(address, "GET", "/deep/a.js")
        assert (body, answer.headers["content-type"]) == (
            b"let a;",
            "text/javascript; charset=utf-8",
        )
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-cache"
        tag = {"If-None-Match": answer.headers["etag"]}
        answer, body = ask(address, "GET", "/deep/a.js", headers=tag)
        assert (answer.status, body) == (304, b"")
        for path in (
            "/notes.py",
            "/../__init__.py",
            "/%2e%2e/__init__.py",
            "//etc/passwd",
            "/deep",
        ):
            assert ask(address, "GET", path)[0].status == 404, path


def test_changes_need_our_own_page():
    def check(request):
        check_same_origin(request, "X-Tagloom-Test")

    with background(make(checks=[check])) as url:
        address = url.removeprefix("http://")
        ours = JSON | {"X-Tagloom-Test": "1", "Origin": url, "Sec-Fetch-Site": "same-origin"}
        body = '{"words": []}'
        assert ask(address, "POST", "/echo", body, ours)[0].status == 200
        assert ask(address, "GET", "/hello")[0].status == 200
        for change, status in (
            ({"Origin": "http://evil.example"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"X-Tagloom-Test": "0"}, 403),
            ({"Content-Type": "text/plain"}, 415),
        ):
            assert ask(address, "POST", "/echo", body, ours | change)[0].status == status, change


def test_other_origins():
    with background(make(origins=["https://a.example"])) as url:
        address = url.removeprefix("http://")
        answer, _ = ask(address, "GET", "/hello", headers={"Origin": "https://a.example"})
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        answer, _ = ask(address, "GET", "/hello", headers={"Origin": "https://b.example"})
        assert "access-control-allow-origin" not in answer.headers
        answer, _ = ask(address, "OPTIONS", "/echo", headers={"Origin": "https://a.example"})
        assert (answer.status, answer.headers["access-control-allow-methods"]) == (204, "GET, POST")


def test_the_observer_sees_every_answer():
    seen = []

    def observe(request, status, seconds):
        seen.append((request.path, status))
        assert 0 < seconds < 10

    with background(make(observer=observe)) as url:
        address = url.removeprefix("http://")
        ask(address, "GET", "/hello")
        ask(address, "GET", "/hello", headers={"Host": "evil"})
        ask(address, "POST", "/crash")
    assert seen == [("/hello", 200), ("/hello", 421), ("/crash", 500)]


def test_endless_headers_are_refused(address):
    head = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n"
    assert b"200 OK" in send(address, head + b"X: " + b"a" * 30_000 + b"\r\n\r\n")
    assert b" 431 " in send(address, head + b"X: " + b"a" * 100_000)


def test_a_port_in_use_is_reported():
    with bind() as listening:
        port = listening.getsockname()[1]
        with raises(ParameterError, parameter="port", found=f"127.0.0.1:{port}"):
            bind(port=port)
    with raises(ParameterError, parameter="host", found="192.0.2.1"):
        bind("192.0.2.1")
    with raises(ParameterError, parameter="host", found="no such name"):
        bind("no such name")


def test_a_stopping_server_completes_what_is_in_flight():
    entered = threading.Event()

    async def slow(request):
        import asyncio

        entered.set()
        await asyncio.sleep(0.3)
        return Response(b"done", content_type=b"text/plain")

    answers = []
    with background(App([Route("GET", "/", slow)])) as url:
        address = url.removeprefix("http://")
        thread = threading.Thread(target=lambda: answers.append(ask(address, "GET", "/")))
        thread.start()
        assert entered.wait(10)
        began = time.monotonic()
    thread.join()
    answer, body = answers[0]
    assert (answer.status, body) == (200, b"done")
    assert answer.headers["connection"] == "close"
    assert time.monotonic() - began < 5


def test_the_client_error_is_a_request_error():
    error = RequestError(status=404, where="model", expected="one of pos", found="'x'")
    assert (error.status, error.retry_after) == (404, None)


@pytest.mark.parametrize("accepted", ["gzip", "br, gzip;q=0.5", "gzip;q=0", "br", None])
def test_long_answers_are_compressed(accepted):
    async def long(request):
        return reply(["word"] * int(request.query(["n"])["n"]))

    headers = {} if accepted is None else {"Accept-Encoding": accepted}
    with background(App([Route("GET", "/long", long)], compress=True)) as url:
        for n in (10, 1000, 100_000):
            answer, body = _raw(url.removeprefix("http://"), f"/long?n={n}", headers)
            if accepted is not None and accepted.endswith(("gzip", "0.5")) and n > 10:
                assert answer.headers["content-encoding"] == "gzip"
                assert answer.headers["vary"] == "accept-encoding"
                assert len(body) < 3 * n
                body = gzip.decompress(body)
            else:
                assert answer.headers["content-encoding"] is None
            assert json.loads(body) == ["word"] * n


def _raw(address, path, headers):
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("GET", path, headers={"Accept-Encoding": "identity", **headers})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data


# ---- answers without a task ------------------------------------------------------------------


@pytest.fixture
def counted():
    """An app whose route answers small bodies at once; yields address and observed statuses."""
    seen = []

    async def handler(request):
        return reply({"by": "handler", "size": len(await request.body())})

    def at_once(request, body):
        if body == b"bad":
            raise LabelError(where="body", expected="something else", found="bad")
        return None if len(body) > 20 else reply({"by": "at once", "size": len(body)})

    app = App(
        [Route("POST", "/tag", handler, at_once)],
        access=Access(TOKEN),
        max_body=1000,
        observer=lambda request, status, seconds: seen.append((request.path, status)),
    )
    with background(app) as url:
        yield url.removeprefix("http://"), seen, app


def piece(body, **headers):
    lines = {"Host": "localhost", "Authorization": f"Bearer {TOKEN}", **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"POST /tag HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def exchange(address, pieces, n_answers):
    """Send pieces of data one by one; return the heads and bodies of the answers."""
    host, _, port = address.rpartition(":")
    answers, data = [], b""
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        for part in pieces:
            connection.sendall(part)
            time.sleep(0.05)
        while len(answers) < n_answers:
            head, end, rest = data.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            if end and len(rest) >= int(length):
                answers.append((head.decode(), json.loads(rest[: int(length)])))
                data = rest[int(length) :]
                continue
            received = connection.recv(65536)
            assert received, (answers, data)
            data += received
    return answers


def test_small_requests_are_answered_at_once(counted):
    address, seen, app = counted
    [(head, body)] = exchange(address, [piece(b"small")], 1)
    assert body == {"by": "at once", "size": 5}
    ordinary, _ = ask(address, "POST", "/tag", b"y" * 30, {"Authorization": f"Bearer {TOKEN}"})
    names = {line.split(":")[0] for line in head.split("\r\n")[1:]}
    assert names == {name.lower() for name in ordinary.headers}
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert seen == [("/tag", 200)] * 2
    assert app.count_in_flight() == 0


def test_what_is_not_answered_at_once(counted):
    address, seen, app = counted
    whole = piece(b"small")
    for expected, pieces in (
        ("handler", [piece(b"z" * 30)]),  # the route leaves it to the handler
        ("handler", [whole[:-2], whole[-2:]]),  # the body comes in two parts
        ("at once", [whole[:20], whole[20:]]),  # the headers do, and the body with the second
        ("handler", [piece(b"small", Connection="close")]),
    ):
        [(_, body)] = exchange(address, pieces, 1)
        assert body["by"] == expected, pieces
    (head, body), (_, second) = exchange(address, [piece(b"bad"), whole], 2)
    assert head.startswith("HTTP/1.1 422 ")
    assert body["where"] == "body"
    assert second["by"] == "at once"
    assert ask(address, "POST", "/tag", b"small")[0].status == 401
    assert app.count_in_flight() == 0
    assert ("/tag", 401) in seen


def test_pipelined_requests_are_answered_in_order(counted):
    address, _, app = counted
    sizes = [3, 30, 4, 5, 40, 6]
    answers = exchange(address, [b"".join(piece(b"x" * size) for size in sizes)], len(sizes))
    assert [body["size"] for _, body in answers] == sizes
    assert app.count_in_flight() == 0


def test_heads_that_are_known_are_not_parsed_again(counted, monkeypatch):
    address, seen, app = counted
    parsed = []
    slow = Protocol.on_headers_complete
    monkeypatch.setattr(Protocol, "on_headers_complete", lambda p: (parsed.append(1), slow(p)))
    sizes = [5, 7, 7, 0, 19]
    answers = exchange(address, [piece(b"x" * size) for size in sizes], len(sizes))
    assert [body["size"] for _, body in answers] == sizes
    assert len({head.partition("content-length")[0].split("date")[0] for head, _ in answers}) == 1
    assert len(parsed) == 1  # lengths differ, the rest of the heads does not
    exchange(address, [piece(b"y", Accept="text/html")], 1)
    assert len(parsed) == 2
    # Known heads in front of what must be parsed: a large body, two requests, half of one.
    whole = piece(b"small")
    for pieces, expected in (
        ([whole, piece(b"z" * 30), whole], ["at once", "handler", "at once"]),
        ([whole + whole, whole], ["at once"] * 3),
        ([whole, whole[:9], whole[9:], whole[:-1], whole[-1:]], ["at once"] * 2 + ["handler"]),
    ):
        assert [body["by"] for _, body in exchange(address, pieces, 3)] == expected
    assert app.count_in_flight() == 0
    assert {status for _, status in seen} == {200}


@pytest.mark.parametrize(
    "line",
    ["Content-Length: 5", "Transfer-Encoding: chunked", "content-length: 6", "Content-Length: +5"],
)
def test_a_request_with_two_lengths_is_refused(counted, line):
    address, _, _ = counted
    whole = piece(b"small")
    double = whole.replace(b"\r\nAuth", b"\r\n" + line.encode() + b"\r\nAuth")
    host, _, port = address.rpartition(":")
    exchange(address, [whole, whole], 2)
    for data in (double, whole.replace(b"gth: 5", b"gth: 5\r\n" + line.encode())):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(data)
            assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_a_token_is_checked_though_the_head_is_known(counted):
    address, _, app = counted
    whole = piece(b"small")
    exchange(address, [whole, whole], 2)
    wrong = piece(b"small", Authorization="Bearer " + "x" * len(TOKEN))
    answers = exchange(address, [wrong, wrong, whole], 3)
    assert [head.split()[1] for head, _ in answers] == ["401", "401", "200"]
    assert app.count_in_flight() == 0


def test_requests_that_arrive_together_are_counted(counted):
    address, _, app = counted
    turns = []
    app.observer = lambda request, status, seconds: turns.append(app.turn)
    exchange(address, [piece(b"x") * 3], 3)
    assert turns == [1, 2, 3]
    exchange(address, [piece(b"x"), piece(b"x")], 2)
    assert turns[3:] == [1, 1]


def test_idle_connections_are_closed(counted, monkeypatch):
    address, _, _ = counted
    monkeypatch.setattr(running, "KEEP_ALIVE", 0.2)
    host, _, port = address.rpartition(":")
    for body in (b"small", b"z" * 30):  # answered at once, and by the handler
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(piece(body))
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
            assert connection.recv(65536) == b""


def test_a_draining_server_says_that_it_closes(counted):
    address, _, app = counted
    app.is_draining = True
    [(head, body)] = exchange(address, [piece(b"small")], 1)
    assert body["by"] == "handler"
    assert "connection: close" in head
