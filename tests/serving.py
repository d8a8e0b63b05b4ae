"""Servers for tests: in a thread of this process, or as programs of their own."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

from tagloom.serve import Metrics, Registry, Served, Settings, make_app
from tagloom.web import background

JSON = {"Content-Type": "application/json"}


@contextlib.contextmanager
def serving(taggers, **settings):
    """Serve taggers by name; yields the address, such as 127.0.0.1:40000."""
    registry = Registry(taggers)
    for name, tagger in taggers.items():
        registry.put(Served(name, f"version-of-{name}", tagger))
    app = make_app(registry, Settings(**settings), Metrics(taggers))
    with background(app) as url:
        yield url.removeprefix("http://")


def ask(address, path, body=None, headers=JSON, method=None):
    """Send one request; returns the status, the headers and the body, parsed if it is JSON."""
    connection = http.client.HTTPConnection(address, timeout=60)
    if body is not None and not isinstance(body, bytes | str) and not hasattr(body, "__next__"):
        body = json.dumps(body)
    data = body.encode() if isinstance(body, str) else body
    try:
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers)
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    is_json = (answer.headers["content-type"] or "").endswith("json") and data
    is_json = is_json and "ndjson" not in answer.headers["content-type"]
    is_json = is_json and answer.headers["content-encoding"] is None
    return answer.status, answer.headers, json.loads(data) if is_json else data


def tag(address, **body):
    """Ask for tags; returns the answer, which must be 200."""
    status, _, answer = ask(address, "/v1/tag", body)
    assert status == 200, answer
    return answer


def compiling(environment):
    """Return an environment in which compiled modules are kept, as in an installed package."""
    return {k: v for k, v in environment.items() if k != "PYTHONDONTWRITEBYTECODE"}


class Program:
    """``tagloom serve`` as a process; its port is any free one."""

    def __init__(self, *arguments, **environment):
        command = [sys.executable, "-c", "from tagloom.cli import main; main()", "serve"]
        self.process = subprocess.Popen(
            [*command, "--port", "0", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**compiling(os.environ), **environment},
        )
        self.errors = []
        self._collector = threading.Thread(target=self._collect, daemon=True)
        self._collector.start()
        line = self.process.stdout.readline()
        match = re.match(r"http://(\S+)/docs", line)
        if match is None:
            self.process.wait(30)
            raise RuntimeError(f"no server: {line}{''.join(self.errors)}")
        self.address = match[1]
        self.port = int(self.address.rpartition(":")[2])

    def _collect(self):
        self.errors += self.process.stderr

    def wait_until_ready(self, seconds=30):
        """Wait until all models are loaded."""
        ending = time.monotonic() + seconds
        while time.monotonic() < ending:
            with contextlib.suppress(OSError):
                if ask(f"127.0.0.1:{self.port}", "/readyz")[0] == 200:
                    return self
            time.sleep(0.02)
        raise RuntimeError("not ready")

    def stop(self, number=signal.SIGTERM):
        """Send a signal and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        self._close()
        return code

    def __enter__(self):
        return self.wait_until_ready()

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._close()

    def _close(self):
        self._collector.join(20)  # until the program has closed its end
        self.process.stdout.close()
        self.process.stderr.close()
