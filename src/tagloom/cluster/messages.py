"""Messages between a program and its workers: pickles over pipes, large arrays in shared memory.

Copying an array through a pipe costs ten times as much as copying it to memory that both processes
map. A `Box` is such memory: a file without a name, which disappears with the last process that has
it open. On systems that cannot pass open files to a new process, arrays go through the pipe.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

_LARGE = 1 << 15  # bytes; smaller buffers go through the pipe
_LENGTH = struct.Struct("<Q")
_ALIGN = 64

#: Whether open files can be passed to a new process.
HAS_BOXES = sys.platform != "win32"


class Pipe(Protocol):
    """An unbuffered binary file."""

    def read(self, size: int, /) -> bytes | None:
        """Read at most ``size`` bytes."""

    def write(self, data: Any, /) -> int | None:
        """Write some bytes and return their number."""

    def close(self) -> None:
        """Close the file."""


class Packed(NamedTuple):
    """An object as bytes, and the places of its large buffers in a box."""

    data: bytes
    spans: Sequence[tuple[int, int]]  # (offset, size) in the box


class Box:
    """Memory that two or more processes share; one of them writes.

    Parameters
    ----------
    handle : int, optional
        The open file; by default a new one.
    """

    def __init__(self, handle: int | None = None) -> None:
        if handle is None:
            if hasattr(os, "memfd_create"):
                handle = os.memfd_create("tagloom")
            else:
                with tempfile.TemporaryFile() as file:
                    handle = os.dup(file.fileno())
        self.handle = handle
        self._map: mmap.mmap | None = None
        self._size = 0

    def _view(self, size: int) -> memoryview:
        """Return the memory, at least ``size`` bytes of it."""
        if size > self._size:
            # Views that are still in use keep the old map alive.
            self._size = os.fstat(self.handle).st_size
            self._map = mmap.mmap(self.handle, self._size)
        assert self._map is not None
        return memoryview(self._map)

    def pack(self, value: Any) -> Packed:
        """Pickle a value; its large buffers replace the contents of the box."""
        buffers: list[pickle.PickleBuffer] = []

        def take(buffer: pickle.PickleBuffer) -> bool:
            is_small = buffer.raw().nbytes < _LARGE
            if not is_small:
                buffers.append(buffer)
            return is_small

        data = pickle.dumps(value, protocol=5, buffer_callback=take)
        spans, end = [], 0
        for buffer in buffers:
            spans.append((end, buffer.raw().nbytes))
            end += -(-buffer.raw().nbytes // _ALIGN) * _ALIGN
        if end > self._size:
            os.ftruncate(self.handle, end + end // 4)
        for (begin, size), buffer in zip(spans, buffers, strict=True):
            self._view(end)[begin : begin + size] = buffer.raw()
        return Packed(data, spans)

    def unpack(self, packed: Packed, *, copy: bool) -> Any:
        """Return the value; without a copy it is valid until the box is written again."""
        if not packed.spans:
            return pickle.loads(packed.data)
        view = self._view(max(begin + size for begin, size in packed.spans))
        parts: list[Any] = [view[begin : begin + size] for begin, size in packed.spans]
        buffers = [bytearray(part) if copy else part.toreadonly() for part in parts]
        return pickle.loads(packed.data, buffers=buffers)

    def close(self) -> None:
        """Close the file; memory that is still in use stays."""
        os.close(self.handle)


class NoBox:
    """Stands for a box where there is none: everything goes through the pipe."""

    handle = -1

    def pack(self, value: Any) -> Packed:
        """Pickle a value."""
        return Packed(pickle.dumps(value, protocol=5), ())

    def unpack(self, packed: Packed, *, copy: bool) -> Any:
        """Return the value."""
        return pickle.loads(packed.data)

    def close(self) -> None:
        """Do nothing."""


def make_box(handle: int | None = None) -> Box | NoBox:
    """Make a box, or open that of another process."""
    return Box(handle) if HAS_BOXES and handle != -1 else NoBox()


class Channel:
    """One end of the connection between a program and a worker.

    Parameters
    ----------
    reader, writer : unbuffered binary files
    inbox, outbox : Box
        For the large arrays of messages to this end, and from it.
    common : Box
        Where the program puts what all workers read.
    """

    def __init__(
        self,
        reader: Pipe,
        writer: Pipe,
        inbox: Box | NoBox,
        outbox: Box | NoBox,
        common: Box | NoBox,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._inbox, self._outbox, self._common = inbox, outbox, common

    @classmethod
    def of_worker(cls, reader: Pipe, writer: Pipe) -> Channel:
        """Return the end of a worker, whose boxes are arguments of its command."""
        return cls(reader, writer, *(make_box(int(handle)) for handle in sys.argv[1:4]))

    def send(self, message: Any) -> None:
        """Send a message.

        Raises
        ------
        OSError
            If the other end is closed.
        """
        frame = pickle.dumps(tuple(self._outbox.pack(message)), protocol=5)
        rest = memoryview(_LENGTH.pack(len(frame)) + frame)
        while rest:
            rest = rest[self._writer.write(rest) or 0 :]

    def receive(self) -> Any:
        """Wait for a message.

        Raises
        ------
        EOFError
            If the other end is closed.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return self._inbox.unpack(Packed(*pickle.loads(self._read(length))), copy=True)

    def _read(self, size: int) -> bytes:
        parts, missing = [], size
        while missing:
            part = self._reader.read(missing)
            if not part:
                raise EOFError
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def unpack(self, packed: Packed) -> Any:
        """Return what the program has put into the common box."""
        return self._common.unpack(packed, copy=False)

    def close(self) -> None:
        """Close this end; the common box stays open."""
        for end in (self._reader, self._writer, self._inbox, self._outbox):
            end.close()
