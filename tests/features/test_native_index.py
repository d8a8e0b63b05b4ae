"""The index of attributes: numbering, growth, keeping some, and arrays from hostile files."""

import collections
import itertools
import random

import numpy as np
import pytest

from tagloom import _native


def grown(names):
    index = _native.Index()
    for name in names:
        index.add(name)
    return index


def names_of(index):
    blob, offsets = index.names()
    return [blob[a:b].decode() for a, b in itertools.pairwise(offsets)]


def test_numbers_names_and_counts():
    rng = random.Random(1)
    names = [f"é{rng.randrange(30000)}" for _ in range(60000)]
    index = grown(names)
    counts = collections.Counter(names)
    assert index.size == len(counts)
    assert names_of(index) == list(counts)  # in the order of their first occurrence
    assert index.counts().tolist() == list(counts.values())
    assert [index.find(name) for name in counts] == list(range(len(counts)))
    assert index.find("absent") == -1
    assert _native.Index().find("") == -1


def test_parts_are_folded():
    index = _native.Index()
    assert index.add(["w[0]=", "the"]) == 0
    assert index.find(["w[0]=", "", "the", ""]) == 0  # empty parts do not count
    assert index.find("w[0]=the") == -1  # other parts, another attribute
    assert index.add(["w[0]=the"]) == index.find("w[0]=the") == 1
    assert names_of(index) == ["w[0]=the", "w[0]=the"]
    assert _native.fingerprint(["a", "b"]) != _native.fingerprint(["b", "a"])
    assert _native.fingerprint([]) == _native.fingerprint([""]) == _native.fingerprint("")


def test_fingerprints_stay_what_they_are():
    """Model files hold them: a change here needs a new version of the file format."""
    known = {
        "": 12535862302449814171,
        "a": 15667997895817000597,
        "word[-1]=the": 15175305714106843493,
        "Donaudampfschifffahrtsgesellschaft": 4606568880151885602,
        "日本語": 14310128324443027581,
    }
    assert {name: _native.fingerprint(name) for name in known} == known


def test_each_bit_of_data_counts():
    """Of every length around the steps in which data are read, and zeros as well."""
    rng = np.random.default_rng(0)
    seen = {_native.hash_data(np.zeros(n, np.uint8)) for n in range(100)}
    n_cases = len(seen)
    assert n_cases == 100
    for n in (1, 7, 8, 9, 31, 32, 33, 63, 64, 100):
        data = rng.integers(0, 256, n, dtype=np.uint8)
        seen.add(_native.hash_data(data))
        for bit in range(8 * n):
            changed = data.copy()
            changed[bit // 8] ^= 1 << bit % 8
            seen.add(_native.hash_data(changed))
        n_cases += 1 + 8 * n
    assert len(seen) == n_cases
    # Checkpoints hold these values.
    assert _native.hash_data(np.arange(100, dtype=np.uint8)) == 5967042171648815883
    data = rng.permutation(200).astype(np.uint8)
    assert _native.hash_data(data) != _native.hash_data(np.roll(data, 32))  # order counts


def test_fingerprints_are_well_mixed():
    """One changed bit of the text changes each bit of the fingerprint about half of the time."""
    rng = random.Random(2)
    changed = []
    for length in [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 40]:
        for _ in range(200):
            text = [rng.randrange(128) for _ in range(length)]
            a = _native.fingerprint("".join(map(chr, text)))
            text[rng.randrange(length)] ^= 1 << rng.randrange(7)
            b = _native.fingerprint("".join(map(chr, text)))
            changed.append([a >> bit & 1 ^ b >> bit & 1 for bit in range(64)])
    rates = np.mean(changed, axis=0)
    assert rates.min() > 0.45
    assert rates.max() < 0.55


def test_fingerprints_of_short_texts_differ():
    alphabet = [chr(c) for c in range(128)]
    texts = ["", *alphabet, *(a + b for a in alphabet for b in alphabet)]
    texts += ["\0" * n for n in range(3, 40)] + [a + "b" * 7 + a for a in alphabet]
    assert len({_native.fingerprint(text) for text in texts}) == len(texts)


def test_keep():
    index = grown(["a", "b", "c", "b", "d"])
    kept = index.keep(np.array([False, True, False, True]))
    assert names_of(kept) == ["b", "d"]
    assert kept.counts().tolist() == [2, 1]
    assert [kept.find(name) for name in "abcd"] == [-1, 0, -1, 1]
    assert kept.add("a") == 2
    assert index.size == 4  # is as it was
    assert index.keep(np.zeros(4, bool)).size == 0
    with pytest.raises(ValueError, match="4 attributes; got 3"):
        index.keep(np.zeros(3, bool))


def test_what_keeps_everything_grows_apart():
    index = grown(["a", "b"])
    kept = index.keep(np.ones(2, bool))
    assert (index.add("c"), kept.add("d"), kept.add("c")) == (2, 2, 3)
    assert (index.add("d"), index.size, kept.size) == (3, 4, 4)
    assert index.counts().tolist() == kept.counts().tolist() == [1, 1, 1, 1]
    assert (index.names()[0], kept.names()[0]) == (b"abcd", b"abdc")


def test_keep_of_many_and_of_a_view():
    index = grown(map(str, range(5000)))
    view = _native.Index.from_keys(index.keys())
    mask = np.arange(5000) % 3 == 0
    for one in [index, view]:
        kept = one.keep(mask)
        assert [kept.find(str(i)) for i in range(0, 5000, 3)] == list(range(kept.size))
        assert kept.find("1") == -1
    assert kept.keys().size == kept.size
    with pytest.raises(ValueError, match="cannot grow"):
        kept.add("1")


def test_keys_and_back():
    index = grown(map(str, range(1000)))
    keys = index.keys()
    keys.flags.writeable = False
    view = _native.Index.from_keys(keys)
    del keys
    assert view.size == 1000
    assert [view.find(str(i)) for i in range(1001)] == [*range(1000), -1]
    for refused in [view.counts, view.names]:
        with pytest.raises(ValueError, match="no names"):
            refused()
    with pytest.raises(ValueError, match="cannot grow"):
        view.add("new")
    again = _native.Index.from_keys(view.keys(), names=index.names())
    assert again.add("7") == 7
    assert again.add("new") == 1000
    assert names_of(again) == [*map(str, range(1000)), "new"]
    assert again.counts().sum() == 2
    assert view.find("new") == index.find("new") == -1


def test_keys_that_are_no_index():
    keys = grown("abc").keys()
    with pytest.raises(ValueError, match="duplicate key"):
        _native.Index.from_keys(keys[[0, 1, 0]])
    with pytest.raises(ValueError, match="a key is 0"):
        _native.Index.from_keys(keys * np.uint64(0))
    assert _native.Index.from_keys(keys[:0]).size == 0


def test_names_that_do_not_fit():
    index = grown(["a", "bc"])
    for offsets in [[0, 1], [0, 1, 2], [1, 1, 3], [0, 4, 3], [0, -1, 3]]:
        with pytest.raises(ValueError, match="3 numbers that rise from 0 to 3"):
            _native.Index.from_keys(index.keys(), names=(b"abc", np.array(offsets)))
