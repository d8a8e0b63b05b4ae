"""Damaged, foreign and malicious files: each is refused with a reason.

A damaged file fails its checksum. A malicious file has valid checksums, which `forge` computes, so
the checks behind them are tested one by one. The fuzz tests at the end do both, thousands of times.
"""

import copy
import json
import os
import random
import re
import sys
import tracemalloc
import zlib

import numpy as np
import pytest

from raising import raises
from tagloom import storage
from tagloom.errors import ModelFileError

HEADER = {"labels": ["N", "V", "名詞"], "templates": ["word[0]", "suffix(3)"], "l2": 0.1, "n": 12}
ARRAYS = {
    "keys": np.arange(1, 17, dtype=np.uint64),
    "values": np.arange(16, dtype=np.uint32),
    "rows.cols": np.arange(6, dtype=np.uint16),
    "rows.weights": np.linspace(-1, 1, 6, dtype=np.float32),
    "trans": np.eye(3),
    "seen": np.eye(3, dtype=bool),
    "names": storage.pack_strings(["word[0]=a", "word[0]=b"]),
}
GOOD = storage.to_bytes(HEADER, ARRAYS, checked=["keys", "values"])
BEGIN = 8 + int.from_bytes(GOOD[:8], "little")  # of the arrays
OUTER = json.loads(GOOD[8:BEGIN])
FIRST, SECOND, *_ = [name for name in OUTER if name != "__metadata__"]
SUM_AT = GOOD.index(b'"crc32":"') + len(b'"crc32":"')


def forge(outer, data=GOOD[BEGIN:]):
    """Make a file of any description, which has the length and checksum that it should have."""
    text = outer if isinstance(outer, bytes) else json.dumps(outer, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    whole = len(text).to_bytes(8, "little") + text
    whole = whole[:SUM_AT] + b"00000000" + whole[SUM_AT + 8 :]
    return whole[:SUM_AT] + b"%08x" % zlib.crc32(whole) + whole[SUM_AT + 8 :] + data


def changed(change, **more):
    """Make a file whose description was changed by a function."""
    outer = copy.deepcopy(OUTER)
    change(outer)
    return forge(outer, **more)


def with_entry(**fields):
    return changed(lambda outer: outer[FIRST].update(fields))


def with_metadata(**fields):
    return changed(lambda outer: outer["__metadata__"].update(fields))


def refused(data, found, expected=None):
    """Expect an error whose fields match these patterns, and whose text is short and printable."""
    with pytest.raises(ModelFileError) as caught:
        storage.read_bytes(data, name="pos.tagloom")
    error = caught.value
    assert error.where == "pos.tagloom"
    assert re.search(found, error.found), error.found
    assert expected is None or re.search(expected, error.expected), error.expected
    assert len(str(error)) < 500
    assert str(error).isprintable(), str(error)


def test_forging_nothing_gives_a_good_file():
    """Otherwise the tests below would refuse everything for a wrong reason."""
    assert storage.read_bytes(forge(OUTER), verify=True)[0] == HEADER
    assert storage.read_bytes(forge(GOOD[8:BEGIN])) is not None


# Something else


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"They PRP B-NP\nfish VBP B-VP\n", r"a file that begins with b'They PRP "),
        (b"They\n", r"a file that begins with b'They\\n'"),
        (b"a", r"a file that begins with b'a'"),
        (b"one line", r"a file that begins with b'one line'"),
        (b"\x1f\x8b" + bytes(100), "gzip data; decompress it first"),
        (b"PK\x03\x04" + bytes(100), "a zip archive"),
        (b"\x80\x04\x95" + bytes(100), "a pickle, which tagloom never opens"),
        (b"lCRF" + bytes(100), "a CRFsuite model"),
        (b"\x64" + bytes(100), "crf_learn -t"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (bytes(1000), r"a file that begins with b'\\x00"),
        (b"\xff" * 1000, r"a file that begins with b'\\xff"),
        (b'{"a": 1}' * 20, 'a file that begins with b\'{"a"'),
    ],
)
def test_other_files(data, found):
    refused(data, found, expected=r"a tagloom model, written by save\(\)")


def test_a_safetensors_file_of_another_program():
    import safetensors.numpy

    for metadata in (None, {"format": "pt"}):
        data = safetensors.numpy.save({"weight": np.eye(3)}, metadata)
        refused(data, "perhaps a safetensors file of another program")


def test_a_folder_and_an_empty_file(tmp_path):
    with raises(ModelFileError, expected="a model file", found="a folder"):
        storage.read(tmp_path)
    (tmp_path / "empty").touch()
    with raises(ModelFileError, where="empty", found="the file is empty"):
        storage.read(tmp_path / "empty")
    refused(b"", "the file is empty")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such device")
def test_a_device_without_end():
    with raises(ModelFileError, where="/dev/zero", found="a pipe or device"):
        storage.read("/dev/zero")


@pytest.mark.parametrize("version", ["3", "17", "999999999"])
def test_a_newer_version_has_a_hint_to_update(version):
    data = GOOD.replace(b'"version":"1"', b'"version":"' + version.encode() + b'"')
    refused(data, f"^{version}$", expected="a format version of at most 2")
    with raises(ModelFileError, hint="pip install --upgrade"):
        storage.read_bytes(data)
    # A later version may change the rest of the file.
    refused(data[:200] + b"?", f"^{version}$")


@pytest.mark.parametrize("version", ["0", "-1", "01", "1.0", "", "9" * 10, "x", "²"])
def test_no_such_version(version):
    refused(with_metadata(version=version), "its header begins with")


# Cut or longer


@pytest.mark.parametrize("n", [1, 7, 8, 9, 20, 54, 55, 60, 80, 127, 128, 200, BEGIN - 1])
def test_cut_in_the_header(n):
    refused(GOOD[:n], f"^{n} bytes$", expected="its header ends (at|after) byte [0-9]+")


@pytest.mark.parametrize("n", [BEGIN, BEGIN + 1, len(GOOD) - 1])
def test_cut_in_the_arrays(n):
    refused(GOOD[:n], f"^{n} bytes$", expected=f"its arrays end at byte {len(GOOD)}")


def test_every_cut_is_refused(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(GOOD)
    for n in reversed(range(len(GOOD))):
        os.truncate(path, n)
        with pytest.raises(ModelFileError):
            storage.read(path)


def test_bytes_after_the_end():
    refused(GOOD + b"\0" * 3, "3 bytes follow the last array")


@pytest.mark.parametrize("n", [0, 1, 55, 57, BEGIN, 1 << 25, (1 << 25) - 8, 1 << 40, 2**64 - 1])
def test_a_length_of_the_header_that_is_not_its_own(n):
    refused(n.to_bytes(8, "little") + GOOD[8:], r"its header (claims|has the checksum)|^\d+ bytes$")


# The text of the header


def test_every_flipped_bit_of_the_header_is_refused():
    for at in range(BEGIN):
        for bit in range(8):
            bad = GOOD[:at] + bytes([GOOD[at] ^ 1 << bit]) + GOOD[at + 1 :]
            with pytest.raises(ModelFileError):
                storage.read_bytes(bad)


def spliced(old, new):
    assert GOOD.count(old) >= 1, old
    return forge(GOOD[8:BEGIN].rstrip().replace(old, new, 1))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (spliced(b"trans", b"tr\xffns"), r"its header is not UTF-8 at byte \d+"),
        (spliced(b"trans", b"tr\xed\xa0\x80ns"), "is not UTF-8"),  # a lone surrogate
        (spliced(b"trans", b"tr\xc0\x80ns"), "is not UTF-8"),  # overlong
        (forge(GOOD[8:BEGIN].rstrip()[:-1]), "the description of the file is not JSON"),
        (forge(GOOD[8:BEGIN].rstrip() + b"}"), r"not JSON \(Extra data"),
        (spliced(b'"trans"', b'"trans\n"'), "not JSON .Invalid control character"),
        (spliced(b'"trans":{', b'"keys":{'), f"the key '{FIRST}' occurs twice"),
        (spliced(b'"dtype"', b'"dtype":"F32","dtype"'), "the key 'dtype' occurs twice"),
        (spliced(b'"shape"', b'"x":' + b"[" * 100 + b"]" * 100 + b',"shape"'), "than 64 deep"),
        (spliced(b'"shape"', b'"x":' + b"[" * 10**6 + b',"shape"'), "nested more than 64 deep"),
        (spliced(b'"shape"', b'"x":' + b'{"":' * 10**5 + b',"shape"'), "more than 64 deep"),
        (spliced(b'"shape":[', b'"shape":[NaN,'), "NaN is not a number"),
        (spliced(b'"shape":[', b'"shape":[-Infinity,'), "-Infinity is not a number"),
        (spliced(b'"shape":[', b'"shape":[1e999,'), "1e999 is not a finite number"),
        (spliced(b'"shape":[', b'"shape":[' + b"9" * 10**6 + b","), "a number of 1000000 digits"),
        (spliced(b'"shape":[', b'"shape":[' + b"0" * 99 + b","), "is not JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_text_that_is_not_what_we_write(data, found):
    refused(data, found)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"header": "{"}, "the header is not JSON"),
        ({"header": "[]"}, r"the header is not a JSON object: \[\]"),
        ({"header": "1"}, "the header is not a JSON object: 1"),
        ({"header": ""}, "the header is not JSON"),
        ({"header": '{"a":NaN}'}, "NaN is not a number"),
        ({"header": '{"a":1,"a":2}'}, "the key 'a' occurs twice"),
        ({"header": '{"a":' + "[" * 10**5}, "the header is nested more than 64 deep"),
        ({"header": '{"a":"' + '\\"' * 10**6}, "the header is not JSON"),  # in linear time
        ({"header": 3}, "__metadata__ is not as specified"),
        ({"more": ""}, "__metadata__ is not as specified"),
        ({"checked": "{}"}, "the checksums do not match its arrays"),
        ({"unchecked": '{"x":"00000000"}'}, "the checksums do not match its arrays"),
        ({"checked": OUTER["__metadata__"]["unchecked"]}, "the checksums do not match"),
        ({"checked": '{"keys":1}'}, "array 'keys' has the checksum 1"),
        ({"checked": '{"keys":"xyz"}'}, "array 'keys' has the checksum 'xyz'"),
        ({"checked": "[]"}, r"the list of checked arrays is not a JSON object: \[\]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_metadata_that_is_not_what_we_write(fields, found):
    refused(with_metadata(**fields), found)


@pytest.mark.parametrize("key", ["checked", "unchecked", "header"])
def test_metadata_that_is_missing(key):
    refused(changed(lambda outer: outer["__metadata__"].pop(key)), "not as specified")


# The description of the arrays


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"dtype": "F128"}, "has dtype 'F128'; known are"),
        ({"dtype": "u64"}, "has dtype 'u64'"),
        ({"dtype": "object"}, "has dtype 'object'"),
        ({"dtype": 4}, "has dtype 4"),
        ({"dtype": None}, "has dtype None"),
        ({"dtype": ["U64"]}, r"has dtype \['U64'\]"),
        ({"dtype": "F32"}, "not the size of F32 of shape"),
        ({"shape": [15]}, r"not the size of U64 of shape \[15\]"),
        ({"shape": [17]}, "not the size of"),
        ({"shape": [-16]}, r"has shape \[-16\]"),
        ({"shape": [-4, -4]}, r"has shape \[-4, -4\]"),
        ({"shape": [2**64 + 16]}, "not the size of"),  # 16 in 64 bits
        ({"shape": [2**32, 2**32, 16]}, "not the size of"),  # 0 in 64 bits
        ({"shape": [2**62]}, "not the size of"),
        ({"shape": [16.0]}, r"has shape \[16.0\]"),
        ({"shape": [True] * 4 + [16]}, "has shape"),
        ({"shape": ["16"]}, r"has shape \['16'\]"),
        ({"shape": 16}, "has shape 16"),
        ({"shape": None}, "has shape None"),
        ({"shape": {}}, "has shape {}"),
        ({"shape": [1] * 8 + [16]}, r"has shape \[1, 1"),
        ({"shape": [1] * 100_000}, r"has shape \[1, 1"),
        ({"data_offsets": [0, 127]}, r"has 127 bytes, not the size of U64 of shape \[16\]"),
        ({"data_offsets": [0]}, r"has data_offsets \[0\]"),
        ({"data_offsets": [0, 64, 128]}, "has data_offsets"),
        ({"data_offsets": [128, 0]}, r"has data_offsets \[128, 0\]"),
        ({"data_offsets": [-128, 0]}, r"has data_offsets \[-128, 0\]"),
        ({"data_offsets": [64, 192]}, "begins at 64, not where the one before it ends, 0"),
        ({"data_offsets": ["0", "128"]}, "has data_offsets"),
        ({"data_offsets": [0, 2**64 + 128]}, "not the size of"),
        ({"data_offsets": None}, "has data_offsets None"),
        ({"shape": [0], "data_offsets": [0, 0]}, "begins at 128, not where the one before it ends"),
        ({"more": 1}, f"array '{FIRST}' is described by"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arrays_that_are_described_wrongly(fields, found):
    refused(with_entry(**fields), found)


def swap(outer):
    a, b = outer[FIRST]["data_offsets"], outer[SECOND]["data_offsets"]
    outer[FIRST]["data_offsets"], outer[SECOND]["data_offsets"] = b, a


def overlap(outer):
    outer[SECOND]["data_offsets"] = outer[FIRST]["data_offsets"]


def leave_a_hole(outer):
    for name, entry in outer.items():
        if name not in ("__metadata__", FIRST):
            entry["data_offsets"] = [x + 64 for x in entry["data_offsets"]]


def reach_too_far(outer):
    entry = list(outer.values())[-1]
    entry.update(dtype="U8", shape=[2**60], data_offsets=[END - 9, END - 9 + 2**60])


def add(name, **entry):
    return lambda outer: outer.update({name: entry})


END = len(GOOD) - BEGIN
EMPTY = {"dtype": "I8", "shape": [0], "data_offsets": [END, END]}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (swap, "not where the one before it ends"),
        (overlap, "not where the one before it ends"),
        (leave_a_hole, "not where the one before it ends"),
        (reach_too_far, r"^\d+ bytes$"),
        (lambda outer: outer.pop(FIRST), "not where the one before it ends"),
        (lambda outer: outer.update(trans=None), "array 'trans' is described by None"),
        (lambda outer: outer.update(trans=[]), r"array 'trans' is described by \[\]"),
        (lambda outer: outer["trans"].pop("dtype"), "array 'trans' is described by"),
        (add("a/b", **EMPTY), "'a/b' cannot name an array"),
        (add("../x", **EMPTY), "cannot name an array"),
        (add("x\x1b[2J", **EMPTY), "cannot name an array"),
        (add("x" * 10**6, **EMPTY), r"'x+\.{3}x+' cannot name an array"),
        (add("x", dtype="U8", shape=[8], data_offsets=[END, END + 8]), r"^\d+ bytes$"),
        (add("x", **EMPTY | {"shape": [0, 2**62, 2**62]}), "array 'x' has shape"),
        (add("x", **EMPTY | {"shape": [2**62, 0]}), "array 'x' has shape"),
        (add("x", **EMPTY), "the checksums do not match its arrays"),
    ],
)
def test_arrays_that_do_not_fit_each_other(change, found):
    refused(changed(change), found)


def described(dtype, sizes, data):
    """Make a file of arrays of one dimension, with right checksums of nothing but the header."""
    outer, end, sums = {"__metadata__": dict(OUTER["__metadata__"])}, 0, {}
    for i, (code, n, size) in enumerate(zip(dtype, sizes[0], sizes[1], strict=True)):
        outer[f"x{i}"] = {"dtype": code, "shape": [n], "data_offsets": [end, end + size]}
        end += size
        sums[f"x{i}"] = "00000000"
    outer["__metadata__"] |= {"checked": "{}", "unchecked": json.dumps(sums)}
    return forge(outer, data)


def test_arrays_at_odd_addresses_are_refused():
    data = described(["U8", "F64"], [[1, 1], [1, 8]], bytes(9))
    refused(data, r"array 'x1' of F64 begins at byte \d+ and is not aligned")


def test_truth_values_other_than_0_and_1_are_refused():
    refused(described(["BOOL"], [[3], [3]], b"\0\1\2"), "array 'x0' of BOOL has a byte 2; expected")
    good = described(["BOOL"], [[2], [2]], b"\0\1")
    assert storage.read_bytes(good, verify=False)[1]["x0"].tolist() == [0, 1]


def test_no_hostile_number_makes_memory():
    """Whatever a small file claims, little is asked for."""
    huge = [2**31 - 1, 2**40, 2**62, 2**63 - 1, 2**64, 10**39]
    files = [n.to_bytes(8, "little") + GOOD[8:] for n in huge if n < 2**64]
    files += [with_entry(shape=[n]) for n in huge]
    files += [with_entry(data_offsets=[0, n]) for n in huge]
    files += [with_entry(shape=[n // 8], data_offsets=[0, n // 8 * 8]) for n in huge]
    tracemalloc.start()
    try:
        for data in files:
            with pytest.raises(ModelFileError):
                storage.read_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_deep_recursion_limit_does_not_open_the_stack():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        refused(spliced(b'"shape"', b'"x":' + b"[" * 10**6 + b',"shape"'), "more than 64 deep")
    finally:
        sys.setrecursionlimit(limit)


# At random


def mutate(data, rng):
    """Change some bytes in one of the ways in which files go wrong."""
    at, n = rng.randrange(len(data)), rng.choice([1, 2, 8, 64, 500])
    kind = rng.randrange(7)
    if kind == 0:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + rng.randbytes(n) + data[at + n :]
    if kind == 3:
        return data[:at] + rng.randbytes(n) + data[at:]
    if kind == 4:
        return data[:at] + data[at + n :]
    if kind == 5:
        other = rng.randrange(len(data))
        return data[:at] + data[other : other + n] + data[at + n :]
    return data[:at] + bytes(n) + data[at + n :]


NUMBERS = [b"0", b"-1", b"1", b"7", b"8", b"64", b"255", b"65536", b"4294967296", b"1e3",
           b"-9223372036854775808", b"9223372036854775807", b"18446744073709551615", b"1e400",
           b"18446744073709551744", b"0.5", b"true", b"null", b"[]", b"{}", b'""', b"NaN",
           b"9" * 60]  # fmt: skip


def mutate_text(text, rng):
    """Change the description of the file: a number, a token, or any bytes."""
    kind = rng.randrange(3)
    if kind == 0:
        number = rng.choice([*re.finditer(rb"-?\d+", text), re.search(rb"$", text)])
        return text[: number.start()] + rng.choice(NUMBERS) + text[number.end() :]
    if kind == 1:
        tokens = re.findall(rb'"(?:[^"\\]|\\.)*"|[^"\[\]{},:]+|.', text)
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        tokens[i] = rng.choice([tokens[j], b"", tokens[i] * 2])
        return b"".join(tokens)
    return mutate(text, rng)


def use(header, arrays):
    """Touch all that was read; under the sanitizers a read out of bounds would end the process."""
    json.dumps(header)
    for array in arrays.values():
        assert array.flags.aligned
        assert not array.flags.writeable
        array.copy()
    if "names" in arrays:
        try:
            storage.unpack_strings(arrays["names"])
        except ModelFileError:
            return False
    return True


def try_to_read(data, path=None):
    """Read a file that may be anything: it is read, or refused with a message that can be shown.

    As a large file, of which only some arrays are verified.
    """
    try:
        if path is None:
            header, arrays = storage.read_bytes(data, verify=False)
        else:
            path.write_bytes(data)
            header, arrays = storage.read(path, verify=False)
    except ModelFileError as error:
        message = str(error)
    else:
        return use(header, arrays)
    assert message.isprintable(), message
    assert len(message) < 700
    return False


def test_fuzz_damage(tmp_path):
    """4000 damaged files: the checked parts are never taken for good if they are not."""
    rng = random.Random(1)
    path = tmp_path / "model"
    n_read = 0
    for i in range(4000):
        data = GOOD
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            data = mutate(data, rng) or b"\0"
        is_read = try_to_read(data, path if i % 4 == 0 else None)
        n_read += is_read
        if is_read:
            assert data[:BEGIN] == GOOD[:BEGIN]
            assert len(data) == len(GOOD)
            if data != GOOD:
                with raises(ModelFileError, found="has the checksum"):
                    storage.read_bytes(data)
    assert 10 < n_read < 1000  # some damage is in arrays that are not checked; most is refused


def test_fuzz_forgeries(tmp_path):
    """6000 files that were made to pass the checksum of the header."""
    rng = random.Random(2)
    text, path = GOOD[8:BEGIN].rstrip(), tmp_path / "model"
    n_read = 0
    for i in range(6000):
        bad = text
        for _ in range(rng.choice([1, 1, 2, 3])):
            bad = mutate_text(bad, rng) or b"{}"
        if len(bad) < SUM_AT:
            continue
        n_read += try_to_read(forge(bad), path if i % 8 == 0 else None)
    assert 10 < n_read < 4000
