"""Instructions of the hot paths, counted by valgrind, which no load of the machine changes.

    python benchmarks/harness/instructions.py     # counts, as JSON

Each path runs warm, on one thread, on the corpus that is part of the package. valgrind's processor
has AVX2 and no AVX-512, so the kernels are those of AVX2. Python's hashes are seeded; counts of one
build differ by less than half a per cent.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Requests of callgrind, from valgrind's callgrind.h: 'C', 'T' and a number.
ZERO, DUMP, START, STOP = (0x43540000 + number for number in (1, 3, 4, 5))
# void request(uint64_t* words), the sequence that valgrind recognises on x86-64:
#   mov rax, rdi; xor edx, edx
#   rol rdi, 3; rol rdi, 13; rol rdi, 61; rol rdi, 51; xchg rbx, rbx; ret
CODE = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db c3")
TRIGGER = re.compile(r"^desc: Trigger: Client Request: (.*)$", re.MULTILINE)
TOTAL = re.compile(r"^(?:totals|summary): (\d+)$", re.MULTILINE)


class NotCounted(Exception):
    """Instructions cannot be counted here; the message has the reason."""


class Callgrind:
    """Sends requests to the callgrind that runs this process; without one, they do nothing."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | 4)
        self._memory.write(CODE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)

    def request(self, code: int, text: bytes | None = None) -> None:
        argument = ctypes.c_char_p(text)
        words = (ctypes.c_uint64 * 6)(code, ctypes.cast(argument, ctypes.c_void_p).value or 0)
        self._call(ctypes.addressof(words))

    def count(self, name: str, path: Callable[[], Any], units: float) -> None:
        path()  # warm: caches are filled, and modules imported
        self.request(START)
        self.request(ZERO)
        path()
        self.request(DUMP, f"{units:g} {name}".encode())
        self.request(STOP)


def features(tokens: list[str]) -> list[dict[str, Any]]:
    """Return features of the kind that users of sklearn-crfsuite write."""
    lower = ["<s>", *(token.lower() for token in tokens), "</s>"]
    return [
        {
            "bias": 1.0,
            "word.lower()": lower[t + 1],
            "word[-3:]": token[-3:],
            "word[-2:]": token[-2:],
            "word.isupper()": token.isupper(),
            "word.istitle()": token.istitle(),
            "-1:word.lower()": lower[t],
            "+1:word.lower()": lower[t + 2],
        }
        for t, token in enumerate(tokens)
    ]


def run_paths() -> None:
    """Run the paths, each once under the eyes of callgrind."""
    import tagloom as tl

    train, _, test = tl.datasets.load("english", label="upos")
    tokens, gold = train.tokens, train.labels
    tagger = tl.CRF("pos", max_iterations=2, n_threads=1).fit(tokens, gold)
    items = [features(sentence) for sentence in tokens]
    by_items = tl.CRF(None, max_iterations=2, n_threads=1).fit(items, gold)
    new_items = [features(sentence) for sentence in test.tokens]
    n_train, n_test = (sum(map(len, part)) for part in (tokens, test.tokens))
    sentence = [min(test.tokens, key=lambda tokens: abs(len(tokens) - 12))]

    def train_for(n: int) -> Callable[[], Any]:
        return lambda: tl.CRF("pos", algorithm="lbfgs", max_iterations=n, n_threads=1).fit(
            tokens, gold
        )

    callgrind = Callgrind()
    callgrind.count("tag words, a token", lambda: tagger.predict(test.tokens, n_threads=1), n_test)
    callgrind.count("tag one sentence", lambda: tagger.predict(sentence, n_threads=1), 1)
    callgrind.count("tag dicts, a token", lambda: by_items.predict(new_items, n_threads=1), n_test)
    callgrind.count(
        "marginals of one sentence", lambda: tagger.predict_marginals(sentence, n_threads=1), 1
    )
    callgrind.count("L-BFGS, 5 iterations, a token", train_for(5), n_train)


def count() -> dict[str, float]:
    """Return the instructions of each path, per unit.

    Raises
    ------
    NotCounted
        If valgrind is missing, or the machine is not an x86-64 with Linux.
    """
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        raise NotCounted("instructions are counted on Linux with x86-64 only")
    if shutil.which("valgrind") is None:
        raise NotCounted("valgrind is missing (apt-get install valgrind)")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={folder}/out",
            sys.executable,
            str(Path(__file__).resolve()),
            "--paths",
        ]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**kept, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
        )
        counts = dict(found for path in Path(folder).iterdir() if (found := read_dump(path)))
    if done.returncode != 0 or not counts:
        lines = done.stderr.strip().splitlines()
        raise NotCounted(lines[-1] if lines else f"valgrind ended with {done.returncode}")
    return dict(sorted(counts.items()))


def read_dump(path: Path) -> tuple[str, float] | None:
    """Return the name of a path and its instructions per unit; None for the last dump, at exit."""
    text = path.read_text(encoding="utf-8", errors="replace")
    trigger, total = TRIGGER.search(text), TOTAL.search(text)
    if trigger is None or total is None:
        return None
    units, name = trigger[1].split(" ", 1)
    return name, round(int(total[1]) / float(units), 1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--paths"]:
        run_paths()
    else:
        print(json.dumps(count(), indent=1))
