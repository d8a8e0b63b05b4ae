"""The worked examples and exercises that the place Steps offers.

Numbers are those of `tagloom.datasets.classic`. The exercises are those of Eisenstein (2018),
chapter 7, in our words, as far as a trellis can show them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tagloom.datasets import classic
from tagloom.datasets.classics import ScoreTables


class Example(NamedTuple):
    """A sentence of a worked example.

    Attributes
    ----------
    name : str
        Its name in the URL.
    title : str
    tables : str
        The name of its scores in `tagloom.datasets.classic`.
    tokens : str
        The sentence.
    task : str
        What to look at.
    """

    name: str
    title: str
    tables: str
    tokens: str
    task: str


EXAMPLES = [
    Example(
        "they-can-fish",
        "They can fish",
        "they-can-fish",
        "they can fish",
        "Viterbi by hand. The best path is N V N with score −10. Change one number so that it "
        "becomes N V V.",
    ),
    Example(
        "they-can-can-fish",
        "Exercise 1: they can can fish",
        "they-can-fish",
        "they can can fish",
        "Build the trellis and read off the best path. Ties go to N, the first label.",
    ),
    Example(
        "one-table",
        "Exercise 2: one table for two sentences",
        "they-can-fish",
        "they can can fish",
        "Try to find scores that give N V V N here and N V V for “they can fish”. Why is it "
        "impossible with word and transition scores alone?",
    ),
    Example(
        "fish-can",
        "Exercise 5: fish can",
        "they-can-fish",
        "fish can",
        "Switch to the sum. Check that the forward value at the end is the log of the sum over "
        "the four paths.",
    ),
    Example(
        "forward-backward",
        "Exercise 9: forward meets backward",
        "they-can-fish",
        "they can fish",
        "Switch to the sum and look at both tables: forward + backward has the same total in "
        "every column.",
    ),
    Example(
        "gliese-581d",
        "A language of two words",
        "gliese-581d",
        "can the can",
        "A hidden Markov model with impossible transitions (−∞). The best path is V D N with "
        "probability 0.16.",
    ),
    Example(
        "rib-rob",
        "Label bias: rib or rob",
        "rib-rob",
        "r i b",
        "The letter in the middle decides between two paths. A model that normalises each step "
        "cannot use it.",
    ),
]


def view_examples() -> list[dict[str, Any]]:
    """Return the examples with their scores, in the form of `trellises.view_scores`."""
    return [_view(example) for example in EXAMPLES]


def _view(example: Example) -> dict[str, Any]:
    tables = classic(example.tables)
    assert isinstance(tables, ScoreTables)
    tokens = example.tokens.split()
    return {
        "name": example.name,
        "title": example.title,
        "task": example.task,
        "source": tables.source,
        "tokens": tokens,
        "labels": list(tables.labels),
        "emit": _plain(tables.emit(tokens)),
        "trans": _plain(tables.trans),
        "start": _plain(tables.start),
        "stop": _plain(tables.stop),
    }


def _plain(values: Any) -> Any:
    """Return nested lists; a forbidden score is None, since JSON has no −inf."""
    if np.ndim(values):
        return [_plain(value) for value in values]
    return float(values) if np.isfinite(values) else None
