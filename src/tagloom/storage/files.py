"""One file that holds a JSON header and named arrays: a safetensors container, read strictly.

::

    n  {"__metadata__":{"format":"tagloom","version":"1","crc32":"…",…},"name":{…},…}  array array …
    8  n bytes of JSON, padded with blanks so that the arrays begin at a multiple of 64

Reading maps the file and does not trust it: every number is compared with the length of the file
before use. Damage raises a `ModelFileError` and never reads outside the file. The safetensors
library reads these files too. We do not use it, since it neither maps arrays for NumPy nor gives
the reason for an error. Callers check whether the values of the arrays fit together.
"""

from __future__ import annotations

import itertools
import json
import math
import mmap
import os
import re
import reprlib
import stat
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from tagloom.errors import ModelFileError, ParameterError, about_file
from tagloom.numeric import np
from tagloom.storage.copies import Copy
from tagloom.storage.stored import DTYPES, Stored, StoredArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

Path: TypeAlias = str | os.PathLike[str]
Buffer: TypeAlias = bytes | bytearray | memoryview

VERSION = 2  # the newest that is read; a file that has no large entries is written as version 1
ALIGNMENT = 64  # bytes: a cache line, so that no 8-byte key of a table spans two
HEADER_LIMIT = 1 << 25  # bytes of JSON in the text of the file
LARGE_ENTRY = 1 << 20  # bytes of JSON from which an entry of the header becomes an array
VERIFIED_WHOLE = 1 << 26  # bytes of a file up to which every array is verified at load
ENTRY_LIMIT = 1 << 30  # bytes of JSON of such an entry
DEPTH_LIMIT = 64  # of nested lists and objects, to limit the recursion of the parser
DIMENSION_LIMIT = 8
DIGITS_LIMIT = 40  # of an integer in the header; a seed of 128 bits fits

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_ENTRY = "header."  # begins the name of an array that holds an entry of the header, as JSON
# A file begins with its length in 8 bytes, then these bytes, so that this and later versions can
# read format and version before anything else.
_MAGIC = b'{"__metadata__":{"format":"tagloom","version":"'
_START = re.compile(re.escape(_MAGIC) + rb'([1-9][0-9]{0,8})","crc32":"([0-9a-f]{8})",')
_AGAIN = "Copy or save the model again."
_NO_SUM = b"00000000"  # replaces the checksum of the header during its computation
# Other files that users mistake for a model, by their first bytes.
_FOREIGN = {
    b"\x1f\x8b": "gzip data; decompress it first",
    b"\xfd7zXZ": "xz data; decompress it first",
    b"\x28\xb5\x2f\xfd": "zstd data; decompress it first",
    b"PK\x03\x04": "a zip archive, as of NumPy or PyTorch",
    b"\x93NUMPY": "a NumPy array",
    b"\x80": "perhaps a pickle, which tagloom never opens",
    b"lCRF": "a CRFsuite model",
    b"\x64\0\0\0": "perhaps a binary model of CRF++; the text of crf_learn -t can be read",
    b"version https://git-lfs": "a Git LFS pointer; fetch the file itself with `git lfs pull`",
}


def write(
    path: Path,
    header: dict[str, Any],
    arrays: Mapping[str, Array],
    *,
    checked: Collection[str] | None = None,
) -> None:
    """Write a header and arrays to a file, atomically.

    The bytes are written to a hidden file beside it (``.tagloom-….part``) and flushed to the disk,
    then the file is renamed. After a crash or an error at any moment, the old file is still there.
    If the path is a symbolic link, its target is replaced. A new file gets its mode from the umask;
    a replaced file keeps its mode.

    Parameters
    ----------
    path : str or path
    header : dict
        JSON: dict with str keys, list, str, int, finite float, bool, None. A tuple becomes a list.
    arrays : mapping of str to ndarray
        Names consist of letters, digits, ``_``, ``.`` and ``-``; types are bool, float16 to
        float64, and integers of 8 to 64 bits.
    checked : collection of str, optional
        The arrays whose checksum every `read` verifies; by default all. The checksums of the others
        are verified if the file has at most 64 MB, or on request.

    Raises
    ------
    ParameterError
        If the header is not JSON, or an array cannot be stored; names the entry.
    OSError
        If the folder does not exist, or permission or space is missing. The old file is unchanged.

    See Also
    --------
    to_bytes : The same without a file.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from tagloom import storage
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "small.tagloom")
    >>> storage.write(path, {"labels": ["N", "V"]}, {"trans": np.eye(2)})
    >>> header, arrays = storage.read(path)
    >>> header, arrays["trans"].tolist()
    ({'labels': ['N', 'V']}, [[1.0, 0.0], [0.0, 1.0]])
    >>> del arrays  # the file is mapped as long as one of them is in use
    >>> folder.cleanup()
    """
    parts = list(_parts(header, arrays, checked))
    try:
        _replace(os.fspath(path), parts)
    except OSError as error:
        raise about_file(error, os.fspath(path)) from error


def to_bytes(
    header: dict[str, Any],
    arrays: Mapping[str, Array],
    *,
    checked: Collection[str] | None = None,
) -> bytes:
    """Return the bytes that `write` would put into a file; for pickle, or to send them.

    Parameters
    ----------
    header, arrays, checked
        As for `write`.

    Returns
    -------
    bytes
        The same for the same header and arrays, on every machine.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom import storage
    >>> data = storage.to_bytes({}, {"start": np.zeros(3, np.float32)})
    >>> data[8:42]
    b'{"__metadata__":{"format":"tagloom'
    """
    return b"".join(_parts(header, arrays, checked))


def is_model(path: Path) -> bool:
    """Check by its first bytes whether a file was written by `write`.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    bool
        False also if it is not a file or cannot be read.

    Examples
    --------
    >>> import os
    >>> from tagloom import storage
    >>> storage.is_model(os.devnull)
    False
    """
    if not os.path.isfile(path):  # a pipe or device must not lose its first bytes
        return False
    try:
        with open(path, "rb") as file:
            return file.read(8 + len(_MAGIC))[8:] == _MAGIC
    except OSError:
        return False


def read(path: Path, *, verify: bool | None = None) -> tuple[dict[str, Any], StoredArrays]:
    """Read a file that `write` wrote: parse the header, map the arrays, execute nothing.

    Parameters
    ----------
    path : str or path
    verify : bool, optional
        Whether to verify the checksum of every array, which reads the whole file, or only those of
        the checked arrays. By default all if the file has at most 64 MB (2**26 bytes).

    Returns
    -------
    header : dict
    arrays : mapping of str to ndarray
        Read-only views of the file, in its order. Another `write` may replace the file while it is
        mapped, but the file must not be changed or shortened in place.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, or has a newer format.
    OSError
        If it does not exist or cannot be read.

    See Also
    --------
    read_bytes : The same from memory.

    Examples
    --------
    >>> import os
    >>> from tagloom import storage
    >>> storage.read(os.curdir)
    Traceback (most recent call last):
    ...
    tagloom.errors.ModelFileError: .: expected a model file, found a folder.
    """
    name = os.fspath(path)
    mode = os.stat(name).st_mode
    if not stat.S_ISREG(mode):
        found = "a folder" if stat.S_ISDIR(mode) else "a pipe or device, which cannot be mapped"
        raise ModelFileError(where=name, expected="a model file", found=found)
    with open(name, "rb") as file:
        # An empty file cannot be mapped; the reader reports it.
        data = (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if os.fstat(file.fileno()).st_size
            else b""
        )
    return _Reader(data, name).read(verify)


def read_bytes(
    data: Buffer, *, verify: bool | None = None, name: str = "<bytes>"
) -> tuple[dict[str, Any], StoredArrays]:
    """Read the result of `to_bytes`, or the contents of a file.

    Parameters
    ----------
    data : bytes-like
        The arrays are views of bytes; other types are copied, since they could change after the
        check.
    verify : bool, optional
        As for `read`.
    name : str
        Its name in errors.

    Returns
    -------
    header : dict
    arrays : mapping of str to ndarray
        Read-only.

    Raises
    ------
    ModelFileError
        As for `read`.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom import storage
    >>> data = storage.to_bytes({"order": 1}, {"start": np.zeros(2, np.float32)})
    >>> storage.read_bytes(data)
    ({'order': 1}, {'start': array([0., 0.], dtype=float32)})
    >>> storage.read_bytes(data[:-1])  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    tagloom.errors.ModelFileError: <bytes>: cut short: its arrays end at byte 264, but the file has
        263 bytes. Copy or save the model again.
    """
    return _Reader(bytes(data), name).read(verify)


def read_copy(copy: Copy, *, verify: bool | None = None) -> tuple[dict[str, Any], StoredArrays]:
    """Read a private copy of a file; the arrays are views of it.

    Parameters
    ----------
    copy : Copy
    verify : bool, optional
        As for `read`.

    Returns
    -------
    header : dict
    arrays : mapping of str to ndarray
        Read-only. They stay valid when the copy is closed, and whatever happens to the file.

    Raises
    ------
    ModelFileError
        As for `read`.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom import storage
    >>> data = storage.to_bytes({"order": 1}, {"start": np.zeros(2, np.float32)})
    >>> storage.read_copy(storage.Copy("small", data))
    ({'order': 1}, {'start': array([0., 0.], dtype=float32)})
    """
    return _Reader(copy.data, copy.name).read(verify)


# Writing


def _parts(
    header: dict[str, Any], arrays: Mapping[str, Array], checked: Collection[str] | None
) -> Iterator[Buffer]:
    """Yield the file in pieces: everything before the arrays, then each array."""
    _check_contents(header, arrays, checked)
    header, entries = _split_header(header)
    plain = {name: _storable(name, array) for name, array in {**arrays, **entries}.items()}
    # Sorted by the power of two that divides their size, the largest first. This aligns each array
    # to that power without gaps, which safetensors does not allow. A table whose size is a
    # multiple of 64 begins at a multiple of 64, every array at a multiple of its item size.
    order = sorted(plain, key=lambda name: (-math.gcd(plain[name].nbytes, ALIGNMENT), name))
    sums = {name: f"{zlib.crc32(_raw(plain[name])):08x}" for name in order}
    is_checked = set(order if checked is None else checked) | entries.keys()
    metadata = {
        "format": "tagloom",
        "version": "2" if entries else "1",
        "crc32": _NO_SUM.decode(),
        "checked": _dumps({name: sums[name] for name in order if name in is_checked}),
        "unchecked": _dumps({name: sums[name] for name in order if name not in is_checked}),
        "header": _dumps(header),
    }
    outer: dict[str, object] = {"__metadata__": metadata}
    codes = _codes()
    end = 0
    for name in order:
        array = plain[name]
        begin, end = end, end + array.nbytes
        outer[name] = {
            "dtype": codes[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = _dumps(outer).encode("utf-8")
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > HEADER_LIMIT:
        raise ParameterError(
            parameter="header",
            expected=f"at most {HEADER_LIMIT} bytes of JSON",
            found=f"{len(text)} bytes",
            hint="Put many small entries into one.",
        )
    whole = len(text).to_bytes(8, "little") + text
    at = whole.index(_NO_SUM)
    yield whole[:at] + b"%08x" % zlib.crc32(whole) + whole[at + 8 :]
    for name in order:
        yield _raw(plain[name])


def _check_contents(
    header: dict[str, Any], arrays: Mapping[str, Array], checked: Collection[str] | None
) -> None:
    """Raise ParameterError unless the header is JSON and all names are valid."""
    if not isinstance(header, dict):
        raise ParameterError(parameter="header", expected="a dict", found=_show(header))
    _check_json(header, "header", 0)
    if checked is not None and (unknown := sorted(set(checked) - set(arrays))):
        raise ParameterError(
            parameter="checked",
            expected=f"names of the arrays {_show(sorted(arrays))}",
            found=_show(unknown),
        )
    for name in arrays:
        if isinstance(name, str) and name.startswith(_ENTRY):
            raise ParameterError(
                parameter="arrays",
                expected=f"names that do not begin with {_ENTRY!r}, which is reserved",
                found=f"{name!r:.120}",
            )


def _split_header(header: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Take large entries, such as lexicons, out of a header; each becomes an array of its JSON."""
    small, large = {}, {}
    for key, value in header.items():
        text = _dumps(value).encode("utf-8") if isinstance(value, dict | list | str) else b""
        if len(text) < LARGE_ENTRY or not _NAME.fullmatch(_ENTRY + key):
            small[key] = value
            continue
        if len(text) > ENTRY_LIMIT:
            raise ParameterError(
                parameter=f"header[{key!r}]",
                expected=f"at most {ENTRY_LIMIT} bytes of JSON",
                found=f"{len(text)} bytes",
            )
        large[_ENTRY + key] = np.frombuffer(text, np.uint8)
    return small, large


def _check_json(value: object, where: str, depth: int) -> None:
    """Raise ParameterError, with the place, unless JSON stores the value unchanged."""

    def fail(expected: str, found: str) -> NoReturn:
        raise ParameterError(parameter=f"{where:.200}", expected=expected, found=found)

    if isinstance(value, dict | list | tuple) and depth >= DEPTH_LIMIT:
        fail(f"nested at most {DEPTH_LIMIT} deep", "a deeper value")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                fail("a dict with keys of type str", f"the key {key!r:.60}")
            _check_json(item, f"{where}[{key!r:.60}]", depth + 1)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _check_json(item, f"{where}[{i}]", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        fail("a finite number, for JSON", str(value))
    elif isinstance(value, int) and abs(value) >= 10**DIGITS_LIMIT:
        fail(f"an integer of at most {DIGITS_LIMIT} digits", "a longer one")
    elif not isinstance(value, str | int | float | None):
        kind = type(value).__name__
        fail("JSON: dict, list, str, int, float, bool or None", f"{value!r:.60}, of type {kind}")


def _dumps(value: object) -> str:
    """Serialise, in UTF-8 where possible: a lone surrogate can only be written as an escape."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if re.search("[\ud800-\udfff]", text):
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


def _storable(name: str, array: Array) -> Array:
    """Return the array as it lies in the file: contiguous, little-endian."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "__metadata__":
        raise ParameterError(
            parameter="arrays",
            expected="named by at most 100 letters, digits, '_', '.' and '-'",
            found=f"the name {name!r:.120}",
        )
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("<")
    codes = _codes()
    if dtype not in codes:
        raise ParameterError(
            parameter=f"arrays[{name!r}]",
            expected=f"of type {', '.join(sorted(str(dtype) for dtype in codes))}",
            found=str(array.dtype),
        )
    if array.ndim > DIMENSION_LIMIT:
        raise ParameterError(
            parameter=f"arrays[{name!r}]",
            expected=f"of at most {DIMENSION_LIMIT} dimensions",
            found=f"{array.ndim} dimensions",
        )
    return np.ascontiguousarray(array, dtype).reshape(array.shape)  # 0-d stays 0-d


def _codes() -> dict[np.dtype[Any], str]:
    return {np.dtype(name): code for code, name in DTYPES.items()}


def _raw(array: Array) -> Buffer:
    return array.reshape(-1).view(np.uint8).data


def _replace(path: str, parts: Iterable[Buffer]) -> None:
    """Replace a file atomically; the old one stays until the new one is complete."""
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or device is written to
        with open(path, "wb") as file:
            file.writelines(parts)
        return
    from tagloom.storage.replacing import replacing  # imported here for a fast start

    with replacing(path) as new:
        new.writelines(parts)


# Reading


class _Reader:
    """A file in memory, or mapped, that is not trusted."""

    def __init__(self, data: bytes | mmap.mmap, name: str) -> None:
        self.data, self.name, self.version = data, name, 0

    def read(self, verify: bool | None) -> tuple[dict[str, Any], StoredArrays]:
        outer, data_begin = self._outer()
        metadata = outer.pop("__metadata__")
        if (
            type(metadata) is not dict
            or metadata.keys() != {"format", "version", "crc32", "checked", "unchecked", "header"}
            or not all(type(value) is str for value in metadata.values())
        ):
            self._refuse(f"__metadata__ is not as specified: {_show(metadata)}")
        arrays = self._entries(outer, data_begin)
        checked = self._sums(metadata["checked"], "checked")
        unchecked = self._sums(metadata["unchecked"], "unchecked")
        if len(checked) + len(unchecked) != len(arrays) or (
            checked.keys() | unchecked.keys() != arrays.keys()
        ):
            self._refuse("the checksums do not match its arrays one to one")
        header = self._parse(metadata["header"], "the header")
        large = [name for name in arrays if name.startswith(_ENTRY) and self.version > 1]
        if not checked.keys() >= {*large}:
            self._refuse("an entry of the header has no verified checksum")
        if verify or (verify is None and len(self.data) <= VERIFIED_WHOLE):
            checked |= unchecked
        for name, expected in checked.items():
            found = f"{zlib.crc32(arrays[name].data):08x}"
            if found != expected:
                self._refuse(f"array {name!r} has the checksum {found}, expected {expected}")
        for name in large:
            key = name.removeprefix(_ENTRY)
            if key in header:
                self._refuse(f"the header has the entry {key!r} twice")
            header[key] = self._large_entry(name, arrays.pop(name))
        return header, StoredArrays(arrays)

    def _large_entry(self, name: str, array: Stored) -> Any:
        """Parse an entry of the header that is an array; the file length limits its memory."""
        if array.code != "U8" or len(array.shape) != 1 or array.data.nbytes > ENTRY_LIMIT:
            self._refuse(f"array {name!r} is not JSON: {array.array.dtype} {array.shape}")
        try:
            text = array.data.tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            self._refuse(f"array {name!r} is not UTF-8 at byte {error.start}")
        return self._parse_value(text, f"array {name!r}")

    def _outer(self) -> tuple[dict[str, Any], int]:
        """Parse the JSON that describes the file; return it and the byte where arrays begin."""
        data, size = self.data, len(self.data)
        if not size:
            self._refuse("the file is empty")
        n = int.from_bytes(data[:8], "little")
        is_length = n <= HEADER_LIMIT and (8 + n) % ALIGNMENT == 0
        magic = data[8 : 8 + len(_MAGIC)]
        # A file of at most 8 bytes has only the length, or is something else: a line of text.
        if not _MAGIC.startswith(magic) or not (magic or is_length):
            self._refuse_foreign()
        start = _START.match(data[8:128])
        if start is None:
            if size >= 128:
                self._refuse(f"its header begins with {_show(data[8:128])}")
            self._refuse_cut("its header ends after byte 128")
        self.version = version = int(start[1])
        if version > VERSION:
            raise ModelFileError(
                f"format version {version}; this tagloom reads up to version {VERSION}.",
                where=self.name,
                expected=f"a format version of at most {VERSION}",
                found=str(version),
                hint="Update it: pip install --upgrade tagloom",
            )
        if not is_length:
            self._refuse(
                f"its header claims {n} bytes; expected at most {HEADER_LIMIT}, and with "
                f"8 more a multiple of {ALIGNMENT}"
            )
        if 8 + n > size:
            self._refuse_cut(f"its header ends at byte {8 + n}")
        at = 8 + start.start(2)
        found = zlib.crc32(data[at + 8 : 8 + n], zlib.crc32(_NO_SUM, zlib.crc32(data[:at])))
        if f"{found:08x}".encode() != start[2]:
            self._refuse(f"its header has the checksum {found:08x}, expected {start[2].decode()}")
        try:
            text = data[8 : 8 + n].decode("utf-8")
        except UnicodeDecodeError as error:
            self._refuse(f"its header is not UTF-8 at byte {8 + error.start}")
        return self._parse(text, "the description of the file"), 8 + n

    def _entries(self, outer: dict[str, Any], data_begin: int) -> dict[str, Stored]:
        """Check that the arrays follow each other from ``data_begin`` to the end of the file."""
        entries = {}
        end, whole = data_begin, memoryview(self.data)
        for name, entry in outer.items():
            if not _NAME.fullmatch(name):
                self._refuse(f"{_show(name)} cannot name an array")
            if type(entry) is not dict or entry.keys() != {"dtype", "shape", "data_offsets"}:
                self._refuse(f"array {name!r} is described by {_show(entry)}")
            code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
            if type(code) is not str or code not in DTYPES:
                self._refuse(f"array {name!r} has dtype {_show(code)}; known are {[*DTYPES]}")
            if not _are_sizes(shape) or len(shape) > DIMENSION_LIMIT:
                self._refuse(f"array {name!r} has shape {_show(shape)}")
            if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
                self._refuse(f"array {name!r} has data_offsets {_show(offsets)}")
            if data_begin + offsets[0] != end:
                self._refuse(
                    f"array {name!r} begins at {offsets[0]}, not where the one before it ends, "
                    f"{end - data_begin}"
                )
            begin, end = end, data_begin + offsets[1]
            itemsize = int(DTYPES[code][-1])
            if math.prod(shape) * itemsize != end - begin:
                self._refuse(
                    f"array {name!r} has {end - begin} bytes, not the size of {code} of shape "
                    f"{_show(shape)}"
                )
            # If one dimension is 0 the others may be any number; NumPy limits their product.
            if math.prod(d or 1 for d in shape) * itemsize >= 1 << 62:
                self._refuse(f"array {name!r} has shape {_show(shape)}")
            if begin % itemsize:
                self._refuse(f"array {name!r} of {code} begins at byte {begin} and is not aligned")
            entries[name] = Stored(code, tuple(shape), whole[begin:end])
        if end > len(self.data):
            self._refuse_cut(f"its arrays end at byte {end}")
        if end < len(self.data):
            self._refuse(f"{len(self.data) - end} bytes follow the last array")
        for name, entry in entries.items():
            wrong = entry.data.tobytes().strip(b"\0\1") if entry.code == "BOOL" else b""
            if wrong:
                self._refuse(f"array {name!r} of BOOL has a byte {wrong[0]}; expected 0 and 1")
        return entries

    def _sums(self, text: str, what: str) -> dict[str, str]:
        sums = self._parse(text, f"the list of {what} arrays")
        for name, value in sums.items():
            if type(value) is not str or not re.fullmatch("[0-9a-f]{8}", value):
                self._refuse(f"array {_show(name)} has the checksum {_show(value)}")
        return sums

    def _parse(self, text: str, what: str) -> dict[str, Any]:
        value = self._parse_value(text, what)
        if type(value) is not dict:
            self._refuse(f"{what} is not a JSON object: {_show(value)}")
        return value

    def _parse_value(self, text: str, what: str) -> Any:
        """Parse JSON, more strictly than Python does."""
        if _depth(text) > DEPTH_LIMIT:
            self._refuse(f"{what} is nested more than {DEPTH_LIMIT} deep")
        try:
            return json.loads(
                text,
                object_pairs_hook=_object,
                parse_int=_parse_int,
                parse_float=_parse_float,
                parse_constant=_parse_constant,
            )
        except ValueError as error:
            self._refuse(f"{what} is not JSON ({error})")

    def _refuse(self, found: str) -> NoReturn:
        raise ModelFileError(
            f"damaged: {found}.", where=self.name, found=found, hint=_AGAIN
        ) from None

    def _refuse_cut(self, end: str) -> NoReturn:
        size = f"{len(self.data)} bytes"
        message = f"cut short: {end}, but the file has {size}."
        raise ModelFileError(message, where=self.name, expected=end, found=size, hint=_AGAIN)

    def _refuse_foreign(self) -> NoReturn:
        head = self.data[:64]
        guess = next((text for magic, text in _FOREIGN.items() if head.startswith(magic)), None)
        if guess is None and head[8:9] == b"{":
            guess = "perhaps a safetensors file of another program"
        raise ModelFileError(
            where=self.name,
            expected="a tagloom model, written by save()",
            found=f"a file that begins with {head[:9]!r}" + (f" ({guess})" if guess else ""),
        )


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist = 3, 3, 8
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def _show(value: object) -> str:
    """Return the repr of a value, cut if it is long; the rest is not traversed."""
    return _SHORT.repr(value)


def _are_sizes(values: object) -> bool:
    """Whether it is a list of integers of at least 0; bool does not count as an integer."""
    return type(values) is list and all(type(x) is int and x >= 0 for x in values)


# A string; or the rest of the text if a string is not closed, so that the search is linear.
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


def _depth(text: str) -> int:
    """Return how deep lists and objects are nested, without recursion."""
    brackets = re.sub(r"[^\[\]{}]+", "", _STRING.sub("", text)).encode("ascii")
    # Bit 1 is set in the codes of both opening brackets and of no closing one.
    if len(brackets) < 10_000:  # as in nearly all files; a loop then takes less than an import
        return max(itertools.accumulate((c & 2) - 1 for c in brackets), default=0)
    steps = (np.frombuffer(brackets, np.int8) & 2) - 1
    return int(steps.cumsum(dtype=np.int32).max(initial=0))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for twice, _ in pairs:
            if twice in seen:
                break
            seen.add(twice)
        raise ValueError(f"the key {_show(twice)} occurs twice")
    return value


def _parse_int(text: str) -> int:
    if len(text) > DIGITS_LIMIT + 1:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text:.40} is not a finite number")
    return value


def _parse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")
