"""``tagloom eval --report``: an evaluation as one page, from scores to single sentences.

The page is self-contained. All text from the corpus is escaped, since it may contain HTML.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tagloom.cli.pages import document
from tagloom.evaluation.tables import Cell, Table

if TYPE_CHECKING:
    from tagloom.evaluation import Evaluation, Reliability
    from tagloom.models import Tagger
    from tagloom.sequences import Corpus

MOST_LABELS = 30  # in the confusion matrix
MOST_KINDS, MOST_EXAMPLES = 15, 5  # of mistakes
MOST_WORDS = 25
MOST_SENTENCES, LONGEST = 5, 40  # sentences drawn as a trellis, and their length
LEAST_PROB = 0.02  # of the states in such a drawing
AROUND = 6  # tokens shown on each side of a mistake
BATCH = 500  # sentences scored at once


class Mistake(NamedTuple):
    """A token with a wrong label."""

    sentence: int
    token: int
    gold: str
    predicted: str


@dataclass(frozen=True)
class Case:
    """The data of a report.

    Attributes
    ----------
    result : Evaluation
    sentences : Corpus
    gold, predicted : list of list of str
        The labels of each sentence.
    tagger : Tagger or None
        The tagger that predicted; the report has probabilities only with it.
    words : set of str or None
        The words of the training data.
    """

    result: Evaluation
    sentences: Corpus
    gold: list[list[str]]
    predicted: list[list[str]]
    tagger: Tagger | None
    words: set[str] | None

    @cached_property
    def mistakes(self) -> list[Mistake]:
        """All tokens with a wrong label."""
        return [
            Mistake(i, t, y, z)
            for i, labels in enumerate(zip(self.gold, self.predicted, strict=True))
            for t, (y, z) in enumerate(zip(*labels, strict=True))
            if y != z
        ]


def make_report(case: Case, title: str) -> str:
    """Build the page.

    Parameters
    ----------
    case : Case
    title : str

    Returns
    -------
    str
        HTML.
    """
    sections = [
        _scores(case),
        _confusion(case),
        _mistakes(case),
        _unknown_words(case),
        *([] if case.tagger is None else [_reliability(case), _worst_sentences(case)]),
    ]
    return document(title, "\n".join(sections))


# ---- sections ------------------------------------------------------------------------------


def _scores(case: Case) -> str:
    return f'<section><h2>Scores</h2><div class="wide">{case.result._repr_html_()}</div></section>'


def _confusion(case: Case) -> str:
    result = case.result
    weight = result.confusion.sum(axis=0) + result.confusion.sum(axis=1)  # [Y]
    kept = np.sort(np.argsort(-weight, kind="stable")[:MOST_LABELS])
    picture = confusion_svg(
        [result.labels[y] for y in kept], result.confusion[np.ix_(kept, kept)].tolist()
    )
    left_out = len(result.labels) - len(kept)
    note = f" The {left_out} rarest labels are left out." if left_out else ""
    return (
        "<section><h2>Confusion matrix</h2>"
        '<p class="soft">Numbers of tokens: one row per gold label, one column per predicted '
        f"label. Darker cells are a larger share of their row.{note}</p>"
        f'<div class="wide">{picture}</div></section>'
    )


def _mistakes(case: Case) -> str:
    kinds = Counter((m.gold, m.predicted) for m in case.mistakes)
    if not kinds:
        return "<section><h2>Mistakes</h2><p>None.</p></section>"
    examples: dict[tuple[str, str], list[Mistake]] = {}
    for mistake in case.mistakes:
        alike = examples.setdefault((mistake.gold, mistake.predicted), [])
        if len(alike) < MOST_EXAMPLES:
            alike.append(mistake)
    parts = []
    for kind, n in kinds.most_common(MOST_KINDS):
        items = "".join(f"<li>{_in_context(case, m)}</li>" for m in examples[kind])
        gold, predicted = map(escape, kind)
        parts.append(
            f"<details><summary>{gold} → {predicted}: {n:,}</summary><ul>{items}</ul></details>"
        )
    more = len(kinds) - MOST_KINDS
    note = f'<p class="soft">and {more:,} rarer kinds.</p>' if more > 0 else ""
    return (
        "<section><h2>Mistakes, gold → predicted</h2>"
        f"<p>{len(case.mistakes):,} tokens have a wrong label.</p>{''.join(parts)}{note}</section>"
    )


def _in_context(case: Case, mistake: Mistake) -> str:
    tokens = case.sentences[mistake.sentence].tokens
    first, last = max(mistake.token - AROUND, 0), mistake.token + AROUND + 1
    shown = [escape(token) for token in tokens[first:last]]
    shown[mistake.token - first] = f"<mark>{shown[mistake.token - first]}</mark>"
    before, after = "… " if first else "", " …" if last < len(tokens) else ""
    return (
        f'{before}{" ".join(shown)}{after} <span class="soft">(sentence {mistake.sentence})</span>'
    )


def _unknown_words(case: Case) -> str:
    heading = "<section><h2>Unknown words</h2>"
    if case.words is None:
        return (
            f'{heading}<p class="soft">Pass --train FILE, the training data, to see scores for '
            "unknown words.</p></section>"
        )
    seen: Counter[str] = Counter(
        word for tokens in case.sentences.tokens for word in tokens if word not in case.words
    )
    wrong: dict[str, Counter[str]] = {}
    for i, t, gold, predicted in case.mistakes:
        word = case.sentences[i].tokens[t]
        if word in seen:
            wrong.setdefault(word, Counter())[f"{gold} → {predicted}"] += 1
    n, n_wrong = seen.total(), sum(kinds.total() for kinds in wrong.values())
    summary = f"{n:,} tokens, {len(seen):,} words, do not occur in the training data"
    if not n:
        return f"{heading}<p>Every word occurs in the training data.</p></section>"
    rows: list[list[Cell]] = [
        [word, seen[word], wrong[word].total(), ", ".join(wrong[word])]
        for word in sorted(wrong, key=lambda word: (-wrong[word].total(), word))[:MOST_WORDS]
    ]
    header = ["word", "tokens", "wrong", "gold → predicted"]
    table = Table(header, rows, texts=(0, 3)).html() if rows else ""
    return (
        f"{heading}<p>{summary}; {n_wrong:,} of the tokens have a wrong label "
        f'({n_wrong / n:.1%}).</p><div class="wide">{table}</div></section>'
    )


def _reliability(case: Case) -> str:
    assert case.tagger is not None
    result = case.tagger.reliability(case.sentences, case.gold)
    return (
        "<section><h2>Reliability</h2>"
        '<p class="soft">The share of right labels among those predicted with a given probability. '
        "On the line the model is calibrated; below it, it is overconfident. The size of a dot "
        "shows the number of tokens.</p>"
        f"{reliability_svg(result)}{result._repr_html_()}</section>"
    )


def _worst_sentences(case: Case) -> str:
    worst = _least_probable(case)
    parts = [_drawn(case, i, log_prob) for i, log_prob in worst]
    body = "".join(parts) or "<p>All labels are right.</p>"
    return (
        "<section><h2>The worst sentences</h2>"
        '<p class="soft">Sentences with a mistake whose gold labels have the lowest mean log '
        f"probability per token, up to {LONGEST} tokens long. Each node shows the probability of a "
        "label; the best path is bold.</p>"
        f"{body}</section>"
    )


def _least_probable(case: Case) -> list[tuple[int, float]]:
    """Return the index and the log probability of the gold labels of the worst sentences."""
    assert case.tagger is not None
    place = {label: y for y, label in enumerate(case.tagger.labels_.tolist())}
    numbers = sorted({m.sentence for m in case.mistakes if len(case.gold[m.sentence]) <= LONGEST})
    ranked: list[tuple[float, int, float]] = []  # mean log probability, index, log probability
    for first in range(0, len(numbers), BATCH):
        batch = numbers[first : first + BATCH]
        trellis = case.tagger.trellis([case.sentences[i] for i in batch])
        paths = [[place.get(label, -1) for label in case.gold[i]] for i in batch]
        log_probs = trellis.log_prob([[max(y, 0) for y in path] for path in paths]).tolist()
        for i, path, log_prob in zip(batch, paths, log_probs, strict=True):
            value = -math.inf if min(path) < 0 else log_prob  # a label that the model lacks
            ranked.append((value / len(path), i, value))
    return [(i, value) for _, i, value in sorted(ranked)[:MOST_SENTENCES]]


def _drawn(case: Case, i: int, log_prob: float) -> str:
    assert case.tagger is not None
    sentence = case.sentences[i]
    trellis = case.tagger.trellis([sentence])[0]
    gamma = trellis.marginals()  # [T, Y]
    place = {label: y for y, label in enumerate(case.tagger.labels_.tolist())}
    rows: list[list[Cell]] = [
        [token, gold, predicted]
        + [float(gamma[t, place[y]]) if y in place else 0.0 for y in (gold, predicted)]
        for t, (token, gold, predicted) in enumerate(
            zip(sentence.tokens, case.gold[i], case.predicted[i], strict=True)
        )
        if gold != predicted
    ]
    header = ["wrong", "gold", "predicted", "prob of gold", "prob of predicted"]
    picture = trellis.draw("marginals", tokens=sentence.tokens, format="svg", min_prob=LEAST_PROB)
    chance = "0" if log_prob == -math.inf else f"{math.exp(log_prob):.2g}"
    words = escape(" ".join(sentence.tokens))
    return (
        f"<h3>{words}</h3><p>Sentence {i}: the gold labels have probability {chance}.</p>"
        f'{Table(header, rows, texts=(0, 1, 2)).html()}<div class="wide">{picture}</div>'
    )


# ---- pictures ------------------------------------------------------------------------------


def confusion_svg(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Draw a matrix of counts [gold, predicted], with right labels blue and wrong ones orange.

    Parameters
    ----------
    labels : sequence of str
        The Y labels.
    counts : sequence of sequence of int, shape (Y, Y)

    Returns
    -------
    str
        One ``<svg>`` element, with a tooltip on each cell.
    """
    cell, margin = 34, 24 + 8 * max(map(len, labels), default=0)
    size = margin + cell * len(labels) + 8
    out = [
        f'<svg viewBox="0 0 {size} {size}" width="{size}" height="{size}" role="img" '
        'aria-label="confusion matrix" font-size="12" fill="currentColor">'
    ]
    for y, label in enumerate(labels):
        middle = margin + cell * y + cell / 2
        name = escape(label)
        out.append(
            f'<text x="{margin - 8}" y="{middle + 4}" text-anchor="end">{name}</text>'
            f'<text transform="translate({middle + 4} {margin - 8}) rotate(-90)">{name}</text>'
        )
    for g, row in enumerate(counts):
        total = sum(row)
        for p, n in enumerate(row):
            x, y = margin + cell * p, margin + cell * g
            share = n / total if total else 0.0
            colour = "#3b82f6" if g == p else "#ea580c"
            # The square root keeps rare mistakes visible beside a strong diagonal.
            opacity = 0.85 * math.sqrt(share)
            title = f"gold {labels[g]}, predicted {labels[p]}: {n:,} ({share:.1%})"
            number = _number(x + cell / 2, y + cell / 2 + 4, n) if n else ""
            out.append(
                f"<g><title>{escape(title)}</title>"
                f'<rect x="{x + 1}" y="{y + 1}" width="{cell - 2}" height="{cell - 2}" rx="3" '
                f'fill="{colour}" fill-opacity="{opacity:.3f}" stroke="currentColor" '
                f'stroke-opacity="0.12"/>{number}</g>'
            )
    return "\n".join([*out, "</svg>"])


def _number(x: float, y: float, n: int) -> str:
    """Draw a count in a form that fits into a cell: 999, 1.5k, 12k."""
    text = str(n)
    if n >= 1000:
        size, letter = (10**6, "M") if n >= 10**6 else (10**3, "k")
        text = f"{n / size:.{1 if n < 10 * size else 0}f}{letter}"
    return f'<text x="{x}" y="{y}" text-anchor="middle">{text}</text>'


def reliability_svg(result: Reliability) -> str:
    """Draw accuracy over confidence: a dot for each bin, and the line of perfect calibration.

    Parameters
    ----------
    result : Reliability

    Returns
    -------
    str
        One ``<svg>`` element, with a tooltip on each dot.
    """
    side, margin = 300, 46

    def x(value: float) -> float:
        return margin + side * value

    def y(value: float) -> float:
        return 10 + side * (1 - value)

    width, height = margin + side + 20, side + 56
    out = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="reliability plot" font-size="12" fill="currentColor">',
        f'<rect x="{x(0)}" y="{y(1)}" width="{side}" height="{side}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.3"/>',
        f'<line x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}" stroke="currentColor" '
        'stroke-opacity="0.5" stroke-dasharray="4 4"/>',
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        out.append(
            f'<text x="{x(tick)}" y="{y(0) + 16}" text-anchor="middle">{tick:g}</text>'
            f'<text x="{x(0) - 6}" y="{y(tick) + 4}" text-anchor="end">{tick:g}</text>'
        )
    out.append(
        f'<text x="{x(0.5)}" y="{y(0) + 36}" text-anchor="middle">probability</text>'
        f'<text transform="translate(14 {y(0.5)}) rotate(-90)" text-anchor="middle">right</text>'
    )
    filled = [bin for bin in result.bins if bin.n]
    points = " ".join(f"{x(bin.confidence):.1f},{y(bin.accuracy):.1f}" for bin in filled)
    out.append(f'<polyline points="{points}" fill="none" stroke="#3b82f6" stroke-width="2"/>')
    for bin in filled:
        radius = 3 + 9 * math.sqrt(bin.n / result.n)
        title = f"{bin.n:,} tokens: probability {bin.confidence:.3f}, right {bin.accuracy:.3f}"
        out.append(
            f'<circle cx="{x(bin.confidence):.1f}" cy="{y(bin.accuracy):.1f}" r="{radius:.1f}" '
            f'fill="#3b82f6" fill-opacity="0.7"><title>{escape(title)}</title></circle>'
        )
    return "\n".join([*out, "</svg>"])
