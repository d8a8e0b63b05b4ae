"""Lists of strings as one array of bytes, compressed: names of attributes, entries of lexicons.

::

    count  size  zlib( UTF-8 0xFF UTF-8 0xFF … )
    8      8     size bytes when decompressed

The byte 0xFF never occurs in UTF-8, so it ends a string without lengths or escapes, which would
take 9 % more space for attribute names. Both numbers are checked before memory is allocated, so a
few bytes cannot unpack to more than the caller allows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from tagloom.errors import ModelFileError, ParameterError
from tagloom.numeric import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIMIT = 1 << 30  # bytes
_END = 0xFF
_RATIO = 1040  # deflate turns one byte into at most 1032
_OBJECT = 64  # bytes of a short str beyond its text
_OFFSET = 16  # bytes of an offset, and of the arrays that compute it
# Level 4 takes half the time of the default 6; attribute names become 2 % larger.
_LEVEL, _HEADER = 4, b"\x78\x5e"  # the header of a zlib stream of that level
_PIECE = 1 << 19  # bytes compressed at a time
_WINDOW = 1 << 15  # bytes that deflate looks back


def pack_strings(strings: Iterable[str]) -> NDArray[np.uint8]:
    """Pack strings into one compressed array, for `write`.

    Parameters
    ----------
    strings : iterable of str
        Any str: empty, with line ends, even with lone surrogates.

    Returns
    -------
    ndarray of uint8

    Examples
    --------
    >>> from tagloom import storage
    >>> packed = storage.pack_strings(["word=the", "", "word=fin de siècle"])
    >>> storage.unpack_strings(packed)
    ['word=the', '', 'word=fin de siècle']
    """
    parts = [string.encode("utf-8", "surrogatepass") for string in strings]
    return _pack(len(parts), b"\xff".join([*parts, b""]))


def unpack_strings(
    packed: NDArray[np.uint8],
    *,
    count: int | None = None,
    limit: int = LIMIT,
    where: str = "packed strings",
) -> list[str]:
    """Unpack the result of `pack_strings` or `pack_bytes`.

    Parameters
    ----------
    packed : ndarray of uint8
    count : int, optional
        The expected number of strings.
    limit : int
        The largest memory of the strings in bytes: their UTF-8, plus 64 for each.
    where : str
        The name in errors, such as ``"pos.tagloom: names"``.

    Returns
    -------
    list of str

    Raises
    ------
    ModelFileError
        If the array is damaged, has another number of strings, or exceeds the limit.

    Examples
    --------
    >>> from tagloom import storage
    >>> storage.unpack_strings(storage.pack_strings(["a", "b"]), count=3, where="names")
    Traceback (most recent call last):
    ...
    tagloom.errors.ModelFileError: names: holds 2 strings, expected 3. Copy or save the model again.
    """
    data = _unpack(packed, count, limit, _OBJECT, where)
    try:
        return [part.decode("utf-8", "surrogatepass") for part in data.split(b"\xff")[:-1]]
    except UnicodeDecodeError as error:
        _refuse(where, f"a string is not UTF-8 ({error.reason})")


def pack_bytes(text: bytes, offsets: NDArray[np.int64], *, n_threads: int = 1) -> NDArray[np.uint8]:
    """Pack strings that are already UTF-8, one after another.

    Parameters
    ----------
    text : bytes
        UTF-8.
    offsets : ndarray of int64, shape (n + 1,)
        String i is ``text[offsets[i]:offsets[i + 1]]``.
    n_threads : int
        Number of threads; the bytes do not depend on it.

    Returns
    -------
    ndarray of uint8

    Raises
    ------
    ParameterError
        If the offsets do not rise from 0 to the end of the text, or the text is not UTF-8.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom import storage
    >>> packed = storage.pack_bytes(b"word=theword=a", np.array([0, 8, 14]))
    >>> storage.unpack_strings(packed)
    ['word=the', 'word=a']
    """
    offsets = np.asarray(offsets, np.int64)
    if (
        offsets.ndim != 1
        or not offsets.size
        or offsets[0] != 0
        or offsets[-1] != len(text)
        or (np.diff(offsets) < 0).any()
    ):
        raise ParameterError(
            f"offsets must rise from 0 to {len(text)}, the length of the text; "
            f"got {np.array2string(offsets, threshold=8)}."
        )
    raw = np.frombuffer(text, np.uint8)
    if (raw == _END).any():
        raise ParameterError("the text has a byte 0xFF, so it is not UTF-8.")
    n = offsets.size - 1
    data = np.full(len(text) + n, _END, np.uint8)
    is_text = np.ones(data.size, np.bool_)
    is_text[offsets[1:] + np.arange(n)] = False
    data[is_text] = raw
    return _pack(n, data.tobytes(), n_threads)


def unpack_bytes(
    packed: NDArray[np.uint8],
    *,
    count: int | None = None,
    limit: int = LIMIT,
    where: str = "packed strings",
) -> tuple[bytes, NDArray[np.int64]]:
    """Unpack to text and offsets, without an object for each string.

    Parameters
    ----------
    packed, count, limit, where
        As for `unpack_strings`, except that a string counts as its length plus 16 bytes, and that
        UTF-8 is not checked.

    Returns
    -------
    text : bytes
    offsets : ndarray of int64, shape (n + 1,)
        String i is ``text[offsets[i]:offsets[i + 1]]``.

    Raises
    ------
    ModelFileError
        As for `unpack_strings`.

    Examples
    --------
    >>> from tagloom import storage
    >>> text, offsets = storage.unpack_bytes(storage.pack_strings(["un", "deux"]))
    >>> text, offsets.tolist()
    (b'undeux', [0, 2, 6])
    """
    data = np.frombuffer(_unpack(packed, count, limit, _OFFSET, where), np.uint8)
    ends = np.flatnonzero(data == _END)
    offsets = np.zeros(ends.size + 1, np.int64)
    offsets[1:] = ends - np.arange(ends.size)
    return data[data != _END].tobytes(), offsets


def _pack(count: int, data: bytes, n_threads: int = 1) -> NDArray[np.uint8]:
    numbers = count.to_bytes(8, "little") + len(data).to_bytes(8, "little")
    return np.frombuffer(numbers + _compress(data, n_threads), np.uint8)


def _compress(data: bytes, n_threads: int) -> bytes:
    """Make a zlib stream in pieces, on several threads; zlib releases the GIL.

    Each piece may refer to the end of the previous one, so the pieces add only a few bytes.
    """
    from threading import Thread  # here, for a quick start

    starts = range(0, len(data) or 1, _PIECE)
    left = iter(starts)
    pieces: dict[int, bytes] = {}
    errors: list[BaseException] = []

    def compress(at: int) -> bytes:
        before = data[max(at - _WINDOW, 0) : at]
        stream = zlib.compressobj(_LEVEL, wbits=-15, zdict=before)  # -: without header and sum
        end = zlib.Z_FINISH if at == starts[-1] else zlib.Z_SYNC_FLUSH
        return stream.compress(data[at : at + _PIECE]) + stream.flush(end)

    def work() -> None:
        try:
            for at in left:
                pieces[at] = compress(at)
        except BaseException as error:  # raised below, in the calling thread
            errors.append(error)

    # Not concurrent.futures: importing it takes as long as the threads save.
    threads: list[Thread] = []
    try:
        while len(threads) + 1 < min(n_threads, len(starts)):
            thread = Thread(target=work)
            thread.start()
            threads.append(thread)
    except RuntimeError:  # no more threads: continue with those that run
        pass
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    checksum = zlib.adler32(data).to_bytes(4, "big")
    return b"".join([_HEADER, *(pieces[at] for at in starts), checksum])


def _unpack(
    packed: NDArray[Any], count: int | None, limit: int, per_string: int, where: str
) -> bytes:
    """Return the strings, each ended by 0xFF; everything except UTF-8 is checked."""
    if packed.dtype != np.uint8 or packed.ndim != 1 or packed.size < 16:
        _refuse(
            where,
            f"expected one dimension of at least 16 bytes, found {packed.dtype} {packed.shape}",
        )
    data = packed.tobytes()
    n, size = int.from_bytes(data[:8], "little"), int.from_bytes(data[8:16], "little")
    if count is not None and n != count:
        _refuse(where, f"holds {n} strings, expected {count}")
    if n > size or size > _RATIO * len(data):
        _refuse(where, f"claims to unpack to {n} strings of {size} bytes, from {len(data)}")
    if size + per_string * n > limit:
        raise ModelFileError(
            f"{where}: unpacks to {n} strings of {size} bytes, which takes more than the limit of "
            f"{limit}. If the file is what you expect, pass a larger limit."
        )
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(data[16:], size + 1)
    except zlib.error as error:
        _refuse(where, f"cannot be decompressed ({error})")
    if len(text) != size or not stream.eof or stream.unused_data:
        _refuse(where, f"does not decompress to the {size} bytes that it claims")
    if text.count(b"\xff") != n or text[-1:] not in (b"\xff", b""):
        _refuse(where, f"does not hold the {n} strings that it claims")
    return text


def _refuse(where: str, found: str) -> NoReturn:
    hint = "Copy or save the model again."
    raise ModelFileError(f"{found}.", where=where, found=found, hint=hint) from None
