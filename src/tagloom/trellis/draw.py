"""The trellis as a picture: columns for positions, rows for states, the best path made bold.

`view_of` computes a `TrellisView`: names, numbers and a path. `draw_text` turns it into a picture
for a terminal, `draw_svg` into one for a page; both cut large trellises and note that in the
picture.
"""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape  # light; xml.sax would pull in urllib
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ShapeError

if TYPE_CHECKING:
    from tagloom.trellis.trellis import Trellis

Float64 = npt.NDArray[np.float64]

# Larger pictures are cut: 60 columns or 40 rows are already hard to read.
MAX_POSITIONS, MAX_STATES = 60, 40
# Light arcs in one picture; more would turn it grey, and make the file large.
MAX_ARCS = 3000


@dataclass(frozen=True)
class TrellisView:
    """The content of a picture of a trellis.

    Parameters
    ----------
    states : sequence of str, length S
        Names of the states, one row each.
    tokens : sequence of str, length T
        Names of the positions, one column each.
    nodes : ndarray, shape (T, S)
        The number in each node; −inf for a node that no path reaches.
    path : sequence of int, length T, or None
        State of the best path at each position; None if every path is impossible.
    score : float
        Score of the best path.
    show : {"scores", "marginals"}
        The meaning of ``nodes``.
    marginals : ndarray, shape (T, S), optional
        Probability of each node, for its colour; ``nodes`` themselves if they are marginals.
    edges : ndarray, shape (T, S, S), optional
        Number on each transition into position t, from → to; row 0 is not used. Transitions with
        −inf or probability 0 are not drawn. By default all transitions between nodes are drawn.
    n_hidden : int
        The number of further states that the view omits.
    min_prob : float
        Arcs with a smaller probability are not drawn.
    """

    states: Sequence[str]
    tokens: Sequence[str]
    nodes: npt.NDArray[Any]
    path: Sequence[int] | None
    score: float
    show: Literal["scores", "marginals"] = "scores"
    marginals: npt.NDArray[Any] | None = None
    edges: npt.NDArray[Any] | None = None
    n_hidden: int = 0
    min_prob: float = 0.0

    def __post_init__(self) -> None:
        T, S = len(self.tokens), len(self.states)
        shapes = {"nodes": (T, S), "marginals": (T, S), "edges": (T, S, S)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array is not None and np.shape(array) != shape:
                expected = f"of shape {shape} for {T} tokens and {S} states"
                raise ShapeError(parameter=name, expected=expected, found=str(np.shape(array)))
        if self.path is not None and len(self.path) != T:
            expected = f"{T} states, one per token"
            raise ShapeError(parameter="path", expected=expected, found=str(len(self.path)))
        checks.choice(self.show, "show", ("scores", "marginals"))


def draw_trellis(
    trellis: Trellis, show: str, tokens: Sequence[str] | None, format: str, color: bool, least: Any
) -> str:
    """Draw a single trellis; see `Trellis.draw`."""
    checks.choice(format, "format", ("text", "svg"))
    checks.choice(show, "show", ("scores", "marginals"))
    least = checks.number(least, "min_prob", least=0, most=1)
    if trellis.is_batch:
        raise ShapeError(
            where="draw",
            expected="a single trellis",
            found=f"a batch of {len(trellis)}",
            hint="Index the batch: trellis[0].draw().",
        )
    T = len(trellis.emit)
    tokens = [str(t) for t in range(T)] if tokens is None else list(tokens)
    if len(tokens) != T:
        expected = f"{T} names, one per position"
        raise ShapeError(parameter="tokens", expected=expected, found=str(len(tokens)))
    view = view_of(trellis, show, tokens, with_edges=format == "svg" and T <= 2000, least=least)
    return draw_svg(view) if format == "svg" else draw_text(view, color=color)


def view_of(
    trellis: Trellis, show: Any, tokens: Sequence[str], *, with_edges: bool, least: float
) -> TrellisView:
    """Compute the content of a picture of a single trellis."""
    space = trellis.states
    names = trellis.labels if trellis.labels and space.kind == "labels" else space.state_names
    best = trellis.viterbi(on_infeasible="none")
    feasible = best.score > -np.inf
    alpha, beta = trellis.forward(), trellis.backward()  # [T, S]
    log_z = trellis.log_partition()
    with np.errstate(invalid="ignore"):
        gamma = np.exp(alpha + beta - (log_z if feasible else 0.0))  # [T, S]
    path = space.state_path(best.path.tolist()) if feasible else None
    is_kept = gamma.max(axis=0, initial=0.0) >= least  # [S]
    if path is not None:
        is_kept[path] = True
    kept = np.flatnonzero(is_kept)
    edges = None
    if with_edges:
        edges = _transition_numbers(trellis, show, alpha, beta, log_z)[:, kept][:, :, kept]
    nodes = gamma if show == "marginals" else trellis.forward("max-plus")
    return TrellisView(
        states=[names[s] for s in kept],
        tokens=tokens,
        nodes=nodes[:, kept],
        path=None if path is None else np.searchsorted(kept, path).tolist(),
        score=best.score,
        show=show,
        marginals=gamma[:, kept],
        edges=edges,
        n_hidden=space.n_states - len(kept),
        min_prob=least,
    )


def _transition_numbers(
    trellis: Trellis, show: str, alpha: Float64, beta: Float64, log_z: float
) -> Float64:
    """Return the score or the probability of every transition between states [T, S, S].

    Row 0 is not used. Missing transitions have score −inf and probability 0.
    """
    T, space = len(trellis.emit), trellis.states
    label = space.state_labels
    edges = np.full((T, space.n_states, space.n_states), -np.inf)
    edges[:, space.src, space.dst] = trellis._transitions.transition_scores
    if trellis.edge is not None:
        edges[:, space.src, space.dst] += trellis.edge[:, label[space.src], label[space.dst]]
    if show == "marginals" and log_z > -np.inf:
        onward = (trellis.emit[1:, label] + beta[1:])[:, None, :]
        edges[1:] += alpha[:-1, :, None] + onward - log_z
        edges = np.exp(edges)
    return edges


# ---- cutting, and numbers as text ----------------------------------------------------------


@dataclass(frozen=True)
class _Cut:
    """The part of a view that is drawn."""

    positions: list[int | None]  # None is an ellipsis
    states: list[int]
    note: str  # "" if all is shown


def _cut(view: TrellisView) -> _Cut:
    T, S = len(view.tokens), len(view.states)
    positions: list[int | None] = list(range(T))
    states = list(range(S))
    parts = []
    if T > MAX_POSITIONS:
        tail = MAX_POSITIONS // 3
        positions = [*range(MAX_POSITIONS - tail), None, *range(T - tail, T)]
        parts.append(f"{MAX_POSITIONS} of {T} positions")
    if S > MAX_STATES:
        on_path = {view.path[t] for t in positions if t is not None} if view.path else set()
        states = sorted(sorted(states, key=lambda s: (s not in on_path, s))[:MAX_STATES])
    if len(states) < S + view.n_hidden:
        parts.append(f"{len(states)} of {S + view.n_hidden} states")
    return _Cut(positions, states, f"{' and '.join(parts)} shown" if parts else "")


def _number_format(view: TrellisView) -> Callable[[float], str]:
    """Return a function that formats numbers: all as integers, or all with 2 digits."""
    values = np.append(np.asarray(view.nodes, dtype=np.float64).ravel(), view.score)
    finite = values[np.isfinite(values)]
    whole = view.show == "scores" and np.array_equal(finite, np.round(finite))
    digits = 0 if whole else 2

    def text(value: float) -> str:
        if value == -math.inf:
            return "-∞"
        return f"{value:.3g}" if abs(value) >= 1e6 else f"{value:.{digits}f}"

    return text


def _ends(view: TrellisView) -> tuple[str, str]:
    """Return the text of the start and the stop node."""
    text = _number_format(view)
    if view.path is None:
        return ("0" if view.show == "scores" else "1"), text(-math.inf)
    return ("0", text(view.score)) if view.show == "scores" else ("1", "1")


def _caption(view: TrellisView) -> str:
    if view.path is None:
        return "no path is allowed"
    names = [printable(view.states[s]) for s in view.path]
    if len(names) > MAX_POSITIONS:
        names = [*names[:MAX_POSITIONS], "…"]
    score = _number_format(view)(view.score)
    return f"best path (score {score}): {' '.join(names) or '(empty)'}"


def printable(name: str, longest: int | None = None) -> str:
    """Return a name without control characters, cut to a length."""
    name = "".join(c if c.isprintable() else "�" for c in str(name))
    if longest is not None and len(name) > longest:
        return name[: longest - 1] + "…"
    return name


# ---- text -----------------------------------------------------------------------------------

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def draw_text(view: TrellisView, *, width: int = 80, color: bool = False) -> str:
    """Draw a trellis with box characters: the best path in brackets, joined by double lines.

    Parameters
    ----------
    view : TrellisView
    width : int
        Columns of the terminal; a longer trellis continues in further blocks.
    color : bool
        Make the best path bold and the rest dim, with ANSI codes.

    Returns
    -------
    str
        Without a newline at the end.

    Examples
    --------
    >>> import numpy as np
    >>> view = TrellisView(
    ...     ["N", "V"], ["they", "can", "fish"], np.array([[-3, -12], [-9, -5], [-9, -11]]),
    ...     path=[0, 1, 0], score=-10,
    ... )
    >>> print(draw_text(view))
       start   they    can    fish    stop
    N   0 ══════[-3]═╗  -9  ╔══[-9]═══ -10
    V           -12  ╚═[-5]═╝  -11
    <BLANKLINE>
    best path (score -10): N V N
    """
    cut = _cut(view)
    columns = _columns(view, cut)
    names = [printable(view.states[s], 20) for s in cut.states]
    margin = max(map(cell_width, names), default=0) + 2
    lines: list[str] = []
    for block in _blocks(columns, width - margin):
        if lines:
            lines.append("")
        lines.append(_line([(" " * margin, False), *_header(columns, block)], color))
        for row, name in enumerate(names):
            cells = [piece for i in block for piece in _cell(columns, i, row)]
            lines.append(_line([(_pad(name, margin), False), *cells], color))
        if len(cut.states) < len(view.states):
            lines.append("⋮")
    caption = textwrap.wrap(_caption(view), width, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join([*lines, "", *caption, *([f"({cut.note})"] if cut.note else [])])


@dataclass(frozen=True)
class _Column:
    """A column of a text trellis: start, a position, an ellipsis, or stop."""

    header: str
    cells: list[str]
    path_row: int | None  # the row of the best path
    is_node: bool = True  # start and stop are not

    @property
    def width(self) -> int:
        return max(cell_width(self.header), *(len(cell) + 2 for cell in self.cells))


def _columns(view: TrellisView, cut: _Cut) -> list[_Column]:
    text = _number_format(view)
    row_of = {s: row for row, s in enumerate(cut.states)}
    n_rows = len(cut.states)
    columns = []
    for t in cut.positions:
        if t is None:
            columns.append(_Column("…", ["…"] * n_rows, None))
        else:
            cells = [text(float(view.nodes[t, s])) for s in cut.states]
            path_row = None if view.path is None else row_of.get(view.path[t])
            columns.append(_Column(printable(view.tokens[t], 14), cells, path_row))
    # Start and stop are in the row where the path begins and ends.
    if not columns:
        rows: list[int | None] = [0, 0] if view.path is not None else [None, None]
    else:
        rows = [columns[0].path_row, columns[-1].path_row]
    ends = []
    for header, value, row in zip(("start", "stop"), _ends(view), rows, strict=True):
        cells = [""] * n_rows
        cells[row if row is not None else (n_rows - 1) // 2] = value
        ends.append(_Column(header, cells, row, is_node=False))
    return [ends[0], *columns, ends[1]]


def _blocks(columns: list[_Column], width: int) -> Iterator[list[int]]:
    """Cut the columns into blocks that fit, at least one column each."""
    block: list[int] = []
    used = 0
    for i, column in enumerate(columns):
        needed = column.width + _GUTTER
        if block and used + needed > width:
            yield block
            block, used = [], 0
        block.append(i)
        used += needed
    yield block


_GUTTER = 3  # between two columns, where the path changes rows
_Piece = tuple[str, bool]  # characters, and whether they belong to the best path


def _header(columns: list[_Column], block: list[int]) -> Iterator[_Piece]:
    for i in block:
        if i > 0:
            yield " " * _GUTTER, False
        yield _centre(columns[i].header, columns[i].width), False


def _cell(columns: list[_Column], i: int, row: int) -> Iterator[_Piece]:
    """Yield the gutter before a column, and the column's cell."""
    column = columns[i]
    if i > 0:
        gutter = _gutter(columns[i - 1].path_row, column.path_row, row)
        yield gutter, gutter != " " * _GUTTER
    value, width = column.cells[row], column.width
    if column.is_node:  # numbers of a column are right-aligned, and the path runs through
        longest = max(map(len, column.cells)) + 2
        if column.path_row == row:
            yield _centre(f"[{value}]".rjust(longest, "═"), width, "═", "═"), True
        else:
            yield _centre(f" {value} ".rjust(longest), width), False
    elif column.path_row == row:
        yield (_centre(f"{value} ", width, " ", "═") if i == 0 else _pad(f" {value}", width)), True
    else:
        yield (_centre(value, width) if i == 0 else _pad(f" {value}", width)), False


def _gutter(before: int | None, after: int | None, row: int) -> str:
    """Return the part of the path's line between two columns in one row."""
    if before is None or after is None or not min(before, after) <= row <= max(before, after):
        return "   "
    if before == after:
        return "═══"
    down = before < after
    if row == before:
        return "═╗ " if down else "═╝ "
    if row == after:
        return " ╚═" if down else " ╔═"
    return " ║ "


def _line(pieces: list[_Piece], color: bool) -> str:
    if not color:
        return "".join(piece for piece, _ in pieces).rstrip()
    while pieces and not pieces[-1][0].strip():
        pieces.pop()
    return "".join(
        f"{_BOLD if on_path else _DIM}{piece}{_PLAIN}" if piece.strip() else piece
        for piece, on_path in pieces
    )


def cell_width(text: str) -> int:
    """Return the number of terminal cells of a string."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _pad(text: str, width: int) -> str:
    return text + " " * (width - cell_width(text))


def _centre(text: str, width: int, left: str = " ", right: str = " ") -> str:
    """Centre, filling with ``left`` and ``right``."""
    room = width - cell_width(text)
    before, after = room // 2, room - room // 2
    return left * before + text + right * after


# ---- SVG ------------------------------------------------------------------------------------

# Colours are set by class, on a fixed background, so that the picture looks the same in light and
# dark pages, and in viewers without CSS media queries.
_STYLE = """
.tl-bg{fill:#ffffff}.tl-t{fill:#1e293b;font-family:system-ui,-apple-system,'Segoe UI',Roboto,
'Helvetica Neue',Arial,sans-serif;font-size:13px;font-variant-numeric:tabular-nums}
.tl-name{font-weight:600}.tl-soft{fill:#64748b}.tl-note{font-size:12px}
.tl-arc{stroke:#cbd5e1;stroke-width:1.2;fill:none}
.tl-best{stroke:#ea580c;stroke-width:4;stroke-linecap:round;fill:none}
.tl-node{fill:#ffffff;stroke:#94a3b8;stroke-width:1.2}.tl-heat{fill:#3b82f6}
.tl-off{stroke-dasharray:3 3;stroke:#cbd5e1}.tl-on{stroke:#ea580c;stroke-width:3}
.tl-end{fill:#f1f5f9}.tl-strong{font-weight:600}
@media (prefers-color-scheme:dark){.tl-bg{fill:#0f172a}.tl-t{fill:#e2e8f0}.tl-soft{fill:#94a3b8}
.tl-arc{stroke:#334155}.tl-best,.tl-on{stroke:#fb923c}.tl-node{fill:#1e293b;stroke:#64748b}
.tl-heat{fill:#2563eb}.tl-off{stroke:#334155}.tl-on{stroke:#fb923c}.tl-end{fill:#334155}}
"""
_NODE_HEIGHT, _ROW, _TOP = 32, 62, 76


def draw_svg(view: TrellisView) -> str:
    """Draw a trellis as a self-contained SVG, with a tooltip on each node and transition.

    Nodes are coloured by their probability where the view has it; the best path is a thick line.

    Parameters
    ----------
    view : TrellisView

    Returns
    -------
    str
        One ``<svg>`` element.

    Examples
    --------
    >>> import numpy as np
    >>> view = TrellisView(
    ...     ["N", "V"], ["they", "can", "fish"], np.array([[-3, -12], [-9, -5], [-9, -11]]),
    ...     path=[0, 1, 0], score=-10,
    ... )
    >>> draw_svg(view).count('class="tl-best"')
    4
    """
    cut, text = _cut(view), _number_format(view)
    names = [printable(view.states[s], 24) for s in cut.states]
    tokens = ["…" if t is None else printable(view.tokens[t], 16) for t in cut.positions]
    starts, stops = _ends(view)
    numbers = [
        text(float(view.nodes[t, s])) for t in cut.positions if t is not None for s in cut.states
    ]

    node_width = max(40, max(map(len, [starts, stops, *numbers])) * 8 + 18)
    pitch = max(node_width + 72, max(map(cell_width, [*tokens, "start"])) * 8 + 22)
    left = 40 + max(map(cell_width, names), default=0) * 8 + node_width / 2
    xs = [left + i * pitch for i in range(len(tokens) + 2)]  # start, tokens, stop
    ys = {s: _TOP + row * _ROW for row, s in enumerate(cut.states)}
    middle = (_TOP + max(ys.values(), default=_TOP)) / 2
    width = xs[-1] + node_width / 2 + 26
    foot = max(ys.values(), default=_TOP) + 62
    height = foot + (40 if cut.note else 22)

    points: list[dict[int, tuple[float, float]]] = [  # per column, state -> centre of its node
        {} if t is None else {s: (x, ys[s]) for s in cut.states}
        for t, x in zip(cut.positions, xs[1:], strict=False)
    ]
    columns = [{-1: (xs[0], middle)}, *points, {-1: (xs[-1], middle)}]
    arcs, note = _arcs(view, cut, columns, node_width)
    notes = "; ".join(part for part in (cut.note, note) if part)
    caption = _caption(view)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label={_attribute(caption)}>',
        f"<style>{_STYLE}</style>",
        f'<rect class="tl-bg" width="{width:.0f}" height="{height:.0f}" rx="12"/>',
        *arcs,
        *_best_segments(view, cut, columns, node_width),
    ]
    for header, x in zip(["start", *tokens, "stop"], xs, strict=True):
        soft = " tl-soft" if x in (xs[0], xs[-1]) else " tl-name"
        out.append(_text(x, 34, header, f"tl-t{soft}", "middle"))
    for s, name in zip(cut.states, names, strict=True):
        out.append(_text(18, ys[s] + 4.5, name, "tl-t tl-name", "start"))
    out.append(_pill(xs[0], middle, starts, node_width, "tl-end", "start"))
    for t, column in zip(cut.positions, points, strict=True):
        for s, (x, y) in column.items():
            out.append(_node(view, t or 0, s, x, y, text, node_width))
    for i, t in enumerate(cut.positions):
        if t is None:
            out += [_text(xs[i + 1], y + 4.5, "…", "tl-t tl-soft", "middle") for y in ys.values()]
    end_class = "tl-end tl-on" if view.path is not None else "tl-end"
    out.append(_pill(xs[-1], middle, stops, node_width, end_class, f"stop: {caption}"))
    shown = printable(caption, int(width / 7))
    out.append(_text(18, foot, shown, "tl-t tl-soft tl-note", "start"))
    if notes:
        out.append(_text(18, foot + 18, f"({notes})", "tl-t tl-soft tl-note", "start"))
    return "\n".join([*out, "</svg>"])


_Columns = list[dict[int, tuple[float, float]]]


def _arcs(
    view: TrellisView, cut: _Cut, columns: _Columns, node_width: float
) -> tuple[list[str], str]:
    """Return the light lines; if there are too many, those of the highest values."""
    found: list[tuple[float, str]] = []
    times: list[int | None] = [-1, *cut.positions, len(view.tokens)]
    text = _number_format(view)
    is_reached = np.asarray(view.nodes) > -math.inf  # [T, S]
    lowest, least = (0.0, view.min_prob) if view.show == "marginals" else (-math.inf, -math.inf)
    for i in range(1, len(columns)):
        before, t = times[i - 1], times[i]
        if before is None or t is None:
            continue
        into = "stop" if t == len(view.tokens) else printable(view.tokens[t])
        for p, a in columns[i - 1].items():
            for s, b in columns[i].items():
                if (p >= 0 and not is_reached[before, p]) or (s >= 0 and not is_reached[t, s]):
                    continue
                title, style = f"{_name(view, p)} → {_name(view, s)} ({into})", ""
                value = _arc_value(view, t, p, s)
                if value is not None:
                    if value <= lowest or value < least:
                        continue
                    title += f": {text(value)}"
                    if view.show == "marginals":
                        style = f' style="stroke-width:{1.2 + 3 * value:.2f}"'
                found.append((value or 0.0, _curve(a, b, node_width, "tl-arc", title, style)))
    if len(found) <= MAX_ARCS:
        return [line for _, line in found], ""
    if view.edges is None:
        return [], f"{len(found)} transitions not drawn"
    kept = sorted(range(len(found)), key=lambda j: -found[j][0])[:MAX_ARCS]
    return [found[j][1] for j in sorted(kept)], f"{MAX_ARCS} of {len(found)} transitions drawn"


def _arc_value(view: TrellisView, t: int, p: int, s: int) -> float | None:
    """Return the number of the arc p → s into position t; −1 is the start or the stop.

    The probability of starting in s is that of s at the first token, and alike for the stop.
    """
    if p >= 0 and s >= 0:
        return None if view.edges is None else float(view.edges[t, p, s])
    if view.show != "marginals" or view.edges is None or p == s:
        return None
    return float(view.nodes[t, s] if p < 0 else view.nodes[t - 1, p])


def _best_segments(view: TrellisView, cut: _Cut, columns: _Columns, node_width: float) -> list[str]:
    if view.path is None:
        return []
    stops: list[int | None] = [
        -1,
        *(None if t is None else int(view.path[t]) for t in cut.positions),
        -1,
    ]
    segments = []
    for i in range(1, len(columns)):
        p, s = stops[i - 1], stops[i]
        if p in columns[i - 1] and s in columns[i] and p is not None and s is not None:
            title = f"best path: {_name(view, p)} → {_name(view, s)}"
            segments.append(_curve(columns[i - 1][p], columns[i][s], node_width, "tl-best", title))
    return segments


def _name(view: TrellisView, s: int) -> str:
    return "◇" if s < 0 else printable(view.states[s])


def _node(
    view: TrellisView,
    t: int,
    s: int,
    x: float,
    y: float,
    text: Callable[[float], str],
    width: float,
) -> str:
    value = float(view.nodes[t, s])
    marginals = view.nodes if view.show == "marginals" else view.marginals
    on_path = view.path is not None and view.path[t] == s
    is_off = value == -math.inf or (view.show == "marginals" and value == 0)
    classes = "tl-on" if on_path else "tl-off" if is_off else ""
    title = f"{printable(view.tokens[t])} / {_name(view, s)}: {view.show[:-1]} {text(value)}"
    heat = 0.0
    if marginals is not None:
        heat = float(marginals[t, s])
        title += f", probability {heat:.4f}" if view.show == "scores" else ""
    return _pill(x, y, text(value), width, classes, title, heat)


def _pill(
    x: float, y: float, label: str, width: float, classes: str, title: str, heat: float = 0.0
) -> str:
    """Return a node: a rounded box with a number, its fill as strong as its probability."""

    def box(css: str, inset: float, more: str = "") -> str:
        w, h = width - 2 * inset, _NODE_HEIGHT - 2 * inset
        return (
            f'<rect class="{css}" x="{x - w / 2:.1f}" y="{y - h / 2:.1f}" width="{w:.1f}" '
            f'height="{h:.1f}" rx="{h / 2:.1f}"{more}/>'
        )

    filled = box("tl-heat", 1.5, f' fill-opacity="{0.6 * heat:.3f}"') if heat > 0 else ""
    soft = " tl-soft" if "tl-off" in classes else " tl-strong" if "tl-on" in classes else ""
    return (
        f"<g><title>{escape(title)}</title>{box(f'tl-node {classes}'.strip(), 0)}{filled}"
        f"{_text(x, y + 4.5, label.replace('-', '−'), f'tl-t{soft}', 'middle')}</g>"
    )


def _curve(
    a: tuple[float, float],
    b: tuple[float, float],
    node_width: float,
    css: str,
    title: str,
    style: str = "",
) -> str:
    """Return a transition: a curve from the right side of one node to the left of the next.

    It leaves and arrives level, so that a steep transition does not run through its neighbours.
    """
    (x1, y1), (x2, y2) = (a[0] + node_width / 2, a[1]), (b[0] - node_width / 2, b[1])
    middle = (x1 + x2) / 2
    return (
        f'<path class="{css}" d="M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} '
        f'{x2:.1f} {y2:.1f}"{style}><title>{escape(title)}</title></path>'
    )


def _text(x: float, y: float, text: str, css: str, anchor: str) -> str:
    return (
        f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _attribute(text: str) -> str:
    return f'"{escape(text)}"'
