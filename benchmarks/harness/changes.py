"""What became slower since earlier results, by more than the noise of both measurements.

A speed is that of tagloom relative to a peer of the same run, which removes most of the load of
the machine; where there is no peer, units per CPU second, compared on the same kind of processor
only. The noise is the sum of the spreads of all times that enter, and at least `LEAST`. A time of
one round has no known spread and is not compared. Instructions are compared too; see
`instructions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from harness import results

LEAST = 0.05  # of a speed: quieter rounds than this are luck
LEAST_INSTRUCTIONS = 0.01


class Speed(NamedTuple):
    """A speed, larger is better, and the spread of its measurement."""

    value: float
    spread: float


class Change(NamedTuple):
    """A figure before and after, and the share of the speed that was lost between them."""

    name: str  # job and measurement
    before: float
    after: float
    loss: float  # negative if it is faster now
    noise: float

    @property
    def is_loss(self) -> bool:
        return self.loss > self.noise

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.before:,.4g} -> {self.after:,.4g}, "
            f"{self.loss:.1%} slower (noise {self.noise:.1%})"
        )


def speeds(job: dict[str, Any]) -> Iterator[tuple[str, Speed]]:
    """Yield the speeds of tagloom in a job, with names that are the same in every run."""
    beside_peers = set()
    for pair in results.compare(job):
        mine = job["contestants"][pair.ours]["measures"][pair.what]["cpu"]
        theirs = job["contestants"][pair.peer]["measures"][pair.what]["cpu"]
        if len(mine["rounds"]) > 1 and len(theirs["rounds"]) > 1:
            beside_peers.add((pair.ours, pair.what))
            name = f"{pair.ours}, {pair.what}, times as fast as {pair.peer}"
            yield name, Speed(pair.ratio, mine["spread"] + theirs["spread"])
    for contestant, found in job["contestants"].items():
        if not results.is_ours(contestant):
            continue
        for what, measure in found.get("measures", {}).items():
            cpu = measure["cpu"]
            if (contestant, what) not in beside_peers and len(cpu["rounds"]) > 1 and cpu["best"]:
                name = f"{contestant}, {what}, {measure['unit'] or 'times'} per second"
                yield name, Speed(1 / results.per_unit(measure), cpu["spread"])


def compare_jobs(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    """Yield the change of every speed that both results have, measured in the same way."""
    for name, job in after.items():
        old = before.get(name)
        if old is None or (old["quick"], old["corpus"]) != (job["quick"], job["corpus"]):
            continue
        is_same_machine = old["machine"]["cpu"] == job["machine"]["cpu"]
        old_speeds = dict(speeds(old))
        for what, speed in speeds(job):
            earlier = old_speeds.get(what)
            if earlier is None or not (is_same_machine or "times as fast as" in what):
                continue
            noise = max(LEAST, earlier.spread + speed.spread)
            loss = 1 - speed.value / earlier.value
            yield Change(f"{name}: {what}", earlier.value, speed.value, loss, noise)


def compare_counts(before: dict[str, float], after: dict[str, float]) -> Iterator[Change]:
    """Yield the change of the instructions of every hot path."""
    for name, n in after.items():
        if name in before:
            loss = 1 - before[name] / n
            yield Change(f"instructions: {name}", before[name], n, loss, LEAST_INSTRUCTIONS)


def lines_of(changes: list[Change]) -> Iterator[str]:
    """Yield what became slower, the worst first, and how many figures were compared."""
    losses = sorted((change for change in changes if change.is_loss), key=lambda c: -c.loss)
    for change in losses:
        yield f"slower: {change}"
    yield f"{len(changes)} figures compared, {len(losses)} slower by more than their noise"
