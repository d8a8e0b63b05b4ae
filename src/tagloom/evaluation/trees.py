"""Scores of dependency trees: attachment of words, with and without labels.

UAS is the share of words with the right head, LAS of those with the right head and label. All words
count, punctuation too, and labels count with their subtypes, as in the evaluation of the CoNLL 2018
shared task on gold tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import SentenceError

Interval = tuple[float, float]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LabelScore:
    """Scores of the arcs with one label.

    Attributes
    ----------
    precision, recall, f1 : float
        Of arcs with the right head and label.
    support : int
        Number of such arcs in the gold trees.

    Examples
    --------
    >>> from tagloom.evaluation import evaluate_trees
    >>> tree = [([2, 0], ["nsubj", "root"])]
    >>> evaluate_trees(tree, tree, n_bootstrap=0).by_label["root"]
    LabelScore(precision=1.0, recall=1.0, f1=1.0, support=1)
    """

    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True, eq=False)
class TreeEvaluation:
    """Scores of predicted trees; made by `evaluate_trees`.

    Attributes
    ----------
    uas, las : float
        Share of words with the right head; with the right head and label.
    label_accuracy : float
        Share of words with the right label.
    exact : float
        Share of sentences without a wrong head or label.
    by_label : dict of str to LabelScore
        In the order of their number in the gold trees.
    counts : ndarray of int64, shape (N, 3)
        Words, right heads, right heads with label of each sentence.

    Examples
    --------
    >>> from tagloom.evaluation import evaluate_trees
    >>> trees = [([2, 0], ["nsubj", "root"])], [([2, 0], ["obj", "root"])]
    >>> result = evaluate_trees(*trees, n_bootstrap=0)
    >>> result.uas, result.las, result.counts.tolist()
    (1.0, 0.5, [[2, 2, 1]])
    """

    uas: float
    las: float
    label_accuracy: float
    exact: float
    by_label: dict[str, LabelScore]
    counts: Int64
    n_bootstrap: int = 1000
    random_state: int = 0

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """95 % bootstrap intervals of UAS and LAS over sentences."""
        N = len(self.counts)
        if not self.n_bootstrap or not N:
            return {}
        generator = np.random.default_rng(self.random_state)
        scores = np.empty((self.n_bootstrap, 2))
        for i in range(self.n_bootstrap):
            words, heads, both = self.counts[generator.integers(N, size=N)].sum(axis=0)
            scores[i] = heads / max(words, 1), both / max(words, 1)
        low, high = np.quantile(scores, [0.025, 0.975], axis=0)
        return {name: (float(low[j]), float(high[j])) for j, name in enumerate(("uas", "las"))}

    def to_dict(self) -> dict[str, Any]:
        """Return all scores as plain data."""
        return {
            "uas": self.uas,
            "las": self.las,
            "label_accuracy": self.label_accuracy,
            "exact": self.exact,
            "sentences": len(self.counts),
            "words": int(self.counts[:, 0].sum()),
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
            "by_label": {name: vars(score) for name, score in self.by_label.items()},
        }

    def __str__(self) -> str:
        words = int(self.counts[:, 0].sum())
        lines = [f"{len(self.counts):,} sentences, {words:,} words", ""]
        for name, value in (("UAS", self.uas), ("LAS", self.las)):
            interval = self.intervals.get(name.lower())
            between = "" if interval is None else f"  {interval[0]:.4f} to {interval[1]:.4f}"
            lines.append(f"{name:16}{value:.4f}{between}")
        lines += [f"{'label accuracy':16}{self.label_accuracy:.4f}"]
        lines += [f"{'exact trees':16}{self.exact:.4f}", ""]
        width = max(map(len, self.by_label), default=5)
        lines.append(f"{'label':{width}}  precision  recall      F1  support")
        for name, score in self.by_label.items():
            lines.append(
                f"{name:{width}}  {score.precision:9.4f}  {score.recall:6.4f}  {score.f1:6.4f}"
                f"  {score.support:7,}"
            )
        return "\n".join(lines)


Tree = tuple[Sequence[int], Sequence[str]]


def evaluate_trees(
    gold: Iterable[Any],
    predicted: Iterable[Any],
    *,
    n_bootstrap: int = 1000,
    random_state: int = 0,
) -> TreeEvaluation:
    """Score predicted dependency trees.

    Parameters
    ----------
    gold, predicted : iterable
        Trees of the same sentences: a `Sentence` with columns ``head`` and ``deprel``, or a pair
        (heads, labels).
    n_bootstrap : int, default 1000
        Number of bootstrap samples for the intervals; 0 for no intervals.
    random_state : int, default 0

    Returns
    -------
    TreeEvaluation

    Raises
    ------
    SentenceError
        If the sentences differ in number or length, or have no heads.

    Examples
    --------
    >>> from tagloom.evaluation import evaluate_trees
    >>> gold = [([2, 0, 2], ["nsubj", "root", "obj"])]
    >>> result = evaluate_trees(gold, [([2, 0, 2], ["nsubj", "root", "obl"])], n_bootstrap=0)
    >>> result.uas, round(result.las, 3)
    (1.0, 0.667)
    """
    checks.count(n_bootstrap, "n_bootstrap")
    checks.count(random_state, "random_state")
    a, b = ([_tree(x, i) for i, x in enumerate(side)] for side in (gold, predicted))
    if len(a) != len(b):
        expected = f"{len(a)} sentences, as many as gold"
        raise SentenceError(parameter="predicted", expected=expected, found=str(len(b)))
    counts = np.zeros((len(a), 3), dtype=np.int64)
    n_labels = n_exact = 0
    support: dict[str, list[int]] = {}  # gold, predicted, both with the right head
    for i, ((heads, labels), (other_heads, other_labels)) in enumerate(zip(a, b, strict=True)):
        if len(heads) != len(other_heads):
            expected = f"{checks.plural(len(heads), 'word')}, as gold"
            raise SentenceError(
                where=checks.place(i), expected=expected, found=str(len(other_heads))
            )
        rows = zip(heads, labels, other_heads, other_labels, strict=True)
        for head, label, other, other_label in rows:
            is_right = head == other and label == other_label
            counts[i] += (1, head == other, is_right)
            n_labels += label == other_label
            of_gold = support.setdefault(label, [0, 0, 0])
            of_gold[0] += 1
            of_gold[2] += is_right
            support.setdefault(other_label, [0, 0, 0])[1] += 1
        n_exact += int(counts[i, 2] == counts[i, 0])
    words, n_heads, both = counts.sum(axis=0).tolist()
    ordered = sorted(support.items(), key=lambda item: (-item[1][0], item[0]))
    return TreeEvaluation(
        _share(n_heads, words),
        _share(both, words),
        _share(n_labels, words),
        _share(n_exact, len(a)),
        {name: _label_score(*numbers) for name, numbers in ordered},
        counts,
        n_bootstrap,
        random_state,
    )


def _tree(x: Any, i: int) -> Tree:
    """Return heads and labels of a sentence with columns, or of a pair."""
    columns = getattr(x, "columns", None)
    if columns is None:
        heads, labels = x
        return list(heads), list(labels)
    if "head" not in columns:
        found = f"columns {', '.join(columns) or '(none)'}"
        raise SentenceError(where=checks.place(i), expected="a column 'head'", found=found)
    heads = []
    for t, text in enumerate(columns["head"]):
        head = checks.whole_number(str(text))
        if head is None:
            raise SentenceError(
                where=checks.place(i, t), expected="a head, a number", found=checks.show(text)
            )
        heads.append(head)
    return heads, list(columns.get("deprel", ["_"] * len(heads)))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _label_score(n_gold: int, n_predicted: int, n_right: int) -> LabelScore:
    f1 = _share(2 * n_right, n_gold + n_predicted)
    return LabelScore(_share(n_right, n_predicted), _share(n_right, n_gold), f1, n_gold)
