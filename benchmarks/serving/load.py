"""An open-loop HTTP client: requests leave by the clock, whether or not answers have come.

A closed loop, as wrk has, waits for a slow server and so hides its pauses. Here the latency of a
request counts from when it should have left. `Load` is in Python, can look at the answers, and
takes about 40 µs of CPU per request: as much as the server. `Sender` is a program in C++ for high
rates, long times and latencies.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections import Counter, deque
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent / "client.cpp"
SENDER = Path(__file__).parents[2] / "build" / "serving" / "client"


def post(path, body, content_type="application/json", host="localhost"):
    """Return the bytes of a request."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {content_type}\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


class Connection(asyncio.Protocol):
    """A keep-alive connection that has at most one request under way."""

    def __init__(self, load):
        self.load, self.transport, self.data = load, None, b""
        self.due = None  # when the request should have left; None if there is none
        self.sent = 0.0

    def connection_made(self, transport):
        self.transport = transport
        self.load.idle.append(self)

    def ask(self, due, request):
        self.due, self.sent = due, time.perf_counter()
        self.transport.write(request)

    def data_received(self, data):
        self.data = self.data + data if self.data else data
        end = self.data.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.data[:end].lower()
        at = head.find(b"content-length:")
        if at < 0:
            self.load.broken["no length"] += 1
            self.transport.abort()
            return
        size = int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(self.data) < end + 4 + size:
            return
        body, self.data = self.data[end + 4 :], b""
        due, self.due = self.due, None
        self.load.answered(int(head[9:12]), due, self.sent, body)
        if b"connection: close" in head:
            self.transport.close()
        else:
            self.load.idle.append(self)

    def connection_lost(self, error):
        if self.due is not None:
            self.load.broken["lost" if error is None else type(error).__name__] += 1
        with contextlib.suppress(ValueError):
            self.load.idle.remove(self)
        self.load.n_open -= 1


class Load:
    """Sends requests at a rate.

    Parameters
    ----------
    port : int
    requests : list of bytes
        Sent in turn.
    rate : float
        Requests per second.
    n_connections : int
    on_answer : function, optional
        Called with status and body.
    """

    def __init__(self, port, requests, rate, n_connections=64, on_answer=None):
        self.port, self.requests, self.rate = port, requests, rate
        self.n_connections, self.on_answer = n_connections, on_answer
        self.idle, self.waiting = deque(), deque()
        self.n_open = self.n_sent = 0
        self.statuses, self.broken = Counter(), Counter()
        self.latencies, self.services = [], []  # seconds: from due, from sent; of 200 only
        self.reconnects = True

    def answered(self, status, due, sent, body):
        now = time.perf_counter()
        self.statuses[status] += 1
        if status == 200:
            self.latencies.append(now - due)
            self.services.append(now - sent)
        if self.on_answer is not None:
            self.on_answer(status, body)

    async def run(self, seconds, every=None):
        """Send for some seconds; ``every`` second, call a function with the elapsed seconds."""
        loop = asyncio.get_running_loop()
        begin = last = time.perf_counter()
        opening = set()

        async def connect():
            try:
                await loop.create_connection(lambda: Connection(self), "127.0.0.1", self.port)
            except OSError as error:
                self.n_open -= 1
                self.broken[f"connect: {type(error).__name__}"] += 1
                await asyncio.sleep(0.05)

        while (now := time.perf_counter()) - begin < seconds:
            while self.n_open < self.n_connections and self.reconnects:
                self.n_open += 1
                task = loop.create_task(connect())
                opening.add(task)
                task.add_done_callback(opening.discard)
            n_due = int((now - begin) * self.rate) - self.n_sent - len(self.waiting)
            for _ in range(n_due):
                due = begin + (self.n_sent + len(self.waiting) + 1) / self.rate
                self.waiting.append(due)
            while self.waiting and self.idle:
                connection = self.idle.popleft()
                request = self.requests[self.n_sent % len(self.requests)]
                if NEW_WORD in request:
                    request = request.replace(NEW_WORD, b"new%07d" % (self.n_sent % 10**7))
                self.n_sent += 1
                connection.ask(self.waiting.popleft(), request)
            if every is not None and now - last >= every[0]:
                last = now
                every[1](now - begin)
            await asyncio.sleep(0.002)
        unanswered = self.n_sent - sum(self.statuses.values()) - self.broken_answers()
        ending = time.perf_counter() + 10
        while unanswered > 0 and time.perf_counter() < ending:
            await asyncio.sleep(0.02)
            unanswered = self.n_sent - sum(self.statuses.values()) - self.broken_answers()
        return self

    def broken_answers(self):
        """Return the number of requests that got no answer."""
        return sum(n for name, n in self.broken.items() if not name.startswith("connect"))

    def quantiles(self, values=None):
        """Return p50, p99 and p99.9 in milliseconds."""
        ordered = sorted(self.latencies if values is None else values)
        if not ordered:
            return (float("nan"),) * 3
        return tuple(1e3 * ordered[min(int(q * len(ordered)), len(ordered) - 1)] for q in QUANTILES)


QUANTILES = (0.5, 0.99, 0.999)


def run(load, seconds, every=None):
    """Run a load in a loop of its own, uvloop if it is installed."""
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(load.run(seconds, every))


class Sent(NamedTuple):
    """What a `Sender` counted; times are p50, p99, p99.9 and the longest, in milliseconds."""

    sent: int
    statuses: dict[str, int]
    broken: dict[str, int]
    latency: list[float]
    service: list[float]
    late: list[float]
    cpu: float


class Sender:
    """Sends requests at a rate from a process of its own, which is compiled first.

    Parameters
    ----------
    port : int
    requests : list of bytes
        Sent in turn.
    rate : float
        Requests per second.
    n_connections : int
    seconds : float
    """

    def __init__(self, port, requests, rate, n_connections, seconds):
        if not SENDER.exists() or SENDER.stat().st_mtime < SOURCE.stat().st_mtime:
            SENDER.parent.mkdir(parents=True, exist_ok=True)
            part = SENDER.with_suffix(f".{os.getpid()}")
            subprocess.run(["c++", "-std=c++20", "-O2", "-o", part, SOURCE], check=True)
            os.replace(part, SENDER)
        self.process = subprocess.Popen(
            [*map(str, [*on_core(1), SENDER, port, rate, n_connections, seconds])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.process.stdin.write(b"".join(b"%d\n%b" % (len(x), x) for x in requests))
        self.process.stdin.close()

    def result(self):
        """Wait for the end; return what was counted."""
        with self.process:
            return Sent(**json.loads(self.process.stdout.read()))


def on_core(number):
    """Return the beginning of a command that shall run on one core, if there are several."""
    if hasattr(os, "sched_getaffinity") and number in os.sched_getaffinity(0):
        return ["taskset", "-c", str(number)]
    return []


def keep_on_core(pid, number):
    """Keep a process that runs on one core, if there are several."""
    if on_core(number):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), {number})


def send(*arguments):
    """Run a `Sender` to its end."""
    return Sender(*arguments).result()


def processes_of(pid):
    """Return a process and its children."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [pid, *(int(child) for child in path.read_text().split())]


def memory_of(pid):
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors_of(pid):
    """Return the number of open files of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_of(pid):
    """Return the CPU seconds of a process and its children that are alive."""
    total = 0
    for each in processes_of(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


NEW_WORD = b"@newword@@"  # replaced by a word that the server has never seen
SENTENCE = [*("They", "can", "fish", "in", "the", "old"), *("river", "near", "us", "today", ".")]


def bodies(n):
    """Return a request of n sentences of a dozen tokens."""
    words = SENTENCE
    rows = [[*words[i % 11 :], *words[: i % 11], NEW_WORD.decode()] for i in range(n)]
    return {"sentences": rows}


LARGE = post("/v1/tag", bodies(200))  # answered in a thread
MIX = [
    *[post("/v1/tag", bodies(1))] * 12,
    *[post("/v1/tag", bodies(4))] * 4,
    post("/v1/tag", bodies(1) | {"probs": "top"}),
    post("/v1/tag", bodies(1) | {"nbest": 3}),
    post("/v1/tag", {"texts": ["Ada lives in Paris. 🙂 They can't fish!"], "offsets": "utf16"}),
    post("/v1/tag", {"sentences": [["a", 1]]}),  # a mistake of the client
    LARGE,
]
