"""Checkpoints: the state of a training run in one file, from which it resumes after a crash."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import checks, storage
from tagloom.errors import ModelFileError


class Checkpoint:
    """A file that a run is saved to and resumed from.

    Parameters
    ----------
    path : str or path
        Written atomically; read if it exists.
    identity : mapping
        Everything that the run depends on (parameters, a digest of the data), as plain data. The
        checkpoint of another run is refused.
    every : float
        Seconds between saves.
    """

    def __init__(
        self, path: str | os.PathLike[str], identity: Mapping[str, Any], every: float = 30.0
    ) -> None:
        self.path = Path(path)
        self.identity = dict(identity)
        self.every = every
        self._saved = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether at least ``every`` seconds have passed since the last save."""
        return time.monotonic() - self._saved >= self.every

    def save(self, run: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write the file atomically: a crash leaves the old one."""
        header = {"kind": "checkpoint", "identity": self.identity, "run": dict(run)}
        storage.write(self.path, header, dict(arrays))
        self._saved = time.monotonic()

    def load(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]] | None:
        """Read the file, or return None if it does not exist.

        Raises
        ------
        ModelFileError
            If it belongs to another run or is not a checkpoint.
        """
        if not self.path.exists():
            return None
        header, arrays = storage.read(self.path, verify=True)
        if header.get("kind") != "checkpoint":
            raise ModelFileError(
                where=str(self.path),
                expected="a checkpoint",
                found=f"a {header.get('kind')}",
                hint="Choose another name for {checkpoint}.",
                options={"checkpoint": ...},
            )
        saved = header["identity"]
        for name, value in self.identity.items():
            if saved.get(name) != value:
                raise ModelFileError(
                    f"the checkpoint of another run: its {name} is {checks.show(saved.get(name))},"
                    f" here it is {checks.show(value)}.",
                    where=str(self.path),
                    found=f"{name} {checks.show(saved.get(name))}",
                    expected=f"{name} {checks.show(value)}",
                    hint="Delete the file to start again, or fit with the same data and parameters "
                    "to resume.",
                )
        # Copies, since the file may be overwritten while these arrays are in use.
        return header["run"], {name: np.array(array) for name, array in arrays.items()}
