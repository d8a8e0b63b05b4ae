"""Files are replaced atomically and flushed first; what a killed process leaves is removed."""

import fcntl
import os
import subprocess
import sys

import pytest

from tagloom.storage import replacing as module
from tagloom.storage.replacing import remove_abandoned, replacing


def test_bytes_and_folder_are_flushed_around_the_rename(tmp_path, monkeypatch):
    events = []

    def record(name, function):
        def call(*arguments):
            events.append(name)
            return function(*arguments)

        return call

    monkeypatch.setattr(module.os, "fsync", record("flush", os.fsync))
    monkeypatch.setattr(module.os, "replace", record("rename", os.replace))
    with replacing(str(tmp_path / "a")) as file:
        file.write(b"x")
    assert events == ["flush", "rename", "flush"]
    assert (tmp_path / "a").read_bytes() == b"x"


def test_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def refuse():
        raise RuntimeError

    def write(check):
        with replacing(str(path), check) as file:
            file.write(b"new")
            if check is None:
                raise RuntimeError

    for check in (None, refuse):
        with pytest.raises(RuntimeError):
            write(check)
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["a"]


def test_mode_of_the_old_file_is_kept(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with replacing(str(path)) as file:
        file.write(b"new")
    assert path.stat().st_mode & 0o777 == 0o640


KILLED = """
import os, sys
from tagloom.storage.replacing import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"x")
    file.flush()
    os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_only_abandoned_temporary_files_are_removed(tmp_path):
    path = tmp_path / "a[b].conll"
    run = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert run.returncode == -9
    (abandoned,) = tmp_path.glob(".a*.part")
    in_use = tmp_path / f"{abandoned.name[:-5]}2.part"
    in_use.write_bytes(b"y")
    with open(in_use, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert remove_abandoned(str(path)) == 1
        assert list(tmp_path.iterdir()) == [in_use]
