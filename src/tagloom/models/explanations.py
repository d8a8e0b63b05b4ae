"""Why a token has its label: the named terms in which the best path and its best rival differ.

The rival of token t is the best path with another label at t. The score of a path is a sum over its
transitions, so two paths differ by the difference of two sums. Terms that both have cancel, and
every other term has a name. The model names the terms that depend on the sentence
(`Tagger.score_parts`). Transitions, start, stop and weights of longer label n-grams come from the
trellis, in any state space.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tagloom.evaluation.tables import Cell, Table
from tagloom.features.extractors import START, STOP, TRANSITION
from tagloom.models.rivals import Rival, Rivals
from tagloom.scores.parts import Part, Parts
from tagloom.trellis import Trellis

Int32 = npt.NDArray[np.int32]

_SHOWN = 8  # number of reasons of a token that are printed
_EXACT = 1e-13  # rounding error of float64 sums, relative to the absolute weights
ROUNDING = "rounding"


@dataclass(frozen=True)
class Reason:
    """One term in which two paths differ.

    Attributes
    ----------
    position : int
        The position of the term; the number of tokens for the stop.
    name : str
        The attribute; ``"transition"`` for weights of label pairs, start and stop included;
        ``"ngram3"`` and so on for those of longer histories; ``"rounding"`` for the rounding error
        of a model that sums its scores in float32.
    label, rival : str
        The labels on which the term depends, in the best path and in the rival: ``VERB``, or
        ``AUX → VERB``.
    weight, rival_weight : float
        The value of the term in the score of each.
    """

    position: int
    name: str
    label: str
    rival: str
    weight: float
    rival_weight: float

    @property
    def value(self) -> float:
        """The advantage of the best path: weight − rival_weight."""
        return self.weight - self.rival_weight


@dataclass(frozen=True)
class Decision:
    """Why one token has its label.

    Attributes
    ----------
    position : int
    token : str
    label : str
    prob : float
        Its marginal probability.
    runner_up : str or None
        The label that the token has in the rival, which is the best path with another label here;
        None if no such path is possible.
    runner_up_prob : float
        Its marginal probability.
    rival : tuple of str
        All labels of the rival; empty without a rival.
    margin : float
        The score of the best path less that of the rival; infinite without a rival.
    reasons : tuple of Reason
        Everything in which the two differ, the strongest first. Their values sum to the margin, to
        within 1e-12 of the sum of the absolute weights of both paths.
    """

    position: int
    token: str
    label: str
    prob: float
    runner_up: str | None
    runner_up_prob: float
    margin: float
    reasons: tuple[Reason, ...]
    labels: tuple[str, ...] = field(repr=False)  # of the best path, shared by all decisions
    change: tuple[int, tuple[str, ...]] = field(repr=False)  # from where the rival has which labels

    @property
    def rival(self) -> tuple[str, ...]:
        """All labels of the rival; empty without a rival."""
        start, changed = self.change
        return (
            self.labels[:start] + changed + self.labels[start + len(changed) :] if changed else ()
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; the margin is None if infinite."""
        return {
            "position": self.position,
            "token": self.token,
            "label": self.label,
            "prob": self.prob,
            "runner_up": self.runner_up,
            "runner_up_prob": self.runner_up_prob,
            "rival": list(self.rival),
            "margin": self.margin if math.isfinite(self.margin) else None,
            "reasons": [{**asdict(reason), "value": reason.value} for reason in self.reasons],
        }


@dataclass(frozen=True, repr=False)
class Explanation(Sequence[Decision]):
    """Why each token of a sentence has its label: a sequence of `Decision` that prints as tables.

    Attributes
    ----------
    tokens, labels : tuple of str
    score : float
        Of the best path, as `Trellis.path_score` gives it.
    prob : float
        The probability of the best path.
    decisions : tuple of Decision
        One for each token, or for each of the chosen positions.
    """

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    score: float
    prob: float
    decisions: tuple[Decision, ...]

    def __len__(self) -> int:
        return len(self.decisions)

    def __getitem__(self, index: Any) -> Any:
        return self.decisions[index]

    def __repr__(self) -> str:
        pairs = zip(self.tokens, self.labels, strict=True)
        return f"<Explanation: {' '.join(f'{token}/{label}' for token, label in pairs)}>"

    def __str__(self) -> str:
        return self.to_text()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return {
            "tokens": list(self.tokens),
            "labels": list(self.labels),
            "score": self.score,
            "prob": self.prob,
            "decisions": [decision.to_dict() for decision in self.decisions],
        }

    def to_text(self, n: int = _SHOWN) -> str:
        """Write everything as text for a terminal.

        Parameters
        ----------
        n : int
            Number of reasons to show of each token; the others are summed.

        Returns
        -------
        str
        """
        parts = [self._summary().text()]
        for decision in self.decisions:
            if decision.reasons:
                rows = [_cells(row) for row in self._rows(decision, n)]
                reasons = Table(_HEADER, rows, texts=(1, 2, 3, 4)).text()
                parts.append(f"{_title(decision)}\n" + _indented(reasons))
        return "\n\n".join(parts)

    def to_html(self, n: int = _SHOWN) -> str:
        """Write everything as self-contained HTML; the reasons of each token unfold.

        Parameters
        ----------
        n : int
            Number of reasons to show of each token; the others are summed.

        Returns
        -------
        str
            One ``<div>``.
        """
        from html import escape

        parts = [self._summary().html()]
        for decision in self.decisions:
            if not decision.reasons:
                continue
            rows = self._rows(decision, n)
            most = max(abs(row[0]) for row in rows) or 1.0
            head = "".join(f"<th>{escape(name)}</th>" for name in ("", *_HEADER))
            body = "".join(
                f"<tr><td>{_bar(row[0] / most)}</td>"
                + "".join(f"<td>{escape(str(cell))}</td>" for cell in _cells(row))
                + "</tr>"
                for row in rows
            )
            parts.append(
                f"<details><summary>{escape(_title(decision))}</summary>"
                f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details>"
            )
        return f'<div class="tagloom-explanation">{"".join(parts)}</div>'

    def _repr_html_(self) -> str:
        return self.to_html()

    def _summary(self) -> Table:
        rows: list[list[Cell]] = []
        for d in self.decisions:
            if d.runner_up is None:
                rows.append([d.token, d.label, d.prob, "none", None, None])
            else:
                rows.append(
                    [d.token, d.label, d.prob, d.runner_up, d.runner_up_prob, f"{d.margin:+.2f}"]
                )
        header = ["token", "label", "prob", "runner-up", "prob", "by"]
        return Table(header, rows, texts=(0, 1, 3))

    def _rows(self, decision: Decision, n: int) -> list[_Row]:
        """List the strongest reasons of a decision, and the sum of the others."""
        at = [*self.tokens, STOP]
        rows = [(r.value, r.name, r.label, r.rival, at[r.position]) for r in decision.reasons[:n]]
        if rest := decision.reasons[n:]:
            rows.append((math.fsum(r.value for r in rest), f"{len(rest)} others", "", "", ""))
        return rows


_Row = tuple[float, str, str, str, str]
_HEADER = ["by", "what", "best path", "runner-up", "at"]


def _cells(row: _Row) -> list[Cell]:
    return [f"{row[0]:+.3f}", *row[1:]]


def _title(decision: Decision) -> str:
    return (
        f"{decision.token}: {decision.label}, not {decision.runner_up}, by {decision.margin:+.3f}"
    )


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _bar(share: float) -> str:
    """Draw a bar: to the right, in blue, for terms that favour the best path; else to the left."""
    width = 40 * abs(share)
    x, colour = (40.0, "#3b82f6") if share >= 0 else (40 - width, "#ea580c")
    return (
        '<svg width="80" height="10" role="img">'
        f'<rect x="{x:.1f}" width="{width:.1f}" height="10" fill="{colour}"/></svg>'
    )


# ---- computing an explanation --------------------------------------------------------------


def explain(
    tokens: Sequence[str],
    trellis: Trellis,
    path: Int32,
    parts: Parts,
    names: Sequence[str],
    positions: Sequence[int] | None = None,
) -> Explanation:
    """Compare the best path of a sentence with the best path that differs at each token.

    Parameters
    ----------
    tokens : sequence of str
        The names of the T tokens.
    trellis : Trellis
        A single one.
    path : ndarray of int, shape (T,)
        Its best path.
    parts : callable
        Names the terms of ``emit[t, y] + edge[t, y_prev, y]``.
    names : sequence of str
        Of the Y labels.
    positions : sequence of int, optional
        The tokens to explain; all by default.

    Returns
    -------
    Explanation
    """
    positions = range(len(path)) if positions is None else positions
    trellis, label_ids = trellis.narrow()  # pruned labels are not rivals
    names = [names[y] for y in label_ids.tolist()]
    path = np.searchsorted(label_ids, path).astype(np.int32)
    labels = tuple(names[y] for y in path.tolist())
    best = float(trellis.path_score(path))
    prob = math.exp(float(trellis.log_prob(path)))
    numbers = label_ids.tolist()

    def of_labels(t: int, y_prev: int | None, y: int) -> Iterable[Part]:
        return parts(t, None if y_prev is None else numbers[y_prev], numbers[y])

    decisions: tuple[Decision, ...] = ()
    if positions:
        decisions = _decide(tokens, trellis, path, of_labels, names, labels, positions)
    return Explanation(tuple(tokens), labels, best, prob, decisions)


def _decide(
    tokens: Sequence[str],
    trellis: Trellis,
    path: Int32,
    parts: Parts,
    names: Sequence[str],
    labels: tuple[str, ...],
    positions: Sequence[int],
) -> tuple[Decision, ...]:
    """Compare the best path with each of its rivals."""
    gamma = trellis.marginals()  # [T, Y]
    rivals = Rivals(trellis, path)
    terms = _Terms(rivals, parts, names)
    decisions = []
    for t in positions:
        y = int(path[t])
        rival = rivals.find(t)
        margin, other, change = math.inf, None, ()
        reasons: tuple[Reason, ...] = ()
        if rival is not None:
            margin = rivals.margin(rival)
            ids = rivals.space.state_labels[rival.states].tolist()
            other, change = ids[t - rival.start], tuple(names[y] for y in ids)
            reasons = terms.compare(rival, margin, t)
        decisions.append(
            Decision(
                position=t,
                token=tokens[t],
                label=names[y],
                prob=float(gamma[t, y]),
                runner_up=None if other is None else names[other],
                runner_up_prob=0.0 if other is None else float(gamma[t, other]),
                margin=margin,
                reasons=reasons,
                labels=labels,
                change=(0 if rival is None else rival.start, change),
            )
        )
    return tuple(decisions)


class _Terms:
    """The terms in which other paths through a trellis differ from its best one, by name."""

    def __init__(self, rivals: Rivals, parts: Parts, names: Sequence[str]) -> None:
        self.trellis, self.space, self.names = rivals.trellis, rivals.space, names
        self.parts = cache(lambda *step: tuple(parts(*step)))  # rivals share many transitions
        self.path, self.states = rivals.path.tolist(), rivals.states
        # Copies of both, changed while a rival is compared, so that a long sentence is not copied.
        self.rival, self.rival_states = list(self.path), list(self.states)

    @cached_property
    def transition_number(self) -> dict[tuple[int, int], int]:
        """The number of each transition, by its two states."""
        pairs = zip(self.space.src.tolist(), self.space.dst.tolist(), strict=True)
        return {pair: m for m, pair in enumerate(pairs)}

    def compare(self, change: Rival, margin: float, at: int) -> tuple[Reason, ...]:
        """List the terms that differ, the strongest first; they sum to the margin."""
        path, states = self.path, self.states
        rival, rival_states = self.rival, self.rival_states
        window = slice(change.start, change.end)
        rival[window] = self.space.state_labels[change.states].tolist()
        rival_states[window] = change.states
        sums: dict[tuple[int, str, int], list[float]] = {}  # (t, name, n_labels) -> the two weights
        for t in range(change.start, change.end + 1):  # the transition into `end` differs, too
            for side, both in enumerate([(path, states), (rival, rival_states)]):
                for part in self.of_transition(t, *both):
                    weights = sums.setdefault((t, part.name, part.n_labels), [0.0, 0.0])
                    weights[side] += part.value
        reasons = [
            Reason(t, name, self._shown(path, t, n), self._shown(rival, t, n), *weights)
            for (t, name, n), weights in sums.items()
            if weights[0] != weights[1]
        ]
        rival[window], rival_states[window] = path[window], states[window]
        reasons.sort(key=lambda reason: -abs(reason.value))
        terms = [term for reason in reasons for term in (reason.weight, -reason.rival_weight)]
        rounding = margin - math.fsum(terms)
        if abs(rounding) > _EXACT * math.fsum(map(abs, terms)):
            reasons.append(Reason(at, ROUNDING, "", "", rounding, 0.0))
        return tuple(reasons)

    def of_transition(self, t: int, path: list[int], states: list[int]) -> Iterator[Part]:
        """List the terms of the transition into position t; of the stop, if t is the end."""
        trellis, space = self.trellis, self.space
        if t == len(path):
            if trellis.stop is not None:
                yield Part(TRANSITION, float(trellis.stop[path[-1]]), 2)
            return
        y, y_prev = path[t], path[t - 1] if t else None
        yield from self.parts(t, y_prev, y)
        scores = trellis.start if y_prev is None else trellis.trans
        if scores is not None:
            yield Part(TRANSITION, float(scores[y] if y_prev is None else scores[y_prev, y]), 2)
        if trellis.weights is None:
            return
        if y_prev is None:
            indptr, ids, m = space.start_tie_indptr, space.start_tie_ids, states[0]
        else:
            indptr, ids = space.tie_indptr, space.tie_ids
            m = self.transition_number[states[t - 1], states[t]]
        for i in ids[indptr[m] : indptr[m + 1]].tolist():
            name, n_labels = self._tied(i)
            yield Part(name, float(trellis.weights[i]), n_labels)

    def _tied(self, i: int) -> tuple[str, int]:
        """Name a weight that the state space ties to its transitions, and count its labels."""
        groups = self.space.weight_slices.items()
        group, start = next((name, at.start) for name, at in groups if at.start <= i < at.stop)
        if group in self.space.ngrams:
            return group, len(self.space.ngrams[group][i - start])
        shape = self.space.weight_groups[group]
        if group.startswith("ngram"):
            return group, len(shape)
        place = ", ".join(str(j) for j in np.unravel_index(i - start, shape))
        return f"{group}[{place}]", 1

    def _shown(self, path: list[int], t: int, n: int) -> str:
        """Write the last n labels up to position t, with <start> and <stop> at the ends."""
        first = max(t + 1 - n, -1)
        labels = [self.names[y] for y in path[max(first, 0) : t + 1]]
        *before, last = [START] * (first < 0) + labels + [STOP] * (t == len(path))
        return f"{' '.join(before)} → {last}" if before else last
