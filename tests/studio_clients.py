"""A studio in this process or in its own, and clients of both."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import pytest

from serving import compiling
from tagloom.studio.app import MARKER

COMMAND = [sys.executable, "-c", "from tagloom.cli import main; main()", "studio", "--no-browser"]
# Limits of time are for a quiet machine. Tests run beside others: three times as long passes, and
# more where several processes wait for each core. TAGLOOM_PATIENCE=1 demands the limits themselves.
_LOAD = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) if hasattr(os, "getloadavg") else 1.0
PATIENCE = float(os.environ.get("TAGLOOM_PATIENCE", 3 * _LOAD))


class Client:
    """A page without a browser: it exchanges the token for a cookie, and sends what a page does."""

    def __init__(self, url):
        self.base, _, self.token = url.partition("/?token=")
        opener = urllib.request.build_opener(_NoRedirect)
        with pytest.raises(urllib.error.HTTPError) as caught:
            opener.open(url)
        with caught.value as answer:
            assert answer.code == 303
            self.location = answer.headers["location"]
            self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def send(self, method, path, body=None, *, headers=None, cookie=True):
        """Return status and decoded answer."""
        sent = {"Cookie": self.cookie} if cookie else {}
        if method != "GET":
            sent |= {MARKER: "1", "Content-Type": "application/json"}
        sent |= headers or {}
        data = None if method == "GET" else body if isinstance(body, bytes) else _json(body)
        request = urllib.request.Request(
            self.base + path,
            data,
            {name: value for name, value in sent.items() if value is not None},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, _decoded(answer)
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, _decoded(answer)

    def get(self, path, **query):
        text = urllib.parse.urlencode(query)
        status, answer = self.send("GET", path + (f"?{text}" if text else ""))
        assert status == 200, answer
        return answer

    def post(self, path, body=None):
        status, answer = self.send("POST", path, body)
        assert status == 200, answer
        return answer

    def edit(self, view, body):
        return self.send(
            "PUT",
            f"/api/sentences/{view['index']}",
            body,
            headers={"If-Match": f'"{view["version"]}"'},
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


def _json(body):
    return json.dumps(body or {}).encode()


def _decoded(answer):
    data = answer.read()
    return json.loads(data) if "json" in answer.headers.get("content-type", "") else data


class Process:
    """``tagloom studio`` as its own process."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=compiling(os.environ),
        )
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.process.stderr.read()

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=30)
        assert self.process.returncode == 0

    def kill(self):
        self.process.kill()
        self.process.communicate()
