"""Segments as a picture: brackets under the positions that they cover.

`rows_of` puts segments into rows in which none overlap. `draw_text` turns the rows into a picture
for a terminal, `draw_svg` into one for a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tagloom import checks
from tagloom.errors import ShapeError
from tagloom.trellis.draw import cell_width, printable

if TYPE_CHECKING:
    from tagloom.trellis.segments import SegmentTrellis

# More brackets than this are hard to read; the most probable are drawn.
MAX_SEGMENTS = 200


class DrawnSegment(NamedTuple):
    """A bracket: the positions that it covers, its text, and how much it stands out."""

    start: int
    end: int
    text: str
    prob: float = 1.0
    is_best: bool = True


def draw_segments(
    trellis: SegmentTrellis, show: str, tokens: Sequence[str] | None, format: str, least: float
) -> str:
    """Draw a single trellis of segments; see `SegmentTrellis.draw`."""
    checks.choice(format, "format", ("text", "svg"))
    checks.choice(show, "show", ("best", "marginals"))
    least = checks.number(least, "min_prob", least=0, most=1)
    if trellis.is_batch:
        raise ShapeError(
            where="draw",
            expected="a single trellis",
            found=f"a batch of {len(trellis)}",
            hint="Index the batch: trellis[0].draw().",
        )
    T = int(trellis.offsets[-1])
    names = [str(t) for t in range(T)] if tokens is None else [printable(x) for x in tokens]
    if len(names) != T:
        expected = f"{T} names, one per position"
        raise ShapeError(parameter="tokens", expected=expected, found=str(len(names)))
    rows = rows_of(_chosen(trellis, show, least))
    return draw_svg(names, rows) if format == "svg" else draw_text(names, rows)


def _chosen(trellis: SegmentTrellis, show: str, least: float) -> list[DrawnSegment]:
    """List the segments to draw: those of the best segmentation first, then by probability."""
    best = trellis.segments(trellis.viterbi(on_infeasible="none").path)
    if show == "best":
        return [DrawnSegment(start, end, str(label)) for start, end, label in best]
    names: Sequence[object] = trellis.labels or range(trellis.n_labels)
    marginals = trellis.marginals(on_infeasible="none")
    in_best = {(start, end, label) for start, end, label in best}
    drawn = []
    for t, l, y in np.argwhere(marginals > 0).tolist():
        prob, label = float(marginals[t, l, y]), names[y]
        is_best = (t, t + l + 1, label) in in_best
        if is_best or prob >= least:
            drawn.append(DrawnSegment(t, t + l + 1, f"{label} {prob:.2f}", prob, is_best))
    drawn.sort(key=lambda one: (not one.is_best, -one.prob, one.start))
    return drawn[:MAX_SEGMENTS]


def rows_of(segments: Sequence[DrawnSegment]) -> list[list[DrawnSegment]]:
    """Put each segment into the first row in which it overlaps no other.

    Examples
    --------
    >>> rows = rows_of([DrawnSegment(0, 2, "A"), DrawnSegment(1, 3, "B"), DrawnSegment(2, 3, "C")])
    >>> [[one.text for one in row] for row in rows]
    [['A', 'C'], ['B']]
    """
    rows: list[list[DrawnSegment]] = []
    for one in segments:
        for row in rows:
            if all(one.end <= other.start or other.end <= one.start for other in row):
                row.append(one)
                break
        else:
            rows.append([one])
    return rows


def draw_text(tokens: Sequence[str], rows: Sequence[Sequence[DrawnSegment]]) -> str:
    """Draw brackets with box characters, ``└─LOC─┘``, under a line of tokens."""
    widths = [cell_width(token) for token in tokens]  # of each column, without the gap after it
    gap = 2
    for one in sorted((one for row in rows for one in row), key=lambda one: one.end - one.start):
        room = sum(widths[one.start : one.end]) + gap * (one.end - one.start - 1)
        widths[one.end - 1] += max(0, cell_width(one.text) + 2 - room)
    starts = [sum(widths[:t]) + gap * t for t in range(len(tokens))]
    lines = [
        "".join(
            token + " " * (w - cell_width(token) + gap)
            for token, w in zip(tokens, widths, strict=True)
        )
    ]
    for row in rows:
        line, at = "", 0
        for one in sorted(row, key=lambda one: one.start):
            room = starts[one.end - 1] + widths[one.end - 1] - starts[one.start] - 2
            left = (room - cell_width(one.text)) // 2
            right = room - cell_width(one.text) - left
            line += " " * (starts[one.start] - at) + f"└{'─' * left}{one.text}{'─' * right}┘"
            at = starts[one.start] + room + 2
        lines.append(line)
    return "\n".join(line.rstrip() for line in lines)


def draw_svg(tokens: Sequence[str], rows: Sequence[Sequence[DrawnSegment]]) -> str:
    """Draw brackets as lines; those of the best segmentation are thick and dark."""
    letter, gap, line = 8, 14, 26
    widths = [max(cell_width(token), 2) * letter for token in tokens]
    for one in sorted((one for row in rows for one in row), key=lambda one: one.end - one.start):
        room = sum(widths[one.start : one.end]) + gap * (one.end - one.start - 1)
        widths[one.end - 1] += max(0, cell_width(one.text) * (letter - 1) + 6 - room)
    starts = [gap + sum(widths[:t]) + gap * t for t in range(len(tokens))]
    total = gap + sum(widths) + gap * len(tokens)
    height = 34 + line * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height}" '
        f'viewBox="0 0 {total} {height}" font-family="sans-serif" font-size="13" role="img" '
        'aria-label="segments">'
    ]
    for token, x, w in zip(tokens, starts, widths, strict=True):
        parts.append(
            f'<text x="{x + w / 2:g}" y="20" text-anchor="middle" fill="currentColor">'
            f"{escape(token)}</text>"
        )
    for r, row in enumerate(rows):
        y = 30 + line * r
        for one in row:
            x1, x2 = starts[one.start], starts[one.end - 1] + widths[one.end - 1]
            stroke = 2 if one.is_best else 1
            color = "#1f6feb" if one.is_best else "#888888"
            opacity = max(0.35, min(1.0, one.prob))
            parts.append(
                f'<path d="M{x1:g} {y} v6 H{x2:g} v-6" fill="none" stroke="{color}" '
                f'stroke-width="{stroke}" opacity="{opacity:.2f}"/>'
                f'<text x="{(x1 + x2) / 2:g}" y="{y + 19}" text-anchor="middle" font-size="11" '
                f'fill="{color}">{escape(one.text)}</text>'
            )
    return "".join([*parts, "</svg>"])
