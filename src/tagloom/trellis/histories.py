"""The state space of the label n-grams that occur, whose transitions are listed only on demand.

From each history a transition leads to every label, so that many labels have millions of
transitions, while their n-grams are few. Candidates of a position (`engine`) need only the
n-grams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.checks import show
from tagloom.errors import ShapeError
from tagloom.trellis import automata
from tagloom.trellis.automata import Array, Fields, Names
from tagloom.trellis.states import MAX_TRANSITIONS, StateSpace

_KNOWN = ("n_labels", "labels", "weight_groups", "ngrams", "history", "origin")
_LISTED = tuple(f.name for f in fields(Fields) if f.name not in _KNOWN)


class HistorySpace(StateSpace):
    """The pruned order-k space; see `StateSpace.order`.

    Attributes
    ----------
    levels : list of ndarray
        The n-grams for n = 1 to k + 1, numbered as in `automata`.
    """

    levels: list[Array]

    @classmethod
    def of_levels(cls, Y: int, names: Names, levels: list[Array], origin: str) -> HistorySpace:
        """Return the space of numbered n-grams."""
        space = object.__new__(cls)
        lists = automata.list_grams(levels)[2:]
        ngrams = {f"ngram{g.shape[1]}": tuple(map(tuple, g.tolist())) for g in lists}
        known = {
            "n_labels": Y,
            "labels": names,
            "weight_groups": MappingProxyType({name: (len(g),) for name, g in ngrams.items()}),
            "ngrams": MappingProxyType(ngrams),
            "history": None,
            "origin": origin,
            "levels": levels,
        }
        for name, value in known.items():
            object.__setattr__(space, name, value)
        return space

    def __getattr__(self, name: str) -> Any:
        if name not in _LISTED:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if self.n_transitions > MAX_TRANSITIONS:
            raise ShapeError(
                where="state space",
                expected=f"at most {MAX_TRANSITIONS:,} transitions for this operation",
                found=f"{self.n_transitions:,}",
            )
        automaton = automata.order(self.n_labels, self.labels, self.order_k, self.levels)
        self._store({part: getattr(automaton, part) for part in _LISTED})
        self._sort_transitions()
        return self.__dict__[name]

    @property
    def order_k(self) -> int:
        """k, the length of the longest history."""
        return len(self.levels) - 1

    @property
    def n_states(self) -> int:
        """S, the number of states."""
        return sum(map(len, self.levels[:-1]))

    @property
    def n_transitions(self) -> int:
        """M, the number of transitions: from every state on every label."""
        return self.n_states * self.n_labels

    @property
    def is_complete(self) -> bool:
        """Whether every label sequence is accepted."""
        return True

    @property
    def trigrams(self) -> npt.NDArray[np.int32] | None:
        """See `StateSpace.trigrams`."""
        if self.order_k != 2:
            return None
        return np.array(self.ngrams["ngram3"], dtype=np.int32).reshape(-1, 3)

    def over(self, labels: npt.NDArray[np.integer[Any]]) -> tuple[HistorySpace, Array]:
        """Return the space over some of the labels, in ascending order, and its weights' places."""
        place = np.full(self.n_labels, -1)
        place[labels] = np.arange(len(labels))
        kept, lists, before = [], [], 0
        for grams in automata.list_grams(self.levels)[1:]:
            renumbered = place[grams]
            keep = (renumbered >= 0).all(axis=1)
            lists.append(renumbered[keep])
            if grams.shape[1] > 2:
                kept.append(before + np.flatnonzero(keep))
                before += len(grams)
        names = None if self.labels is None else tuple(self.labels[y] for y in labels.tolist())
        levels = automata.number_grams(len(labels), lists)
        return self.of_levels(len(labels), names, levels, self.origin), np.concatenate(kept)

    def _with_labels(self, names: Names) -> HistorySpace:
        if names in (None, self.labels):
            return self
        return self.of_levels(self.n_labels, names, self.levels, self.origin)

    def __reduce__(self) -> tuple[Any, ...]:
        return HistorySpace.of_levels, (self.n_labels, self.labels, self.levels, self.origin)

    def to_dict(self) -> dict[str, Any]:
        """Return the space as plain lists, numbers and strings; see `StateSpace.to_dict`."""
        return {
            "n_labels": self.n_labels,
            "labels": None if self.labels is None else list(self.labels),
            "origin": self.origin,
            "seen": [grams.ravel().tolist() for grams in automata.list_grams(self.levels)[1:]],
        }

    @classmethod
    def from_seen(
        cls, n_labels: int, labels: Names, origin: str, seen: Sequence[Any]
    ) -> HistorySpace:
        """Return the space of the n-grams of `to_dict`, which are not trusted.

        Raises
        ------
        ShapeError
            If they are not label n-grams of 2, 3, ... labels, each with its parts.
        """
        try:
            if isinstance(seen, str | Mapping) or not 2 <= len(seen) <= 16:
                raise ValueError("the lists of n-grams are not 2 to 16")
            lists = [
                np.array(flat, dtype=np.int64).reshape(-1, n) for n, flat in enumerate(seen, 2)
            ]
            levels = automata.number_grams(n_labels, lists)
        except (ValueError, TypeError, OverflowError) as error:
            raise ShapeError(
                where="stored state space", expected="label n-grams", found=show(str(error))
            ) from None
        return cls.of_levels(n_labels, labels, levels, origin)
