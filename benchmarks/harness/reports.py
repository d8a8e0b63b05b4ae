"""Results as text: the printed table, suite.md, and docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.corpora import SYNTHETIC
from harness.jobs import SECTIONS
from harness.plots import plot_names, short
from harness.results import common_origin, compare, dates, is_ours, origin, per_unit

Report = dict[str, Any]
PAGE = Path(__file__).parents[1] / "page.md"
NOT_REAL = "**Measured on a synthetic corpus, not on real text"


# ---- numbers ---------------------------------------------------------------------------


def duration(seconds: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            return f"{short(seconds * factor)} {unit}"
    raise AssertionError


def count(number: float) -> str:
    for factor, letter in ((1e-6, "M"), (1e-3, "k")):
        if number * factor >= 1:
            return f"{short(number * factor)}{letter}"
    return short(number)


def size(n_bytes: float) -> str:
    return f"{short(n_bytes / 1e6)} MB"


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def figure(value: float, unit: str) -> str:
    """Format the value of a goal."""
    if unit == "bytes":
        return size(value)
    if unit == "s":
        return duration(value) if value >= 0 else f"−{duration(-value)}"
    if unit == "×":
        return f"{short(value)}×"
    if unit == "%":
        return f"{value:.4g} %"
    if unit.endswith("/s"):
        return f"{count(value)} {unit}"
    return f"{short(value)} {unit}".strip()


def show_value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if name.endswith("bytes"):
        return size(value)
    if name.startswith("accuracy"):
        return f"{100 * value:.2f}%"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# ---- tables ----------------------------------------------------------------------------


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Align the columns of a Markdown table, the first to the left."""
    rows = [header, *lines]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]

    def join(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return "| " + " | ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)]) + " |"

    rule = ["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]
    return "\n".join(join(row) for row in [header, rule, *rows[1:]])


def goals_table(report: Report) -> str:
    def rows() -> Iterator[list[str]]:
        for job in report["jobs"].values():
            for goal in job["goals"]:
                sign = "≥" if goal["is_at_least"] else "≤"
                known = goal["value"] is not None
                yield [
                    f"{job['title']}: {goal['what']}",
                    figure(goal["value"], goal["unit"]) if known else "not measured",
                    f"{sign} {figure(goal['target'], goal['unit'])}",
                    {True: "yes", False: "**no**", None: "?"}[goal["met"]],
                ]

    return table(["target", "measured", "required", "met"], rows())


def warning(report: Report) -> list[str]:
    """Return a warning, placed before all figures, if some jobs used a synthetic corpus."""
    of = [j["title"] for j in report["jobs"].values() if j["corpus"].startswith(SYNTHETIC)]
    which = "all jobs" if len(of) == len(report["jobs"]) else ", ".join(of)
    return [f"{NOT_REAL}: {which}.**", ""] if of else []


def ratios_table(report: Report) -> str:
    """List every time that a peer also measured: per token, per call, or in total."""
    header = ["", "beside", "CPU", "its CPU", "ratio", "peak memory", "its peak"]

    def rows() -> Iterator[list[str]]:
        for job in report["jobs"].values():
            for found in compare(job):
                of = f" per {found.unit.removesuffix('s')}" if found.unit else ""
                yield [
                    f"{found.job}, {found.ours}: {found.what}",
                    found.peer,
                    duration_or_nano(found.mine) + of,
                    duration_or_nano(found.theirs) + of,
                    f"{short(found.ratio)}×",
                    *map(size, found.peaks),
                ]

    found = list(rows())
    return table(header, found) if found else "No peer was measured."


def job_table(job: Report) -> str:
    """List every time of a job, contestant by contestant."""
    header = ["", "CPU", "±", "wall", "±", "rate", "tagloom is"]
    ratios = {(found.peer, found.what): found.ratio for found in compare(job)}

    def times(found: Report | None) -> list[str]:
        return [duration(found["best"]), percent(found["spread"])] if found else ["—", "—"]

    def rows() -> Iterator[list[str]]:
        for name, found in job["contestants"].items():
            for what, measure in found.get("measures", {}).items():
                ratio = ratios.get((name, what))
                rate = ""
                if measure["unit"]:
                    rate = f"{count(1 / per_unit(measure))} {measure['unit']}/s"
                yield [
                    f"{name}: {what}",
                    *times(measure["cpu"]),
                    *times(measure["wall"]),
                    rate,
                    "" if ratio is None else f"{short(ratio)}×",
                ]

    return table(header, rows())


def has_times(job: Report) -> bool:
    return any(found.get("measures") for found in job["contestants"].values())


def job_facts(job: Report) -> Iterator[str]:
    """List everything but times: memory, values, and contestants that did not take part."""
    for name, found in job["contestants"].items():
        who = name if not found.get("version") else f"{name} {found['version']}"
        for reason in ("skipped", "failed"):
            if reason in found:
                yield f"- {who} {reason}: {found[reason]}"
        if not has_times(job):
            continue
        facts = [
            f"{what} {show_value(what, value)}"
            for what, value in found.get("values", {}).items()
            if not isinstance(value, (list, dict))
        ]
        if "peak" in found:
            facts.append(f"peak memory {size(found['peak'])}")
        if facts:
            yield f"- {who}: {'; '.join(facts)}"


def values_table(job: Report) -> str:
    """List a job without times: a line for each value, a column for each contestant."""
    contestants = {n: c for n, c in job["contestants"].items() if "values" in c}
    names = {name: None for c in contestants.values() for name in c["values"]}
    rows = [
        [name, *(show_value(name, c["values"].get(name, "")) for c in contestants.values())]
        for name in names
    ]
    if job["compares_memory"]:
        rows.append(["peak memory", *(size(c["peak"]) for c in contestants.values())])
    return table(["", *contestants], rows)


def points_table(job: Report) -> str:
    """List a job that was run at several points, a line for each."""
    columns: dict[str, None] = {}
    for name, found in job["contestants"].items():
        for at in found.get("points", {}).values():
            prefix = "" if len(job["contestants"]) == 1 else f"{name}: "
            columns |= {f"{prefix}{what}": None for what in at["measures"]}
            columns |= {f"{prefix}{what}": None for what in at["values"]}
            columns[f"{prefix}memory"] = None
    points = {point: None for c in job["contestants"].values() for point in c.get("points", {})}

    def cells(point: str) -> dict[str, str]:
        found = {}
        for name, contestant in job["contestants"].items():
            prefix = "" if len(job["contestants"]) == 1 else f"{name}: "
            at = contestant.get("points", {}).get(point)
            if at is None:
                continue
            for what, measure in at["measures"].items():
                threads = contestant["cores"] > 1
                seconds = per_unit(measure, "wall" if threads else "cpu")
                of = f" per {measure['unit']}" if measure["unit"] else ""
                found[f"{prefix}{what}"] = duration_or_nano(seconds) + of
            for what, value in at["values"].items():
                found[f"{prefix}{what}"] = show_value(what, value)
            found[f"{prefix}memory"] = size(at["peak"])
        return found

    rows = [[f"{float(p):,.0f}", *(cells(p).get(c, "") for c in columns)] for p in points]
    return table([job["point"], *columns], rows)


def duration_or_nano(seconds: float) -> str:
    return duration(seconds) if seconds >= 1e-6 else f"{short(seconds * 1e9)} ns"


# ---- the whole -------------------------------------------------------------------------


def versions(report: Report) -> str:
    found: dict[str, str] = {}
    for job in report["jobs"].values():
        for name, contestant in job["contestants"].items():
            mine = {name.split(",")[0]: contestant.get("version")}
            mine |= contestant.get("stands_on", {})
            found |= {package: version for package, version in mine.items() if version}
    return ", ".join(f"{name} {found[name]}" for name in sorted(found))


def loads(report: Report) -> str:
    found = [load[0] for job in report["jobs"].values() for load in job["load"].values() if load]
    return f"{min(found):.1f} to {max(found):.1f}" if found else "unknown"


def where_peers_are_better(report: Report) -> list[str]:
    """List every figure in which a peer is better than one of ours, from the results.

    Times are compared with the contestant beside the peer; sizes and accuracies with all of ours,
    and each of ours that is worse is listed with its figure.
    """
    found = []
    for job in report["jobs"].values():
        times = list(compare(job))
        ours = {n: c for n, c in job["contestants"].items() if is_ours(n) and "values" in c}
        for name, theirs in job["contestants"].items():
            if is_ours(name) or "values" not in theirs or theirs.get("beside", "tagloom") is None:
                continue
            for one in times:
                if one.peer == name and one.ratio < 1:
                    than = "" if one.ours == "tagloom" else f" as {one.ours}"
                    faster = f"{name} is {short(1 / one.ratio)}× as fast{than}"
                    found.append(f"- {one.job}: {one.what}: {faster}.")
            for what, value in comparable(job, theirs).items():
                beaten = [
                    f"{n} {show_value(what, mine[what])}"
                    for n, c in ours.items()
                    if what in (mine := comparable(job, c))
                    and (value > mine[what] if what.startswith("accuracy") else value < mine[what])
                ]
                if beaten:
                    than = "; ".join([f"{name} {show_value(what, value)}", *beaten])
                    found.append(f"- {job['title']}: {what.removesuffix(', bytes')}: {than}.")
    return found


def comparable(job: Report, contestant: Report) -> Report:
    """Return accuracies, sizes of files and, if comparable, peak memory."""
    found = {"peak memory, bytes": contestant["peak"]} if job["compares_memory"] else {}
    return found | {
        what: value
        for what, value in contestant["values"].items()
        if what.startswith("accuracy") or what.endswith("file bytes")
    }


def sections(report: Report, level: str) -> Iterator[str]:
    """Yield the lines of every job, section by section."""
    usual = common_origin(report)
    for section in SECTIONS:
        of_section = {n: j for n, j in report["jobs"].items() if j["section"] == section}
        if not of_section:
            continue
        yield from (f"{level} {section}", "")
        for name, job in of_section.items():
            yield from (f"{level}# {job['title']} (`{name}`)", "", job["about"], "")
            if origin(job) != usual:
                yield from (f"Measured elsewhere: {origin(job)}, {job['date']}.", "")
            if any("points" in found for found in job["contestants"].values()):
                yield from (points_table(job), "")
            else:
                yield from ((job_table if has_times(job) else values_table)(job), "")
            facts = list(job_facts(job))
            yield from ([*facts, ""] if facts else [])
            for plot in plot_names(name, job):
                yield from (f"![{job['title']}]({{plots}}/{plot})", "")


def write_markdown(report: Report) -> str:
    """Return the text of suite.md, which is also printed."""
    lines = [
        "# Benchmarks",
        "",
        f"- {dates(report)}; load average of the machine {loads(report)}",
        f"- {common_origin(report)}",
        f"- {versions(report)}",
        "",
        *warning(report),
        goals_table(report),
        "",
        "## All ratios",
        "",
        ratios_table(report),
        "",
        *sections(report, "##"),
    ]
    return "\n".join(lines).replace("{plots}/", "")


def write_page(report: Report) -> str:
    """Return the text of docs/benchmarks.md: benchmarks/page.md with the results inserted."""
    missed = [
        f"- {job['title']}: {goal['what']}: {figure(goal['value'], goal['unit'])} "
        f"of {figure(goal['target'], goal['unit'])}"
        for job in report["jobs"].values()
        for goal in job["goals"]
        if goal["met"] is False
    ]
    better = where_peers_are_better(report) or ["In nothing that was measured here."]
    missed = ["Targets that are missed:", "", *missed] if missed else ["No target is missed."]
    page = PAGE.read_text(encoding="utf-8")
    for name, content in {
        "dates": dates(report),
        "loads": loads(report),
        "origin": common_origin(report),
        "versions": versions(report),
        "targets": "\n".join([*warning(report), goals_table(report)]),
        "ratios": ratios_table(report),
        "better": "\n".join(better),
        "missed": "\n".join(missed),
        "sections": "\n".join(sections(report, "##")),
        "plots": "../benchmarks/results",
    }.items():
        page = page.replace("{" + name + "}", content)
    return page
