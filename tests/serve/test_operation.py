"""What operators see: readiness, metrics, the API document, pages, limits, models."""

import http.client
import itertools
import json
import re
import socket
import threading
import time

import msgspec
import pytest

import tagloom as tl
from raising import raises
from serving import JSON, ask, serving, tag
from tagloom.errors import ModelFileError, ParameterError
from tagloom.serve import OPEN_PATHS, Metrics, Registry, Served, Settings, make_app, parse_sources
from tagloom.serve.metrics import BUCKETS
from tagloom.serve.registry import Loader
from tagloom.web import Access, background

TOKEN = "0123456789abcdef"


def test_health_and_readiness(taggers):
    registry = Registry(["pos"])
    app = make_app(registry, Settings(), Metrics(["pos"]))
    with background(app) as url:
        address = url.removeprefix("http://")
        assert ask(address, "/healthz")[2] == {"status": "alive"}
        status, headers, body = ask(address, "/readyz")
        assert (status, headers["retry-after"], body) == (503, "1", {"status": "loading"})
        status, headers, problem = ask(address, "/v1/tag", {"sentences": [["a"]]})
        assert (status, headers["retry-after"], problem["where"]) == (503, "1", "model")
        registry.put(Served("pos", "1", taggers["pos"]))
        assert ask(address, "/readyz")[2] == {"status": "ready"}
        app.is_draining = True
        status, headers, body = ask(address, "/readyz")
        assert (status, body["status"], headers["connection"]) == (503, "draining", "close")
        assert ask(address, "/healthz")[0] == 200
        app.is_draining = False


def test_models(address, taggers):
    models = ask(address, "/v1/models")[2]["models"]
    assert [m["name"] for m in models] == ["pos", "ner"]
    assert models[0]["labels"] == taggers["pos"].labels_.tolist()
    about = ask(address, "/v1/models/ner")[2]
    assert about["scheme"] == "bio"
    assert about["description"]["training"]["sentences"] == 200
    assert ask(address, "/v1/models/nope")[0] == 404
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", about["loaded"])


def parse_metrics(text):
    values = {}
    for line in text.decode().splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
    return values


def test_metrics(taggers):
    with serving(taggers) as address:
        tag(address, sentences=[["They", "can", "fish"]])
        tag(address, texts=["They can fish."], model="ner")
        ask(address, "/v1/tag", {"sentences": [["a"]], "model": "x"})
        ask(address, "/nothing")
        _, headers, text = ask(address, "/metrics")
        values = parse_metrics(text)
    assert headers["content-type"].startswith("text/plain")
    assert values['tagloom_requests_total{code="200",model="pos",route="tag"}'] == 1
    assert values['tagloom_requests_total{code="404",model="",route="tag"}'] == 1
    assert values['tagloom_requests_total{code="404",model="",route="other"}'] == 1
    assert values['tagloom_tokens_total{model="pos"}'] == 3
    assert values['tagloom_tokens_total{model="ner"}'] == 4
    assert values['tagloom_request_seconds_count{route="tag"}'] == 3
    assert values['tagloom_request_seconds_bucket{le="+Inf",route="tag"}'] == 3
    assert values["tagloom_in_flight"] == 1
    assert values["tagloom_queue_depth"] == 0
    info = 'tagloom_model_info{kind="CRF",name="pos",version="version-of-pos"}'
    assert values[info] == 1
    assert values["process_resident_memory_bytes"] > 1e7


def test_metrics_add_up_over_workers():
    metrics = Metrics(["m"], n_workers=2)
    registry = Registry(["m"])
    for worker in (1, 2):
        metrics.use_row(worker)
        metrics.count_request("m", 0, 200, 0.003)
        metrics.count_tokens("m", 10)
        metrics.set("in_flight", worker)
    values = parse_metrics(metrics.render(registry))
    assert values['tagloom_requests_total{code="200",model="m",route="tag"}'] == 2
    assert values["tagloom_in_flight"] == 3
    metrics.clear_worker(2)
    values = parse_metrics(metrics.render(registry))
    assert values["tagloom_in_flight"] == 1
    assert values['tagloom_tokens_total{model="m"}'] == 20
    metrics.use_row(2)  # a replacement continues the row
    metrics.count_tokens("m", 1)
    assert parse_metrics(metrics.render(registry))['tagloom_tokens_total{model="m"}'] == 21
    metrics.count_request("m", 0, 418, BUCKETS[3])
    values = parse_metrics(metrics.render(registry))
    assert values['tagloom_requests_total{code="other",model="m",route="tag"}'] == 1
    assert values['tagloom_request_seconds_bucket{le="0.005",route="tag"}'] == 3


def test_the_api_document(address):
    status, _, api = ask(address, "/openapi.json")
    assert (status, api["openapi"]) == (200, "3.1.0")
    text = json.dumps(api)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in api["components"]["schemas"]
    for path in api["paths"]:
        assert ask(address, path.format(name="pos"))[0] in (200, 405)
    fields = api["components"]["schemas"]["TagRequest"]["properties"]
    assert set(fields) == {"sentences", "texts", "model", "probs", "nbest", "spans", "offsets"} | {
        "known"
    }


def test_the_openapi_document_states_what_goes_together(address):
    """A validator and the server agree on which fields a request may have."""
    rules = ask(address, "/openapi.json")[2]["components"]["schemas"]["TagRequest"]["oneOf"]
    kinds = {"array": list, "null": type(None)}

    def is_valid(body):
        passed = [
            all(name in body for name in rule["required"])
            and all(
                isinstance(body[name], kinds[of["type"]])
                for name, of in rule["properties"].items()
                if name in body
            )
            for rule in rules
        ]
        return sum(passed) == 1

    values = {"sentences": [["They"]], "texts": ["They"], "known": [["PRON"]], "nbest": 2}
    for names in itertools.product((False, True, None), repeat=len(values)):
        body = {
            name: values[name] if is_given else None
            for name, is_given in zip(values, names, strict=True)
            if is_given is not False
        }
        assert ask(address, "/v1/tag", body)[0] == (200 if is_valid(body) else 422), body


def test_the_page_needs_nothing_from_elsewhere(address):
    status, headers, page = ask(address, "/docs")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    parts = re.findall(r'(?:src|href)="([^"]+)"', page.decode())
    assert "docs/docs.js" in parts
    assert not any("//" in part for part in parts)
    assert b"style=" not in page
    for part in parts:
        assert ask(address, f"/{part}")[0] == 200, part
    assert "default-src 'none'" in headers["content-security-policy"]


def test_tokens_guard_everything_but_health_and_the_page(taggers):
    access = Access(TOKEN, open_paths=OPEN_PATHS)
    with serving(taggers, access=access) as address:
        body = {"sentences": [["a"]]}
        for path in OPEN_PATHS:
            assert ask(address, path)[0] == 200, path
        for path in ("/v1/tag", "/v1/models", "/metrics", "/docs/docs.html", "/openapi.json"):
            assert ask(address, path, body if path == "/v1/tag" else None)[0] == 401, path
        bearer = JSON | {"Authorization": f"Bearer {TOKEN}"}
        assert ask(address, "/v1/tag", body, bearer)[0] == 200
        api = ask(address, "/openapi.json", headers=bearer)[2]
        assert api["security"] == [{"token": []}]


class Slow(tl.MostFrequentTag, kind="tests.Slow"):
    """A tagger that waits until it is told to go on."""

    gate = threading.Event()
    begun = 0

    def predict(self, X, **options):
        if X:
            type(self).begun += 1
            assert self.gate.wait(30)
        return super().predict(X, **options)


@pytest.fixture
def slow():
    Slow.gate.clear()
    Slow.begun = 0
    yield Slow().fit([["a"], ["b"]], [["X"], ["Y"]])
    Slow.gate.set()


MANY = {"sentences": [["a"] * 2500]}  # large enough for a thread


def in_threads(n, call):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(call())) for _ in range(n)]
    for thread in threads:
        thread.start()
    return threads, answers


def wait_for(condition, seconds=30):
    ending = time.monotonic() + seconds
    while not condition() and time.monotonic() < ending:
        time.sleep(0.01)
    assert condition()


def test_too_many_requests_get_429(slow):
    with serving({"slow": slow}, max_in_flight=3) as address:
        threads, answers = in_threads(3, lambda: ask(address, "/v1/tag", MANY)[0])
        # All three are accepted: two in threads, one in the queue. A request whose headers alone
        # have arrived is in flight, too, but may still be the one that is refused.
        wait_for(lambda: Slow.begun == 2)
        wait_for(lambda: parse_metrics(ask(address, "/metrics")[2])["tagloom_queue_depth"] == 1)
        status, headers, problem = ask(address, "/v1/tag", MANY)
        assert (status, headers["retry-after"], problem["where"]) == (429, "1", "server")
        assert ask(address, "/readyz")[0] == 200  # probes are not counted as work
        Slow.gate.set()
        for thread in threads:
            thread.join()
        assert answers == [200] * 3
        assert ask(address, "/v1/tag", MANY)[0] == 200


def test_the_deadline_is_504(slow):
    with serving({"slow": slow}, timeout=0.3) as address:
        status, _, problem = ask(address, "/v1/tag", MANY)
        assert (status, problem["expected"]) == (504, "an answer within 0.3 seconds")


def test_work_for_clients_that_left_is_not_begun(slow):
    with serving({"slow": slow}) as address:
        threads, answers = in_threads(2, lambda: ask(address, "/v1/tag", MANY)[0])
        wait_for(lambda: Slow.begun == 2)
        connections = []
        for _ in range(5):
            connection = http.client.HTTPConnection(address, timeout=5)
            connection.request("POST", "/v1/tag", json.dumps(MANY), JSON)
            connections.append(connection)
        depth = "tagloom_queue_depth"
        wait_for(lambda: parse_metrics(ask(address, "/metrics")[2])[depth] == 5)
        assert parse_metrics(ask(address, "/metrics")[2])["tagloom_in_flight"] == 8
        for connection in connections:
            connection.close()
        left = 'tagloom_requests_total{code="499",model="slow",route="tag"}'
        wait_for(lambda: parse_metrics(ask(address, "/metrics")[2]).get(left) == 5)
        Slow.gate.set()
        for thread in threads:
            thread.join()
        assert answers == [200, 200]
        assert ask(address, "/v1/tag", MANY)[0] == 200
        assert Slow.begun == 3


def test_slow_clients_are_closed(taggers):
    registry = Registry(taggers)
    app = make_app(registry, Settings(timeout=0.5), Metrics(taggers))
    from tagloom.web import Server, bind, url_of

    with bind() as listening:
        host, port = url_of(listening).removeprefix("http://").split(":")
        server = Server(app, [listening], timeout=0.5)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            for first in (b"", b"POST /v1/tag HTTP/1.1\r\nHost: local", HALF_A_BODY):
                with socket.create_connection((host, int(port)), timeout=10) as connection:
                    connection.sendall(first)
                    assert connection.recv(100).startswith(b"HTTP/1.1 408")
        finally:
            server.stop()
            thread.join()


HALF_A_BODY = (
    b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 100\r\n\r\n{"sent'
)


# ---- models ------------------------------------------------------------------------------------


def test_sources():
    assert [s.name for s in parse_sources([])] == ["pos", "chunk", "ner"]
    assert parse_sources(["a/b.c.tagloom"])[0] == ("b", "a/b.c.tagloom")
    with raises(ParameterError, parameter="models", found="'a' twice"):
        parse_sources(["a.tagloom", "a=b.tagloom"])
    with raises(ParameterError, parameter="models", found="'ä'"):
        parse_sources(["ä.tagloom"])


def save(tagger, path):
    tagger.save(path)
    return path.read_bytes()


def test_changed_files_are_loaded_and_bad_ones_refused(tmp_path, taggers, caplog):
    path = tmp_path / "m.tagloom"
    first = save(taggers["pos"], path)
    versions, reports = [], []
    loader = Loader(
        parse_sources([str(path)]),
        lambda served, _: versions.append(served.version),
        lambda name, result: reports.append(result),
    )
    loader.load_all()
    loader.look()
    assert (len(versions), reports) == (1, [])
    second = save(taggers["ner"], path)  # renamed over
    loader.look()
    assert len(versions) == 1  # it may still be changing
    loader.look()
    assert (len(versions), reports) == (2, ["loaded"])
    for bad in (b"", b"garbage", second[: len(second) // 2], second[:-1] + b"x"):
        path.write_bytes(bad)
        loader.look()
        loader.look()
    assert (len(versions), reports) == (2, ["loaded"] + ["refused"] * 4)
    assert "the model in use stays" in caplog.text
    path.unlink()
    loader.look()
    loader.look()
    path.write_bytes(first)  # written in place
    loader.look()
    loader.look()
    assert (len(versions), reports[-1]) == (3, "loaded")
    assert versions[0] == versions[2] != versions[1]
    loader.look(force=True)
    assert len(versions) == 3  # the same bytes are the same version


def test_a_version_is_the_digest_of_the_file(tmp_path, taggers):
    import hashlib

    path = tmp_path / "m.tagloom"
    data = save(taggers["pos"], path)
    versions = []
    Loader(parse_sources([str(path)]), lambda served, _: versions.append(served.version)).load_all()
    assert hashlib.sha256(data).hexdigest().startswith(versions[0])
    assert len(versions[0]) == 16


def test_only_taggers_are_served(tmp_path):
    path = tmp_path / "t.tagloom"
    tl.Tokenizer().save(path)
    with raises(ModelFileError, expected="a tagger", found="a Tokenizer"):
        Loader(parse_sources([str(path)]), lambda *_: None).load_all()


def test_settings_are_those_of_the_command_line():
    from tagloom.cli.serve import command

    defaults = {p.name: p.default for p in command.params}
    settings = Settings()
    for name in ("max_tokens", "max_in_flight", "timeout", "drain_delay"):
        assert defaults[name] == getattr(settings, name)
    assert defaults["max_body"] == "8M"
    assert settings.max_body == 8 << 20
    assert msgspec.json.encode(settings.origins) == b"[]"
