"""V1 and V3: CPU per request beside the Starlette floor and FastAPI + sklearn-crfsuite, by wrk.

    python benchmarks/serving/compare.py --python PEERS/bin/python [--seconds 3] [--turns 3]

PEERS is an environment with starlette, fastapi, uvicorn[standard], msgspec and sklearn-crfsuite.
The servers share one core and take turns; wrk has another. CPU is read from /proc, so that other
load of the machine changes it little; the smallest of all turns is shown.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

import load

import tagloom as tl
from serving import ask

RIVALS = Path(__file__).parent / "rivals"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def script(body, folder):
    """Return a file that makes wrk send a body."""
    path = Path(folder, "wrk.lua")
    text = json.dumps(body).replace("\\", "\\\\").replace("'", "\\'")
    path.write_text(
        "wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\n"
        f"wrk.body = '{text}'\n"
    )
    return path


def measure(port, pid, body, connections, seconds, folder):
    """Return microseconds of CPU per request, and requests per second."""
    before = load.cpu_of(pid)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "-s", script(body, folder)]
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1:
        command = ["taskset", "-c", "1", *command]
    done = subprocess.run(
        [*map(str, command), f"http://127.0.0.1:{port}/v1/tag"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Non-2xx" not in done.stdout, done.stdout
    n = int(re.search(r"(\d+) requests in", done.stdout)[1])
    n = max(n, 1)  # a slow server may complete none
    return 1e6 * (load.cpu_of(pid) - before) / n, n / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of the environment of the peers")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    assert shutil.which("wrk"), "wrk is missing: apt-get install wrk"
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        corpus = tl.datasets.load("english", "train", label="upos")
        model, train = Path(folder, "pos.tagloom"), Path(folder, "train.conll")
        tl.CRF().fit(corpus).save(model)
        rows = ["".join(f"{w} {y}\n" for w, y in zip(s, s.labels, strict=True)) for s in corpus]
        train.write_text("\n".join(rows))
        ports = {name: free_port() for name in ("tagloom", "floor", "rival")}
        ours = [sys.executable, "-c", "from tagloom.cli import main; main()", "serve", model]
        commands = {
            "tagloom": [*ours, "--port", ports["tagloom"]],
            "floor": [arguments.python, RIVALS / "floor.py", ports["floor"]],
            "rival": [arguments.python, RIVALS / "crfsuite.py", ports["rival"], train],
        }
        pids = {}
        for name, command in commands.items():
            process = subprocess.Popen(
                [*map(str, ["taskset", "-c", "0", *command])], stdout=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            pids[name] = process.pid
            for _ in range(600):
                with contextlib.suppress(OSError):
                    if ask(f"127.0.0.1:{ports[name]}", "/readyz")[0] == 200:
                        break
                time.sleep(0.1)
        results = defaultdict(list)
        for _ in range(arguments.turns):
            for n in (1, 4, 128):
                for connections in (16, 64) if n < 128 else (16,):
                    for name, port in ports.items():
                        cpu, rate = measure(
                            port, pids[name], load.bodies(n), connections, arguments.seconds, folder
                        )
                        results[n, connections, name].append((cpu, rate))
            for n in (1, 128):
                body = load.bodies(n) | {"probs": "top"}
                cpu, rate = measure(
                    ports["tagloom"], pids["tagloom"], body, 16, arguments.seconds, folder
                )
                results[n, 16, "tagloom, probs"].append((cpu, rate))
    print("| sentences | connections | server | µs of CPU per request | requests/s |")
    print("|---|---|---|---|---|")
    for (n, connections, name), values in sorted(results.items()):
        cpu, rate = min(values)[0], max(rate for _, rate in values)
        print(f"| {n} | {connections} | {name} | {cpu:.0f} | {rate:.0f} |")
    for n in (1, 4, 128):
        cpu = {
            name: min(results[n, c, name])[0]
            for c in (16,)
            for name in ("tagloom", "floor", "rival")
        }
        print(
            f"{n} sentences: {cpu['tagloom'] / cpu['floor']:.2f} x the floor, "
            f"{cpu['rival'] / cpu['tagloom']:.1f} x less than the rival"
        )
    for n in (1, 128):
        ratio = min(results[n, 16, "tagloom, probs"])[0] / min(results[n, 16, "tagloom"])[0]
        print(f"{n} sentences, probs top: {ratio:.2f} x a plain request")


if __name__ == "__main__":
    main()
