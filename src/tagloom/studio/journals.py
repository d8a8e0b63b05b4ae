"""The journal of a corpus: every edit as one line of JSON, on the disk before it is acknowledged.

``FILE.edits.jsonl`` lies beside the corpus ``FILE``. A record is appended and flushed before the
edit takes effect; the corpus itself is rewritten only on save, after which the journal is empty. A
last line without a line end is the rest of a write that a crash cut short, and was never
acknowledged. The journal is locked, so that one process at a time edits a corpus.
"""

from __future__ import annotations

import json
import os
import time
from types import ModuleType
from typing import IO, Any

from tagloom.errors import FormatError
from tagloom.storage.replacing import flush_folder

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows opens the journal without a lock
    fcntl = None

OPENED = "open"  # the action of the record that names the process which holds the lock
SUFFIX = ".edits.jsonl"


class Journal:
    """An append-only file of records, each a JSON object with its number ``n``.

    Parameters
    ----------
    path : str
        The journal; created unless ``read_only``.
    read_only : bool
        Read the records without taking the lock.

    Attributes
    ----------
    records : list of dict
        All records but those that mark the opening of the journal.
    is_locked : bool
        Whether this process may append.
    owner : str or None
        The process that holds the lock instead, if it is known.

    Raises
    ------
    FormatError
        If a complete line is not a record.
    """

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.path = path
        self.is_locked = False
        self.owner: str | None = None
        self._file: IO[bytes] | None = None
        if not read_only:
            self._file = open(path, "a+b")  # noqa: SIM115 closed by close()
            self.is_locked = _lock(self._file)
            if not self.is_locked:
                self._file.close()
                self._file = None
        try:
            self.records = self._read()
            if self.is_locked:
                self.owner = None
                self._write({"action": OPENED, "pid": os.getpid(), "time": _now()})
        except BaseException:
            if self._file is not None:
                self._file.close()
            raise

    def append(self, record: dict[str, Any]) -> dict[str, Any]:
        """Write a record and flush it to the disk.

        Parameters
        ----------
        record : dict
            Plain data. Its number and the time are added.

        Returns
        -------
        dict
            The record as written.

        Raises
        ------
        OSError
            If the disk does not take it; the journal is then as before.
        """
        number = self.records[-1]["n"] + 1 if self.records else 1
        record = {"n": number, **record, "time": _now()}
        self._write(record)
        self.records.append(record)
        return record

    def clear(self) -> None:
        """Remove all records, after the corpus was saved."""
        assert self._file is not None
        self._file.truncate(0)
        self.records = []
        self._write({"action": OPENED, "pid": os.getpid(), "time": _now()})

    def close(self) -> None:
        """Release the lock; a journal without records is removed."""
        if self._file is None:
            return
        if not self.records:
            os.unlink(self.path)
        self._file.close()
        self._file, self.is_locked = None, False

    def _write(self, record: dict[str, Any]) -> None:
        assert self._file is not None
        end = self._file.seek(0, os.SEEK_END)
        try:
            line = json.dumps(record, ensure_ascii=True, separators=(",", ":")) + "\n"
            self._file.write(line.encode("ascii"))
            self._file.flush()
            os.fsync(self._file.fileno())
            if end == 0:
                flush_folder(os.path.dirname(self.path))
        except OSError:
            self._file.truncate(end)
            raise

    def _read(self) -> list[dict[str, Any]]:
        """Read the complete lines; remove the rest of a line if the journal is ours."""
        if not os.path.exists(self.path):
            return []
        with open(self.path, "rb") as file:
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if self._file is not None and len(whole) < len(data):
            self._file.truncate(len(whole))
        records = []
        for line, text in enumerate(whole.splitlines(), 1):
            try:
                record = json.loads(text)
                if record["action"] == OPENED:
                    self.owner = f"process {record['pid']}, since {record['time']}"
                    continue
                record["n"] = int(record["n"])
            except (ValueError, TypeError, KeyError):
                raise FormatError(
                    path=self.path,
                    line=line,
                    expected="a record of the journal of edits",
                    found=repr(text[:60]),
                    hint="Move the journal away to open the corpus without its unsaved edits.",
                ) from None
            records.append(record)
        return records


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed; return False if another process has."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
