"""Labels made of sub-tags, such as ``NOUN|Case=Nom|Number=Sing``, and the weights that they share.

emit[t, y]       = Σ_a weight(a, y) + Σ_{s in y} Σ_a weight(a, s)
trans[y_prev, y] = weight(y_prev, y) + Σ_{r in y_prev} Σ_{s in y} weight(r, s)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tagloom import _native
from tagloom.numeric import np
from tagloom.records import Record

if TYPE_CHECKING:
    import numpy.typing as npt

    Float64 = npt.NDArray[np.float64]


class Subtags(Record):
    """The sub-tags of each label.

    Attributes
    ----------
    separator : str
        The text between the sub-tags of a label.
    names : tuple of str
        The S sub-tags, in order of occurrence.
    ptr : ndarray of int32, shape (Y + 1,)
        Label y has the sub-tags ``ids[ptr[y]:ptr[y + 1]]``.
    ids : ndarray of int32

    Examples
    --------
    >>> subtags = Subtags.split(["ADJ|Case=Nom", "NOUN|Case=Gen", "NOUN|Case=Nom"], "|")
    >>> subtags.names
    ('ADJ', 'Case=Nom', 'NOUN', 'Case=Gen')
    >>> Subtags.find_separator(["ADJ|Case=Nom", "NOUN|Case=Gen", "PUNCT"])
    '|'
    """

    separator: str
    names: tuple[str, ...]
    ptr: npt.NDArray[np.int32]
    ids: npt.NDArray[np.int32]

    @classmethod
    def split(cls, labels: Sequence[str], separator: str) -> Subtags:
        """Split labels at a separator."""
        numbers: dict[str, int] = {}
        ptr, ids = [0], []
        for label in labels:
            for name in dict.fromkeys(label.split(separator)):
                ids.append(numbers.setdefault(name, len(numbers)))
            ptr.append(len(ids))
        return cls(separator, tuple(numbers), np.array(ptr, np.int32), np.array(ids, np.int32))

    @staticmethod
    def find_separator(labels: Sequence[str]) -> str | None:
        """Return "|" if most labels are lists of features, ``A|B=c|D=e``; otherwise None."""
        rows = [label.split("|") for label in labels]
        have_names = all("=" in name for row in rows for name in row[1:])
        return "|" if have_names and 2 * sum(len(row) > 1 for row in rows) > len(rows) else None

    def __len__(self) -> int:
        return len(self.names)

    def __reduce__(self) -> tuple[Any, ...]:  # without the native object
        return Subtags, (self.separator, self.names, self.ptr, self.ids)

    @cached_property
    def native(self) -> _native.Subtags:
        """The sub-tags for the native core."""
        return _native.Subtags(len(self), self.ptr, self.ids)

    def of_label(self, y: int) -> list[int]:
        """Return the numbers of the sub-tags of a label."""
        ids: list[int] = self.ids[self.ptr[y] : self.ptr[y + 1]].tolist()
        return ids

    def fold(self, between: Float64) -> Float64:
        """Sum weights of pairs of sub-tags [S, S] over the sub-tags of two labels: [Y, Y]."""
        contains = np.zeros((len(self.ptr) - 1, len(self)))  # [Y, S]
        contains[np.repeat(np.arange(len(contains)), np.diff(self.ptr)), self.ids] = 1
        folded: Float64 = contains @ between @ contains.T
        return folded
