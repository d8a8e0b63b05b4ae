"""Lists of strings in one array: they come back, and no bomb unpacks."""

import random
import threading
import tracemalloc
import zlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagloom import storage
from tagloom.errors import ModelFileError, ParameterError


def forge(count, size, data):
    """Pack anything, with any numbers before it."""
    return np.frombuffer(
        count.to_bytes(8, "little") + size.to_bytes(8, "little") + zlib.compress(data), np.uint8
    )


@given(st.lists(st.text(st.characters())))  # lone surrogates too
def test_strings_come_back(strings):
    packed = storage.pack_strings(strings)
    assert storage.unpack_strings(packed, count=len(strings)) == strings
    text, offsets = storage.unpack_bytes(packed, count=len(strings))
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    assert text == b"".join(encoded)
    assert offsets.dtype == np.int64
    assert [text[a:b] for a, b in pairwise(offsets)] == encoded
    np.testing.assert_array_equal(storage.pack_bytes(text, offsets), packed)


@pytest.mark.parametrize("strings", [[], [""], ["", ""], ["\0", "\xff", "ÿ\n"]])
def test_small_lists(strings):
    assert storage.unpack_strings(storage.pack_strings(strings)) == strings


def test_they_pass_through_a_file(tmp_path):
    strings = [f"word[-1]={i}" for i in range(1000)]
    storage.write(tmp_path / "model", {}, {"names": storage.pack_strings(strings)})
    _, arrays = storage.read(tmp_path / "model")
    assert storage.unpack_strings(arrays["names"]) == strings
    assert arrays["names"].nbytes < 4000


@pytest.mark.parametrize(
    "offsets", [[], [0], [0, 2], [1, 4], [0, 3, 2, 4], [0, 5, 4], [0, -1, 4], [[0, 4]]]
)
def test_offsets_that_do_not_fit(offsets):
    with pytest.raises(ParameterError, match="offsets must rise from 0 to 4, the length of the te"):
        storage.pack_bytes(b"text", np.array(offsets, np.int64))


def test_text_that_is_not_utf8_is_not_packed():
    with pytest.raises(ParameterError, match="byte 0xFF, so it is not UTF-8"):
        storage.pack_bytes(b"a\xff", np.array([0, 2]))


GOOD = b"one\xfftwo\xff"


@pytest.mark.parametrize(
    ("packed", "says"),
    [
        (np.zeros(15, np.uint8), "expected one dimension of at least 16 bytes, found uint8"),
        (np.zeros((4, 4), np.uint8), r"found uint8 \(4, 4\)"),
        (np.zeros(16, np.int8), "found int8"),
        (np.zeros(16, np.uint8), "does not decompress to the 0 bytes"),
        (forge(2, 9, GOOD), "does not decompress to the 9 bytes that it claims"),
        (forge(2, 7, GOOD), "does not decompress to the 7 bytes that it claims"),
        (forge(1, 8, GOOD), "does not hold the 1 strings that it claims"),
        (forge(3, 8, GOOD), "does not hold the 3 strings that it claims"),
        (forge(2, 9, GOOD + b"x"), "does not hold the 2 strings that it claims"),
        (forge(0, 1, b"x"), "does not hold the 0 strings"),
        (forge(9, 8, GOOD), "claims to unpack to 9 strings of 8 bytes"),
        (forge(2**64 - 1, 2**64 - 1, GOOD), "claims to unpack to"),
        (forge(2, 2**40, GOOD), "claims to unpack to"),
        (forge(2, 8, GOOD)[:-1], "does not decompress to"),
        (np.append(forge(2, 8, GOOD), np.uint8(0)), "does not decompress to"),
        (forge(2, 8, GOOD)[::-1].copy(), "claims to unpack"),
        (np.append(forge(2, 8, GOOD)[:16], np.zeros(9, np.uint8)), "cannot be decompressed"),
    ],
)
def test_damage_is_refused(packed, says):
    for unpack in (storage.unpack_strings, storage.unpack_bytes):
        with pytest.raises(ModelFileError, match=f"pos.tagloom: names: .*({says})"):
            unpack(packed, where="pos.tagloom: names")


@pytest.mark.parametrize(
    "text", [b"\x80\xff", b"\xc3\xff", b"a\xc0\x80\xff", b"\xf5\x80\x80\x80\xff"]
)
def test_strings_that_are_not_utf8_are_refused(text):
    with pytest.raises(ModelFileError, match="a string is not UTF-8"):
        storage.unpack_strings(forge(1, len(text), text))


def test_another_number_of_strings_than_expected():
    for unpack in (storage.unpack_strings, storage.unpack_bytes):
        with pytest.raises(ModelFileError, match="holds 2 strings, expected 3"):
            unpack(forge(2, 8, GOOD), count=3)


def test_bombs_do_not_go_off():
    """A small array that claims, or holds, far more than is allowed asks for little memory."""
    ones = zlib.compress(b"a" * (50 << 20))  # 50 MiB in 50 kB

    def bomb(count, size):
        numbers = count.to_bytes(8, "little") + size.to_bytes(8, "little")
        return np.frombuffer(numbers + ones, np.uint8)

    tracemalloc.start()
    try:
        for unpack in (storage.unpack_strings, storage.unpack_bytes):
            with pytest.raises(ModelFileError, match=r"than the limit of 1000000\. If the file"):
                unpack(bomb(1, 50 << 20), limit=10**6)
            with pytest.raises(ModelFileError, match="does not decompress to the 10 bytes"):
                unpack(bomb(1, 10))
            with pytest.raises(ModelFileError, match="more than the limit"):  # many small objects
                unpack(bomb(10**6, 2 * 10**6), limit=10**7)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_fuzz():
    rng = random.Random(0)
    good = storage.pack_strings([f"word[{i % 3}]={i}" for i in range(50)]).tobytes()
    n_read = 0
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.choice([1, 2, 8])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        packed = np.frombuffer(data[: rng.choice([len(data), rng.randrange(len(data))])], np.uint8)
        for unpack in (storage.unpack_strings, storage.unpack_bytes):
            try:
                unpack(packed)
                n_read += 1
            except ModelFileError:
                assert bytes(packed) != good
    assert n_read < 100  # zlib has a checksum of its own


@pytest.mark.parametrize("n", [0, 1, 2**20 - 1, 2**20, 2**20 + 1, 5 * 2**19])
def test_any_number_of_threads_packs_the_same_bytes(n):
    text = np.random.default_rng(n).integers(97, 101, n, np.uint8).tobytes()
    offsets = np.append(np.arange(0, n, 100), n)
    packed = storage.pack_bytes(text, offsets)
    assert storage.unpack_bytes(packed)[0] == text
    for n_threads in (2, 3, 8):
        found = storage.pack_bytes(text, offsets, n_threads=n_threads)
        np.testing.assert_array_equal(found, packed)
    # Any reader of zlib takes it, and pieces take hardly more room than the whole.
    strings = zlib.decompress(packed[16:].tobytes())
    assert strings.replace(b"\xff", b"") == text
    assert len(packed) <= 1.001 * len(zlib.compress(strings, 4)) + 16


def test_an_error_on_another_thread_is_not_lost(monkeypatch):
    whole, has_failed = zlib.compressobj, threading.Event()

    def compressobj(*args, **options):
        if threading.current_thread() is not threading.main_thread():
            has_failed.set()
            raise MemoryError("no more")
        assert has_failed.wait(60)
        return whole(*args, **options)

    monkeypatch.setattr(zlib, "compressobj", compressobj)
    text, offsets = b"a" * (3 << 20), np.array([0, 3 << 20])
    with pytest.raises(MemoryError, match="no more"):
        storage.pack_bytes(text, offsets, n_threads=2)


def test_without_more_threads_those_that_are_do_the_work(monkeypatch):
    text, offsets = b"ab" * (3 << 19), np.array([0, 3 << 20])
    start, started = threading.Thread.start, []

    def start_one(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    packed = storage.pack_bytes(text, offsets, n_threads=4)
    assert len(started) == 1
    assert not started[0].is_alive()
    np.testing.assert_array_equal(packed, storage.pack_bytes(text, offsets))
