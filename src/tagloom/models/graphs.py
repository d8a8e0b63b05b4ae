"""The transition graph of a hidden Markov model as an SVG: states on a circle, arrows between them.

An arrow is as wide as its transition is probable. No library is needed; `plots` has the pictures
that matplotlib draws.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tagloom import checks
from tagloom.errors import ParameterError

if TYPE_CHECKING:
    from tagloom.models.hmm import HMM

Float64 = npt.NDArray[np.float64]
Point = complex  # a place in the picture: x to the right, y downwards

#: Colours of states, in their order; further ones are made by `state_colours`.
PALETTE = (
    *("#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626"),
    *("#0891b2", "#ca8a04", "#db2777", "#4d7c0f", "#64748b"),
)

_STYLE = """
.tl-bg{fill:#ffffff}.tl-t{fill:#1e293b;font-family:system-ui,-apple-system,'Segoe UI',Roboto,
'Helvetica Neue',Arial,sans-serif;font-size:13px;font-variant-numeric:tabular-nums}
.tl-name{font-weight:600}.tl-soft{fill:#64748b}.tl-note{font-size:11px}.tl-small{font-size:9px}
.tl-disc{fill:#ffffff;stroke-width:2.5}.tl-arrow{fill:none}
.tl-halo{paint-order:stroke;stroke:#ffffff;stroke-width:4px;stroke-linejoin:round}
@media (prefers-color-scheme:dark){.tl-bg{fill:#0f172a}.tl-t{fill:#e2e8f0}.tl-soft{fill:#94a3b8}
.tl-disc{fill:#1e293b}.tl-halo{stroke:#0f172a}}
"""
_RADIUS = 27.0  # of a state
_MARGIN = 74.0  # around the circle, for loops and the caption
# Numbers on the arrows of more states would cover each other.
_MOST_NUMBERS = 8


def state_colours(n: int) -> list[str]:
    """Return n colours as ``#rrggbb``, the same for a state in every picture.

    Examples
    --------
    >>> state_colours(2)
    ['#2563eb', '#ea580c']
    >>> len(set(state_colours(45)))
    45
    """
    colours = list(PALETTE[:n])
    for i in range(len(colours), n):
        hue, light = (i * 0.618034) % 1, (0.40, 0.55, 0.68)[i % 3]
        rgb = colorsys.hls_to_rgb(hue, light, 0.62)
        colours.append("#" + "".join(f"{round(255 * c):02x}" for c in rgb))
    return colours


def draw_transitions(hmm: HMM, *, min_prob: float = 0.01) -> str:
    """Draw the transitions of a hidden Markov model as a self-contained SVG.

    Each state has its long-run share as a percentage and as the strength of its colour; a tooltip
    gives the numbers of each state and arrow.

    Parameters
    ----------
    hmm : HMM
        Fitted, of order 1.
    min_prob : float, default 0.01
        Less probable transitions are not drawn.

    Returns
    -------
    str
        One ``<svg>`` element.

    Raises
    ------
    ParameterError
        If the order is above 1.

    Examples
    --------
    >>> import tagloom as tl
    >>> hmm = tl.HMM.from_probs(
    ...     ["calm", "storm"], ["low", "high"],
    ...     start=[0.9, 0.1], trans=[[0.9, 0.1], [0.2, 0.8]], emit=[[0.8, 0.2], [0.1, 0.9]],
    ... )
    >>> from tagloom.models import draw_transitions
    >>> draw_transitions(hmm).count('class="tl-arrow"')
    4
    """
    least = checks.number(min_prob, "min_prob", least=0, most=1)
    chain = hmm.chain_
    if chain.order != 1:
        raise ParameterError(
            where="draw_transitions",
            parameter="order",
            expected="a model of order 1",
            found=str(chain.order),
        )
    trans = np.exp(chain.log_trans[0])  # [Y, Y]
    stop = np.zeros(len(trans)) if chain.log_stop is None else np.exp(chain.log_stop)
    start = np.exp(chain.log_start)
    return draw_graph(list(chain_names(hmm)), trans, start, stop, least)


def chain_names(hmm: HMM) -> Sequence[str]:
    """Return the names of the states, in the order of the arrays."""
    return [str(name) for name in hmm.emission_.labels]


def draw_graph(
    names: Sequence[str], trans: Float64, start: Float64, stop: Float64, min_prob: float
) -> str:
    """Draw states and transition probabilities; see `draw_transitions`.

    Parameters
    ----------
    names : sequence of str, length Y
    trans : ndarray, shape (Y, Y)
        From → to; with a stop, rows sum to less than 1.
    start, stop : ndarray, shape (Y,)
    min_prob : float
    """
    Y = len(names)
    circle = max(Y * _RADIUS * 4.4 / (2 * math.pi), 3.4 * _RADIUS) if Y > 1 else 0.0
    half = circle + _RADIUS + _MARGIN
    width, height = 2 * half, 2 * half + 16
    if Y == 2:
        height -= 2 * circle  # both states are on one line
    centre = complex(half, (height - 16) / 2)
    turns = [2 * math.pi * (y / Y) - (math.pi if Y == 2 else math.pi / 2) for y in range(Y)]
    outward = [complex(math.cos(turn), math.sin(turn)) for turn in turns]
    places = [centre + circle * direction for direction in outward]
    colours, shares = state_colours(Y), long_run_shares(trans, start, stop)
    caption = f"transitions between {checks.plural(Y, 'state')}"
    arrows, numbers, n_hidden = _arrows(names, trans, places, outward, colours, min_prob)
    notes = ["width: probability", "percent: share of tokens"]
    notes += [f"{n_hidden} below {min_prob:g} not drawn"] if n_hidden else []
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{escape(caption)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="tl-bg" width="{width:.0f}" height="{height:.0f}" rx="12"/>',
        *arrows,
    ]
    for y in range(Y):
        out.append(_disc(names[y], places[y], colours[y], shares[y], float(stop[y])))
    out += numbers
    joined = " · ".join(notes)
    lines = [joined] if 6 * len(joined) < width else [" · ".join(notes[:2]), *notes[2:]]
    lines = lines if 6 * len(lines[0]) < width else notes
    for i, line in enumerate(reversed(lines)):
        out.append(_text(complex(half, height - 16 - 15 * i), line, "tl-t tl-soft tl-note"))
    return "\n".join([*out, "</svg>"])


def long_run_shares(trans: Float64, start: Float64, stop: Float64) -> Float64:
    """Return the share of tokens in each state in the long run [Y].

    With a stop, a new sequence begins after each end.

    Examples
    --------
    >>> import numpy as np
    >>> none = np.zeros(2)
    >>> long_run_shares(np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([1.0, 0.0]), none).round(3)
    array([0.75, 0.25])
    """
    Y = len(trans)
    total = trans.sum(axis=1) + stop
    onward = (trans + np.outer(stop, start)) / np.where(total > 0, total, 1)[:, None]  # [Y, Y]
    # Solve p = p · onward, Σ p = 1 by least squares; several solutions: the smallest.
    equations = np.vstack([onward.T - np.eye(Y), np.ones(Y)])
    shares = np.linalg.lstsq(equations, np.append(np.zeros(Y), 1.0), rcond=None)[0]
    shares = np.clip(shares, 0, None)
    return np.asarray(shares / max(shares.sum(), 1e-300))


# ---- parts of the picture ------------------------------------------------------------------------


def _arrows(
    names: Sequence[str],
    trans: Float64,
    places: Sequence[Point],
    outward: Sequence[Point],
    colours: Sequence[str],
    min_prob: float,
) -> tuple[list[str], list[str], int]:
    """Return arrows, the numbers on them, and how many possible transitions are not drawn."""
    arrows: list[tuple[float, str]] = []
    numbers: list[str] = []
    n_hidden = 0
    Y = len(names)
    for y_prev in range(Y):
        for y in range(Y):
            p = float(trans[y_prev, y])
            if p < min_prob or p <= 0:
                n_hidden += p > 0
                continue
            if y == y_prev:
                curve, at = _loop(places[y], outward[y] if Y > 1 else -1j, p)
            else:
                curve, at = _bow(places[y_prev], places[y], p)
            title = f"{names[y_prev]} → {names[y]}: {p:.4f}"
            arrows.append((p, _arrow(curve, colours[y_prev], p, title)))
            if Y <= _MOST_NUMBERS and p >= (0.005 if Y <= 4 else 0.1):
                numbers.append(_text(at, f"{p:.2f}", "tl-t tl-note tl-halo"))
    return [arrow for _, arrow in sorted(arrows)], numbers, n_hidden


Curve = tuple[Point, Point, Point, Point]  # a cubic Bézier curve


def _width(p: float) -> float:
    return 1 + 6 * p


def _head(p: float) -> float:
    """Length of an arrow's head."""
    return 7 + 1.6 * _width(p)


def _bow(a: Point, b: Point, p: float) -> tuple[Curve, Point]:
    """Return a bowed curve from one disc to another, and the place of its number."""
    along = (b - a) / abs(b - a)
    side = along * 1j  # to the right of the direction, since y points downwards
    bend = (a + b) / 2 + side * 0.20 * abs(b - a)
    begin = a + _RADIUS * (bend - a) / abs(bend - a)
    end = b + (_RADIUS + 2 + _head(p)) * (bend - b) / abs(bend - b)
    curve = (begin, begin + (bend - begin) * 2 / 3, end + (bend - end) * 2 / 3, end)
    return curve, _at(curve, 0.32)


def _loop(place: Point, outward: Point, p: float) -> tuple[Curve, Point]:
    """Return a loop on the outer side of a disc, and the place of its number."""
    spread = 0.55  # half of the angle between the ends
    begin = place + _RADIUS * outward * complex(math.cos(spread), -math.sin(spread))
    direction = outward * complex(math.cos(spread), math.sin(spread))
    end = place + (_RADIUS + 2 + _head(p)) * direction
    reach = 1.9 * _RADIUS
    curve = (begin, begin + reach * (begin - place) / _RADIUS, end + 0.9 * reach * direction, end)
    return curve, _at(curve, 0.5) + 4 * outward


def _at(curve: Curve, t: float) -> Point:
    a, b, c, d = curve
    s = 1 - t
    return s**3 * a + 3 * s * s * t * b + 3 * s * t * t * c + t**3 * d


def _arrow(curve: Curve, colour: str, p: float, title: str) -> str:
    """Return a curve that ends in a triangle."""
    _, _, before, end = curve
    direction = (end - before) / abs(end - before)
    tip, half = end + direction * _head(p), (2.4 + 1.1 * _width(p)) * 1j * direction
    numbers = [f"{part:.1f}" for point in curve for part in (point.real, point.imag)]
    path = f"M{' '.join(numbers[:2])}C{' '.join(numbers[2:])}"
    corners = " ".join(f"{q.real:.1f},{q.imag:.1f}" for q in (tip, end + half, end - half))
    return (
        f'<g opacity="{0.35 + 0.65 * p:.2f}"><title>{escape(title)}</title>'
        f'<path class="tl-arrow" d="{path}" stroke="{colour}" stroke-width="{_width(p):.1f}"/>'
        f'<polygon points="{corners}" fill="{colour}"/></g>'
    )


def _disc(name: str, at: Point, colour: str, share: float, stop: float) -> str:
    title = f"{name}: {share:.1%} of tokens" + (f", ends with {stop:.4f}" if stop else "")
    shape = f'cx="{at.real:.1f}" cy="{at.imag:.1f}" r="{_RADIUS:g}"'
    shown = name if len(name) <= 10 else f"{name[:9]}…"
    css = "tl-t tl-name" if len(shown) <= 6 else "tl-t tl-name tl-small"
    return (
        f'<g><title>{escape(title)}</title><circle class="tl-disc" {shape} stroke="{colour}"/>'
        f'<circle {shape} fill="{colour}" fill-opacity="{0.08 + 0.42 * share:.3f}"/>'
        f"{_text(at - 2j, shown, css)}"
        f"{_text(at + 13j, f'{share:.0%}', 'tl-t tl-note')}</g>"
    )


def _text(at: Point, text: str, css: str) -> str:
    place = f'x="{at.real:.1f}" y="{at.imag + 4:.1f}" text-anchor="middle"'
    return f'<text class="{css}" {place}>{escape(text)}</text>'
