"""The model file: what is written comes back, and a crash leaves the old one."""

import gc
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from raising import raises
from tagloom import storage
from tagloom.errors import ModelFileError, ParameterError

HEADER = {"labels": ["DET", "Größe", "名詞", "🙂"], "order": 1, "l2": 0.1, "dev": None, "ok": True}
DTYPES = ["?", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8"]


def some_arrays():
    rng = np.random.default_rng(0)
    return {
        "index.keys": rng.integers(1, 2**63, 64).astype(np.uint64),
        "index.ids": np.arange(64, dtype=np.uint32),
        "rows.cols": np.arange(7, dtype=np.uint16),
        "rows.weights": rng.normal(size=7).astype(np.float32),
        "trans": rng.normal(size=(3, 3)),
        "narrow": np.arange(5, dtype=np.int8),
        "half": np.linspace(0, 1, 3, dtype=np.float16),
        "mask": np.array([True, False, True]),
        "nothing": np.empty((0, 4), np.float32),
        "scalar": np.array(7, np.int64),
    }


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == np.asarray(array).dtype.newbyteorder("="), name
        np.testing.assert_array_equal(found[name], array, err_msg=name)
        assert found[name].shape == np.shape(array), name


@pytest.mark.parametrize("kind", [str, Path])
def test_what_is_written_comes_back(tmp_path, kind):
    path = kind(tmp_path / "pos.tagloom")
    storage.write(path, HEADER, some_arrays())
    for verify in (False, True):
        header, arrays = storage.read(path, verify=verify)
        assert header == HEADER
        assert_same(arrays, some_arrays())


def test_bytes_are_those_of_the_file(tmp_path):
    path = tmp_path / "model"
    storage.write(path, HEADER, some_arrays(), checked=["trans"])
    data = storage.to_bytes(HEADER, some_arrays(), checked=["trans"])
    assert path.read_bytes() == data
    for form in (data, bytearray(data), memoryview(data), memoryview(b"x" + data)[1:]):
        header, arrays = storage.read_bytes(form, verify=True)
        assert header == HEADER
        assert_same(arrays, some_arrays())


def test_the_order_of_the_arrays_does_not_matter():
    arrays = some_arrays()
    backwards = dict(reversed(arrays.items()))
    assert storage.to_bytes(HEADER, arrays) == storage.to_bytes(HEADER, backwards)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**128), 2**128)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),  # lone surrogates too
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
names = st.text("aZ09_.-", min_size=1, max_size=100).map(lambda name: "_" + name[1:])
stored = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
)


@given(
    st.dictionaries(st.text(), json_values),
    st.dictionaries(names, stored, max_size=6),
)
def test_anything_comes_back(header, arrays):
    found_header, found = storage.read_bytes(storage.to_bytes(header, arrays), verify=True)
    assert found_header == header
    assert_same(found, arrays)
    for array in found.values():
        assert array.flags.aligned
        assert not array.flags.writeable


def test_deep_json_is_written_only_as_far_as_it_can_be_read():
    header = value = {}
    for _ in range(31):
        value["x"] = [{}]
        value = value["x"][0]
    value["x"] = []  # 64 deep
    assert storage.read_bytes(storage.to_bytes(header, {}))[0] == header
    value["x"] = [{}]
    with raises(ParameterError, parameter="header['x'][0]", expected="at most 64 deep"):
        storage.to_bytes(header, {})
    value["x"] = header
    with raises(ParameterError, expected="at most 64 deep"):
        storage.to_bytes(header, {})


def test_brackets_in_strings_are_not_nesting():
    header = {"labels": ["[" * 100, '"' * 3 + "{" * 100, "\\" + "[" * 100]}
    assert storage.read_bytes(storage.to_bytes(header, {}))[0] == header


def test_layouts_that_numpy_knows_are_stored_as_plain_ones():
    base = np.arange(24, dtype=">i4").reshape(4, 6)
    arrays = {
        "c": np.arange(3, dtype=np.longlong),
        "big": base,
        "fortran": np.asfortranarray(base),
        "steps": base[::2, ::-3].T,
    }
    assert_same(storage.read_bytes(storage.to_bytes({}, arrays))[1], arrays)


def test_tuples_become_lists_and_numpy_strings_become_strings():
    header = {"window": (-1, 1), "label": np.str_("N"), "loss": np.float64(0.5)}
    found, _ = storage.read_bytes(storage.to_bytes(header, {}))
    assert found == {"window": [-1, 1], "label": "N", "loss": 0.5}


@pytest.mark.parametrize(
    ("header", "parameter", "expected", "found"),
    [
        (["x"], "header", "a dict", "['x']"),
        ({1: "x"}, "header", "keys of type str", "the key 1"),
        ({"a": [0.0, float("nan")]}, "header['a'][1]", "a finite number", "nan"),
        ({"a": {"b": float("inf")}}, "header['a']['b']", "a finite number", "inf"),
        ({"a": 10**40}, "header['a']", "at most 40 digits", "a longer one"),
        ({"n": np.int64(3)}, "header['n']", "JSON: dict", "of type int64"),
        ({"a": {1, 2}}, "header['a']", "JSON: dict", "{1, 2}, of type set"),
        ({"a": b"x"}, "header['a']", "JSON: dict", "of type bytes"),
    ],
)
def test_a_header_that_is_not_json_is_refused(tmp_path, header, parameter, expected, found):
    with raises(ParameterError, parameter=parameter, expected=expected, found=found):
        storage.write(tmp_path / "model", header, {})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arrays", "parameter", "expected", "found"),
    [
        ({"x": np.array(["a"])}, "arrays['x']", "of type bool, float16", "<U1"),
        ({"x": np.array([None])}, "arrays['x']", "of type", "object"),
        ({"x": np.zeros(2, complex)}, "arrays['x']", "of type", "complex128"),
        ({"x": np.zeros(2, "M8[s]")}, "arrays['x']", "of type", "datetime64"),
        ({"x": np.zeros([1] * 9)}, "arrays['x']", "of at most 8 dimensions", "9"),
        ({"__metadata__": np.zeros(2)}, "arrays", "letters, digits", "'__metadata__'"),
        ({"": np.zeros(2)}, "arrays", "letters, digits", "''"),
        ({"a b": np.zeros(2)}, "arrays", "letters, digits", "'a b'"),
        ({"a\n": np.zeros(2)}, "arrays", "letters, digits", r"'a\n'"),
        ({3: np.zeros(2)}, "arrays", "letters, digits", "3"),
    ],
)
def test_arrays_that_cannot_be_stored_are_refused(arrays, parameter, expected, found):
    with raises(ParameterError, parameter=parameter, expected=expected, found=found):
        storage.to_bytes({}, arrays)


def test_a_checked_name_must_be_an_array():
    with raises(ParameterError, parameter="checked", expected="['x']", found="['y']"):
        storage.to_bytes({}, {"x": np.zeros(1)}, checked=["y"])


def test_a_header_that_is_too_long_is_refused_with_a_hint(monkeypatch):
    monkeypatch.setattr("tagloom.storage.files.HEADER_LIMIT", 1000)
    assert storage.read_bytes(storage.to_bytes({"text": "x" * 700}, {}))
    with raises(ParameterError, parameter="header", expected="at most 1000", hint="into one"):
        storage.to_bytes({"text": "x" * 1000}, {})


LARGE = {"words": ["fish", "é\n", "\ud800"] * 100_000, "text": "x" * (40 << 20), "order": 2}


def test_large_entries_of_the_header_become_arrays():
    """A header of 43 MB, where the text of a file has room for 34."""
    data = storage.to_bytes(LARGE, {"start": np.zeros(3)}, checked=[])
    header, arrays = storage.read_bytes(data)
    assert header == LARGE
    assert [*arrays] == ["start"]
    assert b'"version":"2"' in data[:100]
    damaged = data.replace(b'"fish",', b'"fist",', 1)
    with raises(ModelFileError, found="'header.words' has the checksum"):
        storage.read_bytes(damaged)  # they are always verified


def test_files_without_large_entries_have_the_first_version(monkeypatch):
    """So that an older tagloom reads them."""
    assert b'"version":"1"' in storage.to_bytes(HEADER, some_arrays())[:100]
    monkeypatch.setattr("tagloom.storage.files.LARGE_ENTRY", 10)
    data = storage.to_bytes({"a b": "x" * 20, "n": 10**20}, {})  # no name of an array; no text
    assert b'"version":"1"' in data[:100]
    assert storage.read_bytes(data)[0] == {"a b": "x" * 20, "n": 10**20}


def test_names_of_entries_are_reserved():
    with raises(ParameterError, parameter="arrays", expected="reserved", found="'header.words'"):
        storage.to_bytes({}, {"header.words": np.zeros(1)})


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.frombuffer(b'["a"', np.uint8), "is not JSON"),
        (np.frombuffer(b'{"a":1,"a":2}', np.uint8), "occurs twice"),
        (np.frombuffer(b"[NaN]", np.uint8), "is not a number"),
        (np.frombuffer(b"[" * 100 + b"]" * 100, np.uint8), "nested more than"),
        (np.frombuffer(b'"\xff"', np.uint8), "is not UTF-8"),
        (np.zeros(4), "is not JSON: float64"),
        (np.zeros((1, 4), np.uint8), "is not JSON: uint8"),
    ],
)
def test_damaged_entries_are_refused(array, found, monkeypatch):
    """Written as an array of another name, which is then changed, with the checksum of the text."""
    import zlib

    data = storage.to_bytes({}, {"header_words": array})
    data = data.replace(b'"version":"1"', b'"version":"2"').replace(
        b"header_words", b"header.words"
    )
    n = 8 + int.from_bytes(data[:8], "little")
    text = data[:67] + b"00000000" + data[75:n]
    data = text[:67] + b"%08x" % zlib.crc32(text) + text[75:] + data[n:]
    with raises(ModelFileError, found=found):
        storage.read_bytes(data)


# Other readers, and the map


def test_the_safetensors_library_reads_it(tmp_path):
    import safetensors.numpy

    path = tmp_path / "pos.tagloom"
    storage.write(path, HEADER, some_arrays())
    assert_same(safetensors.numpy.load_file(path), some_arrays())
    assert_same(safetensors.numpy.load(path.read_bytes()), some_arrays())
    with safetensors.safe_open(path, "np") as file:
        metadata = file.metadata()
    assert (metadata["format"], metadata["version"]) == ("tagloom", "1")
    assert json.loads(metadata["header"]) == HEADER


@given(
    st.dictionaries(st.text(), json_values, max_size=3),
    st.dictionaries(names, stored, max_size=4),
)
def test_the_safetensors_library_reads_anything(header, arrays):
    import safetensors.numpy

    data = storage.to_bytes(header, arrays)
    assert_same(safetensors.numpy.load(data), arrays)


def test_arrays_are_mapped_aligned_and_read_only(tmp_path):
    path = tmp_path / "model"
    arrays = some_arrays() | {"large": np.arange(1 << 20)}
    storage.write(path, {}, arrays, checked=[])
    _, found = storage.read(path)
    for name, array in found.items():
        address = array.__array_interface__["data"][0]
        assert address % array.itemsize == 0, name
        if array.nbytes % 64 == 0 and array.size:
            assert address % 64 == 0, name
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    if sys.platform == "linux":
        assert str(path) in Path("/proc/self/maps").read_text()
        del found, array
        gc.collect()
        assert str(path) not in Path("/proc/self/maps").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="reads VmRSS from /proc")
def test_reading_does_not_copy(tmp_path):
    path = tmp_path / "model"
    storage.write(path, {}, {"large": np.zeros(1 << 24)}, checked=[])  # 128 MiB

    def resident():
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])  # KiB

    before = resident()
    _, arrays = storage.read(path)
    assert arrays["large"][-1] == 0
    assert resident() - before < 16 << 10


def test_arrays_pickle_and_outlive_the_file(tmp_path):
    path = tmp_path / "model"
    storage.write(path, {}, some_arrays())
    _, arrays = storage.read(path)
    path.unlink()
    assert_same(pickle.loads(pickle.dumps(arrays)), some_arrays())


# Checksums


def damaged(data, name):
    """Flip a bit of an array where it lies in the file."""
    entry = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])[name]
    at = 8 + int.from_bytes(data[:8], "little") + entry["data_offsets"][0]
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_checked_arrays_are_always_verified_and_the_others_on_request():
    data = storage.to_bytes(HEADER, some_arrays(), checked=["index.keys", "index.ids"])
    with raises(ModelFileError, found="array 'index.ids' has the checksum"):
        storage.read_bytes(damaged(data, "index.ids"))
    bad = damaged(data, "rows.weights")
    _, found = storage.read_bytes(bad, verify=False)
    assert found["rows.weights"][0] != some_arrays()["rows.weights"][0]
    with raises(ModelFileError, found="array 'rows.weights' has the checksum"):
        storage.read_bytes(bad)  # a small file is verified whole
    with raises(ModelFileError, found="array 'rows.weights' has the checksum"):
        storage.read_bytes(bad, verify=True)


def test_all_arrays_are_checked_unless_some_are_named():
    data = storage.to_bytes(HEADER, some_arrays())
    for name, array in some_arrays().items():
        if array.size:
            with raises(ModelFileError, found=f"array '{name}' has"):
                storage.read_bytes(damaged(data, name))


# Writing in one step


def test_a_new_file_follows_the_umask_and_an_old_one_keeps_its_mode(tmp_path):
    if os.name == "nt":
        pytest.skip("Windows has no such modes")
    path = tmp_path / "model"
    old = os.umask(0o027)
    try:
        storage.write(path, {}, {})
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o600)
        storage.write(path, {"new": True}, {})
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert storage.read(path)[0] == {"new": True}


def test_a_symbolic_link_stays_one(tmp_path):
    target, link = tmp_path / "folder" / "v1.tagloom", tmp_path / "latest.tagloom"
    target.parent.mkdir()
    try:
        link.symlink_to(target)
    except OSError:
        pytest.skip("no symbolic links here")
    for version in (1, 2):  # at first the link has no target
        storage.write(link, {"version": version}, {})
        assert link.is_symlink()
        assert storage.read(link)[0] == storage.read(target)[0] == {"version": version}
    assert sorted(os.listdir(tmp_path)) == ["folder", "latest.tagloom"]
    assert os.listdir(target.parent) == ["v1.tagloom"]


def test_a_name_in_the_current_folder_and_a_long_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model", "ü" * 100):
        storage.write(name, {"name": name}, {})
        assert storage.read(name)[0] == {"name": name}


def test_errors_of_the_operating_system_are_not_wrapped(tmp_path):
    with pytest.raises(FileNotFoundError):
        storage.write(tmp_path / "no" / "model", {}, {})
    with pytest.raises(IsADirectoryError if os.name == "posix" else OSError):
        storage.write(tmp_path, {}, {})
    with pytest.raises(FileNotFoundError):
        storage.read(tmp_path / "model")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="needs a pipe with a name")
def test_a_pipe_is_written_to_but_not_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    storage.write(path, HEADER, some_arrays())
    reader.join()
    assert got == [storage.to_bytes(HEADER, some_arrays())]
    assert stat.S_ISFIFO(path.stat().st_mode)
    with raises(ModelFileError, expected="a model file", found="a pipe or device"):
        storage.read(path)


FULL = """
import resource, sys
import numpy as np
from tagloom import storage
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # the disk is full after 100 kB
try:
    storage.write(sys.argv[1], {"new": True}, {"large": np.ones(100_000)})
except OSError as error:
    print(type(error).__name__, error.errno)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits the size of files")
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "model"
    storage.write(path, {"new": False}, {"x": np.arange(3)})
    done = subprocess.run(
        [sys.executable, "-c", FULL, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("OSError 27"), done.stdout  # EFBIG
    assert storage.read(path, verify=True)[0] == {"new": False}
    assert os.listdir(tmp_path) == ["model"]


KILLED = """
import sys
import numpy as np
from tagloom import storage
arrays = {"large": np.ones(4_000_000)}  # 32 MB
print("ready", flush=True)
n = 0
while True:
    n += 1
    storage.write(sys.argv[1], {"n": n}, arrays)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_a_process_killed_while_it_writes_leaves_a_whole_file(tmp_path):
    path = tmp_path / "model"
    storage.write(path, {"n": 0}, {"large": np.ones(3)})
    interrupted = 0
    for attempt in range(20):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True
        )
        with child:
            assert child.stdout.readline() == "ready\n"
            # Wait for a part to be there, so that the kill comes in the middle of a write.
            deadline = time.monotonic() + 60
            while not list(tmp_path.glob(".*.part")) and time.monotonic() < deadline:
                pass
            time.sleep(0.002 * attempt)
            child.send_signal(signal.SIGKILL)
        header, arrays = storage.read(path, verify=True)
        assert arrays["large"].size == (3 if header["n"] == 0 else 4_000_000)
        for part in tmp_path.glob(".*.part"):
            interrupted += 1
            part.unlink()
        if interrupted >= 3:
            return
    pytest.fail(f"only {interrupted} of 20 kills came in the middle of a write")


def test_a_file_may_be_replaced_while_it_is_mapped_and_read_by_many(tmp_path):
    if os.name == "nt":
        pytest.skip("Windows does not replace a file that is mapped")
    path = tmp_path / "model"
    storage.write(path, {"n": 0}, {"x": np.full(1000, 0)})
    _, first = storage.read(path)
    wrong = []

    def reader():
        for _ in range(100):
            header, arrays = storage.read(path, verify=True)
            if (arrays["x"] != header["n"]).any():
                wrong.append(header["n"])

    threads = [threading.Thread(target=reader) for _ in range(3)]
    for thread in threads:
        thread.start()
    n = 0
    while any(thread.is_alive() for thread in threads):
        n += 1
        storage.write(path, {"n": n}, {"x": np.full(1000, n)})
    assert not wrong
    assert n > 0
    assert (first["x"] == 0).all()
