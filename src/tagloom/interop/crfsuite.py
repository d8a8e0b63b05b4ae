"""Models of CRFsuite, python-crfsuite and sklearn-crfsuite: their binary file, read and written.

::

    lCRF  size FOMC 100  n_features n_labels n_attrs  offsets of the five chunks
    FEAT  size n         {type, source, label, weight} · n      type 0: attribute → label,
                                                                1: label → label
    CQDB  …              the labels: records {id, length, text, NUL}, hash tables, offsets by id
    CQDB  …              the attributes
    LFRF  size n         for each label its features, by number
    AFRF  size n         for each attribute its features

Numbers are little-endian, 32 bits; weights are float64. FEAT and the two databases contain the
whole model. LFRF, AFRF and the hash tables repeat it as indexes, so only the writer needs them.

CRFsuite's score of labels y is Σ_t Σ_a value(a, t)·w(a, y_t) + Σ_t w(y_{t-1}, y_t), without weights
for the first and last label: a first-order `CRF` over `Items`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tagloom import _native, checks
from tagloom.errors import ModelFileError, ParameterError
from tagloom.features import Function, Items
from tagloom.interop import sources
from tagloom.interop.sources import Source, check_labels, damaged
from tagloom.models.crf import CRF
from tagloom.models.linear import LinearTagger
from tagloom.scores import LinearScores, Rows
from tagloom.scores.linear import Names

MAGIC = b"lCRF"
_TYPE, _VERSION = b"FOMC", 100
_HEADER = struct.Struct("<4sI4s9I")  # 48 bytes
_DATABASE = struct.Struct("<4s5I")  # 24 bytes
_BYTE_ORDER = 0x62445371
_N_TABLES = 256
_RECORDS_AT = _DATABASE.size + 8 * _N_TABLES
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("label", "<u4"), ("weight", "<f8")])

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]
UInt32 = npt.NDArray[np.uint32]


class _Header(NamedTuple):
    magic: bytes
    size: int
    type: bytes
    version: int
    n_features: int
    n_labels: int
    n_attributes: int
    features_at: int
    labels_at: int
    attributes_at: int
    label_refs_at: int
    attribute_refs_at: int


# ---- reading ---------------------------------------------------------------------------------


def read_crfsuite(
    source: Source,
    *,
    features: Callable[..., Any] | None = None,
    encoding: str = "utf-8",
    where: str | None = None,
) -> CRF:
    """Read a model of CRFsuite; `tagloom.load` does the same.

    Parameters
    ----------
    source : str, path, bytes or file object
    features : callable, optional
        The function that computes the features, such as ``word2features``. The tagger then takes
        sentences of words; without it, lists of dicts or lists of features.
    encoding : str
        Encoding of labels and attributes: that of the training data. python-crfsuite writes UTF-8.
    where : str, optional
        Name of the file in errors.

    Returns
    -------
    CRF
        With the same labels in the same order, and the same weights rounded to float32.

    Raises
    ------
    ModelFileError
        If the file is not a model of CRFsuite, or is damaged.

    Examples
    --------
    >>> import tagloom as tl
    >>> X, y = [[{"word": "they"}, {"word": "fish"}]], [["N", "V"]]
    >>> crf = tl.CRF(features=None, algorithm="lbfgs", boundaries=False).fit(X, y)
    >>> tl.interop.read_crfsuite(tl.interop.to_crfsuite(crf)).predict(X)
    [['N', 'V']]
    """
    data, where = sources.read_bytes(source, where)
    header = _read_header(data, where)
    names = _read_database(data, header.labels_at, header.n_labels, f"{where}: labels")
    labels = check_labels([_text(x, where, encoding) for x in names], f"{where}: labels", len(data))
    table = f"{where}: attributes"
    attributes = _read_database(data, header.attributes_at, header.n_attributes, table)
    index = _number([_text(name, where, encoding) for name in attributes], table)
    trans, rows = _read_weights(data, header, len(labels), f"{where}: features")
    extractor = Items() if features is None else Function(features)
    Y = len(labels)
    scores = LinearScores(
        labels=labels,
        extractor=extractor,
        index=index,
        rows=rows,
        names=Names(*index.names()),
        trans=trans,
        start=np.zeros(Y),
        stop=np.zeros(Y),
    )
    return CRF.from_scores(
        scores,
        training={"tool": "CRFsuite"},
        features=features,
        labels=list(labels),
        algorithm="lbfgs",
        boundaries=False,
        constraints=None,
    )


def load_foreign(source: Source, features: Any, where: str) -> CRF:
    """Read a model for `tagloom.load`."""
    return read_crfsuite(source, features=features, where=where)


def _read_header(data: bytes, where: str) -> _Header:
    if not data.startswith(MAGIC):
        raise ModelFileError(
            where=where, expected="a CRFsuite model, which begins with lCRF", found=_start(data)
        )
    if len(data) < _HEADER.size:
        raise damaged(where, f"a header of {_HEADER.size} bytes", f"{len(data)} bytes in all")
    header = _Header(*_HEADER.unpack_from(data))
    if header.type != _TYPE or header.version != _VERSION:
        raise damaged(
            where,
            f"a CRFsuite model of type {_TYPE.decode()}, version {_VERSION}",
            f"type {checks.show(header.type)}, version {header.version}",
        )
    if header.size != len(data):
        raise damaged(where, f"{header.size:,} bytes, as in the header", f"{len(data):,} bytes")
    return header


def read_header(data: bytes) -> dict[str, str]:
    """Return the header of a model as CRFsuite's ``dump`` shows it: names and texts."""
    h = _Header(*_HEADER.unpack_from(data))
    numbers = {
        "size": h.size,
        "type": h.type.decode("latin-1"),
        "version": h.version,
        "num_features": h.n_features,
        "num_labels": h.n_labels,
        "num_attrs": h.n_attributes,
    }
    return {"magic": MAGIC.decode(), **{name: str(value) for name, value in numbers.items()}}


def _start(data: bytes) -> str:
    return f"a file that begins with {checks.show(data[:16])}" if data else "an empty file"


def _text(name: bytes, where: str, encoding: str) -> str:
    return sources.decode(name, where, encoding)


def _read_database(data: bytes, at: int, count: int, where: str) -> list[bytes]:
    """Return the texts of a database (CQDB) in the order of their numbers."""
    if at + _DATABASE.size > len(data):
        raise damaged(where, f"a database within {len(data):,} bytes", f"its start at byte {at:,}")
    chunk, size, _, order, n, index_at = _DATABASE.unpack_from(data, at)
    if chunk != b"CQDB" or order != _BYTE_ORDER or at + size > len(data):
        raise damaged(where, f"a database (CQDB) at byte {at:,}", checks.show(data[at : at + 16]))
    if n != count or index_at + 4 * n > size:
        raise damaged(where, f"{count:,} entries, as in the header", f"{n:,}")
    raw = np.frombuffer(data, np.uint8, size, at)
    records = np.frombuffer(data, "<u4", n, at + index_at).astype(np.int64)  # [n] offsets
    if n and (records.min() < _RECORDS_AT or records.max() + 8 > size):
        raise damaged(where, f"records from byte {_RECORDS_AT} to {size}", "one outside")
    numbers, lengths = _read_numbers(raw, records), _read_numbers(raw, records + 4)
    if (numbers != np.arange(n)).any():
        raise damaged(where, f"records numbered from 0 to {n - 1}", "another number")
    ends = records + 8 + lengths
    if n and (lengths.min() < 1 or ends.max() > size or int(lengths.sum()) > size):
        raise damaged(where, f"texts within {size:,} bytes", "one outside")
    if raw[ends - 1].any():
        raise damaged(where, "texts that end in NUL", "another byte")
    text = raw.tobytes()
    return [
        text[first:last]
        for first, last in zip((records + 8).tolist(), (ends - 1).tolist(), strict=True)
    ]


def _read_numbers(raw: Bytes, at: Int64) -> Int64:
    """Read unaligned 32-bit numbers at several places."""
    parts = [raw[at + i].astype(np.int64) << 8 * i for i in range(4)]
    return parts[0] | parts[1] | parts[2] | parts[3]


def _number(names: list[str], where: str) -> _native.Index:
    """Number attributes as the file does."""
    index = _native.Index()
    _native.encode_items([[names]], index, True)  # one token that has all of them, in order
    if index.size != len(names):
        raise damaged(where, f"{len(names):,} different attributes", f"{index.size:,}")
    return index


def _read_weights(
    data: bytes, header: _Header, Y: int, where: str
) -> tuple[npt.NDArray[np.float64], Rows]:
    """Return the weights of label pairs [Y, Y] and of (attribute, label)."""
    at, A = header.features_at, header.n_attributes
    if at + 12 > len(data):
        raise damaged(where, f"features within {len(data):,} bytes", f"their start at byte {at:,}")
    chunk, size, n = struct.unpack_from("<4s2I", data, at)
    if chunk != b"FEAT" or at + size > len(data) or 12 + n * _FEATURE.itemsize > size:
        raise damaged(
            where,
            f"{n:,} features of {_FEATURE.itemsize} bytes in a chunk (FEAT) at byte {at:,}",
            f"{checks.show(chunk)}, {size:,} bytes",
        )
    entries = np.frombuffer(data, _FEATURE, n, at + 12)
    is_pair = entries["type"] == 1
    if not (is_pair | (entries["type"] == 0)).all():
        raise damaged(where, "features of type 0 or 1", f"type {int(entries['type'].max())}")
    most = np.where(is_pair, Y, A)
    if (entries["source"] >= most).any() or (entries["label"] >= Y).any():
        raise damaged(where, f"{A:,} attributes and {Y} labels", "a number beyond them")
    if not (np.abs(entries["weight"]) <= np.finfo(np.float32).max).all():
        raise damaged(where, "weights that are finite float32", "one that is not")
    keys = entries["source"].astype(np.int64) * Y + entries["label"]
    trans = np.zeros(Y * Y)
    np.add.at(trans, keys[is_pair], entries["weight"][is_pair])
    # CRFsuite adds the weights of equal features; the sum over unique keys does, too.
    unique, inverse = np.unique(keys[~is_pair], return_inverse=True)
    weights = np.bincount(inverse, entries["weight"][~is_pair], len(unique))
    ptr = np.searchsorted(unique, np.arange(A + 1, dtype=np.int64) * Y).astype(np.int64)
    return trans.reshape(Y, Y), Rows(
        ptr, (unique % Y).astype(np.uint16), weights.astype(np.float32)
    )


# ---- writing ---------------------------------------------------------------------------------


def to_crfsuite(tagger: LinearTagger, path: Any = None) -> bytes:
    """Write a tagger as a model of CRFsuite, for python-crfsuite and other programs.

    Its attributes have the names that ``tagger.scores_.extractor.extract(sentence)`` returns; pass
    such dicts to ``pycrfsuite.Tagger.tag``.

    Parameters
    ----------
    tagger : CRF, StructuredPerceptron or StructuredSVM
        Of order 1, without edge templates, weights for the first and last label, or constraints:
        CRFsuite has none of them.
    path : str or path, optional
        File to write; by default the bytes are only returned.

    Returns
    -------
    bytes

    Raises
    ------
    ParameterError
        If the tagger has scores that CRFsuite cannot represent.

    Examples
    --------
    >>> import tagloom as tl
    >>> X, y = [["they", "fish"]], [["N", "V"]]
    >>> crf = tl.CRF(["word"], algorithm="lbfgs", boundaries=False).fit(X, y)
    >>> tl.interop.to_crfsuite(crf)[:4]
    b'lCRF'
    """
    tagger._check_fitted("to_crfsuite")
    scores = tagger.scores_
    _check_convertible(tagger)
    labels = [_c_string(label, "label") for label in scores.labels]
    attributes = [_c_string(name, "attribute") for name in scores.names]
    data = _file(labels, attributes, _entries(scores))
    if path is not None:
        with open(path, "wb") as file:
            file.write(data)
    return data


def _check_convertible(tagger: LinearTagger) -> None:
    scores, constraints = tagger.scores_, tagger.constraints_
    causes = {
        "weights for the first or last label": scores.start.any() or scores.stop.any(),
        "edge templates": scores.edge_rows is not None,
        "sub-tags": scores.subtags is not None,
        "an order above 1": scores.states is not None,
        "constraints": constraints.scheme or constraints.states or constraints.dictionary,
        "scores that are normalised for each token": tagger.kind in ("MEMM",),
        "a temperature": tagger.temperature_ != 1,
    }
    if found := [name for name, is_so in causes.items() if is_so]:
        raise ParameterError(
            where="to_crfsuite",
            expected="a first-order model of attributes and label pairs, which CRFsuite has",
            found=f"a {tagger.kind} with {', '.join(found)}",
            hint="Train with {boundaries}, {constraints}.",
            options={"boundaries": False, "constraints": None},
        )
    if not np.isfinite(scores.trans).all() or not np.isfinite(scores.rows.weights).all():
        raise ParameterError(
            where="to_crfsuite", expected="finite weights", found="−inf, a forbidden event"
        )


def _c_string(text: str, kind: str) -> bytes:
    data = text.encode("utf-8") + b"\0"
    if data.find(b"\0") != len(data) - 1:
        raise ParameterError(
            where="to_crfsuite",
            expected=f"each {kind} without a NUL character, which ends a text in CRFsuite",
            found=checks.show(text),
        )
    return data


def _entries(scores: LinearScores) -> npt.NDArray[Any]:
    """Return the features: those of attributes in their order, then those of label pairs."""
    rows = scores.rows
    kept = rows.weights != 0
    sources, targets = np.nonzero(scores.trans)
    n = int(kept.sum())
    entries = np.zeros(n + len(sources), _FEATURE)
    entries["source"][:n], entries["label"][:n] = rows.attributes[kept], rows.cols[kept]
    entries["weight"][:n] = rows.weights[kept]
    entries["type"][n:] = 1
    entries["source"][n:], entries["label"][n:] = sources, targets
    entries["weight"][n:] = scores.trans[sources, targets]
    return entries


def empty_model() -> bytes:
    """Return a model without labels, as CRFsuite writes one after training on nothing."""
    return _file([], [], np.zeros(0, _FEATURE))


def _file(labels: list[bytes], attributes: list[bytes], entries: npt.NDArray[Any]) -> bytes:
    """Put the chunks one after another."""
    n_states = int((entries["type"] == 0).sum())
    features = struct.pack("<4s2I", b"FEAT", 12 + entries.nbytes, len(entries)) + entries.tobytes()
    parts, offsets, at = [], [], _HEADER.size

    def add(chunk: bytes) -> None:
        nonlocal at
        offsets.append(at)
        padded = chunk + bytes(-len(chunk) % 4)
        parts.append(padded)
        at += len(padded)

    add(features)
    add(_database(labels))
    add(_database(attributes))
    Y, A = len(labels), len(attributes)
    # CRFsuite has references for two further labels, the beginning and end of a sequence.
    add(_references(b"LFRF", entries["source"][n_states:], n_states, Y + 2, at))
    add(_references(b"AFRF", entries["source"][:n_states], 0, A, at))
    if at >= 1 << 32:
        raise ParameterError(
            where="to_crfsuite", expected="a model below 4 GB", found=f"{at:,} bytes"
        )
    header = _HEADER.pack(MAGIC, at, _TYPE, _VERSION, len(entries), Y, A, *offsets)
    return b"".join([header, *parts])


def _references(chunk: bytes, sources: UInt32, first: int, n: int, at: int) -> bytes:
    """List the features of each source, whose numbers ascend from ``first``."""
    counts = np.bincount(sources, minlength=n)  # [n]
    begin = 12 + 4 * n
    places = begin + 4 * (np.cumsum(counts + 1) - counts - 1)  # [n] in the chunk
    body = np.zeros(n + len(sources), "<u4")
    is_count = np.zeros(len(body), bool)
    is_count[(places - begin) // 4] = True
    body[is_count] = counts
    body[~is_count] = first + np.arange(len(sources))
    size = begin + body.nbytes
    offsets = (at + places).astype("<u4")
    return struct.pack("<4s2I", chunk, size, n) + offsets.tobytes() + body.tobytes()


def _database(texts: list[bytes]) -> bytes:
    """Make a database (CQDB): records, hash tables from text to number, offsets by number."""
    n = len(texts)
    lengths = np.array([len(text) for text in texts], np.int64)
    records = _RECORDS_AT + np.concatenate([[0], np.cumsum(lengths + 8)])  # [n + 1]
    body = b"".join(
        b"".join([struct.pack("<2I", number, len(text)), text]) for number, text in enumerate(texts)
    )
    hashes = hash_texts(texts)
    tables, refs, at = [], [], int(records[-1])
    for table in range(_N_TABLES):
        members = np.flatnonzero(hashes % _N_TABLES == table)
        slots = _hash_table(hashes[members], records[members])
        refs.append((at if len(members) else 0, len(slots)))
        tables.append(slots.tobytes())
        at += slots.nbytes
    size = at + 4 * n
    head = _DATABASE.pack(b"CQDB", size, 0, _BYTE_ORDER, n, at)
    index = records[:n].astype("<u4").tobytes()
    return b"".join([head, np.array(refs, "<u4").tobytes(), body, *tables, index])


def _hash_table(hashes: UInt32, records: Int64) -> npt.NDArray[np.uint32]:
    """Make a table of twice as many slots (hash, offset) as keys, with linear probing."""
    n = 2 * len(hashes)
    slots = np.zeros((n, 2), "<u4")
    taken = [False] * n
    places = []
    for place in ((hashes >> 8) % max(n, 1)).tolist():
        while taken[place]:
            place = (place + 1) % n
        taken[place] = True
        places.append(place)
    slots[places, 0], slots[places, 1] = hashes, records
    return slots


def hash_texts(texts: list[bytes]) -> UInt32:
    """Return the 32-bit hash of each text that CRFsuite's tables use.

    Bob Jenkins' lookup3 (2006), ``hashlittle`` with seed 0, for all texts at once: step i reads the
    i-th 12 bytes of those that have as many.

    Examples
    --------
    >>> from tagloom.interop.crfsuite import hash_texts
    >>> [hex(x) for x in hash_texts([b"", b"Four score and seven years ago"])]
    ['0xdeadbeef', '0x17770551']
    """
    lengths = np.array([len(text) for text in texts], np.int64)
    n_blocks = np.maximum(-(-lengths // 12), 1)  # [n] of 12 bytes, the last one padded with zeros
    padded = b"".join(t.ljust(12 * k, b"\0") for t, k in zip(texts, n_blocks.tolist(), strict=True))
    words = np.frombuffer(padded, "<u4").astype(np.uint32).reshape(-1, 3)
    first = np.concatenate([[0], np.cumsum(n_blocks[:-1])]).astype(np.int64)[: len(texts)]
    state = np.repeat(np.uint32(0xDEADBEEF) + lengths.astype(np.uint32)[None, :], 3, axis=0)
    result = state[2].copy()
    for step in range(int(n_blocks.max(initial=0))):
        left = np.flatnonzero(n_blocks > step)
        a, b, c = state[:, left] + words[first[left] + step].T
        is_last = n_blocks[left] == step + 1
        result[left[is_last]] = _finish(a[is_last], b[is_last], c[is_last])
        state[:, left] = _mix(a, b, c)
    return np.where(lengths > 0, result, np.uint32(0xDEADBEEF)).astype(np.uint32)


def _rotate(x: UInt32, k: int) -> UInt32:
    rotated: UInt32 = (x << np.uint32(k)) | (x >> np.uint32(32 - k))
    return rotated


def _mix(a: UInt32, b: UInt32, c: UInt32) -> tuple[UInt32, UInt32, UInt32]:
    for k in (4, 6, 8, 16, 19, 4):
        a = (a - c) ^ _rotate(c, k)
        c = c + b
        a, b, c = b, c, a  # the next step has the three in turn
    return a, b, c


def _finish(a: UInt32, b: UInt32, c: UInt32) -> UInt32:
    for k in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _rotate(b, k)
        a, b, c = b, c, a
    return b
