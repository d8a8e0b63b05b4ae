"""Labelled sentences as arrays, for taggers that learn by counting and for taggers of users."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ParameterError
from tagloom.models.data import (
    Gold,
    as_weights,
    check_not_empty,
    digest,
    number_labels,
    read_labels,
)
from tagloom.scores.emissions.base import fingerprint_of, offsets_of

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Labelled:
    """N labelled sentences with T tokens in total.

    Attributes
    ----------
    labels : list of str
        The Y labels.
    gold : ndarray of int32, shape (T,)
        The label of each token, or −1 − k: any label of set k.
    offsets : ndarray of int64, shape (N + 1,)
    weight : ndarray, shape (N,), or None
        The weight of each sentence.
    sentences, rows
        The sentences and their lists of labels, as the user passed them.
    sets : ndarray of bool, shape (n, Y)
        Sets of labels; set 0 has all of them.
    """

    labels: list[str]
    gold: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    weight: Float64 | None
    sentences: Sequence[Any]
    rows: list[list[Any]]
    sets: npt.NDArray[np.bool_]

    @property
    def is_open(self) -> bool:
        """Whether some labels are not known."""
        return bool((self.gold < 0).any())

    @property
    def token_weight(self) -> Float64 | None:
        """The weight of each token [T]; None if all are 1."""
        return None if self.weight is None else np.repeat(self.weight, np.diff(self.offsets))

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of sentences and tokens, for a training record."""
        return {"sentences": len(self.offsets) - 1, "tokens": len(self.gold)}

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the sentences, labels and weights."""
        return self.digest_with(self.sentences)

    def digest_with(self, data: Any) -> str:
        """Return the fingerprint of labels and sentences, as an emission encodes the latter."""
        arrays = *fingerprint_of(data), self.offsets, self.gold, self.weight
        return digest(self.labels, *arrays)

    def as_gold(self) -> Gold:
        """Return the labels in the form that also holds open labels."""
        return Gold(self.labels, self.gold, self.sets)

    def record(self, data: Any, began: float) -> dict[str, Any]:
        """Return the training record.

        Parameters
        ----------
        data : object
            The sentences, plain or as an emission encodes them.
        began : float
            When training began, by `time.perf_counter`.
        """
        return {
            **self.sizes,
            "digest": self.digest_with(data),
            "seconds": round(time.perf_counter() - began, 3),
        }


def read_labelled(
    X: Any, y: Any, sample_weight: Any, labels: Any, *, may_be_open: bool = False
) -> Labelled:
    """Read labelled sentences.

    Parameters
    ----------
    X, y, sample_weight
        As for `Tagger.fit`.
    labels : sequence of str, optional
        The labels in their order; by default those of the data, sorted.
    may_be_open : bool
        Whether a label may be None, unknown, or a set, one of several.

    Raises
    ------
    SentenceError, LabelError, ParameterError
        If the data are wrong; names the sentence.
    """
    sentences = checks.sentences(X)
    check_not_empty(sentences, getattr(X, "path", None))
    read = read_labels(sentences, X, y, may_be_open=may_be_open)
    names, gold, sets = number_labels(read, labels)
    weight = _check_weight(sample_weight, len(sentences))
    offsets = offsets_of(read.labellings)
    return Labelled(names, gold, offsets, weight, sentences, read.labellings, sets)


def _check_weight(sample_weight: Any, n: int) -> Float64 | None:
    """Return the weights of n sentences as an array; none is negative, and not all are 0."""
    if sample_weight is None:
        return None
    weight = as_weights(sample_weight, n)
    if weight.sum() == 0:
        raise ParameterError(
            parameter="sample_weight",
            expected="above 0 for some sentence",
            found="0 for every sentence",
        )
    return weight
