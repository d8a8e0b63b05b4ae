"""Precision, recall and F1 from counts, with bootstrap intervals and a significance test.

With gold, predicted and correct the numbers of tokens or spans::

    precision = correct / predicted    recall = correct / gold
    f1 = 2 precision recall / (precision + recall) = 2 correct / (gold + predicted)

and `zero_division` where the denominator is 0: 0 by default, as in conlleval.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom import _native

Interval = tuple[float, float]

# Columns of the counts per sentence from which every score is computed; without spans there are
# only the first four. Each row is one sentence, so SENTENCES is 1 in each.
CORRECT, TOKENS, EXACT, SENTENCES, GOLD_SPANS, PREDICTED_SPANS, CORRECT_SPANS = range(7)


class Score(NamedTuple):
    """Precision, recall and F1, and the counts from which they are computed.

    Examples
    --------
    >>> import tagloom as tl
    >>> tl.evaluate([["A", "B"]], [["A", "A"]]).per_label["A"]
    Score(precision=0.5, recall=1.0, f1=0.6666666666666666, gold=1, predicted=2, correct=1)
    """

    precision: float
    recall: float
    f1: float
    gold: int
    predicted: int
    correct: int


def make_score(gold: int, predicted: int, correct: int, zero_division: float = 0.0) -> Score:
    """Compute precision, recall and F1; ``zero_division`` is their value if the denominator is 0.

    Examples
    --------
    >>> make_score(gold=4, predicted=2, correct=1)
    Score(precision=0.5, recall=0.25, f1=0.3333333333333333, gold=4, predicted=2, correct=1)
    """
    return Score(
        precision=correct / predicted if predicted else zero_division,
        recall=correct / gold if gold else zero_division,
        f1=2 * correct / (gold + predicted) if gold + predicted else zero_division,
        gold=gold,
        predicted=predicted,
        correct=correct,
    )


def average(
    scores: Iterable[Score], zero_division: float = 0.0, *, weighted: bool = False
) -> Score:
    """Average scores with equal weights, or weighted by ``gold``; the counts are summed.

    Without scores, or without weight, the result is the score of the sums.

    Examples
    --------
    >>> scores = [make_score(3, 3, 3), make_score(1, 1, 0)]
    >>> average(scores).f1, average(scores, weighted=True).f1
    (0.5, 0.75)
    """
    table = list(scores)
    gold, predicted, correct = (sum(score[i] for score in table) for i in (3, 4, 5))
    weights = [score.gold if weighted else 1 for score in table]
    total = sum(weights)
    if not total:
        return make_score(int(gold), int(predicted), int(correct), zero_division)
    precision, recall, f1 = (
        sum(weight * score[i] for weight, score in zip(weights, table, strict=True)) / total
        for i in range(3)
    )
    return Score(precision, recall, f1, int(gold), int(predicted), int(correct))


def _ratio(above: NDArray[Any], below: NDArray[Any]) -> NDArray[np.float64]:
    ratio: NDArray[np.float64] = np.divide(above, below, out=np.zeros(len(above)), where=below != 0)
    return ratio


def scores_of(sums: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Compute every score of R rows of counts, shape (R, 7), or (R, 4) without spans."""
    scores = {
        "accuracy": _ratio(sums[:, CORRECT], sums[:, TOKENS]),
        "sentence_accuracy": _ratio(sums[:, EXACT], sums[:, SENTENCES]),
    }
    if sums.shape[1] > GOLD_SPANS:
        gold, predicted = sums[:, GOLD_SPANS], sums[:, PREDICTED_SPANS]
        matched = sums[:, CORRECT_SPANS]
        scores["precision"] = _ratio(matched, predicted)
        scores["recall"] = _ratio(matched, gold)
        scores["f1"] = _ratio(2 * matched, gold + predicted)
    return scores


def intervals(counts: NDArray[np.int32], replicates: int, seed: int) -> dict[str, Interval]:
    """Compute 95 % bootstrap intervals by drawing sentences with replacement.

    Parameters
    ----------
    counts : ndarray of int32, shape (N, S)
        Counts per sentence.
    replicates, seed : int

    Returns
    -------
    dict of str to (low, high)
        The 2.5 and 97.5 percentiles of each score.
    """
    sums = _native.resample(counts, replicates, seed)
    return {
        name: (float(low), float(high))
        for name, values in scores_of(sums).items()
        for low, high in [np.percentile(values, [2.5, 97.5])]
    }


def randomisation(
    a: NDArray[np.int32], b: NDArray[np.int32], trials: int, seed: int
) -> dict[str, float]:
    """Test by approximate randomisation whether two systems differ (Yeh 2000).

    Each trial swaps the two outputs for each sentence with probability 1/2. The p-value is the
    share of trials, the observed one included, whose difference is at least the observed one.

    Parameters
    ----------
    a, b : ndarray of int32, shape (N, S)
        Counts per sentence of the two systems.
    trials, seed : int

    Returns
    -------
    dict of str to float
        The two-sided p-value of each score.
    """
    delta = b - a
    changed = delta[np.any(delta != 0, axis=1)]  # swapping the other sentences has no effect
    changed, copies = np.unique(changed, axis=0, return_counts=True)  # equal ones go together
    swapped = _native.toss(changed, copies, trials, seed)  # [trials, S] what a gains and b loses
    totals = [counts.sum(axis=0, dtype=np.int64)[None, :] for counts in (a, b)]
    observed = [scores_of(total) for total in totals]
    shuffled = [scores_of(totals[0] + swapped), scores_of(totals[1] - swapped)]
    result = {}
    for name in observed[0]:
        difference = abs(observed[0][name] - observed[1][name])[0]
        differences = np.abs(shuffled[0][name] - shuffled[1][name])  # [trials]
        # Rounding may make equal differences differ in the last digit.
        extreme = int(np.count_nonzero(differences >= difference - 1e-12))
        result[name] = (extreme + 1) / (trials + 1)
    return result
