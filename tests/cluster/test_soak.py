"""Long forms: kills at random moments, a driver that dies, many files; run by `make soak-cluster`.

TAGLOOM_DATA names a folder with ud-english-ewt; without it the corpus of the package is used, many
times over.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tagloom as tl

pytestmark = pytest.mark.soak

N_KILLS = 20
N_PROGRAM_KILLS = 5
N_PARTS = 64
# Tokens to tag, in N_PARTS files.
N_TOKENS = 100_000_000 if "TAGLOOM_DATA" in os.environ else 2_000_000


@pytest.fixture(scope="module")
def train():
    data = os.environ.get("TAGLOOM_DATA")
    if data is None:
        return tl.Corpus(list(tl.datasets.load(split="train")) * 20)
    return tl.read(Path(data) / "ud-english-ewt" / "train.conllu", label="upos")


@pytest.fixture(scope="module")
def folder(train, tmp_path_factory):
    made = tmp_path_factory.mktemp("shards")
    for i in range(4):
        tl.write(tl.Corpus(train[i::4]), made / f"{i}.conllu", "conllu")
    return made


@pytest.fixture(scope="module")
def source(folder):
    return tl.files(str(folder / "*.conllu"), label="upos")


def make(**more):
    return tl.CRF("pos", algorithm="lbfgs", max_iterations=30, n_threads=1, **more)


def weights(tagger):
    scores = tagger.scores_
    return np.concatenate([scores.rows.weights, scores.trans.ravel(), scores.start, scores.stop])


@pytest.fixture(scope="module")
def undisturbed(source):
    return weights(make().fit(source))


def wait_for(process, state, changes):
    """Wait until ``state()`` has changed so many times while the process runs."""
    last = state()
    while changes:
        assert process.poll() is None, "the program ended before it was killed"
        time.sleep(0.002)
        if (now := state()) != last:
            last, changes = now, changes - 1


def test_workers_killed_at_random_moments(source, undisturbed):
    rng = np.random.default_rng(0)
    kills = 0
    while kills < N_KILLS:
        tagger = make(n_workers=2)
        data = tagger.read_data(source, None, None)
        stop = threading.Event()

        def kill(data=data, stop=stop):
            nonlocal kills
            while not stop.wait(rng.uniform(0.5, 6.0)):
                ids = data.engine.process_ids
                if ids:
                    os.kill(ids[rng.integers(len(ids))], signal.SIGKILL)
                    kills += 1

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            tagger.fit_data(data)
        finally:
            stop.set()
            killer.join()
            tagger.release(data)
        np.testing.assert_array_equal(weights(tagger), undisturbed)
    print(f"{kills} kills, the same bits")


def test_a_killed_program_resumes_to_the_same_bits(folder, undisturbed, tmp_path):
    # The checkpoint is written after every iteration here, in half a minute otherwise.
    code = f"""
import sys
import tagloom as tl
from tagloom.training import checkpoints
checkpoints.Checkpoint.is_due = True
source = tl.files({str(folder / "*.conllu")!r}, label="upos")
tagger = tl.CRF("pos", algorithm="lbfgs", max_iterations=30, n_threads=1, n_workers=2)
tagger.fit(source, checkpoint="run.ckpt").save("m.tagloom")
"""
    rng, kills = np.random.default_rng(1), 0
    checkpoint = tmp_path / "run.ckpt"
    while True:
        process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
        if kills == N_PROGRAM_KILLS:
            break
        wait_for(process, lambda: checkpoint.exists() and checkpoint.stat().st_mtime_ns, 3)
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        kills += 1
    process.wait()
    assert process.returncode == 0
    np.testing.assert_array_equal(weights(tl.load(tmp_path / "m.tagloom")), undisturbed)
    print(f"the program was killed {kills} times, the same bits")


def test_many_files_with_a_kill(train, tmp_path):
    """Tag 64 files; kill the program twice on the way; nothing is missing or different."""
    pytest.importorskip("pyarrow")
    tl.CRF("pos").fit(train[:2000]).save(tmp_path / "m.tagloom")
    (tmp_path / "in").mkdir()
    copies = -(-4 * N_TOKENS // (N_PARTS * sum(map(len, train))))
    tokens, sizes = 0, []
    for i in range(N_PARTS):
        if i < 4:
            sentences = [tl.Sentence(s.tokens) for s in train[i::4]] * copies
            tl.write(tl.Corpus(sentences), tmp_path / "in" / f"{i:02}.parquet")
            sizes.append(sum(map(len, sentences)))
        else:
            shutil.copy(
                tmp_path / "in" / f"{i % 4:02}.parquet", tmp_path / "in" / f"{i:02}.parquet"
            )
        tokens += sizes[i % 4]
    command = [sys.executable, "-c", "from tagloom.cli import main; main()", "tag", "m.tagloom"]
    command += ["in/*.parquet", "--resume", "-q"]
    workers = ["-o", "out/", "--n-workers", "2"]
    done = tmp_path / "out"
    for finished in (10, 15):
        process = subprocess.Popen([*command, *workers], cwd=tmp_path)
        wait_for(process, lambda: len(list(done.glob("*.parquet"))), finished)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    subprocess.run([*command, *workers], cwd=tmp_path, check=True)
    before = os.times()
    subprocess.run([*command, "-o", "one/", "--n-threads", "1"], cwd=tmp_path, check=True)
    cpu = os.times()
    cpu = cpu.children_user + cpu.children_system - before.children_user - before.children_system
    names = sorted(os.listdir(tmp_path / "one"))
    assert len([name for name in names if name.endswith(".parquet")]) == N_PARTS
    assert sorted(os.listdir(tmp_path / "out")) == names  # no file is missing, none is left over
    for name in names:
        ours, theirs = tmp_path / "out" / name, tmp_path / "one" / name
        assert ours.read_bytes() == theirs.read_bytes(), name
    print(f"{tokens:,} tokens, {tokens / cpu:,.0f} tokens per second of CPU with start and reading")
