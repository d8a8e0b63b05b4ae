"""Which labels stay candidates of a position, by the scores of the position alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tagloom import _native, checks


class Pruning(NamedTuple):
    """The rule by which labels are pruned; see `Trellis.prune`."""

    least: float  #: the smallest probability, as a part of that of the best label
    most: int | None = None  #: the largest number of labels; None: any

    @classmethod
    def checked(
        cls, least: Any, most: Any = None, names: tuple[str, str] = ("least", "most")
    ) -> Pruning:
        """Check values that are parameters with these names."""
        return cls(
            checks.number(least, names[0], least=0, most=1),
            None if most is None else checks.count(most, names[1], least=1),
        )

    @classmethod
    def from_dict(cls, header: Mapping[str, Any]) -> Pruning | None:
        """Read the rule in the header of a model file, if there is one; it is checked."""
        if header.get("prune") is None:
            return None
        return cls.checked(header["prune"], header.get("prune_most"), ("prune", "prune_most"))

    def to_dict(self) -> dict[str, Any]:
        """Return the entries for the header of a model file."""
        return {"prune": self.least} | ({} if self.most is None else {"prune_most": self.most})

    @property
    def native(self) -> _native.Pruning:
        """The rule for the native core."""
        return _native.Pruning(self.least, self.most or 0)
