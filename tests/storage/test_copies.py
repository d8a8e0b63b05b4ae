"""Private copies of model files."""

import os
import subprocess
import sys

import pytest

import tagloom as tl
from raising import raises
from tagloom.errors import ModelFileError
from tagloom.storage import Copy

X, Y = [["they", "can", "fish"], ["fish", "swim"]], [["N", "V", "V"], ["N", "V"]]


@pytest.fixture
def path(tmp_path):
    tl.CRF(features=["word", "suffix(2)"]).fit(X, Y).save(tmp_path / "a.tagloom")
    return str(tmp_path / "a.tagloom")


def test_a_private_model_survives_changes_of_its_file(path):
    """Mapped directly, the file that is cut off would end the process by SIGBUS."""
    code = f"""
import os, tagloom as tl
tagger = tl.load({path!r}, private=True)
with open({path!r}, "r+b") as file:
    size = os.path.getsize({path!r})
    file.write(b"x" * size)
    file.truncate(10)
print(tagger.predict({X!r}), tagger.digest())
"""
    digest = tl.load(path).digest()
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"{Y!r} {digest}"


def test_classes_load_privately_too(path):
    assert tl.CRF.load(path, private=True).predict(X) == Y
    with raises(ModelFileError, where=path, expected="a model of kind HMM"):
        tl.HMM.load(path, private=True)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="anonymous files are for Linux")
def test_a_copy_is_sealed_and_can_be_shared(path):
    with Copy.of(path) as copy:
        with pytest.raises(PermissionError):
            os.write(copy.descriptor, b"x")
        with pytest.raises(PermissionError):
            os.ftruncate(copy.descriptor, 1)
        other = Copy.from_descriptor(os.dup(copy.descriptor), copy.name)
        assert other.digest() == copy.digest()
        with open(path, "rb") as file:
            assert bytes(copy.data) == file.read()
    assert tl.load(other).predict(X) == Y  # closing one does not close the other
    other.close()
    before = len(os.listdir("/proc/self/fd"))
    tagger = tl.load(path, private=True)
    assert tagger.predict(X) == Y
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # that of the mapping


def test_without_anonymous_files_a_copy_is_bytes(path, monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    with Copy.of(path) as copy:
        assert isinstance(copy.data, bytes)
        assert copy.descriptor is None
    assert tl.load(path, private=True).predict(X) == Y


def test_what_cannot_be_copied(tmp_path):
    with raises(ModelFileError, found="a folder"):
        Copy.of(tmp_path)
    with pytest.raises(FileNotFoundError):
        tl.load(tmp_path / "missing", private=True)
    (tmp_path / "empty").touch()
    with raises(ModelFileError, where=str(tmp_path / "empty"), found="the file is empty"):
        tl.load(tmp_path / "empty", private=True)
