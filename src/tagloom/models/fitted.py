"""The fitted state of a model: everything that training produced, in one frozen object.

`fit` replaces the state of a model in one assignment, so a model never mixes an old fit with a new
one. Values derived from a state (a decoder, shared transitions) are cached in it and dropped with
it. Two threads that need such a value at once compute the same one, without a lock. The attributes
that users see (``labels_``, ``scores_``) read the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from tagloom.errors import NotFittedError
from tagloom.numeric import is_array, np
from tagloom.records import Record, replace

if TYPE_CHECKING:
    import numpy.typing as npt

    from tagloom.scores import Decoder

T = TypeVar("T")


class LabelField:
    """The labels of a state: given as any sequence of str, read as an array of str objects."""

    def __get__(self, state: Any, owner: type | None = None) -> npt.NDArray[Any]:
        if state is None:
            raise AttributeError("labels")  # dataclass: the field has no default
        names = state.__dict__["labels"]
        if not is_array(names):
            names = state.__dict__["labels"] = Fitted.label_array(names)
        return names  # type: ignore[no-any-return]

    def __set__(self, state: Any, names: Sequence[str] | npt.NDArray[Any]) -> None:
        state.__dict__["labels"] = names


class Fitted(Record):
    """The state of a fitted tagger; models with more to keep subclass it.

    Attributes
    ----------
    labels : ndarray of str, shape (Y,)
    temperature : float
        The divisor of all scores before they become probabilities.
    """

    labels: LabelField = LabelField()
    temperature: float = 1.0

    @property
    def label_names(self) -> list[str]:
        """The labels as a list, without NumPy if they were given so."""
        return list(self.__dict__["labels"])

    @cached_property
    def decoder(self) -> Decoder | None:
        """The native decoder of ordinary sentences; None if a trellis is required."""
        return None

    @staticmethod
    def label_array(names: Any) -> npt.NDArray[Any]:
        """Return label names as users see them, an array of str objects."""
        return np.array(names, dtype=object)


class Learned(Generic[T]):
    """An attribute that is read from the state: ``scores_ = Learned()`` reads ``scores``.

    Parameters
    ----------
    record : bool
        Whether it may be assigned: a record on which predictions do not depend.
    """

    def __init__(self, *, record: bool = False) -> None:
        self._is_record = record

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._field = name, name.removesuffix("_")

    @overload
    def __get__(self, model: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, model: Any, owner: type | None = None) -> T: ...
    def __get__(self, model: Any, owner: type | None = None) -> Self | T:
        if model is None:
            return self
        value = getattr(model.__dict__.get("_fitted"), self._field, None)
        if value is None:
            name = type(model).__name__
            if "_fitted" in model.__dict__:
                raise AttributeError(f"This {name} has no {self._name}.")
            raise NotFittedError(f"This {name} has no {self._name}. Call fit() first.")
        return value  # type: ignore[no-any-return]

    def __set__(self, model: Any, value: T) -> None:
        if not self._is_record:
            raise AttributeError(
                f"{self._name} of {type(model).__name__} cannot be assigned: fit() makes it."
            )
        if getattr(model, self._name) is not value:  # training_ |= {...} assigns the same dict
            model._fitted = replace(model._fitted, **{self._field: value})
