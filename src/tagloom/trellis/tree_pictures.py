"""Dependency trees as pictures: words in a row with arcs above them (SVG), or in a column (text).

`draw_tree` checks what is to be drawn; `tree_text` and `tree_svg` draw heads, words and labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ShapeError
from tagloom.trellis.draw import _STYLE, _pad, _text, cell_width, printable

if TYPE_CHECKING:
    from tagloom.trellis.trees import TreeScores

Float64 = npt.NDArray[np.float64]

# Directions in which the line in a cell of the text picture leaves it, as bits.
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = {
    0: " ",
    _LEFT | _RIGHT: "─",
    _UP | _DOWN: "│",
    _LEFT | _DOWN: "┐",
    _LEFT | _UP: "┘",
    _LEFT | _UP | _DOWN: "┤",
    _LEFT | _RIGHT | _DOWN: "┬",
    _LEFT | _RIGHT | _UP: "┴",
    _LEFT | _RIGHT | _UP | _DOWN: "┼",
}


def draw_tree(
    trees: TreeScores,
    heads: npt.ArrayLike | None,
    tokens: Sequence[str] | None,
    labels: Sequence[str] | None,
    format: Literal["text", "svg"],
) -> str:
    """Draw a tree of a single sentence; see `TreeScores.draw`."""
    checks.choice(format, "format", ("text", "svg"))
    if trees.is_batch:
        raise TypeError("A batch cannot be drawn; draw one of its sentences: batch[i].draw().")
    T = int(trees.offsets[-1])
    chosen = trees.viterbi().heads if heads is None else np.asarray(heads)
    trees.path_score(chosen)  # raises unless they are heads
    words = [str(t + 1) for t in range(T)] if tokens is None else _names(tokens, T, "tokens")
    names = None if labels is None else _names(labels, T, "labels")
    if format == "text":
        return tree_text(chosen.tolist(), words, names)
    probs = trees.marginals() if trees.is_feasible() else np.ones((T, T + 1))
    by_word = np.asarray(probs, dtype=np.float64)[np.arange(T), chosen]
    return tree_svg(chosen.tolist(), words, names, by_word)


def _names(names: Sequence[str], T: int, parameter: str) -> list[str]:
    if isinstance(names, str) or len(names) != T:
        expected = f"{T} names, one per word"
        raise ShapeError(parameter=parameter, expected=expected, found=checks.show(names))
    return [printable(str(name)) for name in names]


def _levels(heads: Sequence[int]) -> dict[int, int]:
    """Return the height of the arc into each word that has a word as head, by position, from 1.

    An arc lies above all shorter ones that it overlaps, or meets without having their head.
    """
    spans = {t: (min(t, h - 1), max(t, h - 1)) for t, h in enumerate(heads) if h > 0}
    levels: dict[int, int] = {}
    for t in sorted(spans, key=lambda t: (spans[t][1] - spans[t][0], t)):
        lo, hi = spans[t]
        below = [
            level
            for u, level in levels.items()
            if (spans[u][0] < hi and lo < spans[u][1])
            or (heads[u] != heads[t] and spans[u][0] <= hi and lo <= spans[u][1])
        ]
        levels[t] = 1 + max(below, default=0)
    return levels


def tree_text(heads: Sequence[int], words: Sequence[str], labels: Sequence[str] | None) -> str:
    """Draw a tree with one line per word; arrows point from head to dependent.

    Examples
    --------
    >>> print(tree_text([2, 0, 2], ["they", "can", "fish"], ["nsubj", "root", "obj"]))
    they ◄─┐  nsubj
    can  ──┤  root
    fish ◄─┘  obj
    """
    levels = _levels(heads)
    width = 2 * max(levels.values(), default=0) + 1
    cells = [[0] * width for _ in words]
    for t, level in levels.items():
        column, ends = 2 * level, sorted((t, heads[t] - 1))
        for row in ends:
            for x in range(column):
                cells[row][x] |= _LEFT | _RIGHT
            cells[row][column] |= _LEFT
        for row in range(ends[0], ends[1]):
            cells[row][column] |= _DOWN
            cells[row + 1][column] |= _UP
    longest = max(map(cell_width, words), default=0)
    lines = []
    for t, word in enumerate(words):
        lined = [_LINES[cell] for cell in cells[t]]
        if t in levels:
            lined[0] = "◄"
        note = labels[t] if labels is not None else "root" if heads[t] == 0 else ""
        lines.append(f"{_pad(word, longest)} {''.join(lined)}  {note}".rstrip())
    return "\n".join(lines)


_TREE_STYLE = (
    ".tl-edge{stroke:#ea580c;stroke-width:2;fill:none}.tl-tip{fill:#ea580c}"
    "@media (prefers-color-scheme:dark){.tl-edge{stroke:#fb923c}.tl-tip{fill:#fb923c}}"
)
_ARC, _BASE = 34, 40  # height of a level, and room for the words


def tree_svg(
    heads: Sequence[int], words: Sequence[str], labels: Sequence[str] | None, probs: Float64
) -> str:
    """Draw a tree as a self-contained SVG, each arc as strong as it is probable.

    Examples
    --------
    >>> tree_svg([2, 0], ["they", "fish"], None, np.ones(2)).count('class="tl-edge"')
    2
    """
    levels = _levels(heads)
    names = list(labels) if labels is not None else [""] * len(words)
    pitches = [
        max(56.0, 9.0 * max(cell_width(a), cell_width(b)) + 24)
        for a, b in zip(words, names, strict=True)
    ]
    centres = np.cumsum([0.0, *pitches])[:-1] + np.array(pitches) / 2 + 12
    top = 24 + _ARC * max(levels.values(), default=1)
    width, height = sum(pitches) + 24, top + _BASE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape(' '.join(words))}</title><style>{_STYLE}{_TREE_STYLE}</style>",
        f'<rect class="tl-bg" width="{width:.0f}" height="{height:.0f}"/>',
    ]
    for t, head in enumerate(heads):
        parts.append(_arc(t, head, centres, top, levels, words, names[t], float(probs[t])))
    for x, word in zip(centres, words, strict=True):
        parts.append(_text(float(x), top + 24, word, "tl-t tl-name", "middle"))
    return "".join([*parts, "</svg>"])


def _arc(
    t: int,
    head: int,
    centres: Float64,
    top: float,
    levels: dict[int, int],
    words: Sequence[str],
    name: str,
    prob: float,
) -> str:
    """Return one arc with its tip and its name; the arc from the root comes from above."""
    x2, opacity = float(centres[t]), f' opacity="{0.25 + 0.75 * prob:.2f}"'
    if head == 0:
        path, x, y = f"M{x2:.1f} 14V{top - 6:.1f}", x2 + 6, 22.0
        anchor, shown, source = "start", name or "root", "root"
    else:
        step = 7 if head - 1 < t else -7  # leave room between arcs out of and into a word
        x1, x2 = float(centres[head - 1]) + step, x2 - step
        y = top - _ARC * levels[t]
        path = f"M{x1:.1f} {top:.1f}C{x1:.1f} {y:.1f} {x2:.1f} {y:.1f} {x2:.1f} {top - 6:.1f}"
        x, y, anchor, shown = (x1 + x2) / 2, y + _ARC / 4 - 5, "middle", name
        source = words[head - 1]
    title = f"{source} → {words[t]}{f', {name}' if name else ''}: probability {prob:.4f}"
    tip = f"M{x2 - 4:.1f} {top - 8:.1f}h8l-4 8z"
    label = _text(x, y, shown, "tl-t tl-soft tl-note", anchor) if shown else ""
    return (
        f'<g><title>{escape(title)}</title><path class="tl-edge" d="{path}"{opacity}/>'
        f'<path class="tl-tip" d="{tip}"{opacity}/>{label}</g>'
    )
