"""The named terms of a transition's score, for explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias


class Part(NamedTuple):
    """A named term of the score of a transition.

    Attributes
    ----------
    name : str
        Such as ``word=fish``.
    value : float
        The value of the term in the score.
    n_labels : int
        Number of labels it depends on: 1 for the label itself, 2 with the previous one.
    """

    name: str
    value: float
    n_labels: int = 1


#: The parts of the transition into position t, from label y_prev (None at t = 0) to label y.
Parts: TypeAlias = Callable[[int, int | None, int], Iterable[Part]]


def tempered(parts: Parts, temperature: float) -> Parts:
    """Divide all parts by a temperature, as the scores are."""
    if temperature == 1:
        return parts

    def of_transition(t: int, y_prev: int | None, y: int) -> Iterator[Part]:
        for part in parts(t, y_prev, y):
            yield part._replace(value=part.value / temperature)

    return of_transition
