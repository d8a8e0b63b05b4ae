"""Results as SVG: speed relative to the peers, and lines over a range of sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from harness.results import common_origin, compare, dates, origin

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 40, 50
COLOURS = ("#0b6e99", "#d1495b", "#3a7d44", "#8d5fd3", "#b8860b", "#555555")

Series = dict[str, list[tuple[float, float]]]


def draw(report: dict[str, Any]) -> dict[str, str]:
    """Return the plots of a report by file name."""
    note = f"{common_origin(report)}; {dates(report)}"
    found = {"ratios.svg": draw_ratios(ratios(report), note)}
    for name, job in report["jobs"].items():
        for clock, file in zip(("time", "memory"), plot_names(name, job), strict=False):
            found[file] = draw_job(job, clock)
    return found


def plot_names(name: str, job: dict[str, Any]) -> list[str]:
    """Return the file names of a job's plots: two if it was run at several points."""
    has_points = any(len(c.get("points", {})) > 1 for c in job["contestants"].values())
    return [f"{name}-time.svg", f"{name}-memory.svg"] if has_points else []


# ---- lines over sizes ------------------------------------------------------------------


def draw_job(job: dict[str, Any], kind: str) -> str:
    series: Series = {}
    several = len(job["contestants"]) > 1
    for name, contestant in job["contestants"].items():
        prefix = f"{name}: " if several else ""
        clock = "wall" if contestant.get("cores", 1) > 1 else "cpu"
        for point, at in contestant.get("points", {}).items():
            if kind == "memory":
                memory = (float(point), at["peak"] / 1e6)
                series.setdefault(f"{prefix}peak", []).append(memory)
                continue
            for what, measure in at["measures"].items():
                seconds = (float(point), measure[clock]["best"])
                series.setdefault(f"{prefix}{what}", []).append(seconds)
    unit = "peak memory, MB" if kind == "memory" else "seconds"
    return lines(job["title"], job["point"], unit, series, f"{origin(job)}; {job['date']}")


def short(number: float) -> str:
    """Format a number with three significant digits."""
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"


def powers(values: Sequence[float]) -> list[float]:
    """Return the powers of ten around some values."""
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**e for e in range(first, max(last, first + 1) + 1)]


def ticks(values: Sequence[float]) -> list[float]:
    """Return the powers of ten, or the values themselves if they are close: orders, threads."""
    close = min(values) < max(values) < 10 * min(values)
    return sorted(set(values)) if close else powers(values)


def power(value: float) -> str:
    """Format a power of ten."""
    if 1e-3 <= value < 1e6:
        return f"{value:,g}"
    return f"10^{round(math.log10(value))}" if value < 1 else f"{value / 1e6:g}M"


def lines(title: str, x_label: str, y_label: str, series: Series, note: str) -> str:
    """Draw lines on logarithmic axes; each point has a tooltip with its numbers."""
    points = [point for line in series.values() for point in line]
    xs, ys = ticks([x for x, _ in points]), powers([y for _, y in points])

    def place(value: float, scale: Sequence[float], begin: float, end: float) -> float:
        share = math.log(value / scale[0]) / math.log(scale[-1] / scale[0])
        return begin + share * (end - begin)

    def at_x(value: float) -> float:
        return place(value, xs, LEFT, WIDTH - RIGHT)

    def at_y(value: float) -> float:
        return place(value, ys, HEIGHT - BOTTOM, TOP)

    parts = []
    for x in xs:
        parts.append(line(at_x(x), TOP, at_x(x), HEIGHT - BOTTOM))
        parts.append(text(at_x(x), HEIGHT - BOTTOM + 18, power(x), "middle"))
    for y in ys:
        parts.append(line(LEFT, at_y(y), WIDTH - RIGHT, at_y(y)))
        parts.append(text(LEFT - 8, at_y(y) + 4, power(y), "end"))
    for i, (name, points) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y in points:
            parts.append(
                f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3.5" fill="{colour}">'
                f"<title>{escape(name)}: {x:,g} {escape(x_label)}, {y:.3g}</title></circle>"
            )
        parts.append(text(WIDTH - RIGHT + 12, TOP + 14 + 18 * i, name, "start", colour))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_label, "middle"))
    parts.append(text(LEFT, TOP - 14, f"{title}: {y_label}", "start"))
    return svg(WIDTH, HEIGHT, parts, note)


# ---- bars of ratios --------------------------------------------------------------------


def ratios(report: dict[str, Any]) -> list[tuple[str, float]]:
    """Return tagloom's speed relative to the peer, for every time that both measured."""
    return [
        (f"{found.job}: {found.what}, {found.peer}", found.ratio)
        for job in report["jobs"].values()
        for found in compare(job)
    ]


def draw_ratios(found: Sequence[tuple[str, float]], note: str) -> str:
    """Draw a bar for each ratio, on a logarithmic axis; left of 1 the peer is faster."""
    left, row, width = 430, 20, 760
    height = TOP + row * len(found) + 30
    scale = powers([0.5, 2.0, *(ratio for _, ratio in found)])

    def at(value: float) -> float:
        share = math.log(value / scale[0]) / math.log(scale[-1] / scale[0])
        return left + share * (width - left - 60)

    parts = [text(10, 22, "Times as fast as the peer, by CPU time", "start")]
    for value in scale:
        parts.append(line(at(value), TOP - 4, at(value), height - 26))
        parts.append(text(at(value), height - 10, f"{power(value)}×", "middle"))
    for i, (name, ratio) in enumerate(found):
        y = TOP + row * i
        colour = COLOURS[0] if ratio >= 1 else COLOURS[1]
        x, end = sorted((at(1), at(ratio)))
        parts.append(text(left - 8, y + 12, name, "end"))
        parts.append(
            f'<rect x="{x:.1f}" y="{y + 2}" width="{max(end - x, 1):.1f}" height="{row - 6}" '
            f'fill="{colour}"><title>{escape(name)}: {short(ratio)}×</title></rect>'
        )
        parts.append(text(end + 5, y + 12, f"{short(ratio)}×", "start"))
    return svg(width, height, parts, note)


# ---- SVG -------------------------------------------------------------------------------


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def text(x: float, y: float, content: str, anchor: str, colour: str = "#222") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">'
        f"{escape(content)}</text>"
    )


def svg(width: int, height: int, parts: Sequence[str], note: str) -> str:
    """Join the parts, with a small line below them: place and date of the measurement."""
    small = f'<g font-size="9">{text(10, height + 8, note, "start", "#777")}</g>'
    body = "\n".join([*parts, small])
    height += 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )
