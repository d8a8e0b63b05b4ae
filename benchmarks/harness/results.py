"""The results of many jobs as one JSON file: combining rounds, checking goals, merging runs.

::

    {"jobs": {name: {
        "title", "about", "section", "point", "compares_memory", "quick", "corpus", "commit",
        "date", "machine", "python", "load", "seconds",
        "contestants": {name: {
            "version", "cores", "beside", "stands_on", "skipped" or "failed": why, or:
            "measures": {what: {"cpu": {"best", "spread", "rounds"}, "wall": the same or None,
                                "units", "unit"}},
            "values": {what: value}, "peak": bytes,
            or "points": {point: {"measures", "values", "peak"}}}},
        "goals": [{"what", "value", "target", "is_at_least", "unit", "met", "note"}]}}}

Every job records where it was measured, so that one file can hold jobs of different runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from harness.jobs import Goal


class NotMeasured(Exception):
    """A figure that a goal needs was not measured; the message has the reason."""


class Found:
    """The results of a job, for its goals: the best times and the values."""

    def __init__(self, contestants: dict[str, Any]) -> None:
        self.contestants = contestants

    def _get(self, contestant: str, point: float | None) -> dict[str, Any]:
        found = self.contestants.get(contestant, {"skipped": "it does not take part"})
        for reason in ("skipped", "failed"):
            if reason in found:
                raise NotMeasured(f"{contestant}: {found[reason]}")
        return found if point is None else found["points"][format_point(point)]

    def measure(self, contestant: str, what: str, point: float | None = None) -> dict[str, Any]:
        measures = self._get(contestant, point)["measures"]
        if what not in measures:
            raise NotMeasured(f"{contestant} has not measured {what!r}")
        return measures[what]

    def cpu(self, contestant: str, what: str, point: float | None = None) -> float:
        """Return the least CPU seconds per unit: a token, a call, an iteration."""
        found = self.measure(contestant, what, point)
        return found["cpu"]["best"] / found["units"]

    def peak(self, contestant: str, point: float | None = None) -> float:
        return self._get(contestant, point)["peak"]

    def values(self, contestant: str, point: float | None = None) -> dict[str, Any]:
        return self._get(contestant, point)["values"]

    def value(self, contestant: str, what: str, point: float | None = None) -> Any:
        values = self.values(contestant, point)
        if what not in values:
            raise NotMeasured(f"{contestant} has no value of {what!r}")
        return values[what]

    def times(self, peer: str, what: str, ours: str = "tagloom") -> float:
        """Return our speed relative to the peer, by CPU time per unit."""
        return self.cpu(peer, what) / self.cpu(ours, what)

    def ratio_of_turns(
        self, what: str, one: tuple[str, float | None], other: tuple[str, float | None]
    ) -> float:
        """Return the median over rounds of the ratio of two wall times (contestant, point).

        Turns of one round run under the same load of the machine; the best turns may not.
        """
        turns = [
            self.measure(contestant, what, point)["wall"]["rounds"]
            for contestant, point in (one, other)
        ]
        # One of them may have fewer rounds, because it takes long; the first ones correspond.
        return median(a / b for a, b in zip(*turns, strict=False))

    def points(self, contestant: str) -> list[float]:
        return [float(point) for point in self._get(contestant, None)["points"]]


def format_point(point: float) -> str:
    return f"{point:g}" if point < 1e5 else str(int(point))


def gather(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Combine the reports of one contestant's processes: the best times and their spread."""
    first = rounds[0]
    measures = {}
    for what, of_first in first["measures"].items():
        turns = [one["measures"][what] for one in rounds]
        measures[what] = {
            "cpu": summarise([turn["cpu"] for turn in turns]),
            "wall": summarise([turn["wall"] for turn in turns])
            if of_first["wall"] is not None
            else None,
            "units": of_first["units"],
            "unit": of_first["unit"],
        }
    # Values that differ between rounds depend on the times: take those of the fastest round.
    fastest = min(rounds, key=lambda one: sum(turn["cpu"] for turn in one["measures"].values()))
    return {
        "measures": measures,
        "values": fastest["values"],
        "peak": min(one["peak"] for one in rounds),
    }


def summarise(rounds: Sequence[float]) -> dict[str, Any]:
    best = min(rounds)
    return {
        "best": best,
        "spread": (max(rounds) - best) / best if best > 0 else 0.0,  # (worst − best) / best
        "rounds": list(rounds),
    }


def judge(goals: Sequence[Goal], contestants: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the value of each goal, or the reason why it is missing."""
    judged = []
    for goal in goals:
        value, note = None, None
        try:
            value = goal.find(Found(contestants))
        except NotMeasured as missing:
            note = str(missing)
        judged.append(
            {
                "what": goal.what,
                "value": value,
                "target": goal.target,
                "is_at_least": goal.at_least is not None,
                "unit": goal.unit,
                "met": None if value is None else goal.is_met(value),
                "note": note,
            }
        )
    return judged


# ---- side by side ----------------------------------------------------------------------


class Comparison(NamedTuple):
    """A time that both a peer and our contestant beside it have measured."""

    job: str  # its title
    what: str
    ours: str
    peer: str
    mine: float  # CPU seconds per unit
    theirs: float
    unit: str
    peaks: tuple[int, int]  # ours, the peer's

    @property
    def ratio(self) -> float:
        """Our speed relative to the peer's."""
        return self.theirs / self.mine


def is_ours(contestant: str) -> bool:
    return contestant.startswith("tagloom")


def per_unit(measure: dict[str, Any], clock: str = "cpu") -> float:
    return measure[clock]["best"] / measure["units"]


def compare(job: dict[str, Any]) -> Iterator[Comparison]:
    """Yield every time of a job that can be compared."""
    for name, peer in job["contestants"].items():
        ours = peer.get("beside", "tagloom")
        mine = job["contestants"].get(ours, {})
        if is_ours(name) or "measures" not in mine:
            continue
        for what, measure in peer.get("measures", {}).items():
            if what in mine["measures"]:
                times = per_unit(mine["measures"][what]), per_unit(measure)
                peaks = mine["peak"], peer["peak"]
                unit = measure["unit"]
                yield Comparison(job["title"], what, ours, name, *times, unit, peaks)


# ---- where and when --------------------------------------------------------------------


def origin(job: dict[str, Any]) -> str:
    """Return where a job was measured."""
    machine = job["machine"]
    quick = ", quick" if job["quick"] else ""
    return (
        f"commit {job['commit']}, {machine['cpu']}, {machine['cores']} cores, {machine['system']}, "
        f"Python {job['python']}, {job['corpus']}{quick}"
    )


def common_origin(report: dict[str, Any]) -> str:
    """Return the most common origin of the jobs."""
    origins = [origin(job) for job in report["jobs"].values()]
    return max(sorted(set(origins)), key=origins.count) if origins else "nothing was measured"


def dates(report: dict[str, Any]) -> str:
    found = sorted(job["date"] for job in report["jobs"].values())
    if not found:
        return ""
    return found[0] if found[0] == found[-1] else f"{found[0]} to {found[-1]}"


# ---- the file --------------------------------------------------------------------------


def read(path: Path) -> dict[str, Any]:
    """Read the results; if the file does not exist, return empty results."""
    if not path.exists():
        return {"jobs": {}}
    return json.loads(path.read_text(encoding="utf-8"))


def merge(path: Path, jobs: dict[str, Any], *, known: Sequence[str]) -> dict[str, Any]:
    """Add jobs to a file of results; jobs that no longer exist are dropped."""
    report = read(path)
    merged = {name: job for name, job in report["jobs"].items() if name in known} | jobs
    report["jobs"] = dict(sorted(merged.items()))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return report
