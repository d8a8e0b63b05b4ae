"""The checks V2 to V15 of the server, each a function that raises if its figure is missed.

    python benchmarks/serving/checks.py               # short forms, two minutes
    python benchmarks/serving/checks.py --long V4 V7  # the long forms of two of them

Latencies are printed, not asserted: they say as much about the load of the machine as about the
server. V1 and V3 are in compare.py, V9 is in soak.py; `make bench-serve` runs what needs a quiet
machine.
"""

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

import load

import tagloom as tl
from serving import Program, ask

CHECKS = {}


def check(function):
    """Register a check under the first word of its docstring."""
    CHECKS[function.__doc__.split(":")[0]] = function
    return function


def require(condition, *facts):
    """Raise with the facts unless the condition holds."""
    if not condition:
        raise AssertionError(" ".join(map(str, facts)))


@contextlib.contextmanager
def models(*labels):
    """Train small taggers on the embedded corpus; yields the paths of their files."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, label in enumerate(labels):
            corpus = tl.datasets.load("english", "train", label=label)
            paths.append(Path(folder, f"m{i}.tagloom"))
            tl.CRF().fit(corpus).save(paths[-1])
        yield paths


def shown(times):
    """Return p50, p99 and p99.9 as text."""
    return f"p50 {times[0]:.2f} ms, p99 {times[1]:.2f} ms, p99.9 {times[2]:.2f} ms"


def capacity_of(program, requests, n_connections, seconds):
    """Return the requests per second that a server on one core answers to a closed loop."""
    load.keep_on_core(program.process.pid, 0)
    full = load.send(program.port, requests, 1e6, n_connections, seconds)
    return full.statuses["200"] / seconds


@check
def latency(long):
    """V2: open loop at 70 % of the capacity, 64 connections; server and client have a core each."""
    seconds = 60 if long else 3
    with models("upos") as [path], Program(path) as program:
        request = [load.post("/v1/tag", load.bodies(1))]
        capacity = capacity_of(program, request, 64, 3 if long else 1)
        cpu = load.cpu_of(program.process.pid)
        done = load.send(program.port, request, 0.7 * capacity, 64, seconds)
        cpu = load.cpu_of(program.process.pid) - cpu
    require(set(done.statuses) == {"200"} and not done.broken, done.statuses, done.broken)
    return (
        f"{0.7 * capacity:.0f} requests/s of {capacity:.0f} for {seconds} s: "
        f"{shown(done.latency)}; {1e6 * cpu / done.sent:.0f} µs of CPU per request; the client "
        f"itself was late: {shown(done.late)}"
    )


def replace(target, way, data):
    """Replace a model file in one of four ways."""
    if way == "rename":
        part = target.with_suffix(".part")
        part.write_bytes(data)
        os.replace(part, target)
    elif way == "cp":
        target.write_bytes(data)
    elif way == "garbage":
        target.write_bytes(random.randbytes(len(data)))
    else:
        os.truncate(target, len(data) // 2)


@check
def reload(long):
    """V4: the model file is replaced under load by rename, cp, garbage and truncation."""
    n = 200 if long else 16
    ways = ("rename", "cp", "garbage", "truncate")
    with models("upos") as [path]:
        other = path.with_name("other.tagloom")
        tl.CRF(features="words").fit(tl.datasets.load("english", "train")).save(other)
        good = [path.read_bytes(), other.read_bytes()]
        versions = set()

        def note(status, body):
            versions.add(json.loads(body)["version"] if status == 200 else status)

        def replace_all():
            for i in range(n):
                replace(path, ways[i % 4], good[(i + 1) % 2])
                # Files that are at rest are loaded; others are only seen to change.
                time.sleep(1.3 if i % 8 in (0, 1, 6) else 0.1)

        with Program(path) as program:
            pid = program.process.pid
            request = [load.post("/v1/tag", load.bodies(1))]
            replacing = threading.Thread(target=replace_all)
            before = load.memory_of(pid)
            replacing.start()
            done = load.run(load.Load(program.port, request, 400, 32, note), 0.6 * n)
            replacing.join()
            growth = load.memory_of(pid) - before
            text = ask(f"127.0.0.1:{program.port}", "/metrics")[2].decode()
            code = program.stop()
    valid = {hashlib.sha256(data).hexdigest()[:16] for data in good}
    require(not done.broken and set(done.statuses) == {200}, done.statuses, done.broken)
    require(versions <= valid and len(versions) == 2, versions, valid)
    require(code == 0 and growth < 20e6, code, growth)
    reloads = [x for x in text.splitlines() if x.startswith("tagloom_reloads_total")]
    counts = ", ".join(x.partition('result="')[2].replace('"}', "") for x in reloads)
    return (
        f"{n} replacements, {done.statuses[200]} answers, 0 failures, all of valid versions; "
        f"reloads: {counts}; memory {growth / 1e6:+.1f} MB"
    )


@check
def drain(long):
    """V5: SIGTERM under 64 keep-alive clients, at 1 and 2 workers."""
    texts = []
    for n_workers in (1, 2) * (5 if long else 1):
        with models("upos") as [path]:
            program = Program(path, "--drain-delay", 1, "--workers", n_workers)
            program.wait_until_ready()
            times = []

            def stop(seconds, program=program, times=times):
                if not times:
                    times.append(time.monotonic())
                    program.process.send_signal(signal.SIGTERM)

            def wait(program=program, times=times):
                program.process.wait()
                times.append(time.monotonic())

            waiter = threading.Thread(target=wait)
            waiter.start()
            request = [load.post("/v1/tag", load.bodies(1))]
            done = load.run(load.Load(program.port, request, 300, 64), 4.5, (1.0, stop))
            waiter.join()
            code = program.stop()
        seconds = times[1] - times[0]
        require(code == 0, "exit code", code)
        require(seconds < 1 + 1 + 1, "ended after", seconds)
        require(set(done.statuses) == {200}, done.statuses)
        require(done.broken_answers() == 0, done.broken)
        texts.append(f"{done.statuses[200]} answers, {seconds:.2f} s")
    return f"0 resets, 0 lost, exit code 0: {'; '.join(texts)}"


@check
def killed(long):
    """V6: a worker is killed; only its requests in flight fail, and it is replaced within 1 s."""
    times = []
    with models("upos") as [path], Program(path, "--workers", 2) as program:

        def kill(seconds):
            if not times:
                victim = load.processes_of(program.process.pid)[1]
                os.kill(victim, signal.SIGKILL)
                times.append(time.monotonic())
                threading.Thread(target=wait, args=(victim,)).start()

        def wait(victim):
            alive = [victim]
            while len(alive) != 2 or victim in alive:
                alive = load.processes_of(program.process.pid)[1:]
                time.sleep(0.01)
            times.append(time.monotonic())

        request = [load.post("/v1/tag", load.bodies(1))]
        done = load.run(load.Load(program.port, request, 300, 32), 6 if long else 3, (1.0, kill))
    seconds = times[1] - times[0]
    require(set(done.statuses) == {200}, done.statuses)
    require(done.broken_answers() <= 32, done.broken)
    require(seconds < 1, seconds)
    return f"{done.broken_answers()} of {done.n_sent} failed, replaced after {seconds:.2f} s"


@check
def overload(long):
    """V7: four times the capacity; only 200 and 429, those soon, and memory stays flat."""
    return "; ".join(overload_with(n, long) for n in (1, 150))


def overload_with(n_sentences, long):
    """Overload a server with requests of some sentences, from 128 connections."""
    seconds = 30 if long else 4
    requests = [load.post("/v1/tag", load.bodies(n_sentences))]
    limit = 64 if n_sentences == 1 else 4  # about 2 ms of work
    with models("upos") as [path], Program(path, "--max-in-flight", limit) as program:
        pid, port = program.process.pid, program.port
        capacity = capacity_of(program, requests, limit, 3 if long else 1)
        load.send(port, requests, 4 * capacity, 128, 2 if long else 1)  # what is allocated once
        before = load.memory_of(pid)
        done = load.send(port, requests, 4 * capacity, 128, seconds)
        growth = load.memory_of(pid) - before
        began = time.monotonic()
        status = ask(f"127.0.0.1:{port}", "/v1/tag", load.bodies(1))[0]
        recovered = time.monotonic() - began
    require(set(done.statuses) == {"200", "429"}, done.statuses)
    require(not done.broken, done.broken)
    require(growth < 20e6, growth)
    require(status == 200 and recovered < 1, status, recovered)
    return (
        f"{n_sentences} sentences: capacity {capacity:.0f}/s, offered {4 * capacity:.0f}/s, "
        f"for {seconds} s {done.sent / seconds:.0f}/s left: {done.statuses}, 200 from when it left "
        f"{shown(done.service)}, memory {growth / 1e6:+.1f} MB, next answer after "
        f"{1e3 * recovered:.0f} ms"
    )


HOSTILE = [
    b"[" * 5000,
    b'{"sentences":' * 3000,
    b'{"sentences":[["\\ud800"]]}',
    b'{"sentences":[[NaN]]}',
    b'{"sentences":[["a"]],"nbest":1e999}',
    b'{"sentences":[["a"]],"nbest":' + b"9" * 400 + b"}",
    b'{"sentences":[["\xff\xfe"]]}',
    b'{"texts":["\\u0000\\u202e\\ufeff"],"offsets":"byte"}',
    b'{"sentences":[["a"]],"known":[[["NOUN","VERB"]]],"probs":"all","nbest":3}',
    b'{"sentences":[{"tokens":["a"],"columns":{"x":["y"]}}]}',
    b'{"texts":["Ada lives in Paris. Why?"],"probs":"all","spans":true}',
    b'{"sentence":["They","can"],"known":[null,"VERB"]}',
    b"",
    b"null",
]


def mutated(rng):
    """Return a body with some bytes changed, removed or repeated."""
    data = bytearray(rng.choice(HOSTILE))
    for _ in range(rng.randrange(4)):
        if not data:
            break
        at = rng.randrange(len(data))
        way = rng.randrange(4)
        if way == 0:
            data[at] = rng.randrange(256)
        elif way == 1:
            del data[at : at + rng.randrange(1, 9)]
        elif way == 2:
            data[at:at] = data[at : at + rng.randrange(1, 30)]
        else:
            data[at:at] = rng.choice([b'"', b"[", b"{", b"\\u", b"1e5", b"null", b"\xf0"])
    return bytes(data)


@check
def fuzz(long):
    """V8: mutated bodies, bombs and 200 slow connections; no 5xx but 503 and 504."""
    n, rate = (100_000, 1000) if long else (3000, 800)
    rng = random.Random(0)
    bomb = gzip.compress(b'{"texts":["' + b"a" * 50_000_000)
    packed = "application/json\r\nContent-Encoding: gzip"
    requests = [
        load.post(rng.choice(["/v1/tag", "/v1/tag", "/v1/explain"]), mutated(rng))
        for _ in range(min(n, 20_000))
    ]
    for i in range(10):
        requests[i * len(requests) // 10] = load.post("/v1/tag", bomb, packed)
    with models("upos") as [path], Program(path, "--timeout", 5) as program:
        pid = program.process.pid
        slow = []
        for i in range(200):
            connection = socket.create_connection(("127.0.0.1", program.port))
            connection.sendall(b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\n"[: 5 + i % 30])
            slow.append(connection)
        load.run(load.Load(program.port, requests, rate, 16), 2)
        before = load.memory_of(pid)
        done = load.run(load.Load(program.port, requests, rate, 16), n / rate)
        growth = load.memory_of(pid) - before
        n_closed = 0
        for connection in slow:
            connection.settimeout(20)
            with contextlib.suppress(OSError):
                n_closed += connection.recv(100).startswith(b"HTTP/1.1 408")
            connection.close()
        status = ask(f"127.0.0.1:{program.port}", "/v1/tag", load.bodies(1))[0]
    bad = {s: k for s, k in done.statuses.items() if s >= 500 and s not in (503, 504)}
    require(not bad and status == 200, done.statuses)
    require(not done.broken_answers(), done.broken)
    require(growth < 30e6, growth)
    require(n_closed == 200, n_closed)
    return (
        f"{done.n_sent} bodies: {dict(done.statuses)}; memory {growth / 1e6:+.1f} MB; "
        "200 slow connections: 408"
    )


@check
def equal(long):
    """V10: answers equal predict, at 1 and 4 workers, in JSON, NDJSON and CoNLL-U."""
    sentences = [s.tokens for part in tl.datasets.load("english") for s in part]
    rng = random.Random(1)
    many = [rng.sample(x, len(x)) for x in sentences * 15][:10_000] if long else sentences[:600]
    out = io.BytesIO()
    tl.write(tl.Corpus(many, [["X"] * len(x) for x in many]), out, "conllu")
    with models("upos") as [path]:
        want = tl.load(path).predict(many)
        for n_workers in (1, 4):
            with Program(path, "--workers", n_workers) as program:
                address = f"127.0.0.1:{program.port}"
                found = []
                for i in range(0, len(many), 50):
                    body = {"sentences": many[i : i + 50]}
                    found += ask(address, "/v1/tag", body)[2]["labels"]
                require(found == want, "JSON")
                lines = "".join(json.dumps(x) + "\n" for x in many)
                kind = {"Content-Type": "application/x-ndjson"}
                data = ask(address, "/v1/tag", lines, kind)[2]
                require([json.loads(x)["labels"] for x in data.splitlines()] == want, "NDJSON")
                kind = {"Content-Type": "text/x-conllu"}
                data = ask(address, "/v1/tag?label=upos", out.getvalue(), kind)[2]
                back = tl.read(io.BytesIO(data), "conllu", label="upos")
                require(back.labels == want, "CoNLL-U")
    return f"{len(many)} sentences, identical in 3 formats at 1 and 4 workers"


@check
def stream(long):
    """V11: NDJSON in constant memory."""
    size = (1 << 30) if long else (24 << 20)
    line = json.dumps({"tokens": load.SENTENCE * 2}).encode() + b"\n"
    block = line * 1000
    with models("upos") as [path], Program(path) as program:
        pid = program.process.pid
        counts = []
        with socket.create_connection(("127.0.0.1", program.port)) as connection:
            head = b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
            head += b"application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head)

            def receive():
                count, tail = 0, b""
                while not tail.endswith(b"\r\n0\r\n\r\n"):
                    data = connection.recv(1 << 18)
                    if not data:
                        break
                    count += data.count(b"}\n")
                    tail = (tail + data)[-10:]
                counts.append(count)

            receiver = threading.Thread(target=receive)
            began, cpu = time.perf_counter(), load.cpu_of(pid)
            receiver.start()
            sent = peak = 0
            while sent < size:
                connection.sendall(b"%x\r\n" % len(block) + block + b"\r\n")
                sent += len(block)
                peak = max(peak, load.memory_of(pid))
            connection.sendall(b"0\r\n\r\n")
            receiver.join()
        seconds, cpu = time.perf_counter() - began, load.cpu_of(pid) - cpu
    n_lines = sent // len(line)
    n_tokens = n_lines * 2 * len(load.SENTENCE)
    # An end of line may be cut in two by the pieces in which it arrives.
    require(abs(counts[0] - n_lines) <= n_lines // 100, counts, n_lines)
    require(peak < 150e6, peak)
    return (
        f"{sent / 1e6:.0f} MB, {n_tokens / 1e6:.1f} M tokens in {seconds:.1f} s, {cpu:.1f} s of "
        f"CPU ({n_tokens / cpu / 1e6:.2f} M tokens per second), at most {peak / 1e6:.0f} MB"
    )


PIECES = ["🙂", "e\u0301", "\r\n", "👩\u200d👩\u200d👧", "İ", "a", "Paris", ".", " ", "\u2028", "ß"]
PIECES += ["\U0010ffff", "don't", "\u0939\u093f", "\ufeff", "“", "3.50", "日本", "\u0000", "\t"]
NODE = """
for (const line of require("fs").readFileSync(0, "utf8").split("\\n")) {
  if (!line) continue;
  const { text, sentences } = JSON.parse(line);
  for (const sentence of sentences)
    for (const piece of [...sentence.tokens, ...sentence.spans])
      if (text.slice(piece.start, piece.end) !== piece.text) process.exit(1);
}
"""


@check
def offsets(long):
    """V12: offsets of hostile texts slice back in three units; UTF-16 is checked by node."""
    rng = random.Random(2)
    n = 10_000 if long else 400
    texts = ["".join(rng.choices(PIECES, k=rng.randrange(1, 40))) for _ in range(n)]
    codecs = {"codepoint": ("utf-32-le", 4), "utf16": ("utf-16-le", 2), "byte": ("utf-8", 1)}
    n_pieces, lines = 0, []
    with models("entity") as [path], Program(path) as program:
        for unit, (codec, width) in codecs.items():
            for i in range(0, n, 100):
                body = {"texts": texts[i : i + 100], "offsets": unit}
                answer = ask(f"127.0.0.1:{program.port}", "/v1/tag", body)[2]
                for text, found in zip(texts[i : i + 100], answer["documents"], strict=True):
                    data = text.encode(codec)
                    for sentence in found["sentences"]:
                        for piece in [*sentence["tokens"], *sentence["spans"]]:
                            raw = data[piece["start"] * width : piece["end"] * width]
                            require(raw.decode(codec) == piece["text"], text, piece)
                            n_pieces += 1
                    if unit == "utf16":
                        lines.append(json.dumps({"text": text, "sentences": found["sentences"]}))
    node = shutil.which("node")
    if node is not None:
        done = subprocess.run([node, "-e", NODE], input="\n".join(lines), text=True, check=False)
        require(done.returncode == 0, "node finds other text")
    return f"{n} texts, {n_pieces} pieces in 3 units; node: {'agrees' if node else 'not installed'}"


@check
def raw(long):
    """V13: raw text of EWT end to end, against gold tokens."""
    folder = os.environ.get("TAGLOOM_DATA")
    if not folder:
        return "skipped: TAGLOOM_DATA is not set"
    from tagloom.sequences.raw import paragraphs

    paths = sorted(Path(folder, "ud-english-ewt").rglob("*.conllu*"))
    names = [next(p for p in paths if part in p.name) for part in ("train", "test")]
    train, test = (tl.read(name, "conllu", label="upos") for name in names)
    texts = [*paragraphs(test)]
    tagger = tl.CRF().fit(train)
    tokenizer = tl.Tokenizer().fit(train) if long else tl.Tokenizer()
    gold, found = set(), set()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "ewt.tagloom")
        tagger.with_tokenizer(tokenizer).save(path)
        with Program(path) as program:
            labels = iter(test.labels)
            for d, part in enumerate(texts):
                for rows in part.offsets:
                    gold |= {(d, *at, y) for at, y in zip(rows, next(labels), strict=True)}
                body = {"texts": [part.text]}
                answer = ask(f"127.0.0.1:{program.port}", "/v1/tag", body)[2]
                for sentence in answer["documents"][0]["sentences"]:
                    for token in sentence["tokens"]:
                        found.add((d, token["start"], token["end"], token["label"]))
    accuracy = 100 * tagger.score(test)
    places = {row[:3] for row in gold}, {row[:3] for row in found}
    f1 = 200 * len(places[0] & places[1]) / (len(places[0]) + len(places[1]))
    labelled = 200 * len(gold & found) / (len(gold) + len(found))
    aligned = 100 * len(gold & found) / len(places[0] & places[1])
    return (
        f"token F1 {f1:.2f}; UPOS {accuracy:.2f} on gold tokens; from raw text {aligned:.2f} on "
        f"aligned tokens, F1 {labelled:.2f}"
    )


@check
def metrics(long):
    """V14: promtool accepts the metrics."""
    tool = shutil.which("promtool")
    if tool is None:
        return "skipped: promtool is not installed (Debian: prometheus)"
    with models("upos") as [path], Program(path, "--workers", 2) as program:
        load.run(load.Load(program.port, load.MIX, 100), 1)
        text = ask(f"127.0.0.1:{program.port}", "/metrics")[2]
    done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, check=False)
    require(done.returncode == 0 and not done.stderr, done.stdout, done.stderr)
    return f"{len(text.splitlines())} lines, clean"


@check
def start(long):
    """V15: from start to the first answer."""
    times, cpus = [], []
    with models("upos") as [path]:
        for _ in range(7 if long else 3):
            began = time.perf_counter()
            program = Program(path)
            status = 503
            while status != 200:
                status = ask(f"127.0.0.1:{program.port}", "/v1/tag", load.bodies(1))[0]
            times.append(time.perf_counter() - began)
            cpus.append(load.cpu_of(program.process.pid))
            program.stop(signal.SIGINT)
    return f"{min(times):.2f} s at best ({min(cpus):.2f} s of CPU), of {len(times)} starts"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CHECKS)}; all by default")
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.names or CHECKS:
        print(f"{name}: {CHECKS[name](arguments.long)}", flush=True)


if __name__ == "__main__":
    main()
