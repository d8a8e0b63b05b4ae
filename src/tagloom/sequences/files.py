"""Bytes in and bytes out: plain or compressed, a path, ``-`` or an open file.

The readers and writers above this file always see UTF-8 without a byte order mark.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from functools import partial
from typing import IO, Any, TypeAlias

from tagloom import checks
from tagloom._native import first_bad_byte
from tagloom.errors import FormatError, MissingExtraError, about_file

Source: TypeAlias = str | os.PathLike[str] | IO[Any]
#: What changes when a file is replaced or rewritten: inode, size and time of the last change.
Stamp: TypeAlias = tuple[int, int, int]

BOM = codecs.BOM_UTF8
# Large enough to be fast, small enough that a stream needs little memory.
CHUNK = 1 << 17
SAMPLE = 1 << 16  # bytes from which the format is guessed
# Bytes of one sentence. It is held in memory, and tagging it takes 5 times as many bytes if it is
# one long word, 90 times if its words have two letters. A longer one means the wrong format, a
# file without line ends, or a decompression bomb.
SENTENCE_LIMIT = 128_000_000
LINE_LIMIT = 1_000_000  # bytes of a template or a phrase

_COMPRESSIONS = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
# Errors that only writing raises.
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
# First bytes of text that is not UTF-8, and the encoding to pass; longer marks first.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def split_suffix(path: str) -> tuple[str, str | None]:
    """Split ``train.conllu.gz`` into ``.conllu`` and the name of the compression."""
    stem, suffix = os.path.splitext(path)
    compression = _COMPRESSIONS.get(suffix.lower())
    if compression:
        suffix = os.path.splitext(stem)[1]
    return suffix.lower(), compression


class Input:
    """A file open for reading, as UTF-8 bytes.

    Parameters
    ----------
    source : path, "-" for stdin, or an open file
        Compression is recognised by the first bytes, not by the name.
    encoding : str
        Encoding of the file.
    """

    def __init__(self, source: Source, encoding: str = "utf-8") -> None:
        self._owned = False
        self.stamp: Stamp | None = None  # of a file that was opened by its name
        file: IO[Any]
        if not isinstance(source, str | os.PathLike):
            if not hasattr(source, "read"):
                raise FormatError(
                    parameter="path",
                    expected='a path, "-" or an open file',
                    found=checks.show_type(source),
                )
            self.name, file = str(getattr(source, "name", "<file>")), source
        elif os.fspath(source) == "-":
            self.name, file = "<stdin>", getattr(sys.stdin, "buffer", sys.stdin)
        else:
            self.name = os.fspath(source)
            file, self._owned = open(source, "rb"), True  # noqa: SIM115 closed by close()
            self.stamp = stamp_of(file.fileno())
        self._file = file
        is_text = isinstance(file, io.TextIOBase)
        self._ahead = b""
        try:
            self.encoding = "utf-8" if is_text else _codec_name(encoding)
            # No more bytes than needed: at a terminal, the first line must get an answer.
            head = _start(self._raw, tuple(_MAGIC))
            self._is_compressed = head.startswith(tuple(_MAGIC))
            self._reader = _decompressed(_Prefixed(head, self._raw), head, self.name)
            self._pending = _start(self._decompress, (BOM, *_MARKS))
            self.has_bom = self._pending.startswith(BOM) and self.encoding == "utf-8"
            if self.has_bom:
                self._pending = self._pending[len(BOM) :]
            elif self.encoding == "utf-8":
                for mark, actual in _MARKS.items():
                    if self._pending.startswith(mark):
                        raise FormatError(
                            path=self.name,
                            line=1,
                            expected="UTF-8",
                            found=f"the byte order mark of {actual.upper()}",
                            hint="Pass {encoding}.",
                            options={"encoding": actual},
                        )
        except BaseException:
            self.close()
            raise
        self.start = len(BOM) if self.has_bom else 0  # offset of the first byte that is read
        self._decoder = (
            None if self.encoding == "utf-8" else codecs.getincrementaldecoder(self.encoding)()
        )
        self._decoded = 0  # bytes passed to the decoder

    @property
    def is_live(self) -> bool:
        """Whether it is a terminal or a pipe, whose other end may be waiting for output."""
        try:
            return not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
        except (AttributeError, OSError, ValueError):  # an object without a file descriptor
            return False

    @property
    def plain_path(self) -> str | None:
        """Path of a file on disk that is not compressed; None for all other inputs."""
        is_plain = self.stamp is not None and not self._is_compressed and not self.is_live
        return self.name if is_plain else None

    def has_more(self, seconds: float) -> bool:
        """Return whether bytes or the end arrive within some seconds; False if that is unknown.

        Call it after a `peek` that read all that was there.
        """
        import select  # imported here for a fast start

        try:
            return bool(select.select([self._file.fileno()], [], [], seconds)[0])
        except (AttributeError, OSError, ValueError):  # no descriptor, or a pipe of Windows
            return False

    def _raw(self, size: int) -> bytes:
        """Read up to ``size`` available bytes; text is encoded as UTF-8."""
        data = getattr(self._file, "read1", self._file.read)(size)
        if isinstance(data, str):
            return data.encode("utf-8", "surrogatepass")
        return data or b""

    def _decompress(self, size: int) -> bytes:
        try:
            data: bytes = self._reader(size)
            return data
        except _damages() as error:
            raise FormatError(
                f"the compressed data is damaged or truncated: {error}.",
                path=self.name,
                hint="Fetch the file again.",
            ) from error

    def read(self, size: int = CHUNK) -> bytes:
        """Read up to about ``size`` available bytes of UTF-8; ``b""`` at the end."""
        if self._ahead:
            data, self._ahead = self._ahead, b""
            return data
        while True:
            data, self._pending = self._pending or self._decompress(size), b""
            if self._decoder is None:
                return data
            try:
                text = self._decoder.decode(data, not data)
            except UnicodeError as error:
                raise FormatError(
                    path=self.name,
                    expected=f"text in {self.encoding}",
                    found=f"other bytes after byte {self._decoded} ({error})",
                    hint="Pass the encoding of the file as {encoding}.",
                    options={"encoding": ...},
                ) from None
            self._decoded += len(data)
            if text or not data:
                return text.encode("utf-8", "surrogatepass")

    def peek(self, size: int) -> tuple[bytes, bool]:
        """Return the next ``size`` bytes or more without consuming them.

        Returns
        -------
        data : bytes
        is_all : bool
            Whether the file ends after them.
        """
        parts = [self._ahead]
        self._ahead, n, more = b"", len(parts[0]), b"x"
        while n < size and more:
            more = self.read(max(size - n, CHUNK))
            parts.append(more)
            n += len(more)
        self._ahead = b"".join(parts)
        return self._ahead, not more

    def lines(self) -> Iterator[list[tuple[int, bytes]]]:
        """Yield line numbers, counted from 1, and lines with their line ends, as they arrive."""
        line, offset, parts, size = 0, self.start, [b""], 0
        while True:
            data = self.read()
            if data and b"\n" not in data:  # do not search a very long line again and again
                parts.append(data)
                size += len(data)
                check_size(size, self.name, line + 1, "a line end")
                continue
            text = b"".join([*parts, data])
            end = text.rfind(b"\n") + 1 if data else len(text)
            whole = text[:end]
            batch: list[tuple[int, bytes]] = []
            is_bad = first_bad_byte(whole) < end
            for raw in whole.split(b"\n"):
                line += 1
                if is_bad and first_bad_byte(raw) < len(raw):
                    yield batch  # the lines before the bad one
                    check_bytes(raw, self.name, line, offset)
                offset += len(raw) + 1
                batch.append((line, raw + b"\n"))
            # What follows the last line end is a last line without one, or empty.
            line, raw = batch.pop()
            offset -= len(raw)
            if len(raw) > 1:
                batch.append((line, raw[:-1]))
            yield batch
            if not data:
                return
            line -= 1
            parts = [text[end:]]
            size = len(parts[0])

    def close(self) -> None:
        """Close the file if it was opened here."""
        if self._owned:
            self._file.close()


def sample_lines(file: Input, size: int = 1) -> list[str]:
    """Return the first complete lines of a file, with at least one row of data if it has any.

    It waits for no more than ``size`` bytes: at a terminal, one row is enough.
    """
    while True:
        data, is_all = file.peek(size)
        # A JSON array may be one long line, and its start is enough.
        is_whole = is_all or (
            len(data) >= SAMPLE and data.lstrip()[:1] == b"[" and b"\n" not in data
        )
        whole = data if is_whole else data[: data.rfind(b"\n") + 1]
        lines = whole.decode("utf-8", "replace").removesuffix("\n").split("\n")
        if is_whole or any(x.strip() and not x.startswith("# ") for x in lines):
            return lines if whole else []
        check_size(len(data), file.name, whole.count(b"\n") + 1, "a line end")
        size = max(2 * size, len(data) + 1)


def check_size(size: int, name: str, line: int, end: str) -> None:
    """Raise FormatError if a sentence is longer than ``SENTENCE_LIMIT``.

    Parameters
    ----------
    size : int
        Bytes of the sentence read so far.
    name : str
        Name of the file.
    line : int
        First line of the sentence.
    end : str
        What must follow a sentence, for the message.
    """
    if size > SENTENCE_LIMIT:
        raise FormatError(
            path=name,
            line=line,
            expected=f"{end} after each sentence",
            found=f"a sentence of more than {SENTENCE_LIMIT / 1e6:,.0f} MB",
            hint="Is this the right file and format? If so, split it.",
        )


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """Read the lines of a UTF-8 file of templates, words or phrases, without line ends.

    Raises
    ------
    FormatError
        If it is not UTF-8, or a line is longer than ``LINE_LIMIT``.
    """
    with open(path, "rb") as file:
        lines = file.read().removeprefix(BOM).split(b"\n")
    for number, line in enumerate(lines, 1):
        bad = first_bad_byte(line)
        if bad < len(line):
            raise FormatError(
                path=os.fspath(path),
                line=number,
                expected="text in UTF-8",
                found=f"byte 0x{line[bad]:02X}",
                hint="Save the file as text in UTF-8.",
            )
        if len(line) > LINE_LIMIT:
            raise FormatError(
                path=os.fspath(path),
                line=number,
                expected=f"a line of at most {LINE_LIMIT:,} bytes",
                found=f"one of {len(line):,}",
                hint="Is it the right file?",
            )
    return [line.decode("utf-8").removesuffix("\r") for line in lines]


def check_bytes(raw: bytes, name: str, line: int, offset: int) -> None:
    """Raise FormatError for the first byte that is NUL or not UTF-8."""
    bad = first_bad_byte(raw)
    if bad < len(raw):
        raise bad_byte_error(raw[bad], name, line, offset + bad)


def check_first_lines(file: Input) -> None:
    """Raise FormatError if the lines that have arrived are text in another encoding than UTF-8."""
    data, is_all = file.peek(1)
    whole = data if is_all else data[: data.rfind(b"\n") + 1]
    if b"\0" in data:  # not text
        return
    offset = file.start
    for line, raw in enumerate(whole.split(b"\n"), 1):
        check_bytes(raw, file.name, line, offset)
        offset += len(raw) + 1


def bad_byte_error(byte: int, name: str, line: int, offset: int) -> FormatError:
    """Return the error for a byte that cannot occur in a text file."""
    # In latin-1, 0x80 to 0x9F are control characters; on Windows they are quotes and dashes.
    other = "utf-16" if byte == 0 else "cp1252" if byte < 0xA0 else "latin-1"
    names = other if byte == 0 else f"{other}, shift_jis, euc-jp or gbk"
    return FormatError(
        path=name,
        line=line,
        expected="text in UTF-8",
        found=f"byte 0x{byte:02X} at offset {offset}",
        hint=f"If the file is in another encoding, such as {names}, pass it, as in {{encoding}}.",
        options={"encoding": other},
    )


def _codec_name(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise FormatError(
            parameter="encoding",
            expected="an encoding such as utf-8, latin-1 or utf-16",
            found=repr(encoding),
        ) from None
    return "utf-8" if name == "utf-8-sig" else name


def _start(read: Any, marks: tuple[bytes, ...]) -> bytes:
    """Read the first bytes, until at most one of the marks is possible."""
    head = more = read(1)
    while more and any(mark.startswith(head) and mark != head for mark in marks):
        more = read(1)
        head += more
    return bytes(head)


class _Prefixed(io.RawIOBase):
    """Input of the decompressors: the bytes already read, then the rest of the file."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head[: len(buffer)] or self._rest(len(buffer))
        self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)


def _decompressed(file: _Prefixed, head: bytes, name: str) -> Any:
    """Return a function ``read(size)`` for the compression that the first bytes indicate."""
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    buffered = io.BufferedReader(file, CHUNK)
    if kind == "gzip":
        import gzip

        return gzip.GzipFile(fileobj=buffered).read1
    if kind == "xz":
        import lzma

        return lzma.LZMAFile(buffered).read1
    if kind == "zstd":
        return _ZstdReader(buffered, name).read
    return buffered.read1


# The decompressors are imported where they are used: together they take half as long as NumPy.


def _damages() -> tuple[type[Exception], ...]:
    """Return the exceptions that the decompressors raise for damaged data."""
    import gzip
    import lzma
    import zlib

    return (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


class _ZstdReader:
    """Reads consecutive zstd frames and, unlike the package's reader, detects a truncated file."""

    def __init__(self, file: io.BufferedReader[_Prefixed], name: str) -> None:
        self._zstd = _import_zstandard(name)
        self._file, self._left = file, b""
        self._frame: Any = None

    def read(self, size: int) -> bytes:
        while True:
            data = self._left or self._file.read1(min(size, CHUNK))
            self._left = b""
            if not data:
                if self._frame is not None:
                    raise EOFError("the last zstd frame is not complete")
                return b""
            if self._frame is None:
                self._frame = self._zstd.ZstdDecompressor().decompressobj()
            try:
                out: bytes = self._frame.decompress(data)
            except self._zstd.ZstdError as error:
                raise EOFError(str(error)) from error
            if self._frame.eof:
                self._left, self._frame = self._frame.unused_data, None
            if out:
                return out


def _import_zstandard(name: str) -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError(
            "zstd files need the package zstandard.",
            where=name,
            hint="Install it with: pip install 'tagloom[zstd]'",
        ) from None
    return zstandard


class Output:
    """A file open for writing, which takes UTF-8 bytes."""

    def __init__(self, file: Any, encoding: str, name: str, is_live: bool = False) -> None:
        self.name = name
        self._file, self._is_live = file, is_live
        self._encoding = _codec_name(encoding)
        self._encoder = codecs.getincrementalencoder(self._encoding)()
        self._has_begun = False

    def write(self, data: bytes) -> None:
        """Write UTF-8 bytes in the encoding of the file."""
        if self._encoding != "utf-8":
            if not self._has_begun:  # the encoder writes a byte order mark where required
                data = data.removeprefix(BOM)
            self._has_begun = True
            text = data.decode("utf-8")
            try:
                data = self._encoder.encode(text)
            except UnicodeEncodeError as error:
                raise FormatError(
                    path=self.name,
                    expected=f"a character of {self._encoding}",
                    found=repr(error.object[error.start]),
                    hint="Write with {encoding}.",
                    options={"encoding": "utf-8"},
                ) from None
        write_all(self._file, data)

    def flush(self) -> None:
        """Flush the file if someone may be waiting for it, as at a terminal."""
        if self._is_live:
            self._file.flush()


@contextlib.contextmanager
def open_output(
    target: Source, encoding: str = "utf-8", stamp: Stamp | None = None
) -> Iterator[Output]:
    """Open a file for writing; it appears under its name only when it is complete.

    The bytes go to a temporary file in the same folder, which is flushed and renamed at the end. So
    an error or a crash leaves the old file, and a file can be read as a stream while it is being
    rewritten.

    Parameters
    ----------
    target : path, "-" or open file
    encoding : str
    stamp : tuple, optional
        `stamp_of` the file when it was read. If it differs at the end, somebody else has written
        the file: FormatError is raised and that file stays.
    """
    if not isinstance(target, str | os.PathLike):
        name = str(getattr(target, "name", "<file>"))
        yield Output(_Text(target) if isinstance(target, io.TextIOBase) else target, encoding, name)
        return
    if os.fspath(target) == "-":
        stdout = getattr(sys.stdout, "buffer", None)
        with _naming("<stdout>"):
            yield Output(stdout or _Text(sys.stdout), encoding, "<stdout>", is_live=True)
            sys.stdout.flush()
        return
    from tagloom.storage.replacing import replacing

    name = os.fspath(target)
    compression = split_suffix(name)[1]
    if os.path.exists(name) and not os.path.isfile(name):  # a device or pipe cannot be replaced
        with (
            _naming(name),
            open(name, "wb") as plain,
            _compressed(plain, compression, name) as out,
        ):
            yield Output(out, encoding, name)
        return
    check = None if stamp is None else partial(_check_unchanged, name, stamp)
    with (
        _naming(name),
        replacing(name, check) as new,
        _compressed(new, compression, name) as out,
    ):
        yield Output(out, encoding, name)


def stamp_of(path: str | int) -> Stamp:
    """Return what identifies the contents of a file, by its name or descriptor."""
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


def _check_unchanged(name: str, stamp: Stamp) -> None:
    """Raise FormatError if somebody has changed a file since it had this stamp."""
    if not os.path.exists(name) or stamp_of(name) != stamp:
        raise FormatError(
            path=name,
            expected="the file as it was read",
            found="a file that was changed or removed since",
            hint="Read it again and repeat the edits, or write to another file.",
        )


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Add the file name to errors about a full disk, which lack it."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _NO_ROOM:
            raise about_file(error, name) from error
        raise


def _compressed(file: IO[bytes], compression: str | None, name: str) -> Any:
    if compression == "gzip":
        import gzip

        return gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0)
    if compression == "xz":
        import lzma

        return lzma.LZMAFile(file, "wb")
    if compression == "zstd":
        return _import_zstandard(name).ZstdCompressor().stream_writer(file, closefd=False)
    return contextlib.nullcontext(file)


def write_all(file: Any, data: bytes) -> None:
    """Write all bytes: a raw file, such as stdout under PYTHONUNBUFFERED, may take only some."""
    if not isinstance(file, io.RawIOBase):
        file.write(data)
        return
    rest = memoryview(data)
    while rest:
        n_written = file.write(rest)
        if n_written is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        rest = rest[n_written:]


class _Text:
    """Adapts a text file to take UTF-8 bytes."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        self._file.write(data.decode("utf-8"))

    def flush(self) -> None:
        self._file.flush()
