"""The contents of a model file: a header, arrays, and which of the arrays are verified.

Models and their parts (weights, tables, emissions) convert themselves to a `File` and back. A part
of a larger model gets a prefix, so that its array names stay unique.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tagloom.errors import ParameterError
from tagloom.numeric import np
from tagloom.records import Record, field
from tagloom.storage.stored import DTYPES, Stored, StoredArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray


class File(Record):
    """The contents of a model file.

    Attributes
    ----------
    header : dict
        Plain data: dict with str keys, list, str, int, finite float, bool, None.
    arrays : mapping of str to ndarray
    unverified : frozenset of str
        Names of arrays whose checksum is verified on request only, so that loading need not read
        them: large arrays of which every value is harmless. Their shape and type are always
        checked. Every load verifies all other arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from tagloom.storage import File
    >>> weights = File({}, {"weights": np.zeros(3)}, frozenset({"weights"}))
    >>> file = File({"order": 1}, {"start": np.zeros(2)}) | weights.prefixed("edge_")
    >>> sorted(file.arrays), file.verified
    (['edge_weights', 'start'], ['start'])
    >>> file.part("edge_").arrays
    {'weights': array([0., 0., 0.])}
    """

    header: dict[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    unverified: frozenset[str] = frozenset()

    @property
    def verified(self) -> list[str]:
        """Names of the arrays whose checksum every load verifies."""
        return [name for name in self.arrays if name not in self.unverified]

    @property
    def n_bytes(self) -> int:
        """Total size of the arrays in bytes."""
        return sum(np.asarray(array).nbytes for array in self.arrays.values())

    def stored(self, name: str) -> Stored:
        """Return an array as bytes, those of the file it was read from if there is one."""
        if isinstance(self.arrays, StoredArrays):
            return self.arrays.stored[name]
        array = np.ascontiguousarray(self.arrays[name])
        code = next(code for code, dtype in DTYPES.items() if np.dtype(dtype) == array.dtype)
        return Stored(code, array.shape, array.reshape(-1).view(np.uint8).data)

    def __or__(self, other: File) -> File:
        """Join two files; header entries of ``other`` take precedence.

        Raises
        ------
        ParameterError
            If both have an array of the same name.
        """
        if both := self.arrays.keys() & other.arrays.keys():
            raise ParameterError(
                parameter="arrays",
                expected="arrays of different names",
                found=f"{', '.join(sorted(both))} twice",
            )
        return File(
            self.header | other.header,
            {**self.arrays, **other.arrays},
            self.unverified | other.unverified,
        )

    def prefixed(self, prefix: str) -> File:
        """Put a prefix before every array name; the header stays."""
        return File(
            self.header,
            {prefix + name: array for name, array in self.arrays.items()},
            frozenset(prefix + name for name in self.unverified),
        )

    def part(self, prefix: str, header: dict[str, Any] | None = None) -> File:
        """Return the arrays that have a prefix, without it: the inverse of `prefixed`.

        Parameters
        ----------
        prefix : str
        header : dict, optional
            The header of the part; by default that of the whole.
        """
        n, arrays = len(prefix), self.arrays
        return File(
            self.header if header is None else header,
            arrays.part(prefix)
            if isinstance(arrays, StoredArrays)
            else {name[n:]: array for name, array in arrays.items() if name.startswith(prefix)},
            frozenset(name[n:] for name in self.unverified if name.startswith(prefix)),
        )
