"""The arrays of a file that was read: bytes of the file, which become NumPy arrays when used.

Native code takes the bytes themselves, so a program that only tags does not import NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tagloom.numeric import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Types of arrays as safetensors names them, and as NumPy does.
DTYPES = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}
# The same for memoryview, where native code reads them.
_FORMATS: dict[str, Any] = {
    "U8": "B",
    "U16": "H",
    "U32": "I",
    "U64": "Q",
    "I64": "q",
    "F32": "f",
    "F64": "d",
}


class Stored:
    """One array of a file.

    Parameters
    ----------
    code : str
        Its type, a key of `DTYPES`.
    shape : tuple of int
    data : memoryview
        Its bytes; as many as type and shape need.

    Examples
    --------
    >>> from tagloom.storage.stored import Stored
    >>> stored = Stored("U16", (2, 1), memoryview(bytes([1, 0, 2, 0])))
    >>> stored.view.tolist()
    [1, 2]
    >>> stored.array
    array([[1],
           [2]], dtype=uint16)
    """

    def __init__(self, code: str, shape: tuple[int, ...], data: memoryview) -> None:
        self.code, self.shape, self.data = code, shape, data

    def __repr__(self) -> str:
        return f"Stored({self.code}, {self.shape})"

    @cached_property
    def array(self) -> NDArray[Any]:
        """The array, read-only; a view of the bytes."""
        array = np.asarray(self.data).view(DTYPES[self.code]).reshape(self.shape)
        if not array.flags.aligned:  # another Python implementation may not align bytes
            array = array.copy()
            array.flags.writeable = False
        return array

    @property
    def view(self) -> Any:
        """The numbers, flat, for native code; without NumPy for most types."""
        format = _FORMATS.get(self.code)
        return self.array.reshape(-1) if format is None else self.data.cast(format)


class ArrayField:
    """A field of a dataclass: an array, or a `Stored` one that becomes an array at first use.

    Parameters
    ----------
    dtype : str, optional
        The type of the array, if stored ones may have others.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from tagloom.storage.stored import ArrayField, Stored
    >>> @dataclass(frozen=True)
    ... class Table:
    ...     counts: ArrayField = ArrayField("<u4")
    >>> table = Table(Stored("U8", (2,), memoryview(bytes([3, 4]))))
    >>> ArrayField.native(table, "counts").tolist()
    [3, 4]
    >>> table.counts
    array([3, 4], dtype=uint32)
    """

    def __init__(self, dtype: str | None = None) -> None:
        self._dtype = dtype

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, whole: Any, owner: type | None = None) -> NDArray[Any]:
        if whole is None:
            raise AttributeError(self._name)  # dataclass: the field has no default
        value = whole.__dict__[self._name]
        if not isinstance(value, Stored):
            return value  # type: ignore[no-any-return]
        array = value.array
        if self._dtype is not None:
            array = array.astype(self._dtype, copy=False)
        whole.__dict__[self._name] = array
        return array

    def __set__(self, whole: Any, value: NDArray[Any] | Stored) -> None:
        whole.__dict__[self._name] = value

    @staticmethod
    def native(whole: Any, name: str) -> Any:
        """Return the numbers of a field for native code, without NumPy if they are stored."""
        value = whole.__dict__[name]
        return value.view if isinstance(value, Stored) else value


class StoredArrays(Mapping[str, "NDArray[Any]"]):
    """The arrays of a file by name; the value of an array is made when it is used.

    Parameters
    ----------
    stored : dict of str to Stored
    """

    def __init__(self, stored: dict[str, Stored]) -> None:
        self.stored = stored

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.stored[name].array

    def __contains__(self, name: object) -> bool:
        return name in self.stored

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def part(self, prefix: str) -> StoredArrays:
        """Return the arrays that have a prefix, without it."""
        n = len(prefix)
        return StoredArrays({k[n:]: v for k, v in self.stored.items() if k.startswith(prefix)})
