"""Replace a file atomically and durably; the one way in which tagloom writes files.

The bytes go to a temporary file in the same folder, which is flushed to the disk and renamed. A
crash or a power cut leaves either the old file or the new one. A temporary file is locked while it
is being written, so the rest of a killed process can be told from one that is in use.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import IO

from tagloom.errors import about_file

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows, which cannot remove an open file anyway
    fcntl = None

_NEW = 10.0  # seconds after which an empty temporary file counts as abandoned


@contextlib.contextmanager
def replacing(path: str, before_rename: Callable[[], None] | None = None) -> Iterator[IO[bytes]]:
    """Open a file that takes the name ``path`` when the block ends without an error.

    A symbolic link stays one. The mode of an existing file is kept. The caller has checked that an
    existing ``path`` is a regular file.

    Parameters
    ----------
    path : str
    before_rename : callable, optional
        Called when the new file is complete; an error that it raises leaves the old file.

    Examples
    --------
    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with replacing(os.path.join(folder, "a.txt")) as file:
    ...     _ = file.write(b"complete")
    >>> os.listdir(folder)
    ['a.txt']
    """
    target = os.path.realpath(path)
    folder, base = os.path.split(target)
    part = os.path.join(folder, f".{base[:100]}.{os.urandom(8).hex()}.part")
    # Not tempfile, which always gives mode 600. The umask cannot be read without setting it.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(part, flags, 0o666)
    except OSError as error:
        raise about_file(error, path) from None
    try:
        with open(handle, "wb") as file:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.exists(target):  # before the first byte, which may be secret
                os.chmod(part, stat.S_IMODE(os.stat(target).st_mode))
            yield file
            file.flush()
            os.fsync(handle)
        if before_rename is not None:
            before_rename()
        os.replace(part, target)
    except BaseException:
        os.unlink(part)
        raise
    flush_folder(folder)


def flush_folder(folder: str) -> None:
    """Flush a folder, so that new names in it survive a power cut, where the system can do that."""
    if os.name == "posix":
        with contextlib.suppress(OSError):  # the file is in place already
            handle = os.open(folder or ".", os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def remove_abandoned(path: str) -> int:
    """Remove temporary files that a killed process left beside a file.

    Parameters
    ----------
    path : str
        The file that was to be written. Its own contents are not touched.

    Returns
    -------
    int
        Number of files removed. Those that a running process is writing stay.
    """
    import glob  # imported here: most programs that write files do not clean up

    if fcntl is None:
        return 0
    folder, base = os.path.split(os.path.realpath(path))
    removed = 0
    for part in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(base[:100])}.*.part")):
        try:
            handle = os.open(part, os.O_WRONLY)
        except OSError:  # renamed meanwhile, or of another user
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(handle)
            # A file is locked before its first byte, but not in the moment of its creation.
            if status.st_size or time.time() - status.st_mtime > _NEW:
                os.unlink(part)
                removed += 1
        except OSError:  # locked: somebody is writing it
            continue
        finally:
            os.close(handle)
    return removed
