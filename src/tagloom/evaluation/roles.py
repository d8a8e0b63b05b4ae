"""Scores of semantic roles: arguments with exact spans and roles.

An argument is right if a gold argument of the same predicate has the same span and role, as in the
CoNLL 2005 and 2012 shared tasks. A frame is illegal if its arguments overlap or break a constraint
on their roles; see `tagloom.labels.roles`.
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
from tagloom.evaluation.trees import LabelScore
from tagloom.labels.roles import is_legal_frame, role_constraints
from tagloom.sequences.predicates import FrameSentence, check_frame_sentences

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RoleEvaluation:
    """Scores of predicted arguments; made by `evaluate_roles`.

    Attributes
    ----------
    precision, recall, f1 : float
    n_frames, n_illegal : int
        Number of predicates, and of those whose predicted arguments overlap or break a constraint.
    by_tag : dict of str to LabelScore
        Scores by the coarse tag of the predicate, such as VERB.
    by_role : dict of str to LabelScore
        In the order of their number in the gold frames.
    counts : ndarray of int64, shape (N, 3)
        Gold, predicted and right arguments of each sentence.

    Examples
    --------
    >>> from tagloom.evaluation import evaluate_roles
    >>> def sentence(*arguments):
    ...     frame = {"predicate": 1, "arguments": list(arguments)}
    ...     return {"tokens": ["they", "eat", "fish"], "heads": [2, 0, 2],
    ...             "deprels": ["nsubj", "root", "obj"], "frames": [frame]}
    >>> gold = [sentence([0, 1, "ARG0"], [2, 3, "ARG1"])]
    >>> result = evaluate_roles(gold, [sentence([0, 1, "ARG0"], [2, 3, "ARG0"])], n_bootstrap=0)
    >>> result.f1, result.n_illegal, result.by_role["ARG1"].recall
    (0.5, 1, 0.0)
    """

    precision: float
    recall: float
    f1: float
    n_frames: int
    n_illegal: int
    by_tag: dict[str, LabelScore]
    by_role: dict[str, LabelScore]
    counts: Int64
    n_bootstrap: int = 1000
    random_state: int = 0

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """95 % bootstrap interval of F1 over sentences."""
        N = len(self.counts)
        if not self.n_bootstrap or not N:
            return {}
        generator = np.random.default_rng(self.random_state)
        scores = np.empty(self.n_bootstrap)
        for i in range(self.n_bootstrap):
            n_gold, n_predicted, n_right = self.counts[generator.integers(N, size=N)].sum(axis=0)
            scores[i] = 2 * n_right / max(n_gold + n_predicted, 1)
        low, high = np.quantile(scores, [0.025, 0.975])
        return {"f1": (float(low), float(high))}

    def to_dict(self) -> dict[str, Any]:
        """Return all scores as plain data."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "sentences": len(self.counts),
            "frames": self.n_frames,
            "illegal_frames": self.n_illegal,
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
            "by_tag": {name: vars(score) for name, score in self.by_tag.items()},
            "by_role": {name: vars(score) for name, score in self.by_role.items()},
        }

    def __str__(self) -> str:
        interval = self.intervals.get("f1")
        between = "" if interval is None else f"  {interval[0]:.4f} to {interval[1]:.4f}"
        lines = [
            f"{len(self.counts):,} sentences, {self.n_frames:,} predicates",
            "",
            f"{'precision':16}{self.precision:.4f}",
            f"{'recall':16}{self.recall:.4f}",
            f"{'F1':16}{self.f1:.4f}{between}",
            f"{'illegal frames':16}{self.n_illegal:,}",
        ]
        for title, scores in (("predicate", self.by_tag), ("role", self.by_role)):
            width = max(map(len, [title, *scores]))
            lines += ["", f"{title:{width}}  precision  recall      F1  support"]
            for name, one in scores.items():
                lines.append(
                    f"{name:{width}}  {one.precision:9.4f}  {one.recall:6.4f}  {one.f1:6.4f}"
                    f"  {one.support:7,}"
                )
        return "\n".join(lines)


def evaluate_roles(
    gold: Iterable[Any],
    predicted: Iterable[Any],
    *,
    n_bootstrap: int = 1000,
    random_state: int = 0,
) -> RoleEvaluation:
    """Score predicted arguments of predicates.

    Parameters
    ----------
    gold, predicted : iterable of FrameSentence, or of plain data
        The same sentences with the same predicates.
    n_bootstrap : int, default 1000
        Number of bootstrap samples for the interval; 0 for none.
    random_state : int, default 0

    Returns
    -------
    RoleEvaluation

    Raises
    ------
    SentenceError
        If the sentences differ in their number, words or predicates.

    Examples
    --------
    >>> from tagloom.evaluation import evaluate_roles
    >>> gold = [{"tokens": ["go"], "heads": [0], "deprels": ["root"], "frames": [{"predicate": 0}]}]
    >>> evaluate_roles(gold, gold, n_bootstrap=0).n_illegal
    0
    """
    checks.count(n_bootstrap, "n_bootstrap")
    checks.count(random_state, "random_state")
    a, b = check_frame_sentences(gold), check_frame_sentences(predicted)
    if len(a) != len(b):
        expected = f"{len(a)} sentences, as many as gold"
        raise SentenceError(parameter="predicted", expected=expected, found=str(len(b)))
    rules = role_constraints(
        role for side in (a, b) for s in side for f in s.frames for _, _, role in f.arguments
    )
    counts = np.zeros((len(a), 3), dtype=np.int64)
    by_tag: dict[str, list[int]] = {}  # gold, predicted, right
    by_role: dict[str, list[int]] = {}
    n_frames = n_illegal = 0
    for i, (one, other) in enumerate(zip(a, b, strict=True)):
        _check_same(one, other, i)
        for right, found in zip(one.frames, other.frames, strict=True):
            n_frames += 1
            n_illegal += not is_legal_frame(found.arguments, rules)
            sets = set(right.arguments), set(found.arguments)
            sides = (*sets, sets[0] & sets[1])
            of_tag = by_tag.setdefault(_tag(one, right.predicate), [0, 0, 0])
            for k, arguments in enumerate(sides):
                counts[i, k] += len(arguments)
                of_tag[k] += len(arguments)
                for _, _, role in arguments:
                    by_role.setdefault(role, [0, 0, 0])[k] += 1
    total = _score(counts.sum(axis=0).tolist())
    return RoleEvaluation(
        total.precision,
        total.recall,
        total.f1,
        n_frames,
        n_illegal,
        _scores(by_tag),
        _scores(by_role),
        counts,
        n_bootstrap,
        random_state,
    )


def _check_same(one: FrameSentence, other: FrameSentence, i: int) -> None:
    """Raise if two sentences differ in more than the arguments of their frames."""
    for name, x, y in (
        ("words", one.tokens, other.tokens),
        ("predicates", *([f.predicate for f in s.frames] for s in (one, other))),
    ):
        if x != y:
            raise SentenceError(
                where=checks.place(i), expected=f"the {name} of gold", found=checks.show(y)
            )


def _tag(sentence: FrameSentence, predicate: int) -> str:
    tags = sentence.columns.get("upos") or sentence.columns.get("xpos")
    return tags[predicate] if tags else "_"


def _score(numbers: Sequence[int]) -> LabelScore:
    n_gold, n_predicted, n_right = numbers
    return LabelScore(
        n_right / n_predicted if n_predicted else 0.0,
        n_right / n_gold if n_gold else 0.0,
        2 * n_right / (n_gold + n_predicted) if n_gold + n_predicted else 0.0,
        n_gold,
    )


def _scores(counts: dict[str, list[int]]) -> dict[str, LabelScore]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1][0], item[0]))
    return {name: _score(numbers) for name, numbers in ordered if any(numbers)}
