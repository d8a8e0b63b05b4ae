"""Private copies of files: memory that no other program can change while it is mapped.

A mapped file that is overwritten in place, as by ``cp``, changes under the program that maps it;
if it is shortened, the program ends by SIGBUS. A long-running program therefore maps a copy. On
Linux the copy is an anonymous file in memory, sealed against writing, which processes can share by
its descriptor; elsewhere it is a bytes object.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from typing import Self

from tagloom.errors import ModelFileError

_PIECE = 1 << 20


class Copy:
    """A copy of a file in private memory.

    Attributes
    ----------
    name : str
        The file that was copied, for errors.
    data : bytes or mmap
        Its contents; they stay valid when the copy is closed.
    descriptor : int or None
        The anonymous file, for `from_descriptor` in another process; None where there are none.

    Examples
    --------
    >>> import os, tempfile
    >>> from tagloom.storage import Copy
    >>> path = os.path.join(tempfile.mkdtemp(), "a")
    >>> with open(path, "wb") as file:
    ...     _ = file.write(b"before")
    >>> with Copy.of(path) as copy, open(path, "r+b") as file:
    ...     _ = file.write(b"after!"); file.truncate(3); bytes(copy.data)
    3
    b'before'
    """

    def __init__(self, name: str, data: bytes | mmap.mmap, descriptor: int | None = None) -> None:
        self.name = name
        self.data = data
        self.descriptor = descriptor

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Self:
        """Copy a file.

        Raises
        ------
        ModelFileError
            If it is not a regular file.
        OSError
            If it cannot be read.
        """
        name = os.fspath(path)
        with open(_regular(name), "rb", buffering=0) as file:
            if not hasattr(os, "memfd_create"):
                return cls(name, file.read())
            # The name is only shown in /proc.
            descriptor = os.memfd_create("tagloom", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            try:
                while piece := file.read(_PIECE):
                    view = memoryview(piece)
                    while view:
                        view = view[os.write(descriptor, view) :]
                _seal(descriptor)
                return cls.from_descriptor(descriptor, name)
            except BaseException:
                os.close(descriptor)
                raise

    @classmethod
    def from_descriptor(cls, descriptor: int, name: str) -> Self:
        """Map the copy that another process made.

        Parameters
        ----------
        descriptor : int
            Closed with this copy.
        name : str
        """
        size = os.fstat(descriptor).st_size  # an empty file cannot be mapped
        data = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) if size else b""
        return cls(name, data, descriptor)

    def digest(self) -> str:
        """Return the SHA-256 of the contents in hexadecimal digits, as ``sha256sum`` prints it."""
        from hashlib import sha256  # here, for a quick start

        return sha256(self.data).hexdigest()

    def close(self) -> None:
        """Close the descriptor; the data stay."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _regular(name: str) -> str:
    mode = os.stat(name).st_mode
    if not stat.S_ISREG(mode):
        found = "a folder" if stat.S_ISDIR(mode) else "a pipe or device"
        raise ModelFileError(where=name, expected="a model file", found=found)
    return name


def _seal(descriptor: int) -> None:
    """Forbid all changes of an anonymous file, also to ourselves."""
    import fcntl

    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    with contextlib.suppress(OSError):  # an old kernel: nobody else has the descriptor anyway
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
